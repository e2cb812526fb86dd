"""How quickly a label is seen after a click, in real Chromium, with 120 and with 1,000 samples on the page.

A real server, a real database file, real mouse clicks 40 ms apart. From the browser's own time of the click to the
first frame after the mark was painted; for comparison the same clicks on Gradio's own CheckboxGroup, whose mark is the
browser's. Kept: labels that the database holds afterwards, read from the file.
"""

import shutil
import statistics
import sys
import tempfile
from pathlib import Path

import gradio as gr
import numpy as np

from engine.studio import LOCAL, Studio
from webui.grid import LabelGrid, keep_labels
from webui.pictures import data_uri
from webui.theme import head, theme

SIZES = (120, 1000)
CLICKS = 20
PAUSE = 40  # ms
WATCH = """(selector) => { window.taken = [];
    document.querySelector(selector).addEventListener('click', (event) => {
        const painted = () => window.taken.push(performance.now() - event.timeStamp);
        requestAnimationFrame(() => setTimeout(painted)); }, true); }"""


def demo(studio: Studio, count: int) -> gr.Blocks:
    random = np.random.default_rng(0)
    sources = [data_uri(random.integers(0, 255, (64, 64, 3), np.uint8)) for _ in range(20)]
    items = [{"id": str(seed), "src": sources[seed % 20]} for seed in range(count)]
    with gr.Blocks(analytics_enabled=False) as made:
        grid = LabelGrid(lambda data, request: keep_labels(studio, LOCAL, data), elem_id="labels")
        gr.CheckboxGroup([f"sample {seed}" for seed in range(count)], label="Gradio's", elem_id="plain")
        context = {"base": "tiny", "feature": f"clicks {count}"}
        made.load(lambda: gr.update(items=items, value={}, context=context), None, grid)
    return made


def clicked(page, root: str, cells) -> list[float]:
    """Milliseconds from each click to its frame."""
    boxes = [cells.nth(index).bounding_box() for index in range(CLICKS)]
    page.evaluate(WATCH, root)
    for box in boxes:
        page.mouse.click(box["x"] + 12, box["y"] + box["height"] - 8)
        page.wait_for_timeout(PAUSE)
    page.wait_for_timeout(1500)
    return page.evaluate("window.taken")


def measure(browser, studio: Studio, count: int) -> str:
    made = demo(studio, count)
    made.launch(
        prevent_thread_lock=True, quiet=True, ssr_mode=False, server_name="127.0.0.1", theme=theme(), head=head()
    )
    page = browser.new_page(viewport={"width": 1400, "height": 1000})
    page.goto(made.local_url)
    page.wait_for_function(f"document.querySelectorAll('#labels .cell').length === {count}")
    ours = clicked(page, "#labels", page.locator("#labels .cell"))
    page.locator("#plain label").first.scroll_into_view_if_needed()
    plain = clicked(page, "#plain", page.locator("#plain label"))
    page.close()
    made.close(verbose=False)
    kept = studio.labels.counts(LOCAL, "tiny", f"clicks {count}").having
    times = f"{statistics.median(ours):.0f} ms | {max(ours):.0f} ms"
    return f"| {count} | {times} | {statistics.median(plain):.0f} ms | {kept} of {CLICKS} |"


def main() -> int:
    chromium = shutil.which("chromium")
    if chromium is None:
        print("chromium is not installed, so nothing was measured")
        return 1
    from playwright.sync_api import sync_playwright

    print(f"## Labelling by click\n\n{CLICKS} clicks, {PAUSE} ms apart; from the click to its frame.\n")
    print("| samples | median | slowest | Gradio's own ticks, median | kept |\n|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox", "--disable-gpu"])
        studio = Studio(Path(folder), "cpu")
        for count in SIZES:
            print(measure(browser, studio, count), flush=True)
        studio.close()
        browser.close()
    return 0


if __name__ == "__main__":
    sys.exit(main())
