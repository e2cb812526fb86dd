"""How two versions of a generator differ at the same codes: pixels, how it looks, who it is, what it shows."""

from typing import Any

import torch
from torch import Tensor, nn

from engine import assets, losses
from engine.evaluation.jury import jury_of
from engine.evaluation.shares import Drift
from engine.identity.judge import Judge, interval, scale_of
from engine.models import to_pixels

BATCH = 8
RECOGNISERS = ("recogniser-a", "recogniser-b")


@torch.no_grad()
def measure_change(base: nn.Module, old: Tensor, new: Tensor) -> dict[str, Any]:
    """`old` and `new` are pictures of the same codes by two versions of a base, [n, 3, h, w] in [-1, 1]. Plain values:
    means with their bootstrap 95 % intervals, and only what the networks on this machine can measure."""
    found: dict[str, Any] = {
        "pairs": len(old),
        "side": old.shape[-1],
        "equal": int((to_pixels(old) == to_pixels(new)).all((1, 2, 3)).sum()),
        "pixels": interval(((old - new).abs() / 2).mean((1, 2, 3)).cpu()),  # as shares of the whole range
    }
    if assets.is_present("lpips-alex"):
        look = losses.lpips("alex", old.device)
        parts = zip(old.split(BATCH), new.split(BATCH), strict=True)
        found["lpips"] = interval(torch.cat([look(a, b) for a, b in parts]).cpu())
    if base.identity_scale is None:  # it draws no faces as FFHQ does
        return found
    if all(assets.is_present(name) for name in RECOGNISERS):
        scale = scale_of(base)
        found["likeness"] = interval(Judge(scale).compare(old, new).b)
        found["strangers"] = scale.quantile(0.75)
    jury = jury_of(base)
    seen = [jury.sees(pictures).cpu().tolist() for pictures in (old, new)]
    columns = zip(jury.names, zip(*seen[0], strict=True), zip(*seen[1], strict=True), strict=True)
    found["drift"] = {name: Drift.between(name, had, has).plain() for name, had, has in columns if jury.names}
    return found
