"""Diagrams on NumPy arrays. A streamed axis runs in a loop over real blocks, a grouped axis in real tiles.

Values are arrays with named axes, so that a box that is weaved over further axes runs unchanged. Blocks and tiles of
inputs are views, and results are freed after their last use (liveness). So the memory that is allocated while a
streamed diagram runs does not grow with the streamed axis.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from fractions import Fraction
from random import Random
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import DTypeLike

from catdiag.category import ops
from catdiag.category.diagram import Diagram, HasDiagram, diagram_of
from catdiag.category.functor import interpret
from catdiag.category.ops import clamped, op_row
from catdiag.category.scalars import Apply, Cast, ScalarFunction, row
from catdiag.category.substitution import inline
from catdiag.category.traversal import nested_beyond
from catdiag.category.types import ArrayType, Size
from catdiag.execute.array_values import (
    checked_array,
    conform,
    elements_of,
    filled,
    float_type,
    length,
    owned,
    put_together,
)
from catdiag.execute.indexed_reads import view
from catdiag.execute.merge_trees import Tree, dealt
from catdiag.execute.named_arrays import NamedArray, contract
from catdiag.execute.scalar_functions import FUNCTIONS, REDUCTIONS
from catdiag.execute.size_inference import local_sizes, solve, tile_lengths
from catdiag.frontend.diagram_calls import call_diagram
from catdiag.frontend.tracing import Traced
from catdiag.util.errors import SizeError, TypeMismatch

Functions = Mapping[str, Callable[..., Any]]

# Nested calls of named boxes run as nested Python calls, up to this depth; deeper nests are inlined first.
_DEEPEST = 50


def run(
    diagram: Diagram | HasDiagram,
    arrays: Sequence[Any],
    tiles: Mapping[str, int] | None = None,
    dtype: DTypeLike | None = None,
    functions: Functions | None = None,
    sizes: Mapping[str, int] | None = None,
    tree: str | int | Random | None = None,
) -> Any:
    """The outputs of a diagram on arrays given in the order of its inputs: one as a bare array, several as a tuple.

    `tiles` gives the lengths of stream blocks and groups by symbol (`{"s_x": 64, "g_q": 128}`; the whole axis where
    left out) and the number of parts of split loops. `functions` gives the functions on arrays that `cd.apply` and
    uninterpreted boxes name. `sizes` gives the sizes that no input shows. With `tree`, a loop computes the state of
    each block separately and merges neighboring states: in a `"balanced"` tree, or in a random tree from a seed or a
    `random.Random`. Arrays may be nested lists. Computed in the common floating type of the inputs (float64 if there is
    none), or in `dtype`. An element that has no value, such as 0/0 or a comparison of it, is NaN; an output of integers
    or truth values is of floats then.

    >>> import catdiag as cd
    >>> total = cd.algorithm("q x")(lambda a: cd.sum(a, "x"))
    >>> run(total, [[[1, 2, 3], [4, 5, 6]]])
    array([ 6., 15.])

    Raises SizeError where shapes disagree with the types or with each other, or a tile is unknown or not positive.
    Raises TypeMismatch for a wrong number of arrays, wrong element types, or a function that is not given.
    """
    diagram = diagram_of(diagram)
    for array in arrays:
        if isinstance(array, Traced):  # arrays of an algorithm being built: no values, one more box
            return call_diagram(diagram, arrays)
    if nested_beyond(diagram, _DEEPEST):
        diagram = inline(diagram)
    names = diagram.input_names
    if len(arrays) != len(names):
        raise TypeMismatch(f"{len(arrays)} arrays were given: expected {len(names)} ({', '.join(names)})")
    raw = [checked_array(a, name) for a, name in zip(arrays, names, strict=True)]
    kind = float_type(raw, dtype)
    known = solve(diagram, [a.shape for a in raw], sizes or {})
    machine = Runner(kind, tile_lengths(diagram, tiles or {}), functions or {}, Tree.of(tree))
    values = [
        NamedArray(elements_of(a, ty, name, kind), ty.names)
        for a, ty, name in zip(raw, diagram.dom, names, strict=True)
    ]  # fmt: skip
    with np.errstate(all="ignore"):
        results = machine.diagram(diagram, values, known)
    outputs = tuple(owned(conform(v, ty, known), raw) for v, ty in zip(results, diagram.cod, strict=True))
    return outputs[0] if len(outputs) == 1 else outputs


class Runner:
    """What is fixed while a diagram runs: the floating type, tile lengths, user's functions, and merge order."""

    def __init__(
        self, kind: np.dtype[Any], tiles: Mapping[str, int], functions: Functions, tree: Tree | None = None
    ) -> None:
        self.kind, self.tiles, self.functions, self.tree = kind, tiles, functions, tree

    def diagram(
        self, diagram: Diagram, values: Sequence[NamedArray], sizes: Mapping[str, int]
    ) -> tuple[NamedArray, ...]:
        """The outputs of a diagram at the given sizes of symbols."""
        return interpret(diagram, values, lambda box, args: self.box(box, args, sizes))

    def box(self, box: ops.Box, args: tuple[NamedArray, ...], sizes: Mapping[str, int]) -> Sequence[NamedArray]:
        """The outputs of one box."""
        return op_row(BOXES, box, "run on NumPy arrays")(self, box.op, box, args, sizes)

    def real(self, data: Any) -> Any:
        """Floating results in the floating type of this run; integers and booleans unchanged."""
        if isinstance(data, np.integer):
            return int(data)  # a Python number takes the type of the arrays that it meets, NumPy's does not
        kind = data.dtype
        return data.astype(self.kind) if kind != self.kind and kind.kind == "f" else data

    def map(self, fn: ScalarFunction, args: tuple[NamedArray, ...], box: ops.Box) -> NamedArray:
        """A scalar function at every index. Raises SizeError where a user's function changes the shape."""
        order = _order(args, box.cod[0].names)
        if isinstance(fn, Apply):
            call: Callable[..., Any] = self.function(fn.name, box)
            result = np.asarray(call(*(np.asarray(a.over(order)) for a in args)))
            shape = np.broadcast_shapes(*(np.shape(a.over(order)) for a in args))
            if result.shape != shape:
                raise SizeError(
                    f"function {box.name!r} gave shape {result.shape} on arrays of shape {shape}: "
                    "expected a function applied at every index"
                )
            return NamedArray(self.real(result), order)
        if isinstance(fn, Cast):
            return args[0]
        return NamedArray(self.real(row(FUNCTIONS, fn, "run on NumPy arrays")(*(a.over(order) for a in args))), order)

    def reduce(self, op: ops.Reduce, array: NamedArray) -> NamedArray:
        """A monoid folded over one axis."""
        where = array.names.index(op.axis)
        kept = array.names[:where] + array.names[where + 1 :]
        data = array.data
        if op.monoid == "prod" and data.dtype.kind in "iu":
            data = data.astype(self.kind)  # integers would wrap around
        return NamedArray(REDUCTIONS[op.monoid](data, where), kept)

    def einsum(self, box: ops.Box, args: tuple[NamedArray, ...]) -> NamedArray:
        """The sum of products."""
        kept = set(box.cod[0].names)
        typed = {n for ty in box.dom for n in ty.names}
        operands = [NamedArray(np.asarray(a.data), a.names) for a in args]
        if any(a.data.dtype.kind == "f" for a in operands):
            operands = [NamedArray(a.data.astype(self.kind, copy=False), a.names) for a in operands]
        further = {n for a in args for n in a.names if n not in typed}
        result = contract(operands, [*kept, *further])
        return NamedArray(self.real(result.data), result.names)

    # -- loops -----------------------------------------------------------------------------------------

    def fold(
        self, op: ops.FoldOp, box: ops.Box, args: tuple[NamedArray, ...], sizes: Mapping[str, int]
    ) -> Sequence[NamedArray]:
        """Runs a loop over blocks of the streamed axis; the last block may be shorter.

        The blocks of a split loop are dealt out to its parts in order; a part without blocks is not merged. Emitted
        blocks are put together along the axis.
        """
        total = _axis_length(op.axis, box, args, sizes)
        count, block = self.parts_and_blocks(op, total)
        unit: Sequence[NamedArray] = self.diagram(op.unit, (), {**sizes, op.block: 0})

        def iteration(state: Sequence[NamedArray], bounds: tuple[int, int]) -> Sequence[NamedArray]:
            parts = [a.sliced(op.axis, *bounds) for a in args]
            local = local_sizes(sizes, {op.axis: (op.block, bounds[1] - bounds[0])})
            found = self.diagram(op.step, (*state, *parts), local)
            emitted.append(filled(found[op.state_count :], op.step.cod.arrays[op.state_count :], local))
            return found[: op.state_count]

        def merge(left: Sequence[NamedArray], right: Sequence[NamedArray]) -> Sequence[NamedArray]:
            return self.diagram(op.merge, (*left, *right), sizes)

        emitted: list[list[NamedArray]] = []
        if count == 1 and self.tree is None:
            state = unit
            for bounds in self.blocks(op, args, total, block, sizes):
                state = iteration(state, bounds)
            return (*state, *put_together(emitted, op.axis))
        states: list[Sequence[NamedArray]] = []
        for part in dealt(list(self.blocks(op, args, total, block, sizes)), count):
            if self.tree is not None:
                states.append(self.tree.merged([iteration(unit, bounds) for bounds in part], merge))
                continue
            states.append(unit)
            for bounds in part:
                states[-1] = iteration(states[-1], bounds)
        state = (self.tree or Tree()).merged(states, merge) if states else unit
        return (*state, *put_together(emitted, op.axis))

    def parts_and_blocks(self, op: ops.FoldOp, total: int) -> tuple[int, int]:
        """The number of parts of a loop over an axis of that length, and the length of its blocks."""
        count = min(self.tiles.get(op.parts, 1), total) if op.parts else 1
        longest = -(-total // count)
        return count, min(self.tiles.get(op.block, longest), longest)

    def blocks(
        self, op: ops.FoldOp, args: Sequence[NamedArray], total: int, block: int, sizes: Mapping[str, int]
    ) -> Iterator[tuple[int, int]]:
        """The bounds of the blocks that a loop runs: all, or those that its loop bounds and its mask test leave."""
        first, last = 0, total
        if op.bounds is not None:
            lo, hi = self.diagram(op.bounds, args, {**sizes, op.block: total})
            if np.size(lo.data) and np.size(hi.data):
                first, last = max(0, int(np.min(lo.data))), min(total, int(np.max(hi.data)))
        for start in range(first // block * block, last, block):
            stop = min(start + block, total)
            if op.block_test is not None:
                parts = [a.sliced(op.axis, start, stop) for a in args]
                (live,) = self.diagram(op.block_test, parts, local_sizes(sizes, {op.axis: (op.block, stop - start)}))
                if not np.any(live.data):
                    continue
            yield start, stop

    def group(
        self, op: ops.GroupOp, box: ops.Box, args: tuple[NamedArray, ...], sizes: Mapping[str, int]
    ) -> Sequence[NamedArray]:
        """Runs the body on each tile, and writes the tiles into results allocated beforehand, or adds them to these."""
        totals = {axis: _axis_length(axis, box, args, sizes) for axis, _ in op.tiles}
        outputs: list[NamedArray] = []
        steps = [min(self.tiles.get(symbol, totals[axis]), totals[axis]) for axis, symbol in op.tiles]
        counts = [-(-totals[axis] // step) for (axis, _), step in zip(op.tiles, steps, strict=True)]
        for place in np.ndindex(*counts):
            cuts: dict[str, tuple[str, int]] = {}
            bounds: dict[str, slice] = {}
            parts = args
            for (axis, symbol), step, k in zip(op.tiles, steps, place, strict=True):
                start, stop = k * step, min((k + 1) * step, totals[axis])
                cuts[axis], bounds[axis] = (symbol, stop - start), slice(start, stop)
                parts = tuple(a.sliced(axis, start, stop) for a in parts)
            local = local_sizes(sizes, cuts)
            results = self.diagram(op.body, parts, local)
            tiles = [
                NamedArray(conform(r, ty, local), (*(n for n in r.names if ty.axis(n) is None), *ty.names))
                for r, ty in zip(results, op.body.cod, strict=True)
            ]
            del results
            if not outputs:
                for tile, ty in zip(tiles, op.body.cod, strict=True):
                    shape = [totals.get(n, k) for n, k in zip(tile.names, tile.data.shape, strict=True)]
                    outputs.append(NamedArray(np.zeros(shape, self.tile_dtype(ty, tile.data)), tile.names))
            for output, tile, lacking in zip(outputs, tiles, op.accumulated(), strict=True):
                if output.data.dtype.kind != "f" and np.asarray(tile.data).dtype.kind == "f":
                    output.data = output.data.astype(self.kind)  # NaN in this tile marks entries without a value
                place_of = tuple(bounds.get(n, slice(None)) for n in tile.names)
                output.data[place_of] = output.data[place_of] + tile.data if lacking else tile.data
        return outputs

    def tile_dtype(self, ty: ArrayType, data: Any) -> np.dtype[Any]:
        """The element type of an array that tiles are written into; a tile of a constant alone may hold integers."""
        return self.kind if ty.element in ("real", "extended") else np.asarray(data).dtype

    # -- the user's functions -----------------------------------------------------------------------------

    def function(self, name: str, box: ops.Box) -> Callable[..., Any]:
        """The user's function of that name. Raises TypeMismatch if it was not given."""
        if name not in self.functions:
            raise TypeMismatch(
                f"{name!r} is uninterpreted and has no values: expected a function for it, "
                f"as in program.run(*arrays, functions={{{name!r}: np.sin}})",
                box.line,
            )
        return self.functions[name]

    def generic(
        self, op: ops.Generic, box: ops.Box, args: tuple[NamedArray, ...], sizes: Mapping[str, int]
    ) -> Sequence[NamedArray]:
        """A user's box: its function on arrays in the layout of the box's types, with weaved axes in front. Raises
        TypeMismatch for another number of results, SizeError for another shape, than the types say."""
        arrays = [conform(a, ty, sizes) for a, ty in zip(args, box.dom, strict=True)]
        lengths = {a.name: k for ty, v in zip(box.dom, arrays, strict=True)
                   for a, k in zip(ty.axes, v.shape, strict=True)}  # fmt: skip
        results = self.function(op.name, box)(*arrays)
        results = results if isinstance(results, (tuple, list)) else (results,)
        if len(results) != len(box.cod):
            raise TypeMismatch(
                f"the function of {op.name!r} gave {len(results)} outputs: expected {len(box.cod)}", box.line
            )
        outputs: list[NamedArray] = []
        for result, ty in zip(map(np.asarray, results), box.cod, strict=True):
            shape = tuple(lengths[a.name] if a.name in lengths else length(a.size, sizes) for a in ty.axes)
            if result.shape != shape:
                raise SizeError(
                    f"the function of {op.name!r} gave shape {result.shape}: expected {shape}, for {ty}", box.line
                )
            outputs.append(NamedArray(self.real(result), ty.names))
        return outputs


def _lengths(sizes: Mapping[str, int]) -> Callable[[Size], int]:
    return lambda size: length(size, sizes)


def _viewed(run: Runner, op: ops.View, box: ops.Box, args: Arrays, sizes: Mapping[str, int]) -> Sequence[NamedArray]:
    made = view(op, box, args, _lengths(sizes))
    return [NamedArray(run.real(made.data), made.names)]


Arrays: TypeAlias = tuple[NamedArray, ...]
BOXES: Mapping[type[ops.Op], Callable[[Runner, Any, ops.Box, Arrays, Mapping[str, int]], Sequence[NamedArray]]] = {
    ops.Map: lambda run, op, box, args, sizes: [run.map(op.fn, args, box)],
    ops.Reduce: lambda run, op, box, args, sizes: [run.reduce(op, args[0])],
    ops.Einsum: lambda run, op, box, args, sizes: [run.einsum(box, args)],
    ops.Const: lambda run, op, box, args, sizes: [NamedArray(_constant(op.value, run.kind), ())],
    ops.SizeOf: lambda run, op, box, args, sizes: [NamedArray(length(op.size, sizes), ())],
    ops.Index: lambda run, op, box, args, sizes: [
        NamedArray(np.arange(_axis_length(op.axis, box, args, sizes)), (op.axis,))
    ],
    ops.Rename: lambda run, op, box, args, sizes: [_rename(op, box, args[0], sizes)],
    ops.Reindex: lambda run, op, box, args, sizes: [_reindex(op, args, sizes)],
    ops.View: _viewed,
    ops.Call: lambda run, op, box, args, sizes: filled(run.diagram(op.body, args, sizes), box.cod, sizes),
    ops.FoldOp: lambda run, op, box, args, sizes: filled(run.fold(op, box, args, sizes), box.cod, sizes),
    ops.GroupOp: lambda run, op, box, args, sizes: run.group(op, box, args, sizes),
    ops.Generic: lambda run, op, box, args, sizes: run.generic(op, box, args, sizes),
}
"""How each operation is run: the runner, the operation, its box, its inputs and the sizes, to the outputs."""


def _constant(value: Fraction | None, kind: np.dtype[Any]) -> float | int:
    """A Python number, which takes the type of the arrays that it meets; larger values are clamped to the largest
    float.
    """
    if value is None:
        return -float("inf")
    exact = value.denominator == 1 and -(2**53) <= value.numerator <= 2**53
    if exact:
        return int(value)
    largest = min(float(np.finfo(kind).max), float(np.finfo(np.float64).max))
    return clamped(value, largest)


def _rename(op: ops.Rename, box: ops.Box, array: NamedArray, sizes: Mapping[str, int]) -> NamedArray:
    pairs = dict(op.pairs)
    renamed = tuple(pairs.get(n, n) for n in array.names)
    kept = {pairs.get(n, n) for n in box.dom[0].names}
    new = [a for a in box.cod[0].axes if a.name not in kept]
    if not new:
        return NamedArray(array.data, renamed)
    shape = [*(length(a.size, sizes) for a in new), *np.shape(array.data)]
    return NamedArray(np.broadcast_to(array.data, shape), (*(a.name for a in new), *renamed))


def _reindex(op: ops.Reindex, args: Sequence[NamedArray], sizes: Mapping[str, int]) -> NamedArray:
    """A structural map: a reshape, a slice as a view, or a concatenation."""
    first, parts = args[0], op.axis.parts
    if op.kind == "merge":
        own = tuple(p.name for p in parts)
        rest = tuple(n for n in first.names if n not in own)
        data = first.over((*rest, *own))
        return NamedArray(data.reshape((*data.shape[: len(rest)], -1)), (*rest, op.axis.name))
    if op.kind == "concat":
        extent = {n: k for a, p in zip(args, parts, strict=True) for n, k in a.lengths().items() if n != p.name}
        tiles = []
        for array, part in zip(args, parts, strict=True):
            # Renamed to the concatenated axis: a weaved axis of another array may have the name of the part.
            names = tuple(op.axis.name if n == part.name else n for n in array.names)
            data = NamedArray(array.data, names).over((*extent, op.axis.name))
            tiles.append(np.broadcast_to(data, (*extent.values(), data.shape[-1])))
        return NamedArray(np.concatenate(tiles, axis=-1), (*extent, op.axis.name))
    where = first.names.index(op.axis.name)
    lengths = [length(p.size, sizes) for p in parts]
    names = (*first.names[:where], *(a.name for a in op.added_axes()), *first.names[where + 1 :])
    if op.kind == "split":
        shape = first.data.shape
        return NamedArray(first.data.reshape((*shape[:where], *lengths, *shape[where + 1 :])), names)
    start = sum(lengths[: op.place])
    return NamedArray(first.sliced(op.axis.name, start, start + lengths[op.place]).data, names)


def _order(
    args: Sequence[NamedArray], last: tuple[str, ...], without: set[str] | frozenset[str] = frozenset()
) -> tuple[str, ...]:
    """The names of the axes of some arrays: first the weaved ones, then those of the box's type in its layout."""
    if len(args) == 1 and args[0].names == last and not without:
        return last
    found = dict.fromkeys(n for a in args for n in a.names)
    return (*(n for n in found if n not in last and n not in without), *(n for n in last if n in found))


def _axis_length(axis: str, box: ops.Box, args: Sequence[NamedArray], sizes: Mapping[str, int]) -> int:
    for array in args:
        if axis in array.names:
            return array.lengths()[axis]
    return length(box.size_of(axis), sizes)
