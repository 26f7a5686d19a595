"""Plans: where to cut a diagram so that it takes least predicted time on a chip.

The row of a diagram's stages (`catdiag.planner.graph_segments`) is cut into kernels of consecutive stages, each with
the schedule and tiles that are quickest for it (`catdiag.planner.kernel_candidates`). What a way takes is the sum over
its kernels, and the chip's `kernel_gap_s` between two. The least is a shortest path over the places to cut; a kernel is
looked at only where a path through what is known of the others, and through a bound for it, would be shortest. Of a
row that is not long one kernel of everything is looked at first, and taken where it is within 15% of the least. Nothing
is proved until a way has won: then each of its kernels, and that they mean the diagram together.

Where such a way spends much of its time to save arrays and to load them, ways that recompute them in each kernel that
reads them are compared with it (`catdiag.planner.recomputed_stages`), by the times of what is written.

The row is tried as stored, and depth first. Not among the ways: kernels of stages that do not follow each other.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from inspect import signature
from itertools import pairwise
from typing import Any, Literal

from catdiag.category.diagram import Diagram, HasDiagram
from catdiag.category.ops import GroupOp
from catdiag.chip import hardware as chips
from catdiag.chip.hardware import Hardware
from catdiag.planner.cut_search import MOST
from catdiag.planner.emitted_kernels import CALLED_PLANS, EmittedKernelSearch
from catdiag.planner.equal_segments import DerivedKernel, NamedKernel
from catdiag.planner.fit import fit
from catdiag.planner.fitted_configuration import together
from catdiag.planner.graph_segments import Span, StageSequence
from catdiag.planner.kernel_candidates import PlanTarget
from catdiag.planner.kernel_drafts import NotProvedTogether, cut, proved
from catdiag.planner.multi_kernel_plan import Plan, continued
from catdiag.planner.partition_alternative import PartitionAlternative
from catdiag.planner.plan import KernelPlan, spelled_out
from catdiag.planner.plan_request import FitOptions, check_cuts, check_sizes
from catdiag.planner.recomputed_stages import RecomputedStages, recomputed_rows, saves_more
from catdiag.prover.api import Interrupted
from catdiag.rewrite.contraction_order import Reassociation, equal_forms, form_by_terms, ordered
from catdiag.rewrite.derivation import Derivation, derivation_of
from catdiag.rewrite.distribute import distribute as distributed
from catdiag.rewrite.distribute import within_rounding
from catdiag.rewrite.integer_factors import cast_factors
from catdiag.rewrite.merge_axes import PRODUCT_TILE, merged_product
from catdiag.rewrite.split import runs_in_kernels
from catdiag.schedule.kernel_analysis import given_sizes
from catdiag.schedule.stored_types import output_bytes, output_names
from catdiag.solvers.z3 import Z3, shared
from catdiag.util.errors import CatdiagError, DoesNotFit, NotFusable, require

MORE_SAVED = 1.5
"""A way that recomputes arrays, and saves fewer bytes, is taken up to this factor of the time of one that saves an
array larger than all that the program reads and makes: such arrays, a score for each pair of tokens, say, grow faster
than what is given."""
REPLANNED_BELOW = 0.75
"""Forms are ranked by what their kernels take before they are written. A second form is planned where the first takes
longer as it is written, and the second is ranked at less than this part of that."""


def plan(
    subject: Diagram | HasDiagram | Derivation, hardware: Hardware | str, sizes: Mapping[str, int], **options: Any
) -> Plan:
    """How a program runs on a chip in the least predicted time, with proofs.

    What runs in loops or groups already is one kernel: its tiles, with the options of `catdiag.planner.fit.fit`
    (`dtype`, `stages`, fixed `tiles`, the `objective`, …). What runs in none is cut into kernels, each with its loops,
    groups and tiles, with the options of `searching` (`dtype`, `stages`, `cuts` at most, `several`); the plan is of
    what it was derived from, if it was. Raises CatdiagError for an option of the other kind, as these do, and
    NotFusable where nothing that fits was proved.

    >>> import catdiag as cd
    >>> found = plan(cd.library.get("matmul"), "H200", {"a": 4096, "b": 4096, "c": 4096})
    >>> [kernel.loops for kernel in found.kernels], found.saved
    (['stream b, group a c'], ())
    """
    derivation = derivation_of(subject)
    in_kernels = runs_in_kernels(derivation.diagram)
    of_fit = {*signature(fit).parameters, *FitOptions.__annotations__}
    of_cuts = {*signature(searching).parameters, *signature(ranked_forms).parameters}
    known, others = (of_fit, of_cuts) if in_kernels else (of_cuts, of_fit)
    if wrong := sorted(name for name in options if name in others - known):
        title = derivation.source.title or "the diagram"
        raise CatdiagError(
            f"{wrong[0]!r} is said of how a diagram is cut into kernels, and {title!r} runs in loops or groups "
            "already: expected a program before .stream(axis) and .group(axes)"
            if in_kernels
            else f"{wrong[0]!r} is said of a kernel, and {title!r} is not in loops or groups yet: "
            "expected a program after .stream(axis) or .group(axes)"
        )
    if unknown := sorted(options.keys() - known):
        expected = sorted(known - {"ask", "derivation", "diagram", "hardware", "options", "sizes"})
        raise CatdiagError(f"plan has no option {unknown[0]!r}: expected of {', '.join(expected)}")
    start = time.perf_counter()
    if in_kernels:
        found = Plan.of(derivation, fit(derivation, hardware, sizes, **options))
    else:
        found = _cut(derivation, hardware, sizes, **options)
    said = {"dtypes": options.get("dtype", "bf16"), "deterministic": options.get("deterministic", False)}
    return replace(found, seconds=time.perf_counter() - start, **said)


def _cut(derivation: Derivation, hardware: Hardware | str, sizes: Mapping[str, int], **options: Any) -> Plan:
    """The plan of the quickest form that has one, with a theorem if there is such a form."""
    problem: CatdiagError | None = None
    unproved: Plan | None = None
    for begun, search in ranked_forms(derivation, hardware, sizes, **options):
        try:
            found = continued(begun, search.plan())
        except Interrupted:
            raise
        except CatdiagError as error:
            problem = problem or error
            continue
        if not found.unproved:
            return found
        unproved = unproved or found
    if unproved is not None:
        return unproved
    assert problem is not None
    raise problem


def ranked_forms(
    derivation: Derivation,
    hardware: Hardware | str,
    sizes: Mapping[str, int],
    *,
    distribute: bool = True,
    **options: Any,
) -> list[tuple[Derivation, PartitionSearch]]:
    """A diagram that runs in no loops or groups and, with `distribute`, what it is with its squared distances as
    products, where rounding allows it (`within_rounding`): each with the search for its kernels, the quickest first.
    Factors that are small integers are cast to the type of the products (`catdiag.rewrite.integer_factors`).
    `options` are those of `searching`, whose errors are raised where nothing fits.

    >>> import catdiag as cd
    >>> near = cd.algorithm("q d, x d -> q")(lambda a, b: cd.min(cd.sum((a - b) ** 2, "d"), "x"))
    >>> forms = ranked_forms(near.derivation, "H200", {"q": 4096, "x": 4096, "d": 128})
    >>> [[step.name for step in begun.steps] for begun, _ in forms]
    [['distribute'], []]
    """

    def search(diagram: Diagram) -> PartitionSearch:
        return searching(diagram, hardware, sizes, ask=derivation.ask, **options)

    dtype = options.get("dtype", "bf16")
    derivation = cast_factors(derivation, dtype)
    form = within_rounding(derivation.diagram, dtype) if distribute else None
    if form is None:
        return [(derivation, search(derivation.diagram))]
    problem: CatdiagError | None = None
    found: list[tuple[Derivation, PartitionSearch]] = []
    for diagram in (derivation.diagram, form.diagram):
        try:
            begun = derivation if diagram is not form.diagram else distributed(derivation)
            found.append((begun, search(diagram)))
        except Interrupted:
            raise
        except CatdiagError as error:  # it does not fit, or is not proved: the other, then
            problem = problem or error
    if not found and problem is not None:
        raise problem
    return sorted(found, key=lambda way: way[1].rank_seconds())


def searching(
    diagram: Diagram,
    hardware: Hardware | str,
    sizes: Mapping[str, int],
    dtype: str | Mapping[str, str] = "bf16",
    stages: int | None = None,
    *,
    cuts: int | None = None,
    several: bool = False,
    products: Literal["triton", "torch", "quickest"] = "triton",
    deterministic: bool = False,
    ask: Z3 | None = None,
    progress: Callable[[str], object] | None = None,
) -> PartitionSearch:
    """The search for the kernels of a diagram that take the least predicted time on a chip, before anything is proved.

    `sizes` gives every axis, and integer inputs on which trip counts depend (the width of a window), without which no
    blocks are skipped that depend on them; `dtype` is the type of inputs, results and what is saved between kernels,
    but for statistics (fp32, or wider: see `catdiag.schedule.full_precision`), or those of inputs and results by name;
    `stages` the buffers of streamed blocks (left out: as many as are best for each kernel), `cuts` how many cuts there
    may be at most (0: one kernel). With `several` there is one at least: what each tile would compute anew is saved
    once, also where the model has one kernel for as quick. `products` says who computes products of two arrays in bf16
    or fp16: "triton", kernels that are written; "torch", which has them from cuBLAS, but for products of products that
    one kernel makes (attention); or, of a kernel that is a product and nothing else, "quickest", as is predicted. That
    torch computes a product is assumed, and said (`catdiag.planner.library_products`). Where it is to be
    `deterministic`, no scatter-adds are tried, whose order is not fixed; a launch with deterministic=True then adds in
    a fixed order. `progress` is called with each step in words: "proving kernel 2 of 7, which makes Q". Raises
    DoesNotFit where no way fits, with what the least of them would need; SizeError for sizes that are missing;
    CatdiagError for a diagram that runs in loops or groups already, and NotFusable for one without a box at work, and
    for `several` of one box.
    """
    if runs_in_kernels(diagram):
        raise CatdiagError("the diagram runs in loops or groups already: ask for its plan before it is derived")
    inputs = zip(diagram.input_names, diagram.dom, strict=True)
    integers = {name for name, ty in inputs if ty.element == "int" and not ty.axes} - given_sizes(diagram)
    scalars = {name: sizes[name] for name in sizes if name in integers}
    sizes = {name: sizes[name] for name in sizes if name not in integers}
    check_sizes(diagram, {**sizes, **scalars}, scalars)
    check_cuts(cuts, several)
    require(products in ("triton", "torch", "quickest"), "products", products, "'triton', 'torch' or 'quickest'")
    target = PlanTarget(chips.get(hardware), sizes, dtype, stages, scalars, products, deterministic, progress)
    solver = ask or shared()
    arranged = partial(merged_product, sizes=sizes, enough=target.chip.sms * PRODUCT_TILE)
    row_of = partial(StageSequence, arranged=arranged)
    row = row_of(diagram)
    if not row.stages:
        raise NotFusable(f"{diagram.title or 'the diagram'} has no box at work: there is nothing to plan")
    search = PartitionSearch(row, target, solver, cuts, None, several)

    def other(row: StageSequence, form: Reassociation | None = None) -> PartitionSearch:
        return PartitionSearch(row, target, solver, cuts, form, several, search.equal)

    forms = [other(row_of(form.diagram), form) for form in equal_forms(diagram, sizes)]
    if terms := form_by_terms(diagram, sizes):
        forms.append(other(row_of(terms.diagram), terms))
    forms += map(other, row.reordered(MOST))
    rows = [(one.row.copied(sizes), one.form) for one in (search, *forms)]
    forms += [other(copied, form) for copied, form in rows if copied is not None]
    tried = [] if search.has_misfit_stage() else [search]  # a layer as a named box, say
    ranks: list[tuple[float, PartitionSearch]] = []
    for one in (*tried, *forms):
        ranks.append((one.rank_seconds(min((seconds for seconds, _ in ranks), default=math.inf)), one))
    found = [one for seconds, one in sorted(ranks, key=lambda rank: rank[0]) if seconds < math.inf]
    for better, worse in pairwise(found):
        better.otherwise = worse
    if found:
        return found[0]
    # Named boxes are opened only where nothing fits else.
    inner = row_of(diagram, opened=True)
    if len(inner.stages) > len(row.stages):
        further = PartitionSearch(inner, target, solver, cuts, multi_kernel=several)
        if further.chosen():
            return further
    raise search.misfit()


@dataclass
class PartitionSearch(EmittedKernelSearch):
    """The search over the ways to cut one row of stages, and what it takes to prove the one that is taken."""

    otherwise: PartitionSearch | None = field(default=None, repr=False)
    """The search of the next best form."""
    _taken: tuple[Span, ...] = ()
    """The way that was planned."""

    def plan(self) -> Plan:
        """The quickest way that is proved, of the quickest form of the program of which there is one, as they are
        written. Of forms after the first those are compared that are ranked at less than `REPLANNED_BELOW` of what
        others take. Where there is none, what is not proved is named. Raises DoesNotFit, and NotFusable."""
        forms = [self]
        while (other := forms[-1].otherwise) is not None:
            forms.append(other)
        waiting: list[tuple[float, int]] = []  # forms by the seconds that their quickest ways take as they are written
        begun = 0
        found: Plan | None = None
        best: tuple[Plan, PartitionSearch] | None = None
        problem: CatdiagError | None = None
        while True:
            known = [seconds for seconds, _ in waiting] + ([] if best is None else [best[0].time_s])
            limit_s = REPLANNED_BELOW * min(known, default=math.inf)
            if begun < len(forms) and (not known or forms[begun].rank_seconds(limit_s) < limit_s):
                waiting.append((forms[begun]._written_s(), begun))
                begun += 1
                continue
            if not waiting or (best is not None and best[0].time_s <= min(waiting)[0]):
                break
            waiting.remove(least := min(waiting))
            form = forms[least[1]]
            self.equal.release()
            try:
                made = form._plan()
            except Interrupted:
                raise
            except CatdiagError as error:
                problem = problem or error
                continue
            if made.unproved:
                found = found or made
            elif best is None or made.time_s < best[0].time_s:
                best = made, form
        if best is not None:
            return best[1].recomputed(best[0])
        if found is not None:
            return found
        for form in forms:
            if form._without_proofs():
                return form._plan()
        assert problem is not None
        raise problem

    def recomputed(self, found: Plan) -> Plan:
        """A plan in which arrays are recomputed that `found`, the plan of this search, saves; or that plan, where it is
        quicker (see `MORE_SAVED`). Both are compared as they are written."""
        if self.target.products != "triton":
            return found
        saved = {w for _, end in self._taken[:-1] for w in self.row.crossing(end)}
        rows: list[tuple[RecomputedStages, Reassociation | None]] = [
            (row, self.form) for row in recomputed_rows(self.row, saved, found.time_s, self.target)
        ]
        masks = any(self.row.free[w] and ty.element == "bool" for w, ty in enumerate(self.row.types))
        merged = self.form is not None and bool(self.form.action.merged)
        for row, form in rows if merged and masks else ():  # loops over merged axes skip no masked blocks
            assert form is not None
            plain = replace(row, diagram=form.source)
            if all(other is not None or made.checkpoints != plain.checkpoints for made, other in rows):
                rows = [*rows, (plain, None)]
        factor = MORE_SAVED if saves_more(self.row, saved, self.target) else 1
        limit, known_s = factor * found.time_s, factor * self.total(self._taken)
        others = [replace(self.over(row, form), otherwise=None) for row, form in rows]
        timed: list[tuple[float, int]] = []
        for k, other in enumerate(others):  # what does not pay with separate axes does not with merged ones
            vain = [
                m for seconds, m in timed if math.isinf(seconds) and rows[m][0].checkpoints == rows[k][0].checkpoints
            ]
            timed.append((math.inf if vain else other.settled(limit, known_s), k))
        for seconds, k in sorted(timed):
            if math.isinf(seconds):
                break
            try:
                made = others[k]._plan()
            except Interrupted:
                raise
            except CatdiagError:
                continue
            spares = sum(size for _, size in made.saved) < sum(size for _, size in found.saved)
            allowed = limit if spares else found.time_s
            if not made.unproved and made.time_s < allowed and (made.module or not found.module):
                names = tuple(name for name, _ in found.saved)
                instead = PartitionAlternative(
                    len(found.kernels), names, found.time_s, "", found.flops, found.bytes_moved
                )
                return replace(made, alternatives=(*made.alternatives, instead))
        return found

    def _written_s(self) -> float:
        """The seconds of the quickest way as it is written, before it is proved; infinite where there is none."""
        while option := self._nearly_chosen():
            if not (self._timed_again(option) or self._retimed(option)):
                return sum(map(self._emitted_s, option)) + self.target.chip.kernel_gap_s * (len(option) - 1)
        return math.inf

    def _plan(self) -> Plan:
        """The quickest way whose kernels are proved; that they mean the program together may not be. It is of those
        of which a module can be written, if there is one. Raises DoesNotFit, and NotFusable."""
        quickest: tuple[tuple[Span, ...], list[NamedKernel]] | None = None
        while option := self._nearly_chosen():
            if self._timed_again(option) or self._retimed(option):
                continue
            unemitted = [span for span in option if not self._is_emitted(span)]
            replaced = unemitted and self.max_cuts != 0 and all(map(self._has_emitted_stages, unemitted))
            kernels = self._fitted(option) if quickest is None or not replaced else quickest[1]
            if kernels is None:
                continue
            quickest = quickest or (option, kernels)
            if replaced:
                for span in unemitted:
                    self._leave_unemitted(span)
                continue
            for way in (quickest, (option, kernels)) if unemitted else ((option, kernels),):
                proved_ones = self._derived(*way)
                if proved_ones is not None:
                    return self._planned(way[0], proved_ones)
            quickest = None
        if quickest is not None and (left := self._derived(*quickest)) is not None:
            return self._planned(quickest[0], left)
        raise self.misfit()

    def _without_proofs(self) -> bool:
        """Takes schedules that were not proved where nothing else is left; False where there are none."""
        left = [c for c in self._known.values() if c.refused is not None and not isinstance(c.schedules, list)]
        for known in left:
            assert known.refused is not None
            known.schedules, known.without_proof = [known.refused[0]], True
        self._take_refused = True
        self._forget()
        return bool(left)

    def _planned(self, option: tuple[Span, ...], kernels: list[DerivedKernel]) -> Plan:
        row, self._taken = self.row, option
        source = row.diagram if self.form is None else self.form.source
        unproved: tuple[str, ...] = ()
        single = kernels[0].derivation if len(option) == 1 and not row.copies else None
        if single is not None and any(isinstance(box.op, GroupOp) for box in single.diagram.boxes):
            derivation = single if self.form is None else self._about(self.form, single)
        else:
            parts = (
                (span, made.diagram, None if made.derivation is None else made.derivation.theorem)
                for span, made in zip(option, kernels, strict=True)
            )
            given = [f"kernel {k}: {made.unproved}" for k, made in enumerate(kernels, 1) if made.unproved]
            self.target.report(f"proving that the {len(option)} kernels mean {source.title or 'the diagram'} together")
            try:
                derivation = cut(row, parts, self._saved(option), source, self.ask, self.form, given)
            except NotProvedTogether as error:
                derivation, unproved = Derivation.start(error.kernels, self.ask), error.reasons
        names_of = dict(zip(row.graph.outputs, output_names(row.diagram), strict=True))
        found: list[KernelPlan] = []
        saved: list[tuple[str, int]] = []
        for span, made in zip(option, kernels, strict=True):
            segment, target = row.segment(*span), self.target_of(span)
            results = [w in row.graph.outputs for w in segment.makes]
            array_bytes = output_bytes(segment.diagram, target.dtype, target.sizes, results)
            makes = tuple((names_of.get(w, row.names[w]), n) for w, n in zip(segment.makes, array_bytes, strict=True))
            found.append(
                replace(
                    made.plan,
                    source=segment.diagram,
                    loops=str(made.schedule),
                    derivation=made.derivation,
                    reads=tuple(row.names[w] for w in segment.reads),
                    makes=makes,
                )
            )
            crossing = {row.root[w] for w in row.crossing(span[1])} if span[1] < self.full_span[1] else set()
            saved += [made_here for w, made_here in zip(segment.makes, makes, strict=True) if row.root[w] in crossing]
        module, reason = (
            (None, f"not proved: {'; '.join(unproved)}")
            if unproved
            else together(derivation.diagram, [made.plan for made in kernels], self.target.dtype)
        )
        return Plan(
            derivation,
            tuple(found),
            spelled_out(self.target.dtype),
            tuple(saved),
            tuple(self.alternatives(option)),
            module,
            reason,
            unproved=unproved,
            written_source=source if unproved else None,
        )

    def _saved(self, option: tuple[Span, ...]) -> tuple[str, ...]:
        return self.row.saved(end for _, end in option[:-1])

    def _about(self, form: Reassociation, made: Derivation) -> Derivation:
        """One kernel of another form of a diagram, as one of the diagram itself. Raises NotFusable."""
        about = ordered(Derivation.start(form.source, self.ask), form)
        for step in made.steps:
            theorem = proved(self.ask, form.source, step.diagram, True)
            if theorem is None:
                title = form.source.title or "it"
                raise NotFusable(f"{title} was not proved to be what came of it by {str(step.action)!r}")
            about = about.then(step.action, step.diagram, theorem, ungrouped=None)
        return about

    def alternatives(self, option: tuple[Span, ...]) -> Iterator[PartitionAlternative]:
        """One kernel of everything, where it was not taken; else the best of several."""
        if len(option) > 1 and self._whole_is_tried():
            found = self.schedules(self.full_span)
            if isinstance(found, CatdiagError):
                yield PartitionAlternative(1, (), None, found.message)
            else:
                yield self._alternative((self.full_span,))
        other = self.shortest_path(several=True)[1]
        if other and other != option:
            yield self._alternative(other)

    def _alternative(self, option: tuple[Span, ...]) -> PartitionAlternative:
        gaps_s = self.target.chip.kernel_gap_s * (len(option) - 1)
        seconds, flops, moved, recomputed = gaps_s, 0, 0, list[str]()
        saved = self._saved(option)
        for span in option:
            options = self.schedules(span)
            assert not isinstance(options, CatdiagError)
            chosen, known = options[0], self._class_of(span)[0]
            target = known.target
            try:
                if known.made is not None and known.made[0].schedule.draft is chosen.draft:
                    made = known.made[0].plan
                else:
                    made = (
                        CALLED_PLANS[chosen.called](known.diagram, target) if chosen.called
                        else fit(chosen.draft.diagram, target.chip, chosen.sizes, **target.options())
                    )  # fmt: skip
            except DoesNotFit as error:
                return PartitionAlternative(len(option), saved, None, error.message)
            seconds, flops, moved = seconds + made.time_s, flops + made.flops, moved + made.bytes_moved
            recomputed += chosen.recomputed
        return PartitionAlternative(len(option), saved, seconds, "", flops, moved, tuple(dict.fromkeys(recomputed)))
