"""What a thread block of a Triton kernel takes of its core: shared memory, and registers of a thread.

Triton decides where arrays lie by who reads them. What a product reads (`tl.dot`) lies in shared memory, blocks of a
loop in as many buffers as there are stages (one fewer where something is made of it first); everything else is in
registers, also what was loaded, and then in the type that it is computed in, 4 bytes as a rule. The second factor of a
product always lies in shared memory; the first may come from registers, where something made on chip is passed on.
Every length is a power of two: what is not is filled up and masked. A product takes no fewer than `MIN_DOT` along any
of its sides, and a kernel holds no fewer of an axis that is neither grouped nor streamed.

Registers that a thread takes, by what it needs them for: the arrays, as `catdiag.cost` counts what is live; sums along
rows, which all threads of a row hold; a copy, as narrow as products want it, of what one product has made and another
takes; rows that a loop reads in each turn, where these are held (`MAX_COLUMNS_IN_REGISTERS`); where the chip does not
copy boxes of arrays by a descriptor, the addresses of copies to shared memory, two registers for each 16 bytes that a
thread copies in a turn; and `OTHER_REGISTERS`. The compiler saves some of them where it has to, so that this is no
promise: docs/explanation/time_model.md says how it does.

>>> import catdiag as cd
>>> from catdiag.planner.fit import searching
>>> product = cd.library.get("matmul").stream("b").group("a c")
>>> search = searching(product, "H200", {"a": 4096, "b": 4096, "c": 4096}, stages=3)
>>> block = Block.of(search.diagram, search.kernels[3], "bf16", search.chip, stages=3)
>>> held = {"a": 4096, "b": 4096, "c": 4096, "g_a": 128, "g_c": 256, "s_b": 64}
>>> int(block.shared(held)), int(block.registers(held, 8))      # what is compiled takes 147480 and 154
(147456, 152)
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any

from catdiag.category.diagram import Diagram, inline
from catdiag.category.integer_polynomial import ONE, ZERO, IntPolynomial
from catdiag.category.ops import FoldOp, GroupOp, Reindex, View
from catdiag.category.types import ArrayType, union
from catdiag.chip.hardware import Hardware
from catdiag.schedule.kernel_analysis import width
from catdiag.schedule.liveness import LEVEL, REGISTERS, LoweredKernel, is_view, multiplies

MIN_DOT = 16
"""The least length of a product's side."""
OTHER_REGISTERS = 24
"""Registers of a thread beside arrays and addresses, found by compiling kernels."""
MOST = 246
"""Registers above which a kernel may spill, by this estimate: kernels that spilled were said to take 248 or more."""
MAX_COLUMNS_IN_REGISTERS = 0
"""The longest block of columns beside which rows that a loop reads are held in registers: none are, unless a launch
asks for it, since Triton 3.6 compiles some of these kernels wrong."""
SCRATCH = 1024
"""Bytes of shared memory beside the operands, for reductions and barriers, at most: in kernels seen, 32 to 56."""

_COPY = 16
"""Bytes that one copy to shared memory takes."""
_LINES = 4
"""Threads of a warp that share a row of a product's result, and hold each the sums along it."""
_SHARED_ROWS = 1.45
"""How many more registers a thread takes where several warps work on the same 16 rows, at most, in kernels seen."""
_ACROSS = 8 * 4
"""Bytes of a row's sum that warps make together: 4 of each of 8 warps."""
_ROWS = 16
"""Rows of a product that a warp works on."""


Reused = tuple[tuple[IntPolynomial, tuple[IntPolynomial, ...]], ...]
"""Bytes of a block of an array, and the rows of the products that read it: where these are few, the array has one
buffer less."""


@dataclass(frozen=True)
class DotProducts:
    """What the products of a diagram read: the names of inputs that they read as they are (`direct`) and of those that
    they read made into something else (`reach`), and the rows of all products that read an input as it is (`readers`);
    how many elements what is made on chip has that lies in shared memory,
    being a second factor or made before the loop (`kept`), or is a first factor that does not (`first`, with the rows
    of its product); of each input that is a first factor as it is the `rows` and columns; and of each product the
    `sides`: rows, columns and depth, and the axes that both factors and the result have (`batches`). `results` are how
    many elements of each result a group saves; of products in `passing` the first factor comes from registers."""

    direct: frozenset[str]
    reach: frozenset[str]
    readers: Mapping[str, tuple[IntPolynomial, ...]]
    kept: tuple[IntPolynomial, ...]
    first: tuple[tuple[IntPolynomial, IntPolynomial], ...]
    rows: Mapping[str, tuple[IntPolynomial, IntPolynomial]]
    sides: tuple[tuple[IntPolynomial, IntPolynomial, IntPolynomial], ...]
    batches: tuple[IntPolynomial, ...]
    results: tuple[IntPolynomial, ...]
    passing: frozenset[tuple[IntPolynomial, IntPolynomial, IntPolynomial]]
    again: tuple[IntPolynomial, ...] = ()
    """Elements of parts of arrays that a product reads: each is loaded by itself, into buffers of its own."""


