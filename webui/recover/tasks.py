"""Tasks & masks: teach a classifier tasks one by one, let it forget one into a file, give it back bit for bit."""

from typing import Any

import gradio as gr

from engine.core.errors import UserError
from engine.core.joblog import Row
from engine.studio import Studio
from webui import pictures, words
from webui.choice import PictureChoice
from webui.events import bind, said
from webui.owner import owner_of
from webui.panels import JobPanel
from webui.recover.taskview import about, answer, board, plots, session_list
from webui.view import View, h

ON_CARDS, TO_TRY = 5, 2  # pictures of each task
AT_ONCE = {"1 picture": 0, "16 of its task": 15, "128 of its task": 127}


def build(studio: Studio, demo: gr.Blocks) -> None:
    TasksTab(studio).bind(demo)


class TasksTab:
    """The tab's parts and what they do."""

    def __init__(self, studio: Studio) -> None:
        self.studio = studio
        methods, splits = studio.mask_methods(), studio.task_splits()
        self.infos = {info.name: info for info in methods}
        View([h("h2", "Tasks & masks"), h("p", LEAD, cls="lead")])
        with gr.Row():
            named = [(info.title, info.name) for info in methods]
            self.method = gr.Dropdown(named, value="packnet", label="Method", scale=3)
            here = [(s.title if not s.missing else f"{s.title} (not here)", s.name) for s in splits]
            self.split = gr.Dropdown(here, value="digits", label="Pictures", scale=4)
        with gr.Row():
            told = "60 is quick; the benchmark takes 400 for digits, 200 for photos."
            self.batches = gr.Number(200, label="Batches a task", info=told, precision=0, minimum=1, maximum=20_000)
            self.seed = gr.Number(0, label="Seed", info="The same seed gives the same bytes.", precision=0, minimum=0)
        self.about = View(about(self.infos["packnet"]), cls="about-method")
        self.begin_button = gr.Button("Begin a network", variant="primary", elem_classes=["run"])
        self.trouble = View()
        self.listed = View(events=("open", "delete"), elem_id="sessions")
        self.panel = JobPanel(studio, belongs=lambda row: row.kind == "tasks", doing="Learning")
        self.board = View(events=("learn", "forget", "restore"), elem_id="tasks")
        self.hand_back = gr.UploadButton(
            "Hand back a vault file", file_types=[".safetensors"], type="binary", visible=False, elem_classes=["side"]
        )
        self.plots = View(elem_id="plots")
        with gr.Column(visible=False) as self.trying:
            View([h("h2", "Try it"), h("p", TRY, cls="quiet")])
            self.picture = PictureChoice("Which picture?", elem_id="try-pictures")
            with gr.Row():
                self.asked = gr.Dropdown([], label="Which task answers?")
                self.at_once = gr.Radio(list(AT_ONCE), value="1 picture", label="Shown at once, to find the task")
            self.answer = View(elem_id="answer")
        self.current = gr.State("")
        self.parts = [
            self.current, self.listed, self.board, self.hand_back, self.plots,
            self.trying, self.picture, self.asked, self.answer, self.trouble,
        ]  # fmt: skip

    def bind(self, demo: gr.Blocks) -> None:
        guard, panel = said(self.trouble), self.panel
        locks = [self.begin_button, self.hand_back]
        panel.watch(demo, locks=locks, parts=self.parts, look=self.look, look_at_once=True)
        settings = {self.method, self.split, self.batches, self.seed}
        panel.starts(self.begin_button.click, self.begin, settings)
        for event, step in (
            (self.board.learn, self.learn),
            (self.board.forget, self.forget),
            (self.board.restore, self.restore),
        ):
            panel.starts(event, step, {self.current})
        panel.starts(self.hand_back.upload, self.take_back, {self.current, self.hand_back})
        bind(demo.load, guard(self.load), None, self.parts)
        bind(self.listed.open, guard(self.open), None, self.parts)
        bind(self.listed.delete, guard(self.delete), self.current, self.parts)
        bind(self.method.input, lambda name: {self.about: about(self.infos[name])}, self.method, [self.about])
        trying = [self.current, self.picture, self.asked, self.at_once]
        for event in (self.picture.change, self.asked.input, self.at_once.input):
            bind(event, guard(self.ask), trying, [self.answer, self.trouble])

    # Steps

    def begin(self, data: dict, owner: str) -> str:
        if data[self.seed] is None or data[self.batches] is None:
            raise UserError("the seed or the number of batches is empty; 0 and 200 will do")
        knobs, seed = {"steps": int(data[self.batches])}, int(data[self.seed])
        return self.studio.begin_tasks(data[self.method], data[self.split], knobs, seed=seed, owner=owner)

    def learn(self, data: dict, owner: str, click: gr.EventData) -> str:
        return self.studio.learn_task(click.session, int(click.task), owner=owner)

    def forget(self, data: dict, owner: str, click: gr.EventData) -> str:
        return self.studio.forget_task(click.session, int(click.task), click.mode, owner=owner)

    def restore(self, data: dict, owner: str, click: gr.EventData) -> str:
        return self.studio.restore_task(click.session, int(click.task), owner=owner)

    def take_back(self, data: dict, owner: str) -> str:
        return self.studio.hand_back_task(data[self.current], data[self.hand_back], owner=owner)

    # Showing

    def look(self, row: Row, owner: str) -> dict:
        """When a step begins and when it has ended."""
        return self.shown(row.params["session"], owner)

    def load(self, request: gr.Request) -> dict:
        return self.shown("", owner_of(request))

    def open(self, event: gr.EventData, request: gr.Request) -> dict:
        return self.shown(event.session, owner_of(request))

    def delete(self, current: str, event: gr.EventData, request: gr.Request) -> dict:
        owner = owner_of(request)
        self.studio.delete_tasks(event.session, owner=owner)
        return self.shown(current, owner)

    def shown(self, name: str, owner: str) -> dict:
        """A session, or the one used last where there is none of that name."""
        summaries = self.studio.task_summaries(owner)
        known = [summary["name"] for summary in summaries if "trouble" not in summary]
        if not known:
            nothing = {self.current: "", self.board: None, self.plots: None, self.answer: None}
            hidden = {part: gr.update(visible=False) for part in (self.hand_back, self.trying)}
            return {**nothing, **hidden, self.listed: session_list(summaries, "")}
        name = name if name in known else known[0]
        session, is_busy = self.studio.task_session(name, owner=owner), bool(self.studio.step_of(name, owner=owner))
        drawn = self.studio.task_pictures(name, ON_CARDS, owner=owner)
        strips = {task: [pictures.data_uri(x, lossless=True) for x in some] for task, some in drawn.items()}
        return {
            self.current: name,
            self.listed: session_list(summaries, name),
            self.board: board(session, strips, is_busy),
            self.hand_back: gr.update(visible=True, interactive=not is_busy),
            self.plots: plots(session, self.dots(session, summaries)),
            **self.to_try(session, owner),
        }

    def to_try(self, session: dict, owner: str) -> dict:
        live = [line for line in session["tasks"] if line["state"] != "new"]
        drawn = self.studio.task_pictures(session["name"], TO_TRY, owner=owner)
        items = [
            {"id": f"{task}-{number}", "src": pictures.data_uri(x, lossless=True), "label": f"of task {task}"}
            for task, some in drawn.items()
            for number, x in enumerate(some)
        ]
        found = WAYS if session["method"]["finds_task"] else WAYS[-1:]
        choices = [*found, *((f"Task {line['task']}, {line['name']}", str(line["task"])) for line in live)]
        return {
            self.trying: gr.update(visible=bool(live)),
            self.picture: gr.update(items=items, value=""),
            self.asked: gr.update(choices=choices, value=choices[0][1]),
            self.answer: None,
        }

    def ask(self, name: str, picture: str, asked: str, at_once: str, request: gr.Request) -> dict:
        if not name or not picture:
            return {self.answer: None}
        owner, (task, number) = owner_of(request), map(int, picture.split("-"))
        given, by = (int(asked), None) if asked.isdigit() else (None, asked)
        beside = AT_ONCE[at_once] if given is None else 0
        where = (task, number, TO_TRY)
        told = self.studio.ask_task(name, where, given, by, beside=beside, owner=owner)
        names = {line["task"]: line["name"] for line in self.studio.task_session(name, owner=owner)["tasks"]}
        return {self.answer: answer(told, names, beside)}

    def dots(self, session: dict, summaries: list[dict[str, Any]]) -> list[dict[str, Any]]:
        """What the benchmark measured on this split, and this owner's own networks on it."""
        measured = self.studio.measured_masks().get(session["split"], {})
        titles = {info.name: info.title for info in self.infos.values()} | {"lirf": "LIRF"}
        dots = [
            {
                "title": titles[name],
                "bytes": found["bits"] / 8,
                "accuracy": found["accuracy"],
                "kind": "family" if name in self.infos and not self.infos[name].is_reference else "reference",
                "source": f"benchmark, {words.plural(found['seeds'], 'seed')}, {found['steps']} batches a task",
            }
            for name, found in measured.items()
        ]
        for summary in summaries:
            if summary.get("split") == session["split"] and "accuracy" in summary:
                own = {"title": f"yours: {summary['title']}", "bytes": summary["bits"] / 8, "kind": "own"}
                dots.append({**own, "accuracy": summary["accuracy"], "source": summary["name"]})
        return dots


LEAD = (
    "One network learns several tasks, one after the other. To forget a task is to move its own bytes from the network "
    "into a file; to restore it is to copy them back. Nothing is trained again."
)
TRY = "Test pictures, which no network was trained on. Name the task that answers, or let it be found."
WAYS = [
    ("Find the task: one pass of entropy", "one-shot"),
    ("Find the task: binary search", "binary"),
    ("Find the task: try each, take the surest", "try-each"),
]
