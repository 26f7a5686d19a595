"""The footprint of a group in an array that is read in place: the elements that the positions of its tile access."""

from __future__ import annotations

from catdiag.category.diagram import Diagram
from catdiag.category.index_maps import View
from catdiag.category.integer_polynomial import IntPolynomial
from catdiag.category.ops import FoldOp, GroupOp, bodies
from catdiag.category.substitution import inline
from catdiag.schedule.access_region import with_access_regions
from catdiag.schedule.footprint import input_regions
from catdiag.schedule.loop_bounds import known
from catdiag.util.errors import CatdiagError

Reached = dict[str, IntPolynomial]
"""The footprint of an array along each axis that is read in place."""


def reached(diagram: Diagram) -> dict[int, dict[int, Reached]]:
    """For each group of a diagram, by the number of its node, the footprints of its inputs that are read in place.

    They are counted as by `io` (`catdiag.schedule.footprint`); inputs that are not counted there are left out.

    >>> import catdiag as cd
    >>> from catdiag.rewrite.group import find
    >>> reached(find(cd.library.get("conv1d"), ["y"]))
    {1: {0: {'x': <amount g_y + k - 1>}}}
    """
    groups = [n for n, node in enumerate(diagram.graph.nodes) if isinstance(node.box.op, GroupOp)]
    if not any(_views(diagram.graph.nodes[n].box.op) for n in groups):
        return {}
    graph = with_access_regions(diagram).graph
    nodes = [node for node in graph.nodes if isinstance(node.box.op, GroupOp)]
    if len(nodes) != len(groups):
        return {}
    values = known(graph, [None] * len(graph.dom))
    found: dict[int, dict[int, Reached]] = {}
    for number, node in zip(groups, nodes, strict=True):
        op = node.box.op
        if isinstance(op, GroupOp):
            try:
                sides = input_regions(inline(op.body).graph, [values[w] for w in node.inputs], dict(op.tiles))
            except CatdiagError:
                continue
            found[number] = {k: {side.axis: side.length for side in window} for k, window in sides.items()}
    return {number: inputs for number, inputs in found.items() if inputs}


def _views(op: object) -> bool:
    """Whether a group has index arithmetic, also in its loops."""
    if not isinstance(op, GroupOp):
        return False
    inner = [
        op.body,
        *(b for node in op.body.graph.nodes if isinstance(node.box.op, FoldOp) for b in bodies(node.box.op)),
    ]
    return any(isinstance(node.box.op, View) for body in inner for node in body.graph.nodes)
