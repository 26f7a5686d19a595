"""Reshaping under `@cd.algorithm`: axes transposed, split, merged, sliced, concatenated, repeated, broadcast.

A product axis `(b g)` has `b` as its slow index and `g` as its fast one. A coproduct axis `x+y` has the indices of `x`,
then those of `y`. All of these are index maps of the rig of axes: they compute no values, and read elements at other
indices.
"""

from __future__ import annotations

from collections.abc import Sequence

from catdiag.category.index_maps import Read, Reindex, View
from catdiag.category.ops import reindex_box
from catdiag.category.types import ArrayType, Axis, coproduct, product
from catdiag.frontend.array_methods import averaged, reduced
from catdiag.frontend.signature import parse, parse_axes
from catdiag.frontend.tracing import Operand, Trace, Traced, running
from catdiag.util.errors import AxisError, SignatureError, TypeMismatch


def rearrange(array: Operand, pattern: str, **lengths: int) -> Traced:
    """The array with its axes transposed, product axes split, and axes merged into products (as in einops).

    >>> import catdiag as cd
    >>> str(cd.algorithm("(b g) d")(lambda a: rearrange(a, "(b g) d -> g b d")).cod)
    '[g b d]'
    >>> cd.algorithm("b g")(lambda a: rearrange(a, "b g -> (g b)"))([[1, 2, 3], [4, 5, 6]]).tolist()
    [1.0, 4.0, 2.0, 5.0, 3.0, 6.0]

    An axis `1` may be added or removed. Axes have their sizes already: `lengths`, as in einops' `h=3`, are refused with
    what to write instead. Raises AxisError where the two sides or the array do not have the same axes, or
    an array would have an axis twice; SignatureError for a pattern that does not parse.
    """
    trace = running()
    made = trace.lift(array)
    if lengths:
        name, length = next(iter(lengths.items()))
        raise SignatureError(
            f"cd.rearrange is given {name}={length}: axes have their sizes already; declare the input with it, as in "
            f'"({name}={length} d)"'
        )
    left, right = _sides(pattern, "rearrange", "q d -> d q")
    if set(made.axes) != set(left.names):
        raise AxisError(
            f"the array has axes [{' '.join(made.axes)}], pattern {pattern!r} says [{' '.join(left.names)}]"
        )
    _same_parts(left, right, pattern)
    for name in left.names:
        own = made.type.axis(name)
        if own is not None and own.kind == "product" and name not in right.names:
            made = put(trace, Reindex("split", own), [made])
    if "1" in made.axes and "1" not in _factors(right):
        made = put(trace, View((), (Read((("1", 0),)),)), [made])
    for wanted in right.axes:
        if "1" in _factors(ArrayType((wanted,))) - _factors(left) - set(made.axes):
            made = trace.rename(made, {}, (*made.type.axes, Axis("1", 1)))
        if wanted.kind == "product" and wanted.name not in made.axes:
            made = merged(trace, made, [axis_of(made, p.name) for p in wanted.parts])
    return trace.rename(made, {}, [axis_of(made, n) for n in right.names])


def reduce(array: Operand, pattern: str, reduction: str) -> Traced:
    """The array reduced over the axes that only the left side of a pattern has, and rearranged (as in einops).

    `reduction` is "sum", "mean", "max", "min", "prod", "any" or "all".

    >>> import catdiag as cd
    >>> pooled = cd.algorithm("b (h p)")(lambda a: cd.reduce(a, "b (h p) -> h b", "max"))
    >>> str(pooled.cod), pooled.run([[1, 5, 2, 3], [4, 0, 7, 6]], sizes={"p": 2}).tolist()
    ('[h b]', [[5.0, 4.0], [3.0, 7.0]])

    Raises what `rearrange` does, and SignatureError for another reduction.
    """
    trace = running()
    if reduction not in (*_REDUCTIONS, "mean"):
        raise SignatureError(f"cd.reduce by {reduction!r}: expected one of {', '.join((*_REDUCTIONS, 'mean'))}")
    left, right = _sides(pattern, "reduce", "q (x k) -> q x")
    kept = _factors(right)
    flat: list[str] = []
    for axis in left.axes:
        whole = axis.kind != "product" or axis.name in right.names
        flat += [axis.name] if whole else [part.name for part in axis.parts]
    made = rearrange(array, f"{' '.join(left.names)} -> {' '.join(flat)}")
    lost = " ".join(name for name in flat if name not in kept)
    if lost:
        made = averaged(trace, made, lost) if reduction == "mean" else reduced(trace, reduction, made, lost)
    return rearrange(made, f"{' '.join(made.axes)} -> {' '.join(right.names)}")


