"""An audit as a run: for a kept erasure and for one that waits, resumed, reported, and on the command line."""

import json
import re

import pytest

import app
from engine import assets
from engine.core.errors import UserError
from engine.core.joblog import State
from engine.core.targets import Photo, Seeds
from tests.audit_aims import red

QUICK = {"tries": 2, "steps": 2, "retraining": 2, "samples": 16}
ATTACKS = ["samples", "neighbours", "encoder", "reinversion", "latent", "latent-half", "search", "probe", "relearning"]


def erase(studio, target=None, method="ascent", **knobs):
    job = studio.forget("tiny", target or Seeds((3,)), method, knobs or {"steps": 3})
    assert studio.wait(job).state is State.DONE
    return job


@pytest.fixture
def audited(studio):
    (name,) = studio.keep(erase(studio))
    job = studio.audit(name, QUICK)
    assert studio.wait(job).error is None
    return job, name


def test_a_kept_erasure_and_a_waiting_result_can_both_be_audited(studio):
    waiting = erase(studio)
    (kept,) = studio.keep(erase(studio))
    subjects = studio.audit_subjects()
    assert [(subject.name, subject.is_kept, subject.wants) for subject in subjects] == [
        (waiting, False, ""),
        (kept, True, ""),
    ]
    assert studio.audit_subjects(owner="ann")[0].wants == "person"  # it is there for all, but the run is not theirs


def test_a_report_has_attacks_seeds_samples_intervals_integrity_and_the_command(studio, audited):
    job, name = audited
    report = json.loads(json.dumps(studio.audit_report(job)))
    assert [finding["name"] for finding in report["findings"]] == ATTACKS
    made = [finding for finding in report["findings"] if finding["standing"] != "skipped"]
    for finding in made:
        for side in ("before", "after"):
            assert (
                finding[side]["low"] <= finding[side].get("share", finding[side].get("value")) <= finding[side]["high"]
            )
        assert finding["tried"] and finding["budget"] and "2000000000" in finding["seeds"]
    facts = {fact["what"]: fact["is_good"] for fact in report["integrity"]}
    assert facts == dict.fromkeys(("Base", "Erasure", "Numbers", "Left out", "Applied now"), True)
    assert report["command"].startswith(f"python app.py audit {name} --person 3 --tries 2")
    assert report["kept"][0]["what"] == "Other samples" and report["budget"]["tries"] == 2
    assert studio.run(job).result["verdict"] == report["verdict"]


def test_the_html_needs_nothing_else_and_holds_the_best_tries(studio, audited):
    page = studio.audit_html(audited[0])
    assert not re.search(r"(src|href)=.?https?:|<script|<link|url\(", page) and "deleted" not in page.lower()
    assert page.count("<img") >= 8 and "data:image/webp;base64," in page
    assert "How it was made" in page and "Whoever has the base has it still." in page


def test_what_a_user_typed_stays_text_in_the_report(studio):
    nasty = "<img src=x onerror=alert(1)>"
    target = red(studio.models.base("tiny"), 60)
    studio.labels.set_many(
        "local", "tiny", nasty, {**dict.fromkeys(target.having, 1), **dict.fromkeys(target.lacking, 0)}
    )
    job = erase(studio, studio.labels.target("local", "tiny", nasty), "feature", steps=2, samples=80)
    page = studio.audit_html(studio.wait(studio.audit(job, QUICK)).id)
    assert nasty not in page and "&lt;img src=x" in page


def test_labels_are_taken_from_the_run_and_without_it_from_the_label_book(studio):
    target = red(studio.models.base("tiny"), 60)
    job = erase(studio, target, "feature", steps=2, samples=80)
    (name,) = studio.keep(job)
    assert studio.audit_subjects()[0].wants == ""
    studio.delete_run(job)
    assert studio.audit_subjects()[0].wants == "labels"
    with pytest.raises(UserError, match="on the Feature page"):
        studio.audit(name, target=Seeds((3,)))
    studio.labels.set_many(
        "local", "tiny", "red", {**dict.fromkeys(target.having, 1), **dict.fromkeys(target.lacking, 0)}
    )
    assert studio.audit_subjects()[0].wants == ""
    report = studio.audit_report(studio.wait(studio.audit(name, QUICK)).id)
    assert report["aim"]["kind"] == "feature" and "--person" not in report["command"]


