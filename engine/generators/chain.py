"""Depthwise 3x3, 1x1, noise, bias and leaky ReLU, several times in a row, as one step of the backward pass.

Apart, each of them would keep its map in float32 and hand on gradients in float32. Here everything between the first
and the last is kept and computed in the number type that `rounded` asks for, in half the memory; maps are exact.
"""

from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.autograd.function import once_differentiable

from engine import device as devices
from engine import products, rounded
from engine.generators.layers import SLOPE

aten = torch.ops.aten


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
    @staticmethod
    def forward(ctx, x, *parts):
        n, height, width, _ = x.shape
        kind, kept = None, []
        for link, wanted in zip(_links(parts), _links(ctx.needs_input_grad[1:]), strict=True):
            spread = F.conv2d(x.permute(0, 3, 1, 2), link.depth, padding=1, groups=len(link.depth))
            spread = spread.permute(0, 2, 3, 1).reshape(n, height * width, -1)
            kind = kind or (rounded.type_for(spread) if any(ctx.needs_input_grad) else spread.dtype)
            shape = n, height * width, link.point.shape[1]
            copy = None if kind == spread.dtype else spread.new_empty(shape, dtype=kind)
            y = products.batched(link.noise, spread, link.point, link.bias, SLOPE, copy)
            before = kept[-1] if kept else x.to(kind)
            spread = spread.to(kind) if wanted.point else None  # the exact one is let go before the next is made
            x, after = (one.unflatten(1, (height, width)) for one in (y, y if copy is None else copy))
            kept += [before if wanted.depth else None, link.depth.to(kind), spread, link.point.to(kind), after]
        ctx.save_for_backward(*kept)
        return x

    @staticmethod
    @once_differentiable
    def backward(ctx, grad):
        kept, wanted = ctx.saved_tensors, _links(ctx.needs_input_grad[1:])
        found, count = [], len(wanted)
        for at in reversed(range(count)):
            before, depth, spread, point, after = kept[5 * at : 5 * at + 5]
            g = grad.to(after.dtype)
            mine = {"grad_input": g} if at + 1 < count else {}  # what this pass made itself is written over
            g = aten.leaky_relu_backward(g, after, SLOPE, True, **mine).flatten(1, 2)
            to_point = torch.bmm(g.mT, spread) if wanted[at].point else None
            to_bias = g.sum((0, 1)) if wanted[at].bias else None
            for_x, for_depth = at > 0 or ctx.needs_input_grad[0], wanted[at].depth
            to_depth = grad = None
            if for_x or for_depth:
                g = torch.bmm(g, point).unflatten(1, after.shape[1:3]).permute(0, 3, 1, 2)
                x = before.permute(0, 3, 1, 2) if for_depth else g  # of x only its shape is asked then
                how = [1, 1], [1, 1], [1, 1], False, [0, 0], len(depth)
                to_x, to_depth, _ = aten.convolution_backward(g, x, depth, None, *how, [for_x, for_depth, False])
                grad = to_x.permute(0, 2, 3, 1) if for_x else None
            found = [to_depth, to_point, None, to_bias, *found]
        return grad, *found
