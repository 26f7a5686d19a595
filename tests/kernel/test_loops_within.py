"""Loops that skip blocks and loops within loops: false ones are refused, and would not be without each premise."""

from __future__ import annotations

from typing import Any

import pytest
from kernel_programs import GOOD_STEP, Json, apply, array, certificate, const, program, reduce, sum_fold

from catdiag.kernel.checker import Checker
from catdiag.kernel.loop_rules import Loops
from catdiag.kernel.terms import KernelError
from catdiag.prover.proof_search import OpenGoal, find
from catdiag.solvers.z3 import Z3

X = array("A", "x")
KEPT = [{"op": "size", "size": 3}, apply("lt", 1, 2), const("0"), apply("where", 3, 0, 4)]
"""Of elements at positions below 3; wire 0 the elements, wire 1 the positions."""


def provable(ask: Z3, left: Json, right: Json, *assume: Any) -> bool:
    try:
        Checker(ask).check(find(ask, certificate(left, right, None, assume)["statement"]))
    except (OpenGoal, KernelError):
        return False
    return True


def first_three(**guides: Json) -> tuple[Json, Json]:
    """The sum of what stands at positions below 3, and a loop for it that skips blocks."""
    block, places = array("A", "x", x="s_x"), array("i", "x", element="int", x="s_x")
    index = {"op": "index", "axis": ["x", "x"]}
    masked = [{**node, "args": [w + 1 for w in node["args"]]} if "args" in node else node for node in KEPT]
    fold = {
        "op": "fold", "axis": "x", "block": "s_x", "args": [0, 1],
        "unit": program([], [const("0")], 0),
        "step": program([array("s"), block, places], [*masked, reduce("sum", "x", 6), apply("add", 0, 7)], 8),
        "merge": program([array("s"), array("t")], [apply("add", 0, 1)], 2),
        "state": program([block, places], [*KEPT, reduce("sum", "x", 5)], 6),
        **{name: {**guide, "inputs": [block, places]} for name, guide in guides.items()},
    }  # fmt: skip
    left = program([X], [index, *KEPT, reduce("sum", "x", 5)], 6)
    return left, program([X], [index, fold], 2)


def bounds(lo: int, hi: int) -> Json:
    return program([], [{"op": "size", "size": lo}, {"op": "size", "size": hi}], (2, "int"), (3, "int"))


def below(n: int) -> Json:
    return program([], [{"op": "size", "size": n}, apply("lt", 1, 2)], (3, "bool"))


@pytest.mark.parametrize(
    ("lo", "hi", "true"), [(0, 3, True), (0, 5, True), (0, 2, False), (1, 3, False), (3, 3, False)]
)
def test_an_extent(ask: Z3, lo: int, hi: int, true: bool) -> None:
    assert provable(ask, *first_three(extent=bounds(lo, hi), live=below(3))) == true
    assert not provable(ask, *first_three(extent=bounds(lo, hi)))


@pytest.mark.parametrize(("n", "true"), [(3, True), (2, False), (0, False)])
def test_what_is_live(ask: Z3, n: int, true: bool) -> None:
    assert provable(ask, *first_three(live=below(n))) == true


