"""Batches of labelled images: shuffled, shifted and mirrored from one random stream, as floats in [0, 1]."""

from collections.abc import Iterator

import torch
import torch.nn.functional as F
from torch import Tensor

from engine.data import ImageSet


def batches(
    data: ImageSet, size: int, random: torch.Generator, *, shift: int = 0, flip: bool = False
) -> Iterator[tuple[Tensor, Tensor]]:
    """One epoch of (images, labels), every image once. A last batch of one image joins the one before it."""
    order = torch.randperm(len(data), generator=random)
    parts = list(order.split(size))
    if len(parts) > 1 and len(parts[-1]) == 1:  # a norm layer in training mode needs two
        parts[-2:] = [torch.cat(parts[-2:])]
    for part in parts:
        yield vary(to_float(data.x[part]), random, shift=shift, flip=flip), data.y[part]


def draw(
    data: ImageSet, size: int, random: torch.Generator, *, shift: int = 0, flip: bool = False
) -> tuple[Tensor, Tensor]:
    """One random batch of (images, labels), no image twice. All its state is in `random`, so that a run can resume."""
    part = torch.randperm(len(data), generator=random)[:size]
    return vary(to_float(data.x[part]), random, shift=shift, flip=flip), data.y[part]


def vary(x: Tensor, random: torch.Generator, *, shift: int = 0, flip: bool = False) -> Tensor:
    """Each image moved by up to `shift` pixels (edges repeated) and mirrored half of the time."""
    if flip:
        mirrored = torch.rand(len(x), generator=random) < 0.5
        x = torch.where(mirrored[:, None, None, None], x.flip(3), x)
    if shift:
        height, width = x.shape[2:]
        padded = F.pad(x, (shift,) * 4, mode="replicate")
        offsets = torch.randint(2 * shift + 1, (len(x), 2), generator=random).tolist()
        x = torch.stack(
            [image[:, i : i + height, j : j + width] for image, (i, j) in zip(padded, offsets, strict=True)]
        )
    return x


def to_float(x: Tensor) -> Tensor:
    """uint8 to [0, 1], in the memory order that convolutions on a CPU like best."""
    return (x.float() / 255).contiguous(memory_format=torch.channels_last)
