"""Models: what is here, what it draws, and what has been erased from it."""

import gradio as gr

from engine.core.errors import UserError
from engine.studio import BaseInfo, Studio
from webui import pictures, words
from webui.events import SORRY, bind, error_box, log, said
from webui.pages import Page, pages
from webui.seeds import parse_seeds
from webui.view import Node, View, h

SHOWN = tuple(range(12))
STEPS = 9


def build(studio: Studio, demo: gr.Blocks) -> None:
    View([h("p", "Models", cls="eyebrow"), h("h1", "Generators on this machine")])
    listed = View()
    trouble = View()
    View([h("h2", "Try one"), h("p", "The same seed always gives the same picture.", cls="quiet")])
    with gr.Row():
        base = gr.Dropdown([], label="Model")
        applied = gr.Dropdown(
            [], label="With erasures", multiselect=True, info="Chosen ones are applied in this order."
        )
    with gr.Row():
        seeds = gr.Textbox("0-11", label="Seeds", info="Numbers and ranges: 0-11, 20")
        psi = gr.Slider(0, 1, 0.7, step=0.05, label="Truncation", info="Small: alike and clean. 1: everything.")
        size = gr.Radio([], label="Size", info="Small is quick.")
    draw = gr.Button("Draw", variant="primary", elem_classes=["run"])
    drawn = View()
    View(
        [
            h("h2", "Between two"),
            h("p", "The straight line from one seed to another, in the model's own space.", cls="quiet"),
        ]
    )
    with gr.Row():
        first = gr.Number(3, label="From seed", precision=0, minimum=0)
        last = gr.Number(11, label="To seed", precision=0, minimum=0)
        walk = gr.Button("Draw the way", elem_classes=["side"])
    strip = View()

    @said(trouble)
    def load() -> dict:
        default = studio.default_base()
        infos = sorted(studio.bases(), key=lambda info: (info.name != default, info.name == "tiny", info.title))
        ready = [info for info in infos if not info.missing]
        return {
            listed: h("div", *(model_card(studio, info) for info in infos), cls="cards halves"),
            base: gr.update(choices=[(info.title, info.name) for info in ready], value=default),
        }

    @said(trouble)
    def choose(name: str) -> dict:
        if not name:
            return {}
        sizes = studio.sizes(name)
        kept = [(card.request, delta) for delta, card in studio.deltas(name).items()]
        labels = [(f"{side} px" if side != max(sizes) else f"full ({side} px)", side) for side in sizes if side >= 128]
        return {
            size: gr.update(choices=labels or [(f"{max(sizes)} px", max(sizes))], value=pictures.small(studio, name)),
            applied: gr.update(choices=kept, value=studio.active(name), visible=bool(kept)),
        }

    @said(trouble)
    def sample(data: dict) -> dict:
        chosen = parse_seeds(data[seeds])
        made = pictures.samples(studio, data[base], chosen, data[applied] or [], psi=data[psi], size=data[size])
        shown = zip(chosen, made, strict=True)
        figures = [h("figure", h("img", src=uri, alt=f"Seed {n}"), h("figcaption", f"seed {n}")) for n, uri in shown]
        return {drawn: h("div", *figures, cls=looks(data[size]))}

    @said(trouble)
    def between(data: dict) -> dict:
        if data[first] is None or data[last] is None:
            raise UserError("a seed is empty; give two whole numbers")
        made = studio.between(
            data[base], data[first], data[last], STEPS, data[applied] or [], psi=data[psi], size=data[size]
        )
        images = [h("img", src=pictures.data_uri(p), alt=f"Step {n} of {STEPS}") for n, p in enumerate(made, start=1)]
        return {strip: h("div", *images, cls=f"strip{' pixel' if data[size] < 64 else ''}")}

    settings = {base, applied, seeds, psi, size}
    loaded = bind(demo.load, load, None, [listed, base, trouble])
    loaded.then(choose, base, [size, applied, trouble], api_visibility="private", show_progress="hidden").then(
        sample, settings, [drawn, trouble], api_visibility="private", show_progress="hidden"
    )
    bind(base.input, choose, base, [size, applied, trouble])
    bind(draw.click, sample, settings, [drawn, trouble], show_progress="minimal")
    bind(walk.click, between, settings | {first, last}, [strip, trouble], show_progress="minimal")


def looks(size: int) -> str:
    return f"faces big{' pixel' if size < 64 else ''}"


def model_card(studio: Studio, info: BaseInfo) -> Node:
    """One model that cannot be opened must not hide the others."""
    try:
        return open_card(studio, info)
    except UserError as error:
        trouble = str(error)
    except Exception:
        log.exception("the model %s could not be opened", info.name)
        trouble = SORRY
    return h("section", h("h2", info.title), error_box(trouble), cls="card")


def open_card(studio: Studio, info: BaseInfo) -> Node:
    """Pictures, size, hash, licence and what was erased; what is missing, and how to get it."""
    if info.missing:
        way = ["Not here yet: ", ", ".join(info.missing), ". ", h("code", "python app.py assets fetch"), " gets it."]
        return h(
            "section",
            h("h2", info.title),
            h("p", way, cls="quiet"),
            h("p", info.licence, cls="small quiet"),
            cls="card",
        )
    facts = studio.facts(info.name)
    size = pictures.small(studio, info.name)
    faces = pictures.samples(studio, info.name, SHOWN[:6], size=size)
    erased = [card.request for card in studio.deltas(info.name).values()]
    rows = {
        "Draws": ", ".join(f"{side} px" for side in facts["sizes"]),
        "Weights": f"{words.amount(facts['parameters'])} numbers, {words.weight(facts['bytes'])}",
        "Fingerprint": facts["fingerprint"],
        "Licence": info.licence,
        "Erased": ", ".join(erased) or "nothing",
    }
    return h(
        "section",
        h("h2", info.title),
        h("div", *(h("img", src=uri, alt="") for uri in faces), cls=f"strip{' pixel' if size < 64 else ''} spaced"),
        h("dl", *(part for name, text in rows.items() for part in (h("dt", name), h("dd", text))), cls="facts"),
        cls="card model",
    )


pages["models"] = Page("Models", "models", 80, build)
