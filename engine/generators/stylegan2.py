"""StyleGAN2 (Karras et al., CVPR 2020), skip architecture, under the names and shapes of the published networks.

Published pickles of StyleGAN2-ADA, of the StyleGAN3 code and of EG3D's backbone all load. Everything is computed in
single precision, also where the published code takes half precision on a GPU.
"""

import math
from collections.abc import Iterator, Mapping

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from engine import rounded
from engine.core.errors import UserError
from engine.generators import architectures, mapped
from engine.generators.layers import FullyConnected, double_image, fir_filter
from engine.generators.mapped import MappedGenerator, full_precision
from engine.generators.modulated import styled_conv

NOISES = ("const", "none", "random")
SPEED_ONLY = ("num_fp16_res", "fused_modconv_default", "fp16_channels_last")  # published options that change no result


class Noise:
    """Which noise the layers add: the stored one, none, or a fresh draw from `random`."""

    def __init__(self, kind: str = "const", random: torch.Generator | None = None) -> None:
        if kind not in NOISES:
            raise UserError(f"noise {kind!r}: must be one of {', '.join(NOISES)}")
        self.kind, self.random = kind, random

    def draw(self, n: int, stored: Tensor) -> Tensor | None:
        """[1 or n, 1, h, w], or None."""
        if self.kind == "random":
            where = stored.device if self.random is None else self.random.device
            return torch.randn(n, 1, *stored.shape, generator=self.random, device=where).to(stored.device)
        return stored[None, None] if self.kind == "const" else None


class Layer(nn.Module):
    """One styled conv; `up` doubles the side."""

    def __init__(self, inputs: int, outputs: int, w_dim: int, side: int, *, up=False, clamp=None, taps=(1, 3, 3, 1)):
        super().__init__()
        self.up, self.clamp = up, clamp
        self.affine = FullyConnected(w_dim, inputs, bias=1)
        self.weight = nn.Parameter(torch.randn(outputs, inputs, 3, 3))
        self.noise_strength = nn.Parameter(torch.zeros([]))
        self.bias = nn.Parameter(torch.zeros(outputs))
        self.register_buffer("resample_filter", fir_filter(taps))
        self.register_buffer("noise_const", torch.randn(side, side))

    def forward(self, x: Tensor, w: Tensor, noise: Noise) -> Tensor:
        drawn = noise.draw(len(x), self.noise_const)
        drawn = None if drawn is None else drawn * self.noise_strength
        fir = self.resample_filter if self.up else None
        return styled_conv(x, self.weight, self.affine(w), drawn, self.bias, fir=fir, clamp=self.clamp)


class ToRGB(nn.Module):
    """A modulated 1x1 conv without demodulation: one matrix product per sample."""

    def __init__(self, inputs: int, outputs: int, w_dim: int, *, clamp: float | None = None) -> None:
        super().__init__()
        self.clamp = clamp
        self.affine = FullyConnected(w_dim, inputs, bias=1)
        self.weight = nn.Parameter(torch.randn(outputs, inputs, 1, 1))
        self.bias = nn.Parameter(torch.zeros(outputs))

    def forward(self, x: Tensor, w: Tensor) -> Tensor:
        styles = self.affine(w) / math.sqrt(self.weight.shape[1])
        weight = self.weight.flatten(1) * styles[:, None]  # [n, outputs, inputs]
        pixels = x.permute(0, 2, 3, 1).flatten(1, 2)
        image = rounded.product(self.bias, pixels, weight).unflatten(1, x.shape[2:]).permute(0, 3, 1, 2)
        return image if self.clamp is None else F.hardtanh(image, -self.clamp, self.clamp)


class Block(nn.Module):
    """Two styled convs and the picture of this side, added to the doubled picture of the block before.

    `first` blocks start from a learnt constant; blocks that do not go `up` keep the side (EG3D's super-resolution).
    """

    def __init__(self, inputs, outputs, w_dim, side, colours, *, up=True, clamp=None, taps=(1, 3, 3, 1)) -> None:
        super().__init__()
        self.first, self.up = not inputs, up
        self.register_buffer("resample_filter", fir_filter(taps))
        if self.first:
            self.const = nn.Parameter(torch.randn(outputs, side, side))
        else:
            self.conv0 = Layer(inputs, outputs, w_dim, side, up=up, clamp=clamp, taps=taps)
        self.conv1 = Layer(outputs, outputs, w_dim, side, clamp=clamp, taps=taps)
        self.torgb = ToRGB(outputs, colours, w_dim, clamp=clamp)

    @property
    def readers(self) -> list[FullyConnected]:
        """The linear layers that read w, in the order of the rows they read."""
        return [part.affine for part in self.children() if hasattr(part, "affine")]

    def forward(self, x: Tensor | None, image: Tensor | None, w: Tensor, noise: Noise) -> tuple[Tensor, Tensor]:
        """`w` [n, 2 or 3, w_dim]: one row to each of conv0 (unless first), conv1, torgb."""
        x = self.const.expand(len(w), -1, -1, -1) if self.first else self.conv0(x, w[:, 0], noise)
        x = self.conv1(x, w[:, -2], noise)
        colours = self.torgb(x, w[:, -1])
        if image is not None:
            colours = colours + (double_image(image, self.resample_filter) if self.up else image)
        return x, colours


