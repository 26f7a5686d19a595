"""Certificates of bounds that add up over several boxes, and their checker.

Several cases (`catdiag.bounds.bound_certificate`) share one fast memory. Sources of different cases that have values in
common are of one group, x_g families of which are at hand in a segment, with Σ w_g x_g ≤ X = begins·M + T over all
groups. The points of case i are at most a sum over its cuts k of c_ik ∏ x_g^e_ikg. A group may be *owned* by one of the
cases. Let p_ik be the sum of the exponents of the groups that i owns, y_i what of X they take, and Y = Σ y_i. If
p_ik ≥ 1, then c_ik ∏ x_g^e_ikg ≤ (y_i / Y)·g_ik, where g_ik is the cut with Y in the place of what is owned by any
case. So with weights λ_i, the sum over i and over such cuts of λ_i times the points is at most the largest of
λ_i Σ_k g_ik, since Σ y_i / Y = 1. With F_ik the largest that g_ik can be, and λ_i = 1 / Σ_k F_ik(begins·M + T),

    Q >= T · Σ_i points_i λ_i / (1 + Σ λ_i F_ik over the cuts with p_ik < 1)

(`docs/explanation/lower_bounds.md`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

from catdiag.bounds.bound_certificate import (
    BoundCase,
    BoundError,
    BoundSource,
    Exponents,
    Monomial,
    Powers,
    approximate,
    cuts_in_groups,
    rational,
    require_sound,
    sizes_product,
    times,
)


@dataclass(frozen=True)
class JointCase:
    """Cases of different boxes whose points are counted together.

    Groups have one numbering for all cases; names of indices differ from case to case. `owners` are pairs of a group
    and the place of the case that owns it. `begins` and `step` are as in BoundCase, for all.
    """

    cases: tuple[BoundCase, ...]
    owners: tuple[tuple[int, int], ...]
    begins: int
    step: Fraction


@dataclass(frozen=True)
class JointShare:
    """What a segment has of a case at most, relative to its points: the sum of `main`, and of `further`, the cuts of
    which it owns too little."""

    box: str
    main: tuple[Monomial, ...]
    further: tuple[Monomial, ...]


def derive_joint(joint: JointCase) -> tuple[JointShare, ...]:
    """The shares of the cases. Raises BoundError where the argument does not apply.

    >>> from catdiag.bounds.bound_certificate import BoundClaim
    >>> half, none = Fraction(1, 2), BoundClaim("least", ())
    >>> def product(k):
    ...     sides = ("X", "ik", 0), ("W", "kj", 2 * k + 1), ("Y", "ij", 2 * k + 2)
    ...     sources = tuple(BoundSource(n, tuple(f"{k}.{a}" for a in axes), g) for n, axes, g in sides)
    ...     return BoundCase(f"{k}", tuple(f"{k}.{a}" for a in "ijk"), sources, (half,) * 3, (), 1, Fraction(2), none)
    >>> joint = JointCase((product(0), product(1)), ((1, 0), (2, 0), (3, 1), (4, 1)), 1, Fraction(2))
    >>> [len(share.main) for share in derive_joint(joint)]
    [1, 1]
    """
    owner = dict(joint.owners)
    if len(owner) != len(joint.owners) or joint.begins not in (1, 2) or joint.step <= 0:
        raise BoundError("a sum of bounds: expected one owner for each group, begins 1 or 2, and a positive step")
    indices = [name for case in joint.cases for name in case.indices]
    if len(set(indices)) != len(indices):
        raise BoundError("a sum of bounds: cases have an index in common")
    # Values of a result may arrive by being begun on chip, for which a save is charged: in a group, of one result only.
    results = [s.group for case in joint.cases for s in case.sources if s.result]
    if len(set(results)) != len(results):
        raise BoundError("a sum of bounds: two results have values in common")
    weights = _weights(joint.cases)
    return tuple(_share(joint, place, owner, weights) for place in range(len(joint.cases)))


def _share(joint: JointCase, place: int, owner: Mapping[int, int], weights: Mapping[int, int]) -> JointShare:
    case = joint.cases[place]
    if case.begins > joint.begins or case.symmetric != 1 or case.disjoint:
        raise BoundError(f"{case.box}: a case that begins {case.begins} times, or has symmetries, in a sum")
    require_sound(case)
    _require_sums(case.sources, case.powers)
    main, further = list[Monomial](), list[Monomial]()
    points: Exponents = tuple((name, Fraction(1)) for name in case.indices)
    for exponents, number, sizes in cuts_in_groups(case):
        degree = sum(exponents.values(), Fraction(0))
        if degree < 1:
            raise BoundError(f"{case.box}: a cut of degree {degree} is not convex: expected at least 1")
        mine = [g for g in exponents if owner.get(g) == place]
        pooled = sum((exponents[g] for g in mine), Fraction(0)) >= 1
        theirs = [g for g in exponents if owner.get(g, place) != place]
        pools = [mine, theirs] if pooled else []
        reach = times((number, 1), (_largest(exponents, weights, pools), 1),
                      (rational(joint.begins + joint.step), degree))  # fmt: skip
        (main if pooled else further).append(Monomial(reach, degree, sizes_product((sizes, 1), (points, -1))))
    if not main:
        raise BoundError(f"{case.box}: owns too little: expected exponents that add up to 1 in a cut")
    return JointShare(case.box, tuple(main), tuple(further))


def _largest(exponents: Mapping[int, Fraction], weights: Mapping[int, int], pools: Sequence[Sequence[int]]) -> Powers:
    """The largest that ∏ x^e is where Σ w x ≤ 1; where there are `pools`, each of them takes the sum of what they all
    have."""
    pooled = {g for pool in pools for g in pool}
    whole = sum(exponents.values(), Fraction(0))
    factors: list[tuple[Powers, Fraction]] = []
    for pool in (pool for pool in pools if pool):
        total = sum((exponents[g] for g in pool), Fraction(0))
        factors += [(rational(exponents[g] / (total * weights[g])), exponents[g]) for g in pool]
    share = sum((exponents[g] for g in pooled), Fraction(0))
    factors += [(rational(share / whole), share)] if pooled else []
    factors += [(rational(e / (whole * weights[g])), e) for g, e in exponents.items() if g not in pooled]
    return times(*factors)


def _weights(cases: Sequence[BoundCase]) -> dict[int, int]:
    found: dict[int, int] = {}
    todo = [source for case in cases for source in case.sources]
    while todo:
        source = todo.pop()
        if source.weight < 1 or source.symmetric != 1:
            raise BoundError(f"{source.name}: weight {source.weight}, symmetry {source.symmetric}, in a sum")
        found[source.group] = min(source.weight, found.get(source.group, source.weight))
        todo.extend(source.parts)
    return found


def _require_sums(sources: Sequence[BoundSource], powers: Sequence[Fraction]) -> None:
    """A power of a sum of cuts is at most the sum of their powers, if it is at most 1."""
    for source, power in zip(sources, powers, strict=True):
        if source.parts and power:
            if power > 1:
                raise BoundError(f"{source.name}: an exponent {power} above 1 on cuts that are added")
            _require_sums(source.parts, [power * e for e in source.powers])


def check_joint(joint: JointCase, shares: Sequence[JointShare]) -> None:
    """Raises BoundError unless the cases prove these shares."""
    if derive_joint(joint) != tuple(shares):
        raise BoundError("a sum of bounds claims other shares than are shown")


def joint_value(shares: Sequence[JointShare], value: Callable[[Monomial], Any], loaded: Any) -> Any:
    """The bound, a number or an expression, given how to evaluate a monomial, and T, the step times the capacity."""
    parts = [sum(map(value, share.main)) for share in shares]
    further = sum(sum(map(value, share.further)) / part for share, part in zip(shares, parts, strict=True))
    return loaded * sum(1 / part for part in parts) / (1 + further)


def joint_at(joint: JointCase, shares: Sequence[JointShare], sizes: Mapping[str, int], capacity: Fraction) -> float:
    """The bound in values at sizes of the indices and a capacity in values, rounded down; 0 without fast memory."""
    if capacity <= 0:
        return 0.0

    def value(m: Monomial) -> float:
        log = math.log(approximate(m.coefficient)) + float(m.capacity) * math.log(capacity)
        return math.exp(log + math.fsum(float(e) * math.log(sizes[name]) for name, e in m.sizes))

    return float(joint_value(shares, value, float(joint.step * capacity))) * (1 - _ROUNDING)


_ROUNDING = 1e-9
"""More than what logarithms and exponentials of such numbers are rounded by."""


def relabeled(case: BoundCase, put: Callable[[str], str], groups: Mapping[int, int]) -> BoundCase:
    """The case with other names of indices and numbers of groups."""

    def names(given: Sequence[str]) -> tuple[str, ...]:
        return tuple(map(put, given))

    def boxes(given: Exponents) -> Exponents:
        return tuple((put(name), e) for name, e in given)

    def source(s: BoundSource) -> BoundSource:
        return replace(
            s, covers=names(s.covers), group=groups[s.group], unprojected=names(s.unprojected), other=names(s.other),
            parts=tuple(map(source, s.parts)), boxes=boxes(s.boxes),
        )  # fmt: skip

    return replace(case, indices=names(case.indices), sources=tuple(map(source, case.sources)), boxes=boxes(case.boxes))
