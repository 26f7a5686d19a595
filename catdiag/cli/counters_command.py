"""`catdiag counters`: what a profiler counts for an operator's kernel, compared with the formulas."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Any

from catdiag.cli.exit_status import DONE, NothingDerived, UsageError
from catdiag.cli.operator_loading import operator
from catdiag.cli.option_values import check_sizes, check_writable, integers_of, parse_sizes
from catdiag.frontend.signature import axis_names
from catdiag.util.errors import CatdiagError
from catdiag.util.files import write_whole

if TYPE_CHECKING:
    from catdiag.cli.command_options import CounterArgs
    from catdiag.measure.profile.counter_comparison import CounterLine, Measured
    from catdiag.measure.profile.expected_counters import ProfilePoint
    from catdiag.rewrite.derivation import Derivation

_HEAD = ("counter", "kernel", "predicted", "measured", "ratio", "")


def run_counters(request: CounterArgs) -> int:
    """Runs `catdiag counters` and returns 0, even if counters are unavailable, which is reported. Raises CatdiagError
    for what cannot be derived, planned or emitted."""
    from catdiag.measure.profile.counter_comparison import compare, measure

    check_writable(request.json)
    if request.warps is not None and (request.warps < 1 or request.warps & (request.warps - 1) or request.warps > 32):
        raise UsageError(f"warps is {request.warps}: expected a power of two, 1 to 32")
    derivation, point = _point(request)
    measured = measure([point])
    lines = compare(point, measured.readings[0], measured.failures[0])
    print("\n".join(report_lines(derivation, point, measured, lines)))
    if request.json is not None:
        data = {"point": point.as_dict(), "measured": measured.as_dict(), "lines": [asdict(line) for line in lines]}
        try:
            write_whole(request.json, json.dumps(data, ensure_ascii=False, indent=1) + "\n")
        except OSError as error:
            raise UsageError(f"cannot write {request.json}: {error.strerror or error}") from error
    return DONE


def _point(request: CounterArgs) -> tuple[Derivation, ProfilePoint]:
    from catdiag.chip import hardware
    from catdiag.cli.derive_report_data import DeriveRequest, DeriveTarget, derive
    from catdiag.cost.traffic import io
    from catdiag.measure.profile.expected_counters import point_of
    from catdiag.planner.multi_kernel_plan import one_kernel
    from catdiag.planner.partition import plan
    from catdiag.solvers.z3 import borrowed

    sizes, given, chip = parse_sizes(request.size), parse_sizes(request.tiles), hardware.get(request.on)
    with borrowed() as ask:
        ask.start()
        diagram = operator(request.op)
        scalars = {n: sizes.pop(n) for n in integers_of(diagram) if n in sizes}
        lengths = check_sizes(diagram, sizes)
        report = derive(
            diagram,
            ask,
            DeriveTarget(chip, lengths, request.dtype, request.stages, scalars),
            DeriveRequest(
                request.stream,
                None if request.group is None else axis_names(request.group),
                request.passes,
                request.split,
                request.skip,
            ),
        )
    derivation = report.derivation
    if not derivation.steps:
        raise NothingDerived("no axis can be streamed or grouped, so there is no kernel to measure")
    counted = io(derivation)
    wanted = {str(s) for s in (*counted.groups, *counted.streams)}
    unknown = [name for name in given if name not in wanted | {"p_" + a for a in request.split}]
    if unknown:
        raise UsageError(f"there is no tile {unknown[0]!r}: expected one of {', '.join(sorted(wanted))}")
    options: dict[str, Any] = {"tiles": given or None, "stages": request.stages}
    options["threads"] = None if request.warps is None else chip.warp * request.warps
    found = plan(derivation, chip, {**lengths, **scalars}, dtype=request.dtype, **options)
    found.written()
    kernel = one_kernel(found)
    tiles, stages, warps, specialized = dict(kernel.tiles), kernel.stages, kernel.warps, kernel.warp_specialized
    try:
        return derivation, point_of(
            derivation, tiles, lengths, request.dtype, stages=stages, warps=warps, scalars=scalars, chip=request.on,
            compile_too=True, specialized=specialized,
        )  # fmt: skip
    except CatdiagError as error:
        if "not installed" not in error.message:
            raise
        return derivation, point_of(
            derivation, tiles, lengths, request.dtype, stages=stages, warps=warps, scalars=scalars, chip=request.on,
            specialized=specialized,
        )  # fmt: skip


def report_lines(derivation: Any, point: ProfilePoint, measured: Measured, lines: Sequence[CounterLine]) -> list[str]:
    """The printed text: the steps, the tiles, and the table."""
    from catdiag.measure.profile.counter_comparison import UNAVAILABLE, rows

    sizes = ", ".join(f"{n} {v:,}" for n, v in point.sizes.items())
    options = ", ".join(f"{n} {v}" for n, v in point.options.items())
    found = [f"{point.operator}: {sizes}; {point.dtype}", f"  {options}"]
    if measured.failures[0]:
        found.append(f"counters are unavailable here: {measured.failures[0]}")
        found.append("what is predicted:")
    found += [f"  {name}: {value}" for name, value in measured.about.items()]
    shown = [line for line in lines if _says(line, measured)]
    if measured.failures[0]:
        shown = [line if line.status != UNAVAILABLE else replace(line, reason=()) for line in shown]
    table = [_HEAD, *rows(shown)]
    widths = [max(len(row[k]) for row in table) for k in range(5)]
    for row in table:
        cells = [row[0].ljust(widths[0]), row[1].ljust(widths[1]), *(row[k].rjust(widths[k]) for k in (2, 3, 4))]
        found.append("  ".join([*cells, row[5]]).rstrip())
    return found


def _says(line: CounterLine, measured: Measured) -> bool:
    """Whether a line of the table has a measured value."""
    return not measured.failures[0] or line.predicted is not None or line.measured is not None
