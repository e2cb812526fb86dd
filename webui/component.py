"""How our own components are made: NAME.html is the template, NAME.js runs when it is there, or another's script."""

from pathlib import Path
from typing import Any

import gradio as gr

HERE = Path(__file__).parent


def component(
    name: str, value: Any = None, *, cls: str, elem_id: str | None = None, script: str = "", **props: Any
) -> gr.HTML:
    return gr.HTML(
        value,
        html_template=(HERE / f"{name}.html").read_text(),
        js_on_load=(HERE / f"{script or name}.js").read_text(),
        apply_default_css=False,
        elem_id=elem_id,
        elem_classes=[cls],
        **props,
    )
