"""Reads at computed positions under `@cd.algorithm`: gathers, windows, strides, slices, shifts.

`reindex` is the general function: new axes, and for each old axis the position at which it is read, as arithmetic in
the positions along the new axes. The others are defined by it, or by the index maps of `reshape`. None of them computes
values. A position outside of the array is an error when the diagram is run, and a definedness condition of theorems,
unless `fill` gives the value there.
"""

from __future__ import annotations

import builtins
import inspect
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

from catdiag.category.index_maps import Cond, Expr, Read, View, bounds, leaves, natural, plus, replaced, times
from catdiag.category.types import Axis, Size, show
from catdiag.frontend import reshape
from catdiag.frontend.index_expressions import expression
from catdiag.frontend.reshape import axis_named, axis_of, length, new_axes, put, term
from catdiag.frontend.signature import parse_axes
from catdiag.frontend.tracing import Operand, Trace, Traced, running
from catdiag.util.errors import AxisError, SignatureError, TypeMismatch

Position: TypeAlias = "int | Traced | Callable[..., Any]"
"""An integer, an array of integers, or a function from positions along new axes to one of these."""
Length: TypeAlias = "int | str | Traced"
"""An integer, the name of an axis for its size, or arithmetic with sizes, as in `cd.size("x") - 1`."""


def reindex(array: Operand, axes: str, /, *, fill: Operand | None = None, **reads: Position) -> Traced:
    """An array over new axes, read at index arithmetic: `reindex(a, "y k", x=lambda y, k: 2*y + k - 1, fill=0)`.

    Each old axis that `reads` names is read at the position that its function gives. The parameters of the function are
    axes: new ones, or axes of other arrays. It may use `+`, `-`, `*`, `//`, `%`, `cd.size` and arrays of integers. An
    axis of the array that is also a new axis, and is not named, is read at the same position. All other axes stay. With
    `fill`, elements outside the array are that number, and being in range is no condition.

    A new axis has the size of an existing axis of that name, or the size that is written (`y=5`). Otherwise its size is
    free: a run takes the largest one for which all positions are in range.

    >>> import catdiag as cd
    >>> cd.algorithm("x")(lambda a: cd.reindex(a, "y k=2", x=lambda y, k: 2*y + k))([1, 2, 3, 4, 5]).tolist()
    [[1.0, 2.0], [3.0, 4.0]]
    >>> diagonal = cd.algorithm("q x")(lambda a: cd.reindex(a, "q", x=lambda q: q))
    >>> diagonal([[1, 2], [3, 4]]).tolist()
    [1.0, 4.0]

    Raises AxisError for an axis that the array does not have, and for a position that is certainly out of range;
    TypeMismatch for a position that is no integer.
    """
    trace = running()
    return indexed(trace, trace.lift(array), new_axes(trace, axes), reads, fill)


def indexed(
    trace: Trace,
    array: Traced,
    made: tuple[Axis, ...],
    positions: Mapping[str, Position],
    fill: Operand | None = None,
    fits: Callable[..., tuple[Any, Any]] | None = None,
) -> Traced:
    """The array over the axes `made`, with its axes read at the positions. If `fits` gives (a, b), then a < b bounds
    the sizes. Axes of the array that are read at the same position, and at which no position depends, are weaved.
    Raises AxisError for an axis that the array does not have."""
    names = [a.name for a in made]
    trace.learn(made)
    arrays: dict[int, Traced] = {}
    at: dict[str, Expr] = {}
    for name, position in positions.items():
        if array.type.axis(name) is None:
            have = " ".join(array.axes) or "no axes"
            raise AxisError(f"cannot read axis {name!r} at a position: the array has {have}")
        at[name] = _expression(trace, position, made, name, arrays)
    given = [array]
    read = Read(tuple(at.items()))
    reads: tuple[Read, ...] = (read,)
    if fill is not None:
        where = tuple(c for name, e in at.items() for c in _inside(e, axis_of(array, name), made))
        if where:
            other = trace.lift(fill, infinite=True, element=array.type.element)
            given = [array, other] if other.type.element == "bool" else [trace.numeric(array), other]
            reads = (Read(read.at, where), Read())
    else:
        for name, e in at.items():
            _check_range(e, axis_of(array, name), made)
    limits: tuple[Cond, ...] = ()
    if fits is not None:
        low, high = (_expression(trace, p, made, "fits", arrays) for p in fits(*(trace.index(a) for a in made)))
        limits = (("lt", low, high),)
    number: dict[Any, Expr] = {("w", w): ("w", len(given) + k) for k, w in enumerate(arrays)}
    mentioned = {leaf for e in (*at.values(), *(e for c in limits for e in c[1:])) for leaf in leaves(e)}
    view = View(
        tuple(a for a in made if array.type.axis(a.name) != a or a.name in at or ("i", a.name) in mentioned),
        tuple(
            Read(
                tuple((n, replaced(e, number)) for n, e in r.at),
                tuple((c, replaced(e, number), replaced(f, number)) for c, e, f in r.where),
            )
            for r in reads
        ),
        limits,
    )
    inputs = [*given, *arrays.values()]
    result = put(trace, view, inputs)
    return trace.rename(result, {}, [axis_of(result, n) for n in _layout(array, at, names, result)])


