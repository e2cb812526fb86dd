"""The Feature page without a browser: its words, what it counts, and what it passes to the studio."""

from types import SimpleNamespace

import gradio as gr
import pytest

from engine.core.errors import UserError
from engine.core.labelbook import Counts
from engine.directions.labelled import shortage
from engine.evaluation.feature import gone
from engine.studio import Studio
from webui.feature import batches, files
from webui.feature.check import cards
from webui.feature.check import told as check_told
from webui.feature.preview import drawn
from webui.feature.progress import quality, short_of, told
from webui.pages.feature import FeaturePage


def share(count, of=200):
    return {"count": count, "of": of, "share": 100 * count / of, "low": 0.1, "high": 1.9}


def figures(before, after):
    """Of one erased feature."""
    part = (before - after) / before if before else None
    return {"before": share(before), "after": share(after), "removed": part, "gone": gone(part)}


def judged(before, after, *, also=None, lpips=0.01, points=0.4, samples=180, caveats=()):
    """What a check leaves in a run's result, as far as the page reads it."""
    return {
        "erased": {"glasses": figures(before, after)} | (also or {}),
        "unaffected": {"samples": samples, "lpips": lpips, "pixels": 0.02},
        "drift": {"young": {"points": points}, "smile": {"points": -0.1}},
        "caveats": list(caveats),
    }


def tones(verdict):
    """The cards by their tone, and all they say."""
    tree = cards(verdict)
    return [card[1]["class"].removeprefix("metric").strip() for card in tree[2:]], str(tree)


def test_the_cards_say_what_is_left_what_changed_and_what_moved():
    assert tones(judged(20, 1))[0] == ["good", "good", "good"]
    tone, said = tones(judged(20, 8, lpips=0.08, points=4.2))
    assert tone == ["warn", "bad", "warn"]
    assert "'60 % of it is gone'" in said and "In 8 of 200 fresh samples, was in 20" in said
    assert "95 % interval of what is left 0.1 to 1.9 %" in said and "Samples without it" in said
    assert "Visibly changed" in said and "Also moved: young" in said and "young +4.2 points" in said


def test_every_erased_feature_has_a_card_of_its_own():
    tone, said = tones(judged(20, 1, also={"hat": figures(10, 12), "sparkle": None}))
    assert tone == ["good", "warn", "warn", "good", "good"]
    assert "“glasses”" in said and "'95 % of it is gone'" in said
    assert "“hat”" in said and "'None of it is gone'" in said and "In 12 of 200 fresh samples, was in 10" in said
    assert "“sparkle”" in said and "No judge on this machine knows it" in said
    assert "Samples without any of them" in said


def test_what_a_reader_of_the_cards_must_know_stands_below_them():
    assert len(check_told(judged(20, 1))) == 1
    _, *notes = check_told(judged(20, 1, caveats=["Nothing is protected.", "Not independent: the judge labelled."]))
    assert [note[1]["class"] for note in notes] == ["note", "note"]
    assert "Nothing is protected." in str(notes[0]) and "Not independent" in str(notes[1])


def test_a_check_that_was_stored_before_features_had_figures_of_their_own_is_shown_in_words():
    said = check_told({"words": ["“hat” in 0 of 200 samples (was 24)"], "before": {}, "after": {}})
    assert "in 0 of 200 samples" in str(said)


def test_where_the_judge_saw_the_feature_nowhere_before_the_card_says_that_it_cannot_tell():
    tone, said = tones(judged(0, 0))
    assert tone == ["warn", "good", "good"]
    assert "saw it in none of 200 fresh samples before, and in 0 now" in said and "look at the pairs" in said


@pytest.mark.parametrize("pixels", [None, float("nan")])
def test_where_every_sample_showed_it_the_card_of_the_others_says_that_there_are_none(pixels):
    verdict = judged(200, 3, lpips=None, samples=0)
    verdict["unaffected"]["pixels"] = pixels
    tone, said = tones(verdict)
    assert tone == ["good", "", "good"] and "There are none" in said


# What is counted


@pytest.mark.parametrize("picked", [(0, 0), (4, 0), (3, 9)])
@pytest.mark.parametrize("having", [0, 3, 9, 10, 13, 14])
@pytest.mark.parametrize("lacking", [0, 9, 10, 19])
def test_the_page_is_ready_exactly_when_the_engine_is(having, lacking, picked):
    counts = Counts(having + picked[0], lacking + picked[1], *picked)
    assert bool(short_of(counts)) == bool(shortage(having, lacking))


def test_labels_of_picked_samples_do_not_count_towards_ten_and_ten_and_the_page_says_so():
    counts = Counts(12, 30, picked_having=5, picked_lacking=0)
    assert short_of(counts) == "Label 3 more with, drawn at random: the next batch has only such samples."
    assert told(counts)["note"].startswith("12 with and 30 without in all, 7 and 30 of them drawn at random. Label 3")
    assert short_of(Counts(12, 3)) == "Label 7 more without." and short_of(Counts(12, 0)).startswith("All labels say")


def test_the_quality_of_the_labels_is_said_in_words():
    assert quality(float("nan"), False) == ""
    assert "in 81 % of pairs. Label on" in quality(0.81, False)
    assert "a page or two more" in quality(0.95, False) and "labelled enough" in quality(0.95, True)


# What is shown


class Visit:
    """The page as one visitor has it, without a browser: handlers are called as Gradio calls them."""

    def __init__(self, studio):
        with gr.Blocks():
            self.page = FeaturePage(studio)
        self.studio, self.request = studio, SimpleNamespace(session_hash="one", headers={}, username=None)
        self.batch = batches.at_random(0)

    def see(self, updates):
        """The grid's props after all updates."""
        seen = {}
        for update in updates:
            seen |= update
        self.batch = seen.get(self.page.batch, self.batch)
        return seen[self.page.grid]


