"""Export: diagrams as core programs, the plain data that the kernel reads.

Named boxes, and kernels without tiles, are inlined. Groups that add to results are written as the loops that they mean
(`catdiag.schedule.accumulation`). Everything else is written node by node, in stored order.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

from catdiag.category import ops
from catdiag.category.diagram import Diagram
from catdiag.category.index_maps import Cond, Expr
from catdiag.category.op_facts import cast_dtype, ordered_by_inputs
from catdiag.category.ops import op_row
from catdiag.category.scalars import Apply, Cast
from catdiag.category.substitution import inline
from catdiag.category.types import Axis, Size
from catdiag.prover.identifiers import identifier, name_of, title
from catdiag.schedule.accumulation import without_accumulation
from catdiag.util.errors import CatdiagError

Names = tuple[str, ...]
Node: TypeAlias = dict[str, Any]


class NotExportable(CatdiagError):
    """A diagram with a box that has no meaning as a term."""


def size_data(size: Size | Expr | Cond) -> Any:
    """A size, an index expression or a condition as plain data."""
    if isinstance(size, tuple):
        return [size[0], *map(size_data, size[1:])]
    return identifier(size) if isinstance(size, str) else size


def size_of_data(data: Any) -> Size:
    """The size that plain data say: the inverse of `size_data` on sizes."""
    if isinstance(data, (list, tuple)):
        return data[0], size_of_data(data[1]), size_of_data(data[2])
    return name_of(data) if isinstance(data, str) else int(data)


def _axis(axis: Axis) -> list[Any]:
    return [identifier(axis.name), size_data(axis.size)]


def program(diagram: Diagram) -> dict[str, Any]:
    """The core program of a diagram. Raises NotExportable for uninterpreted generators.

    >>> from catdiag.category.ops import reduce_box
    >>> from catdiag.category.diagram import of_box
    >>> from catdiag.category.types import ArrayType, Axis
    >>> program(of_box(reduce_box("sum", "x", ArrayType((Axis("x"),)))))["nodes"]
    [{'op': 'reduce', 'monoid': 'sum', 'axis': 'x', 'args': [0]}]
    """
    graph = without_accumulation(inline(diagram, kernels=True).graph)
    types = graph.wire_types()
    inputs = [
        {"name": identifier(name), "axes": [_axis(a) for a in ty.axes], "element": ty.element}
        for name, ty in zip(diagram.input_names, diagram.dom, strict=True)
    ]
    nodes: list[dict[str, Any]] = []
    wires = list(range(len(inputs)))
    layouts = [ty.names for ty in graph.dom]
    count = len(inputs)
    for node in graph.nodes:
        given = [layouts[w] for w in node.inputs]
        made = _nodes(node.box, [wires[w] for w in node.inputs], count, given)
        nodes += made
        # Of the nodes of one box, the last has its results; the earlier ones have one result each.
        count += len(made) - 1 + len(node.box.cod)
        wires += range(count - len(node.box.cod), count)
        layouts += _layouts(node.box, given)
    outputs: list[list[Any]] = []
    for w, ty in zip(graph.outputs, diagram.cod, strict=True):
        wire = wires[w]
        if layouts[w] != ty.names:
            nodes.append(_view([wire], ty.axes, [({}, [])]))
            wire, count = count, count + 1
        outputs.append([wire, types[w].element])
    return {"title": title(diagram.title or ""), "inputs": inputs, "nodes": nodes, "outputs": outputs}


def _layouts(box: ops.Box, given: Sequence[Names]) -> list[Names]:
    """The order of the axes of a box's results in the core program, which derives it from the inputs."""
    if ordered_by_inputs(box) and not cast_dtype(box.op):
        names = box.cod[0].names
        return [tuple(n for n in _together(given) if n in names)]
    return [ty.names for ty in box.cod]


def _together(given: Sequence[Names]) -> Names:
    return tuple(dict.fromkeys(n for names in given for n in names))


def _nodes(box: ops.Box, args: list[int], first: int, given: Sequence[Names]) -> list[dict[str, Any]]:
    """The nodes of a box; their wires are numbered from `first`. `given` are the layouts of the inputs."""
    if isinstance(box.op, ops.Einsum):
        return _einsum(box, args, first, given)
    return [op_row(BOXES, box, "exported as a term")(box.op, box, args)]


def _einsum(box: ops.Box, args: list[int], first: int, given: Sequence[Names]) -> list[dict[str, Any]]:
    """A contraction: a product, summed over one axis after another, then transposed."""
    kept = box.cod[0].names
    names = _together(given)
    nodes: list[dict[str, Any]] = [{"op": "map", "fn": "mul", "args": args}]
    for name in reversed(names):
        if name not in kept:
            nodes.append({"op": "reduce", "monoid": "sum", "axis": identifier(name), "args": [first + len(nodes) - 1]})
    if [name for name in names if name in kept] != list(kept):
        nodes.append(_view([first + len(nodes) - 1], box.cod[0].axes, [({}, [])]))
    return nodes


