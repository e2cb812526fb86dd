"""A yardstick that sees all tasks at once: one network, one head over all classes, answers read within the task."""

from collections.abc import Sequence

import torch

from engine.core.events import Done, Task, watch
from engine.data import ImageSet
from engine.masks.net import MaskedNet
from engine.masks.plan import Plan
from engine.masks.splits import TaskData


def joint(plan: Plan, tasks: Sequence[TaskData], seed: int, knobs: dict) -> Task:
    """Trains on all tasks together. Done's result: per task, the accuracy on its test images among its own classes."""
    net = yield from watch(MaskedNet.begin("independent", knobs, plan, seed))
    yield from watch(net.learn_task(0, merged(tasks)))
    scores, start = {}, 0
    for number, task in enumerate(tasks):
        among = slice(start, start + len(task.classes))
        right = net.logits(task.test.x, 0)[:, among].argmax(1).cpu() == task.test.y
        scores[number] = right.sum().item() / len(task.test)
        start += len(task.classes)
    yield Done(scores)


def merged(tasks: Sequence[TaskData]) -> TaskData:
    """All tasks as one, their labels one after the other."""
    classes = tuple(name for task in tasks for name in task.classes)
    parts = {}
    for part in ("train", "validation", "test"):
        images, labels, start = [], [], 0
        for task in tasks:
            chosen: ImageSet = getattr(task, part)
            images.append(chosen.x)
            labels.append(chosen.y + start)
            start += len(task.classes)
        parts[part] = ImageSet(torch.cat(images), torch.cat(labels), classes)
    return TaskData("all tasks", classes, **parts)
