"""Multi-scale structural similarity that works from 7 px up and always has a slope (Wang et al. 2003).

From 161 px on pytorch-msssim computes it. That package refuses smaller sides, and for anti-correlated pictures its
gradient is zero or not a number. There ours takes over: number of scales and window follow the side, and a scale's term
below a small floor decays instead of being cut. Where both can, they agree.
"""

import math
from functools import cache

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.autograd.function import once_differentiable

from engine import products
from engine.core.errors import UserError

WEIGHTS = (0.0448, 0.2856, 0.3001, 0.2363, 0.1333)
K1, K2, SIGMA = 0.01, 0.03, 1.5
PACKAGED = 161  # px, the least side that pytorch-msssim takes
FLOOR, DECAY = 1e-3, 0.5  # below FLOOR a term c becomes FLOOR * exp((c - FLOOR) / DECAY)
SURE = FLOOR ** min(WEIGHTS)  # a similarity above it has no term below the floor


def window_of(side: int) -> int:
    return 11 if side >= PACKAGED else 7


def levels_of(side: int) -> int:
    """The largest number of scales, at most five, whose smallest picture still holds the window; halves are rounded
    up."""
    return max((n for n in range(1, 6) if math.ceil(side / 2 ** (n - 1)) >= window_of(side)), default=0)


def msssim(x: Tensor, y: Tensor, *, data_range: float = 1.0) -> Tensor:
    """One value per pair of [n, c, h, w] pictures in [0, data_range]; 1 for equal ones."""
    if min(x.shape[-2:]) < PACKAGED:
        return _by_us(x, y, data_range)
    with torch.no_grad():
        sure = (_by_package(x.flatten(0, 1)[:, None], y.flatten(0, 1)[:, None], data_range) > SURE).view(x.shape[:2])
        sure = sure.all(1)
    found = x.new_empty(len(x))
    for which, compute in ((sure, _by_package), (~sure, _by_us)):
        if which.any():
            found[which] = compute(x[which], y[which], data_range)
    return found


def structure_distance(x: Tensor, y: Tensor) -> Tensor:
    """1 - MS-SSIM of pictures in about [-1, 1]. They are moved to [0, 1] first: the luminance term needs it."""
    return 1 - msssim((x + 1) / 2, (y + 1) / 2)


def _by_package(x: Tensor, y: Tensor, data_range: float) -> Tensor:
    from pytorch_msssim import ms_ssim  # only large pictures wait for it

    weights = [weight / sum(WEIGHTS) for weight in WEIGHTS]
    return ms_ssim(x, y, data_range=data_range, size_average=False, weights=weights)


def _by_us(x: Tensor, y: Tensor, data_range: float) -> Tensor:
    side = min(x.shape[-2:])
    levels = levels_of(side)
    if not levels:
        raise UserError(f"pictures of {side} px are too small to compare by structure; use at least 7 px")
    weights = x.new_tensor(WEIGHTS[:levels])
    terms = floored(_Terms.apply(x, y, levels, window_of(side), data_range))
    return (terms ** (weights / weights.sum())[:, None, None]).prod(0).mean(1)  # [levels, n, c] -> [n]


