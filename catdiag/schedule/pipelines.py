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
    "uniform": "alu",
}  # fmt: skip
"""Each scalar function: "exp" is the unit for special functions, "alu" that for arithmetic.

Rounding to an integer is an instruction of that unit too: measured on an H200, `floor` and `ceil` run at the rate of
`exp2`, 16 a clock and multiprocessor (Triton 3.6; the rest of a loop runs beside them), and `round` is two of them.
Each function counts as one, though `log`, `erf`, `sin` and `cos` of full precision take 4 to 5 times as long, in
products.

A division is a product here. Its reciprocal is one special function for each divisor, which is counted separately.
"""


INSTRUCTIONS: Mapping[str, int] = {"sigmoid": 2, "uniform": 60}
"""The instructions of each scalar function that is more than one: 1/(1 + exp(-x)) is an exponential and a reciprocal; a
random number is ten rounds of Philox, each two products of 32 bits by 32, which take two instructions a word, and two
exclusive ors."""


def instructions(fn: ScalarFunction) -> int:
    """How many instructions of its pipeline a scalar function is counted as.

    >>> instructions("exp"), instructions("uniform")
    (1, 60)
    """
    return INSTRUCTIONS.get(fn, 1) if isinstance(fn, str) else 1


def pipeline(fn: ScalarFunction) -> str:
    """The pipeline of a scalar function; a cast and a user's function count as one arithmetic operation.

    >>> pipeline("exp"), pipeline(Cast("bf16"))
    ('exp', 'alu')

    Raises TypeMismatch for a function whose cost is not known.
    """
    return "alu" if isinstance(fn, (Apply, Cast)) else row(PIPELINES, fn, "counted in the cost of a kernel")
