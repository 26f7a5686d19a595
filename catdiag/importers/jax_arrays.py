"""What JAX's primitives on shapes, products, reductions and reads mean in named axes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from catdiag.frontend import elementwise
from catdiag.frontend.indexing import indexed
from catdiag.frontend.tracing import running
from catdiag.importers.aten_rules import RULES as ATEN
from catdiag.importers.constant_folding import filled, known
from catdiag.importers.dimensions import Dimension, TracedLength
from catdiag.importers.imported_values import ArrayValue, Environment, Operand, SizeNumber
from catdiag.importers.program_builder import ProgramBuilder
from catdiag.importers.torch_calls import AtenCall, Rule, Unsupported, adding
from catdiag.importers.torch_resampling import Spread, spread

RULES: dict[str, Rule] = {}
rule = adding(RULES)


def aten(b: ProgramBuilder, name: str, call: AtenCall, **arguments: Any) -> Any:
    """The result of ATen's operation that does what a call does."""
    return ATEN[name](b, replace(call, name=name, arguments=arguments, cast=False))


def array_of(b: ProgramBuilder, operand: Operand, element: str = "real") -> ArrayValue:
    return filled(b, operand, (), element)


def _first(b: ProgramBuilder, call: AtenCall) -> ArrayValue:
    return array_of(b, call["operands"][0], call.element)


# -- shapes ----------------------------------------------------------------------------------------------


@rule("broadcast_in_dim")
def _broadcast(b: ProgramBuilder, call: AtenCall) -> ArrayValue:
    value = known(call["operands"][0])
    if not isinstance(value, ArrayValue):
        return filled(b, value, call.shape, call.element)
    dims: list[Dimension] = [()] * len(call.shape)
    for dim, place in zip(value.dims, call["broadcast_dimensions"], strict=True):
        dims[int(place)] = dim
    made = [d if b.length(d) == n else b.factors.dimension(n) for d, n in zip(dims, call.shape, strict=True)]
    return b.view(value, made)


@rule("reshape")
def _reshape(b: ProgramBuilder, call: AtenCall) -> Operand:
    value = known(call["operands"][0])
    if not isinstance(value, ArrayValue):
        return filled(b, value, call.shape, call.element)
    if 0 in call.shape:  # no elements, so that any are these
        return b.constant(0, call.shape, call.element)
    if call.get("dimensions") is not None:
        value = b.view(value, [value.dims[k] for k in call["dimensions"]])
    return aten(b, "view", call, self=value)  # type: ignore[no-any-return]


@rule("squeeze")
def _squeeze(b: ProgramBuilder, call: AtenCall) -> ArrayValue:
    value = _first(b, call)
    if value.number is not None:
        return b.constant(value.number, call.shape, call.element)
    gone = {int(k) % len(value.dims) for k in call["dimensions"]}
    return b.view(value, [d for k, d in enumerate(value.dims) if k not in gone])


@rule("expand_dims")
def _expand_dims(b: ProgramBuilder, call: AtenCall) -> Operand:
    return _reshape(b, replace(call, arguments={"operands": call["operands"]}))  # type: ignore[no-any-return]


@rule("transpose")
def _transpose(b: ProgramBuilder, call: AtenCall) -> ArrayValue:
    value = _first(b, call)
    if value.number is not None:
        return b.constant(value.number, call.shape, call.element)
    return b.view(value, [value.dims[int(k)] for k in call["permutation"]])


@rule("rev")
def _rev(b: ProgramBuilder, call: AtenCall) -> ArrayValue:
    value = _first(b, call)
    return aten(b, "flip", call, self=value, dims=list(call["dimensions"])) if call["dimensions"] else value


@rule("concatenate")
def _concatenate(b: ProgramBuilder, call: AtenCall) -> ArrayValue:
    values = [array_of(b, v, call.element) for v in call["operands"]]
    return aten(b, "cat", call, tensors=values, dim=int(call["dimension"]))  # type: ignore[no-any-return]


@rule("stack")
def _stack(b: ProgramBuilder, call: AtenCall) -> ArrayValue:
    values = [array_of(b, v, call.element) for v in call["operands"]]
    return b.stacked(values, int(call.get("axis", call.get("dimension", 0))))


