"""Statistics: results of reductions, which stay in full precision (fp32) between kernels.

A row maximum, a log-sum-exp, a mean or a norm is one number for a whole row. Its relative error becomes that of
everything computed from it (weights, gradients). So an array that one kernel saves for another stays in fp32 if it is a
statistic:

- a reduction, or a sum of products, if one input array has all axes of the result and an axis that is reduced: each
  element reduces a row of that array, as in a row sum, a weighted mean, a dot product of two rows. No factor of a
  matrix product has all axes of the output, so a matrix product is no statistic. If the reduced array is elementwise in
  other arrays, those count too;
- an elementwise function of a statistic that has all its axes, and otherwise of statistics, constants, integers,
  booleans, positions and sizes only: `max + log(sum)`, the root of a mean;
- a state of a loop that each iteration computes in these ways from such states and reductions.

The rule reads boxes, not names: the same computation is a statistic however the program is written.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from catdiag.category import ops
from catdiag.category.diagram import Diagram, Graph
from catdiag.category.op_facts import contracts, new_names
from catdiag.category.ops import Box, op_fact
from catdiag.category.substitution import inline
from catdiag.category.types import ArrayType


@dataclass(frozen=True)
class Origin:
    """What an array is computed from: whether it is a `statistic`, and the axes of each array that it is an elementwise
    function of (`of`; empty for positions, sizes and constants)."""

    of: frozenset[frozenset[str]] = frozenset()
    statistic: bool = False


def input_origin(ty: ArrayType) -> Origin:
    """The origin of an array that is made elsewhere: it is elementwise in itself."""
    return Origin(frozenset((frozenset(ty.names),)) if ty.axes else frozenset())


def _maybe_statistic(ty: ArrayType, origin: Origin) -> bool:
    """Whether an elementwise function of a statistic and this array may be a statistic."""
    return origin.statistic or not origin.of or not ty.axes or not is_real(ty)


def is_real(ty: ArrayType) -> bool:
    """Whether an array has real numbers, minus infinity perhaps among them."""
    return ty.element in ("real", "extended")


def output_origins(box: Box, reads: Sequence[Origin]) -> tuple[Origin, ...]:
    """The origins of the results of a box that is no loop, group or named diagram."""
    row = op_fact(ORIGINS, box.op)
    return tuple(map(input_origin, box.cod)) if row is None else (row(box, reads),)


def _reduced(box: Box, reads: Sequence[Origin]) -> Origin:
    ty = box.cod[0]
    own = frozenset(ty.names)
    lost = {n for t in box.dom for n in t.names} - own
    reduced = [axes for origin in reads for axes in origin.of]
    row = not reduced or any(own <= axes and axes & lost for axes in reduced)
    return Origin(input_origin(ty).of, row and is_real(ty))


def _elementwise(box: Box, reads: Sequence[Origin]) -> Origin:
    ty = box.cod[0]
    own = frozenset(ty.names)
    all_allowed = is_real(ty) and all(_maybe_statistic(t, o) for o, t in zip(reads, box.dom, strict=True))
    full_statistic = any(o.statistic and own <= set(t.names) for o, t in zip(reads, box.dom, strict=True))
    return Origin(frozenset().union(*(o.of for o in reads)), all_allowed and full_statistic)


def _renamed(box: Box, reads: Sequence[Origin]) -> Origin:
    names = new_names(box.op)
    of = frozenset(frozenset(names.get(n, n) for n in axes) for axes in reads[0].of)
    return Origin(of, reads[0].statistic and len(box.cod[0].axes) == len(box.dom[0].axes))


def _positions(box: Box, reads: Sequence[Origin]) -> Origin:
    return Origin()


ORIGINS: Mapping[type[ops.Op], Callable[[Box, Sequence[Origin]], Origin]] = {
    ops.Index: _positions,
    ops.SizeOf: _positions,
    ops.Const: _positions,
    ops.Map: _elementwise,
    ops.Reduce: _reduced,
    ops.Einsum: lambda box, reads: (_reduced if contracts(box) else _elementwise)(box, reads),
    ops.Rename: _renamed,
    ops.Reindex: lambda box, reads: Origin(input_origin(box.cod[0]).of, all(o.statistic for o in reads)),
}
"""The origin of an operation's result, given those of its inputs; results of others are no statistics."""


def origins(graph: Graph, reads: Sequence[Origin]) -> list[Origin]:
    """The origins of all wires of a graph, given those of its inputs."""
    found = list(reads)
    for node in graph.nodes:
        args = [found[w] for w in node.inputs]
        op = node.box.op
        if isinstance(op, (ops.GroupOp, ops.Call)):
            found += _ends(op.body, args)
        elif isinstance(op, ops.FoldOp):
            found += _states(op, node.box, args)
        else:
            found += output_origins(node.box, args)
    return found


def _ends(diagram: Diagram, reads: Sequence[Origin]) -> list[Origin]:
    graph = inline(diagram).graph
    found = origins(graph, reads)
    return [found[w] for w in graph.outputs]


def _states(op: ops.FoldOp, box: Box, reads: Sequence[Origin]) -> list[Origin]:
    """The origins of a loop's states: statistics, except those that an iteration does not make as one even if all
    states were. Computed as a greatest fixed point."""
    states = [Origin(input_origin(ty).of, is_real(ty)) for ty in box.cod.arrays[: op.state_count]]
    while True:
        ends = _ends(op.step, [*states, *reads])
        fewer = [Origin(s.of, s.statistic and (e.statistic or not e.of)) for s, e in zip(states, ends, strict=False)]
        if fewer == states:
            return [*states, *ends[len(states) :]]
        states = fewer


def statistics(graph: Graph) -> frozenset[int]:
    """The wires of a graph that are statistics; no input is one.

    >>> import catdiag as cd
    >>> f = cd.algorithm("q x, x v -> q v")(lambda S, V: cd.einsum("q x, x v -> q v", cd.softmax(S, "x"), V))
    >>> from catdiag.category.substitution import inline
    >>> flat = inline(f)
    >>> [flat.boxes[w - 2].name for w in sorted(statistics(flat.graph))]
    ['max[x]', 'sum[x]']
    """
    reads = [Origin(input_origin(ty).of, False) for ty in graph.dom]
    return frozenset(w for w, origin in enumerate(origins(graph, reads)) if origin.statistic)
