"""Signatures: what parses, to what, and what the errors say."""

import re

import pytest
from hypothesis import given

from catdiag import testing
from catdiag.category.types import ArrayType, Axis
from catdiag.frontend.signature import parse, parse_axes
from catdiag.util.errors import AxisError, SignatureError


@given(testing.array_types(composite=True, elements=("real", "extended", "int", "bool")))
def test_the_text_of_a_type_parses_to_the_type(ty: ArrayType) -> None:
    assert parse(str(ty)).inputs == (ty,)
    assert parse_axes(" ".join(ty.names)) == ty.axes


def test_axes_are_names_integers_products_and_coproducts() -> None:
    b, g, x, y = map(Axis, "bgxy")
    assert parse_axes("x (b g) 3 x+y") == (x, b * g, Axis("3", 3), x + y)
    assert parse_axes("(b 3) ((x+y) b)") == (b * Axis("3", 3), (x + y) * b)
    assert parse_axes("(b g)+x") == (b * g + x,)
    assert parse_axes(" x  +  y ") == (x + y,)
    assert parse_axes("d=128") == (Axis("d", 128),)


def test_scalars_and_missing_results() -> None:
    assert parse("q, , x -> ").inputs == (ArrayType((Axis("q"),)), ArrayType(), ArrayType((Axis("x"),)))
    assert parse("q ->").outputs == (ArrayType(),)
    assert parse("q").outputs is None
    assert parse("").inputs == (ArrayType(),)
    assert parse("q -> q, q d").outputs == (ArrayType((Axis("q"),)), ArrayType((Axis("q"), Axis("d"))))


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("q -> d -> q", "2 arrows"),
        ("q → d", "no '->'"),
        ("q * d", "cannot read '*'"),
        ("q -3", "positive integer"),
        ("q 0", "size 0"),
        ("d=0", "size 0"),
        ("(q d", "not closed"),
        ("q d)", "without '('"),
        ("()", "expected an axis before ')'"),
        ("(q +)", "expected an axis before ')'"),
        ("+q", "before '+'"),
        ("q+", "after '+'"),
        ("q++x", "before '+'"),
        ("d=(", "size after 'd='"),
        ("=3", "follows no name"),
        ("float[q]", "no element type"),
        ("q [d", "cannot read '['"),
    ],
)
def test_what_does_not_parse_says_why(text: str, says: str) -> None:
    with pytest.raises(SignatureError, match=re.escape(says)) as caught:
        parse(text)
    assert "test_signature_grammar.py" in str(caught.value.line)


def test_an_axis_twice_in_one_array_is_an_error() -> None:
    with pytest.raises(AxisError, match="twice"):
        parse("x x")


def test_what_is_no_text_is_an_error() -> None:
    with pytest.raises(SignatureError, match="is a text"):
        parse(3)  # type: ignore[arg-type]
    with pytest.raises(SignatureError, match="comma"):
        parse_axes("x, y")
