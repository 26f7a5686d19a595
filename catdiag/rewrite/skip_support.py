"""The support of a loop's reductions: a condition outside of which every element is the unit of its reduction.

It is found by abstract interpretation of the loop's state. For each wire and each number v of −∞, 0 and 1 (and
constants), a condition is kept such that the wire equals v wherever the condition is false: `where(c, a, -∞)` is −∞
unless c, its exponential is 0 unless c, and a product is 0 unless no factor is (derived here).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from fractions import Fraction
from typing import Any

from catdiag.category.diagram import Diagram, Graph, of_graph, reachable
from catdiag.category.op_facts import monoid_of, reduced_axes
from catdiag.category.ops import Box, Const, Einsum, FoldOp, Map, Op, Reduce, Rename, op_fact
from catdiag.category.scalars import Apply, Cast, ScalarFunction
from catdiag.category.types import Ty
from catdiag.rewrite.hash_consed_graph import HashConsedGraph

Value = Fraction | None
"""A number that a wire may equal; None is minus infinity."""

Condition = bool | int
"""True, False, or a wire of truth values."""

ZERO, ONE = Fraction(0), Fraction(1)
UNITS: Mapping[str, Value] = {"sum": ZERO, "max": None, "prod": ONE, "any": ZERO, "all": ONE}
"""The units of the monoids; for truth values 0 is false and 1 is true."""

# f: {v: f(v)} for functions of one argument.
_UNARY: Mapping[str, Mapping[Value, Value]] = {
    "exp": {None: ZERO, ZERO: ONE}, "log": {ONE: ZERO}, "neg": {ZERO: ZERO}, "tanh": {ZERO: ZERO},
    "erf": {ZERO: ZERO}, "sin": {ZERO: ZERO}, "cos": {ZERO: ONE}, "sign": {ZERO: ZERO, ONE: ONE},
    "floor": {ZERO: ZERO, ONE: ONE}, "ceil": {ZERO: ZERO, ONE: ONE},
    "abs": {ZERO: ZERO, ONE: ONE}, "sqrt": {ZERO: ZERO, ONE: ONE}, "not": {ZERO: ONE, ONE: ZERO},
}  # fmt: skip
# f: {v: result} where one argument that equals v decides the result, and where both arguments have to equal v.
_EITHER: Mapping[str, Mapping[Value, Value]] = {
    "mul": {ZERO: ZERO}, "add": {None: None}, "and": {ZERO: ZERO}, "or": {ONE: ONE},
}  # fmt: skip
_BOTH: Mapping[str, Mapping[Value, Value]] = {
    "add": {ZERO: ZERO}, "sub": {ZERO: ZERO}, "mul": {ONE: ONE}, "max": {None: None, ZERO: ZERO, ONE: ONE},
    "min": {None: None, ZERO: ZERO, ONE: ONE}, "and": {ONE: ONE}, "or": {ZERO: ZERO},
}  # fmt: skip
_FIRST: Mapping[str, Mapping[Value, Value]] = {"sub": {None: None}, "div": {ZERO: ZERO}, "floordiv": {ZERO: ZERO}}


class Support:
    """The conditions of the wires of a loop's state. The conditions are wires of a `HashConsedGraph` that grows with
    them.
    """

    def __init__(self, fold: FoldOp) -> None:
        self.fold = fold
        graph = fold.state.graph
        self.graph = HashConsedGraph(graph.dom)
        self._known: list[dict[Value, Condition]] = []
        self.image: list[int] = list(range(len(graph.dom)))
        for node in graph.nodes:
            first = self.graph.add(node.box, [self.image[w] for w in node.inputs])
            self.image.extend(range(first, first + len(node.box.cod)))
        self._fill()

    def of_components(self) -> list[Condition]:
        """For each component of the state a condition on the elements: where it is false, the element does not change
        the component.
        """
        return [self._component(self.image[w]) for w in self.fold.state.graph.outputs]

    # -- conditions -------------------------------------------------------------------------------

    def both(self, conditions: Iterable[Condition]) -> Condition:
        """The conjunction."""
        return self._joined(conditions, "and", False)

    def either(self, conditions: Iterable[Condition]) -> Condition:
        """The disjunction."""
        return self._joined(conditions, "or", True)

    def _joined(self, conditions: Iterable[Condition], fn: str, absorbing: bool) -> Condition:
        found: Condition = not absorbing
        for c in conditions:
            if c is absorbing or found is absorbing:
                found = absorbing
            elif found is (not absorbing):
                found = c
            elif c is not (not absorbing) and c != found:
                found = self.graph.map(fn, found, c)
        return found

    def negated(self, c: Condition) -> Condition:
        """The negation."""
        if isinstance(c, bool):
            return not c
        node = self.graph.node(c)
        if node is not None and self.graph.function_of(c) == "not":
            return node.inputs[0]
        return self.graph.map("not", c)

    def somewhere(self, c: Condition, axes: Iterable[str]) -> Condition:
        """That the condition holds at some index of the named axes."""
        for axis in () if isinstance(c, bool) else axes:
            if axis in self.graph.names(c):
                c = self.graph.reduce("any", axis, c)
        return c

    # -- wires --------------------------------------------------------------------------------------

    def unless(self, wire: int, value: Value) -> Condition:
        """A condition such that the wire equals the value wherever it is false; True where none is known."""
        if self.graph.types[wire].element == "bool":
            return wire if value == ZERO else self.negated(wire) if value == ONE else True
        if wire >= len(self._known):
            return True
        return self._known[wire].get(value, True)

    def _fill(self) -> None:
        terms = self.graph
        self._known = [{} for _ in range(len(terms.dom))]
        for place, node in enumerate(list(terms.nodes)):
            self._known.extend({} for _ in range(terms.first[place] - len(self._known)))
            found = self._rule(node.box, node.inputs)
            kept = {v: c for v, c in found.items() if c is not True}
            self._known.extend(dict(kept) for _ in node.box.cod)

    def _rule(self, box: Box, inputs: tuple[int, ...]) -> dict[Value, Condition]:
        """The conditions of a box's results, by value."""
        row = op_fact(SUPPORT_RULES, box.op)
        return {} if row is None else row(self, box.op, box, inputs)

    def contraction(self, box: Box, inputs: tuple[int, ...]) -> dict[Value, Condition]:
        """The conditions of a sum of products, by value: it is 0 unless all factors differ from 0 somewhere."""
        return {ZERO: self.somewhere(self.both(self.unless(w, ZERO) for w in inputs), sorted(reduced_axes(box)))}

    def reduction(self, op: Reduce, wire: int) -> dict[Value, Condition]:
        """The conditions of a reduction's result, by value: the unit unless an entry differs from it; and of extrema 0,
        unless an entry differs from 0."""
        values = (UNITS.get(op.monoid), ZERO) if op.monoid in ("max", "min") else (UNITS[op.monoid],)
        return {v: self.somewhere(self.unless(wire, v), [op.axis]) for v in values}

    def renaming(self, pairs: Mapping[str, str], wire: int) -> dict[Value, Condition]:
        """The conditions of an array under other names, by value."""
        known = {v: self.unless(wire, v) for v in (None, ZERO, ONE)}
        return {v: c if isinstance(c, bool) else self.graph.rename(c, pairs) for v, c in known.items()}

    def function(self, fn: ScalarFunction, inputs: tuple[int, ...]) -> dict[Value, Condition]:
        """The conditions of a scalar function's result, by value."""
        if isinstance(fn, Cast):
            return {v: self.unless(inputs[0], v) for v in (None, ZERO, ONE)}
        if isinstance(fn, Apply):
            return {}
        if fn == "where":
            c, yes, no = inputs
            known = {v: (self.unless(yes, v), self.unless(no, v)) for v in (None, ZERO, ONE)}
            return {
                v: self.either((self.both((c, first)), self.both((self.negated(c), second))))
                for v, (first, second) in known.items()
                if (first, second) != (True, True)
            }
        found: dict[Value, Condition] = {}
        for v, made in _UNARY.get(fn, {}).items():
            found[made] = self.unless(inputs[0], v)
        for v, made in _FIRST.get(fn, {}).items():
            found[made] = self.unless(inputs[0], v)
        for v, made in _BOTH.get(fn, {}).items():
            found[made] = self.either(self.unless(w, v) for w in inputs)
        for v, made in _EITHER.get(fn, {}).items():
            found[made] = self.both((found.get(made, True), *(self.unless(w, v) for w in inputs)))
        return found

    def _component(self, wire: int) -> Condition:
        """The support of the reduction that makes a component of the state; True where it is no reduction over the
        axis.
        """
        axis = self.fold.axis
        node = self.graph.node(wire)
        while node is not None and isinstance(node.box.op, Rename) and not node.box.op.pairs:
            wire = node.inputs[0]
            node = self.graph.node(wire)
        if node is None or axis not in (reduced := reduced_axes(node.box)) or monoid_of(node.box.op) not in UNITS:
            return True
        # An element of several factors is 0 unless all of them differ from 0 somewhere along the other axes.
        unit = UNITS[monoid_of(node.box.op)]
        return self.somewhere(self.both(self.unless(w, unit) for w in node.inputs), sorted({*reduced} - {axis}))


SUPPORT_RULES: Mapping[type[Op], Callable[[Support, Any, Box, tuple[int, ...]], dict[Value, Condition]]] = {
    Const: lambda support, op, box, inputs: {op.value: False},
    Map: lambda support, op, box, inputs: support.function(op.fn, inputs),
    Einsum: lambda support, op, box, inputs: support.contraction(box, inputs),
    Reduce: lambda support, op, box, inputs: support.reduction(op, inputs[0]),
    Rename: lambda support, op, box, inputs: support.renaming(dict(op.pairs), inputs[0]),
}
"""The conditions of a box's results, by value, for each class of operations; of others nothing is known."""


def body(terms: HashConsedGraph, outputs: Iterable[int], names: tuple[str, ...]) -> Diagram:
    """The diagram from the inputs of a graph to some of its wires."""
    outputs = tuple(outputs)
    graph = reachable(Graph(Ty(*terms.dom), tuple(terms.nodes), outputs))
    return of_graph(graph, Ty(*(terms.types[w] for w in outputs)), names)
