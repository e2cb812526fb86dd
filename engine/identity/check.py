"""What an identity erasure did: to the person, to their other photos, to everyone else."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from engine import losses
from engine.core.events import Done, Progress, Task
from engine.delta import Delta, compose
from engine.identity.judge import BATCH, Judge, interval
from engine.identity.targets import draw
from engine.models import to_pixels

Figure = tuple[float, float, float]  # mean, and its bootstrap 95 % interval


def score(person: float, everyone: float, strangers: float) -> float:
    """Harmonic mean of erased (1 as unlike as strangers are on average, 0 unchanged) and kept."""
    gone, kept = min(1.0, max(0.0, (1 - person) / (1 - strangers))), max(0.0, everyone)
    return 2 * gone * kept / (gone + kept) if gone + kept else 0.0


@dataclass(frozen=True)
class Verdict:
    """Figures by recogniser B unless said otherwise; `worst` are the pictures that changed most, before and after."""

    person: Figure  # the erased codes, before against after: low is erased
    everyone: Figure  # random faces, before against after: 1 is untouched
    drift: Figure  # LPIPS of the same random faces
    strangers: tuple[float, float, float]  # mean, 75th and 95th percentile of strangers of this generator
    by_a: Mapping[str, float]
    same_person: tuple[float, float] | None = None  # the range of two photos of one person, where it is known
    other_photos: Figure | None = None  # other codes of the same person
    other_people: Figure | None = None  # inversions of other people (W+)
    drift_people: Figure | None = None
    worst: Mapping[str, Any] = field(default_factory=dict, repr=False)

    @property
    def is_stranger(self) -> bool:
        """As unlike the old picture as three of four strangers are."""
        return self.person[0] <= self.strangers[1]

    @property
    def score(self) -> float:
        return score(self.person[0], self.everyone[0], self.strangers[0])

    def plain(self) -> dict[str, Any]:
        """For a card, JSON or a page."""
        values = {name: value for name, value in asdict(self).items() if name != "worst"}
        return values | {"score": self.score, "is_stranger": self.is_stranger}


@dataclass(frozen=True)
class Check:
    """Compares two versions of a generator at the same codes."""

    judge: Judge
    faces: int = 200
    size: int = 128
    seed: int = 7  # not the seed of any training

    def run(
        self,
        before: nn.Module,
        after: nn.Module,
        person: Tensor,
        *,
        photos: Tensor | None = None,
        people: Tensor | None = None,
    ) -> Task:
        """`photos` are codes of other photos of the same person, `people` inversions of other people."""
        sets = {"person": person, "photos": photos, "people": people}
        sets["everyone"] = draw(before, self.faces, torch.Generator().manual_seed(self.seed))
        total, done, seen = sum(len(w) for w in sets.values() if w is not None), 0, {}
        for name, codes in sets.items():
            rows = []
            for part in codes.split(BATCH) if codes is not None else ():
                rows.append(self._look(before, after, part))
                done += len(part)
                if (yield Progress(done, total, note="checking everyone else" if name == "everyone" else "checking")):
                    break
            if rows:
                seen[name] = {key: torch.cat([row[key] for row in rows]) for key in rows[0]}
        yield Done(self._verdict(seen))

    @torch.no_grad()
    def several(self, before: nn.Module, deltas: Sequence[Delta], people: Tensor) -> dict[str, Any]:
        """`matrix`: every person's likeness before and after, a row after each delta. `alike`: the mean and the largest
        likeness of two of them, before and at the end; two erased people must not become the same face."""
        old, model, matrix = before.synth(people, size=self.size), before, []
        for delta in deltas:
            model = compose(model, [delta]).eval()
            new = model.synth(people, size=self.size)
            matrix.append(self.judge.compare(old, new).b.tolist())
        first, second = torch.triu_indices(len(people), len(people), 1)
        pairs = {"before": old, "after": new}
        alike = {name: self.judge.compare(x[first], x[second]).b for name, x in pairs.items()}
        return {"matrix": matrix, "alike": {name: (b.mean().item(), b.max().item()) for name, b in alike.items()}}

    @torch.no_grad()
    def _look(self, before: nn.Module, after: nn.Module, w: Tensor) -> dict[str, Tensor]:
        old, new = (model.synth(w, size=self.size) for model in (before, after))
        alike, drift = self.judge.compare(old, new), losses.lpips("alex", w.device)(old, new)
        pixels = [torch.from_numpy(np.ascontiguousarray(to_pixels(image))) for image in (old, new)]
        return {"b": alike.b, "a": alike.a, "drift": drift.cpu(), "old": pixels[0], "new": pixels[1]}

    def _verdict(self, seen: Mapping[str, Mapping[str, Tensor]]) -> Verdict:
        scale, everyone = self.judge.scale, seen["everyone"]
        worst = everyone["b"].argsort()[:6]
        optional = {
            "other_photos": ("photos", "b"),
            "other_people": ("people", "b"),
            "drift_people": ("people", "drift"),
        }
        return Verdict(
            person=interval(seen["person"]["b"]),
            everyone=interval(everyone["b"]),
            drift=interval(everyone["drift"]),
            strangers=(scale.strangers.mean().item(), scale.quantile(0.75), scale.quantile(0.95)),
            same_person=scale.same_person,
            by_a={name: rows["a"].mean().item() for name, rows in seen.items()},
            worst={"before": everyone["old"][worst].numpy(), "after": everyone["new"][worst].numpy()},
            **{name: interval(seen[which][key]) for name, (which, key) in optional.items() if which in seen},
        )
