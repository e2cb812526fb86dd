"""Attacks find what is there as often as on the base, and do not find what is really absent."""

import copy

import pytest
import torch

from engine import assets
from engine.audit import attacks
from engine.audit.attack import Budget, part
from engine.audit.course import STOPPED, course
from engine.audit.face import face_aim
from engine.audit.finding import Figure, Finding, Side
from engine.audit.integrity import applied, code, weights
from engine.audit.probe import figure
from engine.audit.verdict import STANDINGS, headline, plain, standing
from engine.core.events import Done, Progress, result
from engine.data import LatentBatch, Request
from engine.delta import Card, Delta, compose, digest, fingerprint
from engine.evaluation.shares import Share, is_less_often
from engine.generators.dcgan import Dcgan
from engine.methods.guide import Guide
from tests.audit_aims import SMALL, aims, tiny, without

GRADIENT = {"reinversion": "lpips-alex"}  # attacks that need an asset
KINDS = ("feature", "face")


@pytest.fixture(scope="module")
def base():
    return tiny()


@pytest.fixture(scope="module")
def known(base):
    return aims(base)


def found(name, before, after, aim, budget=SMALL):
    if name in GRADIENT and not assets.is_present(GRADIENT[name]):
        pytest.skip(f"{GRADIENT[name]} is not fetched: run 'python app.py assets fetch'")
    return result(attacks[name](budget).run(before, after, aim))


# The attacks


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", attacks)
def test_against_an_unchanged_model_every_attack_succeeds_as_often_as_on_the_base(base, known, name, kind):
    finding = found(name, base, copy.deepcopy(base), known[kind])
    if finding.skipped:
        assert (name, kind) in {("samples", "face"), ("encoder", "face"), ("encoder", "feature")}
        return
    assert finding.before.outcome == finding.after.outcome
    assert standing(finding) == "back"


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", attacks)
def test_against_a_model_that_has_it_not_no_attack_succeeds(base, known, name, kind):
    finding = found(name, base, without(base), known[kind], Budget(tries=16, steps=8, retraining=2, samples=32))
    if finding.skipped:
        return
    if isinstance(finding.after.outcome, Figure):
        assert finding.after.outcome.low <= 0.5
    else:
        assert finding.after.outcome.count == 0
    assert standing(finding) == "resisted"


def test_a_redirected_code_shows_a_stranger_but_other_codes_are_found_that_show_the_sample(base, known):
    w = base.map(base.sample_z([3]))
    after = compose(base, result(Guide(steps=0).run(base, Request(LatentBatch(w, "a seed"), "x")))).requires_grad_(
        False
    )
    assert standing(found("neighbours", base, after, known["face"])) == "resisted"
    assert standing(found("search", base, after, known["face"], Budget(tries=4, steps=16))) == "back"


@pytest.mark.parametrize("name", ["latent", "search", "relearning"])
def test_an_attack_repeats_with_its_seed_and_leaves_both_models_alone(base, known, name):
    after = without(base)
    marks = fingerprint(base), fingerprint(after)
    first, second = (result(attacks[name](SMALL).run(base, after, known["face"])).plain() for _ in range(2))
    assert first == second and (fingerprint(base), fingerprint(after)) == marks
    assert not any(p.requires_grad for p in after.parameters())


def test_the_judge_and_the_attacker_of_a_labelled_feature_learned_from_different_samples(base, known):
    aim, x = known["feature"], known["feature"].pictures[:4]
    assert not torch.equal(aim.pull(x), aim.reads(x)) and "other samples" in aim.judge
    assert (aim.reads(aim.pictures) > 0).float().mean() > 0.8


