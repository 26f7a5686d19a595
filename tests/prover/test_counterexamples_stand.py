"""No false refutation: what is drawn is of its sort, what is found is looked at again, what is true is not refuted."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import catdiag as cd
from catdiag.category.diagram import diagram_of
from catdiag.category.types import ArrayType, Axis
from catdiag.prover.api import refutable, statement_of
from catdiag.prover.refute.candidate_inputs import Drawer, Pool
from catdiag.prover.refute.counterexample_data import NotACounterexample
from catdiag.prover.refute.counterexample_search import CounterexampleSearch, refute
from catdiag.prover.refute.exact_reals import BOTTOM
from catdiag.prover.refute.validate import replay

HALF = Fraction(1, 2)


@settings(max_examples=60, deadline=None)
@given(
    st.lists(
        st.tuples(st.sampled_from(["int", "bool", "real", "extended"]), st.integers(0, 2)), min_size=1, max_size=3
    ),
    st.integers(0, 3),
    st.integers(0, 10_000),
    st.lists(st.fractions(max_denominator=5), max_size=3),
)
def test_all_that_is_drawn_is_of_its_sort(kinds, n, seed, constants) -> None:
    declared = [
        {"name": f"A{k}", "element": element, "axes": [["x", "n"], ["y", "n"]][:rank]}
        for k, (element, rank) in enumerate(kinds)
    ]
    pool = Pool(constants)
    batch = Drawer(declared, {}, (), pool, seed).draw({"n": n}, {}, 40)
    for row in range(40):
        for array, d in zip(batch.point(row, declared, pool).arrays, declared, strict=True):
            assert array.shape == (n,) * len(d["axes"])
            for v in array.values.values():
                assert (type(v) is bool) == (d["element"] == "bool")
                assert d["element"] != "int" or v.denominator == 1
                assert d["element"] == "extended" or v != BOTTOM


def test_what_is_solved_for_and_what_is_shrunk_is_of_its_sort() -> None:
    f = cd.algorithm("int[x], bool[x] -> x")(lambda a, b: cd.where(b & (3 * a == 7), 1, cd.where(2 * a > 41, 2, 0)))
    g = cd.algorithm("int[x], bool[x] -> x")(lambda a, b: 0 * a / 1)
    found = refute(statement_of(diagram_of(f), diagram_of(g)))
    assert found is not None
    assert all(v.denominator == 1 for v in found.arrays["a"])
    assert all(type(v) is bool for v in found.arrays["b"])


# -- what is true -----------------------------------------------------------------------------------------------

TRUE = {
    "a quotient by one": ("int[x] -> x", lambda a: a // 1, lambda a: a),
    "twice, halved": ("int[x] -> x", lambda a: (2 * a) // 2, lambda a: a),
    "a remainder by one": ("int[x] -> x", lambda a: a % 1, lambda a: 0 * a),
    "a quotient and its remainder": ("int[x] -> x", lambda a: 3 * (a // 3) + a % 3, lambda a: a),
    "a remainder is small": ("int[x] -> x", lambda a: cd.where((a % 4 >= 0) & (a % 4 <= 3), 1, 0), lambda a: 0 * a + 1),
    "no integer is a half": ("int[x] -> x", lambda a: cd.where(2 * a == 1, 1, 0), lambda a: 0 * a / 1),
    "below is one less": ("int[x], int[x] -> x", lambda a, b: cd.where(a < b, 1, 0),
                          lambda a, b: cd.where(a + 1 <= b, 1, 0)),
    "a truth value squared": ("bool[x] -> x", lambda m: cd.where(m, 1, 0) ** 2, lambda m: cd.where(m, 1, 0)),
    "a copy of an axis": ("int[x] -> x", lambda a: a.rename(x="y").rename(y="x") // 1, lambda a: a),
}  # fmt: skip


@pytest.mark.parametrize("name", TRUE)
def test_what_is_true_of_integers_is_not_refuted(name: str) -> None:
    signature, left, right = TRUE[name]
    f, g = cd.algorithm(signature)(left), cd.algorithm(signature)(right)
    assert refute(statement_of(diagram_of(f), diagram_of(g)), tries=60, partial=True) is None


def test_a_box_that_gives_integers_is_not_refuted_by_fractions() -> None:
    h = cd.box("h", ArrayType((Axis("x"),)), ArrayType((Axis("x"),), "int"))
    f = cd.algorithm("x -> x")(lambda a: cd.where(2 * h(a) == 1, 1, 0))
    g = cd.algorithm("x -> x")(lambda a: 0 * a)
    with pytest.raises(cd.Undecided):
        cd.prove(f, g)
    wrong = cd.algorithm("x -> x")(lambda a: cd.where(h(a) == 1, 1, 0))
    with pytest.raises(cd.Refuted):
        cd.prove(wrong, g)


X, Y = ArrayType((Axis("x"),)), ArrayType((Axis("y"),))
h, k, b = cd.box("h", X, X), cd.box("k", X, Y), cd.box("b", X, ArrayType((Axis("x"),), "bool"))
of_two, to_two = cd.box("t", cd.category.Ty(X, Y), X), cd.box("s", X, cd.category.Ty(X, ArrayType(())))

NATURAL = {
    "a row": ("q x -> x", lambda A: cd.reindex(h(A), "x", q=0), lambda A: h(cd.reindex(A, "x", q=0))),
    "a row of another axis": ("q x -> y", lambda A: cd.reindex(k(A), "y", q=0), lambda A: k(cd.reindex(A, "x", q=0))),
    "rows repeated": (
        "x -> q=3 x", lambda A: cd.broadcast(h(A), "q=3 x"), lambda A: h(cd.broadcast(A, "q=3 x"))),
    "rows reversed": ("q x -> q x", lambda A: cd.reverse(h(A), "q"), lambda A: h(cd.reverse(A, "q"))),
    "truth values": ("q x -> x", lambda A: cd.where(cd.reindex(b(A), "x", q=0), 1, 0),
                     lambda A: cd.where(b(cd.reindex(A, "x", q=0)), 1, 0)),
    "two inputs": ("q x, y -> x", lambda A, B: cd.reindex(of_two(A, B), "x", q=0),
                   lambda A, B: of_two(cd.reindex(A, "x", q=0), B)),
    "two results": ("q x -> x", lambda A: cd.reindex(to_two(A)[0] + to_two(A)[1], "x", q=0),
                    lambda A: (lambda r: to_two(r)[0] + to_two(r)[1])(cd.reindex(A, "x", q=0))),
    "rows joined": ("q x, r x -> q+r x", lambda A, B: cd.concat([h(A), h(B)], "q+r"),
                    lambda A, B: h(cd.concat([A, B], "q+r"))),
}  # fmt: skip


@pytest.mark.parametrize("name", NATURAL)
def test_that_a_box_is_mapped_row_by_row_is_not_refuted(name: str) -> None:
    """What stands for a box in a search for counterexamples is one function, wherever the box is mapped."""
    signature, left, right = NATURAL[name]
    sides = refutable(cd.algorithm(signature)(left).diagram, cd.algorithm(signature)(right).diagram)
    assert sides is not None
    assert refute(statement_of(*sides), tries=30, partial=True) is None


def test_what_no_mapping_explains_is_refuted_of_a_box() -> None:
    for signature, left, right in (
        ("x -> y", lambda A: k(A), lambda A: k(cd.reverse(A, "x"))),
        ("x -> y", lambda A: k(A), lambda A: cd.reverse(k(A), "y")),
        ("q x -> q x", lambda A: h(A), lambda A: h(cd.reverse(A, "q"))),
        ("x ->", lambda A: to_two(A)[1], lambda A: cd.sum(to_two(A)[0], "x")),
    ):
        sides = refutable(cd.algorithm(signature)(left).diagram, cd.algorithm(signature)(right).diagram)
        assert sides is not None
        assert refute(statement_of(*sides)) is not None


def test_what_stands_for_a_box_is_said_as_what_it_is() -> None:
    """A scalar function stands for a box as it is only where the box is one."""

    def said(left, right, signature):
        with pytest.raises(cd.Refuted) as error:
            cd.prove(cd.algorithm(signature)(left), cd.algorithm(signature)(right))
        (line,) = [line for line in str(error.value).splitlines() if " is " in line and "false" not in line]
        return line.split(" is ")[0]

    assert said(lambda A: h(A), lambda A: h(A + 1), "x -> x") == "h"
    weighted = "of sums of what it reads with weights 1, 2, …"
    assert said(lambda A: k(A), lambda A: cd.reverse(k(A), "y"), "x -> y") == f"k {weighted} and positions,"
    assert said(lambda A: cd.where(b(A), 1, 0), lambda A: cd.where(b(-A), 1, 0), "x -> x") == "b true where positive,"


# -- what does not stand ------------------------------------------------------------------------------------------


def test_numbers_of_another_sort_are_not_said(monkeypatch: pytest.MonkeyPatch) -> None:
    """A search that goes wrong says nothing: the answer is that it is not decided."""
    f, g = (cd.algorithm("int[x] -> x")(function) for function in TRUE["twice, halved"][1:])
    plain = Drawer._array

    def halves(self, element, shape, family, limits):
        made = plain(self, element, shape, family, limits)
        return np.full_like(made, self.pool.of([HALF])[0])

    monkeypatch.setattr(Drawer, "_array", halves)
    assert any(True for _ in CounterexampleSearch(statement_of(diagram_of(f), diagram_of(g)), 20, 10**7, 0, ()).find())
    assert refute(statement_of(diagram_of(f), diagram_of(g)), partial=True) is None
    with pytest.raises(cd.Undecided):
        cd.prove(f, g)
    (outcome,) = cd.prove_all([(f, g)])
    assert isinstance(outcome, cd.Undecided)
    assert cd.equivalent(f, g) is None


def test_the_search_goes_on_after_what_does_not_stand(monkeypatch: pytest.MonkeyPatch) -> None:
    from catdiag.prover.refute import counterexample_search as module

    f = cd.algorithm("x")(lambda A: A + 1)
    g = cd.algorithm("x")(lambda A: A)
    asked = []

    def stubborn(statement, found):
        asked.append(found)
        if len(asked) < 3:
            raise NotACounterexample("not this one")
        return replay(statement, found)

    monkeypatch.setattr(module, "replay", stubborn)
    assert module.refute(statement_of(diagram_of(f), diagram_of(g))) is not None
    assert len(asked) == 3


OF_ALL_SORTS = cd.algorithm("int[x], bool[x], extended[x], y -> x")
STATEMENT = statement_of(
    OF_ALL_SORTS(lambda i, b, e, r: cd.where(b, i, 0) + cd.sum(r, "y") + cd.exp(e)),
    OF_ALL_SORTS(lambda i, b, e, r: cd.where(b, i, 0) + cd.exp(e)),
    ["x <= y"],
)

WRONG = {
    "half an integer": (lambda a: {**a, "i": [HALF]}, {}, "holds 1/2, which is not int"),
    "a number for a truth value": (lambda a: {**a, "b": [Fraction(1)]}, {}, "holds 1, which is not bool"),
    "a truth value for a number": (lambda a: {**a, "i": [True]}, {}, "holds True, which is not int"),
    "minus infinity in the reals": (lambda a: {**a, "r": [BOTTOM, Fraction(0)]}, {}, "holds -inf, which is not real"),
    "an array that is too long": (lambda a: {**a, "i": [Fraction(0)] * 2}, {}, "does not have the shape"),
    "an array without its axis": (lambda a: {**a, "i": Fraction(0)}, {}, "does not have the shape"),
    "an assumption that is not met": (
        lambda a: {**a, "i": [Fraction(0)] * 3, "b": [True] * 3, "e": [BOTTOM] * 3}, {"sizes": {"x": 3, "y": 2}},
        "do not meet an assumption"),
    "a size that is not natural": (lambda a: a, {"sizes": {"x": 1, "y": -2}}, "size y is -2"),
    "a size that is missing": (lambda a: a, {"sizes": {"x": 1}}, "the numbers lack 'y'"),
    "an empty block": (lambda a: a, {"blocks": {"s_x": 0}}, "size s_x is 0"),
    "equal values": (lambda a: {**a, "r": [Fraction(-1), Fraction(1)]}, {}, "do not certainly differ"),
    "an index out of range": (lambda a: a, {"index": {"x": 4}}, "the numbers lack"),
    "a right side that is defined": (lambda a: a, {"undefined": "rhs"}, "the right program is defined"),
}  # fmt: skip


def _found():
    found = refute(STATEMENT)
    assert found is not None
    arrays = {"i": [Fraction(0)], "b": [True], "e": [BOTTOM], "r": [Fraction(1), Fraction(0)]}
    return replace(found, sizes={"x": 1, "y": 2}, arrays=arrays, index={"x": 0})


@pytest.mark.parametrize("name", WRONG)
def test_what_is_no_counterexample_is_told(name: str) -> None:
    change, further, reason = WRONG[name]
    found = _found()
    assert replay(STATEMENT, found).lhs == 1
    with pytest.raises(NotACounterexample, match=reason):
        replay(STATEMENT, replace(found, arrays=change(found.arrays), **further))


def test_what_the_kernel_reads_otherwise_is_not_said(monkeypatch: pytest.MonkeyPatch) -> None:
    """The interpreter that confirms what a search finds is not believed against the kernel's own reading."""
    from catdiag.prover.refute import exact_execution

    f = cd.algorithm("x")(lambda A: cd.maximum(A, 0))
    g = cd.algorithm("x")(lambda A: cd.where(A > 0, A, 0))
    wrong = {**exact_execution.EXACT, "max": lambda args, bits: args[0]}
    monkeypatch.setattr(exact_execution, "EXACT", wrong)
    found = refute(statement_of(diagram_of(f), cd.algorithm("x")(lambda A: A + 1).diagram))
    assert found is not None
    found = replace(found, sizes={"x": 1}, arrays={"A": [Fraction(-1)]}, index={"x": 0})
    with pytest.raises(NotACounterexample, match="by the kernel's reading the two programs are equal"):
        replay(statement_of(diagram_of(f), diagram_of(g)), found)
    assert refute(statement_of(diagram_of(f), diagram_of(g)), tries=20) is None
