"""What PyTorch's operations on shapes mean in named axes: views, slices, concatenations, constants, gathers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from catdiag.frontend import elementwise
from catdiag.frontend.indexing import gather, indexed, reverse
from catdiag.frontend.tracing import running
from catdiag.importers.dimensions import AxisFactor, Dimension, NotAligned, TracedLength
from catdiag.importers.imported_values import ArrayValue, Environment, Operand, SizeNumber
from catdiag.importers.positions import NotPositional, Positions
from catdiag.importers.program_builder import ProgramBuilder, from_end
from catdiag.importers.torch_calls import AtenCall, Rule, Unsupported, adding, place, places
from catdiag.importers.torch_elementwise import converted, integer

RULES: dict[str, Rule] = {}
rule = adding(RULES)


@rule("view", "reshape", "flatten", "unflatten", "unsqueeze", "squeeze", "_unsafe_view", "view_as", "reshape_as")
def _view(b: ProgramBuilder, call: AtenCall) -> ArrayValue:
    value = call["self"]
    if call.cast:
        raise Unsupported("a view of the bits as another type")
    flat = tuple(f for d in value.dims for f in d)
    shape = _written(call)
    try:
        return b.view(value, b.factors.viewed(flat, shape))
    except NotAligned:
        # Across factors, as of a transposed array: the elements are read in the new order.
        one = b.joined_dimension(b.view(value, [flat]), 0, fixed=True)
        b.notes.append(f"{b.shape(value)} is cut as {[*map(int, shape)]}: lengths are fixed{b.at}")
        return b.view(one, b.factors.viewed(one.dims[0], shape))


def _written(call: AtenCall) -> list[int]:
    """The shape of a view as it is written: a trace may have an expression of symbols for an integer."""
    given: list[Any] = next((call.get(n) for n in ("size", "shape") if isinstance(call.get(n), list)), [])
    if len(given) != len(call.shape):
        return list(call.shape)
    return [n if isinstance(w, SizeNumber) or w == -1 else w for w, n in zip(given, call.shape, strict=True)]


@rule("transpose", "swapaxes", "t", "mT")
def _transpose(b: ProgramBuilder, call: AtenCall) -> ArrayValue:
    value, dims = call["self"], list(call["self"].dims)
    if len(dims) > 1:
        i, j = (place(value, call.get(n, k)) for n, k in (("dim0", 0), ("dim1", 1)))
        dims[i], dims[j] = dims[j], dims[i]
    return b.view(value, dims)


@rule("permute")
def _permute(b: ProgramBuilder, call: AtenCall) -> ArrayValue:
    value = call["self"]
    return b.view(value, [value.dims[place(value, d)] for d in call["dims"]])


@rule("movedim")
def _movedim(b: ProgramBuilder, call: AtenCall) -> ArrayValue:
    value = call["self"]
    source, target = places(value, list(call["source"])), places(value, list(call["destination"]))
    rest = [k for k in range(len(value.dims)) if k not in source]
    order: list[int] = []
    for k in range(len(value.dims)):
        order.append(source[target.index(k)] if k in target else rest.pop(0))
    return b.view(value, [value.dims[k] for k in order])


@rule("expand", "broadcast_to", "expand_as")
def _expand(b: ProgramBuilder, call: AtenCall) -> ArrayValue:
    value, shape = call["self"], call.shape
    dims = [()] * (len(shape) - len(value.dims)) + list(value.dims)
    return b.view(
        value, [b.factors.dimension(n) if not b.factors.resolve(d) else d for d, n in zip(dims, shape, strict=True)]
    )


@rule("repeat", "tile")
def _repeat(b: ProgramBuilder, call: AtenCall) -> ArrayValue:
    value, times = call["self"], list(call.get("repeats") or call["dims"])
    dims = [()] * (len(times) - len(value.dims)) + list(value.dims)
    times = [1] * (len(dims) - len(times)) + times
    return b.view(value, [(*b.factors.dimension(given_length(n)), *d) for d, n in zip(dims, times, strict=True)])


@rule("repeat_interleave")
def _interleave(b: ProgramBuilder, call: AtenCall) -> ArrayValue:
    value, times = call["self"], call["repeats"]
    if isinstance(times, ArrayValue) or call.get("dim") is None:
        raise Unsupported("repeat_interleave with an array of repeats, or over all dimensions")
    k = place(value, call["dim"])
    made = b.factors.dimension(given_length(times))
    return b.view(value, [*value.dims[:k], (*value.dims[k], *made), *value.dims[k + 1 :]])


_OPEN = 2**31
"""The end of a slice from which on it has none."""


@rule("slice")
def _slice(b: ProgramBuilder, call: AtenCall) -> ArrayValue:
    value, k = call["self"], place(call["self"], call.get("dim", 0))
    length = b.length(value.dims[k])
    begin, end, step = call.get("start") or 0, call.get("end"), call.get("step", 1)
    end = None if isinstance(end, int) and end >= _OPEN else end
    start, stop, _ = slice(_int(begin), None if end is None else _int(end)).indices(length)
    if step == 1 and b.is_traced(value.dims[k], call.shape[k], begin, end):
        return b.traced_part(value, k, begin, end, call.shape[k])
    if step != 1:
        if start >= step or stop <= length - step + start or length % step:
            return _each(b, value, k, (start, stop, step))
        return b.selected(_every(b, value, k, step), k + 1, start)
    if stop - start == 1 and length > 1:
        if start == length - 1:
            b.notes.append(f"{start}:{stop} of {length} is read as the last one{b.at}")
        one = b.selected(value, k, start - length if start == length - 1 else start)
        return b.view(one, [*one.dims[:k], (), *one.dims[k:]])
    ends = {slice(_int(at or 0), None if end is None else _int(end)).indices(length)[:2] for at, end in call.siblings}
    even = len({end - at for at, end in ends} - {0, 1, length}) <= 1
    order = sorted(ends)
    covers = [at for at, _ in order] == [0, *(end for _, end in order[:-1])] and order[-1][1] == length
    cover = [end - at for at, end in order] if covers and not even else ()
    from_end = isinstance(begin, int) and (end is None or (isinstance(end, int) and end < 0))
    if from_end and not cover and stop > start and (not even or start % (stop - start) or length % (stop - start)):
        count = stop - start if begin < 0 else b.without(value.dims[k], length - (stop - start))
        if begin < 0:  # a shorter one would give all that it has
            b.at_least.append((value.dims[k], -_int(begin)))
        return b.traced_part(value, k, begin, end, count)
    return b.part(value, k, start, stop - start, even, cover)


def _every(b: ProgramBuilder, value: ArrayValue, k: int, step: int) -> ArrayValue:
    """An array whose dimension k is one of groups of `step` elements, and one of the elements of a group."""
    split = b.divided(value, k, [b.length(value.dims[k]) // step, step])
    for factor in b.factors.resolve(split.dims[k + 1]):
        b.factors.fix(factor.extent)
    return split


def _each(b: ProgramBuilder, value: ArrayValue, k: int, taken: tuple[int, int, int]) -> ArrayValue:
    """The positions start, start + step, … along dimension k, of a fixed length."""
    start, stop, step = taken
    count = len(range(start, stop, step))
    if b.is_traced(value.dims[k]):
        raise Unsupported(f"a slice {start}:{stop}:{step} that does not take every {step}th of all")
    if count < 2:
        return slice_one(b, value, k, start) if count else b.part(value, k, start, 0)
    if len(b.factors.resolve(value.dims[k])) > 1:
        value = b.joined_dimension(value, k)
    full = b.materialized(value, [value.dims[k]])
    (old,) = b.factors.resolve(full.dims[k])
    b.factors.fix(old.extent)
    b.notes.append(f"{start}:{stop}:{step} of {old.length} is read as it is: lengths are fixed{b.at}")
    new = b.factors.new(count, old.hint, fixed=True)
    axes = [new if f is old else f for f in b.factors.resolve(full.axes)]
    read = lambda env: env.read(env[full], [(old, env.index([new]) * step + start)], [new])  # noqa: E731
    return b.emit([*full.dims[:k], (new,), *full.dims[k + 1 :]], axes, read, full.element)


def _constant(value: Any) -> int:
    """An integer that does not depend on sizes."""
    if isinstance(value, SizeNumber):
        raise Unsupported("a position that is computed from sizes")
    return int(value)


def given_length(value: Any) -> int:
    """A length, which may be computed from sizes."""
    if isinstance(value, SizeNumber):
        if not isinstance(value.value, TracedLength):
            raise Unsupported("a length that is no sum or product of sizes")
        return value.value
    return int(value)


def _int(value: Any) -> int:
    return int(value.value) if isinstance(value, SizeNumber) else int(value)


@rule("narrow")
def _narrow(b: ProgramBuilder, call: AtenCall) -> ArrayValue:
    return b.part(call["self"], place(call["self"], call["dim"]), _int(call["start"]), _int(call["length"]))


@rule("select")
def _select(b: ProgramBuilder, call: AtenCall) -> ArrayValue:
    value, k, at = call["self"], place(call["self"], call["dim"]), call["index"]
    if b.length(value.dims[k]) == 1:
        at = 0
    return b.selected(value, k, at)


@rule("split", "split_with_sizes", "chunk", "tensor_split")
def _split(b: ProgramBuilder, call: AtenCall) -> tuple[ArrayValue, ...]:
    value, k = call["self"], place(call["self"], call.get("dim", 0))
    found: list[ArrayValue] = []
    start, even = 0, len({shape[k] for shape in call.shapes}) == 1
    lengths = [shape[k] for shape in call.shapes]
    if b.is_traced(value.dims[k], *lengths) and not (even and isinstance(lengths[0], TracedLength)):
        for length in lengths:
            before = [v.dims[k] for v in found]
            found.append(b.traced_part(value, k, _after(start, before) if start else 0, None, length))
            start += length
        return tuple(found)
    for shape in call.shapes:
        found.append(b.part(value, k, start, shape[k], even) if shape[k] > 1 else slice_one(b, value, k, start))
        start += shape[k]
    return tuple(found)


def _after(start: int, parts: Sequence[Dimension]) -> SizeNumber:
    """The position after parts."""
    return SizeNumber(start, lambda env: sum(map(env.size, parts), 0))


def slice_one(b: ProgramBuilder, value: ArrayValue, k: int, at: int) -> ArrayValue:
    """The element at a position of dimension k, which stays, of length 1."""
    if b.length(value.dims[k]) == 1:
        return value
    one = b.selected(value, k, at)
    return b.view(one, [*one.dims[:k], (), *one.dims[k:]])


@rule("unbind")
def _unbind(b: ProgramBuilder, call: AtenCall) -> tuple[ArrayValue, ...]:
    value, k = call["self"], place(call["self"], call.get("dim", 0))
    for factor in b.factors.resolve(value.dims[k]):
        b.factors.fix(factor.extent)
    return tuple(b.selected(value, k, n) for n in range(b.length(value.dims[k])))


@rule("cat", "concat", "concatenate")
def _cat(b: ProgramBuilder, call: AtenCall) -> ArrayValue:
    values = [converted(b, v, call.element) for v in call["tensors"] if 0 not in b.shape(v)]
    return b.concatenated(values, place(values[0], call.get("dim", 0))) if len(values) > 1 else values[0]


@rule("slice_scatter")
def _slice_scatter(b: ProgramBuilder, call: AtenCall) -> ArrayValue:
    value, k = call["self"], place(call["self"], call.get("dim", 0))
    part = converted(b, call["src"], value.element)
    length = b.length(value.dims[k])
    begin, end, step = call.get("start") or 0, call.get("end"), call.get("step", 1)
    start, stop, _ = slice(_int(begin), None if end is None else _int(end)).indices(length)
    if step != 1:
        if start >= step or stop <= length - step + start or length % step:
            every = f"expected every {step}-th to the end of a length that {step} divides"
            raise Unsupported(f"a write to the elements {start}:{stop}:{step} of {length}: {every}")
        split = _every(b, value, k, step)
        both = b.stacked([part if r == start else b.selected(split, k + 1, r) for r in range(step)], k + 1)
        return b.view(both, [*both.dims[:k], (*both.dims[k], *both.dims[k + 1]), *both.dims[k + 2 :]])
    if b.is_traced(value.dims[k], begin, end):
        return _written_over(b, value, part, k, begin)
    parts = [b.part(value, k, 0, start), part, b.part(value, k, stop, length - stop)]
    parts = [p for p in parts if 0 not in b.shape(p)]
    return b.concatenated(parts, k) if len(parts) > 1 else part


def _written_over(b: ProgramBuilder, value: ArrayValue, part: ArrayValue, k: int, begin: Operand) -> ArrayValue:
    """An array in which a part along dimension k, from `begin` on, is another array."""
    if len(b.factors.resolve(value.dims[k])) > 1:
        value = b.joined_dimension(value, k)
    if len(b.factors.resolve(part.dims[k])) != 1:
        part = b.joined_dimension(part, k) if b.factors.resolve(part.dims[k]) else _with_axis(b, part, k)
    (along,), part = b.factors.resolve(value.dims[k]), b.materialized(part, [part.dims[k]])
    (own,) = b.factors.resolve(part.dims[k])

    def at(env: Environment) -> Any:
        return env.index([along]) - from_end(env, along, begin)

    dims = [*part.dims[:k], (along,), *part.dims[k + 1 :]]
    axes = [along if f is own else f for f in b.factors.resolve(part.axes)]
    shifted = b.emit(dims, axes, lambda env: env.read(env[part], [(own, at(env))], [along], 0), part.element)
    inside = b.emit(
        [*[()] * k, (along,), *[()] * (len(dims) - k - 1)],
        [along],
        lambda env: (at(env) >= 0) & (at(env) < env.size([own])),
        "bool",
    )
    return b.pointwise([inside, shifted, value], elementwise.where, value.element)


def _with_axis(b: ProgramBuilder, value: ArrayValue, k: int) -> ArrayValue:
    """An array whose dimension k, of length 1, is an axis."""
    return b.view(value, [*value.dims[:k], (b.factors.new(1, fixed=True),), *value.dims[k + 1 :]])


@rule("select_scatter")
def _select_scatter(b: ProgramBuilder, call: AtenCall) -> ArrayValue:
    value, k = call["self"], place(call["self"], call["dim"])
    at = _constant(call["index"]) % b.length(value.dims[k])
    part = converted(b, call["src"], value.element)
    part = b.view(part, [*part.dims[:k], (), *part.dims[k:]])
    dim = value.dims[k]
    here = b.emit([*[()] * k, dim, *[()] * (len(value.dims) - k - 1)], dim, lambda env: env.index(dim) == at, "bool")
    return b.pointwise([here, part, value], elementwise.where, value.element)


@rule("copy")
def _copy(b: ProgramBuilder, call: AtenCall) -> ArrayValue:
    value, source = call["self"], converted(b, call["src"], call["self"].element)
    lined, _ = b.broadcast([b.view(value, value.dims), source])
    dims = [()] * (len(value.dims) - len(lined[1].dims)) + list(lined[1].dims)
    return b.view(lined[1], [d if b.factors.resolve(d) else v for d, v in zip(dims, value.dims, strict=True)])


@rule("diff")
def _diff(b: ProgramBuilder, call: AtenCall) -> ArrayValue:
    value, before, k = call["self"], call.get("prepend"), place(call["self"], call.get("dim", -1))
    step = _step(b, value, before, k)
    if call.get("n", 1) != 1 or call.get("append") is not None or value.element == "bool":
        raise Unsupported("differences of higher order, of truth values, or with what is appended")
    if step is not None:
        return b.positional(value.dims, Positions({}, step))
    if before is None or b.length(before.dims[k]) != 1:
        length = b.length(value.dims[k])
        parts = [b.part(value, k, 1, length - 1), b.part(value, k, 0, length - 1)]
        return b.pointwise(parts, lambda later, earlier: later - earlier, value.element)
    dim = value.dims[k]
    full = b.materialized(value, [dim])

    def previous(env: Environment) -> Any:
        array, name = env.merged(env[full], dim)
        at = env.index(dim) - 1
        return indexed(running(), array, tuple(env.axes(dim)), {name: at}, fill=0)

    shifted = b.emit(full.dims, full.axes, previous, value.element)
    first = b.emit([*[()] * k, dim, *[()] * (len(value.dims) - k - 1)], dim, lambda env: env.index(dim) < 1, "bool")
    earlier = b.pointwise([first, before, shifted], elementwise.where, value.element)
    return b.pointwise([value, earlier], lambda a, c: a - c, value.element)


def _step(b: ProgramBuilder, value: ArrayValue, before: ArrayValue | None, k: int) -> int | None:
    """How far two neighbors of a sum of positions are from each other, the one before the first included; None where
    that is not one number."""
    try:
        at, first = b.positions(value), None if before is None else b.positions(before)
        if not isinstance(at, Positions) or not isinstance(first, Positions):
            return None
        dim = b.factors.resolve(value.dims[k])
        step, start = at.terms.get(dim, 0), at.without(dim)
        return step if start is not None and start - first == step else None
    except NotPositional:
        return None


@rule("stack")
def _stack(b: ProgramBuilder, call: AtenCall) -> ArrayValue:
    values = [converted(b, v, call.element) for v in call["tensors"]]
    place = call.get("dim", 0) % (len(values[0].dims) + 1)
    return b.stacked(values, place)


@rule("flip")
def _flip(b: ProgramBuilder, call: AtenCall) -> ArrayValue:
    value = call["self"]
    over = [f for k in places(value, call["dims"]) for f in b.own(value, value.dims[k])]
    return b.emit(value.dims, value.axes, lambda env: reverse(env[value], env.of(over)), value.element)


@rule("roll")
def _roll(b: ProgramBuilder, call: AtenCall) -> ArrayValue:
    value: ArrayValue = call["self"]
    if not call.get("dims"):
        flat = b.joined_dimension(b.view(value, [tuple(f for d in value.dims for f in d)]), 0, fixed=True)
        (shift,), lengths = call["shifts"], b.shape(value)
        b.notes.append(f"roll over all dimensions: lengths {lengths} are fixed{b.at}")
        return b.view(made := _rolled(b, flat, flat.dims[0][0], shift), b.factors.regroup(made.dims[0], lengths))
    for shift, dim in zip(call["shifts"], call["dims"], strict=True):
        k = place(value, dim)
        if len(b.factors.resolve(value.dims[k])) > 1:
            value = b.joined_dimension(value, k)
        if b.own(value, value.dims[k]):
            value = _rolled(b, value, b.own(value, value.dims[k])[0], shift)
    return value


def _rolled(b: ProgramBuilder, value: ArrayValue, factor: AxisFactor, shift: Operand) -> ArrayValue:
    def make(env: Environment) -> Any:
        size = env.size([factor])
        away = -shift if isinstance(shift, int) and shift < 0 else size - env[shift]
        return env.read(env[value], [(factor, (env.index([factor]) + away) % size)], [factor])

    return b.emit(value.dims, value.axes, make, value.element)


# -- made of nothing -------------------------------------------------------------------------------------


@rule("arange")
def _arange(b: ProgramBuilder, call: AtenCall) -> ArrayValue:
    start, step = call.get("start", 0) or 0, call.get("step", 1) or 1
    dim = b.factors.dimension(call.shape[0])
    known = isinstance(call.shape[0], TracedLength) or isinstance(start, SizeNumber)
    if not known and start not in (0, 1):  # made of a length, or one that the end is made of
        for factor in dim:
            b.factors.fix(factor.extent)

    def make(env: Environment) -> Any:
        at = env.index(dim)
        at = at if step == 1 else at * step
        return at if start == 0 else at + env[start]

    if call.element == "int" and isinstance(start, int) and isinstance(step, int):
        return b.positional([dim], Positions.along(dim, step, start))
    return b.emit([dim], dim, make, call.element)


@rule("full", "new_full", "full_like")
def _full(b: ProgramBuilder, call: AtenCall) -> ArrayValue:
    number = call["fill_value"]
    if isinstance(number, (ArrayValue, SizeNumber)):
        dims = [b.factors.dimension(n) for n in call.shape]
        return b.emit(dims, (), lambda env: running().lift(env[number]), call.element)
    return b.constant(number, call.shape, call.element)


@rule("scalar_tensor")
def _scalar_tensor(b: ProgramBuilder, call: AtenCall) -> ArrayValue:
    return b.constant(call["s"], (), call.element)


@rule("empty", "empty_like", "new_empty", "empty_permuted")
def _empty(b: ProgramBuilder, call: AtenCall) -> ArrayValue:
    return b.constant(0, call.shape, call.element if call.element != "bool" else "int")


@rule("zeros", "zeros_like", "new_zeros", "ones", "ones_like", "new_ones")
def _zeros_or_ones(b: ProgramBuilder, call: AtenCall) -> ArrayValue:
    one = "ones" in call.name
    return b.constant(int(one), call.shape, call.element)


@rule("eye")
def _identity(b: ProgramBuilder, call: AtenCall) -> ArrayValue:
    rows, columns = (b.factors.dimension(n) for n in call.shape)
    if len(set(map(str, call.shape))) == 1:  # a square stays one at other sizes
        columns = tuple(b.factors.copy(f) for f in rows)
    one, zero = _ones(call.element)

    def make(env: Environment) -> Any:
        same = env.index(rows) == env.index(columns)
        return same if call.element == "bool" else elementwise.where(same, env[one], env[zero])

    return b.emit([rows, columns], (*rows, *columns), make, call.element)


@rule("one_hot")
def _one_hot(b: ProgramBuilder, call: AtenCall) -> ArrayValue:
    value, classes = call["self"], b.factors.dimension(call.shape[-1])
    if call["num_classes"] == -1:
        raise Unsupported("one_hot whose number of classes depends on values: give num_classes")
    one, zero = _ones("int")

    wanted = in_range(b, value, classes)

    def make(env: Environment) -> Any:
        return elementwise.where(env.index(classes) == env[wanted], env[one], env[zero])

    return b.emit([*value.dims, classes], (*value.axes, *classes), make, "int")


def in_range(b: ProgramBuilder, at: ArrayValue, dim: Dimension) -> ArrayValue:
    """Integers that have no value beyond the ends of a dimension, where PyTorch raises an error. Only programs that are
    compared need to say so: a kernel writes nothing there."""
    if not b.read_parts or at.positions is not None or at.number is not None:
        return at
    return b.emit(at.dims, at.axes, lambda env: gather(*env.merged(env.index(dim), dim), env[at]), "int")


def _ones(element: str) -> tuple[Any, Any]:
    """One and zero."""
    return (integer(1), integer(0)) if element == "int" else (1, 0)


@rule("tril", "triu")
def _triangle(b: ProgramBuilder, call: AtenCall) -> ArrayValue:
    value, lower, diagonal = call["self"], call.name == "tril", call.get("diagonal", 0)
    rows, columns = value.dims[-2:]

    def make(env: Environment) -> Any:
        below = env.index(columns) - env[diagonal] if diagonal != 0 else env.index(columns)
        inside = below <= env.index(rows) if lower else below >= env.index(rows)
        array = env[value]
        return array & inside if value.element == "bool" else elementwise.where(inside, array, 0)

    return b.emit(value.dims, (*value.axes, *rows, *columns), make, value.element)
