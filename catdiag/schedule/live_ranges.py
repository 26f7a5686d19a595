"""What a graph's stored order says of its arrays: views, what is computed on the spot, last uses, chains of sums."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from catdiag.category.diagram import Graph, inline
from catdiag.category.ops import Box, Const, Einsum, FoldOp, GroupOp, Index, Map, Reduce, Reindex, Rename, SizeOf, View
from catdiag.schedule.access_region import PickedElements, TileWindow

COMBINES = {"sum": "add", "prod": "mul", "max": "max", "min": "min", "any": "or", "all": "and"}


def elementwise(box: Box) -> bool:
    """A scalar function, or a product that sums over nothing: it may write over an input."""
    return isinstance(box.op, Map) or (isinstance(box.op, Einsum) and not contracts(box))


def contracts(box: Box) -> bool:
    """Whether an einsum sums over an axis."""
    return bool({n for t in box.dom for n in t.names} - set(box.cod[0].names))


def multiplies(box: Box) -> bool:
    """Whether a box is a product that matrix units take: a sum of products of several arrays, none of them of integers.

    >>> import catdiag as cd
    >>> boxes = cd.algorithm("int[q d], x d -> q x")(lambda A, B: cd.einsum("q d, x d -> q x", A, B)).boxes
    >>> [multiplies(box) for box in boxes]
    [False]
    """
    return (
        isinstance(box.op, Einsum)
        and len(box.dom) > 1
        and contracts(box)
        and not any(t.element == "int" for t in box.dom.arrays)
    )


def is_view(box: Box) -> bool:
    """A renaming or transposition, a product axis split or merged, one index of one: the same elements."""
    if isinstance(box.op, Reindex):
        return box.op.kind in ("split", "merge")
    if isinstance(box.op, TileWindow):
        return not isinstance(box.op, PickedElements)
    if isinstance(box.op, Reduce):
        return any(a.name == box.op.axis and a.size == 1 for a in box.dom[0].axes)
    return isinstance(box.op, Rename) and len(box.dom[0].axes) == len(box.cod[0].axes)


def pointwise(box: Box) -> bool:
    """Whether each element of a box's result is computed from one of each input: a scalar function or product, or the
    input's elements elsewhere."""
    return elementwise(box) or isinstance(box.op, (Rename, Reindex, View))


def rematerialized(graph: Graph, given: Sequence[bool]) -> list[bool]:
    """For each wire, whether it is computed on the spot, where it is read: positions, sizes, constants, and what is
    made of those element by element, or is a scalar."""
    free = list(given)
    for node in graph.nodes:
        op = node.box.op
        if isinstance(op, (Index, SizeOf, Const)):
            free.append(True)
            continue
        closed = all(free[w] for w in node.inputs) and not isinstance(op, (FoldOp, GroupOp))
        free.extend(closed and (is_view(node.box) or pointwise(node.box) or not t.axes) for t in node.box.cod)
    return free


def _single_use(box: Box) -> bool:
    """A reduction, or a sum over one array."""
    return isinstance(box.op, Reduce) or (isinstance(box.op, Einsum) and len(box.dom) == 1)


def _monoid(box: Box) -> str:
    if isinstance(box.op, Reduce):
        return box.op.monoid
    return "sum" if isinstance(box.op, Einsum) and contracts(box) else ""


@dataclass
class LiveRanges:
    """For each wire the wire it is a view of, that one's last reader, and which reductions go straight into which
    combining box (`in_place`: place of the reduction → place of the box)."""

    root: list[int]
    last_use: list[int]
    in_place: dict[int, int]
    view_sources: dict[int, list[int]] = field(default_factory=dict)
    """Of what takes no room, the arrays that it is made of."""

    def passes(self, graph: Graph, place: int) -> bool:
        """Whether a box is a scalar function whose result is read, and by scalar functions and reductions alone."""
        node = graph.nodes[place]
        first = len(graph.dom) + sum(len(n.box.cod) for n in graph.nodes[:place])
        if not elementwise(node.box) or len(node.box.cod) != 1 or self.last_use[first] >= len(graph.nodes):
            return False
        readers = [n for n in graph.nodes if any(self.root[w] == first for w in n.inputs) and not is_view(n.box)]
        direct = all(first in n.inputs for n in readers) and first not in graph.outputs
        return bool(readers) and direct and all(elementwise(n.box) or _single_use(n.box) for n in readers)

    def extend(self, made: int, wires: Sequence[int]) -> None:
        """What takes no room is made of these arrays: they stay as long as it is read."""
        self.view_sources[made] = list(wires)
        for w in wires:
            self.last_use[w] = max(self.last_use[w], self.last_use[made])


