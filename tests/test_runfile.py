"""A run goes out as a zip and comes into another installation; a zip that is not what it says is refused in words."""

import json
import zipfile
from pathlib import Path

import numpy as np
import pytest

from engine.core.errors import UserError
from engine.core.joblog import State
from engine.core.targets import Seeds
from engine.studio import Studio


@pytest.fixture(scope="module")
def here(tmp_path_factory):
    made = Studio(tmp_path_factory.mktemp("here"), "cpu", base="tiny")
    job = made.forget("tiny", Seeds((3,)), "ascent", {"steps": 12, "seed": 5})
    made.wait(job)
    yield made
    made.close()


@pytest.fixture
def there(tmp_path):
    made = Studio(tmp_path / "there", "cpu", base="tiny")
    yield made
    made.close()


@pytest.fixture
def parcel(here, tmp_path):
    return here.export_run(here.runs()[0].id, tmp_path / "run.zip")


def changed(parcel, tmp_path, change):
    """The same zip with `change(files)` done to its contents."""
    with zipfile.ZipFile(parcel) as file:
        files = {name: file.read(name) for name in file.namelist()}
    change(files)
    path = tmp_path / "changed.zip"
    with zipfile.ZipFile(path, "w") as file:
        for name, content in files.items():
            file.writestr(name, content)
    return path


PARAMS = {"base": "tiny", "method": "ascent", "knobs": {}, "deltas": []}
PARAMS |= {"target": {"kind": "Seeds", "words": "x", "seeds": [1]}}


def record(**values):
    def change(files):
        files["run.json"] = json.dumps(json.loads(files["run.json"]) | values).encode()

    return change


def test_a_run_arrives_with_settings_scores_pictures_log_and_the_same_delta(here, there, parcel):
    old = here.runs()[0]
    job = there.import_run(parcel, owner="ann")
    new = there.run(job, "ann")
    assert job != old.id and new.result["from"] == old.id and new.title == old.title and new.params == old.params
    assert new.result["scalars"] == old.result["scalars"] and new.created == old.created
    assert new.result["fingerprints"] == old.result["fingerprints"]
    assert [data for _, _, data in there.log.events(job)] == [data for _, _, data in here.log.events(old.id)]
    shown = next(data["images"] for _, _, data in there.log.events(job) if "images" in data)
    assert all(there.preview(job, file, "ann") for file in shown.values())
    (name,) = new.result["kept"]
    assert there.active("tiny") == [], "nothing is applied before somebody wants it"
    there.activate("tiny", [name])
    assert there.standing("tiny").is_exact
    again = there.repeat(job, owner="ann")
    assert there.wait(again).result["fingerprints"] == old.result["fingerprints"], "the same seed, the same delta"


def test_a_kept_run_travels_as_well_as_a_waiting_one(here, there, tmp_path):
    job = here.forget("tiny", Seeds((9,)), "ascent", {"steps": 2})
    here.wait(job)
    here.keep(job)
    arrived = there.import_run(here.export_run(job, tmp_path / "kept.zip"))
    assert there.run(arrived).result["fingerprints"] == here.run(job).result["fingerprints"]


