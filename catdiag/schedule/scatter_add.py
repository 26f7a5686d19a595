"""Scatter-adds: sums over one-hot rows that the tiles of a group write entry by entry.

The transpose of a gather is a sum `T[p, z] = Σ_y where(at[y] = p, g[y, z], 0)`: the row `g[y]` is added to the row of
`T` that the array `at` says. So are a histogram, an `index_add`, and the sums of a graph's edges at its nodes. As it is
written, each entry of `T` asks all positions y. In a group of tiles of y, whose parts are added up anyway (an
accumulating output), a tile adds each of its own entries of `g` where it belongs instead. `with_scatters` marks such
sums in the body of a group that `scatters`. What they mean is unchanged (`ScatterAdd.body`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from catdiag.category.diagram import Diagram, Graph, Node, of_graph, reachable
from catdiag.category.graph_writer import GraphWriter
from catdiag.category.ops import Box, Call, Const, Einsum, GroupOp, Index, Map, Reduce, Rename, index_box
from catdiag.category.types import ArrayType, Ty, union


@dataclass(frozen=True)
class ScatterAdd(Call):
    """A sum over one-hot rows, written entry by entry: of the inputs the first holds the entries that are added, the
    others their positions along `axes` of the result. Entries at positions outside of the result are dropped. It is a
    named diagram that stays a box."""

    axes: tuple[str, ...] = ()


@dataclass(frozen=True)
class OneHotSum:
    """A sum over one-hot rows: the wires of the entries and of the positions along each axis, masks of entries, and the
    axes that are summed over."""

    entries: int
    at: tuple[tuple[str, int], ...]
    masks: tuple[int, ...]
    summed: tuple[str, ...]

    @property
    def axes(self) -> tuple[str, ...]:
        """The axes of the result along which integers say where entries are added."""
        return tuple(name for name, _ in self.at)


def one_hot_sums(diagram: Diagram) -> dict[int, OneHotSum]:
    """The results of a flat diagram that are sums over one-hot rows, by number.

    >>> import catdiag as cd
    >>> rows = cd.algorithm("int[t], t d, v -> v d")(
    ...     lambda ids, g, like: cd.sum(cd.where(cd.index("v") == ids, g, 0), "t"))
    >>> [(found.axes, found.summed) for found in one_hot_sums(rows.diagram).values()]
    [(('v',), ('t',))]
    """
    graph = diagram.graph
    found = {k: one_hot_sum(graph, w) for k, w in enumerate(graph.outputs)}
    return {k: match for k, match in found.items() if match is not None}


def scattered_entries(graph: Graph) -> dict[int, ArrayType]:
    """What is added for each output of a graph that is a `ScatterAdd`, by number: the entries, as an array with the
    axes of their positions too."""
    found, makers = dict[int, ArrayType](), graph.makers()
    for k, w in enumerate(graph.outputs):
        box = graph.nodes[makers[w]].box if makers[w] >= 0 else None
        if box is not None and isinstance(box.op, ScatterAdd):
            found[k] = ArrayType(union(box.dom.arrays), box.cod[0].element)
    return found


def with_scatters(op: GroupOp, body: Diagram) -> Diagram:
    """The flat body of a group with its accumulating outputs that are sums over one-hot rows as `ScatterAdd`."""
    graph, matches = body.graph, dict[int, OneHotSum]()
    for w, lacking in zip(graph.outputs, op.accumulated(), strict=True):
        match = one_hot_sum(graph, w) if lacking else None
        if match is not None and set(lacking) <= set(match.summed):
            matches[w] = match
    if not matches:
        return body
    writer = GraphWriter(graph.dom)
    wires = writer.put(Graph(graph.dom, graph.nodes, tuple(range(len(graph.wire_types())))), range(len(graph.dom)))
    for w, match in matches.items():
        entries, zero = match.entries, writer.number(0)
        for mask in match.masks:
            entries = writer.map("where", mask, entries, zero)
        positioned = {name for _, at in match.at for name in writer.types[at].names}
        for name in (name for name in match.summed if name not in positioned):  # all entries along it have one position
            entries = writer.reduce("sum", name, entries)
        summed = [name for name in match.summed if name in positioned]
        inputs = [entries, *(at for _, at in match.at)]
        dom, cod = Ty(*(writer.types[v] for v in inputs)), Ty(graph.wire_types()[w])
        axes = match.axes
        node = graph.nodes[graph.makers()[w]]
        meaning = _meaning(dom, cod[0], axes, summed)
        wires[w] = writer.add(Box(ScatterAdd("scatter_add", meaning, axes), dom, cod, node.box.line), inputs)
    return of_graph(reachable(writer.graph(wires[w] for w in graph.outputs)), body.cod, body.names, body.title)


def _meaning(dom: Ty, result: ArrayType, axes: Sequence[str], summed: Sequence[str]) -> Diagram:
    """The sum over one-hot rows of entries and positions of these types."""
    writer = GraphWriter(dom)
    made, zero = 0, writer.number(0)
    for k, name in enumerate(axes, 1):
        axis = result.axis(name)
        assert axis is not None
        position = writer.add(index_box(axis), ())
        made = writer.map("where", writer.map("eq", position, k), made, zero)
    for name in summed:
        made = writer.reduce("sum", name, made)
    made = writer.cast(made, result)
    return of_graph(writer.graph((made,)), Ty(result))


def one_hot_sum(graph: Graph, wire: int) -> OneHotSum | None:
    """A wire as a sum over one-hot rows; None where it is none."""
    types, makers, result = graph.wire_types(), graph.makers(), graph.wire_types()[wire]
    while makers[wire] >= 0 and _transposes(node := graph.nodes[makers[wire]]):
        (wire,) = node.inputs
    summed, wire, pair = _summed(graph, wire)
    at: dict[str, int] = {}
    masks: list[int] = []
    while summed and pair is not None:
        found = {w: _position(graph, w, result) for w in _conjuncts(graph, pair[0])}
        if not any(found.values()):
            break
        for w, position in found.items():
            if position is None:
                masks.append(w)
            elif position[0] in at:
                return None
            else:
                at[position[0]] = position[1]
        wire = pair[1]
        pair = _chosen(graph, wire)
    names = {name for w in (wire, *at.values(), *masks) for name in types[w].names}
    placed = {name for w in (wire, *at.values()) for name in types[w].names}
    kept = {*result.names} - {*at}
    if not at or types[wire].element != "real" or names & {*at} or placed != kept | {*summed} or names - placed:
        return None
    return OneHotSum(wire, tuple(at.items()), tuple(masks), tuple(summed))


def _transposes(node: Node) -> bool:
    return node.box.op == Rename() and {*node.box.dom[0].names} == {*node.box.cod[0].names}


def _summed(graph: Graph, wire: int) -> tuple[list[str], int, tuple[int, int] | None]:
    """The axes that a wire is a sum over, the wire that is summed, and that as a condition and entries (`_chosen`); of
    a product of one-hot rows, the other factor is what is summed."""
    makers, summed = graph.makers(), list[str]()
    while makers[wire] >= 0 and isinstance(op := graph.nodes[makers[wire]].box.op, Reduce) and op.monoid == "sum":
        summed.append(op.axis)
        (wire,) = graph.nodes[makers[wire]].inputs
    if summed or makers[wire] < 0 or not isinstance(graph.nodes[makers[wire]].box.op, Einsum):
        return summed, wire, _chosen(graph, wire)
    node = graph.nodes[makers[wire]]
    for rows, other in (node.inputs, node.inputs[::-1]) if len(node.inputs) == 2 else ():
        hot = _chosen(graph, rows)
        if hot is not None and _is(graph, hot[1], 1):
            axes = dict.fromkeys(n for ty in node.box.dom for n in ty.names)
            return [n for n in axes if n not in node.box.cod[0].names], other, (hot[0], other)
    return [], wire, None


def _chosen(graph: Graph, wire: int) -> tuple[int, int] | None:
    """The condition and the entries of a wire that is 0 where the condition does not hold."""
    place = graph.makers()[wire]
    if place < 0 or graph.nodes[place].box.op != Map("where") or not _is(graph, graph.nodes[place].inputs[2], 0):
        return None
    return graph.nodes[place].inputs[0], graph.nodes[place].inputs[1]


def _conjuncts(graph: Graph, wire: int) -> Iterator[int]:
    makers, todo = graph.makers(), [wire]
    while todo:
        w = todo.pop()
        node = graph.nodes[makers[w]] if makers[w] >= 0 else None
        if node is not None and node.box.op == Map("and"):
            todo += reversed(node.inputs)
        else:
            yield w


def _position(graph: Graph, wire: int, result: ArrayType) -> tuple[str, int] | None:
    """An axis of the result and the array of integers that its positions are compared with by a condition."""
    makers = graph.makers()
    node = graph.nodes[makers[wire]] if makers[wire] >= 0 else None
    if node is None or node.box.op != Map("eq"):
        return None
    for here, other in (node.inputs, node.inputs[::-1]):
        op = graph.nodes[makers[here]].box.op if makers[here] >= 0 else None
        if isinstance(op, Index) and result.axis(op.axis) is not None and graph.wire_types()[other].element == "int":
            return op.axis, other
    return None


def _is(graph: Graph, wire: int, value: int) -> bool:
    """Whether a wire is this number."""
    place = graph.makers()[wire]
    op = graph.nodes[place].box.op if place >= 0 else None
    return isinstance(op, Const) and op.value == value
