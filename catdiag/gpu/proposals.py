"""A few launch configurations for a Triton kernel, by the cost model: what is worth being timed.

Candidates are tiles, blocks, stages and warps that Triton can run:

- tiles and blocks are powers of two. An axis that is none, or shorter than a product's side may be, is filled up;
- a product takes at least 16 along each of its sides (`catdiag.gpu.blocks.LEAST`), and sums at least 32 of 8 bits.
  What multiplies a matrix by a vector is no product, and has no such demand;
- a grouped axis that every loaded array carries (a batch, heads) has tile 1: a larger one saves nothing;
- 4 or 8 warps, where nothing is multiplied 16 too; two to four stages, and one where no loop's blocks are multiplied;
- where the kernel can be written with loads apart (`catdiag.emit.triton.apart`), two or three warpgroups of 64 rows
  that compute, blocks of 64 entries or more and one block a core, beside the others;
- shared memory as Triton allots it, and 1 KiB, is within what a block may have; registers are few enough that the
  compiler does not spill (`catdiag.gpu.blocks`).

They are ranked by predicted time (`catdiag.gpu.predicted`); where nothing is multiplied, the longest blocks of those
within 5% come first (the cross-entropy of 128,256 logits took 729 µs in blocks of 256, and 509 in blocks of 4,096). The
first proposal is the model's choice. The others are those that would teach most: for each respect (each tile, stages,
warps) the best candidate that has more of it than the first, and the best that has less; then the best of what differs
from all of these in two respects. None is predicted to take more than `WITHIN` times as long as the first, unless there
are too few others.

>>> import catdiag as cd
>>> product = cd.library.get("matmul").stream("b").group("a c")
>>> for p in propose(product, "H200", {"a": 4096, "b": 4096, "c": 4096}, most=3):
...     print(p)
g_a=128, g_c=256, s_b=64; 3 stages, 8 warps
g_a=128, g_c=256, s_b=64; 4 stages, 8 warps
g_a=256, g_c=128, s_b=64; 4 stages, 8 warps
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import TYPE_CHECKING, Any

from catdiag.cost.chips.search import Search
from catdiag.cost.chips.timing import ceil_div, peak, predict
from catdiag.cost.count.amounts import Amount
from catdiag.cost.count.live import Kernel, Transfer
from catdiag.cost.count.places import MATRIX
from catdiag.cost.plan import searching
from catdiag.emit.triton.partitions import REGISTERS
from catdiag.errors import CatdiagError, DoesNotFit
from catdiag.gpu.blocks import LEAST, MOST, SCRATCH, Block
from catdiag.gpu.predicted import resident, seconds, specialized_registers, specialized_seconds
from catdiag.gpu.sectors import tiles_of_rows, whole_sector

if TYPE_CHECKING:
    from catdiag.cost.hardware import Hardware
    from catdiag.diagram import Diagram
    from catdiag.emit.triton import Module

NUMBER = 8
"""Proposals, at most, if nobody asks for another number."""
WITHIN = 2.0
"""How many times the first proposal's time another may be predicted to take."""
CLOSE = 1.02
"""Of the same tiles within this, the one with fewer stages is the first, and where loads are apart that with `AHEAD`:
with two a load begins when the turn before is over, which took up to 12% longer (H200)."""
AHEAD = 3
ALIKE = 1.05
"""Where nothing is multiplied, of what is predicted alike within this the longest blocks come first."""
LONGEST = 4096
"""The longest block of a loop: beyond it fewer turns save nothing."""
_WARPS, _WIDE = (4, 8), (4, 8, 16)
_STAGES = (2, 3, 4)
GROUPS, ROWS, WIDEST = (2, 3), 64, 256
"""Where loads are apart: warpgroups that compute, rows of each, and the most columns of a product."""
_DEPTH = 2
"""The place of what is summed among a product's sides; matrix units take twice as much of it of 8 bits."""
_EACH = 4
"""Values that each thread should have where there are more than four warps: others have nothing to do."""


