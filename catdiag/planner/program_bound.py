"""What a program needs at least on a chip: bytes that cross the edge to HBM, and FLOPs of products.

A lower bound is of a diagram, not of its meaning: another order of its products may need less. So the bound is that of
the best of the equal programs that are known (`catdiag.rewrite.contraction_order.equal_forms`): as it is written, with
its products in another order, with merged axes, and as it was planned.

>>> import catdiag as cd
>>> chain = cd.algorithm("q d, x d, x v -> q v")(
...     lambda Q, K, V: cd.einsum("q x, x v -> q v", cd.einsum("q d, x d -> q x", Q, K), V))
>>> print(program_bound(chain.diagram, cd.hardware.H200, {"q": 65536, "x": 65536, "d": 64, "v": 64}, "bf16"))
7.8 µs: 33,554,432 bytes at the edge to HBM, 1,073,741,824 FLOPs of products, after reassociate
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from catdiag.bounds.lower_bound import lower_bound
from catdiag.category.diagram import Diagram
from catdiag.chip.hardware import Hardware
from catdiag.planner.time_model.matrix_units import peak_flops_per_s
from catdiag.rewrite.contraction_order import equal_forms
from catdiag.schedule.kernel_analysis import measure

AS_WRITTEN, AS_PLANNED = "as written", "as planned"


@dataclass(frozen=True)
class ProgramBound:
    """At least so many bytes cross the edge to HBM, at least so many FLOPs of products are done, each in any schedule
    of the operations of `program`; and the seconds that the slower of the two takes at what the chip sustains.

    `program` says which of the equal programs it is: "as written", "after …", or "as planned".
    """

    hbm_bytes: int
    flops: int
    seconds: float
    program: str

    def __str__(self) -> str:
        return (
            f"{1e6 * self.seconds:,.1f} µs: {self.hbm_bytes:,} bytes at the edge to HBM, "
            f"{self.flops:,} FLOPs of products, {self.program}"
        )

    def as_dict(self) -> dict[str, Any]:
        """Plain values for JSON."""
        return {
            "hbm_bytes": self.hbm_bytes,
            "flops": self.flops,
            "seconds": self.seconds,
            "program": self.program,
        }


def on_chip_bytes(chip: Hardware) -> int:
    """All that a chip has room for beside HBM: registers, shared and tensor memory of its cores, and caches."""
    core = chip.smem_per_sm + 4 * chip.registers_per_sm + chip.tmem_per_sm
    return chip.sms * core + chip.l2_count * chip.l2_bytes + chip.llc_bytes


def program_bound(
    diagram: Diagram,
    chip: Hardware,
    sizes: Mapping[str, int],
    dtype: str | Mapping[str, str],
    planned: tuple[int, int] | None = None,
) -> ProgramBound:
    """The bound of the equal program that needs least time at these sizes; `planned` are the bytes and FLOPs of a plan.

    Blocks that a mask empties count, so that a plan which skips them may need less than the program as written: it
    counts as one of the equal programs. Raises SizeError for sizes that are missing, and CatdiagError for a diagram
    that cannot be counted.
    """
    known = [(diagram, AS_WRITTEN), *((form.diagram, f"after {form.action}") for form in equal_forms(diagram, sizes))]
    found: list[ProgramBound] = []
    for form, name in known:
        flops, rate = _products(form, chip, sizes, dtype)
        least = int(lower_bound(form, on_chip_bytes(chip), sizes=sizes, dtype=dtype).at())
        found.append(_bound(least, flops, chip, rate, name))
    written = found[0].hbm_bytes, found[0].flops
    if planned is not None and (planned[0] < written[0] or planned[1] < written[1]):
        least, flops = (min(pair) for pair in zip(planned, written, strict=True))
        found.append(_bound(least, flops, chip, _products(diagram, chip, sizes, dtype)[1], AS_PLANNED))
    return min(found, key=lambda bound: bound.seconds)


def _bound(hbm_bytes: int, flops: int, chip: Hardware, rate: float, name: str) -> ProgramBound:
    products = 0.0 if not rate else flops / (rate * chip.sustained["tensor"])
    return ProgramBound(hbm_bytes, flops, max(products, hbm_bytes / chip.sustained_hbm_bytes_per_s), name)


def _products(
    diagram: Diagram, chip: Hardware, sizes: Mapping[str, int], dtype: str | Mapping[str, str]
) -> tuple[int, float]:
    """The FLOPs of the products of a diagram, each done once, and the rate of the quickest of their types; 0 if matrix
    units multiply none of these, so that nothing is known."""
    kernels = measure(diagram, dtype).kernels
    rate = peak_flops_per_s([c for kernel in kernels for c in kernel.contractions], chip)
    flops = sum(int(a.value(sizes)) for kernel in kernels for (name, _), a in kernel.work.items() if name == "tensor")
    return flops, rate
