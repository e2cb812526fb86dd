"""Counted shares with honest intervals."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import NormalDist

Z = NormalDist().inv_cdf(0.975)  # 95 %


@dataclass(frozen=True)
class Share:
    """`count` of `total`, with Wilson's 95 % interval."""

    count: int
    total: int

    @property
    def value(self) -> float:
        return self.count / self.total if self.total else math.nan

    @property
    def interval(self) -> tuple[float, float]:
        n = self.total
        if not n:
            return 0.0, 1.0
        p, z2 = self.value, Z**2
        middle = (p + z2 / (2 * n)) / (1 + z2 / n)
        half = Z / (1 + z2 / n) * math.sqrt(p * (1 - p) / n + z2 / (4 * n**2))
        return max(0.0, middle - half), min(1.0, middle + half)

    def plain(self) -> dict[str, float | None]:
        """In per cent, for a card or a page; of nothing there is no share."""
        low, high = self.interval
        share = 100 * self.value if self.total else None
        return {"count": self.count, "of": self.total, "share": share, "low": 100 * low, "high": 100 * high}


def is_less_often(after: Share, before: Share) -> bool:
    """Beyond chance by Fisher's exact test, at the 2.5 % of one side. Intervals of normal errors would already believe
    none of two against two of two, which chance alone gives in one case of six."""
    found, tries = before.count + after.count, before.total + after.total
    as_few = sum(math.comb(after.total, k) * math.comb(before.total, found - k) for k in range(after.count + 1))
    return as_few <= 0.025 * math.comb(tries, found)


def removed(before: Share, after: Share) -> float | None:
    """PUL: which part of what was there is gone. Negative when there is more than before, None when there was none."""
    return (before.value - after.value) / before.value if before.count else None


@dataclass(frozen=True)
class Drift:
    """One attribute on the same samples before and after: `lost` had it and have it no more, `gained` the reverse."""

    name: str
    before: Share
    after: Share
    lost: int
    gained: int

    @classmethod
    def between(cls, name: str, had: Sequence[bool], has: Sequence[bool]) -> "Drift":
        """Sample by sample, before and after."""
        pairs = list(zip(had, has, strict=True))
        before, after = Share(sum(had), len(pairs)), Share(sum(has), len(pairs))
        return cls(name, before, after, sum(a and not b for a, b in pairs), sum(b and not a for a, b in pairs))

    @property
    def points(self) -> float:
        """Change of the share, in percentage points."""
        return 100 * (self.after.value - self.before.value)

    @property
    def error(self) -> float:
        """Half of the 95 % interval of `points`: the samples are paired, so only those that changed count."""
        n, change = self.before.total, self.gained - self.lost
        if not n:
            return math.nan
        return 100 * Z * math.sqrt(max(self.gained + self.lost - change**2 / n, 0)) / n

    def plain(self) -> dict[str, float]:
        return {
            "before": 100 * self.before.value,
            "after": 100 * self.after.value,
            "points": self.points,
            "error": self.error,
        }
