"""Contractions of tiles (einsum). They run on matrix units (`tl.dot`) where they contain a product of two matrices.

A contraction of more than two factors is a sequence of pairwise contractions (`_pair` chooses the order).
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from catdiag.codegen.triton.tile_expressions import Nodes
from catdiag.codegen.triton.tile_fills import Fill, fill_of, finite
from catdiag.codegen.triton.tile_nodes import Dim, TileNode

SHORTEST = 16
"""The least length of each side of a matrix product in Triton."""
ROWS = 64
"""The rows of a product of a warpgroup of Hopper."""


def contracted(nodes: Nodes, args: Sequence[TileNode], out: Sequence[Dim]) -> TileNode:
    """The product of tiles, summed over all dimensions that are not in `out`."""
    factors = list(args)
    while len(factors) > 1:
        first, second = _pair(factors, out)
        a, b = factors[first], factors[second]
        # Compared by position, since a factor may occur more than once.
        rest = [x for k, x in enumerate(factors) if k not in (first, second)]
        needed = {*out, *(d for x in rest for d in x.dims)}
        factors = [_product(nodes, a, b, needed, out), *rest]
    return _summed(nodes, factors[0], out)


def _pair(args: Sequence[TileNode], out: Sequence[Dim]) -> tuple[int, int]:
    """The positions of the two factors to contract first: an elementwise pair, else the pair of smallest result."""

    def cost(pair: tuple[int, int]) -> tuple[bool, int]:
        a, b = (args[k] for k in pair)
        union = {*a.dims, *b.dims}
        needed = {*out, *(d for k, x in enumerate(args) if k not in pair for d in x.dims)}
        return not (set(a.dims) <= set(b.dims) or set(b.dims) <= set(a.dims)), len(union & needed)

    return min(((i, j) for i in range(len(args)) for j in range(i + 1, len(args))), key=cost)


def _product(nodes: Nodes, a: TileNode, b: TileNode, needed: set[Dim], out: Sequence[Dim]) -> TileNode:
    """The product of two tiles, summed over the dimensions that are not `needed`.

    It is a matrix product if both factors have a dimension of their own and share a summed one of at least `SHORTEST`
    entries. `out` are the dimensions of the result, which decide which factor gives the rows.
    """
    for x, y in ((a, b), (b, a)):
        if x.kind == "scaled" and y.dims:
            return nodes.op("mul", _product(nodes, x.args[0], y, needed, out), x.args[1])
    summed = [d for d in a.dims if d in b.dims and d not in needed]
    rows = [d for d in a.dims if d not in b.dims]
    columns = [d for d in b.dims if d not in a.dims]
    a = _summed(nodes, a, [d for d in a.dims if d in needed or d in b.dims])
    b = _summed(nodes, b, [d for d in b.dims if d in needed or d in a.dims])
    rows = [d for d in rows if d in a.dims]
    columns = [d for d in columns if d in b.dims]
    short = bool(summed) and all(d.length for d in summed) and math.prod(d.length for d in summed) < SHORTEST
    if not (summed and rows and columns) or short or "int" in (a.element, b.element):
        made = nodes.op("mul", a, b)
        return _summed(nodes, made, [d for d in made.dims if d in needed])
    if _exchanged(rows, columns, out):
        a, b, rows, columns = b, a, columns, rows
    rows, columns, summed = _longest_last(rows), _longest_last(columns), _longest_last(summed)
    for d in summed:
        a, b = _silent(nodes, a, b, d)
    if len(summed) == 1:
        nodes.summed.update((d.block, ()) for d in summed if d.length)
    # A side of one axis is padded to the least length of a side; rows and columns of several axes are long enough.
    alone = [side[0] for side in (rows, columns) if len(side) == 1]
    nodes.sides.update(dict.fromkeys(d.block for d in (*summed, *alone)))
    iterations = _in_loop(nodes, a) or _in_loop(nodes, b)
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
            outside = [x.fills.get(d) for x in (a, b) if d in x.dims]
            fills[d] = 0.0 if fill_of("mul", [*outside, "finite"]) == 0.0 else None
    return nodes.make(
        "dot", (a, b), dims, "real", (tuple(batch), tuple(rows), tuple(columns), tuple(summed)), fills=fills, heavy=True
    )


def _exchanged(rows: Sequence[Dim], columns: Sequence[Dim], out: Sequence[Dim]) -> bool:
    """Whether the rows of a product become its columns, where `out` are the dimensions of its result.

    Columns are what a loop streams, else several dimensions beside one that is long enough for products of a warpgroup:
    second factors are read from shared memory as they lie there, and first ones of several dimensions through
    registers. Otherwise the first dimension of the result is one of the rows.
    """
    streamed = [any(d.loop is not None for d in side) for side in (rows, columns)]
    if streamed[0] != streamed[1]:
        return streamed[0]
    if not streamed[0] and (len(rows) == 1) != (len(columns) == 1):
        (one,) = rows if len(rows) == 1 else columns
        if one.length >= ROWS:
            return len(columns) == 1
    order = {d: k for k, d in enumerate(out)}
    return order.get(columns[0], len(order)) < order.get(rows[0], len(order))


def _lengths(nodes: Nodes, side: Sequence[Dim], depth: bool) -> None:
    """Records which untiled axes of a side must be padded to `SHORTEST` entries.

    One axis of the side is enough, and none is needed if the side has a tile that is long enough.
    """
    untiled = [d.block for d in side if not d.length]
    long = [d.block for d in side if d.length >= SHORTEST]
    if len(side) > 1 and long:
        nodes.short.update(dict.fromkeys(untiled))
        for block in long if depth else ():
            nodes.summed.setdefault(block, tuple(d.block for d in side if d.block != block))
    elif untiled:
        nodes.short.update(dict.fromkeys(untiled[:-1]))
        nodes.filled[untiled[-1]] = None


def _longest_last(dims: list[Dim]) -> list[Dim]:
    """Dimensions that are merged into one side of a matrix, the longest last.

    Triton 3.6 has no shared-memory layout for a matrix whose last dimension is merged from runs of less than 16 bytes:
    its compiler aborts the process. Untiled axes may be short beside a long tile (see `_lengths`).
    """
    return sorted(dims, key=lambda d: min(d.length or SHORTEST - 1, SHORTEST))


def _operand(nodes: Nodes, node: TileNode, in_registers: bool, depth: tuple[str, ...]) -> TileNode:
    """A factor as an operand of matrix units: a loaded block gets a load for this use alone.

    Triton 3.6 allocates one buffer too few for a block that a product in flight and other work both read, and results
    are wrong. So the other work has a load of its own. A loop-invariant row factor is loaded into registers
    (`in_registers`); otherwise each iteration would read it from shared memory.
    """
    if node.kind == "relabel":
        (inner,) = node.args
        own = _operand(nodes, inner, in_registers, depth)
        return node if own is inner else nodes.make("relabel", (own,), node.dims, node.element, fills=dict(node.fills))
    looped = node.kind == "load" and _in_loop(nodes, node)
    if node.kind != "load" or not (looped or (in_registers and node.data[4] is not None)):
        return node
    if not looped:
        node.data[4].looped = True
    role = "dot" if looped else "registers"
    own = nodes.make(
        "load", node.args, node.dims, node.element, (*node.data[:5], role, depth), fills=dict(node.fills), heavy=True
    )
    own.wanted = node.wanted
    if looped:
        nodes.twins[node] = own
    return own


def _in_loop(nodes: Nodes, node: TileNode) -> bool:
    """Whether iterations of a loop have tiles of their own of a node, of blocks or of single entries of its axis."""
    return node.scope is not nodes.root or any(d.loop is not None for d in node.dims)


def _silent(nodes: Nodes, a: TileNode, b: TileNode, dim: Dim) -> tuple[TileNode, TileNode]:
    """The two factors, masked so that their product is 0 at positions of `dim` past the end of its axis."""
    if dim.within is None:
        return a, b
    outside = (a.fills.get(dim), b.fills.get(dim))
    if 0.0 in outside and all(map(finite, outside)):
        return a, b
    if outside[0] != 0.0:
        a = nodes.masked(a, dim, 0.0)
    if outside[1] != 0.0:
        b = nodes.masked(b, dim, 0.0)
    return a, b


def _summed(nodes: Nodes, node: TileNode, needed: Sequence[Dim]) -> TileNode:
    """A tile summed over the dimensions that are not `needed`."""
    for dim in node.dims:
        if dim not in needed:
            node = nodes.reduce("sum", nodes.masked(node, dim, 0.0), dim)
    return node
