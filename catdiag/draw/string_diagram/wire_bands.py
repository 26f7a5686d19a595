"""An array as a band of wires: one wire per axis, around the dotted wire of its elements.

Where there are several axes, the last one is below the wire of the elements, and the others are above it. A box that
maps over all of them, or takes the last one, is placed between, on straight wires.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from catdiag.category.types import ArrayType

ROW = 13.0
"""The distance between neighboring axes."""
HALF = 15.0
"""The distance of the wire of the elements from the nearest axes."""
EDGE = 7.0
"""The room above and below the outermost wires."""


def rows(ty: ArrayType) -> dict[str, float]:
    """The height of each axis relative to the wire of the elements, downwards; the latter has the empty name.

    >>> from catdiag.category.types import Axis
    >>> rows(ArrayType((Axis("q"), Axis("x"))))
    {'': 0.0, 'q': -15.0, 'x': 15.0}
    """
    names = ty.names
    over = max(1, len(names) - 1)
    found = {"": 0.0}
    for k, name in enumerate(names):
        found[name] = -HALF - ROW * (over - 1 - k) if k < over else HALF + ROW * (k - over)
    return found


def reach(heights: Mapping[str, float]) -> tuple[float, float]:
    """The upper and lower edge of a band."""
    return min(heights.values()) - EDGE, max(heights.values()) + EDGE


def stacked(types: Sequence[ArrayType], gap: float) -> list[float]:
    """The heights of the elements' wires of bands stacked on each other, centered at 0."""
    found: list[float] = []
    at = 0.0
    for ty in types:
        top, bottom = reach(rows(ty))
        found.append(at - top)
        at += bottom - top + gap
    middle = (at - gap) / 2 if types else 0.0
    return [y - middle for y in found] if len(types) > 1 else [0.0] * len(types)
