"""Reading NumPy arrays at index arithmetic."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from catdiag.category.index_maps import Cond, Expr, Read, View, read_off
from catdiag.category.ops import Box
from catdiag.category.types import Size, show
from catdiag.execute.named_arrays import NamedArray
from catdiag.util.errors import SizeError

Length = Callable[[Size], int]
_COMPARE = {"lt": np.less, "le": np.less_equal, "eq": np.equal}


def view(op: View, box: Box, args: Sequence[NamedArray], length: Length) -> NamedArray:
    """The array over the axes made. Each read is carried out only where it is selected.

    Raises SizeError for a position out of range, naming the axis and the user's line.
    """
    place = _IndexEvaluator(op, args, length, box.line)
    left: Any = True
    found: list[tuple[Any, Any]] = []
    for k, read in enumerate(op.reads):
        holds = left
        for condition in read.where:
            holds = holds & place.condition(condition, left)
        found.append((holds, place.read(k, read, holds)))
        left = left & ~np.asarray(holds)
    result = found[-1][1]
    for holds, data in reversed(found[:-1]):
        result = np.where(place.lifted(holds), data, result)
    return NamedArray(np.broadcast_to(result, [place.lengths[n] for n in place.order]), place.order)


class _IndexEvaluator:
    """The indices at which a view is evaluated: the axes made, and the further axes of its index arrays."""

    def __init__(self, op: View, args: Sequence[NamedArray], length: Length, line: str | None) -> None:
        self.args, self.length, self.line = args, length, line
        self.taken = [{n for n, _ in read.at} for read in op.reads]
        self.lengths: dict[str, int] = {}
        for array in args[len(op.reads) :]:
            self.lengths |= array.lengths()
        for array, taken in zip(args, self.taken, strict=False):
            self.lengths |= {n: v for n, v in array.lengths().items() if n not in taken}
        self.lengths |= {a.name: length(a.size) for a in op.index_axes if a.name not in self.lengths}
        indexed = dict.fromkeys([a.name for a in op.index_axes] + [n for a in args[len(op.reads) :] for n in a.names])
        self.places = tuple(indexed)
        self.order = (*indexed, *(n for n in self.lengths if n not in indexed))

    def value(self, e: Expr) -> Any:
        """The value of an expression at all indices: a number, or an array that broadcasts over them."""

        def leaf(v: Any) -> Any:
            if isinstance(v, tuple) and v[0] == "w":
                return np.asarray(self.args[v[1]].over(self.places))
            if isinstance(v, tuple) and v[0] == "i":
                return NamedArray(np.arange(self.lengths[v[1]]), (v[1],)).over(self.places)
            return self.length(v)

        return read_off(e, leaf, _join)

    def condition(self, condition: Cond, asked: Any) -> Any:
        """Where a condition holds. Raises SizeError where it has no value at an index that is `asked`."""
        sides = [self.value(e) for e in condition[1:]]
        for e, value in zip(condition[1:], sides, strict=True):
            if np.any(np.isnan(value) & asked):
                raise SizeError(f"{show(e)} divides by what is not positive: expected at least 1", self.line)
        return _COMPARE[condition[0]](*sides)

    def lifted(self, data: Any) -> Any:
        """Data over the indices, with axes of length 1 for the remaining axes of `order`."""
        more = len(self.order) - len(self.places)
        return np.reshape(data, (*np.shape(data), *[1] * more)) if np.ndim(data) else data

    def read(self, k: int, read: Read, holds: Any) -> Any:
        """Input `k` at all indices, as an array that broadcasts over `order`; arbitrary values where it is not
        selected.
        """
        array, at = self.args[k], dict(read.at)
        if not at:
            return array.over(self.order)
        lengths = array.lengths()
        own = [n for n in array.names if n in at or n in self.places]
        rest = [n for n in self.order if n in array.names and n not in own]
        indices = []
        for name in own:
            position = np.asarray(self.value(at.get(name, ("i", name))))
            inside = (position >= 0) & (position < lengths[name])
            wrong = ~inside & holds
            if np.any(wrong):
                self.refuse(name, at[name], lengths[name], position, wrong)
            indices.append(np.where(inside, position, 0).astype(np.intp))
        data = np.asarray(array.over((*own, *rest)))[tuple(np.broadcast_arrays(*indices))]
        if data.ndim == len(rest):  # positions that are the same at all indices
            data = data.reshape((*[1] * len(self.places), *data.shape))
        return NamedArray(data, (*self.places, *rest)).over(self.order)

    def refuse(self, axis: str, e: Expr, length: int, position: Any, wrong: Any) -> None:
        """Raises SizeError for a position out of range, at the first index where it is."""
        shape = np.shape(wrong)
        first = np.unravel_index(int(np.argmax(wrong)), shape)
        found = float(np.broadcast_to(position, shape)[first])
        where = ", ".join(f"{n} = {v}" for n, v in zip(self.places, first, strict=False))
        if np.isnan(found):
            raise SizeError(
                f"axis {axis!r} is read at {show(e)}{f' at {where}' if where else ''}, which divides by what is not "
                "positive: expected at least 1",
                self.line,
            )
        raise SizeError(
            f"axis {axis!r} is read at {show(e)}, which is {found:.0f}{f' at {where}' if where else ''}: expected 0 to "
            f"{length - 1}; with fill=, positions outside give that number",
            self.line,
        )


def quotient(a: Any, b: Any) -> Any:
    """⌊a/b⌋; NaN, for no value, where the divisor is not positive.

    >>> quotient(np.array([-1, 5]), 2)
    array([-1,  2])
    >>> quotient(np.array([-1, 5]), 0)
    array([nan, nan])
    """
    positive = np.greater(b, 0)
    whole = np.floor_divide(a, np.where(positive, b, 1))
    return whole if np.all(positive) else np.where(positive, whole, np.nan)


def _join(op: str, a: Any, b: Any) -> Any:
    return quotient(a, b) if op == "//" else a + b if op == "+" else a * b
