"""What a group holds and loads of an array that it reads in place: the box of elements that its reads lie in.

Along each axis that is read at a sum of positions and indices, a tile of g positions with a factor σ, and taps k with a
factor δ, lie in a window of σ·(g - 1) + δ·(k - 1) + 1 elements: that is what there is room for. Loaded is what of the
window lies in the array: all of it, unless beyond the array a number is read (padding). What that is in the whole run
is in `catdiag.schedule.region_loads`.

Where arrays of data say what is read, a group loads an element for each of its results, be they the same ones or not.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from catdiag.category.diagram import Graph, inline
from catdiag.category.index_maps import leaves, natural, read_off
from catdiag.category.integer_polynomial import ONE, ZERO, IntPolynomial
from catdiag.category.ops import Box, FoldOp
from catdiag.category.types import ArrayType, Size
from catdiag.schedule.access_region import PickedElements, TileWindow
from catdiag.schedule.loop_bounds import Bound, ends, put
from catdiag.util.errors import CatdiagError


@dataclass(frozen=True)
class AccessRange:
    """The window along one axis: from `start` to `stop`, both read, by the ends of the group's tile; `length` elements.

    `size` is that of the axis. Without `below` (`above`) nothing is read below its first (above its last) element.
    """

    axis: str
    start: Bound
    stop: Bound
    length: IntPolynomial
    size: Size
    below: bool
    above: bool

    @property
    def is_interior(self) -> bool:
        """Whether the window always lies in the array."""
        return not self.below and not self.above


def input_regions(
    graph: Graph, known: Sequence[Bound | None], tiles: Mapping[str, str]
) -> dict[int, tuple[AccessRange, ...]]:
    """The windows of the inputs of a kernel's graph that are read in place; `tiles` gives each axis's tile."""
    found: dict[int, tuple[AccessRange, ...]] = {}
    for node in graph.nodes:
        op, inputs = node.box.op, node.inputs
        if isinstance(op, TileWindow):
            values = [known[w] if w < len(graph.dom) else None for w in inputs]
            at = (
                picks(op, node.box)
                if isinstance(op, PickedElements)
                else access_ranges(op, values, node.box.dom[0], tiles)
            )
            found[inputs[0]] = at
        elif isinstance(op, FoldOp):
            step, states = inline(op.step).graph, len(node.box.cod)
            for inner in step.nodes:
                if isinstance(inner.box.op, TileWindow):
                    own = [w - states for w in inner.inputs]
                    values = [known[inputs[k]] if 0 <= k < len(inputs) else None for k in own]
                    found[inputs[own[0]]] = access_ranges(inner.box.op, values, inner.box.dom[0], tiles)
    return found


def clipped(window: Sequence[AccessRange], name: str) -> tuple[tuple[AccessRange, ...], dict[str, AccessRange]]:
    """A window of which each side that may reach beyond the array is as long as a symbol says: how much of it lies in
    the array. And these sides by symbol."""
    names = {side: f"{name}[{side.axis}]" for side in window if not side.is_interior}
    there = tuple(replace(s, length=IntPolynomial.of(names[s])) if s in names else s for s in window)
    return there, {name: side for side, name in names.items()}


def picks(op: PickedElements, box: Box) -> tuple[AccessRange, ...]:
    """What is picked of an array, as a window: along the axes that are read where data says as many elements as there
    are results along the axes that the array lacks; all of them lie in the array."""
    taken = {name for name, _ in op.reads[0].at}
    own = [a.name for a in box.dom[0].axes if a.name not in taken]
    number = IntPolynomial.elements([a for a in box.cod[0].axes if a.name not in own])
    found: list[AccessRange] = []
    for axis in box.dom[0].axes:
        if axis.name in taken:
            found.append(AccessRange(axis.name, 0, 0, ONE if found else number, axis.size, False, False))
    return tuple(found)


def access_ranges(
    op: TileWindow, values: Sequence[Bound | None], ty: ArrayType, tiles: Mapping[str, str]
) -> tuple[AccessRange, ...]:
    """The window of a view along each axis that it reads, given what its index arrays are."""
    sizes = {a.name: a.size for a in op.index_axes}

    def leaf(v: Any) -> Bound:
        if isinstance(v, tuple) and v[0] == "w":
            if values[v[1]] is None:
                raise CatdiagError(f"{op.name} reads at positions that are not known: what it loads is not counted")
            return values[v[1]]
        return ("at", v[1]) if isinstance(v, tuple) else v

    def untiled(v: Any) -> Bound:
        if isinstance(v, tuple) and v[0] in ("first", "last") and v[1] not in tiles:
            return 0 if v[0] == "first" else ("+", sizes[v[1]], -1)
        return v

    found = []
    for axis, e in op.reads[0].at:
        bound = put(e, leaf)
        lo, hi = ends(bound, True), ends(bound, False)
        own = ty.axis(axis)
        if lo is None or hi is None or own is None:
            raise CatdiagError(f"{op.name} reads axis {axis!r} at a position that neither rises nor falls: not counted")
        low, high = put(lo, untiled), put(hi, untiled)
        within = ("lt", e, own.size) in op.fits
        plain = all(not isinstance(v, int) or v >= 0 for v in leaves(e)) and natural(put(e, _index))
        found.append(AccessRange(axis, low, high, _length(low, high, tiles), own.size, not plain, not within))
    return tuple(found)


def _index(v: Any) -> Bound:
    return ("i", "at") if isinstance(v, tuple) else v


def _length(lo: Bound, hi: Bound, tiles: Mapping[str, str]) -> IntPolynomial:
    """hi - lo + 1, where a tile's last position is g - 1 after its first."""
    low, high = linear(lo), linear(hi)
    total = high.pop(None, ZERO) - low.pop(None, ZERO) + ONE
    for axis, tile in tiles.items():
        first = high.pop(("first", axis), ZERO) - low.pop(("first", axis), ZERO)
        last = high.pop(("last", axis), ZERO) - low.pop(("last", axis), ZERO)
        if first + last:
            raise CatdiagError(f"the window along {axis!r} grows with the position of its tile: it is not counted")
        total = total + last * (IntPolynomial.of(tile) - ONE)
    return total


def linear(e: Bound) -> dict[Any, IntPolynomial]:
    """A bound as a sum of ends of tiles with factors; None is the key of what is free of them."""

    def join(op: str, a: dict[Any, IntPolynomial], b: dict[Any, IntPolynomial]) -> dict[Any, IntPolynomial]:
        if op == "+":
            return {k: a.get(k, ZERO) + b.get(k, ZERO) for k in {**a, **b}}
        if op == "*":
            if set(a) != {None}:
                a, b = b, a
            return {k: a[None] * v for k, v in b.items()}
        raise CatdiagError("a window's end is rounded: it is not counted")

    return read_off(e, lambda v: {v: ONE} if isinstance(v, tuple) else {None: IntPolynomial.of(v)}, join)


def region_size(ty: ArrayType, window: Sequence[AccessRange]) -> IntPolynomial:
    """How many elements of an array there is room for."""
    lengths = {side.axis: side.length for side in window}
    total = ONE
    for axis in ty.axes:
        total = total * lengths.get(axis.name, IntPolynomial.of(axis.size))
    return total


def interior_size(ty: ArrayType, window: Sequence[AccessRange]) -> IntPolynomial:
    """The same without the axes along which part of the window may lie outside of the array."""
    cut = {side.axis for side in window if not side.is_interior}
    return region_size(ArrayType(tuple(a for a in ty.axes if a.name not in cut)), window)
