"""Measured hardware counters of a kernel beside the predicted ones.

`measure` runs each point once under Nsight Compute, all in one process. `compare` puts each counter beside its
prediction, with a status:

- *agrees*: within 2%;
- *explained*: the difference is larger, but causes account for it within 2%. Causes are computed before the run (see
  `catdiag.measure.profile.expected_counters`), or are loads that hit in L1, as the profiler counts them;
- *unexplained*: any other difference;
- *unavailable*: the counter could not be read, with the reason; all others are still reported.

>>> gap = judged("loads", 1000.0, 1110.0, [Cause("sectors", 0.0, 120.0)])
>>> gap.status, gap.ratio, gap.reason
('explained', 1.11, ('sectors: up to 120 more',))
>>> judged("loads", 1000.0, 1300.0, [Cause("sectors", 0.0, 120.0)]).status
'unexplained'
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from catdiag.measure.bench import torch_with_gpu, versions
from catdiag.measure.profile import ncu
from catdiag.measure.profile.expected_counters import Cause, ExpectedCounters, ProfilePoint
from catdiag.util.errors import CatdiagError

TOLERANCE = 0.02
"""Counters agree if they differ by at most this fraction."""
SHARED_TOLERANCE = 1024
"""Shared memory agrees if it differs by at most so many bytes."""

AGREES, EXPLAINED, UNEXPLAINED, UNAVAILABLE, REPORTED = "agrees", "explained", "unexplained", "unavailable", "reported"


@dataclass(frozen=True)
class CounterLine:
    """A counter beside its prediction, both in `unit` ("B": bytes); `kernel` is empty for a counter of all kernels of a
    point together."""

    what: str
    kernel: str
    predicted: float | None
    measured: float | None
    status: str
    reason: tuple[str, ...] = ()
    unit: str = "B"

    @property
    def ratio(self) -> float | None:
        """Measured over predicted; None where one is not known, or nothing is predicted."""
        if self.measured is None or not self.predicted:
            return None
        return self.measured / self.predicted


@dataclass(frozen=True)
class Measured:
    """The measurements of points: for each the readings of its launches, or why there are none.

    `about` has the versions of GPU, driver and software.
    """

    readings: tuple[tuple[ncu.CounterReading, ...], ...]
    failures: tuple[str, ...]
    about: Mapping[str, str] = field(default_factory=dict)

    def as_dict(self) -> dict[str, Any]:
        """Plain values for JSON."""
        return {
            "readings": [
                [{"kernel": r.kernel, "order": r.order, "values": dict(r.values), "missing": r.missing} for r in rs]
                for rs in self.readings
            ],
            "failures": list(self.failures),
            "about": dict(self.about),
        }

    @staticmethod
    def of(data: Mapping[str, Any]) -> Measured:
        """The measurements from the plain values that `as_dict` gives."""
        readings = tuple(
            tuple(ncu.CounterReading(r["kernel"], r["order"], r["values"], tuple(r["missing"])) for r in rs)
            for rs in data["readings"]
        )
        return Measured(readings, tuple(data["failures"]), data["about"])

    @staticmethod
    def none(points: Sequence[ProfilePoint], why: str) -> Measured:
        """No readings for any point, for one reason."""
        return Measured(tuple(() for _ in points), tuple(why for _ in points))


def measure(points: Sequence[ProfilePoint], *, timeout: float = 280.0, profiler: str = "ncu") -> Measured:
    """Runs each point once under Nsight Compute and reads its counters; the result says why a point has none.

    `timeout` is in seconds, `profiler` the command. Raises nothing.
    """
    try:
        torch_with_gpu()
        about = versions()
    except CatdiagError as error:
        return Measured.none(points, error.message)
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(p for p in sys.path if p)}
    start = time.monotonic()
    failures = _tried(points, env, timeout)
    sound = [k for k, failure in enumerate(failures) if not failure]
    readings: list[tuple[ncu.CounterReading, ...]] = [() for _ in points]
    if not sound:
        return Measured(tuple(readings), tuple(failures), about)
    with tempfile.TemporaryDirectory() as folder:
        program, done = _program([points[k] for k in sound], Path(folder))
        remaining = max(1.0, timeout - (time.monotonic() - start))
        found = ncu.profile(program, timeout=remaining, ncu=profiler, env=env)
        rows = json.loads(done.read_text(encoding="utf-8")) if done.is_file() else []
    if found.left_out:
        about["counters that this Nsight Compute lacks"] = ", ".join(found.left_out)
    assigned = shared_out(found.readings, rows, len(sound))
    for k, own, failure in zip(sound, *assigned, strict=True):
        readings[k] = own
        failures[k] = found.unavailable or failure
    return Measured(tuple(readings), tuple(failures), about)


def _program(points: Sequence[ProfilePoint], folder: Path) -> tuple[list[str], Path]:
    """The program that launches each point once, and the file to which it writes what it launched."""
    file, done = folder / "points.json", folder / "done.json"
    file.write_text(json.dumps([p.as_dict() for p in points]), encoding="utf-8")
    return [sys.executable, "-m", "catdiag.measure.profile.profiler_target", str(file), str(done)], done


def _tried(points: Sequence[ProfilePoint], env: Mapping[str, str], timeout: float) -> list[str]:
    """Runs the points without a profiler, which compiles them; gives for each why it cannot be run ("": it can).

    A kernel with an illegal memory access makes its process unusable. The points after it run in another process.
    """
    failures = ["it was not reached in time"] * len(points)
    first, start = 0, time.monotonic()
    while first < len(points) and time.monotonic() - start < timeout / 2:
        with tempfile.TemporaryDirectory() as folder:
            program, done = _program(points[first:], Path(folder))
            try:
                ended = subprocess.run(
                    program, env=dict(env), capture_output=True, text=True, errors="replace", timeout=timeout / 2
                )
            except subprocess.TimeoutExpired:
                return failures
            rows = json.loads(done.read_text(encoding="utf-8")) if done.is_file() else []
        for row in rows:
            failures[first] = str(row["failure"])
            first += 1
            if row["failure"]:
                break
        else:
            if first < len(points):
                last = [line for line in ended.stderr.splitlines() if line.strip()]
                failures[first] = f"the process that ran it ended: {last[-1] if last else ended.returncode}"
                first += 1
    return failures


def shared_out(
    readings: Sequence[ncu.CounterReading], rows: Sequence[Mapping[str, Any]], count: int
) -> tuple[tuple[tuple[ncu.CounterReading, ...], ...], tuple[str, ...]]:
    """Assigns readings, in order of launch, to the points that launched them; other launches are ignored.

    A point with an unread launch gets no readings, since the missing bytes would look like a difference.
    """
    found: list[tuple[ncu.CounterReading, ...]] = []
    failures: list[str] = []
    at = 0
    for number in range(count):
        row = rows[number] if number < len(rows) else {"launched": [], "failure": "the run ended before it"}
        own: list[ncu.CounterReading] = []
        place = at
        for name in row["launched"]:
            while place < len(readings) and readings[place].kernel != name:
                place += 1
            if place < len(readings):
                own.append(readings[place])
                place += 1
        failure = str(row["failure"])
        if not failure and len(own) < len(row["launched"]):
            failure, own = f"the profiler did not read the launch of {row['launched'][len(own)]}", []
        else:
            at = place
        if not failure and not own:
            failure = "it launched no kernel"
        found.append(tuple(own) if not failure else ())
        failures.append(failure)
    return tuple(found), tuple(failures)


# -- comparison ------------------------------------------------------------------------------------------------------


def judged(
    what: str, predicted: float, measured: float | None, causes: Sequence[Cause] = (), kernel: str = "", why: str = ""
) -> CounterLine:
    """A counter beside its prediction, both in bytes, with its status and, for a difference, the causes."""
    if measured is None:
        return CounterLine(what, kernel, predicted, None, UNAVAILABLE, (why or "the profiler gave no number",))
    if _within_tolerance(measured, predicted, predicted):
        return CounterLine(what, kernel, predicted, measured, AGREES)
    low, high = predicted + sum(c.low for c in causes), predicted + sum(c.high for c in causes)
    reasons = tuple(_described(c) for c in causes)
    if causes and (_within_tolerance(measured, low, high) or low <= measured <= high):
        return CounterLine(what, kernel, predicted, measured, EXPLAINED, reasons)
    rest = measured - (high if measured > high else low)
    return CounterLine(what, kernel, predicted, measured, UNEXPLAINED, (*reasons, f"{rest:+,.0f} B left"))


def _within_tolerance(measured: float, low: float, high: float) -> bool:
    return low * (1 - TOLERANCE) <= measured <= high * (1 + TOLERANCE)


def _described(cause: Cause) -> str:
    if cause.low == cause.high:
        return f"{cause.reason}: {cause.low:+,.0f}"
    if cause.low >= 0:
        return f"{cause.reason}: up to {cause.high:,.0f} more"
    if cause.high <= 0:
        return f"{cause.reason}: up to {-cause.low:,.0f} fewer"
    return f"{cause.reason}: {cause.low:+,.0f} to {cause.high:+,.0f}"


def compare(point: ProfilePoint, readings: Sequence[ncu.CounterReading], failure: str = "") -> tuple[CounterLine, ...]:
    """Every counter of a point beside its prediction: for each kernel, then HBM traffic of all kernels together."""
    lines: list[CounterLine] = []
    by_kernel = {k.kernel: [r for r in readings if r.kernel == k.kernel] for k in point.kernels}
    for kernel in point.kernels:
        own = by_kernel[kernel.kernel]
        why = failure or ("" if own else f"{kernel.kernel} was not launched")
        if kernel.loads:
            lines.append(_loads(kernel, own, why))
        if kernel.saves:
            lines.append(_saves(kernel, own, why))
        lines.append(_shared(kernel, own, why))
        lines += _reported(kernel, own, why)
    every = [r for rs in by_kernel.values() for r in rs]
    read_bytes, written_bytes = _sum(every, ncu.HBM_READ), _sum(every, ncu.HBM_WRITTEN)
    between = _between(point)
    lines.append(judged("read from HBM", point.read_bytes, read_bytes, (*point.read_causes, *between), why=failure))
    lines.append(
        judged("written to HBM", point.written_bytes, written_bytes, (*point.written_causes, *between), why=failure)
    )
    return tuple(lines)


def _between(point: ProfilePoint) -> tuple[Cause, ...]:
    """The cause for what one kernel of a point saves for another: it may go to HBM or stay in the cache."""
    if len(point.kernels) < 2:
        return ()
    names = {a.name for a in point.inputs}
    passed = sum(b for k in point.kernels for array, b in k.loads.items() if array not in names)
    return (Cause("what one kernel saves for the next", 0.0, passed),) if passed else ()


def _sum(readings: Sequence[ncu.CounterReading], metric: str) -> float | None:
    found = [r.values.get(metric) for r in readings]
    return None if not found or any(v is None for v in found) else sum(v for v in found if v is not None)


def _loads(kernel: ExpectedCounters, own: Sequence[ncu.CounterReading], why: str) -> CounterLine:
    causes, hits = list(kernel.causes), _sum(own, ncu.L1_HITS)
    if hits:
        causes.append(Cause("found in L1, as the profiler counts", -hits * ncu.SECTOR, 0.0))
    return judged("loads L2 to SM", sum(kernel.loads.values()), _sum(own, ncu.LOADED), causes, kernel.kernel, why)


def _saves(kernel: ExpectedCounters, own: Sequence[ncu.CounterReading], why: str) -> CounterLine:
    stored_sectors = _sum(own, ncu.STORED)
    measured = None if stored_sectors is None else stored_sectors * ncu.SECTOR
    return judged("stores SM to L2", sum(kernel.saves.values()), measured, kernel.save_causes, kernel.kernel, why)


def _shared(kernel: ExpectedCounters, own: Sequence[ncu.CounterReading], why: str) -> CounterLine:
    """Shared memory predicted from the source, beside that of the launch, or of the compiler without a launch."""
    what, name = "shared memory of a block", kernel.kernel
    measured = max((r.values[ncu.SHARED] for r in own if ncu.SHARED in r.values), default=None)
    if measured is None and kernel.compiled is not None:
        measured, what = float(kernel.compiled["shared"]), f"{what}, compiled"
    if kernel.shared is None:
        why_not = kernel.shared_causes or "it is not predicted"
        return CounterLine(what, name, None, measured, UNAVAILABLE if measured is None else REPORTED, (why_not,))
    if measured is None:
        return CounterLine(what, name, kernel.shared, None, UNAVAILABLE, (why or "the profiler gave no number",))
    gap = measured - kernel.shared
    status = AGREES if abs(gap) <= SHARED_TOLERANCE else UNEXPLAINED
    return CounterLine(what, name, kernel.shared, measured, status, () if status == AGREES else (f"{gap:+,.0f} B",))


def _reported(kernel: ExpectedCounters, own: Sequence[ncu.CounterReading], why: str) -> list[CounterLine]:
    """Registers, spills, sectors read from L2, and warps."""
    name, made, lines = kernel.kernel, kernel.compiled, list[CounterLine]()
    registers = max((r.values[ncu.REGISTERS] for r in own if ncu.REGISTERS in r.values), default=None)
    if registers is None and made is not None:
        registers = float(made["registers"])
    status, reasons = (REPORTED, ()) if registers is not None else (UNAVAILABLE, (why,))
    lines.append(CounterLine("registers of a thread", name, None, registers, status, reasons, ""))
    local = [_sum(own, m) for m in (ncu.LOCAL_LOADS, ncu.LOCAL_STORES)]
    if all(v is not None for v in local) and own:
        spilled: float | None = sum(v for v in local if v is not None)
        what = "spills, as instructions that ran"
    else:
        spilled = None if made is None else float(made["spill_stores"] + made["spill_loads"])
        what = "spills of a thread, compiled"
    if spilled is None:
        lines.append(CounterLine(what, name, 0.0, None, UNAVAILABLE, (why or "the profiler gave no number",), ""))
    else:
        reasons = () if not spilled else ("registers are spilled to local memory",)
        lines.append(CounterLine(what, name, 0.0, spilled, UNEXPLAINED if spilled else AGREES, reasons, ""))
    requested = _sum(own, ncu.REQUESTED)
    if requested is not None:
        reasons = ("coalesced requests counted once",)
        lines.append(CounterLine("read from L2", name, None, requested * ncu.SECTOR, REPORTED, reasons))
    for metric, what, unit in ((ncu.MOST_WARPS, "warps at most", "%"), (ncu.WARPS, "warps active", "%")):
        values = [r.values[metric] for r in own if metric in r.values]
        if values:
            lines.append(CounterLine(what, name, None, max(values), REPORTED, (), unit))
    return lines


# -- tables ------------------------------------------------------------------------------------------------------------


def shown(value: float | None, unit: str) -> str:
    """A number for a table: bytes in GB or MB where they are that large.

    >>> shown(4329000000.0, "B"), shown(98304.0, "B"), shown(168.0, ""), shown(None, "B")
    ('4.329 GB', '98,304 B', '168', '')
    """
    if value is None:
        return ""
    if unit != "B":
        return f"{value:,.0f}{' ' + unit if unit else ''}"
    for scale, name in ((1e9, "GB"), (1e6, "MB")):
        if abs(value) >= scale:
            return f"{value / scale:.4g} {name}"
    return f"{value:,.0f} B"


def rows(lines: Sequence[CounterLine]) -> list[tuple[str, str, str, str, str, str]]:
    """The cells of a table: (counter, kernel, predicted, measured, ratio, status and reasons)."""
    found = []
    for line in lines:
        ratio = "" if line.ratio is None else f"{line.ratio:.3f}"
        remark = "; ".join((line.status, *line.reason)) if line.status != REPORTED else "; ".join(line.reason)
        found.append(
            (line.what, line.kernel, shown(line.predicted, line.unit), shown(line.measured, line.unit), ratio, remark)
        )
    return found
