"""Says of a face picture whether it shows glasses, a smile, a hat ...: the judges of feature erasure. Ours.

Two networks on the same frozen EfficientNet-lite0, trained on disjoint halves of the data and reading other layers of
it: `judge` measures, `second` may label for a benchmark or drive an attack. A third, `witness`, reads VGG: what fools
the one that an attack climbs fools the other reader of the same trunk, too, so the witness counts what attacks bring
back. Judge and witness err differently, so where no attack is made they judge together (`together`). None of them ever
takes part in training an unlearned model.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Literal

import torch
from safetensors import safe_open
from torch import Tensor, nn
from torch.nn import functional as F

from engine import losses
from engine.core.errors import MissingAsset
from engine.features import TAPS, Features, backbone

FILE = Path(__file__).resolve().parents[1] / "checkpoints" / "ours" / "attributes.safetensors"
NAMES = (
    "glasses",
    "smile",
    "hat",
    "bangs",
    "beard",
    "male",
    "young",
    "black hair",
    "blond hair",
    "brown hair",
    "gray hair",
)
Drop = Callable[[Tensor, float], Tensor]
Which = Literal["judge", "second", "witness"]
SIDE = 128  # px; pictures of other sizes are resized
POOLED = 1280
HIDDEN = 96
WHICH = ("judge", "second")
WITNESS = "witness"
JUDGES = (WHICH[0], WITNESS)
# For each of the trunk's maps, how many cells a side are read; the networks look at other things.
CELLS: Mapping[str, tuple[int, ...]] = {"judge": (0, 0, 8, 4), "second": (0, 4, 4, 0), WITNESS: (0, 0, 6, 4, 4)}
VGG_TAPS = (64, 128, 256, 512, 512)  # channels of the maps that LPIPS compares


def see(images: Tensor, which: str = WHICH[0]) -> Features:
    """What the trunk of a network says of pictures in [-1, 1] of any size."""
    if images.shape[-1] != SIDE:
        images = F.interpolate(images, size=(SIDE, SIDE), mode="bilinear", align_corners=False, antialias=True)
    images = images.clamp(-1, 1)
    if which == WITNESS:
        return Features(losses.lpips("vgg", images.device).features(images), images.new_zeros(len(images), 0))
    return backbone(images.device)(images)


def describe(seen: Features, which: str) -> Tensor:
    """What a network reads of it, [n, width]: the maps in cells, and the last layer."""
    maps = zip(seen.maps, CELLS[which], strict=True)
    parts = [F.adaptive_avg_pool2d(x, cells).flatten(1) for x, cells in maps if cells]
    return torch.cat([*parts, seen.pooled], 1)


def width(which: str) -> int:
    pooled, taps = (0, VGG_TAPS) if which == WITNESS else (POOLED, TAPS)
    return pooled + sum(channels * cells**2 for channels, cells in zip(taps, CELLS[which], strict=True))


class AttributeNet(nn.Module):
    """Standardised descriptions through one hidden layer to a logit for each of NAMES; 0 is the boundary."""

    def __init__(self, which: str) -> None:
        super().__init__()
        self.which, self.names = which, NAMES
        self.register_buffer("mean", torch.zeros(width(which)))
        self.register_buffer("std", torch.ones(width(which)))
        self.hidden = nn.Linear(width(which), HIDDEN)
        self.out = nn.Linear(HIDDEN, len(NAMES))

    def forward(self, described: Tensor, drop: Drop = lambda x, _: x) -> Tensor:
        """`drop` leaves out a share of the values while training."""
        x = drop(((described - self.mean) / self.std).clamp(-6, 6), 0.3)
        return self.out(drop(F.relu(self.hidden(x)), 0.5))

    def logits(self, images: Tensor) -> Tensor:
        """[n, len(NAMES)] of pictures in [-1, 1]; differentiable, so that an attack can climb it."""
        return self(describe(see(images, self.which), self.which))

    def sees(self, images: Tensor) -> Tensor:
        """[n, len(NAMES)] bool."""
        return together([self], images)


@torch.no_grad()
def together(nets: Sequence[AttributeNet], images: Tensor, batch: int = 16) -> Tensor:
    """[n, len(NAMES)] bool: what several networks see on average."""
    return torch.cat([sum(net.logits(part) for net in nets) > 0 for part in images.split(batch)])


@dataclass(frozen=True)
class Card:
    """What the file says of itself: data, licence, held-out balanced accuracy by network, set and attribute."""

    facts: Mapping[str, Any]

    def accuracy(self, which: str, name: str) -> float:
        return self.facts["balanced accuracy"][which]["faces"][name]


@cache
def attribute_net(
    which: Literal["judge", "second", "witness"] = "judge", device: torch.device | str = "cpu"
) -> AttributeNet:
    """The shipped network, frozen. Its trunk is an asset; without that the first picture says what to fetch."""
    if not FILE.exists():
        raise MissingAsset(f"{FILE.name} is not here; 'python -m engine.train.attributes' makes it from its data")
    model = AttributeNet(which)
    with safe_open(FILE, framework="pt") as file:
        names = [name for name in file.keys() if name.startswith(f"{which}.")]  # noqa: SIM118 (not a dict)
        model.load_state_dict({name.removeprefix(f"{which}."): file.get_tensor(name).float() for name in names})
    return model.eval().requires_grad_(False).to(device)


def card() -> Card:
    with safe_open(FILE, framework="pt") as file:
        return Card(json.loads(file.metadata()["card"]))


def balanced_accuracy(says: Tensor, truth: Tensor) -> float:
    """Mean of the shares found right among those with and those without."""
    return ((says[truth > 0]).float().mean() + (~says[truth == 0]).float().mean()).item() / 2


def index(name: str) -> int:
    return NAMES.index(name)
