"""The page in a real browser, against the real server."""

import re

import pytest

from tests.browser import Server, go, open_page, settle
from webui.pages import pages

pytestmark = pytest.mark.browser
pytest.importorskip("playwright.sync_api", reason="playwright is not installed (make install-dev)")
from playwright.sync_api import expect  # noqa: E402

expect.set_options(timeout=30_000)  # a busy machine is slow, not wrong

PATHS = [page.path for page in sorted(pages.values(), key=lambda page: page.order)]
NASTY = "<img src=x onerror=window.hacked=1>${window.hacked=1}"


def show_samples(page, url, feature):
    go(page, url, "feature")
    page.locator("#feature-name").locator("input, textarea").fill(feature)
    page.get_by_role("button", name="Show samples").click()
    expect(page.locator("#labels .cell")).to_have_count(120)
    return page.locator("#labels .cell")


def begin(page, url, steps=2000):
    """Starts an erasure that takes some seconds."""
    go(page, url, "identity")
    expect(page.locator("#people input:enabled")).to_have_count(6)
    page.locator("#people label").nth(1).click()
    page.get_by_role("button", name="Settings").click()
    settle(page)  # Gradio makes the folded fields only now, and what is typed before it is done is lost
    page.get_by_label("Steps").fill(str(steps))
    erase = page.get_by_role("button", name="Erase this person")
    expect(erase).to_be_enabled()
    erase.click()
    # An earlier test's run may still be going: this one then waits for its turn.
    expect(page.locator("[data-state=running], [data-state=done]")).to_be_visible(timeout=120_000)
    return page.locator("[data-job]").first.get_attribute("data-job")


# Every page


def test_every_page_opens_with_its_name_and_its_place_in_the_bar(page, server):
    for path in PATHS:
        go(page, server.url, path)
        title = next(entry.title for entry in pages.values() if entry.path == path)
        expect(page.locator("header nav [aria-current]")).to_have_text(title)
        expect(page).to_have_title("Lethe" if path == "" else f"{title} · Lethe")
        expect(page.get_by_text("Nothing leaves this machine.")).to_be_visible()
        assert page.locator("h1").count() == 1


COUNT_FRAMES = """window.asked = 0;
    const real = window.requestAnimationFrame.bind(window);
    window.requestAnimationFrame = (callback) => { window.asked += 1; return real(callback); };"""


def frames_in_a_second(page):
    before = page.evaluate("window.asked")
    page.wait_for_timeout(1000)
    return page.evaluate("window.asked") - before


def test_an_open_page_that_nobody_touches_asks_for_hardly_any_frames(page, server):
    page.add_init_script(COUNT_FRAMES)
    go(page, server.url, "compare")
    found = [frames_in_a_second(page) for _ in range(12)]  # what Gradio draws at the start plays out for some seconds
    assert min(found) < 10, f"in each second: {found}"


def test_a_page_that_waits_for_the_server_asks_for_hardly_any_frames(page, server):
    page.add_init_script(COUNT_FRAMES)
    go(page, server.url, "feature")
    assert any(frames_in_a_second(page) < 10 for _ in range(12))
    held = []

    def hold(route):
        held.append(route)

    page.route("**/queue/join*", hold)
    page.locator("#feature-name").locator("input, textarea").fill("patience")
    page.get_by_role("button", name="Show samples").click()
    found = [frames_in_a_second(page) for _ in range(3)]
    assert held and min(found) < 10, f"in each second: {found}"
    for route in held:
        route.continue_()
    page.unroute("**/queue/join*")
    expect(page.locator("#labels .cell")).to_have_count(120)


def test_a_page_that_watches_a_run_is_laid_out_only_when_there_is_news(page, server):
    begin(page, server.url, steps=20_000)
    expect(page.locator(".job .status")).to_contain_text("of 20000")
    browser = page.context.new_cdp_session(page)
    browser.send("Performance.enable")

    def layouts():
        return next(m["value"] for m in browser.send("Performance.getMetrics")["metrics"] if m["name"] == "LayoutCount")

    def layouts_in_a_second():
        before = layouts()
        page.wait_for_timeout(1000)
        return layouts() - before

    found = [layouts_in_a_second() for _ in range(3)]
    expect(page.locator("[data-state=running]")).to_be_visible()
    page.get_by_role("button", name="Stop and discard").click()
    assert min(found) < 12, f"in each second: {found}"


