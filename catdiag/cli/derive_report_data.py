"""`catdiag derive`: rewrites an operator, proves each step, and computes the costs of the result.

`derive` does the work and returns a `Report`, which prints itself and converts itself to plain data.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from catdiag.category.diagram import Diagram
from catdiag.cli.derive_report import PlanOutcome, Report
from catdiag.cli.option_values import Products
from catdiag.rewrite.split import runs_in_kernels
from catdiag.util.errors import CatdiagError, DoesNotFit, NotDistributable, NotFusable

if TYPE_CHECKING:
    from catdiag.chip.hardware import Hardware
    from catdiag.cost.traffic import IO
    from catdiag.optimum.minimize import Optimum
    from catdiag.planner.derivation_search import RefusedAxis, StrategyCandidate
    from catdiag.planner.multi_kernel_plan import Plan
    from catdiag.planner.partition import PartitionSearch
    from catdiag.rewrite.derivation import Derivation
    from catdiag.solvers.z3 import Z3


@dataclass(frozen=True)
class DeriveTarget:
    """The chip, the sizes and the element type that a plan is for. With `stages` None the plan chooses the pipeline
    stages. `products` says who computes products ("triton", "torch" or "quickest"), `deterministic` that rows are added
    in a fixed order: see `catdiag.planner.partition.searching`.

    `scalars` are the values of scalar inputs: the trip counts of loops that skip blocks depend on them.
    """

    hardware: Hardware
    sizes: Mapping[str, int]
    dtype: str = "bf16"
    stages: int | None = None
    scalars: Mapping[str, int] = field(default_factory=dict)
    products: Products = "triton"
    deterministic: bool = False
    progress: Callable[[str], object] | None = field(default=None, repr=False, compare=False)


@dataclass(frozen=True)
class DeriveRequest:
    """How a diagram is derived: the axis to stream and the axes to group, where not the best.

    A stream may take up to `passes` loops. Loops over the axes in `split` then run in parts (split-K), and loops over
    the axes in `skip` skip the blocks that a mask empties. With `distribute`, products are distributed over sums along
    these axes first (no axes: any); without, they may be where rounding allows it, unless `may_distribute` is False.
    A diagram is cut into kernels by at most `cuts` cuts (None: any number), into
    `several` if that is requested. With `theorems`, all claims about the loops are proved, else only that exponentials
    do not overflow. With `whole`, the report prints its pseudocode however long it is.
    """

    stream: str | None = None
    group: Sequence[str] | None = None
    passes: int = 1
    split: Sequence[str] = ()
    skip: Sequence[str] = ()
    distribute: Sequence[str] | None = None
    cuts: int | None = 0
    several: bool = False
    theorems: bool = False
    whole: bool = False
    may_distribute: bool = True

    @property
    def is_cut(self) -> bool:
        """Whether the diagram may be cut into kernels: no rewrites of a single one are requested."""
        return self.stream is None and self.group is None and not self.split and not self.skip and self.passes == 1


_BEST = DeriveRequest()


def derive(diagram: Diagram, ask: Z3, target: DeriveTarget | None = None, request: DeriveRequest = _BEST) -> Report:
    """Derives the diagram as requested, and computes its costs.

    With a target, and where the request allows it, the diagram is cut into kernels if several kernels take less time,
    if one does not fit, if several are requested, or if torch may compute products (`catdiag.planner.partition`). The
    report is then of what the plan derived. Distributing products is done where it is quicker and rounding allows it,
    and offered where it is not requested and predicted to pay.

    The best is that of least predicted time, or of least memory without a target. Raises NotStreamable or NotGroupable
    for a requested axis that cannot be streamed or grouped, AxisError for an unknown one. If nothing fits, the report
    has the error that says so in place of a plan.

    >>> from catdiag.library.diagrams import get
    >>> from catdiag.solvers.z3 import Z3
    >>> with Z3() as ask:
    ...     report = derive(get("sum_of_squares"), ask)
    >>> [step.name for step in report.derivation.steps]
    ['stream x', 'group q']
    """
    from catdiag.bounds.lower_bound import lower_bound
    from catdiag.cost.traffic import io as count
    from catdiag.planner.derivation_search import best
    from catdiag.rewrite.advice import stability_of
    from catdiag.rewrite.derivation import Derivation
    from catdiag.rewrite.distribute import distribute
    from catdiag.rewrite.loop_laws import verdicts
    from catdiag.rewrite.steps import Distribute

    start = time.perf_counter()
    begun = Derivation.start(diagram, ask)
    begun = begun if request.distribute is None else distribute(begun, request.distribute or None)
    found = _candidates(begun, target, request)
    chosen = best(found.tried)
    derivation = _split_and_skipped(chosen.derivation, request)
    counted, worth = derivation, chosen.worth
    try:
        io = count(derivation.diagram)
        if target is not None and derivation is not chosen.derivation:
            worth = planned_for(derivation, replace(target, sizes={**target.sizes, **target.scalars}))
    except CatdiagError:  # split loops that skip blocks, in diagrams of several kernels
        counted, io = chosen.derivation, count(chosen.derivation.diagram)
    return Report(
        source=diagram,
        chosen=chosen,
        derivation=derivation,
        stability=stability_of(derivation),
        verdicts=verdicts(derivation.diagram, derivation.claims()) if request.theorems else {},
        others=tuple(attempt for attempt in found.tried if attempt is not chosen),
        refused=tuple(found.refused),
        io=io,
        counted=counted,
        worth=worth,
        optimum=_optimum(io),
        bound=lower_bound(counted.operations, io.capacity),
        seconds=time.perf_counter() - start,
        full_proof=request.whole,
        instead=found.instead,
        offers=()
        if any(isinstance(step.action, Distribute) for step in derivation.steps)
        else _offers(diagram, target, worth),
    )


@dataclass(frozen=True)
class _Candidates:
    """The derivations that were tried, the axes that were refused, and what other cuts into kernels would take."""

    tried: Sequence[StrategyCandidate[PlanOutcome]]
    refused: Sequence[RefusedAxis]
    instead: tuple[str, ...]


def _candidates(begun: Derivation, target: DeriveTarget | None, request: DeriveRequest) -> _Candidates:
    """The ways to derive a diagram, as several kernels and as one."""
    from catdiag.planner.cut_search import CLOSE
    from catdiag.planner.derivation_search import PAYS, RefusedAxis, StrategyCandidate, attempts, best, memory

    may_distribute = request.distribute is None and request.may_distribute

    def planned(derivation: Derivation) -> PlanOutcome:
        if target is None:
            return PlanOutcome(measure=memory(derivation))
        return planned_for(derivation, target, may_distribute)

    search: PartitionSearch | None = None
    found: Plan | None = None
    if target is not None and request.is_cut:
        begun, search = _searched(begun, target, request)
    if search is not None and target is not None and (len(search.chosen()) > 1 or target.products != "triton"):
        found = _plan(search, begun)
    instead: tuple[str, ...] = ()
    tried, refused = list[StrategyCandidate[PlanOutcome]](), list[RefusedAxis]()
    if found is None:
        pays = PAYS if target is not None else 0.0
        tried, refused = attempts(
            begun, begun.ask, planned, stream=request.stream, group=request.group, pays=pays, passes=request.passes
        )
        tried = [_as_planned(attempt) for attempt in tried]
        one = best(tried).worth.measure
        if search is not None and search.total(search.chosen()) * CLOSE < one:
            found = _plan(search, begun)
        taken = best(tried).worth.plan
        if search is not None and found is None and taken is not None and not taken.alternatives:
            instead = tuple(f"{r.name}: {r.against(one)}" for r in search.alternatives((search.full_span,)))
    if found is not None:
        tried = [StrategyCandidate(None, found.derivation, PlanOutcome(found, measure=found.time_s)), *tried]
    return _Candidates(tried, refused, instead)


def _as_planned(attempt: StrategyCandidate[PlanOutcome]) -> StrategyCandidate[PlanOutcome]:
    """A way with the derivation of its plan: the plan derives a kernel from what runs in no loops or groups."""
    found = attempt.worth.plan
    return attempt if found is None else replace(attempt, derivation=found.derivation)


def _split_and_skipped(derivation: Derivation, request: DeriveRequest) -> Derivation:
    """The derivation with the loops split and the blocks skipped that are requested."""
    from catdiag.rewrite.skip import skip
    from catdiag.rewrite.stream.streaming import split

    for axis in request.split:
        derivation = split(derivation, axis)
    for axis in request.skip:
        derivation = skip(derivation, axis)
    return derivation


def _searched(
    begun: Derivation, target: DeriveTarget, request: DeriveRequest
) -> tuple[Derivation, PartitionSearch | None]:
    """The quickest form of a diagram, and the ways to cut it into kernels; None if nothing fits however it is cut, or
    if nothing is to be cut."""
    from catdiag.planner.partition import ranked_forms

    if runs_in_kernels(begun.diagram):
        return begun, None
    try:
        return ranked_forms(
            begun,
            target.hardware,
            target.sizes,
            distribute=request.distribute is None and request.may_distribute,
            dtype=target.dtype,
            stages=target.stages,
            cuts=request.cuts,
            several=request.several,
            products=target.products,
            deterministic=target.deterministic,
            progress=target.progress,
        )[0]
    except (DoesNotFit, NotFusable):
        return begun, None


def _plan(search: PartitionSearch, begun: Derivation) -> Plan | None:
    """The plan of the way that is taken, derived from what was begun with; None where it was not proved."""
    from catdiag.planner.multi_kernel_plan import continued

    try:
        return continued(begun, search.plan())
    except (NotFusable, DoesNotFit):
        return None


def _offers(diagram: Diagram, target: DeriveTarget | None, worth: PlanOutcome) -> tuple[str, ...]:
    """Rewrites that are predicted to take much less time, and that are done only on request, since they change
    rounding; or why that is not known."""
    from catdiag.planner import kernel_candidates
    from catdiag.planner.derivation_search import PAYS
    from catdiag.rewrite.distribute import CANCELS, expanded

    if target is None:
        return ()
    try:
        found = expanded(diagram)
    except NotDistributable:
        return ()
    what = "sums multiplied out (--distribute any)"
    try:
        model = kernel_candidates.PlanTarget(
            target.hardware, {**target.sizes, **target.scalars}, target.dtype, target.stages
        )
        seconds = kernel_candidates.timed_schedules(found.diagram, model)[0].seconds
    except DoesNotFit:
        return ()
    except CatdiagError as error:
        return (f"the time of {what} is not predicted: {error.message}",)
    if seconds >= PAYS * worth.measure:
        return ()
    part = "where this does not fit" if math.isinf(worth.measure) else f"{seconds / worth.measure:.2g} times the time"
    said = f"{what} are predicted to take {seconds * 1e6:,.0f} µs, {part}"
    return (f"{said}; {CANCELS}" if found.cancels else said,)


def _optimum(io: IO) -> Optimum | str:
    """The optimum, or the reason why there is none."""
    try:
        return io.optimum()
    except ValueError as error:
        return f"no closed form: {error}"


def planned_for(derivation: Derivation, target: DeriveTarget, may_distribute: bool = True) -> PlanOutcome:
    """The plan as one kernel, or the reason why there is none."""
    from catdiag.planner.partition import plan

    uncut: dict[str, Any] = {"cuts": 0, "products": target.products, "distribute": may_distribute}
    uncut["deterministic"] = target.deterministic
    if runs_in_kernels(derivation.diagram):
        uncut = {}
    try:
        found = plan(derivation, target.hardware, target.sizes, dtype=target.dtype, stages=target.stages, **uncut)
    except DoesNotFit as error:
        return PlanOutcome(misfit=error)
    except CatdiagError as error:
        return PlanOutcome(misfit=DoesNotFit(error.message, error.line))
    return PlanOutcome(plan=found, measure=found.time_s)
