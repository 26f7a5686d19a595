"""Contractions: sums of products of tiles, by matrix units where there is a product of two matrices in them."""

from __future__ import annotations

import math
from collections.abc import Sequence

from catdiag.codegen.triton.tile_expressions import Dim, Fill, Nodes, TileNode, fill_of, finite

SHORTEST = 16
"""What matrix units sum at least."""


def contracted(nodes: Nodes, args: Sequence[TileNode], out: Sequence[Dim]) -> TileNode:
    """The product of tiles, summed over all dimensions that are not in `out`."""
    left = list(args)
    while len(left) > 1:
        first, second = _pair(left, out)
        a, b = left[first], left[second]
        # By place: a factor may be there more than once.
        rest = [x for k, x in enumerate(left) if k not in (first, second)]
        kept = {*out, *(d for x in rest for d in x.dims)}
        left = [_product(nodes, a, b, kept, out), *rest]
    return _summed(nodes, left[0], out)


def _pair(args: Sequence[TileNode], out: Sequence[Dim]) -> tuple[int, int]:
    """The places of the two to begin with: those whose product is smallest, entry-by-entry ones first."""

    def cost(pair: tuple[int, int]) -> tuple[bool, int]:
        a, b = (args[k] for k in pair)
        union = {*a.dims, *b.dims}
        kept = {*out, *(d for k, x in enumerate(args) if k not in pair for d in x.dims)}
        return not (set(a.dims) <= set(b.dims) or set(b.dims) <= set(a.dims)), len(union & kept)

    return min(((i, j) for i in range(len(args)) for j in range(i + 1, len(args))), key=cost)


def _product(nodes: Nodes, a: TileNode, b: TileNode, kept: set[Dim], out: Sequence[Dim]) -> TileNode:
    """The product of two tiles, summed over what only they have."""
    for x, y in ((a, b), (b, a)):
        if x.kind == "scaled" and y.dims:
            return nodes.op("mul", _product(nodes, x.args[0], y, kept, out), x.args[1])
    summed = [d for d in a.dims if d in b.dims and d not in kept]
    rows = [d for d in a.dims if d not in b.dims]
    columns = [d for d in b.dims if d not in a.dims]
    a = _summed(nodes, a, [d for d in a.dims if d in kept or d in b.dims])
    b = _summed(nodes, b, [d for d in b.dims if d in kept or d in a.dims])
    rows = [d for d in rows if d in a.dims]
    columns = [d for d in columns if d in b.dims]
    short = bool(summed) and all(d.length for d in summed) and math.prod(d.length for d in summed) < SHORTEST
    if not (summed and rows and columns) or short or "int" in (a.element, b.element):
        made = nodes.op("mul", a, b)
        return _summed(nodes, made, [d for d in made.dims if d in kept])
    order = {d: k for k, d in enumerate(out)}
    if order.get(columns[0], len(order)) < order.get(rows[0], len(order)):
        a, b, rows, columns = b, a, columns, rows
    rows, columns, summed = _longest_last(rows), _longest_last(columns), _longest_last(summed)
    for d in summed:
        a, b = _silent(nodes, a, b, d)
    if len(summed) == 1:
        nodes.summed.update(dict.fromkeys(d.block for d in summed if d.length))
    # One axis alone is as long as matrix units want a side; rows and columns of several are long enough.
    alone = [side[0] for side in (rows, columns) if len(side) == 1]
    nodes.sides.update(dict.fromkeys(d.block for d in (*summed, *alone)))
    iterations = any(d.loop is not None for x in (a, b) for d in x.dims)
    depth = tuple(d.block for d in summed)
    a, b = _operand(nodes, a, iterations, depth), _operand(nodes, b, False, depth)
    if iterations and a.kind not in ("load", "relabel"):
        nodes.lefts[depth] = None
        if len(rows) > 1:
            nodes.merged_rows[tuple(d.block for d in rows)] = None
    for side in (rows, columns, summed):
        _lengths(nodes, side, side is summed)
    batch = [d for d in a.dims if d in b.dims and d not in summed]
    dims = (*batch, *rows, *columns)
    nodes.rows[tuple(d.block for d in (*batch, *rows))] = None
    fills: dict[Dim, Fill] = {}
    for d in dims:
        if d.ragged:
            held = [x.fills.get(d) for x in (a, b) if d in x.dims]
            fills[d] = 0.0 if fill_of("mul", [*held, "finite"]) == 0.0 else None
    return nodes.make(
        "dot", (a, b), dims, "real", (tuple(batch), tuple(rows), tuple(columns), tuple(summed)), fills=fills, heavy=True
    )


def _lengths(nodes: Nodes, side: Sequence[Dim], depth: bool) -> None:
    """Notes which whole axes a product needs filled up to `SHORTEST`: of several that make one of its sides, one is
    enough, and none beside a tile that is as long."""
    whole = [d.block for d in side if not d.length]
    long = [d.block for d in side if d.length >= SHORTEST]
    if len(side) > 1 and long:
        nodes.short.update(dict.fromkeys(whole))
        nodes.summed.update(dict.fromkeys(long if depth else ()))
    elif whole:
        nodes.short.update(dict.fromkeys(whole[:-1]))
        nodes.filled[whole[-1]] = None


def _longest_last(dims: list[Dim]) -> list[Dim]:
    """Dimensions that become one of a matrix, the longest last: Triton 3.6 has no layout in shared memory for matrices
    whose last dimension is put together of pieces of less than 16 bytes, and its compiler ends the process. Whole axes
    may be short beside a long tile (see `_lengths`)."""
    return sorted(dims, key=lambda d: min(d.length or SHORTEST - 1, SHORTEST))


def _operand(nodes: Nodes, node: TileNode, held: bool, depth: tuple[str, ...]) -> TileNode:
    """A factor as matrix units read it: a loaded block is loaded for them alone.

    Triton 3.6 gives a block that other work reads too a buffer less than the product in flight needs, and results are
    wrong; so what else reads it has a load of its own. Rows that a loop reads in each turn are held in registers
    (`held`), else they are read from shared memory each time.
    """
    if node.kind == "relabel":
        (inner,) = node.args
        own = _operand(nodes, inner, held, depth)
        return node if own is inner else nodes.make("relabel", (own,), node.dims, node.element, fills=dict(node.fills))
    looped = node.kind == "load" and any(d.loop is not None for d in node.dims)
    if node.kind != "load" or not (looped or (held and node.data[4] is not None)):
        return node
    if not looped:
        node.data[4].looped = True
    role = "dot" if looped else "held"
    own = nodes.make(
        "load", node.args, node.dims, node.element, (*node.data[:5], role, depth), fills=dict(node.fills), heavy=True
    )
    own.wanted = node.wanted
    if looped:
        nodes.twins[node] = own
    return own


def _silent(nodes: Nodes, a: TileNode, b: TileNode, dim: Dim) -> tuple[TileNode, TileNode]:
    """Two factors whose product is 0 wherever a dimension reaches over the end."""
    if dim.within is None:
        return a, b
    held = (a.fills.get(dim), b.fills.get(dim))
    if 0.0 in held and all(map(finite, held)):
        return a, b
    if held[0] != 0.0:
        a = nodes.masked(a, dim, 0.0)
    if held[1] != 0.0:
        b = nodes.masked(b, dim, 0.0)
    return a, b


def _summed(nodes: Nodes, node: TileNode, kept: Sequence[Dim]) -> TileNode:
    for dim in node.dims:
        if dim not in kept:
            node = nodes.reduce("sum", nodes.masked(node, dim, 0.0), dim)
    return node
