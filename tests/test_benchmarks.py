"""One benchmark that fails costs only its own section, and a section's foot is the command that makes it again."""

import re
from pathlib import Path

import pytest

from benchmarks import __main__ as benchmarks
from benchmarks.tables import spread

GOOD = "import sys\nif __name__ == '__main__':\n    print('## Good', *sys.argv[1:])\n"
BAD = "if __name__ == '__main__':\n    print('## Half of a table')\n    raise SystemExit(1)\n"


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A folder with two benchmarks, of which the first fails, and a module that is none."""
    place = tmp_path / "benchmarks"
    place.mkdir()
    for name, text in {"bad": BAD, "good": GOOD, "helper": "X = 1\n", "other": GOOD}.items():
        (place / f"{name}.py").write_text(text)
    monkeypatch.setattr(benchmarks, "HERE", place)
    monkeypatch.setattr(benchmarks, "RESULTS", place / "RESULTS.md")
    monkeypatch.setattr(benchmarks, "SPEED", ("bad", "good"))
    return place


def sections(folder: Path) -> dict[str, str]:
    return dict(re.findall(r"<!-- (\w+) -->\n(.*?)(?=<!--|\Z)", (folder / "RESULTS.md").read_text(), re.DOTALL))


def test_one_that_fails_leaves_its_old_section_and_the_others_are_measured(folder, capsys):
    benchmarks.put_section("bad", "## As it was")
    assert benchmarks.main(["speed"]) == 1
    found = sections(folder)
    assert found["bad"].strip() == "## As it was" and found["good"].startswith("## Good\n") and len(found) == 2
    assert "failed, so their sections are as they were: bad" in capsys.readouterr().err


def test_quality_is_what_is_not_speed(folder):
    assert benchmarks.main(["quality"]) == 0
    assert list(sections(folder)) == ["other"]


def test_the_foot_is_the_command_that_makes_the_section_again(folder):
    assert benchmarks.main(["good", "--model", "two words"]) == 0
    section = sections(folder)["good"]
    assert section.startswith("## Good --model two words\n")
    assert "_`python -m benchmarks good --model 'two words'`, " in section
    assert benchmarks.main(["good"]) == 0
    assert "_`python -m benchmarks good`, " in sections(folder)["good"]


@pytest.mark.parametrize("words", [["nothing"], ["good", "bad", "--rounds", "3"], []])
def test_words_that_mean_nothing_are_refused_before_anything_runs(folder, words):
    with pytest.raises(SystemExit):
        benchmarks.main(words)
    assert not (folder / "RESULTS.md").exists()


def test_every_benchmark_of_speed_is_there_and_the_published_head_is_the_one_that_would_be_written():
    assert set(benchmarks.SPEED) <= set(benchmarks.scripts())
    assert benchmarks.RESULTS.read_text().startswith(benchmarks.HEAD + "\n<!-- ")


def test_a_spread_is_the_median_between_the_least_and_the_most():
    assert spread([3, 1, 2.5]) == "2.50 (1.00 to 3.00)" and spread([4, 2], ".0f") == "3 (2 to 4)"
