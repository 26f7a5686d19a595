"""Sums of logarithms, with factors or without, and products that are exponentials of such sums."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import catdiag as cd


def masked(a: Any, unit: float) -> Any:
    return cd.where(cd.index("x") < 3, a, unit)


def softplus(a: Any) -> Any:
    """log(1 + eᵃ), as libraries write it."""
    return cd.maximum(a, 0) + cd.log(1 + cd.exp(-cd.abs(a)))


PAIRS: dict[str, tuple[Callable[[Any], Any], Callable[[Any], Any], Callable[[Any], Any]]] = {
    "a sum with a factor": (
        lambda a: cd.sum(cd.sum(a, "x") - cd.log(cd.sum(cd.exp(a), "x")), "q"),
        lambda a: cd.sum(cd.sum(a, "x"), "q") - cd.sum(cd.log(cd.sum(cd.exp(a), "x")), "q"),
        lambda a: cd.sum(cd.sum(a, "x"), "q") - cd.log(cd.sum(cd.sum(cd.exp(a), "x"), "q")),
    ),
    "the logarithm of a sum that is one fraction": (
        lambda a: cd.sum(cd.sum(cd.log(1 - cd.nn.sigmoid(a)) + cd.sqrt(1 - cd.nn.sigmoid(a)), "x"), "q"),
        lambda a: cd.sum(cd.sum(cd.log(cd.nn.sigmoid(-a)) + cd.sqrt(1 / (1 + cd.exp(a))), "x"), "q"),
        lambda a: cd.sum(cd.sum(cd.log(cd.nn.sigmoid(a)) + cd.sqrt(1 / (1 + cd.exp(a))), "x"), "q"),
    ),
    "the logarithm of a product": (
        lambda a: cd.sum(cd.log(cd.prod(cd.exp(a) + 1, "x")) / 2 + 1, "q"),
        lambda a: cd.sum(cd.sum(cd.log(cd.exp(a) + 1), "x") / 2 + 1, "q"),
        lambda a: cd.sum(cd.sum(cd.log(cd.exp(a) + 2), "x") / 2 + 1, "q"),
    ),
    "a product of sigmoids": (
        lambda a: cd.prod(cd.prod(cd.nn.sigmoid(a), "x"), "q"),
        lambda a: cd.exp(-cd.sum(cd.sum(softplus(-a), "x"), "q")),
        lambda a: cd.exp(-cd.sum(cd.sum(softplus(a), "x"), "q")),
    ),
    "a product under a mask": (
        lambda a: cd.sum(cd.prod(masked(cd.nn.sigmoid(a), 1), "x"), "q"),
        lambda a: cd.sum(cd.exp(-cd.sum(masked(softplus(-a), 0), "x")), "q"),
        lambda a: cd.sum(cd.exp(-cd.sum(masked(softplus(-a), 1), "x")), "q"),
    ),
}


@pytest.mark.parametrize("name", PAIRS)
def test_pairs_are_proved_and_near_misses_refuted(name: str) -> None:
    f, same, other = (cd.algorithm("q x ->")(g) for g in PAIRS[name])
    assert not cd.prove(f, same).conditional and not cd.prove(same, f).conditional
    with pytest.raises(cd.Refuted):
        cd.prove(f, other)


def test_a_product_of_what_may_be_negative_is_an_exponential_on_a_condition() -> None:
    f = cd.algorithm("x ->")(lambda a: cd.prod(a, "x"))
    g = cd.algorithm("x ->")(lambda a: cd.exp(cd.sum(cd.log(a), "x")))
    assert cd.prove(f, g).conditions == ("0 < a[i] for all i < x",)
