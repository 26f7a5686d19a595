"""A product of positive numbers, in a logarithm or compared with an exponential, as that of a sum of logarithms.

Π_i t(i) = Π_i exp(log t(i)) = exp(Σ_i log t(i)) for t(i) > 0: a running product is the exponential of a running sum.
The normal form does not do this by itself, since most products are compared with products.
"""

from __future__ import annotations

from functools import partial
from typing import Any

from catdiag.kernel.context import Context
from catdiag.kernel.judgments import closes
from catdiag.kernel.terms import KernelError, Term, fn, term_data
from catdiag.prover.goal_forms import condition_of_normal_terms, holds_plainly
from catdiag.prover.normal_form.normalize import Normalizer, WorkBudget
from catdiag.prover.proof_trace import Path


def prove_by_logarithms(ctx: Context, equation: Term, work: WorkBudget) -> dict[str, Any] | None:
    """A proof record that a product is an exponential; None where that is not what is said, or not found. Maxima are
    split into cases where it is not proved without."""
    if equation.op != "eq":
        return None
    return _proof(ctx, equation, Normalizer(work)) or _proof(ctx, equation, Normalizer(work, cases=True))


def _proof(ctx: Context, equation: Term, search: Normalizer) -> dict[str, Any] | None:
    try:
        opened = equation
        for k in (0, 1):
            change = partial(_opened, search=search, compared=equation.args[1 - k].op == "exp")
            opened = search.part(ctx, opened, (), k, change)
        if opened == equation:
            return None
        found = condition_of_normal_terms(ctx, opened, search)
        proved = holds_plainly(ctx, found)
        closed = not proved and closes(ctx, found)
    except (KernelError, RecursionError):
        return None
    return {"steps": search.steps, **({"close": "field"} if closed else {})} if proved or closed else None


def _opened(ctx: Context, t: Term, path: Path, search: Normalizer, compared: bool) -> Term:
    """A term with its products in logarithms as exponentials; itself too, where it is `compared` with one."""
    if t.op == "big" and t.data == "prod" and compared:
        return _exponential(ctx, t, path, search)
    if t.op not in ("add", "mul", "inv", "exp", "log"):
        return t
    return search.parts(ctx, t, path, lambda c, u, p: _opened(c, u, p, search, t.op == "log"))


def _exponential(ctx: Context, t: Term, path: Path, search: Normalizer) -> Term:
    """Π_i t(i) as exp(Σ_i log t(i)). Raises KernelError where an element is not known to be positive."""

    def logarithm(inner: Context, body: Term, at: Path) -> Term:
        return search.step(inner, body, at, "same", term_data(fn("exp", fn("log", body))))

    def by_cases(inner: Context, log: Term, at: Path) -> Term:
        """log ite(c, a, b) as ite(c, log a, log b), each opened before a and b are sums in normal form."""
        if log.op == "log" and log.args[0].op == "big" and log.args[0].data == "prod":
            log = search.part(inner, log, at, 0, lambda c, u, p: _exponential(c, u, p, search))
        if log.op != "log" or log.args[0].op != "ite":
            return search.attempt(inner, log, at, "ring")
        log = search.step(inner, log, at, "distinguish", term_data(log.args[0].args[0]))
        for k in (1, 2):
            log = search.part(inner, log, at, k, lambda c, u, p: by_cases(c, decided(c, u, p), p))
        return log

    def decided(inner: Context, log: Term, at: Path) -> Term:
        return search.part(inner, log, at, 0, lambda c, u, p: search.step(c, u, p, "decide"))

    t = search.step(ctx, search.under(ctx, t, path, logarithm), path, "through")
    return search.part(ctx, t, path, 0, lambda c, u, p: search.under(c, u, p, by_cases))
