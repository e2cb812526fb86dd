"""Classifiers that learn tasks one by one, forget one into a file and take it in again. Every step is a run."""

import hashlib
import json
import re
import shutil
import sys
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from engine import assets
from engine.core.errors import UserError
from engine.core.events import Done, Task, watch
from engine.core.joblog import JobLog
from engine.core.jobs import Runner
from engine.core.knobs import build, values
from engine.datasets import people
from engine.files import atomic, by_age, put_last
from engine.masks import mask_methods, references
from engine.masks.method import Mode
from engine.masks.net import find
from engine.masks.receipts import plain, tell
from engine.masks.session import Session
from engine.masks.splits import splits
from engine.store import Store, checked
from engine.studio.forgetting import LOCAL

KIND = "tasks"
MEASURED = Path(__file__).resolve().parents[2] / "benchmarks" / "masks.json"


@dataclass(frozen=True)
class MaskInfo:
    """A method of the family in words, with what it promises."""

    name: str
    title: str
    words: str
    exact: bool  # whether old tasks stay and forgotten ones return bit for bit
    order_free: bool  # whether tasks read nothing of each other
    finds_task: bool
    is_reference: bool


@dataclass(frozen=True)
class SplitInfo:
    """A data set in tasks; `missing` says what to do where its images are not here."""

    name: str
    title: str
    missing: str = ""


