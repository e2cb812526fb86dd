"""Fresh weights from a seed of their own, so that no run depends on the process's random stream."""

import torch
from torch import nn


@torch.no_grad()
def draw_weights(model: nn.Module, seed: int) -> nn.Module:
    """Linear and conv layers get normal weights of variance 1 / fan-in and zero biases; one that its own class set to
    zero stays zero."""
    random = torch.Generator().manual_seed(seed)
    for layer in model.modules():
        if isinstance(layer, nn.Linear | nn.Conv2d):
            if layer.weight.any():
                draws = torch.randn(layer.weight.shape, generator=random)
                layer.weight.copy_(draws * layer.weight[0].numel() ** -0.5)
            if layer.bias is not None:
                layer.bias.zero_()
    return model
