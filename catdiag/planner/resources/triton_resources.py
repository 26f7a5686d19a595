"""What a block of a Triton kernel takes: Triton decides where arrays lie by who reads them.

What a product reads (`tl.dot`) lies in shared memory, as `catdiag.planner.resources.emitted_smem` reads it off the
kernel; everything else is in registers, also what was loaded, and then in the type that it is computed in, 4 bytes as a
rule, but for an array that meets a product's result and is read nowhere else. Every length is a power of two: what is
not is filled up and masked. A product takes no fewer than `MIN_DOT` along any of its sides, and a kernel holds no fewer
of an axis that is neither grouped nor streamed.

Registers that a thread takes, by what it needs them for: the arrays, as `catdiag.schedule.liveness` counts what is
live; sums along rows, which all threads of a row hold; a copy, as narrow as products want it, of what one product has
made and another takes; what instructions of single warps read of the factors of products; results that are read from
tensor memory; where products are in three passes of tf32, two parts of each first factor, and of each second one that
single warps read; where the chip does not copy boxes of arrays by a descriptor, the addresses of copies to shared
memory, two registers for each 16 bytes that a thread copies in an iteration; blocks that are loaded again to be
computed with; three for each entry of a product's factor that is loaded from computed positions, and its address; and
`OTHER_REGISTERS`. On AMD's chips, what `catdiag.planner.resources.mfma_registers` counts of products, and blocks that
are loaded ahead. The compiler saves some of them where it has to, and takes more where there are some: this is no
promise: docs/explanation/time_model.md says how it does.

>>> import catdiag as cd
>>> from catdiag.planner.fit import searching
>>> from catdiag.planner.resources.dot_products import dot_products
>>> product = cd.library.get("matmul").stream("b").group("a c")
>>> search = searching(product, "H200", {"a": 4096, "b": 4096, "c": 4096}, stages=3)
>>> products = dot_products(search.diagram, frozenset(search.kernel.tiles), "bf16")
>>> emitted = EmittedBlocks(search.diagram, "bf16", search.chip, search.sizes, products)
>>> block = TritonBlock.of(search.kernels[3], 3, emitted)
>>> found = block.resources({"a": 4096, "b": 4096, "c": 4096, "g_a": 128, "g_c": 256, "s_b": 64}, warps=8)
>>> int(found.smem_bytes), int(found.registers_per_thread)      # what is compiled takes 147480 and 154
(147504, 156)
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from catdiag.category.integer_polynomial import ZERO, IntPolynomial
from catdiag.category.op_facts import elementwise
from catdiag.chip.hardware import Hardware
from catdiag.planner.emitted_module import ALIGNMENT_BYTES
from catdiag.planner.resources.block_resources import Numbers, Resources, Values, most_registers, peak_bytes
from catdiag.planner.resources.dot_products import WIDE, DotProducts, Sides
from catdiag.planner.resources.elementwise_pressure import register_pressure
from catdiag.planner.resources.emitted_smem import EmittedBlocks, SmemCount
from catdiag.planner.resources.mfma_registers import WARP, MfmaRegisters
from catdiag.schedule.element_widths import width
from catdiag.schedule.live_ranges import is_view, view_roots
from catdiag.schedule.lowered_kernel import LoweredKernel
from catdiag.schedule.placement import LEVEL, MATRIX, REGISTERS

MIN_DOT = 16
"""The least length of a product's side."""
OTHER_REGISTERS = 28
"""Registers of a thread beside arrays and addresses, found by compiling kernels."""
FUSED_REGISTERS = 16
"""The same where no matrices are multiplied, whose arrays `catdiag.planner.resources.elementwise_pressure` counts."""
LOOP_REGISTERS, STREAM_REGISTERS = 12, 4
"""The same of a loop, and for each array after the first that it loads: an address and a mask."""
PLAIN_REGISTERS = 15
"""The same where no special functions are taken for each entry. What is known of a row is not counted there: ptxas
brings such sums down to 32 registers, with which an SM has all its threads."""
_COMPUTED_AHEAD = 1.85
"""How often LLVM holds arrays where an iteration makes a factor of a product, on chips with warps of 64 threads: it
begins with one array before it is done with another. Chosen on the library's kernels for an MI300X in fp16."""
SPILLING = 250
"""Registers above which a kernel may spill, by this estimate: of 32 kernels with products that spill, which were
compiled for three chips, 26 are said to take 264 or more."""

