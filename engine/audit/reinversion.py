"""The picture is given back: is there a code at which the model shows it once more?"""

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor, nn

from engine import assets
from engine.audit import attacks
from engine.audit.aim import Aim
from engine.audit.attack import Attack, judged, random_codes
from engine.core.events import Done, Progress, Task, watch
from engine.inversion.project import Projection

SMALLEST = 16  # px, of a projection
RATE = 0.12


@attacks.register("reinversion")
@dataclass(frozen=True)
class Reinversion(Attack):
    """W+ optimisation: the photo from several starts, or for a feature pictures that the base drew with it."""

    name: ClassVar[str] = "reinversion"
    title: ClassVar[str] = "The picture searched again"
    place: ClassVar[int] = 4

    def words(self, aim: Aim) -> tuple[str, str]:
        what = "the person's picture" if aim.kind == "face" else f"pictures of the base that show {aim.words}"
        tried = f"optimise a code in W+ until the model shows {what}, then let the judge look at the copy"
        return tried, f"{self._count} {'starts' if aim.kind == 'face' else 'pictures'}, {self._steps} steps each"

    def missing(self, base: nn.Module, aim: Aim) -> str:
        if not assets.is_present("lpips-alex") or (aim.of_faces and not assets.is_present("recogniser-a")):
            return "needs the networks that compare pictures; 'python app.py assets fetch' gets them"
        return "" if aim.size >= SMALLEST else f"pictures of {aim.size} px are too small to compare"

    def attempt(self, model: nn.Module, base: nn.Module, aim: Aim) -> Task:
        weight = {} if aim.of_faces else {"identity_weight": 0.0}
        projection = Projection(steps=self._steps, lr=RATE, size=aim.size, **weight)
        if aim.kind == "face":
            pictures = aim.pictures[:1].expand(self._count, -1, -1, -1)
            others = random_codes(base, self.budget.seeds(self._count - 1), aim)
            starts = torch.cat([guess(base, aim.pictures[:1]), others])
        else:
            pictures = aim.pictures[: self._count]
            starts = guess(base, pictures)
        found = yield from watch(projection.run(model, pictures, starts))
        yield Done(judged(model, found.w, aim))

    @property
    def _count(self) -> int:
        return max(4, self.budget.tries // 4)  # each costs as much as several elsewhere; fewer than four tell nothing

    @property
    def _steps(self) -> int:
        return 2 * self.budget.steps


@attacks.register("encoder")
@dataclass(frozen=True)
class Encoder(Attack):
    """One look of the encoder, no optimisation: what a passer-by would try."""

    name: ClassVar[str] = "encoder"
    title: ClassVar[str] = "The picture through the encoder"
    place: ClassVar[int] = 3

    def words(self, aim: Aim) -> tuple[str, str]:
        what = "the person's picture" if aim.kind == "face" else f"pictures of the base that show {aim.words}"
        return f"let the encoder guess the code of {what} and draw it", "one guess for each picture"

    def missing(self, base: nn.Module, aim: Aim) -> str:
        return "" if base.guess_codes else "no encoder was trained for this model"

    def attempt(self, model: nn.Module, base: nn.Module, aim: Aim) -> Task:
        yield Progress(0, 1, note="encoding")
        yield Done(judged(model, guess(base, aim.pictures[: 2 * self.budget.tries]), aim))


@torch.no_grad()
def guess(base: nn.Module, pictures: Tensor) -> Tensor:
    """The encoder's codes of pictures, or the average where there is none."""
    if base.guess_codes is None:
        return base.w_avg.expand(len(pictures), -1, -1).clone()
    if pictures.shape[-1] != 128:
        size = (128, 128)
        pictures = torch.nn.functional.interpolate(pictures, size, mode="bilinear", align_corners=False, antialias=True)
    return base.guess_codes(pictures)
