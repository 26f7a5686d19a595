"""Views: what they read, what they owe, and bounds of indices that are settled without a solver."""

from __future__ import annotations

import random
from itertools import product
from typing import Any

import pytest
from kernel_programs import Json, apply, array, certificate, const, program, tiles

from catdiag.kernel.checker import Checker
from catdiag.kernel.context import Context
from catdiag.kernel.facts import Fact
from catdiag.kernel.semantics import evaluate, inputs_of
from catdiag.kernel.terms import ONE, KernelError, Term, add, fn, idx, mul, num, size, sub


def no_solver(hypotheses: Any, goal: Term) -> bool:
    raise AssertionError(f"the solver was asked: {goal}")


def tells_nothing(hypotheses: Any, goal: Term) -> bool:
    return False


def view(args: list[int], axes: list[Any], *reads: Json) -> Json:
    return {"op": "view", "args": args, "axes": axes, "reads": list(reads)}


def at(where: list[Any] | None = None, **expressions: Any) -> Json:
    return {"at": expressions, "where": where or []}


def reads_only(node: Json, *inputs: Json) -> Json:
    return program(list(inputs), [node], len(inputs))


def test_a_read_that_may_be_out_of_range_is_owed() -> None:
    shifted = reads_only(view([0], [["y", "y"]], at(x=["+", ["i", "y"], 1])), array("A", "x"))
    made = certificate(shifted, shifted, {}, ())
    theorem = Checker(tells_nothing).check(made)
    assert theorem.defined == ("i_y + 1 < x for all i_y < y",)
    assert Checker(tells_nothing).check(certificate(shifted, shifted, {}, (("le", ["+", "y", 1], "x"),))).defined == ()


TABLE, PLACES, TAIL = array("T", "k"), array("W", "x", element="int"), array("B", "x")


def in_groups(node: Json, *body: Json) -> tuple[Json, Json]:
    """exp of what a table has at given places; and exp of a view in groups, whose body has these inputs."""
    inputs = [TABLE, PLACES, TAIL]
    grouped = tiles(list(body), [node, apply("exp", 3)], 4, [0, 1, 2], "x")
    plain = view([0, 1], [["x", "x"]], at(k=["w", 1]))
    return program(inputs, [plain, apply("exp", 3)], 4), program(inputs, [grouped], 3)


def tiled(name: str, element: str = "real") -> Json:
    return array(name, "x", element=element, x="g_x")


def test_a_tile_reads_a_whole_table_at_places_that_the_whole_owes() -> None:
    gather = view([0, 1], [["x", "g_x"]], at(k=["w", 1]))
    left, right = in_groups(gather, TABLE, tiled("W", "int"), tiled("B"))
    theorem = Checker(confirms_tiling).check(certificate(left, right))
    assert theorem.defined == ("0 ≤ W[i_x] for all i_x < x", "W[i_x] < k for all i_x < x") and not theorem.conditional
    inputs, of_tail = [TABLE, PLACES, TAIL], apply("exp", 2)
    reckless = program(inputs, [*right["nodes"], const("0"), apply("mul", 3, 4), of_tail, apply("add", 5, 6)], 7)
    made = certificate(program(inputs, [of_tail], 3), reckless, {"outputs": {"0": {"close": "field"}}})
    assert Checker(confirms_tiling).check(made).conditional


@pytest.mark.parametrize(
    "node",
    [
        view([2, 1], [["x", "g_x"]], at(x=["+", ["i", "x"], 1])),
        view([2, 1], [["x", "g_x"]], at(x=["w", 1])),
        view([0, 1], [["x", "g_x"]], at(k=["i", "x"])),
        view([0, 1], [["x", "g_x"]], at(k=["+", ["w", 1], "g_x"])),
    ],
)
def test_a_tile_does_not_read_other_tiles_nor_at_other_places(node: Json) -> None:
    left, right = in_groups(node, TABLE, tiled("W", "int"), tiled("B"))
    with pytest.raises(KernelError, match="not weaved"):
        Checker(confirms_tiling).check(certificate(left, right))


