"""Recorded outputs of the published networks: a part in tests/data, all of them in the fixtures beside the project."""

from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor, nn

DATA = Path(__file__).parent / "data"
SHARED = Path(__file__).resolve().parents[2] / "shared/fixtures"
IMAGE, CODE = 5e-5, 1e-6  # largest allowed deviations; a correct implementation is within 1e-5 and 0


def arrays(name: str, *, whole: bool = False) -> dict[str, Tensor]:
    """The arrays of NAME.npz; `whole`: of the full file, which only lies beside the project."""
    folders = (SHARED,) if whole else (DATA, SHARED)
    path = next((folder / f"{name}.npz" for folder in folders if (folder / f"{name}.npz").exists()), None)
    if path is None:
        pytest.skip(f"{name}.npz is not there; it belongs in shared/fixtures beside the project")
    with np.load(path, allow_pickle=False) as file:
        return {key: torch.from_numpy(file[key]) for key in file.files}


def keys(name: str) -> dict[str, tuple[int, ...]]:
    """The published names and shapes."""
    lines = (DATA / "keys" / f"{name}_keys.txt").read_text().splitlines()
    rows = (line.partition(" ") for line in lines if line.strip())
    return {key: tuple(int(side) for side in shape.strip("()").split(",") if side.strip()) for key, _, shape in rows}


def shapes(model: nn.Module) -> dict[str, tuple[int, ...]]:
    return {key: tuple(value.shape) for key, value in model.state_dict().items()}


def deviation(found: Tensor, expected: Tensor) -> float:
    assert found.shape == expected.shape
    return (found.detach() - expected).abs().max().item()


def is_close_gradient(found: Tensor, expected: Tensor) -> bool:
    return torch.allclose(found, expected, rtol=1e-4, atol=1e-4 * expected.abs().max().item())
