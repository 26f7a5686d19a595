"""What to derive when nobody says: which axis to stream and which to group.

Every axis that is reduced and on no output is tried as the stream; of the outputs' axes over which the result is
weaved, those are grouped that make no group repeat a contraction of another. What a derivation is worth (predicted
time, memory) is the caller's to say: a function from derivations to numbers, of which the least is best.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Generic, SupportsFloat, TypeVar

from catdiag.category import op_facts
from catdiag.category.diagram import Diagram, HasDiagram
from catdiag.category.substitution import inline
from catdiag.cost.traffic import io
from catdiag.rewrite.derivation import Derivation, derivation_of
from catdiag.rewrite.group import find, groupable
from catdiag.rewrite.group import group as grouped_by
from catdiag.rewrite.stream.streaming import stream as streamed_over
from catdiag.solvers.z3 import Z3
from catdiag.util.errors import AxisError, NotGroupable, NotStreamable

PAYS = 0.75
"""Groups that repeat a contraction are taken where they measure less than this part of those that repeat none."""

# Sizes at which `memory` compares derivations: long axes, tiles of 64.
_LONG, _TILE = 4096, 64

Worth = TypeVar("Worth", bound=SupportsFloat)
"""What the caller makes of a derivation: a number, or something (a plan, say) that `float` makes one."""


@dataclass(frozen=True)
class StrategyCandidate(Generic[Worth]):
    """A derivation that succeeded: the axis streamed (None: none), its worth, and why nothing was grouped, if so."""

    axis: str | None
    derivation: Derivation
    worth: Worth
    ungrouped: str = ""

    @property
    def name(self) -> str:
        """The attempt in words."""
        return "no stream" if self.axis is None else f"stream {self.axis}"


@dataclass(frozen=True)
class RefusedAxis:
    """An axis that was not streamed, and why."""

    axis: str
    reason: str


def reduced_axes(diagram: Diagram, kept: bool = False) -> list[str]:
    """The axes that some box sums up or otherwise reduces and that are on no output, in order of appearance.

    With `kept`, those that are on an output.

    >>> import catdiag as cd
    >>> reduced_axes(cd.algorithm("q x ->")(lambda A: cd.sum(A, "q x")))
    ['q', 'x']
    """
    outside = {name for ty in diagram.cod for name in ty.names}
    found: dict[str, None] = {}
    for box in inline(diagram).boxes:
        found.update(dict.fromkeys(op_facts.reduced_axes(box)))
    return [name for name in found if (name in outside) == kept]


def memory(derivation: Derivation) -> float:
    """A measure for when there is no chip: the values that long axes (4,096) hold in blocks and tiles of 64."""
    counted = io(derivation.diagram)
    tiles = {str(symbol) for symbol in (*counted.groups, *counted.streams)}
    values = {s: _TILE if str(s) in tiles else _LONG for s in counted.memory.free_symbols}
    return float(counted.memory.subs(values))


def attempts(
    diagram: Diagram | HasDiagram,
    ask: Z3,
    measure: Callable[[Derivation], Worth],
    *,
    stream: str | None = None,
    group: Sequence[str] | None = None,
    pays: float = 0.0,
    passes: int = 1,
) -> tuple[list[StrategyCandidate[Worth]], list[RefusedAxis]]:
    """Every axis that is reduced, streamed and grouped, or refused; grouped alone where none streams.

    Refused too is a loop beside which an array is on chip along all of the axis, unless it is asked for.

    A stream may take up to `passes` loops after each other. A derivation is gone on with.
    With `stream`, that axis only; with `group`, those axes (an empty sequence: none). Else the axes are grouped that
    repeat no contraction, or all where that measures less than the part `pays` of it (see `PAYS`; 0: never).
    Raises NotStreamable or NotGroupable where an axis that was asked for cannot be, AxisError for an unknown one.

    >>> import catdiag as cd
    >>> with Z3() as ask:
    ...     tried, refused = attempts(cd.algorithm("q x ->")(lambda A: cd.sum(A, "q x")), ask, memory)
    >>> [attempt.name for attempt in tried], refused
    (['stream q', 'stream x'], [])
    """
    start = derivation_of(diagram, ask)
    diagram = start.diagram
    if stream is not None:
        return [_grouped(stream, streamed_over(start, stream, passes=passes), measure, group, pays)], []
    tried: list[StrategyCandidate[Worth]] = []
    refused: list[RefusedAxis] = []
    kept = reduced_axes(diagram, kept=True)
    for axis in (*reduced_axes(diagram), *kept):
        if tried and axis in kept:
            continue
        try:
            streamed = streamed_over(start, axis, passes=passes)
        except NotStreamable as error:
            refused.append(RefusedAxis(axis, error.message))
            continue
        retained = next(step.retained for step in reversed(streamed.steps) if step.retained is not None)
        if retained.itself:
            refused.append(RefusedAxis(axis, str(retained)))
            continue
        tried.append(_grouped(axis, streamed, measure, group, pays))
    return tried or [_grouped(None, start, measure, group, pays)], refused


def best(tried: Sequence[StrategyCandidate[Worth]]) -> StrategyCandidate[Worth]:
    """The attempt of least measure; the first of equals."""
    return min(tried, key=lambda attempt: float(attempt.worth))


def _grouped(
    axis: str | None,
    streamed: Derivation,
    measure: Callable[[Derivation], Worth],
    group: Sequence[str] | None,
    pays: float,
) -> StrategyCandidate[Worth]:
    if group is not None:
        derivation = grouped_by(streamed, group) if group else streamed
        return StrategyCandidate(axis, derivation, measure(derivation))
    axes = groupable(streamed.diagram)
    if not axes:
        return StrategyCandidate(axis, streamed, measure(streamed), "no axis of the results can be grouped")
    once = [a for a in axes if not _repeats(streamed.diagram, a)] if len(axes) > 1 else axes
    try:
        derivation = grouped_by(streamed, once or axes)
    except (NotGroupable, AxisError) as error:
        return StrategyCandidate(axis, streamed, measure(streamed), error.message)
    attempt = StrategyCandidate(axis, derivation, measure(derivation))
    if not pays or not once or once == axes:
        return attempt
    try:
        derivation = grouped_by(streamed, axes)
    except (NotGroupable, AxisError):  # not all together: those that were grouped stand
        return attempt
    more = StrategyCandidate(axis, derivation, measure(derivation))
    return more if float(more.worth) < pays * float(attempt.worth) else attempt


def _repeats(diagram: Diagram, axis: str) -> bool:
    """Whether groups of an axis each do a contraction that does not depend on it."""
    counted = io(find(diagram, [axis]))
    return bool(set(counted.groups) & counted.work["tensor"].free_symbols)
