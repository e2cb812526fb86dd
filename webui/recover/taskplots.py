"""Drawings of a session: the accuracy matrix, what tasks share and read of each other, bits against accuracy."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

from webui import words
from webui.view import Node, h

WIDE, TALL, LEFT, TOP, BOTTOM = 720, 330, 52, 30, 44
STEPS = (0.55, 0.65, 0.75, 0.85, 0.92, 0.96, 0.99)  # where the heat map gets a shade darker
FLOORS = (98, 95, 90, 80, 70, 60, 50, 40, 20, -1)  # where the axis of accuracy may begin
MARKS = {"learn": ("+", "learned"), "forget": ("−", "forgot"), "restore": ("↺", "restored")}


def heat_map(matrix: Sequence[Mapping[str, Any]], count: int) -> Node:
    """Rows are steps, columns tasks; forgetting and restoring are marked in the row and in the task's cell."""
    head = h("tr", h("th", "After", scope="col"), *(h("th", f"task {task}", scope="col") for task in range(count)))
    rows = []
    for row in matrix:
        sign, word = MARKS[row["event"]]
        label = h("th", h("span", sign, cls=f"mark {row['event']}", aria_hidden="true"), f" {word} {row['task']}")
        cells = []
        for task in range(count):
            own = f" own {row['event']}" if task == row["task"] else ""
            score = row["scores"].get(task)
            text = "" if score is None else f"{100 * score:.1f}"
            text = {"forget": "gone", "restore": f"↺ {text}"}.get(row["event"], text) if own else text
            cells.append(h("td", text, cls=f"l{level(score)}{own}"))
        rows.append(h("tr", label, *cells, cls=row["event"]))
    table = h("table", h("thead", head), h("tbody", *rows), cls="heat")
    return h("div", table, cls="scroll", tabindex="0", role="region", aria_label="Accuracy after each step, per cent")


def level(share: float | None) -> str:
    """The shade of a cell; none where there is no number."""
    return "none" if share is None else str(sum(share >= step for step in STEPS))


def overlap_map(overlap: Mapping[tuple[int, int], float]) -> Node:
    """The Jaccard index of what two live tasks use, in per cent."""
    tasks = sorted({a for a, _ in overlap})
    head = h("tr", h("td"), *(h("th", f"task {task}", scope="col") for task in tasks))
    body = [
        h("tr", h("th", f"task {a}", scope="row"), *(h("td", *shared(overlap[a, b], a == b)) for b in tasks))
        for a in tasks
    ]
    table = h("table", h("thead", head), h("tbody", *body), cls="heat shares")
    return h("div", table, cls="scroll", tabindex="0", role="region", aria_label="Overlap of the masks, per cent")


def shared(share: float, is_itself: bool) -> tuple[Node]:
    return (
        h("span", "–" if is_itself else f"{100 * share:.0f}", cls=f"cell o{'none' if is_itself else round(9 * share)}"),
    )


def dependents_graph(tasks: Sequence[Mapping[str, Any]]) -> Node:
    """Live tasks in a row; an arrow goes from a task to a later one that was built on it."""
    live = [line for line in tasks if line["state"] == "live"]
    place = {line["task"]: 40 + 76 * index for index, line in enumerate(live)}
    arrows, spoken = [], []
    for line in live:
        for reader, why in line["dependents"].items():
            a, b = place[line["task"]], place[reader]
            high = 20 + 0.28 * abs(b - a)
            end = b - math.copysign(9, b - a)
            arrows.append(h("path", d=f"M{a} 92 C{a} {92 - high:.0f} {end} {92 - high:.0f} {end} 90", cls="arc"))
            arrows.append(h("path", d=f"M{end - 5} 82 L{end} 91 L{end + 5} 82", cls="arc tip"))
            spoken.append(h("li", f"Task {reader} reads {why} of task {line['task']}."))
    if not spoken:
        return h("p", "No live task reads anything of another: each can leave without a trace.", cls="quiet")
    dots = []
    for task, x in place.items():
        dots += [h("circle", cx=x, cy=106, r=15, cls="node"), h("text", task, x=x, y=111, text_anchor="middle")]
    wide = max(place.values()) + 40
    size = {"viewBox": f"0 0 {wide} 130", "width": wide, "height": 130}
    drawing = h("svg", *arrows, *dots, **size, role="img", aria_label="Which task was built on which")
    return h("div", h("div", drawing, cls="graph"), h("details", h("summary", "In words"), h("ul", *spoken)))


