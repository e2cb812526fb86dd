"""From the press of Erase to the first live pair, and the bytes a run sends, in real Chromium: `benchmarks.page`.

A real server on the FFHQ base, one of the six people its generator makes up on the Identity page, the quick preset.
The first press is cold: networks are loaded for it. Bytes are those on the wire, from the press to the verdict; a piece
is what the browser took from the stream at one time, one update or a few.
"""

import argparse
import shutil
import statistics
import sys
import tempfile
from pathlib import Path

from engine import assets
from tests.browser import ARGS, Server, go, settle

NEEDS = ("ffhq", "recogniser-a", "recogniser-b", "lpips-alex")
A_WHILE = 400_000  # ms
PRESS = """() => new Promise((done) => {
    const begun = performance.now();
    const look = () => {
        const images = [...document.querySelectorAll('.pair img')];
        const painted = () => setTimeout(() => done(performance.now() - begun));
        const drawn = images.length >= 2 && images.every((image) => image.complete);
        requestAnimationFrame(drawn ? painted : look);
    };
    [...document.querySelectorAll('button')].find((b) => b.textContent.trim() === 'Erase this person').click();
    look(); })"""


def choose(page, number: int) -> None:
    page.locator("#people label").nth(number).click()
    page.locator("#strip .row-of-faces img").nth(5).wait_for(timeout=A_WHILE)
    settle(page)


def erase(page, pieces: list[int]) -> tuple[float, list[int]]:
    """Milliseconds to the first pair, and the bytes of every piece until the verdict. Nothing is kept."""
    pieces.clear()
    taken = page.evaluate(PRESS)
    page.locator("[data-state=done]").wait_for(timeout=A_WHILE)
    settle(page)
    sent = list(pieces)
    page.get_by_role("button", name="Discard").first.click()
    settle(page)
    return taken, sent


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3, help="presses after the first")
    args = parser.parse_args()
    chromium = shutil.which("chromium")
    if chromium is None or not all(assets.is_present(name) for name in NEEDS):
        print("chromium or the networks of faces are not here, so nothing was measured")
        return 1
    from playwright.sync_api import sync_playwright

    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        server = Server(Path(folder), "--base", "ffhq", threads=None)
        try:
            browser = playwright.chromium.launch(executable_path=chromium, args=ARGS)
            page = browser.new_page(viewport={"width": 1400, "height": 1000})
            page.set_default_timeout(A_WHILE)
            page.add_init_script("localStorage.setItem('lethe-tour', 'seen')")
            pieces: list[int] = []
            wire = page.context.new_cdp_session(page)
            wire.send("Network.enable")
            wire.on("Network.dataReceived", lambda piece: pieces.append(piece["dataLength"]))
            go(page, server.url, "identity")
            page.locator("#people input:enabled").nth(5).wait_for(timeout=A_WHILE)
            page.get_by_role("button", name="Settings").click()
            settle(page)
            page.get_by_label("Quick").check()
            taken = []
            for number in range(args.rounds + 1):
                choose(page, number % 6)
                taken.append(erase(page, pieces))
            browser.close()
        finally:
            server.close()
    (first, _), later = taken[0], taken[1:]
    sent = [size for _, sizes in later for size in sizes]
    print(f"## Erasing on the page\n\nffhq, {args.rounds} presses after the first.\n")
    print("| first pair, cold | warm, median | slowest | a run sends | pieces of a run | median piece | largest |")
    print("|---|---|---|---|---|---|---|")
    times = [f"{value / 1000:.1f} s" for value in (first, statistics.median(t for t, _ in later), max(later)[0])]
    sizes = [sum(sent) / len(later), len(sent) / len(later), statistics.median(sent), max(sent)]
    cells = [f"{sizes[0] / 1024:.0f} kB", f"{sizes[1]:.0f}", f"{sizes[2] / 1024:.1f} kB", f"{sizes[3] / 1024:.0f} kB"]
    print(f"| {' | '.join([*times, *cells])} |")
    return 0


if __name__ == "__main__":
    sys.exit(main())
