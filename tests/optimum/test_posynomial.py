"""Posynomials, exact identities, and certificates: what is right passes, what is altered does not."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from functools import cache
from typing import Any

import pytest
import sympy
from hypothesis import given, settings
from hypothesis import strategies as st
from sympy import Rational, Symbol, sqrt

from catdiag.optimum.closed_form_certificate import (
    Absorb,
    Certificate,
    Drop,
    Fill,
    Monotone,
    Problem,
    Shifted,
    Weights,
    check_certificate,
    reduce,
    requirements,
)
from catdiag.optimum.minimize import minimize
from catdiag.optimum.posynomial import (
    CertificateError,
    Posynomial,
    PosynomialTerm,
    collect,
    combination,
    dominates,
    echelon,
    posynomial,
    powers,
    times,
    value_at,
    vanishes,
)

a, b, c, d, h, q, r, s, x, M = sympy.symbols("a b c d h q r s x M", positive=True, integer=True)
g, k, t = sympy.symbols("g k t", positive=True)


def test_reading_merges_like_powers() -> None:
    p = posynomial(2 * d * g + g * s + 3 * g + d / k**2 + sympy.sqrt(g * k) + 7, [g, k])
    assert {t.powers: t.coefficient for t in p.terms} == {
        powers({g: 1}): 2 * d + s + 3,
        powers({k: -2}): d,
        powers({g: Fraction(1, 2), k: Fraction(1, 2)}): 1,
        (): 7,
    }
    assert p.constant == 7
    assert p.variables == {g, k}
    assert sympy.expand(p.expr - (2 * d * g + g * s + 3 * g + d / k**2 + sympy.sqrt(g * k) + 7)) == 0


@pytest.mark.parametrize("bad", [sympy.ceiling(a / g), sympy.exp(g), 1 / (g + 1), g**d])
def test_reading_refuses_what_is_no_monomial(bad: sympy.Expr) -> None:
    with pytest.raises(ValueError, match="not a monomial"):
        posynomial(bad, [g])


def test_reading_refuses_negative_coefficients() -> None:
    with pytest.raises(ValueError, match="negative"):
        posynomial(g - 2 / g, [g])


def test_terms_that_cancel_are_gone() -> None:
    assert collect([PosynomialTerm(d, powers({g: 1})), PosynomialTerm(-d, powers({g: 1}))]) == Posynomial(())


def test_powers_have_one_order() -> None:
    assert powers({g: 1, k: -2}) == powers({k: -2, g: 1})
    assert times((powers({g: 1, k: 1}), 2), (powers({k: 1}), -2)) == powers({g: 2})


@pytest.mark.parametrize(
    ("expression", "zero"),
    [
        (sqrt(2) * sqrt(3) - sqrt(6), True),
        (sqrt(M + s**2) ** 2 - M - s**2, True),
        (M / (s + sqrt(M + s**2)) - (sqrt(M + s**2) - s), True),
        (M ** Rational(1, 3) * M ** Rational(1, 2) - M ** Rational(5, 6), True),
        (sqrt(M * s + s**2) - sqrt(s) * sqrt(M + s), True),
        (sqrt(3 + 2 * sqrt(2)) ** 2 - 3 - 2 * sqrt(2), True),
        (sqrt(M - 2 * d * s) ** 2 + 2 * d * s - M, True),
        (sqrt(M + s**2) - s, False),
        (sqrt(M) * Rational(1001, 1000) - sqrt(M), False),
        (sqrt(M + 1) - sqrt(M) - 1, False),
        (sympy.Integer(0), True),
    ],
)
def test_identities_of_algebraic_functions(expression: sympy.Expr, zero: bool) -> None:
    assert vanishes(expression) is zero


def test_dominance_uses_that_sizes_are_at_least_one() -> None:
    assert dominates(posynomial(d * g * s, [g]), posynomial(d * g, [g]))
    assert dominates(posynomial(d / g + d, [g]), posynomial(d, [g]))
    assert not dominates(posynomial(d * g, [g]), posynomial(d * g * s, [g]))
    assert not dominates(posynomial(2 * g, [g]), posynomial(g + s, [g]))


@given(st.lists(st.lists(st.integers(-3, 3), min_size=3, max_size=3), min_size=1, max_size=4))
def test_echelon_spans_the_same_rows(matrix: list[list[int]]) -> None:
    exact = [[Fraction(e) for e in row] for row in matrix]
    rows, pivots = echelon(exact)
    assert len(pivots) == sympy.Matrix(matrix).rank()
    variables = sympy.symbols("u v w", positive=True)
    monomials = [powers(dict(zip(variables, row, strict=True))) for row in rows[: len(pivots)]]
    for row in exact:
        target = powers(dict(zip(variables, row, strict=True)))
        found = combination(monomials, target)
        assert found is not None
        assert times(*zip(monomials, found, strict=True)) == target


def test_values_need_determined_monomials() -> None:
    p = posynomial(d * g * k + d / (g * k) ** 2, [g, k])
    tiles = ((powers({g: 1, k: 1}), M),)
    assert value_at(p, tiles) == d * M + d / M**2
    with pytest.raises(CertificateError, match="do not determine"):
        value_at(posynomial(d * g, [g]), tiles)


def problem(transfers: sympy.Expr, memory: sympy.Expr, **bounds: sympy.Expr) -> Problem:
    limits = tuple((Symbol(name, positive=True), bound) for name, bound in bounds.items())
    return Problem(posynomial(transfers, [g, k]), (posynomial(memory, [g, k]),), M, limits)


def test_unsound_reductions_are_refused() -> None:
    falls = problem(a / g, d * g * k + d / k, g=q)
    with pytest.raises(CertificateError, match="may raise"):
        reduce(falls, Absorb(g))  # transfers need g
    with pytest.raises(CertificateError, match="may raise"):
        reduce(falls, Absorb(k))  # memory has a term that falls with k
    with pytest.raises(CertificateError, match="cannot be absorbed"):
        reduce(falls, Absorb(k, powers({g: -1})))
    with pytest.raises(CertificateError, match="memory depends"):
        reduce(falls, Fill(g))
    with pytest.raises(CertificateError, match="no bound"):
        reduce(falls, Fill(k))
    with pytest.raises(CertificateError, match="dominate"):
        reduce(falls, Drop(0, 0))
    with pytest.raises(CertificateError, match="or transfers grow"):
        reduce(problem(a * k, d * g, k=q), Fill(k))


def test_a_tile_that_takes_another_in_loses_its_bound() -> None:
    start = problem(a / (g * k), d * sympy.Symbol("s", positive=True), g=q, k=r)
    left = reduce(start, Absorb(k, powers({g: 1})))
    assert dict(left.bounds) == {k: r}
    with pytest.raises(CertificateError, match="no bound"):
        reduce(left, Fill(g))


MATMUL = a * b * c / g + a * b * c / k + a * c, g * k + g * s + s * k, [g, k], [s]
PROBLEMS: dict[str, tuple[tuple[Any, ...], dict[Any, Any]]] = {
    "weights": ((a * b * c / g + a * b * c / k + a * c, g * k, [g, k], []), {}),
    "weights, offset": ((2 * d * q * x / g, g * (2 * d + s + 3) + 2 * d * s, [g], [s]), {}),
    "weights, product": ((2 * d * q * x / (g * k), 2 * d * g * k, [g, k], []), {}),
    "weights, three terms": ((a / (g * k) + a / (g * t) + a / (k * t), g * k * t, [g, k, t], []), {}),
    "shifted": (MATMUL, {}),
    "monotone": ((a / g + b / g**2, g**2 + d * g, [g], []), {}),
    "branches": ((a / g, sympy.Max(d * g + s, 3 * h * g), [g], [s]), {}),
    "fold": ((a / (g * k), d * g * k + s * k, [g, k], [s]), {}),
    "fill": ((a / g + b / k, d * g, [g, k], []), {"bounds": {k: q}}),
    "constant": ((a + b, d * g, [g], []), {}),
}


@cache
def certificate_of(name: str) -> Certificate:
    given, options = PROBLEMS[name]
    found = minimize(*given, **options).certificate
    assert found is not None
    return found


@pytest.fixture(params=sorted(PROBLEMS))
def certificate(request: pytest.FixtureRequest) -> Certificate:
    return certificate_of(request.param)


def test_certificates_pass(certificate: Certificate) -> None:
    assert check_certificate(certificate) is True


@pytest.mark.parametrize("factor", [Rational(1001, 1000), Rational(999, 1000)])
def test_stronger_and_weaker_claims_fail(certificate: Certificate, factor: Rational) -> None:
    with pytest.raises(CertificateError):
        check_certificate(replace(certificate, value=certificate.value * factor))


def test_stronger_claims_fail_with_their_proofs_adjusted(certificate: Certificate) -> None:
    proof, factor = certificate.proof, Rational(1001, 1000)
    if isinstance(proof, Shifted):
        proof = replace(proof, root=proof.root * factor)
    elif isinstance(proof, Monotone):
        proof = replace(proof, values=tuple(v * factor for v in proof.values))
    changed = replace(certificate, value=certificate.value * factor, proof=proof)
    with pytest.raises(CertificateError):
        check_certificate(changed)


def test_other_tiles_fail(certificate: Certificate) -> None:
    for i, (key, size) in enumerate(certificate.tiles):
        tiles = [*certificate.tiles]
        tiles[i] = (key, size * Rational(1001, 1000))
        with pytest.raises(CertificateError):
            check_certificate(replace(certificate, tiles=tuple(tiles)))
        with pytest.raises(CertificateError):
            check_certificate(replace(certificate, tiles=(*certificate.tiles, (key, size))))


def test_a_roomier_memory_is_another_problem(certificate: Certificate) -> None:
    if certificate.proof is not None:
        stated = replace(certificate.problem, capacity=2 * certificate.problem.capacity)
        with pytest.raises(CertificateError):
            check_certificate(replace(certificate, problem=stated))


def test_reductions_are_needed(certificate: Certificate) -> None:
    if certificate.reductions:
        with pytest.raises(CertificateError):
            check_certificate(replace(certificate, reductions=()))


@settings(max_examples=40, deadline=None)
@given(st.sampled_from(sorted(PROBLEMS)), st.integers(0, 5), st.fractions(-1, 1, max_denominator=12))
def test_altered_weights_fail(name: str, position: int, change: Fraction) -> None:
    found = certificate_of(name)
    if not isinstance(found.proof, Weights) or change == 0:
        return
    stated = [*found.proof.transfers, *found.proof.memory]
    stated[position % len(stated)] += change
    split = len(found.proof.transfers)
    with pytest.raises(CertificateError):
        check_certificate(replace(found, proof=Weights(tuple(stated[:split]), tuple(stated[split:]))))


def test_weights_that_balance_but_are_not_optimal_fail() -> None:
    # 1/g + 1/g under one memory term, kept apart: every split balances, only the even one is tight.
    one = PosynomialTerm(a, powers({g: -1}))
    program = Problem(Posynomial((one, one)), (posynomial(g, [g]),), M)
    tiles = ((powers({g: 1}), M),)
    for share in (Fraction(1, 2), Fraction(1, 3)):
        stated = Certificate(program, 2 * a / M, tiles, Weights((share, 1 - share), (Fraction(1),)))
        if share == Fraction(1, 2):
            assert check_certificate(stated)
        else:
            with pytest.raises(CertificateError, match="dual value"):
                check_certificate(stated)


def test_two_tiles_are_not_misread_where_terms_are_not_merged() -> None:
    left, right = powers({g: 1}), powers({k: 1})
    cost = tuple(PosynomialTerm(a, times((key, -1))) for key in (left, right, right))
    program = Problem(Posynomial(cost), (posynomial(g * k, [g, k]),), M)
    tiles = ((left, sqrt(M)), (right, sqrt(M)))
    with pytest.raises(CertificateError, match="terms other than"):
        check_certificate(Certificate(program, 2 * a / sqrt(M), tiles, Shifted(left, right, a * sqrt(M))))


def test_roots_of_rooms_are_positive() -> None:
    # 1/g**2 under 3*g*k + 3*k: the size of g is the square root of a square.
    found = minimize(a / (g**2 * k), 3 * g * k + 3 * k, [g, k], [])
    assert found.certificate is not None
    assert check_certificate(found.certificate)
    assert found.tiles == {g: Symbol("M", positive=True) / 3 - 1, k: 1}


def test_the_identity_of_two_tiles() -> None:
    u, v, alpha, beta, gamma, room, cross = sympy.symbols("u v alpha beta gamma room cross")
    slack = room * u * v - alpha - beta * v - gamma * u
    product = (room * u - beta) * (room * v - gamma)
    assert sympy.expand(product - (alpha * room + beta * gamma) - room * slack) == 0
    raised = cross / room * (alpha + beta * v + gamma * u)
    assert sympy.expand(cross * u * v - raised - cross / room * slack) == 0


def test_requirements_are_what_is_left_to_decide() -> None:
    assert certificate_of("shifted")
    side = M / (s + sqrt(M + s**2))
    found = minimize(a / g + a / k, g * k + g * s + s * k, [g, k], [s], bounds={g: q, k: r})
    assert found.certificate is not None
    m = Symbol("M", positive=True)
    side = side.subs(M, m)
    assert set(requirements(found.certificate)) == {sympy.Ge(side, 1), sympy.Le(side, q), sympy.Le(side, r)}
    sliding = minimize(a * (x - d) / g, g + 2 * s, [g], [s])
    assert sliding.certificate is not None
    assert set(requirements(sliding.certificate)) == {sympy.Gt(x - d, 0), sympy.Gt(m, 2 * s), sympy.Ge(m - 2 * s, 1)}
