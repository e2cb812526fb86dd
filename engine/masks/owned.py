"""Weights with an owner: the shared piece of the methods that train one network for all tasks.

Every shared weight belongs to the task that first trained it (`owner.i`, 0 = free, task t is t + 1) and never changes
while it has an owner. Free weights rest at exact 0. A task reads only the owners that were live when it was learned.
Released weights may be taken by a later task; a task that comes back then runs on an overlay of its old bytes.
"""

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from engine.core.errors import Mismatch
from engine.masks.method import MaskMethod, Mode
from engine.masks.packing import pack, unpack
from engine.masks.plan import Plan
from engine.masks.state import State, Tensors, same_bytes
from engine.masks.training import Work

SEES = "index.sees"


class Canvas:
    """What a new task finds: old weights it may read, and the free ones it may train, with fresh random numbers."""

    def __init__(self, method: "OwnsWeights", work: Work) -> None:
        state, self.code = work.state, work.task + 1
        self.sees = torch.tensor([*method.visible(state), self.code], dtype=torch.uint8, device=state.device)
        shapes = method.owned_shapes(work.plan)
        self.owners = [state.shared[f"owner.{i}"] for i in range(len(shapes))]
        self.old = [
            torch.where(torch.isin(owner, self.sees), state.shared[f"weight.{i}"], 0.0)
            for i, owner in enumerate(self.owners)
        ]
        self.free = [owner == 0 for owner in self.owners]
        self.fresh = [
            work.kaiming(shape, fan_in, f"weight {i}", gain).requires_grad_()
            for i, (shape, fan_in, gain) in enumerate(shapes)
        ]

    def weights(self, trainable: Sequence[Tensor] | None = None) -> list[Tensor]:
        """Fresh where trainable (by default: where free), old elsewhere. Old weights cannot get a gradient."""
        chosen = trainable or self.free
        return [torch.where(t, new, old) for t, new, old in zip(chosen, self.fresh, self.old, strict=True)]

    def claim(self, shared: Tensors, mine: Sequence[Tensor]) -> dict[str, Tensor]:
        """The shared bytes with these free weights now owned by the task; all others as they were."""
        changed = dict(shared)
        for i, (chosen, new, free) in enumerate(zip(mine, self.fresh, self.free, strict=True)):
            take = chosen & free
            changed[f"weight.{i}"] = torch.where(take, new.detach(), shared[f"weight.{i}"])
            changed[f"owner.{i}"] = torch.where(take, self.code, shared[f"owner.{i}"])
        return changed


