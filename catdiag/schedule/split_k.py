"""Split-K: a loop that runs in parts (a parallel reduction), as two kernels.

The first kernel runs the parts in parallel and saves the state of each. The second merges the states in order.

`two_kernels` writes this as a diagram with the same meaning, where all parts have the same length. It splits the
streamed axis into parts and positions in a part. The loop runs in groups of one part, and a second loop merges the
states. The simulator runs this diagram, and costs are read off it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from catdiag.category.diagram import Diagram, Graph, Node, of_graph, reachable
from catdiag.category.functor import weave
from catdiag.category.index_maps import Reindex
from catdiag.category.ops import (
    Box,
    Call,
    FoldOp,
    GroupOp,
    Index,
    Reduce,
    Rename,
    bodies,
    index_box,
    map_box,
    reduce_box,
    reindex_box,
)
from catdiag.category.substitution import inline
from catdiag.category.traversal import all_boxes
from catdiag.category.types import ArrayType, Axis, Size, Ty, product
from catdiag.util.errors import CatdiagError


@dataclass(frozen=True)
class SplitLoop:
    """A diagram in which a split loop is two kernels.

    `parts` is the symbol for the number of parts, `length` the symbol for the length of one: `axis_size` / `parts`.
    `single` are symbols of tiles and blocks that are always 1. `index` is the index of the box of the kernel that saves
    the states, and `names` are the names of the states.
    """

    diagram: Diagram
    parts: str
    length: str
    axis_size: Size
    single: tuple[str, ...]
    index: int
    names: tuple[str, ...]


def is_split(diagram: Diagram) -> bool:
    """Whether a diagram has a split loop, in its groups too.

    >>> from catdiag.category.diagram import id
    >>> is_split(id(Ty()))
    False
    """
    return any(isinstance(box.op, FoldOp) and box.op.parts is not None for box in all_boxes(diagram))


def joined(diagram: Diagram) -> Diagram:
    """The diagram with each split loop replaced by a loop in one part."""
    nodes = []
    for node in diagram.graph.nodes:
        op = node.box.op
        if isinstance(op, FoldOp):
            op = replace(op, parts=None)
        elif isinstance(op, (GroupOp, Call)):
            op = replace(op, body=joined(op.body))
        nodes.append(Node(Box(op, node.box.dom, node.box.cod, node.box.line), node.inputs))
    graph = Graph(diagram.graph.dom, tuple(nodes), diagram.graph.outputs)
    return of_graph(graph, diagram.cod, diagram.names, diagram.title)


def two_kernels(diagram: Diagram) -> SplitLoop:
    """A diagram with one split loop, in one group or in none, as two kernels.

    A loop that skips blocks skips them in each part. Raises CatdiagError if there are several split loops, or one in
    another loop.
    """
    flat = inline(diagram)
    graph = flat.graph
    places = [k for k, node in enumerate(graph.nodes) if is_split(of_graph(_single_node(node)))]
    if len(places) != 1:
        raise CatdiagError(
            f"the diagram has {len(places)} split loops: expected one, as only the cost of one is counted"
        )
    node = graph.nodes[places[0]]
    if isinstance(node.box.op, GroupOp):
        return _grouped(flat, places[0], node.box.op)
    return _bare(flat, places[0])


def _single_node(node: Node) -> Graph:
    """A graph of one box."""
    dom = node.box.dom
    outputs = tuple(range(len(dom), len(dom) + len(node.box.cod)))
    return Graph(dom, (Node(node.box, tuple(range(len(dom)))),), outputs)


def _axis(body: Graph, name: str) -> Axis:
    """The axis of that name on the arrays of a body."""
    return next((a for t in body.wire_types() for a in t.axes if a.name == name), Axis(name))


def _loop(body: Graph) -> tuple[int, FoldOp]:
    """The index of the split loop, and the loop."""
    places = [k for k, n in enumerate(body.nodes) if isinstance(n.box.op, FoldOp) and n.box.op.parts is not None]
    op = body.nodes[places[0]].box.op if len(places) == 1 else None
    if not isinstance(op, FoldOp):
        raise CatdiagError(
            "a split loop is inside another loop, or there are several: expected one, outside of other loops"
        )
    for other in (n.box for n in body.nodes if isinstance(n.box.op, FoldOp) and n.box.op is not op):
        if any(t.axis(op.axis) is not None for b in bodies(other.op) for t in b.graph.wire_types()):
            raise CatdiagError(
                f"{other.name} reads axis {op.axis!r}, which another loop splits into parts: that is not counted"
            )
    return places[0], op


def _with_positions(body: Graph, axis: Axis) -> Graph:
    """The body with the positions along an axis as its last input, if it computes them itself."""
    count, index_boxes = len(body.dom), [k for k, n in enumerate(body.nodes) if n.box.op == Index(axis.name)]
    if not index_boxes:
        return body
    names = list(range(count))
    nodes: list[Node] = []
    for k, n in enumerate(body.nodes):
        if k in index_boxes:
            names.append(count)
            continue
        start = count + 1 + sum(len(m.box.cod) for m in nodes)
        nodes.append(Node(n.box, tuple(names[w] for w in n.inputs)))
        names.extend(range(start, start + len(n.box.cod)))
    dom = Ty(*body.dom, ArrayType((axis,), "int"))
    return Graph(dom, tuple(nodes), tuple(names[w] for w in body.outputs))


@dataclass
class _SplitKernels:
    """The bodies of the two kernels. Their inputs are those of the unsplit body; the second has the states last.
    `along` says which inputs have the split axis."""

    saving: Diagram
    merging: Diagram
    along: list[bool]


def _within(op: FoldOp, extent: Diagram, inputs: Sequence[int], positions: int | None) -> Diagram:
    """The bounds of a loop that skips blocks, counted from the first position of the part."""
    if positions not in inputs:
        raise CatdiagError(
            f"the loop over {op.axis!r} skips blocks by bounds that its iterations do not compare positions with: its "
            f"cost in {op.parts} parts is not counted"
        )
    flat = inline(extent)
    here = inputs.index(positions)
    count = len(flat.graph.wire_types())
    first = reduce_box("min", op.axis, flat.dom[here])
    nodes = [*flat.graph.nodes, Node(first, (here,))]
    outputs = []
    for k, w in enumerate(flat.graph.outputs):
        shifted = map_box("sub", [flat.cod[k], first.cod[0]])
        nodes.append(Node(shifted, (w, count)))
        outputs.append(count + 1 + k)
    return of_graph(Graph(flat.dom, tuple(nodes), tuple(outputs)), None, flat.names)


def _split(body: Graph, tiles: Mapping[str, str], positions: int | None) -> tuple[_SplitKernels, SplitLoop]:
    """The two kernels of a body with a split loop; `positions` is the input that is the positions along the split
    axis."""
    place, op = _loop(body)
    box, inputs = body.nodes[place].box, len(body.dom)
    assert op.parts is not None
    first = inputs + sum(len(n.box.cod) for n in body.nodes[:place])
    axis_size = next((a.size for t in box.dom for a in t.axes if a.name == op.axis), None)
    along = [t.axis(op.axis) is not None for t in body.dom]
    if axis_size is None or not any(along) or op.axis in tiles:
        raise CatdiagError(
            f"the loop over {op.axis!r} loads no array that has this axis: its cost in parts is not counted"
        )
    length, tile, turn = (f"{op.parts}__{word}" for word in ("length", "tile", "turn"))
    split_loop = SplitLoop(of_graph(Graph(Ty(), (), ())), op.parts, length, axis_size, (tile, turn), 0, op.components)

    # The first kernel: the loop, and the boxes that it needs.
    states = tuple(range(first, first + len(box.cod)))
    once = Node(Box(replace(op, parts=None), box.dom, box.cod, box.line), body.nodes[place].inputs)
    if op.bounds is not None:
        within = _within(op, op.bounds, once.inputs, positions)
        once = Node(Box(replace(op, parts=None, bounds=within), box.dom, box.cod, box.line), once.inputs)
    nodes = (*body.nodes[:place], once)
    part = _resized(reachable(Graph(body.dom, nodes, states)), op.axis, length)
    saving = weave(of_graph(part), Axis(op.parts, tile), [k for k, a in enumerate(along) if a])

    # The second kernel: a loop that merges the parts, and the boxes after it.
    here = Axis(op.parts)
    loaded = [ArrayType((here, *t.axes), t.element) for t in box.cod]
    dom = Ty(*body.dom, *loaded)
    count = len(box.cod)
    moved = [w if w < inputs else w + count for w in range(len(body.wire_types()))]
    merge = _merging(op, box, here, turn)
    made: list[Node] = []
    for k, n in enumerate(body.nodes):
        if k == place:
            made.append(Node(merge, tuple(range(inputs, inputs + count))))
        else:
            made.append(Node(n.box, tuple(moved[w] for w in n.inputs)))
    merging = of_graph(reachable(Graph(dom, tuple(made), tuple(moved[w] for w in body.outputs))))
    return _SplitKernels(saving, merging, along), split_loop


def _merging(op: FoldOp, box: Box, parts: Axis, turn: str) -> Box:
    """The loop that merges states: each iteration reads the states of one part."""
    states = box.cod
    one = [ArrayType((Axis(parts.name, 1), *t.axes), t.element) for t in states]
    count = len(states)
    nodes = [
        Node(Box(Reduce("any" if t.element == "bool" else "max", parts.name), Ty(o), Ty(t)), (count + k,))
        for k, (o, t) in enumerate(zip(one, states, strict=True))
    ]
    names = list(range(count)) + list(range(2 * count, 3 * count))
    merge = inline(op.merge).graph
    for n in merge.nodes:
        start = 2 * count + sum(len(m.box.cod) for m in nodes)
        nodes.append(Node(n.box, tuple(names[w] for w in n.inputs)))
        names.extend(range(start, start + len(n.box.cod)))
    step = of_graph(Graph(states @ Ty(*one), tuple(nodes), tuple(names[w] for w in merge.outputs)), states)
    fold = FoldOp(parts.name, turn, op.unit, step, op.merge, op.state, op.components)
    return Box(fold, Ty(*(ArrayType((parts, *t.axes), t.element) for t in states)), states, box.line)


def _resized(graph: Graph, axis: str, size: Size) -> Graph:
    """A flat graph with another size for an axis. The loop over it is unchanged inside."""

    def ty(types: Ty) -> Ty:
        return Ty(
            *(ArrayType(tuple(Axis(a.name, size) if a.name == axis else a for a in t.axes), t.element) for t in types)
        )

    nodes = tuple(Node(Box(n.box.op, ty(n.box.dom), ty(n.box.cod), n.box.line), n.inputs) for n in graph.nodes)
    return Graph(ty(graph.dom), nodes, graph.outputs)


class _KernelWriter:
    """A graph under construction."""

    def __init__(self, dom: Ty) -> None:
        self.dom = dom
        self.types = list(dom)
        self.nodes: list[Node] = []

    def add(self, box: Box, inputs: Sequence[int]) -> range:
        """Adds a box; returns the wires that it makes."""
        self.nodes.append(Node(box, tuple(inputs)))
        self.types.extend(box.cod)
        return range(len(self.types) - len(box.cod), len(self.types))

    def parts_of(self, wire: int, axis: str, split_loop: SplitLoop) -> int:
        """An array with an axis split into parts, and the parts' axis first."""
        ty = self.types[wire]
        whole = product(Axis(split_loop.parts), Axis(axis, split_loop.length))
        named = ArrayType(tuple(whole if a.name == axis else a for a in ty.axes), ty.element)
        (wire,) = self.add(Box(Rename(((axis, whole.name),)), Ty(ty), Ty(named)), (wire,))
        (wire,) = self.add(reindex_box(Reindex("split", whole), [named]), (wire,))
        split = self.types[wire]
        first = sorted(split.axes, key=lambda a: a.name != split_loop.parts)
        (wire,) = self.add(Box(Rename(), Ty(split), Ty(ArrayType(tuple(first), split.element))), (wire,))
        return wire


