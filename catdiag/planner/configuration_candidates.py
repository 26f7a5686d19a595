"""Launch configurations that Triton can run, each with its predicted time: what `catdiag.planner.launch_configurations`
chooses from.

Tiles and blocks are powers of two. What a block takes of its core is as `catdiag.planner.resources` has it, and how
long a run takes as `catdiag.planner.time_model` has it: for Triton, or for Gluon where warps of their own load.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from itertools import chain
from typing import TYPE_CHECKING, Any

import numpy as np

from catdiag.category.integer_polynomial import IntPolynomial
from catdiag.planner.candidate_excess import Excess, refusal
from catdiag.planner.candidate_requests import GROUPS, ROWS, asked_options, check_request, odd_tiles
from catdiag.planner.configuration_proposal import Proposal
from catdiag.planner.configuration_ties import TIE, MemoryBoundTies
from catdiag.planner.instruction_shapes import upcast_by_warpgroups
from catdiag.planner.memory_sectors import cuts_of_rows, packed, whole_sector
from catdiag.planner.resources.dot_products import dot_products
from catdiag.planner.resources.emitted_smem import EmittedBlocks, SmemCount
from catdiag.planner.resources.gluon_resources import WARPS, GluonBlock
from catdiag.planner.resources.mfma_registers import WARP
from catdiag.planner.resources.triton_resources import MIN_DOT, TritonBlock
from catdiag.planner.tile_search import TileSearch
from catdiag.planner.time_model.gluon_backend import GluonBackend
from catdiag.planner.time_model.ideal_backend import IdealBackend
from catdiag.planner.time_model.prediction import predict
from catdiag.planner.time_model.timing import Timing
from catdiag.planner.time_model.triton_backend import TritonBackend
from catdiag.schedule.load_imbalance import window_loads
from catdiag.schedule.lowered_kernel import LoweredKernel
from catdiag.util.errors import CatdiagError

if TYPE_CHECKING:
    from catdiag.codegen.triton.triton_module import Module

LONGEST = 4096
"""The longest block of a loop: beyond it fewer iterations save nothing."""
_WARPS, _WIDE = (4, 8), (4, 8, 16, 32)
_STAGES = (2, 3, 4)
"""Of two products of a loop on AMD's chips not four: `ChainedDotSchedule`, which Triton 3.6 fails to compile."""
WIDEST = 256
"""The most columns of a product with warp specialization."""
_DEPTH = 2
"""The place of what is summed among a product's sides; matrix units take twice as much of it of 8 bits."""
_EACH = 4
"""Values that each thread should have where there are more than four warps: others have nothing to do."""

WAITS = 0.85
"""The part of its time that HBM is busy from which on a kernel waits for memory. Of the same tiles the one with more
stages is first then: a product of 64 × 8,192 × 8,192 was 17% quicker with four than with three (H200)."""
_READ_AT_ONCE = 4
"""Of the first candidates by some key, those whose shared memory is read before it is known whether one fits."""
_FURTHER = 1.25
"""How much longer candidates may take whose shared memory is read next."""
Grid = Mapping[str, Any]
"""Candidates as arrays: the lengths of each tile and block."""
Part = tuple[int, int, Grid, Any, Any]
"""Candidates of so many stages and warps, with what is known of each (`Candidates._optimistic`)."""
RankedProposal = tuple[tuple[Any, ...], Proposal]
"""A configuration, and what it is ranked by."""


