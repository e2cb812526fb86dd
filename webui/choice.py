"""PictureChoice: choose by clicking pictures, with the keyboard as a list of radio buttons or ticks.

    people = PictureChoice("Who should be forgotten?")
    return {people: gr.update(items=[{"id": "3", "src": uri, "label": "Person 1"}, ...], value="3")}

value     the chosen id ("" for none), or with several=True the list of chosen ids
Events:   `people.change` when the choice changes
"""

from pathlib import Path

import gradio as gr

from webui.pictures import BLANK

HERE = Path(__file__).parent


def PictureChoice(legend: str, *, several: bool = False, empty: int = 0, elem_id: str | None = None) -> gr.HTML:
    """`empty` is how many places are held until the pictures come."""
    choice = gr.HTML(
        [] if several else "",
        html_template='<fieldset class="picture-choice"><legend></legend><div class="options"></div></fieldset>',
        js_on_load=(HERE / "choice.js").read_text(),
        apply_default_css=False,
        elem_id=elem_id,
        elem_classes=["choice-host"],
        legend=legend,
        several=several,
        items=[{"id": "", "src": BLANK, "label": "…"}] * empty,
    )
    ids = {"type": "string"}
    choice.api_info = lambda: {"type": "array", "items": ids} if several else ids
    return choice
