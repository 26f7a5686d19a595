"""The cut of a diagram into kernels, and of a kernel into phases: each Group box is a kernel, and so are the boxes
between two of them; each loop of a kernel is a phase, and so are the boxes between two loops."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from catdiag.category.diagram import Graph
from catdiag.category.graph_writer import GraphWriter
from catdiag.category.integer_polynomial import IntPolynomial
from catdiag.category.ops import Box, FoldOp, GroupOp
from catdiag.category.types import ArrayType
from catdiag.schedule.contractions import Loop
from catdiag.schedule.gathers import gathered
from catdiag.schedule.live_ranges import final_reshapes, is_view, rematerialized, view_roots


@dataclass(frozen=True)
class KernelGraph:
    """Some boxes of an outer graph as a graph of their own. `inputs` and `outputs` are wires of the outer graph,
    `places` the indices of the boxes there."""

    graph: Graph
    inputs: list[int]
    outputs: list[int]
    places: list[int]


@dataclass(frozen=True)
class KernelCut:
    """A graph cut into kernels.

    - `kernels`: the boxes of each, by index; `crossing`: the wires that one kernel makes and another one reads, views
      resolved;
    - `gathered`: the boxes that groups gather an array through; `free`: which wires are rematerialized. These boxes
      belong to no kernel, nor do views.
    """

    graph: Graph
    kernels: list[list[int]]
    crossing: frozenset[int]
    gathered: frozenset[int]
    free: Sequence[bool]

    def is_free(self, place: int) -> bool:
        """Whether all results of a box are rematerialized."""
        box = self.graph.nodes[place].box
        return bool(box.cod) and all_free(self.free, self.graph.first_wires()[place], box)

    @cached_property
    def leaving(self) -> frozenset[int]:
        """The wires that kernels save: those that cross, and the results; views resolved."""
        root = view_roots(self.graph)
        return self.crossing | {root[w] for w in self.graph.outputs}

    @cached_property
    def types(self) -> Sequence[ArrayType]:
        """The types of all wires."""
        return self.graph.wire_types()

    def part(self, places: Sequence[int]) -> KernelGraph:
        """A kernel that is no group as a graph of its own."""
        return subgraph(self.graph, self.types, self.free, places, self.leaving)


def all_free(free: Sequence[bool], first: int, box: Box) -> bool:
    """Whether all results of a box, of which the first is wire `first`, are rematerialized."""
    return all(free[first + k] for k in range(len(box.cod)))


def kernel_cut(graph: Graph, fused: bool = True) -> KernelCut:
    """Cuts a graph into kernels. Without `fused`, each box between groups is a kernel.

    >>> from catdiag.library import get
    >>> from catdiag.category.diagram import diagram_of
    >>> from catdiag.category.substitution import inline
    >>> cut = kernel_cut(inline(diagram_of(get("softmax"))).graph, fused=False)
    >>> cut.kernels, sorted(cut.crossing)
    ([[0], [1], [2], [3], [4]], [1, 2, 3, 4])
    """
    kernels: list[list[int]] = []
    crossing: set[int] = set()
    root, first = view_roots(graph), graph.first_wires()
    free, views = rematerialized(graph, [False] * len(graph.dom)), gathered(graph)
    maker: dict[int, int] = {}
    open_run = False
    for place, node in enumerate(graph.nodes):
        inlined = bool(node.box.cod) and all_free(free, first[place], node.box)
        if is_view(node.box) or place in views or inlined:
            continue
        group = isinstance(node.box.op, GroupOp)
        if group or not open_run or not fused:
            kernels.append([])
        open_run = not group
        kernels[-1].append(place)
        maker.update(dict.fromkeys(range(first[place], first[place] + len(node.box.cod)), len(kernels)))
        crossing.update(root[w] for w in node.inputs if maker.get(root[w], len(kernels)) != len(kernels))
    return KernelCut(graph, kernels, frozenset(crossing), views, free)


def subgraph(
    graph: Graph, types: Sequence[ArrayType], free: Sequence[bool], places: Sequence[int], leaving: Collection[int]
) -> KernelGraph:
    """Some boxes of a graph as a graph of their own, which makes the wires among `leaving` for others.

    It contains the boxes of rematerialized values that it reads (`free`), and no views: it reads the arrays that they
    are of.
    """
    root, first, maker = view_roots(graph), graph.first_wires(), graph.makers()
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
    local, writer = dict(outside), GraphWriter(types[w] for w in outside)
    for p in places:
        node = graph.nodes[p]
        for w in node.inputs:
            if w not in local:  # a view that is made before these boxes, or between them
                local[w] = local[root[w]]
        local.update(enumerate(writer.made(node.box, [local[w] for w in node.inputs]), first[p]))
    ends = [w for w in sorted(inside) if w in leaving and not free[w]]
    return KernelGraph(writer.graph(local[w] for w in ends), list(outside), ends, places)


def reshaped_results(graph: Graph, calls: Collection[int] = ()) -> dict[int, tuple[int, list[Box]]]:
    """The results that are reshapes of arrays which groups make, and which are no results themselves: for the wire of
    each, that of the array, and the boxes from it to the result. Not those of the groups numbered in `calls`.

    >>> import catdiag as cd
    >>> f = cd.algorithm("b h d")(lambda A: cd.rearrange(cd.exp(A), "b h d -> b (h d)")).group("b h")
    >>> [made for made, _ in reshaped_results(f.diagram.graph).values()]
    [1]
    """
    found: dict[int, tuple[int, list[Box]]] = {}
    maker = graph.makers()
    taken = set(graph.outputs)
    groups = [place for place, node in enumerate(graph.nodes) if isinstance(node.box.op, GroupOp)]
    writing = {place for number, place in enumerate(groups) if number not in calls}
    for w in dict.fromkeys(graph.outputs):
        if chain := final_reshapes(graph, w):
            made, place = chain[0][0], maker[chain[0][0]]
            if made not in taken and place in writing:
                found[w] = made, [box for _, box in chain]
                taken.add(made)
    return found


@dataclass
class PhaseBoxes:
    """A loop of a kernel, or the boxes between two loops (`places`), and the wires that it reads and makes, views
    resolved."""

    places: list[int]
    loop: Loop | None = None
    reads: list[int] = field(default_factory=list)
    made: list[int] = field(default_factory=list)


def phase_cut(graph: Graph, free: Sequence[bool]) -> list[PhaseBoxes]:
    """The phases of a kernel in order. Views and rematerialized values (`free`) belong to none."""
    found: list[PhaseBoxes] = []
    open_run = False
    root, first = view_roots(graph), graph.first_wires()
    for place, node in enumerate(graph.nodes):
        op = node.box.op
        if is_view(node.box) or (node.box.cod and all_free(free, first[place], node.box)):
            continue
        if isinstance(op, FoldOp):
            found.append(PhaseBoxes([], (op.block, IntPolynomial.of(node.box.size_of(op.axis)))))
        elif not open_run:
            found.append(PhaseBoxes([]))
        open_run = not isinstance(op, FoldOp)
        phase = found[-1]
        phase.places.append(place)
        phase.made += range(first[place], first[place] + len(node.box.cod))
        reads = [root[w] for w in node.inputs if not free[w]]
        phase.reads = list(dict.fromkeys([*phase.reads, *(w for w in reads if w not in phase.made)]))
    return found
