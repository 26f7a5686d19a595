"""An axis with the size of another one: the two sides of a square matrix."""

from __future__ import annotations

import numpy as np
import pytest

import catdiag as cd


def test_quadratic_form_of_a_square_matrix() -> None:
    form = cd.algorithm("d, d e=d ->")(lambda x, P: cd.einsum("d, d e, e ->", x, P, x.rename(d="e")))
    x, P = np.arange(3.0), np.arange(9.0).reshape(3, 3)
    assert form(x, P) == x @ P @ x
    with pytest.raises(cd.errors.SizeError, match=r"expected 3"):
        form(x, P[:, :2])


def test_the_result_may_have_such_an_axis() -> None:
    product = cd.algorithm("d, d e=d -> e=d")(lambda x, P: cd.einsum("d, d e -> e", x, P))
    assert not product.stream("d").group("e").theorem.conditional
