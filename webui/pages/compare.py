"""Compare: two versions of a model, or the steps of a run, under one slider, and as a file to send to somebody."""

from collections.abc import Container

import gradio as gr

from engine.core.errors import UserError
from engine.studio import Studio
from webui import pictures
from webui.changecards import change_cards
from webui.compare import CompareGrid
from webui.comparison import KINDS, Comparison, codes, drawn, side, steps_of
from webui.events import bind, error_box, said
from webui.owner import owner_of
from webui.pages import Page, pages
from webui.photocodes import PhotoCodes
from webui.view import Node, View, h

LEAD = "Two versions of a model draw the same things. What was not erased should look the same."
NOTHING = ["Both sides have the same erasures, so they are equal. Choose another side, or ", h("a", "erase", href="./")]
NOTHING += [" something first."]
DRAWING = h("p", "Drawing the pictures …", cls="quiet", role="status")
MEASURING = h("p", "Measuring the change …", cls="quiet", role="status")


class ComparePage:
    def __init__(self, studio: Studio) -> None:
        self.studio = studio
        View([h("p", "Compare", cls="eyebrow"), h("h1", "Before and after"), h("p", LEAD, cls="lead")])
        self.trouble = View()
        self.of = gr.Radio([(words, kind) for kind, words in KINDS.items()], value="seeds", label="Pictures of")
        with gr.Row() as self.sides:
            self.base = gr.Dropdown([], label="Model")
            self.left = gr.Dropdown([], label="Before: with erasures", multiselect=True)
            self.right = gr.Dropdown([], label="After: with erasures", multiselect=True)
        with gr.Row() as self.of_seeds:
            self.seeds = gr.Textbox(Comparison.which, label="Seeds", info="Numbers and ranges: 0-15, 40")
            self.psi = gr.Slider(0, 1, Comparison.psi, step=0.05, label="Truncation")
        with gr.Row(visible=False) as self.of_labels:
            self.feature = gr.Dropdown([], label="Labelled feature")
        with gr.Row(visible=False) as self.of_run:
            self.run = gr.Dropdown([], label="Run")
            self.step = gr.Dropdown([], label="Before: at step", info="The step after it is chosen under the slider.")
        with gr.Column(visible=False) as self.of_photos:
            self.photos = PhotoCodes(studio)
        self.draw = gr.Button("Compare", variant="primary", elem_classes=["run"])
        self.word = View(DRAWING)
        self.cards = View(elem_id="changes")
        self.grid = CompareGrid(elem_id="compare")
        self.share = View(elem_id="share")

    def bind(self, demo: gr.Blocks) -> None:
        told = said(self.trouble)
        self.settings = {
            self.of,
            self.base,
            self.left,
            self.right,
            self.seeds,
            self.psi,
            self.feature,
            self.run,
            self.step,
        }
        self.settings |= {self.photos.tokens}
        parts = list(self.shown_for("seeds"))
        loaded = bind(demo.load, told(self.load), None, [self.of, self.base, *parts, *self.fields(), self.trouble])
        self.compares(loaded, clears=False)  # a dead link stays said above the usual comparison
        bind(self.of.input, told(self.shown_for), self.of, [*parts, self.trouble])
        bind(self.base.input, told(self.base_chosen), self.base, [*self.fields(), self.trouble])
        bind(self.run.input, told(self.run_chosen), self.run, [self.step, self.trouble])
        self.compares(bind(self.draw.click, lambda: DRAWING, None, self.word, queue=False))
        self.compares(self.photos.bind(self.base, self.trouble))
        bind(self.grid.full, told(self.full), self.settings, [self.grid, self.trouble])

    def compares(self, event: gr.events.Dependency, clears: bool = True) -> None:
        """After an event: the pictures, then what is measured of them, so that nobody waits for numbers."""
        shown = [self.grid, self.word, self.cards, self.share, self.trouble]
        compare = said(self.trouble, self.word, self.cards, clears=clears)(self.compare)
        done = bind(event.then, compare, self.settings, shown)
        bind(done.then, said(self.cards)(self.measure), self.settings | {self.cards}, [self.cards])

    # What can be chosen

    def load(self, request: gr.Request) -> dict:
        """As the address says, else the applied erasures beside the base alone."""
        ready = {info.name: info.title for info in self.studio.bases() if not info.missing}
        asked, told = self.usual(self.studio.default_base()), None
        try:
            asked = self.linked(dict(request.query_params), asked, ready, owner_of(request))
        except UserError as error:
            told = error_box(str(error))
        known = [(title, name) for name, title in ready.items()]
        chosen = {self.of: asked.of, self.base: gr.update(choices=known, value=asked.base), self.trouble: told}
        return {**chosen, **self.shown_for(asked.of), **self.filled(asked, request)}

    def usual(self, base: str) -> Comparison:
        return Comparison(base, right=tuple(self.studio.active(base)))

    def linked(self, query: dict, usual: Comparison, ready: Container[str], owner: str) -> Comparison:
        if not {"base", "of", "which"} & query.keys():
            return usual
        asked = Comparison.read({"base": usual.base, **query})
        if asked.base not in ready:
            raise UserError(f"there is no model {asked.base} here; choose another")
        if set(asked.left + asked.right) - self.studio.versions(asked.base, owner=owner).keys():
            raise UserError("an erasure of this link is not here any more; choose what to compare")
        return asked

    def shown_for(self, of: str) -> dict:
        """Which fields a kind needs."""
        visible = {self.sides: of != "run", self.of_seeds: of == "seeds", self.of_labels: of == "labels"}
        visible |= {self.of_run: of == "run", self.of_photos: of == "photos"}
        return {part: gr.update(visible=on) for part, on in visible.items()}

    def base_chosen(self, base: str, request: gr.Request) -> dict:
        return self.filled(self.usual(base), request)

    def fields(self) -> list:
        """What `filled` fills."""
        own = [self.left, self.right, self.seeds, self.psi, self.feature, self.run, self.step]
        return [*own, self.photos.tokens, self.photos.found]

    def filled(self, asked: Comparison, request: gr.Request) -> dict:
        """Every field with its choices, as a comparison wants it."""
        owner = owner_of(request)
        kept = [(words, name) for name, words in self.studio.versions(asked.base, owner=owner).items()]
        features = list(self.studio.labels.features(owner, asked.base))
        runs = {row.id: f"{row.title} ({row.id})" for row in self.studio.runs(owner) if row.kind == "forget"}
        first = {"labels": next(iter(features), None), "run": next(iter(runs), None)} | {asked.of: asked.which}
        return {
            self.left: gr.update(choices=kept, value=list(asked.left)),
            self.right: gr.update(choices=kept, value=list(asked.right)),
            self.seeds: first.get("seeds", Comparison.which),
            self.psi: asked.psi,
            self.feature: gr.update(choices=features, value=first["labels"]),
            self.run: gr.update(choices=[(words, job) for job, words in runs.items()], value=first["run"]),
            self.photos.tokens: first.get("photos", ""),
            self.photos.found: None,
            **self.run_chosen(first["run"], request, asked.step),
        }

    def run_chosen(self, job: str | None, request: gr.Request, step: int = 0) -> dict:
        steps = sorted(steps_of(self.studio, job, owner_of(request))) if job else []
        named = [("before the run" if number == 0 else str(number), number) for number in steps]
        return {self.step: gr.update(choices=named, value=step if step in steps else next(iter(steps), None))}

    # What is compared

    def asked(self, data: dict) -> Comparison:
        of, step = data[self.of], data[self.step] or 0
        which = {"seeds": self.seeds, "labels": self.feature, "photos": self.photos.tokens, "run": self.run}[of]
        sides = {} if of == "run" else {"left": tuple(data[self.left] or ()), "right": tuple(data[self.right] or ())}
        if of == "run" and not data[self.run]:
            raise UserError("there is no run yet; erase something first")
        return Comparison(data[self.base], of=of, which=data[which] or "", psi=data[self.psi], step=step, **sides)

    def compare(self, data: dict, request: gr.Request) -> dict:
        asked, owner = self.asked(data), owner_of(request)
        shown = drawn(self.studio, asked, pictures.small(self.studio, asked.base), owner)
        is_same = asked.of != "run" and asked.left == asked.right
        measuring = None if asked.of == "run" or is_same else MEASURING
        return {
            self.grid: gr.update(**shown, large=None),
            self.word: h("div", NOTHING, cls="note") if is_same else None,
            self.cards: measuring,
            self.share: share_links(asked),
        }

    def measure(self, data: dict, request: gr.Request) -> dict:
        if not data[self.cards]:  # it does not say that something is to be measured
            return {}
        asked, owner = self.asked(data), owner_of(request)
        which = list(codes(self.studio, asked, owner))
        found = self.studio.measure(asked.base, asked.left, asked.right, which, psi=asked.truncation, owner=owner)
        return {self.cards: change_cards(found)}

    def full(self, data: dict, event: gr.EventData, request: gr.Request) -> dict:
        """The enlarged pair at the model's own size."""
        asked, owner = self.asked(data), owner_of(request)
        if asked.of == "run":
            return {}  # what a run has shown is there already
        code = list(codes(self.studio, asked, owner))[int(event.index)]
        sides = [side(self.studio, asked, names, [code], None, owner)[0] for names in (asked.left, asked.right)]
        return {self.grid: gr.update(large={"index": event.index, "a": sides[0], "b": sides[1]})}


def share_links(asked: Comparison) -> Node:
    return h(
        "p",
        h("a", "Save as an HTML report", href=f"./comparison.html?{asked.query}", download=""),
        h("a", "Save as PNG", href=f"./comparison.png?{asked.query}", download=""),
        h("a", "Link to this comparison", href=f"./compare?{asked.query}"),
        cls="row small",
    )


def build(studio: Studio, demo: gr.Blocks) -> None:
    ComparePage(studio).bind(demo)


pages["compare"] = Page("Compare", "compare", 50, build)
