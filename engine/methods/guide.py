"""GUIDE (Seo et al., CVPR 2024): show the person as a face that is nobody, and everyone else as before.

    rec(w_a, w_b) = 0.01 MSE(F_u(w_a), F_s(w_b)) + LPIPS(x_u(w_a), x_s(w_b)) + 0.1 (1 - cos(A(x_u(w_a)), A(x_s(w_b))))
    L_local     = rec(w_u, w_t)
    L_adjacency = mean over i of rec(w_u + Δ_i, w_t + Δ_i),   Δ_i a step of up to `spread` towards a random face
    L_global    = mean over i of LPIPS(x_u(w_i), x_s(w_i)),   w_i random faces outside the adjacency

Ours is the closed-form redirection (engine/redirect.py), where L_local is 0 already and the other two are small. Steps
can be trained from there, but none are by default: on the one photo it was tried on, 24 steps at 1e-4 took the likeness
that random faces keep from 0.97 to 0.86 and erased no more. The published method starts at the base.

The codes of two photos of one person have little in common (cosine 0.29 in standard deviations, 18 people; strangers
0.08), so a change that is exact at one photo hardly reaches the next. The photo's mirror image is a second one: with
it, on five people, other photos' likeness fell from 0.69 to 0.43 and to 0.37 where it goes 1.5 times as far. It goes
only as far as a few random faces show to be bearable (`drift`).
"""

import copy
import math
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

import torch
from torch import Tensor, nn

from engine import device as devices
from engine import losses, memory
from engine.core.events import Done, Progress, Snapshot, Task, watch
from engine.core.knobs import check, knob
from engine.core.protocols import Generator
from engine.data import LatentBatch, Request
from engine.delta import Card, Delta, compose, digest, editable
from engine.identity.check import Check
from engine.identity.frozen import Eye, Frozen
from engine.identity.judge import Judge, scale_of
from engine.identity.targets import KINDS, choose, draw, nearby
from engine.methods import methods
from engine.models import to_pixels
from engine.redirect import Latents, redirect
from engine.resume import capture, resume

WORST = 3  # pictures of those random faces that changed most
REDRAWS = 8  # an adjacency that holds every face cannot be avoided
GAINS = tuple(1 - 0.05 * n for n in range(15))  # what is tried of the reach, until random faces bear it
ASKED = 24  # random faces by which that is seen
IN_TURN = "one after another"
YAWS = tuple(math.pi / 12 * turn for turn in (-1, -0.5, 0, 0.5, 1))  # quantised, so that frozen views can be kept


