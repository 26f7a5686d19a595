"""A diagram with a split loop as one of two kernels, which the machine runs.

The streamed axis is split into parts and positions in a part, all of one length. A group runs the loop on each part,
and a second loop merges the states. The diagram has the meaning of the one before: what the machine counts on it
checks the formulas, which are made of the kernels of `catdiag.schedule.split_k`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from catdiag.category import ops
from catdiag.category.diagram import Diagram, Graph, Node, of_box, of_graph, with_boxes
from catdiag.category.functor import weave
from catdiag.category.graph_writer import GraphWriter
from catdiag.category.index_maps import Reindex, read_off
from catdiag.category.ops import Box, index_box, reduce_box, reindex_box, size_box
from catdiag.category.substitution import inline
from catdiag.category.types import ArrayType, Axis, Size, Ty, product
from catdiag.schedule.split_k import SplitLoop, one_split_place, split_body, split_loop
from catdiag.util.errors import CatdiagError


@dataclass(frozen=True)
class TwoKernels:
    """A diagram in which a split loop is two kernels. `index` is the index of the box of the one that saves states."""

    diagram: Diagram
    loop: SplitLoop
    index: int


def two_kernels(diagram: Diagram, fused: bool = True) -> TwoKernels:
    """A diagram with one split loop, in one group or in none, as two kernels.

    A loop that skips blocks skips them in each part. Without `fused`, boxes outside of groups that a loop needs are
    kernels of their own. Raises CatdiagError if there are several split loops, or one in another loop.
    """
    flat = inline(diagram)
    place = one_split_place(flat.graph)
    if place is None:
        raise CatdiagError("the diagram has no split loop: expected one")
    if not fused:
        flat = _alone(flat, place)
    op = flat.graph.nodes[place].box.op
    return _grouped(flat, place, op) if isinstance(op, ops.GroupOp) else _bare(flat, place)


def _alone(flat: Diagram, place: int) -> Diagram:
    """The diagram with a loop outside of groups in a group of its own, without tiles."""
    box = flat.graph.nodes[place].box
    if isinstance(box.op, ops.GroupOp):
        return flat
    return with_boxes(flat, {place: replace(box, op=ops.GroupOp((), of_box(box)))})


def _axis(body: Graph) -> Axis:
    """The axis of the split loop of a body."""
    loop = split_loop(body)[2]
    return Axis(loop.axis, loop.axis_size)


def _with_positions(body: Graph, axis: Axis) -> Graph:
    """The body with the positions along an axis as its last input, if it computes them itself."""
    count, index_boxes = len(body.dom), [k for k, n in enumerate(body.nodes) if n.box.op == ops.Index(axis.name)]
    if not index_boxes:
        return body
    names, writer = list(range(count)), GraphWriter((*body.dom, ArrayType((axis,), "int")))
    for k, n in enumerate(body.nodes):
        names.extend([count] if k in index_boxes else writer.made(n.box, [names[w] for w in n.inputs]))
    return writer.graph(names[w] for w in body.outputs)


@dataclass
class _SplitKernels:
    """The bodies of the two kernels. Their inputs are those of the unsplit body; the second has the states last.
    `along` says which inputs have the split axis."""

    saving: Diagram
    merging: Diagram
    along: Sequence[bool]


def _within(op: ops.FoldOp, axis_size: Size, extent: Diagram, inputs: Sequence[int], positions: int | None) -> Diagram:
    """The bounds of a loop that skips blocks, counted from the first position of the part."""
    if positions not in inputs:
        raise CatdiagError(
            f"the loop over {op.axis!r} skips blocks by bounds that its iterations do not compare positions with: "
            f"expected positions among its inputs, which the machine counts the bounds of {op.parts} parts from"
        )
    flat = inline(extent)
    wholes: Mapping[str, Size] = {op.block: axis_size}  # bounds are about the whole axis

    def whole(box: Box) -> Box:
        if not isinstance(box.op, ops.SizeOf):
            return box
        size: Size = read_off(box.op.size, lambda v: wholes.get(v, v), lambda f, a, b: (f, a, b))
        return size_box(size)

    here = inputs.index(positions)
    writer = GraphWriter(flat.dom)
    for n in flat.graph.nodes:
        writer.add(whole(n.box), n.inputs)
    first = writer.add(reduce_box("min", op.axis, flat.dom[here]), (here,))
    return of_graph(writer.graph([writer.map("sub", w, first) for w in flat.graph.outputs]), None, flat.names)


def _split(body: Graph, tiles: Mapping[str, str], positions: int | None) -> tuple[_SplitKernels, SplitLoop]:
    """The two kernels of a body with a split loop; `positions` is the input that is the positions along the split
    axis."""
    place, op, _ = split_loop(body, tuple(tiles))
    node = body.nodes[place]
    if op.bounds is not None:
        size = next(a.size for t in node.box.dom for a in t.axes if a.name == op.axis)
        op = replace(op, bounds=_within(op, size, op.bounds, node.inputs, positions))
        from_part = Node(Box(op, node.box.dom, node.box.cod, node.box.line), node.inputs)
        body = Graph(body.dom, (*body.nodes[:place], from_part, *body.nodes[place + 1 :]), body.outputs)
    split = split_body(body, tuple(tiles))
    along = [k for k, has in enumerate(split.along) if has]
    saving = weave(of_graph(split.saving), Axis(split.loop.parts, split.loop.single[0]), along)
    return _SplitKernels(saving, of_graph(split.merging), split.along), split.loop


def _parts_of(writer: GraphWriter, wire: int, loop: SplitLoop) -> int:
    """An array with an axis split into parts, and the parts' axis first."""
    ty = writer.types[wire]
    whole = product(Axis(loop.parts), Axis(loop.axis, loop.length))
    named = ArrayType(tuple(whole if a.name == loop.axis else a for a in ty.axes), ty.element)
    wire = writer.add(Box(ops.Rename(((loop.axis, whole.name),)), Ty(ty), Ty(named)), (wire,))
    wire = writer.add(reindex_box(Reindex("split", whole), [named]), (wire,))
    split = writer.types[wire]
    first = sorted(split.axes, key=lambda a: a.name != loop.parts)
    return writer.add(Box(ops.Rename(), Ty(split), Ty(ArrayType(tuple(first), split.element))), (wire,))


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
    writer: GraphWriter,
    kernels: _SplitKernels,
    loop: SplitLoop,
    wires: Sequence[int],
    tiles: tuple[tuple[str, str], ...],
    sizes: Mapping[str, Axis],
    line: str | None,
) -> list[int]:
    """Adds the kernel that saves the states of the parts; returns its outputs."""
    used = _read(kernels.saving)
    args = [_parts_of(writer, wires[k], loop) if kernels.along[k] else wires[k] for k in used]
    known = {**sizes, loop.parts: Axis(loop.parts)}
    cod = [ArrayType(tuple(known.get(a.name, a) for a in t.axes), t.element) for t in kernels.saving.cod]
    # A part is not repeated for a grouped axis that neither an input nor a state has.
    had = {n for t in (*(writer.types[w] for w in args), *cod) for n in t.names}
    own = tuple((axis, symbol) for axis, symbol in tiles if axis in had)
    group = ops.GroupOp((*own, (loop.parts, loop.single[0])), _taking(kernels.saving, used))
    return list(writer.made(Box(group, Ty(*(writer.types[w] for w in args)), Ty(*cod), line), args))


