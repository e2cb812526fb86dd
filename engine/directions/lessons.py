"""What the student is taught: pictures to keep, pictures to change, and codes that an attacker moved."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from engine.directions.attacked import Attacker
from engine.directions.sight import Seen, Sight

Goals = tuple[Tensor, Seen, Tensor]  # codes, what must be seen of them, and which of them are to forget
ALIKE = 3  # one in so many of the kept samples looks much like the feature


@dataclass(frozen=True)
class Lessons:
    """`keep` and `erase` hold codes with the pictures the student must show for them; of what is held out, `erase` has
    what was shown before."""

    keep: Seen  # those that look most like the feature first
    erase: Seen
    attacked: Seen | None = None
    attacker: Attacker | None = None

    def in_order(self, sights: Sequence[Sight]) -> "Lessons":
        """With the kept samples that look most like a feature first."""
        alike = torch.stack([sight.scores(self.keep.looks) for sight in sights]).amax(0)
        return replace(self, keep=self.keep.of(alike.argsort(descending=True)))

    def draw(self, counts: tuple[int, int, int], random: torch.Generator) -> Goals:
        """Kept, erased and attacked codes, so many of each. Half of the kept ones look much like the feature, since
        what is learnt of it spreads to them first."""
        kept, erased, attacked = counts
        near = kept // 2
        a = torch.cat([_pick(self.keep, near, random, ALIKE), _pick(self.keep, kept - near, random)])
        parts = [self.keep.of(a), self.erase.of(_pick(self.erase, erased, random))]
        if attacked:
            parts.append(self.attacked.of(_pick(self.attacked, attacked, random)))
        goals = Seen.join(parts)
        return goals.codes, goals, torch.arange(len(goals.codes), device=goals.codes.device) >= kept

    def draw_mixed(self, count: int, random: torch.Generator) -> Goals:
        """A batch in which flagged samples are as frequent as among random ones."""
        total = len(self.keep.codes) + len(self.erase.codes)
        index = torch.randint(total, (count,), generator=random)
        kept = int((index < len(self.keep.codes)).sum())
        a, b = _pick(self.keep, kept, random), _pick(self.erase, count - kept, random)
        goals = Seen.join([self.keep.of(a), self.erase.of(b)])
        return goals.codes, goals, torch.arange(count, device=goals.codes.device) >= kept


def _pick(seen: Seen, count: int, random: torch.Generator, among: int = 1) -> Tensor:
    """Indices of the first one in `among`."""
    first = -(-len(seen.codes) // among)
    return torch.randint(max(first, 1), (count,), generator=random).to(seen.codes.device)
