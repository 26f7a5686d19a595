"""Counterexamples as plain data; `replay` says whether what was read is one (see `prove.validate`)."""

from __future__ import annotations

import re
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from catdiag.prove.validate import NotACounterexample, replay

if TYPE_CHECKING:
    from catdiag.prove.refute import Counterexample


def as_data(found: Counterexample) -> dict[str, Any]:
    """A counterexample as plain data: rationals are text, `"1/3"`, and so are `"-inf"` and `"e^2"`.

    >>> from catdiag.prove.refute import Counterexample
    >>> as_data(Counterexample({"x": 1}, {"A": [Fraction(1, 3)]}, Fraction(2, 3), Fraction(1), {}))["arrays"]
    {'A': ['1/3']}
    """

    def plain(x: Any) -> Any:
        if isinstance(x, list):
            return [plain(v) for v in x]
        return x if isinstance(x, bool) else str(x)

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


def _lengths(shape: Any) -> tuple[int, ...]:
    if any(type(n) is not int or n < 0 for n in shape):
        raise ValueError(f"expected the lengths of axes, found {shape}")
    return tuple(shape)


_LONGEST = 10_000
"""Characters of a reason, above which it is none of ours."""
_POWER = re.compile(r"e(?:\^\(?(-?[0-9]{1,4000}(?:/[0-9]{1,4000})?)\)?)?")
_RATIONAL = re.compile(r"-?[0-9]{1,4000}(?:/[0-9]{1,4000})?")


def of_data(data: Any) -> Counterexample:
    """The counterexample that plain data says; its two values are to be found by running. Raises NotACounterexample."""
    from catdiag.prove.exact import BOTTOM, exp
    from catdiag.prove.functions import Function
    from catdiag.prove.refute import Counterexample

    def value(x: Any) -> Any:
        if isinstance(x, list):
            return [value(v) for v in x]
        if isinstance(x, bool) or x in ("-inf", "-∞"):
            return x if isinstance(x, bool) else BOTTOM
        # The text of a number of a certain length only: `1e999999999` would fill the memory.
        text = str(x) if isinstance(x, (str, int)) else ""
        power = _POWER.fullmatch(text)
        if power is None and _RATIONAL.fullmatch(text) is None:
            raise ValueError(f"not a number: {str(x)[:80]}")
        return exp(Fraction(power.group(1) or 1)) if power else Fraction(text)

    def naturals(numbers: Any) -> dict[str, int]:
        found = {str(name): n for name, n in dict(numbers).items()}
        if any(type(n) is not int or n < 0 for n in found.values()):
            raise ValueError(f"expected natural numbers, found {numbers}")
        return found

    def said(text: Any) -> str:
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
            reason=said(data.get("reason", "")),
            shapes={
                str(name): tuple(naturals(dict(enumerate(shape))).values()) for name, shape in data["shapes"].items()
            },
            elements={str(name): str(element) for name, element in data["elements"].items()},
        )
    except (KeyError, TypeError, ValueError, ZeroDivisionError, AttributeError, RecursionError) as error:
        raise NotACounterexample(f"what was given is no counterexample: {type(error).__name__}: {error}") from error


__all__ = ["NotACounterexample", "as_data", "of_data", "replay"]
