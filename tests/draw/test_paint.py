"""Outlines, hatching, arrowheads and the gaps of crossings, as geometry."""

from __future__ import annotations

import math
from typing import get_args

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from catdiag.draw.paint import Ink, painted
from catdiag.draw.paths import arrowhead, at, curve, hatching, outline, shortened
from catdiag.draw.scene import Curve, Frame, Scene, Shape, ShapeKind, StraightLine
from catdiag.draw.wire_crossings import gaps
from tests.draw.scenes import bent, everything, level_wire

lengths = st.floats(0.5, 400)


@settings(max_examples=50)
@given(st.sampled_from(get_args(ShapeKind)), lengths, lengths)
def test_outlines_fill_their_rectangles_and_stay_inside(kind, width, height):
    places = [place for _, some in outline(Shape(kind, 3, 5, width, height)) for place in some]
    xs, ys = [x for x, _ in places], [y for _, y in places]
    near = 1e-6
    assert min(ys) >= 5 - near and max(ys) <= 5 + height + near and min(xs) >= 3 - near and max(xs) <= 3 + width + near
    assert math.isclose(max(ys) - min(ys), height)
    if kind != "stop":
        assert math.isclose(max(xs) - min(xs), width)


@settings(max_examples=50)
@given(lengths, lengths)
def test_hatching_stays_inside(width, height):
    for _, ((x, y),) in hatching(1, 2, width, height):
        assert 1 - 1e-6 <= x <= 1 + width + 1e-6 and 2 - 1e-6 <= y <= 2 + height + 1e-6


def test_an_arrow_ends_where_its_wire_does():
    wire = bent(0, 0, 60, 40, arrow=True)
    head = arrowhead(wire.places, 6, 5)
    assert head[0] == ("M", ((60, 40),))
    assert math.isclose(math.dist(shortened(wire.places, 5)[-1], (60, 40)), 5, abs_tol=0.01)
    # What ends level points level.
    assert abs(head[1][1][0][0] - head[2][1][0][0]) < 0.5
    assert arrowhead(((0, 0), (0, 0), (0, 0), (0, 0)))


def test_straight_pieces_are_lines():
    assert [command for command, _ in curve(level_wire(0, 9, 3).places)] == ["M", "L"]
    assert [command for command, _ in curve(bent(0, 0, 9, 3).places)] == ["M", "C"]
    # Back and forth is no line from start to end.
    assert [command for command, _ in curve(((0, 0), (9, 0), (-9, 0), (3, 0)))] == ["M", "C"]


def test_the_upper_wire_has_a_gap_where_two_cross():
    under, over = bent(0, 0, 100, 60), bent(0, 60, 100, 0)
    found = gaps(Scene(100, 60, (under, over)))
    assert set(found) == {1} and len(found[1]) == 1
    middle = at(found[1][0].places, 0.5)
    assert math.dist(middle, (50, 30)) < 1 and found[1][0].ground == "paper"
    assert math.dist(found[1][0].places[0], found[1][0].places[-1]) < 8


@pytest.mark.parametrize("kind", ["group", "fold", "mark"])
def test_a_gap_shows_the_ground_that_is_there(kind):
    frames = (Frame("panel", 0, 0, 100, 60), Frame(kind, 40, 20, 20, 20), Frame("call", 41, 21, 18, 18))
    found = gaps(Scene(100, 60, (*frames, bent(0, 0, 100, 60), bent(0, 60, 100, 0))))
    assert [gap.ground for gap in found[4]] == [kind]


def test_wires_that_meet_or_touch_do_not_cross():
    fork = (bent(0, 30, 50, 0), bent(0, 30, 50, 60), level_wire(0, 50, 30))
    assert not gaps(Scene(50, 60, fork))
    assert not gaps(Scene(50, 60, (level_wire(0, 50, 30), level_wire(10, 60, 30), level_wire(0, 50, 31))))
    assert not gaps(Scene(50, 60, (bent(0, 0, 50, 60), bent(0, 60, 50, 0, kind="item"))))
    assert not gaps(Scene(50, 60, (level_wire(0, 50, 30), Curve(((25, 0), (25, 9), (25, 20), (25, 30))))))


def test_many_wires_take_time_in_proportion():
    bundle = [level_wire(0, 36_000, 15 * n) for n in range(400)] + [
        bent(60 * n, 5, 60 * n + 40, 95) for n in range(600)
    ]
    assert sum(map(len, gaps(Scene(36_000, 6_000, tuple(bundle))).values())) > 600


def test_everything_is_painted_with_what_a_reader_hovers_for():
    scene = everything()
    titles = {paint.title for paint in painted(scene) if isinstance(paint, Ink)}
    assert {item.title for item in scene.items if isinstance(item, Shape | Frame)} <= titles
    paths = [
        place for paint in painted(scene) if isinstance(paint, Ink) for _, places in paint.path for place in places
    ]
    assert all(math.isfinite(x) and math.isfinite(y) for x, y in paths)


@pytest.mark.parametrize("length", [0.5, 14, 18, 20, 31.7, 400])
def test_a_dashed_rule_ends_with_a_whole_dash(length):
    (ink,) = painted(Scene(400, 9, (StraightLine(0, 3, length, 3),)))
    dash, gap = ink.pen.dashes
    turns = (length + gap) / (dash + gap)
    assert math.isclose(turns, round(turns)) and (length < 5 or 2.5 < dash < 6)
