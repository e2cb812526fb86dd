"""The page without a browser: headers, owners, refusals, words."""

import asyncio
import dataclasses
import re
import socket
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace

import gradio as gr
import pytest
from fastapi.testclient import TestClient

from engine.core.errors import UserError
from engine.core.joblog import State
from engine.core.knobs import check, knob
from engine.core.targets import Seeds
from engine.export import export_baked
from engine.generators import architectures
from engine.studio import LOCAL
from tests.test_eg3d import SMALL
from webui import words
from webui.app import serve, site
from webui.events import SORRY, said
from webui.feature.check import told as check_told
from webui.form import Form
from webui.grid import LabelGrid, keep_labels
from webui.headers import First
from webui.owner import HEADER
from webui.pages import pages
from webui.panels import CROWD, TICK, JobPanel
from webui.pictures import data_uri, samples
from webui.runview import job_tree, status
from webui.samplepage import SamplePage
from webui.seeds import parse_seeds
from webui.story import Story, pair_up
from webui.theme import COLOURS, HERE
from webui.view import View, h

HTML = {"accept": "text/html"}


@pytest.fixture(scope="module")
def door(tmp_path_factory):
    from engine.studio import Studio

    studio = Studio(tmp_path_factory.mktemp("web"), "cpu", base="tiny")
    with TestClient(site(studio, hosts=("testserver",))) as client:
        yield client
    studio.close()


@pytest.fixture(scope="module")
def guarded(tmp_path_factory):
    from engine.studio import Studio

    studio = Studio(tmp_path_factory.mktemp("auth"), "cpu", base="tiny")
    with TestClient(site(studio, ("ann", "river"))) as client:
        yield client
    studio.close()


# Headers and doors


@pytest.mark.parametrize("path", [page.path for page in pages.values()])
def test_every_page_answers_under_a_policy_that_lets_nothing_out(door, path):
    answer = door.get(f"/{path}", headers=HTML)
    policy = answer.headers["content-security-policy"]
    assert answer.status_code == 200 and "Lethe" in answer.text
    assert "connect-src 'self'" in policy and "default-src 'self'" in policy and "http" not in policy
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert answer.headers["referrer-policy"] == "no-referrer"


def test_a_page_begins_with_our_first_script_and_a_report_stays_as_it_is(door):
    page = door.get("/compare", headers=HTML)
    assert page.text.index("window.requestAnimationFrame =") < page.text.index('type="module"')
    assert int(page.headers["content-length"]) == len(page.content)

    async def report(scope, receive, send):
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-type", b"text/html")]})
        await send({"type": "http.response.body", "body": b"<html><head></head>", "more_body": True})
        await send({"type": "http.response.body", "body": b"</html>"})

    answer = TestClient(First(report, "<script></script>")).get("/", headers=HTML)
    assert answer.text == "<html><head></head></html>"


def test_the_server_says_that_it_is_well(door):
    assert door.get("/healthz").json() == {"ok": True}


@pytest.mark.parametrize("path", ["openapi.json", "docs", "redoc", "monitoring", "gradio_api/runs"])
def test_nothing_is_told_about_the_inside(door, path):
    assert door.get(f"/{path}").status_code >= 400


@pytest.mark.parametrize("path", ["/etc/passwd", "app.py", "http://169.254.1.1/x"])
def test_files_outside_the_upload_folder_are_refused(door, path):
    assert door.get(f"/gradio_api/file={path}").status_code in (403, 404)


def test_another_host_name_is_refused(door):
    assert door.get("/healthz", headers={"host": "evil.example"}).status_code == 421
    assert door.get("/healthz", headers={"host": "testserver:7860"}).status_code == 200


def test_with_a_password_only_the_shell_is_public(guarded):
    for path in ("config", "gradio_api/info", "gradio_api/file=x"):
        assert guarded.get(f"/{path}").status_code == 401, path
    assert guarded.get("/", headers=HTML).status_code == 200
    assert guarded.post("/login", data={"username": "ann", "password": "wrong"}).status_code == 400
    assert guarded.post("/login", data={"username": "ann", "password": "river"}).status_code == 200
    assert guarded.get("/config").status_code == 200


