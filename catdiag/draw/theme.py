"""Themes: the colors of each theme, and the stroke of each level of memory.

Colors are named by their role; a theme gives their values. Every level has a stroke of its own beside its color. In
color the strokes differ slightly; without color they differ so much that they alone distinguish the levels.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, TypeAlias, get_args

from catdiag.draw.scene import LEVELS, CurveKind

Color = Literal[
    "ink", "paper", "soft", "faint", "level1", "level2", "level3", "bar0", "bar1", "bar2", "bar3",
    "group", "fold", "mark", "edge",
]  # fmt: skip
"""The role of a color: lines and text, the background, secondary text and lines, levels, bars of levels in a chart,
the backgrounds of groups, of loops and of marks, and the edge of marks."""

Theme = Literal["auto", "light", "dark"]
"""The theme of a picture; "auto" follows the reader's preference, where the writer supports it."""

COLORS: tuple[Color, ...] = get_args(Color)

Palette: TypeAlias = Mapping[Color, str]
"""The colours of a theme, as #rrggbb."""

LIGHT: Palette = {
    "ink": "#111111", "paper": "#ffffff", "soft": "#555555", "faint": "#ababab",
    "level1": "#d9690a", "level2": "#23893b", "level3": "#1b5fc1",
    "bar0": "#e4e4e2", "bar1": "#fde3c8", "bar2": "#cfead4", "bar3": "#d3e2f8",
    "group": "#f9f9f8", "fold": "#f1f1ef", "mark": "#ffefb3", "edge": "#d3a400",
}  # fmt: skip
DARK: Palette = {
    "ink": "#e9e9e7", "paper": "#15171a", "soft": "#b0b2b5", "faint": "#65686d",
    "level1": "#ffa24a", "level2": "#74cf86", "level3": "#83b4ff",
    "bar0": "#3a3d42", "bar1": "#5a3d1d", "bar2": "#254a2d", "bar3": "#233f6b",
    "group": "#1a1d21", "fold": "#22262b", "mark": "#4b4113", "edge": "#b89328",
}  # fmt: skip

_LIGHT_GRAYS: Palette = {
    "bar0": "#ffffff", "bar1": "#e6e6e6", "bar2": "#d2d2d2", "bar3": "#bdbdbd", "mark": "#e0e0e0", "edge": "#6e6e6e",
}  # fmt: skip
_DARK_GRAYS: Palette = {
    "bar0": "#15171a", "bar1": "#2c2f33", "bar2": "#404348", "bar3": "#55595e", "mark": "#3d4045", "edge": "#a5a7aa",
}  # fmt: skip

LEVEL_COLORS: tuple[Color, ...] = ("ink", "level1", "level2", "level3")
"""The color of each level, the slowest first."""

BARS: tuple[Color, ...] = ("bar0", "bar1", "bar2", "bar3")


def palette(theme: Literal["light", "dark"], color: bool) -> Palette:
    """The colors of a theme; without color, levels are drawn in ink and marks in gray.

    >>> palette("light", False)["level1"] == palette("light", True)["ink"]
    True
    """
    chosen = DARK if theme == "dark" else LIGHT
    if color:
        return chosen
    inks: dict[Color, str] = dict.fromkeys(LEVEL_COLORS, chosen["ink"])
    return {**chosen, **inks, **(_DARK_GRAYS if theme == "dark" else _LIGHT_GRAYS)}


@dataclass(frozen=True, slots=True)
class Stroke:
    """A line: its width, its dashes and gaps (a dash of 0 is a dot), and the width of a gap along its middle.

    The gap doubles the line; 0 is none.
    """

    width: float
    dashes: tuple[float, ...] = ()
    core: float = 0.0


_AXIS = (Stroke(1.1), Stroke(1.7), Stroke(1.4), Stroke(3.0, (), 1.2))
_PLAIN_AXIS = (Stroke(0.9), Stroke(2.2), Stroke(1.5, (8.0, 2.4)), Stroke(3.2, (), 1.4))
"""The stroke of an axis at each level; without colour: thin, thick, in dashes, double."""

_ITEM = (Stroke(2.3, (0.0, 4.4)), Stroke(2.8, (0.0, 4.8)), Stroke(2.5, (0.0, 4.6)), Stroke(3.4, (0.0, 5.6), 1.4))
_PLAIN_ITEM = (Stroke(2.0, (0.0, 4.4)), Stroke(3.4, (0.0, 5.4)), Stroke(2.0, (2.4, 3.2)), Stroke(3.6, (0.0, 5.8), 1.6))
"""The stroke of an array's elements at each level; without colour: dots, thick dots, short dashes, open dots."""

_SHAPE = (Stroke(1.0), Stroke(1.4), Stroke(1.2), Stroke(2.6, (), 1.0))
_PLAIN_SHAPE = (Stroke(0.9), Stroke(2.0), Stroke(1.2), Stroke(2.8, (), 1.2))
"""The edge of a box that runs at each level; where widths are near, its wires tell."""

THIN = Stroke(0.7)
DASHED = Stroke(0.7, (4.0, 3.0))
"""The rule between the members of a tuple."""


def level_of(number: int) -> int:
    """The level whose look a level has: levels past the last look have the last one."""
    return min(max(number, 0), LEVELS - 1)


def stroke_of(kind: CurveKind, level: int, color: bool = True) -> Stroke:
    """The stroke of a curve, with or without color.

    >>> stroke_of("axis", 1), stroke_of("axis", 2, color=False)
    (Stroke(width=1.7, dashes=(), core=0.0), Stroke(width=1.5, dashes=(8.0, 2.4), core=0.0))
    """
    if kind == "thin":
        return THIN
    if kind == "item":
        return (_ITEM if color else _PLAIN_ITEM)[level_of(level)]
    return (_AXIS if color else _PLAIN_AXIS)[level_of(level)]


def edge_of(level: int, color: bool = True) -> Stroke:
    """The stroke of the edge of a box."""
    return (_SHAPE if color else _PLAIN_SHAPE)[level_of(level)]


def level_color(level: int) -> Color:
    """The color of a level."""
    return LEVEL_COLORS[level_of(level)]


def bar_color(level: int) -> Color:
    """The fill of a level's bars."""
    return BARS[level_of(level)]
