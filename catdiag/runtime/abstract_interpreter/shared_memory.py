"""The shared memory that a Triton kernel allocates, from its tree or source, without a compiler or a GPU.

The rules are those of Triton 3.6 for compute capabilities 8.0, 9.0 and 10.0, and for CDNA 3. They were found by
comparison with compiled kernels; where one is a pass of the compiler, it is named.

- **Matrix products.** A product with 64·k rows and at least 16 columns, in a kernel with a multiple of four warps, is a
  wgmma: four warps together, both factors in shared memory. Other products are mma, by single warps, or ordinary
  arithmetic with `input_precision="ieee"`. A sum of x[:, :, None] * y[None, :, :] along the second axis is a product
  too (`CombineBroadcastMulReducePattern`).
- **Computed factors.** What elementwise functions and views make of prefetched loads and constants alone is computed in
  the layout in which a product reads it (`hoistConvertDotOperand`), except the second factor of a wgmma; a load that is
  not prefetched passes through shared memory for that. The first
  factor of a wgmma is read from registers if a wgmma made it, that of an mma if an mma made it whose warps are all
  along the rows, as they are in a loop with several products and at least as many rows as columns in the last of them
  (`warpsPerTileV2`). On Blackwell a computed first factor of a product by four warps goes
  to tensor memory (`PromoteLHSToTMem`). Any other computed factor is stored to shared memory where it is
  made.
- **Descriptors.** A block that a tensor descriptor loads passes through shared memory. A product reads it there, but
  for a first factor, before Blackwell, where a reshape removes other axes than those before the last two
  (`RankedReduceDescriptorLoads`): that is read into registers.
- **Exchanged axes**, others than the last two of a matrix: wgmma reads such a second factor from a buffer of its own.
  What is not prefetched is converted from registers to registers.
- **Three passes of tf32** (`input_precision="tf32x3"`) read each factor in two parts, which are computed of it
  (`F32DotTC`).
- **Software pipelining.** The innermost loops with products prefetch the loads that products read, also those read by
  way of scalar functions. Such a load has `stages` buffers if only wgmma reads it, unchanged; otherwise it has
  `stages - 1`. So it has on Blackwell where an iteration waits for the product: since inline assembly reads the result,
  or since others read the other factor too. A load is prefetched only if 4 bytes or more are known to be contiguous.
  (Of an integer, Triton knows whether 16 divides it.) Loads that only accumulators read are not prefetched, nor those
  of products under a condition.
- A loop with a number of stages of its own (`tl.range(…, num_stages=…)`) prefetches all loads of tiles, also without a
  product.
- With `stages=1` nothing is prefetched. Then a load that a product reads has one buffer, live from the load to its last
  use.
- **Equal loads** of one iteration, with no store between them, are one load
  (`catdiag.runtime.abstract_interpreter.common_subexpressions`).
- **8-bit values**, and 32-bit values that a descriptor loads, must be contiguous along the summed axis for wgmma. If
  they are not, they are stored again in the right order, in one buffer. 8-bit values that no descriptor loads are not
  prefetched then. mma reads 8-bit floating point numbers widened to 16 bits.
- **Loop-invariant factors.** A factor from before the loop, or a narrower form of one, has a buffer that is live while
  the loop runs. There are three exceptions: a first factor that `inline_asm_elementwise` keeps in registers, a factor
  from a tensor descriptor that several mma read, and one that mma read, of which elementwise functions make something,
  if an mma follows the loop in each run (`canBePipelined` in `hoistConvertDotOperand`).
- **Scratch memory**, live for an instant: reductions across warps, and layout conversions
  (`catdiag.runtime.abstract_interpreter.register_layouts`) of results of products, and of what a loop adds up, before
  stores, of vectors that are broadcast to a
  tile in another layout than they were loaded in, unless they are shorter than there are threads, and on Blackwell of
  first factors that depend on sums, on their way to tensor memory.
- Buffers whose live ranges do not overlap share memory. The allocation is the largest sum of live buffers.
- A Gluon kernel allocates explicitly; barriers take 8 bytes each.
- **AMD's chips** (CDNA 3) have `stages - 1` buffers of a matrix that products alone read, as it is or by elementwise
  functions of loads, but one where two products of a loop with four stages are chained (`ChainedDotSchedule`); of one
  that is read transposed, only if there is one way from it to one product. Other loads stay in registers. Any other
  factor passes through shared memory for an instant, where it is made, or up to the last loop that reads it; the result
  of one product that is the first factor of another only if some warps, and not all, have the same rows. Results are
  stored by the threads that have them (`OptimizeEpilogue`).

This was compared with 680 compiled kernels: products, normalized products, cascades of two and four products, split
and merged ones, losses with nested loops, covariances; 8 to 32 bits; 1 to 4 stages. With two or more stages it is
within 1 KiB for all of them. With `stages=1` and mma it can be too large, since Triton then moves one factor after the
other, in parts.

>>> text = '''
... @triton.jit
... def product(A, B, C, n, sa: tl.constexpr, sb: tl.constexpr, g: tl.constexpr, s: tl.constexpr):
...     i, k = tl.arange(0, g), tl.arange(0, s)
...     total = tl.zeros((g, g), tl.float32)
...     for first in range(0, n, s):
...         a = tl.load(A + i[:, None] * sa + (first + k)[None, :])
...         b = tl.load(B + (first + k)[:, None] * sb + i[None, :])
...         total = tl.dot(a, b, total)
...     tl.store(C + i[:, None] * sa + i[None, :], total)
... '''
>>> given = {name: Pointer("bf16") for name in "ABC"} | {"sa": 4096, "sb": 4096, "g": 128, "s": 64}
>>> print(shared_memory(text, "product", given, warps=4, stages=3))
98304 bytes: 49152 A, 3 buffers; 49152 B, 3 buffers
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from catdiag.category.integer_polynomial import IntPolynomial
from catdiag.codegen.kernel_tree import Assign, KernelCode, KernelFunction, walked
from catdiag.codegen.python_source import read_code
from catdiag.codegen.syntax import Attribute, BinaryOperation, FunctionCall, ListOf, Name, Number, PythonExpression
from catdiag.runtime.abstract_interpreter.kernel_reader import kernel_of, read
from catdiag.runtime.abstract_interpreter.prefetched_loads import Reader, buffered_on_cdna, chained, direct_readers
from catdiag.runtime.abstract_interpreter.register_layouts import (
    conversion_bytes,
    first_factor_layout,
    tensor_memory_layout,
)
from catdiag.runtime.abstract_interpreter.symbolic_lengths import amount_of
from catdiag.runtime.abstract_interpreter.tile_values import (
    BLACKWELL,
    CDNA,
    HOPPER,
    WIDTHS,
    Dot,
    Pointer,
    TileTrace,
    TileValue,
    TracedLoad,
    TracedLoop,
    dtype_of,
)
from catdiag.runtime.machine_code import ArrayArgument
from catdiag.util.errors import CatdiagError

if TYPE_CHECKING:
    from catdiag.runtime.machine_code import RecordedLaunch

__all__ = ["Pointer", "SharedBuffer", "SharedMemory", "shared_memory", "shared_of_launch", "trace_of_launch"]

WARPS, STAGES = 4, 3
"""Triton's defaults for `num_warps` and `num_stages`."""


