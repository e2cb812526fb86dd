"""Twenty browsers at once that label and watch one run, and a thousand damaged or hostile files at every door.

Browsers: real Chromium, a browser context each, a real server and a real database file; all are the same person on
twenty devices, so that all watch the same run, and each labels a feature of its own by mouse clicks. From the browser's
own time of a click to the first frame after its mark was painted, in several rounds, for a busy machine is not the same
twice. Kept: labels that the database holds afterwards, read from the file.

Files: see `hostile.py` and `doors.py`; through the engine's own doors in this process, whose memory is watched, and
some of them through a running server. A file that is still whole by chance is taken in, and counted apart.
"""

import argparse
import asyncio
import base64
import shutil
import sqlite3
import statistics
import sys
import tempfile
import warnings
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import httpx
import numpy as np
from gradio_client import Client
from gradio_client.exceptions import AppError

from benchmarks.doors import OWNER, Doors, Outcome
from benchmarks.labelling import WATCH
from engine.studio import Studio
from tests.browser import ARGS, Server
from webui.feature.batches import FIRST
from webui.pages.feature import PSI

BROWSERS, CLICKS, ROUNDS, PAUSE = 20, 20, 5, 1000  # ms between two clicks of one person
FILES, BY_SERVER = 1000, 60
LOOK = 300  # ms between two looks at a page that is waited for; a look in every frame would cost frames
QUICK = 100  # ms, the median of a click
LITTLE = 600  # MB that one file may take at its worst
RUN = "watched by all"
PROVED = (
    ("Disk full while saving labels, runs and models", "test_on_a_full_disk_everything_is_refused_in_words"),
    ("Clock set back or forward by a day", "test_time_left_and_duration_of_a_run_do_not_care"),
    ("Database held by another process", "test_a_run_survives_a_database_that_is_held"),
    ("Two servers on one data folder", "test_a_second_server_on_the_same_data_folder_refuses_politely"),
)


# Browsers


@dataclass(frozen=True)
class Visit:
    """What one browser saw and did in one round."""

    taken: list[float]  # ms from each click to its frame
    moved: bool  # whether the watched run's bar moved meanwhile


def label_for_a_run(data: Path) -> str:
    """The text of a file of labels by which a run can begin: the redder half of some samples."""
    studio = Studio(data, "cpu", base="tiny")
    seeds = list(range(80))
    drawn = studio.sample("tiny", seeds, psi=PSI)
    level = [(picture[..., 0].astype(int) - picture[..., 2]).mean() for picture in drawn]
    studio.labels.set_many(OWNER, "tiny", RUN, {seed: int(level[seed] > np.median(level)) for seed in seeds})
    text = studio.labels_text("tiny", RUN, owner=OWNER)
    studio.close()
    return text


def begin_run(url: str, labels: str) -> str:
    """One that goes on until the server is closed: it learns too little to reach its goal."""
    settings = {"steps": 20_000, "goal": 0.0, "lr": 1e-6, "batch": 256, "samples": 400}
    client = Client(url, verbose=False, headers={"cookie": f"lethe={OWNER}"})
    return client.predict(labels=labels, settings=settings, api_name="/erase_feature")


async def opened(browser, url: str, name: str, job: str):
    """A browser of its own that watches the run, with the samples of a feature to label."""
    marks = [{"name": "lethe-tour", "value": "seen"}]
    state = {"cookies": [], "origins": [{"origin": url, "localStorage": marks}]}
    context = await browser.new_context(viewport={"width": 1400, "height": 1000}, storage_state=state)
    await context.add_cookies([{"name": "lethe", "value": OWNER, "url": url}])
    context.set_default_timeout(120_000)
    page = await context.new_page()
    await page.goto(f"{url}/feature")
    await page.locator(f"[data-job='{job}'] progress").wait_for()
    await page.wait_for_function(SHOWN, arg=RUN, polling=LOOK)  # a new page draws what was labelled last
    await page.locator("#feature-name").locator("input, textarea").fill(name)
    await page.get_by_role("button", name="Show samples").click()
    await page.wait_for_function(SHOWN, arg=name, polling=LOOK)
    await page.evaluate(WATCH, "#labels")
    return page


