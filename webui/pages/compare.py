"""Compare: the same seeds from two versions of a model, under one slider."""

import gradio as gr

from engine.studio import Studio
from webui import pictures
from webui.compare import CompareGrid, pairs
from webui.events import bind, said
from webui.pages import Page, pages
from webui.seeds import parse_seeds
from webui.view import View, h

SEEDS = "0-15"


def build(studio: Studio, demo: gr.Blocks) -> None:
    View(
        [
            h("p", "Compare", cls="eyebrow"),
            h("h1", "Before and after"),
            h(
                "p",
                "Two versions of a model draw the same seeds. What was not erased should look the same.",
                cls="lead",
            ),
        ]
    )
    trouble = View()
    with gr.Row():
        base = gr.Dropdown([], label="Model")
        left = gr.Dropdown([], label="Before: with erasures", multiselect=True)
        right = gr.Dropdown([], label="After: with erasures", multiselect=True)
    with gr.Row():
        seeds = gr.Textbox(SEEDS, label="Seeds", info="Numbers and ranges: 0-15, 40")
        psi = gr.Slider(0, 1, 0.7, step=0.05, label="Truncation")
    draw = gr.Button("Compare", variant="primary", elem_classes=["run"])
    word = View(DRAWING)
    grid = CompareGrid(elem_id="compare")

    @said(trouble)
    def load() -> dict:
        ready = [(info.title, info.name) for info in studio.bases() if not info.missing]
        return {base: gr.update(choices=ready, value=studio.default_base())}

    @said(trouble)
    def choose(name: str) -> dict:
        kept = [(card.request, delta) for delta, card in studio.deltas(name).items()]
        return {
            left: gr.update(choices=kept, value=[]),
            right: gr.update(choices=kept, value=studio.active(name)),
        }

    @said(trouble, word)
    def compare(data: dict) -> dict:
        name, chosen = data[base], parse_seeds(data[seeds])
        look = {"psi": data[psi], "size": pictures.small(studio, name)}
        before = pictures.samples(studio, name, chosen, data[left] or [], **look)
        after = pictures.samples(studio, name, chosen, data[right] or [], **look)
        drawn = pairs(before, after, [f"seed {seed}" for seed in chosen])
        alike = None if studio.deltas(name) else h("div", NOTHING, cls="note")
        return {grid: gr.update(value=drawn, large=None), word: alike}

    @said(trouble)
    def full(data: dict, event: gr.EventData) -> dict:
        """The enlarged pair at the model's own size."""
        seed = parse_seeds(data[seeds])[int(event.index)]
        sides = [
            pictures.samples(studio, data[base], [seed], data[side] or [], psi=data[psi])[0] for side in (left, right)
        ]
        return {grid: gr.update(large={"index": event.index, "a": sides[0], "b": sides[1]})}

    settings = {base, left, right, seeds, psi}
    loaded = bind(demo.load, load, None, [base, trouble])
    shown = [grid, word, trouble]
    chosen = bind(loaded.then, choose, base, [left, right, trouble])
    bind(chosen.then, compare, settings, shown)
    bind(base.input, choose, base, [left, right, trouble])
    asked = bind(draw.click, lambda: DRAWING, None, word, queue=False)
    bind(asked.then, compare, settings, shown)
    bind(grid.full, full, settings, [grid, trouble])


NOTHING = ["Nothing has been erased from this model, so both sides are equal. "]
NOTHING += [h("a", "Erase a person", href="./identity"), " first."]
DRAWING = h("p", "Drawing the pictures …", cls="quiet", role="status")

pages["compare"] = Page("Compare", "compare", 50, build)
