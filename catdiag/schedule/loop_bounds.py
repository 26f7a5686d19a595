"""Loop bounds under a mask: which blocks a loop runs, as functions of the position of a group.

A loop that skips blocks has bounds: for each group, the positions from `lo` to before `hi` that the mask leaves. Both
are integer arithmetic in positions along grouped axes, in sizes, and in integer inputs (the width of a sliding window).
Where they are monotonic in each position, the least `lo` and the largest `hi` of a tile are taken at its first or last
position. The trip count is then a formula of where the tile begins and ends.

Expressions are those of `catdiag.category.index_maps` with two further operations, `("max", e, f)` and `("min", e, f)`,
and these leaves:

- an integer, a size symbol; `("of", name)`, the value of a scalar input;
- `("at", axis)`, a position along an axis; `("first", axis)` and `("last", axis)`, those at the ends of the tile.

>>> row = ("+", ("at", "q"), 1)
>>> ends(row, False), ends(("*", -1, row), False)
(('+', ('last', 'q'), 1), ('*', -1, ('+', ('first', 'q'), 1)))
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from catdiag.category.diagram import Graph
from catdiag.category.index_maps import read_off
from catdiag.category.integer_polynomial import IntPolynomial
from catdiag.category.ops import Box, Const, FoldOp, Index, Map, Op, Reduce, Reindex, Rename, SizeOf, op_fact
from catdiag.category.scalars import Cast, ScalarFunction
from catdiag.category.substitution import inline
from catdiag.category.types import Size

Bound = Any
"""An integer expression; see above."""

_JOINS = {"add": "+", "mul": "*", "floordiv": "//", "max": "max", "min": "min"}


@dataclass(frozen=True)
class LoopBounds:
    """The blocks that a loop over `axis` runs in one group: those that meet `lo` ≤ p < `hi`, within 0 and `trip_count`.

    The leaves of the bounds are integers, sizes, scalar inputs and the ends of the group's tile. With `tests_blocks`,
    the loop also tests each of these blocks for whether the mask leaves anything in it, so they are the most that it
    runs. `reads` are the loop's inputs that the test reads. `trip_count` is the size of the whole axis, in positions.
    """

    axis: str
    block: str
    trip_count: IntPolynomial
    lo: Bound
    hi: Bound
    tests_blocks: bool
    reads: frozenset[int] = frozenset()
    tiles: tuple[tuple[str, str], ...] = ()
    """The axes whose tiles the bounds depend on, in order of name, each with the symbol of its tile."""

    def of_part(self, parts: str, tile: str, length: str) -> LoopBounds:
        """The same blocks as seen from the start of a part of the axis: part k begins at k × `length`.

        `parts` is the symbol for the number of parts, `tile` that for one of them.
        """
        start = ("*", -1, ("*", ("first", parts), length))
        lo, hi = ("+", self.lo, start), ("+", self.hi, start)
        tiles = tuple(sorted((*self.tiles, (parts, tile))))
        return replace(self, trip_count=IntPolynomial.of(length), lo=lo, hi=hi, tiles=tiles)

    @property
    def longest_first(self) -> bool:
        """Whether groups that run more blocks begin earlier: one end of the range alone depends on where their tiles
        are, and kernels are written so (`catdiag.codegen.triton.kernel_source.grid`)."""
        return bool(_ends(self.lo)) != bool(_ends(self.hi))

    def scalars(self) -> tuple[str, ...]:
        """The scalar inputs in the bounds, in order of name."""
        found = {v[1] for e in (self.lo, self.hi) for v in _leaves(e) if isinstance(v, tuple) and v[0] == "of"}
        return tuple(sorted(found))

    def symbols(self) -> set[str]:
        """The sizes in the bounds."""
        return {v for e in (self.lo, self.hi) for v in _leaves(e) if isinstance(v, str)}


def _leaves(e: Bound) -> list[Any]:
    """The leaves of an expression."""
    found: list[Any] = []

    def leaf(v: Any) -> None:
        found.append(v)

    read_off(e, leaf, lambda op, a, b: None)
    return found


def _ends(*bounds: Bound) -> list[Any]:
    """The ends of tiles that occur in these expressions."""
    return [v for e in bounds for v in _leaves(e) if isinstance(v, tuple) and v[0] in ("first", "last")]


# -- what wires are ---------------------------------------------------------------------------------


def known(graph: Graph, given: Sequence[Bound | None]) -> list[Bound | None]:
    """For each wire of a graph, its value as an integer expression in positions; None if it has none.

    `given` are those of the inputs.

    >>> from catdiag.category.ops import index_box, size_box
    >>> from catdiag.category.diagram import Node
    >>> from catdiag.category.types import Axis, Ty
    >>> known(Graph(Ty(), (Node(index_box(Axis("q")), ()), Node(size_box("q"), ())), (0,)), [])
    [('at', 'q'), 'q']
    """
    values: list[Bound | None] = list(given)
    for node in graph.nodes:
        value = _evaluated(node.box, [values[w] for w in node.inputs])
        values.extend([value] * len(node.box.cod))
    return values


def _evaluated(box: Box, inputs: list[Bound | None]) -> Bound | None:
    """The expression of a box's result, given those of its inputs."""
    given = [v for v in inputs if v is not None]
    row = op_fact(EXPRESSIONS, box.op)
    return None if row is None or len(given) < len(inputs) else row(box.op, given)


