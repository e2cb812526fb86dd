"""What an interrupted training run needs to go on: changed weights, Adam's moments, the random stream, the step."""

from collections.abc import Mapping

import torch
from torch import Tensor, nn


def capture(
    student: nn.Module, optimiser: torch.optim.Optimizer, random: torch.Generator, step: int
) -> dict[str, Tensor]:
    """Copies, so that training may go on while the snapshot is written."""
    tensors = {f"weight.{n}": p.detach().cpu().clone() for n, p in student.named_parameters() if p.requires_grad}
    for index, state in optimiser.state_dict()["state"].items():
        for name, value in state.items():
            tensors[f"optimiser.{index}.{name}"] = torch.as_tensor(value).detach().cpu().clone()
    return tensors | {"random": random.get_state(), "step": torch.tensor(step)}


def resume(
    snapshot: Mapping[str, Tensor], student: nn.Module, optimiser: torch.optim.Optimizer, random: torch.Generator
) -> int:
    """Puts a capture back and gives the step to go on from."""
    with torch.no_grad():
        for name, parameter in student.named_parameters():
            if parameter.requires_grad:
                parameter.copy_(snapshot[f"weight.{name}"])
    state: dict[int, dict[str, Tensor]] = {}
    for name, value in snapshot.items():
        kind, _, rest = name.partition(".")
        if kind == "optimiser":
            index, _, field = rest.partition(".")
            state.setdefault(int(index), {})[field] = value
    optimiser.load_state_dict(optimiser.state_dict() | {"state": state})
    random.set_state(snapshot["random"])
    return int(snapshot["step"])