def test_what_a_tile_owes_in_other_words_than_the_whole_is_not_taken_for_granted() -> None:
    """What is read is the same everywhere; the whole owes x ≤ k, and a tile its own length only."""
    five = [const("5"), view([3], [["k", "k"]], at()), view([4, 1], [["x", "g_x"]], at(k=["i", "x"])), apply("exp", 5)]
    body = tiles([TABLE, tiled("W", "int"), tiled("B")], five, 6, [0, 1, 2], "x")
    inputs = [TABLE, PLACES, TAIL]
    left = program(inputs, [const("5"), view([3], [["x", "x"]], at()), apply("exp", 4)], 5)
    with pytest.raises(KernelError, match="beyond itself"):
        Checker(confirms_tiling).check(certificate(left, program(inputs, [body], 3)))


def confirms_tiling(hypotheses: Any, goal: Any) -> bool:
    """Says yes to what is asked of all tilings, of sizes by other names than programs have."""
    return not any("%" in str(t) or "W" in str(t) for t in (*hypotheses, goal))


def test_what_only_the_right_side_reads_out_of_range_is_a_condition() -> None:
    a = array("A", "x")
    left = program([a], [const("0"), view([1], [["x", "x"]], at())], 2)
    taken = view([0, 1], [["x", "x"]], at([["lt", ["+", ["i", "x"], 1], "x"]], x=["+", ["i", "x"], 1]), at())
    reckless = view([0], [["x", "x"]], at(x=["+", ["i", "x"], 7]))
    zero = {"op": "map", "fn": "mul", "args": [1, 2]}
    for node, conditional in ((taken, False), (reckless, True)):
        right = program([a], [const("0"), node, zero], 3)
        steps = {"outputs": {"0": {"close": "field"}}}
        assert Checker(tells_nothing).check(certificate(left, right, steps)).conditional == conditional


def test_later_reads_know_that_the_earlier_conditions_fail() -> None:
    joined = view([0, 1], [["w", ["+", "x", "y"]]], at([["lt", ["i", "w"], "x"]], x=["i", "w"]),
                  at(y=["+", ["i", "w"], ["*", -1, "x"]]))  # fmt: skip
    made = reads_only(joined, array("A", "x"), array("B", "y"))
    assert Checker(tells_nothing).check(certificate(made, made)).defined == ()


def test_a_read_at_values_of_an_array_owes_that_these_are_indices() -> None:
    gather = reads_only(view([0, 1], [["q", "q"]], at(x=["w", 1])), array("A", "x"), array("I", "q", element="int"))
    wires = evaluate(gather, inputs_of(gather, {}), {}, lambda *_: None)
    assert str(wires[0].term) == "A[I[i_q]]"
    theorem = Checker(tells_nothing).check(certificate(gather, gather))
    assert theorem.defined == ("0 ≤ I[i_q] for all i_q < q", "I[i_q] < x for all i_q < q")


@pytest.mark.parametrize("side", [0, 1])
def test_a_loop_whose_reads_are_out_of_range_is_refused(side: int) -> None:
    from kernel_programs import sum_fold

    read = view([0], [["x", "s_x"]], at(x=["+", ["i", "x"], side]))
    fold = sum_fold([{**read, "args": [1]}, {"op": "reduce", "monoid": "sum", "axis": "x", "args": [2]},
                     {"op": "map", "fn": "add", "args": [0, 3]}], 4,
                    state=[read, {"op": "reduce", "monoid": "sum", "axis": "x", "args": [1]}], at=2)  # fmt: skip
    made = program([array("A", "x")], [fold], 1)

    def confirms(hypotheses: Any, goal: Term) -> bool:
        return "%" not in str([*hypotheses, goal])

    from catdiag.prover.proof_search import OpenGoal, find

    def attempt() -> None:
        Checker(confirms).check(find(confirms, certificate(made, made)["statement"]))

    if side:
        with pytest.raises((OpenGoal, KernelError)):
            attempt()
    else:
        attempt()


