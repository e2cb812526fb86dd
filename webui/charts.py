"""Drawings of what classifiers answer, as nodes for a View: bars by class, confusion, a map of features, chances.

Colours come from charts.css by class name: .s0 .s1 .s2 are the networks, .k0 to .k9 the classes, .q0 to .q10 shares.
"""

from collections.abc import Mapping, Sequence

from webui.view import Node, h

MOST = 20  # classes that a matrix can show and still be read
HUES = 10


def legend(names: Sequence[str]) -> Node:
    keys = [h("span", h("em", cls=f"key s{index}"), name) for index, name in enumerate(names)]
    return h("p", *keys, cls="legend")


def class_bars(classes: Sequence[str], series: Mapping[str, Sequence[float]], marked: Sequence[str]) -> Node:
    """For each class one bar per network, in per cent; marked classes first and in bold."""
    order = sorted(range(len(classes)), key=lambda index: (classes[index] not in marked, index))
    rows = []
    for index in order:
        values = {name: numbers[index] for name, numbers in series.items()}
        spoken = ", ".join(f"{name} {value:.0f} %" for name, value in values.items())
        bars = [
            h("rect", x=0, y=8 * row, width=f"{max(value, 0.6):.1f}", height=6, cls=f"s{row}")
            for row, value in enumerate(values.values())
        ]
        drawing = h(
            "svg",
            *bars,
            viewBox=f"0 0 100 {8 * len(values)}",
            preserveAspectRatio="none",
            role="img",
            aria_label=f"{classes[index]}: {spoken}",
        )
        name = h("b", classes[index]) if classes[index] in marked else classes[index]
        numbers = " · ".join(f"{value:.0f}" for value in values.values())
        rows.append(h("li", h("span", name, cls="name"), drawing, h("span", numbers, cls="value")))
    return h("figure", legend(list(series)), h("ul", *rows, cls="bars"), cls="chart")


def confusion(title: str, counts: Sequence[Sequence[int]], classes: Sequence[str], marked: Sequence[str]) -> Node:
    """Rows are the true classes, columns the answers; the darker, the more."""
    if len(classes) > MOST:
        return h("p", f"{title}: {len(classes)} classes are too many for a matrix.", cls="quiet")
    head = h("tr", h("td"), *(h("th", short(name), scope="col", title=name) for name in classes))
    body = []
    for name, row in zip(classes, counts, strict=True):
        total = sum(row) or 1
        cells = [h("td", count or "", cls=f"q{round(10 * count / total)}") for count in row]
        label = h("th", h("b", name) if name in marked else name, scope="row")
        body.append(h("tr", label, *cells))
    return h(
        "figure",
        h("figcaption", title),
        h("div", h("table", h("thead", head), h("tbody", *body), cls="matrix"), cls="scroll"),
        cls="chart",
    )


def short(name: str) -> str:
    return name if len(name) <= 4 else f"{name[:3]}."


def triptych(maps: Mapping[str, Sequence[Sequence[float]]], labels: Sequence[int], names: Sequence[str]) -> Node:
    """One panel per network on common axes: the same place means the same features. Dots of a class share a colour."""
    points = [point for panel in maps.values() for point in panel]
    low = [min(point[axis] for point in points) for axis in (0, 1)]
    wide = [max(max(point[axis] for point in points) - low[axis], 1e-9) for axis in (0, 1)]

    def place(point: Sequence[float]) -> str:
        x, y = (4 + 192 * (point[axis] - low[axis]) / wide[axis] for axis in (0, 1))
        return f"M{x:.1f} {y:.1f}h0"

    drawn = []
    for title, panel in maps.items():
        dots = dict.fromkeys(sorted(set(labels)), "")
        for label, point in zip(labels, panel, strict=True):
            dots[label] += place(point)
        paths = [h("path", d=d, cls=f"dot k{label % HUES}") for label, d in dots.items()]
        svg = h("svg", *paths, viewBox="0 0 200 200", role="img", aria_label=f"Map of the {title} network's features")
        drawn.append(h("figure", h("figcaption", title), svg))
    keys = [h("span", h("em", cls=f"key k{label % HUES}"), names[label]) for label in sorted(set(labels))][:MOST]
    return h("figure", h("div", *drawn, cls="triptych"), h("p", *keys, cls="legend"), cls="chart")


def chances(title: str, answers: Sequence[tuple[str, float]], series: int, most: int = 4) -> Node:
    """What one network says of one picture, the likeliest class first."""
    rows = []
    for name, chance in answers[:most]:
        bar = h("rect", x=0, y=0, width=f"{100 * max(chance, 0.006):.1f}", height=8, cls=f"s{series}")
        drawing = h("svg", bar, viewBox="0 0 100 8", preserveAspectRatio="none", aria_hidden="true")
        rows.append(h("li", h("span", name, cls="name"), drawing, h("span", f"{100 * chance:.0f} %", cls="value")))
    said = h("p", answers[0][0], cls="says")
    return h("section", h("p", title, cls="what"), said, h("ul", *rows, cls="bars"), cls="card answer")
