"""Piggyback (Mallya, Davis, Lazebnik, ECCV 2018): a task chooses which weights of a pretrained network it uses."""

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from engine.core.knobs import knob
from engine.masks import gates, mask_methods
from engine.masks.backbone import pretrained, pretraining_knob
from engine.masks.method import Begin, Learn, MaskMethod
from engine.masks.packing import pack, unpack
from engine.masks.plan import Plan
from engine.masks.receipts import Capabilities
from engine.masks.shapes import WORDS
from engine.masks.state import State
from engine.masks.training import Update, Work, detached, fit


@mask_methods.register("piggyback")
@dataclass(frozen=True)
class Piggyback(MaskMethod):
    """w = W * 1[m > tau]. Training starts from the full backbone; only the bits of the mask are kept."""

    lr: float = knob(1e-3, "Adam learning rate of the head", min=1e-6, max=1.0)
    mask_lr: float = knob(5e-4, "Adam learning rate of the scores m", min=1e-6, max=1.0)
    tau: float = knob(5e-3, "threshold of the scores", min=0, max=1.0, advanced=True)
    start: float = knob(1e-2, "score of every weight at first", min=0, max=1.0, advanced=True)
    pretrain: int = pretraining_knob()

    title: ClassVar[str] = "Piggyback"
    pretraining: ClassVar[str] = WORDS
    capabilities: ClassVar[Capabilities] = Capabilities(
        needs_task=True, exact=True, order_free=True, trained_backbone=False, note=f"pretrained on {WORDS}"
    )

    def begin(self, plan: Plan, seed: int) -> Begin:
        shared = yield from pretrained(plan, seed, self.pretrain)
        return {name: tensor for name, tensor in shared.items() if name.startswith("weight.")}

    def learn(self, work: Work) -> Learn:
        shared, head = work.state.shared, work.head()
        scores = {name: torch.full_like(w, self.start).requires_grad_() for name, w in shared.items()}

        def logits(x: Tensor, step: int) -> Tensor:
            view = {name: shared[name] * gates.above(m, self.tau) for name, m in scores.items()}
            return self.logits(work.plan, view | head, x)

        groups = [
            {"params": list(scores.values()), "lr": self.mask_lr},
            {"params": list(head.values()), "lr": self.lr},
        ]
        fitted = yield from fit(work, logits, groups, steps=self.steps, batch=self.batch)
        private = {f"mask.{name}": pack(m > self.tau) for name, m in scores.items()} | detached(head)
        view = self._view(shared, private)
        private |= work.statistics(view, lambda *a, **k: self.logits(work.plan, *a, **k))
        return Update(shared, {work.task: private}, fitted.loss, fitted.stopped, {})

    def view(self, plan: Plan, state: State, task: int) -> dict[str, Tensor]:
        return self._view(state.shared, state.tasks[task])

    def masks(self, plan: Plan, state: State, task: int) -> dict[str, Tensor]:
        return {name: unpack(state.tasks[task][f"mask.{name}"], w.shape) for name, w in state.shared.items()}

    def _view(self, shared, private) -> dict[str, Tensor]:
        masked = {name: w * unpack(private[f"mask.{name}"], w.shape).to(w.dtype) for name, w in shared.items()}
        return masked | {name: t for name, t in private.items() if not name.startswith("mask.")}
