"""Features: what an erasure would do, before anything is trained."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch

from engine import device as devices
from engine.core.events import Progress
from engine.core.knobs import build
from engine.core.targets import Labels
from engine.directions.find import unprotected, warnings
from engine.directions.sight import Eye
from engine.directions.study import Study, study
from engine.methods.feature import Feature
from engine.models import to_pixels
from engine.requests import labelled_codes
from engine.studio.desk import Place
from engine.studio.labelling import Labelling, side_of

PREVIEW_SAMPLES = 200  # random ones behind a preview; a run looks at more
BINS = 40


@dataclass(frozen=True)
class FeaturePreview:
    """What erasing would do, before it is done. Scores are in standard deviations of random samples, and those of what
    the settings find the feature by: the probe, or a direction."""

    token: str  # for `slide`
    name: str
    auc: float  # how well held-out labels separate, 0.5 to 1
    share: float  # of random samples would change
    edges: list[float]
    random: list[int]  # counts by bin
    having: list[int]
    lacking: list[int]
    gate: float
    land: float
    warnings: list[str]


class Features(Labelling):
    """The part of the Studio that previews."""

    def preview_feature(
        self, base: str, target: Labels, *, deltas: Sequence[str] = (), knobs: Mapping[str, Any] | None = None
    ) -> Iterator[str | FeaturePreview]:
        """Yields what is being done, in words, and ends with the preview. The samples looked at are remembered."""
        model = self.models.with_deltas(base, deltas)
        method = build(Feature, {**(knobs or {}), "samples": PREVIEW_SAMPLES})
        task = study(model, labelled_codes(model, target), method.search, self._eye(model))
        while True:
            try:
                event = next(task)
            except StopIteration as end:
                found = end.value
                break
            if isinstance(event, Progress):
                yield event.note
        token = self._desk.put(Place(base, tuple(deltas), target.psi), target, found)
        caveats = self.feature_caveats([other.name for other in target.keep], knobs or {})
        caveats = [*caveats, *unprotected(model.latent, target.name, target.keep)]
        yield _preview(token, found, len(target.having), caveats)

    def slide(
        self, token: str, steps: Sequence[float] = (-3.0, 0.0, 3.0), *, size: int | None = None
    ) -> list[list[np.ndarray]]:
        """Six labelled samples, three with the feature first, each moved along the direction by so many standard
        deviations: rows of pictures, HWC uint8."""
        place, target, found = self._desk.get(token)
        model, direction = self.models.with_deltas(place.base, place.deltas), found.directions[0]
        seeds = [*target.having[:3], *target.lacking[:3]]
        moves = torch.tensor(steps, dtype=torch.float32, device=self.device)[None, :, None] * direction.sigma
        moves = moves / (direction.score @ direction.shift)  # 1, but for the printed formula
        with torch.inference_mode():
            codes = model.map(model.sample_z(seeds), psi=target.psi)[:, :1]
            codes = (codes + moves * direction.shift).flatten(0, 1)
            eye = Eye(size or side_of(model, 128), devices.quick_type(self.device))
            shown = np.concatenate([to_pixels(eye.pictures(model, part)[1]) for part in codes.split(9)])
        return [list(row) for row in shown.reshape(len(seeds), len(steps), *shown.shape[1:])]

    def feature_caveats(self, keep: Sequence[str], knobs: Mapping[str, Any]) -> list[str]:
        """What these settings leave undone of what was asked, in sentences; `keep` names what is to be protected."""
        method = build(Feature, knobs)
        if not keep or method.direction == "probe" or method.move != "printed":
            return []
        names = " and ".join(f"“{name}”" for name in keep)
        return [
            f"The printed formula (As published) protects nothing: {names} may change, too. "
            "Set Move to another way, or choose another preset."
        ]


def _preview(token: str, found: Study, having: int, caveats: Sequence[str]) -> FeaturePreview:
    """By what decides in a run: the probe, or where there is none the direction alone."""
    sight, direction = found.sights[0], found.directions[0]
    if found.ways:
        scores, auc, marks = sight.scores(found.pool.looks), sight.auc, (sight.gate, sight.clear)
    else:
        scores, auc = direction.scores(found.pool.codes) / direction.sigma, direction.auc
        marks = direction.gate / direction.sigma, direction.land / direction.sigma
    scores = scores.cpu()
    labelled = scores[found.first.cpu()]
    parts = (scores[: found.drawn], labelled[:having], labelled[having:])
    low, high = scores.min().item(), scores.max().item()
    edges = torch.linspace(low, high, BINS + 1)
    counts = [torch.histc(part, BINS, low, high).long().tolist() for part in parts]
    said = [*caveats, *warnings(replace(direction, auc=auc), found.share)]
    return FeaturePreview(token, sight.name, auc, found.share, edges.tolist(), *counts, *marks, said)
