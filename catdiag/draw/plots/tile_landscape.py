"""The landscape of tiles: predicted time and traffic of each choice of two tiles, and where nothing fits."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from catdiag.category.formula_names import name_parts
from catdiag.draw.plots.plot_numbers import name_of
from catdiag.draw.plots.plot_style import (
    HATCHES,
    INK,
    LEVELS,
    PAPER,
    SHADES,
    SMALL,
    SOFT,
    decades,
    dress,
    figure_of,
    finish,
    key,
    listed,
    panels,
    quantity,
    shades,
    styled,
    written,
)
from catdiag.planner.explanation import best_plan
from catdiag.planner.fit import searching
from catdiag.planner.multi_kernel_plan import one_kernel
from catdiag.planner.plan import TRITON
from catdiag.planner.resources.block_resources import peak_bytes
from catdiag.schedule.placement import LEVEL, MATRIX
from catdiag.util.errors import CatdiagError

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from catdiag.chip.hardware import Hardware
    from catdiag.planner.multi_kernel_plan import Plan
    from catdiag.planner.plan import KernelPlan
    from catdiag.planner.tile_search import TileSearch
    from catdiag.rewrite.derivation import Derivation

_HEIGHT, _LOW = 3.6, 1.7
_MOST = 12_000
"""The most choices of all tiles that are evaluated for each number of buffers and warps."""
STEPS = (1.0, 1.05, 1.1, 1.25, 1.5, 2.0, 3.0, 5.0, 10.0)
"""The times, as multiples of the least time, at which the shade changes."""


@dataclass(frozen=True, eq=False)
class Landscape:
    """The data of a landscape: for each choice of one or two tiles, the best choice of the rest.

    `values` are the sizes of each of the `tiles`. `seconds` is the predicted time (infinite where nothing fits),
    `moved` the least bytes that cross the edge to shared memory, `exceeded` the memory that is too small for every
    choice of the rest ("" where one fits): arrays with one axis per tile. `chosen` and `minimum_traffic` are the plan's
    tiles and those of least traffic. `places` are the memories that may be exceeded, in the chip's terms.
    """

    title: str
    subtitle: str
    tiles: tuple[str, ...]
    values: tuple[tuple[int, ...], ...]
    seconds: Any
    moved: Any
    exceeded: Any
    chosen: tuple[int, ...]
    minimum_traffic: tuple[int, ...]
    plan: KernelPlan
    places: tuple[str, ...]
    caption: tuple[str, ...]


def landscape_of(
    derivation: Derivation | Any,
    chip: Hardware | str,
    sizes: Mapping[str, int],
    dtype: str | Mapping[str, str] = "bf16",
    *,
    tiles: Sequence[str] | None = None,
    plan: Plan | KernelPlan | None = None,
    **options: Any,
) -> Landscape:
    """The data of `landscape`, without a figure. Raises CatdiagError for a plan of another chip or other sizes."""
    import numpy as np

    search = searching(derivation, chip, sizes, dtype, **options)
    asked = None if plan is None else one_kernel(plan, "this plot")
    if asked is not None and (asked.hardware != search.chip.name or dict(asked.sizes) != search.sizes):
        raise CatdiagError(
            f"the plan is for {asked.hardware} at {listed(asked.sizes)}, and the landscape for {search.chip.name} at "
            f"{listed(search.sizes)}: give the plan of these, or none"
        )
    plan = best_plan(search) if asked is None or asked.backend == TRITON else asked
    all_options = search.options()
    for name, values in all_options.items():
        all_options[name] = sorted({*values, plan.tiles[name], plan.minimum_traffic.tiles[name]})
    names = _names(all_options, tiles, search, plan)
    others = _thinned_options(all_options, names, plan)
    every = {**{n: all_options[n] for n in names}, **others}
    grid, seconds, moved = _evaluated(search, every)
    full = tuple(len(v) for v in every.values())
    rest = tuple(range(len(names), len(full)))
    seconds, moved = seconds.min(axis=rest), moved.min(axis=rest)
    exceeded = np.where(np.isinf(seconds), _exceeded(search, grid, full, rest), "")
    caption = _caption(plan, others, float(np.min(seconds)), asked)
    name = name_of(derivation)
    return Landscape(
        title=f"{name} on {plan.hardware}: predicted time by tiles",
        subtitle=f"{listed(plan.sizes)}; {plan.dtype}",
        tiles=names,
        values=tuple(tuple(all_options[n]) for n in names),
        seconds=seconds,
        moved=moved,
        exceeded=exceeded,
        chosen=tuple(plan.tiles[n] for n in names),
        minimum_traffic=tuple(plan.minimum_traffic.tiles[n] for n in names),
        plan=plan,
        places=_places(search.chip),
        caption=caption,
    )


def _thinned_options(
    options: Mapping[str, Sequence[int]], names: Sequence[str], plan: KernelPlan
) -> dict[str, list[int]]:
    """Sizes of the tiles that are not shown: so few that all choices can be evaluated, the plan's among them."""
    others = {name: _thinned(values) for name, values in options.items() if name not in names}
    cells = math.prod(len(options[name]) for name in names)
    while others and cells * math.prod(len(v) for v in others.values()) > _MOST:
        longest = max(others, key=lambda n: len(others[n]))
        if len(others[longest]) < 2:
            break
        others[longest] = others[longest][::2]
    return {n: sorted({*values, plan.tiles[n], plan.minimum_traffic.tiles[n]}) for n, values in others.items()}


