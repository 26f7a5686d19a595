"""The hierarchical roofline of a plan: a sloped roof per edge of the chip's memories, flat ones for pipelines.

A roofline (Williams, Waterman and Patterson, CACM 52(4), 2009) with a roof for each edge of the memory hierarchy, each
with the bytes that cross it (Yang, Kurth and Williams, CCPE 32(20), 2020). A program is a row of points at one height,
its rate. There is one point for each edge, at the work divided by the edge's bytes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from catdiag.cost.traffic import io
from catdiag.draw.plots.plot_numbers import at, chip_of, dtype_of, name_of, source_of
from catdiag.draw.plots.plot_style import (
    DASHES,
    INK,
    LEVELS,
    MARKERS,
    PALE,
    PAPER,
    SOFT,
    decades,
    dress,
    finish,
    key,
    label_right,
    listed,
    panels,
    quantity,
    styled,
)
from catdiag.draw.plots.unfused_plan import unfused_schedule
from catdiag.planner.fit import fit
from catdiag.planner.multi_kernel_plan import one_kernel
from catdiag.rewrite.derivation import derivation_of
from catdiag.schedule.kernel_analysis import measure
from catdiag.schedule.stored_types import worked_in
from catdiag.util.errors import CatdiagError

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from catdiag.category.diagram import Diagram
    from catdiag.chip.hardware import Hardware
    from catdiag.planner.multi_kernel_plan import Plan
    from catdiag.planner.plan import KernelPlan
    from catdiag.rewrite.derivation import Derivation

_HEIGHT = 3.3


@dataclass(frozen=True)
class Roof:
    """A sloped roof: an edge and the bandwidth that plans use, in bytes per second; `inner` if it is within a core."""

    upper: str
    lower: str
    bytes_per_s: float
    inner: bool = False

    @property
    def name(self) -> str:
        """The edge in words."""
        return f"{self.upper} → {self.lower}"


@dataclass(frozen=True)
class Ceiling:
    """A flat roof: a pipeline, and the work per second that it allows.

    `kind` is "chip" for the best rate of the chip, "program" for the rate that a pipeline allows that also does other
    work in the plan, and "other" for a pipeline that the work does not run on, which is no roof.
    """

    name: str
    rate: float
    kind: str


@dataclass(frozen=True)
class RooflineRow:
    """A program: its rate (work per second), and its intensity (work per byte) at each edge whose bytes are known.

    `how` states the source of the rate.
    """

    name: str
    rate: float
    intensity: Mapping[str, float]
    how: str


@dataclass(frozen=True)
class Roofline:
    """The data of a roofline. `work` is that of the whole run, in `unit`."""

    title: str
    subtitle: str
    work: int
    unit: str
    roofs: tuple[Roof, ...]
    ceilings: tuple[Ceiling, ...]
    rows: tuple[RooflineRow, ...]
    caption: tuple[str, ...]


def roofline_of(
    plan: Plan | KernelPlan, derivation: Derivation | Diagram | None = None, chip: Hardware | str | None = None
) -> Roofline:
    """The data of `roofline`, without a figure. Raises CatdiagError for what does no operations."""
    plan = one_kernel(plan, "a roofline")
    hardware = chip_of(plan, chip)
    work, unit = plan.flops, "FLOP"
    source = None if derivation is None else source_of(derivation)
    if not work:
        if derivation is None:
            raise CatdiagError(
                f"the plan on {plan.hardware} has no products to count: give the derivation too, for its other "
                "operations, as in roofline(plan, derivation)"
            )
        work, unit = _operations(source if source is not None else derivation, plan), "operation"
    if not work:
        raise CatdiagError(f"{name_of(derivation)} does no operations: a roofline needs some")
    names = {level.name: level.vendor_name or level.name for level in plan.levels}
    roofs = tuple(
        Roof(names.get(e.upper, e.upper), names.get(e.lower, e.lower), e.bytes_per_s, e.upper == "SMEM")
        for e in plan.edges
        if e.bytes_moved
    )
    chosen = {roof.name: work / e.bytes_moved for roof, e in zip(roofs, (e for e in plan.edges if e.bytes_moved))}
    rows = [RooflineRow("the plan", work / plan.time_s, chosen, f"predicted, at {listed(plan.tiles)}")]
    fewest = _fewest(plan, derivation, hardware, work, names)
    rows += [fewest] if fewest is not None else []
    notes = _left_out(plan, hardware)
    if source is None:
        notes.append("the unfused program, because no derivation was given" if derivation is None else "")
    elif roofs:
        rows += _unfused(
            source, plan, hardware, work, roofs, None if derivation is None else derivation_of(derivation).ask
        )
    ceilings = _ceilings(plan, hardware, work, unit)
    caption = [f"{row.name}: {row.how}." for row in rows]
    caption += [f"Not drawn: {note}." for note in notes if note]
    subtitle = f"{listed(plan.sizes)}; {plan.dtype}"
    title = f"{name_of(derivation)} on {plan.hardware}" if derivation is not None else f"a plan on {plan.hardware}"
    return Roofline(title, subtitle, work, unit, roofs, ceilings, tuple(rows), (*caption, *_parts(hardware)))


def _operations(diagram: Any, plan: KernelPlan) -> int:
    """The number of all scalar operations, for programs without contractions."""
    found = io(diagram, dtype=dtype_of(plan))
    return int(sum(at(formula, {**plan.sizes, **plan.tiles}) for formula in found.work.values()))


def _fewest(
    plan: KernelPlan, derivation: Any, chip: Hardware, work: int, names: Mapping[str, str]
) -> RooflineRow | None:
    """The tiles of least traffic, where they are not the plan's, with points at every edge if they can be planned."""
    least = plan.minimum_traffic
    if least.bytes_moved >= plan.bytes_moved:
        return None
    how = f"the tiles of least traffic, {listed(least.tiles)}, predicted"
    if derivation is not None:
        found = fit(derivation, chip, plan.sizes, plan.types or plan.dtype, tiles=least.tiles, objective="traffic")
        if found.bytes_moved == least.bytes_moved:
            there = {
                Roof(names.get(e.upper, e.upper), names.get(e.lower, e.lower), 0).name: work / e.bytes_moved
                for e in found.edges
                if e.bytes_moved
            }
            return RooflineRow("fewest bytes", work / found.time_s, there, how)
    edge = next(e for e in plan.edges if e.lower == "SMEM")
    there = {Roof(names.get(e.upper, e.upper), names.get(e.lower, e.lower), 0).name: e.bytes_moved for e in (edge,)}
    rate = work / (plan.time_s * least.time_ratio)
    return RooflineRow("fewest bytes", rate, dict.fromkeys(there, work / least.bytes_moved), how)


