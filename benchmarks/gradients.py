"""The gradient of each operator of the library against finite differences: `python -m benchmarks.gradients`.

Writes docs/results/gradients.md. Sizes are 2 to 4 (7 for images), numbers are of double precision; the difference is
central, with a step of 1e-6, along each single entry of each input.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import catdiag as cd
from catdiag.category.diagram import Diagram
from catdiag.category.substitution import inline
from catdiag.category.types import size_value
from catdiag.execute.interpreter import run
from catdiag.rewrite.differentiate.box_derivatives import has_derivative
from catdiag.rewrite.differentiate.corners_of_programs import differentiability
from catdiag.rewrite.differentiate.gradient import gradient
from catdiag.solvers.z3 import Z3
from catdiag.testing.input_generators import symbols_of
from catdiag.util.files import write_whole

PAGE = Path(__file__).resolve().parent.parent / "docs" / "results" / "gradients.md"
POSITIVE = ("random_feature_attention", "normalised_contraction", "relu_linear_attention")
"""Operators that divide by sums which random numbers of both signs bring near 0."""
STEP, AGREES = 1e-6, 1e-6


def library_arrays(name: str) -> tuple[Diagram, list[Any], dict[str, int]]:
    """An operator of the library, with small arrays and sizes for it."""
    diagram = cd.library.get(name).diagram
    sizes = {symbol: 2 + k % 3 for k, symbol in enumerate(symbols_of(diagram))}
    sizes |= {n: 7 for n in ("h", "w") if n in sizes and ("pool" in name or "conv" in name)}
    rng, arrays = np.random.default_rng(0), []
    for ty in diagram.dom:
        shape = [size_value(a.size, sizes) for a in ty.axes]
        real = rng.normal(size=shape)
        real = np.abs(real) + 0.2 if not shape or name in POSITIVE else real
        integers = rng.integers(0, 2, shape) if shape else np.array(2)
        arrays.append({"int": integers, "bool": rng.random(shape) < 0.7}.get(ty.element, real))
    return diagram, arrays, sizes


@dataclass(frozen=True)
class Row:
    """What was found of an operator: how many boxes it and its gradient have, the largest difference to the finite
    difference (as a part of the largest entry, if that is above 1), the maxima that are proved redundant, and how many
    conditions there are at corners and ties."""

    name: str
    boxes: int
    gradient_boxes: int
    difference: float
    redundant: int
    conditions: int


def measured(name: str, ask: Z3) -> Row:
    """The row of an operator."""
    diagram, arrays, sizes = library_arrays(name)
    found = gradient(diagram, ask)
    real = [k for k, ty in enumerate(diagram.cod) if has_derivative(ty)]
    rng = np.random.default_rng(1)
    cotangents = [rng.normal(size=np.shape(out)) for k, out in enumerate(_run(diagram, arrays, sizes)) if k in real]
    got = _run(found.diagram, [*arrays, *cotangents], sizes)
    worst = 0.0
    for g, k in zip(got, (k for k, ty in enumerate(diagram.dom) if has_derivative(ty)), strict=True):
        expected = np.zeros_like(g)
        for place in np.ndindex(g.shape):
            ends = []
            for step in (STEP, -STEP):
                moved = [np.array(a) for a in arrays]
                moved[k][place] += step
                out = _run(diagram, moved, sizes)
                ends.append(sum(float((out[r] * c).sum()) for r, c in zip(real, cotangents, strict=True)))
            expected[place] = (ends[0] - ends[1]) / (2 * STEP)
        difference = float(np.max(np.abs(expected - g), initial=0))
        worst = max(worst, difference / max(1.0, float(np.max(np.abs(expected), initial=0))))
    conditions = len(differentiability(diagram, ask).conditions)
    return Row(name, len(inline(diagram)), len(found.diagram), worst, len(found.redundant), conditions)


def _run(diagram: Diagram, arrays: Sequence[Any], sizes: dict[str, int]) -> tuple[Any, ...]:
    out = run(diagram, arrays, sizes=sizes)
    return out if isinstance(out, tuple) else (out,)


def page(rows: Sequence[Row]) -> str:
    """The page of these rows."""
    agree = sum(row.difference < AGREES for row in rows)
    lines = [
        "# Gradients of the library",
        "",
        f"**{agree} of {len(rows)}** operators have a gradient that agrees with finite differences to {AGREES:.0e} of",
        "its largest entry. `python -m benchmarks.gradients` makes this page: sizes are small, numbers of double",
        f"precision, the difference is central with a step of {STEP:.0e}, along each entry of each real input.",
        "",
        "Boxes are those of the operator with named boxes opened, and of the gradient by all inputs, which computes",
        "the operator's arrays again. A maximum is redundant where it is proved that the result does not depend on it,",
        "so that it has no cotangent; conditions are those under which the gradient is the derivative, at corners and",
        "ties ([gradients](../explanation/gradients.md)).",
        "",
        "| operator | boxes | of its gradient | difference | redundant maxima | conditions |",
        "| --- | --- | --- | --- | --- | --- |",
    ]
    for row in rows:
        cells = (row.name, row.boxes, row.gradient_boxes, f"{row.difference:.0e}", row.redundant, row.conditions)
        lines.append(f"| {' | '.join(map(str, cells))} |")
    return "\n".join(lines) + "\n"


def main() -> None:
    """Measures all operators and writes the page."""
    with Z3() as ask:
        rows = [measured(name, ask) for name in cd.library.names()]
    write_whole(PAGE, page(rows))


if __name__ == "__main__":
    main()
