"""A probe on the frozen generator's own inner map: it knows far more of a picture than the code does.

On the FFHQ base, 240 labels separate glasses with a cross-validated AUC of 0.99 on the inner map and 0.91 in W. So the
probe answers for many unlabelled samples, and the direction in W is then fitted to all of them. Where LPIPS's AlexNet
is on this machine it is read as well: of hats on fresh samples, half as many are missed.
"""

import math
from collections.abc import Generator, Sequence
from dataclasses import dataclass, replace

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from engine import assets, losses
from engine import device as devices
from engine.core.errors import Stopped
from engine.core.events import Event, Progress
from engine.directions.fits import area_under_curve, folds
from engine.directions.labelled import Labelled
from engine.directions.region import Canvas
from engine.directions.regression import logistic_regression

CELLS = 4  # the inner map is averaged to so many cells a side
INNER = 16  # px: larger maps are averaged to this side, a quarter of the memory
TRUNK_CELLS, TRUNK_SIDE = (0, 4, 3, 3, 3), 128  # of each of AlexNet's five maps, of pictures enlarged to so many px
SMALLEST = 64  # px of a picture in which AlexNet, which learnt from photos, sees anything
LAST = torch.channels_last  # AlexNet takes a quarter less time then, and half in bfloat16
BATCH = 16
MOST = 1.5  # times the labelled share
PENALTY = 0.125  # of the regression, for each number that is looked at
LEAST = 0.01  # of the mean spread: a number that hardly varies over random samples would else decide alone
MARGIN = 0.5  # standard deviations below the gate from which a sample is clearly without the feature
NEAREST = 0.1  # standard deviations below the gate: no nearer to it a sample is ever called clear
USUAL = 0.5  # standard deviations of what is usual that a sample without the feature may lie above it
TRUSTED, DISTRUST = 0.95, 10.0  # for each point of AUC below the first, the margin grows by a tenth


@dataclass(frozen=True)
class Seen:
    """Codes and what the generator makes of them."""

    codes: Tensor  # [n, D]
    looks: Tensor  # [n, F], the inner map in cells, the picture (late rows of w rule its colours alone), AlexNet
    pictures: Tensor  # [n, 3, s, s]
    maps: Tensor  # [n, c, h, w], the inner map at `INNER` px at most: late layers draw the details from it

    @property
    def parts(self) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        return self.codes, self.looks, self.pictures, self.maps

    def of(self, which: Tensor) -> "Seen":
        return Seen(*(part[which] for part in self.parts))

    @staticmethod
    def join(several: Sequence["Seen"]) -> "Seen":
        return Seen(*(torch.cat(same) for same in zip(*(seen.parts for seen in several), strict=True)))


def shrunk(features: Tensor) -> Tensor:
    """An inner map as it is kept and compared."""
    return averaged(features, min(INNER, features.shape[-1]))


def averaged(features: Tensor, side: int) -> Tensor:
    """A map of any number type averaged to so many cells a side, in single precision."""
    if features.shape[-2] % side or features.shape[-1] % side:
        return F.adaptive_avg_pool2d(features.float(), side)
    return _Averaged.apply(features, side)


class _Averaged(torch.autograd.Function):
    """A sample at a time: a whole batch in single precision would be 32 MB and more, which the C library asks of the
    system and gives back each time. Its gradient is made in the map's own number type."""

    @staticmethod
    def forward(ctx, x, side):
        ctx.like = x.shape, x.dtype
        return torch.cat([F.adaptive_avg_pool2d(one.float(), side) for one in x.split(1)])

    @staticmethod
    @once_differentiable
    def backward(ctx, grad):
        (n, c, height, width), dtype = ctx.like
        side, high, wide = grad.shape[-1], height // grad.shape[-1], width // grad.shape[-1]
        g = (grad / (high * wide)).to(dtype).permute(0, 2, 3, 1)[:, :, None, :, None]
        return g.expand(n, side, high, side, wide, c).reshape(n, height, width, c).permute(0, 3, 1, 2), None


