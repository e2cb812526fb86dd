"""WSN, winning subnetworks (Kang et al., ICML 2022): scores choose weights, old ones included; only new ones train."""

import math
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from engine.core.errors import UserError
from engine.core.knobs import knob
from engine.masks import gates, mask_methods
from engine.masks.method import Begin, Learn
from engine.masks.owned import SEES, Canvas, OwnsWeights
from engine.masks.packing import pack, unpack
from engine.masks.plan import Plan
from engine.masks.receipts import Capabilities
from engine.masks.state import State, Tensors
from engine.masks.training import Update, Work, detached, fit


@mask_methods.register("wsn")
@dataclass(frozen=True)
class WSN(OwnsWeights):
    """m_t = the highest share of the scores; y = f(x, W * m_t); weights that an earlier task owns stay as they are."""

    lr: float = knob(5e-3, "Adam learning rate of weights, scores and head", min=1e-6, max=1.0)
    share: float = knob(0.2, "share of the weights that a task uses", min=0.01, max=1.0)

    title: ClassVar[str] = "WSN"
    capabilities: ClassVar[Capabilities] = Capabilities(
        needs_task=True, exact=True, order_free=False, trained_backbone=True, note="later tasks reuse earlier weights"
    )

    def owned_shapes(self, plan: Plan) -> list[tuple[tuple[int, ...], int, float]]:
        return [(layer.shape, layer.fan_in, 2.0) for layer in plan.layers]

    def uses(self, plan: Plan, private: Tensors) -> list[Tensor]:
        return [unpack(private[f"mask.{i}"], layer.shape) for i, layer in enumerate(plan.layers)]

    def begin(self, plan: Plan, seed: int) -> Begin:
        yield from ()
        return self.blank(plan)

    def learn(self, work: Work) -> Learn:
        plan, canvas, head = work.plan, Canvas(self, work), work.head()
        allowed = [
            free | torch.isin(owner, canvas.sees) for free, owner in zip(canvas.free, canvas.owners, strict=True)
        ]
        if any(a.float().mean() < self.share for a in allowed):
            raise UserError("too many weights belong to forgotten tasks: forget them with mode exclusive instead")
        scores = []
        for i, layer in enumerate(plan.layers):
            draw = torch.rand(layer.shape, generator=work.random(f"scores {i}")) * 2 - 1
            scores.append((draw * math.sqrt(3 / layer.fan_in)).to(work.state.device).requires_grad_())

        def chosen() -> list[Tensor]:
            barred = [s.masked_fill(~a, -math.inf) for s, a in zip(scores, allowed, strict=True)]
            return [gates.highest(s, self.share) for s in barred]

        def logits(x: Tensor, step: int) -> Tensor:
            view = {}
            for i, (weight, s, m) in enumerate(zip(canvas.weights(), scores, chosen(), strict=True)):
                view[f"weight.{i}"] = weight * (s + (m.float() - s).detach())  # straight through to the scores
            return self.logits(plan, view | head, x)

        groups = [{"params": [*canvas.fresh, *scores, *head.values()], "lr": self.lr}]
        fitted = yield from fit(work, logits, groups, steps=self.steps, batch=self.batch)
        mask = chosen()
        private = {SEES: canvas.sees, **detached(head)} | {f"mask.{i}": pack(m) for i, m in enumerate(mask)}
        shared = canvas.claim(work.state.shared, mask)
        settled = State(shared, {**work.state.tasks, work.task: private}, work.state.overlays)
        view = self.view(plan, settled, work.task)
        private |= work.statistics(view, lambda *a, **k: self.logits(plan, *a, **k))
        return Update(shared, {work.task: private}, fitted.loss, fitted.stopped, {})

    def view(self, plan: Plan, state: State, task: int) -> dict[str, Tensor]:
        view = {f"weight.{i}": weight for i, weight in enumerate(self.effective(plan, state, task))}
        return view | {name: t for name, t in state.tasks[task].items() if name.startswith(("head.", "norm."))}

    def masks(self, plan: Plan, state: State, task: int) -> dict[str, Tensor]:
        return {f"weight.{i}": used for i, used in enumerate(self.uses(plan, state.tasks[task]))}