@methods.register("guide")
@dataclass(frozen=True)
class Guide:
    """Forget one person, or several jointly, given their codes. Codes in `request.retain` are shown as before."""

    accepts: ClassVar[type] = Generator
    title: ClassVar[str] = "Forget this person"
    presets: ClassVar[Mapping[str, Mapping[str, object]]] = {
        "Quick": {"checked": 40},
        "Balanced": {},
        "Thorough": {"drift": 0.042, "checked": 400},  # more of their other photos, at a price to everyone
        "As published": {
            "start": "base",
            "steps": 1000,
            "distance": 0.82,
            "reach": 0.0,
            "spread": 0.41,
            "lr": 1e-4,
            "neighbours": 2,
            "others": 2,
            "reduction": "sum",
            "mixed": 0.0,
            "bank": 0,
            "apart": False,
        },
    }

    start: str = knob("redirect", "where training begins", choices=("redirect", "base"))
    target: str = knob("opposite", "which face takes the person's place", choices=KINDS)
    distance: float = knob(0.8, "how far past the average face the new identity lies, in mean radii", min=0, max=3)
    order: str = knob("jointly", "how several people are erased", choices=("jointly", IN_TURN))
    steps: int = knob(0, "optimiser steps after the start, for each stage", min=0, max=5000)
    lr: float = knob(1e-4, "Adam learning rate", min=1e-6, max=1e-1)
    spread: float = knob(0.4, "how far around the person neighbours go along, in mean radii", min=0, max=3)
    neighbours: int = knob(2, "neighbours per step", min=0, max=16)
    others: int = knob(4, "random faces per step that must not change", min=0, max=32)
    reach: float = knob(1.5, "how many times as far as the photo its mirror image goes, at most", min=0, max=4)
    drift: float = knob(0.036, "how far pictures of random faces may move with it, LPIPS", min=0, max=1)
    shrink: float = knob(0.1, "how much the redirection distrusts rare directions of the latent space", min=0, max=10)
    adjacency_weight: float = knob(1.0, "weight of the adjacency loss", min=0, max=100, advanced=True)
    global_weight: float = knob(1.0, "weight of the global loss", min=0, max=100, advanced=True)
    feature_weight: float = knob(0.01, "weight of the feature distance", min=0, max=100, advanced=True)
    identity_weight: float = knob(0.1, "weight of the face recogniser; 0 for other things than faces", min=0, max=10)
    mixed: float = knob(0.5, "share of the random faces whose rows come from two people", min=0, max=1, advanced=True)
    reduction: str = knob(
        "mean", "average as in the paper, or sum as in its code", choices=("mean", "sum"), advanced=True
    )
    apart: bool = knob(True, "keep random faces out of the adjacency", advanced=True)
    bank: int = knob(32, "distinct neighbours and faces, kept ready; 0 draws new ones each step", min=0, max=1000)
    checked: int = knob(200, "random faces the check looks at", min=8, max=2000)
    snapshot_every: int = knob(20, "steps between two snapshots", min=1, max=1000, advanced=True)
    seed: int = knob(0, "seed of every random draw", min=0)

    def __post_init__(self) -> None:
        check(self)

    @memory.kept_while_running
    def run(self, base: nn.Module, request: Request, snapshot: Mapping[str, Tensor] | None = None) -> Task:
        people, latents = request.forget.w, Latents.of(base, self.seed)
        targets, stages = self.targets(base, latents, people), self.stages(len(people))
        earlier = zip(stages, _unpacked(snapshot or {}), strict=False)
        deltas = [Delta(self._card(request, stage, self.steps), changes) for stage, changes in earlier]
        for stage in stages[len(deltas) :]:
            model = compose(base, deltas if self.order == IN_TURN else ())
            student = self.redirected(model, latents, request, targets, stage)
            images = _pair(base, student, people[stage.moved])
            yield Progress(stage.number * self.steps, stage.of * self.steps, images=images, note="redirected")
            steps, stopped = 0, False
            if self.steps:
                dtype = devices.quick_type(people.device)
                draws = Draws(self, base, latents, people[: stage.known], targets[: stage.known], dtype)
                steps, stopped = yield from self._train(student, draws, stage, deltas, snapshot)
            deltas.append(Delta.between(model, student, self._card(request, stage, steps)))
            snapshot = None
            if stopped:
                break
        yield Done(tuple(deltas))

    @torch.no_grad()
    def redirected(
        self, model: nn.Module, latents: Latents, request: Request, targets: Tensor, stage: "Stage"
    ) -> nn.Module:
        """The moved people are shown as their targets, a photo's mirror image goes as far the same way as random faces
        can bear. Where training begins at the base, the model as it is."""
        if self.start == "base":
            return copy.deepcopy(model)

        def by(gain: float) -> nn.Module:
            student = copy.deepcopy(model)
            redirect(student, latents, *self.ways(gain, request, targets, stage), self.shrink)
            return student

        if not self.reach or "mirrors" not in request.extra:
            return by(0.0)
        look, size = losses.lpips("alex", targets.device), sensible_size(model)
        faces = draw(model, ASKED, torch.Generator().manual_seed(self.seed + 2)).split(8)  # not those that are checked
        shown = [look.features(model.synth(w, size=size)) for w in faces]

        def is_borne(part: float) -> bool:
            student = by(self.reach * part)
            pairs = zip(faces, shown, strict=True)
            drift = [look.distance(look.features(student.synth(w, size=size)), old) for w, old in pairs]
            return torch.cat(drift).mean().item() <= self.drift

        found = bisect_left(GAINS, True, key=is_borne)
        return by(self.reach * GAINS[found] if found < len(GAINS) else 0.0)

    def ways(self, gain: float, request: Request, targets: Tensor, stage: "Stage") -> tuple[Tensor, Tensor]:
        """Which codes go where: the moved people to their targets, their mirror images `gain` times as far the same
        way (0 leaves them out), all others nowhere."""
        people = request.forget.w
        kept = request.retain.w if isinstance(request.retain, LatentBatch) else people[:0]
        there = people[: stage.known].clone()
        there[stage.moved] = targets[stage.moved]
        move = there - people[: stage.known]
        here, there = [people[: stage.known], kept], [there, kept]
        for mirror, whose in zip(request.extra.get("mirrors", ()), request.extra.get("mirrored", ()), strict=True):
            if gain and whose < stage.known:
                here.append(mirror[None])
                there.append(mirror[None] + gain * move[whose])
        return torch.cat(here), torch.cat(there)

    def stages(self, people: int) -> list["Stage"]:
        """In turn, each person is erased from what the earlier ones left. People who are erased jointly share a
        training; where there is none, each has a change of their own that leaves all the others alone."""
        if self.order == IN_TURN:
            return [Stage(k, people, known=k + 1, moved=slice(k, k + 1)) for k in range(people)]
        if self.steps:
            return [Stage(0, 1, known=people, moved=slice(people))]
        return [Stage(k, people, known=people, moved=slice(k, k + 1)) for k in range(people)]

    def _card(self, request: Request, stage: "Stage", steps: int) -> Card:
        words = ", ".join(request.names[stage.moved]) or request.label
        codes = digest({"w": request.forget.w[stage.moved]})
        return replace(Card.draft(self, words, steps_done=steps), codes=codes)

    def _train(
        self,
        student: nn.Module,
        draws: "Draws",
        stage: "Stage",
        earlier: Sequence[Delta],
        snapshot: Mapping[str, Tensor] | None,
    ) -> Task:
        """The steps of one stage; gives their number, and whether it was stopped."""
        optimiser = torch.optim.Adam(editable(student), lr=self.lr, fused=True)
        random = torch.Generator().manual_seed(self.seed)
        step = resume(snapshot, student, optimiser, random) if snapshot else 0
        before, total, stopped = stage.number * self.steps, stage.of * self.steps, False
        while step < self.steps and not stopped:
            step += 1
            optimiser.zero_grad()
            scalars = Counter()
            for parts in self.losses(student, draws, random):
                sum(parts.values()).backward()
                scalars.update({name: loss.item() for name, loss in parts.items()})
            optimiser.step()
            if step % self.snapshot_every == 0 and step < self.steps:
                yield Snapshot(before + step, capture(student, optimiser, random, step) | _packed(earlier))
            look = step % 5 == 0 or step == self.steps
            images = _pair(draws.base, student, draws.people[stage.moved]) if look else {}
            stopped = bool((yield Progress(before + step, total, scalars, images)))
        return step, stopped

    def targets(self, base: nn.Module, latents: Latents, people: Tensor) -> Tensor:
        """Who takes each one's place, in the rows that decide who is shown. The draws are its own, so that a page can
        show beforehand what a run will do."""
        random = torch.Generator().manual_seed(self.seed)
        chosen = torch.stack([choose(base, latents, w, self.target, self.distance, random) for w in people])
        rows = base.deciding_rows or base.num_ws
        return torch.cat([chosen[:, :rows], people[:, rows:]], 1)

    def check(self, before: nn.Module, deltas: Sequence[Delta], request: Request) -> Task:
        """The people, their other photos if there are, and 200 random faces, by the recogniser no loss has seen."""
        yield Progress(0, 1, note="checking the result")
        judge, after, people = Judge(scale_of(before)), compose(before, deltas).eval(), request.forget.w
        check = Check(judge, faces=self.checked, size=sensible_size(before))
        verdict = yield from watch(check.run(before, after, people, photos=request.extra.get("photos")))
        images = {f"{side}-person": pixels for side, pixels in _pair(before, after, people).items()}
        for side, pixels in verdict.worst.items():
            images |= {f"{side}-worst-{n}": one for n, one in enumerate(pixels[:WORST], start=1)}
        yield Progress(1, 1, images=images, note="checked")
        plain = verdict.plain()
        if len(people) > 1:
            names = request.names or [f"person {n}" for n in range(1, len(people) + 1)]
            plain["people"] = {"names": list(names), **check.several(before, deltas, people)}
        yield Done(plain)

    def yaw(self, model: nn.Module, random: torch.Generator) -> float:
        """From where this step looks; a flat picture has one side only."""
        return YAWS[int(torch.randint(len(YAWS), (), generator=random))] if model.is_3d else 0.0

    def losses(self, student: nn.Module, draws: "Draws", random: torch.Generator) -> Iterator[dict[str, Tensor]]:
        """Local, adjacency and global loss of one step, in passes over as many codes as the generator takes together,
        whose parts add up: whoever goes backward through one before asking for the next holds the graph of few codes
        only. People and neighbours are looked at alike, and so in the same passes; at random faces a glance is enough.
        """
        yaw = self.yaw(student, random)
        keys, here, there = draws.step(random)
        people, near = len(draws.people), len(draws.people) + self.neighbours
        parts = {
            "local": (range(people), 1.0, "mean"),
            "adjacency": (range(people, near), self.adjacency_weight, self.reduction),
            "global": (range(near, len(keys)), self.global_weight, self.reduction),
        }
        for glance, whole in ((False, range(near)), (True, range(near, len(keys)))):
            for start in whole[:: student.together]:
                some = slice(start, min(start + student.together, whole.stop))
                seen = draws.eye.look(student, here[some], yaw, glance=glance)
                known = draws.frozen.views(keys[some], there[some], yaw, glance=glance)
                features, percept, identity = draws.eye.distances(seen, known)
                rec = percept if glance else self.feature_weight * features + percept + self.identity_weight * identity
                found = {}
                for name, (codes, weight, reduce) in parts.items():
                    mine = range(max(codes.start, some.start), min(codes.stop, some.stop))
                    if mine:
                        loss = weight * rec[mine.start - start : mine.stop - start].sum()
                        found[name] = loss / len(codes) if reduce == "mean" else loss
                yield found


