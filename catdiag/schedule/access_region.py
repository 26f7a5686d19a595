"""Diagrams as what they are on a machine: views that groups read in place of whole arrays.

`with_access_regions` marks the views that groups have of whole arrays, at positions of their tiles: of such an array a
group holds the box of elements between the least and the largest index that is read along each axis, and the view
itself, which reads it there, takes no room.

Where data says what is read, a group loads an element for each result of the view, which is a box at work then: what it
picks is an array of its own.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from catdiag.category.diagram import Diagram, Graph, Node, inline, of_graph
from catdiag.category.index_maps import Expr, View, leaves, natural
from catdiag.category.ops import Box, FoldOp, GroupOp, Index
from catdiag.category.types import Ty


@dataclass(frozen=True)
class TileWindow(View):
    """A view that is read in place, of an array that a group holds only a box of."""


@dataclass(frozen=True)
class PickedElements(TileWindow):
    """A view that reads where arrays of data say: of its array a group loads an element for each of its results, which
    are an array of their own."""


def gathered_inputs(graph: Graph) -> frozenset[int]:
    """The inputs of a graph of which elements are picked."""
    return frozenset(n.inputs[0] for n in graph.nodes if isinstance(n.box.op, PickedElements))


def with_access_regions(diagram: Diagram) -> Diagram:
    """The flat diagram with views marked that read an input of a group, by nothing else read, at positions of its tile.

    The positions along each axis must be sums of indices and of positions, each once, with factors that are integers or
    sizes. The views may be in a loop of the group. Views of an input of a group where data says are marked too,
    outside of loops, each as the one reader of an input of its own, since they load what they read themselves.
    """
    flat = inline(diagram)
    graph = flat.graph
    outside = [isinstance(n.box.op, Index) for n in graph.nodes]
    rematerialized = {w for w, place in _producers(graph).items() if outside[place]}
    nodes = []
    for node in graph.nodes:
        box, op = node.box, node.box.op
        if isinstance(op, GroupOp):
            body = inline(op.body)
            given = {k for k, w in enumerate(node.inputs) if w in rematerialized}
            body, twice = _picking(_windowed(body, given), given)
            dom = Ty(*box.dom, *(box.dom[k] for k in twice))
            box = Box(replace(op, body=body), dom, box.cod, box.line)
            node = Node(box, (*node.inputs, *(node.inputs[k] for k in twice)))
        nodes.append(Node(box, node.inputs))
    made = Graph(graph.dom, tuple(nodes), graph.outputs)
    return of_graph(made, flat.cod, flat.names, flat.title)


def _producers(graph: Graph) -> dict[int, int]:
    """For each wire that is made the place of its box."""
    found: dict[int, int] = {}
    count = len(graph.dom)
    for place, node in enumerate(graph.nodes):
        found.update(dict.fromkeys(range(count, count + len(node.box.cod)), place))
        count += len(node.box.cod)
    return found


def _windowed(body: Diagram, positions: set[int]) -> Diagram:
    """The body of a group, of which some inputs are positions, with the views marked that are read in place."""
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
            step = _step(op, node.inputs.index(w) + len(box.cod), {k + len(box.cod) for k in own})
            if step is not None:
                marked[place] = Box(replace(op, step=step), box.dom, box.cod, box.line)
    nodes = tuple(Node(marked.get(k, n.box), n.inputs) for k, n in enumerate(graph.nodes))
    return of_graph(Graph(graph.dom, nodes, graph.outputs), body.cod, body.names, body.title)


def _picking(body: Diagram, positions: set[int]) -> tuple[Diagram, list[int]]:
    """The body of a group with the views of inputs marked that read where data says, and the inputs that are there
    twice then: for others, and last for the view."""
    graph, count = body.graph, len(body.dom)
    marked: dict[int, tuple[Box, int]] = {}
    twice: list[int] = []
    data = [k not in positions for k in range(count)]
    for place, node in enumerate(graph.nodes):
        op, box = node.box.op, node.box
        data.extend([any(data[w] for w in node.inputs)] * len(box.cod))
        if not isinstance(op, View) or isinstance(op, TileWindow) or node.inputs[0] >= count or len(op.reads) > 2:
            continue
        beyond = len(op.reads) == 2 and op.reads[1].at
        if beyond or not any(data[node.inputs[w]] for w in op.arrays()):
            continue
        w = node.inputs[0]
        others = w in graph.outputs or sum(n.inputs.count(w) for n in graph.nodes) > 1
        marked[place] = (
            Box(PickedElements(op.index_axes, op.reads, op.fits), box.dom, box.cod, box.line),
            len(twice) if others else -1,
        )
        twice += [w] if others else []
    if not marked:
        return body, []
    more = len(twice)
    nodes = []
    for place, node in enumerate(graph.nodes):
        box, own = marked.get(place, (node.box, -1))
        inputs = [w if w < count else w + more for w in node.inputs]
        inputs[:1] = [count + own] if own >= 0 else inputs[:1]
        nodes.append(Node(box, tuple(inputs)))
    outputs = tuple(w if w < count else w + more for w in graph.outputs)
    names = list(body.input_names)
    for w in twice:
        name = f"{names[w]}_"
        while name in names:
            name += "_"
        names.append(name)
    dom = Ty(*body.dom, *(body.dom[w] for w in twice))
    return of_graph(Graph(dom, tuple(nodes), outputs), body.cod, tuple(names), body.title), twice


def _step(op: FoldOp, wire: int, positions: set[int]) -> Diagram | None:
    """The turn of a loop with its one view of an input marked; None where other boxes read it."""
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
    nodes = tuple(Node(box if k == places[0] else n.box, n.inputs) for k, n in enumerate(step.graph.nodes))
    return of_graph(Graph(step.dom, nodes, step.graph.outputs), step.cod, step.names, step.title)


def _reads_tile(op: View, inputs: Sequence[int], positions: set[int]) -> bool:
    """Whether a view reads one array at positions of a tile, and beyond it takes a number."""
    count = len(op.reads)
    if not inputs[count:] or not set(inputs[count:]) <= positions or count > 2 or (op.reads[-1].at and count == 2):
        return False
    return all(_is_sum(e) for _, e in op.reads[0].at)


def _is_sum(e: Expr) -> bool:
    """A sum of indices and index arrays, each once, with factors that are integers or plainly positive."""
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
