"""How far labelling has come, in words."""

import math
import time

from engine.core.labelbook import Counts

ENOUGH = 10  # labels on each side, of samples drawn at random: what the engine asks for


def short_of(counts: Counts) -> str:
    """What is missing until erasing makes sense, in a sentence; empty when nothing is."""
    drawn = counts.random
    sides = {"with": ENOUGH - drawn.having, "without": ENOUGH - drawn.lacking}
    need = [f"{n} more {side}" for side, n in sides.items() if n > 0]
    if len(need) == 1 and not min(counts.having, counts.lacking):
        alike, other = ("with", "without") if counts.having else ("without", "with")
        return f"All labels say “{alike}”. Add some {other}."
    only = ", drawn at random: the next batch has only such samples" if drawn != counts else ""
    return f"Label {' and '.join(need)}{only}." if need else ""


def told(counts: Counts) -> dict[str, str]:
    """What the grid says of all labels, and how far they have come: the page differs with none, too few and
    enough. Once there are enough, every save is a stage of its own, for it may change the advice."""
    missing, drawn = short_of(counts), counts.random
    words = missing or "Enough to begin; twenty on each side are better."
    stage = f"enough {time.time_ns()}" if not missing else "some" if counts.having + counts.lacking else "none"
    of_them = f", {drawn.having} and {drawn.lacking} of them drawn at random" if drawn != counts else ""
    return {"note": f"{counts.having} with and {counts.lacking} without in all{of_them}. {words}", "stage": stage}


def quality(auc: float, enough: bool) -> str:
    """How well labels drawn at random are foretold by a probe that had not seen them."""
    if math.isnan(auc):
        return ""
    found = f"From the other labels, a probe tells a sample with it from one without in {100 * auc:.0f} % of pairs."
    if enough:
        return f"{found} That is good and steady: you have labelled enough."
    if auc >= 0.9:
        return f"{found} That is good; a page or two more will show whether it stays."
    return f"{found} Label on; 90 % is good."
