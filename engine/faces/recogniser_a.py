"""Recogniser A: MobileFaceNet trained with ArcFace, 112 px, 128-d. Used in losses, so it must be differentiable.

Train with A, judge with B: a result that only A sees is not a result.
"""

from functools import cache

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.nn.utils import fuse_conv_bn_eval

from engine import assets
from engine.faces.bottleneck import Bottleneck
from engine.faces.crop import Crop

SIZE = 112
# Where the aligned 112 px face lies in an FFHQ-aligned image; agrees with landmark alignment at cosine 0.958.
FFHQ = Crop(x0=30.3 / 256, y0=26.0 / 256, side=199.3 / 256)
# (expansion, channels, repeats, stride of the first) as in MobileNetV2.
STAGES = ((2, 64, 5, 2), (4, 128, 1, 2), (2, 128, 6, 1), (4, 128, 1, 2), (2, 128, 2, 1))


@cache
def recogniser_a(device: torch.device | str = "cpu") -> "MobileFaceNet":
    """The one shared, frozen copy on this device."""
    return channels_last(folded(assets.network(MobileFaceNet, "recogniser-a", device)))


def folded(network: nn.Module) -> nn.Module:
    """Every norm in the convolution before it: a pass to be gone backward through keeps half as many maps."""
    for name, module in list(network.named_modules()):
        if isinstance(module, nn.Conv2d):
            conv, before = name, module
        elif isinstance(module, nn.BatchNorm2d):
            network.set_submodule(conv, fuse_conv_bn_eval(before, module))
            network.set_submodule(name, nn.Identity())
    return network


def channels_last(network: "MobileFaceNet") -> "MobileFaceNet":
    """A folded one that holds maps channels last, bottlenecks in one step of the backward pass: a look and its gradient
    take a quarter less time."""
    network.conv1.to(memory_format=torch.channels_last)  # what a conv gives lies as its weights do
    blocks = [Bottleneck(*block.convs, is_residual=block.is_residual) for block in network.features]
    network.features = nn.Sequential(*blocks)
    return network


class MobileFaceNet(nn.Module):
    """Aligned faces [n, 3, 112, 112] in [-1, 1] to unit vectors [n, 128]; their dot product is the similarity."""

    def __init__(self) -> None:
        super().__init__()
        self.conv1 = _conv_bn_relu(3, 64, stride=2)
        self.dw_conv = DepthwiseSeparable(64, 64)
        blocks, channels = [], 64
        for expansion, out, repeats, stride in STAGES:
            for repeat in range(repeats):
                blocks.append(InvertedResidual(channels, out, stride if repeat == 0 else 1, expansion))
                channels = out
        self.features = nn.Sequential(*blocks)
        self.conv2 = _conv_bn_relu(channels, 512, kernel=1)
        self.gdconv = nn.ModuleDict(
            {"depthwise": nn.Conv2d(512, 512, 7, groups=512, bias=False), "bn": nn.BatchNorm2d(512)}
        )
        self.conv3 = nn.Conv2d(512, 128, 1)
        self.bn = nn.BatchNorm2d(128)

    def forward(self, x: Tensor) -> Tensor:
        mean, std = x.new_tensor([0.485, 0.456, 0.406]), x.new_tensor([0.229, 0.224, 0.225])
        x = ((x + 1) / 2 - mean[:, None, None]) / std[:, None, None]
        x = self.conv2(self.features(self.dw_conv(self.conv1(x))))
        x = self.gdconv["bn"](self.gdconv["depthwise"](x))
        return F.normalize(self.bn(self.conv3(x)).flatten(1))

    def of_ffhq(self, images: Tensor) -> Tensor:
        """Unit vectors of FFHQ-aligned images of any size, through the fixed crop."""
        return self(FFHQ.take(images, SIZE))


class DepthwiseSeparable(nn.Module):
    def __init__(self, channels: int, out: int) -> None:
        super().__init__()
        self.depthwise = nn.Conv2d(channels, channels, 3, padding=1, groups=channels, bias=False)
        self.bn1 = nn.BatchNorm2d(channels)
        self.pointwise = nn.Conv2d(channels, out, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(out)

    def forward(self, x: Tensor) -> Tensor:
        return F.relu(self.bn2(self.pointwise(F.relu(self.bn1(self.depthwise(x))))))


class InvertedResidual(nn.Module):
    def __init__(self, channels: int, out: int, stride: int, expansion: int) -> None:
        super().__init__()
        wide = channels * expansion
        self.is_residual = stride == 1 and channels == out
        self.conv = nn.Sequential(
            _conv_bn_relu(channels, wide, kernel=1),
            _conv_bn_relu(wide, wide, stride=stride, groups=wide),
            nn.Conv2d(wide, out, 1, bias=False),
            nn.BatchNorm2d(out),
        )

    @property
    def convs(self) -> tuple[nn.Conv2d, nn.Conv2d, nn.Conv2d]:
        (expand, *_), (depth, *_), project, _ = self.conv
        return expand, depth, project

    def forward(self, x: Tensor) -> Tensor:
        return x + self.conv(x) if self.is_residual else self.conv(x)


def _conv_bn_relu(channels: int, out: int, *, kernel: int = 3, stride: int = 1, groups: int = 1) -> nn.Sequential:
    conv = nn.Conv2d(channels, out, kernel, stride, (kernel - 1) // 2, groups=groups, bias=False)
    return nn.Sequential(conv, nn.BatchNorm2d(out), nn.ReLU6())
