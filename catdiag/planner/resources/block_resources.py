"""The resources of a thread block, and the occupancy that follows from them.

>>> from catdiag.chip import hardware
>>> block = Resources(smem_bytes=98304, registers_per_thread=168, most_registers=255, warps=8)
>>> bool(block.fits(hardware.H100)), int(block.blocks_per_sm(hardware.H100))
(True, 1)
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, is_dataclass, replace
from typing import Any

import numpy as np

from catdiag.chip.hardware import Hardware
from catdiag.schedule.lowered_kernel import LoweredKernel

Values = Mapping[Any, Any]
"""Numbers of all symbols: sizes, tiles, blocks."""
Numbers = Any
"""An array of numbers, an entry for each candidate; or a number that stands for equal ones."""

PRODUCER_REGISTERS = 24
"""Registers of a thread that only loads: the least that PTX's `setmaxnreg` gives."""


@dataclass(frozen=True)
class Resources:
    """What one thread block takes, an entry for each candidate.

    `registers_per_thread` are those of the `warps` that compute, of 4 bytes each; a backend's compiler is expected to
    give a thread `most_registers`. `producer_warps` beside them only load. Arrays fill `register_bytes` of the
    registers, and `tmem_bytes` of tensor memory. Where it `spills`, some values that fit nowhere else are expected in
    local memory. Where there is shared memory, `alignment_bytes` of it may be lost between its buffers.
    """

    smem_bytes: Numbers
    registers_per_thread: Numbers
    most_registers: int
    warps: int
    producer_warps: int = 0
    tmem_bytes: Numbers = 0
    register_bytes: Numbers = 0
    alignment_bytes: int = 0
    spills: Numbers = False

    @property
    def aligned_smem_bytes(self) -> Numbers:
        """Bytes of shared memory that a block must be able to have."""
        return self.smem_bytes + self.alignment_bytes * (np.asarray(self.smem_bytes) > 0)

    def fits(self, chip: Hardware) -> Numbers:
        """Whether a block may have all of it."""
        return (
            (self.aligned_smem_bytes <= chip.smem_per_block)
            & (self.registers_per_thread <= self.most_registers)
            & (self.tmem_bytes <= chip.tmem_per_sm)
            & (chip.warp * (self.warps + self.producer_warps) <= chip.threads_per_block)
        )

    def overflows(self, chip: Hardware) -> list[str]:
        """What a single candidate takes more of than there is, in words."""
        threads, found = chip.warp * self.warps, []
        if self.aligned_smem_bytes > chip.smem_per_block:
            found.append(f"{chip.word('SMEM')} ({int(self.aligned_smem_bytes):,} of {chip.smem_per_block:,} bytes)")
        if self.registers_per_thread > self.most_registers:
            each = f"each of {threads:,} thread{'s' * (threads != 1)}"
            found.append(
                f"{chip.word('registers')} ({int(self.registers_per_thread)} of {self.most_registers} for {each})"
            )
        if self.tmem_bytes > chip.tmem_per_sm:
            found.append(f"{chip.word('TMEM')} ({int(self.tmem_bytes):,} of {chip.tmem_per_sm:,} bytes)")
        return found

    def blocks_per_sm(self, chip: Hardware) -> Numbers:
        """How many blocks a core holds at once, at least 1: by shared memory with what the driver reserves of it, by
        registers as they are allocated (`Hardware.register_step`), tensor memory, threads, and the chip's most."""
        found = np.minimum(chip.smem_per_sm // np.maximum(self.smem_bytes + chip.smem_reserved, 1), chip.blocks_per_sm)
        step = chip.register_step
        registers = ceil_div(self.registers_per_thread, step) * step * chip.warp * self.warps
        found = np.minimum(found, chip.registers_per_sm // (registers + producer_registers(chip, self.producer_warps)))
        if chip.tmem_per_sm:
            found = np.minimum(found, chip.tmem_per_sm // np.maximum(self.tmem_bytes, 1))
        found = np.minimum(found, chip.threads_per_sm // (chip.warp * (self.warps + self.producer_warps)))
        return np.maximum(found, 1)

    def larger(self, other: Resources) -> Resources:
        """What either takes, whichever takes more."""
        return replace(
            self,
            smem_bytes=np.maximum(self.smem_bytes, other.smem_bytes),
            registers_per_thread=np.maximum(self.registers_per_thread, other.registers_per_thread),
            tmem_bytes=np.maximum(self.tmem_bytes, other.tmem_bytes),
            register_bytes=np.maximum(self.register_bytes, other.register_bytes),
        )


def entry(values: Any, place: int) -> Any:
    """One entry of an array, or of each array in a record or a mapping; a number stands for all."""
    if isinstance(values, (np.ndarray, np.generic)):
        array = np.asarray(values)
        return float(array if array.ndim == 0 else array[place])
    if isinstance(values, Mapping):
        return {name: entry(value, place) for name, value in values.items()}
    if is_dataclass(values) and not isinstance(values, type):
        return replace(values, **{field.name: entry(getattr(values, field.name), place) for field in fields(values)})
    return values


def producer_registers(chip: Hardware, producer_warps: int) -> int:
    """The registers of the warps of a block that only load."""
    return PRODUCER_REGISTERS * chip.warp * producer_warps


def most_registers(chip: Hardware, threads: int, producer_warps: int = 0) -> int:
    """The most registers that each of so many threads may have: what an instruction can name, and what the core has for
    all of them, in the steps in which they are allocated."""
    left = (chip.registers_per_sm - producer_registers(chip, producer_warps)) // threads
    return min(chip.registers_per_thread, left // chip.register_step * chip.register_step)


def peak_bytes(kernel: LoweredKernel, place: str, values: Values) -> Numbers:
    """The most bytes that arrays take at a level at any point of a kernel."""
    most: Numbers = 0
    for point in kernel.points.get(place, []):
        most = np.maximum(most, point.total.value(values))
    return most


def ceil_div(a: Numbers, b: Numbers) -> Numbers:
    """⌈a / b⌉ of whole numbers."""
    return -(-a // b)
