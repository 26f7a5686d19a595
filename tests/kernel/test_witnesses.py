"""Witnesses, as the checker evaluates them: against the oracle of the kernel's tests, and what is refused."""

from __future__ import annotations

import copy
import random
from fractions import Fraction
from typing import Any

import pytest
from kernel_oracle import BOTTOM, Unclear, World, value
from kernel_terms import ARRAYS, POOL_OF, Maker

import catdiag as cd
from catdiag.kernel import witness as exact
from catdiag.kernel.checker import Checker
from catdiag.kernel.definedness import Obligation
from catdiag.kernel.terms import ONE, ZERO, KernelError, Term, add, big, bound, fn, idx, num, read, show, size
from catdiag.kernel.witness import Unknown, _At, met, satisfied
from catdiag.prover.refute.exact_reals import bounds
from catdiag.solvers.z3 import Z3

SIZES = {"n": 2, "m": 3, "p": 1}
# Reads of the kernel's arrays may lie outside; they are given this many elements along each axis.
EXTENT = 8


def drawn(rng: random.Random) -> tuple[dict[str, Any], World]:
    """Arrays for the checker, and a world of the oracle with the same ones."""
    world = World(SIZES, {}, POOL_OF, rng)

    def part(name: str, prefix: tuple[int, ...]) -> Any:
        if len(prefix) == ARRAYS[name][0]:
            x = world.cell(name, prefix)
            return None if x is BOTTOM else x
        return [part(name, (*prefix, k)) for k in range(EXTENT)]

    return {name: part(name, ()) for name in ARRAYS}, world


def no_functions(t: Term) -> bool:
    return t.op != "apply" and all(no_functions(a) for a in t.args)


def test_numbers_and_conditions_are_those_of_the_oracle() -> None:
    rng = random.Random(5)
    told = {True: 0, False: 0, None: 0, "number": 0}
    for _ in range(1500):
        maker = Maker(rng, ["i", "j"])
        t, c = maker.number(3), maker.truth(2)
        arrays, world = drawn(rng)
        at = _At(SIZES, arrays, {})
        at.indices = {"i": rng.randrange(2), "j": rng.randrange(2)}
        here = world.at(at.indices)
        try:
            if no_functions(t):
                mine, theirs = at.number(t, ()), value(t, here)
                told["number"] += 1
                if mine is None or theirs is BOTTOM:
                    assert mine is None and theirs is BOTTOM, show(t)
                else:
                    low, high = bounds(theirs)
                    assert mine[0] <= high and low <= mine[1], f"{show(t)}: {mine} and {theirs}"
                    assert mine[1] - mine[0] <= abs(mine[0]) * Fraction(1, 10**9) + Fraction(1, 10**9)
            if no_functions(c):
                said = at.truth(c, ())
                told[said] += 1
                if said is not None:
                    assert said is value(c, here), show(c)
        except (Unknown, Unclear, ArithmeticError):
            continue
    assert min(told.values()) >= 5, told
    assert told["number"] > 500


def owed(condition: Term, *ranges: tuple[str, Term], guards: tuple[Term, ...] = ()) -> Obligation:
    return Obligation(ranges, guards, condition)


