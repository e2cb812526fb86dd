"""Our own components in a real browser, on a page made for the test."""

import threading
import time

import gradio as gr
import pytest

from tests.browser import open_page
from webui.choice import PictureChoice
from webui.compare import CompareGrid, pairs
from webui.events import bind, said
from webui.grid import LabelGrid
from webui.pictures import data_uri
from webui.theme import head, theme
from webui.view import View, h

pytestmark = pytest.mark.browser
pytest.importorskip("playwright.sync_api", reason="playwright is not installed (make install-dev)")
from playwright.sync_api import expect  # noqa: E402

expect.set_options(timeout=30_000)
NASTY = "<img src=x onerror=window.hacked=1>${window.hacked=1}{{value}}"


def square(shade):
    import numpy as np

    return data_uri(np.full((16, 16, 3), shade, np.uint8))


class Stage:
    """Ten samples to label, two pairs to compare, three pictures to choose from, and levers for the test."""

    def __init__(self):
        self.saved, self.failures, self.seen = [], 0, []
        self.release = threading.Event()
        items = [{"id": str(n), "src": square(20 * n)} for n in range(10)]
        with gr.Blocks(analytics_enabled=False) as self.demo:
            late, nudge, breaks = gr.Button("late"), gr.Button("guesses"), gr.Button("breaks")
            trouble = View()
            self.grid = LabelGrid(self.save, elem_id="labels")
            self.compare = CompareGrid(elem_id="compare")
            self.choice = PictureChoice("Who?", elem_id="choice")
            self.words = View(h("p", NASTY, cls="words", title=NASTY), events=("poke",), elem_id="words")
            bind(late.click, self.late, None, self.grid)
            bind(
                nudge.click,
                lambda: gr.update(advice={"guesses": {item["id"]: int(item["id"]) % 2 for item in items}}),
                None,
                self.grid,
            )
            bind(breaks.click, said(trouble)(self.breaks), None, [trouble])
            bind(self.grid.next, lambda: gr.update(items=[{"id": "99", "src": square(0)}], value={}), None, self.grid)
            bind(self.choice.change, self.seen.append, self.choice)
            bind(self.words.poke, self.poked, None, None)
            bind(self.demo.load, lambda: self.fill(items), None, [self.grid, self.compare, self.choice, self.words])

    def fill(self, items):
        people = [{"id": str(n), "src": square(80 * n), "label": NASTY} for n in range(3)]
        faces = pairs([square(10), square(10)], [square(20), square(200)], [NASTY, "much"])
        poke = h("button", "Poke", on="poke", data_job="7", confirm="Sure?")
        foul = h("a", "link", href="javascript:window.hacked=1", onclick="window.hacked=1", style="color:red")
        script = ["script", {}, "window.hacked=1"]
        return {
            self.grid: gr.update(items=items, context={"base": "tiny", "feature": NASTY}),
            self.compare: gr.update(value=faces),
            self.choice: gr.update(items=people),
            self.words: [h("p", NASTY, cls="words", title=NASTY), foul, script, poke],
        }

    def save(self, data, request):
        if self.failures:
            self.failures -= 1
            raise OSError("/secret/disk")
        self.saved.append(data)
        return {"at": "12:03"}

    def late(self):
        self.release.wait(20)
        return gr.update(value={"1": 0, "2": 1})

    def poked(self, event: gr.EventData):
        self.seen.append(event.job)

    def breaks(self):
        raise RuntimeError("/secret/path")


@pytest.fixture(scope="module")
def stage():
    made = Stage()
    _, url, _ = made.demo.launch(
        prevent_thread_lock=True, quiet=True, ssr_mode=False, server_name="127.0.0.1", theme=theme(), head=head()
    )
    made.url = url.rstrip("/")
    yield made
    made.demo.close()


@pytest.fixture
def opened(browser, stage):
    stage.saved.clear()
    stage.seen.clear()
    stage.release.clear()
    with open_page(browser, stage.url) as page:
        page.goto(stage.url)
        expect(page.locator("#labels .cell")).to_have_count(10)
        stage.failures, stage.opened = 0, page.context
        yield page


def until(page, holds):
    """What the server has seen is not on the page, so it is asked again and again."""
    deadline = time.monotonic() + 20
    while not holds():
        assert time.monotonic() < deadline, "it never came"
        page.wait_for_timeout(50)


