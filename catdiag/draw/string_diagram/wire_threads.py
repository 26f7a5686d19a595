"""Draws a scene item by item: wires are threads that are extended piece by piece, each between two named ports."""

from __future__ import annotations

from dataclasses import dataclass, field

from catdiag.draw.scene import Curve, CurveKind, Frame, Item, Label, Point2D, Shape, StraightLine


@dataclass
class Thread:
    """A wire that is being drawn, from a port to its current end."""

    places: list[Point2D]
    kind: CurveKind
    level: int
    start: str
    title: str = ""

    @property
    def at(self) -> Point2D:
        """The current end."""
        return self.places[-1]

    def to(self, x: float, y: float) -> None:
        """Extends it to a place, by a curve that is horizontal at both ends where the heights differ."""
        x0, y0 = self.places[-1]
        if abs(x - x0) < 1e-9 and abs(y - y0) < 1e-9:
            return
        if abs(y - y0) < 1e-9:
            straight = len(self.places) > 1 and all(abs(p[1] - y) < 1e-9 for p in self.places[-4:])
            if straight:
                del self.places[-3:]
                x0 = self.places[-1][0]
            self.places += [(x0 + (x - x0) / 3, y), (x0 + 2 * (x - x0) / 3, y), (x, y)]
            return
        middle = (x0 + x) / 2
        self.places += [(middle, y0), (middle, y), (x, y)]


@dataclass
class Pen:
    """The items of a scene in painting order: frames, rules, wires, boxes, texts."""

    frames: list[Item] = field(default_factory=list)
    rules: list[Item] = field(default_factory=list)
    curves: list[Item] = field(default_factory=list)
    shapes: list[Item] = field(default_factory=list)
    labels: list[Item] = field(default_factory=list)
    ports: dict[str, Point2D] = field(default_factory=dict)

    def port(self, name: str, x: float, y: float) -> str:
        """A named place at which wires start and end."""
        self.ports[name] = (x, y)
        return name

    def start(self, port: str, kind: CurveKind, level: int, title: str = "") -> Thread:
        """A thread from an existing port."""
        return Thread([self.ports[port]], kind, level, port, title)

    def finish(self, thread: Thread, port: str) -> None:
        """Ends a thread at a port, which is at the thread's end, up to rounding."""
        if len(thread.places) > 1:
            thread.places[-1] = self.ports[port]
            ends = (thread.start, port)
            self.curves.append(Curve(tuple(thread.places), thread.kind, thread.level, ends=ends, title=thread.title))

    def shape(self, shape: Shape) -> None:
        """A box, or a dot."""
        self.shapes.append(shape)

    def label(self, label: Label) -> None:
        """A text."""
        self.labels.append(label)

    def frame(self, frame: Frame) -> None:
        """A region, under everything that is drawn later in it."""
        self.frames.append(frame)

    def rule(self, rule: StraightLine) -> None:
        """A straight line."""
        self.rules.append(rule)

    def dot(self, x: float, y: float, level: int, ring: bool = False) -> None:
        """A dot where wires of one axis meet or part, or a ring where one begins."""
        size = 2.2 if not ring else 2.8
        self.shape(Shape("ring" if ring else "dot", x - size, y - size, 2 * size, 2 * size, level))

    def items(self) -> tuple[Item, ...]:
        """All items, in painting order."""
        return (*self.frames, *self.rules, *self.curves, *self.shapes, *self.labels)
