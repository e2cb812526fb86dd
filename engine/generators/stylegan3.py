"""StyleGAN3 (Karras et al., NeurIPS 2021), T and R, under the names and shapes of the published networks.

Everything is computed in single precision, also where the published code takes half precision on a GPU.
"""

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from engine.core.errors import UserError
from engine.generators import architectures, mapped
from engine.generators.filters import downsample, low_pass, upsample
from engine.generators.layers import GAIN, SLOPE, FullyConnected
from engine.generators.mapped import MappedGenerator, full_precision

IGNORED = ("num_fp16_res", "magnitude_ema_beta")  # precision on a GPU, and how training tracks magnitudes


@dataclass(frozen=True)
class Options:
    """The published synthesis settings with their published defaults."""

    channel_base: int = 32768
    channel_max: int = 512
    num_layers: int = 14
    num_critical: int = 2  # layers at the end that are sampled critically
    first_cutoff: float = 2
    first_stopband: float = 2**2.1
    last_stopband_rel: float = 2**0.3
    margin_size: int = 10
    output_scale: float = 0.25
    conv_kernel: int = 3
    filter_size: int = 6
    lrelu_upsampling: int = 2
    use_radial_filters: bool = False
    conv_clamp: float | None = 256

    @classmethod
    def of(cls, given: Mapping[str, object]) -> "Options":
        known = (*cls.__dataclass_fields__, *IGNORED)
        for name in given:
            if name not in known:
                raise UserError(f"unknown setting {name!r}; known: {', '.join(sorted(known))}")
        return cls(**{name: value for name, value in given.items() if name not in IGNORED})


@dataclass(frozen=True)
class Stage:
    """The signal at one layer: bandwidth, sampling rate, side with margin, channels."""

    cutoff: float
    stopband: float
    rate: int
    size: int
    channels: int

    @property
    def half_width(self) -> float:
        return max(self.stopband, self.rate / 2) - self.cutoff


def schedule(options: Options, side: int, colours: int) -> list[Stage]:
    """Stages 0 ... num_layers. The layers' names are made of them, so every rounding is the published one."""
    last, stages = options.num_layers, []
    cutoffs = options.first_cutoff, side / 2
    stopbands = options.first_stopband, side / 2 * options.last_stopband_rel
    for i in range(last + 1):
        way = min(i / (last - options.num_critical), 1)
        cutoff, stopband = (first * (end / first) ** way for first, end in (cutoffs, stopbands))
        rate = 2 ** math.ceil(math.log2(min(2 * stopband, side)))
        size = rate + 2 * options.margin_size if i < last - 1 else side
        width = round(min(options.channel_base / 2 / cutoff, options.channel_max)) if i < last else colours
        stages.append(Stage(cutoff, stopband, rate, size, width))
    return stages


class Input(nn.Module):
    """Fourier features, turned and shifted by w and by a user's `transform`."""

    def __init__(self, w_dim: int, stage: Stage) -> None:
        super().__init__()
        self.stage, channels = stage, stage.channels
        freqs = torch.randn(channels, 2)
        radii = freqs.square().sum(1, keepdim=True).sqrt()
        freqs = stage.cutoff * freqs / (radii * radii.square().exp().pow(0.25))
        self.weight = nn.Parameter(torch.randn(channels, channels))
        self.affine = FullyConnected(w_dim, 4)
        nn.init.zeros_(self.affine.weight)
        self.affine.bias = nn.Parameter(torch.tensor([1.0, 0, 0, 0]))
        self.register_buffer("transform", torch.eye(3))
        self.register_buffer("freqs", freqs)
        self.register_buffer("phases", torch.rand(channels) - 0.5)

    def forward(self, w: Tensor) -> Tensor:
        stage = self.stage
        t = self.affine(w)
        t = t / t[:, :2].norm(dim=1, keepdim=True)
        (c, s, x, y), zero, one = t.unbind(1), torch.zeros_like(t[:, 0]), torch.ones_like(t[:, 0])
        turn = torch.stack([c, -s, zero, s, c, zero, zero, zero, one], 1).view(-1, 3, 3)
        shift = torch.stack([one, zero, -x, zero, one, -y, zero, zero, one], 1).view(-1, 3, 3)
        m = turn @ shift @ self.transform
        phases = self.phases + (self.freqs @ m[:, :2, 2:]).squeeze(2)  # [n, c]
        freqs = self.freqs @ m[:, :2, :2]  # [n, c, 2]
        # Frequencies that the turn or zoom brought over the band limit fade out.
        fade = (freqs.norm(dim=2) - stage.cutoff) / (stage.rate / 2 - stage.cutoff)
        k = torch.arange(stage.size, device=w.device)
        at = ((k + 0.5) / stage.size * 2 - 1) * (0.5 * stage.size / stage.rate)
        across, down = (at[:, None] * freqs[:, None, :, i] for i in (0, 1))  # [n, size, c]
        waves = torch.sin(2 * math.pi * (across[:, None] + down[:, :, None] + phases[:, None, None]))
        waves = waves * (1 - fade).clamp(0, 1)[:, None, None]
        mixed = waves @ (self.weight / math.sqrt(len(self.weight))).T
        return mixed.permute(0, 3, 1, 2)  # channels last in memory


