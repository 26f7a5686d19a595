"""The search over cuts, by what kernels take as they are written, where the ideal model is far from that, with proofs
of those that are taken.

Seconds of the ideal model are known without writing a kernel. Those of a kernel that takes much longer as it is written
are put in their place, and kernels that cover its stages are compared with it by theirs. Kernels that cannot be written
are left out, before anything is proved.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Self, TypeVar

from catdiag.category.diagram import Diagram
from catdiag.planner.cut_search import NEARLY, CutSearch
from catdiag.planner.equal_segments import DerivedKernel, NamedKernel, SegmentClass
from catdiag.planner.fit import emitted_seconds, fit
from catdiag.planner.function_calls import function_plan
from catdiag.planner.graph_segments import Span, StageSequence
from catdiag.planner.kernel_candidates import KernelTimer, PlanTarget
from catdiag.planner.kernel_drafts import REFUSED, fresh_tiles, proved
from catdiag.planner.library_products import library_plan
from catdiag.planner.plan import FUNCTION, TORCH, KernelPlan
from catdiag.rewrite.contraction_order import Reassociation
from catdiag.rewrite.derivation import Derivation
from catdiag.rewrite.list_states import resized
from catdiag.rewrite.local_sizes import sizes_in
from catdiag.rewrite.steps import RenameTiles, Scheduled
from catdiag.schedule.split_k import parts_by_block
from catdiag.util.errors import CatdiagError, DoesNotFit, NotFusable

SLOWER = 1.3
"""A kernel that takes so many times as long as it is written as by the ideal model, each with the time from one kernel
to the next, is compared with others by what all of them take as they are written."""
WRITTEN = 3
"""Kernels for each stage that are written at most to find out whether it pays to recompute arrays."""
T = TypeVar("T")
CALLED_PLANS: dict[str, Callable[[Diagram, PlanTarget], KernelPlan]] = {TORCH: library_plan, FUNCTION: function_plan}
"""The plans of kernels that are called, by who computes them."""


def emitted_plan(schedule: KernelTimer, known: SegmentClass) -> KernelPlan:
    """The plan of a schedule of equal segments as it is written. Raises CatdiagError where there is none."""
    if schedule.emitted is None:
        schedule.emitted = _of_kernel(fit, schedule, known)
    return _known(schedule.emitted)


def schedule_seconds(schedule: KernelTimer, known: SegmentClass) -> float:
    """The predicted seconds of a schedule of equal segments as it is written. Raises CatdiagError where it is not."""
    if schedule.emitted_s is None:
        schedule.emitted_s = _of_kernel(emitted_seconds, schedule, known)
    return _known(schedule.emitted_s)


def _of_kernel(find: Callable[..., T], schedule: KernelTimer, known: SegmentClass) -> T | CatdiagError:
    """What is found of the kernel of a schedule, or why it is not."""
    target = known.target
    try:
        diagram = schedule.draft.kernel_of(known.diagram)
        return find(diagram, target.chip, schedule.sizes, **target.options())
    except CatdiagError as error:
        return error


def _known(found: T | CatdiagError) -> T:
    """What was found. Raises the CatdiagError why it was not."""
    if isinstance(found, CatdiagError):
        raise found
    return found


def _has_module(schedule: KernelTimer, known: SegmentClass) -> bool:
    """Whether a kernel can be written by a schedule, or torch computes it."""
    try:
        return bool(schedule.called) or schedule_seconds(schedule, known) > 0
    except CatdiagError:
        return False


@dataclass
class EmittedKernelSearch(CutSearch):
    """The search over the ways to cut one row of stages, with kernels as they are written."""

    _retimed_stages: set[int] = field(default_factory=set, repr=False)
    """The stages of kernels that take `SLOWER` times as long as they are written."""
    _timed_ways: list[tuple[Span, ...]] = field(default_factory=list, repr=False)
    """The ways whose slower kernels are timed as they are written."""
    _take_refused: bool = False
    """Whether schedules that were not proved are taken where no other is left, since no way is proved."""

    def over(self, row: StageSequence, form: Reassociation | None) -> Self:
        """A search over another row of the same program, which is of a form of it."""
        return replace(
            self, row=row, form=form, _known={}, _segments={}, _worth={}, _left_out=set(), _least_s={}, _timed_count=0,
            _retimed_stages=set(), _timed_ways=[],
        )  # fmt: skip

    def settled(self, limit_s: float, known_s: float) -> float:
        """Gives kernels the seconds that they take as they are written, in place of the ideal model's, until those of
        the quickest way have them; what it takes, infinite where that is not below `limit_s`, or nothing is written, or
        where it is not below `known_s` before: what another way takes as far as is known of both. Infinite too where
        more than `WRITTEN` kernels for each stage were written and took longer."""
        option = self.chosen(min(limit_s, known_s))
        if not option or self.total(option) >= known_s:
            return math.inf
        left = WRITTEN * len(self.row.stages)
        while left > 0 and (option := self.chosen(limit_s)) and self.total(option) < limit_s:
            todo = [span for span in option if not self._has_emitted_seconds(span)]
            if not todo:
                return self.total(option)
            for span in todo:
                self._time_emitted(span)
            left -= len(todo)
            self._forget()
        return math.inf

    def _has_emitted_seconds(self, span: Span) -> bool:
        """Whether the seconds of a kernel are those that it takes as it is written, or there is none."""
        found = self._class_of(span)[0].schedules
        return not isinstance(found, list) or found[0].times_emitted

    def kernels(self, option: tuple[Span, ...]) -> list[DerivedKernel]:
        """The kernels of a way, each proved. Raises what the first has that does not fit, or was not proved."""
        while True:
            for span in option:
                if isinstance(found := self.schedules(span), CatdiagError):
                    raise found
            fitted = self._fitted(option)
            kernels = None if fitted is None else self._derived(option, fitted)
            if kernels is not None:
                return kernels

    def _fitted(self, option: tuple[Span, ...]) -> list[NamedKernel] | None:
        """Each kernel of a way as it is written, under symbols of its own, before it is proved; None where one does not
        fit so, which is left out then."""
        taken = sizes_in(self.row.diagram) | self.equal.symbols()
        found: list[NamedKernel] = []
        for span in option:
            known = self._class_of(span)[0]
            if known.made is None:
                try:
                    known.made = self._kernel(known, taken, len(found) + 1, len(option) == 1), known.names
                except (*REFUSED, DoesNotFit, NotFusable) as error:
                    self._drop(known, error)
                    return None
            taken |= sizes_in(known.made[0].diagram)
            found.append(known.made)
        return found

    def _derived(self, option: tuple[Span, ...], fitted: Sequence[NamedKernel]) -> list[DerivedKernel] | None:
        """Each kernel of a way proved; None where one was not, which is left out then, or only in another form."""
        found: list[DerivedKernel] = []
        for span, made in zip(option, fitted, strict=True):  # others may have been looked at since
            known = self._class_of(span)[0]
            if known.made is None or known.made[0].schedule.draft is not made[0].schedule.draft:
                known.made = made
        for number, (span, made) in enumerate(zip(option, fitted, strict=True), 1):
            known, names = self._class_of(span)
            while known.made is None or not known.made[0].proved:
                makes = ", ".join(self.row.names[w] for w in self.row.segment(*span).makes)
                self.target.report(f"proving kernel {number} of {len(option)}, which makes {makes}")
                taken = sizes_in(self.row.diagram) | self.equal.symbols()
                draft = None if known.made is None else known.made[0].schedule.draft
                try:
                    own = self._kernel(known, taken, number, False) if known.made is None else known.made[0]
                    known.made = (own if own.proved else self._proved(known, own, taken, number)), known.names
                except (*REFUSED, DoesNotFit, NotFusable) as error:
                    known.made = None
                    if isinstance(known.schedules, list) and draft in (None, known.schedules[0].draft):
                        self._drop(known, error)
                    if not self._take_refused or not isinstance(known.schedules, list):
                        return None
            if known.made[0].plan is not made[0].plan and not self._take_refused:
                return None  # it is written in another form, which may take longer
            kernel = known.kernel(names, self.row.segment_diagram(*span), self.target_of(span))
            assert kernel is not None
            found.append(kernel)
        return found

    def _kernel(self, known: SegmentClass, taken: set[str], number: int, alone: bool) -> DerivedKernel:
        """The quickest schedule of a segment as it is written, proved where it is alone. Raises REFUSED, DoesNotFit,
        NotFusable."""
        piece, options = known.diagram, known.schedules
        assert isinstance(options, list)
        draft = options[0].draft
        if known.refused is not None and known.without_proof:
            return self._emitted(known, draft.diagram, None, taken, number)
        if alone:
            derivation = draft.derivation(piece, self.ask)
            return self._emitted(known, piece if derivation is None else derivation.diagram, derivation, taken, number)
        return self._emitted(known, draft.kernel_of(piece), None, taken, number)

    def _emitted(
        self, known: SegmentClass, diagram: Diagram, derivation: Derivation | None, taken: set[str], number: int
    ) -> DerivedKernel:
        """The quickest schedule of a segment as a diagram, which has a derivation where it is proved, written under
        symbols that are not taken. Raises DoesNotFit, NotFusable."""
        piece, target, options = known.diagram, known.target, known.schedules
        assert isinstance(options, list)
        chosen = options[0]
        why = known.refused[1] if known.refused is not None and known.without_proof else ""
        fresh = fresh_tiles(diagram, taken, number)
        if derivation is not None:
            derivation = self._with_tiles(piece, derivation, fresh)
        diagram = derivation.diagram if derivation is not None else resized(diagram, fresh) if fresh else diagram
        if chosen.called:
            plan = CALLED_PLANS[chosen.called](piece, target)
        else:
            same = derivation is None and not fresh
            plan = emitted_plan(chosen, known) if same else fit(diagram, target.chip, chosen.sizes, **target.options())
            if chosen.draft.split and all(plan.tiles.get(parts, 1) == 1 for parts in parts_by_block(diagram).values()):
                raise NotFusable(f"{piece.title} is quickest in one part")
        done = derivation is not None or bool(why) or not chosen.draft.actions
        return DerivedKernel(chosen, derivation, diagram, plan, why, done, fresh)

    def _proved(self, known: SegmentClass, kernel: DerivedKernel, taken: set[str], number: int) -> DerivedKernel:
        """A kernel with its proof, in one if there is one, else step by step: then it may have another form. Raises
        REFUSED, DoesNotFit, NotFusable."""
        piece, draft = known.diagram, kernel.schedule.draft
        theorem = proved(self.ask, piece, kernel.diagram, False)
        if theorem is not None:
            start = Derivation.start(piece, self.ask)
            made = start.then(Scheduled(draft.actions), kernel.diagram, theorem, ungrouped=None)
            return replace(kernel, derivation=made, proved=True)
        derivation = draft.derivation(piece, self.ask)
        assert derivation is not None, "what is not proved has loops or groups"
        if resized(derivation.diagram, kernel.fresh).graph == kernel.diagram.graph:
            derivation = self._with_tiles(piece, derivation, kernel.fresh)
            return replace(kernel, derivation=derivation, diagram=derivation.diagram, proved=True)
        return self._emitted(known, derivation.diagram, derivation, taken, number)

    def _with_tiles(self, piece: Diagram, derivation: Derivation, fresh: Mapping[str, str]) -> Derivation:
        """A derivation under other symbols for its tiles. Raises NotFusable where that is not proved."""
        if not fresh:
            return derivation
        renamed = resized(derivation.diagram, fresh)
        theorem = proved(self.ask, piece, renamed, True)
        if theorem is None:
            raise NotFusable(f"{piece.title} was not proved under other names of its tiles")
        return derivation.then(RenameTiles.of(fresh), renamed, theorem, ungrouped=None)

    def _retimed(self, option: tuple[Span, ...]) -> bool:
        """Gives kernels of a way the seconds that they take as they are written, in place of the ideal model's: all of
        them where torch's products are compared with them, else those that take `SLOWER` times as long, and what covers
        stages of these. Whether one has others than before."""
        changed = False
        gap_s = self.target.chip.kernel_gap_s
        for span in option:
            known = self._class_of(span)[0]
            if not isinstance(known.schedules, list) or known.schedules[0].called or known.schedules[0].times_emitted:
                continue
            first, *others = known.schedules
            try:
                seconds = schedule_seconds(first, known)
            except DoesNotFit as error:
                self._drop(known, error)
                changed = True
                continue
            except CatdiagError:  # whose plan is of the ideal model
                continue
            slower = seconds + gap_s > SLOWER * (first.seconds + gap_s)
            if not (slower or self.target.products == "quickest" or self._retimed_stages & set(range(*span))):
                continue
            self._retimed_stages |= set(range(*span)) if slower else set()
            changed = changed or seconds != first.seconds
            timer = replace(first, seconds=seconds, times_emitted=True)
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
                if not first.times_emitted and not first.called:
                    self._time_emitted(span)
                    found = True
        if found:
            self._timed_ways.append(option)
            self._forget()
        return found

    def _time_emitted(self, span: Span) -> None:
        """Gives the quickest schedule of a segment the seconds that it takes as it is written, or leaves it out."""
        known = self._class_of(span)[0]
        assert isinstance(known.schedules, list)
        first, *others = known.schedules
        try:
            seconds = schedule_seconds(first, known)
        except CatdiagError as error:
            self._drop(known, error)
            return
        timer = replace(first, seconds=seconds, times_emitted=True)
        known.schedules = sorted([timer, *others], key=lambda one: one.seconds)
        known.made = None

    def _emitted_s(self, span: Span) -> float:
        """The seconds of a kernel as it is written, those of the ideal model where it is not; infinite where it does
        not fit."""
        known = self._class_of(span)[0]
        if not isinstance(known.schedules, list):
            return math.inf
        first = known.schedules[0]
        try:
            return first.seconds if first.called else schedule_seconds(first, known)
        except CatdiagError:
            return first.seconds

    def _nearly_chosen(self) -> tuple[Span, ...]:
        """The way that is taken as far as is known, or one that is timed as it is written, where the former is not
        expected to be quicker by more than `NEARLY`."""
        option = self.chosen()
        ways = [(self.total(way), way) for way in self._timed_ways]
        seconds, way = min(ways, key=lambda one: one[0], default=(math.inf, ()))
        between_s = self.target.chip.kernel_gap_s * (len(option) - 1)
        return way if seconds < math.inf and seconds <= NEARLY * (sum(map(self.bound, option)) + between_s) else option

    def _is_emitted(self, span: Span) -> bool:
        """Whether a kernel can be written by its quickest schedule, or is called."""
        known = self._class_of(span)[0]
        return not isinstance(known.schedules, list) or _has_module(known.schedules[0], known)

    def _has_emitted_stages(self, span: Span) -> bool:
        """Whether a kernel has several stages, and of each a kernel can be written."""
        stages = [self._class_of((k, k + 1))[0] for k in range(*span)]
        for k, known in zip(range(*span), stages, strict=True):
            options = self.schedules((k, k + 1))
            if len(stages) == 1 or not isinstance(options, list) or not any(_has_module(o, known) for o in options):
                return False
        return True

    def _leave_unemitted(self, span: Span) -> None:
        """Leaves out the schedules of a kernel up to the quickest of which Triton's kernel can be written."""
        known = self._class_of(span)[0]
        if self._is_emitted(span):  # an equal kernel of the way was left out already
            return
        assert isinstance(known.schedules, list)
        refused = known.schedules[0].emitted_s
        assert isinstance(refused, CatdiagError)
        error = NotFusable(refused.message)
        known.made = None
        self._drop(known, error)
        while isinstance(known.schedules, list) and not _has_module(known.schedules[0], known):
            self._drop(known, error)

    def _drop(self, known: SegmentClass, error: CatdiagError) -> None:
        """Leaves out the quickest schedule of equal kernels."""
        if isinstance(known.schedules, list):
            if known.refused is None and isinstance(error, REFUSED):
                known.refused = known.schedules[0], error.message
            known.schedules = known.schedules[1:] or error
        if self._take_refused and known.schedules is error and known.refused is not None and not known.without_proof:
            known.schedules, known.without_proof = [known.refused[0]], True
