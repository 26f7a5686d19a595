"""Polynomials over opaque atoms: the normal form behind the steps `ring` and `field`.

A polynomial maps monomials to rational coefficients; a monomial maps atoms to exponents. Powers of e
are monomials: for real m, `exp(c·m + c′·m′) = E(m)^c · E(m′)^c′` with atoms E(m) = exp(m) > 0, so that their
exponents may be any rational. `exp` of a term that may be −∞ is an atom as any other: it may be 0. Other atoms
have whole exponents, negative ones only where the atom is known not to be zero. All of this is sound only
between real values: every factor and summand is asked to be real (`facts.real`), and where one is not,
`NotReal` is raised.

Used laws: A7 (an ordered field; exp a homomorphism; log its inverse on the positives; sqrt on the
non-negatives; erf and sin odd, cos even, sin and cos of a sum, cos² = 1 − sin²), and `inv(a·b) = inv a · inv b`,
which holds of the total `inv` too.
"""

from __future__ import annotations

from fractions import Fraction
from math import isqrt
from typing import Protocol

from catdiag.kernel.rationals import Rational, absolute, quotient, simplest
from catdiag.kernel.terms import ONE, ZERO, KernelError, Term, add, fixed, fn, is_fixed, mul, num

Monomial = tuple[tuple[Term, Rational], ...]
Poly = dict[Monomial, Rational]

LIMIT = 20_000
"""The most monomials and the largest exponent of a normal form; a larger goal is refused, not waited for."""

_ANGLES, _MULTIPLES = 4, 3
"""The most monomials, repeated ones counted each time, of an angle whose sine and cosine are opened; and the highest
multiple of one that is opened: a higher one counts as one angle."""

DIGITS = 200_000
"""The most binary digits of a coefficient."""


LARGEST_ATOM = 20_000
"""The largest part of a normal form."""


class NotReal(KernelError):
    """A polynomial step over a value that is not known to be real."""


class TooLarge(KernelError):
    """A goal whose normal form exceeds the limit."""


class Facts(Protocol):
    """What the normal form asks of its context. `polynomials` caches results."""

    polynomials: dict[Term, Poly]

    def real(self, t: Term) -> bool: ...
    def nonzero(self, t: Term) -> bool: ...
    def positive(self, t: Term) -> bool: ...
    def nonnegative(self, t: Term) -> bool: ...


def _mono(powers: dict[Term, Rational]) -> Monomial:
    found = [(a, e) for a, e in powers.items() if e]
    if len(found) > 1:
        found.sort(key=lambda p: p[0].key)
    return tuple(found)


def constant(c: Rational) -> Poly:
    """A constant polynomial."""
    return {(): c} if c else {}


def plus(p: Poly, q: Poly) -> Poly:
    """p + q."""
    result = dict(p)
    for m, c in q.items():
        _accumulate(result, m, c)
    return result


def scaled_by(p: Poly, c: Rational) -> Poly:
    """c · p for c ≠ 0."""
    return {m: c * d for m, d in p.items()}


def put(p: Poly, a: Term, value: Poly, facts: Facts) -> Poly:
    """p with an atom, which has natural exponents in it, replaced by a polynomial."""
    result: Poly = {}
    for m, c in p.items():
        powers = dict(m)
        e = powers.pop(a, 0)
        result = plus(result, times({_mono(powers): c}, power(value, int(e), facts), facts))
    return result


