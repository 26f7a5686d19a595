"""Where gradients are derivatives: the conditions that the kernel computes of corners, jumps and ties."""

from __future__ import annotations

from typing import Any

import pytest

import catdiag as cd


def conditions(signature: str, function: Any, **options: Any) -> list[str]:
    return list(cd.algorithm(signature, name="f")(function).differentiability(**options).conditions)


@pytest.mark.parametrize(
    ("function", "expected"),
    [
        (lambda a: cd.exp(a) * cd.log(a) / a + cd.sin(a), []),
        (lambda a: cd.sqrt(a), ["0 < a[i] for all i < x"]),
        (lambda a: cd.sqrt(a * a + 1), []),
        (lambda a: cd.abs(a), ["a[i] ≠ (-1)·a[i] for all i < x"]),
        (lambda a: cd.maximum(a, 3), ["a[i] ≠ 3 for all i < x"]),
        (lambda a: cd.minimum(a, 3), ["a[i] ≠ 3 for all i < x"]),
        (lambda a: cd.floor(a) * a, ["⌊a[i]⌋ ≠ a[i] for all i < x"]),
        (lambda a: cd.where(a == 0, 0, a), ["a[i] ≠ 0 for all i < x"]),
        (lambda a: cd.where(cd.index("x") < 2, a, 0), []),
        (lambda a: cd.where(cd.index("x") < 2, cd.sqrt(a), a), ["0 < a[i] where i < 2 for all i < x"]),
        (lambda a: cd.apply("f", a), []),
        (lambda a: cd.max(a, "x"),
         ["a[j] ≠ max_{i0<x} a[i0] where j ≠ i and a[i] = max_{i0<x} a[i0] for all i < x, j < x"]),
        (lambda a: cd.prod(cd.cast(a, "bf16"), "x"), []),
    ],
)  # fmt: skip
def test_corners_jumps_and_ties_are_conditions(function: Any, expected: list[str]) -> None:
    assert conditions("x", function) == expected


def test_only_inputs_that_are_differentiated_vary() -> None:
    def f(a: Any, b: Any) -> Any:
        return cd.where(b > 0, a, cd.sqrt(b))

    assert conditions("x, x", f, wrt="a") == []
    assert conditions("x, x", f, wrt="b") == [
        "0 < b[i] where b[i] ≤ 0 for all i < x",
        "0 ≠ b[i] for all i < x",
    ]


def test_only_results_that_are_differentiated_count() -> None:
    two = cd.algorithm("x -> x, x", name="two")(lambda a: (a * a, cd.sqrt(a)))
    assert two.differentiability(of=0).conditions == ()
    assert two.differentiability(of=1).conditions == ("0 < a[i] for all i < x",)


def test_a_maximum_that_does_not_matter_needs_no_condition_and_is_named() -> None:
    found = cd.library.attention.differentiability()
    assert found.conditions == () and [r.box.name for r in found.redundant] == ["max[x]"]
    assert str(found) == (
        "the gradient of attention is its derivative wherever attention has a value\n"
        "proved: no result depends on which number max[x] is"
    )


def test_a_constant_that_is_rounded_is_named() -> None:
    found = cd.algorithm("x", name="g")(lambda a: cd.erf(a)).differentiability()
    assert str(found).splitlines()[-1] == "the derivative of erf has 2/√π to 64 decimals"
