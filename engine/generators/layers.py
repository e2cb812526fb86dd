"""What the StyleGAN family shares: scaled linear layers and the four-tap filter."""

import math
from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor, nn

SLOPE, GAIN = 0.2, math.sqrt(2)  # of every leaky ReLU in these networks


def normalise(x: Tensor) -> Tensor:
    """Divides by the root mean square over dim 1."""
    return x * torch.rsqrt(x.square().mean(1, keepdim=True) + 1e-8)


class FullyConnected(nn.Module):
    """A linear layer whose stored weight is not scaled: the learning rate multiplier and 1/sqrt(fan in) come at use."""

    def __init__(self, inputs: int, outputs: int, *, lr_mult: float = 1.0, bias: float = 0.0, active=False) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(outputs, inputs) / lr_mult)
        self.bias = nn.Parameter(torch.full((outputs,), float(bias)))
        self.weight_gain, self.bias_gain, self.active = lr_mult / math.sqrt(inputs), lr_mult, active

    @property
    def scaled(self) -> tuple[Tensor, Tensor]:
        """Weight and bias as they are used."""
        return self.weight * self.weight_gain, self.bias * self.bias_gain

    def forward(self, x: Tensor) -> Tensor:
        weight, bias = self.scaled
        x = torch.addmm(bias, x, weight.T)
        return F.leaky_relu(x, SLOPE) * GAIN if self.active else x


def fir_filter(taps: Sequence[float] = (1, 3, 3, 1)) -> Tensor:
    """The outer product of the taps with themselves, with sum 1."""
    row = torch.tensor(taps, dtype=torch.float32)
    square = torch.outer(row, row)
    return square / square.sum()


def double_image(image: Tensor, fir: Tensor) -> Tensor:
    """Doubles the side: zeros between the pixels, then the filter. As a transposed conv no zero is multiplied, and
    channels last it is many times as fast on a CPU as otherwise."""
    channels = image.shape[1]
    kernel = (4 * fir).expand(channels, 1, 4, 4)
    image = image.contiguous(memory_format=torch.channels_last)
    return F.conv_transpose2d(image, kernel, stride=2, padding=1, groups=channels)
