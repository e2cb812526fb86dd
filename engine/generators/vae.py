"""Variational autoencoders with one latent level or several, top down; the latent is the joint standardised noise.

The prior of a level depends on the levels above it, so their z cannot be edited as one Gaussian vector, but their
noise can: z_l = mu_l + sigma_l * eps_l, where mu and sigma come from what is above, and all eps together are N(0, I).
`w` is that joint eps, [n, 1, D]; edited, it is fed back level by level. Pictures are means of the output
distribution, never draws from it.
"""

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache, partial
from itertools import pairwise
from math import prod
from pathlib import Path

import torch
import torch.nn.functional as F
from safetensors import safe_open
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from engine import device as devices
from engine.generators import Base, architectures, bases
from engine.generators.base import LatentGenerator

Pick = Callable[[int, Tensor | None, Tensor | float, Tensor | float], Tensor]  # (level, map, mean, scale) -> z


@dataclass(frozen=True)
class Slot:
    """Where one level's noise stands in the joint vector."""

    level: int
    shape: tuple[int, ...]
    offset: int

    @property
    def length(self) -> int:
        return prod(self.shape)


def layout(shapes: Sequence[tuple[int, ...]]) -> tuple[Slot, ...]:
    """The table of levels, coarse ones first."""
    offsets = [sum(prod(shape) for shape in shapes[:level]) for level in range(len(shapes))]
    return tuple(Slot(*row) for row in zip(range(len(shapes)), shapes, offsets, strict=True))


def flatten(noises: Sequence[Tensor]) -> Tensor:
    """One tensor [n, ...] for each level to [n, 1, D]."""
    return torch.cat([noise.flatten(1) for noise in noises], dim=1)[:, None]


def unflatten(w: Tensor, slots: Sequence[Slot]) -> list[Tensor]:
    """The exact inverse of `flatten`."""
    return [w[:, 0, slot.offset : slot.offset + slot.length].unflatten(1, slot.shape) for slot in slots]


