"""False claims with the proof that would show them, were it not for one condition of the kernel; true ones beside."""

from __future__ import annotations

from typing import Any

import pytest
from kernel_oracle import ask
from kernel_programs import Json, apply, array, by, certificate, const, program, reduce, rename, sum_fold

from catdiag.kernel import rewrite_rules
from catdiag.kernel.checker import CheckedTheorem, Checker
from catdiag.kernel.context import Context
from catdiag.kernel.facts import Fact
from catdiag.kernel.terms import MINUS, ONE, KernelError, add, big, fn, idx, mul, num, read, size, term_data
from catdiag.prover.proof_search import OpenGoal, find
from catdiag.solvers.z3 import Z3

A, N = read("A"), size("n")


def checked(left: Json, right: Json, proof: Json | None = None) -> CheckedTheorem:
    return Checker(ask).check(certificate(left, right, proof))


def proved(z3: Z3, left: Json, right: Json) -> bool:
    try:
        Checker(z3).check(find(z3, certificate(left, right)["statement"]))
    except (OpenGoal, KernelError):
        return False
    return True


def test_a_sum_of_ones_counts_a_range_that_is_natural_only() -> None:
    """Else A = Σ_{i<A} 1 ≥ 0, and |A| = A."""
    ones = big("sum", A, ONE)
    put = term_data(add(A, mul(MINUS, ones), ones))

    def counted(*path: int) -> list[Any]:
        return [["same", [*path], put], ["constant", [*path, 1, 1]], ["ring", [*path]]]

    left, right = program([array("A")], [apply("abs", 0)], 1), program([array("A")], [], 0)
    with pytest.raises(KernelError, match="does not simplify"):
        checked(left, right, by([*counted(0), *counted(1, 1), ["larger", []]], counted()))


@pytest.mark.parametrize("n", [A, num(-1), add(N, MINUS), fn("inv", num(2)), fn("max", A, MINUS)])
@pytest.mark.parametrize(("monoid", "body"), [("sum", ONE), ("sum", A), ("prod", num(2))])
def test_no_constant_is_taken_out_of_a_range_that_may_be_less_than_empty(n: Any, monoid: str, body: Any) -> None:
    ctx = Context(ask, {}, (), {"A": "real"})
    with pytest.raises(KernelError, match="does not simplify"):
        rewrite_rules.apply(ctx, big(monoid, n, body), "constant", [])


def test_a_constant_is_taken_out_of_a_range_that_is_known_to_be_natural() -> None:
    some = Context(ask, {}, (Fact((), (), fn("le", ONE, N)),), {"A": "real", "K": "int"})
    assert rewrite_rules.apply(some, big("sum", add(N, MINUS), A), "constant", []) == mul(add(N, MINUS), A)
    # ½ is at least 0 and no number of indices.
    with pytest.raises(KernelError, match="does not simplify"):
        rewrite_rules.apply(some, big("sum", fn("inv", num(2)), A), "constant", [])


def test_an_index_counted_from_above_is_no_index_that_a_step_opens() -> None:
    """Were i = n − 1 − j with the j that is summed over, i + j < n would hold of all."""
    inputs = [array("A", "x", x="n")]
    indices = [{"op": "index", "axis": [name, "n"]} for name in ("j", "x")]
    summed = [*indices, apply("add", 1, 2), {"op": "size", "size": "n"}, apply("lt", 3, 4), const("0"),
              apply("where", 5, 0, 6), reduce("sum", "x", 7)]  # fmt: skip
    right = program(inputs, [reduce("sum", "x", 0), rename(1, [["j", "n"]])], 2)
    with pytest.raises(KernelError, match="not decided"):
        checked(program(inputs, summed, 8), right, by([["decide", [1]]]))
    ctx = Context(ask, {"1": N, "%1": N})
    assert not ctx.entails(fn("lt", add(idx("1"), idx("%1")), N))
    assert ctx.entails(fn("lt", idx("1"), N))
    # Nor is a size less one the length of a list.
    sizes = Context(ask, {}, (Fact((), (), fn("le", ONE, size("a"))),))
    for given in ("%a", "% a", "%%a"):
        assert not sizes.entails(fn("le", size("a"), add(size(given), ONE)))


LAST = [{"op": "index", "axis": ["x", "s_x"]}, {"op": "size", "size": "s_x"}, const("-1"), apply("add", 2, 3),
        apply("eq", 1, 4)]  # fmt: skip


