"""Where the erased person's code is sent, and which codes around it go along (GUIDE, sections 3.2 and 3.3).

Distances are in mean radii: 1 is the mean distance of a random row from the average. The norm is taken over the whole
code, so a distance does not depend on the number of rows.
"""

import math

import torch
from torch import Tensor, nn

from engine.core.errors import UserError
from engine.redirect import Latents

KINDS = ("opposite", "average", "random", "stranger")
STRANGERS = 64  # candidates for the nearest stranger
TOO_NEAR = 1e-6  # of a mean radius


def opposite(mean: Tensor, w_u: Tensor, distance: float) -> Tensor:
    """UFO: past the average face, seen from w_u. w_t = w̄ - d (w_u - w̄)/|w_u - w̄|, absolute d."""
    return mean - distance * unit(w_u - mean)


def neighbour_offset(w_u: Tensor, towards: Tensor, alpha: Tensor | float) -> Tensor:
    """Δ = α (w_r - w_u)/|w_r - w_u|: a step of absolute length α towards another face."""
    return alpha * unit(towards - w_u)


def nearby(base: nn.Module, codes: Tensor, count: int, reach: float, random: torch.Generator) -> tuple[Tensor, Tensor]:
    """Steps of random length up to `reach` (absolute) from some of the codes towards random faces: which, and Δ."""
    who = torch.randint(len(codes), (count,), generator=random)
    alpha = torch.rand(count, 1, 1, generator=random) * reach
    return who, neighbour_offset(codes[who], draw(base, count, random), alpha.to(codes))


def unit(code: Tensor) -> Tensor:
    """A code [..., num_ws, w_dim] over its norm; the zero code has no direction."""
    norm = torch.linalg.vector_norm(code, dim=(-2, -1), keepdim=True)
    if (norm < TOO_NEAR).any():
        raise UserError("this face is the average face: it has no identity to move away from; choose another photo")
    return code / norm


def choose(
    base: nn.Module, latents: Latents, w_u: Tensor, kind: str, distance: float, random: torch.Generator
) -> Tensor:
    """The target for one code [num_ws, w_dim]."""
    mean = latents.mean
    if torch.linalg.vector_norm(w_u - mean) < TOO_NEAR * math.sqrt(len(mean)) * latents.radius:
        raise UserError("this face is the average face: it has no identity to move away from; choose another photo")
    match kind:
        case "opposite":
            return opposite(mean, w_u, distance * latents.radius * math.sqrt(len(mean)))
        case "average":
            return mean.clone()
        case "random":
            return draw(base, 1, random)[0]
        case "stranger":  # the nearest of many random faces that is still further away than `distance`
            others = draw(base, STRANGERS, random)
            away = torch.linalg.vector_norm(others - w_u, dim=(1, 2)) / (latents.radius * math.sqrt(len(mean)))
            return others[away.masked_fill(away < distance, math.inf).argmin()]
        case _:
            raise UserError(f"unknown target {kind!r}; known: {', '.join(KINDS)}")


def draw(base: nn.Module, count: int, random: torch.Generator, *, mixed: float = 0.0) -> Tensor:
    """Random codes [count, num_ws, w_dim]; a share `mixed` of them takes its finer rows from another face (W+)."""
    z = torch.randn(2 * count, base.z_dim, generator=random).to(base.w_avg.device)
    first, second = base.map(z).chunk(2)
    is_mixed = torch.rand(count, generator=random) < mixed
    cut = torch.randint(1, max(2, base.num_ws), (count,), generator=random)
    swap = is_mixed[:, None] & (torch.arange(base.num_ws)[None] >= cut[:, None])
    return torch.where(swap[..., None].to(first.device), second, first)
