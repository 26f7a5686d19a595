"""Costs in LaTeX: H of each edge and M of each level, as an `align*`."""

from __future__ import annotations

from typing import Any

from catdiag.category.latex_formulas import latex_of, text
from catdiag.cost.level_formulas import LevelsIO
from catdiag.cost.traffic import IO
from catdiag.util.errors import require

Expr = Any


def latex(cost: IO | LevelsIO) -> str:
    """The formulas of `io` in LaTeX, exact and without rounding.

    >>> import catdiag as cd
    >>> print(latex(cd.algorithm("q x")(lambda A: cd.sum(A, "x")).stream("x").group("q").io()))
    \\begin{align*}
    H &= q x + q \\\\
    H^{\\text{relaxed}} &= q x + q \\\\
    M &= g_{q} s_{x} + g_{q}
    \\end{align*}
    """
    require(isinstance(cost, (IO, LevelsIO)), "the cost", cost, "what .io() or .io(levels=…) gives")
    rows: list[tuple[str, Expr]] = []
    if isinstance(cost, LevelsIO):
        for (upper, lower), edge in cost.edges.items():
            ends = rf"_{{{text(upper)} \to {text(lower)}}}"
            rows += [(f"H{ends}", edge.transfers), (rf"H{ends}^{{\text{{relaxed}}}}", edge.relaxed)]
        rows += [(f"M_{{{text(name)}}}", amount) for name, amount in cost.memory.items()]
        rows += [(f"N_{{{text(name)}}}", number) for name, number in cost.children.items()]
    else:
        rows = [("H", cost.transfers), (r"H^{\text{relaxed}}", cost.relaxed), ("M", cost.memory)]
        if cost.accumulators == "registers":
            rows.append((r"M_{\text{registers}}", cost.registers))
    lines = [f"{name} &= {latex_of(expr)}" for name, expr in rows]
    return "\\begin{align*}\n" + " \\\\\n".join(lines) + "\n\\end{align*}"
