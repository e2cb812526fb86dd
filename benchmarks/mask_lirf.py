"""LIRF on the same data and the same group as the mask methods, as one more run of their table."""

import statistics
import time
from pathlib import Path

from torch import Tensor

from benchmarks.mask_tables import FORGOTTEN, LATER, Run
from engine.core.events import result
from engine.datasets import datasets
from engine.evaluation.leaks import linear_probe
from engine.evaluation.scores import Accuracy, agreement, h_mean
from engine.fit import logits
from engine.masks.measure import probe
from engine.masks.splits import splits
from engine.methods.lirf import LIRF
from engine.originals import train
from engine.recoverable import deposit, withdraw


def lirf(split: str, seed: int, path: Path | None) -> Run:
    """One network trained on all classes together; the classes of one task go to a deposit and come back. Scored within
    each task, as the masks are, and beside it among all classes. Its own network and recipe, not the common one."""
    data = datasets[split].load(path)
    group = (2 * FORGOTTEN, 2 * FORGOTTEN + 1)
    started = time.monotonic()
    original = result(train(split, data, seed=seed))
    done = Run(split, "lirf", seed, seconds={"learn": (time.monotonic() - started) / LATER})
    made = result(deposit(original, data.train.of(group), LIRF.preset("ours", seed=seed)))
    started = time.monotonic()
    recovered = result(withdraw(made.target, [made.deposit]))
    done.seconds |= {"forget": made.seconds, "restore": time.monotonic() - started}

    networks = {"original": original.network, "target": made.target.network, "recovered": recovered}
    z = {name: logits(network, data.test) for name, network in networks.items()}
    within = {name: _within_tasks(answers, data.test.y) for name, answers in z.items()}
    kept = [task for task in range(LATER) if task != FORGOTTEN]
    done.learned, done.final = list(within["original"].values()), within["recovered"]
    changes = [within["recovered"][task] - within["original"][task] for task in range(LATER)]
    done.forgetting, done.bwt = statistics.mean(max(0.0, -change) for change in changes), statistics.mean(changes)
    done.drift = max((z["target"] - z["original"]).abs().max().item(), 0.0)
    done.error = (z["recovered"] - z["original"]).abs().max().item()
    done.grades = {"R": done.error == 0.0}  # it still answers, so the other grades do not apply
    done.scores = {
        "Pre": statistics.mean(within["target"][task] for task in kept),
        "Dep": within["original"][FORGOTTEN],
        "Dep after": within["target"][FORGOTTEN],
        "Dep restored": within["recovered"][FORGOTTEN],
    }
    done.scores |= _among_all(z, data.test.y, group)
    task = splits[split].load(path)[FORGOTTEN]
    pixels = [part.x.float().flatten(1) / 255 for part in (task.train, task.test)]
    found = linear_probe(made.target.network, data.train.of(group), data.test.of(group)) / 100
    done.relapse = {"answers": within["target"][FORGOTTEN], "probe": found, "blind": probe(*pixels, task)}
    bits = 8 * made.deposit.sizes()["bytes"]
    done.bits = dict.fromkeys(("mask", "index", "norm", "head", "snapshot"), 0) | dict.fromkeys(
        ("weights", "total", "coded"), bits
    )
    return done


def _within_tasks(z: Tensor, y: Tensor) -> dict[int, float]:
    """Per task, the share of its test images that are right among its own two classes."""
    scores = {}
    for task in range(LATER):
        first = 2 * task
        mine = (y == first) | (y == first + 1)
        scores[task] = (z[mine, first : first + 2].argmax(1) + first == y[mine]).float().mean().item()
    return scores


def _among_all(z: dict[str, Tensor], y: Tensor, group: tuple[int, ...]) -> dict[str, float]:
    """LIRF's own table: argmax over all classes; shares instead of per cent, as elsewhere here."""
    scores = {name: Accuracy.of(answers, y, group) for name, answers in z.items()}
    f = scores["original"].dep - scores["target"].dep
    return {
        "all: Pre": scores["target"].pre / 100,
        "all: Dep before": scores["original"].dep / 100,
        "all: Dep after": scores["target"].dep / 100,
        "all: H Mean": h_mean(scores["target"].pre, f) / 100,
        "all: Dep restored": scores["recovered"].dep / 100,
        "all: agreement": agreement(z["recovered"], z["original"]) / 100,
    }
