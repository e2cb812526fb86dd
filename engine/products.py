"""Matrix products in single precision as fast as the processor can.

torch's own go to MKL, which leaves half of an AMD core's width unused: 120 of 270 GFLOP/s measured. oneDNN, which torch
has along, uses all of it and is as exact. Nothing here has a gradient: autograd functions call it, which bring theirs.
"""

import torch
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


def batched(offset: Tensor, x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """offset + bias + x weightᵀ of x [n, places, inputs] and weights [n, outputs, inputs] of each sample's own. Some
    places at a time, so that the offset finds their product in the cache and no second map is needed."""
    if not _suits(x, weight):
        return torch.baddbmm(offset if bias is None else offset + bias, x, weight.mT)
    shape = *x.shape[:2], weight.shape[1]
    y, offset = x.new_empty(shape), offset.expand(shape)
    for i, own in enumerate(weight):
        for some in zip(x[i].split(PLACES), offset[i].split(PLACES), y[i].split(PLACES), strict=True):
            torch.add(linear(some[0], own, bias), some[1], out=some[2])
    return y
