"""Sympy expressions as formulas: the one place where costs become trees that are typeset.

A class of sympy expressions of the library's own has a method `as_formula`, which takes this function for its parts.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from fractions import Fraction
from typing import Any

from catdiag.category.formula import INFINITY, MINUS_INFINITY, Formula, call, infix, number, symbol, word

Expr = Any

_RELATIONS = {"==": "=", "!=": "≠", "<": "<", "<=": "≤", ">": ">", ">=": "≥"}


def formula_of_expression(expr: Expr) -> Formula:
    """A sympy expression or relation as a formula.

    >>> import sympy
    >>> q, g = sympy.symbols("q g_q", positive=True)
    >>> print(formula_of_expression(sympy.ceiling(q / g) * (g - 2 * q)))
    (g_q - 2·q)·⌈q/g_q⌉
    """
    import sympy
    from sympy.core.relational import Relational

    expr = sympy.sympify(expr, strict=True)
    own = getattr(expr, "as_formula", None)  # an operation of the library's own, such as what a cache fetches
    if own is not None:
        found: Formula = own(formula_of_expression)
        return found
    if isinstance(expr, sympy.Symbol):
        return symbol(expr.name)
    if expr.is_Number:
        return _number(expr)
    if isinstance(expr, sympy.Add):
        return _sum(expr)
    if isinstance(expr, sympy.Mul):
        return _product(expr)
    if isinstance(expr, sympy.Pow):
        return _power(expr)
    if isinstance(expr, Relational):
        return infix(_RELATIONS[expr.rel_op], *_all((expr.lhs, expr.rhs)))
    if isinstance(expr, sympy.And | sympy.Or):
        return infix("∧" if isinstance(expr, sympy.And) else "∨", *_all(_in_order(expr.args)))
    if isinstance(expr, sympy.ceiling | sympy.floor):
        return Formula("ceiling" if isinstance(expr, sympy.ceiling) else "floor", tuple(_all(expr.args)))
    if isinstance(expr, sympy.Piecewise):
        cases = [part for value, when in expr.args for part in ((value,) if when == True else (when, value))]  # noqa: E712
        return Formula("cases", tuple(_all(cases)))
    if isinstance(expr, sympy.Max | sympy.Min):
        return call(type(expr).__name__.lower(), *_all(_in_order(expr.args)))
    if isinstance(expr, sympy.Function):
        return call(expr.func.__name__, *_all(expr.args))
    if isinstance(expr, sympy.Sum):
        limits = [infix("≤", *_all((first, j, last))) for j, first, last in expr.limits]
        return Formula("big", (*limits, formula_of_expression(expr.function)), "sum")
    return word(str(expr).lower() if expr in (sympy.true, sympy.false) else str(expr))


def _all(exprs: Iterable[Expr]) -> list[Formula]:
    return [formula_of_expression(e) for e in exprs]


def _number(expr: Expr) -> Formula:
    import sympy

    if expr in (sympy.oo, -sympy.oo):
        return INFINITY if expr is sympy.oo else MINUS_INFINITY
    if not expr.is_real:
        return word("undefined")
    if expr.is_Rational:
        return number(Fraction(int(expr.p), int(expr.q)))
    decimal = Formula("decimal", (), str(abs(expr)))
    return Formula("negative", (decimal,)) if expr.is_negative else decimal


def _sum(expr: Expr) -> Formula:
    """A sum with a term first that has no sign, where there is one."""
    terms = [(t, t.could_extract_minus_sign() and not t.is_Add) for t in expr.as_ordered_terms()]
    terms.insert(0, terms.pop(next((k for k, (_, minus) in enumerate(terms) if not minus), 0)))
    found: Formula | None = None
    for term, minus in terms:
        part = formula_of_expression(-term if minus else term)
        if found is None:
            found = Formula("negative", (part,)) if minus else part
        else:
            found = infix("−" if minus else "+", found, part)
    return infix("+") if found is None else found


def _product(expr: Expr) -> Formula:
    import sympy

    if expr.could_extract_minus_sign() and expr.as_coeff_Mul()[0].is_negative:
        return Formula("negative", (formula_of_expression(-expr),))
    above, below = [], []
    for factor in expr.as_ordered_factors():
        if factor.is_Rational and not factor.is_Integer:
            above += [] if factor.p == 1 else [sympy.Integer(factor.p)]
            below.append(sympy.Integer(factor.q))
        elif factor.is_Pow and factor.exp.is_Rational and factor.exp.is_negative:
            below.append(sympy.Pow(factor.base, -factor.exp, evaluate=False) if factor.exp != -1 else factor.base)
        else:
            above.append(factor)
    top = _factors(above)
    return infix("/", top, _factors(below)) if below else top


def _factors(factors: Sequence[Expr]) -> Formula:
    return infix("product", *_all(factors)) if factors else number(1)


def _power(expr: Expr) -> Formula:
    import sympy

    base, exponent = expr.base, expr.exp
    if exponent.is_Rational and exponent.is_negative:
        return infix("/", number(1), formula_of_expression(sympy.Pow(base, -exponent)))
    if exponent == sympy.Rational(1, 2):
        return Formula("√", (formula_of_expression(base),))
    if exponent.is_Rational and exponent.p == 1 and exponent.q > 1:
        return Formula("root", (formula_of_expression(base), number(int(exponent.q))))
    return Formula("power", tuple(_all((base, exponent))))


def _in_order(args: Iterable[Expr]) -> list[Expr]:
    """The arguments of a commutative operation, shortest first, so that the order is deterministic."""
    return sorted(args, key=lambda e: (len(str(e)), str(e)))
