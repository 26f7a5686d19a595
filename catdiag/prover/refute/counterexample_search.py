"""The search for counterexamples: small sizes and exact arrays on which two programs certainly differ.

Candidates are drawn for many inputs at once, the smallest sizes first, and run in floating point (`float_screening`).
Those that seem to differ are run in exact arithmetic (`exact_execution`), which alone decides. If nothing differs,
inputs on decision boundaries are solved for (`boundary_inputs`). A counterexample is shrunk: first sizes, then numbers
towards 0 and 1. The search is deterministic, and bounded by an amount of work.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import partial
from itertools import cycle
from typing import TYPE_CHECKING, Any

import numpy as np

from catdiag.kernel.terms import Term
from catdiag.prover.assumptions import meeting
from catdiag.prover.identifiers import by_identifier
from catdiag.prover.refute import exact_execution, float_screening
from catdiag.prover.refute.boundary_inputs import solved
from catdiag.prover.refute.candidate_inputs import Batch, TrialPoint
from catdiag.prover.refute.counterexample_data import Counterexample, NotACounterexample
from catdiag.prover.refute.counterexample_shrink import shrink
from catdiag.prover.refute.exact_reals import Value
from catdiag.prover.refute.function_interpretations import Free
from catdiag.prover.refute.program_comparison import MOST_CELLS, Comparison
from catdiag.prover.refute.validate import replay

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Flags = NDArray[np.bool_]

BATCH, _FEW = 128, 4
"""The number of inputs in a batch."""
_SUSPECTS = 4
_MISSES = 24
_FAINT = 1e-13
_FREE, _EXACTLY = 8, 3000
_COUNT_WEIGHT, _LOOKED_AT = 2, 4
_REACHED = 12
"""The number of choices of sizes that are also tried with those that computed positions ask for."""


def refute(
    statement: Mapping[str, Any],
    tries: int = 200,
    operations: int = 80_000_000,
    seed: int = 0,
    goal: Sequence[Term] = (),
    partial: bool = False,
) -> Counterexample | None:
    """A counterexample to a statement (two core programs and assumptions), or None if none was found.

    A counterexample that the search finds is checked by `validate`, and ignored if it fails the check. Both programs
    are defined on it; with `partial`, an input on which only the left one is defined counts if there is no other.
    `goal` are terms at which a proof stopped; their constants are tried. The search is bounded by `tries` (batches of
    inputs) and by a number of scalar `operations`, so that it ends in about a second.
    """
    search = CounterexampleSearch(statement, tries, operations, seed, goal)
    found = _standing(statement, search.find())
    if found is None and partial and search.half is not None:
        found = _standing(statement, search.shrunk(search.half, half=True))
    return found


def refute_at(
    statement: Mapping[str, Any], sizes: Mapping[str, int], arrays: Sequence[NDArray[Any]], operations: int = 4_000_000
) -> Counterexample | None:
    """A counterexample at given numbers, or at fewer that are made of them; None where they are none, or running both
    programs in exact arithmetic takes more than some scalar operations."""
    search = CounterexampleSearch(statement, 0, 80_000_000, 0, ())
    known = by_identifier(dict(sizes))
    if not known.keys() >= set(search.symbols):
        return None
    made = tuple(
        exact_execution.build([str(name) for name, _ in d["axes"]], a.shape, partial(_exact, a))
        for d, a in zip(search.declared, arrays, strict=True)
    )
    point = TrialPoint({s: known[s] for s in search.symbols}, dict.fromkeys(search.locals, 1), {}, made)
    found = search.check(point, operations=operations)
    return None if found is None else _standing(statement, (*search.shrunk(point), found))


def _exact(array: NDArray[Any], at: tuple[int, ...]) -> Value:
    """An element as a rational number or a truth value."""
    value = array[at].item()
    return value if isinstance(value, bool) else Fraction(value)


def _standing(statement: Mapping[str, Any], candidates: Iterable[Counterexample]) -> Counterexample | None:
    """The first candidate that `validate` confirms."""
    for found in candidates:
        try:
            return replay(statement, found)
        except NotACounterexample:
            continue
    return None


@dataclass(frozen=True)
class Examined:
    """A few inputs on which both programs are defined; only the differing one, if they differ on one."""

    counterexample: Counterexample | None
    points: tuple[TrialPoint, ...]


class CounterexampleSearch(Comparison):
    """The search for an input on which the two programs of a statement differ."""

    def __init__(
        self, statement: Mapping[str, Any], tries: int, operations: int, seed: int, goal: Sequence[Term]
    ) -> None:
        super().__init__(statement, operations, seed, goal)
        self.tries, self.misses = tries, 0
        self.half: TrialPoint | None = None
        """An input on which the left program is defined and the right one is undefined."""

    # -- the walk over sizes ---------------------------------------------------------------------------------

    def find(self) -> Iterator[Counterexample]:
        """Candidate counterexamples, shrunk; each one that the caller rejects counts as a miss."""
        shapes = self.shapes()
        try:
            for k, sizes in enumerate(cycle(shapes)):
                if k >= self.tries or self.misses > _MISSES:
                    break
                point = self._tried(sizes, k)
                if point is not None:
                    yield from self.shrunk(point)
                    self.misses += 1
            # Differences within rounding error come last, and seldom: mostly they are rounding.
            self.tolerance, self.misses = _FAINT, _MISSES - _SUSPECTS
            for sizes in shapes[:_FREE]:
                point = (
                    self.suspect(self.drawer.draw(sizes, self._blocks(0), BATCH)) if self.misses <= _MISSES else None
                )
                if point is not None:
                    yield from self.shrunk(point)
                    self.misses += 1
        except exact_execution.Exhausted:
            pass
        yield from self._free(shapes)

    def shrunk(self, point: TrialPoint, half: bool = False) -> Iterator[Counterexample]:
        """The smallest counterexample that shrinking finds, then the original one."""
        for found in (shrink(self, point, half), self.check(point, half)):
            if found is not None:
                yield found

    def _tried(self, sizes: dict[str, int], k: int) -> TrialPoint | None:
        """An input of the given sizes on which the programs differ, from the k-th batch (a large or a small one); None
        if there is none.
        """
        for count in (BATCH, _FEW):
            batch = self.drawer.draw(sizes, self._blocks(k), count)
            try:
                point = self.suspect(batch)
                return self.suspect(solved(self, batch)) if point is None and k % 3 == 2 else point
            except float_screening.BudgetExceeded:
                continue
        return None

    def examine(self, shapes: Sequence[dict[str, int]], count: int) -> Examined:
        """The result of a few inputs of given sizes; the simplest of those on which both programs are defined."""
        points: list[TrialPoint] = []
        batch: Batch | None = None
        try:
            for k, sizes in enumerate(shapes):
                if self.cells(sizes) > MOST_CELLS:
                    continue
                batch = self.drawer.draw(sizes, self._blocks(k), count)
                differ, half, whole = self.differing(batch)
                found = self.suspect(batch, (differ, half, whole))
                if found is not None:
                    return Examined(self.check(found), (found,))
                order = np.flatnonzero(whole & ~differ)
                # Consecutive numbers come first: they show differences more easily than zeros and ones.
                chosen = sorted(order.tolist(), key=lambda row: (row != _COUNT_WEIGHT, row))[:_LOOKED_AT]
                points += [batch.point(row, self.declared, self.pool) for row in chosen]
                for point in points[:1]:
                    if self.check(point, operations=_EXACTLY) is not None:
                        return Examined(self.check(point), (point,))
        except exact_execution.Exhausted:
            # Running the programs is too much work; the hypotheses can be evaluated all the same.
            if batch is not None and not points:
                points = [batch.point(row, self.declared, self.pool) for row in range(min(count, _LOOKED_AT))]
        return Examined(None, tuple(points))

    def _free(self, shapes: Sequence[dict[str, int]]) -> Iterator[Counterexample]:
        """Counterexamples with arbitrary functions, since an equation may hold for all polynomials and not for all
        functions.
        """
        if not self.names:
            return
        for k, sizes in enumerate(shapes[:_FREE]):
            batch = self.drawer.draw(sizes, self._blocks(k), 8)
            for row in range(8):
                point = batch.point(row, self.declared, self.pool)
                free = {name: Free(f"{k} {row} {name}") for name in self.names}
                if self.check(replace(point, functions=free)) is None:
                    continue
                found = self.check(replace(point, functions={n: f.function() for n, f in free.items()}))
                if found is not None:
                    yield found

    def shapes(self) -> list[dict[str, int]]:
        """Sizes that meet the assumptions, the smallest first, and some larger ones."""
        found = meeting(self.symbols, [*self.assume, *self.in_range], count=20) if self.in_range else []
        found += meeting(self.symbols, self.assume, count=40)
        for hints in (self.hints[:3], self.hints[3:6], self.hints[6:9]) if self.hints else ():
            found += meeting(self.symbols, self.assume, least=2, hints=hints, count=60)[-12:]
        found += meeting(self.symbols, self.assume, least=2, count=4)
        found += meeting(self.symbols, self.assume, least=3, count=2)
        found += [s for s in meeting(self.symbols, self.assume, least=1, count=60) if max(s.values(), default=0) > 3][
            :6
        ]
        found = [*map(self.in_reach, found[:_REACHED]), *found]
        unique = {tuple(sizes.values()): sizes for sizes in found if self.cells(sizes) <= 4096}
        return list(unique.values())

    def _blocks(self, k: int) -> dict[str, int]:
        return {name: 1 + (k + j) % 2 for j, name in enumerate(self.locals)}

    # -- floats ----------------------------------------------------------------------------------------------

    def suspect(self, batch: Batch, seen: tuple[Flags, Flags, Flags] | None = None) -> TrialPoint | None:
        """An input of a batch on which the programs differ in exact arithmetic; None if there is none."""
        differ, half, _ = seen or self.differing(batch)
        for point in self._plainest(batch, differ):
            if self.check(point) is not None:
                return point
            self.misses += 1
        if self.half is None:
            self.half = next((p for p in self._plainest(batch, half) if self.check(p, half=True) is not None), None)
        return None

    def _plainest(self, batch: Batch, flags: Flags) -> Iterator[TrialPoint]:
        rows = np.flatnonzero(flags)
        if len(rows):
            costs = self.pool.costs()
            price = sum((costs[a[rows]].reshape(len(rows), -1).sum(1) for a in batch.arrays), np.zeros(len(rows)))
            for row in rows[np.argsort(price, kind="stable")][:_SUSPECTS]:
                yield batch.point(int(row), self.declared, self.pool)


__all__ = ["CounterexampleSearch", "Examined", "refute"]
