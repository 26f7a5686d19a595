"""What a diagram moves across one edge of a memory hierarchy, and how much of the lower level it takes.

Two levels: a slow one that holds whole arrays (HBM), a fast one on chip (SMEM, or SMEM and registers).
The rules, which `catdiag.simulate.machine` follows too, by really moving blocks:

- **Kernels.** Each Group box is a kernel run once for each group; what lies between two Group boxes is a kernel
  of one group, and so is a diagram that has none (with `fused=False`, each box of it is one). Arrays that pass
  from one kernel to another are saved by the first and loaded by the second. Named boxes are opened first.
- **Loads.** A group loads every array that it reads once, at its tile; an array that lacks a grouped axis is
  loaded again by each group of that axis. An array that only loops read along their axis is streamed, block
  by block: each block once for each loop, with `stages` buffers of a block allocated as long as the loop runs.
  Any other array is loaded whole before its first use (for a loop: before it starts) and dropped after its last.
- **Loops in loops.** What a loop reads only in loops inside its body, along their axes, is left to these: they stream
  it, block by block, reloaded in every iteration of the loops around whose axis it lacks. A loop that skips blocks
  leaves nothing to others. With several levels on chip, or a cache, what inner loops read is loaded by the outer one
  instead.
- **Parts.** A loop in `p_x` parts is two kernels: of each group one block a part, which saves its states, and one
  that loads those of all parts and merges them, with a buffer for those of one. What the first kernel keeps resident
  is loaded by each part. Formulas are exact where the parts are of one length.
- **Skipped blocks.** A loop that skips blocks loads those that it runs; arrays that it reads to ask what is left
  in a block come for each that it asks about. See `catdiag.schedule.mask_counts`.
- **Read in place.** Of an array that a group reads only at positions of its tile, by one box of index arithmetic, it
  loads the elements between the least and the largest index read along each axis, clipped to the array, and has room
  for the most that any group of the kernel loads along each axis (one at least): padding takes none, nor does the box.
  Optima and plans take room for whole windows, as kernels do whose tiles have one shape. See
  `catdiag.schedule.footprint`.
- **Looked up.** A view of inputs before the groups, which groups alone read (in blocks of their loops, as a rule), is
  no array: they load the elements of their tile of it from where these lie, once for each time that it names one. The
  integers that say where are counted only where other boxes read them. See `catdiag.schedule.gathers`.
- **Saves.** Each result is an array of its own in slow memory, as wide as it is said to be: it is saved once, as soon
  as it is made, also where it is equal to another result, or another form of it. A result that is an input is there
  already and is not moved; what a group gives is saved, be it an input or not.
- **Added.** A result that lacks a grouped axis is added to by each tile along that axis (an accumulating output):
  it is cleared once, then each group reads and writes its tile of it, as an addition in memory does; in bytes, at 4
  bytes or more (fp32). Where it is stored in fewer, it is read once more and saved as such. The tile that is added
  is on chip anyway, so that this takes no memory there. Atomic additions are done by the L2, where the same bytes pass.
- **Inlined.** Positions, sizes, constants and what is computed from these alone, element by element or as a scalar (a
  difference of positions, a mask), take no transfer and no memory: they are computed where they are read. Their work
  counts once for each kernel that reads them, but for that of scalars.
- **Memory.** An array is live from the box that makes it to its last use, in the stored order of the boxes. A box
  needs its inputs and its output at once, but: a renaming or transposition is the same array, and so is one with a
  product axis split or merged (slices, concatenations and reads at index arithmetic are copies, whose input is
  loaded whole); a scalar function
  (or a product that sums over nothing) writes over its first input of the same axes that it is the last to read
  (and, in bytes, of the same width), be it an operand's tile, not a streamed block; a reduction or contraction whose
  one reader combines it (`add` for a sum, `max` for a maximum, …) with a loop's state or another box's result, of the
  same axes and read for the last time, runs there, straight into that array, without a buffer of its own.
- **Loops.** States are live from the start of a loop to its end (then as its results), whatever else they are
  in an iteration; each state ends an iteration in a buffer of its own. What the loop reads of earlier results stays
  too.
- **Work** of the whole run by pipeline: `tensor`, for contractions of two or more arrays of real numbers, as many
  operations a point of the index space as there are arrays (2 for a matrix product; as many in `alu` where one is of
  integers, which matrix units do not take); `exp`, special functions: exp, log, sqrt, tanh,
  sigmoid, erf, sin, cos, rounding to integers, and one reciprocal for each element of a divisor; `alu`, every other
  scalar operation. Combining what is
  reduced straight into an array is part of the reduction; making the unit states of a loop counts nothing.

The formulas are those of "FlashAttention on a Napkin" (Abbott and Zardini, TMLR 2025, section 2), with the number
of groups rounded up and live ranges read off the order; the whole-run sums are exact where tiles do not divide.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from catdiag.category.diagram import diagram_of
from catdiag.category.integer_polynomial import ZERO, IntPolynomial, symbol
from catdiag.schedule.contractions import Loop
from catdiag.schedule.element_widths import Dtype
from catdiag.schedule.kernel_analysis import Account, measure
from catdiag.schedule.lowered_kernel import LoweredKernel, ProgramPoint, Transfer
from catdiag.schedule.placement import LEVEL, REGISTERS
from catdiag.schedule.tile_counts import summed, tile_count
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
    """What one array moves in one direction in the whole run: exact, and without rounding up."""

    array: str
    direction: str
    exact: Expr
    relaxed: Expr


@dataclass(frozen=True)
class LiveArray:
    """An array allocated at the peak: operand, streamed, accumulator, temporary or output."""

    array: str
    role: str
    values: Expr


@dataclass(frozen=True)
class IO(AsHTML):
    """Transfers and memory as sympy expressions, in values, or in bytes where a dtype was given.

    `load`, `save`, `transfers` are exact for the whole run; `relaxed` is `transfers` without rounding up;
    `memory` (and `registers`) is the peak of a level; `live_arrays` lists what is allocated at the peak (where two
    moments can be the peak, at the first), `work` the scalar operations by pipeline, `order` the stored order.
    `groups` and `streams` give the whole axis for each tile and block. `assumptions` says, of loops that leave blocks
    out, what share of them is taken to be run where data decides, and under which conditions `relaxed` is no more
    than `transfers`.
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
    """`memory` with whole windows, also where they reach beyond an array: a polynomial in tiles."""
    assumptions: tuple[str, ...] = ()

    @property
    def capacity(self) -> Expr:
        """The symbol for how much the fast level holds: M, or M with underscores where a size is called that."""
        from catdiag.optimum.minimize import CAPACITY

        used = {str(s) for formula in (self.relaxed, self.memory) for s in formula.free_symbols}
        name = str(CAPACITY)
        while name in used:
            name += "_"
        return CAPACITY if name == str(CAPACITY) else type(CAPACITY)(name, positive=True)

    def optimum(self, capacity: Expr | None = None) -> Optimum:
        """The least `relaxed` under `memory` at most the capacity, in this unit (by default `self.capacity`)."""
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
        """The least exact `transfers` over whole tiles and blocks, at sizes, in this unit.

        Tiles (`g_q`, `s_x`) are multiples of what `multiples` gives, and divisors of their axes where asked. `None`
        where nothing fits. Raises `ValueError` for sizes that are missing, a tile that is unknown, or an axis with no
        allowed tile."""
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
            raise SizeError(f"{', '.join(unknown)} is no tile: expected {', '.join(map(str, bounds)) or 'none'}")
        blocks = {str(v): steps[v] for v in self.streams}
        bracket = self.optimum().bracket({**sizes, **blocks, str(self.capacity): capacity})
        relaxed = bracket.lower if bracket is not None else None
        return integer_optimum(
            self.transfers, [(self.room, capacity)], bounds, at, steps, divisors=divisors, relaxed=relaxed
        )

    def as_dict(self) -> dict[str, Any]:
        """Plain values for JSON; expressions as text."""
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
    """Transfers and memory of a diagram, exactly (the rules are above).

    Without `dtype` in values. With one (`fp64`, `fp32`, `tf32`, `bf16`, `fp16`, `fp8`) in bytes: inputs, outputs and
    arrays between kernels at that width; at 4 bytes or more statistics between kernels
    (`catdiag.schedule.full_precision`: results of reductions) and arrays made on chip, and so the states of parts that
    a split loop saves and loads. What is computed is saved in 16 bits where inputs have 8, and an output that is a
    statistic, beside others that are none, takes 4 or more. Or by name: `{"Q": "bf16", "*": "fp8"}`, where `"*"` is the
    type of all that is not named, fp32 if it is not there either; loop states that are not named take 4. What `cd.cast`
    makes takes the bytes of its type. Truth values take 1 byte. Integers take 8 in slow memory, PyTorch's int64, unless
    `dtype` names a narrower type of integers for the array, and 4 where they are computed on chip.
    `accumulators="registers"` counts all but the operands' tiles separately, as `.registers`. `fused=False` runs each
    box outside groups alone. `density` is the share of the blocks that are run, among those that a loop asks what is
    left in them: a number from 0 to 1, or one by axis; a symbol `rho_x` where left out. That is an assumption about
    data, listed as such. Raises CatdiagError for unknown dtypes, arrays, stages, densities or places of accumulators.

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
    account = measure(diagram, dtype, stages, accumulators == REGISTERS, fused)
    there = account
    if any(not side.is_interior for kernel in account.kernels for moved in kernel.transfers for side in moved.region):
        there = measure(diagram, dtype, stages, accumulators == REGISTERS, fused, clip=True)
    shares: MaskCounts | None = None
    if any(kernel.loop_bounds for kernel in account.kernels):
        from catdiag.schedule.mask_counts import MaskCounts

        shares = MaskCounts(density, account)
    return _formulas(account, there, shares, "values" if dtype is None else "bytes", stages, accumulators)


def _formulas(
    account: Account, clipping: Account, shares: MaskCounts | None, unit: str, stages: int, accumulators: str
) -> IO:
    """The formulas of a diagram's kernels; `clipping` are the kernels with what of footprints lies in the arrays."""
    import sympy

    single, presented = presentation_of(account)
    traffic = _traffic(account, shares, presented)
    load = sympy.Add(*(t.exact for t in traffic if t.direction == "load"))
    save = sympy.Add(*(t.exact for t in traffic if t.direction == "save"))
    level, registers = (frontier(clipping, place) for place in (LEVEL, REGISTERS))
    clipped = _clipping(clipping, presented)
    fullest = ([*level[:1], *registers[:1]]) if accumulators == REGISTERS else level[:1]
    tiles = {t: axis for kernel in account.kernels for t, axis in kernel.tiles.items() if t not in single}
    blocks = {s: axis for kernel in account.kernels for s, axis in kernel.loops if s not in single}
    return IO(
        load=load,
        save=save,
        transfers=load + save,
        relaxed=sympy.expand(sympy.Add(*(t.relaxed for t in traffic))),
        memory=clipped(peak_of(level)),
        registers=clipped(peak_of(registers)),
        traffic=traffic,
        live_arrays=tuple(LiveArray(n, r, clipped(a.expr())) for moment in fullest for n, r, a in moment.live),
        work=_work(account, shares, presented),
        groups={symbol(t): axis.expr() for t, axis in tiles.items()},
        streams={symbol(s): presented(axis.expr()) for s, axis in blocks.items()},
        order="; then ".join(order_of(kernel, account) for kernel in account.kernels),
        unit=unit,
        stages=stages,
        accumulators=accumulators,
        account=account,
        room=presented(peak_of(frontier(account, LEVEL))),
        assumptions=() if shares is None else shares.assumptions(),
    )


