"""One network on one split, kept on disk after every step: what the page and the command line work with.

A session is a folder: `session.safetensors` (the serving state, and in its header everything else) and `vault/`, the
files that forgotten tasks went to. Every step is a task; when it is done, the folder holds the new state, whole.
"""

import json
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import torch
from safetensors import SafetensorError, safe_open

from engine.core.errors import DamagedFile, UserError
from engine.core.events import Done, Task, watch
from engine.core.knobs import build, values
from engine.files import save_tensors
from engine.masks import measure, moving
from engine.masks.measure import Row
from engine.masks.method import Mode
from engine.masks.net import MaskedNet, TaskInfo, find
from engine.masks.plan import revive
from engine.masks.receipts import Answer, plain
from engine.masks.splits import TaskData, splits
from engine.masks.state import unflatten

FORMAT = 1
NEIGHBOURS = 7  # rows of a test set are sorted by class: stepping by this mixes them


class Session:
    """Steps are `learn`, `forget` and `restore`; everything else only looks. What cannot be done is refused when a step
    is asked for, before it begins."""

    FILE: ClassVar[str] = "session.safetensors"

    def __init__(
        self, folder: Path, net: MaskedNet, split: str, data: Path | None, tasks: tuple[TaskData, ...]
    ) -> None:
        self.folder = folder
        self.net = net
        self.split = split
        self.data = data
        self.tasks = tasks
        self.matrix: list[Row] = []
        self.receipts: list[dict[str, Any]] = []
        self.autosave = True  # False where the caller saves, once it knows that the step is wanted

    @classmethod
    def create(
        cls,
        folder: Path,
        method: str,
        split: str,
        *,
        knobs: Mapping[str, Any] | None = None,
        seed: int = 0,
        data: Path | None = None,
        device: torch.device | str = "cpu",
        autosave: bool = True,
    ) -> Task:
        """A new session; trains the backbone first where the method needs one. Done's result is the Session."""
        chosen = splits[split]
        build(find(method), knobs or {})
        if _file(folder).exists():
            raise UserError(f"{folder.name} already holds a session; open it, or choose another name")

        def task() -> Task:
            tasks = chosen.load(data)
            plan = chosen.plan(tuple(tasks[0].train.x.shape[1:]))
            net = yield from watch(MaskedNet.begin(method, knobs, plan, seed, device))
            session = cls(folder, net, split, data, tasks)
            if autosave:
                session.save()
            yield Done(session)

        return task()

    @classmethod
    def open(cls, folder: Path, device: torch.device | str = "cpu", data: Path | None = None) -> "Session":
        """The session as its last step left it. `data` is where its images are now, if they were moved."""
        tensors, card = _read(_file(folder), device)
        data = data or (Path(card["data"]) if card["data"] else None)
        method = build(find(card["method"]), card["knobs"])
        net = MaskedNet(
            card["method"], method, revive(card["plan"]), card["seed"], unflatten(tensors), card["backbone"]
        )
        net.infos = {int(t): TaskInfo(info["name"], tuple(info["classes"])) for t, info in card["infos"].items()}
        net.vaults = {int(t): folder / "vault" / name for t, name in card["vaults"].items()}
        session = cls(folder, net, card["split"], data, splits[card["split"]].load(data))
        session.matrix = [Row(r["event"], r["task"], _whole(r["scores"])) for r in card["matrix"]]
        session.receipts = card["receipts"]
        return session

    @staticmethod
    def summary(folder: Path) -> dict[str, Any]:
        """Method, split, tasks and means of a session, without opening it."""
        card = _read_card(_file(folder))
        return {"method": card["method"], "split": card["split"], **card["summary"]}

    def save(self) -> None:
        """The folder's file as it is now, in place of the old one or not at all."""
        net = self.net
        card = {
            "format": FORMAT,
            "method": net.name,
            "knobs": values(net.method),
            "split": self.split,
            "data": str(self.data) if self.data else "",
            "seed": net.seed,
            "plan": net.plan.describe(),
            "backbone": net.backbone,
            "infos": {task: asdict(info) for task, info in net.infos.items()},
            "vaults": {task: path.name for task, path in net.vaults.items()},
            "matrix": [asdict(row) for row in self.matrix],
            "receipts": self.receipts,
            "summary": {"live": sorted(net.state.tasks), "forgotten": sorted(net.vaults), **self.facts()},
        }
        save_tensors(_file(self.folder), net.state.flat(), {"card": json.dumps(card)})

    # Steps

    def learn(self, task: int | None = None) -> Task:
        """Learns a task, by default the first that was never learned. Done's result is Learned."""
        number = self.next_task() if task is None else task
        if number is None or not 0 <= number < len(self.tasks):
            raise UserError(f"there is no further task; {self.split} has tasks 0 to {len(self.tasks) - 1}")
        learning = self.net.learn_task(number, self.tasks[number])

        def step() -> Task:
            receipt = yield from watch(learning)
            self._note("learn", number, receipt)
            yield Done(receipt)

        return step()

    def forget(self, task: int, mode: Mode = "mask") -> Task:
        """Moves a task into the vault. Done's result is Forgot."""
        self.net.check_forgettable(task, mode)

        def step() -> Task:
            receipt = self.net.forget(task, self.folder / "vault", mode)
            self._note("forget", task, receipt)
            yield Done(receipt)

        return step()

    def restore(self, task: int | None = None, file: Path | None = None) -> Task:
        """Takes a task in again, from the vault or from a file the user hands over. Done's result is Restored."""
        path = file or self.net.vaults.get(task)
        if path is None:
            forgotten = ", ".join(map(str, sorted(self.net.vaults))) or "none"
            raise UserError(f"task {task} is not in this session's vault (forgotten: {forgotten}); hand over its file")
        moving.take_in(self.net, path, task)

        def step() -> Task:
            receipt = self.net.restore(path, task)
            self._note("restore", receipt.task, receipt)
            yield Done(receipt)

        return step()

    def _note(self, event: str, task: int, receipt: Any) -> None:
        self.matrix.append(measure.row(self.net, event, task, self.tasks))
        self.receipts.append({"event": event, **plain(receipt)})
        if self.autosave:
            self.save()

    def check_file(self, path: Path) -> int:
        """The task that a vault file would restore here; a file that would not is refused."""
        card, _, _ = moving.take_in(self.net, path, None)
        return card.task

    def was_last(self, event: str, task: int) -> bool:
        """Whether this was the last step that was saved."""
        last = self.receipts[-1] if self.receipts else {}
        return (last.get("event"), last.get("task")) == (event, task)

    # Looking

    def next_task(self) -> int | None:
        known = {*self.net.state.tasks, *self.net.vaults}
        return next((number for number in range(len(self.tasks)) if number not in known), None)

    def answer(self, picture: np.ndarray, task: int | None = None, by: str | None = None) -> Answer:
        """What the network says of one HWC uint8 picture of the split's size."""
        x = torch.from_numpy(np.ascontiguousarray(picture))
        x = (x[..., None] if x.dim() == 2 else x).permute(2, 0, 1)[None]
        if tuple(x.shape[1:]) != self.net.plan.image:
            raise UserError(f"a picture of {tuple(x.shape[1:])}: this network takes {self.net.plan.image}")
        return self.net.predict(x, task, by)

    def samples(self, task: int, count: int = 12) -> list[np.ndarray]:
        """Test pictures of a task, HWC uint8, spread over its classes."""
        x = self.tasks[task].test.x
        return [picture.permute(1, 2, 0).numpy() for picture in x[_spread(len(x), count)]]

    def ask(
        self, of: int, number: int, count: int, *, task: int | None = None, by: str | None = None, beside: int = 0
    ) -> tuple[Answer, str]:
        """What is said of one of `samples(of, count)`, and what it is. Where the task is to be found, so many others of
        the same task are shown beside it."""
        test = self.tasks[of].test
        row = int(_spread(len(test.x), count)[number])
        rows = (row + NEIGHBOURS * torch.arange(1 + (0 if task is not None else beside))) % len(test.x)
        return self.net.predict(test.x[rows], task, by), self.tasks[of].classes[int(test.y[row])]

    def overview(self) -> list[dict[str, Any]]:
        """One line per task: its state, last score, bits by kind and who depends on it."""
        lines = []
        for number, task in enumerate(self.tasks):
            line: dict[str, Any] = {"task": number, "name": task.name, "classes": list(task.classes), "state": "new"}
            if number in self.net.state.tasks:
                line |= {"state": "live", "score": self.matrix[-1].scores.get(number)}
                line |= {"bits": asdict(self.net.storage_bits(number)), "dependents": self.net.dependents(number)}
                line |= {"overlay": number in self.net.state.overlays}
            elif number in self.net.vaults:
                line |= {"state": "forgotten", "vault": self.net.vaults[number].name}
            lines.append(line)
        return lines

    def facts(self) -> dict[str, float]:
        """Means over live tasks: accuracy, bits per task, forgetting and backward transfer."""
        live = sorted(self.net.state.tasks)
        if not live:
            return {}
        scores = self.matrix[-1].scores
        bits = [self.net.storage_bits(task) for task in live]
        lost = measure.forgetting(self.matrix)
        return {
            "accuracy": sum(scores.values()) / len(scores),
            "bits": sum(b.total for b in bits) / len(bits),
            "coded bits": sum(b.coded for b in bits) / len(bits),
            "forgetting": sum(lost.values()) / len(lost),
            "bwt": measure.backward_transfer(self.matrix),
        }

    def overlap(self) -> dict[tuple[int, int], float]:
        return measure.overlap(self.net)


