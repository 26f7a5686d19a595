"""From a scene to what is painted, in order: paths with strokes and fills, and texts. Writers only print these."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from dataclasses import dataclass

from catdiag.draw.paths import Path, arrowhead, copies, curve, hatching, line, outline, rectangle, shortened
from catdiag.draw.scene import Curve, Frame, Label, Scene, Shape, StraightLine, spans
from catdiag.draw.text_width import SIZES
from catdiag.draw.theme import DASHED, Color, Stroke, bar_color, edge_of, level_color, stroke_of
from catdiag.draw.wire_crossings import gaps


@dataclass(frozen=True, slots=True)
class StrokeStyle:
    """How a path is painted: the color and the stroke of its line, and the color of its fill; None for neither."""

    line: Color | None = None
    width: float = 0.0
    dashes: tuple[float, ...] = ()
    fill: Color | None = None

    @property
    def round(self) -> bool:
        """Whether its ends are round, as those of dots are."""
        return 0.0 in self.dashes


@dataclass(frozen=True, slots=True)
class Ink:
    """A painted path, and its tooltip."""

    path: Path
    pen: StrokeStyle
    title: str = ""


@dataclass(frozen=True, slots=True)
class Run:
    """A part of a text with one style."""

    text: str
    low: bool = False
    italic: bool = False


@dataclass(frozen=True, slots=True)
class Text:
    """A painted text; its place, anchor and rotation are those of its label."""

    label: Label
    runs: tuple[Run, ...]
    color: Color

    @property
    def size(self) -> float:
        return SIZES[self.label.role]

    @property
    def bold(self) -> bool:
        return self.label.role == "title"

    @property
    def fixed(self) -> bool:
        """Whether its font is monospaced."""
        return self.label.role in ("code", "number")


def painted(scene: Scene, color: bool = True) -> Iterator[Ink | Text]:
    """All that is painted, from back to front, with the strokes of levels in color or without."""
    around = gaps(scene)
    for number, item in enumerate(scene.items):
        if isinstance(item, Curve):
            stroke = stroke_of(item.kind, item.level, color)
            for gap in around.get(number, ()):
                yield Ink(curve(gap.places), StrokeStyle(gap.ground, stroke.width + 2 * _CLEAR))
            yield from _curve(item, stroke)
        elif isinstance(item, Shape):
            yield from _shape(item, edge_of(item.level, color))
        elif isinstance(item, Frame):
            yield from _frame(item)
        elif isinstance(item, StraightLine):
            yield _rule(item)
        else:
            yield text_of(item)


def _rule(item: StraightLine) -> Ink:
    """A rule; dashes are stretched slightly, so that it ends with a whole one."""
    path = line(item.x1, item.y1, item.x2, item.y2)
    if item.kind == "solid":
        return Ink(path, StrokeStyle("faint", 0.6))
    dash, gap = DASHED.dashes
    length = math.dist((item.x1, item.y1), (item.x2, item.y2))
    count = max(1, round((length + gap) / (dash + gap)))
    by = length / (count * (dash + gap) - gap)
    return Ink(path, StrokeStyle("faint", DASHED.width, (dash * by, gap * by)))


def _stroked(path: Path, stroke: Stroke, color: Color, title: str = "", fill: Color | None = None) -> Iterator[Ink]:
    yield Ink(path, StrokeStyle(color, stroke.width, stroke.dashes, fill), title)
    if stroke.core:
        yield Ink(path, StrokeStyle("paper", stroke.core, stroke.dashes))


_CLEAR = 1.2
"""The clear background on each side of a wire that passes over another."""


def _curve(item: Curve, stroke: Stroke) -> Iterator[Ink]:
    color = level_color(item.level)
    if item.kind == "thin":
        color = "soft" if item.level == 0 else color
    if not item.arrow:
        yield from _stroked(curve(item.places), stroke, color, item.title)
        return
    length = 4.5 + 1.2 * stroke.width
    body = shortened(item.places, 0.8 * length)
    yield from _stroked(curve(body), stroke, color, item.title)
    yield Ink(arrowhead(item.places, length, 0.85 * length), StrokeStyle(fill=color))


def _shape(item: Shape, stroke: Stroke) -> Iterator[Ink]:
    path, color = outline(item), level_color(item.level)
    if item.kind == "dot":
        yield Ink(path, StrokeStyle(fill=color), item.title)
    elif item.kind == "ring":
        yield Ink(path, StrokeStyle(color, 1.0, (), "paper"), item.title)
    elif item.kind == "stop":
        yield Ink(path, StrokeStyle(color, 1.8), item.title)
    elif item.kind == "cell":
        yield Ink(path, StrokeStyle("faint", 0.6), item.title)
    elif item.kind == "bar":
        yield Ink(path, StrokeStyle(color, 0.8, (), bar_color(item.level)), item.title)
    else:
        yield from _stroked(path, stroke, color, item.title, "paper")
        if item.kind == "call":
            d = 1.5 + stroke.width
            inner = rectangle(item.x + d, item.y + d, item.width - 2 * d, item.height - 2 * d)
            yield Ink(inner, StrokeStyle(color, 0.6))


def _frame(item: Frame) -> Iterator[Ink]:
    color: Color = level_color(item.level) if item.level else "soft"
    x, y, w, h = item.x, item.y, item.width, item.height
    if item.kind == "group":
        for behind in copies(item):
            yield Ink(behind, StrokeStyle(color, 0.7))
        yield Ink(rectangle(x, y, w, h), StrokeStyle(color, 0.9, (), "group"), item.title)
    elif item.kind == "fold":
        yield Ink(rectangle(x, y, w, h, 9.0), StrokeStyle(color, 0.9, (), "fold"), item.title)
    elif item.kind == "call":
        yield Ink(rectangle(x, y, w, h, 2.0), StrokeStyle("faint", 0.8, (1.2, 2.0)), item.title)
    elif item.kind == "panel":
        yield Ink(rectangle(x, y, w, h), StrokeStyle("faint", 0.5), item.title)
    elif item.kind == "mark":
        pen = StrokeStyle("edge", 2.0) if item.hollow else StrokeStyle("edge", 0.8, (), "mark")
        yield Ink(rectangle(x, y, w, h, 4.0), pen, item.title)
    else:
        yield Ink(rectangle(x, y, w, h), StrokeStyle("faint", 0.5), item.title)
        yield Ink(hatching(x, y, w, h), StrokeStyle("faint", 0.5))


_NAME = re.compile(r"(?P<name>[^\W\d]\w*)|(?:(?![^\W\d]).)+", re.DOTALL)


def text_of(label: Label) -> Text:
    """A label as it is painted: with separate subscripts, and axis names and subscripts in italics.

    >>> [(run.text, run.low, run.italic) for run in text_of(Label(0, 0, "2q", "axis")).runs]
    [('2', False, False), ('q', False, True)]
    """
    runs: list[Run] = []
    for part, low in spans(label.text):
        if label.role == "axis" or (low and label.role not in ("code", "number")):
            runs += [Run(found[0], low, found["name"] is not None) for found in _NAME.finditer(part)]
        else:
            runs.append(Run(part, low))
    # The text of a box is black on white at every level: its edge has the level's color.
    color = "ink" if label.role == "body" else level_color(label.level)
    if label.level == 0 and label.role in ("note", "level"):
        color = "soft"
    return Text(label, tuple(runs), color)
