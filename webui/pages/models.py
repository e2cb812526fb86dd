"""Models: what is here, what it draws, what has been erased from it, and the ways in and out."""

import gradio as gr

from engine.core.errors import UserError
from engine.studio import BaseInfo, Studio
from webui import pictures, words
from webui.events import SORRY, bind, error_box, log, said
from webui.pages import Page, pages
from webui.sampler import Sampler, pixels
from webui.transfer import ModelDrop
from webui.view import Node, View, h

SHOWN = range(6)
IMPORT = (
    "A .pkl of StyleGAN2, StyleGAN3 or EG3D, or safetensors. It is read without running anything in it, and no other "
    "host is asked."
)


def build(studio: Studio, demo: gr.Blocks) -> None:
    View([h("p", "Models", cls="eyebrow"), h("h1", "Generators on this machine")])
    listed = View(h("p", "Opening the models …", cls="quiet"), events=("delete",))
    trouble = View()
    sampler = Sampler(studio)
    View([h("h2", "Import"), h("p", IMPORT, cls="quiet")])
    drop = ModelDrop()

    @said(trouble)
    def load() -> dict:
        default = studio.default_base()
        infos = sorted(studio.bases(), key=lambda info: (info.name != default, info.name == "tiny", info.title))
        return {listed: h("div", *(model_card(studio, info) for info in infos), cls="cards halves"), **sampler.load()}

    @said(trouble)
    def delete(event: gr.EventData) -> dict:
        studio.delete_base(event.name)
        pictures.forget_all()
        return load()

    outputs = [listed, sampler.base, trouble]
    sampler.bind(demo)
    bind(demo.load, load, None, outputs)
    bind(drop.taken, load, None, outputs)
    bind(listed.delete, delete, None, outputs)


def model_card(studio: Studio, info: BaseInfo) -> Node:
    """One model that cannot be opened must not hide the others."""
    try:
        return open_card(studio, info)
    except UserError as error:
        trouble = str(error)
    except Exception:
        log.exception("the model %s could not be opened", info.name)
        trouble = SORRY
    return h("section", h("h2", info.title), error_box(trouble), h("p", actions(info), cls="row small"), cls="card")


def open_card(studio: Studio, info: BaseInfo) -> Node:
    """Pictures, size, hash, licence and what was erased; what is missing, and how to get it."""
    if info.missing:
        way = ["Not here yet: ", ", ".join(info.missing), ". ", h("code", "python app.py assets fetch"), " gets it."]
        licence = h("p", info.licence, cls="small quiet")
        return h("section", h("h2", info.title), h("p", way, cls="quiet"), licence, cls="card")
    facts = studio.facts(info.name)
    size = pictures.small(studio, info.name)
    faces = pictures.samples(studio, info.name, SHOWN, size=size)
    rows = {
        "Draws": ", ".join(f"{side} px" for side in facts["sizes"]),
        "Weights": f"{words.amount(facts['parameters'])} numbers, {words.weight(facts['bytes'])}",
        "Fingerprint": facts["fingerprint"],
        "Licence": info.licence,
        **({"From": info.parent} if info.parent else {}),
        "Erased": erased(studio, info.name),
    }
    return h(
        "section",
        h("h2", info.title),
        h("div", *(h("img", src=uri, alt="") for uri in faces), cls=f"strip spaced{pixels(size)}"),
        h("dl", *(part for name, text in rows.items() for part in (h("dt", name), h("dd", text))), cls="facts"),
        h("p", actions(info), cls="row small"),
        cls="card model",
        data_model=info.name,
    )


def erased(studio: Studio, base: str) -> str:
    """What is applied now, and what was kept but taken back."""
    active = studio.active(base)
    words = [
        card.request if name in active else f"{card.request} (taken back)" for name, card in studio.deltas(base).items()
    ]
    return ", ".join(words) or "nothing"


def actions(info: BaseInfo) -> list[Node]:
    """A model that came with Lethe can be given out but not deleted. A plain link would tell Gradio that the page is
    being left, and it would drop its stream; `download` does not."""
    found = [h("a", "Export with its erasures baked in", href=f"./transfer/{info.name}", download="")]
    if info.parent.endswith(".pkl"):
        found.append(h("a", "Export as .pkl", href=f"./transfer/{info.name}?form=pkl", download=""))
    if info.parent:
        sure = {"confirm": "Delete it and its erasures?", "busy": "Deleting …"}
        found.append(h("button", "Delete", on="delete", data_name=info.name, cls="small warn", **sure))
    return found


pages["models"] = Page("Models", "models", 80, build)
