"""What it means for one network to answer, or to look, like another."""

import torch.nn.functional as F
from torch import Tensor


def divergence(z: Tensor, z_teacher: Tensor, temperature: float) -> Tensor:
    """Tm^2 * KL(teacher || student) of softened answers, mean over the batch (Hinton et al., 2015)."""
    soft, wanted = (F.log_softmax(logits / temperature, 1) for logits in (z, z_teacher))
    return temperature**2 * F.kl_div(soft, wanted, reduction="batchmean", log_target=True)


def distance(z: Tensor, z_teacher: Tensor) -> Tensor:
    """Mean squared difference of answers in units of the teacher's variance. Unlike a softmax it sees the level."""
    return F.mse_loss(z, z_teacher) / z_teacher.detach().var().clamp(min=1e-6)


def attention(features: Tensor) -> Tensor:
    """Where a map is active: squares summed over channels, L2-normalised over positions. [n, h * w]"""
    energy = features.square().sum(1).flatten(1)
    return energy / (energy.norm(dim=1, keepdim=True) + 1e-6)


def attention_gap(features: Tensor, teacher: Tensor) -> Tensor:
    """L_at: squared difference of two attention maps summed over positions, mean over the batch; from 0 to 2."""
    return (attention(features) - attention(teacher)).square().sum(1).mean()
