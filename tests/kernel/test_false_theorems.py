"""False theorems by hand: each is refused, and each is accepted once the check that stops it is gone."""

# ruff: noqa: E501

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pytest
from kernel_contexts import always, loose_positions
from kernel_programs import (
    GOOD_STEP,
    Json,
    apply,
    array,
    by,
    certificate,
    const,
    equal,
    program,
    reduce,
    rename,
    sum_fold,
    tiles,
)

from catdiag.kernel import checker, judgments, loop_rules, reduction_rules
from catdiag.kernel.checker import Checker
from catdiag.kernel.context import Context
from catdiag.kernel.facts import Fact
from catdiag.kernel.loop_rules import Meaning
from catdiag.kernel.terms import BOT, ZERO, KernelError, fn, idx, read, term_data
from catdiag.prover.proof_search import OpenGoal, find
from catdiag.solvers.z3 import Z3

NOTHING: Callable[..., None] = lambda *args, **named: None  # noqa: E731


@dataclass
class Attack:
    """A false statement, with a proof or one to be found, and the weakening under which it is accepted."""

    name: str
    left: Json
    right: Json
    proof: Json | None = None
    weaken: list[tuple[Any, str, Any]] = field(default_factory=list)
    assume: tuple[Any, ...] = ()
    search: bool = False
    # What the left side owes makes the statement true: the attack is to say that it owes nothing.
    owes: bool = False


A, E = [array("A", "x")], [array("A", "x", element="extended")]
AB = [array("A", "x"), array("B", "x")]
S = [array("A")]
X = [array("A", element="extended")]
XN: list[Any] = [["x", "x"]]
REAL_ALWAYS = [(Context, "real", always)]
COUNT = {"op": "size", "size": "x"}
INDEX = {"op": "index", "axis": ["x", "x"]}
ZERO_OF_A = [const("0"), apply("eq", 0, 1), const("1"), apply("where", 2, 3, 1)]


def _is_zero(index: str) -> Any:
    return term_data(fn("eq", read("A", idx(index)), ZERO))


# exp a = exp(−∞) = exp 0 where a = −∞, since −∞ = a = 1/(1/a) = 1/(1/−∞) = 0.
IS_BOTTOM = [const("-inf"), apply("eq", 0, 1), const("1")]
BOTTOM_A = term_data(fn("eq", read("A"), BOT))
TWICE = term_data(fn("inv", fn("inv", read("A"))))
BOTTOM_IS_0 = {"steps": [["equal", [0], term_data(read("A")), {"steps": [["equal", [1], term_data(BOT), {}]]}],
                         ["equal", [0], TWICE, {"steps": [["ring", [1]]]}], ["equal", [0, 0, 0], term_data(BOT), {}],
                         ["bottom", [0, 0]], ["ring", [0]]]}  # fmt: skip
AT_BOTTOM = [["equal", [0], term_data(BOT), {}], ["equal", [0], term_data(ZERO), BOTTOM_IS_0], ["ring", []]]


def _accept_anything(self: Checker, *args: Any, **named: Any) -> Callable[..., None]:
    return NOTHING


_ACCEPT = Checker.accept


def _forget_states(self: Checker, result: Any, *known: Any) -> Any:
    return _ACCEPT(self, Meaning(), *known)


def _all_positive(name: str, wire: Any, ctx: Context, element: str = "real") -> list[Fact]:
    value = read(name, *(idx(axis) for axis, _ in wire.axes))
    return [Fact(tuple((axis, None) for axis, _ in wire.axes), (), fn("lt", ZERO, value))]


