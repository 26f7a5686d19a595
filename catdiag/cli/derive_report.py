"""The report of `catdiag derive`: the same facts as text for people and as plain data for programs."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property
from typing import TYPE_CHECKING, Any

from catdiag.category.diagram import Diagram, interface
from catdiag.category.types import BYTES
from catdiag.cli.exit_status import NothingDerived, own_lines
from catdiag.rewrite.split import runs_in_kernels
from catdiag.util.errors import DoesNotFit

if TYPE_CHECKING:
    from catdiag.bounds.lower_bound import BoundTerm, LowerBound
    from catdiag.cost.traffic import IO
    from catdiag.optimum.minimize import Optimum
    from catdiag.planner.derivation_search import RefusedAxis, StrategyCandidate
    from catdiag.planner.multi_kernel_plan import Plan
    from catdiag.planner.plan import KernelPlan
    from catdiag.prover.api import Theorem
    from catdiag.rewrite.claims import Verdict
    from catdiag.rewrite.derivation import Derivation, Step
    from catdiag.rewrite.loop_state import StateFormulas
    from catdiag.rewrite.stability import Stability


_TERMS = 3
"""Of a lower bound so many terms are printed beside the compulsory one."""
_LINES = 25
"""Lines of pseudocode up to which it is printed by default."""


@dataclass(frozen=True)
class PlanOutcome:
    """The plan of a derivation, or the reason why there is none, and the measure by which derivations are compared: the
    least is chosen."""

    plan: Plan | None = None
    misfit: DoesNotFit | None = None
    measure: float = math.inf

    def __float__(self) -> float:
        return self.measure


@dataclass(frozen=True)
class Report:
    """A derivation with all that was found about it.

    `derivation` is the chosen one, with split loops or skipped blocks if that was requested. `counted` is the
    derivation whose costs are counted and, as `worth` says, that is planned: the same one, or the chosen one before
    splitting and skipping.
    """

    source: Diagram
    chosen: StrategyCandidate[PlanOutcome]
    derivation: Derivation
    others: tuple[StrategyCandidate[PlanOutcome], ...]
    refused: tuple[RefusedAxis, ...]
    io: IO
    counted: Derivation
    worth: PlanOutcome
    optimum: Optimum | str
    bound: LowerBound
    stability: Stability
    verdicts: Mapping[str, Verdict] = field(default_factory=dict)
    seconds: float = field(compare=False, default=0.0)
    full_proof: bool = False
    """Whether the pseudocode is printed however long it is."""
    instead: tuple[str, ...] = ()
    """Of a plan of one kernel, what other ways would take."""
    offers: tuple[str, ...] = ()
    """What was not asked for and would pay."""

    @property
    def plan(self) -> Plan | None:
        """The plan, if a chip was given and something fits."""
        return self.worth.plan

    @property
    def kernels(self) -> tuple[KernelPlan, ...]:
        """The plans of its kernels, where there are several."""
        return self.plan.kernels if self.plan is not None and len(self.plan.kernels) > 1 else ()

    @property
    def not_proved(self) -> tuple[str, ...]:
        """What was not proved of a plan of several kernels, each with the reason: `kernel 4: …`."""
        return () if self.plan is None else self.plan.unproved

    @property
    def proved(self) -> bool:
        """Whether there is a theorem about what was derived."""
        return bool(self.derivation.steps) and not self.not_proved

    @property
    def theorem(self) -> Theorem:
        """The theorem that the source means the same as what was derived: the loops, or the kernels of the plan.

        Raises NotFusable where that is not proved of the kernels, naming them, and NothingDerived where nothing was
        derived.
        """
        if self.not_proved and self.plan is not None:
            return self.plan.theorem
        if not self.derivation.steps:
            raise NothingDerived(
                "the program runs in loops or groups as it is written: nothing was derived, so there is no theorem"
                if runs_in_kernels(self.source)
                else "no axis can be streamed or grouped, so there is no theorem"
            )
        return self.derivation.theorem

    @property
    def misfit(self) -> DoesNotFit | None:
        """Why there is no plan, if a chip was given and nothing fits."""
        return self.worth.misfit

    @cached_property
    def formulas(self) -> StateFormulas:
        """The formulas of its loops' states."""
        from catdiag.rewrite.loop_state import formulas

        return formulas(self.derivation.diagram)

    @cached_property
    def pseudocode(self) -> str:
        """Its loops and groups as pseudocode."""
        from catdiag.codegen.pseudocode import pseudocode

        return pseudocode(self.derivation.diagram)

    # -- text ------------------------------------------------------------------------------------

    def lines(self) -> Iterator[tuple[str, bool]]:
        """The text, line by line, each with whether it is a heading."""
        yield type_of(self.source), True
        yield from _section("Derivation", self._derivation())
        if self.formulas.loops:
            yield from _section(
                "State of the loop (step: ′ after the block; merge: ′ of the neighbour, ″ of both)",
                str(self.formulas).splitlines(),
            )
        if self.derivation.steps or self.kernels:
            yield from _section("Loops", self._loops())
        if self.verdicts:
            yield from _section("Theorems of the loops", self._verdicts())
        if self.stability.exponentials or self.stability.dropped:
            yield from _section("Exponentials", self._exponentials())
        yield from _section(f"Transfers H and memory M at the SMEM level, in {self.io.unit}", self._io())
        yield from _section(f"Optimum: the least H with {self.io.capacity} values of SMEM", self._optimum())
        yield from _section(
            f"Lower bound: what any schedule of the same operations moves, in {self.io.unit}", self._bound()
        )
        if self.plan is not None:
            also = (f"{'instead of' if not k else '':10} {words}" for k, words in enumerate(self.instead))
            yield from _section("Plan", [*str(self.plan).splitlines(), *also])
        for number, kernel in enumerate(self.kernels, 1):
            steps = () if kernel.derivation is None else kernel.derivation.steps
            proofs = (f"{step.name}, {step.theorem.verdict} in {step.theorem.seconds:.2f} s" for step in steps)
            yield from _section(f"Kernel {number}: {kernel.loops}", [*proofs, *str(kernel).splitlines()])
        yield "", False
        yield f"{self.seconds:.2f} s of computing, {self._proof_seconds():.2f} s of it for proofs", False

    def __str__(self) -> str:
        return "\n".join(line for line, _ in self.lines())

    def _derivation(self) -> Iterator[str]:
        from catdiag.rewrite.casts import advice

        for refused in self.refused:
            yield f"not streamed over {refused.axis}: {own_lines(refused.reason)}"
        for number, step in enumerate(self.derivation.steps, 1):
            yield f"{number}. {step.description}, {step.theorem.verdict} in {step.theorem.seconds:.2f} s"
            yield from _indented(self._theorem(step), 3)
            if step.note:
                yield f"   note: {step.note}"
        yield from (f"not proved: {said}" for said in self.not_proved)
        for text in (*advice(self.derivation.source, self.derivation.diagram), *self.offers):
            yield from f"advice: {text}".splitlines()
        if self.chosen.ungrouped:
            yield f"not grouped: {self.chosen.ungrouped}"
        for attempt in self.others:
            yield f"{attempt.name} is possible too" + self.against(attempt.worth)

    def _verdicts(self) -> Iterator[str]:
        for name, verdict in self.verdicts.items():
            conditions = f" where {'; '.join(map(str, verdict.conditions))}" if verdict.conditions else ""
            yield f"{name}: {'proved' if verdict.conditions else verdict.verdict}{conditions}"

    def _exponentials(self) -> Iterator[str]:
        yield from str(self.stability).splitlines()
        for e in self.stability.unbounded:
            if e.line:
                yield f"advice: exp({e.argument}) is not bounded: .stabilize() subtracts the maximum"

    def _loops(self) -> Iterator[str]:
        lines = self.pseudocode.splitlines()
        if self.full_proof or len(lines) <= _LINES:
            yield from lines
            return
        yield from lines[: _LINES - 1]
        yield f"… {len(lines) - _LINES + 1} more lines: --pseudocode prints them"

    def _theorem(self, step: Step) -> Iterator[str]:
        yield from str(step.theorem).splitlines()
        from catdiag.execute.size_inference import tile_bounds

        symbols = list(tile_bounds(step.diagram))
        if symbols:
            yield f"  for blocks and tiles of every size: {', '.join(symbols)}"

    def against(self, other: PlanOutcome) -> str:
        """A comparison of another plan with the chosen one, in words that follow its name."""
        mine = self.chosen.worth.plan
        if other.misfit is not None and mine is not None:
            return ", and does not fit"
        if other.plan is not None and mine is not None:
            return f", in {other.plan.time_s / mine.time_s:.2f} times the time"
        return ""

    def _io(self) -> Iterator[str]:
        io = self.io
        if self.derivation is not self.counted:
            yield f"of {self.counted.diagram.title}: parts and skipped blocks are not counted"
        yield f"H = {io.transfers}"
        yield f"    load {io.load}, save {io.save}"
        if io.relaxed != io.transfers:
            yield f"    without rounding up: {io.relaxed}"
        yield f"M = {io.memory}"
        width = max((len(r.array) for r in io.live_arrays), default=0)
        yield from (f"    {r.array:{width}}  {r.values} ({r.role})" for r in io.live_arrays)
        yield f"in the order: {io.order}"
        yield from (f"assumed: {words}" for words in io.assumptions)

    def _optimum(self) -> Iterator[str]:
        if isinstance(self.optimum, str):
            yield self.optimum
            return
        yield from str(self.optimum).splitlines()
        if self.optimum.certificate is not None:
            from catdiag.optimum.certificate_text import proof_in_words

            yield f"certificate, checked in rational arithmetic: {proof_in_words(self.optimum.certificate)}"

    def _bound(self) -> Iterator[str]:
        yield f"at least {self.bound.compulsory}, each input and result once"
        terms, omitted = self._shown_terms()
        for term in terms:
            yield f"and {term.value} ({term.kind}, {term.box})"
        if omitted:
            yield f"… {omitted} more: program.lower_bound() prints them"
        yield "anything may be computed again; no bound on equal diagrams that do fewer operations"

    def _shown_terms(self) -> tuple[list[BoundTerm], int]:
        """The terms of the lower bound beside the compulsory one that are shown, in order, and the number of others. Of
        many those are shown that are largest at the sizes of the plan, for the shared memory of a core; without a plan
        the shortest."""
        terms = list(self.bound.terms)
        if len(terms) <= _TERMS or self.full_proof:
            return terms, 0
        plan = self.plan
        if plan is None or plan.chip is None:
            ranked = sorted(range(len(terms)), key=lambda k: len(str(terms[k].value)))
        else:
            values = Fraction(plan.chip.smem_per_sm, BYTES["bf16"])
            sizes = {**self.bound.sizes, **plan.sizes}
            ranked = sorted(range(len(terms)), key=lambda k: terms[k].at(sizes, values), reverse=True)
        return [terms[k] for k in sorted(ranked[:_TERMS])], len(terms) - _TERMS

    def _proof_seconds(self) -> float:
        steps = [*self.derivation.steps]
        for kernel in self.kernels:
            steps += kernel.derivation.steps if kernel.derivation is not None else ()
        return sum(step.theorem.seconds for step in steps)

    # -- plain data ------------------------------------------------------------------------------

    def as_dict(self) -> dict[str, Any]:
        """Everything that is printed, for JSON. Formulas are text."""
        plan, misfit = self.plan, self.misfit
        return {
            "format": "catdiag-derivation",
            "version": 1,
            "diagram": {
                "title": self.source.title,
                "type": str(self.source),
                "inputs": [
                    {"name": name, "axes": list(ty.names), "element": ty.element}
                    for name, ty in zip(self.source.input_names, self.source.dom, strict=True)
                ],
                "outputs": [{"axes": list(ty.names), "element": ty.element} for ty in self.source.cod],
            },
            "steps": [_step(step) for step in self.derivation.steps],
            "not_proved": list(self.not_proved),
            "formulas": self.formulas.as_dict(),
            "pseudocode": self.pseudocode,
            "theorems": {name: v.verdict for name, v in self.verdicts.items()},
            "stability": {
                "proved": self.stability.proved,
                "exponentials": [str(e) for e in self.stability.exponentials],
            },
            "refused": [{"axis": t.axis, "reason": t.reason} for t in self.refused],
            "offers": list(self.offers),
            "not_grouped": self.chosen.ungrouped or None,
            "alternatives": [
                {
                    "stream": t.axis,
                    "seconds": t.worth.plan.time_s if t.worth.plan is not None else None,
                    "does_not_fit": t.worth.misfit.message if t.worth.misfit is not None else None,
                }
                for t in self.others
            ],
            "io": self.io.as_dict(),
            "optimum": _optimum_data(self.optimum),
            "lower_bound": self.bound.as_dict(),
            "plan": plan.kernels[0].as_dict() if plan is not None and not self.kernels else None,
            "kernels": plan.as_dict() if plan is not None and self.kernels else None,
            "does_not_fit": misfit.message if misfit is not None else None,
            "seconds": {"computing": self.seconds, "proofs": self._proof_seconds()},
        }


