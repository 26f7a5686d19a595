"""Prints expression nodes as Gluon. In Gluon each tile has an explicit register layout.

Each warpgroup computes rows of its own, at least 64. Layouts are chosen as follows.

- A tile of rows and columns has the accumulator layout of the matrix units: one layout for each number of columns.
- A vector over rows or over columns has a slice layout of such a tile.
- All vectors over rows share one layout, that of the main tile. They are converted where they meet another tile. The
  conversion moves no data, since all of these layouts distribute rows over threads in the same way.
"""

from __future__ import annotations

from collections.abc import Sequence

from catdiag.codegen.kernel_tree import Assign
from catdiag.codegen.syntax import (
    CALL,
    ListOf,
    Name,
    Number,
    PythonExpression,
    Subscript,
    Whole,
    bracketed,
    call,
    joined,
    length_of,
)
from catdiag.codegen.triton.tile_nodes import Dim, TileNode
from catdiag.codegen.triton.triton_dialect import tile_dialect
from catdiag.codegen.triton.triton_printer import TritonPrinter
from catdiag.util.errors import TypeMismatch

GLUON = tile_dialect("Gluon", "gluon", "gl", "_rows")
"""Triton's functions under Gluon's names; its helper functions have names of their own beside Triton's."""


class Unfit(TypeMismatch):
    """The kernel has no warp-specialized form. The plain Triton form is used instead, and plans say the reason."""


class RowPrinter(TritonPrinter):
    """Prints nodes as one warpgroup computes them; the rows of the tile `symbol` are divided over warpgroups."""

    symbol = ""
    each = "each"
    me = "me"
    rows = "rows"

    def begin(self, symbol: str, each: str, me: str, rows: str) -> None:
        """Sets the tile whose rows are divided over warpgroups, and the names of three constants of the kernel.

        `each` is the number of rows of a warpgroup, `me` its index, `rows` the layout of vectors over rows.
        """
        self.symbol, self.each, self.me, self.rows = symbol, each, me, rows
        self.tiles: dict[str, str] = {}
        self.main = ""

    # -- layouts -----------------------------------------------------------------------------------------------

    def is_row(self, dim: Dim) -> bool:
        """Whether a dimension is the row dimension."""
        return dim.size == self.symbol

    def tile(self, dim: Dim) -> str:
        """The name of the layout of a tile with these columns; all tiles with as many columns share it."""
        if dim.block not in self.tiles:
            axis = "".join(c for c in dim.axis if c.isalnum() or c == "_") or "i"
            self.tiles[dim.block] = self.fresh(f"by_{axis}")
        return self.tiles[dim.block]

    def layout(self, dims: tuple[Dim, ...]) -> PythonExpression:
        """The layout of a tile; the order of `dims` does not matter. Raises Unfit for two row or column dimensions."""
        rows, columns = [d for d in dims if self.is_row(d)], [d for d in dims if not self.is_row(d)]
        if len(rows) > 1 or len(columns) > 1:
            raise Unfit(f"a tile over {' '.join(d.axis for d in dims)}: expected at most one row and one column")
        if not columns:
            return Name(self.rows)
        tile = Name(self.tile(columns[0]))
        return tile if rows else call("gl.SliceLayout", Number(0), tile)

    def shape(self, dims: tuple[Dim, ...]) -> ListOf:
        """The shape of one warpgroup's part of a tile, rows first."""
        return ListOf(tuple(length_of(self.each if self.is_row(d) else d.block) for d in self.ordered(dims)))

    def ordered(self, dims: Sequence[Dim]) -> list[Dim]:
        """The dimensions in the order of all tiles in these kernels: rows first."""
        return sorted(dims, key=lambda d: not self.is_row(d))

    def permuted(self, of: PythonExpression, dims: Sequence[Dim], order: Sequence[Dim]) -> PythonExpression:
        """The tile unchanged: all tiles have their dimensions in one order."""
        return of

    def full(self, dims: tuple[Dim, ...], value: PythonExpression, kind: PythonExpression) -> PythonExpression:
        """A tile filled with one value."""
        return call("gl.full", self.shape(dims), value, kind, self.layout(dims))

    # -- expressions -------------------------------------------------------------------------------------------

    def expression(self, node: TileNode) -> PythonExpression:
        """The expression of a node. Raises Unfit for what cannot be written in registers."""
        if node.kind == "arange":
            (dim,) = node.dims
            if self.is_row(dim):
                each = Name(self.each)
                own = call("gl.arange", Number(0), each, Name(self.rows))
                return joined(joined(Name(self.me), "*", each), "+", own)
            return call("gl.arange", Number(0), length_of(dim.block), self.layout(node.dims))
        if node.kind == "spread":
            zeros = self.full(node.dims, Number(0), self.dialect.type_of(node.element))
            return joined(self.aligned(node.args[0], node.dims), "+", zeros)
        if node.kind == "const" and node.element == "bool":
            return call("gl.to_tensor", Number(bool(node.data)))
        if node.kind == "exchanged":
            raise Unfit("a tile in registers is read at other positions than its own")
        if node.kind == "dot":
            raise Unfit("a matrix product is used elsewhere than at the start or the end of an iteration")
        return super().expression(node)

    def _reduce(self, node: TileNode) -> PythonExpression:
        (arg,) = node.args
        if self.is_row(node.data[1]):
            raise Unfit("a reduction over rows would combine rows of several warpgroups")
        found = self._reduced(node, len(arg.dims) - 1)
        if len(arg.dims) == 1 or self.tile(node.data[1]) == self.main:
            return found
        return call("gl.convert_layout", found, Name(self.rows))

    def _load(self, node: TileNode, descriptor: str = "") -> PythonExpression:
        tiled = node.args[1]
        if node.dims and set(tiled.dims) != set(node.dims):
            raise Unfit("the addresses of a load do not have all the dimensions of the loaded tile")
        self.layout(node.dims)
        return super()._load(node, descriptor)

    def _boxed(self, node: TileNode, wanted: str) -> str:
        name = self.fresh(wanted or node.wanted)
        node.scope.write(Assign((Name(name),), self._load(node), note=node.note))
        self.names[node] = name
        return name

    def conjunction(
        self, condition: PythonExpression, dims: tuple[Dim, ...], shown: tuple[Dim, ...]
    ) -> PythonExpression:
        """The condition of a mask."""
        return condition

    def aligned(self, node: TileNode, dims: tuple[Dim, ...] | list[Dim]) -> PythonExpression:  # type: ignore[override]
        """The expression of a node, expanded so that it broadcasts against tiles over `dims`."""
        found = self.plain(node)
        if not node.dims or not dims:
            return found
        self.layout(node.dims)
        wanted = self.layout(tuple(dims))
        if set(node.dims) == set(dims):
            return found
        if self.is_row(node.dims[0]):
            return call("_down", found, wanted)
        return Subscript(bracketed(found, CALL), (Number(None), Whole()))
