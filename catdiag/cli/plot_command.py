"""`catdiag plot`: a plot of an operator's costs, in a file."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Literal

from catdiag.cli.exit_status import UsageError
from catdiag.cli.operator_loading import operator
from catdiag.cli.option_values import check_sizes, check_writable, integers_of, parse_sizes
from catdiag.frontend.signature import axis_names

if TYPE_CHECKING:
    from catdiag.category.diagram import Diagram
    from catdiag.cli.command_options import PlotArgs
    from catdiag.cli.derive_report_data import DeriveTarget
    from catdiag.planner.multi_kernel_plan import Plan
    from catdiag.rewrite.derivation import Derivation
    from catdiag.solvers.z3 import Z3

THEMES = ("auto", "light", "dark")
SUFFIXES = (".svg", ".pdf", ".png")


def run_plot(request: PlotArgs) -> None:
    """Plots and writes the file in the format of its suffix; prints SVG if there is no file.

    Raises CatdiagError for what cannot be derived, planned, plotted or written, before anything is written.
    """
    if request.kind not in _KINDS:
        raise UsageError(f"there is no plot {request.kind!r}: expected one of {', '.join(_KINDS)}")
    output = request.output
    suffix = ".svg" if output is None else output.suffix.lower()
    if suffix not in SUFFIXES:
        raise UsageError(
            f"cannot tell what to write to {output}: expected a file that ends in {', '.join(SUFFIXES[:-1])} or "
            f"{SUFFIXES[-1]}"
        )
    if request.theme not in THEMES:
        raise UsageError(f"there is no theme {request.theme!r}: expected one of {', '.join(THEMES)}")
    if request.theme != "auto" and suffix != ".svg":
        raise UsageError("--theme is for SVG: the other files are light")
    if request.tiles is not None and request.kind != "landscape":
        raise UsageError("--tiles is for a landscape, as in catdiag plot landscape OP --tiles g_q,s_x")
    if request.on is None and request.kind != "transfers":
        raise UsageError(f"a {request.kind} is of a chip: say which, as in --on h100")
    if request.stages is not None and request.stages < 1:
        raise UsageError(f"stages is {request.stages}: expected a whole number of buffers, 1 or more")
    check_writable(output)
    from catdiag.draw.plots.figure_files import save, svg
    from catdiag.draw.plots.plot_style import load
    from catdiag.solvers.z3 import borrowed

    load()
    with borrowed() as ask:
        ask.start()
        figure = _figure(request, ask)
    theme: Literal["auto", "light", "dark"] = "light" if request.theme == "light" else "auto"
    theme = "dark" if request.theme == "dark" else theme
    if output is None:
        print(svg(figure, theme), end="")
        return
    try:
        save(figure, output, theme)
    except OSError as error:
        raise UsageError(f"cannot write {output}: {error.strerror or error}") from error


def _figure(request: PlotArgs, ask: Z3) -> Any:
    from catdiag.chip import hardware
    from catdiag.cli.derive_report_data import DeriveTarget
    from catdiag.schedule.element_widths import width

    diagram = operator(request.op)
    given = parse_sizes(request.size)
    scalars = {n: given.pop(n) for n in integers_of(diagram) if n in given}
    lengths = check_sizes(diagram, given)
    if request.dtype is not None:
        width(request.dtype)
    if request.on is None:
        return _transfers(_derived(diagram, ask, request, None)[0], None, request, {**lengths, **scalars})
    target = DeriveTarget(hardware.get(request.on), lengths, request.dtype or "bf16", request.stages, scalars)
    derivation, plan = _derived(diagram, ask, request, target)
    sizes = {**lengths, **scalars} if plan is None else dict(plan.sizes)
    return _KINDS[request.kind](derivation, plan, request, sizes)


def _derived(
    diagram: Diagram, ask: Z3, request: PlotArgs, target: DeriveTarget | None
) -> tuple[Derivation, Plan | None]:
    """The derivation that `catdiag derive` chooses, and its plan."""
    from catdiag.cli.derive_report import PlanOutcome
    from catdiag.cli.derive_report_data import planned_for
    from catdiag.planner.derivation_search import PAYS, attempts, best, memory
    from catdiag.rewrite.skip import skip
    from catdiag.rewrite.stream.streaming import split

    def worth(derivation: Derivation) -> PlanOutcome:
        return PlanOutcome(measure=memory(derivation)) if target is None else planned_for(derivation, target)

    group = None if request.group is None else axis_names(request.group)
    pays = PAYS if target is not None else 0.0
    chosen = best(attempts(diagram, ask, worth, stream=request.stream, group=group, pays=pays)[0])
    derivation, found = chosen.derivation, chosen.worth
    for axis in request.split:
        derivation = split(derivation, axis)
    for axis in request.skip:
        derivation = skip(derivation, axis)
    if target is not None and derivation is not chosen.derivation:
        from dataclasses import replace

        found = planned_for(derivation, replace(target, sizes={**target.sizes, **target.scalars}))
    if found.misfit is not None and request.kind != "transfers":
        raise found.misfit
    return derivation, found.plan


def _transfers(derivation: Derivation, plan: Plan | None, request: PlotArgs, sizes: dict[str, int]) -> Any:
    from catdiag.draw.plots import transfers

    return transfers(derivation, sizes, dtype=request.dtype, chip=request.on)


def _roofline(derivation: Derivation, plan: Plan | None, request: PlotArgs, sizes: dict[str, int]) -> Any:
    from catdiag.draw.plots import roofline

    if plan is None:
        raise UsageError("there is no plan, which a roofline needs")
    return roofline(plan, derivation, chip=request.on)


def _landscape(derivation: Derivation, plan: Plan | None, request: PlotArgs, sizes: dict[str, int]) -> Any:
    from catdiag.draw.plots import landscape

    names = None if request.tiles is None else tuple(name.strip() for name in request.tiles.split(","))
    return landscape(
        derivation, request.on or "", sizes, request.dtype or "bf16", tiles=names, plan=plan, stages=request.stages
    )


def _waterfall(derivation: Derivation, plan: Plan | None, request: PlotArgs, sizes: dict[str, int]) -> Any:
    from catdiag.draw.plots import waterfall

    return waterfall(derivation, sizes, request.dtype or "bf16", plan=plan, chip=request.on)


_KINDS: dict[str, Callable[[Derivation, Plan | None, PlotArgs, dict[str, int]], Any]] = {
    "roofline": _roofline,
    "transfers": _transfers,
    "landscape": _landscape,
    "waterfall": _waterfall,
}
