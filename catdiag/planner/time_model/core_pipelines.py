"""Seconds of a block on the pipelines of its core beside matrix units, and those that it waits.

Special functions and ALUs: operations at the chip's rate, on whole pieces of rows where there are products, since the
results of matrix units lie in registers so (`padding_ratio`). Registers: what passes through them to products.
Stalls: what a block waits for itself, whoever else is on the core.
"""

from __future__ import annotations

import numpy as np

from catdiag.planner.resources.block_resources import Numbers
from catdiag.planner.time_model.kernel_instance import KernelInstance
from catdiag.schedule.element_widths import width

_COMPUTED_BYTES = 4
"""The width of a value that is computed with."""
RUN_BYTES = 16
"""The shortest run of which Triton 3.6 merges rows of a matrix in shared memory."""
ROW_GATHER_INSTRUCTIONS, GATHER_INSTRUCTIONS, CROSS_GATHER_INSTRUCTIONS = 6, 12, 30
"""Instructions of a thread for an entry of a window, beside the multiplication: its address, its mask, its load and its
conversion; where rows are read as they lie, where each entry is loaded by itself, and where threads beside each other
have the taps of a window, whose sum they put together. On an H200 sums over 31 taps of 8 × 512 × 256 entries took 9 to
12, 19, and 23 to 37 µs."""
FACTOR_GATHER_INSTRUCTIONS, STRIDED_GATHER_INSTRUCTIONS = 50, 130
"""The same of factors of products, which are written to shared memory while matrix units wait; and where threads beside
each other read entries that are not. On an H200 convolutions of 3 × 3 taps in channels of 56 × 56 and 32 × 32 took 47
to 61 for each entry of both factors, and where one tap was read at a time, of weights too, 92 to 126."""
SHORTEST_COPY_BYTES = 16
"""The shortest row that is copied to shared memory as it lies."""
LAYOUT_CONVERSION_CLOCKS = 1.1
"""Clocks of a core for an entry whose layout is converted, from thread to thread. Measured on an H200, in products of
8,192 × 8,192 with weights of 4 bits that are packed in pairs: 0.2 for 16 rows and 1.1 for 64 (50 of 92 and 327 of
403 µs, by which they were quicker with the summed axes in the order of memory)."""


def special_function_seconds(k: KernelInstance, padding_ratio: Numbers) -> Numbers:
    """Seconds of a group's exponentials and the like on a core's special function units."""
    return k.scalar_operations("exp") * padding_ratio / (k.chip.special_per_clock * k.chip.clock_hz)


def alu_seconds(k: KernelInstance, padding_ratio: Numbers) -> Numbers:
    """Seconds of a group on a core's ALUs: elementwise work, products by vectors, products of a type that matrix units
    lack, loads of windows, and the overhead of loops."""
    operations = k.scalar_operations("alu") + sum((k.multiply_adds(c) for c in k.kernel.by_vectors), 0.0)
    for contraction in k.kernel.contractions:
        if contraction.dtype not in k.chip.tensor:
            operations = operations + k.multiply_adds(contraction)
    clocks = operations * padding_ratio / k.chip.alu_per_clock + k.iterations * k.chip.iteration_clocks * k.warps / 4
    return clocks / k.chip.clock_hz + gather_seconds(k)


def gather_seconds(k: KernelInstance) -> Numbers:
    """What the ALUs take for what a block loads entry by entry. Factors are boxes that the chip copies where one window
    or one tap of windows is read at a time, and rows are long enough."""
    total: Numbers = 0.0
    for load in k.kernel.gathered_loads:
        places, taps, row = (n.value(k.values) for n in (load.places, load.taps, load.row))
        whole = ~np.asarray(load.shifted) & (row > 1)
        if k.kernel.contractions:
            one = np.minimum(places, taps) == 1
            boxed = ~np.asarray(load.shifted) & one & (row * load.width >= SHORTEST_COPY_BYTES)
            strided = STRIDED_GATHER_INSTRUCTIONS if not load.shifted else FACTOR_GATHER_INSTRUCTIONS
            each: Numbers = np.where(boxed, 0, np.where(row > 1, FACTOR_GATHER_INSTRUCTIONS, strided))
        else:
            alone = np.where(taps > 1, CROSS_GATHER_INSTRUCTIONS, GATHER_INSTRUCTIONS)
            each = np.where(whole, ROW_GATHER_INSTRUCTIONS, alone)
        total = total + each * k.loaded_entries(load)
    return total / (k.chip.alu_per_clock * k.chip.clock_hz)


