"""Where to cut a row of stages into kernels, by the predicted time of each: a shortest path over the places to cut.

A kernel's schedules and tiles are looked for only where a path through what is known of the others, and through a bound
for it, would be shortest. Nothing is proved here: `catdiag.planner.partition` does that for the way that is taken.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace

from catdiag.category.diagram import Diagram
from catdiag.category.index_maps import Reindex
from catdiag.planner.equal_segments import EqualSegments, SegmentClass, SegmentNames
from catdiag.planner.function_calls import called_schedules
from catdiag.planner.graph_segments import Span, StageSequence, cheapest_cuts
from catdiag.planner.kernel_candidates import KernelTimer, PlanTarget, lower_bound_s, timed_schedules
from catdiag.planner.library_products import library_product, products_of_products, with_library
from catdiag.planner.multi_kernel_plan import LAUNCH_S
from catdiag.rewrite.contraction_order import Reassociation
from catdiag.solvers.z3 import Z3
from catdiag.util.errors import CatdiagError, DoesNotFit, NotFusable

CLOSE = 1.15
"""One kernel is taken where several are not quicker by more than this factor: predicted times are no better than that,
and it needs no memory for what would be saved."""
MOST = 12
"""Stages of a kernel at most, but for one kernel of everything."""
FEW_STAGES = 2
"""Kernels of so many stages are always looked at."""
MERGED = 0.98
"""Blocks of one axis in place of several are loaded whole, by warps of their own where a chip has them, which the model
of ideal kernels does not know: what merges axes is taken where it is nearly as quick by that."""
HOPELESS = 3.0
"""A kernel that takes so many times the time of its stages in several is not made longer."""


class LeftToLibrary(NotFusable):
    """A kernel has a product in it that torch is to compute."""


@dataclass
class CutSearch:
    """The search over the ways to cut one row of stages."""

    row: StageSequence
    target: PlanTarget
    ask: Z3
    max_cuts: int | None = None
    form: Reassociation | None = None
    """How the row came of another diagram, which theorems are about; None where they are about the row's own."""
    multi_kernel: bool = False
    equal: EqualSegments = field(default_factory=EqualSegments)
    """What is known of segments, also of those of other forms."""
    _known: dict[Span, SegmentClass] = field(default_factory=dict)
    _segments: dict[Span, tuple[SegmentClass, SegmentNames]] = field(default_factory=dict)
    _worth: dict[Span, bool] = field(default_factory=dict)

    @property
    def full_span(self) -> Span:
        """Everything."""
        return 0, len(self.row.stages)

    def target_of(self, span: Span) -> PlanTarget:
        """The target of a kernel, with the types of what it reads and makes."""
        return replace(self.target, dtype=self.row.types_of(*span, self.target.dtype))

    def _class_of(self, span: Span) -> tuple[SegmentClass, SegmentNames]:
        """The segments that are equal to one up to names, and its own names."""
        if span not in self._segments:
            self._segments[span] = self.equal.of(self.row.segment_diagram(*span), self.target_of(span))
        return self._segments[span]

    def schedules(self, span: Span) -> list[KernelTimer] | CatdiagError:
        """The schedules of a kernel, the quickest first; or why there are none. They are those of the first kernel that
        is equal up to names, under its names."""
        found = self._known[span] = self._class_of(span)[0]
        if found.schedules is None:
            self.target.report(f"timing stages {span[0] + 1} to {span[1]} of {self.full_span[1]} as one kernel")
            try:
                found.schedules = self._timed(span, found.diagram, found.target)
            except CatdiagError as error:
                found.schedules = error
        return found.schedules

    def _timed(self, span: Span, piece: Diagram, target: PlanTarget) -> list[KernelTimer]:
        """The schedules of a kernel, torch's among them, under the names of a piece that is equal to it. Raises
        CatdiagError where there is none."""
        if self.row.is_function(*span):
            return called_schedules(piece, target)
        if target.products == "torch" and span[1] - span[0] > 1 and not products_of_products(piece):
            for k in range(*span):
                if library_product(self.row.segment_diagram(k, k + 1), self.target_of((k, k + 1)).dtype) is not None:
                    raise LeftToLibrary("torch is to compute a product in it, and computes nothing else with it")
        return with_library(timed_schedules(piece, target), piece, target)

    def seconds(self, span: Span) -> float:
        """What a kernel takes; infinite where it does not fit."""
        found = self.schedules(span)
        return math.inf if isinstance(found, CatdiagError) else found[0].seconds

    def bound(self, span: Span) -> float:
        """What a kernel takes as far as is known: its time, or what no schedule of it is below."""
        found = self._class_of(span)[0]
        if found.schedules is not None or self.row.is_function(*span):
            return self.seconds(span)
        if found.bound is None:
            found.bound = lower_bound_s(found.diagram, found.target)
        return found.bound

    def shortest_path(self, several: bool = False) -> tuple[float, tuple[Span, ...]]:
        """The quickest way and what it takes, infinite and none where nothing fits; with `several`, of two kernels or
        more."""
        while True:
            total, option = self._shortest(several)
            unknown = [span for span in option if self._class_of(span)[0].schedules is None]
            if not unknown:
                return total, option
            for span in unknown:
                self.schedules(span)

    def _shortest(self, several: bool) -> tuple[float, tuple[Span, ...]]:
        """The shortest path by `bound`, of at most so many kernels as `max_cuts` allows."""
        count = self.full_span[1]

        def cost(span: Span) -> float | None:
            if (several and span == self.full_span) or not self._looked_at(span):
                return None
            return self.bound(span)

        limit = None if self.max_cuts is None else min(count, self.max_cuts + 1)
        ways = cheapest_cuts(count, cost, kernels=limit, between=LAUNCH_S, most=MOST)
        found = min(ways.values(), key=lambda way: way[0], default=(math.inf, ()))
        return found if math.isfinite(found[0]) else (math.inf, ())

    def _looked_at(self, span: Span) -> bool:
        """Whether a kernel is tried: of few stages always, and else where one with a stage less is worth it (`_pays`).
        One kernel of everything is, where the row is not long or it is asked for."""
        start, end = span
        if span == self.full_span and (self.max_cuts == 0 or end <= 2 * MOST):
            return True
        if end - start <= FEW_STAGES:
            return True
        return end - start <= MOST and (self._pays((start + 1, end)) or self._pays((start, end - 1)))

    def _pays(self, span: Span) -> bool:
        """Whether a kernel takes no more than `HOPELESS` times the time of its stages in several kernels, or of its
        only one."""
        if span not in self._worth:
            start, end = span
            self._worth[span] = False
            if self._looked_at(span) and isinstance(self.schedules(span), LeftToLibrary):
                self._worth[span] = end - start <= FEW_STAGES  # which says nothing of a kernel that makes a factor too
            elif self._looked_at(span) and math.isfinite(self.seconds(span)):
                inside = cheapest_cuts(
                    end - start,
                    lambda part: (
                        None
                        if part == (0, end - start) or not self._looked_at((start + part[0], start + part[1]))
                        else self.bound((start + part[0], start + part[1]))
                    ),
                    kernels=None,
                    between=LAUNCH_S,
                )
                least = min((way[0] for way in inside.values()), default=math.inf)
                self._worth[span] = self.seconds(span) <= HOPELESS * least
        return self._worth[span]

    def chosen(self) -> tuple[Span, ...]:
        """The way that is taken, as far as is known without proofs; none where nothing fits."""
        if self.multi_kernel:
            return self.shortest_path(several=True)[1]
        one = self.seconds(self.full_span) if self._looked_at(self.full_span) else math.inf
        total, option = self.shortest_path()
        return (self.full_span,) if one <= CLOSE * total and not math.isinf(one) else option

    def quickest(self) -> float:
        """What the way that is taken takes."""
        return self.total(self.chosen())

    def rank_seconds(self) -> float:
        """What forms of a program are ranked by: what they take, where kernels that are written have merged axes
        `MERGED` times that."""
        kernels = (found[0] for span in self.chosen() if isinstance(found := self.schedules(span), list)
                   and self._merges(span))  # fmt: skip
        return self.quickest() * (1.0 if all(kernel.called for kernel in kernels) else MERGED)

    def _merges(self, span: Span) -> bool:
        """Whether a kernel reads arrays with merged axes."""
        return any(
            isinstance(box.op, Reindex) and box.op.kind == "merge" for box in self.row.segment_diagram(*span).boxes
        )

    def total(self, option: tuple[Span, ...]) -> float:
        """What a way takes."""
        return sum(map(self.seconds, option)) + LAUNCH_S * (len(option) - 1)

    def misfit(self) -> CatdiagError:
        """Of all kernels that were looked at and do not fit, the one that comes nearest; or why none has a plan."""
        found = {span: known.schedules for span, known in self._known.items()}
        errors = [e for e in found.values() if isinstance(e, CatdiagError)]
        if not errors:
            title = self.row.diagram.title or "the diagram"
            return NotFusable(f"{title} has one box at work: there is nothing to cut into several kernels")
        fits = [e for e in errors if isinstance(e, DoesNotFit)]
        single = [found.get((k, k + 1)) for k in range(self.full_span[1])]
        worst = next((e for e in single if isinstance(e, DoesNotFit)), None)
        return worst or min(fits, key=lambda e: e.excess, default=DoesNotFit(errors[0].message, errors[0].line))
