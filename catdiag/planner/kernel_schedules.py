"""What a kernel moves: its drafts measured by formulas, each with its proof, and which of them is the best.

>>> import catdiag as cd
>>> from catdiag.solvers.z3 import Z3
>>> kernel = KernelSchedules(0, 1, cd.library.get("matmul"), {}, Z3())
>>> [str(schedule) for schedule in kernel.schedules]
['stream b, group a c']
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

from catdiag.category.diagram import Diagram
from catdiag.category.substitution import inline
from catdiag.cost.traffic import IO, io
from catdiag.optimum.exhaustive import ExhaustiveOptimum, exhaustive_optimum
from catdiag.optimum.power_form import power_form
from catdiag.planner.kernel_drafts import REFUSED, KernelDraft, drafts, proved
from catdiag.rewrite.derivation import Derivation
from catdiag.rewrite.steps import Scheduled
from catdiag.solvers.z3 import Z3
from catdiag.util.errors import CatdiagError

if TYPE_CHECKING:
    from catdiag.optimum.minimize import Optimum

Expr = Any


@dataclass
class Schedule:
    """A draft of a kernel, and what it moves."""

    kernel_diagram: Diagram
    draft: KernelDraft
    options: Mapping[str, Any]
    ask: Z3 = field(repr=False)

    @cached_property
    def derivation(self) -> Derivation | None:
        """The schedule, proved: by normal forms alone, or step by step; None where nothing is to be proved, as the
        kernel runs as it is written.

        Raises NotStreamable and NotGroupable where the proof is not found.
        """
        draft = self.draft
        if not draft.streams and not draft.groups:
            return None
        theorem = proved(self.ask, self.kernel_diagram, draft.diagram, False)
        if theorem is None:
            return draft.derivation(self.kernel_diagram, self.ask)
        action = Scheduled(draft.actions)
        made = Derivation.start(self.kernel_diagram, self.ask)
        return made.then(action, draft.diagram, theorem, ungrouped=draft.streamed, groups=draft.groups)

    @cached_property
    def io(self) -> IO:
        """Transfers and memory of the schedule, proved."""
        made = self.derivation
        return io(self.kernel_diagram if made is None else made.diagram, **self.options)

    @cached_property
    def estimate(self) -> IO:
        """Transfers and memory of the schedule as it is tried first; no proof is asked for."""
        return io(self.draft.diagram, **self.options)

    def __str__(self) -> str:
        return str(self.draft)


@dataclass
class KernelSchedules:
    """A segment of the row as one kernel: the stages from `start` to before `end`, and the schedules that it has."""

    start: int
    end: int
    diagram: Diagram
    options: Mapping[str, Any]
    ask: Z3 = field(repr=False)
    uncounted: bool = field(default=False, init=False)
    """Whether a schedule was left out of `exhaustive_optimum`, whose transfers are not counted for every tile."""
    dropped: bool = field(default=False, init=False)
    """Whether a schedule was left out, or measured again, since it was not proved as it was measured."""

    @cached_property
    def schedules(self) -> list[Schedule]:
        """The schedules that are tried, those left out that move as much as another and hold more."""
        found: list[Schedule] = []
        for draft in drafts(inline(self.diagram)):
            schedule = Schedule(self.diagram, draft, self.options, self.ask)
            try:
                draft.check_blocks(schedule.estimate.account.kernels)
            except CatdiagError:
                continue
            if not any(_no_better(other.estimate, schedule.estimate) for other in found):
                found = [other for other in found if not _no_better(schedule.estimate, other.estimate)] + [schedule]
        return found

    def drop(self, schedule: Schedule) -> None:
        """Leaves out a schedule that was not proved."""
        self.schedules.remove(schedule)
        self.dropped = True

    def exhaustive_optimum(self, sizes: Mapping[str, int], capacity: int) -> tuple[ExhaustiveOptimum, Schedule] | None:
        """The least exact transfers at these sizes, over schedules and integer tiles; None where none fits."""
        best = self.exhaustive(sizes, capacity)
        return None if best is None else (best[0], self.schedules[best[1]])

    def exhaustive(self, sizes: Mapping[str, int], capacity: int) -> tuple[ExhaustiveOptimum, int] | None:
        """As `exhaustive_optimum`, with the schedule's place among `schedules`."""
        best: tuple[ExhaustiveOptimum, int] | None = None
        for place, schedule in enumerate(self.schedules):
            try:
                found = exhaustive_optimum(schedule.estimate.account, sizes, capacity)
            except CatdiagError:
                self.uncounted = True
                continue
            if found is not None and (best is None or found.transfers < best[0].transfers):
                best = found, place
        return best

    @cached_property
    def ranked(self) -> list[tuple[Schedule, Optimum]]:
        """The schedules that have a leading order, the least where sizes and capacity are large first; unproved.

        One whose leading order is a sum of powers of the capacity goes before others.
        """
        found: list[tuple[bool, float, int, Schedule, Optimum]] = []
        for schedule in self.schedules:
            for variant in (schedule, *_fewer_groups(schedule)):
                try:
                    optimum = variant.estimate.optimum()
                except ValueError:  # overlapping parts of arrays: no posynomial
                    continue
                if optimum.leading is not None:
                    value = at_large(optimum.leading, variant.estimate.capacity)
                    plain = value > 0 and power_form(optimum.leading, variant.estimate.capacity).exact
                    found.append((not plain, value if value > 0 else math.inf, len(found), variant, optimum))
        return [r[3:] for r in sorted(found, key=lambda r: r[:3])]

    @cached_property
    def chosen(self) -> tuple[Schedule, Optimum] | None:
        """The first of these that is proved, with its optimum; None where there is none."""
        for schedule, optimum in self.ranked:
            try:
                same = (schedule.io.relaxed, schedule.io.memory) == (
                    schedule.estimate.relaxed, schedule.estimate.memory,
                )  # fmt: skip
            except REFUSED:
                continue
            optimum = optimum if same else schedule.io.optimum()
            if optimum.leading is not None:
                return schedule, optimum
        return None

    @cached_property
    def preferred(self) -> tuple[tuple[Expr, ...], tuple[Schedule, ...]]:
        """Where none of the other schedules moves less than the chosen one, at leading order: conditions on sizes, and
        the schedules of which no such condition is known, since the capacity decides too."""
        import sympy

        conditions: dict[Expr, None] = {}
        others: list[Schedule] = []
        schedule, optimum = self.chosen or (None, None)
        for other, alternative in self.ranked:
            if optimum is None or optimum.leading is None or alternative.leading is None or other is schedule:
                continue
            gap = sympy.factor(sympy.together(alternative.leading - optimum.leading))
            if not any(a.could_extract_minus_sign() for a in sympy.Add.make_args(sympy.expand(gap))):
                continue
            decides = sympy.Mul(*(f for f in sympy.Mul.make_args(gap) if not f.is_positive))
            if other.estimate.capacity in decides.free_symbols:
                others.append(other)
            else:
                conditions[sympy.Ge(decides, 0)] = None
        return tuple(c for c in conditions if c != sympy.true), tuple(others)


