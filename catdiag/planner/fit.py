"""Tiles for a chip: `fit` chooses them by predicted time, and proves that they fit.

Least traffic is not least time: large tiles move fewer bytes, but leave cores without a group, and let few share one.
`fit` predicts the time of every tile that fits each level at once (`catdiag.planner.time_model` states the model),
takes the best, and says what binds, what stops a larger tile, how many bytes it gave up, and what the next best
choices cost. Asked for another `objective`, it takes the tile that moves the fewest bytes, or the largest that fits.

A loop in parts is two kernels, one after the other, with the same group tiles: the second merges the states of the
parts, whose number is a power of two, with at least 16 elements in each. Of memory and registers the larger is shown.

How it chooses: group tiles are powers of two, multiples of 16, or the whole axis; stream blocks likewise, from 16
to 8,192; for another objective every multiple of the pieces that the chip wants. Tiles that are in such pieces
(`catdiag.planner.instruction_shapes`), or whole axes, are taken before others. A grouped axis that every loaded array
carries gets tile 1 beside others that are shared, since a larger one saves no transfer, unless the chip wants pieces of
it. Operands are in shared memory, `stages` buffers of each stream block; everything else is where the chip keeps it, in
registers as a rule, 4 bytes a value.
Kernels index in powers of two, so other tiles must be half as quick again to be taken;
among tiles predicted within 5% the one with fewer threads a group is taken, then fewer bytes moved (in steps of 0.5%),
then one that leaves no tenth of the cores without a group, then fewer iterations of loops, then fewer buffers.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Unpack

from catdiag.category.diagram import diagram_of
from catdiag.chip import hardware as chips
from catdiag.chip.hardware import Hardware
from catdiag.planner.explanation import best_plan
from catdiag.planner.fitted_configuration import Fitting, fitted
from catdiag.planner.instruction_shapes import read_by_products
from catdiag.planner.plan import IDEAL, TRITON, KernelPlan, spelled_out
from catdiag.planner.plan_request import FitOptions, checked_names, checked_request
from catdiag.planner.tile_search import TileSearch, block_candidates, group_candidates
from catdiag.schedule.kernel_analysis import Account, measure
from catdiag.schedule.lowered_kernel import ProgramPoint
from catdiag.schedule.peak_memory import with_stages
from catdiag.schedule.placement import LEVEL, REGISTERS, check_stages, two
from catdiag.schedule.split_k import joined
from catdiag.schedule.stored_types import widest
from catdiag.util import argument_checks as given
from catdiag.util.errors import CatdiagError, DoesNotFit, SizeError, require

if TYPE_CHECKING:
    from catdiag.category.diagram import Diagram

__all__ = ["KernelPlan", "block_candidates", "emitted_seconds", "fit", "group_candidates", "kernels_on", "searching"]

_STAGES = (1, 2, 3, 4)
_MOST = 16
_RECORDED = {"tiles": None, "multiples": None, "at_least": None, "threads": None, "density": 1.0}
"""The options that are kept with a plan, to ask for others like it."""


def fit(
    diagram: Diagram | Any,
    hardware: Hardware | str,
    sizes: Mapping[str, int],
    dtype: str | Mapping[str, str] = "bf16",
    stages: int | None = None,
    *,
    backend: str | None = None,
    **options: Unpack[FitOptions],
) -> KernelPlan:
    """Group tiles, stream blocks, buffers and warps for one kernel on a chip, of least predicted time.

    The plan is of the kernel that is written for Triton, with the shared memory that its text takes
    (`catdiag.planner.fitted_configuration`). Where the diagram or what is asked for has no form there, or by
    `backend="ideal"`, it is of a kernel each of whose warps does what suits it best (this module's model), and
    `plan.reason` says why. With `backend="triton"` the reason is raised instead.

    `diagram` is a diagram or a derivation of one kernel, `hardware` a chip, its name, or a TOML file, `sizes` gives
    every axis, `dtype` is the inputs' and outputs', or theirs by name, as `io` has it (products are then in the
    widest type that they read as it is). The options are those of `catdiag.planner.plan_request.FitOptions`: tiles that
    are given, the objective, and so on. Where loops skip blocks, `sizes` gives the scalar inputs too that say how often
    they iterate (the width of a window).

    Raises SizeError for sizes that are missing, unknown or not positive, DoesNotFit with what the arrays of the tile
    that comes nearest take, and CatdiagError for an unknown chip, dtype, tile, objective or backend and for several
    kernels.

    >>> import catdiag as cd
    >>> total = cd.algorithm("q x -> q")(lambda a: cd.sum(a, "x"))
    >>> plan = fit(total, "H100", {"q": 8, "x": 64})
    >>> plan.backend, plan.stages, plan.warps, plan.shared_memory_bytes
    ('triton', 1, 4, 0)
    """
    if backend not in (None, IDEAL, TRITON):
        raise CatdiagError(f"backend is {backend!r}: expected 'triton', 'ideal', or none for the first that there is")
    checked_names("fit", options)
    search = searching(diagram, hardware, sizes, dtype, stages, **options)
    reason = _unlike_triton(search)
    if backend == TRITON and reason:
        raise CatdiagError(f"there is no plan for Triton: {reason}")
    plan: KernelPlan | None = None
    try:
        plan = None if backend == IDEAL or reason else fitted(search, dtype)
    except CatdiagError as error:
        if backend == TRITON or isinstance(error, DoesNotFit):
            raise
        reason = error.message
    plan = best_plan(search) if plan is None else plan
    source = getattr(diagram, "source", None)
    source = None if source is None else diagram_of(source)
    return replace(
        plan,
        dtype=spelled_out(dtype),
        diagram=search.diagram,
        source=source,
        chip=search.chip,
        asked={"stages": stages, **{name: options.get(name, default) for name, default in _RECORDED.items()}},
        reason="" if plan.backend == TRITON else reason or "it was asked for",
        types=dtype,
    )


def emitted_seconds(
    diagram: Diagram,
    hardware: Hardware | str,
    sizes: Mapping[str, int],
    dtype: str | Mapping[str, str] = "bf16",
    stages: int | None = None,
) -> float:
    """The predicted seconds of the plan that `fit` has for Triton, which are known sooner; where sides of products are
    of several axes perhaps up to `TIE` times less (`catdiag.planner.configuration_ties`). Raises CatdiagError where it
    has none, and as it does.

    >>> import catdiag as cd
    >>> total = cd.algorithm("q x -> q")(lambda a: cd.sum(a, "x"))
    >>> sizes = {"q": 8, "x": 64}
    >>> emitted_seconds(total, "H100", sizes) == fit(total, "H100", sizes).time_s
    True
    """
    return Fitting(searching(diagram, hardware, sizes, dtype, stages), dtype).time_s()


def _unlike_triton(search: TileSearch) -> str:
    """What is asked for that is not of Triton's kernels, in words; nothing if they may be planned."""
    asked = search.request
    if asked.objective != "time":
        return f"the tiles that are asked for are not the quickest, but those of objective {asked.objective!r}"
    if asked.overlap != "queue":
        return f"what runs at once is given, overlap={asked.overlap!r}"
    if asked.producers:
        return f"{asked.producers} warps are asked for that only load"
    if asked.ahead:
        return "a warp is asked to begin the products of the next iteration"
    if asked.passed != "registers":
        return f"contractions are asked to read what was made on chip from {asked.passed}"
    return ""


def searching(
    diagram: Diagram | Any,
    hardware: Hardware | str,
    sizes: Mapping[str, int],
    dtype: str | Mapping[str, str] = "bf16",
    stages: int | None = None,
    **options: Unpack[FitOptions],
) -> TileSearch:
    """All candidates of a call of `fit`, which takes the same, before one is taken. Raises as `fit` does."""
    checked_names("searching", options)
    whole = diagram_of(diagram)
    given.dtypes(dtype)
    widest(dtype)
    passed, ahead = options.get("passed", "registers"), options.get("ahead", False)
    chip = chips.get(hardware)
    if stages is not None:
        check_stages(stages)
    if passed not in ("registers", "SMEM"):
        raise CatdiagError(f"passed is {passed!r}: expected 'registers' or 'SMEM'")
    most = range(1, _MOST + 1) if options.get("objective") == "stages" else _STAGES
    tried = most if stages is None else (stages,)
    accounts = kernels_by_stages(whole, chip, dtype, tried, passed == "SMEM", ahead, stages is None)
    account = next(iter(accounts.values()))
    known = _checked(account, sizes)
    if len(account.kernels) != (1 if account.split_loop is None else 2):
        raise CatdiagError(
            f"fit plans one kernel, and the diagram has {len(account.kernels)}: group it as a whole, or fit its parts"
        )
    request = checked_request(account, chip, options)
    return TileSearch(chip, known, accounts, dtype, whole, request)


def kernels_on(
    diagram: Diagram,
    chip: Hardware,
    dtype: str | Mapping[str, str],
    stages: int,
    passed: bool = False,
    ahead: bool = False,
) -> Account:
    """The kernels of a diagram, with what they make where the chip keeps it; what contractions read of it copied to
    shared memory (`passed`), allocated beside the results of the iteration after (`ahead`)."""
    return kernels_by_stages(diagram, chip, dtype, (stages,), passed, ahead)[stages]


def kernels_by_stages(
    diagram: Diagram,
    chip: Hardware,
    dtype: str | Mapping[str, str],
    stages: Sequence[int],
    passed: bool = False,
    ahead: bool = False,
    as_needed: bool = False,
) -> dict[int, Account]:
    """The same by how many buffers streamed blocks have, or what groups of a run load, in which alone they differ;
    `as_needed`, by the first number alone where there are none of these."""
    places = two(stages[0], chip.accumulators != "SMEM", chip.accumulators == "TMEM")
    places = replace(places, fleeting=chip.accumulators != "SMEM")
    account = measure(diagram, dtype, places=places)
    found = {stages[0]: account}
    first = account.kernels[0] if account.kernels else None
    streams = first is None or any(role == "streamed" for m in first.points[LEVEL] for _, role, _ in m.live)
    streams = streams or (first is not None and first.in_runs)
    for number in stages[1:] if streams or not as_needed else ():
        found[number] = replace(account, kernels=tuple(with_stages(k, {LEVEL: number}) for k in account.kernels))
    also = [place for place, asked in ((LEVEL, passed), (REGISTERS, ahead)) if asked]
    if also and chip.accumulators != "SMEM":
        whole = account if account.split_loop is None else measure(joined(diagram), dtype, places=places)
        kept = read_by_products(whole.kernels)
        for kernel in (kernel for each in found.values() for kernel in each.kernels):
            for place in also:
                kernel.points[place] = [
                    ProgramPoint(
                        m.at,
                        sum((amount for _, amount in kept), m.total),
                        (*m.live, *((name, "passed on", amount) for name, amount in kept)),
                    )
                    for m in kernel.points[place]
                ]
    return found


def _checked(account: Account, sizes: Mapping[str, int]) -> dict[str, int]:
    needed = tuple(sorted({*account.sizes, *account.scalars}))
    require(isinstance(sizes, Mapping), "sizes", sizes, "a length for each axis, such as {'q': 8192}")
    listed = ", ".join(needed) or "none"
    for name in sizes:
        if name not in needed:
            raise SizeError(f"size {name!r} is given, and the diagram has no such axis: its sizes are {listed}")
    missing = [name for name in needed if name not in sizes]
    if missing:
        raise SizeError(f"the size of axis {missing[0]!r} is missing: expected sizes for {listed}")
    for name, value in sizes.items():
        if isinstance(value, bool) or not hasattr(value, "__index__") or int(value) < 1:
            raise SizeError(f"axis {name!r} has size {value!r}: expected a positive integer")
    return {name: int(sizes[name]) for name in needed}
