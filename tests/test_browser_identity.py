"""The identity page with a generator of faces: from a photo file to a kept erasure, in a real browser."""

import base64

import numpy as np
import pytest
from gradio_client import Client
from gradio_client.exceptions import AppError
from PIL import Image

from engine import assets
from engine.core.joblog import JobLog
from engine.generators import bases
from engine.models import pictures
from engine.store import Store
from tests.browser import Server, go, open_page, settle

pytestmark = [pytest.mark.browser, pytest.mark.assets, pytest.mark.slow]
pytest.importorskip("playwright.sync_api", reason="playwright is not installed (make install-dev)")
from playwright.sync_api import expect  # noqa: E402

NEEDS = ("ffhq", "recogniser-a", "recogniser-b", "lpips-alex", "efficientnet-lite0")
if not all(assets.is_present(name) for name in NEEDS):
    pytest.skip("the face networks are not fetched: run 'python app.py assets fetch'", allow_module_level=True)

A_WHILE = 400_000  # ms; finding a face takes ten seconds on two idle cores
expect.set_options(timeout=60_000)


@pytest.fixture(scope="module")
def faces(tmp_path_factory):
    """Photo files of people who do not exist: one person, two people, nobody."""
    folder, base = tmp_path_factory.mktemp("photos"), bases["ffhq"].load().requires_grad_(False)
    first, second = pictures(base, base.map(base.sample_z([501, 502]), psi=0.8), size=256)
    made = {
        "one": np.pad(first, ((30, 40), (60, 30), (0, 0)), "edge"),
        "two": np.concatenate([first, second], 1),
        "none": np.full((256, 256, 3), 190, np.uint8),
    }
    for name, pixels in made.items():
        Image.fromarray(pixels).save(folder / f"{name}.jpg", quality=92)
    return folder


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    made = Server(tmp_path_factory.mktemp("data"), "--base", "ffhq")
    yield made
    made.close()


def arrive(page, site):
    go(page, site.url, "identity")
    expect(page.locator("#people input:enabled")).to_have_count(6, timeout=A_WHILE)


def erase_quickly(page):
    page.get_by_role("button", name="Settings").click()
    settle(page)
    page.get_by_label("Quick").check()
    settle(page)
    page.get_by_role("button", name="Erase this person").click()
    expect(page.locator("[data-state=done]")).to_be_visible(timeout=A_WHILE)


def test_a_photo_without_a_face_is_refused_in_words_and_of_two_faces_one_is_picked(browser, site, faces):
    with open_page(browser, site.url) as page:
        arrive(page, site)
        page.locator("#photo input").set_input_files(faces / "none.jpg")
        expect(page.locator("[role=alert]")).to_contain_text("No face found", timeout=A_WHILE)
        expect(page.get_by_role("button", name="Erase this person")).to_be_disabled()
        page.locator("#photo input").set_input_files(faces / "two.jpg")
        expect(page.locator("#portrait rect")).to_have_count(2, timeout=A_WHILE)
        expect(page.locator("#portrait")).to_contain_text("2 faces: which one?")
        expect(page.locator("#faces label")).to_have_count(2)
        expect(page.locator("[role=alert]")).to_have_count(0)


def test_a_photo_is_erased_checked_and_kept_and_the_numbers_are_the_engines(browser, site, faces):
    with open_page(browser, site.url) as page:
        arrive(page, site)
        page.locator("#photo input").set_input_files(faces / "one.jpg")
        expect(page.locator("#portrait rect.chosen")).to_have_count(1, timeout=A_WHILE)
        expect(page.locator("#portrait")).to_contain_text("As the generator knows them", timeout=A_WHILE)
        expect(page.locator("#strip .row-of-faces img")).to_have_count(6)
        before = page.locator("#strip .new img").get_attribute("src")
        page.get_by_label("The average face").check()
        expect(page.locator("#strip .new img")).not_to_have_attribute("src", before, timeout=A_WHILE)
        page.get_by_label("The opposite face").check()
        expect(page.locator("#strip .new img")).to_have_attribute("src", before, timeout=A_WHILE)
        erase_quickly(page)
        expect(page.locator("#verdict .metric")).to_have_count(3)
        row = JobLog(Store(site.data).database).rows()[0]
        verdict = row.result["verdict"]
        cards = page.locator("#verdict .metric")
        expect(cards.nth(0)).to_contain_text(f"{verdict['person'][0]:.2f}")
        expect(cards.nth(1)).to_contain_text("Not measured")
        expect(cards.nth(2)).to_contain_text(f"{verdict['everyone'][0]:.2f}")
        assert row.params["target"] == {"kind": "Photo", "words": "a person"} and row.params["knobs"]["checked"] == 40
        assert verdict["is_stranger"] and verdict["everyone"][0] > 0.9 and verdict["drift"][0] < 0.05
        expect(cards.nth(0)).to_contain_text("Now a stranger")
        page.get_by_role("button", name="Keep", exact=True).click()
        expect(page.locator(".status")).to_contain_text("Kept, and applied")
    photo = (faces / "one.jpg").read_bytes()
    for path in site.data.rglob("*"):
        assert not path.is_file() or photo[2000:2200] not in path.read_bytes(), path


def test_two_people_are_erased_in_one_run_and_the_page_tells_who_is_forgotten_after_each(browser, site):
    Store(site.data).activate("ffhq", [])  # what an earlier test has kept would weigh on both people
    with open_page(browser, site.url) as page:
        arrive(page, site)
        for number in (1, 2):
            page.locator("#people label").nth(number).click()
            expect(page.locator("#strip .row-of-faces img")).to_have_count(6, timeout=A_WHILE)
            if number == 1:
                page.get_by_role("button", name="Add another person").click()
                expect(page.locator("#also label")).to_have_count(1, timeout=A_WHILE)
        page.get_by_label("One after another").check()
        erase_quickly(page)
        people = JobLog(Store(site.data).database).rows()[0].result["verdict"]["people"]
        cells = page.locator("#verdict .matrix td")
        expect(cells).to_have_text([f"{value:.2f}" for row in people["matrix"] for value in row])
        assert people["matrix"][0][1] > 0.9 > 0.2 > max(people["matrix"][1])
        page.get_by_role("button", name="Keep", exact=True).click()
        expect(page.locator(".status")).to_contain_text("Kept, and applied")


def test_a_script_erases_the_second_face_of_a_photo_that_it_sends(site, faces):
    client = Client(site.url, verbose=False)
    photo = base64.b64encode((faces / "two.jpg").read_bytes()).decode()
    settings = {"checked": 8}
    run = client.predict(photo=photo, face=2, words="Bob", settings=settings, api_name="/erase_person")
    ended = client.predict(run=run, api_name="/wait")
    assert ended["state"] == "done" and ended["result"]["verdict"]["is_stranger"], ended
    (name,) = client.predict(run=run, api_name="/keep")
    assert {"name": name, "request": "Bob"}.items() <= client.predict(api_name="/erasures")[0].items()
    with pytest.raises(AppError, match="Face 3: this photo shows 2"):
        client.predict(photo=photo, face=3, api_name="/erase_person")