class Layer(nn.Module):
    """A modulated conv, then a leaky ReLU at a raised sampling rate between two low-pass filters."""

    def __init__(self, w_dim: int, before: Stage, after: Stage, options: Options, *, critical: bool, rgb: bool) -> None:
        super().__init__()
        self.rgb, self.clamp = rgb, options.conv_clamp
        kernel = 1 if rgb else options.conv_kernel
        rate = max(before.rate, after.rate) * (1 if rgb else options.lrelu_upsampling)
        self.up, self.down = rate // before.rate, rate // after.rate
        up_taps, down_taps = (options.filter_size * n if n > 1 and not rgb else 1 for n in (self.up, self.down))
        self.weight = nn.Parameter(torch.randn(after.channels, before.channels, kernel, kernel))
        self.bias = nn.Parameter(torch.zeros(after.channels))
        self.affine = FullyConnected(w_dim, before.channels, bias=1)
        radial = options.use_radial_filters and not critical
        self.register_buffer("magnitude_ema", torch.ones([]))
        self.register_buffer("up_filter", low_pass(up_taps, before.cutoff, 2 * before.half_width, rate))
        self.register_buffer(
            "down_filter", low_pass(down_taps, after.cutoff, 2 * after.half_width, rate, radial=radial)
        )
        total = (after.size - 1) * self.down + 1 - (before.size + kernel - 1) * self.up + up_taps + down_taps - 2
        self.low = (total + self.up) // 2
        self.high = total - self.low

    def forward(self, x: Tensor, w: Tensor) -> Tensor:
        x = self.colours(x, self.affine(w)) if self.rgb else self.conv(x, self.affine(w))
        x = upsample(x, self.up_filter, self.up, self.low, self.high)
        x = x if self.rgb else F.leaky_relu_(x, SLOPE)
        x = x if self.clamp is None else x.clamp(-self.clamp, self.clamp)
        return downsample(x, self.down_filter, self.down)

    def conv(self, x: Tensor, styles: Tensor) -> Tensor:
        """Scaling inputs and outputs is the same as scaling the weights of each sample.

        The published code also divides the styles by their mean over the batch; demodulation cancels any factor, so
        here each sample has its own and a picture does not depend on its neighbours. The leaky ReLU is homogeneous:
        its gain is already in demod and bias.
        """
        weight = self.weight * self.weight.square().mean((1, 2, 3), keepdim=True).rsqrt()
        styles = styles * styles.square().mean(1, keepdim=True).rsqrt()
        demod = GAIN * torch.rsqrt(styles.square() @ weight.square().sum((2, 3)).T + 1e-8)
        x = x * (styles * self.magnitude_ema.rsqrt())[:, :, None, None]
        x = F.conv2d(x, weight, padding=weight.shape[-1] - 1)
        return torch.addcmul(GAIN * self.bias[:, None, None], x, demod[:, :, None, None])

    def colours(self, x: Tensor, styles: Tensor) -> Tensor:
        styles = styles * self.magnitude_ema.rsqrt() / math.sqrt(self.weight.shape[1])
        return F.conv2d(x * styles[:, :, None, None], self.weight, self.bias)


class Synthesis(nn.Module):
    def __init__(self, w_dim: int, side: int, colours: int, options: Options) -> None:
        super().__init__()
        self.scale, stages = options.output_scale, schedule(options, side, colours)
        self.input = Input(w_dim, stages[0])
        self.names = [f"L{i}_{stage.size}_{stage.channels}" for i, stage in enumerate(stages)]
        for i, stage in enumerate(stages):
            critical, rgb = i >= options.num_layers - options.num_critical, i == options.num_layers
            layer = Layer(w_dim, stages[max(i - 1, 0)], stage, options, critical=critical, rgb=rgb)
            self.add_module(self.names[i], layer)

    def layers(self) -> list[Layer]:
        return [getattr(self, name) for name in self.names]

    def forward(self, w: Tensor) -> Iterator[Tensor]:
        """What the input and then each layer gives; the last is the picture before its scale."""
        w = w.to(self.input.weight.dtype)
        x = self.input(w[:, 0])
        yield x
        for i, layer in enumerate(self.layers()):
            x = layer(x, w[:, i + 1])
            yield x


@architectures.register("stylegan3")
class StyleGAN3(MappedGenerator):
    """Settings under their published names. There is no smaller picture inside, so only the full side is offered.

    Features are what the layer half-way gives.
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
        **options: object,
    ) -> None:
        super().__init__()
        self.config = {"z_dim": z_dim, "c_dim": c_dim, "w_dim": w_dim, "img_resolution": img_resolution}
        self.config |= {"img_channels": img_channels, "mapping_kwargs": dict(mapping_kwargs or {})} | options
        settings = Options.of(options)
        self.z_dim, self.c_dim, self.w_dim, self.num_ws = z_dim, c_dim, w_dim, settings.num_layers + 2
        self.size, self.sizes = img_resolution, (img_resolution,)
        self.mapping = mapped.Mapping(z_dim, c_dim, w_dim, **{"num_layers": 2} | self.config["mapping_kwargs"])
        self.synthesis = Synthesis(w_dim, img_resolution, img_channels, settings)

    def affines(self) -> list[tuple[FullyConnected, int]]:
        readers = [self.synthesis.input, *self.synthesis.layers()]
        return [(reader.affine, row) for row, reader in enumerate(readers)]

    @full_precision
    def render(self, w: Tensor, *, size: int | None = None, yaw: float = 0.0) -> tuple[Tensor, Tensor]:
        self.pick_size(size)
        features, half = None, (self.num_ws - 2) // 2
        for i, x in enumerate(self.synthesis(w)):
            features = x if i == half else features
        return features, x * self.synthesis.scale
