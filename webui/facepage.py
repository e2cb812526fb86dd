"""Forgetting a person by photo: find the face, find its code, see who takes its place, erase, and read the verdict."""

from collections.abc import Iterator
from typing import Any

import gradio as gr
import numpy as np

from engine.core.errors import UserError
from engine.core.joblog import Row
from engine.core.knobs import knobs
from engine.studio import Studio
from webui import pictures
from webui.choice import PictureChoice
from webui.events import bind, said
from webui.latest import Latest
from webui.owner import owner_of
from webui.person import found_tree, photo_tree, strip_tree, verdict_cards
from webui.photodrop import PhotoDrop, photos
from webui.samplepage import SamplePage
from webui.view import Node, View, h

DISTANCES = (0.0, 0.2, 0.4, 0.6, 0.8, 1.0)  # of the strip, in mean radii past the average face
FURTHEST = 1.2  # beyond, a photo's opposite is no face any more
LEAD = "One photo is enough. The generator will show somebody else in that person's place, and everyone else as before."
PROMISE = "The photo stays in this computer's memory and is dropped after the run. It is never written to the disk."
PLACE = (
    "Seen from this person, the opposite face lies beyond the average face. Further away is less alike, and stranger."
)
MORE = "More photos of the same person, if you have some. They are used to check the result, nothing else."
CALLED = "What shall the record call them?"
WAIT = "nobody is ready to be erased; drop a photo or click one of the six people, and wait for the picture"
ALSO = "Erased in the same run; click one to leave it out"
ORDERS = [("Jointly", "jointly"), ("One after another", "one after another")]
TARGETS = [
    ("The opposite face", "opposite"),
    ("The average face", "average"),
    ("The nearest stranger", "stranger"),
    ("A random face", "random"),
]


