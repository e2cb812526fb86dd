"""Nothing is lost when the server is killed at any moment: it is killed twenty times."""

import os
import random
import re
import signal
import sqlite3
import subprocess
import sys
import threading
import time
from pathlib import Path

import httpx
import pytest

from engine.core.joblog import State
from engine.core.targets import Seeds
from engine.delta import Delta
from engine.studio import Studio

ROOT = Path(__file__).resolve().parents[1]
OWNER = "0123456789abcdef" * 2
KILLS = 20
STEPS, EVERY, PERSON = 600, 5, 7


class Site:
    """A running server, asked over HTTP as the page asks it."""

    def __init__(self, url):
        self.http = httpx.Client(base_url=url, cookies={"lethe": OWNER}, timeout=20)
        self.config = self.http.get("/config").json()
        self.parts = {part["id"]: part for part in self.config["components"]}
        self.calls = self.config["dependencies"]

    def save(self, labels):
        """What LabelGrid sends; True when the server said that it is saved."""
        grid = next(i for i, part in self.parts.items() if "save" in (part["props"].get("server_fns") or []))
        changes = [{"id": str(seed), "value": value} for seed, value in labels.items()]
        data = {"context": {"base": "tiny", "feature": "hat"}, "changes": changes}
        body = {"data": data, "component_id": grid, "fn_name": "save", "session_hash": "kill"}
        return "at" in self.http.post("/gradio_api/component_server/", json=body).json()

    def press(self, page, event, values=None, **event_data):
        """Fires an event of a page. The answer is not waited for: a killed server gives none."""
        call = next(c for c in self.calls if event in [name for _, name in c["targets"]] and self._on(page, c))
        data = [(values or {}).get(self._label(i), self.parts[i]["props"].get("value")) for i in call["inputs"]]
        body = {"data": data, "fn_index": call["id"], "session_hash": f"kill{time.time()}", "event_data": event_data}
        assert self.http.post("/gradio_api/queue/join", json=body).status_code == 200

    def _on(self, page, call):
        return call["id"] in self.config["page"][page]["dependencies"]

    def _label(self, part):
        return self.parts[part]["props"].get("elem_id") or self.parts[part]["props"].get("label")


class Nursery:
    def __init__(self, data):
        self.data = data
        environment = os.environ | {"OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT)}
        self.process = subprocess.Popen(
            [sys.executable, str(ROOT / "tests/nursery.py")], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
            cwd=ROOT, env=environment,
        )  # fmt: skip
        assert self.process.stdout.readline() == "ready\n"

    def start(self):
        print(self.data, file=self.process.stdin, flush=True)
        lines = [self.process.stdout.readline(), self.process.stdout.readline()]
        self.child = int(next(line for line in lines if line.strip().isdigit()))
        return Site(re.search(r"http://\S+", " ".join(lines))[0])

    def kill(self):
        os.kill(self.child, signal.SIGKILL)

    def close(self):
        self.process.stdin.close()
        self.process.wait(10)
        self.process.stdout.close()


@pytest.fixture
def nursery(tmp_path):
    made = Nursery(tmp_path / "data")
    yield made
    made.close()


def labelling(site, acknowledged, first, stop):
    """Saves labels one after another until the server is gone; remembers what was acknowledged."""
    seed = first
    while not stop.is_set():
        labels = {seed: seed % 2, seed + 1: 1}
        try:
            if site.save(labels):
                acknowledged.update(labels)
        except (httpx.HTTPError, ValueError):
            return
        seed += 2


@pytest.mark.slow
def test_twenty_kills_lose_no_label_no_kept_erasure_and_no_run(nursery, tmp_path):
    chance, acknowledged, data = random.Random(3), {}, tmp_path / "data"
    knobs = {"steps": STEPS, "lr": 1e-4, "batch": 1, "snapshot_every": EVERY, "seed": 0}
    interrupted, long_run = 0, None
    for round_ in range(KILLS):
        site = nursery.start()
        stop = threading.Event()
        labeller = threading.Thread(target=labelling, args=(site, acknowledged, 1000 * round_, stop))
        labeller.start()
        if long_run is None:
            values = {"people": str(PERSON), "Steps": STEPS, "Snapshot every": EVERY}
            site.press("identity", "click", values)
        elif runs(data)[long_run] is State.INTERRUPTED:
            interrupted += 1
            site.press("runs", "resume", job=long_run)
        enough = len(acknowledged) + chance.randrange(0, 12, 2)  # sometimes at once, sometimes amid the saving
        deadline = time.monotonic() + 4
        while len(acknowledged) < enough and time.monotonic() < deadline:
            time.sleep(0.01)
        time.sleep(chance.uniform(0, 0.15))
        nursery.kill()
        stop.set()
        labeller.join()
        long_run = long_run or next(iter(runs(data)), None)
        check_data(data, acknowledged)
    assert len(acknowledged) > 2 * KILLS and interrupted > KILLS // 2

    # What is left goes on to the very result that an undisturbed run gives.
    calm = Studio(tmp_path / "calm", "cpu")
    expected = calm.store.results(calm.wait(calm.forget("tiny", Seeds((PERSON,)), "ascent", knobs)).id)[0].fingerprint
    calm.close()
    studio = Studio(data, "cpu")
    if studio.run(long_run, OWNER).state is State.INTERRUPTED:
        studio.resume(long_run, owner=OWNER)
    assert studio.wait(long_run).state is State.DONE
    assert studio.store.results(long_run)[0].fingerprint == expected
    studio.close()


@pytest.mark.slow
def test_a_kill_while_keeping_leaves_a_whole_erasure_or_none(nursery, tmp_path):
    chance, data = random.Random(5), tmp_path / "data"
    for _ in range(6):
        studio = Studio(data, "cpu")
        job = studio.wait(studio.forget("tiny", Seeds((3,)), "ascent", {"steps": 2}, owner=OWNER)).id
        studio.close()
        site = nursery.start()
        site.press("identity", "keep", job=job)
        time.sleep(chance.uniform(0, 0.12))
        nursery.kill()
        check_data(data, {})
        studio = Studio(data, "cpu")
        row, kept = studio.run(job, OWNER), set(studio.deltas("tiny"))
        assert set(studio.active("tiny")) <= kept
        assert set((row.result or {}).get("kept", [])) <= kept, "what the log calls kept is there"
        assert studio.store.results(job) or (row.result or {}).get("kept"), "kept, or still to be decided"
        studio.close()


def runs(data):
    """State by job, as a new process finds it."""
    studio = Studio(data, "cpu")
    found = {row.id: row.state for row in studio.runs(OWNER)}
    studio.close()
    return found


def check_data(data, acknowledged):
    """The database is whole, every acknowledged label is in it, every kept erasure can be loaded."""
    with sqlite3.connect(data / "studio.sqlite") as db:
        assert db.execute("pragma integrity_check").fetchone() == ("ok",)
        stored = dict(db.execute("select seed, value from label where owner=? and feature='hat'", (OWNER,)).fetchall())
    assert {seed: stored.get(seed) for seed in acknowledged} == acknowledged
    for path in (data / "deltas").glob("*.safetensors"):
        assert Delta.load(path).tensors
