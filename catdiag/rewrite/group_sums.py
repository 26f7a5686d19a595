"""Results that lack a grouped axis: which of them are sums over it, so that each group may add its part.

An array in a group's body is, as far as a grouped axis goes, a *tile* (it has the axis), *shared* (it does not depend
on anything that has the axis: each group computes the same), or a *part*: what it is on the whole axis is the sum of
what it is on tiles. Sums over the axis make parts; what is linear keeps them. Nothing else may read a part.
The equation is proved elsewhere, as for any rewrite.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any

from catdiag.category.graph import Graph
from catdiag.category.op_facts import monoid_of
from catdiag.category.ops import Box, Einsum, FoldOp, Map, Op, Reduce, Reindex, Rename, op_fact
from catdiag.category.scalars import Cast, ScalarFunction
from catdiag.category.substitution import inline


class Share(Enum):
    """What an array of a group's body is of that on the whole axis (see above)."""

    SHARED, TILE, PART = range(3)


@dataclass(frozen=True)
class NoPart:
    """An array that is none of these; `why` in words, at a line of the user."""

    why: str
    line: str | None


def shares(graph: Graph, axis: str, given: Sequence[Share | NoPart] | None = None) -> list[Share | NoPart]:
    """What each wire of a flat graph is of its array on the whole axis; `given` says it of the inputs.

    >>> from catdiag.category.diagram import of_box
    >>> from catdiag.category.ops import reduce_box
    >>> from catdiag.category.types import ArrayType, Axis
    >>> shares(of_box(reduce_box("sum", "x", ArrayType((Axis("q"), Axis("x"))))).graph, "x")[-1].name
    'PART'
    """
    if given is None:
        given = [Share.SHARED if ty.axis(axis) is None else Share.TILE for ty in graph.dom]
    found = list(given)
    for node in graph.nodes:
        found += _of_box(node.box, [found[w] for w in node.inputs], axis)
    return found


def _of_box(box: Box, args: Sequence[Share | NoPart], axis: str) -> list[Share | NoPart]:
    refused = next((a for a in args if isinstance(a, NoPart)), None)
    if refused is not None:
        return [refused] * len(box.cod)
    if isinstance(box.op, FoldOp) and box.op.axis != axis:
        body = inline(box.op.state).graph
        found = shares(body, axis, args)
        return [found[w] for w in body.outputs]
    if Share.PART in args:
        if _is_linear(box, args):
            return [Share.PART] * len(box.cod)
        return [NoPart(f"{box.name} is not linear in a sum over it", box.line)] * len(box.cod)
    made: list[Share | NoPart] = []
    for ty in box.cod:
        if ty.axis(axis) is not None:
            made.append(Share.TILE)
        elif Share.TILE not in args:
            made.append(Share.SHARED)
        elif monoid_of(box.op) == "sum":
            made.append(Share.PART if ty.element == "real" else NoPart(f"{box.name} adds up no real numbers", box.line))
        elif monoid_of(box.op):
            words = f"{box.name} combines it by {monoid_of(box.op)}, and groups combine their parts by sums only"
            made.append(NoPart(words, box.line))
        else:
            made.append(NoPart(f"{box.name} is no sum over it", box.line))
    return made


def _is_linear(box: Box, args: Sequence[Share | NoPart]) -> bool:
    """Whether a box of parts makes a part: a linear function of parts, with coefficients that groups share."""
    parts = [a is Share.PART for a in args]
    row = op_fact(LINEAR, box.op)
    return Share.TILE not in args and row is not None and row(box.op, parts)


LINEAR_FUNCTIONS: Mapping[str, Callable[[Sequence[bool]], bool]] = {
    "add": all,
    "sub": all,
    "neg": all,
    "mul": lambda parts: sum(parts) == 1,
    "div": lambda parts: parts == [True, False],
}
"""The scalar functions that are linear, given which of their arguments are parts."""


def _function(fn: ScalarFunction, parts: Sequence[bool]) -> bool:
    return isinstance(fn, Cast) or (isinstance(fn, str) and fn in LINEAR_FUNCTIONS and LINEAR_FUNCTIONS[fn](parts))


LINEAR: Mapping[type[Op], Callable[[Any, Sequence[bool]], bool]] = {
    Map: lambda op, parts: _function(op.fn, parts),
    Einsum: lambda op, parts: sum(parts) == 1,
    Reduce: lambda op, parts: op.monoid == "sum",
    **dict.fromkeys((Rename, Reindex), lambda op, parts: all(parts)),
}
"""Whether an operation is linear, given which of its inputs are parts. What has no row is not known to be."""