@dataclass(frozen=True)
class SharedBuffer:
    """A buffer in shared memory: its purpose, its bytes over all stages, and its live range in times of the trace."""

    what: str
    bytes: int
    start: int
    end: int


@dataclass(frozen=True)
class SharedMemory:
    """The largest sum of live buffers, in bytes, and these buffers."""

    bytes: int
    buffers: tuple[SharedBuffer, ...]
    totals: tuple[IntPolynomial, ...] = ()
    """The sums of live buffers at all times, in bytes, as polynomials of the tile lengths that were given as
    `catdiag.runtime.abstract_interpreter.symbolic_lengths.Length`."""

    def __str__(self) -> str:
        return f"{self.bytes} bytes: {'; '.join(f'{b.bytes} {b.what}' for b in self.buffers) or 'nothing'}"


def shared_memory(
    text: str, kernel: str, arguments: Mapping[str, object], warps: int = WARPS, stages: int = STAGES
) -> SharedMemory:
    """The shared memory of one thread block of a kernel, in bytes (Triton's `metadata.shared`).

    `text` is the Python source of the module. `arguments` gives the kernel's arguments by name: `Pointer("bf16")` for a
    tensor, values for `tl.constexpr` parameters, and at least those strides that are 1. Raises CatdiagError, with the
    kernel's line, for source that the interpreter does not understand.
    """
    return taken(read(read_code(text), kernel, arguments, warps), stages)


