"""Fashion-MNIST: 28 px grey pictures of ten kinds of clothing."""

from pathlib import Path

from engine.data import ImageSet
from engine.datasets import Dataset, Splits, datasets, files

PLACE = (
    "an npz with x_train, y_train, x_test, y_test; a folder train/CLASS/*.png beside test/CLASS/*.png; "
    "the folder that holds FashionMNIST; or an empty folder to download it to"
)


def read(path: Path | None) -> Splits:
    return files.read(path, PLACE, 28, _published)


def _published(path: Path) -> files.Pair | None:
    parts = files.published(path, "FashionMNIST", "FashionMNIST")
    return parts and tuple(ImageSet(p.data[:, None].clone(), p.targets.long(), tuple(p.classes)) for p in parts)


datasets["fashion-mnist"] = Dataset(read, "Fashion-MNIST, 28 px, from your disk", size=28, place=PLACE, flips=True)
