"""Fresh weights from a seed of their own, so that no run depends on the process's random stream."""

import torch
from torch import nn


@torch.no_grad()
def draw_weights(model: nn.Module, seed: int) -> nn.Module:
    """Normal weights of variance 1 / fan-in, zero biases. What its own class set to a constant stays as it is."""
    random = torch.Generator().manual_seed(seed)
    for parameter in model.parameters():
        if parameter.numel() > 1 and parameter.std() > 0:
            weights = torch.randn(parameter.shape, generator=random) * parameter[0].numel() ** -0.5
            parameter.copy_(weights if parameter.ndim > 1 else torch.zeros(parameter.shape))
    return model
