"""Paths: outlines of shapes and frames, arrowheads, hatching, and pieces of Bézier curves, without style."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import TypeAlias

from catdiag.draw.scene import Frame, Point2D, Shape

Path: TypeAlias = tuple[tuple[str, tuple[Point2D, ...]], ...]
"""Commands: "M" and "L" with a place, "C" with two control points and an end, and "Z", which closes the path."""

_ARC = 0.5523
"""The distance of a quarter circle's control points from its ends, in radii (accurate to 3 parts in 10,000)."""

COPY = 3.5
"""The offset of each further copy of a group to the right and above the previous one."""


def curve(places: Sequence[Point2D]) -> Path:
    """A path along cubic Bézier pieces; straight pieces become lines.

    >>> curve([(0, 0), (1, 0), (2, 0), (3, 0)])
    (('M', ((0, 0),)), ('L', ((3, 0),)))
    """
    steps: list[tuple[str, tuple[Point2D, ...]]] = [("M", (places[0],))]
    for start, one, two, end in bezier_pieces(places):
        if _straight(start, one, two, end):
            if len(steps) > 1 and steps[-1][0] == "L" and _on_line(steps[-2][1][-1], start, end):
                steps[-1] = ("L", (end,))
            else:
                steps.append(("L", (end,)))
        else:
            steps.append(("C", (one, two, end)))
    return tuple(steps)


def bezier_pieces(places: Sequence[Point2D]) -> Iterator[tuple[Point2D, Point2D, Point2D, Point2D]]:
    """The Bézier pieces of a curve: start, two control points, end."""
    for at in range(0, len(places) - 3, 3):
        yield places[at], places[at + 1], places[at + 2], places[at + 3]


def _straight(start: Point2D, one: Point2D, two: Point2D, end: Point2D) -> bool:
    return _on_line(start, one, end) and _on_line(start, two, end)


def _on_line(start: Point2D, middle: Point2D, end: Point2D) -> bool:
    """Whether a place is on the segment between two others, to a hundredth of a point."""
    length = math.dist(start, end)
    if length < 1e-9:
        return math.dist(start, middle) < 1e-2
    away = abs((end[0] - start[0]) * (middle[1] - start[1]) - (end[1] - start[1]) * (middle[0] - start[0])) / length
    along = (end[0] - start[0]) * (middle[0] - start[0]) + (end[1] - start[1]) * (middle[1] - start[1])
    return away < 1e-2 and -1e-2 * length <= along <= length * (length + 1e-2)


def at(piece: tuple[Point2D, Point2D, Point2D, Point2D], t: float) -> Point2D:
    """The place at a parameter from 0 to 1 of a Bézier piece.

    >>> at(((0, 0), (0, 0), (2, 2), (2, 2)), 0.5)
    (1.0, 1.0)
    """
    u = 1 - t
    weights = (u * u * u, 3 * u * u * t, 3 * u * t * t, t * t * t)
    return sum(w * p[0] for w, p in zip(weights, piece)), sum(w * p[1] for w, p in zip(weights, piece))


def bezier_part(
    piece: tuple[Point2D, Point2D, Point2D, Point2D], first: float, last: float
) -> tuple[Point2D, Point2D, Point2D, Point2D]:
    """The part of a Bézier piece between two parameters, by de Casteljau's construction.

    >>> bezier_part(((0, 0), (1, 0), (2, 0), (3, 0)), 0.0, 0.5)[-1]
    (1.5, 0.0)
    """
    left = _split(piece, last)[0]
    return _split(left, first / last if last > 0 else 0.0)[1]


_Piece: TypeAlias = tuple[Point2D, Point2D, Point2D, Point2D]


def _split(piece: _Piece, t: float) -> tuple[_Piece, _Piece]:
    a, b, c, d = piece
    ab, bc, cd = _between(a, b, t), _between(b, c, t), _between(c, d, t)
    abc, bcd = _between(ab, bc, t), _between(bc, cd, t)
    middle = _between(abc, bcd, t)
    return (a, ab, abc, middle), (middle, bcd, cd, d)


def _between(a: Point2D, b: Point2D, t: float) -> Point2D:
    return a[0] + (b[0] - a[0]) * t, a[1] + (b[1] - a[1]) * t


def shortened(places: Sequence[Point2D], by: float) -> tuple[Point2D, ...]:
    """A curve without the last `by` points of its length, to leave room for an arrowhead."""
    piece = (places[-4], places[-3], places[-2], places[-1])
    end = piece[-1]
    low, high = 0.0, 1.0
    for _ in range(24):
        middle = (low + high) / 2
        if math.dist(at(piece, middle), end) > by:
            low = middle
        else:
            high = middle
    return (*places[:-4], *_split(piece, low)[0])


