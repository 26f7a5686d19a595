"""The two passes over a diagram: tangents along the wires, and cotangents against them.

The forward derivative is a functor: a diagram `f: X → Y` becomes `X @ X' → Y'`, where X' has the tangents of X. The
chain rule is composition, and a wire that is copied passes its tangent on twice. The reverse derivative `X @ Y' → X'`
runs the transposed maps in the opposite order. There a copied wire adds its cotangents, and one that is discarded has
the cotangent 0 (Cockett et al., "Reverse derivative categories", 2020). Both are of the diagram, not of its meaning:
`where(x == 0, 0, x)` and `x` mean the same, and their derivatives differ at 0.

Wires are hash-consed: what the derivative needs of the forward pass is computed once.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from catdiag.category.diagram import Diagram
from catdiag.category.types import ArrayType, Ty
from catdiag.rewrite.differentiate.box_derivatives import derivative, has_derivative
from catdiag.rewrite.differentiate.linear_maps import total
from catdiag.rewrite.hash_consed_graph import HashConsedGraph


class Linearization:
    """A flat diagram in a hash-consed graph, to be differentiated by some of its inputs.

    `further` are the types of the tangents or cotangents, which are inputs of the graph after those of the diagram. A
    wire in `constant` has the derivative 0. `element_guards` is that of the graph.
    """

    def __init__(self, flat: Diagram, further: Sequence[ArrayType], element_guards: bool = False) -> None:
        self.graph = HashConsedGraph(Ty(*flat.dom, *further), element_guards)
        self.constant: set[int] = set()
        now = list(range(len(flat.dom)))
        for node in flat.graph.nodes:
            first = self.graph.add(node.box, [now[w] for w in node.inputs])
            now.extend(range(first, first + len(node.box.cod)))
        self.outputs = [now[w] for w in flat.graph.outputs]
        self.count = len(self.graph.nodes)

    def active(self, inputs: Collection[int]) -> set[int]:
        """The wires that depend on these inputs and have derivatives."""
        found = {w for w in inputs if has_derivative(self.graph.types[w])}
        for place in range(self.count):
            node, outputs = self.graph.nodes[place], self._outputs(place)
            if any(w in found for w in node.inputs):
                found.update(w for w in outputs if has_derivative(self.graph.types[w]) and w not in self.constant)
        return found

    def _outputs(self, place: int) -> range:
        return range(self.graph.first[place], self.graph.first[place] + len(self.graph.nodes[place].box.cod))

    def forward(self, tangents: Mapping[int, int]) -> list[int | None]:
        """The tangents of the outputs, given those of some inputs; None is 0."""
        known: dict[int, int] = dict(tangents)
        active = self.active(tangents)
        for place in range(self.count):
            node, outputs = self.graph.nodes[place], self._outputs(place)
            if not any(w in known for w in node.inputs) or not any(w in active for w in outputs):
                continue
            local = derivative(self.graph, node.box, node.inputs, outputs)
            pushed = local.push(self.graph, [known.get(w) for w in node.inputs])
            known.update({w: t for w, t in zip(outputs, pushed, strict=True) if t is not None and w in active})
        return [known.get(w) for w in self.outputs]

    def reverse(self, cotangents: Sequence[int | None], inputs: Sequence[int]) -> list[int | None]:
        """The cotangents of some inputs, given those of the outputs; None is 0."""
        active = self.active(inputs)
        known: dict[int, int | None] = {}
        for w, g in zip(self.outputs, cotangents, strict=True):
            known[w] = total(self.graph, [known.get(w), g])
        for place in reversed(range(self.count)):
            node, outputs = self.graph.nodes[place], self._outputs(place)
            given = [known.get(w) if w in active else None for w in outputs]
            if all(g is None for g in given) or not any(w in active for w in node.inputs):
                continue
            pulled = derivative(self.graph, node.box, node.inputs, outputs).pull(self.graph, given)
            for w in dict.fromkeys(node.inputs):
                if w in active:
                    # Of x·x, the two cotangents of x are equal.
                    local = total(self.graph, [g for i, g in zip(node.inputs, pulled, strict=True) if i == w])
                    known[w] = total(self.graph, [known.get(w), local])
        return [known.get(w) for w in inputs]
