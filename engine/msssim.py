"""Multi-scale structural similarity that works from 7 px up and always has a slope (Wang et al. 2003).

From 161 px on pytorch-msssim computes it. That package refuses smaller sides, and for anti-correlated pictures its
gradient is zero or not a number. There ours takes over: number of scales and window follow the side, and a scale's term
below a small floor decays instead of being cut. Where both can, they agree.
"""

import math

import torch
import torch.nn.functional as F
from torch import Tensor

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
    window = _gaussian(window_of(side), x)
    terms = []
    for level in range(levels):
        luminance, contrast = _ssim_parts(x, y, window, data_range)
        if level + 1 < levels:
            terms.append(_floored(contrast))
            pad = [side % 2 for side in x.shape[-2:]]
            x, y = (F.avg_pool2d(image, 2, padding=pad) for image in (x, y))
    terms.append(_floored(luminance))
    powers = (weights / weights.sum())[:, None, None]
    return (torch.stack(terms) ** powers).prod(0).mean(1)  # [levels, n, c] -> [n]


def _ssim_parts(x: Tensor, y: Tensor, window: Tensor, data_range: float) -> tuple[Tensor, Tensor]:
    """Mean SSIM and mean contrast-structure term, [n, c] each."""
    c1, c2 = (K1 * data_range) ** 2, (K2 * data_range) ** 2
    n, c = x.shape[:2]
    stacked = torch.cat([x, y, x * x, y * y, x * y], 1)
    kernel = window.expand(5 * c, 1, 1, -1)
    stacked = F.conv2d(F.conv2d(stacked, kernel, groups=5 * c), kernel.mT, groups=5 * c)
    mean_x, mean_y, xx, yy, xy = stacked.view(n, 5, c, *stacked.shape[-2:]).unbind(1)
    var_x, var_y, cov = xx - mean_x**2, yy - mean_y**2, xy - mean_x * mean_y
    contrast = (2 * cov + c2) / (var_x + var_y + c2)
    luminance = (2 * mean_x * mean_y + c1) / (mean_x**2 + mean_y**2 + c1)
    return (luminance * contrast).mean((2, 3)), contrast.mean((2, 3))


def _floored(term: Tensor) -> Tensor:
    """The term itself above the floor; below it positive, finite and sloped."""
    return torch.where(term > FLOOR, term, FLOOR * torch.exp((term.clamp(max=FLOOR) - FLOOR) / DECAY))


def _gaussian(size: int, like: Tensor) -> Tensor:
    at = torch.arange(size, dtype=like.dtype, device=like.device) - size // 2
    bell = torch.exp(-(at**2) / (2 * SIGMA**2))
    return bell / bell.sum()
