"""How long from the command to the first page, and what the server holds at rest: `python -m benchmarks.startup`.

A new process each round, its files in the disk's cache after the first, which is not counted: to the first answer over
HTTP, and to the page drawn in Chromium, which runs already. CPU: the server's own seconds, which a busy machine leaves
alone. At rest: ten seconds later, when the start page's faces have been made.
"""

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path

from benchmarks.memory import held
from benchmarks.tables import spread
from engine import assets
from tests.browser import ARGS, ROOT, Server, go

REST = 10  # s
HEAVIEST = 8
FORMS = (".1f", ".1f", ".1f", ".0f")
LAZY = ("torchvision", "lpips", "facenet_pytorch", "scipy", "sklearn", "matplotlib", "pytorch_msssim")
IMPORT = "import engine.studio, webui.app"


def start(base: str, browser) -> tuple[float, ...]:
    """Seconds to the first answer, to the page drawn, of CPU until then; MiB at rest."""
    with tempfile.TemporaryDirectory() as folder:
        begun = time.perf_counter()
        server = Server(Path(folder), "--base", base, threads=None)
        try:
            urllib.request.urlopen(server.url).read()
            answered = time.perf_counter() - begun
            drawn = answered
            if browser:
                page = browser.new_page()
                go(page, server.url)
                drawn = time.perf_counter() - begun
                page.close()
            process = Path("/proc") / str(server.process.pid)
            spent = cpu_seconds(process)
            time.sleep(REST)
            return answered, drawn, spent, held(process=process)
        finally:
            server.close()


def cpu_seconds(process: Path) -> float:
    fields = (process / "stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def import_times() -> list[tuple[float, str]]:
    """Milliseconds of each package, all that it imports first counted with it, the heaviest first."""
    command = [sys.executable, "-X", "importtime", "-c", IMPORT]
    told = subprocess.run(command, cwd=ROOT, stderr=subprocess.PIPE, text=True, check=True).stderr
    rows = [line.removeprefix("import time:").split("|") for line in told.splitlines() if "|" in line]
    packages = [(int(whole) / 1000, name.strip()) for _, whole, name in rows if whole.strip().isdigit()]
    return sorted((row for row in packages if "." not in row[1]), reverse=True)


def loaded(names: Sequence[str]) -> list[str]:
    """Which of these packages the page has imported before anybody asked for anything."""
    command = f"{IMPORT}\nimport sys\nprint(*sys.modules)"
    told = subprocess.run([sys.executable, "-c", command], cwd=ROOT, stdout=subprocess.PIPE, text=True, check=True)
    return sorted(set(names) & set(told.stdout.split()))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    args = parser.parse_args()
    base, chromium = "ffhq" if assets.is_present("ffhq") else "tiny", shutil.which("chromium")
    with ExitStack() as stack:
        browser = None
        if chromium:
            from playwright.sync_api import sync_playwright

            playwright = stack.enter_context(sync_playwright())
            browser = playwright.chromium.launch(executable_path=chromium, args=ARGS)
            stack.callback(browser.close)
        taken = [start(base, browser) for _ in range(args.rounds + 1)][1:]
    print(f"## Start-up\n\n{base}, {args.rounds} rounds{'' if chromium else '; no chromium, so nothing was drawn'}.\n")
    print("| first answer, s (spread) | page drawn, s | CPU, s | at rest, MB |\n|---|---|---|---|")
    columns = zip(zip(*taken, strict=True), FORMS, strict=True)
    print(f"| {' | '.join(spread(column, form) for column, form in columns)} |")
    heaviest = [f"{name} {spent:.0f}" for spent, name in import_times()[:HEAVIEST]]
    print(f"\nHeaviest imports, ms, with what each imports first: {', '.join(heaviest)}.")
    early = loaded(LAZY)
    print(f"\nLoaded only when asked for: {', '.join(name for name in LAZY if name not in early)}.")
    if early:
        print(f"\nLoaded at once: {', '.join(early)}.")
    return 0


if __name__ == "__main__":
    sys.exit(main())
