"""The 68 landmarks of a face, in the usual order (jaw, brows, nose, eyes, mouth)."""

from functools import cache

import torch
from torch import Tensor

from engine import assets
from engine.faces.separable import FFHQ, SIZE, DenseFace


@cache
def landmarks(device: torch.device | str = "cpu") -> "Landmarks":
    """The one shared, frozen copy on this device."""
    return assets.network(Landmarks, "landmarks", device)


class Landmarks(DenseFace):
    """Face boxes [n, 3, 112, 112] in [-1, 1] to points [n, 68, 2], x and y in parts of the box."""

    def __init__(self) -> None:
        super().__init__(2 * 68)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(x).unflatten(1, (68, 2))

    def of_ffhq(self, images: Tensor) -> Tensor:
        """Points of FFHQ-aligned images of any size, in parts of the image."""
        points = self(FFHQ.take(images, SIZE))
        return points * FFHQ.side + points.new_tensor([FFHQ.x0, FFHQ.y0])
