"""Which constraints bind: known tables, random programs against brute force, and certificates that are altered."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import replace

import pytest
import sympy
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from sympy import Expr, Max, Rational, Symbol, simplify, sqrt

from catdiag.optimum.minimize import minimize
from catdiag.optimum.optimality_certificate import BOUND, FREE, ONE, PowerProgram, Stationary, check_stationary
from catdiag.optimum.posynomial import CertificateError, posynomial, powers
from catdiag.optimum.regimes import Regime, Regimes, regimes
from catdiag.optimum.sign_proofs import SignSolver

a, b, c, d, h, k, n, q, r, s, x, M, R, S = sympy.symbols("a b c d h k n q r s x M R S", positive=True)
g_a, g_c, g_q, g_r, g_h, g_i, g_j, g_k = sympy.symbols("g_a g_c g_q g_r g_h g_i g_j g_k", positive=True)


def by_binding(found: Regimes) -> dict[str, Regime]:
    for regime in found:
        assert regime.certificate is None or check_stationary(regime.certificate) == regime.conditions
    return {regime.binding: regime for regime in found}


def same(found: Expr, wanted: Expr) -> bool:
    return bool(simplify(found - wanted) == 0)


def matmul(memory: Expr = g_a * g_c) -> Regimes:
    transfers = a * b * c / g_c + a * b * c / g_a + a * c
    return minimize(transfers, memory, [g_a, g_c], [s], bounds={g_a: a, g_c: c}).regimes


def test_matmul() -> None:
    found = matmul()
    assert found.covers
    assert not found.open
    assert found.disagreements() == ()
    of = by_binding(found)
    assert len(of) == 5
    assert same(of["M full"].value, 2 * a * b * c / sqrt(M) + a * c)
    assert same(of["M full, g_a at its axis"].value, b * c + a**2 * b * c / M + a * c)
    assert sympy.Ge(M, a**2) in of["M full, g_a at its axis"].conditions
    assert same(of["M full, g_c at its axis"].value, a * b + a * b * c**2 / M + a * c)
    everything = of["g_a at its axis, g_c at its axis"]
    assert everything.value == a * b + b * c + a * c
    assert everything.conditions == (sympy.Le(a * c, M),)
    assert of["nothing fits below 1"].conditions == (sympy.Lt(M, 1),)
    assert found.at({a: 100, b: 7, c: 100, M: Rational(1, 2)}) == of["nothing fits below 1"]


def test_matmul_with_stream_blocks() -> None:
    found = matmul(g_a * g_c + s * g_a + s * g_c)
    assert found.covers
    assert found.disagreements() == ()
    of = by_binding(found)
    assert same(of["M full, g_a at its axis"].value, b * c + a * b * c * (a + s) / (M - a * s) + a * c)
    assert sympy.Lt(M, 2 * s + 1) in of["nothing fits below 2*s + 1"].conditions
    assert of["nothing fits below 2*s + 1"].minimum == 2 * s + 1


def test_rows_against_a_stream() -> None:
    memory = 2 * d * g_q + 2 * d * s + g_q * s + 3 * g_q
    found = minimize(2 * d * q + 2 * d * q * x / g_q, memory, [g_q], [s], bounds={g_q: q})
    of = by_binding(found.regimes)
    assert found.regimes.covers
    assert same(of["M full"].value, 2 * d * q + 2 * x * q * d * (2 * d + s + 3) / (M - 2 * d * s))
    # Everything fits: each array crosses once.
    assert same(of["g_q at its axis"].value, 2 * d * q + 2 * d * x)
    assert "nothing fits below 2*d*s + 2*d + s + 3" in of
    at = {d: 64, q: 512, x: 512, s: 1}
    assert found.piecewise.subs({**at, M: 10**9}) == 2 * 64 * 1024
    assert found.piecewise.subs({**at, M: 10}) == sympy.oo
    inside = found.piecewise.subs({**at, M: 65536})
    assert found.exact is not None and inside == found.exact.subs({**at, M: 65536})
    assert found.leading_piecewise.subs({**at, M: 10**9}) == 2 * 64 * 1024
    assert "no tiles fit" in str(found.regimes)


def test_only_the_product_of_grouped_axes_matters() -> None:
    memory = 2 * d * g_q * g_r + 2 * d * s
    found = minimize(2 * x * h * q * d / (g_q * g_r), memory, [g_q, g_r], [s], bounds={g_q: q, g_r: r}).regimes
    of = by_binding(found)
    assert found.covers
    assert of["M full"].tiles == {g_q * g_r: (M - 2 * d * s) / (2 * d)}
    assert same(of["g_q*g_r at its axis"].value, 2 * x * h * d / r)


def test_three_tiles_at_leading_order() -> None:
    volume = a * b * c * d
    transfers = volume / (g_i * g_j) + volume / (g_j * g_k) + volume / (g_i * g_k)
    bounds = {g_i: a, g_j: b, g_k: c}
    found = minimize(transfers, g_i * g_j * g_k, [g_i, g_j, g_k], [], bounds=bounds).leading_regimes
    of = by_binding(found)
    assert found.covers
    assert len(of) == 9
    assert same(of["M full"].value, 3 * volume / M ** Rational(2, 3))
    assert same(of["M full, g_i at its axis"].value, 2 * volume / sqrt(a * M) + a * volume / M)
    assert sympy.Ge(M, a**3) in of["M full, g_i at its axis"].conditions


def test_several_memories_and_weighted_edges() -> None:
    """Accumulators in registers, operands in SMEM; a unit costs more on the slow edge."""
    slow, fast = sympy.symbols("slow fast", positive=True)
    moved = a * b * c / g_a + a * b * c / g_c
    found = minimize(
        [(slow, moved), (fast, a * c)],
        [(g_a * g_c, R), (s * g_a + s * g_c, S)],
        [g_a, g_c],
        [s],
        bounds={g_a: a, g_c: c},
    )
    assert found.exact is None
    assert "see the regimes" in found.reason
    of = by_binding(found.regimes)
    assert same(of["R full"].value, slow * 2 * a * b * c / sqrt(R) + fast * a * c)
    assert same(of["S full"].value, slow * 4 * a * b * c * s / S + fast * a * c)
    assert sympy.Le(2 * sqrt(R) * s, S) in of["R full"].conditions
    assert {"nothing fits below 1", "nothing fits below 2*s"} <= set(of)
    assert found.regimes.covers


def test_two_memories_full_at_once() -> None:
    memories = [(g_a * g_c, R), (g_a + 2 * g_c, S)]
    found = minimize(a / g_a + a / g_c, memories, [g_a, g_c], [], bounds={g_a: n, g_c: n}).regimes
    at = {a: 1, n: 1000, R: 100, S: 29}
    regime = found.at(at)
    assert regime is not None
    assert regime.binding == "R full, S full"
    sizes = [float(regime.tiles[t].subs(at)) for t in (g_a, g_c)]
    assert sizes[0] * sizes[1] == pytest.approx(100)
    assert sizes[0] + 2 * sizes[1] == pytest.approx(29)
    best = min(1 / u + 1 / min(100 / u, (29 - u) / 2) for u in (i / 1000 for i in range(2000, 27000)))
    assert float(regime.value.subs(at)) == pytest.approx(best, rel=1e-5)


def test_tiles_within_tiles_decouple() -> None:
    """Two levels: a tile of registers cut from one of SMEM, each edge with its own weight."""
    w, v, t_a = sympy.symbols("w v t_a", positive=True)
    edges, memories = [(w, a * b / g_a), (v, a * b / t_a)], [(g_a + s, S), (t_a, R)]
    found = minimize(edges, memories, [g_a, t_a], [s], bounds={g_a: a, t_a: g_a}).regimes
    assert found.covers
    of = by_binding(found)
    assert same(of["S full, R full"].value, w * a * b / (S - s) + v * a * b / R)
    assert same(of["S full, t_a = g_a"].value, (w + v) * a * b / (S - s))
    assert of["R full, g_a at its axis"].tiles == {g_a: a, t_a: R}


@pytest.mark.slow
def test_tiles_within_tiles_of_two_axes() -> None:
    w, v, t_a, t_c = sympy.symbols("w v t_a t_c", positive=True)
    volume = a * b * c
    found = minimize(
        [(w, volume / g_a + volume / g_c), (v, volume / t_a + volume / t_c)],
        [(g_a * g_c, S), (t_a * t_c, R)],
        [g_a, g_c, t_a, t_c],
        [],
        bounds={g_a: a, g_c: c, t_a: g_a, t_c: g_c},
    ).regimes
    # More choices of what binds than are tried: that is said, and those at hand are certified all the same.
    assert not found.covers and "more than" in str(found)
    regime = found.at({a: 1000, b: 1000, c: 1000, S: 10000, R: 100, w: 5, v: 1})
    assert regime is not None
    assert same(regime.value, w * 2 * volume / sqrt(S) + v * 2 * volume / sqrt(R))
    assert regime.tiles[t_a] == sqrt(R)


def test_what_no_closed_form_is_known_for_is_told() -> None:
    memory = g_i * g_j * g_k + g_i + g_j + g_k
    transfers = a / (g_i * g_j) + a / (g_j * g_k) + a / (g_i * g_k)
    found = minimize(transfers, memory, [g_i, g_j, g_k], [], bounds={g_i: n, g_j: n, g_k: n}).regimes
    assert not found.covers
    assert "M full, g_i free, g_j free, g_k free" in found.open
    assert found.at({a: 5, n: 100, M: 64}) is None
    everything = found.at({a: 5, n: 2, M: 64})
    assert everything is not None and everything.value.subs(n, 2) == 3 * a / 4
    assert "not shown to cover" in str(found)
    assert found.piecewise.subs({a: 5, n: 100, M: 64}) is sympy.nan


@pytest.mark.slow
def test_formulas_that_nobody_could_read_are_left_out() -> None:
    """Two memories of one capacity, both full: roots of a quadratic with long coefficients. A bracket does not mind."""
    memory = Max(k * g_a * g_c + g_a * g_c + g_c * s, k * g_a * g_c + k * g_a * n + g_c * n)
    transfers = a * b * c * k / g_c + (b + k) * a * c / g_a
    optimum = minimize(transfers, memory, [g_a, g_c], [s, n], bounds={g_a: a, g_c: c})
    assert sympy.count_ops(optimum.piecewise) < 1500
    assert "M full, M full, g_a free, g_c free (no short one)" in optimum.regimes.open
    bracket = optimum.bracket({"a": 100, "b": 100, "c": 100, "k": 50, "s": 1, "n": 2, "M": 10000})
    assert bracket is not None and bracket.gap < 1e-6


def first(found: Regimes, binding: str) -> Stationary:
    certificate = by_binding(found)[binding].certificate
    assert certificate is not None
    return certificate


@pytest.mark.parametrize("binding", ["M full", "M full, g_a at its axis", "g_a at its axis, g_c at its axis"])
def test_a_claim_a_thousandth_stronger_fails(binding: str) -> None:
    certificate = first(matmul(g_a * g_c + s * g_a + s * g_c), binding)
    for claim in (Rational(999, 1000), Rational(1001, 1000)):
        with pytest.raises(CertificateError, match="transfers at the tiles"):
            check_stationary(replace(certificate, value=certificate.value * claim))
        for i, coordinate in enumerate(certificate.coordinates):
            moved = replace(coordinate, size=coordinate.size * claim)
            others = [*certificate.coordinates[:i], moved, *certificate.coordinates[i + 1 :]]
            with pytest.raises(CertificateError):
                check_stationary(replace(certificate, coordinates=tuple(others)))
        if certificate.full:
            with pytest.raises(CertificateError, match="derivative"):
                check_stationary(replace(certificate, multipliers=(certificate.multipliers[0] * claim,)))


def test_altered_certificates_fail() -> None:
    inside = first(matmul(), "M full")
    clipped = first(matmul(), "M full, g_a at its axis")
    with pytest.raises(CertificateError, match="one multiplier"):
        check_stationary(replace(inside, multipliers=()))
    at_one = [replace(c, status=ONE) for c in inside.coordinates]
    with pytest.raises(CertificateError, match="held at its one"):
        check_stationary(replace(inside, coordinates=tuple(at_one)))
    free = [replace(c, status=FREE) for c in clipped.coordinates]
    with pytest.raises(CertificateError, match="derivative"):
        check_stationary(replace(clipped, coordinates=tuple(free)))
    wider = [replace(c, bound=2 * c.bound) if c.bound is not None else c for c in inside.coordinates]
    with pytest.raises(CertificateError, match="has the bound"):
        check_stationary(replace(inside, coordinates=tuple(wider)))
    joined = [replace(c, monomial=powers({g_a: 1, g_c: 1})) for c in inside.coordinates]
    with pytest.raises(CertificateError, match="tiles of its own"):
        check_stationary(replace(inside, coordinates=tuple(joined)))
    # A smaller memory than the one that it is about.
    small = replace(inside.program, memory=((posynomial(2 * g_a * g_c, [g_a, g_c]), M),))
    with pytest.raises(CertificateError, match="memory at the tiles"):
        check_stationary(replace(inside, program=small))
    assert {c.status for c in clipped.coordinates} == {BOUND, FREE}


def test_conditions_are_no_weaker_than_needed() -> None:
    """Dropping a sign of a multiplier would let two regimes disagree, and z3 finds that."""
    of = by_binding(matmul())
    clipped, inside = of["M full, g_a at its axis"], of["M full"]
    weaker = [relation for relation in clipped.conditions if relation != sympy.Ge(M, a**2)]
    signs, differ = SignSolver({M}), sympy.Ne(clipped.value, inside.value)
    assert signs.impossible([*clipped.conditions, *inside.conditions, differ])
    assert not signs.impossible([*weaker, *inside.conditions, differ])


Terms = list[tuple[int, tuple[int, ...]]]


@st.composite
def programs(draw: st.DrawFn) -> tuple[Terms, Terms, list[int]]:
    count = draw(st.integers(1, 2))
    row = st.tuples(*[st.integers(0, 2)] * count)
    costs = draw(st.lists(st.tuples(st.integers(1, 9), row), min_size=1, max_size=3))
    resident = draw(st.lists(st.tuples(st.integers(1, 9), row), min_size=1, max_size=3))
    ends = draw(st.lists(st.integers(1, 9), min_size=count, max_size=count))
    return [(w, tuple(-i for i in powers)) for w, powers in costs], resident, ends


def value(terms: Terms, sizes: Sequence[float]) -> float:
    return sum(w * math.prod(size**e for size, e in zip(sizes, powers, strict=True)) for w, powers in terms)


@settings(max_examples=4, deadline=None)
@given(programs(), st.integers(1, 90))
def test_random_programs_against_brute_force(program: tuple[Terms, Terms, list[int]], capacity: int) -> None:
    random_programs_against_brute_force(program, capacity)


@pytest.mark.slow
@settings(max_examples=150, deadline=None)
@given(programs(), st.integers(1, 90))
def test_many_random_programs_against_brute_force(program: tuple[Terms, Terms, list[int]], capacity: int) -> None:
    random_programs_against_brute_force(program, capacity)


def random_programs_against_brute_force(program: tuple[Terms, Terms, list[int]], capacity: int) -> None:
    """The regime at hand is feasible where it says, attains its value, and neither integer tiles nor any other regime
    that holds does better."""
    costs, resident, ends = program
    tiles, axes = [g_i, g_j][: len(ends)], [a, b][: len(ends)]
    scale = Symbol("scale", positive=True)
    transfers, memory = (
        sympy.Add(*(w * sympy.Mul(*(t**i for t, i in zip(tiles, term, strict=True))) for w, term in terms))
        for terms in (costs, resident)
    )
    found = minimize(scale * transfers, memory, tiles, [], bounds=dict(zip(tiles, axes, strict=True))).regimes
    at: Mapping[Symbol, object] = {scale: 1, M: capacity, **dict(zip(axes, ends, strict=True))}
    holding = [regime for regime in found if regime.contains(at)]
    assert holding or not found.covers
    assume(holding)
    grid = itertools.product(*(range(1, end + 1) for end in ends))
    feasible = [value(costs, sizes) for sizes in grid if value(resident, sizes) <= capacity]
    if not holding[0].feasible:
        assert not feasible
        return
    claim = float(holding[0].value.subs(at))
    assert all(float(regime.value.subs(at)) == pytest.approx(claim) for regime in holding)
    assert min(feasible) >= claim * (1 - 1e-12)
    of = holding[0].tiles
    if set(of) == set(tiles):
        sizes = [float(of[t].subs(at)) for t in tiles]
        assert all(1 - 1e-9 <= size <= end + 1e-9 for size, end in zip(sizes, ends, strict=True))
        assert value(resident, sizes) <= capacity * (1 + 1e-9)
        assert value(costs, sizes) == pytest.approx(claim)


def test_maxima_are_several_memories_of_one_capacity() -> None:
    memory = Max(2 * g_a * g_c, d * g_a + d * g_c)
    found = minimize(n / g_a + n / g_c, memory, [g_a, g_c], [], bounds={g_a: a, g_c: c})
    assert found.exact is None
    values = [regime.value for regime in found.regimes if regime.binding == "M full"]
    assert len(values) == 2
    assert all(any(same(value, wanted) for value in values) for wanted in (2 * n * sqrt(2 / M), 4 * n * d / M))


def test_a_program_without_choice() -> None:
    found = regimes(PowerProgram(posynomial(a * b, []), ((posynomial(d, []), M),), ()))
    assert [regime.value for regime in found] == [sympy.oo, a * b]
    assert found.covers
