"""In which pieces a chip wants tiles and blocks: shapes of matrix instructions, whole rows of loads.

>>> import catdiag as cd
>>> from catdiag.chip import hardware
>>> from catdiag.schedule.kernel_analysis import measure
>>> product = cd.library.get("matmul").stream("b").group("a c")
>>> kernel = measure(product.diagram, "bf16", registers=True).kernels[0]
>>> {name: dict(why) for name, why in by_symbol(alignments(kernel, hardware.H100)).items()}
{'g_a': {'matrix rows': 64}, 'g_c': {'matrix columns': 8, 'row of a load': 64}, 's_b': {'matrix depth': 16, \
'row of a load': 64}}
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from catdiag.category.integer_polynomial import IntPolynomial
from catdiag.category.ops import Box, FoldOp, array_name
from catdiag.category.types import element_bytes
from catdiag.chip.hardware import Hardware
from catdiag.schedule.access_region import TileWindow
from catdiag.schedule.contractions import Contraction
from catdiag.schedule.element_widths import width
from catdiag.schedule.kernel_work import product_types
from catdiag.schedule.live_ranges import is_view
from catdiag.schedule.lowered_kernel import LoweredKernel


@dataclass(frozen=True)
class Alignment:
    """An amount that should be a multiple of a number, and why; `per_worker`: for each that works on rows alone."""

    size: IntPolynomial
    multiple: int
    reason: str
    per_worker: bool = False


def rows_and_columns(c: Contraction) -> tuple[IntPolynomial, IntPolynomial]:
    """The sides of a product as matrix units take them: the one that carries a grouped axis is the rows, the left one
    if both or none do."""
    return (c.rows, c.columns) if c.second else (c.columns, c.rows)


def alignments(kernel: LoweredKernel, chip: Hardware) -> tuple[Alignment, ...]:
    """What the chip's matrix units and loads want of the tiles and blocks of a kernel.

    Of a contraction, `rows_and_columns` says which side is which; what is summed is the depth. Where iterations of a
    loop wait for sums along rows, rows are not shared between warps (or warpgroups, where those work on a piece), so
    that each should have whole pieces. The last axis of what groups and loops read is a row of a load: `row_bytes` of
    it should be whole, but for taps of windows that are read one at a time, and, beside products, for statistics of
    arrays that are read too.
    """
    names = {*kernel.tiles, *(block for block, _ in kernel.loops)}
    found: dict[Alignment, None] = {}

    def want(amount: IntPolynomial, piece: int, why: str, each: bool = False) -> None:
        if piece > 1 and amount.symbols() & names:
            found[Alignment(amount, piece, why, each)] = None

    along = any(length for nest, length in kernel.chains.items() if nest)
    for c in kernel.contractions:
        if c.dtype in chip.tensor:
            rows, columns = rows_and_columns(c)
            want(rows, chip.matrix_rows, "matrix rows", along)
            want(columns, chip.matrix_columns, "matrix columns")
            want(c.depth, chip.depth_piece(width(c.dtype)), "matrix depth")
    windows = [] if kernel.contractions else kernel.gathered_loads
    taps = {name for load in windows for name in load.taps.symbols()}
    for body in kernel.bodies():
        loaded = [set(ty.names) for ty, buffer in zip(body.graph.dom, body.inputs, strict=True) if buffer is not None]
        for ty, buffer in zip(body.graph.dom, body.inputs, strict=True):
            axes = buffer.axes if buffer is not None and buffer.axes else ty.axes
            last = axes[-1].size if axes else 1
            small = bool(kernel.contractions) and any(set(ty.names) < names for names in loaded)
            if last != 1 and last not in taps and buffer is not None and buffer.role != "accumulator" and not small:
                want(IntPolynomial.of(last), max(1, chip.row_bytes // buffer.width), "row of a load")
    return tuple(found)


def read_by_products(kernels: Iterable[LoweredKernel]) -> tuple[tuple[str, IntPolynomial], ...]:
    """The arrays that contractions read and that boxes beside them make, in bytes: what passes from one unit to the
    other.

    All of them, whether live at once or not: an upper bound where there are several.
    """
    found: dict[tuple[str, IntPolynomial], None] = {}
    for body, computed in [(body, kernel.computed_type) for kernel in kernels for body in kernel.bodies()]:
        made: list[Box | None] = [None] * len(body.graph.dom)
        for place, node in enumerate(body.graph.nodes):
            dtype = product_types(body, place, computed)[1]
            for w, ty in zip(node.inputs, node.box.dom, strict=True) if dtype else ():
                maker = made[w]
                if maker is not None and not isinstance(maker.op, FoldOp):
                    found[(array_name(maker), IntPolynomial.elements(ty.axes).scaled(width(dtype)))] = None
            # What is read in place is not the same elements for a matrix unit.
            same = is_view(node.box) and not isinstance(node.box.op, TileWindow)
            made += [made[node.inputs[0]] if same else node.box] * len(node.box.cod)
    return tuple(found)


def by_symbol(wanted: Iterable[Alignment]) -> dict[str, dict[str, int]]:
    """For each tile or block that stands alone in one: the pieces, by reason. Their least common multiple is its step.

    An amount that is a product of several, as where axes are packed into rows, is listed as that product.
    """
    found: dict[str, dict[str, int]] = {}
    for piece in wanted:
        of = found.setdefault(str(piece.size), {})
        of[piece.reason] = math.lcm(of.get(piece.reason, 1), piece.multiple)
    return {name: dict(sorted(of.items())) for name, of in sorted(found.items())}


def step(name: str, divisors: Mapping[str, Mapping[str, int]]) -> int:
    """The least common multiple of a tile's pieces, in entries."""
    return math.lcm(*divisors.get(name, {}).values())


UPCAST_COLUMNS = 64
"""Rows below which, and columns from which on, `upcast_by_warpgroups` holds."""


def upcast_by_warpgroups(
    products: Iterable[tuple[IntPolynomial, IntPolynomial, IntPolynomial]],
    values: Mapping[str, Any],
    dtype: str | Mapping[str, str],
) -> Any:
    """Whether products, by their rows, columns and depth, whose first operand is made in registers, are not written for
    instructions of single warps for their shape, where the second one is upcast from 8 bits: with fewer columns, ptxas
    makes wrong instructions of warpgroups (`_dot_of_registers` in `catdiag.codegen.triton.triton_dialect`).

    >>> g, h = IntPolynomial.of("g"), IntPolynomial.of("h")
    >>> [bool(upcast_by_warpgroups([(g, h, g)], {"g": 64, "h": columns}, "fp8")) for columns in (32, 64)]
    [False, True]
    """
    right: Any = True
    if all(element_bytes(kind) > 1 for kind in ((dtype,) if isinstance(dtype, str) else dtype.values())):
        return right
    for rows, columns, _ in products:
        right = right & ((rows.value(values) < UPCAST_COLUMNS) | (columns.value(values) >= UPCAST_COLUMNS))
    return right
