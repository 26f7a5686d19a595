"""Registers of products by AMD's matrix cores (MFMA), on chips whose warps have 64 threads.

LLVM reads whole factors from shared memory before it multiplies them, so that a thread holds all that its warp takes
of a factor. An instruction gives 32 × 32 entries, or 16 × 16 of narrower products; where a block has fewer rows than
its warps have instructions, several warps make the same rows.

>>> from catdiag.category.integer_polynomial import IntPolynomial
>>> q, x, d = map(IntPolynomial.of, "qxd")
>>> scores = DotProducts(sides={(q, x, d): 1})
>>> taken = MfmaRegisters.of(scores, {"q": 64, "x": 64, "d": 64}, warps=4)
>>> int(taken.results), int(taken.factors)
(16, 32)
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from catdiag.planner.resources.block_resources import Numbers, Values
from catdiag.planner.resources.dot_products import WIDE, DotProducts, Sides

WARP = 64
"""Threads of a warp."""
_LONG, _SHORT = 32, 16
"""Rows and columns of what an instruction gives."""


@dataclass(frozen=True)
class MfmaRegisters:
    """Registers of a thread, of 4 bytes each: those of the results of all products, and of the factors; and those of
    the results if each entry were held once."""

    results: Numbers
    factors: Numbers
    held_once: Numbers

    @staticmethod
    def of(products: DotProducts, values: Values, warps: int) -> MfmaRegisters:
        """Those of blocks of so many warps."""
        results: Numbers = 0
        factors: Numbers = 0
        once: Numbers = 0
        for sides, count in products.sides.items():
            rows, columns = _of_a_warp(products, sides, values, warps)
            width = WIDE if sides in products.wide else 2
            results = results + count * rows * columns / WARP
            factors = factors + count * (rows + columns) * sides[2].value(values) * width / (4 * WARP)
            once = once + count * sides[0].value(values) * sides[1].value(values) / (WARP * warps)
        return MfmaRegisters(results, factors, once)


def _of_a_warp(products: DotProducts, sides: Sides, values: Values, warps: int) -> tuple[Numbers, Numbers]:
    """The rows and columns of a product that a warp makes. All warps are along the rows of a product whose result
    another takes; else they are divided so that each has about as many instructions along both."""
    rows, columns = np.asarray(sides[0].value(values)), np.asarray(sides[1].value(values))
    entry = np.where((rows >= _LONG) & (columns >= _LONG), _LONG, _SHORT)
    down: Numbers = 1
    if products.register_factors and len(products.sides) > 1 and sides not in products.passing:
        down = warps
    else:
        along = [rows / entry, columns / entry]
        for _ in range(warps.bit_length() - 1):
            taken = along[0] >= along[1]
            down = np.where(taken, 2 * down, down)
            along = [np.where(taken, np.maximum(1, along[0] / 2), along[0]),
                     np.where(taken, along[1], np.maximum(1, along[1] / 2))]  # fmt: skip
    return np.maximum(rows / down, entry), np.maximum(columns * down / warps, entry)
