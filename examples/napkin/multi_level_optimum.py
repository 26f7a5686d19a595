"""Multi-level tiling: the tiles of all levels chosen together, as one program over every edge and every memory.

The transfers of the edges are weighted (by the cost of one unit: the inverse of a bandwidth, or an energy) and added.
Where edges work at the same time, the largest counts (minimax). Tiles and blocks of a level are at most those of the
level above. This is equation 2 of "FlashAttention on a Napkin" (Abbott and Zardini, arXiv 2412.03317, section 4), with
exact memories, and with nested tiles in place of independent levels.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeAlias

import sympy
from sympy import Expr

from catdiag.cost.level_formulas import LevelsIO
from catdiag.optimum.minimize import Optimum, minimize
from catdiag.util.errors import CatdiagError, require

Amount: TypeAlias = Expr | int


def levels_together(
    io: LevelsIO,
    weights: Mapping[str, Amount] | None = None,
    capacities: Mapping[str, Amount] | None = None,
    children: Mapping[str, Amount] | None = None,
    *,
    slowest: bool = False,
) -> Optimum:
    """The program of all levels: its `regimes` give formulas, its `bracket(sizes)` certified numbers.

    `weights` gives the cost of one unit crossing the edge down to a level (1 where not given), `capacities` the
    capacity of a level (by default `io.capacity`), both in the unit of `io` (values or bytes). `children` gives the
    largest number of tiles of a level within one tile of the level above (unbounded where not given). With `slowest`,
    the largest of the weighted edges counts, else their sum. Raises CatdiagError for a level without tiles.

    >>> import catdiag as cd
    >>> product = cd.library.get("matmul").stream("b").group("a c")
    >>> whole = levels_together(product.io(levels=("HBM", "SMEM", "registers")), {"SMEM": 10, "registers": 1})
    >>> sizes = {"a": 4096, "b": 4096, "c": 4096, "M_SMEM": 50000, "M_registers": 10000}
    >>> found = whole.bracket(sizes)
    >>> found.gap < 1e-6, {str(t): round(float(size)) for t, size in found.tiles.items()}["g2_a"]
    (True, 99)
    """
    require(isinstance(io, LevelsIO), "io", io, "what .io(levels=…) gives")
    program = io.programs()
    names = list(program.memory)
    for given in (weights or {}, capacities or {}, children or {}):
        if unknown := [name for name in given if name not in names]:
            raise CatdiagError(f"{unknown[0]!r} has no tiles here: expected one of {', '.join(names)}")
    edges = [(sympy.sympify((weights or {}).get(lower, 1)), moved) for (_, lower), moved in program.objective.items()]
    memory = [
        (amount, sympy.sympify((capacities or {}).get(n, io.capacity(n)))) for n, amount in program.memory.items()
    ]
    memory += [(program.children[name], sympy.sympify(most)) for name, most in (children or {}).items()]
    bounds = {t: above for n in names for t, above in (*program.tiles[n].items(), *program.blocks.get(n, {}).items())}
    return minimize(edges, memory, list(bounds), [], bounds=bounds, minimax=slowest)
