"""The flat form by columns: the same as by nodes, made of arrays with every wire checked."""

from __future__ import annotations

import pickle
import random

import numpy as np
import pytest

from catdiag.category.box_types import check
from catdiag.category.diagram import Diagram, Graph, Node, box, id, of_graph
from catdiag.category.equality import _at_sight
from catdiag.category.ops import Box, Generic
from catdiag.category.types import ArrayType, Axis, Ty
from catdiag.util.errors import TypeMismatch

X, Y = (Ty(ArrayType((Axis(name),))) for name in "xy")
TYPES = [Ty(), X, Y, X @ Y, X @ X]


def drawn(rng: random.Random, boxes: int, wrong: float = 0.0) -> Graph:
    """A flat form of boxes of all arities; with `wrong`, wires are read as likely that do not fit."""
    dom = X @ Y @ X
    carried = list(dom)
    nodes: list[Node] = []
    for _ in range(boxes):
        takes, gives = rng.choice(TYPES), rng.choice(TYPES)
        wires = []
        for ty in takes:
            fitting = [w for w, t in enumerate(carried) if t == ty]
            wires.append(rng.randrange(-1, len(carried) + 2) if rng.random() < wrong else rng.choice(fitting))
        name = f"{rng.choice('fg')}{TYPES.index(takes)}{TYPES.index(gives)}"
        nodes.append(Node(Box(Generic(name), takes, gives), tuple(wires)))
        carried += gives
    outputs = [rng.randrange(len(carried) + (rng.random() < wrong)) for _ in range(2)]
    return Graph(dom, tuple(nodes), tuple(outputs))


def rebuilt(graph: Graph) -> Diagram:
    """The same by `of_arrays`, equal boxes once, in an order of their own."""
    table = sorted(set(graph.boxes()), key=lambda b: b.name)
    which = [table.index(b) for b in graph.boxes()]
    reads = [w for node in graph.nodes for w in node.inputs]
    return Diagram.of_arrays(graph.dom, table, np.array(which, dtype=int), reads, graph.outputs)


def test_columns_and_nodes_are_one_form() -> None:
    for seed in range(200):
        graph = drawn(random.Random(seed), seed % 9)
        table, which, reads = graph.lists()
        assert Graph.of_columns(graph.dom, table, which, reads, graph.outputs) == graph
        made = rebuilt(graph).graph
        assert made == graph and hash(made) == hash(graph) and len(made) == len(graph)
        assert made.wire_types() == graph.wire_types() and made.boxes() == graph.boxes()
        for one in (made, graph):
            assert pickle.loads(pickle.dumps(one)) == graph


def test_what_is_built_of_arrays_is_what_check_accepts() -> None:
    refused = 0
    for seed in range(600):
        graph = drawn(random.Random(seed), seed % 7, wrong=0.15)
        try:
            types = graph.wire_types()
            leaving = [types[w] for w in graph.outputs]
            check(of_graph(graph, Ty(*leaving)))
        except (TypeMismatch, IndexError):
            refused += 1
            with pytest.raises(TypeMismatch, match=r"reads wire|reads wires"):
                rebuilt(graph)
        else:
            assert rebuilt(graph).cod == Ty(*leaving)
    assert 100 < refused < 500


def test_arrays_are_compared_as_lists_are() -> None:
    seen: list[bool | None] = []
    for seed in range(1200):
        rng = random.Random(seed)
        left = drawn(random.Random(seed % 40), seed % 4)
        right = drawn(random.Random(seed % 40 if rng.random() < 0.4 else rng.randrange(40)), seed % 4)
        arrays = [rebuilt(g).graph for g in (left, right)]
        seen.append(_at_sight(left, right))
        for pair in ((arrays[0], right), (left, arrays[1]), arrays):
            assert _at_sight(*pair) is seen[-1]
        if arrays[0].dom == arrays[1].dom:
            assert (of_graph(left) == of_graph(right)) == (of_graph(arrays[0]) == of_graph(arrays[1]))
    assert {seen.count(answer) > 50 for answer in (True, False, None)} == {True}


def test_a_box_twice_in_the_table_is_one_box() -> None:
    f, again, g = box("f", X, X), box("f", X, X), box("g", X, X)
    plain = Diagram.of_arrays(X, [f, g], [0, 0, 1], [0, 1, 2], [3])
    for which in ([0, 1, 2], [1, 0, 2], [1, 1, 2]):
        assert Diagram.of_arrays(X, [f, again, g], which, [0, 1, 2], [3]) == plain == f >> f >> g
    assert Diagram.of_arrays(X, [f, again, g], [0, 2, 1], [0, 1, 2], [3]) != plain
    # What is in the table only is in no diagram.
    assert Diagram.of_arrays(X, [g, f], [1], [0], [1]) == f != g
    assert hash(Diagram.of_arrays(X, [g, f], [1], [0], [1])) == hash(f)


def test_no_node_is_made_before_one_is_looked_at() -> None:
    f, n = box("f", X, X), 5000
    diagram = Diagram.of_arrays(X, [f], np.zeros(n, dtype=np.uint8), range(n), [n])
    other = f
    for _ in range(n - 1):
        other = other >> f
    assert diagram == other and len(diagram) == len(other) == n and diagram >> f != other
    assert diagram.graph._nodes is None is other.graph._nodes
    assert diagram.graph.nodes[7].inputs == (7,)


def test_columns_given_are_copied() -> None:
    which, reads = np.array([0, 0]), np.array([0, 1])
    f = box("f", X, X)
    diagram = Diagram.of_arrays(X, [f], which, reads, [2])
    which[0], reads[1] = 9, 9
    assert diagram == f >> f
    with pytest.raises(ValueError, match="read-only"):
        diagram.graph.arrays()[1][0] = 1


def test_wrong_columns_say_what_was_expected() -> None:
    f = box("f", X, Y)
    for arguments, said in (
        ((X, [f], [1], [0], [0]), r"node 0 is box 1: expected the number of one of 1, from 0"),
        ((X, [f], [0], [0, 1], [0]), r"reads has 2 wires: expected 1"),
        ((X, [f], [0], [3], [0]), r"node 0, f, reads wire 3: only 1 are there by then"),
        ((X, [f], [0, 0], [0, 1], [0]), r"node 1, f, reads wire 1, which carries \[y\]: expected \[x\]"),
        ((X, [f], [0], [0], [5]), r"output 0 reads wire 5: there are 2"),
        ((X, [f], [0.0], [0], [1]), r"which is \[0.0\]: expected a list or an array, of one axis, of integers"),
        ((X, [f], [True], [0], [1]), r"which is \[True\]"),
        ((X, [f], [[0]], [0], [1]), r"which is \[\[0\]\]"),
        ((X, [f], [0], [2**70], [1]), r"reads is"),
        ((X, [f >> box("g", Y, X)], [0], [0], [1]), r"boxes\[0\] is .*expected a box, such as"),
        ((X, f, [0], [0], [1]), r"boxes is .*expected a list of boxes"),
        ((5, [f], [0], [0], [1]), r"the type is 5: expected a Ty"),
    ):
        with pytest.raises(TypeMismatch, match=said):
            Diagram.of_arrays(*arguments)  # type: ignore[arg-type]
    assert Diagram.of_arrays(X, [], [], [], [0]) == id(X)
