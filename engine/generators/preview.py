"""A small head that turns an inner map into the picture the whole network would make, at twice the map's side.

What the skipped blocks would do to colours and light depends on their styles, too much for a few pictures to teach.
So the head runs those very blocks once at the map's own side, on the low bands alone (the picture seen from afar), and
learns only what that leaves out: small corrections on the way, and the detail, from the map itself.
"""

from collections.abc import Sequence
from itertools import pairwise
from typing import TYPE_CHECKING

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from engine import rounded
from engine.generators import chain

if TYPE_CHECKING:
    from engine.generators.mobile import Separable, Style, Synthesis


def frozen(style: "Style", w: Tensor) -> Tensor:
    """A style as the network has it: gradients reach w, not the style's own weights."""
    return F.linear(w, style.weight.detach(), style.bias.detach()) * style.gain


class Tapped(torch.autograd.Function):
    """A map, and its first channels once more. Their gradients meet in place: apart, autograd would fill a map with
    zeros for the channels and add the two."""

    @staticmethod
    def forward(ctx, x, channels):
        ctx.channels = channels
        return x.view_as(x), x[..., :channels]

    @staticmethod
    @once_differentiable
    def backward(ctx, grad, low):
        grad[..., : ctx.channels] += low  # a product made it, for nobody else
        return grad, None


class Afar(nn.Module):
    """One skipped conv on a map 2^k times too small. Weights are the network's own, as constants; ours is the rest."""

    def __init__(self, inputs: int, channels: int, k: int) -> None:
        super().__init__()
        self.edge = 0.5**k  # the share of a small pixel's width from which a 3x3 kernel reaches its neighbour
        self.depth = nn.Parameter(torch.zeros(inputs, 1, 3, 3))
        self.gain = nn.Parameter(torch.ones(channels))
        self.shift = nn.Parameter(torch.zeros(channels))

    def link(self, side: int, conv: "Separable", w: Tensor) -> chain.Link:
        spread = w.new_tensor([[self.edge, 0, 0], [1 - self.edge, 1, 1 - self.edge], [0, 0, self.edge]])
        depth = self.depth + spread @ conv.depth.detach() @ spread.mT
        point = chain.scaled(conv.point.detach() * self.gain[:, None], frozen(conv.style, w))
        noise = F.avg_pool2d(conv.noise.permute(2, 0, 1), len(conv.noise) // side).flatten()[:, None]
        return chain.Link(depth, point, noise, self.shift + conv.bias.detach())


class Preview(nn.Module):
    """`channels` are those of the map and of the stages that are skipped. Map and far view give twelve linear outputs
    (the four pixels under a feature) and `hidden` more, which two 3x3 convs turn into a correction."""

    def __init__(self, channels: Sequence[int], hidden: int) -> None:
        super().__init__()
        self.skipped = len(channels) - 1
        self.afar = nn.ModuleList()
        for k, (inputs, outputs) in enumerate(pairwise(channels), start=1):
            self.afar.extend([Afar(inputs // 4, outputs, k), Afar(outputs, outputs, k)])
        both = channels[0] + channels[-1]
        self.register_buffer("mean", torch.zeros(both))
        self.register_buffer("std", torch.ones(both))
        self.point = nn.Linear(both, 12 + hidden)
        self.mix = nn.Conv2d(hidden, hidden, 3, padding=1)
        self.last = nn.Conv2d(hidden, 12, 3, padding=1)
        nn.init.zeros_(self.last.weight), nn.init.zeros_(self.last.bias)

    def view(self, x: Tensor, w: Tensor, net: "Synthesis", rows: Sequence[Sequence[int]]) -> Tensor:
        """The last map of the network as it looks from afar, ready for RGB, from the low bands of this one:
        [n, h, w, c / 4] to [n, h, w, last c]."""
        layers = iter(self.afar)
        for block, (a, b) in zip(net.blocks[-self.skipped :], rows[-1 - self.skipped : -1], strict=True):
            low, side = len(block.conv1.depth), x.shape[1]
            bands = x if x.shape[-1] == low else x[..., :low]
            x = bands * (0.5 * frozen(block.up, w[:, a])[:, None, None, :low])
            x = chain.run(
                x, next(layers).link(side, block.conv1, w[:, a]), next(layers).link(side, block.conv2, w[:, b])
            )
        return x * frozen(net.picture.style, w[:, rows[-1][0]])[:, None, None]

    def forward(self, x: Tensor, w: Tensor, net: "Synthesis", rows: Sequence[Sequence[int]]) -> Tensor:
        """[n, h, w, c] and [n, num_ws, w_dim] to [n, 3, 2h, 2w]; `rows` says which rows of w the blocks read."""
        weight = self.point.weight / self.std
        near, far = weight.split((x.shape[-1], weight.shape[1] - x.shape[-1]), dim=1)
        bias = self.point.bias - weight @ self.mean
        x, low = Tapped.apply(x, x.shape[-1] // 4)
        y = rounded.product(bias, x.reshape(1, -1, x.shape[-1]), near[None])
        y = rounded.product(y, self.view(low, w, net, rows).flatten(0, 2)[None], far[None])
        y = y.view(*x.shape[:3], -1)
        rough, hidden = (part.permute(0, 3, 1, 2) for part in y.split((12, y.shape[-1] - 12), dim=-1))
        hidden = rounded.conv2d(F.leaky_relu(hidden, 0.2), self.mix.weight, self.mix.bias)
        fine = rounded.conv2d(F.leaky_relu_(hidden, 0.2), self.last.weight, self.last.bias)
        return F.pixel_shuffle(rough + fine, 2).contiguous()
