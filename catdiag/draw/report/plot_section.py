"""The plots of a page: roofline, tiles, transfers against memory, bytes saved by fusion. They need matplotlib."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TYPE_CHECKING

from catdiag.draw import plots
from catdiag.draw.report.html import Html, joined, tag
from catdiag.util.errors import CatdiagError

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from catdiag.draw.report.report_data import ReportData
    from catdiag.planner.plan import KernelPlan


def installed() -> bool:
    """Whether matplotlib is installed."""
    from importlib.util import find_spec

    return find_spec("matplotlib") is not None


def of_plan(facts: ReportData, plan: KernelPlan) -> Html:
    """The plots of a plan, or a line that says how to get them."""
    if not installed():
        return tag("p", "Plots need matplotlib: pip install 'catdiag[plot]'.", class_="soft")

    counted, chip, dtype = facts.counted, facts.hardware or plan.hardware, facts.dtype
    sizes = dict(facts.sizes)

    def tiles() -> Figure:
        return plots.landscape(counted, chip, sizes, dtype, plan=plan, **facts.options)

    return joined(
        [
            _figure("Roofline", lambda: plots.roofline(plan, counted, chip=chip)),
            _figure("Tiles", tiles),
            _figure("Bytes, unfused and fused", lambda: plots.waterfall(counted, sizes, dtype, plan=plan)),
        ]
    )


def of_optimum(facts: ReportData) -> Html:
    """The plot of the least transfers against memory, at the known sizes."""
    if not facts.sizes or not installed() or facts.hardware is None:
        return Html("")

    return _figure(
        "Transfers against memory",
        lambda: plots.transfers(facts.counted, facts.numbers, dtype=facts.dtype, chip=facts.hardware),
    )


def _figure(called: str, draw: Callable[[], Figure]) -> Html:
    """A plot, or a line that says why there is none."""
    try:
        picture = Html(without_idle_names(plots.svg(draw())).strip())
    except CatdiagError as error:
        return tag("p", f"{called}: not drawn, because {error.message}", class_="soft")
    return tag("figure", tag("div", picture, class_="scroll plot"))


def without_idle_names(svg: str) -> str:
    """An SVG document without the ids that nothing refers to: matplotlib gives ids to most elements, some twice.

    >>> without_idle_names('<svg id="a"><g id="b"/><use href="#b"/></svg>')
    '<svg><g id="b"/><use href="#b"/></svg>'
    """
    used = set(re.findall(r'(?:href="#|url\(#)([^")]*)', svg))
    for names in re.findall(r'aria-labelledby="([^"]*)"', svg):
        used |= set(names.split())
    return re.sub(r' id="([^"]*)"', lambda found: found[0] if found[1] in used else "", svg)
