"""LIRF (Ye et al., "Learning with Recoverable Forgetting", ECCV 2022): classes leave a network and can return.

The network is cut after block n. A target copy of the shallow part unlearns the classes, a second pruned copy (the
deposit, T_r) keeps them; the deep part behind both is frozen. Only the original and the deposit set are read.
"""

import copy
import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from engine.augment import draw, to_float
from engine.core.errors import UserError
from engine.core.events import Done, Progress, Snapshot, Task
from engine.core.knobs import build, check, knob, values
from engine.core.protocols import Splittable
from engine.data import ImageSet, Request
from engine.delta import Card, Delta
from engine.distil import attention_gap, distance, divergence
from engine.dreams import dream, rounds
from engine.methods import methods
from engine.resume import capture, resume

ALPHA = 0.9  # the published code's share of the teacher; labels get the rest

PRESETS: dict[str, dict] = {
    "ours": {},
    # The paper's four weights and its pruning ratio are not known: all weights are 1, half of T_r's weights go.
    "as described": {
        "relabel": "wrong", "compare": "softmax", "kr": 1.0, "at": 1.0, "kp": 1.0, "pt": 1.0, "re": 1.0, "dreams": 0
    },
    "as coded": {
        "relabel": "any", "compare": "softmax", "kr": 1 - ALPHA, "at": 0.0, "kp": ALPHA, "pt": ALPHA, "re": 1 - ALPHA,
        "prune": 0.0, "train_norms": True, "lr": 0.01, "decay": 5e-4, "dreams": 0,
    },
}  # fmt: skip


@methods.register("lirf")
@dataclass(frozen=True)
class LIRF:
    """Deposit: one target shallow part that forgot, one deposit module that did not."""

    accepts: ClassVar[type] = Splittable
    title: ClassVar[str] = "Forget classes, and keep them in a file that can bring them back"

    steps: int = knob(100, "optimiser steps", min=1, max=20000)
    lr: float = knob(0.003, "learning rate; halves fit together only while it is small", min=1e-6, max=1)
    kr: float = knob(0.3, "how strongly the target is made to answer wrongly (L_kr)", min=0, max=10)
    prune: float = knob(0.5, "share of the deposit module's weights that are removed, smallest first", min=0, max=0.95)
    relabel: str = knob(
        "like",
        "wrong answers to teach: like = what the original would say without these classes, wrong = any other class, "
        "any = any class, even the right one (published)",
        choices=("like", "wrong", "any"),
    )
    compare: str = knob(
        "logits",
        "how answers are kept: logits = their values, so that both halves fit; softmax = their proportions (published)",
        choices=("logits", "softmax"),
        advanced=True,
    )
    kp: float = knob(1.0, "weight of keeping the other classes' answers (L_kp)", min=0, max=100, advanced=True)
    pt: float = knob(1.0, "weight of moving the deposited answers (L_pt)", min=0, max=100, advanced=True)
    re: float = knob(0.0, "weight of true labels for the recovered network (L_re)", min=0, max=10, advanced=True)
    full: float = knob(0.0, "weight of the recovered network's likeness to the original", min=0, max=10, advanced=True)
    at: float = knob(0.0, "push of attention maps apart (L_at); costs accuracy on what is kept", min=0, max=10)
    dreams: int = knob(256, "images of the kept classes that the original makes up by itself", min=0, max=4096)
    dream_steps: int = knob(30, "steps to make them", min=1, max=1000, advanced=True)
    split: int = knob(0, "block after which the network is cut; 0 = after its second stage", min=0, max=100)
    temperature: float = knob(4.0, "softness of compared answers (softmax only)", min=0.1, max=50, advanced=True)
    train_norms: bool = knob(False, "let norm layers drift to the deposit set (published)", advanced=True)
    decay: float = knob(0.0, "weight decay", min=0, max=0.1, advanced=True)
    batch: int = knob(32, "deposit images per step", min=2, max=512, advanced=True)
    snapshot_every: int = knob(20, "steps between two snapshots", min=1, max=1000, advanced=True)
    shift: int = knob(0, "pixels by which images are moved at random", min=0, max=16, advanced=True)
    flip: bool = knob(False, "mirror half of the images", advanced=True)
    seed: int = knob(0, "seed of every random draw", min=0)

    def __post_init__(self) -> None:
        check(self)

    @classmethod
    def preset(cls, name: str, **changes: object) -> "LIRF":
        """The settings of one of PRESETS, with changes."""
        if name not in PRESETS:
            raise UserError(f"unknown preset {name!r}; known: {', '.join(PRESETS)}")
        return build(cls, PRESETS[name] | changes)

    def run(self, base: nn.Module, request: Request, snapshot: Mapping[str, Tensor] | None = None) -> Task:
        """Done: (forget delta: base to target, recover delta: target to the branch that still knows the classes)."""
        gone = request.extra.get("gone", torch.empty(0)).long().tolist()  # classes deposited before
        classes = deposit_classes(base, request, gone)
        run = _Run(self, base, classes, gone)
        before = rounds(self.dreams, self.dream_steps)
        total, stop, scalars = before + self.steps, False, {}
        for step, value in enumerate(run.imagine(request.forget), 1):
            stop = yield Progress(step, total, {"dream": value}, note="imagining what must stay")
            if stop:
                break
        first = run.resume(snapshot) if snapshot else 0
        for step in range(first + 1, 1 if stop else self.steps + 1):
            scalars = run.step(step, request.forget)
            if step % self.snapshot_every == 0 and step < self.steps:
                yield Snapshot(before + step, run.capture(step))
            if (yield Progress(before + step, total, scalars, note="moving the classes out")):
                break
        yield Done(run.deltas(request.label, scalars))


