"""Numbers of an imported program that are functions of its sizes, as 1/√d of attention; and roots of small integers.

A program has a number, as Python computed it. The theorem about it is one for all sizes only if the number is the
function of the size that it was made by. It is read as √n, 1/√n, or the fourth root of these, where it is that of the
length n that a product sums over: of the product that made the array beside it, or of one that the array goes into.
Such a number may have log 2 or log 10 as a factor or divisor, as log₂e = 1/log 2 of a softmax by powers of two.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from itertools import combinations
from typing import Any

from catdiag.frontend import elementwise
from catdiag.importers.dimensions import Dimension
from catdiag.importers.imported_values import ArrayValue, Environment, Operand, PendingNumber, SizeNumber, at
from catdiag.importers.value_builder import ValueBuilder

_LARGEST = 64
"""Integers up to this one are looked for under roots."""
_DENOMINATOR = 1000
_ULPS = 2 * 2.0**-52
_FEW_DIGITS, _MANY_DIGITS = 9, 15
_BY_CHANCE = 1e-4
"""How often a number is as near to a decimal of few digits by chance."""


@dataclass(frozen=True)
class _Root:
    text: str
    exponent: float
    make: Callable[[Any], Any]


_ROOTS = (
    _Root("1/sqrt(n)", -0.5, lambda n: 1 / elementwise.sqrt(n)),
    _Root("sqrt(n)", 0.5, elementwise.sqrt),
    _Root("n**(-1/4)", -0.25, lambda n: 1 / elementwise.sqrt(elementwise.sqrt(n))),
    _Root("n**(1/4)", 0.25, lambda n: elementwise.sqrt(elementwise.sqrt(n))),
)


@dataclass(frozen=True)
class _Logarithm:
    """A factor log n, or 1/log n."""

    n: int
    inverse: bool

    @property
    def value(self) -> float:
        return 1 / math.log(self.n) if self.inverse else math.log(self.n)

    @property
    def text(self) -> str:
        return f"{'/' if self.inverse else '·'}log({self.n})"

    def make(self) -> Any:
        """The number in a program."""
        return 1 / elementwise.log(self.n) if self.inverse else elementwise.log(self.n)


_LOGARITHMS = tuple(_Logarithm(n, inverse) for n in (2, 10, 500_000) for inverse in (False, True))
"""Those of numbers that powers are taken of: 10,000 and 1,000,000 are powers of 10."""


def least_base(number: float) -> tuple[float, int]:
    """The least integer of which an integer is a power, and the power, so that logarithms are multiples of one; another
    number, or a large one, as it is.

    >>> least_base(10000.0), least_base(64), least_base(500000), least_base(0.5)
    ((10, 4), (2, 6), (500000, 1), (0.5, 1))
    """
    if number % 1 == 0 and 1 < number <= 2**53:
        for power in range(int(math.log2(number)), 1, -1):
            root = round(number ** (1 / power))
            if root**power == number:
                return root, power
    return (int(number) if number % 1 == 0 else number), 1


def _root(number: float, n: int) -> _Root | None:
    """The root of a length that a number is, or a multiple of one by a logarithm."""
    if n < 2:
        return None
    for r in _ROOTS:
        if _near(number, n**r.exponent):
            return r
        for log in _LOGARITHMS:
            if _near(number, n**r.exponent * log.value):
                return _Root(f"{r.text}{log.text}", r.exponent, partial(_product, r, log))
    return None


def _near(number: float, other: float) -> bool:
    return math.isfinite(number) and abs(number - other) <= _ULPS * abs(number)


def _product(root: _Root, log: _Logarithm, n: Any) -> Any:
    return root.make(n) * log.make()


def _logarithm(number: float) -> tuple[Fraction, _Logarithm] | None:
    """A multiple of a logarithm, or of the inverse of one, by a fraction of small integers."""
    for log in _LOGARITHMS:
        ratio = Fraction(number / log.value).limit_denominator(_LARGEST)
        if 0 < abs(ratio) <= _LARGEST and _near(number, float(ratio) * log.value):
            return ratio, log
    return None


def known_ratio(number: float) -> Fraction | None:
    """The fraction of small integers, or the decimal of few digits, that a number of many digits is rounded from, as
    1 / 0.7 and 1 - 0.99 are.

    >>> known_ratio(1 / 0.7), known_ratio(1 - 0.99), known_ratio(0.25), known_ratio(2**-0.5)
    (Fraction(10, 7), Fraction(1, 100), None, None)
    """
    near = Fraction(number).limit_denominator(_DENOMINATOR)
    if near == 0 or float(near) != number or Fraction(repr(number)) == near:
        return _decimal(number)
    return near


def _decimal(number: float) -> Fraction | None:
    """The decimal of few digits that a number of many is one of, but for the rounding of numbers up to 1, or up to
    itself: the digits behind it are so many zeros, or nines, that they are hardly there by chance."""
    if len(repr(number).partition("e")[0].replace(".", "").strip("-0")) < _MANY_DIGITS:
        return None
    for digits in range(1, _FEW_DIGITS + 1):
        written = f"{number:.{digits - 1}e}"
        difference = abs(Fraction(number) - Fraction(written))
        unit = Fraction(10) ** (int(written.partition("e")[2]) - digits + 1)
        if difference <= 2.0**-52 * max(abs(number), 1) and difference <= _BY_CHANCE * unit:
            return Fraction(written)
    return None


def _noted(b: ValueBuilder, number: float, root: _Root, n: int, line: str | None) -> None:
    b.notes.append(f"{number!r} is read as {root.text}, with n the length {n}{at(line)}")


def summed_length(b: ValueBuilder, beside: Operand, number: Operand) -> Operand:
    """A number that divides: the length of all that was summed over beside it, or of the only part with so many
    elements, as that function of the size."""
    if not isinstance(beside, ArrayValue) or not isinstance(number, (int, float)) or number == 1:
        return number
    whole = b.factors.resolve(beside.contracted)
    parts = [p for k in range(1, len(whole)) for p in combinations(whole, k) if b.length(p) == number]
    dim = whole if b.length(whole) == number else parts[0] if len(parts) == 1 else ()
    if not dim:
        return number
    b.notes.append(f"{number!r} is read as the length that a sum beside it was over{b.at}")
    return SizeNumber(number, lambda env: env.size(dim))


def recognized_number(b: ValueBuilder, beside: Operand, number: Operand) -> Operand:
    """A floating-point number that is √n or 1/√n of the length n that a product beside it was summed over, as that
    function of the size; one that is a fraction of small integers, its root, or a multiple of log 2 or log 10, as that.
    Without a product, n is the length of the last dimension, and no square: then the number is irrational, and hardly
    there by chance."""
    if not b.read_roots or not isinstance(beside, ArrayValue) or not isinstance(number, float) or number in (0, 1):
        return number
    found = _of_the_size_beside(b, beside, number)
    return _constant(b, number) if found is None else found


def _of_the_size_beside(b: ValueBuilder, beside: ArrayValue, number: float) -> SizeNumber | None:
    dim: Dimension = beside.contracted or (beside.dims[-1] if beside.dims else ())
    n = b.length(dim)
    root = _root(number, n)
    if root is None or not (beside.contracted or math.isqrt(n) ** 2 != n):
        return None
    _noted(b, number, root, n, b.line)
    return SizeNumber(number, lambda env: root.make(env.size(dim)))


def _constant(b: ValueBuilder, number: float) -> float | SizeNumber:
    """A number that is a function of no size: a fraction, a multiple of a logarithm, or a root; else as it is."""
    if not math.isfinite(number):
        return number
    if (ratio := known_ratio(number)) is not None:
        b.notes.append(f"{number!r} is read as {ratio}{b.at}")
        return SizeNumber(number, lambda env: ratio)
    if (multiple := _logarithm(number)) is not None:
        factor, log = multiple
        b.notes.append(f"{number!r} is read as {factor}{log.text}{b.at}")
        return SizeNumber(number, lambda env: factor * log.make())
    square = Fraction(number * number).limit_denominator(_LARGEST)
    if not 0 < square <= _LARGEST or abs(abs(number) - math.sqrt(square)) > _ULPS * abs(number):
        return number
    above, below = square.as_integer_ratio()
    if math.isqrt(above) ** 2 == above and math.isqrt(below) ** 2 == below:
        return number
    sign = -1 if number < 0 else 1
    b.notes.append(f"{number!r} is read as {'-' * (sign < 0)}sqrt({square}){b.at}")
    return SizeNumber(number, lambda env: sign * elementwise.sqrt(above) / elementwise.sqrt(below))


def pending_number(b: ValueBuilder, beside: Operand, number: Operand) -> tuple[Operand, PendingNumber | None]:
    """A number as `recognized_number` reads it; one that is a function of no size beside it is a root of a length yet
    if a later product says so."""
    if not b.read_roots or not isinstance(number, float) or number in (0, 1) or not math.isfinite(number):
        return number, None
    own = _of_the_size_beside(b, beside, number) if isinstance(beside, ArrayValue) else None
    if own is not None:
        return own, None
    before = len(b.notes)
    constant = _constant(b, number) if isinstance(beside, ArrayValue) else number
    pending = PendingNumber(number, b.line, "".join(b.notes[before:]))

    def make(env: Environment) -> Any:
        if pending.make is not None:
            return pending.make(env)
        return constant.make(env) if isinstance(constant, SizeNumber) else constant

    return SizeNumber(number, make), pending


def settle(b: ValueBuilder, value: ArrayValue, summed: Dimension) -> None:
    """Reads the numbers that an array was multiplied by as roots of the length that it is summed over now."""
    n = b.length(summed)
    for pending in value.pending:
        root = _root(pending.number, n)
        if pending.make is None and root is not None:
            found = root
            if pending.note:
                b.notes.remove(pending.note)
            _noted(b, pending.number, root, n, pending.line)
            pending.make = lambda env, found=found: found.make(env.size(summed))
