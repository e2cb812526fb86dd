"""MobileStyleGAN: StyleGAN2's mapping, then depthwise-separable blocks that double the side by an inverse Haar step.

Everything inside is channels last, [n, h, w, c]: depthwise convs are several times as fast there on a CPU, and a
1x1 conv is one matrix product into whose weights the style is folded, so no pass over the map is spent on it.
Channels before a Haar step stand in four runs (ll, lh, hl, hh), so that the step is additions of whole runs.
"""

import math
from collections.abc import Iterator, Sequence
from functools import partial
from itertools import pairwise

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from engine.generators import architectures, chain, unfolded
from engine.generators.base import LatentGenerator
from engine.generators.haar import double
from engine.generators.preview import Preview

FFHQ = (512, 512, 512, 512, 512, 256, 128, 64)  # channels at 4, 8, ..., 512 px


class Style(nn.Linear):
    """An affine map of w whose result multiplies channels; `gain` is StyleGAN's 1/sqrt(fan in)."""

    def __init__(self, w_dim: int, channels: int, gain: float = 1.0) -> None:
        super().__init__(w_dim, channels)
        self.gain = gain
        nn.init.normal_(self.weight, std=w_dim**-0.5)
        nn.init.ones_(self.bias)

    def forward(self, w: Tensor) -> Tensor:
        return super().forward(w) * self.gain


class Noisy(nn.Module):
    """What every conv adds to its product: its bias and the stored noise."""

    def __init__(self, channels: int, side: int) -> None:
        super().__init__()
        self.bias = nn.Parameter(torch.zeros(channels))
        self.register_buffer("noise", torch.zeros(side, side, 1))

    @property
    def offset(self) -> Tensor:
        """[places, channels]: given to a matrix product as what it adds to, it costs no pass over the map."""
        return self.noise.flatten(0, 1) + self.bias


class First(Noisy):
    """The learnt constant and the one dense modulated 3x3 conv, at 4 px."""

    def __init__(self, channels: int, w_dim: int) -> None:
        super().__init__(channels, 4)
        self.const = nn.Parameter(torch.randn(channels, 4, 4))
        self.style = Style(w_dim, channels, (channels * 9) ** -0.5)
        self.weight = nn.Parameter(torch.randn(channels, channels, 3, 3))

    def forward(self, w: Tensor) -> Tensor:
        x = self.const * self.style(w)[..., None, None]
        conv = unfolded.conv3x3 if unfolded.suits(x, self.weight) else partial(F.conv2d, padding=1)
        x = conv(x, self.weight).flatten(2).mT + self.offset
        return F.leaky_relu_(x, 0.2).unflatten(1, (4, 4))  # [n, 4, 4, c]


class Separable(Noisy):
    """A link of a chain: style, depthwise 3x3, 1x1. The style scales the 1x1's inputs, which is the same as scaling the
    depthwise's."""

    def __init__(self, inputs: int, channels: int, side: int, w_dim: int) -> None:
        super().__init__(channels, side)
        self.style = Style(w_dim, inputs, (inputs * 9) ** -0.5)
        self.depth = nn.Parameter(torch.randn(inputs, 1, 3, 3) / 3)
        self.point = nn.Parameter(torch.randn(channels, inputs) * 4)  # makes up for the gain and the ReLU

    def link(self, w: Tensor) -> chain.Link:
        return chain.Link(self.depth, chain.scaled(self.point, self.style(w)), self.noise.flatten(0, 1), self.bias)