async def visit(page, clicks: int, job: str, number: int) -> Visit:
    """One person's clicks of a round, each on a sample of its own, while the others click too."""
    cells = [page.locator("#labels .cell").nth(number * clicks + index) for index in range(clicks)]
    await cells[0].evaluate(TO_THE_MIDDLE)
    boxes = [await cell.bounding_box() for cell in cells]
    before = await page.locator(f"[data-job='{job}'] progress").get_attribute("value")
    for box in boxes:
        await page.mouse.click(box["x"] + 12, box["y"] + box["height"] - 8)
        await page.wait_for_timeout(PAUSE)
    await page.wait_for_function(SAVED, polling=LOOK)
    after = await page.locator(f"[data-job='{job}'] progress").get_attribute("value")
    return Visit(await page.evaluate("window.taken.splice(0)"), float(after) > float(before))


SHOWN = """(feature) => document.querySelectorAll('#labels .cell').length === 120
    && [...document.querySelectorAll('#content h2')].some((h) => h.textContent.includes(feature))"""


TO_THE_MIDDLE = "(cell) => cell.scrollIntoView({ block: 'center', behavior: 'instant' })"
SAVED = "document.querySelector('#labels .saved').textContent.startsWith('Saved')"


def feature(number: int) -> str:
    return f"feature of browser {number}"


async def visits(url: str, count: int, clicks: int, rounds: int, job: str) -> list[list[Visit]]:
    from playwright.async_api import async_playwright

    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(executable_path=shutil.which("chromium"), args=ARGS)
        # One after another: every browser compiles Gradio's scripts anew, which is not what is measured.
        pages = [await opened(browser, url, feature(number), job) for number in range(count)]
        found = [
            await asyncio.gather(*(visit(page, clicks, job, number) for page in pages)) for number in range(rounds)
        ]
        await browser.close()
    return found


def label_together(folder: Path, browsers: int, clicks: int, rounds: int) -> tuple[list[list[Visit]], int]:
    """What each browser saw in each round, and how many of their labels the database file holds."""
    labels, server = label_for_a_run(folder), None
    try:
        server = Server(folder, threads=None)  # as many as the run would take on anybody's machine
        job = begin_run(server.url, labels)
        found = asyncio.run(visits(server.url, browsers, clicks, rounds, job))
    finally:
        if server:
            server.close()
    database, each = folder / "studio.sqlite", clicks * rounds
    return found, sum(kept_labels(database, feature(number), each) for number in range(browsers))


def kept_labels(database: Path, name: str, clicks: int) -> int:
    """Labels of the first samples, each clicked once."""
    with sqlite3.connect(database) as db:
        query = "select count(*) from label where owner=? and feature=? and value=1 and seed>=? and seed<?"
        return db.execute(query, (OWNER, name, FIRST, FIRST + clicks)).fetchone()[0]


def measure_browsers(browsers: int, clicks: int, rounds: int) -> bool:
    each = f"{rounds} rounds of {clicks} clicks each, {PAUSE} ms apart"
    print(f"{browsers} browsers, {each}, while a run goes on that all of them watch.\n")
    with tempfile.TemporaryDirectory() as folder:
        found, kept = label_together(Path(folder), browsers, clicks, rounds)
    print("| round | click to its frame, median | 95 % within | slowest | saw the run move |\n|---|---|---|---|---|")
    are_quick = [print_round(number, seen, clicks) for number, seen in enumerate(found, start=1)]
    all_of_them = browsers * clicks * rounds
    print(f"\nLabels kept: {kept} of {all_of_them}.\n", flush=True)
    return all(are_quick) and kept == all_of_them


def print_round(number: int, found: Sequence[Visit], clicks: int) -> bool:
    taken = sorted(ms for visit in found for ms in visit.taken)
    median, late, moved = statistics.median(taken), taken[int(0.95 * len(taken))], sum(visit.moved for visit in found)
    print(f"| {number} | {median:.0f} ms | {late:.0f} ms | {taken[-1]:.0f} ms | {moved} of {len(found)} |")
    return len(taken) == len(found) * clicks and moved == len(found) and median <= QUICK


# Files


