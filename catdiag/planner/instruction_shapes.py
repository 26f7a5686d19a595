"""In which pieces a chip wants tiles and blocks: shapes of matrix instructions, whole rows of loads.

>>> import catdiag as cd
>>> from catdiag.chip import hardware
>>> from catdiag.schedule.kernel_analysis import measure
>>> product = cd.library.get("matmul").stream("b").group("a c")
>>> kernel = measure(product.diagram, "bf16", registers=True).kernels[0]
>>> {name: dict(why) for name, why in by_symbol(pieces(product.diagram, kernel, hardware.H100, "bf16")).items()}
{'g_a': {'matrix rows': 64}, 'g_c': {'matrix columns': 8, 'row of a load': 64}, 's_b': {'matrix depth': 16, \
'row of a load': 64}}
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from catdiag.category.diagram import inline
from catdiag.category.integer_polynomial import Amount
from catdiag.category.ops import Box, Fold, Group, array_name
from catdiag.chip.hardware import Hardware
from catdiag.schedule.kernel_analysis import width
from catdiag.schedule.liveness import Kernel, is_view, multiplies, spots

if TYPE_CHECKING:
    from catdiag.category.diagram import Diagram


@dataclass(frozen=True)
class Piece:
    """An amount that should be a multiple of a number, and why; `each`: for each that works on rows alone."""

    amount: Amount
    piece: int
    why: str
    each: bool = False


def pieces(diagram: Diagram, kernel: Kernel, chip: Hardware, dtype: str) -> tuple[Piece, ...]:
    """What the chip's matrix units and loads want of the tiles and blocks of a kernel.

    Of a contraction, the side that carries a grouped axis is the rows (the left one if both or none do), the other the
    columns; what is summed is the depth. Where turns of a loop wait for sums along rows, rows are not shared between
    warps (or warpgroups, where those work on a piece), so that each should have whole pieces. The last axis of what
    groups and loops read is a row of a load: `row_bytes` of it should be whole.
    """
    names = {*kernel.tiles, *(block for block, _ in kernel.loops)}
    found: dict[Piece, None] = {}

    def want(amount: Amount, piece: int, why: str, each: bool = False) -> None:
        if piece > 1 and amount.symbols() & names:
            found[Piece(amount, piece, why, each)] = None

    along = any(length for nest, length in kernel.chains.items() if nest)
    element = width(dtype)
    if dtype in chip.tensor:
        for c in kernel.contractions:
            rows, columns = (c.columns, c.rows) if c.sides == (False, True) else (c.rows, c.columns)
            want(rows, chip.matrix_rows, "matrix rows", along)
            want(columns, chip.matrix_columns, "matrix columns")
            want(c.depth, chip.depth_piece(element), "matrix depth")
    todo = [(diagram, [False] * len(diagram.dom))]
    while todo:
        whole, spot = todo.pop()
        graph = inline(whole).graph
        free = spots(graph, spot)  # what is computed on the spot is not loaded
        for node in graph.nodes:
            op = node.box.op
            if not isinstance(op, (Group, Fold)):
                continue
            inner = op.body if isinstance(op, Group) else op.step
            states = 0 if isinstance(op, Group) else len(node.box.cod)
            known = [False] * states + [free[w] for w in node.inputs]
            todo.append((inner, known))
            for ty, computed in zip(inner.dom.arrays[states:], known[states:], strict=True):
                if ty.axes and not computed:
                    each = {"bool": 1, "int": 4}.get(ty.element, element)
                    want(Amount.of(ty.axes[-1].size), max(1, chip.row_bytes // each), "row of a load")
    return tuple(found)


def read_by_products(diagram: Diagram) -> tuple[tuple[str, Amount], ...]:
    """The arrays that contractions read and that boxes beside them make: what passes from one unit to the other.

    All of them, whether live at once or not: an upper bound where there are several.
    """
    found: dict[tuple[str, Amount], None] = {}
    todo = [diagram]
    while todo:
        graph = inline(todo.pop()).graph
        maker: list[Box | None] = [None] * len(graph.dom)
        for node in graph.nodes:
            op = node.box.op
            if isinstance(op, Group):
                todo.append(op.body)
            elif isinstance(op, Fold):
                todo.append(op.step)
            elif multiplies(node.box):
                for w, ty in zip(node.inputs, node.box.dom, strict=True):
                    made = maker[w]
                    if made is not None and not isinstance(made.op, (Fold, Group)):
                        found[(array_name(made), Amount.elements(ty.axes))] = None
            before = maker[node.inputs[0]] if is_view(node.box) else node.box
            maker.extend([before] * len(node.box.cod))
    return tuple(found)


def by_symbol(wanted: Iterable[Piece]) -> dict[str, dict[str, int]]:
    """For each tile or block that stands alone in one: the pieces, by reason. Their least common multiple is its step.

    An amount that is a product of several, as where axes are packed into rows, is listed as that product.
    """
    found: dict[str, dict[str, int]] = {}
    for piece in wanted:
        of = found.setdefault(str(piece.amount), {})
        of[piece.why] = math.lcm(of.get(piece.why, 1), piece.piece)
    return {name: dict(sorted(of.items())) for name, of in sorted(found.items())}


def step(name: str, divisors: Mapping[str, Mapping[str, int]]) -> int:
    """The least common multiple of a tile's pieces."""
    return math.lcm(*divisors.get(name, {}).values())
