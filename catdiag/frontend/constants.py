"""Python numbers in a program, as exact constants of its diagram."""

from __future__ import annotations

import math
import numbers
from fractions import Fraction

from catdiag.category.diagram import Diagram
from catdiag.util.errors import TypeMismatch


def number(value: object) -> Fraction | None:
    """The exact value of a number: the fraction of its shortest decimal representation; None for minus infinity.

    >>> number(0.1), number(-float("inf"))
    (Fraction(1, 10), None)

    Raises TypeMismatch for NaN, plus infinity, and values that are no real numbers.
    """
    if getattr(value, "shape", None) == () and hasattr(value, "dtype"):
        value = value[()]  # type: ignore[index]  # an array without axes is a number
    if isinstance(value, bool):
        raise TypeMismatch(f"{value} is a truth value: expected an array or a number; write a comparison instead")
    if isinstance(value, numbers.Rational):
        return Fraction(int(value.numerator), int(value.denominator))
    if isinstance(value, numbers.Real):
        if math.isnan(value):
            raise TypeMismatch("nan is not a number that an algorithm can compute with: expected a real number")
        if math.isinf(value):
            if float(value) > 0:
                raise TypeMismatch("plus infinity is not a value here: expected a real number or -float('inf')")
            return None
        # NumPy's float32 has its own shortest text; Python's repr gives that of a float, and so of NumPy's float64.
        return Fraction(float.__repr__(value) if isinstance(value, float) else str(value))
    hint = "expected a traced array or a number"
    if hasattr(value, "shape") and hasattr(value, "dtype"):
        hint = "an array of numbers must come in as an argument of the function, with axes in the signature"
    elif isinstance(value, Diagram):
        hint = "call the diagram on arrays first"
    raise TypeMismatch(f"cannot compute with {type(value).__name__} {short(value)}: {hint}")


def short(value: object) -> str:
    """The text of a value for a message, truncated where it is long."""
    text = repr(value)
    return text if len(text) <= 40 else text[:37] + "..."
