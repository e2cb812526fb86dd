"""Codes that an attacker would try: near one that lacks the feature, where a probe of the labels sees it nonetheless.

The probe reads the pictures by LPIPS's AlexNet. A linear one on the inner map is fooled by broken pictures; the
networks that judge an erasure and attack it read other trunks, so nothing here teaches to deceive them.
"""

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from engine import assets, losses
from engine.directions.fits import logistic_regression
from engine.directions.sight import Eye, Seen

CELLS = (0, 4, 3, 3, 3)  # a side, of each of AlexNet's five maps
BATCH = 32
PENALTY = 0.1  # of the regression, for each number that is read
RADIUS = 1.0  # standard deviations of each coordinate of a code
STRIDE = 1.25  # of the radius: from a random start, one step reaches the edge almost everywhere


@dataclass(frozen=True)
class Attacker:
    """One step towards the feature from a random start, as in fast adversarial training (Wong et al. 2020)."""

    eye: Eye
    weight: Tensor  # [F], of standardised readings
    mean: Tensor  # [F]
    std: Tensor  # [F]
    sigma: Tensor  # [D], of random codes

    @classmethod
    def of(cls, eye: Eye, seen: Seen, shows: Tensor, codes: Tensor) -> "Attacker | None":
        """Learns the feature from pictures that show it or do not; None where AlexNet is not on this machine."""
        if not assets.is_present("lpips-alex"):
            return None
        with torch.no_grad():
            read = torch.cat([readings(part) for part in seen.pictures.split(BATCH)])
        mean, std = read.mean(0), read.std(0) + 1e-3
        weight, _ = logistic_regression((read - mean) / std, shows.to(read), PENALTY * read.shape[1])
        return cls(eye, weight, mean, std, codes.std(0))

    def sees(self, pictures: Tensor) -> Tensor:
        """How much of the feature there is, up to an offset; differentiable."""
        return (readings(pictures) - self.mean) / self.std @ self.weight

    def moved(self, student: nn.Module, codes: Tensor, random: torch.Generator) -> Tensor:
        """Codes [n, D], each inside a box of its own around where it was."""
        radius = RADIUS * (1 - 0.6 * torch.rand(len(codes), 1, generator=random)).to(codes) * self.sigma
        start = codes + (torch.rand(codes.shape, generator=random).to(codes) - 0.5) * radius
        with torch.enable_grad():
            start.requires_grad_(True)
            (slope,) = torch.autograd.grad(self.sees(self.eye.pictures(student, start)[1]).sum(), start)
        step = start.detach() + STRIDE * radius * slope.sign() - codes
        return codes + torch.maximum(torch.minimum(step, radius), -radius)


def readings(pictures: Tensor) -> Tensor:
    """[n, F]"""
    maps = losses.lpips("alex", pictures.device).features(pictures.clamp(-1, 1))
    return torch.cat(
        [F.adaptive_avg_pool2d(x, cells).flatten(1) for x, cells in zip(maps, CELLS, strict=True) if cells], 1
    )