def readings(pictures: Tensor, dtype: torch.dtype = torch.float32) -> Tensor:
    """What AlexNet makes of them in this number type, [n, F]; differentiable. Small pictures are enlarged: its first
    stride is four."""
    side = max(TRUNK_SIDE, pictures.shape[-1])
    large = F.interpolate(pictures, size=(side, side), mode="bilinear", align_corners=False)
    with devices.computing(pictures.device, dtype):
        maps = losses.lpips("alex", pictures.device).maps(large.clamp(-1, 1).contiguous(memory_format=LAST))
    pairs = zip(maps, TRUNK_CELLS, strict=True)
    read = [F.adaptive_avg_pool2d(losses.unit(x.float()), cells) for x, cells in pairs if cells]
    return torch.cat([x.flatten(1) for x in read], 1)


@dataclass(frozen=True)
class Eye:
    """Looks at a generator's pictures at one size and one precision; frozen side and student are seen alike."""

    size: int
    dtype: torch.dtype = torch.float32
    total: int = 0  # the steps of the run that is being watched
    at: int = 0  # how many of them are taken

    def pictures(self, model: nn.Module, codes: Tensor) -> tuple[Tensor, Tensor]:
        """Inner map, in the number type it was computed in, and picture of codes [n, D], which go to every row of w, or
        of w itself; with gradient."""
        w = codes[:, None].expand(-1, model.num_ws, -1) if codes.ndim == 2 else codes
        with devices.computing(codes.device, self.dtype):
            features, picture = model.render(w, size=self.size)
        return features, picture.float()

    @torch.no_grad()
    def look(self, model: nn.Module, codes: Tensor, onto: Canvas | None = None) -> Seen:
        """What is seen of codes, painted onto other pictures if there are any."""
        features, picture = self.pictures(model, codes)
        maps = shrunk(features)
        if onto:
            picture, maps = onto.painted(picture, maps)
        cells = averaged(maps, CELLS), averaged(picture, 2 * CELLS)
        looks = torch.cat([cell.flatten(1) for cell in cells], 1)
        if picture.shape[-1] >= SMALLEST and assets.is_present("lpips-alex"):
            looks = torch.cat([looks, readings(picture, self.dtype)], 1)
        return Seen(codes, looks, picture, maps.to(self.dtype))

    def watch(
        self, model: nn.Module, codes: Tensor, note: str, onto: Canvas | None = None
    ) -> Generator[Event, bool | None, Seen]:
        """`look` in small parts, with progress."""
        parts = []
        for some in torch.arange(len(codes), device=codes.device).split(BATCH):
            parts.append(self.look(model, codes[some], onto and onto.of(some)))
            done = min(len(parts) * BATCH, len(codes))
            if (yield Progress(self.at, self.total, note=f"{note}: {done} of {len(codes)}")):
                raise Stopped(f"stopped while {note}: nothing was learnt yet, so there is nothing to keep")
        return Seen.join(parts)


class Album:
    """Looks [n, F] at labelled samples in the units of random ones. All regressions on them share their products."""

    def __init__(self, looks: Tensor, random: Tensor) -> None:
        self.mean, std = random.mean(0), random.std(0)
        self.std = std + LEAST * std.mean()
        self.looks, self.random = ((some - self.mean) / self.std for some in (looks, random))
        self.products = self.looks @ self.looks.T

    def regression(self, which: Tensor, truth: Tensor) -> tuple[Tensor, float]:
        """A weight whose scores have the standard deviation 1 over random samples, and an offset; 0 is the boundary."""
        x, products = self.looks[which], self.products[which][:, which]
        weight, offset = logistic_regression(x, truth, PENALTY * x.shape[1], products)
        spread = (self.random @ weight).std().clamp(min=1e-9)
        return weight / spread, offset / spread.item()


