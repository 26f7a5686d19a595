"""The tiles of all levels chosen together: one program for what crosses every edge, under every level's memory.

Transfers of the edges are weighed (by the cost of a unit: one over a bandwidth, an energy) and added, or, where edges
work at the same time, the greatest counts. Tiles and blocks of a level are at most those of the level above. This is
equation 2 of "FlashAttention on a Napkin" (Abbott and Zardini, arXiv 2412.03317, section 4) with exact memories and
tiles within tiles in place of independent levels.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeAlias

import sympy
from sympy import Expr

from catdiag.cost.levelled import LevelsIO
from catdiag.cost.optimum import Optimum, minimise
from catdiag.errors import CatdiagError, require

Amount: TypeAlias = Expr | int


def levels_together(
    io: LevelsIO,
    weights: Mapping[str, Amount] | None = None,
    capacities: Mapping[str, Amount] | None = None,
    children: Mapping[str, Amount] | None = None,
    *,
    slowest: bool = False,
) -> Optimum:
    """The program of all levels: ask its `regimes` for formulas, its `bracket(sizes)` for certified numbers.

    `weights` gives the cost of a unit crossing the edge down to a level (1 where it is not given), `capacities` how
    much a level holds (by default `io.capacity`), both in the unit of `io`; `children` how many pieces of a level there
    may be side by side in one of the level above (any number where it is not given). With `slowest`, the greatest of
    the weighted edges counts, else their sum. Raises CatdiagError for a level without tiles.

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
    memory = [(held, sympy.sympify((capacities or {}).get(n, io.capacity(n)))) for n, held in program.memory.items()]
    memory += [(program.children[name], sympy.sympify(most)) for name, most in (children or {}).items()]
    bounds = {t: above for n in names for t, above in (*program.tiles[n].items(), *program.blocks.get(n, {}).items())}
    return minimise(edges, memory, list(bounds), [], bounds=bounds, slowest=slowest)
