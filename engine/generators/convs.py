"""Three ways to compute a conv with weights W s d of one sample, and its gradients, on channels-last maps of a CPU.

Each holds the weights in the form it computes with (`base`), so that a sample's own are one product of `base` and the
outer product of s and d.
"""

import torch
import torch.nn.functional as F
from torch import Tensor

from engine.generators import winograd

backward = torch.ops.aten.convolution_backward


class Direct:
    """A plain conv; `base` is the weight itself."""

    def __init__(self, weight: Tensor) -> None:
        self.base, self.pad = weight, weight.shape[-1] // 2

    def own(self, s: Tensor, d: Tensor) -> Tensor:
        return self.base * (d[:, None] * s)[:, :, None, None]

    def convolve(self, x: Tensor, own: Tensor, bias: Tensor) -> Tensor:
        return F.conv2d(x, own, bias, padding=self.pad)

    def gradients(self, g: Tensor, x: Tensor, own: Tensor, *, want_x: bool) -> tuple[Tensor | None, Tensor]:
        """For the input, if wanted, and for `own`."""
        shape = [1, 1], [self.pad, self.pad], [1, 1], False, [0, 0], 1
        return backward(g, x, own, None, *shape, [want_x, True, False])[:2]

    def collect(self, total: Tensor, to_own: Tensor, s: Tensor, d: Tensor) -> tuple[Tensor, Tensor]:
        """Adds to the gradient for `base`; gives those for s and d."""
        total.addcmul_(to_own, (d[:, None] * s)[:, :, None, None])
        shares = (to_own * self.base).sum((2, 3))  # [outputs, inputs]
        return d @ shares, shares @ s

    def to_weight(self, total: Tensor) -> Tensor:
        return total


class Doubling(Direct):
    """A transposed conv to 2h + 1 rows, then the filter: twice the side."""

    def __init__(self, weight: Tensor, kernel: Tensor) -> None:
        self.base, self.kernel = weight, kernel

    def convolve(self, x: Tensor, own: Tensor, bias: Tensor | None = None) -> Tensor:
        return smooth(F.conv_transpose2d(x, own.transpose(0, 1), stride=2), self.kernel, bias)

    def gradients(self, g: Tensor, x: Tensor, own: Tensor, *, want_x: bool) -> tuple[Tensor | None, Tensor]:
        g, own = smooth(g, self.kernel.flip(0, 1), padding=2), own.transpose(0, 1)
        to_x = F.conv2d(g, own, stride=2) if want_x else None
        # For the weights the roles of input and output are exchanged; planes are three times as fast here.
        planes, shape = (x.contiguous(), g.contiguous(), own.contiguous()), ([2, 2], [0, 0], [1, 1], False, [0, 0], 1)
        return to_x, backward(*planes, None, *shape, [False, True, False])[1].transpose(0, 1)


class Tiled:
    """A plain 3x3 conv by Winograd's tiles; `base` is the transformed weight."""

    def __init__(self, weight: Tensor) -> None:
        self.base = winograd.kernels(weight)

    def own(self, s: Tensor, d: Tensor) -> Tensor:
        return self.base * (s[:, None] * d)

    def convolve(self, x: Tensor, own: Tensor, bias: Tensor) -> Tensor:
        return winograd.convolve(x, own).add_(bias[:, None, None])

    def gradients(self, g: Tensor, x: Tensor, own: Tensor, *, want_x: bool) -> tuple[Tensor | None, Tensor]:
        return winograd.gradients(g, x, own, want_x=want_x)

    def collect(self, total: Tensor, to_own: Tensor, s: Tensor, d: Tensor) -> tuple[Tensor, Tensor]:
        total.addcmul_(to_own, s[:, None] * d)
        shares = (to_own * self.base).sum(0)  # [inputs, outputs]
        return shares @ d, s @ shares

    def to_weight(self, total: Tensor) -> Tensor:
        return winograd.kernels_adjoint(total)


def smooth(x: Tensor, kernel: Tensor, bias: Tensor | None = None, padding: int = 1) -> Tensor:
    """The filter that follows a doubling conv."""
    return F.conv2d(x, kernel.expand(x.shape[1], 1, 4, 4), bias, padding=padding, groups=x.shape[1])
