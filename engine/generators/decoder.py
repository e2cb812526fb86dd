"""EG3D's decoder: what the planes hold at a point to its colours and its raw density.

Two small layers at very many points: a pass over their hidden numbers takes longer than their products. So points are
taken a few at a time, which find theirs in the cache, and of the hidden numbers only those after the softplus are kept,
in the number type of the gradients: their slope is 1 - exp(-y).
"""

from collections.abc import Iterator

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from engine import products, rounded
from engine.generators.layers import FullyConnected

HIDDEN = 64
POINTS = 4096  # at a time
WIDE, LOW = 1.002, 0.001  # colours reach a little beyond [0, 1], as published


class Decoder(nn.Module):
    """Plane features to colours and raw density."""

    def __init__(self, channels: int, lr_mult: float) -> None:
        super().__init__()
        first, second = (
            FullyConnected(*shape, lr_mult=lr_mult) for shape in ((channels, HIDDEN), (HIDDEN, 1 + channels))
        )
        self.net = nn.Sequential(first, nn.Softplus(), second)

    def forward(self, features: Tensor) -> tuple[Tensor, Tensor]:
        layers = [part for layer in (self.net[0], self.net[2]) for part in layer.scaled]
        colours, sigma = _Decode.apply(features.flatten(0, -2), *layers)
        return colours.unflatten(0, features.shape[:-1]), sigma.unflatten(0, features.shape[:-1])


def _parts(points: int) -> Iterator[slice]:
    return (slice(start, start + POINTS) for start in range(0, points, POINTS))


class _Decode(torch.autograd.Function):
    @staticmethod
    def forward(ctx, features, weight, bias, weight2, bias2):
        kind, points = rounded.type_for(features), len(features)
        colours, sigma = features.new_empty(points, len(weight2) - 1), features.new_empty(points)
        kept = features.new_empty(points, len(weight), dtype=kind) if any(ctx.needs_input_grad) else None
        for here in _parts(points):
            hidden = F.softplus(products.linear(features[here], weight, bias))
            if kept is not None:
                kept[here] = hidden
            seen = products.linear(hidden, weight2, bias2)
            sigma[here] = seen[:, 0]
            torch.sigmoid(seen[:, 1:], out=colours[here]).mul_(WIDE).sub_(LOW)
        ctx.save_for_backward(features, weight.to(kind), weight2.to(kind), kept, colours)
        return colours, sigma

    @staticmethod
    @once_differentiable
    def backward(ctx, to_colours, to_sigma):
        features, weight, weight2, kept, colours = ctx.saved_tensors
        want, shapes = ctx.needs_input_grad, [of.shape for of in (weight, weight[:, 0], weight2, weight2[:, 0])]
        to_features = torch.empty_like(features) if want[0] else None
        found = [features.new_zeros(shape) if one else None for shape, one in zip(shapes, want[1:], strict=True)]
        for here in _parts(len(features)):
            share = (colours[here] + LOW).div_(WIDE)
            seen = torch.cat([to_sigma[here, None], to_colours[here] * share.mul_(1 - share).mul_(WIDE)], 1)
            seen, hidden = seen.to(kept.dtype), kept[here]
            inner = (seen @ weight2).mul_(1 - torch.exp(-hidden))
            if want[0]:
                to_features[here] = inner @ weight
            slopes = (inner, features[here].to(kept.dtype)), (inner, None), (seen, hidden), (seen, None)
            for total, (grad, given) in zip(found, slopes, strict=True):
                if total is not None:
                    total.add_(grad.sum(0) if given is None else grad.mT @ given)
        return to_features, *found