def _scalar(fn: ScalarFunction, inputs: list[Bound]) -> Bound | None:
    if isinstance(fn, Cast):
        return inputs[0]
    if fn == "neg":
        return ("*", -1, inputs[0])
    if fn == "sub":
        return ("+", inputs[0], ("*", -1, inputs[1]))
    return (_JOINS[fn], *inputs) if fn in _JOINS else None


def _renamed(op: Rename, inputs: list[Bound]) -> Bound:
    pairs = dict(op.pairs)
    return put(inputs[0], lambda v: (v[0], pairs.get(v[1], v[1])) if isinstance(v, tuple) and v[0] == "at" else v)


def _extremum(op: Reduce, inputs: list[Bound]) -> Bound | None:
    sign = direction(inputs[0], op.axis) if op.monoid in ("min", "max") else None
    name = "first" if (op.monoid == "min") == ((sign or 0) >= 0) else "last"
    return None if sign is None else put(inputs[0], lambda v: (name, op.axis) if v == ("at", op.axis) else v)


def _split(op: Reindex, inputs: list[Bound]) -> Bound | None:
    if op.kind != "split" or len(op.axis.parts) != 2:
        return None
    outer, inner = op.axis.parts
    both = ("+", ("*", ("at", outer.name), inner.size), ("at", inner.name))
    return put(inputs[0], lambda v: both if v == ("at", op.axis.name) else v)


EXPRESSIONS: Mapping[type[Op], Callable[[Any, list[Bound]], Bound | None]] = {
    Index: lambda op, inputs: ("at", op.axis),
    SizeOf: lambda op, inputs: op.size,
    Const: lambda op, inputs: int(op.value) if op.value is not None and op.value.denominator == 1 else None,
    Map: lambda op, inputs: _scalar(op.fn, inputs),
    Rename: _renamed,
    Reduce: _extremum,
    Reindex: _split,
}
"""The integer expression of an operation's result, given those of its inputs: of no other operation one is known."""


def put(e: Bound, leaf: Callable[[Any], Bound]) -> Bound:
    """An expression with each leaf replaced."""
    return read_off(e, leaf, lambda op, a, b: (op, a, b))


def direction(e: Bound, axis: str) -> int | None:
    """Whether an expression is nondecreasing (1) or nonincreasing (-1) in the position along an axis, or does not
    depend on it (0); None if neither is known."""

    def leaf(v: Any) -> tuple[int | None, int | None]:  # the direction, and the sign if it does not depend on the axis
        if v == ("at", axis):
            return 1, None
        if isinstance(v, int):
            return 0, (v > 0) - (v < 0)
        return 0, None if isinstance(v, tuple) else 1

    def join(op: str, a: tuple[int | None, int | None], b: tuple[int | None, int | None]) -> tuple[Any, Any]:
        sign = a[1] if a[1] == b[1] else None
        if op == "*":
            sign = None if a[1] is None or b[1] is None else a[1] * b[1]
            for (way, _), (fixed, by) in ((a, b), (b, a)):
                if fixed == 0 and by is not None and way is not None:
                    return way * by, sign
            return (0 if a[0] == b[0] == 0 else None), sign
        if op == "//":
            return (a[0] if b == (0, 1) else 0 if a[0] == b[0] == 0 else None), None
        ways = {a[0], b[0]} - {0}
        return (ways.pop() if len(ways) == 1 else None if ways else 0), sign

    way: int | None = read_off(e, leaf, join)[0]
    return way