class _Run:
    """Two shallow parts in front of one frozen deep part, and how they are trained."""

    def __init__(self, knobs: LIRF, base: nn.Module, classes: list[int], gone: list[int]) -> None:
        self.knobs, self.base = knobs, base
        self.n = knobs.split or base.stage_cut
        frozen, self.student, self.module = (copy.deepcopy(base).eval().requires_grad_(False) for _ in range(3))
        self.original, self.deep = frozen.split(self.n)
        self.target, self.deposit = self.student.split(self.n)[0], self.module.split(self.n)[0]
        self.pruned = prune(self.deposit, knobs.prune)
        self.pair = nn.ModuleDict({"target": self.target, "deposit": self.deposit})
        self.device = next(base.parameters()).device
        everything = range(len(base.classes))
        self.moved = torch.tensor(classes, device=self.device)
        self.kept = torch.tensor([c for c in everything if c not in classes], device=self.device)
        self.live = torch.tensor([c for c in everything if c not in (*classes, *gone)], device=self.device)
        self.random = torch.Generator().manual_seed(knobs.seed)
        self.dreams: Tensor | None = None
        for layer in self.pair.modules():
            if isinstance(layer, (nn.Conv2d, nn.Linear)) or (knobs.train_norms and isinstance(layer, nn.BatchNorm2d)):
                layer.requires_grad_(True)
        # Evaluation mode keeps norm statistics as they are; the published code lets them drift to the deposit set.
        self.pair.train(knobs.train_norms)
        trainable = [parameter for parameter in self.pair.parameters() if parameter.requires_grad]
        self.optimiser = torch.optim.SGD(trainable, lr=knobs.lr, momentum=0.9, weight_decay=knobs.decay)

    def imagine(self, data: ImageSet):
        """Fills `dreams`; yields the loss of each step. A stream of its own, so that a resumed run dreams the same."""
        if self.knobs.dreams:
            start = to_float(data.x).to(self.device)
            random = torch.Generator().manual_seed(self.knobs.seed)
            wanted = self.live.tolist()
            self.dreams = yield from dream(self.base, start, wanted, self.knobs.dreams, self.knobs.dream_steps, random)

    def step(self, step: int, data: ImageSet) -> dict[str, float]:
        """One descent on L_all. One schedule for both halves: a cosine from lr to a tenth of it."""
        x, y = draw(data, self.knobs.batch, self.random, shift=self.knobs.shift, flip=self.knobs.flip)
        x, y, real = x.to(self.device), y.to(self.device), len(x)
        if self.dreams is not None:
            chosen = torch.randint(len(self.dreams), (real,), generator=self.random).to(self.device)
            x = torch.cat([x, self.dreams[chosen]])
        for group in self.optimiser.param_groups:
            group["lr"] = self.knobs.lr * (0.55 + 0.45 * math.cos(math.pi * (step - 1) / self.knobs.steps))
        with torch.no_grad():
            f_0 = self.original(x)
            z_0 = self.deep(f_0)
        f_T = self.target(x)
        z_T, z_D = self.deep(f_T), self.deep(self.deposit(x))
        parts = self.losses(z_0, z_T, z_D, y, real)
        if self.knobs.at:
            parts["at"] = -attention_gap(f_T[:real], f_0[:real])
        loss = sum(getattr(self.knobs, name) * value for name, value in parts.items())
        self.optimiser.zero_grad()
        loss.backward()
        self.optimiser.step()
        with torch.no_grad():
            for weight, gone in self.pruned:
                weight.masked_fill_(gone, 0)
        named = {"target right": z_T, "deposit right": z_D}
        share = {name: 100 * (z[:real].argmax(1) == y).float().mean().item() for name, z in named.items()}
        return share | {f"L_{name}": value.item() for name, value in parts.items()}

    def losses(self, z_0: Tensor, z_T: Tensor, z_D: Tensor, y: Tensor, real: int) -> dict[str, Tensor]:
        """The named losses. The first `real` rows are deposit samples, the others dreams, which have no label."""
        knobs, kept, moved = self.knobs, self.kept, self.moved
        parts = {
            "kr": self.wrong(z_0[:real], z_T[:real], y),
            "kp": self.likeness(z_T[:, kept], z_0[:, kept]),
            "pt": self.likeness(z_D[:, moved], z_0[:, moved]),
        }
        if knobs.re or knobs.full:
            recovered = z_T.index_copy(1, moved, z_D[:, moved])  # T~ = g(z_T) + gbar(z_D)
            if knobs.re:
                parts["re"] = F.cross_entropy(recovered[:real], y)
            if knobs.full:
                parts["full"] = self.likeness(recovered, z_0)
        return parts

    def likeness(self, z: Tensor, z_0: Tensor) -> Tensor:
        return distance(z, z_0) if self.knobs.compare == "logits" else divergence(z, z_0, self.knobs.temperature)

    def wrong(self, z_0: Tensor, z_T: Tensor, y: Tensor) -> Tensor:
        """L_kr: cross entropy against an answer that is not the true one (with "any": not always)."""
        if self.knobs.relabel == "like":
            wanted = torch.zeros_like(z_0)
            wanted[:, self.live] = F.softmax(z_0[:, self.live], 1)
            return F.cross_entropy(z_T, wanted)
        return F.cross_entropy(
            z_T, wrong_labels(y.cpu(), len(self.base.classes), self.knobs.relabel, self.random).to(y.device)
        )

    def capture(self, step: int) -> dict[str, Tensor]:
        norms = {f"norm.{name}": value.cpu().clone() for name, value in self.pair.named_buffers()}
        return capture(self.pair, self.optimiser, self.random, step) | norms

    def resume(self, snapshot: Mapping[str, Tensor]) -> int:
        for name, value in self.pair.named_buffers():
            value.copy_(snapshot[f"norm.{name}"])
        return resume(snapshot, self.pair, self.optimiser, self.random)

    def deltas(self, label: str, scalars: Mapping[str, float]) -> tuple[Delta, Delta]:
        """What is public and what the owner keeps. Both cards name the classes, never the data."""
        names = [self.base.classes[index] for index in self.moved.tolist()]
        card = replace(
            Card.draft(self.knobs, label, **scalars), knobs=values(self.knobs) | {"split": self.n, "classes": names}
        )
        forget = Delta.between(self.base, self.student, card)
        # Against the target as anyone will compose it, so that nothing of the original is needed to withdraw.
        served = {
            name: value + forget.tensors[name].to(value) if name in forget.tensors else value
            for name, value in self.base.state_dict().items()
        }
        shallow = tuple(f"blocks.{index}." for index in range(self.n))
        known = {
            name: value.cpu()
            for name, value in self.module.state_dict().items()
            if name.startswith(shallow) and not torch.equal(value, served[name])
        }
        return forget, Delta(replace(card, role="recover", op="set", reads=(forget.fingerprint,)), known)


