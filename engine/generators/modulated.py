"""The styled convolution of StyleGAN2: per-sample weights W s d, noise, bias, leaky ReLU, clamp.

Scaling the weights per sample equals scaling the inputs by s and the outputs by d. On small maps, where weights are the
larger part, one plain conv of the whole batch between two scalings is fastest. On large maps of a CPU each sample is
taken alone with its own weights: the map stays in the cache from the conv to the clamp, and neither scaling passes over
it. The leaky ReLU is homogeneous, so its gain sqrt(2) is folded into d, noise and bias.
"""

import torch
import torch.nn.functional as F
from torch import Tensor

from engine.generators.layers import GAIN, SLOPE

CL = torch.channels_last


def styled_conv(
    x: Tensor,
    weight: Tensor,
    styles: Tensor,
    noise: Tensor | None,
    bias: Tensor,
    *,
    fir: Tensor | None = None,
    clamp: float | None = None,
) -> Tensor:
    """[n, inputs, h, w] to [n, outputs, h, w], or twice the side where a filter `fir` [4, 4] is given."""
    power = styles.square() @ weight.square().sum((2, 3)).T
    demod = GAIN * torch.rsqrt(power + 1e-8)  # [n, outputs]
    noise = None if noise is None else GAIN * noise
    x = x.contiguous(memory_format=CL)
    kernel = None if fir is None else 4 * fir.flip(0, 1)
    return _together(x, weight, styles, demod, noise, GAIN * bias, kernel, clamp)


def _together(x, weight, styles, demod, noise, bias, kernel, clamp) -> Tensor:
    x = _conv(x * styles[:, :, None, None], weight, None, kernel) * demod[:, :, None, None]
    x = x + (bias[:, None, None] if noise is None else noise + bias[:, None, None])
    x = F.leaky_relu_(x, SLOPE)
    return x if clamp is None else x.clamp(-clamp, clamp)


def _conv(x: Tensor, weight: Tensor, bias: Tensor | None, kernel: Tensor | None) -> Tensor:
    """A plain conv, or the doubling one: transposed conv, then the filter on its 2h + 1 rows."""
    if kernel is None:
        return F.conv2d(x, weight, bias, padding=weight.shape[-1] // 2)
    x = F.conv_transpose2d(x, weight.transpose(0, 1), stride=2)
    return F.conv2d(x, kernel.expand(len(weight), 1, 4, 4), bias, padding=1, groups=len(weight))
