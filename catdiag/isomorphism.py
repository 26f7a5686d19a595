"""Equality in the category: whether two flat forms are the same diagram."""
from __future__ import annotations
from typing import Any
from catdiag.diagram import Diagram


def fingerprint(diagram: Diagram) -> Any:
    if diagram._canon is None:
        graph = diagram.graph
        n = len(graph.dom)
        producer: list[tuple[int, int]] = [(-1, k) for k in range(n)]
        for place, node in enumerate(graph.nodes):
            producer.extend((place, k) for k in range(len(node.box.cod)))
        number: dict[int, int] = {}
        order: list[int] = []
        stack = list(reversed(graph.outputs))
        while stack:
            place, _ = producer[stack.pop()]
            if place < 0 or place in number:
                continue
            number[place] = len(order)
            order.append(place)
            stack.extend(reversed(graph.nodes[place].inputs))
        def ref(w: int) -> tuple[int, int]:
            place, port = producer[w]
            return (number[place], port) if place >= 0 else (-1, port)
        live = tuple((graph.nodes[p].box, tuple(ref(w) for w in graph.nodes[p].inputs)) for p in order)
        diagram._canon = (live, tuple(ref(w) for w in graph.outputs), len(graph.nodes) - len(order))
    return diagram._canon


def isomorphic(left: Diagram, right: Diagram) -> bool:
    return bool(fingerprint(left) == fingerprint(right))