def cell(page, number):
    return page.locator("#labels .cell").nth(number)


def test_a_late_restore_never_undoes_what_the_user_did(opened, stage):
    opened.get_by_role("button", name="late").click()
    cell(opened, 1).click()
    stage.release.set()
    expect(cell(opened, 2)).to_have_attribute("data-l", "1")
    expect(cell(opened, 1)).to_have_attribute("data-l", "1")
    expect(opened.locator("#labels .count")).to_have_text("2 with · 0 without · 8 left")


def test_a_failed_save_stays_red_until_it_succeeds_and_tells_no_path(opened, stage):
    stage.failures = 2
    cell(opened, 0).click()
    saved = opened.locator("#labels .saved")
    expect(saved).to_have_attribute("data-tone", "failed")
    expect(saved).to_contain_text("Not saved")
    assert "secret" not in saved.inner_text()
    expect(saved).to_have_text("Saved 12:03")
    assert stage.saved[-1]["changes"] == [{"id": "0", "value": 1, "page": None}]


def test_labels_that_were_not_saved_survive_a_reload(opened, stage):
    stage.failures = 1000
    cell(opened, 3).click()
    expect(opened.locator("#labels .saved")).to_have_attribute("data-tone", "failed")
    opened.on("dialog", lambda dialog: dialog.accept())
    opened.reload()
    expect(cell(opened, 3)).to_have_attribute("data-l", "1")
    stage.failures = 0
    expect(opened.locator("#labels .saved")).to_have_text("Saved 12:03")
    assert stage.saved[-1]["changes"][0] | {"page": None} == {"id": "3", "value": 1, "page": None}


def test_two_tabs_label_and_neither_loses_what_the_other_could_not_save(opened, stage):
    stage.failures = 1000
    saved = "#labels .saved"
    cell(opened, 3).click()
    expect(opened.locator(saved)).to_have_attribute("data-tone", "failed")
    other = opened.context.new_page()
    other.route("**/component_server/**", lambda route: route.abort())  # it adopts what it finds, and cannot send it
    other.goto(stage.url)
    cell(other, 6).click()
    expect(other.locator(saved)).to_have_attribute("data-tone", "failed")
    cell(opened, 4).click()
    stage.failures = 0
    expect(opened.locator(saved)).to_have_text("Saved 12:03")
    stage.failures = 1000
    cell(opened, 5).click()
    expect(opened.locator(saved)).to_have_attribute("data-tone", "failed")
    for page in (opened, other):  # both tabs die, one after another
        page.close(run_before_unload=False)
    stage.failures, third = 0, stage.opened.new_page()
    third.goto(stage.url)
    expect(third.locator(saved)).to_have_text("Saved 12:03")
    kept = {change["id"]: change["value"] for data in stage.saved for change in data["changes"]}
    assert kept == {"3": 1, "4": 1, "5": 1, "6": 1}
    assert third.evaluate("Object.keys(localStorage).filter((name) => name.startsWith('lethe-outbox'))") == []


def test_a_save_that_is_never_answered_is_not_saved_yet_and_is_tried_again(opened, stage):
    held = []
    opened.route("**/component_server/**", lambda route: route.continue_() if held else held.append(route))
    cell(opened, 2).click()
    saved = opened.locator("#labels .saved")
    expect(saved).to_contain_text("Not saved yet")
    expect(saved).to_have_text("Saved 12:03")
    assert [change["id"] for data in stage.saved for change in data["changes"]] == ["2"]
    held[0].abort()


def test_a_label_changed_while_it_is_being_saved_is_saved_again(opened, stage):
    for _ in range(3):
        cell(opened, 5).click()
        opened.wait_for_timeout(260)
    expect(opened.locator("#labels .saved")).to_have_text("Saved 12:03")
    assert stage.saved[-1]["changes"][-1]["value"] is None


