"""Canonicalization: small rewrites of flat diagrams that bring more of them into the reach of the
search for a stream.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from fractions import Fraction

from catdiag.category.diagram import Diagram, Graph, Node, of_graph, reachable
from catdiag.category.graph_writer import GraphWriter
from catdiag.category.index_maps import Read
from catdiag.category.op_facts import reduced_axes
from catdiag.category.ops import Box, Einsum, Map, Reduce, Rename, View, einsum_box, map_box, reduce_box, reindex_box
from catdiag.category.scalars import ScalarFunction
from catdiag.category.types import ArrayType, Ty
from catdiag.rewrite.hash_consed_graph import HashConsedGraph


def reduce_last(diagram: Diagram, axis: str) -> Diagram:
    """The diagram with `⊕_y ⊕_x` as `⊕_x ⊕_y`, so that the state of a stream over x does not carry the axis y.

    >>> from catdiag.category.ops import reduce_box
    >>> from catdiag.category.diagram import of_box
    >>> from catdiag.category.types import ArrayType, Axis
    >>> x, y = Axis("x"), Axis("y")
    >>> inner = of_box(reduce_box("max", "x", ArrayType((x, y))))
    >>> [b.name for b in reduce_last(inner >> of_box(reduce_box("max", "y", ArrayType((y,)))), "x").boxes]
    ['max[y]', 'max[x]']
    """
    graph = diagram.graph
    uses = [0] * len(graph.wire_types())
    for w in (*graph.outputs, *(w for node in graph.nodes for w in node.inputs)):
        uses[w] += 1
    number, writer = list(range(len(graph.dom))), GraphWriter(graph.dom)
    makers: dict[int, Node] = {}
    for node in graph.nodes:
        box, op = node.box, node.box.op
        inputs = tuple(number[w] for w in node.inputs)
        before = makers.get(inputs[0]) if isinstance(op, Reduce) and uses[node.inputs[0]] == 1 else None
        if isinstance(op, Reduce) and before is not None and before.box.op == Reduce(op.monoid, axis):
            inner = reduce_box(op.monoid, op.axis, writer.types[before.inputs[0]], box.line)
            first = writer.add(inner, before.inputs)
            outer = reduce_box(op.monoid, axis, inner.cod[0], before.box.line)
            box, inputs = Box(outer.op, outer.dom, box.cod, outer.line), (first,)
        made = writer.made(box, inputs)
        makers[made.start] = writer.nodes[-1]
        number.extend(made)
    return of_graph(writer.reachable(number[w] for w in graph.outputs), diagram.cod, diagram.names, diagram.title)


def reads_before_maps(diagram: Diagram, axis: str) -> Diagram:
    """The diagram with reads along the axis moved towards the inputs: `f(a, r)` read at computed positions becomes `f`
    of `a` read there and of `r`, which is read there too unless it does not have the axis.

    After this no statistic of the whole axis is read at computed positions, and scalar functions and products compute
    only the elements that are read.

    >>> import catdiag as cd
    >>> f = cd.algorithm("x, int[t]")(lambda a, at: cd.gather(a - cd.max(a, "x"), "x", at))
    >>> [b.name for b in f.boxes], [b.name for b in reads_before_maps(f, "x").boxes]
    (['max[x]', 'sub', 'view[x →]'], ['max[x]', 'view[x →]', 'sub'])
    """
    graph = diagram.graph
    made = _ReadOrder(list(graph.dom))
    number = list(range(len(graph.dom)))
    for node in graph.nodes:
        inputs = tuple(number[w] for w in node.inputs)
        first = made.read(node.box, inputs, axis)
        if first is None:
            first = made.add(node.box, inputs)
        number.extend(range(first, first + len(node.box.cod)))
    outputs = tuple(number[w] for w in graph.outputs)
    return of_graph(reachable(Graph(graph.dom, tuple(made.nodes), outputs)), diagram.cod, diagram.names, diagram.title)


class _ReadOrder:
    """A graph under construction in which each view is moved in front of the boxes that make the array it reads."""

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
        """What a view reads along the axis, computed from reads of the operands; None where the view stays
        where it is.
        """
        op = box.op
        if not isinstance(op, View) or len(op.reads) != 1 or op.reads[0].where:
            return None
        at, array = op.reads[0].at, inputs[0]
        moved = {n for n, _ in at}
        taken = {*moved, *(a.name for a in op.index_axes), *(n for w in inputs[1:] for n in self.types[w].names)}
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
                part = View(op.index_axes, (Read(tuple((n, e) for n, e in at if n in names)),), op.fits)
                reads = (w, *inputs[1:])
                known[w] = self.add(reindex_box(part, [self.types[i] for i in reads], box.line), reads)
        found = known[array]
        same = self.types[found] == box.cod[0]
        return found if same else self.add(Box(Rename(), Ty(self.types[found]), box.cod, box.line), (found,))

    def _opens(self, wire: int, taken: set[str]) -> bool:
        """Whether a scalar function makes the wire, or a contraction that sums over none of the names in `taken`."""
        node = self.makers.get(wire)
        if node is None or not isinstance(node.box.op, (Map, Einsum)):
            return False
        return not taken & set(reduced_axes(node.box))

    def _made(self, box: Box, inputs: tuple[int, ...]) -> int:
        """The same scalar function or contraction on other inputs."""
        types = [self.types[w] for w in inputs]
        if isinstance(box.op, Map):
            return self.add(map_box(box.op.fn, types, box.line), inputs)
        kept = dict.fromkeys(n for t in types for n in t.names if n not in reduced_axes(box))
        return self.add(einsum_box(types, tuple(kept), box.line), inputs)


def masks_in_exponents(flat: Diagram, above: Collection[int]) -> tuple[HashConsedGraph, list[int], set[int]]:
    """A flat diagram as a hash-consed graph with masks moved inside exponentials. Gives the graph, the outputs, and the
    wires of the exponentials in `above`.

    `where(c, exp(s), 0)` and `exp(s)·where(c, 1, 0)` become `exp(where(c, s, -∞))`, so that masked elements do not take
    part in the maximum of the exponents.
    """
    terms = HashConsedGraph(flat.dom)
    now = list(range(len(flat.dom)))
    chosen: set[int] = set()
    for node in flat.graph.nodes:
        wires = [now[w] for w in node.inputs]
        masked = _masked(terms, node, wires, chosen)
        if masked is not None:
            chosen.add(masked)
            now.append(terms.cast(masked, node.box.cod[0]))
            continue
        start, count = terms.add(node.box, wires), len(now)
        now.extend(range(start, start + len(node.box.cod)))
        chosen |= {now[w] for w in range(count, len(now)) if w in above}
    outputs = [now[w] for w in flat.graph.outputs]
    return terms, outputs, chosen & set(terms.cone(outputs))


def _masked(terms: HashConsedGraph, node: Node, wires: Sequence[int], chosen: set[int]) -> int | None:
    """A masked exponential (a `where` or a product with a mask) as the exponential of a masked exponent; None for
    another node.
    """

    def made(condition: int, wire: int, kept: int) -> int:
        maker = terms.node(wire)
        assert maker is not None
        branches = [maker.inputs[0], terms.const(None)]
        inside = terms.map("where", condition, *branches[:: 1 if kept == 1 else -1])
        return terms.map("exp", inside, line=maker.box.line)

    if node.box.op == Map("where"):
        for kept, other in ((1, 2), (2, 1)):
            if wires[kept] in chosen and terms.const_value(wires[other]) == 0:
                return made(wires[0], wires[kept], kept)
    if node.box.op == Map("mul"):
        for wire, factor in (wires, wires[::-1]):
            mask = terms.node(factor)
            if wire in chosen and mask is not None and mask.box.op == Map("where"):
                values = [terms.const_value(w) for w in mask.inputs[1:]]
                if values in ([1, 0], [0, 1]):
                    return made(mask.inputs[0], wire, 1 + values.index(Fraction(1)))
    return None


def canonical_graph(terms: HashConsedGraph, outputs: Sequence[int], flat: Diagram) -> Diagram:
    """The diagram of wires of a hash-consed graph, with the types and names of `flat`."""
    now = {w: w for w in range(len(flat.dom))}
    writer = GraphWriter(flat.dom)
    for w in terms.cone(outputs):
        node = terms.node(w)
        if w in now or node is None:
            continue
        now.update(enumerate(writer.made(node.box, [now[i] for i in node.inputs]), terms.first[terms.maker[w]]))
    return of_graph(writer.reachable(now[w] for w in outputs), flat.cod, flat.names, flat.title)


def with_masked_exponents(flat: Diagram) -> Diagram | None:
    """A flat diagram with its masks moved inside the exponentials; None where it has no masked exponential.

    >>> import catdiag as cd
    >>> f = cd.algorithm("x, bool[x] ->")(lambda a, m: cd.sum(cd.where(m, cd.exp(a), 0), "x"))
    >>> [box.name for box in with_masked_exponents(f).boxes]
    ['-inf', 'where', 'exp', 'sum[x]']
    """
    above = {made[0] for made, node in flat.graph.wired() if node.box.op == Map("exp")}
    made, plain = (
        canonical_graph(terms, [terms.cast(w, ty) for w, ty in zip(outputs, flat.cod, strict=True)], flat)
        for terms, outputs, _ in (masks_in_exponents(flat, above), masks_in_exponents(flat, ()))
    )
    return None if made.graph == plain.graph else made


_OPPOSITE: Mapping[ScalarFunction, ScalarFunction] = {"lt": "le", "le": "lt"}


def with_conjunctive_masks(flat: Diagram) -> Diagram:
    """A flat diagram with masks that choose where one of several conditions holds as masks that choose where the
    opposite of each does, in one conjunction: what is known of each part of it is found part by part.

    `where(a or b, s, t)` becomes `where(not a and not b, t, s)`, and of integers `not i < j` is `j ≤ i`.

    >>> import catdiag as cd
    >>> f = cd.algorithm("x, bool[x], bool[x] -> x")(lambda a, m, n: cd.where(m | n, -cd.inf, a))
    >>> [box.name for box in with_conjunctive_masks(f.diagram).boxes]
    ['-inf', 'not', 'not', 'and', 'where']
    """
    terms = HashConsedGraph(flat.dom)
    now = list(range(len(flat.dom)))
    changed = False
    for node in flat.graph.nodes:
        wires = [now[w] for w in node.inputs]
        if node.box.op == Map("where") and terms.function_of(wires[0]) == "or":
            condition, *branches = wires
            chosen = terms.map("where", _opposite(terms, condition), *reversed(branches), line=node.box.line)
            now.append(terms.cast(chosen, node.box.cod[0]))
            changed = True
            continue
        start = terms.add(node.box, wires)
        now.extend(range(start, start + len(node.box.cod)))
    return canonical_graph(terms, [now[w] for w in flat.graph.outputs], flat) if changed else flat


def _opposite(terms: HashConsedGraph, condition: int) -> int:
    """The opposite of a condition: of a disjunction, the conjunction of opposites."""
    fn, node = terms.function_of(condition), terms.node(condition)
    if node is not None and fn == "or":
        return terms.map("and", *(_opposite(terms, w) for w in node.inputs))
    if node is not None and fn == "not":
        return node.inputs[0]
    if node is not None and fn in _OPPOSITE and terms.types[node.inputs[0]].element == "int":
        return terms.map(_OPPOSITE[fn], *reversed(node.inputs))
    return terms.map("not", condition)
