"""How long a Triton kernel takes: the model of `catdiag.planner.time_model`, for what Triton's compiler makes of a
loop.

The operations, the bytes and the waits are those of that model. Different are:

- who is on a core: blocks as many as `catdiag.planner.triton_resources` says fit, rather than as `fit` counts them;
- shared memory: each piece of rows of a product reads all its columns from there, and its own rows unless they are in
  registers; and what a block loads for products is written there, at the same rate, while the matrix units wait;
- products are waited for, so that a warpgroup's matrix units fill and drain: `FILL` clocks for each piece of rows of a
  product of a turn;
- two buffers: Triton asks for block i + stages - 1 when turn i is over. With two buffers that is the very next one, and
  a part of the latency (`EXPOSED`) is waited for in each turn; with more, the whole turns between hide it, as long as
  they take that long;
- several warpgroups in a block: without warp specialisation they meet at barriers in each turn, so that one may have no
  products while the other has exponentials. A block of w warpgroups stands between one worker and w of them, by
  `APART`; where boxes are copied nearer to one: other blocks of the core overlap more than it does itself;
- loops without products: their loads are not begun ahead;
- products of fewer rows than a warpgroup's instruction takes are those of single warps: `Hardware`'s rate is reached
  by a part of it (`BY_WARP`), pieces have `WARP_ROWS` rows, the warps of a block share the columns. A warp waits
  `DEPENDENT` clocks for each step of a sum along the depth, and what is summed along a row goes from warp to warp
  through shared memory (`CROSSING` waits more for each). Such products are over when the turn is, and its buffers are
  loaded anew then: stages - 1 of them, so that a turn takes 1/(stages - 1) of a load's latency, its transfer and its
  use together;
- memory is a server that all blocks of the chip queue at, with as many customers as there are buffers: with few
  bytes on their way it is not busy all the time (`_shared`).

`FILL`, `EXPOSED` and `APART` were chosen on one H200 with Triton 3.6: on 27 kernels that copy boxes of arrays (a
streaming loop at d = 64 and 128, and a product), which are predicted within 5% on average, up to a common factor of
0.88; and on 440 that copy by addresses (`benchmarks/tiles.py`). Those kernels are a calibration, no test.
docs/explanation/time_model.md says how near the first choice is to the quickest.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from catdiag.category.integer_polynomial import ZERO, IntPolynomial
from catdiag.chip.hardware import Hardware
from catdiag.planner.time_model import (
    Timing,
    Values,
    ceil_div,
    iterations_overlap,
    mean_value_analysis,
    of_unlike_groups,
)
from catdiag.planner.triton_resources import Block
from catdiag.schedule.kernel_analysis import width
from catdiag.schedule.liveness import Contraction, LoweredKernel

EXPOSED = 0.4
"""The part of a load's latency that a turn waits for where there are two buffers."""
FILL = {True: 96, False: 64}
"""Clocks that the matrix units of a core are not full in, for each piece of rows of a product of a turn; for kernels
that copy boxes, and those that copy by addresses."""
APART = {True: 0.3, False: 1.0}
"""How far the warpgroups of a block work apart, for the same: 0 in step, 1 as if they were blocks."""
BEHIND = 0.7
"""Where loads are apart: how far a warpgroup's work is two turns at a time, since products of one go on beside the
rest of the next; 0 one after the other, 1 as if they were of two warpgroups."""
BEGUN = 96
"""There: clocks that the matrix units are not full in, for each piece of rows of a product of a turn."""
SINGLE_BLOCK_S, DRAIN_S = 5e-6, 2e-6
"""There: seconds before a block's first product and after its last, beside which the core has no other block; and for
each further range of its loop, since products of one are over before another begins."""
BESIDE_ROWS = 32
"""There: registers of a thread beside tiles."""
WARP_ROWS, WARP_COLUMNS, WARP_DEPTH = 16, 8, 32
"""Rows and columns that a warp's own matrix instruction takes, and how many bytes of each row."""
BY_WARP = 0.63
"""The part of the matrix units' rate that instructions of single warps reach on Hopper, and
`DEPENDENT`, the clocks until one can be added to: Luo et al. 2024, "Benchmarking and Dissecting the Nvidia Hopper GPU
Architecture via Microbenchmarking", tables on `mma`."""
DEPENDENT = 33
CROSSING = 2
"""Waits more for a sum of what several warps hold: written and read twice, between barriers."""
PORT = 64
"""Bytes of a clock that a core can take from the L2 while others take less."""