def _traffic(account: Account, shares: MaskCounts | None, presented: Callable[[Expr], Expr]) -> tuple[Traffic, ...]:
    """What each array moves between slow memory and the chip."""
    import sympy

    found: list[Traffic] = []
    for kernel in account.kernels:
        for moved in kernel.transfers:
            if moved.bounds is not None and shares is not None:
                exact, relaxed = shares.moved(moved, kernel)
            else:
                exact, relaxed = whole_run_transfer(moved, kernel, lambda base: (symbol(base),))
            found.append(Traffic(moved.array, moved.direction, presented(exact), sympy.expand(presented(relaxed))))
    return tuple(found)


def _work(account: Account, shares: MaskCounts | None, presented: Callable[[Expr], Expr]) -> dict[str, Expr]:
    """Scalar operations of the whole run, by pipeline."""
    import sympy

    work = {"tensor": sympy.S.Zero, "exp": sympy.S.Zero, "alu": sympy.S.Zero}
    for kernel in account.kernels:
        for (pipeline, loops), amount in kernel.work.items():
            work[pipeline] += presented(whole_run_total(amount, kernel, loops, shares))
    return work


def whole_run_transfer(
    transfer: Transfer, kernel: LoweredKernel, cuts: Callable[[str], Sequence[Expr]]
) -> tuple[Expr, Expr]:
    """What a transfer moves in the whole run: exactly, and without rounding up. Loops run all of their blocks.

    `cuts` gives the tiles (or blocks) of an axis at the levels that cut it, by the symbol of the first level.
    """
    if transfer.region:
        from catdiag.schedule.region_loads import moved

        return moved(transfer, kernel, cuts)
    exact = relaxed = transfer.size.expr()
    for name, size in (*((tile, kernel.tiles[tile]) for tile in transfer.reload_axes), *transfer.loop_nest):
        found = cuts(name)
        exact = exact * tile_count(size.expr(), found)
        relaxed = relaxed * size.expr() / found[-1] if found else relaxed
    return exact, relaxed


