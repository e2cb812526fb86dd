import pytest
import torch

from engine.studio import Studio

torch.set_num_threads(1)  # the tests' networks are tiny: a second thread only waits


@pytest.fixture
def studio(tmp_path):
    """A studio of its own data folder, on the cpu."""
    made = Studio(tmp_path / "data", "cpu")
    yield made
    made.close()