BLOCK = array("A", "x", x="s_x")
# Counts where 0 < a, in a loop whose other component owes 0 < a: with that, it counts all.
HIDDEN = {
    "op": "fold", "axis": "x", "block": "s_x", "args": [0],
    "unit": program([], [const("0")], 0, 0),
    "step": program([array("s"), array("t"), BLOCK],
                    [const("0"), apply("lt", 3, 2), const("1"), apply("where", 4, 5, 3), reduce("sum", "x", 6),
                     apply("add", 0, 7), apply("log", 2), reduce("sum", "x", 9), apply("add", 1, 10)], 8, 11),
    "merge": program([array("s"), array("t"), array("u"), array("v")], [apply("add", 0, 2), apply("add", 1, 3)], 4, 5),
    "state": program([BLOCK], [const("1"), rename(1, [["x", "s_x"]]), reduce("sum", "x", 2), apply("log", 0),
                               reduce("sum", "x", 4)], 3, 5),
}  # fmt: skip
# Adds the length of an axis of R, which is not cut, once for each block.
OTHER = array("R", "y", y="s_x")
ONES = [const("0"), apply("mul", 0, 1), const("1"), apply("add", 2, 3), reduce("sum", "y", 4)]
UNCUT = {
    "op": "fold", "axis": "x", "block": "s_x", "args": [0, 1],
    "unit": program([], [const("0")], 0),
    "step": program([array("s"), BLOCK, OTHER],
                    [const("0"), apply("mul", 2, 3), const("1"), apply("add", 4, 5), reduce("sum", "y", 6),
                     apply("add", 0, 7)], 8),
    "merge": program([array("s"), array("t")], [apply("add", 0, 1)], 2),
    "state": program([BLOCK, OTHER],
                     [const("0"), apply("mul", 1, 2), const("1"), apply("add", 3, 4), reduce("sum", "y", 5)], 6),
}  # fmt: skip


