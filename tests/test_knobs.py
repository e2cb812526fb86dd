from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.core.errors import UserError
from engine.core.knobs import build, check, knob, knobs, values
from engine.core.registry import Registry
from engine.methods import methods


@dataclass(frozen=True)
class Sample:
    steps: int = knob(10, "how many", min=1, max=100)
    rate: float = knob(0.5, "how fast", min=0.0, max=1.0)
    kind: str = knob("a", "which", choices=("a", "b"))
    quick: bool = knob(False, "whether")

    def __post_init__(self):
        check(self)


@given(st.one_of(st.integers(), st.floats(), st.text(), st.booleans(), st.none(), st.lists(st.integers())))
def test_any_value_is_either_within_the_range_or_refused_by_name(value):
    try:
        made = build(Sample, {"steps": value})
    except UserError as error:
        assert "steps" in str(error)
    else:
        assert isinstance(made.steps, int) and 1 <= made.steps <= 100


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"steps": 0}, "[1, 100]"),
        ({"rate": float("nan")}, "[0, 1]"),
        ({"kind": "c"}, "one of a, b"),
        ({"quick": 1}, "yes or no"),
        ({"stepps": 3}, "known: steps, rate, kind, quick"),
    ],
)
def test_a_refusal_says_the_rule(wrong, words):
    with pytest.raises(UserError, match=words.replace("[", r"\[")):
        build(Sample, wrong)


def test_a_card_can_rebuild_its_method():
    made = build(Sample, {"steps": 7, "kind": "b"})
    assert build(Sample, values(made)) == made


@pytest.mark.parametrize("name", methods)
def test_every_knob_of_every_method_has_help_and_a_range(name):
    for field in knobs(methods[name]):
        assert field.metadata["help"], field.name
        bounded = field.metadata["choices"] or field.type is bool or field.type is str
        assert bounded or field.metadata["min"] is not None, f"{name}.{field.name} has no lower bound"


def test_a_registry_explains_a_wrong_name_and_refuses_a_taken_one():
    registry = Registry("method")
    registry.register("guide")(object())
    with pytest.raises(UserError, match="unknown method 'gide'; known: guide"):
        registry["gide"]
    with pytest.raises(ValueError, match="twice"):
        registry.register("guide")(object())