@dataclass(frozen=True)
class Stage:
    """What one delta comes of: some people move, the others known by then stay as they are shown."""

    number: int
    of: int
    known: int  # the first so many people
    moved: slice


class Draws:
    """The codes of each step: the people, neighbours of theirs, and random faces. With a bank, a finite set is drawn
    once and met again and again, so that the frozen side is looked at once."""

    def __init__(
        self,
        knobs: Guide,
        base: nn.Module,
        latents: Latents,
        people: Tensor,
        targets: Tensor,
        dtype: torch.dtype = torch.float32,
    ) -> None:
        self.knobs, self.base, self.people, self.targets = knobs, base, people, targets
        self.unit = latents.radius * math.sqrt(base.num_ws)  # one mean radius, over the whole code
        self.eye = Eye(base, sensible_size(base), with_identity=knobs.identity_weight > 0, dtype=dtype)
        self.frozen = Frozen(base, self.eye)
        random = torch.Generator().manual_seed(
            knobs.seed + 1
        )  # not the run's stream: a resumed run makes the same bank
        self.near = self.neighbours(knobs.bank, random) if knobs.bank else None
        self.far = self.others(knobs.bank, random) if knobs.bank else None

    def neighbours(self, count: int, random: torch.Generator) -> tuple[Tensor, Tensor]:
        """w_u + Δ and w_t + Δ."""
        who, offset = nearby(self.base, self.people, count, self.knobs.spread * self.unit, random)
        return self.people[who] + offset, self.targets[who] + offset

    def others(self, count: int, random: torch.Generator) -> Tensor:
        """Random faces; of those that lie within the adjacency of a person another one is drawn, a few times."""
        codes = draw(self.base, count, random, mixed=self.knobs.mixed)
        for _ in range(REDRAWS if self.knobs.apart else 0):
            close = self.within(codes)
            codes[close] = draw(self.base, int(close.sum()), random, mixed=self.knobs.mixed)
        return codes

    def within(self, codes: Tensor) -> Tensor:
        away = torch.linalg.vector_norm(codes[:, None] - self.people, dim=(2, 3)).amin(1)
        return away < self.knobs.spread * self.unit

    def step(self, random: torch.Generator) -> tuple[list[object | None], Tensor, Tensor]:
        """Keys of the frozen views, the student's codes and the codes whose frozen view they are compared with."""
        knobs, people = self.knobs, [("person", i) for i in range(len(self.people))]
        if not knobs.bank:
            (near, near_to), far = self.neighbours(knobs.neighbours, random), self.others(knobs.others, random)
            keys = people + [None] * (len(near) + len(far))
        else:
            i = torch.randint(knobs.bank, (knobs.neighbours,), generator=random)
            j = torch.randint(knobs.bank, (knobs.others,), generator=random)
            (near, near_to), far = (self.near[0][i], self.near[1][i]), self.far[j]
            keys = people + [("near", n) for n in i.tolist()] + [("far", n) for n in j.tolist()]
        return keys, torch.cat([self.people, near, far]), torch.cat([self.targets, near_to, far])


def sensible_size(base: nn.Module) -> int:
    """128 px where the generator can, else its largest below, else its smallest: enough to know a face by."""
    return max([size for size in base.sizes if size <= 128], default=base.sizes[0])


def _packed(earlier: Sequence[Delta]) -> dict[str, Tensor]:
    """The changes of finished stages, to lie beside a snapshot."""
    return {f"delta.{n}.{name}": change for n, delta in enumerate(earlier) for name, change in delta.tensors.items()}


def _unpacked(snapshot: Mapping[str, Tensor]) -> list[dict[str, Tensor]]:
    found: dict[int, dict[str, Tensor]] = {}
    for key, change in snapshot.items():
        kind, _, rest = key.partition(".")
        if kind == "delta":
            number, _, name = rest.partition(".")
            found.setdefault(int(number), {})[name] = change
    return [found[number] for number in sorted(found)]


@torch.no_grad()
def _pair(base: nn.Module, student: nn.Module, people: Tensor) -> dict:
    size = sensible_size(base)
    shown = {"before": base.synth(people[:1], size=size), "after": student.synth(people[:1], size=size)}
    return {name: to_pixels(image)[0] for name, image in shown.items()}