@pytest.fixture
def visit(tmp_path, monkeypatch):
    studio = Studio(tmp_path, "cpu", base="tiny")
    monkeypatch.setattr("webui.pages.feature.owner_of", lambda request: "ann")
    yield Visit(studio)
    studio.close()


def is_red(studio, seed):
    picture = studio.sample("tiny", [seed], psi=1.0)[0].astype(float)
    return int(picture[..., 0].mean() > picture[..., 2].mean() + 20)


def label(visit, count=120):
    labels = {seed: is_red(visit.studio, seed) for seed in batches.at_random(0).seeds[:count]}
    visit.studio.labels.set_many("ann", "tiny", "red", labels)
    return labels


def test_every_ten_of_the_next_batch_have_random_samples_and_the_others_are_marked(visit):
    label(visit)
    shown = visit.see(visit.page.following("red", visit.batch, "grid", visit.request))
    hows = [item.get("how") for item in shown["items"]]
    assert len(hows) == 120 and all(hows[k : k + 10].count(None) >= 2 for k in range(0, 120, 10))
    assert hows.count("chosen") == 96 and visit.batch.number == 1
    ticks = visit.see(visit.page.following("red", visit.batch, "tick", visit.request))
    assert not any("how" in item for item in ticks["items"])  # the paper's pages are drawn at random


def test_a_feature_that_is_named_while_the_page_opens_is_not_overtaken_by_the_one_labelled_last(visit):
    label(visit, 4)
    opening = visit.page.load("grid", visit.request)
    assert "red" in str(next(opening)[visit.page.earlier])
    visit.see(visit.page.named("blue", visit.batch, "grid", visit.request))
    assert list(opening) == []
    assert visit.see(visit.page.load("grid", visit.request))["context"]["feature"] == "red"


def test_a_label_of_a_picked_sample_stays_one_when_it_is_shown_again(visit):
    visit.studio.labels.set_many("ann", "tiny", "red", {1003: 1}, how="chosen")
    visit.studio.labels.set_many("ann", "tiny", "red", {1004: 1}, how="guess")
    shown = visit.see(visit.page.named("red", visit.batch, "grid", visit.request))
    assert {item["id"]: item["how"] for item in shown["items"] if "how" in item} == {"1003": "chosen", "1004": "guess"}


def test_odd_labels_of_all_batches_are_counted_and_shown_and_labelling_goes_on_where_it_was(visit):
    labels = label(visit)
    wrong = [seed for seed, value in labels.items() if not value][:2]
    visit.studio.labels.set_many("ann", "tiny", "red", dict.fromkeys(wrong, 1))
    visit.see(visit.page.following("red", visit.batch, "grid", visit.request))
    advice = visit.see([visit.page.advise("red", visit.batch, visit.request)])["advice"]
    assert set(map(str, wrong)) <= set(advice["odd"]) and advice["note"] and advice["guesses"]
    assert not set(advice["odd"]) & {str(seed) for seed in visit.batch.seeds}
    asked = SimpleNamespace(odd=advice["odd"])
    shown = visit.see(visit.page.doubted("red", visit.batch, asked, visit.request))
    assert {item["id"] for item in shown["items"]} == set(advice["odd"])
    assert all(shown["value"][str(seed)] == 1 for seed in wrong)
    visit.see(visit.page.doubted("red", visit.batch, asked, visit.request))
    visit.see(visit.page.following("red", visit.batch, "grid", visit.request))
    assert visit.batch.number == 1 and len(visit.batch.seeds) == 120


# What is asked for


def test_preview_and_run_ask_for_the_settings_of_the_form(visit, monkeypatch):
    label(visit)
    page, told = visit.page, []
    data = {page.feature: "red", page.keep: [], page.also: []}
    data |= {part: page.form.fields[name].default for name, part in page.form.parts.items()}
    data[page.form.parts["direction"]] = "mean"
    target, knobs = page.asked(data, "ann")
    assert target.name == "red" and knobs["direction"] == "mean"
    monkeypatch.setattr(visit.studio, "forget", lambda base, target, method, knobs, **_: told.append(knobs) or "job")
    page.begin(data, "ann")
    assert told == [knobs]


def test_a_run_that_would_drop_what_is_to_be_protected_is_told_about_on_the_page(visit):
    page = visit.page
    data = {page.keep: ["young"], page.form.parts["direction"]: "mean", page.form.parts["move"]: "printed"}
    assert "“young” may change" in str(page.warn(data)[page.caveat])
    assert page.warn({**data, page.keep: []})[page.caveat] == []
    assert page.warn({**data, page.form.parts["move"]: "halfway"})[page.caveat] == []


def test_a_warning_of_the_preview_ends_with_one_full_stop():
    found = SimpleNamespace(
        share=0.1, auc=0.7, warnings=["Label more samples."], edges=[0.0, 1.0, 2.0], gate=1.0, land=0.5,
        random=[3, 1], having=[0, 1], lacking=[1, 0],
    )  # fmt: skip
    assert "Label more samples.'" in str(drawn(found))


def test_a_file_of_another_model_or_truncation_leaves_nothing_behind(visit):
    label(visit, 4)
    text = visit.studio.labels_text("tiny", "red", owner="ann", psi=0.7)
    with pytest.raises(UserError, match=r"truncation 0.7"):
        files.taken(visit.studio, text.encode(), 1.0, "bob")
    visit.studio.first_base = "ffhq"
    with pytest.raises(UserError, match="--base tiny"):
        files.taken(visit.studio, visit.studio.labels_text("tiny", "red", owner="ann").encode(), 1.0, "bob")
    assert visit.studio.labels.features("bob", "tiny") == {}
