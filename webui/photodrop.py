"""PhotoDrop: choose or drop a photo that must stay in memory.

    drop = PhotoDrop("Drop a photo, or choose one")
    drop.taken(handler, ...)          the handler's `event: gr.EventData`; `photos(event)` gives the files' bytes

Gradio's own upload writes a file; this one sends the bytes inside the event.
"""

import base64

import gradio as gr

from engine.core.errors import UserError
from webui.component import component

LARGEST = 10_000_000


def PhotoDrop(words: str, *, several: bool = False, elem_id: str | None = None, visible: bool = True) -> gr.HTML:
    props = {"words": words, "several": several, "visible": visible}
    return component("photodrop", cls="drop-host", elem_id=elem_id, **props)


def photos(event: gr.EventData) -> list[bytes]:
    """What the browser sent, checked: nobody has to use our page to send something."""
    sent = getattr(event, "photos", None)
    if not isinstance(sent, list) or not sent or not all(isinstance(text, str) for text in sent):
        raise UserError("no photo came with this; choose one again")
    return [decoded(text) for text in sent]


def decoded(text: str) -> bytes:
    """A photo that came as base64, in memory alone."""
    if len(text) > LARGEST * 4 / 3 + 4:
        raise UserError("this photo is larger than 10 MB; use a smaller copy")
    try:
        return base64.b64decode(text, validate=True)
    except ValueError as error:  # also of letters that base64 cannot have
        raise UserError("this photo came damaged; choose it again") from error