def arrowhead(places: Sequence[Point2D], length: float = 6.0, width: float = 5.0) -> Path:
    """A filled triangle with its tip at the curve's end, in the direction of the curve there."""
    (x, y), (bx, by) = places[-1], shortened(places, length)[-1]
    reach = math.dist((x, y), (bx, by)) or 1.0
    dx, dy = (x - bx) / reach, (y - by) / reach
    base, half = (x - dx * length, y - dy * length), width / 2
    corners = ((base[0] - dy * half, base[1] + dx * half), (base[0] + dy * half, base[1] - dx * half))
    return ("M", ((x, y),)), ("L", (corners[0],)), ("L", (corners[1],)), ("Z", ())


def line(x1: float, y1: float, x2: float, y2: float) -> Path:
    """A straight line."""
    return ("M", ((x1, y1),)), ("L", ((x2, y2),))


def rectangle(x: float, y: float, width: float, height: float, radius: float = 0.0) -> Path:
    """A rectangle, with round corners if it has a radius."""
    r = max(0.0, min(radius, width / 2, height / 2))
    if r == 0:
        return _closed((x, y), (x + width, y), (x + width, y + height), (x, y + height))
    k, right, low = r * (1 - _ARC), x + width, y + height
    return (
        ("M", ((x + r, y),)),
        ("L", ((right - r, y),)),
        ("C", ((right - k, y), (right, y + k), (right, y + r))),
        ("L", ((right, low - r),)),
        ("C", ((right, low - k), (right - k, low), (right - r, low))),
        ("L", ((x + r, low),)),
        ("C", ((x + k, low), (x, low - k), (x, low - r))),
        ("L", ((x, y + r),)),
        ("C", ((x, y + k), (x + k, y), (x + r, y))),
        ("Z", ()),
    )


def outline(shape: Shape) -> Path:
    """The closed outline of a shape; a line for a "stop".

    >>> outline(Shape("generic", 0, 0, 2, 1))[1]
    ('L', ((2, 0),))
    """
    x, y, w, h = shape.x, shape.y, shape.width, shape.height
    right, low, middle = x + w, y + h, y + h / 2
    if shape.kind in ("map", "dot", "ring", "source"):
        return rectangle(x, y, w, h, min(4.5, h / 4) if shape.kind == "map" else min(w, h) / 2)
    if shape.kind == "stop":
        return line(x + w / 2, y, x + w / 2, low)
    if shape.kind == "reduce":
        tip = min(h / 2, 0.4 * w, 9.0)
        return _closed((x, y), (right - tip, y), (right, middle), (right - tip, low), (x, low))
    if shape.kind == "contract":
        bulge = min(h / 2, 0.5 * w)
        k = h / 2 * _ARC
        return (
            ("M", ((x, y),)),
            ("L", ((right - bulge, y),)),
            ("C", ((right - bulge + bulge * _ARC, y), (right, middle - k), (right, middle))),
            ("C", ((right, middle + k), (right - bulge + bulge * _ARC, low), (right - bulge, low))),
            ("L", ((x, low),)),
            ("Z", ()),
        )
    if shape.kind == "reindex":
        c = min(5.0, w / 3, h / 3)
        return _closed(
            (x + c, y), (right - c, y), (right, y + c), (right, low - c),
            (right - c, low), (x + c, low), (x, low - c), (x, y + c),
        )  # fmt: skip
    return rectangle(x, y, w, h)


def _closed(*corners: Point2D) -> Path:
    return ("M", (corners[0],)), *(("L", (corner,)) for corner in corners[1:]), ("Z", ())


def copies(frame: Frame) -> Iterator[Path]:
    """The edges of the further copies behind a group, the farthest first."""
    x, y, right, low = frame.x, frame.y, frame.x + frame.width, frame.y + frame.height
    for n in (2, 1):
        d, before = n * COPY, (n - 1) * COPY
        yield (
            ("M", ((x + d, y - before),)), ("L", ((x + d, y - d),)), ("L", ((right + d, y - d),)),
            ("L", ((right + d, low - d),)), ("L", ((right + before, low - d),)),
        )  # fmt: skip


def hatching(x: float, y: float, width: float, height: float) -> Path:
    """Lines that rise to the right inside a rectangle, 5 points from each other along the edge."""
    steps: list[tuple[str, tuple[Point2D, ...]]] = []
    for n in range(1, int((width + height) // 5) + 1):
        s = 5.0 * n
        start = (x, y + s) if s <= height else (x + s - height, y + height)
        end = (x + s, y) if s <= width else (x + width, y + s - width)
        if math.dist(start, end) > 1e-6:
            steps += [("M", (start,)), ("L", (end,))]
    return tuple(steps)
