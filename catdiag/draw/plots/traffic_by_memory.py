"""Transfers against memory: the least transfers at every capacity, the regimes, and the lower bound."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from catdiag.bounds.lower_bound import assumptions, lower_bound
from catdiag.chip import hardware
from catdiag.chip.units import bytes_text
from catdiag.cost.traffic import IO, io
from catdiag.draw.plots.plot_numbers import at, name_of
from catdiag.draw.plots.plot_style import (
    BAND,
    DASHES,
    FAINT,
    HATCHES,
    INK,
    LEVELS,
    PAPER,
    SMALL,
    SOFT,
    decades,
    dress,
    finish,
    key,
    listed,
    panels,
    quantity,
    styled,
    text_width,
    wrapped,
    written,
)
from catdiag.rewrite.derivation import derivation_of
from catdiag.util.errors import CatdiagError, SizeError

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from catdiag.bounds.lower_bound import LowerBound
    from catdiag.chip.hardware import Hardware
    from catdiag.cost.traffic import IO
    from catdiag.optimum.regimes import Regime
    from catdiag.rewrite.derivation import Derivation

_HEIGHT = 3.3
_POINTS = 56
"""The number of capacities at which the closed form and the bound are evaluated, even in their logarithm."""
_SAMPLED = 9
"""The number of capacities at which the best integer tiles are searched."""
_BOXES = 1500
"""The most boxes of tiles in each search; tiles not proved to be best are drawn as such."""
_WIDE = 340.0
"""The least width of the axes, in points."""
NOTHING = "nothing fits"


@dataclass(frozen=True)
class Band:
    """A regime: its range of capacities, and the constraint that binds there."""

    start: float
    end: float
    binding: str


@dataclass(frozen=True)
class IntegerPoint:
    """The best integer tiles found for a capacity, their transfers, and a lower bound over all integer tiles."""

    capacity: int
    transfers: int
    lower_bound: int
    tiles: Mapping[str, int]

    @property
    def proved(self) -> bool:
        """Whether no integer tiles move less."""
        return self.lower_bound >= self.transfers


@dataclass(frozen=True)
class Capacities:
    """The data of a plot of transfers against memory, in `unit` (values or bytes).

    `curve` has the least transfers over real tiles by capacity, from closed forms; `bracketed` those without a closed
    form, certified from below to a millionth. `bound` is the lower bound, and `floor` the compulsory transfers.
    """

    title: str
    subtitle: str
    unit: str
    curve: tuple[tuple[int, float], ...]
    bracketed: tuple[tuple[int, float], ...]
    bands: tuple[Band, ...]
    integer_points: tuple[IntegerPoint, ...]
    bound: tuple[tuple[int, float], ...]
    floor: float | None
    marks: tuple[tuple[str, int], ...]
    caption: tuple[str, ...]


def capacities(
    derivation: Derivation | Any,
    sizes: Mapping[str, int],
    *,
    dtype: str | Mapping[str, str] | None = None,
    chip: Hardware | str | None = None,
    bound: LowerBound | None = None,
) -> Capacities:
    """The data of `transfers`, without a figure. Raises CatdiagError for a bound in another unit than the transfers."""
    if chip is not None and dtype is None and not isinstance(derivation, IO):
        dtype = "bf16"
    counted: IO = derivation if isinstance(derivation, IO) else io(derivation, dtype=dtype)
    _checked(counted, sizes)
    if bound is None and derivation is not counted:
        bound = lower_bound(derivation_of(derivation).operations, counted.capacity, dtype=dtype)
    if bound is not None and bound.unit != counted.unit:
        raise CatdiagError(f"the bound is in {bound.unit} and the transfers in {counted.unit}: give the same dtype")
    blocks = dict.fromkeys(map(str, counted.streams), 1)
    tiles = dict.fromkeys(map(str, counted.groups), 1)
    wholes = {str(tile): int(at(axis, sizes)) for tile, axis in counted.groups.items()}
    least = int(at(counted.memory, {**sizes, **blocks, **tiles}))
    most = max(least, int(at(counted.memory, {**sizes, **blocks, **wholes})))
    marks = _marks(chip, counted.unit)
    low = max(1, least // 4)
    high = max(4 * most, 8 * least, *(2 * m for _, m in marks if m < 2000 * most), 0)
    low = min([low, *(m // 2 for _, m in marks if m > low // 2000)])
    known = {**sizes, **blocks}
    notes = ["H* is over real tiles, with blocks of one; integer tiles and ceilings can only move more."]
    curve, bracketed, bands = _curve(counted, known, least, low, high, notes)
    whole = _integer_points(counted, sizes, [m for _, m in marks], least, min(high, 2 * most), notes)
    grid = sorted(m for m, _ in (*curve, *bracketed)) or [m for m in _grid(low, high) if m >= least]
    if bound is None:
        notes.append("No lower bound: transfers were given as formulas; give the derivation, or bound=.")
    below = () if bound is None else tuple((m, float(bound.at(sizes, m))) for m in grid)
    floor = None if bound is None else float(at(bound.compulsory, sizes))
    if marks and counted.accumulators == "level":
        notes.append("A group's memory is all that it allocates, accumulators included, in one memory.")
    notes += [_sentence(words) for words in (*counted.assumptions, *_assumed(bound))]
    said = "values" if dtype is None else dtype if isinstance(dtype, str) else listed(dtype)
    where = "" if chip is None else f"; marks of {_chip(chip).name}"
    subtitle = f"{listed(sizes)}; {said}{where}"
    name = "transfers" if derivation is counted else name_of(derivation)
    title = f"{name}: transfers against memory" if derivation is not counted else "Transfers against memory"
    return Capacities(title, subtitle, counted.unit, curve, bracketed, bands, whole, below, floor, marks, tuple(notes))


def _assumed(bound: LowerBound | None) -> list[str]:
    """The assumptions of a bound beyond the definition of a schedule: about masks, and loops that skip blocks."""
    return [] if bound is None else [a for a in bound.assumptions if a not in assumptions(bound.recompute)]


def _sentence(words: str) -> str:
    return f"{words[:1].upper()}{words[1:]}."


def _chip(chip: Hardware | str) -> Hardware:
    return hardware.get(chip)


def _checked(counted: IO, sizes: Mapping[str, int]) -> None:
    if not counted.groups:
        raise CatdiagError(
            "transfers do not depend on any tile, so there is nothing to plot against memory: group it first, "
            'as in .group("q")'
        )
    tiles = {*map(str, counted.groups), *map(str, counted.streams)}
    needed = {s.name for e in (counted.transfers, counted.memory, *counted.groups.values()) for s in e.free_symbols}
    missing = sorted(needed - tiles - set(sizes))
    if missing:
        raise SizeError(
            f"the size of {missing[0]!r} is missing: expected sizes for {', '.join(sorted(needed - tiles))}"
        )


def _marks(chip: Hardware | str | None, unit: str) -> tuple[tuple[str, int], ...]:
    """The shared memory, and registers, that a group may use on a chip."""
    if chip is None:
        return ()
    if unit != "bytes":
        raise CatdiagError("the memory of a chip is in bytes: count bytes, with dtype='bf16' or another")
    found = _chip(chip)
    registers = 4 * found.registers_per_sm
    name = found.word("SMEM")
    return ((name, found.smem_per_block), (f"{name} + registers", found.smem_per_block + registers))


def _grid(low: int, high: int, count: int = _POINTS) -> list[int]:
    ratio = (high / low) ** (1 / (count - 1))
    return sorted({round(low * ratio**k) for k in range(count)} | {low, high})


def _curve(
    counted: IO, known: Mapping[str, int], least: int, low: int, high: int, notes: list[str]
) -> tuple[tuple[tuple[int, float], ...], tuple[tuple[int, float], ...], tuple[Band, ...]]:
    """H* and its regimes on a grid that has points on both sides of every change of regime."""
    try:
        optimum = counted.optimum()
        regimes = optimum.regimes
    except ValueError as error:  # transfers or memory are no posynomials
        notes.append(f"H* has no formula: {str(error).splitlines()[0]}.")
        return (), (), (Band(low, least, NOTHING), Band(least, high, ""))
    room_of = counted.capacity
    put = {v: known[v.name] for v in optimum.program.symbols if v.name in known} if optimum.program else {}
    here = replace(regimes, regimes=tuple(_at(r, put) for r in regimes))
    origin = dict(zip(map(id, here.regimes), regimes))

    def regime(capacity: int) -> Any:
        found = here.at({**put, room_of: capacity})
        return origin.get(id(found), found)

    found = {m: regime(m) for m in _grid(low, high)}
    for before, after in zip(sorted(found), sorted(found)[1:]):
        start, end = before, after
        while end - start > 1 and end > start * 1.0005 and found[start] != found[end]:
            middle = (start + end) // 2
            found[middle] = regime(middle)
            start, end = (middle, end) if found[middle] == found[start] else (start, middle)
    curve: list[tuple[int, float]] = []
    bracketed: list[tuple[int, float]] = []
    bands: list[Band] = []
    for m in sorted(found):
        binds = found[m]
        words = _words(binds, room_of)
        if bands and bands[-1].binding == words:
            bands[-1] = replace(bands[-1], end=m)
        else:
            edge = m if not bands else (bands[-1].end + m) / 2
            bands = [*bands[:-1], *([Band(bands[-1].start, edge, bands[-1].binding)] if bands else [])]
            bands.append(Band(edge, m, words))
        if binds is None:
            bracket = optimum.bracket({**known, str(room_of): m})
            if bracket is not None:
                bracketed.append((m, float(bracket.lower)))
        elif binds.feasible:
            curve.append((m, float(at(binds.value, {**known, str(room_of): m}))))
    if bracketed:
        notes.append("Where no closed form is known H* is a certified bracket, drawn dashed.")
    return tuple(curve), tuple(bracketed), tuple(bands)


def _at(regime: Regime, sizes: Mapping[Any, int]) -> Regime:
    """A regime whose conditions depend on the capacity alone."""
    return replace(regime, conditions=tuple(c.subs(sizes) for c in regime.conditions))


def _words(regime: Regime | None, capacity: Any) -> str:
    if regime is None:
        return "no closed form"
    if not regime.feasible:
        return NOTHING
    return ", ".join("memory full" if c.fills(capacity) else str(c) for c in regime.active) or "everything fits"


def _integer_points(
    counted: IO, sizes: Mapping[str, int], marks: Sequence[int], least: int, high: int, notes: list[str]
) -> tuple[IntegerPoint, ...]:
    from catdiag.optimum.integer import integer_optimum

    bounds = {**counted.groups, **counted.streams}
    formulas = (counted.transfers, counted.memory, *bounds.values())
    free = {s for formula in formulas for s in formula.free_symbols} - set(bounds)
    known = {s: sizes[s.name] for s in free}
    found: list[IntegerPoint] = []
    for capacity in sorted({*_grid(least, max(high, 2 * least), _SAMPLED), *(m for m in marks if m >= least)}):
        try:
            best = integer_optimum(counted.transfers, [(counted.memory, capacity)], bounds, known, boxes=_BOXES)
        except ValueError:  # interval arithmetic does not cover the formula
            notes.append("Integer tiles are not searched: the formula of the transfers cannot be bounded on intervals.")
            return ()
        if best is not None:
            tiles = {str(tile): size for tile, size in best.tiles.items()}
            found.append(IntegerPoint(capacity, int(best.transfers), int(best.lower_bound), tiles))
    if not all(w.proved for w in found):
        notes.append("Hollow squares: best integer tiles found, with a bar down to their lower bound.")
    return tuple(found)


def transfers(
    derivation: Derivation | IO | Any,
    sizes: Mapping[str, int],
    *,
    dtype: str | Mapping[str, str] | None = None,
    chip: Hardware | str | None = None,
    bound: LowerBound | None = None,
    ax: Axes | None = None,
) -> Figure:
    """The least transfers for every memory, in log-log axes, with regimes, integer tiles and the lower bound.

    `derivation` is a derivation or diagram that runs in groups, or its `io`. The line is the optimum over real tiles in
    closed form (`io.optimum().regimes`). Bands name the constraint that binds. Squares are the best integer tiles. The
    lower bound is over all schedules (`lower_bound`), and the dashed floor is the compulsory traffic. In values, or in
    bytes with `dtype`; with a `chip` (bf16 by default) the memory that a group may use on it is marked.

    Raises CatdiagError where nothing depends on a tile, and for a bound in another unit; SizeError for missing sizes.
    """
    shown = capacities(derivation, sizes, dtype=dtype, chip=chip, bound=bound)
    with styled():
        figure, (axes,) = panels(ax, [_HEIGHT])
        _draw(axes, shown)
        letters = [
            f"{name}: {band.binding}" for band, name in _named(shown.bands, _WIDE) if len(name) == 1 and band.binding
        ]
        caption = [*(["; ".join(letters) + "."] if letters else []), *shown.caption]
        return finish(figure, [axes], [_HEIGHT], shown.title, shown.subtitle, caption, ax is None)


def _draw(ax: Axes, shown: Capacities) -> None:
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

    data = shown.unit == "bytes"
    low, high = shown.bands[0].start, shown.bands[-1].end
    ax.set_xscale("log", base=2 if data else 10)
    ax.set_yscale("log")
    ys = [h for series in (shown.curve, shown.bracketed, shown.bound) for _, h in series]
    ys += [float(w.transfers) for w in shown.integer_points] + ([shown.floor] if shown.floor else [])
    ax.set_xlim(low, high)
    ax.set_ylim(min(ys) / 2.5, max(ys) * 2)
    dress(ax)
    _bands(ax, shown)
    _draw_curves(ax, shown)
    _draw_integer_points(ax, shown)
    _draw_marks(ax, shown)
    ax.xaxis.set_major_locator(LogLocator(base=2 if data else 10, numticks=9))
    ax.xaxis.set_minor_formatter(NullFormatter())
    ax.xaxis.set_major_formatter(FuncFormatter(lambda value, _: bytes_text(value, 3) if data else quantity(value)))
    decades(ax.yaxis, "B" if data else "")
    ax.set_xlabel(f"memory of a group, {shown.unit}")
    ax.set_ylabel(f"transfers of the whole run, {shown.unit}")
    key(ax, above=26 if any("\n" in name for _, name in _named(shown.bands, _WIDE)) else 16)


def _draw_curves(ax: Axes, shown: Capacities) -> None:
    """The optimum, the lower bound and the compulsory traffic."""
    for run, closed in _runs(shown):
        name = "H*, closed form" if closed else "H*, bracketed"
        known = ax.get_legend_handles_labels()[1]
        ax.plot(
            *zip(*run),
            color=INK,
            lw=1.4,
            linestyle="solid" if closed else DASHES[2],
            zorder=3.2,
            label=None if name in known else name,
            gid="curve" if closed else "bracketed",
        )
    if shown.bound:
        look = {"color": LEVELS[3], "linestyle": DASHES[1], "label": "lower bound, any schedule", "gid": "bound"}
        ax.plot(*zip(*shown.bound), lw=1.4, zorder=3, **look)
    if shown.floor:
        ax.plot(
            ax.get_xlim(),
            [shown.floor] * 2,
            color=SOFT,
            lw=0.9,
            linestyle=DASHES[4],
            label="compulsory traffic",
            gid="floor",
        )


def _draw_integer_points(ax: Axes, shown: Capacities) -> None:
    """The best integer tiles; where they are not proved to be the best, with the bracket of the best."""
    for proved, name in ((True, "best integer tiles"), (False, "integer tiles found")):
        some = [w for w in shown.integer_points if w.proved == proved]
        if some:
            ax.plot(
                [w.capacity for w in some],
                [w.transfers for w in some],
                linestyle="none",
                marker="s",
                markersize=4,
                markerfacecolor=LEVELS[1] if proved else PAPER,
                markeredgecolor=LEVELS[1],
                zorder=4,
                label=name,
                gid=name,
            )
        if some and not proved:
            ends = [w.lower_bound for w in some], [w.transfers for w in some]
            ax.vlines([w.capacity for w in some], *ends, color=LEVELS[1], lw=0.8, zorder=3.5)


def _draw_marks(ax: Axes, shown: Capacities) -> None:
    """A line for each memory of the chip."""
    low, high = ax.get_xlim()
    for place, (name, capacity) in enumerate(shown.marks):
        if low <= capacity <= high:
            ax.axvline(capacity, color=LEVELS[2], lw=1.0, linestyle=DASHES[3], zorder=1)
            ax.annotate(
                f"{name}, {bytes_text(capacity, 3)}",
                (capacity, 1),
                xycoords=("data", "axes fraction"),
                xytext=(3 if place else -3, -4),
                textcoords="offset points",
                rotation=90,
                ha="left" if place else "right",
                va="top",
                fontsize=SMALL,
                color=LEVELS[2],
            )


def _runs(shown: Capacities) -> list[tuple[list[tuple[int, float]], bool]]:
    """The optimum in segments with or without a closed form; each begins where the previous one ends."""
    points = sorted([(*p, True) for p in shown.curve] + [(*p, False) for p in shown.bracketed])
    runs: list[tuple[list[tuple[int, float]], bool]] = []
    for capacity, least, closed in points:
        if not runs or runs[-1][1] != closed:
            runs.append((runs[-1][0][-1:] if runs else [], closed))
        runs[-1][0].append((capacity, least))
    return runs


def _bands(ax: Axes, shown: Capacities) -> None:
    """Shaded bands, labeled with what binds, or with letters that the caption explains where there is no room."""
    for place, (band, name) in enumerate(_named(shown.bands, _WIDE)):
        if band.binding == NOTHING:
            ax.axvspan(band.start, band.end, facecolor="none", edgecolor=FAINT, hatch=HATCHES[0], lw=0, zorder=0.4)
        elif place % 2:
            ax.axvspan(band.start, band.end, facecolor=BAND, edgecolor="none", zorder=0.3)
        if place:
            ax.axvline(band.start, color=FAINT, lw=0.6, zorder=0.5)
        lines = name.split("\n")
        for up, line in enumerate(reversed(lines)):
            ax.annotate(
                written(line),
                ((band.start * band.end) ** 0.5, 1),
                xycoords=("data", "axes fraction"),
                xytext=(0, 3 + up * 9),
                textcoords="offset points",
                ha="center",
                fontsize=SMALL,
                color=SOFT,
                gid="band",
            )


def _named(bands: Sequence[Band], wide: float) -> list[tuple[Band, str]]:
    """The label of each band: what binds in it, in up to two lines, or a letter where there is no room."""
    whole = math.log(bands[-1].end / bands[0].start)
    found = []
    for place, band in enumerate(bands):
        there = wide * math.log(band.end / band.start) / whole - 4
        lines = wrapped(band.binding, SMALL, there)
        fits = len(lines) <= 2 and all(text_width(line, SMALL) <= there for line in lines)
        found.append((band, "\n".join(lines) if fits else "abcdefghijklm"[place % 13]))
    return found
