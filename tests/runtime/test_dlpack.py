"""Functions of tensors on arrays of JAX."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from catdiag.runtime.dlpack import is_jax_array, on_tensors
from catdiag.util.errors import TypeMismatch

torch = pytest.importorskip("torch")
jax = pytest.importorskip("jax")


def halves(a: Any, c: float) -> Any:
    assert isinstance(a, torch.Tensor)
    return a * c, a - 1


def test_arrays_go_in_and_come_back() -> None:
    a = jax.numpy.arange(6.0).reshape(2, 3)
    assert is_jax_array(a)
    assert not any(map(is_jax_array, (torch.ones(2), np.ones(2), 2.0)))
    found = on_tensors(halves, [a, 0.5])
    assert all(isinstance(value, jax.Array) for value in found)
    np.testing.assert_allclose(found[0], a / 2)
    np.testing.assert_allclose(on_tensors(lambda b: b + 1, [a]), a + 1)


def test_a_traced_call_is_refused() -> None:
    with pytest.raises(TypeMismatch, match=r"argument 1 is traced by jax\.jit"):
        jax.jit(lambda a: on_tensors(halves, [a, 0.5]))(jax.numpy.ones(3))
