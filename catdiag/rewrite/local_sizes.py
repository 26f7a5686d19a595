"""Symbols of sizes: those that a diagram has, and new ones for blocks of loops, tiles of groups and parts of loops."""

from __future__ import annotations

import re
from collections.abc import Collection

from catdiag.category.diagram import Diagram, Graph, of_graph
from catdiag.category.ops import SizeOf, tiled_axes
from catdiag.category.traversal import all_diagrams
from catdiag.category.types import size_symbols


def local_size(prefix: str, axis: str, taken: Collection[str] = ()) -> str:
    """The symbol of a local size: `s_x` for the block of a stream over x, `g_q` for the tile of a group over q.

    If the program has a size of that name already, underscores are appended.

    >>> local_size("s", "x"), local_size("g", "(b h)"), local_size("s", "x", taken={"s_x"})
    ('s_x', 'g__b_h_', 's_x_')
    """
    symbol = prefix + "_" + re.sub(r"\W", "_", axis)
    while symbol in taken:
        symbol += "_"
    return symbol


def sizes_in(diagram: Diagram) -> set[str]:
    """The symbols of all sizes in a diagram, those of blocks and tiles included.

    >>> from catdiag.category.diagram import id
    >>> from catdiag.category.types import ArrayType, Axis, Ty
    >>> sorted(sizes_in(id(Ty(ArrayType((Axis("q"), Axis("d", 3), Axis("x") * Axis("y")))))))
    ['q', 'x', 'y']
    """
    return set(diagram.graph.cached(_sizes_in))


def _sizes_in(graph: Graph) -> frozenset[str]:
    found: set[str] = set()
    for item in all_diagrams(of_graph(graph)):
        for ty in item.graph.wire_types():
            found.update(*(size_symbols(axis.size) for axis in ty.axes))
        for box in item.boxes:
            found.update(symbol for _, symbol in tiled_axes(box.op))
            if isinstance(box.op, SizeOf):
                found |= size_symbols(box.op.size)
    return frozenset(found)
