"""Tasks & masks in a real browser: learn, forget, give back, and what is refused on the way."""

import re

import pytest

from tests.browser import go, settle

pytestmark = pytest.mark.browser
pytest.importorskip("playwright.sync_api", reason="playwright is not installed (make install-dev)")
from playwright.sync_api import expect  # noqa: E402

expect.set_options(timeout=60_000)  # a busy machine is slow, not wrong


def open_tab(page, url):
    go(page, url, "recover")
    page.get_by_role("tab", name="Tasks & masks").click()
    settle(page)


def begin(page, url, method="PackNet", batches=60):
    """A network on split digits that knows nothing yet."""
    open_tab(page, url)
    if method != "PackNet":
        page.get_by_label("Method").click()
        page.get_by_role("option", name=method, exact=True).click()
    page.get_by_label("Batches a task").fill(str(batches))
    page.get_by_role("button", name="Begin a network").click()
    expect(page.locator("#tasks article")).to_have_count(6)
    ready(page)


def card(page, task):
    return page.locator(f'#tasks article[data-task="{task}"]')


def ready(page):
    """The last step has ended: its buttons can be pressed."""
    expect(page.locator("#tasks button:disabled")).to_have_count(0)


def press(page, task, name, then):
    card(page, task).get_by_role("button", name=name, exact=True).click()
    expect(card(page, task)).to_have_attribute("data-state", then)
    ready(page)


def state_hash(page):
    return page.locator("#tasks .metric", has_text="Serving state").locator(".says").inner_text()


def test_a_task_is_learned_forgotten_and_given_back_bit_for_bit(page, server):
    begin(page, server.url)
    for task in (0, 1):
        press(page, task, "Learn", "live")
        expect(card(page, task)).to_contain_text("right on test pictures")
    before = state_hash(page)
    expect(page.locator("#plots .graph text")).to_have_text(["0", "1"])

    card(page, 0).get_by_text("Other ways to forget").click()
    card(page, 0).get_by_role("button", name="And its own weights").click()
    expect(page.get_by_role("alert")).to_contain_text("Task 1 was built on task 0: forget both")
    expect(card(page, 0)).to_have_attribute("data-state", "live")

    press(page, 1, "Forget", "forgotten")
    expect(page.locator(".heat tr.forget")).to_contain_text("forgot 1")
    assert state_hash(page) != before
    page.locator("#try-pictures label").nth(2).click()
    page.get_by_label("Which task answers?").click()
    page.get_by_role("option", name="Task 1, two or three").click()
    expect(page.get_by_role("alert")).to_contain_text("Task 1 was forgotten; restore it from")

    press(page, 1, "Restore", "live")
    expect(page.locator(".job .status")).to_contain_text("bit for bit")
    assert state_hash(page) == before
    expect(page.locator(".heat:not(.shares) tbody tr")).to_have_count(4)
    expect(page.locator("#plots .scatter .own.point")).to_have_count(1)


def test_a_vault_file_leaves_with_its_owner_and_only_the_right_one_comes_back(page, server, tmp_path):
    begin(page, server.url, "SupSup")
    press(page, 0, "Learn", "live")
    press(page, 0, "Forget", "forgotten")
    with page.expect_download() as leaving:
        card(page, 0).get_by_role("link", name="Download its file").click()
    whole = tmp_path / leaving.value.suggested_filename
    leaving.value.save_as(whole)
    cut_off = tmp_path / "cut-off.safetensors"
    cut_off.write_bytes(whole.read_bytes()[:-100])

    chooser = page.locator("input[type=file][accept*=safetensors]").last
    chooser.set_input_files(cut_off)
    expect(page.get_by_role("alert")).to_contain_text("is not a vault file, or was cut off")
    expect(card(page, 0)).to_have_attribute("data-state", "forgotten")
    chooser.set_input_files(whole)
    expect(card(page, 0)).to_have_attribute("data-state", "live")
    expect(page.locator(".job .status")).to_contain_text("bit for bit")

    page.locator("#try-pictures label").first.click()
    expect(page.locator("#answer")).to_contain_text("one pass of entropy, from 1 picture")
    expect(page.locator("#answer")).to_contain_text("With one learned task there is nothing to compare it with")
    page.get_by_label("Which task answers?").click()
    page.get_by_role("option", name="Task 0, zero or one").click()
    expect(page.locator("#answer")).to_contain_text("Answered by task 0, zero or one")


def test_a_reload_finds_the_step_and_a_discarded_one_leaves_no_trace(page, server):
    begin(page, server.url, "APD", 20_000)
    card(page, 0).get_by_role("button", name="Learn").click()
    expect(page.locator(".job[data-state=running] .curve").first).to_be_visible()
    open_tab(page, server.url)
    panel = page.locator(".job[data-state=running]")
    expect(panel).to_contain_text("Learn task 0, zero or one (APD)")
    panel.get_by_role("button", name="Stop and discard").click()
    expect(page.locator(".job .status")).to_contain_text(re.compile("Nothing was kept"))
    expect(card(page, 0)).to_have_attribute("data-state", "new")
    ready(page)