def _read(diagram: Diagram) -> list[int]:
    """The inputs that a diagram reads."""
    read = {*diagram.graph.outputs, *(w for n in diagram.graph.nodes for w in n.inputs)}
    return [w for w in range(len(diagram.dom)) if w in read]


def _taking(diagram: Diagram, used: Sequence[int]) -> Diagram:
    """The diagram without its other inputs: those not in `used`, which nothing reads."""
    place = {w: k for k, w in enumerate(used)}
    lost = len(diagram.dom) - len(used)

    def moved(w: int) -> int:
        return place[w] if w in place else w - lost

    graph = diagram.graph
    nodes = tuple(Node(n.box, tuple(map(moved, n.inputs))) for n in graph.nodes)
    return of_graph(Graph(Ty(*(diagram.dom[w] for w in used)), nodes, tuple(map(moved, graph.outputs))), diagram.cod)


def _saved(
    writer: _KernelWriter,
    kernels: _SplitKernels,
    split_loop: SplitLoop,
    axis: str,
    wires: Sequence[int],
    tiles: tuple[tuple[str, str], ...],
    sizes: Mapping[str, Axis],
    line: str | None,
) -> list[int]:
    """Adds the kernel that saves the states of the parts; returns its outputs."""
    used = _read(kernels.saving)
    args = [writer.parts_of(wires[k], axis, split_loop) if kernels.along[k] else wires[k] for k in used]
    known = {**sizes, split_loop.parts: Axis(split_loop.parts)}
    cod = [ArrayType(tuple(known.get(a.name, a) for a in t.axes), t.element) for t in kernels.saving.cod]
    # A part is not repeated for a grouped axis that neither an input nor a state has.
    had = {n for t in (*(writer.types[w] for w in args), *cod) for n in t.names}
    own = tuple((axis, symbol) for axis, symbol in tiles if axis in had)
    group = GroupOp((*own, (split_loop.parts, split_loop.single[0])), _taking(kernels.saving, used))
    return list(writer.add(Box(group, Ty(*(writer.types[w] for w in args)), Ty(*cod), line), args))


