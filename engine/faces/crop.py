"""A fixed square of an image, resized; differentiable, for networks that look at FFHQ-aligned generator output."""

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional as F


@dataclass(frozen=True)
class Crop:
    """A square in parts of the image's side, so that it fits any size."""

    x0: float
    y0: float
    side: float

    def take(self, images: Tensor, size: int) -> Tensor:
        """[n, 3, h, h] to [n, 3, size, size]. Halves the image first where it shrinks much, so that nothing aliases."""
        while self.side * images.shape[-1] >= 2 * size:
            images = F.avg_pool2d(images, 2)
        x = self._line(self.x0, size, images)
        y = self._line(self.y0, size, images)
        grid = torch.stack(torch.broadcast_tensors(x[None, :], y[:, None]), -1)  # [size, size, 2]
        grid = grid.expand(len(images), -1, -1, -1)
        return F.grid_sample(images, grid, mode="bilinear", padding_mode="border", align_corners=False)

    def _line(self, start: float, size: int, like: Tensor) -> Tensor:
        centres = (torch.arange(size, device=like.device, dtype=like.dtype) + 0.5) / size
        return (start + self.side * centres) * 2 - 1