class Tasks:
    """The part of the Studio that teaches classifiers. A session belongs to its owner."""

    store: Store
    log: JobLog
    runner: Runner
    device: torch.device

    def mask_methods(self) -> list[MaskInfo]:
        """The family, then the references beside it."""
        return [_info(name) for registry in (mask_methods, references) for name in registry]

    def task_splits(self) -> list[SplitInfo]:
        return [SplitInfo(name, split.title, self._split_missing(name)) for name, split in splits.items()]

    def measured_masks(self) -> dict[str, Any]:
        """What the benchmark wrote when it was last run: split -> method -> accuracy, bits and more. May be empty."""
        return json.loads(MEASURED.read_text()) if MEASURED.is_file() else {}

    # Steps

    def begin_tasks(
        self,
        method: str,
        split: str,
        knobs: Mapping[str, Any] | None = None,
        *,
        seed: int = 0,
        name: str = "",
        source: Path | None = None,
        owner: str = LOCAL,
    ) -> str:
        """Queues the beginning of a session and gives the run's id; its `params["session"]` is the session's name."""
        where = {"base": split, "source": str(source or "")}
        how = {"method": method, "knobs": values(build(find(method), knobs or {})), "seed": seed}
        return self.begin_step({"action": "begin", "name": name, **where, **how}, owner)

    def learn_task(self, session: str, task: int | None = None, *, owner: str = LOCAL) -> str:
        """By default the first task that was never learned."""
        number = self._session(session, owner).next_task() if task is None else task
        return self._step(session, "learn", number, owner)

    def forget_task(self, session: str, task: int, mode: Mode = "mask", *, owner: str = LOCAL) -> str:
        return self._step(session, "forget", task, owner, mode=mode)

    def restore_task(self, session: str, task: int, *, owner: str = LOCAL) -> str:
        return self._step(session, "restore", task, owner)

    def hand_back_task(self, session: str, content: bytes, *, owner: str = LOCAL) -> str:
        """Restores from a vault file that the user has; a wrong, damaged or cut-off one is refused at once."""
        opened = self._session(session, owner)
        path = opened.folder / "vault" / f"handed-{hashlib.sha256(content).hexdigest()[:12]}.safetensors"
        with atomic(path) as file:
            file.write(content)
        try:
            return self._step(session, "restore", opened.check_file(path), owner, file=path.name)
        except BaseException:
            path.unlink()
            raise

    def step_of(self, session: str, *, owner: str = LOCAL) -> str | None:
        """The session's run that waits or goes on, if any."""
        live = (row for row in self.log.rows(owner) if row.kind == KIND and row.state.is_live)
        return next((row.id for row in live if row.params["session"] == session), None)

    def _step(self, session: str, action: str, task: int | None, owner: str, **more: Any) -> str:
        net = self._session(session, owner)
        about = {"base": net.split, "method": net.net.name, "knobs": values(net.net.method)}
        return self.begin_step({"action": action, "session": session, "task": task, **about, **more}, owner)

    def begin_step(self, params: dict[str, Any], owner: str, job: str | None = None) -> str:
        """A new run with these settings, or an interrupted one once more. What cannot be done is refused now. One step
        of a session at a time: while another is going, that one's run is given instead."""
        if job is None:
            title, params = self._checked_step(params, owner)
            if going := self.step_of(params["session"], owner=owner):
                return going
        else:
            title = ""
        resumed, job = job is not None, job or self.log.add(owner, KIND, title, params)
        self.runner.submit(job, lambda: self._take(params, owner, resumed=resumed), _finish(params))
        return job

    def _checked_step(self, params: dict[str, Any], owner: str) -> tuple[str, dict[str, Any]]:
        """A title for the step and its settings, a new session's name among them."""
        method, split = find(params["method"]), splits[params["base"]]
        if params["action"] == "begin":
            if not params["source"] and (missing := self._split_missing(params["base"])):
                raise UserError(f"{split.title}: {missing}")
            name = self._reserve(params["name"], f"{params['method']}-{params['base']}", owner)
            return f"Begin {method.title} on {split.title[:1].lower()}{split.title[1:]}", {**params, "session": name}
        session = self._session(params["session"], owner)
        _ask_for(session, params)
        name = session.tasks[params["task"]].name
        return f"{params['action'].capitalize()} task {params['task']}, {name} ({method.title})", params

    def _take(self, params: dict[str, Any], owner: str, *, resumed: bool) -> Task:
        """The step itself, on the session as it is on disk. A resumed one may have been saved before it was cut off."""
        folder = self.store.tasks(owner) / params["session"]
        is_new = params["action"] == "begin"
        if is_new and not (folder / Session.FILE).exists():
            yield from self._prepare(params)
            how = {"knobs": params["knobs"], "seed": params["seed"], "device": self.device, "autosave": False}
            making = Session.create(folder, params["method"], params["base"], data=self._place(params), **how)
            yield Done(((yield from watch(making)), None))
            return
        session = Session.open(folder, self.device)
        session.autosave = False
        if is_new or (resumed and session.was_last(params["action"], params["task"])):
            yield Done((session, None))
        else:
            yield Done((session, (yield from watch(_ask_for(session, params)))))

    def _prepare(self, params: dict[str, Any]) -> Task:
        place = self._place(params)
        if params["base"] == "people" and not people.cache(place).is_file():
            yield from watch(people.make(place))

    # Looking

    def task_sessions(self, owner: str = LOCAL) -> list[str]:
        """Names, the one used last first."""
        return [path.parent.name for path in reversed(by_age(self.store.tasks(owner).glob(f"*/{Session.FILE}")))]

    def task_summaries(self, owner: str = LOCAL) -> list[dict[str, Any]]:
        """Per session, the one used last first: its name, method, split, live and forgotten tasks, and means over the
        live ones. One that cannot be read says why."""
        found = []
        for name in self.task_sessions(owner):
            try:
                summary = Session.summary(self._session_folder(name, owner))
                found.append({"name": name, "title": find(summary["method"]).title, **summary})
            except UserError as error:
                found.append({"name": name, "trouble": str(error)})
        return found

    def task_session(self, session: str, *, owner: str = LOCAL) -> dict[str, Any]:
        """Everything a page shows of a session, in plain values."""
        opened = self._session(session, owner)
        net = opened.net
        return {
            "name": session,
            "method": asdict(_info(net.name)),
            "split": opened.split,
            "title": splits[opened.split].title,
            "seed": net.seed,
            "steps": net.method.steps,
            "pretraining": net.method.pretraining,
            "tasks": opened.overview(),
            "matrix": [{"event": row.event, "task": row.task, "scores": dict(row.scores)} for row in opened.matrix],
            "receipts": opened.receipts,
            "facts": opened.facts(),
            "overlap": opened.overlap(),
            "hash": net.state_hash(),
        }

    def task_pictures(self, session: str, count: int, *, owner: str = LOCAL) -> dict[int, list[np.ndarray]]:
        """Test pictures of every task, learned or not, HWC uint8 with three channels."""
        opened = self._session(session, owner)
        return {task: [_coloured(x) for x in opened.samples(task, count)] for task in range(len(opened.tasks))}

    def ask_task(
        self,
        session: str,
        picture: tuple[int, int, int],
        task: int | None = None,
        by: str | None = None,
        *,
        beside: int = 0,
        owner: str = LOCAL,
    ) -> dict[str, Any]:
        """What the network says of a picture, (its task, its number, of how many), and the truth. With no task given it
        is found `by` the method's own way or try-each, from this picture and `beside` others of its task."""
        opened = self._session(session, owner)
        answer, truth = opened.ask(*picture, task=task, by=by, beside=beside)
        return asdict(answer) | {"truth": truth}

    def task_vault(self, session: str, task: int, *, owner: str = LOCAL) -> Path:
        """The file that a forgotten task went to."""
        vaults = self._session(session, owner).net.vaults
        if task not in vaults:
            raise UserError(f"task {task} of {session} is not forgotten, so it has no vault file")
        return vaults[task]

    def delete_tasks(self, session: str, *, owner: str = LOCAL) -> None:
        """Deletes a session for good, its vault files too."""
        if self.step_of(session, owner=owner):
            raise UserError(f"{session} is at work; stop its run first")
        shutil.rmtree(self._session_folder(session, owner))

    # Inside

    def _session(self, name: str, owner: str) -> Session:
        """The session as its last step left it, only for looking. The last one looked at stays in memory."""
        folder = self._session_folder(name, owner)
        key = (folder, (folder / Session.FILE).stat().st_mtime_ns)
        if self._looked_at is None or self._looked_at[0] != key:
            self._looked_at = (key, Session.open(folder, self.device))
        return self._looked_at[1]

    _looked_at: tuple[tuple[Path, int], Session] | None = None

    def _session_folder(self, name: str, owner: str) -> Path:
        folder = self.store.tasks(owner) / checked(name)
        if not (folder / Session.FILE).exists():
            raise UserError(f"{name} holds no session; yours: {', '.join(self.task_sessions(owner)) or 'none yet'}")
        return folder

    def _reserve(self, name: str, stem: str, owner: str) -> str:
        """The name, or the stem with the first free number. Its folder is made now, so that nobody else takes it."""
        root = self.store.tasks(owner)
        number = 1
        while not name and (root / f"{stem}-{number}").exists():
            number += 1
        chosen = checked(name or f"{stem}-{number}")
        if (root / chosen / Session.FILE).exists():
            raise UserError(f"{chosen} already holds a session; open it, or choose another name")
        (root / chosen).mkdir(parents=True, exist_ok=True)
        return chosen

    def _place(self, params: Mapping[str, Any]) -> Path | None:
        """Where the images are: as the user said, else in the data folder; None where they come with the project."""
        split = params["base"]
        if params["source"] or not splits[split].place:
            return Path(params["source"]) if params["source"] else None
        file = self.store.data / f"{split}.npz"
        return self.store.data if split == "people" else file if file.is_file() else self.store.data / split

    def _split_missing(self, split: str) -> str:
        place = self._place({"base": split, "source": ""})
        if split == "people":
            is_here = people.cache(place).is_file() or assets.is_present("ffhq")
            return (
                "" if is_here else "drawn by the FFHQ generator, which is not here; the Models page tells how to get it"
            )
        if place is None or place.exists():
            return ""
        return f"does not come with Lethe; put it into the data folder as data/{split}.npz or data/{split}/"