_ALIGNED = 16
"""What divides the lengths of rows of which Triton loads several entries at once."""
_COPY_BYTES = 16
"""Bytes that one copy to shared memory takes, and one load at most."""
_ROW_THREADS = 4
"""Threads of a warp that share a row of a product's result, and hold each the sums along it."""
_SHARED_ROWS = 1.45
"""How many more registers a thread takes where several warps work on the same 16 rows, at most, in kernels seen."""
_WARP_ROWS, _WARP_COLUMNS = 16, 8
"""Rows and columns of a product that an instruction of a single warp gives."""
_WIDE_PARTS = 3
"""How often a thread has an entry that a product reads in three passes of tf32: as it was loaded, and its two parts."""
_FRAGMENT_BYTES = 32
"""Bytes that such an instruction reads of each row and column: 16 entries of 16 bits, 8 of tf32."""


@dataclass(frozen=True)
class TritonBlock:
    """The blocks of a kernel that is `emitted` with so many buffers, in polynomials of tiles: what threads hold
    (`register_arrays`), and the bytes that all its threads copy to shared memory in an iteration (`copied`). Its shared
    memory is read off what is written.

    `staged`: blocks of a loop are copied there ahead of their iteration, which Triton does not do in a loop that tests
    blocks before it loads them. `boxes`: the chip copies boxes of arrays
    itself, so that threads need no addresses for it. `hoisted` is what is copied once, before the loop that multiplies
    it (rows, columns). `streamed_loads`: what an iteration loads to make something else of it, in the type that it is
    computed in. `late_arrays`: how many an iteration loads that no product of it reads, which is not begun ahead;
    `reloaded`: bytes of these that a product reads too, as boxes of its own. `loaded_again`: of each array that a
    product reads as it is, what an iteration loads once more to compute with it.
    """

    kernel: LoweredKernel
    emitted: EmittedBlocks
    stages: int
    boxes: bool
    staged: bool
    register_arrays: tuple[IntPolynomial, ...]
    copied: IntPolynomial
    loaded_again: tuple[IntPolynomial, ...]
    hoisted: tuple[tuple[IntPolynomial, IntPolynomial], ...]
    streamed_loads: tuple[IntPolynomial, ...]
    late_arrays: int
    reloaded: IntPolynomial
    smem_count: SmemCount = SmemCount.ALL

    @staticmethod
    def of(kernel: LoweredKernel, stages: int, emitted: EmittedBlocks) -> TritonBlock:
        """The blocks of a kernel that was lowered with so many buffers of each streamed block, and is `emitted`."""
        found, chip = emitted.products, emitted.chip
        widths = {b.name: b.width for b in kernel.allocated()}
        boxes = emitted.boxes and chip.by_warpgroups
        loaded: dict[IntPolynomial, None] = {}
        streamed: dict[IntPolynomial, None] = {}
        copies: dict[tuple[str, IntPolynomial], None] = {}
        hoisted: dict[str, tuple[IntPolynomial, IntPolynomial]] = {}
        multiplied = found.direct | found.indirect
        late: dict[tuple[str, IntPolynomial], bool] = {}
        again: dict[str, IntPolynomial] = {}
        once = _read_once(kernel, emitted.sizes)
        for point in kernel.points[LEVEL]:
            far, inside = ZERO, ZERO
            for name, role, amount in point.live:
                one = IntPolynomial({m: c // stages for m, c in amount.terms.items()}) if role == "streamed" else amount
                direct = name in found.direct or role not in ("operand", "streamed")
                if not direct or (name in found.reduced and role == "streamed"):
                    wide = one if name == once and role == "operand" else one.scaled(max(1, 4 // widths[name]))
                    far, inside = far + wide, inside + (wide if role == "streamed" else ZERO)
                if role == "streamed" and (name in found.reduced or name not in multiplied):
                    late[name, one] = name in multiplied
                if role == "streamed" and name in found.direct and name in found.computed and name not in found.reduced:
                    again[name] = one
                if role == "streamed" and name in multiplied:
                    copies[name, one] = None
                elif direct and boxes and kernel.loops and name in found.rows:
                    hoisted[name] = found.rows[name]
            loaded[far], streamed[inside] = None, None
        return TritonBlock(
            kernel=kernel,
            emitted=emitted,
            stages=stages,
            boxes=boxes,
            staged=kernel.in_runs or (bool(copies) and not any(b.tests_blocks for b in kernel.loop_bounds.values())),
            register_arrays=(
                _register_arrays(kernel, found, tuple(loaded)) if found.sides else register_pressure(kernel)
            ),
            copied=sum((amount for _, amount in copies), ZERO),
            loaded_again=tuple(again.values()),
            hoisted=tuple(hoisted.values()),
            streamed_loads=tuple(streamed),
            late_arrays=len({name for name, _ in late}),
            reloaded=sum((amount for (_, amount), again in late.items() if again), ZERO),
        )

    @property
    def chip(self) -> Hardware:
        """The chip that the kernel is written for."""
        return self.emitted.chip

    @property
    def products(self) -> DotProducts:
        """The products of the kernel."""
        return self.emitted.products

    def resources(self, values: Values, warps: int) -> Resources:
        """What a block of so many warps takes; `values` gives sizes filled up to what a kernel indexes."""
        found = Resources(
            0,
            registers_per_thread=np.asarray(self.registers(values, warps)).astype(np.int64),
            most_registers=self.most_registers(warps),
            warps=warps,
            tmem_bytes=peak_bytes(self.kernel, MATRIX, values),
            register_bytes=peak_bytes(self.kernel, REGISTERS, values),
            alignment_bytes=ALIGNMENT_BYTES,
        )
        return replace(found, smem_bytes=self.emitted.counted(self.smem_count, self.kernel, found, values, self.stages))

    def most_registers(self, warps: int) -> int:
        """Registers of a thread above which the compiler is expected to spill."""
        most = most_registers(self.chip, self.chip.warp * warps)
        return most if self.chip.warp == WARP else min(SPILLING, most)

    # -- registers -----------------------------------------------------------------------------------------------

    def registers(self, values: Values, warps: int) -> Numbers:
        """Registers of a thread, of 4 bytes each."""
        passed, beside = self._passed_registers(values, warps), self._other_registers(values, warps)
        if self.products.sides and self.chip.warp == WARP:
            ahead = self._computed_ahead * self.values_per_thread(values, warps)
            return np.ceil(ahead + passed + self._mfma_registers(values, warps)) + beside
        arrays = self._array_registers(values, warps) + self._result_registers(values, warps)
        needed = np.ceil(arrays + passed) + beside
        own = needed + np.ceil(self._factor_registers(values, warps))
        in_parts = np.ceil(arrays + self._shared_part_registers(values, warps)) + beside
        return np.where(self.warps_own_rows(values, warps), own, np.maximum(np.ceil(_SHARED_ROWS * needed), in_parts))

    def array_bytes(self, values: Values, warps: int, registers: int) -> int:
        """The bytes of arrays that a block has room for where each thread takes so many registers."""
        passed, beside = float(self._passed_registers(values, warps)), float(self._other_registers(values, warps))
        threads = self.chip.warp * warps
        if self.products.sides and self.chip.warp == WARP:
            left = registers - beside - passed - float(self._mfma_registers(values, warps))
            return max(0, math.floor(4 * threads * left / self._computed_ahead))
        if bool(self.warps_own_rows(values, warps)):
            needed: float = registers - math.ceil(float(self._factor_registers(values, warps)))
        else:
            in_parts = registers + passed - math.ceil(float(self._shared_part_registers(values, warps)))
            needed = min(in_parts, math.floor(registers / _SHARED_ROWS))
        results = float(self._result_registers(values, warps))
        return max(0, math.floor(4 * threads * (needed - beside - passed - results)))

    def values_per_thread(self, values: Values, warps: int) -> Numbers:
        """Values of 4 bytes that a thread holds at most, of arrays."""
        most: Numbers = 0
        for amount in self.register_arrays:
            most = np.maximum(most, amount.value(values))
        return most / (4 * self.chip.warp * warps)

    def _array_registers(self, values: Values, warps: int) -> Numbers:
        """Registers of arrays. Where nothing is multiplied, a thread has at least one entry of each: all threads that
        share a row hold what is known of it."""
        if self.products.sides or self._plain:
            return self.values_per_thread(values, warps)
        most: Numbers = 0
        for amount in self.register_arrays:
            arrays: Numbers = 0
            for symbols, count in amount.terms.items():
                entries = IntPolynomial({symbols: 1}).value(values) / (self.chip.warp * warps)
                arrays = arrays + count * np.maximum(1, entries) / 4
            most = np.maximum(most, arrays)
        return np.ceil(most)

    def _vector_registers(self, values: Values, warps: int) -> Numbers:
        """For vectors that are broadcast to a tile: of these a thread has as many neighbors as of the tile, 16 bytes at
        most, which may be more than a part of its own. Shorter ones than there are threads are not counted."""
        inputs = [] if self.kernel.loops else [b for part in self.kernel.parts for b in part.body.inputs]
        parts = [(b.size.value(values) / (self.chip.warp * warps), b.width) for b in inputs if b is not None]
        tile: Numbers = 0
        total: Numbers = 0
        for part, _ in parts:
            tile = np.maximum(tile, part)
        for part, each in parts:
            more = np.maximum(0, np.minimum(_COPY_BYTES // each, tile) - part)
            total = total + np.where(np.asarray(part) < 1, 0, more) * each / 4
        return np.ceil(total)

    @property
    def _computed_ahead(self) -> float:
        """How often arrays are held on AMD's chips: once where no iteration makes a factor of a product."""
        return _COMPUTED_AHEAD if self.products.register_factors else 1.0

    def _mfma_registers(self, values: Values, warps: int) -> Numbers:
        """For products on AMD's chips: factors as they are multiplied, results that several warps hold beyond what is
        counted as arrays, and blocks that are loaded ahead, which pass through registers."""
        taken = MfmaRegisters.of(self.products, values, warps)
        ahead = self.copied.value(values) / (4 * self.chip.warp * warps)
        return taken.factors + np.maximum(0, taken.results - taken.held_once) + ahead

    def warps_own_rows(self, values: Values, warps: int) -> Numbers:
        """Whether warps have rows of their own, 16 at least, where one product takes what another has made."""
        found: Numbers = True
        for _, rows, _ in self.products.register_factors:
            found = found & (rows.value(values) >= _WARP_ROWS * warps)
        return found

    def _passed_registers(self, values: Values, warps: int) -> Numbers:
        """For what is passed from one product to another, in parts of a register; factors that are alike and are read
        in two parts are divided beside each other. Where there are more warps than 16 rows each make, several hold the
        same rows, in two layouts."""
        most: Numbers = 0
        for (amount, rows, size), count in self.products.register_factors.items():
            shared = _WARP_ROWS * warps / rows.value(values)
            times = (count if size >= WIDE else 1) * np.where(shared > 1, 2 * shared, 1)
            most = np.maximum(most, amount.value(values) * size * times / (4 * self.chip.warp * warps))
        return most + self._part_registers(values, warps)

    def _part_registers(self, values: Values, warps: int) -> Numbers:
        """For factors of 4 bytes, which products in three passes of tf32 read in two parts from registers: first
        factors, but for the entries that are counted already, and second ones too where single warps multiply, each
        of which has all entries of its rows and columns."""
        if not self.products.wide:
            return 0
        if self.products.register_factors:
            entries: Numbers = sum(n * s[0].value(values) * s[2].value(values) for s, n in self.products.wide.items())
            factors = self.products.register_factors.items()
            made = sum(n * amount.value(values) for (amount, _, size), n in factors if size >= WIDE)
            return np.maximum(0, 2 * entries - made) / (self.chip.warp * warps)
        total: Numbers = 0
        for sides in self.products.wide:
            lines, rows = self._warp_lines(sides, values, warps), sides[0].value(values) / warps
            own = np.where(self._by_single_warps(sides, values), lines, rows)
            total = total + 2 * own * sides[2].value(values) / self.chip.warp
        return total

    def _by_single_warps(self, sides: Sides, values: Values) -> Numbers:
        """Whether instructions of single warps make a product."""
        return (sides[0].value(values) < self.chip.matrix_rows) | (not self.chip.by_warpgroups)

    def _warp_lines(self, sides: Sides, values: Values, warps: int) -> Numbers:
        """Rows and columns of the part of a product's result that a warp makes, together."""
        rows, columns = sides[0].value(values), sides[1].value(values)
        down = warps if self.products.register_factors else _warps_down(rows, columns, warps)
        return np.maximum(rows / down, _WARP_ROWS) + np.maximum(columns * down / warps, _WARP_COLUMNS)

    def _result_registers(self, values: Values, warps: int) -> Numbers:
        """For results of products on a chip that has them in tensor memory, which no array in registers stands for.

        They are read whole, in the place of the loop's arrays: one at a time, in whose place there comes what is passed
        on; where an iteration waits for several reductions, one more, which is rescaled. At the end of a loop they take
        the place of addresses too; where an iteration computes the first factor, it waits for its product, whose result
        it reads. A product in three passes of tf32 waits for each, and adds the last one to a sum in registers. Results
        of few rows, by instructions of single warps, are in registers as on other chips.
        """
        if not self.chip.tmem_per_sm:
            return 0
        second: Numbers = 0
        most: Numbers = 0
        single: Numbers = 0
        waited: Numbers = 0
        summed: Numbers = 0
        for rows, columns, depth in self.products.sides:
            length = rows.value(values)
            entries = length * columns.value(values) / (self.chip.warp * warps)
            in_tmem = np.where(length < self.chip.matrix_rows, 0, entries)
            second, most = np.maximum(second, np.minimum(most, in_tmem)), np.maximum(most, in_tmem)
            single = single + entries - in_tmem
            if (rows, columns, depth) in self.products.passing:
                waited = np.maximum(waited, in_tmem)
            if (rows, columns, depth) in self.products.wide:
                summed = summed + in_tmem
        arrays = self.values_per_thread(values, warps)
        if not self.products.register_factors:
            last = most - arrays - self._other_registers(values, warps) + OTHER_REGISTERS
            return single + np.maximum(np.maximum(waited, summed), last)
        rescaled = max(self.kernel.chains.values(), default=0) > 1
        read = most + second if rescaled else np.maximum(0, most - self._passed_registers(values, warps))
        return np.maximum(0, read - arrays)

    def _factor_registers(self, values: Values, warps: int) -> Numbers:
        """For factors on their way between registers and shared memory.

        Instructions of single warps multiply parts of both: in each product once more, for the next instructions
        (`Prefetch` of Triton's), unless the rows of one product are passed on to another: then only products that are
        alike are made beside each other. Second factors that an
        iteration makes are narrowed before they are stored.
        """
        most: Numbers = 0
        total: Numbers = 0
        for sides, count in self.products.sides.items():
            if sides in self.products.wide and not self.products.register_factors:
                continue  # whose entries are all counted as parts
            registers = self._fragment_registers(sides, values, warps)
            registers = registers * (_WIDE_PARTS if sides in self.products.wide else 1)
            most, total = np.maximum(most, count * registers), total + 2 * registers
        if self.products.register_factors:
            return most
        seconds = [factor for factor in self.kernel.factors if factor.second]
        stored: Numbers = sum(factor.size.value(values) * width(factor.dtype) for factor in seconds)
        return total + stored / (4 * self.chip.warp * warps)

    def _shared_part_registers(self, values: Values, warps: int) -> Numbers:
        """For products in three passes of tf32 whose rows several warps share: two parts of each first factor, of which
        each warp has all rows that it multiplies, what instructions read, and results that are elsewhere in tensor
        memory. All warps are along the longer side of the last product (`warpsPerTileV2` in Triton's
        `AccelerateMatmul.cpp`); but where addresses load a factor, its parts lie in shared memory, and fewer are read
        at a time."""
        total: Numbers = 0
        most: Numbers = 0
        if not self.products.register_factors:
            return total
        last_rows, last_columns = (side.value(values) for side in [*self.products.passing][-1][:2])
        chained = np.where(np.asarray(last_rows) >= last_columns, warps, 1)
        for sides, count in self.products.wide.items():
            rows, columns, depth = (side.value(values) for side in sides)
            down = chained if self.boxes else _warps_down(rows, columns, warps)
            entries = rows * depth / (self.chip.warp * down)
            total = total + 2 * count * entries
            most = np.maximum(most, self._fragment_registers(sides, values, warps))
            if self.chip.tmem_per_sm:
                total = total + self.products.sides[sides] * rows * columns / (self.chip.warp * warps)
        return total + most

    def _fragment_registers(self, sides: Sides, values: Values, warps: int) -> Numbers:
        """What an instruction of a single warp reads of both factors: 32 bytes of each row and column of the warp's
        part of the result; nothing of what four warps multiply together."""
        registers = self._warp_lines(sides, values, warps) * _FRAGMENT_BYTES / (4 * self.chip.warp)
        return np.where(self._by_single_warps(sides, values), registers, 0)

    def _other_registers(self, values: Values, warps: int) -> Numbers:
        """For addresses of copies and of gathered entries, 8 bytes each, these entries, and what the compiler keeps."""
        copies = self.copied.value(values) / (_COPY_BYTES * self.chip.warp * warps)
        parts = [(amount.value(values), taps.value(values)) for amount, taps, _ in self.products.partial_loads]
        entries = sum(np.where(self.boxes & (np.asarray(taps) == 1), 0, amount) for amount, taps in parts)
        gathered = 3 * np.ceil(entries / (self.chip.warp * warps))
        if self.products.sides:
            few: Numbers = OTHER_REGISTERS
        else:
            few = self._elementwise_registers + self._vector_registers(values, warps)
        return (0 if self.boxes else 2 * np.ceil(copies)) + gathered + self._again_registers(values, warps) + few

    @property
    def _plain(self) -> bool:
        """Whether it takes no special functions for each entry: none in its loops, or none where it has no loop."""
        return not any(name == "exp" and (loops or not self.kernel.loops) for name, loops in self.kernel.work)

    @property
    def _elementwise_registers(self) -> int:
        """For what the compiler keeps where nothing is multiplied."""
        if self._plain or not self.kernel.loops:
            return PLAIN_REGISTERS if self._plain else FUSED_REGISTERS
        return LOOP_REGISTERS + STREAM_REGISTERS * max(0, self.late_arrays - 1)

    def _again_registers(self, values: Values, warps: int) -> Numbers:
        """For blocks that products read as they are, and that are loaded again to compute something else: these loads
        are begun together. What is made of the largest is an array; the others are there as they are stored, each 16
        bytes with their address."""
        total: Numbers = 0
        most: Numbers = 0
        for amount in self.loaded_again:
            loaded = amount.value(values) / (self.chip.warp * warps)
            total, most = total + loaded, np.maximum(most, loaded)
        return np.ceil((total - most) / 4) + 2 * np.ceil((total - most) / _COPY_BYTES)

    # -- what the time model asks --------------------------------------------------------------------------------

    def is_hoisted(self, rows: IntPolynomial, columns: IntPolynomial) -> bool:
        """Whether the rows of a product are loaded once, before the loop that multiplies them."""
        return any((rows, columns) in ((r, c), (c, r)) for r, c in self.hoisted)

    def passes_in_registers(self, sides: Sides) -> bool:
        """Whether the first factor of a product with these sides was made in registers, and is read from there."""
        return sides in self.products.passing


def _read_once(kernel: LoweredKernel, sizes: Values) -> str:
    """The one input, if there is one, that an elementwise box reads beside the result of a product, and nothing else
    does: each entry is widened when it meets the result's. Its rows are to be multiples of `_ALIGNED` long, since
    narrow entries that are loaded one by one take a register each.

    >>> import catdiag as cd
    >>> from catdiag.schedule.kernel_analysis import measure
    >>> layer = cd.algorithm("t d, d o, t o -> t o")(lambda X, W, R: cd.einsum("t d, d o -> t o", X, W) + R)
    >>> (kernel,) = measure(layer.stream("d").group("t o").diagram, "bf16", registers=True).kernels
    >>> _read_once(kernel, {"t": 8100, "d": 4096, "o": 6144}), _read_once(kernel, {"t": 8192, "d": 4096, "o": 6150})
    ('R', '')
    """
    found: dict[str, int] = {}
    for part in kernel.parts if kernel.contractions else ():
        graph, inputs = part.body.graph, part.body.inputs
        root, types = view_roots(graph), graph.wire_types()
        for node in graph.nodes:
            for w in () if is_view(node.box) else node.inputs:
                buffer = inputs[root[w]] if root[w] < len(inputs) else None
                if buffer is not None and len(types[root[w]].axes) > 1:
                    last = str((buffer.axes or types[root[w]].axes)[-1].size)
                    whole = kernel.tiles.get(last)
                    known = whole is not None and whole.symbols() <= set(sizes)
                    aligned = whole is not None and known and whole.value(sizes) % _ALIGNED == 0
                    beside = elementwise(node.box) and len(node.inputs) > 1 and aligned
                    found[buffer.name] = found.get(buffer.name, 0) + (1 if beside else 2)
    once = [name for name, readers in found.items() if readers == 1]
    return once[0] if len(once) == 1 else ""


def _warps_down(rows: Numbers, columns: Numbers, warps: int) -> Numbers:
    """How many of the warps divide the rows of a product, others its columns: so that each has about as many
    instructions along both (`warpsPerTileV2` in Triton's `AccelerateMatmul.cpp`)."""
    along = [rows / _WARP_ROWS, columns / _WARP_COLUMNS]
    down: Numbers = 1
    for _ in range(warps.bit_length() - 1):
        taken = along[0] >= along[1]
        down = np.where(taken, 2 * down, down)
        along = [np.where(taken, np.maximum(1, along[0] / 2), along[0]),
                 np.where(taken, along[1], np.maximum(1, along[1] / 2))]  # fmt: skip
    return down


def _register_arrays(
    kernel: LoweredKernel, products: DotProducts, loaded: tuple[IntPolynomial, ...]
) -> tuple[IntPolynomial, ...]:
    """Bytes that threads hold from point to point: arrays, the sums along rows as often as threads share a row, and
    what is loaded to be made into something else."""
    sums = {side.scaled(4) for sides in products.sides for side in sides[:2]}
    found = {
        point.total + sum((a.scaled(_ROW_THREADS - 1) for _, _, a in point.live if a in sums), far): None
        for point in kernel.points[REGISTERS]
        for far in loaded or (ZERO,)
    }
    return tuple(found or loaded)
