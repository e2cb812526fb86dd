"""Convs of small maps as matrix products with the weights as they are stored.

Where a map has few places, the weights are most of the work: every pass over them, to turn them around or to bring
their gradient into their order, takes as long as the conv. Against the columns of the map (for each place, what its
kernel sees) they are one factor of a product, and their gradient is another product, in their own order.
"""

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.autograd.function import once_differentiable

from engine import products, rounded

KERNEL = (3, 3)


def has_few_places(x: Tensor) -> bool:
    """From twice as many places as channels on, weights are no longer the larger part."""
    n, inputs, height, width = x.shape
    return n * height * width <= 2 * inputs


def suits(x: Tensor, weight: Tensor) -> bool:
    """Columns are nine maps, so they had better be small."""
    return x.device.type == "cpu" and weight.shape[2:] == KERNEL and has_few_places(x)


def conv3x3(x: Tensor, weight: Tensor) -> Tensor:
    """As `conv2d(x, weight, padding=1)`; channels last out."""
    return _Conv.apply(x, weight)


def doubling(x: Tensor, weight: Tensor) -> Tensor:
    """The transposed conv of stride 2, unpadded, with weights [outputs, inputs, 3, 3]."""
    return _Doubling.apply(x, weight)


def doubling4x4(x: Tensor, weight: Tensor) -> Tensor:
    """DCGAN's transposed conv of stride 2, padded by 1, with weights [inputs, outputs, 4, 4]."""
    return _Doubling4x4.apply(x, weight)


def _columns(x: Tensor, kernel: tuple[int, int] = KERNEL, **how: int) -> Tensor:
    """[n, c, h, w] to [places, as many numbers as a kernel sees]."""
    return F.unfold(x, kernel, **how).mT.flatten(0, 1)


def _rows(x: Tensor) -> Tensor:
    """[n, c, h, w] to [places, c]."""
    return x.permute(0, 2, 3, 1).flatten(0, 2)


def _map(rows: Tensor, like: Tensor) -> Tensor:
    """The opposite of `_rows`, for a map of as many samples and of the same sides."""
    n, _, height, width = like.shape
    return rows.view(n, height, width, -1).permute(0, 3, 1, 2)


class _Conv(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, weight):
        y = _map(products.linear(_columns(x, padding=1), weight.flatten(1)), x)
        ctx.save_for_backward(x, weight)
        ctx.kind = rounded.type_for(y)
        return y

    @staticmethod
    @once_differentiable
    def backward(ctx, grad):
        x, weight = ctx.saved_tensors
        to_x = to_weight = None
        g = _rows(grad).to(ctx.kind)
        if ctx.needs_input_grad[0]:
            columns = (g @ weight.flatten(1).to(ctx.kind)).unflatten(0, (len(x), -1)).mT
            to_x = F.fold(columns, x.shape[2:], KERNEL, padding=1).to(x.dtype)
        if ctx.needs_input_grad[1]:
            to_weight = (g.mT @ _columns(x.to(ctx.kind), padding=1)).to(weight.dtype).view_as(weight)
        return to_x, to_weight


class _Doubling(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, weight):
        y = F.conv_transpose2d(x, weight.transpose(0, 1), stride=2)
        ctx.save_for_backward(x, weight)
        ctx.kind = rounded.type_for(y)
        return y

    @staticmethod
    @once_differentiable
    def backward(ctx, grad):
        x, weight = ctx.saved_tensors
        to_x = to_weight = None
        columns = _columns(grad.to(ctx.kind), stride=2)
        if ctx.needs_input_grad[0]:
            to_x = _map(columns @ weight.to(ctx.kind).transpose(0, 1).flatten(1).mT, x).to(x.dtype)
        if ctx.needs_input_grad[1]:
            turned = (_rows(x).to(ctx.kind).mT @ columns).view(weight.shape[1], -1, *KERNEL)
            to_weight = turned.transpose(0, 1).contiguous().to(weight.dtype)
        return to_x, to_weight


class _Doubling4x4(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, weight):
        weight = weight.to(x.dtype)
        y = F.conv_transpose2d(x, weight, stride=2, padding=1)
        ctx.save_for_backward(x, weight.to(rounded.type_for(y)))
        return y

    @staticmethod
    @once_differentiable
    def backward(ctx, grad):
        x, weight = ctx.saved_tensors
        to_x = to_weight = None
        columns = _columns(grad.to(weight.dtype), weight.shape[2:], stride=2, padding=1)
        if ctx.needs_input_grad[0]:
            to_x = _map(columns @ weight.flatten(1).mT, x).to(x.dtype)
        if ctx.needs_input_grad[1]:
            to_weight = (_rows(x).to(weight.dtype).mT @ columns).view_as(weight)
        return to_x, to_weight  # autograd brings it to the weights' own type; what is cast here it would copy once more
