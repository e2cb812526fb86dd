"""From what a front end asks (plain data) to what a method works on (codes)."""

import torch
from torch import nn

from engine.core.errors import UserError
from engine.core.events import Done, Progress, Task, watch
from engine.core.targets import Labels, Photo, Seeds, Target
from engine.data import LatentBatch, Request
from engine.inversion.photo import invert


def prepare(base: nn.Module, target: Target) -> Task:
    """Ends with the Request. Kinds of targets that need long work (a photo) report their own progress."""
    match target:
        case Seeds(seeds):
            if not seeds:
                raise UserError("no sample chosen; choose at least one")
            words = f"seeds {', '.join(map(str, seeds))}"
            yield Progress(1, 1, note="finding the samples")
            yield Done(Request(LatentBatch(base.map(base.sample_z(seeds)), words), words))
        case Labels():
            yield Progress(1, 1, note="finding the samples")
            yield Done(labelled_codes(base, target))
        case Photo(pixels, face, words, others, code):
            w = (yield from watch(invert(base, pixels, face))).w if code is None else torch.from_numpy(code)
            codes = []
            for other in others:
                codes.append((yield from watch(invert(base, other))).w)
            extra = {"photos": torch.cat(codes)} if codes else {}
            yield Done(Request(LatentBatch(w.to(base.w_avg), "a photo"), words, extra=extra))
        case _:
            raise UserError(
                f"this model cannot forget {type(target).__name__.lower()}; choose a photo, samples or labels"
            )


def labelled_codes(base: nn.Module, labels: Labels) -> Request:
    """The codes of the labelled seeds; further features and ones to protect go to `extra` (see engine.directions)."""
    psi, extra = labels.psi, {"psi": torch.tensor(labels.psi)}
    for kind, features in (("also", labels.also), ("keep", labels.keep)):
        for feature in features:
            for side, w in _sides(base, feature, psi).items():
                extra[f"{kind}.{feature.name}.{side}"] = w[:, 0].contiguous()
            extra[f"{kind}.{feature.name}.chosen"] = _chosen(feature)
    codes = _sides(base, labels, psi)
    with_it, without = (LatentBatch(w, f"{len(w)} labelled samples") for w in codes.values())
    return Request(with_it, labels.name, without, extra | {"chosen": _chosen(labels)})


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
