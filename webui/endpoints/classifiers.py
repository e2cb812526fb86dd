"""Recoverable classifiers: classes that leave as a deposit and return, tasks that are learned, forgotten, restored."""

import gradio as gr

from engine.core.errors import UserError
from engine.studio import READY, Studio
from webui.owner import owner_of


class Classifiers:
    """The endpoints of the Recover page's two journeys."""

    studio: Studio

    def deposit(
        self,
        request: gr.Request,
        classes: list[str],
        data: str = "people",
        network: str = READY,
        settings: dict | None = None,
    ) -> str:
        """Begins to take classes out of a classifier into a deposit. `network` is "ready", or the run that trained
        it. Gives a run's id."""
        return self.studio.deposit(data, network, classes, settings or {}, owner=owner_of(request))

    def withdraw(self, request: gr.Request, run: str) -> dict:
        """Puts the deposit of a run back, and gives the report that was measured then."""
        owner = owner_of(request)
        *_, report = self.studio.withdraw(run, [self.studio.deposit_file(run, owner=owner)], owner=owner)
        return report

    def begin_tasks(
        self,
        request: gr.Request,
        session: str,
        method: str = "supsup",
        split: str = "digits",
        settings: dict | None = None,
    ) -> str:
        """Begins a session of that name, in which a classifier learns tasks one by one. Gives a run's id."""
        return self.studio.begin_tasks(method, split, settings or {}, name=session, owner=owner_of(request))

    def task_step(self, request: gr.Request, session: str, step: str, task: int | None = None) -> str:
        """Begins one step of a session: "learn" (without `task` the next one), "forget" or "restore". Gives a run's
        id."""
        owner = owner_of(request)
        if step == "learn":
            return self.studio.learn_task(session, task, owner=owner)
        begin = {"forget": self.studio.forget_task, "restore": self.studio.restore_task}.get(step)
        if begin is None:
            raise UserError(f"step {step!r}: must be learn, forget or restore")
        if task is None:
            raise UserError(f"{step}: say which task, such as 1")
        return begin(session, task, owner=owner)

    def tasks(self, request: gr.Request, session: str) -> dict:
        """How a session stands: its tasks with their accuracies, and the matrix of accuracies over time."""
        found = self.studio.task_session(session, owner=owner_of(request))
        return {name: found[name] for name in ("tasks", "facts", "matrix", "receipts")}
