"""A hash-consed graph: equal boxes on equal inputs are stored once. It records what rewriting asks of its wires."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from fractions import Fraction
from typing import Any

from catdiag.category import ops
from catdiag.category.diagram import Node
from catdiag.category.graph_writer import GraphWriter
from catdiag.category.op_facts import scalar_function
from catdiag.category.ops import Box, const_box, einsum_box, map_box, op_fact, reduce_box, size_box
from catdiag.category.scalars import Cast, ScalarFunction
from catdiag.category.types import ArrayType, Axis, Size, Ty


class HashConsedGraph(GraphWriter):
    """Wires and the boxes that make them; wire numbers are a topological order.

    `types` has the type of each wire. `late` says whether a wire depends on a marked one (a reduction over the streamed
    axis). `positive` says whether a wire is a positive number by its form: `exp`, sizes, sums and products of these.
    `element_guards` says how gradients treat conditions of rows (`catdiag.rewrite.differentiate.row_conditions`).

    >>> terms = HashConsedGraph(Ty(ArrayType((Axis("x"),))))
    >>> a = terms.map("exp", 0)
    >>> terms.map("exp", 0) == a, terms.positive[a], terms.late[a]
    (True, True, False)
    """

    def __init__(self, dom: Ty, element_guards: bool = False) -> None:
        super().__init__(dom, shared=True)
        self.element_guards = element_guards
        self.first: list[int] = []
        self.maker: list[int] = [-1] * len(dom)
        self.late: list[bool] = [False] * len(dom)
        self.positive: list[bool] = [False] * len(dom)

    # -- reading ------------------------------------------------------------------------------

    def node(self, wire: int) -> Node | None:
        """The node that makes a wire; None for an input."""
        return self.nodes[self.maker[wire]] if self.maker[wire] >= 0 else None

    def function_of(self, wire: int) -> ScalarFunction:
        """The scalar function that makes the wire; an empty string for other wires."""
        node = self.node(wire)
        return "" if node is None else scalar_function(node.box.op)

    def const_value(self, wire: int) -> Fraction | None:
        """The rational value of a constant wire; None for other wires, and for minus infinity."""
        node = self.node(wire)
        return node.box.op.value if node is not None and isinstance(node.box.op, ops.Const) else None

    def is_const(self, wire: int) -> bool:
        """Whether a constant box makes the wire."""
        node = self.node(wire)
        return node is not None and isinstance(node.box.op, ops.Const)

    def is_bottom(self, wire: int) -> bool:
        """Whether the wire is the constant minus infinity."""
        return self.is_const(wire) and self.const_value(wire) is None

    def names(self, wire: int) -> tuple[str, ...]:
        """The names of a wire's axes."""
        return self.types[wire].names

    def cone(self, roots: Iterable[int], stop: Iterable[int] = ()) -> list[int]:
        """The wires that the roots are computed from, in order, back to the wires in `stop` (included)."""
        stops = set(stop)
        seen: set[int] = set()
        todo = list(roots)
        while todo:
            wire = todo.pop()
            if wire in seen:
                continue
            seen.add(wire)
            node = self.node(wire)
            if wire not in stops and node is not None:
                todo.extend(node.inputs)
        return sorted(seen)

    def renumbered(self, outputs: Iterable[int]) -> dict[int, int]:
        """The wires that the outputs need, each with its number in the graph without the others
        (`catdiag.category.diagram.reachable`)."""
        found = {w: w for w in range(len(self.dom))}
        for place in sorted({self.maker[w] for w in self.cone(outputs)} - {-1}):
            for k in range(len(self.nodes[place].box.cod)):
                found[self.first[place] + k] = len(found)
        return found

    # -- growing ------------------------------------------------------------------------------

    def add(self, box: Box, inputs: Sequence[int]) -> int:
        """The first output wire of a box on these inputs; the others follow it."""
        first, count = super().add(box, inputs), len(box.cod)
        if len(self.nodes) > len(self.first):
            self.first.append(first)
            self.maker += [len(self.nodes) - 1] * count
            self.late += [any(self.late[w] for w in inputs)] * count
            self.positive += [self._is_positive(box, inputs)] * count
        return first

    def known(self, fn: ScalarFunction, *wires: int) -> int | None:
        """The wire of a scalar function of wires, if it is in the graph already."""
        return (self.shared or {}).get((map_box(fn, [self.types[w] for w in wires]), wires))

    def mark(self, wire: int) -> None:
        """Marks a wire as late; to be called before anything is computed from it."""
        self.late[wire] = True

    def map(self, fn: ScalarFunction, *wires: int, line: str | None = None) -> int:
        """A scalar function of wires."""
        return self.add(map_box(fn, [self.types[w] for w in wires], line), wires)

    def const(self, value: Fraction | int | None) -> int:
        """A constant; None is minus infinity."""
        return self.add(const_box(None if value is None else Fraction(value)), ())

    def size(self, size: Size) -> int:
        """A size as a scalar."""
        return self.add(size_box(size), ())

    def reduce(self, monoid: str, axis: str, wire: int, line: str | None = None) -> int:
        """A reduction over one axis."""
        return self.add(reduce_box(monoid, axis, self.types[wire], line), (wire,))

    def einsum(self, wires: Sequence[int], output: Sequence[str], line: str | None = None) -> int:
        """A sum of products with the named axes left."""
        return self.add(einsum_box([self.types[w] for w in wires], output, line), wires)

    def rename(self, wire: int, pairs: Mapping[str, str]) -> int:
        """The wire with those of its axes renamed that `pairs` mentions."""
        mine = tuple(sorted((old, new) for old, new in pairs.items() if self.types[wire].axis(old) is not None))
        if not mine:
            return wire
        old = self.types[wire]
        new = ArrayType(tuple(Axis(pairs[a.name], a.size) if a.name in pairs else a for a in old.axes), old.element)
        return self.add(Box(ops.Rename(mine), Ty(old), Ty(new)), (wire,))

    def substitute(self, wire: int, change: Mapping[int, int], stop: Iterable[int] = ()) -> int:
        """The wire recomputed with other wires in place of some; wires behind `stop` are left as they are."""
        return self.substituted([wire], change, stop).get(wire, wire)

    def substituted(self, wires: Iterable[int], change: Mapping[int, int], stop: Iterable[int] = ()) -> dict[int, int]:
        """What is in the place of each wire that is another, once wires are recomputed with other wires in place of
        some; wires behind `stop` are left as they are."""
        made = dict(change)
        stops = set(stop) | set(change)
        for w in self.cone(wires, stops):
            node = self.node(w)
            if w in made or w in stops or node is None or all(made.get(i, i) == i for i in node.inputs):
                continue
            place = w - self.first[self.maker[w]]
            inputs = [made.get(i, i) for i in node.inputs]
            dom = Ty(*(self.types[i] for i in inputs))
            made[w] = self.add(Box(node.box.op, dom, node.box.cod, node.box.line), inputs) + place
        return made

    def _is_positive(self, box: Box, inputs: Sequence[int]) -> bool:
        """Whether the result of a box is positive by its form."""
        row = op_fact(POSITIVE, box.op)
        return row is not None and row(box.op, [(self.types[w], self.positive[w]) for w in inputs])


Given = Sequence[tuple[ArrayType, bool]]
"""The types of inputs, and whether they are positive."""


def _all(op: ops.Op, given: Given) -> bool:
    return all(positive for _, positive in given)


def _map(op: ops.Map, given: Given) -> bool:
    if op.fn in ("exp", "sigmoid"):
        return given[0][0].element != "extended"
    if op.fn in ("add", "mul", "div", "min", "sqrt"):
        return _all(op, given)
    if op.fn == "where":
        return _all(op, given[1:])
    return (op.fn == "max" and any(positive for _, positive in given)) or (isinstance(op.fn, Cast) and given[0][1])


POSITIVE: Mapping[type[ops.Op], Callable[[Any, Given], bool]] = {
    ops.Const: lambda op, given: op.value is not None and op.value > 0,
    ops.SizeOf: _all,
    ops.Map: _map,
    ops.Reduce: lambda op, given: op.monoid in ("sum", "prod", "max", "min") and _all(op, given),
    ops.View: lambda op, given: _all(op, given[: len(op.reads)]),
    ops.Einsum: _all,
    ops.Rename: _all,
    ops.Reindex: _all,
}
"""Whether an operation's result is positive, given which of its inputs are; results of others are not known to be."""
