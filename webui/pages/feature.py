"""Feature: name it, label samples, look at what would change, erase, check, keep or discard."""

import time
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

import gradio as gr

from engine.core.errors import UserError
from engine.core.joblog import Row
from engine.core.labelbook import Counts, Label, checked_feature
from engine.core.targets import Labels
from engine.studio import Studio
from webui import pictures
from webui.compare import CompareGrid
from webui.events import bind, said
from webui.feature import batches, files
from webui.feature.batches import Batch
from webui.feature.check import checked
from webui.feature.people import PeopleCheck
from webui.feature.preview import Preview
from webui.feature.progress import quality, short_of, told
from webui.form import Form
from webui.grid import PAGE, LabelGrid, keep_labels
from webui.latest import Latest
from webui.owner import owner_of
from webui.pages import Page, pages
from webui.panels import JobPanel
from webui.runview import is_undecided
from webui.view import Node, View, h

METHOD = "feature"
START = "Balanced"
PORTION = 12  # samples that are shown as soon as they are drawn
CAVEATS = ("direction", "move")  # settings that decide whether anything can be protected
PSI = 1.0  # thresholds must come from random latents, so nothing is truncated
LEAD = "Name it, then say which samples show it. Ten with and ten without are enough to begin."
MODES = [("Label each sample", "grid"), ("Pages of ten: tick those that have it", "tick")]


def build(studio: Studio, demo: gr.Blocks) -> None:
    FeaturePage(studio).bind(demo)


