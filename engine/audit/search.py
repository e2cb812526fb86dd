"""A search without bounds: any code at all, every row free, that makes the model show it."""

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import nn

from engine.audit import attacks
from engine.audit.aim import BATCH, Aim
from engine.audit.attack import Attack, judged, random_codes
from engine.core.events import Done, Progress, Task
from engine.redirect import Latents

RATE = 0.2  # Adam's, in standard deviations of random codes


@attacks.register("search")
@dataclass(frozen=True)
class Search(Attack):
    """Adam on the attacker's eye from random codes, in W+ without a prior; the best code of each start is judged."""

    name: ClassVar[str] = "search"
    title: ClassVar[str] = "Search without bounds"
    place: ClassVar[int] = 6

    def words(self, aim: Aim) -> tuple[str, str]:
        tried = f"from random samples, look for any code in W+ at which {aim.attacker} sees {aim.words}"
        return tried, f"{self.budget.tries} starts, {self.budget.steps} steps each"

    def attempt(self, model: nn.Module, base: nn.Module, aim: Aim) -> Task:
        latents, best = Latents.of(base), []
        starts = latents.whiten(random_codes(base, self.budget.seeds(self.budget.tries), aim))
        parts = starts.split(BATCH)
        for number, start in enumerate(parts):
            place = start.clone().requires_grad_(True)
            top, score = start.clone(), start.new_full((len(start),), -torch.inf)
            optimiser = torch.optim.Adam([place], lr=RATE)
            for step in range(self.budget.steps + 1):
                pulled = aim.pull(aim.show(model, latents.mean + place @ latents.spread))
                better = pulled.detach() > score
                top[better], score[better] = place.detach()[better], pulled.detach()[better]
                optimiser.zero_grad()
                (-pulled.sum()).backward()
                optimiser.step()
                done = number * (self.budget.steps + 1) + step + 1
                if (yield Progress(done, len(parts) * (self.budget.steps + 1), note="searching")):
                    break
            best.append(top)
        yield Done(judged(model, latents.mean + torch.cat(best) @ latents.spread, aim))
