"""Numbers with units: "228 KiB", "3.35 TB/s", "989.4 TFLOP/s".

>>> quantity("228 KiB", "B"), quantity("3.35 TB/s", "B/s"), quantity("0.5 us", "s"), quantity(7, "B")
(233472, 3350000000000.0, 5e-07, 7)
>>> quantity("50 GB/s", "B")
Traceback (most recent call last):
ValueError: '50 GB/s' is in B/s: expected B, such as 65536 or "64 KiB"

Decimal prefixes are powers of 1,000 (kB, MB); binary prefixes, with an i, are powers of 1,024 (KiB, MiB).
"""

from __future__ import annotations

import re
from fractions import Fraction

_DECIMAL = {"": 0, "k": 1, "K": 1, "M": 2, "G": 3, "T": 4, "P": 5, "m": -1, "u": -2, "µ": -2, "n": -3, "p": -4}
_BINARY = {"Ki": 1, "Mi": 2, "Gi": 3, "Ti": 4}
_UNITS = ("FLOP/s", "FLOPS", "flop/s", "B/s", "pJ/B", "Hz", "B", "s")
_SAME = {"FLOPS": "FLOP/s", "flop/s": "FLOP/s"}
_EXAMPLES = {
    "B": '65536 or "64 KiB"',
    "B/s": '3.35e12 or "3.35 TB/s"',
    "FLOP/s": '312e12 or "312 TFLOP/s"',
    "Hz": '1.41e9 or "1410 MHz"',
    "s": '5e-7 or "0.5 us"',
    "pJ/B": '31.2 or "31.2 pJ/B"',
    "": "128",
}
MOST = 10**30
"""What no quantity of a chip reaches, in base units."""
_LONGEST = 80
_TEXT = re.compile(r"\s*([+-]?[0-9][0-9_,]*(?:\.[0-9]*)?(?:[eE][+-]?[0-9]{1,3})?)\s*(\S*)\s*")


def expected(unit: str) -> str:
    """What a value in this unit should look like, as text."""
    return f"expected {unit or 'a plain number'}, such as {_EXAMPLES[unit]}"


def quantity(value: object, unit: str) -> int | float:
    """A number in the base unit, from a number (already in it) or a text. It is an int if it is exactly an integer and
    the unit is bytes or none. Raises ValueError for other types, other units, and texts that are not numbers."""
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        if value != value or value in (float("inf"), float("-inf")):
            raise ValueError(f"{value!r} is not a finite number: {expected(unit)}")
        if abs(value) > MOST:
            raise ValueError(f"a number above {MOST:.0e}: {expected(unit)}")
        return value
    if not isinstance(value, str):
        raise ValueError(f"{value!r} is a {type(value).__name__}: {expected(unit)}")
    found = _TEXT.fullmatch(value) if len(value) <= _LONGEST else None
    if found is None:
        raise ValueError(f"{value[:_LONGEST]!r} is no number: {expected(unit)}")
    exact, given = Fraction(found[1].replace(",", "").replace("_", "")), found[2]
    if given:
        exact *= _scale(value, given, unit)
    if abs(exact) > MOST:
        raise ValueError(f"{value!r} is above {MOST:.0e}: {expected(unit)}")
    if unit in ("B", "") and exact.denominator == 1:
        return int(exact)
    return float(exact)


def bytes_text(count: float, digits: int = 4) -> str:
    """A number of bytes with a binary prefix, to so many digits.

    >>> bytes_text(98816), bytes_text(232448, 3), bytes_text(100)
    ('96.5 KiB', '227 KiB', '100 B')
    """
    power = next((power for power in (4, 3, 2, 1) if count >= 1024**power), 0)
    scaled = count / 1024**power
    number = f"{scaled:.{digits}g}" if scaled < 10**digits - 0.5 else f"{round(scaled):,}"
    return f"{number} {('', *_BINARY)[power]}B"


def _scale(value: str, given: str, unit: str) -> Fraction:
    for known in _UNITS:
        prefix = given.removesuffix(known)
        if prefix == given or (prefix not in _DECIMAL and prefix not in _BINARY):
            continue
        if known == "pJ/B" and prefix:
            break
        if _SAME.get(known, known) != unit:
            raise ValueError(f"{value!r} is in {_SAME.get(known, known)}: {expected(unit)}")
        return Fraction(1024) ** _BINARY[prefix] if prefix in _BINARY else Fraction(1000) ** _DECIMAL[prefix]
    raise ValueError(f"{value!r} has unit {given!r}, which is not known: {expected(unit)}")
