"""Which cases of a diagram to add up (`catdiag.bounds.joint_bound`): one of each contraction, and what each owns.

The search is at one set of sizes and one capacity, in floating point. Any outcome is a bound at all sizes.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction

from catdiag.bounds.bound_certificate import (
    BoundCase,
    BoundClaim,
    BoundError,
    BoundSource,
    Monomial,
    approximate,
    cuts_in_groups,
    cuts_of,
)
from catdiag.bounds.covering_polytope import exponents_of
from catdiag.bounds.joint_bound import JointCase, JointShare, derive_joint, joint_value, relabeled
from catdiag.bounds.reuse import Candidate, SourceReader
from catdiag.category.types import Size, size_symbols, size_value

BEST = 3
"""So many cases of a contraction are tried."""
ROUNDS = 2
"""So many groups are given to another case to own, one after the other."""
TYPICAL = 4096
"""What a size is taken to be that is not given."""
GAIN = 1.01
"""A case is taken in where the sum grows by this factor."""
STEPS = ((1, Fraction(2)), (2, Fraction(4)))
"""How many times the capacity is available when a segment begins, and the best step for products of matrices."""


@dataclass(frozen=True)
class JointBound:
    """Cases to add up, their shares, and the sizes of their indices."""

    joint: JointCase
    shares: tuple[JointShare, ...]
    sizes: Mapping[str, Size]

    @property
    def box(self) -> str:
        """The boxes whose points are counted."""
        return ", ".join(share.box for share in self.shares)


@dataclass(frozen=True)
class _CaseOption:
    """A case, its groups being numbers of paths; the sizes of its indices; its value alone."""

    case: BoundCase
    sizes: Mapping[str, Size]
    place: int
    value: float


@dataclass
class JointSearch:
    """The search at sizes, as far as they are given, and a capacity in values."""

    reader: SourceReader
    candidates: Sequence[Candidate]
    sizes: Mapping[str, int]
    capacity: float
    most_cuts: int

    def found(self) -> Iterator[JointBound]:
        """For each way to cut the schedule, the largest sum that was found, where it is of two cases or more."""
        for begins, step in STEPS:
            best: JointBound | None = None
            chosen: list[_CaseOption] = []
            value = 0.0
            by_place: dict[int, list[_CaseOption]] = {}
            for option in self._options(begins, step):
                by_place.setdefault(option.place, []).append(option)
            tried = [sorted(some, key=lambda o: -o.value)[:BEST] for some in by_place.values()]
            for some in sorted(tried, key=lambda options: -options[0].value):
                better: tuple[float, _CaseOption, JointBound] | None = None
                for option in some:
                    made = self._joint([*chosen, option], begins, step)
                    if made is not None and made[0] > GAIN * max(value, better[0] if better else 0.0):
                        better = made[0], option, made[1]
                if better is not None:
                    value, best = better[0], better[2]
                    chosen.append(better[1])
            if best is not None and len(chosen) > 1:
                yield best

    def _options(self, begins: int, step: Fraction) -> Iterator[_CaseOption]:
        for candidate in self.candidates:
            simple = candidate.symmetric == 1 and not candidate.disjoint and candidate.plain and candidate.contracts
            if not simple or candidate.begins > begins or not all(map(_without_symmetry, candidate.unjoined)):
                continue
            for powers, boxes in exponents_of(candidate.indices, candidate.covers):
                kept = [(s, p) for s, p in zip(candidate.unjoined, powers, strict=True) if p]
                if not kept or cuts_of([s for s, _ in kept]) > self.most_cuts:
                    continue
                sources, used = tuple(s for s, _ in kept), tuple(p for _, p in kept)
                case = BoundCase(candidate.box, candidate.indices, sources, used, boxes, candidate.begins, step,
                                 BoundClaim("least", ()))  # fmt: skip
                option = _CaseOption(case, candidate.sizes, candidate.place, 0.0)
                made = self._joint([option], begins, step)
                if made is not None:
                    yield _CaseOption(case, candidate.sizes, candidate.place, made[0])

    def _joint(self, options: Sequence[_CaseOption], begins: int, step: Fraction) -> tuple[float, JointBound] | None:
        """The largest sum of some cases, by who owns what more than one reads; None where there is none."""
        groups = self._groups([o.case for o in options])
        cases = tuple(relabeled(o.case, lambda n, k=k: f"{n}/{k}", groups) for k, o in enumerate(options))  # type: ignore[misc]
        sizes = {f"{n}/{k}": size for k, o in enumerate(options) for n, size in o.sizes.items()}
        users: dict[int, list[int]] = {}
        for k, case in enumerate(cases):
            for g in sorted({g for exponents, *_ in cuts_in_groups(case) for g in exponents}):
                users.setdefault(g, []).append(k)
        # What only one case reads, or only one not as what an operand is made of, is that case's to begin with.
        read = {g: [k for k in some if g in {s.group for s in cases[k].sources}] for g, some in users.items()}
        owners = {g: (read[g] or some)[0] for g, some in users.items() if len(read[g] or some) == 1}
        best = self._valued(cases, owners, begins, step, sizes)
        moves = [(g, k) for g, some in sorted(users.items()) if len(some) > 1 for k in some]
        for _ in range(ROUNDS):
            tried = [(self._valued(cases, {**owners, g: k}, begins, step, sizes), g, k) for g, k in moves]
            found = max((t for t in tried if t[0] is not None), key=lambda t: t[0][0] if t[0] else 0.0, default=None)
            if found is None or found[0] is None or (best is not None and found[0][0] <= best[0]):
                break
            best = found[0]
            owners[found[1]] = found[2]
        return best

    def _groups(self, cases: Sequence[BoundCase]) -> dict[int, int]:
        """The paths of some cases, with one number for those that share arrays."""
        numbers = list(dict.fromkeys(g for case in cases for s in case.sources for g in _paths(s)))
        groups: list[tuple[set[int], set[int]]] = []
        for n in numbers:
            touching = [g for g in groups if g[0] & self.reader.paths[n]]
            wires = set(self.reader.paths[n]).union(*(g[0] for g in touching))
            groups = [g for g in groups if g not in touching] + [(wires, {n}.union(*(g[1] for g in touching)))]
        return {n: k for k, (_, members) in enumerate(groups) for n in members}

    def _valued(
        self, cases: tuple[BoundCase, ...], owners: Mapping[int, int], begins: int, step: Fraction,
        sizes: Mapping[str, Size],
    ) -> tuple[float, JointBound] | None:  # fmt: skip
        joint = JointCase(cases, tuple(sorted(owners.items())), begins, step)
        try:
            shares = derive_joint(joint)
        except BoundError:
            return None

        def value(monomial: Monomial) -> float:
            log = math.log(approximate(monomial.coefficient)) + float(monomial.capacity) * math.log(self.capacity)
            return math.exp(log + sum(float(e) * self._log(sizes[name]) for name, e in monomial.sizes))

        found = joint_value(shares, value, float(step) * self.capacity)
        return found, JointBound(joint, shares, sizes)

    def _log(self, size: Size) -> float:
        """The logarithm of a size."""
        known = {name: self.sizes.get(name, TYPICAL) for name in size_symbols(size)}
        return math.log(max(1, size_value(size, known)))


def _paths(source: BoundSource) -> Iterator[int]:
    yield source.group
    for part in source.parts:
        yield from _paths(part)


def _without_symmetry(source: BoundSource) -> bool:
    return source.symmetric == 1 and all(map(_without_symmetry, source.parts))
