"""Equality without a walk says what the walk says: on copies as stored, other orders, other boxes, other wires."""

from __future__ import annotations

import random

import pytest

from catdiag.category.diagram import Diagram, Graph, Node, box, id, of_graph
from catdiag.category.equality import _at_sight, _canon, _same
from catdiag.category.ops import Box, Generic
from catdiag.category.substitution import call
from catdiag.category.types import ArrayType, Axis, Ty

X = Ty(ArrayType((Axis("x"),)))


def drawn(rng: random.Random, boxes: int) -> Graph:
    """A flat form with boxes of two kinds; the boxes and types are new objects each time."""
    nodes: list[Node] = []
    wires = 2
    for _ in range(boxes):
        arity, coarity = rng.randrange(3), rng.randrange(1, 3)
        name = rng.choice("fg") + f"{arity}{coarity}"
        ty = [Ty(*[ArrayType((Axis("x"),))] * k) for k in (arity, coarity)]
        nodes.append(Node(Box(Generic(name), *ty), tuple(rng.randrange(wires) for _ in range(arity))))
        wires += coarity
    return Graph(X @ X, tuple(nodes), tuple(rng.randrange(wires) for _ in range(2)))


def test_it_says_what_the_walk_says() -> None:
    seen: list[bool | None] = []
    for seed in range(3000):
        rng = random.Random(seed)
        boxes = rng.randrange(4)
        first = drawn(random.Random(seed % 60), boxes)
        second = drawn(random.Random(seed % 60 if rng.random() < 0.3 else rng.randrange(60)), boxes)
        left, right = of_graph(first), of_graph(second)
        at_sight = _at_sight(first, second)
        seen.append(at_sight)
        walked = left.cod == right.cod and _same(left, right, {})
        left, right = of_graph(first), of_graph(second)
        assert at_sight in (None, walked)
        assert (left == right) is walked
    assert {seen.count(answer) > 100 for answer in (True, False, None)} == {True}


def test_a_kept_numbering_is_used() -> None:
    f, g = box("f", X, X), box("g", X, X)
    left, right = f >> g, box("f", X, X) >> box("g", X, X)
    assert _canon(left) is left._canon and right._canon is None
    assert left == right and left != (g >> f) and left != (f >> f)


def test_boxes_with_bodies_are_left_to_the_walk() -> None:
    def made(name: str) -> Diagram:
        return call("c", call("d", box(name, X, X)) >> box("g", X, X))

    assert _at_sight(made("f").graph, made("f").graph) is None
    assert made("f") == made("f") and made("f") != made("h")


@pytest.mark.parametrize("side", ["left", "right"])
def test_types_of_tensors_are_found_together(side: str) -> None:
    """Domain and codomain of what stands side by side, whichever is asked for first, are those of the parts."""
    Y = Ty(ArrayType((Axis("y"),)))
    parts = [box("f", X, Y), id(X @ Y), box("g", Y, Y @ X), id(Ty()), box("h", Ty(), X)]
    for order in (parts, parts[::-1], parts[1::2], [id(X), id(Y)]):
        nested = order[0]
        for part in order[1:]:
            nested = nested @ part if side == "left" else part @ nested
        flat = order if side == "left" else order[::-1]
        doms, cods = [a for d in flat for a in d.dom], [a for d in flat for a in d.cod]
        asked = (nested.cod, nested.dom) if side == "left" else (nested.dom, nested.cod)[::-1]
        assert [list(t) for t in asked] == [cods, doms]
