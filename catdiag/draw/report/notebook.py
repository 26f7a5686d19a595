"""The notebook display of derivations, theorems, verdicts, plans and costs: parts of the page, with their own style."""

from __future__ import annotations

from functools import singledispatch

from catdiag.bounds.lower_bound import LowerBound
from catdiag.codegen.loop_state import formulas
from catdiag.codegen.pseudocode import pseudocode
from catdiag.cost.level_formulas import LevelsIO
from catdiag.cost.traffic import IO
from catdiag.draw.report import cost_section, plan_section, proof_section
from catdiag.draw.report.html import folded, joined, tag
from catdiag.draw.report.html_page import type_of
from catdiag.draw.report.mathml import plain
from catdiag.draw.report.picture_section import Pictures
from catdiag.draw.report.report_data import io_of, optimum_of
from catdiag.draw.report.state_section import state
from catdiag.draw.report.stylesheet import shared
from catdiag.optimum.minimize import Optimum
from catdiag.optimum.regimes import Regimes
from catdiag.planner.multi_kernel_plan import Plan
from catdiag.planner.plan import KernelPlan
from catdiag.prover.api import Theorem
from catdiag.rewrite.claims import Verdict
from catdiag.rewrite.derivation import Derivation
from catdiag.rewrite.stability import Stability


def card(*parts: str) -> str:
    """Parts of a page as a self-contained element whose style does not affect the rest of the notebook.

    >>> card("a < b").endswith('<div class="catdiag">a &lt; b</div>')
    True
    """
    return str(joined([tag("style", shared()), tag("div", *parts, class_="catdiag")]))


@singledispatch
def html(shown: object) -> str:
    """The notebook display of an object, by its class. Raises TypeError for a class without one."""
    derivation = getattr(shown, "derivation", None)
    if isinstance(derivation, Derivation):
        return of_derivation(derivation)
    raise TypeError(f"there is no HTML of {type(shown).__name__}")


@html.register
def of_derivation(derivation: Derivation) -> str:
    """The statement, the steps, the state, H and M."""
    source = derivation.source
    parts = [tag("p", tag("strong", source.title or "an array program"), " ", plain(type_of(source)))]
    if not derivation.steps:
        return card(*parts, tag("p", "There are no steps yet."))
    rows = [(str(k), step.name, proof_section.status(step.theorem)) for k, step in enumerate(derivation.steps, 1)]
    parts.append(tag("table", tag("tbody", *(tag("tr", *(tag("td", cell) for cell in row)) for row in rows))))
    parts.append(tag("p", proof_section.statement(derivation.theorem)))
    parts.append(Pictures().diagram(derivation.diagram, ""))
    io = io_of(derivation)
    if not isinstance(io, str):
        parts += cost_section.in_short(io, optimum_of(io))
    found = formulas(derivation.diagram)
    parts.append(folded("the theorem in full", proof_section.theorem_rows(derivation.theorem, derivation.diagram)))
    if found.loops:
        parts.append(folded("the state", state(found)))
    parts.append(folded("the loops", tag("pre", pseudocode(derivation.diagram))))
    return card(*parts)


@html.register
def of_theorem(theorem: Theorem) -> str:
    """The statement, the hypotheses, how it was checked, and the certificate."""
    return card(proof_section.theorem_card(theorem))


@html.register
def of_verdict(verdict: Verdict) -> str:
    """The outcome of a claim."""
    return card(proof_section.verdict_card(verdict))


@html.register
def of_stability(stability: Stability) -> str:
    """What is known of each exponential."""
    return card(proof_section.exponential_rows(stability))


@html.register
def of_kernel_plan(plan: KernelPlan) -> str:
    """The tables of the plan of a kernel."""
    return card(plan_section.of_plan(plan))


@html.register
def of_plan(plan: Plan) -> str:
    """The tables of the kernels of a plan; of several, folded under what they are together."""
    if len(plan.kernels) == 1:
        return of_kernel_plan(plan.kernels[0])
    tables = (folded(f"kernel {k}: {p.loops}", plan_section.of_plan(p)) for k, p in enumerate(plan.kernels, 1))
    return card(tag("pre", str(plan)), *tables)


@html.register
def of_io(io: IO) -> str:
    """Transfers and memory, typeset."""
    return card(tag("p", f"In {io.unit}."), cost_section.of_io(io))


@html.register
def of_levels(io: LevelsIO) -> str:
    """Transfers and memory at each level, typeset."""
    return card(tag("p", f"In {io.unit}."), cost_section.of_levels(io))


@html.register
def of_optimum(optimum: Optimum) -> str:
    """The least transfers, typeset."""
    return card(cost_section.of_optimum(optimum))


@html.register
def of_regimes(regimes: Regimes) -> str:
    """The regimes: what binds, and the least transfers there."""
    return card(cost_section.of_regimes(regimes))


@html.register
def of_bound(bound: LowerBound) -> str:
    """The lower bound over all schedules, with its conditions."""
    return card(cost_section.of_bound(bound))
