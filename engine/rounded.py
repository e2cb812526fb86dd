"""Gradients in a quick number type behind a forward pass that stays exact.

What a network shows, and so every loss, is that of float32. Only the way downhill is rounded, each product to one part
in 256; yet two thirds of a training step are its backward pass.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.autograd.function import once_differentiable

from engine import products

aten = torch.ops.aten
_asked: ContextVar[torch.dtype | None] = ContextVar("the number type of gradients", default=None)


@contextmanager
def gradients(dtype: torch.dtype) -> Iterator[None]:
    """A block whose products have gradients in this number type, whenever the backward pass comes."""
    token = _asked.set(dtype)
    try:
        yield
    finally:
        _asked.reset(token)


def type_for(x: Tensor) -> torch.dtype:
    """In which gradients of a product that gives `x` are to be computed: its own unless another was asked for."""
    return _asked.get() or x.dtype


def product(offset: Tensor, x: Tensor, weight: Tensor) -> Tensor:
    """offset + x weightᵀ of x [n, places, inputs] and weights [n, outputs, inputs] of each sample's own."""
    return _Product.apply(offset, x, weight)


class _Product(torch.autograd.Function):
    @staticmethod
    def forward(ctx, offset, x, weight):
        y = products.batched(offset, x, weight)
        kind = type_for(y)
        ctx.save_for_backward(x.to(kind) if ctx.needs_input_grad[2] else None, weight.to(kind))
        ctx.types, ctx.shape = (offset.dtype, x.dtype, weight.dtype), offset.shape
        return y

    @staticmethod
    @once_differentiable
    def backward(ctx, grad):
        x, weight = ctx.saved_tensors
        g, (for_offset, for_x, for_weight) = grad.to(weight.dtype), ctx.needs_input_grad
        found = (
            grad.sum_to_size(ctx.shape) if for_offset else None,
            products.cast(g, weight, ctx.types[1]) if for_x else None,
            torch.bmm(g.mT, x) if for_weight else None,
        )
        return tuple(None if one is None else one.to(kind) for one, kind in zip(found, ctx.types, strict=True))


def conv2d(x: Tensor, weight: Tensor, bias: Tensor | None = None, *, groups: int = 1) -> Tensor:
    """As torch's, at stride 1 and padded so that the side stays."""
    pad = weight.shape[-1] // 2
    return _Conv.apply(x, weight, bias, ([1, 1], [pad, pad], [1, 1], False, [0, 0], groups))


def doubling_conv2d(x: Tensor, weight: Tensor) -> Tensor:
    """The transposed conv of stride 2, unpadded, with weights [inputs, outputs, k, k]."""
    return _Conv.apply(x, weight, None, ([2, 2], [0, 0], [1, 1], True, [0, 0], 1))


class _Conv(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, weight, bias, how):
        stride, pad, _, transposed, _, groups = how
        conv = F.conv_transpose2d if transposed else F.conv2d  # which autocast knows, unlike what they call
        y = conv(x, weight, bias, stride=stride, padding=pad, groups=groups)
        ctx.save_for_backward(x if ctx.needs_input_grad[1] else None, weight)
        ctx.kind, ctx.how, ctx.like, ctx.order = type_for(y), how, (x.shape, x.dtype), _order(y)
        return y

    @staticmethod
    @once_differentiable
    def backward(ctx, grad):
        x, weight = ctx.saved_tensors
        *wanted, _ = ctx.needs_input_grad
        shape, dtype = ctx.like
        grad = grad.to(ctx.kind, memory_format=ctx.order)
        if x is None:  # only its shape is asked then
            x = torch.empty(shape, dtype=ctx.kind, device=grad.device, memory_format=ctx.order)
        biases = [grad.shape[1]] if wanted[2] else None
        found = aten.convolution_backward(grad, x.to(ctx.kind), weight.to(ctx.kind), biases, *ctx.how, wanted)
        types = dtype, weight.dtype, weight.dtype
        return *(None if one is None else one.to(kind) for one, kind in zip(found, types, strict=True)), None


def _order(x: Tensor) -> torch.memory_format:
    """Gradients of maps that lie channels last are handed on so: whoever reads both walks through them in one order."""
    is_last = x.ndim == 4 and x.is_contiguous(memory_format=torch.channels_last) and not x.is_contiguous()
    return torch.channels_last if is_last else torch.contiguous_format
