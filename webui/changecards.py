"""How two versions differ, in cards: words first, the number second, and what it means on demand."""

from collections.abc import Mapping
from typing import Any

from webui import words
from webui.runview import metric_card, metric_cards
from webui.view import Node, h

LOOKS = ((0.01, "Look the same"), (0.025, "Hardly changed"), (0.05, "Changed a little"), (0.2, "Visibly changed"))
MEANING = {
    "How it looks": "LPIPS: how different two pictures look to a network fitted to people's judgements. 0 is the same; "
    "the project's goal for what should stay is 0.05 or less; two random faces are near 0.6.",
    "Pixels": "The mean difference of all colour values, as a share of the range from black to white. It counts what "
    "nobody would notice, and misses that a small change may be a different person.",
    "Same people": "The likeness of each face before and after, by a face recogniser that no erasure was trained with: "
    "1 is the same face, strangers of this model are near 0.",
    "What it shows": "How often eleven features are seen before and after, by a judge of ours that errs too. With few "
    "pairs the interval is wide.",
}


def change_cards(found: Mapping[str, Any]) -> Node:
    """From Studio.measure; what this machine could not measure is left out."""
    count = words.plural(found["pairs"], "pair")
    cards = [pixels_card(found, count)]
    if "lpips" in found:
        cards.insert(0, looks_card(found["lpips"], count))
    if "likeness" in found:
        cards.append(people_card(found["likeness"], found["strangers"]))
    if found.get("drift"):
        cards.append(drift_card(found["drift"], count))
    return metric_cards(cards)


def looks_card(figure: tuple, count: str) -> Node:
    says = next((said for limit, said in LOOKS if figure[0] <= limit), "Other pictures")
    return explained("How it looks", says, f"LPIPS {spread(figure, '.3f')}, {count}")


def pixels_card(found: Mapping[str, Any], count: str) -> Node:
    equal = found["equal"]
    says = f"All {count} are equal" if equal == found["pairs"] else f"{equal} of {count} are equal"
    mean, low, high = (100 * value for value in found["pixels"])
    return explained("Pixels", says, f"differ by {spread((mean, low, high), '.2f')} % at {found['side']} px")


def people_card(figure: tuple, strangers: float) -> Node:
    says = "The same people" if figure[0] >= 0.9 else "Mostly the same people"
    says = says if figure[0] >= 0.7 else "Other people" if figure[0] <= strangers else "Partly other people"
    return explained("Same people", says, f"likeness {spread(figure, '.2f')}; three of four strangers: {strangers:.2f}")


def drift_card(drift: Mapping[str, Mapping[str, float]], count: str) -> Node:
    name, row = max(drift.items(), key=lambda item: abs(item[1]["points"]))
    if not row["points"]:
        return explained("What it shows", "No feature is seen more or less often", count)
    how = "less" if row["points"] < 0 else "more"
    number = f"{row['before']:.0f} % before, {row['after']:.0f} % after (± {row['error']:.0f} points), {count}"
    return explained("What it shows", f"Moved most: {name}, {how} often", number)


def explained(what: str, says: str, number: str) -> Node:
    card = metric_card(what, says, number)
    return [*card, h("details", h("summary", "What this means"), h("p", MEANING[what], cls="small"), cls="small")]


def spread(figure: tuple, form: str) -> str:
    mean, low, high = (format(value, form) for value in figure)
    return f"{mean} (95 % interval {low} to {high})"
