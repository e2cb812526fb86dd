"""Volume rendering of tri-planes as EG3D does it, quirks included: the weights were trained with them."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from engine.core.errors import UserError
from engine.generators.triplane import Sampler, sampler

POINTS = 1 << 17  # decoded at a time; bounds the memory whatever the side, the depths and the batch
KEPT = 1 << 19  # of which the backward pass finds everything kept; of more it keeps the rays alone
Decoder = Callable[[Tensor], tuple[Tensor, Tensor]]  # features [..., c] to colours [..., c] and raw densities [...]


@dataclass(frozen=True)
class Rendering:
    """How deep to look and how often, from the published `rendering_kwargs`."""

    depth_resolution: int
    depth_resolution_importance: int
    ray_start: float | str
    ray_end: float | str  # both "auto": where the ray meets the box
    box_warp: float  # side of the cube that the planes cover
    disparity_space_sampling: bool
    white_back: bool

    @classmethod
    def of(cls, kwargs: Mapping[str, object]) -> "Rendering":
        if kwargs.get("clamp_mode") != "softplus":
            raise UserError(
                f"rendering_kwargs: clamp_mode is {kwargs.get('clamp_mode')!r}; only 'softplus' is supported"
            )
        needed = [name for name in cls.__dataclass_fields__ if name != "white_back"]
        values = {name: setting(kwargs, name) for name in needed}
        if values["depth_resolution"] < 4:
            raise UserError(f"rendering_kwargs: depth_resolution {values['depth_resolution']} must be at least 4")
        return cls(**values, white_back=bool(kwargs.get("white_back", False)))


def setting(kwargs: Mapping[str, object], name: str) -> object:
    """A rendering setting that cannot be guessed."""
    if name not in kwargs:
        raise UserError(f"rendering_kwargs lack {name!r}: this network's settings are not whole; import it again")
    return kwargs[name]


@dataclass(frozen=True)
class Draws:
    """The uniform numbers of one rendering; a first dimension of 1 gives every sample of a batch the same."""

    depth: Tensor  # [n or 1, rays, depth_resolution]
    importance: Tensor  # [n or 1, rays, depth_resolution_importance]

    @classmethod
    def of(cls, random: torch.Generator, n: int, rays: int, options: Rendering) -> "Draws":
        """In the order of the published code."""
        counts = options.depth_resolution, options.depth_resolution_importance
        return cls(*(torch.rand(n, rays, count, generator=random, device=random.device) for count in counts))

    def to(self, like: Tensor) -> "Draws":
        return Draws(self.depth.to(like), self.importance.to(like))


def box_limits(origins: Tensor, directions: Tensor, side: float) -> tuple[Tensor, Tensor]:
    """Depths [n, rays] where rays enter and leave the cube around 0; -1 and -2 where they miss it."""
    ends = torch.stack([(-side / 2 - origins) / directions, (side / 2 - origins) / directions])
    enter, leave = ends.amin(0).amax(2), ends.amax(0).amin(2)
    missed = enter > leave
    return enter.masked_fill(missed, -1), leave.masked_fill(missed, -2)


def coarse_depths(origins: Tensor, directions: Tensor, options: Rendering, u: Tensor) -> Tensor:
    """[n, rays, depth_resolution], evenly spaced with jitter `u`. The last may overshoot the end."""
    count = options.depth_resolution
    start, end = options.ray_start, options.ray_end
    steps = torch.linspace(0, 1, count, device=u.device, dtype=u.dtype)
    if start == end == "auto":
        start, end = box_limits(origins, directions, options.box_warp)
        hit = end > start
        if hit.any():  # the published code gives rays that miss a maximal *start* as their end
            start, end = start.where(hit, start[hit].min()), end.where(hit, start[hit].max())
        start, end = start[:, :, None], end[:, :, None]
        return start + steps * (end - start) + u * ((end - start) / (count - 1))
    if options.disparity_space_sampling:
        t = steps + u / (count - 1)
        return 1 / ((1 - t) / start + t / end)
    return torch.linspace(start, end, count, device=u.device, dtype=u.dtype) + u * ((end - start) / (count - 1))


def march_weights(sigma: Tensor, depths: Tensor) -> Tensor:
    """How much each gap between neighbouring depths [..., s] is seen: [..., s - 1]."""
    density = F.softplus((sigma[..., 1:] + sigma[..., :-1]) / 2 - 1)
    alpha = 1 - torch.exp(-density * depths.diff(dim=-1))
    clear = torch.cat([torch.ones_like(alpha[..., :1]), 1 - alpha + 1e-10], -1)
    return alpha * clear.cumprod(-1)[..., :-1]


def march(colours: Tensor, sigma: Tensor, depths: Tensor, *, white_back: bool = False) -> tuple[Tensor, Tensor]:
    """Colours [..., c] in [-1, 1] and unclamped depths [...] of samples, in any order."""
    depths, order = depths.sort(-1)
    seen = march_weights(sigma.gather(-1, order), depths)
    total = seen.sum(-1)
    depth = (seen * (depths[..., 1:] + depths[..., :-1]) / 2).sum(-1) / total
    # A gap has the mean colour of its ends, so a sample has half the weight of each gap beside it.
    share = (F.pad(seen, (0, 1)) + F.pad(seen, (1, 0))) / 2
    share = torch.zeros_like(share).scatter(-1, order, share)  # back in the order of `colours`
    colour = (share[..., None, :] @ colours).squeeze(-2)
    colour = colour + (1 - total)[..., None] if white_back else colour
    return colour * 2 - 1, depth.nan_to_num(float("inf"))


@torch.no_grad()
def importance_depths(depths: Tensor, weights: Tensor, u: Tensor) -> Tensor:
    """More depths [..., k] where the coarse pass [..., d] saw something. The last two bins are never reached."""
    rows = F.max_pool1d(weights.flatten(0, -2)[:, None], 2, stride=1, padding=1)
    rows = F.avg_pool1d(rows, 2, stride=1)[:, 0] + 0.01
    bins = ((depths[..., 1:] + depths[..., :-1]) / 2).flatten(0, -2)  # [r, d - 1]
    pdf = rows[:, 1:-1] + 1e-5
    cdf = F.pad((pdf / pdf.sum(1, keepdim=True)).cumsum(1), (1, 0))  # [r, d - 2]
    u = u.flatten(0, -2).contiguous()
    above = torch.searchsorted(cdf, u, right=True)
    below, above = (above - 1).clamp(min=0), above.clamp(max=pdf.shape[1])
    low, high = cdf.gather(1, below), cdf.gather(1, above)
    width = torch.where(high - low < 1e-5, 1, high - low)
    start, end = bins.gather(1, below), bins.gather(1, above)
    return (start + (u - low) / width * (end - start)).unflatten(0, depths.shape[:-1])


def see(
    sample: Sampler,
    decode: Decoder,
    origins: Tensor,
    directions: Tensor,
    depths: Tensor,
    u: Tensor,
    options: Rendering,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Colours and depths along rays, from coarse depths and the draws of finer ones; nearest and farthest depth."""

    def look(depths: Tensor) -> tuple[Tensor, Tensor]:
        points = origins[:, :, None] + depths[..., None] * directions[:, :, None]
        colours, sigma = decode(sample(points.flatten(1, 2)))
        return colours.unflatten(1, depths.shape[1:]), sigma.unflatten(1, depths.shape[1:])

    colours, sigma = look(depths)
    if options.depth_resolution_importance:
        more = importance_depths(depths, march_weights(sigma, depths), u)
        seen = look(more)
        colours, sigma = torch.cat([colours, seen[0]], 2), torch.cat([sigma, seen[1]], 2)
        depths = torch.cat([depths, more], 2)
    colour, depth = march(colours, sigma, depths, white_back=options.white_back)
    return colour, depth, depths.amin(), depths.amax()