def products(diagram: Diagram, tiles: frozenset[str]) -> DotProducts:
    """The products of a diagram: all contractions of two arrays that have rows, columns and a depth. What multiplies a
    matrix by a vector is none.

    The factor whose own axes carry a tile is the first, the left one if both or none do, as in
    `catdiag.planner.instruction_shapes`.
    """
    direct: dict[str, None] = {}
    reach: dict[str, None] = {}
    readers: dict[str, dict[IntPolynomial, None]] = {}
    kept: dict[IntPolynomial, None] = {}
    first: dict[tuple[IntPolynomial, IntPolynomial], None] = {}
    rows: dict[str, tuple[IntPolynomial, IntPolynomial]] = {}
    results: dict[IntPolynomial, None] = {}
    passing: dict[tuple[IntPolynomial, IntPolynomial, IntPolynomial], None] = {}
    batches: dict[IntPolynomial, None] = {}
    again: dict[IntPolynomial, None] = {}
    found: dict[tuple[IntPolynomial, IntPolynomial, IntPolynomial], None] = {}
    todo: list[tuple[Diagram, list[_OperandSource]]] = [
        (diagram, [_OperandSource(True, (n,)) for n in diagram.input_names])
    ]
    while todo:
        whole, source = todo.pop()
        for node in inline(whole).graph.nodes:
            op, box, given = node.box.op, node.box, [source[w] for w in node.inputs]
            if is_view(box):
                source.append(given[0])
                continue
            part = isinstance(op, (Reindex, View)) and (given[0].is_input or given[0].part)
            made = _OperandSource(False, tuple(dict.fromkeys(name for s in given for name in s.names)), part=part)
            if isinstance(op, GroupOp):
                todo.append((op.body, given))
                results.update(dict.fromkeys(IntPolynomial.elements(ty.axes) for ty in op.body.cod))
            elif isinstance(op, FoldOp):
                before = [replace(g, before=not g.is_input) for g in given]
                todo.append((op.step, [_OperandSource(False, ())] * len(box.cod) + before))
                made = _OperandSource(False, ())
            elif len(box.dom) == 2 and multiplies(box):
                sizes = _sides(box.dom.arrays[0], box.dom.arrays[1], set(box.cod[0].names))
                if ONE not in sizes:
                    found[sizes] = None
                    last = 0 if not sizes[0].symbols() & tiles and sizes[1].symbols() & tiles else 1
                    if not given[1 - last].is_input and not given[1 - last].before:
                        passing[sizes] = None
                    for k, factor in enumerate(given):
                        (direct if factor.is_input else reach).update(dict.fromkeys(factor.names))
                        for name in factor.names if factor.is_input else ():
                            readers.setdefault(name, {})[sizes[1 - last]] = None
                        made_here = IntPolynomial.elements(box.dom.arrays[k].axes)
                        if factor.part and not factor.before:
                            again[made_here] = None
                        elif factor.before or (k == last and not factor.is_input):
                            kept[made_here] = None
                        elif not factor.is_input:
                            first[made_here, sizes[k]] = None
                        elif k != last:
                            rows.update((name, (sizes[k], sizes[1 - k])) for name in factor.names)
                    left, right = box.dom.arrays
                    both = [a for a in left.axes if a.name in right.names and a.name in box.cod[0].names]
                    batches[IntPolynomial.elements(both)] = None
            source.extend([made] * len(box.cod))
    return DotProducts(
        frozenset(direct),
        frozenset(reach) - frozenset(direct),
        MappingProxyType({name: tuple(rows) for name, rows in readers.items()}),
        tuple(kept),
        tuple(first),
        MappingProxyType(rows),
        tuple(found),
        tuple(batches),
        tuple(results),
        frozenset(passing),
        tuple(again),
    )


@dataclass(frozen=True)
class _OperandSource:
    """The inputs that a wire is made of; `is_input`: it is one of them, or another form of it; `before`: it was made
    before the loop that reads it."""

    is_input: bool
    names: tuple[str, ...]
    before: bool = False
    part: bool = False
    """A part of one, or a form of it that is read at computed positions."""


