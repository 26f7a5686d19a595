"""The contents of a page about a derivation: the library's own objects, computed in one place."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from catdiag.bounds.lower_bound import lower_bound
from catdiag.chip import hardware as chips
from catdiag.cost.traffic import io as count
from catdiag.cost.traffic_by_level import levels_io
from catdiag.planner.fit import fit
from catdiag.rewrite.advice import stability_of
from catdiag.rewrite.loop_laws import verdicts
from catdiag.schedule.split_k import parts_by_block
from catdiag.util import argument_checks
from catdiag.util.errors import CatdiagError, SizeError, require

if TYPE_CHECKING:
    from catdiag.bounds.lower_bound import LowerBound
    from catdiag.chip.hardware import Hardware
    from catdiag.cost.level_formulas import LevelsIO
    from catdiag.cost.traffic import IO
    from catdiag.optimum.minimize import Optimum
    from catdiag.planner.plan import KernelPlan
    from catdiag.rewrite.claims import Verdict
    from catdiag.rewrite.derivation import Derivation
    from catdiag.rewrite.stability import Stability

LEVELS = ("HBM", "SMEM", "registers")
"""The levels at which costs are given without a chip."""


@dataclass(frozen=True)
class ReportData:
    """A derivation with everything that a page states about it.

    `counted` is the form whose costs are counted, the derivation or an earlier form of it; `io` are its transfers and
    memory in values. Where there is no optimum, bound or plan, a text says why. `levels` are the costs at each level,
    in the unit that it states. Of a plan of several kernels, `plan` is its text and `kernels` are the plans of each.
    `options` are further options of the plan that was made. `notes` are lines about the
    derivation, such as rewrites that were tried and refused.
    """

    derivation: Derivation
    counted: Derivation
    io: IO | str
    optimum: Optimum | str
    bound: LowerBound | str
    levels: LevelsIO | str
    stability: Stability
    verdicts: Mapping[str, Verdict] = field(default_factory=dict)
    plan: KernelPlan | str | None = None
    kernels: Sequence[KernelPlan] = ()
    hardware: Hardware | None = None
    sizes: Mapping[str, int] = field(default_factory=dict)
    dtype: str = "bf16"
    options: Mapping[str, Any] = field(default_factory=dict)
    notes: Sequence[str] = ()

    @property
    def numbers(self) -> dict[str, int]:
        """The sizes, with the plan's number of parts of a split loop, where formulas depend on it."""
        tiles = {} if self.plan is None or isinstance(self.plan, str) else self.plan.tiles
        parts = parts_by_block(self.derivation.diagram).values()
        return {**self.sizes, **{name: tiles[name] for name in parts if name in tiles}}


def report_data(
    derivation: Derivation,
    on: Hardware | str | None = None,
    sizes: Mapping[str, int] | None = None,
    dtype: str = "bf16",
    theorems: bool = False,
) -> ReportData:
    """The facts of a derivation; with a chip and sizes also a plan, and with `theorems` all claims about loops.

    Raises SizeError for a chip without sizes, and for sizes without a chip; CatdiagError where nothing was derived, and
    for an unknown chip or dtype.
    """
    if not derivation.steps:
        raise CatdiagError("nothing was derived yet: use .stream(axis) or .group(axes)")
    if sizes is not None:
        argument_checks.numbers(sizes)
    argument_checks.dtypes(dtype)
    require(isinstance(theorems, bool), "theorems", theorems, "True or False")
    if (on is None) != (not sizes):
        raise SizeError("a plan is for a chip and sizes: give both, as in on='h100', sizes={'q': 8192, …}, or neither")
    chip = None if on is None else chips.get(on)
    counted = derivation
    plan: KernelPlan | str | None = None
    if chip is not None:
        try:
            plan = fit(derivation, chip, dict(sizes or {}), dtype=dtype)
        except SizeError:
            raise
        except CatdiagError as error:
            plan = error.message
    io = io_of(counted)
    return ReportData(
        derivation=derivation,
        counted=counted,
        io=io,
        optimum=optimum_of(io),
        bound=bound_of(counted, io),
        levels=levels_of(counted, chip, dtype),
        stability=stability_of(derivation),
        verdicts=verdicts(derivation.diagram, derivation.claims()) if theorems else {},
        plan=plan,
        hardware=chip,
        sizes=dict(sizes or {}),
        dtype=dtype,
    )


def io_of(derivation: Derivation) -> IO | str:
    """The transfers and memory at two levels, or why they are not counted."""
    try:
        return count(derivation.diagram)
    except CatdiagError as error:
        return error.message


def optimum_of(io: IO | str) -> Optimum | str:
    """The least transfers, or why there is no formula for them."""
    if isinstance(io, str):
        return io
    try:
        return io.optimum()
    except ValueError as error:
        return str(error)


def bound_of(derivation: Derivation, io: IO | str) -> LowerBound | str:
    """A lower bound over all schedules of the same operations, or why it is not known."""
    try:
        return lower_bound(derivation.operations, None if isinstance(io, str) else io.capacity)
    except CatdiagError as error:
        return error.message


def levels_of(derivation: Derivation, chip: Hardware | None, dtype: str) -> LevelsIO | str:
    """The costs at every level, of a chip in bytes, else of three levels in values; or why they are not counted."""
    try:
        if chip is None:
            return levels_io(derivation.diagram, LEVELS)
        return levels_io(derivation.diagram, chip.hierarchy, dtype=dtype)
    except CatdiagError as error:
        return error.message
