"""Classes that leave a classifier as a file, and the file handed back.

Everything of a run lies in its folder: `network` (the target), `deposit` (until it is removed here), `returned-*` (the
deposits that were handed back) and `report.json`. The original is kept for comparison only; the target is what serves.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from engine.classifiers.stored import Stored
from engine.core.errors import UserError
from engine.core.events import Done, Task, result, watch
from engine.core.joblog import Row
from engine.core.knobs import build, values
from engine.datasets import datasets
from engine.deposits import Deposit
from engine.faces.photo import open_picture
from engine.files import atomic
from engine.methods.lirf import LIRF, PRESETS
from engine.recoverable import Deposited, answers, class_indices, deposit, report, withdraw
from engine.studio.classroom import READY, Classroom, pixels
from engine.studio.forgetting import LOCAL


class Deposits(Classroom):
    """The part of the Studio that knows deposits."""

    def deposit_presets(self) -> dict[str, dict[str, Any]]:
        return {name: dict(chosen) for name, chosen in PRESETS.items()}

    def deposit(
        self,
        data: str,
        network: str,
        classes: Sequence[str],
        knobs: Mapping[str, Any] | None = None,
        *,
        source: str = "",
        owner: str = LOCAL,
    ) -> str:
        """Queues the deposit of these classes and gives the job's id. Knobs are LIRF's."""
        method, stored = build(LIRF, dict(knobs or {})), self._network(data, network, owner)
        known, gone = stored.network.classes, departed(stored)
        names = [known[index] for index in class_indices(list(classes), known)]
        if twice := sorted({*names} & {*gone}):
            raise UserError(f"{', '.join(twice)} already left this network; choose other classes, or another network")
        if len({*names, *gone}) == len(known):
            raise UserError("every class is chosen; leave at least one for the network to know")
        params = {"base": data, "method": "lirf", "network": network, "classes": names, "source": source}
        return self.begin_deposit(params | {"knobs": values(method)}, owner)

    def begin_deposit(self, params: dict[str, Any], owner: str, job: str | None = None) -> str:
        """A new run with these settings, or an interrupted one once more."""

        def start(job: str) -> Task:
            splits = yield from self._prepared(params, job)
            if splits is None:
                return
            stored, snapshot = self._network(params["base"], params["network"], owner), self.store.read_snapshot(job)
            if splits.classes != stored.network.classes:
                raise UserError("this network was trained on other classes than the data has; train one on this data")
            images = splits.train.of(class_indices(params["classes"], splits.classes))
            made = yield from watch(deposit(stored, images, build(LIRF, params["knobs"]), snapshot))
            yield Done((made, (yield from watch(report(self._original(params, owner), made.target, [], splits)))))

        def finish(job: str, outcome: tuple[Deposited, dict], partial: bool) -> dict[str, Any]:
            made, found = outcome
            self._write_report(job, found)
            made.deposit.save(self._file(job, "deposit"))
            made.target.save(self._file(job))
            sizes = made.deposit.sizes() | {"network": made.target.bytes}
            facts = {"gone": departed(made.target), "sizes": sizes, "seconds": made.seconds, "partial": partial}
            words = f"{', '.join(params['classes'])} left the network as a file of {sizes['bytes'] / 1000:.1f} kB."
            return facts | {"scalars": found["table"]["target"], "words": words}

        return self._queue("deposit", f"Deposit {', '.join(params['classes'])}", params, owner, start, finish, job)

    # The file

    def deposit_file(self, job: str, *, owner: str = LOCAL) -> Path:
        """The deposit, while it is here."""
        self._deposit_row(job, owner)
        path = self._file(job, "deposit")
        if not path.is_file():
            raise UserError("this deposit was removed from this machine; only the file you took can bring it back")
        return path

    def has_deposit_file(self, job: str) -> bool:
        return self._file(job, "deposit").is_file()

    def remove_deposit_file(self, job: str, *, owner: str = LOCAL) -> None:
        """From here on only the file that its owner took can bring the classes back."""
        self.deposit_file(job, owner=owner).unlink()

    def withdraw(self, job: str, files: Sequence[Path], *, owner: str = LOCAL) -> Iterator[str | dict[str, Any]]:
        """Puts handed-back deposits into the target; one that does not belong to it is refused. Yields what is being
        done, in words, and ends with the new report."""
        row = self._deposit_row(job, owner)
        if not files:
            raise UserError("no file was handed over; choose the deposit file that you downloaded")
        handed, target = [Deposit.load(Path(file)) for file in files], self._target(job)
        result(withdraw(target, handed))  # refuses a stranger, and one that is handed over twice
        for kept in handed:
            kept.save(self._file(job, f"returned-{kept.id[:16]}"))
        yield f"{', '.join(name for kept in handed for name in kept.classes)}: back"
        yield from self._measured(row, target, owner)

    def take_out_again(self, job: str, *, owner: str = LOCAL) -> Iterator[str | dict[str, Any]]:
        """The target alone again; the files that were handed back are deleted here."""
        row = self._deposit_row(job, owner)
        for path in self._returned_files(job):
            path.unlink()
        yield "Taken out again"
        yield from self._measured(row, self._target(job), owner)

    def returned(self, job: str, *, owner: str = LOCAL) -> list[str]:
        """The classes that are back."""
        self._deposit_row(job, owner)
        return [name for kept in self._returned(job) for name in kept.classes]

    # What was measured

    def deposits(self, *, owner: str | None = LOCAL) -> list[Row]:
        """Runs that left a deposit, newest first."""
        return [row for row in self.log.rows(owner) if row.kind == "deposit" and self._file(row.id).is_file()]

    def deposit_report(self, job: str, *, owner: str = LOCAL) -> dict[str, Any]:
        """What was measured when the classes left, or when they came back; plain values."""
        self._deposit_row(job, owner)
        return json.loads((self.store.run_folder(job) / "report.json").read_text())

    def measure_deposit(self, job: str, kind: str = "pca", *, owner: str = LOCAL) -> Iterator[str | dict[str, Any]]:
        """The report made anew, with another map: "pca" or "t-sne"."""
        row = self._deposit_row(job, owner)
        yield from self._measured(row, self._target(job), owner, kind)

    def _measured(self, row: Row, target: Stored, owner: str, kind: str = "pca") -> Iterator[str | dict[str, Any]]:
        splits, found = self._loaded(row.params["base"], row.params["source"]), {}
        for event in report(self._original(row.params, owner), target, self._returned(row.id), splits, kind):
            if isinstance(event, Done):
                found = event.result
            else:
                yield event.note[:1].upper() + event.note[1:]
        self._write_report(row.id, found)
        yield found

    # Trying it

    def test_pictures(self, job: str, per_class: int = 1, *, owner: str = LOCAL) -> dict[int, tuple[str, np.ndarray]]:
        """Pictures that no network was trained on: their number in the test set to true class and pixels."""
        row = self._deposit_row(job, owner)
        test = self._loaded(row.params["base"], row.params["source"]).test
        chosen = [int(i) for label in range(len(test.classes)) for i in (test.y == label).nonzero()[:per_class, 0]]
        return {index: (test.classes[test.y[index]], pixels(test.x[index])) for index in chosen}

    def own_picture(self, content: bytes) -> np.ndarray:
        """A picture of the user's, JPG, PNG or WebP, as `try_picture` takes it. It is written nowhere."""
        return open_picture(content)

    def try_picture(
        self, job: str, picture: np.ndarray | int, *, owner: str = LOCAL
    ) -> dict[str, list[tuple[str, float]]]:
        """What each network says of a picture (HWC uint8, or the number of a test picture), the likeliest class first.
        While no deposit was handed back there is no recovered network to ask."""
        row, target = self._deposit_row(job, owner), self._target(job)
        if isinstance(picture, int):
            picture = pixels(self._loaded(row.params["base"], row.params["source"]).test.x[picture])
        original, back = self._original(row.params, owner), self._returned(job)
        networks = {"original": original.network} if original else {}
        networks["target"] = target.network
        if back:
            networks["recovered"] = result(withdraw(target, back))
        return answers(networks, picture, datasets[row.params["base"]].size)

    # Files

    def _target(self, job: str) -> Stored:
        return self._placed(Stored.load(self._file(job)))

    def _returned_files(self, job: str) -> list[Path]:
        return sorted(self.store.run_folder(job).glob("returned-*.safetensors"))

    def _returned(self, job: str) -> list[Deposit]:
        return [Deposit.load(path) for path in self._returned_files(job)]

    def _deposit_row(self, job: str, owner: str) -> Row:
        row = self.log.get(job, owner)
        if row.kind != "deposit" or not self._file(job).is_file():
            raise UserError(f"run {job} made no deposit; 'python app.py lirf report' lists those that did")
        return row

    def _original(self, params: Mapping[str, Any], owner: str) -> Stored | None:
        """The network at the beginning of a row of deposits; None when its run was deleted."""
        network = params["network"]
        try:
            while network != READY and (row := self.log.get(network, owner)).kind == "deposit":
                network = row.params["network"]
            return self._network(params["base"], network, owner)
        except UserError:
            return None

    def _write_report(self, job: str, found: Mapping[str, Any]) -> None:
        with atomic(self.store.run_folder(job) / "report.json") as file:
            file.write(json.dumps(found).encode())


def departed(stored: Stored) -> list[str]:
    """The classes that left a network, in the order they went."""
    return [name for removed in stored.card.removed for name in removed.classes]