def _evaluated(search: TileSearch, every: Mapping[str, Sequence[int]]) -> tuple[dict[str, Any], Any, Any]:
    """All choices of tiles, as one array for each tile; the least time of each, and the least bytes that it moves.

    The last two have an axis for each tile, and are infinite where nothing fits. The least is taken over the numbers of
    buffers and of warps.
    """
    import numpy as np

    full = tuple(len(v) for v in every.values())
    mesh = np.meshgrid(*(np.array(v, dtype=np.int64) for v in every.values()), indexing="ij")
    grid = {name: axis.ravel() for name, axis in zip(every, mesh)}
    seconds, moved = np.full(full, np.inf), np.full(full, np.inf)
    for stages in search.kernels:
        for warps in search.request.warps:
            found = search.predicted(stages, {**search.sizes, **grid}, warps)
            fit = np.broadcast_to(search.fitting(stages, grid | search.sizes, warps), mesh[0].size)
            time = np.where(fit, np.broadcast_to(found.seconds, mesh[0].size), np.inf)
            seconds = np.minimum(seconds, time.reshape(full))
            moved = np.minimum(moved, np.broadcast_to(found.bytes_moved, mesh[0].size).reshape(full))
    return grid, seconds, moved


def _names(
    options: Mapping[str, Sequence[int]], asked: Sequence[str] | None, search: TileSearch, plan: KernelPlan
) -> tuple[str, ...]:
    """The tiles to plot: those asked for, or the two on which the plan's time depends most."""
    if asked is not None:
        listed_tiles = (asked,) if isinstance(asked, str) else tuple(asked)
        for name in listed_tiles:
            if name not in options:
                known = ", ".join(options) or "none"
                raise CatdiagError(f"tiles names {name!r}, which the diagram lacks: its tiles and blocks are {known}")
        if not 1 <= len(set(listed_tiles)) == len(listed_tiles) <= 2:
            raise CatdiagError(f"tiles is {asked!r}: expected one tile or two different ones")
        return listed_tiles
    free = [name for name, values in options.items() if len(values) > 1]
    if not free:
        raise CatdiagError(f"there is no tile to choose on {plan.hardware} at these sizes: nothing to plot")
    ranked = sorted(free, key=lambda name: -_time_range(name, options[name], search, plan))
    return tuple(name for name in free if name in ranked[:2])


def _time_range(name: str, values: Sequence[int], search: TileSearch, plan: KernelPlan) -> float:
    """The ratio of the worst to the best time over the sizes of a tile that fit with the plan's other tiles."""
    import numpy as np

    tried = {**search.sizes, **plan.tiles, name: np.array(values, dtype=np.int64)}
    warps = plan.threads // plan.warp
    fit = np.broadcast_to(search.fitting(plan.stages, tried, warps), len(values))
    seconds = np.broadcast_to(search.predicted(plan.stages, tried, warps).seconds, len(values))[fit]
    return float(seconds.max() / seconds.min()) if seconds.size else 1.0