def test_the_start_page_shows_what_the_generator_draws_now(page, server):
    go(page, server.url)
    expect(page.locator(".hero img")).to_have_count(8)
    expect(page.locator(".machine")).to_contain_text("cores")
    assert page.locator(".hero img").first.get_attribute("src").startswith("data:image/webp")
    expect(page.locator("a.card")).to_have_count(3)


def test_the_browser_may_ask_no_other_host(browser, server):
    with open_page(browser, server.url, strict=False) as page:
        go(page, server.url)
        refused = "() => fetch('https://example.com').then(() => 'went out', (e) => String(e))"
        assert "Failed to fetch" in page.evaluate(refused)
        picture = """() => new Promise((done) => { const image = new Image();
            image.onload = () => done('went out'); image.onerror = () => done('refused');
            image.src = 'https://example.com/x.png'; })"""
        assert page.evaluate(picture) == "refused"


@pytest.mark.parametrize("path", PATHS)
def test_a_page_fits_a_phone_and_has_a_dark_side(browser, server, path):
    with open_page(browser, server.url, viewport={"width": 390, "height": 800}, has_touch=True) as page:
        go(page, server.url, f"{path}?__theme=dark")
        expect(page.locator("body")).to_have_class(re.compile("dark"))
        settle(page)
        assert page.evaluate("document.documentElement.scrollWidth") <= 390
        assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(13, 19, 23)"


def test_a_phone_shows_every_way_to_recover(browser, server):
    with open_page(browser, server.url, viewport={"width": 390, "height": 844}) as page:
        go(page, server.url, "recover")
        expect(page.get_by_role("tab").filter(visible=True)).to_have_text(
            ["Erasures", "Deposit & withdraw", "Tasks & masks"]
        )


def test_the_theme_can_be_turned_and_stays(page, server):
    go(page, server.url)
    dark = page.locator("body").evaluate("body => body.classList.contains('dark')")
    page.get_by_role("button", name="Light or dark").click()
    go(page, server.url, "help")
    assert page.locator("body").evaluate("body => body.classList.contains('dark')") is not dark


def test_the_question_mark_lists_the_keys(page, server):
    go(page, server.url, "help")
    page.keyboard.press("?")
    expect(page.get_by_role("dialog", name="Keys")).to_be_visible()
    page.keyboard.press("Escape")
    expect(page.get_by_role("dialog", name="Keys")).to_be_hidden()


# Labelling


def test_a_click_goes_from_with_to_without_to_neither(page, server):
    cells = show_samples(page, server.url, "cycle")
    for state in ("1", "0", ""):
        cells.first.click()
        expect(cells.first).to_have_attribute("data-l", state)
    assert cells.first.get_attribute("aria-label") == "Sample 1, not labelled"


def test_a_label_costs_one_request_until_there_are_enough(page, server):
    cells = show_samples(page, server.url, "cheap")
    told = page.locator("#labels .told")
    expect(told).to_have_text("0 with and 0 without in all. Label 10 more with and 10 more without.")
    cells.first.click()
    expect(page.get_by_text("Labels as a file")).to_be_visible()  # this one changed the page
    settle(page)
    asked = []
    page.on("request", lambda request: asked.append(request.url) if request.method == "POST" else None)
    cells.nth(1).click()
    expect(told).to_have_text("2 with and 0 without in all. Label 8 more with and 10 more without.")
    page.wait_for_timeout(1000)
    assert len(asked) == 1 and "component_server" in asked[0], asked


def test_keys_label_and_undo_takes_one_back(page, server):
    show_samples(page, server.url, "keys")
    page.locator("h1").click()
    page.keyboard.press("g")
    for key in "yyn":
        page.keyboard.press(key)
    count = page.locator("#labels .count")
    expect(count).to_have_text("2 with · 1 without · 117 left")
    page.keyboard.press("Control+z")
    expect(count).to_have_text("2 with · 0 without · 118 left")
    page.keyboard.press("Backspace")
    expect(count).to_have_text("1 with · 0 without · 119 left")