def _random(rng: random.Random, depth: int) -> Term:
    if depth == 0 or rng.random() < 0.2:
        return rng.choice([num(rng.randrange(-2, 4)), size("n"), size("m"), idx("i"), idx("j"), idx("k")])
    op = rng.choice(["add", "add", "mul", "sub", "div"])
    a, b = _random(rng, depth - 1), _random(rng, depth - 1)
    if op == "div":
        return fn("div", a, rng.choice([size("n"), size("m"), num(2)]))
    return {"add": add, "mul": mul, "sub": sub}[op](a, b)


def _value(t: Term, at: dict[str, int]) -> Any:
    if t.op == "num":
        return int(t.data)  # type: ignore[arg-type]
    if t.op in ("size", "idx"):
        return at[str(t.data)]
    xs = [_value(a, at) for a in t.args]
    if t.op == "div":
        return xs[0] // xs[1] if xs[1] > 0 else 0
    if t.op in ("lt", "le"):
        return xs[0] < xs[1] if t.op == "lt" else xs[0] <= xs[1]
    result = xs[0]
    for x in xs[1:]:
        result = result + x if t.op == "add" else result * x
    return result


def test_bounds_settled_without_a_solver_are_true() -> None:
    rng = random.Random(1)
    settled = 0
    for _ in range(1200):
        facts = tuple(
            Fact(
                (),
                (),
                fn(rng.choice(["lt", "le"]), rng.choice([num(1), size("m")]), rng.choice([size("n"), size("m")])),
            )
            for _ in range(rng.randrange(3))
        )
        if rng.random() < 0.3:
            facts += (Fact((), (), fn("le", _random(rng, 1), _random(rng, 1))),)
        ranges = {"i": size("n"), "j": rng.choice([size("m"), mul(size("n"), size("m"))]), "k": add(size("n"), ONE)}
        goal = fn(rng.choice(["lt", "le"]), _random(rng, 2), _random(rng, 2))
        ctx = Context(tells_nothing, ranges, facts, {})
        if not ctx.entails(goal):
            continue
        settled += 1
        for n, m in product(range(4), repeat=2):
            at = {"n": n, "m": m, "i": 0, "j": 0, "k": 0}
            if not all(_value(f.condition, {**at, "i": 1, "j": 1}) for f in facts if not _indices(f.condition)):
                continue
            tops = [_value(r, at) for r in ranges.values()]
            for i, j, k in product(*map(range, tops)):
                here = {**at, "i": i, "j": j, "k": k}
                if all(_value(f.condition, here) for f in facts):
                    assert _value(goal, here), (goal, facts, here)
    assert settled > 100


def _indices(t: Term) -> bool:
    return t.op == "idx" or any(map(_indices, t.args))


def test_the_common_bounds_need_no_solver() -> None:
    n, m, b, g = map(size, "nmbg")
    i, j, k = map(idx, "ijk")
    some = Fact((), (), fn("le", ONE, g))
    ctx = Context(no_solver, {"i": b, "j": g, "k": mul(b, g)}, (some,), {})
    above = fn("div", k, g)
    assert ctx.entails(fn("lt", add(mul(i, g), j), mul(b, g)))
    assert ctx.entails(fn("lt", above, b))
    assert ctx.entails(fn("lt", sub(k, mul(g, above)), g))
    assert ctx.entails(fn("le", num(0), sub(k, mul(g, above))))
    ctx = Context(no_solver, {"i": add(n, m)}, (Fact((), (), fn("le", n, i)),), {})
    assert ctx.entails(fn("lt", sub(i, n), m)) and ctx.entails(fn("le", num(0), sub(i, n)))
