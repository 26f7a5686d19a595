"""The shared memory of a kernel's blocks, read off the kernel as it is written, for many tiles at once.

The rule is that by which a written module is judged (`catdiag.planner.emitted_module`): an abstract interpreter reads
the kernel's tree, and gives the bytes of the buffers that are live at each time as polynomials of tile lengths. Kernels
of other tiles have the same buffers where the same instructions make their products. So tiles are sorted into classes
by that, a kernel of each class is read, and its polynomials are evaluated at the others. What is written differs from
that by scratch memory only (reductions and layout conversions): this depends on more than the class, and is not
counted.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from functools import cached_property
from typing import Any

import numpy as np

from catdiag.category.diagram import Diagram
from catdiag.category.integer_polynomial import IntPolynomial
from catdiag.chip.hardware import Hardware
from catdiag.codegen.program_sizes import spans_of_loops
from catdiag.codegen.triton.dot import ROWS, SHORTEST
from catdiag.codegen.triton.generated_module import Module
from catdiag.codegen.triton.triton_module import module
from catdiag.planner.emitted_module import generation as generation_of
from catdiag.planner.resources.block_resources import Numbers, Resources, Values, ceil_div, peak_bytes
from catdiag.planner.resources.dot_products import DotProducts
from catdiag.runtime.abstract_interpreter.shared_memory import STAGES, WARPS, shared_of_launch, taken, trace_of_launch
from catdiag.runtime.abstract_interpreter.symbolic_lengths import Length
from catdiag.runtime.abstract_interpreter.tile_values import HOPPER, TileTrace
from catdiag.runtime.launch_recorder import record_launches
from catdiag.runtime.machine_code import RecordedLaunch
from catdiag.schedule.loop_nest import lower
from catdiag.schedule.lowered_kernel import LoweredKernel
from catdiag.schedule.placement import LEVEL
from catdiag.util.errors import CatdiagError


class SmemCount(Enum):
    """Of which candidates the shared memory is read off what is written, which takes long."""

    ALL = "all"
    WHERE_IT_LIMITS = "those of which it may decide whether they fit, or how many blocks share a core"
    """Others are given `EmittedBlocks.most_smem_bytes`."""
    NONE = "none, and it counts as none"


LONGEST_BOX = 256
"""Entries along an axis of a box that the chip copies, at most."""
Class = int
"""What decides which buffers a kernel has, a bit each: whether the number of warps does, where warps make products one
by one and pass results to each other; of a tile whether it is 1, and no power of two; of a product what makes it."""


@dataclass(frozen=True)
class EmittedBlocks:
    """The blocks of the kernels of a diagram with these products, with arrays of these types, at these sizes, for a
    chip. Without `boxes`, arrays are copied by addresses on any chip."""

    diagram: Diagram
    dtype: str | Mapping[str, str]
    chip: Hardware
    sizes: Mapping[str, int]
    products: DotProducts
    boxes: bool = True
    _modules: dict[tuple[bool, tuple[tuple[Any, ...], ...]], Module] = field(
        default_factory=dict, init=False, repr=False
    )
    _refusals: dict[tuple[bool, tuple[tuple[Any, ...], ...]], CatdiagError] = field(
        default_factory=dict, init=False, repr=False
    )
    _traces: dict[tuple[Class, int], tuple[TileTrace, ...]] = field(default_factory=dict, init=False, repr=False)
    _totals: dict[tuple[Any, ...], tuple[IntPolynomial, ...]] = field(default_factory=dict, init=False, repr=False)

    @cached_property
    def _symbols(self) -> tuple[str, ...]:
        return tuple(spans_of_loops(lower(self.diagram)))

    @cached_property
    def merges_axes(self) -> bool:
        """Whether a side of a product may be of several axes."""
        return any(len(side.symbols()) > 1 for sides in self.products.sides for side in sides)

    def _kinds(self, tile: Any) -> tuple[Any, ...]:
        """What the text of a kernel depends on of a tile's length, or of many lengths: whether it is 1, and no power of
        two; where axes are merged to a side of a product, which of them is short, and has the rows of a warpgroup."""
        found = (tile == 1, tile & (tile - 1) > 0)
        if not self.merges_axes:
            return found
        return (*found, *(tile >= length for length in (4, 8, SHORTEST, ROWS)))

    def counted(
        self, count: SmemCount, kernel: LoweredKernel, taken: Resources, values: Values, stages: int
    ) -> Numbers:
        """Bytes of shared memory of a block of a kernel that takes these other resources, an entry for each candidate,
        as they are counted: with what runs of groups load ahead."""
        if count is SmemCount.NONE:
            return 0
        ahead = (stages - 1) * kernel.run_bytes.value(values)
        if count is SmemCount.ALL or not self.products.sides or not self._symbols:
            return ahead + self.smem_bytes(values, taken.warps, stages)
        chip, most = self.chip, self.most_smem_bytes(kernel, values)
        groups = math.prod(ceil_div(whole.value(values), values[tile]) for tile, whole in kernel.tiles.items())
        blocks = np.minimum(taken.blocks_per_sm(chip), np.maximum(ceil_div(groups, chip.sms), 1))
        room = np.minimum(chip.smem_per_block - taken.alignment_bytes, chip.smem_per_sm // blocks - chip.smem_reserved)
        return ahead + self.smem_bytes(values, taken.warps, stages, only=most + ahead > room, otherwise=most)

    def most_smem_bytes(self, kernel: LoweredKernel, values: Values) -> Numbers:
        """More bytes than the blocks of a kernel are expected to have of shared memory, an entry for each candidate: of
        what the ideal model keeps there, and of both factors and the result of each product, 4 bytes an entry."""
        found = peak_bytes(kernel, LEVEL, values)
        for sides, count in self.products.sides.items():
            rows, columns, depth = (side.value(values) for side in sides)
            found = found + 4 * count * (rows * depth + depth * columns + rows * columns)
        return found

    def smem_bytes(
        self,
        values: Values,
        warps: int,
        stages: int,
        specialized: bool = False,
        only: Numbers = True,
        otherwise: Numbers = 0,
    ) -> Numbers:
        """Bytes of shared memory of a block, without scratch memory, an entry for each candidate: 0 where nothing is
        multiplied, and where the kernel has no form in Triton (which is said where one is written); more than there
        is where none of the smallest tiles has a warp-specialized form. `values` gives tiles and sizes. It is read of
        those `only`, and `otherwise` of others."""
        if not self.products.sides or not self._symbols:
            return 0
        arrays = np.broadcast_arrays(*(np.asarray(values[symbol]) for symbol in self._symbols))
        tiles = {symbol: array.ravel() for symbol, array in zip(self._symbols, arrays, strict=True)}
        classes = self._classes(tiles, values, specialized)
        read = np.broadcast_to(only, arrays[0].shape).ravel()
        found = np.where(read, 0, np.broadcast_to(otherwise, arrays[0].shape).ravel()).astype(np.int64)
        for kind in sorted(set(classes[read].tolist())):
            members = np.flatnonzero((classes == kind) & read)
            own = {symbol: tile[members] for symbol, tile in tiles.items()}
            place = _smallest(own) if specialized else _largest(own)
            one = {symbol: int(tile[place]) for symbol, tile in own.items()}
            for total in self._live(kind, one, warps, stages, specialized):
                found[members] = np.maximum(found[members], total.value(own))
        return found.reshape(arrays[0].shape)

    def _classes(self, tiles: Mapping[str, Any], values: Values, specialized: bool) -> Any:
        """The class of each candidate. Warp-specialized kernels allocate all buffers themselves."""
        known, count = {**values, **tiles}, len(next(iter(tiles.values())))
        found = [one for tile in tiles.values() for one in self._kinds(tile)]
        by_warps: Numbers = False
        longer: Numbers = None
        for rows, columns, _ in () if specialized else self.products.sides:
            down, across = rows.value(known), columns.value(known)
            together = (down >= ROWS) & (generation_of(self.chip) >= HOPPER)
            found += [together, across >= ROWS]  # either side may be the rows of the instruction
            if len(self.products.sides) > 1:
                by_warps, longer = by_warps | np.logical_not(together), down >= across
        if longer is not None:  # of the last product of several: along which side all warps are
            found.append(by_warps & longer)
        return sum(
            np.broadcast_to(one, (count,)).astype(np.int64) << k
            for k, one in enumerate([specialized | by_warps, *found])
        )

    def _live(
        self, kind: Class, tiles: Mapping[str, int], warps: int, stages: int, specialized: bool
    ) -> tuple[IntPolynomial, ...]:
        """What is live from time to time in the kernels of a class, of which that of these tiles is read."""
        warps = warps if kind & 1 else WARPS
        key = kind, warps, stages, specialized
        if key not in self._totals:
            try:
                found = self._read(kind, tiles, warps, stages, specialized)
            except CatdiagError:
                found = None
            if found is None and specialized:  # smaller tiles may fit
                return (IntPolynomial.of(self.chip.smem_per_block + 1),)
            self._totals[key] = found or ()
        return self._totals[key]

    def _read(
        self, kind: Class, tiles: Mapping[str, int], warps: int, stages: int, specialized: bool
    ) -> tuple[IntPolynomial, ...] | None:
        """The same as it is read; None where the launch function does not take the warp-specialized form."""
        if not specialized:
            traces = self._traced(kind, tiles, warps)
            found = [taken(trace, stages, scratch=False) for trace in traces]
        else:
            made, generation = self.module(tiles, True), generation_of(self.chip)
            calls = self._launched(made, tiles, warps, stages, specialized=True)
            if not any(call.kernel in made.specialized for call in calls):
                return None
            found = [shared_of_launch(made.code, call, generation) for call in calls]
        return tuple(dict.fromkeys(total for shared in found for total in shared.totals))

    def _traced(self, kind: Class, tiles: Mapping[str, int], warps: int) -> tuple[TileTrace, ...]:
        """What the kernels of a class do; their number of stages is no part of it."""
        key = kind, warps
        if key not in self._traces:
            made, generation = self.module(tiles), generation_of(self.chip)
            calls = self._launched(made, tiles, warps)
            self._traces[key] = tuple(trace_of_launch(made.code, call, generation) for call in calls)
        return self._traces[key]

    def _launched(
        self, made: Module, tiles: Mapping[str, int], warps: int, stages: int = STAGES, specialized: bool = False
    ) -> tuple[RecordedLaunch, ...]:
        lengths = {name: Length.of(tiles[name], name) for name in made.tiles}
        generation = generation_of(self.chip) if self.boxes else min(generation_of(self.chip), HOPPER - 1)
        options = {**lengths, "num_warps": warps, "num_stages": stages}
        if made.specialized and not specialized:
            options["specialized"] = False
        return record_launches(made, self.sizes, options, generation=generation)

    def module(self, tiles: Mapping[str, int], specialized: bool = False) -> Module:
        """A module whose kernels are those for these tiles, perhaps with others (`_kinds`). Raises CatdiagError where
        they have no form in Triton."""
        kinds = tuple(map(self._kinds, tiles.values()))
        known = self._modules.get((True, kinds)) or self._modules.get((specialized, kinds))
        if known is not None:
            return known
        if (specialized, kinds) in self._refusals:
            raise self._refusals[specialized, kinds]
        warps = 8 if specialized else 4
        try:
            made = module(self.diagram, tiles, self.dtype, stages=2, warps=warps, specialized=specialized)
        except CatdiagError as error:
            self._refusals[specialized, kinds] = error
            raise
        self._modules[specialized, kinds] = made
        return made


def _smallest(tiles: Mapping[str, Any]) -> int:
    """The place of the smallest candidate: the launch function takes a warp-specialized kernel only where it fits."""
    return int(np.argmin(np.prod([tile.astype(float) for tile in tiles.values()], axis=0)))


def _largest(tiles: Mapping[str, Any]) -> int:
    """The place of the largest candidate that is copied in boxes as large as they may be, if there is one: in tiles
    of few entries a thread has too little of a row to copy it ahead."""
    small = np.all([tile <= LONGEST_BOX for tile in tiles.values()], axis=0)
    return int(np.argmax(np.prod([tile.astype(float) for tile in tiles.values()], axis=0) * (small + 1e-30)))
