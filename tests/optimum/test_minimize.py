"""Least transfers: known closed forms, and random problems against brute force over tiles."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from typing import Any

import pytest
import sympy
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from sympy import Expr, Integer, Max, Min, Rational, Symbol, simplify, sqrt

from catdiag.optimum.leading_order import branches, leading_order
from catdiag.optimum.minimize import Optimum, check_certificate, minimize
from catdiag.optimum.posynomial import posynomial

a, b, c, d, f, h, k, q, r = sympy.symbols("a b c d f h k q r", positive=True, integer=True)
s, s_x, x, n, w = sympy.symbols("s s_x x n w", positive=True, integer=True)
g_a, g_b, g_c, g_q, g_r, g_h = sympy.symbols("g_a g_b g_c g_q g_r g_h", positive=True)
g_i, g_j, g_k = sympy.symbols("g_i g_j g_k", positive=True)
M = Symbol("M", positive=True)
W = a * b * c * d


def same(found: Expr | None, wanted: Expr) -> bool:
    return found is not None and simplify(found - wanted) == 0


def certified(found: Optimum) -> Optimum:
    for certificate in (found.certificate, found.leading_certificate):
        assert certificate is None or check_certificate(certificate)
    return found


def matmul() -> Optimum:
    return certified(
        minimize(
            a * b * c / g_c + a * b * c / g_a + a * c,
            g_a * g_c + g_a * s + s * g_c,
            [g_a, g_c],
            [s],
            bounds={g_a: a, g_c: c},
        )
    )


def attention() -> Optimum:
    memory = 2 * d * g_q + 2 * d * s_x + g_q * s_x + 3 * g_q
    return certified(minimize(2 * d * q + 2 * d * q * x / g_q, memory, [g_q], [s_x], bounds={g_q: q}))


def multi_head() -> Optimum:
    memory = 2 * d * g_q * g_h + 2 * d * s_x * g_h + g_q * g_h * s_x + 3 * g_q * g_h
    transfers = 2 * h * q * d + 2 * h * x * q * d / g_q
    return certified(minimize(transfers, memory, [g_q, g_h], [s_x], bounds={g_q: q, g_h: h}))


def grouped_query() -> Optimum:
    memory = 2 * d * g_q * g_r + 2 * d * s_x + g_q * g_r * s_x + 3 * g_q * g_r
    transfers = 2 * h * q * d + 2 * x * h * q * d / (g_q * g_r)
    return certified(minimize(transfers, memory, [g_q, g_r], [s_x], bounds={g_q: q, g_r: r}))


def test_matmul() -> None:
    found = matmul()
    assert same(found.leading, 2 * a * b * c / sqrt(M) + a * c)
    assert same(found.exact, 2 * a * b * c * (s + sqrt(M + s**2)) / M + a * c)
    assert same(found.tiles[g_a], sqrt(M + s**2) - s)
    assert found.leading_tiles == {g_a: sqrt(M), g_c: sqrt(M)}
    assert sympy.Le(sqrt(M), a) in found.leading_conditions
    assert found.reason == ""
    # a = b = c = 512, M = 4096, s = 1: between the leading order and the best integer tile (63).
    at = {a: 512, b: 512, c: 512, M: 4096, s: 1}
    assert found.exact is not None and found.leading is not None
    assert round(found.exact.subs(at).evalf()) == 4522496
    assert found.leading.subs(at) == 4456448


def test_attention() -> None:
    found = attention()
    assert same(found.leading, 2 * d * q + 4 * d**2 * q * x / M)
    assert same(found.exact, 2 * d * q + 2 * x * q * d * (2 * d + s_x + 3) / (M - 2 * d * s_x))
    assert same(found.tiles[g_q], (M - 2 * d * s_x) / (2 * d + s_x + 3))
    assert found.leading_tiles == {g_q: M / (2 * d)}
    assert sympy.Gt(M, 2 * d * s_x) in found.conditions
    assert any(relation.rhs == q for relation in found.conditions)


def test_heads_give_no_reuse_so_their_tile_is_one() -> None:
    found = multi_head()
    assert same(found.leading, 2 * h * q * d + 4 * h * x * q * d**2 / M)
    assert found.leading_tiles == {g_h: 1, g_q: M / (2 * d)}
    assert found.tiles[g_h] == 1


def test_grouped_queries_determine_only_a_product() -> None:
    found = grouped_query()
    assert same(found.leading, 2 * h * q * d + 4 * h * x * q * d**2 / M)
    assert found.leading_tiles == {g_q * g_r: M / (2 * d)}
    assert list(found.tiles) == [g_q * g_r]
    assert sympy.Le(M / (2 * d), q * r) in found.leading_conditions


def test_mixed_coefficients() -> None:
    # The two-tile lemma with every coefficient its own.
    big_a, big_b, alpha, beta, gamma = sympy.symbols("A B alpha beta gamma", positive=True)
    memory = alpha * g_a * g_c + beta * g_a + gamma * g_c
    found = certified(minimize(big_a / g_a + big_b / g_c, memory, [g_a, g_c], []))
    root = sqrt(big_a * big_b * (alpha * M + beta * gamma))
    assert same(found.exact, (big_a * beta + big_b * gamma + 2 * root) / M)
    assert same(found.tiles[g_a], M / (beta + sqrt(big_b * (alpha * M + beta * gamma) / big_a)))
    assert same(found.tiles[g_c], M / (gamma + sqrt(big_a * (alpha * M + beta * gamma) / big_b)))


def test_bytes_per_element() -> None:
    # Operands of q_in bytes, accumulators of q_acc, results of q_out.
    q_in, q_acc, q_out = sympy.symbols("q_in q_acc q_out", positive=True)
    transfers = q_in * a * b * c * (1 / g_a + 1 / g_c) + q_out * a * c
    memory = q_acc * g_a * g_c + q_in * s * (g_a + g_c)
    found = certified(minimize(transfers, memory, [g_a, g_c], [s]))
    root = sqrt(q_acc * M + q_in**2 * s**2)
    assert same(found.exact, 2 * a * b * c * q_in * (q_in * s + root) / M + q_out * a * c)
    assert same(found.leading, 2 * a * b * c * q_in * sqrt(q_acc) / sqrt(M) + q_out * a * c)


def test_input_stationary() -> None:
    found = certified(minimize(2 * a * b * c / g_b + a * b * c / g_a + a * b, g_a * g_b, [g_a, g_b], []))
    assert same(found.leading, 2 * sqrt(2) * a * b * c / sqrt(M) + a * b)


@pytest.mark.parametrize("tiles", [3, 4])
def test_tensor_times_factor_matrices(tiles: int) -> None:
    # Each of k operands misses one of k tiles: k*W / M**(1 - 1/k).
    sizes = sympy.symbols(f"t:{tiles}", positive=True)
    product = sympy.Mul(*sizes)
    found = certified(minimize(sum((W * t / product for t in sizes), a * b * c), product, sizes, []))
    assert same(found.leading, tiles * W / M ** Rational(tiles - 1, tiles) + a * b * c)
    assert found.leading == found.exact
    assert set(found.tiles.values()) == {M ** Rational(1, tiles)}


def test_streams_in_three_tiles_have_a_leading_order_only() -> None:
    memory = g_i * g_j * g_k + s * (g_i + g_j + g_k)
    transfers = W / (g_i * g_j) + W / (g_j * g_k) + W / (g_i * g_k)
    found = certified(minimize(transfers, memory, [g_i, g_j, g_k], [s]))
    assert same(found.leading, 3 * W / M ** Rational(2, 3))
    assert found.exact is None
    assert "degree of difficulty 3" in found.reason
    assert found.certificate == found.leading_certificate
    assert "no exact form" in str(found)


def test_convolution_with_its_halo() -> None:
    # Input (1 + (k-1)/g_p)/g_o, weights k/g_p: three terms, and still a closed form.
    transfers = n * f * c * ((1 + (k - 1) / g_a) / g_b + k / g_a) + n * f
    found = certified(minimize(transfers, g_a * g_b, [g_a, g_b], []))
    assert same(found.exact, n * f + n * f * c * (2 * sqrt(k) / sqrt(M) + (k - 1) / M))
    assert found.tiles == {g_a: sqrt(M) * sqrt(k), g_b: sqrt(M) / sqrt(k)}
    blocked = certified(minimize(transfers, g_a * g_b + s * (g_a + k) + s * k * g_b, [g_a, g_b], [s]))
    assert blocked.exact is not None
    at = {n: 4096, f: 512, c: 64, k: 9, M: 8192, s: 1}
    best = min(
        (4096 * 512 * 64 * ((1 + 8 / p) / o + 9 / p) + 4096 * 512, p, o)
        for p in range(1, 4097)
        if (o := min(512, (8192 - p - 9) // (p + 9))) >= 1
    )
    exact = float(blocked.exact.subs(at))
    assert exact <= best[0] <= exact * 1.02


def test_fused_two_layers() -> None:
    found = certified(minimize(2 * n * d + 2 * n * f * d / g_q, 2 * d * g_q + f * s * g_q, [g_q], [s]))
    assert same(found.leading, 2 * n * d + 4 * n * f * d**2 / M)


def test_coefficients_of_unknown_sign_are_conditions() -> None:
    found = certified(minimize(4 * q * d + 2 * q * d * (w - d) / g_q, 2 * d * g_q, [g_q], []))
    assert same(found.leading, 4 * q * d + 4 * q * (w - d) * d**2 / M)
    assert sympy.Gt(w - d, 0) in found.conditions


def test_nothing_to_choose() -> None:
    found = certified(minimize(a * b + c, d * g_a + 2, [g_a], []))
    assert found.exact == found.leading == a * b + c
    assert found.tiles == {g_a: 1}
    assert sympy.Ge(M, d + 2) in found.conditions
    assert certified(minimize(a * b, d, [], [])).exact == a * b


def test_a_tile_that_memory_does_not_limit_goes_to_its_axis() -> None:
    transfers, memory = a * b * c / g_a + a * b * c / g_b, d * g_a + s * g_b
    found = certified(minimize(transfers, memory, [g_a, g_b], [s], bounds={g_b: b}))
    assert same(found.leading, a * c + a * b * c * d / M)
    assert found.leading_tiles == {g_a: M / d, g_b: b}
    assert same(found.exact, a * b * c * (sqrt(d) + sqrt(s)) ** 2 / M)
    unlimited = minimize(transfers, memory, [g_a, g_b], [s])
    assert unlimited.leading is None
    assert "does not limit g_b" in unlimited.reason


def test_a_tile_that_costs_more_than_its_twin_is_absorbed_by_it() -> None:
    found = certified(minimize(a * b / (g_q * g_r), d * g_q * g_r + s * g_r, [g_q, g_r], [s]))
    assert same(found.exact, a * b * d / (M - s))
    assert found.tiles == {g_r: 1, g_q: (M - s) / d}


def test_one_tile_in_two_roles() -> None:
    found = certified(minimize(a / g_q, g_q**2 + d * g_q, [g_q], []))
    assert same(found.exact, a * (d + sqrt(d**2 + 4 * M)) / (2 * M))
    assert same(found.tiles[g_q], (sqrt(d**2 + 4 * M) - d) / 2)


def test_branches_of_one_tile() -> None:
    memory = Max(2 * d * g_q + 2 * d * s, 3 * k * g_q + s, n) + g_q
    found = certified(minimize(a * b / g_q, memory, [g_q], [s]))
    first, second = a * b * (2 * d + 1) / (M - 2 * d * s), a * b * (3 * k + 1) / (M - s)
    assert found.exact == Max(first, second, a * b / (M - n))
    assert found.tiles[g_q] == Min((M - 2 * d * s) / (2 * d + 1), (M - s) / (3 * k + 1), M - n)


def test_conditions_are_on_tiles_where_these_are_determined() -> None:
    # Two monomials, g_a**2 and (g_a*g_c)**2, both of which may exceed one while g_c does not.
    transfers, memory = a * (1 / g_a**2 + 1 / (g_a * g_c) ** 2), g_a**2 + n * (g_a * g_c) ** 2
    found = certified(minimize(transfers, memory, [g_a, g_c], []))
    assert same(found.exact, a * (1 + sqrt(n)) ** 2 / M)
    assert set(found.tiles) == {g_a, g_c}
    assert sympy.false in [relation.subs({n: 6, M: 100}) for relation in found.conditions]
    # With g_c at one, both terms of memory are of one kind: none may be dropped because g_c grows.
    fixed = minimize(transfers, memory.subs(n, 6), [g_a, g_c], [])
    assert fixed.leading is None
    assert "another regime" in fixed.reason


def test_a_branch_that_does_not_grow_is_a_condition() -> None:
    found = certified(minimize(a / g_q, Max(d * g_q, n), [g_q], []))
    assert found.exact == a * d / M
    assert sympy.Ge(M, n) in found.conditions


def test_a_dominated_branch_is_dropped() -> None:
    memory = Max(g_a * g_c + g_a * s, g_a * g_c + g_a * s + g_c * s, g_a)
    found = certified(minimize(a * b * c * (1 / g_a + 1 / g_c), memory, [g_a, g_c], [s]))
    assert same(found.exact, 2 * a * b * c * (s + sqrt(M + s**2)) / M)


def test_branches_of_several_tiles_have_no_closed_form() -> None:
    found = minimize(a / g_a + a / g_c, Max(g_a * g_c, d * g_a + d * g_c), [g_a, g_c], [])
    assert found.exact is None
    assert found.certificate is None
    assert "none dominating" in found.reason


def test_numbers_outside_the_regime_are_not_claimed() -> None:
    transfers, memory = 512**3 * (1 / g_a + 1 / g_c), g_a * g_c + g_a + g_c
    inside = minimize(transfers, memory, [g_a, g_c], [], Integer(4096), {g_a: Integer(512)})
    assert inside.exact is not None
    outside = minimize(transfers, memory, [g_a, g_c], [], Integer(4096), {g_a: Integer(16)})
    assert outside.exact is None
    assert "another regime" in outside.reason


def test_the_leading_order_of_memory() -> None:
    def of(memory: Expr) -> Expr:
        return leading_order(posynomial(memory, [g_a, g_c, g_h]), [s], [g_a, g_c]).expr

    assert of(g_a * (2 * d + 3)) == 2 * d * g_a
    assert of(g_a * g_c + 3 * g_a + s * g_c) == g_a * g_c
    assert of(g_a * g_c + d * g_a) == g_a * g_c + d * g_a  # d may exceed g_c
    assert of(d * g_a + n) == d * g_a + n  # n may exceed d * g_a
    assert of(d * g_a + d) == d * g_a
    assert sympy.expand(of(g_a * g_h + g_a)) == g_a * g_h + g_a  # g_h does not grow, so neither is the less


def test_branches_of_sums_and_products() -> None:
    assert set(branches(Max(a, b) + Max(c, d))) == {a + c, a + d, b + c, b + d}
    with pytest.raises(ValueError, match="cannot be split"):
        branches(1 / Max(a, b))


def test_wrong_use_is_told() -> None:
    plain = Symbol("g")
    with pytest.raises(ValueError, match="declared positive"):
        minimize(a / plain, d * plain, [plain], [])
    with pytest.raises(ValueError, match="not a monomial"):
        minimize(sympy.ceiling(a / g_a), d * g_a, [g_a], [])
    with pytest.raises(ValueError, match="g_a is a tile: expected another symbol"):
        minimize(a / g_a, d * g_a, [g_a], [g_a])
    with pytest.raises(ValueError, match="rename"):
        minimize(M / g_a, d * g_a, [g_a], [])
    with pytest.raises(ValueError, match="bounds names a: expected tiles"):
        minimize(a / g_a, d * g_a, [g_a], [], bounds={a: b})


def test_transfers_that_depend_on_a_stream_block_have_no_leading_order() -> None:
    found = minimize(a * x / (s * g_a), d * g_a, [g_a], [s])
    assert found.leading is None
    assert same(found.exact, a * x * d / (s * M))


def test_it_can_be_read() -> None:
    assert str(attention()).splitlines()[:2] == [
        "leading order: 2*d*q + 4*d**2*q*x/M",
        "  at g_q = M/(2*d)",
    ]


@pytest.mark.parametrize("case", [matmul, attention, multi_head, grouped_query])
def test_closed_forms_take_little_work(case: object, calls: Any) -> None:
    assert callable(case)
    work = calls(case)
    assert work < 1_500_000


def number(expression: Expr, at: Mapping[Symbol, object]) -> float:
    return float(expression.subs(at).evalf(30))


Sizes = st.integers(1, 60)


Few = st.integers(0, 6)
two_tile_sizes = given(st.tuples(Sizes, Sizes, st.integers(1, 4), Few, Few, st.integers(0, 5), st.integers(20, 200)))


@settings(max_examples=3, deadline=None)
@two_tile_sizes
def test_two_tiles_against_brute_force(sizes: tuple[int, ...]) -> None:
    two_tiles_against_brute_force(*sizes)


@pytest.mark.slow
@settings(max_examples=100, deadline=None)
@two_tile_sizes
def test_many_two_tiles_against_brute_force(sizes: tuple[int, ...]) -> None:
    two_tiles_against_brute_force(*sizes)


def two_tiles_against_brute_force(
    first: int, second: int, alpha: int, beta: int, gamma: int, cross: int, capacity: int
) -> None:
    """Every coefficient its own, some absent: integer tiles never beat the claim, real ones reach it."""
    big_a, big_b, big_c = sympy.symbols("A B C", positive=True)
    transfers = big_a / g_a + big_b / g_c + cross * big_c / (g_a * g_c)
    memory = alpha * g_a * g_c + beta * g_a + gamma * g_c
    found = certified(minimize(transfers, memory, [g_a, g_c], []))
    assert found.exact is not None and found.leading is not None
    at = {big_a: first, big_b: second, big_c: 7, M: capacity}
    claim = number(found.exact, at)
    assert number(found.leading, at) <= claim * (1 + 1e-12)

    def cost(u: float, v: float) -> float:
        return first / u + second / v + 7 * cross / (u * v)

    feasible = [cost(u, v) for u in range(1, capacity) if (v := (capacity - beta * u) // (alpha * u + gamma)) >= 1]
    assume(feasible)
    assert min(feasible) >= claim * (1 - 1e-12)
    if all(relation.subs(at) == sympy.true for relation in found.conditions):
        width, height = (number(found.tiles[t], at) for t in (g_a, g_c))
        assert alpha * width * height + beta * width + gamma * height == pytest.approx(capacity)
        assert cost(width, height) == pytest.approx(claim)
        for i in range(-50, 51):
            near = width * (1 + i / 500)
            assert cost(near, (capacity - beta * near) / (alpha * near + gamma)) >= claim * (1 - 1e-12)


Terms = list[tuple[int, tuple[int, ...]]]


@st.composite
def programs(draw: st.DrawFn) -> tuple[Terms, Terms]:
    """Up to three tiles: transfers that fall, memory that grows, as (coefficient, exponents)."""
    count = draw(st.integers(1, 3))
    row = st.tuples(*[st.integers(0, 2)] * count)
    term = st.tuples(st.integers(1, 9), row)
    costs = draw(st.lists(term, min_size=1, max_size=3))
    resident = draw(st.lists(term, min_size=1, max_size=3))
    return [(w, tuple(-i for i in powers)) for w, powers in costs], resident


@settings(max_examples=25, deadline=None)
@given(programs(), st.integers(8, 90))
def test_random_programs_against_brute_force(program: tuple[Terms, Terms], capacity: int) -> None:
    random_programs_against_brute_force(program, capacity)


@pytest.mark.slow
@settings(max_examples=500, deadline=None)
@given(programs(), st.integers(8, 90))
def test_many_random_programs_against_brute_force(program: tuple[Terms, Terms], capacity: int) -> None:
    random_programs_against_brute_force(program, capacity)


def random_programs_against_brute_force(program: tuple[Terms, Terms], capacity: int) -> None:
    """Whatever form is found: certified, never beaten by integer tiles, and attained at its tiles."""
    costs, resident = program
    tiles = [g_i, g_j, g_k][: len(costs[0][1])]
    scale = Symbol("scale", positive=True)
    transfers, memory = (
        sympy.Add(*(w * sympy.Mul(*(t**i for t, i in zip(tiles, term, strict=True))) for w, term in terms))
        for terms in (costs, resident)
    )
    found = certified(minimize(scale * transfers, memory, tiles, [], bounds=dict.fromkeys(tiles, Integer(7))))
    if found.exact is None:
        assert found.reason
        return
    at = {scale: 1, M: capacity}
    # Signs of what the bound divides by; conditions on tiles may fail, and the bound still hold.
    rooms = [relation for relation in found.conditions if relation.lhs == M]
    assume(all(relation.subs(at) == sympy.true for relation in rooms))
    claim = number(found.exact, at)

    def value(terms: Terms, sizes: tuple[int, ...]) -> float:
        total = 0.0
        for weight, powers in terms:
            product = float(weight)
            for size, power in zip(sizes, powers, strict=True):
                product *= float(size) ** power
            total += product
        return total

    grid = itertools.product(range(1, 8), repeat=len(tiles))
    feasible = [value(costs, sizes) for sizes in grid if value(resident, sizes) <= capacity]
    for lower in (found.exact, found.leading) if feasible else ():
        assert lower is None or min(feasible) >= number(lower, at) * (1 - 1e-12)
    if found.leading is not None and all(relation.subs(at) == sympy.true for relation in found.conditions):
        assert number(found.leading, at) <= claim * (1 + 1e-12)
    determined = {t: found.tiles[t] for t in tiles if t in found.tiles}
    if len(determined) == len(tiles):
        sizes = {t: size.subs(at) for t, size in determined.items()}
        assert number(transfers, sizes) == pytest.approx(claim)
        assert number(memory, sizes) <= capacity * (1 + 1e-12)
