"""EfficientNet-lite0 (ImageNet): a backbone for our small encoders and classifiers, and features for set distances.

Distances measured on it are called FD-eff and KID-eff, never FID: the standard Inception is another network.
"""

from dataclasses import dataclass
from functools import cache

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from engine import assets
from engine.core.errors import UserError
from engine.padding import pad_same

SIZE = 224  # what the set distances resize to
# (expansion, kernel, stride of the first, channels, repeats)
STAGES = (
    (1, 3, 1, 16, 1),
    (6, 3, 2, 24, 2),
    (6, 5, 2, 40, 2),
    (6, 3, 2, 80, 3),
    (6, 5, 1, 112, 3),
    (6, 5, 2, 192, 4),
    (6, 3, 1, 320, 1),
)
TAPS = (24, 40, 112, 320)  # channels of the last blocks at strides 4, 8, 16, 32


@cache
def backbone(device: torch.device | str = "cpu") -> "EfficientNetLite":
    """The one shared, frozen copy on this device. Copy it to fine-tune."""
    return assets.network(EfficientNetLite, "efficientnet-lite0", device)


@dataclass(frozen=True)
class Features:
    """What the backbone says of a batch."""

    maps: tuple[Tensor, ...]  # [n, 24, h/4, w/4], [n, 40, h/8, …], [n, 112, h/16, …], [n, 320, h/32, …]
    pooled: Tensor  # [n, 1280]


class EfficientNetLite(nn.Module):
    """Images [n, 3, h, w] in [-1, 1] of any size to `Features`; `logits` to the ImageNet classes."""

    def __init__(self) -> None:
        super().__init__()
        self.conv_stem, self.bn0 = SameConv(3, 32, 3, 2), _norm(32)
        blocks, channels = [], 32
        for expansion, kernel, stride, out, repeats in STAGES:
            for repeat in range(repeats):
                blocks.append(Block(channels, out, kernel, stride if repeat == 0 else 1, expansion))
                channels = out
        self.blocks = nn.ModuleList(blocks)
        self.conv_head, self.bn1 = nn.Conv2d(channels, 1280, 1, bias=False), _norm(1280)
        self.fc = nn.Linear(1280, 1000)

    def forward(self, x: Tensor) -> Features:
        x = (x * 127.5 + 0.5) / 128  # trained on (pixel - 127) / 128
        x = F.relu6(self.bn0(self.conv_stem(x)))
        maps: dict[int, Tensor] = {}
        for block in self.blocks:
            x = block(x)
            maps[x.shape[1]] = x
        pooled = F.relu6(self.bn1(self.conv_head(x))).mean((2, 3))
        return Features(tuple(maps[channels] for channels in TAPS), pooled)

    def logits(self, x: Tensor) -> Tensor:
        return self.fc(self(x).pooled)


class SameConv(nn.Conv2d):
    """A convolution with tensorflow's padding."""

    def __init__(self, channels: int, out: int, kernel: int, stride: int, groups: int = 1) -> None:
        super().__init__(channels, out, kernel, stride, groups=groups, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        return super().forward(pad_same(x, kernel=self.kernel_size[0], stride=self.stride[0]))


class Block(nn.Module):
    """A mobile inverted bottleneck without squeeze-and-excitation."""

    def __init__(self, channels: int, out: int, kernel: int, stride: int, expansion: int) -> None:
        super().__init__()
        wide = channels * expansion
        self.is_residual = stride == 1 and channels == out
        if expansion > 1:
            self.expand_conv, self.bn0 = nn.Conv2d(channels, wide, 1, bias=False), _norm(wide)
        self.depthwise_conv, self.bn1 = SameConv(wide, wide, kernel, stride, groups=wide), _norm(wide)
        self.project_conv, self.bn2 = nn.Conv2d(wide, out, 1, bias=False), _norm(out)

    def forward(self, x: Tensor) -> Tensor:
        y = F.relu6(self.bn0(self.expand_conv(x))) if hasattr(self, "expand_conv") else x
        y = self.bn2(self.project_conv(F.relu6(self.bn1(self.depthwise_conv(y)))))
        return x + y if self.is_residual else y


def _norm(channels: int) -> nn.BatchNorm2d:
    return nn.BatchNorm2d(channels, eps=1e-3)


@torch.no_grad()
def pooled(images: Tensor, batch: int = 16) -> Tensor:
    """Features [n, 1280] of images in [-1, 1], each resized to 224 px; on the images' device."""
    network, rows = backbone(images.device), []
    for part in images.split(batch):
        resized = F.interpolate(part, size=(SIZE, SIZE), mode="bilinear", align_corners=False, antialias=True)
        rows.append(network(resized.clamp(-1, 1)).pooled)
    return torch.cat(rows)


def frechet_distance(a: Tensor, b: Tensor) -> float:
    """FD-eff between two sets of features [n, d]: |m_a - m_b|^2 + tr(S_a + S_b - 2 (S_a S_b)^(1/2)), with n - 1.

    With X the centred rows over sqrt(n - 1), S = X'X, and the last trace is the sum of the singular values of
    X_a X_b'. That is exact for few samples too, where S is singular and a matrix root breaks down.
    """
    a, b = a.double().cpu(), b.double().cpu()
    if min(len(a), len(b)) < 2:
        raise UserError("a set distance needs at least 2 images on each side")
    mean_a, mean_b = a.mean(0), b.mean(0)
    x_a, x_b = (a - mean_a) / (len(a) - 1) ** 0.5, (b - mean_b) / (len(b) - 1) ** 0.5
    total = (mean_a - mean_b).square().sum() + x_a.square().sum() + x_b.square().sum()
    # Rows beyond d add nothing to S: the triangle of a QR has the same X'X.
    x_a, x_b = (torch.linalg.qr(x, mode="r").R if len(x) > x.shape[1] else x for x in (x_a, x_b))
    return float(total - 2 * torch.linalg.matrix_norm(x_a @ x_b.T, ord="nuc"))


def kernel_distance(a: Tensor, b: Tensor) -> float:
    """KID-eff: the unbiased squared MMD with the kernel (x.y / d + 1)^3. Near 0, also below, for equal sources."""
    a, b = a.double().cpu(), b.double().cpu()
    if min(len(a), len(b)) < 2:
        raise UserError("a set distance needs at least 2 images on each side")
    within_a, within_b, across = _kernel(a, a), _kernel(b, b), _kernel(a, b)
    n, m = len(a), len(b)
    own = (within_a.sum() - within_a.trace()) / (n * (n - 1)) + (within_b.sum() - within_b.trace()) / (m * (m - 1))
    return float(own - 2 * across.mean())


def _kernel(x: Tensor, y: Tensor) -> Tensor:
    return (x @ y.T / x.shape[1] + 1) ** 3
