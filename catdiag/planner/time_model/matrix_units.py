"""Seconds of a block's products on the matrix units of its core, and of the shared memory that these read.

A product is done in whole pieces: matrix instructions of `Hardware.matrix_rows` rows, `matrix_columns` columns and
`depth_piece` of the depth, at the sustained rate. Three ways to share one out are modelled: `grid_product_seconds` by
the ideal backend, `warpgroup_product_seconds` as Triton does it for warpgroups, `warp_product_seconds` where a
product has too few rows for a warpgroup's instruction.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from catdiag.category.integer_polynomial import IntPolynomial
from catdiag.chip.hardware import Hardware
from catdiag.planner.instruction_shapes import rows_and_columns
from catdiag.planner.resources.block_resources import Numbers, ceil_div
from catdiag.planner.resources.triton_resources import TritonBlock
from catdiag.planner.time_model.kernel_instance import KernelInstance
from catdiag.schedule.contractions import Contraction, Loop
from catdiag.schedule.element_widths import width

WARP_ROWS, WARP_COLUMNS, WARP_DEPTH_BYTES = 16, 8, 32
"""Rows and columns that a warp's own matrix instruction takes, and how many bytes of each row."""
WARP_RATE = 0.63
"""The part of the matrix units' rate that instructions of single warps reach on Hopper: Luo et al. 2024, "Benchmarking
and Dissecting the Nvidia Hopper GPU Architecture via Microbenchmarking", tables on `mma`."""


@dataclass(frozen=True)
class MatrixSeconds:
    """Of a full block: seconds on the matrix units, of these `inner` those in loops inside loops whose iterations wait
    for no sums; seconds of reading shared memory meanwhile (`reading`); `row_padding_ratio`: how many times its rows
    the pieces have."""

    total: Numbers = 0.0
    inner: Numbers = 0.0
    reading: Numbers = 0.0
    row_padding_ratio: Numbers = 1.0


def peak_flops_per_s(contractions: Iterable[Contraction], chip: Hardware) -> float:
    """FLOP/s of a chip's matrix units at most in the types of some products; 0 if they multiply none of these."""
    return max((chip.tensor.get(c.dtype, 0.0) for c in contractions), default=0.0)


def grid_product_seconds(k: KernelInstance) -> MatrixSeconds:
    """All products of a block, each the quicker of both ways to call one side of it the rows, a grouped one if there
    is: the matrix units' time, or that of reading both factors from shared memory if it is longer (small tiles)."""
    total, inner, reading = 0.0, 0.0, 0.0
    padding: Numbers = 1.0
    for contraction in k.matrix_products:
        seconds, spent, more = _grid_product_seconds(k, contraction)
        total, reading, padding = total + seconds, reading + spent, np.maximum(padding, more)
        inner = inner + (seconds if contraction.loops in k.independent_inner_loops else 0.0)
    return MatrixSeconds(total, inner, reading, padding)


def _grid_product_seconds(k: KernelInstance, c: Contraction) -> tuple[Numbers, Numbers, Numbers]:
    """Seconds of one product, those of reading shared memory, and how many times its rows the pieces have."""
    best: tuple[Numbers, Numbers, Numbers] | None = None
    for has_tile, rows, columns in ((c.sides[0], c.rows, c.columns), (c.sides[1], c.columns, c.rows)):
        if any(c.sides) and not has_tile:
            continue
        work, reading, padding = _worker_grid_seconds(k, c, rows, columns)
        taken = np.maximum(work, reading)
        if best is None:
            best = taken, reading, padding
        else:
            quicker = taken < best[0]
            best = np.minimum(best[0], taken), np.where(quicker, reading, best[1]), np.where(quicker, padding, best[2])
    assert best is not None  # a side has a tile, or none does and both are tried
    iterations = k.trip_count(c.loops)
    return best[0] * iterations, best[1] * iterations, best[2]


