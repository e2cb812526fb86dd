"""Generators of the StyleGAN family: z and a condition c go through a mapping network to w."""

from collections.abc import Callable
from functools import wraps

import torch
from torch import Tensor, nn

from engine.core.errors import UserError
from engine.generators.base import LatentGenerator
from engine.generators.layers import FullyConnected, normalise


def full_precision(method: Callable) -> Callable:
    """Takes no part in autocast: phases, rays and demodulation do not survive bfloat16."""

    @wraps(method)
    def run(self, *args, **kwargs):
        with torch.autocast(self.w_avg.device.type, enabled=False):
            return method(self, *args, **kwargs)

    return run


class Mapping(nn.Module):
    """z and an optional condition c to one w; the rows are its copies."""

    def __init__(
        self,
        z_dim: int,
        c_dim: int,
        w_dim: int,
        *,
        num_layers: int = 8,
        embed_features: int | None = None,
        layer_features: int | None = None,
        lr_multiplier: float = 0.01,
        activation: str = "lrelu",
        w_avg_beta: float | None = None,  # how w_avg was tracked in training: nothing to do here
    ) -> None:
        super().__init__()
        if activation != "lrelu":
            raise UserError(f"mapping activation {activation!r}: only the published lrelu is supported")
        embedded = (embed_features or w_dim) if c_dim else 0
        hidden = layer_features or w_dim
        self.embed = FullyConnected(c_dim, embedded) if c_dim else None
        self.depth = num_layers
        widths = [z_dim + embedded] + [hidden] * (num_layers - 1) + [w_dim]
        for i in range(num_layers):
            layer = FullyConnected(widths[i], widths[i + 1], lr_mult=lr_multiplier, active=True)
            self.add_module(f"fc{i}", layer)
        self.register_buffer("w_avg", torch.zeros(w_dim))

    def forward(self, z: Tensor, c: Tensor | None = None) -> Tensor:
        x = normalise(z.to(self.w_avg.dtype))
        if self.embed is not None:
            x = torch.cat([x, normalise(self.embed(c.to(x.dtype)))], 1)
        for i in range(self.depth):
            x = getattr(self, f"fc{i}")(x)
        return x


class MappedGenerator(LatentGenerator):
    """A generator with a `mapping`. It stores one mean code; every row has it."""

    mapping: Mapping
    c_dim: int

    @property
    def w_avg(self) -> Tensor:
        return self.mapping.w_avg.expand(self.num_ws, -1)

    def usual_condition(self, n: int) -> Tensor:
        """[n, c_dim]: the c of a caller who gives none."""
        return self.w_avg.new_zeros(n, self.c_dim)

    @full_precision
    def map(self, z: Tensor, *, psi: float = 1.0, c: Tensor | None = None, cutoff: int | None = None) -> Tensor:
        """`c` [n, c_dim] is the condition of a conditional network; only rows before `cutoff` are truncated."""
        c = self.usual_condition(len(z)) if c is None else c
        w = self.mapping(z, c)[:, None].expand(-1, self.num_ws, -1)
        near = self.truncate(w, psi)
        return near if cutoff is None else torch.cat([near[:, :cutoff], w[:, cutoff:]], 1)
