"""Split-K: a loop that runs in parts (a parallel reduction), as two kernels.

The first kernel runs the parts in parallel and saves the state of each. The second merges the states in order. Boxes
that both need are computed in both. `split_body` gives the two kernels of a body: costs, plans, listings and the
machine that counts (`catdiag.simulate.split_diagram`) are made of these. `split_statements` picks the statements of
each, which code is generated from.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from catdiag.category.diagram import Diagram, Graph, Node, needed, of_box, of_graph, reachable, with_boxes
from catdiag.category.graph_writer import GraphWriter
from catdiag.category.op_facts import moves_positions
from catdiag.category.ops import Box, Call, FoldOp, GroupOp, Reduce, bodies
from catdiag.category.resizing import resize
from catdiag.category.substitution import inline
from catdiag.category.traversal import all_boxes
from catdiag.category.types import ArrayType, Axis, Size, Ty
from catdiag.schedule.statements import For, Statement
from catdiag.util.errors import CatdiagError


@dataclass(frozen=True)
class SplitLoop:
    """The sizes of a split loop, and the states that its parts save.

    The loop runs along `axis`, of `axis_size`. `parts` is the symbol for the number of parts, `length` the symbol for
    the length of one: `axis_size` / `parts`. `single` are symbols that are always 1: the tile of the kernel that saves
    the states, which runs one part, and the block of the loop that merges them. `names` are the names of the states.
    """

    axis: str
    parts: str
    length: str
    axis_size: Size
    single: tuple[str, str]
    names: tuple[str, ...]


@dataclass(frozen=True)
class SplitBody:
    """The boxes of the two kernels of a body with a split loop.

    `saving` has the inputs of the body, and makes the states of one part, whose axis has the length of a part: its last
    box is the loop. `merging` has the states of all parts as further inputs, and makes the outputs of the body. `along`
    says which inputs have the axis of the loop.
    """

    loop: SplitLoop
    saving: Graph
    merging: Graph
    along: tuple[bool, ...]


def is_split(diagram: Diagram) -> bool:
    """Whether a diagram has a split loop, in its groups too.

    >>> from catdiag.category.diagram import id
    >>> is_split(id(Ty()))
    False
    """
    return bool(parts_by_block(diagram))


def parts_by_block(diagram: Diagram) -> dict[str, str]:
    """The symbol for the number of parts of each split loop, by that of its block.

    >>> from catdiag.category.diagram import id
    >>> parts_by_block(id(Ty()))
    {}
    """
    ops = (box.op for box in all_boxes(diagram))
    return {op.block: op.parts for op in ops if isinstance(op, FoldOp) and op.parts is not None}


def joined(diagram: Diagram) -> Diagram:
    """The diagram with each split loop replaced by a loop in one part."""
    new = {}
    for place, box in enumerate(diagram.boxes):
        if isinstance(box.op, FoldOp):
            new[place] = replace(box, op=replace(box.op, parts=None))
        elif isinstance(box.op, (GroupOp, Call)):
            new[place] = replace(box, op=replace(box.op, body=joined(box.op.body)))
    return with_boxes(diagram, new)


def one_split_place(graph: Graph) -> int | None:
    """The index of the box of a flat graph that is a split loop, or has one inside; None if no box has.

    Raises CatdiagError if there are several.
    """
    places = [k for k, node in enumerate(graph.nodes) if _is_split_box(node.box)]
    if len(places) > 1:
        raise CatdiagError(
            f"the diagram has {len(places)} split loops: expected one, as only the cost of one is counted"
        )
    return places[0] if places else None


def _is_split_box(box: Box) -> bool:
    op = box.op
    return (isinstance(op, FoldOp) and op.parts is not None) or any(is_split(d) for d in bodies(op))


def split_loop(body: Graph, tiles: Sequence[str] = ()) -> tuple[int, FoldOp, SplitLoop]:
    """The split loop of the body of a kernel: its index, its operation, and its sizes. `tiles` are the grouped axes.

    Raises CatdiagError for loops in parts whose cost is not counted.
    """
    places = [k for k, n in enumerate(body.nodes) if isinstance(n.box.op, FoldOp) and n.box.op.parts is not None]
    box = body.nodes[places[0]].box if len(places) == 1 else None
    if box is None or not isinstance(op := box.op, FoldOp) or op.parts is None:
        raise CatdiagError(
            "a split loop is inside another loop, or there are several: expected one, outside of other loops"
        )
    for other in (n.box for n in body.nodes if isinstance(n.box.op, FoldOp) and n.box.op is not op):
        if any(t.axis(op.axis) is not None for b in bodies(other.op) for t in b.graph.wire_types()):
            raise CatdiagError(
                f"{other.name} reads axis {op.axis!r}, which another loop splits into parts: that is not counted"
            )
    first = body.first_wires()[places[0]]
    states = tuple(range(first, first + len(box.cod)))
    needed = reachable(Graph(body.dom, body.nodes[: places[0] + 1], states)).nodes
    for moved in (n.box for n in needed if moves_positions(n.box.op, op.axis)):
        raise CatdiagError(
            f"{moved.name} computes positions along {op.axis!r}, which a loop splits into parts: the cost of that is "
            "not counted",
            moved.line,
        )
    axis_size = next((a.size for t in box.dom for a in t.axes if a.name == op.axis), None)
    loaded = any(t.axis(op.axis) is not None for t in body.dom)
    if axis_size is None or not loaded or op.axis in tiles:
        raise CatdiagError(
            f"the loop over {op.axis!r} loads no array that has this axis: its cost in parts is not counted"
        )
    length, tile, block = (f"{op.parts}__{word}" for word in ("length", "tile", "block"))
    return places[0], op, SplitLoop(op.axis, op.parts, length, axis_size, (tile, block), op.components)


def split_body(body: Graph, tiles: Sequence[str] = ()) -> SplitBody:
    """The two kernels of a body with one split loop; `tiles` are the grouped axes. Raises as `split_loop` does."""
    place, op, loop = split_loop(body, tiles)
    node, inputs = body.nodes[place], len(body.dom)
    box, count = node.box, len(node.box.cod)
    first = body.first_wires()[place]
    once = Node(Box(replace(op, parts=None), box.dom, box.cod, box.line), node.inputs)
    saving = reachable(Graph(body.dom, (*body.nodes[:place], once), tuple(range(first, first + count))))

    moved = [w if w < inputs else w + count for w in range(len(body.wire_types()))]
    merges = merging_loop(op, box, loop)
    merge = Node(merges, tuple(range(inputs, inputs + count)))
    nodes = [merge if k == place else Node(n.box, tuple(moved[w] for w in n.inputs)) for k, n in enumerate(body.nodes)]
    outputs = tuple(moved[w] for w in body.outputs)
    merging = reachable(Graph(body.dom @ merges.dom, tuple(nodes), outputs))
    along = tuple(t.axis(loop.axis) is not None for t in body.dom)
    return SplitBody(loop, part_of_axis(saving, loop), merging, along)


def split_statements(group: For, whole: Graph) -> tuple[list[Statement], For, list[Statement], list[Statement]]:
    """The statements around a loop over parts by kernel: those that the first runs before the loop; the loop; those
    that the second runs again, and those that it runs from the merge on. `group` has the statements of a group of
    `whole`, or of boxes outside of groups.

    Of the loops before, each kernel runs those that are boxes of its graph (see `split_body`). Both have the other
    statements: of values that nothing reads no code is made.
    """
    at = next(k for k, s in enumerate(group.body) if isinstance(s, For) and s.kind == "parts")
    loop = group.body[at]
    assert isinstance(loop, For)
    graph = inline(bodies(whole.nodes[group.place].box.op)[0]).graph if group.place >= 0 else whole
    of_kernels = needed(graph, graph.nodes[loop.place].inputs), needed(graph, graph.outputs, loop.place)
    first, again = ([s for s in group.body[:at] if not isinstance(s, For) or s.place in run] for run in of_kernels)
    return first, loop, again, group.body[at + 1 :]


def merging_loop(op: FoldOp, box: Box, loop: SplitLoop) -> Box:
    """The loop that merges the states of parts: each iteration reads the states of one part."""
    states = box.cod
    one = [ArrayType((Axis(loop.parts, 1), *t.axes), t.element) for t in states]
    count = len(states)
    writer = GraphWriter((*states, *one))
    read = [
        writer.add(Box(Reduce("any" if t.element == "bool" else "max", loop.parts), Ty(o), Ty(t)), (count + k,))
        for k, (o, t) in enumerate(zip(one, states, strict=True))
    ]
    step = of_graph(writer.graph(writer.put(inline(op.merge).graph, [*range(count), *read])), states)
    fold = FoldOp(loop.parts, loop.single[1], op.unit, step, op.merge, op.state, op.components)
    return Box(fold, Ty(*(ArrayType((Axis(loop.parts), *t.axes), t.element) for t in states)), states, box.line)


def part_of_axis(graph: Graph, loop: SplitLoop) -> Graph:
    """A flat graph with the length of a part for the axis of a split loop. The loop over it is unchanged inside."""
    return resize(of_graph(graph), loop.axis, loop.length).graph


def whole_axis(box: Box, loop: SplitLoop) -> Box:
    """The box of a split loop with the size of the whole axis."""
    return resize(of_box(box), loop.axis, loop.axis_size).graph.nodes[0].box
