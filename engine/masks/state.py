"""The serving state as a value: shared bytes, each live task's own bytes, and overlays. Never changed in place."""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import numpy as np
import torch
from torch import Tensor

Tensors = Mapping[str, Tensor]


@dataclass(frozen=True)
class State:
    """Everything serving needs. An overlay is what one task alone reads instead of the shared bytes of that name."""

    shared: Tensors
    tasks: Mapping[int, Tensors] = field(default_factory=dict)
    overlays: Mapping[int, Tensors] = field(default_factory=dict)

    @property
    def device(self) -> torch.device:
        return next(iter(self.shared.values())).device

    def with_task(self, task: int, private: Tensors) -> "State":
        return replace(self, tasks={**self.tasks, task: private})

    def without_task(self, task: int) -> "State":
        return replace(self, tasks={t: own for t, own in self.tasks.items() if t != task})

    def with_overlay(self, task: int, tensors: Tensors) -> "State":
        """An empty overlay is none."""
        rest = {t: own for t, own in self.overlays.items() if t != task}
        return replace(self, overlays={**rest, task: tensors} if tensors else rest)

    def flat(self) -> dict[str, Tensor]:
        tensors = {f"shared/{name}": tensor for name, tensor in self.shared.items()}
        for kind, owners in (("task", self.tasks), ("overlay", self.overlays)):
            for task, own in owners.items():
                tensors |= {f"{kind}/{task}/{name}": tensor for name, tensor in own.items()}
        return tensors


def unflatten(tensors: Tensors) -> State:
    """The state that `flat` was taken from."""
    shared: dict[str, Tensor] = {}
    owners: dict[str, dict[int, dict[str, Tensor]]] = {"task": {}, "overlay": {}}
    for path, tensor in tensors.items():
        kind, _, name = path.partition("/")
        if kind == "shared":
            shared[name] = tensor
        else:
            task, _, name = name.partition("/")
            owners[kind].setdefault(int(task), {})[name] = tensor
    return State(shared, owners["task"], owners["overlay"])


def sha256(tensors: Tensors) -> str:
    """Over the sorted names, shapes, types and raw bytes; all 64 digits."""
    total = hashlib.sha256()
    for name in sorted(tensors):
        tensor = tensors[name].detach().cpu().contiguous()
        total.update(f"{name} {tensor.dtype} {tuple(tensor.shape)};".encode())
        total.update(np.ascontiguousarray(tensor.reshape(-1).view(torch.uint8).numpy()).data)
    return total.hexdigest()


def same_bytes(a: Tensor, b: Tensor) -> bool:
    """Equal bit for bit: unlike ==, it tells -0 from 0 and takes a NaN for itself."""
    return sha256({"": a}) == sha256({"": b})
