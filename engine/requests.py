"""From what a front end asks (plain data) to what a method works on (codes)."""

from torch import nn

from engine.core.errors import UserError
from engine.core.events import Done, Progress, Task
from engine.core.targets import Labels, Seeds, Target
from engine.data import LatentBatch, Request


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
        case _:
            raise UserError(f"this model cannot forget {type(target).__name__.lower()}; choose samples or labels")
