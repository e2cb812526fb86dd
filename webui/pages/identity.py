"""Identity: choose a person, erase, watch, check, keep or discard.

Until the photo journey is here, the people are generated ones and the method is the naive baseline, and both are
called by their names.
"""

from collections.abc import Sequence

import gradio as gr

from engine.core.errors import UserError
from engine.core.joblog import Row
from engine.core.targets import Seeds
from engine.studio import Studio
from webui import pictures
from webui.choice import PictureChoice
from webui.compare import CompareGrid, pairs
from webui.events import bind, said
from webui.form import Form
from webui.owner import owner_of
from webui.pages import Page, pages
from webui.panels import JobPanel
from webui.runview import is_undecided
from webui.view import View, h

METHOD = "ascent"
PEOPLE = (3, 7, 11, 20, 28, 45)
OTHERS = (101, 102, 103, 104, 105, 106, 107, 108, 109, 110, 111)
PSI = 1.0  # the codes that are erased are not truncated, so the pictures are not either
PRESETS = {
    "Quick": {"steps": 15, "lr": 1e-4},
    "Balanced": {"steps": 30, "lr": 1e-4},
    "Thorough": {"steps": 80, "lr": 1e-4},
}


def build(studio: Studio, demo: gr.Blocks) -> None:
    View(
        [
            h("p", "Identity", cls="eyebrow"),
            h("h1", "Erase a person"),
            h("p", "Choose one of six people this generator makes up, and make it forget that face.", cls="lead"),
        ]
    )
    View(h("div", h("strong", "The naive baseline. "), BASELINE, cls="note"))
    trouble = View()
    people = PictureChoice("Who should be forgotten?", empty=len(PEOPLE), elem_id="people")
    with gr.Accordion("Settings", open=False):
        form = Form(studio.method(METHOD), PRESETS, start="Balanced", hide=("batch",))
    erase = gr.Button("Erase this person", variant="primary", interactive=False, elem_classes=["run"])
    panel = JobPanel(studio, belongs=of_this_page)
    check = View()
    grid = CompareGrid(elem_id="check")

    def look(row: Row, owner: str) -> dict:
        return checked(studio, row, owner, check, grid) if is_undecided(row) else {check: None, grid: []}

    panel.watch(demo, locks=[erase], parts=[check, grid], look=look)

    def begin(data: dict, owner: str) -> str:
        if not data[people]:
            raise UserError("nobody is chosen; click one of the six pictures")
        base, seed = studio.default_base(), int(data[people])
        knobs = form.read(data) | {"batch": 1}
        return studio.forget(base, Seeds((seed,)), METHOD, knobs, owner=owner, deltas=studio.active(base))

    panel.starts(erase.click, begin, {people, *form.inputs})

    @said(trouble)
    def load() -> dict:
        base = studio.default_base()
        drawn = pictures.samples(studio, base, PEOPLE, studio.active(base), psi=PSI, size=pictures.small(studio, base))
        shown = enumerate(zip(PEOPLE, drawn, strict=True), start=1)
        return {people: gr.update(items=[item(n, seed, source) for n, (seed, source) in shown])}

    @said(trouble)
    def chosen(person: str, request: gr.Request) -> dict:
        live = any(row.state.is_live for row in studio.runs(owner_of(request)) if of_this_page(row))
        return {erase: gr.update(interactive=bool(person) and not live)}

    bind(demo.load, load, None, [people, trouble])
    bind(people.change, chosen, people, [erase, trouble])


BASELINE = (
    "Photos and the real method are coming. What runs here now is plain gradient ascent on one generated face: it "
    "protects nobody else, so other faces will change too. It is the mark that the real method has to beat."
)


def of_this_page(row: Row) -> bool:
    return row.kind == "forget" and row.params["method"] == METHOD and row.params["target"]["kind"] == "Seeds"


def item(number: int, seed: int, source: str) -> dict:
    return {"id": str(seed), "src": source, "label": f"Person {number}"}


def checked(studio: Studio, row: Row, owner: str, check: gr.HTML, grid: gr.HTML) -> dict:
    """The person and eleven others, before and after, so that collateral is seen before anything is kept."""
    seeds = (*row.params["target"]["seeds"][:1], *OTHERS)
    base, size = row.params["base"], pictures.small(studio, row.params["base"])
    before = pictures.samples(studio, base, seeds, row.params["deltas"], psi=PSI, size=size)
    after = studio.sample_result(row.id, seeds, psi=PSI, size=size, owner=owner)
    words = [
        h("h2", "Check"),
        h("p", "The first pair is the person to forget; the other eleven should look as before.", cls="quiet"),
    ]
    return {check: words, grid: pairs(before, [pictures.data_uri(made) for made in after], labels(len(seeds)))}


def labels(count: int) -> Sequence[str]:
    return ["to forget", *(f"other {n}" for n in range(1, count))]


pages["identity"] = Page("Identity", "identity", 20, build)
