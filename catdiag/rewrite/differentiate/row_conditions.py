"""Conditions that hold somewhere along an axis, `any_x c`, in terms of the condition c itself.

Rows in which everything is masked are 0 by `where(any_x c, …, 0)`, and so are their cotangents. An array that depends
on `any_x c` can be computed in no block of x alone, as the cotangents of keys and values are. But where a factor of a
product is 0 unless c holds, c says all: if it holds at an index, it holds somewhere in the row.

A backward pass has guards of elements for that reason. Other gradients have those of rows: where they are
differentiated again, sums over rows without c are multiplied by what has no value there.

A guard is a condition, by wire, with the value that it has: `any_x c` and c, or `all_x c` and c with the value false.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import TypeAlias

from catdiag.category.op_facts import monoid_of
from catdiag.category.ops import Index, const_box
from catdiag.category.scalars import ScalarFunction
from catdiag.category.types import Axis
from catdiag.rewrite.hash_consed_graph import HashConsedGraph

Guard: TypeAlias = tuple[int, bool]

_LISTED = 64
"""An axis of a constant length up to this is asked for each position which guards hold there."""
_CONJUNCTIONS = {("and", True), ("or", False)}


def _literals(graph: HashConsedGraph, guards: Iterable[Guard]) -> set[Guard]:
    """The guards that these are conjunctions of."""
    found: set[Guard] = set()
    todo = list(guards)
    while todo:
        wire, when = todo.pop()
        node, fn = graph.node(wire), graph.function_of(wire)
        if node is not None and (fn == "not" or (fn, when) in _CONJUNCTIONS):
            todo += [(w, when != (fn == "not")) for w in node.inputs]
        else:
            found.add((wire, when))
    return found


def _in_row(graph: HashConsedGraph, guard: Guard) -> Guard | None:
    """What a guard says to hold somewhere along one axis or several; None for other guards."""
    wire, when = guard
    monoid = "any" if when else "all"
    while (node := graph.node(wire)) is not None and monoid_of(node.box.op) == monoid:
        wire = node.inputs[0]
    return (wire, when) if wire != guard[0] else None


def without_implied(graph: HashConsedGraph, guards: Iterable[Guard]) -> tuple[Guard, ...]:
    """The guards, each once, without those that say of a row what others say of its elements.

    >>> from catdiag.category.types import ArrayType, Axis, Ty
    >>> graph = HashConsedGraph(Ty(ArrayType((Axis("q"), Axis("x")), "bool")), element_guards=True)
    >>> row = graph.reduce("any", "x", 0)
    >>> without_implied(graph, ((row, True), (0, True)))
    ((0, True),)
    """
    given = dict.fromkeys(guards)
    if not graph.element_guards:
        return tuple(given)
    known = _literals(graph, given)
    return tuple(g for g in given if (inner := _in_row(graph, g)) is None or not _literals(graph, [inner]) <= known)


@dataclass(frozen=True)
class OnePosition:
    """Where a summand is 0 but at one position of an axis: that position, an array of integers; the guards of the
    summand that say no more of the axis, and those that do; and those by which the position is on the axis."""

    wire: int
    guards: tuple[Guard, ...]
    along: tuple[Guard, ...]
    inside: tuple[Guard, ...]


def at_one_position(graph: HashConsedGraph, guards: Sequence[Guard], axis: Axis) -> OnePosition | None:
    """Where guards of a summand hold at one position i of an axis at most, so that its sum is the summand itself at i,
    where `0 ≤ i < n` holds. None where no guard says that it is `x = i`, and comparisons with numbers leave more than
    one position of an axis of a constant length, or none.

    >>> from catdiag.category.ops import index_box
    >>> from catdiag.category.types import ArrayType, Ty
    >>> x, half = Axis("x"), Axis("d", 2)
    >>> graph = HashConsedGraph(Ty(ArrayType((), "int")))
    >>> found = at_one_position(graph, [(graph.map("eq", graph.add(index_box(x), ()), 0), True)], x)
    >>> found.wire, found.guards, [graph.function_of(wire) for wire, _ in found.inside]
    (0, (), ['le', 'lt'])
    >>> first = graph.map("lt", graph.add(index_box(half), ()), graph.const(1))
    >>> [graph.const_value(at_one_position(graph, [(first, when)], half).wire) for when in (True, False)]
    [Fraction(0, 1), Fraction(1, 1)]
    """
    for guard in guards:
        node = graph.node(guard[0])
        if node is None or not guard[1] or graph.function_of(guard[0]) != "eq":
            continue
        for here, there in (node.inputs, node.inputs[::-1]):
            position = graph.node(here)
            if position is not None and position.box.op == Index(axis.name) and axis.name not in graph.names(there):
                inside = () if is_position(graph, there, axis) else _bounds(graph, there, axis)
                return _split_guards(graph, there, axis, [g for g in guards if g != guard], inside)
    compared = {g: found for g in guards if (found := _where_compared(graph, g, axis)) is not None}
    left = set.intersection(*compared.values()) if compared else set()
    if len(left) != 1:
        return None
    there = graph.add(const_box(Fraction(left.pop()), "int"), ())
    return _split_guards(graph, there, axis, [g for g in guards if g not in compared], ())


def is_position(graph: HashConsedGraph, wire: int, axis: Axis) -> bool:
    """Whether a wire is a number that is a position of an axis of a constant length."""
    number = graph.const_value(wire)
    return number is not None and number.denominator == 1 and isinstance(axis.size, int) and 0 <= number < axis.size


def _bounds(graph: HashConsedGraph, position: int, axis: Axis) -> tuple[Guard, ...]:
    """Guards that say that a position is on an axis."""
    zero = graph.add(const_box(Fraction(0), "int"), ())
    bounds = graph.map("le", zero, position), graph.map("lt", position, graph.size(axis.size))
    return tuple((wire, True) for wire in bounds)


def _split_guards(
    graph: HashConsedGraph, position: int, axis: Axis, others: Iterable[Guard], inside: tuple[Guard, ...]
) -> OnePosition:
    """A position with the guards of the summand beside those that say which one it is."""
    others = list(others)
    along = tuple(g for g in others if axis.name in graph.names(g[0]))
    return OnePosition(position, tuple(g for g in others if g not in along), along, inside)


_COMPARED: Mapping[ScalarFunction, Callable[[Fraction, Fraction], bool]] = {
    "lt": operator.lt, "le": operator.le, "eq": operator.eq, "ne": operator.ne,
}  # fmt: skip


def _where_compared(graph: HashConsedGraph, guard: Guard, axis: Axis) -> set[int] | None:
    """The positions of an axis of a constant length at which a guard holds that compares them with a number; None for
    other guards."""
    node, holds = graph.node(guard[0]), _COMPARED.get(graph.function_of(guard[0]))
    if node is None or holds is None or not isinstance(axis.size, int) or axis.size > _LISTED:
        return None
    sides: list[Callable[[int], Fraction]] = []
    for wire in node.inputs:
        made, value = graph.node(wire), graph.const_value(wire)
        if made is not None and made.box.op == Index(axis.name):
            sides.append(Fraction)
        elif value is not None:
            sides.append(lambda _, value=value: value)  # type: ignore[misc]
        else:
            return None
    a, b = sides
    return {k for k in range(axis.size) if holds(a(k), b(k)) == guard[1]}


def of_elements(
    graph: HashConsedGraph, guards: Sequence[Guard], factors: Collection[int]
) -> tuple[tuple[Guard, ...], tuple[Guard, ...]]:
    """Guards of a product: those that stay around all factors, and those of the one factor that is computed.

    A guard without which that factor is 0 by its form need be around no other, and `any_x c` becomes c there. The other
    factors are inputs, which have values everywhere.
    """
    if not graph.element_guards:
        return tuple(guards), ()
    computed = [w for w in factors if graph.node(w) is not None and graph.const_value(w) is None]
    support = _literals(graph, _nonzero_only_where(graph, computed[0])) if len(computed) == 1 else set()
    elements = {g: e for g in guards if _literals(graph, [e := _in_row(graph, g) or g]) <= support}
    return tuple(g for g in guards if g not in elements), tuple(elements.values())


def _nonzero_only_where(graph: HashConsedGraph, wire: int) -> set[Guard]:
    """Guards without which an array is 0 if it has a value, read off its form: those of `where(c, u, 0)`, of
    `exp(where(c, u, −∞) + v)`, of products with such factors, and of quotients of such arrays."""
    found: set[Guard] = set()
    todo = [(wire, False)]
    while todo:
        w, in_exponent = todo.pop()
        node, fn = graph.node(w), graph.function_of(w)
        if node is None:
            continue
        if fn == "where":
            condition, *branches = node.inputs
            for branch, other, when in zip(branches, reversed(branches), (True, False), strict=True):
                if graph.is_bottom(other) if in_exponent else graph.const_value(other) == 0:
                    found.add((condition, when))
                    todo.append((branch, in_exponent))
        elif fn == ("add" if in_exponent else "mul"):
            todo += [(i, in_exponent) for i in node.inputs]
        elif fn == "sub" if in_exponent else fn in ("div", "neg"):
            todo.append((node.inputs[0], in_exponent))
        elif fn == "exp" and not in_exponent:
            todo.append((node.inputs[0], True))
    return found