def _unfused(
    source: Diagram, plan: KernelPlan, chip: Hardware, work: int, roofs: Sequence[Roof], ask: Any
) -> tuple[RooflineRow, ...]:
    """Each stage of the program as a planned kernel of its own; each box, at best, where stages cannot be planned."""
    dtype = dtype_of(plan)
    try:
        symbols = unfused_schedule(source, chip, plan.sizes, dtype, ask)
    except CatdiagError:
        return (_at_best(source, plan, chip, work, roofs[0].name),)
    if len(symbols.stages) == 1:
        return ()
    edges = [e for e in plan.edges if e.bytes_moved]
    crossed = {roof.name: symbols.crossing(e.upper, e.lower) for roof, e in zip(roofs, edges)}
    how = (
        f"predicted, {len(symbols.stages)} stages of the program, each a kernel of its own with the tiles "
        f"planned for it"
    )
    return (RooflineRow("unfused", work / symbols.time_s, {name: work / c for name, c in crossed.items() if c}, how),)


def _at_best(source: Diagram, plan: KernelPlan, chip: Hardware, work: int, edge: str) -> RooflineRow:
    """Each box as a kernel of its own, which takes at least the time of its bytes, and of each of its pipelines."""
    dtype = dtype_of(plan)
    rates = {
        "tensor": chip.tensor.get(worked_in(source, dtype or "fp32"), 0.0) * chip.sustained["tensor"],
        "exp": chip.special_per_clock * chip.clock_hz * chip.sms,
        "alu": chip.alu_per_clock * chip.clock_hz * chip.sms,
    }
    rates["tensor"] = rates["tensor"] or 2 * rates["alu"]
    seconds, total = 0.0, 0
    for kernel in measure(source, dtype, fused=False).kernels:
        crossed = sum(int(t.size.value(plan.sizes)) for t in kernel.transfers)
        spent = [crossed / chip.sustained_hbm_bytes_per_s]
        for pipeline, rate in rates.items():
            spent.append(sum(int(a.value(plan.sizes)) for (p, _), a in kernel.work.items() if p == pipeline) / rate)
        seconds, total = seconds + max(spent), total + crossed
    how = "each box is a kernel of its own and moves each of its arrays once, at the rate that this roofline allows"
    return RooflineRow("unfused, at best", work / seconds, {edge: work / total}, how)


