"""Scalar functions and reductions on NumPy arrays, where NaN stands for no value.

NumPy compares NaN as false. Here a comparison of what has no value has no value, and so has all that is computed of it,
as in exact numbers; `where` needs its condition and the branch that it takes. An array of truth values is of booleans
if each element has a value, and of floats (1, 0 and NaN) otherwise.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from catdiag.execute.indexed_reads import quotient
from catdiag.execute.philox import uniform_or_nan


def without_value(*args: Any) -> Any:
    """Where some argument has no value; None if each has one everywhere."""
    lacking = None
    for a in args:
        data = np.asarray(a)
        # A minimum is NaN if any element is: one pass, and no array of booleans.
        if data.dtype.kind == "f" and data.size and np.isnan(np.min(data)):
            lacking = np.isnan(data) if lacking is None else lacking | np.isnan(data)
    return lacking


def _strict(function: Callable[..., Any]) -> Callable[..., Any]:
    """A function to truth values, with no value where an argument has none."""

    def apply(*args: Any) -> Any:
        holds, lacking = function(*args), without_value(*args)
        return holds if lacking is None else np.where(lacking, np.nan, holds)

    return apply


def select(condition: Any, a: Any, b: Any) -> Any:
    """`a` where the condition holds and `b` elsewhere; no value where the condition has none.

    >>> select(np.array([True, False]), 1, np.nan)
    array([ 1., nan])
    >>> select(np.array([1.0, np.nan]), 1, 2)
    array([ 1., nan])
    """
    lacking = without_value(condition)
    chosen = np.where(condition, a, b)
    return chosen if lacking is None else np.where(lacking, np.nan, chosen)


def _reduction_of_truth(ufunc: np.ufunc) -> Callable[[Any, int], Any]:
    """A reduction of truth values, with no value where an element has none."""

    def reduce(data: Any, axis: int) -> Any:
        holds, lacking = ufunc.reduce(data, axis=axis), without_value(data)
        return holds if lacking is None else np.where(np.any(lacking, axis=axis), np.nan, holds)

    return reduce


def _reduction(ufunc: np.ufunc) -> Callable[[Any, int], Any]:
    return lambda data, axis: ufunc.reduce(data, axis=axis)


def erf(a: Any) -> Any:
    """The error function of an array, in its floating type; NumPy has none."""
    data = np.asarray(a)
    return _erf(data).astype(np.result_type(data.dtype, np.float16) if data.dtype.kind == "f" else float)


_erf = np.vectorize(math.erf, otypes=[float])


def _integers(function: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """A function to integers: 64-bit ones, or floats where an element has no value or is past their range."""

    def apply(a: Any) -> Any:
        data = np.asarray(a)
        if data.dtype.kind != "f":
            return data
        found = function(data)
        return found.astype(np.int64) if np.all(np.abs(found) < 2.0**63) else found

    return apply


FUNCTIONS: Mapping[str, Callable[..., Any]] = {
    "add": np.add, "sub": np.subtract, "mul": np.multiply, "div": np.true_divide, "neg": np.negative,
    "floordiv": quotient, "exp": np.exp, "log": np.log, "sqrt": np.sqrt, "tanh": np.tanh, "abs": np.abs,
    "max": np.maximum, "min": np.minimum, "where": select,
    "eq": _strict(np.equal), "ne": _strict(np.not_equal), "lt": _strict(np.less), "le": _strict(np.less_equal),
    "and": _strict(np.logical_and), "or": _strict(np.logical_or), "not": _strict(np.logical_not),
    "erf": erf, "sin": np.sin, "cos": np.cos, "sign": np.sign,
    "floor": _integers(np.floor), "ceil": _integers(np.ceil), "round": _integers(np.rint),
    "uniform": uniform_or_nan,
    # Written so that nothing overflows and small values keep their digits.
    "sigmoid": lambda a: np.exp(-np.logaddexp(0, -np.asarray(a))),
}  # fmt: skip
"""Each scalar function, on arrays that broadcast together."""

REDUCTIONS: Mapping[str, Callable[[Any, int], Any]] = {
    "sum": _reduction(np.add), "prod": _reduction(np.multiply), "max": _reduction(np.maximum),
    "min": _reduction(np.minimum), "any": _reduction_of_truth(np.logical_or),
    "all": _reduction_of_truth(np.logical_and),
}  # fmt: skip
"""Each monoid folded over one axis of an array."""
