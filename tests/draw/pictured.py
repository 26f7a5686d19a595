"""Diagrams to lay out: odd ones, many boxes, and those that are series and parallel compositions."""

from __future__ import annotations

import random
from collections.abc import Callable

import catdiag as cd
from catdiag.category.diagram import Diagram, Graph, Node, box, copy, discard, id, of_graph, swap
from catdiag.category.types import ArrayType, Axis, Ty


def array(axes: str) -> ArrayType:
    return ArrayType(tuple(Axis(name) for name in axes.split()))


X = array("x")
F, J, A, K = box("f", X, X), box("j", X @ X, X @ X), box("a", X @ X, X), box("k", X, X @ X)


def _product(a, *others):
    for b in others:
        a = a * cd.exp(b)
    return a


def _layers(a, *weights):
    for w, v in zip(weights[::2], weights[1::2], strict=True):
        a = a + cd.einsum("t f, d f -> t d", cd.tanh(cd.einsum("t d, d f -> t f", a, w)), v)
    return a


_LONG = "an_axis_with_a_very_long_name_that_goes_on"
_TEN = "a b c d e f g h i j"
_MATRICES = "α β, β 長い名前 -> α 長い名前"

ODD: dict[str, Callable[[], Diagram]] = {
    "empty": lambda: id(Ty()),
    "identity": lambda: id(array("q d") @ X),
    "a scalar": lambda: id(array("")),
    "discarded": lambda: discard(array("q x d") @ X @ array("")),
    "copied": lambda: copy(Ty(array("q d"))),
    "swapped": lambda: swap(array("q d") @ X, array("") @ array("a b c d e")),
    "a constant only": lambda: cd.algorithm("x ->")(lambda a: cd.size("x") / 2),
    "constants and positions only": lambda: cd.algorithm("x -> x")(lambda a: cd.index("x") / cd.size("x") + 0.5),
    "12 inputs of one box": lambda: box("f", Ty(*[array("q x")] * 12), array("q")),
    "12 results of one box": lambda: box("f", array("q"), Ty(*[array("q x")] * 12)),
    "12 numbers": lambda: box("g", Ty(*[array("")] * 12), Ty(*[array("")] * 12)),
    "of nothing": lambda: box("made", Ty(), array("q x")),
    "to nothing": lambda: box("taken", array("q x"), Ty()),
    "nothing to nothing": lambda: box("nothing", Ty(), Ty()),
    "30 inputs of one box": lambda: box("h", Ty(*[X] * 30), X),
    "30 inputs added up": lambda: cd.algorithm(", ".join(["q x"] * 30))(lambda *a: sum(a[1:], a[0])),
    "30 factors": lambda: cd.algorithm(", ".join(["x"] * 30))(_product),
    "a long name": lambda: box("a_long_name_of_a_box_that_does_not_end_" * 4, array("q"), array("q")),
    "long names of axes": lambda: cd.algorithm(f"{_LONG} {_LONG}2, {_LONG}2")(
        lambda a, b: cd.einsum(f"{_LONG} {_LONG}2, {_LONG}2 -> {_LONG}", a, b)
    ),
    "letters of other scripts": lambda: cd.algorithm(_MATRICES)(lambda Б, Ω: cd.einsum(_MATRICES, Б, Ω)),
    "ten axes": lambda: cd.algorithm(_TEN)(lambda a: cd.sum(a, "b d f h j")),
    "ten axes turned round": lambda: cd.algorithm(_TEN)(lambda a: cd.rearrange(a, f"{_TEN} -> {_TEN[::-1]}")),
    "an outer product": lambda: cd.algorithm("a, b, c, d, e, f")(
        lambda *a: cd.einsum("a, b, c, d, e, f -> a b c d e f", *a)
    ),
    "an input as a result": lambda: cd.algorithm("q x")(lambda a: (cd.exp(a), a, a, cd.sum(a, "x"))),
    "inputs that nobody reads": lambda: cd.algorithm("q x, d, a b")(lambda a, b, c: cd.sum(a, "x")),
    "layers around which arrays pass": lambda: cd.algorithm("t d" + ", d f, d f" * 4)(_layers),
    "an input that is read late": lambda: copy(Ty(X)) >> (chain(40) @ id(X)) >> A,
    "bricks": lambda: bricks(40, 10),
    "anyhow": lambda: anyhow(40, 10),
    "around each box": lambda: around(20),
}


def _graph(inputs: int, nodes: list[Node], outputs: list[int]) -> Diagram:
    return of_graph(Graph(Ty(*[X] * inputs), tuple(nodes), tuple(outputs)))


def chain(number: int) -> Diagram:
    """One after another."""
    return _graph(1, [Node(F.boxes[0], (k,)) for k in range(number)], [number])


def beside(number: int) -> Diagram:
    """Beside each other."""
    return _graph(number, [Node(F.boxes[0], (k,)) for k in range(number)], list(range(number, 2 * number)))


def around(number: int) -> Diagram:
    """Pairs of boxes: each takes what comes in and what the other makes of it."""
    nodes, at = [], 0
    for _ in range(number // 2):
        nodes.append(Node(F.boxes[0], (at,)))
        nodes.append(Node(A.boxes[0], (at, len(nodes))))
        at = len(nodes)
    return _graph(1, nodes, [at])


def bricks(number: int, width: int) -> Diagram:
    """Rows of boxes with two wires, each row shifted by a wire against the one before."""
    nodes: list[Node] = []
    at = list(range(width))
    row = 0
    while len(nodes) < number:
        for k in range(row % 2, width - 1, 2):
            nodes.append(Node(J.boxes[0], (at[k], at[k + 1])))
            at[k], at[k + 1] = width + 2 * len(nodes) - 2, width + 2 * len(nodes) - 1
        row += 1
    return _graph(width, nodes, at)


def anyhow(number: int, width: int, seed: int = 0) -> Diagram:
    """Boxes with two wires, each on any two of what there is."""
    drawn = random.Random(seed)
    nodes: list[Node] = []
    at = list(range(width))
    for k in range(number):
        i, j = drawn.sample(range(width), 2)
        nodes.append(Node(J.boxes[0], (at[i], at[j])))
        at[i], at[j] = width + 2 * k, width + 2 * k + 1
    return _graph(width, nodes, at)


def series_parallel(drawn: random.Random, size: int) -> Diagram:
    """From one array to one array: boxes after each other, and beside each other between a fork and a join."""
    if size < 2:
        return F
    part = drawn.randint(1, size - 1)
    one, other = series_parallel(drawn, part), series_parallel(drawn, size - part)
    return one >> other if drawn.random() < 0.5 else K >> (one @ other) >> A
