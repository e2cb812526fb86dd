"""Check: what a feature erasure did, in words first, with the pictures that show it worst."""

from engine.core.joblog import Row
from engine.studio import Studio
from webui import pictures
from webui.compare import pairs
from webui.runview import metric_card, metric_cards, unchecked
from webui.view import Node, h

SHOWN = 6  # samples of each kind
ERASED = 0.9  # of those that showed it before
LITTLE = 0.05  # LPIPS
POINTS = 3.0


def checked(studio: Studio, row: Row, owner: str) -> tuple[Node, list[dict]]:
    """The cards, and before/after pairs: labelled ones, then those without the feature that changed most."""
    verdict, target = row.result["verdict"], row.params["target"]
    seeds = dict.fromkeys(target["having"][:SHOWN], "had it")
    seeds |= dict.fromkeys(verdict.get("still", [])[:SHOWN], "still shows it")
    seeds |= dict.fromkeys(verdict.get("most changed", [])[:SHOWN], "changed most")
    size = pictures.small(studio, row.params["base"])
    sides = pictures.before_and_after(studio, row, list(seeds), psi=target["psi"], size=size, owner=owner)
    return [h("h2", "Check"), *told(verdict)], pairs(*sides, list(seeds.values()))


def told(verdict: dict) -> list[Node]:
    """The cards, then what a reader of them must know."""
    if "unchecked" in verdict:
        return [unchecked(verdict)]
    if "erased" not in verdict:  # stored before each feature had figures of its own
        return [h("p", text) for text in verdict["words"]]
    caveats = [h("div", h("p", text), cls="note") for text in verdict["caveats"]]
    return [cards(verdict), *caveats]


def cards(verdict: dict) -> Node:
    erased = [left(feature, figures) for feature, figures in verdict["erased"].items()]
    return metric_cards([card for card in (*erased, kept(verdict), moved(verdict)) if card])


def left(feature: str, figures: dict | None) -> Node:
    """What is left of one erased feature; there are no figures where no judge knows it."""
    if figures is None:
        says = "No judge on this machine knows it"
        return metric_card(f"“{feature}”", says, "Look at the pairs, or answer the blind check below.", "warn")
    after, before, removed = figures["after"], figures["before"], figures["removed"]
    if removed is None:
        says = f"The judge saw it in none of {before['of']} fresh samples before, and in {after['count']} now"
        return metric_card(f"“{feature}”", says, "So it cannot say what is gone; look at the pairs.", "warn")
    says = figures["gone"][:1].upper() + figures["gone"][1:]
    counts = f"In {after['count']} of {after['of']} fresh samples, was in {before['count']}"
    number = f"{counts}; 95 % interval of what is left {after['low']:.1f} to {after['high']:.1f} %"
    return metric_card(f"“{feature}”", says, number, "good" if removed >= ERASED else "warn")


def kept(verdict: dict) -> Node:
    without = "Samples without it" if len(verdict["erased"]) == 1 else "Samples without any of them"
    distance, samples = verdict["unaffected"]["lpips"], verdict["unaffected"]["samples"]
    if not samples:
        return metric_card(without, "There are none", "The judge saw what was erased in every fresh sample before.")
    if distance is None:
        pixels = verdict["unaffected"]["pixels"] / 2
        return metric_card(without, f"Pixels moved by {pixels:.1%} of the range", f"{samples} samples", "")
    how = (
        "hardly changed" if distance <= LITTLE / 2 else "changed a little" if distance <= LITTLE else "visibly changed"
    )
    number = f"LPIPS {distance:.3f} over {samples} samples at the same seeds; the goal is {LITTLE}"
    return metric_card(without, how[:1].upper() + how[1:], number, "good" if distance <= LITTLE else "bad")


def moved(verdict: dict) -> Node | None:
    if not verdict.get("drift"):
        return None
    name, row = max(verdict["drift"].items(), key=lambda item: abs(item[1]["points"]))
    few = abs(row["points"]) <= POINTS
    says = f"Nothing else moved by more than {POINTS:g} points" if few else f"Also moved: {name}"
    return metric_card("Everything else", says, f"Most: {name} {row['points']:+.1f} points", "good" if few else "warn")