def ends(e: Bound, least: bool) -> Bound | None:
    """The least or the largest value of an expression on a tile, taken at its first and last positions; None where it
    may be attained between them."""
    for axis in sorted({v[1] for v in _leaves(e) if isinstance(v, tuple) and v[0] == "at"}):
        way = direction(e, axis)
        if way is None:
            return None
        name = "first" if (way > 0) == least else "last"
        e = put(e, lambda v, name=name, axis=axis: (name, axis) if v == ("at", axis) else v)  # type: ignore[misc]
    return e


# -- of a loop --------------------------------------------------------------------------------------


def bounds_of(box: Box, inputs: Sequence[Bound | None], tiles: Collection[str]) -> LoopBounds | None:
    """The blocks that a loop runs, given the expressions of its inputs; None for a loop that runs all.

    `tiles` are the symbols of group tiles. A bound that has no expression is replaced by 0 or by the end of the axis,
    and the loop then counts as one that tests each block.
    """
    op = box.op
    if not isinstance(op, FoldOp) or (op.bounds is None and op.is_live is None):
        return None
    asked = op.block_test
    sizes: dict[str, Size] = {a.name: a.size for ty in box.dom for a in ty.axes}
    size = sizes.get(op.axis, op.axis)
    reads: set[int] = set()
    if asked is not None:
        graph = inline(asked).graph
        used = {w for n in graph.nodes for w in n.inputs} | set(graph.outputs)
        reads = {k for k in range(len(graph.dom)) if k in used}
    lo: Bound | None = 0
    hi: Bound | None = size
    if op.bounds is not None:
        graph = inline(op.bounds).graph
        values = known(graph, inputs)
        low, high = (values[w] for w in graph.outputs)
        lo, hi = (None if e is None else put(e, lambda v: size if v == op.block else v) for e in (low, high))
        lo, hi = None if lo is None else ends(lo, True), None if hi is None else ends(hi, False)
    asks = asked is not None or lo is None or hi is None

    def whole(v: Any) -> Bound:
        """The ends of axes that are not tiled."""
        if isinstance(v, tuple) and v[0] in ("first", "last") and sizes.get(v[1], v[1]) not in tiles:
            return 0 if v[0] == "first" else ("+", sizes.get(v[1], v[1]), -1)
        return v

    lo, hi = 0 if lo is None else put(lo, whole), size if hi is None else put(hi, whole)
    axes = sorted({v[1] for v in _ends(lo, hi)})
    symbols = tuple((a, str(sizes.get(a, a))) for a in axes)
    return LoopBounds(op.axis, op.block, IntPolynomial.of(size), lo, hi, asks, frozenset(reads), symbols)


def number(e: Bound, values: Mapping[Any, Any]) -> Any:
    """The value of a bound, given those of its leaves: numbers, or NumPy arrays of them.

    >>> number(("+", ("*", 2, ("last", "q")), "x"), {("last", "q"): 4, "x": 9})
    17
    """
    import numpy as np

    def join(op: str, a: Any, b: Any) -> Any:
        if op == "+":
            return a + b
        if op == "*":
            return a * b
        if op == "//":
            return a // b
        return np.maximum(a, b) if op == "max" else np.minimum(a, b)

    return read_off(e, lambda v: v if isinstance(v, int) else values[v], join)


# -- in numbers ---------------------------------------------------------------------------------------


_AT_ONCE = 1 << 20
"""Tiles of candidates that are counted together, at most."""


