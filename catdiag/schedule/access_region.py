"""Access regions: the views of an input that each group reads in place, instead of loading the whole input.

A convolution reads its input at sums of a position and a tap. A group that computes a tile of positions needs a box of
the input only, from the least to the largest index along each axis (`catdiag.schedule.footprint` computes it).
`with_access_regions` marks such views as `TileWindow`: the group then holds the box, and the view reads out of the box
and takes no memory of its own.

A gather reads where arrays of data say. There is no box to load: the group loads one element for each result. Such a
view is marked as `PickedElements`, and what it loads is an array of its own.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from catdiag.category.diagram import Diagram, Graph, Node, of_graph, with_boxes
from catdiag.category.index_maps import Expr, View, leaves, natural
from catdiag.category.ops import Box, FoldOp, GroupOp, Index
from catdiag.category.substitution import inline
from catdiag.category.types import Ty
from catdiag.schedule.scatter_add import with_scatters


@dataclass(frozen=True)
class TileWindow(View):
    """A view that is read in place: the group holds only a box of the array that it views."""


@dataclass(frozen=True)
class PickedElements(TileWindow):
    """A gather. The group loads one element of the source for each result, and the result is an array of its own."""


def gathered_inputs(graph: Graph) -> frozenset[int]:
    """The inputs of a graph that are read by a gather (`PickedElements`)."""
    return frozenset(n.inputs[0] for n in graph.nodes if isinstance(n.box.op, PickedElements))


def inputs_in_place(graph: Graph) -> frozenset[int]:
    """The inputs of a kernel's graph that are read in place, by its boxes or by the steps of its loops."""
    found: set[int] = set()
    for node in graph.nodes:
        op = node.box.op
        if isinstance(op, TileWindow):
            found.add(node.inputs[0])
        elif isinstance(op, FoldOp):
            windows = (n.inputs[0] for n in inline(op.step).graph.nodes if isinstance(n.box.op, TileWindow))
            found.update(node.inputs[w - op.state_count] for w in windows)
    return frozenset(found)


def with_access_regions(diagram: Diagram, scatters: bool = True) -> Diagram:
    """The flat diagram, with the views marked that a group reads in place, and, with `scatters`, its scatter-adds.

    A view is marked if it reads an input of a group at positions of the group's tile, and nothing else reads that
    input. The index along each axis must be a sum of indices and positions. Each of them occurs once, with a factor
    that is an integer or a size. The view may be inside a loop of the group.

    A gather is marked too, outside of loops. It loads what it reads itself, so it gets an input of its own if the input
    has other readers.
    """
    flat = inline(diagram)
    graph = flat.graph
    positions = {
        w for w, place in enumerate(graph.makers()) if place >= 0 and isinstance(graph.nodes[place].box.op, Index)
    }
    nodes = []
    for node in graph.nodes:
        box, op = node.box, node.box.op
        if isinstance(op, GroupOp):
            body = inline(op.body)
            body = with_scatters(op, body) if op.scatters and scatters else body
            given = {k for k, w in enumerate(node.inputs) if w in positions}
            body, duplicated = _picking(_windowed(body, given), given)
            dom = Ty(*box.dom, *(box.dom[k] for k in duplicated))
            box = Box(replace(op, body=body), dom, box.cod, box.line)
            node = Node(box, (*node.inputs, *(node.inputs[k] for k in duplicated)))
        nodes.append(Node(box, node.inputs))
    made = Graph(graph.dom, tuple(nodes), graph.outputs)
    return of_graph(made, flat.cod, flat.names, flat.title)


def _windowed(body: Diagram, positions: set[int]) -> Diagram:
    """The body of a group with the views marked that are read in place. `positions` are the inputs that are position
    arrays."""
    graph = body.graph
    readers: dict[int, list[int]] = {}
    for place, node in enumerate(graph.nodes):
        for w in dict.fromkeys(node.inputs):
            readers.setdefault(w, []).append(place)
    marked: dict[int, Box] = {}
    for w in range(len(graph.dom)):
        if w in positions or w in graph.outputs or len(readers.get(w, ())) != 1:
            continue
        (place,) = readers[w]
        node = graph.nodes[place]
        box = marked.get(place, node.box)
        op = box.op
        if node.inputs.count(w) != 1:
            continue
        if isinstance(op, View):
            if node.inputs[0] == w and _reads_tile(op, node.inputs, positions):
                marked[place] = Box(TileWindow(op.index_axes, op.reads, op.fits), box.dom, box.cod, box.line)
        elif isinstance(op, FoldOp):
            own = {k for k, v in enumerate(node.inputs) if v in positions}
            step = _step(op, node.inputs.index(w) + op.state_count, {k + op.state_count for k in own})
            if step is not None:
                marked[place] = Box(replace(op, step=step), box.dom, box.cod, box.line)
    return with_boxes(body, marked)


