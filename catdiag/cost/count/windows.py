"""What a group holds and loads of an array that it reads in place: the box of elements that its reads lie in.

Along each axis that is read at a sum of positions and indices, a tile of g positions with a factor σ, and taps k with a
factor δ, lie in a window of σ·(g - 1) + δ·(k - 1) + 1 elements: that is what there is room for. Loaded is what of the
window lies in the array: all of it, unless beyond the array a number is read (padding). Added up over the tiles of an
axis of n positions that is σ·n + (δ·(k - 1) + 1 - σ)·⌈n/g⌉, less what lies outside. For a padding of p the tiles lose
p, p - σ·g, p - 2·σ·g, … of it, at most p(p + 1)/2 in all, on either side: so much less is the form without rounding
(derived here).

Where arrays of data say what is read, a group loads an element for each of its results, be they the same ones or not.

>>> import catdiag as cd
>>> from catdiag.rewrite.group import find
>>> io = find(cd.library.get("conv1d"), ["y"]).io()
>>> next(t.exact for t in io.traffic if t.array == "a")
c*k*n*ceiling(y/g_y) + c*n*y - c*n*ceiling(y/g_y)
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from catdiag.boxes import Box, Fold
from catdiag.cost.count.amounts import ONE, ZERO, Amount
from catdiag.cost.count.extents import Bound, ends, number, put
from catdiag.diagram import Graph, inline
from catdiag.errors import CatdiagError
from catdiag.in_place import Picked, Window
from catdiag.types import ArrayType, Size
from catdiag.views import leaves, natural, read_off

if TYPE_CHECKING:
    from catdiag.cost.count.live import Kernel, Transfer

Expr = Any


@dataclass(frozen=True)
class Side:
    """The window along one axis: from `lo` to `hi`, both read, by the ends of the group's tile; `length` elements.

    `size` is that of the axis. Without `below` (`above`) nothing is read below its first (above its last) element.
    """

    axis: str
    lo: Bound
    hi: Bound
    length: Amount
    size: Size
    below: bool
    above: bool

    @property
    def whole(self) -> bool:
        """Whether the window always lies in the array."""
        return not self.below and not self.above


def of_inputs(graph: Graph, known: Sequence[Bound | None], tiles: Mapping[str, str]) -> dict[int, tuple[Side, ...]]:
    """The windows of the inputs of a kernel's graph that are read in place; `tiles` gives each axis's tile."""
    found: dict[int, tuple[Side, ...]] = {}
    for node in graph.nodes:
        op, inputs = node.box.op, node.inputs
        if isinstance(op, Window):
            values = [known[w] if w < len(graph.dom) else None for w in inputs]
            at = picks(op, node.box) if isinstance(op, Picked) else sides(op, values, node.box.dom[0], tiles)
            found[inputs[0]] = at
        elif isinstance(op, Fold):
            step, states = inline(op.step).graph, len(node.box.cod)
            for inner in step.nodes:
                if isinstance(inner.box.op, Window):
                    own = [w - states for w in inner.inputs]
                    values = [known[inputs[k]] if 0 <= k < len(inputs) else None for k in own]
                    found[inputs[own[0]]] = sides(inner.box.op, values, inner.box.dom[0], tiles)
    return found


def clipped(window: Sequence[Side], name: str) -> tuple[tuple[Side, ...], dict[str, Side]]:
    """A window of which each side that may reach beyond the array is as long as a symbol says: how much of it lies in
    the array. And these sides by symbol."""
    names = {side: f"{name}[{side.axis}]" for side in window if not side.whole}
    there = tuple(replace(s, length=Amount.of(names[s])) if s in names else s for s in window)
    return there, {name: side for side, name in names.items()}


def picks(op: Picked, box: Box) -> tuple[Side, ...]:
    """What is picked of an array, as a window: along the axes that are read where data says as many elements as there
    are results along the axes that the array lacks; all of them lie in the array."""
    taken = {name for name, _ in op.reads[0].at}
    own = [a.name for a in box.dom[0].axes if a.name not in taken]
    number = Amount.elements([a for a in box.cod[0].axes if a.name not in own])
    found: list[Side] = []
    for axis in box.dom[0].axes:
        if axis.name in taken:
            found.append(Side(axis.name, 0, 0, ONE if found else number, axis.size, False, False))
    return tuple(found)


def sides(op: Window, values: Sequence[Bound | None], ty: ArrayType, tiles: Mapping[str, str]) -> tuple[Side, ...]:
    """The window of a view along each axis that it reads, given what its index arrays are."""
    sizes = {a.name: a.size for a in op.made}

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
        found.append(Side(axis, low, high, _length(low, high, tiles), own.size, not plain, not within))
    return tuple(found)


def _index(v: Any) -> Bound:
    return ("i", "at") if isinstance(v, tuple) else v


def _length(lo: Bound, hi: Bound, tiles: Mapping[str, str]) -> Amount:
    """hi - lo + 1, where a tile's last position is g - 1 after its first."""
    low, high = _linear(lo), _linear(hi)
    total = high.pop(None, ZERO) - low.pop(None, ZERO) + ONE
    for axis, tile in tiles.items():
        first = high.pop(("first", axis), ZERO) - low.pop(("first", axis), ZERO)
        last = high.pop(("last", axis), ZERO) - low.pop(("last", axis), ZERO)
        if first + last:
            raise CatdiagError(f"the window along {axis!r} grows with the position of its tile: it is not counted")
        total = total + last * (Amount.of(tile) - ONE)
    return total