def _ceilings(plan: KernelPlan, chip: Hardware, work: int, unit: str) -> tuple[Ceiling, ...]:
    found: list[Ceiling] = []
    rate = work / plan.time_s
    alus = chip.alu_per_clock * chip.clock_hz * chip.sms
    if unit == "FLOP":
        peak = rate / plan.utilization
        if plan.parts_s.get("tensor"):
            found.append(Ceiling("matrix units", peak, "chip"))
            found.append(Ceiling("matrix units, sustained", peak * chip.sustained["tensor"], "chip"))
            found.append(Ceiling("ALUs alone", 2 * alus, "other"))
        else:
            found.append(Ceiling("ALUs", peak, "chip"))
    else:
        found.append(Ceiling("ALUs", alus, "chip"))
    for pipeline, words in (("exp", "special functions, beside"), ("alu", "other arithmetic, beside")):
        busy = plan.busy.get(pipeline, 0.0)
        if busy:
            found.append(Ceiling(words, rate / busy, "program"))
    return tuple(found)


def _parts(chip: Hardware) -> tuple[str, ...]:
    """The share of the vendor's figures that the roofs assume."""
    hbm, products = (f"{100 * chip.sustained[part]:.0f}%" for part in ("hbm", "tensor"))
    return (f"Roofs are sustained rates: {chip.word('HBM')} gives {hbm} of its peak, and matrix units {products}.",)


def _left_out(plan: KernelPlan, chip: Hardware) -> list[str]:
    """The edges without a roof, with the reason."""
    drawn = {(e.upper, e.lower) for e in plan.edges if e.bytes_moved}
    found = [f"{e.upper} → {e.lower}, whose bandwidth is not known" for e in chip.hierarchy.edges if not e.bytes_per_s]
    for e in plan.edges:
        if (e.upper, e.lower) not in drawn:
            found.append(f"{e.upper} → {e.lower}, which nothing crosses")
    return found


def roofline(
    plan: Plan | KernelPlan,
    derivation: Derivation | Diagram | None = None,
    *,
    chip: Hardware | str | None = None,
    ax: Axes | None = None,
) -> Figure:
    """The roofline of a plan: work per second against work per byte, with a sloped roof for each edge of its chip.

    Sloped roofs are the sustained bandwidths of the edges. Flat ones are the matrix units for the dtype, the ALUs, and
    the rates that special functions and other arithmetic of this program allow. Programs are rows of points, one for
    each edge: the plan's tiles with the predicted time, the tiles of least traffic, and, where the derivation is given,
    the unfused source with one kernel per stage. Work is the FLOPs of contractions, or all scalar operations where
    there are none. `chip` is needed where the plan's chip is not known by its name.

    Raises CatdiagError for a chip that is not the plan's, and where there is no work to count.
    """
    shown = roofline_of(plan, derivation, chip)
    with styled():
        figure, (axes,) = panels(ax, [_HEIGHT])
        _draw(axes, shown)
        return finish(figure, [axes], [_HEIGHT], shown.title, shown.subtitle, shown.caption, ax is None)


