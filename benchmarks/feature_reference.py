"""Feature unlearning's training step as the paper has it, written plainly: the yardstick of `feature_step`.

What the frozen generator shows is made anew in every step, in single precision; there is no official code to follow.
As in GUIDE's yardstick, MobileStyleGAN runs as its authors publish it, other generators as ours do.
"""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from benchmarks.guide_reference import picture_of
from engine.directions.direction import Direction, edit
from engine.methods.feature import Feature
from engine.msssim import structure_distance


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