def render(
    planes: Tensor, decode: Decoder, origins: Tensor, directions: Tensor, options: Rendering, draws: Draws
) -> tuple[Tensor, Tensor]:
    """Colours [n, rays, c] and depths [n, rays] of planes [n, 3, c, h, w].

    Rays are taken in parts. Where gradients of many points are wanted, a part is computed again in the backward pass,
    so that only its rays are kept.
    """
    sample = sampler(planes, options.box_warp)
    n, rays, _ = origins.shape
    samples = options.depth_resolution + options.depth_resolution_importance
    coarse = coarse_depths(origins, directions, options, draws.depth.expand(n, -1, -1))
    fine = draws.importance.expand(n, -1, -1)
    parts = []
    for rows in torch.arange(rays).split(max(1, POINTS // (n * samples))):
        here = slice(int(rows[0]), int(rows[-1]) + 1)
        inputs = sample, decode, origins[:, here], directions[:, here], coarse[:, here], fine[:, here], options
        if torch.is_grad_enabled() and n * rays * samples > KEPT:
            parts.append(checkpoint(see, *inputs, use_reentrant=False, preserve_rng_state=False))
        else:
            parts.append(see(*inputs))
    colour, depth, nearest, farthest = zip(*parts, strict=True)
    bounds = torch.stack(nearest).amin(), torch.stack(farthest).amax()  # of the whole batch, as published
    return torch.cat(colour, 1), torch.cat(depth, 1).clamp(*bounds)
