"""Ten people who do not exist, each in many pictures: a recogniser's training set without anybody's photo.

A person is a code of the default generator; a picture of them moves it along the main components of W, each in the
style rows where it changes pose, expression, hair, light or background more than who it is. By recogniser A at 128 px
two pictures of one person have cosine 0.63, of two people 0.08.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn

from engine.core.errors import UserError
from engine.core.events import Done, Progress, Task, result
from engine.data import ImageSet
from engine.datasets import Dataset, Splits, datasets, files
from engine.files import atomic

PEOPLE = {  # seeds of adults who look unlike each other: the largest cosine between two is 0.29
    "Ada": 100,
    "Greta": 103,
    "Tom": 105,
    "Ines": 106,
    "Kenji": 111,
    "Paul": 116,
    "Maja": 120,
    "Sami": 123,
    "Lea": 101,
    "Omar": 135,
}
SIZE, PSI = 64, 0.7
COUNTS = {"train": 80, "validation": 20, "test": 40}  # pictures of each person; disjoint draws
BATCH = 20


@dataclass(frozen=True)
class Move:
    """Components `first` to `last` of W, in some style rows, by `spread` times their natural deviation."""

    rows: Sequence[int]
    first: int
    last: int
    spread: float


MOVES = (
    Move(range(3), 0, 1, 0.4),  # 4 and 8 px: pose and the shape of the head; the third component turns it
    Move(range(3), 2, 2, 0.9),
    Move(range(3), 3, 15, 0.25),
    Move(range(3, 6), 0, 7, 0.35),  # 16 px: features of the face; the later components open mouth and eyes
    Move(range(3, 6), 8, 23, 0.8),
    Move(range(6, 9), 0, 23, 0.8),  # 32 px and finer: hair, glasses, light, background
    Move(range(9, 23), 0, 23, 0.8),
)


def read(path: Path | None) -> Splits:
    """From the folder's people.npz; rendered there first if it is not there yet (some minutes)."""
    if path is None:
        raise UserError(f"the people are rendered once and kept; point at {PLACE}")
    file = cache(Path(path))
    if not file.is_file():
        result(make(Path(path)))
    arrays = files.arrays_of(file, [f"{axis}_{name}" for name in COUNTS for axis in "xy"])
    parts = {name: _image_set(arrays[f"x_{name}"], arrays[f"y_{name}"]) for name in COUNTS}
    return Splits(**parts, classes=tuple(PEOPLE))


def cache(folder: Path) -> Path:
    return folder / "people.npz"


def make(folder: Path) -> Task:
    """Renders all pictures into the folder, whole or not at all."""
    from engine.generators import bases

    generator = bases["ffhq"].load().eval().requires_grad_(False)
    total, done, arrays = len(PEOPLE) * sum(COUNTS.values()), 0, {}
    for stream, (name, count) in enumerate(COUNTS.items()):
        pictures = []
        for x in draw(generator, tuple(PEOPLE.values()), count, MOVES, stream=stream, psi=PSI, size=SIZE):
            pictures.append(x)
            done += len(x)
            if (yield Progress(done, total, note="rendering people")):
                return
        arrays[f"x_{name}"] = torch.cat(pictures).permute(0, 2, 3, 1).numpy()
        arrays[f"y_{name}"] = np.repeat(np.arange(len(PEOPLE)), count)
    with atomic(cache(folder)) as file:
        np.savez(file, **arrays)
    yield Done(cache(folder))


@torch.inference_mode()
def draw(
    generator: nn.Module, seeds: Sequence[int], count: int, moves: Sequence[Move], *, stream: int, psi: float, size: int
) -> Iterator[Tensor]:
    """uint8 batches, `count` pictures of each seed in turn; another `stream` gives other pictures of them."""
    components = main_components(generator, 1 + max(move.last for move in moves))
    for person, w in enumerate(generator.map(generator.sample_z(seeds), psi=psi)):
        random = torch.Generator().manual_seed(1000 * stream + person)
        codes = w.expand(count, -1, -1).clone()
        for move in moves:
            part = components[move.first : move.last + 1]
            steps = torch.randn(count, len(part), generator=random).to(w.device) * move.spread * psi
            codes[:, list(move.rows)] += (steps @ part)[:, None]
        for some in codes.split(BATCH):
            image = generator.synth(some, size=size)
            yield ((image.clamp(-1, 1) + 1) * 127.5).round().byte().cpu()


def main_components(generator: nn.Module, count: int) -> Tensor:
    """[count, w_dim]: directions in which codes vary most, each as long as its standard deviation. No labels needed."""
    w = generator.map(generator.sample_z(range(4000)))[:, 0]
    w = w - w.mean(0)
    values, directions = torch.linalg.eigh(w.T @ w / len(w))
    scaled = (directions * values.clamp(min=0).sqrt()).T.flip(0)[:count]
    # An eigenvector's sign is the library's choice: the largest entry is made positive.
    return scaled * scaled.gather(1, scaled.abs().argmax(1, keepdim=True)).sign()


def _image_set(x: np.ndarray, y: np.ndarray) -> ImageSet:
    images = torch.from_numpy(x).permute(0, 3, 1, 2).contiguous()
    return ImageSet(images, torch.from_numpy(y).long(), tuple(PEOPLE))


PLACE = "a folder that may hold 17 MB"
datasets["people"] = Dataset(read, "Ten people who do not exist, 64 px", size=SIZE, place=PLACE, flips=True)
