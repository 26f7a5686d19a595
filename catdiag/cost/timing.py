"""How long a kernel takes for given tiles: the model by which `fit` chooses. Derived here.

Groups run in waves of SMs × resident blocks. How many blocks share an SM follows from their shared memory,
registers and threads. In a wave, the r blocks of an SM share its pipelines, so the wave takes r times what one
block needs of the busiest of them; and it takes no less than one block takes alone, whose own steps depend
on each other:

- compute: matrix units, special functions and ALUs one after the other, but side by side in the block's warpgroups
  (4 warps each), of which one can use the one while another uses the other;
- loading: with 2 or more buffers beside computing, a turn's latency shared by the buffers; with 1 before it.

Matrix units work on whole pieces of rows (`Hardware.matrix_rows`), spread over the block's warps. Bytes that cross
the edge to SMEM share the L2's bandwidth. HBM carries each array once if what a wave touches stays in the
L2, else what each wave touches anew, its groups forming a block of the grid that is about square. The run takes
no less than HBM needs.

All of it on NumPy arrays, one entry for each candidate of tiles.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from catdiag.cost.amounts import ONE, Amount
from catdiag.cost.hardware import Hardware
from catdiag.cost.live import LEVEL, REGISTERS, Contraction, Kernel, Loop

Values = Mapping[str, Any]
Numbers = Any
"""An array of numbers, or a number that stands for equal ones."""

OVERHEAD = 40
"""Registers a thread needs beside arrays, for addresses, counters and what the compiler keeps: an assumption."""
WARPS = (4, 8, 16)
PIPELINES = ("tensor", "exp", "alu", "L2")


@dataclass(frozen=True)
class Timing:
    """Predictions, an entry for each candidate: bytes, counts, seconds. `parts` are seconds of a block by pipeline."""

    smem: Numbers
    registers: Numbers
    per_thread: Numbers
    resident: Numbers
    groups: Numbers
    waves: Numbers
    load: Numbers
    save: Numbers
    hbm: Numbers
    parts: Mapping[str, Numbers]
    chain: Numbers
    turns: Numbers
    seconds: Numbers


def ceil_div(a: Numbers, b: Numbers) -> Numbers:
    """⌈a / b⌉ of whole numbers."""
    return -(-a // b)


def peak(kernel: Kernel, place: str, values: Values) -> Numbers:
    """The most bytes that a place ever holds."""
    most: Numbers = 0
    for moment in kernel.moments[place]:
        most = np.maximum(most, moment.total.value(values))
    return most


def smem_bytes(kernel: Kernel, values: Values) -> Numbers:
    """Shared memory of a block."""
    return peak(kernel, LEVEL, values)


def registers_per_thread(kernel: Kernel, values: Values, warps: int) -> Numbers:
    """Registers a thread needs, of 4 bytes."""
    return ceil_div(peak(kernel, REGISTERS, values), 4 * 32 * warps) + OVERHEAD


def fits(kernel: Kernel, hardware: Hardware, values: Values, warps: int) -> Numbers:
    """Whether a block's shared memory, registers and threads are within what one may have."""
    registers = registers_per_thread(kernel, values, warps)
    return (
        (smem_bytes(kernel, values) <= hardware.smem_per_block)
        & (registers <= hardware.registers_per_thread)
        & (_allocated(registers) * 32 * warps <= hardware.registers_per_sm)
        & (32 * warps <= hardware.threads_per_block)
    )


def _allocated(registers: Numbers) -> Numbers:
    return ceil_div(registers, 8) * 8  # registers are given out in eights


