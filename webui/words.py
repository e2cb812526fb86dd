"""Numbers as people say them."""

from datetime import datetime


def clock(seconds: float) -> str:
    """1:10"""
    minutes, rest = divmod(max(0, round(seconds)), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{rest:02d}" if hours else f"{minutes}:{rest:02d}"


def span(seconds: float) -> str:
    """20 s, 3 min, 2 h"""
    if seconds < 59.5:
        return f"{max(1, round(seconds))} s"
    if seconds < 3570:
        return f"{round(seconds / 60)} min"
    return f"{seconds / 3600:.1f} h"


def moment(stamp: float) -> str:
    """Today only the time, else the day too."""
    when = datetime.fromtimestamp(stamp)
    return f"{when:%H:%M}" if when.date() == datetime.now().date() else f"{when:%d %b %H:%M}"


def amount(number: float) -> str:
    """12.3 million, 45 thousand"""
    for size, word in ((1e9, "billion"), (1e6, "million"), (1e3, "thousand")):
        if number >= size:
            return f"{number / size:.3g} {word}"
    return f"{number:g}"


def weight(size: float) -> str:
    """45 MB"""
    for unit, word in ((1e9, "GB"), (1e6, "MB"), (1e3, "kB")):
        if size >= unit:
            return f"{size / unit:.3g} {word}"
    return f"{size:g} B"


def plural(count: int, word: str) -> str:
    return f"{count} {word}" if count == 1 else f"{count} {word}s"
