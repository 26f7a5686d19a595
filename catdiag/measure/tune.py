"""Autotuning: the fastest of a few proposed launch configurations, found by running them, with a cache.

`tuned` generates the kernels that `catdiag.planner.launch_configurations` proposes. It checks each against the float64
reference, times the correct ones in interleaved rounds, and takes the one of least median time. The result is cached in
a file. The key is the kernels' texts, the sizes (rounded up to powers of two), the types, the device and Triton's
version. The folder is `tuned`, beside that of the kernels (`catdiag.runtime.module_cache`).

`reached` rates the time model: in how many of many timed cases its first choice was near the fastest configuration.

>>> reached([TimedCase("a", (1.0, 2.0)), TimedCase("b", (1.2, 1.0, None)), TimedCase("c", (1.02, 1.0))]).share
0.6666666666666666
"""

from __future__ import annotations

import json
import math
import statistics
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING, Any

from catdiag.category.diagram import Diagram, HasDiagram, diagram_of
from catdiag.chip import hardware as chips
from catdiag.chip.hardware import Hardware
from catdiag.codegen.triton.tile_runs import most_programs
from catdiag.codegen.triton.triton_module import Module, module
from catdiag.measure.bench import OURS, BenchDevice, BenchRow, Contestant, reason, run_case, torch_with_gpu
from catdiag.measure.bench_case import Number, case_of
from catdiag.planner.configuration_proposal import Proposal
from catdiag.planner.fit import searching
from catdiag.planner.fitted_configuration import Fitting
from catdiag.planner.launch_configurations import NUMBER, propose
from catdiag.planner.multi_kernel_plan import Plan, one_kernel
from catdiag.runtime.compile import CompiledKernel, compiled
from catdiag.runtime.module_cache import cache_folder, digest, imported
from catdiag.util.errors import CatdiagError
from catdiag.util.files import read_whole, write_whole

if TYPE_CHECKING:
    from catdiag.chip.hardware import Hardware

TOLERANCE = 0.05
"""A configuration is near the fastest one if it is slower by at most this fraction."""
_LARGEST = 2**16
"""The most bytes of a cache file that is read."""
_ROUNDS = 11
_ROUNDED = 1e-9
_ASKED = ("dtype", "diagram", "source", "chip", "asked", "types", "loops", "derivation", "reads", "makes")
"""What a tuned plan has of the plan that was tuned: what was asked for, and not what was found."""


@dataclass(frozen=True)
class TimedCase:
    """The times of a case's configurations in milliseconds, in the order of the time model.

    The time of a configuration that was wrong or could not be run is None.
    """

    case: str
    times_ms: tuple[float | None, ...]

    @property
    def known(self) -> tuple[float, ...]:
        """The times of the configurations that ran."""
        return tuple(t for t in self.times_ms if t is not None)

    @property
    def best(self) -> int | None:
        """The position of the fastest configuration; None if none ran."""
        return self.times_ms.index(min(self.known)) if self.known else None

    @property
    def rank(self) -> int | None:
        """The rank of the model's first choice by measured time, from 1; None if it did not run."""
        first = self.times_ms[0] if self.times_ms else None
        return None if first is None else 1 + sum(t < first for t in self.known)

    @property
    def distance(self) -> float | None:
        """By what fraction the model's first choice is slower than the fastest; None if it did not run."""
        first = self.times_ms[0] if self.times_ms else None
        return None if first is None else first / min(self.known) - 1

    @staticmethod
    def of(row: BenchRow) -> TimedCase:
        """The case of a benchmark's row: the results of this library's kernels, in order."""
        return TimedCase(row.case, tuple(r.median_ms for r in row.results if r.name.startswith(OURS)))


@dataclass(frozen=True)
class TuningQuality:
    """How near the time model's first choice was to the fastest configuration, over cases with several configurations.

    It was within the fraction `within` in `within_tolerance` of the `cases`. `middle` is the median distance, `worst`
    the largest, as fractions. `failed` are the cases whose first choice did not run; they count as not near.
    """

    cases: int
    within_tolerance: int
    middle: float
    worst: float
    failed: tuple[str, ...] = ()
    within: float = TOLERANCE

    @property
    def share(self) -> float:
        """The fraction of the cases in which the first choice was near the fastest; NaN without cases."""
        return self.within_tolerance / self.cases if self.cases else math.nan

    def __str__(self) -> str:
        if not self.cases:
            return "No case had several configurations that ran."
        summary = (
            f"The model's first choice was within {100 * self.within:.0f}% of the quickest that was timed in "
            f"{self.within_tolerance} of {self.cases} cases ({100 * self.share:.0f}%); half of them are within "
            f"{100 * self.middle:.1f}%, all within {100 * self.worst:.1f}%."
        )
        return summary + (f" It did not run for {', '.join(self.failed)}." if self.failed else "")


