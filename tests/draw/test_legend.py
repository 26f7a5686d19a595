"""Legends: what occurs, and nothing else; nothing on top of anything."""

from __future__ import annotations

from itertools import combinations

import pytest

from catdiag.draw import Curve, Frame, Label, Scene, Shape, StraightLine, with_legend
from catdiag.draw.text_width import SIZES, text_width
from tests.draw.scenes import everything, level_wire


def said(scene: Scene) -> list[str]:
    return [item.text for item in with_legend(scene).items[len(scene.items) :] if getattr(item, "role", "") == "note"]


def test_nothing_is_said_of_nothing():
    plain = Scene(90, 20, (level_wire(0, 90, 9), Label(9, 9, "q")))
    assert with_legend(plain) is plain
    assert with_legend(Scene(9, 9, ())).items == ()


@pytest.mark.parametrize(
    ("item", "text"),
    [
        (Shape("call", 0, 0, 9, 9), "named diagram"),
        (Shape("map", 0, 0, 9, 9), "elementwise function"),
        (Shape("contract", 0, 0, 9, 9), "contraction (sum of products)"),
        (Shape("ring", 0, 0, 4, 4), "broadcast axis begins"),
        (Frame("fold", 0, 0, 9, 9), "loop"),
        (Frame("group", 0, 0, 9, 9), "runs in groups, in parallel"),
        (StraightLine(0, 0, 9, 0), "between arrays"),
        (Label(0, 0, "g_q"), "size of q in each group"),
        (Label(0, 0, "s_{kv}"), "size of kv in each block of a loop"),
        (level_wire(0, 9, 0, level=2), "array in registers"),
        (level_wire(0, 9, 0, kind="state"), "carried to the next iteration"),
    ],
)
def test_what_occurs_is_said_and_nothing_else(item, text):
    assert said(Scene(300, 20, (item,))) == [text]


@pytest.mark.parametrize(
    ("body", "texts"),
    [
        ("exp(b − a)", ["inputs of a box, from the top"]),
        ("a/√d", ["inputs of a box, from the top"]),
        ("where(i_{x} ≤ i_q, a, −∞)", ["inputs of a box, from the top", "position along x, q"]),
        ("max", []),
        ("exp", []),
        ("a", []),
        ("2·d", []),
    ],
)
def test_what_stands_for_what_in_formulas_is_said(body, texts):
    # A letter that is an axis is its size.
    scene = Scene(300, 20, (Shape("map", 0, 0, 9, 9), Label(9, 9, body, "body"), Label(9, 9, "d")))
    assert said(scene) == ["elementwise function", *texts]


def test_what_says_nothing_is_left_out():
    assert said(Scene(90, 20, (Label(0, 0, "a block at a time, a − b", "body"),))) == []
    assert (
        said(Scene(90, 20, (Label(0, 0, "g_q", "code"), Label(0, 0, "ag_q"), StraightLine(0, 0, 9, 0, "solid")))) == []
    )


def test_levels_are_called_as_the_scene_calls_them():
    wires = (level_wire(0, 9, 0), level_wire(0, 9, 9, level=1, kind="item"))
    assert said(Scene(300, 20, wires, levels={0: "L2", 1: "VMEM"}))[:2] == ["array in L2", "array in VMEM"]


def test_the_picture_stays_and_the_legend_stands_under_it():
    scene = everything()
    shown = with_legend(scene)
    added = shown.items[len(scene.items) :]
    assert shown.items[: len(scene.items)] == scene.items and shown.width == scene.width
    boxes = []
    for item in added:
        if isinstance(item, Label):
            wide, size = text_width(item.text, item.role), SIZES[item.role]
            boxes.append((item.x, item.y - 0.75 * size, item.x + wide, item.y + 0.2 * size))
        elif isinstance(item, Shape | Frame):
            boxes.append((item.x, item.y, item.x + item.width, item.y + item.height))
        elif isinstance(item, Curve):
            boxes.append((item.places[0][0], item.places[0][1] - 2, item.places[-1][0], item.places[-1][1] + 2))
    for x1, y1, x2, y2 in boxes:
        assert x1 >= 0 and y1 >= scene.height and x2 <= shown.width and y2 <= shown.height
    # A dot stands on its wire; nothing else is on anything.
    for a, b in combinations(boxes, 2):
        meet = min(a[2], b[2]) - max(a[0], b[0]) > 0 and min(a[3], b[3]) - max(a[1], b[1]) > 0
        assert not meet or min(a[2] - a[0], b[2] - b[0]) < 5


def test_a_narrow_picture_becomes_wide_enough_to_read():
    shown = with_legend(Scene(30, 20, (Shape("call", 0, 0, 9, 9), Shape("reduce", 9, 0, 9, 9))))
    assert shown.width <= 260 and max(item.x for item in shown.items if isinstance(item, Label)) < shown.width
    assert with_legend(Scene(30, 20, (Shape("call", 0, 0, 9, 9),) * 9), width=400).width < 200


def test_a_solid_line_means_one_thing():
    across = ((0, 10), (9, 10), (18, 10), (27, 10))
    wires = (Curve(across), Curve(across, level=1), Curve(across, "item"))
    said = [
        item.text for item in with_legend(Scene(300, 20, wires, levels={0: "HBM", 1: "SMEM"})).items
        if isinstance(item, Label)
    ]  # fmt: skip
    assert said == ["array in HBM", "array in SMEM", "elements of an array"]
