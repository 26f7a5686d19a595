"""What is asked of `fit` beside sizes: tiles that are given, multiples, the objective, what overlaps; checked."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from catdiag.chip.hardware import Hardware
from catdiag.planner.time_model.given_overlap import Overlap, ideal_backend
from catdiag.planner.time_model.ideal_backend import IdealBackend
from catdiag.planner.time_model.timing import PIPELINES
from catdiag.schedule.kernel_analysis import Account
from catdiag.util.errors import CatdiagError

OBJECTIVES = ("time", "traffic", "largest", "stages")


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

    @property
    def ideal(self) -> IdealBackend:
        """The ideal backend as it is asked for."""
        return ideal_backend(self.overlap, self.producers)


def checked_request(
    account: Account,
    chip: Hardware,
    tiles: Mapping[str, int] | None,
    multiples: Mapping[str, int] | None,
    at_least: Mapping[str, int] | None,
    threads: int | None,
    objective: str,
    overlap: Overlap,
    producers: int,
) -> Request:
    """The request, checked against the tiles of a diagram and the chip. Raises CatdiagError."""
    known = symbols(account)
    for what, given in (("tiles", tiles), ("multiples", multiples), ("at_least", at_least)):
        for name, value in (given or {}).items():
            if name not in known:
                listed = ", ".join(known) or "none"
                raise CatdiagError(f"{what} names {name!r}, which the diagram lacks: its tiles and blocks are {listed}")
            if isinstance(value, bool) or not hasattr(value, "__index__") or int(value) < 1:
                raise CatdiagError(f"{what} gives {name!r} as {value!r}: expected a positive integer")
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
    plain = [{name: int(value) for name, value in (given or {}).items()} for given in (tiles, multiples, at_least)]
    if isinstance(producers, bool) or not isinstance(producers, int) or producers < 0:
        raise CatdiagError(f"producers is {producers!r}: expected a number of warps that only load, 0 or more")
    return Request(plain[0], plain[1], plain[2], warps, objective, overlap, producers, threads=threads)


def symbols(account: Account) -> tuple[str, ...]:
    """The tiles and blocks of the first kernel that can be chosen; of a split loop the number of parts too."""
    kernel, split_loop = account.kernels[0], account.split_loop
    single = split_loop.single if split_loop else ()
    names = [*([split_loop.parts] if split_loop else []), *kernel.tiles, *(block for block, _ in kernel.loops)]
    return tuple(n for n in dict.fromkeys(names) if n not in single)
