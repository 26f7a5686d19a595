"""Axes that renamings identify, under one name."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import catdiag as cd
from catdiag.rewrite.one_name import with_one_name


def there_and_back(S: Any, V: Any) -> Any:
    weights = cd.exp(cd.where(cd.index("q") < cd.index("x"), 0, S)).rename(x="y")
    return cd.einsum("q y, y d -> q d", weights, V.rename(x="y")), cd.einsum("q y, q y -> y", weights, weights)


def beside_itself(S: Any, V: Any) -> Any:
    products = cd.einsum("x d, y d -> x y", V, V.rename(x="y"))
    return cd.einsum("q x, x y -> q y", S, products), cd.sum(products, "y")


def read_at_positions(S: Any, V: Any) -> Any:
    return cd.einsum("q y, y d -> q d", cd.reverse(S, "x").rename(x="y"), V.rename(x="y")), cd.sum(S, "x")


@pytest.mark.parametrize(
    ("body", "inside"),
    [(there_and_back, False), (beside_itself, True), (read_at_positions, True)],
)
def test_axes_have_one_name_where_no_box_has_both(body: Any, inside: bool) -> None:
    program = cd.algorithm("q x, x d")(body)
    made = cd.Program(with_one_name(program.diagram))
    assert any("y" in ty.names for box in made.boxes[:-1] for ty in box.dom) == inside
    assert cd.equivalent(program, made)
    rng = np.random.default_rng(0)
    given = [rng.normal(size=size) for size in ((3, 4), (4, 2))]
    for a, b in zip(made.run(*given), program.run(*given), strict=True):
        np.testing.assert_allclose(a, b)
