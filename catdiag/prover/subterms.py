"""What terms contain: subterms, and the conditions whose two cases a proof may have to take one by one."""

from __future__ import annotations

from collections.abc import Iterator

from catdiag.kernel.context import Context
from catdiag.kernel.facts import arithmetic, negate
from catdiag.kernel.polynomial import to_poly
from catdiag.kernel.terms import ZERO, KernelError, Term, fn, sub


def subterms(*terms: Term) -> Iterator[Term]:
    """All subterms of some terms, themselves included, each once; a term comes before its arguments.

    >>> from catdiag.kernel.terms import num, size
    >>> [t.op for t in subterms(fn("exp", fn("exp", num(1))), num(1))]
    ['num', 'exp', 'exp']
    """
    stack, seen = list(terms), set[Term]()
    while stack:
        t = stack.pop()
        if t not in seen:
            seen.add(t)
            yield t
            stack.extend(t.args)


def undecided_conditions(ctx: Context, *terms: Term, signs: bool = False) -> Iterator[Term]:
    """The conditions in some terms, without free bound variables, of which neither they nor their negation are known.

    They are the conditions of if-then-else, which argument of a maximum is the larger one, and that factors under a
    root are at least 0. With `signs`, also which factors under a root or a logarithm are 0, and the signs of factors on
    which the sign of a product in a condition depends.
    """
    for t in subterms(*terms):
        found: list[Term] = []
        if t.op == "ite":
            found.append(t.args[0])
        elif t.op == "max":
            found.append(fn("lt", t.args[0], t.args[1]))
        elif t.op in ("and", "or"):
            found.extend(a for a in t.args if a.op in ("lt", "le") and arithmetic(a))
        elif t.op == "sqrt" and t.args[0].op == "mul" and not signs:
            found.extend(fn("le", ZERO, a) for a in t.args[0].args)
        elif t.op in ("sqrt", "log") and t.args[0].op == "mul" and signs:
            found.extend(fn(op, ZERO, a) for a in dict.fromkeys(t.args[0].args) for op in ("eq", "le"))
        if signs:
            found = [e for c in found for e in (c, *_signs(ctx, c))]
        for c in found:
            if not c.loose and c.op in ("lt", "le", "eq", "holds") and not (ctx.entails(c) or ctx.entails(negate(c))):
                yield c


def _signs(ctx: Context, c: Term) -> Iterator[Term]:
    """The conditions on the signs of factors that determine the sign of a product."""
    if c.op not in ("lt", "le") or arithmetic(c) or c.loose:
        return
    try:
        p = to_poly(sub(c.args[1], c.args[0]), ctx)
    except KernelError:
        return
    for m in p if len(p) == 1 else ():
        for a, e in m if len(m) > 1 else ():
            if e % 2:
                yield fn("lt", ZERO, a)
                yield fn("eq", ZERO, a)
