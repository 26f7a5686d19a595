"""What JAX's writes at positions mean in named axes: parts that are written or added, and scattered ones."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from catdiag.frontend import elementwise
from catdiag.importers.constant_folding import folded, known
from catdiag.importers.dimensions import Dimension
from catdiag.importers.imported_values import ArrayValue, Environment, Operand
from catdiag.importers.indexed_writes import written_at
from catdiag.importers.jax_arrays import array_of, component
from catdiag.importers.program_builder import ProgramBuilder
from catdiag.importers.torch_calls import AtenCall, Rule, Unsupported, adding

RULES: dict[str, Rule] = {}
rule = adding(RULES)


@rule("dynamic_update_slice")
def _dynamic_update_slice(b: ProgramBuilder, call: AtenCall) -> ArrayValue:
    value, part, *starts = call["operands"]
    value, part = (array_of(b, v, call.element) for v in (value, part))
    places: dict[int, Operand] = {}
    for k, start in enumerate(map(known, starts)):
        length, size = b.length(value.dims[k]), b.length(part.dims[k])
        if size != length:
            if not isinstance(start, (int, float, ArrayValue)):
                raise Unsupported("a part that starts at a number computed from sizes")
            places[k] = start if isinstance(start, ArrayValue) else min(max(int(start), 0), length - size)
    return _updated(b, value, part, places, False)


_WRITES = {"scatter": "set", "scatter-add": "add", "scatter-mul": "mul", "scatter-max": "max", "scatter-min": "min"}


@rule(*_WRITES)
def _scatter(b: ProgramBuilder, call: AtenCall) -> ArrayValue:
    """A part of an array written at, or added to, positions: numbers, or arrays of them."""
    value, starts, part = (array_of(b, v, e) for v, e in zip(call["operands"], (call.element, "int", call.element)))
    numbers = call["dimension_numbers"]
    if starts.number is None or len(starts.dims) != 1 or call.name not in ("scatter", "scatter-add"):
        return _scattered(b, call, value, starts, part)
    if numbers.operand_batching_dims:
        raise Unsupported(f"jax.{call.name} of a batch, as jax.vmap makes it")
    inserted = {int(k) for k in numbers.inserted_window_dims}
    windows = iter(part.dims)
    part = b.view(part, [() if k in inserted else next(windows) for k in range(len(value.dims))])
    places: dict[int, Operand] = {}
    for k in map(int, numbers.scatter_dims_to_operand_dims):
        start, size, length = int(starts.number), b.length(part.dims[k]), b.length(value.dims[k])
        if not 0 <= start <= length - size:
            raise Unsupported(f"jax.{call.name} outside of the array")
        if size != length:
            places[k] = start
    return _updated(b, value, part, places, call.name == "scatter-add")


def _scattered(
    b: ProgramBuilder, call: AtenCall, value: ArrayValue, starts: ArrayValue, part: ArrayValue
) -> ArrayValue:
    """An array with parts written at vectors of indices: one element of each dimension that is indexed, and all of the
    others."""
    numbers, name = call["dimension_numbers"], f"jax.{call.name}"
    taken = [int(k) for k in numbers.scatter_dims_to_operand_dims]
    windows = [int(k) for k in numbers.update_window_dims]
    if numbers.operand_batching_dims or sorted(map(int, numbers.inserted_window_dims)) != sorted(taken):
        raise Unsupported(f"{name} of windows at computed positions, or of a batch, as jax.vmap makes it")
    if [b.length(part.dims[k]) for k in windows] != [b.length(d) for k, d in enumerate(value.dims) if k not in taken]:
        raise Unsupported(f"{name} to a part of the dimensions that are not indexed")
    outer = [k for k in range(len(part.dims)) if k not in windows]
    part = b.view(part, [part.dims[k] for k in (*outer, *windows)])
    places = {k: component(b, starts, j) for j, k in enumerate(taken)}
    if getattr(call.get("mode"), "name", "") == "CLIP":
        places = {k: _clipped(b, at, value.dims[k]) for k, at in places.items()}
    return written_at(b, name, value, places, part, _WRITES[call.name])


def _clipped(b: ProgramBuilder, at: ArrayValue, dim: Dimension) -> ArrayValue:
    return b.emit(at.dims, (*at.axes,), lambda env: elementwise.clip(env[at], 0, env.size(dim) - 1), "int")


def _updated(
    b: ProgramBuilder, value: ArrayValue, part: ArrayValue, starts: Mapping[int, Operand], added: bool
) -> ArrayValue:
    """An array in which a part is written, or added, from some positions on."""
    for k in range(len(value.dims)):
        if k not in starts:
            part = b.aligned(part, k, value.dims[k])
    read, inside = part, None
    for k, start in starts.items():
        dim = value.dims[k]
        size = b.length(part.dims[k])
        for factor in b.factors.resolve(part.dims[k]):
            b.factors.fix(factor.extent)
        here = _position(b, value, k, start, size)
        within = folded(b, [here], lambda p, size=size: (p >= 0) & (p < size), "bool", b.shape(here))
        inside = within if inside is None else folded(b, [inside, within], lambda p, q: p & q, "bool", here.dims)  # type: ignore[arg-type]
        read = _shifted(b, read, k, dim, here)
    if inside is None:
        return b.pointwise([value, read], lambda a, c: a + c, value.element) if added else read
    if added:
        return b.pointwise([inside, read, value], lambda i, c, a: elementwise.where(i, a + c, a), value.element)
    return b.pointwise([inside, read, value], elementwise.where, value.element)


def _position(b: ProgramBuilder, value: ArrayValue, k: int, start: Operand, size: int) -> ArrayValue:
    """The position along a dimension from where a part begins."""
    dim, rank = value.dims[k], len(value.dims)
    computed = isinstance(start, ArrayValue)

    def make(env: Environment) -> Any:
        first = elementwise.clip(env[start], 0, env.size(dim) - size) if computed else env[start]
        return env.index(dim) - first

    axes = (*dim, *start.axes) if isinstance(start, ArrayValue) else dim
    return b.emit([*[()] * k, dim, *[()] * (rank - k - 1)], axes, make, "int")


def _shifted(b: ProgramBuilder, part: ArrayValue, k: int, dim: Dimension, at: ArrayValue) -> ArrayValue:
    """A part along a longer dimension, read at positions; outside of it is 0."""
    if len(b.factors.resolve(part.dims[k])) > 1:
        part = b.joined_dimension(part, k)
    old = b.factors.resolve(part.dims[k])
    dims = [*part.dims[:k], dim, *part.dims[k + 1 :]]
    if not old:
        return b.view(part, [*part.dims[:k], (), *part.dims[k + 1 :]])
    full = b.materialized(part, [old])
    axes = [*(f for f in b.factors.resolve(full.axes) if f not in old), *at.axes]
    return b.emit(dims, axes, lambda env: env.read(env[full], [(old[0], env[at])], (), 0), part.element)
