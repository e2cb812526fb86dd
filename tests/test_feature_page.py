"""The Feature page without a browser: its words, what it counts, and what it passes to the studio."""

import pytest

from webui.feature.check import cards


def share(count, of=200):
    return {"count": count, "of": of, "share": 100 * count / of, "low": 0.1, "high": 1.9}


def judged(before, after, removed, *, lpips=0.01, points=0.4, samples=180):
    """What a check leaves in a run's result, as far as the cards read it."""
    return {
        "before": share(before),
        "after": share(after),
        "removed": removed,
        "unaffected": {"samples": samples, "lpips": lpips, "pixels": 0.02},
        "drift": {"young": {"points": points}, "smile": {"points": -0.1}},
    }


def tones(verdict):
    """The three cards by their tone, and all they say."""
    tree = cards(verdict, "glasses")
    return [card[1]["class"].removeprefix("metric").strip() for card in tree[2:]], str(tree)


def test_the_cards_say_what_is_left_what_changed_and_what_moved():
    assert tones(judged(20, 1, 0.95))[0] == ["good", "good", "good"]
    tone, said = tones(judged(20, 8, 0.6, lpips=0.08, points=4.2))
    assert tone == ["warn", "bad", "warn"]
    assert "In 8 of 200 fresh samples, was in 20" in said and "95 % interval 0.1 to 1.9 %" in said
    assert "Visibly changed" in said and "Also moved: young" in said and "young +4.2 points" in said


def test_where_the_judge_saw_the_feature_nowhere_before_the_card_says_that_it_cannot_tell():
    tone, said = tones(judged(0, 0, None))
    assert tone == ["warn", "good", "good"]
    assert "saw it in none of 200 fresh samples before, and in 0 now" in said and "look at the pairs" in said


@pytest.mark.parametrize("pixels", [None, float("nan")])
def test_where_every_sample_showed_it_the_card_of_the_others_says_that_there_are_none(pixels):
    verdict = judged(200, 3, 0.985, lpips=None, samples=0)
    verdict["unaffected"]["pixels"] = pixels
    tone, said = tones(verdict)
    assert tone == ["good", "", "good"] and "There are none" in said
