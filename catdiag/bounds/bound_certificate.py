"""Certificates of lower bounds by segments of a schedule, and their checker, which is independent of the search.

A *case* states for one box its points and its sources (see `docs/explanation/lower_bounds.md`): the box runs at each
point of an index space, and each point reads, of each source, the element that some of its indices name. In a segment
of a schedule in which `T` enters fast memory, at most `begins * M + T` elements are available, over all sources
together. The number of points that can run is at most a product of powers of the available amounts (Hölder, Brascamp
and Lieb, for projections; Loomis and Whitney for exponents of one half). From `points <= F(begins * M + T)` with F
convex follows

    Q >= points * T / F(begins * M + T)         for every T > 0     (derived in docs/explanation/lower_bounds.md)

A source may be *made*: an array that is not an input, and whose elements are in fast memory when the segment begins, or
loaded in it, or computed in it, which requires whole rows of its operands. Each combination of these choices is a
*cut*, with a monomial of its own. `check` derives the monomials in rational arithmetic, and compares them with the
claim.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction
from itertools import product

Powers = tuple[tuple[Fraction, Fraction], ...]
"""A positive number as a product of rational powers of positive rationals: (base, exponent)."""
Exponents = tuple[tuple[str, Fraction], ...]


class BoundError(ValueError):
    """A certificate does not show what it claims; the message names the step that fails."""


@dataclass(frozen=True)
class BoundSource:
    """An operand of a point: the element of an array that the indices `covers` name.

    Sources with values in common have the same `group`. `weight` is the least size of an element (1, or bytes).
    `unprojected` are further indices of the array: computing an element of the result requires all elements along them.
    `other` are the remaining indices. An array that is made in the segment is made of `parts`, which cover its indices
    with exponents `powers` (`boxes` are the exponents of the sizes of indices that they do not cover). `symmetric` is
    the largest number of its elements that are one value, by symmetry. `result` is set of what the points make.
    """

    name: str
    covers: tuple[str, ...]
    group: int
    weight: int = 1
    unprojected: tuple[str, ...] = ()
    other: tuple[str, ...] = ()
    parts: tuple[BoundSource, ...] = ()
    powers: tuple[Fraction, ...] = ()
    boxes: Exponents = ()
    symmetric: int = 1
    result: bool = False


@dataclass(frozen=True)
class Monomial:
    """`coefficient * M**capacity * product of sizes of indices to their exponents`."""

    coefficient: Powers
    capacity: Fraction
    sizes: Exponents


@dataclass(frozen=True)
class BoundClaim:
    """A lower bound from its monomials.

    By `kind`: the least of them (`least`), one over the sum of their reciprocals (`together`), or the first less the
    second (`difference`).
    """

    kind: str
    monomials: tuple[Monomial, ...]


@dataclass(frozen=True)
class BoundCase:
    """The points and sources of a box, the exponents that bound the number of points, and the claim.

    `begins` is how many times the capacity is available beside what enters: once, or twice where the elements of the
    result in fast memory at the end of a segment count too. `step` is T in units of the capacity, or None for the T at
    which the two cuts are equal. `symmetric` is the largest number of points that are one product, by symmetry (see
    `BoundSource.symmetric`); `disjoint` are the indices, one of each pair that must differ for that.
    """

    box: str
    indices: tuple[str, ...]
    sources: tuple[BoundSource, ...]
    powers: tuple[Fraction, ...]
    boxes: Exponents
    begins: int
    step: Fraction | None
    claim: BoundClaim
    symmetric: int = 1
    disjoint: tuple[str, ...] = ()


# -- numbers that are products of rational powers ------------------------------------------------------------------


def times(*factors: tuple[Powers, Fraction | int]) -> Powers:
    """The product of such numbers, each raised to an exponent.

    >>> times((((Fraction(2), Fraction(1, 2)),), 2), (((Fraction(3), Fraction(1)),), -1))
    ((Fraction(2, 1), Fraction(1, 1)), (Fraction(3, 1), Fraction(-1, 1)))
    """
    total: dict[Fraction, Fraction] = {}
    for powers, exponent in factors:
        for base, e in powers:
            total[base] = total.get(base, Fraction(0)) + e * exponent
    return tuple(sorted((b, e) for b, e in total.items() if e and b != 1))


def rational(value: Fraction | int) -> Powers:
    """A positive rational as such a number."""
    return ((Fraction(value), Fraction(1)),) if value != 1 else ()


def at_most(left: Powers, right: Powers) -> bool:
    """Whether one such number is at most another, decided exactly.

    >>> at_most(((Fraction(2), Fraction(1, 2)),), rational(Fraction(3, 2)))
    True
    """
    ratio = times((left, 1), (right, -1))
    common = math.lcm(*(e.denominator for _, e in ratio))
    value = Fraction(1)
    for base, e in ratio:
        value *= base ** int(e * common)
    return value <= 1


def approximate(powers: Powers) -> float:
    """Such a number in floating point."""
    return math.exp(sum(float(e) * math.log(base) for base, e in powers))


def sizes_product(*factors: tuple[Exponents, Fraction | int]) -> Exponents:
    """The product of powers of sizes, each raised to an exponent.

    >>> sizes_product(((("a", Fraction(1)),), 2), ((("a", Fraction(2)), ("b", Fraction(1))), -1))
    (('b', Fraction(-1, 1)),)
    """
    total: dict[str, Fraction] = {}
    for exponents, by in factors:
        for name, e in exponents:
            total[name] = total.get(name, Fraction(0)) + e * by
    return tuple(sorted((n, e) for n, e in total.items() if e))


# -- cuts ----------------------------------------------------------------------------------------------------------

Value = tuple[Mapping[int, Fraction], Powers, Exponents]
"""A product of powers of the available amount of each group, times a number and powers of sizes."""


def _segment_bound(source: BoundSource) -> Iterator[Value]:
    """Bounds on the number of available elements of a source: one for each cut."""
    yield {source.group: Fraction(1)}, rational(source.symmetric), ()
    if not source.parts:
        return
    for choice in product(*(list(_segment_bound(part)) for part in source.parts)):
        groups: dict[int, Fraction] = {}
        number, sizes = rational(1), source.boxes
        for part, power, (inner, factor, loop_bounds) in zip(source.parts, source.powers, choice, strict=True):
            if not power:
                continue
            for group, e in inner.items():
                groups[group] = groups.get(group, Fraction(0)) + e * power
            number = times((number, 1), (factor, power))
            rows: Exponents = tuple((index, Fraction(-1)) for index in part.unprojected)
            sizes = sizes_product((sizes, 1), (loop_bounds, power), (rows, power))
        yield groups, number, sizes


def cuts_of(sources: Iterable[BoundSource]) -> int:
    """How many cuts the sources of a case have.

    >>> row = BoundSource("A", ("q",), 0)
    >>> cuts_of([BoundSource("S", ("q", "x"), 1, parts=(row, row), powers=(Fraction(1), Fraction(1))), row])
    2
    """
    return math.prod(1 + (cuts_of(source.parts) if source.parts else 0) for source in sources)


def cuts_in_groups(case: BoundCase) -> Iterator[Value]:
    """The cuts of a case: bounds on its points, each a product of powers of what is available of each group."""
    for choice in product(*(list(_segment_bound(source)) for source in case.sources)):
        exponents: dict[int, Fraction] = {}
        number: Powers = ()
        sizes = case.boxes
        for power, (groups, factor, loop_bounds) in zip(case.powers, choice, strict=True):
            for group, e in groups.items():
                exponents[group] = exponents.get(group, Fraction(0)) + e * power
            number = times((number, 1), (factor, power))
            sizes = sizes_product((sizes, 1), (loop_bounds, power))
        yield {g: e for g, e in exponents.items() if e}, number, sizes


def _groups(source: BoundSource) -> Iterator[int]:
    yield source.group
    for part in source.parts:
        yield from _groups(part)


def _monomials(case: BoundCase) -> list[tuple[Fraction, Powers, Exponents]]:
    """F for each cut, `number * sizes * X**degree`: degree, number and sizes. Raises BoundError."""
    weights: dict[int, int] = {}
    todo = list(case.sources)
    while todo:
        source = todo.pop()
        if source.weight < 1 or source.symmetric < 1:
            raise BoundError(
                f"{source.name}: weight {source.weight}, symmetry {source.symmetric}: expected both to be at least 1"
            )
        weights[source.group] = min(source.weight, weights.get(source.group, source.weight))
        todo.extend(source.parts)
    found = []
    for exponents, number, sizes in cuts_in_groups(case):
        degree = sum(exponents.values(), Fraction(0))
        if degree < 1:
            raise BoundError(f"{case.box}: a cut of degree {degree} is not convex: expected at least 1")
        # prod x_g**e_g subject to sum w_g x_g <= X is largest at x_g = e_g X / (degree w_g), by weighted means.
        peaks = [(((e / (degree * weights[g])), e),) for g, e in exponents.items()]
        found.append((degree, times((number, 1), *((p, 1) for p in peaks)), sizes))
    return found


def _covered(
    what: str, indices: tuple[str, ...], covers: list[tuple[tuple[str, ...], Fraction]], boxes: Exponents
) -> None:
    box = dict(boxes)
    for _, power in (*covers, *boxes):
        if power < 0:
            raise BoundError(f"{what}: a negative exponent")
    for index in indices:
        if sum((p for names, p in covers if index in names), box.get(index, Fraction(0))) < 1:
            raise BoundError(f"{what}: index {index} is not covered: expected exponents that add up to 1")
    for names, _ in covers:
        if not set(names) <= set(indices):
            raise BoundError(f"{what}: a source covers {', '.join(names)}: expected some of {', '.join(indices)}")


def require_sound(case: BoundCase) -> bool:
    """Checks covers and exponents; whether the largest cut bounds the points (otherwise only the sum of cuts does).

    Raises BoundError for what is not covered, and for exponents that the sum of cuts does not allow.
    """
    pairs = [(s.covers, p) for s, p in zip(case.sources, case.powers, strict=True)]
    _covered(case.box, case.indices, pairs, case.boxes)
    seen = [g for s, p in zip(case.sources, case.powers, strict=True) if p for g in _groups(s)]
    best = True
    todo = [(s, p) for s, p in zip(case.sources, case.powers, strict=True) if p]
    while todo:
        source, outer = todo.pop()
        if not source.parts:
            continue
        indices = (*source.covers, *source.unprojected, *source.other)
        _covered(source.name, indices, [(p.covers, e) for p, e in zip(source.parts, source.powers, strict=True)],
                 source.boxes)  # fmt: skip
        # If the array and one of its parts each have a group of their own, memory can be moved from one to the other.
        # The bound is convex along that line, so that it is largest at an end of it: one cut alone.
        own = seen.count(source.group) == 1
        trades = any(
            not p.parts and e >= 1 and seen.count(p.group) == 1
            for p, e in zip(source.parts, source.powers, strict=True)
        )
        best &= own and trades
        if outer > 1 and not (own and trades):
            raise BoundError(f"{source.name}: an exponent {outer} above 1 on cuts that are not separate")
        todo.extend((p, outer * e) for p, e in zip(source.parts, source.powers, strict=True) if e)
    return best


def derive(case: BoundCase) -> BoundClaim:
    """The bound that the points, sources and exponents of a case prove, whatever it claims.

    Raises BoundError where they prove none.

    >>> sides = (BoundSource("A", ("i", "k"), 0), BoundSource("B", ("k", "j"), 1), BoundSource("C", ("i", "j"), 2))
    >>> half, none = Fraction(1, 2), BoundClaim("least", ())
    >>> case = BoundCase("product", ("i", "j", "k"), sides, (half,) * 3, (), 1, Fraction(2), none)
    >>> found = derive(case).monomials[0]
    >>> approximate(found.coefficient), found.capacity, [n for n, e in found.sizes if e == 1]
    (2.0, Fraction(-1, 2), ['i', 'j', 'k'])
    """
    if case.begins not in (1, 2) or case.symmetric < 1 or len(case.powers) != len(case.sources):
        raise BoundError(
            f"{case.box}: begins {case.begins}, symmetry {case.symmetric}, {len(case.powers)} exponents: expected "
            f"1 or 2, "
            f"1 or more, and {len(case.sources)}"
        )
    best = require_sound(case)
    cuts = _monomials(case)
    points: Exponents = tuple((i, Fraction(1)) for i in case.indices)
    share = rational(Fraction(1, case.symmetric))
    if case.step is None:
        return BoundClaim("difference", _crossing(case, cuts, points, best))
    if case.step <= 0:
        raise BoundError(f"{case.box}: a step of {case.step}: expected a positive one")
    found = []
    for degree, number, sizes in cuts:
        reach = rational(case.begins + case.step)
        coefficient = times((share, 1), (rational(case.step), 1), (number, -1), (reach, -degree))
        found.append(Monomial(coefficient, 1 - degree, sizes_product((points, 1), (sizes, -1))))
    return BoundClaim("least" if best or len(found) == 1 else "together", tuple(found))


def _crossing(
    case: BoundCase, cuts: list[tuple[Fraction, Powers, Exponents]], points: Exponents, best: bool
) -> tuple[Monomial, Monomial]:
    """The bound at the T where two cuts are equal: X = (F1/F2 without X)**(1/(degree2 - degree1)), T = X - M."""
    if len(cuts) != 2 or not best or cuts[0][0] == cuts[1][0]:
        raise BoundError(f"{case.box}: expected two cuts of different degrees")
    (low, first, small), (high, second, large) = sorted(cuts, key=lambda cut: cut[0])
    power = 1 / (high - low)
    number, sizes = times((first, power), (second, -power)), sizes_product((small, power), (large, -power))
    share = rational(Fraction(1, case.symmetric))
    gain = Monomial(
        times((share, 1), (first, -1), (number, 1 - low)),
        Fraction(0),
        sizes_product((points, 1), (small, -1), (sizes, 1 - low)),
    )
    loss = Monomial(
        times((share, 1), (rational(case.begins), 1), (first, -1), (number, -low)),
        Fraction(1),
        sizes_product((points, 1), (small, -1), (sizes, -low)),
    )
    return gain, loss


def check(case: BoundCase) -> None:
    """Raises BoundError unless the case proves at least what it claims."""
    shown = derive(case)
    claimed = case.claim
    if claimed.kind != shown.kind or len(claimed.monomials) != len(shown.monomials):
        raise BoundError(f"{case.box}: claims {claimed.kind} of {len(claimed.monomials)}, shown is {shown.kind}")
    for k, (mine, theirs) in enumerate(zip(claimed.monomials, shown.monomials, strict=True)):
        if (mine.capacity, mine.sizes) != (theirs.capacity, theirs.sizes):
            raise BoundError(f"{case.box}: claims other exponents than are shown")
        left, right = mine.coefficient, theirs.coefficient
        if not (at_most(right, left) if claimed.kind == "difference" and k else at_most(left, right)):
            raise BoundError(f"{case.box}: claims {approximate(left):.6g} where {approximate(right):.6g} is shown")


# -- numbers -------------------------------------------------------------------------------------------------------


def evaluate(case: BoundCase, sizes: Mapping[str, int], capacity: Fraction) -> Fraction | float:
    """The claimed bound at these sizes of its indices: a fraction where that is exact, else a float rounded down."""
    values = [_value(m, sizes, capacity) for m in case.claim.monomials]
    result: Fraction | float
    if case.claim.kind == "least":
        result = min(values)
    elif case.claim.kind == "together":
        result = _down(1 / sum(1 / float(v) for v in values))
    else:
        result = _down(float(values[0])) - float(values[1]) * (1 + _SLACK)
    left = 1 - sum((Fraction(1, sizes[n]) for n in case.disjoint), Fraction(0))
    if isinstance(result, Fraction) or left == 1:
        return result * left if isinstance(result, Fraction) else result
    return _down(float(result) * float(left)) if left > 0 else Fraction(0)


_SLACK = 1e-12


def _down(value: float) -> float:
    return value * (1 - _SLACK)


def _value(monomial: Monomial, sizes: Mapping[str, int], capacity: Fraction) -> Fraction | float:
    factors = [*monomial.coefficient, (capacity, monomial.capacity)]
    factors += [(Fraction(sizes[n]), e) for n, e in monomial.sizes]
    common = math.lcm(*(e.denominator for _, e in factors))
    value = Fraction(1)
    for base, e in factors:
        value *= base ** int(e * common)
    top, bottom = _root(value.numerator, common), _root(value.denominator, common)
    if top is not None and bottom is not None:
        return Fraction(top, bottom)
    return _down(math.exp((math.log(value.numerator) - math.log(value.denominator)) / common))


def _root(value: int, degree: int) -> int | None:
    """The integer root of a natural number, or None where it is not an integer."""
    low, high = 0, 1 << (value.bit_length() // degree + 1)
    while low < high:
        middle = (low + high) // 2
        if middle**degree < value:
            low = middle + 1
        else:
            high = middle
    return low if low**degree == value else None