class IterationCounts:
    """The iterations of loops that skip blocks, for candidates of tiles and blocks: numbers, or NumPy arrays of them.

    `values` gives every size, tile, block and scalar input. `shares` gives, by block, the share of the tested blocks
    that are run, 1 if it is not there.
    """

    def __init__(
        self, tiles: Mapping[str, IntPolynomial], values: Mapping[str, Any], shares: Mapping[str, Any]
    ) -> None:
        self.tiles, self.values, self.shares = tiles, values, shares
        self._known: dict[tuple[LoopBounds, tuple[int, ...]], tuple[Any, Any]] = {}

    def iterations(self, bounds: LoopBounds) -> tuple[Any, Any]:
        """The iterations of the loop summed over all tiles that its bounds depend on, and the most of one tile."""
        return self.total(bounds, (*(0 for _ in bounds.tiles), 0))

    def total(self, bounds: LoopBounds, powers: tuple[int, ...]) -> tuple[Any, Any]:
        """The sum over tiles and blocks of powers of their lengths, and the largest share of it that one tile has.

        `powers` are those of the tiles in the order of `bounds.tiles`, and last that of the block.
        """
        import numpy as np

        if (bounds, powers) not in self._known:
            symbols = {*bounds.symbols(), *bounds.scalars(), *bounds.trip_count.symbols(), bounds.block}
            for _, tile in bounds.tiles:
                symbols |= {tile} | self.tiles[tile].symbols()
            names = sorted(symbols)
            columns = np.broadcast_arrays(*(np.asarray(self.values[name]) for name in names))
            rows, places = np.unique(np.stack([c.ravel() for c in columns], axis=1), axis=0, return_inverse=True)
            found = self._rows(bounds, powers, names, rows)
            shape = np.shape(columns[0])
            share = self.shares.get(bounds.block, 1) if bounds.tests_blocks else 1
            sums, largest = (share * (part[places.ravel()].reshape(shape) if shape else int(part[0])) for part in found)
            self._known[bounds, powers] = sums, largest
        return self._known[bounds, powers]

    def _rows(self, bounds: LoopBounds, powers: tuple[int, ...], names: Sequence[str], rows: Any) -> tuple[Any, Any]:
        """`total` for each row of integers, which are the values of `names`. Those with the same tiles are computed
        together."""
        import numpy as np

        of_tiles = {name for _, tile in bounds.tiles for name in (tile, *self.tiles[tile].symbols())}
        kept = [k for k, name in enumerate(names) if name in of_tiles]
        groups, members = np.unique(rows[:, kept], axis=0, return_inverse=True)
        sums, largest = np.zeros(len(rows), dtype=np.int64), np.zeros(len(rows), dtype=np.int64)
        for number_of_group, group in enumerate(groups):
            same = np.flatnonzero(members.ravel() == number_of_group)
            values = dict(zip((names[k] for k in kept), map(int, group), strict=True))
            count = math.prod(-(-int(self.tiles[tile].value(values)) // values[tile]) for _, tile in bounds.tiles)
            for some in np.array_split(same, max(1, min(len(same), len(same) * count // _AT_ONCE))):
                columns = {name: rows[some, k] for k, name in enumerate(names) if name not in values}
                sums[some], largest[some] = self._alike(bounds, powers, values, columns)
        return sums, largest

    def _alike(
        self, bounds: LoopBounds, powers: tuple[int, ...], tiled: Mapping[str, int], columns: Mapping[str, Any]
    ) -> tuple[Any, Any]:
        """`total` for candidates with the same tiles: `columns` are the values of all else, one for each."""
        import numpy as np

        places = len(bounds.tiles)
        values = {**tiled, **{name: column.reshape(-1, *[1] * places) for name, column in columns.items()}}
        leaves: dict[Any, Any] = {**values, **{("of", name): values[name] for name in bounds.scalars()}}
        weight: Any = 1
        for k, (axis, tile) in enumerate(bounds.tiles):
            whole = int(self.tiles[tile].value(tiled))
            shape = [1, *(-1 if i == k else 1 for i in range(places))]
            starts = np.arange(0, whole, tiled[tile]).reshape(shape)
            stops = np.minimum(starts + tiled[tile], whole)
            leaves[("first", axis)], leaves[("last", axis)] = starts, stops - 1
            weight = weight * (stops - starts) ** powers[k]
        s, total = values[bounds.block], bounds.trip_count.value(values)
        first = np.maximum(0, number(bounds.lo, leaves)) // s
        last = -(-np.minimum(total, number(bounds.hi, leaves)) // s)
        stop = np.minimum(total, s * last)
        if powers[-1] == 0:
            blocks = np.maximum(0, last - first)
        elif powers[-1] == 1:
            blocks = np.maximum(0, stop - s * first)
        else:
            full = stop // s
            rest = np.maximum(0, stop - s * np.maximum(full, first))
            blocks = np.maximum(0, full - first) * s ** powers[-1] + rest ** powers[-1]
        count = next((len(column) for column in columns.values()), 1)
        found = np.asarray(weight * blocks)
        found = np.broadcast_to(found, (count, *found.shape[1:])) if found.ndim else np.full((count, 1), found)
        found = found.reshape(count, -1)
        return found.sum(axis=1), found.max(axis=1)
