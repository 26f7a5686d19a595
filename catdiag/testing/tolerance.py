"""The outputs of a diagram at given arrays, with error bounds (tolerances) for any correctly rounded kernel.

The diagram is interpreted in the arithmetic of `catdiag.testing.error_bounds`: each box maps values and their error
bounds. Values are computed in a type with more digits than the kernel's. Loops run with their axis as one block, and
groups as one tile: the bounds of sums hold for any order, any blocks and any reduction tree.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np

from catdiag.category import ops
from catdiag.category.diagram import Diagram
from catdiag.category.functor import interpret
from catdiag.category.op_facts import reduced_axes, scalar_function
from catdiag.category.ops import op_row
from catdiag.category.scalars import Apply, Cast, ScalarFunction
from catdiag.category.types import Ty
from catdiag.execute.array_values import conform, length
from catdiag.execute.indexed_reads import view
from catdiag.execute.interpreter import Runner
from catdiag.execute.named_arrays import NamedArray
from catdiag.execute.size_inference import solve
from catdiag.testing.error_bounds import BoundedArray, Rounding
from catdiag.testing.float_formats import format_of


def error_bounds(
    diagram: Diagram,
    arrays: Sequence[Any],
    rounding: Rounding,
    functions: Mapping[str, Callable[..., Any]] | None = None,
    sizes: Mapping[str, int] | None = None,
) -> list[BoundedArray]:
    """For each output its values, and a bound on the error that a correct kernel may have at each of them.

    >>> import catdiag as cd
    >>> fp32, wide = format_of("fp32"), np.dtype(np.float64)
    >>> total = cd.algorithm("x ->")(lambda a: cd.sum(a, "x"))
    >>> (found,) = error_bounds(total, [np.full(100, 0.1)], Rounding(fp32, fp32, wide))
    >>> bool(abs(found.values - 10) < 1e-12), bool(1e-5 < found.errors < 1e-3)
    (True, True)

    Raises SizeError and TypeMismatch as `run` does.
    """
    shapes = [np.shape(a) for a in arrays]
    known = solve(diagram, shapes, sizes or {})
    values = []
    for array, ty in zip(arrays, diagram.dom, strict=True):
        data = np.asarray(array)
        if ty.element in ("int", "bool"):
            exact = data.astype(bool if ty.element == "bool" else rounding.reference)
            values.append(BoundedArray(exact, np.zeros(data.shape), ty.names, given=True))
        else:
            values.append(rounding.taken(data.astype(rounding.reference), ty.names))
    reading = _ErrorAnalysis(rounding, functions or {})
    with np.errstate(all="ignore"):
        results = reading.diagram(diagram, values, known)
        outputs = []
        for r, ty in zip(results, diagram.cod, strict=True):
            v, e = (conform(NamedArray(part, r.names), ty, known) for part in (r.values, np.asarray(r.errors, float)))
            outputs.append(BoundedArray(v, e, ty.names, r.is_input))
        return outputs


class _ErrorAnalysis:
    """What is fixed while a diagram is interpreted."""

    def __init__(self, rounding: Rounding, functions: Mapping[str, Callable[..., Any]]) -> None:
        self.rounding, self.functions = rounding, functions
        self.runner = Runner(rounding.reference, {}, functions)

    def diagram(
        self, diagram: Diagram, values: Sequence[BoundedArray], sizes: Mapping[str, int]
    ) -> tuple[BoundedArray, ...]:
        """The outputs of a diagram at the given sizes of symbols."""
        return interpret(diagram, values, lambda box, args: self.box(box, args, sizes))

    def box(self, box: ops.Box, args: tuple[BoundedArray, ...], sizes: Mapping[str, int]) -> Sequence[BoundedArray]:
        """The outputs of one box.

        Sums of an output may be rescaled (as in an online softmax) if those of an operand may, or after some boxes.
        """
        outputs = self.computed(box, args, sizes)
        if _begins_rescaling(box) or any(a.rescaled for a in args):
            for near in outputs:
                near.rescaled = True
        return outputs

    def computed(
        self, box: ops.Box, args: tuple[BoundedArray, ...], sizes: Mapping[str, int]
    ) -> Sequence[BoundedArray]:
        """The values and bounds of the outputs of one box."""
        return op_row(BOXES, box, "given error bounds")(self, box.op, box, args, sizes)

    def einsum(self, box: ops.Box, args: tuple[BoundedArray, ...]) -> BoundedArray:
        """A contraction."""
        typed = {n for ty in box.dom for n in ty.names}
        further = tuple(dict.fromkeys(n for a in args for n in a.names if n not in typed))
        order = (*further, *(n for n in box.cod[0].names if any(n in a.names for a in args)))
        return self.rounding.contracted(args, order, order)

    def group(
        self, op: ops.GroupOp, box: ops.Box, args: tuple[BoundedArray, ...], sizes: Mapping[str, int]
    ) -> Sequence[BoundedArray]:
        """The body once, on whole axes."""
        local = {symbol: self.extent(axis, box, args, sizes) for axis, symbol in op.tiles}
        return self.diagram(op.body, args, {**sizes, **local})

    def map(self, fn: ScalarFunction, args: tuple[BoundedArray, ...], box: ops.Box) -> BoundedArray:
        """A scalar function at every index."""
        last = box.cod[0].names
        found = dict.fromkeys(n for a in args for n in a.names)
        order = (*(n for n in found if n not in last), *(n for n in last if n in found))
        if isinstance(fn, Apply):
            return self.rounding.applied(self.runner.function(fn.name, box), args, order)
        if isinstance(fn, Cast):
            kind = fn.dtype
            # How a kernel rounds to 8 bits is not modeled: the cast counts as exact.
            return args[0] if kind == "fp8" else self.rounding.stored_in(args[0], format_of(kind))
        return self.rounding.scalar(fn, args, order)

    def constant(
        self, op: ops.Const | ops.SizeOf | ops.Index, box: ops.Box, sizes: Mapping[str, int]
    ) -> list[BoundedArray]:
        """A constant, rounded unless it is a floating-point number; sizes and positions are exact.

        A number that no floating-point type exceeds stands for the largest of whatever type a kernel computes in: a
        loop begins a maximum below all others. Here it is half of the largest number for which bounds are claimed:
        differences from it stay in range, where a kernel's may be −∞, and exponentials of both are 0.
        """
        (made,) = self.runner.box(box, (), sizes)
        data = np.asarray(made.data, self.rounding.reference)
        if isinstance(op, ops.Const) and op.value is not None and abs(op.value) >= sys.float_info.max:
            most = self.rounding.room / 2
            data = np.clip(data, -most, most)
        exact = not isinstance(op, ops.Const) or op.value is None or float(op.value) == op.value
        off = 0.0 if exact else self.rounding.u * abs(data)
        return [BoundedArray(data, np.zeros(data.shape) + off, made.names, given=True)]

    def structural(self, box: ops.Box, args: tuple[BoundedArray, ...], sizes: Mapping[str, int]) -> list[BoundedArray]:
        """A box without arithmetic: the same map of values and of bounds."""
        if len(args) == 1 and isinstance(box.op, ops.Rename):
            return [args[0].mapped(lambda part: self.runner.box(box, (part,), sizes)[0])]
        values = self.runner.box(box, tuple(NamedArray(a.values, a.names) for a in args), sizes)
        bounds = self.runner.box(box, tuple(NamedArray(a.errors, a.names) for a in args), sizes)
        given = all(a.is_input for a in args)
        return [BoundedArray(v.data, e.data, v.names, given) for v, e in zip(values, bounds, strict=True)]

    def view(
        self, op: ops.View, box: ops.Box, args: tuple[BoundedArray, ...], sizes: Mapping[str, int]
    ) -> BoundedArray:
        """Reads at index arithmetic; the bound is infinite where an index is not certain."""
        count = len(op.reads)
        indices = [NamedArray(np.asarray(a.values).astype(np.int64), a.names) for a in args[count:]]

        def read(parts: Sequence[NamedArray]) -> NamedArray:
            return view(op, box, [*parts, *indices], lambda size: length(size, sizes))

        v = read([NamedArray(np.asarray(a.values), a.names) for a in args[:count]])
        e = read([NamedArray(np.asarray(a.errors), a.names) for a in args[:count]])
        sure = all(bool(np.all(a.errors == 0)) for a in args[count:])
        bound = np.asarray(e.data, float) if sure else np.full(np.shape(e.data), np.inf)
        return BoundedArray(np.asarray(v.data), bound, v.names, all(a.is_input for a in args[:count]))

    def fold(
        self, op: ops.FoldOp, box: ops.Box, args: tuple[BoundedArray, ...], sizes: Mapping[str, int]
    ) -> Sequence[BoundedArray]:
        """The loop as one iteration over the whole axis."""
        whole = {**sizes, op.block: self.extent(op.axis, box, args, sizes)}
        unit = self.diagram(op.unit, (), {**sizes, op.block: 0})
        return self.diagram(op.step, (*unit, *args), whole)

    def generic(
        self, op: ops.Generic, box: ops.Box, args: tuple[BoundedArray, ...], sizes: Mapping[str, int]
    ) -> list[BoundedArray]:
        """A user's box; its error bound is infinite unless its operands are exact."""
        made = self.runner.generic(op, box, tuple(NamedArray(a.values, a.names) for a in args), sizes)
        exact = all(bool(np.all(a.errors == 0)) for a in args)
        u = self.rounding.u
        return [BoundedArray(m.data, 4 * u * np.abs(m.data) if exact else np.full(np.shape(m.data), np.inf), m.names)
                for m in made]  # fmt: skip

    def extent(self, axis: str, box: ops.Box, args: Sequence[BoundedArray], sizes: Mapping[str, int]) -> int:
        """The length of an axis."""
        for a in args:
            if axis in a.names:
                return int(np.shape(a.values)[a.names.index(axis)])
        return length(box.size_of(axis), sizes)

    def filled(self, values: Sequence[BoundedArray], types: Ty, sizes: Mapping[str, int]) -> list[BoundedArray]:
        """The outputs of a body with all the axes of their types: an output that lacks one is broadcast."""
        outputs = []
        for value, ty in zip(values, types, strict=True):
            if not set(ty.names) <= set(value.names):
                order = (*(n for n in value.names if ty.axis(n) is None), *ty.names)
                value = value.mapped(lambda part, ty=ty, order=order: NamedArray(conform(part, ty, sizes), order))  # type: ignore[misc]
            outputs.append(value)
        return outputs


