"""The peak memory of a kernel, read off its statements: the points at which most is allocated.

Which point that is may depend on the sizes, so that there may be several, of which none has as much as another for all
sizes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from catdiag.category.integer_polynomial import ZERO, IntPolynomial
from catdiag.schedule.lowered_kernel import LoweredKernel, ProgramPoint
from catdiag.schedule.statements import Alloc, Buffer, Dealloc, Overwrite, Point, Statement, flat


def with_stages(kernel: LoweredKernel, stages: Mapping[str, int]) -> LoweredKernel:
    """A kernel that was lowered already, with so many pipeline buffers of streamed blocks by level; not for one that
    runs in phases."""
    points: dict[str, list[ProgramPoint]] = {place: [] for place in kernel.points}
    for part in kernel.parts:
        PeakMemory(points, part.places.names, stages).read([*part.body.statements, *part.copies])
    return replace(kernel, points=points)


class PeakMemory:
    """What is allocated at each of the levels that `points` lists; the largest points are added there. `stages` are
    pipeline buffers of streamed blocks by level, where they are others than those of the buffers."""

    def __init__(
        self,
        points: dict[str, list[ProgramPoint]],
        places: Sequence[str],
        stages: Mapping[str, int] | None = None,
    ) -> None:
        self.points, self.stages = points, stages
        self.present: dict[Buffer, None] = {}
        self.sums = dict.fromkeys(places, ZERO)
        self.seen: set[tuple[str, IntPolynomial]] = set()

    def read(self, statements: Sequence[Statement]) -> None:
        """Reads statements in order."""
        for statement in flat(statements):
            match statement:
                case Alloc(buffer):
                    self.add(buffer)
                case Dealloc(buffer):
                    self.drop(buffer)
                case Overwrite(buffer, rest):
                    self.drop(buffer)
                    if rest is not None:
                        self.add(rest)
                case Point(at, extra):
                    self.note(at, extra)

    def at(self, buffer: Buffer, place: str) -> IntPolynomial:
        """What a buffer takes at a level, in the unit of its width: bytes, or values."""
        if self.stages is None or not buffer.stages:
            return buffer.at(place)
        return buffer.size.scaled(buffer.width * self.stages.get(place, 1))

    def add(self, buffer: Buffer) -> None:
        """Begins a live range: allocates the buffer at its levels."""
        self.present[buffer] = None
        for place in buffer.places:
            self.sums[place] = self.sums[place] + self.at(buffer, place)

    def drop(self, buffer: Buffer) -> None:
        """Ends a live range: frees the buffer at its levels."""
        del self.present[buffer]
        for place in buffer.places:
            self.sums[place] = self.sums[place] - self.at(buffer, place)

    def note(self, at: str, extra: Sequence[Buffer] = ()) -> None:
        """Records what is live at each level here, unless another recorded point has at least as much for all sizes."""
        for place, total in self.sums.items():
            points = self.points[place]
            for buffer in extra:
                if place in buffer.places:
                    total = total + self.at(buffer, place)
            if (place, total) in self.seen:
                continue
            self.seen.add((place, total))
            if not total or any(p.total.dominates(total) for p in points):
                continue
            buffers = (*self.present, *extra)
            live = tuple((b.name, b.role, self.at(b, place)) for b in buffers if place in b.places)
            points[:] = [p for p in points if not total.dominates(p.total)]
            points.append(ProgramPoint(at, total, live))
