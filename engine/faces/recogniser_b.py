"""Recogniser B: dlib's face ResNet, 150 px, 128-d. Judges identity, independent of the A that losses use.

Its raw vectors all point much the same way (other people's cosine is 0.84), so similarity is the L2 distance or the
cosine after the mean over many faces is taken away.
"""

from functools import cache

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from engine import assets
from engine.faces.crop import Crop

SIZE = 150
# Where dlib's chip lies in an FFHQ-aligned image: its five points fitted to the mean points of 300 such faces.
FFHQ = Crop(x0=0.1570, y0=0.2528, side=0.6992)
STAGES = {32: ("1", "2", "3"), 64: ("down", "1", "2", "3"), 128: ("down", "1", "2"), 256: ("down", "1", "2")}


@cache
def recogniser_b(device: torch.device | str = "cpu") -> "DlibResNet":
    """The one shared, frozen copy on this device."""
    return assets.network(DlibResNet, "recogniser-b", device)


class DlibResNet(nn.Module):
    """Tight face chips [n, 3, 150, 150] in [-1, 1] to vectors [n, 128]."""

    def __init__(self) -> None:
        super().__init__()
        self.conv32_down = nn.ModuleDict({"conv": nn.Conv2d(3, 32, 7, 2), "scale": Scale(32)})
        channels, self.order = 32, []
        for out, parts in STAGES.items():
            for part in parts:
                self._append(f"conv{out}_{part}", Residual(channels, out, is_down=part == "down"))
                channels = out
        self._append("conv256_down_out", Residual(256, 256, is_down=True))
        self.fc = nn.Linear(256, 128, bias=False)

    def _append(self, name: str, block: nn.Module) -> None:
        self.add_module(name, block)
        self.order.append(name)

    def forward(self, x: Tensor) -> Tensor:
        mean = x.new_tensor([122.782, 117.001, 104.298])
        x = ((x + 1) * 127.5 - mean[:, None, None]) / 256
        x = F.relu(self.conv32_down["scale"](self.conv32_down["conv"](x)))
        x = F.max_pool2d(x, 3, 2)
        for name in self.order:
            x = getattr(self, name)(x)
        return self.fc(x.mean((2, 3)))

    def of_ffhq(self, images: Tensor) -> Tensor:
        """Vectors of FFHQ-aligned images of any size, through the fixed crop."""
        return self(FFHQ.take(images, SIZE))


class Scale(nn.Module):
    """What is left of a batch norm after training: a factor and an offset per channel."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(channels))
        self.bias = nn.Parameter(torch.zeros(channels))

    def forward(self, x: Tensor) -> Tensor:
        return x * self.weight[:, None, None] + self.bias[:, None, None]


class Residual(nn.Module):
    """Two convolutions and a shortcut; going down, the shortcut is average-pooled and padded with zero channels."""

    def __init__(self, channels: int, out: int, *, is_down: bool) -> None:
        super().__init__()
        self.is_down = is_down
        first = nn.Conv2d(channels, out, 3, 2) if is_down else nn.Conv2d(channels, out, 3, padding=1)
        self.conv1 = nn.ModuleDict({"conv": first, "scale": Scale(out)})
        self.conv2 = nn.ModuleDict({"conv": nn.Conv2d(out, out, 3, padding=1), "scale": Scale(out)})

    def forward(self, x: Tensor) -> Tensor:
        y = F.relu(self.conv1["scale"](self.conv1["conv"](x)))
        y = self.conv2["scale"](self.conv2["conv"](y))
        if not self.is_down:
            return F.relu(y + x)
        short = F.avg_pool2d(x, 2)
        # Without padding the strided convolution may end one row and column short of the pooled shortcut.
        y = F.pad(y, (0, short.shape[3] - y.shape[3], 0, short.shape[2] - y.shape[2]))
        short = F.pad(short, (0, 0, 0, 0, 0, y.shape[1] - short.shape[1]))
        return F.relu(y + short)


def centred_similarity(a: Tensor, b: Tensor, mean: Tensor) -> Tensor:
    """Cosine of B's vectors after the mean over random faces is taken away: 1 the same, about 0 for strangers."""
    return F.cosine_similarity(a - mean, b - mean, dim=-1)