def _linear(e: Bound) -> dict[Any, Amount]:
    """A bound as a sum of ends of tiles with factors; None is the key of what is free of them."""

    def join(op: str, a: dict[Any, Amount], b: dict[Any, Amount]) -> dict[Any, Amount]:
        if op == "+":
            return {k: a.get(k, ZERO) + b.get(k, ZERO) for k in {**a, **b}}
        if op == "*":
            if set(a) != {None}:
                a, b = b, a
            return {k: a[None] * v for k, v in b.items()}
        raise CatdiagError("a window's end is rounded: it is not counted")

    return read_off(e, lambda v: {v: ONE} if isinstance(v, tuple) else {None: Amount.of(v)}, join)


def box(ty: ArrayType, window: Sequence[Side]) -> Amount:
    """How many elements of an array there is room for."""
    lengths = {side.axis: side.length for side in window}
    total = ONE
    for axis in ty.axes:
        total = total * lengths.get(axis.name, Amount.of(axis.size))
    return total


def outer(ty: ArrayType, window: Sequence[Side]) -> Amount:
    """The same without the axes along which part of the window may lie outside of the array."""
    cut = {side.axis for side in window if not side.whole}
    return box(ArrayType(tuple(a for a in ty.axes if a.name not in cut)), window)


# -- in the whole run -------------------------------------------------------------------------------


def most(side: Side, kernel: Kernel) -> Expr:
    """The most elements of the array that any group of a kernel reads along an axis, or 1."""
    import sympy

    from catdiag.cost.count.grids import GroupMax

    there, ends = _within([side], kernel, kernel.tiles)
    held = _clipped(side, there)
    for tile, j in ends.items():
        held = GroupMax(held, (j, 0, _last(tile, kernel)))
    return sympy.Max(1, held)


def _within(sides: Sequence[Side], kernel: Kernel, taken: Mapping[str, Any]) -> tuple[dict[Any, Expr], dict[str, Expr]]:
    """The ends of the tiles that sides of windows depend on, by the number of the group along each tile."""
    import sympy

    from catdiag.cost.count.amounts import symbol
    from catdiag.cost.count.density import index_of

    tile_of = {axis: tile for tile, axis in kernel.axes.items()}
    mine = sorted({tile_of[v[1]] for s in sides for e in (s.lo, s.hi) for v in leaves(e) if isinstance(v, tuple)})
    indices = {tile: index_of(kernel.axes[tile], taken) for tile in mine}
    there: dict[Any, Expr] = {}
    for tile, j in indices.items():
        g, whole = symbol(tile), kernel.tiles[tile].expr()
        there["first", kernel.axes[tile]] = g * j
        there["last", kernel.axes[tile]] = sympy.Min(whole, g * (j + 1)) - 1
    return there, indices


def _clipped(side: Side, there: Mapping[Any, Expr]) -> Expr:
    """How much of a window lies in the array, where a tile has these ends."""
    import sympy

    from catdiag.cost.count.density import written

    low, high = written(side.lo, there), written(side.hi, there) + 1
    size = Amount.of(side.size).expr()
    return sympy.Max(0, (sympy.Min(size, high) if side.above else high) - (sympy.Max(0, low) if side.below else low))