# Models in and out


def test_a_model_goes_out_and_comes_in_again_and_leaves_no_scrap(door, tmp_path):
    answer = door.get("/transfer/tiny")
    assert answer.status_code == 200 and 'filename="tiny.safetensors"' in answer.headers["content-disposition"]
    sent = door.put("/transfer/again", params={"file": "tiny.safetensors"}, content=answer.content)
    assert sent.json() == {"name": "again"}
    for bad in ({"file": "x.exe"}, {"file": "tiny.safetensors"}):
        refused = door.put("/transfer/again", params=bad, content=b"nothing")
        assert refused.status_code == 400 and refused.json()["error"]
    assert door.put("/transfer/..%2F..%2Fup", params={"file": "t.pt"}, content=b"x").status_code in (400, 404, 405)
    assert door.get("/transfer/nobody").status_code == 400


def test_with_a_password_models_stay_inside(tmp_path):
    from engine.studio import Studio

    studio = Studio(tmp_path, "cpu", base="tiny")
    with TestClient(site(studio, ("ann", "river"))) as client:
        assert client.get("/transfer/tiny").status_code == 401
        assert client.put("/transfer/x", params={"file": "x.pkl"}, content=b"x").status_code == 401
        client.post("/login", data={"username": "ann", "password": "river"})
        assert client.get("/transfer/tiny").status_code == 200
    assert not [path for path in studio.store.bases.iterdir() if path.name.startswith(".")]
    studio.close()


# Owners


def seen_owner(client, **headers):
    """Whom the server takes a request for."""
    seen = []

    async def spy(scope, receive, send):
        seen.extend(value.decode() for name, value in scope["headers"] if name == HEADER)
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b""})

    from webui.owner import Owners

    answer = TestClient(Owners(spy, client)).get("/", headers=headers)
    return seen, answer.headers.get("set-cookie", "")


def test_a_new_browser_gets_an_id_that_scripts_cannot_read():
    (owner,), cookie = seen_owner(None, **HTML)
    (other,), _ = seen_owner(None, **HTML)
    assert owner in cookie and "HttpOnly" in cookie and "SameSite=Strict" in cookie
    assert len(owner) == 32 and owner != other
    assert seen_owner(None, **HTML, cookie=f"lethe={owner}") == ([owner], "")


def test_an_owner_cannot_be_claimed_from_outside():
    assert seen_owner(None, **{"x-lethe-owner": "ann"})[0] == [LOCAL]
    (owner,), cookie = seen_owner(None, **HTML, cookie="lethe=ann")
    assert owner != "ann" and owner in cookie


def test_with_a_password_the_owner_is_the_name():
    assert seen_owner("ann", **HTML, cookie=f"lethe={'0' * 32}") == (["ann"], "")


def test_a_script_is_the_person_at_this_machine():
    assert seen_owner(None) == ([LOCAL], "")


# Starting


def test_an_open_door_without_a_password_is_refused(studio):
    with pytest.raises(UserError, match="--auth"):
        serve(studio, host="0.0.0.0")
    for auth in ("ann", "ann:", ":river"):
        with pytest.raises(UserError, match="NAME:PASSWORD"):
            serve(studio, host="0.0.0.0", auth=auth)


def test_a_taken_port_is_said_with_the_way_out(studio):
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = other.getsockname()[1]
        with pytest.raises(UserError, match=f"--port {port + 1}"):
            serve(studio, port=port)
    with pytest.raises(UserError, match="65535"):
        serve(studio, port=70000)


# What goes wrong is said, and nothing more


def test_a_user_error_is_shown_as_it_is_and_anything_else_without_its_text():
    with gr.Blocks():
        box = View()

        @said(box)
        def refuses():
            raise UserError("label 4 more with")

        @said(box)
        def breaks():
            raise RuntimeError("/secret/path")

    assert "Label 4 more with" in str(refuses()[box])
    assert SORRY in str(breaks()[box]) and "secret" not in str(breaks()[box])


