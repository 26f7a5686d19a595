"""The cheapest ways to cut a row of stages into segments, by what each segment costs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise

from catdiag.planner.graph_segments import Span

Way = tuple[float, tuple[Span, ...]]
"""A way to cut a row: what it costs, and its segments."""


def cheapest_cuts(
    count: int,
    cost: Callable[[Span], float | None],
    *,
    kernels: int | None,
    between: float,
    most: int | None = None,
) -> dict[int, Way]:
    """The cheapest ways to cut a row of `count` stages, by dynamic programming.

    `cost` is that of a segment (None: it is no kernel), `between` that of each cut. For each number of kernels up to
    `kernels` the cheapest way of so many, where there is one; with `kernels` left out that of any number, under 0. Of
    ways that cost the same the one of fewer kernels, then the one that cuts earlier. Segments have `most` stages at
    most, but for the whole row.

    >>> cheapest_cuts(3, lambda span: (span[1] - span[0]) ** 2, kernels=2, between=1)
    {1: (9, ((0, 3),)), 2: (6, ((0, 1), (1, 3)))}
    >>> cheapest_cuts(3, lambda span: (span[1] - span[0]) ** 2, kernels=None, between=1)
    {0: (5, ((0, 1), (1, 2), (2, 3)))}
    """
    found: dict[int, Way] = {}
    before: list[_Path | None] = [_Path(0, 0), *[None] * count]
    for used in range(1, 2 if kernels is None else kernels + 1):
        row: list[_Path | None] = [None] * (count + 1)
        if kernels is None:  # any number will do: one row serves for all
            row[0], before = before[0], row
        for end in range(1, count + 1):
            first = 0 if most is None else max(0, end - most)
            for start in (*((0,) if first and end == count else ()), *range(first, end)):
                reached = before[start]
                if reached is None or (added := cost((start, end))) is None:
                    continue
                total, best = reached.total + (between if start else 0) + added, row[end]
                if best is not None and best.total < total:
                    continue
                option = _Path(total, reached.kernels + 1, reached, start)
                if best is None or option.before(best):
                    row[end] = option
        before = row
        if (whole := row[count]) is not None:
            found[0 if kernels is None else used] = whole.total, tuple(pairwise([*whole.starts(), count]))
    return found


@dataclass(frozen=True)
class _Path:
    """Kernels of the first stages of a row: what they cost, their number, and those before the last, which begins with
    the stage `start`."""

    total: float
    kernels: int
    others: _Path | None = None
    start: int = 0

    def starts(self) -> list[int]:
        """The first stage of each kernel."""
        found: list[int] = []
        path: _Path | None = self
        while path is not None and path.others is not None:
            found.append(path.start)
            path = path.others
        return found[::-1]

    def before(self, other: _Path) -> bool:
        """Whether it goes before another way to cut the same stages."""
        mine, its = (self.total, self.kernels), (other.total, other.kernels)
        return mine < its or (mine == its and self.starts() < other.starts())
