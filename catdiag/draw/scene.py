"""A picture as data: positioned curves, shapes, labels and frames, independent of the writer.

Layouts make scenes and writers (SVG, TikZ) print them, so that geometry is tested without a writer. Lengths are in
points; x grows to the right and y downwards. Items are painted in order. Texts are plain, except for `_`: after a name
of one letter, or `max` and the like, the rest of the name is a subscript (`g_q`), and `_{…}` is a subscript of any
letters. `plain` escapes the underscores of a text.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

Point2D: TypeAlias = tuple[float, float]
"""A place: x and y."""

LEVELS = 4
"""The number of levels with a look of their own: 0 is the slowest memory, the last one the matrix units."""

CurveKind = Literal["axis", "item", "state", "thin"]
ShapeKind = Literal[
    "map", "reduce", "contract", "call", "generic", "source", "reindex", "dot", "ring", "stop", "cell", "bar"
]
LabelRole = Literal["axis", "array", "body", "title", "level", "note", "code", "number"]
FrameKind = Literal["group", "fold", "call", "panel", "mark", "slack"]


def straight(a: Point2D, b: Point2D) -> tuple[Point2D, Point2D, Point2D, Point2D]:
    """The four places of a straight curve."""
    third = ((b[0] - a[0]) / 3, (b[1] - a[1]) / 3)
    return (a, (a[0] + third[0], a[1] + third[1]), (b[0] - third[0], b[1] - third[1]), b)


@dataclass(frozen=True, slots=True)
class Curve:
    """A wire: a start, then cubic Bézier pieces of two control points and an end each, 3n + 1 places in all.

    `kind` is "axis" (the wire of an axis), "item" (the dotted wire of an array's elements), "state" (a loop's state,
    carried back to the start) or "thin" (ticks, braces, leaders). `level` is the memory of the array. `ends` are the
    names of the ports at which it starts and ends, or empty. `title` is its tooltip.
    """

    places: tuple[Point2D, ...]
    kind: CurveKind = "axis"
    level: int = 0
    arrow: bool = False
    ends: tuple[str, str] = ("", "")
    title: str = ""


@dataclass(frozen=True, slots=True)
class Shape:
    """A function, a source or a spider, drawn in a rectangle from its upper left corner.

    - "map": a rounded box, a scalar function; "generic": a square box, an uninterpreted function; "reindex": a box with
      cut corners; "call": a named diagram, a box with a double edge; "source": a stadium, for constants and positions;
    - "reduce": a box whose right side is a point; "contract": a box whose right side is round, a contraction;
    - "dot": a filled disc, where wires of one axis meet or part; "ring": an open disc, where a broadcast axis begins;
      "stop": a short bar, where a wire ends;
    - "cell": a rectangle of a table; "bar": a rectangle of a chart, whose length is a quantity.
    """

    kind: ShapeKind
    x: float
    y: float
    width: float
    height: float
    level: int = 0
    key: str = ""
    title: str = ""


@dataclass(frozen=True, slots=True)
class Label:
    """A text with its baseline at (x, y). `anchor` says which part of it is at x. `rotated` is by 90 degrees."""

    x: float
    y: float
    text: str
    role: LabelRole = "axis"
    anchor: Literal["start", "middle", "end"] = "middle"
    level: int = 0
    rotated: bool = False
    title: str = ""


@dataclass(frozen=True, slots=True)
class Frame:
    """A region.

    "group" (parallel tiles, with the edges of further copies behind), "fold" (a loop), "call" (an opened named
    diagram), "panel" (a part of a page), "mark" (the change of a rewrite; only its edge if `hollow`), "slack"
    (hatched).
    """

    kind: FrameKind
    x: float
    y: float
    width: float
    height: float
    level: int = 0
    title: str = ""
    hollow: bool = False


@dataclass(frozen=True, slots=True)
class StraightLine:
    """A straight line: "dashed" between the members of a tuple, "solid" in tables."""

    x1: float
    y1: float
    x2: float
    y2: float
    kind: Literal["dashed", "solid"] = "dashed"


Item: TypeAlias = Curve | Shape | Label | Frame | StraightLine


@dataclass(frozen=True)
class Scene:
    """A picture of a width and a height, from (0, 0), with a description for screen readers, and names of levels.

    `ports` are the places where curves may start and end, by name; `levels` are the names of the levels that occur,
    by number.
    """

    width: float
    height: float
    items: tuple[Item, ...]
    title: str = ""
    description: str = ""
    levels: Mapping[int, str] = field(default_factory=dict)
    ports: Mapping[str, Point2D] = field(default_factory=dict)


_BASE = r"(?:(?<=\b[^\W_])|(?<=\b[^\W_]\d)|(?<=[Σ∏′])|(?<=\bmax)|(?<=\bmin)|(?<=\bany)|(?<=\ball))"
_SUBSCRIPT = re.compile(r"\\_|_\{([^}]*)\}|" + _BASE + r"_([^\W_]\w*)")


def plain(text: str) -> str:
    """A text whose underscores do not start subscripts.

    >>> spans(plain("log_sum"))
    [('log_sum', False)]
    """
    return text.replace("_", "\\_")


def spans(text: str) -> list[tuple[str, bool]]:
    """The parts of a text, and whether each is a subscript.

    >>> spans("max_x t·g_{2q}′")
    [('max', False), ('x', True), (' t·g', False), ('2q', True), ('′', False)]
    >>> spans("of_query g_n_heads s2_x")
    [('of_query g', False), ('n_heads', True), (' s2', False), ('x', True)]
    """
    found: list[tuple[str, bool]] = []

    def add(part: str, low: bool) -> None:
        if found and not low and not found[-1][1]:
            found[-1] = (found[-1][0] + part, False)
        elif part:
            found.append((part, low))

    at = 0
    for match in _SUBSCRIPT.finditer(text):
        add(text[at : match.start()], False)
        low = match[1] if match[1] is not None else match[2]
        add("_" if low is None else low, low is not None)
        at = match.end()
    add(text[at:], False)
    return found