def times(p: Poly, q: Poly, facts: Facts) -> Poly:
    """p · q; squares of square roots and of cosines are folded."""
    if len(p) * len(q) > LIMIT:
        raise TooLarge(f"a product of {len(p)} and {len(q)} monomials")
    result: Poly = {}
    for m, c in p.items():
        for n, d in q.items():
            powers = dict(m)
            for a, e in n:
                powers[a] = powers[a] + e if a in powers else e
            coefficient = c * d
            if coefficient.numerator.bit_length() + coefficient.denominator.bit_length() > DIGITS:
                raise TooLarge("a coefficient with too many digits")
            folded: Poly = {(): coefficient}
            for a, e in list(powers.items()):
                if e == 1:
                    continue
                if absolute(e) > LIMIT and not is_unit(a):
                    raise TooLarge(f"a power of {e}")
                # [c]² = [c] for a condition c as 0 or 1
                if a.op == "ite" and a.args[1:] == (ONE, ZERO) and e > 1:
                    powers[a] = 1
                # sqrt(u)² = u for u ≥ 0
                if e >= 2 and is_fixed(a) and a.data == "%cos" and facts.real(a.args[0]):
                    # cos²u = 1 − sin²u
                    powers[a] = e % 2
                    square: Poly = {(): 1, ((fixed("sin", a.args[0]), 2),): -1}
                    for _ in range(int(e // 2)):
                        folded = times(folded, square, facts)
                if a.op == "sqrt" and absolute(e) >= 2 and facts.nonnegative(a.args[0]):
                    k = int(quotient(e, 2))
                    powers[a] = e - 2 * k
                    base = to_poly(a.args[0] if k > 0 else fn("inv", a.args[0]), facts)
                    for _ in range(abs(k)):
                        folded = times(folded, base, facts)
            rest = _mono(powers)
            if len(folded) == 1 and () in folded:
                result = _accumulate(result, rest, folded[()])
            else:
                result = plus(result, times({rest: 1}, folded, facts))
    return result


def _accumulate(p: Poly, m: Monomial, c: Rational) -> Poly:
    total = p[m] + c if m in p else c
    if total:
        p[m] = total if type(total) is int else simplest(total)
    else:
        p.pop(m, None)
    return p


def power(p: Poly, n: int, facts: Facts) -> Poly:
    """pⁿ for a natural n."""
    if n > LIMIT:
        raise TooLarge(f"a power of {n}")
    result = constant(1)
    for _ in range(n):
        result = times(result, p, facts)
    return result


def _atom(t: Term) -> Poly:
    return {((t, 1),): 1}


def is_unit(a: Term) -> bool:
    """Whether an atom is an E(m), hence positive: these are made only for real m, and are never terms outside."""
    return a.op == "E"


def to_poly(t: Term, facts: Facts) -> Poly:
    """The polynomial of a term. Raises NotReal where a part is not known to be real."""
    if t.op == "num":
        return constant(simplest(t.data if type(t.data) is Fraction else Fraction(t.data or 0)))
    if t.op in ("size", "idx"):
        return _atom(t)
    found = facts.polynomials.get(t)
    if t.op in ("add", "mul"):
        if found is None:
            found = {} if t.op == "add" else constant(1)
            for a in t.args:
                p = to_poly(a, facts)
                found = plus(found, p) if t.op == "add" else times(found, p, facts)
            facts.polynomials[t] = found
        return dict(found)
    if found is None:
        if not facts.real(t):
            raise NotReal("{} is not known to be real", t if t.weight < 1000 else "a term")
        found = _of_function(t, facts)
        if any(atom.weight > LARGEST_ATOM for m in found for atom, _ in m):
            raise TooLarge("an atom of a normal form is too large")
        facts.polynomials[t] = found
    return found


def _of_function(t: Term, facts: Facts) -> Poly:
    if t.op == "exp":
        exponent = t.args[0]
        if facts.real(exponent):
            return _exp(to_poly(exponent, facts), facts)
        # exp(a + b) = exp a · exp b, −∞ included: what is real comes out.
        reals = [a for a in exponent.args if facts.real(a)] if exponent.op == "add" else []
        if reals:
            rest = add(*(a for a in exponent.args if not facts.real(a)))
            return times(_exp(to_poly(add(*reals), facts), facts), _atom(fn("exp", rest)), facts)
        return _atom(t)
    if t.op == "inv" and facts.real(t.args[0]):
        return _inv(to_poly(t.args[0], facts), facts)
    if t.op == "log" and facts.real(t.args[0]):
        return _log(to_poly(t.args[0], facts), facts)
    if t.op == "sqrt" and facts.real(t.args[0]):
        return _sqrt(to_poly(t.args[0], facts), facts)
    if is_fixed(t) and facts.real(t.args[0]):
        angle = to_poly(t.args[0], facts)
        if t.data == "%erf":
            return _odd("erf", angle)
        return _waves(angle, facts)[t.data == "%cos"]
    return _atom(t)


def _odd(name: str, p: Poly) -> Poly:
    """f(p) of an odd function, by f(−p) = −f(p): as f of the one of p and −p whose leading coefficient is positive."""
    if not p:
        return {}
    up = p[leading(p)] > 0
    return {((fixed(name, to_term(p if up else scaled_by(p, -1))), 1),): 1 if up else -1}


def _waves(p: Poly, facts: Facts) -> tuple[Poly, Poly]:
    """sin p and cos p. A sum of few multiples of monomials is opened: sin(a + b) = sin a·cos b + cos a·sin b, and
    cos(a + b) = cos a·cos b − sin a·sin b; with that of −a, they are functions of the monomials over the denominators,
    or of high multiples as they are.
    """
    if not p:
        return {}, constant(1)
    times_of = {m: abs(c.numerator) if abs(c.numerator) <= _MULTIPLES else 1 for m, c in p.items()}
    if sum(times_of.values()) > _ANGLES:
        sign = 1 if p[leading(p)] > 0 else -1
        return _odd("sin", p), _atom(fixed("cos", to_term(scaled_by(p, sign))))
    sine, cosine = constant(0), constant(1)
    for m, c in p.items():
        part = to_term({m: quotient(absolute(c), times_of[m])})
        s = scaled_by(_atom(fixed("sin", part)), 1 if c > 0 else -1)
        k = _atom(fixed("cos", part))
        for _ in range(times_of[m]):
            sine, cosine = (
                plus(times(sine, k, facts), times(cosine, s, facts)),
                plus(times(cosine, k, facts), scaled_by(times(sine, s, facts), -1)),
            )
    return sine, cosine


def _exp(p: Poly, facts: Facts) -> Poly:
    powers: dict[Term, Rational] = {}
    result = constant(1)
    for m, c in p.items():
        if len(m) == 1 and m[0][1] == 1 and m[0][0].op == "log" and c.denominator == 1:
            # exp(c·log u) = u^c for u > 0
            u = m[0][0].args[0]
            if facts.positive(u):
                base = to_poly(u if c > 0 else fn("inv", u), facts)
                result = times(result, power(base, abs(int(c)), facts), facts)
                continue
        atom = Term("E", None, (term_of_monomial(m),))
        powers[atom] = powers.get(atom, 0) + c
    return times(result, {_mono(powers): 1}, facts)


def _content(p: Poly) -> tuple[Rational, dict[Term, Rational], Poly]:
    """p = coefficient · powers of e · rest, such that all multiples of p by these have the same rest."""
    common: dict[Term, Rational] = {}
    atoms = {a for m in p for a, _ in m if is_unit(a)}
    for a in atoms:
        least = min(dict(m).get(a, 0) for m in p)
        if least:
            common[a] = least
    stripped: Poly = {}
    for m, c in p.items():
        powers = dict(m)
        for a, e in common.items():
            powers[a] = powers.get(a, 0) - e
        stripped[_mono(powers)] = c
    lead = stripped[leading(stripped)]
    return lead, common, {m: quotient(c, lead) for m, c in stripped.items()}


def _inv(p: Poly, facts: Facts) -> Poly:
    if not p:
        return {}  # inv 0 = 0
    coefficient, common, rest = _content(p)
    powers = {a: -e for a, e in common.items()}
    if len(rest) == 1:
        for a, e in next(iter(rest)):
            if is_unit(a) or facts.nonzero(a):
                powers[a] = powers.get(a, 0) - e
            else:
                # inv(inv u) = u for real u; it is 0 for u = −∞
                flipped = a.args[0] if a.op == "inv" and facts.real(a.args[0]) else fn("inv", a)
                powers[flipped] = powers.get(flipped, 0) + e
        return times({(): quotient(1, coefficient)}, {_mono(powers): 1}, facts)
    powers[fn("inv", to_term(rest))] = 1
    return {_mono(powers): quotient(1, coefficient)}


def _log(p: Poly, facts: Facts) -> Poly:
    if not p:
        return {}  # log 0 = 0
    coefficient, common, rest = _content(p)
    factors = list(next(iter(rest))) if len(rest) == 1 else [(to_term(rest), 1)]
    if len(factors) == 1 and p == {tuple(factors): 1} and factors[0][0].op in ("inv", "sqrt"):
        # log(1/u) = −log u and log √u = log u / 2 for u > 0; for u ≤ 0, all are 0
        (a, e), c = factors[0], quotient(1, 2) if factors[0][0].op == "sqrt" else -1
        if e == 1:
            return times(constant(c), _log(to_poly(a.args[0], facts), facts), facts)
    if len(rest) == 1:
        # a² = (−a)²
        factors = [
            (a if e % 2 or facts.positive(a) or not facts.positive(mul(num(-1), a)) else mul(num(-1), a), e)
            for a, e in factors
        ]
    if coefficient > 0 and all(facts.positive(a) for a, _ in factors):
        # log(c·E(m)^e·u^k) = log c + e·m + k·log u for c, u > 0
        result = {} if coefficient == 1 else _atom(fn("log", num(coefficient)))
        for a, e in common.items():
            result = plus(result, times(constant(e), to_poly(a.args[0], facts), facts))
        for a, e in factors:
            result = plus(result, {((fn("log", a), 1),): e})
        return result
    if p == constant(1):
        return {}
    return _atom(fn("log", to_term(p)))


def _sqrt(p: Poly, facts: Facts) -> Poly:
    """√(c·t) = √c·√t for c > 0; √u² = u for u ≥ 0, and −u for u ≤ 0; other roots are atoms."""
    if not p:
        return p
    c = absolute(p[leading(p)])
    root = quotient(isqrt(c.numerator), isqrt(c.denominator))
    outside = constant(root) if root * root == c else _atom(fn("sqrt", num(c)))
    rest = scaled(p)
    inside = _root(next(iter(rest)), facts) if len(rest) == 1 and 1 in rest.values() else None
    return times(outside, _atom(fn("sqrt", to_term(rest))) if inside is None else inside, facts)


def _root(m: Monomial, facts: Facts) -> Poly:
    """The root of a monomial: √(a·t) = √a·√t for a ≥ 0 (for t < 0, both are 0), √a² = |a| where its sign is known."""
    result = constant(1)
    inside: dict[Term, Rational] = {}
    for a, e in m:
        if is_unit(a):
            result = times(result, {((a, quotient(e, 2)),): 1}, facts)
        elif a.op == "inv" and e == 1 and (len(m) == 1 or facts.nonnegative(a)):
            # √(1/u) = 1/√u, 0 for u ≤ 0
            root = _sqrt(to_poly(a.args[0], facts), facts)
            result = times(result, _inv(root, facts), facts)
        elif facts.nonnegative(a):
            whole = int(quotient(e, 2))
            powers: dict[Term, Rational] = {a: whole, fn("sqrt", a): e - 2 * whole}
            result = times(result, {_mono(powers): 1}, facts)
        elif e % 2 == 0 and facts.nonnegative(mul(num(-1), a)):
            half = quotient(e, 2)
            result = times(result, {((a, half),): -1 if half % 2 else 1}, facts)
        else:
            inside[a] = e
    left = to_term({_mono(inside): 1})
    return times(result, _atom(fn("sqrt", left)) if left != ONE else constant(1), facts)


def _order(m: Monomial) -> tuple[int, list[tuple[str, Rational]]]:
    return (len(m), [(a.key, e) for a, e in m])


def leading(p: Poly) -> Monomial:
    """The leading monomial of a polynomial, which `scaled` normalizes by."""
    return min(p, key=_order)


def scaled(p: Poly, signed: bool = False) -> Poly:
    """A polynomial divided by the absolute value of its leading coefficient, or by the coefficient itself."""
    lead = p[leading(p)]
    lead = lead if signed else absolute(lead)
    return dict(p) if lead == 1 else {m: quotient(c, lead) for m, c in p.items()}


def term_of_monomial(m: Monomial) -> Term:
    """A monomial written as a product; its powers of e come as one `exp`, last."""
    factors: list[Term] = []
    exponent: Poly = {}
    for a, e in m:
        if is_unit(a):
            exponent = plus(exponent, _scaled_exponent(a.args[0], e))
        else:
            factors.extend([a if e > 0 else fn("inv", a)] * abs(int(e)))
    if exponent:
        factors.append(fn("exp", to_term(exponent)))
    return mul(*factors)


def _scaled_exponent(t: Term, c: Rational) -> Poly:
    # The exponent of an E-atom is a monomial written as a term; it is read back as it was written. An inverse
    # stays an atom, since a·inv(a) may be 0.
    powers: dict[Term, Rational] = {}
    for a in t.args if t.op == "mul" else (t,):
        if a.op == "num":
            c *= Fraction(a.data or 0)
            continue
        powers[a] = powers.get(a, 0) + 1
    return {_mono(powers): simplest(c)}


def to_term(p: Poly) -> Term:
    """The canonical term of a polynomial."""
    parts = []
    for m in sorted(p, key=_order):
        body = term_of_monomial(m)
        c = p[m]
        if body == ONE:
            parts.append(num(c))
        elif c == 1:
            parts.append(body)
        else:
            parts.append(mul(num(c), *(body.args if body.op == "mul" else (body,))))
    return add(*parts) if parts else ZERO


def normal(t: Term, facts: Facts) -> Term:
    """The canonical term of the polynomial of a term."""
    return to_term(_divided(to_poly(t, facts), facts))


def _divided(p: Poly, facts: Facts) -> Poly:
    """Reduces products of an inverse with the leading monomial of what it inverts.

    For u = c·L + r with u ≠ 0: L·inv(u) = (1 − r·inv(u))/c. The number of steps is bounded, since this only simplifies.
    """
    original = p
    for _ in range(100):
        found = None
        for m in p:
            for a, e in m:
                if a.op == "inv" and a.args[0].op == "add" and e == 1 and facts.nonzero(a.args[0]):
                    u = to_poly(a.args[0], facts)
                    lead = max(u, key=_graded)
                    rest = dict(m)
                    if lead and all(rest.get(b, 0) >= k for b, k in lead):
                        found = (m, a, u, lead)
        if found is None:
            return p
        m, a, u, lead = found
        c = quotient(p[m], u[lead])
        powers = dict(m)
        for b, k in lead:
            powers[b] = powers.get(b, 0) - k  # k < 0 where u has a power below 0 of b
        with_inverse: Poly = {_mono(powers): 1}
        del powers[a]
        p = {n: d for n, d in p.items() if n != m}
        p = plus(p, times(constant(c), {_mono(powers): 1}, facts))
        remainder = {n: -d for n, d in u.items() if n != lead}
        p = plus(p, times(times(constant(c), with_inverse, facts), remainder, facts))
        if len(p) > LIMIT:
            return original
    return original


def _graded(m: Monomial) -> tuple[Rational, list[tuple[str, Rational]]]:
    return (sum((e for _, e in m), 0), [(a.key, e) for a, e in m])


def vanishes(p: Poly, facts: Facts) -> bool:
    """Whether a polynomial is zero once its inverses of nonzero terms are cleared (multiplied by common denominators).

    For u ≠ 0, Σ_k P_k·inv(u)^k = 0 iff Σ_k P_k·u^(K−k) = 0. The same holds for negative powers of an atom.
    """
    for _ in range(64):
        if not p:
            return True
        chosen: Term | None = None
        for m in p:
            for a, e in m:
                if is_unit(a):
                    continue
                inverted = (a.op == "inv" and e > 0 and facts.nonzero(a.args[0])) or e < 0
                if inverted and (chosen is None or (-a.weight, a.key) < (-chosen.weight, chosen.key)):
                    chosen = a
        if chosen is None:
            return False
        split: dict[int, Poly] = {}
        flipped = any(dict(m).get(chosen, 0) < 0 for m in p)
        for m, c in p.items():
            powers = dict(m)
            e = powers.pop(chosen, 0)
            split.setdefault(int(-e if flipped else e), {})[_mono(powers)] = c
        base = _atom(chosen) if flipped else to_poly(chosen.args[0], facts)
        if flipped and chosen.op == "inv":
            base = _atom(chosen)
        top = max(split)
        p = {}
        for k, part in split.items():
            p = plus(p, times(part, power(base, top - k, facts), facts))
    return False
