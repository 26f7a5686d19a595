"""The quickest of a few proposed launch configurations, found by running them, and kept for the next time.

`tuned` writes the kernels that `catdiag.planner.launch_configurations` proposes, checks each against what the diagram
means (in double precision, with results poisoned before they are written), times those that are right in interleaved
rounds, and takes the one of the least median. What was found is kept in a file of its own, by the kernels' texts, the
sizes (rounded up to powers of two), the types, the device and Triton's version, and is taken from there unless asked
for `fresh`. The folder is `tuned` beside that of the kernels (`catdiag.runtime.module_cache`).

`reached` says how good the model is: of many cases that were timed, in how many its first choice was near the best.

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
from catdiag.codegen.triton.triton_module import Module, module
from catdiag.measure.bench import OURS, BenchDevice, BenchRow, Contestant, reason, run_case, torch_with_gpu
from catdiag.measure.bench_case import Number, case_of
from catdiag.planner.configuration_candidates import Proposal
from catdiag.planner.fit import searching
from catdiag.planner.fitted_configuration import Fitting
from catdiag.planner.launch_configurations import NUMBER, propose
from catdiag.planner.plan import Plan, module_of
from catdiag.runtime.compile import CompiledKernel, compiled
from catdiag.runtime.module_cache import cache_folder, digest, imported
from catdiag.util.errors import CatdiagError
from catdiag.util.files import read_whole, write_whole

if TYPE_CHECKING:
    from catdiag.chip.hardware import Hardware

TOLERANCE = 0.05
"""How much longer than the best one may take and be near it."""
_LARGEST = 2**16
"""Bytes of a kept file above which it is not read."""
_ROUNDS = 11
_ROUNDED = 1e-9


@dataclass(frozen=True)
class TimedCase:
    """A case: milliseconds of its configurations in the order in which the model ranks them, None of those that were
    not right or could not be run."""

    case: str
    times_ms: tuple[float | None, ...]

    @property
    def known(self) -> tuple[float, ...]:
        """The times there are."""
        return tuple(t for t in self.times_ms if t is not None)

    @property
    def best(self) -> int | None:
        """The place of the quickest; None where none ran."""
        return self.times_ms.index(min(self.known)) if self.known else None

    @property
    def rank(self) -> int | None:
        """How many the first is from being the quickest, 1 if it is; None where it did not run."""
        first = self.times_ms[0] if self.times_ms else None
        return None if first is None else 1 + sum(t < first for t in self.known)

    @property
    def distance(self) -> float | None:
        """How much longer the first takes than the quickest, as a share of that; None where it did not run."""
        first = self.times_ms[0] if self.times_ms else None
        return None if first is None else first / min(self.known) - 1

    @staticmethod
    def of(row: BenchRow) -> TimedCase:
        """The configurations of ours in a comparison: the results whose names begin with that of ours, in order."""
        return TimedCase(row.case, tuple(r.median_ms for r in row.results if r.name.startswith(OURS)))


@dataclass(frozen=True)
class TuningQuality:
    """How near the model's first choice was to the quickest, over cases of several configurations each.

    `within_tolerance` of the `cases` were within `TOLERANCE`; `middle` and `worst` are the distances in the middle and
    the largest one. `failed` are the cases whose first choice did not run, which count as not near.
    """

    cases: int
    within_tolerance: int
    middle: float
    worst: float
    failed: tuple[str, ...] = ()
    within: float = TOLERANCE

    @property
    def share(self) -> float:
        """The part of the cases in which the first was near the best."""
        return self.within_tolerance / self.cases if self.cases else math.nan

    def __str__(self) -> str:
        if not self.cases:
            return "No case had several configurations that ran."
        said = (
            f"The model's first choice was within {100 * self.within:.0f}% of the quickest that was timed in "
            f"{self.within_tolerance} of {self.cases} cases ({100 * self.share:.0f}%); half of them are within "
            f"{100 * self.middle:.1f}%, all within {100 * self.worst:.1f}%."
        )
        return said + (f" It did not run for {', '.join(self.failed)}." if self.failed else "")


def reached(found: Iterable[TimedCase | BenchRow], within: float = TOLERANCE) -> TuningQuality:
    """How often the first configuration was within so much of the best, over all cases of which two or more ran.

    Rows of `catdiag.measure.bench` are taken as they are, as `TimedCase.of` reads them.
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
    """What came of the proposals: milliseconds of each (None: not run), or why it was not (empty: it was).

    `best` is the place of the one that is taken. `from_cache` says that it is from an earlier run.
    """

    proposals: tuple[Proposal, ...]
    times_ms: tuple[float | None, ...]
    failures: tuple[str, ...]
    best: int
    from_cache: bool = False

    @property
    def as_case(self) -> TimedCase:
        """As a case for `reached`."""
        return TimedCase("", self.times_ms)

    @property
    def chosen(self) -> Proposal:
        """The one that is taken."""
        return self.proposals[self.best]

    def __str__(self) -> str:
        lines = []
        for k, (p, ms, why) in enumerate(zip(self.proposals, self.times_ms, self.failures, strict=True)):
            told = f"{1e3 * ms:.1f} µs" if ms is not None else why or "not run"
            lines.append(f"{'*' if k == self.best else ' '} {k + 1}. {p}: {told}, {1e6 * p.time_s:.1f} µs predicted")
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
    """The kernel of a diagram in loops and groups at the quickest of its proposals, and how all of them did.

    `source` is what the diagram was derived from, and says what it means; `hardware` is the chip that the proposals are
    for, which should be the one that they run on; `sizes` has the scalar inputs too that say how often loops turn.
    The `options` are those of `propose`: tiles that are given, say.
    `scalars` and `draws` are the values and the distributions of inputs, as `catdiag.measure.bench_case.case_of` has
    them. With `fresh`, what was kept is not looked at. Raises CatdiagError where PyTorch sees no GPU or no proposal is
    right, with the reasons; and as `propose` and `module` do.
    """
    diagram, source = diagram_of(diagram), None if source is None else diagram_of(source)
    found = propose(diagram, hardware, sizes, dtype, most=most, **options)
    written, refused = _written(diagram, found, dtype)
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
        raise CatdiagError(f"none of {len(found)} proposals is right on this GPU: {listed}")
    result = Tuned(
        found,
        tuple(times.get(k) for k in range(len(found))),
        tuple(why.get(k, "") for k in range(len(found))),
        min(right, key=lambda k: (right[k], k)),
    )
    _store(place, result)
    return compiled(written[result.best], diagram, source), result


