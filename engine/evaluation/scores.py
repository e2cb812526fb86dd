"""The numbers of LIRF's Table 1 from answers on the test set: accuracies, forgetting, harmonic mean, average."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True)
class Accuracy:
    """In per cent, argmax over ALL classes; a correct count over a total count, never a mean of batches."""

    pre: float  # on test samples of the preserved classes
    dep: float  # on test samples of the deposit classes

    @classmethod
    def of(cls, z: Tensor, y: Tensor, deposited: Sequence[int]) -> "Accuracy":
        right, inside = z.argmax(1) == y, torch.isin(y, torch.tensor(list(deposited)))
        return cls(_per_cent(right[~inside]), _per_cent(right[inside]))


def forgetting(dep_original: float, dep_target: float) -> float:
    """F: the points of Dep Acc that the target lost."""
    return dep_original - dep_target


def h_mean(pre: float, f: float) -> float:
    """H Mean of the target's Pre Acc and F; 0 if both are."""
    return 2 * pre * f / (pre + f) if pre + f else 0.0


def average(accuracy: Accuracy, share: float) -> float:
    """Avg Acc, weighted by the shares of classes: `share` of them are deposited."""
    return (1 - share) * accuracy.pre + share * accuracy.dep


def restricted(z: Tensor, y: Tensor, deposited: Sequence[int]) -> float:
    """Pre Acc when the deposit classes cannot be answered: what the original gains by their leaving the race."""
    inside, z = torch.isin(y, torch.tensor(list(deposited))), z.clone()
    z[:, list(deposited)] = float("-inf")
    return _per_cent((z.argmax(1) == y)[~inside])


def h_bound(restricted_pre: float, dep_original: float) -> float:
    """The H Mean of a target that keeps all that the restricted original has and answers no deposit sample rightly."""
    return h_mean(restricted_pre, dep_original)


def agreement(z: Tensor, z_original: Tensor) -> float:
    """Share of samples with the same answer, in per cent."""
    return _per_cent(z.argmax(1) == z_original.argmax(1))


def restore_error(z: Tensor, z_original: Tensor) -> float:
    """max |z - z_original|. Above zero for LIRF: what comes back is close, not the same."""
    return (z - z_original).abs().max().item()


def by_class(z: Tensor, y: Tensor, count: int) -> list[float]:
    """Accuracy of each class, in per cent."""
    right = z.argmax(1) == y
    return [_per_cent(right[y == label]) for label in range(count)]


def confusion(z: Tensor, y: Tensor, count: int) -> list[list[int]]:
    """Rows are true classes, columns answers, entries counts."""
    return torch.bincount(y * count + z.argmax(1), minlength=count * count).reshape(count, count).tolist()


def _per_cent(hits: Tensor) -> float:
    return 100 * hits.sum().item() / len(hits) if len(hits) else 0.0