@pytest.mark.parametrize("loop_only", [False, True])
def test_what_is_live_in_a_block_is_live_in_the_list(z3: Z3, loop_only: bool) -> None:
    """The last of each block is live, and of the list the last alone is: what is before it may not be left out."""
    block = array("A", "x", x="s_x")
    fold = sum_fold([reduce("sum", "x", 1), apply("add", 0, 2)], 3) | {"live": program([block], LAST, (5, "bool"))}
    if not loop_only:
        fold["extent"] = program([block], [*LAST[1:3], apply("add", 1, 2), LAST[1]], (3, "int"), (4, "int"))
    left = program([array("A", "x")], [reduce("sum", "x", 0)], 1)
    assert proved(z3, left, program([array("A", "x")], [fold], 1)) == loop_only


def counting(first: int, length: Json, *axes: tuple[str, str]) -> tuple[list[Json], list[int]]:
    """Along each axis a length where the position is not below n, and 0 where it is; nodes from `first` on."""
    nodes: list[Json] = []
    for axis, n in axes:
        k = first + len(nodes)
        nodes += [{"op": "index", "axis": [axis, n]}, {"op": "size", "size": "n"}, apply("lt", k, k + 1), const("0"),
                  length, apply("where", k + 2, k + 3, k + 4)]  # fmt: skip
    return nodes, [first + 5 + 6 * k for k in range(len(axes))]


@pytest.mark.parametrize(("m", "true"), [("n", True), ("m", False)])
def test_a_component_does_not_stand_for_another_beyond_its_axis(z3: Z3, m: str, true: bool) -> None:
    """Both states are 0 below n, and where nothing is live that stays so; what the second is beyond n does not."""
    axes, block = [("q", "n"), ("q", m)], array("A", "x", x="s_x")
    s, t = array("s", "q", q="n"), array("t", "q", q=m)
    unit, starts = counting(0, const("0"), *axes)
    step, added = counting(3, {"op": "size", "size": "s_x"}, *axes)
    state, found = counting(1, {"op": "size", "size": "s_x"}, *axes)
    last, merge = 3 + len(step), [apply("add", 0, 2), apply("add", 1, 3)]
    never = [const("0"), apply("lt", 0, 1), apply("lt", 1, 0), apply("and", 2, 3)]
    fold = {
        "op": "fold", "axis": "x", "block": "s_x", "args": [0],
        "unit": program([], unit, *starts),
        "step": program([s, t, block], [*step, apply("add", 0, added[0]), apply("add", 1, added[1])], last, last + 1),
        "merge": program([s, t, {**s, "name": "u"}, {**t, "name": "v"}], merge, 4, 5),
        "state": program([block], state, *found),
        "live": program([block], never, (4, "bool")),
    }  # fmt: skip
    inputs = [array("A", "x"), array("N", "n"), array("M", "m")]
    whole, ends = counting(3, {"op": "size", "size": "x"}, *axes)
    assert proved(z3, program(inputs, whole, *ends), program(inputs, [fold], 3, 4)) == true


@pytest.mark.parametrize(("n", "true"), [(0, True), (1, False)])
def test_a_component_of_no_element_stands_for_none_that_has_one(z3: Z3, n: int, true: bool) -> None:
    """Along an axis of no index the length of a list does not change; by itself it does."""
    length, block = {"op": "size", "size": "s_x"}, array("A", "x", x="s_x")
    along, plain = array("s", "q", q=n), array("t")
    never = [const("0"), apply("lt", 0, 1), apply("lt", 1, 0), apply("and", 2, 3)]

    def fold(*axes: Json) -> Json:
        spread, count = [rename(1, [["q", n]])], len(axes)
        outputs = [2, 1][:count]
        merged = [apply("add", k, k + count) for k in range(count)]
        added = [apply("add", k, count + 1) for k in range(count)]
        return {
            "op": "fold", "axis": "x", "block": "s_x", "args": [0],
            "unit": program([], [const("0"), rename(0, [["q", n]])], *[1, 0][:count]),
            "step": program([*axes, block], [length, *added], *range(count + 2, 2 * count + 2)),
            "merge": program([*axes, *({**a, "name": a["name"] + "2"} for a in axes)], merged,
                             *range(2 * count, 3 * count)),
            "state": program([block], [length, *spread], *outputs),
            "live": program([block], never, (4, "bool")),
        }  # fmt: skip

    inputs, whole = [array("A", "x"), array("Q", "q", q=n)], [{"op": "size", "size": "x"}, rename(2, [["q", n]])]
    assert proved(z3, program(inputs, whole, 3), program(inputs, [fold(along)], 2)) == true
    assert not proved(z3, program(inputs, whole, 3, 2), program(inputs, [fold(along, plain)], 2, 3))
