"""What a Hopper does beside its threads, for `gluon_machine`: barriers, copies by TMA, products by warpgroups."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any, Protocol

import numpy as np
import torch

from tests.codegen import gluon_layouts as layouts
from tests.codegen import gluon_values as values
from tests.codegen.gluon_layouts import NVMMASharedLayout, need
from tests.codegen.gluon_memory import SHARED, Allocation, Barrier, Program, Shared, join
from tests.codegen.gluon_values import Accumulator, Dtype, Tensor


class Running(Protocol):
    """The machine, as these operations need it."""

    @property
    def run(self) -> Program: ...

    def target(self) -> str: ...

    def owns(self, flat: torch.Tensor, places: torch.Tensor) -> None: ...


class Hopper:
    """The operations of `gl.allocate_shared_memory` and of `...gluon.language.nvidia.hopper`."""

    def __init__(self, machine: Running) -> None:
        self.machine = machine

    @property
    def run(self) -> Program:
        return self.machine.run

    def allocate_shared_memory(
        self, dtype: Dtype, shape: Sequence[int], layout: Any, value: Tensor | None = None
    ) -> Shared:
        run = self.run
        need(
            isinstance(layout, NVMMASharedLayout | layouts.SwizzledSharedLayout),
            lambda: f"a shared layout is needed, not {layout}",
        )
        need(len(run.parts) == 1, "shared memory is allocated before warp_specialize")
        rank = layout.rank
        need(rank <= len(shape), lambda: f"shared memory of shape {tuple(shape)} in a layout of rank {rank}")
        if isinstance(layout, NVMMASharedLayout):
            need(layout.element_bitwidth == dtype.primitive_bitwidth, lambda: f"{dtype} in {layout}")
        made = Allocation(self.machine.target() or f"shared memory {len(run.allocations)}", dtype, shape)
        run.allocations.append(made)
        run.bytes += len(made.data) * dtype.primitive_bitwidth // 8
        need(run.bytes <= SHARED, lambda: f"{run.bytes} bytes of shared memory; there are {SHARED}")
        view = Shared(run, made, np.arange(len(made.data)).reshape(shape), layout)
        if value is not None:
            view.store(value)
        return view

    def barrier(self, at: Shared) -> Barrier:
        need(isinstance(at, Shared) and at.dtype is values.int64, "an mbarrier is one int64 of shared memory")
        need(at.ids.size == 1, lambda: f"one barrier is needed here, not a view of shape {at.shape}")
        found = self.run.barriers.get(self.place(at))
        need(found is not None, lambda: f"the barrier {at.label} is not initialised")
        assert found is not None
        actor, tick = found.made
        need(
            self.run.current.clock.get(actor, 0) >= tick,
            lambda: f"this partition does not know that {at.label} is initialised",
        )
        return found

    def place(self, at: Shared) -> tuple[int, int]:
        return self.run.allocations.index(at.allocation), int(at.ids.flat[0])

    def init(self, at: Shared, count: int) -> None:
        self.run.pause()
        need(
            isinstance(at, Shared) and at.dtype is values.int64 and at.ids.size == 1,
            "an mbarrier is one int64 of shared memory",
        )
        need(self.place(at) not in self.run.barriers, lambda: f"the barrier {at.label} is initialised twice")
        need(isinstance(count, int) and count > 0, lambda: f"a barrier counts at least one arrival, not {count}")
        self.run.barriers[self.place(at)] = Barrier(at.label, count, self.run.current)

    def expect(self, at: Shared, bytes: int, pred: Any = True) -> None:
        """Arrives once and adds to the bytes of this phase (mbarrier.arrive.expect_tx)."""
        part = self.run.pause()
        if pred:
            barrier = self.barrier(at)
            barrier.expected += bytes
            barrier.arrive(part, 1)

    def arrive(self, at: Shared, *, count: int = 1, pred: Any = True) -> None:
        part = self.run.pause()
        if pred:
            self.barrier(at).arrive(part, count)

    def wait(self, at: Shared, phase: Any, pred: Any = True, deps: Any = ()) -> None:
        """Until the phase of this parity has completed: at once where the one under way has the other parity."""
        if not pred:
            return
        barrier, parity = self.barrier(at), int(values.scalar(phase).__index__())
        need(parity in (0, 1), lambda: f"a parity is 0 or 1, not {parity}")
        part = self.run.pause(barrier.over(self.run.current, parity))
        join(part.clock, barrier.done)

    def fence(self, cluster: bool = False) -> None:
        """What this partition knows of stores to shared memory becomes visible to copies and products."""
        clock = self.run.pause().clock
        join(clock, {("fence", n): tick for (actor, n), tick in clock.items() if actor == "partition"})

    def tile(self, descriptor: Descriptor, at: Sequence[Any], view: Shared) -> tuple[Any, Any]:
        """The part of a tensor that a copy meets, and of its block (what lies outside is zeros, or not stored)."""
        need(isinstance(descriptor, Descriptor), "a tensor descriptor is needed here")
        need(
            view.shape == descriptor.block_shape,
            lambda: f"a block of {descriptor.block_shape} is copied, the view has {view.shape}",
        )
        need(
            view.layout == descriptor.layout,
            lambda: f"a copy in {descriptor.layout} with shared memory in {view.layout}",
        )
        need(view.dtype is descriptor.dtype, lambda: f"a copy of {descriptor.dtype} with shared memory of {view.dtype}")
        start = [int(values.scalar(x).__index__()) for x in at]
        sizes = list(zip(start, descriptor.block_shape, descriptor.shape, strict=False))
        need(len(start) == len(view.shape), lambda: f"{len(start)} coordinates of a block of {descriptor.block_shape}")
        there = tuple(slice(max(0, s), max(0, min(s + b, n))) for s, b, n in sizes)
        here = tuple(
            slice(max(0, -s), max(0, -s) + max(0, t.stop - t.start))
            for (s, _b, _n), t in zip(sizes, there, strict=True)
        )
        return there, here

    def copy_in(self, descriptor: Any, coord: Sequence[Any], at: Shared, result: Shared, pred: Any = True) -> None:
        part, barrier = self.run.pause(), self.barrier(at)
        if not pred:
            return
        there, here = self.tile(descriptor, coord, result)
        size = result.ids.size * result.dtype.primitive_bitwidth // 8
        actor, tick, what = ("copies", barrier), barrier.phase + 1, f"the copy {self.run.here()}"
        result.allocation.write(result.region, actor, tick, part.clock, what)
        result.allocation.poison(result.region)
        self.run.duties.append((actor, tick, what))
        barrier.copy(part, size)

        def lands() -> None:
            block = torch.zeros(result.shape, dtype=descriptor.base.dtype)
            block[here] = descriptor.base[there]
            result.fill(block)
            barrier.land(size)

        self.run.copies.append(lands)

    def copy_out(self, descriptor: Any, coord: Sequence[Any], src: Shared) -> None:
        part = self.run.pause()
        there, here = self.tile(descriptor, coord, src)
        part.stores += 1
        number, what, base = part.stores, f"the TMA store {self.run.here()}", descriptor.base
        src.allocation.read(src.region, ("stores", part.number), number, part.clock, what, fenced=True)
        flat = values.whole_storage(base)
        places = torch.arange(len(flat)).as_strided(base.shape, base.stride(), base.storage_offset())
        self.machine.owns(flat, places[there].reshape(-1))
        part.storing.add(number)
        part.stored = what

        def lands() -> None:
            base[there] = src.values()[here].to(base.dtype)
            part.storing.discard(number)

        self.run.copies.append(lands)

    def store_wait(self, pendings: int) -> None:
        """Until all stores of this partition but the last `pendings` have read shared memory."""
        part = self.run.current
        done = part.stores - pendings
        self.run.pause(lambda: all(n > done for n in part.storing))
        join(part.clock, {("stores", part.number): done})

    def warpgroup_mma(
        self,
        a: Any,
        b: Any,
        acc: Any,
        *,
        use_acc: Any = True,
        precision: Any = None,
        max_num_imprecise_acc: Any = None,
        is_async: bool = False,
    ) -> Any:
        part = self.run.pause()
        like = acc.like if isinstance(acc, Accumulator) else acc
        fits_mma(a, b, like)
        if isinstance(acc, Accumulator):
            need(not acc.spent, lambda: f"this accumulator was handed on {acc.spent}")
            acc.spent = self.run.here()
        part.issued += 1
        actor, made, what = ("products", part.number), Accumulator(part.issued, like), f"the product {self.run.here()}"
        for x in (a, b):
            if isinstance(x, Shared):
                x.allocation.read(x.region, actor, part.issued, part.clock, what, fenced=True)
        add = bool(use_acc)

        def compute() -> Tensor:
            x, y = (factor(v) for v in (a, b))
            start: Any = acc.value if isinstance(acc, Accumulator) else acc
            total = x @ y + start.data.to(torch.float32) if add else x @ y
            return Tensor(total.to(like.dtype.torch), like.dtype, like.layout)

        part.products.append((made, what, compute))
        return made if is_async else self.warpgroup_mma_wait(0, deps=[made])

    def warpgroup_mma_wait(self, num_outstanding: int = 0, deps: Sequence[Any] | None = None) -> Any:
        """Products finish in the order of their issue; one that may be under way still stays an accumulator."""
        part = self.run.pause()
        need(deps is not None and len(deps) > 0, "warpgroup_mma_wait needs deps")
        assert deps is not None
        while len(part.products) > num_outstanding:
            made, _, compute = part.products.pop(0)
            made.value = compute()
        join(part.clock, {("products", part.number): part.issued - len(part.products)})
        found = []
        for x in deps:
            if isinstance(x, Accumulator) and x.value is not None:
                need(not x.spent, f"this accumulator was handed on {x.spent}")
                x = x.value
            found.append(x)
        return found[0] if len(found) == 1 else tuple(found)


def factor(x: Any) -> torch.Tensor:
    """A factor as the tensor cores read it: exactly, but float32 without its last 13 bits (tf32)."""
    data = (x.values() if isinstance(x, Shared) else x.data).to(torch.float32).contiguous()
    return (data.view(torch.int32) & ~0x1FFF).view(torch.float32) if x.dtype is values.float32 else data


def fits_mma(a: Any, b: Any, acc: Tensor) -> None:
    """The rules of wgmma (PTX ISA, wgmma.mma_async) and of Triton's layouts for it."""
    layout: Any = acc.layout
    need(
        isinstance(layout, layouts.NVMMADistributedLayout),
        lambda: f"the accumulator is in {layout}, not in an NVMMADistributedLayout",
    )
    need(isinstance(b, Shared), "the right factor lies in shared memory")
    for x in (a, b):
        if isinstance(x, Shared):
            need(
                isinstance(x.layout, NVMMASharedLayout),
                f"a factor lies in shared memory in {x.layout}, not in an NVMMASharedLayout",
            )
        need(len(x.shape) == 2, f"a factor of shape {x.shape}, not of rank 2")
    bits = b.dtype.primitive_bitwidth
    alike = a.dtype is b.dtype or (a.dtype.is_floating() and a.dtype.primitive_bitwidth == bits == 8)
    need(alike and b.dtype.is_floating() and bits <= 32, lambda: f"no product of {a.dtype} with {b.dtype}")
    allowed = (values.float32,) if b.dtype in (values.bfloat16, values.float32) else (values.float32, values.float16)
    need(acc.dtype in allowed, lambda: f"a product of {b.dtype} is not added up in {acc.dtype}")
    (m, k), (k2, n) = a.shape, b.shape
    need(k == k2 and acc.shape == (m, n), lambda: f"shapes {a.shape}, {b.shape} and {acc.shape}")
    (im, in_, ik), (wm, wn) = layout.instr_shape, layout.warps_per_cta
    need(
        tuple(layout.version) == (3, 0) and im == 16 and wm % 4 == 0,
        lambda: f"{layout} is not one of Hopper's warpgroups",
    )
    need(in_ % 8 == 0 and 8 <= in_ <= 256, lambda: f"N of an instruction is a multiple of 8 up to 256, not {in_}")
    need(ik * bits == 256, lambda: f"K of an instruction is {256 // bits} for {b.dtype}, not {ik}")
    need(
        m % (im * wm) == 0 and n % (in_ * wn) == 0 and k % ik == 0,
        lambda: f"{m}, {n}, {k} in instructions of {im * wm}, {in_ * wn}, {ik}",
    )
    if isinstance(a, Tensor):
        wanted = layouts.DotOperandLayout(0, layout, 32 // bits)
        need(a.layout == wanted, lambda: f"the left factor is in {a.layout}, not in {wanted}")
    if bits != 16:
        need(
            not (isinstance(a, Shared) and a.layout.transposed) and b.layout.transposed,
            lambda: f"factors of {b.dtype} are contiguous along the summed axis",
        )


@dataclass
class Descriptor:
    """TensorDescriptor of triton.experimental.gluon.nvidia.hopper, with its rules."""

    base: torch.Tensor
    shape: Sequence[int]
    strides: Sequence[int]
    block_shape: Sequence[int]
    layout: NVMMASharedLayout
    padding: str = "zero"

    def __post_init__(self) -> None:
        size, self.dtype = self.base.element_size(), values.OF_TORCH[self.base.dtype]
        self.block_shape = tuple(self.block_shape)
        need(0 < len(self.shape) <= 5, "a descriptor has rank 1 to 5")
        need(self.base.data_ptr() % 16 == 0, "a descriptor's tensor starts at a multiple of 16 bytes")
        need(
            len(self.shape) == len(self.strides) == len(self.block_shape) == self.layout.rank,
            "ranks of a descriptor differ",
        )
        need(
            all(b & (b - 1) == 0 and 0 < b <= 256 for b in self.block_shape),
            lambda: f"sizes of a block are powers of two up to 256, not {self.block_shape}",
        )
        need(all(n > 0 for n in self.shape), lambda: f"sizes {tuple(self.shape)}")
        need(
            self.strides[-1] == 1 and all(s * size % 16 == 0 for s in self.strides[:-1]),
            lambda: f"strides {tuple(self.strides)}: the last is 1, others are multiples of 16 bytes",
        )
        need(self.block_shape[-1] * size >= 16, "a block's rows have at least 16 bytes")
        need(
            self.layout.element_bitwidth == size * 8 and not self.layout.transposed,
            lambda: f"{self.layout} of a copy of {self.dtype}",
        )
        need(
            self.layout.swizzle_byte_width in (0, *(w for w in (32, 64, 128) if self.block_shape[-1] * size % w == 0)),
            lambda: f"rows of {self.block_shape[-1] * size} bytes in {self.layout}",
        )
        need(self.padding == "zero", "this machine pads with zeros only")
        need(
            tuple(self.shape) == tuple(self.base.shape) and tuple(self.strides) == self.base.stride(),
            "this machine describes whole tensors only",
        )

    @property
    def block_type(self) -> SimpleNamespace:
        size = math.prod(self.block_shape) * self.base.element_size()
        return SimpleNamespace(nbytes=size, shape=self.block_shape, element_ty=self.dtype)

    @staticmethod
    def from_tensor(
        tensor: torch.Tensor, block_shape: Sequence[int], layout: NVMMASharedLayout, padding: str = "zero"
    ) -> Descriptor:
        return Descriptor(tensor, tensor.shape, tensor.stride(), block_shape, layout, padding)
