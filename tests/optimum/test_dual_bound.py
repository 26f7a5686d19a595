"""Optima between two fractions: against closed forms, a solver and integer tiles; what is altered fails."""

from __future__ import annotations

import itertools
import math
from dataclasses import replace
from fractions import Fraction

import pytest
import sympy
from hypothesis import given, settings
from hypothesis import strategies as st
from sympy import Integer, Symbol

import catdiag as cd
from catdiag.optimum.dual_bound import DualityGap, certify, check_bracket, check_dual
from catdiag.optimum.minimize import minimize
from catdiag.optimum.optimality_certificate import PowerProgram
from catdiag.optimum.posynomial import CertificateError, posynomial
from catdiag.optimum.rational_enclosure import logarithm, power, root
from catdiag.util.errors import CatdiagError
from examples.napkin.multi_level_optimum import levels_together

a, b, c, d, f, h, k, n, s, w, v, M, R, S = sympy.symbols("a b c d f h k n s w v M R S", positive=True)
tiles = g_i, g_j, g_k = sympy.symbols("g_i g_j g_k", positive=True)
t_i, t_j = sympy.symbols("t_i t_j", positive=True)


def found(bracket: DualityGap | None) -> DualityGap:
    assert bracket is not None
    assert check_bracket(bracket)
    assert bracket.gap < 1e-6
    return bracket


def test_what_has_a_closed_form() -> None:
    transfers, memory = a * b * c / g_i + a * b * c / g_j + a * c, g_i * g_j + s * g_i + s * g_j
    optimum = minimize(transfers, memory, [g_i, g_j], [s], bounds={g_i: a, g_j: c})
    sizes = {"a": 512, "b": 512, "c": 512, "M": 4096, "s": 1}
    bracket = found(optimum.bracket(sizes))
    assert optimum.exact is not None
    exact = float(optimum.exact.subs({Symbol(key, positive=True): size for key, size in sizes.items()}))
    assert float(bracket.lower) <= exact * (1 + 1e-12)
    assert float(bracket.upper) >= exact * (1 - 1e-12)
    # The weights are a bound at other sizes too, below the optimum there.
    other = {a: 300, b: 1000, c: 2000, M: 9000, s: 2}
    simple = bracket.dual.rounded()
    assert check_dual(simple)
    low = float(simple.bound.subs(other))
    assert 0.9 * float(optimum.exact.subs(other)) < low <= float(optimum.exact.subs(other))
    assert float(simple.lower_at(other)) == pytest.approx(low, rel=1e-9)
    assert float(bracket.dual.lower_at(other)) == pytest.approx(low, rel=1e-2)


