"""Handwritten digits, 8 px, bundled with scikit-learn: 1,797 images, ready in a second, no download."""

from pathlib import Path

import torch

from engine.data import ImageSet
from engine.datasets import Dataset, Splits, datasets, hold_out

CLASSES = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine")


def read(path: Path | None = None) -> Splits:
    """About 70 % to train, 10 % to choose, 20 % to test, every class alike."""
    from sklearn.datasets import load_digits

    bunch = load_digits()
    x = torch.from_numpy(bunch.images)[:, None] * (255 / 16)  # the set counts ink from 0 to 16
    everything = ImageSet(x.round().to(torch.uint8), torch.from_numpy(bunch.target).long(), CLASSES)
    rest, test = hold_out(everything, 0.2, seed=0)
    train, validation = hold_out(rest, 0.125, seed=1)
    return Splits(train, validation, test, CLASSES)


datasets["digits"] = Dataset(read, "Handwritten digits, 8 px, bundled", size=16)