ATTACKS = [
    # -- steps -----------------------------------------------------------------------------------
    Attack("1/(1/a) = a of what may be −∞, so that exp a = 1 there",
           program(X, [apply("exp", 0)], 1), program(X, [*IS_BOTTOM, apply("exp", 0), apply("where", 2, 3, 4)], 5),
           {"outputs": {"0": {"when": BOTTOM_A, "yes": equal([*AT_BOTTOM], [["decide", []]], close="field"),
                              "no": equal([], [["decide", []]])}}}, REAL_ALWAYS),
    Attack("a factor pulled out twice: Σ 3·a = 9·Σ a",
           program(A, [const("3"), apply("mul", 1, 0), reduce("sum", "x", 2)], 3),
           program(A, [const("9"), reduce("sum", "x", 0), apply("mul", 1, 2)], 3),
           by([["pull", [], [0, 0]]], close="field"), [(reduction_rules, "positions", loose_positions)]),
    Attack("max (−1·a) = −1·max a",
           program(A, [const("-1"), apply("mul", 1, 0), reduce("max", "x", 2)], 3),
           program(A, [const("-1"), reduce("max", "x", 0), apply("mul", 1, 2)], 3),
           by([["scale", [], [0]]]), [(Context, "nonnegative", always)], (("le", 1, "x"),)),
    Attack("max of a constant over no index is the constant",
           program(A, [const("5"), rename(1, XN), reduce("max", "x", 2)], (3, "extended")),
           program(A, [const("5")], (1, "extended")),
           by([["constant", []]]), [(Context, "positive_size", always)]),
    Attack("−∞ < a for a that may be −∞",
           program(X, [const("-inf"), apply("lt", 1, 0)], (2, "bool")),
           program(X, [const("0"), const("1"), apply("lt", 1, 2)], (3, "bool")),
           by([["compare", [0]], ["decide", []]], [["compare", [0]], ["decide", []]]), REAL_ALWAYS),
    Attack("a case that is not decided",
           program(A, [const("0"), apply("lt", 1, 0), apply("where", 2, 0, 1)], 3),
           program(A, [], 0), by([["decide", []]]), [(Context, "entails", always)]),
    # -- normal forms ------------------------------------------------------------------------------
    Attack("a/a = 1", program(S, [const("1")], 1), program(S, [apply("div", 0, 0)], 1),
           by(close="field"), [(Context, "nonzero", always), (loop_rules, "owes", lambda *a, **k: [])]),
    Attack("sqrt(a)² = a", program(S, [], 0), program(S, [apply("sqrt", 0), apply("mul", 1, 1)], 2),
           by(close="field"), [(Context, "nonnegative", always), (loop_rules, "owes", lambda *a, **k: [])]),
    Attack("sqrt(a²) = a", program(S, [], 0), program(S, [apply("mul", 0, 0), apply("sqrt", 1)], 2),
           by(close="field"), [(Context, "nonnegative", lambda self, t: t.op == "read" or len(set(t.args)) == 1)]),
    Attack("log(a·a) = 2·log a", program(S, [apply("mul", 0, 0), apply("log", 1)], 2),
           program(S, [const("2"), apply("log", 0), apply("mul", 1, 2)], 3),
           by(close="field"), [(Context, "positive", always), (loop_rules, "owes", lambda *a, **k: [])]),
    Attack("exp(log a) = a", program(S, [], 0), program(S, [apply("log", 0), apply("exp", 1)], 2),
           by(close="field"), [(Context, "positive", always), (loop_rules, "owes", lambda *a, **k: [])]),
    Attack("a − a = 0 at −∞", program(X, [const("0")], (1, "extended")),
           program(X, [apply("sub", 0, 0)], (1, "extended")),
           by(close="field"), [(Context, "real", always), (loop_rules, "owes", lambda *a, **k: [])]),
    Attack("exp(−∞)² = 1", program([], [const("-inf"), apply("exp", 0), apply("mul", 1, 1)], 2),
           program([], [const("1")], 0),
           by([["ring", []], ["bottom", [0]], ["ring", []]]),
           [(Context, "real", always)]),
    Attack("a condition about an index that a step opens later",
           program(A, [*ZERO_OF_A, reduce("sum", "x", 4)], 5),
           program(A, [COUNT, const("0"), apply("eq", 0, 2), apply("where", 3, 1, 2), reduce("max", "x", 4)], 5),
           {"outputs": {"0": {
               "when": _is_zero("%0"),
               "yes": equal([["decide", [1]], ["constant", []]], [["decide", [1]], ["constant", []]], close="field"),
               "no": equal([["decide", [1]], ["constant", []]], [["decide", [1]], ["constant", []]], close="field")}}},
           [(judgments, "leaves", lambda t, op: set())], (("le", 1, "x"),)),
    # -- definedness -------------------------------------------------------------------------------
    # -- statements --------------------------------------------------------------------------------
    Attack("two inputs of one name: a = b", program([array("A"), array("A")], [], 0),
           program([array("A"), array("A")], [], 1), {},
           [(checker, "well_formed", NOTHING)]),
    Attack("a field that no box has",
           program([array("A", "x")], [{"op": "map", "fn": "exp", "args": [0], "axes": "x"}], 1),
           program([array("A", "x")], [{"op": "map", "fn": "exp", "args": [0], "axes": "y"}], 1), {},
           [(checker, "well_formed", NOTHING)]),
    Attack("inputs of two types", program(A, [const("0")], 1), program(S, [const("0")], 1), {}),
    Attack("outputs of two types", program(A, [const("0")], (1, "real")), program(A, [const("0")], (1, "extended")), {}),
    # -- folds ---------------------------------------------------------------------------------------
    Attack("a loop that forgets its state",
           program(A, [reduce("sum", "x", 0)], 1),
           program(A, [sum_fold([reduce("sum", "x", 1)], 2)], 1), None,
           [(Checker, "accept", _accept_anything)], search=True),
    Attack("a loop right for blocks of one, these being assumed",
           program(A, [reduce("sum", "x", 0)], 1),
           program(A, [sum_fold([reduce("sum", "x", 1), {"op": "size", "size": "s_x"}, const("1"), apply("le", 3, 4),
                                 const("0"), apply("where", 5, 2, 6), apply("add", 0, 7)], 8)], 1), None,
           [], (("le", "%b", 1),), search=True),
    Attack("a loop on the left that leans on what a part of it owes that is not used",
           program(A, [HIDDEN], 1), program(A, [COUNT], 1), None,
           [(Checker, "accept", _forget_states)], search=True, owes=True),
    Attack("a loop whose block is the size of an axis that is not cut",
           program([array("A", "x"), array("R", "y", y="x")], [COUNT], 2),
           program([array("A", "x"), array("R", "y", y="x")], [UNCUT], 2), None,
           [(loop_rules, "cut_only", NOTHING)], search=True),
    Attack("a loop that takes what may be −∞ for real",
           program(E, [reduce("sum", "x", 0)], (1, "extended")),
           program(E, [sum_fold([apply("sub", 1, 1), apply("add", 2, 1), reduce("sum", "x", 3), apply("add", 0, 4)], 5)],
                   (1, "extended")), None,
           [(Context, "real", always), (Checker, "_all_met", NOTHING), (loop_rules, "owes", lambda *a, **k: [])], search=True),
    Attack("a loop that takes its inputs for positive",
           program(A, [reduce("sum", "x", 0)], 1),
           program(A, [sum_fold([apply("mul", 1, 1), apply("sqrt", 2), reduce("sum", "x", 3), apply("add", 0, 4)], 5)], 1),
           None, [(loop_rules, "_signs_of_input", _all_positive)], search=True),
    Attack("a loop whose block has the name of a size",
           program([array("A", "x"), array("B", "s_x")], [reduce("sum", "x", 0)], 2),
           program([array("A", "x"), array("B", "s_x")], [sum_fold(GOOD_STEP, 3)], 2), None,
           [(loop_rules, "local_name", lambda name, scope: name)], search=True),
    Attack("a loop that begins at 1",
           program(A, [reduce("sum", "x", 0)], 1), program(A, [sum_fold(GOOD_STEP, 3, unit="1")], 1), None,
           [(Checker, "accept", _accept_anything)], search=True),
    Attack("a loop that adds the size of its block",
           program(A, [reduce("sum", "x", 0)], 1),
           program(A, [sum_fold([*GOOD_STEP, {"op": "size", "size": "s_x"}, apply("add", 3, 4)], 5)], 1), None,
           [(Checker, "accept", _accept_anything)], search=True),
    Attack("a loop whose step divides by what may be 0",
           program(A, [reduce("sum", "x", 0)], 1),
           program(A, [sum_fold([*GOOD_STEP, apply("div", 3, 3), apply("mul", 4, 3)], 5)], 1), None,
           [(Checker, "accept", _accept_anything)], search=True),
    # -- groups --------------------------------------------------------------------------------------
    Attack("a group that uses the position in its tile",
           program(A, [INDEX], 1),
           program(A, [tiles([array("A", "x", x="g_x")], [INDEX | {"axis": ["x", "g_x"]}], 1, [0], "x")], 1), {},
           [(Checker, "accept", _accept_anything)]),
    Attack("a group that uses the size of its tile",
           program(A, [COUNT, rename(1, XN)], 2),
           program(A, [tiles([array("A", "x", x="g_x")], [{"op": "size", "size": "g_x"}, rename(1, [["x", "g_x"]])],
                             2, [0], "x")], 1), {},
           [(Checker, "accept", _accept_anything)]),
    Attack("a group that sums over its axis",
           program(A, [reduce("sum", "x", 0), rename(1, XN)], 2),
           program(A, [tiles([array("A", "x", x="g_x")], [reduce("sum", "x", 0), rename(1, [["x", "g_x"]])],
                             2, [0], "x")], 1), {},
           [(Checker, "accept", _accept_anything)]),
    Attack("a group whose output has another size along its axis",
           program(A, [const("0"), rename(1, [["x", "m"]])], 2),
           program(A, [tiles([array("A", "x", x="g_x")], [const("0"), rename(1, [["x", "m"]])], 2, [0], "x")], 1), {},
           [(Checker, "accept", _accept_anything)]),
    Attack("a group whose tile is the size of an axis that is not cut",
           program([array("A", "x"), array("B", "y", y="x")], [const("0"), rename(2, [["x", "x"], ["y", "x"]])], 3),
           program([array("A", "x"), array("B", "y", y="x")],
                   [tiles([array("A", "x", x="g_x")], [const("0"), rename(1, [["x", "g_x"], ["y", "g_x"]])], 2, [0], "x")],
                   2), {},
           [(Checker, "accept", _accept_anything)]),
    Attack("a group without its axis in the output",
           program(A, [const("0")], 1),
           program(A, [tiles([array("A", "x", x="g_x")], [const("0")], 1, [0], "x")], 1), {},
           [(Checker, "accept", _accept_anything)]),
]  # fmt: skip


def _check(attack: Attack, ask: Z3) -> checker.CheckedTheorem:
    proof = attack.proof
    made = certificate(attack.left, attack.right, proof, attack.assume)
    if attack.search:
        made = find(ask, made["statement"])
    return Checker(ask).check(made)


@pytest.mark.parametrize("attack", ATTACKS, ids=lambda a: a.name)
def test_a_false_statement_is_refused(attack: Attack, ask: Z3) -> None:
    try:
        theorem = _check(attack, ask)
    except (KernelError, OpenGoal):
        return
    # Where only definedness is at stake, a theorem may be had under conditions that say so.
    assert theorem.conditional or (attack.owes and theorem.defined), theorem


@pytest.mark.parametrize("attack", [a for a in ATTACKS if a.weaken], ids=lambda a: a.name)
def test_it_is_accepted_once_the_check_is_gone(attack: Attack, ask: Z3, monkeypatch: pytest.MonkeyPatch) -> None:
    for where, name, weak in attack.weaken:
        monkeypatch.setattr(where, name, weak)
    theorem = _check(attack, ask)
    assert not theorem.conditional and not (attack.owes and theorem.defined)
