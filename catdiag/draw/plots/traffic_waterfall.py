"""The waterfall of bytes: the traffic of each array unfused, and what the fused form saves or adds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from catdiag.bounds.lower_bound import lower_bound
from catdiag.cost.traffic import io
from catdiag.draw.plots.plot_numbers import Dtype, at, chip_of, name_of, source_of
from catdiag.draw.plots.plot_style import (
    DASHES,
    HATCHES,
    INK,
    LEVELS,
    MORE,
    PAPER,
    SIZE,
    SMALL,
    SOFT,
    dress,
    finish,
    key,
    listed,
    panels,
    quantity,
    shortened,
    styled,
    written,
)
from catdiag.draw.plots.unfused_plan import Moved, moved, outer, unfused_schedule
from catdiag.planner.fit import fit
from catdiag.planner.multi_kernel_plan import one_kernel
from catdiag.planner.plan import plural
from catdiag.schedule.kernel_analysis import measure
from catdiag.util.errors import CatdiagError

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from catdiag.category.diagram import Diagram
    from catdiag.chip.hardware import Hardware
    from catdiag.planner.multi_kernel_plan import Plan
    from catdiag.planner.plan import KernelPlan
    from catdiag.rewrite.derivation import Derivation

_WHOLE = (
    "Unfused: each box is a kernel of its own, which moves each array that it reads or makes once, as if it all fit."
)
_ROW = 0.2
"""The height of a row in inches."""
_HATCH = {"loads": "", "saves": HATCHES[0]}
_ROWS = 16
"""The most arrays with a row of their own; the remaining, smallest ones share one."""


@dataclass(frozen=True)
class TransferChange:
    """The traffic of an array unfused and fused: pairs of loads and of saves."""

    array: str
    loads: tuple[int, int]
    saves: tuple[int, int]

    @property
    def before(self) -> int:
        """Loads and saves unfused."""
        return self.loads[0] + self.saves[0]

    @property
    def after(self) -> int:
        """Loads and saves fused."""
        return self.loads[1] + self.saves[1]

    @property
    def more(self) -> int:
        """The increase of traffic by fusion."""
        return self.after - self.before


@dataclass(frozen=True)
class EdgeTransfers:
    """An edge: the traffic of each array across it, in program order; the totals are the sums."""

    name: str
    changes: tuple[TransferChange, ...]

    @property
    def before(self) -> int:
        """The total traffic unfused."""
        return sum(change.before for change in self.changes)

    @property
    def after(self) -> int:
        """The total traffic fused."""
        return sum(change.after for change in self.changes)

    @property
    def ratio(self) -> float:
        """The ratio of unfused to fused traffic."""
        return self.before / self.after


@dataclass(frozen=True)
class Waterfall:
    """The data of a waterfall, in `unit`; `floor` is the compulsory traffic."""

    title: str
    subtitle: str
    unit: str
    edges: tuple[EdgeTransfers, ...]
    floor: int
    caption: tuple[str, ...]


def waterfall_of(
    derivation: Derivation | Any,
    sizes: Mapping[str, int],
    dtype: str | Mapping[str, str] | None = None,
    *,
    tiles: Mapping[str, int] | None = None,
    plan: Plan | KernelPlan | None = None,
    chip: Hardware | str | None = None,
) -> Waterfall:
    """The data of `waterfall`, without a figure. Raises CatdiagError for what has groups or loops already, and for a
    tile without a size."""
    source = source_of(derivation)
    if source is None:
        raise CatdiagError(
            f"{name_of(derivation)} has groups or loops already: expected a derivation, which knows the unfused source"
        )
    own = None if plan is None else one_kernel(plan, "this plot")
    if own is None and chip is not None:
        dtype = "bf16" if dtype is None else dtype
        own = fit(derivation, chip, sizes, dtype=dtype)
    after = io(derivation, dtype=dtype)
    names = [str(s) for s in (*after.groups, *after.streams)]
    chosen = dict(tiles or {}) or (dict(own.tiles) if own is not None else {})
    if missing := [name for name in names if name not in chosen]:
        raise CatdiagError(
            f"no size was given for the tile {missing[0]!r}: give tiles= for {', '.join(names)}, or a plan=, or a chip="
        )
    fused = moved(after.traffic, {**sizes, **chosen})
    edges: tuple[EdgeTransfers, ...]
    if own is None or dtype is None:
        edges = (EdgeTransfers("slow memory → on chip", _changes(_unfused_transfers(source, dtype, sizes), fused)),)
        notes = [_WHOLE]
    else:
        edges, notes = _planned(derivation, source, own, chip, dtype, fused)
    floor = int(at(lower_bound(source, dtype=dtype).compulsory, sizes))
    said = "values" if dtype is None else dtype if isinstance(dtype, str) else listed(dtype)
    subtitle = f"{listed(sizes)}; {said}; {listed(chosen)}" + (f"; {own.hardware}" if own is not None else "")
    title = f"{name_of(derivation)}: {after.unit} moved, unfused and fused"
    return Waterfall(title, subtitle, after.unit, edges, floor, tuple(notes))


def _planned(
    derivation: Any, source: Diagram, plan: KernelPlan, chip: Hardware | str | None, dtype: Dtype, fused: Moved
) -> tuple[tuple[EdgeTransfers, ...], list[str]]:
    """The edges of a plan: unfused kernels are planned too, or counted where they cannot be planned."""
    hardware = chip_of(plan, chip)
    called = {level.name: level.vendor_name or level.name for level in plan.levels}
    top, last = plan.edges[0], next(e for e in plan.edges if e.lower == "SMEM")
    inner_name, outer_name = (f"{called[e.upper]} → {called[e.lower]}" for e in (last, top))
    notes: list[str] = []
    try:
        symbols = unfused_schedule(source, hardware, plan.sizes, dtype, getattr(derivation, "ask", None))
    except CatdiagError as error:
        whole = _unfused_transfers(source, dtype, plan.sizes)
        first: tuple[Moved | None, Moved] = whole, whole
        notes += [_WHOLE, f"It is not planned: {error.message}."]
    else:
        first = symbols.outer, symbols.inner
        count = plural(len(symbols.stages), "stage")
        notes.append(f"Unfused: {count} of the program, each a kernel of its own with the tiles planned for it.")
    edges = [EdgeTransfers(inner_name, _changes(first[1], fused))]
    if top is not last:
        there = outer(derivation, plan, hardware, dtype)
        if there is None or first[0] is None:
            notes.append(f"Left out: {outer_name}, whose traffic is not counted by array.")
        else:
            edges = [EdgeTransfers(outer_name, _changes(first[0], there)), *edges]
            notes.append(f"{outer_name}: each tile is fetched once per wave of groups, in launch order.")
    return tuple(edges), notes


def _unfused_transfers(source: Diagram, dtype: Dtype, sizes: Mapping[str, int]) -> Moved:
    """The traffic of each array where each box is a kernel of its own; arrays with the same name are numbered."""
    account = measure(source, dtype, fused=False)
    moved = [t for kernel in account.kernels for t in kernel.transfers]
    wires: dict[str, list[int]] = {}
    for t in moved:
        if t.direction == "load" and t.wire not in wires.setdefault(t.array, []):
            wires[t.array].append(t.wire)
    found: Moved = {}
    saves: dict[str, int] = {}
    for t in moved:
        several = sorted(wires.get(t.array, []))
        if t.direction == "save":
            place = saves[t.array] = saves.get(t.array, -1) + 1
        else:
            place = several.index(t.wire)
        name = t.array if place == 0 else f"{t.array} ({place + 1})"
        there = found.setdefault(name, {"load": 0, "save": 0})
        there[t.direction] += int(t.size.value(sizes))
    return found


def _changes(before: Moved, after: Moved) -> tuple[TransferChange, ...]:
    nothing = {"load": 0, "save": 0}
    found = []
    for name in dict.fromkeys((*before, *after)):
        one, two = before.get(name, nothing), after.get(name, nothing)
        found.append(TransferChange(name, (one["load"], two["load"]), (one["save"], two["save"])))
    return tuple(found)


def waterfall(
    derivation: Derivation | Any,
    sizes: Mapping[str, int],
    dtype: str | Mapping[str, str] | None = None,
    *,
    tiles: Mapping[str, int] | None = None,
    plan: Plan | KernelPlan | None = None,
    chip: Hardware | str | None = None,
) -> Figure:
    """The traffic of the unfused and of the fused program, array by array, for each edge.

    Unfused is the source with a kernel per stage, planned on the chip of the plan; without a plan, with a kernel per
    box (`io(fused=False)`). Fused is the derivation at `tiles`, or at those of the `plan`, or of one that is made
    for the `chip`. Bars begin at the unfused total; savings are subtracted, and added traffic (tiles that are
    reloaded) is added. In values, or in bytes with `dtype`. With a plan there is a panel for each edge whose bytes are
    counted by array.

    Raises CatdiagError for a diagram whose source is not known, and where no tiles are given.
    """
    shown = waterfall_of(derivation, sizes, dtype, tiles=tiles, plan=plan, chip=chip)
    rows = [_rows(edge) for edge in shown.edges]
    heights = [_ROW * (len(found) + 2) + 0.1 for found in rows]
    with styled():
        figure, axes = panels(None, heights)
        for ax, edge, found in zip(axes, shown.edges, rows):
            _draw(ax, edge, found, shown.floor, "B" if shown.unit == "bytes" else "")
        _key(axes[0])
        return finish(figure, axes, heights, shown.title, shown.subtitle, shown.caption, True)


def _rows(edge: EdgeTransfers) -> list[TransferChange]:
    """The arrays whose traffic changes, those with the largest savings first; small ones together."""
    changed = sorted((c for c in edge.changes if c.more), key=lambda c: (c.more, c.array))
    small = 0.004 * max(edge.before, edge.after)
    ranked = sorted(changed, key=lambda c: -abs(c.more))
    rest = [c for k, c in enumerate(ranked) if abs(c.more) < small or k >= _ROWS]
    if len(rest) < 2:
        return changed
    loads = sum(c.loads[0] for c in rest), sum(c.loads[1] for c in rest)
    saves = sum(c.saves[0] for c in rest), sum(c.saves[1] for c in rest)
    others = TransferChange(f"{len(rest)} others", loads, saves)
    return [*(c for c in changed if c not in rest), others]


def _draw(ax: Axes, edge: EdgeTransfers, rows: Sequence[TransferChange], floor: int, unit: str) -> None:
    from matplotlib.ticker import FuncFormatter, MaxNLocator

    count, level = len(rows) + 2, edge.before
    _bar(ax, 0, 0, edge.before, "unfused", facecolor=INK)
    for place, change in enumerate(rows, 1):
        _link(ax, level, place)
        left = level
        for kind, (was, now) in (("loads", change.loads), ("saves", change.saves)):
            if was != now:
                less = now < was
                look = {"facecolor": PAPER if less else MORE, "edgecolor": SOFT if less else LEVELS[1]}
                _bar(ax, place, left, now - was, f"{change.array} {kind}", hatch=_HATCH[kind], **look)
                left += now - was
        said = f"{'−' if change.more < 0 else '+'}{quantity(abs(change.more), unit)}"
        _annotate(ax, max(level, left), place, said, SOFT)
        level = left
    _link(ax, level, count - 1)
    _bar(ax, count - 1, 0, edge.after, "fused", facecolor=LEVELS[1])
    _annotate(ax, edge.before, 0, quantity(edge.before, unit), INK)
    ratio = edge.ratio
    times = "as much" if ratio == 1 else f"{ratio:.3g} times less" if ratio > 1 else f"{1 / ratio:.3g} times as much"
    _annotate(ax, edge.after, count - 1, f"{quantity(edge.after, unit)}, {times}", INK)
    ax.plot([floor] * 2, [-0.6, count - 0.5], color=LEVELS[3], lw=1.0, linestyle=DASHES[1], gid="floor", zorder=4)
    ax.set_yticks(range(count), ["unfused", *(written(shortened(c.array)) for c in rows), "fused"])
    ax.set_ylim(count - 0.5, -0.6)
    ax.set_xlim(0, max(edge.before, edge.after) * 1.02)
    ax.xaxis.set_major_locator(MaxNLocator(6, steps=[1, 2, 2.5, 5, 10]))
    ax.xaxis.set_major_formatter(FuncFormatter(lambda value, _: quantity(value, unit)))
    dress(ax)
    ax.tick_params(axis="y", length=0)
    ax.set_title(edge.name, loc="left", fontsize=SIZE, pad=3)


def _bar(ax: Axes, place: int, left: float, width: float, name: str, **look: Any) -> None:
    ax.barh([place], [width], left=[left], height=0.62, lw=0.6, gid=name, **look)


def _link(ax: Axes, level: float, place: int) -> None:
    ax.plot([level, level], [place - 0.69, place - 0.31], color=SOFT, lw=0.5)


def _annotate(ax: Axes, x: float, place: int, text: str, color: str) -> None:
    ax.annotate(text, (x, place), xytext=(4, 0), textcoords="offset points", va="center", fontsize=SMALL, color=color)


def _key(ax: Axes) -> None:
    """The legend of the hatch and the dashes, at the right above the first panel."""
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    handles = [
        Patch(facecolor=PAPER, edgecolor=SOFT, lw=0.6, label="loads"),
        Patch(facecolor=PAPER, edgecolor=SOFT, lw=0.6, hatch=_HATCH["saves"], label="saves"),
        Patch(facecolor=MORE, edgecolor=LEVELS[1], lw=0.6, label="more than unfused"),
        Line2D([], [], color=LEVELS[3], lw=1.0, linestyle=DASHES[1], label="compulsory traffic"),
    ]
    key(ax, handles, above=16, columns=4)
