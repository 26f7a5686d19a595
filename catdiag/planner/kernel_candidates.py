"""How long the drafts of a kernel (`catdiag.planner.kernel_drafts`) take on a chip: nothing is proved here.

Tiles may be as large as the axes.

>>> import catdiag as cd
>>> target = PlanTarget(cd.hardware.H200, {"a": 4096, "b": 4096, "c": 4096})
>>> [str(way) for way in timed_schedules(cd.library.get("matmul"), target)][0]
'stream b, group a c'
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from catdiag.category.diagram import Diagram
from catdiag.category.ops import FoldOp, GroupOp
from catdiag.category.substitution import inline
from catdiag.category.types import BYTES, size_value
from catdiag.chip.hardware import Hardware
from catdiag.codegen.triton.added_results import FEW_BYTES
from catdiag.codegen.triton.tile_runs import PROGRAMS_PER_SM
from catdiag.planner.fit import searching
from catdiag.planner.kernel_drafts import KernelDraft, drafts, window_axes
from catdiag.planner.plan import FUNCTION, TORCH, KernelPlan
from catdiag.planner.resources.block_resources import ceil_div
from catdiag.planner.tile_search import SHORTEST_BLOCK, Choice, Found, some
from catdiag.planner.time_model.timing import Timing
from catdiag.planner.time_model.triton_backend import unoverlapped_seconds
from catdiag.schedule.accumulation import added_results
from catdiag.schedule.kernel_analysis import given_sizes
from catdiag.schedule.lowered_kernel import LoweredKernel
from catdiag.util.errors import CatdiagError, DoesNotFit, NotGroupable, NotStreamable

FEW = 4
"""Groups for each core under which loops that run in parts at once are tried."""
NEAR = 3.0
"""Tiles that take so many times as long as the quickest where all blocks are run are not tried where some are skipped:
to count the blocks of small tiles takes long. Those are not tried in parts of a loop that would take so many times as
long if all cores had a part."""
WHOLE = 256
"""Entries of an axis at most that a kernel which fits has whole, and not in a loop inside of its loop."""
GRID = 1024
"""Of drafts with more tiles than this, those are timed that are powers of two or whole axes, as kernels index them."""
NEARLY_EQUAL = 1.05
"""Of schedules that are predicted to be alike within this factor, the one with fewer loops is taken."""
RUNS_NEARLY_EQUAL = 1.1
"""The same for programs that add up runs of whole rows, beside loops over parts of rows, for which predictions are too
short: on an H200 sums of columns in bf16 (65,536 × 4,096, 65,536 × 1,024, 8,192 × 8,192 and 16,384 × 768) took 219, 44,
41 and 13 µs by loops (130, 35, 33 and 10 predicted), and 127, 36, 41 and 11 in runs (127, 34, 36 and 8)."""


@dataclass(frozen=True)
class PlanTarget:
    """The chip, the sizes, the element type of all inputs, results and saved arrays (or each by its name), and buffers
    (None: any number)."""

    chip: Hardware
    sizes: Mapping[str, int]
    dtype: str | Mapping[str, str] = "bf16"
    stages: int | None = None
    scalars: Mapping[str, int] = field(default_factory=dict)
    """Integer inputs, by name, that say how often loops iterate which skip blocks: the width of a window."""
    products: str = "triton"
    """Who computes products: "triton", "torch", or "quickest"."""
    deterministic: bool = False
    """Whether no scatter-adds are tried, whose order is not fixed."""
    progress: Callable[[str], object] | None = field(default=None, repr=False, compare=False)
    """What is called with each step of the search, in words."""

    def report(self, step: str) -> None:
        """Calls `progress` with a step of the search that begins."""
        if self.progress is not None:
            self.progress(step)

    def sizes_of(self, diagram: Diagram) -> dict[str, int]:
        """Those that a diagram is given."""
        needed = given_sizes(diagram)
        return {name: self.sizes[name] for name in self.sizes if name in needed}

    def options(self) -> dict[str, Any]:
        """What `fit` takes beside sizes."""
        return {"dtype": self.dtype, "stages": self.stages}


@dataclass
class KernelTimer:
    """A draft of a kernel, and the predicted seconds of its quickest tiles."""

    draft: KernelDraft
    seconds: float
    choice: Choice | None = field(repr=False)
    sizes: Mapping[str, int] = field(repr=False, default_factory=dict)
    """What it was timed for: the lengths of its axes, and scalar inputs on which trip counts depend."""
    emitted: KernelPlan | CatdiagError | None = field(default=None, repr=False, compare=False)
    """Its plan as it is written, or why there is none; None where nobody asked."""
    emitted_s: float | CatdiagError | None = field(default=None, repr=False, compare=False)
    """The predicted seconds of that plan, which are known sooner, or why there is none."""
    times_emitted: bool = False
    """Whether its seconds are those of the kernel as it is written, and not of the ideal model."""
    recomputed: tuple[str, ...] = ()
    """What its iterations make for products, in words (see `remade`)."""
    called: str = ""
    """"torch" where torch computes it (then `choice` is of the quickest kernel instead), "function" where a function
    of the user's does (then it is None); nothing for a kernel."""

    def __str__(self) -> str:
        words = {TORCH: "torch's product", FUNCTION: "a call of the user's function"}
        return words.get(self.called) or str(self.draft)


