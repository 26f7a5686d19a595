"""exp of a value that may be −∞ may be 0: it is no unit, and does not cancel."""

import pytest

from catdiag.kernel.context import Context
from catdiag.kernel.rewrite_rules import apply
from catdiag.kernel.terms import ONE, Term, fn, mul, read


def _context(element: str) -> Context:
    return Context(lambda hypotheses, goal: False, elements={"A": element})


def test_exp_of_a_real_cancels_with_its_inverse() -> None:
    exp = fn("exp", read("A"))
    assert apply(_context("real"), mul(exp, fn("inv", exp)), "ring", []) == ONE


@pytest.mark.parametrize("build", [lambda e: mul(e, fn("inv", e)), lambda e: fn("inv", fn("inv", mul(e, e)))])
def test_exp_of_a_value_that_may_be_minus_infinity_does_not(build) -> None:
    exp: Term = fn("exp", read("A"))
    result = apply(_context("extended"), build(exp), "ring", [])
    assert result != ONE
    assert "exp" in result.key