@dataclass(frozen=True)
class Proposal:
    """A launch configuration: `tiles` by symbol, `stages` and `warps`, keyword arguments of a generated kernel.

    Predicted are `time_s`, the bytes of shared memory of a block (with what Triton needs beside the operands at most),
    the registers of a thread, and how many blocks share a core. `differs` says in what it differs from the first.
    """

    tiles: Mapping[str, int] = field(hash=False)
    stages: int
    warps: int
    time_s: float
    shared_bytes: int
    registers: int
    resident: int
    differs: tuple[str, ...] = ()
    specialized: bool = False

    @property
    def arguments(self) -> dict[str, int]:
        """The keyword arguments of a launch: tiles that are not 1, `num_warps` and `num_stages`."""
        kept = {name: tile for name, tile in self.tiles.items() if tile != 1}
        return {**kept, "num_warps": self.warps, "num_stages": self.stages}

    def as_dict(self) -> dict[str, Any]:
        """Plain values for JSON."""
        return {**vars(self), "tiles": dict(self.tiles), "differs": list(self.differs)}

    def __str__(self) -> str:
        tiles = ", ".join(f"{name}={tile}" for name, tile in self.tiles.items()) or "no tiles"
        apart = ", loads apart" * self.specialized
        return f"{tiles}; {self.stages} stage{'s' * (self.stages != 1)}, {self.warps} warps{apart}"


def propose(
    derivation: Diagram | Any,
    hardware: Hardware | str,
    sizes: Mapping[str, int],
    dtype: str | Mapping[str, str] = "bf16",
    *,
    most: int = NUMBER,
    tiles: Mapping[str, int] | None = None,
    density: Mapping[str, float] | float = 1.0,
    boxes: bool = True,
) -> tuple[Proposal, ...]:
    """At most `most` configurations for the kernel of a derivation, the one that is predicted quickest first.

    `derivation` is a derivation or a diagram of one kernel, streamed, grouped or both; the arguments are those of
    `catdiag.cost.plan.fit`. `tiles` are given, and have to be powers of two. Without `boxes`, kernels
    copy arrays by addresses, as they must where the strides of arrays are no multiples of 16 bytes. The same arguments
    give the same proposals. Raises DoesNotFit where no configuration fits, with what the least needs; CatdiagError for
    a number below 1, tiles that are no powers of two and a chip that has no registers to accumulate in; and as `fit`
    does, for sizes, types and diagrams of several kernels.
    """
    if isinstance(most, bool) or not isinstance(most, int) or most < 1:
        raise CatdiagError(f"most is {most!r}: expected a number of proposals, 1 or more")
    for name, tile in (tiles or {}).items():
        if isinstance(tile, bool) or not isinstance(tile, int) or tile < 1 or tile & (tile - 1):
            raise CatdiagError(f"tiles gives {name!r} as {tile!r}: expected a power of two, as Triton's tiles are")
    search = searching(derivation, hardware, sizes, dtype, tiles=tiles, density=density)
    if search.chip.accumulators == "SMEM":
        raise CatdiagError(
            f"{search.chip.name} accumulates in {search.chip.word('SMEM')}: Triton has no kernels for it"
        )
    found = _Candidates(search, boxes, dtype)
    return _spread(found.longest_first(found.ranked()), most)


