"""The types in which matrix products are made: those of their factors, and what computed factors are rounded to."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from catdiag.category.scalars import Cast
from catdiag.codegen.syntax import Number, PythonExpression, dotted
from catdiag.codegen.triton.array_accesses import StoredArray
from catdiag.codegen.triton.kernel_signature import WIDTHS, ModuleContext
from catdiag.codegen.triton.tile_nodes import TileNode
from catdiag.codegen.triton.value_bounds import overflows
from catdiag.schedule.operand_types import BY_WIDTH, cast_of_factor, emitted_type, operand_type


@dataclass
class ProductTypes:
    """The types of the products of a kernel that reads some `arrays`; `module` is that of the language."""

    shared: ModuleContext
    arrays: Collection[StoredArray]
    module: str

    def product_type(self, a: TileNode, b: TileNode) -> tuple[str, list[str | None], StoredArray | None]:
        """The operand type of a matrix product, the types of its factors, and an array with the operand type.

        The type of a factor is None if it was computed. The array is given only if a factor was computed. Computed
        factors that may be too large for fp16 are multiplied in tf32, whose precision is that of fp16.
        """
        kind, kinds, known = self._common_type(a, b)
        computed = [x for x, own in zip((a, b), kinds, strict=True) if own is None]
        return ("tf32", kinds, None) if kind == "fp16" and any(map(overflows, computed)) else (kind, kinds, known)

    def _common_type(self, a: TileNode, b: TileNode) -> tuple[str, list[str | None], StoredArray | None]:
        """The type that both factors of a matrix product have or are rounded to
        (`catdiag.schedule.operand_types`); see `product_type`."""
        arrays = [_array(x) for x in (a, b)]
        kinds = [None if x is None else self._kind(x) for x in arrays]
        first, second = (kind or _cast(x) for kind, x in zip(kinds, (a, b), strict=True))
        real = [x for x in self.arrays if x.ty.element in ("real", "extended")]
        read = [x for x in arrays if x is not None] or [x for x in real if x.name in self.shared.factors] or real[:1]
        known = max(read, key=lambda x: BY_WIDTH.index(self._kind(x)), default=None)
        otherwise = "fp16" if known is None else self._kind(known)
        found = emitted_type(operand_type(first, second, otherwise), (first, second))
        of_array = None not in kinds or known is None or self._kind(known) != found
        return found, kinds, None if of_array else known

    def _kind(self, array: StoredArray) -> str:
        """The element type of an array."""
        return self.shared.dtypes.get(array.name, self.shared.dtype)

    def factors(self, a: TileNode, b: TileNode) -> tuple[PythonExpression | None, PythonExpression | None]:
        """The types to which the factors of a matrix product are converted; None for a factor that has it already."""
        kind, kinds, known = self.product_type(a, b)
        own = dotted(f"{self.module}.{WIDTHS[kind]}" if known is None else f"{known.name}.dtype.element_ty")
        wide = kind == "tf32" and known is None  # what is computed has this type already
        first, second = (None if x == kind or (wide and x is None) else own for x in kinds)
        return first, second

    def precision(self, a: TileNode, b: TileNode) -> Mapping[str, PythonExpression]:
        """The precision argument of a matrix product: tf32x3 for float32 factors; tf32 factors are truncated."""
        return {"input_precision": Number("tf32x3")} if self.product_type(a, b)[0] == "fp32" else {}


def _cast(node: TileNode) -> str:
    """The type of the cast that made a tile, if one did: the tile is written in fp32, but its values have that type."""
    while node.kind in ("relabel", "spread"):
        (node,) = node.args
    return cast_of_factor(Cast(node.data)) if node.kind == "cast" else ""


def _array(node: TileNode) -> StoredArray | None:
    """The array that a tile was loaded from, if it still has that array's type."""
    while node.kind in ("relabel", "guard", "spread"):
        node = node.args[1] if node.kind == "guard" else node.args[0]
    return node.data[0] if node.kind == "load" and node.element == "raw" else None
