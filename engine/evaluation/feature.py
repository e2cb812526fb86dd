"""What a feature erasure did, by judges that had no part in it: what is left, what else moved, what it cost."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn

from engine import assets, features, losses
from engine import device as devices
from engine.attributes import NAMES
from engine.core.events import Done, Progress, Task, watch
from engine.evaluation.independence import check_judges
from engine.evaluation.jury import Jury, jury_of
from engine.evaluation.shares import Drift, removed
from engine.identity.judge import interval

LIMITS = {"lpips": 0.05, "points": 3.0, "removed": 0.97}  # the project's goals
WORDS = {  # what users call the attributes that the judge knows
    "eyeglasses": "glasses",
    "spectacles": "glasses",
    "sunglasses": "glasses",
    "smiling": "smile",
    "hats": "hat",
    "cap": "hat",
    "fringe": "bangs",
    "bang": "bangs",
    "facial hair": "beard",
    "mustache": "beard",
}


def attribute_of(feature: str) -> str | None:
    """The judged attribute that a user's word means, if there is one."""
    word = feature.strip().lower()
    word = WORDS.get(word, word)
    return word if word in NAMES else None


@dataclass(frozen=True)
class FeatureCheck:
    """Compares two versions of a generator at the same seeds."""

    jury: Jury
    seeds: int = 2000
    first_seed: int = 1_000_000_000  # far from those that pages show and methods draw
    size: int = 128
    psi: float = 1.0
    batch: int = 16
    distances: bool = False  # FD-eff, which needs two passes of the backbone more per sample
    dtype: torch.dtype = torch.float32
    roles: Mapping[str, str] = field(default_factory=dict)  # what a network did before (see independence.py)
    any_judge: bool = False  # judges may have another role; the verdict says so

    @property
    def has_lpips(self) -> bool:
        return assets.is_present("lpips-alex")

    def run(self, before: nn.Module, after: nn.Module, *erased: str) -> Task:
        """Done holds a dict of plain values; `erased` are features in the user's words, which the jury may not know."""
        (verdict,) = (yield from watch(self.run_all(before, {"": after}, {"": erased}))).values()
        yield Done(verdict)

    def run_all(self, before: nn.Module, afters: Mapping[str, nn.Module], erased: Mapping[str, Sequence[str]]) -> Task:
        """Several versions at once: the one before is drawn and judged only once. Done holds a verdict for each."""
        caveats = check_judges(self.jury.nets, self.roles, override=self.any_judge)
        rows: dict[str, list[dict[str, Tensor]]] = {name: [] for name in afters}
        numbers = range(self.first_seed, self.first_seed + self.seeds)
        for start in range(0, self.seeds, self.batch):
            seeds = numbers[start : start + self.batch]
            w = before.map(before.sample_z(seeds), psi=self.psi)
            old = self._look(self._picture(before, w))
            known = {"old": old.seen, "old features": old.features, "seed": torch.tensor(list(seeds))}
            for name, after in afters.items():
                rows[name].append(known | self._compare(old, self._look(self._picture(after, w))))
            done = min(start + self.batch, self.seeds)
            if (yield Progress(done, self.seeds, note="checking the result")):
                break
        joined = {name: {key: torch.cat([row[key] for row in part]) for key in part[0]} for name, part in rows.items()}
        yield Done({name: self._verdict(seen, erased[name]) | {"caveats": caveats} for name, seen in joined.items()})

    @torch.no_grad()
    def _picture(self, model: nn.Module, w: Tensor) -> Tensor:
        side = max([size for size in model.sizes if size <= self.size], default=model.sizes[0])
        with devices.computing(w.device, self.dtype):
            return model.synth(w, size=side).float()

    @torch.no_grad()
    def _look(self, pictures: Tensor) -> "Looked":
        percept = losses.lpips("alex", pictures.device).features(pictures) if self.has_lpips else ()
        pooled = features.pooled(pictures).cpu() if self.distances else torch.zeros(len(pictures), 0)
        return Looked(pictures, self.jury.sees(pictures).cpu(), pooled, percept)

    @torch.no_grad()
    def _compare(self, old: "Looked", new: "Looked") -> dict[str, Tensor]:
        pixels = (old.pictures - new.pictures).abs().mean((1, 2, 3))
        seen = {"new": new.seen, "new features": new.features, "pixels": pixels.cpu()}
        if self.has_lpips:
            look = losses.lpips("alex", pixels.device)
            seen["lpips"] = look.distance(new.percept, old.percept).cpu()
        return seen

    def column_of(self, feature: str) -> int | None:
        """Where the jury sees what a user calls so; None where it does not know it."""
        known = feature if feature in self.jury.names else attribute_of(feature)
        return list(self.jury.names).index(known) if known in self.jury.names else None

    def _verdict(self, seen: Mapping[str, Tensor], erased: Sequence[str]) -> dict[str, Any]:
        """The first of the erased features also stands for itself, beside `erased`, where all of them are."""
        old, new = seen["old"], seen["new"]
        drifts, columns = self._drifts(old, new), {feature: self.column_of(feature) for feature in erased}
        known = [column for column in columns.values() if column is not None]
        gone = {drifts[column].name for column in known}
        lacking = ~old[:, known].any(1)
        verdict: dict[str, Any] = {"samples": len(old), "psi": self.psi}
        verdict["erased"] = {name: None if at is None else _told(drifts[at]) for name, at in columns.items()}
        if known:
            still = (old[:, known] & new[:, known]).any(1).nonzero()[:, 0]
            verdict["still"] = seen["seed"][still].tolist()[:12]
        verdict |= next(iter(verdict["erased"].values()), None) or {}
        others = [drift for drift in drifts if drift.name not in gone]
        verdict["drift"] = {drift.name: drift.plain() for drift in others}
        verdict["largest drift"] = max((abs(drift.points) for drift in others), default=0.0)
        verdict["unaffected"] = {
            "samples": int(lacking.sum()),
            "lpips": seen["lpips"][lacking].mean().item() if self.has_lpips else None,
            "lpips interval": interval(seen["lpips"][lacking])[1:] if self.has_lpips and lacking.any() else None,
            "pixels": seen["pixels"][lacking].mean().item(),
            "drift": {
                drift.name: drift.points
                for drift in (self._drifts(old[lacking], new[lacking]) if lacking.any() else ())
                if drift.name not in gone
            },
        }
        verdict["most changed"] = seen["seed"][lacking][seen["pixels"][lacking].argsort(descending=True)][:6].tolist()
        if self.distances:
            verdict["FD-eff"] = set_distance(seen["old features"], seen["new features"], lacking)
        return verdict

    def _drifts(self, old: Tensor, new: Tensor) -> list[Drift]:
        """How often the jury sees each attribute, before and after."""
        return [Drift.between(name, old[:, k].tolist(), new[:, k].tolist()) for k, name in enumerate(self.jury.names)]


