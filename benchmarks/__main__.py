"""Runs the benchmarks (all, or those named) one after another and puts what each printed in its section of RESULTS.md.

A section that was not run stays as it was, so one number can be measured anew without the rest. Flags after a name go
to that benchmark: `python -m benchmarks masks --runs noted.jsonl`.
"""

import argparse
import os
import platform
import re
import subprocess
import sys
import time
from collections.abc import Sequence
from datetime import date
from pathlib import Path

from engine.files import atomic

HERE = Path(__file__).resolve().parent
RESULTS = HERE / "RESULTS.md"
HEAD = """# Results

Every section below is what one command printed, on the machine it names. Ratios are measured in one run, side by side;
absolute times mean little elsewhere. `make bench` makes all of it again, `python -m benchmarks NAME` one section.
"""


def main() -> int:
    scripts = sorted(
        path.stem for path in HERE.glob("*.py") if "if __name__" in path.read_text() and path.stem[0] != "_"
    )
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", help=f"which ones (default all): {', '.join(scripts)}")
    chosen, flags = parser.parse_known_args()
    if flags and len(chosen.names) != 1:
        parser.error(f"{' '.join(flags)}: flags go to one benchmark; name it")
    failed = [name for name in chosen.names or scripts if not measure(name, flags)]
    if failed:
        print(f"failed: {', '.join(failed)}", file=sys.stderr)
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
    machine = f"{os.cpu_count()} cores, {platform.machine()}, Python {platform.python_version()}"
    load = os.getloadavg()[0]
    shared = f", shared with other work (load {load:.0f})" if load > os.cpu_count() + 1 else ""
    asked = " ".join([f"python -m benchmarks.{name}", *flags])
    foot = f"_`{asked}`, {date.today()}, {machine}{shared}, {time.time() - started:.0f} s._"
    put_section(name, "".join(lines).strip() + f"\n\n{foot}\n")
    return True


def put_section(name: str, text: str) -> None:
    old = RESULTS.read_text() if RESULTS.exists() else HEAD
    sections = dict(re.findall(r"^<!-- (\w+) -->\n(.*?)(?=^<!-- \w+ -->\n|\Z)", old, re.MULTILINE | re.DOTALL))
    sections[name] = text.rstrip("\n") + "\n\n"
    body = "".join(f"<!-- {key} -->\n{sections[key]}" for key in sorted(sections))
    with atomic(RESULTS) as file:
        file.write((HEAD + "\n" + body).rstrip("\n").encode() + b"\n")


if __name__ == "__main__":
    sys.exit(main())
