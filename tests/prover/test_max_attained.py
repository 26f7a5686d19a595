"""A maximum is attained: a bound that one of its terms reaches is what it is."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import catdiag as cd

LAWS: list[tuple[Callable[..., Any], Callable[..., Any]]] = [
    (lambda e, r: cd.max(cd.minimum(e, r), "x"), lambda e, r: cd.minimum(cd.max(e, "x"), r)),
    (lambda e, r: cd.min(cd.maximum(e, r), "x"), lambda e, r: cd.maximum(cd.min(e, "x"), r)),
]


@pytest.mark.parametrize("law", LAWS)
def test_a_bound_from_above_comes_out_of_a_maximum(law: tuple[Callable[..., Any], Callable[..., Any]]) -> None:
    left, right = (cd.algorithm("x, ->", name=name)(f) for name, f in zip("fg", law, strict=True))
    assert not cd.prove(left, right).conditional


def test_a_bound_that_no_term_reaches_is_no_maximum() -> None:
    capped = cd.algorithm("x, ->", name="f")(lambda e, r: cd.max(cd.minimum(e, r), "x"))
    bound = cd.algorithm("x, ->", name="g")(lambda e, r: r + 0 * cd.max(e, "x"))
    with pytest.raises(cd.Refuted):
        cd.prove(capped, bound)


def masked(less: Callable[[Any, Any], Any], quotient: bool) -> cd.Program:
    """An array times 1: a quotient by itself, or the exponential of a difference with itself, of what is not masked."""

    def times_one(a: Any) -> Any:
        seen = less(cd.index("x"), cd.index("q"))
        if quotient:
            total = cd.sum(cd.where(seen, cd.exp(a), 0), "x")
            return a * (total / total)
        top = cd.max(cd.where(seen, a, -cd.inf), "x")
        return a * cd.exp(top - top)

    return cd.algorithm("q x -> q x", name="f")(times_one)


SAME = cd.algorithm("q x -> q x", name="g")(lambda a: a)


@pytest.mark.parametrize("quotient", [False, True])
def test_what_has_an_element_that_is_not_masked_is_defined(quotient: bool) -> None:
    assert not cd.prove(SAME, masked(lambda x, q: x <= q, quotient)).conditional


@pytest.mark.parametrize("quotient", [False, True])
def test_what_may_be_masked_whole_is_not_said_to_be_defined(quotient: bool) -> None:
    with pytest.raises((cd.Refuted, AssertionError)):
        assert not cd.prove(SAME, masked(lambda x, q: x < q, quotient)).conditional
