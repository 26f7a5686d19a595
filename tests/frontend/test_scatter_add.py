"""`cd.scatter_add`: what it means, and what it refuses."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import catdiag as cd
from catdiag.errors import AxisError, TypeMismatch


@given(seed=st.integers(0, 1000), b=st.integers(1, 3), t=st.integers(1, 6), v=st.integers(1, 5))
def test_it_adds_rows_as_numpy_does(seed: int, b: int, t: int, v: int) -> None:
    added = cd.algorithm("int[b t], b t d, v -> v d")(lambda ids, G, like: cd.scatter_add(G, "b t", ids, "v"))
    random = np.random.default_rng(seed)
    ids, rows = random.integers(-1, v + 1, (b, t)), random.normal(size=(b, t, 2))
    expected = np.zeros((v, 2))
    inside = (ids >= 0) & (ids < v)
    np.add.at(expected, ids[inside], rows[inside])
    np.testing.assert_allclose(added.run(ids, rows, np.zeros(v)), expected, atol=1e-12)


def test_it_is_the_transpose_of_a_gather() -> None:
    added = cd.algorithm("v d, int[t], t d -> v d")(lambda table, ids, g: cd.scatter_add(g, "t", ids, "v"))
    assert not cd.prove(cd.library.get("embedding").grad(wrt="table"), added).conditional


def test_what_it_cannot_add_is_named() -> None:
    with pytest.raises(AxisError, match="axis 'x'"):
        cd.algorithm("int[t], t d, v")(lambda ids, G, like: cd.scatter_add(G, "x", ids, "v"))
    with pytest.raises(TypeMismatch, match="scatter_add takes integers as positions"):
        cd.algorithm("t, t d, v")(lambda at, G, like: cd.scatter_add(G, "t", at, "v"))
    with pytest.raises(AxisError, match="'w'"):
        cd.algorithm("int[t], t d")(lambda ids, G: cd.scatter_add(G, "t", ids, "w"))