def bits_plot(dots: Sequence[Mapping[str, Any]]) -> Node:
    """Bytes a task costs (log) against accuracy: title, bytes, accuracy, kind (family, reference or own)."""
    sizes, scores = [dot["bytes"] for dot in dots], [100 * dot["accuracy"] for dot in dots]
    low, high = math.floor(math.log10(min(sizes))), math.ceil(math.log10(max(sizes)) + 0.05)
    floor = next(line for line in FLOORS if line < min(scores) - 0.3)

    def x(size: float) -> float:
        return LEFT + (WIDE - LEFT - 30) * (math.log10(size) - low) / max(high - low, 1)

    def y(score: float) -> float:
        return TOP + (TALL - TOP - BOTTOM) * (100 - score) / (100 - floor)

    drawn = [*grid(x, y, low, high, floor), *marks(dots, x, y)]
    label = "Bytes per task against mean accuracy; the table below has the numbers"
    svg = h("svg", *drawn, viewBox=f"0 0 {WIDE} {TALL}", role="img", aria_label=label)
    return h("div", h("div", svg, cls="scatter"), cls="scroll", tabindex="0", role="region", aria_label=label)


def grid(x: Any, y: Any, low: int, high: int, floor: int) -> list[Node]:
    drawn = []
    for power in range(low, high + 1):
        at = f"{x(10**power):.1f}"
        drawn.append(h("line", x1=at, x2=at, y1=TOP - 10, y2=TALL - BOTTOM, cls="grid"))
        drawn.append(h("text", words.weight(10**power), x=at, y=TALL - BOTTOM + 18, text_anchor="middle"))
    step = 1 if 100 - floor <= 5 else 5 if 100 - floor <= 30 else 10
    for score in range(floor, 101, step):
        at = f"{y(score):.1f}"
        drawn.append(h("line", x1=LEFT, x2=WIDE - 20, y1=at, y2=at, cls="grid"))
        drawn.append(h("text", f"{score} %", x=LEFT - 8, y=f"{y(score) + 4:.1f}", text_anchor="end"))
    drawn.append(h("text", "bytes per task", x=(LEFT + WIDE) / 2, y=TALL - 6, text_anchor="middle", cls="axis"))
    return drawn


def marks(dots: Sequence[Mapping[str, Any]], x: Any, y: Any) -> list[Node]:
    """Dots and their names; a name moves up or down until it covers no other."""
    taken: list[tuple[float, float, float, float]] = []
    lines, shown = [], []
    for dot in sorted(dots, key=lambda dot: dot["bytes"]):
        a, b = x(dot["bytes"]), y(100 * dot["accuracy"])
        half = 3.6 * len(dot["title"]) + 4
        for shift in (-12, 22, -28, 38, 54, -44, 70, 86, 102, 118):
            box = (a - half, a + half, b + shift - 12, b + shift + 3)
            if box[2] > 2 and not any(covers(box, other) for other in taken):
                break
        taken.append(box)
        if shift not in (-12, 22):
            near = b + shift + (5 if shift < 0 else -13)
            lines.append(h("line", x1=f"{a:.1f}", x2=f"{a:.1f}", y1=f"{b:.1f}", y2=f"{near:.1f}", cls="lead-line"))
        shown.append(h("circle", cx=f"{a:.1f}", cy=f"{b:.1f}", r=6, cls=f"point {dot['kind']}"))
        shown.append(
            h("text", dot["title"], x=f"{a:.1f}", y=f"{b + shift:.1f}", text_anchor="middle", cls=f"name {dot['kind']}")
        )
    return lines + shown


def covers(one: tuple[float, ...], other: tuple[float, ...]) -> bool:
    return one[0] < other[1] and other[0] < one[1] and one[2] < other[3] and other[2] < one[3]


def bits_table(dots: Sequence[Mapping[str, Any]]) -> Node:
    head = h("tr", *(h("th", name, scope="col") for name in ("Method", "Bytes per task", "Accuracy", "From")))
    body = [
        h(
            "tr",
            h("td", dot["title"]),
            h("td", f"{dot['bytes']:,.0f}"),
            h("td", f"{100 * dot['accuracy']:.1f} %"),
            h("td", dot["source"], cls="quiet"),
        )
        for dot in sorted(dots, key=lambda dot: dot["bytes"])
    ]
    return h(
        "details", h("summary", "The numbers"), h("div", h("table", h("thead", head), h("tbody", *body)), cls="scroll")
    )
