"""How long a kernel takes for given tiles: the model by which a plan is chosen. Derived here, save where named.

Groups run in waves of SMs × resident blocks; how many blocks share an SM follows from their shared memory,
registers and threads. What one block needs, from `LoweredKernel`:

- matrix units: its FLOPs on whole pieces of rows (`Hardware.matrix_rows`), spread over the block's warps, at the
  sustained rate; or the reading of both factors from shared memory, if that takes longer (small tiles). What multiplies
  by a vector, or integers, is the ALUs' work;
- special functions and ALUs: its operations at the chip's rate, on whole pieces of rows too, since results of matrix
  units lie in registers so; and on the ALUs `iteration_clocks` for each turn of a loop;
- registers: a factor of a product that a turn makes of loaded blocks (`catdiag.schedule.contractions`) is read out of
  shared memory, widened and narrowed; a second factor is written back. Every group does so, the tiles that the factor
  lacks included. Matrix units wait meanwhile, those of other blocks on the core too: shared memory serves both, and a
  matrix instruction of 64 rows takes nearly all of its bandwidth;
- waits: `wait_clocks` wherever a step needs what other threads made in the step before, along the longest chain
  (`live.chain`, in which adding up in place counts for nothing), once more a turn for its block to arrive, and once
  where a product waits for a factor that the turn makes; and the start, until the first block is there.

A block does these one after the other: its warps run in step, since they share barriers. Other blocks of the SM fill
the gaps; how well is the mean value analysis of a closed queueing network (Reiser and Lavenberg, J. ACM 27(2), 1980):
n blocks circulate between the pipelines, where they queue, and the waits, where they do not. One that arrives at a
pipeline finds the queue of the same network with n - 1. For n = 1 the times add up; for large n the busiest pipeline
is all that counts. Where turns wait for no sums (a matrix product adds up in place) and products read blocks as they
were loaded, the turns of one block overlap too, as many as there are buffers not being loaded. Where a turn makes a
factor they do not: warps issue in order, and the registers of the factor are read until its product is done.

Other ways to overlap can be asked for: everything added up, or some pipelines at once and the longest of them counted.
A copy of what several dies share goes into the cache of each, once if it stays; a last-level cache holds what a wave of
the whole chip touches. Where there is no cache, all that crosses the edge to SMEM comes from HBM.

With one buffer the loads of streamed blocks are waits too. With s of them they go on beside: a buffer is loaded
(latency and transfer) and used, then loaded again, so that a turn takes at least 1/s of both. Bytes that cross the
edge to SMEM share the L2's bandwidth. HBM carries each array once if what a wave touches stays in the L2, else what
each wave touches anew, its groups forming a block of the grid that is about square. The run takes no less than HBM
needs.

What a loop inside a loop reads again in every turn comes from the L2 too, if that holds what a turn of all groups at
work touches; else from HBM. Where the inner turns wait for no sums, they overlap as those of a product do, and the rest
of the outer turns comes after them.

Where loops leave blocks out, groups differ in length. All of the above is of the average group: an SM takes the next
group as soon as it is done with one, so that waves even out. At the end the longest group is waited for: what it takes
more than the average one, alone on its SM, is added once (`imbalance`), as in the bound on list scheduling (Graham
1969: no more than all work over the processors and the longest job), but no more than if all groups were as long as it.

Against one H200: attention, bf16, 8,192 queries and keys, no mask, in plain Triton, whose best of a few tiles by rows
was measured, in TFLOP/s. `Hardware.wait_clocks` is fitted to these figures, `l2_bytes_per_s` is read off the fourth,
and that warps run in step was chosen by them: they are a calibration, no test. Keys, stages and warps are those of
the prediction; of the measured tiles only the last two, and the SMEM of the fourth, are known.

    heads     d   rows x keys, stages, warps   measured   predicted
    1       128     64 x 128, 2, 4                  371         371
    1       128    128 x 128, 2, 8                  226         205
    1       128    256 x  64, 2, 8                  101         100
    16      128     64 x  64, 3, 4                  558         514
    16      128    128 x 128, 2, 8                  460         410 (128 x 64, 2, 4: 569)
    16      128    256 x  64, 2, 8                  425         400
    2 x 16  128    128 x 128, 2, 4                  607         569 at 128 x 64 (128 x 128: registers short)
    2 x 32   64     64 x 128, 2, 4                  493         533
    matrix products of size 4,096 and 8,192   690 to 790   730, 737 (128 x 256, blocks of 64, 3 stages, 8 warps)

Tested since, with nothing fitted again, on 485 other kernels of both kinds (`benchmarks/tiles.py`, an H200): predicted
against measured time has median 1.05, and eight of ten lie between 0.81 and 1.31; of the tiles measured for each of 15
shapes the one that is taken is within 12% of the quickest; shared memory was as predicted, to the byte, wherever
there are two buffers or more.

Weak: kernels whose warpgroups work on different steps (FlashAttention-3, cuDNN) gain what this does not see, most at
128 rows and more; the same numbers are assumed of the A100 without measurement.

Everything works on NumPy arrays, one entry for each candidate of tiles.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from catdiag.category.integer_polynomial import ONE, IntPolynomial
from catdiag.chip.hardware import Hardware
from catdiag.schedule.kernel_analysis import width
from catdiag.schedule.liveness import LEVEL, REGISTERS, Contraction, Loop, LoweredKernel, Transfer
from catdiag.schedule.load_imbalance import iteration_counts, summed_over_groups
from catdiag.schedule.placement import MATRIX

Values = Mapping[Any, Any]
Numbers = Any
"""An array of numbers, or a number that stands for equal ones."""
Overlap = str | tuple[str, ...]
"""What runs at once: "queue" (the model above), "add" (nothing), "max" (all), or the pipelines that do."""

OVERHEAD = 40
"""Registers a thread needs beside arrays, for addresses, counters and what the compiler keeps: an assumption."""
OVERHEAD_PRODUCERS = 36
"""The same where other warps do the loading: an assumption, in the range (31 to 38) in which the largest blocks that
fit are those that FlashAttention-3 takes where registers end them: 192 x 176 (d = 64) and 192 x 144 (d = 96) without,
128 x 176 (d = 128) with a turn ahead."""
_COMPUTED = 4
"""Bytes of a value that is computed with."""
LOADER = 24
"""Registers of a thread that only loads, the least that PTX's setmaxnreg gives."""
PIPELINES = ("tensor", "exp", "alu", "registers", "SMEM", "L2", "HBM")
"""What may run at once: matrix units, special functions, ALUs, passing blocks through registers, reading of shared
memory, loads, and HBM."""
STATIONS = ("tensor", "exp", "alu", "registers")
"""What a block queues for; in one queue for matrix units and for what passes through registers to them."""


