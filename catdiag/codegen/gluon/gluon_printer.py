"""Nodes as lines of Gluon, in which each tile says how its entries lie in registers: rows over the threads.

A warpgroup has rows of its own, at least 64. A tile of rows and columns lies as the matrix units leave it (a layout for
each length of columns), a number for each row or column as a slice of such a tile. Numbers for each row are kept in one
layout; to another tile's they are converted, which moves nothing, since rows lie the same way in all of them.
"""

from __future__ import annotations

from collections.abc import Sequence

from catdiag.codegen.source_writer import ATOM, Text
from catdiag.codegen.triton.tile_expressions import Dim, TileNode
from catdiag.codegen.triton.triton_printer import CALL, PLUS, TritonPrinter, bracketed
from catdiag.util.errors import TypeMismatch

KINDS = {"int": "tl.int32", "bool": "tl.int1"}


class Unfit(TypeMismatch):
    """The kernel has no form in which warps that load are apart; it has another."""


class RowPrinter(TritonPrinter):
    """Writes nodes for warpgroups that have rows each: `symbol` is the tile that is cut into rows."""

    symbol = ""
    each = "each"
    me = "me"
    rows = "rows"

    def begin(self, symbol: str, each: str, me: str, rows: str) -> None:
        """Says which tile is cut into rows, and the names of how many rows a warpgroup has, which it is, and of the
        layout of a number for each."""
        self.symbol, self.each, self.me, self.rows = symbol, each, me, rows
        self.tiles: dict[str, str] = {}
        self.main = ""

    # -- layouts -----------------------------------------------------------------------------------------------

    def is_row(self, dim: Dim) -> bool:
        """Whether a dimension is that of the rows."""
        return dim.size == self.symbol

    def tile(self, dim: Dim) -> str:
        """The name of the layout of a tile with these columns."""
        if dim.block not in self.tiles:
            axis = "".join(c for c in dim.axis if c.isalnum() or c == "_") or "i"
            self.tiles[dim.block] = self.fresh(f"by_{axis}")
        return self.tiles[dim.block]

    def layout(self, dims: tuple[Dim, ...]) -> str:
        """The layout of a tile, in whatever order its dimensions are given; raises Unfit where it has none."""
        rows, columns = [d for d in dims if self.is_row(d)], [d for d in dims if not self.is_row(d)]
        if len(rows) > 1 or len(columns) > 1:
            raise Unfit(f"tiles over {' '.join(d.axis for d in dims)} are no rows and columns")
        if not columns:
            return self.rows
        tile = self.tile(columns[0])
        return tile if rows else f"gl.SliceLayout(0, {tile})"

    def shape(self, dims: tuple[Dim, ...]) -> str:
        """The lengths of a tile of one warpgroup, rows first."""
        return f"[{', '.join(self.each if self.is_row(d) else d.block for d in self.ordered(dims))}]"

    def ordered(self, dims: Sequence[Dim]) -> list[Dim]:
        """Dimensions as all tiles here have them: rows first."""
        return sorted(dims, key=lambda d: not self.is_row(d))

    def permuted(self, text: Text, dims: Sequence[Dim], order: Sequence[Dim]) -> Text:
        """The tile as it is: all have their dimensions in one order."""
        return text

    def full(self, dims: tuple[Dim, ...], value: str, kind: str) -> str:
        """A tile of equal entries."""
        return f"gl.full({self.shape(dims)}, {value}, {kind}, {self.layout(dims)})"

    # -- texts -------------------------------------------------------------------------------------------------

    def text(self, node: TileNode) -> Text:
        """A node as an expression."""
        if node.kind == "arange":
            (dim,) = node.dims
            if self.is_row(dim):
                return f"{self.me} * {self.each} + gl.arange(0, {self.each}, {self.rows})", PLUS
            return f"gl.arange(0, {dim.block}, {self.layout(node.dims)})", ATOM
        if node.kind == "spread":
            kind = KINDS.get(node.element, "tl.float32")
            return f"{self.aligned(node.args[0], node.dims)[0]} + {self.full(node.dims, '0', kind)}", PLUS
        if node.kind == "const" and node.element == "bool":
            return f"gl.to_tensor({bool(node.data)})", ATOM
        if node.kind == "dot":
            raise Unfit("a product of matrices is no step of a turn")
        return super().text(node)

    def _reduce(self, node: TileNode) -> Text:
        (arg,) = node.args
        if self.is_row(node.data[1]):
            raise Unfit("rows of several warpgroups are reduced to one")
        text = self._reduced(node, len(arg.dims) - 1)
        if len(arg.dims) == 1 or self.tile(node.data[1]) == self.main:
            return text
        return f"gl.convert_layout({text[0]}, {self.rows})", ATOM

    def _load(self, node: TileNode) -> str:
        tiled = node.args[1]
        if node.dims and set(tiled.dims) != set(node.dims):
            raise Unfit("entries are read by an address that is not theirs alone")
        self.layout(node.dims)
        return super()._load(node)

    def _boxed(self, node: TileNode, wanted: str) -> str:
        name = self.fresh(wanted or node.wanted)
        self.write(node.scope, f"{name} = {self._load(node)}", node.note)
        self.names[node] = name
        return name

    def conjunction(self, texts: list[str], dims: tuple[Dim, ...], shown: tuple[Dim, ...]) -> str:
        """Conditions of a tile as one."""
        return " & ".join(texts)

    def aligned(self, node: TileNode, dims: tuple[Dim, ...] | list[Dim]) -> Text:  # type: ignore[override]
        """A node that broadcasts against others over `dims`."""
        text = self.plain(node)
        if not node.dims or not dims:
            return text
        self.layout(node.dims)
        wanted = self.layout(tuple(dims))
        if set(node.dims) == set(dims):
            return text
        if self.is_row(node.dims[0]):
            return f"_down({text[0]}, {wanted})", ATOM
        return f"{bracketed(text, CALL)}[None, :]", ATOM
