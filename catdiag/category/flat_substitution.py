"""Substitution in flat forms: nodes replaced by graphs.

Wires are renumbered by columns: node by node in small graphs, and by NumPy all at once in large ones.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from catdiag.category.graph import Box, Column, Graph
from catdiag.category.graph_columns import gathered

if TYPE_CHECKING:
    from catdiag.category.graph import Ints


def replaced(graph: Graph, images: Sequence[Graph | None]) -> Graph:
    """The flat form with the nodes of the k-th box of its table replaced by `images[k]`; None keeps them."""
    if all(image is None for image in images):
        return graph
    table: list[Box] = []
    places: dict[int, int] = {}

    def place(b: Box) -> int:
        known = places.get(id(b))
        if known is None:
            known = places[id(b)] = len(table)
            table.append(b)
        return known

    # For each box: its nodes by place in the new table, their inputs, its outputs; wires count from its inputs on.
    rows: list[tuple[list[int], list[int], Sequence[int], int]] = []
    for b, image in zip(graph.table, images, strict=True):
        if image is None:
            arity, ports = len(b.dom), len(b.cod)
            rows.append(([place(b)], list(range(arity)), range(arity, arity + ports), ports))
        else:
            inner, which, reads = image.lists()
            moved = [place(box) for box in inner]
            ports = sum([len(inner[k].cod) for k in which])
            rows.append(([moved[k] for k in which], reads, image.outputs, ports))
    return Graph.of_columns(graph.dom, table, *(_vectorized if graph.has_arrays else _one_by_one)(graph, rows))


_Rows = list[tuple[list[int], list[int], Sequence[int], int]]


def _one_by_one(graph: Graph, rows: _Rows) -> tuple[Column, Column, list[int]]:
    """The columns of the result, computed node by node."""
    table, which, reads = graph.lists()
    arity = [len(b.dom) for b in table]
    count = len(graph.dom)
    names = list(range(count))
    kinds: list[int] = []
    wires: list[int] = []
    at = 0
    for k in which:
        nodes, inside, outputs, ports = rows[k]
        stop = at + arity[k]
        own = [*[names[w] for w in reads[at:stop]], *range(count, count + ports)]
        at = stop
        count += ports
        kinds.extend(nodes)
        wires.extend([own[w] for w in inside])
        names.extend([own[w] for w in outputs])
    return kinds, wires, [names[w] for w in graph.outputs]


def _vectorized(graph: Graph, rows: _Rows) -> tuple[Column, Column, list[int]]:
    """The columns of the result, computed by NumPy for all nodes at once."""
    import numpy as np

    table, which, reads = graph.arrays()
    arity = np.array([len(b.dom) for b in table], dtype=np.int64)[which]
    ports = np.array([row[3] for row in rows], dtype=np.int64)[which]
    inputs, nodes = len(graph.dom), np.arange(len(which))
    # Local wire w of node i is its input at `first[i] + w` if w is below its arity, and wire `shift[i] + w` if not.
    first = np.cumsum(arity) - arity
    shift = np.cumsum(ports) - ports + inputs - arity

    def local(lists: Sequence[Sequence[int]]) -> tuple[Ints, Ints, Ints]:
        """Local wires of all nodes, under their new names; which of them are read, and where that is."""
        wires = gathered(lists, which)
        owner = np.repeat(nodes, np.array([len(found) for found in lists], dtype=np.int64)[which])
        outside = np.flatnonzero(wires < arity[owner])
        return wires + shift[owner], outside, reads[first[owner[outside]] + wires[outside]]

    made, passed, source = local([row[2] for row in rows])
    names = np.concatenate([np.arange(inputs), made])
    if len(passed):
        # An image may pass an input through: such a wire is an alias of an earlier one, which may be an alias itself.
        stands = np.arange(len(names))
        stands[inputs + passed] = source
        further = stands[stands]
        while not np.array_equal(stands, further):
            stands, further = further, further[further]
        names = names[stands]
    wires, read, source = local([row[1] for row in rows])
    wires[read] = names[source]
    return gathered([row[0] for row in rows], which), wires, names[list(graph.outputs)].tolist()
