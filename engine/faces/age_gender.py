"""Apparent age, and the probability that a face is taken for a man's: to measure drift, not to label people."""

from functools import cache

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from engine import assets
from engine.faces.separable import FFHQ, SIZE, Conv, Separable, max_pool_same, prepare


@cache
def age_gender(device: torch.device | str = "cpu") -> "AgeGender":
    """The one shared, frozen copy on this device."""
    return assets.network(AgeGender, "age-gender", device)


class AgeGender(nn.Module):
    """Face boxes [n, 3, 112, 112] in [-1, 1] to (age in years [n], probability of male [n]). A small Xception."""

    def __init__(self) -> None:
        super().__init__()
        self.entry_flow = nn.ModuleDict(
            {
                "conv_in": Conv(3, 32, 2),
                "reduction_block_0": Reduction(32, 64, is_first=True),
                "reduction_block_1": Reduction(64, 128),
            }
        )
        self.middle_flow = nn.ModuleDict({f"main_block_{index}": Main(128) for index in range(2)})
        self.exit_flow = nn.ModuleDict({"reduction_block": Reduction(128, 256), "separable_conv": Separable(256, 512)})
        self.fc = nn.ModuleDict({"age": nn.Linear(512, 1), "gender": nn.Linear(512, 2)})

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        x = F.relu(self.entry_flow["conv_in"](prepare(x)))
        x = self.entry_flow["reduction_block_1"](self.entry_flow["reduction_block_0"](x))
        for block in self.middle_flow.values():
            x = block(x)
        x = F.relu(self.exit_flow["separable_conv"](self.exit_flow["reduction_block"](x)))
        pooled = x.mean((2, 3))
        return self.fc["age"](pooled)[:, 0], self.fc["gender"](pooled).softmax(1)[:, 0]

    def of_ffhq(self, images: Tensor) -> tuple[Tensor, Tensor]:
        """Age and probability of male for FFHQ-aligned images of any size."""
        return self(FFHQ.take(images, SIZE))


class Reduction(nn.Module):
    """Two separable convolutions and a pool beside a strided 1x1 shortcut; halves the size."""

    def __init__(self, channels: int, out: int, *, is_first: bool = False) -> None:
        super().__init__()
        self.is_first = is_first
        self.separable_conv0, self.separable_conv1 = Separable(channels, out), Separable(out, out)
        self.expansion_conv = nn.Conv2d(channels, out, 1, 2)

    def forward(self, x: Tensor) -> Tensor:
        y = self.separable_conv0(x if self.is_first else F.relu(x))
        return max_pool_same(self.separable_conv1(F.relu(y))) + self.expansion_conv(x)


class Main(nn.Module):
    def __init__(self, channels: int) -> None:
        super().__init__()
        for index in range(3):
            self.add_module(f"separable_conv{index}", Separable(channels, channels))

    def forward(self, x: Tensor) -> Tensor:
        y = x
        for conv in self.children():
            y = conv(F.relu(y))
        return x + y