class Residual(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.a = nn.Conv2d(width, width, 3, padding=1)
        self.b = nn.Conv2d(width, width, 3, padding=1)

    def forward(self, x: Tensor) -> Tensor:
        return x + self.b(F.silu(self.a(F.silu(x))))


def widened(x: Tensor, conv: nn.Conv2d) -> Tensor:
    """The 3x3 conv of a map of which every pixel is doubled. In a quick number type it is the transposed conv whose 4x4
    kernel adds up what falls on one pixel: four products for nine. In single precision it stays to the bit what it
    was."""
    if devices.type_asked_for(x.device) is None:
        return conv(F.interpolate(x, scale_factor=2.0))
    with torch.autocast(x.device.type, enabled=False):
        kernel = conv.weight.transpose(0, 1).reshape(-1, 9) @ _adding_up(conv.weight.device)
        return _Widened.apply(x, kernel.view(conv.in_channels, -1, 4, 4), conv.bias)


@cache
@torch.inference_mode(False)  # it may be kept for a backward pass, whoever asked for it first
def _adding_up(device: torch.device) -> Tensor:
    """[9, 16]: from a 3x3 kernel to the 4x4 one, turned around, of doubled pixels."""
    turned = torch.tensor([[0.0, 0, 1, 1], [0, 1, 1, 0], [1, 1, 0, 0]], device=device)
    return torch.kron(turned, turned)


class _Widened(torch.autograd.Function):
    """A transposed conv in the map's number type. Of a map channels last torch sums a bias's gradient number by number,
    which takes three times as long as the conv; as a product it costs nothing."""

    HOW = [2, 2], [1, 1], [1, 1], True, [0, 0], 1

    @staticmethod
    def forward(ctx, x, kernel, bias):
        kernel = kernel.to(x.dtype)
        ctx.save_for_backward(x, kernel)
        return F.conv_transpose2d(x, kernel, bias.to(x.dtype), stride=2, padding=1)

    @staticmethod
    @once_differentiable
    def backward(ctx, grad):
        x, kernel = ctx.saved_tensors
        wanted = [*ctx.needs_input_grad[:2], False]
        to_x, to_kernel, _ = torch.ops.aten.convolution_backward(grad, x, kernel, None, *_Widened.HOW, wanted)
        rows = grad.permute(0, 2, 3, 1).flatten(0, 2)
        return to_x, to_kernel, rows.new_ones(len(rows)) @ rows if ctx.needs_input_grad[2] else None


class Level(nn.Module):
    """A latent level below the top: its prior, given the map so far, and the way of z into the map."""

    def __init__(self, width: int, channels: int) -> None:
        super().__init__()
        self.prior = nn.Conv2d(width, 2 * channels, 3, padding=1)
        self.enter = nn.Conv2d(channels, width, 1)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        mean, log_scale = self.prior(F.silu(x)).chunk(2, dim=1)
        return mean, log_scale.clamp(-4, 2).exp()


class Decoder(nn.Module):
    """Maps of side 4, 8, ...: the top vector opens the first, other levels join at theirs."""

    def __init__(self, top: int, levels: dict[int, int], widths: Sequence[int], colours: int) -> None:
        super().__init__()
        self.top = nn.Linear(top, widths[0] * 16)
        self.levels = nn.ModuleDict({str(side): Level(widths[_step(side)], c) for side, c in levels.items()})
        self.blocks = nn.ModuleList(Residual(width) for width in widths)
        self.widen = nn.ModuleList(nn.Conv2d(a, b, 3, padding=1) for a, b in pairwise(widths))
        self.colour = nn.Conv2d(widths[-1], colours, 3, padding=1)

    def forward(self, pick: Pick) -> tuple[Tensor, Tensor]:
        """`pick` gives z of each level; returns the map where the last level has joined, and the picture."""
        x = self.top(pick(0, None, 0.0, 1.0)).unflatten(1, (-1, 4, 4))
        x = x.contiguous(memory_format=torch.channels_last)  # a third less time on a CPU
        features, level = x, 0
        for step, block in enumerate(self.blocks):
            if step:
                x = widened(x, self.widen[step - 1])
            if str(x.shape[-1]) in self.levels:
                gate, level = self.levels[str(x.shape[-1])], level + 1
                x = x + gate.enter(pick(level, x, *gate(x)))
            x = block(x)
            if x.shape[-1] <= 8:
                features = x
        picture = torch.tanh(self.colour(F.silu(x)))
        return features, picture.expand(-1, 3, -1, -1)


class Encoder(nn.Module):
    """Bottom up to side 4; the posterior of a lower level also sees the decoder's map."""

    def __init__(self, top: int, levels: dict[int, int], widths: Sequence[int], colours: int) -> None:
        super().__init__()
        self.stem = nn.Conv2d(colours, widths[-1], 3, padding=1)
        self.blocks = nn.ModuleList(Residual(width) for width in widths)
        self.halve = nn.ModuleList(nn.Conv2d(b, a, 4, stride=2, padding=1) for a, b in pairwise(widths))
        self.top = nn.Linear(widths[0] * 16, 2 * top)
        self.posteriors = nn.ModuleDict(
            {str(side): nn.Conv2d(2 * widths[_step(side)], 2 * c, 3, padding=1) for side, c in levels.items()}
        )

    def forward(self, picture: Tensor) -> dict[int, Tensor]:
        x, maps = self.stem(picture[:, : self.stem.in_channels]), {}
        for step in reversed(range(len(self.blocks))):
            x = self.blocks[step](x)
            maps[x.shape[-1]] = F.silu(x)
            x = self.halve[step - 1](F.silu(x)) if step else x
        return maps


def _step(side: int) -> int:
    return side.bit_length() - 3  # 4 px is step 0


@architectures.register("vae")
class Vae(LatentGenerator):
    """`top` numbers in one vector; `levels` are further (side, channels). Without them it is a plain VAE."""

    latent = "z"
    editable = ("decoder.*",)

    def __init__(
        self,
        top: int = 16,
        levels: Sequence[Sequence[int]] = (),
        widths: Sequence[int] = (64, 48, 32, 16),
        colours: int = 3,
    ) -> None:
        super().__init__()
        levels = tuple((int(side), int(channels)) for side, channels in levels)
        self.config = {"top": top, "levels": levels, "widths": tuple(widths), "colours": colours}
        self.slots = layout([(top,), *((channels, side, side) for side, channels in levels)])
        self.z_dim = self.w_dim = sum(slot.length for slot in self.slots)
        self.num_ws, self.size = 1, 4 << (len(widths) - 1)
        self.sizes = (self.size,)
        self.decoder = Decoder(top, dict(levels), widths, colours)
        self.encoder = Encoder(top, dict(levels), widths, colours)
        self.register_buffer("w_avg", torch.zeros(1, self.w_dim))

    @property
    def coarse(self) -> int:
        """Leading numbers of w that directions are looked for in: the top and the levels of up to 8 px. A longer vector
        would need far more labels than people give."""
        return sum(slot.length for slot in self.slots if slot.shape[-1] <= 8 or len(slot.shape) == 1)

    def map(self, z: Tensor, *, psi: float = 1.0) -> Tensor:
        return self.truncate(z[:, None], psi)

    def render(self, w: Tensor, *, size: int | None = None, yaw: float = 0.0) -> tuple[Tensor, Tensor]:
        """The features are the 8 px map."""
        self.pick_size(size)
        noises = unflatten(w, self.slots)
        return self.decoder(lambda level, x, mean, scale: mean + scale * noises[level])

    def infer(
        self, picture: Tensor, draw: Callable[[Tensor], Tensor] | None = None
    ) -> tuple[Tensor, Tensor, list[Tensor]]:
        """A picture through the posterior: the noise that brings it back, the picture brought back, and KL in nats
        per level, [n]. `draw` gives unit noise like its argument; without it the posterior's mean is taken."""
        maps, noises, divergences = self.encoder(picture), [], []

        def pick(level: int, x: Tensor | None, mean: Tensor | float, scale: Tensor | float) -> Tensor:
            if x is None:
                q_mean, q_log = self.encoder.top(maps[4].flatten(1)).chunk(2, dim=1)
            else:
                both = torch.cat([F.silu(x), maps[x.shape[-1]]], dim=1)
                q_mean, q_log = self.encoder.posteriors[str(x.shape[-1])](both).chunk(2, dim=1)
            q_log = q_log.clamp(-6, 2)
            z = q_mean if draw is None else q_mean + q_log.exp() * draw(q_mean)
            # Both Gaussians in units of the prior's scale: KL = (r^2 + d^2 - 1) / 2 - log r.
            ratio, shift = q_log.exp() / scale, (q_mean - mean) / scale
            divergences.append(((ratio.square() + shift.square() - 1) / 2 - ratio.log()).flatten(1).sum(1))
            noises.append((z - mean) / scale)
            return z

        _, restored = self.decoder(pick)
        return flatten(noises), restored, divergences


OURS = Path(__file__).resolve().parents[2] / "checkpoints" / "ours"


def load(name: str) -> nn.Module:
    """One of our own, with the shape that its card says."""
    with safe_open(OURS / f"{name}.safetensors", framework="pt") as file:
        model = Vae(**json.loads(file.metadata()["card"])["config"])
        model.load_state_dict({key: file.get_tensor(key).float() for key in file.keys()})  # noqa: SIM118 (not a dict)
    return model.eval()


bases["digits-vae"] = Base(
    load=partial(load, "digits_vae"),
    title="Handwritten digits, VAE, 32 px",
    licence="MIT, trained by this project",
)
bases["faces-vae"] = Base(
    load=partial(load, "faces_vae"),
    title="Faces, hierarchical VAE, 64 px",
    licence="trained by this project on pictures of the FFHQ base: research use",
)
