"""Labelled images for classifiers, one source per file. Nothing here downloads unless its loader says so."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import Tensor

from engine.core.registry import Registry, import_siblings
from engine.data import ImageSet


@dataclass(frozen=True)
class Splits:
    """Three disjoint draws of one data set. Choices are made on `validation`; `test` is for the last number."""

    train: ImageSet
    validation: ImageSet
    test: ImageSet
    classes: tuple[str, ...]

    @property
    def shape(self) -> tuple[int, int, int]:
        """Channels, height, width."""
        return tuple(self.train.x.shape[1:])


@dataclass(frozen=True)
class Dataset:
    """A source of labelled images. `place` says in words what `path` must be; it is empty where none is needed."""

    read: Callable[[Path | None], Splits]
    title: str
    size: int  # side at which `load` gives the images, unless asked otherwise
    place: str = ""
    flips: bool = False  # whether a mirrored image is of the same class

    def load(self, path: Path | None = None, *, size: int | None = None) -> Splits:
        splits, side = self.read(path), size or self.size
        parts = {name: getattr(splits, name) for name in ("train", "validation", "test")}
        return replace(splits, **{name: replace(part, x=resize(part.x, side)) for name, part in parts.items()})


datasets: Registry[Dataset] = Registry("data set")


def resize(x: Tensor, side: int) -> Tensor:
    """uint8 images at another side; the same tensor when it already has it."""
    if x.shape[-2:] == (side, side):
        return x
    shrink = side < min(x.shape[-2:])
    y = F.interpolate(x.float(), size=(side, side), mode="bilinear", align_corners=False, antialias=shrink)
    return y.round().clamp(0, 255).to(torch.uint8)


def hold_out(data: ImageSet, share: float, seed: int) -> tuple[ImageSet, ImageSet]:
    """(rest, held out), the same share of every class. One seed, one split."""
    random = torch.Generator().manual_seed(seed)
    held = torch.zeros(len(data), dtype=torch.bool)
    for label in data.y.unique():
        members = (data.y == label).nonzero()[:, 0]
        shuffled = members[torch.randperm(len(members), generator=random)]
        held[shuffled[: max(1, round(share * len(members)))]] = True
    return tuple(ImageSet(data.x[keep], data.y[keep], data.classes) for keep in (~held, held))


import_siblings(__name__, __path__)
