"""The search over cuts, by what kernels take as they are written, where the ideal model is far from that.

Seconds of the ideal model are known without writing a kernel. Those of a kernel that takes much longer as it is written
are put in their place, and kernels that cover its stages are compared with it by theirs. Kernels that cannot be written
are left out.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from catdiag.planner.cut_search import CutSearch
from catdiag.planner.equal_segments import DerivedKernel, SegmentClass
from catdiag.planner.fit import fit
from catdiag.planner.graph_segments import Span
from catdiag.planner.kernel_candidates import KernelTimer, PlanTarget
from catdiag.planner.kernel_drafts import REFUSED
from catdiag.planner.plan import IDEAL
from catdiag.util.errors import CatdiagError, NotFusable

SLOWER = 1.4
"""A kernel that takes so many times as long as it is written as by the ideal model is compared with others by what all
of them take as they are written."""


def _has_module(schedule: KernelTimer, target: PlanTarget) -> bool:
    """Whether a kernel can be written by a schedule, or torch computes it."""
    if schedule.called:
        return True
    if schedule.has_module is None:
        try:
            plan = fit(schedule.draft.diagram, target.chip, schedule.sizes, **target.options())
            schedule.has_module = plan.backend != IDEAL
        except CatdiagError:
            schedule.has_module = False
    return schedule.has_module


@dataclass
class WrittenKernelSearch(CutSearch):
    """The search over the ways to cut one row of stages, with kernels as they are written."""

    _retimed_stages: set[int] = field(default_factory=set, repr=False)
    """The stages of kernels that take `SLOWER` times as long as they are written."""
    _take_refused: bool = False
    """Whether schedules that were not proved are taken where no other is left, since no way is proved."""

    def settled(self, limit: float) -> float:
        """Gives kernels the seconds that they take as they are written, in place of the ideal model's, until those of
        the quickest way have them; what it takes, infinite where that is not below `limit`, or nothing is written."""
        while (option := self.chosen()) and self.total(option) < limit:
            written = True
            for known in (self._class_of(span)[0] for span in option):
                if isinstance(known.schedules, list) and not known.schedules[0].as_written:
                    self._time_as_written(known)
                    written = False
            if written:
                return self.total(option)
            self._worth.clear()
        return math.inf

    def _retimed(self, option: tuple[Span, ...], kernels: Sequence[DerivedKernel]) -> bool:
        """Gives kernels of a way the seconds that they take as they are written, in place of the ideal model's: all of
        them where torch's products are compared with them, else those that take `SLOWER` times as long, and what covers
        stages of these. Whether one has others than before."""
        changed = False
        for span, made in zip(option, kernels, strict=True):
            known = self._class_of(span)[0]
            if made.schedule.called or made.plan.backend == IDEAL or not isinstance(known.schedules, list):
                continue
            first, *others = known.schedules
            slower = made.plan.time_s > SLOWER * first.seconds
            if first.as_written or not (
                slower or self.target.products == "quickest" or self._retimed_stages & set(range(*span))
            ):
                continue
            self._retimed_stages |= set(range(*span)) if slower else set()
            changed = changed or made.plan.time_s != first.seconds
            timer = replace(first, seconds=made.plan.time_s, as_written=True)
            known.schedules = sorted([timer, *others], key=lambda one: one.seconds)
            known.made = known.made if known.schedules[0] is timer else None
        return changed

    def _timed_again(self, option: tuple[Span, ...]) -> bool:
        """Gives kernels of a way that cover stages of slower ones (`_retimed`) the seconds that they take as they are
        written, before they are proved; whether there was one."""
        found = False
        for span in option if self._retimed_stages else ():
            known = self._class_of(span)[0]
            if isinstance(known.schedules, list) and self._retimed_stages & set(range(*span)):
                first = known.schedules[0]
                if not first.as_written and not first.called:
                    self._time_as_written(known)
                    found = True
        self._worth = {} if found else self._worth
        return found

    def _time_as_written(self, known: SegmentClass) -> None:
        """Gives the quickest schedule of a segment the seconds that it takes as it is written, or leaves it out."""
        assert isinstance(known.schedules, list)
        first, *others = known.schedules
        try:
            plan = fit(first.draft.diagram, known.target.chip, first.sizes, **known.target.options())
            if plan.backend == IDEAL:
                raise NotFusable(plan.reason)
        except CatdiagError as error:
            self._drop(known, error)
            return
        timer = replace(first, seconds=plan.time_s, as_written=True)
        known.schedules = sorted([timer, *others], key=lambda one: one.seconds)
        known.made = None

    def _has_written_stages(self, span: Span) -> bool:
        """Whether a kernel has several stages, and of each a kernel can be written."""
        stages = [self._class_of((k, k + 1))[0] for k in range(*span)]
        for k, known in zip(range(*span), stages, strict=True):
            options = self.schedules((k, k + 1))
            if len(stages) == 1 or not isinstance(options, list) or not _has_module(options[0], known.target):
                return False
        return True

    def _leave_unwritten(self, span: Span) -> None:
        """Leaves out the schedules of a kernel up to the quickest of which Triton's kernel can be written."""
        known = self._class_of(span)[0]
        if known.made is None:  # an equal kernel of the way was left out already
            return
        error = NotFusable(known.made[0].plan.reason)
        known.made = None
        self._drop(known, error)
        while isinstance(known.schedules, list) and not _has_module(known.schedules[0], known.target):
            self._drop(known, error)

    def _drop(self, known: SegmentClass, error: CatdiagError) -> None:
        """Leaves out the quickest schedule of equal kernels."""
        if isinstance(known.schedules, list):
            if known.refused is None and isinstance(error, REFUSED):
                known.refused = known.schedules[0], error.message
            known.schedules = known.schedules[1:] or error
        if self._take_refused and known.schedules is error and known.refused is not None and not known.without_proof:
            known.schedules, known.without_proof = [known.refused[0]], True
