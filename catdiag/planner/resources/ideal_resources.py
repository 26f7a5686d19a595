"""What a block takes where each array lies where the chip keeps it, whatever a compiler makes of it.

Operands are in shared memory, blocks of a loop in as many buffers as there are stages; what is computed is in
registers, 4 bytes a value, or where the chip accumulates. `catdiag.schedule.liveness` says what is live at each point.
"""

from __future__ import annotations

from dataclasses import dataclass

from catdiag.chip.hardware import Hardware
from catdiag.planner.resources.block_resources import Numbers, Resources, Values, ceil_div, most_registers, peak_bytes
from catdiag.schedule.lowered_kernel import LoweredKernel
from catdiag.schedule.placement import LEVEL, MATRIX, REGISTERS

OTHER_REGISTERS = 40
"""Registers of a thread beside arrays, for addresses, counters and what the compiler keeps: an assumption."""
OTHER_REGISTERS_FED = 36
"""The same where other warps load: an assumption, in the range (31 to 38) in which the largest blocks that fit are
those that FlashAttention-3 takes where registers end them: 192 x 176 (d = 64) and 192 x 144 (d = 96) without, 128 x 176
(d = 128) with an iteration ahead."""


def other_registers(producer_warps: int) -> int:
    """Registers of a thread beside arrays: fewer where other warps load."""
    return OTHER_REGISTERS_FED if producer_warps else OTHER_REGISTERS


@dataclass(frozen=True)
class IdealBlock:
    """The blocks of a kernel on a chip; `producer_warps` of each only load."""

    kernel: LoweredKernel
    chip: Hardware
    producer_warps: int = 0

    def resources(self, values: Values, warps: int) -> Resources:
        """What a block of so many warps takes."""
        register_bytes, threads = peak_bytes(self.kernel, REGISTERS, values), self.chip.warp * warps
        return Resources(
            smem_bytes=peak_bytes(self.kernel, LEVEL, values),
            registers_per_thread=ceil_div(register_bytes, 4 * threads) + other_registers(self.producer_warps),
            most_registers=most_registers(self.chip, threads, self.producer_warps),
            warps=warps,
            producer_warps=self.producer_warps,
            tmem_bytes=peak_bytes(self.kernel, MATRIX, values),
            register_bytes=register_bytes,
        )

    def array_bytes(self, values: Values, warps: int, registers: int) -> int:
        """The bytes of arrays that a block has room for where each thread takes so many registers."""
        return max(0, 4 * self.chip.warp * warps * (registers - other_registers(self.producer_warps)))


def register_bytes_for_arrays(chip: Hardware, threads: int, producer_warps: int) -> Numbers:
    """The bytes of arrays that the registers of so many threads hold at most, beside what else these need."""
    room = most_registers(chip, threads, producer_warps) - other_registers(producer_warps)
    return 4 * threads * max(0, room)