def test_three_tiles_with_streams_and_a_halo() -> None:
    """Convolution tiled in positions and channels: five terms against seven, no closed form."""
    transfers = n**2 * c * f * ((1 + (k - 1) / g_i) * (1 + (k - 1) / g_j) / g_k + k**2 / (g_i * g_j)) + n**2 * f
    memory = g_i * g_j * g_k + s * (g_i + k) * (g_j + k) + s * k**2 * g_k
    optimum = minimize(transfers, memory, tiles, [s], bounds={g_i: n, g_j: n, g_k: f})
    assert optimum.exact is None
    bracket = found(optimum.bracket({"n": 56, "c": 64, "f": 256, "k": 3, "s": 1, "M": 40000}))
    at = {n: 56, c: 64, f: 256, k: 3, s: 1, M: 40000}
    cost, held = (sympy.lambdify(tiles, e.subs(at), "math") for e in (transfers, memory))
    best = min(
        cost(i, j, o)
        for i, j in itertools.product(range(2, 57), repeat=2)
        if (o := min(256, (40000 - (i + 3) * (j + 3)) // (i * j + 9))) >= 1 and held(i, j, o) <= 40000
    )
    assert float(bracket.lower) <= best <= float(bracket.upper) * 1.02


def two_levels(slowest: bool = False) -> DualityGap:
    """Tiles within tiles, and a memory for operands beside that of accumulators."""
    volume = a * b * c
    optimum = minimize(
        [(w, volume / g_i + volume / g_j), (v, volume / t_i + volume / t_j)],
        [(g_i * g_j + s * (g_i + g_j), S), (t_i * t_j, R), (s * t_i + s * t_j, M)],
        [g_i, g_j, t_i, t_j],
        [s],
        bounds={g_i: a, g_j: c, t_i: g_i, t_j: g_j},
        minimax=slowest,
    )
    return found(
        optimum.bracket({"a": 4096, "b": 4096, "c": 4096, "S": 50000, "R": 12000, "M": 900, "s": 4, "w": 5, "v": 2})
    )


def test_two_levels_and_several_memories() -> None:
    bracket = two_levels()
    inner = [float(bracket.tiles[t]) for t in (t_i, t_j)]
    assert inner[0] == pytest.approx(math.sqrt(12000), rel=1e-3)
    total = 4096**3 * (2 * 5 / (math.sqrt(50000 + 16) - 4) + 2 * 2 / math.sqrt(12000))
    assert float(bracket.lower) == pytest.approx(total, rel=1e-6)


def test_edges_that_work_at_once() -> None:
    bracket = two_levels(slowest=True)
    edges = 5 * 2 / (math.sqrt(50000 + 16) - 4), 2 * 2 / math.sqrt(12000)
    assert float(bracket.lower) == pytest.approx(4096**3 * max(edges), rel=1e-6)


def test_a_claim_a_thousandth_stronger_fails() -> None:
    bracket = two_levels()
    for weaker in (replace(bracket, lower=bracket.lower / 2), replace(bracket, upper=bracket.upper * 2)):
        assert check_bracket(weaker)
    with pytest.raises(CertificateError, match="lower bound"):
        check_bracket(replace(bracket, lower=bracket.lower * Fraction(1001, 1000)))
    with pytest.raises(CertificateError, match="transfers at the tiles"):
        check_bracket(replace(bracket, upper=bracket.upper * Fraction(999, 1000)))
    with pytest.raises(CertificateError, match="memory at the tiles"):
        check_bracket(replace(bracket, tiles={t: x * Fraction(1001, 1000) for t, x in bracket.tiles.items()}))
    with pytest.raises(CertificateError, match="not between one and"):
        check_bracket(replace(bracket, tiles={**bracket.tiles, g_i: Fraction(5000)}))
    dual = bracket.dual
    with pytest.raises(CertificateError, match="sum to one"):
        check_dual(replace(dual, transfers=tuple(x * Fraction(1001, 1000) for x in dual.transfers)))
    with pytest.raises(CertificateError, match="do not balance"):
        check_dual(replace(dual, memory=tuple(tuple(x * Fraction(999, 1000) for x in ws) for ws in dual.memory)))
    with pytest.raises(CertificateError, match="do not balance"):
        check_dual(replace(dual, upper=(Fraction(1, 1000), *dual.upper[1:])))
    with pytest.raises(CertificateError, match="one weight for each"):
        check_dual(replace(dual, lower=dual.lower[1:]))
    smaller = {**bracket.sizes, S: bracket.sizes[S] * Fraction(999, 1000)}
    with pytest.raises(CertificateError, match="memory at the tiles"):
        check_bracket(replace(bracket, sizes=smaller))
    larger = {**bracket.sizes, R: bracket.sizes[R] * Fraction(1001, 1000)}
    with pytest.raises(CertificateError, match="lower bound"):
        check_bracket(replace(bracket, sizes=larger))


def test_what_does_not_fit_and_what_is_missing() -> None:
    optimum = minimize(a / g_i, d * g_i + s, [g_i], [s], bounds={g_i: a})
    assert optimum.bracket({"a": 10, "d": 5, "s": 3, "M": 7}) is None
    assert optimum.bracket({"a": 10, "d": 5, "s": 3, "M": 2}) is None
    with pytest.raises(ValueError, match="give a size for"):
        optimum.bracket({"a": 10, "d": 5, "s": 3})
    constant = minimize(a * b, d * g_i, [g_i], [], bounds={g_i: a}).bracket({"a": 10, "b": 2, "d": 1, "M": 5})
    assert constant is not None and constant.lower == constant.upper == 20


def test_all_levels_of_a_diagram_together() -> None:
    io = cd.library.get("matmul").group("a c").io(levels=("HBM", "SMEM", "registers"))
    sizes = {"a": 512, "b": 16, "c": 512, "M_SMEM": 60000, "M_registers": 5000}
    total = found(levels_together(io, {"SMEM": 10}).bracket(sizes))
    # Few pieces side by side: tiles of SMEM shrink towards those of registers, and more crosses.
    few = found(levels_together(io, {"SMEM": 10}, children={"registers": 4}).bracket(sizes))
    assert few.lower > total.upper
    outer, inner = (
        [few.tiles[t] for t in few.tiles if str(t) in names] for names in (("g_a", "g_c"), ("g2_a", "g2_c"))
    )
    assert float(outer[0] * outer[1] / (inner[0] * inner[1])) == pytest.approx(4, rel=1e-4)
    with pytest.raises(CatdiagError, match="has no tiles here"):
        levels_together(io, {"L2": 1})


@st.composite
def programs(draw: st.DrawFn) -> PowerProgram:
    """Up to three tiles and two memories, powers up to two, coefficients from one to a million."""
    names = tiles[: draw(st.integers(1, 3))]
    row = st.tuples(st.integers(1, 10**6), *[st.integers(0, 2)] * len(names))

    def total(sign: int, most: int) -> sympy.Expr:
        rows = draw(st.lists(row, min_size=1, max_size=most))
        products = (x * sympy.Mul(*(t ** (sign * e) for t, e in zip(names, es, strict=True))) for x, *es in rows)
        return sympy.Add(*products)

    limits = draw(st.lists(st.integers(10**5, 10**8), min_size=1, max_size=2))
    memory = [(posynomial(total(1, 3), names), Integer(limit)) for limit in limits]
    ends = tuple((t, Integer(draw(st.sampled_from([1, 3, 6])))) for t in names)
    return PowerProgram(posynomial(total(-1, 4), names), tuple(memory), ends)


@settings(max_examples=25, deadline=None)
@given(programs())
def test_random_programs_against_brute_force(program: PowerProgram) -> None:
    bracket = certify(program, {})
    names = [t for t, _ in program.tiles]
    memory = [(sympy.lambdify(names, m.expr, "math"), int(limit)) for m, limit in program.memory]
    grid = itertools.product(*(range(1, int(end) + 1) for _, end in program.tiles if end is not None))
    feasible = [point for point in grid if all(m(*point) <= limit for m, limit in memory)]
    if bracket is None:
        assert len(feasible) <= 1
        return
    cost = sympy.lambdify(names, program.transfers.expr, "math")
    assert check_bracket(bracket)
    assert bracket.gap < 1e-6
    assert min(cost(*point) for point in feasible) >= float(bracket.lower) * (1 - 1e-12)


@settings(max_examples=60, deadline=None)
@given(st.fractions(Fraction(1, 10**9), 10**9), st.fractions(-3, 3, max_denominator=5))
def test_enclosures(value: Fraction, exponent: Fraction) -> None:
    low, high = logarithm(value)
    assert low < high or value == 1
    exact = sympy.log(sympy.Rational(value.numerator, value.denominator)).evalf(60)
    assert sympy.Rational(low.numerator, low.denominator) <= exact + sympy.Float("1e-55", 60)
    assert sympy.Rational(high.numerator, high.denominator) >= exact - sympy.Float("1e-55", 60)
    assert high - low < Fraction(1, 2**110)
    below, above = power(value, exponent)
    degree = exponent.denominator
    assert below**degree <= value**exponent.numerator <= above**degree
    assert root(value, 1) == (value, value)
    with pytest.raises(ValueError, match="not positive"):
        logarithm(Fraction(0))


def test_against_another_solver() -> None:
    cvxpy = pytest.importorskip("cvxpy")
    bracket = two_levels()
    names = {t: cvxpy.Variable(pos=True) for t in bracket.tiles}
    at = {key: float(size) for key, size in bracket.sizes.items()}

    def written(p: object) -> object:
        terms = []
        for term in p.terms:  # type: ignore[attr-defined]
            product = float(term.coefficient.subs(at))
            for t, e in term.powers:
                product = product * names[t] ** float(e)
            terms.append(product)
        return sum(terms)

    program = bracket.dual.program
    limits = [written(m) <= float(sympy.sympify(limit).subs(at)) for m, limit in program.memory]
    limits += [names[t] >= 1 for t in names]
    limits += [names[t] <= float(end.subs(at)) for t, end in program.tiles if end is not None]
    problem = cvxpy.Problem(cvxpy.Minimize(written(program.transfers)), limits)
    problem.solve(gp=True)
    assert problem.value == pytest.approx(float(bracket.lower), rel=1e-5)