def presentation_of(account: Account) -> tuple[tuple[str, ...], Callable[[Expr], Expr]]:
    """The tiles that are always 1, and formulas in words of the whole axis and the number of parts of a split loop."""
    split_loop = account.split_loop
    if split_loop is None:
        return (), lambda formula: formula
    length = IntPolynomial.of(split_loop.axis_size).expr() / symbol(split_loop.parts)
    put = {symbol(split_loop.length): length, **dict.fromkeys(map(symbol, split_loop.single), 1)}

    def presented(formula: Expr) -> Expr:
        return formula if formula.free_symbols.isdisjoint(put) else formula.subs(put, simultaneous=True)

    return split_loop.single, presented


def _clipping(account: Account, presented: Callable[[Expr], Expr]) -> Callable[[Expr], Expr]:
    """Formulas in words of how much of each window lies in its array."""
    sides = [(name, side, kernel) for kernel in account.kernels for name, side in kernel.clipped.items()]
    if not sides:
        return presented
    from catdiag.schedule.region_loads import most

    put = {symbol(name): most(side, kernel) for name, side, kernel in sides}
    return lambda formula: presented(formula.subs(put, simultaneous=True))


def frontier(account: Account, place: str) -> list[ProgramPoint]:
    """The moments of all kernels that can be a place's fullest: none is dominated by another."""
    kept: list[ProgramPoint] = []
    for kernel in account.kernels:
        for moment in kernel.points[place]:
            if not any(m.total.dominates(moment.total) for m in kept):
                kept = [m for m in kept if not moment.total.dominates(m.total)] + [moment]
    return kept


def whole_run_total(
    amount: IntPolynomial, kernel: LoweredKernel, loops: tuple[Loop, ...], shares: MaskCounts | None = None
) -> Expr:
    """A local amount summed over all groups and blocks (see `catdiag.schedule.tile_counts`); of a loop that leaves
    blocks out over those that it runs (`catdiag.schedule.mask_counts`), of those that it asks over the share that is
    given, or all."""
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
    """The largest total at any of these program points."""
    import sympy

    if len(moments) <= 1:
        return (moments[0].total if moments else ZERO).expr()
    return sympy.Max(*(m.total.expr() for m in moments), evaluate=False)


def order_of(kernel: LoweredKernel, account: Account) -> str:
    """The stored order of a kernel's boxes, in words."""
    boxes, split_loop = ", ".join(kernel.order), account.split_loop
    tiles = [f"each of {split_loop.parts} parts" if split_loop and t in split_loop.single else t for t in kernel.tiles]
    if split_loop is not None:
        boxes = boxes.replace(
            f"stream block {split_loop.single[1]} of {split_loop.parts}", f"of {split_loop.parts} parts"
        )
    return f"for each group tile {' by '.join(tiles)} ({boxes})" if tiles else boxes
