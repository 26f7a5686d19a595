"""From a scene to what is painted, in order: paths with strokes and fills, and texts. Writers only print these."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from dataclasses import dataclass

from catdiag.draw.paths import Path, arrowhead, copies, curve, hatching, line, outline, rectangle, shortened
from catdiag.draw.scene import Curve, Frame, Label, Rule, Scene, Shape, spans
from catdiag.draw.text_width import SIZES
from catdiag.draw.theme import DASHED, Colour, Stroke, bar_colour, edge_of, level_colour, stroke_of
from catdiag.draw.wire_crossings import gaps


@dataclass(frozen=True, slots=True)
class Pen:
    """How a path is painted: the color and the stroke of its line, and the color of its fill; None for neither."""

    line: Colour | None = None
    width: float = 0.0
    dashes: tuple[float, ...] = ()
    fill: Colour | None = None

    @property
    def round(self) -> bool:
        """Whether its ends are round, as those of dots are."""
        return 0.0 in self.dashes


@dataclass(frozen=True, slots=True)
class Ink:
    """A painted path, and its tooltip."""

    path: Path
    pen: Pen
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
    colour: Colour

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


def painted(scene: Scene, colour: bool = True) -> Iterator[Ink | Text]:
    """All that is painted, from back to front, with the strokes of levels in color or without."""
    around = gaps(scene)
    for number, item in enumerate(scene.items):
        if isinstance(item, Curve):
            stroke = stroke_of(item.kind, item.level, colour)
            for gap in around.get(number, ()):
                yield Ink(curve(gap.places), Pen(gap.ground, stroke.width + 2 * _CLEAR))
            yield from _curve(item, stroke)
        elif isinstance(item, Shape):
            yield from _shape(item, edge_of(item.level, colour))
        elif isinstance(item, Frame):
            yield from _frame(item)
        elif isinstance(item, Rule):
            yield _rule(item)
        else:
            yield text_of(item)


def _rule(item: Rule) -> Ink:
    """A rule; dashes are stretched slightly, so that it ends with a whole one."""
    path = line(item.x1, item.y1, item.x2, item.y2)
    if item.kind == "solid":
        return Ink(path, Pen("faint", 0.6))
    dash, gap = DASHED.dashes
    length = math.dist((item.x1, item.y1), (item.x2, item.y2))
    count = max(1, round((length + gap) / (dash + gap)))
    by = length / (count * (dash + gap) - gap)
    return Ink(path, Pen("faint", DASHED.width, (dash * by, gap * by)))


def _stroked(path: Path, stroke: Stroke, colour: Colour, title: str = "", fill: Colour | None = None) -> Iterator[Ink]:
    yield Ink(path, Pen(colour, stroke.width, stroke.dashes, fill), title)
    if stroke.core:
        yield Ink(path, Pen("paper", stroke.core, stroke.dashes))


_CLEAR = 1.2
"""The clear background on each side of a wire that passes over another."""


def _curve(item: Curve, stroke: Stroke) -> Iterator[Ink]:
    colour = level_colour(item.level)
    if item.kind == "thin":
        colour = "soft" if item.level == 0 else colour
    if not item.arrow:
        yield from _stroked(curve(item.places), stroke, colour, item.title)
        return
    length = 4.5 + 1.2 * stroke.width
    body = shortened(item.places, 0.8 * length)
    yield from _stroked(curve(body), stroke, colour, item.title)
    yield Ink(arrowhead(item.places, length, 0.85 * length), Pen(fill=colour))


def _shape(item: Shape, stroke: Stroke) -> Iterator[Ink]:
    path, colour = outline(item), level_colour(item.level)
    if item.kind == "dot":
        yield Ink(path, Pen(fill=colour), item.title)
    elif item.kind == "ring":
        yield Ink(path, Pen(colour, 1.0, (), "paper"), item.title)
    elif item.kind == "stop":
        yield Ink(path, Pen(colour, 1.8), item.title)
    elif item.kind == "cell":
        yield Ink(path, Pen("faint", 0.6), item.title)
    elif item.kind == "bar":
        yield Ink(path, Pen(colour, 0.8, (), bar_colour(item.level)), item.title)
    else:
        yield from _stroked(path, stroke, colour, item.title, "paper")
        if item.kind == "call":
            d = 1.5 + stroke.width
            inner = rectangle(item.x + d, item.y + d, item.width - 2 * d, item.height - 2 * d)
            yield Ink(inner, Pen(colour, 0.6))


def _frame(item: Frame) -> Iterator[Ink]:
    colour: Colour = level_colour(item.level) if item.level else "soft"
    x, y, w, h = item.x, item.y, item.width, item.height
    if item.kind == "group":
        for behind in copies(item):
            yield Ink(behind, Pen(colour, 0.7))
        yield Ink(rectangle(x, y, w, h), Pen(colour, 0.9, (), "group"), item.title)
    elif item.kind == "fold":
        yield Ink(rectangle(x, y, w, h, 9.0), Pen(colour, 0.9, (), "fold"), item.title)
    elif item.kind == "call":
        yield Ink(rectangle(x, y, w, h, 2.0), Pen("faint", 0.8, (1.2, 2.0)), item.title)
    elif item.kind == "panel":
        yield Ink(rectangle(x, y, w, h), Pen("faint", 0.5), item.title)
    elif item.kind == "mark":
        pen = Pen("edge", 2.0) if item.hollow else Pen("edge", 0.8, (), "mark")
        yield Ink(rectangle(x, y, w, h, 4.0), pen, item.title)
    else:
        yield Ink(rectangle(x, y, w, h), Pen("faint", 0.5), item.title)
        yield Ink(hatching(x, y, w, h), Pen("faint", 0.5))


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
    colour = "ink" if label.role == "body" else level_colour(label.level)
    if label.level == 0 and label.role in ("note", "level"):
        colour = "soft"
    return Text(label, tuple(runs), colour)