def test_a_model_that_has_only_z_is_audited_too_and_says_what_does_not_apply():
    with torch.random.fork_rng():
        torch.manual_seed(0)
        model = Dcgan(z_dim=8, channels=(16, 8, 8, 8)).eval().requires_grad_(False)
    aim = face_aim(model, model.map(model.sample_z([3])), "this sample", of_faces=False)
    for name in ("neighbours", "latent", "search", "probe"):
        assert standing(found(name, model, copy.deepcopy(model), aim, Budget(tries=2, steps=4))) in ("back", "blind")
    skipped = found("encoder", model, model, aim)
    assert skipped.skipped == "no encoder was trained for this model" and standing(skipped) == "skipped"


# The whole course


def test_the_course_makes_every_attack_once_and_looks_at_what_should_have_stayed(base, known):
    told = []
    events = list(course(base, without(base), known["feature"], SMALL, found=told.append))
    outcome = events[-1].result
    assert [finding["name"] for finding in outcome.findings] == [finding.name for finding in told]
    assert {finding["name"] for finding in outcome.findings} == set(attacks)
    assert outcome.kept[0]["what"] == "Samples without “red”" and not outcome.kept[0]["is_good"]
    steps = [event.step for event in events if isinstance(event, Progress)]
    assert steps == sorted(steps) and {event.total for event in events[:-1]} == {100}
    assert not any(event.images for event in events[:-1])


def test_a_course_that_was_cut_off_makes_only_what_is_missing(base, known):
    told, first = [], {"name": "samples", "standing": "resisted", "words": "from before"}
    outcome = result(course(base, base, known["face"], SMALL, {"samples": first}, told.append))
    assert outcome.findings[0] is first and "samples" not in [finding.name for finding in told]


def test_a_stopped_course_counts_only_what_it_ended(base, known):
    task, event, done = course(base, base, known["feature"], SMALL), None, []
    while not isinstance(event, Done):
        event = task.send(None if event is None else bool(done))
        if isinstance(event, Progress) and event.note == "neighbours in latent space":
            done.append(event)
    standings = {finding["name"]: finding["standing"] for finding in event.result.findings}
    assert standings["samples"] == "back" and standings["latent"] == standings["relearning"] == "skipped"
    assert STOPPED in event.result.findings[-1]["words"] and event.result.kept == []


def test_a_part_has_its_place_in_the_whole_and_keeps_its_pictures_to_itself():
    def task():
        yield Progress(1, 2, {"loss": 1.0}, {"inversion": "a face"}, "inside")
        yield Done("made")

    first, last = part(task(), 1, 4, "outside")
    assert (first.step, first.total, first.note, dict(first.images)) == (375, 1000, "outside", {})
    assert last.result == "made"


# Words


def shares(before, after, name="search", **more):
    sides = (Side(Share(*before)), Side(Share(*after), **more))
    return Finding(name, "Search without bounds", "look", "8 starts", "2000000000", *sides)


@pytest.mark.parametrize(
    ("before", "after", "stands"),
    [
        ((8, 8), (8, 8), "back"),
        ((8, 8), (2, 8), "weaker"),
        ((8, 8), (0, 8), "resisted"),
        ((2, 2), (0, 2), "unclear"),
        ((0, 8), (0, 8), "blind"),
        ((0, 8), (3, 8), "blind"),
    ],
)
def test_an_attack_is_told_by_what_the_counts_bear(before, after, stands):
    finding = shares(before, after)
    assert standing(finding) == stands
    words = plain(finding)["words"]
    assert f"{after[0]} of {after[1]}" in words and "95 % interval" in words


def test_fewer_successes_count_as_less_only_beyond_chance():
    assert is_less_often(Share(0, 4), Share(4, 4)) and is_less_often(Share(2, 100), Share(15, 100))
    assert not is_less_often(Share(0, 2), Share(2, 2)) and not is_less_often(Share(0, 24), Share(3, 24))
    assert not is_less_often(Share(8, 8), Share(8, 8)) and not is_less_often(Share(3, 8), Share(0, 8))


