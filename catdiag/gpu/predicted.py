"""How long a Triton kernel takes: the model of `catdiag.cost.chips.timing`, for what Triton's compiler makes of a loop.

The operations, the bytes and the waits are those of that model. Different are:

- who is on a core: blocks as many as `catdiag.gpu.blocks` says fit, rather than as `fit` counts them;
- shared memory is written as well as read: what a block loads for products passes it at the same rate, while the
  matrix units wait that read from it (copies and products of 64 rows take more of it than products of 256);
- products are waited for, so that a warpgroup's matrix units fill and drain: `FILL` clocks for each product of a turn;
- two buffers: Triton asks for block i + stages - 1 when turn i is over. With two buffers that is the very next one, and
  a part of the latency (`EXPOSED`) is waited for in each turn; with more, the whole turns between hide it, as long as
  they take that long;
- several warpgroups in a block: no warp specialisation keeps them apart, and they meet at barriers in each turn, but
  between these one has products while the other has exponentials. A block of w warpgroups is taken to stand between one
  worker and w of them, by `APART`;
- loops without products: their loads are not begun ahead.

`FILL`, `EXPOSED` and `APART` were chosen on the 440 kernels of two buffers or more of `benchmarks/tiles.py`, measured
on one H200 with plain Triton 3.6 (10 shapes of a streaming loop, 5 of a product; 64 to 256 rows, 4 and 8 warps). Of
pairs that differ in buffers alone the one with two takes 0.2 to 0.35 µs a turn more, whatever the turn takes. Among the
tiles that were measured, the one predicted quickest is within 5% of the quickest for 12 of the 15 shapes and within 9%
for all (by the model of `fit`: for 7, and within 13%). Those kernels are a calibration, no test.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from catdiag.cost.chips.timing import Timing, ceil_div, circulate
from catdiag.cost.count.live import Kernel
from catdiag.cost.hardware import Hardware

EXPOSED = 0.4
"""The part of a load's latency that a turn waits for where there are two buffers."""
APART = 0.7
"""How far the warpgroups of a block work apart: 0 in step, 1 as if they were blocks."""
FILL = 48
"""Clocks that the matrix units of a core are not full in, for each product of a turn of a warpgroup."""


def resident(shared: Any, registers: Any, warps: int, chip: Hardware) -> Any:
    """Blocks that share a core, at least 1: by shared memory, registers of a thread, threads and the chip's most."""
    import numpy as np

    threads, step = chip.warp * warps, chip.register_step
    taken = np.ceil(np.minimum(registers, chip.registers_per_thread) / step) * step * threads
    found = np.minimum(chip.smem_per_sm // (shared + chip.smem_reserved), chip.registers_per_sm // taken)
    found = np.minimum(found, min(chip.blocks_per_sm, chip.threads_per_sm // threads))
    return np.maximum(found, 1).astype(np.int64)


def seconds(kernel: Kernel, chip: Hardware, timing: Timing, stages: int, warps: int, blocks: Any, ahead: bool) -> Any:
    """Seconds of a run, for each candidate of a timing; `blocks` share a core, `ahead`: loads are begun ahead."""
    import numpy as np

    t, turns = timing, np.maximum(timing.turns, 1)
    transfer = t.parts["L2"] / turns
    waits = t.waits
    if ahead and stages == 2:
        waits = waits + (turns - 1) * EXPOSED * chip.latency_s
    elif not ahead and stages > 1:
        waits = waits + (turns - 1) * (chip.latency_s + transfer)
    free = bool(kernel.loops) and not any(length for nest, length in kernel.chains.items() if nest)
    at_work = max(1, stages - 1) if free and ahead else 1
    workers = max(1, warps // 4)
    groups = np.asarray(t.groups)
    copying = t.load / groups / (chip.smem_bytes_per_clock * chip.clock_hz) if ahead else 0.0
    filling = sum((turns if c.loops else 1) * FILL * workers for c in kernel.contractions) / chip.clock_hz
    tensor = np.maximum(t.parts["tensor"], t.parts["SMEM"] + copying) + filling
    demands = [part / at_work for part in (tensor, t.parts["exp"], t.parts["alu"])]
    at_once = chip.sms * blocks
    full, rest = groups // at_once, groups % at_once
    fullest = np.minimum(blocks, ceil_div(groups, chip.sms))
    last = np.minimum(fullest, ceil_div(rest, chip.sms))
    ring = (turns * chip.latency_s + t.parts["L2"]) / (stages - 1) if ahead and stages > 1 else 0.0

    def round_of(number: Any) -> Any:
        together = circulate(demands, waits / at_work, [number * at_work])[0]
        if workers > 1:
            shares = [demand / workers for demand in demands]
            apart = circulate(shares, waits / at_work, [number * at_work * workers])[0]
            together = APART * apart + (1 - APART) * together
        return np.where(number > 0, np.maximum(np.maximum(together, ring), number * t.parts["L2"]), 0.0)

    return np.maximum(full * round_of(fullest) + round_of(last), _outer(t.edges, chip)) + t.uneven


def _outer(edges: Mapping[str, Any], chip: Hardware) -> Any:
    """Seconds that memory and a last-level cache need for what crosses the edges below them."""
    import numpy as np

    rates = {"HBM": chip.hbm_bytes_per_s * chip.sustained["hbm"], "LLC": chip.llc_bytes_per_s}
    found: Any = 0.0
    for name, crossed in edges.items():
        if rates.get(name.split("-")[0]):
            found = np.maximum(found, crossed / rates[name.split("-")[0]])
    return found
