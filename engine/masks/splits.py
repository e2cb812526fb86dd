"""Data sets cut into tasks. Labels count from 0 inside each task; its own class names stand beside them."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import torch

from engine.core.errors import UserError
from engine.core.registry import Registry
from engine.data import ImageSet
from engine.datasets import Splits, datasets
from engine.masks.plan import Plan, mlp, small_cnn
from engine.masks.randomness import keyed


@dataclass(frozen=True)
class TaskData:
    """One task: its name, its classes, three disjoint draws."""

    name: str
    classes: tuple[str, ...]
    train: ImageSet
    validation: ImageSet
    test: ImageSet


@dataclass(frozen=True)
class Split:
    """A data set as a row of tasks. The last one is there to be learned after a forgetting."""

    title: str
    dataset: str
    size: int
    cut: Callable[[Splits], tuple[TaskData, ...]]
    plan: Callable[[tuple[int, int, int]], Plan]

    def load(self, path: Path | None = None) -> tuple[TaskData, ...]:
        return self.cut(datasets[self.dataset].load(path, size=self.size))

    @property
    def place(self) -> str:
        """In words, what `path` must be; empty where none is needed."""
        return datasets[self.dataset].place


splits: Registry[Split] = Registry("split")


def pairs(data: Splits) -> tuple[TaskData, ...]:
    """Two classes a task, in order; then the first pair once more with its pixels shuffled."""
    count = len(data.classes) // 2
    if count == 0:
        raise UserError(f"{len(data.classes)} class: a split needs at least two")
    tasks = tuple(_of(data, (2 * i, 2 * i + 1)) for i in range(count))
    return (*tasks, shuffled(tasks[0], count))


def permutations(data: Splits, count: int = 6) -> tuple[TaskData, ...]:
    """All classes every time; each task after the first under its own fixed shuffle of the pixels."""
    whole = TaskData("as it is", data.classes, data.train, data.validation, data.test)
    return (whole, *(shuffled(whole, i) for i in range(1, count)))


def shuffled(task: TaskData, number: int) -> TaskData:
    """The same images with their pixels in another order, the same for all of them."""
    _, height, width = task.train.x.shape[1:]
    order = torch.randperm(height * width, generator=keyed(0, number, "pixels"))

    def move(images: ImageSet) -> ImageSet:
        return ImageSet(images.x.flatten(2)[:, :, order].reshape(images.x.shape), images.y, images.classes)

    names = tuple(f"{name}, shuffled {number}" for name in task.classes)
    return TaskData(f"{task.name}, shuffled {number}", names, move(task.train), move(task.validation), move(task.test))


def _of(data: Splits, classes: tuple[int, ...]) -> TaskData:
    """One task of these classes."""
    names = tuple(data.classes[c] for c in classes)

    def take(images: ImageSet) -> ImageSet:
        part = images.of(classes)
        local = (part.y[:, None] == torch.tensor(classes)).long().argmax(1)
        return ImageSet(part.x, local, names)

    return TaskData(" or ".join(names), names, take(data.train), take(data.validation), take(data.test))


def _narrow_cnn(image: tuple[int, int, int]) -> Plan:
    """Half the common width: minutes instead of an hour on two cores."""
    return small_cnn(image, (16, 32, 32, 64))


splits["digits"] = Split("Handwritten digits, two at a time", "digits", 8, pairs, mlp)
splits["permuted-digits"] = Split("Handwritten digits under shuffled pixels", "digits", 8, permutations, mlp)
splits["people"] = Split("Ten people, two at a time", "people", 64, pairs, _narrow_cnn)
splits["cifar10"] = Split("CIFAR-10, two classes at a time", "cifar10", 32, pairs, _narrow_cnn)
