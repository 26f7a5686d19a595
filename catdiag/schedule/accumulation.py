"""Accumulating outputs: what a group that adds to results means, as groups and loops that the kernel knows.

A result that lacks a grouped axis is the sum of what the tiles along that axis make. As a sum over consecutive tiles it
is a loop: its state starts at 0, and each iteration adds the part of one tile. By list induction this is the result of
the whole axis for all tiles, and for every tree of merges; since the merge is `+`, which is commutative, the additions
may run in any order (over the real numbers), each tile's part once.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction

from catdiag.category.diagram import Diagram, Graph, Node, of_box, of_graph, reachable
from catdiag.category.flat_substitution import replaced
from catdiag.category.graph_writer import GraphWriter
from catdiag.category.ops import Box, FoldOp, GroupOp, Index, Rename, const_box, index_box, map_box
from catdiag.category.resizing import resize
from catdiag.category.substitution import inline
from catdiag.category.types import ArrayType, Axis, Ty, size_symbols
from catdiag.util.errors import CatdiagError


def accumulates(box: Box) -> bool:
    """Whether a box is a group with an accumulating output.

    >>> from catdiag.category.ops import reduce_box
    >>> body = of_box(reduce_box("sum", "x", ArrayType((Axis("x", "g_x"),))))
    >>> accumulates(Box(GroupOp((("x", "g_x"),), body, ("x",)), Ty(ArrayType((Axis("x"),))), body.cod))
    True
    """
    return bool(added_results(box))


def added_results(box: Box) -> tuple[int, ...]:
    """The numbers of the accumulating outputs of a box; none unless it is a group."""
    if not isinstance(box.op, GroupOp):
        return ()
    return tuple(k for k, lacking in enumerate(box.op.accumulated()) if lacking)


def as_loops(box: Box) -> Diagram:
    """A group as one box for the results that have all grouped axes, and one for those that lack the same axes.

    The latter is a loop over each of these axes that adds up parts, in a group of the other axes.

    >>> from catdiag.category.ops import reduce_box
    >>> x = ArrayType((Axis("x"),))
    >>> body = of_box(reduce_box("sum", "x", ArrayType((Axis("x", "g_x"),))))
    >>> [b.name for b in as_loops(Box(GroupOp((("x", "g_x"),), body, ("x",)), Ty(x), body.cod)).boxes]
    ['fold[x]']
    """
    op = box.op
    assert isinstance(op, GroupOp)
    graph = inline(op.body).graph
    lacking = op.accumulated()
    writer = GraphWriter(box.dom)
    outputs: dict[int, int] = {}
    makers, first = graph.makers(), graph.first_wires()
    emitting = [_emitting(graph, makers, first, w) for w in graph.outputs]
    for axes, loop in dict.fromkeys(zip(lacking, emitting, strict=True)):
        places = [k for k, here in enumerate(zip(lacking, emitting, strict=True)) if here == (axes, loop)]
        cod = Ty(*(op.body.cod[k] for k in places))
        body = of_graph(reachable(Graph(graph.dom, graph.nodes, tuple(graph.outputs[k] for k in places))), cod)
        body, tiles = _one_sided(body, loop >= 0)
        inputs = list(range(len(box.dom)))
        for axis, _ in tiles:  # the positions along an axis that is tiled here only
            size = graph.nodes[loop].box.size_of(axis)
            inputs.append(writer.add(index_box(Axis(axis, size)), ()))
            body = _reading_positions(body, axis)
        around = Box(op, Ty(*(writer.types[w] for w in inputs)), box.cod, box.line)
        made = _class_box(around, op, body, axes, Ty(*(box.cod[k] for k in places)), tiles)
        outputs.update(zip(places, writer.made(made, inputs), strict=True))
    return of_graph(writer.graph(outputs[k] for k in range(len(box.cod))), box.cod)


def _emitting(graph: Graph, makers: Sequence[int], first: Sequence[int], wire: int) -> int:
    """The place of the loop that emits an output of a group's body; -1 where none does."""
    place = makers[wire]
    op = graph.nodes[place].box.op if place >= 0 else None
    return place if isinstance(op, FoldOp) and wire - first[place] >= op.state_count else -1


