"""Counterexamples as plain data, and run again: the two programs on the numbers, and whether they differ there.

Whoever hands in a counterexample need not be believed: sizes, assumptions and shapes are looked at again, and both
programs are run on the exact numbers.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from catdiag.errors import CatdiagError

if TYPE_CHECKING:
    from catdiag.prove.exact import Array, Element, Value
    from catdiag.prove.refute import Counterexample


class NotACounterexample(CatdiagError):
    """Numbers that do not show two programs to differ."""


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


def replay(statement: Mapping[str, Any], found: Counterexample) -> Counterexample:
    """A counterexample with the two values that the programs of a statement really give.

    Raises NotACounterexample, saying why, where sizes or shapes do not fit, an assumption is not met, the left program
    is not defined, or the values do not certainly differ (or, where the right one is said not to be defined, it is).
    """
    from dataclasses import replace

    from catdiag.prove import exact

    left, right = statement["left"], statement["right"]
    try:
        for op, a, b in statement["assume"]:
            x, y = exact.size_value(a, found.sizes), exact.size_value(b, found.sizes)
            if not {"lt": x < y, "le": x <= y, "eq": x == y}[op]:
                raise NotACounterexample(f"the sizes {found.sizes} do not meet an assumption: {x} and {y} for {op}")
        inputs = [_input(d, found) for d in left["inputs"]]
        blocks = {name: max(1, n) for name, n in found.blocks.items()}
        values = []
        for program in (left, right):
            run = exact.run(program, inputs, found.sizes, blocks, found.functions)
            values.append(run[found.output].at(found.index))
            if program is left and any(isinstance(v, exact.NoValue) for a in run for v in a.values.values()):
                raise NotACounterexample("on these numbers the left program is not defined")
    except (KeyError, IndexError) as error:
        raise NotACounterexample(f"the numbers lack {error}") from error
    if found.undefined:
        missing = values[1]
        if not isinstance(missing, exact.NoValue) or not missing.undefined:
            raise NotACounterexample(f"on these numbers the right program is defined: {missing}")
        return replace(found, lhs=_certain(values[0]), rhs=None, reason=str(missing))
    lhs, rhs = (_certain(value) for value in values)
    if not exact.different(lhs, rhs):
        raise NotACounterexample(f"on these numbers the two do not certainly differ: {lhs} and {rhs}")
    return replace(found, lhs=lhs, rhs=rhs)


def _certain(value: Element) -> Value:
    from catdiag.prove.exact import NoValue

    if isinstance(value, NoValue):
        raise NotACounterexample(f"one of the two has no value there: {value}")
    return value


def _input(declared: Mapping[str, Any], found: Counterexample) -> Array:
    """An input's elements, of the shape that the sizes say and of its element type."""
    from catdiag.prove import exact

    name = str(declared["name"])
    names = [str(axis) for axis, _ in declared["axes"]]
    shape = [exact.size_value(size, found.sizes) for _, size in declared["axes"]]
    nested = found.arrays[name]

    def fits(x: Any, lengths: Sequence[int]) -> bool:
        if not lengths:
            return not isinstance(x, list)
        return isinstance(x, list) and len(x) == lengths[0] and all(fits(v, lengths[1:]) for v in x)

    if not fits(nested, shape):
        raise NotACounterexample(f"array {name} does not have the shape {shape}")

    def value(at: tuple[int, ...]) -> Value:
        x = nested
        for k in at:
            x = x[k]
        element = declared["element"]
        if (element == "bool") != isinstance(x, bool) or (isinstance(x, exact.MinusInfinity) and element != "extended"):
            raise NotACounterexample(f"array {name} holds {x}, which is not {element}")
        if element == "int" and Fraction(x).denominator != 1:
            raise NotACounterexample(f"array {name} holds {x}, which is no integer")
        return x  # type: ignore[no-any-return]

    return exact.build(names, shape, value)
