"""Counterexamples, and their form as plain data; `validate` checks what was read."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

import numpy as np

from catdiag.prover.refute import exact_reals
from catdiag.prover.refute.function_interpretations import Function
from catdiag.util.errors import CatdiagError


class NotACounterexample(CatdiagError):
    """Numbers that do not show that two programs differ."""


@dataclass(frozen=True)
class Counterexample:
    """Sizes and exact arrays on which two diagrams differ.

    `.arrays` are nested lists of rationals by input name. `.lhs` and `.rhs` are the two values at `.index` of output
    `.output`: rationals, quotients of exponential polynomials, or enclosures; `float` gives a number. `.blocks` are the
    block and tile sizes that were used. `.functions` are interpretations of uninterpreted functions: call them, or pass
    them to `Diagram.run`. `.undefined` is "rhs" where the right program is undefined although the left one is defined;
    then `.rhs` is None, and `.reason` says what is undefined and where. `.floats` are the two values as NumPy computes
    them.
    """

    sizes: dict[str, int]
    arrays: dict[str, Any]
    lhs: Any
    rhs: Any
    index: dict[str, int]
    output: int = 0
    blocks: dict[str, int] = field(default_factory=dict)
    functions: dict[str, Function] = field(default_factory=dict)
    undefined: str | None = None
    reason: str = ""
    floats: tuple[float, float] | None = field(default=None, compare=False)
    shapes: dict[str, tuple[int, ...]] = field(default_factory=dict, repr=False)
    elements: dict[str, str] = field(default_factory=dict, repr=False)

    def numpy(self) -> dict[str, Any]:
        """The arrays for NumPy: of floats, of truth values or of integers, as the inputs are declared."""

        def convert(x: Any) -> Any:
            if isinstance(x, list):
                return [convert(v) for v in x]
            return x if isinstance(x, bool) else float(x)

        found = {}
        for name, value in self.arrays.items():
            array = np.array(convert(value))
            if self.elements.get(name) in ("bool", "int"):
                array = array.astype(np.bool_ if self.elements[name] == "bool" else np.int64)
            found[name] = array.reshape(self.shapes.get(name, array.shape))
        return found

    def __str__(self) -> str:
        lines = ["sizes " + ", ".join(f"{k}={v}" for k, v in self.sizes.items())]
        if self.blocks:
            lines.append("blocks " + ", ".join(f"{k}={v}" for k, v in self.blocks.items()))
        lines += [f"{name} = {_text(value)}" for name, value in self.arrays.items()]
        lines += [f"{name} is {function}" for name, function in self.functions.items()]
        return "\n".join([*lines, self.verdict])

    @property
    def verdict(self) -> str:
        """The two values, as text."""
        where = ", ".join(f"{a}={i}" for a, i in self.index.items())
        at = f" at {where}" if where else ""
        if self.undefined is not None:
            text = f"left gives {value_text(self.lhs)}{at}, right is not defined: {self.reason}"
        else:
            text = f"left gives {value_text(self.lhs)}, right gives {value_text(self.rhs)}{at}"
        if self.floats and any(
            abs(float(v) - w) > 1e-6 * (1 + abs(w)) for v, w in zip((self.lhs, self.rhs), self.floats)
        ):
            text += f" (rounded at each step, {self.floats[0]:.9g} and {self.floats[1]:.9g})"
        return text


def _text(value: Any) -> str:
    return "[" + ", ".join(map(_text, value)) + "]" if isinstance(value, list) else str(value)


def value_text(value: Any) -> str:
    """A value as text: exact where that is short, and as a decimal where it is not rational."""
    if isinstance(value, exact_reals.Powers):
        text = str(value)
        about = str(exact_reals.Interval(*exact_reals.bounds(value)))
        return f"{text} ≈ {about}" if len(text) <= 60 else about
    return str(value)


def plain(x: Any) -> Any:
    """An array, as nested lists, as plain data: numbers are text, as `as_data` gives them."""
    if isinstance(x, list):
        return [plain(v) for v in x]
    return x if isinstance(x, bool) else str(x)


def as_data(found: Counterexample) -> dict[str, Any]:
    """A counterexample as plain data: rationals are text, `"1/3"`, and so are `"-inf"` and `"e^2"`.

    >>> as_data(Counterexample({"x": 1}, {"A": [Fraction(1, 3)]}, Fraction(2, 3), Fraction(1), {}))["arrays"]
    {'A': ['1/3']}
    """
    return {
        "sizes": dict(found.sizes),
        "blocks": dict(found.blocks),
        "arrays": {name: plain(value) for name, value in found.arrays.items()},
        "functions": {name: function.data() for name, function in found.functions.items()},
        "output": found.output,
        "index": dict(found.index),
        "left": plain(found.lhs),
        "right": plain(found.rhs),
        "undefined": found.undefined,
        "shapes": {name: list(shape) for name, shape in found.shapes.items()},
        "elements": dict(found.elements),
        "reason": found.reason,
    }


_LONGEST = 10_000
"""The most characters of a reason in a file."""
_POWER = re.compile(r"e(?:\^\(?(-?[0-9]{1,4000}(?:/[0-9]{1,4000})?)\)?)?")
_RATIONAL = re.compile(r"-?[0-9]{1,4000}(?:/[0-9]{1,4000})?")


def of_data(data: Any) -> Counterexample:
    """The counterexample in plain data; its two values are computed by running the programs. Raises
    NotACounterexample.
    """

    def value(x: Any) -> Any:
        if isinstance(x, list):
            return [value(v) for v in x]
        if isinstance(x, bool) or x in ("-inf", "-∞"):
            return x if isinstance(x, bool) else exact_reals.BOTTOM
        # The length of a number's text is bounded: `1e999999999` would fill the memory.
        text = str(x) if isinstance(x, (str, int)) else ""
        power = _POWER.fullmatch(text)
        if power is None and _RATIONAL.fullmatch(text) is None:
            raise ValueError(f"not a number: {str(x)[:80]}")
        return exact_reals.exp(Fraction(power.group(1) or 1)) if power else Fraction(text)

    def naturals(numbers: Any) -> dict[str, int]:
        found = {str(name): n for name, n in dict(numbers).items()}
        if any(type(n) is not int or n < 0 for n in found.values()):
            raise ValueError(f"expected natural numbers, found {numbers}")
        return found

    def printable(text: Any) -> str:
        if not isinstance(text, str) or len(text) > _LONGEST or not text.replace("\n", "").isprintable():
            raise ValueError("the reason is no text that prints")
        return text

    try:
        return Counterexample(
            sizes=naturals(data["sizes"]),
            arrays={str(name): value(x) for name, x in dict(data["arrays"]).items()},
            lhs=None,
            rhs=None,
            index=naturals(data["index"]),
            output=naturals({"output": data["output"]})["output"],
            blocks=naturals(data["blocks"]),
            functions={str(name): Function.of_data(f) for name, f in dict(data["functions"]).items()},
            undefined="rhs" if data["undefined"] else None,
            reason=printable(data.get("reason", "")),
            shapes={
                str(name): tuple(naturals(dict(enumerate(shape))).values()) for name, shape in data["shapes"].items()
            },
            elements={str(name): str(element) for name, element in data["elements"].items()},
        )
    except (KeyError, TypeError, ValueError, ZeroDivisionError, AttributeError, RecursionError) as error:
        raise NotACounterexample(f"what was given is no counterexample: {type(error).__name__}: {error}") from error


__all__ = ["Counterexample", "NotACounterexample", "as_data", "of_data", "value_text"]
