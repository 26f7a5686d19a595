"""Linear maps: what the derivative of a box is at a point, run forward on tangents or transposed on cotangents.

Let a box compute `y = f(x_0, …, x_n)`. Its derivative at a point is a linear map from tangents `t_k`, one for each
input, to the tangent of y. `push` is that map, `pull` its transpose: for all t and g

    Σ g · push(t) = Σ_k Σ t_k · pull(g)_k

where the sums run over all indices. A tangent or cotangent that is 0 is None, and makes no box. One that is constant
along an axis need not have the axis: arrays broadcast by name, so that the transpose of a sum over it makes no box.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Protocol

from catdiag.category.index_maps import Expr, Read, View
from catdiag.category.ops import Box, Map, Rename, reindex_box
from catdiag.category.types import ArrayType, Axis, Ty
from catdiag.rewrite.differentiate.row_conditions import (
    Guard,
    OnePosition,
    at_one_position,
    is_position,
    of_elements,
    without_implied,
)
from catdiag.rewrite.hash_consed_graph import HashConsedGraph

Wires = Sequence["int | None"]
"""Tangents or cotangents, one for each array: a wire, or None for 0."""


class LinearMap(Protocol):
    """The derivative of a box at a point."""

    def push(self, graph: HashConsedGraph, tangents: Wires) -> list[int | None]:
        """The tangents of the outputs, given those of the inputs."""

    def pull(self, graph: HashConsedGraph, cotangents: Wires) -> list[int | None]:
        """The cotangents of the inputs, given those of the outputs."""


@dataclass(frozen=True)
class Weight:
    """A factor `number · Π factors / Π divisors` where the condition has the value `when`, and 0 elsewhere.

    `factors` and `divisors` are wires, and so is the condition; None is a condition that always holds.
    """

    factors: tuple[int, ...] = ()
    divisors: tuple[int, ...] = ()
    number: Fraction = Fraction(1)
    condition: int | None = None
    when: bool = True


@dataclass(frozen=True)
class WeightedSums:
    """`push(t) = Σ_k Σ weight_k · t_k`, summed over those axes of `space` that the output does not have.

    `weights` has None for an input on which the output does not depend, or which has no tangents. `operands` are the
    names of the axes of each input, `output` those of the output.
    """

    weights: tuple[Weight | None, ...]
    space: tuple[Axis, ...]
    operands: tuple[Collection[str], ...]
    output: Collection[str]

    def push(self, graph: HashConsedGraph, tangents: Wires) -> list[int | None]:
        """The sum of the weighted tangents."""
        chosen = self._selected(graph, tangents)
        if chosen is not None:
            return [chosen]
        found = [
            weighted(graph, t, weight, self.space, self.output)
            for t, weight in zip(tangents, self.weights, strict=True)
            if t is not None and weight is not None
        ]
        return [total(graph, found)]

    def pull(self, graph: HashConsedGraph, cotangents: Wires) -> list[int | None]:
        """The weighted cotangent, summed over the axes that an input does not have."""
        (g,) = cotangents
        return [
            None if g is None or weight is None else weighted(graph, g, weight, self.space, names)
            for weight, names in zip(self.weights, self.operands, strict=True)
        ]

    def _selected(self, graph: HashConsedGraph, tangents: Wires) -> int | None:
        """One `where` of two tangents of which one is chosen; None for other sums."""
        pairs = [(t, w) for t, w in zip(tangents, self.weights, strict=True) if t is not None and w is not None]
        if len(pairs) != 2:
            return None
        (a, one), (b, two) = pairs
        if one.condition is None or (one, two) != (Weight(condition=one.condition, when=one.when),
                                                   Weight(condition=one.condition, when=not one.when)):  # fmt: skip
            return None
        return graph.map("where", one.condition, *((a, b) if one.when else (b, a)))


@dataclass(frozen=True)
class RenamedAxes:
    """Axes renamed and broadcast along new ones; transposed, summed over the new ones and renamed back."""

    box: Box

    def push(self, graph: HashConsedGraph, tangents: Wires) -> list[int | None]:
        """The tangent under the new names."""
        (t,) = tangents
        assert isinstance(self.box.op, Rename)
        return [None if t is None else renamed(graph, t, dict(self.box.op.pairs), self.box.cod[0].axes)]

    def pull(self, graph: HashConsedGraph, cotangents: Wires) -> list[int | None]:
        """The cotangent under the old names."""
        (g,) = cotangents
        assert isinstance(self.box.op, Rename)
        pairs, old = dict(self.box.op.pairs), self.box.dom[0]
        here = {pairs.get(a.name, a.name) for a in old.axes}
        summed = None if g is None else weighted(graph, g, Weight(), self.box.cod[0].axes, here)
        return [None if summed is None else renamed(graph, summed, {new: a for a, new in pairs.items()}, old.axes)]


def renamed(graph: HashConsedGraph, wire: int, pairs: Mapping[str, str], axes: Iterable[Axis]) -> int:
    """The wire with those of its axes renamed that `pairs` mentions; `axes` are the new ones, with their sizes."""
    old, known = graph.types[wire], {a.name: a for a in axes}
    new = ArrayType(tuple(known.get(pairs.get(a.name, a.name), a) for a in old.axes), old.element)
    mine = tuple(sorted((a, b) for a, b in pairs.items() if old.axis(a) is not None))
    return wire if new == old else graph.add(Box(Rename(mine), Ty(old), Ty(new)), (wire,))


@dataclass(frozen=True)
class Guarded:
    """A tangent or cotangent as `number · where(guards, wire, 0)`; each guard is a condition and the value that it has.

    Numbers stay in front of products, where they cancel. Guards stay around products too: `where(c, g, 0)·w` becomes
    `where(c, g·w, 0)`, which has a value where c is false and w has none, as in a row in which everything is masked.
    Beside a guard c, one that it holds somewhere in the row (`any_x c`) is left out.
    """

    number: Fraction
    guards: tuple[tuple[int, bool], ...]
    wire: int

    @staticmethod
    def of(graph: HashConsedGraph, wire: int) -> Guarded:
        """A wire in this form."""
        number, guards = Fraction(1), dict[tuple[int, bool], None]()
        while (node := graph.node(wire)) is not None and isinstance(node.box.op, Map):
            constants = [graph.const_value(w) for w in node.inputs]
            if node.box.op.fn == "neg":
                number, wire = -number, node.inputs[0]
            elif node.box.op.fn == "mul" and constants[0] is not None:
                number, wire = number * constants[0], node.inputs[1]
            elif node.box.op.fn == "where" and 0 in constants[1:]:
                when = constants[2] == 0
                guards[node.inputs[0], when] = None
                wire = node.inputs[1 if when else 2]
            else:
                break
        return Guarded(number, without_implied(graph, guards), wire)

    def made(self, graph: HashConsedGraph) -> int:
        """The wire that it means."""
        wire = guarded(graph, self.guards, self.wire)
        if abs(self.number) != 1:
            wire = graph.map("mul", graph.const(abs(self.number)), wire)
        return graph.map("neg", wire) if self.number < 0 else wire


def guarded(graph: HashConsedGraph, guards: Iterable[tuple[int, bool]], wire: int) -> int:
    """`where(guards, wire, 0)`."""
    for condition, when in reversed(list(guards)):
        branches = [wire, graph.const(0)]
        wire = graph.map("where", condition, *(branches if when else branches[::-1]))
    return wire


def total(graph: HashConsedGraph, wires: Iterable[int | None]) -> int | None:
    """The sum of tangents or cotangents; None is 0.

    A difference where one is negated, `2·a` for `a + a`, and `(a + b)/d` for `a/d + b/d`.
    """
    found: int | None = None
    for wire in wires:
        found = _sum(graph, found, wire) if found is not None and wire is not None else found if wire is None else wire
    return found


def _sum(graph: HashConsedGraph, a: int, b: int) -> int:
    one, two = Guarded.of(graph, a), Guarded.of(graph, b)
    if (one.guards, one.wire) == (two.guards, two.wire) and one.number + two.number != 0:
        return Guarded(one.number + two.number, one.guards, one.wire).made(graph)
    if one.number < 0 < two.number:
        one, two = two, one
    if one.guards != two.guards or abs(one.number) != 1 or abs(two.number) != 1:
        # What both are guarded by stays around the sum, which may be multiplied by what has no value elsewhere.
        common = tuple(g for g in one.guards if g in two.guards)
        one, two = (replace(a, guards=tuple(g for g in a.guards if g not in common)) for a in (one, two))
        if two.number < 0 < one.number:
            made = graph.map("sub", one.made(graph), replace(two, number=-two.number).made(graph))
        else:
            made = graph.map("add", one.made(graph), two.made(graph))
        return guarded(graph, common, made)
    sign = "add" if one.number == two.number else "sub"
    (quotient, top), (other, below) = _operands(graph, one.wire, "div"), _operands(graph, two.wire, "div")
    if quotient and other and top[1] == below[1]:
        made = graph.map("div", graph.map(sign, top[0], below[0]), top[1])
    else:
        made = graph.map(sign, one.wire, two.wire)
    return Guarded(one.number, one.guards, made).made(graph)


def _operands(graph: HashConsedGraph, wire: int, fn: str) -> tuple[bool, tuple[int, ...]]:
    """Whether a scalar function makes the wire, and its operands."""
    node = graph.node(wire)
    made = node is not None and node.box.op == Map(fn)
    return made, node.inputs if made and node is not None else (wire,)


def product(graph: HashConsedGraph, a: int, b: int) -> int:
    """The product of two wires; that of `a/d` and b is `a·r`, where a wire r is `b/d` already.

    >>> from catdiag.category.types import ArrayType, Ty
    >>> graph = HashConsedGraph(Ty(*[ArrayType()] * 3))
    >>> r = graph.map("div", 1, 2)
    >>> product(graph, graph.map("div", 0, 2), 1) == graph.map("mul", 0, r)
    True
    """
    for x, y in ((a, b), (b, a)):
        divided, operands = _operands(graph, x, "div")
        known = graph.known("div", y, operands[1]) if divided else None
        if known is not None:
            return graph.map("mul", operands[0], known)
    return graph.map("mul", a, b)


def quotient(graph: HashConsedGraph, wire: int, divisor: int) -> int | None:
    """The wire without the divisor, where that is a factor of it, or of each of its terms; None where it is not.

    So the derivative of `r·r·r`, with r a root, has a value where r is 0.

    >>> from catdiag.category.types import ArrayType, Ty
    >>> graph = HashConsedGraph(Ty(*[ArrayType()] * 2))
    >>> quotient(graph, graph.map("mul", graph.map("mul", 0, 1), 1), 1) == graph.map("mul", 0, 1)
    True
    """
    if wire == divisor:
        return graph.const(1)
    fn, node = graph.function_of(wire), graph.node(wire)
    if node is None or fn not in ("mul", "neg", "add", "sub"):
        return None
    if fn == "mul":
        a, b = node.inputs
        for one, other in ((b, a), (a, b)):
            if (rest := quotient(graph, one, divisor)) is not None:
                return other if graph.const_value(rest) == 1 else graph.map("mul", other, rest)
        return None
    parts = [quotient(graph, w, divisor) for w in node.inputs]
    return None if None in parts else graph.map(fn, *[w for w in parts if w is not None])


def broadcast(graph: HashConsedGraph, wire: int, axes: Iterable[Axis]) -> int:
    """The wire with these axes, repeated along those that it lacks; further axes stay."""
    ty = graph.types[wire]
    new = tuple(a for a in axes if ty.axis(a.name) is None)
    return graph.cast(wire, ArrayType((*new, *ty.axes), ty.element)) if new else wire


def weighted(
    graph: HashConsedGraph, wire: int, weight: Weight, space: Sequence[Axis], target: Collection[str]
) -> int | None:
    """`Σ weight · wire` over the axes of `space` that are not in `target`; None where a constant factor is 0.

    Factors that are constant along the summed axes are taken out of the sum, and divisors without axes. An axis that no
    factor has makes it a multiple: the size of the axis.

    >>> from catdiag.category.types import ArrayType, Axis, Ty
    >>> q, x = Axis("q"), Axis("x")
    >>> graph = HashConsedGraph(Ty(ArrayType((q, x)), ArrayType((q, x)), ArrayType((q,))))
    >>> made = weighted(graph, 0, Weight((1, 2), number=Fraction(-1)), (q, x), ["q"])
    >>> [node.box.name for node in graph.nodes], graph.names(made)
    (['einsum', 'mul', 'neg'], ('q',))
    """
    summed = [a for a in space if a.name not in target]
    gone = {a.name for a in summed}
    given = Guarded.of(graph, wire)
    own = () if weight.condition is None else ((weight.condition, weight.when),)
    core, factors = _reduced(graph, given.wire, weight.factors)
    number, after = given.number * weight.number, list[int]()
    for divisor in weight.divisors:
        value, cancelled = graph.const_value(divisor), quotient(graph, core, divisor)
        if value:
            number /= value
        elif cancelled is not None:
            core = cancelled
        elif set(graph.names(divisor)) & gone:
            core = graph.map("div", core, divisor)
        else:
            after.append(divisor)
    while gone and (top := _operands(graph, core, "div"))[0] and not graph.names(top[1][1]):
        core = top[1][0]
        after.append(top[1][1])
    guards = without_implied(graph, (*own, *given.guards))
    for axis in summed:
        if (position := at_one_position(graph, guards, axis)) is not None:
            summed, gone = [a for a in summed if a != axis], gone - {axis.name}
            guards, (core, *others) = _at_position(graph, position, axis, (core, *factors))
            factors = tuple(others)
    core_number, inner, outer = graph.const_value(core), list[int](), list[int]()
    guards, elements = of_elements(graph, guards, [core, *factors])
    if not gone:
        guards, elements = (*guards, *elements), ()
    inside = tuple(guard for guard in guards if gone & set(graph.names(guard[0])))
    if core_number is None or inside:
        around = (*inside, *elements) if graph.node(core) is not None else inside
        (inner if inside or set(graph.names(core)) & gone else outer).append(guarded(graph, around, core))
    else:
        number *= core_number
    for factor in factors:
        parts = Guarded.of(graph, factor)
        value = graph.const_value(factor)
        w = factor if parts.guards else parts.wire
        number *= value if value is not None else 1 if parts.guards else parts.number
        if value is None:
            w = guarded(graph, elements, w) if graph.node(factor) is not None else w
            (inner if set(graph.names(w)) & gone else outer).append(_within(graph, inside, w))
    if number == 0:
        return None
    there = {n for w in inner for n in graph.names(w)}
    outer += [graph.size(a.size) for a in summed if a.name not in there]
    made = _contracted(graph, inner, gone, target)
    for w in outer:
        made = w if made is None else product(graph, made, w)
    if made is None:
        made, number = graph.const(abs(number)), Fraction(1 if number > 0 else -1)
    for divisor in after:
        made = graph.map("div", made, divisor)
    return _real(graph, Guarded(number, tuple(g for g in guards if g not in inside), made).made(graph))


def _at_position(
    graph: HashConsedGraph, position: OnePosition, axis: Axis, wires: Sequence[int]
) -> tuple[tuple[Guard, ...], list[int]]:
    """A product of wires at one position of an axis, with its guards: what is read there is 0 where the position is not
    on the axis; another factor need have no value there."""
    core = guarded(graph, position.along, wires[0])
    read = axis.name in graph.names(core) and all(axis.name in graph.names(w) or graph.is_const(w) for w in wires[1:])
    guards = position.guards if read else (*position.guards, *position.inside)
    return guards, [_read_at(graph, w, axis, position.wire) for w in (core, *wires[1:])]


def _read_at(graph: HashConsedGraph, wire: int, axis: Axis, position: int) -> int:
    """An array read at a position of an axis, 0 where that is not on it; itself, if it does not have the axis."""
    if axis.name not in graph.names(wire):
        return wire
    if is_position(graph, position, axis):
        view = View((), (Read(((axis.name, int(graph.const_value(position) or 0)),)),))
        return graph.add(reindex_box(view, [graph.types[wire]]), (wire,))
    at: Expr = ("w", 2)
    read = Read(((axis.name, at),), (("le", 0, at), ("lt", at, axis.size)))
    wires = [wire, graph.const(0), position]
    return graph.add(reindex_box(View((), (read, Read())), [graph.types[w] for w in wires]), wires)


def _reduced(graph: HashConsedGraph, wire: int, factors: Sequence[int]) -> tuple[int, tuple[int, ...]]:
    """A wire and factors with the same product, where a divisor of the wire is in no factor any more."""
    divided, operands = _operands(graph, wire, "div")
    for k, factor in enumerate(factors if divided else ()):
        if (rest := quotient(graph, factor, operands[1])) is not None:
            return _reduced(graph, operands[0], (*factors[:k], rest, *factors[k + 1 :]))
    return wire, tuple(factors)


def _within(graph: HashConsedGraph, guards: Iterable[tuple[int, bool]], factor: int) -> int:
    """A computed factor, 0 where guards that are constant along none of the summed axes fail: it need have no value
    there.
    """
    if graph.node(factor) is None:
        return factor
    names = set(graph.names(factor))
    return guarded(graph, [guard for guard in guards if set(graph.names(guard[0])) <= names], factor)


def _contracted(
    graph: HashConsedGraph, wires: Sequence[int], gone: Collection[str], target: Collection[str]
) -> int | None:
    """The product of wires, summed over axes that they have, its axes in the order of `target`; None for no wires."""
    if not wires:
        return None
    if len(wires) > 1:
        kept = dict.fromkeys(n for w in wires for n in graph.names(w) if n not in gone)
        return graph.einsum(wires, (*(n for n in target if n in kept), *(n for n in kept if n not in target)))
    made = wires[0]
    for name in graph.names(made):
        made = graph.reduce("sum", name, made) if name in gone else made
    return made


def _real(graph: HashConsedGraph, wire: int) -> int:
    """The wire as an array of real numbers: a size alone is an integer."""
    ty = graph.types[wire]
    return wire if ty.element == "real" else graph.cast(wire, ArrayType(ty.axes))
