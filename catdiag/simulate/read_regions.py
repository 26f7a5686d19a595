"""Access regions of the arrays that the tiles of a group read in place, found by evaluating every index."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np

from catdiag.category.index_maps import read_off
from catdiag.category.ops import Box, FoldOp
from catdiag.category.substitution import inline
from catdiag.category.types import size_value
from catdiag.execute.named_arrays import NamedArray
from catdiag.schedule.access_region import PickedElements, TileWindow
from catdiag.simulate.graph_readers import Outline
from catdiag.simulate.memory_cells import MachineTile


def set_access_regions(outline: Outline, tile: MachineTile) -> None:
    """Sets the access region of each array that a tile reads in place, by evaluating every index."""
    for box, inputs in _region_views(outline):
        op = box.op
        if isinstance(op, PickedElements):
            _picks(op, box, inputs[0], tile)
        elif isinstance(op, TileWindow):
            _window(op, inputs, tile)


def _region_views(outline: Outline) -> Iterator[tuple[Box, Sequence[int]]]:
    """The views that are read in place, also inside loops, with the wires that they read (-1: none of the graph's)."""
    for place in outline.places:
        node = outline.graph.nodes[place]
        op, inputs = node.box.op, node.inputs
        if isinstance(op, TileWindow):
            yield node.box, inputs
        elif isinstance(op, FoldOp):
            states = op.state_count
            for inner in inline(op.step).graph.nodes:
                if isinstance(inner.box.op, TileWindow):
                    yield inner.box, [inputs[w - states] if 0 <= w - states < len(inputs) else -1 for w in inner.inputs]


def region_lengths(outline: Outline, tiles: Iterable[MachineTile]) -> dict[int, dict[str, int]]:
    """For each array read in place, the largest length of the access region along each axis over all tiles, at least
    1.

    Only the part of a region within the array counts.
    """
    found: dict[int, dict[str, int]] = {}
    for tile in tiles if any(_region_views(outline)) else ():
        set_access_regions(outline, tile)
        for w, wire in tile.wires.items():
            lengths = wire.value.lengths()
            for axis, reach in wire.cell.window.items():
                if not isinstance(reach, int):
                    there = min(reach[1], lengths[axis] - 1) - max(reach[0], 0) + 1
                    room = found.setdefault(w, {})
                    room[axis] = max(1, there, room.get(axis, 0))
    return found


def _picks(op: PickedElements, box: Box, wire: int, tile: MachineTile) -> None:
    """The region of a gather: one element per result along the first axis that is read, and one along the others."""
    taken = [a.name for a in box.dom[0].axes if a.name in {name for name, _ in op.reads[0].at}]
    own = {a.name for a in box.dom[0].axes} - set(taken)
    number = 1
    for axis in box.cod[0].axes:
        if axis.name not in own:
            number *= size_value(axis.size, tile.sizes)
    tile.wires[wire].cell.window.update(dict.fromkeys(taken, 1) | {taken[0]: number})


def _window(op: TileWindow, inputs: Sequence[int], tile: MachineTile) -> None:
    values = {k: tile.wires[w].value for k, w in enumerate(inputs) if k >= len(op.reads)}
    lengths = {a.name: size_value(a.size, tile.sizes) for a in op.index_axes}
    lengths.update({n: length for value in values.values() for n, length in value.lengths().items()})
    order = tuple(lengths)

    def leaf(v: Any) -> Any:
        if isinstance(v, tuple) and v[0] == "w":
            return np.asarray(values[v[1]].over(order))
        if isinstance(v, tuple):
            return NamedArray(np.arange(lengths[v[1]]), (v[1],)).over(order)
        return size_value(v, tile.sizes)

    for axis, e in op.reads[0].at:
        found = read_off(e, leaf, lambda sign, a, b: a + b if sign == "+" else a * b if sign == "*" else a // b)
        tile.wires[inputs[0]].cell.window[axis] = int(np.min(found)), int(np.max(found))