def _one_sided(body: Diagram, emits: bool) -> tuple[Diagram, tuple[tuple[str, str], ...]]:
    """The body of results that a loop emits, with what it emits in place of the loop, on a tile of its axis, which is
    given too; or, unless it `emits`, the body with loops that emit nothing."""
    graph = inline(body).graph
    images: list[Graph | None] = []
    tiles: dict[str, str] = {}
    for box in graph.table:
        op = box.op
        if not isinstance(op, FoldOp) or not op.emitted:
            images.append(None)
            continue
        # Nothing reads the results that are left out: any wire stands for them.
        if emits:
            tiles[op.axis] = op.block + "__tile"
            made = inline(resize(emission(op), op.axis, box.size_of(op.axis))).graph
            images.append(Graph(made.dom, made.nodes, (*[0] * op.state_count, *made.outputs)))
        else:
            states = Box(states_only(op), box.dom, Ty(*box.cod.arrays[: op.state_count]), box.line)
            count = len(box.dom)
            outputs = (*range(count, count + op.state_count), *[0] * op.emitted)
            images.append(Graph(box.dom, (Node(states, tuple(range(count))),), outputs))
    made_body = of_graph(reachable(replaced(graph, images)), body.cod, body.names)
    for axis, tile in tiles.items():
        made_body = resize(made_body, axis, tile)
    return made_body, tuple(tiles.items())


def _reading_positions(body: Diagram, axis: str) -> Diagram:
    """A body with the positions along an axis as a further input, which stands for what it computes of them."""
    graph = inline(body).graph
    size = next((a.size for ty in graph.wire_types() for a in ty.axes if a.name == axis), axis)
    position = index_box(Axis(axis, size)).cod[0]
    place, writer = list(range(len(graph.dom))), GraphWriter((*graph.dom, position))
    for node in graph.nodes:
        if isinstance(node.box.op, Index) and node.box.op.axis == axis:
            place.append(len(graph.dom))
        else:
            place.extend(writer.made(node.box, [place[w] for w in node.inputs]))
    return of_graph(writer.graph(place[w] for w in graph.outputs), body.cod, (*body.input_names, f"{axis}__at"))


def _class_box(
    box: Box, op: GroupOp, body: Diagram, axes: Sequence[str], cod: Ty, more: tuple[tuple[str, str], ...]
) -> Box:
    """The box of the results that lack some of the grouped axes, with `more` tiles. Blocks of the loops have symbols of
    their own."""
    symbols = dict(op.tiles)
    sizes = {axis: box.size_of(axis) for axis in axes}
    for axis in axes:
        body = resize(body, axis, symbols[axis] + "__part")
    for axis in reversed(axes):
        body = of_box(_sum_of_parts(body, axis, symbols[axis] + "__part", Axis(axis, sizes[axis]), box.line))
    tiles = (*(tile for tile in op.tiles if tile[0] not in axes), *more)
    if not tiles:
        return Box(body.boxes[0].op, box.dom, cod, box.line)
    return Box(GroupOp(tiles, body), box.dom, cod, box.line)


def _sum_of_parts(part: Diagram, axis: str, block: str, whole: Axis, line: str | None) -> Box:
    """The loop over an axis whose state is the sum of what `part` makes of each block."""
    cod, count = part.cod, len(part.cod)
    if any(ty.element != "real" for ty in cod):
        raise CatdiagError(f"tiles of {axis!r} are added up in an array of {cod}: expected real numbers")
    zeros: list[Node] = []
    for k, ty in enumerate(cod):
        zeros.append(Node(const_box(Fraction(0)), ()))
        zeros.append(Node(Box(Rename(), Ty(ArrayType((), "real")), Ty(ty)), (2 * k,)))
    unit = of_graph(Graph(Ty(), tuple(zeros), tuple(range(1, 2 * count, 2))), cod)
    sums = [map_box("add", [ty, ty]) for ty in cod]
    merge = of_graph(
        Graph(cod @ cod, tuple(Node(add, (k, count + k)) for k, add in enumerate(sums)),
              tuple(range(2 * count, 3 * count))), cod,
    )  # fmt: skip
    graph = inline(part).graph
    moved = [count + w for w in range(len(graph.wire_types()))]
    nodes = [Node(n.box, tuple(moved[w] for w in n.inputs)) for n in graph.nodes]
    nodes += [Node(add, (k, moved[w])) for k, (add, w) in enumerate(zip(sums, graph.outputs, strict=True))]
    first = len(moved) + count
    step = of_graph(Graph(cod @ graph.dom, tuple(nodes), tuple(range(first, first + count))), cod)
    dom = Ty(*(ArrayType(tuple(whole if a.name == axis else a for a in ty.axes), ty.element) for ty in part.dom))
    return Box(FoldOp(axis, block, unit, step, merge, specification(part)), dom, cod, line)


