"""Drawn shapes in ten classes: pictures that belong to no task, for backbones that must be trained beforehand."""

import math

import torch
from torch import Tensor

from engine.data import ImageSet
from engine.masks.randomness import keyed

CLASSES = ("rows", "columns", "rising", "falling", "disc", "ring", "square", "frame", "cross", "checker")
WORDS = "drawn shapes, made from the seed"  # for the vault's card


def shapes(image: tuple[int, int, int], count: int, seed: int) -> ImageSet:
    """`count` pictures of random place, size and colours, with noise."""
    random = keyed(seed, "all", "shapes")
    channels, height, width = image
    y = torch.arange(count) % len(CLASSES)
    place, stretch = _draw(random, count, 2, -0.35, 0.35), _draw(random, count, 1, 0.35, 0.75)[:, 0, None, None]
    v, u = torch.meshgrid(torch.linspace(-1, 1, height), torch.linspace(-1, 1, width), indexing="ij")
    u, v = u - place[:, 0, None, None], v - place[:, 1, None, None]
    figure = _figures(u, v, stretch, _draw(random, count, 1, 0, math.tau)[:, 0, None, None])
    drawn = figure[y, torch.arange(count)][:, None].float()  # [n, 1, h, w]
    ink, paper = _draw(random, count, channels, 0, 1), _draw(random, count, channels, 0, 1)
    ink, paper = torch.maximum(ink, paper + 0.3), torch.minimum(paper, ink)
    flip = torch.rand(count, generator=random)[:, None] < 0.3
    ink, paper = torch.where(flip, paper, ink), torch.where(flip, ink, paper)
    x = paper[..., None, None] + (ink - paper)[..., None, None] * drawn
    x = x + 0.08 * torch.randn(x.shape, generator=random)
    return ImageSet((x.clamp(0, 1) * 255).round().to(torch.uint8), y, CLASSES)


def _figures(u: Tensor, v: Tensor, size: Tensor, phase: Tensor) -> Tensor:
    """All ten at every place: [10, n, h, w]."""
    wave = 3.5 / size
    radius, box = (u * u + v * v).sqrt(), torch.maximum(u.abs(), v.abs())
    thin = 0.35 * size
    return torch.stack(
        [
            (wave * v + phase).sin() > 0,
            (wave * u + phase).sin() > 0,
            (wave * (u - v) * 0.7 + phase).sin() > 0,
            (wave * (u + v) * 0.7 + phase).sin() > 0,
            radius < size,
            (radius - size).abs() < thin,
            box < size,
            (box - size).abs() < thin,
            (torch.minimum(u.abs(), v.abs()) < thin) & (box < size * 1.3),
            (wave * u + phase).sin() * (wave * v + phase).sin() > 0,
        ]
    )


def _draw(random: torch.Generator, count: int, columns: int, low: float, high: float) -> Tensor:
    return low + (high - low) * torch.rand(count, columns, generator=random)