def type_of(diagram: Diagram) -> str:
    """The type of a diagram with the names of its inputs.

    >>> from catdiag.library.diagrams import get
    >>> type_of(get("matmul"))
    'matmul: A[a b], B[b c] → [a c]'
    >>> import catdiag as cd
    >>> type_of(cd.algorithm("x, bool[x]", name="kept")(lambda A, keep: cd.where(keep, A, 0)))
    'kept: A[x], keep: bool[x] → [x]'
    """
    return f"{diagram.title + ': ' if diagram.title else ''}{interface(diagram)}"


def _section(title: str, body: Iterator[str] | list[str]) -> Iterator[tuple[str, bool]]:
    yield "", False
    yield title, True
    for line in body:
        yield f"  {line}".rstrip(), False


def _indented(lines: Iterator[str] | list[str], by: int) -> Iterator[str]:
    return (" " * by + line for line in lines)


def _step(step: Step) -> dict[str, Any]:
    theorem, found = step.theorem, step.formula
    return {
        "name": step.name,
        "note": step.note,
        "theorem": {
            "text": str(theorem),
            "statement": theorem.statement,
            "hypotheses": list(theorem.hypotheses),
            "defined": list(theorem.defined),
            "conditions": list(theorem.conditions),
            "conditional": theorem.conditional,
            "trivial": theorem.trivial,
            "vacuous": theorem.vacuous,
            "axioms": list(theorem.axioms),
            "steps": theorem.checked.steps,
            "solver_goals": theorem.checked.goals,
            "seconds": theorem.seconds,
        },
        "state": None if found is None else found.as_dict(),
    }


def _optimum_data(optimum: Optimum | str) -> dict[str, Any]:
    if isinstance(optimum, str):
        return {"leading": None, "exact": None, "reason": optimum}
    from catdiag.optimum.certificate_text import proof_in_words

    return {
        "leading": None if optimum.leading is None else str(optimum.leading),
        "exact": None if optimum.exact is None else str(optimum.exact),
        "tiles": {str(k): str(v) for k, v in optimum.tiles.items()},
        "leading_tiles": {str(k): str(v) for k, v in optimum.leading_tiles.items()},
        "conditions": [str(c) for c in optimum.conditions],
        "leading_conditions": [str(c) for c in optimum.leading_conditions],
        "certificate": None if optimum.certificate is None else proof_in_words(optimum.certificate),
        "leading_certificate": None
        if optimum.leading_certificate is None
        else proof_in_words(optimum.leading_certificate),
        "reason": optimum.reason,
    }