def _layout(array: Traced, at: Mapping[str, Expr], names: list[str], result: Traced) -> list[str]:
    """The result's axes: new ones in place of the first axis that is read or replaced, the others in their order."""
    before: list[str] = []
    for name in array.axes:
        if name in at or name in names:
            break
        before.append(name)
    else:
        before = []
    after = [n for n in (*array.axes, *result.axes) if n in result.axes and n not in names and n not in before]
    return [*before, *names, *dict.fromkeys(after)]


def _expression(trace: Trace, position: Position, made: tuple[Axis, ...], name: str, arrays: dict[int, Traced]) -> Expr:
    """The expression of a position at the indices of the axes `made`; index arrays that it reads are added
    to `arrays`.
    """
    value = _called(trace, position, made, name) if callable(position) else position
    if isinstance(value, bool) or not isinstance(value, (int, Traced)):
        raise TypeMismatch(
            f"axis {name!r} is read at {value!r}: expected a position, an integer or an array of integers"
        )
    lifted = trace.lift(value, element="int")
    if lifted.type.element != "int":
        raise TypeMismatch(
            f"axis {name!r} is read at an array {lifted} of {lifted.type.element} numbers: expected integers; declare "
            'an input as "int[y]", and divide positions with //'
        )
    found = expression(trace.maker, lifted._wire, [a.name for a in made])
    for leaf in leaves(found):
        if isinstance(leaf, tuple) and leaf[0] == "w":
            arrays.setdefault(leaf[1], trace.array(leaf[1]))
    return found


def _called(trace: Trace, function: Callable[..., Any], made: tuple[Axis, ...], name: str) -> Any:
    """A position function applied to the positions along the axes that its parameters are named after."""
    parameters = list(inspect.signature(function).parameters)
    own = {a.name: a for a in made}
    known = [own.get(p) or trace.axes.get(p) for p in parameters]
    if None in known and len(parameters) == len(made):
        known = list(made)
    found = [a for a in known if a is not None]
    if len(found) != len(parameters):
        raise SignatureError(
            f"the position of axis {name!r} is a function of {', '.join(parameters)}: expected axes as parameters, of "
            f"the new ones {', '.join(own) or '(none)'}"
        )
    return function(*(trace.index(a) for a in found))


def _inside(e: Expr, axis: Axis, made: tuple[Axis, ...]) -> list[Cond]:
    """The conditions under which a position is in range, without those that always hold."""
    if any(e == ("i", a.name) and a.size == axis.size for a in made):
        return []
    return [*([] if natural(e) else [("le", 0, e)]), ("lt", e, axis.size)]


def _check_range(e: Expr, axis: Axis, made: tuple[Axis, ...]) -> None:
    """Raises AxisError for a position that is out of range at some index; only for axes whose sizes are numbers."""
    sizes = {a.name: a.size for a in made}
    if not isinstance(axis.size, int) or any(
        isinstance(leaf, str) or (isinstance(leaf, tuple) and not (leaf[0] == "i" and isinstance(sizes[leaf[1]], int)))
        for leaf in leaves(e)
    ):
        return

    def values(leaf: Any) -> tuple[int, int]:
        return (leaf, leaf) if isinstance(leaf, int) else (0, int(sizes[leaf[1]]) - 1)  # type: ignore[arg-type]

    ends = bounds(e, values)
    once = len({leaf for leaf in leaves(e) if isinstance(leaf, tuple)}) == builtins.sum(
        isinstance(leaf, tuple) for leaf in leaves(e)
    )
    if once and not 0 <= ends[0] <= ends[1] < axis.size:
        raise AxisError(
            f"axis {axis.name!r} of size {axis.size} is read at {show(e)}, from {ends[0]} to {ends[1]}: expected 0 to "
            f"{axis.size - 1}; with fill= what is outside is that number"
        )


# -- lengths ------------------------------------------------------------------------------------------------


def _number(trace: Trace, value: Length, what: str) -> Traced:
    """A length as an integer scalar."""
    if isinstance(value, str):
        axis = length(trace, value, what)
        return trace.lift(0, element="int") if axis is None else trace.size(axis.size)
    return trace.lift(value, element="int")


# -- special cases --------------------------------------------------------------------------------------------


