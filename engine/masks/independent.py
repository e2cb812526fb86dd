"""The upper bound, in accuracy and in bits: a whole network for every task."""

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from engine.masks import references
from engine.masks.method import Begin, Learn, MaskMethod
from engine.masks.plan import Plan
from engine.masks.receipts import Capabilities
from engine.masks.state import State
from engine.masks.training import Update, Work, detached, fit


@references.register("independent")
@dataclass(frozen=True)
class Independent(MaskMethod):
    """Nothing is shared, so everything holds and everything costs."""

    title: ClassVar[str] = "Independent networks"
    capabilities: ClassVar[Capabilities] = Capabilities(
        needs_task=True, exact=True, order_free=True, trained_backbone=False, note="a full copy per task"
    )

    def begin(self, plan: Plan, seed: int) -> Begin:
        yield from ()
        return {"nothing": torch.empty(0)}

    def learn(self, work: Work) -> Learn:
        weights = {
            f"weight.{i}": work.kaiming(layer.shape, layer.fan_in, f"weight {i}").requires_grad_()
            for i, layer in enumerate(work.plan.layers)
        }
        network = weights | work.head()
        groups = [{"params": list(network.values()), "lr": self.lr}]
        fitted = yield from fit(
            work, lambda x, _: self.logits(work.plan, network, x), groups, steps=self.steps, batch=self.batch
        )
        own = detached(network)
        own |= work.statistics(own, lambda *a, **k: self.logits(work.plan, *a, **k))
        private = {name.replace("weight.", "weights.") if name in weights else name: t for name, t in own.items()}
        return Update(work.state.shared, {work.task: private}, fitted.loss, fitted.stopped, {})

    def view(self, plan: Plan, state: State, task: int) -> dict[str, Tensor]:
        own = state.tasks[task]
        return {name.replace("weights.", "weight."): tensor for name, tensor in own.items()}
