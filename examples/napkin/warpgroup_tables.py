"""What a kernel has room for, does in an iteration, and asks of sizes: tables that `warpgroup_resources` makes.

The rules are said in `examples.napkin.warpgroup_resources`. Amounts are polynomials in local sizes (`w_q`, `s_x`,
`d`).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import product

from catdiag.category.integer_polynomial import ONE, ZERO, IntPolynomial
from catdiag.schedule.element_widths import width
from catdiag.util.errors import SizeError

SMEM, REGISTERS = "SMEM", "registers"
BLOCK, GROUP = "thread block", "warpgroup"
KERNEL, END = "", "end"


@dataclass(frozen=True)
class OnChipArray:
    """Room for an array: its shape in local sizes, its type, where it is, whose, and in how many copies.

    `phase` is when it is needed: "" for all of the kernel, an axis for the loop over it, "end" outside loops; `shared`
    are other arrays that are there before or after it. `pipe` names the pipe that an array passes through: of those of
    one pipe the largest counts.
    """

    name: str
    shape: tuple[IntPolynomial, ...]
    dtype: str
    level: str
    owner: str
    copies: int = 1
    phase: str = KERNEL
    shared: tuple[str, ...] = ()
    pipe: str = ""

    @property
    def bytes(self) -> IntPolynomial:
        """What it takes."""
        return math.prod(self.shape, start=ONE).scaled(width_of(self.dtype) * self.copies)

    @property
    def shape_text(self) -> str:
        """The shape in words: `w_q x d`."""
        return " x ".join(map(str, self.shape)) or "1"


@dataclass(frozen=True)
class PipelineWork:
    """What an iteration of a loop does on one pipeline, for a warpgroup and a block: `operations`.

    `pipeline` is "tensor" (with the type of the operands), "exp" or "alu". `ahead` says of products that they need
    nothing that the iteration makes, so that those of the next block can be made meanwhile.
    """

    name: str
    pipeline: str
    dtype: str
    operations: IntPolynomial
    loop: str
    ahead: bool = False


@dataclass(frozen=True)
class Subloop:
    """An axis along which a function of an iteration of a loop may run in pieces, and what becomes of the pieces.

    "beside": they are put side by side; "added": products of a summed axis add up; "carried": a reduction goes on with
    what it has, as the loop around it does.
    """

    name: str
    axis: str
    subtile_count: str


@dataclass(frozen=True)
class Multiple:
    """That a size has to be a multiple of a number, and why."""

    size: str
    of: int
    reason: str


@dataclass(frozen=True)
class WarpgroupResources:
    """A kernel's places, its work by iteration of its loops, what sizes have to be multiples of, and what could be
    split.

    `rows` is the symbol of a warpgroup's rows, `axis` what their axis is called.
    """

    rows: str
    axis: str
    arrays: tuple[OnChipArray, ...]
    work: tuple[PipelineWork, ...]
    multiples: tuple[Multiple, ...]
    subloops: tuple[Subloop, ...] = ()

    @property
    def divisors(self) -> dict[str, int]:
        """For each size the least common multiple of what it has to be a multiple of: the paper's superscripts."""
        found: dict[str, int] = {}
        for m in self.multiples:
            found[m.size] = math.lcm(found.get(m.size, 1), m.of)
        return found

    def allocated(self, level: str, owner: str) -> tuple[IntPolynomial, ...]:
        """The bytes of a level that an owner takes: formulas of which the largest counts, one for each phase and each
        array that may be the largest in a pipe."""
        phases = dict.fromkeys(p.phase for p in self.arrays if p.phase != KERNEL) or {KERNEL: None}
        totals: list[IntPolynomial] = []
        for phase in phases:
            mine = [p for p in self.arrays if (p.level, p.owner) == (level, owner) and p.phase in (KERNEL, phase)]
            pipes: dict[str, list[IntPolynomial]] = {}
            for p in mine:
                if p.pipe:
                    pipes.setdefault(p.pipe, []).append(p.bytes)
            alone = sum((p.bytes for p in mine if not p.pipe), ZERO)
            totals += [sum(largest, alone) for largest in product(*pipes.values())]
        return tuple(t for k, t in enumerate(totals) if not any(o.dominates(t) for o in totals[:k]))

    def peak_bytes(self, level: str, owner: str, values: Mapping[str, int]) -> int:
        """The bytes of a level that an owner takes, as a number. Raises SizeError for a missing size."""
        formulas = self.allocated(level, owner)
        missing = sorted({s for f in formulas for s in f.symbols() if s not in values})
        if missing:
            raise SizeError(f"the size {missing[0]!r} is missing: expected one for each of {', '.join(missing)}")
        return max(int(f.value(values)) for f in formulas)

    def streamed(self) -> IntPolynomial:
        """The bytes of one block of everything that is streamed, for a thread block."""
        return sum((math.prod(p.shape, start=ONE).scaled(width_of(p.dtype)) for p in self.streamed_arrays()), ZERO)

    def streamed_arrays(self) -> tuple[OnChipArray, ...]:
        """The places of the blocks that are streamed."""
        return tuple(p for p in self.arrays if p.level == SMEM and p.phase not in (KERNEL, END) and not p.pipe)

    def __str__(self) -> str:
        marks = self.divisors

        def marked(place: OnChipArray) -> str:
            sizes = (str(s) for s in place.shape)
            return " x ".join(f"{s}^({marks[s]})" if marks.get(s, 1) > 1 else s for s in sizes) or "1"

        rows = [("array", "shape", "type", "level", "of a", "copies", "bytes")]
        for p in self.arrays:
            also = f" (then {', '.join(p.shared)})" if p.shared else ""
            name = f"{p.pipe}: {p.name}" if p.pipe else p.name
            rows.append((name + also, marked(p), p.dtype, p.level, p.owner, str(p.copies), str(p.bytes)))
        wide = [max(len(row[k]) for row in rows) for k in range(len(rows[0]))]
        return "\n".join("  ".join(c.ljust(w) for c, w in zip(row, wide, strict=True)).rstrip() for row in rows)


def width_of(dtype: str) -> int:
    """Bytes of a value, truth values and integers too."""
    return {"bool": 1, "int": 4}.get(dtype) or width(dtype)
