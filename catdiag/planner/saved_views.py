"""The views and rematerialized values of a graph that are arrays in memory of their own, which a kernel writes.

>>> import catdiag as cd
>>> f = cd.algorithm("q x -> x q, q")(lambda A: (cd.rearrange(A, "q x -> x q"), cd.sum(A, "x")))
>>> [f.diagram.boxes[place].name for place in saved_views(f.diagram.graph)]
['rename']
"""

from __future__ import annotations

from catdiag.category.graph import Graph
from catdiag.category.ops import Generic
from catdiag.codegen.triton.opaque_call import transposes
from catdiag.schedule.live_ranges import is_view, rematerialized, view_roots


def saved_views(graph: Graph) -> set[int]:
    """The places of their boxes: of what uninterpreted boxes read, and of results that no kernel would write else."""
    return _read_by_functions(graph) | _results(graph)


def _read_by_functions(graph: Graph) -> set[int]:
    """The places of views, but for transpositions, that uninterpreted boxes read."""
    maker, found = graph.makers(), set[int]()
    for node in graph.nodes:
        for w in node.inputs if isinstance(node.box.op, Generic) else ():
            place = maker[w]
            while place >= 0 and transposes(graph.nodes[place].box):
                place = maker[graph.nodes[place].inputs[0]]
            if place >= 0 and is_view(graph.nodes[place].box):
                found.add(place)
    return found


def _results(graph: Graph) -> set[int]:
    """The places of results that are views of inputs, further views of what is a result already, and rematerialized."""
    maker, root, types, found = graph.makers(), view_roots(graph), graph.wire_types(), set[int]()
    free = rematerialized(graph, [False] * len(graph.dom))
    taken = set(range(len(graph.dom)))
    for w in sorted(dict.fromkeys(graph.outputs), key=lambda w: root[w] != w):  # first those that are no views
        if maker[w] >= 0 and (root[w] in taken or (free[w] and types[w].axes)):
            found.add(maker[w])
        taken.add(root[w])
    return found
