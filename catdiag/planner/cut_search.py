"""Where to cut a row of stages into kernels, by the predicted time of each: a shortest path over the places to cut.

A kernel's schedules and tiles are looked for only where a path through what is known of the others, and through a bound
for it, would be shortest: first those of parts of it, of which one must be worth a longer kernel. Nothing is proved
here: `catdiag.planner.partition` does that for the way that is taken.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace

from catdiag.category.diagram import Diagram
from catdiag.category.index_maps import Reindex
from catdiag.category.ops import Call
from catdiag.category.substitution import inline
from catdiag.planner.cheapest_cuts import cheapest_cuts
from catdiag.planner.equal_segments import EqualSegments, SegmentClass, SegmentNames
from catdiag.planner.function_calls import called_schedules
from catdiag.planner.graph_segments import Span, StageSequence
from catdiag.planner.kernel_candidates import KernelTimer, PlanTarget, timed_schedules
from catdiag.planner.library_products import library_product, products_of_products, with_library
from catdiag.planner.roofline import RooflineBound, roofline_bound
from catdiag.rewrite.contraction_order import Reassociation
from catdiag.schedule.live_ranges import multiplies
from catdiag.solvers.z3 import Z3
from catdiag.util.errors import CatdiagError, DoesNotFit, NotFusable

CLOSE = 1.15
"""One kernel is taken where several are not quicker by more than this factor: predicted times are no better than that,
and it needs no memory for what would be saved."""
MOST = 12
"""Stages of a kernel at most, but for one kernel of everything."""
TIMED = 5
"""The most kernels that are timed in a long row, for each of its stages; after that, only those of one stage are."""
FEW_STAGES = 2
"""Kernels of so many stages are always looked at."""
MERGED = 0.98
"""Blocks of one axis in place of several are loaded whole, by warps of their own where a chip has them, which the model
of ideal kernels does not know: what merges axes is taken where it is nearly as quick by that."""
NEARLY = 1.03
"""Ways are not looked for that are expected to be quicker by less than this factor than one that is known: in long
rows, and in all where kernels are timed as they are written."""
HOPELESS = 3.0
"""A kernel that takes so many times the time of its stages in several is not made longer."""
NEGLIGIBLE = 0.1
"""A part of the time between two kernels. A kernel that takes at most that much longer than its bound is timed by no
further draft until it is chosen."""


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
    _timed_count: int = 0
    """How many kernels were timed."""
    _left_out: set[Span] = field(default_factory=set)
    """The kernels that are not timed, since none with fewer stages is worth a longer one."""
    _least_s: dict[Span, float] = field(default_factory=dict)
    """What kernels that are not timed are expected to take at least, beside shorter ones that are."""

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
        found, known = self._class_of(span)[0], self._screened(span)
        if not found.screened:
            return known
        found.schedules, found.screened = self._timed(span, found.diagram, found.target, 0.0), False
        return found.schedules

    def _screened(self, span: Span) -> list[KernelTimer] | CatdiagError:
        """The same, perhaps without some that are quicker by less than matters (`NEGLIGIBLE`)."""
        found = self._class_of(span)[0]
        if found.schedules is None:
            chip = self.target.chip
            self.target.report(f"timing stages {span[0] + 1} to {span[1]} of {self.full_span[1]} as one kernel")
            try:
                least_s = 0.0 if self.row.is_function(*span) else self._roofline(span).memory_s
                enough_s = max(least_s, chip.latency_s) + NEGLIGIBLE * chip.kernel_gap_s
                self._timed_count += 1
                found.schedules = self._timed(span, found.diagram, found.target, enough_s)
                first = found.schedules[0]
                found.screened = not first.called and first.seconds <= enough_s
            except CatdiagError as error:
                found.schedules = error
        if span not in self._known:
            self._known[span] = found
            self._bound_longer(span, found)
        return found.schedules

    def _bound_longer(self, span: Span, known: SegmentClass) -> None:
        """Notes for kernels of more stages what they are expected to take at least, beside one of some of these: of
        those whose results have its axes, so that they have no loops that it could not have."""
        if not isinstance(known.schedules, list) or known.schedules[0].called:
            return
        (start, end), count = span, self.full_span[1]
        own = self.row.axes_of_results(start, end)
        seconds = known.schedules[0].seconds - self._roofline(span).memory_s - self.target.chip.latency_s
        for last in range(end, min(count, start + MOST) + 1):
            if own <= self.row.axes_of_results(start, last):
                for first in range(max(0, last - MOST), start + 1):
                    self._least_s[first, last] = max(seconds, self._least_s.get((first, last), 0.0))

    def _timed(self, span: Span, piece: Diagram, target: PlanTarget, enough_s: float) -> list[KernelTimer]:
        """The schedules of a kernel, torch's among them, under the names of a piece that is equal to it, until one
        takes `enough_s` or less. Raises CatdiagError where there is none."""
        if self.row.is_function(*span):
            return called_schedules(piece, target)
        if target.products == "torch" and span[1] - span[0] > 1 and not products_of_products(piece):
            for k in range(*span):
                if library_product(self.row.segment_diagram(k, k + 1), self.target_of((k, k + 1)).dtype) is not None:
                    raise LeftToLibrary("torch is to compute a product in it, and computes nothing else with it")
        return with_library(timed_schedules(piece, target, enough_s), piece, target)

    def seconds(self, span: Span) -> float:
        """The predicted seconds of a kernel; infinite where it does not fit."""
        found = self._screened(span)
        return math.inf if isinstance(found, CatdiagError) else found[0].seconds

    def bound(self, span: Span) -> float:
        """The seconds of a kernel as far as is known: as predicted, or those that no schedule is expected to go
        below."""
        known = self._segments.get(span)
        if (known is not None and known[0].schedules is not None) or self.row.is_function(*span):
            return self.seconds(span)
        least = max(self._least_s.get(span, 0.0), self.target.chip.latency_s)
        return least if known is None or known[0].bound is None else max(least, known[0].bound.seconds)

    def _roofline(self, span: Span) -> RooflineBound:
        found = self._class_of(span)[0]
        if found.bound is None:
            found.bound = roofline_bound(found.diagram, found.target)
        return found.bound

    def shortest_path(self, several: bool = False, enough_s: float = math.inf) -> tuple[float, tuple[Span, ...]]:
        """The seconds of the quickest way, and its kernels; of a long row those of one that is `NEARLY` as quick.
        Infinite and none where nothing fits, a bound and none where that is `enough_s` or more. With `several`, of two
        kernels or more."""
        return self._settled_path(self.full_span, several, self.max_cuts, MOST, enough_s, self._is_long)

    def _settled_path(
        self,
        span: Span,
        several: bool,
        cuts: int | None,
        most: int | None,
        enough_s: float = math.inf,
        nearly: bool = False,
    ) -> tuple[float, tuple[Span, ...]]:
        """The quickest way to cut some stages, of at most so many stages each; a bound for it where that is `enough_s`
        or more. With `nearly`, one that is `NEARLY` as quick will do."""
        start, end = span
        limit = None if cuts is None else min(end - start, cuts + 1)

        timed: dict[Span, float] = {}  # which does not change here
        spent = False

        def cost(part: Span) -> float | None:
            if (seconds := timed.get(part)) is not None:
                return seconds
            own = start + part[0], start + part[1]
            if (several and own == span) or own in self._left_out:
                return None
            if spent and own not in self._known and part[1] - part[0] > 1:
                return None
            seconds = self.bound(own)
            if own in self._known:
                timed[part] = seconds
            return seconds

        def cheapest(cost: Callable[[Span], float | None]) -> tuple[float, tuple[Span, ...]]:
            ways = cheapest_cuts(end - start, cost, kernels=limit, between=self.target.chip.kernel_gap_s, most=most)
            total, option = min(ways.values(), key=lambda way: way[0], default=(math.inf, ()))
            return total, tuple((start + first, start + last) for first, last in option)

        while True:
            spent = self._is_long and self._timed_count >= TIMED * len(self.row.stages)
            total, option = cheapest(cost)
            if math.isinf(total) or total >= enough_s:
                return total, ()
            unread = [part for part in option if part not in self._segments]
            unknown = [part for part in option if self._class_of(part)[0].schedules is None]
            if unread:  # of which more may be known of segments that are equal
                continue
            if not unknown:
                return total, option
            if nearly and (known := cheapest(timed.get))[0] <= NEARLY * total:
                return known
            for part in unknown:
                self._look_at(part)

    def _look_at(self, span: Span) -> None:
        """Finds out more about a kernel: how long it takes, if it is of few stages, or one with a stage less, or a few
        of a long row, is worth it (`_pays`); else about those."""
        known, (start, end) = self._class_of(span)[0], span
        if known.bound is None:
            self._roofline(span)
            return
        if end - start <= FEW_STAGES or (span == self.full_span and self._whole_is_tried()):
            self._screened(span)
            return
        fewer = max(1, (end - start) // 3) if self._is_long else 1
        shorter = ((start + fewer, end), (start, end - fewer))
        timed = [part for part in shorter if self._class_of(part)[0].schedules is not None]
        if shorter[0] in timed and isinstance(self._screened(shorter[0]), DoesNotFit):
            self._left_out.add(span)  # what is loaded there takes no more than where it is made as well
            return
        if end - start <= MOST and any(map(self._pays, timed)):
            self._screened(span)
            return
        todo = [part for part in shorter if part not in timed and part not in self._left_out]
        if end - start > MOST or not todo:
            self._left_out.add(span)
        else:
            self._look_at(todo[0])

    @property
    def _is_long(self) -> bool:
        """Whether there are more stages than a kernel has, so that not all ways are looked at."""
        return self.full_span[1] > MOST

    def _whole_is_tried(self) -> bool:
        """Whether one kernel of everything is tried: where the row is not long, or it is asked for."""
        return self.max_cuts == 0 or not self._is_long

    def _pays(self, span: Span) -> bool:
        """Whether a kernel takes no more than `HOPELESS` times the time of its stages in several kernels, or of its
        only one."""
        if span not in self._worth:
            if isinstance(self._screened(span), LeftToLibrary):
                paid = span[1] - span[0] <= FEW_STAGES  # which says nothing of a kernel that makes a factor too
            else:
                enough_s = self.seconds(span) / HOPELESS
                paid = math.isfinite(enough_s) and enough_s <= self._settled_path(span, True, None, None, enough_s)[0]
            self._worth[span] = paid
        return self._worth[span]

    def _forget(self) -> None:
        """Forgets what is worth what, once kernels take longer than they did."""
        self._worth.clear()
        self._left_out.clear()

    def chosen(self, enough_s: float = math.inf) -> tuple[Span, ...]:
        """The way that is taken, as far as is known without proofs; none where nothing fits, or perhaps where none
        takes less than `enough_s`. Of its kernels all schedules are timed."""
        while True:
            option = self._quickest_path(enough_s)
            screened = [span for span in option if self._class_of(span)[0].screened]
            if not screened:
                return option
            for span in screened:
                self.schedules(span)

    def _quickest_path(self, enough_s: float) -> tuple[Span, ...]:
        if self.multi_kernel:
            return self.shortest_path(True, enough_s)[1]
        one = math.inf
        if self._whole_is_tried() and (math.isinf(enough_s) or self._roofline(self.full_span).seconds < enough_s):
            one = self.seconds(self.full_span)
        total, option = self.shortest_path(False, enough_s)
        return (self.full_span,) if one <= CLOSE * total and not math.isinf(one) else option

    def has_misfit_stage(self) -> bool:
        """Whether a named box of several products fits no kernel: then no way of this row does."""
        nodes = self.row.graph.nodes
        for k, places in enumerate(self.row.stages):
            calls = [op for p in places if isinstance(op := nodes[p].box.op, Call)]
            inner = [box for op in calls for box in inline(op.body).boxes]
            if sum(map(multiplies, inner)) > 1 and isinstance(self._screened((k, k + 1)), DoesNotFit):
                return True
        return False

    def quickest(self) -> float:
        """The predicted seconds of the way that is taken, infinite where nothing fits."""
        option = self.chosen()
        return self.total(option) if option else math.inf

    def rank_seconds(self, enough_s: float = math.inf) -> float:
        """What forms of a program are ranked by: what they take, where kernels that are written have merged axes
        `MERGED` times that; or, where that is `enough_s` or more, perhaps a bound for it. Infinite where nothing
        fits."""
        if enough_s < math.inf and not self._whole_is_tried():
            least_s, option = self.shortest_path(self.multi_kernel, enough_s / MERGED)
            if not option or least_s >= enough_s / MERGED:
                return least_s
        kernels = (found[0] for span in self.chosen() if isinstance(found := self.schedules(span), list)
                   and self._merges(span))  # fmt: skip
        return self.quickest() * (1.0 if all(kernel.called for kernel in kernels) else MERGED)

    def _merges(self, span: Span) -> bool:
        """Whether a kernel reads arrays with merged axes."""
        return any(
            isinstance(box.op, Reindex) and box.op.kind == "merge" for box in self.row.segment_diagram(*span).boxes
        )

    def total(self, option: tuple[Span, ...]) -> float:
        """The predicted seconds of a way, with those of the launches between its kernels."""
        return sum(map(self.seconds, option)) + self.target.chip.kernel_gap_s * (len(option) - 1)

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
