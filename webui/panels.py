"""The panel of a run that goes on.

    panel = JobPanel(studio, belongs=lambda row: row.kind == "forget")    shown where it is made
    panel.watch(demo, locks=[button])                                     once, after the page's other parts are made
    panel.starts(button.click, begin, {base, seeds})                      begin(data, owner) -> job, or UserError

The panel finds the owner's own run again after a reload and in a second tab: `belongs` says which runs are this
page's. Buttons given as `locks` are off while a run goes on. With `parts` and `look` a page adds its own check:
look(row, owner) -> {part: update} is called when a run has ended and again when its result was kept or discarded
(`runview.is_undecided(row)` tells). Pictures named before-x and after-x in a Progress are shown as pairs, x the label.
"""

import asyncio
import contextlib
import inspect
from collections.abc import AsyncIterator, Callable, Sequence
from typing import Any

import gradio as gr

from engine.core.errors import UserError
from engine.core.joblog import Row, State
from engine.studio import Studio
from webui.events import SORRY, bind, error_box, log
from webui.owner import owner_of
from webui.pictures import webp_uri
from webui.runview import is_undecided, job_tree, waiting
from webui.story import Story
from webui.view import View

TICK = 0.25  # seconds between two looks at the log
CROWD = 2  # watchers from which on each of them looks more seldom, so that all together cost no more

Look = Callable[[Row, str], dict]


