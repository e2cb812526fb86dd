"""The mask family on four splits, in one table: `python -m benchmarks.masks [--only digits ...] [--seeds 3]`.
With `--runs FILE` every finished run is noted there and not made again, so that a long measurement can be cut off.

The script of every run: learn tasks 0 to 4, forget task 2, learn task 5 (task 0 with its pixels shuffled, or one more
permutation), restore task 2. Same network, batches and seeds for all methods; every knob was chosen on validation
images, the numbers are from test images. Piggyback, KSM and CTR start from a network trained on drawn shapes, an
advantage the others lack. Two runs at a time, one thread each.
"""

import argparse
import json
import math
import multiprocessing
import statistics
import tempfile
import time
from collections.abc import Iterable, Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch

from benchmarks.mask_lirf import lirf
from benchmarks.mask_tables import BATCHES, FORGOTTEN, LATER, WAYS, Run, tell
from engine.core.errors import UserError
from engine.core.events import result
from engine.files import atomic
from engine.masks import mask_methods, measure, references, training
from engine.masks.joint import joint
from engine.masks.moving import check_exclusive
from engine.masks.net import MaskedNet
from engine.masks.plan import Plan
from engine.masks.splits import TaskData, splits
from engine.masks.state import same_bytes

ROOT = Path(__file__).resolve().parents[1]
PLACES = {"people": ROOT / "checkpoints" / "data", "cifar10": ROOT.parent / "shared" / "data" / "cifar10_subset.npz"}
STEPS = {"digits": 400, "permuted-digits": 400, "people": 200, "cifar10": 200}
METHODS = ("supsup", "piggyback", "ksm", "packnet", "hat", "wsn", "tfm", "apd", "ctr")
ONLY_ON = {  # what would make the whole too long
    "lirf": ("digits", "people"),  # on CIFAR-10 its network alone takes longer than all the rest: see benchmarks.lirf
    "wsn": ("digits", "permuted-digits"),  # an extra, not one of the eight
}
SUMMARY = ROOT / "benchmarks" / "masks.json"  # what the page draws its dots from
DRAWS = {1: 20, 16: 20, 128: 5}  # by their size, how many batches of each task must find their task


def load(split: str) -> tuple[TaskData, ...] | str:
    """The tasks, or why there are none."""
    path = PLACES.get(split)
    if split == "cifar10" and not path.exists():
        return "the CIFAR-10 subset is not beside the project"
    try:
        return splits[split].load(path)
    except UserError as error:
        return str(error)


def run(split: str, method: str, seed: int, steps: int, *, twin: bool) -> Run:
    """One method through the whole script."""
    torch.set_num_threads(1)
    tasks = load(split)
    plan = splits[split].plan(tuple(tasks[0].train.x.shape[1:]))
    if method == "lirf":
        return lirf(split, seed, PLACES.get(split))
    done = Run(split, method, seed)
    if method == "joint":
        found = result(joint(plan, tasks[:LATER], seed, {"steps": LATER * steps}))
        done.final, done.learned = found, list(found.values())
        return done
    net = _begin(method, plan, seed, steps)
    with tempfile.TemporaryDirectory() as folder:
        _script(done, net, tasks, Path(folder))
    if twin:
        done.grades |= _twin(net, tasks, plan, seed, steps)
    return done


def _begin(method: str, plan: Plan, seed: int, steps: int) -> MaskedNet:
    return result(MaskedNet.begin(method, {"steps": steps}, plan, seed))


