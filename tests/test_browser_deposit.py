"""Deposit & withdraw in a real browser: choose, deposit, download, hand back, try."""

import numpy as np
import pytest
from PIL import Image

from engine.classifiers import classifiers
from engine.classifiers.stored import NetworkCard, Stored
from engine.core.events import result
from engine.datasets import datasets
from engine.methods.lirf import LIRF
from engine.recoverable import deposit
from tests.browser import go, settle

pytestmark = pytest.mark.browser
pytest.importorskip("playwright.sync_api", reason="playwright is not installed (make install-dev)")
from playwright.sync_api import expect  # noqa: E402

expect.set_options(timeout=30_000)


def open_tab(page, url):
    go(page, url, "recover")
    page.get_by_role("tab", name="Deposit & withdraw").click()
    settle(page)


def choose_digits(page, *names):
    page.get_by_label("Handwritten digits").check()
    expect(page.locator("#deposit-classes input:enabled")).to_have_count(10)
    expect(page.locator("#deposit-classes label").first).to_contain_text("zero")
    for name in names:
        page.locator("#deposit-classes label", has_text=name).click()


def hand_back(page, file):
    clear = page.locator("#deposit-handed").get_by_label("Clear")
    if clear.count():
        clear.click()
    page.locator("#deposit-handed input[type=file]").set_input_files(file)
    expect(page.locator("#deposit-handed")).to_contain_text(file.name[:8])
    settle(page)
    page.get_by_role("button", name="Hand it back").click()


def test_classes_leave_as_a_file_and_come_back_with_it(page, server, tmp_path):
    open_tab(page, server.url)
    expect(page.get_by_role("button", name="Deposit", exact=True)).to_be_disabled()
    choose_digits(page, "zero", "two")
    page.get_by_role("button", name="Deposit zero, two").click()
    expect(page.locator(".job .curve", has_text="target right")).to_be_visible(timeout=120_000)
    outcome = page.locator("#deposit-outcome")
    expect(outcome.locator("h2")).to_have_text("Without zero, two", timeout=120_000)
    expect(outcome.locator(".metric", has_text="zero, two")).to_contain_text("Forgotten")
    expect(outcome.locator(".bars li")).to_have_count(10)
    expect(outcome.locator(".bars li").first.locator("rect")).to_have_count(2)
    expect(outcome.locator(".matrix")).to_have_count(2)
    expect(outcome.locator(".triptych svg")).to_have_count(2)

    with page.expect_download() as download:
        page.get_by_text("Download the deposit").click()
    mine = tmp_path / download.value.suggested_filename
    download.value.save_as(mine)
    assert mine.name == "zero-two.deposit.safetensors"
    hand_back(page, mine)
    expect(page.locator("#deposit-file .done")).to_contain_text("Back: zero, two.")
    expect(outcome.locator(".metric", has_text="With the file")).to_contain_text("Back")
    expect(outcome.locator(".bars li").first.locator("rect")).to_have_count(3)
    expect(outcome.locator(".triptych svg")).to_have_count(3)

    page.locator("#deposit-try label", has_text="zero").click()
    answers = page.locator("#deposit-answers .answer")
    expect(answers).to_have_count(3)
    expect(answers.nth(0).locator(".says")).to_have_text("zero")
    expect(answers.nth(1).locator(".says")).not_to_have_text("zero")
    expect(answers.nth(2).locator(".says")).to_have_text("zero")
    picture = tmp_path / "own.png"
    Image.fromarray(np.full((40, 30, 3), 90, np.uint8)).save(picture)
    page.locator("#deposit-own input[type=file]").set_input_files(picture)
    expect(page.get_by_alt_text("Your picture")).to_be_visible()
    expect(answers.nth(0).locator(".says")).to_be_visible()
    picture.write_bytes(picture.read_bytes()[:60])
    page.locator("#deposit-own input[type=file]").set_input_files(picture)
    expect(page.locator("#deposit-refusal")).to_contain_text("This is not an image we can read")
    expect(answers).to_have_count(0)

    page.set_viewport_size({"width": 390, "height": 800})
    settle(page)
    assert page.evaluate("document.documentElement.scrollWidth") <= 390


@pytest.fixture(scope="module")
def strange_files(tmp_path_factory):
    """Not a deposit, a cut-off one, and one of another network."""
    folder, digits = tmp_path_factory.mktemp("files"), datasets["digits"].load()
    other = Stored(classifiers["tiny"](digits.classes, 1, seed=9).eval(), NetworkCard("digits"))
    made = result(deposit(other, digits.train.of((0, 2)), LIRF(steps=2, dreams=0)))
    made.deposit.save(folder / "another.safetensors")
    (folder / "damaged.safetensors").write_bytes((folder / "another.safetensors").read_bytes()[:-9])
    (folder / "notes.txt").write_text("my notes")
    return folder


def test_a_strange_file_is_refused_and_the_deposit_is_there_after_a_reload(page, server, strange_files):
    open_tab(page, server.url)
    choose_digits(page, "five")
    page.get_by_role("button", name="Deposit five").click()
    expect(page.locator("#deposit-outcome h2")).to_have_text("Without five", timeout=120_000)
    open_tab(page, server.url)
    expect(page.locator("#deposit-outcome h2")).to_have_text("Without five")
    refusal = page.locator("#deposit-refusal .trouble")
    hand_back(page, strange_files / "notes.txt")
    expect(refusal).to_contain_text("Notes.txt is not a deposit of this studio")
    hand_back(page, strange_files / "damaged.safetensors")
    expect(refusal).to_contain_text("Damaged.safetensors is not a deposit of this studio, or was damaged")
    hand_back(page, strange_files / "another.safetensors")
    expect(refusal).to_contain_text("belongs to another network")
    expect(page.locator("#deposit-outcome .triptych svg")).to_have_count(2)
    remove = page.get_by_role("button", name="Remove it here")
    remove.click()
    page.get_by_role("button", name="Do you have your copy?").click()
    expect(page.locator("#deposit-file")).to_contain_text("not on this machine any more")
