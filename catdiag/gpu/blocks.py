"""What a thread block of a Triton kernel takes of its core: shared memory, and registers of a thread.

Triton decides where arrays lie by who reads them. What a product reads (`tl.dot`) lies in shared memory, blocks of a
loop in as many buffers as there are stages (one fewer where something is made of it first); everything else is in
registers, also what was loaded, and then in the type that it is computed in, 4 bytes as a rule. The second factor of a
product always lies in shared memory; the first may come from registers, where something made on chip is passed on.
Every length is a power of two: what is not is filled up and masked, and a product takes no fewer than `LEAST` along any
of its sides.

Registers that a thread takes, by what it needs them for: the arrays, as `catdiag.cost` counts what is live; addresses
of the copies to shared memory, two registers for each 16 bytes that a thread copies in a turn; and `BESIDE`. Held
against ptxas for 88 kernels of the two kinds in `benchmarks/tiles.py` (Triton 3.6, sm_90, two buffers or more) nine of
ten are between 0.86 and 1.18 of what it takes; where it comes to more than `MOST`, some of them spill. Shared memory is
what Triton allots to each of these, to the byte.

>>> import catdiag as cd
>>> from catdiag.cost.plan import searching
>>> product = cd.library.get("matmul").stream("b").group("a c")
>>> search = searching(product, "H200", {"a": 4096, "b": 4096, "c": 4096}, stages=3)
>>> block = Block.of(search.diagram, search.kernels[3], "bf16", search.chip, stages=3)
>>> held = {"a": 4096, "b": 4096, "c": 4096, "g_a": 128, "g_c": 256, "s_b": 64}
>>> int(block.shared(held)), int(block.registers(held, 8))      # ptxas and Triton say 147456 and 195
(147456, 176)
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from catdiag.boxes import Einsum, Fold, Group
from catdiag.cost.count.amounts import ONE, ZERO, Amount
from catdiag.cost.count.kernels import width
from catdiag.cost.count.live import LEVEL, REGISTERS, Kernel, contracts, is_view
from catdiag.cost.hardware import Hardware
from catdiag.diagram import Diagram, inline
from catdiag.types import ArrayType, union

LEAST = 16
"""The least length of a product's side."""
BESIDE = 24
"""Registers of a thread beside arrays and addresses: what the kernels named above show."""
MOST = 247
"""Registers above which a kernel may spill: eight fewer than a thread can have."""
SCRATCH = 1024
"""Bytes of shared memory beside the operands, for reductions and barriers, at most: in kernels seen, 32 to 56."""

_COPY = 16
"""Bytes that one copy to shared memory takes."""


@dataclass(frozen=True)
class Products:
    """What the products of a diagram read: the names of inputs that they read as they are (`direct`) and of those that
    they read made into something else (`reach`), how many elements what is made on chip and read as a second factor has
    (`second`), and the `sides` of each: rows, columns, depth."""

    direct: frozenset[str]
    reach: frozenset[str]
    second: tuple[Amount, ...]
    sides: tuple[tuple[Amount, Amount, Amount], ...]


def products(diagram: Diagram, tiles: frozenset[str]) -> Products:
    """The products of a diagram: all contractions of two arrays that have rows, columns and a depth. What multiplies a
    matrix by a vector is none.

    The factor whose own axes carry a tile is the first, the left one if both or none do, as in
    `catdiag.cost.chips.pieces`.
    """
    direct: dict[str, None] = {}
    reach: dict[str, None] = {}
    second: dict[Amount, None] = {}
    found: dict[tuple[Amount, Amount, Amount], None] = {}
    todo: list[tuple[Diagram, list[_Source]]] = [(diagram, [_Source(True, (n,)) for n in diagram.input_names])]
    while todo:
        whole, source = todo.pop()
        for node in inline(whole).graph.nodes:
            op, box, given = node.box.op, node.box, [source[w] for w in node.inputs]
            if is_view(box):
                source.append(given[0])
                continue
            made = _Source(False, tuple(dict.fromkeys(name for s in given for name in s.names)))
            if isinstance(op, Group):
                todo.append((op.body, given))
            elif isinstance(op, Fold):
                todo.append((op.step, [_Source(False, ())] * len(box.cod) + given))
                made = _Source(False, ())
            elif isinstance(op, Einsum) and len(box.dom) == 2 and contracts(box):
                sizes = _sides(box.dom.arrays[0], box.dom.arrays[1], set(box.cod[0].names))
                if ONE not in sizes:
                    found[sizes] = None
                    last = 0 if not sizes[0].symbols() & tiles and sizes[1].symbols() & tiles else 1
                    for k, factor in enumerate(given):
                        (direct if factor.whole else reach).update(dict.fromkeys(factor.names))
                        if k == last and not factor.whole:
                            second[Amount.elements(box.dom.arrays[k].axes)] = None
            source.extend([made] * len(box.cod))
    return Products(frozenset(direct), frozenset(reach) - frozenset(direct), tuple(second), tuple(found))


