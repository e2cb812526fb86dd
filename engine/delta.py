"""A model is a value: base + ordered deltas. Nothing is overwritten; withdrawing a forgetting is not applying it."""

import copy
import fnmatch
import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path

import numpy as np
import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor, nn

from engine.core.errors import DamagedFile, Mismatch
from engine.core.knobs import values
from engine.files import save_tensors

FORMAT = 1


@dataclass(frozen=True)
class Card:
    """The JSON in a delta's header: what was forgotten, how, and on exactly which weights."""

    knobs: Mapping[str, object]
    request: str  # human words, never the photo
    codes: str = ""  # fingerprint of the codes of a person that was forgotten
    weights: str = ""  # fingerprint of its own tensors; this and the next five are stamped by Studio
    base: str = ""  # fingerprint of the exact weights it was trained on
    base_name: str = ""
    method: str = ""
    on_top_of: Sequence[str] = ()  # ids of the deltas that were applied when it was trained
    gives: str = ""  # fingerprint of the weights it gives on top of these, which were measured
    role: str = "forget"  # forget | recover | task
    op: str = "add"  # add | mask | set
    reads: Sequence[str] = ()  # ids of deltas whose weights it relies on
    scalars: Mapping[str, float] = field(default_factory=dict)
    created: str = ""
    format: int = FORMAT

    @classmethod
    def draft(cls, method: object, request: str, **scalars: float) -> "Card":
        """What a method knows of its own run."""
        return cls(knobs=values(method), request=request, scalars=scalars)


@dataclass(frozen=True)
class Delta:
    """The parameters that changed, and only those."""

    card: Card
    tensors: Mapping[str, Tensor]

    @classmethod
    def between(cls, base: nn.Module, student: nn.Module, card: Card) -> "Delta":
        """What must be added to `base` to get `student`. Unchanged parameters are left out."""
        before = base.state_dict()
        changed = {
            name: (after.detach() - before[name]).cpu()
            for name, after in student.state_dict().items()
            if after.is_floating_point() and not torch.equal(after, before[name])
        }
        return cls(card, changed)

    @property
    def bytes(self) -> int:
        return sum(tensor.numel() * tensor.element_size() for tensor in self.tensors.values())

    @property
    def fingerprint(self) -> str:
        return digest(self.tensors)

    def save(self, path: Path) -> None:
        save_tensors(path, self.tensors, {"card": json.dumps(asdict(self.card), sort_keys=True)})

    @classmethod
    def load(cls, path: Path) -> "Delta":
        with _opened(path) as file:
            return cls(_card(file), {name: file.get_tensor(name) for name in file.keys()})  # noqa: SIM118 (not a dict)

    @staticmethod
    def read_card(path: Path) -> Card:
        """The header only: quick even for a large delta."""
        with _opened(path) as file:
            return _card(file)


@contextmanager
def _opened(path: Path) -> Iterator:
    try:
        with safe_open(path, framework="pt") as file:
            yield file
    except (SafetensorError, OSError, LookupError, ValueError, TypeError, AttributeError, RecursionError) as error:
        raise DamagedFile(f"{path.name} is not a delta of this studio, or was cut off ({error})") from error


def _card(file) -> Card:
    card = json.loads((file.metadata() or {})["card"])
    if card.get("format") != FORMAT:
        raise ValueError(f"format {card.get('format')}; this version reads format {FORMAT}")
    return Card(**card)


def compose(base: nn.Module, deltas: Iterable[Delta]) -> nn.Module:
    """Base plus deltas as a new model; the base is not touched."""
    model = copy.deepcopy(base)
    state = model.state_dict()
    with torch.no_grad():
        for delta in deltas:
            for name, change in delta.tensors.items():
                if name not in state or state[name].shape != change.shape:
                    raise Mismatch(
                        f"the delta for {delta.card.request!r} was made for {delta.card.base_name}: "
                        f"this model has no matching {name}"
                    )
                _apply(state[name], change.to(state[name].device), delta.card.op)
    return model


def _apply(weight: Tensor, change: Tensor, op: str) -> None:
    match op:
        case "add":
            weight.add_(change.to(weight.dtype))
        case "mask":
            weight.mul_(change.to(weight.dtype))
        case "set":
            weight.copy_(change)
        case _:
            raise DamagedFile(f"unknown delta operation {op!r}; known: add, mask, set")


def digest(tensors: Mapping[str, Tensor]) -> str:
    """sha256 over sorted names, types, shapes and bytes, first 16 hex digits."""
    total = hashlib.sha256()
    for name in sorted(tensors):
        tensor = tensors[name].detach().cpu().contiguous()
        total.update(f"{name} {tensor.dtype} {tuple(tensor.shape)};".encode())
        total.update(np.ascontiguousarray(tensor.reshape(-1).view(torch.uint8).numpy()).data)
    return total.hexdigest()[:16]


def fingerprint(model: nn.Module) -> str:
    """Which exact weights these are."""
    return digest(model.state_dict())


def editable(model: nn.Module) -> list[nn.Parameter]:
    """The parameters a method may change, by the model's own globs; freezes the rest."""
    chosen = []
    for name, parameter in model.named_parameters():
        allowed = any(fnmatch.fnmatch(name, glob) for glob in model.editable)
        parameter.requires_grad_(allowed)
        if allowed:
            chosen.append(parameter)
    return chosen
