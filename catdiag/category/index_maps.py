"""Index maps: operations that compute no values, and read elements at other indices (reshapes, gathers, windows).

`Reindex` is about products and coproducts of axes. `View` reads at arbitrary index arithmetic. An expression is

- an integer, or a size (a symbol, or `("+", s, t)`, `("*", s, t)` of sizes);
- `("i", axis)`, the index of an axis of the result; `("w", k)`, the value of input k, an array of integers;
- `("+", e, f)`, `("*", e, f)`, `("//", e, f)`: the last rounds down, and has no value unless f is positive.

A condition is `("lt", e, f)`, `("le", e, f)` or `("eq", e, f)`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from catdiag.category.types import ArrayType, Axis, show, union
from catdiag.category.types import leaves as leaves
from catdiag.category.types import read_off as read_off
from catdiag.util.errors import AxisError, TypeMismatch

Expr: TypeAlias = "int | str | tuple[str, str] | tuple[str, int] | tuple[str, Expr, Expr]"
Cond: TypeAlias = "tuple[str, Expr, Expr]"

_SIGNS = {"lt": "<", "le": "≤", "eq": "="}


@dataclass(frozen=True)
class Reindex:
    """An isomorphism or inclusion of the rig of axes, for one product or coproduct `axis` and its parts.

    - `split`: an array over the product `(b g)` as one over `b` and `g`; `merge` is its inverse;
    - `slice`: the part of an array over the coproduct `x+y` that is over its part number `place`;
    - `concat`: arrays, one over each part, as one over the coproduct.
    """

    kind: str
    axis: Axis
    place: int = 0

    def removed_axes(self) -> tuple[tuple[Axis, ...], ...]:
        """The axes that it removes from each input."""
        if self.kind == "concat":
            return tuple((p,) for p in self.axis.parts)
        return (self.axis.parts,) if self.kind == "merge" else ((self.axis,),)

    def added_axes(self) -> tuple[Axis, ...]:
        """The axes that it adds to the output."""
        if self.kind == "slice":
            return (self.axis.parts[self.place],)
        return self.axis.parts if self.kind == "split" else (self.axis,)

    def touches(self, name: str) -> bool:
        """Whether an axis of that name is the product or coproduct, or a part of it."""
        return self.axis.name == name or self.axis.has_part(name)

    @property
    def name(self) -> str:
        """A short name for pictures and messages."""
        return f"{self.kind}[{self.axis}{f' → {self.added_axes()[0]}' if self.kind == 'slice' else ''}]"

    def rest(self, inputs: Sequence[ArrayType], line: str | None) -> list[Axis]:
        """The axes that it leaves as they are; raises AxisError where an input lacks a removed axis, or an axis would
        occur twice.
        """
        kind = "coproduct" if self.kind in ("slice", "concat") else "product"
        if self.kind not in ("split", "merge", "slice", "concat") or self.axis.kind != kind:
            raise AxisError(
                f"{self.kind}[{self.axis}]: axis {self.axis} is no {kind} of axes, as (b g) is a product and x+y a "
                "coproduct",
                line,
            )
        if not 0 <= self.place < len(self.axis.parts) or (self.place and self.kind != "slice"):
            raise AxisError(f"{self.kind}[{self.axis}]: axis {self.axis} has no part number {self.place}", line)
        if len(inputs) != len(self.removed_axes()):
            raise TypeMismatch(f"{self.name} has {len(inputs)} inputs: expected {len(self.removed_axes())}", line)
        kept = []
        for array, taken in zip(inputs, self.removed_axes(), strict=True):
            for axis in taken:
                own = array.axis(axis.name)
                if own is None or own.size != axis.size:
                    size = "" if own is None else f" of size {show(axis.size)}"
                    raise AxisError(f"{self.name} takes {array}, which lacks axis {axis.name!r}{size}", line)
            kept.append(_without(array, {a.name for a in taken}))
        return _remaining_axes(self.name, union(kept, line), self.added_axes(), line)


@dataclass(frozen=True)
class Read:
    """How an input is read: each axis in `at` at an expression, if all conditions in `where` hold."""

    at: tuple[tuple[str, Expr], ...] = ()
    where: tuple[Cond, ...] = ()


@dataclass(frozen=True)
class View:
    """An array over the axes `index_axes`, whose elements are read at index arithmetic in their indices.

    Input k is read as `reads[k]` says, for the first k whose conditions hold; the last read has none. An axis of the
    result that the input has too is read at the same index, unless `at` names it. All further axes are weaved. The
    inputs after the reads are arrays of integers that expressions may mention. Every read that is taken must be in
    range. `fits` does not affect the meaning: it bounds those new axes whose size nothing else determines, when the
    diagram is run.
    """

    index_axes: tuple[Axis, ...]
    reads: tuple[Read, ...]
    fits: tuple[Cond, ...] = ()

    def added_axes(self) -> tuple[Axis, ...]:
        """The axes that it adds to the output."""
        return self.index_axes

    def touches(self, name: str) -> bool:
        """Whether an axis of that name is added, or read at an expression."""
        return any(a.name == name for a in self.index_axes) or any(n == name for r in self.reads for n, _ in r.at)

    def reads_at(self, axis: str) -> bool:
        """Whether it reads at the index of an axis, or reads that axis at an index other than its own."""
        mentioned = {leaf for e in self.expressions() for leaf in leaves(e)}
        return ("i", axis) in mentioned or any(n == axis for read in self.reads for n, _ in read.at)

    @property
    def reverses(self) -> bool:
        """Whether its elements are those of one array, with whole axes in reverse order."""
        if len(self.reads) != 1 or self.reads[0].where or self.fits:
            return False
        at, own = dict(self.reads[0].at), {a.name: a.size for a in self.index_axes}
        return at.keys() == own.keys() and all(_is_last_but(at[name], name, size) for name, size in own.items())

    @property
    def name(self) -> str:
        """A short name for pictures and messages."""
        taken = dict.fromkeys(n for r in self.reads for n, _ in r.at)
        return f"view[{' '.join(taken)} → {' '.join(a.name for a in self.index_axes)}]".replace(" ]", "]")

    def rest(self, inputs: Sequence[ArrayType], line: str | None) -> list[Axis]:
        """The axes that it leaves as they are; raises AxisError or TypeMismatch for inputs that it cannot read."""
        count = len(self.reads)
        if not 0 < count <= len(inputs) or self.reads[-1].where:
            raise TypeMismatch(
                f"{self.name} has {count} reads of {len(inputs)} inputs: expected one input for each read, then index "
                "arrays, and a last read without a condition",
                line,
            )
        names = {a.name for a in self.index_axes}
        made = {a.name: a.size for a in self.index_axes}
        for e in self.expressions():
            for leaf in leaves(e):
                if not isinstance(leaf, tuple):
                    continue
                if leaf[0] == "i" and leaf[1] not in names:
                    raise AxisError(f"{self.name} reads at the index of axis {leaf[1]!r}, which it does not make", line)
                if leaf[0] == "w" and not (
                    isinstance(leaf[1], int) and count <= leaf[1] < len(inputs) and inputs[leaf[1]].element == "int"
                ):
                    raise TypeMismatch(f"{self.name} reads at input {leaf[1]}, which is no array of integers", line)
        kept = []
        for k, array in enumerate(inputs):
            taken = [n for n, _ in self.reads[k].at] if k < count else []
            lacking = next((n for n in taken if array.axis(n) is None or taken.count(n) > 1), None)
            if lacking is not None:
                raise AxisError(f"{self.name} takes {array}, which lacks axis {lacking!r} or gives it twice", line)
            for axis in array.axes:
                if axis.name in names and axis.name not in taken and axis.size != made[axis.name]:
                    raise AxisError(
                        f"{self.name} makes axis {axis.name!r} of size {show(made[axis.name])}, and {array} has "
                        f"it with size {show(axis.size)}: rename one of the two",
                        line,
                    )
            kept.append(_without(array, {*taken, *names}))
        return _remaining_axes(self.name, union(kept, line), self.index_axes, line)

    def expressions(self) -> list[Expr]:
        """All expressions of positions and conditions."""
        found: list[Expr] = [e for read in self.reads for _, e in read.at]
        for _, left, right in (*(c for read in self.reads for c in read.where), *self.fits):
            found += (left, right)
        return found

    def trusts_inputs(self) -> bool:
        """Whether it gathers at an index array that has to be in range."""
        return bool(View((), self.reads[-1:]).arrays())

    def arrays(self) -> set[int]:
        """The index arrays, by their places among the inputs."""
        expressions = [e for read in self.reads for _, e in read.at]
        return {leaf[1] for e in expressions for leaf in leaves(e) if isinstance(leaf, tuple) and leaf[0] == "w"}


def _without(array: ArrayType, names: set[str]) -> ArrayType:
    return ArrayType(tuple(a for a in array.axes if a.name not in names), array.element)


def _remaining_axes(what: str, rest: tuple[Axis, ...], given: tuple[Axis, ...], line: str | None) -> list[Axis]:
    """The axes of `rest`, if none of them is added again; raises AxisError."""
    names = [a.name for a in given]
    twice = next((n for n in names if names.count(n) > 1 or any(n == a.name for a in rest)), None)
    if twice is not None:
        raise AxisError(f"{what} would give an array axis {twice!r} twice: rename one of the two first", line)
    return list(rest)


# -- expressions ------------------------------------------------------------------------------------


def _is_last_but(e: Expr, axis: str, size: Any) -> bool:
    """Whether an expression is n - 1 - i, where i is the index of an axis of size n."""
    last, back = plus(size, -1), times(-1, ("i", axis))
    return e in (("+", last, back), ("+", back, last))


def plus(a: Expr, b: Expr) -> Expr:
    """a + b, with integer constants combined.

    >>> plus(plus("x", 3), -3), plus(("i", "y"), 1)
    ('x', ('+', ('i', 'y'), 1))
    """
    if isinstance(a, int) and isinstance(b, int):
        return a + b
    if isinstance(a, int):
        a, b = b, a
    if isinstance(b, int):
        if b == 0:
            return a
        if isinstance(a, tuple) and a[0] == "+" and len(a) == 3 and isinstance(a[2], int):
            return plus(a[1], a[2] + b)
    return ("+", a, b)


def times(a: Expr, b: Expr) -> Expr:
    """a · b, with integer constants combined.

    >>> times(times(2, "x"), 3), times(1, ("i", "y"))
    (('*', 6, 'x'), ('i', 'y'))
    """
    if isinstance(a, int) and isinstance(b, int):
        return a * b
    if isinstance(b, int):
        a, b = b, a
    if isinstance(a, int):
        if a == 1 or (a == 0 and always(b)):
            return b if a else 0
        if isinstance(b, tuple) and b[0] == "*" and len(b) == 3 and isinstance(b[1], int):
            return times(a * b[1], b[2])
    return ("*", a, b)


def divided(a: Expr, b: Expr) -> Expr:
    """⌊a / b⌋; an expression without a value stays as it is.

    >>> divided(7, 2), divided(("i", "y"), 1), divided(("i", "y"), 2), times(0, divided(7, "x"))
    (3, ('i', 'y'), ('//', ('i', 'y'), 2), ('*', 0, ('//', 7, 'x')))
    """
    if b == 1:
        return a
    if isinstance(a, int) and isinstance(b, int) and b > 0:
        return a // b
    return ("//", a, b)


def always(e: Expr) -> bool:
    """Whether an expression has a value for all sizes: it divides only by positive integers."""
    stack: list[Any] = [e]
    while stack:
        item = stack.pop()
        if isinstance(item, tuple) and len(item) == 3:
            if item[0] == "//" and not (isinstance(item[2], int) and item[2] > 0):
                return False
            stack += item[1:]
    return True


def replaced(e: Expr, put: Mapping[Any, Expr]) -> Expr:
    """The expression with leaves substituted.

    >>> replaced(("+", ("i", "y"), 1), {("i", "y"): 4})
    5
    """
    joins: dict[str, Callable[[Expr, Expr], Expr]] = {"+": plus, "*": times, "//": divided}

    def leaf(v: Any) -> Expr:
        return put.get(v, v)

    return read_off(e, leaf, lambda op, a, b: joins[op](a, b))


def natural(e: Expr) -> bool:
    """Whether an expression is nonnegative by its form: made of sizes, indices and natural numbers.

    >>> natural(("+", ("i", "y"), 1)), natural(("+", ("i", "y"), -1))
    (True, False)
    """
    return all(leaf >= 0 if isinstance(leaf, int) else isinstance(leaf, str) or leaf[0] == "i" for leaf in leaves(e))


def bounds(e: Expr, leaf: Callable[[Any], tuple[int, int]]) -> tuple[int, int]:
    """The range of an expression (interval arithmetic), given those of its leaves.

    Where a leaf occurs twice, the ends of the range may not be attained.

    >>> bounds(("+", ("*", -2, ("i", "y")), 7), lambda v: (v, v) if isinstance(v, int) else (0, 3))
    (1, 7)
    """

    def join(op: str, a: tuple[int, int], b: tuple[int, int]) -> tuple[int, int]:
        if op == "+":
            return a[0] + b[0], a[1] + b[1]
        if op == "*":
            ends = [x * y for x in a for y in b]
        else:
            ends = [x // y for x in a for y in b if y > 0]
            if b[0] <= 0:
                ends += [0, *(a if b[1] > 0 else ())]
        return min(ends), max(ends)

    return read_off(e, leaf, join)


def show_condition(condition: Cond) -> str:
    """A condition as text.

    >>> show_condition(("lt", ("i", "y"), "x"))
    'y < x'
    """
    return f"{show(condition[1])} {_SIGNS[condition[0]]} {show(condition[2])}"
