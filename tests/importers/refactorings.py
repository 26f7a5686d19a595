"""Refactorings that authors of models make: proved equal for all sizes, or told apart by numbers.

Each pair is one module as it was and one as it is said to be after a refactoring; some are subtly false.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest

import catdiag as cd

torch = pytest.importorskip("torch")
nn, F = torch.nn, torch.nn.functional
real = torch.randn
Tensors = dict[str, Any]


@dataclass(frozen=True)
class Refactoring:
    """Two modules or functions, a call's arguments, and whether both mean the same."""

    before: Any
    after: Any
    example: tuple[Any, ...]
    same: bool
    parameters: Callable[[Tensors], Tensors] | None = None


Pairs = dict[str, Callable[[], Refactoring]]


def adding(pairs: Pairs) -> Callable[[Callable[[], Refactoring]], Callable[[], Refactoring]]:
    """A decorator that puts what makes a pair into a table, under its name in words."""

    def pair(function: Callable[[], Refactoring]) -> Callable[[], Refactoring]:
        pairs[function.__name__.replace("_", " ")] = function
        return function

    return pair


class Module(nn.Module):
    """A module of parts and a function of them and the arguments."""

    def __init__(self, function: Callable[..., Any], **parts: Any) -> None:
        super().__init__()
        for name, part in parts.items():
            setattr(self, name, part)
        self.function = function

    def forward(self, *arrays: Any) -> Any:
        return self.function(self, *arrays)


def linear(rows: int, columns: int, bias: bool = False) -> Any:
    return nn.Linear(rows, columns, bias=bias)


def drawn(*shape: int) -> Any:
    return nn.Parameter(torch.rand(*shape))


def check(found: Refactoring) -> None:
    """Asserts that a pair is proved equal, or told apart, as it says."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="what was imported is compared")
        given: dict[str, Any] = {"example": found.example, "parameters": found.parameters}
        if found.same:
            assert not cd.testing.assert_equivalent(found.before, found.after, **given).conditional
        else:
            with pytest.raises(AssertionError, match="is false"):
                cd.testing.assert_equivalent(found.before, found.after, **given)
