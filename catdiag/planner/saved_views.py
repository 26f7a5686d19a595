"""The views and rematerialized values of a graph that are arrays in memory of their own, which a kernel writes.

>>> import catdiag as cd
>>> f = cd.algorithm("q x -> x q, q")(lambda A: (cd.rearrange(A, "q x -> x q"), cd.sum(A, "x")))
>>> [f.diagram.boxes[place].name for place in saved_views(f.diagram.graph)]
['rename']
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

from catdiag.category.graph import Box, Graph
from catdiag.category.index_maps import leaves
from catdiag.category.op_facts import transposes
from catdiag.category.ops import Generic, Map, Op, Reindex, View, op_fact
from catdiag.schedule.live_ranges import is_view, rematerialized, view_roots


def saved_views(graph: Graph) -> set[int]:
    """The places of their boxes: of what uninterpreted boxes read, and of results that no kernel would write else."""
    found = _read_by_functions(graph)
    return found | _results(graph, inlined(graph, found))


def inlined(graph: Graph, saved: Collection[int]) -> list[bool]:
    """For each wire, whether it is made again where it is read, so that it takes no memory: what is rematerialized,
    parts of inputs (slices, an index, a flip), and integers and conditions of inputs (`_recomputed`), but for what is
    `saved`.

    >>> import catdiag as cd
    >>> halves = cd.algorithm("q x+y -> q")(lambda A: cd.sum(cd.slice(A, "x+y", "x"), "x"))
    >>> inlined(halves.diagram.graph, ())
    [False, True, False]
    """
    free, given = rematerialized(graph, [False] * len(graph.dom)), [True] * len(graph.dom)
    for place, (made, node) in enumerate(graph.wired()):
        part = place not in saved and is_part(node.box) and given[node.inputs[0]]
        said = place not in saved and _recomputed(
            node.box, [free[w] for w in node.inputs], [given[w] for w in node.inputs]
        )
        same = part or said or (place not in saved and is_view(node.box) and given[node.inputs[0]])
        for w in made:
            given.append(same)
            free[w] = free[w] or part or said
    return free


def _recomputed(box: Box, free: Sequence[bool], given: Sequence[bool]) -> bool:
    """Whether a box makes integers of what is `given` or `free` at every index, or conditions that take more memory
    than all that is given: `a = ids[t]`, which is true at one a for each t."""
    if not isinstance(box.op, Map) or not all(a or b for a, b in zip(free, given, strict=True)):
        return False
    read = [ty for ty, inlined in zip(box.dom, free, strict=True) if not inlined]
    kinds = {ty.element for ty in read}
    (made,) = box.cod
    if made.element == "int":
        return kinds <= {"int", "bool"}
    return made.element == "bool" and kinds <= {"int", "bool"} and all(len(ty.axes) < len(made.axes) for ty in read)


def is_part(box: Box) -> bool:
    """Whether a box gives some entries of an array, none of them twice: a slice, or a view that reads each axis at the
    index of one of its own, or at a constant."""
    row = op_fact(PARTS, box.op)
    return row is not None and row(box.op, box)


def _reads_once(op: View, box: Box) -> bool:
    if len(op.reads) != 1 or len(box.dom) != 1:
        return False
    indices = [[v for v in leaves(e) if isinstance(v, tuple)] for _, e in op.reads[0].at]
    used = [v[1] for own in indices for v in own]
    others = set(box.dom[0].names) - {name for name, _ in op.reads[0].at}
    made = {a.name for a in op.index_axes}
    return all(len(found) < 2 for found in indices) and len(set(used)) == len(used) and made <= {*used, *others}


PARTS: Mapping[type[Op], Callable[[Any, Box], bool]] = {
    Reindex: lambda op, box: op.kind == "slice",
    View: _reads_once,
}
"""Whether an index map gives some entries of an array, none of them twice, by its class."""


def _read_by_functions(graph: Graph) -> set[int]:
    """The places of views, but for transpositions, that uninterpreted boxes read."""
    maker, found = graph.makers(), set[int]()
    for node in graph.nodes:
        for w in node.inputs if isinstance(node.box.op, Generic) else ():
            place = maker[w]
            while place >= 0 and transposes(graph.nodes[place].box):
                place = maker[graph.nodes[place].inputs[0]]
            if place >= 0 and (is_view(graph.nodes[place].box) or is_part(graph.nodes[place].box)):
                found.add(place)
    return found


def _results(graph: Graph, free: Sequence[bool]) -> set[int]:
    """The places of results that are views of inputs, further views of what is a result already, and inlined."""
    maker, root, types, found = graph.makers(), view_roots(graph), graph.wire_types(), set[int]()
    taken = set(range(len(graph.dom)))
    for w in sorted(dict.fromkeys(graph.outputs), key=lambda w: root[w] != w):  # first those that are no views
        if maker[w] >= 0 and (root[w] in taken or (free[root[w]] and types[w].axes)):
            found.add(maker[w])
        taken.add(root[w])
    return found
