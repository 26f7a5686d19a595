"""Gathers and other views of whole arrays that groups read through, so that no kernel computes them.

An example: the rows of a table at the integers of an array, of which each group reads those of its tile. The proof that
indices are in range is about the whole array of integers, not a block of it. So such a view stands before the groups
and loops in the diagram. It is lowered to reads inside of them.
"""

from __future__ import annotations

from collections.abc import Container

from catdiag.category.diagram import Graph, Node
from catdiag.category.op_facts import is_reshape
from catdiag.category.ops import NULLARY, FoldOp, GroupOp, Map, View


def gathered(graph: Graph) -> frozenset[int]:
    """The indices of the boxes that are views of whole arrays and are read by groups only: each group reads the
    elements of its tile through them.

    The arrays are inputs, or what groups make. Index arrays are these, positions, sizes, integers made of those, or
    other such views. The boxes of integers that only such views read are among them.
    """
    if not any(isinstance(node.box.op, GroupOp) for node in graph.nodes):
        return frozenset()
    return _read_by(graph, groups=True)


def in_blocks(graph: Graph) -> frozenset[int]:
    """The indices of the boxes that are views of whole arrays and are read by loops only, along the loops' axes."""
    if not any(isinstance(node.box.op, FoldOp) for node in graph.nodes):
        return frozenset()
    return _read_by(graph, groups=False)


def _read_by(graph: Graph, groups: bool) -> frozenset[int]:
    """The same for groups (`groups`) or for loops."""
    arrays, given, rematerialized = set(range(len(graph.dom))), set(range(len(graph.dom))), set[int]()
    views: set[int] = set()
    says: set[int] = set()
    made: list[range] = []
    for place, node in enumerate(graph.nodes):
        first = made[-1].stop if made else len(graph.dom)
        made.append(range(first, first + len(node.box.cod)))
        of_arrays = bool(node.inputs) and node.inputs[0] in arrays and set(node.inputs) <= given
        if of_arrays and isinstance(node.box.op, View):
            views.add(place)
        if of_arrays and (place in views or is_reshape(node.box)):
            arrays.update(made[place])
        elif is_rematerialized(node, rematerialized):
            rematerialized.update(made[place])
            if isinstance(node.box.op, Map):
                says.add(place)
        elif groups and isinstance(node.box.op, GroupOp):  # what it makes is in memory, as inputs are
            arrays.update(made[place])
        else:
            continue
        given.update(made[place])
    # A view with any other reader is materialized, and so is every view that it reads.
    stored = set(graph.outputs)
    for place in reversed(range(len(graph.nodes))):
        node, op = graph.nodes[place], graph.nodes[place].box.op
        if place in views or is_reshape(node.box):
            if stored.intersection(made[place]):
                views.discard(place)
                stored.update(node.inputs)
        elif isinstance(op, FoldOp) and not groups:
            pairs = zip(node.inputs, node.box.dom, strict=True)
            stored.update(w for w, ty in pairs if ty.axis(op.axis) is None)
        elif place in says:
            if stored.intersection(made[place]):
                says.discard(place)
                stored.update(node.inputs)
        else:
            stored.update(
                rematerialized.intersection(node.inputs) if isinstance(op, GroupOp) and groups else node.inputs
            )
    return frozenset(views | says)


def is_rematerialized(node: Node, rematerialized: Container[int]) -> bool:
    """Whether a box makes positions, sizes, constants, or integers of those. `rematerialized` says it of each wire so
    far."""
    op = node.box.op
    if isinstance(op, Map):
        return node.box.cod[0].element == "int" and all(w in rematerialized for w in node.inputs)
    return isinstance(op, NULLARY)