def _draw(ax: Axes, shown: Roofline) -> None:
    short = "FLOP/s" if shown.unit == "FLOP" else "op/s"
    peak = max(c.rate for c in shown.ceilings if c.kind == "chip")
    fastest = max(roof.bytes_per_s for roof in shown.roofs)
    found = [i for row in shown.rows for i in row.intensity.values()]
    found += [peak / roof.bytes_per_s for roof in shown.roofs]
    left, right = min(found) / 3, max(found) * 2.5
    bottom = min(row.rate for row in shown.rows) / 4
    ceilings = [c for c in shown.ceilings if bottom < c.rate < 20 * peak]
    ax.set_xscale("log")
    ax.set_yscale("log")
    ax.set_xlim(left, right)
    ax.set_ylim(bottom, max(c.rate for c in ceilings) * 1.6)
    _draw_roofs(ax, shown, peak, left, bottom)
    labels: list[tuple[float, str, str]] = []
    for ceiling in ceilings:
        ax.plot(
            [max(left, ceiling.rate / fastest), right],
            [ceiling.rate] * 2,
            color=INK if ceiling.kind == "chip" else SOFT,
            lw=1.3 if ceiling.rate == peak else 0.8,
            linestyle="solid" if ceiling.kind == "chip" else DASHES[4],
            zorder=1.8,
            gid=f"ceiling {ceiling.name}",
        )
        labels.append((ceiling.rate, f"{ceiling.name}: {quantity(ceiling.rate, short)}", SOFT))
    labels += [(row.rate, f"{row.name}: {quantity(row.rate, short)}", INK) for row in shown.rows]
    _draw_rows(ax, shown, right)
    words = "FLOP" if shown.unit == "FLOP" else "operations"
    ax.set_xlabel(f"intensity, {words} a byte that crosses the edge")
    ax.set_ylabel(f"{words} a second")
    dress(ax)
    decades(ax.xaxis, "", lambda value, _: f"{value:g}")
    decades(ax.yaxis, short)
    label_right(ax, labels)
    key(ax)


def _draw_roofs(ax: Axes, shown: Roofline, peak: float, left: float, bottom: float) -> None:
    """A line for each edge, up to the highest rate of operations."""
    for place, roof in enumerate(shown.roofs):
        ends = (max(left, bottom / roof.bytes_per_s), peak / roof.bytes_per_s)
        ax.plot(
            ends,
            [end * roof.bytes_per_s for end in ends],
            color=_color(place, shown),
            linestyle=DASHES[place],
            marker=MARKERS[place],
            markevery=[],
            markersize=5,
            zorder=2,
            gid=f"roof {roof.name}",
            label=f"{roof.name}, {quantity(roof.bytes_per_s, 'B/s')}",
        )


def _draw_rows(ax: Axes, shown: Roofline, right: float) -> None:
    """A point for each program under each roof, on a line for its rate."""
    for row, fill in zip(shown.rows, (None, PAPER, PALE)):
        here = [row.intensity[roof.name] for roof in shown.roofs if roof.name in row.intensity]
        ax.plot([min(here), right], [row.rate] * 2, color=SOFT, lw=0.5, zorder=1.7)
        for place, roof in enumerate(shown.roofs):
            if roof.name in row.intensity:
                ax.plot(
                    [row.intensity[roof.name]],
                    [row.rate],
                    linestyle="none",
                    marker=MARKERS[place],
                    markersize=(8.5, 6.0, 4.5, 3.5)[place],  # where points coincide, all are seen
                    markerfacecolor=fill or _color(place, shown),
                    markeredgecolor=_color(place, shown),
                    markeredgewidth=1.1,
                    zorder=4,
                    clip_on=False,
                    gid=f"{row.name} at {roof.name}",
                )


def _color(place: int, shown: Roofline) -> str:
    """The color of an edge: that of slow memory, of SMEM for the edge that fills it, of matrix units for reads."""
    roof = shown.roofs[place]
    return LEVELS[3] if roof.inner else LEVELS[0] if place == 0 else LEVELS[1]
