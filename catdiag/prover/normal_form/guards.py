"""If-then-else in normal form: polynomials in guards [c] (indicator functions), where all values are real.

A conjunction is a product of guards, and [¬c] = 1 − [c]. Of a comparison and its negation only one is used, and 0 ≤ p
of reals is 0 < p or 0 = p. In a product with guards, each factor is simplified under the guards, and each guard under
the others. A function of an if-then-else becomes an if-then-else of functions.
"""

from __future__ import annotations

from collections.abc import Iterator

from catdiag.kernel.context import Context
from catdiag.kernel.facts import arithmetic, negate
from catdiag.kernel.polynomial import TooLarge, leading, to_poly, to_term
from catdiag.kernel.rationals import quotient
from catdiag.kernel.terms import FALSE, LOGICAL, ONE, TRUE, ZERO, KernelError, Term, is_fixed, leaves, sub, term_data
from catdiag.prover.normal_form.conditions import Conditions, upright
from catdiag.prover.proof_trace import Path

_RING = {"add", "mul", "inv", "exp", "log", "sqrt"}
_ROUNDS = 6


def of_ring(t: Term) -> bool:
    """Whether the outermost operation of a term is one of polynomials, or a function that the step `ring` opens."""
    return t.op in _RING or is_fixed(t)


def is_guard(t: Term) -> bool:
    """Whether a term is an indicator [c]."""
    return t.op == "ite" and t.args[1:] == (ONE, ZERO)