def test_a_handler_that_draws_in_portions_keeps_what_it_drew_and_says_what_went_wrong():
    with gr.Blocks():
        box, picture, busy = View(), View(), View()

        @said(box, busy)
        def draws():
            yield {picture: "first half", busy: "Drawing …"}
            raise UserError("choose a base first")

    first, last = draws()
    assert first == {box: None, picture: "first half", busy: "Drawing …"}
    assert "Choose a base first" in str(last[box]) and last[busy] is None and picture not in last


def test_a_feature_run_that_was_stopped_before_its_check_says_so():
    said_so = str(check_told({"unchecked": "the run was stopped"}))
    assert "Not checked: the run was stopped" in said_so


def test_a_node_is_tag_attributes_and_text():
    assert h("p", "a", None, [1, h("b", "c")], cls="x", data_job="7", hidden=False) == [
        "p", {"class": "x", "data-job": "7"}, "a", "1", ["b", {}, "c"],
    ]  # fmt: skip
    assert h("div", title_="42%") == ["div", {"data-title": "42%"}]


# Runs in words


def row(state, **more):
    known = {"id": "0123456789ab", "title": "Forget x", "params": {"base": "tiny"}, "error": None, "result": None}
    times = {"created": 1.0, "started": 2.0, "finished": None}
    return SimpleNamespace(**known | times | {"state": state} | more)


def story(steps, total=100, every=1.0, since=0.0, **more):
    """As told `since` seconds after its last step."""
    moments = iter([0.0] * len(steps))
    told = Story(clock=lambda: next(moments, since))
    for n, step in enumerate(steps, start=1):
        told.feed(n, {"step": step, "total": total, "t": 1000 + every * step, "scalars": {"left": 1 / step}, **more})
    return told


def test_time_left_is_hidden_until_five_percent_and_then_a_moving_mean():
    assert story(range(1, 5)).left() is None
    assert story(range(1, 11)).left() == pytest.approx(90)
    assert story(range(1, 11), since=8.0).left() == pytest.approx(82)
    assert story([1, 50, *range(51, 91)], every=2.0).left() == pytest.approx(20)
    assert "about 90 s" not in status(row(State.RUNNING), story(range(1, 5)), None)


def test_a_new_chapter_has_its_own_clock_and_a_resumed_run_draws_on():
    told = story(range(1, 31))
    told.feed(31, {"step": 1, "total": 50, "note": "erasing", "t": 2000.0})
    assert told.left() is None and told.share == 0.02
    told = story([1, 2, 3, 4, 5])
    told.feed(6, {"step": 3, "total": 100, "t": 5000.0, "scalars": {"left": 9.0}})
    assert told.curves["left"] == [(1, 1.0), (2, 0.5), (3, 9.0)]


def test_a_long_curve_is_thinned_and_keeps_its_end():
    curve = story(range(1, 5001), total=5000).curves["left"]
    assert len(curve) <= 240 and curve[-1] == (5000, 1 / 5000) and curve[0][0] < 200


def test_pictures_pair_up_by_name():
    pairs, alone = pair_up(
        {"before-ann-1": "a", "after-ann-1": "b", "before": "c", "after": "d", "map": "e", "after-x": "f"}
    )
    assert pairs == [("ann 1", "a", "b"), ("", "c", "d")] and alone == [("map", "e"), ("after-x", "f")]


@pytest.mark.parametrize(
    ("state", "more", "sentence", "buttons"),
    [
        (State.QUEUED, {}, "2 jobs before yours. You may close this page.", ["stop_discard"]),
        (State.RUNNING, {}, "Running: step 14 of 60.", ["stop_keep", "stop_discard"]),
        (State.STOPPING, {}, "Stopping at the next step", []),
        (State.STOPPED, {"result": None}, "Nothing was kept", []),
        (State.DONE, {"result": {"results": ["r"]}, "finished": 34.0}, "Done in 32 s. Look at", ["keep", "discard"]),
        (State.DONE, {"result": {"results": ["r"], "kept": ["d"]}}, "Kept, and applied", []),
        (State.DONE, {"result": {"results": ["r"], "discarded": True}}, "discarded; the model is as it was", []),
        (State.FAILED, {"error": "out of memory"}, "Failed: out of memory", []),
        (State.INTERRUPTED, {}, "The server stopped at step 14 of 60. Resume from step 10?", ["resume"]),
    ],
)  # fmt: skip
def test_every_state_is_said_in_words_with_the_buttons_that_make_sense(state, more, sentence, buttons):
    told = story([14], total=60)
    told.snapshot = 10
    tree = str(job_tree(row(state, **more), told, {}, "Erasing", before=2))
    assert sentence in tree
    assert [
        name for name in ("stop_keep", "stop_discard", "keep", "discard", "resume") if f"'data-on': '{name}'" in tree
    ] == buttons
    assert ("data-live" in tree) == state.is_live and ("· Erasing" in tree) == state.is_live