_REDUCTIONS = ("sum", "max", "min", "prod", "any", "all")


def _sides(pattern: str, what: str, example: str) -> tuple[ArrayType, ArrayType]:
    """The two sides of a pattern. Raises SignatureError where there are not two."""
    parsed = parse(pattern)
    if parsed.outputs is None or len(parsed.outputs) != 1 or len(parsed.inputs) != 1:
        raise SignatureError(f'cd.{what} takes a pattern with one array on each side, "{example}", not {pattern!r}')
    return parsed.inputs[0], parsed.outputs[0]


def _factors(ty: ArrayType) -> set[str]:
    """The names of the axes and of the factors of product axes."""
    return {a.name for axis in ty.axes for a in (axis, *(axis.parts if axis.kind == "product" else ()))}


def _same_parts(left: ArrayType, right: ArrayType, pattern: str) -> None:
    """Raises AxisError unless both sides have the same factors, each once, except for axes `1`."""
    sides = [
        [p.name for axis in ty.axes for p in (axis.parts if axis.kind == "product" else (axis,))]
        for ty in (left, right)
    ]
    for names in sides:
        twice = next((n for n in names if names.count(n) > 1), None)
        if twice is not None:
            raise AxisError(f"axis {twice!r} occurs twice on one side of {pattern!r}: rename one of the two")
    lost = [n for n in sides[0] if n not in sides[1] and n != "1"]
    more = [n for n in sides[1] if n not in sides[0] and n != "1"]
    if lost or more:
        raise AxisError(
            f"the sides of {pattern!r} have different axes ({', '.join([*lost, *more])} on one only): cd.rearrange "
            "transposes, splits and merges; cd.reduce takes the maximum, say, over an axis to lose it"
        )


def split(array: Operand, axis: str) -> tuple[Traced, ...]:
    """The parts of an array over a coproduct axis, one for each term: `split(a, "x+y")`.

    >>> import catdiag as cd
    >>> f = cd.algorithm("x+y")(lambda a: cd.split(a, "x+y"))
    >>> str(f.cod), [v.tolist() for v in f.run([1, 2, 3], sizes={"x": 1})]
    ('[x] @ [y]', [[1.0], [2.0, 3.0]])

    Raises AxisError for an axis that the array does not have or that is no coproduct.
    """
    trace = running()
    given = trace.lift(array)
    whole = _coproduct(given, axis, "split")
    return tuple(put(trace, Reindex("slice", whole, k), [given]) for k in range(len(whole.parts)))


def term(array: Operand, axis: str, wanted: str) -> Traced:
    """The part of an array over one term of a coproduct axis: `term(a, "x+y", "y")`; also given by `cd.slice`.

    Raises AxisError for an axis that the array does not have or that is no coproduct, and for a term that it does not
    have exactly once.
    """
    trace = running()
    given = trace.lift(array)
    whole = _coproduct(given, axis, "slice")
    named = parse_axes(wanted)
    places = [k for k, p in enumerate(whole.parts) if [a.name for a in named] == [p.name]]
    if len(places) != 1:
        raise AxisError(
            f"{wanted!r} is {len(places)} of the terms of {whole}: expected one of "
            + ", ".join(p.name for p in whole.parts)
            + ("; cd.split gives all of them" if places else "")
        )
    return put(trace, Reindex("slice", whole, places[0]), [given])


def concat(arrays: Sequence[Operand], axis: str) -> Traced:
    """The `arrays` concatenated along a coproduct axis: `concat([a, b], "x+y")`, with `a` over `x` and `b` over `y`.

    An array is broadcast along axes that only the others have.

    >>> import catdiag as cd
    >>> cd.algorithm("x, y")(lambda a, b: cd.concat([b, a], "y+x"))([1, 2], [3]).tolist()
    [3.0, 1.0, 2.0]

    Raises AxisError for an array without its term, TypeMismatch unless there is one array for each term.
    """
    trace = running()
    whole = parse_axes(axis)
    if len(whole) != 1 or whole[0].kind != "coproduct":
        raise AxisError(f"cannot concatenate along {axis!r}: expected a coproduct of axes, such as 'x+y'")
    if not isinstance(arrays, (list, tuple)) or len(arrays) != len(whole[0].parts):
        count = len(arrays) if isinstance(arrays, (list, tuple)) else 1
        raise TypeMismatch(f"{axis!r} has {len(whole[0].parts)} terms and {count} arrays were given, in a list")
    given = [trace.lift(a, infinite=True) for a in arrays]
    parts = []
    for k, (a, part) in enumerate(zip(given, whole[0].parts, strict=True)):
        own = a.type.axis(part.name)
        if own is None:
            have = " ".join(a.axes) or "no axes"
            raise AxisError(f"array {k} to be concatenated along {axis!r} lacks axis {part.name!r}: it has {have}")
        parts.append(own)
    return joined(trace, given, parts)


