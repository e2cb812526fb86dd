"""From an aligned photo to a code: a short optimisation in W+ that stays where random codes lie.

The code is searched as w = w̄ + (t + o) S, with S the spread of random codes (engine/redirect.py), t one vector for all
rows and o one for each row, and priors |t|² and |o|². Free rows would show the photo no better and end up far outside
of W, where no edit of the generator leaves a face alone: on twelve photos of six people, 50 steps from the average,
free rows gave recogniser B's likeness 0.84 (worst 0.20) at a Mahalanobis length of 52, these 0.79 (worst 0.47) at 19;
random codes have 22.6. From the encoder's guess 30 steps give 0.87 (worst 0.83, six photos).
"""

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
    """Adam with a linear ramp-down: LPIPS + L1 + identity by recogniser A + the priors."""

    steps: int = knob(50, "optimiser steps", min=1, max=2000)
    lr: float = knob(0.1, "Adam learning rate, in standard deviations of random codes", min=1e-4, max=1)
    pixel_weight: float = knob(0.3, "weight of the mean absolute pixel difference", min=0, max=10)
    identity_weight: float = knob(0.3, "weight of the face recogniser", min=0, max=10)
    prior_weight: float = knob(0.02, "weight of the distance from the average, mean square", min=0, max=10)
    row_weight: float = knob(0.02, "weight of the distance of the rows from each other, mean square", min=0, max=10)
    size: int = knob(128, "side of the compared pictures", min=16, max=1024)

    def __post_init__(self) -> None:
        check(self)

    def run(self, base: nn.Module, photo: Tensor, start: Tensor | None = None, origin: str = "a photo") -> Task:
        """`photo` is aligned as the generator's output is: [n, 3, size, size] in [-1, 1]; each is searched on its own.
        Done holds a LatentBatch."""
        latents, read = Latents.of(base), sorted({row for _, row in base.affines()}) or range(base.num_ws)
        percept = losses.lpips("alex", base.w_avg.device)
        recognise = losses.identity if self.identity_weight else lambda x: x.new_ones(len(x), 1)  # only faces have one
        with torch.no_grad():
            seen, vector = percept.features(photo), recognise(photo)
        shared = base.w_avg.new_zeros(len(photo), 1, base.w_dim)
        if start is not None:
            shared = latents.whiten(start)[:, list(read)].mean(1, keepdim=True)
        own = base.w_avg.new_zeros(len(photo), base.num_ws, base.w_dim).requires_grad_(True)
        shared.requires_grad_(True)
        optimiser = torch.optim.Adam([shared, own], lr=self.lr)
        rate = torch.optim.lr_scheduler.LambdaLR(optimiser, lambda step: min(1.0, 1.5 * (1 - step / self.steps)))
        for step in range(1, self.steps + 1):
            image = base.synth(latents.mean + (shared + own) @ latents.spread, size=self.size)
            parts = {
                "perceptual": percept.distance(percept.features(image), seen).sum(),
                "pixels": self.pixel_weight * (image - photo).abs().mean((1, 2, 3)).sum(),
                "identity": self.identity_weight * (1 - torch.cosine_similarity(recognise(image), vector)).sum(),
                "prior": self.prior_weight * shared.square().mean((1, 2)).sum()
                + self.row_weight * own[:, list(read)].square().mean((1, 2)).sum(),
            }
            optimiser.zero_grad()
            sum(parts.values()).backward()
            optimiser.step()
            rate.step()
            images = {"inversion": to_pixels(image)[0]} if step % 10 == 0 or step == self.steps else {}
            scalars = {name: part.item() / len(photo) for name, part in parts.items()}
            if (yield Progress(step, self.steps, scalars, images, note="finding the face's code")):
                break
        with torch.no_grad():
            w = latents.mean + (shared + own) @ latents.spread
        yield Done(LatentBatch(w, origin))
