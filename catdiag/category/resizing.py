"""Diagrams with another size for one axis."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from catdiag.category.diagram import Diagram, Graph, Node, of_graph
from catdiag.category.ops import Box, View, bodies, tiled_axes, with_bodies
from catdiag.category.types import ArrayType, Axis, Size, Ty


def resize(diagram: Diagram, axis: str, size: Size) -> Diagram:
    """The diagram with another size for the axis of that name: see `with_sizes`."""
    return with_sizes(diagram, {axis: size})


def with_sizes(diagram: Diagram, sizes: Mapping[str, Size]) -> Diagram:
    """The diagram with other sizes for the axes of these names, inside loops and groups too.

    Where a loop or a group cuts such an axis, its bodies keep their local size.

    >>> from catdiag.category.ops import map_box
    >>> from catdiag.category.diagram import of_box
    >>> with_sizes(of_box(map_box("exp", [ArrayType((Axis("q"),))])), {"q": "g_q"}).dom
    Ty(ArrayType(axes=(Axis('q', 'g_q'),), element='real'))
    """
    known: dict[tuple[ArrayType, frozenset[str]], ArrayType] = {}

    def axes(given: Iterable[Axis], names: frozenset[str]) -> tuple[Axis, ...]:
        return tuple(Axis(a.name, sizes[a.name]) if a.name in names else a for a in given)

    def array(ty: ArrayType, names: frozenset[str]) -> ArrayType:
        if (ty, names) not in known:
            known[ty, names] = ArrayType(axes(ty.axes, names), ty.element)
        return known[ty, names]

    def ty(types: Ty, names: frozenset[str]) -> Ty:
        return Ty(*(array(one, names) for one in types))

    # Bodies are built before the diagrams that contain them: `order` lists each diagram after those it is part of, with
    # the axes that have another size in it.
    order: list[tuple[Diagram, frozenset[str]]] = []
    todo = [(diagram, frozenset(sizes))]
    while todo:
        item, names = todo.pop()
        order.append((item, names))
        for node in item.graph.nodes:
            if inside := names.difference(dict(tiled_axes(node.box.op))):
                todo.extend((body, inside) for body in bodies(node.box.op))
    made: dict[tuple[int, frozenset[str]], Diagram] = {}
    for item, names in reversed(order):
        nodes = []
        for node in item.graph.nodes:
            box, op = node.box, node.box.op
            if inside := names.difference(dict(tiled_axes(op))):
                op = with_bodies(op, tuple(made[id(body), inside] for body in bodies(op)))
            if isinstance(op, View):
                op = replace(op, index_axes=axes(op.index_axes, names))
            nodes.append(Node(Box(op, ty(box.dom, names), ty(box.cod, names), box.line), node.inputs))
        graph = Graph(ty(item.dom, names), tuple(nodes), item.graph.outputs)
        made[id(item), names] = of_graph(graph, ty(item.cod, names), item.names, item.title)
    return made[id(diagram), frozenset(sizes)]
