"""A small rewrite of flat diagrams that makes the search for a stream easier."""

from __future__ import annotations

from catdiag.boxes import Box, Reduce, reduce_box
from catdiag.diagram import Diagram, Graph, Node, live, of_graph


def last_over(diagram: Diagram, axis: str) -> Diagram:
    """The diagram with `⊕_y ⊕_x` as `⊕_x ⊕_y`, so that the state of a stream over x does not carry y.

    >>> from catdiag.boxes import reduce_box
    >>> from catdiag.diagram import of_box
    >>> from catdiag.types import ArrayType, Axis
    >>> x, y = Axis("x"), Axis("y")
    >>> inner = of_box(reduce_box("max", "x", ArrayType((x, y))))
    >>> [b.name for b in last_over(inner >> of_box(reduce_box("max", "y", ArrayType((y,)))), "x").boxes]
    ['max[y]', 'max[x]']
    """
    graph = diagram.graph
    uses = [0] * len(graph.wire_types())
    for w in (*graph.outputs, *(w for node in graph.nodes for w in node.inputs)):
        uses[w] += 1
    nodes: list[Node] = []
    types = list(graph.dom)
    number = list(range(len(graph.dom)))
    makers: dict[int, Node] = {}
    for node in graph.nodes:
        box, op = node.box, node.box.op
        inputs = tuple(number[w] for w in node.inputs)
        before = makers.get(inputs[0]) if isinstance(op, Reduce) and uses[node.inputs[0]] == 1 else None
        if isinstance(op, Reduce) and before is not None and before.box.op == Reduce(op.monoid, axis):
            inner = reduce_box(op.monoid, op.axis, types[before.inputs[0]], box.line)
            nodes.append(Node(inner, before.inputs))
            types.extend(inner.cod)
            outer = reduce_box(op.monoid, axis, inner.cod[0], before.box.line)
            box, inputs = Box(outer.op, outer.dom, box.cod, outer.line), (len(types) - 1,)
        made = Node(box, inputs)
        nodes.append(made)
        first = len(types)
        types.extend(box.cod)
        makers[first] = made
        number.extend(range(first, len(types)))
    outputs = tuple(number[w] for w in graph.outputs)
    made_graph = live(Graph(graph.dom, tuple(nodes), outputs))
    return of_graph(made_graph, diagram.cod, diagram.names, diagram.title)
