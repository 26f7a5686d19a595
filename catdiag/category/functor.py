"""Interpretations of diagrams: a value for each input wire, and an action for each box.

An interpretation maps an object to the values on its wires, and a box to an action on values. Composition and tensor
extend it, so that for `run = lambda d, v: interpret(d, v, action)`

    run(f >> g, v) = run(g, run(f, v))          run(f @ g, v + w) = run(f, v) + run(g, w)

Copying shares a value and discarding drops it. An interpretation whose action is pure is a functor. One that also
counts (boxes run, bytes moved) is a functor on the monoidal category only, where `f >> copy` and `copy >> f @ f`
differ. Values are released after their last use, and there is no recursion.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TypeVar

from catdiag.category.diagram import Diagram, Graph, Node, of_graph
from catdiag.category.ops import Box, FoldOp, GroupOp, Rename, bodies, tiled_axes, with_bodies
from catdiag.category.types import ArrayType, Axis, Ty, size_symbols
from catdiag.util.errors import AxisError, TypeMismatch, require

V = TypeVar("V")


def interpret(
    diagram: Diagram, inputs: Sequence[V], action: Callable[[Box, tuple[V, ...]], Sequence[V]]
) -> tuple[V, ...]:
    """The outputs of a diagram under an interpretation.

    >>> from catdiag.category.diagram import box, copy
    >>> X = Ty(ArrayType())
    >>> double = copy(X) >> box("add", X @ X, X)
    >>> interpret(double, [21], lambda b, v: [sum(v)])
    (42,)

    Raises TypeMismatch if the number of inputs, or of an action's results, is wrong.
    """
    graph = diagram.graph
    if len(inputs) != len(graph.dom):
        raise TypeMismatch(f"the diagram has {len(graph.dom)} inputs, {len(inputs)} were given")
    table, which, reads = graph.lists()
    last = last_uses(graph)
    values: dict[int, V] = dict(enumerate(inputs))
    for wire in range(len(graph.dom)):
        if last[wire] == -1:
            del values[wire]
    count = len(graph.dom)
    shape = [(b, b.dom._length, b.cod._length) for b in table]
    at = 0
    for place, k in enumerate(which):
        box, arity, ports = shape[k]
        wires = reads[at : at + arity]
        at += arity
        args = tuple([values[w] for w in wires])
        for w in wires:
            if last[w] == place:
                values.pop(w, None)
        results = action(box, args)
        del args
        if len(results) != ports:
            raise TypeMismatch(f"{box.name} has {ports} outputs, its action gave {len(results)}")
        for value in results:
            if last[count] > place:
                values[count] = value
            count += 1
    return tuple([values[w] for w in graph.outputs])


def last_uses(graph: Graph) -> list[int]:
    """For each wire the place of the last node that reads it: −1 if none does, the number of nodes for an output."""
    table, which, reads = graph.lists()
    arity, ports = [b.dom._length for b in table], [b.cod._length for b in table]
    last = [-1] * (len(graph.dom) + sum([ports[k] for k in which]))
    at = 0
    for place, k in enumerate(which):
        stop = at + arity[k]
        for w in reads[at:stop]:
            last[w] = place
        at = stop
    for w in graph.outputs:
        last[w] = len(which)
    return last


def weave(diagram: Diagram, axis: Axis | str, inputs: Iterable[int | str] | str | None = None) -> Diagram:
    """The functor that adds an axis in front of all outputs and of the given inputs (None: all inputs), like `vmap`.

    A box is mapped over the axis if one of its inputs has it, and so are its bodies. A box that depends on no weaved
    input (such as a constant) stays as it is. Its results are broadcast where they are used, and repeated where they
    are outputs.

    >>> from catdiag.category.diagram import box
    >>> X, Y = Ty(ArrayType((Axis("x"),))), Ty(ArrayType((Axis("y"),)))
    >>> f, g, h = box("f", X, Y), box("g", Y, X), Axis("h")
    >>> str(weave(f, h)), weave(f >> g, h) == weave(f, h) >> weave(g, h)
    ('[h x] → [h y]', True)

    So `weave(f >> g) = weave(f) >> weave(g)` if every wire between them depends on a weaved input. Otherwise the right
    side repeats earlier; `broadcast` has the law without exception. `weave(f @ g) = weave(f) @ weave(g)` always holds.
    Raises AxisError if a wire has an axis of that name already, if no input of that name or position exists, and if a
    loop or group uses the size of the axis for its own blocks.
    """
    axis = Axis(axis) if isinstance(axis, str) else axis
    return _pad(*broadcast(diagram, axis, _positions(diagram, inputs)), axis)


def broadcast(diagram: Diagram, axis: Axis, inputs: Iterable[int]) -> tuple[Diagram, tuple[bool, ...]]:
    """The diagram with an axis in front of the inputs at the given positions and of all wires that depend on them.

    Also gives which outputs have the axis. This is a functor from diagrams whose wires are marked as having the axis or
    not: if `broadcast(f, a, s)` is `(F, marks)`, `t` are the marked positions, and `broadcast(g, a, t)` is `(G, …)`,
    then `broadcast(f >> g, a, s)` is `(F >> G, …)`.

    >>> from catdiag.category.diagram import box
    >>> X = Ty(ArrayType())
    >>> woven, marks = broadcast(box("one", Ty(), X) @ box("f", X, X), Axis("h"), [0])
    >>> str(woven), marks
    ('[h] → [] @ [h]', (False, True))
    """
    start = (diagram, tuple(sorted(set(inputs))))
    done: dict[tuple[int, tuple[int, ...]], tuple[Diagram, tuple[bool, ...]]] = {}
    todo = [start]
    while todo:
        item, chosen = todo[-1]
        if (id(item), chosen) in done:
            todo.pop()
            continue
        check_axis_free(item, axis)
        marks = [False] * len(item.dom)
        for k in chosen:
            marks[k] = True
        needed: list[tuple[Diagram, tuple[int, ...]]] = []
        woven: dict[tuple[int, tuple[bool, ...]], Box] = {}
        nodes: list[Node] = []
        for node in item.graph.nodes:
            has = tuple([marks[w] for w in node.inputs])
            reached = True in has
            marks.extend([reached] * len(node.box.cod))
            if not reached:
                nodes.append(node)
                continue
            key = (id(node.box), has)
            if key not in woven:
                inside = _inside(node.box, has, axis)
                missing = [(body, at) for body, at in inside if (id(body), at) not in done]
                if missing:
                    needed += missing
                    continue
                op = with_bodies(node.box.op, tuple(_pad(*done[id(body), at], axis) for body, at in inside))
                dom = Ty(*(_add(axis, t) if h else t for t, h in zip(node.box.dom, has, strict=True)))
                woven[key] = Box(op, dom, Ty(*(_add(axis, t) for t in node.box.cod)), node.box.line)
            nodes.append(Node(woven[key], node.inputs))
        if needed:
            todo += needed
            continue
        outs = tuple([marks[w] for w in item.graph.outputs])
        dom = Ty(*(_add(axis, t) if h else t for t, h in zip(item.dom, marks, strict=False)))
        cod = Ty(*(_add(axis, t) if h else t for t, h in zip(item.cod, outs, strict=True)))
        graph = Graph(dom, tuple(nodes), item.graph.outputs)
        done[id(item), chosen] = (of_graph(graph, cod, item.names, item.title), outs)
    return done[id(diagram), start[1]]


def _add(axis: Axis, ty: ArrayType) -> ArrayType:
    return ArrayType((axis, *ty.axes), ty.element)


def _positions(diagram: Diagram, inputs: Iterable[int | str] | str | None) -> list[int]:
    """The numbers of inputs that are given by name or by number. Raises AxisError or TypeMismatch for others."""
    names = diagram.input_names
    if inputs is None:
        return list(range(len(names)))
    chosen: list[int] = []
    require(isinstance(inputs, Iterable), "inputs", inputs, "names or numbers of inputs, such as 'K V' or [1, 2]")
    for item in inputs.split() if isinstance(inputs, str) else inputs:
        require(isinstance(item, str) or type(item) is int, "an input", item, "its name, or its number from 0")
        if isinstance(item, str) and item not in names:
            raise AxisError(f"cannot weave input {item!r}: the inputs are {', '.join(names) or 'none'}")
        place = names.index(item) if isinstance(item, str) else item
        if not 0 <= place < len(names):
            raise AxisError(f"cannot weave input {place}: the diagram has {len(names)}, counted from 0")
        chosen.append(place)
    return chosen


def _inside(b: Box, has: tuple[bool, ...], axis: Axis) -> list[tuple[Diagram, tuple[int, ...]]]:
    """The bodies of a box, each with its inputs that have the axis if those of the box marked in `has` do."""
    op = b.op
    chosen = tuple([k for k, h in enumerate(has) if h])
    if isinstance(op, FoldOp):
        states = op.state_count
        if len(op.step.dom) != states + len(has) or len(op.state.dom) != len(has):
            raise AxisError(
                f"cannot weave {b.name} over axis {axis.name!r}: its step takes {op.step.dom} where the states "
                f"{b.cod} and a block of the inputs {b.dom} were expected; weave before streaming"
            )
        all_states = tuple(range(states))
        shifted = tuple([states + k for k in chosen])
        parts = [
            (op.unit, ()),
            (op.step, all_states + shifted),
            (op.merge, tuple(range(2 * states))),
            (op.state, chosen),
            *((body, chosen) for body in (op.bounds, op.is_live) if body is not None),
        ]
    elif isinstance(op, GroupOp):
        parts = [(op.body, chosen)]
    else:
        return [(body, chosen) for body in bodies(op)]
    if {symbol for _, symbol in tiled_axes(op)} & size_symbols(axis.size):
        raise AxisError(f"axis {axis.name!r} has size {axis.size}, which {b.name} uses for its blocks: rename it")
    return parts


def _pad(diagram: Diagram, has: tuple[bool, ...], axis: Axis) -> Diagram:
    """The diagram with the axis on all its outputs; those without it are repeated along it."""
    if all(has):
        return diagram
    graph = diagram.graph
    count = len(graph.dom) + sum(len(node.box.cod) for node in graph.nodes)
    nodes, outputs = list(graph.nodes), list(graph.outputs)
    for k, (ty, h) in enumerate(zip(diagram.cod, has, strict=True)):
        if not h:
            nodes.append(Node(Box(Rename(), Ty(ty), Ty(_add(axis, ty))), (outputs[k],)))
            outputs[k], count = count, count + 1
    return of_graph(Graph(graph.dom, tuple(nodes), tuple(outputs)), None, diagram.names, diagram.title)


def check_axis_free(diagram: Diagram, axis: Axis) -> None:
    """Raises AxisError if a wire of the diagram has an axis of that name, TypeMismatch unless `axis` is an Axis."""
    require(isinstance(axis, Axis), "the axis", axis, "an Axis, such as Axis('b')")
    seen: set[int] = set()
    for ty in diagram.graph.wire_types():
        if id(ty) not in seen:
            seen.add(id(ty))
            if ty.axis(axis.name) is not None:
                raise AxisError(f"axis {axis.name!r} is on a wire {ty} of the diagram already: rename one of the two")
