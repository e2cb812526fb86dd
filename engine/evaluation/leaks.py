"""What is left in a network that no longer answers: linear probe, and membership inference on the deposit set."""

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from engine.augment import to_float
from engine.data import ImageSet


@torch.no_grad()
def features(network: nn.Module, data: ImageSet, batch: int = 256) -> np.ndarray:
    """Penultimate features of a whole set."""
    device = next(network.parameters()).device
    return torch.cat([network.features(to_float(x).to(device)).cpu() for x in data.x.split(batch)]).numpy()


def linear_probe(network: nn.Module, train: ImageSet, test: ImageSet) -> float:
    """Accuracy in per cent of a fresh linear classifier on frozen features. Low Dep Acc alone is weak evidence."""
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    if len(train.y.unique()) < 2:
        return 100.0  # one class: there is nothing to tell apart
    probe = make_pipeline(StandardScaler(), LogisticRegression(max_iter=1000, C=0.1))
    probe.fit(features(network, train), train.y.numpy())
    return 100 * float((probe.predict(features(network, test)) == test.y.numpy()).mean())


def membership(z_seen: Tensor, y_seen: Tensor, z_unseen: Tensor, y_unseen: Tensor) -> float:
    """AUC of telling training samples from fresh ones of the same classes by their loss. 0.5: no better than a coin."""
    seen, unseen = (F.cross_entropy(z, y, reduction="none") for z, y in ((z_seen, y_seen), (z_unseen, y_unseen)))
    smaller = (seen[:, None] < unseen[None]).float() + 0.5 * (seen[:, None] == unseen[None])
    return smaller.mean().item()
