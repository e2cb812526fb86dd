"""The other half of an honest audit: what should have stayed as it was, and by how much it moved."""

from dataclasses import asdict, dataclass
from typing import Any

import torch
from torch import Tensor, nn

from engine.audit.aim import Aim
from engine.audit.attack import Budget, part
from engine.core.events import Done, Task, watch
from engine.evaluation.feature import LIMITS, FeatureCheck, attribute_of
from engine.evaluation.jury import Jury, jury_of
from engine.identity.check import Check
from engine.identity.judge import Judge, scale_of

MUCH_ALIKE = 0.9  # recogniser B's likeness of a face before and after, from which it counts as kept
PIXELS = 0.02  # of the range, up to which samples count as kept where no LPIPS is here


@dataclass(frozen=True)
class Kept:
    """One thing that should not have changed, before against after."""

    what: str
    words: str
    is_good: bool | None
    samples: int

    def plain(self) -> dict[str, Any]:
        return asdict(self)


def keeping(before: nn.Module, after: nn.Module, aim: Aim, budget: Budget) -> Task:
    """Done holds a list of Kept: samples without it, other attributes, and for faces other people."""
    with_faces = aim.kind == "face" and aim.of_faces
    jury, erased = _jury(before, aim)
    check = FeatureCheck(jury, seeds=budget.samples, size=aim.size, psi=aim.psi, dtype=aim.dtype)
    count = 2 if with_faces else 1
    verdict = yield from watch(part(check.run(before, after, *erased), 0, count))
    found = [_samples(verdict, aim), *_attributes(verdict)]
    if with_faces:
        faces = Check(Judge(scale_of(before)), faces=budget.samples, size=aim.size)
        seen = yield from watch(part(faces.run(before, after, aim.codes), 1, count))
        found.append(_people(seen, budget.samples))
    yield Done(found)


def _jury(before: nn.Module, aim: Aim) -> tuple[Jury, tuple[str, ...]]:
    """Who looks at the samples; the aim's own judge tells those that show a feature, which had to change."""
    jury = jury_of(before)
    if aim.kind == "face":
        return jury, ()
    others = [name for name in jury.names if name != attribute_of(aim.words.strip("“”"))]
    columns = [list(jury.names).index(name) for name in others]

    def sees(pictures: Tensor) -> Tensor:
        own = (aim.reads(pictures) > aim.bar)[:, None]
        return torch.cat([own, jury.sees(pictures)[:, columns].to(own.device)], 1)

    return Jury((aim.words, *others), sees), (aim.words, *aim.also)


def _samples(verdict: dict[str, Any], aim: Aim) -> Kept:
    moved, samples = verdict["unaffected"], verdict["unaffected"]["samples"]
    what = f"Samples without {aim.words}" if aim.kind == "feature" else "Other samples"
    if moved["lpips"] is None:
        words = f"pixels moved by {moved['pixels'] / 2:.1%} of their range"
        return Kept(what, words, moved["pixels"] / 2 <= PIXELS, samples)
    if not samples:
        return Kept(what, "none among those looked at", None, samples)
    good, (low, high) = moved["lpips"] <= LIMITS["lpips"], moved["lpips interval"]
    how = "changed little" if good else "changed visibly"
    words = f"{how}: LPIPS {moved['lpips']:.3f} (95 % interval {low:.3f} to {high:.3f}; 0 is untouched)"
    return Kept(what, words, good, samples)


def _attributes(verdict: dict[str, Any]) -> list[Kept]:
    if not verdict["drift"]:
        return []
    name, row = max(verdict["drift"].items(), key=lambda item: abs(item[1]["points"]))
    clear = abs(row["points"]) - row["error"] > LIMITS["points"]
    words = f"{name} moved most, by {row['points']:+.1f} ± {row['error']:.1f} points"
    return [Kept("Other attributes", words, not clear, verdict["samples"])]


def _people(seen: Any, faces: int) -> Kept:
    mean, low, high = seen.everyone
    words = f"likeness before and after {mean:.2f} (95 % interval {low:.2f} to {high:.2f}; 1 is untouched)"
    return Kept("Other people", words, mean >= MUCH_ALIKE, faces)
