"""A derivation as one self-contained HTML page, without scripts, and without styles and pictures from elsewhere.

The page prints the library's objects: theorems, counted formulas, plans. Labels distinguish how each statement is
known: proved is what the kernel accepted, computed follows by exact counting, predicted is the result of a model of a
chip.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from catdiag.category.diagram import Diagram, interface
from catdiag.codegen.pseudocode import pseudocode
from catdiag.draw.report import cost_section, plan_section, plot_section, proof_section
from catdiag.draw.report.html import Html, escaped, folded, joined, listed, tag
from catdiag.draw.report.mathml import of_expr, plain
from catdiag.draw.report.picture_section import Pictures
from catdiag.draw.report.report_data import report_data
from catdiag.draw.report.state_section import WORDS, state
from catdiag.draw.report.step_section import before_and_after, step_card
from catdiag.draw.report.stylesheet import of_pages
from catdiag.planner.plan import CALLED
from catdiag.rewrite.loop_state import formulas
from catdiag.schedule.element_widths import width
from catdiag.schedule.stored_types import widest
from catdiag.util.errors import require

if TYPE_CHECKING:
    from catdiag.chip.hardware import Hardware
    from catdiag.draw.report.report_data import ReportData
    from catdiag.planner.plan import KernelPlan
    from catdiag.rewrite.derivation import Derivation


@dataclass(frozen=True)
class Section:
    """A part of the page; `sure` says how its contents are known."""

    anchor: str
    title: str
    sure: str
    body: Html


def page_of(
    derivation: Derivation,
    *,
    on: Hardware | str | None = None,
    sizes: Mapping[str, int] | None = None,
    dtype: str = "bf16",
    theorems: bool = False,
    times: bool = False,
) -> str:
    """The page of a derivation: see `report_data` for the options and errors, and `page` for `times`."""
    require(isinstance(times, bool), "times", times, "True or False")
    return page(report_data(derivation, on, sizes, dtype, theorems), times)


def page(facts: ReportData, times: bool = False) -> str:
    """The page as text.

    Without `times` the same facts give the same bytes; with it, the page says how long each proof took.
    """
    sections = list(_sections(facts, times))
    title = _title(facts.derivation.source)
    links = [tag("li", tag("a", s.title, href=f"#{s.anchor}")) for s in sections]
    nav = tag("nav", tag("div", tag("p", "Contents"), tag("ol", *links), class_="stay"), aria_label="Contents")
    main = tag("main", *map(_section, sections), id="main")
    head = tag(
        "head",
        tag("meta", charset="utf-8"),
        tag("meta", name="viewport", content="width=device-width, initial-scale=1"),
        # Browsers must fetch and run nothing, whatever text gets into the page.
        tag("meta", http_equiv="Content-Security-Policy", content="default-src 'none'; style-src 'unsafe-inline'"),
        tag("meta", name="color-scheme", content="light dark"),
        tag("title", f"{title}: a derivation"),
        tag("style", of_pages()),
    )
    body = tag(
        "body",
        tag("a", "Skip to the text", href="#main", class_="skip"),
        tag("div", _header(facts), nav, main, class_="sheet"),
        class_="catdiag",
    )
    return f"<!DOCTYPE html>\n{tag('html', head, body, lang='en')}\n"


def _title(diagram: Diagram) -> str:
    return diagram.title or "an array program"


def _header(facts: ReportData) -> Html:
    derivation = facts.derivation
    return tag(
        "header",
        tag("h1", _title(derivation.source)),
        tag("p", plain(interface(derivation.source)), class_="big"),
        tag("dl", *_in_short(facts)),
        tag(
            "p",
            proof_section.mark("proved", "good"),
            " is what the kernel accepted, ",
            proof_section.mark("computed"),
            " follows by exact counting, ",
            proof_section.mark("predicted", "warn"),
            " is what a model of the chip says.",
            class_="soft",
        ),
    )


def _in_short(facts: ReportData) -> Iterator[Html]:
    """The summary of the page: terms with a line each."""
    derivation, io, optimum, plan = facts.derivation, facts.io, facts.optimum, facts.plan
    steps = ", then ".join(step.name for step in derivation.steps)
    yield tag("dt", "Derived by")
    yield tag(
        "dd", f"{steps}: the same results for all sizes and for all blocks and tiles: {derivation.theorem.verdict}"
    )
    if not isinstance(io, str):
        yield tag("dt", "Transfers and memory")
        lines = [cost_section.in_a_line("H", io.transfers), cost_section.in_a_line("M", io.memory)]
        yield tag("dd", joined(lines, " and "), f" {io.unit}")
        if not isinstance(optimum, str) and optimum.leading is not None:
            yield tag("dt", "At best")
            yield tag("dd", cost_section.in_a_line("H∗", optimum.leading), f" {io.unit}, at leading order")
    if plan is not None and not isinstance(plan, str):
        yield tag("dt", f"On {plan.hardware}")
        yield tag(
            "dd",
            plan_section.tiles_of(plan.tiles),
            f": {1e6 * plan.time_s:,.1f} µs predicted for ",
            plan_section.tiles_of(plan.sizes),
        )


_LOOK = {"proved": "good", "proved on a condition": "warn", "predicted": "warn"}


def _section(section: Section) -> Html:
    link = tag("a", section.title, href=f"#{section.anchor}")
    badge = [proof_section.mark(section.sure, _LOOK.get(section.sure, "soft"))] if section.sure else []
    head = tag("h2", link, *badge, id=section.anchor)
    return tag("section", head, section.body, aria_labelledby=section.anchor)


def _sections(facts: ReportData, times: bool) -> Iterator[Section]:
    derivation, pictures = facts.derivation, Pictures()
    yield Section("derivation", "Derivation", "", _derivation(facts, pictures, times))
    theorem = joined(
        [
            proof_section.theorem_rows(derivation.theorem, derivation.diagram, times),
            proof_section.certificate(derivation.theorem, derivation.diagram.title),
        ]
    )
    sure = derivation.theorem.verdict
    yield Section("theorem", "Theorem", sure, theorem)
    found = formulas(derivation.diagram)
    if found.loops:
        words = tag("p", "".join(WORDS), class_="soft")
        yield Section("state", "The state", sure, joined([words, state(found)]))
    yield Section("loops", "Loops", "", _loops(facts, pictures))
    if facts.verdicts:
        yield Section("laws", "Laws of the loops", "", proof_section.verdict_rows(facts.verdicts))
    if facts.stability.exponentials or facts.stability.dropped:
        yield Section("exponentials", "Exponentials", "", proof_section.exponential_rows(facts.stability))
    yield from _costs(facts)
    if facts.plan is not None:
        if isinstance(facts.plan, str):
            body = joined([tag("pre", facts.plan, class_="scroll"), *map(_kernel, enumerate(facts.kernels, 1))])
        else:
            body = joined(
                [
                    plan_section.of_plan(facts.plan),
                    pictures.pipeline(facts.plan, facts.hardware),
                    plot_section.of_plan(facts, facts.plan),
                ]
            )
        yield Section("plan", "Plan", "predicted", body)


def _kernel(numbered: tuple[int, KernelPlan]) -> Html:
    """A kernel among several, as a section that opens."""
    number, kernel = numbered
    made = ", ".join(name for name, _ in kernel.makes)
    head = (
        f"Kernel {number}: {', '.join(kernel.reads)} → {made}; {1e6 * kernel.time_s:,.1f} µs, bound by {kernel.bound}"
    )
    tables = tag("pre", str(kernel), class_="scroll") if kernel.backend in CALLED else plan_section.of_plan(kernel)
    return folded(head, tag("p", kernel.loops), tables)


def _derivation(facts: ReportData, pictures: Pictures, times: bool) -> Html:
    last = len(facts.derivation.steps)
    cards = [
        step_card(step, number, pictures.step(before, step.diagram, number == 1, number == last), times)
        for number, (step, before) in enumerate(before_and_after(facts.derivation), 1)
    ]
    notes = [listed(map(escaped, facts.notes))] if facts.notes else []
    return joined([*cards, *notes])


def _loops(facts: ReportData, pictures: Pictures) -> Html:
    code = tag("pre", pseudocode(facts.derivation.diagram), class_="scroll")
    return joined([code, pictures.program(facts.counted)])


def _costs(facts: ReportData) -> Iterator[Section]:
    io = facts.io
    if isinstance(io, str):
        yield Section("io", "Transfers and memory", "", tag("p", io))
    else:
        said = f"Transfers between slow and fast memory in the whole run, and the peak of fast memory, in {io.unit}."
        intro = tag("p", said)
        yield Section(
            "io", "Transfers and memory", "computed", joined([intro, *_of_what(facts), cost_section.of_io(io)])
        )
    if not isinstance(facts.levels, str):
        unit = tag("p", f"In {facts.levels.unit}.")
        yield Section("levels", "Level by level", "computed", joined([unit, cost_section.of_levels(facts.levels)]))
    yield from _optimum_sections(facts)


def _of_what(facts: ReportData) -> list[Html]:
    if facts.counted is facts.derivation:
        return []
    return [tag("p", "Of ", plain(facts.counted.diagram.title), ": split loops and skipped blocks are not counted.")]


def _optimum_sections(facts: ReportData) -> Iterator[Section]:
    from catdiag.optimum.certificate_text import proof_in_words

    optimum, bound, io = facts.optimum, facts.bound, facts.io
    if not isinstance(io, str):
        said = "The least transfers over all tiles that fit, if the fast memory holds "
        intro = tag("p", said, of_expr(io.capacity), f" {io.unit}.")
        if isinstance(optimum, str):
            yield Section("optimum", "Optimum", "", joined([intro, tag("p", f"No closed form: {optimum}.")]))
        else:
            words = "" if optimum.certificate is None else proof_in_words(optimum.certificate)
            parts = [intro, cost_section.of_optimum(optimum, words)]
            if optimum.program is not None:
                parts.append(cost_section.of_regimes(optimum.regimes))
            parts.append(plot_section.of_optimum(facts))
            yield Section("optimum", "Optimum", "computed", joined(parts))
    if isinstance(bound, str):
        return
    parts = [
        tag("p", f"A lower bound on the transfers of every schedule of the same scalar operations, in {bound.unit}."),
        cost_section.of_bound(bound),
    ]
    if not isinstance(optimum, str):
        parts.append(cost_section.of_ratio(bound, optimum, facts.numbers, _room(facts)))
    yield Section("bound", "Lower bound", "computed", joined(parts))


def _room(facts: ReportData) -> cost_section.MemoryText | None:
    """The number of values that the shared memory of a group holds, on the chip of the plan."""
    if facts.plan is None or isinstance(facts.plan, str):
        return None
    level = next((level for level in facts.plan.levels if level.name == "SMEM"), None)
    if level is None or level.capacity is None:
        return None
    dtype = widest(facts.dtype)
    words = f"the most that a group may use of {level.vendor_name or level.name} on {facts.plan.hardware}, in {dtype}"
    return cost_section.MemoryText(level.capacity // width(dtype), words)
