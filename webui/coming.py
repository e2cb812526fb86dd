"""An honest place for what is not built yet."""

from collections.abc import Sequence

from webui.view import Node, h


def coming(eyebrow: str, title: str, lead: str, parts: Sequence[tuple[str, str]]) -> list[Node]:
    return [
        h("p", eyebrow, cls="eyebrow"),
        h("h1", title),
        h("p", lead, cls="lead"),
        h(
            "section",
            h("h2", "Coming here"),
            h("dl", *(part for name, text in parts for part in (h("dt", name), h("dd", text))), cls="facts"),
            cls="card",
        ),
    ]
