"""MobileNetV2's bottleneck on maps channels last, as one step of the backward pass: 1x1, depthwise 3x3, 1x1.

Its weights are constants here. With them out of the way only two maps are kept, which tell where ReLU6 was flat, in the
number type of the gradients that were asked for, in which they are computed, too; and 1x1 convs are products, whose
maps nobody has to turn around.
"""

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from engine import products, rounded

aten = torch.ops.aten
CEILING = 6.0


class Bottleneck(nn.Module):
    """`expand`, `depth` and `project` are convs with their norms folded in; ReLU6 follows the first two."""

    def __init__(self, expand: nn.Conv2d, depth: nn.Conv2d, project: nn.Conv2d, *, is_residual: bool) -> None:
        super().__init__()
        self.stride, self.is_residual = depth.stride[0], is_residual
        for name, conv in (("expand", expand), ("depth", depth), ("project", project)):
            weight = conv.weight if conv is depth else conv.weight.flatten(1)
            self.register_buffer(name, weight.detach().clone())
            self.register_buffer(f"{name}_bias", conv.bias.detach().clone())
        for name in ("expand", "project"):  # turned around once, since gradients ask for them so
            self.register_buffer(f"{name}_back", getattr(self, name).mT.contiguous())

    def forward(self, x: Tensor) -> Tensor:
        """[n, c, h, w] to [n, outputs, h, w], the side halved where the stride is 2."""
        return _first(_Bottleneck.apply(_last(x).contiguous(), self))


class _Bottleneck(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, by):
        wide = F.hardtanh_(_product(x, by.expand, by.expand_bias), 0.0, CEILING)
        deep = F.conv2d(_first(wide), by.depth, by.depth_bias, by.stride, 1, groups=len(by.depth))
        deep = F.hardtanh_(_last(deep), 0.0, CEILING)
        y = _product(deep, by.project, by.project_bias)
        kind = rounded.type_for(x)
        ctx.save_for_backward(wide.to(kind), deep.to(kind))
        ctx.by = by
        return y.add_(x) if by.is_residual else y

    @staticmethod
    @once_differentiable
    def backward(ctx, grad):
        wide, deep = ctx.saved_tensors
        by, kind = ctx.by, wide.dtype
        g = aten.hardtanh_backward(_product(grad.to(kind), by.project_back), deep, 0.0, CEILING)
        how = [by.stride] * 2, [1, 1], [1, 1], False, [0, 0], len(by.depth)
        if by.stride > 1:  # oneDNN takes twenty times as long for it in bfloat16
            g, wide = g.to(grad.dtype), wide.to(grad.dtype)
        depth = by.depth.to(g.dtype)
        g = aten.convolution_backward(_first(g), _first(wide), depth, None, *how, [True, False, False])[0]
        g = aten.hardtanh_backward(_last(g), wide, 0.0, CEILING)
        g = _product(g.to(kind), by.expand_back).to(grad.dtype)
        return (g.add_(grad) if by.is_residual else g), None


def _first(x: Tensor) -> Tensor:
    """Channels first, as convs name them; nothing moves."""
    return x.permute(0, 3, 1, 2)


def _last(x: Tensor) -> Tensor:
    return x.permute(0, 2, 3, 1)


def _product(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """At every place of [n, h, w, c]."""
    return products.linear(x.flatten(0, 2), weight.to(x.dtype), bias).unflatten(0, x.shape[:3])
