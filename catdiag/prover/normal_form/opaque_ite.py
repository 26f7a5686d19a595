"""The opaque-ite normal form: every if-then-else is an atom, and no condition is decided.

Operations on single elements, such as masks, are the same in a loop as in its specification. So terms mostly become
equal without looking into a condition, however large it is: no comparison is decided, no case is split, and no solver
is called. Where that does not suffice, the full normal form (`normalize`) is computed.

An if-then-else that occurs on both sides of an equation, up to the positions at which it reads, is not rewritten, so
that facts stated with the program's own terms apply to it. Others get normal parts.
"""

from __future__ import annotations

from catdiag.kernel.context import Context
from catdiag.kernel.facts import negate
from catdiag.kernel.terms import BOT, FALSE, TRUE, Term, idx, rebuild
from catdiag.prover.normal_form.guards import is_guard
from catdiag.prover.normal_form.normalize import Normalizer
from catdiag.prover.proof_trace import Path, WorkBudget
from catdiag.prover.subterms import subterms


class OpaqueIteNormalizer(Normalizer):
    """A normalizer that keeps if-then-else terms; those with one of the shapes `untouched` (see `shapes`) are not
    rewritten.
    """

    def __init__(self, work: WorkBudget | None = None, untouched: frozenset[Term] = frozenset()) -> None:
        super().__init__(work)
        self.untouched, self._shapes = untouched, dict[Term, Term]()
        self.mode = ("kept", untouched)

    def case(self, ctx: Context, t: Term, path: Path, alike: bool = False) -> Term:
        """An if-then-else of normal numbers on a normal condition."""
        if shape(t, self._shapes) in self.untouched:
            return t
        t = self.parts(ctx, t, path, self.normal)
        c, yes, no = t.args
        if yes == no or c in (TRUE, FALSE) or _known(ctx, c) or _known(ctx, negate(c)):
            return self.attempt(ctx, t, path, "decide")
        if is_guard(t) or not (ctx.real(yes) and ctx.real(no)):
            return t
        return self.ring(ctx, self.attempt(ctx, t, path, "guard"), path)

    def lifted(self, ctx: Context, t: Term, path: Path) -> Term | None:
        """None: if-then-else terms are not moved out of arguments."""
        return None

    def comparison(self, ctx: Context, t: Term, path: Path) -> Term:
        """A comparison of normal numbers. One with a maximum of several terms becomes several comparisons; one of
        reductions compares with 0.
        """
        done = self.attempt(ctx, t, path, "compare")
        if done is not t:
            return done
        if t.op in ("lt", "le") and any(a.op == "max" for a in t.args):
            done = self.attempt(ctx, t, path, "order")
            if done is not t:
                return self.normal(ctx, done, path)
        return self.attempt(ctx, t, path, "difference") if reduces(t) else t

    def logic(self, ctx: Context, t: Term, path: Path) -> Term:
        """A connective of normal conditions."""
        return self.attempt(ctx, t, path, "logic")

    def maximum(self, ctx: Context, t: Term, path: Path) -> Term:
        """A maximum of normal terms, without deciding which is the largest."""
        t = self.step(ctx, t, path, "lattice")
        out = self.attempt(ctx, t, path, "through") if t.op == "max" else t
        return t if out is t else self.region(ctx, out, path)

    def turned(self, ctx: Context, t: Term, path: Path) -> Term | None:
        """None: indices are not changed."""
        return None

    def collapsed(self, ctx: Context, t: Term, path: Path) -> Term | None:
        """None: guards are not solved for an index."""
        return None

    def monomial(self, ctx: Context, t: Term, path: Path) -> Term:
        """A product; its factors are not simplified under guards."""
        return self.cancelled(ctx, t, path)

    def divided(self, ctx: Context, t: Term, path: Path) -> Term:
        """A floor, as it is."""
        return t

    @staticmethod
    def says_some(t: Term) -> bool:
        """False: existence of an index is treated as any comparison."""
        return False


class DecidedIteNormalizer(OpaqueIteNormalizer):
    """A normalizer that keeps if-then-else terms, except those whose condition is known to be true or false.

    In the reductions `there`, which occur on the other side too, none is decided.
    """

    def __init__(
        self,
        work: WorkBudget | None = None,
        untouched: frozenset[Term] = frozenset(),
        there: frozenset[Term] = frozenset(),
    ) -> None:
        super().__init__(work, untouched)
        self.there, self._inside = there, 0
        self.mode = ("decided", untouched, there)

    def reduction(self, ctx: Context, t: Term, path: Path) -> Term:
        """The normal form of a reduction."""
        if t not in self.there:
            return super().reduction(ctx, t, path)
        self._inside += 1
        mode, self.mode = self.mode, ("kept", self.untouched)
        try:
            return super().reduction(ctx, t, path)
        finally:
            self._inside -= 1
            self.mode = mode

    def case(self, ctx: Context, t: Term, path: Path, alike: bool = False) -> Term:
        """An if-then-else; the branch that is taken, where its condition is known."""
        if self._inside:
            return super().case(ctx, t, path, alike)
        t = self.part(ctx, t, path, 0, self._decided_parts)
        operations = {t.args[0].op, negate(t.args[0]).op}
        known = t.args[0] in (TRUE, FALSE) or any(f.condition.op in operations and f.variables for f in ctx.facts)
        done = self.attempt(ctx, t, path, "decide") if known else t
        return super().case(ctx, t, path, alike) if done is t else self.normal(ctx, done, path)

    def maximum(self, ctx: Context, t: Term, path: Path) -> Term:
        """A maximum of normal terms, without those that are −∞ at every index."""
        t = super().maximum(ctx, t, path)
        fallen = t.op == "max" and any(a.op == "big" and a.args[1] == BOT for a in t.args)
        return self.attempt(ctx, t, path, "larger") if fallen else t

    def _decided_parts(self, ctx: Context, c: Term, path: Path) -> Term:
        """A condition without those of its comparisons that are known."""
        if c.op in ("and", "or", "not"):
            c = self.parts(ctx, c, path, self._decided_parts)
            return self.step(ctx, c, path, "logic") if TRUE in c.args or FALSE in c.args else c
        return c if reduces(c) else self.decided(ctx, c, path)


def _known(ctx: Context, c: Term) -> bool:
    """Whether a condition says that a number is not −∞, and that is known."""
    if c.op != "not" or c.args[0].op != "eq" or BOT not in c.args[0].args:
        return False
    return all(a == BOT or ctx.real(a) for a in c.args[0].args)


def reduces(t: Term) -> bool:
    """Whether a term contains a reduction."""
    return any(u.op == "big" for u in subterms(t))


def shape(t: Term, known: dict[Term, Term]) -> Term:
    """A term without the positions at which it reads arrays; `known` is a cache."""
    stack = [t]
    while stack:
        u = stack[-1]
        missing = [] if u in known or u.op in ("read", "holds") else [a for a in u.args if a not in known]
        if missing:
            stack.extend(missing)
            continue
        stack.pop()
        if u.op in ("read", "holds"):
            known[u] = Term(u.op, u.data)
        elif u.op in ("idx", "b"):
            known[u] = idx("?")
        elif u not in known:
            known[u] = rebuild(u, (known[a] for a in u.args))
    return known[t]


def shapes(t: Term, known: dict[Term, Term]) -> set[Term]:
    """The shapes of the if-then-else terms in a term."""
    return {shape(u, known) for u in subterms(t) if u.op == "ite"}
