"""Loops that emit blocks: results that keep the streamed axis, made in the loop that computes the others.

Where some results of a program are free of the streamed axis, and the others are a map over it that no statistic of the
axis enters, an iteration makes a block of the latter from the blocks that it has loaded, and shares what both need.
The equation is proved elsewhere, as for any rewrite: of a result that is emitted, as for a group of tiles of the axis.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from catdiag.category.diagram import Diagram, Graph, Node, of_graph, reachable
from catdiag.category.graph_writer import GraphWriter
from catdiag.category.ops import Box, FoldOp, GroupOp
from catdiag.category.resizing import resize
from catdiag.category.substitution import inline
from catdiag.category.types import Ty
from catdiag.rewrite.group import find
from catdiag.rewrite.stream.fold_search import candidates
from catdiag.rewrite.stream.loop_builder import Streamed
from catdiag.util.errors import NotGroupable


def emitting_forms(diagram: Diagram, axis: str) -> Iterator[Streamed]:
    """The streamed forms in which a loop over the axis emits blocks of the results that have it; none where all results
    have the axis or none has, or where those that have it are no map over it. Raises NotStreamable where the other
    results cannot be streamed.

    >>> import catdiag as cd
    >>> both = cd.algorithm("q x -> q x, x")(lambda A: (cd.exp(A), cd.sum(cd.exp(A), "q")))
    >>> [form.fold.emitted for form in emitting_forms(both.diagram, "q")]
    [1]
    """
    flat = inline(diagram)
    emitting = [k for k, ty in enumerate(flat.cod) if ty.axis(axis) is not None]
    others = [k for k in range(len(flat.cod)) if k not in emitting]
    if not emitting or not others or any(isinstance(box.op, (GroupOp, FoldOp)) for box in flat.boxes):
        return
    try:
        mapped = find(_part(flat, emitting), [axis])
    except NotGroupable:
        return
    for form in candidates(_part(flat, others), axis):
        places = [k for k, node in enumerate(form.diagram.graph.nodes) if isinstance(node.box.op, FoldOp)]
        if len(places) == 1:
            made, fold = _joined(form.diagram, places[0], mapped, {k: n for n, k in enumerate(others)}, len(flat.cod))
            yield replace(form, diagram=of_graph(made, flat.cod, flat.names, flat.title), fold=fold)


def _part(diagram: Diagram, outputs: Sequence[int]) -> Diagram:
    """The diagram with some of its results."""
    graph = diagram.graph
    made = reachable(Graph(graph.dom, graph.nodes, tuple(graph.outputs[k] for k in outputs)))
    return of_graph(made, Ty(*(diagram.cod[k] for k in outputs)), diagram.input_names, diagram.title)


def _joined(streamed: Diagram, place: int, mapped: Diagram, others: dict[int, int], count: int) -> tuple[Graph, FoldOp]:
    """The graph of a streamed diagram, whose loop is at `place`, that emits the results of `mapped`, a group of tiles
    of the axis. `others` says which of the `count` results are those of `streamed`."""
    graph = streamed.graph
    whole = GraphWriter(graph.dom, shared=True)
    wires: list[int] = list(range(len(graph.dom)))
    whole.copy(graph.nodes[:place], wires)
    outside = list(range(len(graph.dom)))
    tiled: Node | None = None
    for node in mapped.graph.nodes:
        if isinstance(node.box.op, GroupOp):
            tiled = Node(node.box, tuple(outside[w] for w in node.inputs))
            outside.extend([-1] * len(node.box.cod))
        else:
            outside.extend(whole.made(node.box, [outside[w] for w in node.inputs]))
    assert tiled is not None
    loop = graph.nodes[place]
    fold, inputs = _emitting(whole, loop, [wires[w] for w in loop.inputs], tiled)
    dom = Ty(*(whole.types[w] for w in inputs))
    states = fold.op.state_count if isinstance(fold.op, FoldOp) else 0
    made = whole.made(replace(fold, dom=dom), inputs)
    wires.extend(made[:states])
    whole.copy(graph.nodes[place + 1 :], wires)
    emitted = iter(made[states:])
    outputs = tuple(wires[graph.outputs[others[k]]] if k in others else next(emitted) for k in range(count))
    assert isinstance(fold.op, FoldOp)
    return whole.graph(outputs), fold.op


def _emitting(whole: GraphWriter, loop: Node, given: Sequence[int], tiled: Node) -> tuple[Box, list[int]]:
    """A loop that emits what a group of tiles computes, and the wires of `whole` that it reads; `given` are those that
    the loop reads already."""
    op, group = loop.box.op, tiled.box.op
    assert isinstance(op, FoldOp) and isinstance(group, GroupOp)
    body = resize(group.body, op.axis, op.block)
    inputs, blocks = list(given), list(op.state.dom.arrays)
    at: list[int] = []
    for w, ty in zip(tiled.inputs, body.dom, strict=True):
        known = next((k for k, v in enumerate(inputs) if v == w and blocks[k] == ty), None)
        if known is None:
            known = len(inputs)
            inputs.append(w)
            blocks.append(ty)
        at.append(known)
    count = op.state_count
    before = _made_before(whole, body.graph, tiled.inputs, inputs)

    def with_emission(diagram: Diagram, states: int) -> Diagram:
        made = GraphWriter([*diagram.dom.arrays[:states], *blocks], shared=True)
        ends = made.put(inline(diagram).graph, range(len(diagram.dom)))
        emitted, wires = inline(body).graph, [states + k for k in at]
        for node in emitted.nodes:
            new = made.made(node.box, [wires[w] for w in node.inputs])
            wires.extend(states + before[w] if w in before else v for w, v in enumerate(new, len(wires)))
        ends += [wires[w] for w in emitted.outputs]
        cod = Ty(*diagram.cod, *body.cod)
        names = list(diagram.input_names)
        for k in range(len(names) - states, len(blocks)):  # the inputs that only what is emitted reads
            name = body.input_names[at.index(k)]
            while name in names:
                name += "_"
            names.append(name)
        return of_graph(made.reachable(ends), cod, tuple(names))

    made = replace(op, step=with_emission(op.step, count), state=with_emission(op.state, 0), emitted=len(body.cod))
    return Box(made, loop.box.dom, Ty(*loop.box.cod, *tiled.box.cod), loop.box.line), inputs


def _made_before(whole: GraphWriter, body: Graph, given: Sequence[int], inputs: Sequence[int]) -> dict[int, int]:
    """The wires of a body that the loop has as inputs, since the same boxes stand before it: the number of the input,
    by wire. `given` are the wires of `whole` that the body's inputs are, `inputs` those that the loop reads."""
    outer = {k: w for k, w in enumerate(given) if whole.types[w] == body.dom[k]}
    found: dict[int, int] = {}
    for made, node in body.wired():
        first = -1
        if all(w in outer for w in node.inputs):
            first = (whole.shared or {}).get((node.box, tuple(outer[w] for w in node.inputs)), -1)
        for k, w in enumerate(made) if first >= 0 else ():
            outer[w] = first + k
            if first + k in inputs:
                found[w] = inputs.index(first + k)
    return found
