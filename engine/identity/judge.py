"""Is it still the same person? Recogniser B answers, which no loss ever used, on a scale made for one generator.

B's raw cosine is high even between strangers, so vectors are centred by the mean over many random faces of the base
first: strangers then average about 0, and the same face in the same pose is 1. Every figure stands beside what
strangers get, and beside what A (the recogniser of the losses) says.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from safetensors.torch import load_file
from torch import Tensor, nn

from engine.faces.recogniser_a import recogniser_a
from engine.faces.recogniser_b import centred_similarity, recogniser_b
from engine.files import save_tensors
from engine.identity.targets import draw

BATCH = 8


@dataclass(frozen=True)
class Scale:
    """B's mean over random faces of one base, the similarities of random strangers, sorted, and, where photos were at
    hand, those of two photos of one person."""

    mean: Tensor  # [128]
    strangers: Tensor  # [n]
    same: Tensor | None = None  # [m]

    def quantile(self, share: float) -> float:
        return self.strangers.quantile(share).item()

    @classmethod
    @torch.no_grad()
    def of(cls, base: nn.Module, faces: int = 2000, seed: int = 0, size: int = 128) -> "Scale":
        """Each face is compared with the next: as many independent pairs of strangers as faces."""
        codes = draw(base, faces, torch.Generator().manual_seed(seed))
        judge = recogniser_b(base.w_avg.device)
        vectors = torch.cat([judge.of_ffhq(base.synth(part, size=size)) for part in codes.split(BATCH)])
        mean = vectors.mean(0)
        return cls(mean.cpu(), centred_similarity(vectors, vectors.roll(1, 0), mean).sort().values.cpu())

    @property
    def same_person(self) -> tuple[float, float] | None:
        """The range of two photos of one person: the 10th and the 90th percentile."""
        return None if self.same is None else tuple(self.same.quantile(torch.tensor([0.1, 0.9])).tolist())

    def save(self, path: Path) -> None:
        tensors = {"mean": self.mean, "strangers": self.strangers} | ({} if self.same is None else {"same": self.same})
        save_tensors(path, tensors, {"what": "recogniser B's scale"})

    @classmethod
    def load(cls, path: Path) -> "Scale":
        return cls(**load_file(path))


def scale_of(base: nn.Module) -> Scale:
    """The shipped scale of a base that has one, else one made now from fewer faces."""
    if base.identity_scale is not None and base.identity_scale.exists():
        return Scale.load(base.identity_scale)
    return Scale.of(base, faces=200, size=min(base.sizes, key=lambda size: abs(size - 128)))


@dataclass(frozen=True)
class Likeness:
    """How alike pairs of pictures are, pair by pair."""

    b: Tensor  # centred similarity by B
    a: Tensor  # cosine by A


class Judge:
    """Compares pictures [n, 3, h, h] in [-1, 1], aligned as FFHQ is."""

    def __init__(self, scale: Scale) -> None:
        self.scale = scale

    @torch.no_grad()
    def vectors(self, images: Tensor) -> tuple[Tensor, Tensor]:
        parts = images.split(BATCH)
        b = torch.cat([recogniser_b(images.device).of_ffhq(part) for part in parts]).cpu()
        return b, torch.cat([recogniser_a(images.device).of_ffhq(part) for part in parts]).cpu()

    def compare(self, first: Tensor, second: Tensor) -> Likeness:
        """Pair by pair; one picture on either side is compared with all of the other."""
        (b1, a1), (b2, a2) = self.vectors(first), self.vectors(second)
        return Likeness(centred_similarity(b1, b2, self.scale.mean), (a1 * a2).sum(-1))


def interval(values: Tensor | Sequence[float], seed: int = 0, draws: int = 2000) -> tuple[float, float, float]:
    """Mean with its bootstrap 95 % interval."""
    values = torch.as_tensor(values, dtype=torch.float64)
    picks = torch.randint(len(values), (draws, len(values)), generator=torch.Generator().manual_seed(seed))
    means = values[picks].mean(1)
    return values.mean().item(), means.quantile(0.025).item(), means.quantile(0.975).item()