@pytest.mark.parametrize(("guide", "premise"), [
    ({"extent": bounds(0, 2), "live": below(3)}, "_beyond"),
    ({"extent": bounds(1, 3), "live": below(3)}, "_beyond"),
    ({"live": below(2)}, "_passed_over"),
])  # fmt: skip
def test_without_its_premise_a_block_that_matters_is_left_out(
    ask: Z3, guide: Any, premise: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert not provable(ask, *first_three(**guide))
    monkeypatch.setattr(Loops, premise, lambda *args: None)
    assert provable(ask, *first_three(**guide))


@pytest.mark.parametrize("guide", [
    {"extent": program([], [const("1/2")], (2, "real")), "live": below(3)},
    {"extent": program([], [], (0, "real"), (0, "real")), "live": below(3)},
    {"live": program([], [], (0, "real"))},
    {"live": program([], [{**sum_fold([], 0), "args": [0]}], (2, "real"))},
])  # fmt: skip
def test_guides_of_another_form_are_refused(ask: Z3, guide: Any) -> None:
    assert not provable(ask, *first_three(**guide))


def test_positions_of_another_axis_or_array_are_not_taken_for_those_along_it(ask: Z3) -> None:
    """An array of integers that the user gives is no position, whatever it is called."""
    left, right = first_three(extent=bounds(0, 3), live=below(3))
    given = [X, array("index_x", "x", element="int")]
    left = program(given, [*KEPT, reduce("sum", "x", 5)], 6)
    right = program(given, [{**right["nodes"][1], "args": [0, 1]}], 2)
    assert not provable(ask, left, right)
    plain = {k: v for k, v in right["nodes"][0].items() if k != "extent"}
    assert provable(ask, left, program(given, [plain], 2))


def rows(inner: list[Json], out: int, y: str = "y") -> tuple[Json, Json]:
    """The sum of all of A[x,y], and a loop over x whose step sums each block over y in a loop of its own."""
    whole, block = array("A", "x", "y"), array("A", "x", "y", x="s_x", y=y)
    block = {**block, "axes": [["x", "s_x"], ["y", "y"]]}
    cut = {**block, "axes": [["x", "s_x"], ["y", "s_y"]]}
    state = {"name": "s", "axes": [["x", "s_x"]], "element": "real"}
    fold = {
        "op": "fold", "axis": "y", "block": "s_y", "args": [1],
        "unit": program([], [const("0"), {"op": "view", "args": [0], "axes": [["x", "s_x"]],
                                          "reads": [{"at": {}, "where": []}]}], 1),
        "step": program([state, cut], inner, out),
        "merge": program([state, {**state, "name": "t"}], [apply("add", 0, 1)], 2),
        "state": program([cut], [reduce("sum", "y", 0)], 1),
    }  # fmt: skip
    outer = {
        "op": "fold", "axis": "x", "block": "s_x", "args": [0],
        "unit": program([], [const("0")], 0),
        "step": program([array("s"), block], [fold, reduce("sum", "x", 2), apply("add", 0, 3)], 4),
        "merge": program([array("s"), array("t")], [apply("add", 0, 1)], 2),
        "state": program([block], [reduce("sum", "y", 0), reduce("sum", "x", 1)], 2),
    }  # fmt: skip
    return program([whole], [reduce("sum", "y", 0), reduce("sum", "x", 1)], 2), program([whole], [outer], 1)


GOOD = [reduce("sum", "y", 1), apply("add", 0, 2)]


def test_a_loop_in_the_step_of_another(ask: Z3) -> None:
    assert provable(ask, *rows(GOOD, 3))
    assert not provable(ask, *rows([reduce("sum", "y", 1)], 2))
    assert not provable(ask, *rows([reduce("max", "y", 1), apply("add", 0, 2)], 3))
    assert not provable(ask, *rows([reduce("sum", "y", 1), {"op": "size", "size": "s_x"}, apply("add", 0, 2),
                                    apply("add", 3, 4)], 5))  # fmt: skip


def test_what_a_loop_inside_takes_for_granted_is_owed(ask: Z3) -> None:
    """A loop that counts by Σ A·(1/A), beside Σ 1/A, is right where A is not 0; it is asked whether that is so."""
    block = {"name": "A", "axes": [["x", "s_x"], ["y", "y"]], "element": "real"}
    cut = {**block, "axes": [["x", "s_x"], ["y", "s_y"]]}
    s, t = ({"name": n, "axes": [["x", "s_x"]], "element": "real"} for n in "st")
    one = [const("1"), {"op": "view", "args": [1], "axes": cut["axes"], "reads": [{"at": {}, "where": []}]}]
    along = {"op": "view", "args": [0], "axes": [["x", "s_x"]], "reads": [{"at": {}, "where": []}]}
    inner = {
        "op": "fold", "axis": "y", "block": "s_y", "args": [1],
        "unit": program([], [const("0"), along], 1, 1),
        "step": program([s, t, cut], [const("1"), apply("div", 3, 2), apply("mul", 2, 4), reduce("sum", "y", 5),
                                      apply("add", 0, 6), reduce("sum", "y", 4), apply("add", 1, 8)], 7, 9),
        "merge": program([s, t, {**s, "name": "u"}, {**t, "name": "v"}],
                         [apply("add", 0, 2), apply("add", 1, 3)], 4, 5),
        "state": program([cut], [*({**n, "args": [1]} if n["op"] == "view" else n for n in one), reduce("sum", "y", 2),
                                 apply("div", 1, 0), reduce("sum", "y", 4)], 3, 5),
    }  # fmt: skip
    outer = {
        "op": "fold", "axis": "x", "block": "s_x", "args": [0],
        "unit": program([], [const("0")], 0),
        "step": program([array("s"), block], [inner, reduce("sum", "x", 2), apply("add", 0, 4)], 5),
        "merge": program([array("s"), array("t")], [apply("add", 0, 1)], 2),
        "state": program([block], [const("1"), {"op": "view", "args": [1], "axes": block["axes"],
                                                "reads": [{"at": {}, "where": []}]},
                                   reduce("sum", "y", 2), reduce("sum", "x", 3)], 4),
    }  # fmt: skip
    whole = array("A", "x", "y")
    left = program([whole], [const("1"), {"op": "view", "args": [1], "axes": whole["axes"],
                                          "reads": [{"at": {}, "where": []}]},
                             reduce("sum", "y", 2), reduce("sum", "x", 3)], 4)  # fmt: skip
    assert not provable(ask, left, program([whole], [outer], 1))


def test_the_block_of_a_loop_is_known_in_its_step_only(ask: Z3) -> None:
    left, right = rows(GOOD, 3)
    (outer,) = right["nodes"]
    inner = outer["step"]["nodes"][0]
    outside = program(right["inputs"], [outer, {**inner, "args": [0]}], 2)
    same = program(left["inputs"], [reduce("sum", "y", 0)], 1)
    assert not provable(ask, same, outside)


def test_what_is_contradictory(ask: Z3) -> None:
    """Under n < 1 and 1 ≤ n anything holds; under n < 2 and 1 ≤ n it does not."""
    left, right = program([X], [reduce("sum", "x", 0)], 1), program([X], [const("0")], 1)
    for bound, true in ((1, True), (2, False)):
        made = certificate(left, right, {"outputs": {"0": {"absurd": True}}}, (("le", 1, "x"), ("lt", "x", bound)))
        if true:
            assert Checker(ask).check(made).goals == 1
            continue
        with pytest.raises(KernelError, match="not contradictory"):
            Checker(ask).check(made)


@pytest.mark.parametrize("fn", ["log", "sqrt", "div"])
def test_what_is_asked_of_a_block_is_defined(ask: Z3, fn: str) -> None:
    """`0·log A = 0` holds of the kernel's numbers wherever A lies, but not where log A is not defined."""
    partial = [const("0"), apply(fn, *((1, 0) if fn == "div" else (0,))), apply("mul", 1, 2), apply("eq", 3, 1)]
    block = array("A", "x", x="s_x")
    summed = program([X], [reduce("sum", "x", 0)], 1)

    def guided(nodes: list[Json]) -> Json:
        return program([X], [{**sum_fold(GOOD_STEP, 3), "live": program([block], nodes, (len(nodes), "bool"))}], 1)

    assert not provable(ask, summed, guided(partial))
    assert provable(ask, summed, guided([const("0"), apply("mul", 0, 1), apply("eq", 2, 1)]))


def test_extents_are_defined(ask: Z3) -> None:
    at = [const("0"), const("-1"), apply("sqrt", 3), apply("mul", 2, 4), {"op": "size", "size": 3}]
    assert not provable(ask, *first_three(extent=program([], at, 5, (6, "int")), live=below(3)))


def test_what_a_loop_in_a_group_takes_for_granted_is_the_same_on_every_tile(ask: Z3) -> None:
    """Beside Σ_y A a loop has Σ_y A·√(g − 5), g its own length of x, which is owed of the whole x, of 5 or more."""
    along = {"op": "view", "args": [0], "axes": [["x", "g_x"]], "reads": [{"at": {}, "where": []}]}
    block = {"name": "A", "axes": [["x", "g_x"], ["y", "s_y"]], "element": "real"}
    s, t, u, v = ({"name": n, "axes": [["x", "g_x"]], "element": "real"} for n in "stuv")

    def root(k: int) -> list[Json]:
        return [{"op": "size", "size": "g_x"}, const("5"), apply("sub", k, k + 1), apply("sqrt", k + 2)]

    fold = {
        "op": "fold", "axis": "y", "block": "s_y", "args": [0],
        "unit": program([], [const("0"), along], 1, 1),
        "step": program([s, t, block], [
            *root(3), apply("mul", 2, 6), reduce("sum", "y", 7), apply("add", 1, 8),
            const("0"), apply("le", 10, 5), const("7"), apply("where", 11, 2, 12),
            reduce("sum", "y", 13), apply("add", 0, 14)], 15, 9),
        "merge": program([s, t, u, v], [apply("add", 0, 2), apply("add", 1, 3)], 4, 5),
        "state": program([block], [*root(1), apply("mul", 0, 4), reduce("sum", "y", 5), reduce("sum", "y", 0)], 7, 6),
    }  # fmt: skip
    body = program([{"name": "A", "axes": [["x", "g_x"], ["y", "y"]], "element": "real"}], [fold], 1)
    whole = array("A", "x", "y")
    left = program([whole], [reduce("sum", "y", 0)], 1)
    right = program([whole], [{"op": "group", "tiles": [["x", "g_x"]], "args": [0], "body": body}], 1)
    assert not provable(ask, left, right, ("le", 5, "x"))
