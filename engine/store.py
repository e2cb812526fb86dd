"""What lies on disk and where. Nobody else chooses a path.

<data>/studio.sqlite       jobs, events, labels
<data>/bases/              imported models
<data>/deltas/             kept forgettings, one safetensors file each
<data>/active.json         which deltas are applied to which base
<data>/runs/<job>/         previews, snapshot, request and unkept result of one run
<data>/tasks/<owner>/      classifiers that learn tasks, one folder per session
<data>/data/               images of classifiers that do not come with the project
"""

import fcntl
import hashlib
import json
import os
import re
import shutil
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from engine.core.errors import DamagedFile, UserError
from engine.core.joblog import Row, State
from engine.core.targets import has_photo
from engine.data import ImageSet, LatentBatch, Request
from engine.delta import Card, Delta
from engine.files import atomic, by_age, put_last, save_tensors, sweep

NAME = re.compile(r"[a-z0-9][a-z0-9._-]{0,63}")


class Store:
    """The user's data folder."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.bases, self.deltas, self.runs = root / "bases", root / "deltas", root / "runs"
        self.data = root / "data"
        self._claim: int | None = None
        self._lock = threading.Lock()
        try:
            for folder in (self.bases, self.deltas, self.runs):
                folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise UserError(
                f"{root} cannot be used as data folder ({error.strerror}); name another with --data"
            ) from error

    @property
    def database(self) -> Path:
        return self.root / "studio.sqlite"

    def claim(self) -> None:
        """Makes this process the only server on this folder; a second one is refused. Then tidies up after the last."""
        if self._claim is not None:
            return
        handle = os.open(self.root / "server.lock", os.O_CREAT | os.O_RDWR)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            os.close(handle)
            raise UserError(
                f"another Lethe server already uses {self.root}; use that one, or start this with --data OTHER_FOLDER"
            ) from error
        self._claim = handle
        for folder in (self.bases, self.deltas, self.runs, self.root / "tasks"):
            sweep(folder)

    def tasks(self, owner: str) -> Path:
        """Where an owner's classifiers lie. A name somebody logs in with need not be a file name, so it is not one."""
        return self.root / "tasks" / hashlib.sha256(owner.encode()).hexdigest()[:16]

    # Deltas

    def put(self, delta: Delta, run: str, index: int = 0) -> str:
        """Keeps a delta of a run and gives its id; keeping the same one twice gives the same file."""
        day = delta.card.created[:10].replace("-", "") or f"{datetime.now():%Y%m%d}"
        name = checked(f"{day}-{delta.card.method}-{run}" + (f"-{index}" if index else ""))
        path = self.deltas / f"{name}.safetensors"
        delta.save(path)
        put_last(path, self._delta_files())
        return name

    def delta(self, name: str) -> Delta:
        return Delta.load(self.delta_path(name))

    def card(self, name: str) -> Card:
        return Delta.read_card(self.delta_path(name))

    def cards(self, base: str | None = None) -> dict[str, Card]:
        """Ids and cards of the kept deltas, oldest first; a damaged file is left out here and named by `damaged`."""
        cards = {}
        for path in by_age(self._delta_files()):
            try:
                card = Delta.read_card(path)
            except DamagedFile:
                continue
            if base is None or card.base_name == base:
                cards[path.stem] = card
        return cards

    def damaged(self) -> list[str]:
        """Delta files that cannot be read."""
        return [path.name for path in sorted(self._delta_files()) if path.stem not in self.cards()]

    def _delta_files(self) -> Iterator[Path]:
        return self.deltas.glob("*.safetensors")

    def delete_delta(self, name: str) -> None:
        self.delta_path(name).unlink()
        with self._active() as active:
            for base, names in active.items():
                active[base] = [kept for kept in names if kept != name]

    def delta_path(self, name: str) -> Path:
        path = self.deltas / f"{checked(name)}.safetensors"
        if not path.exists():
            raise UserError(f"there is no erasure {name}; the Recover page lists them")
        return path

    # Which deltas are applied

    def active(self, base: str) -> list[str]:
        return [name for name in self._read_active().get(base, []) if (self.deltas / f"{name}.safetensors").exists()]

    def activate(self, base: str, names: Sequence[str]) -> None:
        """Applies exactly these."""
        for name in names:
            self.delta_path(name)
        with self._active() as active:
            active[base] = list(names)

    def activate_also(self, base: str, names: Sequence[str]) -> None:
        """Applies these on top of what is applied."""
        with self._active() as active:
            active[base] = [*active.get(base, []), *(name for name in names if name not in active.get(base, []))]

    def _read_active(self) -> dict[str, list[str]]:
        path = self.root / "active.json"
        try:
            return json.loads(path.read_text()) if path.exists() else {}
        except ValueError as error:
            raise DamagedFile(f"{path} is damaged ({error}); delete it, then apply your erasures again") from error

    @contextmanager
    def _active(self) -> Iterator[dict[str, list[str]]]:
        """Read, change, write, with every other thread and process kept out meanwhile."""
        with self._lock, (self.root / "active.lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            active = self._read_active()
            yield active
            with atomic(self.root / "active.json") as file:
                file.write(json.dumps(active, indent=1).encode())

    # Runs (this class is the Keeper that core.jobs asks for)

    def run_folder(self, job: str) -> Path:
        return self.runs / checked(job)

    def preview(self, job: str, step: int, name: str, pixels: np.ndarray) -> str:
        file_name = f"{step:06d}-{checked(name)}.webp"
        with atomic(self.run_folder(job) / file_name) as file:
            Image.fromarray(pixels).save(file, "webp", quality=88)
        return file_name

    def take_pictures(self, job: str, files: Sequence[Path]) -> None:
        """Pictures of a run that came from elsewhere."""
        for file in files:
            with atomic(self.run_folder(job) / file.name) as target:
                target.write(file.read_bytes())

    def snapshot(self, job: str, step: int, tensors: Mapping[str, Any]) -> None:
        save_tensors(self.run_folder(job) / "snapshot.safetensors", tensors, {"step": str(step)})

    def read_snapshot(self, job: str) -> dict[str, Any] | None:
        path = self.run_folder(job) / "snapshot.safetensors"
        return _load(path) if path.exists() else None

    def snapshot_step(self, job: str) -> int | None:
        """Where the last snapshot stands, by its header alone."""
        path = self.run_folder(job) / "snapshot.safetensors"
        return int(_metadata(path)["step"]) if path.exists() else None

    def trouble(self, job: str, text: str) -> None:
        with atomic(self.run_folder(job) / "trouble.txt") as file:
            file.write(text.encode())

    def ended(self, row: Row) -> None:
        """A run that can still be resumed keeps what that needs; any other loses its codes, and one that came by photo
        and has no result to look at loses its pictures too."""
        if row.state is State.INTERRUPTED:
            return
        self.forget_request(row.id)
        if row.result is None and has_photo(row.params.get("target", {})):
            self.forget_portrait(row.id)

    def save_request(self, job: str, request: Request) -> None:
        """The codes a run works on, so that it can go on after a crash. Personal data: see `forget_request`."""
        tensors = {f"extra.{name}": value for name, value in request.extra.items()}
        words = {"label": request.label, "names": json.dumps(request.names), "roles": json.dumps(dict(request.roles))}
        for part in ("forget", "retain"):
            batch = getattr(request, part)
            if isinstance(batch, LatentBatch):
                tensors[f"{part}.w"], words[part] = batch.w, batch.origin
            elif isinstance(batch, ImageSet):
                tensors |= {f"{part}.x": batch.x, f"{part}.y": batch.y}
                words[part] = json.dumps(batch.classes)
        save_tensors(self.run_folder(job) / "request.safetensors", tensors, words)

    def read_request(self, job: str) -> Request | None:
        path = self.run_folder(job) / "request.safetensors"
        if not path.exists():
            return None
        tensors, words = _load(path), _metadata(path)
        parts: dict[str, Any] = {"forget": None, "retain": None}
        for part in parts:
            if f"{part}.w" in tensors:
                parts[part] = LatentBatch(tensors[f"{part}.w"], words[part])
            elif f"{part}.x" in tensors:
                parts[part] = ImageSet(tensors[f"{part}.x"], tensors[f"{part}.y"], tuple(json.loads(words[part])))
        extra = {name.removeprefix("extra."): value for name, value in tensors.items() if name.startswith("extra.")}
        names = tuple(json.loads(words.get("names", "[]")))
        roles = json.loads(words.get("roles", "{}"))
        return Request(parts["forget"], words["label"], parts["retain"], extra, names, roles)

    def forget_request(self, job: str) -> None:
        """A finished run needs neither its codes nor its snapshot, nor the pictures of a photo's inversion."""
        folder = self.run_folder(job)
        for path in (folder / "request.safetensors", folder / "snapshot.safetensors", *folder.glob("*-inversion.webp")):
            path.unlink(missing_ok=True)

    def forget_portrait(self, job: str) -> None:
        """After the choice to keep or discard, pictures of a person who came by photo go; those of others stay."""
        for path in self.run_folder(job).glob("*.webp"):
            if "-worst-" not in path.name:
                path.unlink()

    def put_result(self, job: str, deltas: Sequence[Delta], words: Mapping[str, Any]) -> dict[str, Any]:
        """Unkept results wait in the run's folder; the words come last, so that with them the result is whole."""
        folder, names = self.run_folder(job), [f"result-{index}" for index in range(len(deltas))]
        for name, delta in zip(names, deltas, strict=True):
            delta.save(folder / f"{name}.safetensors")
        prints = [delta.fingerprint for delta in deltas]
        facts = {"results": names, "fingerprints": prints, "scalars": dict(deltas[0].card.scalars), **words}
        with atomic(folder / "result.json") as file:
            file.write(json.dumps(facts).encode())
        return facts

    def whole_result(self, job: str) -> dict[str, Any] | None:
        """What put_result wrote, if it came to its end."""
        path = self.run_folder(job) / "result.json"
        return json.loads(path.read_text()) if path.exists() else None

    def results(self, job: str) -> list[Delta]:
        return [Delta.load(path) for path in sorted(self.run_folder(job).glob("result-*.safetensors"))]

    def waiting_card(self, job: str) -> Card | None:
        """The card of a whole result that waits for a decision; the header only, for it may be large."""
        paths = sorted(self.run_folder(job).glob("result-*.safetensors")) if self.whole_result(job) else ()
        return next((card for card in map(Delta.read_card, paths) if card.role == "forget"), None)

    def discard_result(self, job: str) -> None:
        for path in (self.run_folder(job) / "result.json", *self.run_folder(job).glob("result-*.safetensors")):
            path.unlink(missing_ok=True)

    def delete_run(self, job: str) -> None:
        shutil.rmtree(self.run_folder(job), ignore_errors=True)


def checked(name: str) -> str:
    """A name that is safe as a file name; anything else is refused, not repaired."""
    if not NAME.fullmatch(name):
        raise UserError(f"{name!r} is not a name: use up to 64 small letters, digits, dots, dashes and underscores")
    return name


def _load(path: Path) -> dict[str, Any]:
    from safetensors import SafetensorError
    from safetensors.torch import load_file

    try:
        return load_file(path)
    except (SafetensorError, OSError) as error:
        raise DamagedFile(
            f"{path.name} of run {path.parent.name} cannot be read ({error}); start the run again"
        ) from error


def _metadata(path: Path) -> dict[str, str]:
    from safetensors import safe_open

    with safe_open(path, framework="pt") as file:
        return file.metadata() or {}
