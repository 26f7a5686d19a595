"""The table of derivatives by operation: for each box the linear map that it is at a point."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from catdiag.category.ops import (
    Box,
    Const,
    Einsum,
    Generic,
    Index,
    Map,
    Op,
    Reduce,
    Reindex,
    Rename,
    SizeOf,
    View,
    index_box,
    op_row,
)
from catdiag.category.types import ArrayType, Axis, Ty, union
from catdiag.rewrite.differentiate.index_map_adjoints import Reads, Rearrangement
from catdiag.rewrite.differentiate.linear_maps import (
    LinearMap,
    RenamedAxes,
    Weight,
    WeightedSums,
    Wires,
    broadcast,
    renamed,
)
from catdiag.rewrite.differentiate.scalar_derivatives import partials
from catdiag.rewrite.hash_consed_graph import HashConsedGraph

Rule = Callable[[HashConsedGraph, Box, Sequence[int], Sequence[int]], LinearMap]
"""The derivative of a box, from the wires of its inputs and of its outputs."""


def _scalar(graph: HashConsedGraph, box: Box, inputs: Sequence[int], outputs: Sequence[int]) -> LinearMap:
    assert isinstance(box.op, Map)
    weights = partials(graph, box.op.fn, inputs, outputs[0])
    axes = box.cod[0].axes
    return WeightedSums(weights, axes, tuple(ty.names for ty in box.dom), box.cod[0].names)


def _contraction(graph: HashConsedGraph, box: Box, inputs: Sequence[int], outputs: Sequence[int]) -> LinearMap:
    weights = tuple(Weight((*inputs[:k], *inputs[k + 1 :])) for k in range(len(inputs)))
    return WeightedSums(weights, union(list(box.dom)), tuple(ty.names for ty in box.dom), box.cod[0].names)


def _reduction(graph: HashConsedGraph, box: Box, inputs: Sequence[int], outputs: Sequence[int]) -> LinearMap:
    assert isinstance(box.op, Reduce)
    ty = box.dom[0]
    weight = REDUCTIONS[box.op.monoid](graph, box.op.axis, inputs[0], outputs[0])
    return WeightedSums((weight,), ty.axes, (ty.names,), box.cod[0].names)


def _others(graph: HashConsedGraph, axis: str, array: int, result: int) -> Weight:
    """Of a product, the product of all others: defined also where an element is 0, which a quotient is not."""
    own = graph.types[array].axis(axis)
    assert own is not None
    name = axis + "_"
    while graph.types[array].axis(name) is not None:
        name += "_"
    other = Axis(name, own.size)
    here, there = graph.add(index_box(own), ()), graph.add(index_box(other), ())
    copy = renamed(graph, array, {axis: name}, [other])
    rest = graph.map("where", graph.map("eq", here, there), graph.const(1), copy)
    return Weight((graph.reduce("prod", name, rest),))


def _extremal(graph: HashConsedGraph, axis: str, array: int, result: int) -> Weight:
    """Of a maximum or minimum: 1 for the element that attains it; several that do share it evenly, along all axes of
    nested maxima."""
    attained, share = graph.map("eq", array, result), _ties(graph, array, result)
    count = graph.reduce("sum", axis, graph.map("where", attained, share, graph.const(0)))
    return Weight(() if graph.is_const(share) else (share,), (count,), condition=attained)


def _ties(graph: HashConsedGraph, array: int, result: int) -> int:
    """How many elements attain each element of an array that is a maximum or minimum, as the result is; else 1."""
    outer, node = graph.node(result), graph.node(array)
    if outer is None or node is None or not isinstance(node.box.op, Reduce) or not isinstance(outer.box.op, Reduce):
        return graph.const(1)
    if node.box.op.monoid != outer.box.op.monoid:
        return graph.const(1)
    (inner,) = node.inputs
    attained, share = graph.map("eq", inner, array), _ties(graph, inner, array)
    return graph.reduce("sum", node.box.op.axis, graph.map("where", attained, share, graph.const(0)))


REDUCTIONS: Mapping[str, Callable[[HashConsedGraph, str, int, int], Weight | None]] = {
    "sum": lambda graph, axis, array, result: Weight(),
    "prod": _others,
    "max": _extremal,
    "min": _extremal,
    "any": lambda graph, axis, array, result: None,
    "all": lambda graph, axis, array, result: None,
}
"""The weight of an element of each reduction; None where results are truth values."""


@dataclass(frozen=True)
class OpaqueDerivative:
    """The derivative of an uninterpreted box f: the boxes `jvp f` of inputs and tangents, `vjp f` of inputs and
    cotangents. They are uninterpreted too: `run` takes functions for them."""

    box: Box
    wires: Sequence[int]

    def push(self, graph: HashConsedGraph, tangents: Wires) -> list[int | None]:
        """The outputs of `jvp f`."""
        return self._made(graph, "jvp", self.box.dom, tangents, self.box.cod)

    def pull(self, graph: HashConsedGraph, cotangents: Wires) -> list[int | None]:
        """The outputs of `vjp f`."""
        return self._made(graph, "vjp", self.box.cod, cotangents, self.box.dom)

    def _made(self, graph: HashConsedGraph, what: str, taken: Ty, given: Wires, gives: Ty) -> list[int | None]:
        assert isinstance(self.box.op, Generic)
        numbers = [(ty, w) for ty, w in zip(taken, given, strict=True) if has_derivative(ty)]
        wires = [
            graph.cast(broadcast(graph, graph.const(0) if w is None else w, ty.axes), ArrayType(ty.axes))
            for ty, w in numbers
        ]
        cod = Ty(*(ArrayType(ty.axes) for ty in gives if has_derivative(ty)))
        dom = self.box.dom @ Ty(*(graph.types[w] for w in wires))
        first = graph.add(Box(Generic(f"{what} {self.box.op.name}"), dom, cod, self.box.line), [*self.wires, *wires])
        results = iter(range(first, first + len(cod)))
        return [next(results) if has_derivative(ty) else None for ty in gives]


def has_derivative(ty: ArrayType) -> bool:
    """Whether an array has tangents: it holds real numbers, or real numbers and −∞; integers and truth values not."""
    return ty.element in ("real", "extended")


def _constant(graph: HashConsedGraph, box: Box, inputs: Sequence[int], outputs: Sequence[int]) -> LinearMap:
    return WeightedSums((), (), (), box.cod[0].names)


DERIVATIVES: Mapping[type[Op], Rule] = {
    Map: _scalar,
    Reduce: _reduction,
    Einsum: _contraction,
    Rename: lambda graph, box, inputs, outputs: RenamedAxes(box),
    Reindex: lambda graph, box, inputs, outputs: Rearrangement(box),
    View: lambda graph, box, inputs, outputs: Reads(box, inputs),
    Index: _constant,
    SizeOf: _constant,
    Const: _constant,
    Generic: lambda graph, box, inputs, outputs: OpaqueDerivative(box, inputs),
}
"""The derivative of each class of operations. Named diagrams, groups and loops are opened before."""


def derivative(graph: HashConsedGraph, box: Box, inputs: Sequence[int], outputs: Sequence[int]) -> LinearMap:
    """The linear map that a box is at a point, from the wires of its inputs and outputs in a graph."""
    return op_row(DERIVATIVES, box, "differentiated")(graph, box, inputs, outputs)
