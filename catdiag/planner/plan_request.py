"""What is asked of `fit` beside sizes: tiles that are given, multiples, the objective, what overlaps; checked."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import TypedDict

from catdiag.category.diagram import Diagram
from catdiag.chip.hardware import Hardware
from catdiag.planner.time_model.given_overlap import Overlap, ideal_backend
from catdiag.planner.time_model.ideal_backend import IdealBackend
from catdiag.planner.time_model.timing import PIPELINES
from catdiag.schedule.kernel_analysis import Account, given_sizes
from catdiag.util.errors import CatdiagError, SizeError

OBJECTIVES = ("time", "traffic", "largest", "stages")


class FitOptions(TypedDict, total=False):
    """What `fit` may be asked for beside sizes, types and stages, by keyword.

    - `tiles` fixes some tiles or blocks by name (`{"g_q": 128}`), `multiples` says of what they must be multiples,
      `at_least` how large they must be, `threads` how many a group has;
    - `objective` is "time", "traffic" (the fewest bytes at the edge to shared memory), "largest" (the most points of
      the index space in one iteration: the largest tile that fits; give `stages`, since one buffer leaves most room) or
      "stages" (the most buffers, at most 16, of the tiles that are given);
    - `overlap` is what is taken to run at once: see `catdiag.planner.time_model.given_overlap.Overlap`;
    - `producers` warps beside the others do nothing but load, with few registers;
    - with `ahead`, a warp begins the products of the next iteration before it uses up this one's, and holds both;
    - `passed` says where contractions read what was made on chip: "registers", or "SMEM", to which it is copied at the
      inputs' type;
    - `density` is the share of the blocks that are run where data decides: a number or one by axis, 1 if left out,
      which is the most.
    """

    tiles: Mapping[str, int] | None
    multiples: Mapping[str, int] | None
    at_least: Mapping[str, int] | None
    threads: int | None
    objective: str
    overlap: Overlap
    producers: int
    ahead: bool
    passed: str
    density: Mapping[str, float] | float


def checked_names(function: str, options: FitOptions) -> None:
    """Raises TypeError for an option that there is not, as Python does for a function's own keywords."""
    for name in options:
        if name not in FitOptions.__annotations__:
            raise TypeError(f"{function}() got an unexpected keyword argument {name!r}")


def check_cuts(cuts: int | None, several: bool) -> None:
    """Raises CatdiagError unless `cuts` is a number of cuts or None, and `several` True only where a cut is allowed."""
    if cuts is not None and (isinstance(cuts, bool) or not isinstance(cuts, int) or cuts < 0):
        raise CatdiagError(f"cuts is {cuts!r}: expected how many cuts there may be at most, 0 or more")
    if several and (cuts == 0 or not isinstance(several, bool)):
        raise CatdiagError(
            f"several is {several!r} with cuts={cuts!r}: expected True or False, and True with a cut or more"
        )


def check_sizes(diagram: Diagram, sizes: Mapping[str, int], scalars: Collection[str]) -> None:
    """Raises SizeError unless `sizes` has a positive integer for each axis, and none for what is no axis, `scalars`
    aside."""
    needed = given_sizes(diagram)
    if unknown := sorted(set(sizes) - needed - set(scalars)):
        raise SizeError(f"size {unknown[0]!r} is given, and the diagram has no such axis: it has {sorted(needed)}")
    if missing := sorted(needed - set(sizes)):
        raise SizeError(f"the size of axis {missing[0]!r} is missing: expected sizes for {', '.join(sorted(needed))}")
    for name, value in sizes.items():
        if isinstance(value, bool) or not hasattr(value, "__index__") or int(value) < 1:
            raise SizeError(f"axis {name!r} has size {value!r}: expected a positive integer")


