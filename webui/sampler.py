"""The live sample panel: pictures of seeds from a model with its erasures, and the way between two seeds."""

import gradio as gr

from engine.core.errors import UserError
from engine.studio import Studio
from webui import pictures
from webui.events import bind, said
from webui.seeds import parse_seeds
from webui.view import View, h

STEPS = 9


class Sampler:
    """Made where it is to be shown; `bind(demo)` once."""

    def __init__(self, studio: Studio) -> None:
        self.studio = studio
        View([h("h2", "Try one"), h("p", "The same seed always gives the same picture.", cls="quiet")])
        with gr.Row():
            self.base = gr.Dropdown([], label="Model")
            self.applied = gr.Dropdown([], label="With erasures", multiselect=True, info="Applied in this order.")
        with gr.Row():
            self.seeds = gr.Textbox("0-11", label="Seeds", info="Numbers and ranges: 0-11, 20")
            self.psi = gr.Slider(
                0, 1, 0.7, step=0.05, label="Truncation", info="Small: alike and clean. 1: everything."
            )
            self.size = gr.Radio([], label="Size", info="Small is quick.")
        self.draw = gr.Button("Draw", variant="primary", elem_classes=["run"])
        self.trouble = View()
        self.drawn = View()
        View([h("h2", "Between two"), h("p", BETWEEN, cls="quiet")])
        with gr.Row():
            self.first = gr.Number(3, label="From seed", precision=0, minimum=0)
            self.last = gr.Number(11, label="To seed", precision=0, minimum=0)
        self.walk = gr.Button("Draw the way", elem_classes=["side"])
        self.strip = View()

    def bind(self, demo: gr.Blocks) -> None:
        guard = said(self.trouble)
        settings, chosen = (
            {self.base, self.applied, self.seeds, self.psi, self.size},
            [self.size, self.applied, self.trouble],
        )
        loaded = bind(demo.load, guard(self.load), None, [self.base, self.trouble])
        loaded = bind(loaded.then, guard(self.choose), self.base, chosen)
        bind(loaded.then, guard(self.sample), settings, [self.drawn, self.trouble])
        bind(self.base.input, guard(self.choose), self.base, chosen)
        bind(self.draw.click, guard(self.sample), settings, [self.drawn, self.trouble], show_progress="minimal")
        way = settings | {self.first, self.last}
        bind(self.walk.click, guard(self.between), way, [self.strip, self.trouble], show_progress="minimal")

    def load(self) -> dict:
        ready = [(info.title, info.name) for info in self.studio.bases() if not info.missing]
        return {self.base: gr.update(choices=ready, value=self.studio.default_base())}

    def choose(self, name: str) -> dict:
        sizes = self.studio.sizes(name)
        kept = [(card.request, delta) for delta, card in self.studio.deltas(name).items()]
        labels = [(f"{side} px" if side != max(sizes) else f"full ({side} px)", side) for side in sizes if side >= 128]
        start = pictures.small(self.studio, name)
        return {
            self.size: gr.update(choices=labels or [(f"{start} px", start)], value=start),
            self.applied: gr.update(choices=kept, value=self.studio.active(name), visible=bool(kept)),
        }

    def sample(self, data: dict) -> dict:
        seeds = parse_seeds(data[self.seeds])
        made = pictures.samples(self.studio, data[self.base], seeds, data[self.applied] or [], **self.look(data))
        shown = zip(seeds, made, strict=True)
        figures = [h("figure", h("img", src=uri, alt=f"Seed {n}"), h("figcaption", f"seed {n}")) for n, uri in shown]
        return {self.drawn: h("div", *figures, cls=f"faces big{pixels(data[self.size])}")}

    def between(self, data: dict) -> dict:
        ends = data[self.first], data[self.last]
        if None in ends:
            raise UserError("a seed is empty; give two whole numbers")
        made = self.studio.between(data[self.base], *ends, STEPS, data[self.applied] or [], **self.look(data))
        images = [h("img", src=pictures.data_uri(p), alt=f"Step {n} of {STEPS}") for n, p in enumerate(made, start=1)]
        return {self.strip: h("div", *images, cls=f"strip way{pixels(data[self.size])}")}

    def look(self, data: dict) -> dict:
        return {"psi": data[self.psi], "size": data[self.size]}


def pixels(size: int) -> str:
    """A tiny picture is shown with its pixels, not blurred."""
    return " pixel" if size < 64 else ""


BETWEEN = "The straight line from one seed to another, in the model's own space."
