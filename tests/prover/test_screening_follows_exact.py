"""Programs on floats, many inputs at once, against the same programs on exact numbers."""

from __future__ import annotations

import random
from fractions import Fraction

import numpy as np
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import catdiag as cd
from catdiag.category.diagram import Diagram, diagram_of
from catdiag.category.types import size_symbols
from catdiag.prover.assumptions import size_value
from catdiag.prover.export import program
from catdiag.prover.refute import exact_execution, exact_reals, float_screening
from catdiag.rewrite import group
from catdiag.rewrite.stream import fold_search
from catdiag.util.errors import NotGroupable, NotStreamable

POOL = [Fraction(0), Fraction(1), Fraction(-1), Fraction(2), Fraction(1, 2), Fraction(-3, 2)]


def agree(diagram: Diagram, seed: int) -> None:
    rng = random.Random(seed)
    made = program(diagram_of(diagram))
    symbols = sorted({s for ty in diagram.dom for a in ty.axes for s in size_symbols(a.size)})
    sizes = {s: rng.randrange(1, 4) for s in symbols}
    blocks = dict.fromkeys(exact_execution.locals_of(made), rng.randrange(1, 3))
    many: list[list[exact_execution.ExactArray]] = []
    for _ in range(4):
        arrays = []
        for d in made["inputs"]:
            shape = [size_value(s, sizes) for _, s in d["axes"]]
            pool = [True, False] if d["element"] == "bool" else POOL[:4] if d["element"] == "int" else POOL
            pool = [*pool, exact_reals.BOTTOM] if d["element"] == "extended" else pool
            arrays.append(exact_execution.build([n for n, _ in d["axes"]], shape, lambda _, p=pool: rng.choice(p)))
        many.append(arrays)
    stacked = []
    for k in range(len(made["inputs"])):
        values = [
            [-np.inf if v is exact_reals.BOTTOM else float(v) for v in arrays[k].values.values()]  # type: ignore[arg-type]
            for arrays in many
        ]
        shape = (len(many), *many[0][k].shape)
        stacked.append((np.array(values).reshape(shape), many[0][k].axes))
    floats = float_screening.outputs(made, stacked, sizes, blocks, {}, float_screening.Meter(10**9))
    for row, arrays in enumerate(many):
        for (x, axes), out in zip(floats, exact_execution.run(made, arrays, sizes, blocks, {}), strict=True):
            for i, element in out.values.items():
                here = dict(zip(out.axes, i, strict=True))
                value = x[(row if len(x) > 1 else 0, *(here[a] for a in axes))]
                if isinstance(element, exact_execution.NoValue):
                    assert np.isnan(value) or not element.undefined
                elif isinstance(element, exact_reals.MinusInfinity):
                    assert value == -np.inf
                else:
                    low, high = exact_reals.bounds(element)
                    assert np.isclose(value, float((low + high) / 2), rtol=1e-6, atol=1e-6)


@settings(max_examples=80, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
@given(diagram=cd.testing.diagrams(max_boxes=6), seed=st.integers(0, 2**32))
def test_floats_follow_exact_numbers(diagram: Diagram, seed: int) -> None:
    agree(diagram, seed)


@settings(max_examples=40, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
@given(diagram=cd.testing.diagrams(max_boxes=5), seed=st.integers(0, 2**32))
def test_floats_follow_loops_and_tiles(diagram: Diagram, seed: int) -> None:
    rng = random.Random(seed)
    axes = [a.name for ty in diagram.dom for a in ty.axes]
    if not axes:
        return
    try:
        found = fold_search.find(diagram, rng.choice(axes)) if seed % 2 else group.find(diagram, [rng.choice(axes)])
    except (NotStreamable, NotGroupable):
        return
    agree(getattr(found, "diagram", found), seed)


def test_floats_follow_structural_maps() -> None:
    @cd.algorithm("(b g) d, x d, y d")
    def turned(A, K, V):
        joined = cd.concat([K, V], "x+y")
        taken = cd.slice(joined, "x+y", "y")
        apart = cd.rearrange(A, "(b g) d -> g b d")
        return cd.rearrange(apart, "g b d -> d (g b)"), joined, cd.where(taken > 0, cd.log(taken), 0)

    for seed in range(30):
        agree(turned, seed)
