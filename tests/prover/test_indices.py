"""Reductions over turned, rotated, cut and moved ranges, floors of quotients: what is proved, and that it ends."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import catdiag as cd
from catdiag.kernel.context import Context
from catdiag.kernel.facts import Fact
from catdiag.kernel.rewrite_rules import apply
from catdiag.kernel.terms import ONE, Term, add, fn, idx, mul, num, size, substitute
from catdiag.prover.normal_form.normalize import Normalizer
from catdiag.solvers.z3 import Z3


def at(array, axes, **reads):
    return cd.reindex(array, axes, **reads)


def around(a, by):
    return at(a, "x", x=lambda x: (x + by) % cd.size("x"))


@pytest.mark.parametrize(
    ("f", "g"),
    [
        (lambda a: cd.sum(a * cd.reverse(a, "x"), "x"), lambda a: cd.sum(cd.reverse(a, "x") * a, "x")),
        (lambda a: cd.sum(a * around(a, 1), "x"), lambda a: cd.sum(around(a, 1) * a, "x")),
        (lambda a: cd.sum(around(a, 1) * around(a, 2) * a, "x"),
         lambda a: cd.sum(a * around(a, 2) * around(a, 1), "x")),
        (lambda a: cd.max(around(a, 2), "x"), lambda a: cd.max(cd.reverse(a, "x"), "x")),
        (lambda a: cd.sum(cd.shift(a, "x", 3) * 2, "x"), lambda a: 2
         * cd.sum(a * cd.where(cd.index("x") < cd.size("x") - 3, 1, 0), "x")),
        (lambda a: cd.sum(cd.shift(a, "x", 9), "x"), lambda a: cd.sum(cd.shift(a, "x", 9), "x")),
    ],
)  # fmt: skip
def test_a_body_that_uses_its_index_in_several_ways_is_settled(f, g) -> None:
    assert not cd.prove(cd.algorithm("x ->")(f), cd.algorithm("x ->")(g)).conditional


@pytest.mark.parametrize("weight", [1, 2])
def test_a_guard_that_depends_on_inner_indices_leaves_one_outer_index(weight: int) -> None:
    """Rows that are gathered, as a product of all rows with a sum of truth values: experts of a mixture, for one."""
    source = "w e, int[t k], t k -> t w"
    f = cd.algorithm(source)(lambda rows, at, a: cd.sum(cd.gather(rows, "e", at) * a, "k"))
    g = cd.algorithm(source)(
        lambda rows, at, a: cd.einsum(
            "w e, t e -> t w", rows, cd.sum(cd.where(cd.index("e") == at, weight, 0) * a, "k")
        )
    )
    if weight == 1:
        assert not cd.prove(f, g).conditional
    else:
        with pytest.raises(cd.Refuted):
            cd.prove(f, g)


def test_a_rotation_is_not_a_shift() -> None:
    f = cd.algorithm("x ->")(lambda a: cd.sum(around(a, 1) * cd.index("x"), "x"))
    g = cd.algorithm("x ->")(lambda a: cd.sum(cd.shift(a, "x", -1) * cd.index("x"), "x"))
    with pytest.raises(cd.Refuted):
        cd.prove(f, g)


@st.composite
def positions(draw: st.DrawFn, depth: int = 3) -> Term:
    """Sums, multiples, floors and remainders of two indices and a size."""
    if depth == 0 or (draw(st.booleans()) and depth < 3):
        return draw(st.sampled_from([idx("i"), idx("j"), size("n"), num(1), num(3), num(-2)]))
    kind = draw(st.sampled_from(["add", "mul", "div", "div"]))
    a = draw(positions(depth - 1))
    if kind == "add":
        return add(a, draw(positions(depth - 1)))
    if kind == "mul":
        return mul(num(draw(st.integers(-3, 4))), a)
    return fn("div", a, draw(st.sampled_from([num(2), num(3), num(4), size("n"), mul(num(2), size("n"))])))


def value(t: Term, sizes: dict[str, int]) -> int:
    if t.op == "num":
        return int(str(t.data))
    if t.op in ("idx", "size"):
        return sizes[str(t.data)]
    parts = [value(a, sizes) for a in t.args]
    if t.op == "div":
        return parts[0] // parts[1] if parts[1] > 0 else 0
    result = parts[0]
    for p in parts[1:]:
        result = result + p if t.op == "add" else result * p
    return result


@settings(max_examples=60, deadline=None, derandomize=True)
@given(t=positions())
def test_the_normal_form_of_a_position_has_its_value_and_is_a_fixed_point(ask: Z3, t: Term) -> None:
    facts = (Fact((), (), fn("le", ONE, size("n"))),)
    ctx = Context(ask, {"i": size("n"), "j": size("n")}, facts, {})
    search = Normalizer()
    found = search.normal(ctx, t)
    for n in (1, 2, 3, 5):
        for i, j in itertools.product(range(n), repeat=2):
            assert value(t, {"n": n, "i": i, "j": j}) == value(found, {"n": n, "i": i, "j": j})
    replayed = t
    for rule, path, *args in search.steps:
        replayed = apply(ctx, replayed, rule, path, args)
    assert replayed == found
    assert Normalizer().normal(ctx, found) == found
    assert substitute(found, {}) == found
