"""The command line as a person types it."""

import json

import pytest

import app
from engine.commands import verbs
from engine.commands.sample import parse_seeds
from engine.core.errors import UserError


@pytest.mark.parametrize("verb", [None, *verbs])
def test_help_reads_well(verb, capsys):
    with pytest.raises(SystemExit) as end:
        app.main([verb, "--help"] if verb else ["--help"])
    text = capsys.readouterr().out
    assert end.value.code == 0 and "usage" in text and "==SUPPRESS==" not in text


def test_sample_writes_pictures_and_says_where(tmp_path, capsys):
    code = app.main(
        [
            "sample",
            "--base",
            "tiny",
            "--seeds",
            "3,5-6",
            "--out",
            str(tmp_path / "o"),
            "--data",
            str(tmp_path),
            "--json",
        ]
    )
    files = json.loads(capsys.readouterr().out)["files"]
    assert code == 0 and len(files) == 3 and all((tmp_path / "o").joinpath(f.split("/")[-1]).exists() for f in files)


def test_a_wrong_word_gives_a_sentence_and_exit_code_one(tmp_path, capsys):
    assert app.main(["sample", "--base", "nope", "--data", str(tmp_path)]) == 1
    said = capsys.readouterr().err
    assert said.startswith("lethe: unknown base 'nope'; known:") and "Traceback" not in said


def test_models_are_listed_with_size_hash_licence_and_parent(tmp_path, capsys):
    assert app.main(["models", "--data", str(tmp_path), "--json"]) == 0
    tiny = next(row for row in json.loads(capsys.readouterr().out) if row["name"] == "tiny")
    assert tiny["size"].startswith("16 px") and len(tiny["fingerprint"]) == 16 and tiny["licence"]
    assert tiny["from"] == "" and tiny["erased"] == ""


def test_the_page_does_not_open_with_a_base_that_is_not_here(tmp_path, capsys):
    assert app.main(["--base", "nope", "--port", "0", "--data", str(tmp_path)]) == 1
    assert capsys.readouterr().err.startswith("lethe: there is no base 'nope' here; there are")


def test_seeds_are_numbers_and_ranges():
    assert parse_seeds("3,7,10-12") == [3, 7, 10, 11, 12]
    for wrong in ("", "a", "5-3", "1,,2", "-1", "0-99999999"):
        with pytest.raises(UserError, match="--seeds"):
            parse_seeds(wrong)


def test_runs_list_is_empty_json_at_first(tmp_path, capsys):
    assert app.main(["runs", "--data", str(tmp_path), "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == []


def test_doctor_names_the_device_and_every_asset(tmp_path, capsys):
    assert app.main(["doctor", "--data", str(tmp_path), "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)
    names = {row["name"] for row in rows}
    assert {"device", "torch", "ffhq", "recogniser-a"} <= names
    assert all(row["way out"] for row in rows if row["state"] in ("missing", "damaged"))


def test_a_folder_that_cannot_be_used_gets_a_sentence(tmp_path, capsys):
    (tmp_path / "file").write_text("")
    assert app.main(["runs", "--data", str(tmp_path / "file" / "data")]) == 1
    assert "--data" in capsys.readouterr().err
    assert app.main(["sample", "--base", "tiny", "--out", str(tmp_path / "file"), "--data", str(tmp_path / "d")]) == 1
    assert "cannot be written" in capsys.readouterr().err


def test_an_export_with_an_odd_name_is_refused_and_writes_nothing(tmp_path, capsys):
    assert app.main(["export", "tiny", str(tmp_path / "x.json"), "--data", str(tmp_path / "d")]) == 1
    assert ".safetensors" in capsys.readouterr().err and not (tmp_path / "x.json").exists()


def test_uploads_of_a_killed_server_are_gone_at_the_next_start(tmp_path):
    folder = app.empty_upload_folder(tmp_path)
    (folder / "photo.jpg").write_text("somebody")
    assert app.empty_upload_folder(tmp_path) == folder and not list(folder.iterdir())
    assert folder.stat().st_mode & 0o777 == 0o700
    folder.rmdir()
