"""The crossings of wires: the wire painted later gets a gap around it, so that it is seen to pass over the other."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from catdiag.draw.paths import at, bezier_part, bezier_pieces
from catdiag.draw.scene import Curve, Frame, Point2D, Scene
from catdiag.draw.theme import Color


@dataclass(frozen=True, slots=True)
class Gap:
    """The part of the upper wire along which the background shows on both sides, and the color of the background."""

    places: tuple[Point2D, Point2D, Point2D, Point2D]
    ground: Color


_STEPS = 12
"""The number of straight parts into which a bent piece is cut to find its crossings."""
_CELL = 24.0
_REACH = 2.4
"""The length of a gap along the upper wire on each side of a crossing."""
_SHARP = 0.4
"""The sine of the least angle with a gap: at smaller angles a gap would cut a long piece of the lower wire."""
_DENSE = 10.0
"""The least distance between crossings with gaps: closer gaps would leave only crumbs of the lower wires."""
_AWAY = 8.0
"""The least distance of a crossing from the ends of both wires: closer, the wires meet instead."""


@dataclass(frozen=True, slots=True)
class _CurvePart:
    item: int
    piece: int
    t: tuple[float, float]
    a: Point2D
    b: Point2D


def gaps(scene: Scene) -> Mapping[int, tuple[Gap, ...]]:
    """The gaps of each wire of a scene, by the number of the item; dots need none.

    The time is proportional to the length of the wires plus the number of crossings.
    """
    found: list[tuple[int, int, float, Point2D]] = []
    grid = _Grid()
    for number, item in enumerate(scene.items):
        if not isinstance(item, Curve) or item.kind not in ("axis", "state"):
            continue
        parts = list(_parts(number, item))
        crossed: set[tuple[int, float]] = set()
        for part in parts:
            for other in grid.neighbors(part):
                hit = _meet(part, other)
                if hit is None or _near_ends(scene, number, hit[1]) or _near_ends(scene, other.item, hit[1]):
                    continue
                where = (part.piece, round(hit[0], 2))
                if where not in crossed:
                    crossed.add(where)
                    found.append((number, part.piece, *hit))
        for part in parts:
            grid.add(part)
    frames = [item for item in scene.items if isinstance(item, Frame)]
    by_item: dict[int, list[Gap]] = defaultdict(list)
    alone = _isolated([point for _, _, _, point in found])
    for (number, piece, t, point), lonely in zip(found, alone, strict=True):
        item = scene.items[number]
        if lonely and isinstance(item, Curve):
            by_item[number].append(_gap(item, piece, t, _ground(frames, point)))
    return {number: tuple(some) for number, some in by_item.items()}


def _isolated(points: list[Point2D]) -> list[bool]:
    """Whether each place is at least `_DENSE` away from all others."""
    cells: dict[tuple[int, int], list[int]] = defaultdict(list)
    for n, (x, y) in enumerate(points):
        cells[math.floor(x / _DENSE), math.floor(y / _DENSE)].append(n)

    def near(n: int) -> Iterator[int]:
        column, row = math.floor(points[n][0] / _DENSE), math.floor(points[n][1] / _DENSE)
        for c in (column - 1, column, column + 1):
            for r in (row - 1, row, row + 1):
                yield from cells.get((c, r), ())

    return [all(m == n or math.dist(points[m], points[n]) >= _DENSE for m in near(n)) for n in range(len(points))]


def _parts(number: int, item: Curve) -> Iterator[_CurvePart]:
    for place, piece in enumerate(bezier_pieces(item.places)):
        straight = abs(piece[0][1] - piece[3][1]) < 1e-6 and abs(piece[1][1] - piece[2][1]) < 1e-6
        steps = 1 if straight and abs(piece[0][1] - piece[1][1]) < 1e-6 else _STEPS
        points = [at(piece, n / steps) for n in range(steps + 1)]
        for n in range(steps):
            yield _CurvePart(number, place, (n / steps, (n + 1) / steps), points[n], points[n + 1])


class _Grid:
    """Parts by the cells that they touch. Cells are as wide as the parts in them, so that long parts are in few."""

    def __init__(self) -> None:
        self.cells: dict[tuple[int, int, int], list[_CurvePart]] = defaultdict(list)
        self.sizes: set[int] = set()

    def add(self, part: _CurvePart) -> None:
        size = max(0, math.ceil(math.log2(max(abs(part.b[0] - part.a[0]), 1.0) / _CELL)))
        self.sizes.add(size)
        for cell in _cells(part, size):
            self.cells[cell].append(part)

    def neighbors(self, part: _CurvePart) -> Iterator[_CurvePart]:
        seen: set[int] = set()
        for size in sorted(self.sizes):
            for cell in _cells(part, size):
                for other in self.cells.get(cell, ()):
                    if id(other) not in seen:
                        seen.add(id(other))
                        yield other


def _cells(part: _CurvePart, size: int) -> Iterator[tuple[int, int, int]]:
    """The cells of a size (each size is twice the previous one) that a part's bounding rectangle touches."""
    wide = _CELL * 2**size
    left, right = sorted((part.a[0], part.b[0]))
    top, low = sorted((part.a[1], part.b[1]))
    for column in range(math.floor(left / wide), math.floor(right / wide) + 1):
        for row in range(math.floor(top / _CELL), math.floor(low / _CELL) + 1):
            yield size, column, row


def _meet(part: _CurvePart, other: _CurvePart) -> tuple[float, Point2D] | None:
    """The parameter on the first part and the place where two straight parts cross.

    None where they do not cross, or are nearly parallel.
    """
    if part.item == other.item:
        return None
    ax, ay = part.b[0] - part.a[0], part.b[1] - part.a[1]
    bx, by = other.b[0] - other.a[0], other.b[1] - other.a[1]
    across = ax * by - ay * bx
    if abs(across) < _SHARP * math.hypot(ax, ay) * math.hypot(bx, by) or across == 0:
        return None
    cx, cy = other.a[0] - part.a[0], other.a[1] - part.a[1]
    s, u = (cx * by - cy * bx) / across, (cx * ay - cy * ax) / across
    if not (0 <= s <= 1 and 0 <= u <= 1):
        return None
    return part.t[0] + s * (part.t[1] - part.t[0]), (part.a[0] + s * ax, part.a[1] + s * ay)


def _near_ends(scene: Scene, number: int, point: Point2D) -> bool:
    item = scene.items[number]
    return isinstance(item, Curve) and min(math.dist(point, item.places[0]), math.dist(point, item.places[-1])) < _AWAY


def _gap(item: Curve, place: int, t: float, ground: Color) -> Gap:
    piece = tuple(bezier_pieces(item.places))[place]
    ahead, behind = at(piece, min(t + 0.01, 1.0)), at(piece, max(t - 0.01, 0.0))
    speed = math.dist(ahead, behind) / (min(t + 0.01, 1.0) - max(t - 0.01, 0.0)) or 1.0
    reach = _REACH / speed
    return Gap(bezier_part(piece, max(t - reach, 0.0), min(t + reach, 1.0)), ground)


def _ground(frames: list[Frame], point: Point2D) -> Color:
    """The color behind a place: that of the last frame painted around it."""
    for frame in reversed(frames):
        inside = frame.x <= point[0] <= frame.x + frame.width and frame.y <= point[1] <= frame.y + frame.height
        if inside and frame.kind in ("group", "fold", "mark") and not frame.hollow:
            return frame.kind
    return "paper"
