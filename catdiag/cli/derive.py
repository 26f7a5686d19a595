"""`catdiag derive`: rewrites an operator, proves each step, and says what the result costs.

`derive` does the work and gives a `Report`; the report prints itself and knows its plain data.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from catdiag.cli.report import Refused, Report, Way
from catdiag.diagram import Diagram
from catdiag.errors import AxisError, CatdiagError, DoesNotFit, NotGroupable, NotStreamable

if TYPE_CHECKING:
    from catdiag.cost.hardware import Hardware
    from catdiag.cost.io import IO
    from catdiag.cost.optimum import Optimum
    from catdiag.rewrite.derivation import Derivation
    from catdiag.solvers.z3 import Z3

# Sizes at which the memory of several streams is compared when none are given: long axes, tiles of 64.
_GENERIC_SIZE, _GENERIC_TILE = 4096, 64
# Groups that repeat a contraction are taken where they are predicted to need less than this part of the time.
_PAYS = 0.75


@dataclass(frozen=True)
class Target:
    """The chip, the sizes and the element type that a plan is for; `stages` None leaves the choice to the plan."""

    hardware: Hardware
    sizes: Mapping[str, int]
    dtype: str = "bf16"
    stages: int | None = None


def derive(
    diagram: Diagram,
    ask: Z3,
    target: Target | None = None,
    stream: str | None = None,
    group: Sequence[str] | None = None,
) -> Report:
    """Derives the diagram: streams `stream` (or what is best), groups `group` (or all that can be), and costs it.

    Raises NotStreamable or NotGroupable where an axis that was asked for cannot be, AxisError for an unknown one.
    A plan that nothing fits is in the report, as the error that says so.

    >>> from catdiag import library
    >>> from catdiag.solvers.z3 import Z3
    >>> with Z3() as ask:
    ...     report = derive(library.get("sum_of_squares"), ask)
    >>> [step.name for step in report.derivation.steps]
    ['stream x', 'group q']
    """
    from catdiag.rewrite.derivation import Derivation

    start = time.perf_counter()
    refused: list[Refused] = []
    if stream is not None:
        ways = [_grouped(stream, Derivation.start(diagram, ask).stream(stream), group, target)]
    else:
        ways = _all(diagram, ask, group, target, refused)
    chosen = min(ways, key=lambda way: way.measure)
    io = chosen.derivation.io()
    return Report(
        source=diagram,
        chosen=chosen,
        others=tuple(way for way in ways if way is not chosen),
        refused=tuple(refused),
        io=io,
        optimum=_optimum(io),
        seconds=time.perf_counter() - start,
    )


def _optimum(io: IO) -> Optimum | str:
    """The optimum, or the reason why there is none."""
    try:
        return io.optimum()
    except ValueError as error:
        return f"no closed form: {error}"


def _all(
    diagram: Diagram, ask: Z3, group: Sequence[str] | None, target: Target | None, refused: list[Refused]
) -> list[Way]:
    """Every axis that is reduced, streamed and grouped, or noted as refused; grouped alone where none streams."""
    from catdiag.rewrite.derivation import Derivation
    from catdiag.rewrite.strategy import reduced_axes

    ways: list[Way] = []
    for axis in reduced_axes(diagram):
        try:
            streamed = Derivation.start(diagram, ask).stream(axis)
        except NotStreamable as error:
            refused.append(Refused(axis, error.message))
            continue
        ways.append(_grouped(axis, streamed, group, target))
    return ways or [_grouped(None, Derivation.start(diagram, ask), group, target)]


def _grouped(axis: str | None, streamed: Derivation, group: Sequence[str] | None, target: Target | None) -> Way:
    """Grouped over the axes asked for. Else over those that repeat no contraction, or, where a plan says that it
    pays, over all that can be grouped.
    """
    from catdiag.rewrite.group import groupable

    if group is not None:
        return _planned(Way(axis, streamed.group(group) if group else streamed), target)
    axes = groupable(streamed.diagram)
    if not axes:
        return _planned(Way(axis, streamed, "no axis of the results can be grouped"), target)
    once = [a for a in axes if not _repeats(streamed.diagram, a)] if len(axes) > 1 else axes
    try:
        way = _planned(Way(axis, streamed.group(once or axes)), target)
        if target is not None and once and once != axes:
            more = _planned(Way(axis, streamed.group(axes)), target)
            return more if more.measure < _PAYS * way.measure else way
        return way
    except (NotGroupable, AxisError) as error:
        return _planned(Way(axis, streamed, error.message), target)


def _repeats(diagram: Diagram, axis: str) -> bool:
    """Whether groups of an axis each do a contraction that does not depend on it."""
    from catdiag.cost.io import io
    from catdiag.rewrite.group import find

    counted = io(find(diagram, [axis]))
    return bool(set(counted.groups) & counted.work["tensor"].free_symbols)


def _planned(way: Way, target: Target | None) -> Way:
    """With a plan, or the reason why there is none; `measure` is seconds, or values of memory without a target."""
    if target is None:
        return replace(way, measure=_memory(way.derivation))
    options = {} if target.stages is None else {"stages": target.stages}
    try:
        plan = way.derivation.fit(target.hardware, target.sizes, dtype=target.dtype, **options)
    except DoesNotFit as error:
        return replace(way, misfit=error)
    except CatdiagError as error:
        return replace(way, misfit=DoesNotFit(error.message, error.line))
    return replace(way, plan=plan, measure=plan.time_s)


def _memory(derivation: Derivation) -> float:
    """The memory of long axes in blocks and tiles of 64."""
    io = derivation.io()
    tiles = {str(symbol) for symbol in (*io.groups, *io.streams)}
    values = {s: _GENERIC_TILE if str(s) in tiles else _GENERIC_SIZE for s in io.memory.free_symbols}
    return float(io.memory.subs(values))
