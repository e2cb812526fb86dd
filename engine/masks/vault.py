"""One task's deposit as one file: a safetensors file whose header says what it is, with a seal over both."""

import base64
import hashlib
import json
import zlib
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor

from engine.core.errors import DamagedFile
from engine.files import save_tensors
from engine.masks.receipts import Bits
from engine.masks.state import Tensors, sha256

FORMAT = 1


@dataclass(frozen=True)
class VaultCard:
    """What a vault file says of itself. It names classes, never data."""

    method: str
    knobs: Mapping[str, Any]
    task: int
    name: str
    classes: tuple[str, ...]
    backbone: str  # SHA-256 of the plan and of the shared bytes before the first task
    pretraining: str
    plan: Mapping[str, Any]
    built_on: tuple[int, ...]  # tasks whose bytes this one reads
    view: str  # SHA-256 of every byte the task's answers were computed from
    reference: str  # its logits on the reference batch, raw little-endian floats in base64
    bits: Mapping[str, int]
    tensors: Mapping[str, tuple[str, tuple[int, ...]]]
    library: Mapping[str, Any] = field(default_factory=dict)  # exactness is promised on one version and machine
    created: str = ""
    format: int = FORMAT


def write(path: Path, card: VaultCard, deposit: Tensors) -> None:
    """The whole file or none."""
    text = json.dumps(asdict(card), sort_keys=True)
    save_tensors(path, deposit, {"card": text, "sha256": _seal(text, deposit)})


def read(path: Path) -> tuple[VaultCard, dict[str, Tensor]]:
    """Card and payload; a file that was cut off, changed or is something else is refused."""
    try:
        with safe_open(path, framework="pt") as file:
            metadata = file.metadata() or {}
            text, seal = metadata["card"], metadata["sha256"]
            deposit = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 (not a dict)
        card = json.loads(text)
    except (SafetensorError, OSError, KeyError, ValueError, RecursionError) as error:
        raise DamagedFile(f"{path.name} is not a vault file, or was cut off ({error}); use another copy") from error
    if not isinstance(card, dict) or card.get("format") != FORMAT:
        raise DamagedFile(f"{path.name} has another format than this version reads ({FORMAT})")
    if _seal(text, deposit) != seal:
        raise DamagedFile(f"{path.name} is damaged: its bytes do not match its seal; use another copy")
    try:
        lists = {name: tuple(card[name]) for name in ("classes", "built_on")}
        return _checked(VaultCard(**card | lists)), deposit
    except (KeyError, TypeError) as error:
        raise DamagedFile(f"{path.name} lacks what a vault file says of itself ({error}); use another copy") from error


def _checked(card: VaultCard) -> VaultCard:
    """A seal says that a file is whole, not who wrote it: what is compared later must be of its kind."""
    texts = (card.method, card.name, card.backbone, card.pretraining, card.view, card.reference, card.created)
    kinds = [(texts, str), (card.classes, str), ((card.task, *card.built_on), int)]
    kinds.append(((card.knobs, card.plan, card.bits, card.tensors, card.library), dict))
    if not all(type(value) is kind for values, kind in kinds for value in values):
        raise TypeError("a part of its card is of another kind")
    if not card.classes:
        raise TypeError("it names no class")
    return card


def _seal(text: str, deposit: Tensors) -> str:
    return hashlib.sha256((text + sha256(deposit)).encode()).hexdigest()


def outline(deposit: Tensors) -> dict[str, tuple[str, tuple[int, ...]]]:
    """Names, types and shapes for the card."""
    return {name: (str(t.dtype).removeprefix("torch."), tuple(t.shape)) for name, t in sorted(deposit.items())}


def bits(deposit: Tensors) -> Bits:
    """Size by kind, the first word of each name; the sum is the length of the payload."""
    sizes: dict[str, int] = {}
    for name, tensor in deposit.items():
        kind = name.partition(".")[0]
        sizes[kind] = sizes.get(kind, 0) + 8 * tensor.numel() * tensor.element_size()
    payload = b"".join(deposit[name].cpu().contiguous().numpy().tobytes() for name in sorted(deposit))
    return Bits(**sizes, coded=8 * len(zlib.compress(payload, 9)))


def encode(logits: Tensor) -> str:
    return base64.b64encode(logits.cpu().numpy().astype("<f4").tobytes()).decode()


def decode(text: str, rows: int) -> Tensor:
    return torch.from_numpy(np.frombuffer(base64.b64decode(text), "<f4").reshape(rows, -1).copy())