def shared_of_launch(code: KernelCode, launch: RecordedLaunch, generation: int = HOPPER) -> SharedMemory:
    """The shared memory of one thread block of a launch that `catdiag.runtime.launch_recorder` recorded.

    `code` are the kernels of the module: those of a generated one (`Module.code`), or what
    `catdiag.codegen.python_source.read_code` reads of a text. `generation` is the chip's
    (`catdiag.runtime.abstract_interpreter.kernel_reader.read`). Raises CatdiagError as `shared_memory` does.
    """
    if kernel_of(code, launch.kernel).jit == "gluon":
        return _allocated(code.functions[launch.kernel], launch)
    stages = launch.options.get("num_stages")
    return taken(trace_of_launch(code, launch, generation), stages if isinstance(stages, int) else STAGES)


def _allocated(kernel: KernelFunction, launch: RecordedLaunch) -> SharedMemory:
    """The explicit allocations of a Gluon kernel."""
    known = {n: v for n, v in launch.arguments.items() if isinstance(v, int)}
    kinds = {
        n: v.dtype if isinstance(v, (ArrayArgument, Pointer)) else str(_described(v).dtype)
        for n, v in launch.arguments.items()
        if isinstance(v, (ArrayArgument, Pointer)) or hasattr(v, "block_shape")
    }
    buffers = []
    for statement in walked(kernel.body):
        match statement:
            case Assign(
                (target,), FunctionCall(function=Attribute(name="allocate_shared_memory"), args=(kind, shape, *_))
            ):
                if not isinstance(shape, ListOf) or not isinstance(kind, Attribute):
                    raise CatdiagError(
                        f"kernel {launch.kernel} allocates shared memory of type {kind} and shape {shape}: expected "
                        "the type of an array, and a list"
                    )
                lengths = [_length(n, known) for n in shape.parts]
                array = str(kind.of)
                width = 8 if array == "gl" else WIDTHS[dtype_of(kinds[array])]
                buffers.append(SharedBuffer(str(target), math.prod(lengths) * width, 0, 0))
    total = sum(b.bytes for b in buffers)
    return SharedMemory(int(total), tuple(buffers), (amount_of(total),))


def _length(node: PythonExpression, known: Mapping[str, int]) -> int:
    """The value of a length: a number, a constant of the kernel, or a quotient of these."""
    match node:
        case Number(int(value)):
            return value
        case Name(name) if name in known:
            return known[name]
        case BinaryOperation(left, "//", right):
            return _length(left, known) // _length(right, known)
    raise CatdiagError(f"the length {node} is not known from the launch: expected numbers, constants and quotients")


def trace_of_launch(code: KernelCode, launch: RecordedLaunch, generation: int = HOPPER) -> TileTrace:
    """The trace of one program of a recorded launch. Raises CatdiagError as `shared_memory` does."""
    arguments = {
        name: Pointer(value.dtype) if isinstance(value, ArrayArgument) else _described(value)
        for name, value in launch.arguments.items()
    }
    warps = launch.options.get("num_warps")
    return read(code, launch.kernel, arguments, warps if isinstance(warps, int) else WARPS, generation)


def _described(value: Any) -> Any:
    """A tensor descriptor of Triton as a `Pointer` with a block; any other value unchanged."""
    base, block = getattr(value, "base", None), getattr(value, "block_shape", None)
    return value if base is None or block is None else Pointer(str(base.dtype).removeprefix("torch."), tuple(block))


def taken(trace: TileTrace, stages: int, scratch: bool = True) -> SharedMemory:
    """The shared memory of a trace, with `scratch` memory or without; `stages` is for loops without a number of stages
    of their own."""
    buffers = _Buffers(trace, stages).all(scratch)
    best: tuple[int, list[SharedBuffer]] = (0, [])
    totals: dict[IntPolynomial, None] = {}
    for time in sorted({b.start for b in buffers}):
        live = [b for b in buffers if b.start <= time <= b.end]
        size = sum(b.bytes for b in live)
        totals[amount_of(size)] = None
        if size > best[0]:
            best = size, live
    return SharedMemory(int(best[0]), tuple(best[1]), tuple(totals))