def test_twenty_quick_clicks_are_all_kept_and_survive_a_reload(page, server):
    cells = show_samples(page, server.url, "quick")
    for index in range(20):
        box = cells.nth(index).bounding_box()
        page.mouse.click(box["x"] + 20, box["y"] + 20)
        page.wait_for_timeout(40)
    expect(page.locator("#labels .count")).to_have_text("20 with · 0 without · 100 left")
    expect(page.locator("#labels .saved")).to_contain_text("Saved")
    page.reload()
    expect(page.locator("#labels .cell[data-l='1']")).to_have_count(20)


def test_a_range_is_labelled_by_shift_click_and_taken_back_at_once(page, server):
    cells = show_samples(page, server.url, "range")
    cells.nth(2).click()
    cells.nth(8).click(modifiers=["Shift"])
    expect(page.locator("#labels .count")).to_contain_text("7 with")
    page.get_by_role("button", name="Undo").click()
    expect(page.locator("#labels .count")).to_contain_text("1 with")
    page.mouse.move(*centre(cells.nth(24)))
    page.mouse.down()
    page.mouse.move(*centre(cells.nth(26)), steps=6)
    page.mouse.up()
    expect(page.locator("#labels .count")).to_contain_text("4 with")


def centre(locator):
    box = locator.bounding_box()
    return box["x"] + box["width"] / 2, box["y"] + box["height"] / 2


def test_pages_of_ten_take_what_is_not_ticked_as_without(page, server):
    cells = show_samples(page, server.url, "ticks")
    page.get_by_text("Pages of ten").click()
    expect(cells).to_have_count(10)
    count = page.locator("#labels .count")
    cells.nth(0).focus()
    for key in "13":
        page.keyboard.press(key)
    cells.nth(6).focus()
    page.keyboard.press("u")
    expect(count).to_have_text("0 with · 0 without · 120 left")
    page.keyboard.press("Enter")
    expect(count).to_have_text("2 with · 7 without · 111 left")
    expect(page.locator("#labels .where")).to_have_text("Page 2 of 12")
    page.get_by_role("button", name="Undo").click()
    expect(count).to_have_text("0 with · 0 without · 120 left")
    expect(page.locator("#labels .where")).to_have_text("Page 1 of 12")
    expect(cells.nth(0)).to_have_attribute("data-l", "1")


def test_undo_takes_back_a_tick_and_then_the_page_before_it(page, server):
    cells = show_samples(page, server.url, "unticked")
    page.get_by_text("Pages of ten").click()
    expect(cells).to_have_count(10)
    count, where, undo = page.locator("#labels .count"), page.locator("#labels .where"), page.locator("#labels .undo")
    expect(undo).to_be_disabled()
    cells.nth(1).click()
    page.keyboard.press("Enter")
    expect(count).to_have_text("1 with · 9 without · 110 left")
    cells.nth(3).click()
    cells.nth(4).click()
    expect(cells.nth(4)).to_have_attribute("data-l", "1")
    undo.click()
    expect(cells.nth(4)).to_have_attribute("data-l", "")
    expect(cells.nth(3)).to_have_attribute("data-l", "1")
    expect(where).to_have_text("Page 2 of 12")
    expect(count).to_have_text("1 with · 9 without · 110 left")
    undo.click()
    undo.click()
    expect(where).to_have_text("Page 1 of 12")
    expect(count).to_have_text("0 with · 0 without · 120 left")
    expect(cells.nth(1)).to_have_attribute("data-l", "1")
    undo.click()
    expect(cells.nth(1)).to_have_attribute("data-l", "")
    expect(undo).to_be_disabled()


