"""The best whole tiles: brute force is never better than what is claimed, and equal where it is proved."""

from __future__ import annotations

import itertools
import math
from dataclasses import replace

import pytest
import sympy
from hypothesis import given, settings
from hypothesis import strategies as st
from sympy import ceiling, floor

import catdiag as cd
from catdiag.optimum.integer import IntegerOptimum, integer_optimum
from catdiag.optimum.minimize import minimize

a, b, c, d, M = sympy.symbols("a b c d M", positive=True)
g, h, k, t = sympy.symbols("g h k t", positive=True)


def found(result: IntegerOptimum | None) -> IntegerOptimum:
    assert result is not None
    return result


def up(n: int, size: int) -> int:
    return -(-n // size)


MATMUL = a * b * ceiling(c / h) + b * c * ceiling(a / g) + a * c


@settings(max_examples=40, deadline=None)
@given(*[st.integers(1, 40)] * 3, st.integers(3, 500), st.sampled_from([1, 2, 4]), st.booleans())
def test_matmul_against_brute_force(m: int, n: int, p: int, capacity: int, step: int, divide: bool) -> None:
    lists = [[x for x in range(step, end + 1, step) if not divide or end % x == 0] for end in (m, p)]
    memory = [(g * h + 2 * g + 3 * h, M)]
    sizes = {a: m, b: n, c: p, M: capacity}

    def ask() -> IntegerOptimum | None:
        return integer_optimum(MATMUL, memory, {g: a, h: c}, sizes, {g: step, h: step}, divisors=divide)

    if not all(lists):
        with pytest.raises(ValueError, match=r"no multiple of .* is at most its axis"):
            ask()
        return
    costs = [
        m * n * up(p, y) + n * p * up(m, x) + m * p
        for x, y in itertools.product(*lists)
        if x * y + 2 * x + 3 * y <= capacity
    ]
    if not costs:
        assert ask() is None
        return
    result = found(ask())
    assert result.proved
    assert result.transfers == min(costs)
    x, y = (result.tiles[v] for v in (g, h))
    assert (x * y + 2 * x + 3 * y,) == result.memory
    assert result.transfers == m * n * up(p, y) + n * p * up(m, x) + m * p
    # A claim a thousandth lower is no longer reached by any tiles.
    stronger = replace(result, transfers=result.transfers * sympy.Rational(999, 1000))
    assert min(costs) > stronger.transfers


@settings(max_examples=10, deadline=None)
@given(st.integers(2, 24), st.integers(2, 24), st.integers(6, 200), st.integers(1, 40))
def test_tiles_within_tiles_with_remainders(m: int, n: int, outer: int, inner: int) -> None:
    """The number of inner pieces, the last of each outer piece smaller; the inner memory may be the tighter one."""

    def pieces(whole_: sympy.Expr, piece: sympy.Symbol, part: sympy.Symbol) -> sympy.Expr:
        full = floor(whole_ / piece)
        return full * ceiling(piece / part) + ceiling((whole_ - piece * full) / part)

    cost = 5 * c * ceiling(a / g) + c * pieces(a, g, t) + a
    result = integer_optimum(
        cost, [(g + 2 * g * b, M), (t * t, d)], {g: a, t: g}, {a: m, b: 1, c: n, M: outer, d: inner}
    )
    costs = [
        5 * n * up(m, x) + n * (m // x * up(x, y) + up(m % x, y)) + m
        for x in range(1, m + 1)
        for y in range(1, x + 1)
        if 3 * x <= outer and y * y <= inner
    ]
    assert (result is None) == (not costs)
    if result is not None:
        assert result.proved
        assert result.transfers == min(costs)


def test_three_tiles() -> None:
    cost = d * (
        a * ceiling(b / h) * ceiling(c / k) + b * ceiling(a / g) * ceiling(c / k) + c * ceiling(a / g) * ceiling(b / h)
    )
    sizes = {a: 300, b: 400, c: 500, d: 64, M: 20000}
    result = found(integer_optimum(cost, [(g * h * k, M)], {g: a, h: b, k: c}, sizes))
    assert result.proved
    relaxed = 64 * 3 * 300 * 400 * 500 / 20000 ** (2 / 3)
    assert relaxed <= result.transfers <= relaxed * 1.1
    few = found(integer_optimum(cost, [(g * h * k, M)], {g: a, h: b, k: c}, sizes, boxes=5))
    assert not few.proved
    assert few.lower_bound <= result.transfers <= few.transfers
    assert "best found" in str(few)


def test_of_a_diagram_with_what_the_hardware_wants() -> None:
    io = cd.library.get("matmul").io()
    fixed = found(io.integer_optimum({"a": 8, "b": 4, "c": 6}, 1000))
    assert fixed.transfers == 32 + 24 + 48
    assert fixed.proved
    grouped = cd.library.get("matmul").group("a c").io()
    sizes = {"a": 512, "b": 512, "c": 512}
    result = found(grouped.integer_optimum(sizes, 70000, {"g_a": 16, "g_c": 16}))
    assert result.proved
    assert all(size % 16 == 0 for size in result.tiles.values())
    assert result.gap is not None and 0 <= result.gap < 0.1
    assert "least of all integer tiles" in str(result)
    brute = min(
        512**2 * (up(512, x) + up(512, y) + 1)
        for x in range(16, 513, 16)
        for y in range(16, 513, 16)
        if 512 * x + x * y + 512 * y <= 70000
    )
    assert result.transfers == brute
    with pytest.raises(ValueError, match="g_b is no tile"):
        grouped.integer_optimum(sizes, 70000, {"g_b": 16})


def test_what_is_wrong_is_told() -> None:
    with pytest.raises(ValueError, match="no size was given for M"):
        integer_optimum(MATMUL, [(g * h, M)], {g: a, h: c}, {a: 4, b: 4, c: 4})
    with pytest.raises(ValueError, match="pad the axis"):
        integer_optimum(MATMUL, [(g * h, M)], {g: a, h: c}, {a: 4, b: 4, c: 4, M: 9}, {g: 16})
    with pytest.raises(ValueError, match="is no sum, product"):
        integer_optimum(sympy.exp(g), [(g, M)], {g: a}, {a: 4, M: 9})


def test_relaxed_tiles_are_never_beaten() -> None:
    optimum = minimize(a * b * c / h + a * b * c / g + a * c, g * h + g + h, [g, h], [], bounds={g: a, h: c})
    for capacity in (100, 1000, 5000):
        sizes = {a: 97, b: 31, c: 61, M: capacity}
        bracket = optimum.bracket(sizes)
        assert bracket is not None
        result = found(integer_optimum(MATMUL, [(g * h + g + h, M)], {g: a, h: c}, sizes, relaxed=bracket.lower))
        assert result.proved
        assert result.gap is not None and 0 <= result.gap < 0.25
        assert math.isfinite(result.gap)
