"""`catdiag derive --html`: the page of what was derived."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from catdiag.cli.derive_report import Report
from catdiag.cli.derive_report_data import DeriveTarget
from catdiag.cli.exit_status import own_lines
from catdiag.planner.plan import CALLED

if TYPE_CHECKING:
    from catdiag.planner.plan import KernelPlan


def html_of(report: Report, target: DeriveTarget | None, times: bool = False) -> str:
    """The HTML page of a report, with the plan for `target`. It has no measured times unless `times` is set, so that it
    is reproducible."""
    from catdiag.draw.report.html_page import page
    from catdiag.draw.report.report_data import ReportData, levels_of

    chip, dtype = (None, "bf16") if target is None else (target.hardware, target.dtype)
    plan: KernelPlan | str | None = None if report.plan is None or report.kernels else report.plan.kernels[0]
    if report.misfit is not None:
        plan = report.misfit.message
    kernels = () if report.plan is None else report.plan.kernels
    if report.kernels or any(kernel.backend in CALLED for kernel in kernels):
        plan = str(report.plan)
    sizes = {} if target is None else dict(target.sizes)
    if target is not None and report.counted is not report.chosen.derivation:
        sizes |= target.scalars
    facts = ReportData(
        derivation=report.derivation,
        counted=report.counted,
        io=report.io,
        optimum=report.optimum if not report.kernels else "each kernel has its own tiles, which the plan lists",
        bound=report.bound,
        levels=levels_of(report.counted, chip, dtype),
        stability=report.stability,
        verdicts=report.verdicts,
        plan=plan,
        kernels=report.kernels,
        hardware=chip,
        sizes=sizes,
        dtype=dtype,
        options={} if target is None or target.stages is None else {"stages": target.stages},
        notes=tuple(_notes(report)),
    )
    return page(facts, times)


def _notes(report: Report) -> Iterator[str]:
    from catdiag.rewrite.casts import advice

    for refused in report.refused:
        yield f"Not streamed over {refused.axis}: {own_lines(refused.reason)}"
    yield from advice(report.derivation.source, report.derivation.diagram)
    yield from report.offers
    yield from (f"Assumed: {said}" for said in (() if report.plan is None else report.plan.assumptions))
    if report.chosen.ungrouped:
        yield f"Not grouped: {report.chosen.ungrouped}"
    for attempt in report.others:
        yield f"{attempt.name} is possible too{report.against(attempt.worth)}"
