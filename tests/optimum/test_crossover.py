"""Where one sum of powers of the capacity begins to be less than another."""

from __future__ import annotations

import random
from fractions import Fraction

import pytest
import sympy

import catdiag as cd
from catdiag.optimum.crossover import changes, crossover, prove_signs, sign_at

c, d, n, M = sympy.symbols("c d n M", positive=True)


def test_two_products_with_passes_over_what_is_between() -> None:
    # sqrt(M) = 2d (sqrt(1 + c) - 1) / c for every number c of passes, from c u² + 4 d u − 4 d² = 0 with u = sqrt(M).
    found = crossover(4 * n**2 * d**2 / M, 4 * n**2 * d / sympy.sqrt(M) + c * n**2, M)
    assert found.proved and found.signs == (1, -1) and not found.conditions
    assert sympy.simplify(found.roots[0] - 2 * d * (sympy.sqrt(1 + c) - 1) / c) == 0
    for passes, part in ((2, 0.535898), (3, 0.444444)):
        assert float(found.capacities[0].subs({c: passes, d: 1})) == pytest.approx(part, abs=1e-5)
    [(low, high)] = found.at({"c": 3, "d": 60})
    assert low <= 1600 <= high


def test_a_strengthened_crossover_is_refuted() -> None:
    found = crossover(4 * n**2 * d**2 / M, 4 * n**2 * d / sympy.sqrt(M) + 3 * n**2, M)
    assert found.polynomial is not None
    u = next(s for s in found.polynomial.free_symbols if s.name == "u")
    assert prove_signs(found.polynomial, u, found.roots, found.signs)[0]
    for part in (Fraction(1001, 1000), Fraction(999, 1000)):
        wrong = [root * sympy.Rational(part.numerator, part.denominator) for root in found.roots]
        assert not prove_signs(found.polynomial, u, wrong, found.signs)[0]
    assert not prove_signs(found.polynomial, u, found.roots, [-s for s in found.signs])[0]


def test_no_crossover_where_one_is_always_less() -> None:
    found = crossover(n * d, n * d + n / M, M)
    assert found.signs == (-1,) and found.proved and "at every capacity" in str(found)
    assert crossover(n, n, M).signs == (0,)


def test_two_crossovers() -> None:
    # u² − 3 d u + d² = 0 at u = (3 ± √5)/2 d: the second is less between.
    found = crossover(n + n * d**2 / M, 3 * n * d / sympy.sqrt(M), M)
    assert found.signs == (1, -1, 1) and found.proved
    assert [float(r.subs(d, 2)) for r in found.roots] == pytest.approx([3 - 5**0.5, 3 + 5**0.5])


def test_a_condition_on_sizes_is_stated_and_what_is_no_power_is_refused() -> None:
    found = crossover(n * d / M, n * c - n * d, M)
    assert found.conditions and found.proved
    other = crossover(n / (M - d), n, M)
    assert other.polynomial is None and "no sum of powers" in str(other)
    with pytest.raises(cd.errors.CatdiagError, match="changes"):
        other.at({"d": 1})
    with pytest.raises(cd.errors.CatdiagError, match="positive"):
        crossover(sympy.Symbol("z") / M, n, M)


def test_degree_three_is_enclosed_exactly_at_sizes() -> None:
    found = crossover(n * d / M ** sympy.Rational(1, 3), n / M + n, M)
    assert not found.roots and "degree 3" in str(found)
    intervals = found.at({"d": 3})
    # u³ − 3 u² + 1 = 0 has two positive roots.
    assert len(intervals) == 2
    for low, high in intervals:
        below, above = (float(low) ** (1 / 3), float(high) ** (1 / 3))
        assert (below**3 - 3 * below**2 + 1) * (above**3 - 3 * above**2 + 1) <= 1e-9


def test_certified_sign_changes_of_exact_forms() -> None:
    first, second = n * d / (M - d), n * (1 + sympy.sqrt(M + 1)) / M
    found = changes(first, second, M, {"n": 10, "d": 50}, Fraction(51), Fraction(10**6))
    for change in found:
        for end, sign in ((change.low, change.below), (change.high, change.above)):
            exact = (first - second).subs({n: 10, d: 50, M: sympy.Rational(end.numerator, end.denominator)})
            assert sympy.sign(sympy.N(exact, 40)) == sign == sign_at((first - second).subs({n: 10, d: 50}), M, end)
    assert len(found) == 1 and found[0].high - found[0].low < 1


def test_random_quadratics_have_the_signs_that_are_claimed() -> None:
    rng = random.Random(0)
    for _ in range(12):
        k = [rng.randint(0, 4) for _ in range(6)]
        first = k[0] * n + k[1] * n * d / sympy.sqrt(M) + k[2] * n * d**2 / M
        second = k[3] * n + k[4] * n * d / sympy.sqrt(M) + k[5] * n * d**2 / M
        found = crossover(first, second, M)
        if not found.signs:
            continue
        assert found.proved, str(found)
        ends = [0.0, *(float(r.subs({d: 7, n: 3})) for r in found.roots)]
        probes = [(a + b) / 2 for a, b in zip(ends, [*ends[1:], ends[-1] * 2 + 2], strict=True)]
        for sign, probe in zip(found.signs, probes, strict=True):
            assert sympy.sign(sympy.N((first - second).subs({d: 7, n: 3, M: sympy.Rational(probe) ** 2}))) == sign
