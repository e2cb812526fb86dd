"""From real scores to on and off: the straight-through steps of the weight masks and the annealed gates of HAT."""

import math
from collections.abc import Callable, Generator, Sequence

import torch
from torch import Tensor

from engine.core.events import Event
from engine.masks.training import Fitted, Group, Work, fit, validation_accuracy

DROP = 0.005  # validation accuracy that hardening may cost before the network is tuned with hard gates


def above(scores: Tensor, threshold: float) -> Tensor:
    """1[scores > threshold] as numbers; the gradient passes straight to the scores (Piggyback, SupSup GN)."""
    hard = (scores > threshold).to(scores.dtype)
    return scores + (hard - scores).detach() if scores.requires_grad else hard


def top(scores: Tensor, share: float) -> Tensor:
    """1 for the highest share of the scores; straight-through gradient (edge-popup, WSN)."""
    hard = highest(scores, share).to(scores.dtype)
    return scores + (hard - scores).detach() if scores.requires_grad else hard


def highest(scores: Tensor, share: float) -> Tensor:
    """Which entries are among the highest share; exactly that many, ties by position."""
    flat = scores.detach().flatten()
    count = max(1, round(share * len(flat)))
    last = flat.kthvalue(len(flat) - count + 1).values
    chosen = flat > last
    chosen[(flat == last).nonzero()[: count - int(chosen.sum()), 0]] = True
    return chosen.reshape(scores.shape)


def kaiming_constant(signs: Tensor, fan_in: int) -> Tensor:
    """Weights of one size, +c or -c: signed Kaiming constant."""
    return signs * math.sqrt(2 / fan_in)


class Annealed:
    """HAT's unit gates a = sigmoid(s * e) while they are trained: s rises from 1/s_max to s_max once per cycle.

    `used` are units of earlier tasks, free of charge; `barred` units are never switched on."""

    BOUND, LIMIT = 6.0, 50.0  # of e, and of s * e in the compensation

    def __init__(
        self, work: Work, used: Sequence[Tensor], barred: Sequence[Tensor], *, s_max: float, c: float, cycle: int
    ) -> None:
        self.used, self.barred = used, barred
        self.s_max, self.c, self.cycle = s_max, c, cycle
        self.e = [torch.randn(len(u), generator=work.random(f"gate {i}")).to(u.device) for i, u in enumerate(used)]
        self.after_step(0)
        for e in self.e:
            e.requires_grad_()

    def s(self, step: int) -> float:
        low = 1 / self.s_max
        return low + (self.s_max - low) * (step % self.cycle) / max(1, self.cycle - 1)

    def soft(self, step: int) -> list[Tensor]:
        return [torch.sigmoid(self.s(step) * e) for e in self.e]

    def hard(self) -> list[Tensor]:
        """1[e > 0]; the strongest unit stays on where all would be off."""
        return [(e > 0) | ((e == e.max()) & (e.max() > -self.BOUND)) for e in (e.detach() for e in self.e)]

    def penalty(self, step: int) -> Tensor:
        """c * sum a (1 - a_before) / sum (1 - a_before): only units that no earlier task uses cost something."""
        new = [~u for u in self.used]
        cost = sum((a * n).sum() for a, n in zip(self.soft(step), new, strict=True))
        return self.c * cost / max(1, sum(int(n.sum()) for n in new))

    def on_gradient(self, step: int) -> None:
        """Undoes what annealing does to the gradient of e (section 2.5 of the paper)."""
        s = self.s(step)
        for e, barred in zip(self.e, self.barred, strict=True):
            inner = torch.cosh((s * e.detach()).clamp(-self.LIMIT, self.LIMIT)) + 1
            e.grad.mul_(self.s_max / s * inner / (torch.cosh(e.detach()) + 1))
            e.grad[barred] = 0.0

    def after_step(self, step: int) -> None:
        with torch.no_grad():
            for e, barred in zip(self.e, self.barred, strict=True):
                e.clamp_(-self.BOUND, self.BOUND)
                e[barred] = -self.BOUND

    def fit(
        self, work: Work, logits: Callable[[Tensor, Sequence[Tensor]], Tensor], group: Group, gate_lr: float, **how
    ) -> Generator[Event, bool | None, tuple[list[Tensor], Fitted]]:
        """Trains weights and gates together, hardens the gates, and tunes the weights for one more cycle where that
        costs accuracy. `logits(x, gates)` is the network. Returns the hard gates."""
        fitted = yield from fit(
            work,
            lambda x, step: logits(x, self.soft(step)),
            [group, {"params": self.e, "lr": gate_lr}],
            penalty=self.penalty,
            on_gradient=self.on_gradient,
            on_step=self.after_step,
            **how,
        )
        hard = [gate.float() for gate in self.hard()]
        steep = validation_accuracy(work, lambda x: logits(x, self.soft(self.cycle - 1)))
        if not fitted.stopped and validation_accuracy(work, lambda x: logits(x, hard)) < steep - DROP:
            how |= {"steps": self.cycle, "purpose": "harden", "note": "tuning with hard gates"}
            fitted = yield from fit(work, lambda x, _: logits(x, hard), [group], **how)
        return self.hard(), fitted
