"""Renamings moved in front of loops, so that both forms of an array can be tiled.

A group over `i` and `j` needs a tile of `a[n i]` and a tile of `a[n i→j]`, which are two arrays to it. If a loop
renames one of its inputs, a tile of that input does not contain both. So the loop gets the array twice, once under each
name, or only under the new name, where nothing else in it reads the array. Renamings of what is computed of inputs go
in front of what computes it (`catdiag.rewrite.renames_first`). The equation of the result is proved elsewhere, as for
any rewrite.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from typing import Any

from catdiag.category.diagram import Diagram, Graph, Node, of_graph
from catdiag.category.graph_writer import GraphWriter
from catdiag.category.op_facts import new_names, transposes
from catdiag.category.ops import Box, FoldOp
from catdiag.category.substitution import inline
from catdiag.category.traversal import rebuilt
from catdiag.category.types import ArrayType, Ty
from catdiag.rewrite.renames_first import renames_first


def renamed(diagram: Diagram, axes: Collection[str]) -> Diagram:
    """The diagram with those renamings of loop inputs that mention these axes moved in front of the loops.

    >>> import catdiag as cd
    >>> gram = cd.algorithm("n i -> i j")(lambda a: cd.einsum("n i, n j -> i j", a, a.rename(i="j")))
    >>> [box.name for box in renamed(gram.stream("n").diagram, ["i"]).boxes]
    ['rename', 'fold[n]']
    """
    return rebuilt(renames_first(diagram, axes), lambda item: _before(item, axes))


def _before(diagram: Diagram, axes: Collection[str]) -> Diagram:
    """A diagram whose loops take renamed inputs, but for those in its bodies."""
    graph = diagram.graph
    moved, writer = list(range(len(graph.dom))), GraphWriter(graph.dom)
    changed = False
    for node in graph.nodes:
        box, inputs = node.box, [moved[w] for w in node.inputs]
        while isinstance(box.op, FoldOp) and (found := _first(box.op, box.op.state_count, axes)) is not None:
            place, rename = found
            outer = Box(rename.op, Ty(box.dom[place]), Ty(_outer_type(rename, box, box.op)), rename.line)
            inputs, changed = [*inputs, writer.add(outer, (inputs[place],))], True
            box = _with_renamed_input(box, box.op, place, rename, outer.cod[0])
            if _is_unread(box, place):
                box, inputs = _without_input(box, place), [w for k, w in enumerate(inputs) if k != place]
        moved.extend(writer.made(box, inputs))
    if not changed:
        return diagram
    return of_graph(writer.graph(moved[w] for w in graph.outputs), diagram.cod, diagram.names, diagram.title)


_PARTS = ("step", "state", "bounds", "is_live")


def _first(op: FoldOp, states: int, axes: Collection[str]) -> tuple[int, Box] | None:
    """The first input of a loop that it renames along one of the axes: its number and the renaming box."""
    for part in _PARTS:
        body = getattr(op, part)
        first = states if part == "step" else 0
        for node in () if body is None else inline(body).graph.nodes:
            if _renames(node.box, op, axes) and first <= node.inputs[0] < len(body.dom):
                return node.inputs[0] - first, node.box
    return None


def _renames(box: Box, op: FoldOp, axes: Collection[str]) -> bool:
    """Whether a box renames one of the axes, and leaves the loop's own axis as it is."""
    names = {name for pair in new_names(box.op).items() for name in pair}
    return transposes(box) and bool(names & set(axes)) and op.axis not in names


def _outer_type(rename: Box, loop: Box, op: FoldOp) -> ArrayType:
    """The type of the renamed input outside of the loop, where a block is a whole axis."""
    lengths = {a.name: a for ty in loop.dom for a in ty.axes if a.name == op.axis}
    ty = rename.cod[0]
    return ArrayType(tuple(lengths.get(a.name, a) for a in ty.axes), ty.element)


def _with_renamed_input(box: Box, op: FoldOp, place: int, rename: Box, whole: ArrayType) -> Box:
    """The loop with one more input, which replaces every such renaming of the input at `place`."""

    def more(body: Diagram, first: int = 0) -> Diagram:
        return _with_input(inline(body), first + place, rename, _local(whole, rename.cod[0], body, op))

    made = replace(
        op,
        step=more(op.step, op.state_count),
        state=more(op.state),
        bounds=None if op.bounds is None else more(op.bounds),
        is_live=None if op.is_live is None else more(op.is_live),
    )
    return Box(made, Ty(*box.dom, whole), box.cod, box.line)


def _readers(box: Box, place: int) -> dict[str, tuple[Diagram, int]]:
    """The bodies of a loop that take its inputs, each with its wire of one of them."""
    states = box.op.state_count if isinstance(box.op, FoldOp) else 0
    found = ((part, getattr(box.op, part), states if part == "step" else 0) for part in _PARTS)
    return {part: (inline(body), first + place) for part, body, first in found if body is not None}


def _is_unread(box: Box, place: int) -> bool:
    """Whether nothing in a loop reads an input."""
    graphs = [(body.graph, wire) for body, wire in _readers(box, place).values()]
    return not any(wire in graph.outputs or any(wire in n.inputs for n in graph.nodes) for graph, wire in graphs)


def _without_input(box: Box, place: int) -> Box:
    """A loop without an input that nothing in it reads."""
    assert isinstance(box.op, FoldOp)
    made: dict[str, Any] = {part: _without(body, wire) for part, (body, wire) in _readers(box, place).items()}
    dom = Ty(*(ty for k, ty in enumerate(box.dom) if k != place))
    return Box(replace(box.op, **made), dom, box.cod, box.line)


def _without(body: Diagram, wire: int) -> Diagram:
    """A body without an input that nothing reads."""
    graph = body.graph
    nodes = tuple(Node(node.box, tuple(w - (w > wire) for w in node.inputs)) for node in graph.nodes)
    dom = Ty(*(ty for k, ty in enumerate(body.dom) if k != wire))
    names = tuple(name for k, name in enumerate(body.input_names) if k != wire)
    return of_graph(Graph(dom, nodes, tuple(w - (w > wire) for w in graph.outputs)), body.cod, names, body.title)


def _local(whole: ArrayType, inside: ArrayType, body: Diagram, op: FoldOp) -> ArrayType:
    """The type of an input in a body of a loop: its streamed axis has the block size there."""
    size = next((a for ty in body.dom for a in ty.axes if a.name == op.axis), None)
    axes = (size if size is not None and a.name == op.axis else a for a in whole.axes)
    return ArrayType(tuple(axes), inside.element)


def _with_input(body: Diagram, wire: int, rename: Box, ty: ArrayType) -> Diagram:
    """A body with one more input, read wherever `wire` was renamed in this way."""
    graph = body.graph
    last = len(body.dom)
    moved, writer = list(range(last)), GraphWriter((*body.dom, ty))
    for node in graph.nodes:
        if node.inputs == (wire,) and _same(node.box, rename):
            moved.append(last)
        else:
            moved.extend(writer.made(node.box, [moved[w] for w in node.inputs]))
    name = "_".join([body.input_names[wire], *(new for _, new in rename.op.pairs)])  # type: ignore[attr-defined]
    while name in body.input_names:
        name += "_"
    made = writer.graph(moved[w] for w in graph.outputs)
    return of_graph(made, body.cod, (*body.input_names, name), body.title)


def _same(box: Box, rename: Box) -> bool:
    """Whether two renamings give the same names to the same axes, in the same order."""
    return box.op == rename.op and box.cod[0].names == rename.cod[0].names
