"""PictureChoice: choose by clicking pictures, with the keyboard as a list of radio buttons or ticks.

    people = PictureChoice("Who should be forgotten?")
    return {people: gr.update(items=[{"id": "3", "src": uri, "label": "Person 1"}, ...], value="3")}

value     the chosen id ("" for none), or with several=True the list of chosen ids
Events:   `people.change` when the choice changes
"""

import gradio as gr

from webui.component import component
from webui.pictures import BLANK


def PictureChoice(legend: str, *, several: bool = False, empty: int = 0, elem_id: str | None = None) -> gr.HTML:
    """`empty` is how many places are held until the pictures come."""
    value, items = [] if several else "", [{"id": "", "src": BLANK, "label": "…"}] * empty
    props = {"legend": legend, "several": several, "items": items}
    choice = component("choice", value, cls="choice-host", elem_id=elem_id, **props)
    ids = {"type": "string"}
    choice.api_info = lambda: {"type": "array", "items": ids} if several else ids
    return choice
