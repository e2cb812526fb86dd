"""The inverse Haar step on channels-last maps: four bands become the four pixels under each place."""

import torch
from torch import Tensor


def _butterfly(a: Tensor, b: Tensor, c: Tensor, d: Tensor, out: tuple[Tensor, ...]) -> None:
    """out = (+ + + +, + + - -, + - + -, + - - +) of the four; symmetric, so it is its own adjoint."""
    s, t = a + b, c + d
    torch.add(s, t, out=out[0])
    torch.sub(s, t, out=out[1])
    torch.sub(a, b, out=s)
    torch.sub(c, d, out=t)
    torch.add(s, t, out=out[2])
    torch.sub(s, t, out=out[3])


class _Merge(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x: Tensor) -> Tensor:
        n, h, w, c = x.shape
        image = x.new_empty(n, h, 2, w, 2, c // 4)
        _butterfly(
            *x.chunk(4, -1), (image[:, :, 0, :, 0], image[:, :, 0, :, 1], image[:, :, 1, :, 0], image[:, :, 1, :, 1])
        )
        return image.view(n, 2 * h, 2 * w, c // 4)

    @staticmethod
    def backward(ctx, grad: Tensor) -> Tensor:
        return _Part.apply(grad)


class _Part(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x: Tensor) -> Tensor:
        n, h, w, c = x.shape
        x = x.reshape(n, h // 2, 2, w // 2, 2, c)
        bands = x.new_empty(n, h // 2, w // 2, 4 * c)
        _butterfly(x[:, :, 0, :, 0], x[:, :, 0, :, 1], x[:, :, 1, :, 0], x[:, :, 1, :, 1], bands.chunk(4, -1))
        return bands

    @staticmethod
    def backward(ctx, grad: Tensor) -> Tensor:
        return _Merge.apply(grad)


def double(x: Tensor) -> Tensor:
    """[n, h, w, 4c] with bands (ll, lh, hl, hh) in runs to [n, 2h, 2w, c]; the factor 1/2 is left to the caller."""
    return _Merge.apply(x)
