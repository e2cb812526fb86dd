"""SupSup when nobody says where a task begins (scenario NN): it opens a new mask when no old one fits what it sees."""

import math
from collections.abc import Iterable
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from engine.core.errors import UserError
from engine.core.events import Done, Progress, Task
from engine.masks import plan as plans
from engine.masks.net import MaskedNet, TaskInfo
from engine.masks.packing import pack
from engine.masks.randomness import keyed
from engine.masks.state import State
from engine.masks.supsup import SupSup

RIVALS = 2  # untrained masks that the first one competes with; later ones compete with each other
EPS = 0.4  # published: 2^-3, on a wider network; here the likeliest mask reaches k * nu = 1.5 to 2.3, a foreign one 1.4


@dataclass(frozen=True)
class Found:
    """The network with one task per mask it opened, and which mask each batch trained."""

    net: MaskedNet
    history: tuple[int, ...]


class _Mask:
    """Scores of one mask and their optimiser. An untrained one stands for "something new"."""

    def __init__(self, method: SupSup, net: MaskedNet, number: int) -> None:
        self.scores = method.fresh_scores(net.plan, keyed(net.seed, number, "stream"), net.state.device)
        self.descent = torch.optim.Adam(self.scores.values(), lr=method.lr)

    def bits(self, method: SupSup) -> dict[str, Tensor]:
        return {name: method.on(score.detach()) > 0 for name, score in self.scores.items()}


def learn_stream(
    net: MaskedNet,
    batches: Iterable[tuple[Tensor, Tensor]],
    classes: tuple[str, ...],
    *,
    check_every: int = 100,
    eps: float = EPS,
    most: int = 20,
) -> Task:
    """Trains a fresh SupSup network on batches of uint8 images and labels that come without a task. Every
    `check_every` batches the belief over all masks decides: go on with the likeliest, or open a new one where
    k * max(belief) < 1 + eps. Done's result is Found."""
    method = net.method
    if not isinstance(method, SupSup):
        raise UserError(f"{net.method.title} cannot tell tasks apart by itself; use supsup")
    if net.plan.normed or net.state.tasks:
        raise UserError("a stream needs a fresh network without normalisation (an MLP)")
    return _learn(net, method, batches, classes, check_every, eps, most)


def _learn(net, method, batches, classes, check_every, eps, most) -> Task:
    masks: list[_Mask] = []
    history: list[int] = []
    current, loss = 0, math.nan
    for number, (images, labels) in enumerate(batches):
        x = plans.prepare(net.plan, images.to(net.state.device))
        if number % check_every == 0:
            current = _choose(net, method, masks, x, eps, most)
            if (yield Progress(number, 0, {"loss": loss, "mask": current, "masks": len(masks)})):
                break
        loss = _step(net, method, masks[current], x, labels.to(net.state.device))
        history.append(current)
    tasks = {
        number: {f"mask.{name}": pack(bits) for name, bits in mask.bits(method).items()}
        for number, mask in enumerate(masks)
    }
    found = MaskedNet(net.name, method, net.plan, net.seed, State(net.state.shared, tasks), net.backbone)
    found.infos = {number: TaskInfo(f"found {number}", classes) for number in tasks}
    yield Done(Found(found, tuple(history)))


def _choose(net: MaskedNet, method: SupSup, masks: list[_Mask], x: Tensor, eps: float, most: int) -> int:
    """The mask to go on with; a new one is appended where none stands out."""
    untrained = [_Mask(method, net, -number) for number in range(1, 1 + RIVALS)] if len(masks) < 2 else []
    candidates = [mask.bits(method) for mask in (*masks, *untrained)]
    nu = method.belief(net.plan, net.state, x, candidates)
    best = int(nu.argmax())
    stands_out = len(candidates) * nu.max().item() >= 1 + eps
    if masks and ((best < len(masks) and stands_out) or len(masks) == most):
        return int(nu[: len(masks)].argmax())
    masks.append(_Mask(method, net, len(masks)))
    return len(masks) - 1


def _step(net: MaskedNet, method: SupSup, mask: _Mask, x: Tensor, y: Tensor) -> float:
    view = {name: net.state.shared[name] * method.on(score) for name, score in mask.scores.items()}
    loss = F.cross_entropy(method.logits(net.plan, view, x), y)
    mask.descent.zero_grad()
    loss.backward()
    mask.descent.step()
    return loss.item()