def _last(tile: str, kernel: Kernel) -> Expr:
    """The number of the last group along a tile."""
    import sympy

    from catdiag.cost.count.amounts import symbol

    return sympy.ceiling(kernel.tiles[tile].expr() / symbol(tile)) - 1


def moved(transfer: Transfer, kernel: Kernel) -> tuple[Expr, Expr]:
    """What a group loads of it, added up over all groups, exactly and without rounding (no more than that)."""
    import sympy

    from catdiag.cost.count.amounts import symbol
    from catdiag.cost.count.grids import GroupSum
    from catdiag.cost.count.nested import spread

    ranges = {**kernel.tiles, **dict(transfer.loops)}
    partly = [side for side in transfer.window if not side.whole]
    tile_of = {axis: tile for tile, axis in kernel.axes.items()}
    there, indices = _within(partly, kernel, ranges)
    lengths = {tile: there["last", kernel.axes[tile]] + 1 - there["first", kernel.axes[tile]] for tile in indices}
    held = sympy.Mul(*(_clipped(side, there) for side in partly))
    exact = relaxed = sympy.S.Zero
    rest = ONE
    for side in partly:
        rest = rest * side.length
    for monomial, coefficient in transfer.local.terms.items():
        outside, inside = sympy.Integer(coefficient), held
        for name in monomial:
            if name not in ranges:
                outside *= symbol(name)
        for name, whole in ranges.items():
            power = monomial.count(name)
            if name in lengths:
                inside *= lengths[name] ** power
            else:
                outside *= spread(whole.expr(), (symbol(name),), power)
        for tile, j in indices.items():
            inside = GroupSum(inside, (j, 0, _last(tile, kernel)))
        exact += outside * inside
    for monomial, coefficient in (transfer.local * rest).terms.items():
        relaxed += coefficient * _unrounded(monomial, ranges)
    if partly:
        relaxed = _less(transfer, kernel, ranges, tile_of, partly)
    return exact, sympy.expand(relaxed)


def _unrounded(monomial: Sequence[str], ranges: Mapping[str, Amount]) -> Expr:
    import sympy

    from catdiag.cost.count.amounts import symbol

    term = sympy.S.One
    for name in monomial:
        if name not in ranges:
            term *= symbol(name)
    for name, whole in ranges.items():
        term *= whole.expr() * symbol(name) ** (monomial.count(name) - 1)
    return term


def _less(
    transfer: Transfer,
    kernel: Kernel,
    ranges: Mapping[str, Amount],
    tile_of: Mapping[str, str],
    partly: Sequence[Side],
) -> Expr:
    """Without rounding, and without the most that may lie outside: each side's sum, times what else there is."""
    import sympy

    full: list[Expr] = []
    lost: list[Expr] = []
    used: set[str] = set()
    for side in partly:
        tiles = sorted({tile_of[v[1]] for e in (side.lo, side.hi) for v in leaves(e) if isinstance(v, tuple)})
        if len(tiles) != 1 or tiles[0] in used:
            return sympy.S.Zero
        (tile,) = tiles
        used.add(tile)
        low, high = _linear(side.lo), _linear(side.hi)
        step = low.get(("first", kernel.axes[tile]), ZERO).expr()
        if not step.is_positive:
            return sympy.S.Zero
        terms = side.length.terms.items()
        full.append(sympy.Add(*(c * _unrounded(m, {tile: kernel.tiles[tile]}) for m, c in terms)))
        below = -low.get(None, ZERO).expr()
        above = high.get(None, ZERO).expr() + step * (kernel.tiles[tile].expr() - 1) + 1 - Amount.of(side.size).expr()
        beyond = (below if side.below else sympy.S.Zero, above if side.above else sympy.S.Zero)
        lost.append(sympy.Add(*(p * (p + 1) / 2 for p in beyond)))
    # A product of sums, each less by what is lost of it, is at least the product less each loss times the others.
    sums = sympy.Mul(*full)
    for k, less in enumerate(lost):
        sums -= less * sympy.Mul(*(f for j, f in enumerate(full) if j != k))
    rest = sympy.S.Zero
    for monomial, coefficient in transfer.local.terms.items():
        if used & set(monomial):
            return sympy.S.Zero
        rest += coefficient * _unrounded(monomial, {k: v for k, v in ranges.items() if k not in used})
    return sums * rest


