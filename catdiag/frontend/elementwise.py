"""Elementwise functions: a scalar function at every index, with broadcasting by axis name.

Inside an algorithm they add a box. Outside of one, on plain numbers, they give plain numbers.
"""

from __future__ import annotations

import builtins
import math
from collections.abc import Callable, Sequence
from numbers import Integral
from typing import Any

from catdiag.category.scalars import SCALARS, Apply, Cast
from catdiag.category.types import BYTES, union
from catdiag.frontend.constants import number
from catdiag.frontend.tracing import Operand, Traced, is_building, running, traced
from catdiag.util.errors import SignatureError, TypeMismatch


def _scalar(fn: str, plain: Callable[..., float] | None, *operands: Operand) -> Any:
    """A box for the function; its value `plain(…)` where no algorithm is being built and all operands are numbers."""
    if plain is not None and not is_building() and not _some(operands):
        for operand in operands:
            number(operand)
        try:
            return plain(*operands)
        except (ValueError, OverflowError) as error:
            raise TypeMismatch(f"{fn} of {', '.join(map(str, operands))[:80]} is no number: {error}") from error
    return running().arithmetic(fn, *operands)


def _some(operands: Sequence[object]) -> bool:
    return True in map(traced, operands)


def exp(a: Operand) -> Any:
    """The exponential e^a; 0 for minus infinity.

    >>> exp(0)
    1.0
    """
    return _scalar("exp", math.exp, a)


def log(a: Operand) -> Any:
    """The natural logarithm of a number or, elementwise, of the array `a`; defined for positive numbers.

    >>> log(1)
    0.0
    """
    return _scalar("log", math.log, a)


def sqrt(a: Operand) -> Any:
    """The square root of a number or, elementwise, of the array `a`; defined for nonnegative numbers.

    >>> sqrt(4)
    2.0
    """
    return _scalar("sqrt", math.sqrt, a)


def tanh(a: Operand) -> Any:
    """The hyperbolic tangent, `(e^a − e^−a) / (e^a + e^−a)`.

    >>> tanh(0)
    0.0
    """
    return _scalar("tanh", math.tanh, a)


def sigmoid(a: Operand) -> Any:
    """The logistic function, `1 / (1 + e^−a)`.

    >>> sigmoid(0)
    0.5
    """
    return _scalar("sigmoid", lambda v: 1 / (1 + math.exp(-v)) if v >= 0 else math.exp(v) / (1 + math.exp(v)), a)


def abs(a: Operand) -> Any:
    """The absolute value of a number or, elementwise, of the array `a`.

    >>> abs(-2)
    2
    """
    return _scalar("abs", builtins.abs, a)


def erf(a: Operand) -> Any:
    """The error function, 2/√π times the integral of e^(−t²) from 0 to a.

    >>> erf(0)
    0.0
    """
    return _scalar("erf", math.erf, a)


def sin(a: Operand) -> Any:
    """The sine of an angle `a` in radians.

    >>> sin(0)
    0.0
    """
    return _scalar("sin", math.sin, a)


def cos(a: Operand) -> Any:
    """The cosine of an angle `a` in radians.

    >>> cos(0)
    1.0
    """
    return _scalar("cos", math.cos, a)


def sign(a: Operand) -> Any:
    """1 for a positive number, −1 for a negative one, 0 for 0.

    >>> sign(-3)
    -1
    """
    return _scalar("sign", lambda v: (v > 0) - (v < 0), a)


def floor(a: Operand) -> Any:
    """The largest integer that is at most a; an array of integers, at which arrays can be read.

    >>> floor(-1.5)
    -2
    """
    return _scalar("floor", math.floor, a)


def ceil(a: Operand) -> Any:
    """The least integer that is at least a; an array of integers.

    >>> ceil(-1.5)
    -1
    """
    return _scalar("ceil", math.ceil, a)


def round(a: Operand) -> Any:
    """The integer nearest to `a`, and of two that are as near the even one, as in NumPy; an array of integers.

    >>> round(2.5), round(3.5)
    (2, 4)
    """
    return _scalar("round", builtins.round, a)


def maximum(a: Operand, b: Operand) -> Any:
    """The larger of `a` and `b`, elementwise; `-float("inf")` may be one of them.

    >>> import catdiag as cd
    >>> cd.algorithm("x")(lambda a: cd.maximum(a, 0))([-1, 2]).tolist()
    [0.0, 2.0]
    """
    return _scalar("max", lambda v, w: v if v >= w else w, a, b)


def minimum(a: Operand, b: Operand) -> Any:
    """The smaller of `a` and `b`, elementwise.

    >>> minimum(2, 3)
    2
    """
    return _scalar("min", lambda v, w: v if v <= w else w, a, b)


