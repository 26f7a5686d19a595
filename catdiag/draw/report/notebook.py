"""The notebook display of derivations, theorems, verdicts, plans and costs: parts of the page, with their own style."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from catdiag.bounds.lower_bound import LowerBound
from catdiag.category.diagram import interface
from catdiag.codegen.pseudocode import pseudocode
from catdiag.cost.level_formulas import LevelsIO
from catdiag.cost.traffic import IO
from catdiag.draw.report import cost_section, plan_section, proof_section
from catdiag.draw.report.html import folded, joined, tag
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
from catdiag.rewrite.loop_state import formulas
from catdiag.rewrite.stability import Stability


def card(*parts: str) -> str:
    """Parts of a page as a self-contained element whose style does not affect the rest of the notebook.

    >>> card("a < b").endswith('<div class="catdiag">a &lt; b</div>')
    True
    """
    return str(joined([tag("style", shared()), tag("div", *parts, class_="catdiag")]))


def html(shown: object) -> str:
    """The notebook display of an object, by its class (see `CARDS`). Raises TypeError for a class without one."""
    found = next((CARDS[kind] for kind in type(shown).__mro__ if kind in CARDS), None)
    if found is not None:
        return card(*found(shown))
    derivation = getattr(shown, "derivation", shown)
    if isinstance(derivation, Derivation):
        return of_derivation(derivation)
    raise TypeError(f"there is no HTML of {type(shown).__name__}")


def of_derivation(derivation: Derivation) -> str:
    """The statement, the steps, the state, H and M."""
    source = derivation.source
    parts = [tag("p", tag("strong", source.title or "an array program"), " ", plain(interface(source)))]
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


def of_plan(plan: Plan) -> tuple[str, ...]:
    """The tables of the kernels of a plan; of several, folded under what they are together."""
    if len(plan.kernels) == 1:
        return (plan_section.of_plan(plan.kernels[0]),)
    tables = (folded(f"kernel {k}: {p.loops}", plan_section.of_plan(p)) for k, p in enumerate(plan.kernels, 1))
    return (tag("pre", str(plan)), *tables)


CARDS: Mapping[type, Callable[[Any], tuple[str, ...]]] = {
    Theorem: lambda theorem: (proof_section.theorem_card(theorem),),
    Verdict: lambda verdict: (proof_section.verdict_card(verdict),),
    Stability: lambda stability: (proof_section.exponential_rows(stability),),
    KernelPlan: lambda plan: (plan_section.of_plan(plan),),
    Plan: of_plan,
    IO: lambda io: (tag("p", f"In {io.unit}."), cost_section.of_io(io)),
    LevelsIO: lambda io: (tag("p", f"In {io.unit}."), cost_section.of_levels(io)),
    Optimum: lambda optimum: (cost_section.of_optimum(optimum),),
    Regimes: lambda regimes: (cost_section.of_regimes(regimes),),
    LowerBound: lambda bound: (cost_section.of_bound(bound),),
}
"""What the card of an object shows, by its class; a derivation has `of_derivation`."""
