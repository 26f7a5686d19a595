"""The numbers of polynomials: exact, whole ones as integers, and never rounded."""

from __future__ import annotations

from fractions import Fraction

from hypothesis import given, settings
from hypothesis import strategies as st
from kernel_contexts import alone

from catdiag.kernel.facts import real
from catdiag.kernel.polynomial import Poly, leading, scaled, to_poly, to_term
from catdiag.kernel.rationals import quotient
from catdiag.kernel.terms import ZERO, Term, add, fn, mul, num, read

X, P, Q = read("X"), read("P"), read("Q")
CTX = alone(fn("lt", ZERO, P), fn("lt", ZERO, Q), real(X), real(P), real(Q))

numbers = st.builds(Fraction, st.integers(-(10**20), 10**20), st.sampled_from((1, 1, 2, 3, 10**18)))
few = st.builds(Fraction, st.integers(-3, 3), st.sampled_from((1, 1, 2, 3)))


def functions(of: st.SearchStrategy[Term]) -> st.SearchStrategy[Term]:
    return st.one_of(
        st.builds(add, of, of), st.builds(mul, of, of), st.builds(lambda a: fn("exp", a), of),
        st.builds(lambda a: fn("inv", a), of), st.builds(lambda a: fn("sqrt", mul(a, a, P)), of),
    )  # fmt: skip


terms = st.recursive(st.one_of(st.sampled_from((X, P, Q)), st.builds(num, few)), functions, max_leaves=5)


def whole_ones_are_integers(p: Poly) -> bool:
    coefficients = all(type(c) is int or (type(c) is Fraction and c.denominator > 1) for c in p.values())
    return coefficients and all(type(e) in (int, Fraction) for m in p for _, e in m)


@given(terms)
@settings(max_examples=150)
def test_no_number_is_rounded_to_a_float(t: Term) -> None:
    p = to_poly(t, CTX)
    assert whole_ones_are_integers(p)
    assert to_poly(to_term(p), CTX) == p
    if p:
        one = scaled(p, signed=True)
        assert whole_ones_are_integers(one)
        assert {m: c * p[leading(p)] for m, c in one.items()} == p


@given(numbers, numbers)
def test_quotients_are_exact(x: Fraction, y: Fraction) -> None:
    if y:
        found = quotient(x, y)
        assert found == x / y
        assert type(found) is (int if (x / y).denominator == 1 else Fraction)
