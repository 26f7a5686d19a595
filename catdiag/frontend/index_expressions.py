"""Index arithmetic recovered from traced boxes: the expression that computes an array of integers.

In a program, positions are ordinary arrays, such as `2 * cd.index("y") + 1`. Where such an array is used as a position,
the sums, products and quotients that compute it become an expression of a `View`. Anything else stays an index array.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Any

from catdiag.category.diagram import Node
from catdiag.category.index_maps import Expr, divided, leaves, plus, times
from catdiag.category.ops import Const, Index, Map, Op, Operation, SizeOf, op_fact

LONGEST = 64
"""The most leaves of an expression; a longer one is computed as an index array."""

_MADE_OF = ("add", "sub", "mul", "neg", "floordiv")


def expression(maker: Callable[[int], Node | None], wire: int, axes: Collection[str]) -> Expr:
    """The expression of an array of integers at the indices of `axes`; a leaf `("w", v)` is the array on wire v.

    `maker` gives the node that makes a wire, None for an input.

    >>> from catdiag.category.ops import index_box, map_box, size_box
    >>> from catdiag.category.types import Axis
    >>> y, n = index_box(Axis("y")), size_box("n")
    >>> nodes = [Node(y, ()), Node(n, ()), Node(map_box("sub", [*n.cod, *y.cod]), (1, 0))]
    >>> expression(nodes.__getitem__, 2, ["y"])
    ('+', 'n', ('*', -1, ('i', 'y')))
    """
    known: dict[int, Expr] = {}
    todo = [wire]
    while todo:
        w = todo[-1]
        node = maker(w)
        op = None if node is None else node.box.op
        if w not in known and node is not None and isinstance(op, Map) and op.fn in _MADE_OF:
            missing = [v for v in node.inputs if v not in known]
            if missing:
                todo += missing
                continue
            made = _joined(op.fn, [known[v] for v in node.inputs])
            known[w] = made if len(leaves(made)) <= LONGEST else ("w", w)
        elif w not in known:
            known[w] = _leaf(op, w, axes)
        todo.pop()
    return known[wire]


def _leaf(op: Operation | None, wire: int, axes: Collection[str]) -> Expr:
    row = None if op is None else op_fact(LEAVES, op)
    found = None if row is None else row(op, axes)
    return ("w", wire) if found is None else found


LEAVES: Mapping[type[Op], Callable[[Any, Collection[str]], Expr | None]] = {
    Const: lambda op, axes: int(op.value) if op.value is not None and op.value.denominator == 1 else None,
    SizeOf: lambda op, axes: op.size,
    Index: lambda op, axes: ("i", op.axis) if op.axis in axes else None,
}
"""What an operation is in an index expression over some axes; an array of integers, if None or without a row."""


def _joined(fn: str, args: list[Expr]) -> Expr:
    if fn == "add":
        return plus(*args)
    if fn == "sub":
        return plus(args[0], times(-1, args[1]))
    if fn == "neg":
        return times(-1, args[0])
    return times(*args) if fn == "mul" else divided(*args)
