"""Can the person still be found? A search for codes at which a changed generator shows the photo once more.

Every erasure of a generator meets this attack: the weights are there, and an optimiser looks for any code that gives
the face back. The same search in the unchanged generator says how near it can come at all.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from engine.core.events import Done, Task, watch
from engine.identity.judge import Judge
from engine.inversion.project import Projection


@dataclass(frozen=True)
class Findings:
    """Recogniser B's likeness of the photo and the best picture found, in either generator; A's beside it."""

    before: float
    after: float
    strangers: tuple[float, float]  # mean and 75th percentile, for comparison
    by_a: Mapping[str, float]

    @property
    def is_found(self) -> bool:
        """More like the person than three of four strangers are."""
        return self.after > self.strangers[1]


@dataclass(frozen=True)
class Reinversion:
    """The same projection of one photo into both generators."""

    judge: Judge
    projection: Projection

    def run(self, before: nn.Module, after: nn.Module, photo: Tensor) -> Task:
        """`photo` is [1, 3, size, size] in [-1, 1], aligned. Done holds Findings."""
        alike = {}
        for name, model in (("before", before), ("after", after)):
            found = yield from watch(self.projection.run(model, photo))
            with torch.no_grad():
                alike[name] = self.judge.compare(model.synth(found.w, size=self.projection.size), photo)
        strangers = (self.judge.scale.strangers.mean().item(), self.judge.scale.quantile(0.75))
        b, a = ({name: getattr(pair, by).item() for name, pair in alike.items()} for by in "ba")
        yield Done(Findings(**b, strangers=strangers, by_a=a))
