"""Diagrams that are deep, wide or oddly named: they work, or are refused with a reason."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import catdiag as cd


def one_more(inner: cd.category.Diagram) -> Any:
    return lambda a: inner(a)


def test_named_boxes_in_each_other() -> None:
    made = cd.algorithm("x -> x", name="f")(lambda a: cd.exp(a))
    for k in range(400):
        made = cd.algorithm("x -> x", name=f"f{k}")(one_more(made))
    assert made([0.0])[0] == 1
    assert made == made
    assert not cd.prove(made, made).conditional


def test_forty_axes() -> None:
    axes = " ".join(f"a{k}" for k in range(40))
    made = cd.algorithm(f"{axes} -> {axes}")(lambda a: cd.exp(a))
    assert not made.group("a0").theorem.conditional


def test_a_hundred_inputs() -> None:
    scope: dict[str, Any] = {"cd": cd}
    names = [f"A{k}" for k in range(100)]
    exec(f"def added({', '.join(names)}):\n    return cd.sum({' + '.join(names)}, 'x')", scope)
    made = cd.algorithm(", ".join(["q x"] * 100) + " -> q")(scope["added"])
    assert np.allclose(made.group("q").run(*[np.ones((2, 3))] * 100), 300)


@pytest.mark.parametrize("name", ["𝐱", "ﬁ", "ａ"])
def test_names_that_python_reads_as_others(name: str) -> None:
    with pytest.raises(cd.errors.AxisError, match="Python reads it as"):
        cd.algorithm(f"{name} x -> {name}")(lambda a: cd.sum(a, "x"))


@pytest.mark.parametrize("name", ["变量", "lambda", "__class__"])
def test_other_names(name: str) -> None:
    made = cd.algorithm(f"{name} x -> {name}")(lambda a: cd.sum(a, "x")).group(name)
    assert np.allclose(made.run(np.ones((2, 3))), 3)
    assert made.io().optimum() is not None
