"""The tour in a real browser: once by itself, over the real pages, left at any time, again from Help."""

import pytest

from tests.browser import go, open_page, settle

pytestmark = pytest.mark.browser
pytest.importorskip("playwright.sync_api", reason="playwright is not installed (make install-dev)")
from playwright.sync_api import expect  # noqa: E402

expect.set_options(timeout=30_000)  # a busy machine is slow, not wrong

TITLES = (
    "What the generator draws",
    "Three ways in",
    "Forget a feature",
    "Forget a person",
    "Ask whether it did forget",
    "Take it back",
    "That was all",
)


@pytest.fixture
def newcomer(browser, server):
    with open_page(browser, server.url, seen_tour=False) as page:
        yield go(page, server.url)


def tour(page):
    return page.locator("dialog#tour")


def inside(outer, inner):
    """Whether one box lies in another, within a pixel."""
    right, bottom = (outer[a] + outer[b] - inner[a] - inner[b] for a, b in (("x", "width"), ("y", "height")))
    return min(inner["x"] - outer["x"], inner["y"] - outer["y"], right, bottom) >= -1


def test_it_comes_on_the_first_visit_and_not_on_the_second(newcomer, server):
    expect(tour(newcomer)).to_be_visible()
    expect(newcomer.get_by_role("dialog", name=TITLES[0])).to_contain_text("Tour, 1 of 7")
    newcomer.get_by_role("button", name="Skip the tour").click()
    expect(tour(newcomer)).to_be_hidden()
    go(newcomer, server.url)
    settle(newcomer)
    expect(tour(newcomer)).to_be_hidden()


def test_a_link_to_another_page_is_not_stood_in_the_way_of(browser, server):
    with open_page(browser, server.url, seen_tour=False) as page:
        go(page, server.url, "runs")
        settle(page)
        expect(tour(page)).to_be_hidden()


@pytest.mark.parametrize("size", [(1400, 1000), (390, 800)])
def test_every_step_shows_its_control_beside_its_words(browser, server, size):
    with open_page(browser, server.url, viewport=dict(zip(("width", "height"), size, strict=True))) as page:
        go(page, server.url, "?tour")
        window = {"x": 0, "y": 0, "width": size[0], "height": size[1]}
        for title in TITLES:
            expect(page.locator("#tour-title")).to_have_text(title)
            expect(page.locator("dialog#tour.pointing")).to_be_visible()
            settle(page)
            card, ring = (page.locator(f"#tour {part}").bounding_box() for part in (".card", ".ring"))
            assert inside(window, card), title
            assert ring["height"] > 30 and 0 <= ring["y"] + 8 < card["y"] + card["height"], (title, ring, card)
            assert not inside(card, ring), f"{title}: the card hides what it speaks of"
            assert page.evaluate("document.documentElement.scrollWidth") <= size[0]
            page.locator("#tour .next").click()
        expect(tour(page)).to_be_hidden()
        expect(page.locator("header nav [aria-current]")).to_have_text("Start")


def test_keys_are_enough_and_escape_ends_it_anywhere(newcomer, server):
    focused = "document.activeElement.textContent"
    expect(tour(newcomer)).to_be_visible()
    assert newcomer.evaluate(focused) == "Next"
    newcomer.keyboard.press("Enter")
    newcomer.keyboard.press("ArrowRight")
    expect(newcomer.locator("#tour-title")).to_have_text("Forget a feature")
    assert newcomer.evaluate(focused) == "Next"
    newcomer.keyboard.press("ArrowLeft")
    expect(newcomer.locator("#tour-title")).to_have_text("Three ways in")
    newcomer.keyboard.press("Tab")
    newcomer.keyboard.press("Tab")
    inside_it = "!document.activeElement.closest('body > :not(dialog)')"
    assert newcomer.evaluate(inside_it), "behind the tour nothing can be reached"
    newcomer.keyboard.press("Escape")
    expect(tour(newcomer)).to_be_hidden()
    go(newcomer, server.url, "feature")
    settle(newcomer)
    expect(tour(newcomer)).to_be_hidden()


def test_it_begins_again_from_help(page, server):
    go(page, server.url, "help")
    page.get_by_role("link", name="Take the two-minute tour").click()
    expect(page.locator("#tour-title")).to_have_text(TITLES[0])
    assert "tour" not in page.url, "a reload does not begin it again"


def test_who_goes_elsewhere_has_left_it(newcomer, server):
    newcomer.locator("#tour .next").click()
    go(newcomer, server.url, "runs")
    settle(newcomer)
    expect(tour(newcomer)).to_be_hidden()
    go(newcomer, server.url)
    settle(newcomer)
    expect(tour(newcomer)).to_be_hidden()
