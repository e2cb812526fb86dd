"""A backbone trained on drawn shapes before the first task, for the methods that need one and never change it."""

from collections import OrderedDict
from collections.abc import Generator

import torch
from torch import Tensor

from engine.core.events import Event
from engine.core.knobs import knob
from engine.datasets import hold_out
from engine.masks import plan as plans
from engine.masks.method import Begin
from engine.masks.plan import Plan
from engine.masks.shapes import CLASSES, shapes
from engine.masks.splits import TaskData
from engine.masks.state import State
from engine.masks.training import Work, detached, fit

IMAGES, BATCH, LR = 4000, 64, 2e-3
_ready: OrderedDict[tuple[Plan, int, int], dict[str, Tensor]] = OrderedDict()  # the same key, the same bytes
_MOST = 8


def pretraining_knob() -> int:
    return knob(600, "batches of drawn shapes that the backbone is trained on first", min=1, max=20000, advanced=True)


def pretrained(plan: Plan, seed: int, steps: int) -> Begin:
    """`weight.i` and, for a normed plan, the `norm.i` it was left with. Yields progress; the same bytes every time."""
    key = (plan, seed, steps)
    if key not in _ready:
        made, stopped = yield from _train(*key)
        if stopped:  # not the bytes that this key stands for
            return made
        _ready[key] = made
        while len(_ready) > _MOST:
            _ready.popitem(last=False)
    return dict(_ready[key])


def _train(plan: Plan, seed: int, steps: int) -> Generator[Event, bool | None, tuple[dict[str, Tensor], bool]]:
    """The network, and whether it was stopped before its end."""
    train, validation = hold_out(shapes(plan.image, IMAGES, seed), 0.1, seed=0)
    data = TaskData("shapes", CLASSES, train, validation, validation)
    work = Work(plan, State({"": torch.empty(0)}), "pretraining", data, seed)
    weights = {
        f"weight.{i}": work.kaiming(layer.shape, layer.fan_in, f"weight {i}").requires_grad_()
        for i, layer in enumerate(plan.layers)
    }
    head = work.head()

    def logits(view, x: Tensor, seen: list[Tensor] | None = None) -> Tensor:
        return plans.head(view, plans.run(plan, view, x, seen=seen))

    groups = [{"params": [*weights.values(), *head.values()], "lr": LR}]
    network = weights | head
    note = "training the backbone on drawn shapes"
    fitted = yield from fit(work, lambda x, _: logits(network, x), groups, steps=steps, batch=BATCH, note=note)
    return detached(weights) | work.statistics(network, logits), fitted.stopped
