"""How a module of the library lists what it holds."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from catdiag.category.diagram import Diagram, Node, of_graph
from catdiag.category.graph import Graph
from catdiag.category.ops import Box, bodies, with_bodies
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
    known: dict[int, Box] = {}

    def box_of(box: Box) -> Box:
        if id(box) not in known:
            op = with_bodies(box.op, tuple(map(_without_lines, bodies(box.op))))
            known[id(box)] = Box(op, box.dom, box.cod)
        return known[id(box)]

    graph = diagram.graph
    nodes = tuple(Node(box_of(node.box), node.inputs) for node in graph.nodes)
    return of_graph(Graph(graph.dom, nodes, graph.outputs), diagram.cod, diagram.names, diagram.title)
