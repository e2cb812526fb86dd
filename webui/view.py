"""Pictures and words on a page, from plain values: Python says what is there, view.js builds it.

`h("p", "Erase ", h("b", name), cls="lead")` is a node: tag, attributes, children. Text only ever becomes a text node
and attributes are checked against a list, so nothing a user typed can become markup or script.

    runs = View(events=("open",))                   a component; its value is a node, a list of nodes, or None
    runs.open(handler, ...)                         fired by h("button", "Open", on="open", data_job=job);
                                                    the handler's `event: gr.EventData` has `event.job`

Attributes: `cls` is class; `on` names the event a button fires; `busy` is what the button says from the click on;
`confirm` is what it says first, and only a second click fires; `go="./runs"` on a node leaves for another page of
ours; `title_="42% · Erasing"` is shown in the browser's tab. Other names: `data_job` is data-job, `aria_label`, ...
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import gradio as gr

HERE = Path(__file__).parent
Node = list | str
SPECIAL = {"cls": "class", "on": "data-on", "busy": "data-busy", "confirm": "data-confirm", "go": "data-go"}


def h(tag: str, *children: Any, **attributes: Any) -> Node:
    """One node. Children may be nodes, text, numbers, lists of these, or None."""
    named = {SPECIAL.get(name) or name.rstrip("_").replace("_", "-"): value for name, value in attributes.items()}
    if "title_" in attributes:
        named["data-title"] = named.pop("title")
    plain = {name: str(value) for name, value in named.items() if value is not None and value is not False}
    return [tag, plain, *_flat(children)]


def _flat(children: Sequence[Any]) -> list[Node]:
    flat: list[Node] = []
    for child in children:
        if child is None or child is False:
            continue
        if isinstance(child, (list, tuple)) and not is_node(child):
            flat.extend(_flat(child))
        else:
            flat.append(child if is_node(child) else str(child))
    return flat


def is_node(thing: Any) -> bool:
    return isinstance(thing, list) and len(thing) >= 2 and isinstance(thing[0], str) and isinstance(thing[1], dict)


def View(
    value: Node | list[Node] | None = None, *, events: Sequence[str] = (), elem_id: str | None = None, cls: str = ""
) -> gr.HTML:
    """A component that shows nodes. Events it may fire are named beforehand."""
    names = ", ".join(f'"{name}"' for name in events)
    return gr.HTML(
        value,
        html_template='<div class="view"></div>',
        js_on_load=f"const events = [{names}];\n" + (HERE / "view.js").read_text(),
        apply_default_css=False,
        elem_id=elem_id,
        elem_classes=["view-host", *cls.split()],
    )


def icon(name: str) -> Node:
    """A small line drawing, for the eye only."""
    return h("svg", h("path", d=ICONS[name]), cls="icon", viewBox="0 0 24 24", aria_hidden="true")


ICONS = {
    "feature": "M3 12c3-5 6-7 9-7s6 2 9 7c-3 5-6 7-9 7s-6-2-9-7m9 3a3 3 0 1 0 0-6a3 3 0 0 0 0 6M4 20L20 4",
    "identity": "M12 12a4 4 0 1 0 0-8a4 4 0 0 0 0 8M4 20c1-4 4-6 8-6s7 2 8 6M15 17l5-5m0 5l-5-5",
    "recover": "M4 12a8 8 0 1 0 3-6.2M4 4v5h5M12 8v4l3 2",
    "compare": "M12 3v18M4 6h5v12H4zM15 6h5v12h-5z",
    "audit": "M11 18a7 7 0 1 0 0-14a7 7 0 0 0 0 14M16 16l5 5M8 11l2 2l4-4",
    "run": "M5 4h14v16H5zM8 8h8M8 12h8M8 16h5",
    "lock": "M6 11h12v9H6zM8 11V8a4 4 0 0 1 8 0v3",
}
