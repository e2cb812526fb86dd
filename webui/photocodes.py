"""Faces of photos as codes to compare: drop some, and watch them being found. They stay in memory."""

from collections.abc import Iterator

import gradio as gr
import numpy as np

from engine.core.errors import UserError
from engine.studio import Studio
from webui import pictures
from webui.events import bind, said
from webui.latest import Latest
from webui.owner import owner_of
from webui.photodrop import PhotoDrop, photos
from webui.view import Node, View, h

DROP = "Drop photos here, or choose some: up to 8, the largest face of each"
PROMISE = "Photos stay in this computer's memory. They are never written to the disk."


class PhotoCodes:
    """Made where it is to be shown. `tokens` holds the found faces, joined by commas."""

    def __init__(self, studio: Studio) -> None:
        self.studio, self.latest = studio, Latest()
        self.drop = PhotoDrop(DROP, several=True, elem_id="compare-photos")
        View(h("p", PROMISE, cls="quiet"))
        self.tokens = gr.State("")
        self.found = View(elem_id="found")

    def bind(self, base: gr.Dropdown, trouble: gr.HTML) -> gr.events.Dependency:
        """Gives the event, so that a page can go on when all are found."""
        told = said(trouble, self.found)
        return bind(self.drop.taken, told(self.find), base, [self.tokens, self.found, trouble])

    def find(self, base: str, event: gr.EventData, request: gr.Request) -> Iterator[dict]:
        """One photo after another; a newer drop ends the search."""
        if not self.studio.is_of_faces(base):
            raise UserError(f"{base} draws no faces, so no photo can be found in it; choose another model")
        mine, owner, given = self.latest.begin(request), owner_of(request), photos(event)
        tokens, shown = [], []
        for number, content in enumerate(given, start=1):
            words = f"Finding the face of photo {number} of {len(given)} …"
            yield {self.tokens: "", self.found: strip(shown, words, 0)}
            token = self.studio.open_portrait(content, base, owner=owner).token
            for step in self.studio.find_person(token, owner=owner):
                if not self.latest.is_last(request, mine):
                    return
                if isinstance(step, np.ndarray):
                    shown.append(pictures.data_uri(step))
                else:
                    yield {self.found: strip(shown, words, step.step / max(step.total, 1))}
            tokens.append(token)
        self.latest.end(request)
        yield {
            self.tokens: ",".join(tokens),
            self.found: strip(shown, "As the model without erasures knows them", None),
        }


def strip(shown: list[str], words: str, share: float | None) -> Node:
    bar = h("progress", value=f"{share:.3f}", max=1, aria_label="found") if share is not None else None
    faces = [h("img", src=source, alt=f"Photo {number}, as found") for number, source in enumerate(shown, start=1)]
    return h("div", h("div", *faces, cls="faces") if faces else None, h("p", words, cls="quiet", role="status"), bar)
