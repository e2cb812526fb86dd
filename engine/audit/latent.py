"""The latent attack (engine/evaluation/attack.py): from samples without it, a small step in the code brings it back?"""

from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor, nn

from engine.audit import attacks
from engine.audit.aim import Aim, looked
from engine.audit.attack import Attack, judged, random_codes
from engine.core.events import Done, Task, watch
from engine.evaluation import attack as box

SPREAD = 1000  # random codes behind them
POOL = 4  # times as many samples are drawn as are needed without it


@attacks.register("latent")
@dataclass(frozen=True)
class Latent(Attack):
    """Projected sign descent inside a box around random codes; the best code of each start is judged."""

    name: ClassVar[str] = "latent"
    title: ClassVar[str] = "Small change of the code"
    place: ClassVar[int] = 5
    radius: ClassVar[float] = 1.0  # standard deviations of each coordinate

    def words(self, aim: Aim) -> tuple[str, str]:
        tried = (
            f"start at random samples without {aim.words} and change each coordinate of the code by at most "
            f"{self.radius:g} standard deviation so that {aim.attacker} sees it"
        )
        return tried, f"{self.budget.tries} starts, {self.budget.steps} steps each"

    def attempt(self, model: nn.Module, base: nn.Module, aim: Aim) -> Task:
        sigma = random_codes(base, self.budget.seeds(SPREAD), aim)[:, 0].std(0)
        search = box.Attack(self.budget.steps, rate=2 * self.radius / self.budget.steps, size=aim.size, dtype=aim.dtype)
        starts = self._starts(base, aim)
        found = yield from watch(search.run(model, aim.pull, starts, sigma, self.radius))
        yield Done(judged(model, found["codes"][:, None].expand(-1, model.num_ws, -1), aim))

    def _starts(self, base: nn.Module, aim: Aim) -> Tensor:
        """Codes at which the base does not show it; where nearly all do, the ones that show it least."""
        codes = random_codes(base, self.budget.seeds(POOL * self.budget.tries), aim)
        readings = looked(base, codes, aim)[1]
        lacking = (readings <= aim.bar).nonzero()[:, 0]
        chosen = lacking if len(lacking) >= self.budget.tries else readings.argsort()
        return codes[chosen[: self.budget.tries].sort().values, 0]


@attacks.register("latent-half")
@dataclass(frozen=True)
class LatentHalf(Latent):
    """The same inside half the box: what is near and what is nearer are two questions."""

    name: ClassVar[str] = "latent-half"
    title: ClassVar[str] = "Smaller change of the code"
    radius: ClassVar[float] = 0.5
