"""All candidates of one call of `fit`: which fit, which is taken, and why the others are not."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from catdiag.category.integer_polynomial import IntPolynomial
from catdiag.chip.hardware import Hardware
from catdiag.planner.instruction_shapes import alignments, by_symbol, step
from catdiag.planner.plan import WHOLE, shown
from catdiag.planner.plan_request import Request
from catdiag.planner.resources.block_resources import entry
from catdiag.planner.resources.ideal_resources import IdealBlock, other_registers
from catdiag.planner.time_model.prediction import predict
from catdiag.planner.time_model.timing import Timing
from catdiag.schedule.kernel_analysis import Account, measure
from catdiag.schedule.lowered_kernel import LoweredKernel
from catdiag.schedule.placement import LEVEL, MATRIX, REGISTERS
from catdiag.schedule.split_k import joined
from catdiag.util.errors import CatdiagError, DoesNotFit

if TYPE_CHECKING:
    from catdiag.category.diagram import Diagram

_NEAR, _NOT_POWER_OF_TWO = 1.05, 1.5
_USED, _TIE = 0.9, 0.005  # the part of the cores that should have a group; and bytes moved count as alike within that
_GRID, _LONGEST = 300_000, 8192
MANY = 8
"""Times as many candidates as wanted are timed at most, where some axes can be left at one entry or whole."""
ENOUGH = 4096
"""Entries of a tile at least where nothing is loaded again for other tiles: beyond it, only one axis is tiled."""
SHORTEST_BLOCK = 16
"""Entries of a streamed block at least, or the whole axis."""


def group_candidates(size: int) -> list[int]:
    """Entries that a tile may have: powers of two, multiples of 16 (of 64 above 256) up to 1,024, and the whole."""
    found = {1 << k for k in range(size.bit_length()) if 1 << k <= size} | {size}
    found |= set(range(16, min(size, 256) + 1, 16)) | set(range(320, min(size, 1024) + 1, 64))
    return sorted(found)


def block_candidates(size: int, shortest: int = SHORTEST_BLOCK) -> list[int]:
    """The same from `shortest` to 8,192 (beyond which fewer iterations save nothing); the whole axis where it is
    shorter."""
    return [c for c in group_candidates(size) if shortest <= c <= _LONGEST or c == size < shortest]


@dataclass
class Choice:
    """One candidate: its stages, warps, tiles, and where it stands in a timing; `refused` says why it is not taken
    whatever its time, if so."""

    stages: int
    warps: int
    tiles: dict[str, int]
    timing: Timing
    index: int
    refused: str = ""

    @cached_property
    def prediction(self) -> Timing:
        """What it is predicted to do."""
        found: Timing = entry(self.timing, self.index)
        return found

    @property
    def seconds(self) -> float:
        """The predicted seconds of the run."""
        return float(entry(self.timing.seconds, self.index))

    @property
    def bytes_moved(self) -> float:
        """Bytes at the edge to shared memory."""
        return float(entry(self.timing.bytes_moved, self.index))

    @property
    def not_power_of_two(self) -> bool:
        """Whether a tile is no power of two."""
        return any(t & (t - 1) for t in self.tiles.values())


Found = list[tuple[int, int, dict[str, Any], Timing]]


class TileSearch:
    """All candidates of one call of `fit`."""

    def __init__(
        self,
        chip: Hardware,
        sizes: dict[str, int],
        accounts: Mapping[int, Account],
        dtypes: str | Mapping[str, str],
        diagram: Diagram,
        request: Request,
    ) -> None:
        self.chip, self.sizes, self.dtypes, self.diagram = chip, sizes, dtypes, diagram
        self.request = request
        self.split_loop = next(iter(accounts.values())).split_loop
        # Of a split loop: the kernel that merges the states of the parts.
        self.merging = {stages: a.kernels[1] for stages, a in accounts.items()} if self.split_loop else {}
        self.kernels: dict[int, LoweredKernel] = {stages: a.kernels[0] for stages, a in accounts.items()}
        for stages, merging in self.merging.items():
            if more := [tile for tile in merging.tiles if tile not in self.kernels[stages].tiles]:
                raise CatdiagError(
                    f"the kernel that merges parts runs in tiles of {', '.join(more)}, which the parts lack: fit plans "
                    "loops in parts that have all axes of the groups"
                )
        self.kernel = next(iter(self.kernels.values()))
        self.minimum = min(self.kernels)
        self.alignments = () if self.split_loop else alignments(self.kernel, chip)
        self.divisors = by_symbol(self.alignments)

    @cached_property
    def whole(self) -> LoweredKernel:
        """The kernel before its loop is split, to count its work."""
        diagram = self.diagram if self.split_loop is None else joined(self.diagram)
        return measure(diagram, self.dtypes, registers=True).kernels[0]

    def options(self) -> dict[str, list[int]]:
        """For each tile and block, by symbol, the entries that it may have."""
        shared = {t for moved in self.kernel.transfers if moved.direction == "load" for t in moved.reload_axes}
        single = self.split_loop.single if self.split_loop is not None else ()
        tiles = [tile for tile in self.kernel.tiles if tile not in single]
        found: dict[str, list[int]] = {}
        if self.split_loop is not None:
            longest = IntPolynomial.of(self.split_loop.axis_size).value(self.sizes)
            found[self.split_loop.parts] = [
                1 << k for k in range(longest.bit_length()) if 1 << k <= max(1, longest // 16)
            ]
        last = self._last(tiles) if not shared else []
        for tile in tiles:
            whole = self.kernel.tiles[tile]
            single_block = tile not in (shared or last) and not self.divisors.get(tile)
            size = int(whole.value(self.sizes))
            found[tile] = self._requested(tile, size, [1] if single_block else group_candidates(size))
        for block, whole in self.kernel.loops:
            size = math.ceil(whole.value(self.full(self.sizes)))
            found[block] = self._requested(block, size, block_candidates(size, self._shortest_block(block)))
        return found

    def _shortest_block(self, block: str) -> int:
        """The shortest block of a loop that is tried: one entry where the loop has matrix products, and no side of
        these needs more, since it has other axes too, or the products are a batch; and where windows that it reads in
        place are summed entry by entry."""
        ones = self.full({**self.sizes, **dict.fromkeys((*self.kernel.tiles, *(b for b, _ in self.kernel.loops)), 1)})
        products = [c for c in self.kernel.contractions if any(name == block for name, _ in c.loops)]
        sides = [side for c in products for side in (c.rows, c.columns, c.depth) if block in side.symbols()]
        long = bool(products) and all(side.value(ones) >= SHORTEST_BLOCK for side in sides)
        windows = [] if self.kernel.contractions else self.kernel.gathered_loads
        long |= any(name == block for load in windows for name, _ in load.loops)
        return 1 if long else SHORTEST_BLOCK

    def _last(self, tiles: Sequence[str]) -> list[str]:
        """The last tiles, as many as it takes for `ENOUGH` entries of the largest array of which a tile is loaded."""
        known = self.full(
            {**self.sizes, **dict.fromkeys(tiles, 1), **{b: SHORTEST_BLOCK for b, _ in self.kernel.loops}}
        )
        loaded = (array.size.value(known) for part in self.kernel.parts for array in part.loads())
        entries, found = max(loaded, default=1), list[str]()
        for tile in reversed(tiles):
            if found and entries >= ENOUGH:
                break
            found.append(tile)
            entries *= self.kernel.tiles[tile].value(self.sizes)
        return found

    def _requested(self, name: str, size: int, usual: list[int]) -> list[int]:
        """The candidates of a tile of an axis of that size, as the request wants them."""
        asked = self.request
        if name in asked.tiles:
            return [min(asked.tiles[name], size)]
        every = asked.multiples.get(name, 0)
        if not every and asked.objective != "time" and usual != [1]:
            every = step(name, self.divisors)
            every = every if every > 1 else 16
        found = usual
        if every:
            found = list(range(every, min(size, _LONGEST) + 1, every))
            if name not in asked.multiples:
                found = sorted({*found, *usual})
            elif size <= every:
                found = [size]
        least = min(asked.at_least.get(name, 1), size)
        return [n for n in found if n >= least] or [size]

    def full(self, values: Mapping[str, Any]) -> dict[Any, Any]:
        """The values of all symbols, those of a split loop too: a part's length on average, and what is always 1."""
        if self.split_loop is None:
            return {**self.request.shares, **values}
        parts = values.get(self.split_loop.parts, 1)
        length = IntPolynomial.of(self.split_loop.axis_size).value(values) / parts
        known = {
            self.split_loop.parts: parts,
            self.split_loop.length: length,
            **dict.fromkeys(self.split_loop.single, 1),
        }
        return {**self.request.shares, **known, **values}

    def fitting(self, stages: int, values: Mapping[str, Any], warps: int) -> Any:
        """Whether the kernel, and the one that merges its parts, fit."""
        ok: Any = True
        for block in self.blocks(stages):
            ok = ok & block.resources(self.full(values), warps).fits(self.chip)
        return ok

    def blocks(self, stages: int) -> list[IdealBlock]:
        """The blocks of the kernel with so many buffers, and of the one that merges its parts."""
        kernels = [self.kernels[stages], *([self.merging[stages]] if self.merging else [])]
        return [IdealBlock(kernel, self.chip, self.request.producers) for kernel in kernels]

    def predicted(self, stages: int, values: Mapping[str, Any], warps: int) -> Timing:
        """What a run takes; of a split loop, both kernels after one another, on chip the larger one."""
        whole, ideal = self.full(values), self.request.ideal
        first = predict(self.kernels[stages], self.chip, whole, stages, warps, ideal)
        if not self.merging:
            return first
        return first.then(predict(self.merging[stages], self.chip, whole, stages, warps, ideal))

    def grid(self, most: int = _GRID) -> tuple[dict[str, Any], dict[str, int]]:
        """The candidates as arrays, and the smallest. What does not fit beside the smallest others is left out; of more
        than `most` candidates, those that are no power of two and no whole axis; and of more than `MANY` times as many,
        for the axes with the fewest, all but the smallest and the largest."""
        options = self.options()
        smallest = {name: values[0] for name, values in options.items()}
        for name, values in options.items():
            tried = {**self.sizes, **smallest, name: np.array(values, dtype=np.int64)}
            fit_at_all = np.zeros(len(values), dtype=bool)
            for warps in self.request.warps:
                fit_at_all |= np.broadcast_to(self.fitting(self.minimum, tried, warps), fit_at_all.shape)
            options[name] = [v for v, ok in zip(values, fit_at_all, strict=True) if ok]
            if not options[name]:
                raise self.refusal(smallest)
        if math.prod(map(len, options.values())) > most:
            for name, values in options.items():
                last = values[-1]
                options[name] = [v for v in values if v & (v - 1) == 0 or v == last]
        for name in sorted(options, key=lambda name: len(options[name])):
            if math.prod(map(len, options.values())) > MANY * most:
                options[name] = [options[name][0], options[name][-1]][: len(options[name])]
        axes = np.meshgrid(*(np.array(v, dtype=np.int64) for v in options.values()), indexing="ij") if options else []
        return {name: axis.ravel() for name, axis in zip(options, axes, strict=True)}, smallest

    def aligned(self, grid: Mapping[str, Any], warps: int) -> Any:
        """Which candidates are in the pieces that the chip wants, or have whole axes, or are as asked."""
        workers = max(1, warps // self.chip.matrix_warps)
        values = {**self.sizes, **grid}
        ranges = {**self.kernel.tiles, **dict(self.kernel.loops)}
        ok: Any = True
        for wanted in self.alignments:
            whole: Any = True
            for name in wanted.size.symbols() & set(ranges):
                given = name in self.request.tiles or name in self.request.multiples
                whole = whole & (np.asarray(values[name] >= ranges[name].value(self.sizes)) | given)
            piece = wanted.multiple * (workers if wanted.per_worker else 1)
            ok = ok & (np.asarray(wanted.size.value(values) % piece == 0) | whole)
        return ok

    def refusal(self, smallest: Mapping[str, int]) -> DoesNotFit:
        """Why nothing fits: what each array of the smallest tile takes, where it is too much."""
        kernel, values = self.kernels[self.minimum], self.full({**self.sizes, **smallest})
        chip = self.chip
        limits = {
            LEVEL: (f"{chip.smem_per_block:,} bytes of {chip.word('SMEM')} a thread block", chip.smem_per_block),
            REGISTERS: (f"{4 * chip.registers_per_sm:,} bytes of registers", 4 * chip.registers_per_sm),
            MATRIX: (f"{chip.tmem_per_sm:,} bytes of {chip.word('TMEM')}", chip.tmem_per_sm),
        }
        excess = 0.0
        tile = f"smallest tile, {shown(smallest)}," if smallest else "diagram, which has no groups and no stream,"
        lines = [f"nothing fits {chip.name}: the {tile} needs"]
        for place, (words, limit) in limits.items():
            moments = kernel.points.get(place, [])
            if not moments:
                continue
            worst = max(moments, key=lambda m: int(m.total.value(values)))
            total = int(worst.total.value(values))
            excess = max(excess, total / limit) if limit else excess
            verdict = "too much for" if total > limit else "of"
            lines.append(f"  {total:,} bytes, {verdict} {words}:")
            lines += [f"    {int(a.value(values)):>16,}  {name} ({role})" for name, role, a in worst.live]
        lines.append(
            f"beside arrays a thread takes {other_registers(self.request.producers)} of its at most "
            f"{chip.registers_per_thread} registers; "
            "stream an axis, or group more axes, for smaller tiles"
        )
        error = DoesNotFit("\n".join(lines))
        error.excess = excess
        return error

    def choices(self, most: int = _GRID) -> Found:
        """Timings of all candidates that fit, by stages and warps; those in whole pieces only, if there are any. `most`
        is as in `grid`."""
        grid, smallest = self.grid(most)
        shape = next((axis.shape for axis in grid.values()), (1,))
        ways: list[Callable[[int], Any]] = [  # pieces for each of the warps, or for one, or none
            lambda warps: self.aligned(grid, warps),
            lambda _: self.aligned(grid, 1),
            lambda _: True,
        ]
        for only in ways:
            found: Found = []
            for stages in self.kernels:
                for warps in self.request.warps:
                    values = {**self.sizes, **grid}
                    # What fits may depend on no tile at all.
                    ok = np.broadcast_to(self.fitting(stages, values, warps) & only(warps), shape)
                    if not ok.any():
                        continue
                    kept = {name: axis[ok] for name, axis in grid.items()}
                    timing = self.predicted(stages, {**self.sizes, **kept}, warps)
                    found.append((stages, warps, kept, timing))
            if found:
                return found
        raise self.refusal(smallest)

    def of_tiles(self, found: Found) -> Found:
        """Timings of candidates of another kernel with the same tiles and blocks; those of parts of a loop are this
        one's own. Raises DoesNotFit where none of them fits."""
        timed: Found = []
        parts = {} if self.split_loop is None else {self.split_loop.parts: self.options()[self.split_loop.parts]}
        unknown = set() if self.split_loop is None else set(self.split_loop.single)
        for stages, warps, tiles, _ in found:
            known = {name: axis for name, axis in tiles.items() if name not in unknown}
            for name, numbers in parts.items():
                if name in known:
                    continue
                count = len(next(iter(known.values()), [0]))
                known = {n: np.tile(axis, len(numbers)) for n, axis in known.items()}
                known = {name: np.repeat(np.array(numbers, dtype=np.int64), count), **known}
            shape = next((axis.shape for axis in known.values()), (1,))
            fits = np.broadcast_to(self.fitting(stages, {**self.sizes, **known}, warps), shape)
            if fits.any():
                known = {name: axis[fits] for name, axis in known.items()}
                timed.append((stages, warps, known, self.predicted(stages, {**self.sizes, **known}, warps)))
        if not timed:
            raise self.refusal({name: values[0] for name, values in self.options().items()})
        return timed

    def keys(self, kept: Mapping[str, Any], timing: Timing, stages: int) -> list[Any]:
        """What candidates are sorted by: the least first."""
        moved = timing.bytes_moved
        if self.request.objective == "time":
            return [timing.seconds, moved]
        if self.request.objective == "traffic":
            return [moved, timing.seconds]
        if self.request.objective == "stages":
            return [-stages, timing.seconds, moved]
        points: Any = 1
        for tile in kept.values():
            points = points * tile
        return [-np.asarray(points), moved, timing.seconds]

    def rank(self, choice: Choice) -> tuple[Any, ...]:
        """What a candidate is sorted by: the least first."""
        keys = self.keys(dict(choice.tiles), choice.timing, choice.stages)
        return (*(entry(key, choice.index) for key in keys), choice.warps, choice.stages, sorted(choice.tiles.items()))

    def quickest_of(self, found: Found) -> Choice:
        """By time, with the preferences that `catdiag.planner.fit` states."""
        best = min(float(np.min(timing.seconds)) for *_, timing in found)
        close: list[Choice] = []
        for stages, warps, kept, timing in found:
            seconds = np.atleast_1d(timing.seconds)
            for place in np.flatnonzero(seconds <= best * _NOT_POWER_OF_TWO * _NEAR):
                close.append(choice_at(stages, warps, kept, timing, int(place)))
        even = [c for c in close if not c.not_power_of_two and c.seconds <= best * _NOT_POWER_OF_TWO]
        pool = even or close
        quickest = min(c.seconds for c in pool)
        return min(
            (c for c in pool if c.seconds <= quickest * _NEAR),
            key=lambda c: (
                c.warps,
                round(math.log(c.bytes_moved + 1) / _TIE),
                entry(c.timing.groups, c.index) < _USED * self.chip.sms,
                entry(c.timing.iterations, c.index),
                c.stages,
                c.seconds,
                sorted(c.tiles.items()),
            ),
        )

    def stops(self, choice: Choice) -> dict[str, str]:
        """For each tile what stops a larger one: the level that it would overflow, or the end of the axis."""
        found: dict[str, str] = {}
        ranges = {**self.kernel.tiles, **dict(self.kernel.loops)}
        for name, tile in choice.tiles.items():
            if name not in ranges:
                continue
            size = math.ceil(ranges[name].value(self.full({**self.sizes, **choice.tiles})))
            if tile >= size:
                found[name] = WHOLE
                continue
            every = self.request.multiples.get(name) or step(name, self.divisors)
            larger = min(size, tile + (every if every > 1 else tile))
            values = self.full({**self.sizes, **choice.tiles, name: larger})
            over = self._over(choice, values)
            found[name] = f"{name}={larger} " + (f"overflows {'; '.join(over)}" if over else "fits too")
        more, capacity = self._one_more_buffer(choice), self.chip.smem_per_block
        if more is not None:
            said = (
                f"overflows {self.chip.word('SMEM')} ({more:,} of {capacity:,} bytes)"
                if more > capacity
                else "fits too"
            )
            found["stages"] = f"stages={choice.stages + 1} {said}"
        return found

    def _one_more_buffer(self, choice: Choice) -> int | None:
        """Bytes of shared memory with one more buffer of each streamed block; None where nothing is streamed."""
        values = self.full({**self.sizes, **choice.tiles})
        most, streams = 0, False
        for moment in self.kernels[choice.stages].points[LEVEL]:
            staged = sum(int(a.value(values)) for _, role, a in moment.live if role == "streamed")
            streams = streams or bool(staged)
            most = max(most, int(moment.total.value(values)) + staged // choice.stages)
        return most if streams else None

    def _over(self, choice: Choice, values: Mapping[str, Any]) -> list[str]:
        blocks = self.blocks(choice.stages)
        return [word for block in blocks for word in block.resources(values, choice.warps).overflows(self.chip)]


def some(found: Found, which: Sequence[Any]) -> Found:
    """Those timed candidates for which an array of truth values holds, one array for each entry."""
    chosen: Found = []
    for (stages, warps, tiles, timing), ok in zip(found, which, strict=True):
        if np.any(ok):
            chosen.append((stages, warps, {name: axis[ok] for name, axis in tiles.items()}, timing))
    return chosen


def choice_at(stages: int, warps: int, kept: Mapping[str, Any], timing: Timing, place: int) -> Choice:
    """The candidate at a place of a grid of tiles."""
    return Choice(stages, warps, {name: int(axis[place]) for name, axis in kept.items()}, timing, place)
