"""LIRF on digits, synthetic people and a CIFAR-10 subset, in the shape of the paper's Tables 1 and 3.

`python -m benchmarks.lirf [--only people ...] [--seeds 3]`. Every choice in the settings was made on validation images;
the numbers are from test images. Three of ten classes are deposited, another draw for each seed.
"""

import argparse
import statistics
import sys
import time
from collections import defaultdict
from pathlib import Path

import torch

from engine.classifiers import classifiers
from engine.classifiers.stored import Stored
from engine.core.events import result
from engine.data import ImageSet
from engine.datasets import Splits, datasets
from engine.evaluation.leaks import linear_probe
from engine.evaluation.scores import Accuracy
from engine.evaluation.students import Lesson, teach
from engine.fit import Fit, logits
from engine.methods.lirf import LIRF, PRESETS
from engine.originals import RECIPES, train
from engine.recoverable import Deposited, deposit, report

ROOT = Path(__file__).resolve().parents[1]
PLACES = {"people": ROOT / "checkpoints" / "data", "cifar10": ROOT.parent / "shared" / "data" / "cifar10_subset.npz"}
RATIOS = (0.0, 0.3, 0.5, 0.7, 0.9)
PARTS = ("digits", "people", "cifar10", "ratios", "students")


def load(data: str) -> Splits | None:
    path = PLACES.get(data)
    if data == "cifar10" and not path.exists():
        print(f"(skipped: the {data} subset is not beside the project)\n")
        return None
    return datasets[data].load(path)


def choice(splits: Splits, seed: int) -> tuple[int, ...]:
    """Three of the classes; the seed's own draw."""
    order = torch.randperm(len(splits.classes), generator=torch.Generator().manual_seed(seed))
    return tuple(sorted(order[: round(0.3 * len(order))].tolist()))


def spread(values: list[float], digits: int = 1) -> str:
    deviation = statistics.stdev(values) if len(values) > 1 else 0.0
    return f"{statistics.mean(values):.{digits}f} ± {deviation:.{digits}f}"


def settings(data: str, preset: str, seed: int) -> LIRF:
    return LIRF.preset(preset, seed=seed, flip=datasets[data].flips and preset != "ours")


# Table 1