def _thinned(values: Sequence[int]) -> list[int]:
    """The powers of two, and the ends."""
    return [v for v in values if not v & (v - 1) or v in (values[0], values[-1])]


def _exceeded(search: TileSearch, grid: Mapping[str, Any], full: tuple[int, ...], rest: tuple[int, ...]) -> Any:
    """The memory that is too small even at the smallest choice of the rest, where no choice fits."""
    import numpy as np

    chip, size = search.chip, int(np.prod(full))
    values = search.full({**search.sizes, **grid})
    kernels = [[search.kernels[s], *([search.merging[s]] if search.merging else [])] for s in search.kernels]

    def over(place: str, limit: int) -> Any:
        """Whether every choice of the rest exceeds a memory."""
        allocated = [[np.broadcast_to(peak_bytes(kernel, place, values), size) for kernel in some] for some in kernels]
        least = np.minimum.reduce([np.maximum.reduce(some) for some in allocated])
        return least.reshape(full).min(axis=rest) > limit

    short = np.ones(size, dtype=bool)
    for stages, warps in itertools.product(search.kernels, search.request.warps):
        taken = [block.resources(values, warps) for block in search.blocks(stages)]
        fit = [np.broadcast_to(found.registers_per_thread <= found.most_registers, size) for found in taken]
        short &= ~np.logical_and.reduce(fit)
    smem, matrix = over(LEVEL, chip.smem_per_block), over(MATRIX, chip.tmem_per_sm)
    registers = short.reshape(full).all(axis=rest)
    names = _places(chip)
    return np.where(matrix, names[3], np.where(smem, np.where(registers, names[2], names[0]), names[1]))


def _places(chip: Hardware) -> tuple[str, ...]:
    smem, registers, matrix = (chip.word(place) for place in ("SMEM", "registers", "TMEM"))
    return smem, registers, f"{smem} and {registers}", matrix


def _caption(
    plan: KernelPlan, others: Mapping[str, Sequence[int]], quickest: float, asked: KernelPlan | None
) -> tuple[str, ...]:
    rest = ["buffers", "threads", *others]
    best = f"{', '.join(rest[:-1])} and {rest[-1]}"
    lines = [f"At each point the best choice of {best} that fits. Contours: bytes that cross into shared memory."]
    if plan.time_s > quickest * 1.0005:
        lines.append(
            f"The plan takes {plan.time_s / quickest:.2f} times the least: of times that are close, it prefers tiles "
            "in powers of two and in instruction shapes of the matrix units, fewer threads and fewer bytes."
        )
    lines.append("Times and what fits are those of the ideal model, which knows no compiler.")
    if asked is not None and asked.backend == TRITON:
        lines.append(f"What is written for Triton has tiles {listed(asked.tiles)}.")
    least = plan.minimum_traffic
    if least.bytes_moved < plan.bytes_moved:
        lines.append(f"Fewest bytes: {least.reason}.")
    return tuple(lines)


def landscape(
    derivation: Derivation | Any,
    chip: Hardware | str,
    sizes: Mapping[str, int],
    dtype: str | Mapping[str, str] = "bf16",
    *,
    tiles: Sequence[str] | None = None,
    plan: Plan | KernelPlan | None = None,
    ax: Axes | None = None,
    **options: Any,
) -> Figure:
    """Predicted time over two tiles of a kernel on a chip, where nothing fits, and the traffic as contours.

    `tiles` names one or two tiles or blocks (`("g_q", "s_x")`); by default the two on which the time depends most. At
    each point the best choice of the rest is taken. Where no choice fits, the point is hatched, by the memory that is
    too small. All is of the ideal model, whose choice and that of least traffic are marked: of `plan`, if it has
    made it with the same `options`, which are its own, and it is of that model. With one tile: time and bytes as lines.

    Raises as `Program.plan` does, and CatdiagError for tiles that the diagram lacks.
    """
    shown = landscape_of(derivation, chip, sizes, dtype, tiles=tiles, plan=plan, **options)
    heights = [_HEIGHT] if len(shown.tiles) == 2 else [_LOW, _LOW]
    with styled():
        figure, axes = panels(ax, heights)
        if len(shown.tiles) == 2:
            _draw(axes[0], shown)
        else:
            _draw_lines(axes, shown)
        return finish(figure, axes, heights, shown.title, shown.subtitle, shown.caption, ax is None)


