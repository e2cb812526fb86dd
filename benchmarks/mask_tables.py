"""What a run of the mask benchmark holds, and the tables made of many."""

import statistics
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from engine.masks.net import find
from engine.masks.splits import splits

FORGOTTEN, LATER = 2, 5
WAYS, BATCHES = ("one-shot", "binary", "try-each"), (1, 16, 128)
KINDS = ("mask", "index", "weights", "norm", "head", "snapshot", "total", "coded")
GRADES = ("G0", "G1", "G2", "G2 last", "R")
FORGETTING = f"""\
Task {FORGOTTEN} was forgotten with the strongest mode that leaves the others alone. Serving a mask then refuses it, so
Dep after is 0; LIRF still answers. Relapse, after one more task: the best that a live task's answers score on it, and a
linear probe on features, beside one on bare pixels. Grades are measured; `some` = not for every seed; G2
is from twin runs of seed 0, with and without the task.
"""


@dataclass
class Run:
    """What one method did on one split with one seed."""

    split: str
    method: str
    seed: int
    learned: list[float] = field(default_factory=list)  # score of each task when it was learned
    final: dict[int, float] = field(default_factory=dict)
    forgetting: float = 0.0
    bwt: float = 0.0
    drift: float = 0.0
    bits: dict[str, float] = field(default_factory=dict)
    grades: dict[str, bool] = field(default_factory=dict)
    error: float = 0.0  # largest change of a logit on the restored task's test images
    overlay: bool = False
    scores: dict[str, float] = field(default_factory=dict)  # Pre, Dep before / after / restored
    relapse: dict[str, float] = field(default_factory=dict)
    inference: dict[str, Any] = field(default_factory=dict)
    seconds: dict[str, float] = field(default_factory=dict)
    matrix: list[dict[str, Any]] = field(default_factory=list)
    cpu: float = 0.0  # seconds of one core

    @classmethod
    def revive(cls, noted: dict[str, Any]) -> "Run":
        """A run as JSON gives it back: tasks are numbers again."""
        rows = [{**row, "scores": _numbered(row["scores"])} for row in noted["matrix"]]
        return cls(**{**noted, "final": _numbered(noted["final"]), "matrix": rows})


def _numbered(scores: dict[str, float]) -> dict[int, float]:
    return {int(task): score for task, score in scores.items()}


def tell(split: str, runs: list[Run], steps: int) -> None:
    """The split's tables."""
    names = dict.fromkeys(run.method for run in runs)
    by_method = {name: [run for run in runs if run.method == name] for name in names}
    seeds = max(len(some) for some in by_method.values())
    print(f"### {split}: {splits[split].title}, {steps} batches of 32 a task, {seeds} seed{'s' * (seeds > 1)}\n")
    tell_accuracy(by_method)
    rows = {name: some for name, some in by_method.items() if name != "joint"}
    tell_bits(rows)
    tell_forgetting(rows)
    if "supsup" in rows:
        tell_inference(rows["supsup"])
    if "lirf" in rows:
        tell_lirf(rows["lirf"])
    tell_matrices(rows)


def tell_accuracy(by_method: dict[str, list[Run]]) -> None:
    alone = {run.seed: statistics.mean(run.learned) for run in by_method.get("independent", [])}
    took = ("learn", "forget", "restore")
    measured = ("forgetting", "BWT", "drift", "restore error", *(f"{what} s" for what in took))
    header("method", "accuracy", "gap to independent", *measured)
    for name, some in by_method.items():
        finals = [statistics.mean(run.final.values()) for run in some]
        gaps = [final - alone[run.seed] for final, run in zip(finals, some, strict=True) if run.seed in alone]
        cells = [title(name), spread(finals), spread(gaps) if gaps else "-"]
        if name == "joint":
            line(*cells, *["-"] * len(measured))
            continue
        cells += [spread([run.forgetting for run in some]), spread([run.bwt for run in some])]
        cells += [f"{max(run.drift for run in some):.2g}", f"{max(run.error for run in some):.2g}"]
        line(*cells, *(f"{statistics.mean(run.seconds[what] for run in some):.2g}" for what in took))
    print()


