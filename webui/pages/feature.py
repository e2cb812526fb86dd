"""Feature: name it, label samples, look at what would change, erase, check, keep or discard."""

import time
from collections.abc import Iterator, Sequence
from dataclasses import replace

import gradio as gr

from engine.core.errors import UserError
from engine.core.joblog import Row
from engine.core.labelbook import Counts, checked_feature
from engine.core.targets import Labels
from engine.studio import Studio
from webui import pictures
from webui.compare import CompareGrid
from webui.events import bind, said
from webui.feature import files
from webui.feature.check import checked
from webui.feature.people import PeopleCheck
from webui.feature.preview import Preview
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
BATCH = 120
PORTION = 12  # samples that are shown as soon as they are drawn
ENOUGH = 10  # labels on each side
PSI = 1.0  # thresholds must come from random latents, so nothing is truncated
FIRST = 1000  # seeds below are for looking at
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
        self.preview = Preview(studio)
        self.erase = gr.Button("Erase", variant="primary", interactive=False, elem_classes=["run"])
        self.panel = JobPanel(studio, belongs=of_this_page)
        self.check, self.pairs = View(), CompareGrid(elem_id="check")
        self.people = PeopleCheck(studio)
        self.batch, self.feature = gr.State(0), gr.State("")  # what is being labelled, whatever the name field says

    def bind(self, demo: gr.Blocks) -> None:
        buttons = [self.erase, self.preview.button]
        shown = [self.heading, self.grid, self.batch, self.feature, self.links, *buttons, self.trouble]
        said_here = said(self.trouble)
        parts = [self.check, self.pairs, self.people.view]
        target = {self.feature, self.keep, self.also}
        self.panel.watch(demo, locks=[self.erase], parts=parts, look=self.look)
        self.panel.starts(self.erase.click, self.begin, {*target, *self.form.inputs})
        self.preview.bind(self.target, target)
        self.people.bind()
        again = [self.feature, self.batch, self.mode]
        bind(demo.load, said_here(self.load), self.mode, [self.earlier, self.keep, self.also, *shown])
        for event in (self.show.click, self.name.submit):
            bind(event, said_here(self.samples), [self.name, self.batch, self.mode], shown)
        bind(self.earlier.open, said_here(self.reopen), [self.batch, self.mode], shown)
        taken = said(self.trouble, self.upload)(self.take)
        bind(self.upload.upload, taken, [self.upload, self.mode], [self.upload, *shown])
        bind(self.mode.input, said_here(self.again), again, shown)
        bind(self.grid.next, said_here(self.following), again, shown)
        labelled = [self.links, *buttons, self.trouble]
        counted = bind(self.grid.input, said_here(self.labelled), None, labelled, trigger_mode="always_last")
        advised, labelling = [self.grid, self.trouble], [self.feature, self.batch]
        bind(counted.then, said_here(self.advise), labelling, advised, trigger_mode="always_last")

    # Labelling

    def load(self, how: str, request: gr.Request) -> Iterator[dict]:
        """The owner's features, and the samples of the one they labelled last."""
        known = self.studio.labels.features(owner_of(request), self.studio.default_base())
        usable = [name for name, counts in known.items() if not short_of(counts)]
        choices = {part: gr.update(choices=usable) for part in (self.keep, self.also)}
        yield {self.earlier: earlier_tree(known), **choices}
        for last in list(known)[:1]:
            yield from self.samples(last, 0, how, request)

    def reopen(self, number: int, how: str, event: gr.EventData, request: gr.Request) -> Iterator[dict]:
        yield from self.samples(event.feature, number, how, request)

    def take(self, content: bytes | None, how: str, request: gr.Request) -> Iterator[dict]:
        feature = files.taken(self.studio, content, owner_of(request))
        for update in self.samples(feature, 0, how, request, revision=time.time_ns()):
            yield {self.upload: None, **update}

    def samples(
        self, feature: str, number: int, how: str, request: gr.Request, order: Sequence[int] = (), revision: int = 0
    ) -> Iterator[dict]:
        """A batch of samples with the labels they already have, in portions as they are drawn. Samples in an `order`
        were chosen, not drawn at random, and thresholds must not be taken from them."""
        words, owner, base = checked_feature(feature), owner_of(request), self.studio.default_base()
        labels = {str(seed): label.value for seed, label in self.studio.labels.get(owner, base, words).items()}
        fixed = {"context": {"base": base, "feature": words}, "mode": how, "page": number * BATCH // PAGE + 1}
        fixed |= {"revision": revision} if revision else {}
        fixed |= told(self.studio.labels.counts(owner, base, words))
        seeds, items, more = order or seeds_of(number), [], {"how": "chosen"} if order else {}
        mine = self.latest.begin(request)
        for start in range(0, BATCH, PORTION):
            if not self.latest.is_last(request, mine):
                return  # the page has asked for something else since
            part = seeds[start : start + PORTION]
            drawn = pictures.samples(self.studio, base, part, psi=PSI, size=pictures.small(self.studio, base))
            items = [*items, *({"id": str(s), "src": uri} | more for s, uri in zip(part, drawn, strict=True))]
            here = {item["id"]: labels[item["id"]] for item in items if item["id"] in labels}
            drawn_so_far = {self.grid: gr.update(items=items, value=here, **fixed), self.heading: heading(words)}
            yield {**drawn_so_far, self.batch: number, self.feature: words}
        self.latest.end(request)
        yield self.counted(words, owner)

    def again(self, feature: str, number: int, how: str, request: gr.Request) -> Iterator[dict]:
        """The same batch once more, if there is a name already."""
        if feature:
            yield from self.samples(feature, number, how, request)
        else:
            yield {}

    def following(self, feature: str, number: int, how: str, request: gr.Request) -> Iterator[dict]:
        """The next batch; when the labels suffice for a probe, the most useful samples come first."""
        order: Sequence[int] = ()
        if how == "grid" and not self.missing(feature, owner_of(request)):
            yield {self.heading: h("p", "Looking which samples would help most …", cls="quiet")}
            base, seeds = self.studio.default_base(), seeds_of(number + 1)
            advice = self.studio.advise(base, feature, seeds, psi=PSI, owner=owner_of(request))
            order = [*advice.order, *(seed for seed in seeds if seed not in set(advice.order))]
        yield from self.samples(feature, number + 1, how, request, order)

    def save(self, data: dict, request: gr.Request) -> dict:
        owner = owner_of(request)
        kept = keep_labels(self.studio, owner, data)
        counts = self.studio.labels.counts(owner, str(data["context"]["base"]), data["context"]["feature"])
        return kept | told(counts)

    def labelled(self, event: gr.EventData, request: gr.Request) -> dict:
        return self.counted(checked_feature(event.context["feature"]), owner_of(request))

    def advise(self, feature: str, number: int, request: gr.Request) -> dict:
        """Guesses to confirm and labels that look odd, once ten and ten are there."""
        owner, base = owner_of(request), self.studio.default_base()
        if not feature or self.missing(feature, owner):
            return {self.grid: gr.update(advice={})}
        found = self.studio.advise(base, feature, seeds_of(number), psi=PSI, owner=owner)
        guesses = {str(seed): answer for seed, answer in found.guesses.items()}
        return {self.grid: gr.update(advice={"guesses": guesses, "odd": [str(seed) for seed in found.odd]})}

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
            missing = short_of(Counts(len(found.having), len(found.lacking)))
            if missing:
                raise UserError(f"“{name}”: {missing}")
            return found

        others = {part: tuple(labels(name) for name in data[part] or ()) for part in (self.also, self.keep)}
        return replace(labels(data[self.feature]), also=others[self.also], keep=others[self.keep])

    def begin(self, data: dict, owner: str) -> str:
        base, target = self.studio.default_base(), self.target(data, owner)
        knobs = self.form.read(data)
        return self.studio.forget(base, target, METHOD, knobs, owner=owner, deltas=self.studio.active(base))

    def look(self, row: Row, owner: str) -> dict:
        if not is_undecided(row):
            return {self.check: None, self.pairs: [], self.people.view: None}
        cards, shown = checked(self.studio, row, owner)
        return {self.check: cards, self.pairs: shown, self.people.view: self.people.offer(row)}


def seeds_of(number: int) -> Sequence[int]:
    """The seeds of a batch."""
    return range(FIRST + number * BATCH, FIRST + (number + 1) * BATCH)


def heading(feature: str) -> Node:
    return h("h2", f"Which of these show “{feature}”?")


def of_this_page(row: Row) -> bool:
    return row.kind == "forget" and row.params["target"]["kind"] == "Labels"


def short_of(counts: Counts) -> str:
    """What is missing until erasing makes sense, in a sentence; empty when nothing is."""
    sides = {"with": ENOUGH - counts.having, "without": ENOUGH - counts.lacking}
    need = [f"{n} more {side}" for side, n in sides.items() if n > 0]
    if len(need) == 1 and not min(counts.having, counts.lacking):
        alike, other = ("with", "without") if counts.having else ("without", "with")
        return f"All labels say “{alike}”. Add some {other}."
    return f"Label {' and '.join(need)}." if need else ""


def told(counts: Counts) -> dict[str, str]:
    """What the grid says of all labels, and how far they have come: the page differs with none, too few and
    enough. Once there are enough, every save is a stage of its own, for it may change the advice."""
    missing = short_of(counts)
    words = missing or "Enough to begin; twenty on each side are better."
    stage = f"enough {time.time_ns()}" if not missing else "some" if counts.having + counts.lacking else "none"
    return {"note": f"{counts.having} with and {counts.lacking} without in all. {words}", "stage": stage}


def earlier_tree(known: dict[str, Counts]) -> Node | None:
    if not known:
        return None
    buttons = [
        h("button", f"{name} ({counts.having} + {counts.lacking})", on="open", data_feature=name, cls="small")
        for name, counts in list(known.items())[:12]
    ]
    return h("div", h("span", "Your features: ", cls="quiet"), *buttons, cls="row")


pages["feature"] = Page("Feature", "feature", 10, build)
