"""What is proved or refuted of two functions of JAX is also run by JAX."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import catdiag as cd
from tests.importers.inputs import real

jax = pytest.importorskip("jax")
jnp = jax.numpy


def proved(one: Callable[..., Any], other: Callable[..., Any], *example: Any) -> Any:
    return cd.prove(cd.from_jax(one, *example), cd.from_jax(other, *example))


def test_nothing_is_said_of_functions_that_jax_tells_apart() -> None:
    """A power is read as one of a positive base."""
    with pytest.raises(cd.Undecided, match="library gives other numbers on the example"):
        proved(lambda a, n: a**n, lambda a, n: abs(a) ** n, np.array([-1.5, 2.0]), np.array([3.0, 2.0]))


def test_a_part_that_is_fixed_is_proved_at_the_sizes_of_the_example() -> None:
    theorem = proved(lambda a: a[:, :4], lambda a: jnp.split(a, 2, 1)[0], real(3, 8))
    assert any("at the sizes of the example only" in note for note in theorem.notes)


def test_what_is_equal_is_proved_for_all_sizes() -> None:
    theorem = proved(lambda p: p["a"] @ p["b"], lambda p: (p["b"].T @ p["a"].T).T, {"a": real(3, 4), "b": real(4, 5)})
    assert theorem.verdict == "proved" and not theorem.notes


@pytest.mark.parametrize("kind", [np.float32, jnp.bfloat16])
def test_results_are_those_of_the_example(kind: Any) -> None:
    """Of a number of Python, an array of a narrow type and a constant that the function closes over."""
    weight, x = real(4), jnp.asarray(real(3, 4), kind)
    program = cd.from_jax(lambda x, s: (x * s, x.sum() + weight.sum(), (x > 0).any()), x, 2.0)
    assert program.example is not None and program.example.original is not None
    found = program.example.original([np.asarray(a, np.float64) for a in program.example.arrays])
    wanted = [2 * x, x.sum() + weight.sum(), (x > 0).any()]
    for one, other in zip(found, wanted, strict=True):
        np.testing.assert_allclose(one.value, np.asarray(other, np.float64), rtol=max(one.eps, 1e-12) * 8)


def test_other_numbers_in_a_constant_are_not_run() -> None:
    weight = real(4)
    program = cd.from_jax(lambda x: x * weight, real(3, 4))
    assert program.example is not None and program.example.original is not None
    with pytest.raises(cd.errors.CatdiagError, match="a constant of the program holds other numbers"):
        program.example.original([np.zeros((3, 4)), np.zeros(4)])