def test_stopping_a_long_run_asks_once_more():
    told = story([14], total=60)
    assert "data-confirm" not in str(job_tree(row(State.RUNNING, started=told.last - 59), told, {}, "Erasing"))
    assert "data-confirm" in str(job_tree(row(State.RUNNING, started=told.last - 61), told, {}, "Erasing"))


def test_curves_and_pairs_keep_their_places_in_a_panel_that_is_watched():
    """Gradio sends differences, and its page lost its way in a tree in which the pairs made room for the curves."""
    told, shown = Story(), {"a.webp": "data:image/webp;base64,"}
    bodies = []
    for step, scalars in enumerate(
        ({}, {"unlearn": 1.0}, {"unlearn": 0.5, "left": 3.0}, {"unlearn": 0.2, "left": 2.0})
    ):
        images = {"before-with-1": "a.webp", "after-with-1": "a.webp"} if not step else {}
        told.feed(step, {"step": step, "total": 9, "t": float(step), "scalars": scalars, "images": images})
        bodies.append(job_tree(row(State.RUNNING), told, shown, "Erasing")[5])
    for _, _, curves, pairs in bodies:
        assert curves[1] == {"class": "curves"} and pairs[1] == {"class": "pairs"} and len(pairs) == 3
    assert [len(curves) - 2 for _, _, curves, _ in bodies] == [0, 1, 2, 2]


def test_the_tab_says_how_far_it_is():
    tree = str(job_tree(row(State.RUNNING), story(range(1, 43), every=0.5, since=1e6), {}, "Erasing"))
    assert "'data-title': '42% 0:00 · Erasing'" in tree  # told long ago: nothing is left by now


@pytest.mark.parametrize(
    ("seconds", "said"), [(0.2, "1 s"), (20, "20 s"), (59.6, "1 min"), (190, "3 min"), (7200, "2.0 h")]
)
def test_spans_are_said_as_people_do(seconds, said):
    assert words.span(seconds) == said


# Watching


def drive(updates):
    async def collect():
        return [update async for update in updates]

    with ThreadPoolExecutor(1) as pool:  # the browser tests leave a running loop in this thread
        return pool.submit(asyncio.run, collect()).result()


def test_a_watcher_replays_and_follows_a_run_to_its_end(studio):
    with gr.Blocks() as demo:
        panel = JobPanel(studio, belongs=lambda row: True)
        panel.watch(demo, locks=[button := gr.Button()])
    job = studio.forget("tiny", Seeds((3,)), "ascent", {"steps": 12}, owner="ann")
    first, second = drive(panel._follow(job, "ann")), drive(panel._follow(job, "ann"))
    assert first[-1][panel.view] == second[-1][panel.view]
    last = str(first[-1][panel.view])
    assert "Done in" in last and "data:image/webp" in last and first[-1][button]["interactive"] is True
    (refusal,) = drive(panel._follow(job, "bob"))
    assert "no run" in str(refusal[panel.view]) and "data:image" not in str(refusal)


