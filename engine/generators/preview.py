"""A small head that turns an inner map into the picture the whole network would make, at twice the map's side."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn


@dataclass(frozen=True)
class Part:
    """A view of the columns of a linear layer that read one row of w."""

    weight: Tensor
    bias: None = None


class Preview(nn.Module):
    """One modulated 1x1 conv gives twelve linear outputs (the four pixels under a feature) and `hidden` more, which
    two 3x3 convs turn into a correction. Style comes from every row that the skipped blocks would have read, so
    that colours follow a W+ code; it enters by a narrow code, since few images must fit it."""

    def __init__(self, channels: int, w_dim: int, rows: Sequence[int], hidden: int, rank: int = 32) -> None:
        super().__init__()
        self.rows = list(rows)
        self.register_buffer("mean", torch.zeros(channels))
        self.register_buffer("std", torch.ones(channels))
        self.register_buffer("w_mean", torch.zeros(w_dim))
        self.code = nn.Linear(len(self.rows) * w_dim, rank, bias=False)
        self.gate = nn.Linear(rank, channels, bias=False)
        self.point = nn.Linear(channels, 12 + hidden)
        self.shift = nn.Linear(rank, 12 + hidden, bias=False)
        self.mix = nn.Conv2d(hidden, hidden, 3, padding=1)
        self.last = nn.Conv2d(hidden, 12, 3, padding=1)
        for layer in (self.gate, self.shift, self.last):
            nn.init.zeros_(layer.weight)
        nn.init.normal_(self.code.weight, std=(len(self.rows) * w_dim) ** -0.5)
        nn.init.zeros_(self.last.bias)

    def affines(self) -> list[tuple[Part, int]]:
        """What of the code reads which row. It reads w - w_mean, so there is no bias to go with it."""
        parts = self.code.weight.chunk(len(self.rows), 1)
        return [(Part(part), row) for part, row in zip(parts, self.rows, strict=True)]

    def forward(self, x: Tensor, w: Tensor) -> Tensor:
        """[n, h, w, c] and [n, num_ws, w_dim] to [n, 3, 2h, 2w]."""
        code = self.code((w[:, self.rows] - self.w_mean).flatten(1))
        point = self.point.weight * ((1 + self.gate(code)) / self.std)[:, None]  # [n, 12 + hidden, c]
        bias = self.point.bias + self.shift(code) - point @ self.mean
        y = torch.baddbmm(bias[:, None], x.flatten(1, 2), point.mT).unflatten(1, x.shape[1:3]).permute(0, 3, 1, 2)
        linear, hidden = y[:, :12], F.leaky_relu(y[:, 12:], 0.2)
        pixels = linear + self.last(F.leaky_relu_(self.mix(hidden), 0.2))
        return F.pixel_shuffle(pixels, 2).contiguous()
