"""Helpers of the rules: parsing of their arguments, which come from a certificate."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import Any

from catdiag.kernel.context import Context
from catdiag.kernel.terms import LOGICAL, KernelError, Term, leaves, parse_term


def reduction(t: Term, *monoids: str) -> tuple[str, Term, Term]:
    """The monoid, range and body of a reduction."""
    if t.op != "big" or (monoids and t.data not in monoids):
        raise KernelError(f"expected a reduction over {' or '.join(monoids) or 'an index'}, found {t}")
    return str(t.data), t.args[0], t.args[1]


def positions(args: Sequence[Term], chosen: Any) -> tuple[list[Term], list[Term]]:
    """The parts at the chosen positions, and the others."""
    if not isinstance(chosen, list) or not all(type(k) is int and 0 <= k < len(args) for k in chosen):
        raise KernelError(f"not positions of {len(args)} parts: {chosen!r}")
    # A part chosen twice would be there twice: c·c·Σ t for Σ c·t.
    if len(set(chosen)) != len(chosen):
        raise KernelError(f"a part is chosen twice: {chosen!r}")
    return [args[k] for k in chosen], [a for k, a in enumerate(args) if k not in chosen]


def given(ctx: Context, data: Any, logical: bool = False) -> Term:
    """A term of a certificate. It may mention only the indices of this context.

    Another index could be one that a later step opens, and the term would then be about all of them.
    """
    t = parse_term(data)
    if t.loose or not leaves(t, "idx") <= set(ctx.ranges) or (t.op in LOGICAL) != logical:
        raise KernelError(f"{t} is no {'condition' if logical else 'number'} of the indices here")
    return t


def given_body(ctx: Context, data: Any) -> Term:
    """A number of a certificate that may mention one more index, as bound variable 0."""
    t = parse_term(data)
    if t.loose > 1 or not leaves(t, "idx") <= set(ctx.ranges) or t.op in LOGICAL:
        raise KernelError(f"{t} is no number of an index")
    return t


def rational(data: Any) -> Fraction:
    """A number of a certificate, in the form of terms: "p/q". A text such as "1e99999999", which would be expanded, is
    refused."""
    return Fraction(parse_term(["num", data, []]).data or 0)


def depends(t: Term) -> bool:
    """Whether the innermost bound variable occurs in a term that may have loose ones."""
    stack = [(t, 0)]
    seen: set[tuple[Term, int]] = set()
    while stack:
        t, k = stack.pop()
        if t.loose <= k or (t, k) in seen:
            continue
        seen.add((t, k))
        if t.op == "b" and t.data == k:
            return True
        if t.op == "big":
            stack.append((t.args[0], k))
            stack.append((t.args[1], k + 1))
        else:
            stack.extend((a, k) for a in t.args)
    return False