def test_erase_waits_for_ten_and_ten_and_the_keyboard_alone_gets_there(page, server):
    go(page, server.url, "feature")
    page.locator("#feature-name").locator("input, textarea").focus()
    page.keyboard.type("keyboard")
    page.keyboard.press("Enter")
    expect(page.locator("#labels .cell")).to_have_count(120)
    erase = page.get_by_role("button", name="Erase “keyboard”")
    expect(erase).to_be_disabled()
    expect(page.get_by_text("Label 10 more with and 10 more without.")).to_be_visible()
    for _ in range(40):
        page.keyboard.press("Tab")
        if page.evaluate("document.activeElement.classList.contains('cell')"):
            break
    for key in "y" * 10 + "n" * 9:
        page.keyboard.press(key)
    expect(page.get_by_text("Label 1 more without.")).to_be_visible()
    expect(erase).to_be_disabled()
    page.keyboard.press("n")
    expect(erase).to_be_enabled()
    page.keyboard.press("Control+Enter")
    expect(page.locator("[data-state=done]")).to_be_visible()
    expect(page.locator(".job h3")).to_have_text("Forget “keyboard”")


def test_a_phone_shows_three_samples_in_a_row(browser, server):
    with open_page(browser, server.url, viewport={"width": 390, "height": 800}, has_touch=True) as page:
        show_samples(page, server.url, "phone")
        columns = "getComputedStyle(document.querySelector('#labels .cells')).gridTemplateColumns.split(' ').length"
        assert page.evaluate(columns) == 3


def test_typed_text_never_becomes_markup_or_script(page, server):
    cells = show_samples(page, server.url, NASTY)
    for index in range(20):
        cells.nth(index).click()
        if index >= 10:
            cells.nth(index).click()
    erase = page.get_by_role("button", name="Erase “")
    expect(erase).to_be_enabled()
    erase.click()
    expect(page.locator("[data-state=done]")).to_be_visible()
    page.get_by_role("button", name="Keep", exact=True).click()
    expect(page.locator(".status")).to_contain_text("Kept")
    for path in ("", "runs", "recover", "models", "compare", "feature"):
        go(page, server.url, path)
        settle(page)
        assert page.evaluate("window.hacked") is None, path
        assert page.locator("img[src=x]").count() == 0, path
    go(page, server.url, "runs")
    expect(page.locator("td a").first).to_have_text(f"Forget “{NASTY}”")
    go(page, server.url, "recover")
    page.get_by_role("button", name="Delete").first.click()
    page.get_by_role("button", name="Delete for good?").click()
    expect(page.get_by_text("Nothing is erased")).to_be_visible()


# Runs


def test_pages_that_were_left_take_no_place_from_the_others(browser, server):
    """Gradio has 40 places for events unless told otherwise, and every open page holds one."""
    with open_page(browser, server.url) as page:
        for _ in range(45):
            page.goto(f"{server.url}/help")
            page.wait_for_selector("header.bar")
        go(page, server.url, "identity")
        expect(page.locator("#people input:enabled")).to_have_count(6)


def test_a_run_is_watched_reloaded_seen_in_a_second_tab_stopped_and_kept(page, server):
    job = begin(page, server.url)
    expect(page.locator(".pair img").first).to_be_visible()
    expect(page).to_have_title(re.compile(r"^\d+%.* · Erasing$"))
    page.reload()
    expect(page.locator(f"[data-job='{job}'][data-state=running]")).to_be_visible()
    second = page.context.new_page()
    go(second, server.url, "identity")
    expect(second.locator(f"[data-job='{job}'][data-state=running]")).to_be_visible()
    took = page.evaluate("""() => new Promise((done) => {
        const begun = performance.now();
        setTimeout(() => done(Infinity), 30000); // a promise that is never kept would wait for ever
        new MutationObserver(() => document.querySelector('[data-state=stopped]') && done(performance.now() - begun))
            .observe(document.body, {subtree: true, childList: true, attributes: true});
        document.querySelector('[data-on=stop_keep]').click(); })""")
    assert took < 1500, f"Stop took {took:.0f} ms on the page"
    expect(second.locator("[data-state=stopped]")).to_be_visible()
    expect(page.locator("#check figure")).to_have_count(12)
    page.get_by_role("button", name="Keep", exact=True).click()
    expect(page.locator(".status")).to_contain_text("Kept, and applied")
    go(page, server.url, "recover")
    page.get_by_role("button", name="Take it back").first.click()
    expect(page.get_by_text("taken back")).to_be_visible()