def predict(kernel: Kernel, hardware: Hardware, values: Values, dtype: str, stages: int, warps: int) -> Timing:
    """The model above for candidates that fit; `values` gives every size, tile and block."""
    threads = 32 * warps
    smem, registers = smem_bytes(kernel, values), peak(kernel, REGISTERS, values)
    per_thread = registers_per_thread(kernel, values, warps)
    resident = np.minimum(hardware.smem_per_sm // (smem + hardware.smem_reserved), hardware.blocks_per_sm)
    resident = np.minimum(resident, hardware.registers_per_sm // (_allocated(per_thread) * threads))
    resident = np.maximum(np.minimum(resident, hardware.threads_per_sm // threads), 1)
    counts = {tile: ceil_div(whole.value(values), values[tile]) for tile, whole in kernel.tiles.items()}
    groups: Numbers = 1
    for number in counts.values():
        groups = groups * number

    traffic = {"load": 0, "save": 0}
    for moved in kernel.transfers:
        again: Numbers = moved.amount.value(values)
        for tile in moved.again:
            again = again * counts[tile]
        traffic[moved.direction] = traffic[moved.direction] + again
    load, save = traffic["load"], traffic["save"]

    matrix_rate = hardware.tensor.get(dtype)
    alu = _work(kernel, "alu", values)
    tensor: Numbers = 0.0
    for contraction in kernel.contractions:
        if matrix_rate is None:
            alu = alu + _once(contraction, values)
        else:
            tensor = tensor + _matrix(contraction, hardware, values, warps) * hardware.sms / matrix_rate
    parts = {
        "tensor": tensor,
        "exp": _work(kernel, "exp", values) / (hardware.special_per_clock * hardware.clock_hz),
        "alu": alu / (hardware.alu_per_clock * hardware.clock_hz),
        "L2": (load + save) / groups * hardware.sms / hardware.l2_bytes_per_s,
    }
    compute = (parts["tensor"] + parts["exp"] + parts["alu"]) * 4 / warps
    turns: Numbers = 0
    for block, whole in kernel.loops:
        turns = turns + ceil_div(whole.value(values), values[block])
    if stages == 1:
        chain = compute + parts["L2"] + (turns + 1) * hardware.latency_s
    else:
        chain = np.maximum(np.maximum(compute, parts["L2"]), turns * hardware.latency_s / stages) + hardware.latency_s

    def wave(blocks: Numbers) -> Numbers:
        longest = chain
        for part in parts.values():
            longest = np.maximum(longest, blocks * part)
        return longest

    at_once = hardware.sms * resident
    full, rest = groups // at_once, groups % at_once
    hbm = _hbm(kernel, hardware, values, counts, np.minimum(groups, at_once))
    seconds = full * wave(resident) + np.where(rest > 0, wave(ceil_div(rest, hardware.sms)), 0.0)
    return Timing(
        smem=smem,
        registers=registers,
        per_thread=per_thread,
        resident=resident,
        groups=groups,
        waves=ceil_div(groups, at_once),
        load=load,
        save=save,
        hbm=hbm,
        parts=parts,
        chain=chain,
        turns=turns,
        seconds=np.maximum(seconds, hbm / hardware.hbm_bytes_per_s),
    )


def _turns(loops: tuple[Loop, ...], values: Values) -> Numbers:
    total: Numbers = 1
    for block, whole in loops:
        total = total * ceil_div(whole.value(values), values[block])
    return total


def _work(kernel: Kernel, pipeline: str, values: Values) -> Numbers:
    """Scalar operations of one full group."""
    total: Numbers = 0.0
    for (name, loops), amount in kernel.work.items():
        if name == pipeline:
            total = total + amount.value(values) * _turns(loops, values)
    return total


def _once(contraction: Contraction, values: Values) -> Numbers:
    """Multiply-adds of one full group."""
    c = contraction
    return (c.rows * c.columns * c.depth * c.batch).value(values) * _turns(c.loops, values)


def _matrix(contraction: Contraction, hardware: Hardware, values: Values, warps: int) -> Numbers:
    """FLOPs of one full group on the matrix units, pieces filled up; rows are what carries a grouped axis."""
    c, workers = contraction, max(1, warps // hardware.matrix_warps)
    batch, depth = c.batch.value(values), ceil_div(c.depth.value(values), 16) * 16
    found: Numbers = None
    for side, rows, columns in ((c.sides[0], c.rows, c.columns), (c.sides[1], c.columns, c.rows)):
        if any(c.sides) and not side:
            continue
        pieces = ceil_div(batch * ceil_div(rows.value(values), hardware.matrix_rows), workers) * workers
        flops = 2.0 * pieces * hardware.matrix_rows * (ceil_div(columns.value(values), 8) * 8) * depth
        found = flops if found is None else np.minimum(found, flops)
    return found * _turns(c.loops, values)


def _hbm(
    kernel: Kernel, hardware: Hardware, values: Values, counts: Mapping[str, Numbers], at_once: Numbers
) -> Numbers:
    """Bytes of HBM in the whole run."""
    loads = [t for t in kernel.transfers if t.direction == "load"]
    compulsory: Numbers = 0
    for moved in kernel.transfers:
        compulsory = compulsory + moved.amount.value(values)
    shared = [t for t in counts if any(t in moved.again for moved in loads)]
    extent: dict[str, Numbers] = {}
    left = at_once
    for place, tile in enumerate(shared):  # about square where arrays are shared between groups
        side = np.maximum(1, np.floor(left ** (1.0 / (len(shared) - place)) + 1e-9))
        extent[tile] = np.minimum(counts[tile], side)
        left = np.maximum(1, left // extent[tile])
    for tile in counts:  # the rest along what is left, axes without sharing last
        grown = np.minimum(counts[tile], extent.get(tile, 1) * left)
        left = np.maximum(1, left * extent.get(tile, 1) // grown)
        extent[tile] = grown
    touched: Numbers = 0
    anew: Numbers = 0
    groups: Numbers = 1
    for number in counts.values():
        groups = groups * number
    for moved in loads:
        share, repeated = 1.0, 1
        for tile, number in counts.items():
            if tile in moved.again:
                repeated = repeated * number
            else:
                share = share * extent[tile] / number
        whole = moved.amount.value(values)
        touched = touched + whole * share
        anew = anew + np.maximum(whole, np.minimum(whole * repeated, ceil_div(groups, at_once) * whole * share)) - whole
    return compulsory + np.where(touched > hardware.l2_bytes, anew, 0)


def flops(kernel: Kernel, values: Values) -> int:
    """FLOPs of contractions in the whole run, each axis counted once, at its size."""
    names = dict(kernel.tiles)
    total = 0
    for (pipeline, loops), amount in kernel.work.items():
        if pipeline != "tensor":
            continue
        ranges = {**names, **dict(loops)}
        for monomial, coefficient in amount.terms.items():
            product = ONE.times(coefficient)
            for name in monomial:
                product = product * ranges.get(name, Amount.of(name))
            repeats = 1
            for name, whole in ranges.items():
                if name not in monomial:
                    repeats *= ceil_div(int(whole.value(values)), int(values[name]))
            total += int(product.value(values)) * repeats
    return total
