"""Assumptions about sizes: small sizes that meet them, and whether they are stronger than the user may have meant.

A theorem under contradictory assumptions is about nothing. One under assumptions that leave only 0 or 1 for a size is
about scalars. Both are errors that name the assumption, unless an equation asks for exactly that size.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from fractions import Fraction
from itertools import product
from math import ceil, floor
from typing import TYPE_CHECKING, Any

from catdiag.category.types import show
from catdiag.kernel.checker import condition
from catdiag.kernel.terms import FALSE
from catdiag.prover.export import size_of_data
from catdiag.util.errors import CatdiagError

if TYPE_CHECKING:
    from catdiag.kernel.context import Ask

Assumption = Sequence[Any]
"""`[op, size, size]` with op one of lt, le, eq, as core programs have it."""

_SMALL = (0, 1, 2, 3, 4)
_LARGEST = 4096
_WORK = 20_000


_SIGNS = {"lt": "<", "le": "<=", "eq": "=="}


class OfSizes(str):
    """An assumption that is known to be about sizes: the text for people, and `condition` for programs.

    >>> OfSizes.of(["le", ["+", "m", 1], "n"])
    'm + 1 <= n'
    """

    condition: Assumption

    def __new__(cls, text: str, condition: Assumption) -> OfSizes:
        made = super().__new__(cls, text)
        made.condition = condition
        return made

    def __getnewargs__(self) -> tuple[str, Assumption]:  # type: ignore[override]
        return str(self), self.condition

    @classmethod
    def of(cls, condition: Assumption) -> OfSizes:
        """The assumption of this meaning."""
        op, left, right = condition
        return cls(f"{show(size_of_data(left))} {_SIGNS[op]} {show(size_of_data(right))}", condition)


class AssumptionError(CatdiagError, ValueError):
    """An assumption that does not parse, that no sizes meet, or that leaves only 0 or 1 for a size."""


def symbols_of(s: Any) -> set[str]:
    """The size symbols in a size, or in an assumption."""
    if isinstance(s, (list, tuple)):
        return set().union(*(symbols_of(a) for a in s[1:]))
    return {s} if isinstance(s, str) else set()


def size_value(s: Any, sizes: Mapping[str, int]) -> int:
    """The value of a size of a core program."""
    if isinstance(s, (list, tuple)):
        a, b = size_value(s[1], sizes), size_value(s[2], sizes)
        return a + b if s[0] == "+" else a * b
    return s if isinstance(s, int) else sizes[s]


def holds(c: Assumption, sizes: Mapping[str, int]) -> bool:
    """Whether an assumption is met.

    >>> holds(["le", ["*", 2, "m"], "n"], {"m": 3, "n": 6})
    True
    """
    a, b = size_value(c[1], sizes), size_value(c[2], sizes)
    return a < b if c[0] == "lt" else a <= b if c[0] == "le" else a == b


def _boundary_values(c: Assumption, name: str, sizes: Mapping[str, int]) -> set[int]:
    """Values of one symbol near the boundary of an assumption, for given values of the other symbols."""

    def gap(v: int) -> int:
        here = {**sizes, name: v}
        return size_value(c[1], here) - size_value(c[2], here)

    zero, one, two = gap(0), gap(1), gap(2)
    if two - one == one - zero:
        if one == zero:
            return set()
        at = Fraction(zero, zero - one)
        return {v for v in (floor(at), ceil(at), floor(at) - 1, ceil(at) + 1) if 0 <= v <= _LARGEST}
    return {v for v in range(65) if gap(v) == 0 or (gap(v) < 0) != (gap(v + 1) < 0)} | {64}


def meeting(
    symbols: Sequence[str], assume: Sequence[Assumption], least: int = 0, hints: Sequence[int] = (), count: int = 60
) -> list[dict[str, int]]:
    """Sizes that meet the assumptions, each at least `least`, the smallest first, at most `count`.

    `hints` are further numbers to try besides the smallest. The search is bounded: an empty result proves nothing.

    >>> meeting(["n", "m"], [["le", 7, "n"], ["eq", "n", ["*", 2, "m"]]], count=2)
    [{'n': 8, 'm': 4}, {'n': 10, 'm': 5}]
    """
    own: dict[str, list[int]] = {}
    for s in symbols:
        alone = [c for c in assume if symbols_of(c) == {s}]
        found = {*_SMALL, *hints, *(v for c in alone for v in _boundary_values(c, s, {}))}
        top = max((v for c in alone for v in _boundary_values(c, s, {})), default=0)
        found |= {top + 1, top + 2} if top >= max(_SMALL) else set()
        own[s] = sorted(v for v in found if v >= least and all(holds(c, {s: v}) for c in alone))
    joint = [c for c in assume if len(symbols_of(c)) > 1]
    if any(not holds(c, {}) for c in assume if not symbols_of(c)):
        return []
    bound = sorted(set().union(*(symbols_of(c) for c in joint)), key=lambda s: (s not in symbols, s))
    together = _together(bound, own, joint, assume, least)
    free = [s for s in symbols if s not in bound]
    loose = list(_free(free, own))
    found_sizes = [{s: {**a, **b}[s] for s in symbols} for a in together for b in loose]
    return sorted(found_sizes, key=lambda v: (sum(v.values()), list(v.values())))[:count]


def _free(names: Sequence[str], own: Mapping[str, Sequence[int]]) -> Iterator[dict[str, int]]:
    """Values of the symbols that no joint assumption mentions."""
    if any(not own[s] for s in names):
        return
    if len(names) <= 5:
        for chosen in product(*(own[s][: 5 if len(names) < 4 else 3] for s in names)):
            yield dict(zip(names, chosen, strict=True))
        return
    # Too many to combine: all of them equal, then one of them larger.
    for k in range(3):
        yield {s: own[s][min(k, len(own[s]) - 1)] for s in names}
    for s in names:
        for v in own[s][1:3]:
            yield {**{t: own[t][0] for t in names}, s: v}


def _together(
    names: Sequence[str],
    own: Mapping[str, Sequence[int]],
    joint: Sequence[Assumption],
    assume: Sequence[Assumption],
    least: int,
) -> list[dict[str, int]]:
    """Values of the symbols that joint assumptions mention, by a search that solves for the last symbol."""
    if not names:
        return [{}]
    found: dict[tuple[int, ...], dict[str, int]] = {}
    work = [0]

    def extend(sizes: dict[str, int], order: Sequence[str]) -> None:
        left = [s for s in order if s not in sizes]
        if not left:
            found.setdefault(tuple(sizes[s] for s in names), sizes)
            return
        # A symbol that is determined by the others comes first.
        last = {s: [c for c in joint if symbols_of(c) - set(sizes) == {s}] for s in left}
        chosen = min(left, key=lambda s: (not any(c[0] == "eq" for c in last[s]), -len(last[s]), order.index(s)))
        boundary = {v for c in last[chosen] for v in _boundary_values(c, chosen, sizes)}
        alone = own.get(chosen, ())
        for v in sorted({*alone, *(t for t in boundary if t >= least)}):
            work[0] += 1
            if work[0] > _WORK or len(found) >= 200:
                return
            here = {**sizes, chosen: v}
            known = [c for c in assume if symbols_of(c) <= set(here) and chosen in symbols_of(c)]
            if all(holds(c, here) for c in known):
                extend(here, order)

    for order in (names, names[::-1]):
        extend({}, order)
        if len(found) >= 200:
            break
    return sorted(found.values(), key=lambda v: (sum(v.values()), [v[s] for s in names]))[:80]


def check(ask: Ask, symbols: Sequence[str], assume: Sequence[Assumption], texts: Mapping[int, str]) -> None:
    """Raises AssumptionError where no sizes meet the assumptions, or they leave only 0 or 1 for a size.

    `texts` gives the user's assumptions by their place in `assume`; the others are implicit.
    """
    if not texts:
        return
    if meeting(symbols, assume, least=2, count=1):
        return

    def impossible(parts: Sequence[int], more: Sequence[Assumption] = ()) -> bool:
        chosen = [assume[k] for k in range(len(assume)) if k not in texts or k in parts]
        return ask([condition(c) for c in (*chosen, *more)], FALSE)

    places = sorted(texts)
    if not meeting(symbols, assume, count=1) and impossible(places):
        blame = _minimal(places, impossible)
        names = sorted(set().union(*(symbols_of(assume[k]) for k in blame)))
        raise AssumptionError(
            f"no sizes meet the assumption{'s' if len(blame) > 1 else ''} {_list([texts[k] for k in blame])}: there is "
            f"no size {_list(names)} (every axis has at least one index, unless it is assumed that it may be empty, as "
            "in 'x >= 0')"
        )
    for s in symbols:
        if any(assume[k][0] == "eq" and s in assume[k][1:] and set(assume[k][1:]) & {0, 1} for k in places):
            continue
        if meeting(symbols, [*assume, ["le", 2, s]], count=1):
            continue
        large: list[Assumption] = [["le", 2, s]]
        if impossible(places, large):
            blame = _minimal(places, lambda parts, large=large: impossible(parts, large))  # type: ignore[misc]
            named = _list([texts[k] for k in blame])
            verb = f"s {named} leave" if len(blame) > 1 else f" {named} leaves"
            raise AssumptionError(f"the assumption{verb} size {s} only 0 or 1: if that is meant, assume '{s} == 1'")


def _minimal(places: Sequence[int], impossible: Callable[[Sequence[int]], bool]) -> list[int]:
    """A minimal contradictory subset of the assumptions."""
    kept = list(places)
    for k in places:
        fewer = [j for j in kept if j != k]
        if fewer and impossible(fewer):
            kept = fewer
    return kept


def _list(parts: Sequence[str]) -> str:
    return ", ".join(parts[:-1]) + (" and " if len(parts) > 1 else "") + parts[-1] if parts else ""


__all__ = ["AssumptionError", "check", "holds", "meeting", "size_value", "symbols_of"]
