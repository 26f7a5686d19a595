"""Arrays with named axes, and their contraction."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np


class NamedArray:
    """An array (or a Python number) with named axes.

    >>> a = NamedArray(np.arange(6).reshape(2, 3), ("q", "x"))
    >>> a.over(("x", "h", "q")).shape
    (3, 1, 2)
    """

    __slots__ = ("data", "names")

    def __init__(self, data: Any, names: tuple[str, ...]) -> None:
        self.data, self.names = data, names

    def over(self, order: Sequence[str]) -> Any:
        """The data with its axes in the given order; an axis that this array lacks has length 1."""
        if self.names == order or not self.names:
            return self.data
        own = [n for n in order if n in self.names]
        data = self.data
        if tuple(own) != self.names:
            data = data.transpose([self.names.index(n) for n in own])
        if len(own) == len(order):
            return data
        return data[tuple(slice(None) if n in self.names else None for n in order)]

    def sliced(self, axis: str, start: int, stop: int) -> NamedArray:
        """The part from `start` to `stop` of an axis, as a view; all of it for an array without the axis."""
        if axis not in self.names:
            return self
        where = self.names.index(axis)
        return NamedArray(self.data[(slice(None),) * where + (slice(start, stop),)], self.names)

    def lengths(self) -> dict[str, int]:
        """The length of each axis."""
        return dict(zip(self.names, np.shape(self.data), strict=True))

    def sum(self, axes: Sequence[str]) -> NamedArray:
        """The sum over some axes."""
        if not axes:
            return self
        kept = tuple(n for n in self.names if n not in axes)
        return NamedArray(np.add.reduce(self.data, axis=tuple(self.names.index(n) for n in axes)), kept)


def contract(arrays: Sequence[NamedArray], kept: Sequence[str]) -> NamedArray:
    """The product of arrays, summed over the axes that are not in `kept`. The order of the result's axes is
    unspecified.

    Contracts two arrays at a time by a matrix product. Greedy contraction order: the pair with the smallest product
    first.

    >>> a, b = NamedArray(np.ones((2, 3)), ("q", "d")), NamedArray(np.ones((4, 3)), ("x", "d"))
    >>> c = contract([a, b], ("q", "x"))
    >>> c.names, c.data.tolist()[0]
    (('q', 'x'), [3.0, 3.0, 3.0, 3.0])
    """
    todo = list(arrays)
    while True:
        # An axis that only one array has is summed before anything is multiplied.
        for k, array in enumerate(todo):
            elsewhere = {n for j, other in enumerate(todo) if j != k for n in other.names}
            todo[k] = array.sum([n for n in array.names if n not in kept and n not in elsewhere])
        if len(todo) == 1:
            return todo[0]
        left, right = (0, 1) if len(todo) == 2 else _smallest(todo, kept)
        needed = {n for k, other in enumerate(todo) if k not in (left, right) for n in other.names} | set(kept)
        second, first = todo.pop(right), todo.pop(left)
        todo.append(_pair(first, second, needed))


def _smallest(arrays: Sequence[NamedArray], kept: Sequence[str]) -> tuple[int, int]:
    lengths = {n: k for a in arrays for n, k in a.lengths().items()}
    best, found = math.inf, (0, 1)
    for left in range(len(arrays)):
        for right in range(left + 1, len(arrays)):
            others = {n for k, a in enumerate(arrays) if k not in (left, right) for n in a.names} | set(kept)
            both = {*arrays[left].names, *arrays[right].names}
            size = math.prod(lengths[n] for n in both & others)
            if size < best:
                best, found = size, (left, right)
    return found


def _pair(first: NamedArray, second: NamedArray, needed: set[str]) -> NamedArray:
    shared = [n for n in first.names if n in second.names]
    summed = tuple(n for n in shared if n not in needed)
    batch = tuple(n for n in shared if n in needed)
    rows = tuple(n for n in first.names if n not in shared)
    columns = tuple(n for n in second.names if n not in shared)
    if not summed:
        order = (*batch, *rows, *columns)
        return NamedArray(np.multiply(first.over(order), second.over(order)), order)
    lengths = {**first.lengths(), **second.lengths()}

    def shape(*groups: tuple[str, ...]) -> tuple[int, ...]:
        return (*(lengths[n] for n in batch), *(math.prod(lengths[n] for n in group) for group in groups))

    a = first.over((*batch, *rows, *summed)).reshape(shape(rows, summed))
    b = second.over((*batch, *summed, *columns)).reshape(shape(summed, columns))
    names = (*batch, *rows, *columns)
    return NamedArray(np.matmul(a, b).reshape([lengths[n] for n in names]), names)
