"""One of CTR's plug-ins as a function of its tensors: capsules, transfer routing, a gated adapter."""

from collections.abc import Callable, Mapping

import torch
import torch.nn.functional as F
from torch import Tensor

from engine.masks.training import Work

HIDDEN, CAPSULE, ROUTE = 64, 3, 16  # adapter units, capsule size, routed size
TEMPERATURE = 0.5
Decide = Callable[[Tensor], Tensor]  # similarities to gates, any shape


def capsule(work: Work, plug: int, channels: int) -> dict[str, Tensor]:
    """A fresh capsule of a task: a 1x1 map to CAPSULE numbers, with bias."""
    return {
        "A": work.kaiming((CAPSULE, channels), channels, f"capsule {plug}", 1.0).requires_grad_(),
        "b": torch.zeros(CAPSULE, device=work.state.device, requires_grad=True),
    }


def router(work: Work, plug: int, channels: int, tasks: int) -> dict[str, Tensor]:
    """What a task needs to route: R for each task it may read, its similarity net B, w2, w1, and U (zero at first)."""
    device = work.state.device
    return {
        "R": work.kaiming((tasks, ROUTE, CAPSULE), CAPSULE, f"R {plug}", 1.0).requires_grad_(),
        "B": work.kaiming((ROUTE, 3 * ROUTE), 3 * ROUTE, f"B {plug}").requires_grad_(),
        "w2": work.kaiming((ROUTE,), ROUTE, f"w2 {plug}", 1.0).requires_grad_(),
        "w1": torch.zeros(1, device=device, requires_grad=True),
        "U": torch.zeros(channels, ROUTE, device=device, requires_grad=True),
    }


def adapter_shapes(channels: int) -> list[tuple[tuple[int, ...], int, float]]:
    """D and V with fan-in and gain; V starts small, as N(0, 0.01^2)."""
    return [((HIDDEN, channels), channels, 2.0), ((channels, HIDDEN), HIDDEN, HIDDEN * 1e-4)]


def plug_in(parts: Mapping[str, Tensor], x: Tensor, decide: Decide, fired: list[Tensor] | None = None) -> Tensor:
    """The map x [n, C, ...] with what earlier tasks know of it, and adapted. The last of the stacked capsules A, b and
    routes R is the task's own. `fired` notes the gates d [n, k]."""
    flat = x.flatten(2) if x.dim() > 2 else x[:, :, None]  # [n, C, L]
    y = flat
    if "U" in parts:
        p = _squash(torch.einsum("kvc,ncl->nkvl", parts["A"], flat) + parts["b"][:, :, None])
        u = torch.einsum("krv,nkvl->nkrl", parts["R"], p)  # [n, k, ROUTE, L]
        d = _routes(parts, u.mean(3), decide)
        if fired is not None:
            fired.append(d)
        y = flat + torch.einsum("cr,nrl->ncl", parts["U"], (d[:, :, None, None] * u).sum(1))
    hidden = F.relu(parts["hidden"][:, None] * torch.einsum("hc,ncl->nhl", parts["D"], y))
    out = y + parts["out"][:, None] * torch.einsum("ch,nhl->ncl", parts["V"], hidden)
    return out.reshape(x.shape)


def _routes(parts: Mapping[str, Tensor], mean: Tensor, decide: Decide) -> Tensor:
    """d_i for every task before this one, by similarity to its own capsule; its own d is always 1."""
    own = mean[:, -1:]
    earlier = mean[:, :-1]
    joined = torch.cat([earlier, own.expand_as(earlier), earlier * own], 2)  # [n, k - 1, 3 ROUTE]
    q = F.relu(joined @ parts["B"].T) @ parts["w2"] + parts["w1"]
    return torch.cat([decide(q), q.new_ones(len(q), 1)], 1)


def served(q: Tensor) -> Tensor:
    """No noise: the same answer every time."""
    return (q > 0).to(q.dtype)


def all_on(q: Tensor) -> Tensor:
    return torch.ones_like(q)


def noisy(random: torch.Generator) -> Decide:
    """A hard gate with logistic noise and straight-through gradient, for training."""

    def decide(q: Tensor) -> Tensor:
        u = torch.rand(q.shape, generator=random).clamp(1e-6, 1 - 1e-6).to(q.device)
        soft = torch.sigmoid((q + u.logit()) / TEMPERATURE)
        return soft + ((soft > 0.5).to(q.dtype) - soft).detach()

    return decide


def _squash(v: Tensor) -> Tensor:
    """|v|^2 / (1 + |v|^2) * v / |v|, over the capsule's numbers."""
    square = (v * v).sum(2, keepdim=True)
    return square / (1 + square) * v / (torch.sqrt(square + 1e-12) + 1e-8)