def _worker_grid_seconds(
    k: KernelInstance, c: Contraction, rows: IntPolynomial, columns: IntPolynomial
) -> tuple[Numbers, Numbers, Numbers]:
    """Seconds of one iteration of a product on matrix units, seconds of reading shared memory, and the padding. Workers
    (warps, or warpgroups) form a grid over the result: each row is read once for each column of workers, and so on."""
    chip, workers = k.chip, max(1, k.warps // k.chip.matrix_warps)
    batch, height_wanted = c.batch.value(k.values), rows.value(k.values)
    depth = _whole(c.depth.value(k.values), chip.depth_piece(width(c.dtype)))
    pieces = ceil_div(batch * ceil_div(height_wanted, chip.matrix_rows), workers) * workers
    height, breadth = pieces * chip.matrix_rows, _whole(columns.value(k.values), chip.matrix_columns)
    work = 2.0 * height * breadth * depth * chip.sms / (chip.tensor[c.dtype] * chip.sustained["tensor"])
    read: Numbers = height * workers + breadth * batch
    for down in [1 << n for n in range(1, workers.bit_length())]:
        read = np.minimum(read, height * (workers // down) + breadth * batch * down)
    reading = read * depth * float(width(c.dtype)) / (chip.smem_bytes_per_clock * chip.clock_hz)
    return work, reading, height / (batch * height_wanted)


def row_instructions(k: KernelInstance, c: Contraction) -> Numbers:
    """Pieces of rows that the matrix units of a core take in an iteration, all warpgroups together."""
    workers = max(1, k.warps // k.chip.matrix_warps)
    rows = rows_and_columns(c)[0].value(k.values)
    return ceil_div(c.batch.value(k.values) * ceil_div(rows, k.chip.matrix_rows), workers) * workers


def block_row_instructions(k: KernelInstance) -> Numbers:
    """The same of all products and iterations of a block."""
    return sum(_iterations(k, c) * row_instructions(k, c) for c in k.matrix_products)


def drained_row_instructions(k: KernelInstance) -> tuple[Numbers, Numbers]:
    """The same of the products of which the matrix units drain: of those that loops add to states (`Contraction.added`)
    and begin together the most that one takes, and of those that are waited for by themselves."""
    most: dict[tuple[Loop, ...], Numbers] = {}
    waited: Numbers = 0
    for c in k.matrix_products:
        found = _iterations(k, c) * row_instructions(k, c)
        if c.added:
            most[c.loops] = np.maximum(most.get(c.loops, 0), found)
        else:
            waited = waited + found
    return sum(most.values(), 0), waited


def copy_seconds(k: KernelInstance, load_bytes: Numbers) -> Numbers:
    """What a block loads for products is written to shared memory, at the rate at which matrix units read there, while
    these wait."""
    return load_bytes / (k.chip.smem_bytes_per_clock * k.chip.clock_hz)


def widened_factor_seconds(k: KernelInstance) -> Numbers:
    """Second factors that are loaded in another type than that of their product pass through registers: read out of
    shared memory, converted, written back."""
    clocks: Numbers = 0.0
    for c in k.matrix_products:
        loaded = c.read[c.second] if len(c.read) == 2 else ""
        if loaded and loaded != c.emitted_type:
            elements = (c.batch * rows_and_columns(c)[1] * c.depth).value(k.values) * _iterations(k, c)
            moved_bytes = elements * (width(loaded) + width(c.emitted_type))
            clocks = clocks + moved_bytes / k.chip.smem_bytes_per_clock + elements / k.chip.alu_per_clock
    return clocks / k.chip.clock_hz


def warpgroup_product_seconds(k: KernelInstance, block: TritonBlock) -> tuple[Numbers, Numbers]:
    """Seconds of all products of a block on matrix units, and those of reading shared memory: each piece of rows reads
    all columns from there, and its own rows, unless these are in registers."""
    chip = k.chip
    seconds: Numbers = 0.0
    read: Numbers = 0.0
    for c in k.matrix_products:
        instructions, iterations = row_instructions(k, c), _iterations(k, c)
        breadth = _whole(rows_and_columns(c)[1].value(k.values), chip.matrix_columns)
        depth = _whole(c.depth.value(k.values), chip.depth_piece(width(c.emitted_type)))
        work = 2.0 * instructions * chip.matrix_rows * breadth * depth * iterations
        seconds = seconds + work * chip.sms / (chip.tensor[c.emitted_type] * chip.sustained["tensor"])
        own_rows = 0 if block.passes_in_registers(c.shape) else chip.matrix_rows
        read = read + instructions * (breadth + own_rows) * depth * width(c.emitted_type) * iterations
    return seconds, read / (chip.smem_bytes_per_clock * chip.clock_hz)


def warp_product_seconds(k: KernelInstance, block: TritonBlock) -> tuple[Numbers, Numbers, Numbers]:
    """The same of products by instructions of single warps, and how many of these follow one another along the depths.
    Warps that have no rows of their own share the columns; rows that stay the same in a loop are in registers."""
    chip = k.chip
    seconds: Numbers = 0.0
    read: Numbers = 0.0
    steps: Numbers = 0
    for c in k.matrix_products:
        rows, columns = (side.value(k.values) for side in rows_and_columns(c))
        step = WARP_DEPTH_BYTES // width(c.emitted_type)
        batch, deep, iterations = c.batch.value(k.values), ceil_div(c.depth.value(k.values), step), _iterations(k, c)
        tall = ceil_div(rows, WARP_ROWS)
        beside = np.maximum(1, k.warps // tall)
        breadth = _whole(columns, WARP_COLUMNS * beside)
        work = 2.0 * batch * tall * WARP_ROWS * breadth * deep * step * iterations
        seconds = seconds + work * chip.sms / (chip.tensor[c.emitted_type] * WARP_RATE)
        own_rows = 0 if block.is_hoisted(c.rows, c.columns) else WARP_ROWS * beside
        read = read + batch * tall * (own_rows + breadth) * deep * step * width(c.emitted_type) * iterations
        steps = steps + batch * deep * iterations
    return seconds, read / (chip.smem_bytes_per_clock * chip.clock_hz), steps


def uses_warp_products(k: KernelInstance) -> Numbers:
    """Whether all products of loops, or of a block without a loop, have too few rows for a warpgroup's instruction, or
    are several matrices at once, for which Triton 3.6 has instructions of single warps only (`supportMMA` in
    `AccelerateMatmul.cpp`)."""
    found: Numbers = k.chip.matrix_rows > WARP_ROWS
    for c in [c for c in k.matrix_products if c.loops] or k.matrix_products:
        few = rows_and_columns(c)[0].value(k.values) < k.chip.matrix_rows
        found = found & (few | (c.batch.value(k.values) > 1))
    return found


def warp_padding_ratio(k: KernelInstance) -> Numbers:
    """What entries the pieces of single warps have, of those that the pieces of warpgroups would: by the rows of
    products."""
    by_warps: Numbers = 1.0
    by_groups: Numbers = 1.0
    for c in k.matrix_products:
        rows, batch = rows_and_columns(c)[0].value(k.values), c.batch.value(k.values)
        by_warps = np.maximum(by_warps, _whole(rows, WARP_ROWS) / rows)
        by_groups = np.maximum(by_groups, row_instructions(k, c) * k.chip.matrix_rows / (batch * rows))
    return np.minimum(1.0, by_warps / by_groups)


def _iterations(k: KernelInstance, c: Contraction) -> Numbers:
    """How often a block does a product: in a loop as often as all its loops iterate."""
    return np.maximum(k.iterations, 1) if c.loops else 1


def _whole(size: Numbers, piece: Numbers) -> Numbers:
    """A size in whole pieces."""
    return ceil_div(size, piece) * piece