def blocks_per_sm(shared: Any, registers: Any, warps: int, chip: Hardware) -> Any:
    """Blocks that share a core, at least 1: by shared memory, registers of a thread, threads and the chip's most."""
    import numpy as np

    threads, step = chip.warp * warps, chip.register_step
    taken = np.ceil(np.minimum(registers, chip.registers_per_thread) / step) * step * threads
    found = np.minimum(chip.smem_per_sm // (shared + chip.smem_reserved), chip.registers_per_sm // taken)
    found = np.minimum(found, min(chip.blocks_per_sm, chip.threads_per_sm // threads))
    return np.maximum(found, 1).astype(np.int64)


def timed(
    kernel: LoweredKernel,
    chip: Hardware,
    timing: Timing,
    values: Values,
    dtype: str,
    stages: int,
    warps: int,
    blocks: Any,
    block: Block,
) -> Timing:
    """What a run takes, for each candidate of a timing at these values, where `blocks` share a core: that timing with
    the times of Triton's kernel."""

    def of(t: Timing) -> Timing:
        return _timed(kernel, chip, t, values, dtype, stages, warps, blocks, block)

    return of(timing) if timing.longest is None else of_unlike_groups(of(timing), of(timing.longest))


def _timed(
    kernel: LoweredKernel,
    chip: Hardware,
    timing: Timing,
    values: Values,
    dtype: str,
    stages: int,
    warps: int,
    blocks: Any,
    block: Block,
) -> Timing:
    import numpy as np

    ahead = block.staged
    single_block = _by_warp(kernel, chip, values) if ahead else False

    t, iterations = timing, np.maximum(timing.iterations, 1)
    transfer = t.parts["L2"] / iterations
    stalls = t.stalls
    if ahead and stages == 2:
        stalls = stalls + np.where(single_block, 0.0, (iterations - 1) * EXPOSED * chip.latency_s)
    elif not ahead and stages > 1:
        stalls = stalls + (iterations - 1) * (chip.latency_s + transfer)
    at_work = np.where(single_block, 1, max(1, stages - 1) if ahead and iterations_overlap(kernel) else 1)
    workers = max(1, warps // 4)
    groups = np.asarray(t.groups)
    copying = t.load / groups / (chip.smem_bytes_per_clock * chip.clock_hz) if ahead else 0.0
    instructions = sum(
        (iterations if c.loops else 1) * _row_instructions(c, chip, values, warps) for c in kernel.contractions
    )
    filling = FILL[block.boxes] * instructions / chip.clock_hz
    tensor, exp, alu = t.parts["tensor"], t.parts["exp"], t.parts["alu"]
    if dtype in chip.tensor:
        work, read = _products(kernel, chip, values, dtype, warps, iterations, block)
        tensor = np.maximum(work, read + copying) + filling
        if np.any(single_block):
            work, read, steps = _of_warps(kernel, chip, values, dtype, warps, iterations, block)
            tensor = np.where(single_block, np.maximum(work, read), tensor)
            crossing = CROSSING * sum(length for nest, length in kernel.chains.items() if nest) * iterations
            stalls = stalls + np.where(
                single_block, (steps * DEPENDENT + crossing * chip.wait_clocks) / chip.clock_hz, 0.0
            )
            fewer = np.where(single_block, _fewer(kernel, chip, values, warps), 1.0)
            loop_overhead = iterations * chip.turn_clocks * warps / 4 / chip.clock_hz
            exp, alu = exp * fewer, (alu - loop_overhead) * fewer + loop_overhead
    demands = [part / at_work for part in (tensor + t.parts["registers"], exp, alu)]
    at_once = chip.sms * blocks
    full, rest = groups // at_once, groups % at_once
    fullest = np.minimum(blocks, ceil_div(groups, chip.sms))
    last = np.minimum(fullest, ceil_div(rest, chip.sms))

    def working(number: Any) -> Any:
        together = mean_value_analysis(demands, stalls / at_work, [number * at_work])[0]
        if workers > 1:
            shares = [demand / workers for demand in demands]
            apart = mean_value_analysis(shares, stalls / at_work, [number * at_work * workers])[0]
            together = APART[block.boxes] * apart + (1 - APART[block.boxes]) * together
        return together

    def arriving(number: Any, together: Any) -> Any:
        ring: Any = 0.0
        if ahead and stages > 1:
            moved = np.where(single_block, t.load / groups / (PORT * chip.clock_hz) + together, t.parts["L2"])
            ring = (iterations * chip.latency_s + moved) / (stages - 1)
        return np.maximum(ring, number * t.parts["L2"])

    def round_of(number: Any, together: Any) -> Any:
        return np.where(number > 0, np.maximum(together, arriving(number, together)), 0.0)

    buffers, outer = max(1, stages - 1) if ahead else 1, _outer(t.edges, chip) / groups

    def wave(number: Any, of: Any, together: Any) -> Any:
        return np.where(of > 0, _shared(round_of(number, together), of * outer, np.maximum(of, 1) * buffers), 0.0)

    computing = working(fullest)
    longest = wave(fullest, np.minimum(groups, at_once), computing)
    return replace(
        t,
        blocks_per_sm=blocks,
        waves=ceil_div(groups, at_once),
        parts={**t.parts, "tensor": tensor, "exp": exp, "alu": alu},
        stalls=stalls,
        single_block=round_of(1, working(1)),
        computing=computing,
        loading=arriving(fullest, computing),
        wave=longest,
        seconds=full * longest + wave(last, rest, working(last)),
    )


def specialized_timed(
    kernel: LoweredKernel,
    chip: Hardware,
    timing: Timing,
    values: Values,
    dtype: str,
    groups: int,
    block: Block,
    ranges: int,
) -> Timing:
    """What a run takes of a kernel whose loads are apart, with so many warpgroups that compute and one block a core;
    its loop is run in so many ranges.

    A warpgroup begins the first products of a turn and the last ones of the turn before, and does the rest meanwhile;
    warpgroups do not meet, and rings are filled by a warp of its own, so that no load is waited for in the middle.
    """

    def of(t: Timing) -> Timing:
        return _specialized_timed(kernel, chip, t, values, dtype, groups, block, ranges)

    return of(timing) if timing.longest is None else of_unlike_groups(of(timing), of(timing.longest))


def _specialized_timed(
    kernel: LoweredKernel,
    chip: Hardware,
    timing: Timing,
    values: Values,
    dtype: str,
    groups: int,
    block: Block,
    ranges: int,
) -> Timing:
    import numpy as np

    t, iterations, count = timing, np.maximum(timing.iterations, 1), np.asarray(timing.groups)
    copying = t.load / count / (chip.smem_bytes_per_clock * chip.clock_hz)
    instructions = sum(
        (iterations if c.loops else 1) * _row_instructions(c, chip, values, 4 * groups) for c in kernel.contractions
    )
    work, read = _products(kernel, chip, values, dtype, 4 * groups, iterations, block)
    tensor = np.maximum(work, read + copying) + BEGUN * instructions / chip.clock_hz
    demands = [part / groups for part in (tensor, t.parts["exp"], t.parts["alu"], t.parts["registers"])]
    two = mean_value_analysis([d / 2 for d in demands], t.stalls / 2, [2 * groups * np.ones_like(count)])[0]
    one = mean_value_analysis(demands, t.stalls, [groups * np.ones_like(count)])[0]
    computing = BEHIND * two + (1 - BEHIND) * one
    block_s = np.maximum(computing, t.parts["L2"]) + SINGLE_BLOCK_S + (ranges - 1) * DRAIN_S
    waves = ceil_div(count, chip.sms)
    return replace(
        t,
        blocks_per_sm=np.ones_like(count),
        waves=waves,
        parts={**t.parts, "tensor": tensor},
        stalls=t.stalls + SINGLE_BLOCK_S + (ranges - 1) * DRAIN_S,
        single_block=block_s,
        computing=computing,
        loading=t.parts["L2"],
        wave=block_s,
        seconds=_shared(waves * block_s, _outer(t.edges, chip), 2 * np.minimum(count, chip.sms)),
    )


def specialized_registers(kernel: LoweredKernel, values: Values, groups: int, block: Block) -> Any:
    """Registers of a thread that computes there."""
    import numpy as np

    return np.ceil(specialized_arrays(kernel, block).value(values) / (4 * 128 * groups)) + BESIDE_ROWS


def specialized_arrays(kernel: LoweredKernel, block: Block) -> IntPolynomial:
    """The bytes that threads hold there: what all products of a turn give, and rows made for the last ones."""
    total = ZERO
    for c in kernel.contractions:
        if c.loops:
            rows, columns = (c.columns, c.rows) if c.sides == (False, True) else (c.rows, c.columns)
            total = total + (c.batch * rows * columns).scaled(4)
            if (c.rows, c.columns, c.depth) in block.products.passing:
                total = total + (c.batch * rows * c.depth).scaled(block.element)
    return total


def _shared(cores: Any, memory: Any, customers: Any) -> Any:
    """Seconds of a run that takes the cores `cores` seconds where memory is never waited for, and memory `memory`
    seconds where it is always busy.

    So many customers (loads that may be on their way at once) go round between the cores and the memory, where they
    queue. By the approximate mean value analysis of Bard and of Schweitzer (both 1979) for one queue and a delay, with
    n customers and u = cores / memory, memory is busy for the part x of the time with

        x u + (x / n) / (1 - x (n - 1) / n) = 1,

    which is 1 / max(1, u) where n is large.

    >>> [round(float(_shared(u, 1.0, n)), 3) for u, n in ((0.0, 100), (0.8, 100), (1.0, 100), (1.0, 1000), (2.0, 100))]
    [1.0, 1.034, 1.1, 1.032, 2.02]
    """
    import numpy as np

    busy = np.maximum(memory, 1e-30)
    u, a = cores / busy, (customers - 1) / customers
    b = u + a + 1 / customers
    return busy * (b + np.sqrt(np.maximum(b * b - 4 * a * u, 0.0))) / 2


def _rows(c: Contraction, values: Values) -> tuple[Any, Any]:
    """Rows and columns of a product, as matrix units take them."""
    rows, columns = (c.columns, c.rows) if c.sides == (False, True) else (c.rows, c.columns)
    return rows.value(values), columns.value(values)


def _by_warp(kernel: LoweredKernel, chip: Hardware, values: Values) -> Any:
    """Whether all products of loops have too few rows for a warpgroup's instruction."""
    found: Any = chip.matrix_rows > WARP_ROWS
    for c in kernel.contractions:
        found = found & (_rows(c, values)[0] < chip.matrix_rows) if c.loops else found
    return found


def _of_warps(
    kernel: LoweredKernel, chip: Hardware, values: Values, dtype: str, warps: int, iterations: Any, block: Block
) -> tuple[Any, ...]:
    """Of products by instructions of single warps, of a full block: seconds on the matrix units of a core, seconds of
    reading shared memory, and the steps along their depths. Warps that have no rows of their own share the columns;
    rows that stay the same in a loop are in registers."""
    import numpy as np

    element = width(dtype)
    step = WARP_DEPTH // element
    work: Any = 0.0
    read: Any = 0.0
    steps: Any = 0
    for c in kernel.contractions:
        rows, columns = _rows(c, values)
        batch, deep = c.batch.value(values), ceil_div(c.depth.value(values), step)
        tall = ceil_div(rows, WARP_ROWS)
        beside = np.maximum(1, warps // tall)
        broad = ceil_div(columns, WARP_COLUMNS * beside) * WARP_COLUMNS * beside
        often = iterations if c.loops else 1
        work = work + 2.0 * batch * tall * WARP_ROWS * broad * deep * step * often
        again = 0 if block.is_hoisted(c.rows, c.columns) else WARP_ROWS * beside
        read = read + batch * tall * (again + broad) * deep * step * element * often
        steps = steps + batch * deep * often
    rate = chip.tensor[dtype] * BY_WARP / chip.sms
    return work / rate, read / (chip.smem_bytes_per_clock * chip.clock_hz), steps


def _fewer(kernel: LoweredKernel, chip: Hardware, values: Values, warps: int) -> Any:
    """How many times the entries of pieces for a warpgroup those for single warps have, of the rows of products."""
    import numpy as np

    ours: Any = 1.0
    theirs: Any = 1.0
    for c in kernel.contractions:
        rows, batch = _rows(c, values)[0], c.batch.value(values)
        ours = np.maximum(ours, ceil_div(rows, WARP_ROWS) * WARP_ROWS / rows)
        theirs = np.maximum(theirs, _row_instructions(c, chip, values, warps) * chip.matrix_rows / (batch * rows))
    return np.minimum(1.0, ours / theirs)


def _row_instructions(c: Contraction, chip: Hardware, values: Values, warps: int) -> Any:
    """Pieces of rows that the matrix units of a core take in a turn, all warpgroups together."""
    workers = max(1, warps // chip.matrix_warps)
    rows = c.columns if c.sides == (False, True) else c.rows
    return ceil_div(c.batch.value(values) * ceil_div(rows.value(values), chip.matrix_rows), workers) * workers


def _products(
    kernel: LoweredKernel, chip: Hardware, values: Values, dtype: str, warps: int, iterations: Any, block: Block
) -> tuple[Any, Any]:
    """Seconds of a full block on the matrix units of a core, and those that reading its factors from shared memory
    takes: each piece of rows reads all columns, and its own rows, unless these are in registers."""
    import numpy as np

    element = width(dtype)
    step, tall = chip.depth_piece(element), chip.matrix_rows
    work: Any = 0.0
    read: Any = 0.0
    for c in kernel.contractions:
        flip = c.sides == (False, True)
        rows, columns = (c.columns, c.rows) if flip else (c.rows, c.columns)
        instructions = _row_instructions(c, chip, values, warps)
        broad = ceil_div(columns.value(values), chip.matrix_columns) * chip.matrix_columns
        depth = ceil_div(c.depth.value(values), step) * step
        often = iterations if c.loops else 1
        work = work + 2.0 * instructions * tall * broad * depth * often
        held = block.first_in_registers((c.rows, c.columns, c.depth), rows, columns, values)
        read = read + instructions * (broad + np.where(held, 0, tall)) * depth * element * often
    return (
        work * chip.sms / (chip.tensor[dtype] * chip.sustained["tensor"]),
        read / (chip.smem_bytes_per_clock * chip.clock_hz),
    )


def _outer(edges: Mapping[str, Any], chip: Hardware) -> Any:
    """Seconds that memory and a last-level cache need for what crosses the edges below them."""
    import numpy as np

    rates = {"HBM": chip.hbm_bytes_per_s * chip.sustained["hbm"], "LLC": chip.llc_bytes_per_s}
    found: Any = 0.0
    for name, crossed in edges.items():
        if rates.get(name.split("-")[0]):
            found = np.maximum(found, crossed / rates[name.split("-")[0]])
    return found
