"""The footprint of a tile in an array that is read in place: the box of elements that the group loads, halo included.

Take an axis that is read at σ·position + δ·tap. A tile of g positions and k taps reads σ·(g - 1) + δ·(k - 1) + 1
consecutive elements. The part beyond σ·(g - 1) + 1 is the halo, which neighboring tiles load too. Memory is allocated
for the whole box. What is loaded is the part of the box that lies in the array, so padding is not loaded.
`catdiag.schedule.region_loads` adds this up over the whole run.

Where arrays of data say what is read (a gather), a group loads one element for each of its results, whether they are
equal or not.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from catdiag.category.diagram import Graph
from catdiag.category.index_maps import leaves, natural, read_off
from catdiag.category.integer_polynomial import ONE, ZERO, IntPolynomial
from catdiag.category.ops import Box, FoldOp
from catdiag.category.substitution import inline
from catdiag.category.types import ArrayType, Size
from catdiag.schedule.access_region import PickedElements, TileWindow
from catdiag.schedule.loop_bounds import Bound, ends, put
from catdiag.util.errors import CatdiagError


@dataclass(frozen=True)
class AccessRange:
    """The footprint along one axis: the elements from `start` to `stop`, both included, as expressions in the first and
    last position of the group's tile. `length` is their number.

    `size` is the size of the axis. `below` says that the range may start before the first element of the axis, `above`
    that it may end after the last one.
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
        """Whether the range always lies in the array."""
        return not self.below and not self.above


def input_regions(
    graph: Graph, known: Sequence[Bound | None], tiles: Mapping[str, str]
) -> dict[int, tuple[AccessRange, ...]]:
    """The footprints of the inputs of a kernel's graph that are read in place, by input.

    `known` gives the index expression of each input that is an array of positions (None otherwise), `tiles` the symbol
    of the tile of each grouped axis. Raises CatdiagError where a footprint cannot be computed.
    """
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
            step, states = inline(op.step).graph, op.state_count
            for inner in step.nodes:
                if isinstance(inner.box.op, TileWindow):
                    own = [w - states for w in inner.inputs]
                    values = [known[inputs[k]] if 0 <= k < len(inputs) else None for k in own]
                    found[inputs[own[0]]] = access_ranges(inner.box.op, values, inner.box.dom[0], tiles)
    return found


def clipped(footprint: Sequence[AccessRange], name: str) -> tuple[tuple[AccessRange, ...], dict[str, AccessRange]]:
    """A footprint, with a new symbol for the length of each side that may reach beyond the array, and those sides by
    symbol.

    The symbol stands for how many elements of that side lie in the array.
    """
    names = {side: f"{name}[{side.axis}]" for side in footprint if not side.is_interior}
    clipped_sides = tuple(replace(s, length=IntPolynomial.of(names[s])) if s in names else s for s in footprint)
    return clipped_sides, {name: side for side, name in names.items()}


def picks(op: PickedElements, box: Box) -> tuple[AccessRange, ...]:
    """The footprint of a gather. Along the axes that are read at data, there is one element for each result along the
    axes that the source does not have. All of them lie in the array."""
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
    """The footprint of a view along each axis that it reads; `values` are the expressions of its index arrays, by
    input. Raises CatdiagError where positions are not known, or not monotonic in those of a tile."""
    sizes = {a.name: a.size for a in op.index_axes}

    def leaf(v: Any) -> Bound:
        if isinstance(v, tuple) and v[0] == "w":
            if values[v[1]] is None:
                raise CatdiagError(
                    f"{op.name} reads at positions that are not known: its loads cannot be counted; expected positions "
                    f"made of indices, sizes and integer inputs"
                )
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
            raise CatdiagError(
                f"{op.name} reads axis {axis!r} at an index that is not monotonic in the positions of a tile: its "
                f"loads cannot be counted"
            )
        low, high = put(lo, untiled), put(hi, untiled)
        within = ("lt", e, own.size) in op.fits
        plain = all(not isinstance(v, int) or v >= 0 for v in leaves(e)) and natural(put(e, _index))
        found.append(AccessRange(axis, low, high, _length(low, high, tiles), own.size, not plain, not within))
    return tuple(found)


def _index(v: Any) -> Bound:
    return ("i", "at") if isinstance(v, tuple) else v


def _length(lo: Bound, hi: Bound, tiles: Mapping[str, str]) -> IntPolynomial:
    """hi - lo + 1 as a polynomial. The last position of a tile is g - 1 after its first."""
    low, high = linear(lo), linear(hi)
    total = high.pop(None, ZERO) - low.pop(None, ZERO) + ONE
    for axis, tile in tiles.items():
        first = high.pop(("first", axis), ZERO) - low.pop(("first", axis), ZERO)
        last = high.pop(("last", axis), ZERO) - low.pop(("last", axis), ZERO)
        if first + last:
            raise CatdiagError(
                f"the footprint along {axis!r} grows with the position of its tile: its size is not counted; expected "
                f"both ends to move by the same factor"
            )
        total = total + last * (IntPolynomial.of(tile) - ONE)
    return total


def linear(e: Bound) -> dict[Any, IntPolynomial]:
    """An index expression as a linear form: the coefficient of each end of a tile, and of None for the constant. Raises
    CatdiagError where it is rounded."""

    def join(op: str, a: dict[Any, IntPolynomial], b: dict[Any, IntPolynomial]) -> dict[Any, IntPolynomial]:
        if op == "+":
            return {k: a.get(k, ZERO) + b.get(k, ZERO) for k in {**a, **b}}
        if op == "*":
            if set(a) != {None}:
                a, b = b, a
            return {k: a[None] * v for k, v in b.items()}
        raise CatdiagError("an end of a footprint is rounded: its size is not counted; expected sums and products")

    return read_off(e, lambda v: {v: ONE} if isinstance(v, tuple) else {None: IntPolynomial.of(v)}, join)


def region_size(ty: ArrayType, window: Sequence[AccessRange]) -> IntPolynomial:
    """The number of elements to allocate for an array, given its footprint."""
    lengths = {side.axis: side.length for side in window}
    total = ONE
    for axis in ty.axes:
        total = total * lengths.get(axis.name, IntPolynomial.of(axis.size))
    return total


def interior_size(ty: ArrayType, window: Sequence[AccessRange]) -> IntPolynomial:
    """The same product without the axes along which part of the footprint may lie outside of the array."""
    cut = {side.axis for side in window if not side.is_interior}
    return region_size(ArrayType(tuple(a for a in ty.axes if a.name not in cut)), window)
