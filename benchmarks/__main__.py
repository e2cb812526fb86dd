"""Runs benchmarks one after another and puts what each printed in its section of RESULTS.md.

`speed` (what `make bench` runs) are those that measure how long things take, `quality` (`make bench-quality`) all
others; a name is that one alone. A section that was not run stays as it was, and so does that of a benchmark that
failed. Flags after a single name go to that benchmark: `python -m benchmarks masks --runs noted.jsonl`.
"""

import argparse
import os
import platform
import re
import shlex
import subprocess
import sys
import time
from collections.abc import Sequence
from datetime import date
from pathlib import Path

from engine.files import atomic

HERE = Path(__file__).resolve().parent
RESULTS = HERE / "RESULTS.md"
SPEED = ("guide_step", "feature_step", "sampling", "stylegan2", "growth", "startup", "page", "labelling", "compare")
HEAD = f"""# Results

Every section below is what one command printed, on the machine it names. Ratios are measured in one run, side by side;
absolute times mean little elsewhere. `make bench` measures speed anew, in about 40 minutes on two cores:
{", ".join(SPEED[:-1])} and {SPEED[-1]}. `make bench-quality` takes
hours and measures the rest: what forgetting leaves, takes along and gives back, and what a server withstands.
`python -m benchmarks NAME` makes one section again.
"""


def scripts() -> list[str]:
    return sorted(path.stem for path in HERE.glob("*.py") if "if __name__" in path.read_text() and path.stem[0] != "_")


def main(words: Sequence[str] | None = None) -> int:
    groups = {"speed": SPEED, "quality": tuple(name for name in scripts() if name not in SPEED)}
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="+", help=f"{', '.join(groups)}, or some of: {', '.join(scripts())}")
    chosen, flags = parser.parse_known_args(words)
    names = [name for given in chosen.names for name in groups.get(given, (given,))]
    if unknown := sorted(set(names) - set(scripts())):
        parser.error(f"{', '.join(unknown)}: there is no such benchmark")
    if flags and len(names) != 1:
        parser.error(f"{' '.join(flags)}: flags go to one benchmark; name it")
    failed = [name for name in names if not measure(name, flags)]
    if failed:
        print(f"failed, so their sections are as they were: {', '.join(failed)}", file=sys.stderr)
    return bool(failed)


def measure(name: str, flags: Sequence[str] = ()) -> bool:
    """Runs one script with its own flags and keeps its output; one that fails leaves its old section alone."""
    print(f"--- {name}", flush=True)
    started, lines = time.time(), []
    command = [sys.executable, "-m", f"benchmarks.{name}", *flags]
    with subprocess.Popen(command, cwd=HERE.parent, stdout=subprocess.PIPE, text=True) as process:
        for line in process.stdout:
            print(line, end="", flush=True)
            lines.append(line)
    if process.returncode:
        return False
    asked = shlex.join(["python", "-m", "benchmarks", name, *flags])
    foot = f"_`{asked}`, {date.today()}, {machine()}, {time.time() - started:.0f} s._"
    put_section(name, "".join(lines).strip() + f"\n\n{foot}\n")
    return True


def machine() -> str:
    usable, cores = len(os.sched_getaffinity(0)), os.cpu_count()
    told = f"{cores} cores" if usable == cores else f"{usable} of {cores} cores"
    load = os.getloadavg()[0]
    shared = f", shared with other work (load {load:.0f})" if load > usable + 1 else ""
    return f"{told}, {platform.machine()}, Python {platform.python_version()}{shared}"


def put_section(name: str, text: str) -> None:
    old = RESULTS.read_text() if RESULTS.exists() else HEAD
    sections = dict(re.findall(r"^<!-- (\w+) -->\n(.*?)(?=^<!-- \w+ -->\n|\Z)", old, re.MULTILINE | re.DOTALL))
    sections[name] = text.rstrip("\n") + "\n\n"
    body = "".join(f"<!-- {key} -->\n{sections[key]}" for key in sorted(sections))
    with atomic(RESULTS) as file:
        file.write((HEAD + "\n" + body).rstrip("\n").encode() + b"\n")


if __name__ == "__main__":
    sys.exit(main())
