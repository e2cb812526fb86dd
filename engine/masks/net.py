"""The one interface of the family: learn a task, forget it into a file, restore it, answer with it."""

import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from engine.core.errors import UserError
from engine.core.events import Done, Task
from engine.core.knobs import build
from engine.masks import mask_methods, moving, references, vault
from engine.masks import plan as plans
from engine.masks.method import MODES, MaskMethod, Mode
from engine.masks.plan import Plan
from engine.masks.receipts import UNKNOWN, Answer, Bits, Capabilities, Forgot, Learned, Restored
from engine.masks.splits import TaskData
from engine.masks.state import State, Tensors, sha256
from engine.masks.training import Work


@dataclass(frozen=True)
class TaskInfo:
    """A live task in words."""

    name: str
    classes: tuple[str, ...]


class MaskedNet:
    """A method, the shape of its network and its serving state. Every call either holds or changes nothing."""

    def __init__(self, name: str, method: MaskMethod, plan: Plan, seed: int, state: State, backbone: str) -> None:
        self.name = name
        self.method = method
        self.plan = plan
        self.seed = seed
        self.state = state
        self.backbone = backbone
        self.infos: dict[int, TaskInfo] = {}
        self.vaults: dict[int, Path] = {}  # where forgotten tasks went; not part of the serving state
        self._views: dict[int, dict[str, Tensor]] = {}

    @classmethod
    def begin(
        cls, name: str, knobs: Mapping | None, plan: Plan, seed: int = 0, device: torch.device | str = "cpu"
    ) -> Task:
        """A network that knows nothing yet. Done's result is the MaskedNet."""
        method = build(find(name), knobs or {})

        def task() -> Task:
            shared = yield from method.begin(plan, seed)
            shared = {label: tensor.to(device) for label, tensor in shared.items()}
            backbone = sha256({**shared, f"plan {plan} seed {seed}": torch.empty(0)})
            yield Done(cls(name, method, plan, seed, State(shared), backbone))

        return task()

    # Learning

    def learn_task(self, task: int, data: TaskData) -> Task:
        """Trains a task. Done's result is Learned; stopped early, the task is kept as far as it got."""
        self._check_learnable(task, data)
        return self._learn(task, data)

    def _learn(self, task: int, data: TaskData) -> Task:
        start = time.monotonic()
        before = {t: self._reference(t) for t in self.state.tasks}
        update = yield from self.method.learn(Work(self.plan, self.state, task, data, self.seed))
        state = State(update.shared, {**self.state.tasks, **update.tasks}, self.state.overlays)
        self._set(state, others_stay=self.method.capabilities.exact)
        self.infos[task] = TaskInfo(data.name, data.classes)
        self.vaults.pop(task, None)
        drift = {t: moving.difference(self._reference(t), logits) for t, logits in before.items()}
        right = self.accuracy(task, data.validation.x, data.validation.y)
        seconds = time.monotonic() - start
        yield Done(Learned(task, update.loss, right, seconds, drift, update.stopped, update.notes))

    def _check_learnable(self, task: int, data: TaskData) -> None:
        if task in self.state.tasks:
            raise UserError(f"task {task} is already learned; forget it first, or learn another")
        if not 0 <= task < 255:
            raise UserError(f"task {task}: must lie in [0, 254]")
        if self.method.remains(self.plan, self.state, task):
            raise UserError(
                f"bytes of task {task} still serve other tasks, so it cannot be learned anew: "
                "restore it from its vault file, or restore it and forget it with mode cascade"
            )
        if tuple(data.train.x.shape[1:]) != self.plan.image:
            raise UserError(f"images of {tuple(data.train.x.shape[1:])}: this network takes {self.plan.image}")

    # Forgetting and restoring

    def forget(self, task: int, folder: Path, mode: Mode = "mask") -> Forgot:
        """Moves a task's bytes from the serving state to a vault file in `folder`."""
        self.check_forgettable(task, mode)
        state, also = self.state, []
        if mode == "cascade":
            for other in moving.latest_first(self, task):
                state, receipt = moving.take_out(self, state, other, mode, folder)
                also.append(receipt)
        state, receipt = moving.take_out(self, state, task, mode, folder)
        self._set(state)
        for gone in (*also, receipt):
            self.infos.pop(gone.task)
            self.vaults[gone.task] = gone.vault
        return Forgot(**{**vars(receipt), "also": tuple(also)})

    def check_forgettable(self, task: int, mode: Mode) -> None:
        """Refuses, in words, what `forget` would refuse."""
        if mode not in MODES:
            raise UserError(f"mode={mode!r}: must be one of {', '.join(MODES)}")
        self._check_live(task)
        if mode == "exclusive":
            moving.check_exclusive(self, task)

    def restore(self, path: Path, task: int | None = None) -> Restored:
        """Copies a vault file's bytes back. Refuses what does not belong here, and then nothing changes."""
        start, before = time.monotonic(), self.state_hash()
        card, state, equal = moving.take_in(self, path, task)
        self._set(state)
        self.infos[card.task] = TaskInfo(card.name, card.classes)
        self.vaults.pop(card.task, None)
        saved = vault.decode(card.reference, moving.REFERENCE_ROWS)
        difference = moving.difference(self._reference(card.task).cpu(), saved)
        overlay = card.task in state.overlays
        return Restored(card.task, difference, equal, overlay, before, self.state_hash(), time.monotonic() - start)

    # Answering

    def predict(self, x: Tensor, task: int | None = None, by: str | None = None) -> Answer:
        """Labels for uint8 images that belong to one task: the given one, or the one inferred for the whole batch."""
        belief: dict[int, float] = {}
        if task is None:
            by = by or self.method.answer
            task, belief = self._infer(x, by)
            if task is None:
                return Answer(UNKNOWN, by, belief=belief)
        logits = self.logits(x, task)[:, : len(self.infos[task].classes)]  # a head may have idle outputs
        best = logits.softmax(1).topk(min(2, logits.shape[1]), 1)
        margin = best.values[:, 0] - best.values[:, 1:].sum(1)
        indices = best.indices[:, 0].tolist()
        labels = tuple(self.infos[task].classes[i] for i in indices)
        return Answer(task, by or "given", labels, tuple(indices), tuple(margin.tolist()), belief)

    def _infer(self, x: Tensor, by: str | None) -> tuple[int | None, dict[int, float]]:
        if not self.state.tasks:
            return None, {}
        belief = self.method.infer(self.plan, self.state, plans.prepare(self.plan, x.to(self.state.device)), by)
        best = max(belief, key=belief.get)
        return (best if belief[best] > 0 else None), belief

    def logits(self, x: Tensor, task: int) -> Tensor:
        """Raw answers of one live task to uint8 images."""
        self._check_live(task)
        return self.raw(self.view(task), x)

    def accuracy(self, task: int, x: Tensor, y: Tensor) -> float:
        """Share of images that the task labels rightly."""
        classes = len(self.infos[task].classes)
        right = self.logits(x, task)[:, :classes].argmax(1) == y.to(self.state.device)
        return right.sum().item() / len(y)

    def features(self, x: Tensor, task: int) -> Tensor:
        """What the head sees, for a probe or a picture."""
        self._check_live(task)
        view = self.view(task)
        ready = plans.prepare(self.plan, x.to(self.state.device))
        return plans.served(ready, lambda rows: self.method.features(self.plan, view, rows))

    # Facts

    def storage_bits(self, task: int) -> Bits:
        self._check_live(task)
        return vault.bits(self.method.deposit(self.plan, self.state, task))

    def dependents(self, task: int) -> dict[int, str]:
        self._check_live(task)
        return self.method.dependents(self.plan, self.state, task)

    def state_hash(self) -> str:
        return sha256(self.state.flat())

    def task_hash(self, task: int) -> str:
        """SHA-256 of every byte the task's answers are computed from: equal hashes, equal answers."""
        return sha256(self.view(task))

    def capabilities(self) -> Capabilities:
        return self.method.capabilities

    def view(self, task: int) -> dict[str, Tensor]:
        if task not in self._views:
            self._views[task] = self.method.view(self.plan, self.state, task)
        return self._views[task]

    # Inside

    def _set(self, state: State, *, others_stay: bool = True) -> None:
        """Changes the state in one step; no byte that another live task reads may differ, unless that is promised."""
        views = {task: self.method.view(self.plan, state, task) for task in state.tasks}
        if others_stay:
            both = [task for task in views if task in self.state.tasks]
            assert all(self.task_hash(task) == sha256(views[task]) for task in both), "another task was changed"
        self.state, self._views = state, views

    def _check_live(self, task: int) -> None:
        if task in self.state.tasks:
            return
        known = _list(sorted(self.state.tasks)) or "none"
        if task in self.vaults:
            raise UserError(f"task {task} was forgotten; restore it from {self.vaults[task].name}. Live: {known}")
        raise UserError(f"task {task} was never learned here; live: {known}")

    def raw(self, view: Tensors, x: Tensor) -> Tensor:
        """Answers computed from a view, live or not."""
        ready = plans.prepare(self.plan, x.to(self.state.device))
        return plans.served(ready, lambda rows: self.method.logits(self.plan, view, rows))

    def _reference(self, task: int) -> Tensor:
        return self.raw(self.view(task), moving.reference(self.plan))


def find(name: str) -> type[MaskMethod]:
    """A method or a reference by its name."""
    return references[name] if name in references else mask_methods[name]


def _list(tasks: Iterable[int]) -> str:
    return ", ".join(map(str, tasks))
