"""Arrays that results have no value without, and statistics that are real numbers wherever results have values."""

from __future__ import annotations

from typing import Any

import pytest

import catdiag as cd
from catdiag.category.diagram import Diagram
from catdiag.rewrite.differentiate.finite_statistics import finite_statistics, needed_arrays
from catdiag.rewrite.hash_consed_graph import HashConsedGraph
from catdiag.solvers.z3 import shared


def graph_of(diagram: Diagram) -> tuple[HashConsedGraph, list[int]]:
    graph = HashConsedGraph(diagram.dom)
    wires = list(range(len(diagram.dom)))
    for node in diagram.graph.nodes:
        first = graph.add(node.box, [wires[w] for w in node.inputs])
        wires += range(first, first + len(node.box.cod))
    return graph, [wires[w] for w in diagram.graph.outputs]


def boxes(program: Any) -> list[str]:
    graph, results = graph_of(program.diagram)
    return [graph.nodes[graph.maker[w]].box.name for w in needed_arrays(graph, results) if graph.node(w) is not None]


def test_what_is_chosen_or_read_in_part_is_not_needed() -> None:
    chosen = cd.algorithm("q, q -> q")(lambda a, b: cd.exp(cd.where(a > 0, cd.log(a), cd.sqrt(b))))
    assert boxes(chosen) == ["where", "exp"]
    largest = cd.algorithm("q x -> q")(lambda a: cd.max(cd.exp(a), "x") + 1)
    assert "max[x]" in boxes(largest) and "exp" not in boxes(largest)


def test_what_sums_and_functions_are_made_of_is_needed() -> None:
    program = cd.algorithm("q x, x d -> q d")(lambda a, b: cd.einsum("q x, x d -> q d", cd.exp(a), b) * 2)
    assert {"exp", "einsum", "mul"} <= set(boxes(program))


@pytest.mark.parametrize("chosen", [False, True])
@pytest.mark.parametrize("visible", [lambda: cd.index("x") <= cd.index("q"), lambda: cd.index("x") < cd.index("q")])
def test_a_statistic_is_real_where_a_result_needs_it_to_be(visible: Any, chosen: bool) -> None:
    """A mean of rows weighted by a softmax of what is visible of them, and the log-sum-exp of each row. Where the mean
    is chosen for some rows only, the others may have no visible entry."""

    def body(a: Any, b: Any) -> Any:
        s = cd.where(visible(), a, -cd.inf)
        m = cd.max(s, "x")
        e = cd.exp(s - m)
        mean = cd.einsum("q x, x d -> q d", e / cd.sum(e, "x"), b)
        return cd.where(cd.any(visible(), "x"), mean, 0) if chosen else mean, cd.log(cd.sum(e, "x")) + m

    program = cd.algorithm("q x, x d -> q d, extended[q]")(body)
    graph, (result, statistic) = graph_of(program.diagram)
    assert finite_statistics(graph, 2, [result], [statistic], shared()) == (set() if chosen else {statistic})