def test_a_crowd_of_watchers_is_told_as_often_in_all_as_a_few(studio):
    with gr.Blocks() as demo:
        panel = JobPanel(studio, belongs=lambda row: True)
        panel.watch(demo)
    job, counts = studio.forget("tiny", Seeds((3,)), "ascent", {"steps": 12}, owner="ann"), []

    async def watching(others):
        """Counts the watchers of a run, then leaves it: in the middle, as a closed tab does."""
        followers = [panel._follow(job, "ann") for _ in range(others)]
        for follower in followers:
            await anext(follower)
        counts.append((panel.watchers, panel.pause))
        for follower in followers:
            await follower.aclose()
        yield panel.watchers

    assert drive(watching(1)) == drive(watching(3 * CROWD)) == [0]
    assert counts == [(1, TICK), (3 * CROWD, 3 * TICK)]


def test_the_page_finds_only_the_owners_own_run(studio):
    with gr.Blocks() as demo:
        panel = JobPanel(studio, belongs=lambda row: True)
        panel.watch(demo)
    job = studio.forget("tiny", Seeds((3,)), "ascent", {"steps": 2}, owner="ann")
    studio.wait(job)
    ann, bob = (SimpleNamespace(headers={"x-lethe-owner": name}) for name in ("ann", "bob"))
    assert panel.find(ann) == job and panel.find(bob) is None
    studio.discard(job, owner="ann")
    assert panel.find(ann) is None, "a decided run is not shown again"


# Labels from the browser


def test_saved_labels_land_with_their_owner_feature_and_page(studio):
    guess = {"id": "4", "value": 0, "how": "guess", "page": 2}
    changes = [{"id": "3", "value": 1}, guess, {"id": "5", "value": None}]
    data = {"context": {"base": "tiny", "feature": "hat"}, "changes": changes}
    assert set(keep_labels(studio, "ann", data)) == {"at"}
    labels = studio.labels.get("ann", "tiny", "hat")
    assert {seed: (label.value, label.how, label.page) for seed, label in labels.items()} == {
        3: (1, "random", None),
        4: (0, "guess", 2),
    }


def test_a_save_that_fails_is_an_answer_the_browser_can_show(studio):
    with gr.Blocks():
        grid = LabelGrid(lambda data, request: keep_labels(studio, "ann", data))
    assert (
        "name"
        in grid.save({"context": {"base": "tiny", "feature": ""}, "changes": [{"id": "1", "value": 1}]}, None)["error"]
    )
    for bad in (
        {},
        [],
        None,
        {"context": {}, "changes": 3},
        {"context": {"base": "tiny", "feature": "x"}, "changes": [1]},
    ):
        assert grid.save(bad, None)["error"]


# Forms


@dataclasses.dataclass(frozen=True)
class Knobbed:
    steps: int = knob(40, "optimiser steps", min=1, max=5000)
    strength: float = knob(0.5, "how much", min=0, max=1)
    way: str = knob("fast", "which way", choices=("fast", "exact"))
    keep_noise: bool = knob(True, "leave the noise", advanced=True)

    def __post_init__(self):
        check(self)


def test_a_form_has_a_part_for_every_knob_and_reads_back_what_the_method_takes():
    with gr.Blocks():
        form = Form(Knobbed, {"Quick": {"steps": 5}}, start="Quick")
    kinds = {name: type(part).__name__ for name, part in form.parts.items()}
    assert kinds == {"steps": "Number", "strength": "Slider", "way": "Dropdown", "keep_noise": "Checkbox"}
    assert form.parts["steps"].value == 5
    data = {
        form.parts["steps"]: 12.0,
        form.parts["strength"]: 1,
        form.parts["way"]: "exact",
        form.parts["keep_noise"]: False,
    }
    assert Knobbed(**form.read(data)) == Knobbed(12, 1.0, "exact", False)
    with pytest.raises(UserError, match="empty"):
        form.read({**data, form.parts["steps"]: None})


def test_a_preset_changes_only_what_was_not_touched():
    with gr.Blocks() as demo:
        form = Form(Knobbed, {"Quick": {"steps": 5, "strength": 0.1}})
    apply = next(fn.fn for fn in demo.fns.values() if fn.name == "apply")
    update = apply("Quick", ["strength"])
    assert update[form.parts["steps"]]["value"] == 5 and form.parts["strength"] not in update
    assert update[form.parts["way"]]["value"] == "fast"


# Small things


