"""Chyp: hypergraphs with matching; `find_iso` is isomorphism."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from chyp.graph import Graph, gen
from chyp.matcher import find_iso, match_rule
from chyp.rewrite import rewrite
from chyp.rule import Rule

from . import KINDS, WIDTH, chained, rows

Make = Callable[[int], Callable[[], Any]]


def one_by_one(n: int) -> Callable[[], Any]:
    kinds = [gen(f"f{k}", 1, 1) for k in range(KINDS)]
    return lambda: chained(kinds, n)


def composed_in_place(n: int) -> Callable[[], Any]:
    kinds = [gen(f"f{k}", 1, 1) for k in range(KINDS)]

    def build() -> Graph:
        diagram = kinds[0].copy()
        for k in range(1, n):
            diagram.compose(kinds[k % KINDS])
        return diagram

    return build


def by_edges(n: int, last: str = "") -> Callable[[], Any]:
    def build() -> Graph:
        graph = Graph()
        at = graph.add_vertex()
        graph.set_inputs([at])
        for k in range(n):
            to = graph.add_vertex()
            graph.add_edge([at], [to], last if last and k == n - 1 else f"f{k % KINDS}")
            at = to
        graph.set_outputs([at])
        return graph

    return build


def wall(n: int, last: str = "") -> Callable[[], Any]:
    def build() -> Graph:
        graph = Graph()
        at = [graph.add_vertex() for _ in range(WIDTH)]
        graph.set_inputs(list(at))
        count = 0
        for row in rows(n):
            for k in row:
                to = [graph.add_vertex(), graph.add_vertex()]
                graph.add_edge(at[k : k + 2], to, last if last and count == n - 1 else f"f{count % KINDS}")
                at[k : k + 2] = to
                count += 1
        graph.set_outputs(at)
        return graph

    return build


def isomorphic(make: Make) -> Make:
    def two(n: int) -> Callable[[], Any]:
        left, right = make(n)(), make(n)()
        return lambda: find_iso(left, right) is not None

    return two


def not_isomorphic(make: Callable[..., Callable[[], Any]]) -> Make:
    def two(n: int) -> Callable[[], Any]:
        left, right = make(n, "g")(), make(n, "h")()
        return lambda: find_iso(left, right) is None

    return two


def rules(n: int) -> Callable[[], Any]:
    made = by_edges(n)()
    found = [Rule(gen(f"f{k}", 1, 1), gen(f"f{k}a", 1, 1) >> gen(f"f{k}b", 1, 1)) for k in range(KINDS)]

    def run() -> Graph:
        graph = made
        for rule in found:
            while (match := next(iter(match_rule(rule, graph)), None)) is not None:
                graph = rewrite(rule, match)
        return graph

    return run


def by_hand(n: int) -> Callable[[], Any]:
    graph = by_edges(n)()
    functions = {f"f{k}": lambda v: v + 1 for k in range(KINDS)}

    def run() -> int:
        values = dict.fromkeys(graph.inputs(), 0)
        for e in graph.edges():
            data = graph.edata[e]
            values[data.t[0]] = functions[data.value](*[values[v] for v in data.s])
        return values[graph.outputs()[0]]

    return run


def wall_by_hand(n: int) -> Callable[[], Any]:
    graph = wall(n)()
    functions = {f"f{k}": lambda v, w: (v + 1, w) for k in range(KINDS)}

    def run() -> int:
        values = dict.fromkeys(graph.inputs(), 0)
        for e in graph.edges():
            data = graph.edata[e]
            values[data.t[0]], values[data.t[1]] = functions[data.value](*[values[v] for v in data.s])
        return sum(values[v] for v in graph.outputs())

    return run


WAYS: dict[tuple[str, str], dict[str, Make]] = {
    ("build", "chain"): {
        "`>>` one by one": one_by_one, "`compose` in place": composed_in_place, "`add_edge`": by_edges,
    },
    ("build", "layers"): {"`add_edge`": wall},
    ("compare", "chain"): {"`find_iso`": isomorphic(by_edges)},
    ("compare", "layers"): {"`find_iso`": isomorphic(wall)},
    ("differ", "chain"): {"`find_iso`": not_isomorphic(by_edges)},
    ("differ", "layers"): {"`find_iso`": not_isomorphic(wall)},
    ("rewrite", "chain"): {"`rewrite` at each match": rules},
    ("evaluate", "chain"): {"a loop over edges": by_hand},
    ("evaluate", "layers"): {"a loop over edges": wall_by_hand},
}  # fmt: skip


def count(made: Any) -> int:
    """How many boxes a diagram has."""
    return made.num_edges()