def _sides(left: ArrayType, right: ArrayType, kept: set[str]) -> tuple[IntPolynomial, IntPolynomial, IntPolynomial]:
    """Rows, columns and depth of a contraction that keeps some axes."""
    rows = [axis for axis in left.axes if axis.name in kept and axis.name not in right.names]
    columns = [axis for axis in right.axes if axis.name in kept and axis.name not in left.names]
    depth = [axis for axis in union([left, right]) if axis.name not in kept]
    return IntPolynomial.elements(rows), IntPolynomial.elements(columns), IntPolynomial.elements(depth)


@dataclass(frozen=True)
class Block:
    """Amounts of what a block holds, moment by moment: bytes of shared memory, of registers, and those that all its
    threads copy to shared memory in a turn. `staged`: whether blocks of a loop are copied there ahead of their turn;
    `element` is the width of what products read; `boxes`: the chip copies boxes of arrays itself, so that threads need
    no addresses for it, and then rows that a loop reads in each turn are `register_operands` in registers where there
    are few columns (bytes, rows, columns). `grouped`: it has instructions of several warps for `group_rows` rows at
    once; `sums`: turns wait for sums along rows."""

    smem: tuple[tuple[IntPolynomial, Reused], ...]
    arrays: tuple[IntPolynomial, ...]
    copied: IntPolynomial
    staged: bool
    warp: int
    products: DotProducts
    element: int
    boxes: bool
    grouped: bool
    sums: bool
    group_rows: int
    register_operands: tuple[tuple[IntPolynomial, IntPolynomial, IntPolynomial], ...]

    @staticmethod
    def of(
        diagram: Diagram, kernel: LoweredKernel, dtype: str, chip: Hardware, stages: int, boxes: bool = True
    ) -> Block:
        """The block of a kernel of a diagram that was measured for a chip with so many buffers of each streamed block;
        products are of elements of that type. Without `boxes`, arrays are copied by addresses on any chip."""
        found, element = products(diagram, frozenset(kernel.tiles)), width(dtype)
        smem: dict[tuple[IntPolynomial, Reused], None] = {}
        loaded: dict[IntPolynomial, None] = {}
        copies: dict[tuple[str, IntPolynomial], None] = {}
        held: dict[str, tuple[IntPolynomial, IntPolynomial, IntPolynomial]] = {}
        grouped, loops = chip.by_warpgroups, bool(kernel.loops)
        boxes = boxes and grouped
        made = sum((amount.scaled(element) for amount in found.kept), ZERO)
        made = sum((amount.scaled(element * (stages if loops else 1)) for amount in found.again), made)
        for moment in kernel.points[LEVEL]:
            near, far, reused = made, ZERO, list[tuple[IntPolynomial, tuple[IntPolynomial, ...]]]()
            for name, role, amount in moment.live:
                one = IntPolynomial({m: c // stages for m, c in amount.terms.items()}) if role == "streamed" else amount
                direct = name in found.direct or role not in ("operand", "streamed")
                if not direct:
                    far = far + one.scaled(max(1, 4 // element))
                if role == "streamed" and name in found.direct | found.reach:
                    copies[name, one] = None
                    near = near + (amount if direct else amount - one)
                    if direct and grouped and stages > 1 and name in found.readers:
                        reused.append((one, found.readers[name]))
                elif direct and boxes and loops and name in found.rows:
                    held[name] = (amount, *found.rows[name])
                elif direct:
                    near = near + amount
            smem[near, tuple(reused)], loaded[far] = None, None
        lines = {side.scaled(4) for of in found.sides for side in of[:2]}
        if found.sides:  # what products have made goes through shared memory when it is saved
            smem.update(dict.fromkeys((amount.scaled(element), ()) for amount in found.results))
        arrays = {
            m.total + sum((a.scaled(_LINES - 1) for _, _, a in m.live if a in lines), far): None
            for m in kernel.points[REGISTERS]
            for far in loaded or (ZERO,)
        }
        copied = sum((a for _, a in copies), ZERO)
        return Block(
            tuple(smem),
            tuple(arrays or loaded),
            copied,
            bool(copies),
            chip.warp,
            found,
            element,
            boxes,
            grouped,
            any(kernel.chains.values()),
            chip.matrix_rows,
            tuple(held.values()),
        )

    def shared(self, values: Mapping[Any, Any]) -> Any:
        """Bytes of shared memory, without `SCRATCH`."""
        import numpy as np

        kept = [
            np.where(c.value(values) > MAX_COLUMNS_IN_REGISTERS, amount.value(values), 0)
            for amount, _, c in self.register_operands
        ]
        return self._operands(values) + sum(kept, 0)

    def shared_upper_bound(self, values: Mapping[Any, Any]) -> Any:
        """The same where the arrays that are given cannot be copied in boxes, so that nothing is held in registers."""
        return self._operands(values) + sum((amount.value(values) for amount, *_ in self.register_operands), 0)

    def _operands(self, values: Mapping[Any, Any]) -> Any:
        """Bytes that products read. Those of few rows, by instructions of single warps, are over when the turn is, and
        its buffer is free for the next load: one buffer less. What one product has made then passes through shared
        memory to another, whose rows several warps work on, and so do sums along rows."""
        import numpy as np

        most: Any = 0
        for amount, reused in self.smem:
            total = amount.value(values)
            for one, readers in reused:
                total = total - np.where(self._short(readers, values), one.value(values), 0)
            most = np.maximum(most, total)
        for amount, rows in self.products.first if self.grouped else ():
            most = most + np.where(self._short((rows,), values), amount.value(values) * self.element, 0)
        sums: Any = 0
        for of in self.products.sides if self.grouped and self.sums else ():
            rows = of[0].value(values)
            sums = np.maximum(sums, np.where(rows < self.group_rows, rows * _ACROSS, 0))
        return most + sums

    def _short(self, sides: tuple[IntPolynomial, ...], values: Mapping[Any, Any]) -> Any:
        """Whether all of these products have fewer rows than a warpgroup's instruction takes."""
        found: Any = True
        for rows in sides:
            found = found & (rows.value(values) < self.group_rows)
        return found

    def is_hoisted(self, rows: IntPolynomial, columns: IntPolynomial) -> bool:
        """Whether the rows of a product are loaded once, before the loop that multiplies them."""
        return any((rows, columns) in ((r, c), (c, r)) for _, r, c in self.register_operands)

    def first_in_registers(
        self,
        sides: tuple[IntPolynomial, IntPolynomial, IntPolynomial],
        rows: IntPolynomial,
        columns: IntPolynomial,
        values: Mapping[Any, Any],
    ) -> Any:
        """Whether the first factor of a product with these sides is read from registers: made there, or held."""
        if sides in self.products.passing:
            return True
        return (
            any((rows, columns) == tuple(of) for _, *of in self.register_operands)
            and columns.value(values) <= MAX_COLUMNS_IN_REGISTERS
        )

    def values_each(self, values: Mapping[Any, Any], warps: int) -> Any:
        """Values of 4 bytes that a thread holds at most, of arrays."""
        return _maximum(self.arrays, values) / (4 * self.warp * warps)

    def warps_own_rows(self, values: Mapping[Any, Any], warps: int) -> Any:
        """Whether warps have rows of their own, 16 at least, where one product takes what another has made."""
        found: Any = True
        for _, rows in self.products.first:
            found = found & (rows.value(values) >= _ROWS * warps)
        return found

    def registers(self, values: Mapping[Any, Any], warps: int) -> Any:
        """Registers of a thread, of 4 bytes each."""
        import numpy as np

        passed, beside = self._beside(values, warps)
        needed = np.ceil(self.values_each(values, warps) + passed) + beside
        return np.where(self.warps_own_rows(values, warps), needed, np.ceil(_SHARED_ROWS * needed))

    def array_bytes(self, values: Mapping[Any, Any], warps: int, registers: int) -> int:
        """The bytes of arrays up to which a block's threads take so many registers each."""
        passed, beside = (float(n) for n in self._beside(values, warps))
        needed = registers if bool(self.warps_own_rows(values, warps)) else math.floor(registers / _SHARED_ROWS)
        return max(0, math.floor(4 * self.warp * warps * (needed - beside - passed)))

    def _beside(self, values: Mapping[Any, Any], warps: int) -> tuple[Any, Any]:
        """Registers of a thread beside arrays: for what is passed from one product to another or held, in parts of
        one; and for addresses and what the compiler keeps."""
        import numpy as np

        threads = self.warp * warps
        addresses = 0 if self.boxes else 2 * np.ceil(self.copied.value(values) / (_COPY * threads))
        passed: Any = 0
        for amount, rows in self.products.first:
            # Where there are more warps than 16 rows each make, several hold the same rows, in two layouts.
            shared = _ROWS * warps / rows.value(values)
            times = np.where(shared > 1, 2 * shared, 1)
            passed = np.maximum(passed, amount.value(values) * self.element * times / (4 * threads))
        for amount, rows, columns in self.register_operands:
            times = np.maximum(1, _ROWS * warps / rows.value(values)) * (
                columns.value(values) <= MAX_COLUMNS_IN_REGISTERS
            )
            passed = passed + amount.value(values) * times / (4 * threads)
        return passed, addresses + OTHER_REGISTERS


def _maximum(amounts: tuple[IntPolynomial, ...], values: Mapping[Any, Any]) -> Any:
    import numpy as np

    found: Any = 0
    for amount in amounts:
        found = np.maximum(found, amount.value(values))
    return found
