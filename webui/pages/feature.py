"""Feature: name it, label samples, erase, check, keep or discard.

The labelling is the real one. Until the real method is here, what erases is the naive baseline, called by its name.
"""

from collections.abc import Iterator

import gradio as gr

from engine.core.errors import UserError
from engine.core.joblog import Row
from engine.core.labelbook import Counts, checked_feature
from engine.studio import Studio
from webui import pictures
from webui.events import bind, error_box, said
from webui.form import Form
from webui.grid import PAGE, LabelGrid, keep_labels
from webui.owner import owner_of
from webui.pages import Page, pages
from webui.panels import JobPanel
from webui.view import Node, View, h

METHOD = "ascent"
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
        self.newest: dict[str, object] = {}  # by page load: what it asked for last
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
        self.enough = View()
        with gr.Accordion("Settings", open=False):
            self.form = Form(studio.method(METHOD), hide=("batch",))
        self.erase = gr.Button("Erase", variant="primary", interactive=False, elem_classes=["run"])
        self.panel = JobPanel(studio, belongs=of_this_page)
        self.batch, self.feature = gr.State(0), gr.State("")  # what is being labelled, whatever the name field says

    def bind(self, demo: gr.Blocks) -> None:
        asked = [self.name, self.batch, self.mode]
        shown = [self.heading, self.grid, self.batch, self.feature, self.enough, self.erase, self.trouble]
        said_here = said(self.trouble)
        self.panel.watch(demo)
        self.panel.starts(self.erase.click, self.begin, {self.feature, *self.form.inputs})
        again = [self.feature, self.batch, self.mode]
        bind(demo.load, self.load, self.mode, [self.earlier, *shown])
        for event in (self.show.click, self.name.submit):
            bind(event, self.samples, asked, shown)
        bind(self.earlier.open, self.reopen, [self.batch, self.mode], shown)
        bind(self.mode.input, self.again, again, shown)
        bind(self.grid.next, self.following, again, shown)
        labelled = [self.enough, self.erase, self.trouble]
        bind(self.grid.input, said_here(self.labelled), None, labelled, trigger_mode="always_last")

    def load(self, how: str, request: gr.Request) -> Iterator[dict]:
        """The owner's features, and the samples of the one they labelled last."""
        known = self.studio.labels.features(owner_of(request), self.studio.default_base())
        yield {self.earlier: earlier_tree(known)}
        for last in list(known)[:1]:
            yield from self.samples(last, 0, how, request)

    def reopen(self, number: int, how: str, event: gr.EventData, request: gr.Request) -> Iterator[dict]:
        yield from self.samples(event.feature, number, how, request)

    def samples(self, feature: str, number: int, how: str, request: gr.Request) -> Iterator[dict]:
        """A batch of samples with the labels they already have, in portions as they are drawn."""
        try:
            words, owner, base = checked_feature(feature), owner_of(request), self.studio.default_base()
            labels = {str(seed): label.value for seed, label in self.studio.labels.get(owner, base, words).items()}
            fixed = {"context": {"base": base, "feature": words}, "mode": how, "page": number * BATCH // PAGE + 1}
            seeds, items = range(FIRST + number * BATCH, FIRST + (number + 1) * BATCH), []
            mine = self.newest[request.session_hash] = object()
            for start in range(0, BATCH, PORTION):
                if self.newest.get(request.session_hash) is not mine:
                    return  # the page has asked for something else since
                part = seeds[start : start + PORTION]
                drawn = pictures.samples(self.studio, base, part, psi=PSI, size=pictures.small(self.studio, base))
                items = [*items, *({"id": str(s), "src": uri} for s, uri in zip(part, drawn, strict=True))]
                here = {item["id"]: labels[item["id"]] for item in items if item["id"] in labels}
                drawn_so_far = {self.grid: gr.update(items=items, value=here, **fixed), self.heading: heading(words)}
                yield {**drawn_so_far, self.trouble: None, self.batch: number, self.feature: words}
            self.newest.pop(request.session_hash, None)
            yield self.counted(words, owner)
        except UserError as error:
            yield {self.trouble: error_box(str(error))}

    def again(self, feature: str, number: int, how: str, request: gr.Request) -> Iterator[dict]:
        """The same batch once more, if there is a name already."""
        if feature:
            yield from self.samples(feature, number, how, request)
        else:
            yield {self.trouble: None}

    def following(self, feature: str, number: int, how: str, request: gr.Request) -> Iterator[dict]:
        yield from self.samples(feature, number + 1, how, request)

    def save(self, data: dict, request: gr.Request) -> dict:
        return keep_labels(self.studio, owner_of(request), data)

    def labelled(self, event: gr.EventData, request: gr.Request) -> dict:
        return self.counted(checked_feature(event.context["feature"]), owner_of(request))

    def counted(self, feature: str, owner: str) -> dict:
        counts = self.studio.labels.counts(owner, self.studio.default_base(), feature)
        button = gr.update(value=f"Erase “{feature}” (naive baseline)", interactive=not short_of(counts))
        return {self.enough: enough_tree(counts), self.erase: button}

    def begin(self, data: dict, owner: str) -> str:
        base = self.studio.default_base()
        target = self.studio.labels.target(owner, base, data[self.feature], psi=PSI)
        missing = short_of(Counts(len(target.having), len(target.lacking)))
        if missing:
            raise UserError(missing)
        knobs = self.form.read(data) | {"batch": 4}
        return self.studio.forget(base, target, METHOD, knobs, owner=owner, deltas=self.studio.active(base))


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


def enough_tree(counts: Counts) -> Node:
    missing = short_of(counts)
    total = f"{counts.having} with and {counts.lacking} without in all. "
    if missing:
        return h("p", total, missing, cls="quiet")
    return h("p", total, "Enough to begin; twenty on each side are better. ", BASELINE, cls="quiet")


BASELINE = "The real method and its preview are coming; what runs now is the naive baseline, which protects nothing."


def earlier_tree(known: dict[str, Counts]) -> Node | None:
    if not known:
        return None
    buttons = [
        h("button", f"{name} ({counts.having} + {counts.lacking})", on="open", data_feature=name, cls="small")
        for name, counts in list(known.items())[:12]
    ]
    return h("div", h("span", "Your features: ", cls="quiet"), *buttons, cls="row")


pages["feature"] = Page("Feature", "feature", 10, build)
