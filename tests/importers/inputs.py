"""Arrays that examples of the importers' tests are made of: the same for the same shape."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest


def real(*shape: int) -> Any:
    """Standard normal numbers in double precision."""
    return np.random.default_rng(len(shape) + sum(shape)).normal(size=shape)


def positive(*shape: int) -> Any:
    """Numbers above 1/2."""
    return np.abs(real(*shape)) + 0.5


def integers(low: int, high: int, *shape: int) -> Any:
    """Integers from low to below high."""
    return np.random.default_rng(high).integers(low, high, size=shape)


@pytest.fixture
def jax_in_double() -> Iterator[None]:
    """JAX with 64-bit types, as long as a test runs."""
    import jax

    before = jax.config.jax_enable_x64
    jax.config.update("jax_enable_x64", True)
    yield
    jax.config.update("jax_enable_x64", before)
