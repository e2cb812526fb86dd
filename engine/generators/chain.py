"""Depthwise 3x3, 1x1, noise, bias and leaky ReLU, several times in a row, as one step of the backward pass.

Apart, each of them would keep its map in float32 and hand on gradients in float32. Here everything between the first
and the last is kept and computed in the number type that `rounded` asks for, in half the memory; maps are exact.
"""

from collections.abc import Sequence
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.autograd.function import once_differentiable

from engine import device as devices
from engine import products, rounded
from engine.generators.layers import SLOPE

aten = torch.ops.aten
AT_ONCE = 1 << 21  # numbers of a map: 8 MB in single precision


class Link(NamedTuple):
    depth: Tensor  # [c, 1, 3, 3]
    point: Tensor  # [n, outputs, c]
    noise: Tensor  # [places, 1], a constant
    bias: Tensor  # [outputs]


def run(x: Tensor, *links: Link) -> Tensor:
    """[n, h, w, c] to [n, h, w, outputs of the last]."""
    return _Chain.apply(x, *(part for link in links for part in link))


def _links(parts: tuple) -> list[Link]:
    return [Link(*parts[at : at + 4]) for at in range(0, len(parts), 4)]


def scaled(weight: Tensor, style: Tensor) -> Tensor:
    """Weights [outputs, c] with their inputs scaled by each sample's style [n, c], in the number type that products are
    computed in: [n, outputs, c]."""
    return _Scaled.apply(weight, style)


class _Scaled(torch.autograd.Function):
    """A sample at a time, so that what is computed in single precision stays in the cache."""

    @staticmethod
    def forward(ctx, weight, style):
        ctx.save_for_backward(weight, style)
        kind = devices.type_asked_for(weight.device)
        if kind is None:
            return weight * style[:, None]
        y = weight.new_empty(len(style), *weight.shape, dtype=kind)
        for mine, own in zip(y, style, strict=True):
            mine.copy_(weight * own)
        return y

    @staticmethod
    @once_differentiable
    def backward(ctx, grad):
        (weight, style), (for_weight, for_style) = ctx.saved_tensors, ctx.needs_input_grad
        to_weight = torch.zeros_like(weight) if for_weight else None
        to_style = torch.empty_like(style) if for_style else None
        for i, own in enumerate(style.to(weight.dtype)):
            g = grad[i].to(weight.dtype)
            if for_weight:
                to_weight.addcmul_(g, own)
            if for_style:
                to_style[i] = (g * weight).sum(0)
        return to_weight, to_style


class _Chain(torch.autograd.Function):
    """Some samples at a time, so that what one link made is still in the cache when the next reads it, and little of it
    is held at once. What the 1x1 read is made again for its gradient."""

    @staticmethod
    def forward(ctx, x, *parts):
        links, wanted = _links(parts), _links(ctx.needs_input_grad[1:])
        ctx.portions, y, kind, kept = _portions(x, links), None, None, []
        for some in ctx.portions:
            given = x[some]
            for at, link in enumerate(links):
                spread = _spread(given, link.depth)
                kind = kind or (rounded.type_for(spread) if any(ctx.needs_input_grad) else spread.dtype)
                before = kept[-1] if at else given.to(kind)
                shape, out = (*spread.shape[:2], link.point.shape[1]), None
                if at + 1 == len(links) and len(ctx.portions) > 1:
                    y = spread.new_empty(len(x), *shape[1:]) if y is None else y
                    out = y[some]
                copy = None if kind == spread.dtype else spread.new_empty(shape, dtype=kind)
                made = products.batched(link.noise, spread, link.point[some], link.bias, SLOPE, copy, out)
                given, after = (one.unflatten(1, x.shape[1:3]) for one in (made, made if copy is None else copy))
                kept += [before if wanted[at].depth or wanted[at].point else None, after]
        ctx.save_for_backward(*(w.to(kind) for link in links for w in (link.depth, link.point)), *kept)
        return given if y is None else y.unflatten(1, x.shape[1:3])

    @staticmethod
    @once_differentiable
    def backward(ctx, grad):
        wanted = _links(ctx.needs_input_grad[1:])
        count, saved = len(wanted), iter(ctx.saved_tensors)
        weights = [(next(saved), next(saved)) for _ in wanted]
        found, to_x = [Link([], [], [], []) for _ in wanted], []
        for some in ctx.portions:
            maps = [(next(saved), next(saved)) for _ in wanted]
            g = grad[some].to(weights[0][0].dtype)
            for at in reversed(range(count)):
                (depth, point), (before, after) = weights[at], maps[at]
                mine = {"grad_input": g} if at + 1 < count else {}  # what this pass made itself is written over
                g = aten.leaky_relu_backward(g, after, SLOPE, True, **mine).flatten(1, 2)
                if wanted[at].point:
                    found[at].point.append(torch.bmm(g.mT, _spread(before, depth)))
                if wanted[at].bias:
                    found[at].bias.append(g.sum((0, 1)))
                for_x, for_depth = at > 0 or ctx.needs_input_grad[0], wanted[at].depth
                if for_x or for_depth:
                    g = _first(torch.bmm(g, point[some]).unflatten(1, after.shape[1:3]))
                    x = _first(before) if for_depth else g  # of x only its shape is asked then
                    how = [1, 1], [1, 1], [1, 1], False, [0, 0], len(depth)
                    g, to_depth, _ = aten.convolution_backward(g, x, depth, None, *how, [for_x, for_depth, False])
                    found[at].depth.extend([to_depth] if for_depth else [])
                    g = _last(g) if for_x else None
            to_x.append(g)
        both = (part for each in found for part in (_sum(each.depth), _joined(each.point), None, _sum(each.bias)))
        return _joined(to_x) if ctx.needs_input_grad[0] else None, *both


def _portions(x: Tensor, links: Sequence[Link]) -> list[slice]:
    """Of the samples of a map: on a processor so many that the widest map between fits its cache, else all at once."""
    widest = max(max(link.point.shape[1:]) for link in links) * x.shape[1] * x.shape[2]
    step = max(1, AT_ONCE // widest) if x.device.type == "cpu" else len(x)
    return [slice(start, min(start + step, len(x))) for start in range(0, len(x), step)]


def _spread(x: Tensor, depth: Tensor) -> Tensor:
    """The depthwise conv: [n, h, w, c] to [n, places, c]."""
    y = F.conv2d(_first(x), depth, padding=1, groups=len(depth))
    return _last(y).reshape(len(x), -1, len(depth))


def _first(x: Tensor) -> Tensor:
    """Channels first, as convs name them; nothing moves."""
    return x.permute(0, 3, 1, 2)


def _last(x: Tensor) -> Tensor:
    return x.permute(0, 2, 3, 1)


def _joined(parts: list[Tensor]) -> Tensor | None:
    return torch.cat(parts) if len(parts) > 1 else next(iter(parts), None)


def _sum(parts: list[Tensor]) -> Tensor | None:
    """Added in single precision at least."""
    if len(parts) < 2:
        return next(iter(parts), None)
    return torch.stack(parts).sum(0, dtype=torch.promote_types(parts[0].dtype, torch.float32))
