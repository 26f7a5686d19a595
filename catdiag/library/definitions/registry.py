"""How a module of the library lists what it holds."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from catdiag.category.diagram import Diagram, with_boxes
from catdiag.category.traversal import rebuilt
from catdiag.frontend.builder import algorithm

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
        """Lists a diagram under its title. Its boxes have no line: what asked for it first wrote none of them."""
        diagram = _without_lines(diagram)
        self.table[diagram.title] = (diagram, inspect.cleandoc(mathematics))
        return diagram


def _without_lines(diagram: Diagram) -> Diagram:
    """The diagram, and those inside it, with boxes that stand on no line of a user's file."""

    def bare(item: Diagram) -> Diagram:
        known = {id(box): replace(box, line=None) for box in item.boxes}
        return with_boxes(item, {place: known[id(box)] for place, box in enumerate(item.boxes)})

    return rebuilt(diagram, bare)
