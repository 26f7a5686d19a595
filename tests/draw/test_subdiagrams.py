"""Diagrams of very many boxes in named parts: the same diagram, few boxes on each level, and layers that are found."""

from __future__ import annotations

import pytest

import catdiag as cd
from catdiag.category.diagram import Diagram, diagram_of
from catdiag.category.ops import Call, bodies
from catdiag.category.substitution import inline
from catdiag.draw.render import scene_of
from catdiag.draw.scene import Label
from catdiag.draw.string_diagram.subdiagrams import MOST, folded
from tests.draw.checker import faults
from tests.draw.pictured import anyhow, around, beside, bricks, chain


def levels(diagram: Diagram) -> list[Diagram]:
    """A diagram and the insides of its parts, of theirs, and so on; each once."""
    found, todo = {id(diagram): diagram}, [diagram]
    while todo:
        for box in todo.pop().boxes:
            for inner in bodies(box.op):
                if id(inner) not in found:
                    found[id(inner)] = inner
                    todo.append(inner)
    return list(found.values())


MANY = {"chain": chain, "beside": beside, "around": around, "bricks": lambda n: bricks(n, 10),
        "anyhow": lambda n: anyhow(n, 10)}  # fmt: skip


@pytest.mark.parametrize("kind", MANY)
@pytest.mark.parametrize(("number", "most"), [(50, 4), (700, 12), (5000, MOST)])
def test_parts_are_the_diagram_and_each_has_few_boxes(kind, number, most):
    diagram = MANY[kind](number)
    parts = folded(diagram_of(diagram), most)
    assert inline(parts) == diagram and parts.dom == diagram.dom and parts.cod == diagram.cod
    found = levels(parts)
    assert all(0 < len(inside.boxes) <= most for inside in found)
    # One name is one inside.
    named = {}
    for inside in found:
        for box in inside.boxes:
            if isinstance(box.op, Call):
                assert named.setdefault(box.op.name, box.op.body) == box.op.body


def test_what_is_small_stays_as_it_is():
    diagram = cd.library.get("attention").diagram
    assert folded(diagram) is diagram
    with pytest.raises(ValueError, match="most is 3: expected parts of 4 or more"):
        folded(diagram, 3)


def _network(layers: int) -> Diagram:
    def network(a, *weights):
        for w, v in zip(weights[::2], weights[1::2], strict=True):
            normal = cd.softmax(a * a, "d")
            hidden = cd.tanh(cd.einsum("t d, d f -> t f", normal, w))
            a = a + cd.nn.sigmoid(cd.einsum("t f, d f -> t d", hidden, v))
        return a

    return cd.algorithm("t d" + ", d f, d f" * layers, name="network")(network).diagram


def test_the_layers_of_a_network_are_parts_of_one_name():
    network = _network(12)
    parts = folded(network, 30)
    names = [box.op.name for box in parts.boxes]
    assert set(names) == {"part 1"} and len(names) in (3, 4, 6, 12)
    assert inline(parts) == inline(network)


def test_the_insides_of_groups_and_loops_are_folded_too():
    def rows(a):
        for _ in range(90):
            a = cd.exp(a)
        return cd.sum(a, "x")

    derived = cd.algorithm("q x")(rows).stream("x").group("q").diagram
    parts = folded(derived, 20)
    assert all(len(inside.boxes) <= 20 for inside in levels(parts) if inside is not parts)
    scene = scene_of(derived, most=60)
    assert faults(scene) == [] and len(scene.items) < len(scene_of(derived, most=None).items) / 3


def test_pictures_of_many_boxes_are_small_and_without_faults():
    for number in (500, 5000):
        scene = scene_of(around(number))
        assert faults(scene) == [] and len(scene.items) < 500 and scene.width < 6000
        boxes = [item.text for item in scene.items if isinstance(item, Label) and item.role == "body"]
        assert boxes and all(text.startswith("part") for text in boxes)
