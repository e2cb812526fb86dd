"""Taking a model out of the studio: baked weights for any program, or a file that the published tools still open."""

import json
import os
import shutil
from collections.abc import Mapping
from pathlib import Path

import numpy as np
from torch import Tensor, nn

from engine.core.errors import Mismatch, UserError
from engine.delta import digest as digest_tensors
from engine.delta import fingerprint
from engine.files import atomic, save_tensors
from engine.generators import architectures
from engine.importer import HEADER, digest, kind_of, naming, reach, survey, view
from engine.storages import Place


def export_baked(model: nn.Module, path: Path, card: Mapping[str, object]) -> None:
    """One safetensors file that needs no base and no delta, and the same words as JSON beside it.

    `card` says what was done (licence, what was forgotten, how); the file can be imported again.
    """
    names = [name for name, kind in architectures.items() if kind is type(model)]
    if not names:
        raise UserError(f"a {type(model).__name__} cannot be exported; known: {', '.join(sorted(architectures))}")
    words = dict(card) | {"architecture": names[0], "config": model.config, "fingerprint": fingerprint(model)}
    save_tensors(path, model.state_dict(), {HEADER: json.dumps(words, sort_keys=True)})
    with atomic(path.with_suffix(".json")) as file:
        file.write(json.dumps(words, sort_keys=True, indent=2).encode())


def export_drop_in(model: nn.Module, original: Path, path: Path, *, sha256: str) -> None:
    """The user's own published pickle with only the numbers of G_ema replaced: every other byte stays.

    Where the file has one object for G and G_ema, both change, since they are the same bytes.
    """
    if original.resolve() == path.resolve():
        raise UserError("the export would overwrite the kept original; choose another name")
    if kind_of(original) != "pickle":
        raise UserError(f"{original.name} is no published pickle; export baked weights instead")
    if digest(original) != sha256:
        raise Mismatch(f"{original.name} changed since it was imported; import it again, then export")
    with naming(original):
        places = survey(original).tensors
    state = model.state_dict()
    _check(places, state, original.name)
    with original.open("rb") as source, atomic(path) as file:
        shutil.copyfileobj(source, file, 1 << 20)
        file.flush()
        for name, place in places.items():
            _write(file.fileno(), place, state[name])
        for name, place in places.items():  # tensors may share numbers, and then the later one has won
            if not _is_written(file.fileno(), place, state[name]):
                raise Mismatch(
                    f"{original.name} keeps {name} and another tensor as one, and now they differ; "
                    "export baked weights instead"
                )


def _check(places: Mapping[str, Place], state: Mapping[str, Tensor], name: str) -> None:
    if odd := sorted(places.keys() ^ state.keys()):
        raise Mismatch(f"this model is not of {name}: only one of them has {odd[0]}")
    for key, place in places.items():
        if place.shape != tuple(state[key].shape):
            raise Mismatch(f"this model is not of {name}: {key} has another shape")


def _raw(file: int, place: Place) -> np.ndarray:
    return np.frombuffer(bytearray(os.pread(file, reach(place), place.start)), np.uint8)


def _write(file: int, place: Place, tensor: Tensor) -> None:
    """Through the tensor's own strides, so that what lies between its numbers stays as it is."""
    raw = _raw(file, place)
    view(raw, place).copy_(tensor)
    os.pwrite(file, raw.data, place.start)


def _is_written(file: int, place: Place, tensor: Tensor) -> bool:
    there = view(_raw(file, place), place)
    return digest_tensors({"": there}) == digest_tensors({"": tensor.detach().to(there.dtype)})
