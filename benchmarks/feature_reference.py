"""Feature unlearning's training step as the paper has it, written plainly: the yardstick of `feature_step`.

What the frozen generator shows is made anew in every step, in single precision; there is no official code to follow.
As in GUIDE's yardstick, MobileStyleGAN runs as its authors publish it, other generators as ours do. MS-SSIM is as the
public packages write it, each moment blurred by two depthwise convs whose gradients autograd finds; ours has the same
values (`tests/test_msssim.py`) and a quicker way to them.
"""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from benchmarks.guide_reference import picture_of
from engine.directions.direction import Direction, edit
from engine.methods.feature import Feature
from engine.msssim import K1, K2, SIGMA, WEIGHTS, floored, levels_of, window_of


class PlainStep:
    """`loss` of a batch of codes. Pictures are made at the side `made` and compared, area-downscaled, at `size`."""

    def __init__(self, knobs: Feature, base: nn.Module, directions: list[Direction], size: int, made: int) -> None:
        self.knobs, self.base, self.directions, self.size, self.made = knobs, base, directions, size, made

    def loss(self, student: nn.Module, codes: Tensor) -> Tensor:
        moved, forget = edit(codes[:, None], self.directions)
        with torch.no_grad():
            goal = self.picture(self.base, moved[:, 0])
        picture = self.picture(student, codes)
        pixels, structure = (picture - goal).abs().mean((1, 2, 3)), structure_distance(picture, goal)
        return torch.where(forget, self.knobs.alpha * (pixels + structure), pixels).mean()

    def picture(self, model: nn.Module, codes: Tensor) -> Tensor:
        w = codes[:, None].expand(-1, model.num_ws, -1)
        return F.adaptive_avg_pool2d(picture_of(model, w, self.made), self.size)


def structure_distance(x: Tensor, y: Tensor) -> Tensor:
    """1 - MS-SSIM of pictures in about [-1, 1], of less than 161 px a side."""
    x, y = (x + 1) / 2, (y + 1) / 2
    side = min(x.shape[-2:])
    levels, at = levels_of(side), torch.arange(window_of(side)).to(x) - window_of(side) // 2
    window, weights = torch.exp(-(at**2) / (2 * SIGMA**2)), x.new_tensor(WEIGHTS[:levels])
    terms = []
    for level in range(levels):
        similarity, contrast = ssim_parts(x, y, window / window.sum())
        if level + 1 < levels:
            terms.append(floored(contrast))
            pad = [side % 2 for side in x.shape[-2:]]
            x, y = (F.avg_pool2d(image, 2, padding=pad) for image in (x, y))
    terms.append(floored(similarity))
    powers = (weights / weights.sum())[:, None, None]
    return 1 - (torch.stack(terms) ** powers).prod(0).mean(1)


def ssim_parts(x: Tensor, y: Tensor, window: Tensor) -> tuple[Tensor, Tensor]:
    """Mean SSIM and mean contrast-structure term, [n, c] each."""
    c1, c2 = K1**2, K2**2
    n, c = x.shape[:2]
    stacked = torch.cat([x, y, x * x, y * y, x * y], 1)
    kernel = window.expand(5 * c, 1, 1, -1)
    stacked = F.conv2d(F.conv2d(stacked, kernel, groups=5 * c), kernel.mT, groups=5 * c)
    mean_x, mean_y, xx, yy, xy = stacked.view(n, 5, c, *stacked.shape[-2:]).unbind(1)
    var_x, var_y, cov = xx - mean_x**2, yy - mean_y**2, xy - mean_x * mean_y
    contrast = (2 * cov + c2) / (var_x + var_y + c2)
    luminance = (2 * mean_x * mean_y + c1) / (mean_x**2 + mean_y**2 + c1)
    return (luminance * contrast).mean((2, 3)), contrast.mean((2, 3))
