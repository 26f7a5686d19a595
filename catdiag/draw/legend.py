"""The legend of a picture: the meaning of its lines, boxes and frames, and of nothing else."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from catdiag.draw.paths import COPY
from catdiag.draw.scene import Curve, Frame, FrameKind, Item, Label, Point2D, Scene, Shape, ShapeKind, StraightLine
from catdiag.draw.text_width import text_width
from catdiag.draw.theme import level_of

_LEVELS = ("slow memory", "fast memory", "registers", "matrix units")
"""The default names of levels."""

_SHAPES: Mapping[ShapeKind, str] = {
    "map": "elementwise function",
    "reduce": "reduction of an axis",
    "contract": "contraction (sum of products)",
    "call": "named diagram",
    "generic": "any function",
    "reindex": "the same elements, reindexed",
    "source": "constant or position",
    "dot": "wires of one axis meet",
    "ring": "broadcast axis begins",
    "stop": "not used further",
}
_CHARTED: Mapping[ShapeKind, str] = {"dot": "written by the line", "ring": "read by the line"}
"""Their meaning in charts, which have bars and no wires."""
_FRAMES: Mapping[FrameKind, str] = {
    "group": "runs in groups, in parallel",
    "fold": "loop",
    "call": "opened named diagram",
    "mark": "changed by the step",
    "slack": "waits",
}
_TILES = (
    ("g", "in each group"),
    ("w", "in each warpgroup"),
    ("s", "in each block of a loop"),
    ("p", "in parts that run at once"),
    ("u", "in each sub-block"),
    ("v", "in each sub-block"),
)
"""The meaning of the letter before an axis: which part of the axis it is the size of."""

_WIDTH, _GAP, _ROW, _SIDE, _LIFT = 20.0, 14.0, 17.0, 12.0, 3.2


@dataclass(frozen=True)
class _Entry:
    """A sample of a width, from (0, 0) at the middle of its left side, and its meaning."""

    sample: tuple[Item, ...]
    width: float
    text: str


def with_legend(scene: Scene, width: float | None = None) -> Scene:
    """The scene with a legend under it, at most as wide as the picture or `width` points.

    A picture that needs no legend is unchanged.

    >>> from catdiag.draw.scene import Curve, Label
    >>> plain = Scene(300, 20, (Curve(((0, 10), (9, 10), (18, 10), (27, 10)), level=1),), levels={1: "SMEM"})
    >>> [item.text for item in with_legend(plain).items if isinstance(item, Label)]
    ['array in SMEM']
    """
    entries = list(_entries(scene))
    if not entries:
        return scene
    room = max(scene.width, 240.0) if width is None else max(width, scene.width)
    items: list[Item] = []
    x, y, farthest = _SIDE, scene.height + _ROW / 2 + 4, 0.0
    for entry in entries:
        wide = entry.width + 6 + text_width(entry.text, "note")
        if x > _SIDE and x + wide > room - _SIDE:
            x, y = _SIDE, y + _ROW
        items += [_moved(item, x, y) for item in entry.sample]
        items.append(Label(x + entry.width + 6, y + _LIFT, entry.text, "note", "start"))
        farthest = max(farthest, x + wide)
        x += wide + _GAP
    size = round(max(scene.width, farthest + _SIDE), 2), round(y + _ROW / 2 + 4, 2)
    return replace(scene, width=size[0], height=size[1], items=(*scene.items, *items))


def _entries(scene: Scene) -> Iterator[_Entry]:
    curves = [item for item in scene.items if isinstance(item, Curve)]
    bars = sorted({level_of(item.level) for item in scene.items if isinstance(item, Shape) and item.kind == "bar"})
    levels = sorted({level_of(c.level) for c in curves if c.kind != "thin"})
    for level in (k for k in levels if k not in bars) if levels != [0] or bars else ():
        kind = "axis" if any(c.kind == "axis" and level_of(c.level) == level for c in curves) else "item"
        name = scene.levels.get(level, _LEVELS[level])
        yield _Entry((_line(kind, level),), _WIDTH, f"array in {name}")
    for level in bars:
        if level in scene.levels:
            yield _Entry((Shape("bar", 0, -5, _WIDTH, 10, level),), _WIDTH, f"allocated in {scene.levels[level]}")
    items = any(c.kind == "item" for c in curves)
    boxes = any(isinstance(item, Shape) for item in scene.items)
    if any(c.kind == "axis" for c in curves) and not bars:
        # Where levels are named, the entries of levels explain solid lines.
        if levels == [0] and (items or boxes):
            yield _Entry((_line("axis", levels[0]),), _WIDTH, "axis of an array")
        if items:
            text = "its elements" if levels == [0] else "elements of an array"
            yield _Entry((_line("item", levels[0]),), _WIDTH, text)
    if any(c.kind == "state" for c in curves):
        level = min(c.level for c in curves if c.kind == "state")
        yield _Entry((_line("state", level, arrow=True),), _WIDTH, "carried to the next iteration")
    if any(isinstance(item, StraightLine) and item.kind == "dashed" for item in scene.items):
        yield _Entry((StraightLine(0, 0, _WIDTH, 0),), _WIDTH, "between arrays")
    yield from _tiles(scene)
    shapes = {item.kind for item in scene.items if isinstance(item, Shape)}
    for kind, text in _SHAPES.items():
        if kind in shapes:
            yield _shape(kind, _CHARTED.get(kind, text) if bars else text)
        if kind == "map" and kind in shapes:
            yield from _formulas(scene)
    frames = {item.kind for item in scene.items if isinstance(item, Frame)}
    for frame, text in _FRAMES.items():
        if frame in frames:
            behind = 2 * COPY if frame == "group" else 0.0
            yield _Entry((Frame(frame, 0, -5 + behind / 2, _WIDTH, 10 - behind / 2),), _WIDTH + behind, text)


def _line(kind: str, level: int = 0, arrow: bool = False) -> Curve:
    places = tuple((_WIDTH * n / 3, 0.0) for n in range(4))
    return Curve(places, "item" if kind == "item" else "state" if kind == "state" else "axis", level, arrow)


def _shape(kind: ShapeKind, text: str) -> _Entry:
    if kind in ("dot", "ring"):
        return _Entry((_line("axis"), Shape(kind, _WIDTH / 2 - 2.2, -2.2, 4.4, 4.4)), _WIDTH, text)
    if kind == "stop":
        half = Curve(tuple((_WIDTH * n / 6, 0.0) for n in range(4)))
        return _Entry((half, Shape(kind, _WIDTH / 2 - 0.6, -4, 1.2, 8)), _WIDTH / 2 + 1, text)
    return _Entry((Shape(kind, 0, -5, _WIDTH, 10),), _WIDTH, text)


_TILE = re.compile(r"(?<![^\W\d])([gwspuv])_\{?([^\W_]\w*)")


def _tiles(scene: Scene) -> Iterator[_Entry]:
    """The letters before axes in the labels of wires, with their axes."""
    found: dict[str, dict[str, None]] = {}
    for item in scene.items:
        if isinstance(item, Label) and item.role == "axis":
            for letter, axis in _TILE.findall(item.text):
                found.setdefault(letter, {})[axis] = None
    for letter, where in _TILES:
        axes = list(found.get(letter, ()))[:4]
        if axes:
            shown = ", ".join(f"{letter}_{{{axis}}}" for axis in axes)
            width = text_width(shown, "axis")
            label = Label(0, _LIFT, shown, "axis", "start")
            yield _Entry((label,), width, f"size of {', '.join(axes)} {where}")


_READ = re.compile(r"(?<![\w′])[a-z](?![\w′(])")
_AT = re.compile(r"(?<![^\W\d])i_\{?([^\W_]\w*)")


def _formulas(scene: Scene) -> Iterator[_Entry]:
    """The meaning of the letters in formulas of boxes."""
    texts = [item.text for item in scene.items if isinstance(item, Label) and item.role == "body"]
    formulas = [text for text in texts if len(text) > 1]
    sizes = {item.text for item in scene.items if isinstance(item, Label) and item.role == "axis"}
    letters = sorted({letter for text in formulas for letter in _READ.findall(text)} - sizes)
    if letters:
        shown = ", ".join(letters[:4])
        label = Label(0, _LIFT, shown, "body", "start")
        yield _Entry((label,), text_width(shown, "body"), "inputs of a box, from the top")
    axes = list(dict.fromkeys(axis for text in formulas for axis in _AT.findall(text)))[:4]
    if axes:
        shown = ", ".join(f"i_{{{axis}}}" for axis in axes)
        label = Label(0, _LIFT, shown, "body", "start")
        yield _Entry((label,), text_width(shown, "body"), f"position along {', '.join(axes)}")


def _moved(item: Item, x: float, y: float) -> Item:
    if isinstance(item, Curve):
        places: tuple[Point2D, ...] = tuple((x + a, y + b) for a, b in item.places)
        return replace(item, places=places)
    if isinstance(item, StraightLine):
        return replace(item, x1=x + item.x1, y1=y + item.y1, x2=x + item.x2, y2=y + item.y2)
    return replace(item, x=x + item.x, y=y + item.y)
