"""Which types a box can have: those that follow from its operation, weaved or not; and renamings, which are checked."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from catdiag.category import ops
from catdiag.category.diagram import Diagram
from catdiag.category.index_maps import Reindex, View
from catdiag.category.ops import op_row, replace_name
from catdiag.category.scalars import Apply, signature
from catdiag.category.traversal import all_diagrams
from catdiag.category.types import ArrayType, Axis, Size, Ty, short, show, union
from catdiag.util.errors import AxisError, TypeMismatch


def check_box(b: ops.Box) -> None:
    """Raises TypeMismatch or AxisError unless the operation of a box can have its types, weaved or not.

    >>> X = Ty(ArrayType((Axis("x"),)))
    >>> check_box(ops.Box(ops.Reduce("sum", "x"), X, Ty(ArrayType())))
    >>> check_box(ops.Box(ops.Reduce("sum", "x"), X, X))
    Traceback (most recent call last):
    ...
    catdiag.util.errors.TypeMismatch: sum[x] from [x] cannot give [x]: expected the axes none, in any order
    ...

    The types of bodies are compared with those of the box; the bodies themselves are checked by
    `check`.
    """
    op_row(BOXES, b, "typed")(b, b.op)


def _sizes(axes: Iterable[Axis]) -> dict[str, Size]:
    return {a.name: a.size for a in axes}


def _require_inputs(b: ops.Box, count: int | None) -> None:
    """Raises TypeMismatch unless a box has one output, and so many inputs; None is any number."""
    if len(b.cod) != 1:
        raise TypeMismatch(f"{b.name} has {len(b.cod)} outputs: expected one", b.line)
    if count is not None and len(b.dom) != count:
        raise TypeMismatch(f"{b.name} has {len(b.dom)} inputs: expected {count}", b.line)


def _require_axes(b: ops.Box, have: Mapping[str, Size], broadcast: bool = False) -> None:
    """Raises TypeMismatch unless the output has these axes, in any order; where it is a broadcast, others too."""
    out = _sizes(b.cod[0].axes)
    shared_fit = all(out[name] == size for name, size in have.items() if name in out)
    if not shared_fit or have.keys() - out.keys() or (out.keys() - have.keys() and not broadcast):
        wanted = " ".join(f"{n}:{show(s)}" if s != n else n for n, s in have.items()) or "none"
        raise TypeMismatch(
            f"{b.name} from {b.dom} cannot give {b.cod}: expected the axes {wanted}, "
            + ("in any order, and any new ones" if broadcast else "in any order"),
            b.line,
        )


def _check_map(b: ops.Box, op: ops.Map) -> None:
    _require_inputs(b, None if isinstance(op.fn, Apply) else signature(op.fn, b.line)[0])
    _require_axes(b, _sizes(union(list(b.dom), b.line)))


def _check_reduce(b: ops.Box, op: ops.Reduce) -> None:
    _require_inputs(b, 1)
    have = _sizes(union(list(b.dom), b.line))
    if op.axis not in have:
        raise AxisError(f"{b.name} takes {b.dom}, which lacks axis {op.axis!r}", b.line)
    del have[op.axis]
    _require_axes(b, have)


def _check_einsum(b: ops.Box, op: ops.Einsum) -> None:
    _require_inputs(b, None)
    out = set(b.cod[0].names)
    _require_axes(b, {n: size for n, size in _sizes(union(list(b.dom), b.line)).items() if n in out})


def _check_rename(b: ops.Box, op: ops.Rename) -> None:
    _require_inputs(b, 1)
    pairs = dict(op.pairs)
    _require_axes(b, {pairs.get(n, n): size for n, size in _sizes(union(list(b.dom), b.line)).items()}, broadcast=True)


def _check_reindexed(b: ops.Box, op: Reindex | View) -> None:
    _require_inputs(b, None)
    _require_axes(b, _sizes((*op.rest(list(b.dom), b.line), *op.added_axes())))


def _check_constant(b: ops.Box, op: ops.SizeOf | ops.Const) -> None:
    _require_inputs(b, 0)
    _require_axes(b, {}, broadcast=True)


def _check_index(b: ops.Box, op: ops.Index) -> None:
    _require_inputs(b, 0)
    if op.axis not in b.cod[0].names:
        raise AxisError(f"{b.name} gives {b.cod}, which lacks axis {op.axis!r}", b.line)


def _local(ty: Ty, sizes: Mapping[str, str]) -> Ty:
    """The object with the local sizes that the bodies of loops and groups see."""
    return Ty(*(ArrayType(tuple(Axis(a.name, sizes.get(a.name, a.size), a.kind, a.parts) for a in t.axes), t.element)
                for t in ty))  # fmt: skip


def _expect(b: ops.Box, dom: Ty, cod: Ty, local: Callable[[Ty], Ty] = lambda ty: ty) -> None:
    if local(b.dom) != dom or local(b.cod) != cod:
        raise TypeMismatch(f"{b.name}: {local(b.dom)} → {local(b.cod)} has a body {dom} → {cod}", b.line)


def _check_fold(b: ops.Box, op: ops.FoldOp) -> None:
    """Raises TypeMismatch unless the bodies of a loop have the types that its box requires."""
    block, count = _local(b.dom, {op.axis: op.block}), len(b.cod) - op.emitted
    states, emitted = Ty(*b.cod.arrays[:count]), _local(Ty(*b.cod.arrays[count:]), {op.axis: op.block})
    if any(ty.axis(op.axis) is None for ty in emitted):
        raise TypeMismatch(f"{b.name} emits {emitted} block by block: expected arrays with axis {op.axis!r}", b.line)
    if op.emitted and (op.parts is not None or op.bounds is not None or op.is_live is not None):
        raise TypeMismatch(f"{b.name} emits blocks: expected it to run all of them, in one part", b.line)
    expected = {
        "unit": (Ty(), states),
        "step": (states @ block, states @ emitted),
        "merge": (states @ states, states),
        "state": (block, states @ emitted),
    }
    for part, (dom, cod) in expected.items():
        body: Diagram = getattr(op, part)
        if body.dom != dom or body.cod != cod:
            raise TypeMismatch(f"{b.name}: expected {part} to be {dom} → {cod}, not {body.dom} → {body.cod}", b.line)
    if op.is_live is None and op.bounds is not None:
        raise TypeMismatch(f"{b.name} has bounds and no live: expected what is live between its bounds", b.line)
    for part, guide, element, count in (("bounds", op.bounds, "int", 2), ("live", op.is_live, "bool", 1)):
        if guide is None:
            continue
        typed = len(guide.cod) == count and all(ty.element == element for ty in guide.cod)
        whole = part == "bounds" and any(op.axis in ty.names for ty in guide.cod)
        if guide.dom != block or not typed or whole:
            given = f"integers lo and hi, free of axis {op.axis!r}" if count == 2 else "an array of truth values"
            raise TypeMismatch(
                f"{b.name}: expected {part} to take {block} and to give {given}, not {guide.dom} → {guide.cod}", b.line
            )


BOXES: Mapping[type[ops.Op], Callable[[ops.Box, Any], None]] = {
    ops.Map: _check_map,
    ops.Reduce: _check_reduce,
    ops.Einsum: _check_einsum,
    ops.Rename: _check_rename,
    Reindex: _check_reindexed,
    View: _check_reindexed,
    ops.Index: _check_index,
    ops.SizeOf: _check_constant,
    ops.Const: _check_constant,
    ops.Call: lambda b, op: _expect(b, op.body.dom, op.body.cod),
    ops.Generic: lambda b, op: None,
    ops.FoldOp: _check_fold,
    ops.GroupOp: lambda b, op: _expect(b, op.body.dom, op.body.cod, lambda ty: _local(ty, dict(op.tiles))),
}
"""Checks of types, by the class of the operation."""


def rename_box(array: ArrayType, pairs: dict[str, str], layout: Sequence[Axis] | None = None) -> ops.Box:
    """Axes of an array renamed (sizes stay), in a layout; the array is broadcast along axes that are new in the layout.

    >>> q, x = Axis("q"), Axis("x")
    >>> str(rename_box(ArrayType((q, x)), {"x": "y"}, [Axis("h"), Axis("y", "x"), q]).cod)
    '[h y q]'

    Raises AxisError for an axis that the array does not have, two axes of one name, and a layout that drops an axis or
    changes a size.
    """
    for old in pairs:
        if array.axis(old) is None:
            raise AxisError(f"cannot rename axis {old!r}: the array has {' '.join(array.names) or 'no axes'}")
    renamed = ArrayType(tuple(replace_name(a, pairs) for a in array.axes), array.element)
    out = renamed if layout is None else ArrayType(tuple(layout), array.element)
    box = ops.Box(ops.Rename(tuple(sorted(pairs.items()))), Ty(array), Ty(out))
    check_box(box)
    return box


def check(diagram: Diagram) -> None:
    """Raises TypeMismatch unless the diagram is well formed, bodies included: this is what `of_graph` trusts.

    Each node reads wires that exist before it and have the types of its box, each box has types that its operation
    accepts, and the outputs have the types of the codomain.

    >>> from catdiag.category.diagram import box, copy, of_graph
    >>> from catdiag.category.graph import Graph, Node
    >>> X = Ty(ArrayType((Axis("x"),)))
    >>> check(box("f", X, X) >> copy(X))
    >>> check(of_graph(Graph(X, (Node(ops.Box(ops.Generic("f"), X, X), (7,)),), (1,))))
    Traceback (most recent call last):
    ...
    catdiag.util.errors.TypeMismatch: node 0, f, reads wire 7: only 1 are there by then
    ...
    """
    checked: set[int] = set()
    for item in all_diagrams(diagram):
        types = list(item.dom)
        for place, node in enumerate(item.graph.nodes):
            b = node.box
            wrong = next((w for w in node.inputs if not 0 <= w < len(types)), None)
            if wrong is not None:
                raise TypeMismatch(f"node {place}, {b.name}, reads wire {wrong}: only {len(types)} are there by then")
            found = Ty(*(types[w] for w in node.inputs))
            if found != b.dom:
                raise TypeMismatch(f"node {place}, {b.name}, takes {short(b.dom)} and reads {short(found)}")
            if id(b) not in checked:
                checked.add(id(b))
                check_box(b)
            types.extend(b.cod)
        if not all(0 <= w < len(types) for w in item.graph.outputs):
            raise TypeMismatch(f"the outputs read wires {item.graph.outputs}: there are {len(types)}")
        leaving = Ty(*(types[w] for w in item.graph.outputs))
        if leaving != item.cod:
            raise TypeMismatch(f"the outputs carry {short(leaving)} where the diagram gives {short(item.cod)}")
