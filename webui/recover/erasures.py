"""Erasures: those of each model, applied or taken back; exactly which weights that gives; releasing and deleting."""

from collections.abc import Iterator

import gradio as gr

from engine.studio import BaseInfo, Deletion, Standing, Studio
from webui import pictures, words
from webui.events import bind, said
from webui.view import Node, View, h

RELEASE = (
    "A released file holds one set of weights with everything that is applied now baked in. It needs no base and no "
    "erasure beside it, and nobody can take an erasure out of it again by leaving a file away."
)
STILL_KNOWS = (
    "The base still knows what the erasures hide, and an erasure kept as a file points at it: give away the released "
    "file alone, and keep the base and the erasures to yourself. Whether something can be brought back out of the "
    "released weights is what the Audit page tries."
)
ELSEWHERE = "Copies outside of this folder, such as backups, released files and exported runs, are not known here."


def build(studio: Studio, demo: gr.Blocks) -> None:
    trouble = View()
    proof = View(elem_id="proof")
    listed = View(events=("apply", "withdraw", "delete"), elem_id="erasures")
    outputs = [listed, trouble, proof]

    def shown() -> Iterator[dict]:
        """At once, and again where a fingerprint had to be worked out first."""
        known = {base.name: studio.is_standing_known(base.name) for base in studio.bases() if studio.deltas(base.name)}
        yield {listed: erasures(studio, {name: studio.standing(name) for name, is_known in known.items() if is_known})}
        if not all(known.values()):
            yield {listed: erasures(studio, {name: studio.standing(name) for name in known})}

    @said(trouble)
    def load() -> Iterator[dict]:
        yield from shown()

    @said(trouble)
    def apply(event: gr.EventData) -> Iterator[dict]:
        studio.activate(event.base, [*studio.active(event.base), event.name])
        yield from shown()

    @said(trouble)
    def withdraw(event: gr.EventData) -> Iterator[dict]:
        studio.activate(event.base, [name for name in studio.active(event.base) if name != event.name])
        yield from shown()

    @said(trouble)
    def delete(event: gr.EventData) -> Iterator[dict]:
        gone = studio.delete_delta(event.name)
        pictures.forget_all()
        yield {proof: proof_of(gone)}
        yield from shown()

    bind(demo.load, load, None, outputs)
    bind(listed.apply, apply, None, outputs)
    bind(listed.withdraw, withdraw, None, outputs)
    bind(listed.delete, delete, None, outputs)


def erasures(studio: Studio, standings: dict[str, Standing]) -> list[Node]:
    """One card per model that has any."""
    found = [base for base in studio.bases() if studio.deltas(base.name)]
    drawn = [section(studio, base, standings.get(base.name)) for base in found]
    return drawn or [h("p", "Nothing is erased. What you keep after an erasure is listed here.", cls="card quiet")]


def section(studio: Studio, base: BaseInfo, standing: Standing | None) -> Node:
    cards, active = studio.deltas(base.name), studio.active(base.name)
    # The order of applying counts, so what is applied comes first, in its order.
    ordered = [name for name in active if name in cards] + [name for name in cards if name not in active]
    rows = [line(base.name, name, cards, name in active) for name in ordered]
    head = h("tr", *(h("th", title, scope="col") for title in ("Erased", "By", "State", "Actions")))
    table = h("table", h("thead", head), h("tbody", *rows), cls="stack")
    return h("section", h("h2", base.title), stands(standing), table, release(base.name, active), cls="card column-of")


def stands(standing: Standing | None) -> Node:
    """The badge."""
    if standing is None:
        return h("p", "Working out the fingerprint …", cls="quiet small")
    badge, tone = ("exact", "done") if standing.is_exact else ("approximate", "stopped")
    print_of = h("span", "Fingerprint ", h("code", standing.fingerprint), cls="small quiet")
    return h("div", h("span", badge, cls=f"state {tone}"), h("span", standing.words, cls="small"), print_of, cls="row")


def line(base: str, name: str, cards: dict, is_active: bool) -> Node:
    card, place = cards[name], {"data_base": base, "data_name": name}
    turn = (
        h("button", "Take it back", on="withdraw", busy="Taking back …", cls="small", **place)
        if is_active
        else h("button", "Apply again", on="apply", busy="Applying …", cls="small main", **place)
    )
    gone = h("button", "Delete", on="delete", confirm="Delete for good?", busy="Deleting …", cls="small warn", **place)
    state = h("span", "applied" if is_active else "taken back", cls=f"state {'done' if is_active else 'stopped'}")
    under = [cards[other].request for other in card.on_top_of if other in cards]
    made_on = h("div", f"made on top of: {', '.join(under)}", cls="quiet small") if under else None
    return h(
        "tr",
        h("td", card.request, h("div", name, cls="quiet small"), made_on, cls="wide"),
        h("td", card.method),
        h("td", state),
        h("td", h("div", turn, gone, h("a", "Audit", href=f"./audit?subject={name}"), cls="row"), cls="wide"),
    )


def release(base: str, active: list[str]) -> Node:
    """What giving the model away means, before the link that does it."""
    way = h("a", "Write the released file", href=f"./transfer/{base}", download="")
    if not active:
        way = h("p", "Nothing is applied, so a released file would be the base itself.", cls="quiet")
    return h("details", h("summary", "Release"), h("p", RELEASE), h("p", STILL_KNOWS), way)


def proof_of(gone: Deletion) -> Node:
    files = h("ul", *(h("li", h("code", name)) for name in gone.files))
    what = f"Deleted {words.plural(len(gone.files), 'file')}, {words.weight(gone.bytes)}. "
    looked = f"Then all {gone.searched} files of the data folder were searched by name and by content: "
    if gone.left:
        left = h("ul", *(h("li", h("code", name)) for name in gone.left))
        return h("div", what, looked, "these still hold it. Delete them by hand.", left, cls="trouble", role="alert")
    listed = h("details", h("summary", "Which files"), files)
    told = h("p", what, looked, "nothing of it is left. ", ELSEWHERE)
    return h("div", told, listed, cls="done", role="status")
