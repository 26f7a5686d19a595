"""Formulas of the literature, from tilings written down by hand: constants, exponents and where they hold."""

from __future__ import annotations

import itertools

import pytest
import sympy
from sympy import Expr, Rational, Symbol, simplify, sqrt

from catdiag.optimum.closed_form_certificate import check_certificate
from catdiag.optimum.minimize import Optimum, minimize

m, n, k, M = sympy.symbols("m n k M", positive=True)
first, second, third, fourth, R = sympy.symbols("I J K L R", positive=True)


def tiled(operands: str, result: str, sizes: dict[str, Symbol]) -> Optimum:
    """A contraction whose result stays: each operand is loaded again for each tile of an axis that it lacks."""
    tiles = {v: Symbol(f"g_{v}", positive=True) for v in result}

    def volume(axes: str) -> Expr:
        return sympy.Mul(*(sizes[v] for v in axes))

    moved = volume(result)
    for axes in operands.split():
        moved += volume(axes) * sympy.Mul(*(sizes[v] / tiles[v] for v in result if v not in axes))
    bounds = {tile: sizes[v] for v, tile in tiles.items()}
    found = minimize(moved, sympy.Mul(*tiles.values()), list(tiles.values()), [], bounds=bounds)
    assert found.certificate is not None and check_certificate(found.certificate)
    return found


def same(found: Expr | None, wanted: Expr) -> bool:
    return found is not None and bool(simplify(found - wanted) == 0)


def test_matrix_products() -> None:
    # Smith, Lowery, Langou, van de Geijn, arXiv 1702.02017: 2*m*n*k/sqrt(M) moved, to leading order.
    found = tiled("mk kn", "mn", {"m": m, "n": n, "k": k})
    assert same(found.leading, 2 * m * n * k / sqrt(M) + m * n)
    # Their lower bound, 2*m*n*k/sqrt(M) - 2*M, is below it everywhere.
    assert found.leading is not None
    assert simplify(found.leading - (2 * m * n * k / sqrt(M) - 2 * M)).is_positive


def test_products_of_one_long_side() -> None:
    # Where memory holds the whole of a side, its operand crosses once, and the cost no longer falls with the root of
    # memory. Derived here; Demmel and others, IPDPS 2013, have such cases of large sides for parallel machines.
    found = tiled("mk kn", "mn", {"m": m, "n": n, "k": k}).leading_regimes
    regime = found.at({m: 10, n: 1000, k: 1000, M: 400})
    assert regime is not None
    assert same(regime.value, k * n + k * m**2 * n / M + m * n)
    assert sympy.Ge(M, m**2) in regime.conditions


@pytest.mark.parametrize("order", [3, 4])
def test_tensor_times_all_factors_but_one(order: int) -> None:
    # MTTKRP without its tensor, as products of pairs: order * I1*...*R / M**(1 - 1/order), the exponent of Ballard,
    # Knight, Rouse, arXiv 1708.07401, and the constant that SOAP (arXiv 2105.07203) has for order three.
    axes = "IJKL"[:order]
    sizes = {"I": first, "J": second, "K": third, "L": fourth}
    tiles = {v: Symbol(f"g_{v}", positive=True) for v in axes}
    volume = sympy.Mul(*(sizes[v] for v in axes), R)
    product = sympy.Mul(*tiles.values())
    moved = sympy.Add(*(volume * tiles[v] / product for v in axes))
    found = minimize(moved, product, list(tiles.values()), [], bounds={tiles[v]: sizes[v] for v in axes})
    assert same(found.leading, order * volume / M ** Rational(order - 1, order))
    assert [beta for _, beta in found.power_form.terms] == [1 - Rational(1, order)]


def test_tensor_times_matrix() -> None:
    # One tensor, one matrix: a matrix product of the tensor's other axes, 2*W/sqrt(M) (SOAP's table for TTM).
    found = tiled("IJK KR", "IJR", {"I": first, "J": second, "K": third, "R": R})
    assert same(found.leading, 2 * first * second * third * R / sqrt(M) + first * second * R)
    # Only the product of the tiles of the tensor's own axes matters.
    g_i, g_j, g_r = (Symbol(f"g_{v}", positive=True) for v in "IJR")
    assert found.leading_tiles == {g_i * g_j: sqrt(M), g_r: sqrt(M)}


