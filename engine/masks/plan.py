"""The two common networks as plain functions of a view: whatever effective weights a method hands over.

A view is a flat dict of tensors, everything that one task's answer is computed from: `weight.i`, `head.weight`, and
where a method has them `head.bias`, `norm.i` (mean and variance rows), `scale.i`, `shift.i`, `gate.i`.
"""

import itertools
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from typing import Any, Literal

import torch
import torch.nn.functional as F
from torch import Tensor

View = Mapping[str, Tensor]
SERVED = 64  # rows per evaluation, padded: one kernel, one order of summation, whatever the caller's batch
SIDE = 32  # larger images are averaged down to this side before the first layer


@dataclass(frozen=True)
class Layer:
    """A 3x3 convolution with ReLU and 2x2 pooling, or a linear map with ReLU. No bias."""

    kind: Literal["conv", "linear"]
    units_in: int
    units_out: int
    spread: int  # weights per pair of units: 9 for a kernel, the map's area where one is flattened, else 1

    @property
    def shape(self) -> tuple[int, ...]:
        if self.kind == "conv":
            return (self.units_out, self.units_in, 3, 3)
        return (self.units_out, self.units_in * self.spread)

    @property
    def fan_in(self) -> int:
        return self.units_in * self.spread

    def pairs(self, out: Tensor, into: Tensor) -> Tensor:
        """Per-unit bools of both ends as a bool per weight: both ends must be on."""
        if self.kind == "conv":
            return (out[:, None] & into[None])[:, :, None, None].expand(self.shape)
        return out[:, None] & into.repeat_interleave(self.spread)[None]


@dataclass(frozen=True)
class Plan:
    """The shape of a network: what the images are and which layers follow. The head belongs to the task."""

    image: tuple[int, int, int]  # channels, height, width
    layers: tuple[Layer, ...]
    normed: bool  # batch statistics without scale and shift, kept per task

    @property
    def features(self) -> int:
        return self.layers[-1].units_out

    @property
    def units(self) -> tuple[int, ...]:
        return tuple(layer.units_out for layer in self.layers)

    def describe(self) -> dict[str, Any]:
        return asdict(self)


def revive(described: Mapping[str, Any]) -> Plan:
    """A plan from its description, as JSON gives it back."""
    return Plan(tuple(described["image"]), tuple(Layer(**x) for x in described["layers"]), described["normed"])


def mlp(image: tuple[int, int, int], widths: tuple[int, ...] = (300, 100)) -> Plan:
    """784-300-100 for 28 px; smaller images have a smaller first layer."""
    sizes = (image[0] * image[1] * image[2], *widths)
    layers = tuple(Layer("linear", a, b, 1) for a, b in itertools.pairwise(sizes))
    return Plan(image, layers, normed=False)


def small_cnn(image: tuple[int, int, int], widths: tuple[int, int, int, int] = (32, 64, 64, 128)) -> Plan:
    """Three blocks of convolution, normalisation, ReLU and pooling; then one linear layer."""
    channels, side = image[0], min(image[1], SIDE)
    convs = tuple(Layer("conv", a, b, 9) for a, b in zip((channels, *widths), widths[:3], strict=False))
    return Plan(image, (*convs, Layer("linear", widths[2], widths[3], (side // 8) ** 2)), normed=True)


def prepare(plan: Plan, x: Tensor) -> Tensor:
    """uint8 images as centred floats, at most SIDE pixels wide, flat for a network without convolutions."""
    x = (x.float() / 255 - 0.5) / 0.25
    if plan.layers[0].kind == "linear":
        return x.flatten(1)
    factor = x.shape[-1] // SIDE
    return F.avg_pool2d(x, factor) if factor > 1 else x


def run(
    plan: Plan,
    view: View,
    x: Tensor,
    *,
    after: Callable[[int, Tensor], Tensor] | None = None,
    seen: list[Tensor] | None = None,
) -> Tensor:
    """Prepared images to features. Without `norm.i` a normed plan takes the statistics of this batch and notes them
    in `seen`. `after` may change what leaves a layer."""
    h = x
    for i, layer in enumerate(plan.layers):
        weight = view[f"weight.{i}"]
        z = F.conv2d(h, weight, padding=1) if layer.kind == "conv" else F.linear(h.flatten(1), weight)
        if plan.normed:
            z = _normalise(z, view.get(f"norm.{i}"), seen)
        if f"scale.{i}" in view:
            z = z * _per_unit(view[f"scale.{i}"], z)
        if f"shift.{i}" in view:
            z = z + _per_unit(view[f"shift.{i}"], z)
        h = F.relu(z)
        if layer.kind == "conv":
            h = F.max_pool2d(h, 2)
        if f"gate.{i}" in view:
            h = h * _per_unit(view[f"gate.{i}"], h)
        if after is not None:
            h = after(i, h)
    return h


def head(view: View, features: Tensor) -> Tensor:
    return F.linear(features, view["head.weight"], view.get("head.bias"))


def served(x: Tensor, answer: Callable[[Tensor], Tensor]) -> Tensor:
    """Answers of a function of images, a fixed number at a time, the last ones padded: one shape, one kernel."""
    pieces = []
    with torch.no_grad():
        for start in range(0, len(x), SERVED):
            rows = x[start : start + SERVED]
            padding = rows.new_zeros(SERVED - len(rows), *rows.shape[1:])
            pieces.append(answer(torch.cat([rows, padding]))[: len(rows)])
    return torch.cat(pieces)


def _normalise(z: Tensor, statistics: Tensor | None, seen: list[Tensor] | None) -> Tensor:
    """By the kept statistics, else by those of this batch."""
    if statistics is None:
        axes = (0, 2, 3) if z.dim() == 4 else (0,)
        variance, mean = torch.var_mean(z, axes, correction=0)
        if seen is not None:
            seen.append(torch.stack([mean, variance]).detach())
    else:
        mean, variance = statistics
    return (z - _per_unit(mean, z)) * _per_unit((variance + 1e-5).rsqrt(), z)


def _per_unit(values: Tensor, like: Tensor) -> Tensor:
    return values[:, None, None] if like.dim() == 4 else values
