"""Numbers about a network that has learned, forgotten and restored tasks."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from engine.masks.net import MaskedNet
from engine.masks.randomness import keyed
from engine.masks.receipts import UNKNOWN
from engine.masks.splits import TaskData


@dataclass(frozen=True)
class Row:
    """One line of the accuracy matrix: what was done, and what every live task then scored on its test images."""

    event: str  # learn | forget | restore
    task: int
    scores: Mapping[int, float]


def row(net: MaskedNet, event: str, task: int, tasks: Sequence[TaskData]) -> Row:
    live = sorted(net.state.tasks)
    return Row(event, task, {t: net.accuracy(t, tasks[t].test.x, tasks[t].test.y) for t in live})


def forgetting(matrix: Sequence[Row]) -> dict[int, float]:
    """Per live task: its best score in the matrix less its last one. Forgetting on request does not count."""
    last = matrix[-1].scores
    return {t: max(row.scores[t] for row in matrix if t in row.scores) - last[t] for t in last}


def backward_transfer(matrix: Sequence[Row]) -> float:
    """BWT: mean of (last score - score when learned) over the live tasks but the one learned last."""
    learned = {row.task: row.scores[row.task] for row in matrix if row.event == "learn"}
    newest = [row.task for row in matrix if row.event == "learn"][-1]
    changes = [score - learned[t] for t, score in matrix[-1].scores.items() if t != newest and t in learned]
    return sum(changes) / len(changes) if changes else 0.0


def overlap(net: MaskedNet) -> dict[tuple[int, int], float]:
    """Jaccard index of what two live tasks use: 1 is the same mask, 0 is nothing in common."""
    flat = {}
    for task in sorted(net.state.tasks):
        masks = net.method.masks(net.plan, net.state, task)
        flat[task] = torch.cat([masks[name].flatten() for name in sorted(masks)]) if masks else None
    pairs = {}
    for a, one in flat.items():
        for b, other in flat.items():
            if one is not None and other is not None:
                union = int((one | other).sum())
                pairs[a, b] = int((one & other).sum()) / union if union else 0.0
    return pairs


def relapse(net: MaskedNet, task: TaskData) -> dict[str, float]:
    """What serving still knows of a task that is not live: the best that any live task's answers score on it, and a
    fresh linear probe on their features. `blind` is the same probe on the bare pixels, the bar to compare with."""
    scores, probes = [0.0], [0.0]
    for live in sorted(net.state.tasks):
        answers = net.logits(task.test.x, live)
        if answers.shape[1] >= len(task.classes):
            right = answers[:, : len(task.classes)].argmax(1).cpu() == task.test.y
            scores.append(right.float().mean().item())
        probes.append(probe(*(net.features(part.x, live).cpu() for part in (task.train, task.test)), task))
    pixels = [part.x.float().flatten(1) / 255 for part in (task.train, task.test)]
    return {"answers": max(scores), "probe": max(probes), "blind": probe(*pixels, task)}


def probe(train: Tensor, test: Tensor, task: TaskData, steps: int = 200) -> float:
    """Test accuracy of a linear classifier trained on standardised features."""
    mean, std = train.mean(0), train.std(0) + 1e-6
    train, test = (train - mean) / std, (test - mean) / std
    weight = torch.zeros(len(task.classes), train.shape[1], requires_grad=True)
    bias = torch.zeros(len(task.classes), requires_grad=True)
    descent = torch.optim.Adam([weight, bias], lr=0.02, weight_decay=1e-3)
    for _ in range(steps):
        descent.zero_grad()
        F.cross_entropy(F.linear(train, weight, bias), task.train.y).backward()
        descent.step()
    with torch.no_grad():
        return (F.linear(test, weight, bias).argmax(1) == task.test.y).float().mean().item()


def inference(
    net: MaskedNet, tasks: Mapping[int, TaskData], by: str, batch: int, draws: int, seed: int = 0
) -> dict[str, object]:
    """How often the task of a batch of test images is found. `confusion[true][answer]` counts batches."""
    random = keyed(seed, "all", f"inference {by} {batch}")
    confusion: dict[int, dict[int | str, int]] = {}
    for number, task in tasks.items():
        seen = confusion.setdefault(number, {})
        for _ in range(draws if batch < len(task.test) else 1):  # all of them at once can be drawn in one way only
            rows = torch.randperm(len(task.test), generator=random)[:batch]
            answer = net.predict(task.test.x[rows], by=by).task
            seen[answer] = seen.get(answer, 0) + 1
    total = sum(sum(seen.values()) for seen in confusion.values())
    right = sum(seen.get(number, 0) for number, seen in confusion.items())
    unknown = sum(seen.get(UNKNOWN, 0) for seen in confusion.values())
    return {"right": right / total, "unknown": unknown / total, "confusion": confusion}
