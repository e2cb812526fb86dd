"""A real server in its own process and a real chromium: the fixtures `server`, `browser` and `page`.

`page` fails its test on any request to another host and on any error in the page. `open_page(browser, url)` gives
another visitor: a browser context of its own has its own cookie, so it is somebody else.
"""

import os
import re
import shutil
import signal
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
ARGS = [
    "--no-sandbox",
    "--headless",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
]


class Server:
    """`python app.py` on a data folder, on a port of its own."""

    def __init__(self, data: Path, *flags: str, port: int = 0, threads: int | None = 1) -> None:
        self.data = data
        command = [sys.executable, "app.py", "--data", str(data), "--base", "tiny", "--port", str(port), *flags]
        environment = os.environ | {"PYTHONUNBUFFERED": "1"} | ({"OMP_NUM_THREADS": str(threads)} if threads else {})
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=ROOT, env=environment)
        self.greeting = self.process.stdout.readline().strip()
        match = re.search(r"http://\S+", self.greeting)
        assert match, f"the server did not start: {self.greeting!r}"
        self.url = match[0]

    @property
    def port(self) -> int:
        return int(self.url.rpartition(":")[2])

    def kill(self) -> None:
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()

    def close(self) -> None:
        self.process.terminate()
        try:
            self.process.wait(10)
        except subprocess.TimeoutExpired:
            self.kill()


@pytest.fixture(scope="session")
def server(tmp_path_factory):
    made = Server(tmp_path_factory.mktemp("data"))
    yield made
    made.close()


@pytest.fixture(scope="session")
def browser():
    chromium = shutil.which("chromium")
    if chromium is None:
        pytest.skip("chromium is not installed (Debian: apt install chromium fonts-dejavu)")
    from playwright.sync_api import sync_playwright

    with sync_playwright() as p:
        started = p.chromium.launch(executable_path=chromium, args=ARGS)
        yield started
        started.close()


@contextmanager
def open_page(browser, url, *, strict=True, seen_tour=True, **options):
    """A visitor of their own; on leaving, nothing must have gone out and nothing must have broken. They have had the
    tour, which would stand before every first page."""
    usual = {"viewport": {"width": 1400, "height": 1000}}
    if seen_tour and url.startswith("http"):  # a page from a file has no place for marks
        marks = [{"name": "lethe-tour", "value": "seen"}]
        usual["storage_state"] = {"cookies": [], "origins": [{"origin": url, "localStorage": marks}]}
    context = browser.new_context(**usual | options)
    context.set_default_timeout(30_000)
    outside, errors = [], []

    def watch(page):
        page.on(
            "request",
            lambda r: outside.append(r.url) if r.url.startswith("http") and not r.url.startswith(url) else None,
        )
        page.on("pageerror", lambda error: errors.append(str(error)))

    context.on("page", watch)
    page = context.new_page()
    yield page
    context.close()
    if strict:
        assert not outside, f"asked another host: {outside}"
        assert not errors, f"the page broke: {errors}"


@pytest.fixture
def page(browser, server):
    with open_page(browser, server.url) as opened:
        yield opened


def go(page, url, path=""):
    """Opens a page of the studio and waits until its frame stands."""
    page.goto(f"{url}/{path}")
    page.wait_for_selector("header.bar")
    return page


def settle(page):
    """Waits until nothing has changed in the page for half a second, but not for ever."""
    page.evaluate(
        """() => new Promise((done) => {
            setTimeout(done, 20000);
            let timer = setTimeout(done, 500);
            new MutationObserver(() => { clearTimeout(timer); timer = setTimeout(done, 500); })
                .observe(document.body, {subtree: true, childList: true, attributes: true});
        })"""
    )
