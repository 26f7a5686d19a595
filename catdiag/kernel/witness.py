"""Witnesses: numbers that meet the hypotheses of a theorem. Obligations are evaluated at given sizes, on exact arrays.

A witness shows that a theorem is not vacuous. It is plain data: `{"sizes": {"n": 2}, "arrays": {"A": ["1/2",
"-inf"]}, "functions": {"f": ["0", "1"]}}`, where a function is a polynomial, its coefficients from the constant on,
in t = x₁ + 2·x₂ + …. It proves nothing: no equation rests on what is said here.

A number is enclosed by two rationals, the same two where it is rational, and None is −∞; `exp`, `log` and roots are
enclosed by the neighbors of the decimals that `decimal` rounds correctly. A condition is true, false, or undecided by
the enclosures. What is undecided, or takes more than a bounded number of operations, counts as not met.

>>> from catdiag.kernel.terms import bound, big, fn, num, read, size
>>> total = big("sum", size("n"), fn("exp", read("A", bound(0))))
>>> owed = Obligation((), (), fn("lt", num(3), total))
>>> satisfied([owed], {"n": 2}, {"A": [Fraction(0), Fraction(1)]}, {})
True
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal
from fractions import Fraction
from itertools import product
from typing import Any

from catdiag.kernel.definedness import Obligation
from catdiag.kernel.semantics import Wire
from catdiag.kernel.terms import LOGICAL, KernelError, Term, is_name, size_term

Number = tuple[Fraction, Fraction] | None
_ZERO = (Fraction(0),) * 2
_WORK, _LONG, _LONGEST = 100_000, 500, 20_000
_DOWN, _UP = Context(50, ROUND_FLOOR, -2000, 2000), Context(50, ROUND_CEILING, -2000, 2000)


class Unknown(Exception):
    """The enclosures do not decide a condition, or it takes too much work."""


def told(
    obligations: Sequence[Obligation],
    sizes: Mapping[str, int],
    arrays: Mapping[str, Any],
    functions: Mapping[str, Sequence[Fraction]],
) -> bool | None:
    """Whether all obligations are certainly met (True), or one is certainly violated (False); None if the enclosures do
    not decide.

    `arrays` are nested lists of rationals, None for −∞, and truth values.
    """
    at = _At(sizes, arrays, functions)
    found: bool | None = True
    try:
        for owed in obligations:
            for _ in at.places(owed.ranges):
                guards = [at.truth(guard, ()) for guard in owed.guards]
                if False in guards:
                    continue
                met = at.truth(owed.condition, ())
                if met is False and None not in guards:
                    return False
                found = found if met else None
    except (Unknown, KeyError, ArithmeticError):
        return None
    return found


def satisfied(
    obligations: Sequence[Obligation],
    sizes: Mapping[str, int],
    arrays: Mapping[str, Any],
    functions: Mapping[str, Sequence[Fraction]],
) -> bool:
    """Whether all obligations are certainly met (see `told`)."""
    return told(obligations, sizes, arrays, functions) is True


def met(
    obligations: Sequence[Obligation],
    inputs: Sequence[Mapping[str, Any]],
    witness: Any,
    made: Sequence[tuple[str, Wire]] = (),
) -> bool:
    """Whether a witness for the inputs of a program meets all obligations. Raises KernelError for what is none.

    `made` are arrays that obligations may speak of beside the inputs: how each is made of these and of those before it.
    """
    if set(witness) != {"sizes", "arrays", "functions"} or set(witness["arrays"]) != {d["name"] for d in inputs}:
        raise KernelError("a witness has sizes, arrays for the inputs, and functions")
    sizes = witness["sizes"]
    if any(type(n) is not int or n < 0 for n in sizes.values()):
        raise KernelError("a size of the witness is no natural number")
    if not all(map(is_name, (*sizes, *witness["functions"]))):
        raise KernelError("a size or function of the witness is not named as they are, by an identifier")
    at = _At(sizes, {}, {})
    arrays = {}
    for d in inputs:
        shape = [at.whole(size_term(s), ()) for _, s in d["axes"]]
        arrays[d["name"]] = _array(witness["arrays"][d["name"]], shape, d["element"])
    functions = {name: [_array(c, (), "real") for c in given] for name, given in witness["functions"].items()}
    at = _At(sizes, arrays, functions)
    try:
        for name, wire in made:
            arrays[name] = at.elements(wire.term, wire.axes)
    except (Unknown, KeyError, ArithmeticError):
        return False
    return satisfied(obligations, sizes, arrays, functions)


def _array(data: Any, shape: Sequence[int], element: str) -> Any:
    """An array of a shape and an element type."""
    if shape:
        if not isinstance(data, list) or len(data) != shape[0]:
            raise KernelError(f"an array of the witness is not of the length {shape[0]} of its axis")
        return [_array(item, shape[1:], element) for item in data]
    if element == "bool" and isinstance(data, bool):
        return data
    if element == "extended" and data == "-inf":
        return None
    number = r"-?[0-9]{1,1000}" + ("" if element == "int" else "(/[0-9]{1,1000})?")
    if element == "bool" or not isinstance(data, str) or not re.fullmatch(number, data, re.ASCII):
        raise KernelError(f"the witness has {str(data)[:80]!r} where {element} is needed")
    return Fraction(data)


class _At:
    """Evaluates terms at given sizes and arrays, and at the indices that `places` iterates over."""

    def __init__(self, sizes: Mapping[str, int], arrays: Mapping[str, Any], functions: Mapping[str, Any]) -> None:
        self.sizes, self.arrays, self.functions = sizes, arrays, functions
        self.indices: dict[str, int] = {}
        self.known: dict[tuple[Term, tuple[int, ...]], Number] = {}
        self.work = 0

    def places(self, ranges: Sequence[tuple[str, Term]]) -> Iterator[None]:
        """Sets the indices to each of their values in turn."""
        for values in product(*[self.below(n, ()) for _, n in ranges]):
            self.indices = {name: i for (name, _), i in zip(ranges, values, strict=True)}
            self.known.clear()
            yield

    def whole(self, t: Term, bound: tuple[int, ...]) -> int:
        """A term that is an integer. Raises Unknown where it is not."""
        x = self.number(t, bound)
        if x is None or x[0] != x[1] or x[0].denominator != 1:
            raise Unknown
        return int(x[0])

    def below(self, t: Term, bound: tuple[int, ...]) -> range:
        """The indices below a term. Raises Unknown where they are too many.

        They are work of their own, if less than what is computed at each: there may be nothing to compute.
        """
        n = self.whole(t, bound)
        self.work += n // 8
        if max(n, self.work) > _WORK:
            raise Unknown
        return range(n)

    def element(self, t: Term, bound: tuple[int, ...]) -> Any:
        """What an array holds; outside of it there is nothing."""
        found = self.arrays[str(t.data)]
        for a in t.args:
            i = self.whole(a, bound)
            if not 0 <= i < len(found):
                raise Unknown
            found = found[i]
        return found

    def elements(self, t: Term, axes: Sequence[tuple[str, Term]]) -> Any:
        """The elements of an array that is made: enclosures of numbers, or truth values, in nested lists."""
        if axes:
            (name, n), *others = axes
            found = []
            for k in self.below(n, ()):
                self.indices[name] = k
                found.append(self.elements(t, others))
            return found
        self.known.clear()
        truth = self.truth(t, ()) if t.op in LOGICAL else None
        if t.op in LOGICAL and truth is None:
            raise Unknown
        return truth if t.op in LOGICAL else self.number(t, ())

    def truth(self, c: Term, bound: tuple[int, ...]) -> bool | None:
        """A condition; None if the enclosures do not decide it."""
        if c.op in ("and", "or"):
            parts = [self.truth(a, bound) for a in c.args]
            decided = c.op == "or"
            return decided if decided in parts else None if None in parts else not decided
        if c.op == "not":
            inner = self.truth(c.args[0], bound)
            return None if inner is None else not inner
        if c.op in ("true", "false", "holds"):
            return self.element(c, bound) is True if c.op == "holds" else c.op == "true"
        x, *rest = (self.number(a, bound) for a in c.args)
        if c.op == "real":
            return x is not None
        (y,) = rest
        if x is None or y is None:
            return x is y if c.op == "eq" else x is None and (c.op == "le" or y is not None)
        if x[1] < y[0] or y[1] < x[0]:
            return c.op != "eq" and x[1] < y[0]
        return c.op != "lt" if x[0] == x[1] == y[0] == y[1] else None

    def number(self, t: Term, bound: tuple[int, ...]) -> Number:
        """A term that is a number, as `kernel.terms` says what terms mean. Raises Unknown."""
        place = (t, bound[: t.loose])
        if place not in self.known:
            self.work += 1
            if self.work > _WORK:
                raise Unknown
            self.known[place] = _rounded(self._number(t, bound))
        return self.known[place]

    def _number(self, t: Term, bound: tuple[int, ...]) -> Number:
        if t.op == "ite":
            holds = self.truth(t.args[0], bound)
            if holds is None:
                raise Unknown
            return self.number(t.args[1 if holds else 2], bound)
        if t.op == "big":
            items = [self.number(t.args[1], (i, *bound)) for i in self.below(t.args[0], bound)]
            return _OPERATIONS[str(t.data)](items)
        if t.op in ("bot", "read"):
            x = self.element(t, bound) if t.args or t.op == "read" else None
            if isinstance(x, tuple):
                return x
        elif t.op == "mul":
            # A factor of 0 decides: terms have values everywhere.
            args = []
            for a in t.args:
                args.append(self.number(a, bound))
                if args[-1] == _ZERO:
                    return _ZERO
            return _times(args)
        elif t.args:
            args = [self.number(a, bound) for a in t.args]
            if t.op == "apply":
                return self._applied(str(t.data), args)
            return _OPERATIONS[t.op](args) if t.op in _OPERATIONS else _of_one(t.op, args[0])
        elif isinstance(t.data, str):
            x = Fraction((self.sizes if t.op == "size" else self.indices)[t.data])
        else:
            x = Fraction(bound[t.data] if isinstance(t.data, int) else t.data or 0)
        return None if x is None else (x, x)

    def _applied(self, name: str, args: Sequence[Number]) -> Number:
        t = _plus([_times([x, _point(k + 1)]) for k, x in enumerate(args)])
        total: Number = _ZERO
        for c in reversed(self.functions[name]):
            total = _plus([_times([total, t]), _point(c)])
        return total


def _point(x: int | Fraction) -> Number:
    exact = Fraction(x)
    return exact, exact


def _rounded(x: Number) -> Number:
    """The same enclosure, or a little more, in numbers that are not too long. Raises Unknown for long rationals."""
    if x is None:
        return x
    exact = x[0] is x[1]
    long = max(b.numerator.bit_length() + b.denominator.bit_length() for b in (x[:1] if exact else x))
    if long > _LONGEST:
        raise Unknown
    if exact or long <= _LONG or x[0] == x[1]:
        return x
    return Fraction(_decimal(x[0], _DOWN)), Fraction(_decimal(x[1], _UP))


def _decimal(x: Fraction, rounding: Context) -> Decimal:
    return rounding.divide(Decimal(x.numerator), Decimal(x.denominator))


def _of_one(op: str, x: Number) -> Number:
    """`inv`, `exp`, `log` or `sqrt`: 0 outside its domain, and else between the decimals beside the rounded ones."""
    if x is None:
        return _ZERO
    low, high = x
    if {"inv": low == high == 0, "log": high <= 0, "sqrt": high < 0, "exp": False}[op]:
        return _ZERO
    if {"inv": low <= 0 <= high, "log": low <= 0, "sqrt": low < 0, "exp": False}[op]:
        raise Unknown
    if op == "inv":
        return 1 / high, 1 / low
    name = "ln" if op == "log" else op
    below, above = (getattr(r, name)(_decimal(b, r)) for b, r in ((low, _DOWN), (high, _UP)))
    return Fraction(below.next_minus(_DOWN)), Fraction(above.next_plus(_UP))


def _plus(args: Sequence[Number]) -> Number:
    reals = [x for x in args if x is not None]
    if len(reals) < len(args):
        return None
    low = sum((x[0] for x in reals), Fraction(0))
    return low, low if all(x[0] is x[1] for x in reals) else sum((x[1] for x in reals), Fraction(0))


def _times(args: Sequence[Number]) -> Number:
    reals = [x for x in args if x is not None]
    if len(reals) < len(args):
        return _ZERO
    low = high = Fraction(1)
    for x in reals:
        if low is high and x[0] is x[1]:
            low = high = (_rounded(_point(low * x[0])) or _ZERO)[0]
            continue
        ends = (low * x[0], low * x[1], high * x[0], high * x[1])
        # Rounded on the way: what gets too long is given up before it has taken its time.
        low, high = _rounded((min(ends), max(ends))) or _ZERO
    return low, high


def _max(args: Sequence[Number]) -> Number:
    reals = [x for x in args if x is not None]
    return (max(x[0] for x in reals), max(x[1] for x in reals)) if reals else None


def _floor(args: Sequence[Number]) -> Number:
    a, n = args
    if a is None or n is None or n[1] <= 0:
        return _ZERO
    if a[0] is a[1] and n[0] is n[1]:
        return _point(a[0] // n[0])
    below, above = _times([a, _of_one("inv", n)]) or _ZERO
    if below // 1 != above // 1:
        raise Unknown
    return _point(below // 1)


_OPERATIONS = {"add": _plus, "sum": _plus, "mul": _times, "prod": _times, "max": _max, "div": _floor}

__all__ = ["met", "satisfied", "told"]
