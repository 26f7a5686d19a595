"""Lower bounds for schedules without recomputation, by the lifetimes of the values between two contractions.

A value that one contraction passes to another is made and used within one segment, or it is in fast memory at the end
of a segment, or it is saved and loaded. A value made and used within a segment requires whole rows of everything that
either contraction reads and writes there. Take segments in which M enters fast memory, so that `X = 2 M` is available.
At most `F` such values exist in one: with two kinds of rows, `X**2 / (4 D1 D2)`, where D is the size of a row of each
kind. For W values therefore

    Q >= W / (F / M + alike / weight)               (derived in docs/explanation/lower_bounds.md)

A row of several arrays with the same indices comprises all of them: their lengths add up.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

from catdiag.bounds.bound_certificate import BoundError, BoundSource, Powers, at_most, rational, times

Length = tuple[int, tuple[str, ...]]
"""The size of one array's part of a row: bytes per value (or 1), and the indices whose sizes are multiplied."""


@dataclass(frozen=True)
class RowCover:
    """Rows named by the indices `covers`; `lengths` are the parts of each array, all of different `groups`.

    Arrays of one group have values in common.
    """

    covers: tuple[str, ...]
    lengths: tuple[Length, ...]
    groups: tuple[int, ...]


@dataclass(frozen=True)
class Lifetime:
    """Values named by `indices`, the rows needed to make and use one, and exponents with which rows cover the indices.

    The `claim`: F at 2 M is at most `claim * M**sum(powers) / product of lengths**powers`. `symmetric` and `weight` are
    as in `catdiag.bounds.bound_certificate.BoundSource`.
    """

    box: str
    indices: tuple[str, ...]
    rows: tuple[RowCover, ...]
    powers: tuple[int, ...]
    claim: Powers
    symmetric: int = 1
    weight: int = 1


def derive_lifetime(case: Lifetime) -> Powers:
    """The factor that a case proves, whatever it claims. Raises BoundError where it proves none.

    >>> rows = (RowCover(("q",), ((1, ("d",)), (1, ("v",))), (0, 1)), RowCover(("x",), ((1, ("d",)), (1, ("v",))), (2,
    ...     3)))
    >>> derive_lifetime(Lifetime("scores", ("q", "x"), rows, (1, 1), ()))       # 2**2 / 4
    ()
    """
    if len(case.rows) != len(case.powers) or case.symmetric < 1 or case.weight < 1:
        raise BoundError(f"{case.box}: {len(case.rows)} kinds of rows, {len(case.powers)} exponents")
    groups = [g for r in case.rows for g in r.groups]
    if len(set(groups)) != len(groups) or any(len(r.groups) != len(r.lengths) or not r.groups for r in case.rows):
        raise BoundError(f"{case.box}: expected rows of arrays without common values")
    for index in case.indices:
        if not any(index in r.covers and p >= 1 for r, p in zip(case.rows, case.powers, strict=True)):
            raise BoundError(f"{case.box}: index {index} is not covered: expected rows that name it")
    total = sum(case.powers)
    if total < 2 or min(case.powers) < 0:
        raise BoundError(f"{case.box}: exponents {case.powers}: expected natural numbers that add up to 2 at least")
    # prod (y / D)**p subject to sum y <= 2 M is largest at y = 2 M p / total.
    return times(*((rational(Fraction(2 * p, total)), p) for p in case.powers if p))


def check_lifetime(case: Lifetime) -> None:
    """Raises BoundError unless the case proves at least what it claims."""
    shown = derive_lifetime(case)
    if not at_most(shown, case.claim):
        raise BoundError(f"{case.box}: claims that fewer values are live in a segment than is shown")


def lifetimes(box: str, sources: Sequence[BoundSource]) -> Iterator[Lifetime]:
    """The cases of a box that reads a computed value: one for each such operand whose rows are all known."""
    for made in sources:
        if not made.parts or made.other or any(p.other or p.parts for p in made.parts):
            continue
        rows: dict[tuple[str, ...], dict[int, Length]] = {}
        for part in made.parts:
            rows.setdefault(part.covers, {}).setdefault(part.group, (part.weight, part.unprojected))
        for other in sources:
            if other is not made and not other.parts:
                shared = tuple(n for n in other.covers if n in made.covers)
                further = tuple(n for n in other.covers if n not in made.covers)
                if shared:
                    rows.setdefault(_same(shared, rows), {}).setdefault(other.group, (other.weight, further))
        groups = [g for lengths in rows.values() for g in lengths]
        if len(set(groups)) != len(groups) or made.group in groups:
            continue
        kinds = [RowCover(covers, tuple(lengths.values()), tuple(lengths)) for covers, lengths in rows.items()]
        chosen = _cover(made.covers, kinds)
        if chosen is None:
            continue
        case = Lifetime(box, made.covers, tuple(chosen), (1,) * len(chosen), (), made.symmetric, made.weight)
        try:
            shown = derive_lifetime(case)
        except BoundError:
            continue
        yield replace(case, claim=shown)


def _same(covers: tuple[str, ...], rows: Mapping[tuple[str, ...], object]) -> tuple[str, ...]:
    """The known kind of rows that is named by the same indices in any order, else `covers`."""
    return next((known for known in rows if set(known) == set(covers)), covers)


def _cover(indices: Sequence[str], kinds: Sequence[RowCover]) -> list[RowCover] | None:
    """A few kinds of rows that name all indices, chosen greedily by their number of indices; None if there are none."""
    left, chosen = set(indices), list[RowCover]()
    for kind in sorted(kinds, key=lambda k: (-len(k.covers), k.covers)):
        if left & set(kind.covers):
            chosen.append(kind)
            left -= set(kind.covers)
    return None if left else chosen


def lifetime_bound(case: Lifetime, sizes: Mapping[str, Any], capacity: Any, number: Callable[[Fraction], Any]) -> Any:
    """The bound, in values or bytes: a number, or an expression; `number` converts a fraction."""
    factor, points = number(Fraction(1)), number(Fraction(1))
    for base, e in case.claim:
        factor = factor * number(base) ** number(e)
    for index in case.indices:
        points = points * sizes[index]
    inside = factor * capacity ** (sum(case.powers) - 1)
    for rows, power in zip(case.rows, case.powers, strict=True):
        total = 0
        for weight, names in rows.lengths:
            product = number(Fraction(weight))
            for n in names:
                product = product * sizes[n]
            total = total + product
        inside = inside / total**power
    return points / (inside + number(Fraction(case.symmetric, case.weight)))
