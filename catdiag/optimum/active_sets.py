"""The candidate active sets: tiles at an end of their range or free, and memories that are full."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction

import sympy
from sympy import Expr

from catdiag.optimum.active_constraints import Choice
from catdiag.optimum.optimality_certificate import BOUND, FREE, ONE, PowerProgram
from catdiag.optimum.posynomial import PosynomialTerm, Powers, combination, power


def choices(program: PowerProgram, monomials: Sequence[Powers], options: Sequence[Sequence[str]]) -> Iterator[Choice]:
    """All active sets that an optimum may need, those with the fewest tiles at an end of their range first."""
    touched = [[_touched(t, monomials) for t in p.terms] for p in (program.transfers, *(m for m, _ in program.memory))]
    for status in sorted(itertools.product(*options), key=lambda choice: sum(h != FREE for h in choice)):
        for full in _subsets(len(program.memory), sum(h == FREE for h in status)):
            if _stopped(touched, status, full):
                yield status, full


def options_of(program: PowerProgram, monomials: Sequence[Powers], i: int, end: Expr | None) -> list[str]:
    """The states that a coordinate may have at an optimum; those that signs alone exclude are left out."""
    growing = {e > 0 for term in program.terms if (e := _power(term, monomials, i))}
    if False not in growing:
        return [ONE]
    if True not in growing and end is not None:
        return [BOUND]
    return [FREE, BOUND, ONE] if end is not None else [FREE, ONE]


def _power(term: PosynomialTerm, monomials: Sequence[Powers], i: int) -> Fraction:
    steps = combination(monomials, term.powers)
    return steps[i] if steps else Fraction(0)


def _touched(term: PosynomialTerm, monomials: Sequence[Powers]) -> frozenset[int]:
    return frozenset(i for i, e in enumerate(combination(monomials, term.powers) or ()) if e)


def _stopped(touched: Sequence[Sequence[frozenset[int]]], status: Sequence[str], full: tuple[int, ...]) -> bool:
    """Whether no memory is full only by coincidence.

    That is a memory without free coordinates, or more full memories than coordinates in a group of coordinates that
    terms of transfers or full memories connect.
    """
    free = {i for i, h in enumerate(status) if h == FREE}
    whole = [frozenset[int]().union(*touched[1 + k]) & free for k in full]
    groups: list[tuple[frozenset[int], int]] = [(frozenset((i,)), 0) for i in sorted(free)]
    for link, count in [*((t & free, 0) for t in touched[0]), *((m, 1) for m in whole)]:
        met = [g for g in groups if g[0] & link]
        if met:
            groups = [g for g in groups if not g[0] & link]
            groups.append((frozenset[int]().union(*(g for g, _ in met)), count + sum(n for _, n in met)))
    return all(whole) and all(count <= len(group) for group, count in groups)


def _subsets(memories: int, free: int) -> Iterator[tuple[int, ...]]:
    for count in range(min(memories, free) + 1):
        yield from itertools.combinations(range(memories), count)


def in_words(program: PowerProgram, monomials: Sequence[Powers], status: Sequence[str], full: Sequence[int]) -> str:
    """An active set in words."""
    words = [f"{product(m)} {h}" for m, h in zip(monomials, status, strict=True)]
    return ", ".join([*(str(full_memory(program, k)) for k in full), *words])


@dataclass(frozen=True)
class ActiveConstraint:
    """A constraint that binds: what it is of, and what is so. Of two sides, it is that they are equal.

    >>> a, b = sympy.symbols("g_a g_b")
    >>> print(ActiveConstraint((a * b,), AT_ONE), "|", ActiveConstraint((a, b)))
    g_a*g_b at 1 | g_a = g_b
    """

    sides: tuple[Expr, ...]
    state: str = ""

    def fills(self, capacity: Expr) -> bool:
        """Whether it is that a memory of this capacity is full."""
        return self.state == FULL and self.sides == (capacity,)

    def __str__(self) -> str:
        return " ".join([" = ".join(map(str, self.sides)), *([self.state] if self.state else [])])


FULL, AT_ONE, AT_AXIS = "full", "at 1", "at its axis"
"""What is so of a constraint that binds: of the capacity of a memory, and of a product of tiles."""


def full_memory(program: PowerProgram, k: int) -> ActiveConstraint:
    """That a memory is full; of a tile within another tile: that the two are equal."""
    memory, capacity = program.memory[k]
    if capacity == 1 and len(memory.terms) == 1 and memory.terms[0].coefficient == 1:
        signs = [[(v, abs(e)) for v, e in memory.terms[0].powers if (e > 0) == sign] for sign in (True, False)]
        return ActiveConstraint(tuple(product(tuple(side)) for side in signs))
    return ActiveConstraint((capacity,), FULL)


def product(monomial: Powers) -> Expr:
    """A product of powers as an expression."""
    return sympy.Mul(*(power(v, Fraction(e)) for v, e in monomial))
