"""Large and deep programs end: proved, refuted, or given up with the reason, after bounded work."""

from __future__ import annotations

import sys
from itertools import pairwise

import pytest

import catdiag as cd
from catdiag.prover.certification import certify, statement_of
from catdiag.prover.proof_search import OpenGoal
from catdiag.solvers.z3 import Z3


def repeated(step, times: int):
    def run(x):
        for _ in range(times):
            x = step(x)
        return x

    return cd.algorithm("q x -> q x")(run)


def matrices(times: int, rightwards: bool):
    names = [f"a{k}" for k in range(times + 1)]
    signature = ", ".join(f"{a} {b}" for a, b in pairwise(names)) + f" -> {names[0]} {names[-1]}"

    def left(*factors):
        total = factors[0]
        for k in range(1, times):
            total = cd.einsum(f"a0 a{k}, a{k} a{k + 1} -> a0 a{k + 1}", total, factors[k])
        return total

    def right(*factors):
        total = factors[-1]
        for k in range(times - 2, -1, -1):
            total = cd.einsum(f"a{k} a{k + 1}, a{k + 1} a{times} -> a{k} a{times}", factors[k], total)
        return total

    arguments = ", ".join(f"A{k}" for k in range(times))
    chosen = eval(f"lambda {arguments}: f({arguments})", {"f": right if rightwards else left})
    return cd.algorithm(signature)(chosen)


def test_a_deep_program_is_itself() -> None:
    # Two frames of Python's a box would be too many.
    times = 120
    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(4 * times)
    try:
        assert cd.prove(repeated(lambda x: x * 2 + 1, times), repeated(lambda x: x * 2 + 1, times)).trivial
    finally:
        sys.setrecursionlimit(limit)


def test_a_deep_nest_of_functions_is_refuted() -> None:
    with pytest.raises(cd.Refuted):
        cd.prove(repeated(lambda x: cd.tanh(x + 1), 30), repeated(lambda x: cd.tanh(x + 2), 30))


def test_a_goal_that_doubles_with_each_layer_is_given_up_and_proved_layer_by_layer() -> None:
    layers = repeated(lambda x: cd.softmax(x, "x"), 7)
    shifted = cd.algorithm("q x -> q x")(lambda x: layers(x + 1))
    with pytest.raises(OpenGoal, match=r"too (large|deep)"), Z3() as ask:
        certify(ask, statement_of(layers, shifted))
    assert not cd.prove(layers, shifted).conditional


def test_a_long_chain_of_contractions_is_reassociated() -> None:
    assert not cd.prove(matrices(8, rightwards=False), matrices(8, rightwards=True)).conditional