class Synthesis(nn.Module):
    def __init__(self, w_dim, img_resolution, img_channels, *, channel_base, channel_max, conv_clamp, taps) -> None:
        super().__init__()
        self.sides = [4 << i for i in range(int(math.log2(img_resolution)) - 1)]
        width = {side: min(channel_base // side, channel_max) for side in self.sides}
        for side in self.sides:
            inputs = width[side // 2] if side > 4 else 0
            block = Block(inputs, width[side], w_dim, side, img_channels, clamp=conv_clamp, taps=taps)
            self.add_module(f"b{side}", block)

    def blocks(self) -> Iterator[tuple[int, Block, slice]]:
        """Side, block, and the rows of w it reads. The last of them is also the first of the next block."""
        for i, side in enumerate(self.sides):
            yield side, getattr(self, f"b{side}"), slice(max(2 * i - 1, 0), 2 * i + 2)

    def forward(self, w: Tensor, noise: Noise) -> Iterator[tuple[Tensor, Tensor]]:
        """The map and the picture after each block; what is not asked for is not made."""
        w = w.to(self.b4.const.dtype)
        x = image = None
        for _, block, rows in self.blocks():
            x, image = block(x, image, w[:, rows], noise)
            yield x, image


@architectures.register("stylegan2")
class StyleGAN2(MappedGenerator):
    """Settings under their published names; `synthesis_kwargs` is how StyleGAN2-ADA nests the later ones.

    The picture is a sum over blocks, so the partial sums at a half and a quarter of the side are offered as previews.
    Features are the map after the block of the smallest offered side.
    """

    editable = ("synthesis.*",)

    def __init__(
        self,
        z_dim: int,
        c_dim: int,
        w_dim: int,
        img_resolution: int,
        img_channels: int,
        mapping_kwargs: Mapping[str, object] | None = None,
        synthesis_kwargs: Mapping[str, object] | None = None,
        **options: object,
    ) -> None:
        super().__init__()
        given = dict(synthesis_kwargs or {}) | options
        self.config = {"z_dim": z_dim, "c_dim": c_dim, "w_dim": w_dim, "img_resolution": img_resolution}
        self.config |= {"img_channels": img_channels, "mapping_kwargs": dict(mapping_kwargs or {})} | given
        if img_resolution < 4 or img_resolution & (img_resolution - 1):
            raise UserError(f"img_resolution {img_resolution}: must be a power of two, at least 4")
        self.z_dim, self.c_dim, self.w_dim = z_dim, c_dim, w_dim
        self.num_ws = 2 * int(math.log2(img_resolution)) - 2
        self.size = img_resolution
        self.sizes = tuple(side for side in (self.size // 4, self.size // 2, self.size) if side >= 4)
        self.mapping = mapped.Mapping(z_dim, c_dim, w_dim, **self.config["mapping_kwargs"])
        self.synthesis = Synthesis(w_dim, img_resolution, img_channels, **_synthesis_options(given))

    def affines(self) -> list[tuple[FullyConnected, int]]:
        blocks = ((block.readers, range(self.num_ws)[rows]) for _, block, rows in self.synthesis.blocks())
        return [pair for readers, rows in blocks for pair in zip(readers, rows, strict=True)]

    @full_precision
    def render(
        self,
        w: Tensor,
        *,
        size: int | None = None,
        yaw: float = 0.0,
        noise: str = "const",
        random: torch.Generator | None = None,
    ) -> tuple[Tensor, Tensor]:
        size, features = self.pick_size(size), None
        for x, image in self.synthesis(w, Noise(noise, random)):
            features = x if x.shape[2] == self.sizes[0] else features
            if x.shape[2] == size:
                return features, image
        raise AssertionError("every offered size is the side of a block")


def _synthesis_options(given: Mapping[str, object]) -> dict[str, object]:
    """The published synthesis options, those that change no result left out and those not supported refused."""
    options = {"channel_base": 32768, "channel_max": 512, "conv_clamp": 256, "resample_filter": (1, 3, 3, 1)}
    fixed = {"architecture": "skip", "activation": "lrelu", "use_noise": True, "kernel_size": 3}
    for name, value in given.items():
        if name in fixed and value != fixed[name]:
            raise UserError(f"{name}={value!r}: only {name}={fixed[name]!r} is supported")
        if name not in (*options, *fixed, *SPEED_ONLY):
            raise UserError(f"unknown setting {name!r}; known: {', '.join(sorted((*options, *fixed, *SPEED_ONLY)))}")
    options |= {name: value for name, value in given.items() if name in options}
    options["taps"] = options.pop("resample_filter")
    return options
