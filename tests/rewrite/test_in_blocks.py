"""A stream holds blocks of its axis on chip; where an array stays there whole it is named, and not chosen unasked."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from functools import cache
from typing import Any

import pytest

import catdiag as cd
from catdiag.planner.derivation_search import attempts, memory, reduced_axes
from catdiag.planner.fusions import Fusions, fusions
from catdiag.rewrite.derivation import Derivation
from catdiag.rewrite.group import groupable
from catdiag.rewrite.stream.multi_pass import first_form, forms
from catdiag.rewrite.stream.whole_axis_arrays import whole_arrays
from catdiag.solvers.z3 import Z3

LOW = -cd.inf


def retained(diagram: Any, axis: str) -> bool:
    """Whether the first streamed form keeps an array on chip along the whole axis."""
    return whole_arrays(first_form(diagram, axis, 1), diagram, axis).itself


def renamed(a: Any) -> Any:
    return cd.reindex(a, "y=x", x=lambda y: y)


def composited(a: Any, c: Any) -> Any:
    """What is in front of an element lets through of it: a product over all that is before it."""
    let = 1 - renamed(a)
    through = cd.prod(cd.where(cd.index("y") < cd.index("x"), let, 1), "y")
    return cd.einsum("x, x c -> c", a * through, c)


def last_state(A: Any) -> Any:
    return cd.gather(cd.exp(A) * 2, "x", cd.size("x") - 1) + cd.sum(A, "x")


def is_sorted(A: Any) -> Any:
    behind = cd.gather(A, "x", cd.minimum(cd.index("x") + 1, cd.size("x") - 1))
    return cd.where(cd.all(behind >= A, "x"), 1, 0)


def sorted_rows(A: Any) -> Any:
    last = cd.index("x") == cd.size("x") - 1
    return cd.where(cd.all((cd.shift(A, "x", -1, 0) >= A) | last, "x"), 1, 0)


def with_sink(Q: Any, K: Any, k: Any, V: Any, v: Any) -> Any:
    keys, values = cd.concat([K, k], "x+h"), cd.concat([V, v], "x+h")
    weights = cd.softmax(cd.einsum("q d, x+h d -> q x+h", Q, keys), "x+h")
    return cd.einsum("q x+h, x+h v -> q v", weights, values)


def backwards(A: Any, V: Any) -> Any:
    return cd.einsum("q x, x v -> q v", A, cd.reverse(V, "x"))


def below(a: Any) -> Any:
    return cd.max(cd.sum(cd.where(renamed(a) < a, 1, 0), "y"), "x")


WHOLE: dict[Callable[..., Any], tuple[str, str, str]] = {
    composited: ("x, x c -> c", "x", "a,"),
    last_state: ("q x -> q", "x", "A is"),
    is_sorted: ("x ->", "x", "A,"),
    sorted_rows: ("q x -> q", "x", "A,"),
    with_sink: ("q d, x d, h d, x v, h v -> q v", "x+h", "concat[x+h] [x+h d], concat[x+h] [x+h v] are"),
    backwards: ("q x, x v -> q v", "x", "V,"),
    below: ("x ->", "x", "a,"),
}


def written(program: Callable[..., Any]) -> cd.category.Diagram:
    return cd.algorithm(WHOLE[program][0], name=program.__name__)(program)


@cache
def streamed(program: Callable[..., Any]) -> Derivation:
    return written(program).stream(WHOLE[program][1])


def held(derivation: Derivation, axis: str) -> bool:
    """Whether the memory has the sizes of an axis in it, all axes of the results that can be being grouped."""
    names = groupable(derivation.diagram)
    made = cd.Program(derivation).group(names) if names else cd.Program(derivation)
    return set(axis.split("+")) <= {str(s) for s in made.io().memory.free_symbols}


@pytest.mark.parametrize("program", WHOLE, ids=lambda f: f.__name__)
def test_what_is_on_chip_whole_is_named_in_the_first_line(program: Callable[..., Any]) -> None:
    _, axis, named = WHOLE[program]
    loop = streamed(program)
    first = str(loop).splitlines()[0]
    assert f"stream {axis}, but {named}" in first and f"on chip along all of axis {axis!r}" in first
    assert str(loop.steps[0].retained) in loop.advice()
    assert held(loop, axis)


@pytest.mark.parametrize("program", WHOLE, ids=lambda f: f.__name__)
def test_another_axis_is_chosen(program: Callable[..., Any]) -> None:
    _, axis, named = WHOLE[program]
    with Z3() as ask:
        tried, refused = attempts(written(program), ask, memory)
    reason = next(r.reason for r in refused if r.axis == axis)
    assert reason.startswith(named) and axis not in [a.axis for a in tried]
    assert all(a.axis is None or not held(a.derivation, a.axis) for a in tried)
    assert retained(written(program).diagram, axis)


def test_a_fold_that_is_given_says_what_it_holds() -> None:
    total = cd.Fold(unit=0, element=lambda a: a, merge=lambda a, b: a + b)
    turned = cd.algorithm("x ->")(lambda a: cd.sum(cd.reverse(a, "x"), "x"))
    loop = turned.stream("x", by=total)
    assert bool(loop.steps[0].retained) == held(loop, "x")


def test_a_cut_into_kernels_chooses_no_such_loop() -> None:
    found: Fusions = fusions(written(with_sink))
    assert "x+h" not in [axis for s in found.kernel(0, len(found.row.stages)).schedules for axis, _ in s.draft.streams]


def in_turn(A: Any, V: Any) -> Any:
    return cd.sum(cd.where(cd.index("x") == cd.size("x") - 1, A, 0), "x") + cd.sum(V, "x")


def to_itself(Q: Any, K: Any) -> Any:
    """Another axis of the size of the one that is streamed, which is grouped."""
    S = cd.einsum("x d, y d -> x y", Q, cd.reindex(K, "y=x", x=lambda y: y))
    return cd.einsum("x y, y d -> x d", cd.tanh(S), cd.reindex(Q, "y=x", x=lambda y: y))


def looked_up(A: Any, V: Any, at: Any) -> Any:
    return cd.einsum("q x, x v -> q v", A, cd.gather(V, "p", at))


BLOCKS = {
    in_turn: ("q x, q x -> q", "x"),
    to_itself: ("x d, x d -> x d", "y"),
    looked_up: ("q x, p v, int[x] -> q v", "x"),
}


@pytest.mark.parametrize("program", BLOCKS, ids=lambda f: f.__name__)
def test_blocks_alone_are_on_chip(program: Callable[..., Any]) -> None:
    signature, axis = BLOCKS[program]
    loop = cd.algorithm(signature, name=program.__name__)(program).stream(axis)
    assert not loop.steps[0].retained and not held(loop, axis) and loop.advice() == ()


@pytest.mark.parametrize("name", ["attention", "causal_attention", "linear_cross_entropy", "l2_norm_linear", "conv1d"])
def test_operators_run_in_blocks(name: str) -> None:
    """The taps of a convolution too: of the image a group holds what lies around its tile."""
    operator = cd.library.get(name)
    found = []
    for axis in reduced_axes(operator.diagram):
        with suppress(cd.errors.NotStreamable):
            forms(operator.diagram, axis, 1)
            found.append(axis)
    assert found
    for axis in found:
        assert not retained(operator.diagram, axis)


def test_another_axis_of_the_same_size_is_named_and_streamed() -> None:
    """In a square layer all of the one axis is there for each block of the other: memory grows with both."""
    layer = cd.algorithm("t d, d h=d -> t")(lambda X, W: cd.sum(cd.tanh(cd.einsum("t d, d h -> t h", X, W)), "h"))
    held = layer.stream("h").steps[0].retained
    assert held is not None and not held.itself and "X (along d, of that size)" in str(held)
    assert not retained(layer.diagram, "h")


def test_numbers_for_sizes_are_no_names_of_axes() -> None:
    """Two axes of eight elements are not taken for one."""
    dot = cd.algorithm("q=8 x=8, x=8 -> q=8")(lambda A, B: cd.einsum("q x, x -> q", A, B))
    assert not dot.stream("x").steps[0].retained
    turned = cd.algorithm("x=8 ->")(lambda a: cd.sum(a * cd.reverse(a, "x"), "x"))
    assert str(turned.stream("x").steps[0].retained).startswith("a")
