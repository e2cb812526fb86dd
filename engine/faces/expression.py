"""Facial expression in seven classes. "happy" also fires on some closed mouths: calibrate before judging with it."""

from functools import cache

import torch
from torch import Tensor

from engine import assets
from engine.faces.separable import FFHQ, SIZE, DenseFace

CLASSES = ("neutral", "happy", "sad", "angry", "fearful", "disgusted", "surprised")


@cache
def expression(device: torch.device | str = "cpu") -> "Expression":
    """The one shared, frozen copy on this device."""
    return assets.network(Expression, "expression", device)


class Expression(DenseFace):
    """Face boxes [n, 3, 112, 112] in [-1, 1] to the probabilities of CLASSES [n, 7]."""

    def __init__(self) -> None:
        super().__init__(len(CLASSES))

    def forward(self, x: Tensor) -> Tensor:
        return self.head(x).softmax(1)

    def of_ffhq(self, images: Tensor) -> Tensor:
        """Probabilities for FFHQ-aligned images of any size."""
        return self(FFHQ.take(images, SIZE))
