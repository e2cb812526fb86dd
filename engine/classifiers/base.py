"""What every classifier here shares: a row of blocks that can be cut anywhere, and images in [0, 1]."""

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from engine.core.errors import UserError


class BlockClassifier(nn.Module):
    """Subclasses fill `blocks`; the last block is the linear head, so that everything before it gives the features.

    `split(n)` runs the very same modules in the same order as the whole, so shallow then deep equals it bit for bit.
    """

    architecture: str  # its name in the registry: `classifiers[architecture](**config)` rebuilds it
    editable = ("blocks.*",)
    stage_cut: int  # the block after which the paper cuts: two stages in front, the rest behind

    def __init__(self, classes: Sequence[str], channels: int) -> None:
        super().__init__()
        self.classes, self.channels = tuple(classes), channels
        self.blocks = nn.ModuleList()

    def split(self, n: int) -> tuple[nn.Sequential, nn.Sequential]:
        """(shallow, deep): the first n blocks and the others. They share the weights with this network."""
        if not 1 <= n < len(self.blocks):
            raise UserError(
                f"split={n}: this network has {len(self.blocks)} blocks, so cut after 1 to {len(self.blocks) - 1}"
            )
        return nn.Sequential(*self.blocks[:n]), nn.Sequential(*self.blocks[n:])

    def features(self, x: Tensor) -> Tensor:
        for block in self.blocks[:-1]:
            x = block(x)
        return x  # [n, width of the head]

    def logits(self, x: Tensor, *, task: int | None = None) -> Tensor:
        return self.blocks[-1](self.features(x))

    def forward(self, x: Tensor) -> Tensor:
        return self.logits(x)


class Centre(nn.Module):
    """[0, 1] to [-1, 1]."""

    def forward(self, x: Tensor) -> Tensor:
        return x * 2 - 1


class Pool(nn.Module):
    """Mean over positions."""

    def forward(self, x: Tensor) -> Tensor:
        return x.mean((2, 3))


def initialise(model: nn.Module, seed: int) -> None:
    """He's normal start from one seed, whatever torch's global stream holds. Norms keep scale 1 and shift 0."""
    random = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for module in model.modules():
            if isinstance(module, nn.Conv2d):
                spread = (2 / (module.out_channels * module.kernel_size[0] * module.kernel_size[1])) ** 0.5
                module.weight.copy_(torch.randn(module.weight.shape, generator=random) * spread)
            elif isinstance(module, nn.Linear):
                spread = module.in_features**-0.5
                module.weight.copy_(torch.randn(module.weight.shape, generator=random) * spread)
                module.bias.zero_()