def _edges(values: Sequence[int]) -> list[float]:
    """The borders between sizes, halfway in their logarithm."""
    between = [(a * b) ** 0.5 for a, b in pairwise(values)]
    if not between:
        return [values[0] / 1.4, values[0] * 1.4]
    return [values[0] ** 2 / between[0], *between, values[-1] ** 2 / between[-1]]


def _draw(ax: Axes, shown: Landscape) -> None:
    import numpy as np
    from matplotlib.cm import ScalarMappable
    from matplotlib.colors import BoundaryNorm, ListedColormap
    from matplotlib.patheffects import withStroke

    (xs, ys), best = shown.values, float(np.min(shown.seconds))
    colors, norm = shades(SHADES), BoundaryNorm([best * step for step in STEPS], SHADES, extend="max")
    ax.set_xscale("log", base=2)
    ax.set_yscale("log", base=2)
    ax.set_xlim(_edges(xs)[0], _edges(xs)[-1])
    ax.set_ylim(_edges(ys)[0], _edges(ys)[-1])
    # Each shade also covers all faster cells, so that no gaps show between cells.
    for shade in reversed(range(SHADES)):
        there = np.isfinite(shown.seconds) & (np.digitize(shown.seconds / best, STEPS) <= shade + 1)
        if there.any():
            ax.add_collection(_cells(_edges(xs), _edges(ys), there, facecolor=colors[shade], gid=f"time {shade}"))
    handles = _points(ax, shown, shown.chosen[1], shown.minimum_traffic[1])
    for what, hatch in _hatches(shown):
        ax.add_collection(_cells(_edges(xs), _edges(ys), shown.exceeded == what, hatch=hatch, edgecolor=SOFT))
        handles.append(_patch(what, hatch))
    moved = shown.moved.T
    levels = _round_levels(float(moved.min()), float(moved.max()))
    if levels and min(moved.shape) > 1:
        lines = ax.contour(xs, ys, moved, levels=levels, colors=[INK], linewidths=0.5, zorder=2)
        for text in ax.clabel(lines, fmt=lambda value: quantity(value, "B", 2), fontsize=6, inline_spacing=3):
            text.set_path_effects([withStroke(linewidth=1.6, foreground=PAPER)])
    for axis, values in ((ax.xaxis, xs), (ax.yaxis, ys)):
        _ticks(axis, values)
    ax.set_xlabel(_tile(shown.tiles[0]))
    ax.set_ylabel(_tile(shown.tiles[1]))
    dress(ax)
    bar = ax.inset_axes((1.03, 0, 0.028, 1))
    scale = figure_of(ax).colorbar(
        ScalarMappable(norm, ListedColormap(colors)), cax=bar, ticks=[best * step for step in STEPS], extend="max"
    )
    bar.set_yticklabels([f"{step:g}×" + (f"  {quantity(best, 's')}" if step == 1 else "") for step in STEPS])
    bar.tick_params(labelsize=SMALL, length=2, width=0.5)
    scale.outline.set_linewidth(0.5)
    key(ax, handles, columns=2)


def _tile(name: str) -> str:
    kinds = {"g": "group tile", "s": "stream block", "p": "parts"}
    return written(f"{kinds.get(name_parts(name).base, 'tile')} {name}")


def _points(ax: Axes, shown: Landscape, chosen: float, least: float) -> list[Any]:
    """The marks of the plan's choice and that of least traffic, at these heights."""
    handles: list[Any] = []
    for point, height, marker, name in (
        (shown.chosen, chosen, "D", "the plan"),
        (shown.minimum_traffic, least, "v", "fewest bytes"),
    ):
        handles += ax.plot(
            [point[0]],
            [height],
            linestyle="none",
            marker=marker,
            markersize=6.5,
            markerfacecolor=LEVELS[1] if marker == "D" else PAPER,
            markeredgecolor=INK,
            markeredgewidth=0.9,
            zorder=6 if marker == "D" else 5,
            label=written(f"{name}: {listed(dict(zip(shown.tiles, point)))}"),
            gid=name,
        )
    return handles