def reached(found: Iterable[TimedCase | BenchRow], within: float = TOLERANCE) -> TuningQuality:
    """How near the first configuration was to the fastest, over the cases of which two or more configurations ran.

    It counts as near where it takes at most the part `within` longer. Rows of `catdiag.measure.bench` are read by
    `TimedCase.of`.
    """
    several = [t if isinstance(t, TimedCase) else TimedCase.of(t) for t in found]
    several = [t for t in several if len(t.times_ms) > 1 and t.known and (len(t.known) > 1 or t.times_ms[0] is None)]
    far = [t.distance for t in several if t.distance is not None]
    return TuningQuality(
        len(several),
        sum(distance <= within + _ROUNDED for distance in far),
        statistics.median(far) if far else math.nan,
        max(far, default=math.nan),
        tuple(t.case for t in several if t.distance is None),
        within,
    )


@dataclass(frozen=True)
class Tuned:
    """The measurements of proposals: the milliseconds of each (None: not run), and why it was not run ("": it was).

    `best` is the position of the fastest, which is used. `from_cache` says that the result is from an earlier run.
    """

    proposals: tuple[Proposal, ...]
    times_ms: tuple[float | None, ...]
    failures: tuple[str, ...]
    best: int
    from_cache: bool = False

    @property
    def as_case(self) -> TimedCase:
        """The measurements as a case for `reached`."""
        return TimedCase("", self.times_ms)

    @property
    def chosen(self) -> Proposal:
        """The fastest proposal."""
        return self.proposals[self.best]

    def __str__(self) -> str:
        lines = []
        for k, (p, ms, why) in enumerate(zip(self.proposals, self.times_ms, self.failures, strict=True)):
            result = f"{1e3 * ms:.1f} µs" if ms is not None else why or "not run"
            lines.append(f"{'*' if k == self.best else ' '} {k + 1}. {p}: {result}, {1e6 * p.time_s:.1f} µs predicted")
        first = self.as_case
        if first.distance is not None:
            lines.append(f"the first is number {first.rank}, {100 * first.distance:.1f}% slower than the quickest")
        return "\n".join(lines)


def tuned(
    diagram: Diagram | HasDiagram,
    source: Diagram | HasDiagram | None,
    hardware: Hardware | str,
    sizes: Mapping[str, int],
    dtype: str = "bf16",
    *,
    scalars: Mapping[str, Number] | None = None,
    draws: Mapping[str, Mapping[str, Any]] | None = None,
    most: int = NUMBER,
    machine: BenchDevice | None = None,
    fresh: bool = False,
    **options: Any,
) -> tuple[CompiledKernel, Tuned]:
    """The kernel of a derived diagram with the fastest of its proposed configurations, and all measurements.

    - `source`: the program from which the diagram was derived, which is the reference for the check.
    - `hardware`: the chip for which configurations are proposed; it should be the one on which they run.
    - `sizes`: the sizes of axes, and scalar inputs on which trip counts depend.
    - `most`: how many configurations to try; `options`: further arguments of `propose`, such as fixed tiles.
    - `scalars` and `draws`: values and distributions of inputs, as in `catdiag.measure.bench_case.case_of`.
    - `fresh`: measure again, whatever is in the cache.

    Raises CatdiagError without a GPU, and if no proposal is correct, with the reasons. Raises the errors of `propose`
    and of `catdiag.codegen.triton.triton_module.module`.
    """
    diagram, source = diagram_of(diagram), None if source is None else diagram_of(source)
    found = propose(diagram, hardware, sizes, dtype, most=most, **options)
    written, refused = _written(diagram, found, dtype, chips.get(hardware))
    if not written:
        raise CatdiagError(f"none of {len(found)} proposals can be written: {refused[0]}")
    place = _place(written, sizes, dtype, machine)
    if not fresh and (known := _cached(place, found, written)) is not None:
        return compiled(written[known.best], diagram, source), known
    machine = machine or BenchDevice.gpu()
    lengths = {n: s for n, s in sizes.items() if n not in diagram.input_names}
    numbers = {**{n: s for n, s in sizes.items() if n in diagram.input_names}, **(scalars or {})}
    case = case_of(source or diagram, lengths, dtype, scalars=numbers, draws=draws)
    row = run_case(case, machine, [_contestant(str(k), m) for k, m in written.items()], rounds=_ROUNDS)
    times = {int(r.name): r.median_ms for r in row.results}
    why = {**refused, **{int(r.name): r.failure for r in row.results}}
    right = {k: ms for k, ms in times.items() if ms is not None}
    if not right:
        listed = "; ".join(f"{found[k]}: {text}" for k, text in sorted(why.items()))
        raise CatdiagError(f"none of {len(found)} proposals gives correct results on this GPU: {listed}")
    result = Tuned(
        found,
        tuple(times.get(k) for k in range(len(found))),
        tuple(why.get(k, "") for k in range(len(found))),
        min(right, key=lambda k: (right[k], k)),
    )
    _store(place, result)
    return compiled(written[result.best], diagram, source), result