@dataclass(frozen=True)
class Sight:
    """Tells from looks whether a picture shows a feature. Scores are in standard deviations over random samples."""

    name: str
    weight: Tensor  # [F], of standardised looks
    offset: float
    mean: Tensor  # [F]
    std: Tensor  # [F]
    gate: float  # at and above it a sample shows the feature
    clear: float  # below it a sample is clearly without
    auc: float  # cross-validated, on samples drawn at random; not a number where nothing was held out
    enough: float = 0.0  # a gate that lets through as many as were asked for
    most: float = 1.0  # of random samples, how many may be flagged
    usual: tuple[Tensor, float] | None = None  # weight and offset of what samples without it score (see `beside`)

    @classmethod
    def fit(cls, labelled: Labelled, pool: Tensor, recall: float | None) -> "Sight":
        """`labelled` holds looks in place of codes, `pool` looks of random samples."""
        everyone = torch.arange(len(labelled.codes), device=pool.device)
        return cls.learnt(labelled, everyone, Album(labelled.codes, pool), recall).over(pool)

    @classmethod
    def learnt(cls, labelled: Labelled, where: Tensor, album: Album, recall: float | None) -> "Sight":
        """From labels on the album's samples `where`. The gate lets `recall` of the held-out samples with the feature
        through, and is not above the probe's own boundary. Without `recall` nothing is held out, in a sixth of the
        time: the boundary is the gate, enough for what is only kept."""
        truth = labelled.truth
        weight, offset = album.regression(where, truth)
        common = {"name": labelled.name, "weight": weight, "offset": offset, "mean": album.mean, "std": album.std}
        if recall is None:
            return cls(**common, gate=0.0, clear=-MARGIN, auc=math.nan)
        random, drawn = labelled.random, (~labelled.chosen).nonzero()[:, 0]
        held_out = album.looks.new_zeros(len(drawn))
        for inside in folds(random):  # what was picked teaches every fold, and is never scored
            taught = torch.ones_like(labelled.chosen)
            taught[drawn[inside]] = False
            inner, level = album.regression(where[taught], truth[taught])
            held_out[inside] = album.looks[where[drawn[inside]]] @ inner + level
        enough = min(0.0, torch.quantile(held_out[random.truth > 0], 1 - recall).item())
        most = min(1.0, MOST * random.truth.float().mean().item())
        auc = area_under_curve(held_out, random.truth)
        return cls(**common, gate=enough, clear=enough - MARGIN, auc=auc, enough=enough, most=most)

    def over(self, pool: Tensor) -> "Sight":
        """The same where random samples look like these: the gate is raised where it would flag more than `MOST` times
        as many of them as were labelled, for a weak probe would change everybody. What is called clear lies further
        from the gate, the worse held-out samples were told apart, down to the median."""
        if math.isnan(self.auc):
            return self
        scores = self.scores(pool)
        gate = max(self.enough, torch.quantile(scores, 1 - self.most).item())
        far = gate - MARGIN - DISTRUST * max(0.0, TRUSTED - self.auc)
        return replace(self, gate=gate, clear=max(far, min(scores.median().item(), gate - MARGIN)))

    def beside(self, kept: Sequence["Sight"], pool: Tensor) -> "Sight":
        """The same, which knows what random samples without the feature score by what they show of attributes to keep.
        A clean-shaven man looks more like a bearded one than a woman does: if that were a doubt, he would never be
        taught to stay as he is."""
        lacking = pool[~self.flags(pool)]
        if not kept or len(lacking) <= 2 * len(kept):
            return self
        scores, seen = self.scores(lacking).double(), torch.stack([one.scores(lacking) for one in kept], 1).double()
        centre, level = seen.mean(0), scores.mean()
        share = torch.linalg.lstsq(seen - centre, (scores - level)[:, None]).solution[:, 0]
        spread = (scores - level - (seen - centre) @ share).std()
        weight = sum(part * one.weight for part, one in zip(share.to(pool), kept, strict=True))
        offsets = torch.tensor([one.offset for one in kept]).to(share)
        return replace(self, usual=(weight, (level + share @ (offsets - centre) + USUAL * spread).item()))

    def scores(self, looks: Tensor) -> Tensor:
        return self._scores(looks, self.weight, self.offset)

    def _scores(self, looks: Tensor, weight: Tensor, offset: float) -> Tensor:
        return (looks - self.mean) @ (weight / self.std) + offset

    def level(self, looks: Tensor) -> Tensor:
        """Below it a sample that looks like this is clearly without the feature."""
        if self.usual is None:
            return torch.full_like(looks[:, 0], self.clear)
        return self._scores(looks, *self.usual).clamp(self.clear, max(self.clear, self.gate - NEAREST))

    def flags(self, looks: Tensor) -> Tensor:
        return self.scores(looks) >= self.gate

    def doubt(self, looks: Tensor) -> Tensor:
        """How far a picture is from being clearly without the feature; below 0 it is."""
        return self.scores(looks) - self.clear

    def is_clear(self, looks: Tensor) -> Tensor:
        """Without the feature beyond doubt: neither flagged nor near the gate, or as far from it as is usual for what
        else is seen."""
        return self.scores(looks) < self.level(looks)