def _grouped(flat: Diagram, place: int, op: GroupOp) -> SplitLoop:
    """A group with the split loop becomes two groups."""
    node = flat.graph.nodes[place]
    bare = inline(op.body).graph
    _, loop = _loop(bare)
    axis = _axis(bare, loop.axis)
    body = _with_positions(bare, axis)
    kernels, split_loop = _split(body, dict(op.tiles), len(bare.dom) if body is not bare else None)
    sizes = {a.name: a for t in (*node.box.dom, *node.box.cod) for a in t.axes if a.name in dict(op.tiles)}
    writer = _KernelWriter(flat.dom)
    names = list(range(len(flat.dom)))
    first = 0
    for k, n in enumerate(flat.graph.nodes):
        inputs = [names[w] for w in n.inputs]
        if k != place:
            names.extend(writer.add(n.box, inputs))
            continue
        if body is not bare:
            inputs.extend(writer.add(index_box(axis), ()))
        states = _saved(writer, kernels, split_loop, loop.axis, inputs, op.tiles, sizes, n.box.line)
        first = len(writer.nodes) - 1
        used = _read(kernels.merging)
        args = [[*inputs, *states][w] for w in used]
        group = GroupOp(op.tiles, _taking(kernels.merging, used))
        names.extend(writer.add(Box(group, Ty(*(writer.types[w] for w in args)), n.box.cod, n.box.line), args))
    graph = Graph(flat.dom, tuple(writer.nodes), tuple(names[w] for w in flat.graph.outputs))
    return replace(split_loop, diagram=of_graph(graph, flat.cod, flat.names, flat.title), index=first)


def _bare(flat: Diagram, place: int) -> SplitLoop:
    """A split loop outside of groups: the boxes that it needs go into the first kernel, the others into the second."""
    _, loop = _loop(flat.graph)
    axis = _axis(flat.graph, loop.axis)
    body = _with_positions(flat.graph, axis)
    kernels, split_loop = _split(body, {}, len(flat.dom) if body is not flat.graph else None)
    writer = _KernelWriter(flat.dom)
    inputs = list(range(len(flat.dom)))
    if body is not flat.graph:
        inputs.extend(writer.add(index_box(axis), ()))
    states = _saved(writer, kernels, split_loop, loop.axis, inputs, (), {}, flat.graph.nodes[place].box.line)
    first = len(writer.nodes) - 1
    names = [*inputs, *states]
    merging = kernels.merging.graph
    for n in merging.nodes:
        names.extend(writer.add(n.box, [names[w] for w in n.inputs]))
    graph = Graph(flat.dom, tuple(writer.nodes), tuple(names[w] for w in merging.outputs))
    return replace(split_loop, diagram=of_graph(graph, flat.cod, flat.names, flat.title), index=first)