@dataclass(frozen=True)
class Timing:
    """Predictions, an entry for each candidate: bytes, counts, seconds. `parts` are seconds of a block by pipeline,
    `stalls` those it waits for itself, `single_block` those it takes with an SM of its own, `wave` those of a full wave
    (or of the only one), in which loads are `loading` and what is computed from them `computing`. `imbalance` are the
    seconds that a run takes more since groups differ in length, where loops leave blocks out; `longest` is the
    prediction for groups that are all as long as the longest."""

    smem: Numbers
    registers: Numbers
    matrix: Numbers
    per_thread: Numbers
    blocks_per_sm: Numbers
    groups: Numbers
    waves: Numbers
    load: Numbers
    save: Numbers
    hbm_bytes: Numbers
    edges: Mapping[str, Numbers]
    touched: Mapping[str, Numbers]
    parts: Mapping[str, Numbers]
    stalls: Numbers
    single_block: Numbers
    computing: Numbers
    loading: Numbers
    wave: Numbers
    iterations: Numbers
    seconds: Numbers
    imbalance: Numbers = 0.0
    longest: Timing | None = None

    def then(self, after: Timing) -> Timing:
        """This and a kernel after it: what crosses edges and the time of both, on chip what the larger takes."""
        both: dict[str, Any] = {
            name: getattr(self, name) + getattr(after, name) for name in ("load", "save", "hbm_bytes", "seconds")
        }
        both["edges"] = {name: crossed + after.edges[name] for name, crossed in self.edges.items()}
        larger = {
            name: np.maximum(getattr(self, name), getattr(after, name))
            for name in ("smem", "registers", "matrix", "per_thread")
        }
        return replace(self, **both, **larger)


