"""CompareGrid: many before/after pairs under one slider that never asks the server.

    grid = CompareGrid()
    return {grid: pairs(before, after, labels)}          the value: [{"a": uri, "b": uri, "label": text}, ...]
    return {grid: gr.update(value=..., steps=[10, 20])}  with training steps, every "b" is a list of one uri per step
    grid.full(handler, ...)                              fired when a pair is enlarged; `event.index` says which.
                                                         Answer with gr.update(large={"index": i, "a": uri, "b": uri})

Views: slider, side by side, flip (hold), difference (amplified); keys v s f d; arrows move, Enter enlarges.
"Most changed first" sorts by the mean difference of the pictures, measured in the browser.
"""

from collections.abc import Sequence

import gradio as gr

from webui.component import component


def CompareGrid(value: Sequence[dict] = (), *, elem_id: str | None = None) -> gr.HTML:
    grid = component("compare", list(value), cls="compare-host", elem_id=elem_id, steps=[], large=None)
    pair = {"type": "object", "properties": {name: {"type": "string"} for name in ("a", "b", "label")}}
    grid.api_info = lambda: {"type": "array", "items": pair}
    return grid


def pairs(before: Sequence[str], after: Sequence[str], labels: Sequence[str]) -> list[dict]:
    """The value of a CompareGrid from addresses of pictures."""
    return [{"a": a, "b": b, "label": label} for a, b, label in zip(before, after, labels, strict=True)]
