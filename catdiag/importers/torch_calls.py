"""Calls of PyTorch's operations, and the tables of rules for them.

A rule takes the builder and a call; the arguments have the names of the operation's ATen schema. It lines up
dimensions and emits steps. An operation without a rule is refused by name.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

from catdiag.importers.imported_values import ArrayValue
from catdiag.importers.program_builder import ProgramBuilder


class Unsupported(Exception):
    """A call that has no meaning as a program with named axes, with the reason."""


@dataclass(frozen=True)
class AtenCall:
    """A call of an operation: its name, its arguments by name, and the results' shapes and element type in the
    example; `elements` are the types of all results, if there are several. `cast` says that the result has another type
    than the first argument; `siblings` of a slice are the starts and ends of all slices of that array along that
    dimension."""

    name: str
    arguments: Mapping[str, Any]
    shapes: tuple[tuple[int, ...], ...]
    element: str
    dtype: str
    cast: bool = False
    siblings: tuple[tuple[Any, Any], ...] = ()
    elements: tuple[str, ...] = ()

    def __getitem__(self, name: str) -> Any:
        return self.arguments[name]

    def get(self, name: str, default: Any = None) -> Any:
        """An argument, if the operation has it."""
        return self.arguments.get(name, default)

    @property
    def shape(self) -> tuple[int, ...]:
        """The lengths of the (first) result in the example."""
        return self.shapes[0]


Rule: TypeAlias = Callable[[ProgramBuilder, AtenCall], Any]
"""From a call to its result, a value or a tuple of values."""


def adding(table: dict[str, Rule]) -> Callable[..., Callable[[Rule], Rule]]:
    """A decorator that puts a rule into a table, under the names of operations."""

    def rule(*names: str) -> Callable[[Rule], Rule]:
        def add(function: Rule) -> Rule:
            table.update(dict.fromkeys(names, function))
            return function

        return add

    return rule


def place(value: ArrayValue, dim: int) -> int:
    """The number of a dimension, counted from the end if negative."""
    return int(dim) % max(len(value.dims), 1)


def places(value: ArrayValue, dims: Any) -> list[int]:
    """The numbers of several dimensions; of all, if none is given."""
    if dims is None or dims == [] or not value.dims:
        return list(range(len(value.dims)))
    return [place(value, d) for d in (dims if isinstance(dims, (list, tuple)) else [dims])]