class _Terms(torch.autograd.Function):
    """The mean contrast-structure term of every scale, of the last one the mean SSIM: [levels, n, c].

    Blurs are products with banded matrices, which leave a map turned around; its terms and means do not mind. As SSIM
    asks for the variances' sum alone, four maps are blurred, and three gradients; autograd would blur five and five.
    """

    @staticmethod
    def forward(ctx, x, y, levels, window, data_range):
        c1, c2 = (K1 * data_range) ** 2, (K2 * data_range) ** 2
        pictures, kept, terms = torch.stack([x, y]), [], []
        for level in range(levels):
            x, y = pictures
            blur = [_band(side, window, x.dtype, x.device) for side in pictures.shape[-2:]]
            moments = pictures.new_empty(4, *x.shape)
            moments[:2] = pictures
            torch.mul(x, y, out=moments[3])
            torch.mul(x, x, out=moments[2]).addcmul_(y, y)
            a, b, squares, product = _turned(moments, *blur)
            ab, aabb = a * b, (a * a).addcmul_(b, b)
            below = squares.sub_(aabb).add_(c2)  # both variances
            contrast = product.sub_(ab).mul_(2).add_(c2).div_(below)
            last = level + 1 == levels
            if last:
                scale = aabb.add_(c1)
                luminance = ab.mul_(2).add_(c1).div_(scale)
                terms.append((luminance * contrast).mean((2, 3)))
                kept += [pictures, *blur, a, b, below, contrast, luminance, scale]
            else:
                terms.append(contrast.mean((2, 3)))
                kept += [pictures, *blur, a, b, below, contrast]
                pictures = F.avg_pool2d(pictures.flatten(0, 1), 2, padding=_pad(pictures)).unflatten(0, (2, -1))
        ctx.save_for_backward(*kept)
        return torch.stack(terms)

    @staticmethod
    @once_differentiable
    def backward(ctx, grad):
        found = [None, None]
        for which in range(2):
            if ctx.needs_input_grad[which]:
                found[which] = _slope(ctx.saved_tensors, grad, which)
        return *found, None, None, None


def _slope(kept: tuple[Tensor, ...], grad: Tensor, which: int) -> Tensor:
    """The gradient of the first picture, or of the second."""
    to_x = None
    for level in reversed(range(len(grad))):
        pictures, high, wide, *means, below, contrast = kept[7 * level : 7 * level + 7]
        x, y, a, b = pictures[which], pictures[1 - which], means[which], means[1 - which]
        each = (grad[level] / (a.shape[-2] * a.shape[-1]))[..., None, None]
        maps = torch.empty(3, *a.shape, dtype=a.dtype, device=a.device)  # of the mean, of both variances, of x y
        if level + 1 == len(grad):
            luminance, scale = kept[-2:]
            lit = (b - luminance * a).mul_(contrast).mul_(2 * each).div_(scale)
            each = luminance * each
        share = each / below
        torch.mul(share, contrast, out=maps[1]).neg_()
        torch.mul(share, 2, out=maps[2])
        torch.mul(maps[1], a, out=maps[0]).mul_(-2).addcmul_(maps[2], b, value=-1)
        if level + 1 == len(grad):
            maps[0] += lit
        to_mean, to_squares, to_product = _turned(maps, wide.mT, high.mT)
        mine = to_mean.addcmul_(to_squares, x, value=2).addcmul_(to_product, y)
        if to_x is not None:
            how = [2, 2], [2, 2], _pad(x), False, True, None
            mine += torch.ops.aten.avg_pool2d_backward(to_x, x, *how)
        to_x = mine
    return to_x


def _turned(maps: Tensor, high: Tensor, wide: Tensor) -> Tensor:
    """Maps [..., h, w] blurred by products with `high` [h', h] and `wide` [w', w]: [..., w', h']."""
    half = products.linear(maps.flatten(0, -2), wide).view(*maps.shape[:-1], len(wide))
    return products.linear(half.mT.flatten(0, -2), high).view(*half.mT.shape[:-1], len(high))


@cache
@torch.inference_mode(False)  # it may be kept for a backward pass, whoever asked for it first
def _band(side: int, window: int, dtype: torch.dtype, device: torch.device) -> Tensor:
    """The matrix [side - window + 1, side] that blurs a row; no pixel outside is asked for."""
    at = torch.arange(window, dtype=dtype, device=device) - window // 2
    bell = torch.exp(-(at**2) / (2 * SIGMA**2))
    rows = [F.pad(bell / bell.sum(), (start, side - window - start)) for start in range(side - window + 1)]
    return torch.stack(rows)


def _pad(pictures: Tensor) -> list[int]:
    return [side % 2 for side in pictures.shape[-2:]]


def floored(term: Tensor) -> Tensor:
    """The term itself above the floor; below it positive, finite and sloped."""
    return torch.where(term > FLOOR, term, FLOOR * torch.exp((term.clamp(max=FLOOR) - FLOOR) / DECAY))