def _script(done: Run, net: MaskedNet, tasks: tuple[TaskData, ...], folder: Path) -> None:
    matrix = []
    learning = []
    for task in range(LATER):
        learning.append(_learn(done, net, matrix, tasks, task))
    done.learned = [row.scores[row.task] for row in matrix]
    bits = [asdict(net.storage_bits(task)) | {"total": net.storage_bits(task).total} for task in range(LATER)]
    done.bits = {kind: statistics.mean(b[kind] for b in bits) for kind in bits[0]}
    last = matrix[-1]
    _find_tasks(done, net, tasks, "before")
    before = net.logits(tasks[FORGOTTEN].test.x, FORGOTTEN)

    receipt = net.forget(FORGOTTEN, folder, _strongest_mode(net, FORGOTTEN))
    matrix.append(measure.row(net, "forget", FORGOTTEN, tasks))
    done.grades = {"G0": _is_refused(net, tasks), "G1": receipt.grades.storage}
    _find_tasks(done, net, tasks, "after")
    learning.append(_learn(done, net, matrix, tasks, LATER))
    done.relapse = measure.relapse(net, tasks[FORGOTTEN])
    restored = net.restore(receipt.vault)
    matrix.append(measure.row(net, "restore", FORGOTTEN, tasks))

    after = net.logits(tasks[FORGOTTEN].test.x, FORGOTTEN)
    done.error = (after - before).abs().max().item()
    done.grades["R"] = restored.equal and same_bytes(before, after)
    done.overlay = restored.overlay
    done.final = {task: score for task, score in matrix[-1].scores.items() if task < LATER}
    lost = measure.forgetting(matrix)
    done.forgetting, done.bwt = statistics.mean(lost.values()), measure.backward_transfer(matrix)
    kept = [score for task, score in last.scores.items() if task != FORGOTTEN]
    done.scores = {
        "Pre": statistics.mean(kept),
        "Dep": last.scores[FORGOTTEN],
        "Dep after": 0.0,  # refused, as G0 says
        "Dep restored": matrix[-1].scores[FORGOTTEN],
    }
    done.seconds = {
        "learn": statistics.mean(learning),
        "forget": receipt.seconds,
        "restore": restored.seconds,
    }
    done.matrix = [asdict(row) for row in matrix]


def _learn(done: Run, net: MaskedNet, matrix: list, tasks: tuple[TaskData, ...], task: int) -> float:
    receipt = result(net.learn_task(task, tasks[task]))
    matrix.append(measure.row(net, "learn", task, tasks))
    done.drift = max([done.drift, *receipt.drift.values()])
    return receipt.seconds


def _strongest_mode(net: MaskedNet, task: int) -> str:
    """Exclusive where it is not refused: the most that leaves every other task alone."""
    try:
        check_exclusive(net, task)
    except UserError:
        return "mask"
    return "exclusive"


def _is_refused(net: MaskedNet, tasks: tuple[TaskData, ...]) -> bool:
    try:
        net.predict(tasks[FORGOTTEN].test.x, FORGOTTEN)
    except UserError:
        return True
    return False


def _find_tasks(done: Run, net: MaskedNet, tasks: tuple[TaskData, ...], when: str) -> None:
    """Task inference at every batch size; after forgetting, how often the forgotten task is called unknown."""
    if done.method != "supsup":
        return
    live = {task: tasks[task] for task in sorted(net.state.tasks)}
    for by in WAYS:
        for batch in BATCHES:
            found = measure.inference(net, live, by, batch, DRAWS[batch], done.seed)
            done.inference[f"{when} {by} {batch}"] = found["right"]
    if FORGOTTEN not in live:
        gone = {FORGOTTEN: tasks[FORGOTTEN]}
        for batch in BATCHES:
            found = measure.inference(net, gone, "one-shot", batch, DRAWS[batch], done.seed)
            done.inference[f"unknown {batch}"] = found["unknown"]


def _twin(net: MaskedNet, tasks: tuple[TaskData, ...], plan: Plan, seed: int, steps: int) -> dict[str, bool]:
    """G2, measured: is the state after forgetting equal to one that never saw the task? For an early and for the last
    task. `net` has been through the script, so a fresh run is made for each side."""
    saw, never = (_begin(net.name, plan, seed, steps) for _ in range(2))
    with tempfile.TemporaryDirectory() as folder:
        for task in range(LATER):
            before_last = saw.state_hash()
            result(saw.learn_task(task, tasks[task]))
            if task != FORGOTTEN:
                result(never.learn_task(task, tasks[task]))
        last = LATER - 1
        whole = saw.forget(last, Path(folder), _strongest_mode(saw, last))
        grades = {"G2 last": whole.after == before_last}
        saw.restore(whole.vault)
        saw.forget(FORGOTTEN, Path(folder), _strongest_mode(saw, FORGOTTEN))
        return grades | {"G2": saw.state_hash() == never.state_hash()}


