"""Which samples are shown: batches drawn at random, smart ones once there are labels, and odd labels once more."""

from collections.abc import Sequence
from dataclasses import dataclass

SIZE = 120
FIRST = 1000  # seeds below are for looking at
MORE = 120  # further samples that a smart batch is chosen from; each is looked at first, which takes time
FAR = 10_000_000  # where these begin


@dataclass(frozen=True)
class Batch:
    """`chosen` seeds were picked, not drawn at random: thresholds must not be taken from them."""

    number: int = 0
    seeds: tuple[int, ...] = ()
    chosen: frozenset[int] = frozenset()
    aside: bool = False  # shown between two batches, so that the next one is the one before it once more

    @property
    def following(self) -> int:
        return self.number if self.aside else self.number + 1


def at_random(number: int) -> Batch:
    return Batch(number, tuple(range(FIRST + number * SIZE, FIRST + (number + 1) * SIZE)))


def pool(number: int) -> Sequence[int]:
    """What a smart batch is made of."""
    return [*at_random(number).seeds, *range(FAR + number * MORE, FAR + (number + 1) * MORE)]


def smart(number: int, picked: Sequence[tuple[int, bool]]) -> Batch:
    """From seeds, each with whether it was chosen."""
    chosen = frozenset(seed for seed, was_chosen in picked if was_chosen)
    return Batch(number, tuple(seed for seed, _ in picked), chosen)
