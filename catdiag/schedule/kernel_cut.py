"""The cut of a diagram into kernels: each Group box is one, and so are the boxes between two of them."""

from __future__ import annotations

from collections.abc import Collection, Container, Sequence
from dataclasses import dataclass

from catdiag.category.diagram import Graph, Node
from catdiag.category.ops import GroupOp
from catdiag.category.types import ArrayType, Ty
from catdiag.schedule.live_ranges import is_view, view_roots


def kernel_cut(graph: Graph, inlined: Container[int], fused: bool = True) -> tuple[list[list[int]], set[int]]:
    """The boxes of each kernel, by index, and the wires that one kernel makes and another one reads, views resolved.

    Views belong to no kernel, nor do the boxes that are `inlined` where they are read. Without `fused`, each box
    between groups is a kernel.

    >>> from catdiag.library import get
    >>> from catdiag.category.diagram import diagram_of, inline
    >>> kernel_cut(inline(diagram_of(get("softmax"))).graph, (), fused=False)
    ([[0], [1], [2], [3], [4]], {1, 2, 3, 4})
    """
    kernels: list[list[int]] = []
    crossing: set[int] = set()
    root, first = view_roots(graph), graph.first_wires()
    maker: dict[int, int] = {}
    open_run = False
    for place, node in enumerate(graph.nodes):
        if is_view(node.box) or place in inlined:
            continue
        group = isinstance(node.box.op, GroupOp)
        if group or not open_run or not fused:
            kernels.append([])
        open_run = not group
        kernels[-1].append(place)
        maker.update(dict.fromkeys(range(first[place], first[place] + len(node.box.cod)), len(kernels)))
        crossing.update(root[w] for w in node.inputs if maker.get(root[w], len(kernels)) != len(kernels))
    return kernels, crossing


@dataclass(frozen=True)
class KernelGraph:
    """Some boxes of an outer graph as a graph of their own. `inputs` and `outputs` are wires of the outer graph,
    `places` the indices of the boxes there."""

    graph: Graph
    inputs: list[int]
    outputs: list[int]
    places: list[int]


def subgraph(
    graph: Graph,
    types: Sequence[ArrayType],
    free: Sequence[bool],
    root: Sequence[int],
    places: Sequence[int],
    leaving: Collection[int],
) -> KernelGraph:
    """Some boxes of a graph as a graph of their own, which makes the wires among `leaving` for others.

    It contains the boxes of rematerialized values that it reads, and no views: it reads the arrays that they are of.
    """
    first, maker = graph.first_wires(), graph.makers()
    included, todo = set(places), list(places)
    while todo:
        read = {maker[w] for w in graph.nodes[todo.pop()].inputs if free[w] and maker[w] >= 0} - included
        read = {p for p in read if graph.nodes[p].inputs}
        included |= read
        todo += read
    places = sorted(included)
    inside = {first[p] + k for p in places for k in range(len(graph.nodes[p].box.cod))}
    outside: dict[int, int] = {}
    for p in places:
        for w in graph.nodes[p].inputs:
            source = w if free[w] else root[w]
            if source not in inside:
                outside.setdefault(source, len(outside))
    local: dict[int, int] = dict(outside)
    nodes: list[Node] = []
    count = len(outside)
    for p in places:
        node = graph.nodes[p]
        for w in node.inputs:
            if w not in local:  # a view that is made before these boxes, or between them
                local[w] = local[root[w]]
        nodes.append(Node(node.box, tuple(local[w] for w in node.inputs)))
        for k in range(len(node.box.cod)):
            local[first[p] + k] = count + k
        count += len(node.box.cod)
    ends = [w for w in sorted(inside) if w in leaving and not free[w]]
    dom = Ty(*(types[w] for w in outside))
    return KernelGraph(Graph(dom, tuple(nodes), tuple(local[w] for w in ends)), list(outside), ends, places)