class Guards(Conditions):
    """Rewrites if-then-else terms."""

    def case(self, ctx: Context, t: Term, path: Path, alike: bool = False) -> Term:
        """The normal form of an if-then-else; with `alike`, of one whose branches are the same term so far."""
        t = self.part(ctx, t, path, 0, self.normal)
        c, yes, no = t.args
        if c in (TRUE, FALSE) or (yes == no and not alike):
            return self.normal(ctx, self.step(ctx, t, path, "decide"), path)
        if not arithmetic(c) and (ctx.entails(c) or ctx.entails(negate(c))):
            return self.normal(ctx, self.step(ctx, t, path, "decide"), path)
        if c.op not in ("not", "and", "or"):
            t = self.part(ctx, t, path, 0, self.holding_nowhere)
            if t.args[0] == FALSE:
                return self.normal(ctx, self.step(ctx, t, path, "decide"), path)
        if c.op in ("not", "and", "or"):
            return self.case(ctx, self.step(ctx, t, path, "turn", "connective"), path, alike)
        if c.op in ("lt", "le") and not upright(ctx, c):
            return self.case(ctx, self.step(ctx, t, path, "turn", "opposite"), path, alike)
        real = ctx.with_condition(c).real(yes) and ctx.with_condition(negate(c)).real(no)
        weak = c.op == "le" and not arithmetic(c)
        if real and weak and not alike:
            return self.case(ctx, self.step(ctx, t, path, "turn", "equal"), path)
        if is_guard(t):
            return t
        t = self.part(ctx, t, path, 1, self.normal)
        t = self.part(ctx, t, path, 2, self.normal)
        if t.args[1] == t.args[2]:
            return self.step(ctx, t, path, "decide")
        if ctx.real(t.args[1]) and ctx.real(t.args[2]):
            if weak:
                t = self.part(ctx, self.step(ctx, t, path, "turn", "equal"), path, 2, self.case)
            return self.ring(ctx, self.attempt(ctx, t, path, "guard"), path)
        earlier = [b.args[0] for b in t.args[1:] if b.op == "ite" and not is_guard(b) and b.args[0].key < c.key]
        if earlier:
            # An if-then-else with values that are not real is nested, in the order of the conditions.
            return self.distinguished(ctx, t, path, min(earlier, key=lambda d: d.key))
        return t

    def distinguished(self, ctx: Context, t: Term, path: Path, condition: Term) -> Term:
        """The normal form of a number, split by whether a condition holds."""
        return self.case(ctx, self.step(ctx, t, path, "distinguish", term_data(condition)), path, True)

    def lifted(self, ctx: Context, t: Term, path: Path) -> Term | None:
        """The normal form of a term with an if-then-else among its arguments; None for other terms."""
        condition = next(_distinctions(ctx, t), None)
        if condition is None:
            return None
        if t.op in LOGICAL:
            t = self.step(ctx, t, path, "distinguish", term_data(condition))
            for k in (0, 1):
                # The cases are split before the whole term could serve as a fact about their conditions.
                t = self.part(ctx, t, path, k, lambda c, u, p: self.part(c, u, p, 1, self.normal))
            return self.normal(ctx, t, path)
        return self.distinguished(ctx, t, path, condition)

    # -- polynomials in guards ------------------------------------------------------------------------

    def ring(self, ctx: Context, t: Term, path: Path) -> Term:
        """The normal form of a polynomial whose atoms are normal."""
        for _ in range(_ROUNDS):
            t = self._polynomial(ctx, t, path)
            before = t
            if t.op == "add":
                t = self.parts(ctx, t, path, lambda c, u, p: self.monomial(c, u, p) if u.op == "mul" else u)
            elif t.op == "mul":
                t = self.monomial(ctx, t, path)
            if t == before:
                break
        return t

    def _polynomial(self, ctx: Context, t: Term, path: Path) -> Term:
        try:
            return self.step(ctx, t, path, "ring")
        except TooLarge:
            raise
        except KernelError:
            if not of_ring(t):
                return t
            # Not all parts are known to be real: only those that are get a polynomial normal form.
            t = self.parts(ctx, t, path, lambda c, u, p: self._polynomial(c, u, p) if of_ring(u) else u)
            return self.attempt(ctx, t, path, "ring")

    def monomial(self, ctx: Context, t: Term, path: Path) -> Term:
        """A product with guards, its factors simplified under the guards."""
        if not any(is_guard(a) for a in t.args) or len(t.args) < 2:
            return self.cancelled(ctx, t, path)
        for k in range(len(t.args)):
            conditions = [a.args[0] for j, a in enumerate(t.args) if j != k and is_guard(a)]
            if not conditions:
                continue
            t = self.part(ctx, t, path, k, lambda c, u, p: self._guarded(c, u, p, conditions))  # noqa: B023
            if t.args[k] == ZERO:
                return t
        return t

    def _guarded(self, ctx: Context, t: Term, path: Path, conditions: list[Term]) -> Term:
        """A factor simplified under the conditions of the guards beside it."""
        before = t
        for c in conditions:
            t = self._replaced(ctx, t, path, c)
        if is_guard(t):
            t = self.part(ctx, t, path, 0, self.comparison if t != before else self.decided)
            return self.step(ctx, t, path, "decide") if t.args[0] in (TRUE, FALSE) else t
        if t.op == "num" or not self._touched(t, conditions):
            return t if t == before else self.normal(ctx, t, path)
        return self.normal(ctx, t, path)

    @staticmethod
    def _touched(t: Term, conditions: list[Term]) -> bool:
        """Whether a factor may become simpler under conditions: it has an operation on terms that they mention."""
        if t.op in ("read", "size", "idx"):
            return False
        reads = leaves(t, "read") | leaves(t, "holds")
        for c in conditions:
            if reads & (leaves(c, "read") | leaves(c, "holds")):
                return True
            if arithmetic(c) and _has_cases(t) and leaves(c, "idx") & leaves(t, "idx"):
                return True
        return False

    def _replaced(self, ctx: Context, t: Term, path: Path, c: Term) -> Term:
        """A term with an equation substituted: an index replaced by another term, or an atom by its value."""
        if c.op != "eq":
            return t
        if arithmetic(c):
            for one, other in (c.args, c.args[::-1]):
                solved = one.op == "idx" and one.data not in leaves(other, "idx")
                if solved and (other.op != "idx" or one.key > other.key) and one.data in leaves(t, "idx"):
                    modulo: list[list[object]] = [[term_data(c), term_data(ONE if one is c.args[0] else _MINUS)]]
                    return self._everywhere(ctx, t, path, one, other, modulo)
            return t
        try:
            p = to_poly(sub(c.args[1], c.args[0]), ctx)
        except KernelError:
            return t
        lead = leading({m: a for m, a in p.items() if m} or p)
        if len(lead) == 1 and lead[0][0] == t and lead[0][1] == 1:
            factor = quotient(1, p[lead])
            rest = to_term({m: -a * factor for m, a in p.items() if m != lead})
            # t − rest is 1/p[lead] times the right side of c minus its left side, which is 0.
            return self.attempt(ctx, t, path, "same", term_data(rest), [[term_data(c), _number(-factor)]])
        return t

    def with_equations(self, ctx: Context, t: Term, path: Path) -> Term:
        """A polynomial with the known equations substituted."""
        before = t
        for fact in ctx.facts:
            if fact.condition.op == "eq" and not fact.variables and not fact.guards:
                t = self._put_in(ctx, t, path, fact.condition)
        return t if t == before else self.normal(ctx, t, path)

    def _put_in(self, ctx: Context, t: Term, path: Path, c: Term) -> Term:
        if t.op in ("add", "mul", "inv", "log", "sqrt", "exp", "max", "apply") and not arithmetic(c):
            return self.parts(ctx, t, path, lambda x, u, p: self._put_in(x, u, p, c))
        return self._replaced(ctx, t, path, c)

    def _everywhere(
        self, ctx: Context, t: Term, path: Path, one: Term, other: Term, modulo: list[list[object]]
    ) -> Term:
        if t == one:
            return self.step(ctx, t, path, "same", term_data(other), modulo)
        if one.data not in leaves(t, "idx"):
            return t
        return self.parts(ctx, t, path, lambda c, u, p: self._everywhere(c, u, p, one, other, modulo))

    def cancelled(self, ctx: Context, t: Term, path: Path) -> Term:
        """a·inv(a) as [a ≠ 0], where it is not known whether a is 0."""
        inverted = {a.args[0] for a in t.args if a.op == "inv"}
        for a in t.args:
            if a in inverted and not ctx.nonzero(a):
                return self._by_zero(ctx, t, path, a)
        return t

    def _by_zero(self, ctx: Context, t: Term, path: Path, a: Term) -> Term:
        """A product with a factor a, split by whether a is 0."""
        condition = Term("eq", None, (ZERO, a))
        t = self.step(ctx, t, path, "distinguish", term_data(condition))
        others = list(t.args[1].args)
        others.remove(a)
        factor = Term("mul", None, (_MINUS, *others))
        modulo = [[term_data(condition), term_data(factor)]]
        t = self.part(ctx, t, path, 1, lambda c, u, p: self.step(c, u, p, "same", term_data(ZERO), modulo))
        t = self.part(ctx, t, path, 2, self.ring)
        done = self.attempt(ctx, t, path, "decide")
        return done if done is not t else self.ring(ctx, self.step(ctx, t, path, "guard"), path)


_MINUS = Term("num", -ONE.data)  # type: ignore[operator]


def _number(x: object) -> list[object]:
    return ["num", str(x), []]


def _has_cases(t: Term) -> bool:
    return t.op == "ite" or any(_has_cases(a) for a in t.args)


def _distinctions(ctx: Context, t: Term) -> Iterator[Term]:
    """The conditions of the if-then-elses among the arguments of a term, except those inside reductions and maxima.

    An if-then-else that is real although one of its branches is not real everywhere is an atom (a maximum, or a number
    where that is −∞).
    """
    for a in t.args:
        if a.op == "ite":
            if not a.args[0].loose and (is_guard(a) or not ctx.real(a)):
                yield a.args[0]
        elif a.op not in ("big", "max"):
            yield from _distinctions(ctx, a)