def reverse(array: Operand, axes: str) -> Traced:
    """The array in reverse order along one or several axes.

    >>> import catdiag as cd
    >>> cd.algorithm("x")(lambda a: cd.reverse(a, "x"))([1, 2, 3]).tolist()
    [3.0, 2.0, 1.0]

    Raises AxisError for an axis that the array does not have.
    """
    trace = running()
    made = trace.lift(array)
    for axis in parse_axes(axes):
        own = axis_named(made, axis.name, "reverse")
        last = trace.size(own.size) - 1
        made = indexed(trace, made, (own,), {own.name: last - trace.index(own)})
    return made


def shift(array: Operand, axis: str, by: Length, fill: Operand = 0) -> Traced:
    """The array shifted along an axis: element i is the old element i − `by`, or `fill` where there is none.

    >>> import catdiag as cd
    >>> cd.algorithm("x")(lambda a: cd.shift(a, "x", 1))([1, 2, 3]).tolist()
    [0.0, 1.0, 2.0]
    >>> cd.algorithm("x")(lambda a: cd.shift(a, "x", -2, fill=9))([1, 2, 3]).tolist()
    [3.0, 9.0, 9.0]

    Raises AxisError for an axis that the array does not have.
    """
    trace = running()
    given = trace.lift(array)
    own = axis_named(given, axis, "shift")
    return indexed(trace, given, (own,), {own.name: trace.index(own) - _number(trace, by, "the distance")}, fill)


def window(
    array: Operand,
    axis: str,
    axes: str,
    stride: Length = 1,
    dilation: Length = 1,
    pad: tuple[int | str, int | str] = (0, 0),
    fill: Operand = 0,
) -> Traced:
    """Sliding windows along an axis: over new axes y and k, read at `y·stride + k·dilation − pad[0]`.

    `axes` names the two, `"y k"` or `"y k=3"`. With padding, they are windows of the padded array, `cd.pad` with
    `fill`. The number of windows, if nothing else gives it, is the largest without a window past the end.

    >>> import catdiag as cd
    >>> cd.algorithm("x")(lambda a: cd.window(a, "x", "y k=2", stride=2))([1, 2, 3, 4, 5]).tolist()
    [[1.0, 2.0], [3.0, 4.0]]
    >>> cd.algorithm("x")(lambda a: cd.window(a, "x", "y k=3", pad=(1, 1)))([1, 2, 3]).tolist()
    [[0.0, 1.0, 2.0], [1.0, 2.0, 3.0], [2.0, 3.0, 0.0]]

    Raises AxisError for an axis that the array does not have, SignatureError unless there are two new axes.
    """
    trace = running()
    given = trace.lift(array)
    own = axis_named(given, axis, "take windows along")
    made = new_axes(trace, axes)
    if len(made) != 2:
        raise SignatureError(
            f'cd.window takes two new axes, where a window starts and what is in it, as in "y k=3", not {axes!r}'
        )
    trace.learn(made)
    place = given.axes.index(own.name)
    given = reshape.pad(given, own.name, *pad, value=fill)
    step, apart = _number(trace, stride, "the stride"), _number(trace, dilation, "the dilation")
    y, k = (trace.index(a) for a in made)
    return indexed(trace, given, made, {given.axes[place]: y * step + k * apart})


def stride(array: Operand, axis: str, new: str, step: Length, start: Length = 0) -> Traced:
    """Every `step`-th element along an axis, from `start` on: over a new axis y, read at `start + y·step`.

    >>> import catdiag as cd
    >>> cd.algorithm("x")(lambda a: cd.stride(a, "x", "y", 2, start=1))([1, 2, 3, 4]).tolist()
    [2.0, 4.0]

    Raises AxisError for an axis that the array does not have.
    """
    return slice(array, axis, start, step=step, into=new)


def slice(
    array: Operand,
    axis: str,
    start: Length,
    stop: Length | None = None,
    step: Length = 1,
    into: str | None = None,
) -> Traced:
    """A part of an array along an axis.

    - `slice(a, "x+y", "y")`: the part over one term of a coproduct axis.
    - `slice(a, "x", start, stop, step, into="y")`: as `a[start:stop:step]`, over a new axis. Bounds are integers
      (negative ones count from the end), names of axes, or arithmetic with sizes. The size of `y` is the number of
      elements if that is a known sum of sizes; otherwise it is free, and every element must be in range. `into` may be
      left out if the number of elements is an integer, which then names the axis.

    >>> import catdiag as cd
    >>> cd.algorithm("x+y")(lambda a: cd.slice(a, "x+y", "y")).run([1, 2, 3], sizes={"x": 1}).tolist()
    [2.0, 3.0]
    >>> cd.algorithm("x")(lambda a: cd.slice(a, "x", 1, -1, into="y"))([1, 2, 3, 4]).tolist()
    [2.0, 3.0]

    Raises AxisError for an axis or term that does not exist, for elements that are certainly out of range, and where
    `into` is needed.
    """
    if isinstance(start, str) and stop is None and into is None:
        return term(array, axis, start)
    trace = running()
    given = trace.lift(array)
    own = axis_named(given, axis, "slice")
    end = trace.size(own.size)
    first, last = (_bound(trace, v, end) for v in (start, stop))
    by = _number(trace, step, "the step")
    count = _difference(trace, first, last, by)
    made = _sliced(trace, into, count)
    if count is not None and made.size != count:
        raise AxisError(
            f"axis {made.name!r} has size {show(made.size)}, and {show(count)} elements are taken: expected a new name"
        )
    trace.learn([made])

    def place(y: Traced) -> Traced:
        return first + y * by

    fits = None if stop is None else lambda y: (place(y), last)
    return indexed(trace, given, (made,), {own.name: place(trace.index(made))}, fits=fits)


