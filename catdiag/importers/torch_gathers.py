"""What PyTorch's operations that read or write at arrays of indices mean in named axes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from catdiag.frontend import builder as frontend
from catdiag.frontend import elementwise
from catdiag.frontend.indexing import gather, indexed
from catdiag.frontend.tracing import running
from catdiag.importers.dimensions import Dimension, product_of, same_size
from catdiag.importers.imported_values import ArrayValue, Environment
from catdiag.importers.indexed_writes import combined, written_at
from catdiag.importers.positions import NotPositional, Positions
from catdiag.importers.program_builder import ProgramBuilder
from catdiag.importers.torch_calls import AtenCall, Rule, Unsupported, adding, place
from catdiag.importers.torch_shapes import in_range, slice_one

RULES: dict[str, Rule] = {}
rule = adding(RULES)


@rule("embedding")
def _embedding(b: ProgramBuilder, call: AtenCall) -> ArrayValue:
    return _gathered(b, call["weight"], 0, call["indices"])


_OF_BAGS = (frontend.sum, frontend.mean, frontend.max)
"""Reductions of bags, by the number of their mode."""


@rule("embedding_bag")
def _embedding_bag(b: ProgramBuilder, call: AtenCall) -> tuple[ArrayValue, ...]:
    """Rows of a table added up in bags of one length, as a matrix of indices has them."""
    at, offsets, weights = call["indices"], call["offsets"], call.get("per_sample_weights")
    count, length = b.length(offsets.dims[0]), b.length(at.dims[0])
    try:
        starts = b.positions(offsets)
    except NotPositional:
        starts = None
    steps = list(starts.terms.values()) if isinstance(starts, Positions) and starts.offset == 0 else None
    alike = steps == ([length // count] if count > 1 else []) and count * (length // count) == length
    if not alike or call.get("include_last_offset") or call.get("padding_idx") is not None:
        raise Unsupported("embedding_bag of bags that are given by offsets, or with padding: pass a matrix of indices")
    rows = _gathered(b, call["weight"], 0, b.divided(at, 0, [count, length // count]))
    if weights is not None:
        weights = b.divided(weights, 0, [count, length // count])
        rows = b.pointwise([rows, b.view(weights, [*weights.dims, ()])], lambda a, w: a * w)
    return (b.reduced(rows, [1], False, _OF_BAGS[call.get("mode", 0)]),)


@rule("_grouped_mm", "grouped_mm", "grouped_mm_fallback")
def _grouped_products(b: ProgramBuilder, call: AtenCall) -> ArrayValue:
    """Rows multiplied with the matrix of their group, as experts have one each; `offs` are where groups end."""
    rows, weights, ends = (call.get(n, call.get(m)) for n, m in (("self", "input"), ("mat2", "weight"), ("offs", "")))
    if ends is None or len(rows.dims) != 2 or len(weights.dims) != 3 or call.get("bias") is not None:
        raise Unsupported(f"{call.name} of other than rows, a matrix for each group, and where groups end")
    ends = b.materialized(b.aligned(ends, 0, weights.dims[0]), ends.dims)

    def group(env: Environment) -> Any:
        one, zero = (running().lift(n, element="int") for n in (1, 0))
        before = elementwise.where(env[ends] <= env.index(rows.dims[0]), one, zero)
        return frontend.sum(before, env.of(ends.dims[0]))

    at = b.emit([rows.dims[0]], rows.dims[0], group, "int")
    return b.einsum([rows, _gathered(b, weights, 0, at)], [["t", "k"], ["t", "k", "n"]], ["t", "n"])


@rule("index_select")
def _index_select(b: ProgramBuilder, call: AtenCall) -> ArrayValue:
    return _gathered(b, call["self"], place(call["self"], call["dim"]), call["index"])


@rule("diagonal", "trace")
def _diagonal(b: ProgramBuilder, call: AtenCall) -> ArrayValue:
    value, offset = call["self"], call.get("offset", 0)
    rows, columns = place(value, call.get("dim1", 0)), place(value, call.get("dim2", 1))
    lengths = b.shape(value)
    traced = b.is_traced(value.dims[rows]) or b.is_traced(value.dims[columns])
    if traced and (offset or not _are_square(b, value, rows, columns)):
        raise Unsupported("a diagonal of a matrix that is not square, or beside the main one, at traced lengths")
    if offset or lengths[rows] != lengths[columns]:
        count = min(lengths[rows] + min(offset, 0), lengths[columns] - max(offset, 0))
        value = b.part(b.part(value, rows, max(-offset, 0), count), columns, max(offset, 0), count)
    found = b.diagonal(value, rows, columns)
    last = rows - (columns < rows)
    if call.name == "trace":
        return b.reduced(found, [last], False, frontend.sum)
    return b.view(found, [*found.dims[:last], *found.dims[last + 1 :], found.dims[last]])


def _are_square(b: ProgramBuilder, value: ArrayValue, rows: int, columns: int) -> bool:
    extents = [product_of([f.extent for f in b.factors.resolve(value.dims[k])]) for k in (rows, columns)]
    return same_size(*extents)


@rule("index")
def _index(b: ProgramBuilder, call: AtenCall) -> ArrayValue:
    table = call["self"]
    given = [(k, v) for k, v in enumerate(call["indices"]) if v is not None]
    if any(v.element != "int" for _, v in given):
        raise Unsupported("indexing by an array of truth values, whose result has a length that depends on it")
    if len(given) == 1:
        k, at = given[0]
        if at.number is not None and at.number < 0 and not b.factors.resolve(f for d in at.dims for f in d):
            one = b.selected(table, k, int(at.number))
            return b.view(one, [*one.dims[:k], *at.dims, *one.dims[k:]])
    if not all(_from_start(at) for _, at in given):
        b.notes.append(f"an array of integers that is read at is taken for one without negative ones{b.at}")
    return _gathered(b, table, *given[0]) if len(given) == 1 else _gathered_together(b, table, given)


def _from_start(at: ArrayValue) -> bool:
    """Whether integers are known to count from the start: negative ones count from the end."""
    if at.positions is not None:
        return min((at.positions.offset, *at.positions.terms.values())) >= 0
    return at.number is not None and at.number >= 0


def _from_end_too(b: ProgramBuilder, at: ArrayValue, dim: Dimension) -> ArrayValue:
    """Positions along a dimension, of which negative ones count from its end, all from its start."""
    make = lambda env: elementwise.where(env[at] < 0, env[at] + env.size(dim), env[at])  # noqa: E731
    return b.emit(at.dims, at.axes, make, "int")


def _gathered_together(b: ProgramBuilder, table: ArrayValue, given: Sequence[tuple[int, ArrayValue]]) -> ArrayValue:
    """The elements of a table at several arrays of integers that are broadcast against each other. Their dimensions
    come in place of those that are read if these stand together, else first."""
    taken = [k for k, _ in given]
    lined, dims = b.broadcast([v for _, v in given])
    whole = [_all_positions(b, at, table.dims[k]) for k, at in zip(taken, lined, strict=True)]
    if None not in whole and len({d for d in whole if d}) == sum(map(bool, whole)):
        b.values.append(ArrayValue(tuple(dims), ()))  # what has all of these dimensions: they stay apart
        for k, dim in zip(taken, whole, strict=True):
            table = b.aligned(table, k, dim or ())
        rest = [d for k, d in enumerate(table.dims) if k not in taken]
        first = taken[0] if taken == list(range(taken[0], taken[0] + len(taken))) else 0
        return b.view(table, [*rest[:first], *dims, *rest[first:]])
    table = b.materialized(table, [table.dims[k] for k in taken])
    rest = [d for k, d in enumerate(table.dims) if k not in taken]
    # What the indices have and the table keeps is renamed on the table: it is read at all of its positions.
    shared = set(b.factors.resolve(f for d in dims for f in d))
    for dim in table.dims:
        if shared & set(b.factors.resolve(dim)):
            table = b.fresh(table, tuple(f for f in b.factors.resolve(dim) if f in shared))
    rest = [d for k, d in enumerate(table.dims) if k not in taken]
    together = taken == list(range(taken[0], taken[0] + len(taken)))
    first = taken[0] if together else 0
    old = [b.factors.resolve(table.dims[k]) for k in taken]
    gone = {f for d in old for f in d}
    axes = [*(f for f in b.factors.resolve(table.axes) if f not in gone), *(f for v in lined for f in v.axes)]

    def make(env: Environment) -> Any:
        array, positions = env[table], {}
        for dim, at in zip(old, lined, strict=True):
            if dim:
                array, name = env.merged(array, dim)
                positions[name] = env[at]
        return indexed(running(), array, (), positions) if positions else array

    return b.emit([*rest[:first], *dims, *rest[first:]], axes, make, table.element)


def _all_positions(b: ProgramBuilder, at: ArrayValue, dim: Dimension) -> Dimension | None:
    """The dimension along which integers are 0, 1, … up to the length of `dim`, which they read whole; none of length
    1. None for other integers."""
    known = at.positions.mapped(b.factors.resolve) if at.positions is not None else None
    if at.number == 0 and b.length(dim) == 1:
        return ()
    if known is None or known.offset or list(known.terms.values()) != [1]:
        return None
    (along,) = known.terms
    return along if b.length(along) == b.length(dim) else None


def _gathered(b: ProgramBuilder, table: ArrayValue, k: int, at: ArrayValue) -> ArrayValue:
    """The rows of a table along dimension k at integers, whose dimensions come in its place."""
    if len(b.factors.resolve(table.dims[k])) > 1:
        table = b.joined_dimension(table, k)
    full = b.materialized(table, [table.dims[k]])
    rest = {f for j, d in enumerate(full.dims) if j != k for f in b.factors.resolve(d)}
    old = b.factors.resolve(full.dims[k])
    for dim in at.dims:
        if (rest | set(old)) & set(b.factors.resolve(dim)):
            at = b.fresh(at, dim)
    dims = [*full.dims[:k], *at.dims, *full.dims[k + 1 :]]
    axes = [*(f for f in b.factors.resolve(full.axes) if f not in old), *(at.axes if old else ())]
    return b.emit(dims, axes, lambda env: _rows(env, full, old, at), table.element)


@rule("gather")
def _gather(b: ProgramBuilder, call: AtenCall) -> ArrayValue:
    value, k, at = call["self"], place(call["self"], call["dim"]), call["index"]
    for j in range(len(value.dims)):
        if j != k:
            length = b.length(at.dims[j])
            if length != b.length(value.dims[j]):  # the first of them are read
                value = b.part(value, j, 0, length) if length > 1 else slice_one(b, value, j, 0)
            at = b.aligned(at, j, value.dims[j])
    if len(b.factors.resolve(value.dims[k])) > 1:
        value = b.joined_dimension(value, k)
    old = b.factors.resolve(value.dims[k])
    if set(old) & set(b.factors.resolve(at.dims[k])):
        at = b.fresh(at, at.dims[k])
    axes = [*(f for f in b.factors.resolve(value.axes) if f not in old), *(at.axes if old else ())]
    dims = [at.dims[k] if j == k else d for j, d in enumerate(value.dims)]
    return b.emit(dims, axes, lambda env: _rows(env, value, old, at), value.element)


@rule("scatter", "scatter_add")
def _scatter(b: ProgramBuilder, call: AtenCall) -> ArrayValue:
    value, k, at, source = call["self"], place(call["self"], call["dim"]), call["index"], call.get("src")
    if call.get("reduce") is not None or any(
        b.length(d) != b.length(e) for j, (d, e) in enumerate(zip(value.dims, at.dims, strict=True)) if j != k
    ):
        raise Unsupported(f"{call.name} with a reduction, or at fewer indices than there are")
    for j in range(len(value.dims)):
        at = at if j == k else b.aligned(at, j, value.dims[j])
    how = "add" if call.name == "scatter_add" else "set"
    return _put(b, call, value, k, at, call["value"] if source is None else source, how)


_REDUCTIONS = {"sum": "add", "prod": "mul", "amax": "max", "amin": "min"}


@rule("scatter_reduce")
def _scatter_reduce(b: ProgramBuilder, call: AtenCall) -> ArrayValue:
    how, value, k = _REDUCTIONS.get(call["reduce"]), call["self"], place(call["self"], call["dim"])
    if how is None or not call.get("include_self", True):
        raise Unsupported("scatter_reduce with mean, or without what is there: expected sum, prod, amax or amin")
    at, source = call["index"], call["src"]
    if any(b.length(d) != b.length(e) for j, (d, e) in enumerate(zip(value.dims, at.dims, strict=True)) if j != k):
        raise Unsupported("scatter_reduce at fewer indices than there are")
    for j in range(len(value.dims)):
        at = at if j == k else b.aligned(at, j, value.dims[j])
    return _put(b, call, value, k, at, source, how)


@rule("index_add", "index_copy")
def _index_add(b: ProgramBuilder, call: AtenCall) -> ArrayValue:
    value, source = call["self"], call["source"]
    k, alpha = place(value, call["dim"]), call.get("alpha", 1)
    at = in_range(b, call["index"], value.dims[k])
    if alpha != 1:
        source = b.pointwise([source], lambda a: a * alpha, source.element)
    for j in range(len(value.dims)):
        source = source if j == k else b.aligned(source, j, value.dims[j])
    dims = at.dims or ((),)
    at = b.view(at, [dims[0] if j == k else () for j in range(len(value.dims))])
    return _put(b, call, value, k, at, source, "add" if call.name == "index_add" else "set")


@rule("index_put")
def _index_put(b: ProgramBuilder, call: AtenCall) -> ArrayValue:
    value, source, adds = call["self"], call["values"], bool(call.get("accumulate", False))
    given = [(k, at) for k, at in enumerate(call["indices"]) if at is not None]
    k, at = given[0]
    if len(given) > 1 or (at.element == "int" and len(at.dims) != 1):
        return _written(b, call, dict(given), source, "add" if adds else "set")
    if at.element != "bool":
        if not _from_start(at):
            at = _from_end_too(b, at, value.dims[k])
        lined, _ = b.broadcast([b.view(value, [*value.dims[:k], at.dims[0], *value.dims[k + 1 :]]), source])
        source = b.view(lined[1], [*[()] * (len(value.dims) - len(lined[1].dims)), *lined[1].dims])
        at = b.view(at, [at.dims[0] if j == k else () for j in range(len(value.dims))])
        return _put(b, call, value, k, at, source, "add" if adds else "set")
    if any(b.length(d) > 1 for d in source.dims):
        raise Unsupported("writes of several elements at an array of truth values: their number depends on it")
    source = b.view(source, [])
    mask = b.view(at, [*[()] * k, *at.dims, *[()] * (len(value.dims) - k - len(at.dims))])
    change = (lambda m, s, a: elementwise.where(m, a + s, a)) if adds else elementwise.where
    return b.pointwise([mask, source, value], change, value.element)


def _written(
    b: ProgramBuilder, call: AtenCall, places: Mapping[int, ArrayValue], source: ArrayValue, how: str
) -> ArrayValue:
    """A value with what is written at several arrays of indices, or at one of several dimensions."""
    value, taken = call["self"], list(places)
    if any(at.element != "int" for at in places.values()):
        raise Unsupported("writes at arrays of truth values, several or with others")
    places = {k: at if _from_start(at) else _from_end_too(b, at, value.dims[k]) for k, at in places.items()}
    count = max(len(at.dims) for at in places.values())
    # The dimensions of the indices come in place of those that are written at if these stand together, else first.
    first = taken[0] if taken == list(range(taken[0], taken[0] + len(taken))) else 0
    missing = count + len(value.dims) - len(taken) - len(source.dims)
    dims = [*[()] * missing, *source.dims]
    source = b.view(source, [*dims[first : first + count], *dims[:first], *dims[first + count :]])
    return written_at(b, call.name, value, places, source, how)


def _put(
    b: ProgramBuilder, call: AtenCall, value: ArrayValue, k: int, at: ArrayValue, source: Any, how: str
) -> ArrayValue:
    """A value in which, or to which, the elements of another array are written or added at integers along dimension k,
    as `how` says; all have as many dimensions."""
    if set(b.factors.resolve(value.dims[k])) & set(b.factors.resolve(at.dims[k])):
        at = b.fresh(at, at.dims[k])
    if isinstance(source, ArrayValue):
        for j in range(len(value.dims)):
            source = b.aligned(source, j, at.dims[j])
    last, dim = at.dims[k], value.dims[k]

    def turned(given: Any) -> Any:  # what is written, last
        return (
            b.view(given, [*given.dims[:k], (), *given.dims[k + 1 :], last]) if isinstance(given, ArrayValue) else given
        )

    here = b.emit([*[()] * k, dim, *[()] * (len(value.dims) - k)], dim, lambda env: env.index(dim), "int")
    hit = b.pointwise([here, turned(at)], lambda p, q: p == q, "bool")
    return combined(b, call.name, value, hit, turned(source), how)


def picked(b: ProgramBuilder, value: ArrayValue, k: int, at: ArrayValue) -> ArrayValue:
    """The element along dimension k at an integer for each index of the others."""
    old = b.factors.resolve(value.dims[k])
    axes = [*(f for f in b.factors.resolve(value.axes) if f not in old), *(at.axes if old else ())]
    dims = [d for j, d in enumerate(value.dims) if j != k]
    return b.emit(dims, axes, lambda env: _rows(env, value, old, at), value.element)


def _rows(env: Environment, table: ArrayValue, old: Dimension, at: ArrayValue) -> Any:
    array, name = env.merged(env[table], old)
    return gather(array, name, env[at]) if old else array
