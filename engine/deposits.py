"""A deposit as one safetensors file that its owner keeps. A pruned weight costs one bit, a surviving one 32 more.

The header names the classes and the network it belongs to; the file holds no image. Reading it checks every byte.
"""

import json
import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor, nn

from engine.classifiers.stored import Stored
from engine.core.errors import DamagedFile, Mismatch
from engine.delta import Card, Delta, digest
from engine.files import save_tensors

FORMAT = 1
UNREADABLE = (SafetensorError, OSError, LookupError, TypeError, ValueError, RuntimeError, AttributeError)


@dataclass(frozen=True)
class Deposit:
    """T_r, and which network it completes."""

    delta: Delta  # role "recover": what to set in the target to get the branch that knows the classes
    architecture: str
    deep: str  # fingerprint of the frozen part behind it, which every later target shares

    @property
    def id(self) -> str:
        return self.delta.fingerprint

    @property
    def classes(self) -> tuple[str, ...]:
        return tuple(self.delta.card.knobs["classes"])

    @property
    def split(self) -> int:
        return int(self.delta.card.knobs["split"])

    def save(self, path: Path) -> None:
        packed = pack(self.delta.tensors)
        header = {
            "format": FORMAT,
            "architecture": self.architecture,
            "deep": self.deep,
            "shapes": {name: tuple(tensor.shape) for name, tensor in self.delta.tensors.items()},
            "check": digest(packed),
        }
        metadata = {"deposit": json.dumps(header), "card": json.dumps(asdict(self.delta.card), sort_keys=True)}
        save_tensors(path, packed, metadata)

    @classmethod
    def load(cls, path: Path) -> "Deposit":
        try:
            with safe_open(path, framework="pt") as file:
                metadata = file.metadata() or {}
                packed = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 (not a dict)
            header, card = json.loads(metadata["deposit"]), Card(**json.loads(metadata["card"]))
            if header["format"] != FORMAT:
                raise ValueError(f"format {header['format']}; this version reads format {FORMAT}")
            if digest(packed) != header["check"]:
                raise ValueError("its bytes were changed after it was written")
            delta = Delta(card, unpack(packed, header["shapes"]))
            deposit = cls(delta, header["architecture"], header["deep"])
            assert deposit.classes and deposit.split
        except (*UNREADABLE, AssertionError) as error:
            raise DamagedFile(f"{path.name} is not a deposit of this studio, or was damaged ({error})") from error
        return deposit

    def sizes(self) -> dict[str, int]:
        """Weights, surviving weights, and bytes as they are packed."""
        tensors = self.delta.tensors.values()
        return {
            "weights": sum(tensor.numel() for tensor in tensors),
            "nonzero": sum(int(tensor.count_nonzero()) for tensor in tensors),
            "bytes": sum(tensor.numel() * tensor.element_size() for tensor in pack(self.delta.tensors).values()),
        }


def check(target: Stored, deposit: Deposit) -> None:
    """Refuses a deposit that is not one of this network's, and says why."""
    network, words = target.network, ", ".join(deposit.classes)
    if network.architecture != deposit.architecture or not set(deposit.classes) <= set(network.classes):
        raise Mismatch(
            f"this deposit ({words}) was made for a {deposit.architecture} that knows these classes; "
            f"this network is a {network.architecture} for {', '.join(network.classes)}"
        )
    if deep_print(network, deposit.split) != deposit.deep:
        raise Mismatch(f"this deposit ({words}) belongs to another network; hand it to the one it was taken from")
    known = {removed.deposit: removed for removed in target.card.removed}
    if deposit.id not in known:
        there = "; ".join(", ".join(removed.classes) for removed in target.card.removed) or "nothing"
        raise Mismatch(f"this deposit ({words}) was not made from this network, which has deposited: {there}")


def deep_print(network: nn.Module, split: int) -> str:
    """Which exact deep part this is."""
    return digest(network.split(split)[1].state_dict())


def pack(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Tensors with zeros become a bit per entry and the other values; a tensor that would grow is left as it is."""
    packed = {}
    for name, tensor in tensors.items():
        flat = tensor.detach().cpu().contiguous().flatten()
        alive = flat != 0
        if alive.sum() * 32 + flat.numel() < flat.numel() * 32 and tensor.dtype == torch.float32:
            packed[f"{name}:pattern"] = torch.from_numpy(np.packbits(alive.numpy()))
            packed[f"{name}:values"] = flat[alive]
        else:
            packed[name] = flat
    return packed


def unpack(packed: Mapping[str, Tensor], shapes: Mapping[str, list[int]]) -> dict[str, Tensor]:
    """The tensors again, bit for bit."""
    tensors = {}
    for name, shape in shapes.items():
        if name in packed:
            tensors[name] = packed[name].reshape(shape)
            continue
        pattern, count = packed[f"{name}:pattern"].numpy(), math.prod(shape)
        if not 0 <= 8 * len(pattern) - count < 8:
            raise ValueError(f"{name} is said to have {count} weights, and is packed as {len(pattern)} bytes")
        flat, alive = torch.zeros(count), np.unpackbits(pattern, count=count)
        flat[torch.from_numpy(alive).bool()] = packed[f"{name}:values"]
        tensors[name] = flat.reshape(shape)
    return tensors
