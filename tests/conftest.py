import pytest
import torch

from engine.studio import Studio
from tests.browser import browser, page, server  # noqa: F401 (fixtures of the browser tests)

torch.set_num_threads(1)  # the tests' networks are tiny: a second thread only waits


@pytest.fixture
def studio(tmp_path):
    """A studio of its own data folder, on the cpu."""
    made = Studio(tmp_path / "data", "cpu")
    yield made
    made.close()
