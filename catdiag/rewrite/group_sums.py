"""Results that lack a grouped axis: which of them are sums over it, so that each group may add its part.

An array in a group's body is, as far as a grouped axis goes, a *tile* (it has the axis), *shared* (it does not depend
on anything that has the axis: each group computes the same), or a *part*: what it is on the whole axis is the sum of
what it is on tiles. Sums over the axis make parts; what is linear keeps them. Nothing else may read a part.
The equation is proved elsewhere, as for any rewrite.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any

from catdiag.category.graph import Graph
from catdiag.category.ops import Box, Einsum, FoldOp, Map, Reduce, Reindex, Rename
from catdiag.category.scalars import Cast
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
        elif isinstance(box.op, Einsum) or (isinstance(box.op, Reduce) and box.op.monoid == "sum"):
            made.append(Share.PART if ty.element == "real" else NoPart(f"{box.name} adds up no real numbers", box.line))
        elif isinstance(box.op, Reduce):
            words = f"{box.name} combines it by {box.op.monoid}, and groups combine their parts by sums only"
            made.append(NoPart(words, box.line))
        else:
            made.append(NoPart(f"{box.name} is no sum over it", box.line))
    return made


def _is_linear(box: Box, args: Sequence[Share | NoPart]) -> bool:
    """Whether a box of parts makes a part: a linear function of parts, with coefficients that groups share."""
    parts = [a is Share.PART for a in args]
    op = box.op
    if Share.TILE in args:
        return False
    if isinstance(op, Einsum):
        return sum(parts) == 1
    if isinstance(op, Reduce):
        return op.monoid == "sum"
    if isinstance(op, (Rename, Reindex)):
        return all(parts)
    if isinstance(op, Map):
        return isinstance(op.fn, Cast) or (isinstance(op.fn, str) and op.fn in LINEAR and LINEAR[op.fn](parts))
    return False


LINEAR: Mapping[str, Any] = {
    "add": all,
    "sub": all,
    "neg": all,
    "mul": lambda parts: sum(parts) == 1,
    "div": lambda parts: parts == [True, False],
}
"""The scalar functions that are linear, given which of their arguments are parts."""
