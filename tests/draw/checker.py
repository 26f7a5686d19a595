"""What a picture must not do, whatever it is of: the faults of a scene, in words, from its geometry alone."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from catdiag.draw.scene import Curve, Frame, Label, Point2D, Scene, Shape, StraightLine, spans
from catdiag.draw.text_width import SIZES, text_width

SMALL = ("dot", "ring", "stop")
"""The marks on wires: boxes of no inside."""
NEAR = 1e-6
_STEP = 2.0  # points between samples of a wire
_TOUCH = 0.4  # how far texts and boxes may reach into each other: less than a stroke


@dataclass(frozen=True, slots=True)
class Area:
    """A rectangle and whose it is."""

    x: float
    y: float
    right: float
    low: float
    what: str
    number: int

    def meets(self, other: Area, touch: float = _TOUCH) -> bool:
        """Whether they overlap by more than they may touch."""
        return (
            min(self.right, other.right) - max(self.x, other.x) > touch
            and min(self.low, other.low) - max(self.y, other.y) > touch
        )

    def holds(self, other: Area, slack: float = _TOUCH) -> bool:
        """Whether the other is inside."""
        return (
            self.x - slack <= other.x
            and other.right <= self.right + slack
            and self.y - slack <= other.y
            and other.low <= self.low + slack
        )


def area_of(label: Label, number: int = -1) -> Area:
    """Where a text is painted: capitals above the line, tails and subscripts below it."""
    wide, size = text_width(label.text, label.role), SIZES[label.role]
    over, under = 0.73 * size, (0.3 if any(low for _, low in spans(label.text)) else 0.2) * size
    before = {"start": 0.0, "middle": wide / 2, "end": wide}[label.anchor]
    if label.rotated:
        x, y, right, low = label.x - over, label.y + before - wide, label.x + under, label.y + before
    else:
        x, y, right, low = label.x - before, label.y - over, label.x - before + wide, label.y + under
    return Area(x, y, right, low, f"the text {label.text!r} ({label.role})", number)


def _of_box(item: Shape | Frame, number: int) -> Area:
    what = f"the {item.kind} {item.title.partition(':')[0]!r}"
    return Area(item.x, item.y, item.x + item.width, item.y + item.height, what, number)


def pieces(curve: Curve) -> Iterator[tuple[Point2D, Point2D, Point2D, Point2D]]:
    """The Bézier pieces of a wire."""
    for k in range(0, len(curve.places) - 1, 3):
        a, b, c, d = curve.places[k : k + 4]
        yield a, b, c, d


def sampled(curve: Curve) -> np.ndarray:
    """Places along a wire, about two points apart, its ends included."""
    found = [np.array([curve.places[0]])]
    for a, b, c, d in pieces(curve):
        reach = sum(math.dist(p, q) for p, q in pairwise((a, b, c, d)))
        t = np.linspace(0, 1, max(2, math.ceil(reach / _STEP)) + 1)[1:, None]
        s = 1 - t
        found.append(
            s**3 * np.array(a) + 3 * s * s * t * np.array(b) + 3 * s * t * t * np.array(c) + t**3 * np.array(d)
        )
    return np.concatenate(found)


class Checked:
    """A scene with its parts sorted by kind, for the checks below."""

    def __init__(self, scene: Scene) -> None:
        self.scene = scene
        items = list(enumerate(scene.items))
        self.curves = [(n, c) for n, c in items if isinstance(c, Curve)]
        self.wires = [(n, c) for n, c in self.curves if c.kind in ("axis", "item")]
        self.shapes = [(n, s) for n, s in items if isinstance(s, Shape)]
        self.frames = [(n, f) for n, f in items if isinstance(f, Frame) and f.kind in ("group", "fold", "call")]
        self.labels = [(n, t) for n, t in items if isinstance(t, Label)]
        self.rules = [(n, r) for n, r in items if isinstance(r, StraightLine)]
        self.bodies = [_of_box(s, n) for n, s in self.shapes if s.kind not in SMALL]
        self.texts = [area_of(t, n) for n, t in self.labels]
        self.regions = [_of_box(f, n) for n, f in self.frames]
        samples = [(n, sampled(c)) for n, c in self.curves]
        self.points = np.concatenate([p for _, p in samples]) if samples else np.zeros((0, 2))
        self.owner = np.concatenate([np.full(len(p), n) for n, p in samples]) if samples else np.zeros(0, int)
        order = np.argsort(self.points[:, 0], kind="stable")
        self.points, self.owner = self.points[order], self.owner[order]

    def inside(self, area: Area, margin: float) -> Iterator[tuple[int, Point2D]]:
        """The wires that run through an area, each with a place there."""
        x = self.points[:, 0]
        start, end = np.searchsorted(x, area.x + margin, "right"), np.searchsorted(x, area.right - margin, "left")
        y = self.points[start:end, 1]
        hit = np.nonzero((y > area.y + margin) & (y < area.low - margin))[0] + start
        for number in dict.fromkeys(self.owner[hit].tolist()):
            at = hit[self.owner[hit] == number][0]
            yield number, (float(self.points[at, 0]), float(self.points[at, 1]))


def faults(scene: Scene) -> list[str]:
    """All that is wrong with a scene; empty for a good one."""
    checked = Checked(scene)
    return [
        *_apart(checked), *_nested(checked), *_joined(checked), *_smooth(checked), *_clear(checked), *_own(checked),
        *_columns(checked), *_within(checked),
    ]  # fmt: skip


def overlapping(areas: Iterable[Area]) -> Iterator[tuple[Area, Area]]:
    """The pairs of areas that overlap: those in a cell of a grid are compared with each other."""
    cells: dict[tuple[int, int], list[Area]] = defaultdict(list)
    for area in areas:
        for column in range(math.floor(area.x / 64), math.floor(area.right / 64) + 1):
            for row in range(math.floor(area.y / 64), math.floor(area.low / 64) + 1):
                cells[column, row].append(area)
    seen = set()
    for found in cells.values():
        for k, a in enumerate(found):
            for b in found[k + 1 :]:
                if a.meets(b) and (a.number, b.number) not in seen:
                    seen.add((a.number, b.number))
                    yield a, b


def _said(area: Area) -> str:
    return f"{area.what} at ({area.x:.1f}, {area.y:.1f})"


def _apart(checked: Checked) -> Iterator[str]:
    """No two texts or boxes overlap, but for a box and its own text, which is inside."""
    items = checked.scene.items
    marks = [_of_box(s, n) for n, s in checked.shapes if s.kind in SMALL]
    for a, b in overlapping([*checked.bodies, *checked.texts, *marks]):
        one, two = items[a.number], items[b.number]
        if isinstance(one, Shape) and isinstance(two, Label) and two.role == "body" and one.kind not in SMALL:
            if not a.holds(b):
                yield f"{_said(b)} is wider than {_said(a)}: {b.right - b.x:.1f} in {a.right - a.x:.1f}"
        elif not (isinstance(one, Shape) and isinstance(two, Shape) and {one.kind, two.kind} <= set(SMALL)):
            yield f"{_said(a)} overlaps {_said(b)}"
    homes = {(t.number): t for t in checked.texts}
    for number, label in checked.labels:
        if label.role == "body" and not any(a.holds(homes[number]) for a in checked.bodies):
            yield f"{_said(homes[number])} is in no box"
    for number, rule in checked.rules:
        line = Area(rule.x1, rule.y1 - 0.5, rule.x2, rule.y2 + 0.5, "a rule", number)
        for text in [*checked.texts, *checked.bodies]:
            if line.meets(text):
                yield f"a rule at ({rule.x1:.1f}, {rule.y1:.1f}) runs through {_said(text)}"


def _nested(checked: Checked) -> Iterator[str]:
    """Frames are inside of each other or apart, and boxes and texts are inside or outside of them."""
    frames = checked.regions
    for k, a in enumerate(frames):
        for b in frames[k + 1 :]:
            if a.meets(b) and not (a.holds(b, 0.0) or b.holds(a, 0.0)):
                yield f"{_said(a)} and {_said(b)} cut each other"
        for b in [*checked.bodies, *checked.texts]:
            if a.meets(b) and not a.holds(b):
                yield f"{_said(a)} cuts {_said(b)}"
    for number, frame in checked.frames:
        if frame.kind != "group":
            continue
        behind = Area(frame.x + frame.width, frame.y - 6, frame.x + frame.width + 6, frame.y + frame.height - 6,
                      "the further copies of a group", number)  # fmt: skip
        for b in [*checked.bodies, *checked.texts]:
            if behind.meets(b):
                yield f"{_said(behind)} are under {_said(b)}"


def _joined(checked: Checked) -> Iterator[str]:
    """Each end of a wire is exactly at its port, and each port has a wire."""
    ports = checked.scene.ports
    used = set()
    for _, wire in checked.wires:
        for name, place in zip(wire.ends, (wire.places[0], wire.places[-1]), strict=True):
            if name not in ports:
                yield f"a wire ({wire.title}) ends at {name!r}, which is no port"
            elif ports[name] != place:
                yield f"a wire ({wire.title}) ends at {place}, and its port {name!r} is at {ports[name]}"
            used.add(place)
    texts: dict[int, list[Area]] = defaultdict(list)
    for area in checked.texts:
        texts[math.floor(area.x + area.right)].append(area)
    for name, place in ports.items():
        if place not in used:
            yield f"the port {name!r} at {place} has no wire"
        if name.endswith("<"):  # a gap of a wire, for its text
            to = ports.get(name[:-1] + ">", (-1.0, -1.0))
            twice = place[0] + to[0]
            here = [t for k in (-1, 0, 1) for t in texts.get(math.floor(twice) + k, ())]
            if to[1] != place[1] or not any(abs(t.x + t.right - twice) < 0.01 and t.y < place[1] < t.low for t in here):
                yield f"the gap of {name!r} at {place} has no text"


def _smooth(checked: Checked) -> Iterator[str]:
    """Wires are level at their ends, have no corners, and do not turn back."""
    for _, wire in checked.wires:
        if len(wire.places) < 4 or len(wire.places) % 3 != 1:
            yield f"a wire ({wire.title}) has {len(wire.places)} places"
            continue
        for at, to in ((wire.places[0], wire.places[1]), (wire.places[-1], wire.places[-2])):
            if abs(at[1] - to[1]) > NEAR:
                yield f"a wire ({wire.title}) is not level at its end {at}"
        for a, b, c, d in pieces(wire):
            if not a[0] - NEAR <= b[0] <= d[0] + NEAR or not a[0] - NEAR <= c[0] <= d[0] + NEAR:
                yield f"a wire ({wire.title}) turns back at {a}"
        for (_, _, before, at), (_, after, _, _) in pairwise(pieces(wire)):
            ux, uy, vx, vy = at[0] - before[0], at[1] - before[1], after[0] - at[0], after[1] - at[1]
            if abs(ux * vy - uy * vx) > 1e-3 * max(1e-9, math.hypot(ux, uy) * math.hypot(vx, vy)):
                yield f"a wire ({wire.title}) has a corner at {at}"


def _clear(checked: Checked) -> Iterator[str]:
    """No wire runs through a box or a text, or through a mark that is not on it."""
    items = checked.scene.items
    for area, margin in [(b, 0.6) for b in checked.bodies] + [(t, 0.3) for t in checked.texts]:
        for number, place in checked.inside(area, margin):
            wire = items[number]
            assert isinstance(wire, Curve)
            where = f"({place[0]:.1f}, {place[1]:.1f})"
            yield f"a wire ({wire.kind}: {wire.title}) runs through {_said(area)} at {where}"
    for number, shape in checked.shapes:
        if shape.kind not in ("dot", "ring"):
            continue
        middle = (shape.x + shape.width / 2, shape.y + shape.height / 2)
        for owner, place in checked.inside(_of_box(shape, number), 0.3):
            wire = items[owner]
            assert isinstance(wire, Curve)
            # A wire that only passes has no joint there.
            if wire.kind in ("axis", "item") and not any(math.dist(p, middle) < 0.01 for p in wire.places[::3]):
                where = f"({place[0]:.1f}, {place[1]:.1f})"
                yield f"a wire ({wire.title}) passes a {shape.kind} at {where} that is not its own"


def _own(checked: Checked) -> Iterator[str]:
    """No two wires run on each other: where they are next to each other along a way, one cannot tell them apart."""
    wires = dict(checked.wires)
    bins: dict[int, dict[int, float]] = defaultdict(dict)
    for (x, y), number in zip(checked.points.tolist(), checked.owner.tolist(), strict=True):
        if number in wires:
            bins[round(x / 3)].setdefault(number, y)
    close: dict[tuple[int, int], list[int]] = defaultdict(list)
    for at in sorted(bins):
        found = sorted((y, n) for n, y in bins[at].items())
        for (y, a), (z, b) in pairwise(found):
            if z - y < 0.8:
                close[min(a, b), max(a, b)].append(at)
    for (a, b), ats in close.items():
        one, two = wires[a], wires[b]
        # Branches of one wire part slowly.
        if one.places[0] == two.places[0] or one.places[-1] == two.places[-1]:
            continue
        if len(ats) > 4:
            yield f"two wires ({one.title}; {two.title}) run on each other from x = {3 * ats[0]} to {3 * ats[-1]}"


def _columns(checked: Checked) -> Iterator[str]:
    """Boxes of a column have one middle: two boxes in one frame are above each other, or beside each other."""
    homes: dict[int, list[Area]] = defaultdict(list)
    for body in checked.bodies:
        around = [f for f in checked.regions if f.holds(body)]
        home = min(around, key=lambda f: (f.right - f.x) * (f.low - f.y)).number if around else -1
        homes[home].append(body)
    for found in homes.values():
        for a, b in pairwise(sorted(found, key=lambda area: (area.x + area.right, area.y))):
            if b.x < a.right - NEAR and abs(a.x + a.right - b.x - b.right) > 2 * _TOUCH:
                yield f"{_said(a)} and {_said(b)} are in one column, and not in line"


def _within(checked: Checked) -> Iterator[str]:
    """Everything is inside the picture."""
    paper = Area(0, 0, checked.scene.width, checked.scene.height, "the picture", -1)
    for area in [*checked.bodies, *checked.texts, *checked.regions]:
        if not paper.holds(area, 0.0):
            yield f"{_said(area)} is not inside the picture"
    if len(checked.points):
        (x, y), (right, low) = checked.points.min(axis=0), checked.points.max(axis=0)
        if not paper.holds(Area(x, y, right, low, "wires", -1), 0.0):
            yield f"wires reach from ({x:.1f}, {y:.1f}) to ({right:.1f}, {low:.1f}), out of the picture"


def kinks(scene: Scene, low: float = 4.0) -> list[str]:
    """The bends of wires that are so low that they look like mistakes."""
    return [
        f"a wire ({wire.title}) goes from {a} to {d}"
        for _, wire in Checked(scene).wires
        for a, _, _, d in pieces(wire)
        if 0.01 < abs(a[1] - d[1]) < low
    ]


def crossings(scene: Scene) -> int:
    """How often wires cross that do not meet."""
    segments = []
    for _, wire in Checked(scene).wires:
        places = np.concatenate([sampled(wire)[:-1:5], [wire.places[-1]]])
        ends = {wire.places[0], wire.places[-1]}
        segments += [(min(p[0], q[0]), p, q, ends) for p, q in pairwise(places.tolist())]
    segments.sort(key=lambda s: s[0])
    total = 0
    for k, (_, p, q, ends) in enumerate(segments):
        for x, u, v, others in segments[k + 1 :]:
            if x > q[0]:
                break
            if not ends & others and _side(p, q, u) * _side(p, q, v) < 0 and _side(u, v, p) * _side(u, v, q) < 0:
                total += 1
    return total


def _side(p: list[float], q: list[float], r: list[float]) -> float:
    return (q[0] - p[0]) * (r[1] - p[1]) - (q[1] - p[1]) * (r[0] - p[0])