def ceil_div(a: Numbers, b: Numbers) -> Numbers:
    """⌈a / b⌉ of whole numbers."""
    return -(-a // b)


def peak(kernel: LoweredKernel, place: str, values: Values) -> Numbers:
    """The most bytes that a place ever holds."""
    most: Numbers = 0
    for moment in kernel.points.get(place, []):
        most = np.maximum(most, moment.total.value(values))
    return most


def smem_bytes(kernel: LoweredKernel, values: Values) -> Numbers:
    """Shared memory of a block."""
    return peak(kernel, LEVEL, values)


def registers_per_thread(
    kernel: LoweredKernel, hardware: Hardware, values: Values, warps: int, producers: int = 0
) -> Numbers:
    """Registers a thread needs, of 4 bytes."""
    return ceil_div(peak(kernel, REGISTERS, values), 4 * hardware.warp * warps) + overhead(producers)


def overhead(producers: int) -> int:
    """Registers a thread needs beside arrays, less where other warps load."""
    return OVERHEAD_PRODUCERS if producers else OVERHEAD


def fits(kernel: LoweredKernel, hardware: Hardware, values: Values, warps: int, producers: int = 0) -> Numbers:
    """Whether a block's shared memory, registers, matrix memory and threads are within what one may have."""
    registers, threads = registers_per_thread(kernel, hardware, values, warps, producers), hardware.warp * warps
    return (
        (smem_bytes(kernel, values) <= hardware.smem_per_block)
        & (registers <= hardware.registers_per_thread)
        & (
            _allocated(registers, hardware) * threads + producer_registers(hardware, producers)
            <= hardware.registers_per_sm
        )
        & (peak(kernel, MATRIX, values) <= hardware.tmem_per_sm)
        & (threads + hardware.warp * producers <= hardware.threads_per_block)
    )


def producer_registers(hardware: Hardware, producers: int) -> int:
    """Registers of the warps that only load."""
    return LOADER * hardware.warp * producers


def _allocated(registers: Numbers, hardware: Hardware) -> Numbers:
    return ceil_div(registers, hardware.register_step) * hardware.register_step


def predict(
    kernel: LoweredKernel,
    hardware: Hardware,
    values: Values,
    dtype: str,
    stages: int,
    warps: int,
    overlap: Overlap = "queue",
    producers: int = 0,
) -> Timing:
    """The model above for candidates that fit; `values` gives every size, tile and block, and the scalar inputs on
    which it depends how often loops turn."""
    if not kernel.loop_bounds:
        if any(moved.region for moved in kernel.transfers):
            values, _ = iteration_counts(kernel, values)
        return _predict(kernel, hardware, values, dtype, stages, warps, overlap, producers)
    average, longest = (
        _predict(kernel, hardware, v, dtype, stages, warps, overlap, producers)
        for v in iteration_counts(kernel, values)
    )
    return of_unlike_groups(average, longest)


def of_unlike_groups(average: Timing, longest: Timing) -> Timing:
    """The prediction for groups of different lengths, from that for groups of the average length, and that for groups
    that are all as long as the longest: the run takes no longer than these do."""
    waited = np.maximum(longest.single_block - average.single_block, 0)
    imbalance = np.maximum(np.minimum(waited, longest.seconds - average.seconds), 0)
    return replace(average, imbalance=imbalance, seconds=average.seconds + imbalance, longest=longest)


def _predict(
    kernel: LoweredKernel,
    hardware: Hardware,
    values: Values,
    dtype: str,
    stages: int,
    warps: int,
    overlap: Overlap,
    producers: int,
) -> Timing:
    threads = hardware.warp * warps
    smem, registers, matrix = (peak(kernel, place, values) for place in (LEVEL, REGISTERS, MATRIX))
    per_thread = registers_per_thread(kernel, hardware, values, warps, producers)
    blocks_per_sm = np.minimum(
        hardware.smem_per_sm // np.maximum(smem + hardware.smem_reserved, 1), hardware.blocks_per_sm
    )
    taken = _allocated(per_thread, hardware) * threads + producer_registers(hardware, producers)
    blocks_per_sm = np.minimum(blocks_per_sm, hardware.registers_per_sm // taken)
    if hardware.tmem_per_sm:
        blocks_per_sm = np.minimum(blocks_per_sm, hardware.tmem_per_sm // np.maximum(matrix, 1))
    thread_limit = hardware.threads_per_sm // (threads + hardware.warp * producers)
    blocks_per_sm = np.maximum(np.minimum(blocks_per_sm, thread_limit), 1)
    counts = {tile: ceil_div(whole.value(values), values[tile]) for tile, whole in kernel.tiles.items()}
    groups: Numbers = 1
    for number in counts.values():
        groups = groups * number

    traffic = {"load": 0, "save": 0}
    for moved in kernel.transfers:
        bytes_crossing: Numbers = moved.size.value(values)
        for tile in moved.reload_axes:
            bytes_crossing = bytes_crossing * counts[tile]
        bytes_crossing = bytes_crossing * _trip_count(moved.loop_nest, values)
        bytes_crossing = values.get(("moved", moved), bytes_crossing)
        traffic[moved.direction] = traffic[moved.direction] + bytes_crossing
    load, save = traffic["load"], traffic["save"]

    clock, rate = hardware.clock_hz, hardware.tensor.get(dtype)
    iterations: Numbers = 0
    for nest in kernel.chains:
        iterations = iterations + (_trip_count(nest, values) if nest else 0)
    # Loops inside loops whose turns wait for no sums.
    inner = [nest for nest in kernel.chains if len(nest) > 1 and is_independent(kernel, nest)]
    tensor, read, filled, within = 0.0, 0.0, 1.0, 0.0
    alu = _scalar_operations(kernel, "alu", values) + sum(
        (_multiply_adds(product, values) for product in kernel.by_vectors), 0.0
    )
    for contraction in kernel.contractions:
        if rate is None:
            alu = alu + _multiply_adds(contraction, values)
            continue
        spent, reading, rows = _matrix_seconds(contraction, hardware, values, warps, rate, width(dtype))
        tensor, read, filled = tensor + spent, read + reading, np.maximum(filled, rows)
        within = within + (spent if contraction.loops in inner else 0.0)
    alu = alu * filled
    parts = {
        "tensor": tensor,
        "exp": _scalar_operations(kernel, "exp", values) * filled / (hardware.special_per_clock * clock),
        "alu": (alu / hardware.alu_per_clock + iterations * hardware.turn_clocks * warps / 4) / clock,
        "registers": _register_traffic(kernel, hardware, values, width(dtype)),
        "SMEM": read,
        "L2": (load + save) / groups * hardware.sms / hardware.l2_bytes_per_s,
    }
    steps: Numbers = 0
    for nest, length in kernel.chains.items():
        # Turns of a loop inside another that wait for no sums overlap, as many as there are buffers not being loaded.
        inner_in_flight = max(1, stages - 1) if nest in inner else 1
        made = any(factor.loops == nest for factor in kernel.factors)
        steps = steps + (length + bool(nest) + made) * _trip_count(nest, values) / inner_in_flight
    barrier_stalls = steps * hardware.wait_clocks / clock
    stalls = barrier_stalls + hardware.latency_s + parts["L2"] / np.maximum(iterations, 1)
    if stages == 1:
        stalls = stalls + np.maximum(iterations - 1, 0) * (hardware.latency_s + parts["L2"] / np.maximum(iterations, 1))

    concurrent_blocks = hardware.sms * blocks_per_sm
    full, rest = groups // concurrent_blocks, groups % concurrent_blocks
    most_blocks = np.minimum(blocks_per_sm, ceil_div(groups, hardware.sms))
    last = np.minimum(most_blocks, ceil_div(rest, hardware.sms))
    edges, touched = _edges(kernel, hardware, values, counts, np.minimum(groups, concurrent_blocks), load + save)
    rates = {"HBM": hardware.hbm_bytes_per_s * hardware.sustained["hbm"], "LLC": hardware.llc_bytes_per_s}
    outer: Numbers = 0.0
    for name, crossed in edges.items():
        if name.split("-")[0] in rates:
            outer = np.maximum(outer, crossed / rates[name.split("-")[0]])

    def load_seconds(blocks: Numbers, used: Numbers) -> Numbers:
        ring = (iterations * hardware.latency_s + parts["L2"] + used) / stages if stages > 1 else 0.0
        return np.maximum(ring, blocks * parts["L2"])

    if overlap == "queue":
        # Turns that wait for no sums overlap: beside the buffer being loaded, each of the others is in some step.
        in_flight = max(1, stages - 1) if iterations_overlap(kernel) else 1
        demands = [d / in_flight for d in (parts["tensor"] + parts["registers"], parts["exp"], parts["alu"])]
        computing, ending, single_block = mean_value_analysis(
            demands, stalls / in_flight, [n * in_flight for n in (most_blocks, last, 1)]
        )
        if inner and stages > 2:  # these by themselves, as the loop of a product, and then the rest
            inner_in_flight, many = stages - 1, sum(_trip_count(nest, values) for nest in inner)
            loop_overhead = many * hardware.turn_clocks * warps / 4 / clock
            inner_stalls = many * hardware.wait_clocks / clock / inner_in_flight
            numbers = [most_blocks, last, 1]
            inner_rounds = mean_value_analysis(
                [within / inner_in_flight, loop_overhead / inner_in_flight],
                inner_stalls,
                [n * inner_in_flight for n in numbers],
            )
            beside = [
                np.maximum(parts["tensor"] - within, 0.0) + parts["registers"],
                parts["exp"],
                np.maximum(parts["alu"] - loop_overhead, 0.0),
            ]
            others = mean_value_analysis(beside, np.maximum(stalls - inner_stalls, 0.0), numbers)
            both = [a + b for a, b in zip(inner_rounds, others, strict=True)]
            computing, ending, single_block = map(np.minimum, (computing, ending, single_block), both)
        wave = np.maximum(computing, load_seconds(most_blocks, computing))
        ends = np.where(rest > 0, np.maximum(ending, load_seconds(last, ending)), 0.0)
        single_block = np.maximum(single_block, load_seconds(1, single_block))
        seconds = np.maximum(full * wave + ends, outer)
    else:
        together = set(PIPELINES if overlap == "max" else () if overlap == "add" else overlap)
        single_block = _combined({n: s for n, s in parts.items() if n != "SMEM"}, together)
        if overlap != "max":
            single_block = (
                single_block + barrier_stalls + hardware.latency_s * (np.maximum(iterations, 1) if stages == 1 else 1)
            )
        computing = wave = most_blocks * single_block
        seconds = full * wave + last * single_block
        seconds = np.maximum(seconds, outer) if "HBM" in together else seconds + outer
    return Timing(
        smem=smem,
        registers=registers,
        matrix=matrix,
        per_thread=per_thread,
        blocks_per_sm=blocks_per_sm,
        groups=groups,
        waves=ceil_div(groups, concurrent_blocks),
        load=load,
        save=save,
        hbm_bytes=edges.get("HBM-LLC", edges.get("HBM-L2", load + save)),
        edges=edges,
        touched=touched,
        parts=parts,
        stalls=stalls,
        single_block=single_block,
        computing=computing,
        loading=load_seconds(most_blocks, computing),
        wave=wave,
        iterations=iterations,
        seconds=seconds,
    )


def is_independent(kernel: LoweredKernel, nest: tuple[Loop, ...]) -> bool:
    """Whether turns of a loop wait for no sums, and its products read what was loaded as it is."""
    return not kernel.chains[nest] and all(factor.loops != nest for factor in kernel.factors)


def iterations_overlap(kernel: LoweredKernel) -> bool:
    """Whether a block may have several turns of its loops in work at once."""
    return bool(kernel.loops) and all(is_independent(kernel, nest) for nest in kernel.chains if nest)


def _register_traffic(kernel: LoweredKernel, hardware: Hardware, values: Values, element: int) -> Numbers:
    """Seconds of a full group in which factors of products that turns make pass through registers: blocks are read out
    of shared memory and widened, the factor narrowed, and the second factor of a product written back."""
    found: Numbers = 0.0
    for factor in kernel.factors:
        amount = factor.size.value(values)
        moved = factor.read.value(values) + (amount * element if factor.second else 0)
        converted = factor.widened.value(values) + (amount if element < _COMPUTED else 0)
        clocks = moved / hardware.smem_bytes_per_clock + converted / hardware.alu_per_clock
        found = found + clocks * _trip_count(factor.loops, values) / hardware.clock_hz
    return found


def _combined(parts: Mapping[str, Numbers], together: set[str]) -> Numbers:
    """Seconds where some parts run at once, and the others before or after them."""
    most: Numbers = 0.0
    total: Numbers = 0.0
    for name, seconds in parts.items():
        if name in together:
            most = np.maximum(most, seconds)
        else:
            total = total + seconds
    return most + total


def mean_value_analysis(demands: list[Numbers], stalls: Numbers, customers: list[Numbers]) -> list[Numbers]:
    """Seconds of a round of a closed network with so many customers, for each of the numbers asked for.

    `demands` are the seconds at each station that a customer needs for itself; `stalls` are shared by nobody.
    """
    queues: list[Numbers] = [0.0] * len(demands)
    rounds: list[Numbers] = [0.0] * len(customers)
    for n in range(1, int(max(np.max(c) for c in customers)) + 1):
        stays = [demand * (1 + queue) for demand, queue in zip(demands, queues, strict=True)]
        whole = sum(stays) + stalls
        queues = [n * stay / whole for stay in stays]
        rounds = [np.where(asked == n, whole, found) for asked, found in zip(customers, rounds, strict=True)]
    return rounds


def _trip_count(loops: tuple[Loop, ...], values: Values) -> Numbers:
    total: Numbers = 1
    for block, whole in loops:
        known = values.get(("turns", block))
        total = total * (ceil_div(whole.value(values), values[block]) if known is None else known)
    return total


def _scalar_operations(kernel: LoweredKernel, pipeline: str, values: Values) -> Numbers:
    """Scalar operations of one full group."""
    total: Numbers = 0.0
    for (name, loops), amount in kernel.work.items():
        if name == pipeline:
            total = total + amount.value(values) * _trip_count(loops, values)
    return total


def _multiply_adds(contraction: Contraction, values: Values) -> Numbers:
    """Multiply-adds of one full group."""
    c = contraction
    return (c.rows * c.columns * c.depth * c.batch).value(values) * _trip_count(c.loops, values)


def _matrix_seconds(
    contraction: Contraction, hardware: Hardware, values: Values, warps: int, rate: float, element: int
) -> tuple[Numbers, Numbers, Numbers]:
    """Seconds of one full group on the matrix units of a core, those of them that read shared memory, and how many
    times its rows the filled pieces have; rows are what carries a grouped axis."""
    c, workers, piece = contraction, max(1, warps // hardware.matrix_warps), hardware.depth_piece(element)
    batch, depth = c.batch.value(values), ceil_div(c.depth.value(values), piece) * piece
    found: Numbers = None
    filled: Numbers = 1.0
    spent: Numbers = 0.0
    for side, tall, columns in ((c.sides[0], c.rows, c.columns), (c.sides[1], c.columns, c.rows)):
        if any(c.sides) and not side:
            continue
        rows = tall.value(values)
        pieces = ceil_div(batch * ceil_div(rows, hardware.matrix_rows), workers) * workers
        height, breadth = pieces * hardware.matrix_rows, _round_up(columns, hardware.matrix_columns, values)
        work = 2.0 * height * breadth * depth * hardware.sms / (rate * hardware.sustained["tensor"])
        # Workers form a grid over the result: each row is read once for each column of workers, and so on.
        grids = [1 << k for k in range(workers.bit_length())]
        read: Numbers = height * workers + breadth * batch
        for down in grids[1:]:
            read = np.minimum(read, height * (workers // down) + breadth * batch * down)
        reading = read * depth * float(element) / (hardware.smem_bytes_per_clock * hardware.clock_hz)
        taken, more = np.maximum(work, reading), height / (batch * rows)
        if found is None:
            found, filled, spent = taken, more, reading
        else:
            filled, spent = np.where(taken < found, more, filled), np.where(taken < found, reading, spent)
            found = np.minimum(found, taken)
    iterations = _trip_count(c.loops, values)
    return found * iterations, spent * iterations, filled


def _round_up(size: IntPolynomial, piece: int, values: Values) -> Numbers:
    return ceil_div(size.value(values), piece) * piece


def _edges(
    kernel: LoweredKernel,
    hardware: Hardware,
    values: Values,
    counts: Mapping[str, Numbers],
    concurrent_blocks: Numbers,
    below: Numbers,
) -> tuple[dict[str, Numbers], dict[str, Numbers]]:
    """Bytes that cross each edge above SMEM in the whole run, the one to HBM first (`below` are those at SMEM), and
    what a wave touches in each cache."""
    chip = hardware
    if not chip.l2_bytes:
        return {"HBM-SMEM": below}, {}
    near, touched = _filled(kernel, values, counts, concurrent_blocks, chip.l2_bytes, chip.l2_count)
    near = np.minimum(near, below)
    if not chip.llc_bytes:
        return {"HBM-L2": near, "L2-SMEM": below}, {"L2": touched}
    far, all_touched = _filled(kernel, values, counts, concurrent_blocks, chip.llc_bytes, 1)
    edges = {"HBM-LLC": np.minimum(far, near), "LLC-L2": near, "L2-SMEM": below}
    return edges, {"LLC": all_touched, "L2": touched}


def _filled(
    kernel: LoweredKernel,
    values: Values,
    counts: Mapping[str, Numbers],
    concurrent_blocks: Numbers,
    capacity: int,
    copies: int,
) -> tuple[Numbers, Numbers]:
    """Bytes that go into and out of a cache, or `copies` equal ones that share the groups, in the whole run, and those
    that a wave touches in one.

    Where what a wave touches in one of them fits, each array crosses once for each copy that needs it.
    """
    loads = [t for t in kernel.transfers if t.direction == "load"]
    under = np.maximum(concurrent_blocks // copies, 1)
    shared = [t for t in counts if any(t in moved.reload_axes for moved in loads)]
    bounds: dict[str, Numbers] = {}
    left = under
    for place, tile in enumerate(shared):  # about square where arrays are shared between groups
        side = np.maximum(1, np.floor(left ** (1.0 / (len(shared) - place)) + 1e-9))
        bounds[tile] = np.minimum(counts[tile], side)
        left = np.maximum(1, left // bounds[tile])
    for tile in counts:  # the rest along what is left, axes without sharing last
        grown = np.minimum(counts[tile], bounds.get(tile, 1) * left)
        left = np.maximum(1, left * bounds.get(tile, 1) // grown)
        bounds[tile] = grown
    least: Numbers = 0
    for moved in kernel.transfers:
        if moved.direction == "save":
            least = least + moved.size.value(values)
    touched: Numbers = 0
    anew: Numbers = 0
    groups: Numbers = 1
    held: list[tuple[Transfer, Numbers]] = []
    between: list[tuple[tuple[Loop, ...], Numbers]] = []
    for number in counts.values():
        groups = groups * number
    for moved in loads:
        share, repeated = 1.0, 1
        for tile, number in counts.items():
            if tile in moved.reload_axes:
                repeated = repeated * number
            else:
                share = share * bounds[tile] / number
        whole = moved.size.value(values)
        once = whole * np.minimum(repeated, copies)
        touched = touched + whole * share
        waves = ceil_div(groups, concurrent_blocks) * copies
        loaded = values.get(("moved", moved), whole * repeated)
        anew = anew + np.maximum(once, np.minimum(loaded, waves * (whole * share))) - once
        least = least + once
        if moved.loop_nest:
            between.append((moved.loop_nest, waves * (whole * share)))
        held.append((moved, whole * share))
    fetched = least + np.where(touched > capacity, anew, 0)
    for loops, part in between:  # read again in every turn of a loop: from the cache, if it holds what a turn touches
        iteration: Numbers = 0
        for moved, there in held:
            if moved.role != "operand":
                iteration = iteration + there / _trip_count(
                    tuple(loop for loop in loops if loop not in moved.loop_nest), values
                )
        fetched = fetched + np.where(iteration > capacity, (_trip_count(loops, values) - 1) * part, 0)
    return fetched, touched


def flops(kernel: LoweredKernel, values: Values) -> int:
    """FLOPs of contractions in the whole run, each axis counted once, at its size; of loops that leave blocks out,
    of the blocks that are run."""
    names = dict(kernel.tiles)
    total = 0
    for (pipeline, loops), amount in kernel.work.items():
        if pipeline != "tensor":
            continue
        bounds = next((kernel.loop_bounds[loop] for loop in loops if loop in kernel.loop_bounds), None)
        if bounds is not None:
            total += round(float(summed_over_groups(amount, loops, bounds, kernel, values)))
            continue
        ranges = {**names, **dict(loops)}
        for monomial, coefficient in amount.terms.items():
            product = ONE.scaled(coefficient)
            for name in monomial:
                product = product * ranges.get(name, IntPolynomial.of(name))
            repeats = 1
            for name, whole in ranges.items():
                if name not in monomial:
                    repeats *= ceil_div(int(whole.value(values)), int(values[name]))
            total += int(product.value(values)) * repeats
    return total
