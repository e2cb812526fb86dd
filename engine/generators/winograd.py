"""3x3 convolution by Winograd's F(2x2, 3x3): 16 products for 4 outputs instead of 36.

    y = Aᵀ [ Σ_c (G w Gᵀ) ⊙ (Bᵀ x B) ] A        on tiles of 4x4 inputs that give 2x2 outputs

With many channels the sum over c is 16 matrix products, and the additions around them cost little. Gradients have the
same form, so they are saved the same share. Rounding is about three times that of the direct sum.
"""

from collections.abc import Iterator, Sequence

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.autograd.function import once_differentiable

from engine import products, rounded

CHANNELS, PLACES = 256, 512  # from which it pays: of few places, transforming the weights is the larger part
FLOATS = 1 << 21  # of transformed tiles at a time: they should stay in the cache


def suits(x: Tensor, weight: Tensor) -> bool:
    outputs, inputs, *kernel = weight.shape
    n, _, height, width = x.shape
    many = min(outputs, inputs) >= CHANNELS and n * height * width >= PLACES
    return x.device.type == "cpu" and kernel == [3, 3] and many and height % 2 == width % 2 == 0


def conv3x3(x: Tensor, weight: Tensor) -> Tensor:
    """As `conv2d(x, weight, padding=1)` for even sides; channels last in and out."""
    return _Winograd.apply(x, weight)


class _Winograd(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, weight):
        u, kind = kernels(weight), rounded.type_for(x)
        ctx.save_for_backward(x, u.to(kind))
        return convolve(x, u)

    @staticmethod
    @once_differentiable
    def backward(ctx, grad):
        x, u = ctx.saved_tensors
        want_x, want_weight = ctx.needs_input_grad
        to_x, to_u = gradients(grad.to(u.dtype), x.to(u.dtype), u, want_x=want_x, want_u=want_weight)
        return to_x.to(x.dtype) if want_x else None, kernels_adjoint(to_u).to(x.dtype) if want_weight else None


def kernels(weight: Tensor) -> Tensor:
    """G w Gᵀ as [16, inputs, outputs]. It is a view of [16, outputs, inputs], in the weight's own order of channels:
    turning that around would take several times as long as the products."""
    outputs, inputs = weight.shape[:2]
    return (_both(weight) @ weight.reshape(-1, 9).T).view(16, outputs, inputs).mT


def kernels_adjoint(u: Tensor) -> Tensor:
    """From gradients for `kernels(weight)` to those for the weight."""
    _, inputs, outputs = u.shape
    return (u.mT.reshape(16, -1).T @ _both(u)).view(outputs, inputs, 3, 3)