def _ask_for(session: Session, params: Mapping[str, Any]) -> Task:
    """The step, not begun; what cannot be done is refused here."""
    match params["action"]:
        case "learn":
            return session.learn(params["task"])
        case "forget":
            return session.forget(params["task"], params["mode"])
        case _:
            file = session.folder / "vault" / params["file"] if "file" in params else None
            return session.restore(params["task"], file)


def _finish(params: Mapping[str, Any]) -> Callable[[tuple[Session, Any], bool], dict[str, Any]]:
    """Saves the session once it is known that the step is wanted, and says what it did."""

    def finish(outcome: tuple[Session, Any], partial: bool) -> dict[str, Any]:
        session, receipt = outcome
        session.save()
        put_last(session.folder / Session.FILE, session.folder.parent.glob(f"*/{Session.FILE}"))
        if "file" in params:
            (session.folder / "vault" / params["file"]).unlink(missing_ok=True)
        words = tell(receipt) if receipt else "ready: teach it a task" if params["action"] == "begin" else "done before"
        facts = plain(receipt) if receipt else {}
        scalars = {name: facts[name] for name in ("accuracy", "loss", "difference", "seconds") if name in facts}
        said = f"{words[:1].upper()}{words[1:]}."
        return {"words": said, "receipt": facts, "scalars": scalars, "partial": partial}

    return finish


def _info(name: str) -> MaskInfo:
    method = find(name)
    can, words = method.capabilities, re.sub(r"\s+", " ", sys.modules[method.__module__].__doc__ or "").strip()
    return MaskInfo(
        name, method.title, words, can.exact, can.order_free, not can.needs_task, is_reference=name in references
    )


def _coloured(pixels: np.ndarray) -> np.ndarray:
    return np.repeat(pixels, 3, axis=2) if pixels.shape[2] == 1 else pixels
