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
from webui.grid import LabelGrid, keep_labels
from webui.owner import owner_of
from webui.pages import Page, pages
from webui.panels import JobPanel
from webui.view import Node, View, h

METHOD = "ascent"
BATCH = 120
PORTION = 24  # samples that are shown as soon as they are drawn
ENOUGH = 10  # labels on each side
PSI = 1.0  # thresholds must come from random latents, so nothing is truncated
FIRST = 1000  # seeds below are for looking at


def build(studio: Studio, demo: gr.Blocks) -> None:
    View(
        [
            h("p", "Feature", cls="eyebrow"),
            h("h1", "Erase a feature"),
            h(
                "p",
                "Name it, then say which samples show it. Ten with and ten without are enough to begin.",
                cls="lead",
            ),
        ]
    )
    trouble = View()
    with gr.Row(equal_height=True, elem_classes=["name-row"]):
        name = gr.Textbox(label="Feature", placeholder="glasses", max_length=60, elem_id="feature-name", scale=3)
        show = gr.Button("Show samples", variant="primary", scale=1)
    mode = gr.Radio(
        [("Label each sample", "grid"), ("Pages of ten: tick those that have it", "tick")],
        value="grid", label="How", elem_classes=["choice"],
    )  # fmt: skip
    earlier = View(events=("open",))

    def save(data: dict, request: gr.Request) -> dict:
        return keep_labels(studio, owner_of(request), data)

    grid = LabelGrid(save, elem_id="labels")
    enough = View()
    with gr.Accordion("Settings", open=False):
        form = Form(studio.method(METHOD), hide=("batch",))
    erase = gr.Button("Erase", variant="primary", interactive=False, elem_classes=["run"])
    batch = gr.State(0)
    panel = JobPanel(studio, demo, belongs=of_this_page)

    def samples(feature: str, number: int, how: str, request: gr.Request) -> Iterator[dict]:
        """A batch of samples with the labels they already have, in portions as they are drawn."""
        owner, base = owner_of(request), studio.default_base()
        try:
            words = checked_feature(feature)
            labels = {str(seed): label.value for seed, label in studio.labels.get(owner, base, words).items()}
            seeds, items = range(FIRST + number * BATCH, FIRST + (number + 1) * BATCH), []
            size = pictures.small(studio, base)
            fixed = {"context": {"base": base, "feature": words}, "mode": how, "page": number * BATCH // 10 + 1}
            for start in range(0, BATCH, PORTION):
                part = seeds[start : start + PORTION]
                drawn = pictures.samples(studio, base, part, psi=PSI, size=size)
                items = [*items, *({"id": str(s), "src": uri} for s, uri in zip(part, drawn, strict=True))]
                here = {item["id"]: labels[item["id"]] for item in items if item["id"] in labels}
                yield {trouble: None, grid: gr.update(items=items, value=here, **fixed), batch: number}
            yield after_labels(words, owner)
        except UserError as error:
            yield {trouble: error_box(str(error))}

    def after_labels(feature: str, owner: str) -> dict:
        counts = studio.labels.counts(owner, studio.default_base(), feature)
        ready = min(counts.having, counts.lacking) >= ENOUGH
        button = gr.update(value=f"Erase “{feature}” (naive baseline)", interactive=ready)
        return {enough: enough_tree(counts), erase: button}

    @said(trouble)
    def labelled(feature: str, request: gr.Request) -> dict:
        return after_labels(checked_feature(feature), owner_of(request))

    @said(trouble)
    def load(request: gr.Request) -> dict:
        known = studio.labels.features(owner_of(request), studio.default_base())
        return {name: next(iter(known), ""), earlier: earlier_tree(known)}

    @said(trouble)
    def reopen(event: gr.EventData) -> dict:
        return {name: event.feature}

    def begin(data: dict, owner: str) -> str:
        base = studio.default_base()
        target = studio.labels.target(owner, base, data[name], psi=PSI)
        missing = short_of(Counts(len(target.having), len(target.lacking)))
        if missing:
            raise UserError(missing)
        return studio.forget(
            base, target, METHOD, form.read(data) | {"batch": 4}, owner=owner, deltas=studio.active(base)
        )

    shown = [grid, batch, enough, erase, trouble]
    quiet = {"api_visibility": "private", "show_progress": "hidden"}

    def again(feature: str, number: int, how: str, request: gr.Request) -> Iterator[dict]:
        if feature:
            yield from samples(feature, number, how, request)
        else:
            yield {trouble: None}

    def following(feature: str, number: int, how: str, request: gr.Request) -> Iterator[dict]:
        yield from samples(feature, number + 1, how, request)

    first = bind(demo.load, load, None, [name, earlier, trouble])
    first.then(again, [name, batch, mode], shown, **quiet)
    bind(earlier.open, reopen, None, [name, trouble]).then(again, [name, batch, mode], shown, **quiet)
    bind(show.click, samples, [name, batch, mode], shown)
    bind(name.submit, samples, [name, batch, mode], shown)
    bind(mode.input, again, [name, batch, mode], shown)
    bind(grid.next, following, [name, batch, mode], shown)
    bind(grid.input, labelled, name, [enough, erase, trouble], trigger_mode="always_last")
    panel.starts(erase.click, begin, {name, *form.inputs})


def of_this_page(row: Row) -> bool:
    return row.kind == "forget" and row.params["target"]["kind"] == "Labels"


def short_of(counts: Counts) -> str:
    """What is missing until erasing makes sense, in a sentence; empty when nothing is."""
    need = [
        f"{n} more {side}"
        for n, side in ((ENOUGH - counts.having, "with"), (ENOUGH - counts.lacking, "without"))
        if n > 0
    ]
    if counts.having and not counts.lacking and counts.having >= ENOUGH:
        return "All labels say “with”. Add some without."
    if counts.lacking and not counts.having and counts.lacking >= ENOUGH:
        return "All labels say “without”. Add some with."
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