def _bound(trace: Trace, value: Length | None, end: Traced) -> Traced:
    """A bound of a slice as an integer scalar; None is the default, and negative integers count from `end`."""
    if value is None:
        return end
    return end + value if isinstance(value, int) and value < 0 else _number(trace, value, "a bound of cd.slice")


def _sliced(trace: Trace, into: str | None, count: Size | None) -> Axis:
    """The new axis of a slice with `count` elements. Raises SignatureError or AxisError where it needs a name."""
    if into is None:
        if not isinstance(count, int):
            raise AxisError('cd.slice needs a name for the new axis, as in cd.slice(a, "x", 1, -1, into="y")')
        return Axis(str(count), count)
    made = new_axes(trace, into)
    if len(made) != 1:
        raise SignatureError(f"cd.slice takes one new axis, not {into!r}")
    known = made[0].size != made[0].name or trace.settled(made[0].name) is not None
    return made[0] if known or count is None else Axis(made[0].name, count)


def _difference(trace: Trace, first: Traced, last: Traced, by: Traced) -> Size | None:
    """The number of elements between two bounds, if it is an integer or a sum of sizes; else None."""
    low, high, step = (expression(trace.maker, v._wire, ()) for v in (first, last, by))
    terms: dict[Any, int] = {}
    stack: list[tuple[Any, int]] = [(high, 1), (low, -1)]
    while stack:
        e, sign = stack.pop()
        if isinstance(e, tuple) and e[0] == "+" and len(e) == 3:
            stack += [(e[1], sign), (e[2], sign)]
        elif isinstance(e, tuple) and e[0] == "*" and isinstance(e[1], int):
            stack.append((e[2], sign * e[1]))
        elif isinstance(e, int):
            terms[1] = terms.get(1, 0) + sign * e
        else:
            terms[e] = terms.get(e, 0) + sign
    rest = {e: n for e, n in terms.items() if n and e != 1}
    number = terms.get(1, 0)
    if not rest and isinstance(step, int) and step > 0:
        count = -(-number // step)
        if count < 1:
            raise AxisError(f"cd.slice from {show(low)} to {show(high)} takes no element: expected at least one")
        return count
    if step != 1 or number < 0 or any(n < 0 for n in rest.values()) or not all(map(_is_size, rest)):
        return None
    total: Expr = number
    for e, n in rest.items():
        total = plus(times(n, e), total)
    return total  # type: ignore[return-value]


def _is_size(e: Expr) -> bool:
    return all(isinstance(leaf, (int, str)) for leaf in leaves(e)) and natural(e) and "//" not in str(e)


def gather(array: Operand, axis: str, indices: Operand, fill: Operand | None = None) -> Traced:
    """The elements at positions along an axis that an array of integers holds: `gather(table, "v", tokens)`.

    The result has the axes of the indices in place of the axis. An axis that both arrays have is read at the same
    position in both. With `fill`, positions outside the array give that number.

    >>> import catdiag as cd
    >>> embed = cd.algorithm("v d, int[t]")(lambda table, tokens: cd.gather(table, "v", tokens))
    >>> embed([[1, 2], [3, 4]], [1, 1, 0]).tolist()
    [[3.0, 4.0], [3.0, 4.0], [1.0, 2.0]]

    Raises AxisError for an axis that the array does not have, TypeMismatch for indices that are no integers.
    """
    trace = running()
    given = trace.lift(array)
    own = axis_named(given, axis, "gather along")
    at = trace.lift(indices, element="int")
    new = [n for n in at.axes if n not in given.axes or n == own.name]
    result = indexed(trace, given, (), {own.name: at}, fill)
    place = given.axes.index(own.name)
    layout = [*given.axes[:place], *new, *given.axes[place + 1 :]]
    return trace.rename(result, {}, [axis_of(result, n) for n in layout])
