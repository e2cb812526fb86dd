"""The plainest attempt: draw random samples and look."""

from dataclasses import dataclass
from typing import ClassVar

from torch import nn

from engine.audit import attacks
from engine.audit.aim import Aim
from engine.audit.attack import Attack, judged, random_codes
from engine.core.events import Done, Progress, Task


@attacks.register("samples")
@dataclass(frozen=True)
class Sampling(Attack):
    """How often random samples show the feature. A face is one in a multitude: for it the attacks below say more."""

    name: ClassVar[str] = "samples"
    title: ClassVar[str] = "Random samples"
    place: ClassVar[int] = 1

    def words(self, aim: Aim) -> tuple[str, str]:
        return f"draw random samples and count those that show {aim.words}", f"{self.budget.samples} samples"

    def missing(self, base: nn.Module, aim: Aim) -> str:
        return "" if aim.kind == "feature" else "one face is hardly ever drawn by chance, before or after"

    def attempt(self, model: nn.Module, base: nn.Module, aim: Aim) -> Task:
        yield Progress(0, 1, note="drawing samples")
        codes = random_codes(model, self.budget.seeds(self.budget.samples), aim)
        yield Done(judged(model, codes, aim))
