"""CIFAR-10: 32 px photos of ten things."""

from pathlib import Path

import numpy as np
import torch

from engine.data import ImageSet
from engine.datasets import Dataset, Splits, datasets, files

PLACE = (
    "an npz with x_train, y_train, x_test, y_test; a folder train/CLASS/*.png beside test/CLASS/*.png; "
    "the folder that holds cifar-10-batches-py; or an empty folder to download it to"
)


def read(path: Path | None) -> Splits:
    return files.read(path, PLACE, 32, _published)


def _published(path: Path) -> files.Pair | None:
    parts = files.published(path, "CIFAR10", "cifar-10-batches-py")
    return parts and tuple(_image_set(part.data, part.targets, tuple(part.classes)) for part in parts)


def _image_set(pixels: np.ndarray, labels: list[int], classes: tuple[str, ...]) -> ImageSet:
    return ImageSet(torch.from_numpy(pixels).permute(0, 3, 1, 2).contiguous(), torch.tensor(labels), classes)


datasets["cifar10"] = Dataset(read, "CIFAR-10, 32 px, from your disk", size=32, place=PLACE, flips=True)
