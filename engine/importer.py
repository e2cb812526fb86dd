"""Foreign generators: published pickles, torch.save files and safetensors, read without running anything in them."""

import hashlib
import json
import math
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor

from engine.core.errors import DamagedFile, Mismatch, UserError
from engine.foreign import SECONDS
from engine.pickles import DTYPES, UnsafeFile
from engine.recognise import architecture, config_of_network, config_of_weights
from engine.storages import Place

ROOT = Path(__file__).resolve().parents[1]
HEADER = "base"  # the key of our JSON in a safetensors header
MAX_ANSWER = 1 << 25
_ERRORS = {error.__name__: error for error in (DamagedFile, UnsafeFile, UserError)}


@dataclass(frozen=True)
class Imported:
    """A generator that is not built yet."""

    architecture: str
    config: Mapping[str, object]
    tensors: Mapping[str, Tensor]
    attributes: Mapping[str, object]
    source: Path
    source_sha256: str
    kind: str  # pickle | torch | safetensors
    code: Mapping[str, str] = field(default_factory=dict)  # class to sha256 of the source that came along, unread


@dataclass(frozen=True)
class Survey:
    """What the reading process found in a pickle or torch.save file."""

    tensors: Mapping[str, Place]
    args: list
    kwargs: dict
    attributes: dict
    code: dict

    @property
    def is_network(self) -> bool:
        return bool(self.kwargs or self.args)


def read(path: Path) -> Imported:
    """Whatever the file is, by its first bytes and not by its name."""
    kind = kind_of(path)
    with naming(path):
        return _read_safetensors(path) if kind == "safetensors" else _read_foreign(path, kind)


def kind_of(path: Path) -> str:
    """pickle, torch or safetensors."""
    if not path.is_file():
        raise UserError(f"{path.name} is not there, or is not a file; choose a .pkl, .pt, .pth or .safetensors file")
    with path.open("rb") as file:
        start = file.read(16)
    if start.startswith((b"PK\3\4", b"\x80\x02\x8a")):
        return "torch"
    if start[:1] == b"\x80":
        return "pickle"
    if len(start) > 8 and start[8:9] == b"{":
        return "safetensors"
    raise DamagedFile(
        f"{path.name} does not begin like a model; choose a .pkl, .pt, .pth or .safetensors file "
        "(a web page saved under such a name begins with <)"
    )


def _read_foreign(path: Path, kind: str) -> Imported:
    found = survey(path)
    name = architecture(found.tensors)
    if found.is_network:
        config = config_of_network(name, found.args, found.kwargs, found.attributes)
    else:
        name, config = _settings(path, {key: place.shape for key, place in found.tensors.items()})
    tensors = take(path, found.tensors)
    return Imported(name, config, tensors, found.attributes, path, digest(path), kind, found.code)


def _read_safetensors(path: Path) -> Imported:
    try:
        with safe_open(path, framework="pt") as file:
            metadata = file.metadata() or {}
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 (not a dict)
            ours = json.loads(metadata.get(HEADER, "null"))
    except (SafetensorError, OSError, ValueError, RecursionError) as error:
        raise DamagedFile("is not a whole safetensors file: fetch it again") from error
    if "card" in metadata:
        raise Mismatch("is an erasure made in this studio, not a generator; apply it to its base instead")
    if ours is None:
        name, config = _settings(path, {key: tensor.shape for key, tensor in tensors.items()})
    else:
        name, config = _named_settings(ours)
    about = {key: value for key, value in (ours or {}).items() if key not in ("architecture", "config")}
    return Imported(name, config, tensors, about, path, digest(path), "safetensors")


def _settings(path: Path, shapes: Mapping) -> tuple[str, dict]:
    """Of bare weights: from the JSON beside them, or else from their shapes."""
    beside = path.with_suffix(".json")
    if not beside.is_file():
        name = architecture(shapes)
        return name, config_of_weights(name, shapes)
    try:
        return _named_settings(json.loads(beside.read_text("utf-8")))
    except (OSError, ValueError, RecursionError) as error:
        raise DamagedFile(f"has a {beside.name} beside it that cannot be read ({error}); mend or remove it") from error


