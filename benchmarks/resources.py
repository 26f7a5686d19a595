"""What plans say that a thread block takes, against what Triton's compiler gives it; no GPU is needed.

    python -m benchmarks.resources H200 bf16 [OPERATOR …]

plans every operator of the library for a chip and an element type, compiles the kernels for the chip's compute
capability, and prints those whose shared memory differs by more than `NEAR_BYTES`, that take more registers than they
may, that spill, or that read registers which nothing has written; then a summary. A thread
may have as many registers as let the core hold as many blocks as the plan
says, `KernelPlan.registers_at_most`: with more, the occupancy for which its time is predicted is lost. The compiler,
which does not know the occupancy, may take any number below without harm: how many take more than the estimate is
counted apart. A kernel spills only where its plan says so, `KernelPlan.spills`. It needs torch and Triton, and takes
some minutes for a chip and a type.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import catdiag as cd
from catdiag.cli.derive_report_data import DeriveRequest, derive
from catdiag.cli.option_values import sizes_of
from catdiag.execute.size_inference import tile_bounds
from catdiag.planner.multi_kernel_plan import Plan
from catdiag.planner.plan import TRITON, KernelPlan
from catdiag.program import Program
from catdiag.runtime.machine_code import binaries
from catdiag.solvers.z3 import Z3
from catdiag.util.errors import CatdiagError

NEAR_BYTES = 1024
"""Bytes of shared memory within which a prediction counts as right: what alignment may take."""
ARCHITECTURES: dict[str, int | str] = {"A100": 80, "H100": 90, "H200": 90, "B200": 100, "MI300X": "gfx942"}
"""What Triton compiles for without its being there: compute capabilities, times ten, and an instruction set of AMD."""


@dataclass(frozen=True)
class Comparison:
    """A kernel of an operator's plan: bytes of shared memory as said and as compiled, registers of a thread as
    estimated, as compiled and as many as it may have, bytes that a thread spills, and whether the plan says so."""

    operator: str
    place: int
    specialized: bool
    shared: tuple[int, int]
    registers: tuple[int, int]
    registers_at_most: int
    spilled: int
    said_to_spill: bool
    unwritten: tuple[str, ...] = ()
    """Registers that the machine code reads and nothing has written: it is wrong (`Binary.unwritten_registers`)."""

    @property
    def difference(self) -> int:
        """Bytes of shared memory that were said above those that the compiler takes."""
        return self.shared[0] - self.shared[1]

    @property
    def near(self) -> bool:
        """Whether the shared memory is as it was said."""
        return abs(self.difference) <= NEAR_BYTES

    @property
    def overflows(self) -> bool:
        """Whether it takes more shared memory than was said, so that it may not fit where that was said."""
        return self.difference < -NEAR_BYTES

    @property
    def above_estimate(self) -> bool:
        """Whether a thread takes more registers than was estimated."""
        return self.registers[1] > self.registers[0]

    @property
    def fewer_blocks(self) -> bool:
        """Whether a thread takes so many registers that fewer blocks share a core than the plan says."""
        return self.registers[1] > self.registers_at_most

    def __str__(self) -> str:
        what = "Gluon" if self.specialized else "Triton"
        spilled = f", spills {self.spilled} bytes{', as said' * self.said_to_spill}" if self.spilled else ""
        return (
            f"{self.operator}, kernel {self.place} ({what}): shared memory {self.shared[0]:,} said, {self.shared[1]:,} "
            f"compiled ({self.difference:+,}), registers {self.registers[0]} estimated, {self.registers[1]} compiled, "
            f"{self.registers_at_most} at most{spilled}{', reads what is not written: ' * bool(self.unwritten)}"
            f"{' '.join(self.unwritten)}"
        )


def comparisons(operator: str, chip: str, dtype: str) -> Iterator[Comparison]:
    """The kernels of an operator's plan, as planned and as compiled. Raises CatdiagError where there is no plan."""
    plan = planned(operator, chip, dtype)
    for place, kernel in enumerate(plan.kernels, 1):
        if kernel.backend == TRITON:
            yield compared(operator, place, kernel, ARCHITECTURES[chip])


def planned(operator: str, chip: str, dtype: str) -> Plan:
    """The plan of an operator, derived as `catdiag derive` does, with 1,024 entries along tiled axes, 64 along others.

    Raises CatdiagError where there is none.
    """
    written = cd.library.get(operator).diagram
    with Z3() as ask:
        derivation = derive(written, ask, None, DeriveRequest(whole=True)).derivation
        tiled = set(tile_bounds(derivation.diagram).values())
        sizes = {size: 1024 if size in tiled else 64 for size in sizes_of(written)}
        return Program(derivation, ask).plan(chip, sizes, dtype=dtype)


def compared(operator: str, place: int, kernel: KernelPlan, arch: int | str) -> Comparison:
    """A kernel of a plan beside its binaries: the most that any of them takes. Raises as `binaries` does."""
    assert kernel.module is not None
    made = binaries(kernel.module, kernel.sizes, arch=arch)
    return Comparison(
        operator,
        place,
        kernel.warp_specialized,
        (kernel.shared_memory_bytes, max(one.shared_bytes for one in made)),
        (kernel.registers_per_thread, max(one.registers for one in made)),
        kernel.registers_at_most,
        max(max(one.spill_store_bytes, one.spill_load_bytes, one.stack_bytes) for one in made),
        kernel.spills,
        tuple(sorted({name for one in made for name in one.unwritten_registers})),
    )


def main(arguments: Sequence[str] | None = None) -> int:
    """Compares, prints, and gives 1 where a kernel differs or spills."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.resources", description=__doc__)
    parser.add_argument("chip", choices=ARCHITECTURES)
    parser.add_argument("dtype")
    parser.add_argument("operators", nargs="*", help="of the library; without any, all of them")
    given = parser.parse_args(arguments)
    found: list[Comparison] = []
    for operator in given.operators or cd.library.names():
        try:
            for one in comparisons(operator, given.chip, given.dtype):
                found.append(one)
                if given.operators or one.spilled or one.fewer_blocks or one.unwritten or not one.near:
                    print(one, flush=True)
        except CatdiagError as error:
            print(f"{operator}: {error.message.splitlines()[0]}", flush=True)
    near, spilled = sum(one.near for one in found), sum(one.spilled > 0 and not one.said_to_spill for one in found)
    worst = max(found, key=lambda one: abs(one.difference), default=None)
    more, fewer = sum(one.above_estimate for one in found), sum(one.fewer_blocks for one in found)
    larger = sum(one.overflows for one in found)
    print(
        f"{given.chip}, {given.dtype}: {near} of {len(found)} kernels within {NEAR_BYTES:,} bytes, {larger} with more "
        f"than said, {fewer} with more registers than they may have, {more} with more than estimated, {spilled} spill "
        f"unsaid, {sum(bool(one.unwritten) for one in found)} read registers that nothing has written"
    )
    if worst is not None:
        print(f"worst: {worst}")
    return int(near < len(found) or fewer > 0 or spilled > 0 or any(one.unwritten for one in found))


if __name__ == "__main__":
    raise SystemExit(main())
