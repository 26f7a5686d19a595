"""Operations by statistics that distribute over a reduction are moved out of it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import catdiag as cd


def total(a: Any) -> Any:
    return cd.sum(a, "x")


def sign_of(a: Any) -> Any:
    return total(a) > 0


CASES: dict[str, Callable[..., Any]] = {
    "max of larger": lambda a, v: cd.max(cd.maximum(v, total(a)), "x"),
    "max of a choice": lambda a, v: cd.max(cd.where(sign_of(a), v, a), "x"),
    "product of a choice": lambda a, v: cd.prod(cd.where(sign_of(a), v, 1), "x"),
    "sum of a choice": lambda a, v: cd.sum(cd.where(sign_of(a), v, 1), "x"),
    "any of both": lambda a, v: cd.where(cd.any((v > 0) & sign_of(a), "x"), 1, 0),
    "all of either": lambda a, v: cd.where(cd.all((v > 0) | sign_of(a), "x"), 1, 0),
    "some below": lambda a, v: cd.where(cd.any(v < cd.mean(a, "x"), "x"), 1, 0),
    "all above": lambda a, v: cd.where(cd.all(cd.mean(a, "x") <= v, "x"), 1, 0),
    "scaled product": lambda a, v: cd.prod(v * cd.exp(cd.mean(a, "x")), "x"),
    "product of scores": lambda a, v: cd.prod(cd.softmax(a, "x"), "x") + total(v),
    "largest deviation": lambda a, v: cd.max(cd.abs(v - cd.mean(a, "x")), "x"),
    "positive part": lambda a, v: cd.max(cd.maximum(v - cd.max(a, "x"), 0), "x"),
    "capped": lambda a, v: cd.max(cd.minimum(v, total(a)), "x"),
    "floored": lambda a, v: cd.min(cd.maximum(v, total(a)), "x"),
    "falling": lambda a, v: cd.min(total(a) - 2 * v, "x"),
}


# The dual of "capped".
SLOW = ("floored",)


@pytest.mark.parametrize("name", [pytest.param(n, marks=pytest.mark.slow) if n in SLOW else n for n in CASES])
def test_one_loop_is_enough(name: str) -> None:
    diagram = cd.algorithm("q x, q x -> q", name="f")(CASES[name])
    derived = diagram.stream("x")
    assert [b.name for b in derived.diagram.boxes if b.name.startswith("fold")] == ["fold[x]"]
    assert not derived.theorem.conditional
    rng = np.random.default_rng(2)
    for x in (1, 5):
        given = [rng.normal(size=(4, x)) for _ in diagram.dom]
        for block in (1, 2, 5):
            np.testing.assert_allclose(derived.run(*given, tiles={"s_x": block}), diagram(*given), atol=1e-9)


def test_what_does_not_come_out_is_refused() -> None:
    turned = cd.algorithm("q x, q x -> q")(lambda a, v: cd.prod(v * total(a), "x"))
    with pytest.raises(cd.errors.NotStreamable, match=r"prod\[x\].*sum\[x\].*passes=2"):
        turned.stream("x")
    least = cd.algorithm("q x, q x -> q")(lambda a, v: cd.min(cd.abs(v - total(a)), "x"))
    with pytest.raises(cd.errors.NotStreamable, match=r"abs.*sum\[x\].*passes=2"):
        least.stream("x")
