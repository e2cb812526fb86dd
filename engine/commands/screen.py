"""How the command line speaks: a bar with time left, tables, JSON for machines."""

import json
import sys
from collections.abc import Iterable, Sequence
from typing import Any

from engine.core.errors import UserError


def console() -> Any:
    from rich.console import Console

    return Console(stderr=True)


def say(value: Any, *, as_json: bool) -> None:
    """A result on standard output: JSON, or text made by the verb."""
    if as_json:
        print(json.dumps(value, indent=1, default=str))
    elif isinstance(value, str):
        print(value)


def table(columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> None:
    from rich.console import Console
    from rich.table import Table

    grid = Table(*columns, box=None, header_style="bold")
    for row in rows:
        grid.add_row(*(str(cell) for cell in row))
    Console().print(grid)


def follow_run(studio: Any, job: str, *, owner: str = "local", quiet: bool = False) -> Any:
    """Draws a run's progress until it has ended; Ctrl-C stops it and keeps what there is."""
    row = studio.run(job, owner)
    with bar(row.title, quiet=quiet) as update:
        try:
            for _, data in studio.follow(job, owner=owner):
                if "step" in data:
                    update(data["step"], data["total"], data.get("note", ""), data.get("scalars", {}))
        except KeyboardInterrupt:
            studio.stop(job, keep=True, owner=owner)
            studio.wait(job)
    return studio.run(job, owner)


def finished_run(studio: Any, job: str, *, owner: str = "local", quiet: bool = False) -> Any:
    """Follows a run and gives its row; one that failed or was stopped without a result is an error."""
    row = follow_run(studio, job, owner=owner, quiet=quiet)
    if row.error or row.result is None:
        raise UserError(row.error or f"run {job} was stopped before it had a result")
    return row


class bar:  # noqa: N801 (reads as a verb: `with bar("Erasing") as update`)
    """A progress bar on standard error, with time left; silent where there is no terminal."""

    def __init__(self, title: str, *, quiet: bool = False) -> None:
        from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

        text = TextColumn("[dim]{task.fields[words]}")
        columns = (TextColumn("{task.description}"), BarColumn(), TimeRemainingColumn(), text)
        self.progress = Progress(*columns, console=console(), disable=quiet or not sys.stderr.isatty())
        self.title = title

    def __enter__(self):
        self.progress.start()
        task = self.progress.add_task(self.title, total=None, words="")

        def update(step: int, total: int, note: str = "", scalars: dict[str, float] | None = None) -> None:
            words = note or "  ".join(f"{name} {value:.3g}" for name, value in (scalars or {}).items())
            self.progress.update(task, completed=step, total=total or None, words=words)

        return update

    def __exit__(self, *_: Any) -> None:
        self.progress.stop()
