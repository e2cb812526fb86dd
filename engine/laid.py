"""Convolutions whose weights never change, as quick as oneDNN can.

Weights that may change are laid out anew at every call. Where a map is small, as in LPIPS's AlexNet, this takes longer
than the conv: 0.58 ms instead of 0.18 for 384 channels at 7 px. So they are laid out once. The gradient of a conv is a
conv, too, with the kernel turned.
"""

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.autograd.function import once_differentiable


class LaidConv(nn.Module):
    """As a frozen `conv` of stride 1, padded so that the side stays."""

    def __init__(self, conv: nn.Conv2d) -> None:
        super().__init__()
        self.conv, self._laid = conv, {}

    @staticmethod
    def suits(conv: nn.Conv2d) -> bool:
        same = all(2 * pad == side - 1 for pad, side in zip(conv.padding, conv.kernel_size, strict=True))
        return same and conv.stride == conv.dilation == (1, 1) and conv.groups == 1

    def forward(self, x: Tensor) -> Tensor:
        is_quick = x.device.type == "cpu" and x.dtype == self.conv.weight.dtype == torch.float32
        if is_quick and torch.backends.mkldnn.is_available() and not torch.is_autocast_enabled("cpu"):
            return _Laid.apply(x, self)
        return self.conv(x)

    def laid(self, x: Tensor, *, back: bool) -> Tensor:
        """The weights for maps of this side; turned around for the way back."""
        key = back, *x.shape[2:]
        if key not in self._laid:
            weight = self.conv.weight.detach()
            weight = weight.flip(2, 3).transpose(0, 1).contiguous() if back else weight
            self._laid[key] = torch._C._nn.mkldnn_reorder_conv2d_weight(weight.to_mkldnn(), *self._how, list(x.shape))
        return self._laid[key]

    @property
    def _how(self) -> tuple[list[int], list[int], list[int], int]:
        """Padding, stride, dilation, groups."""
        return list(self.conv.padding), [1, 1], [1, 1], 1

    def product(self, x: Tensor, *, back: bool = False) -> Tensor:
        bias = None if back else self.conv.bias
        laid = self.laid(x, back=back)
        return torch.ops.mkldnn._convolution_pointwise(x, laid, bias, *self._how, "none", [], "")


class PhasedConv(nn.Module):
    """As a frozen `conv` whose stride is larger than one, with another way to its gradient: the places of the picture
    that stand alike to the stride are a map each, a conv of what is handed back. oneDNN's own takes 1.9 ms instead of
    0.7 for the first conv of AlexNet and three pictures of 128 px."""

    def __init__(self, conv: nn.Conv2d) -> None:
        super().__init__()
        self.conv = conv

    @staticmethod
    def suits(conv: nn.Conv2d) -> bool:
        stride, *rest = {*conv.stride}
        return not rest and stride > 1 and conv.dilation == (1, 1) and conv.groups == 1

    def forward(self, x: Tensor) -> Tensor:
        if x.dtype == self.conv.weight.dtype and not torch.is_autocast_enabled(x.device.type):
            return _Phased.apply(x, self)
        return self.conv(x)

    def back(self, grad: Tensor, height: int, width: int) -> Tensor:
        """What the conv's picture [n, c, height, width] gets of [n, o, h, w]."""
        weight, s = self.conv.weight.detach(), self.conv.stride[0]
        (o, c, *sides), pads = weight.shape, self.conv.padding
        taps = [-(-side // s) for side in sides]  # of each phase
        weight = F.pad(weight, (0, taps[1] * s - sides[1], 0, taps[0] * s - sides[0]))
        weight = weight.view(o, c, taps[0], s, taps[1], s).permute(1, 3, 5, 0, 2, 4).reshape(c * s * s, o, *taps)
        maps = F.conv2d(grad, weight.flip(2, 3), padding=[tap - 1 for tap in taps])
        picture = F.pixel_shuffle(maps, s)
        below, right = height + pads[0] - picture.shape[2], width + pads[1] - picture.shape[3]
        picture = F.pad(picture, (0, max(0, right), 0, max(0, below)))  # what no stride reached
        return picture[:, :, pads[0] : pads[0] + height, pads[1] : pads[1] + width]


class _Phased(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, by):
        ctx.by, ctx.sides = by, x.shape[2:]
        return by.conv(x)

    @staticmethod
    @once_differentiable
    def backward(ctx, grad):
        return ctx.by.back(grad, *ctx.sides), None


class _Laid(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, by):
        ctx.by = by
        return by.product(x)

    @staticmethod
    @once_differentiable
    def backward(ctx, grad):
        return ctx.by.product(grad.contiguous(), back=True), None


def lay_out(network: nn.Module) -> nn.Module:
    """Every conv that one of them suits."""
    for name, module in list(network.named_modules()):
        for kind in (LaidConv, PhasedConv) if isinstance(module, nn.Conv2d) else ():
            if kind.suits(module):
                network.set_submodule(name, kind(module))
    return network
