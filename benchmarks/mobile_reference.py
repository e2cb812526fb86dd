"""MobileStyleGAN's synthesis as its published code writes it, with the weights of ours: what we compare with.

Channels first; the style scales the map; depthwise and 1x1 conv, noise, bias and leaky ReLU are steps of their own. Two
things are spared it: demodulation, which our weights have folded in, and the wavelet package's grouped convs, for which
plain sums stand. Previews are made by our heads; the published network has none.
"""

import torch
import torch.nn.functional as F
from torch import Tensor, nn


def features(model: nn.Module, w: Tensor) -> Tensor:
    """The 32 px map; nothing behind it is made."""
    return maps(model, w, 32)


def picture(model: nn.Module, w: Tensor, size: int) -> Tensor:
    x = maps(model, w, size // 2).permute(0, 2, 3, 1).contiguous()
    return model.picture(x, w)


def maps(model: nn.Module, w: Tensor, side: int) -> Tensor:
    """The map of this side, [n, c, side, side]."""
    first = model.synthesis.first
    x = F.conv2d(first.const * scale(first.style, w[:, 0]), first.weight, padding=1)
    x = activated(first, x)
    for block, (a, b) in zip(model.synthesis.blocks, model.rows, strict=False):
        if x.shape[2] == side:
            break
        x = haar(x * scale(block.up, w[:, a]))
        x = separable(block.conv1, x, w[:, a])
        x = separable(block.conv2, x, w[:, b])
    return x


def scale(style: nn.Module, w: Tensor) -> Tensor:
    return style(w)[..., None, None]


def separable(conv: nn.Module, x: Tensor, w: Tensor) -> Tensor:
    x = F.conv2d(x * scale(conv.style, w), conv.depth, padding=1, groups=x.shape[1])
    return activated(conv, F.conv2d(x, conv.point[..., None, None]))


def activated(conv: nn.Module, x: Tensor) -> Tensor:
    x = x + conv.noise[..., 0]
    x = x + conv.bias[:, None, None]
    return F.leaky_relu(x, 0.2)


def haar(x: Tensor) -> Tensor:
    """The inverse step; bands stand in four runs of channels, as our files have them."""
    a, b, c, d = x.chunk(4, 1)
    s, t, u, v = a + b, c + d, a - b, c - d
    pixels = torch.stack([s + t, s - t, u + v, u - v], 2) / 2
    return F.pixel_shuffle(pixels.flatten(1, 2), 2)
