"""A three-conv network with seeded weights: fast enough to be trained inside a test."""

from collections.abc import Sequence

from torch import nn

from engine.classifiers import classifiers
from engine.classifiers.base import BlockClassifier, Centre, Pool, initialise


@classifiers.register("tiny")
class Tiny(BlockClassifier):
    """Three blocks of conv, norm, ReLU, the first two halving the image, and a linear head."""

    architecture = "tiny"
    stage_cut = 2

    def __init__(self, classes: Sequence[str], channels: int = 1, width: int = 16, seed: int = 0) -> None:
        super().__init__(classes, channels)
        self.config = {"classes": self.classes, "channels": channels, "width": width, "seed": seed}
        sizes = [(channels, width, 2), (width, 2 * width, 2), (2 * width, 4 * width, 1)]
        for index, (inside, outside, stride) in enumerate(sizes):
            layers = [Centre()] if index == 0 else []
            layers += [nn.Conv2d(inside, outside, 3, stride, 1, bias=False), nn.BatchNorm2d(outside), nn.ReLU()]
            self.blocks.append(nn.Sequential(*layers))
        self.blocks[-1].append(Pool())
        self.blocks.append(nn.Linear(4 * width, len(self.classes)))
        initialise(self, seed)