def clip(a: Operand, low: Operand | None = None, high: Operand | None = None) -> Any:
    """`a` where it is between `low` and `high`, else the nearer bound: `min(high, max(low, a))`.

    The derivative by `a` is 1 between the bounds and at them, as in PyTorch.

    >>> clip(7, 0, 5)
    5
    """
    result: Any = a
    # Of arrays that are equal the maximum shares its derivative, which integers have not.
    real = isinstance(a, Traced) and a.type.element != "int"
    for name, bound, nearest in (("low", low, maximum), ("high", high, minimum)):
        if bound is not None and real and isinstance(bound, Traced):
            pair = (result, bound) if name == "low" else (bound, result)
            result = where(_scalar("lt", None, *pair), bound, result)
        elif bound is not None:
            result = nearest(bound, result)
    if isinstance(a, Traced) and isinstance(result, Traced):  # as other functions do, the axes of `a` first
        return running().rename(result, {}, union([a.type, result.type]))
    return result


def cast(a: Operand, dtype: str) -> Traced:
    """The array in the element type `dtype`: `cast(a, "bf16")`. It means the identity; what changes is the width in
    bytes, for costs, and the type in which a product is made that it is a factor of. Integers become real numbers.

    >>> import catdiag as cd
    >>> cd.algorithm("x")(lambda a: cd.cast(a, "fp8"))([1.5, 300]).tolist()
    [1.5, 300.0]

    Raises TypeMismatch for an unknown type.
    """
    if not isinstance(dtype, str) or dtype not in BYTES:
        raise TypeMismatch(f"unknown type {dtype!r}: expected one of {', '.join(BYTES)}")
    return running().arithmetic(Cast(dtype), a)


def integer(value: int) -> Traced:
    """`value` as an integer, where a number alone would be a real number: `cd.where(mask, cd.integer(1), 0)` is an
    array of integers, which can be positions.

    >>> import catdiag as cd
    >>> str(cd.algorithm("x")(lambda a: cd.where(a < 0, cd.integer(1), 0)).cod)
    'int[x]'

    Raises TypeMismatch for what is no integer.
    """
    if not isinstance(value, Integral) or isinstance(value, bool):
        raise TypeMismatch(f"cd.integer takes an integer, not {value!r}")
    return running().lift(value, element="int")


def equal(a: Operand, b: Operand) -> Any:
    """Whether two numbers are equal, elementwise; the same as `a == b`.

    >>> equal(1, 2)
    False
    """
    return _scalar("eq", lambda v, w: v == w, a, b)


def where(condition: Traced, a: Operand, b: Operand) -> Traced:
    """`a` where the condition holds, else `b`, elementwise; `-float("inf")` may be one of them.

    >>> import catdiag as cd
    >>> masked = cd.algorithm("q x")(lambda s: cd.where(cd.index("x") <= cd.index("q"), s, -float("inf")))
    >>> str(masked.cod)
    'extended[x q]'

    Raises TypeMismatch for a condition that is no array of truth values.
    """
    return running().chosen(condition, a, b)


_INFIX = frozenset(("add", "sub", "mul", "div", "neg", "floordiv", "eq", "ne", "lt", "le"))
_WITH_MEANING = frozenset(
    (*(SCALARS.keys() - _INFIX), "ite", "inv", "sum", "prod", "mean", "any", "all", "index", "size", "real", "true",
     "false")
)  # fmt: skip
"""Names that formulas print for functions with a meaning; some they print as signs between arguments."""


def apply(function: str, *arrays: Operand) -> Traced:
    """An uninterpreted scalar function of `arrays`, elementwise, identified by its name: equal arguments give equal
    results, and nothing else is known.

    >>> import catdiag as cd
    >>> str(cd.algorithm("q, x")(lambda a, b: cd.apply("f", a, b)).cod)
    '[q x]'

    Raises SignatureError for a name that is no identifier, or that formulas use for a function with a meaning, such as
    `exp`; TypeMismatch for another number of arguments than before.
    """
    trace = running()
    if not isinstance(function, str) or not function.isidentifier():
        raise SignatureError(f'cd.apply takes the name of a function, as in cd.apply("f", a), not {function!r}')
    if function in _WITH_MEANING:
        raise SignatureError(
            f"cd.apply({function!r}, …) would be any function, and print as the one of that name: "
            "use that one where it is meant, else another name"
        )
    arity = trace.memo(("arity", function), lambda: len(arrays))
    if arity != len(arrays) or not arrays:
        raise TypeMismatch(f"function {function!r} of {arity or 'no'} arguments is applied to {len(arrays)}: "
                           "expected one number of arguments, at least one")  # fmt: skip
    return trace.arithmetic(Apply(function), *arrays)