def convolve(x: Tensor, u: Tensor) -> Tensor:
    """[n, inputs, h, w] with transformed kernels [16, inputs, outputs]."""
    (n, inputs, height, width), outputs = x.shape, u.shape[2]
    padded, y = _pad(x), x.new_empty(n, height, width, outputs)
    for rows, around in _strips(x, u):
        tiles = _spread(padded[:, around]).view(16, -1, inputs)
        m = [products.linear(v, w).view(n, -1, width // 2, outputs) for v, w in zip(tiles, u.mT, strict=True)]
        _merge(m, y[:, rows])
    return y.permute(0, 3, 1, 2)


def gradients(grad: Tensor, x: Tensor, u: Tensor, *, want_x=True, want_u=True) -> tuple[Tensor | None, Tensor | None]:
    """Of `convolve`, for its input and its transformed kernels."""
    (n, inputs, height, width), outputs = x.shape, u.shape[2]
    padded, grad = _pad(x) if want_u else None, grad.permute(0, 2, 3, 1)
    to_u = u.new_zeros(16, outputs, inputs) if want_u else None
    to_x = x.new_zeros(n, height + 2, width + 2, inputs) if want_x else None
    for rows, around in _strips(x, u):
        to_m = _merge_adjoint(grad[:, rows]).view(16, -1, outputs)
        if want_u:
            to_u.baddbmm_(to_m.mT, _spread(padded[:, around]).view(16, -1, inputs))
        if want_x:
            to_v = torch.bmm(to_m, u.mT).view(4, 4, n, -1, width // 2, inputs)
            _spread_adjoint(to_v, to_x[:, around])
    return to_x[:, 1:-1, 1:-1].permute(0, 3, 1, 2) if want_x else None, to_u.mT if want_u else None


def _strips(x: Tensor, u: Tensor) -> Iterator[tuple[slice, slice]]:
    """Rows of the output, and the rows of the padded input that they need."""
    n, inputs, height, width = x.shape
    step = 2 * max(1, FLOATS // (8 * n * width * max(inputs, u.shape[2])))
    for start in range(0, height, step):
        end = min(start + step, height)
        yield slice(start, end), slice(start, end + 2)


def _pad(x: Tensor) -> Tensor:
    """[n, h + 2, w + 2, c]"""
    return F.pad(x.permute(0, 2, 3, 1), (0, 0, 1, 1, 1, 1))


def _both(like: Tensor) -> Tensor:
    """G from both sides, of 3x3 weights as rows of nine: [16, 9]."""
    g = like.new_tensor([[1, 0, 0], [0.5, 0.5, 0.5], [0.5, -0.5, 0.5], [0, 0, 1]])
    return torch.einsum("ai,bj->abij", g, g).reshape(16, 9)


def _spread(x: Tensor) -> Tensor:
    """Bᵀ x B: [n, 2h + 2, 2w + 2, c] to [4, 4, n, h, w, c], first down, then across."""
    n, height, width, channels = x.shape
    h, w = height // 2 - 1, width // 2 - 1
    down = x.new_empty(4, n, h, width, channels)
    tiles = x.new_empty(4, 4, n, h, w, channels)
    for source, target, dim, count in ((x, down, 1, h), (down, tiles.transpose(0, 1), 3, w)):
        d0, d1, d2, d3 = (_every_other(source, dim, k, count) for k in range(4))
        torch.sub(d0, d2, out=target[0])
        torch.add(d1, d2, out=target[1])
        torch.sub(d2, d1, out=target[2])
        torch.sub(d1, d3, out=target[3])
    return tiles


def _spread_adjoint(tiles: Tensor, x: Tensor) -> None:
    """Adds B tiles Bᵀ to x."""
    _, _, n, h, w, channels = tiles.shape
    down = tiles.new_zeros(4, n, h, 2 * w + 2, channels)
    for source, target, dim, count in ((tiles.transpose(0, 1), down, 3, w), (down, x, 1, h)):
        d0, d1, d2, d3 = (_every_other(target, dim, k, count) for k in range(4))
        m0, m1, m2, m3 = source
        d0.add_(m0)
        d1.add_(m1).sub_(m2).add_(m3)
        d2.add_(m1).add_(m2).sub_(m0)
        d3.sub_(m3)


def _merge(m: Sequence[Tensor], y: Tensor) -> None:
    """Aᵀ m A: sixteen [n, h, w, c] into y [n, 2h, 2w, c], first across, then down."""
    across = y.new_empty(2, 4, *m[0].shape)
    for row in range(4):
        _sum_and_difference(m[4 * row : 4 * row + 4], across[0, row], across[1, row])
    for k in (0, 1):
        _sum_and_difference(across[k], y[:, 0::2, k::2], y[:, 1::2, k::2])


def _sum_and_difference(m: Sequence[Tensor] | Tensor, first: Tensor, second: Tensor) -> None:
    torch.add(m[0], m[1], out=first).add_(m[2])
    torch.sub(m[1], m[2], out=second).sub_(m[3])


def _merge_adjoint(y: Tensor) -> Tensor:
    """A y Aᵀ: [n, 2h, 2w, c] to [4, 4, n, h, w, c]."""
    n, height, width, channels = y.shape
    down = y.new_empty(4, n, height // 2, width, channels)
    tiles = y.new_empty(4, 4, n, height // 2, width // 2, channels)
    for source, target, dim in ((y, down, 1), (down, tiles.transpose(0, 1), 3)):
        first, second = (_every_other(source, dim, k, source.shape[dim] // 2) for k in (0, 1))
        target[0].copy_(first)
        torch.add(first, second, out=target[1])
        torch.sub(first, second, out=target[2])
        torch.neg(second, out=target[3])
    return tiles


def _every_other(x: Tensor, dim: int, start: int, count: int) -> Tensor:
    return x.narrow(dim, start, 2 * count - 1).unfold(dim, 1, 2).squeeze(-1)
