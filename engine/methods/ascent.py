"""The naive baseline that every real method must beat: climb away from what the model shows now."""

import copy
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor, nn

from engine.core.events import Done, Progress, Snapshot, Task
from engine.core.knobs import check, knob
from engine.core.protocols import Generator
from engine.data import Request
from engine.delta import Card, Delta, editable
from engine.methods import methods
from engine.models import to_pixels
from engine.resume import capture, resume


@methods.register("ascent")
@dataclass(frozen=True)
class Ascent:
    """Gradient ascent on the dissimilarity to the base's own pictures of the forgotten codes. Nothing is protected."""

    accepts: ClassVar[type] = Generator
    title: ClassVar[str] = "Naive baseline: push away from the pictures"

    steps: int = knob(40, "optimiser steps", min=1, max=20_000)
    lr: float = knob(1e-3, "Adam learning rate", min=1e-6, max=1e-1)
    batch: int = knob(4, "forgotten samples per step", min=1, max=64)
    snapshot_every: int = knob(10, "steps between two snapshots", min=1, max=1000, advanced=True)
    seed: int = knob(0, "seed of every random draw", min=0)

    def __post_init__(self) -> None:
        check(self)

    def run(self, base: nn.Module, request: Request, snapshot: Mapping[str, Tensor] | None = None) -> Task:
        student, size = copy.deepcopy(base), base.sizes[0]
        optimiser = torch.optim.Adam(editable(student), lr=self.lr, fused=True)
        random = torch.Generator().manual_seed(self.seed)
        start = resume(snapshot, student, optimiser, random) if snapshot else 0
        w, alike = request.forget.w, torch.ones(())
        with torch.no_grad():
            shown = base.synth(w, size=size)
        for step in range(start + 1, self.steps + 1):
            chosen = torch.randint(len(w), (min(self.batch, len(w)),), generator=random).to(w.device)
            alike = similarity(student.synth(w[chosen], size=size), shown[chosen]).mean()
            optimiser.zero_grad()
            alike.backward()
            optimiser.step()
            if step % self.snapshot_every == 0 and step < self.steps:
                yield Snapshot(step, capture(student, optimiser, random, step))
            images = _pair(student, shown, w, size) if step == 1 or step % 10 == 0 else {}
            if (yield Progress(step, self.steps, {"similarity left": alike.item()}, images)):
                break
        card = Card.draft(self, request.label, similarity_left=alike.item())
        yield Done((Delta.between(base, student, card),))


def similarity(a: Tensor, b: Tensor) -> Tensor:
    """Cosine of two batches of pictures, each centred on its own mean: 1 for equal pictures."""
    a, b = (x.flatten(1) - x.flatten(1).mean(1, keepdim=True) for x in (a, b))
    return torch.cosine_similarity(a, b)


@torch.no_grad()
def _pair(student: nn.Module, shown: Tensor, w: Tensor, size: int) -> dict:
    return {"before": to_pixels(shown[:1])[0], "after": to_pixels(student.synth(w[:1], size=size))[0]}
