"""The styled convolution of StyleGAN2: per-sample weights W s d, noise, bias, leaky ReLU, clamp.

Scaling the weights per sample equals scaling the inputs by s and the outputs by d. Where weights are the larger part,
one plain conv of the whole batch between two scalings is fastest. On large maps of a CPU each sample is taken alone,
with its own weights: no scaling passes over the map, and the steps after the conv go strip by strip, so that they find
it in the cache. The leaky ReLU is homogeneous, so its gain sqrt(2) is folded into d, noise and bias.
"""

from collections.abc import Iterator

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.autograd.function import once_differentiable

from engine import rounded
from engine.generators import unfolded, winograd
from engine.generators.convs import Direct, Doubling, Tiled
from engine.generators.layers import GAIN, SLOPE

CL = torch.channels_last
LARGE = 64  # px from which a map is more work than the weights
STRIP = 1 << 17  # floats of a map at a time
aten = torch.ops.aten


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
    """[n, inputs, h, w] to [n, outputs, h, w], or twice the side where a filter `fir` [4, 4] is given.

    `noise` is [1 or n, 1, h, w]. The result is channels last.
    """
    weight, squares = _Squares.apply(weight)
    demod = GAIN * torch.rsqrt(styles.square() @ squares.T + 1e-8)  # [n, outputs]
    kernel = None if fir is None else 4 * fir.flip(0, 1)
    side = x.shape[2] if fir is None else 2 * x.shape[2]
    noise = weight.new_zeros(1, 1, side, side) if noise is None else GAIN * noise
    alone = side >= LARGE and x.device.type == "cpu"
    conv = _Alone.apply if alone else _together
    return conv(x.contiguous(memory_format=CL), weight, styles, demod, noise, GAIN * bias, kernel, clamp)


class _Squares(torch.autograd.Function):
    """A weight as it is, and its squares summed over the kernel [outputs, inputs]. What both have to say to the weight
    becomes its gradient in one pass; apart, there would be four, each as long as one over a map."""

    @staticmethod
    def forward(ctx, weight):
        ctx.save_for_backward(weight)
        return weight.view_as(weight), weight.square().sum((2, 3))

    @staticmethod
    @once_differentiable
    def backward(ctx, to_weight, to_squares):
        (weight,) = ctx.saved_tensors
        return torch.addcmul(to_weight, weight, 2 * to_squares[:, :, None, None])


def _together(x, weight, styles, demod, noise, bias, kernel, clamp) -> Tensor:
    x = x * styles[:, :, None, None]
    if kernel is not None:
        x = Doubling(weight, kernel).convolve(x, weight)
    elif winograd.suits(x, weight):
        x = winograd.conv3x3(x, weight)
    elif unfolded.suits(x, weight):
        x = unfolded.conv3x3(x, weight)
    else:
        x = rounded.conv2d(x, weight)
    x = torch.addcmul(noise + bias[:, None, None], x, demod[:, :, None, None])
    x = F.leaky_relu_(x, SLOPE)
    return x if clamp is None else F.hardtanh(x, -clamp, clamp)  # a clamp with a quicker gradient


class _Alone(torch.autograd.Function):
    """`_together` one sample at a time. Only input and output are kept for the backward pass."""

    @staticmethod
    def forward(ctx, x, weight, styles, demod, noise, bias, kernel, clamp):
        way = _way(x, weight, kernel)
        y = x.new_empty(len(x), noise.shape[2], noise.shape[3], len(weight)).permute(0, 3, 1, 2)
        for i in range(len(x)):
            part = way.convolve(x[i : i + 1], way.own(styles[i], demod[i]), bias)
            for rows in _strips(part):
                strip, target = part[:, :, rows], y[i : i + 1, :, rows]
                aten.leaky_relu.out(strip.add_(_of(noise, i)[:, :, rows]), SLOPE, out=target)
                if clamp is not None:
                    target.clamp_(-clamp, clamp)
        ctx.save_for_backward(x, weight, styles, demod, noise, kernel, y)
        ctx.clamp, ctx.kind = clamp, rounded.type_for(y)
        return y

    @staticmethod
    @once_differentiable
    def backward(ctx, grad):
        x, weight, styles, demod, noise, kernel, y = ctx.saved_tensors
        way, grad = _way(x, weight, kernel), grad.contiguous(memory_format=CL)
        want_x, want_own = ctx.needs_input_grad[0], any(ctx.needs_input_grad[1:4])
        to_x = torch.empty_like(x) if want_x else None
        to_base, to_bias = torch.zeros_like(way.base), weight.new_zeros(len(weight))
        to_styles, to_demod, to_noise = torch.empty_like(styles), torch.empty_like(demod), torch.zeros_like(noise)
        for i in range(len(x)):
            g = torch.empty_like(y[i : i + 1])
            for rows in _strips(g):
                strip, after = g[:, :, rows], y[i : i + 1, :, rows]
                incoming = grad[i : i + 1, :, rows]
                aten.leaky_relu_backward.grad_input(incoming, after, SLOPE, True, grad_input=strip)
                if ctx.clamp is not None:
                    aten.hardtanh_backward.grad_input(strip, after, -ctx.clamp, ctx.clamp, grad_input=strip)
                to_bias += strip.sum((0, 2, 3))
                _of(to_noise, i)[:, :, rows] += strip.sum(1, keepdim=True)
            given = (part.to(ctx.kind) for part in (g, x[i : i + 1], way.own(styles[i], demod[i])))
            part, to_own = way.gradients(*given, want_x=want_x, want_own=want_own)
            if want_x:
                to_x[i : i + 1] = part
            if want_own:
                to_styles[i], to_demod[i] = way.collect(to_base, to_own.to(x.dtype), styles[i], demod[i])
        return to_x, way.to_weight(to_base), to_styles, to_demod, to_noise, to_bias, None, None


def _way(x: Tensor, weight: Tensor, kernel: Tensor | None) -> Direct | Doubling | Tiled:
    if kernel is not None:
        return Doubling(weight, kernel)
    return Tiled(weight) if winograd.suits(x, weight) else Direct(weight)


def _of(noise: Tensor, i: int) -> Tensor:
    return noise[i : i + 1] if len(noise) > 1 else noise


def _strips(x: Tensor) -> Iterator[slice]:
    _, channels, height, width = x.shape
    step = max(1, STRIP // (channels * width))
    return (slice(start, start + step) for start in range(0, height, step))
