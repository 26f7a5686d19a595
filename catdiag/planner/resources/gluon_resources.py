"""What a block of a Gluon kernel takes: warps of its own load, warpgroups of 64 rows compute, and a core has one block.

Shared memory is what the kernel allocates. Registers are allotted: a thread that computes gets
`catdiag.codegen.gluon.gluon_source.REGISTERS`, whatever it needs. It needs registers for results of products, for rows
that are passed on, and for blocks that no product reads. What is computed while products run is spilled where there are
no registers left for it: a kernel of retention, which spills 364 bytes a thread, took 0.478 ms on an H200, and would
take 0.499 by the time model, which has no term for it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from catdiag.category.integer_polynomial import ZERO, IntPolynomial
from catdiag.category.op_facts import monoid_of
from catdiag.chip.hardware import Hardware
from catdiag.codegen.gluon.gluon_source import REGISTERS as WARPGROUP_REGISTERS
from catdiag.planner.instruction_shapes import rows_and_columns
from catdiag.planner.resources.block_resources import Resources, Values
from catdiag.planner.resources.triton_resources import TritonBlock
from catdiag.schedule.element_widths import width
from catdiag.schedule.kernel_work import operations
from catdiag.schedule.live_ranges import is_view, multiplies, view_roots
from catdiag.schedule.lowered_kernel import LoweredKernel
from catdiag.schedule.statements import Body, For

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
        beside = computed_beside(self.kernel).value(values) / (4 * self.chip.warp * warps)
        return replace(
            self.triton.resources(values, warps),
            smem_bytes=self.triton.emitted.smem_bytes(values, warps, self.triton.stages, specialized=True),
            registers_per_thread=registers.astype(np.int64),
            most_registers=WARPGROUP_REGISTERS[warps // WARPS],
            spills=registers + beside > WARPGROUP_REGISTERS[warps // WARPS],
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
                if self.triton.passes_in_registers(c.shape):
                    total = total + (c.batch * rows * c.depth).scaled(width(c.emitted_type))
        return tuple(dict.fromkeys(total + loads for loads in self.triton.streamed_loads or (ZERO,)))

    def array_bytes(self, values: Values, warps: int, registers: int) -> int:
        """The bytes of arrays that a block has room for where each thread takes so many registers."""
        return 4 * self.chip.warp * warps * (registers - OTHER_REGISTERS)


def computed_beside(kernel: LoweredKernel) -> IntPolynomial:
    """Bytes of arrays with rows and columns of a product that an iteration computes of none of its products, and so
    while these run: those that take special functions, or that several boxes read. Comparisons of positions, say, that
    one box reads are computed as they are read.

    >>> import catdiag as cd
    >>> from catdiag.schedule.kernel_analysis import measure
    >>> def retention(Q, K, V):
    ...     decay = cd.exp(cd.index("x") - cd.index("q"))
    ...     return cd.einsum("q x, x d -> q d", cd.einsum("q d, x d -> q x", Q, K) * decay, V)
    >>> made = cd.algorithm("q d, x d, x d -> q d")(retention).stream("x").group("q")
    >>> print(computed_beside(measure(made.diagram, "bf16", registers=True).kernels[0]))
    4*g_q*s_x
    """
    return sum((_computed_beside(body) for part in kernel.parts for body in _loop_bodies(part.body)), ZERO)


def _loop_bodies(body: Body) -> Iterator[Body]:
    """The bodies of all loops in a body."""
    for statement in body.statements:
        if isinstance(statement, For) and statement.live is not None:
            yield statement.live.body
            yield from _loop_bodies(statement.live.body)


def _computed_beside(body: Body) -> IntPolynomial:
    """Those of one loop."""
    graph, root = body.graph, view_roots(body.graph)
    types = graph.wire_types()
    after = set(range(len(graph.outputs)))  # states, and what is made of them and of products
    special, readers = set[int](), dict[int, list[bool]]()
    sides: list[tuple[set[str], set[str]]] = []
    wire = len(graph.dom)
    for place, node in enumerate(graph.nodes):
        given = {root[w] for w in node.inputs}
        product = multiplies(node.box)
        if product:
            left, right = (set(array.names) for array in node.box.dom.arrays[:2])
            sides.append((left - right, right - left))
        late = product or bool(given & after)
        for w in () if is_view(node.box) else given:
            readers.setdefault(w, []).append(late or bool(monoid_of(node.box.op)))
        own = bool(given & special) or any(name == "exp" for name, _ in operations(body, place))
        for _ in node.box.cod:
            after |= {wire} if late else set()
            special |= {wire} if own else set()
            wire += 1
    total = ZERO
    for w, late_readers in readers.items():
        names = set(types[w].names)
        whole = any(rows & names and columns & names for rows, columns in sides)
        early = w >= len(graph.dom) and w not in after and any(late_readers)
        if early and whole and (w in special or len(late_readers) > 1):
            total = total + IntPolynomial.elements(types[w].axes).scaled(4)
    return total
