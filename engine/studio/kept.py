"""Kept erasures: which there are, which are applied, exactly which weights that gives, deleting one for good."""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from engine.core.joblog import JobLog, Row
from engine.delta import Card
from engine.models import Models
from engine.store import Store


@dataclass(frozen=True)
class Standing:
    """Which weights the applied erasures give. Exact: the base's own, or the very ones that a run gave and measured."""

    fingerprint: str
    is_exact: bool
    words: str


@dataclass(frozen=True)
class Deletion:
    """What was deleted, and what a search of the whole data folder found afterwards."""

    files: tuple[str, ...]  # that are gone, relative to the data folder
    bytes: int
    searched: int  # files looked at afterwards
    left: tuple[str, ...]  # of these, the ones that carry its name or its content


class Kept:
    """The part of the Studio that applies and withdraws."""

    store: Store
    models: Models
    log: JobLog

    def deltas(self, base: str | None = None) -> dict[str, Card]:
        return self.store.cards(base)

    def active(self, base: str) -> list[str]:
        return self.store.active(base)

    def activate(self, base: str, names: Sequence[str]) -> None:
        """Applies exactly these; leaving one out is taking it back."""
        self.store.activate(base, names)

    def is_standing_known(self, base: str) -> bool:
        """Whether `standing` answers at once."""
        return self.models.is_ready(base, self.store.active(base))

    def standing(self, base: str) -> Standing:
        """By fingerprint: of the model as it is composed now, and of what the runs have given."""
        names = self.store.active(base)
        found = self.models.fingerprint(base, names)
        if not names:
            return Standing(found, True, "Nothing is applied: these are the weights of the base, bit for bit.")
        if found == self.store.card(names[-1]).gives:
            return Standing(
                found, True, "These are, bit for bit, the weights that were measured after the last erasure."
            )
        words = "No run gave these weights: an erasure is applied without one it was made on, or beside one it was not."
        return Standing(found, False, f"{words} Each still works about as measured; compare to see.")

    def delete_delta(self, name: str) -> Deletion:
        """Deletes an erasure with the pictures and snapshots of its run, and searches for what may be left. The run's
        record in the log, which holds words and numbers, stays."""
        rows = [row for row in self.log.rows(None, limit=-1) if name in (row.result or {}).get("kept", ())]
        gone = [
            self.store.delta_path(name),
            *(path for row in rows for path in files_in(self.store.run_folder(row.id))),
        ]
        sizes = {path: path.stat().st_size for path in gone}
        prints = {digest(path): path for path in gone}
        self.store.delete_delta(name)
        for row in rows:
            self.store.delete_run(row.id)
            self.log.set_result(row.id, {**row.result, "deleted": [*row.result.get("deleted", ()), name]})
        self.models.drop_composed(lambda key: name in key[1])
        searched, left = self._search(name, rows, set(sizes.values()), set(prints))
        shown = tuple(str(path.relative_to(self.store.root)) for path in gone)
        return Deletion(shown, sum(sizes.values()), searched, left)

    def _search(self, name: str, rows: Sequence[Row], sizes: set[int], prints: set[str]) -> tuple[int, tuple[str, ...]]:
        """Every file of the data folder, by name and by content."""
        marks, left, there = [name, *(row.id for row in rows)], [], files_in(self.store.root)
        for path in there:
            place = str(path.relative_to(self.store.root))
            if any(mark in place for mark in marks) or (path.stat().st_size in sizes and digest(path) in prints):
                left.append(place)
        return len(there), tuple(left)


def files_in(folder: Path) -> list[Path]:
    return sorted(path for path in folder.rglob("*") if path.is_file())


def digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
