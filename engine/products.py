"""Matrix products in single precision as fast as the processor can.

torch's own go to MKL, which leaves half of an AMD core's width unused: 120 of 270 GFLOP/s measured. oneDNN, which torch
has along, uses all of it and is as exact. Nothing here has a gradient: autograd functions call it, which bring theirs.
"""

import torch
import torch.nn.functional as F
from torch import Tensor

FEW = 16  # rows of which the call takes longer than the product
PLACES = 2048  # at a time


def _suits(x: Tensor, weight: Tensor) -> bool:
    is_plain = x.device.type == "cpu" and x.dtype == weight.dtype == torch.float32 and x.shape[-2] >= FEW
    return is_plain and torch.backends.mkldnn.is_available() and not torch.is_autocast_enabled("cpu")


def linear(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """x weightᵀ + bias of rows [places, inputs] and weights [outputs, inputs]."""
    if _suits(x, weight):
        return torch.ops.mkldnn._linear_pointwise(x.contiguous(), weight.contiguous(), bias, "none", [], "")
    return x @ weight.mT if bias is None else torch.addmm(bias, x, weight.mT)


def batched(
    offset: Tensor,
    x: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    slope: float = 1.0,
    copy: Tensor | None = None,
    out: Tensor | None = None,
) -> Tensor:
    """offset + bias + x weightᵀ of x [n, places, inputs] and weights [n, outputs, inputs] of each sample's own, what is
    negative times `slope`; and all of it once more in the `copy`'s number type. Some places at a time, so that every
    pass finds their product in the cache and no second map is needed. It is written into `out` if that is given."""
    if not _suits(x, weight):
        y = _finish(torch.baddbmm(offset if bias is None else offset + bias, x, weight.mT), slope, copy)
        return y if out is None else out.copy_(y)
    shape = *x.shape[:2], weight.shape[1]
    y, offset = x.new_empty(shape) if out is None else out, offset.expand(shape)
    for i, own in enumerate(weight):
        for at in range(0, shape[1], PLACES):
            some = slice(at, at + PLACES)
            part = torch.add(linear(x[i, some], own, bias), offset[i, some], out=y[i, some])
            _finish(part, slope, None if copy is None else copy[i, some])
    return y


def cast(x: Tensor, weight: Tensor, kind: torch.dtype) -> Tensor:
    """x weight of x [n, places, inputs] and weights [n, inputs, outputs], given in a number type of its own: on a
    processor some places at a time, so that no second map is needed."""
    if x.dtype == kind or x.device.type != "cpu":
        return torch.bmm(x, weight).to(kind)
    y = x.new_empty(*x.shape[:2], weight.shape[2], dtype=kind)
    for mine, own, made in zip(x, weight, y, strict=True):
        for some, part in zip(mine.split(PLACES), made.split(PLACES), strict=True):
            part.copy_(some @ own)
    return y


def _finish(y: Tensor, slope: float, copy: Tensor | None) -> Tensor:
    if slope != 1:
        F.leaky_relu_(y, slope)
    if copy is not None:
        copy.copy_(y)
    return y