def tuned_plan(plan: Plan) -> Plan:
    """The plan of the configuration that is quickest on the GPU here, of those that the model proposes.

    Tiles that the plan was given are kept. `.compile().tuning` says how all of them did. What was found is kept for
    the next time.

    Raises CatdiagError for a plan with types by name or of the ideal model, and what `tuned` raises.
    """
    module_of(plan)
    if not isinstance(plan.types, str):
        raise CatdiagError(f"a kernel of types by name ({plan.dtype}) is not tuned: expected one type for all")
    if plan.diagram is None or plan.chip is None:
        raise CatdiagError("the plan does not know its diagram: expected one that fit gave in this process")
    kernel, found = tuned(plan.diagram, plan.source, plan.chip, plan.sizes, plan.types, **plan.asked)
    search = searching(plan.diagram, plan.chip, plan.sizes, plan.types, **plan.asked)
    measured = Fitting(search, plan.types).plan(found.chosen)
    known = {name: getattr(plan, name) for name in ("dtype", "diagram", "source", "chip", "asked", "types")}
    return replace(measured, **known).made_of(replace(kernel, tuning=found))


def _written(diagram: Diagram, found: Sequence[Proposal], dtype: str) -> tuple[dict[int, Module], dict[int, str]]:
    """The modules of proposals by their place, with what is proposed as their defaults, and why there is none."""
    written: dict[int, Module] = {}
    refused: dict[int, str] = {}
    for k, p in enumerate(found):
        try:
            written[k] = module(diagram, p.tiles, dtype, stages=p.stages, warps=p.warps, specialized=p.specialized)
        except CatdiagError as error:
            refused[k] = reason(error)
    return written, refused


def _contestant(name: str, made: Module) -> Contestant:
    return Contestant(name, lambda: getattr(imported(made.text, made.entry), made.entry), out=True)


# -- what was found before --------------------------------------------------------------------------------------


def _place(written: Mapping[int, Module], sizes: Mapping[str, int], dtype: str, machine: BenchDevice | None) -> Path:
    """The file of a tuning: of these texts, at sizes of these powers of two, on this device and with this compiler."""
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
    """What was kept, if it is there and is what is kept there."""
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
    # Where nothing can be kept, what was found is still good: it is found again the next time.
    with suppress(OSError):
        place.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        write_whole(place, json.dumps(data, indent=1) + "\n")