class JobPanel:
    """One run on a page: status, bar, curves, live pairs, and what can be done with it."""

    def __init__(
        self,
        studio: Studio,
        *,
        belongs: Callable[[Row], bool],
        doing: str = "Erasing",
        find: Callable[[gr.Request], str | None] | None = None,
    ) -> None:
        self.studio, self.belongs, self.doing, self.watchers = studio, belongs, doing, 0
        self.find, self.is_linked = find or self._latest, find is None
        self.view = View(events=("stop_keep", "stop_discard", "keep", "discard", "resume", "attach"), cls="job-host")

    def watch(
        self,
        demo: gr.Blocks,
        *,
        locks: Sequence[gr.Button] = (),
        parts: Sequence[Any] = (),
        look: Look = lambda row, owner: {},
        look_at_once: bool = False,
    ) -> None:
        """Binds the panel to its page. With `look_at_once` the page looks at a run before it has ended, too."""
        self.locks, self.look, self.look_at_once = list(locks), look, look_at_once
        self.outputs = [self.view, *locks, *parts]
        self.watching = {"outputs": self.outputs, "concurrency_limit": None}
        bind(demo.load, self._attach, **self.watching)
        bind(self.view.attach, self._attach, **self.watching)
        bind(self.view.resume, self._resume, **self.watching)
        bind(self.view.stop_keep, self._stop_and_keep, queue=False, trigger_mode="multiple")
        bind(self.view.stop_discard, self._stop_and_discard, queue=False, trigger_mode="multiple")
        bind(self.view.keep, self._keep, outputs=self.outputs)
        bind(self.view.discard, self._discard, outputs=self.outputs)

    def starts(self, event: Callable, begin: Callable[..., str], inputs: set) -> Any:
        """Binds a button: begins a run and watches it. A `begin` with a third parameter gets the click itself."""
        wants_click = len(inspect.signature(begin).parameters) > 2

        async def start(data: dict, click: gr.EventData, request: gr.Request) -> AsyncIterator[dict]:
            owner = owner_of(request)
            yield {self.view: waiting(), **self._locked(True)}
            try:
                job = await asyncio.to_thread(begin, data, owner, *([click] if wants_click else []))
            except UserError as error:
                yield {self.view: error_box(str(error)), **self._locked(False)}
                return
            except Exception:
                log.exception("a run could not be started")
                yield {self.view: error_box(SORRY), **self._locked(False)}
                return
            async for update in self._follow(job, owner):
                yield update

        return bind(event, start, inputs, **self.watching)

    # Watching

    def _latest(self, request: gr.Request) -> str | None:
        """The owner's newest run of this page that goes on, was cut off, or waits for a decision. One that came in a
        zip was never at work here, and has no session."""
        for row in self.studio.runs(owner_of(request)):
            if row.session and self.belongs(row):
                return row.id if row.state.is_live or row.state is State.INTERRUPTED or is_undecided(row) else None
        return None

    async def _attach(self, request: gr.Request) -> AsyncIterator[dict]:
        job = await asyncio.to_thread(self.find, request)
        if job is None:
            yield {self.view: None}
            return
        async for update in self._follow(job, owner_of(request)):
            yield update

    @property
    def pause(self) -> float:
        """Seconds until a watcher looks again."""
        return TICK * max(1.0, self.watchers / CROWD)

    async def _follow(self, job: str, owner: str) -> AsyncIterator[dict]:
        """Replays, then follows; asynchronous, so that a hundred watchers hold no thread."""
        self.watchers += 1
        try:
            async for update in self._updates(job, owner):
                yield update
        finally:
            self.watchers -= 1

    async def _updates(self, job: str, owner: str) -> AsyncIterator[dict]:
        story, shown = Story(), None
        pictures: dict[str, str] = {}
        while True:
            try:
                row, before = await asyncio.to_thread(self._read, job, owner, story, pictures)
            except UserError as error:
                yield {self.view: error_box(str(error)), **self._locked(False)}
                return
            tree = job_tree(row, story, pictures, self.doing, before, self.is_linked)
            if shown is None and self.look_at_once:
                yield await asyncio.to_thread(self.look, row, owner)
            if tree != shown:
                shown = tree
                yield {self.view: tree, **self._locked(row.state.is_live)}
            if not row.state.is_live:
                parts = await asyncio.to_thread(self.look, row, owner)
                if parts:
                    yield parts
                return
            await asyncio.sleep(self.pause)

    def _read(self, job: str, owner: str, story: Story, pictures: dict[str, str]) -> tuple[Row, int]:
        """The run and its place in the queue. The row first: what is written later is read at the next tick."""
        row = self.studio.run(job, owner)
        for n, data in self.studio.follow(job, story.seen, owner=owner, patience=0):
            story.feed(n, data)
        for file in story.images.values():
            if file not in pictures:
                with contextlib.suppress(UserError):  # a person's pictures are dropped once their run is decided
                    pictures[file] = webp_uri(self.studio.preview(job, file, owner))
        for file in [file for file in pictures if file not in story.images.values()]:
            del pictures[file]
        return row, self.studio.place(job) if row.state is State.QUEUED else 0

    def _locked(self, is_live: bool) -> dict:
        return {button: gr.update(interactive=not is_live) for button in self.locks}

    # What can be done with it

    def _stop_and_keep(self, event: gr.EventData, request: gr.Request) -> None:
        self.studio.stop(event.job, keep=True, owner=owner_of(request))

    def _stop_and_discard(self, event: gr.EventData, request: gr.Request) -> None:
        self.studio.stop(event.job, keep=False, owner=owner_of(request))

    async def _resume(self, event: gr.EventData, request: gr.Request) -> AsyncIterator[dict]:
        owner = owner_of(request)
        try:
            await asyncio.to_thread(self.studio.resume, event.job, owner=owner)
        except UserError as error:
            yield {self.view: error_box(str(error))}
            return
        async for update in self._follow(event.job, owner):
            yield update

    def _keep(self, event: gr.EventData, request: gr.Request) -> dict:
        return self._decide(self.studio.keep, event.job, owner_of(request))

    def _discard(self, event: gr.EventData, request: gr.Request) -> dict:
        return self._decide(self.studio.discard, event.job, owner_of(request))

    def _decide(self, decision: Callable, job: str, owner: str) -> dict:
        story, pictures = Story(), {}
        try:
            decision(job, owner=owner)
            row, _ = self._read(job, owner, story, pictures)
        except UserError as error:
            return {self.view: error_box(str(error))}
        return {self.view: job_tree(row, story, pictures, self.doing, linked=self.is_linked), **self.look(row, owner)}