class _Candidates:
    """All configurations that Triton can run of what a search knows."""

    def __init__(self, search: Search, boxes: bool = True, dtype: str | Mapping[str, str] = "bf16") -> None:
        self.search, self.boxes, self.dtype = search, boxes, dtype
        self.kernels = {
            stages: self._filled(kernel)
            for stages, kernel in search.kernels.items()
            if stages in _STAGES or len(search.kernels) == 1
        }
        self.blocks = {
            stages: Block.of(search.diagram, search.kernels[stages], search.dtype, search.chip, stages, boxes)
            for stages in self.kernels
        }
        self.staged = next(iter(self.blocks.values())).staged
        if not self.staged:  # loads of one turn are not begun in another, so stages are no choice
            least = min(search.kernels)
            self.kernels = {1: self._filled(search.kernels[least])}
            self.blocks = {1: Block.of(search.diagram, search.kernels[least], search.dtype, search.chip, least, boxes)}
        found = next(iter(self.blocks.values())).products
        self.batched = {name for batch in found.batches for name in batch.symbols()}
        kinds = {search.dtype} if isinstance(search.dtype, str) else set(search.dtype.values())
        self.least = LEAST * (2 if "fp8" in kinds else 1)
        self.multiplied = [tuple(s.without(self._single()) for s in of) for of in found.sides]
        sides = {name for rows, columns, depth in found.sides for name in _alone(rows, columns) | depth.symbols()}
        self.sizes = {**search.sizes}
        self.sizes |= {name: _power(size, self.least if name in sides else 1) for name, size in self._whole()}

    def _single(self) -> tuple[str, ...]:
        return self.search.parted.single if self.search.parted is not None else ()

    def _whole(self) -> list[tuple[str, int]]:
        """The axes that are neither grouped nor streamed: a block has the whole of them, filled up."""
        kernel = self.search.kernel
        ranges = [*kernel.tiles.values(), *(whole for _, whole in kernel.loops)]
        if self.search.parted is not None:
            ranges.append(Amount.of(self.search.parted.whole))
        taken = {name for whole in ranges for name in whole.symbols()}
        scalars = {name for extent in kernel.extents.values() for name in extent.scalars()}
        return [(n, s) for n, s in self.search.sizes.items() if n not in taken | scalars]

    def _filled(self, kernel: Kernel) -> Kernel:
        """The kernel with what it moves at the sizes of axes as they are, for what it holds is at those filled up."""
        known = dict(self._whole())
        moved = [
            replace(t, amount=_at(_once(t), known), local=_at(t.local, known), window=()) for t in kernel.transfers
        ]
        self.placed = [(new, old.loops) for new, old in zip(moved, kernel.transfers, strict=True) if old.window]
        return replace(kernel, transfers=moved)

    def options(self) -> dict[str, list[int]]:
        """What each tile and block may be."""
        given, found = self.search.request.tiles, dict(self.search.options())
        sides_of = {name for c in self.multiplied for side in c for name in side.symbols()}
        ranges = {**self.search.kernel.tiles, **dict(self.search.kernel.loops)}
        for name, usual in found.items():
            if name in given:
                found[name] = [given[name]]
            if name in given or name not in ranges:
                continue
            size = math.ceil(ranges[name].value(self.search.full(self.search.sizes)))
            if name in self.batched or (usual == [1] and name not in sides_of):
                found[name] = [1]
            else:
                longest = min(_power(size, self.least if name in sides_of else 1), LONGEST)
                found[name] = [1 << k for k in range(longest.bit_length())]
        return found

    def grid(self) -> dict[str, Any]:
        """The candidates as arrays: those whose products are long enough."""
        import numpy as np

        options = self.options()
        axes = np.meshgrid(*(np.array(v, dtype=np.int64) for v in options.values()), indexing="ij") if options else []
        found = {name: axis.ravel() for name, axis in zip(options, axes, strict=True)}
        if not found:
            return found
        ok = np.ones(next(iter(found.values())).shape, dtype=bool)
        for place, side in chain.from_iterable(map(enumerate, self.multiplied)):
            if side.symbols() & set(found):
                least = self.least if place == _DEPTH else LEAST
                ok &= np.asarray(side.value({**self.sizes, **found}) >= self._reach(side, least))
                ok &= self._packed(side, found)
        wide = ok & self._sectors(found)
        return {name: axis[wide if wide.any() else ok] for name, axis in found.items()}

    def _sectors(self, grid: Mapping[str, Any]) -> Any:
        """Whether rows are cut into whole sectors (see `catdiag.gpu.sectors`), as far as axes are long enough."""
        ranges, known = self.search.kernel.tiles, self.search.full(self.search.sizes)
        fits: Any = True
        for name in tiles_of_rows(self.search.diagram, known):
            if name in ranges and name in grid and name not in self.search.request.tiles:
                length = math.ceil(ranges[name].value(known))
                fits = fits & (grid[name] >= min(whole_sector(self.dtype), _power(length)))
        return fits

    def _packed(self, side: Amount, grid: Mapping[str, Any]) -> Any:
        """Whether a side that has several tiles has the whole of its longest axis, or nothing of the others: rows of
        several axes are packed where one has too few, since the compiler has more to do for them."""
        ranges = {**self.search.kernel.tiles, **dict(self.search.kernel.loops)}
        known = self.search.full(self.search.sizes)
        length = {n: math.ceil(ranges[n].value(known)) for n in sorted(side.symbols() & set(grid)) if n in ranges}
        if len(length) < 2:
            return True
        longest = max(length, key=lambda name: length[name])
        alone: Any = True
        for name in length:
            alone = alone & ((grid[name] == 1) | (name == longest))
        return alone | (grid[longest] >= length[longest])

    def _reach(self, side: Amount, least: int) -> int:
        """How long a side must be: as far as tiles that are given let it."""
        given = self.search.request.tiles
        return least if not side.symbols() & set(given) else 1

    def ranked(self) -> list[Proposal]:
        """All that fit, the quickest first. Of equals the one with fewer bytes of shared memory, then with fewer warps
        and stages, then with smaller tiles."""
        import numpy as np

        grid, search, chip = self.grid(), self.search, self.search.chip
        count = len(next(iter(grid.values()))) if grid else 1
        found: list[tuple[Any, ...]] = []
        least: tuple[float, str] | None = None
        for stages, kernel in self.kernels.items():
            values = search.full({**self.sizes, **grid})
            block = self.blocks[stages]
            smem = np.broadcast_to(block.shared(values) + SCRATCH * bool(np.any(block.shared(values))), (count,))
            most = np.broadcast_to(block.shared_at_most(values), (count,))
            matrix = peak(kernel, MATRIX, values)
            for warps in _WARPS if self.multiplied else _WIDE:
                registers = np.broadcast_to(block.registers(values, warps), (count,))
                threads = chip.warp * warps
                ok = (most + SCRATCH <= chip.smem_per_block) & (registers <= min(MOST, chip.registers_per_thread))
                ok &= (registers * threads <= chip.registers_per_sm) & (threads <= chip.threads_per_block)
                ok &= matrix <= chip.tmem_per_sm
                if warps > _WARPS[0]:
                    ok &= (block.values_each(values, warps) >= _EACH) & block.apart(values, warps)
                if count and not ok.any():
                    least = _lower(least, smem, registers, warps, chip, grid)
                if not ok.any():
                    continue
                kept = {name: axis[ok] for name, axis in grid.items()}
                held = resident(smem[ok], registers[ok], warps, chip)
                time = np.broadcast_to(self._time(stages, kernel, kept, warps, held), held.shape)
                for place in range(len(time)):
                    tile = {name: int(axis[place]) for name, axis in kept.items()}
                    key = (float(time[place]), int(smem[ok][place]), warps, stages, tuple(tile.values()))
                    made = Proposal(tile, stages, warps, key[0], key[1], int(registers[ok][place]), int(held[place]))
                    found.append((key, made))
        found += self.specialized()
        if not found:
            raise DoesNotFit(_refusal(chip, least, self.options()))
        return [made for _, made in sorted(found, key=lambda pair: pair[0])]

    def specialized(self) -> list[tuple[Any, ...]]:
        """Those whose loads are apart, with one block a core: warpgroups of 64 rows, of one tile."""
        import numpy as np

        search, chip = self.search, self.search.chip
        whole = search.parted is None and self.staged and self.boxes and search.dtype in chip.tensor
        written = self._written() if whole and chip.matrix_warps == 4 else None
        if written is None:
            return []
        (row,), (ranges,) = written.rows, written.phases
        options = self.options()
        found: list[tuple[Any, ...]] = []
        for groups in GROUPS:
            given = search.request.tiles.get(row, ROWS * groups)
            blocks = {n: [given] if n == row else v for n, v in options.items()}
            loops = dict(search.kernel.loops)
            blocks = {n: v if n == row or n in loops else v[:1] for n, v in blocks.items()}
            length = search.kernel.tiles[row].value(search.full(search.sizes))
            if (
                given != ROWS * groups
                or given >= 2 * length
                or any(v[0] != 1 for n, v in blocks.items() if n != row and n not in loops)
            ):
                continue
            axes = np.meshgrid(*(np.array(v, dtype=np.int64) for v in blocks.values()), indexing="ij")
            grid = {name: axis.ravel() for name, axis in zip(blocks, axes, strict=True)}
            ok = np.ones(next(iter(grid.values())).shape, dtype=bool)
            for side in chain.from_iterable(self.multiplied):
                if side.symbols() & set(grid):
                    length = side.value({**self.sizes, **grid})
                    ok &= np.asarray((length <= WIDEST) | (row in side.symbols()))
            for name in loops:
                ok &= (grid[name] >= ROWS) | (name in search.request.tiles)
            grid = {name: axis[ok] for name, axis in grid.items()}
            for stages, kernel in self.kernels.items():
                if stages > 1 and ok.any():
                    found += self._apart(kernel, stages, groups, grid, ranges)
        return found

    def _apart(
        self, kernel: Kernel, stages: int, groups: int, grid: Mapping[str, Any], ranges: int
    ) -> list[tuple[Any, ...]]:
        """Those of a grid that fit, with what they are ranked by."""
        import numpy as np

        search, chip, block = self.search, self.search.chip, self.blocks[stages]
        values = search.full({**self.sizes, **grid})
        if self.placed:
            values = {**values, **self._moved(kernel, values)}
        count, warps = len(next(iter(grid.values()))), 4 * groups
        smem = np.broadcast_to(block.shared_at_most(values), (count,)) + SCRATCH
        registers = specialized_registers(kernel, values, groups, block.element, block)
        registers = np.broadcast_to(registers, (count,))
        ok = (smem <= chip.smem_per_block) & (registers <= REGISTERS[groups])
        timing = predict(kernel, chip, values, search.dtype, stages, warps, search.request.overlap, True)
        time = specialized_seconds(kernel, chip, timing, values, search.dtype, groups, block, ranges)
        time = np.broadcast_to(time, (count,))
        found = []
        for place in np.flatnonzero(ok):
            tile = {name: int(axis[place]) for name, axis in grid.items()}
            key = (float(time[place]), int(smem[place]), warps, stages, tuple(tile.values()))
            made = Proposal(tile, stages, warps, key[0], key[1], int(registers[place]), 1, specialized=True)
            found.append((key, made))
        return found

    def _written(self) -> Module | None:
        """The kernel with loads apart, if it can be written like that."""
        from catdiag.emit.triton import module

        search, loops = self.search, dict(self.search.kernel.loops)
        if sum(bool(c.loops) for c in search.kernel.contractions) < 2 or not search.kernel.tiles:
            return None
        options = self.options()
        length = {n: r.value(search.full(search.sizes)) for n, r in search.kernel.tiles.items() if len(options[n]) > 1}
        long = max(length, key=lambda n: length[n], default=None)
        tiles = {n: 128 if n == long or n in loops else 1 for n in options}
        try:
            written = module(search.diagram, tiles, self.dtype, stages=2, warps=8, specialized=True)
        except CatdiagError:
            return None
        return written if len(written.rows) == 1 else None

    def longest_first(self, ranked: list[Proposal]) -> list[Proposal]:
        """The same with the longest blocks first of those that are within `ALIKE`, where nothing is multiplied: memory
        is read in longer pieces, and sums are put together less often."""
        blocks = [block for block, _ in self.search.kernel.loops]
        if self.multiplied or not blocks:
            return ranked
        alike = [p for p in ranked if p.time_s <= ALIKE * ranked[0].time_s]
        first = max(alike, key=lambda p: (math.prod(p.tiles[block] for block in blocks), -p.time_s))
        return [first, *(p for p in ranked if p is not first)]

    def _moved(self, kernel: Kernel, values: Mapping[Any, Any]) -> dict[Any, Any]:
        """What is read in windows, in the whole run, as if they all lay in their array: counted exactly they would take
        longer than all the rest."""
        groups: Any = 1
        for tile, whole in kernel.tiles.items():
            groups = groups * ceil_div(whole.value(values), values[tile])
        found: dict[Any, Any] = {}
        for moved, loops in self.placed:
            turns = groups
            for block, whole in loops:
                turns = turns * ceil_div(whole.value(values), values[block])
            found["moved", moved] = turns * moved.amount.value(values)
        return found

    def _time(self, stages: int, kernel: Kernel, grid: Mapping[str, Any], warps: int, held: Any) -> Any:
        """Predicted seconds; of a split loop those of the kernel that merges its parts too."""
        search, asked = self.search, self.search.request
        values = search.full({**self.sizes, **grid})
        if self.placed:
            values = {**values, **self._moved(kernel, values)}
        timing = predict(kernel, search.chip, values, search.dtype, stages, warps, asked.overlap, asked.producers)
        time = seconds(kernel, search.chip, timing, values, search.dtype, stages, warps, held, self.blocks[stages])
        if search.merging:
            merging = search.merging.get(stages) or next(iter(search.merging.values()))
            time = time + predict(merging, search.chip, values, search.dtype, stages, warps).seconds
        return time


