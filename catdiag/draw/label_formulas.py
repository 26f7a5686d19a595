"""Formulas as labels of pictures: plain text with printed signs, and marks for subscripts (see `draw.scene`)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction

from catdiag.category.formula import Formula, PlainText
from catdiag.category.formula_names import BIG

_LENGTHY = 100
"""The least denominator of fractions that are labeled as decimals."""


def label(of: Formula) -> str:
    """A formula as a label: minus signs, positions as indices, and long numbers shortened.

    >>> from catdiag.category.formula import infix, number, position
    >>> label(infix("−", position("x"), number(Fraction(1, 1000))))
    'i_{x} − 0.001'
    """
    return _LABEL.print(of)


class _LabelText(PlainText):
    """Formulas as labels."""

    name = "label"

    def rows(self) -> Mapping[str, Callable[[Formula, Sequence[str]], str]]:
        return {**super().rows(), "index": _index}

    def infix(self, of: Formula, args: Sequence[str]) -> str:
        if of.op == "/" and all(a.op == "number" for a in of.args) and of.args[1].data >= _LENGTHY:
            return _decimal(of.args[0].data / of.args[1].data)
        return super().infix(of, args)

    def big(self, of: Formula, args: Sequence[str]) -> str:
        below = ",".join(args[:-1])
        return f"{BIG[of.data]}_{below if of.args[0].op == 'symbol' and len(args) == 2 else f'{{{below}}}'} {args[-1]}"

    def sign(self, op: str) -> str:
        return "·" if op == "*" else super().sign(op).replace("-", "−")

    def number(self, value: Fraction) -> str:
        short = value.denominator >= _LENGTHY and "e" not in super().number(value)
        return (_decimal(value) if short else super().number(value)).replace("-", "−")


def _index(of: Formula, args: Sequence[str]) -> str:
    return f"i_{{{args[0]}}}" if of.args[0].op == "symbol" else f"index({args[0]})"


def _decimal(value: Fraction) -> str:
    """A fraction as a decimal; an approximation is marked as such."""
    short = f"{float(value):.6g}"
    return short if Fraction(short) == value else f"≈{float(value):.4g}"


_LABEL = _LabelText()
