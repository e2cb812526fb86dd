"""Residual networks of the CIFAR kind (He et al., 2016): a 3x3 stem without pooling, then stages of basic blocks."""

from collections.abc import Sequence

import torch.nn.functional as F
from torch import Tensor, nn

from engine.classifiers import classifiers
from engine.classifiers.base import BlockClassifier, Centre, Pool, initialise


class Basic(nn.Module):
    """conv, norm, ReLU, conv, norm, plus the input. Where shapes differ the shortcut is a 1x1 conv with norm."""

    def __init__(self, inside: int, outside: int, stride: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(inside, outside, 3, stride, 1, bias=False)
        self.norm1 = nn.BatchNorm2d(outside)
        self.conv2 = nn.Conv2d(outside, outside, 3, 1, 1, bias=False)
        self.norm2 = nn.BatchNorm2d(outside)
        self.shortcut = nn.Identity()
        if stride != 1 or inside != outside:
            self.shortcut = nn.Sequential(nn.Conv2d(inside, outside, 1, stride, bias=False), nn.BatchNorm2d(outside))

    def forward(self, x: Tensor) -> Tensor:
        y = F.relu(self.norm1(self.conv1(x)))
        return F.relu(self.norm2(self.conv2(y)) + self.shortcut(x))


class ResNet(BlockClassifier):
    """Stem, basic blocks by stage (each stage after the first halves the image), mean over positions, linear head.

    The stem's stride is 1 for 32 px images; a larger one makes larger images as cheap (4 with a 7x7 kernel, as for
    ImageNet).
    """

    def __init__(
        self, classes: Sequence[str], channels: int, widths: Sequence[int], depth: int, stride: int, seed: int
    ) -> None:
        super().__init__(classes, channels)
        self.config = {
            "classes": self.classes,
            "channels": channels,
            "width": widths[0],
            "stride": stride,
            "seed": seed,
        }
        kernel = max(3, 2 * stride - 1)
        stem = nn.Conv2d(channels, widths[0], kernel, stride, kernel // 2, bias=False)
        self.blocks.append(nn.Sequential(Centre(), stem, nn.BatchNorm2d(widths[0]), nn.ReLU()))
        inside = widths[0]
        for stage, outside in enumerate(widths):
            for index in range(depth):
                self.blocks.append(Basic(inside, outside, 2 if stage > 0 and index == 0 else 1))
                inside = outside
        self.blocks.append(Pool())
        self.blocks.append(nn.Linear(inside, len(self.classes)))
        self.stage_cut = 1 + 2 * depth
        initialise(self, seed)


@classifiers.register("resnet20")
class ResNet20(ResNet):
    """Three stages of three blocks, 16 to 64 channels: 0.27 M parameters."""

    architecture = "resnet20"

    def __init__(
        self, classes: Sequence[str], channels: int = 3, width: int = 16, stride: int = 1, seed: int = 0
    ) -> None:
        super().__init__(classes, channels, (width, 2 * width, 4 * width), 3, stride, seed)


@classifiers.register("resnet18")
class ResNet18(ResNet):
    """Four stages of two blocks, 64 to 512 channels: 11.2 M parameters, the published experiments' network."""

    architecture = "resnet18"

    def __init__(
        self, classes: Sequence[str], channels: int = 3, width: int = 64, stride: int = 1, seed: int = 0
    ) -> None:
        super().__init__(classes, channels, (width, 2 * width, 4 * width, 8 * width), 2, stride, seed)