def tell_bits(rows: dict[str, list[Run]]) -> None:
    print("Bytes of a task in its vault file, by kind; `coded` after deflate.\n")
    header("method", *KINDS)
    for name, some in rows.items():
        line(title(name), *(f"{statistics.mean(run.bits[kind] for run in some) / 8:,.0f}" for kind in KINDS))
    print()


def tell_forgetting(rows: dict[str, list[Run]]) -> None:
    print(FORGETTING)
    scores = ("Pre", "Dep", "Dep after", "F", "H Mean", "Dep restored", "Avg restored", "relapse", "probe", "pixels")
    header("method", *scores, "G0", "G1", "G2", "G2, last task", "R", "overlay")
    for name, some in rows.items():
        keys = ("Pre", "Dep", "Dep after", "Dep restored")
        pre, dep, after, back = ([run.scores[key] for run in some] for key in keys)
        f = [before - left for before, left in zip(dep, after, strict=True)]
        h = [2 * p * x / (p + x) if p + x else 0.0 for p, x in zip(pre, f, strict=True)]
        average = [statistics.mean(run.final.values()) for run in some]
        cells = [spread(values) for values in (pre, dep, after, f, h, back, average)]
        cells += [spread([run.relapse[key] for run in some]) for key in ("answers", "probe", "blind")]
        cells += [yes([run.grades[grade] for run in some if grade in run.grades]) for grade in GRADES]
        line(title(name), *cells, yes([run.overlay for run in some]))
    print()


def tell_inference(some: list[Run]) -> None:
    print("SupSup finds the task by itself (%), before and after forgetting; and calls a forgotten one unknown.\n")
    header("images at once", *(f"{by}, {when}" for when in ("before", "after") for by in WAYS), "unknown")
    for batch in BATCHES:
        keys = [f"{when} {by} {batch}" for when in ("before", "after") for by in WAYS] + [f"unknown {batch}"]
        line(str(batch), *(spread([run.inference[key] for run in some]) for key in keys))
    print()


def tell_lirf(some: list[Run]) -> None:
    print("LIRF among all classes, as its paper scores it:\n")
    keys = [key for key in some[0].scores if key.startswith("all: ")]
    header(*(key.removeprefix("all: ") for key in keys))
    line(*(spread([run.scores[key] for run in some]) for key in keys))
    print()


def tell_matrices(rows: dict[str, list[Run]]) -> None:
    """A[after step, task] of the first seed for the lower bound, a method that shares and one that does not."""
    for name in ("finetune", "packnet", "supsup"):
        if name in rows:
            first = rows[name][0]
            print(f"Accuracy matrix of {title(name)}, seed {first.seed}:\n")
            header("step", *(f"task {task}" for task in range(LATER + 1)))
            for row in first.matrix:
                scores = row["scores"]
                shown = (f"{100 * scores[task]:.1f}" if task in scores else "" for task in range(LATER + 1))
                line(f"{row['event']} {row['task']}", *shown)
            print()


def header(*names: str) -> None:
    line(*names)
    print("|---" * len(names) + "|")


def line(*cells: str) -> None:
    print("|", " | ".join(cells), "|")


def title(name: str) -> str:
    return {"joint": "Joint training", "lirf": "LIRF"}.get(name) or find(name).title


def spread(values: Sequence[float]) -> str:
    """Mean and deviation in per cent; one value has none."""
    deviation = f" ± {100 * statistics.stdev(values):.1f}" if len(values) > 1 else ""
    return f"{100 * statistics.mean(values):.1f}{deviation}"


def yes(values: Sequence[bool]) -> str:
    if not values:
        return "-"
    return "yes" if all(values) else "some" if any(values) else "no"