def specification(diagram: Diagram) -> Diagram:
    """The diagram with each of its loops replaced by what it means: the state of the whole list."""
    graph = inline(diagram).graph
    return of_graph(replaced(graph, [_state_of_list(box) for box in graph.table]), diagram.cod)


def _state_of_list(box: Box) -> Graph | None:
    """The state of the whole list of a loop; None for other boxes."""
    op = box.op
    if not isinstance(op, FoldOp):
        return None
    body = resize(op.state, op.axis, box.size_of(op.axis))
    if any(op.block in size_symbols(a.size) for ty in body.graph.wire_types() for a in ty.axes):
        raise CatdiagError(f"the state of the loop over {op.axis!r} uses the size of its block: that is not read")
    return inline(body).graph


def without_accumulation(graph: Graph) -> Graph:
    """A flat graph with each group that has an accumulating output as groups and loops (`as_loops`), and what loops
    emit as groups of blocks."""
    return replaced(graph, [_as_proved(box) for box in graph.table])


def _as_proved(box: Box) -> Graph | None:
    """A box as groups and loops without accumulating outputs and emitted blocks; None where it has none."""
    inside = inline(box.op.body).boxes if isinstance(box.op, GroupOp) else (box,)
    emits = any(isinstance(b.op, FoldOp) and b.op.emitted for b in inside)
    if isinstance(box.op, GroupOp) and (emits or accumulates(box)):
        return as_loops(box).graph
    return _separate_emission(box).graph if emits else None


def _separate_emission(box: Box) -> Diagram:
    """A loop that emits blocks as a loop that emits none, beside a group of tiles along its axis that makes them."""
    op = box.op
    assert isinstance(op, FoldOp)
    count = op.state_count
    tile = op.block + "__tile"
    group = GroupOp(((op.axis, tile),), resize(emission(op), op.axis, tile))
    states = Box(states_only(op), box.dom, Ty(*box.cod.arrays[:count]), box.line)
    emitted = Box(group, box.dom, Ty(*box.cod.arrays[count:]), box.line)
    inputs = tuple(range(len(box.dom)))
    nodes = [Node(states, inputs)] if count else []
    outputs = range(len(inputs), len(inputs) + len(box.cod))
    return of_graph(Graph(box.dom, (*nodes, Node(emitted, inputs)), tuple(outputs)), box.cod)


def emission(op: FoldOp) -> Diagram:
    """What an iteration emits, from its block of the inputs. Raises CatdiagError where it depends on the states."""
    count = op.state_count
    graph = inline(op.step).graph
    graph = reachable(Graph(graph.dom, graph.nodes, graph.outputs[count:]))
    if any(w < count for w in (*graph.outputs, *(w for node in graph.nodes for w in node.inputs))):
        raise CatdiagError(f"what the loop over {op.axis!r} emits depends on its states: expected a map over the axis")
    nodes = tuple(Node(n.box, tuple(w - count for w in n.inputs)) for n in graph.nodes)
    outputs = tuple(w - count for w in graph.outputs)
    return of_graph(Graph(Ty(*graph.dom.arrays[count:]), nodes, outputs), Ty(*op.step.cod.arrays[count:]))


def states_only(op: FoldOp) -> FoldOp:
    """A loop without what it emits; itself, if it emits nothing."""
    if not op.emitted:
        return op

    def first(body: Diagram) -> Diagram:
        graph = inline(body).graph
        states = reachable(Graph(graph.dom, graph.nodes, graph.outputs[: op.state_count]))
        return of_graph(states, Ty(*body.cod.arrays[: op.state_count]), body.names)

    return replace(op, step=first(op.step), state=first(op.state), emitted=0)
