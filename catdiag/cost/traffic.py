"""Transfers H and memory M of a diagram: what crosses one edge of a memory hierarchy, and the memory used below it.

There are two levels: slow memory with whole arrays (HBM), and fast memory on chip (SMEM, or SMEM and registers).
`catdiag.simulate.machine` follows the same rules by really moving blocks. The rules:

- **Kernels.** Each Group box is a kernel, run once for each group. The boxes between two Group boxes are a kernel of
  one group, and so is a diagram without Group boxes (with `fused=False`, each of these boxes is one). An array between
  two kernels is saved by the first and loaded by the second. Named boxes are inlined first.
- **Loads.** A group loads each array that it reads once, at its tile. An array without a grouped axis is loaded again
  by each group along that axis. An array that only loops along its axis read is streamed block by block: each block
  once for each loop, with `stages` pipeline buffers of a block, allocated as long as the loop runs. Any other array is
  loaded in full before its first use (for a loop: before it starts), and is dropped after its last use.
- **Nested loops.** An input that a loop reads only in inner loops, along their axes, is loaded by the inner loops:
  block by block, again in every iteration of the outer loops whose axis it does not have. A loop that skips blocks
  loads its inputs itself. With several levels on chip, or with a cache, the outer loop loads such an input.
- **Split loops (split-K).** A loop in `p_x` parts is two kernels. The first has one thread block for each part of each
  group, and saves its states. The second loads the states of all parts and merges them, with a buffer for those of one
  part. Each part loads what the first kernel keeps resident. Formulas are exact if all parts have the same length.
- **Skipped blocks.** A loop that skips blocks loads those that it runs. Arrays that the block test reads are loaded for
  each block that is tested. See `catdiag.schedule.mask_counts`.
- **Read in place (halo).** If a group reads an array only at positions of its tile, by one box of index arithmetic, it
  loads the footprint: the elements between the least and the largest index along each axis, clipped to the array. The
  memory is the most that any group of the kernel loads along each axis, at least one element. Padding takes no memory,
  nor does the result of the box. Optima and plans allocate unclipped footprints, as kernels do whose tiles have one
  shape. See `catdiag.schedule.footprint`.
- **Gathers.** A view of inputs that stands before the groups and is read by groups only (in blocks of their loops, as a
  rule) is no array. The groups load the elements of their tile from the source, one load for each result. The indices
  are counted only if other boxes read them. See `catdiag.schedule.gathers`.
- **Saves.** Each result is an array of its own in slow memory, of its own type. It is saved once, as soon as it is
  made, even if it equals another result or is a view of one. A result that is an input is there already and is not
  moved; but what a group returns is saved, even if it is an input.
- **Rematerialized (inlined).** Positions, sizes, constants and what is computed from these alone, elementwise or as a
  scalar (a difference of positions, a mask), take no transfer and no memory: they are computed where they are read.
  Their work counts once for each kernel that reads them; that of scalars does not count.
- **Memory.** An array is live from the box that makes it to its last use, in the stored order of boxes. At a box, its
  inputs and its output are live, with these exceptions. A view (renaming, transposition, product axis split or merged)
  is the same array; slices, concatenations and reads at index arithmetic are copies, and their input is loaded in full.
  A scalar function, or a product without summation, is computed in place: it overwrites the first input with the same
  axes (and, in bytes, the same width) that dies there; that may be an operand's tile, not a streamed block. A reduction
  or contraction whose only reader combines it (`add` for a sum, `max` for a maximum, …) with a loop's state or another
  result, with the same axes and read for the last time, accumulates into that array and has no buffer of its own.
- **Loops.** States are live from the start of a loop to its end, and then as its results, whatever else is live in an
  iteration. At the end of an iteration each state is in a buffer of its own. Earlier results that the loop reads stay
  live too.
- **Work** of the whole run by pipeline. `tensor`: contractions of two or more arrays of real numbers, with as many
  operations for each point of the index space as there are arrays (2 for a matrix product); with integers, which matrix
  units do not take, the same count is in `alu`. `exp`: special functions (exp, log, sqrt, tanh, sigmoid), and one
  reciprocal for each element of a divisor. `alu`: every other scalar operation. Combining a reduction that is
  accumulated in place is part of the reduction. Making the unit states of a loop counts nothing.

The formulas are those of "FlashAttention on a Napkin" (Abbott and Zardini, TMLR 2025, section 2), with the number of
groups rounded up and live ranges read off the order. The sums over the whole run are exact even if tiles do not divide
axes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from catdiag.category.diagram import diagram_of
from catdiag.category.integer_polynomial import ZERO, IntPolynomial, symbol
from catdiag.schedule.kernel_analysis import Account, Dtype, measure
from catdiag.schedule.liveness import LEVEL, REGISTERS, Loop, LoweredKernel, ProgramPoint
from catdiag.schedule.tile_counts import summed
from catdiag.util import argument_checks
from catdiag.util.display import AsHTML
from catdiag.util.errors import CatdiagError, SizeError, require

if TYPE_CHECKING:
    from catdiag.category.diagram import Diagram, HasDiagram
    from catdiag.optimum.integer import IntegerOptimum
    from catdiag.optimum.minimize import Optimum
    from catdiag.schedule.mask_counts import MaskCounts, MaskDensity

Expr = Any

_FORMULAS = ("load", "save", "transfers", "relaxed", "memory", "registers")


@dataclass(frozen=True)
class Traffic:
    """What one array moves in one direction in the whole run: exactly, and without rounding up."""

    array: str
    direction: str
    exact: Expr
    relaxed: Expr


@dataclass(frozen=True)
class LiveArray:
    """An array that is live at the point of maximum memory. Its role is operand, streamed, accumulator, temporary or
    output."""

    array: str
    role: str
    values: Expr


@dataclass(frozen=True)
class IO(AsHTML):
    """Transfers and memory as sympy expressions, in values, or in bytes if a dtype was given.

    - `load`, `save`, `transfers`: exact, for the whole run; `relaxed`: `transfers` without rounding up;
    - `memory` (and `registers`): the peak of a level; `live_arrays`: what is live at the peak (the first one, if two
      points can be the peak, depending on sizes);
    - `work`: scalar operations by pipeline; `order`: the stored order as text;
    - `groups` and `streams`: the size of the whole axis, by tile and by block;
    - `assumptions`: for loops that skip blocks, the share of blocks that is assumed to run where data decides, and the
      conditions under which `relaxed` is at most `transfers`.
    """

    load: Expr
    save: Expr
    transfers: Expr
    relaxed: Expr
    memory: Expr
    registers: Expr
    traffic: tuple[Traffic, ...]
    live_arrays: tuple[LiveArray, ...]
    work: Mapping[str, Expr]
    groups: Mapping[Expr, Expr]
    streams: Mapping[Expr, Expr]
    order: str
    unit: str
    stages: int
    accumulators: str
    account: Account = field(repr=False, compare=False)
    room: Expr = field(repr=False, compare=False)
    """`memory` with unclipped footprints, padding included: an integer polynomial in tiles."""
    assumptions: tuple[str, ...] = ()

    @property
    def capacity(self) -> Expr:
        """The symbol for the capacity of the fast level: M, with underscores added if a size has that name."""
        from catdiag.optimum.minimize import CAPACITY

        used = {str(s) for formula in (self.relaxed, self.memory) for s in formula.free_symbols}
        name = str(CAPACITY)
        while name in used:
            name += "_"
        return CAPACITY if name == str(CAPACITY) else type(CAPACITY)(name, positive=True)

    def optimum(self, capacity: Expr | None = None) -> Optimum:
        """The least `relaxed` if `memory` is at most the capacity, in this unit (by default the symbol
        `self.capacity`)."""
        from catdiag.optimum.minimize import minimize

        limit = self.capacity if capacity is None else capacity
        found = minimize(self.relaxed, self.room, list(self.groups), list(self.streams), limit, dict(self.groups))
        return replace(found, unit=self.unit)

    def integer_optimum(
        self,
        sizes: Mapping[str, int],
        capacity: int,
        multiples: Mapping[str, int] | None = None,
        *,
        divisors: bool = False,
    ) -> IntegerOptimum | None:
        """The least exact `transfers` over integer tiles and blocks, at these sizes, in this unit; `None` if nothing
        fits.

        Tiles (`g_q`, `s_x`) are multiples of those in `multiples`, and with `divisors` they divide their axes. Raises
        `ValueError` for missing sizes, an unknown tile, or an axis without an allowed tile.
        """
        from catdiag.optimum.integer import integer_optimum

        argument_checks.numbers(sizes)
        argument_checks.numbers(multiples or {}, "multiples")
        whole_number = argument_checks.finite(capacity) and capacity == int(capacity)
        require(whole_number, "the capacity", capacity, "a whole number of values or bytes")
        bounds = {**self.groups, **self.streams}
        axes = {str(v): v for e in (self.transfers, self.room, *bounds.values()) for v in e.free_symbols}
        at = {axes[name]: size for name, size in sizes.items() if name in axes}
        steps = {v: (multiples or {}).get(str(v), 1) for v in bounds}
        if unknown := sorted(set(multiples or {}) - {str(v) for v in bounds}):
            raise SizeError(f"{', '.join(unknown)} is no tile: expected one of {', '.join(map(str, bounds)) or 'none'}")
        blocks = {str(v): steps[v] for v in self.streams}
        bracket = self.optimum().bracket({**sizes, **blocks, str(self.capacity): capacity})
        relaxed = bracket.lower if bracket is not None else None
        return integer_optimum(
            self.transfers, [(self.room, capacity)], bounds, at, steps, divisors=divisors, relaxed=relaxed
        )

    def as_dict(self) -> dict[str, Any]:
        """Plain values for JSON, with expressions as text."""
        return {
            "unit": self.unit,
            "stages": self.stages,
            "accumulators": self.accumulators,
            **{name: str(getattr(self, name)) for name in _FORMULAS},
            "traffic": [
                {"array": t.array, "direction": t.direction, "exact": str(t.exact), "relaxed": str(t.relaxed)}
                for t in self.traffic
            ],
            "residents": [{"array": r.array, "role": r.role, "values": str(r.values)} for r in self.live_arrays],
            "work": {name: str(expr) for name, expr in self.work.items()},
            "groups": {str(tile): str(axis) for tile, axis in self.groups.items()},
            "streams": {str(block): str(axis) for block, axis in self.streams.items()},
            "order": self.order,
            "assumptions": list(self.assumptions),
        }

    def __str__(self) -> str:
        lines = [
            f"transfers  {self.transfers}",
            f"  relaxed  {self.relaxed}",
            f"  load     {self.load}",
            f"  save     {self.save}",
            f"memory     {self.memory}",
        ]
        if self.accumulators == REGISTERS:
            lines.append(f"registers  {self.registers}")
        lines.append(f"  in {self.unit}, {self.stages} buffer{'s' if self.stages > 1 else ''} of each streamed block")
        names = [*(t.array for t in self.traffic), *(r.array for r in self.live_arrays)]
        width = max(map(len, names), default=0)
        lines += [f"  {t.direction} {t.array:{width}}  {t.exact}" for t in self.traffic]
        lines += [f"  hold {r.array:{width}}  {r.values}  ({r.role})" for r in self.live_arrays]
        lines += [f"work       {name}: {expr}" for name, expr in self.work.items()]
        lines.append(f"order      {self.order}")
        lines += [f"assumed    {words}" for words in self.assumptions]
        return "\n".join(lines)


def io(
    diagram: Diagram | HasDiagram,
    *,
    dtype: Dtype = None,
    stages: int = 1,
    accumulators: str = "level",
    fused: bool = True,
    density: MaskDensity = None,
) -> IO:
    """Transfers and memory of a diagram, exactly, by the rules at the head of this module.

    `dtype`: without one, values are counted. With one (`fp64`, `fp32`, `tf32`, `bf16`, `fp16`, `fp8`), bytes:

    - inputs, outputs and arrays between kernels have that width;
    - statistics between kernels (`catdiag.schedule.full_precision`: results of reductions) and arrays on chip take at
      least 4 bytes, and so do the states that the parts of a split loop save;
    - types by name, `{"Q": "bf16", …}`: inputs, outputs and loop states that are not named take 4 bytes;
    - the result of `cd.cast` takes the bytes of its type, booleans take 1 byte, integers 4.

    `stages` is the number of pipeline buffers of a streamed block. `accumulators="registers"` counts everything but the
    operands' tiles and blocks separately, as `.registers`. `fused=False` makes each box outside of groups a kernel.
    `density` is the mask density: the share of blocks that are run among those that a loop tests, a number from 0 to 1,
    or one by axis; a symbol `rho_x` if it is not given. It is an assumption about data, and listed as such.

    Raises CatdiagError for unknown dtypes, arrays, stages, densities or accumulators.

    >>> from catdiag.category.ops import einsum_box
    >>> from catdiag.category.diagram import of_box
    >>> from catdiag.category.types import ArrayType, Axis
    >>> a, b, c = Axis("a"), Axis("b"), Axis("c")
    >>> whole = io(of_box(einsum_box([ArrayType((a, b)), ArrayType((b, c))], ["a", "c"])))
    >>> whole.transfers, whole.memory, whole.work["tensor"]
    (a*b + a*c + b*c, a*b + a*c + b*c, 2*a*b*c)
    """
    diagram = diagram_of(diagram)
    argument_checks.dtypes(dtype)
    if accumulators not in (LEVEL, REGISTERS):
        raise CatdiagError(f"accumulators is {accumulators!r}: expected 'level' or 'registers'")
    import sympy

    account = measure(diagram, dtype, stages, accumulators == REGISTERS, fused)
    single, told = presentation_of(account)
    shares: MaskCounts | None = None
    if any(kernel.loop_bounds for kernel in account.kernels):
        from catdiag.schedule.mask_counts import MaskCounts

        shares = MaskCounts(density, account)
    traffic: list[Traffic] = []
    work = {"tensor": sympy.S.Zero, "exp": sympy.S.Zero, "alu": sympy.S.Zero}
    groups: dict[Expr, Expr] = {}
    streams: dict[Expr, Expr] = {}
    for kernel in account.kernels:
        groups.update({symbol(t): axis.expr() for t, axis in kernel.tiles.items() if t not in single})
        streams.update({symbol(s): told(axis.expr()) for s, axis in kernel.loops if s not in single})
        for moved in kernel.transfers:
            if moved.region:
                from catdiag.schedule.region_loads import moved as region_loads

                exact, relaxed = region_loads(moved, kernel)
            elif moved.bounds is not None and shares is not None:
                exact, relaxed = shares.moved(moved, kernel)
            else:
                exact = relaxed = moved.size.expr()
                for tile in moved.reload_axes:
                    ratio = kernel.tiles[tile].expr() / symbol(tile)
                    exact, relaxed = exact * sympy.ceiling(ratio), relaxed * ratio
                for block, axis in moved.loop_nest:
                    ratio = axis.expr() / symbol(block)
                    exact, relaxed = exact * sympy.ceiling(ratio), relaxed * ratio
            traffic.append(Traffic(moved.array, moved.direction, told(exact), sympy.expand(told(relaxed))))
        for (pipeline, loops), amount in kernel.work.items():
            work[pipeline] += told(whole_run_total(amount, kernel, loops, shares))
    load = sympy.Add(*(t.exact for t in traffic if t.direction == "load"))
    save = sympy.Add(*(t.exact for t in traffic if t.direction == "save"))
    room = told(peak_of(frontier(account, LEVEL)))
    there = account
    if any(not side.is_interior for kernel in account.kernels for moved in kernel.transfers for side in moved.region):
        there = measure(diagram, dtype, stages, accumulators == REGISTERS, fused, clip=True)
    level, registers = (frontier(there, place) for place in (LEVEL, REGISTERS))
    told = _clipping(there, told)
    fullest = ([*level[:1], *registers[:1]]) if accumulators == REGISTERS else level[:1]
    return IO(
        load=load,
        save=save,
        transfers=load + save,
        relaxed=sympy.expand(sympy.Add(*(t.relaxed for t in traffic))),
        memory=told(peak_of(level)),
        registers=told(peak_of(registers)),
        traffic=tuple(traffic),
        live_arrays=tuple(LiveArray(n, r, told(a.expr())) for moment in fullest for n, r, a in moment.live),
        work=work,
        groups=groups,
        streams=streams,
        order="; then ".join(order_of(kernel, account) for kernel in account.kernels),
        unit="values" if dtype is None else "bytes",
        stages=stages,
        accumulators=accumulators,
        account=account,
        room=room,
        assumptions=() if shares is None else shares.assumptions(),
    )


def presentation_of(account: Account) -> tuple[tuple[str, ...], Callable[[Expr], Expr]]:
    """The tiles that are always 1, and a function that rewrites formulas for users: a split loop's symbols become its
    whole axis and number of parts."""
    split_loop = account.split_loop
    if split_loop is None:
        return (), lambda formula: formula
    length = IntPolynomial.of(split_loop.axis_size).expr() / symbol(split_loop.parts)
    put = {symbol(split_loop.length): length, **dict.fromkeys(map(symbol, split_loop.single), 1)}

    def told(formula: Expr) -> Expr:
        return formula if formula.free_symbols.isdisjoint(put) else formula.subs(put, simultaneous=True)

    return split_loop.single, told


def _clipping(account: Account, told: Callable[[Expr], Expr]) -> Callable[[Expr], Expr]:
    """A function that replaces the symbols of clipped footprints by formulas."""
    sides = [(name, side, kernel) for kernel in account.kernels for name, side in kernel.clipped.items()]
    if not sides:
        return told
    from catdiag.schedule.region_loads import most

    put = {symbol(name): most(side, kernel) for name, side, kernel in sides}
    return lambda formula: told(formula.subs(put, simultaneous=True))


def frontier(account: Account, place: str) -> list[ProgramPoint]:
    """The points of all kernels that can be the peak of a level for some sizes: none is dominated by another."""
    kept: list[ProgramPoint] = []
    for kernel in account.kernels:
        for moment in kernel.points[place]:
            if not any(m.total.dominates(moment.total) for m in kept):
                kept = [m for m in kept if not moment.total.dominates(m.total)] + [moment]
    return kept


def whole_run_total(
    amount: IntPolynomial, kernel: LoweredKernel, loops: tuple[Loop, ...], shares: MaskCounts | None = None
) -> Expr:
    """An amount for each group and block, summed over all groups and blocks (`catdiag.schedule.tile_counts`).

    If a loop skips blocks, the sum is over those that it runs (`catdiag.schedule.mask_counts`). Of the blocks that it
    tests, the given share is run, or all.
    """
    import sympy

    extent = next((kernel.loop_bounds[loop] for loop in loops if loop in kernel.loop_bounds), None)
    if extent is not None:
        from catdiag.schedule.mask_counts import exactly

        if shares is None:
            return exactly(amount, kernel, loops, extent, sympy.S.One)
        return exactly(amount, kernel, loops, extent, shares.of(extent), shares.split_loop)
    ranges = {**kernel.tiles, **dict(loops)}
    return summed(amount, {name: (axis.expr(), (symbol(name),)) for name, axis in ranges.items()})


def peak_of(moments: list[ProgramPoint]) -> Expr:
    """The most that is live at any of these points."""
    import sympy

    if len(moments) <= 1:
        return (moments[0].total if moments else ZERO).expr()
    return sympy.Max(*(m.total.expr() for m in moments), evaluate=False)


def order_of(kernel: LoweredKernel, account: Account) -> str:
    """The stored order of a kernel's boxes, as text."""
    boxes, split_loop = ", ".join(kernel.order), account.split_loop
    tiles = [f"each of {split_loop.parts} parts" if split_loop and t in split_loop.single else t for t in kernel.tiles]
    if split_loop is not None:
        boxes = boxes.replace(
            f"stream block {split_loop.single[1]} of {split_loop.parts}", f"of {split_loop.parts} parts"
        )
    return f"for each group tile {' by '.join(tiles)} ({boxes})" if tiles else boxes
