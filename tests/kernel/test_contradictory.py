"""What is taken for granted contradicts itself only where nothing meets it."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from catdiag.kernel.contradiction import contradictory
from catdiag.kernel.definedness import Obligation
from catdiag.kernel.facts import Fact, real
from catdiag.kernel.terms import BOT, ONE, ZERO, Term, add, big, bound, fn, idx, maximum, mul, num, read, size, sub
from catdiag.kernel.witness import satisfied
from catdiag.solvers.z3 import Z3

N, M, AT = size("n"), size("m"), idx("i")
ELEMENTS = {"A": "real", "B": "real", "K": "int", "S": "extended"}
NONEMPTY = Fact((), (), fn("le", ONE, N))


def owed(condition: Term, *guards: Term, **ranges: Term) -> Fact:
    return Fact(tuple(ranges.items()), guards, condition)


def positive(t: Term) -> Term:
    return fn("lt", ZERO, t)


A_I, A_0, B = read("A", AT), read("A", ZERO), read("B")
MANY = [read("A", idx("i"), num(k)) for k in range(45)]

CONTRADICTIONS = {
    "of no element": [NONEMPTY, owed(positive(sub(A_I, A_I)), i=N)],
    "between two": [NONEMPTY, owed(positive(A_I), i=N), owed(positive(mul(num(-1), A_I)), i=N)],
    "between all and the first": [NONEMPTY, owed(positive(A_I), i=N), owed(fn("le", A_0, ZERO))],
    "at the last index": [owed(fn("le", num(2), N)), owed(fn("lt", add(AT, ONE), N), i=N)],
    "between indices": [owed(fn("le", num(3), N)), owed(fn("eq", AT, ONE), i=N)],
    "in both branches": [owed(positive(sub(B, B)), positive(B)), owed(positive(sub(B, B)), fn("le", B, ZERO))],
    "of minus infinity": [owed(real(BOT))],
    "of a sum with minus infinity": [owed(real(add(B, BOT)))],
    "of a maximum of minus infinities": [owed(real(maximum(BOT, big("max", N, BOT))))],
    "of minus infinity in each branch": [owed(real(fn("ite", positive(B), BOT, BOT)))],
    "of sizes": [owed(fn("lt", N, N))],
    "of a product that is no square": [owed(positive(sub(num(-1), mul(B, B))))],
    "among many": [NONEMPTY, *(owed(positive(a), i=N) for a in MANY), owed(positive(sub(A_I, A_I)), i=N)],
    "in three ranges": [owed(fn("le", ONE, N)), owed(positive(sub(A_I, A_I)), i=N, j=N, k=N)],
}
MET = {
    "nothing": [],
    "over a range that may be empty": [owed(positive(sub(A_I, A_I)), i=N)],
    "over another range": [NONEMPTY, owed(positive(sub(A_I, A_I)), i=M)],
    "under a guard": [owed(positive(sub(B, B)), positive(B))],
    "of a sum that may be real": [owed(real(read("S")))],
    "of a maximum with a real": [owed(real(maximum(B, BOT)))],
    "of a branch that may be taken": [owed(real(fn("ite", positive(B), BOT, B)))],
    "of minus infinity below a number": [owed(fn("lt", BOT, B))],
    "of a maximum of numbers": [NONEMPTY, owed(real(big("max", N, read("A", bound(0)))))],
    "of a product with minus infinity": [owed(real(mul(B, BOT)))],
    "a sum of minus infinities over nothing": [owed(real(big("sum", ZERO, BOT)))],
    "between different indices": [owed(positive(A_I), i=N), owed(positive(mul(num(-1), read("A", add(N, AT)))), i=N)],
    "among many": [NONEMPTY, *(owed(positive(a), i=N) for a in MANY)],
}


@pytest.mark.parametrize("name", CONTRADICTIONS)
def test_a_contradiction_is_found(name: str, ask: Z3) -> None:
    assert contradictory(ask, CONTRADICTIONS[name], ELEMENTS)


@pytest.mark.parametrize("name", MET)
def test_what_can_be_met_is_none(name: str, ask: Z3) -> None:
    assert not contradictory(ask, MET[name], ELEMENTS)


# -- against all small sizes and arrays ----------------------------------------------------------------------------

VALUES = st.sampled_from(
    [A_I, A_0, B, N, M, AT, ONE, ZERO, num(-1), num(2), read("K"), big("sum", N, read("A", bound(0)))]
)
EXPRESSIONS = st.one_of(
    VALUES, st.builds(add, VALUES, VALUES), st.builds(sub, VALUES, VALUES), st.builds(mul, VALUES, VALUES),
    st.builds(maximum, VALUES, VALUES),
    st.builds(lambda a, b, c: fn("ite", fn("lt", a, b), b, c), VALUES, VALUES, VALUES),
)  # fmt: skip
CONDITIONS = st.builds(fn, st.sampled_from(["lt", "le", "eq"]), EXPRESSIONS, EXPRESSIONS)
FACTS = st.lists(
    st.builds(
        lambda c, n, guards: Fact((("i", n),), tuple(guards), c),
        st.one_of(CONDITIONS, CONDITIONS.map(lambda c: fn("not", c))),
        st.sampled_from([N, M, num(2)]),
        st.lists(CONDITIONS, max_size=1),
    ),
    min_size=1,
    max_size=4,
)


def models() -> Iterator[tuple[dict[str, int], dict[str, object]]]:
    some = [Fraction(v) for v in (0, 1, -1, 2)] + [Fraction(1, 2)]
    for n, m in product((0, 1, 2), (0, 2)):
        for a in product(some, repeat=n):
            for b, k in product(some, (Fraction(0), Fraction(-2))):
                yield {"n": n, "m": m}, {"A": list(a), "B": b, "K": k}


@given(FACTS)
@settings(max_examples=60, deadline=None)
def test_what_contradicts_itself_has_no_model(ask: Z3, facts: list[Fact]) -> None:
    if not contradictory(ask, facts, ELEMENTS):
        return
    obligations = [Obligation(f.variables, f.guards, f.condition) for f in facts]  # type: ignore[arg-type]
    for sizes, arrays in models():
        assert not satisfied(obligations, sizes, arrays, {}), f"{sizes} {arrays} meet {[*map(str, obligations)]}"