@rule("tile")
def _tile(b: ProgramBuilder, call: AtenCall) -> ArrayValue:
    return aten(b, "repeat", call, self=_first(b, call), repeats=list(call["reps"]))  # type: ignore[no-any-return]


@rule("split")
def _split(b: ProgramBuilder, call: AtenCall) -> Any:
    return aten(b, "split", call, self=_first(b, call), dim=int(call["axis"]))


@rule("slice")
def _slice(b: ProgramBuilder, call: AtenCall) -> ArrayValue:
    value = _first(b, call)
    if value.number is not None:
        return b.constant(value.number, call.shape, call.element)
    strides = call["strides"] or (1,) * len(value.dims)
    for k, (start, stop, step) in enumerate(zip(call["start_indices"], call["limit_indices"], strides, strict=True)):
        traced = b.is_traced(value.dims[k], start, stop)
        if traced or (start, stop, step) != (0, b.length(value.dims[k]), 1):
            siblings = tuple((starts[k], limits[k]) for starts, limits in call.siblings)
            asked = replace(call, siblings=siblings or ((start, stop),))
            value = aten(b, "slice", asked, self=value, dim=k, start=start, end=stop, step=step)
    return value


@rule("pad")
def _pad(b: ProgramBuilder, call: AtenCall) -> ArrayValue:
    value, fill = _first(b, call), known(call["operands"][1])
    config = [tuple(ends) for ends in call["padding_config"]]
    if isinstance(fill, (ArrayValue, SizeNumber)):
        raise Unsupported("jax.pad with a number that is computed")
    for k, (_, _, interior) in enumerate(config):
        length = b.length(value.dims[k])
        if interior and length > 1:
            if fill != 0:
                raise Unsupported(f"jax.pad with {fill} between elements: expected 0")
            value = spread(b, value, k, Spread((), interior + 1, 0, 1, (length - 1) * (interior + 1) + 1))
            value = b.view(value, [*value.dims[: k + 1], *value.dims[k + 2 :]])
    ends = [n for low, high, _ in config[::-1] for n in (low, high)]
    return aten(b, "constant_pad_nd", call, self=value, pad=ends, value=fill)  # type: ignore[no-any-return]


@rule("iota")
def _iota(b: ProgramBuilder, call: AtenCall) -> ArrayValue:
    dims = [b.factors.dimension(n) for n in call.shape]
    along = dims[int(call["dimension"])]
    return b.emit(dims, along, lambda env: env.index(along), call.element)


# -- products ---------------------------------------------------------------------------------------------


@rule("dot_general")
def _dot_general(b: ProgramBuilder, call: AtenCall) -> ArrayValue:
    (summed_left, summed_right), (batch_left, batch_right) = call["dimension_numbers"]
    left, right = (array_of(b, v, call.element) for v in call["operands"])
    if call.element != "real":
        raise Unsupported("jax.dot_general of integers")
    words = [[f"m{k}" for k in range(len(left.dims))], [f"n{k}" for k in range(len(right.dims))]]
    for name, pairs in (("b", (batch_left, batch_right)), ("k", (summed_left, summed_right))):
        for number, (i, j) in enumerate(zip(*pairs, strict=True)):
            words[0][int(i)] = words[1][int(j)] = f"{name}{number}"
    output = [f"b{k}" for k in range(len(batch_left))]
    output += [w for word in words for w in word if w[0] in "mn"]
    return b.einsum([left, right], words, output)


# -- reductions -------------------------------------------------------------------------------------------

_REDUCTIONS = {
    "reduce_sum": "sum", "reduce_max": "amax", "reduce_min": "amin", "reduce_prod": "prod", "reduce_and": "all",
    "reduce_or": "any", "argmax": "argmax", "argmin": "argmin",
}  # fmt: skip


@rule(*_REDUCTIONS)
def _reduction(b: ProgramBuilder, call: AtenCall) -> ArrayValue:
    value, axes = _first(b, call), [int(k) for k in call["axes"]]
    if not axes:
        return value
    if call.name in ("reduce_and", "reduce_or") and call.element != "bool":
        raise Unsupported(f"jax.{call.name} of the bits of integers")
    made: ArrayValue = aten(b, _REDUCTIONS[call.name], call, self=value, dim=axes)
    if call.name == "reduce_sum":
        made.contracted = b.factors.resolve(f for k in axes for f in value.dims[k])
    return made


