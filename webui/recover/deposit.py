"""Deposit & withdraw: classes leave a classifier as a file, and come back when the file is handed back."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import gradio as gr
from gradio.context import Context

from engine.core.errors import UserError
from engine.core.joblog import Row
from engine.studio import DataInfo, Studio
from webui import pictures
from webui.choice import PictureChoice
from webui.events import bind, said
from webui.form import Form
from webui.owner import owner_of
from webui.panels import JobPanel
from webui.photodrop import PhotoDrop, photos
from webui.recover.outcome import answer_tree, file_tree, outcome_tree
from webui.view import Node, View, h

MAPS = [("Main axes (PCA)", "pca"), ("Neighbourhoods (t-SNE, slower)", "t-sne")]
LEAD = (
    "A recogniser must forget some of the people it knows, and may get them back. What it knows of them moves out into "
    "a small file: without it they are strangers, with it they are known again. No picture of anybody else is read."
)


def build(studio: Studio, demo: gr.Blocks) -> None:
    DepositTab(studio).bind(demo, Context.block)


class DepositTab:
    """The parts in their order, then what they do."""

    def __init__(self, studio: Studio) -> None:
        self.studio = studio
        self.known = {info.name: info for info in studio.data_sets()}
        View([h("h2", "Put classes in a deposit"), h("p", LEAD, cls="quiet")])
        self.trouble = View()
        titles = [(info.title, name) for name, info in self.known.items()]
        self.data = gr.Radio(titles, label="Data set", value=None, elem_id="deposit-data", elem_classes=["choice"])
        with gr.Row(visible=False, elem_classes=["name-row"]) as self.pointing:
            self.source = gr.Textbox(label="Where it is on this machine", elem_id="deposit-source", scale=3)
            self.read = gr.Button("Read it", scale=1)
        self.classes = PictureChoice("Which classes should leave?", several=True, elem_id="deposit-classes")
        with gr.Row(elem_classes=["name-row"]):
            self.network = gr.Dropdown([], label="Network to take them from", elem_id="deposit-network", scale=3)
            self.train = gr.Button("Train a new one", scale=1)
        with gr.Accordion("Settings", open=False):
            self.form = Form(studio.method("lirf"), studio.deposit_presets(), start="ours")
        self.go = gr.Button("Deposit", variant="primary", interactive=False, elem_classes=["run"])
        self.panel = JobPanel(studio, belongs=lambda row: row.kind in ("train", "deposit"), doing="Depositing")
        self.job = gr.State("")
        self.earlier = View(events=("open",))
        self.outcome = View(elem_id="deposit-outcome")
        with gr.Column(visible=False) as self.after:
            self.map = gr.Radio(MAPS, value="pca", label="Map of the features", elem_classes=["choice"])
            self._make_withdrawal()
            self._make_trial()

    def _make_withdrawal(self) -> None:
        View([h("h2", "Withdraw"), h("p", "Hand the file back. No picture is needed for that.", cls="quiet")])
        self.file = View(events=("remove", "take_out"), elem_id="deposit-file")
        with gr.Row(elem_classes=["name-row"]):
            self.handed = gr.File(
                label="Deposit file", file_count="multiple", height=120, elem_id="deposit-handed", scale=3
            )
            self.back = gr.Button("Hand it back", variant="primary", scale=1)
        self.refusal = View(elem_id="deposit-refusal")

    def _make_trial(self) -> None:
        View([h("h2", "Try it"), h("p", "A test picture, or one of yours. It is shown to all networks.", cls="quiet")])
        with gr.Row(elem_classes=["try-row"]):
            self.tried = PictureChoice("A picture that no network was trained on", elem_id="deposit-try")
            self.own = PhotoDrop("Drop a picture of yours here, or choose one", elem_id="deposit-own")
        self.answers = View(elem_id="deposit-answers")

    # What happens when

    def bind(self, demo: gr.Blocks, tab: gr.Tab) -> None:
        chosen = [self.data, self.pointing, self.classes, self.network, self.go, self.trouble]
        shown = [self.job, self.earlier, self.outcome, self.after, self.file, self.tried, self.answers, self.refusal]
        self.panel.watch(demo, locks=[self.train], parts=[*shown, self.network], look=self.look)
        inputs = {self.data, self.source, self.network}
        self.panel.starts(self.go.click, self.begin, inputs | {self.classes, *self.form.inputs})
        self.panel.starts(self.train.click, self.begin_training, inputs)
        bind(tab.select, said(self.trouble)(self.opened), [self.data, self.job], [*chosen, *shown])
        bind(self.data.input, said(self.trouble)(self.picked), [self.data, self.source], chosen)
        bind(self.read.click, said(self.trouble)(self.picked), [self.data, self.source], chosen)
        bind(self.classes.change, self.ready, [self.classes, self.network], self.go)
        bind(self.network.change, self.ready, [self.classes, self.network], self.go)
        bind(self.earlier.open, said(self.trouble)(self.reopened), None, [*shown, self.trouble])
        measured = [self.outcome, self.file, self.refusal, self.answers]
        bind(self.back.click, said(self.refusal)(self.withdraw), [self.job, self.handed], measured)
        bind(self.file.take_out, said(self.refusal)(self.take_out), self.job, measured)
        bind(self.file.remove, said(self.refusal)(self.remove), self.job, [self.file, self.refusal])
        bind(self.map.input, said(self.refusal)(self.map_again), [self.job, self.map], measured)
        asked = [self.answers, self.refusal]
        bind(self.tried.change, said(self.refusal)(self.ask_test), [self.job, self.tried], asked)
        bind(self.own.taken, said(self.refusal, self.answers)(self.ask_own), self.job, asked)

    def opened(self, data: str | None, job: str, request: gr.Request) -> dict:
        """The newest deposit's data set, else the first that can be used."""
        owner = owner_of(request)
        made = self.studio.deposits(owner=owner)
        usable = next(info.name for info in self.known.values() if not info.missing)
        data = data or (made[0].params["base"] if made else usable)
        update = self.pictured(data, made[0].params["source"] if made and made[0].params["base"] == data else "", owner)
        return update | (self.drawn(made[0], owner) if made and not job else {})

    def picked(self, data: str, source: str, request: gr.Request) -> dict:
        return self.pictured(data, source if self.known[data].place else "", owner_of(request))

    def pictured(self, data: str, source: str, owner: str) -> dict:
        info = self.known[data]
        if info.missing:
            raise UserError(info.missing)
        waiting = bool(info.place) and not source
        drawn = {} if waiting else self.studio.class_pictures(data, source)
        items = [{"id": name, "src": pictures.data_uri(large(one)), "label": name} for name, one in drawn.items()]
        return {
            self.data: data,
            self.pointing: gr.update(visible=bool(info.place)),
            self.classes: gr.update(items=items, value=[]),
            self.network: self.networks(data, owner),
            self.go: gr.update(interactive=False),
            self.trouble: note(info) if waiting else None,
        }

    def networks(self, data: str, owner: str, value: str | None = None) -> Any:
        known = self.studio.networks(data, owner=owner)
        names = [(info.title[:1].upper() + info.title[1:], info.id) for info in known]
        return gr.update(choices=names, value=value or (known[0].id if known else None))

    def ready(self, classes: list[str], network: str | None) -> dict:
        words = f"Deposit {', '.join(classes[:4])}{' …' if len(classes) > 4 else ''}" if classes else "Deposit"
        return {self.go: gr.update(value=words, interactive=bool(classes and network))}

    def begin(self, data: dict, owner: str) -> str:
        if not data[self.network]:
            raise UserError("there is no network for this data yet; train one first")
        source = data[self.source] if self.known[data[self.data]].place else ""
        knobs = self.form.read(data)
        return self.studio.deposit(
            data[self.data], data[self.network], data[self.classes], knobs, source=source, owner=owner
        )

    def begin_training(self, data: dict, owner: str) -> str:
        if not data[self.data]:
            raise UserError("choose a data set first")
        source = data[self.source] if self.known[data[self.data]].place else ""
        return self.studio.train_network(data[self.data], source=source, owner=owner)

    def look(self, row: Row, owner: str) -> dict:
        """A run has ended: a new network is chosen, a new deposit shown."""
        if not row.result:
            return {}
        if row.kind == "train":
            return {self.network: self.networks(row.params["base"], owner, row.id)}
        return self.drawn(row, owner)

    def drawn(self, row: Row, owner: str) -> dict:
        tests = self.studio.test_pictures(row.id, owner=owner)
        items = [
            {"id": str(index), "src": pictures.data_uri(large(one)), "label": name}
            for index, (name, one) in tests.items()
        ]
        return {
            self.job: row.id,
            self.after: gr.update(visible=True),
            self.earlier: self.others(row, owner),
            self.tried: gr.update(items=items, value=""),
            self.answers: None,
            self.refusal: None,
            **self.measured(row.id, owner),
        }

    def others(self, now: Row, owner: str) -> Node | None:
        made = [row for row in self.studio.deposits(owner=owner) if row.id != now.id][:8]
        buttons = [h("button", row.title, on="open", data_job=row.id, cls="small") for row in made]
        return h("div", h("span", "Earlier deposits: ", cls="quiet"), *buttons, cls="row") if made else None

    def measured(self, job: str, owner: str) -> dict:
        row, found = self.studio.run(job, owner), self.studio.deposit_report(job, owner=owner)
        is_here, back = self.studio.has_deposit_file(job), self.studio.returned(job, owner=owner)
        return {self.outcome: outcome_tree(row, found), self.file: file_tree(row, is_here, back)}

    def reopened(self, event: gr.EventData, request: gr.Request) -> dict:
        owner = owner_of(request)
        return self.drawn(self.studio.run(event.job, owner), owner)

    def withdraw(self, job: str, files: list[str] | None, request: gr.Request) -> Iterator[dict]:
        paths = [Path(file) for file in files or []]
        yield from self.followed(job, owner_of(request), lambda owner: self.studio.withdraw(job, paths, owner=owner))

    def take_out(self, job: str, request: gr.Request) -> Iterator[dict]:
        yield from self.followed(job, owner_of(request), lambda owner: self.studio.take_out_again(job, owner=owner))

    def map_again(self, job: str, kind: str, request: gr.Request) -> Iterator[dict]:
        steps = self.studio.measure_deposit(job, kind, owner=owner_of(request))
        yield from self.followed(job, owner_of(request), lambda _: steps)

    def followed(self, job: str, owner: str, work: Any) -> Iterator[dict]:
        """Says what is being done, then shows the new report; a refusal leaves everything as it was."""
        yield {self.refusal: h("p", "One moment …", cls="quiet", role="status")}
        for step in work(owner):
            if isinstance(step, str):
                yield {self.refusal: h("p", f"{step} …", cls="quiet", role="status")}
        yield {**self.measured(job, owner), self.refusal: None, self.answers: None}

    def remove(self, job: str, request: gr.Request) -> dict:
        owner = owner_of(request)
        self.studio.remove_deposit_file(job, owner=owner)
        return {self.file: self.measured(job, owner)[self.file]}

    def ask_test(self, job: str, number: str, request: gr.Request) -> dict:
        if not number:
            return {self.answers: None}
        return {self.answers: answer_tree(self.studio.try_picture(job, int(number), owner=owner_of(request)))}

    def ask_own(self, job: str, event: gr.EventData, request: gr.Request) -> dict:
        picture = self.studio.own_picture(photos(event)[0])
        shown = h("div", h("img", src=pictures.data_uri(picture), alt="Your picture"), cls="faces")
        answers = answer_tree(self.studio.try_picture(job, picture, owner=owner_of(request)))
        return {self.answers: h("div", shown, answers)}


def note(info: DataInfo) -> Node:
    return h("div", f"{info.title}: point at {info.place}.", cls="note")


def large(pixels: Any) -> Any:
    """Small pictures enlarged by whole factors, so that their squares stay squares."""
    times = max(1, 64 // pixels.shape[0])
    return pixels.repeat(times, 0).repeat(times, 1)
