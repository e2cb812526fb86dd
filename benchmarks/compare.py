"""How long 16 pairs at 128 px take from the click on Compare to the last picture on the screen, in real Chromium.

A real server on the FFHQ base (else the tiny one), an erasure applied, every round at seeds that were never drawn. The
models are warm: loaded and composed by an earlier comparison. Then the slider is moved, and what the page asks of the
server meanwhile is counted. Withdrawing and applying again is timed in the engine, until the model is at hand.
"""

import shutil
import statistics
import sys
import tempfile
import time
from pathlib import Path

from engine import assets
from engine.core.targets import Seeds
from engine.studio import Studio
from tests.browser import ARGS, Server, go, settle

OWNER = "0" * 32
ROUNDS = 5
PAIRS = 16
LONGEST = 60_000  # ms: pictures that are not there by then never come
# The callback of a frame must not read the time itself: the page stops such a one as a clock (webui/calm.js).
SEEN = """([first, count, longest]) => new Promise((done, failed) => {
    const begun = performance.now(), passed = () => performance.now() - begun;
    setTimeout(() => failed(new Error(`the pictures were not drawn within ${longest} ms`)), longest);
    const look = () => {
        const images = [...document.querySelectorAll('#compare .list img')];
        const label = document.querySelector('#compare figcaption span:nth-child(2)');
        const drawn = images.length === count && label.textContent === `seed ${first}`;
        const painted = () => setTimeout(() => done(passed()));
        requestAnimationFrame(drawn && images.every((image) => image.complete) ? painted : look);
    };
    [...document.querySelectorAll('button.run')].find((b) => b.textContent.trim() === 'Compare').click();
    look(); })"""


def prepare(data: Path, base: str) -> None:
    """One kept erasure; the naive baseline is enough, since only drawing is timed."""
    studio = Studio(data, "cpu", base=base)
    job = studio.forget(base, Seeds((3,)), "ascent", {"steps": 1, "batch": 1, "lr": 1e-4}, owner=OWNER)
    studio.wait(job)
    studio.keep(job, owner=OWNER)
    studio.close()


def switch(data: Path, base: str) -> dict[str, float]:
    """Milliseconds, median, of withdrawing the erasure and of applying it again."""
    studio, taken = Studio(data, "cpu", base=base), {"withdraw": [], "apply again": []}
    names = studio.active(base)
    studio.models.with_deltas(base, names)
    for _ in range(ROUNDS):
        for what, wanted in zip(taken, ([], names), strict=True):
            begun = time.perf_counter()
            studio.activate(base, wanted)
            studio.models.with_deltas(base, studio.active(base))
            taken[what].append(1000 * (time.perf_counter() - begun))
    studio.close()
    return {what: statistics.median(times) for what, times in taken.items()}


def measure(page) -> list[float]:
    """Milliseconds of each round."""
    taken = []
    for number in range(1, ROUNDS + 1):
        first = 1000 * number
        page.get_by_role("textbox", name="Seeds").fill(f"{first}-{first + PAIRS - 1}")
        settle(page)
        taken.append(page.evaluate(SEEN, [first, 2 * PAIRS, LONGEST]))
        page.locator("#changes .metric").first.wait_for(timeout=120_000)
        settle(page)
    return taken


def asked_while_sliding(page) -> int:
    asked = []
    page.on("request", lambda request: asked.append(request.url) if request.url.startswith("http") else None)
    page.get_by_label("Reveal after").focus()
    for _ in range(40):
        page.keyboard.press("ArrowRight")
    page.wait_for_timeout(300)
    return len(asked)


def main() -> int:
    chromium = shutil.which("chromium")
    if chromium is None:
        print("chromium is not installed, so nothing was measured")
        return 1
    from playwright.sync_api import sync_playwright

    base = "ffhq" if assets.is_present("ffhq") else "tiny"
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        prepare(Path(folder), base)
        switched = switch(Path(folder), base)
        server = Server(Path(folder), "--base", base, threads=None)
        try:
            browser = playwright.chromium.launch(executable_path=chromium, args=ARGS)
            page = browser.new_page(viewport={"width": 1400, "height": 1000})
            page.context.add_cookies([{"name": "lethe", "value": OWNER, "url": server.url}])
            go(page, server.url, "compare")
            page.locator("#changes .metric").first.wait_for(timeout=300_000)
            taken, asked = measure(page), asked_while_sliding(page)
            browser.close()
        finally:
            server.close()
    print(f"## Comparing\n\n{PAIRS} pairs at 128 px of {base}, models warm, seeds new; {ROUNDS} rounds.\n")
    print("| from the click to the last picture, median | slowest | requests while sliding |\n|---|---|---|")
    print(f"| {statistics.median(taken) / 1000:.2f} s | {max(taken) / 1000:.2f} s | {asked} |")
    print("\n| a composed model | median |\n|---|---|")
    for what, ms in switched.items():
        print(f"| {what} | {ms:.1f} ms |")
    return 0


if __name__ == "__main__":
    sys.exit(main())
