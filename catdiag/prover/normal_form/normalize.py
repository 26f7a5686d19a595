"""The full normal form of indexed sums, as a trace of kernel steps.

The normal form is a polynomial over atoms: reads, functions of polynomials, guards (see `guards`), reductions (see
`reduction_terms`) and maxima. Every rewrite is a kernel rule that is applied here and recorded, so that nothing in this
file has to be trusted.
"""

from __future__ import annotations

from collections.abc import Hashable
from itertools import permutations

from catdiag.kernel.context import Context
from catdiag.kernel.facts import arithmetic, negate
from catdiag.kernel.polynomial import Poly, TooLarge, plus, times, to_poly, to_term
from catdiag.kernel.terms import BOT, ZERO, KernelError, Term, fn, mul, term_data
from catdiag.prover.lemmas.linear_arithmetic import combination
from catdiag.prover.normal_form.conditions import COMPARISONS, SUM, compares_maxima
from catdiag.prover.normal_form.guards import is_guard, of_ring
from catdiag.prover.normal_form.reduction_terms import Reductions
from catdiag.prover.proof_trace import Path, WorkBudget

_DENOMINATORS = 4
_SMALL = 6
"""Normal forms of terms with a smaller weight are not cached."""


class Normalizer(Reductions):
    """Rewrites terms to normal form; `.steps` is the trace. `work` bounds the work of all normalizers that share it.

    With `cases`, maxima of reals are split into cases, and so are roots and logarithms of products of unknown sign.
    """

    def __init__(self, work: WorkBudget | None = None, cases: bool = False) -> None:
        super().__init__(work)
        self.cases = cases
        # The key of the cache of normal forms.
        self.mode: Hashable = "cases" if cases else ""

    def normal(self, ctx: Context, t: Term, path: Path = ()) -> Term:
        """The normal form of a closed term in a context."""
        if t.weight < _SMALL:
            return self._normal(ctx, t, path)
        key = (self.mode, ctx, t)
        found = self.work.known.get(key)
        if found is None:
            start = len(self.steps)
            result = self._normal(ctx, t, path)
            steps = [[rule, at[len(path) :], *args] for rule, at, *args in self.steps[start:]]
            self.work.known[key] = result, steps
            return result
        self.steps += [[rule, [*path, *at], *args] for rule, at, *args in found[1]]
        return found[0]

    def _normal(self, ctx: Context, t: Term, path: Path) -> Term:
        """The normal form of a term, by its outermost operation."""
        if of_ring(t):
            return self.region(ctx, t, path)
        if t.op == "big":
            return self.reduction(ctx, t, path)
        if t.op == "ite":
            return self.case(ctx, t, path)
        if not t.args:
            return self.position(ctx, t, path)
        if t.op in ("lt", "le") and self.says_some(t):
            return self._exists(ctx, t, path)
        t = self.parts(ctx, t, path, self.normal)
        if t.op == "max":
            return self.maximum(ctx, t, path)
        if t.op in ("and", "or", "not"):
            return self.logic(ctx, t, path)
        if t.op == "div":
            return self.divided(ctx, t, path)
        if t.op in COMPARISONS:
            return self.comparison(ctx, t, path)
        return self._of_cases(ctx, t, path)

    def _of_cases(self, ctx: Context, t: Term, path: Path) -> Term:
        lifted = self.lifted(ctx, t, path)
        return t if lifted is None else lifted

    def region(self, ctx: Context, t: Term, path: Path) -> Term:
        """The normal form of a term whose outermost operation is a polynomial one."""
        t = self._atoms(ctx, t, path)
        return self.ring(ctx, t, path) if of_ring(t) else t

    def _atoms(self, ctx: Context, t: Term, path: Path) -> Term:
        if not of_ring(t):
            return self.normal(ctx, t, path)
        t = self.parts(ctx, t, path, self._atoms)
        if t.op in ("log", "sqrt") and t.args[0].op == "add":
            t = self.part(ctx, t, path, 0, self._one_fraction)
        if BOT in t.args or (t.op == "mul" and ZERO in t.args):
            return self.step(ctx, t, path, "bottom")
        if t.op not in ("add", "mul") or any(a.op == "ite" and not is_guard(a) for a in t.args):
            t = self._of_cases(ctx, t, path)
        return t

    def _one_fraction(self, ctx: Context, t: Term, path: Path) -> Term:
        """A sum as one product, where it is that over the denominators: 1 - u/(1 + u) as 1/(1 + u). A logarithm or a
        root opens products only."""
        try:
            p = to_poly(t, ctx)
        except TooLarge:
            raise
        except KernelError:
            return t
        below: list[Term] = []
        while len(p) > 1 and len(below) < _DENOMINATORS:
            inverse = next((a for m in p for a, e in m if a.op == "inv" and e > 0 and ctx.nonzero(a.args[0])), None)
            if inverse is None:
                break
            self.work.spend(SUM)
            p = _cleared(p, inverse, ctx)
            below.append(inverse)
        if not below or len(p) != 1:
            return t
        return self.attempt(ctx, t, path, "same", term_data(mul(to_term(p), *below)))

    def maximum(self, ctx: Context, t: Term, path: Path) -> Term:
        """A maximum of terms in normal form."""
        t = self.step(ctx, t, path, "lattice")
        if t.op != "max":
            return t
        # Known comparisons come first: they need no solver.
        t = self._without_smaller(ctx, t, path)
        if t.op == "max" and not self.incomparable(ctx, t):
            t = self.attempt(ctx, t, path, "larger")
        if t.op != "max":
            return t
        out = self.attempt(ctx, t, path, "through")
        if out is not t:
            return self.region(ctx, out, path)
        if self.cases and all(map(ctx.real, t.args)):
            plain = [a for a in t.args if not compares_maxima(a)]
            if len(plain) > 1:
                # Inner cases are split first, so that conditions compare terms without cases.
                lifted = self.lifted(ctx, t, path)
                condition = fn("lt", plain[0], plain[1])
                if lifted is None and not self.known(ctx, condition) and not self.known(ctx, negate(condition)):
                    return self.distinguished(ctx, t, path, condition)
                return lifted or t
        return t

    def _without_smaller(self, ctx: Context, t: Term, path: Path) -> Term:
        """A maximum without the arguments that are known, by linear arithmetic, to be at most another one."""
        if not any(f.condition.op in ("lt", "le", "eq") and not arithmetic(f.condition) for f in ctx.facts):
            return t
        for low, high in permutations(range(len(t.args)), 2):
            self.work.spend(SUM)
            found = combination(ctx, fn("le", t.args[low], t.args[high]))
            if found is not None:
                t = self.step(ctx, t, path, "larger", [low, high], found)
                return self._without_smaller(ctx, t, path) if t.op == "max" else t
        return t


def _cleared(p: Poly, inverse: Term, ctx: Context) -> Poly:
    """A polynomial times the number whose inverse is an atom of it."""
    found: Poly = {}
    base = to_poly(inverse.args[0], ctx)
    for m, c in p.items():
        powers = dict(m)
        e = powers.pop(inverse, 0)
        rest: Poly = {tuple((a, k) for a, k in m if a != inverse): c}
        if e > 1:
            rest = times(rest, {((inverse, e - 1),): 1}, ctx)
        found = plus(found, rest if e > 0 else times(rest, base, ctx))
    return found


__all__ = ["Normalizer", "WorkBudget"]