def _once(moved: Transfer) -> Amount:
    """What a group loads of an array: of one that is read in windows what these may reach, in a turn of its loop."""
    total = moved.local if moved.window else moved.amount
    for side in moved.window:
        total = total if side.whole else total * side.length
    return total


def _alone(*sides: Amount) -> set[str]:
    """The axes that are a side of a product by themselves."""
    return {name for side in sides if len(side.symbols()) == 1 for name in side.symbols()}


def _power(size: int, least: int = 1) -> int:
    """The least power of two that is no shorter."""
    return max(least, 1 << (size - 1).bit_length())


def _at(amount: Amount, known: Mapping[str, int]) -> Amount:
    """An amount with some symbols at their values."""
    total = Amount()
    for monomial, coefficient in amount.terms.items():
        factor = coefficient
        for name in monomial:
            factor *= known.get(name, 1)
        total = total + Amount({tuple(n for n in monomial if n not in known): factor})
    return total


def _lower(
    least: tuple[float, str] | None, smem: Any, registers: Any, warps: int, chip: Hardware, grid: Mapping[str, Any]
) -> tuple[float, str]:
    """The candidate that is least over what the chip has, and by how much, in words."""
    import numpy as np

    over = np.maximum(smem / chip.smem_per_block, registers / min(MOST, chip.registers_per_thread))
    place = int(np.argmin(over))
    shown = ", ".join(f"{name}={int(axis[place])}" for name, axis in grid.items()) or "no tiles"
    words = (
        f"{shown} with {warps} warps needs {int(smem[place]):,} of {chip.smem_per_block:,} bytes of "
        f"{chip.word('SMEM')} and {int(registers[place])} of {min(MOST, chip.registers_per_thread)} registers a thread"
    )
    now = (float(over[place]), words)
    return now if least is None or now[0] < least[0] else least