def measure_files(count: int, by_server: int, seed: int) -> bool:
    warnings.filterwarnings("ignore", module="PIL")  # it warns of what we refuse
    print(
        "| door | files | refused in a sentence | whole by chance, taken in | anything else | slowest | most memory |"
    )
    print("|---|---|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as folder:
        doors = Doors(Path(folder))
        outcomes = [doors.send(sent) for sent in doors.hostile(count, seed)]
        for name in doors.take:
            print(row(name, [one for one in outcomes if one.sent.door == name]))
        print(row("**all**", outcomes), flush=True)
        answers = send_to_server(doors, by_server, seed + 1)
        doors.close()
    print(f"\nThrough a running server: {', '.join(f'{n} {what}' for what, n in sorted(answers.items()))}.\n")
    for one in outcomes:
        if one.broke:
            print(f"- {one.sent.door}: {one.sent.what}: {one.broke}")
    largest = max(one.grown for one in outcomes) / 1e6
    return not any(one.broke for one in outcomes) and not answers["not answered in words"] and largest <= LITTLE


def row(name: str, outcomes: Sequence[Outcome]) -> str:
    kinds = Counter("broke" if one.broke else "said" if one.said else "taken" for one in outcomes)
    slowest, grown = max(one.seconds for one in outcomes), max(one.grown for one in outcomes)
    counts = " | ".join(str(kinds[kind]) for kind in ("said", "taken", "broke"))
    return f"| {name} | {len(outcomes)} | {counts} | {slowest:.1f} s | {grown / 1e6:.0f} MB |"


def send_to_server(doors: Doors, count: int, seed: int) -> Counter[str]:
    """Some files by the ways that a browser and a script have: two uploads and two endpoints."""
    answers: Counter[str] = Counter()
    server = Server(doors.folder / "served")
    ways = {"photo": as_photo, "labels": as_labels, "run": as_run, "model": as_model}
    try:
        with httpx.Client(base_url=server.url, timeout=120) as http:
            client = Client(server.url, verbose=False)
            sent = (one for one in doors.hostile(count * len(doors.take), seed) if one.door in ways)
            for one, _ in zip(sent, range(count), strict=False):
                answers[ways[one.door](http, client, one.content)] += 1
            well = http.get("/healthz").json() == {"ok": True}
    finally:
        server.close()
    return answers if well else answers + Counter({"not answered in words": 1})


def as_model(http: httpx.Client, client: Client, content: bytes) -> str:
    answer = http.put("/transfer/arrived", params={"file": "sent.pkl"}, content=content)
    return told(answer.json().get("error", "")) if answer.status_code != 200 else "taken in"


def as_run(http: httpx.Client, client: Client, content: bytes) -> str:
    answer = http.put("/run-files", content=content)
    return told(answer.json().get("error", "")) if answer.status_code != 200 else "taken in"


def as_photo(http: httpx.Client, client: Client, content: bytes) -> str:
    return called(client, photo=base64.b64encode(content).decode(), base="tiny", api_name="/erase_person")


def as_labels(http: httpx.Client, client: Client, content: bytes) -> str:
    return called(client, labels=content.decode("utf-8", "replace"), api_name="/erase_feature")


def called(client: Client, **arguments: str) -> str:
    try:
        client.predict(**arguments)
    except AppError as error:
        return told(str(error))
    return "taken in"


def told(error: str) -> str:
    return "refused in a sentence" if error and "Something went wrong" not in error else "not answered in words"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    counts = {
        "browsers": BROWSERS,
        "clicks": CLICKS,
        "rounds": ROUNDS,
        "files": FILES,
        "by-server": BY_SERVER,
        "seed": 0,
    }
    for name, count in counts.items():
        parser.add_argument(f"--{name}", type=int, default=count, help=f"default {count}")
    args = parser.parse_args()
    if shutil.which("chromium") is None:
        print("chromium is not installed, so nothing was measured")
        return 1
    print("## Load and faults\n")
    is_quick = measure_browsers(args.browsers, args.clicks, args.rounds)
    print(f"{args.files} damaged or hostile files, seed {args.seed}.\n")
    is_safe = measure_files(args.files, args.by_server, args.seed)
    print("| fault | proved by tests/test_load.py |\n|---|---|")
    for fault, test in PROVED:
        print(f"| {fault} | `{test}…` |")
    for is_kept, words in ((is_quick, "browsers"), (is_safe, "files")):
        if not is_kept:
            print(f"\nA promise about {words} was broken.")
    return 0 if is_quick and is_safe else 1


if __name__ == "__main__":
    sys.exit(main())