@dataclass(frozen=True)
class _Source:
    """The inputs that a wire is made of; `whole`: it is one of them, or another form of it."""

    whole: bool
    names: tuple[str, ...]


def _sides(left: ArrayType, right: ArrayType, kept: set[str]) -> tuple[Amount, Amount, Amount]:
    """Rows, columns and depth of a contraction that keeps some axes."""
    rows = [axis for axis in left.axes if axis.name in kept and axis.name not in right.names]
    columns = [axis for axis in right.axes if axis.name in kept and axis.name not in left.names]
    depth = [axis for axis in union([left, right]) if axis.name not in kept]
    return Amount.elements(rows), Amount.elements(columns), Amount.elements(depth)


@dataclass(frozen=True)
class Block:
    """Amounts of what a block holds, moment by moment: bytes of shared memory, of registers, and those that all its
    threads copy to shared memory in a turn. `staged`: whether blocks of a loop are copied there ahead of their turn;
    `sides` are those of its products."""

    smem: tuple[Amount, ...]
    arrays: tuple[Amount, ...]
    copied: Amount
    staged: bool
    warp: int
    sides: tuple[tuple[Amount, Amount, Amount], ...]

    @staticmethod
    def of(diagram: Diagram, kernel: Kernel, dtype: str, chip: Hardware, stages: int) -> Block:
        """The block of a kernel of a diagram that was measured for a chip with so many buffers of each streamed block;
        products are of elements of that type."""
        found, element = products(diagram, frozenset(kernel.tiles)), width(dtype)
        smem: dict[Amount, None] = {}
        loaded: dict[Amount, None] = {}
        copies: dict[tuple[str, Amount], None] = {}
        made = sum((amount.times(element) for amount in found.second), ZERO)
        for moment in kernel.moments[LEVEL]:
            near, far = made, ZERO
            for name, role, amount in moment.residents:
                one = Amount({m: c // stages for m, c in amount.terms.items()}) if role == "streamed" else amount
                direct = name in found.direct or role not in ("operand", "streamed")
                if not direct:
                    far = far + one.times(max(1, 4 // element))
                if role == "streamed" and name in found.direct | found.reach:
                    copies[name, one] = None
                    near = near + (amount if direct else amount - one)
                elif direct:
                    near = near + amount
            smem[near], loaded[far] = None, None
        arrays = {m.total + far: None for m in kernel.moments[REGISTERS] for far in loaded or (ZERO,)}
        copied = sum((a for _, a in copies), ZERO)
        return Block(tuple(smem), tuple(arrays or loaded), copied, bool(copies), chip.warp, found.sides)

    def shared(self, values: Mapping[Any, Any]) -> Any:
        """Bytes of shared memory, without `SCRATCH`."""
        return _most(self.smem, values)

    def values_each(self, values: Mapping[Any, Any], warps: int) -> Any:
        """Values of 4 bytes that a thread holds at most."""
        return _most(self.arrays, values) / (4 * self.warp * warps)

    def registers(self, values: Mapping[Any, Any], warps: int) -> Any:
        """Registers of a thread, of 4 bytes each."""
        import numpy as np

        threads = self.warp * warps
        addresses = 2 * np.ceil(self.copied.value(values) / (_COPY * threads))
        return np.ceil(self.values_each(values, warps)) + addresses + BESIDE


def _most(amounts: tuple[Amount, ...], values: Mapping[Any, Any]) -> Any:
    import numpy as np

    found: Any = 0
    for amount in amounts:
        found = np.maximum(found, amount.value(values))
    return found