A, n = read("A", idx("i")), size("n")
POSITIVE = owed(fn("lt", ZERO, A), ("i", n))
AT_ONE = owed(fn("lt", ZERO, A), ("i", n), guards=(fn("eq", idx("i"), ONE),))
TWO = fn("exp", fn("log", num(2)))
SMALL = add(num(Fraction(1, 10**30 + 1)), fn("inv", add(bound(0), num(10**30))))
CASES: dict[str, tuple[Obligation, list[str], bool]] = {
    "everywhere": (POSITIVE, ["1", "2"], True),
    "not at one index": (POSITIVE, ["1", "0"], False),
    "not at the first": (POSITIVE, ["-1", "1"], False),
    "where a guard holds": (AT_ONE, ["0", "1"], True),
    "and not where it does not": (AT_ONE, ["1", "0"], False),
    "a guard that is not told": (
        owed(fn("lt", ZERO, A), ("i", n), guards=(fn("eq", TWO, num(2)),)), ["1", "0"], False),
    "a sum of exponentials": (
        owed(fn("lt", num(Fraction(37, 10)), big("sum", n, fn("exp", read("A", bound(0)))))), ["0", "1"], True),
    "what encloses both": (owed(fn("eq", TWO, num(2))), ["0", "0"], False),
    "and its opposite": (owed(fn("not", fn("eq", TWO, num(2)))), ["0", "0"], False),
    "outside an array": (owed(fn("eq", read("A", num(2)), read("A", num(2)))), ["0", "0"], False),
    "below an array": (owed(fn("eq", read("A", num(-1)), read("A", num(-1)))), ["0", "0"], False),
    "between elements": (owed(fn("eq", ZERO, read("A", num(Fraction(1, 2))))), ["0", "0"], False),
    "near an index": (owed(fn("eq", ZERO, read("A", fn("log", fn("exp", ONE))))), ["0", "0"], False),
    "a division by almost 0": (
        owed(fn("le", ZERO, fn("exp", fn("inv", add(TWO, num(-2)))))), ["0", "0"], False),
    "a logarithm of almost 0": (
        owed(fn("le", fn("log", add(TWO, num(-2))), num(9))), ["0", "0"], False),
    "a root of almost 0": (
        owed(fn("le", ZERO, fn("exp", fn("sqrt", add(TWO, num(-2)))))), ["0", "0"], False),
    "a floor of almost an integer": (
        owed(fn("le", fn("div", TWO, ONE), num(2))), ["0", "0"], False),
    "a case that is not told": (
        owed(fn("le", ZERO, fn("ite", fn("lt", TWO, num(2)), ONE, ONE))), ["0", "0"], False),
    "a large exponent": (owed(fn("lt", ZERO, fn("exp", num(10**9)))), ["0", "0"], False),
    "more work than allowed": (
        owed(fn("le", ZERO, big("sum", num(400), big("sum", num(400), fn("exp", add(bound(0), bound(1))))))),
        ["0", "0"], False),
    "a rational that grows": (
        owed(fn("lt", ZERO, big("prod", num(900), SMALL))), ["0", "0"], False),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_an_obligation(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exact, "_WORK", 3_000)
    obligation, elements, holds = CASES[name]
    witness = {"sizes": {"n": 2}, "arrays": {"A": elements}, "functions": {}}
    inputs = [{"name": "A", "axes": [["x", "n"]], "element": "real"}]
    assert met([obligation], inputs, witness) is holds
    # One that is met does not make up for another.
    assert met([owed(fn("le", ZERO, n)), obligation, owed(fn("le", ZERO, n))], inputs, witness) is holds


def test_functions_are_polynomials_of_all_arguments() -> None:
    t = Term("apply", "f", (num(2), num(3)))
    for c, holds in ((fn("eq", t, num(1 + 2 * 8)), True), (fn("eq", t, num(1 + 2 * 5)), False)):
        assert satisfied([owed(c)], {}, {}, {"f": [Fraction(1), Fraction(2)]}) is holds
    assert not satisfied([owed(fn("eq", t, t))], {}, {}, {})


INPUTS = [
    {"name": "A", "axes": [["x", "n"], ["d", 2]], "element": "real"},
    {"name": "B", "axes": [], "element": "bool"},
    {"name": "I", "axes": [["x", "n"]], "element": "int"},
    {"name": "E", "axes": [["x", ["+", "n", 1]]], "element": "extended"},
]
GOOD = {
    "sizes": {"n": 1},
    "arrays": {"A": [["1/2", "-3"]], "B": True, "I": ["2"], "E": ["-inf", "0"]},
    "functions": {"f": ["1"]},
}
BAD: dict[str, tuple[tuple[str, ...], Any]] = {
    "an unknown field": (("more",), 1),
    "an array too many": (("arrays", "Z"), "1"),
    "another length": (("arrays", "A"), [["1", "2"], ["3", "4"]]),
    "another length inside": (("arrays", "A"), [["1"]]),
    "a number for an array": (("arrays", "A"), "1"),
    "a float": (("arrays", "A"), [[0.5, "1"]]),
    "no number": (("arrays", "A"), [["x", "1"]]),
    "a truth value for a real": (("arrays", "A"), [[True, "1"]]),
    "minus infinity for a real": (("arrays", "A"), [["-inf", "1"]]),
    "a number for a truth value": (("arrays", "B"), "1"),
    "a fraction for an integer": (("arrays", "I"), ["1/2"]),
    "a long number": (("arrays", "I"), ["1" * 2000]),
    "a negative size": (("sizes", "n"), -1),
    "a truth value for a size": (("sizes", "n"), True),
    "a size whose name is a text": (("sizes", "m\n/tmp/other.json: accepted"), 1),
    "a coefficient that is none": (("functions", "f"), ["-inf"]),
}


def test_a_witness_has_a_form() -> None:
    assert met([], INPUTS, GOOD)


@pytest.mark.parametrize("name", BAD)
def test_what_is_no_witness_is_refused(name: str) -> None:
    path, put = BAD[name]
    witness = copy.deepcopy(GOOD)
    place: Any = witness
    for key in path[:-1]:
        place = place[key]
    place[path[-1]] = put
    with pytest.raises(KernelError):
        met([], INPUTS, witness)


@pytest.fixture(scope="module")
def theorem() -> Any:
    f = cd.algorithm("x ->")(lambda A: cd.sum(A / A, "x"))
    g = cd.algorithm("x ->")(lambda A: cd.size("x") + 0 * cd.sum(cd.log(A), "x"))
    return cd.prove(f, g, ["x >= 3"])


def test_a_theorem_has_a_witness_that_is_checked(theorem: Any) -> None:
    witness = theorem.certificate["witness"]
    assert witness["sizes"] == {"x": 3}
    assert f"witness: x=3; A = [{', '.join(witness['arrays']['A'])}]" in str(theorem)
    with Z3() as ask:
        assert Checker(ask).check(theorem.certificate).witness == theorem.witness
        for size_, elements in ((2, ["1", "2"]), (3, ["1", "0", "2"]), (3, ["1", "-1", "2"])):
            changed = {**theorem.certificate, "witness": {**witness, "sizes": {"x": size_}, "arrays": {"A": elements}}}
            with pytest.raises(KernelError, match="does not meet the hypotheses"):
                Checker(ask).check(changed)
        bare = {k: v for k, v in theorem.certificate.items() if k != "witness"}
        assert "no witness" in str(Checker(ask).check(bare))
        for none in (3, "x", [], {"sizes": {}}):
            with pytest.raises(KernelError):
                Checker(ask).check({**bare, "witness": none})


@pytest.mark.parametrize("owed", [
    Obligation((), (), fn("lt", ZERO, big("sum", size("n"), ONE))),
    Obligation((), (), fn("lt", ZERO, big("sum", size("m"), big("sum", size("m"), bound(1))))),
    Obligation((("i", size("n")),), (), fn("le", ZERO, idx("i"))),
    Obligation((("i", size("n")), ("j", ZERO)), (), fn("lt", idx("i"), idx("j"))),
])  # fmt: skip
def test_indices_at_which_there_is_little_to_compute_are_counted_too(owed: Obligation) -> None:
    assert not satisfied([owed], {"n": 10**12, "m": 10**4}, {}, {})
    assert satisfied([owed], {"n": 10, "m": 10}, {}, {})
