"""From the press of Erase to the first live pair, and the bytes a run sends, in real Chromium: `-m benchmarks.page`.

A real server on the FFHQ base, one of the six people its generator makes up on the Identity page, the quick preset.
The first press is cold: networks are loaded for it. Bytes are counted as the browser reads them, from the press to the
verdict; a piece is what it took from the stream at one time, one update or a few.
"""

import argparse
import shutil
import statistics
import sys
import tempfile
from pathlib import Path

from engine import assets
from tests.browser import ARGS, Server, go, open_page, settle

NEEDS = ("ffhq", "recogniser-a", "recogniser-b", "lpips-alex")
A_WHILE = 400_000  # ms
PEOPLE = 6
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


def erase(browser, url: str, number: int) -> tuple[float, list[int]]:
    """A visitor of their own erases one of the six: milliseconds to the first pair, bytes of every piece until the
    verdict."""
    with open_page(browser, url) as page:
        page.set_default_timeout(A_WHILE)
        go(page, url, "identity")
        page.locator("#people input:enabled").nth(5).wait_for()
        page.get_by_role("button", name="Settings").click()
        settle(page)
        page.get_by_label("Quick").check()
        page.locator("#people label").nth(number).click()
        page.locator("#strip .row-of-faces img").nth(5).wait_for()
        settle(page)
        pieces: list[int] = []
        wire = page.context.new_cdp_session(page)
        wire.send("Network.enable")
        wire.on("Network.dataReceived", lambda piece: pieces.append(piece["dataLength"]))
        taken = page.evaluate(PRESS)
        page.locator("#verdict .metric").nth(2).wait_for()
        settle(page)
        return taken, pieces


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
            taken = [erase(browser, server.url, number % PEOPLE) for number in range(args.rounds + 1)]
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
