"""The person on the identity page: their photo with the face's box, what was found, who takes their place, the verdict.

Only the drawing is here; every number comes from the engine's verdict.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from webui.runview import metric_card, metric_cards, unchecked
from webui.view import Node, h

Box = tuple[float, float, float, float]


def photo_tree(source: str, boxes: Sequence[Box], chosen: int | None) -> Node:
    """The photo with a frame around every face; the chosen one's is thick."""
    frames = [
        h(
            "rect",
            x=f"{100 * x1:.2f}",
            y=f"{100 * y1:.2f}",
            width=f"{100 * (x2 - x1):.2f}",
            height=f"{100 * (y2 - y1):.2f}",
            cls="chosen" if index == chosen else "",
        )
        for index, (x1, y1, x2, y2) in enumerate(boxes)
    ]
    words = (
        "This person?" if len(boxes) == 1 else f"{len(boxes)} faces: which one?" if chosen is None else "This person?"
    )
    frame = h("svg", *frames, viewBox="0 0 100 100", preserveAspectRatio="none", aria_hidden="true")
    shown = h("div", h("img", src=source, alt="Your photo"), frame, cls="framed")
    return h("figure", shown, h("figcaption", words), cls="photo")


def found_tree(photo: Node | None, source: str | None, words: str, share: float | None = None) -> Node:
    """The photo, and beside it what the generator makes of it, so far or at the end."""
    bar = h("progress", value=f"{share:.3f}", max=1, aria_label="found") if share is not None else None
    image = h("img", src=source, alt="As the generator shows them") if source else h("div", cls="blank")
    return h("div", photo, h("figure", image, h("figcaption", words), bar, cls="found"), cls="person")


def strip_tree(chosen: str, along: Sequence[tuple[float, str]], distance: float) -> Node:
    """Who would be shown instead, and what other distances would give."""
    nearest = min((d for d, _ in along), key=lambda d: abs(d - distance), default=None)
    row = [
        h(
            "figure",
            h("img", src=source, alt=f"At distance {d:.1f}"),
            h("figcaption", "average" if d == 0 else f"{d:.1f}"),
            cls="chosen" if d == nearest else "",
        )
        for d, source in along
    ]
    shown = h("figure", h("img", src=chosen, alt="Who takes their place"), h("figcaption", "shown instead"), cls="new")
    return h("div", shown, h("div", *row, cls="row-of-faces") if row else None, cls="stand-ins")


def verdict_cards(verdict: Mapping[str, Any]) -> Node:
    """Three cards: this person, their other photos, everyone else. Words first, the engine's number second."""
    if "unchecked" in verdict:
        return unchecked(verdict)
    mean, high, _ = verdict["strangers"]
    scale = f"strangers: {mean:.2f} on average, three of four below {high:.2f}"
    if verdict.get("same_person"):
        scale += "; two photos of one person: {:.2f} to {:.2f}".format(*verdict["same_person"])
    cards = [
        gone_card("This person", verdict["person"], high, f"likeness before and after {{}}; {scale}"),
        other_photos_card(verdict.get("other_photos"), high),
        kept_card(verdict["everyone"], verdict["drift"]),
    ]
    return h("div", metric_cards(cards), matrix_table(verdict["people"]) if "people" in verdict else None)


def matrix_table(people: Mapping[str, Any]) -> Node:
    """Who is still forgotten after each erasure, and whether two of them now look alike."""
    head = h("tr", h("th", "After"), *(h("th", name, scope="col") for name in people["names"]))
    rows = [
        h("tr", h("th", f"erasure {n}", scope="row"), *(h("td", f"{value:.2f}") for value in row))
        for n, row in enumerate(people["matrix"], start=1)
    ]
    (was, _), (now, most) = people["alike"]["before"], people["alike"]["after"]
    words = f"Two of them are alike by {was:.2f} before and {now:.2f} after, at most {most:.2f}."
    caption = h("caption", "Each person's likeness before and after, once each erasure is applied")
    return h("div", h("table", caption, h("thead", head), h("tbody", *rows)), h("p", words, cls="quiet"), cls="matrix")


def gone_card(what: str, figure: Sequence[float], high: float, number: str) -> Node:
    left = figure[0]
    says, tone = ("Still recognisable", "bad")
    if left <= high:
        says, tone = ("Now a stranger", "good")
    elif left <= 0.5:
        says, tone = ("Hardly recognisable", "warn")
    return metric_card(what, says, number.format(f"{left:.2f}"), tone)


def other_photos_card(figure: Sequence[float] | None, high: float) -> Node:
    what = "Their other photos"
    if figure is None:
        return metric_card(what, "Not measured", "no other photo was given")
    return gone_card(what, figure, high, "likeness before and after {}")


def kept_card(kept: Sequence[float], drift: Sequence[float]) -> Node:
    says, tone = ("Others change visibly", "bad")
    if kept[0] >= 0.9:
        says, tone = ("As before", "good")
    elif kept[0] >= 0.8:
        says, tone = ("Slightly changed", "warn")
    number = f"likeness before and after {kept[0]:.2f} (1 is untouched), LPIPS {drift[0]:.3f}"
    return metric_card("Everyone else", says, number, tone)