def live_ranges(graph: Graph, free: Sequence[bool], states: int, kept: bool) -> LiveRanges:
    """Reads the last use of each array off the stored order; `kept` says that the outputs outlast the graph."""
    n = len(graph.nodes)
    root = list(range(len(graph.dom)))
    maker = [-1] * len(root)
    for place, node in enumerate(graph.nodes):
        for _ in node.box.cod:
            root.append(root[node.inputs[0]] if is_view(node.box) else len(root))
            maker.append(place)
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
            made = maker[w]
            if made < 0 or root[w] != w or w in ends or w in viewed or readers[w] != [place]:
                continue
            if COMBINES.get(_monoid(graph.nodes[made].box)) != node.box.op.fn:
                continue
            (v,) = set(node.inputs) - {w}
            own = (maker[v] >= 0 or v < states) and root[v] == v and v not in viewed and not free[v]
            dies = bool(readers[v]) and readers[v][-1] == place and not (kept and v in ends)
            names = [set(t.names) for t in (*node.box.dom, *node.box.cod)]
            apart = v not in graph.nodes[made].inputs
            if own and dies and apart and names[0] == names[1] == names[2]:
                into[made] = place
                break
    last = [-1] * len(root)
    for place, node in enumerate(graph.nodes):
        if not is_view(node.box):
            for w in node.inputs:
                last[root[w]] = max(last[root[w]], into.get(place, place))
    if kept:
        for w in ends:
            last[w] = n
    return LiveRanges(root, last, into)


def only_streamed(graph: Graph, root: Sequence[int], wires: Sequence[object], nested: bool = False) -> list[bool]:
    """For each input of a kernel, whether only loops read it, along their axis; with `nested`, or leave it to loops
    inside of theirs (see `postponed`)."""
    streamed = [b is not None for b in wires]
    placements: set[int] = set()  # what is read in place, and views of that
    count = len(graph.dom)
    for node in graph.nodes:
        count += len(node.box.cod)
        if is_view(node.box):
            if isinstance(node.box.op, TileWindow) or node.inputs[0] in placements:
                placements.add(count - 1)
            continue
        op = node.box.op
        along = [isinstance(op, FoldOp) and t.axis(op.axis) is not None for t in node.box.dom]
        inside = postponed(node.box, [root[w] for w in node.inputs]) if nested else [False] * len(along)
        for k, w in enumerate(node.inputs):
            if root[w] < len(wires) and not ((along[k] or inside[k]) and w not in placements):
                streamed[root[w]] = False
    for w in graph.outputs:
        if root[w] < len(wires):
            streamed[root[w]] = False
    return streamed


def postponed(box: Box, arrays: Sequence[object]) -> list[bool]:
    """For each input of a box, whether it is a loop that leaves it to loops inside its turns: nothing else reads it
    there, and they do along their axes, or leave it to further ones. They load it, block by block, in every turn.

    `arrays` tells which inputs are the same array: it is left to others everywhere, or nowhere. A loop that leaves
    blocks out loads all that it needs itself.
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
        root = list(range(len(step.dom)))
        for node in step.nodes:
            root.extend(root[node.inputs[0]] if is_view(node.box) else len(root) for _ in node.box.cod)
        if not ready:
            todo.append((item, known, True))
            todo += [(n.box, [root[w] for w in n.inputs], False) for n in step.nodes if isinstance(n.box.op, FoldOp)]
            continue
        states = len(item.cod)
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
    """How often, along the longest path, boxes wait for the result of a reduction or contraction, which other threads
    make. Adding to a state in place does not wait for it; anything else that reads the state does."""
    depth, summed = [0] * len(graph.dom), [w < states for w in range(len(graph.dom))]
    ends = set(found.in_place.values())
    for place, node in enumerate(graph.nodes):
        postponed_until = place not in ends and not is_view(node.box)
        longest = max((depth[w] + (postponed_until and summed[w]) for w in node.inputs), default=0)
        made = summed[node.inputs[0]] if is_view(node.box) else place in ends or bool(_monoid(node.box))
        depth.extend([longest] * len(node.box.cod))
        summed.extend([made] * len(node.box.cod))
    return max((depth[w] for w in graph.outputs), default=0)
