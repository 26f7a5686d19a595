"""How every reading of a diagram is made: a value for each input wire, an action for each box.

An interpretation sends an object to the values on its wires and a box to an action on values;
composition and tensor extend it, so that for `run = lambda d, v: interpret(d, v, action)`

    run(f >> g, v) = run(g, run(f, v))          run(f @ g, v + w) = run(f, v) + run(g, w)

Copying shares a value and discarding drops it. A reading whose action is pure is therefore a functor;
one that also counts (boxes run, bytes moved) is a functor on the monoidal category only, where
`f >> copy` and `copy >> f @ f` differ. Values are released after their last use, and there is no recursion.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TypeVar

from catdiag.boxes import Box, Rename
from catdiag.diagram import Diagram, Graph, Node, check_axis_free, of_graph
from catdiag.errors import AxisError, TypeMismatch
from catdiag.types import ArrayType, Axis, Ty

V = TypeVar("V")


def interpret(
    diagram: Diagram, inputs: Sequence[V], action: Callable[[Box, tuple[V, ...]], Sequence[V]]
) -> tuple[V, ...]:
    """The outputs of a diagram under an interpretation.

    >>> from catdiag.diagram import box, copy
    >>> X = Ty(ArrayType())
    >>> double = copy(X) >> box("add", X @ X, X)
    >>> interpret(double, [21], lambda b, v: [sum(v)])
    (42,)

    Raises TypeMismatch if the number of inputs, or of an action's results, is wrong.
    """
    graph = diagram.graph
    if len(inputs) != len(graph.dom):
        raise TypeMismatch(f"the diagram has {len(graph.dom)} inputs, {len(inputs)} were given")
    last = last_uses(graph)
    values: dict[int, V] = dict(enumerate(inputs))
    for wire in range(len(graph.dom)):
        if last[wire] == -1:
            del values[wire]
    count = len(graph.dom)
    for place, node in enumerate(graph.nodes):
        args = tuple(values[w] for w in node.inputs)
        for w in node.inputs:
            if last[w] == place:
                values.pop(w, None)
        results = action(node.box, args)
        del args
        if len(results) != len(node.box.cod):
            raise TypeMismatch(f"{node.box.name} has {len(node.box.cod)} outputs, its action gave {len(results)}")
        for k, value in enumerate(results):
            if last[count + k] > place:
                values[count + k] = value
        count += len(results)
    return tuple(values[w] for w in graph.outputs)


def last_uses(graph: Graph) -> list[int]:
    """For each wire the place of the last node that reads it; -1 for none, the number of nodes for an output."""
    total = len(graph.dom) + sum(len(node.box.cod) for node in graph.nodes)
    last = [-1] * total
    for place, node in enumerate(graph.nodes):
        for w in node.inputs:
            last[w] = place
    for w in graph.outputs:
        last[w] = len(graph.nodes)
    return last


def weave(diagram: Diagram, axis: Axis, inputs: Iterable[int | str] | None = None) -> Diagram:
    """The functor that adds an axis, in front, to all outputs and to the given inputs.

    Each box is mapped over the axis when one of its inputs has it; `weave(f >> g) = weave(f) >> weave(g)`
    where the axis runs through the wires between. Outputs that depend on no woven input are repeated.
    """
    check_axis_free(diagram, axis)
    names = diagram.input_names
    chosen: set[int] = set(range(len(diagram.dom)))
    if inputs is not None:
        chosen = set()
        for item in inputs:
            if isinstance(item, str) and item not in names:
                raise AxisError(f"cannot weave input {item!r}: the inputs are {', '.join(names)}")
            chosen.add(names.index(item) if isinstance(item, str) else item)
        if not all(0 <= k < len(names) for k in chosen):
            raise AxisError(f"cannot weave inputs {sorted(chosen)}: the diagram has {len(names)}")

    def add(ty: ArrayType) -> ArrayType:
        return ArrayType((axis, *ty.axes), ty.element)

    dom = Ty(*(add(t) if k in chosen else t for k, t in enumerate(diagram.dom)))
    nodes: list[Node] = []
    count = len(dom)

    def action(b: Box, args: tuple[tuple[int, bool], ...]) -> list[tuple[int, bool]]:
        nonlocal count
        woven = any(has for _, has in args)
        if woven:
            new_dom = Ty(*(add(t) if has else t for t, (_, has) in zip(b.dom, args, strict=True)))
            b = Box(b.op, new_dom, Ty(*map(add, b.cod)), b.line)
        nodes.append(Node(b, tuple(w for w, _ in args)))
        outs = [(count + k, woven) for k in range(len(b.cod))]
        count += len(outs)
        return outs

    results = interpret(diagram, [(k, k in chosen) for k in range(len(dom))], action)
    outputs: list[int] = []
    for ty, (wire, has) in zip(diagram.cod, results, strict=True):
        if not has:
            nodes.append(Node(Box(Rename(), Ty(ty), Ty(add(ty))), (wire,)))
            wire, count = count, count + 1
        outputs.append(wire)
    return of_graph(Graph(dom, tuple(nodes), tuple(outputs)), Ty(*map(add, diagram.cod)), diagram.names, diagram.title)