def deposit_classes(base: nn.Module, request: Request, gone: list[int]) -> list[int]:
    """The classes of the deposit set. Whatever else a request may hold, LIRF must not see: it is refused."""
    if not isinstance(request.forget, ImageSet) or request.retain is not None:
        raise UserError("a deposit reads the images of the classes to forget and nothing else; leave the others out")
    if not len(request.forget):
        raise UserError("the deposit set is empty; choose at least one class that has images")
    classes = request.forget.y.unique().tolist()
    if classes[0] < 0 or classes[-1] >= len(base.classes):
        raise UserError(f"labels {classes} do not fit a network of {len(base.classes)} classes")
    if len({*classes, *gone}) >= len(base.classes):
        raise UserError(f"all {len(base.classes)} classes would be gone; at least one must stay")
    return classes


def wrong_labels(y: Tensor, count: int, rule: str, random: torch.Generator) -> Tensor:
    """ "wrong": uniform over the other classes, never the true one. "any": uniform over all, as published."""
    if rule == "any":
        return torch.randint(count, y.shape, generator=random)
    return (y + torch.randint(1, count, y.shape, generator=random)) % count


def prune(part: nn.Module, ratio: float) -> list[tuple[nn.Parameter, Tensor]]:
    """Sets each conv's smallest weights to zero and gives (weight, which are gone), so that they can be held there."""
    pruned = []
    for layer in part.modules():
        if isinstance(layer, nn.Conv2d) and (drop := int(ratio * layer.weight.numel())):
            gone = torch.zeros(layer.weight.numel(), dtype=torch.bool, device=layer.weight.device)
            gone[layer.weight.abs().flatten().argsort()[:drop]] = True
            pruned.append((layer.weight, gone.view(layer.weight.shape)))
            with torch.no_grad():
                layer.weight.masked_fill_(pruned[-1][1], 0)
    return pruned
