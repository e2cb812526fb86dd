"""Erasures: those of each model, applied or taken back."""

import gradio as gr

from engine.studio import Studio
from webui import pictures
from webui.events import bind, said
from webui.view import Node, View, h


def build(studio: Studio, demo: gr.Blocks) -> None:
    trouble = View()
    listed = View(events=("apply", "withdraw", "delete"))
    outputs = [listed, trouble]

    def shown() -> dict:
        return {listed: erasures(studio)}

    @said(trouble)
    def load() -> dict:
        return shown()

    @said(trouble)
    def apply(event: gr.EventData) -> dict:
        studio.activate(event.base, [*studio.active(event.base), event.name])
        return shown()

    @said(trouble)
    def withdraw(event: gr.EventData) -> dict:
        studio.activate(event.base, [name for name in studio.active(event.base) if name != event.name])
        return shown()

    @said(trouble)
    def delete(event: gr.EventData) -> dict:
        studio.delete_delta(event.name)
        pictures.forget_all()
        return shown()

    bind(demo.load, load, None, outputs)
    bind(listed.apply, apply, None, outputs)
    bind(listed.withdraw, withdraw, None, outputs)
    bind(listed.delete, delete, None, outputs)


def erasures(studio: Studio) -> list[Node]:
    """One card per model that has any."""
    drawn = []
    for base in studio.bases():
        cards = studio.deltas(base.name)
        if cards:
            active = studio.active(base.name)
            rows = [line(base.name, name, card, name in active) for name, card in cards.items()]
            head = h("tr", *(h("th", title, scope="col") for title in ("Erased", "By", "State", "Actions")))
            table = h("table", h("thead", head), h("tbody", *rows), cls="stack")
            drawn.append(h("section", h("h2", base.title), table, cls="card"))
    return drawn or [h("p", "Nothing is erased. What you keep after an erasure is listed here.", cls="card quiet")]


def line(base: str, name: str, card, is_active: bool) -> Node:
    place = {"data_base": base, "data_name": name}
    turn = (
        h("button", "Take it back", on="withdraw", busy="Taking back …", cls="small", **place)
        if is_active
        else h("button", "Apply again", on="apply", busy="Applying …", cls="small main", **place)
    )
    gone = h("button", "Delete", on="delete", confirm="Delete for good?", cls="small warn", **place)
    state = h("span", "applied" if is_active else "taken back", cls=f"state {'done' if is_active else 'stopped'}")
    return h(
        "tr",
        h("td", card.request, h("div", name, cls="quiet small"), cls="wide"),
        h("td", card.method),
        h("td", state),
        h("td", h("div", turn, gone, h("a", "Audit", href=f"./audit?subject={name}"), cls="row"), cls="wide"),
    )
