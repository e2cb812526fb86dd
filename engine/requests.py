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
        case Labels(name, having, lacking, _, psi):
            if not having or not lacking:
                side = "with" if lacking else "without"
                raise UserError(f"no sample {side} {name!r} is labelled; label at least one on each side")
            codes = [base.map(base.sample_z(seeds), psi=psi) for seeds in (having, lacking)]
            yield Progress(1, 1, note="finding the samples")
            with_it, without = (LatentBatch(w, f"{len(w)} labelled samples") for w in codes)
            yield Done(Request(with_it, name, without))
        case Photo(pixels, face, words, others):
            found = yield from watch(invert(base, pixels, face))
            codes = []
            for other in others:
                codes.append((yield from watch(invert(base, other))).w)
            extra = {"photos": torch.cat(codes)} if codes else {}
            yield Done(Request(LatentBatch(found.w, "a photo"), words, extra=extra))
        case _:
            raise UserError(
                f"this model cannot forget {type(target).__name__.lower()}; choose a photo, samples or labels"
            )
