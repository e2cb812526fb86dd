"""The whole way of erasing a feature in a real browser: name, label, preview, erase, check, keep."""

import json

import pytest

from tests.browser import go, settle

pytestmark = pytest.mark.browser
pytest.importorskip("playwright.sync_api", reason="playwright is not installed (make install-dev)")
from playwright.sync_api import expect  # noqa: E402

expect.set_options(timeout=30_000)

REDNESS = """async () => { const found = [];
    for (const image of document.querySelectorAll('#labels .cell img')) {
        image.loading = 'eager'; await image.decode();
        const canvas = Object.assign(document.createElement('canvas'), {width: 16, height: 16});
        const pen = canvas.getContext('2d'); pen.drawImage(image, 0, 0, 16, 16);
        const data = pen.getImageData(0, 0, 16, 16).data; let sum = 0;
        for (let i = 0; i < data.length; i += 4) sum += data[i] - data[i + 2];
        found.push(sum); } return found; }"""


def label_red(page, url, feature, count=44):
    """Looks at the pictures as a person would and labels `count` of them: ten by clicks, the others by keys."""
    go(page, url, "feature")
    page.locator("#feature-name").locator("input, textarea").fill(feature)
    page.get_by_role("button", name="Show samples").click()
    cells = page.locator("#labels .cell")
    expect(cells).to_have_count(120)
    redness = page.evaluate(REDNESS)
    cut = sorted(redness)[84]
    is_red = [value >= cut for value in redness]
    for index in range(10):
        cells.nth(index).click()
        if not is_red[index]:
            cells.nth(index).click()
    cells.nth(10).focus()
    for index in range(10, count):
        page.keyboard.press("y" if is_red[index] else "n")
    having = sum(is_red[:count])
    expect(page.locator("#labels .count")).to_contain_text(f"{having} with · {count - having} without")
    expect(page.locator("#labels .saved")).to_contain_text("Saved")
    return having, count - having


def test_a_feature_is_labelled_previewed_erased_checked_and_kept(page, server):
    label_red(page, server.url, "red")
    expect(page.locator("#labels .cell.guess").first).to_be_visible()  # the probe offers guesses
    page.get_by_role("button", name="Preview").click()
    expect(page.locator("#preview .histogram path")).to_have_count(3)
    expect(page.locator("#preview")).to_contain_text("of this generator's samples would change")
    expect(page.locator("#slid img")).to_have_count(6)
    before = page.locator("#slid img").first.get_attribute("src")
    page.get_by_label("Along the feature", exact=False).first.fill("-4")
    page.keyboard.press("Tab")
    expect(page.locator("#slid img").first).not_to_have_attribute("src", before)
    page.get_by_role("button", name="Settings").click()
    settle(page)
    page.get_by_label("Steps", exact=True).fill("40")
    page.get_by_role("button", name="Erase “red”").click()
    expect(page.locator("[data-state=done]")).to_be_visible(timeout=120_000)
    job = page.locator("[data-job]").first.get_attribute("data-job")
    expect(page.locator("#check figure")).to_have_count(12)
    expect(page.locator(".metric")).to_have_count(2)
    stored = json.loads((server.data / "runs" / job / "result.json").read_text())
    lpips = stored["verdict"]["unaffected"]["lpips"]
    said = f"LPIPS {lpips:.3f}" if lpips is not None else "Pixels moved by"
    expect(page.locator(".metrics")).to_contain_text(said)
    page.get_by_role("button", name="Keep", exact=True).click()
    expect(page.locator(".status")).to_contain_text("Kept")
    go(page, server.url, "recover")
    page.locator("tr", has_text="red").last.get_by_role("button", name="Delete").click()
    page.get_by_role("button", name="Delete for good?").first.click()


def test_odd_labels_are_counted_shown_and_left_again_and_the_next_batch_is_marked(page, server):
    label_red(page, server.url, "odd", 60)
    expect(page.locator("#labels .advised")).to_contain_text("of pairs")
    cells, doubt = page.locator("#labels .cell"), page.locator("#labels .doubt")
    wrong = page.locator("#labels .cell[data-l='1']").first.get_attribute("aria-label").split(",")[0]
    page.get_by_role("button", name=f"{wrong},").focus()
    page.keyboard.press("n")
    expect(page.locator("#labels .saved")).to_contain_text("Saved")
    expect(doubt).to_be_visible()
    page.get_by_role("button", name="Next batch").click()
    expect(page.get_by_text("Most of these were picked")).to_be_visible()
    expect(cells).to_have_count(120)
    expect(page.locator("#labels .cell.guess").first).to_be_visible()
    expect(doubt).to_be_visible()  # its labels are of the batch before
    number = int(doubt.inner_text().split()[0])
    doubt.click()
    expect(cells).to_have_count(number)
    expect(page.get_by_text("Are these labels of “odd” right?")).to_be_visible()
    expect(page.locator("#labels .cell:not([data-l=''])")).to_have_count(number)
    page.get_by_role("button", name="Next batch").click()
    expect(cells).to_have_count(120)
    expect(page.get_by_text("Which of these show “odd”?")).to_be_visible()


def test_labels_leave_and_return_as_a_file(page, server, tmp_path):
    having, lacking = label_red(page, server.url, "file", 24)
    with page.expect_download() as download:
        page.get_by_role("link", name="CSV").click()
    copy = tmp_path / "labels.csv"
    download.value.save_as(copy)
    assert copy.read_text().count("\n") == 2 + having + lacking
    page.get_by_role("button", name="Clear all").click()
    expect(page.locator("#labels .count")).to_contain_text("0 with · 0 without")
    expect(page.locator("#labels .saved")).to_contain_text("Saved")
    page.get_by_role("button", name="Labels from a file").click()
    settle(page)
    page.locator("input[type=file]").first.set_input_files(copy)
    expect(page.locator("#labels .count")).to_contain_text(f"{having} with · {lacking} without")
    (tmp_path / "bad.csv").write_text("not labels at all")
    page.locator("input[type=file]").first.set_input_files(tmp_path / "bad.csv")
    expect(page.get_by_role("alert")).to_contain_text("This is not a file of labels")


def test_the_blind_check_stores_every_answer(page, server):
    label_red(page, server.url, "blind")
    page.get_by_role("button", name="Settings").click()
    settle(page)
    page.get_by_label("Steps", exact=True).fill("3")
    page.get_by_role("button", name="Erase “blind”").click()
    expect(page.locator("[data-state=done]")).to_be_visible(timeout=120_000)
    page.get_by_role("button", name="Start the blind check").click()
    for number in range(3):
        expect(page.locator("#people-check")).to_contain_text(f"{number} of 100 answered")
        page.get_by_role("button", name="Neither").click()
    expect(page.locator("#people-check")).to_contain_text("3 of 100 answered")
    job = page.locator("[data-job]").first.get_attribute("data-job")
    stored = json.loads((server.data / "runs" / job / "people.json").read_text())
    assert stored["answers"] == {"0": "neither", "1": "neither", "2": "neither"}
