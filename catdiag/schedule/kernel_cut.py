"""The cut of a diagram into kernels: each Group box is one, and so are the boxes between two of them."""

from __future__ import annotations

from collections.abc import Container

from catdiag.category.diagram import Graph
from catdiag.category.ops import GroupOp
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
