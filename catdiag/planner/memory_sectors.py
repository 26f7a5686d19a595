"""Sectors of memory: of one that a tile wants a part of, memory hands over all, so that tiles are not to cut them.

>>> import catdiag as cd
>>> pool = cd.algorithm("b x d -> b d")(lambda a: cd.sum(a, "x")).stream("x").group("b d")
>>> cuts_of_rows(pool.diagram, {"b": 8, "x": 4096, "d": 1024}), whole_sector("bf16")
(('g_d',), 16)
>>> sums = cd.algorithm("t d -> t")(lambda a: cd.sum(a, "d")).stream("d").group("t")
>>> cuts_of_rows(sums.diagram, {"t": 8, "d": 1024}), whole_sector({"a": "int8", "out": "bf16"})
(('s_d',), 32)
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from catdiag.category.diagram import Diagram
from catdiag.category.integer_polynomial import IntPolynomial
from catdiag.category.ops import FoldOp, GroupOp
from catdiag.category.substitution import inline
from catdiag.category.types import element_bytes
from catdiag.schedule.array_views import in_memory_order, memory_order, result_order

SECTOR = 32
"""Bytes of a sector."""
FEW = 4
"""How many times as long as an array the longest one is, for the array not to matter."""


def cuts_of_rows(diagram: Diagram, sizes: Mapping[Any, Any], every: bool = False) -> tuple[str, ...]:
    """The tiles, and the blocks of loops, that cut the last axes, along which memory is dense, of the longest arrays of
    groups, or of `every` one."""
    cut: list[tuple[float, str]] = []
    known: set[str] = set()
    graph = inline(diagram).graph
    for made, node in graph.wired():
        box = node.box
        if isinstance(box.op, GroupOp):
            blocks = _blocks_of_inputs(box.op.body)
            whole, tiles = (*box.dom, *box.cod), (*box.op.body.dom, *box.op.body.cod)
            orders = [*(memory_order(graph, w) for w in node.inputs), *(result_order(graph, w) for w in made)]
            for k, (ty, tile, order) in enumerate(zip(whole, tiles, orders, strict=True)):
                last = in_memory_order(tile.axes, order)[-1] if tile.axes else None
                symbol = None if last is None else blocks.get((k, last.name), last.size)
                if isinstance(symbol, str):
                    cut.append((float(IntPolynomial.elements(ty.axes).value(sizes)), symbol))
            known |= {symbol for _, symbol in box.op.tiles} | set(blocks.values())
    most = 0.0 if every else max((elements for elements, _ in cut), default=0.0)
    return tuple(dict.fromkeys(name for elements, name in cut if elements * FEW >= most and name in known))


def _blocks_of_inputs(body: Diagram) -> dict[tuple[int, str], str]:
    """The symbol of the block in which a loop of a group's body reads an input as it is, by the input's place and the
    axis of the loop."""
    found: dict[tuple[int, str], str] = {}
    for node in inline(body).graph.nodes:
        if isinstance(node.box.op, FoldOp):
            found.update({(w, node.box.op.axis): node.box.op.block for w in node.inputs if w < len(body.dom)})
    return found


def whole_sector(dtype: str | Mapping[str, str]) -> int:
    """How many elements of the narrowest of some types a sector has."""
    given = (dtype,) if isinstance(dtype, str) else dtype.values()
    return SECTOR // min(map(element_bytes, given), default=element_bytes("fp32"))


def packed(lengths: Mapping[str, int], contiguous: Collection[str], grid: Mapping[str, Any]) -> Any:
    """Whether a side of a product that has several tiles, of axes of these `lengths`, has the whole of one axis, its
    longest or one of those that are `contiguous` in memory, or nothing of the others.

    Rows of several axes are packed where one has too few, since the compiler has more to do for them. `grid` has the
    tiles, as numbers or arrays of them.

    >>> [bool(packed({"g_h": 71, "g_d": 64}, ["g_d"], {"g_h": h, "g_d": d})) for h, d in ((4, 64), (1, 32), (4, 32))]
    [True, True, False]
    """
    if len(lengths) < 2:
        return True
    longest = max(lengths, key=lambda name: lengths[name])
    found: Any = False
    for first in sorted({longest, *(lengths.keys() & set(contiguous))}):
        alone: Any = True
        for name in lengths.keys() - {first}:
            alone = alone & (grid[name] == 1)
        found = found | alone | (grid[first] >= lengths[first])
    return found