def _named_settings(settings: object) -> tuple[str, dict]:
    match settings:
        case {"architecture": str(name), "config": dict(config)}:
            return name, config
    raise DamagedFile('has settings without {"architecture": …, "config": {…}}; export it again')


def survey(path: Path) -> Survey:
    """Asks a process of its own, which has few rights, what the file holds; checks every answer against the file."""
    command = [sys.executable, "-E", "-s", "-m", "engine.foreign", str(path.resolve())]
    try:
        done = subprocess.run(command, cwd=ROOT, capture_output=True, timeout=2 * SECONDS, check=False)
        answer = json.loads(done.stdout) if len(done.stdout) < MAX_ANSWER else None
    except subprocess.TimeoutExpired as error:
        raise DamagedFile(f"could not be read in {2 * SECONDS} s: it is no generator's checkpoint") from error
    except (ValueError, RecursionError) as error:  # no answer, because a limit ended the process; or a strange one
        raise DamagedFile("took more time or memory than any generator's checkpoint: fetch it again") from error
    match answer:
        case {"error": str(kind), "text": str(text)}:
            raise _ERRORS.get(kind, UserError)(text)
        case {"tensors": dict(found), "args": list(args), "kwargs": dict(kwargs), "attributes": dict(), "code": dict()}:
            places = {name: _place(entry) for name, entry in found.items()}
            check(places, path.stat().st_size)
            return Survey(places, args, kwargs, answer["attributes"], answer["code"])
    raise DamagedFile("was read, but the answer makes no sense: please report this file")


def _place(entry: object) -> Place:
    match entry:
        case [str(dtype), int(start), list(shape), list(stride)] if dtype in DTYPES:
            if len(shape) == len(stride) and all(type(n) is int and n >= 0 for n in (start, *shape, *stride)):
                return Place(dtype, start, tuple(shape), tuple(stride))
    raise DamagedFile("was read, but the answer makes no sense: please report this file")


def check(places: Mapping[str, Place], size: int) -> None:
    """No tensor reaches beyond the file, and all together take a memory of its order, even if some share numbers."""
    for name, place in places.items():
        if math.prod(place.shape) * getattr(torch, place.dtype).itemsize > reach(place):
            raise DamagedFile(f"holds a tensor {name} that repeats its numbers, which no generator's checkpoint does")
        if place.start + reach(place) > size:
            raise DamagedFile(f"ends before {name} does: the download was cut off, so fetch it again")
    if sum(map(reach, places.values())) > 2 * size:
        raise DamagedFile("holds tensors that are twice as large as the file: it is no generator's checkpoint")


def reach(place: Place) -> int:
    """How many bytes lie from the beginning of a tensor's first number to the end of its last."""
    if 0 in place.shape:
        return 0
    last = sum((size - 1) * step for size, step in zip(place.shape, place.stride, strict=True))
    return (last + 1) * getattr(torch, place.dtype).itemsize


def take(path: Path, places: Mapping[str, Place]) -> dict[str, Tensor]:
    """Copies the tensors out of the file; the rest of it is never in memory."""
    data = np.memmap(path, mode="r")
    check(places, data.size)
    return {
        name: view(np.array(data[place.start : place.start + reach(place)]), place).contiguous()
        for name, place in places.items()
    }


def view(raw: np.ndarray, place: Place) -> Tensor:
    """The bytes from a tensor's first number to its last, as that tensor."""
    dtype = getattr(torch, place.dtype)
    if not raw.size:
        return torch.empty(place.shape, dtype=dtype)
    return torch.from_numpy(raw).view(dtype).as_strided(place.shape, place.stride)


def digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


@contextmanager
def naming(path: Path) -> Iterator[None]:
    """Puts the file's name before what is said of it."""
    try:
        yield
    except UserError as error:
        raise type(error)(f"{path.name} {error}") from error
