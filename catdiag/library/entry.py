"""How a module of the library lists what it holds."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from catdiag.build import algorithm
from catdiag.diagram import Diagram

Table = dict[str, tuple[Diagram, str]]


@dataclass
class Entries:
    """The diagrams of one module with their mathematics, in order of definition."""

    table: Table

    def algorithm(self, signature: str) -> Callable[[Callable[..., Any]], Diagram]:
        """As `cd.algorithm`, and the function's docstring becomes the description.

        >>> entries = Entries({})
        >>> @entries.algorithm("x -> x")
        ... def twice(a):
        ...     '''b[x] = 2 · a[x].'''
        ...     return 2 * a
        >>> entries.table["twice"][1]
        'b[x] = 2 · a[x].'
        """

        def build(function: Callable[..., Any]) -> Diagram:
            return self.add(algorithm(signature)(function), inspect.getdoc(function) or "")

        return build

    def add(self, diagram: Diagram, mathematics: str) -> Diagram:
        """Lists a diagram under its title."""
        self.table[diagram.title] = (diagram, inspect.cleandoc(mathematics))
        return diagram
