"""Seeds as people write them: "0-11, 20"."""

import re

from engine.core.errors import UserError

PART = re.compile(r"^(\d+)(?:-(\d+))?$")


def parse_seeds(text: str, most: int = 64) -> list[int]:
    """Numbers and ranges in the order given, each once."""
    found: dict[int, None] = {}
    for part in re.split(r"[,;\s]+", re.sub(r"\s*[-–]\s*", "-", text.strip()).strip(",; ")):
        match = PART.match(part)
        if not match:
            raise UserError(f"seeds {part!r}: write numbers and ranges, such as 0-11, 20")
        first, last = int(match[1]), int(match[2] or match[1])
        if last < first or last - first >= most:
            raise UserError(f"seeds {part}: a range goes upwards and has at most {most} numbers")
        found.update(dict.fromkeys(range(first, last + 1)))
    if len(found) > most:
        raise UserError(f"{len(found)} seeds: give at most {most}")
    return list(found)
