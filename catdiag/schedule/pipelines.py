"""The pipeline of a chip that computes a scalar function: the cost class of each."""

from __future__ import annotations

from collections.abc import Mapping

from catdiag.category.scalars import Apply, Cast, ScalarFunction, row

PIPELINES: Mapping[str, str] = {
    "add": "alu", "sub": "alu", "mul": "alu", "div": "alu", "floordiv": "alu", "neg": "alu", "abs": "alu",
    "max": "alu", "min": "alu", "eq": "alu", "ne": "alu", "lt": "alu", "le": "alu",
    "and": "alu", "or": "alu", "not": "alu", "where": "alu",
    "exp": "exp", "log": "exp", "sqrt": "exp", "tanh": "exp", "sigmoid": "exp",
    "erf": "exp", "sin": "exp", "cos": "exp", "floor": "exp", "ceil": "exp", "round": "exp", "sign": "alu",
}  # fmt: skip
"""Each scalar function: "exp" is the unit for special functions, "alu" that for arithmetic.

A division is a product here. Its reciprocal is one special function for each divisor, which is counted apart.
"""


def pipeline(fn: ScalarFunction) -> str:
    """The pipeline of a scalar function; a cast and a user's function count as one arithmetic operation.

    >>> pipeline("exp"), pipeline(Cast("bf16"))
    ('exp', 'alu')

    Raises TypeMismatch for a function whose cost is not known.
    """
    return "alu" if isinstance(fn, (Apply, Cast)) else row(PIPELINES, fn, "counted in the cost of a kernel")