def test_a_run_outlives_its_closed_tab_and_the_log_has_it(page, server):
    job = begin(page, server.url, steps=150)
    context = page.context
    page.close()
    again = go(context.new_page(), server.url, f"runs?run={job}")
    expect(again.locator(f"[data-job='{job}'][data-state=done]")).to_be_visible()
    again.get_by_text("Log", exact=True).click()
    expect(again.locator("pre")).to_contain_text("step 150 of 150")


def test_two_visitors_never_see_each_others_runs_or_labels(browser, server):
    with open_page(browser, server.url) as ann, open_page(browser, server.url) as bob:
        show_samples(ann, server.url, "secret hat").first.click()
        expect(ann.locator("#labels .saved")).to_contain_text("Saved")
        show_samples(bob, server.url, "secret hat").nth(5).click()
        expect(bob.locator("#labels .saved")).to_contain_text("Saved")
        ann.reload()
        expect(ann.locator("#labels .cell")).to_have_count(120)
        expect(ann.locator("#labels .count")).to_have_text("1 with · 0 without · 119 left")
        expect(ann.locator("#labels .cell").first).to_have_attribute("data-l", "1")
        job = begin(ann, server.url, steps=300)
        go(bob, server.url, "runs")
        expect(bob.get_by_text("Nothing yet.")).to_be_visible()
        go(bob, server.url, f"runs?run={job}")
        expect(bob.get_by_text(f"There is no run {job}").first).to_be_visible()
        go(bob, server.url, "identity")
        expect(bob.locator("#people input:enabled")).to_have_count(6)
        assert bob.locator("[data-job]").count() == 0


def test_a_run_is_repeated_and_deleted_after_a_second_click(page, server):
    job = begin(page, server.url, steps=20)
    expect(page.locator("[data-state=done]")).to_be_visible()
    go(page, server.url, "runs")
    page.get_by_role("button", name="Repeat").click()
    expect(page.locator("[data-state=done]")).to_be_visible()
    assert page.locator("[data-job]").first.get_attribute("data-job") != job
    expect(page.get_by_text("Settings")).to_be_visible()
    go(page, server.url, "runs")
    expect(page.locator("[data-run]")).to_have_count(2)
    page.locator(f"[data-run='{job}']").get_by_role("button", name="Delete").click()
    expect(page.locator("[data-run]")).to_have_count(2)
    page.get_by_role("button", name="Delete for good?").click()
    expect(page.locator("[data-run]")).to_have_count(1)
    assert not (server.data / "runs" / job).exists()


def test_nobody_chosen_is_said_beside_the_button(page, server):
    go(page, server.url, "identity")
    expect(page.locator("#people input:enabled")).to_have_count(6)
    expect(page.get_by_role("button", name="Erase this person")).to_be_disabled()


def test_a_killed_server_is_noticed_and_its_run_resumed(browser, tmp_path):
    first = Server(tmp_path)
    with open_page(browser, first.url, strict=False) as page:
        job = begin(page, first.url)
        expect(page.locator(".pair img").first).to_be_visible()
        first.kill()
        expect(page.get_by_text("Connection lost. The job goes on; this page reconnects.")).to_be_visible()
        second = Server(tmp_path, port=first.port)
        try:
            resume = page.get_by_role("button", name="Resume")
            expect(resume).to_be_visible()
            expect(page.locator(".status")).to_contain_text("The server stopped at step")
            expect(page.get_by_text("Connection lost.")).to_be_hidden()
            resume.click()
            expect(page.locator(f"[data-job='{job}'][data-state=done]")).to_be_visible(timeout=120_000)
        finally:
            second.close()


# For everybody

GRADIO_OWNS = {
    "aria-prohibited-attr",  # empty Image and Plot placeholders
    "image-alt",  # icons of the footer
}


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("path", PATHS)
def test_axe_finds_nothing_of_ours(page, server, path, theme):
    from axe_playwright_python.sync_playwright import Axe

    go(page, server.url, f"{path}?__theme={theme}")
    settle(page)
    found = Axe().run(page).response["violations"]
    ours = {
        rule["id"]: [node["html"][:160] for node in rule["nodes"]] for rule in found if rule["id"] not in GRADIO_OWNS
    }
    assert not ours