def _told(drift: Drift) -> dict[str, Any]:
    """How often an erased feature was seen and is seen, and which part of it is gone."""
    before, after = drift.before, drift.after
    part = removed(before, after)
    return {"before": before.plain(), "after": after.plain(), "removed": part, "gone": gone(part)}


@dataclass(frozen=True)
class Looked:
    """Pictures with what is asked of them, so that those of the version before are asked once."""

    pictures: Tensor
    seen: Tensor
    features: Tensor
    percept: tuple[Tensor, ...]


def set_distance(old: Tensor, new: Tensor, clean: Tensor) -> dict[str, float]:
    """FD-eff from one half of the old clean samples to the new samples of the other half's seeds; `floor` is the same
    for the old samples of that half, which differ by chance alone."""
    half = torch.arange(len(old)) % 2 == 0
    here = old[clean & half]
    return {
        "distance": features.frechet_distance(here, new[~half]),
        "before": features.frechet_distance(here, old[~half]),
        "floor": features.frechet_distance(here, old[clean & ~half]),
    }


def check_feature(before: nn.Module, after: nn.Module, erased: Sequence[str], **how: Any) -> Task:
    """The check at the end of a run, by the judges that fit this model. `how` are a FeatureCheck's own settings. Done
    holds plain values."""
    dtype = devices.quick_type(before.w_avg.device)
    check = FeatureCheck(jury_of(before), dtype=dtype, **how)
    verdict = yield from watch(check.run(before, after, *erased))
    yield Done(verdict | {"judged": "after" in verdict, "words": in_words(verdict)})


def in_words(verdict: Mapping[str, Any]) -> list[str]:
    """The cards of the page: words first, number second."""
    said = [_left(feature, told) for feature, told in verdict["erased"].items()]
    lpips = verdict["unaffected"]["lpips"]
    if lpips is not None:
        how = "hardly" if lpips <= 0.02 else "little" if lpips <= LIMITS["lpips"] else "visibly"
        said.append(f"Samples without it changed {how} (LPIPS {lpips:.3f})")
    moved = [(name, row["points"]) for name, row in verdict["drift"].items() if abs(row["points"]) > LIMITS["points"]]
    if moved:
        said.append("Also moved: " + ", ".join(f"{name} {points:+.1f} points" for name, points in moved))
    elif verdict["drift"]:
        said.append(f"Nothing else moved by more than {LIMITS['points']:g} points")
    return [*said, *verdict["caveats"]]


def _left(feature: str, told: Mapping[str, Any] | None) -> str:
    if told is None:
        return f"No judge on this machine knows “{feature}”: look at the pairs to see what is left of it"
    after, before = told["after"], told["before"]
    return (
        f"“{feature}” in {after['count']} of {after['of']} samples (was {before['count']}): {told['gone']}; "
        f"95 % interval of what is left {after['low']:.1f} to {after['high']:.1f} %"
    )


def gone(removed: float | None) -> str:
    """PUL in words, never rounded up: 100 % is said of what is seen nowhere."""
    if removed is None:
        return "none was seen before"
    return "none of it is gone" if removed <= 0 else f"{math.floor(100 * removed)} % of it is gone"
