"""A classifier as one safetensors file: weights, how to rebuild it, its data set by name, and what was taken out."""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from torch import nn

from engine.classifiers import classifiers
from engine.core.errors import DamagedFile
from engine.delta import digest
from engine.files import save_tensors

FORMAT = 1


@dataclass(frozen=True)
class Removed:
    """A deposit that was made from a network: which file, which classes."""

    deposit: str  # fingerprint of the deposit's tensors
    classes: tuple[str, ...]


@dataclass(frozen=True)
class NetworkCard:
    """What the header says of a network."""

    data: str  # name of the data set, never its images
    title: str = ""
    licence: str = ""
    removed: tuple[Removed, ...] = ()  # in order; empty for an original
    knobs: Mapping[str, object] = field(default_factory=dict)
    scalars: Mapping[str, float] = field(default_factory=dict)
    format: int = FORMAT


@dataclass(frozen=True)
class Stored:
    """A network with its card."""

    network: nn.Module
    card: NetworkCard

    @property
    def bytes(self) -> int:
        return sum(tensor.numel() * tensor.element_size() for tensor in self.network.state_dict().values())

    def save(self, path: Path) -> None:
        tensors, network = self.network.state_dict(), self.network
        header = {"architecture": network.architecture, "config": network.config, "check": digest(tensors)}
        save_tensors(path, tensors, {"network": json.dumps(header), "card": json.dumps(asdict(self.card))})

    @classmethod
    def load(cls, path: Path) -> "Stored":
        """Anything that is not such a file, was cut off or has a changed byte is refused."""
        try:
            with safe_open(path, framework="pt") as file:
                header, card = (json.loads((file.metadata() or {})[key]) for key in ("network", "card"))
                tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 (not a dict)
            network = classifiers[header["architecture"]](**header["config"])
            network.load_state_dict(tensors)
        except (SafetensorError, OSError, LookupError, TypeError, ValueError, RuntimeError) as error:
            raise DamagedFile(f"{path.name} is not a classifier of this studio, or was cut off ({error})") from error
        if digest(tensors) != header["check"]:
            raise DamagedFile(f"{path.name} was changed after it was written; take the original file")
        network = network.to(memory_format=torch.channels_last).eval().requires_grad_(False)
        return cls(network, _card(path, card))

    def without(self, network: nn.Module, removed: Removed) -> "Stored":
        """The network after one more deposit."""
        return Stored(network, replace(self.card, removed=(*self.card.removed, removed)))


def _card(path: Path, card: dict[str, Any]) -> NetworkCard:
    if card.get("format") != FORMAT:
        raise DamagedFile(f"{path.name} has format {card.get('format')}; this version reads format {FORMAT}")
    try:
        removed = tuple(Removed(entry["deposit"], tuple(entry["classes"])) for entry in card["removed"])
        return NetworkCard(**card | {"removed": removed})
    except (KeyError, TypeError) as error:
        raise DamagedFile(f"{path.name} has a card that cannot be read ({error})") from error
