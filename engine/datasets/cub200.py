"""CUB-200-2011: photos of two hundred kinds of birds."""

from pathlib import Path

from engine.core.errors import DamagedFile
from engine.datasets import Dataset, Splits, datasets, files

SIZE = 64
PLACE = (
    "an npz with x_train, y_train, x_test, y_test; a folder train/CLASS/*.png beside test/CLASS/*.png; "
    "or the folder CUB_200_2011 with images.txt, train_test_split.txt and images"
)


def read(path: Path | None) -> Splits:
    return files.read(path, PLACE, SIZE, _published)


def _published(path: Path) -> files.Pair | None:
    """The published folder: images.txt names the files by number, train_test_split.txt says 1 for training."""
    if not (path / "images.txt").is_file():
        return None
    try:
        names = dict(line.split() for line in (path / "images.txt").read_text().splitlines())
        split = dict(line.split() for line in (path / "train_test_split.txt").read_text().splitlines())
    except (OSError, ValueError) as error:
        raise DamagedFile(f"{path.name}: its lists cannot be read ({error}); unpack the archive again") from error
    kinds = sorted({name.split("/")[0] for name in names.values()})
    classes = tuple(kind.partition(".")[2].replace("_", " ") for kind in kinds)  # "001.Black_footed_Albatross"
    parts = []
    for flag in ("1", "0"):
        members = [name for number, name in names.items() if split.get(number) == flag]
        listed = [(_inside(path / "images", name), kinds.index(name.split("/")[0])) for name in members]
        parts.append(files.load(listed, classes, SIZE))
    return tuple(parts)


def _inside(folder: Path, name: str) -> Path:
    if "\0" in name or not (folder / name).resolve().is_relative_to(folder.resolve()):
        raise DamagedFile(f"images.txt names {name[:80]!r}, which is not in its folder; unpack the archive again")
    return folder / name


datasets["cub200"] = Dataset(read, f"CUB-200-2011 birds, {SIZE} px, from your disk", size=SIZE, place=PLACE, flips=True)
