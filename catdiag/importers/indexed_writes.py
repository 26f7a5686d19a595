"""Elements written to, added to, or compared with those of an array at computed positions.

An element of the result reads all that is written, where the positions are its own: Σ_s [at(s) = p]·source(s). What is
written beyond the ends is nowhere.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from catdiag.frontend import builder as frontend
from catdiag.frontend import elementwise
from catdiag.importers.dimensions import Dimension
from catdiag.importers.imported_values import ArrayValue
from catdiag.importers.program_builder import ProgramBuilder
from catdiag.importers.torch_calls import Unsupported
from catdiag.importers.torch_elementwise import integer

_REDUCTIONS: Mapping[str, tuple[Callable[..., Any], Callable[..., Any]]] = {
    "add": (frontend.sum, lambda a, c: a + c),
    "mul": (frontend.prod, lambda a, c: a * c),
    "max": (frontend.max, elementwise.maximum),
    "min": (frontend.min, elementwise.minimum),
}
"""How all that is written to one element is reduced, and put together with what was there."""


def combined(b: ProgramBuilder, name: str, value: ArrayValue, hit: ArrayValue, source: Any, how: str) -> ArrayValue:
    """An array with what is written: `hit` and `source` have the dimensions of `value`, then those of what is written.

    `how` is set, add, mul, max or min. Where nothing is written the array stays; a maximum is one with it.
    """
    over = list(range(len(value.dims), len(hit.dims)))
    one = "add" if how == "set" else how
    if one not in _REDUCTIONS:
        raise Unsupported(f"{name} with the reduction {how}: expected add, mul, max or min")
    reduce, put_together = _REDUCTIONS[one]
    number: Any = 1 if one == "mul" else 0
    unit: Any = integer(number) if value.element == "int" else number
    if one in ("max", "min"):  # what is there takes part, so that it may stand for what is not written
        unit = b.view(value, [*value.dims, *[()] * len(over)])
    put = b.pointwise([hit, source, unit], elementwise.where, value.element)
    total = b.reduced(put, over, False, reduce)
    if how in ("add", "mul") and value.number == number:
        return total
    if how != "set":
        return b.pointwise([value, total], put_together, value.element)
    b.notes.append(f"{name}: no element is written twice{b.at}")
    written = b.reduced(hit, over, False, frontend.any, "bool")
    return b.pointwise([written, total, value], elementwise.where, value.element)


def written_at(
    b: ProgramBuilder, name: str, value: ArrayValue, places: Mapping[int, ArrayValue], source: Any, how: str
) -> ArrayValue:
    """An array in which, at positions along some dimensions, parts are written that have its other dimensions.

    `places` are broadcast against each other; `source` has their dimensions, then those of the array that are not
    among `places`, or is a number.
    """
    rank, unwritten = len(value.dims), [k for k in range(len(value.dims)) if k not in places]
    lined, dims = _together(b, value, list(places.values()))
    count = len(dims)
    if isinstance(source, ArrayValue):
        source = _aligned(b, source, [*dims, *(value.dims[k] for k in unwritten)])
        rest = iter(source.dims[count:])
        source = b.view(source, [*(next(rest) if k in unwritten else () for k in range(rank)), *source.dims[:count]])
    hit = None
    for k, at in zip(places, lined, strict=True):
        dim = value.dims[k]
        here = _positions(b, dim, k, rank + count)
        same = b.pointwise([here, b.view(at, [*[()] * rank, *at.dims])], lambda p, q: p == q, "bool")
        hit = same if hit is None else b.pointwise([hit, same], lambda p, q: p & q, "bool")
    assert hit is not None  # there is a place
    return combined(b, name, value, hit, source, how)


def _together(
    b: ProgramBuilder, value: ArrayValue, places: Sequence[ArrayValue]
) -> tuple[list[ArrayValue], list[Dimension]]:
    """Arrays of positions broadcast against each other, without an axis of the array that they are positions in, and
    the dimensions that they have together."""
    lined, outer = b.broadcast(places)
    ours = set(b.factors.resolve(f for d in value.dims for f in d))
    dims: list[Dimension] = [()] * len(outer)
    found = []
    for one in lined:
        at = b.view(one, [*[()] * (len(outer) - len(one.dims)), *one.dims])
        for j in range(len(outer)):
            if b.length(at.dims[j]) == 1:
                continue
            if dims[j]:
                at = b.aligned(at, j, dims[j])
            elif ours & set(b.factors.resolve(at.dims[j])):
                at = b.fresh(at, at.dims[j])
            dims[j] = at.dims[j]
        found.append(at)
    return found, dims


def _positions(b: ProgramBuilder, dim: Dimension, k: int, rank: int) -> ArrayValue:
    """The positions along a dimension, which is number k of so many."""
    return b.emit([dim if j == k else () for j in range(rank)], dim, lambda env: env.index(dim), "int")


def _aligned(b: ProgramBuilder, value: ArrayValue, dims: Sequence[Any]) -> ArrayValue:
    """A value whose dimensions are these where it is as long; those of length 1 stay."""
    for k, dim in enumerate(dims):
        if b.length(value.dims[k]) > 1:
            value = b.aligned(value, k, dim)
    return value
