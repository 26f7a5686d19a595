"""Goals about reals for the solver: subterms that it does not interpret become opaque numbers or truth values.

Differences of reals are polynomials over opaque atoms; each atom is a number of its own, `atom k`, and a condition
that compares what may be −∞ is a truth value of its own, `prop k`. What follows for all numbers and truth values, from
facts and from what is known of these atoms, holds of the terms that they stand for. Known are signs, and by A7:

    max(a, b) is at least a and b, and one of them          ite(c, a, b) is a where c, b elsewhere
    u·inv(u) = 1, or both are 0        sqrt(u)² = u ≥ 0, or it is 0 and u < 0
    n·⌊u/n⌋ ≤ u < n·⌊u/n⌋ + n, for a number n > 0
    x < y iff exp x < exp y, and x < 0 iff exp x < 1
"""

from __future__ import annotations

from fractions import Fraction
from typing import Protocol

from catdiag.kernel.polynomial import Facts, Poly, is_unit, to_poly
from catdiag.kernel.rationals import Rational
from catdiag.kernel.terms import LOGICAL, ONE, ZERO, KernelError, Term, add, fn, leaves, mul, num, sub

LIMIT = 40
"""The most atoms of a goal, and the most monomials of a difference in it; larger ones are not put."""


class Signs(Facts, Protocol):
    """What is asked of a context."""

    def integers(self, t: Term) -> bool: ...


class Opaque:
    """Conditions as the solver gets them. `known` is what holds of the atoms in them."""

    def __init__(self, ctx: Signs) -> None:
        self.ctx = ctx
        self.names: dict[Term, Term] = {}
        self.known: list[Term] = []

    def condition(self, c: Term) -> Term:
        """A condition about atoms that holds where c does."""
        if self.ctx.integers(c):
            return c
        if c.op in ("and", "or", "not"):
            return fn(c.op, *map(self.condition, c.args))
        found = self.compared(c.op, *c.args) if c.op in ("lt", "le", "eq") else None
        return found if found is not None else self.name("prop", c)

    @staticmethod
    def spoken(c: Term) -> set[str]:
        """The atoms and truth values of a condition."""
        return {*leaves(c, "atom"), *leaves(c, "prop")}

    def compared(self, op: str, a: Term, b: Term) -> Term | None:
        """A comparison of reals as one of their difference with 0; None where a side may be −∞, or is too large."""
        if a.op in LOGICAL or not (self.ctx.real(a) and self.ctx.real(b)):
            return None
        try:
            p = to_poly(sub(b, a), self.ctx)
        except KernelError:
            return None
        return fn(op, ZERO, self.number(p)) if len(p) <= LIMIT else None

    def number(self, p: Poly) -> Term:
        """A polynomial over atoms."""
        return add(*(mul(num(c), *(f for a, e in m for f in self.power(a, e))) for m, c in p.items()))

    def power(self, a: Term, e: Rational) -> list[Term]:
        """A power of an atom as factors. A power whose exponent is not a natural number is an atom too."""
        if e.denominator != 1 or not 0 < e <= 4:
            return [self.name("atom", Term("power", str(e), (a,)))]
        return [a if self.ctx.integers(a) else self.name("atom", a)] * int(e)

    def name(self, kind: str, t: Term) -> Term:
        """The atom that stands for a term."""
        if t not in self.names:
            about = [] if kind == "prop" or len(self.names) > LIMIT else self._parts(t)
            v = self.names[t] = Term(kind, str(len(self.names)))
            if kind == "atom":
                self._about(t, v, about)
        return self.names[t]

    def _parts(self, t: Term) -> list[Term | None]:
        """The parts of an atom that are spoken of, in the solver's words, each as the term that is 0 less it."""
        if t.op == "power":
            return [t.args[0] if self.ctx.integers(t.args[0]) else self.name("atom", t.args[0])]
        if t.op == "ite":
            return [self.condition(t.args[0]), *(self._number_of(a) for a in t.args[1:])]
        if t.op == "div":
            return [self._number_of(t.args[0])] if t.args[1].op == "num" and self.ctx.positive(t.args[1]) else []
        return [self._number_of(a) for a in t.args] if t.op in ("max", "inv", "sqrt", "E") else []

    def _number_of(self, t: Term) -> Term | None:
        found = self.compared("eq", ZERO, t)
        return None if found is None else found.args[1]

    def _about(self, t: Term, v: Term, parts: list[Term | None]) -> None:
        base = t.args[0] if t.op == "power" else t
        positive = is_unit(base) or self.ctx.positive(base)
        if positive:
            self.known.append(fn("lt", ZERO, v))
        elif t.op != "power" and self.ctx.nonnegative(t):
            self.known.append(fn("le", ZERO, v))
        elif t.op != "power" and self.ctx.nonzero(t):
            self.known.append(fn("not", fn("eq", ZERO, v)))
        given = [p for p in parts if p is not None]
        if len(given) != len(parts) or not parts:
            return
        if t.op == "power":
            # v = w^(p/q), of a positive w or of a whole power of a w ≠ 0, so that v^q·w^k = w^(p + k)
            e, w = Fraction(str(t.data)), given[0]
            if max(abs(e.numerator), e.denominator) <= 4:
                low, high = [w] * max(-e.numerator, 0), [w] * max(e.numerator, 0)
                self.known.append(fn("eq", mul(*[v] * e.denominator, *low), mul(*high)))
        elif t.op == "max":
            self.known += [fn("le", a, v) for a in given]
            self.known.append(fn("or", *(fn("eq", v, a) for a in given)))
        elif t.op == "ite":
            c, yes, no = given
            self.known += [fn("or", fn("not", c), fn("eq", v, yes)), fn("or", c, fn("eq", v, no))]
        elif t.op == "inv":
            none = fn("and", fn("eq", given[0], ZERO), fn("eq", v, ZERO))
            self.known.append(fn("or", none, fn("eq", mul(v, given[0]), ONE)))
        elif t.op == "div":
            below = mul(t.args[1], v)
            self.known += [fn("le", below, given[0]), fn("lt", given[0], add(below, t.args[1]))]
        elif t.op == "sqrt":
            none = fn("and", fn("lt", given[0], ZERO), fn("eq", v, ZERO))
            self.known.append(fn("or", none, fn("eq", mul(v, v), given[0])))
        elif t.op == "E":
            others = [(ZERO, ONE)] + [
                (x, w) for u, w in self.names.items() if u.op == "E" and u != t and (x := self._number_of(u.args[0]))
            ]
            for x, w in others[:4]:
                self.known.append(fn("or", fn("and", fn("lt", x, given[0]), fn("lt", w, v)),
                                     fn("and", fn("eq", x, given[0]), fn("eq", w, v)),
                                     fn("and", fn("lt", given[0], x), fn("lt", v, w))))  # fmt: skip