def _grouped(flat: Diagram, place: int, op: ops.GroupOp) -> TwoKernels:
    """A group with the split loop becomes two groups."""
    node = flat.graph.nodes[place]
    bare = inline(op.body).graph
    axis = _axis(bare)
    body = _with_positions(bare, axis)
    kernels, loop = _split(body, dict(op.tiles), len(bare.dom) if body is not bare else None)
    sizes = {a.name: a for t in (*node.box.dom, *node.box.cod) for a in t.axes if a.name in dict(op.tiles)}
    writer = GraphWriter(flat.dom)
    names = list(range(len(flat.dom)))
    first = 0
    for k, n in enumerate(flat.graph.nodes):
        inputs = [names[w] for w in n.inputs]
        if k != place:
            names.extend(writer.made(n.box, inputs))
            continue
        if body is not bare:
            inputs.extend(writer.made(index_box(axis), ()))
        states = _saved(writer, kernels, loop, inputs, op.tiles, sizes, n.box.line)
        first = len(writer.nodes) - 1
        used = _read(kernels.merging)
        args = [[*inputs, *states][w] for w in used]
        group = replace(op, body=_taking(kernels.merging, used))
        names.extend(writer.made(Box(group, Ty(*(writer.types[w] for w in args)), n.box.cod, n.box.line), args))
    graph = writer.graph(names[w] for w in flat.graph.outputs)
    return TwoKernels(of_graph(graph, flat.cod, flat.names, flat.title), loop, first)


def _bare(flat: Diagram, place: int) -> TwoKernels:
    """A split loop outside of groups: the boxes that it needs go into the first kernel, the others into the second."""
    axis = _axis(flat.graph)
    body = _with_positions(flat.graph, axis)
    kernels, loop = _split(body, {}, len(flat.dom) if body is not flat.graph else None)
    writer = GraphWriter(flat.dom)
    inputs = list(range(len(flat.dom)))
    if body is not flat.graph:
        inputs.extend(writer.made(index_box(axis), ()))
    states = _saved(writer, kernels, loop, inputs, (), {}, flat.graph.nodes[place].box.line)
    first = len(writer.nodes) - 1
    names = [*inputs, *states]
    merging = kernels.merging.graph
    graph = writer.graph(writer.put(merging, names))
    return TwoKernels(of_graph(graph, flat.cod, flat.names, flat.title), loop, first)
