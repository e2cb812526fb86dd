"""Logistic regression with an L2 penalty and balanced classes, by Newton's method in whichever form is the smaller."""

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor

MOST_STEPS, SHORTEST = 50, 1e-6
TINY = 1e-8  # of a sample's slope: there is nothing left to gain


def logistic_regression(
    x: Tensor, truth: Tensor, penalty: float | None = None, products: Tensor | None = None
) -> tuple[Tensor, float]:
    """Weight and offset that minimise the balanced, summed log loss + penalty/2 |weight|^2, for numbers `x` [n, F] that
    lie around 0. Who has the `products` of all pairs of samples already gives them along."""
    penalty = penalty or (3.0 if x.shape[1] >= 100 else 1.0)
    truth = truth.double()
    balance = torch.where(truth > 0, len(truth) / (2 * truth.sum()), len(truth) / (2 * (1 - truth).sum()))
    if len(x) < x.shape[1]:
        products = x.double() @ x.double().T if products is None else products.double()
        amounts, offset = _by_samples(products, truth, balance, penalty)
        return x.T @ amounts.to(x), offset
    return _by_numbers(x, truth, balance, penalty)


def _by_samples(products: Tensor, truth: Tensor, balance: Tensor, penalty: float) -> tuple[Tensor, float]:
    """Where samples are fewer than numbers: the weight lies in their span, so how much of each is in it is found from
    their products K alone. With f = K a + b, and g and C the falling slope and the curvature of the loss in f, a step
    solves  penalty a = g + C (f_now - f),  Σ a = 0  through 1 + √C K √C / penalty, which is never near singular, even
    where a sample is there twice."""
    sign, unknown = 2 * truth - 1, torch.zeros(len(truth) + 1, dtype=torch.double, device=products.device)

    def loss(unknown: Tensor) -> Tensor:
        linear = products @ unknown[:-1]
        logs = (balance * F.softplus(-sign * (linear + unknown[-1]))).sum()
        return logs + penalty / 2 * unknown[:-1] @ linear

    for _ in range(MOST_STEPS):
        f = products @ unknown[:-1] + unknown[-1]
        p = torch.sigmoid(f)
        slope, curve = balance * (truth - p), balance * p * (1 - p)
        if (penalty * unknown[:-1] - slope).abs().max() < TINY and slope.sum().abs() < TINY * len(truth):
            break
        root = curve.sqrt()[:, None]
        inner = root * products * root.T / penalty
        inner.diagonal().add_(1)
        sides = torch.stack([curve * f + slope, curve], 1)
        taken = torch.cholesky_solve(root * (products @ sides) / penalty, torch.linalg.cholesky(inner))
        free, held = ((sides - root * taken) / penalty).T
        offset = free.sum() / held.sum()
        unknown = _towards(unknown, torch.cat([free - offset * held, offset[None]]), loss)
    return unknown[:-1], unknown[-1].item()


def _by_numbers(x: Tensor, truth: Tensor, balance: Tensor, penalty: float) -> tuple[Tensor, float]:
    """Where samples are many. The curvature need not be exact, so it is summed in single precision."""
    rough = torch.cat([x.float(), x.new_ones(len(x), 1, dtype=torch.float32)], 1)
    inputs, sign = rough.double(), 2 * truth - 1
    ridge = inputs.new_full((inputs.shape[1],), float(penalty))
    ridge[-1] = 1e-9  # the offset is free

    def loss(beta: Tensor) -> Tensor:
        return (balance * F.softplus(-sign * (inputs @ beta))).sum() + (ridge * beta**2).sum() / 2

    beta = torch.zeros_like(ridge)
    for _ in range(MOST_STEPS):
        p = torch.sigmoid(inputs @ beta)
        slope = inputs.T @ (balance * (p - truth)) + ridge * beta
        if slope.abs().max() < TINY * len(truth):
            break
        curve = ((rough.T * (balance * p * (1 - p)).float()) @ rough).double() + torch.diag(ridge)
        beta = _towards(beta, beta - torch.linalg.solve(curve, slope), loss)
    return beta[:-1].to(x), beta[-1].item()


def _towards(here: Tensor, there: Tensor, loss: Callable[[Tensor], Tensor]) -> Tensor:
    """Halfway, a quarter … as long as the loss would grow."""
    least, size = loss(here), 1.0
    while loss(here + size * (there - here)) > least and size > SHORTEST:
        size /= 2
    return here + size * (there - here)
