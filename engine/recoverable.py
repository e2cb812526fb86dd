"""Deposit, withdraw, report: what a page or a command line asks of recoverable classifiers, as tasks.

Deposit reads the network and the deposit set; withdraw reads the target and the deposits, no data at all. Deposits can
follow one another: each is made on the target that the one before it left, whose forgotten classes stay forgotten.
Withdrawing any of them, in any order, puts back their classes and no others.
"""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from engine.augment import to_float
from engine.classifiers.stored import Removed, Stored
from engine.core.errors import UserError
from engine.core.events import Done, Progress, Task, watch
from engine.data import ImageSet, Request
from engine.datasets import Splits, resize
from engine.delta import Delta, compose, fingerprint
from engine.deposits import Deposit, check, deep_print
from engine.evaluation.leaks import linear_probe, membership
from engine.evaluation.maps import flat
from engine.evaluation.scores import (
    Accuracy,
    agreement,
    average,
    by_class,
    confusion,
    forgetting,
    h_bound,
    h_mean,
    restore_error,
    restricted,
)
from engine.fit import logits
from engine.methods.lirf import LIRF
from engine.recovery import RecoverNet


@dataclass(frozen=True)
class Deposited:
    """What a deposit leaves: the network to publish, the file for the owner, and the change between them as a delta."""

    target: Stored
    deposit: Deposit
    forget: Delta
    seconds: float


def class_indices(names: Sequence[str], classes: Sequence[str]) -> tuple[int, ...]:
    """Positions of named classes; an unknown name is answered with the known ones."""
    unknown = [name for name in names if name not in classes]
    if unknown or not names:
        raise UserError(f"unknown class {', '.join(unknown) or '(none given)'}; known: {', '.join(classes)}")
    return tuple(sorted({list(classes).index(name) for name in names}))


def deposit(original: Stored, data: ImageSet, method: LIRF, snapshot: Mapping[str, Tensor] | None = None) -> Task:
    """Takes the classes of `data`, which holds nothing else, out of a network. Done holds a Deposited."""
    started, network = time.monotonic(), original.network
    names = tuple(network.classes[index] for index in data.y.unique().tolist() if index < len(network.classes))
    before = {name for removed in original.card.removed for name in removed.classes}
    if twice := before.intersection(names):
        raise UserError(f"{', '.join(sorted(twice))} already left this network; withdraw that deposit first")
    gone = torch.tensor([network.classes.index(name) for name in sorted(before)], dtype=torch.long)
    request = Request(data, ", ".join(names), extra={"gone": gone})
    forget, recover = yield from watch(method.run(network, request, snapshot))
    kept = Deposit(recover, network.architecture, deep_print(network, recover.card.knobs["split"]))
    target = compose(network, [forget]).eval().requires_grad_(False)
    stored = original.without(target, Removed(kept.id, names))
    yield Done(Deposited(stored, kept, forget, time.monotonic() - started))


def withdraw(target: Stored, deposits: Sequence[Deposit]) -> Task:
    """Puts deposits back; needs no data. A deposit of another network is refused. Done holds a RecoverNet."""
    for index, kept in enumerate(deposits, 1):
        check(target, kept)
        yield Progress(index, len(deposits), note=f"putting back {', '.join(kept.classes)}")
    if len({kept.id for kept in deposits}) < len(deposits):
        raise UserError("the same deposit was handed over twice; once is enough")
    yield Done(RecoverNet(target.network, [kept.delta for kept in deposits]).eval().requires_grad_(False))


