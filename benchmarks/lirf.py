"""LIRF on digits, synthetic people and a CIFAR-10 subset, in the shape of the paper's Tables 1 and 3.

`python -m benchmarks.lirf [--only people ...] [--seeds 3]`. Every choice in the settings was made on validation images;
the numbers are from test images. Three of ten classes are deposited, another draw for each seed. Originals are trained
once and kept in checkpoints/cache/originals.
"""

import argparse
import json
import multiprocessing
import os
import sys
import time
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import torch

from benchmarks.lirf_tables import print_goals, print_ratios, print_students, print_table_1
from engine.classifiers import classifiers
from engine.classifiers.stored import Stored
from engine.core.events import result
from engine.data import ImageSet
from engine.datasets import Splits, datasets
from engine.evaluation.scores import Accuracy
from engine.evaluation.students import Lesson, teach
from engine.fit import logits
from engine.methods.lirf import LIRF, PRESETS
from engine.originals import RECIPES, shipped, shipped_path, train
from engine.recoverable import deposit, report

ROOT = Path(__file__).resolve().parents[1]
CACHE = ROOT / "checkpoints" / "cache" / "originals"
PLACES = {"people": ROOT / "checkpoints" / "data", "cifar10": ROOT.parent / "shared" / "data" / "cifar10_subset.npz"}
TABLES = ("people", "cifar10", "digits")
PARTS = (*TABLES, "ratios", "students")
RATIOS = (0.0, 0.3, 0.5, 0.7, 0.9)
STUDENTS = {"tiny": 20, "resnet20": 6}  # epochs
TEACHERS = {"original": None, "target": 0.0, "target, attention pushed": 1.0}  # weight of L_at
LESSONS = [None, *(Lesson(kind, labels) for labels in (True, False) for kind in ("logit", "attention"))]
WORKERS = max(2, os.cpu_count() or 2)


def use_cheap_recipes() -> None:
    """In every process: one thread each, and CIFAR-10 with a stem of stride 2, a quarter of the full recipe's work."""
    torch.set_num_threads(1)
    RECIPES["cifar10"] = replace(RECIPES["cifar10"], stride=2)


@cache
def load(data: str) -> Splits:
    return datasets[data].load(PLACES.get(data))


def choice(splits: Splits, seed: int) -> tuple[int, ...]:
    """Three of the classes; the seed's own draw."""
    order = torch.randperm(len(splits.classes), generator=torch.Generator().manual_seed(seed))
    return tuple(sorted(order[: round(0.3 * len(order))].tolist()))


def original(data: str, seed: int) -> Stored:
    """The one that ships for seed 0; others by the same recipe. One CIFAR original serves all seeds."""
    if seed == 0 and shipped_path(data).is_file():
        return shipped(data)
    path = CACHE / f"{data}-{0 if data == 'cifar10' else seed}.safetensors"
    if not path.is_file():
        result(train(data, load(data), seed=seed)).save(path)
    return Stored.load(path)


# One piece of work each; everything that comes back is plain


def one_original(data: str, seed: int) -> float:
    return original(data, seed).card.scalars["test"]


def one_deposit(data: str, seed: int, preset: str, changes: dict[str, Any] | None = None) -> dict[str, Any]:
    splits, started = load(data), original(data, seed)
    knobs = {"seed": seed, "flip": datasets[data].flips and preset != "ours"} | (changes or {})
    before = time.process_time()
    made = result(deposit(started, splits.train.of(choice(splits, seed)), LIRF.preset(preset, **knobs)))
    seconds = time.process_time() - before
    found = result(report(started, made.target, [made.deposit], splits))
    return {key: found[key] for key in ("table", "probe", "membership", "bytes")} | {"cpu seconds": seconds}


def one_independent(data: str, seed: int) -> dict[str, float]:
    """Two networks, each trained and asked on its own classes only: the paper's first column."""
    splits, moved = load(data), choice(load(data), seed)
    kept = tuple(c for c in range(len(splits.classes)) if c not in moved)
    scores = []
    for group in (kept, moved):
        parts = (regroup(part.of(group), group) for part in (splits.train, splits.validation, splits.test))
        own = Splits(*parts, tuple(splits.classes[c] for c in group))
        scores.append(result(train(data, own, seed=seed)).card.scalars["test"])
    share = len(moved) / len(splits.classes)
    return {"Pre": scores[0], "Dep": scores[1], "Avg": (1 - share) * scores[0] + share * scores[1]}


