"""Scalar functions and monoids: the one list of those that a box may name.

Whatever reads a diagram (the meaning, NumPy, exact numbers, costs, each language that code is written in) has one table
keyed by these names. `tests/test_every_op_is_in_every_table.py` says which tables there are, and what each refuses.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeVar

from catdiag.category.types import BYTES
from catdiag.util.errors import TypeMismatch

V = TypeVar("V")

SCALARS: dict[str, tuple[int, str]] = {
    "add": (2, "same"), "sub": (2, "same"), "mul": (2, "same"), "div": (2, "real"), "neg": (1, "same"),
    "exp": (1, "real"), "log": (1, "real"), "sqrt": (1, "real"), "tanh": (1, "real"), "sigmoid": (1, "real"),
    "abs": (1, "same"), "max": (2, "same"), "min": (2, "same"),
    "eq": (2, "bool"), "ne": (2, "bool"), "lt": (2, "bool"), "le": (2, "bool"),
    "and": (2, "bool"), "or": (2, "bool"), "not": (1, "bool"), "where": (3, "same"), "floordiv": (2, "int"),
    "erf": (1, "real"), "sin": (1, "real"), "cos": (1, "real"), "sign": (1, "same"),
    "floor": (1, "int"), "ceil": (1, "int"), "round": (1, "int"), "uniform": (5, "real"),
}  # fmt: skip
"""Each scalar function: the number of arguments, and the element type of the result ("same": that of the arguments)."""

OF_INTEGERS = frozenset(("floordiv", "uniform"))
"""The scalar functions that take integers only."""

MONOIDS = ("sum", "prod", "max", "min", "any", "all")


@dataclass(frozen=True)
class Cast:
    """The scalar function that stores a value in an element type. It means the identity; its result has that width."""

    dtype: str

    def __str__(self) -> str:
        return f"cast:{self.dtype}"


@dataclass(frozen=True)
class Apply:
    """The uninterpreted scalar function of a name."""

    name: str

    def __str__(self) -> str:
        return self.name


ScalarFunction = str | Cast | Apply
"""A function of numbers: one of `SCALARS` by its name, a cast, or an uninterpreted function."""


def signature(fn: str | Cast, line: str | None = None) -> tuple[int, str]:
    """The number of arguments of a scalar function or a cast, and the element type of its result.

    >>> signature("exp"), signature(Cast("bf16"))
    ((1, 'real'), (1, 'same'))

    Raises TypeMismatch for an unknown one.
    """
    if isinstance(fn, Cast):
        if fn.dtype not in BYTES:
            raise TypeMismatch(f"unknown element type {fn.dtype!r} of a cast: expected one of {', '.join(BYTES)}", line)
        return 1, "same"
    if fn not in SCALARS:
        raise TypeMismatch(
            f"unknown scalar function {fn!r}: expected Cast(dtype), Apply(name), or one of {', '.join(SCALARS)}", line
        )
    return SCALARS[fn]


def row(table: Mapping[str, V], fn: ScalarFunction, reading: str) -> V:
    """The row of a scalar function in the table of a reading.

    >>> row({"exp": 1}, "log", "run on NumPy arrays")
    Traceback (most recent call last):
    ...
    catdiag.util.errors.TypeMismatch: log cannot be run on NumPy arrays: expected one of exp
    ...

    Raises TypeMismatch, with the name of the function and what cannot be done with it, if the table has no such row.
    """
    if not isinstance(fn, str) or fn not in table:
        raise TypeMismatch(f"{fn} cannot be {reading}: expected one of {', '.join(table)}")
    return table[fn]