def report(original: Stored | None, target: Stored, deposits: Sequence[Deposit], splits: Splits, kind="pca") -> Task:
    """Everything that is measured of a deposit, as plain values. Without the original, or without a deposit to put
    back, its rows are left out."""
    recovered = (yield from watch(withdraw(target, deposits))) if deposits else None
    networks = {"original": original and original.network, "target": target.network, "recovered": recovered}
    networks = {name: network for name, network in networks.items() if network is not None}
    names = sorted({name for removed in target.card.removed for name in removed.classes}, key=splits.classes.index)
    moved = class_indices(names, splits.classes)
    steps = len(networks) + 3
    z = {}
    for index, (name, network) in enumerate(networks.items(), 1):
        z[name] = logits(network, splits.test)
        yield Progress(index, steps, note=f"asking the {name} network")
    found = {"classes": list(splits.classes), "deposited": names, "table": table(z, splits.test.y, moved)}
    if deposits:
        device = next(recovered.parameters()).device
        summed = torch.cat([recovered.summed(to_float(x).to(device)).cpu() for x in splits.test.x.split(256)])
        found["table"]["recovered, sum rule"] = _row(summed, z.get("original"), splits.test.y, moved)
    yield Progress(steps - 2, steps, note="looking for what is left inside")
    found["probe"] = {n: linear_probe(m, splits.train.of(moved), splits.test.of(moved)) for n, m in networks.items()}
    found["membership"] = {name: _membership(network, splits, moved) for name, network in networks.items()}
    yield Progress(steps - 1, steps, note="drawing the map")
    some = _sample(splits.test, 600)
    found["map"] = {name: points.tolist() for name, points in flat(networks, some, kind).items()}
    found["map labels"] = some.y.tolist()
    count = len(splits.classes)
    found["by class"] = {name: by_class(answers, splits.test.y, count) for name, answers in z.items()}
    found["confusion"] = {name: confusion(answers, splits.test.y, count) for name, answers in z.items()}
    found["bytes"] = {"network": target.bytes, "deposits": [kept.sizes() for kept in deposits]}
    found["fingerprints"] = {name: fingerprint(network) for name, network in networks.items()}
    yield Progress(steps, steps, note="done")
    yield Done(found)


def table(z: Mapping[str, Tensor], y: Tensor, moved: Sequence[int]) -> dict[str, dict[str, float]]:
    """LIRF's Table 1, a row for each network, with the original restricted to the kept classes and the bound of H."""
    rows = {name: _row(answers, z.get("original"), y, moved) for name, answers in z.items()}
    if "original" in z:
        pre = restricted(z["original"], y, moved)
        rows["original, restricted"] = {"Pre": pre, "H Mean bound": h_bound(pre, rows["original"]["Dep"])}
    return rows


def _row(z: Tensor, z_original: Tensor | None, y: Tensor, moved: Sequence[int]) -> dict[str, float]:
    accuracy, share = Accuracy.of(z, y, moved), len(moved) / z.shape[1]
    row = {"Pre": accuracy.pre, "Dep": accuracy.dep, "Avg": average(accuracy, share)}
    if z_original is not None:
        f = forgetting(Accuracy.of(z_original, y, moved).dep, accuracy.dep)
        row |= {"F": f, "H Mean": h_mean(accuracy.pre, f), "agreement": agreement(z, z_original)}
        row["restore error"] = restore_error(z, z_original)
    return row


def _membership(network: nn.Module, splits: Splits, moved: Sequence[int]) -> float:
    seen, fresh = splits.train.of(moved), splits.test.of(moved)
    return membership(logits(network, seen), seen.y, logits(network, fresh), fresh.y)


def _sample(data: ImageSet, most: int) -> ImageSet:
    """Evenly spaced samples, the same every time."""
    keep = torch.linspace(0, len(data) - 1, min(most, len(data))).long().unique()
    return ImageSet(data.x[keep], data.y[keep], data.classes)


@torch.no_grad()
def answers(networks: Mapping[str, nn.Module], pixels: np.ndarray, size: int) -> dict[str, list[tuple[str, float]]]:
    """What each network says of one image (HWC or HW uint8): classes and probabilities, the likeliest first."""
    x = torch.from_numpy(np.atleast_3d(pixels)).permute(2, 0, 1)[None]
    said: dict[str, Any] = {}
    for name, network in networks.items():
        image = x[:, :3].float().mean(1, keepdim=True).byte() if network.channels == 1 else x[:, :3]
        image = image.expand(-1, network.channels, -1, -1)
        x_here = to_float(resize(image, size)).to(next(network.parameters()).device)
        chances = network.logits(x_here).softmax(1)[0]
        said[name] = sorted(zip(network.classes, chances.tolist(), strict=True), key=lambda pair: -pair[1])
    return said
