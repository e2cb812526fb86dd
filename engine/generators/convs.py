"""Three ways to compute a conv with weights W s d of one sample, and its gradients, on channels-last maps of a CPU.

Each holds the weights in the form it computes with (`base`), so that a sample's own are one product of `base` and the
outer product of s and d.
"""

import torch
import torch.nn.functional as F
from torch import Tensor

from engine import rounded
from engine.generators import unfolded, winograd

backward = torch.ops.aten.convolution_backward
Slopes = tuple[Tensor | None, Tensor | None]  # what is not wanted is None


class Direct:
    """A plain conv; `base` is the weight itself."""

    def __init__(self, weight: Tensor) -> None:
        self.base, self.pad = weight, weight.shape[-1] // 2

    def own(self, s: Tensor, d: Tensor) -> Tensor:
        return self.base * (d[:, None] * s)[:, :, None, None]

    def convolve(self, x: Tensor, own: Tensor, bias: Tensor) -> Tensor:
        return F.conv2d(x, own, bias, padding=self.pad)

    def gradients(self, g: Tensor, x: Tensor, own: Tensor, *, want_x: bool, want_own: bool) -> Slopes:
        """For the input and for `own`, in the number type that all of them have."""
        shape = [1, 1], [self.pad, self.pad], [1, 1], False, [0, 0], 1
        return backward(g, x, own, None, *shape, [want_x, want_own, False])[:2]

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
        if unfolded.suits(x, own):
            return smooth(unfolded.doubling(x, own), self.kernel, bias)
        return smooth(rounded.doubling_conv2d(x, own.transpose(0, 1)), self.kernel, bias)

    def gradients(self, g: Tensor, x: Tensor, own: Tensor, *, want_x: bool, want_own: bool) -> Slopes:
        g = smooth(g, self.kernel.flip(0, 1).to(g.dtype), padding=2)
        to_x = F.conv2d(g, own.transpose(0, 1), stride=2) if want_x else None
        return to_x, _doubling_weights(g[0].permute(1, 2, 0), x[0].permute(1, 2, 0)) if want_own else None


def _doubling_weights(g: Tensor, x: Tensor) -> Tensor:
    """Σ x[i, j] g[2i + a, 2j + b] for all taps a, b of x [h, w, inputs] and g [2h + 1, 2w + 1, outputs].

    Rows of x get one zero column, so that shifting g by a column or a row is shifting its flat list of pixels; pairs of
    columns stand side by side. Each sum is then a matrix product without a copy.
    """
    (h, w, inputs), outputs = x.shape, g.shape[2]
    flat = F.pad(x, (0, 0, 0, 1)).view(-1, inputs).T  # [inputs, h * (w + 1)]
    pairs = g.new_zeros(2, h + 2, 2 * w + 2, outputs)  # even rows, odd rows
    for odd in (0, 1):
        pairs[odd, : h + 1 - odd, : 2 * w + 1] = g[odd::2]
    pairs = pairs.view(2, -1, 2 * outputs)
    rows = []
    for a in range(3):
        here = pairs[a % 2, (a // 2) * (w + 1) :]
        length = flat.shape[1]
        taps = flat @ here[:length], flat @ here[1 : length + 1, :outputs]  # b = 0 and 1, b = 2
        rows.append(torch.cat(taps, 1).view(inputs, 3, outputs))
    return torch.stack(rows, 2).permute(3, 0, 2, 1)


class Tiled:
    """A plain 3x3 conv by Winograd's tiles; `base` is the transformed weight."""

    def __init__(self, weight: Tensor) -> None:
        self.base = winograd.kernels(weight)

    def own(self, s: Tensor, d: Tensor) -> Tensor:
        return self.base * (s[:, None] * d)

    def convolve(self, x: Tensor, own: Tensor, bias: Tensor) -> Tensor:
        return winograd.convolve(x, own).add_(bias[:, None, None])

    def gradients(self, g: Tensor, x: Tensor, own: Tensor, *, want_x: bool, want_own: bool) -> Slopes:
        return winograd.gradients(g, x, own, want_x=want_x, want_u=want_own)

    def collect(self, total: Tensor, to_own: Tensor, s: Tensor, d: Tensor) -> tuple[Tensor, Tensor]:
        total.addcmul_(to_own, s[:, None] * d)
        shares = (to_own * self.base).sum(0)  # [inputs, outputs]
        return shares @ d, s @ shares

    def to_weight(self, total: Tensor) -> Tensor:
        return winograd.kernels_adjoint(total)


def smooth(x: Tensor, kernel: Tensor, bias: Tensor | None = None, padding: int = 1) -> Tensor:
    """The filter that follows a doubling conv."""
    return F.conv2d(x, kernel.expand(x.shape[1], 1, 4, 4), bias, padding=padding, groups=x.shape[1])
