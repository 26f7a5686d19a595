"""Every operator of the library, run in blocks, as a kernel of itself: no right kernel is accused."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import pytest

import catdiag as cd
from catdiag.category.diagram import diagram_of
from catdiag.execute.interpreter import run
from catdiag.execute.size_inference import tile_bounds
from catdiag.rewrite.stream import fold_search
from catdiag.testing.assert_kernel import Mismatch, assert_implements
from catdiag.util.errors import CatdiagError

# What numbers stand for where they are no free choice.
MEANT = {
    "eps": lambda rng, n: 10.0 ** -rng.integers(1, 5),
    "heat": lambda rng, n: rng.uniform(0.25, 2),
    "cap": lambda rng, n: rng.uniform(1, 50),
    "width": lambda rng, n: rng.integers(1, 9),
}
# One loop over sums of squares rounds worse than two, and is measured by itself.
ONE_PASS = {"correlation", "covariance", "layer_norm_linear", "softmax_moments", "variance"}


class Form:
    """A diagram and a form of it, as derivations have them."""

    def __init__(self, source: cd.category.Diagram, diagram: cd.category.Diagram) -> None:
        self.source, self.diagram = source, diagram


def kernel(diagram: cd.category.Diagram, source: cd.category.Diagram, dtype: str, tiled: Iterable[str] = ()) -> Any:
    def computed(*arrays: Any) -> Any:
        longest = max((n for a in arrays for n in a.shape), default=1)
        tiles = dict.fromkeys(tiled, 3 if longest < 300 else 101)
        wide = [a if a.dtype.kind in "iub" else a.astype(np.float32) for a in arrays]
        found = run(diagram, wide, tiles, np.float32)
        outputs = found if isinstance(found, tuple) else (found,)
        kinds = [
            {"int": np.dtype(np.int64), "bool": np.dtype(bool)}.get(ty.element, np.dtype(dtype)) for ty in source.cod
        ]
        return tuple(out.astype(kind) for out, kind in zip(outputs, kinds, strict=True))

    return computed


@pytest.mark.slow
@pytest.mark.parametrize("dtype", ["float32", "float16"])
@pytest.mark.parametrize("name", cd.library.names())
def test_no_right_kernel_is_accused(name: str, dtype: str) -> None:
    diagram = cd.library.get(name)
    inputs = {key: value for key, value in MEANT.items() if key in diagram_of(diagram).input_names}
    tested = assert_implements(kernel(diagram, diagram, dtype), diagram, dtype, inputs=inputs)
    assert tested.defined >= 50
    for axis in sorted({a.name for ty in diagram.dom for a in ty.axes}):
        try:
            form = fold_search.find(diagram_of(diagram), axis).diagram
        except CatdiagError:
            continue
        blocks = kernel(form, diagram, dtype, tile_bounds(form))
        judged: Any = Form(diagram, form) if name in ONE_PASS else diagram
        assert_implements(blocks, judged, dtype, inputs=inputs)


@pytest.mark.slow
def test_sums_of_squares_are_told_from_two_passes() -> None:
    diagram = cd.library.get("variance")
    form = fold_search.find(diagram_of(diagram), "x").diagram
    with pytest.raises(Mismatch):
        assert_implements(kernel(form, diagram, "float32"), diagram)