def _refusal(chip: Hardware, least: tuple[float, str] | None, options: Mapping[str, list[int]]) -> str:
    how = "; stream an axis, or group more axes, for smaller tiles"
    if least is None:
        listed = ", ".join(f"{name} up to {values[-1]}" for name, values in options.items())
        return f"no Triton kernel on {chip.name}: no tiles ({listed}) give a product {LEAST} along each side{how}"
    return f"no Triton kernel fits {chip.name}: {least[1]}{how}"


def _spread(ranked: list[Proposal], most: int) -> tuple[Proposal, ...]:
    """Few of the ranked ones that differ in different respects."""
    best = ranked[0]
    alike = [p for p in ranked if (p.tiles, p.warps) == (best.tiles, best.warps) and p.time_s <= CLOSE * best.time_s]
    alike = [p for p in alike if p.specialized == best.specialized]
    first = min(alike, key=lambda p: abs(p.stages - AHEAD) if p.specialized else p.stages)
    ranked = [first, *(p for p in ranked if p is not first)]
    near = [p for p in ranked[1:] if p.time_s <= WITHIN * first.time_s]
    chosen: dict[int, Proposal] = {}

    def take(found: Proposal | None) -> None:
        if found is not None:
            chosen.setdefault(id(found), found)

    mine = _respects(first)
    for name in mine:
        for more in (True, False):
            take(next((p for p in near if _differs(p, name, mine[name], more)), None))
    found = sorted(chosen.values(), key=lambda p: ranked.index(p))[: most - 1]
    for p in chain(near, ranked[1:]):
        if len(found) >= most - 1:
            break
        if p not in found and all(len(_apart(p, other)) > 1 for other in (first, *found)):
            found.append(p)
    for p in near:
        if len(found) >= most - 1:
            break
        if p not in found:
            found.append(p)
    found.sort(key=lambda p: ranked.index(p))
    return (first, *(replace(p, differs=tuple(_apart(p, first))) for p in found))


def _respects(p: Proposal) -> dict[str, int]:
    return {**p.tiles, "stages": p.stages, "warps": p.warps, "specialized": int(p.specialized)}


def _differs(p: Proposal, name: str, than: int, more: bool) -> bool:
    has = _respects(p)[name]
    return has > than if more else has < than


def _apart(p: Proposal, other: Proposal) -> list[str]:
    mine, theirs = _respects(p), _respects(other)
    return [name for name in mine if mine[name] != theirs[name]]