def test_the_focus_is_always_seen(page, server):
    go(page, server.url, "identity")
    expect(page.locator("#people input:enabled")).to_have_count(6)
    seen = 0
    for _ in range(25):
        page.keyboard.press("Tab")
        style = page.evaluate("""() => { const e = document.activeElement;
            if (e === document.body) return null;
            const near = e.matches('.picture-choice input') ? e.nextElementSibling : e;
            const s = getComputedStyle(near); return s.outlineStyle + ' ' + s.outlineWidth; }""")
        if style:
            seen += 1
            assert style == "solid 3px", page.evaluate("document.activeElement.outerHTML.slice(0, 200)")
    assert seen > 12


# Models and comparing


def test_samples_are_drawn_and_wrong_seeds_are_explained(page, server):
    go(page, server.url, "models")
    expect(page.locator(".faces figure")).to_have_count(12)
    page.get_by_label("Seeds").fill("3-5")
    page.get_by_role("button", name="Draw", exact=True).click()
    expect(page.locator(".faces figure")).to_have_count(3)
    page.get_by_label("Seeds").fill("nobody")
    page.get_by_role("button", name="Draw", exact=True).click()
    expect(page.locator("[role=alert]")).to_contain_text("Seeds 'nobody': write numbers and ranges")
    page.get_by_role("button", name="Draw the way").click()
    expect(page.locator(".strip.way img")).to_have_count(9)


def test_a_model_is_exported_imported_again_drawn_and_deleted(page, server, tmp_path):
    go(page, server.url, "models")
    card = page.locator("[data-model=tiny]")
    expect(card).to_be_visible()
    with page.expect_download() as download:
        card.get_by_text("Export with its erasures baked in").click()
    assert download.value.suggested_filename == "tiny.safetensors"
    copy = tmp_path / "My Copy.safetensors"
    download.value.save_as(copy)
    page.get_by_label("Model file").set_input_files(copy)
    expect(page.get_by_label("Name here")).to_have_value("my-copy")
    page.get_by_role("button", name="Import").click()
    ours = page.locator("[data-model=my-copy]")
    expect(ours.locator("img")).to_have_count(6)
    expect(page.locator("#import .said")).to_have_text("my-copy is here.")
    prints = [entry.locator("dd").nth(2).inner_text() for entry in (card, ours)]
    assert prints[0] == prints[1], "the same weights"
    ours.get_by_role("button", name="Delete").click()
    ours.get_by_role("button", name="Delete it and its erasures?").click()
    expect(ours).to_have_count(0)
    assert not list((server.data / "bases").glob("*copy*"))


def test_a_file_that_is_no_model_is_refused_in_words(page, server, tmp_path):
    go(page, server.url, "models")
    (tmp_path / "evil.pkl").write_bytes(b"cos\nsystem\n(S'touch /tmp/owned'\ntR.")
    page.get_by_label("Model file").set_input_files(tmp_path / "evil.pkl")
    page.get_by_role("button", name="Import").click()
    expect(page.locator("#import .said")).to_have_attribute("data-tone", "failed")
    expect(page.locator("#import .said")).to_contain_text("Not imported.")
    assert not list((server.data / "bases").glob(".incoming*"))


def test_the_slider_and_the_views_never_ask_the_server(page, server):
    go(page, server.url, "compare")
    expect(page.locator("#compare figure")).to_have_count(16)
    settle(page)
    asked = []
    page.on("request", lambda request: asked.append(request.url) if not request.url.startswith("data:") else None)
    root = page.locator("#compare .compare-grid")
    slider = page.get_by_label("Reveal after")
    slider.focus()
    page.keyboard.press("Home")
    assert root.evaluate("root => root.style.getPropertyValue('--reveal')") == "0"
    x, y = centre(page.locator("#compare .frame").first)
    page.mouse.click(x, y)
    assert 45 <= float(slider.input_value()) <= 55
    for key, mode in (("s", "side"), ("f", "flip"), ("d", "difference"), ("v", "split")):
        page.keyboard.press(key)
        expect(root).to_have_attribute("data-mode", mode)
    page.get_by_role("button", name="Most changed first").click()
    page.locator("#compare figure").first.focus()
    page.keyboard.press("ArrowRight")
    page.keyboard.press(" ")
    assert asked == []
