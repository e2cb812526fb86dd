"""Taking erasures back, releasing and deleting them, in a real browser."""

import pytest

from engine.core.targets import Seeds
from engine.studio import Studio
from tests.browser import Server, go, open_page

pytestmark = pytest.mark.browser
pytest.importorskip("playwright.sync_api", reason="playwright is not installed (make install-dev)")
from playwright.sync_api import expect  # noqa: E402

expect.set_options(timeout=60_000)


@pytest.fixture
def site(tmp_path):
    """A server with two kept erasures, the second made on top of the first."""
    studio = Studio(tmp_path, "cpu", base="tiny")
    for seed in (3, 7):
        job = studio.forget("tiny", Seeds((seed,)), "ascent", {"steps": 4}, deltas=studio.active("tiny"))
        studio.wait(job)
        studio.keep(job)
    studio.close()
    made = Server(tmp_path)
    yield made
    made.close()


def test_erasures_are_taken_back_applied_released_and_deleted_with_proof(browser, site, tmp_path):
    with open_page(browser, site.url) as page:
        go(page, site.url, "recover")
        card = page.locator("#erasures")
        badge = card.locator(".state").first
        expect(badge).to_have_text("exact")
        mark = card.locator("code").first.inner_text()
        card.get_by_role("button", name="Take it back").first.click()
        expect(badge).to_have_text("approximate")
        card.get_by_role("button", name="Take it back").click()
        expect(card).to_contain_text("the weights of the base, bit for bit")
        expect(badge).to_have_text("exact")
        for place in (0, 0):  # what is applied stands above, so the older one is the first of the rest
            card.get_by_role("button", name="Apply again").nth(place).click()
            expect(card.get_by_role("button", name="Applying …")).to_have_count(0)
        expect(card.locator("code").first).to_have_text(mark)
        card.get_by_text("Release", exact=True).click()
        expect(card).to_contain_text("The base still knows what the erasures hide")
        with page.expect_download() as download:
            card.get_by_text("Write the released file").click()
        assert download.value.suggested_filename == "tiny.safetensors"
        card.get_by_role("button", name="Delete").last.click()
        card.get_by_role("button", name="Delete for good?").click()
        expect(page.locator("#proof")).to_contain_text("nothing of it is left")
        expect(card.locator("tbody tr")).to_have_count(1)
        assert len(list((tmp_path / "deltas").iterdir())) == len(list((tmp_path / "runs").iterdir())) == 1
