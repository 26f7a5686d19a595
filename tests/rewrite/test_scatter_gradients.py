"""Gradients of scatter-adds: cotangents are read where rows were added."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import catdiag as cd
from catdiag.category.ops import Reduce
from tests.scatters import rows
from tests.schedule.test_scatter_add import arrays_of

LENGTHS = {"t": 7, "d": 3, "v": 5}


@cd.algorithm("int[t], t d, t, v -> v d", name="activated")
def activated(ids: Any, G: Any, w: Any, like: Any) -> Any:
    return cd.maximum(cd.sum(cd.where(cd.index("v") == ids, G * w, 0), "t"), 0)


def test_cotangents_are_read_without_a_sum() -> None:
    gradient = rows.grad(wrt="G")
    assert not any(isinstance(box.op, Reduce) for box in gradient.diagram.boxes)
    textbook = cd.algorithm("int[t], t d, v, v d -> t d")(
        lambda ids, G, like, dout: cd.sum(cd.where(cd.index("v") == ids, dout, 0), "v")
    )
    assert not cd.prove(gradient, textbook).conditional


def test_conditions_along_the_axis_are_read_with_them() -> None:
    gradient = activated.grad(wrt="G")
    assert not any(isinstance(box.op, Reduce) and box.op.axis == "v" for box in gradient.diagram.boxes)


@pytest.mark.parametrize("program", [rows, activated])
@pytest.mark.parametrize("seed", range(3))
def test_gradients_are_those_of_finite_differences(program: cd.Program, seed: int) -> None:
    arrays = arrays_of(program, LENGTHS, seed)
    random = np.random.default_rng(seed)
    cotangent = random.normal(size=(LENGTHS["v"], LENGTHS["d"]))
    names = [n for n in program.diagram.input_names if n in ("G", "w")]
    for name in names:
        found: Any = program.grad(wrt=name).run(*arrays, cotangent)
        place = program.diagram.input_names.index(name)
        tangent, step = random.normal(size=arrays[place].shape), 1e-6

        def value(moved: float, place: int = place, tangent: Any = tangent) -> float:
            given = [a + moved * tangent if k == place else a for k, a in enumerate(arrays)]
            return float(np.sum(cotangent * program.run(*given)))

        slope = (value(step) - value(-step)) / (2 * step)
        np.testing.assert_allclose(np.sum(found * tangent), slope, rtol=1e-5, atol=1e-6)
