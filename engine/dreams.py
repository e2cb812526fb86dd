"""Images that a network itself takes for given classes, made without any picture of those classes.

They stand in for the kept classes where no kept sample may be read: gradient steps on the input towards an answer, held
near natural activations by the norm layers' stored statistics (after Yin et al., DeepInversion, CVPR 2020).
"""

from collections.abc import Generator, Sequence

import torch
import torch.nn.functional as F
from torch import Tensor, nn

NATURAL = 0.1  # weight of the norm statistics against the wanted answer
RATE = 0.05  # Adam's step, in units of the pixel range


CHUNK = 64  # images made at a time: enough for the statistics of a norm layer


def dream(
    network: nn.Module, start: Tensor, wanted: Sequence[int], count: int, steps: int, random: torch.Generator
) -> Generator[float, None, Tensor]:
    """Yields the loss after every step, returns [count, c, h, w]. Each image starts as a blend of two in `start`."""
    labels = torch.as_tensor(wanted)[torch.arange(count) % len(wanted)]
    made = []
    for part in labels.to(start.device).split(CHUNK):
        made.append((yield from _chunk(network, start, part, steps, random)))
    return torch.cat(made)


def rounds(count: int, steps: int) -> int:
    """How often `dream` yields."""
    return -(-count // CHUNK) * steps


def _chunk(
    network: nn.Module, start: Tensor, labels: Tensor, steps: int, random: torch.Generator
) -> Generator[float, None, Tensor]:
    count, device = len(labels), start.device
    first, second = (start[torch.randint(len(start), (count,), generator=random).to(device)] for _ in range(2))
    share = torch.rand(count, 1, 1, 1, generator=random).to(device)
    x = torch.lerp(first, second, share).clone(memory_format=torch.channels_last).requires_grad_(True)
    optimiser = torch.optim.Adam([x], lr=RATE)
    gaps: list[Tensor] = []
    norms = [module for module in network.modules() if isinstance(module, nn.BatchNorm2d)]
    hooks = [norm.register_forward_hook(lambda norm, inputs, _: gaps.append(_gap(norm, inputs[0]))) for norm in norms]
    try:
        for _ in range(steps):
            gaps.clear()
            loss = F.cross_entropy(network.logits(x), labels) + NATURAL * sum(gaps)
            (x.grad,) = torch.autograd.grad(loss, x)
            optimiser.step()
            with torch.no_grad():
                x.clamp_(0, 1)
            yield loss.item()
    finally:
        for hook in hooks:
            hook.remove()
    return x.detach()


def _gap(norm: nn.BatchNorm2d, x: Tensor) -> Tensor:
    """How far a batch is from what the layer saw in training: its means in units of spread, its variances as ratios."""
    variance, mean = torch.var_mean(x, (0, 2, 3))
    known = norm.running_var + norm.eps
    off_centre = (mean - norm.running_mean).square() / known
    return off_centre.mean() + (torch.log(variance + norm.eps) - known.log()).square().mean()
