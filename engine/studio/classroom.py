"""Classifiers and what they learn from: data sets, pictures of their classes, networks, training one."""

import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import torch

from engine import assets
from engine.classifiers.stored import Stored
from engine.core.errors import UserError
from engine.core.events import Task, watch
from engine.core.joblog import JobLog
from engine.core.jobs import Runner
from engine.datasets import Splits, datasets, people
from engine.originals import shipped, shipped_path, train
from engine.store import Store, checked
from engine.studio.forgetting import LOCAL

READY = "ready"  # the network that ships
KEPT = 2  # data sets in memory


@dataclass(frozen=True)
class DataInfo:
    """A data set as a front end shows it."""

    name: str
    title: str
    place: str  # what the user must point at; empty where nothing is needed
    ready: bool  # a trained network ships
    missing: str = ""  # why it cannot be used now, in words


@dataclass(frozen=True)
class NetworkInfo:
    """A network that classes can be taken from."""

    id: str  # READY, or the run that made it
    title: str
    gone: tuple[str, ...]  # classes that were deposited before


class Classroom:
    """The part of the Studio that holds classifiers. Those made here lie in the folders of their runs."""

    store: Store
    log: JobLog
    runner: Runner
    device: torch.device
    sample: Callable[..., list[np.ndarray]]

    def data_sets(self) -> list[DataInfo]:
        """People first: they are what this studio is about; then those that are ready at once."""
        order = sorted(datasets, key=lambda name: (name != "people", not shipped_path(name).is_file(), name))
        return [self._data_info(name) for name in order]

    def _data_info(self, name: str) -> DataInfo:
        known, is_people, missing = datasets[name], name == "people", ""
        if is_people and not self._people_file.is_file() and not assets.is_present("ffhq"):
            missing = "the people are drawn by the FFHQ generator, which is not here: python app.py assets fetch ffhq"
        return DataInfo(name, known.title, "" if is_people else known.place, shipped_path(name).is_file(), missing)

    def class_pictures(self, data: str, source: str = "") -> dict[str, np.ndarray]:
        """One picture of each class by its name, HWC uint8. People who are not rendered yet are drawn on the spot."""
        if data == "people" and not self._people_file.is_file():
            drawn = self.sample("ffhq", list(people.PEOPLE.values()), psi=people.PSI, size=people.SIZE)
            return dict(zip(people.PEOPLE, drawn, strict=True))
        known = self._loaded(data, source).train
        present = set(known.y.tolist())
        if bare := [name for label, name in enumerate(known.classes) if label not in present]:
            raise UserError(f"{bare[0][:40]} has no picture to train on; give every class at least two")
        firsts = [int((known.y == label).nonzero()[0]) for label in range(len(known.classes))]
        return {name: pixels(known.x[index]) for name, index in zip(known.classes, firsts, strict=True)}

    def networks(self, data: str, *, owner: str = LOCAL) -> list[NetworkInfo]:
        """The one that ships, then those trained here and what earlier deposits left, newest first."""
        found = [NetworkInfo(READY, "the ready one", ())] if shipped_path(data).is_file() else []
        for row in self.log.rows(owner):
            if row.kind in ("train", "deposit") and row.params["base"] == data and self._file(row.id).is_file():
                gone = tuple(row.result["gone"])
                title = f"without {', '.join(gone)}" if gone else f"trained here, {row.result['scalars']['test']:.1f} %"
                found.append(NetworkInfo(row.id, f"{title} (run {row.id})", gone))
        return found

    def train_network(
        self, data: str, *, source: str = "", seed: int = 0, architecture: str = "", owner: str = LOCAL
    ) -> str:
        """Queues the training of an original and gives the job's id."""
        knobs = {"seed": seed, "architecture": architecture}
        return self.begin_training({"base": data, "method": "training", "source": source, "knobs": knobs}, owner)

    def begin_training(self, params: dict[str, Any], owner: str, job: str | None = None) -> str:
        """A new run with these settings, or an interrupted one once more."""
        data, knobs = params["base"], params["knobs"]

        def start(job: str) -> Task:
            splits = yield from self._prepared(params, job)
            if splits is not None:
                yield from train(data, splits, seed=knobs["seed"], architecture=knobs["architecture"] or None)

        def finish(job: str, made: Stored, partial: bool) -> dict[str, Any]:
            made.save(self._file(job))
            return {"gone": [], "scalars": dict(made.card.scalars), "partial": partial}

        return self._queue("train", f"Train a classifier of {datasets[data].title}", params, owner, start, finish, job)

    def _queue(
        self,
        kind: str,
        title: str,
        params: dict[str, Any],
        owner: str,
        start: Callable[[str], Task],
        finish: Callable[[str, Any, bool], dict[str, Any]],
        job: str | None,
    ) -> str:
        job = job or self.log.add(owner, kind, title, params)
        self.runner.submit(job, lambda: start(job), lambda outcome, partial: finish(job, outcome, partial))
        return job

    def _prepared(self, params: dict[str, Any], job: str) -> Iterator[Any]:
        """The data; people are rendered first if they are not there. None when the run was stopped meanwhile."""
        if params["base"] == "people" and not self._people_file.is_file():
            yield from watch(people.make(self._people_file.parent))
        if self.runner.is_stopping(job):
            return None
        return self._loaded(params["base"], params["source"])

    # Files and memory

    def _file(self, job: str, name: str = "network") -> Path:
        return self.store.run_folder(job) / f"{name}.safetensors"

    def _network(self, data: str, network: str, owner: str) -> Stored:
        if network == READY:
            return self._placed(shipped(data))
        row = self.log.get(checked(network), owner)
        if row.params.get("base") != data or not self._file(network).is_file():
            raise UserError(f"run {network} left no network for {data}; choose another, or train one")
        return self._placed(Stored.load(self._file(network)))

    def _placed(self, stored: Stored) -> Stored:
        return Stored(stored.network.to(self.device), stored.card)

    @property
    def _people_file(self) -> Path:
        return people.cache(self.store.root / "data")

    def _loaded(self, data: str, source: str) -> Splits:
        """A data set; the last two stay in memory."""
        with self._data_lock:
            if (data, source) not in self._data:
                place = self._people_file.parent if data == "people" else Path(source).expanduser() if source else None
                self._data[data, source] = datasets[data].load(place)
                while len(self._data) > KEPT:
                    self._data.pop(next(iter(self._data)))
            return self._data[data, source]

    @cached_property
    def _data(self) -> dict[tuple[str, str], Splits]:
        return {}

    @cached_property
    def _data_lock(self) -> threading.Lock:
        return threading.Lock()


def pixels(image: torch.Tensor) -> np.ndarray:
    """HWC uint8 of one image; grey ones get three channels."""
    return image.expand(3, -1, -1).permute(1, 2, 0).contiguous().numpy()
