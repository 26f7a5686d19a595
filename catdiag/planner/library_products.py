"""Products that torch computes, as kernels of a plan: how long they are predicted to take, and what is assumed.

torch has products from cuBLAS, whose code no theorem is about. A plan that calls it says so: it names each call, and
what it takes the call to compute. Only a contraction of two arrays of one type is left to it, with nothing before or
after.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from catdiag.category.diagram import Diagram
from catdiag.category.substitution import inline
from catdiag.category.types import ArrayType, size_value
from catdiag.codegen.triton.product_call import plain_product, product_axes
from catdiag.planner.fits_proof import Proof
from catdiag.planner.kernel_candidates import KernelTimer, PlanTarget
from catdiag.planner.kernel_drafts import KernelDraft
from catdiag.planner.plan import TORCH, WORDS, EdgeUse, KernelPlan, MinimumTraffic, spelled_out
from catdiag.schedule.element_widths import real_types, width
from catdiag.schedule.live_ranges import multiplies
from catdiag.schedule.stored_types import element_types

if TYPE_CHECKING:
    from catdiag.category.ops import Box

CALL_S = 3e-6
"""Seconds of a product that are neither bytes nor FLOPs: an assumption."""
EFFICIENCY = 0.88
"""The part of the rate that a chip sustains at which torch's products run: on an H200 in bf16, cuBLAS did 695 TFLOP/s
of 8,192³ and 698 of 8,192 × 6,144 × 4,096, which is 0.70 of the peak where the matrix units sustain 0.80 (636 of
4,096³; PyTorch 2.11, CUDA 13.0). On other chips it is an assumption."""
TYPES = ("bf16", "fp16")
"""The types of products that torch multiplies on matrix units, summing in fp32, whatever its settings are."""


def library_product(piece: Diagram, dtype: str | Mapping[str, str]) -> Box | None:
    """The product that is all of a piece, if its arrays have one type that torch multiplies; else None."""
    kinds = set(element_types(piece, dtype).values())
    return plain_product(piece) if len(kinds) == 1 and kinds <= set(TYPES) else None


def with_library(timers: Sequence[KernelTimer], piece: Diagram, target: PlanTarget) -> list[KernelTimer]:
    """The schedules of a piece, and the call of torch where it is a product: first if the target asks for that, or for
    what is quicker and this is."""
    box = None if target.products == "triton" else library_product(piece, target.dtype)
    if box is None:
        return list(timers)
    draft = KernelDraft((), (), inline(piece))
    found = KernelTimer(draft, _seconds(box, target), timers[0].choice, called=TORCH)
    first = target.products == "torch" or found.seconds < timers[0].seconds
    return [found, *timers] if first else [*timers, found]


def products_of_products(piece: Diagram) -> bool:
    """Whether a piece has a product of what another product in it made, as attention does.

    >>> import catdiag as cd
    >>> [products_of_products(cd.library.get(name).diagram) for name in ("attention", "matmul")]
    [True, False]
    """
    graph = inline(piece).graph
    made = [False] * len(graph.dom)
    for node in graph.nodes:
        after = any(made[w] for w in node.inputs)
        if after and multiplies(node.box):
            return True
        made += [after or multiplies(node.box)] * len(node.box.cod)
    return False


@dataclass(frozen=True)
class CallCost:
    """The predicted seconds of a call, the bytes of its arguments and of its results, and FLOPs of products."""

    seconds: float
    load_bytes: int
    save_bytes: int
    flops: int


def library_plan(piece: Diagram, target: PlanTarget) -> KernelPlan:
    """The plan of a product that torch computes; nothing is proved of what it takes on the chip."""
    box = library_product(piece, target.dtype)
    assert box is not None, "only a product is planned as a call of torch"
    loaded, saved = (sum(_bytes(ty, target) for ty in end) for end in (box.dom, box.cod))
    cost = CallCost(_seconds(box, target), loaded, saved, _flops(box, target))
    return called_plan(piece, target, cost, TORCH, target.chip.tensor.get(_kind(target), math.inf))


def called_plan(
    piece: Diagram, target: PlanTarget, cost: CallCost, backend: str, peak_flops: float = math.inf
) -> KernelPlan:
    """The plan of a call that takes the place of a kernel, of which only the cost is known."""
    chip, moved = target.chip, cost.load_bytes + cost.save_bytes
    rate = chip.sustained_hbm_bytes_per_s
    used = cost.flops / cost.seconds / peak_flops if cost.flops else moved / cost.seconds / chip.hbm_bytes_per_s
    return KernelPlan(
        hardware=chip.name, dtype=spelled_out(target.dtype), sizes=target.sizes_of(piece), tiles={}, stages=1,
        threads=chip.warp * 4, registers_per_thread=0, registers_at_most=0, shared_memory_bytes=0, register_bytes=0,
        matrix_bytes=0, blocks_per_sm=1, groups=1, waves=1,
        load_bytes=cost.load_bytes, save_bytes=cost.save_bytes, hbm_bytes=moved, flops=cost.flops,
        intensity=cost.flops / moved if moved else 0.0, time_s=cost.seconds,
        bound=WORDS["HBM" if cost.seconds <= moved / rate + CALL_S else "tensor"],
        utilization=used, parts_s={}, busy={}, levels=(),
        edges=(EdgeUse("HBM", "L2", moved, rate, moved / rate),), limits={}, divisors={}, next_best=(),
        minimum_traffic=MinimumTraffic({}, moved, 1.0, 1.0, ""),
        proof=Proof("", 0.0), objective="time", overlap="queue", core=chip.word("core"), warp=chip.warp, producers=0,
        schedule=None, diagram=piece, chip=chip, backend=backend, types=target.dtype,
    )  # fmt: skip


def assumption(kernel: KernelPlan, number: int) -> str:
    """What a plan takes a call of torch to compute, in words; `number` is that of the kernel."""
    box = None if kernel.source is None else plain_product(kernel.source)
    axes = None if box is None else product_axes(box)
    assert box is not None and axes is not None, "only a product is planned as a call of torch"
    names = (*kernel.reads, *(name for name, _ in kernel.makes))
    # A name such as "div [q e]" says its axes already.
    *factors, made = (
        name if name.endswith("]") else f"{name}[{' '.join(ty.names)}]"
        for name, ty in zip(names, (*box.dom, *box.cod), strict=True)
    )
    total = f"Σ_{{{' '.join(axes.summed)}}} {' · '.join(factors)}"
    return f"kernel {number}: torch computes {made} = {total}, up to rounding"


def _kind(target: PlanTarget) -> str:
    """The one type of a product's arrays."""
    return next(iter(real_types(target.dtype)), "fp32")


def _seconds(box: Box, target: PlanTarget) -> float:
    """The predicted seconds: FLOPs or bytes, whichever takes longer, at `EFFICIENCY` and at the rate of copies."""
    chip = target.chip
    rate = chip.tensor.get(_kind(target), 2 * chip.alu_per_clock * chip.clock_hz * chip.sms)
    products = _flops(box, target) / (rate * chip.sustained["tensor"] * EFFICIENCY)
    moved = sum(_bytes(ty, target) for ty in (*box.dom, *box.cod)) / chip.sustained_hbm_bytes_per_s
    return max(products, moved) + CALL_S


def _flops(box: Box, target: PlanTarget) -> int:
    sizes = {axis.name: size_value(axis.size, target.sizes) for ty in box.dom for axis in ty.axes}
    return 2 * math.prod(sizes.values())


def _bytes(ty: ArrayType, target: PlanTarget) -> int:
    return width(_kind(target)) * math.prod(size_value(axis.size, target.sizes) for axis in ty.axes)
