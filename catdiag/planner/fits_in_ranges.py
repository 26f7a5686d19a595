"""Whether tiles fit for all sizes in ranges, and why no tile of a kind can: answers by z3, with what they rest on.

>>> import catdiag as cd
>>> product = cd.library.get("matmul").stream("b").group("a c")
>>> found = fits(product, "H100", {"g_a": (1, 128), "g_c": (1, 256), "s_b": (1, 64)}, stages=3)
>>> found.proved, found.proofs["SMEM"].statement
(True, 'for all 1 ≤ g_a ≤ 128, 1 ≤ g_c ≤ 256, 1 ≤ s_b ≤ 64: 6*g_a*s_b + 6*g_c*s_b ≤ 232448')
>>> print(fits(product, "H100", {"g_a": (1, 128), "g_c": (1, 256), "s_b": (1, 64)}, stages=5))
refuted: SMEM of H100 overflows at g_a=108, g_c=256, s_b=64: 232,960 bytes of 232,448 (128 threads)
            69,120  A (streamed)
           163,840  B (streamed)
>>> print(possible(product, "H100", {"g_a": 128, "g_c": 256, "s_b": 64}, stages=5))
no tile with g_a=128, g_c=256, s_b=64 or more fits H100 (128 threads): these arrays alone need 245,760 bytes of SMEM, \
which has 232,448
           163,840  B (streamed)
            81,920  A (streamed)
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from catdiag.category.diagram import diagram_of
from catdiag.category.integer_polynomial import IntPolynomial
from catdiag.chip import hardware as chips
from catdiag.chip.hardware import Hardware
from catdiag.planner.fit import kernels_on
from catdiag.planner.fits_proof import Proof, polynomial, prove_bound
from catdiag.planner.plan import shown
from catdiag.planner.resources.ideal_resources import register_bytes_for_arrays
from catdiag.schedule.kernel_analysis import Account
from catdiag.schedule.lowered_kernel import ProgramPoint
from catdiag.schedule.placement import LEVEL, MATRIX, REGISTERS, check_stages
from catdiag.schedule.stored_types import widest
from catdiag.util import argument_checks
from catdiag.util.errors import CatdiagError, SizeError

if TYPE_CHECKING:
    from catdiag.category.diagram import Diagram

Range = int | tuple[int, int]
"""A size, or from which to which, both included."""
_RLIMIT = 20_000_000


@dataclass(frozen=True)
class Overflow:
    """A tile that does not fit: the level, what one holds, what a group would, at which sizes, and what each array of
    the fullest moment takes, in bytes: (name, role, bytes). No size could be one less (within its range) and overflow
    still."""

    level: str
    capacity: int
    allocated: int
    sizes: Mapping[str, int]
    live_arrays: tuple[tuple[str, str, int], ...]


@dataclass(frozen=True)
class Fits:
    """`proved` if every tile in the ranges fits: then `proofs` has z3's, by level, for a group of so many `threads`.
    Otherwise `overflow` is a tile that does not."""

    hardware: str
    proved: bool
    threads: int
    proofs: Mapping[str, Proof] = field(hash=False)
    overflow: Overflow | None = None

    def __bool__(self) -> bool:
        return self.proved

    def as_dict(self) -> dict[str, Any]:
        """Plain values for JSON."""
        over = self.overflow
        return {
            **vars(self),
            "proofs": {name: proof.as_dict() for name, proof in self.proofs.items()},
            "overflow": None if over is None else {**vars(over), "sizes": dict(over.sizes)},
        }

    def __str__(self) -> str:
        over = self.overflow
        if over is None:
            said = "; ".join(f"{name}: {proof.statement}" for name, proof in self.proofs.items())
            return f"proved for {self.hardware} and {self.threads} threads: {said}"
        lines = [
            f"refuted: {over.level} of {self.hardware} overflows at {shown(over.sizes)}: {over.allocated:,} bytes of "
            f"{over.capacity:,} ({self.threads} threads)"
        ]
        return "\n".join([*lines, *_listed(over.live_arrays)])


@dataclass(frozen=True)
class Possible:
    """`proved` if some tile at least as large as asked for fits: then `tiles` is the smallest. Otherwise `unsat_core`
    are arrays which overflow a level together, and none of which could be left out: (name, role, least bytes)."""

    hardware: str
    proved: bool
    threads: int
    tiles: Mapping[str, int] = field(hash=False)
    level: str = ""
    capacity: int = 0
    needed: int = 0
    unsat_core: tuple[tuple[str, str, int], ...] = ()
    seconds: float = field(default=0.0, compare=False)

    def __bool__(self) -> bool:
        return self.proved

    def as_dict(self) -> dict[str, Any]:
        """Plain values for JSON."""
        return {**vars(self), "tiles": dict(self.tiles)}

    def __str__(self) -> str:
        if self.proved:
            return f"fits {self.hardware} with {self.threads} threads: {shown(self.tiles)}"
        said = (
            f"no tile with {shown(self.tiles)} or more fits {self.hardware} ({self.threads} threads): these arrays "
            f"alone need {self.needed:,} bytes of {self.level}, which has {self.capacity:,}"
        )
        return "\n".join([said, *_listed(self.unsat_core)])


def _listed(arrays: tuple[tuple[str, str, int], ...]) -> list[str]:
    return [f"  {size:>16,}  {name} ({role})" for name, role, size in arrays]


def fits(
    diagram: Diagram | Any,
    hardware: Hardware | str,
    ranges: Mapping[str, Range],
    dtype: str | Mapping[str, str] = "bf16",
    stages: int = 2,
    *,
    threads: int | None = None,
    producers: int = 0,
    ahead: bool = False,
    passed: str = "registers",
) -> Fits:
    """Whether every tile with sizes in these ranges fits every level of a chip: proved by z3, or refuted by one.

    `ranges` gives, for each tile, block and axis on which memory depends, a size or a pair (least, most). Without
    `threads`, the first number that the chip tries for which all fit is taken. The other options are those of
    `catdiag.planner.fit.fit`. Raises SizeError for ranges that are missing, unknown or empty, CatdiagError for an
    unknown chip or dtype, and where z3 gives up.
    """
    diagram = diagram_of(diagram)
    argument_checks.by_name(ranges, "ranges", "the least and the most of each symbol, such as {'s_x': (16, 64)}")
    argument_checks.dtypes(dtype)
    chip = chips.get(hardware)
    levels = _allocated(diagram, chip, dtype, stages, passed, ahead)
    least, most = _ranges(levels, ranges)
    refuted: Fits | None = None
    for number in _threads(chip, threads):
        capacities = _capacities(chip, number, producers)
        worst = _overflow(chip, levels, capacities, least, most)
        if worst is not None:
            # More threads would help registers: a level that they do not help says more.
            if refuted is None or (refuted.overflow and refuted.overflow.level != worst.level == chip.word("SMEM")):
                refuted = Fits(chip.name, False, number, {}, worst)
            continue
        proofs = {
            _NAMES[place]: prove_bound([m.total for m in moments], capacities[place], most, least)
            for place, moments in levels.items()
            if moments
        }
        return Fits(chip.name, True, number, proofs)
    if refuted is None:
        raise CatdiagError(f"threads is {threads!r}: {chip.name} has no group of that many")
    return refuted


def possible(
    diagram: Diagram | Any,
    hardware: Hardware | str,
    at_least: Mapping[str, int],
    dtype: str | Mapping[str, str] = "bf16",
    stages: int = 2,
    *,
    threads: int | None = None,
    producers: int = 0,
    ahead: bool = False,
    passed: str = "registers",
) -> Possible:
    """Whether some tile fits whose sizes are these or larger; if none does, the arrays that make it so.

    Each array must be given room for its bytes at the sizes, which must be at least those asked for, and all must fit
    a level together: z3 finds that unsatisfiable, and of the arrays in its unsat core none can be spared. Sizes that
    are not given may be 1. The options are those of `fits`. Raises SizeError for unknown names, and CatdiagError as
    `fits` does.
    """
    diagram = diagram_of(diagram)
    argument_checks.numbers(at_least, "at_least")
    argument_checks.dtypes(dtype)
    chip = chips.get(hardware)
    levels = _allocated(diagram, chip, dtype, stages, passed, ahead)
    names = _symbols(levels)
    for name, size in at_least.items():
        _known(name, names)
        _whole(name, size)
    start = time.perf_counter()
    tiles = {name: int(at_least.get(name, 1)) for name in names}
    refused: Possible | None = None
    for number in _threads(chip, threads):
        capacities = _capacities(chip, number, producers)
        core = next(
            (
                (level, found)
                for level, moments in levels.items()
                for moment in moments
                if (found := _core(moment, capacities[level], tiles)) is not None
            ),
            None,
        )
        if core is None:
            return Possible(chip.name, True, number, tiles, seconds=time.perf_counter() - start)
        level, arrays = core
        blame = tuple((name, role, int(amount.value(tiles))) for name, role, amount in arrays)
        needed, asked = sum(size for _, _, size in blame), {n: int(s) for n, s in at_least.items()}
        if refused is None or (refused.level != chip.word("SMEM") and level == LEVEL):
            spent = time.perf_counter() - start
            said = chip.word(_NAMES[level])
            refused = Possible(chip.name, False, number, asked, said, capacities[level], needed, blame, spent)
    if refused is None:
        raise CatdiagError(f"threads is {threads!r}: {chip.name} has no group of that many")
    return refused


_NAMES = {LEVEL: "SMEM", REGISTERS: "registers", MATRIX: "TMEM"}


def _allocated(
    diagram: Diagram | Any, chip: Hardware, dtype: str | Mapping[str, str], stages: int, passed: str, ahead: bool
) -> dict[str, list[ProgramPoint]]:
    """The moments of all kernels by place."""
    widest(dtype)
    check_stages(stages)
    if passed not in ("registers", "SMEM"):
        raise CatdiagError(f"passed is {passed!r}: expected 'registers' or 'SMEM'")
    account: Account = kernels_on(diagram, chip, dtype, stages, passed == "SMEM", ahead)
    single = account.split_loop.single if account.split_loop else ()
    found: dict[str, list[ProgramPoint]] = {}
    for kernel in account.kernels:
        for place, moments in kernel.points.items():
            for m in moments:
                arrays = tuple((name, role, amount.without(single)) for name, role, amount in m.live)
                found.setdefault(place, []).append(ProgramPoint(m.at, m.total.without(single), arrays))
    return found


def _capacities(chip: Hardware, threads: int, producers: int) -> dict[str, int]:
    """Bytes by place that a group of so many threads may have."""
    room = register_bytes_for_arrays(chip, threads, producers)
    return {LEVEL: chip.smem_per_block, REGISTERS: room, MATRIX: chip.tmem_per_sm}


def _threads(chip: Hardware, threads: int | None) -> tuple[int, ...]:
    if threads is None:
        return tuple(chip.warp * warps for warps in chip.warps)
    if isinstance(threads, bool) or not isinstance(threads, int) or threads < 1 or threads > chip.threads_per_block:
        raise CatdiagError(f"threads is {threads!r}: expected a number from 1 to {chip.threads_per_block}")
    return (threads,)


def _symbols(levels: Mapping[str, list[ProgramPoint]]) -> list[str]:
    return sorted({s for moments in levels.values() for m in moments for s in m.total.symbols()})


def _known(name: str, names: list[str]) -> None:
    if name not in names:
        raise SizeError(f"{name!r} is given, and memory does not depend on it: it does on {', '.join(names) or 'none'}")


def _whole(name: str, size: object) -> None:
    if isinstance(size, bool) or not isinstance(size, int) or size < 1:
        raise SizeError(f"{name!r} is {size!r}: expected a positive integer")


def _ranges(
    levels: Mapping[str, list[ProgramPoint]], ranges: Mapping[str, Range]
) -> tuple[dict[str, int], dict[str, int]]:
    names = _symbols(levels)
    least, most = {}, {}
    for name, asked in ranges.items():
        _known(name, names)
        pair = (asked, asked) if isinstance(asked, int) else asked
        if not isinstance(pair, (tuple, list)) or len(pair) != 2:
            raise SizeError(f"the range of {name!r} is {asked!r}: expected a size, or (least, most)")
        for end in pair:
            _whole(name, end)
        least[name], most[name] = int(pair[0]), int(pair[1])
        if least[name] > most[name]:
            raise SizeError(f"the range of {name!r} is {asked!r}, which is empty: expected (least, most)")
    missing = [name for name in names if name not in most]
    if missing:
        raise SizeError(f"the range of {missing[0]!r} is missing: memory depends on {', '.join(names)}")
    return least, most


def _overflow(
    chip: Hardware,
    levels: Mapping[str, list[ProgramPoint]],
    capacities: Mapping[str, int],
    least: dict[str, int],
    most: dict[str, int],
) -> Overflow | None:
    """A tile that overflows, if there is one: z3 says whether, and it is made small."""
    for place, moments in levels.items():
        for moment in moments:
            sizes = _larger(moment.total, capacities[place], least, most)
            if sizes is None:
                continue
            arrays = tuple((name, role, int(amount.value(sizes))) for name, role, amount in moment.live)
            used = int(moment.total.value(sizes))
            return Overflow(chip.word(_NAMES[place]), capacities[place], used, sizes, arrays)
    return None


def _larger(amount: IntPolynomial, limit: int, least: dict[str, int], most: dict[str, int]) -> dict[str, int] | None:
    """Whole sizes within the ranges at which an amount is above a limit, none of which could be less; None if there are
    none. Amounts grow with their sizes, so that a real solution rounded up is one."""
    import z3

    context = z3.Context()
    unknowns = {name: z3.Real(name, context) for name in sorted(amount.symbols())}
    solver = z3.SolverFor("QF_NRA", context)
    solver.set("rlimit", _RLIMIT)
    solver.add(*(c for name, v in unknowns.items() for c in (v >= least[name], v <= most[name])))
    solver.add(polynomial(amount, unknowns, context) > limit)
    answer = solver.check()
    if answer == z3.unknown and "interrupted" in solver.reason_unknown():
        raise KeyboardInterrupt
    if answer == z3.unknown:
        raise CatdiagError(f"z3 gave up on {amount} > {limit}")
    if answer == z3.unsat:
        return None
    if any(c < 0 for c in amount.terms.values()):
        raise CatdiagError(f"{amount} does not grow with all sizes: its overflow cannot be made whole")
    sizes = {name: most[name] for name in unknowns}
    for name in sizes:  # as small as can be, one after the other
        low, high = least[name], sizes[name]
        while low < high:
            middle = (low + high) // 2
            if amount.value({**sizes, name: middle}) > limit:
                high = middle
            else:
                low = middle + 1
        sizes[name] = high
    return sizes


def _core(moment: ProgramPoint, capacity: int, tiles: Mapping[str, int]) -> list[tuple[str, str, IntPolynomial]] | None:
    """The arrays of an unsat core of "each has room for its bytes, at sizes at least these, and all fit"; None if it
    can be satisfied. Smaller ones are spared first, and every one that is left is needed."""
    import z3

    context = z3.Context()
    names = sorted(moment.total.symbols())
    unknowns = {name: z3.Real(name, context) for name in names}
    arrays = sorted(moment.live, key=lambda r: (int(r[2].value(tiles)), r[0]))
    rooms = [z3.Real(f"bytes of {k}", context) for k in range(len(arrays))]

    def refuted(kept: list[int]) -> set[int] | None:
        solver = z3.SolverFor("QF_NRA", context)
        solver.set("rlimit", _RLIMIT)
        solver.set("unsat_core", True)
        solver.add(*(v >= tiles[name] for name, v in unknowns.items()), *(room >= 0 for room in rooms))
        solver.add(z3.Sum(rooms) <= capacity if rooms else z3.BoolVal(True, context))
        flags = {k: z3.Bool(f"array {k}", context) for k in kept}
        for k in kept:
            solver.assert_and_track(rooms[k] >= polynomial(arrays[k][2], unknowns, context), flags[k])
        answer = solver.check()
        if answer == z3.unknown:
            if "interrupted" in solver.reason_unknown():
                raise KeyboardInterrupt
            raise CatdiagError(f"z3 gave up on whether {moment.total} fits {capacity}")
        if answer == z3.sat:
            return None
        core = {str(flag) for flag in solver.unsat_core()}
        return {k for k in kept if f"array {k}" in core}

    core = refuted(list(range(len(arrays))))
    if core is None:
        return None
    kept = sorted(core)
    for k in list(kept):
        without = [other for other in kept if other != k]
        smaller = refuted(without)
        if smaller is not None:
            kept = sorted(smaller)
    return [arrays[k] for k in reversed(kept)]