@dataclass(frozen=True)
class Request:
    """Tiles by name that are fixed, of what others must be multiples, how large they must be; warps to try (`threads`
    is what was asked for), warps beside them that only load; what is optimised, and what is taken to overlap.
    `shares`, by `("share", block)`, are the parts of their blocks that loops run which ask data about each."""

    tiles: Mapping[str, int] = field(default_factory=dict)
    multiples: Mapping[str, int] = field(default_factory=dict)
    at_least: Mapping[str, int] = field(default_factory=dict)
    warps: tuple[int, ...] = (4, 8, 16)
    objective: str = "time"
    overlap: Overlap = "queue"
    producers: int = 0
    shares: Mapping[tuple[str, str], float] = field(default_factory=dict)
    threads: int | None = None
    ahead: bool = False
    passed: str = "registers"

    @property
    def ideal(self) -> IdealBackend:
        """The ideal backend as it is asked for."""
        return ideal_backend(self.overlap, self.producers)


def checked_request(account: Account, chip: Hardware, options: FitOptions) -> Request:
    """The request, checked against the tiles of a diagram and the chip. Raises CatdiagError."""
    known = symbols(account)
    tiles, multiples, least = options.get("tiles"), options.get("multiples"), options.get("at_least")
    by_name = {"tiles": tiles or {}, "multiples": multiples or {}, "at_least": least or {}}
    for what, given in by_name.items():
        for name, value in given.items():
            if name not in known:
                listed = ", ".join(known) or "none"
                raise CatdiagError(f"{what} names {name!r}, which the diagram lacks: its tiles and blocks are {listed}")
            if isinstance(value, bool) or not hasattr(value, "__index__") or int(value) < 1:
                raise CatdiagError(f"{what} gives {name!r} as {value!r}: expected a positive integer")
    objective, overlap = options.get("objective", "time"), options.get("overlap", "queue")
    threads, producers = options.get("threads"), options.get("producers", 0)
    if objective not in OBJECTIVES:
        raise CatdiagError(f"objective is {objective!r}: expected one of {', '.join(OBJECTIVES)}")
    if isinstance(overlap, str):
        if overlap not in ("queue", "add", "max"):
            raise CatdiagError(f"overlap is {overlap!r}: expected 'queue', 'add', 'max', or a tuple of pipelines")
    else:
        overlap = tuple(overlap)
        for name in overlap:
            if name not in PIPELINES:
                raise CatdiagError(f"overlap names {name!r}: the pipelines are {', '.join(PIPELINES)}")
    warps = chip.warps
    if threads is not None:
        if isinstance(threads, bool) or not isinstance(threads, int) or threads < 1 or threads % chip.warp:
            raise CatdiagError(f"threads is {threads!r}: expected a positive multiple of {chip.warp}, a warp's")
        if threads > chip.threads_per_block:
            raise CatdiagError(f"threads is {threads}: a group on {chip.name} has at most {chip.threads_per_block}")
        warps = (threads // chip.warp,)
    if isinstance(producers, bool) or not isinstance(producers, int) or producers < 0:
        raise CatdiagError(f"producers is {producers!r}: expected a number of warps that only load, 0 or more")
    return Request(
        **{what: {name: int(value) for name, value in given.items()} for what, given in by_name.items()},
        warps=warps,
        objective=objective,
        overlap=overlap,
        producers=producers,
        shares=shares(account, options.get("density", 1.0)),
        threads=threads,
        ahead=options.get("ahead", False),
        passed=options.get("passed", "registers"),
    )


def shares(account: Account, density: Mapping[str, float] | float) -> dict[tuple[str, str], float]:
    """The share of blocks that are run, by the block of the loops that ask. Raises CatdiagError as `io` does."""
    if not any(k.loop_bounds for k in account.kernels):
        return {}
    from catdiag.schedule.mask_counts import MaskCounts

    asking = {e.axis: e.block for k in account.kernels for e in k.loop_bounds.values() if e.tests_blocks}
    given = density if isinstance(density, Mapping) else dict.fromkeys(asking, density)
    MaskCounts(given, account)  # which checks it
    return {("share", asking[axis]): float(share) for axis, share in given.items()}


def symbols(account: Account) -> tuple[str, ...]:
    """The tiles and blocks of the first kernel that can be chosen; of a split loop the number of parts too."""
    kernel, split_loop = account.kernels[0], account.split_loop
    single = split_loop.single if split_loop else ()
    names = [*([split_loop.parts] if split_loop else []), *kernel.tiles, *(block for block, _ in kernel.loops)]
    return tuple(n for n in dict.fromkeys(names) if n not in single)