class Candidates:
    """All configurations that Triton can run of what a search knows."""

    def __init__(
        self,
        search: TileSearch,
        boxes: bool = True,
        dtype: str | Mapping[str, str] = "bf16",
        smem_count: SmemCount = SmemCount.ALL,
    ) -> None:
        self.search, self.boxes, self.dtype = search, boxes, dtype
        check_request(search)
        chained = search.chip.warp == WARP and sum(bool(c.loops) for c in search.kernel.contractions) > 1
        tried = [n for n in search.kernels if n in _STAGES[: 2 if chained else 3] or len(search.kernels) == 1]
        self.kernels = {stages: self._filled(search.kernels[stages]) for stages in tried}
        found = dot_products(search.diagram, frozenset(search.kernel.tiles), search.dtypes)
        self.emitted = EmittedBlocks(search.diagram, dtype, search.chip, search.sizes, found, boxes)
        blocks = {n: TritonBlock.of(search.kernels[n], n, self.emitted) for n in self.kernels}
        self.staged = next(iter(blocks.values())).staged
        if not self.staged:  # loads of one iteration are not begun in another, so stages are no choice
            least = min(search.kernels)  # 1, or what is asked for
            self.kernels = {least: self._filled(search.kernels[least])}
            blocks = {least: TritonBlock.of(search.kernels[least], least, self.emitted)}
        self.blocks = {n: replace(block, smem_count=smem_count) for n, block in blocks.items()}
        self.batched = {name for batch in found.batches for name in batch.symbols()}
        self.minimum_tile = MIN_DOT * (2 if any(c.dtype == "fp8" for c in search.kernel.contractions) else 1)
        self.multiplied = [tuple(s.without(self._single()) for s in of) for of in found.sides]
        sides = {name for rows, columns, depth in found.sides for name in _single_axes(rows, columns) | depth.symbols()}
        self.sizes = {**search.sizes}
        self.sizes |= {
            name: _power(size, self.minimum_tile if name in sides else 1) for name, size in self._untiled_axes()
        }
        self._parts: dict[bool, list[Part]] = {}
        asked = search.request.threads
        usual = _WARPS if self.multiplied else _WIDE
        self.warps = usual if asked is None else (asked // search.chip.warp,)

    def _single(self) -> tuple[str, ...]:
        return self.search.split_loop.single if self.search.split_loop is not None else ()

    def _untiled_axes(self) -> list[tuple[str, int]]:
        """The axes that are neither grouped nor streamed: a block has the whole of them, filled up."""
        kernel = self.search.kernel
        ranges = [*kernel.tiles.values(), *(whole for _, whole in kernel.loops)]
        if self.search.split_loop is not None:
            ranges.append(IntPolynomial.of(self.search.split_loop.axis_size))
        taken = {name for whole in ranges for name in whole.symbols()}
        scalars = {name for extent in kernel.loop_bounds.values() for name in extent.scalars()}
        return [(n, s) for n, s in self.search.sizes.items() if n not in taken | scalars]

    def _filled(self, kernel: LoweredKernel) -> LoweredKernel:
        """The kernel with what it moves at the sizes of axes as they are, for what it holds is at those filled up."""
        known = dict(self._untiled_axes())
        moved = [replace(t, size=t.size.at(known), local=t.local.at(known), region=()) for t in kernel.transfers]
        self.region_loads = [(new, old) for new, old in zip(moved, kernel.transfers, strict=True) if old.region]
        return replace(kernel, transfers=moved)

    def options(self) -> dict[str, list[int]]:
        """For each tile and block, by symbol, the entries that it may have."""
        given, found = self.search.request.tiles, dict(self.search.options())
        sides_of = {name for c in self.multiplied for side in c for name in side.symbols()}
        for name, usual in found.items():
            if name in given:
                found[name] = [given[name]]
            if name in given or name not in self._lengths:
                continue
            size = self._lengths[name]
            if name in self.batched or (usual == [1] and name not in sides_of):
                found[name] = [1]
            else:
                longest = min(_power(size, self.minimum_tile if name in sides_of else 1), LONGEST)
                found[name] = [1 << k for k in range(longest.bit_length())]
            found[name] = asked_options(self.search, name, found[name])
        return found

    def grid(self) -> dict[str, Any]:
        """The candidates as arrays: those whose products are long enough, made by warpgroups where some are
        (`upcast_by_warpgroups`)."""
        options = self.options()
        axes = np.meshgrid(*(np.array(v, dtype=np.int64) for v in options.values()), indexing="ij") if options else []
        found = {name: axis.ravel() for name, axis in zip(options, axes, strict=True)}
        if not found:
            return found
        ok = np.ones(next(iter(found.values())).shape, dtype=bool)
        for place, side in chain.from_iterable(map(enumerate, self.multiplied)):
            if side.symbols() & set(found):
                least = self.minimum_tile if place == _DEPTH else MIN_DOT
                ok &= np.asarray(side.value({**self.sizes, **found}) >= self._reach(side, least))
                ok &= self._packed(side, found)
        if self.search.chip.by_warpgroups:
            quick = ok & upcast_by_warpgroups(self.emitted.products.passing, {**self.sizes, **found}, self.dtype)
            ok = quick if quick.any() else ok
        wide = ok & self._sectors(found)
        return {name: axis[wide if wide.any() else ok] for name, axis in found.items()}

    def _sectors(self, grid: Mapping[str, Any]) -> Any:
        """Whether rows are cut into whole sectors (`catdiag.planner.memory_sectors`), where axes are long enough."""
        fits: Any = True
        for name in self._cuts_of_rows:
            if name in self._lengths and name in grid and name not in self.search.request.tiles:
                fits = fits & (grid[name] >= min(whole_sector(self.dtype), _power(self._lengths[name])))
        return fits

    def _packed(self, side: IntPolynomial, grid: Mapping[str, Any]) -> Any:
        """Whether a side of a product is `packed`."""
        lengths = {n: self._lengths[n] for n in sorted(side.symbols() & set(grid)) if n in self._lengths}
        return packed(lengths, cuts_of_rows(self.search.diagram, self.search.full(self.search.sizes), every=True), grid)

    @cached_property
    def _lengths(self) -> dict[str, int]:
        """The lengths of the axes that tiles and blocks cut."""
        ranges, known = (
            {**self.search.kernel.tiles, **dict(self.search.kernel.loops)},
            self.search.full(self.search.sizes),
        )
        return {name: math.ceil(whole.value(known)) for name, whole in ranges.items()}

    def _reach(self, side: IntPolynomial, least: int) -> int:
        """How long a side must be: as far as tiles that are given let it."""
        given = self.search.request.tiles
        return least if not side.symbols() & set(given) else 1

    def ranked(self) -> list[Proposal]:
        """All that fit, the quickest first. Of equals the one with fewer bytes of shared memory, then with fewer warps
        and stages, then with smaller tiles. Raises DoesNotFit where there is none."""
        return self.leading()[0]

    def leading(self, distinct: float = math.inf) -> tuple[list[Proposal], float]:
        """The first that are `ranked`, with so many different tiles, and all within `TIE` of the quickest; and the
        seconds up to which there is no other. Of those that take longer no shared memory is read. Raises DoesNotFit
        where there is none; CatdiagError for a tile that is given, no power of two and in no warp-specialized form."""
        least, odd = list[Excess](), odd_tiles(self.search)
        if odd and not self.specialized:
            raise next(iter(odd.values()))
        for parts, known in self._rounds():
            found, known_s = self._leading(parts, least, known, distinct)
            if found:
                first = sorted((pair for pair in found if pair[0][0] <= known_s), key=lambda pair: pair[0])
                return [made for _, made in first], known_s
        raise refusal(self.search, self.blocks, self.options(), self.sizes, least)

    def fewest_bytes(self) -> Proposal:
        """That which moves the fewest bytes of those that `ranked` has, the quickest of several. Raises DoesNotFit
        where there is none."""
        return self._first(lambda p: (p.bytes_moved, p.time_s), lambda _, s, moved: (moved, s))

    def quickest(self) -> Proposal:
        """One of those of `ranked` that take as long as the first, found without reading the shared memory of all.
        Raises DoesNotFit where there is none."""
        return self._first(lambda p: (p.time_s,), lambda most_smem, s, _: (s, most_smem))

    def _first(
        self, key: Callable[[Proposal], tuple[float, ...]], bounds: Callable[[Any, Any, Any], tuple[Any, ...]]
    ) -> Proposal:
        """The least of `ranked` by a key. `bounds` gives numbers that are no more than those of the key, an entry for
        each candidate, and perhaps further ones to sort by, of bytes of shared memory, seconds and bytes moved."""
        least = list[Excess]()
        for parts, found in self._rounds():
            order: list[tuple[Any, ...]] = []
            for k, (stages, _, grid, seconds, moved) in enumerate(parts):
                values = self.search.full({**self.sizes, **grid})
                most = np.broadcast_to(self.emitted.most_smem_bytes(self.kernels[stages], values), seconds.shape)
                columns = zip(*(axis.tolist() for axis in bounds(most, seconds, moved)), strict=True)
                order += [(bound, k, place) for place, bound in enumerate(columns)]
            order.sort()
            at, count, best = 0, _READ_AT_ONCE, min((key(made) for _, made in found), default=(math.inf,))
            while at < len(order) and order[at][0][: len(best)] < best:
                for k, (stages, warps, grid, *_) in enumerate(parts):
                    places = [place for _, of, place in order[at : at + count] if of == k]
                    if places:
                        found += self._fitting(stages, warps, {n: axis[places] for n, axis in grid.items()}, least)
                at, count, best = at + count, 2 * count, min((key(made) for _, made in found), default=(math.inf,))
            if found:
                return min(found, key=lambda pair: (*key(pair[1]), *pair[0]))[1]
        raise refusal(self.search, self.blocks, self.options(), self.sizes, least)

    def _rounds(self) -> Iterator[tuple[list[Part], list[RankedProposal]]]:
        """The candidates, by stages and warps, and those that are known to fit: first those whose warps share no rows,
        then, where there is none, all. Where a tile is no power of two, only those that are warp-specialized."""
        grid = self.grid()
        if odd_tiles(self.search):
            yield [], [*self.specialized]
            return
        for single_block in (True, False):
            if single_block not in self._parts:
                tried = [
                    (n, w, self._with_registers(n, w, grid, single_block)) for n in self.kernels for w in self.warps
                ]
                self._parts[single_block] = [
                    (n, w, p, *self._optimistic(n, w, p)) for n, w, p in tried if p is not None
                ]
            yield self._parts[single_block], [*self.specialized] if single_block else []

    def _leading(
        self, parts: Sequence[Part], least: list[Excess], found: list[RankedProposal], distinct: float
    ) -> tuple[list[RankedProposal], float]:
        """Some that are known, with those of grids that fit and may be `leading`, and the seconds up to which these are
        all: by what they would take if shared memory did not limit how many blocks are on a core."""
        most_s = max((float(s.max()) for *_, s, _ in parts if s.size), default=0.0)
        least_s = min((float(s.min()) for *_, s, _ in parts if s.size), default=0.0)
        read_s, limit_s = 0.0, TIE * least_s if math.isfinite(distinct) else math.inf
        while True:
            for stages, warps, grid, optimistic, _ in parts:
                now = (optimistic > read_s) & (optimistic <= limit_s)
                if now.any():
                    some = {name: axis[now] for name, axis in grid.items()}
                    found = [*found, *self._fitting(stages, warps, some, least)]
            if limit_s >= most_s:
                return found, math.inf
            known = {tuple(made.tiles.values()) for key, made in found if key[0] <= limit_s}
            quickest_s = TIE * min((key[0] for key, _ in found), default=math.inf)
            if limit_s >= quickest_s and len(known) >= distinct:
                return found, limit_s
            read_s, limit_s = limit_s, quickest_s if limit_s < quickest_s < math.inf else _FURTHER * limit_s

    def _optimistic(self, stages: int, warps: int, grid: Grid) -> tuple[Any, Any]:
        """The predicted seconds of a grid, an entry for each candidate, with as many blocks on a core as registers
        allow; and the bytes that it moves at the edge to shared memory."""
        count = len(next(iter(grid.values()))) if grid else 1
        if not count:
            return np.zeros(0), np.zeros(0)
        block = replace(self.blocks[stages], smem_count=SmemCount.NONE)
        timing = self._timed(stages, grid, warps, TritonBackend(self.search.request.producers, block=block))
        seconds, moved = np.broadcast_to(timing.seconds, (count,)), np.broadcast_to(timing.bytes_moved, (count,))
        return seconds, np.rint(np.asarray(moved, dtype=float))

    def _fitting(self, stages: int, warps: int, grid: Grid, least: list[Excess]) -> list[RankedProposal]:
        """Those of a grid that fit with so many buffers and warps, with what they are ranked by; where none does, what
        comes nearest to it is put beside `least`."""
        search, chip, block = self.search, self.search.chip, self.blocks[stages]
        count = len(next(iter(grid.values()))) if grid else 1
        if not count:
            return []
        taken = block.resources(search.full({**self.sizes, **grid}), warps)
        ok = np.broadcast_to(taken.fits(chip), (count,))
        if not ok.any():
            least.append(Excess.of(taken, stages, chip, grid))
            return []
        return self._proposals(stages, warps, {name: axis[ok] for name, axis in grid.items()})

    def _with_registers(self, stages: int, warps: int, grid: Grid, single_block: bool) -> Grid | None:
        """Those of a grid that have registers enough, or the one that needs fewest: only their shared memory is read
        off what is written, which takes longer. Where `single_block`, those whose warps have work and rows of their
        own; None where there are no tiles, and the one candidate is none of them."""
        block, values = self.blocks[stages], self.search.full({**self.sizes, **grid})
        count = len(next(iter(grid.values()))) if grid else 1
        if not count:
            return grid
        registers = np.broadcast_to(block.registers(values, warps), (count,))
        ok = registers <= block.most_registers(warps)
        if not ok.any():
            ok = np.arange(count) == np.argmin(registers)
        if single_block and warps > _WARPS[0] and self.search.request.threads is None:
            ok = ok & (block.values_per_thread(values, warps) >= _EACH) & block.warps_own_rows(values, warps)
        if not grid and not ok.all():
            return None
        return {name: axis[ok] for name, axis in grid.items()}

    def _proposals(
        self, stages: int, warps: int, grid: Mapping[str, Any], specialized: bool = False
    ) -> list[RankedProposal]:
        """The configurations of a grid that fits, with what they are ranked by."""
        taken = self.block(stages, specialized).resources(self.search.full({**self.sizes, **grid}), warps)
        timing = self._timed(stages, grid, warps, self.backend(stages, specialized))
        count = len(next(iter(grid.values()))) if grid else 1
        memory_s = timing.traffic.hbm_bytes / self.search.chip.sustained_hbm_bytes_per_s
        time, moved, smem, registers, blocks, waits = (
            np.broadcast_to(numbers, (count,))
            for numbers in (timing.seconds, timing.bytes_moved, taken.smem_bytes, taken.registers_per_thread,
                            timing.blocks_per_sm, memory_s > WAITS * timing.seconds)
        )  # fmt: skip
        found, in_runs = list[RankedProposal](), self.search.kernel.in_runs
        for place in range(count):
            tile = {name: int(axis[place]) for name, axis in grid.items()}
            key = (float(time[place]), int(smem[place]), warps, stages, tuple(tile.values()))
            made = Proposal(
                tile, stages, warps, key[0], key[1], int(registers[place]), int(blocks[place]), specialized=specialized,
                bytes_moved=round(float(moved[place])), waits_for_memory=bool(waits[place]), in_runs=in_runs,
            )  # fmt: skip
            found.append((key, made))
        return found

    @cached_property
    def specialized(self) -> tuple[RankedProposal, ...]:
        """The warp-specialized ones, with one block a core: warpgroups of 64 rows, of one tile."""
        search, chip = self.search, self.search.chip
        if isinstance(self._emitted, str):
            return ()
        (row,) = self._emitted.rows
        options = self.options()
        found: list[RankedProposal] = []
        for groups in GROUPS:
            given = search.request.tiles.get(row, ROWS * groups)
            asked = search.request
            if asked.threads not in (None, 4 * groups * chip.warp) or given % asked.multiples.get(row, 1):
                continue
            if given < asked.at_least.get(row, 1):
                continue
            loops = dict(search.kernel.loops)
            free = {*loops, *self._columns(row)}
            blocks = {n: [given] if n == row else v if n in free else v[:1] for n, v in options.items()}
            if (
                given != ROWS * groups
                or given >= 2 * self._lengths[row]
                or any(v[0] != 1 for n, v in blocks.items() if n != row and n not in free)
            ):
                continue
            axes = np.meshgrid(*(np.array(v, dtype=np.int64) for v in blocks.values()), indexing="ij")
            grid = {name: axis.ravel() for name, axis in zip(blocks, axes, strict=True)}
            ok = np.ones(next(iter(grid.values())).shape, dtype=bool)
            for side in chain.from_iterable(self.multiplied):
                if side.symbols() & set(grid):
                    length = side.value({**self.sizes, **grid})
                    ok &= np.asarray(((length >= MIN_DOT) & (length <= WIDEST)) | (row in side.symbols()))
            for name in loops:
                ok &= (grid[name] >= ROWS) | (name in search.request.tiles)
            grid = {name: axis[ok] for name, axis in grid.items()}
            values, warps = search.full({**self.sizes, **grid}), WARPS * groups
            for stages in self.kernels if ok.any() else ():
                fit = self.block(stages, specialized=True).resources(values, warps).fits(chip)
                fit = np.broadcast_to(fit, next(iter(grid.values())).shape)
                if stages >= self._least_stages and fit.any():
                    fitting = {name: axis[fit] for name, axis in grid.items()}
                    found += self._proposals(stages, warps, fitting, specialized=True)
        return tuple(found)

    def _columns(self, row: str | None) -> set[str]:
        """The tiles of groups that are sides of products by themselves, and never beside those of `row`."""
        sides = [side.symbols() for side in chain.from_iterable(self.multiplied)]
        beside = {name for side in sides if row in side for name in side}
        return {name for side in sides for name in side if name in self.search.kernel.tiles} - beside

    @property
    def _least_stages(self) -> int:
        """The buffers that a warp-specialized loop needs so that one of them is loaded while others are in use."""
        return 3 if not isinstance(self._emitted, str) and self._emitted.reused_blocks[0] else 2

    @cached_property
    def plain_form_reason(self) -> str:
        """Why no candidate is warp-specialized. "" where one is, and where none is expected: on other chips, and where
        no loop has two matrix products, or all read what is loaded."""
        if isinstance(self._emitted, str):
            return self._emitted
        if max(self.kernels) < self._least_stages:
            return f"a block is in use for two iterations, which takes {self._least_stages} buffers"
        return "" if self.specialized else "no tiles with 64 rows for each warpgroup fit"

    @cached_property
    def _emitted(self) -> Module | str:
        """The warp-specialized kernel; if it has no such form the reason, "" where none is expected."""
        search, chip, loops = self.search, self.search.chip, dict(self.search.kernel.loops)
        in_loops = sum(bool(c.loops) for c in search.kernel.contractions)
        chained = in_loops > 1 and (self.emitted.products.passing or self.emitted.products.indirect)
        if not chained or not search.kernel.tiles or chip.matrix_warps != WARPS or not self.boxes:
            return ""
        if search.split_loop is not None:
            return "the loop is split over groups (split-K)"
        if not self.staged:
            return "loads of one iteration do not begin in another"
        other = [c.dtype for c in search.kernel.contractions if c.dtype not in chip.tensor]
        if other:
            return f"the matrix units of {chip.name} do not multiply {other[0]}"
        options, known = self.options(), search.full(search.sizes)
        length = {n: r.value(known) for n, r in search.kernel.tiles.items() if len(options[n]) > 1}
        long = max(length, key=lambda n: length[n], default=None)
        columns = self._columns(long)
        tiles = {n: 128 if n == long or n in loops else options[n][-1] if n in columns else 1 for n in options}
        try:
            emitted = self.emitted.module(tiles, specialized=True)
        except CatdiagError as error:
            return error.message
        why = next(iter(emitted.unspecialized.values()), "")
        return why or (emitted if len(emitted.rows) == 1 else "the diagram has several groups")

    def longest_first(self, ranked: list[Proposal]) -> list[Proposal]:
        """The same with that first which is preferred of those that are alike and wait for memory
        (`catdiag.planner.configuration_ties`): within `TIE`, or `CLOSE` where something is multiplied."""
        tiles = [name for name in self._cuts_of_rows if name in self.search.kernel.tiles]
        first = MemoryBoundTies(self.search, tiles, self.sizes).first_of(ranked, bool(self.multiplied))
        return [first, *(p for p in ranked if p is not first)]

    @cached_property
    def _cuts_of_rows(self) -> tuple[str, ...]:
        return cuts_of_rows(self.search.diagram, self.search.full(self.search.sizes))

    def timing(self, proposal: Proposal) -> Timing:
        """What a run of one candidate takes, at as many blocks on a core as it has; what crosses edges is counted
        exactly, at tiles that are no longer than their axes."""
        search, p = self.search, proposal
        found = self._timed(p.stages, p.tiles, p.warps, self.backend(p.stages, p.specialized, p.blocks_per_sm))
        ranges, known = {**search.kernel.tiles, **dict(search.kernel.loops)}, search.full({**search.sizes, **p.tiles})
        tiles = {n: min(t, math.ceil(ranges[n].value(known))) if n in ranges else t for n, t in p.tiles.items()}
        stages = p.stages if p.stages in search.kernels else min(search.kernels)
        return replace(found, traffic=search.predicted(stages, {**search.sizes, **tiles}, p.warps).traffic)

    def block(self, stages: int, specialized: bool) -> TritonBlock | GluonBlock:
        """The blocks of the kernel with so many buffers."""
        block = self.blocks[stages]
        return GluonBlock(self.kernels[stages], self.search.chip, block) if specialized else block

    def backend(self, stages: int, specialized: bool, blocks_per_sm: int | None = None) -> IdealBackend:
        """By what a kernel is timed: Gluon where it is warp-specialized, else Triton, with so many blocks on a core if
        that is known."""
        block = self.block(stages, specialized)
        if isinstance(block, GluonBlock):
            return GluonBackend(block=block, ranges=1 if isinstance(self._emitted, str) else self._emitted.phases[0])
        return TritonBackend(self.search.request.producers, block=block, known_blocks_per_sm=blocks_per_sm)

    def _timed(self, stages: int, grid: Mapping[str, Any], warps: int, backend: IdealBackend) -> Timing:
        """What runs take; of a split loop with the kernel that merges its parts."""
        search, kernel = self.search, self.kernels[stages]
        values = search.full({**self.sizes, **grid})
        as_they_are = {**values, **dict(self._untiled_axes())}
        moved = {("moved", new): window_loads(old, kernel, as_they_are) for new, old in self.region_loads}
        found = predict(kernel, search.chip, {**values, **moved}, stages, warps, backend)
        if not search.merging:
            return found
        merging = search.merging.get(stages) or next(iter(search.merging.values()))
        return found.then(predict(merging, search.chip, {**values, **moved}, stages, warps))


def _single_axes(*sides: IntPolynomial) -> set[str]:
    """The axes that are a side of a product by themselves."""
    return {name for side in sides if len(side.symbols()) == 1 for name in side.symbols()}


def _power(size: int, least: int = 1) -> int:
    """The least power of two that is no shorter."""
    return max(least, 1 << (size - 1).bit_length())