def _hatches(shown: Landscape) -> list[tuple[str, str]]:
    """The memories that are too small somewhere, each with a hatch of its own, the same on every chip."""
    found = sorted({str(what) for what in shown.exceeded.ravel()} - {""}, key=shown.places.index)
    return [(what, HATCHES[shown.places.index(what)]) for what in found]


def _patch(what: str, hatch: str) -> Any:
    from matplotlib.patches import Patch

    return Patch(facecolor=PAPER, edgecolor=SOFT, hatch=hatch, lw=0.4, label=f"does not fit {what}")


def _round_levels(low: float, high: float) -> list[float]:
    """Round numbers between two values, at most eight: 1, 2 and 5 times powers of ten, or powers of ten."""
    if not 0 < low < high:
        return []
    powers = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    for steps in ((1, 1.5, 2, 3, 5, 7), (1, 2, 5), (1, 3), (1,)):
        found = [step * 10.0**power for power in powers for step in steps]
        inside = [value for value in found if low * 1.02 < value < high / 1.02]
        if len(inside) <= 8:
            return inside
    return inside[:: -(-len(inside) // 8)]


def _cells(xs: Sequence[float], ys: Sequence[float], where: Any, **look: Any) -> Any:
    """The cells where a condition holds, as one shape, so that hatches are continuous."""
    from matplotlib.collections import PathCollection
    from matplotlib.path import Path

    corners: list[tuple[float, float]] = []
    codes: list[Any] = []
    for i, column in enumerate(where):
        j = 0
        while j < len(column):
            if not column[j]:
                j += 1
                continue
            end = j
            while end < len(column) and column[end]:
                end += 1
            corners += [(xs[i], ys[j]), (xs[i + 1], ys[j]), (xs[i + 1], ys[end]), (xs[i], ys[end]), (xs[i], ys[j])]
            codes += [Path.MOVETO, Path.LINETO, Path.LINETO, Path.LINETO, Path.CLOSEPOLY]
            j = end
    return PathCollection([Path(corners, codes)], **{"facecolor": "none", "edgecolor": "none", "lw": 0, **look})


def _ticks(axis: Any, values: Sequence[int]) -> None:
    from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator

    shown = _thinned(values)
    while len(shown) > 9:
        shown = [shown[0], *shown[2:-1:2], shown[-1]] if len(shown) % 2 else shown[::2]
    axis.set_major_locator(FixedLocator(shown))
    axis.set_minor_locator(NullLocator())
    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:.0f}"))


def _draw_lines(axes: Sequence[Axes], shown: Landscape) -> None:
    import numpy as np

    (xs,), borders = shown.values, _edges(shown.values[0])
    handles: list[Any] = []
    for ax, ys, unit in zip(axes, (shown.seconds, shown.moved), ("s", "B")):
        ax.set_xscale("log", base=2)
        ax.set_yscale("log")
        inside = [(x, float(y)) for x, y, time in zip(xs, ys, shown.seconds) if not np.isinf(time)]
        line = ax.plot(*zip(*inside), color=INK, lw=1.2, marker="o", markersize=2.6)
        line[0].set_gid("time" if unit == "s" else "moved")
        here = [float(ys[xs.index(point[0])]) for point in (shown.chosen, shown.minimum_traffic)]
        handles = _points(ax, shown, *here)
        for what, hatch in _hatches(shown):
            for k in np.flatnonzero(shown.exceeded == what):
                ax.axvspan(borders[k], borders[k + 1], facecolor="none", edgecolor=SOFT, hatch=hatch, lw=0, zorder=0.5)
            handles.append(_patch(what, hatch))
        heights = [y for _, y in inside]
        ax.set_ylim(min(heights) / 2.2, max(heights) * 2.2)
        ax.set_xlim(borders[0], borders[-1])
        decades(ax.yaxis, unit)
        _ticks(ax.xaxis, xs)
        dress(ax)
    axes[0].set_ylabel("predicted time")
    axes[1].set_ylabel("bytes to shared memory")
    axes[1].set_xlabel(_tile(shown.tiles[0]))
    key(axes[0], handles, columns=2)