def table_1(data: str, splits: Splits, originals: list[Stored], presets=tuple(PRESETS)) -> None:
    columns: dict[str, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    for seed, original in enumerate(originals):
        moved = choice(splits, seed)
        if data != "cifar10":  # two more trainings for each seed would take longer than all the rest
            add_independent(columns["independent"], data, splits, moved, seed)
        for preset in presets:
            made = result(deposit(original, splits.train.of(moved), settings(data, preset, seed)))
            add_report(columns, preset, original, made, splits)
    print_table_1(data, splits, columns, presets, len(originals))


def add_independent(
    column: dict[str, list[float]], data: str, splits: Splits, moved: tuple[int, ...], seed: int
) -> None:
    """Two networks, each trained and asked on its own classes only: the paper's first column."""
    kept = tuple(c for c in range(len(splits.classes)) if c not in moved)
    scores = []
    for group in (kept, moved):
        own = Splits(*(regroup(part.of(group), group) for part in (splits.train, splits.validation, splits.test)),
                     tuple(splits.classes[c] for c in group))  # fmt: skip
        network = result(train(data, own, seed=seed))
        scores.append(network.card.scalars["test"])
    share = len(moved) / len(splits.classes)
    column["Pre"].append(scores[0])
    column["Dep"].append(scores[1])
    column["Avg"].append((1 - share) * scores[0] + share * scores[1])


def regroup(data: ImageSet, group: tuple[int, ...]) -> ImageSet:
    """The same images with labels counted inside the group."""
    return ImageSet(data.x, torch.tensor([group.index(label) for label in data.y.tolist()]), data.classes)


def add_report(columns, preset: str, original: Stored, made: Deposited, splits: Splits) -> None:
    found = result(report(original, made.target, [made.deposit], splits))
    rows = found["table"]
    for row, name in (("original", "original"), ("target", f"{preset}: target"), ("recovered", f"{preset}: recovered")):
        if row == "original" and preset != "ours":
            continue
        for metric, value in rows[row].items():
            columns[name][metric].append(value)
        columns[name]["probe"].append(found["probe"][row])
        columns[name]["membership"].append(found["membership"][row])
    bound = rows["original, restricted"]
    if preset == "ours":
        columns["original"]["restricted"].append(bound["Pre"])
        columns["original"]["bound"].append(bound["H Mean bound"])
    target, recovered = columns[f"{preset}: target"], columns[f"{preset}: recovered"]
    target["of bound"].append(100 * rows["target"]["H Mean"] / bound["H Mean bound"])
    target["seconds"].append(made.seconds)
    recovered["Avg gain"].append(rows["recovered"]["Avg"] - rows["original"]["Avg"])
    recovered["size"].append(100 * found["bytes"]["deposits"][0]["bytes"] / found["bytes"]["network"])
    recovered["sum Pre"].append(rows["recovered, sum rule"]["Pre"])
    recovered["sum Dep"].append(rows["recovered, sum rule"]["Dep"])


def print_table_1(data: str, splits: Splits, columns, presets, seeds: int) -> None:
    name = RECIPES[data].architecture
    print(f"### {data}: {name}, 3 of {len(splits.classes)} classes, {len(splits.test)} test images, {seeds} seeds\n")
    header = ["independent", "original", *(f"{p}: {half}" for p in presets for half in ("target", "recovered"))]
    print("| metric |", " | ".join(header), "|")
    print("|---|" + "---|" * len(header))
    metrics = ("Pre", "Dep", "F", "H Mean", "of bound", "Avg", "Avg gain", "agreement", "restore error", "probe")
    for metric in (*metrics, "membership", "size", "seconds", "sum Pre", "sum Dep"):
        digits = 2 if metric in ("membership", "restore error") else 1
        skip = {"F", "H Mean"} if metric in ("F", "H Mean") else set()
        cells = []
        for column in header:
            values = columns[column].get(metric)
            hide = metric in skip and not column.endswith("target")
            cells.append("-" if not values or hide else spread(values, digits))
        print(f"| {metric} |", " | ".join(cells), "|")
    print(f"\nOriginal restricted to the kept classes: Pre {spread(columns['original']['restricted'])}; "
          f"so H Mean can reach {spread(columns['original']['bound'])}.\n")  # fmt: skip


# Pruning


def ratios(splits: Splits, original: Stored) -> None:
    print("### people: how much of the deposit module may be pruned\n")
    print("| pruned | surviving weights | bytes | of the network | recovered Pre | recovered Dep | agreement |")
    print("|---|---|---|---|---|---|---|")
    for ratio in RATIOS:
        made = result(deposit(original, splits.train.of(choice(splits, 0)), LIRF(prune=ratio)))
        found = result(report(original, made.target, [made.deposit], splits))
        size, row = found["bytes"]["deposits"][0], found["table"]["recovered"]
        part = 100 * size["bytes"] / found["bytes"]["network"]
        print(f"| {ratio:.0%} | {size['nonzero']} of {size['weights']} | {size['bytes']} | {part:.1f} % "
              f"| {row['Pre']:.1f} | {row['Dep']:.1f} | {row['agreement']:.1f} |")  # fmt: skip
    print()


# Table 3


def students(data: str, splits: Splits, original: Stored, kinds: dict[str, Fit]) -> None:
    """What students learn from the original, from the target, and from a target with the attention push."""
    moved = choice(splits, 0)
    teachers = {"original": original.network}
    for name, weight in (("target", 0.0), ("target, attention pushed", 1.0)):
        teachers[name] = result(deposit(original, splits.train.of(moved), LIRF(at=weight))).target.network
    print(f"### {data}: what a student learns from each teacher (Pre / Dep, change against the original teacher)\n")
    print("| student | taught by |", " | ".join(teachers), "|")
    print("|---|---|" + "---|" * len(teachers))
    asked = {
        name: Accuracy.of(logits(network, splits.test), splits.test.y, moved) for name, network in teachers.items()
    }
    print("| (the teacher itself) | |", " | ".join(f"{a.pre:.1f} / {a.dep:.1f}" for a in asked.values()), "|")
    for student, fit in kinds.items():
        fresh = blank(student, data, splits)
        alone = Accuracy.of(result(teach(fresh, splits.train, splits.test, fit, None)), splits.test.y, moved)
        print(f"| {student} | labels only, no teacher | {alone.pre:.1f} / {alone.dep:.1f} | | |", flush=True)
        for lesson in (Lesson(kind, labels) for labels in (True, False) for kind in ("logit", "attention")):
            cells, first = [], None
            for teacher in teachers.values():
                z = result(teach(fresh, splits.train, splits.test, fit, lesson, teacher))
                got = Accuracy.of(z, splits.test.y, moved)
                first = first or got
                change = "" if got is first else f" ({got.pre - first.pre:+.1f} / {got.dep - first.dep:+.1f})"
                cells.append(f"{got.pre:.1f} / {got.dep:.1f}{change}")
            print(
                f"| {student} | {lesson.kind}, {'with' if lesson.labels else 'no'} labels |",
                " | ".join(cells),
                "|",
                flush=True,
            )
    chance = {
        name: linear_probe(network, splits.train.of(moved), splits.test.of(moved)) for name, network in teachers.items()
    }
    untrained = linear_probe(blank("tiny", data, splits), splits.train.of(moved), splits.test.of(moved))
    print("\nLinear probe on the deposit classes:", ", ".join(f"{name} {value:.1f}" for name, value in chance.items()),
          f"; on an untrained tiny network {untrained:.1f}.\n")  # fmt: skip


def blank(name: str, data: str, splits: Splits):
    stride = RECIPES[data].stride
    more = {"stride": stride} if name.startswith("resnet") and stride != 1 else {}
    return classifiers[name](splits.classes, splits.shape[0], seed=100, **more)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", nargs="*", choices=PARTS, default=PARTS)
    parser.add_argument("--seeds", type=int, default=3)
    flags = parser.parse_args()
    started, originals = time.monotonic(), {}
    for data in ("digits", "people", "cifar10"):
        needed = {data} | ({"ratios", "students"} if data == "people" else set())
        if not needed & set(flags.only) or not (splits := load(data)):
            continue
        count = flags.seeds if data in flags.only else 1
        # One CIFAR original serves all seeds: training it takes most of the time.
        seeds = [0] if data == "cifar10" else range(count)
        trained = [result(train(data, splits, seed=seed)) for seed in seeds]
        originals[data] = splits, (trained * count)[:count]
        if data in flags.only:
            presets = tuple(PRESETS) if data != "cifar10" else ("ours", "as coded")
            table_1(data, *originals[data], presets=presets)
            sys.stdout.flush()
    if "ratios" in flags.only:
        splits, trained = originals["people"]
        ratios(splits, trained[0])
    if "students" in flags.only:
        splits, trained = originals["people"]
        fit = RECIPES["people"].fit
        students("people", splits, trained[0], {"tiny": fit, "resnet20": fit})
    print(f"_{time.monotonic() - started:.0f} s in all._")


if __name__ == "__main__":
    main()
