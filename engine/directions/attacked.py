"""Codes that an attacker would try: near one that lacks the feature, where a probe of the labels sees it nonetheless.

The probe reads the pictures by LPIPS's AlexNet. A linear one on the inner map is fooled by broken pictures; the
networks that judge an erasure and attack it read other trunks, so nothing here teaches to deceive them.
"""

from collections.abc import Generator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from engine import assets
from engine.core.events import Event, Progress
from engine.directions.region import Canvas
from engine.directions.regression import logistic_regression
from engine.directions.sight import Eye, Seen, Sight, readings
from engine.directions.targets import Way, targets_by_sight

BATCH = 8
PENALTY = 0.1  # of the regression, for each number that is read
RADIUS = 1.0  # standard deviations of each coordinate of a code
STEPS, STRIDE = 3, 0.5  # of the radius, from a random start
BROKEN = 2.0  # a picture lies in [-1, 1]; beyond this it is no picture, and its gradients are a thousand times as large


@dataclass(frozen=True)
class Attacker:
    """A few steps towards the feature from a random start (Madry et al. 2018)."""

    eye: Eye
    weight: Tensor  # [F], of standardised readings
    mean: Tensor  # [F]
    std: Tensor  # [F]
    sigma: Tensor  # [D], of random codes
    ways: Sequence[Way]  # off the features
    regions: Tensor  # [features, s, s], where these are

    @classmethod
    def of(
        cls, eye: Eye, seen: Seen, shows: Tensor, codes: Tensor, ways: Sequence[Way], regions: Tensor
    ) -> "Attacker | None":
        """Learns the feature from pictures that show it or do not; None where AlexNet is not on this machine."""
        if not assets.is_present("lpips-alex"):
            return None
        with torch.no_grad():
            read = torch.cat([readings(part) for part in seen.pictures.split(BATCH)])
        mean, std = read.mean(0), read.std(0) + 1e-3
        weight, _ = logistic_regression((read - mean) / std, shows.to(read), PENALTY * read.shape[1])
        return cls(eye, weight, mean, std, codes.std(0), ways, regions)

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
        self,
        base: nn.Module,
        student: nn.Module,
        near: Seen,
        sights: Sequence[Sight],
        random: torch.Generator,
        at: int,
    ) -> Generator[Event, bool | None, Seen]:
        """Where the student is weak: codes near those that are clear of the feature, and what must be seen of them. If
        the frozen picture shows the feature there it is moved off it as any other sample is, else it is the lesson.
        Codes at which it breaks are left out, since nobody would take it for the feature, and so are those of which
        the probe is unsure."""
        found = []
        for some in near.codes.split(BATCH):
            found.append(self.moved(student, some, random))
            if (yield Progress(at, self.eye.total, note="looking where an attacker would")):
                break
        seen = self.eye.look(base, torch.cat(found))
        seen = seen.of(seen.pictures.abs().amax((1, 2, 3)) < BROKEN)
        shows = torch.stack([sight.flags(seen.looks) for sight in sights]).any(0)
        clear = torch.stack([sight.is_clear(seen.looks) for sight in sights]).all(0)

        def watch(codes: Tensor, note: str, onto: Canvas) -> Generator[Event, bool | None, Seen]:
            yield Progress(at, self.eye.total, note=note)
            return self.eye.look(base, codes, onto)

        erased = seen.of(shows)
        if shows.any():
            erased = yield from targets_by_sight(erased, self.ways, sights, watch, regions=self.regions)
        return Seen.join([seen.of(clear), erased])
