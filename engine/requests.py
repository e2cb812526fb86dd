"""From what a front end asks (plain data) to what a method works on (codes)."""

from collections.abc import Sequence

import torch
from torch import nn

from engine.core.errors import UserError
from engine.core.events import Done, Progress, Task, watch
from engine.core.targets import Labels, People, Photo, Seeds, Target
from engine.data import LatentBatch, Request
from engine.inversion.photo import invert


def prepare(base: nn.Module, target: Target, *, mirrors: bool = True) -> Task:
    """Ends with the Request. Kinds of targets that need long work (a photo) report their own progress. Who only wants
    the codes does without `mirrors`: the mirror image of a photo takes as long to find as the face itself."""
    match target:
        case Seeds(seeds):
            if not seeds:
                raise UserError("no sample chosen; choose at least one")
            names = tuple(f"seed {seed}" for seed in seeds)
            words = f"seeds {', '.join(map(str, seeds))}"
            yield Progress(1, 1, note="finding the samples")
            yield Done(Request(LatentBatch(base.map(base.sample_z(seeds)), words), words, names=names))
        case Labels():
            yield Progress(1, 1, note="finding the samples")
            yield Done(labelled_codes(base, target))
        case Photo(pixels, face, words, others, code):
            w = (yield from watch(invert(base, pixels, face))).w if code is None else torch.from_numpy(code)
            extra, codes = {}, []
            if mirrors:
                extra["mirrors"] = (yield from watch(invert(base, pixels, face, mirrored=True))).w
                extra["mirrored"] = torch.zeros(1, dtype=torch.long)
            for other in others:
                codes.append((yield from watch(invert(base, other))).w)
            extra |= {"photos": torch.cat(codes)} if codes else {}
            yield Done(Request(LatentBatch(w.to(base.w_avg), "a photo"), words, extra=extra))
        case People(people):
            each = []
            for person in people:
                each.append((yield from watch(prepare(base, person, mirrors=mirrors))))
            w = torch.cat([one.forget.w for one in each])
            names = tuple(name for one in each for name in one.names or (one.label,))
            extra = _joined(each)
            yield Done(Request(LatentBatch(w, f"{len(w)} people"), ", ".join(names), extra=extra, names=names))
        case _:
            raise UserError(
                f"this model cannot forget {type(target).__name__.lower()}; choose a photo, samples or labels"
            )


def _joined(people: Sequence[Request]) -> dict[str, torch.Tensor]:
    """What came with each; `mirrored` says whose mirror image each of `mirrors` is, so it is counted on."""
    parts: dict[str, list[torch.Tensor]] = {}
    before = 0
    for one in people:
        for name, value in one.extra.items():
            parts.setdefault(name, []).append(value + before if name == "mirrored" else value)
        before += len(one.forget.w)
    return {name: torch.cat(values) for name, values in parts.items()}


def labelled_codes(base: nn.Module, labels: Labels) -> Request:
    """The codes of the labelled seeds; further features and ones to protect go to `extra` (see engine.directions)."""
    psi, extra = labels.psi, {"psi": torch.tensor(labels.psi)}
    if other := next((one for one in (*labels.also, *labels.keep) if one.psi != psi), None):
        raise UserError(
            f"“{labels.name}” was labelled at truncation {psi:g} and “{other.name}” at {other.psi:g}: a run draws its "
            "samples at one, so label both alike"
        )
    for kind, features in (("also", labels.also), ("keep", labels.keep)):
        for feature in features:
            for side, w in _sides(base, feature, psi).items():
                extra[f"{kind}.{feature.name}.{side}"] = w[:, 0].contiguous()
            extra[f"{kind}.{feature.name}.chosen"] = _chosen(feature)
    codes = _sides(base, labels, psi)
    with_it, without = (LatentBatch(w, f"{len(w)} labelled samples") for w in codes.values())
    return Request(with_it, labels.name, without, extra | {"chosen": _chosen(labels)}, roles=roles_of(labels))


def roles_of(labels: Labels) -> dict[str, str]:
    """Which network labelled what; none where people did."""
    return {f"labelled “{one.name}”": one.by for one in (labels, *labels.also, *labels.keep) if one.by}


def _sides(base: nn.Module, labels: Labels, psi: float) -> dict[str, torch.Tensor]:
    if not labels.having or not labels.lacking:
        side = "with" if labels.lacking else "without"
        raise UserError(f"no sample {side} {labels.name!r} is labelled; label at least one on each side")
    sides = {"having": labels.having, "lacking": labels.lacking}
    return {side: base.map(base.sample_z(seeds), psi=psi) for side, seeds in sides.items()}


def _chosen(labels: Labels) -> torch.Tensor:
    """Which samples were picked actively, those with the feature first."""
    picked = set(labels.chosen)
    return torch.tensor([seed in picked for seed in (*labels.having, *labels.lacking)])
