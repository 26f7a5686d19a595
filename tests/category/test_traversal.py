"""Walks through the bodies in a diagram: each once, in their order, and rebuilt from the inside out."""

from __future__ import annotations

from catdiag.category.diagram import Diagram, box, with_boxes
from catdiag.category.substitution import call
from catdiag.category.traversal import all_diagrams, bodies_first, rebuilt
from catdiag.category.types import ArrayType, Axis

X = ArrayType((Axis("x"),))
F, G = box("f", X, X), box("g", X, X)


def nested() -> Diagram:
    """A body that is shared by two others, and read beside them."""
    shared = call("shared", F >> F)
    return call("one", shared >> G) >> call("two", G >> shared) >> shared


def test_each_body_comes_once_before_what_it_is_part_of() -> None:
    found = list(bodies_first(nested()))
    assert len(found) == 4 and {id(d) for d in found} == {id(d) for d in all_diagrams(found[-1])}
    places = {id(d): k for k, d in enumerate(found)}
    for item in found:
        for inner in all_diagrams(item):
            assert places[id(inner)] <= places[id(item)]


def test_what_stays_is_the_same_object() -> None:
    whole = nested()
    assert rebuilt(whole, lambda item: item) is whole
    one = rebuilt(whole, lambda item: with_boxes(item, {0: G.boxes[0]}) if item == F >> F else item)
    assert one != whole and next(bodies_first(one)) == G >> F
    assert len({id(d) for d in all_diagrams(one)}) == 4  # still shared


def test_other_boxes_keep_their_wires() -> None:
    pair = F @ G >> (G @ F)
    assert with_boxes(pair, {}) == pair
    assert with_boxes(pair, {0: G.boxes[0], 2: F.boxes[0]}) == G @ G >> (F @ F)