@pytest.mark.parametrize(
    ("text", "seeds"), [("0-3, 20", [0, 1, 2, 3, 20]), ("1 2;3", [1, 2, 3]), (" 5 – 7 ", [5, 6, 7]), ("4,4", [4])]
)
def test_seeds_are_read_as_people_write_them(text, seeds):
    assert parse_seeds(text) == seeds


@pytest.mark.parametrize("text", ["", "a", "-4", "9-3", "0-64", "1.5", "0-40, 50-90"])
def test_seeds_that_make_no_sense_are_refused_with_an_example(text):
    with pytest.raises(UserError, match="seeds"):
        parse_seeds(text)


def test_pictures_are_made_once_and_only_what_is_missing(studio, monkeypatch):
    asked = []
    real = studio.sample
    monkeypatch.setattr(
        studio, "sample", lambda base, seeds, *a, **k: asked.append(list(seeds)) or real(base, seeds, *a, **k)
    )
    first = samples(studio, "tiny", [1, 2])
    assert samples(studio, "tiny", [2, 3, 1])[::2] == [first[1], first[0]]
    assert asked == [[1, 2], [3]] and first[0] == data_uri(real("tiny", [1])[0])


def luminance(colour):
    parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


@pytest.mark.parametrize("theme", [0, 1])
@pytest.mark.parametrize(
    ("text", "ground"),
    [
        ("body_text_color", "body_background_fill"),
        ("body_text_color_subdued", "body_background_fill"),
        ("body_text_color_subdued", "block_background_fill"),
        ("button_primary_text_color", "button_primary_background_fill"),
        ("button_primary_text_color", "button_primary_background_fill_hover"),
        ("button_cancel_text_color", "button_cancel_background_fill"),
        ("link_text_color", "body_background_fill"),
        ("error_text_color", "error_background_fill"),
        ("input_placeholder_color", "input_background_fill"),
    ],
)
def test_words_can_be_read_on_their_ground(text, ground, theme):
    light, dark = sorted((luminance(COLOURS[text][theme]), luminance(COLOURS[ground][theme])), reverse=True)
    assert (light + 0.05) / (dark + 0.05) >= 4.5


def test_a_class_is_drawn_by_one_sheet():
    """All sheets stand in every page, so a second meaning of a class would change the first."""
    drawn = {sheet.name: set(re.findall(r"^\.([a-z-]+) \{", sheet.read_text(), re.M)) for sheet in HERE.glob("*.css")}
    twice = [name for name, times in Counter(name for names in drawn.values() for name in names).items() if times > 1]
    assert set(twice) <= {"dark"}  # the theme, to which every sheet may add colours


def test_a_component_that_a_handler_leaves_alone_keeps_its_props():
    """Gradio 6.31 wipes them; webui/__init__.py mends it."""
    import gradio.blocks

    with gr.Blocks():
        grid = LabelGrid(lambda data, request: {})
    assert gradio.blocks.postprocess_update_dict(grid, gr.skip()) == {"__type__": "update"}
    update = gradio.blocks.postprocess_update_dict(grid, gr.update(items=[], context={"base": "tiny"}))
    assert update["props"] == {"items": [], "context": {"base": "tiny"}} and set(update) == {"props", "__type__"}


def test_the_check_of_a_3d_generator_can_be_turned_and_that_of_a_flat_one_cannot(studio, tmp_path):
    solid = architectures["eg3d"](**SMALL).eval()
    export_baked(solid, tmp_path / "head.safetensors", {})
    studio.import_base(tmp_path / "head.safetensors", "head")
    with gr.Blocks():
        page = SamplePage(studio)
    shown = {}
    for base in ("head", "tiny"):
        job = studio.forget(base, Seeds((3,)), "ascent", {"steps": 1, "batch": 1})
        shown[base] = (studio.wait(job), page.look(studio.run(job), LOCAL))
    assert shown["head"][1][page.turn]["visible"] and not shown["tiny"][1][page.turn]["visible"]
    row = shown["head"][0]
    front, side, again = (page.pairs(row, LOCAL, degrees) for degrees in (0, 30, 0))
    assert front == again and all(a != b for a, b in zip(front, side, strict=True))