def loop_overhead_seconds(k: KernelInstance, iterations: Numbers) -> Numbers:
    """What the ALUs do beside arithmetic in so many iterations of a loop (`Hardware.iteration_clocks` a warp, on four
    schedulers)."""
    return iterations * k.chip.iteration_clocks * k.warps / 4 / k.chip.clock_hz


def register_pass_seconds(k: KernelInstance) -> Numbers:
    """What iterations with products do with blocks beside multiplying them as they are
    (`catdiag.schedule.contractions`): blocks are read out of shared memory and widened; a factor that is made of them
    is narrowed, and a second factor written back. Matrix units wait meanwhile, those of other blocks on the core too:
    shared memory serves both, and a matrix instruction of 64 rows takes nearly all of its bandwidth."""
    total: Numbers = 0.0
    for factor in k.kernel.factors:
        elements, own = factor.size.value(k.values), width(factor.dtype)
        written, narrowed = elements * own if factor.second else 0, elements if own < _COMPUTED_BYTES else 0
        total = total + _passing_clocks(k, written, narrowed) * k.trip_count(factor.loops)
    for one in k.kernel.register_reads:
        clocks = _passing_clocks(k, one.read.value(k.values), one.widened.value(k.values))
        total = total + clocks * k.trip_count(one.loops)
    return total / k.chip.clock_hz + layout_conversion_seconds(k)


def layout_conversion_seconds(k: KernelInstance) -> Numbers:
    """Conversions of the layout of factors, entry by entry through shared memory (`LAYOUT_CONVERSION_CLOCKS`).

    Needed where a product sums over several axes of which one is so short that a run of it has less than `RUN_BYTES`:
    rows that are merged from runs as short have no layout in shared memory in Triton 3.6, so that the short axis comes
    first in them, and last in what is unpacked from words."""
    clocks: Numbers = 0.0
    for factor in k.kernel.factors:
        lengths = [depth.value(k.values) for depth in factor.depths]
        short: Numbers = False
        for length in lengths if len(lengths) > 1 else ():
            short = short | ((length > 1) & (length * width(factor.dtype) < RUN_BYTES))
        clocks = clocks + short * factor.size.value(k.values) * LAYOUT_CONVERSION_CLOCKS * k.trip_count(factor.loops)
    return clocks / k.chip.clock_hz


def _passing_clocks(k: KernelInstance, moved_bytes: Numbers, converted: Numbers) -> Numbers:
    """Clocks in which bytes pass between shared memory and registers, and so many elements are converted."""
    return moved_bytes / k.chip.smem_bytes_per_clock + converted / k.chip.alu_per_clock


def barrier_stall_seconds(k: KernelInstance) -> Numbers:
    """`Hardware.wait_clocks` wherever a step needs what other threads made in the step before, along the longest chain
    (`LoweredKernel.chains`, in which adding up in place counts for nothing); once more an iteration for its block to
    arrive, and once where a product waits for a factor that the iteration makes. Inner loops whose iterations wait for
    no sums have as many of them in work as there are buffers not being loaded."""
    steps: Numbers = 0
    for nest, length in k.kernel.chains.items():
        in_flight = max(1, k.stages - 1) if nest in k.independent_inner_loops else 1
        makes_factor = any(factor.loops == nest for factor in k.kernel.factors)
        steps = steps + (length + bool(nest) + makes_factor) * k.trip_count(nest) / in_flight
    steps = (steps + k.persistent) * k.run_length
    return steps * k.chip.wait_clocks / k.chip.clock_hz


def transfer_seconds(k: KernelInstance, l2_seconds: Numbers) -> Numbers:
    """The transfer of an iteration's blocks, of a block whose loads take so long in all."""
    return l2_seconds / np.maximum(k.iterations, 1)


def stall_seconds(k: KernelInstance, l2_seconds: Numbers) -> Numbers:
    """Seconds that a block waits in any backend: for barriers, and at its start, until the first block is there."""
    return barrier_stall_seconds(k) + k.chip.latency_s + transfer_seconds(k, l2_seconds)


def exposed_load_seconds(k: KernelInstance, l2_seconds: Numbers) -> Numbers:
    """Loads that are begun when their iteration is: latency and transfer, of all iterations but the first."""
    return np.maximum(k.iterations - 1, 0) * (k.load_latency_s + transfer_seconds(k, l2_seconds))
