"""The record of runs: watch one, stop it, look at its result, keep or discard it, delete it."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from engine.core.errors import UserError
from engine.core.joblog import JobLog, Row
from engine.core.jobs import Runner
from engine.core.targets import has_photo
from engine.models import Models
from engine.store import Store
from engine.studio.forgetting import LOCAL


class Record:
    """The part of the Studio that knows what was done."""

    store: Store
    models: Models
    log: JobLog
    runner: Runner

    def runs(self, owner: str | None = LOCAL) -> list[Row]:
        return self.log.rows(owner)

    def run(self, job: str, owner: str | None = LOCAL) -> Row:
        return self.log.get(job, owner)

    def follow(self, job: str, since: int = 0, *, owner: str | None = LOCAL, patience: float | None = None) -> Iterator:
        """Replays a run's events, then follows it; a second reader sees the same."""
        self.log.get(job, owner)
        yield from self.runner.follow(job, since, patience)

    def wait(self, job: str) -> Row:
        return self.runner.wait(job)

    def stop(self, job: str, *, keep: bool, owner: str | None = LOCAL) -> None:
        self.log.get(job, owner)
        self.runner.stop(job, keep=keep)

    def place(self, job: str) -> int:
        """How many jobs, of anybody, are before this one."""
        return self.log.place(job)

    def preview_path(self, job: str, name: str, owner: str | None = LOCAL) -> Path:
        self.log.get(job, owner)
        return self.store.run_folder(job) / Path(name).name

    def preview(self, job: str, name: str, owner: str | None = LOCAL) -> bytes:
        """A picture that a run has shown, as webp."""
        path = self.preview_path(job, name, owner)
        if not path.is_file():
            raise UserError(f"the picture {path.name} of run {job} is gone; repeat the run to see it again")
        return path.read_bytes()

    def delete_run(self, job: str, *, owner: str | None = LOCAL) -> None:
        if self.log.get(job, owner).state.is_live:
            raise UserError(f"run {job} is still going; stop it first")
        self.store.delete_run(job)
        self.log.delete(job)

    def keep(self, job: str, *, owner: str | None = LOCAL) -> list[str]:
        """Keeps a run's result as erasures of the base and applies the forgetting ones."""
        row = self.log.get(job, owner)
        if row.state.is_live:
            raise UserError(f"run {job} is still going; stop it first")
        results = self.store.results(job)
        if not results:
            raise UserError(f"run {job} has no result to keep")
        names = [self.store.put(delta, job, index) for index, delta in enumerate(results)]
        forgetting = [name for name, delta in zip(names, results, strict=True) if delta.card.role == "forget"]
        self.store.activate_also(row.params["base"], forgetting)
        self._settle(row, {"kept": names})
        return names

    def discard(self, job: str, *, owner: str | None = LOCAL) -> None:
        """Drops a run's result; its record stays."""
        row = self.log.get(job, owner)
        if row.state.is_live:
            raise UserError(f"run {job} is still going; stop it first")
        if "kept" in (row.result or {}):
            raise UserError("this result is kept already; withdraw or delete it on the Recover page")
        self._settle(row, {"discarded": True})

    def _settle(self, row: Row, outcome: dict[str, Any]) -> None:
        self.log.set_result(row.id, {**(row.result or {}), **outcome})  # first: a kill here leaves only a spare file
        self.store.discard_result(row.id)
        if has_photo(row.params.get("target", {})):
            self.store.forget_portrait(row.id)
