"""Transfers as sums of powers of the capacity: the paper's equations 1 to 3, on forms that are found."""

from __future__ import annotations

from fractions import Fraction

import pytest
import sympy
from hypothesis import given, settings
from hypothesis import strategies as st
from sympy import Expr, Rational, Symbol, sqrt

from catdiag.optimum.minimize import minimize
from catdiag.optimum.power_form import PowerForm, power_form

a, b, c, d, q, s, x, M, w = sympy.symbols("a b c d q s x M w", positive=True)
g_a, g_c, g_q, g_i, g_j, g_k = sympy.symbols("g_a g_c g_q g_i g_j g_k", positive=True)


def test_forms_of_optima() -> None:
    tiled = minimize(a * b * c / g_c + a * b * c / g_a + a * c, g_a * g_c + g_a * s + s * g_c, [g_a, g_c], [s])
    assert [beta for _, beta in tiled.power_form.terms] == [0, Fraction(1, 2)]
    rows = minimize(2 * d * q + 2 * d * q * x / g_q, 2 * d * g_q + 2 * d * s + 3 * g_q, [g_q], [s]).power_form
    assert rows.exact
    assert rows.coefficient(1) == 4 * x * q * d**2
    assert rows.coefficient(2) == 0
    cubes = minimize(a * (1 / (g_i * g_j) + 1 / (g_j * g_k) + 1 / (g_i * g_k)), g_i * g_j * g_k, [g_i, g_j, g_k], [])
    assert cubes.power_form == PowerForm(((3 * a, Fraction(2, 3)),), M)


def test_quantisation_is_the_power_one_more() -> None:
    # Half the bytes a value: a quarter for the power 1, 2**-1.5 for the power 1/2 (equation 3 and what follows it).
    form = power_form(a + b / sqrt(M) + c / M, M)
    in_bytes = form.quantized(w)
    ratios = [
        sympy.simplify(in_bytes.coefficient(beta).subs(w, 2) / in_bytes.coefficient(beta).subs(w, 1))
        for _, beta in form.terms
    ]
    assert ratios == [2, 2 * sqrt(2), 4]
    assert sympy.simplify(in_bytes.at(M) - w * form.at(M / w)) == 0
    with pytest.raises(ValueError, match="must be positive"):
        form.quantized(-1)


def test_levels_add_up() -> None:
    fast, slow, big, small = sympy.symbols("fast slow big small", positive=True)
    form = power_form(a + b / sqrt(M), M)
    assert (
        sympy.expand(
            form.over([(slow, big), (fast, small)]) - slow * (a + b / sqrt(big)) - fast * (a + b / sqrt(small))
        )
        == 0
    )


def test_forms_that_are_no_sums_of_powers_give_their_leading_order() -> None:
    exact = minimize(a * b * c / g_c + a * b * c / g_a + a * c, g_a * g_c + g_a * s + s * g_c, [g_a, g_c], [s]).exact
    assert exact is not None
    form = power_form(exact, M)
    assert not form.exact
    assert form == power_form(2 * a * b * c / sqrt(M) + a * c, M)
    flash = power_form(2 * d * q + 2 * x * q * d * (2 * d + s + 3) / (M - 2 * d * s), M)
    assert sympy.expand(flash.coefficient(1) - 2 * x * q * d * (2 * d + s + 3)) == 0
    assert power_form(a / sympy.Max(b * M, c), M).expr == a / (b * M)
    with pytest.raises(ValueError, match="grows with M"):
        power_form(a * M, M)
    with pytest.raises(ValueError, match="no leading order"):
        power_form(a / (sqrt(M + 1) - sqrt(M)), M)


def test_what_it_says() -> None:
    form = power_form(2 * a * b * c / sqrt(M) + a * c, M)
    assert form.latex() == "2 a b c M^{-1/2} + a c"
    assert str(form) == "a*c + 2*a*b*c/sqrt(M)"
    assert (form + form).expr == sympy.expand(2 * form.expr)
    assert form.scaled(3) == power_form(3 * form.expr, M)
    with pytest.raises(ValueError, match="not added"):
        _ = form + power_form(a / w, w)
    numeric = minimize(a * b / g_q, d * g_q, [g_q], [], sympy.Integer(100))
    with pytest.raises(ValueError, match="leave it a symbol"):
        _ = numeric.power_form
    unlimited = minimize(a / g_a, d * g_q, [g_a, g_q], [])
    with pytest.raises(ValueError, match="no closed form"):
        _ = unlimited.power_form


@settings(max_examples=20, deadline=None)
@given(st.lists(st.tuples(st.integers(1, 9), st.fractions(0, 3, max_denominator=4)), max_size=4), st.integers(1, 50))
def test_reading_and_evaluating_agree(terms: list[tuple[int, Fraction]], capacity: int) -> None:
    formula: Expr = sympy.Add(*(k * a * M ** -Rational(beta.numerator, beta.denominator) for k, beta in terms))
    form = power_form(formula, M)
    assert form.exact
    at = {a: 3, Symbol("unused"): 1}
    assert float(form.at(capacity).subs(at)) == pytest.approx(float(formula.subs(at).subs(M, capacity)))
    assert isinstance(form, PowerForm)