def regroup(data: ImageSet, group: tuple[int, ...]) -> ImageSet:
    """The same images with labels counted inside the group."""
    return ImageSet(data.x, torch.tensor([group.index(label) for label in data.y.tolist()]), data.classes)


@cache
def teacher(data: str, name: str) -> torch.nn.Module:
    if TEACHERS[name] is None:
        return original(data, 0).network
    images = load(data).train.of(choice(load(data), 0))
    return result(deposit(original(data, 0), images, LIRF(at=TEACHERS[name]))).target.network


def one_student(data: str, student: str, lesson: Lesson | None, name: str) -> tuple[float, float]:
    """Pre and Dep of a fresh student; without a lesson it learns from labels only."""
    splits = load(data)
    fresh = classifiers[student](splits.classes, splits.shape[0], seed=100)
    fit = replace(RECIPES[data].fit, epochs=STUDENTS[student])
    z = result(teach(fresh, splits.train, splits.test, fit, lesson, teacher(data, name) if lesson else None))
    got = Accuracy.of(z, splits.test.y, choice(splits, 0))
    return got.pre, got.dep


def one_teacher(data: str, name: str) -> tuple[float, float]:
    got = Accuracy.of(logits(teacher(data, name), load(data).test), load(data).test.y, choice(load(data), 0))
    return got.pre, got.dep


# All of it


def plan(parts: set[str], seeds: int) -> dict[tuple, tuple]:
    """What is to be done: a name for the answer, then the function and its arguments."""
    jobs: dict[tuple, tuple] = {}
    for data in (data for data in TABLES if data in parts):
        presets = [name for name in PRESETS if data == "digits" or name != "as described"]
        for seed in range(seeds):
            jobs |= {(data, preset, seed): (one_deposit, data, seed, preset) for preset in presets}
            if data == "digits":  # two more trainings for each seed are worth it only where they are quick
                jobs[data, "independent", seed] = (one_independent, data, seed)
    if "ratios" in parts:
        jobs |= {("ratios", ratio): (one_deposit, "digits", 0, "ours", {"prune": ratio}) for ratio in RATIOS}
    if "students" in parts:
        jobs |= {("teacher", name): (one_teacher, "digits", name) for name in TEACHERS}
        for student in STUDENTS:
            for lesson in LESSONS:
                for name in TEACHERS if lesson else ["original"]:
                    jobs[student, lesson, name] = (one_student, "digits", student, lesson, name)
    return jobs


def work_through(jobs: dict[tuple, tuple], kept: Path | None) -> dict[tuple, Any]:
    """Every piece, some at a time. What `kept` holds from an earlier call is taken from there."""
    done = json.loads(kept.read_text()) if kept and kept.exists() else {}
    left = {name: job for name, job in jobs.items() if repr(name) not in done}
    started, processes = time.monotonic(), multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(WORKERS, processes, use_cheap_recipes) as pool:
        networks = {(job[1], 0 if job[1] == "cifar10" else job[2]) for job in left.values() if job[0] is one_deposit}
        for waiting in [pool.submit(one_original, *network) for network in sorted(networks)]:
            waiting.result()
        asked = {name: pool.submit(*job) for name, job in left.items()}
        for name, waiting in asked.items():
            done[repr(name)] = waiting.result()
            print(f"{time.monotonic() - started:.0f} s: {name}", file=sys.stderr, flush=True)
            if kept:
                kept.write_text(json.dumps(done))
    return {name: done[repr(name)] for name in jobs}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", nargs="*", choices=PARTS, default=PARTS)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--runs", type=Path, help="file of finished pieces, not to be done again; it is added to")
    flags = parser.parse_args()
    parts = set(flags.only)
    if "cifar10" in parts and not PLACES["cifar10"].exists():
        parts.remove("cifar10")
        print("(The CIFAR-10 subset is not beside the project: its table is left out.)\n")
    found = work_through(plan(parts, flags.seeds), flags.runs)
    for data in (data for data in TABLES if data in parts):
        use_cheap_recipes()
        print_table_1(data, RECIPES[data], load(data), found, flags.seeds)
    if "ratios" in parts:
        print_ratios(found, RATIOS)
    if "students" in parts:
        print_students(found, list(STUDENTS), list(TEACHERS), LESSONS)
    print_goals(found, [data for data in ("people", "cifar10") if data in parts], flags.seeds)


if __name__ == "__main__":
    main()
