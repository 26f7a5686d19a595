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