def plan_runs(split: str, methods: list[str], seeds: int, steps: int) -> Iterator[tuple]:
    """The twin runs are made where they are cheap, once for each method."""
    for seed in range(seeds):
        for method in methods:
            twin = split == "digits" and seed == 0 and method not in ("joint", "lirf")
            if (
                method != "lirf" or split == "digits" or seed == 0
            ):  # its network on people takes as long as five methods
                yield (split, method, seed, steps, twin)


def _work(job: tuple) -> tuple[tuple, Run]:
    *rest, twin = job
    training.REPORTS, training.QUIET = 1, math.inf  # nobody watches these runs
    start = time.process_time()
    done = run(*rest, twin=twin)
    done.cpu = time.process_time() - start
    return job, done


def work_off(jobs: list[tuple], workers: int, notes: Path | None) -> Iterable[Run]:
    """Makes the runs that are not noted yet, two at a time, slow ones first so that the workers end together."""
    known = _read_notes(notes)
    yield from (known[job] for job in jobs if job in known)
    slow = ("lirf", "ctr", "apd", "wsn", "hat")
    waiting = sorted((job for job in jobs if job not in known), key=lambda job: (job[2], job[1] not in slow))
    if not waiting:
        return
    with multiprocessing.get_context("spawn").Pool(workers) as pool:
        for job, done in pool.imap_unordered(_work, waiting):
            if notes:
                with notes.open("a") as file:
                    file.write(json.dumps([job, asdict(done)]) + "\n")
            yield done


def _read_notes(notes: Path | None) -> dict[tuple, Run]:
    if notes is None or not notes.exists():
        return {}
    lines = [json.loads(line) for line in notes.read_text().splitlines()]
    return {tuple(job): Run.revive(done) for job, done in lines}


def summarise(by_split: dict[str, list[Run]], steps: dict[str, int]) -> dict[str, Any]:
    """split -> method -> mean accuracy and bits, for the page."""
    told: dict[str, Any] = {}
    for split, runs in by_split.items():
        for name in dict.fromkeys(run.method for run in runs if run.bits):
            some = [run for run in runs if run.method == name]
            told.setdefault(split, {})[name] = {
                "accuracy": round(statistics.mean(statistics.mean(run.final.values()) for run in some), 5),
                "bits": round(statistics.mean(run.bits["total"] for run in some)),
                "seeds": len(some),
                "steps": steps[split],
            }
    return told


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", nargs="*", choices=sorted(STEPS), default=list(STEPS))
    parser.add_argument("--methods", nargs="*", default=[*references, "joint", *METHODS, "lirf"])
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=0, help="batches per task; 0 = as the numbers were made")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--runs", type=Path, help="a file that finished runs are noted in, and read from")
    flags = parser.parse_args()
    missing = sorted(set(mask_methods) - set(METHODS))
    assert not missing, f"not measured: {missing}"
    started = time.monotonic()
    unread = {split: why for split in flags.only if isinstance(why := load(split), str)}
    steps = {split: flags.steps or STEPS[split] for split in flags.only if split not in unread}
    jobs = []
    for split, count in steps.items():
        methods = [name for name in flags.methods if split in ONLY_ON.get(name, STEPS)]
        jobs += plan_runs(split, methods, flags.seeds, count)
    runs = sorted(
        work_off(jobs, flags.workers, flags.runs), key=lambda run: (flags.methods.index(run.method), run.seed)
    )
    by_split = {split: [run for run in runs if run.split == split] for split in steps}
    for split, some in by_split.items():
        tell(split, some, steps[split])
    for split, why in unread.items():
        print(f"### {split}\n\n(skipped: {why})\n")
    if flags.methods == parser.get_default("methods") and not flags.steps and flags.seeds >= 3:
        with atomic(SUMMARY) as file:
            file.write(json.dumps(summarise(by_split, steps), indent=1).encode() + b"\n")
    cpu = sum(run.cpu for run in runs)
    print(f"_{cpu / 60:.0f} minutes of one core, {cpu / 120:.0f} on two quiet ones; this took", end=" ")
    print(f"{(time.monotonic() - started) / 60:.0f} minutes._")


if __name__ == "__main__":
    main()
