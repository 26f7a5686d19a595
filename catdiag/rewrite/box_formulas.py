"""Formulas for users: the wires of a graph in the names of the user's arrays."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import count
from typing import Any

from catdiag.category import ops
from catdiag.category.diagram import Diagram
from catdiag.category.formula import (
    MINUS_INFINITY,
    TRUE,
    Formula,
    big,
    call,
    difference,
    infix,
    negated,
    negative,
    number,
    of_axis,
    of_size,
    position,
    symbol,
    where,
)
from catdiag.category.ops import op_row
from catdiag.category.scalars import ScalarFunction
from catdiag.category.substitution import inline

_INFIX = {
    "add": "+", "mul": "·", "div": "/", "eq": "=", "ne": "≠", "lt": "<", "le": "≤", "and": "∧", "or": "∨",
}  # fmt: skip
_LONGEST = 500


def wires_of(diagram: Diagram, known: Mapping[int, Formula]) -> Callable[[int], Formula]:
    """A function from the wires of a diagram (named boxes inlined) to their formulas, given those of some wires. In
    others, a formula of more than `_LONGEST` letters is a name.

    >>> import catdiag as cd
    >>> print(wires_of(cd.algorithm("x ->")(lambda A: cd.sum(2 * A, "x")).diagram, {0: symbol("A")})(3))
    Σ_x 2·A
    """
    graph = inline(diagram).graph
    found, read = dict(known), dict(known)
    taken = {f.data for f in known.values() if f.op == "symbol"}
    names = (name for k in count(1) if (name := f"t{k}") not in taken)
    for node, first in zip(graph.nodes, graph.first_wires(), strict=True):
        if all(w in read for w in node.inputs):
            made = formula_of(node.box, [read[w] for w in node.inputs])
            # A part that is read twice at every level grows exponentially.
            short = made if len(made.text) <= _LONGEST else symbol(next(names))
            for w in range(first, first + len(node.box.cod)):
                found.setdefault(w, made)
                read.setdefault(w, short)
    return found.__getitem__


# -- boxes ---------------------------------------------------------------------------------------------


def formula_of(box: ops.Box, args: Sequence[Formula]) -> Formula:
    """The formula of a box, from those of its inputs."""
    return op_row(BOXES, box, "written as a formula")(box.op, box, args)


def _reduce(op: ops.Reduce, box: ops.Box, args: Sequence[Formula]) -> Formula:
    axes = [op.axis]
    inside = negated(args[0]) if op.monoid in ("max", "min") else None
    if inside is not None:  # a minimum is stored as the maximum of the negated array
        return negative(big({"max": "min", "min": "max"}[op.monoid], axes, inside))
    return big(op.monoid, axes, args[0])


def _einsum(op: ops.Einsum, box: ops.Box, args: Sequence[Formula]) -> Formula:
    body = infix("·", *args) if args else number(1)
    left = box.cod[0].names
    gone = dict.fromkeys(n for t in box.dom for n in t.names if n not in left)
    return big("sum", gone, body) if gone else body


def _rename(op: ops.Rename, box: ops.Box, args: Sequence[Formula]) -> Formula:
    pairs = (infix("→", of_axis(a), of_axis(b)) for a, b in op.pairs)
    return Formula("indexed", (args[0], *pairs)) if op.pairs else args[0]


def _name(op: ops.Call | ops.Generic | ops.FoldOp | ops.GroupOp, box: ops.Box, args: Sequence[Formula]) -> Formula:
    return call(box.name, *args)


def _map(fn: ScalarFunction, args: Sequence[Formula]) -> Formula:
    """The formula of a scalar function: an operator, or a function call."""
    if fn in _INFIX:
        return infix(_INFIX[fn], *args)
    if fn == "sub":
        return difference(*args)
    if fn == "neg":
        return negative(args[0])
    if fn == "where":
        return where(*args)
    sign = {"not": "¬", "sqrt": "√"}.get(fn) if isinstance(fn, str) else None
    return call(str(fn), *args) if sign is None else Formula(sign, tuple(args))


def _reindex(op: ops.Reindex, box: ops.Box, args: Sequence[Formula]) -> Formula:
    """Elements read at other indices: `A[b g→(b g)]`, `A[y of x+y]`, `concat(A, B)`."""
    if op.kind == "concat":
        return call("concat", *args)
    given, taken = (infix("row", *(of_axis(a.name) for a in axes)) for axes in (op.added_axes(), op.removed_axes()[0]))
    entry = infix("of", given, taken) if op.kind == "slice" else infix("→", taken, given)
    return Formula("indexed", (args[0], entry))


_RELATIONS = {"lt": "<", "le": "≤", "eq": "="}


def _view(op: ops.View, box: ops.Box, args: Sequence[Formula]) -> Formula:
    """Arrays read at computed indices: `A[x = y + k]`; for several arrays the condition under which each is read."""

    def leaf(item: Any) -> Formula:
        if not isinstance(item, tuple):
            return number(item) if isinstance(item, int) else symbol(item)
        if item[0] == "w":
            return args[item[1]]
        return symbol(item[1]) if item[1].isidentifier() else position(item[1])

    found: Formula | None = None
    for read, arg in reversed(list(zip(op.reads, args, strict=False))):
        places = tuple(infix("=", of_axis(n), of_size(e, leaf)) for n, e in read.at)
        part = Formula("indexed", (arg, *places)) if places else arg
        conditions = [infix(_RELATIONS[c], of_size(a, leaf), of_size(b, leaf)) for c, a, b in read.where]
        found = part if found is None else where(infix("∧", *conditions) if conditions else TRUE, part, found)
    return args[0] if found is None else found


BOXES: Mapping[type[ops.Op], Callable[[Any, ops.Box, Sequence[Formula]], Formula]] = {
    ops.Map: lambda op, box, args: _map(op.fn, args),
    ops.Reduce: _reduce,
    ops.Einsum: _einsum,
    ops.Rename: _rename,
    ops.View: _view,
    ops.Reindex: _reindex,
    ops.Index: lambda op, box, args: position(op.axis),
    ops.SizeOf: lambda op, box, args: of_size(op.size),
    ops.Const: lambda op, box, args: MINUS_INFINITY if op.value is None else number(op.value),
    ops.Call: _name,
    ops.Generic: _name,
    ops.FoldOp: _name,
    ops.GroupOp: _name,
}
"""The formula of each operation."""
