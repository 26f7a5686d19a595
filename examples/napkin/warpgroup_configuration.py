"""How many warpgroups fit, how many clocks an iteration takes them, and whether that hides the loads.

Steps 6 and 7 of Abbott and Zardini, "FlashAttention on a Napkin" (TMLR 2025), sections 5.6 and 5.7, for any derived
kernel: the arrays are those of `examples.napkin.warpgroup_resources`, the rates those of the chip.

- Of each memory `n = (capacity - thread block) / warpgroup` warpgroups fit; the least whole `n` is taken.
- Each kind of operation takes `operations for a row / operations a clock` clocks for a row and a block; pipelines run
  beside each other, so the busiest one takes the time. Work outside the loop is left out.
- Loads of blocks hide if the clocks of all rows of a thread block are at least those of moving a block to each SM,
  all SMs at once and none sharing: the least number of rows at which they are is `minimum_rows`.

>>> import catdiag as cd
>>> product = cd.algorithm("a b, b c")(lambda A, B: cd.einsum("a b, b c -> a c", A, B))
>>> found = configure(product.stream("b").group("a c"), "H100", {"w_a": 128, "g_c": 128, "s_b": 64})
>>> found.warpgroups, found.rows, float(found.iteration_clocks)
(4, 512, 4.0)
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

from catdiag.category.diagram import diagram_of
from catdiag.chip import hardware as chips
from catdiag.chip.hardware import Hardware
from catdiag.schedule.element_widths import Dtype
from catdiag.util import argument_checks
from catdiag.util.errors import CatdiagError, DoesNotFit, SizeError
from examples.napkin.warpgroup_resources import read_columns
from examples.napkin.warpgroup_tables import BLOCK, GROUP, REGISTERS, SMEM, PipelineWork, WarpgroupResources, width_of

HOW = ("none", "intra", "inter")


@dataclass(frozen=True)
class LevelCapacity:
    """A memory of an SM: what the thread block takes, each warpgroup, and the capacity, all in bytes."""

    level: str
    block: int
    group: int
    capacity: int

    @property
    def max_warpgroups(self) -> Fraction | None:
        """How many warpgroups fit, not rounded; None: any number."""
        return Fraction(self.capacity - self.block, self.group) if self.group else None


@dataclass(frozen=True)
class Clocks:
    """One kind of operation in an iteration: how many for a row and a block, and how many an SM does in a clock."""

    name: str
    pipeline: str
    dtype: str
    operations: Fraction
    per_clock: int
    ahead: bool = False

    @property
    def clocks(self) -> Fraction:
        """Clocks of an SM for a row and a block."""
        return self.operations / self.per_clock


@dataclass(frozen=True)
class Configuration:
    """A derived kernel on a chip: rooms, clocks of an iteration, and what follows.

    `values` are the sizes asked for, `warpgroups` how many there are (the most that fit, unless fewer were asked for),
    `misfits` the sizes that are no multiples of what they have to be.
    """

    chip: Hardware = field(repr=False)
    columns: WarpgroupResources = field(repr=False)
    values: Mapping[str, int] = field(hash=False)
    rooms: tuple[LevelCapacity, ...]
    clocks: tuple[Clocks, ...]
    warpgroups: int
    misfits: tuple[str, ...] = ()

    @property
    def rows(self) -> int:
        """Rows of a thread block."""
        return self.warpgroups * self.values[self.columns.rows]

    def pipeline(self, name: str) -> Fraction:
        """Clocks of one pipeline for a row and a block: "tensor", "exp" or "alu"."""
        return sum((c.clocks for c in self.clocks if c.pipeline == name), Fraction(0))

    @property
    def iteration_clocks(self) -> Fraction:
        """Clocks of the busiest pipeline, for a row and a block."""
        return max(self.pipeline(name) for name in ("tensor", "exp", "alu"))

    @property
    def slack(self) -> Fraction:
        """How much more the special functions could take, as a part of what they do, before they are the busiest."""
        exp = self.pipeline("exp")
        if not exp:
            raise CatdiagError("the loop uses no special functions, so there is no slack of theirs to tell")
        return self.pipeline("tensor") / exp - 1

    @property
    def flops_per_s(self) -> float:
        """FLOP/s of products on the whole chip if the busiest pipeline never waits."""
        done = sum((c.operations for c in self.clocks if c.pipeline == "tensor"), Fraction(0))
        return float(done / self.iteration_clocks * self.chip.sms * Fraction(self.chip.clock_hz))

    @property
    def block_bytes(self) -> int:
        """Bytes of one block of all that is streamed."""
        return int(self.columns.streamed().value(self.values))

    @property
    def transfer_s(self) -> float:
        """Seconds in which HBM moves a block to each SM."""
        return float(Fraction(self.block_bytes * self.chip.sms) / Fraction(self.chip.hbm_bytes_per_s))

    @property
    def compute_s(self) -> float:
        """Seconds in which an SM does an iteration for all rows of a thread block."""
        return float(self.rows * self.iteration_clocks / Fraction(self.chip.clock_hz))

    @property
    def minimum_rows(self) -> Fraction:
        """The rows of a thread block from which on loads hide behind computing; not rounded."""
        seconds = Fraction(self.block_bytes * self.chip.sms) / Fraction(self.chip.hbm_bytes_per_s)
        return seconds * Fraction(self.chip.clock_hz) / self.iteration_clocks

    def time(self, how: str = "inter", overhead: float | Fraction = 0) -> Fraction:
        """Clocks for a row and a block where the pipelines overlap in one of these ways.

        "inter": warpgroups are at different steps, so that only the busiest pipeline counts. "intra": one warpgroup
        makes the products of the next block that need nothing of this iteration while arithmetic works; the other
        products wait for it. "none": one after the other. Beside products, the busiest of the other pipelines counts,
        and takes `overhead` more than its operations. Raises CatdiagError for another way (after the paper's section
        6).
        """
        if how not in HOW:
            raise CatdiagError(f"overlap {how!r}: expected one of {', '.join(HOW)}")
        more = 1 + Fraction(overhead)
        other = max(self.pipeline("exp"), self.pipeline("alu")) * more
        tensor = self.pipeline("tensor")
        ahead = sum((c.clocks for c in self.clocks if c.ahead), Fraction(0))
        if how == "inter":
            return max(tensor, other)
        return max(ahead, other) + tensor - ahead if how == "intra" else tensor + other

    def utilization(self, how: str = "inter", overhead: float | Fraction = 0) -> Fraction:
        """The part of the time that matrix units work, overlapped as in `time`."""
        return self.pipeline("tensor") / self.time(how, overhead)

    def __str__(self) -> str:
        w = self.columns.rows
        lines = [
            f"{self.chip.name}: " + ", ".join(f"{k} = {v}" for k, v in self.values.items()),
            f"{'memory':10} {'thread block':>14} {'warpgroup':>12} {'capacity':>10} {'fit':>6}",
        ]
        for r in self.rooms:
            most = "any" if r.max_warpgroups is None else f"{float(r.max_warpgroups):.1f}"
            sizes = (f"{r.block / 1024:g} KiB", f"{r.group / 1024:g} KiB", f"{r.capacity / 1024:g} KiB")
            lines.append(f"{r.level:10} {sizes[0]:>14} {sizes[1]:>12} {sizes[2]:>10} {most:>6}")
        lines.append(f"{self.warpgroups} warpgroups of {w} = {self.values[w]}: {self.rows} rows")
        lines.append(f"{'operation':24} {'pipeline':>8} {'type':>5} {'for a row':>10} {'a clock':>8} {'clocks':>7}")
        for c in self.clocks:
            lines.append(
                f"{c.name:24} {c.pipeline:>8} {c.dtype:>5} {float(c.operations):>10g} {c.per_clock:>8} "
                f"{float(c.clocks):>7.2f}"
            )
        lines += [
            f"{self.flops_per_s / 1e15:.3f} PFLOP/s if nothing waits: {float(self.iteration_clocks):.4g} clocks "
            f"for a row",
            f"{1e6 * self.compute_s:.3f} us an iteration, {1e6 * self.transfer_s:.3f} us to move a block to each SM: "
            f"loads hide from {float(self.minimum_rows):.2f} rows on",
            *(f"not a multiple: {m}" for m in self.misfits),
        ]
        return "\n".join(lines)


def configure(
    diagram: Any,
    hardware: Hardware | str,
    values: Mapping[str, int],
    dtype: Dtype = "fp16",
    *,
    arithmetic: str = "fp32",
    stages: int = 2,
    split: str | None = None,
    pipes: bool = True,
    types: Mapping[str, str] | None = None,
    warpgroups: int | None = None,
    rates: Mapping[str, int] | None = None,
) -> Configuration:
    """The configuration of a derived kernel on a chip at these sizes.

    `values` gives the rows of a warpgroup (`w_q`), blocks (`s_x`), pieces (`u_x`, `u_d`, `v_d`, those that are wanted),
    other tiles, and axes. The options are those of `examples.napkin.warpgroup_resources.read_columns`; `warpgroups`
    asks for fewer than fit; `rates` gives operations an SM does in a clock by type ("fp8"), "exp" or "alu", beside
    those of the chip: of matrix units the chip's FLOP/s over SMs and clocks, of arithmetic two for each lane (a
    multiply and an add) and as many values as fit in 4 bytes.

    Raises DoesNotFit where not one warpgroup does, with what each array takes; SizeError for missing and unknown sizes;
    CatdiagError for a chip without rates of a type, several loops, and more warpgroups than fit.
    """
    diagram = diagram_of(diagram)
    argument_checks.dtypes(dtype)
    argument_checks.numbers(values, "values")
    chip = chips.get(hardware)
    pieces = [name for name in values if name[:2] in ("u_", "v_")]
    columns = read_columns(
        diagram,
        dtype,
        arithmetic=arithmetic,
        stages=stages,
        split=split,
        pieces=pieces,
        pipes=pipes,
        types=types,
        hardware=chip,
    )
    known = {s for p in columns.arrays for a in p.shape for s in a.symbols()} | {columns.rows}
    known |= {s for w in columns.work for s in w.operations.symbols()}
    for name in values:
        if name not in known:
            raise SizeError(
                f"size {name!r} is given, and the kernel has no such: its sizes are {', '.join(sorted(known))}"
            )
    missing = sorted(known - set(values))
    if missing:
        raise SizeError(f"the size {missing[0]!r} is missing: expected one for each of {', '.join(sorted(known))}")
    rooms = tuple(
        LevelCapacity(
            level, columns.peak_bytes(level, BLOCK, values), columns.peak_bytes(level, GROUP, values), capacity
        )
        for level, capacity in ((SMEM, chip.smem_per_block), (REGISTERS, 4 * chip.registers_per_sm))
    )
    most = min((r.max_warpgroups for r in rooms if r.max_warpgroups is not None), default=Fraction(1))
    if most < 1:
        raise DoesNotFit(f"not one warpgroup fits on {chip.name} at these sizes:\n{columns}")
    if warpgroups is not None and not 1 <= warpgroups <= most:
        raise CatdiagError(f"{warpgroups!r} warpgroups were asked for, and {int(most)} fit")
    misfits = tuple(
        f"{size} = {values[size]} of {of}" for size, of in columns.divisors.items() if values.get(size, of) % of
    )
    clocks = _clocks(columns, chip, values, dict(rates or {}), arithmetic)
    return Configuration(chip, columns, dict(values), rooms, clocks, warpgroups or int(most), misfits)


def _clocks(
    columns: WarpgroupResources, chip: Hardware, values: Mapping[str, int], rates: dict[str, int], arithmetic: str
) -> tuple[Clocks, ...]:
    """The work of an iteration: products one by one, other work by pipeline and axes of the result."""
    loops = {w.loop for w in columns.work if w.loop}
    if len(loops) != 1:
        raise CatdiagError(
            f"the iterations of one loop are asked for, and there are {len(loops)} loops: derive with .stream"
        )
    rates.setdefault("exp", round(chip.special_per_clock))
    rates.setdefault("alu", round(chip.alu_per_clock * 2 * 4 / width_of(arithmetic)))
    found: dict[tuple[str, str, str, bool], Fraction] = {}
    for work in (w for w in columns.work if w.loop):
        key = (_named(work), work.pipeline, work.dtype if work.pipeline == "tensor" else arithmetic, work.ahead)
        rows = Fraction(work.operations.value(values), values[columns.rows])
        found[key] = found.get(key, Fraction(0)) + rows
    made = []
    for (name, pipeline, kind, ahead), operations in found.items():
        rate = rates.get(kind if pipeline == "tensor" else pipeline)
        if rate is None:
            if kind not in chip.tensor:
                raise CatdiagError(
                    f"{chip.name} has no rate for products in {kind}: it has {', '.join(chip.tensor)}; give rates"
                )
            rate = round(chip.tensor[kind] / (chip.sms * chip.clock_hz))
        made.append(Clocks(name, pipeline, kind, operations, rate, ahead))
    return tuple(made)


def _named(work: PipelineWork) -> str:
    if work.pipeline == "tensor":
        return work.name
    return "special functions" if work.pipeline == "exp" else f"arithmetic on {work.name[work.name.rindex('[') :]}"
