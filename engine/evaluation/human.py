"""A check by people: pairs of one seed before and after, sides drawn by lot, so that nobody knows which is which."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch

from engine.core.errors import UserError
from engine.evaluation.shares import Share

ANSWERS = ("left", "right", "both", "neither")  # which picture shows the feature


@dataclass(frozen=True)
class Pair:
    """One question. `after_is_left` is the key and is not shown."""

    number: int
    seed: int
    after_is_left: bool


def blind(likely: Sequence[int], others: Sequence[int], count: int, seed: int) -> list[Pair]:
    """Half of the pairs from seeds that probably showed the feature, half from others, in an order drawn by lot."""
    random = torch.Generator().manual_seed(seed)
    half = min(count // 2, len(likely))
    seeds = [*list(likely)[:half], *list(others)[: count - half]]
    order = torch.randperm(len(seeds), generator=random).tolist()
    sides = torch.rand(len(seeds), generator=random) < 0.5
    return [Pair(k, seeds[index], bool(sides[k])) for k, index in enumerate(order)]


def tally(pairs: Sequence[Pair], answers: Mapping[int, str]) -> dict[str, object]:
    """Answers by number of the pair, resolved with the key: how often each model showed the feature, and how often it
    is gone where it was."""
    wrong = {answer for answer in answers.values() if answer not in ANSWERS}
    if wrong:
        raise UserError(f"answer {sorted(wrong)[0]!r}: must be one of {', '.join(ANSWERS)}")
    old, new, still = 0, 0, 0
    asked = [pair for pair in pairs if pair.number in answers]
    for pair in asked:
        answer = answers[pair.number]
        after = answer in ("both", "left" if pair.after_is_left else "right")
        before = answer in ("both", "right" if pair.after_is_left else "left")
        old, new, still = old + before, new + after, still + (before and after)
    return {
        "answered": len(asked),
        "before": Share(old, len(asked)).plain(),
        "after": Share(new, len(asked)).plain(),
        "still there": Share(still, old).plain(),
    }
