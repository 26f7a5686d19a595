"""Small rewrites of flat diagrams that make the search for a stream easier."""

from __future__ import annotations

from catdiag.boxes import Box, Einsum, Map, Reduce, Rename, View, einsum_box, map_box, reduce_box, reindex_box
from catdiag.diagram import Diagram, Graph, Node, live, of_graph
from catdiag.types import ArrayType, Ty
from catdiag.views import Read


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


def reads_first(diagram: Diagram, axis: str) -> Diagram:
    """The diagram with `f(a, r)` read elsewhere along the axis as `f` of `a` read there, and of r if it lacks the axis.

    What is known only at the end of the axis is then read nowhere along it, and of what scalar functions and products
    make, no more is made than is read.

    >>> import catdiag as cd
    >>> f = cd.algorithm("x, int[t]")(lambda a, at: cd.gather(a - cd.max(a, "x"), "x", at))
    >>> [b.name for b in f.boxes], [b.name for b in reads_first(f, "x").boxes]
    (['max[x]', 'sub', 'view[x →]'], ['max[x]', 'view[x →]', 'sub'])
    """
    graph = diagram.graph
    made = _Reads(list(graph.dom))
    number = list(range(len(graph.dom)))
    for node in graph.nodes:
        inputs = tuple(number[w] for w in node.inputs)
        first = made.read(node.box, inputs, axis)
        if first is None:
            first = made.add(node.box, inputs)
        number.extend(range(first, first + len(node.box.cod)))
    outputs = tuple(number[w] for w in graph.outputs)
    return of_graph(live(Graph(graph.dom, tuple(made.nodes), outputs)), diagram.cod, diagram.names, diagram.title)


class _Reads:
    """A graph under construction, in which views go before what makes the arrays that they read."""

    def __init__(self, types: list[ArrayType]) -> None:
        self.types = types
        self.nodes: list[Node] = []
        self.makers: dict[int, Node] = {}

    def add(self, box: Box, inputs: tuple[int, ...]) -> int:
        """The first output of a box."""
        first = len(self.types)
        self.makers[first] = Node(box, inputs)
        self.nodes.append(self.makers[first])
        self.types.extend(box.cod)
        return first

    def read(self, box: Box, inputs: tuple[int, ...], axis: str) -> int | None:
        """What a view reads along an axis of an array that is made, made of what is read."""
        op = box.op
        if not isinstance(op, View) or len(op.reads) != 1 or op.reads[0].where:
            return None
        at, array = op.reads[0].at, inputs[0]
        moved = {n for n, _ in at}
        taken = {*moved, *(a.name for a in op.made), *(n for w in inputs[1:] for n in self.types[w].names)}
        if axis not in moved or not self._opens(array, taken):
            return None
        known: dict[int, int] = {}
        todo = [array]
        while todo:
            w = todo[-1]
            names = set(self.types[w].names)
            if w in known:
                todo.pop()
            elif not names & moved:
                known[w] = w
            elif self._opens(w, taken):
                node = self.makers[w]
                missing = [i for i in node.inputs if i not in known]
                todo.extend(missing)
                if not missing:
                    known[w] = self._made(node.box, tuple(known[i] for i in node.inputs))
            else:
                part = View(op.made, (Read(tuple((n, e) for n, e in at if n in names)),), op.fits)
                reads = (w, *inputs[1:])
                known[w] = self.add(reindex_box(part, [self.types[i] for i in reads], box.line), reads)
        found = known[array]
        same = self.types[found] == box.cod[0]
        return found if same else self.add(Box(Rename(), Ty(self.types[found]), box.cod, box.line), (found,))

    def _opens(self, wire: int, taken: set[str]) -> bool:
        """Whether a wire is made by a scalar function, or by a product that sums over none of the names taken."""
        node = self.makers.get(wire)
        if node is None or not isinstance(node.box.op, (Map, Einsum)):
            return False
        return not taken & {n for t in node.box.dom for n in t.names if n not in node.box.cod[0].names}

    def _made(self, box: Box, inputs: tuple[int, ...]) -> int:
        """A scalar function or a product of other inputs than it had."""
        types = [self.types[w] for w in inputs]
        if isinstance(box.op, Map):
            return self.add(map_box(box.op.fn, types, box.line), inputs)
        gone = {n for t in box.dom for n in t.names if n not in box.cod[0].names}
        kept = dict.fromkeys(n for t in types for n in t.names if n not in gone)
        return self.add(einsum_box(types, tuple(kept), box.line), inputs)
