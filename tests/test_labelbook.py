"""Labels: kept by owner, base and feature; all of a batch or none of it."""

import sqlite3

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from engine.core.errors import UserError
from engine.core.labelbook import Counts, LabelBook
from engine.core.targets import Labels


@pytest.fixture
def book(tmp_path):
    return LabelBook(tmp_path / "studio.sqlite")


def test_a_label_is_there_for_its_owner_and_for_nobody_else(book):
    book.set_many("ann", "tiny", "glasses", {3: 1, 4: 0})
    book.set_many("bob", "tiny", "glasses", {3: 0})
    assert {seed: label.value for seed, label in book.get("ann", "tiny", "glasses").items()} == {3: 1, 4: 0}
    assert book.counts("bob", "tiny", "glasses") == Counts(0, 1)
    assert book.get("ann", "ffhq", "glasses") == {} and book.get("eve", "tiny", "glasses") == {}
    assert book.features("ann", "tiny") == {"glasses": Counts(1, 1)} and book.features("eve", "tiny") == {}


def test_a_later_answer_replaces_an_earlier_one_and_none_takes_it_back(book):
    book.set_many("ann", "tiny", "hat", {3: 1, 4: 1}, page=2)
    book.set_many("ann", "tiny", "hat", {3: 0, 4: None}, how="chosen")
    (seed, label), *rest = book.get("ann", "tiny", "hat").items()
    assert (seed, label.value, label.how, label.page) == (3, 0, "chosen", None) and not rest


def test_a_batch_with_one_bad_label_changes_nothing(book):
    for bad in ({1: 1, 2: 7}, {1: 1, -2: 1}, {1: 1, "x": 1}, {1: True}, {2**63: 1}):
        with pytest.raises(UserError):
            book.set_many("ann", "tiny", "hat", bad)
    with pytest.raises(UserError, match="random"):
        book.set_many("ann", "tiny", "hat", {1: 1}, how="by magic")
    assert book.get("ann", "tiny", "hat") == {}


def test_a_name_is_any_text_but_nothing_or_endless(book):
    for name in ("", "   ", "x" * 61, None, 3):
        with pytest.raises(UserError, match="name"):
            book.set_many("ann", "tiny", name, {1: 1})
    for name in ("<img src=x onerror=alert(1)>", "${alert(1)}", "'; drop table label; --", "眼鏡 👓"):
        book.set_many("ann", "tiny", f"  {name} ", {1: 1})
        assert book.counts("ann", "tiny", name) == Counts(1, 0)


def test_the_target_knows_both_sides_and_what_was_picked_actively(book):
    book.set_many("ann", "tiny", "hat", {3: 1, 4: 0})
    book.set_many("ann", "tiny", "hat", {9: 1}, how="guess")
    assert book.target("ann", "tiny", "hat") == Labels("hat", having=(3, 9), lacking=(4,), chosen=(9,))


def test_counts_tell_apart_what_was_picked_from_what_was_drawn_at_random(book):
    book.set_many("ann", "tiny", "hat", {3: 1, 4: 0, 5: 0})
    book.set_many("ann", "tiny", "hat", {9: 1, 10: 0}, how="guess")
    book.set_many("ann", "tiny", "hat", {11: 1}, how="chosen")
    assert book.counts("ann", "tiny", "hat") == Counts(3, 3, picked_having=2, picked_lacking=1)
    assert book.counts("ann", "tiny", "hat").random == Counts(1, 2)


def test_exported_labels_come_back_the_same_for_another_owner(book):
    book.set_many("ann", "tiny", "hat", {3: 1, 4: 0}, how="chosen", page=1)
    exported = book.export("ann", "tiny", "hat")
    assert "ann" not in str(exported)
    assert book.load("bob", exported) == "hat"
    assert book.export("bob", "tiny", "hat")["labels"] == exported["labels"]
    book.delete("ann", "tiny", "hat")
    assert book.get("ann", "tiny", "hat") == {} and len(book.get("bob", "tiny", "hat")) == 2


def test_a_file_without_times_is_taken_and_one_with_a_senseless_time_is_not(book):
    book.set_many("ann", "tiny", "hat", {3: 1})
    exported = book.export("ann", "tiny", "hat")
    row = exported["labels"][0]
    for bad in ("noon", float("nan"), -1.0, True):
        with pytest.raises(UserError, match="since 1970"):
            book.load("bob", {**exported, "labels": [row | {"t": bad}]})
    assert book.get("bob", "tiny", "hat") == {}
    book.load("bob", {**exported, "labels": [{"seed": 3, "value": 1}]})
    assert book.get("bob", "tiny", "hat")[3].t >= row["t"]


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: (
        st.lists(inner) | st.dictionaries(st.sampled_from(["format", "base", "feature", "labels", "x"]), inner)
    ),
)


@settings(max_examples=60, deadline=None)
@given(json_values)
def test_a_foreign_file_is_refused_with_a_sentence(tmp_path_factory, exported):
    assume(not (isinstance(exported, dict) and exported.get("format") == 1))  # that would be one of ours
    book = LabelBook(tmp_path_factory.getbasetemp() / "foreign.sqlite")
    with pytest.raises(UserError):
        book.load("ann", exported)


def test_a_locked_database_says_so(book):
    with sqlite3.connect(book.path) as other:
        other.execute("begin exclusive")
        with pytest.MonkeyPatch.context() as patch:
            real = sqlite3.connect
            patch.setattr(sqlite3, "connect", lambda path, timeout: real(path, timeout=0.01))
            with pytest.raises(UserError, match="try again"):
                book.set_many("ann", "tiny", "hat", {1: 1})