def _picking(body: Diagram, positions: set[int]) -> tuple[Diagram, list[int]]:
    """The body of a group with its gathers marked, and the inputs that are duplicated: one copy stays for the other
    readers, one comes last for the gather."""
    graph, count = body.graph, len(body.dom)
    marked: dict[int, tuple[Box, int]] = {}
    duplicated: list[int] = []
    data = [k not in positions for k in range(count)]
    for place, node in enumerate(graph.nodes):
        op, box = node.box.op, node.box
        data.extend([any(data[w] for w in node.inputs)] * len(box.cod))
        if not isinstance(op, View) or isinstance(op, TileWindow) or node.inputs[0] >= count or len(op.reads) > 2:
            continue
        has_fallback = len(op.reads) == 2 and op.reads[1].at
        if has_fallback or not any(data[node.inputs[w]] for w in op.arrays()):
            continue
        w = node.inputs[0]
        others = w in graph.outputs or sum(n.inputs.count(w) for n in graph.nodes) > 1
        marked[place] = (
            Box(PickedElements(op.index_axes, op.reads, op.fits), box.dom, box.cod, box.line),
            len(duplicated) if others else -1,
        )
        duplicated += [w] if others else []
    if not marked:
        return body, []
    more = len(duplicated)
    nodes = []
    for place, node in enumerate(graph.nodes):
        box, own = marked.get(place, (node.box, -1))
        inputs = [w if w < count else w + more for w in node.inputs]
        inputs[:1] = [count + own] if own >= 0 else inputs[:1]
        nodes.append(Node(box, tuple(inputs)))
    outputs = tuple(w if w < count else w + more for w in graph.outputs)
    names = list(body.input_names)
    for w in duplicated:
        name = f"{names[w]}_"
        while name in names:
            name += "_"
        names.append(name)
    dom = Ty(*body.dom, *(body.dom[w] for w in duplicated))
    return of_graph(Graph(dom, tuple(nodes), outputs), body.cod, tuple(names), body.title), duplicated


def _step(op: FoldOp, wire: int, positions: set[int]) -> Diagram | None:
    """The step of a loop with its one view of the input `wire` marked; None if other boxes read that input too."""
    step = inline(op.step)
    places = [k for k, n in enumerate(step.graph.nodes) if wire in n.inputs]
    if len(places) != 1 or wire in step.graph.outputs:
        return None
    node = step.graph.nodes[places[0]]
    view = node.box.op
    if not isinstance(view, View) or node.inputs.count(wire) != 1 or node.inputs[0] != wire:
        return None
    streamed = any(n == op.axis for n, _ in view.reads[0].at) or any(a.size == op.block for a in view.index_axes)
    if streamed or not _reads_tile(view, node.inputs, positions):
        return None
    box = Box(TileWindow(view.index_axes, view.reads, view.fits), node.box.dom, node.box.cod, node.box.line)
    return with_boxes(step, {places[0]: box})


def _reads_tile(op: View, inputs: Sequence[int], positions: set[int]) -> bool:
    """Whether a view reads one array at positions of a tile, and a constant where the index is out of range."""
    count = len(op.reads)
    if not inputs[count:] or not set(inputs[count:]) <= positions or count > 2 or (op.reads[-1].at and count == 2):
        return False
    return all(_is_sum(e) for _, e in op.reads[0].at)


def _is_sum(e: Expr) -> bool:
    """Whether an index is a sum of indices and index arrays, each once, with factors that are integers or surely
    positive."""
    todo, indices = [e], []
    while todo:
        item = todo.pop()
        if not isinstance(item, tuple):
            continue
        if len(item) == 2:
            indices.append(item)
        elif item[0] == "+":
            todo += item[1:]
        elif item[0] == "*":
            free = [f for f in item[1:] if all(not isinstance(leaf, tuple) for leaf in leaves(f))]
            if not free or not (isinstance(free[0], int) or natural(free[0])):
                return False
            todo += [f for f in item[1:] if f is not free[0]]
        elif any(isinstance(leaf, tuple) for leaf in leaves(item)):
            return False
    return len(indices) == len(set(indices))
