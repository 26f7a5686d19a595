"""Numbers and formulas that users give: read as they are, never as text, which sympy would run as a program."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from catdiag.util.errors import SizeError, TypeMismatch, require

if TYPE_CHECKING:
    from sympy import Expr

_EXPECTED = 'expected a number or a formula of sympy, Symbol("M", positive=True) say'


def formula(value: Any, what: str) -> Expr:
    """A number or a formula of sympy. Raises TypeMismatch for text, for what is no number, and for infinities.

    >>> formula(8192, "the capacity")
    8192
    >>> try:
    ...     formula("M", "the capacity")
    ... except TypeMismatch as error:
    ...     print(error.message)
    the capacity is of type str: expected a number or a formula of sympy, Symbol("M", positive=True) say
    """
    import sympy
    from sympy import Expr

    try:
        found = sympy.sympify(value, strict=True)
    except (sympy.SympifyError, TypeError, ValueError, AttributeError):
        found = None
    if not isinstance(found, Expr):
        raise TypeMismatch(f"{what} is of type {type(value).__name__}: {_EXPECTED}")
    if found.is_number and (found is sympy.nan or found.is_finite is False or found.is_extended_real is False):
        raise TypeMismatch(f"{what} is {found}: {_EXPECTED}")
    return found


def numbers(sizes: Any, what: str = "sizes") -> None:
    """Raises TypeMismatch or SizeError unless sizes are finite numbers by name, or by symbol.

    >>> numbers({"q": 8})
    >>> try:
    ...     numbers({"q": "8"})
    ... except SizeError as error:
    ...     print(error.message)
    sizes gives 'q' as '8': expected a number
    """
    import sympy

    require(isinstance(sizes, Mapping), what, sizes, "numbers by name, such as {'q': 8}")
    for name, number in sizes.items():
        require(isinstance(name, (str, sympy.Symbol)), f"a name in {what}", name, "the name of a size, such as 'q'")
        if not finite(number):
            raise SizeError(f"{what} gives {str(name)!r} as {number!r}: expected a number")


def finite(number: Any) -> bool:
    """Whether it is a finite real number."""
    from sympy import Expr

    if isinstance(number, (bool, type)) or not (
        isinstance(number, (int, float, Fraction)) or hasattr(number, "__index__")
    ):
        return isinstance(number, Expr) and bool(number.is_number and number.is_finite and number.is_real)
    return bool(number == number and abs(number) != float("inf"))


def positive(number: Any, what: str) -> None:
    """Raises TypeMismatch unless it is a finite number above 0.

    >>> positive(3.35e12, "bytes_per_s")
    >>> try:
    ...     positive("fast", "bytes_per_s")
    ... except TypeMismatch as error:
    ...     print(error.message)
    bytes_per_s is 'fast': expected a number above 0
    """
    require(finite(number) and number > 0, what, number, "a number above 0")


def integer(number: Any, what: str, least: int = 1) -> None:
    """Raises TypeMismatch unless it is an integer that is not below `least`."""
    counted = type(number) is int or (hasattr(number, "__index__") and not isinstance(number, (bool, type)))
    require(counted and number >= least, what, number, f"an integer of at least {least}")


def text(value: Any, what: str, expected: str) -> None:
    """Raises TypeMismatch unless it is text."""
    require(isinstance(value, str), what, value, expected)


def by_name(value: Any, what: str, expected: str) -> None:
    """Raises TypeMismatch unless it is a mapping from names."""
    named = isinstance(value, Mapping) and all(isinstance(name, str) for name in value)
    require(named, what, value, expected)


def dtypes(value: Any) -> None:
    """Raises TypeMismatch unless it names element types: None, one for all, or one for each array by its name."""
    named = isinstance(value, Mapping) and all(isinstance(v, str) for pair in value.items() for v in pair)
    expected = "the name of an element type, such as 'bf16', or one for each array by its name"
    require(value is None or isinstance(value, str) or named, "dtype", value, expected)