class Block(nn.Module):
    """Doubles the side, then two separable convs."""

    def __init__(self, inputs: int, channels: int, side: int, w_dim: int) -> None:
        super().__init__()
        self.up = Style(w_dim, inputs)
        self.conv1 = Separable(inputs // 4, channels, side, w_dim)
        self.conv2 = Separable(channels, channels, side, w_dim)

    def forward(self, x: Tensor, w_a: Tensor, w_b: Tensor) -> Tensor:
        x = double(x * (0.5 * self.up(w_a))[:, None, None])
        return chain.run(x, self.conv1.link(w_a), self.conv2.link(w_b))


class Picture(nn.Module):
    """The modulated 1x1 conv to RGB; the four pixels under a feature come straight from the matrix product."""

    def __init__(self, channels: int, w_dim: int) -> None:
        super().__init__()
        self.style = Style(w_dim, channels, channels**-0.5)
        self.weight = nn.Parameter(torch.randn(12, channels) / 4)
        self.bias = nn.Parameter(torch.zeros(12))

    def forward(self, x: Tensor, w: Tensor) -> Tensor:
        weight = self.weight * self.style(w)[:, None]  # [n, 12, c]
        pixels = torch.baddbmm(self.bias[:, None], weight, x.flatten(1, 2).mT)
        return F.pixel_shuffle(pixels.unflatten(2, x.shape[1:3]), 2)


class Synthesis(nn.Module):
    def __init__(self, channels: Sequence[int], w_dim: int) -> None:
        super().__init__()
        self.first = First(channels[0], w_dim)
        steps = enumerate(pairwise(channels))
        self.blocks = nn.ModuleList(Block(a, b, 8 << i, w_dim) for i, (a, b) in steps)
        self.picture = Picture(channels[-1], w_dim)


@architectures.register("mobile")
class Mobile(LatentGenerator):
    """Three style rows to a block (the third unused, as published), so the FFHQ network has 23; `previews` are
    the sides of small heads that stop early: the unlearning loops and live pages never run the last blocks."""

    editable = ("synthesis.first.*", "synthesis.blocks.[0-3].*")
    deciding_rows = 12  # of the same stages, up to 32 px
    together = 3

    def __init__(
        self,
        channels: Sequence[int] = FFHQ,
        w_dim: int = 512,
        depth: int = 8,
        previews: Sequence[int] = (64, 128, 256),
        hidden: Sequence[int] = (64, 64, 48),
    ) -> None:
        super().__init__()
        self.config = {
            "channels": tuple(channels),
            "w_dim": w_dim,
            "depth": depth,
            "previews": tuple(previews),
            "hidden": tuple(hidden),
        }
        self.z_dim = self.w_dim = w_dim
        self.num_ws = 3 * len(channels) - 1
        self.size = 4 << len(channels)
        self.sizes = (*previews, self.size)
        self.mapping = nn.ModuleList(nn.Linear(w_dim, w_dim) for _ in range(depth))
        self.synthesis = Synthesis(channels, w_dim)
        self.heads = nn.ModuleDict()
        for side, width in zip(previews, hidden, strict=True):
            stage = int(math.log2(side)) - 3  # the map with half the side
            self.heads[str(side)] = Preview(channels[stage:], width)
        self.register_buffer("w_avg", torch.zeros(self.num_ws, w_dim))

    @property
    def rows(self) -> list[tuple[int, ...]]:
        """The style rows read after stage i: by block i, or by the picture after the last."""
        blocks = len(self.config["channels"]) - 1
        return [(3 * i + 1, 3 * i + 2) for i in range(blocks)] + [(3 * blocks,)]

    def affines(self) -> list[tuple[nn.Module, int]]:
        """The layers that read w, each with its row. The previews read it through the same ones."""
        layers = [(self.synthesis.first.style, 0), (self.synthesis.picture.style, self.rows[-1][0])]
        for block, (a, b) in zip(self.synthesis.blocks, self.rows, strict=False):
            layers += [(block.up, a), (block.conv1.style, a), (block.conv2.style, b)]
        return layers

    def map(self, z: Tensor, *, psi: float = 1.0) -> Tensor:
        x = z * torch.rsqrt(z.square().mean(1, keepdim=True) + 1e-8)
        for layer in self.mapping:
            x = F.leaky_relu(layer(x), 0.2) * math.sqrt(2)
        return self.truncate(x[:, None].expand(-1, self.num_ws, -1), psi)

    def maps(self, w: Tensor) -> Iterator[Tensor]:
        """The map after each stage, [n, side, side, c] with side 4, 8, ...; what is not asked for is not made."""
        x = self.synthesis.first(w[:, 0])
        yield x
        for block, (a, b) in zip(self.synthesis.blocks, self.rows, strict=False):
            x = block(x, w[:, a], w[:, b])
            yield x

    def render(self, w: Tensor, *, size: int | None = None, yaw: float = 0.0) -> tuple[Tensor, Tensor]:
        """The features are the 32 px map, where identity has been decided, or the last one of a smaller picture."""
        size = self.pick_size(size)
        for x in self.maps(w):
            if x.shape[1] <= 32:
                features = x
            if 2 * x.shape[1] == size:
                break
        return features.permute(0, 3, 1, 2), self.picture(x, w)

    def picture(self, x: Tensor, w: Tensor) -> Tensor:
        """The picture of twice the side of this map: the network's own after the last stage, else a preview."""
        side = 2 * x.shape[1]
        if side == self.size:
            return self.synthesis.picture(x, w[:, self.rows[-1][0]])
        return self.heads[str(side)](x, w, self.synthesis, self.rows)
