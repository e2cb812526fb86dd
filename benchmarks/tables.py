"""How the tables tell a number that was measured several times."""

import statistics
from collections.abc import Sequence


def spread(values: Sequence[float], form: str = ".2f") -> str:
    """The median, and in brackets the least and the most."""
    middle, least, most = (f"{value:{form}}" for value in (statistics.median(values), min(values), max(values)))
    return f"{middle} ({least} to {most})"
