"""How names and numbers of formulas are shown: the parts of a name, signs of reductions, powers of ten."""

from __future__ import annotations

import re
import sys
from dataclasses import dataclass
from fractions import Fraction

BIG = {"sum": "Σ", "prod": "∏", "max": "max", "min": "min", "any": "any", "all": "all"}
"""The signs of reductions."""


@dataclass(frozen=True)
class NameParts:
    """A name as it is typeset: `g2_q′` is g with the number 2, q below it, and a prime."""

    base: str
    number: str = ""
    below: str = ""
    primes: str = ""

    @property
    def of_level(self) -> bool:
        """Whether the number is the level of a tile, a block or a memory."""
        return bool(self.number and self.below and self.base in _TILES)


GREEK = {"rho": "ρ"}
"""Greek names that the library itself uses; users' names are unchanged."""
_TILES = {"g", "s", "M", "N"}
_NAME = re.compile(r"([^\W\d_]+)(\d*)((?:_\w+)?)([′″]*)")


def name_parts(name: str) -> NameParts:
    """The parts of a name. After more than one letter, `_` belongs to the name, as in diagrams.

    >>> name_parts("g2_q"), name_parts("head_dim").base
    (NameParts(base='g', number='2', below='q', primes=''), 'head_dim')
    """
    found = _NAME.fullmatch(name)
    if found is None:
        return NameParts(name)
    base, digits, below, primes = found.groups()
    if below and len(base) > 1 and base not in BIG and base not in GREEK:
        return NameParts(base + digits + below, primes=primes)
    return NameParts(base, digits, below[1:], primes)


def powers_of_ten(value: Fraction) -> tuple[str, int] | None:
    """A number as a decimal times a power of ten, where it is shown so; None for other numbers.

    Shown so are large round numbers and their inverses, and large ones that are exact floats.

    >>> powers_of_ten(Fraction(10**30)), powers_of_ten(Fraction(1, 10**30)), powers_of_ten(Fraction(1024))
    (('1', 30), ('1', -30), None)
    """
    text = str(value)
    whole = value.denominator == 1
    if whole and len(text) > 40 and abs(value) <= Fraction(sys.float_info.max) and value == float(value):
        head, _, power = repr(float(value)).partition("e")
        return (head, int(power)) if power else (head, 0)
    places = len(str(value.denominator)) - 1
    if places > 6 and value.denominator == 10**places:
        return str(value.numerator), -places
    zeros = len(text) - len(text.rstrip("0"))
    return (text[:-zeros], zeros) if whole and zeros > 6 else None