def test_pictures_of_a_person_who_came_by_photo_stay_here(studio, tmp_path):
    job = studio.log.add(
        "local", "forget", "Forget a person", {"target": {"kind": "Photo", "words": "x"}, "base": "tiny"}
    )
    for name in ("before", "before-worst-1"):
        studio.store.preview(job, 1, name, np.zeros((8, 8, 3), np.uint8))
    studio.log.mark(job, State.DONE)
    with zipfile.ZipFile(studio.export_run(job, tmp_path / "p.zip")) as file:
        assert set(file.namelist()) == {"run.json", "pictures/000001-before-worst-1.webp"}


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda files: files.pop("run.json"), "not hold one run"),
        (lambda files: files.update({"../../evil.py": b"x"}), "no part of a run"),
        (lambda files: files.update({"/tmp/lethe-test-must-not-exist": b"x"}), "no part of a run"),
        (lambda files: files.update({"deltas/0.safetensors": b"nonsense"}), "not a delta"),
        (lambda files: files.update({"pictures/000001-before.webp": b"GIF89a"}), "cannot be read"),
        (lambda files: files.update({"run.json": b"{"}), "not a run's"),
        (lambda files: files.update({"run.json": b"[" * 100_000}), "not a run's"),
        (record(format=99), "format 99"),
        (record(state="running"), "not a run's"),
        (record(title=["x"]), "not a run's"),
        (record(created=1e300), "not a run's"),
        (record(fingerprint="0" * 16), "other weights"),
        (record(events=[[1.0, {"step": "x", "total": 3}]]), "not a run's"),
        (record(params=PARAMS | {"base": "nobody"}), "not here"),
        (record(params=PARAMS | {"base": "../tiny"}), "not here"),
        (record(params=PARAMS | {"method": "os.system"}), "does not have"),
        (record(params=PARAMS | {"knobs": {"steps": -1}}), "steps"),
        (record(params=PARAMS | {"target": {"kind": "Seeds", "words": "x", "evil": 1}}), "what was forgotten"),
    ],
)  # fmt: skip
def test_a_damaged_or_hostile_zip_is_refused_and_leaves_nothing(there, parcel, tmp_path, change, said):
    before = sorted(there.store.root.rglob("*"))
    with pytest.raises(UserError, match=said):
        there.import_run(changed(parcel, tmp_path, change))
    assert there.runs() == [] and sorted(there.store.root.rglob("*")) == before
    assert not (tmp_path / "evil.py").exists() and not Path("/tmp/lethe-test-must-not-exist").exists()


def test_a_file_that_is_no_zip_or_was_cut_off_is_refused(there, parcel, tmp_path):
    (tmp_path / "no.zip").write_bytes(b"not a zip")
    (tmp_path / "cut.zip").write_bytes(parcel.read_bytes()[:-200])
    flipped = bytearray(parcel.read_bytes())
    flipped[len(flipped) // 2] ^= 255
    (tmp_path / "flipped.zip").write_bytes(flipped)
    for name in ("no.zip", "cut.zip", "flipped.zip"):
        with pytest.raises(UserError, match="not a whole zip"):
            there.import_run(tmp_path / name)
    assert there.runs() == []


def test_a_zip_that_unpacks_to_too_much_is_refused_before_it_is_unpacked(there, parcel, tmp_path, monkeypatch):
    monkeypatch.setattr("engine.runfile.LARGEST", 1000)
    with pytest.raises(UserError, match="more than 4 GB"):
        there.import_run(parcel)


def test_a_delta_that_does_not_fit_or_is_not_a_number_is_refused(there, parcel, tmp_path):
    import torch
    from safetensors import safe_open
    from safetensors.torch import save

    def spoil(value):
        def change(files):
            (tmp_path / "d").write_bytes(files["deltas/0.safetensors"])
            with safe_open(tmp_path / "d", framework="pt") as file:
                tensors, words = {name: file.get_tensor(name) for name in file.keys()}, file.metadata()  # noqa: SIM118
            files["deltas/0.safetensors"] = save({name: value(tensor) for name, tensor in tensors.items()}, words)

        return change

    for value in (lambda t: t * torch.nan, lambda t: torch.zeros(3), lambda t: t.int()):
        with pytest.raises(UserError, match="does not fit"):
            there.import_run(changed(parcel, tmp_path, spoil(value)))
    assert there.deltas() == {}


def test_a_run_that_goes_on_and_somebody_elses_run_are_not_exported(here, tmp_path):
    job = here.forget("tiny", Seeds((3,)), "ascent", {"steps": 2000})
    with pytest.raises(UserError, match="when it has ended"):
        here.export_run(job, tmp_path / "x.zip")
    here.stop(job, keep=False)
    here.wait(job)
    with pytest.raises(UserError, match="no run"):
        here.export_run(job, tmp_path / "x.zip", owner="bob")
