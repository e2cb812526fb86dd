"""Comparing in a real browser: kinds of pictures, cards, and the files that leave the page."""

import pytest
from PIL import Image

from engine.core.targets import Seeds
from engine.studio import Studio
from tests.browser import Server, go, open_page, settle

pytestmark = pytest.mark.browser
pytest.importorskip("playwright.sync_api", reason="playwright is not installed (make install-dev)")
from playwright.sync_api import expect  # noqa: E402

expect.set_options(timeout=30_000)
ANN = "0" * 32


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """A server on which Ann has kept one erasure and not decided on another."""
    data = tmp_path_factory.mktemp("data")
    studio = Studio(data, "cpu", base="tiny")
    jobs = [studio.forget("tiny", Seeds((seed,)), "ascent", {"steps": 20, "lr": 1e-2}, owner=ANN) for seed in (3, 7)]
    for job in jobs:
        studio.wait(job)
    studio.keep(jobs[0], owner=ANN)
    studio.labels.set_many(ANN, "tiny", "round", {seed: seed % 2 for seed in range(6)})
    studio.close()
    made = Server(data)
    made.waiting = jobs[1]
    yield made
    made.close()


@pytest.fixture
def ann(browser, site):
    with open_page(browser, site.url) as page:
        page.context.add_cookies([{"name": "lethe", "value": ANN, "url": site.url}])
        yield page


def test_what_is_applied_is_shown_beside_the_base_with_what_changed(ann, site):
    go(ann, site.url, "compare")
    expect(ann.locator("#compare figure")).to_have_count(16)
    expect(ann.locator("#changes .metric").first).to_be_visible()
    expect(ann.locator("#changes")).to_contain_text("0 of 16 pairs are equal")
    ann.locator("#changes summary").first.click()
    expect(ann.locator("#changes")).to_contain_text("0 is the same")


def test_every_kind_of_pictures_is_compared(ann, site):
    go(ann, site.url, "compare")
    expect(ann.locator("#compare figure")).to_have_count(16)
    ann.get_by_label("Labelled samples").click()
    expect(ann.get_by_label("Labelled feature")).to_be_visible()
    settle(ann)
    ann.get_by_role("button", name="Compare", exact=True).click()
    expect(ann.locator("#compare figure")).to_have_count(6)
    expect(ann.locator("#compare figcaption").first).to_contain_text("with, seed 1")
    ann.get_by_label("The steps of a run").click()
    expect(ann.get_by_label("Model")).to_be_hidden()
    settle(ann)
    ann.get_by_role("button", name="Compare", exact=True).click()
    expect(ann.locator("#compare figure")).to_have_count(1)
    expect(ann.locator("#compare .steps output")).to_have_text("20")
    before = ann.locator("#compare img.b").get_attribute("src")
    ann.get_by_label("Training step").focus()
    ann.keyboard.press("Home")
    expect(ann.locator("#compare .steps output")).to_have_text("0")
    assert ann.locator("#compare img.b").get_attribute("src") != before
    assert ann.locator("#compare img.b").get_attribute("src") == ann.locator("#compare img.a").get_attribute("src")


def test_what_cannot_be_drawn_is_said_and_stays_said(ann, site):
    go(ann, site.url, "compare")
    expect(ann.locator("#changes .metric").first).to_be_visible()
    ann.get_by_role("textbox", name="Seeds").fill("nobody")
    ann.get_by_role("button", name="Compare", exact=True).click()
    expect(ann.locator("[role=alert]")).to_contain_text("Seeds 'nobody': write numbers and ranges")
    settle(ann)
    expect(ann.locator("[role=alert]")).to_have_count(1)


def test_a_link_opens_the_same_comparison_and_a_dead_one_says_so(ann, site):
    go(ann, site.url, f"compare?base=tiny&right=run:{site.waiting}&which=5-8")
    expect(ann.locator("#compare figure")).to_have_count(4)
    expect(ann.locator("#compare figcaption").first).to_contain_text("seed 5")
    shown = ann.locator("#compare img.b").first.get_attribute("src")
    ann.get_by_text("Link to this comparison").click()
    expect(ann.locator("#compare figure")).to_have_count(4)
    assert ann.locator("#compare img.b").first.get_attribute("src") == shown
    go(ann, site.url, "compare?base=tiny&right=20200101-ascent-gone")
    expect(ann.locator("#compare figure")).to_have_count(16)
    expect(ann.locator("#changes .metric").first).to_be_visible()
    expect(ann.locator("[role=alert]")).to_contain_text("not here any more")


def test_a_pair_is_enlarged_by_touch_and_drawn_at_full_size(browser, site):
    with open_page(browser, site.url, viewport={"width": 390, "height": 800}, has_touch=True, is_mobile=True) as page:
        go(page, site.url, "compare")
        expect(page.locator("#compare figure")).to_have_count(16)
        settle(page)
        page.get_by_role("button", name="Enlarge seed 1", exact=True).tap()
        expect(page.get_by_role("dialog", name="One pair, enlarged")).to_be_visible()
        page.get_by_role("button", name="Close").tap()
        expect(page.get_by_role("dialog", name="One pair, enlarged")).to_be_hidden()


def test_the_report_works_from_a_file_and_the_picture_opens(ann, site, browser, tmp_path):
    go(ann, site.url, "compare")
    expect(ann.locator("#compare figure")).to_have_count(16)
    for words, name in (("Save as an HTML report", "report.html"), ("Save as PNG", "sheet.png")):
        with ann.expect_download() as download:
            ann.get_by_text(words).click()
        download.value.save_as(tmp_path / name)
    assert Image.open(tmp_path / "sheet.png").height > 4 * 128
    report = (tmp_path / "report.html").as_uri()
    with open_page(browser, "file:") as page:
        page.context.set_offline(True)
        page.goto(report)
        expect(page.locator("#compare figure")).to_have_count(16)
        expect(page.locator("#words")).to_contain_text("fingerprint")
        expect(page.locator(".metric").first).to_be_visible()
        root = page.locator(".compare-grid")
        page.keyboard.press("d")
        expect(root).to_have_attribute("data-mode", "difference")
        page.keyboard.press("v")
        page.get_by_label("Reveal after").focus()
        page.keyboard.press("Home")
        assert root.evaluate("root => root.style.getPropertyValue('--reveal')") == "0"
