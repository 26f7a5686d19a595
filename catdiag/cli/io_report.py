"""`catdiag io`: transfers and memory, and the least transfers for a memory capacity; as text, LaTeX or JSON."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from catdiag.cli.derive_report import type_of
from catdiag.cli.exit_status import UsageError
from catdiag.cost.level_formulas import LevelsIO
from catdiag.cost.traffic import IO

if TYPE_CHECKING:
    from catdiag.bounds.lower_bound import LowerBound
    from catdiag.category.diagram import Diagram
    from catdiag.chip.hierarchy import Hierarchy
    from catdiag.optimum.minimize import Optimum
    from catdiag.optimum.regimes import Regimes
    from catdiag.rewrite.derivation import Derivation
    from catdiag.solvers.z3 import Z3


_LONGEST = 480
"""Characters of a line of text above which a formula is truncated; the JSON has all of it."""
_REGIMES = 8
"""Lines of regimes that are printed in full."""
_SHOWN = 5
"""Of more lines, how many regimes are printed, by their values, with the word where to find the rest."""


@dataclass(frozen=True)
class Costs:
    """The results of `catdiag io`: the operator, the form whose lower bound is taken, the steps to the form that is
    counted, and the costs of both."""

    operator: Diagram
    bounded: Diagram
    steps: tuple[str, ...]
    counted: IO | LevelsIO
    dtype: str | None = None

    def optima(self) -> Iterator[tuple[str, Optimum | str]]:
        """The least transfers, by the level that is filled, or the reason why there is no formula."""
        if isinstance(self.counted, IO):
            yield "memory", _attempt(self.counted.optimum)
            return
        for level in self.counted.groups:
            if self.counted.groups[level]:
                yield level, _attempt(self.counted.optimum, level)

    def bounds(self) -> Iterator[tuple[str, LowerBound]]:
        """Lower bounds for the operator's own scalar operations, by level: for a memory with the capacity of all levels
        below."""
        from catdiag.bounds.lower_bound import lower_bound

        if isinstance(self.counted, IO):
            yield "memory", lower_bound(self.bounded, self.counted.capacity, dtype=self.dtype)
            return
        for level in self.counted.groups:
            if self.counted.bounded(level):
                yield level, lower_bound(self.bounded, self.counted.reach(level), dtype=self.dtype)

    def ratio(self, level: str, bound: LowerBound, optimum: Optimum | str | None) -> Any:
        """The least transfers divided by the bound, if both are for one memory; else None."""
        last = "memory" if isinstance(self.counted, IO) else list(self.counted.groups)[-1]
        if level != last or optimum is None or isinstance(optimum, str):
            return None
        if optimum.leading is None and optimum.exact is None:
            return None
        return bound.ratio(optimum)

    def lines(self) -> Iterator[str]:
        """As text."""
        yield type_of(self.operator)
        if self.steps and isinstance(self.counted, LevelsIO):
            yield ", ".join(self.steps)
        yield str(self.counted)
        optima = dict(self.optima())
        for level, optimum in optima.items():
            if isinstance(self.counted, IO):
                if not self.counted.groups:
                    continue
                yield "least transfers, without rounding"
            else:
                yield f"least from {self.counted.edge(level).upper} to {level}, by itself, without rounding"
            yield from (f"  {line}" for line in str(optimum).splitlines())
            if not isinstance(optimum, str) and optimum.program is not None:
                yield "  regimes"
                yield from (f"    {line}" for line in _regimes_in_short(optimum.regimes))
        told: tuple[str, ...] = ()
        for level, bound in self.bounds():
            if isinstance(self.counted, IO):
                yield f"at least, if the memory holds {bound.capacity}"
            else:
                upper = self.counted.edge(level).upper
                yield f"at least from {upper} to {level}, if all from {level} down holds {bound.capacity}"
            said = str(bound).splitlines()
            if bound.assumptions and bound.assumptions == told:
                said = [*said[: -len(told)], "  for schedules as above"]
            told = bound.assumptions
            yield from (f"  {line}" for line in said)
            ratio = self.ratio(level, bound, optima.get(level))
            if ratio is not None:
                yield f"  the least above is so many times that: {ratio}"

    def as_dict(self) -> dict[str, Any]:
        """As plain values, formulas as text."""
        optima = dict(self.optima())
        return {
            "operator": self.operator.title or "",
            "type": type_of(self.operator),
            "steps": list(self.steps),
            "io": self.counted.as_dict(),
            "optimum": {level: optimum_as_dict(found) for level, found in optima.items()},
            "lower_bound": {
                level: {**bound.as_dict(), "ratio": None if ratio is None else str(ratio)}
                for level, bound in self.bounds()
                for ratio in [self.ratio(level, bound, optima.get(level))]
            },
        }

    def text(self, latex: bool, as_json: bool) -> str:
        """The text, in the requested format."""
        if as_json:
            return json.dumps(self.as_dict(), ensure_ascii=False, indent=1)
        if latex:
            from catdiag.cost.latex import latex as written

            return written(self.counted)
        return "\n".join(_truncated(line) for text in self.lines() for line in text.splitlines())


def _truncated(line: str) -> str:
    """A line; if it is very long, the beginning of its formula."""
    if len(line) <= _LONGEST:
        return line
    end = max(line.rfind(mark, 0, _LONGEST) for mark in (" + ", " - ", ", ", " "))
    return f"{line[: end if end > 0 else _LONGEST]} … ({len(line) - end} characters more: --json has all)"


def _regimes_in_short(regimes: Regimes) -> Iterator[str]:
    """The regimes as text. If there are many, without the tiles and conditions of each."""
    written = [str(regime).splitlines() for regime in regimes]
    if sum(map(len, written)) <= _REGIMES:
        yield from (line for lines in written for line in lines)
    else:
        yield from (lines[0] for lines in written[:_SHOWN])
        more = f"{len(written) - _SHOWN} more, and " if len(written) > _SHOWN else ""
        yield f"{more}at which tiles and if: see --json"
    first, *others = (*regimes.open, "")
    if first:
        more = f", and {len(others) - 1} others: see --json" if len(others) > 1 else ""
        yield f"no closed form: {first}{more}"
    if not regimes.covers:
        yield "not shown to cover all sizes"


def _attempt(optimum: Callable[..., Optimum], *level: str) -> Optimum | str:
    try:
        return optimum(*level)
    except ValueError as error:  # transfers or memory are not posynomials
        return f"no formula: {error}"


def optimum_as_dict(optimum: Optimum | str) -> dict[str, Any]:
    """The least transfers as plain values. `regimes` are those of the exact form."""
    if isinstance(optimum, str):
        return {"leading": None, "exact": None, "reason": optimum, "regimes": [], "covers": False, "open": []}

    def sizes(tiles: Mapping[Any, Any]) -> dict[str, str]:
        return {str(tile): str(size) for tile, size in tiles.items()}

    found: dict[str, Any] = {
        "leading": None if optimum.leading is None else str(optimum.leading),
        "leading_tiles": sizes(optimum.leading_tiles),
        "leading_conditions": [str(c) for c in optimum.leading_conditions],
        "exact": None if optimum.exact is None else str(optimum.exact),
        "tiles": sizes(optimum.tiles),
        "conditions": [str(c) for c in optimum.conditions],
        "reason": optimum.reason,
        "regimes": [],
        "covers": False,
        "open": [],
    }
    if optimum.program is not None:
        regimes = optimum.regimes
        found["covers"], found["open"] = regimes.covers, list(regimes.open)
        found["regimes"] = [
            {
                "value": str(r.value) if r.feasible else None,
                "binding": r.binding,
                "tiles": sizes(r.tiles),
                "conditions": [str(c) for c in r.conditions],
            }
            for r in regimes
        ]
    return found


def chain_of(levels: str | None, on: str | None) -> tuple[str, ...] | Hierarchy | None:
    """The requested levels: of a chip, all or those that are named; or by name only. Raises CatdiagError."""
    from catdiag.cost.traffic_by_level import chain_of as checked

    names = None if levels is None else tuple(n for part in levels.split(",") if (n := part.strip()))
    found: tuple[str, ...] | Hierarchy | None = names
    if on is not None:
        from catdiag.chip import hardware

        whole = hardware.get(on).hierarchy
        found = whole if names is None else whole.chain(*names)
    if found is not None:
        checked(found)
    return found


def placement_of(texts: Sequence[str]) -> dict[str, str | tuple[str, ...]]:
    """The levels of arrays of each role, from texts such as `operand=SMEM` or `streamed=SMEM+registers`.

    >>> placement_of(["operand=SMEM", "streamed=SMEM+registers"])
    {'operand': ('SMEM',), 'streamed': ('SMEM', 'registers')}
    """
    found: dict[str, str | tuple[str, ...]] = {}
    for text in texts:
        role, equals, places = (part.strip() for part in text.partition("="))
        if not role or not equals or not places:
            raise UsageError(f"cannot read the placement {text!r}: expected role=levels, as in --place operand=SMEM")
        if role in found:
            raise UsageError(f"the placement of {role} is given twice: give it once, as in streamed=SMEM+registers")
        found[role] = tuple(p.strip() for p in places.split("+"))
    return found


def best_of(
    diagram: Diagram, ask: Z3, stream: str | None = None, group: Sequence[str] | None = None, passes: int = 1
) -> Derivation:
    """The operator, streamed and grouped as is best where the options do not say how: with least memory, as `catdiag
    derive` does."""
    from catdiag.planner.derivation_search import attempts, best, memory

    tried, _ = attempts(diagram, ask, memory, stream=stream, group=group, passes=passes)
    return best(tried).derivation