def test_retraining_says_after_how_many_steps():
    assert plain(shares((8, 8), (6, 8), "relearning", steps=6))["words"].startswith("Back after 6 steps of retraining")
    assert plain(shares((8, 8), (8, 8), "relearning", steps=0))["words"].startswith("There without any retraining")
    short = plain(shares((8, 8), (1, 8), "relearning"))
    assert short["standing"] == "resisted" and short["words"].startswith("Not back within the budget: 1 of 8 pairs (")


def test_a_probe_is_compared_with_chance_and_with_the_base():
    def probe(value, low, high):
        sides = (Side(Figure(0.95, 0.9, 0.99, 0.5)), Side(Figure(value, low, high, 0.5)))
        return Finding("probe", "Probe", "teach", "20 samples", "0", *sides)

    cases = {"back": (0.93, 0.88, 0.98), "weaker": (0.7, 0.6, 0.8), "resisted": (0.5, 0.4, 0.6)}
    assert {stands: standing(probe(*numbers)) for stands, numbers in cases.items()} == {s: s for s in cases}
    perfect = figure(torch.arange(20.0), torch.arange(20) >= 10)
    assert perfect.value == 1 and 0.8 < perfect.low < 1
    turned = probe(0.1, 0.0, 0.3)
    assert standing(turned) == "resisted" and "turned into its opposite" in plain(turned)["words"]


def test_the_headline_never_says_that_something_is_gone_and_always_who_still_has_it():
    def made(*standings):
        return [{"standing": stands, "title": "Search"} for stands in standings]

    for standings in (["back", "resisted"], ["weaker"], ["resisted"], ["unclear"], ["skipped", "blind"], STANDINGS):
        said = " ".join(headline("“glasses”", made(*standings)))
        assert not any(word in said.lower() for word in ("deleted", "gone", "removed", "proof", "forgotten"))
    assert headline("“glasses”", made("back", "resisted"))[0] == "“glasses” can be brought back."
    assert headline("this person", made("resisted"))[0] == "Nothing that was tried brought this person back."
    assert "Whoever has the base has it still." in headline("x", made("resisted"))[-1]
    assert headline("x", made("skipped"))[0].startswith("Nothing can be said of x")


# Integrity


@pytest.fixture
def erased(base):
    student = without(base)
    delta = Delta.between(base, student, Card({}, "red", base=fingerprint(base)))
    return Delta(Card(**{**vars(delta.card), "weights": delta.fingerprint}), delta.tensors)


def test_a_sound_erasure_passes_and_a_changed_file_or_base_does_not(base, erased):
    assert [fact.is_good for fact in weights(base, erased)] == [True, True, True, True]
    name, change = next(iter(erased.tensors.items()))
    touched = Delta(erased.card, {**erased.tensors, name: change * torch.inf})
    assert [fact.is_good for fact in weights(base, touched)][:3] == [True, False, False]
    assert not weights(without(base), erased)[0].is_good
    old = Delta(Card({}, "red", base=fingerprint(base)), erased.tensors)
    assert weights(base, old)[1].is_good is None


@pytest.mark.parametrize(
    ("on_top_of", "present", "active", "good", "words"),
    [
        ([], [], ["x"], [True], "exactly the audited combination"),
        ([], [], [], [None], "without this erasure"),
        (["a"], ["a"], ["a", "b", "x"], [False], "another combination than the audited one: b"),
        (["a"], [], ["x"], [False, False], "another order"),
    ],
)
def test_the_card_is_compared_with_what_is_applied_now(on_top_of, present, active, good, words):
    facts = applied("x", on_top_of, present, active)
    assert [fact.is_good for fact in facts] == good and words in facts[-1].words


def test_a_person_is_known_again_by_the_fingerprint_of_the_code_alone(base):
    w = base.map(base.sample_z([3]))
    assert code(w, digest({"w": w}))[0].is_good and code(w, "0123456789abcdef")[0].is_good is None
    assert code(w, "") == []
