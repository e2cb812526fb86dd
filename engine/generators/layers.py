"""What the StyleGAN family shares: scaled linear layers, the mapping network, the four-tap filter."""

import math
from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from engine.core.errors import UserError

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

    def forward(self, x: Tensor) -> Tensor:
        x = torch.addmm(self.bias * self.bias_gain, x, (self.weight * self.weight_gain).T)
        return F.leaky_relu(x, SLOPE) * GAIN if self.active else x


class Mapping(nn.Module):
    """z and an optional condition c to one w; the rows are its copies."""

    def __init__(
        self,
        z_dim: int,
        c_dim: int,
        w_dim: int,
        *,
        num_layers: int = 8,
        embed_features: int | None = None,
        layer_features: int | None = None,
        lr_multiplier: float = 0.01,
        activation: str = "lrelu",
        w_avg_beta: float | None = None,  # how w_avg was tracked in training: nothing to do here
    ) -> None:
        super().__init__()
        if activation != "lrelu":
            raise UserError(f"mapping activation {activation!r}: only the published lrelu is supported")
        embedded = (embed_features or w_dim) if c_dim else 0
        hidden = layer_features or w_dim
        self.embed = FullyConnected(c_dim, embedded) if c_dim else None
        self.depth = num_layers
        widths = [z_dim + embedded] + [hidden] * (num_layers - 1) + [w_dim]
        for i in range(num_layers):
            layer = FullyConnected(widths[i], widths[i + 1], lr_mult=lr_multiplier, active=True)
            self.add_module(f"fc{i}", layer)
        self.register_buffer("w_avg", torch.zeros(w_dim))

    def forward(self, z: Tensor, c: Tensor | None = None) -> Tensor:
        x = normalise(z.float())
        if self.embed is not None:
            x = torch.cat([x, normalise(self.embed(c.float()))], 1)
        for i in range(self.depth):
            x = getattr(self, f"fc{i}")(x)
        return x


def fir_filter(taps: Sequence[float] = (1, 3, 3, 1)) -> Tensor:
    """The outer product of the taps with themselves, with sum 1."""
    row = torch.tensor(taps, dtype=torch.float32)
    square = torch.outer(row, row)
    return square / square.sum()


def double_image(image: Tensor, fir: Tensor) -> Tensor:
    """Doubles the side: zeros between the pixels, then the filter. As a transposed conv no zero is multiplied."""
    n, channels, height, width = image.shape
    planes = image.reshape(n * channels, 1, height, width)
    doubled = F.conv_transpose2d(planes, 4 * fir[None, None], stride=2, padding=1)
    return doubled.view(n, channels, 2 * height, 2 * width)
