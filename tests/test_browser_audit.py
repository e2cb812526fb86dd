"""The audit in a real browser: erase, attack, read the report, take it along, find it again."""

import json

import pytest

from tests.browser import Server, go, open_page, settle

pytestmark = pytest.mark.browser
pytest.importorskip("playwright.sync_api", reason="playwright is not installed (make install-dev)")
from playwright.sync_api import expect  # noqa: E402

expect.set_options(timeout=60_000)
LONG = 240_000  # ms, on a busy machine


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    """One of its own: nothing is erased there yet."""
    made = Server(tmp_path_factory.mktemp("data"), "--base", "tiny")
    yield made
    made.close()


def erase_and_keep(page, url):
    go(page, url, "identity")
    expect(page.locator("#people input:enabled")).to_have_count(6)
    page.locator("#people label").nth(1).click()
    erase = page.get_by_role("button", name="Erase this person")
    expect(erase).to_be_enabled()
    erase.click()
    page.get_by_role("button", name="Keep", exact=True).click(timeout=LONG)
    expect(page.locator(".status")).to_contain_text("Kept, and applied")


def choose_quick(page):
    page.get_by_role("button", name="Budget").click()
    settle(page)
    page.get_by_label("Quick").check()
    settle(page)


def test_an_erasure_is_attacked_and_the_report_can_be_taken_along(page, server):
    go(page, server.url, "audit")
    expect(page.locator(".note")).to_contain_text("There is no erasure to audit yet")
    erase_and_keep(page, server.url)
    go(page, server.url, "recover")
    page.get_by_role("link", name="Audit", exact=True).last.click()
    expect(page.locator("h1")).to_have_text("Did it really forget?")
    expect(page.locator("#audit-subject input")).to_have_value("seeds 7 · tiny, kept", timeout=LONG)
    choose_quick(page)
    page.get_by_role("button", name="Run the audit").click()
    report = page.locator("#audit-report")
    expect(report.locator(".finding")).to_have_count(9, timeout=LONG)
    expect(report.locator(".verdict .says")).to_be_visible()
    expect(report.locator("[data-attack=encoder]")).to_contain_text("no encoder was trained for this model")
    expect(report.locator("[data-attack=neighbours]")).to_contain_text("95 % interval")
    expect(report.locator("[data-attack=neighbours] .shots img")).to_have_count(2)
    expect(report.locator(".metric", has_text="Applied now")).to_contain_text("exactly the audited combination")
    assert "deleted" not in page.locator("#content").inner_text().lower()
    with page.expect_download() as download:
        report.get_by_role("link", name="JSON").click()
    found = json.loads(download.value.path().read_text())
    assert len(found["findings"]) == 9 and "--person 7" in found["command"]
    with page.expect_download() as download:
        report.get_by_role("link", name="HTML").click()
    assert "What should have stayed" in download.value.path().read_text()
    first = report.locator(".verdict .says").inner_text()
    go(page, server.url, "audit")
    expect(report.locator(".verdict .says")).to_have_text(first)
    page.set_viewport_size({"width": 390, "height": 800})
    settle(page)
    assert page.evaluate("document.documentElement.scrollWidth") <= 390


def test_somebody_else_is_asked_for_the_person_and_sees_no_report(browser, server, page):
    erase_and_keep(page, server.url)
    with open_page(browser, server.url) as stranger:
        go(stranger, server.url, "audit")
        expect(stranger.locator("#audit-seed")).to_be_visible(timeout=LONG)
        expect(stranger.locator("#audit-photo")).to_have_count(0)  # blobs have no faces
        settle(stranger)
        expect(stranger.locator("#audit-report .finding")).to_have_count(0)
        stranger.get_by_role("button", name="Run the audit").click()
        expect(stranger.locator("[role=alert]")).to_contain_text("give the person's photo")
