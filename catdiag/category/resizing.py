"""Diagrams with another size for one axis."""

from __future__ import annotations

from dataclasses import replace

from catdiag.category.diagram import Diagram, Graph, Node, of_graph
from catdiag.category.ops import Box, FoldOp, GroupOp, Operation, View, bodies, with_bodies
from catdiag.category.types import ArrayType, Axis, Size, Ty


def resize(diagram: Diagram, axis: str, size: Size) -> Diagram:
    """The diagram with another size for the axis of that name, inside loops and groups too.

    Where a loop or a group cuts the axis, its bodies keep their local size.

    >>> from catdiag.category.ops import map_box
    >>> from catdiag.category.diagram import of_box
    >>> resize(of_box(map_box("exp", [ArrayType((Axis("q"),))])), "q", "g_q").dom
    Ty(ArrayType(axes=(Axis('q', 'g_q'),), element='real'))
    """
    known: dict[ArrayType, ArrayType] = {}

    def array(ty: ArrayType) -> ArrayType:
        if ty not in known:
            fitted = tuple(Axis(a.name, size) if a.name == axis else a for a in ty.axes)
            known[ty] = ArrayType(fitted, ty.element)
        return known[ty]

    def ty(types: Ty) -> Ty:
        return Ty(*map(array, types))

    # Bodies are built before the diagrams that contain them: `order` lists each diagram after those it is part of.
    order: list[Diagram] = []
    todo = [diagram]
    while todo:
        item = todo.pop()
        order.append(item)
        for node in item.graph.nodes:
            if axis not in _local_axes(node.box.op):
                todo.extend(bodies(node.box.op))
    made: dict[int, Diagram] = {}
    for item in reversed(order):
        nodes = []
        for node in item.graph.nodes:
            box = node.box
            op = (
                box.op
                if axis in _local_axes(box.op)
                else with_bodies(box.op, tuple(made[id(body)] for body in bodies(box.op)))
            )
            if isinstance(op, View):
                op = replace(op, index_axes=tuple(Axis(a.name, size) if a.name == axis else a for a in op.index_axes))
            nodes.append(Node(Box(op, ty(box.dom), ty(box.cod), box.line), node.inputs))
        graph = Graph(ty(item.dom), tuple(nodes), item.graph.outputs)
        made[id(item)] = of_graph(graph, ty(item.cod), item.names, item.title)
    return made[id(diagram)]


def _local_axes(op: Operation) -> tuple[str, ...]:
    if isinstance(op, FoldOp):
        return (op.axis,)
    return tuple(name for name, _ in op.tiles) if isinstance(op, GroupOp) else ()