def test_guesses_are_dotted_until_enter_confirms_them(opened, stage):
    cell(opened, 0).click()
    opened.get_by_role("button", name="guesses").click()
    expect(opened.locator("#labels .cell.guess")).to_have_count(9)
    expect(cell(opened, 0)).to_have_attribute("data-l", "1")
    cell(opened, 1).focus()
    opened.keyboard.press("Enter")
    expect(opened.locator("#labels .cell.guess")).to_have_count(0)
    expect(opened.locator("#labels .count")).to_have_text("6 with · 4 without · 0 left")
    until(opened, lambda: sum(change.get("how") == "guess" for data in stage.saved for change in data["changes"]) == 9)
    opened.get_by_role("button", name="Clear all").click()
    opened.get_by_role("button", name="Undo").click()
    expect(opened.locator("#labels .count")).to_have_text("6 with · 4 without · 0 left")
    as_before = {"0": None} | dict.fromkeys("123456789", "guess")  # taken back, a guess is still one
    until(opened, lambda: {c["id"]: c.get("how") for c in stage.saved[-1]["changes"]} == as_before)
    opened.get_by_role("button", name="Undo").click()
    expect(opened.locator("#labels .count")).to_have_text("1 with · 0 without · 9 left")


def test_space_enlarges_while_held_and_labels_nothing(opened):
    cell(opened, 2).focus()
    opened.keyboard.down(" ")
    expect(opened.locator("#labels .zoom")).to_be_visible()
    opened.keyboard.up(" ")
    expect(opened.locator("#labels .zoom")).to_be_hidden()
    expect(cell(opened, 2)).to_have_attribute("data-l", "")


def test_the_next_batch_replaces_the_samples_and_keeps_the_save_of_the_last(opened, stage):
    cell(opened, 4).click()
    opened.keyboard.press("b")
    expect(opened.locator("#labels .cell")).to_have_count(1)
    expect(opened.locator("#labels .count")).to_have_text("0 with · 0 without · 1 left")
    until(opened, lambda: stage.saved)
    assert stage.saved[0]["changes"][0]["id"] == "4"


def test_no_text_of_a_user_becomes_markup_script_or_style(opened, stage):
    expect(opened.locator("#words .words")).to_have_text(NASTY)
    expect(opened.locator("#choice span").first).to_have_text(NASTY)
    expect(opened.locator("#compare figcaption span").nth(1)).to_have_text(NASTY)
    link = opened.get_by_text("link", exact=True)
    link.click()
    assert link.get_attribute("href") is None and link.get_attribute("onclick") is None
    assert opened.locator("#words script").count() == 0 and link.get_attribute("style") is None
    cell(opened, 0).click()
    expect(opened.locator("#labels .saved")).to_have_text("Saved 12:03")
    assert stage.saved[-1]["context"]["feature"] == NASTY
    assert opened.evaluate("window.hacked") is None


def test_a_button_that_asks_fires_only_on_the_second_click(opened, stage):
    opened.get_by_role("button", name="Poke").click()
    sure = opened.get_by_role("button", name="Sure?")
    expect(sure).to_be_visible()
    assert stage.seen == []
    sure.click()
    until(opened, lambda: stage.seen)
    assert stage.seen == ["7"]


def test_pictures_are_chosen_by_mouse_and_arrow_keys(opened, stage):
    opened.locator("#choice label").nth(1).click()
    opened.keyboard.press("ArrowRight")
    expect(opened.locator("#choice input").nth(2)).to_be_checked()
    until(opened, lambda: stage.seen[-1:] == ["2"])


def test_most_changed_first_puts_the_larger_difference_in_front(opened):
    captions = opened.locator("#compare figcaption span:nth-child(2)")
    expect(captions.first).to_have_text(NASTY)
    opened.get_by_role("button", name="Most changed first").click()
    expect(captions.first).to_have_text("much")
    opened.get_by_role("button", name="Most changed first").click()
    expect(captions.first).to_have_text(NASTY)


def test_pairs_with_long_captions_stay_side_by_side_on_a_phone(opened):
    opened.set_viewport_size({"width": 390, "height": 800})
    boxes = [opened.locator("#compare figure").nth(k).bounding_box() for k in range(2)]
    assert boxes[0]["width"] == boxes[1]["width"] and boxes[1]["x"] + boxes[1]["width"] <= 390


def test_an_unexpected_error_shows_a_sentence_and_no_path(opened):
    opened.get_by_role("button", name="breaks").click()
    expect(opened.locator("[role=alert]")).to_contain_text("Something went wrong that should not have")
    assert "secret" not in opened.content()
