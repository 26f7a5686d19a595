"""What tiles contain at positions outside of their arrays, as far as it is known: their *fills*."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Mapping, Sequence
from typing import TypeAlias

from catdiag.execute.philox import uniform_of_integers

Fill: TypeAlias = "float | str | None"
"""What a node contains outside the array: a number, FINITE for any finite number, None for anything (NaN included)."""

FINITE = "finite"
INFINITE = float("inf")


def fill_of(fn: str, args: Sequence[Fill]) -> Fill:
    """The fill of a function's result, from the fills of its arguments.

    >>> fill_of("mul", [0.0, FINITE]), fill_of("sub", [-INFINITE, FINITE]), fill_of("exp2", [-INFINITE])
    (0.0, -inf, 0.0)
    """
    if fn == "where":
        if args[0] in (0, 1):
            return args[1] if args[0] else args[2]
        return args[1] if args[1] == args[2] else FINITE if all(map(finite, args[1:])) else None
    if any(a is None for a in args):
        if fn == "and" and 0 in args:
            return 0
        return 1 if fn == "or" and 1 in args else None
    if any(isinstance(a, str) for a in args):
        return _of_finite(fn, args)
    return _of_numbers(fn, [float(a) for a in args])  # type: ignore[arg-type]


def finite(fill: Fill) -> bool:
    """Whether a fill is a finite number."""
    return fill is not None and (isinstance(fill, str) or math.isfinite(fill))


def _of_finite(fn: str, args: Sequence[Fill]) -> Fill:
    """The fill of a function's result, where some argument is any finite number."""
    numbers = [a for a in args if isinstance(a, float | int)]
    infinite = next((a for a in numbers if math.isinf(a)), None)
    if fn == "mul" and 0 in numbers:
        return 0.0
    if infinite is None:
        return FINITE if fn in _FINITE_OF_FINITE else None
    rule = _OF_INFINITE.get(fn)
    return None if rule is None else rule(infinite, args[1] == infinite)


_OF_INFINITE: Mapping[str, Callable[[float, bool], Fill]] = {
    "add": lambda infinite, second: infinite,
    "sub": lambda infinite, second: -infinite if second else infinite,
    "max": lambda infinite, second: INFINITE if infinite > 0 else FINITE,
    "min": lambda infinite, second: -INFINITE if infinite < 0 else FINITE,
}
"""The fill of a function of an infinity, which may be its second argument, and a finite number."""


def times_positive(fill: Fill) -> Fill:
    """A fill times an unknown positive number."""
    if fill is None or isinstance(fill, str):
        return fill
    return fill if fill == 0 or math.isinf(fill) else FINITE


def _of_numbers(fn: str, values: Sequence[float]) -> Fill:
    """The value of a function of numbers; None where it has none."""
    if fn not in VALUES:
        return None
    try:
        found = VALUES[fn](*values)
    except (ArithmeticError, ValueError):
        return None
    return None if math.isnan(found) else float(found)


VALUES: Mapping[str, Callable[..., float]] = {
    "add": operator.add, "sub": operator.sub, "mul": operator.mul, "div": operator.truediv, "neg": operator.neg,
    "abs": abs, "max": max, "min": min, "exp": math.exp, "exp2": lambda v: 2.0**v, "log": math.log, "sqrt": math.sqrt,
    "rsqrt": lambda v: 1 / math.sqrt(v), "tanh": math.tanh, "sigmoid": lambda v: 1 / (1 + math.exp(-v)),
    "eq": operator.eq, "ne": operator.ne, "lt": operator.lt, "le": operator.le,
    "and": lambda a, b: bool(a) and bool(b), "or": lambda a, b: bool(a) or bool(b), "not": operator.not_,
    "float": float, "erf": math.erf, "sin": math.sin, "cos": math.cos, "floor": math.floor, "ceil": math.ceil,
    "round": round, "sign": lambda v: (v > 0) - (v < 0),
    "uniform": lambda *args: uniform_of_integers(*map(int, args)),
}  # fmt: skip
"""Each function of tiles on numbers, for constants and for what tiles contain outside of arrays."""

_FINITE_OF_FINITE = frozenset(
    ("add", "sub", "mul", "neg", "abs", "max", "min", "float", "tanh", "sigmoid", "erf", "sin", "cos", "sign",
     "floor", "ceil", "round", "uniform")
)  # fmt: skip
"""The functions that give a finite number wherever their arguments are finite."""