def count_kernel(
    piece: Diagram, options: Mapping[str, Any], sizes: Mapping[str, int], capacity: int
) -> tuple[tuple[ExhaustiveOptimum, int] | None, bool]:
    """What `KernelSchedules.exhaustive` gives for a piece, in whatever process, and whether a schedule was left
    `uncounted`."""
    kernel = KernelSchedules(0, 1, piece, options, Z3())
    return kernel.exhaustive(sizes, capacity), kernel.uncounted


def at_large(formula: Expr, capacity: Expr) -> float:
    """A formula where axes are long and the capacity is small beside arrays, to put ways in order by; negative where it
    is no number there."""
    value = formula.subs({s: 1 << 10 if s == capacity else 1 << 12 for s in formula.free_symbols})
    return float(value) if value.is_real and value.is_finite else -1.0


def _no_better(first: IO, second: IO) -> bool:
    """Whether the second moves as much as the first in every group size, and holds at least as much."""
    if first.relaxed != second.relaxed or set(first.groups) != set(second.groups):
        return False
    ones = {s for kernel in (*first.account.kernels, *second.account.kernels) for s, _ in kernel.loops}
    totals = [m.total.without(ones) for k in second.account.kernels for m in k.points["level"]]
    mine = [m.total.without(ones) for k in first.account.kernels for m in k.points["level"]]
    return all(any(other.dominates(one) for other in totals) for one in mine)


def _fewer_groups(schedule: Schedule) -> tuple[Schedule, ...]:
    """The schedule grouped only over axes that all arrays made in it have, so that no group recomputes."""
    flat = inline(schedule.kernel_diagram)
    made = [ty for node in flat.graph.nodes for ty in node.box.cod if ty.axes]
    groups = tuple(n for n in schedule.draft.groups if all(n in ty.names for ty in made))
    if groups == schedule.draft.groups or not groups:
        return ()
    return (replace(schedule, draft=schedule.draft.in_groups(groups)),)
