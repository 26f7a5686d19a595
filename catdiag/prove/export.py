"""Diagrams as core programs: the plain data that the kernel reads.

Named boxes are opened; everything else is written node by node, in stored order.
"""

from __future__ import annotations

from typing import Any

from catdiag.boxes import (
    Box,
    Const,
    Einsum,
    Fold,
    Generic,
    Group,
    Index,
    Map,
    Reduce,
    Reindex,
    Rename,
    SizeOf,
)
from catdiag.diagram import Diagram, inline
from catdiag.errors import CatdiagError
from catdiag.types import Axis, Size


class NotExportable(CatdiagError):
    """A diagram with a box that has no meaning as a term."""


def size_data(size: Size) -> Any:
    """A size as plain data."""
    return [size[0], size_data(size[1]), size_data(size[2])] if isinstance(size, tuple) else size


def _axis(axis: Axis) -> list[Any]:
    return [axis.name, size_data(axis.size)]


def program(diagram: Diagram) -> dict[str, Any]:
    """The core program of a diagram. Raises NotExportable for uninterpreted generators.

    >>> from catdiag.boxes import reduce_box
    >>> from catdiag.diagram import of_box
    >>> from catdiag.types import ArrayType, Axis
    >>> program(of_box(reduce_box("sum", "x", ArrayType((Axis("x"),)))))["nodes"]
    [{'op': 'reduce', 'monoid': 'sum', 'axis': 'x', 'args': [0]}]
    """
    graph = inline(diagram).graph
    types = graph.wire_types()
    return {
        "title": diagram.title,
        "inputs": [
            {"name": name, "axes": [_axis(a) for a in ty.axes], "element": ty.element}
            for name, ty in zip(diagram.input_names, diagram.dom, strict=True)
        ],
        "nodes": [_node(node.box, list(node.inputs)) for node in graph.nodes],
        "outputs": [[w, types[w].element] for w in graph.outputs],
    }


def _node(box: Box, args: list[int]) -> dict[str, Any]:
    op = box.op
    match op:
        case Map(fn):
            return {"op": "map", "fn": fn, "args": args}
        case Reduce(monoid, axis):
            return {"op": "reduce", "monoid": monoid, "axis": axis, "args": args}
        case Einsum():
            return {"op": "einsum", "args": args, "axes": list(box.cod[0].names)}
        case Rename(pairs):
            axes = [_axis(a) for a in box.cod[0].axes]
            return {"op": "rename", "args": args, "pairs": [list(p) for p in pairs], "axes": axes}
        case Reindex(kind, whole, place):
            parts = [_axis(a) for a in whole.parts]
            names = list(box.cod[0].names)
            return {"op": "reindex", "kind": kind, "args": args, "axis": _axis(whole), "parts": parts, "place": place,
                    "axes": names}  # fmt: skip
        case Index():
            return {"op": "index", "axis": _axis(box.cod[0].axes[0])}
        case SizeOf(size):
            return {"op": "size", "size": size_data(size)}
        case Const(value):
            return {"op": "const", "value": "-inf" if value is None else str(value)}
        case Fold(axis, block, unit, step, merge, state):
            bodies = {"unit": unit, "step": step, "merge": merge, "state": state}
            return {"op": "fold", "axis": axis, "block": block, "args": args} | {
                name: program(body) for name, body in bodies.items()
            }
        case Group(tiles, body):
            return {"op": "group", "tiles": [list(t) for t in tiles], "args": args, "body": program(body)}
        case _:
            name = op.name if isinstance(op, Generic) else box.name
            raise NotExportable(
                f"box {name!r} has no meaning as a term: use cd.apply for an uninterpreted scalar function",
                box.line,
            )
