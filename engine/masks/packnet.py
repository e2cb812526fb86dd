"""PackNet (Mallya, Lazebnik, CVPR 2018): train what is free, keep the largest of it, give the rest to later tasks."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from engine.core.errors import UserError
from engine.core.knobs import knob
from engine.masks import gates, mask_methods
from engine.masks.method import Begin, Learn
from engine.masks.owned import SEES, Canvas, OwnsWeights
from engine.masks.plan import Plan
from engine.masks.receipts import Capabilities
from engine.masks.state import State, Tensors
from engine.masks.training import Update, Work, detached, fit


@mask_methods.register("packnet")
@dataclass(frozen=True)
class PackNet(OwnsWeights):
    """A task reads every weight that was owned when it came, and its own."""

    lr: float = knob(5e-3, "Adam learning rate", min=1e-6, max=1.0)
    prune: float = knob(0.75, "share of the free weights that a task gives back after training", min=0.0, max=0.99)
    retrain: float = knob(0.5, "share of the steps spent on the survivors after pruning", min=0.0, max=0.9)

    title: ClassVar[str] = "PackNet"
    capabilities: ClassVar[Capabilities] = Capabilities(
        needs_task=True, exact=True, order_free=False, trained_backbone=True, note="later tasks read earlier weights"
    )

    def owned_shapes(self, plan: Plan) -> list[tuple[tuple[int, ...], int, float]]:
        return [(layer.shape, layer.fan_in, 2.0) for layer in plan.layers]

    def uses(self, plan: Plan, private: Tensors) -> list[Tensor]:
        device = private[SEES].device
        return [torch.ones(layer.shape, dtype=torch.bool, device=device) for layer in plan.layers]

    def begin(self, plan: Plan, seed: int) -> Begin:
        yield from ()
        return self.blank(plan)

    def learn(self, work: Work) -> Learn:
        canvas, head = Canvas(self, work), work.head()
        if not all(free.any() for free in canvas.free):
            raise UserError("every weight has an owner: forget a task with mode exclusive, or start with more pruning")
        first = max(1, round(self.steps * (1 - self.retrain)))
        groups = [{"params": [*canvas.fresh, *head.values()], "lr": self.lr}]
        kept = canvas.free

        def logits(x: Tensor, step: int) -> Tensor:
            return self.logits(work.plan, _named(canvas.weights(kept)) | head, x)

        how = {"batch": self.batch, "total": self.steps}
        fitted = yield from fit(work, logits, groups, steps=first, **how)
        kept = [self._survivors(new.detach(), free) for new, free in zip(canvas.fresh, canvas.free, strict=True)]
        if not fitted.stopped and self.steps > first:
            rest = [{**group, "lr": self.lr / 3} for group in groups]
            how |= {"purpose": "retrain", "done": first, "note": "retraining what pruning left"}
            fitted = yield from fit(work, logits, rest, steps=self.steps - first, **how)
        shared = canvas.claim(work.state.shared, kept)
        private = {SEES: canvas.sees, **detached(head)}
        view = detached(_named(canvas.weights(kept))) | detached(head)
        private |= work.statistics(view, lambda *a, **k: self.logits(work.plan, *a, **k))
        return Update(shared, {work.task: private}, fitted.loss, fitted.stopped, {})

    def view(self, plan: Plan, state: State, task: int) -> dict[str, Tensor]:
        private = {name: t for name, t in state.tasks[task].items() if not name.startswith("index.")}
        return _named(self.effective(plan, state, task)) | private

    def masks(self, plan: Plan, state: State, task: int) -> dict[str, Tensor]:
        return {name: weight != 0 for name, weight in _named(self.effective(plan, state, task)).items()}

    def _survivors(self, weight: Tensor, free: Tensor) -> Tensor:
        """The largest of the weights just trained, per layer."""
        kept = torch.zeros_like(free)
        kept[free] = gates.highest(weight[free].abs(), 1 - self.prune)
        return kept


def _named(weights: Sequence[Tensor]) -> dict[str, Tensor]:
    return {f"weight.{i}": weight for i, weight in enumerate(weights)}
