"""The lower bound: one network, trained on every task in turn with nothing to protect the old ones."""

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from engine.masks import references
from engine.masks.method import Begin, Learn, MaskMethod
from engine.masks.plan import Plan
from engine.masks.randomness import keyed
from engine.masks.receipts import Capabilities
from engine.masks.state import State
from engine.masks.training import Update, Work, detached, fit


@references.register("finetune")
@dataclass(frozen=True)
class FineTune(MaskMethod):
    """A task keeps only its head and its norm; the weights below go on without it."""

    title: ClassVar[str] = "Naive fine-tuning"
    capabilities: ClassVar[Capabilities] = Capabilities(
        needs_task=True, exact=False, order_free=False, trained_backbone=True, note="old tasks are overwritten"
    )

    def begin(self, plan: Plan, seed: int) -> Begin:
        yield from ()
        return {
            f"weight.{i}": torch.randn(x.shape, generator=keyed(seed, "all", f"weight {i}")) * (2 / x.fan_in) ** 0.5
            for i, x in enumerate(plan.layers)
        }

    def learn(self, work: Work) -> Learn:
        weights = {name: weight.clone().requires_grad_() for name, weight in work.state.shared.items()}
        head = work.head()
        groups = [{"params": [*weights.values(), *head.values()], "lr": self.lr}]
        fitted = yield from fit(
            work, lambda x, _: self.logits(work.plan, weights | head, x), groups, steps=self.steps, batch=self.batch
        )
        shared, private = detached(weights), detached(head)
        private |= work.statistics(shared | private, lambda *a, **k: self.logits(work.plan, *a, **k))
        return Update(shared, {work.task: private}, fitted.loss, fitted.stopped, {})

    def view(self, plan: Plan, state: State, task: int) -> dict[str, Tensor]:
        return dict(state.shared) | dict(state.tasks[task])