class _Buffers:
    """Finds the buffers of a trace with their live ranges, by the rules at the head of this module."""

    def __init__(self, trace: TileTrace, stages: int) -> None:
        self.trace, self.stages = trace, stages
        self.buffers: dict[tuple[object, ...], SharedBuffer] = {}

    def all(self, scratch: bool) -> list[SharedBuffer]:
        copies = self.staged()
        for number, (count, what) in copies.items():
            load = self.trace.loads[number]
            loop = self.trace.loops[load.loop or 0]
            size = _bytes(load) * count + (8 * count if load.described else 0)
            self.put(("load", number), f"{what}, {count} buffer{'s' if count > 1 else ''}", size, loop.start, loop.end)
        for load in self.trace.loads:
            if load.described and load.number not in copies:  # through shared memory, whoever reads it
                self.put(("load", load.number), load.array, _bytes(load) + 8, load.time, load.time)
        for dot in self.trace.dots:
            self.factor(dot, dot.left, True, copies)
            self.factor(dot, dot.right, False, copies)
        for place, one in enumerate(self.trace.scratch if scratch else ()):
            if one.bytes and (one.unless is None or one.unless not in copies):
                self.put(("scratch", place), one.what, one.bytes, one.time, one.time)
        return list(self.buffers.values())

    def put(self, key: tuple[object, ...], what: str, size: int, start: int, end: int) -> None:
        """Adds a buffer, or extends one with the same key."""
        known = self.buffers.get(key)
        if known is not None:
            start, end, size = min(start, known.start), max(end, known.end), max(size, known.bytes)
        self.buffers[key] = SharedBuffer(what, size, start, end)

    # -- software pipelining -------------------------------------------------------------------

    def staged(self) -> dict[int, tuple[int, str]]:
        """The prefetched loads, each with its number of buffers and the name of its array."""
        found: dict[int, tuple[int, str]] = {}
        for loop in self.trace.loops:
            stages = self.stages if loop.stages is None else loop.stages
            dots = [d for d in self.trace.dots if d.loop == loop.number and not d.conditional]
            if loop.holds or stages < 2 or not (dots or loop.stages):
                continue
            if loop.stages and self.trace.generation != CDNA:
                own = [load for load in self.trace.loads if load.loop == loop.number and load.shape]
                found |= {load.number: (stages - 1, load.array) for load in own if self.ahead(load, [])}
            read_by: dict[int, list[Reader]] = {}
            for dot in dots:
                for value, first in ((dot.left, True), (dot.right, False)):
                    for number in value.loads:
                        if self.trace.loads[number].loop == loop.number:
                            read_by.setdefault(number, []).append((dot, value, first))
            read_by = {n: r for n, r in read_by.items() if self.ahead(self.trace.loads[n], r)}
            if self.trace.generation == CDNA:
                read_by = {n: r for n, r in read_by.items() if buffered_on_cdna(self.trace.loads[n], r)}
            deep = self.depths(set(read_by), loop)
            if self.trace.generation == CDNA and stages == 4 and not any(deep.values()) and chained(dots):
                stages = 2
            ahead = (stages - 1) // (1 + max(deep.values(), default=0))
            only = {number for number, readers in read_by.items() if self.only(number, readers)}
            for number, readers in sorted(read_by.items()):
                late = any(self.completed_at_once(d, only, read_by) for d, _, _ in readers)
                count = ahead + (1 if number in only and not late else 0)
                if ahead:
                    found[number] = (count, self.trace.loads[number].array)
        return found

    def only(self, number: int, readers: list[Reader]) -> bool:
        """Whether products by four warps alone read a load, as it is in shared memory."""
        load = self.trace.loads[number]
        return not load.others and all(
            v.direct == number
            and d.version == 3
            and not _turned(d, v, first, load)
            and not self.in_registers(v, first)
            and not v.permuted
            for d, v, first in direct_readers(number, readers)
        )

    def completed_at_once(self, dot: Dot, only: set[int], read_by: Mapping[int, object]) -> bool:
        """On Blackwell, whether an iteration waits for a product of its own (`tc_gen5_mma`): since something reads its
        result, or since a block that it reads is read by others too, whose buffer is filled again."""
        if self.trace.generation < BLACKWELL:
            return False
        beside = {v.direct for v in (dot.left, dot.right)} & set(read_by)
        return dot.time in self.trace.awaited or not beside <= only

    @staticmethod
    def ahead(load: TracedLoad, readers: list[Reader]) -> bool:
        """Whether a load can be copied to shared memory asynchronously, without passing through registers."""
        if load.described:
            return True
        if load.vector * WIDTHS[load.dtype] < 4:
            return False
        return not any(v.direct == load.number and _turned(d, v, f, load) for d, v, f in readers)

    def depths(self, numbers: set[int], loop: TracedLoop) -> dict[int, int]:
        """For each prefetched load, the length of the chain of prefetched loads that its addresses depend on."""
        found: dict[int, int] = {}
        for number in sorted(numbers):
            after = [n for n in self.trace.loads[number].after if n in numbers]
            found[number] = max((found.get(n, 0) + 1 for n in after), default=0)
        return found

    # -- factors of products -----------------------------------------------------------------------

    def factor(self, dot: Dot, value: TileValue, first: bool, copies: Mapping[int, tuple[int, str]]) -> None:
        """Adds the buffer from which a product reads a factor, if it needs one that is not a prefetched load's."""
        if self.trace.generation == CDNA:
            self.passing(dot, value, first, copies)
            return
        inside = self.outermost(dot, value.defined_at)
        end = dot.time if inside is None else inside.end
        if value.direct is not None:
            load = self.trace.loads[value.direct]
            if self.in_registers(value, first):
                return
            lies = load.described and all(n == 1 for n in load.shape[:-2])  # else its view is made in registers
            turned = value.permuted or (value.swapped and len(load.shape) > 2 and not lies)
            alone = value.direct not in copies and self.trace.generation < BLACKWELL
            if turned and alone and (first or dot.version != 3):
                self.converted(dot, value, first)
                return
            if value.permuted and dot.version == 3 and not first:
                what = f"{load.array} in another order"
                self.put(("made", dot.time), what, value.bytes, value.defined_at, dot.time)
                return
            if value.direct in copies:
                if not first and _turned(dot, value, first, load):  # a first one is read into registers
                    self.put(("made", dot.time), f"{load.array} in another order", value.bytes, dot.time, dot.time)
                return
            at_once = self.reads(load) > 1 or _widened(dot, value) > 1
            if load.described and dot.version == 2 and inside is not None and at_once:
                end = load.time  # read into registers at once, from which each of the products takes it
            size = _bytes(load) * (_widened(dot, value) if inside is not None else 1) + (8 if load.described else 0)
            self.put(("load", load.number), load.array, size, load.time, end)
            return
        if first and dot.version == 3 and self.trace.generation >= BLACKWELL:
            if value.layout is not None and not value.matrix and not value.from_loads:
                target, time = tensor_memory_layout(value.shape, self.trace.warps), value.defined_at
                size = conversion_bytes(value.shape, value.width, value.layout, target)
                self.put(("passed", time), "a factor on its way to tensor memory", size, time, time)
            return  # to tensor memory (`PromoteLHSToTMem`)
        read = [n in copies if inside is None else self.trace.loads[n].described for n in value.loads]
        loaded = value.from_loads and not value.matrix and bool(read) and all(read)
        if (first and self.same_rows(dot, value)) or (loaded and (first or dot.version != 3)):
            return
        near = self.beside(dot, value) or self.before_product(inside)
        if value.from_loads and not value.matrix and (first or dot.version != 3) and near:
            for number in value.loads - set(copies):  # from registers to registers, in a loop as soon as it is loaded
                load = self.trace.loads[number]
                self.put(("load", number), load.array, _bytes(load), load.time, load.time)
            return
        if first and value.from_assembly and inside is not None:
            self.put(
                ("made", value.defined_at, value.shape),
                "a factor on its way in",
                value.bytes,
                value.defined_at,
                value.defined_at,
            )
            return
        what, size = "a factor that was made on chip", value.bytes * dot.parts * _widened(dot, value)
        self.put(("made", value.defined_at, value.shape), what, size, value.defined_at, end)

    def converted(self, dot: Dot, value: TileValue, first: bool) -> None:
        """Adds the scratch memory through which a load passes from registers to those where a product reads it."""
        size = value.bytes
        if first and value.layout is not None and len(value.shape) == 2 and dot.layout.warps[-2] > 1:
            target = first_factor_layout(value.shape, value.width, dot.layout)
            moved = {(0, 2), (0, 4)} <= value.layout.registers  # what four threads of `ldmatrix` get, one has
            size = conversion_bytes(value.shape, value.width, value.layout, target, moved)
        load = self.trace.loads[value.direct or 0]
        self.put(("made", load.time, value.shape), f"{load.array} in another order", size, load.time, load.time)

    def in_registers(self, value: TileValue, first: bool) -> bool:
        """Whether a product reads a load from registers, since axes between those of a block were removed."""
        return first and value.squeezed and self.trace.generation < BLACKWELL

    def passing(self, dot: Dot, value: TileValue, first: bool, copies: Mapping[int, tuple[int, str]]) -> None:
        """Adds the buffer through which a factor passes from the registers where it is made to those where a matrix
        core reads it; what is prefetched is read from its buffers. The result of one product stays in registers as
        another's first factor if each warp has rows of its own in both, or all have all rows."""
        if first and value.matrix and dot.layout.warps[-2] in (1, math.prod(dot.layout.warps)):
            return
        inside = self.outermost(dot, value.defined_at)
        if value.direct is None:
            what, size, time = "a factor that was made on chip", value.bytes, value.defined_at
            self.put(("made", time, value.shape), what, size, time, time if inside is None else inside.start - 1)
        elif value.direct not in copies:
            load = self.trace.loads[value.direct]
            self.put(("load", load.number), load.array, _bytes(load), load.time, load.time)

    def beside(self, dot: Dot, value: TileValue) -> bool:
        """Whether a factor is made of loads in the loop of its product."""
        return bool(value.loads) and all(self.trace.loads[number].loop == dot.loop for number in value.loads)

    def before_product(self, loop: TracedLoop | None) -> bool:
        """Whether single warps make a product after an outermost loop, in each run of the kernel: then factors from
        before the loop are computed in the registers from which its products read them (`canBePipelined` in Triton's
        `hoistConvertDotOperand` asks for a product that post-dominates them)."""
        return loop is not None and any(
            dot.loop is None and dot.version == 2 and dot.time > loop.end and not dot.conditional
            for dot in self.trace.dots
        )

    @staticmethod
    def same_rows(dot: Dot, value: TileValue) -> bool:
        """Whether a product's first factor is another's result, each warp having the same rows of both: then it stays
        in registers."""
        if dot.version != value.matrix or dot.version == 0 or value.layout is None:
            return False
        return dot.version == 3 or value.layout.warps == dot.layout.warps == (dot.layout.warps[0], 1)

    def reads(self, load: TracedLoad) -> int:
        """How many products read a load as it is; anything else that does counts as one."""
        factors = [value for dot in self.trace.dots for value in (dot.left, dot.right)]
        return sum(value.direct == load.number for value in factors) + load.others

    def outermost(self, dot: Dot, defined_at: int) -> TracedLoop | None:
        """The outermost loop around a product that starts after the time at which its factor was defined."""
        found, number = None, dot.loop
        while number is not None:
            loop = self.trace.loops[number]
            if loop.start > defined_at:
                found = loop
            number = loop.outer
        return found


def _widened(dot: Dot, value: TileValue) -> int:
    """The factor by which a product widens its operand: mma has no 8-bit floating point operands."""
    return 2 if dot.version == 2 and value.dtype == "fp8" else 1


def _bytes(load: TracedLoad) -> int:
    size = WIDTHS[load.dtype]
    for n in load.shape:
        size *= n
    return size


def _turned(dot: Dot, value: TileValue, first: bool, load: TracedLoad) -> bool:
    """Whether wgmma cannot read a tile as it was loaded: unless entries have 16 bits, the summed axis must be
    contiguous. Copies of 4 bytes put 32-bit entries in any order, descriptors do not."""
    width = WIDTHS[load.dtype]
    if dot.version != 3 or width == 2 or (width == 4 and not load.described) or load.unit is None:
        return False
    rank = len(load.shape)
    side = load.unit if not value.swapped else {rank - 1: rank - 2, rank - 2: rank - 1}.get(load.unit, load.unit)
    return side != (rank - 1 if first else rank - 2)
