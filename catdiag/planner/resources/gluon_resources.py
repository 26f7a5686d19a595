"""What a block of a Gluon kernel takes: warps of its own load, warpgroups of 64 rows compute, and a core has one block.

Shared memory is what the kernel allocates. Registers are allotted: a thread that computes gets
`catdiag.codegen.gluon.gluon_source.REGISTERS`, whatever it needs. It needs registers for results of products, for rows
that are passed on, and for blocks that no product reads.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from catdiag.category.integer_polynomial import ZERO, IntPolynomial
from catdiag.chip.hardware import Hardware
from catdiag.codegen.gluon.gluon_source import REGISTERS as WARPGROUP_REGISTERS
from catdiag.planner.instruction_shapes import rows_and_columns
from catdiag.planner.resources.block_resources import Resources, Values
from catdiag.planner.resources.triton_resources import TritonBlock
from catdiag.schedule.element_widths import width
from catdiag.schedule.lowered_kernel import LoweredKernel

WARPS = 4
"""Warps of a warpgroup."""
OTHER_REGISTERS = 32
"""Registers of a thread beside arrays."""


@dataclass(frozen=True)
class GluonBlock:
    """The blocks of a kernel as Gluon has them; `triton` are those of the same kernel as Triton has them, from whose
    amounts these are made."""

    kernel: LoweredKernel
    chip: Hardware
    triton: TritonBlock

    def resources(self, values: Values, warps: int) -> Resources:
        """What a block takes, whose warps are those of its warpgroups that compute."""
        most = np.maximum.reduce([arrays.value(values) for arrays in self.register_arrays])
        registers = np.ceil(most / (4 * self.chip.warp * warps)) + OTHER_REGISTERS
        return replace(
            self.triton.resources(values, warps),
            smem_bytes=self.triton.emitted.smem_bytes(values, warps, self.triton.stages, specialized=True),
            registers_per_thread=registers.astype(np.int64),
            most_registers=WARPGROUP_REGISTERS[warps // WARPS],
        )

    @property
    def register_arrays(self) -> tuple[IntPolynomial, ...]:
        """The bytes that threads hold: what all products of an iteration give, rows made for the last ones, and blocks
        that no product reads (a bias), which the warps that compute load."""
        total = ZERO
        for c in self.kernel.contractions:
            if c.loops:
                rows, columns = rows_and_columns(c)
                total = total + (c.batch * rows * columns).scaled(4)
                if self.triton.passes_in_registers((c.rows, c.columns, c.depth)):
                    total = total + (c.batch * rows * c.depth).scaled(width(c.emitted_type))
        return tuple(dict.fromkeys(total + loads for loads in self.triton.streamed_loads or (ZERO,)))

    def array_bytes(self, values: Values, warps: int, registers: int) -> int:
        """The bytes of arrays that a block has room for where each thread takes so many registers."""
        return 4 * self.chip.warp * warps * (registers - OTHER_REGISTERS)
