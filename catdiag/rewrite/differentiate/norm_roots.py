"""Roots of sums of squares, which norms are, and their derivative at 0.

A norm `√Σ a²` has a corner where all of a is 0, as `|a|` has, and there is no derivative. `g·a/r` has no value there;
0 is a subgradient, the one that `|a|` has here, and that PyTorch's norms have. So the weight of such a root is 0 where
it is 0. That says nothing of a root which is only divided by, as in `a/√Σ a²`: where it is 0 the program has no value.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from catdiag.category import ops
from catdiag.category.ops import op_fact
from catdiag.category.scalars import Cast
from catdiag.rewrite.hash_consed_graph import HashConsedGraph


def has_corner_at_zero(graph: HashConsedGraph, argument: int, root: int) -> bool:
    """Whether the argument of a root is a sum of squares by its form, and something but a quotient reads the root.

    >>> from catdiag.category.types import ArrayType, Axis, Ty
    >>> graph = HashConsedGraph(Ty(ArrayType((Axis("x"),))))
    >>> squares = graph.reduce("sum", "x", graph.map("mul", 0, 0))
    >>> has_corner_at_zero(graph, squares, graph.map("sqrt", squares)), has_corner_at_zero(graph, 0, 0)
    (True, False)
    """
    return _Squares(graph).sums(argument) and not _only_divides(graph, root)


class _Squares:
    """Which wires of a graph are sums of squares by their form: with positive weights, and divided by any number, which
    is positive where the quotient has a root that is not 0."""

    def __init__(self, graph: HashConsedGraph) -> None:
        self.graph = graph
        self._known: dict[int, bool] = {}

    def sums(self, wire: int) -> bool:
        """Whether a wire is one."""
        if wire not in self._known:
            node = self.graph.node(wire)
            row = None if node is None else op_fact(SUMS_OF_SQUARES, node.box.op)
            self._known[wire] = node is not None and row is not None and row(self, node.box.op, node.inputs)
        return self._known[wire]

    def all(self, op: ops.Op, inputs: Sequence[int]) -> bool:
        """Whether all inputs are."""
        return all(self.sums(w) for w in inputs)

    def product(self, op: ops.Op, inputs: Sequence[int]) -> bool:
        """Of factors each of which there is twice, or of one sum of squares, beside positive ones."""
        others = [w for w in inputs if not self.graph.positive[w]]
        paired = all(times % 2 == 0 for times in Counter(others).values())
        return paired or (len(others) == 1 and self.sums(others[0]))

    def scalar(self, op: ops.Map, inputs: Sequence[int]) -> bool:
        """Of a scalar function."""
        if op.fn == "mul":
            return self.product(op, inputs)
        if op.fn == "div":
            return self.sums(inputs[0])
        if op.fn in ("add", "where") or isinstance(op.fn, Cast):
            return self.all(op, inputs[op.fn == "where" :])
        return False


SUMS_OF_SQUARES: Mapping[type[ops.Op], Callable[[_Squares, Any, Sequence[int]], bool]] = {
    ops.Const: lambda squares, op, inputs: op.value == 0,
    ops.Map: _Squares.scalar,
    ops.Reduce: lambda squares, op, inputs: op.monoid == "sum" and squares.all(op, inputs),
    ops.Einsum: _Squares.product,
    ops.Rename: _Squares.all,
    ops.Reindex: _Squares.all,
    ops.View: lambda squares, op, inputs: squares.all(op, inputs[: len(op.reads)]),
}
"""Whether an operation's result is a sum of squares, given its inputs; that of others is not known to be."""


def _only_divides(graph: HashConsedGraph, wire: int) -> bool:
    """Whether an array is read as a divisor, or as a factor of one, and by nothing else."""
    readers = [place for place, node in enumerate(graph.nodes) if wire in node.inputs]
    return bool(readers) and all(
        (fn == "div" and graph.nodes[place].inputs[0] != wire) or (fn == "mul" and _only_divides(graph, out))
        for place in readers
        for out in [graph.first[place]]
        for fn in [graph.function_of(out)]
    )