@rule("cumsum")
def _cumsum(b: ProgramBuilder, call: AtenCall) -> ArrayValue:
    value, axis = _first(b, call), int(call["axis"])
    if call.get("reverse"):
        value = aten(b, "flip", call, self=value, dims=[axis])
    made = aten(b, "cumsum", call, self=value, dim=axis)
    return aten(b, "flip", call, self=made, dims=[axis]) if call.get("reverse") else made  # type: ignore[no-any-return]


@rule("cummax", "cummin", "cumprod", "cumlogsumexp")
def _running(b: ProgramBuilder, call: AtenCall) -> ArrayValue:
    value, axis = _first(b, call), int(call["axis"])
    if call.get("reverse"):
        value = aten(b, "flip", call, self=value, dims=[axis])
    made = aten(b, {"cumlogsumexp": "logcumsumexp"}.get(call.name, call.name), call, self=value, dim=axis)
    made = made[0] if isinstance(made, tuple) else made
    return aten(b, "flip", call, self=made, dims=[axis]) if call.get("reverse") else made  # type: ignore[no-any-return]


@rule("sort")
def _sort(b: ProgramBuilder, call: AtenCall) -> Any:
    """The first operand in order, and the others as they go along with it; of equal ones the first comes first."""
    if int(call["num_keys"]) != 1:
        raise Unsupported("sorting by several keys")
    k = int(call["dimension"])
    keys, *others = (array_of(b, a, call.element if n == 0 else "real") for n, a in enumerate(call["operands"]))
    values, positions = aten(b, "sort", call, self=keys, dim=k)
    along = [aten(b, "gather", call, self=a, dim=k, index=positions) for a in others]
    return (values, *along) if along else values


@rule("top_k")
def _top_k(b: ProgramBuilder, call: AtenCall) -> Any:
    return aten(b, "topk", call, self=_first(b, call), k=int(call["k"]), dim=int(call.get("axis", -1)))


# -- reads at positions -----------------------------------------------------------------------------------


@rule("gather")
def _gather(b: ProgramBuilder, call: AtenCall) -> ArrayValue:
    """The elements of a table at vectors of indices. Of each dimension that is indexed one element is read; the others
    are read whole, or along with a dimension of the indices."""
    table, starts = _first(b, call), array_of(b, call["operands"][1], "int")
    numbers, sizes = call["dimension_numbers"], [_length(n) for n in call["slice_sizes"]]
    taken, batch = list(numbers.start_index_map), list(numbers.operand_batching_dims)
    if len(starts.dims) == 1 and not numbers.collapsed_slice_dims and not batch:
        for j, k in enumerate(taken):
            table = _part_from(b, call, table, k, component(b, starts, j), sizes[k])
        return table
    for k, dim in enumerate(table.dims):
        if sizes[k] != (1 if k in taken or k in batch else b.length(dim)):
            raise Unsupported("jax.gather of windows")
    at = [component(b, starts, j) for j in range(len(taken))]
    for k, place in zip(batch, numbers.start_indices_batching_dims, strict=True):
        at = [b.aligned(v, place, table.dims[k]) for v in at]
    lined, outer = b.broadcast(at) if at else ([], [])
    table = _with_fresh_axes(b, table, outer, batch)
    inner = [() if k in taken else table.dims[k] for k in range(len(sizes))]
    inner = [d for k, d in enumerate(inner) if k not in (*numbers.collapsed_slice_dims, *batch)]
    offsets = [int(k) for k in numbers.offset_dims]
    sources = {True: iter(inner), False: iter(outer)}
    dims = [next(sources[k in offsets]) for k in range(len(call.shape))]
    full = b.materialized(table, [table.dims[k] for k in taken])
    old = [b.factors.resolve(full.dims[k]) for k in taken]
    gone = {f for d in old for f in d}
    axes = [*(f for f in b.factors.resolve(full.axes) if f not in gone), *(f for v in lined for f in v.axes)]
    fill, clip = _outside(call)

    def make(env: Environment) -> Any:
        array, positions = env[full], {}
        for dim, place in zip(old, lined, strict=True):
            if dim:
                array, name = env.merged(array, dim)
                positions[name] = elementwise.clip(env[place], 0, env.size(dim) - 1) if clip else env[place]
        return indexed(running(), array, (), positions, fill) if positions else array

    return b.emit(dims, axes, make, table.element)