def _spread(rows: int, count: int) -> torch.Tensor:
    return torch.linspace(0, rows - 1, min(count, rows)).round().long()


def _file(folder: Path) -> Path:
    return folder / Session.FILE


def _read(path: Path, device: torch.device | str) -> tuple[dict[str, torch.Tensor], dict[str, Any]]:
    card = _read_card(path)
    try:
        with safe_open(path, framework="pt", device=str(device)) as file:
            return {name: file.get_tensor(name) for name in file.keys()}, card  # noqa: SIM118 (not a dict)
    except (SafetensorError, OSError) as error:
        raise DamagedFile(f"{path.parent.name} holds no readable session ({error})") from error


def _read_card(path: Path) -> dict[str, Any]:
    if not path.exists():
        raise UserError(f"{path.parent.name} holds no session")
    try:
        with safe_open(path, framework="pt") as file:
            card = json.loads((file.metadata() or {})["card"])
    except (SafetensorError, OSError, KeyError, ValueError, RecursionError) as error:
        raise DamagedFile(f"{path.parent.name} holds no readable session ({error})") from error
    if not isinstance(card, dict):
        raise DamagedFile(f"{path.parent.name} holds no readable session (its card is no record)")
    if card.get("format") != FORMAT:
        raise DamagedFile(f"{path.parent.name} has format {card.get('format')}; this version reads format {FORMAT}")
    return card


def _whole(scores: Mapping[str, float]) -> dict[int, float]:
    return {int(task): score for task, score in scores.items()}
