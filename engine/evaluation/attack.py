"""The latent attack, corrected: can a code near a random one be found that shows the feature again?

    z' <- z' - η σ sign(∇ CE(1, h(g(z'))))
    z' <- z + clip(z' - z, -ε σ, ε σ)

The published listing adds the sign although it minimises, and forgets z in the projection. σ is the standard deviation
of each coordinate over random codes, so that radii mean the same in W.
"""

from collections.abc import Callable
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from engine import device as devices
from engine.core.events import Done, Progress, Task

Seer = Callable[[Tensor], Tensor]  # pictures in [-1, 1] to the feature's logit [n]; 0 is the boundary


@dataclass(frozen=True)
class Attack:
    """Projected sign descent inside a box; the best code of each start is kept."""

    steps: int = 20
    rate: float = 0.1  # η, in standard deviations
    size: int = 128
    batch: int = 8
    dtype: torch.dtype = torch.float32

    def run(
        self, model: nn.Module, seer: Seer, codes: Tensor, sigma: Tensor, radius: float, start: Tensor | None = None
    ) -> Task:
        """Done holds {"codes": best codes, "logits": what h says of them}. `start` continues a smaller radius."""
        start = codes if start is None else start
        best, logits = start.clone(), torch.full((len(codes),), -torch.inf, device=codes.device)
        parts = torch.arange(len(codes), device=codes.device).split(self.batch)
        for number, part in enumerate(parts):
            found = start[part].clone()
            for step in range(self.steps + 1):
                found.requires_grad_(True)
                with torch.enable_grad():
                    logit = seer(self._picture(model, found))
                    (slope,) = torch.autograd.grad(F.softplus(-logit).sum(), found)  # softplus(-x) = CE(1, sigmoid(x))
                found, logit = found.detach(), logit.detach()
                better = logit > logits[part]
                best[part[better]], logits[part[better]] = found[better], logit[better]
                found = codes[part] + _clipped(found - self.rate * sigma * slope.sign() - codes[part], radius * sigma)
                done = number * (self.steps + 1) + step + 1
                if (yield Progress(done, len(parts) * (self.steps + 1), note="attacking")):
                    break
        yield Done({"codes": best, "logits": logits})

    def _picture(self, model: nn.Module, codes: Tensor) -> Tensor:
        """As it would be shown: colours beyond white and black could fool h, but nobody sees them."""
        w = codes[:, None].expand(-1, model.num_ws, -1)
        size = max([side for side in model.sizes if side <= self.size], default=model.sizes[0])
        with devices.computing(codes.device, self.dtype):
            return model.synth(w, size=size).float().clamp(-1, 1)


def _clipped(step: Tensor, limit: Tensor) -> Tensor:
    return torch.maximum(torch.minimum(step, limit), -limit)