Arrays: TypeAlias = tuple[BoundedArray, ...]
BOXES: Mapping[
    type[ops.Op], Callable[[_ErrorAnalysis, Any, ops.Box, Arrays, Mapping[str, int]], Sequence[BoundedArray]]
] = {
    ops.Map: lambda run, op, box, args, sizes: [run.map(op.fn, args, box)],
    ops.Reduce: lambda run, op, box, args, sizes: [run.rounding.reduction(op.monoid, args[0], op.axis)],
    ops.Einsum: lambda run, op, box, args, sizes: [run.einsum(box, args)],
    ops.View: lambda run, op, box, args, sizes: [run.view(op, box, args, sizes)],
    ops.Call: lambda run, op, box, args, sizes: run.filled(run.diagram(op.body, args, sizes), box.cod, sizes),
    ops.FoldOp: lambda run, op, box, args, sizes: run.filled(run.fold(op, box, args, sizes), box.cod, sizes),
    ops.GroupOp: lambda run, op, box, args, sizes: run.filled(run.group(op, box, args, sizes), box.cod, sizes),
    ops.Generic: lambda run, op, box, args, sizes: run.generic(op, box, args, sizes),
    ops.Const: lambda run, op, box, args, sizes: run.constant(op, box, sizes),
    ops.SizeOf: lambda run, op, box, args, sizes: run.constant(op, box, sizes),
    ops.Index: lambda run, op, box, args, sizes: run.constant(op, box, sizes),
    ops.Rename: lambda run, op, box, args, sizes: run.structural(box, args, sizes),
    ops.Reindex: lambda run, op, box, args, sizes: run.structural(box, args, sizes),
}
"""The values and bounds of each operation."""


def _begins_rescaling(box: ops.Box) -> bool:
    """Whether a kernel may rescale sums of a box's output: the box reduces, takes exponentials, or is the user's."""
    fn = scalar_function(box.op)
    exponential = fn in ("exp", "sigmoid", "tanh") or isinstance(fn, Apply)
    return exponential or bool(reduced_axes(box)) or isinstance(box.op, ops.Generic)
