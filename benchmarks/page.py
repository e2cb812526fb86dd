"""From the press of Erase to the first live pair, and the bytes a run sends, in real Chromium: `-m benchmarks.page`.

A real server on the FFHQ base and the quick preset; on the Identity page one of the six people its generator makes up,
on the Feature page glasses, labelled by eye (engine/train/seen_by_eye.json). The first press is cold: networks are
loaded for it. The first pair of a feature shows labelled samples that are not changed yet. Bytes are counted as the
browser reads them, from the press to the verdict; a piece is what it took from the stream at one time, one update or a
few.
"""

import argparse
import json
import shutil
import statistics
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from engine import assets
from engine.core.labelbook import LabelBook
from engine.train.attributes import EYE
from tests.browser import ARGS, Server, go, open_page, settle
from webui.owner import COOKIE

NEEDS = ("ffhq", "recogniser-a", "recogniser-b", "lpips-alex")
A_WHILE = 900_000  # ms
PEOPLE = 6
# The page gives no frame to a callback that reads the time itself (webui/calm.js), so `now` does.
PRESS = """(name) => new Promise((done) => {
    const now = () => performance.now(), begun = now();
    const look = () => {
        const images = [...document.querySelectorAll('.pair img')];
        const painted = () => setTimeout(() => done(now() - begun));
        const drawn = images.length >= 2 && images.every((image) => image.complete);
        requestAnimationFrame(drawn ? painted : look);
    };
    [...document.querySelectorAll('button')].find((b) => b.textContent.trim() === name).click();
    look(); })"""
Prepare = Callable[[Any, Server, int], str]  # (page, server, which): all but the press; gives the button's name


def choose_quick(page) -> None:
    page.get_by_role("button", name="Settings").click()
    settle(page)
    page.get_by_label("Quick").check()


def person(page, server: Server, number: int) -> str:
    go(page, server.url, "identity")
    page.locator("#people input:enabled").nth(5).wait_for()
    choose_quick(page)
    page.locator("#people label").nth(number % PEOPLE).click()
    page.locator("#strip .row-of-faces img").nth(5).wait_for()
    return "Erase this person"


def feature(page, server: Server, number: int) -> str:
    """The labels are put where the visitor's own clicks would have put them."""
    go(page, server.url, "feature")
    owner = next(cookie["value"] for cookie in page.context.cookies() if cookie["name"] == COOKIE)
    by_eye = json.loads(EYE.read_text())
    labels = {seed: int(seed in by_eye["having"]["glasses"]) for seed in range(*by_eye["seeds"])}
    LabelBook(server.data / "studio.sqlite").set_many(owner, "ffhq", "glasses", labels)
    go(page, server.url, "feature")
    page.locator("button:enabled", has_text="Erase “glasses”").wait_for()
    choose_quick(page)
    return "Erase “glasses”"


def erase(browser, server: Server, prepare: Prepare, number: int) -> tuple[float, list[int]]:
    """A visitor of their own erases: milliseconds to the first pair, bytes of every piece until the verdict."""
    with open_page(browser, server.url) as page:
        page.set_default_timeout(A_WHILE)
        button = prepare(page, server, number)
        settle(page)
        pieces: list[int] = []
        wire = page.context.new_cdp_session(page)
        wire.send("Network.enable")
        wire.on("Network.dataReceived", lambda piece: pieces.append(piece["dataLength"]))
        taken = page.evaluate(PRESS, button)
        page.locator(".metric").nth(2).wait_for()
        settle(page)
        return taken, pieces


def row(name: str, taken: list[tuple[float, list[int]]]) -> str:
    (first, _), later = taken[0], taken[1:]
    sent = [size for _, sizes in later for size in sizes]
    times = [f"{value / 1000:.1f} s" for value in (first, statistics.median(t for t, _ in later), max(later)[0])]
    sizes = [sum(sent) / len(later), len(sent) / len(later), statistics.median(sent), max(sent)]
    cells = [f"{sizes[0] / 1024:.0f} kB", f"{sizes[1]:.0f}", f"{sizes[2] / 1024:.1f} kB", f"{sizes[3] / 1024:.0f} kB"]
    return f"| {' | '.join([name, *times, *cells])} |"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3, help="presses after the first")
    args = parser.parse_args()
    chromium = shutil.which("chromium")
    if chromium is None or not all(assets.is_present(name) for name in NEEDS):
        print("chromium or the networks of faces are not here, so nothing was measured")
        return 1
    from playwright.sync_api import sync_playwright

    print(f"## Erasing on the page\n\nffhq, {args.rounds} presses after the first.\n")
    heads = ("what", "first pair, cold", "warm, median", "slowest", "a run sends", "pieces of a run", "median piece")
    print(f"| {' | '.join((*heads, 'largest'))} |\n|{'---|' * (len(heads) + 1)}")
    for name, prepare in (("a person", person), ("a feature", feature)):
        with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
            server = Server(Path(folder), "--base", "ffhq", threads=None)
            try:
                browser = playwright.chromium.launch(executable_path=chromium, args=ARGS)
                taken = [erase(browser, server, prepare, number) for number in range(args.rounds + 1)]
                browser.close()
            finally:
                server.close()
        print(row(name, taken), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