def _view(args: list[int], axes: Sequence[Axis], reads: Sequence[tuple[dict[str, Any], list[Any]]]) -> dict[str, Any]:
    """A node for arrays read at index expressions, each under its conditions."""
    return {"op": "view", "args": args, "axes": [_axis(a) for a in axes],
            "reads": [{"at": {identifier(axis): e for axis, e in at.items()}, "where": where}
                      for at, where in reads]}  # fmt: skip


def _index(axis: str) -> list[Any]:
    return ["i", identifier(axis)]


def _reads(kind: str, whole: Axis, place: int) -> list[tuple[dict[str, Any], list[Any]]]:
    """An index map between an axis and its parts, as reads.

    split: at i = (i₁·n₂ + i₂)·n₃ + …; merge: at iₖ = a mod nₖ with a = ⌊i/nₖ₊₁/…⌋, written as a − nₖ·⌊a/nₖ⌋;
    slice: at n₁ + … + i; concat: of the arrays the one in whose part i lies.
    """
    sizes = [size_data(p.size) for p in whole.parts]
    i: Any = _index(whole.name)
    before: list[Any] = [0]
    for s in sizes:
        before.append(["+", before[-1], s] if len(before) > 1 else s)
    match kind:
        case "split":
            i = _index(whole.parts[0].name)
            for part, s in zip(whole.parts[1:], sizes[1:], strict=True):
                i = ["+", ["*", i, s], _index(part.name)]
            return [({whole.name: i}, [])]
        case "slice":
            i = _index(whole.parts[place].name)
            return [({whole.name: ["+", before[place], i] if place else i}, [])]
        case "merge":
            digits: dict[str, Any] = {}
            for part, s in reversed(list(zip(whole.parts, sizes, strict=True))[1:]):
                above = ["//", i, s]
                digits[part.name], i = ["+", i, ["*", -1, ["*", s, above]]], above
            digits[whole.parts[0].name] = i
            return [(digits, [])]
        case _:
            last = len(sizes) - 1
            return [
                (
                    {part.name: ["+", i, ["*", -1, before[k]]] if k else i},
                    [["lt", i, before[k + 1]]] if k < last else [],
                )
                for k, part in enumerate(whole.parts)
            ]


def _map(op: ops.Map, box: ops.Box, args: list[int]) -> Node:
    fn = op.fn
    if isinstance(fn, Cast):
        return _view(args, box.cod[0].axes, [({}, [])])
    return {"op": "map", "fn": f"apply:{identifier(fn.name)}" if isinstance(fn, Apply) else fn, "args": args}


def _reads_of(op: ops.View) -> list[Any]:
    return [({n: size_data(e) for n, e in r.at}, [size_data(c) for c in r.where]) for r in op.reads]


def _fold(op: ops.FoldOp, box: ops.Box, args: list[int]) -> Node:
    bodies = {
        "unit": op.unit, "step": op.step, "merge": op.merge, "state": op.state, "extent": op.bounds, "live": op.is_live,
    }  # fmt: skip
    return {"op": "fold", "axis": identifier(op.axis), "block": identifier(op.block), "args": args} | {
        name: program(body) for name, body in bodies.items() if body is not None
    }


def _group(op: ops.GroupOp, box: ops.Box, args: list[int]) -> Node:
    tiles = [[identifier(name) for name in t] for t in op.tiles]
    return {"op": "group", "tiles": tiles, "args": args, "body": program(op.body)}


def _refused(op: ops.Call | ops.Generic, box: ops.Box, args: list[int]) -> Node:
    raise NotExportable(
        f"box {op.name!r} has no meaning as a term: use cd.apply for an uninterpreted scalar function", box.line
    )


BOXES: Mapping[type[ops.Op], Callable[[Any, ops.Box, list[int]], Node]] = {
    ops.Map: _map,
    ops.Reduce: lambda op, box, args: {"op": "reduce", "monoid": op.monoid, "axis": identifier(op.axis), "args": args},
    ops.Rename: lambda op, box, args: _view(args, box.cod[0].axes, [({old: _index(new) for old, new in op.pairs}, [])]),
    ops.Reindex: lambda op, box, args: _view(args, box.cod[0].axes, _reads(op.kind, op.axis, op.place)),
    ops.View: lambda op, box, args: _view(args, box.cod[0].axes, _reads_of(op)),
    ops.Index: lambda op, box, args: {"op": "index", "axis": _axis(box.cod[0].axes[0])},
    ops.SizeOf: lambda op, box, args: {"op": "size", "size": size_data(op.size)},
    ops.Const: lambda op, box, args: {"op": "const", "value": "-inf" if op.value is None else str(op.value)},
    ops.FoldOp: _fold,
    ops.GroupOp: _group,
    ops.Call: _refused,
    ops.Generic: _refused,
}
"""The node of each operation; a contraction has several (`_einsum`)."""
