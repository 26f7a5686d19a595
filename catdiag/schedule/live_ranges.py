"""Live ranges, read off the order in which a graph stores its boxes.

An array is live from the box that makes it to its last use. Four facts refine this:

- a view (renaming, transposition, split or merge of an axis) is the same elements: its uses are uses of its source;
- positions, sizes, constants and what is made of them element by element are rematerialized: they are recomputed where
  they are read, and take no memory;
- a reduction whose result is combined with an array that dies there adds into that array in place (`x = x + sum(y)`);
- an elementwise result may be written over an input that dies there (decided in `catdiag.schedule.liveness`).

`only_streamed` and `postponed` say which inputs no kernel needs in full, because loops load them block by block.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property

from catdiag.category.diagram import Graph
from catdiag.category.op_facts import contracts, elementwise, is_reshape, reduced_axes
from catdiag.category.ops import INDEX_MAPS, NULLARY, REDUCTIONS, Box, FoldOp, GroupOp, Map, Reduce
from catdiag.category.substitution import inline
from catdiag.schedule.access_region import PickedElements, TileWindow


def multiplies(box: Box) -> bool:
    """Whether a box is a contraction for matrix units: a sum of products of several arrays, none of them of integers.

    >>> import catdiag as cd
    >>> boxes = cd.algorithm("int[q d], x d -> q x")(lambda A, B: cd.einsum("q d, x d -> q x", A, B)).boxes
    >>> [multiplies(box) for box in boxes]
    [False]
    """
    return len(box.dom) > 1 and contracts(box) and not any(t.element == "int" for t in box.dom.arrays)


def is_view(box: Box) -> bool:
    """Whether a box gives the same elements: a renaming, a transposition, a split or merged axis, a removed axis of
    size 1."""
    if isinstance(box.op, TileWindow):
        return not isinstance(box.op, PickedElements)
    return is_reshape(box) or (isinstance(box.op, Reduce) and box.size_of(box.op.axis) == 1)


def view_roots(graph: Graph) -> tuple[int, ...]:
    """For each wire, the wire that it is a view of; itself, if it is no view."""
    return graph.cached(_view_roots)


def _view_roots(graph: Graph) -> tuple[int, ...]:
    root = list(range(len(graph.dom)))
    for node in graph.nodes:
        root.extend(root[node.inputs[0]] if is_view(node.box) else len(root) for _ in node.box.cod)
    return tuple(root)


def final_reshapes(graph: Graph, wire: int) -> list[tuple[int, Box]]:
    """The renamings, transpositions, splits and merges of axes that a wire is of another array, the first one first:
    of each the wire that it reads, and its box."""
    maker, found = graph.makers(), list[tuple[int, Box]]()
    while maker[wire] >= 0:
        node = graph.nodes[maker[wire]]
        if not is_reshape(node.box):
            break
        wire = node.inputs[0]
        found.append((wire, node.box))
    return found[::-1]


def pointwise(box: Box) -> bool:
    """Whether each element of a box's result is computed from one element of each input: a scalar function, a product
    without summation, or a box that only moves elements."""
    return elementwise(box) or isinstance(box.op, INDEX_MAPS)


def rematerialized(graph: Graph, given: Sequence[bool], masks: bool = True) -> list[bool]:
    """For each wire, whether it is rematerialized: computed again where it is read, so that it takes no memory.

    These are positions, sizes and constants, and what is made of those only and is elementwise or a scalar; without
    `masks`, no array that is computed from them, such as a mask. `given` says it of the graph's inputs.
    """
    free = list(given)
    for node in graph.nodes:
        op = node.box.op
        if isinstance(op, NULLARY):
            free.append(True)
            continue
        closed = all(free[w] for w in node.inputs) and not isinstance(op, (FoldOp, GroupOp))
        same = is_view(node.box) or (masks and pointwise(node.box))
        free.extend(closed and (same or not t.axes) for t in node.box.cod)
    return free


def _single_use(box: Box) -> bool:
    """Whether a box is a reduction or a sum over one array: it can read its input as that is made."""
    return isinstance(box.op, REDUCTIONS) and len(box.dom) == 1


def _combines(box: Box) -> str:
    """The scalar function that combines two results of a reduction or contraction; empty for other boxes."""
    return box.op.combines if isinstance(box.op, REDUCTIONS) and reduced_axes(box) else ""


@dataclass
class LiveRanges:
    """Live ranges of a graph's wires.

    - `root`: for each wire, the wire that it is a view of (itself, if it is no view);
    - `last_use`: for each root, the index of the box of its last use, -1 if there is none, the number of boxes if it
      outlives the graph;
    - `in_place`: the reductions that are accumulated in place (index of the reduction → index of the box that combines
      its result with an array).
    """

    root: Sequence[int]
    last_use: list[int]
    in_place: dict[int, int]
    view_sources: dict[int, list[int]] = field(default_factory=dict)
    """For a wire that takes no memory, the arrays that it is recomputed from."""

    @cached_property
    def reduced(self) -> dict[int, int]:
        """For each box that combines the result of a reduction in place, that reduction."""
        return {combining: place for place, combining in self.in_place.items()}

    def passes(self, graph: Graph, place: int) -> bool:
        """Whether a box is a scalar function that can be fused into its readers: it has readers, and all of them are
        scalar functions or reductions that read its result directly."""
        node, first = graph.nodes[place], graph.first_wires()[place]
        if not elementwise(node.box) or len(node.box.cod) != 1 or self.last_use[first] >= len(graph.nodes):
            return False
        readers = [n for n in graph.nodes if any(self.root[w] == first for w in n.inputs) and not is_view(n.box)]
        direct = all(first in n.inputs for n in readers) and first not in graph.outputs
        return bool(readers) and direct and all(elementwise(n.box) or _single_use(n.box) for n in readers)

    def extend(self, made: int, wires: Sequence[int]) -> None:
        """Wire `made` takes no memory and is recomputed from `wires`, so these stay live until its last use."""
        self.view_sources[made] = list(wires)
        for w in wires:
            self.last_use[w] = max(self.last_use[w], self.last_use[made])


def live_ranges(graph: Graph, free: Sequence[bool], states: int, outlive: bool) -> LiveRanges:
    """The live ranges of a graph's wires.

    `free` says which wires are rematerialized, `states` how many of the first inputs are states of a loop. With
    `outlive`, the outputs outlive the graph; without it, an output dies at its last use inside.
    """
    root, maker = view_roots(graph), graph.makers()
    readers: list[list[int]] = [[] for _ in root]
    viewed: set[int] = set()
    for place, node in enumerate(graph.nodes):
        if is_view(node.box):
            viewed.add(root[node.inputs[0]])
            continue
        for w in node.inputs:
            readers[root[w]].append(place)
    ends = {root[w] for w in graph.outputs}
    into: dict[int, int] = {}
    for place, node in enumerate(graph.nodes):
        if not isinstance(node.box.op, Map) or len(node.inputs) != 2 or node.inputs[0] == node.inputs[1]:
            continue
        for w in sorted(node.inputs, reverse=True):
            source = maker[w]
            if source < 0 or root[w] != w or w in ends or w in viewed or readers[w] != [place]:
                continue
            if _combines(graph.nodes[source].box) != node.box.op.fn:
                continue
            (v,) = set(node.inputs) - {w}
            is_array = (maker[v] >= 0 or v < states) and root[v] == v and v not in viewed and not free[v]
            dies = bool(readers[v]) and readers[v][-1] == place and not (outlive and v in ends)
            names = [set(t.names) for t in (*node.box.dom, *node.box.cod)]
            independent = v not in graph.nodes[source].inputs
            if is_array and dies and independent and names[0] == names[1] == names[2]:
                into[source] = place
                break
    last = [-1] * len(root)
    for place, node in enumerate(graph.nodes):
        if not is_view(node.box):
            for w in node.inputs:
                last[root[w]] = max(last[root[w]], into.get(place, place))
    if outlive:
        for w in ends:
            last[w] = len(graph.nodes)
    return LiveRanges(root, last, into)


def only_streamed(graph: Graph, wires: Sequence[object], nested: bool = False) -> list[bool]:
    """For each input of a kernel, whether it is only streamed: every reader is a loop over one of the input's axes, so
    that a block of it is allocated at a time.

    With `nested`, loops that leave the input to loops inside of them count too (see `postponed`). Inputs whose entry in
    `wires` is None take no memory and are not streamed.
    """
    root = view_roots(graph)
    streamed = [b is not None for b in wires]
    read_in_place: set[int] = set()  # what is read in place, and views of that
    for made, node in graph.wired():
        if is_view(node.box):
            if isinstance(node.box.op, TileWindow) or node.inputs[0] in read_in_place:
                read_in_place.update(made)
            continue
        op = node.box.op
        along = [isinstance(op, FoldOp) and t.axis(op.axis) is not None for t in node.box.dom]
        inside = postponed(node.box, [root[w] for w in node.inputs]) if nested else [False] * len(along)
        for k, w in enumerate(node.inputs):
            if root[w] < len(wires) and not ((along[k] or inside[k]) and w not in read_in_place):
                streamed[root[w]] = False
    for w in graph.outputs:
        if root[w] < len(wires):
            streamed[root[w]] = False
    return streamed


def postponed(box: Box, arrays: Sequence[object]) -> list[bool]:
    """For each input of a box, whether the box is a loop that leaves loading the input to its inner loops.

    That is so if nothing else in the loop's step reads the input, and the inner loops run along an axis of it, or leave
    it to their own inner loops. The inner loops then load it block by block, in every iteration of the outer one.

    `arrays` identifies inputs that are the same array: it is postponed for all of them, or for none. A loop that skips
    blocks loads all that it needs itself.
    """
    found: dict[int, list[bool]] = {}
    todo = [(box, list(arrays), False)]
    while todo:
        item, known, ready = todo.pop()
        op = item.op
        if not isinstance(op, FoldOp) or op.bounds is not None or op.is_live is not None:
            found[id(item)] = [False] * len(item.dom)
            continue
        step = inline(op.step).graph
        root = view_roots(step)
        if not ready:
            todo.append((item, known, True))
            todo += [(n.box, [root[w] for w in n.inputs], False) for n in step.nodes if isinstance(n.box.op, FoldOp)]
            continue
        states = op.state_count
        left = [False] * states + [True] * len(item.dom)
        read = [False] * len(left)
        for node in step.nodes:
            inner = node.box.op
            for k, w in enumerate(node.inputs):
                if root[w] >= len(left) or (is_view(node.box) and not isinstance(inner, TileWindow)):
                    continue
                read[root[w]] = True
                along = isinstance(inner, FoldOp) and node.box.dom[k].axis(inner.axis) is not None
                if not isinstance(inner, FoldOp) or not (along or found[id(node.box)][k]):
                    left[root[w]] = False
        for w in step.outputs:
            if root[w] < len(left):
                left[root[w]] = False
        mine = [a and b for a, b in zip(left[states:], read[states:], strict=True)]
        some = {a for a, ok in zip(known, mine, strict=True) if not ok}
        found[id(item)] = [a not in some for a in known]
    return found[id(box)]


def chain(graph: Graph, found: LiveRanges, states: int) -> int:
    """The longest dependence chain of reductions through a graph: how many times on one path a box waits for the result
    of a reduction or contraction, which other threads compute.

    Accumulating into a state in place does not wait. Any other read of the state does.
    """
    depth, summed = [0] * len(graph.dom), [w < states for w in range(len(graph.dom))]
    ends = set(found.in_place.values())
    for place, node in enumerate(graph.nodes):
        waits = place not in ends and not is_view(node.box)
        longest = max((depth[w] + (waits and summed[w]) for w in node.inputs), default=0)
        made = summed[node.inputs[0]] if is_view(node.box) else place in ends or bool(_combines(node.box))
        depth.extend([longest] * len(node.box.cod))
        summed.extend([made] * len(node.box.cod))
    return max((depth[w] for w in graph.outputs), default=0)
