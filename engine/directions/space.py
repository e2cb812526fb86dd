"""The cloud that codes are drawn from: where it lies and how it is shaped. Drawing codes costs nothing."""

from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor, nn

ENOUGH = 20_000  # codes to a survey
CHUNK = 500


@dataclass(frozen=True)
class Space:
    """Random codes with their mean and covariance. `coarse` leading coordinates are searched, the others stay."""

    codes: Tensor  # [n, D], drawn at random
    centre: Tensor  # [D]
    covariance: Tensor  # [D, D]; or [] when the cloud is a ball
    coarse: int

    @classmethod
    def of(cls, codes: Tensor, coarse: int | None = None, *, ball: bool = False) -> "Space":
        """Measured from codes; of a `ball` (a model that has only z) the covariance is known but for its scale."""
        centre = torch.zeros_like(codes[0]) if ball else codes.double().mean(0).to(codes)
        covariance = codes.square().mean() if ball else (codes - centre).T.double().cov().to(codes)
        return cls(codes, centre, covariance, coarse or codes.shape[1])

    def spread(self, direction: Tensor, power: float = 1.0) -> Tensor:
        """Sigma^power v. The way codes lean together when their score along v grows is that of power 1."""
        if not self.covariance.ndim:
            return self.covariance**power * direction
        if power == 1.0:
            return self.covariance @ direction
        sizes, axes = self._shape
        return (axes * sizes**power @ (axes.mT @ direction.double())).to(direction)

    @cached_property
    def _shape(self) -> tuple[Tensor, Tensor]:
        """The cloud's variances and their axes."""
        sizes, axes = torch.linalg.eigh(self.covariance.double())
        return sizes.clamp(min=0), axes

    def sigma(self, direction: Tensor) -> float:
        """Standard deviation of the score along a direction."""
        return (direction @ self.spread(direction)).clamp(min=0).sqrt().item()

    @property
    def scale(self) -> float:
        """Root mean square of a coordinate's standard deviation: one unit for penalties."""
        variances = self.covariance.diagonal() if self.covariance.ndim else self.covariance
        return variances.mean().sqrt().item()

    @property
    def effective_dimension(self) -> float:
        """How many equal directions would spread alike: (tr S)^2 / tr S^2. All of them, for a ball."""
        if not self.covariance.ndim:
            return float(self.coarse)
        part = self.covariance[: self.coarse, : self.coarse]
        return (part.trace() ** 2 / part.square().sum()).item()


@torch.no_grad()
def survey(model: nn.Module, *, psi: float = 1.0, n: int = ENOUGH, seed: int = 0) -> Space:
    """Draws n codes of a generator. One row of w is kept: the others of a drawn code are equal to it."""
    random = torch.Generator().manual_seed(seed)
    parts = []
    for start in range(0, n, CHUNK):
        z = torch.randn(min(CHUNK, n - start), model.z_dim, generator=random).to(model.w_avg.device)
        parts.append(model.map(z, psi=psi)[:, 0].clone())
    return Space.of(torch.cat(parts), getattr(model, "coarse", None), ball=model.latent == "z")
