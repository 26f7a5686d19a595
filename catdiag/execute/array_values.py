"""Arrays that users give, as named arrays of the types of a diagram; values made conform to a type; lengths of axes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from catdiag.category.types import ArrayType, Size, show, size_symbols, size_value
from catdiag.execute.named_arrays import NamedArray
from catdiag.util.errors import SizeError, TypeMismatch

Array = NDArray[Any]


def checked_array(value: Any, name: str) -> Array:
    """A value as an array of numbers or truth values. Raises TypeMismatch for others, SizeError for lists of unequal
    lengths."""
    if getattr(value, "requires_grad", False):
        value = value.detach()
    try:
        array = np.asarray(value)
    except ValueError as error:
        raise SizeError(f"input {name} is not a rectangular array: {error}") from error
    if array.dtype.kind not in "fiub":
        raise TypeMismatch(f"input {name} holds {array.dtype}: expected real numbers, integers or truth values")
    return array


def float_type(arrays: Sequence[Array], dtype: DTypeLike | None) -> np.dtype[Any]:
    """The floating type to compute in: `dtype`, or that of the arrays. Raises TypeMismatch for a dtype that is none."""
    if dtype is not None:
        kind = np.dtype(dtype)
        if kind.kind != "f":
            raise TypeMismatch(f"dtype is {kind}: expected a floating type, such as 'float32'")
        return kind
    floating = [a.dtype for a in arrays if a.dtype.kind == "f"]
    return np.result_type(*floating) if floating else np.dtype(np.float64)


def elements_of(array: Array, ty: ArrayType, name: str, kind: np.dtype[Any]) -> Array:
    """An array with elements of its type, reals in the floating type `kind`. Raises TypeMismatch for reals where the
    type has truth values or integers."""
    if ty.element == "bool":
        if array.dtype.kind != "b":
            raise TypeMismatch(f"input {name} holds {array.dtype}: expected truth values, for {ty}")
        return array
    if ty.element == "int":
        if array.dtype.kind not in "iu":
            raise TypeMismatch(f"input {name} holds {array.dtype}: expected integers, for {ty}")
        return array.astype(np.int64, copy=False)
    return array.astype(kind, copy=False)


def owned(array: Array, inputs: Sequence[Array]) -> Array:
    """An array that shares no memory with the caller's arrays, in C order."""
    if array.base is None and array.flags.c_contiguous and not [a for a in inputs if a is array]:
        return array
    return np.array(array, order="C")


def conform(value: NamedArray, ty: ArrayType, sizes: Mapping[str, int]) -> Array:
    """The array in the layout of its type, broadcast along axes that it lacks.

    >>> from catdiag.category.types import Axis
    >>> conform(NamedArray(np.ones(2), ("q",)), ArrayType((Axis("x"), Axis("q"))), {"x": 3}).shape
    (3, 2)
    """
    order = (*(n for n in value.names if ty.axis(n) is None), *ty.names)
    data = np.asarray(value.over(order))
    if len(value.names) == len(order):
        return data
    lengths = {a.name: a.size for a in ty.axes}
    known = value.lengths()
    return np.broadcast_to(data, [known[n] if n in known else length(lengths[n], sizes) for n in order])


def put_together(blocks: Sequence[Sequence[NamedArray]], axis: str) -> list[NamedArray]:
    """The arrays of which each iteration of a loop emitted a block."""
    return [
        NamedArray(np.concatenate([a.data for a in parts], axis=parts[0].names.index(axis)), parts[0].names)
        for parts in zip(*blocks, strict=True)
    ]


def filled(values: Sequence[NamedArray], types: Iterable[ArrayType], sizes: Mapping[str, int]) -> list[NamedArray]:
    """The outputs of a body with all the axes of their types: an output that lacks one is broadcast."""
    outputs = []
    for value, ty in zip(values, types, strict=True):
        if len(value.names) < len(ty.axes) or not set(ty.names) <= set(value.names):
            order = (*(n for n in value.names if ty.axis(n) is None), *ty.names)
            value = NamedArray(conform(value, ty, sizes), order)
        outputs.append(value)
    return outputs


def length(size: Size, sizes: Mapping[str, int]) -> int:
    """The value of a size as a number.

    >>> length(("*", "b", 2), {"b": 3})
    6

    Raises SizeError where no input shows it.
    """
    missing = [s for s in sorted(size_symbols(size)) if s not in sizes]
    if missing:
        if show(size) in sizes:
            return sizes[show(size)]
        raise SizeError(
            f"size {show(size)} is not known, since no input shows {', '.join(missing)}: "
            f"give it, as in run(diagram, arrays, sizes={{{missing[0]!r}: 4}})"
        )
    return size_value(size, dict(sizes))