def test_without_the_person_an_audit_is_refused_with_the_way_out(studio):
    (name,) = studio.keep(erase(studio))
    with pytest.raises(UserError, match="give the person's photo"):
        studio.audit(name, owner="ann")
    assert studio.audit(name, QUICK, target=Seeds((3,)), owner="ann")
    with pytest.raises(UserError, match="no run"):
        studio.audit("nothing")


def test_an_interrupted_audit_goes_on_without_making_its_attacks_again(studio, audited):
    job, _ = audited
    folder = studio.store.run_folder(job)
    found = json.loads((folder / "findings.json").read_text())
    marked = {name: {**finding, "words": "from before"} for name, finding in found.items() if name != "probe"}
    (folder / "findings.json").write_text(json.dumps(marked))
    (folder / "report.json").unlink()
    studio.log.mark(job, State.INTERRUPTED)
    assert studio.wait(studio.resume(job)).state is State.DONE
    words = {finding["name"]: finding["words"] for finding in studio.audit_report(job)["findings"]}
    assert words.pop("probe") != "from before" and set(words.values()) == {"from before"}


def test_an_audit_by_photo_cannot_go_on_without_the_photo(studio):
    (name,) = studio.keep(erase(studio))
    params = {"base": "tiny", "subject": name, "knobs": {}, "deltas": [], "target": {"kind": "Photo", "words": "x"}}
    with pytest.raises(UserError, match="never stored; start it again"):
        studio.begin_audit(params, "local")


@pytest.mark.assets
@pytest.mark.slow
def test_an_audit_by_photo_finds_the_person_again_and_writes_no_picture(studio):
    needs = ("ffhq", "recogniser-a", "recogniser-b", "lpips-alex", "efficientnet-lite0")
    if not all(assets.is_present(asset) for asset in needs):
        pytest.skip("the face networks are not fetched: run 'python app.py assets fetch'")
    (photo,) = studio.sample("ffhq", [501], psi=0.8, size=256)
    job = studio.forget("ffhq", Photo(photo), "guide", {"checked": 8})
    assert studio.wait(job).error is None
    assert studio.audit_subjects()[0].wants == "person"
    audit = studio.audit(job, QUICK, target=Photo(photo))
    assert studio.wait(audit).error is None
    report = studio.audit_report(audit)
    standings = {finding["name"]: finding["standing"] for finding in report["findings"]}
    assert standings["neighbours"] in ("resisted", "weaker")
    assert {fact["what"]: fact["is_good"] for fact in report["integrity"]}["Person"]
    assert report["command"].startswith(f"python app.py audit {job} --photo PHOTO")
    assert not list(studio.store.run_folder(audit).glob("*.webp")) and studio.audit_pictures(audit) == {}


# The command line


def test_the_command_lists_audits_and_reports(studio, tmp_path, capsys):
    (name,) = studio.keep(erase(studio))
    data = ["--data", str(studio.store.root)]
    assert app.main(["audit", *data, "--json"]) == 0
    assert [row["name"] for row in json.loads(capsys.readouterr().out)] == [name]
    page = tmp_path / "audit.html"
    budget = [word for knob, value in QUICK.items() for word in (f"--{knob}", str(value))]
    assert app.main(["audit", name, *data, *budget, "--json", "--report", str(page)]) == 0
    report = json.loads(capsys.readouterr().out)
    assert report["budget"]["tries"] == 2 and len(report["findings"]) == len(ATTACKS)
    assert "<!doctype html>" in page.read_text()
    assert app.main(["audit", name, *data, "--report", "audit.pdf"]) == 1
    assert "name the file .html" in capsys.readouterr().err
    assert app.main(["audit", "nothing", *data]) == 1
