"""Codes that an attacker would try: near one that lacks the feature, where a probe of the labels sees it nonetheless.

The probe reads the pictures by LPIPS's AlexNet. A linear one on the inner map is fooled by broken pictures; the
networks that judge an erasure and attack it read other trunks, so nothing here teaches to deceive them.
"""

from collections.abc import Generator, Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor, nn

from engine import assets
from engine.core.events import Event, Progress
from engine.directions.fits import logistic_regression
from engine.directions.sight import Eye, Seen, Sight, readings

BATCH = 8
PENALTY = 0.1  # of the regression, for each number that is read
RADIUS = 1.0  # standard deviations of each coordinate of a code
STEPS, STRIDE = 3, 0.5  # of the radius, from a random start
BROKEN = 2.0  # a picture lies in [-1, 1]; beyond this it is no picture, and its gradients are a thousand times as large
PARTS = (1.0, 0.75, 0.5, 0.25)  # of the way to an attacked code, where the frozen picture may still be clear


@dataclass(frozen=True)
class Attacker:
    """A few steps towards the feature from a random start (Madry et al. 2018)."""

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
        found = codes + (torch.rand(codes.shape, generator=random).to(codes) - 0.5) * radius
        for _ in range(STEPS):
            with torch.enable_grad():
                found.requires_grad_(True)
                (slope,) = torch.autograd.grad(self.sees(self.eye.pictures(student, found)[1]).sum(), found)
            step = found.detach() + STRIDE * radius * slope.sign() - codes
            found = codes + torch.maximum(torch.minimum(step, radius), -radius)
        return found

    def lessons(
        self, base: nn.Module, student: nn.Module, kept: Seen, sights: Sequence[Sight], random: torch.Generator, at: int
    ) -> Generator[Event, bool | None, Seen]:
        """Where the student is weak: codes near kept ones, and what must be seen of them."""
        parts = []
        for some in torch.arange(len(kept.codes), device=kept.codes.device).split(BATCH):
            near = kept.of(some)
            parts.append(self.goals(base, near, self.moved(student, near.codes, random), sights))
            if (yield Progress(at, self.eye.total, note="looking where an attacker would")):
                break
        return Seen.join(parts)

    def goals(self, base: nn.Module, kept: Seen, moved: Tensor, sights: Sequence[Sight]) -> Seen:
        """For each moved code the frozen picture of the furthest point on the way to it that is clear of the feature:
        asked for what the code shows otherwise, the student has less to give up than if nothing were to change.
        Codes at which the frozen picture itself breaks are left out: nobody would take it for the feature."""
        everyone = torch.arange(len(moved), device=moved.device)
        goals, left, whole = kept.of(everyone), everyone, None
        for part in PARTS:
            seen = self.eye.look(base, torch.lerp(kept.codes[left], moved[left], part))
            whole = seen.pictures.abs().amax((1, 2, 3)) < BROKEN if whole is None else whole
            clear = torch.stack([sight.is_clear(seen.looks) for sight in sights]).all(0)
            for mine, new in zip(goals.parts, seen.parts, strict=True):
                mine[left[clear]] = new[clear]
            left = left[~clear]
            if not len(left):
                break
        return replace(goals, codes=moved).of(whole)