def test_convolution() -> None:
    # Chen, Demmel, Dinh, Haberle, Holtz, PASC 2022: 2*G/sqrt(w*h*M) with G operations and a filter of w times h, which
    # is less than that of a matrix product by the root of the filter; here by tiles of positions and channels, the
    # input's halo left out.
    P, C, F, w, h = sympy.symbols("P C F w h", positive=True)
    g_p, g_f = sympy.symbols("g_p g_f", positive=True)
    volume = P * C * F * w * h
    moved = P * C * F / g_f + volume / g_p + P * F
    found = minimize(moved, g_p * g_f, [g_p, g_f], [], bounds={g_p: P, g_f: F})
    assert same(found.leading, 2 * volume / sqrt(w * h * M) + P * F)
    assert same(found.leading_tiles[g_p], sqrt(w * h * M))
    # With memory for all filters, each input crosses once (derived here).
    regime = found.leading_regimes.at({P: 10**6, C: 64, F: 16, w: 3, h: 3, M: 20000})
    assert regime is not None
    assert same(regime.value, P * C + volume * F / M + P * F)


def test_convolution_with_a_halo_in_two_directions() -> None:
    # The same constant where the halo is small beside the tile: 2*G/sqrt(w*h*M), and never above the exact optimum.
    X, Y, C, F, w, h = sympy.symbols("X Y C F w h", positive=True)
    g_x, g_y, g_f = sympy.symbols("g_x g_y g_f", positive=True)
    halo = (1 + w / g_x) * (1 + h / g_y)
    moved = X * Y * C * F * halo / g_f + X * Y * C * F * w * h / (g_x * g_y) + X * Y * F
    found = minimize(moved, g_x * g_y * g_f, [g_x, g_y, g_f], [], bounds={g_x: X, g_y: Y, g_f: F})
    assert found.exact is None
    assert same(found.leading, 2 * X * Y * C * F * sqrt(w * h / M) + X * Y * F)
    bracket = found.bracket({"X": 224, "Y": 224, "C": 64, "F": 128, "w": 2, "h": 2, "M": 60000})
    assert bracket is not None and bracket.gap < 1e-6
    at = {X: 224, Y: 224, C: 64, F: 128, w: 2, h: 2, M: 60000}
    assert found.leading is not None and float(found.leading.subs(at)) <= float(bracket.lower)


def test_two_products_kept_together() -> None:
    # Rows resident through two products, n by d by f by d: 2*n*d + 4*n*f*d**2/M against 4*n*d*f/sqrt(M) + 2*n*f apart;
    # together is less where sqrt(M) is above (sqrt(3) - 1)*d.
    d, f = sympy.symbols("d f", positive=True)
    g = Symbol("g_n", positive=True)
    together = minimize(2 * n * d * f / g, 2 * d * g, [g], [], bounds={g: n}).leading
    assert same(together, 4 * n * f * d**2 / M)
    apart = 4 * n * d * f / sqrt(M) + 2 * n * f
    assert together is not None
    assert simplify((together - apart).subs(M, ((sqrt(3) - 1) * d) ** 2)) == 0


def test_no_tiles_of_a_product_move_less() -> None:
    found = tiled("mk kn", "mn", {"m": m, "n": n, "k": k})
    for rows, columns, inner, room in itertools.product((3, 40), (17, 60), (5, 30), (20, 300, 3000)):
        at = {m: rows, n: columns, k: inner, M: room}
        regime = found.leading_regimes.at(at)
        assert regime is not None
        best = min(
            rows * inner * columns / y + inner * columns * rows / x + rows * columns
            for x in range(1, rows + 1)
            for y in range(1, columns + 1)
            if x * y <= room
        )
        assert float(regime.value.subs(at)) <= best * (1 + 1e-12)
