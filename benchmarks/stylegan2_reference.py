"""StyleGAN2's synthesis written straight from its formulas, with the weights of a model of ours: what we compare with.

Weights are modulated and demodulated per sample and applied as one grouped conv over the batch; every resampling
inserts zeros, pads and runs a grouped conv; bias, gain and clamp are steps of their own.
"""

import math

import torch.nn.functional as F
from torch import Tensor, nn


def synthesise(model: nn.Module, w: Tensor) -> Tensor:
    """The picture of codes [n, num_ws, w_dim] with the stored noise."""
    return render(model, w, model.size)[1]


def render(model: nn.Module, w: Tensor, size: int) -> tuple[Tensor, Tensor]:
    """Features and picture at one of the model's sizes."""
    x = image = features = None
    for side, block, rows in model.synthesis.blocks():
        x = block.const.repeat(len(w), 1, 1, 1) if block.first else x
        x, image = run_block(block, x, image, w[:, rows])
        features = x if side == model.sizes[0] else features
        if side == size:
            return features, image
    raise AssertionError("every offered size is the side of a block")


def run_block(block: nn.Module, x: Tensor, image: Tensor | None, codes: Tensor) -> tuple[Tensor, Tensor]:
    x = x if block.first else styled(block.conv0, x, codes[:, 0], up=block.up)
    x = styled(block.conv1, x, codes[:, -2], up=False)
    y = colours(block.torgb, x, codes[:, -1])
    if image is not None:
        y = y + (resample(image, block.resample_filter, up=2, pads=(2, 1)) if block.up else image)
    return x, y


def styled(layer: nn.Module, x: Tensor, w: Tensor, *, up: bool) -> Tensor:
    x = modulated_conv(x, layer.weight, layer.affine(w), up=up, fir=layer.resample_filter)
    x = x + layer.noise_const * layer.noise_strength
    x = x + layer.bias[:, None, None]
    x = F.leaky_relu(x, 0.2) * math.sqrt(2)
    return x if layer.clamp is None else x.clamp(-layer.clamp, layer.clamp)


def colours(layer: nn.Module, x: Tensor, w: Tensor) -> Tensor:
    styles = layer.affine(w) / math.sqrt(layer.weight.shape[1])
    x = modulated_conv(x, layer.weight, styles, demodulate=False) + layer.bias[:, None, None]
    return x if layer.clamp is None else x.clamp(-layer.clamp, layer.clamp)


def modulated_conv(x, weight, styles, *, demodulate=True, up=False, fir=None) -> Tensor:
    n, inputs, height, width = x.shape
    outputs, _, k, _ = weight.shape
    own = weight[None] * styles[:, None, :, None, None]  # [n, outputs, inputs, k, k]
    if demodulate:
        own = own * (own.square().sum((2, 3, 4), keepdim=True) + 1e-8).rsqrt()
    x = x.reshape(1, n * inputs, height, width)
    if not up:
        x = F.conv2d(x, own.flatten(0, 1), padding=k // 2, groups=n)
        return x.reshape(n, outputs, height, width)
    x = F.conv_transpose2d(x, own.transpose(1, 2).flatten(0, 1), stride=2, groups=n)
    x = x.reshape(n, outputs, 2 * height + 1, 2 * width + 1)
    return resample(x, fir, up=1, pads=(1, 1), gain=4)


def resample(x: Tensor, fir: Tensor, *, up: int, pads: tuple[int, int], gain: float | None = None) -> Tensor:
    """`up - 1` zeros after every sample, zeros at the sides, convolution with the filter."""
    n, channels, height, width = x.shape
    x = x.reshape(n, channels, height, 1, width, 1)
    x = F.pad(x, (0, up - 1, 0, 0, 0, up - 1)).reshape(n, channels, height * up, width * up)
    x = F.pad(x, (*pads, *pads))
    kernel = (fir * (up**2 if gain is None else gain)).flip(0, 1)[None, None].repeat(channels, 1, 1, 1)
    return F.conv2d(x, kernel, groups=channels)