class FeaturePage:
    """The parts of the page in their order, then what they do."""

    def __init__(self, studio: Studio) -> None:
        self.studio = studio
        self.latest = Latest()
        View([h("p", "Feature", cls="eyebrow"), h("h1", "Erase a feature"), h("p", LEAD, cls="lead")])
        self.trouble = View()
        with gr.Row(elem_classes=["name-row"]):
            self.name = gr.Textbox(
                label="Feature", placeholder="glasses", max_length=60, elem_id="feature-name", scale=3
            )
            self.show = gr.Button("Show samples", variant="primary", scale=1)
        self.mode = gr.Radio(MODES, value="grid", label="How", elem_classes=["choice"])
        self.earlier = View(events=("open",))
        self.heading = View()
        self.grid = LabelGrid(self.save, elem_id="labels")
        self.links = View()
        with gr.Accordion("Labels from a file", open=False):
            self.upload = gr.File(label="Labels saved here as JSON or CSV", type="binary", file_types=[".json", ".csv"])
        with gr.Accordion("Settings", open=False):
            self.keep = gr.Dropdown(
                [], multiselect=True, label="Protect", info="Other features of yours that must stay."
            )
            self.also = gr.Dropdown([], multiselect=True, label="Erase together", info="Further features of yours.")
            method = studio.method(METHOD)
            self.form = Form(method, method.presets, start=START)
        self.caveat = View(elem_id="caveat")
        self.preview = Preview(studio)
        self.erase = gr.Button("Erase", variant="primary", interactive=False, elem_classes=["run"])
        self.panel = JobPanel(studio, belongs=of_this_page)
        self.check, self.pairs = View(), CompareGrid(elem_id="check")
        self.people = PeopleCheck(studio)
        # What is being labelled, whatever the name field says.
        self.batch, self.feature = gr.State(batches.at_random(0)), gr.State("")

    def bind(self, demo: gr.Blocks) -> None:
        buttons = [self.erase, self.preview.button]
        shown = [self.heading, self.grid, self.batch, self.feature, self.links, *buttons, self.trouble]
        said_here = said(self.trouble)
        parts = [self.check, self.pairs, self.people.view]
        target = {self.feature, self.keep, self.also}
        self.panel.watch(demo, locks=[self.erase], parts=parts, look=self.look)
        self.panel.starts(self.erase.click, self.begin, {*target, *self.form.inputs})
        self.preview.bind(self.asked, {*target, *self.form.inputs})
        decisive = [self.keep, *(self.form.parts[name] for name in CAVEATS)]
        for part in decisive:
            bind(part.change, said(self.caveat)(self.warn), set(decisive), self.caveat, trigger_mode="always_last")
        self.people.bind()
        again = [self.feature, self.batch, self.mode]
        loaded = bind(demo.load, said_here(self.load), self.mode, [self.earlier, self.keep, self.also, *shown])
        taken = said(self.trouble, self.upload)(self.take)
        drawings = [
            loaded,
            bind(self.show.click, said_here(self.named), [self.name, self.batch, self.mode], shown),
            bind(self.name.submit, said_here(self.named), [self.name, self.batch, self.mode], shown),
            bind(self.earlier.open, said_here(self.reopen), [self.batch, self.mode], shown),
            bind(self.upload.upload, taken, [self.upload, self.mode], [self.upload, *shown]),
            bind(self.mode.input, said_here(self.again), again, shown),
            bind(self.grid.next, said_here(self.following), again, shown),
            bind(self.grid.doubt, said_here(self.doubted), [self.feature, self.batch], shown),
        ]
        labelled = [self.links, *buttons, self.trouble]
        counted = bind(self.grid.input, said_here(self.labelled), None, labelled, trigger_mode="always_last")
        for event in (*drawings, counted):
            advised = {"inputs": [self.feature, self.batch], "outputs": [self.grid, self.trouble]}
            bind(event.then, said_here(self.advise), **advised, trigger_mode="always_last")

    # Labelling

    def load(self, how: str, request: gr.Request) -> Iterator[dict]:
        """The owner's features, and the samples of the one they labelled last."""
        known = self.studio.labels.features(owner_of(request), self.studio.default_base())
        mine = self.latest.begin(request) if known else None
        usable = [name for name, counts in known.items() if not short_of(counts)]
        choices = {part: gr.update(choices=usable) for part in (self.keep, self.also)}
        yield {self.earlier: earlier_tree(known), **choices}
        if mine and self.latest.is_last(request, mine):  # nothing else was asked for meanwhile
            yield from self.samples(next(iter(known)), batches.at_random(0), how, request)

    def named(self, feature: str, batch: Batch, how: str, request: gr.Request) -> Iterator[dict]:
        yield from self.samples(feature, batches.at_random(batch.number), how, request)

    def reopen(self, batch: Batch, how: str, event: gr.EventData, request: gr.Request) -> Iterator[dict]:
        yield from self.named(event.feature, batch, how, request)

    def take(self, content: bytes | None, how: str, request: gr.Request) -> Iterator[dict]:
        feature = files.taken(self.studio, content, PSI, owner_of(request))
        for update in self.samples(feature, batches.at_random(0), how, request, revision=time.time_ns()):
            yield {self.upload: None, **update}

    def samples(self, feature: str, batch: Batch, how: str, request: gr.Request, revision: int = 0) -> Iterator[dict]:
        """A batch of samples with the labels they already have, in portions as they are drawn."""
        words, owner, base = checked_feature(feature), owner_of(request), self.studio.default_base()
        labels = self.studio.labels.get(owner, base, words)
        context = {"base": base, "feature": words} | ({"aside": True} if batch.aside else {})
        fixed = {"context": context, "mode": "grid" if batch.aside else how, "advice": {}}
        fixed |= {"page": batch.number * batches.SIZE // PAGE + 1} | ({"revision": revision} if revision else {})
        fixed |= told(self.studio.labels.counts(owner, base, words))
        items, mine = [], self.latest.begin(request)
        for start in range(0, len(batch.seeds), PORTION):
            if not self.latest.is_last(request, mine):
                return  # the page has asked for something else since
            part = batch.seeds[start : start + PORTION]
            drawn = pictures.samples(self.studio, base, part, psi=PSI, size=pictures.small(self.studio, base))
            items = [*items, *(item(batch, labels, *pair) for pair in zip(part, drawn, strict=True))]
            here = {str(seed): labels[seed].value for seed in batch.seeds[: len(items)] if seed in labels}
            drawn_so_far = {self.grid: gr.update(items=items, value=here, **fixed), self.heading: heading(words, batch)}
            yield {**drawn_so_far, self.batch: batch, self.feature: words}
        self.latest.end(request)
        yield self.counted(words, owner)

    def again(self, feature: str, batch: Batch, how: str, request: gr.Request) -> Iterator[dict]:
        """The same samples once more, if there is a name already."""
        if feature:
            yield from self.samples(feature, batch, how, request)
        else:
            yield {}

    def following(self, feature: str, batch: Batch, how: str, request: gr.Request) -> Iterator[dict]:
        """The next batch; when the labels suffice for a probe, most of its samples are the most useful ones. Pages of
        ten stay as the paper has them, drawn at random."""
        number, owner = batch.following, owner_of(request)
        batch = batches.at_random(number)
        if how == "grid" and not self.missing(feature, owner):
            yield {self.heading: h("p", "Looking which samples would help most …", cls="quiet")}
            base, seeds = self.studio.default_base(), batches.pool(number)
            picked = self.studio.next_samples(base, feature, seeds, batches.SIZE, psi=PSI, owner=owner)
            batch = batches.smart(number, picked)
        yield from self.samples(feature, batch, how, request)

    def doubted(self, feature: str, batch: Batch, event: gr.EventData, request: gr.Request) -> Iterator[dict]:
        """The labels that look odd, whichever batch they are of, so that they can be looked at once more."""
        known = self.studio.labels.get(owner_of(request), self.studio.default_base(), feature)
        odd = tuple(seed for seed in known if str(seed) in event.odd)
        yield from self.samples(feature, Batch(batch.number, odd, aside=True), "grid", request)

    def save(self, data: dict, request: gr.Request) -> dict:
        owner = owner_of(request)
        kept = keep_labels(self.studio, owner, data)
        counts = self.studio.labels.counts(owner, str(data["context"]["base"]), data["context"]["feature"])
        return kept | told(counts)

    def labelled(self, event: gr.EventData, request: gr.Request) -> dict:
        return self.counted(checked_feature(event.context["feature"]), owner_of(request))

    def advise(self, feature: str, batch: Batch, request: gr.Request) -> dict:
        """Guesses to confirm, labels that look odd and how good they are, once ten and ten are there."""
        owner, base = owner_of(request), self.studio.default_base()
        if not feature or self.missing(feature, owner):
            return {self.grid: gr.update(advice={})}
        found = self.studio.advise(base, feature, batch.seeds, psi=PSI, owner=owner)
        guesses = {str(seed): answer for seed, answer in found.guesses.items()}
        odd, words = [str(seed) for seed in found.odd], quality(found.auc, found.enough)
        return {self.grid: gr.update(advice={"guesses": guesses, "odd": odd, "note": words})}

    def missing(self, feature: str, owner: str) -> str:
        return short_of(self.studio.labels.counts(owner, self.studio.default_base(), feature))

    def counted(self, feature: str, owner: str) -> dict:
        base = self.studio.default_base()
        counts = self.studio.labels.counts(owner, base, feature)
        ready = not short_of(counts)
        return {
            self.links: files.links(base, feature) if counts.having + counts.lacking else None,
            self.erase: gr.update(value=f"Erase “{feature}”", interactive=ready),
            self.preview.button: gr.update(interactive=ready),
        }

    # Erasing

    def target(self, data: dict, owner: str) -> Labels:
        base = self.studio.default_base()
        if not data[self.feature]:
            raise UserError("no feature is named yet; type its name and press Show samples")

        def labels(name: str) -> Labels:
            found = self.studio.labels.target(owner, base, name, psi=PSI)
            if missing := self.missing(name, owner):
                raise UserError(f"“{name}”: {missing}")
            return found

        others = {part: tuple(labels(name) for name in data[part] or ()) for part in (self.also, self.keep)}
        return replace(labels(data[self.feature]), also=others[self.also], keep=others[self.keep])

    def asked(self, data: dict, owner: str) -> tuple[Labels, dict[str, Any]]:
        return self.target(data, owner), self.form.read(data)

    def warn(self, data: dict) -> dict:
        """What the settings leave undone, said before anything is begun."""
        knobs = {name: data[self.form.parts[name]] for name in CAVEATS}
        found = self.studio.feature_caveats(data[self.keep] or (), knobs)
        return {self.caveat: [h("div", h("p", text), cls="note") for text in found]}

    def begin(self, data: dict, owner: str) -> str:
        base, (target, knobs) = self.studio.default_base(), self.asked(data, owner)
        return self.studio.forget(base, target, METHOD, knobs, owner=owner, deltas=self.studio.active(base))

    def look(self, row: Row, owner: str) -> dict:
        if not is_undecided(row):
            return {self.check: None, self.pairs: [], self.people.view: None}
        cards, shown = checked(self.studio, row, owner)
        return {self.check: cards, self.pairs: shown, self.people.view: self.people.offer(row)}


def heading(feature: str, batch: Batch) -> list[Node]:
    if batch.aside:
        words = "Their neighbours were labelled the other way. The next batch goes on where you were."
        return [h("h2", f"Are these labels of “{feature}” right?"), h("p", words, cls="quiet")]
    words = "Most of these were picked because they help most, the others are drawn at random."
    return [h("h2", f"Which of these show “{feature}”?"), h("p", words, cls="quiet") if batch.chosen else None]


def item(batch: Batch, labels: Mapping[int, Label], seed: int, picture: str) -> dict[str, str]:
    """One sample of the grid, and how it was come by: a label that is changed later stays one of a picked sample."""
    how = labels[seed].how if seed in labels else "chosen" if seed in batch.chosen else "random"
    return {"id": str(seed), "src": picture} | ({"how": how} if how != "random" else {})


def of_this_page(row: Row) -> bool:
    return row.kind == "forget" and row.params["target"]["kind"] == "Labels"


def earlier_tree(known: dict[str, Counts]) -> Node | None:
    if not known:
        return None
    buttons = [
        h("button", f"{name} ({counts.having} + {counts.lacking})", on="open", data_feature=name, cls="small")
        for name, counts in list(known.items())[:12]
    ]
    return h("div", h("span", "Your features: ", cls="quiet"), *buttons, cls="row")


pages["feature"] = Page("Feature", "feature", 10, build)
