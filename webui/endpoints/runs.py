"""Runs: how far they are, waiting for one, and what becomes of its result."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import gradio as gr

from engine.core.joblog import Row
from engine.studio import Studio
from webui.owner import owner_of

PAUSE = 0.5  # s between two looks at a run


class Runs:
    """The endpoints that watch a run and decide on it. Everybody sees their own."""

    studio: Studio

    def runs(self, request: gr.Request) -> list[dict]:
        """Lists your runs, newest first, each as `run` gives it."""
        return [plain(row) for row in self.studio.runs(owner_of(request))]

    def run(self, request: gr.Request, run: str) -> dict:
        """Says how a run stands: its state, step and total, an error as a sentence, and, once it has ended, what was
        measured."""
        return self._standing(run, owner_of(request))

    async def wait(self, request: gr.Request, run: str) -> AsyncIterator[dict]:
        """Waits until a run has ended and gives it as `run` does. `client.submit` gives every step on the way."""
        owner, last = owner_of(request), None
        while last is None or last["is_live"]:
            if last is not None:
                await asyncio.sleep(PAUSE)
            standing = await asyncio.to_thread(self._standing, run, owner)
            if standing != last:
                yield standing
            last = standing

    def stop(self, request: gr.Request, run: str, keep: bool = True) -> dict:
        """Stops a run at its next step; `keep` leaves what there is so far as its result."""
        owner = owner_of(request)
        self.studio.stop(run, keep=keep, owner=owner)
        return self._standing(run, owner)

    def keep(self, request: gr.Request, run: str) -> list[str]:
        """Keeps the result of a run as erasures and applies them; gives their names."""
        return self.studio.keep(run, owner=owner_of(request))

    def discard(self, request: gr.Request, run: str) -> dict:
        """Drops the result of a run; the model is as it was."""
        owner = owner_of(request)
        self.studio.discard(run, owner=owner)
        return self._standing(run, owner)

    def _standing(self, run: str, owner: str) -> dict[str, Any]:
        row, step = self.studio.run(run, owner), {}
        if row.state.is_live:
            for _, data in self.studio.follow(run, owner=owner, patience=0):
                step = {name: data[name] for name in ("step", "total", "note") if name in data} or step
        return plain(row) | step


def plain(row: Row) -> dict[str, Any]:
    """A run as JSON can hold it."""
    return {
        "run": row.id,
        "what": row.title,
        "state": str(row.state),
        "is_live": row.state.is_live,
        "error": row.error,
        "result": row.result,
    }
