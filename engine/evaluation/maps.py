"""One flat map of several networks' features, so that their pictures can be laid side by side."""

from collections.abc import Mapping

import numpy as np
from torch import nn

from engine.data import ImageSet
from engine.evaluation.leaks import features


def flat(networks: Mapping[str, nn.Module], data: ImageSet, kind: str = "pca", seed: int = 0) -> dict[str, np.ndarray]:
    """Name to [n, 2] points from one fit over all networks' features: the same place means the same features."""
    from sklearn.decomposition import PCA
    from sklearn.manifold import TSNE

    stacks = [features(network, data) for network in networks.values()]
    everything = np.concatenate(stacks)
    if kind == "t-sne":
        perplexity = min(30, (len(everything) - 1) // 3)
        points = TSNE(2, perplexity=perplexity, init="pca", random_state=seed).fit_transform(everything)
    else:
        points = PCA(2, random_state=seed).fit_transform(everything)
    return dict(zip(networks, np.split(points, len(stacks)), strict=True))
