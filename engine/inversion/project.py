"""From an aligned photo to a code: a short optimisation in W+, from the encoder's guess or from the average face."""

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from engine import losses
from engine.core.events import Done, Progress, Task
from engine.core.knobs import check, knob
from engine.data import LatentBatch
from engine.models import to_pixels
from engine.redirect import Latents


@dataclass(frozen=True)
class Projection:
    """Adam on the code with a linear ramp-down: LPIPS + L1 + identity by recogniser A + distance to the average."""

    steps: int = knob(80, "optimiser steps", min=1, max=2000)
    lr: float = knob(0.1, "Adam learning rate on the code", min=1e-4, max=1)
    pixel_weight: float = knob(0.3, "weight of the mean absolute pixel difference", min=0, max=10)
    identity_weight: float = knob(0.3, "weight of the face recogniser", min=0, max=10)
    prior_weight: float = knob(5e-4, "weight of the squared distance to the average, in mean radii", min=0, max=10)
    size: int = knob(128, "side of the compared pictures", min=16, max=1024)

    def __post_init__(self) -> None:
        check(self)

    def run(self, base: nn.Module, photo: Tensor, start: Tensor | None = None, origin: str = "a photo") -> Task:
        """`photo` is aligned as the generator's output is: [1, 3, size, size] in [-1, 1]. Done holds a LatentBatch."""
        mean, radius = base.w_avg, Latents.of(base).radius
        percept, recognise = losses.lpips("alex", base.w_avg.device), losses.identity
        with torch.no_grad():
            seen, vector = percept.features(photo), recognise(photo)
        w = (mean[None] if start is None else start).clone().requires_grad_(True)
        optimiser = torch.optim.Adam([w], lr=self.lr)
        rate = torch.optim.lr_scheduler.LambdaLR(optimiser, lambda step: min(1.0, 1.5 * (1 - step / self.steps)))
        for step in range(1, self.steps + 1):
            image = base.synth(w, size=self.size)
            parts = {
                "perceptual": percept.distance(percept.features(image), seen).mean(),
                "pixels": self.pixel_weight * (image - photo).abs().mean(),
                "identity": self.identity_weight * (1 - torch.cosine_similarity(recognise(image), vector)).mean(),
                "prior": self.prior_weight * ((w - mean) / radius).square().sum(2).mean() * base.w_dim**0.5,
            }
            optimiser.zero_grad()
            sum(parts.values()).backward()
            optimiser.step()
            rate.step()
            images = {"inversion": to_pixels(image)[0]} if step % 10 == 0 or step == self.steps else {}
            scalars = {name: part.item() for name, part in parts.items()}
            if (yield Progress(step, self.steps, scalars, images, note="finding the face's code")):
                break
        yield Done(LatentBatch(w.detach(), origin))