def count(transfer: Transfer, kernel: Kernel, values: Mapping[Any, Any]) -> Any:
    """What of it is loaded in the whole run, in numbers, or arrays of them for candidates of tiles.

    A sum over groups of what depends on few tiles each: it is the product of the sums over those that go together.
    """
    import numpy as np

    ranges = {**kernel.tiles, **dict(transfer.loops)}
    parts = _together(transfer, kernel)
    total: Any = 0
    for monomial, coefficient in transfer.local.terms.items():
        term: Any = coefficient
        for name in monomial:
            if name not in ranges:
                term = term * values[name]
        for tiles, sides in parts:
            term = term * _over(tiles, sides, [monomial.count(t) for t in tiles], kernel, values)
        for block, axis in transfer.loops:
            size, piece, power = axis.value(values), np.asarray(values[block]), monomial.count(block)
            rest = size % piece
            term = term * (size // piece * piece**power + np.where(rest > 0, rest**power, 0))
        total = total + term
    return np.asarray(total)[()]


def _together(transfer: Transfer, kernel: Kernel) -> list[tuple[list[str], list[Side]]]:
    """The tiles that some side of the window depends on at once, with these sides."""
    of = {kernel.axes[tile]: tile for tile in kernel.tiles}
    found: list[tuple[set[str], list[Side]]] = [({tile}, []) for tile in kernel.tiles]
    for side in transfer.window:
        if side.whole:
            continue
        read = [v for e in (side.lo, side.hi) for v in leaves(e) if isinstance(v, (str, tuple))]
        used = {v if isinstance(v, str) else of.get(v[1], "") for v in read}
        mine = [f for f in found if f[0] & used]
        tiles, sides = {t for f in mine for t in f[0]}, [s for f in mine for s in f[1]]
        found = [f for f in found if not f[0] & used] + [(tiles, [*sides, side])]
    return [([t for t in kernel.tiles if t in tiles], sides) for tiles, sides in found]


def _over(
    tiles: Sequence[str], sides: Sequence[Side], powers: Sequence[int], kernel: Kernel, values: Mapping[Any, Any]
) -> Any:
    """The sum over the pieces that some tiles cut their axes in: of the lengths to these powers, times the sides."""
    import numpy as np

    # The length of an axis may differ between candidates too: of that of the parts of a loop, as many as there are.
    lengths = [*(kernel.tiles[tile] for tile in tiles), *(Amount.of(side.size) for side in sides)]
    names = sorted(
        {
            *tiles,
            *(name for length in lengths for name in length.symbols()),
            *(v for s in sides for e in (s.lo, s.hi) for v in leaves(e) if isinstance(v, str)),
        }
    )
    columns = np.broadcast_arrays(*(np.asarray(values[name]) for name in names)) if names else []
    shape = columns[0].shape if columns else ()
    table = np.stack([c.ravel() for c in columns], axis=1) if columns else np.zeros((1, 0), dtype=np.int64)
    rows, places = np.unique(table, axis=0, return_inverse=True)
    found = []
    for row in rows:
        known = {**values, **dict(zip(names, map(int, row), strict=True))}
        seen: dict[Any, Any] = dict(known)
        held: Any = 1
        for k, (tile, power) in enumerate(zip(tiles, powers, strict=True)):
            whole = int(kernel.tiles[tile].value(known))
            starts = np.arange(0, whole, known[tile]).reshape([-1 if i == k else 1 for i in range(len(tiles))])
            stops = np.minimum(starts + known[tile], whole)
            seen["first", kernel.axes[tile]], seen["last", kernel.axes[tile]] = starts, stops - 1
            held = held * (stops - starts) ** power
        for side in sides:
            low, high = number(side.lo, seen), number(side.hi, seen) + 1
            size = int(Amount.of(side.size).value(known))
            low, high = np.maximum(low, 0) if side.below else low, np.minimum(high, size) if side.above else high
            held = held * np.maximum(0, high - low)
        found.append(int(np.sum(held)))
    return np.array(found)[places.ravel()].reshape(shape)[()]
