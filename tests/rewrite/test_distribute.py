"""Sums of polynomials multiplied out: the law on random polynomials, proofs checked again, what is made, refusals."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import catdiag as cd
from catdiag.category.diagram import Diagram, diagram_of
from catdiag.kernel.checker import Checker
from catdiag.planner.multi_kernel_plan import Plan
from catdiag.planner.partition import PartitionSearch
from catdiag.rewrite.distribute import CANCELS, within_rounding
from catdiag.rewrite.distribute_products import factored
from catdiag.solvers.z3 import Z3

SIZES = {"q": 3, "x": 4, "d": 5, "e": 2, "h": 2, "y": 3}
Function = Callable[..., Any]


def squared(a: Any, b: Any) -> Any:
    return cd.sum((a - b) ** 2, "d")


def arrays_of(diagram: Diagram, sizes: Mapping[str, int] = SIZES) -> list[Any]:
    rng = np.random.default_rng(0)
    return [rng.normal(size=[sizes[str(a.size)] for a in ty.axes]) for ty in diagram.dom]


def names(diagram: Diagram) -> list[str]:
    return [box.name for box in diagram_of(diagram).boxes]


def axes_of(diagram: Diagram) -> set[frozenset[str]]:
    """The axes of the arrays in a diagram."""
    return {frozenset(ty.names) for ty in diagram_of(diagram).graph.wire_types()}


# -- the law ---------------------------------------------------------------------------------------------------

LEAVES = {"a": "q d", "b": "x d", "w": "d", "c": "q", "m": "q x"}
ORDER = "qxd"


def trees() -> st.SearchStrategy[Any]:
    leaf = st.sampled_from([*LEAVES]) | st.integers(-2, 3)
    return st.recursive(leaf, lambda inner: st.tuples(st.sampled_from("+-*"), inner, inner), max_leaves=6)


def value(tree: Any, leaves: Mapping[str, Any]) -> Any:
    """What a tree is of arrays: those of NumPy, or of the builder."""
    if isinstance(tree, tuple):
        one, other = (value(part, leaves) for part in tree[1:])
        return one + other if tree[0] == "+" else one - other if tree[0] == "-" else one * other
    return leaves[tree] if isinstance(tree, str) else tree


@settings(max_examples=12, deadline=None, derandomize=True)
@given(trees(), trees(), st.sampled_from(["d", None]))
def test_random_polynomials_mean_the_same_multiplied_out(ask: Z3, one: Any, other: Any, axis: str | None) -> None:
    tree = ("*", ("-", "a", ("+", one, "b")), other)

    def polynomial(**leaves: Any) -> Any:
        found = value(tree, leaves)
        return cd.sum(found, "d") + 0 * leaves["m"]

    signature = ", ".join(LEAVES.values()) + " -> q x"
    diagram = cd.algorithm(signature)(lambda a, b, w, c, m: polynomial(a=a, b=b, w=w, c=c, m=m))
    try:
        made = cd.Program(diagram, ask).distribute(axis)
    except cd.errors.NotDistributable:
        assume(False)
        return
    assert not made.theorem.conditional
    arrays = dict(zip(LEAVES, arrays_of(diagram), strict=True))
    wide = {n: arrays[n].reshape([SIZES[k] if k in axes.split() else 1 for k in ORDER]) for n, axes in LEAVES.items()}
    wanted = np.broadcast_to(value(tree, wide), (3, 4, 5)).sum(2)
    np.testing.assert_allclose(made(*arrays.values()), wanted, rtol=1e-9, atol=1e-9)


@settings(max_examples=30, deadline=None)
@given(st.lists(st.lists(st.fractions(-2, 2, max_denominator=2), min_size=3, max_size=3), min_size=1, max_size=4))
def test_a_matrix_is_as_many_products_as_its_rank(matrix: list[list[Fraction]]) -> None:
    parts = factored(matrix)
    assert len(parts) == np.linalg.matrix_rank(np.array(matrix, float))
    for i, row in enumerate(matrix):
        for j, entry in enumerate(row):
            assert sum(p * column[i] * line[j] for p, column, line in parts) == entry


# -- what is made ----------------------------------------------------------------------------------------------

MADE: dict[str, tuple[str, Function, str, int]] = {
    "squares of differences": ("q d, x d -> q x", squared, "d", 1),
    "a product of sums": ("q d, x d -> q x", lambda a, b: cd.sum((a + b) * (a - b), "d"), "d", 0),
    "a plain product": ("q d, x d -> q x", lambda a, b: cd.sum(a * b, "d"), "d", 1),
    "weights": ("q d, x d, d -> q x", lambda a, b, w: cd.sum(w * (a - b) ** 2, "d"), "d", 1),
    "weights of rows": ("q d, x d, q d -> q x", lambda a, b, w: cd.sum((a - b) ** 2 * w, "d"), "d", 2),
    "divided": ("q d, x d, d -> q x", lambda a, b, s: cd.sum(((a - b) / s) ** 2, "d"), "d", 1),
    "fourth powers": ("q d, x d -> q x", lambda a, b: cd.sum((a - b) ** 4, "d"), "d", 3),
    "two pairs, of rank 1": (
        "q d, q d, x d, x d -> q x", lambda a, c, b, e: cd.sum(((a - b) + (c - e)) ** 2, "d"), "d", 1,
    ),
    "moved": ("q d, x d, d -> q x", lambda a, b, c: cd.sum(((a - c) - (b - c)) ** 2, "d"), "d", 1),
    "an einsum": ("q d, x d -> q x", lambda a, b: cd.einsum("q x d, q x d -> q x", a - b, a - b), "d", 1),
    "over two axes": ("q d e, x d e -> q x", lambda a, b: cd.sum((a - b) ** 2, "d e"), "d e", 1),
    "of two sums": ("q d e, x d e -> q x", lambda a, b: cd.sum(squared(a, b), "e"), "d e", 1),
    "heads": ("h q d, h x d -> h q x", squared, "d", 1),
    "a quadratic form": (
        "q d, x d, d e=d -> q x",
        lambda a, b, M: cd.einsum("q x d, q x e, d e -> q x", a - b, (a - b).rename(d="e"), M), "d e", 4,
    ),
    "after a matrix": (
        "q d, x d, e d -> q x", lambda a, b, L: cd.sum(cd.einsum("e d, q x d -> q x e", L, a - b) ** 2, "e"), "d e", 3,
    ),
    "a factor without the axis": ("q d, x d, q x -> q x", lambda a, b, c: cd.sum((c * a - b) ** 2, "d"), "d", 1),
}  # fmt: skip


@pytest.mark.parametrize("name", MADE)
def test_no_array_is_as_large_as_what_was_summed(ask: Z3, name: str) -> None:
    signature, function, axes, products = MADE[name]
    diagram = cd.algorithm(signature)(function)
    made = cd.Program(diagram, ask).distribute(axes)
    assert [step.name for step in made.steps] == [f"distribute {axes}"] and not made.theorem.conditional
    assert not Checker(ask).check(made.theorem.certificate).conditional
    assert names(made.diagram).count("einsum") == products
    assert any({"q", "x", "d"} <= axes for axes in axes_of(diagram))
    assert not any({"q", "x"} < axes - {"h"} for axes in axes_of(made.diagram))
    arrays = arrays_of(diagram)
    np.testing.assert_allclose(made(*arrays), diagram(*arrays), rtol=1e-9, atol=1e-9)


def test_what_lacks_the_axis_is_taken_out_where_it_is_named(ask: Z3) -> None:
    spread = cd.algorithm("q d -> q")(lambda a: cd.mean((a - cd.mean(a, "d")) ** 2, "d"))
    made = cd.Program(spread, ask).distribute("d")
    # What is summed does not wait for the mean.
    assert not any(box.name == "sub" and "d" in box.cod[0].names for box in made.diagram.boxes)
    np.testing.assert_allclose(made(*arrays_of(spread)), spread(*arrays_of(spread)))
    with pytest.raises(cd.errors.NotDistributable, match="nothing would be saved"):
        spread.distribute()


def test_a_nested_sum_is_not_taken_apart(ask: Z3) -> None:
    # Products of matrices stay in the order in which they were written.
    f = cd.algorithm("q d, x d, x e -> q e")(lambda a, b, v: cd.einsum("q x, x e -> q e", squared(a, b) + 1, v))
    made = cd.Program(f, ask).distribute("d").diagram
    assert [ty.names for box in diagram_of(made).boxes if box.name == "einsum" for ty in box.cod] == [
        ("q", "x"),
        ("q", "e"),
    ]


# -- roots --------------------------------------------------------------------------------------------------------


def test_a_root_is_taken_of_what_is_not_below_0(ask: Z3) -> None:
    distance = cd.algorithm("q d, x d -> q x")(lambda a, b: cd.sqrt(squared(a, b)))
    made = cd.Program(distance, ask).distribute("d")
    points = 1e4 + np.random.default_rng(0).normal(size=(40, 7))
    plain = (points**2).sum(1)[:, None] + (points**2).sum(1) - 2 * points @ points.T
    assert plain.min() < 0  # so that without it the root is no number
    assert np.isfinite(made(points, points)).all()

    weights = cd.algorithm("q d, x d -> q")(lambda a, b: cd.sum(cd.exp(-cd.sqrt(squared(a, b))), "x"))
    with pytest.raises(cd.errors.NotDistributable, match=r"write cd.sqrt\(cd.maximum"):
        weights.distribute("d")
    safe = cd.algorithm("q d, x d -> q")(lambda a, b: cd.sum(cd.exp(-cd.sqrt(cd.maximum(squared(a, b), 0))), "x"))
    assert names(cd.Program(safe, ask).distribute("d").diagram).count("max") == 1


# -- streams and groups after it ------------------------------------------------------------------------------

STREAMED: dict[str, Function] = {
    "a Gaussian": lambda a, b, v: cd.einsum("q x, x d -> q d", cd.exp(-squared(a, b)), v),
    "a mean": lambda a, b, v: cd.einsum("q x, x d -> q d", cd.softmax(-squared(a, b), "x"), v),
    "a heavy tail": lambda a, b, v: cd.einsum("q x, x d -> q d", 1 / (1 + squared(a, b)), v),
    "the nearest": lambda a, b, v: cd.min(squared(a, b), "x"),
}


@pytest.mark.parametrize("name", STREAMED)
def test_it_is_streamed_and_grouped(ask: Z3, name: str) -> None:
    diagram = cd.algorithm("q d, x d, x d")(STREAMED[name])
    made = cd.Program(diagram, ask).distribute("d").stream("x").group("q")
    assert [step.name for step in made.steps] == ["distribute d", "stream x", "group q"]
    assert made.theorem.statement.startswith(str(diagram.title or "lambda")) and not made.theorem.conditional
    arrays = arrays_of(diagram)
    np.testing.assert_allclose(made.run(*arrays, tiles={"s_x": 3, "g_q": 2}), diagram(*arrays))
    # The squares of rows are summed before the loop or after it, or not at all where they change nothing.
    said = made.code("pseudocode").split("for each block of x")
    assert "Σ_d a·a" not in said[1].split("save")[0]
    assert ("Σ_d a·a" in made.code("pseudocode")) == (name != "a mean")


def test_what_all_entries_share_is_left_out_of_comparisons(ask: Z3) -> None:
    nearest = cd.algorithm("q d, x d -> q")(lambda a, b: cd.argmin(squared(a, b), "x"))
    made = cd.Program(nearest, ask).distribute("d")
    assert "Σ_d a·a" not in made.code("pseudocode") and not Checker(ask).check(made.theorem.certificate).conditional
    a, b = (np.random.default_rng(0).normal(size=(50, 3)).astype(np.float32) for _ in range(2))
    np.testing.assert_array_equal(made(a, b), nearest(a, b))


SHARED: dict[str, tuple[str, Function]] = {
    "a mask beside": (
        "q d, x d, bool[q x] -> q",
        lambda a, b, m: cd.sum(cd.where(m, squared(a, b), 0) / (1 + cd.max(squared(a, b), "x")), "x"),
    ),
    "a bias": ("q d, x d, x -> q x", lambda a, b, c: squared(a, b) + c - cd.min(squared(a, b) + c, "x")),
    "divided by rows": ("q d, x d, q -> q x", lambda a, b, c: squared(a, b) / (1 + c * c)),
    "times columns": ("q d, x d, x -> q x", lambda a, b, c: -squared(a, b) * c),
    "transposed": ("q d, x d -> x q", lambda a, b: 3 - squared(a, b) / 2),
    "both ways": (
        "q d, x d -> q x", lambda a, b: squared(a, b) - cd.max(squared(a, b), "x") - cd.max(squared(a, b), "q"),
    ),
    "how many are near": (
        "q d, x d -> q", lambda a, b: cd.sum(cd.where(squared(a, b) <= 2 * cd.min(squared(a, b), "x"), 1, 0), "x"),
    ),
    "a named pair": (
        "q d, x d, y d -> q", lambda a, b, c: cd.min(squared(a, b), "x") - cd.max(squared(a, c), "y"),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", SHARED)
def test_what_is_done_with_a_sum_is_done_with_its_terms(ask: Z3, name: str) -> None:
    signature, function = SHARED[name]
    diagram = cd.algorithm(signature)(function)
    made = cd.Program(diagram, ask).distribute("d")
    assert not made.theorem.conditional and not any({"q", "x", "d"} <= axes for axes in axes_of(made.diagram))
    arrays = arrays_of(diagram)
    arrays = [a > 0 if ty.element == "bool" else a for a, ty in zip(arrays, diagram.dom, strict=True)]
    np.testing.assert_allclose(made(*arrays), diagram(*arrays), rtol=1e-9, atol=1e-9)


# -- floating point -------------------------------------------------------------------------------------------------


def test_near_points_cancel_and_moving_them_helps(ask: Z3) -> None:
    rng = np.random.default_rng(0)
    middle = np.full(16, 100.0, np.float32)
    a, b = (middle + rng.normal(size=(8, 16)).astype(np.float32) / 4 for _ in range(2))
    plain = cd.algorithm("q d, x d -> q x")(squared)
    moved = cd.algorithm("q d, x d, d -> q x")(lambda a, b, c: squared(a - c, b - c))
    exact = plain(a.astype(np.float64), b.astype(np.float64))

    def error(found: Any) -> float:
        assert found.dtype == np.float32
        return float(np.abs(found / exact - 1).max())

    written, expanded = error(plain(a, b)), error(cd.Program(plain, ask).distribute("d")(a, b))
    assert written < 1e-6 and expanded > 1e-3
    assert error(cd.Program(moved, ask).distribute("d")(a, b, middle)) < 1e-5


@pytest.mark.slow
def test_what_is_saved_between_kernels_is_in_single_precision(ask: Z3) -> None:
    diagram = cd.algorithm("q d, x d -> q")(lambda a, b: cd.min(squared(a, b), "x"))
    sizes = {"q": 4096, "x": 4096, "d": 64}
    plans = cd.Program(diagram, ask).distribute("d").plan("H200", sizes, several=True)
    assert plans.saved[0] == ("cast:fp32 [x]", 4 * 4096) and len(plans.kernels) > 1
    assert plans.source == diagram and not Checker(ask).check(plans.theorem.certificate).conditional
    assert plans.derivation.steps[0].name == "distribute d"
    text = plans.code("triton")
    assert "torch.empty((x,), dtype=torch.float32" in text and text.count("tl.dot") == 1
    with pytest.raises(cd.errors.CatdiagError, match="several is True with cuts=0"):
        diagram.plan("H200", sizes, several=True, cuts=0)


def test_the_page_says_that_it_cancels(ask: Z3) -> None:
    made = cd.Program(cd.algorithm("q d, x d -> q x")(squared), ask).distribute("d")
    assert "the distributed terms cancel" in made.advice()[0]
    assert "In floating point the distributed terms cancel" in made.draw("html")
    product = cd.Program(cd.algorithm("q d, x d -> q x")(lambda a, b: cd.sum(a * b, "d")), ask).distribute("d")
    assert not product.advice() and not product.steps[0].note


# -- refusals -----------------------------------------------------------------------------------------------------

REFUSED: dict[str, tuple[str, Function, str | None, str]] = {
    "one set of axes": (
        "q d, q d -> q", squared, "d",
        r"axis 'd': sum\[d\] of \[q d\]: no operand of its sums and products is smaller",
    ),
    "a large factor": (
        "q d, x d, q x d -> q x", lambda a, b, w: cd.sum(w * (a - b) ** 2, "d"), "d",
        r"one of its factors, \[q x d\], is as large as the summand",
    ),
    "no polynomial": (
        "q d, x d -> q x", lambda a, b: cd.sum(cd.abs(a - b), "d"), "d", r"axis 'd': abs of .*: it is no sum",
    ),
    "no sum": ("q d, x d -> q x", lambda a, b: cd.max((a - b) ** 2, "d"), "d", "axis 'd': nothing sums over it"),
    "another axis": ("q d, x d -> q x", squared, "x", "axis 'x': nothing sums over it"),
    "no axis at all": ("q d, x d -> q x", lambda a, b: cd.max(a - b, "d"), None, "any axis: nothing sums over it"),
    "integers": ("int[q d], int[x d] -> q x", squared, "d", "only sums of real numbers"),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_not_multiplied_out_says_why(name: str) -> None:
    signature, function, axes, why = REFUSED[name]
    diagram = cd.algorithm(signature)(function)
    with pytest.raises(cd.errors.NotDistributable, match=why) as caught:
        diagram.distribute(axes)
    assert "nothing sums" in why or __file__ in str(caught.value)


def test_it_comes_before_loops_and_names_axes_that_are_there(ask: Z3) -> None:
    diagram = cd.algorithm("q d, x d -> q")(lambda a, b: cd.sum(squared(a, b), "x"))
    with pytest.raises(cd.errors.NotDistributable, match="runs in loops or groups already"):
        cd.Program(diagram, ask).stream("x").distribute("d")
    with pytest.raises(cd.errors.AxisError, match="no axis 'z' to distribute products along: the diagram has q, d, x"):
        diagram.distribute("z")
    with pytest.raises(cd.errors.AxisError, match="expected their names"):
        diagram.distribute(3)  # type: ignore[arg-type]


def test_too_many_terms_are_refused() -> None:
    many = cd.algorithm("q d, x d -> q x")(lambda a, b: cd.sum((a - b + 1) ** 64, "d"))
    with pytest.raises(cd.errors.NotDistributable, match="terms, more than"):
        many.distribute("d")


# -- unasked ---------------------------------------------------------------------------------------------------------


def nearest(a: Any, b: Any) -> Any:
    return cd.min(squared(a, b), "x")


def test_plans_make_products_of_distances_where_rounding_allows_it(ask: Z3) -> None:
    program, sizes = cd.Program(cd.algorithm("q d, x d -> q")(nearest), ask), {"q": 1024, "x": 256, "d": 64}
    found = program.plan("H200", sizes)
    assert found.derivation.steps[0].name == "distribute" and found.flops > 0
    assert found.rounding == (f"distribute: {CANCELS}",) and f"rounding   distribute: {CANCELS}" in str(found)
    assert not Checker(ask).check(found.derivation.theorem.certificate).conditional
    arrays = arrays_of(program.diagram)
    np.testing.assert_allclose(cd.Program(found.derivation.diagram, ask).run(*arrays), program(*arrays), rtol=1e-12)
    assert not program.plan("H200", sizes, distribute=False).rounding


def test_a_plan_that_is_proved_is_taken_before_one_that_is_not(ask: Z3, monkeypatch: pytest.MonkeyPatch) -> None:
    """Products of distances are quicker here; without a theorem about them, the program as written is planned."""
    program, sizes = cd.Program(cd.algorithm("q d, x d -> q")(nearest), ask), {"q": 1024, "x": 256, "d": 64}
    own, planned = PartitionSearch.plan, list[Plan]()

    def first_unproved(search: PartitionSearch) -> Plan:
        planned.append(own(search))
        return planned[-1] if len(planned) > 1 else replace(planned[0], unproved=("kernel 1",))

    monkeypatch.setattr(PartitionSearch, "plan", first_unproved)
    found = program.plan("H200", sizes)
    assert len(planned) == 2
    assert not found.unproved and not found.rounding


@pytest.mark.parametrize(
    ("function", "types", "allowed"),
    [
        (nearest, "bf16", True),
        (nearest, {"A": "fp8", "B": "bf16", "*": "bf16"}, True),
        (nearest, {"A": "fp32", "B": "bf16", "*": "bf16"}, False),
        (nearest, "fp16", False),
        (nearest, "fp32", False),
        (lambda A, B: nearest(A / 3, B), "bf16", False),  # a third of bf16 is rounded anew
        (lambda A, B: cd.sum(cd.sum(A * B, "d"), "x"), "bf16", False),  # nothing is distributed
    ],
)
def test_where_rounding_allows_products_of_distances(function: Function, types: Any, allowed: bool) -> None:
    diagram = cd.algorithm("q d, x d -> q")(lambda A, B: function(A, B)).diagram
    assert (within_rounding(diagram, types) is not None) == allowed


@given(st.integers(1, 64), st.integers(0, 12), st.integers(0, 2**32 - 1))
def test_of_short_points_no_more_is_lost_than_their_rounding_lost(d: int, far: int, seed: int) -> None:
    """The bound that `within_rounding` states: points of 8 bits, exact products, sums in fp32."""
    rng = np.random.default_rng(seed)
    points = (np.float32(2.0**far) + rng.normal(size=(8, d)).astype(np.float32) for _ in range(2))
    a, b = ((x.view(np.uint32) & np.uint32(0xFFFF0000)).view(np.float32) for x in points)
    exact = ((a.astype(float)[:, None] - b) ** 2).sum(-1)
    squares = [np.cumsum(x * x, axis=-1, dtype=np.float32)[:, -1] for x in (a, b)]
    product = np.cumsum(a[:, None] * b, axis=-1, dtype=np.float32)[..., -1]
    found = squares[0][:, None] + squares[1] - 2 * product
    size = np.maximum(squares[0][:, None], squares[1])
    assert (np.abs(found - exact) <= (4 * d + 8) * 2.0**-24 * size).all()