def timed_schedules(piece: Diagram, target: PlanTarget, enough_s: float = 0.0) -> list[KernelTimer]:
    """The schedules of a piece that fit, the quickest first. No further draft is tried once one takes `enough_s` or
    less.

    Of each draft there are three forms: all blocks are run; masked ones are skipped; and the loop runs in parts at
    once, where the kernel has less than `FEW` groups for each core, which takes a kernel more that merges them.

    Raises DoesNotFit, of the one that needs least, if none does; CatdiagError where none can be counted.
    """
    found: list[KernelTimer] = []
    refused: list[DoesNotFit] = []
    uncounted: list[CatdiagError] = []
    sizes = target.sizes_of(piece)
    flat = inline(piece)
    lengths: dict[str, int] = {a.name: size_value(a.size, sizes) for ty in flat.graph.wire_types() for a in ty.axes}
    fits = blocks = False

    taps = window_axes(flat)

    def nested(draft: KernelDraft, axis: str) -> bool:
        ((outer, _),) = draft.streams
        if taps.issuperset({outer, axis}):  # one tap of a window at a time, each a box of the array
            return blocks
        return blocks and min(lengths[outer], lengths[axis]) > SHORTEST_BLOCK and (not fits or lengths[axis] > WHOLE)

    for draft in drafts(flat, nested, not target.deterministic):
        if found and min(timer.seconds for timer in found) <= enough_s:
            break
        fits, blocks = False, True
        try:
            found += _forms(draft, target, sizes)
            fits = True
        except NotStreamable as error:
            blocks = False
            uncounted.append(error)
        except DoesNotFit as error:
            refused.append(error)
        except CatdiagError as error:
            uncounted.append(error)
    if not found:
        if refused:
            raise min(refused, key=lambda error: error.excess)
        raise uncounted[0]
    ranked = sorted(found, key=lambda timer: timer.seconds)
    within = {True: RUNS_NEARLY_EQUAL, False: NEARLY_EQUAL}
    alike = [timer for timer in ranked if timer.seconds <= within[timer.draft.only_adds] * ranked[0].seconds]
    first = min(alike, key=lambda timer: _preferred(timer, sizes))
    return [first, *(timer for timer in ranked if timer is not first)]


def _forms(draft: KernelDraft, target: PlanTarget, sizes: Mapping[str, int]) -> Iterator[KernelTimer]:
    """A draft, the same in parts, and both with masked blocks skipped, as far as they are tried and fit. Raises
    CatdiagError where the draft itself does not fit or cannot be counted."""
    plain, timings = _timed(draft, target, sizes)
    found = [(plain, timings)]
    streams = draft.streams
    assert plain.choice is not None, "a kernel has tiles"
    if streams and streams[0][1] == 1 and plain.choice.prediction.groups < FEW * target.chip.sms:
        merged = _merge_s(draft, target, sizes)
        least = [_least_in_parts_s(timing, target.chip) + merged for *_, timing in timings]
        most = min(plain.seconds, NEAR * min(float(np.min(seconds)) for seconds in least))
        if any(np.any(seconds < most) for seconds in least):
            with suppress(CatdiagError):
                found.append(_timed(draft.in_parts(), target, sizes, some(timings, [s < most for s in least])))
    yield from (timer for timer, _ in found)
    for timer, timings in found:
        most = NEAR * min(float(np.min(timing.seconds)) for *_, timing in timings)
        near = some(timings, [np.atleast_1d(timing.seconds) <= most for *_, timing in timings])
        given = {name: n for name, n in target.scalars.items() if name in timer.draft.streamed.input_names}
        for skipping in timer.draft.skipping():
            for known in (given, {}) if given else ({},):
                with suppress(CatdiagError):
                    yield _timed(skipping, target, {**sizes, **known}, near)[0]
                    break


def _least_in_parts_s(timing: Timing, chip: Hardware) -> Any:
    """The seconds that candidates would take at least in parts of their loop: if their groups filled their waves, as
    small ones do, but no less than an iteration, nor than the first load."""
    part_used = timing.groups / (timing.waves * timing.blocks_per_sm * chip.sms)
    filled = timing.seconds * np.minimum(part_used, 1)
    iteration = timing.single_block_seconds / np.maximum(timing.iterations, 1)
    return np.atleast_1d(np.maximum(np.maximum(filled, iteration), chip.latency_s))


