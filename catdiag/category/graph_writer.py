"""A graph under construction: boxes are added one after the other, and their results get the next wire numbers."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from fractions import Fraction

from catdiag.category.diagram import Graph, Node, reachable
from catdiag.category.ops import Box, Rename, const_box, map_box, reduce_box
from catdiag.category.scalars import ScalarFunction
from catdiag.category.types import ArrayType, Ty


class GraphWriter:
    """The inputs and boxes of a graph so far. `types` has the type of each wire: those of `dom` come first.

    With `shared`, equal boxes on the same wires are one.

    >>> x = ArrayType(())
    >>> writer = GraphWriter([x, x])
    >>> total = writer.map("add", 0, 1)
    >>> writer.map("exp", total), writer.graph([total]).nodes[-1].box.name
    (3, 'exp')
    """

    def __init__(self, dom: Iterable[ArrayType], shared: bool = False) -> None:
        self.dom = Ty(*dom)
        self.types = list(self.dom)
        self.nodes: list[Node] = []
        self.shared: dict[tuple[Box, tuple[int, ...]], int] | None = {} if shared else None

    def add(self, box: Box, inputs: Sequence[int]) -> int:
        """Adds a box on some wires. Gives the first wire that it makes; the others follow it."""
        first, node = len(self.types), Node(box, tuple(inputs))
        if self.shared is not None:
            key = box, node.inputs
            if key in self.shared:
                return self.shared[key]
            self.shared[key] = first
        self.nodes.append(node)
        self.types.extend(box.cod)
        return first

    def made(self, box: Box, inputs: Sequence[int]) -> range:
        """Adds a box on some wires. Gives the wires that it makes."""
        first = self.add(box, inputs)
        return range(first, first + len(box.cod))

    def copy(self, nodes: Iterable[Node], wires: list[int]) -> None:
        """Adds boxes of another graph. `wires` gives the wire here of each of its wires so far, and is extended."""
        for node in nodes:
            wires.extend(self.made(node.box, [wires[w] for w in node.inputs]))

    def put(self, graph: Graph, inputs: Iterable[int]) -> list[int]:
        """Adds all boxes of another graph on some wires. Gives the wires of its outputs."""
        wires = list(inputs)
        self.copy(graph.nodes, wires)
        return [wires[w] for w in graph.outputs]

    def map(self, fn: ScalarFunction, *wires: int) -> int:
        """Adds a scalar function."""
        return self.add(map_box(fn, [self.types[w] for w in wires]), wires)

    def reduce(self, monoid: str, axis: str, wire: int) -> int:
        """Adds a reduction over an axis."""
        return self.add(reduce_box(monoid, axis, self.types[wire]), (wire,))

    def number(self, value: int) -> int:
        """Adds a constant."""
        return self.add(const_box(Fraction(value)), ())

    def cast(self, wire: int, ty: ArrayType) -> int:
        """The wire in another layout and element type, broadcast along axes that it lacks."""
        return wire if self.types[wire] == ty else self.add(Box(Rename(), Ty(self.types[wire]), Ty(ty)), (wire,))

    def graph(self, outputs: Iterable[int]) -> Graph:
        """The graph of all boxes so far."""
        return Graph(self.dom, tuple(self.nodes), tuple(outputs))

    def reachable(self, outputs: Iterable[int]) -> Graph:
        """The graph of the boxes that some wires need."""
        return reachable(self.graph(outputs))


def part_of(graph: Graph, places: Iterable[int], dom: Iterable[int], outputs: Iterable[int]) -> Graph:
    """The boxes of a graph at some places, in order, as a graph of their own: `dom` are the wires that are its inputs,
    and `outputs` those that it gives. Boxes at other places are left out, and nothing may read what they make."""
    types, first = graph.cached(Graph.wire_types), graph.first_wires()
    dom = list(dom)
    local, writer = {w: k for k, w in enumerate(dom)}, GraphWriter(types[w] for w in dom)
    for place in places:
        node = graph.nodes[place]
        made = writer.made(node.box, [local[w] for w in node.inputs])
        local.update(zip(range(first[place], first[place] + len(made)), made, strict=True))
    return writer.graph(local[w] for w in outputs)
