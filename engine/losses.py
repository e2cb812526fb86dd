"""Distances that methods minimise: perceptual (LPIPS) and identity. Each network is loaded once, shared and frozen.

The side that does not change in a loop is computed once:

    look = lpips("alex", images.device)
    target = look.features(frozen_images)          # under no_grad
    for ...:
        loss = look.distance(look.features(student_images), target).mean()
"""

from functools import cache
from typing import Literal

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable
from torch.nn import functional as F

from engine import assets
from engine.core.errors import UserError
from engine.faces.recogniser_a import recogniser_a
from engine.laid import lay_out

SMALLEST = 64  # px; smaller images are enlarged first, since the trunks halve the size up to five times


@cache
def lpips(net: Literal["alex", "vgg"] = "alex", device: torch.device | str = "cpu") -> "Perceptual":
    """LPIPS v0.1 on this device. Alex in loops; VGG, 12 to 16 times as slow on a CPU, for reports."""
    if net not in ("alex", "vgg"):
        raise UserError(f"LPIPS has no trunk {net!r}; known: alex, vgg")
    from engine import vision

    network = Perceptual(vision.lpips_network(net, assets.load(f"lpips-{net}"))).to(device)
    return lay_out(network) if net == "alex" else network  # VGG's maps are large beside its weights


class Perceptual(nn.Module):
    """The lpips package's network in two halves, so that one side's features can be kept."""

    def __init__(self, network: nn.Module) -> None:
        super().__init__()
        self.network = network

    def features(self, images: Tensor) -> tuple[Tensor, ...]:
        """Unit-length feature maps of images in [-1, 1], one per layer that LPIPS compares."""
        return tuple(unit(x) for x in self.maps(images))

    def maps(self, images: Tensor) -> tuple[Tensor, ...]:
        """The same as the trunk gives them."""
        if min(images.shape[-2:]) < SMALLEST:
            images = F.interpolate(images, size=(SMALLEST, SMALLEST), mode="bilinear", align_corners=False)
        return tuple(self.network.net(self.network.scaling_layer(images)))

    def distance(self, a: tuple[Tensor, ...], b: tuple[Tensor, ...]) -> Tensor:
        """LPIPS [n] of two `features`; b may hold one image for all of a."""
        layers = zip(self.network.lins, a, b, strict=True)
        return sum(head((x - y).square()).mean((1, 2, 3)) for head, x, y in layers)

    def forward(self, a: Tensor, b: Tensor) -> Tensor:
        """LPIPS [n] of two batches of images in [-1, 1]."""
        return self.distance(self.features(a), self.features(b))


def mean_square(a: Tensor, b: Tensor) -> Tensor:
    """Mean squared difference [n] of two batches of maps; gradients reach the first alone."""
    return _MeanSquare.apply(a, b.detach())


class _MeanSquare(torch.autograd.Function):
    """torch's own takes ten times as long for maps of a megabyte, most of it in passes of its backward."""

    @staticmethod
    def forward(ctx, a, b):
        away = a - b
        ctx.save_for_backward(away)
        return torch.linalg.vector_norm(away, dim=tuple(range(1, away.ndim))).square() / away[0].numel()

    @staticmethod
    @once_differentiable
    def backward(ctx, grad):
        (away,) = ctx.saved_tensors
        return away * (2 / away[0].numel() * grad).view(-1, *[1] * (away.ndim - 1)), None


def unit(x: Tensor) -> Tensor:
    """A feature map whose every place is a vector of length 1."""
    return x / (x.square().sum(1, keepdim=True).sqrt() + 1e-10)


def identity(images: Tensor) -> Tensor:
    """Recogniser A's unit vectors [n, 128] of FFHQ-aligned images [n, 3, h, h] in [-1, 1]; differentiable."""
    return recogniser_a(images.device).of_ffhq(images)


def identity_similarity(a: Tensor, b: Tensor) -> Tensor:
    """Cosine [n] of two batches of FFHQ-aligned images. Strangers of the default base: 0.15, std 0.13."""
    return (identity(a) * identity(b)).sum(-1)