def pad(array: Operand, axis: str, low: int | str = 0, high: int | str = 0, value: Operand = 0) -> Traced:
    """The array padded with `low` elements before an axis and `high` after it, all equal to `value`.

    `low` and `high` are integers, or names of axes for their sizes. The result has the coproduct axis `low+x+high`,
    without ends of length 0: it is a concatenation.

    >>> import catdiag as cd
    >>> padded = cd.algorithm("x")(lambda a: cd.pad(a, "x", 1, 2))
    >>> str(padded.cod), padded([5, 6]).tolist()
    ('[1+x+2]', [0.0, 5.0, 6.0, 0.0, 0.0])

    Raises AxisError for an axis that the array does not have, and for a negative length.
    """
    trace = running()
    given = trace.lift(array)
    own = axis_named(given, axis, "pad")
    ends = [length(trace, n, f"{side} of cd.pad") for n, side in ((low, "low"), (high, "high"))]
    filling = trace.lift(value, infinite=True, element=given.type.element)
    if given.type.element == "bool" and filling.type.element != "bool":
        given = trace.numeric(given)
    parts = [a for a in (ends[0], own, ends[1]) if a is not None]
    if len(parts) == 1:
        return given
    arrays = [
        given if k == (ends[0] is not None) else trace.rename(filling, {}, (*filling.type.axes, a))
        for k, a in enumerate(parts)
    ]
    made = joined(trace, arrays, parts)
    names = [n if n != own.name else coproduct(*parts).name for n in given.axes]
    return trace.rename(made, {}, [axis_of(made, n) for n in dict.fromkeys([*names, *made.axes])])


def broadcast(array: Operand, axes: str) -> Traced:
    """The array over exactly these axes, in this order, repeated along those that it does not have. Raises AxisError
    where an axis of the array is left out.

    >>> import catdiag as cd
    >>> cd.algorithm("x")(lambda a: cd.broadcast(a, "q=2 x"))([1, 2]).tolist()
    [[1.0, 2.0], [1.0, 2.0]]
    """
    trace = running()
    given = trace.lift(array)
    made = new_axes(trace, axes)
    lost = [n for n in given.axes if n not in [a.name for a in made]]
    if lost:
        raise AxisError(f"cd.broadcast to {axes!r} leaves out axis {lost[0]!r} of {given}: reduce over it, or name it")
    trace.learn(made)
    return trace.rename(given, {}, [given.type.axis(a.name) or a for a in made])


def repeat(array: Operand, axis: str, times: int | str) -> Traced:
    """Each element repeated, as in `np.repeat`: over the product axis `(x k)`, with k the number of times.

    >>> import catdiag as cd
    >>> twice = cd.algorithm("x")(lambda a: cd.repeat(a, "x", 2))
    >>> str(twice.cod), twice([1, 2]).tolist()
    ('[(x 2)]', [1.0, 1.0, 2.0, 2.0])

    Raises AxisError for an axis that the array does not have, and for a number of times below 1.
    """
    return _repeated(array, axis, times, "repeat", True)


def tile(array: Operand, axis: str, times: int | str) -> Traced:
    """The whole axis repeated, as in `np.tile`: over the product axis `(k x)`, with k the number of times.

    >>> import catdiag as cd
    >>> cd.algorithm("x")(lambda a: cd.tile(a, "x", 2))([1, 2]).tolist()
    [1.0, 2.0, 1.0, 2.0]

    Raises AxisError for an axis that the array does not have, and for a number of times below 1.
    """
    return _repeated(array, axis, times, "tile", False)


