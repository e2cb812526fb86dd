"""Forgetting one generated sample: six to choose from, erase, watch, check, keep or discard. Works on any generator."""

import math

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
from webui.panels import JobPanel
from webui.runview import is_undecided
from webui.view import Node, View, h

PEOPLE = (3, 7, 11, 20, 28, 45)
OTHERS = (101, 102, 103, 104, 105, 106, 107, 108, 109, 110, 111)
PSI = 1.0  # the codes that are erased are not truncated, so the pictures are not either
PRESETS = {
    "Quick": {"steps": 15, "lr": 1e-4},
    "Balanced": {"steps": 30, "lr": 1e-4},
    "Thorough": {"steps": 80, "lr": 1e-4},
}
LEAD = "Choose one of six samples this generator makes up, and make it forget that one."
TURN = "Turn the heads, in degrees"
BASELINE = (
    "This model does not make faces, so no photo can be found in it and no recogniser can judge. What runs here is "
    "plain gradient ascent on one generated sample: it protects nothing else. It is the mark the real method has to "
    "beat."
)


class SamplePage:
    """Any generator: six samples to choose from, and the naive baseline."""

    method, presets, lead = "ascent", PRESETS, LEAD
    legend, hidden = "Who should be forgotten?", ("batch",)

    def __init__(self, studio: Studio) -> None:
        self.studio = studio
        View([h("p", "Identity", cls="eyebrow"), h("h1", "Erase a person"), h("p", self.lead, cls="lead")])
        self.opening()
        self.trouble = View()
        self.people = PictureChoice(self.legend, empty=len(PEOPLE), elem_id="people")
        self.middle()
        with gr.Accordion("Settings", open=False):
            self.form = Form(studio.method(self.method), self.presets, start="Balanced", hide=self.hidden)
        self.erase = gr.Button("Erase this person", variant="primary", interactive=False, elem_classes=["run"])
        self.panel = JobPanel(studio, belongs=self.belongs)
        self.check = View(elem_id="verdict")
        self.turn = gr.Slider(-30, 30, value=0, step=5, label=TURN, visible=False, elem_id="turn")
        self.grid = CompareGrid(elem_id="check")

    def opening(self) -> None:
        View(h("div", h("strong", "The naive baseline. "), BASELINE, cls="note"))

    def middle(self) -> None:
        """What stands between the choice and the settings."""

    def bind(self, demo: gr.Blocks) -> None:
        self.watch(demo)
        self.panel.starts(self.erase.click, self.begin, {self.people, *self.form.inputs})
        bind(self.people.change, said(self.trouble)(self.chosen), self.people, [self.erase, self.trouble])

    def watch(self, demo: gr.Blocks, *parts: gr.HTML) -> None:
        """The run and its check; `parts` are further ones that `look` sets."""
        self.panel.watch(demo, locks=[self.erase], parts=[self.check, self.turn, self.grid, *parts], look=self.look)
        bind(demo.load, said(self.trouble)(self.load), None, [self.people, self.trouble])
        shown = [self.grid, self.trouble]
        bind(self.grid.full, said(self.trouble)(self.enlarged), self.turn, shown)
        bind(self.turn.input, said(self.trouble)(self.turned), self.turn, shown, trigger_mode="always_last")

    def load(self) -> dict:
        base = self.studio.default_base()
        small = pictures.small(self.studio, base)
        drawn = pictures.samples(self.studio, base, PEOPLE, self.studio.active(base), psi=PSI, size=small)
        shown = enumerate(zip(PEOPLE, drawn, strict=True), start=1)
        return {self.people: gr.update(items=[item(n, seed, source) for n, (seed, source) in shown])}

    def chosen(self, person: str, request: gr.Request) -> dict:
        return {self.erase: gr.update(interactive=bool(person) and not self.is_busy(request))}

    def is_busy(self, request: gr.Request) -> bool:
        return any(row.state.is_live for row in self.studio.runs(owner_of(request)) if self.belongs(row))

    def belongs(self, row: Row) -> bool:
        if row.kind != "forget" or row.params["method"] != self.method:
            return False
        return row.params["target"]["kind"] in ("Seeds", "Photo", "People")

    def begin(self, data: dict, owner: str) -> str:
        if not data[self.people]:
            raise UserError("nobody is chosen; click one of the six pictures")
        base, target = self.studio.default_base(), Seeds((int(data[self.people]),))
        knobs = self.form.read(data) | {"batch": 1}
        return self.studio.forget(base, target, self.method, knobs, owner=owner, deltas=self.studio.active(base))

    # The check

    def look(self, row: Row, owner: str) -> dict:
        if not is_undecided(row):
            return {self.check: None, self.turn: gr.update(visible=False), self.grid: []}
        turn = gr.update(visible=self.studio.facts(row.params["base"])["is_3d"], value=0)
        return {self.check: self.words(row, owner), self.turn: turn, self.grid: self.pairs(row, owner)}

    def pairs(self, row: Row, owner: str, degrees: float = 0.0) -> list[dict]:
        seeds, size = shown_seeds(row), pictures.small(self.studio, row.params["base"])
        how = {"psi": PSI, "size": size, "yaw": math.radians(degrees)}
        sides = pictures.before_and_after(self.studio, row, seeds, owner=owner, **how)
        labels = [*(["to forget"] if len(seeds) > len(OTHERS) else []), *(f"other {n}" for n in range(1, 12))]
        return pairs(*sides, labels)

    def turned(self, degrees: float, request: gr.Request) -> dict:
        """The same faces, seen from the side: only for generators that know depth."""
        return {self.grid: self.pairs(self.undecided(request), owner_of(request), degrees)}

    def enlarged(self, degrees: float, event: gr.EventData, request: gr.Request) -> dict:
        """One pair at the generator's full size, made when it is asked for."""
        row = self.undecided(request)
        seed, how = shown_seeds(row)[int(event.index)], {"psi": PSI, "yaw": math.radians(degrees)}
        (before,), (after,) = pictures.before_and_after(self.studio, row, [seed], owner=owner_of(request), **how)
        return {self.grid: gr.update(large={"index": event.index, "a": before, "b": after})}

    def undecided(self, request: gr.Request) -> Row:
        """The run whose result waits for a decision."""
        rows = (row for row in self.studio.runs(owner_of(request)) if self.belongs(row) and is_undecided(row))
        row = next(rows, None)
        if row is None:
            raise UserError("this result was kept or discarded in the meantime; compare models on the Compare page")
        return row

    def words(self, row: Row, owner: str) -> list[Node]:
        text = "The first pair is the person to forget; the other eleven should look as before."
        return [h("h2", "Check"), h("p", text, cls="quiet")]


def shown_seeds(row: Row) -> tuple[int, ...]:
    """Of the check: the forgotten sample, where it is one, and eleven others."""
    return (*row.params["target"].get("seeds", ())[:1], *OTHERS)


def item(number: int, seed: int, source: str) -> dict:
    return {"id": str(seed), "src": source, "label": f"Person {number}"}