class FacePage(SamplePage):
    """A generator of faces: photos too, the target before the run, and a verdict by a recogniser after it."""

    method, lead, hidden = "guide", LEAD, ("target", "distance", "order")
    legend = "Or try one of six people this generator makes up"

    def __init__(self, studio: Studio) -> None:
        self.presets = studio.method(self.method).presets
        self.latest = Latest()
        super().__init__(studio)

    def opening(self) -> None:
        self.drop = PhotoDrop("Drop a photo here, or choose one: JPG, PNG or WebP", elem_id="photo")
        View(h("p", PROMISE, cls="quiet"))

    def middle(self) -> None:
        self.usual = {field.name: field.default for field in knobs(self.studio.method(self.method))}
        self.token, self.photo, self.row = gr.State(""), gr.State(None), gr.State([])
        self.portrait = View(elem_id="portrait")
        self.faces = PictureChoice("", elem_id="faces")
        with gr.Column(visible=False) as self.place:
            View([h("h2", "Who takes their place"), h("p", PLACE, cls="quiet")])
            self.target = gr.Radio(TARGETS, value=self.usual["target"], label="Target", elem_classes=["choice"])
            self.distance = gr.Slider(0, FURTHEST, value=self.usual["distance"], step=0.1, label="Distance")
            self.strip = View(elem_id="strip")
        with gr.Column(visible=False) as self.only_photo:
            self.others = PhotoDrop(MORE, several=True, elem_id="other-photos")
            self.counted = View()
            self.called = gr.Textbox(label=CALLED, value="a person", max_length=80, elem_id="called")
        with gr.Column(visible=False) as self.several:
            self.also = PictureChoice(ALSO, several=True, elem_id="also")
            self.order = gr.Radio(ORDERS, value=self.usual["order"], label="Erase them", elem_classes=["choice"])
        self.add = gr.Button("Add another person", visible=False, elem_classes=["side"], elem_id="add")
        self.gathered = gr.State([])

    def bind(self, demo: gr.Blocks) -> None:
        self.watch(demo, self.several, self.gathered)
        asked = {self.token, self.target, self.distance, self.called, self.also, self.gathered, self.order}
        self.panel.starts(self.erase.click, self.begin, asked | {*self.form.inputs})
        shown = [self.token, self.photo, self.faces, self.portrait, self.place, self.only_photo, self.strip]
        shown += [self.row, self.erase, self.people, self.counted, self.add, self.trouble]
        where, told = [self.target, self.distance], said(self.trouble, undo=self.nobody)
        bind(self.drop.taken, told(self.opened), where, shown)
        bind(self.faces.change, told(self.picked), [self.faces, self.token, self.photo, *where], shown)
        bind(self.people.change, told(self.invented), [self.people, *where], shown)
        for event in (self.target.input, self.distance.input):
            slid = said(self.trouble)(self.slid)
            bind(event, slid, [self.token, self.row, *where], [self.strip, self.trouble], trigger_mode="always_last")
        preset = [self.form.preset, self.token, self.row, self.target]
        shown_there = [self.distance, self.strip, self.trouble]
        bind(self.form.preset.input, said(self.trouble)(self.preset_chosen), preset, shown_there)
        gathered = [self.token, self.called, self.gathered, self.also]
        bind(
            self.add.click, said(self.trouble)(self.another), gathered, [*shown, self.gathered, self.also, self.several]
        )
        bind(self.others.taken, said(self.trouble)(self.more), self.token, [self.counted, self.trouble])

    def nobody(self) -> dict:
        """The page before anybody was chosen."""
        hidden = gr.update(visible=False)
        empty = {self.token: "", self.photo: None, self.portrait: None, self.strip: None, self.counted: None}
        shut = {self.place: hidden, self.only_photo: hidden, self.add: hidden}
        shut[self.erase] = gr.update(interactive=False)
        return {**empty, **shut, self.faces: gr.update(items=[], value="")}

    # Who

    def opened(self, kind: str, distance: float, event: gr.EventData, request: gr.Request) -> Iterator[dict]:
        """A photo came: its faces, and at once the code of the only one."""
        mine = self.latest.begin(request)
        unpicked = gr.update(value="")
        looking = found_tree(None, None, "Looking for the face …")
        yield {**self.nobody(), self.people: unpicked, self.trouble: None, self.portrait: looking}
        base, owner = self.studio.default_base(), owner_of(request)
        found = self.studio.open_portrait(photos(event)[0], base, deltas=self.studio.active(base), owner=owner)
        small = thumbnail(self.studio.portrait_pixels(found.token, owner=owner))
        photo = (small, found.boxes)
        if len(found.boxes) == 1:
            yield from self.find(found.token, 0, photo, kind, distance, request, mine)
            return
        crops = [self.studio.portrait_pixels(found.token, n, size=128, owner=owner) for n in range(len(found.boxes))]
        items = [
            {"id": str(n), "src": pictures.data_uri(crop), "label": f"Face {n + 1}"} for n, crop in enumerate(crops)
        ]
        known = {self.token: found.token, self.photo: photo, self.faces: gr.update(items=items, value="")}
        yield {**known, self.portrait: h("div", photo_tree(*photo, None), cls="person")}

    def picked(
        self, face: str, token: str, photo: Any, kind: str, distance: float, request: gr.Request
    ) -> Iterator[dict]:
        """One of several faces."""
        if not face or not token:
            yield {self.trouble: None}
            return
        mine = self.latest.begin(request)
        yield from self.find(token, int(face), photo, kind, distance, request, mine)

    def find(
        self, token: str, face: int, photo: Any, kind: str, distance: float, request: gr.Request, mine: object
    ) -> Iterator[dict]:
        """The code of a face, watched while it is searched; a newer choice ends the search."""
        owner, framed = owner_of(request), photo_tree(*photo, face)
        known = {self.token: token, self.photo: photo, self.trouble: None}
        yield {**known, self.portrait: found_tree(framed, None, "Finding this face …", 0.0)}
        shown = None
        for event in self.studio.find_person(token, face, owner=owner):
            if not self.latest.is_last(request, mine):
                return
            if isinstance(event, np.ndarray):
                shown = pictures.data_uri(event)
                continue
            shown = pictures.data_uri(event.images["inversion"]) if "inversion" in event.images else shown
            share = event.step / max(event.total, 1)
            yield {self.portrait: found_tree(framed, shown, "Finding this face …", share)}
        self.latest.end(request)
        visible = {self.only_photo: gr.update(visible=True), self.counted: None}
        yield {
            **visible,
            self.portrait: found_tree(framed, shown, "As the generator knows them"),
            **self.ready(token, kind, distance, request),
        }

    def invented(self, seed: str, kind: str, distance: float, request: gr.Request) -> Iterator[dict]:
        """A person the generator made up: the code is known."""
        if not seed:
            yield {self.trouble: None}
            return
        self.latest.end(request)
        base, owner = self.studio.default_base(), owner_of(request)
        token = self.studio.generated_portrait(int(seed), base, deltas=self.studio.active(base), owner=owner)
        yield {**self.nobody(), self.trouble: None, **self.ready(token, kind, distance, request)}

    def ready(self, token: str, kind: str, distance: float, request: gr.Request) -> dict:
        owner = owner_of(request)
        made = self.studio.show_targets(token, "opposite", DISTANCES, owner=owner)
        row = [pictures.data_uri(picture) for picture in made]
        opened = {self.token: token, self.row: row, self.place: gr.update(visible=True)}
        strip = {self.strip: self.strip_of(token, row, kind, distance, owner)}
        free = gr.update(interactive=not self.is_busy(request))
        return {**opened, **strip, self.erase: free, self.add: gr.update(visible=True)}

    def more(self, token: str, event: gr.EventData, request: gr.Request) -> dict:
        count = 0
        for content in photos(event):
            count = self.studio.add_other_photo(token, content, owner=owner_of(request))
        return {self.counted: h("p", f"{count} more for the check.", cls="quiet", role="status")}

    def another(self, token: str, called: str, gathered: list[dict], ticked: list[str], request: gr.Request) -> dict:
        """Puts this person aside for the same run and makes room for the next."""
        if not token:
            raise UserError(WAIT)
        seed = self.studio.portrait_seed(token, owner=owner_of(request))
        words = called.strip() or "a person" if seed is None else f"seed {seed}"
        shown = pictures.data_uri(self.studio.found_pixels(token, owner=owner_of(request)))
        gathered = [one for one in gathered if one["id"] != token] + [{"id": token, "src": shown, "label": words}]
        chosen = gr.update(items=gathered, value=[*ticked, token])
        ready = {self.erase: gr.update(interactive=not self.is_busy(request)), self.people: gr.update(value="")}
        return {
            **self.nobody(),
            **ready,
            self.gathered: gathered,
            self.also: chosen,
            self.several: gr.update(visible=True),
        }

    # Where to

    def slid(self, token: str, row: list[str], kind: str, distance: float, request: gr.Request) -> dict:
        return {self.strip: self.strip_of(token, row, kind, distance, owner_of(request)) if token else None}

    def preset_chosen(self, preset: str, token: str, row: list[str], kind: str, request: gr.Request) -> dict:
        """The distance is a part of a preset, too, though it stands elsewhere on the page."""
        distance = self.presets[preset].get("distance", self.usual["distance"])
        return {self.distance: distance, **self.slid(token, row, kind, distance, request)}

    def strip_of(self, token: str, row: list[str], kind: str, distance: float, owner: str) -> Node:
        """The chosen target large, and for the opposite face the row of distances to compare."""
        (chosen,) = self.studio.show_targets(token, kind, [distance], owner=owner)
        along = zip(DISTANCES, row, strict=True) if kind == "opposite" else ()
        return strip_tree(pictures.data_uri(chosen), list(along), distance)

    # Erasing and the verdict

    def begin(self, data: dict, owner: str) -> str:
        people = {one["id"]: one["label"] for one in data[self.gathered] if one["id"] in data[self.also]}
        if data[self.token]:
            people[data[self.token]] = data[self.called]
        if not people:
            raise UserError(WAIT)
        chosen = {"target": data[self.target], "distance": float(data[self.distance]), "order": data[self.order]}
        return self.studio.erase_portraits(people, self.form.read(data) | chosen, owner=owner)

    def look(self, row: Row, owner: str) -> dict:
        """The people of a run that has ended are off the desk."""
        return {**super().look(row, owner), self.gathered: [], self.several: gr.update(visible=False)}

    def words(self, row: Row, owner: str) -> list[Node]:
        text = "Random people who should look as before; slide to compare."
        cards = verdict_cards((row.result or {}).get("verdict", {}))
        return [h("h2", "Check"), cards, h("p", text, cls="quiet")]


def thumbnail(pixels: np.ndarray, side: int = 640) -> str:
    step = max(1, -(-max(pixels.shape[:2]) // side))
    return pictures.data_uri(np.ascontiguousarray(pixels[::step, ::step]))
