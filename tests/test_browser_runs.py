"""Runs in a real browser: a run leaves as a zip, comes in again, and is set beside itself."""

import pytest

from engine.core.targets import Seeds
from engine.studio import Studio
from tests.browser import Server, go, open_page

pytestmark = pytest.mark.browser
pytest.importorskip("playwright.sync_api", reason="playwright is not installed (make install-dev)")
from playwright.sync_api import expect  # noqa: E402

expect.set_options(timeout=60_000)
ANN = "0" * 32


@pytest.fixture
def site(tmp_path):
    studio = Studio(tmp_path / "data", "cpu", base="tiny")
    studio.wait(studio.forget("tiny", Seeds((3,)), "ascent", {"steps": 4}, owner=ANN))
    studio.close()
    made = Server(tmp_path / "data")
    yield made
    made.close()


def test_a_run_is_exported_imported_and_set_beside_itself(browser, site, tmp_path):
    with open_page(browser, site.url) as page:
        page.context.add_cookies([{"name": "lethe", "value": ANN, "url": site.url}])
        go(page, site.url, "runs")
        with page.expect_download() as download:
            page.get_by_role("link", name="Export").click()
        download.value.save_as(tmp_path / "run.zip")
        (tmp_path / "no.zip").write_bytes(b"PK nothing")
        choose = page.get_by_label("Zip of a run")
        choose.set_input_files(tmp_path / "no.zip")
        page.get_by_role("button", name="Import").click()
        expect(page.locator("#import-run .said")).to_contain_text("Not imported. This is not a whole zip of a run")
        choose.set_input_files(tmp_path / "run.zip")
        page.get_by_role("button", name="Import").click()
        expect(page.locator("[data-run]")).to_have_count(2)
        page.locator("[data-run] a").first.click()
        expect(page.get_by_text("Delta's fingerprint")).to_be_visible()
        page.get_by_text("Compare with another run").click()
        page.locator("details li a").first.click()
        expect(page.locator("[data-same='1']")).to_contain_text("the same delta, bit for bit")
        page.get_by_text("Compare their pictures").click()
        expect(page.locator("#compare figure")).to_have_count(16)
        expect(page.locator("#changes")).to_contain_text("All 16 pairs are equal")