@dataclass(frozen=True)
class OwnsWeights(MaskMethod):
    """Reading by owner, depositing, releasing, putting back. A method adds which weights a task's mask uses."""

    @abstractmethod
    def owned_shapes(self, plan: Plan) -> list[tuple[tuple[int, ...], int, float]]:
        """Shape, fan-in and gain of every shared weight tensor."""

    @abstractmethod
    def uses(self, plan: Plan, private: Tensors) -> list[Tensor]:
        """Per weight tensor: which weights a task with these private bytes lets through, owners aside."""

    def blank(self, plan: Plan) -> dict[str, Tensor]:
        shapes = [shape for shape, _, _ in self.owned_shapes(plan)]
        weights = {f"weight.{i}": torch.zeros(shape) for i, shape in enumerate(shapes)}
        return weights | {f"owner.{i}": torch.zeros(shape, dtype=torch.uint8) for i, shape in enumerate(shapes)}

    def visible(self, state: State) -> list[int]:
        """Owner codes a new task may read: live tasks in their own place."""
        return [task + 1 for task in sorted(state.tasks) if task not in state.overlays]

    def effective(self, plan: Plan, state: State, task: int) -> list[Tensor]:
        """The task's weights: bytes of the owners it sees, through its own mask, 0 elsewhere."""
        private = state.tasks[task]
        weights = []
        for i, allowed in enumerate(self.uses(plan, private)):
            owner, weight = state.shared[f"owner.{i}"], state.shared[f"weight.{i}"]
            weight = torch.where(allowed & torch.isin(owner, private[SEES]), weight, 0.0)
            for code in private[SEES].tolist():
                at, values = _overlay(state, code - 1, i, owner.shape)
                if at is not None:
                    weight = torch.where(at & allowed, values, weight)
            weights.append(weight)
        return weights

    def owned(self, plan: Plan, state: State, task: int) -> list[tuple[Tensor, Tensor]]:
        """Per weight tensor: where this task's weights are, and a tensor that has their values there."""
        found = []
        for i in range(len(self.owned_shapes(plan))):
            owner, weight = state.shared[f"owner.{i}"], state.shared[f"weight.{i}"]
            where = owner == task + 1
            at, values = _overlay(state, task, i, owner.shape)
            found.append((where, weight) if at is None else (where | at, torch.where(at, values, weight)))
        return found

    def deposit(self, plan: Plan, state: State, task: int) -> dict[str, Tensor]:
        payload = dict(state.tasks[task])
        for i, (where, weight) in enumerate(self.owned(plan, state, task)):
            payload[f"index.{i}"] = pack(where)
            payload[f"weights.{i}"] = weight[where]
        return payload

    def withdraw(self, plan: Plan, state: State, task: int, mode: Mode) -> State:
        state = state.without_task(task)
        read = self._read_by_others(plan, state, task)
        if not any(read_here.any() for read_here in read):
            state = state.with_overlay(task, {})
        if mode == "mask":
            return state
        shared = dict(state.shared)
        for i, needed in enumerate(read):
            released = (shared[f"owner.{i}"] == task + 1) & ~needed
            shared[f"weight.{i}"] = torch.where(released, 0.0, shared[f"weight.{i}"])
            shared[f"owner.{i}"] = torch.where(released, 0, shared[f"owner.{i}"])
        return replace(state, shared=shared)

    def put_back(self, plan: Plan, state: State, task: int, deposit: Tensors) -> State:
        """Each weight where it was if its place is free or still its own; the others become an overlay."""
        shared, overlay, private = dict(state.shared), {}, dict(deposit)
        for i, (shape, _, _) in enumerate(self.owned_shapes(plan)):
            where = unpack(private.pop(f"index.{i}"), shape)
            values = torch.zeros(shape, device=state.device)
            values[where] = private.pop(f"weights.{i}")
            owner, weight = shared[f"owner.{i}"], shared[f"weight.{i}"]
            mine, free = where & (owner == task + 1), where & (owner == 0)
            if not same_bytes(weight[mine], values[mine]):
                raise Mismatch(f"task {task} owns other weights here than in its vault file; it was learned anew")
            shared[f"weight.{i}"] = torch.where(free, values, weight)
            shared[f"owner.{i}"] = torch.where(free, task + 1, owner)
            taken = where & ~mine & ~free
            if taken.any():
                overlay |= {f"index.{i}": pack(taken), f"weights.{i}": values[taken]}
        return replace(state, shared=shared).with_task(task, private).with_overlay(task, overlay)

    def dependents(self, plan: Plan, state: State, task: int) -> dict[int, str]:
        others = [other for other in sorted(state.tasks) if other != task]
        return {other: "weights" for other in others if self._reads(plan, state, other, task)}

    def remains(self, plan: Plan, state: State, task: int) -> int:
        owned = sum(int(where.sum()) for where, _ in self.owned(plan, state, task))
        return 32 * owned + super().remains(plan, state, task)

    def built_on(self, deposit: Tensors, task: int) -> list[int]:
        return [code - 1 for code in deposit[SEES].tolist() if code != task + 1]

    def _reads(self, plan: Plan, state: State, reader: int, task: int) -> bool:
        return any(read.any() for read in self._read(plan, state, reader, task))

    def _read(self, plan: Plan, state: State, reader: int, task: int) -> list[Tensor]:
        """Which of the task's weights the reader's answers are computed from."""
        owned = [where for where, _ in self.owned(plan, state, task)]
        if task + 1 not in state.tasks[reader][SEES].tolist():
            return [torch.zeros_like(where) for where in owned]
        return [where & used for where, used in zip(owned, self.uses(plan, state.tasks[reader]), strict=True)]

    def _read_by_others(self, plan: Plan, state: State, task: int) -> list[Tensor]:
        read = [torch.zeros_like(where) for where, _ in self.owned(plan, state, task)]
        for other in state.tasks:
            if other != task:
                read = [a | b for a, b in zip(read, self._read(plan, state, other, task), strict=True)]
        return read


def _overlay(state: State, task: int, i: int, shape: torch.Size) -> tuple[Tensor | None, Tensor | None]:
    """Where a task's overlay replaces the shared tensor, and by what."""
    own = state.overlays.get(task, {})
    if f"index.{i}" not in own:
        return None, None
    at = unpack(own[f"index.{i}"], shape)
    values = torch.zeros(shape, device=at.device)
    values[at] = own[f"weights.{i}"]
    return at, values
