"""Data sets that the user has on disk: one npz, or a folder train/CLASS/*.png beside test/CLASS/*.png."""

import math
import zipfile
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import torch
from PIL import Image
from torch import Tensor

from engine.core.errors import DamagedFile, UserError
from engine.data import ImageSet
from engine.datasets import Splits, hold_out, resize

Pair = tuple[ImageSet, ImageSet]  # train, test
SUFFIXES = {".png", ".jpg", ".jpeg", ".bmp", ".webp"}
FORMATS = ("PNG", "JPEG", "BMP", "WEBP")  # a file is what it holds, and some readers start other programs
LARGEST = 2_000_000_000  # bytes of an npz in memory
MOST_PIXELS = 32_000_000
MOST_CLASSES = 10_000


def read(path: Path | None, place: str, size: int, native: Callable[[Path], Pair | None]) -> Splits:
    """Splits of an npz, of class folders, or of a folder that `native` knows. A tenth of train is validation."""
    if path is None:
        raise UserError(f"this data set does not come with the project; point at {place}")
    path = Path(path)
    if not path.exists():
        raise UserError(f"{path.name} does not exist; point at {place}")
    pair = from_npz(path) if path.is_file() else native(path) or from_folders(path, size)
    if pair is None:
        raise UserError(f"nothing readable in {path.name}; it must be {place}")
    train, test = pair
    rest, validation = hold_out(train, 0.1, seed=0)
    return Splits(rest, validation, test, train.classes)


def arrays_of(path: Path, names: Sequence[str]) -> dict[str, np.ndarray]:
    """The named arrays of an npz, and `classes` if it is there; refused when one of `names` is not."""
    try:
        with zipfile.ZipFile(path) as file:
            unpacked = sum(entry.file_size for entry in file.infolist())
        if unpacked > LARGEST:
            raise UserError(
                f"{path.name} unpacks to {unpacked / 1e9:.0f} GB; use a part of it, of at most {LARGEST / 1e9:.0f} GB"
            )
        with np.load(path, allow_pickle=False) as file:
            arrays = {name: file[name] for name in (*names, "classes") if name in file.files}
    except UserError:
        raise
    except Exception as error:  # the readers trip over a damaged file in more ways than can be listed
        raise DamagedFile(f"{path.name} is not an npz of arrays, or was cut off ({str(error)[:200]})") from error
    missing = [name for name in names if name not in arrays]
    if missing:
        raise DamagedFile(f"{path.name} lacks {', '.join(missing)}; it must hold {', '.join(names)}")
    return arrays


def from_npz(path: Path) -> Pair:
    """Arrays x_train, y_train, x_test, y_test and, if there, classes. Images are uint8, [n, h, w] or [n, h, w, c]."""
    arrays = arrays_of(path, ("x_train", "y_train", "x_test", "y_test"))
    for part in ("train", "test"):
        if arrays[f"y_{part}"].dtype.kind not in "iu" or not arrays[f"y_{part}"].size:
            raise DamagedFile(
                f"{path.name}: y_{part} holds no whole numbers; it must say each picture's class by number"
            )
    named, most = arrays.get("classes"), int(arrays["y_train"].max()) + 1
    if most > MOST_CLASSES or (named is not None and (named.ndim != 1 or len(named) > MOST_CLASSES)):
        raise DamagedFile(f"{path.name}: its classes are no list of at most {MOST_CLASSES:,}")
    classes = tuple(map(str, range(most) if named is None else named))
    train, test = (_image_set(path, arrays, part, classes) for part in ("train", "test"))
    if train.x.shape[1:] != test.x.shape[1:]:
        shapes = [tuple(part.x.shape[1:]) for part in (train, test)]
        raise DamagedFile(
            f"{path.name}: pictures to train on are {shapes[0]}, those to test on {shapes[1]}; make them alike"
        )
    return train, test


def _image_set(path: Path, arrays: dict[str, np.ndarray], part: str, classes: tuple[str, ...]) -> ImageSet:
    x, y = arrays[f"x_{part}"], arrays[f"y_{part}"].reshape(-1)
    if x.dtype != np.uint8 or x.ndim not in (3, 4) or len(x) != len(y):
        raise DamagedFile(
            f"{path.name}: x_{part} is {x.dtype} {x.shape} for {len(y)} labels; must be uint8 [n, h, w, c]"
        )
    if len(y) and (y.min() < 0 or y.max() >= len(classes)):
        raise DamagedFile(f"{path.name}: y_{part} has labels {y.min()} to {y.max()} for {len(classes)} classes")
    x = x[..., None] if x.ndim == 3 else x
    if x.shape[3] not in (1, 3) or not x.size:
        raise DamagedFile(f"{path.name}: x_{part} has the shape {x.shape}; pictures are grey or have three colours")
    return ImageSet(torch.from_numpy(x).permute(0, 3, 1, 2).contiguous(), torch.from_numpy(y.astype(np.int64)), classes)


def from_folders(path: Path, size: int) -> Pair | None:
    """train/CLASS/*.png and test/CLASS/*.png; None when the folder is not built like that."""
    if not (path / "train").is_dir() or not (path / "test").is_dir():
        return None
    classes = tuple(sorted(folder.name for folder in (path / "train").iterdir() if folder.is_dir()))
    parts = []
    for part in ("train", "test"):
        listed = [(f, label) for label, name in enumerate(classes) for f in pictures(path / part / name)]
        parts.append(load(listed, classes, size))
    return tuple(parts)


def published(path: Path, name: str, sign: str) -> tuple | None:
    """(train, test) by one of torchvision's loaders: from the folder that has `sign`, or downloaded to an empty one."""
    empty = not any(path.iterdir())
    if not empty and not (path / sign).is_dir():
        return None
    from engine.vision import published_data

    loader = published_data(name)
    try:
        return tuple(loader(str(path), train=train, download=empty) for train in (True, False))
    except Exception as error:  # no network, a cut-off archive, a wrong checksum, numbers that do not fit
        words = f"{name} could not be had ({str(error)[:200]}); download it by hand and point at its folder"
        raise UserError(words) from error


def pictures(folder: Path) -> list[Path]:
    """The images of a folder, in order."""
    return sorted(f for f in folder.glob("*") if f.suffix.lower() in SUFFIXES)


def load(listed: list[tuple[Path, int]], classes: tuple[str, ...], size: int) -> ImageSet:
    """Listed files as one set of RGB images of one side."""
    if not listed:
        raise UserError("no images found; each class needs a folder of png or jpg files under train and under test")
    x = torch.cat([resize(_pixels(file), size) for file, _ in listed])
    return ImageSet(x, torch.tensor([label for _, label in listed]), classes)


def _pixels(file: Path) -> Tensor:
    try:
        with Image.open(file, formats=FORMATS) as image:
            if math.prod(image.size) > MOST_PIXELS:
                raise ValueError(f"{image.width} x {image.height} pixels; use at most {MOST_PIXELS / 1e6:.0f} million")
            array = np.array(image.convert("RGB"))
    except Exception as error:  # Pillow's readers trip over a damaged file in more ways than can be listed
        raise DamagedFile(f"{file.name} is not an image this studio can read ({str(error)[:200]})") from error
    return torch.from_numpy(array).permute(2, 0, 1)[None]
