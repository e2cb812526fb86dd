"""What the check of a feature run says: every erased feature, what else moved, and who may say so."""

import json

import pytest
import torch

from benchmarks.feature_vae import told
from engine.audit.feature import feature_aim
from engine.audit.keeping import keeping
from engine.audit.report import command
from engine.core.errors import UserError
from engine.core.events import result
from engine.core.targets import Labels
from engine.delta import compose
from engine.evaluation import feature
from engine.evaluation.feature import FeatureCheck, gone, in_words
from engine.evaluation.jury import Jury
from engine.methods.feature import Feature
from engine.requests import labelled_codes
from engine.studio.forgetting import describe, revive
from tests.audit_aims import SMALL, red, tiny


@pytest.fixture(scope="module")
def base():
    return tiny()


def colours(pictures):
    """How red and how bright."""
    return torch.stack([(pictures[:, 0] - pictures[:, 2]).mean((1, 2)), pictures.mean((1, 2, 3))], 1)


@pytest.fixture(scope="module")
def bars(base):
    return colours(base.synth(base.map(base.sample_z(range(300))))).quantile(0.75, dim=0)


@pytest.fixture(scope="module")
def jury(bars):
    return Jury(("red", "bright"), lambda pictures: colours(pictures) >= bars, nets=("ruler",))


@pytest.fixture(scope="module")
def both(base, jury):
    """Two features of one run."""
    seen = jury.sees(base.synth(base.map(base.sample_z(range(200)))))
    first, second = (
        Labels(name, *(tuple((seen[:, k] == side).nonzero()[:, 0].tolist()) for side in (True, False)))
        for k, name in enumerate(jury.names)
    )
    return Labels(first.name, first.having, first.lacking, also=(second,))


@pytest.fixture
def judged(monkeypatch, jury):
    """A jury for the tiny base, which has none."""
    monkeypatch.setattr(feature, "jury_of", lambda model: jury)


def test_of_two_erased_features_each_is_counted_before_and_after_and_neither_is_called_drift(base, both, judged, jury):
    method = Feature(steps=80, samples=200, lr=3e-3, checked=150)
    request = labelled_codes(base, both)
    deltas = result(method.run(base, request))
    verdict = result(method.check(base, deltas, request))
    assert list(verdict["erased"]) == ["red", "bright"] and verdict["samples"] == 150
    for one in verdict["erased"].values():
        assert one["before"]["count"] > 20 and one["after"]["count"] < 0.5 * one["before"]["count"]
    assert verdict["drift"] == {} and verdict["after"] == verdict["erased"]["red"]["after"]
    assert sum("% of it is gone" in sentence for sentence in verdict["words"]) == 2
    seeds = range(FeatureCheck.first_seed, FeatureCheck.first_seed + 150)
    had = jury.sees(base.synth(base.map(base.sample_z(seeds)))).any(1)
    assert verdict["unaffected"]["samples"] == int((~had).sum())


def test_a_feature_that_no_judge_knows_is_said_to_be_unknown_beside_one_that_is(base, jury):
    verdict = result(FeatureCheck(jury, seeds=30).run(base, base, "sparkle", "red"))
    assert verdict["erased"]["sparkle"] is None and "after" not in verdict
    assert "No judge on this machine knows “sparkle”" in in_words(verdict)[0] and "“red” in" in in_words(verdict)[1]


def test_what_is_gone_is_said_in_words_and_never_rounded_up():
    assert gone(0.9278) == "92 % of it is gone" and gone(0.999) == "99 % of it is gone"
    assert gone(1.0) == "100 % of it is gone" and gone(-0.1) == "none of it is gone"
    assert gone(None) == "none was seen before"


def test_the_number_of_checked_samples_is_a_setting_that_reaches_two_thousand():
    assert Feature(checked=2000).checked == Feature(**Feature.presets["Thorough"]).checked == 2000


# Who may judge