def _repeated(array: Operand, axis: str, times: int | str, what: str, inner: bool) -> Traced:
    """An array repeated along a new axis that is merged with `axis`, as the inner factor if `inner`."""
    trace = running()
    given = trace.lift(array)
    own = axis_named(given, axis, what)
    new = length(trace, times, f"the number of times of cd.{what}", 1)
    assert new is not None
    if new.name in given.axes:
        raise AxisError(
            f"the array has axis {new.name!r} already: {what} it along another of that size, 'k={new.size}'"
        )
    longer = trace.rename(given, {}, (*given.type.axes, new))
    parts = (own, new) if inner else (new, own)
    made = merged(trace, longer, parts)
    return trace.rename(made, {}, [axis_of(made, n if n != own.name else product(*parts).name) for n in given.axes])


def joined(trace: Trace, arrays: Sequence[Traced], parts: Sequence[Axis]) -> Traced:
    """Arrays concatenated along the coproduct of their axes `parts`; an array that already has a coproduct contributes
    its terms.
    """
    terms = []
    for array, part in zip(arrays, parts, strict=True):
        places = range(len(part.parts)) if part.kind == "coproduct" else ()
        terms += [put(trace, Reindex("slice", part, k), [array]) for k in places] if places else [array]
    arrays = terms
    if len({a.type.element == "bool" for a in arrays}) > 1:
        arrays = [trace.numeric(a) for a in arrays]
    return put(trace, Reindex("concat", coproduct(*parts)), arrays)


def merged(trace: Trace, array: Traced, parts: Sequence[Axis]) -> Traced:
    """The array with its axes `parts` merged into their product; an axis that is a product contributes its factors."""
    for part in parts:
        if part.kind == "product":
            array = put(trace, Reindex("split", part), [array])
    return put(trace, Reindex("merge", product(*parts)), [array])


def _coproduct(array: Traced, axis: str, what: str) -> Axis:
    """The coproduct axis that a text names. Raises AxisError where the array has none of that name."""
    own = axis_named(array, axis, what)
    if own.kind != "coproduct":
        raise AxisError(f"cannot {what} axis {axis!r}: it is no coproduct; declare the array with one, such as 'x+y'")
    return own


def put(trace: Trace, op: Reindex | View, arrays: Sequence[Traced]) -> Traced:
    """Adds a box for an index map of arrays."""
    types, line = [a.type for a in arrays], trace.line()
    box = trace.memo((op, line, *map(id, types)), lambda: reindex_box(op, types, line))
    (made,) = trace.add(box, arrays)
    trace.learn(made.type.axes)
    return made


def axis_of(array: Traced, name: str) -> Axis:
    """The axis of that name of an array. Raises AxisError where it has none."""
    axis = array.type.axis(name)
    if axis is None:
        raise AxisError(f"the array has axes [{' '.join(array.axes)}], and not {name!r}")
    return axis


def new_axes(trace: Trace, axes: str) -> tuple[Axis, ...]:
    """The axes that a text names; where it gives no size, with the size that the name has in this algorithm."""
    found = []
    for axis in parse_axes(axes):
        known = trace.axes.get(axis.name)
        found.append(known if known is not None and axis.size == axis.name else axis)
    return tuple(found)


def length(trace: Trace, value: object, what: str, least: int = 0) -> Axis | None:
    """An axis of a given length; None for length 0. Raises AxisError for a length below `least` or an unknown name."""
    if isinstance(value, bool) or not isinstance(value, (int, str)):
        raise TypeMismatch(f"{what} is {value!r}: expected an integer or the name of an axis")
    if isinstance(value, int):
        if value < least:
            raise AxisError(f"{what} is {value}: expected an integer of at least {least}, or the name of an axis")
        return Axis(str(value), value) if value else None
    (axis,) = new_axes(trace, value) if len(parse_axes(value)) == 1 else (None,)
    if axis is None:
        raise SignatureError(f"{what} is {value!r}: expected one axis")
    return axis


def axis_named(array: Traced, axis: str, what: str) -> Axis:
    """The axis of an array that a text names. Raises AxisError where it has none, with `what` cannot be done."""
    wanted = parse_axes(axis)
    if len(wanted) != 1:
        raise SignatureError(f"expected one axis, not {axis!r}")
    own = array.type.axis(wanted[0].name)
    if own is None:
        raise AxisError(f"cannot {what} axis {axis!r}: the array has {' '.join(array.axes) or 'no axes'}")
    return own