def _length(value: Any) -> int:
    """A length, which may be computed from sizes."""
    return int(value) if not isinstance(value, SizeNumber) else value.value  # type: ignore[return-value]


def _part_from(b: ProgramBuilder, call: AtenCall, value: ArrayValue, k: int, start: Operand, size: int) -> ArrayValue:
    """Some elements along dimension k, from a position on, which is clipped so that they are all inside."""
    length = b.length(value.dims[k])
    if size == length and not isinstance(size, TracedLength):
        return value
    if isinstance(start, ArrayValue) and start.number is not None:
        start = int(start.number)
    if isinstance(start, ArrayValue):
        return _window(b, value, k, start, size)
    if isinstance(start, SizeNumber) or b.is_traced(value.dims[k], size):
        return b.traced_part(value, k, start if isinstance(start, SizeNumber) else int(start), None, size)
    low = min(max(int(start), 0), length - size)
    return aten(b, "slice", call, self=value, dim=k, start=low, end=low + size, step=1)  # type: ignore[no-any-return]


def component(b: ProgramBuilder, starts: ArrayValue, j: int) -> ArrayValue:
    if starts.number is not None:
        return b.constant(starts.number, b.shape(starts)[:-1], "int")
    return b.selected(starts, len(starts.dims) - 1, j)


def _with_fresh_axes(
    b: ProgramBuilder, table: ArrayValue, outer: Sequence[Dimension], batch: Sequence[int]
) -> ArrayValue:
    """A table whose axes are none of the indices', but for those that are read along with them."""
    shared = set(b.factors.resolve(f for d in outer for f in d))
    for k in range(len(table.dims)):
        both = tuple(f for f in b.factors.resolve(table.dims[k]) if f in shared)
        if k not in batch and both:
            table = b.fresh(table, both)
    return table


def _outside(call: AtenCall) -> tuple[float | None, bool]:
    """What is read outside of the table, if that is a number, and whether indices are clipped."""
    mode = getattr(call.get("mode"), "name", "")
    fill = call.get("fill_value")
    number = None if fill is None or fill != fill else float(fill)
    return (number if mode == "FILL_OR_DROP" else None), mode == "CLIP"


@rule("dynamic_slice")
def _dynamic_slice(b: ProgramBuilder, call: AtenCall) -> ArrayValue:
    value, starts = _first(b, call), [known(v) for v in call["operands"][1:]]
    for k, (start, size) in enumerate(zip(starts, call["slice_sizes"], strict=True)):
        value = _part_from(b, call, value, k, start, _length(size))
    return value


def _window(b: ProgramBuilder, value: ArrayValue, k: int, start: ArrayValue, size: int) -> ArrayValue:
    """Some elements from a computed position on, which is clipped so that they are all inside."""
    if len(b.factors.resolve(value.dims[k])) > 1:
        value = b.joined_dimension(value, k)
    full = b.materialized(value, [value.dims[k]])
    (old,) = b.factors.resolve(full.dims[k])
    made: Dimension = (b.factors.new(size, old.hint, fixed=True),) if size > 1 else ()
    axes = [*(f for f in b.factors.resolve(full.axes) if f is not old), *made, *start.axes]

    def make(env: Environment) -> Any:
        at = elementwise.clip(env[start], 0, env.size([old]) - (env.size(made) if made else 1))
        return env.read(env[full], [(old, at + env.index(made) if made else at)], made)

    return b.emit([*full.dims[:k], made, *full.dims[k + 1 :]], axes, make, value.element)


@rule("while")
def _while(b: ProgramBuilder, call: AtenCall) -> ArrayValue:
    raise Unsupported(
        "a loop whose number of iterations depends on values, or is large: give it as a number, as in "
        "jax.lax.fori_loop(0, 8, …), and choose what ends earlier with jnp.where"
    )


@rule("scan")
def _scan(b: ProgramBuilder, call: AtenCall) -> ArrayValue:
    raise Unsupported(
        f"a scan of {call['length']} steps: expected 64 at most, which are written out; write sums and products with "
        "jnp.cumsum and the like, and others as an einsum under a mask"
    )