def test_a_network_that_labelled_may_not_judge_unless_asked_and_then_the_result_says_so(base, both, judged):
    labels = Labels("red", both.having, both.lacking, by="ruler")
    request = labelled_codes(base, labels)
    with pytest.raises(UserError, match="'ruler' has labelled “red” in this run, so it cannot judge"):
        result(Feature(checked=20).check(base, (), request))
    verdict = result(Feature(checked=20, any_judge=True).check(base, (), request))
    assert verdict["words"][-1].startswith("Not independent: the judge 'ruler' has also labelled “red”")
    assert result(Feature(checked=20).check(base, (), labelled_codes(base, both)))["caveats"] == []


def test_who_labelled_travels_with_the_labels_and_with_a_run_that_is_resumed(studio, base, both):
    labels = Labels("red", both.having, both.lacking, keep=(Labels("bright", both.having, both.lacking, by="second"),))
    assert revive(json.loads(json.dumps(describe(labels)))) == labels
    request = labelled_codes(base, labels)
    assert request.roles == {"labelled “bright”": "second"}
    studio.store.save_request("0123456789ab", request)
    assert studio.store.read_request("0123456789ab").to("cpu").roles == request.roles


def test_a_run_labelled_by_its_judge_is_not_checked_and_says_why(studio, both, judged):
    labels = Labels("red", both.having, both.lacking, by="ruler")
    job = studio.forget("tiny", labels, "feature", {"steps": 2, "samples": 60})
    verdict = studio.wait(job).result["verdict"]
    assert "cannot judge the result" in verdict["unchecked"]


def test_a_benchmark_says_where_the_one_who_labelled_also_counts():
    assert told("the labelling net", "the labelling net") == "the labelling net (not independent)"
    assert told("the judge", "the labelling net") == "the judge"


# The audit


@pytest.fixture
def audited_by(monkeypatch, jury):
    """Feature aims as on a base whose feature our nets know: the eyes are the jury's."""
    eyes = {"pull": lambda x: colours(x)[:, 0], "reads": lambda x: colours(x)[:, 0], "bar": 0.0}
    monkeypatch.setattr("engine.audit.feature.jury_of", lambda model: jury)
    monkeypatch.setattr("engine.audit.feature.attribute_of", lambda name: name)
    monkeypatch.setattr("engine.audit.feature.reader", lambda: "ruler")
    monkeypatch.setattr("engine.audit.feature.by_nets", lambda *_: {**eyes, "attacker": "a", "judge": "b"})


def test_an_audit_refuses_a_judge_that_labelled_unless_asked_and_then_says_so(base, both, audited_by):
    labels = Labels("red", both.having, both.lacking, by="ruler")
    with pytest.raises(UserError, match="cannot judge"):
        result(feature_aim(base, labels))
    (said,) = result(feature_aim(base, labels, any_judge=True)).caveats
    assert said.startswith("Not independent")
    assert result(feature_aim(base, Labels("red", both.having, both.lacking))).caveats == ()
    again = command("x", {"kind": "Labels"}, [("tries", 4), ("any_judge", True)])
    assert "audit x --tries 4 --any-judge --report" in again


def test_an_audit_of_two_features_says_that_it_looks_at_the_first_and_calls_neither_drift(
    base, both, jury, monkeypatch
):
    aim = result(feature_aim(base, both))
    assert aim.words == "“red”" and aim.also == ("bright",)
    assert aim.caveats == ("The run erased 2 features; this audit looks for “red” only.",)
    others = Jury(("bright",), lambda pictures: jury.sees(pictures)[:, 1:])
    monkeypatch.setattr("engine.audit.keeping.jury_of", lambda model: others)
    darker = compose(base, [])
    with torch.no_grad():
        darker.synthesis["rgb"].bias -= 1.0

    def named(aim):
        return any("bright" in one.words for one in result(keeping(base, darker, aim, SMALL)))

    assert not named(aim) and named(result(feature_aim(base, red(base))))