def tuned_plan(plan: Plan) -> Plan:
    """The plan with the fastest configuration on this machine's GPU, of those that the time model proposes.

    Tiles that were given to the plan stay as they are. `.compile().tuning` has all measurements. They are cached.

    Raises CatdiagError for a plan with types by name, of several kernels, or of the ideal model, and the errors of
    `tuned`.
    """
    plan.written()
    first = one_kernel(plan, "a tuned plan")
    if not isinstance(first.types, str):
        raise CatdiagError(f"a kernel of types by name ({plan.dtype}) is not tuned: expected one type for all")
    if plan.chip is None:
        raise CatdiagError("the plan has no chip: expected a plan that was made in this process, not one from JSON")
    kernel, found = tuned(plan.diagram, plan.source, plan.chip, plan.sizes, first.types, **first.asked)
    search = searching(plan.diagram, plan.chip, plan.sizes, first.types, **first.asked)
    measured = Fitting(search, first.types).plan(found.chosen)
    known = {name: getattr(first, name) for name in _ASKED}
    own = replace(measured, **known)
    return replace(plan, kernels=(own,), module=own.module).made_of(replace(kernel, tuning=found))


def _written(
    diagram: Diagram, found: Sequence[Proposal], dtype: str, chip: Hardware
) -> tuple[dict[int, Module], dict[int, str]]:
    """The modules of proposals by position, with the proposal as defaults; and the reasons for those without one."""
    written: dict[int, Module] = {}
    refused: dict[int, str] = {}
    for k, p in enumerate(found):
        try:
            written[k] = module(
                diagram, p.tiles, dtype, stages=p.stages, warps=p.warps, specialized=p.specialized,
                l2_bytes=chip.l2_bytes, programs=most_programs(chip.sms, p.blocks_per_sm),
            )  # fmt: skip
        except CatdiagError as error:
            refused[k] = reason(error)
    return written, refused


def _contestant(name: str, made: Module) -> Contestant:
    return Contestant(name, lambda: getattr(imported(made.text, made.entry), made.entry), out=True)


# -- the cache --------------------------------------------------------------------------------------------------


def _place(written: Mapping[int, Module], sizes: Mapping[str, int], dtype: str, machine: BenchDevice | None) -> Path:
    """The cache file for these texts, at sizes rounded up to powers of two, on this device, with this compiler."""
    if machine is None or machine.device.startswith("cuda"):
        device = str(torch_with_gpu().cuda.get_device_name(0))
    else:
        device = machine.device
    try:
        compiler = version("triton")
    except PackageNotFoundError:
        compiler = "none"
    lengths = sorted((name, (size - 1).bit_length()) for name, size in sizes.items())
    texts = [[k, m.text] for k, m in sorted(written.items())]
    key = json.dumps([texts, lengths, dtype, device, compiler])
    entry = next(iter(written.values())).entry
    return cache_folder().parent / "tuned" / f"{entry}_{digest(key)}.json"


def _cached(place: Path, found: tuple[Proposal, ...], written: Mapping[int, Module]) -> Tuned | None:
    """The cached measurements; None if there are none, or the file is not valid for these proposals."""
    try:
        data = json.loads(read_whole(place, _LARGEST).decode("utf-8"))
    except (OSError, ValueError, RecursionError):
        return None
    if not isinstance(data, dict):
        return None
    times, failures, best = data.get("times_ms"), data.get("failures"), data.get("best")
    if not (isinstance(times, list) and isinstance(failures, list) and len(times) == len(failures) == len(found)):
        return None
    numbers = [t for t in times if t is not None]
    plain = all(isinstance(t, (int, float)) and 0 < t < math.inf for t in numbers)
    if not plain or not all(isinstance(text, str) for text in failures):
        return None
    if type(best) is not int or best not in written or times[best] is None or times[best] != min(numbers):
        return None
    return Tuned(found, tuple(times), tuple(failures), best, from_cache=True)


def _store(place: Path, result: Tuned) -> None:
    data = {"times_ms": result.times_ms, "failures": result.failures, "best": result.best}
    # If the cache cannot be written, the result is valid all the same; it is measured again the next time.
    with suppress(OSError):
        place.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        write_whole(place, json.dumps(data, indent=1) + "\n")