def _merge_s(draft: KernelDraft, target: PlanTarget, sizes: Mapping[str, int]) -> float:
    """The least seconds that it takes to save what two parts of a loop make, and to load it again to merge it, which
    waits for its first load."""
    made = (ty for box in draft.streamed.boxes if isinstance(box.op, FoldOp) for ty in box.cod)
    elements = sum(math.prod(size_value(axis.size, sizes) for axis in ty.axes) for ty in made)
    moved_s = 2 * 2 * BYTES["fp32"] * elements / target.chip.sustained_hbm_bytes_per_s
    return moved_s + target.chip.latency_s


def _timed(
    draft: KernelDraft, target: PlanTarget, sizes: Mapping[str, int], tiles: Found | None = None
) -> tuple[KernelTimer, Found]:
    """A draft with its quickest tiles, and all timings. With `tiles`, only those are tried, of whichever form of the
    draft they were timed. Raises CatdiagError where it does not fit or cannot be counted."""
    search = searching(draft.diagram, target.chip, sizes, **target.options())
    draft.check_blocks(search.kernels.values())
    timings = search.choices(GRID) if tiles is None else search.of_tiles(tiles)
    choice = search.quickest_of(timings)
    if (
        draft.adds
        and not draft.scatters
        and (taken := _bytes_of_parts(draft, {**search.sizes, **choice.tiles}, target.chip)) > FEW_BYTES
    ):
        raise NotGroupable(f"the parts that groups add take {taken:,} bytes: expected at most {FEW_BYTES:,}")
    if draft.only_adds and search.kernel.contractions:  # loops in parts have the tiles of matrix units
        raise NotGroupable("groups that add products of matrices to a result are not tried")
    recomputed = remade(search.kernels[choice.stages], search.full({**search.sizes, **choice.tiles}))
    seconds = choice.seconds + unoverlapped_seconds(search.kernels[choice.stages], target.chip)
    return KernelTimer(draft, seconds, choice, sizes, recomputed=recomputed), timings


def _bytes_of_parts(draft: KernelDraft, sizes: Mapping[str, int], chip: Hardware) -> int:
    """The bytes, in fp32, of what the groups of a draft add to results."""
    total = 0
    for box in draft.diagram.boxes:
        op = box.op
        if not isinstance(op, GroupOp):
            continue
        tiles = {axis: ceil_div(size_value(box.size_of(axis), sizes), sizes[symbol]) for axis, symbol in op.tiles}
        for k in added_results(box):
            elements = math.prod(size_value(axis.size, sizes) for axis in box.cod[k].axes)
            parts = math.prod(int(tiles[axis]) for axis in op.accumulated()[k])
            total += BYTES["fp32"] * elements * (min(parts, PROGRAMS_PER_SM * chip.sms) if len(tiles) == 1 else parts)
    return total


def remade(kernel: LoweredKernel, values: Mapping[Any, Any]) -> tuple[str, ...]:
    """The factors of products that each iteration of a loop makes of its blocks, and in how many tiles that is
    recomputed: those of the axes that the factor lacks.

    >>> import catdiag as cd
    >>> scaled = cd.algorithm("t d, d, d o -> t o")(lambda X, g, W: cd.einsum("t d, d o -> t o", cd.tanh(X * g), W))
    >>> from catdiag.planner.fit import searching
    >>> sizes = {"t": 4096, "d": 4096, "o": 4096}
    >>> search = searching(scaled.stream("d").group("t o").diagram, "H200", sizes)
    >>> remade(search.kernel, {**sizes, "g_t": 128, "g_o": 128, "s_d": 64})
    ('tanh [t d] in each of 32 tiles of o',)
    """
    found: dict[str, None] = {}
    for factor in kernel.factors:
        lacks = [tile for tile in kernel.tiles if tile not in factor.size.symbols()]
        count = math.prod(int(ceil_div(kernel.tiles[tile].value(values), values[tile])) for tile in lacks)
        if count > 1:
            axes = " ".join(kernel.axes[tile] for tile in lacks)
            found[f"{factor.name} in each of {count:,} tiles of {axes}"] = None
        else:
            found[factor.name] = None
    return tuple(found)


def _preferred(option: KernelTimer, sizes: Mapping[str, int]) -> int:
    """The least is taken of what takes as long: programs that add up runs of whole rows, then one loop in true blocks,
    which no axis is too long for, then none, then the fewest."""
    streams = option.draft.streams
    if option.draft.only_adds:
        return -1
    if option.draft.split or len(streams) > 1:
        return 2 + len(streams) + option.draft.split
    assert option.choice is not None, "a kernel has tiles"
    blocks = [size for name, size in option.choice.tiles.items() if name.startswith("s_")]
    axes = [sizes.get(axis, 0) for axis, _ in streams]
    return 0 if streams and any(b < a for b, a in zip(blocks, axes, strict=False)) else 1 + len(streams)
