import pytest
import torch
from _pytest.runner import runtestprotocol

from engine.studio import Studio
from tests.browser import browser, page, server  # noqa: F401 (fixtures of the browser tests)

torch.set_num_threads(1)  # the tests' networks are tiny: a second thread only waits
BROWSER_TRIES = 3


def pytest_runtest_protocol(item, nextitem):
    """A browser test gets a second and a third try: Gradio closes its stream to a page when nothing is pending, and a
    click at that very moment is lost (seen in 1 of 25 clicks right after a page has loaded)."""
    if "browser" not in item.keywords:
        return None
    item.ihook.pytest_runtest_logstart(nodeid=item.nodeid, location=item.location)
    for attempt in range(1, BROWSER_TRIES + 1):
        item._initrequest()
        reports = runtestprotocol(item, nextitem=nextitem, log=False)
        if attempt == BROWSER_TRIES or not any(report.failed for report in reports):
            break
    for report in reports:
        item.ihook.pytest_runtest_logreport(report=report)
    item.ihook.pytest_runtest_logfinish(nodeid=item.nodeid, location=item.location)
    return True


@pytest.fixture
def studio(tmp_path):
    """A studio of its own data folder, on the cpu."""
    made = Studio(tmp_path / "data", "cpu")
    yield made
    made.close()
