"""LabelGrid: samples to label by click and key. It paints at once and saves a moment later.

    def save(data: dict, request: gr.Request) -> dict:           asked by the browser, also again after a failure
        return keep_labels(studio, owner_of(request), data)
    grid = LabelGrid(save)
    return {grid: gr.update(items=items, value={"12": 1}, context={"base": base, "feature": name})}

items    [{"id": "12", "src": uri, "how": "chosen"}, ...]; `how` is optional. A new list is a new batch.
advice   {"guesses": {"12": 1}, "odd": ["13"], "note": "..."}: guesses are dotted until confirmed, odd labels (of any
         batch) ask for a second look, the note says how good the labels are.
value    {"12": 1, "13": 0}: the labels of this batch, 1 with, 0 without. A value that comes late never undoes what
         the user did on this batch.
revision a new number says that `value` counts for more than what the user did before: labels came from a file.
note     a sentence under the samples. A save may answer with a new one.
stage    how far labelling has come, in a word of the page's own. A save may answer with a new one.
context  what is being labelled; comes back with every save, so that a save after the next batch still lands right.
mode     "grid": each sample with, without or neither. "tick": pages of ten, tick those that have it, the rest of a
         submitted page is without (u: undecided).
page     the number of the first page in tick mode.

Events: `grid.input` after a save, if it answered with no stage or with another one than before (`event.having` and
`event.lacking` of this batch, `event.context`); `grid.next` when more are wanted; `grid.doubt` when odd labels are
(`event.odd`).
"""

import time
from collections import defaultdict
from collections.abc import Callable, Mapping
from typing import Any

import gradio as gr

from engine.core.errors import UserError
from engine.studio import Studio
from webui import words
from webui.component import component
from webui.events import SORRY, log

PAGE = 10  # samples of a page in tick mode


def LabelGrid(save: Callable[[dict, gr.Request], dict], *, elem_id: str | None = None) -> gr.HTML:
    props = {
        "items": [],
        "context": {},
        "mode": "grid",
        "page": 1,
        "advice": {},
        "revision": 0,
        "note": "",
        "stage": "",
    }
    functions = [_named_save(save)]
    grid = component("grid", {}, cls="grid-host", elem_id=elem_id, server_functions=functions, **props)
    grid.api_info = lambda: {"type": "object", "additionalProperties": {"type": "integer", "enum": [0, 1]}}
    return grid


def _named_save(fn: Callable[[dict, gr.Request], dict]) -> Callable[[dict, gr.Request], dict]:
    """What goes wrong is an answer too: the browser keeps the labels and says why."""

    def save(data: dict, request: gr.Request) -> dict:
        try:
            return fn(data, request)
        except UserError as error:
            return {"error": str(error)}
        except Exception:
            log.exception("labels could not be saved")
            return {"error": SORRY}

    return save


def keep_labels(studio: Studio, owner: str, data: Mapping[str, Any]) -> dict[str, str]:
    """Writes what the browser sent, and says when."""
    try:
        context = data["context"]
        base, feature = str(context["base"]), context["feature"]
        groups: dict[tuple[str, int | None], dict[int, int | None]] = defaultdict(dict)
        for change in data["changes"]:
            groups[change.get("how") or "random", change.get("page")][change["id"]] = change["value"]
    except (KeyError, TypeError, AttributeError) as error:
        raise UserError("these are not labels; reload the page") from error
    for (how, page), labels in groups.items():
        studio.labels.set_many(owner, base, feature, labels, how=how, page=page)
    return {"at": words.moment(time.time())}
