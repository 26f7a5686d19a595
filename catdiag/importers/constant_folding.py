"""Elementwise functions of which some operands are known: numbers are computed, and what changes nothing is left out.

JAX and ONNX write numbers as arrays: a constant, broadcast, converted, added to zero. Here such an array remains one
number, and a function of known numbers is one more. A number that depends on sizes stays a function of them.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Sequence
from typing import Any

from catdiag.frontend import elementwise
from catdiag.frontend.tracing import running, traced
from catdiag.importers.imported_values import ArrayValue, Environment, Operand, SizeNumber
from catdiag.importers.program_builder import ProgramBuilder
from catdiag.importers.size_roots import recognized_number, summed_length
from catdiag.importers.torch_calls import Unsupported
from catdiag.util.errors import CatdiagError

_NEUTRAL: dict[str, tuple[float, bool]] = {
    "add": (0, True), "sub": (0, False), "mul": (1, True), "div": (1, False), "max": (-math.inf, True),
    "min": (math.inf, True),
}  # fmt: skip
"""The number that changes nothing as the right operand, and whether it may be the left one."""


def known(operand: Operand) -> Operand:
    """The number that all elements of an operand are, or the operand."""
    return operand.number if isinstance(operand, ArrayValue) and operand.number is not None else operand


def filled(b: ProgramBuilder, number: Operand, shape: Sequence[int], element: str) -> ArrayValue:
    """An array of equal numbers; an array itself."""
    if isinstance(number, ArrayValue):
        return number
    if isinstance(number, SizeNumber):
        dims, size = [b.factors.dimension(n) for n in shape], number
        return b.emit(dims, (), lambda env: running().lift(env[size]), element)
    return b.constant(number, shape, element)


def broadcasted(b: ProgramBuilder, value: Operand, shape: Sequence[int], element: str) -> ArrayValue:
    """An operand as an array of that shape."""
    if not isinstance(value, ArrayValue):
        return filled(b, value, shape, element)
    if b.shape(value) == list(shape):
        return value
    if value.number is not None:
        return b.constant(value.number, shape, value.element)
    dims = [()] * (len(shape) - len(value.dims)) + list(value.dims)
    return b.view(value, [d if b.length(d) == n else b.factors.dimension(n) for d, n in zip(dims, shape, strict=True)])


def folded(
    b: ProgramBuilder, operands: Sequence[Operand], make: Callable[..., Any], element: str, shape: Sequence[int]
) -> Operand:
    """A function at each index of operands that are broadcast to a shape: a number, where all operands are known."""
    given = [known(v) for v in operands]
    if not any(_shaped(b, v, shape) for v in given) and any(isinstance(v, ArrayValue) for v in given):
        given = list(operands)  # what gives the result its shape stays an array
    if any(isinstance(v, ArrayValue) for v in given):
        return b.pointwise(given, make, element)
    number = _computed(given, make)
    return number if not shape else filled(b, number, shape, element)


def _computed(given: Sequence[Operand], make: Callable[..., Any]) -> Operand:
    try:
        value = make(*(v.value if isinstance(v, SizeNumber) else v for v in given))
    except (ArithmeticError, ValueError, CatdiagError) as error:
        raise Unsupported(f"a number that has no value: {error}") from error
    if not any(isinstance(v, SizeNumber) for v in given):
        return value  # type: ignore[no-any-return]

    def of_sizes(env: Environment) -> Any:
        return make(*(env[v] for v in given))

    return SizeNumber(value, of_sizes)


def arithmetic(
    b: ProgramBuilder, name: str, operands: Sequence[Operand], element: str, shape: Sequence[int]
) -> Operand:
    """`add`, `sub`, `mul`, `div`, `max` or `min` of two operands; one itself where the other changes nothing."""
    left, right = operands
    neutral, both = _NEUTRAL[name]
    for one, other, may in ((left, right, True), (right, left, both)):
        number = known(other)
        if may and not isinstance(number, (ArrayValue, SizeNumber)) and number == neutral and _shaped(b, one, shape):
            return one
    if name in ("mul", "div") and element == "real":
        right = _of_size(b, left, known(right), name)
        left = recognized_number(b, right, known(left)) if name == "mul" else left
    if isinstance(left, ArrayValue) or isinstance(right, ArrayValue):
        element = _extended(element, (left, right), name)
    return folded(b, (left, right), _ARITHMETIC[name], element, shape)


def _shaped(b: ProgramBuilder, value: Operand, shape: Sequence[int]) -> bool:
    return isinstance(value, ArrayValue) and b.shape(value) == list(shape)


def _of_size(b: ProgramBuilder, beside: Operand, number: Operand, name: str) -> Operand:
    """A number that divides, or is multiplied: the length of what was summed over beside it, √n or 1/√n of it, as that
    function of the size."""
    found = summed_length(b, beside, number) if name == "div" else number
    return recognized_number(b, beside, found)


def _extended(element: str, operands: Sequence[Operand], name: str) -> str:
    """Whether elements may be minus infinity."""
    may = [v.element == "extended" if isinstance(v, ArrayValue) else v == -math.inf for v in map(known, operands)]
    return "extended" if any(may) and element == "real" and name in ("add", "sub", "max", "min", "where") else element


def chosen(
    b: ProgramBuilder, condition: Operand, cases: Sequence[Operand], element: str, shape: Sequence[int]
) -> Operand:
    """The first case where a condition holds, else the second. A case that is NaN everywhere is left out, with a note:
    there the program has no value."""
    test, yes, no = known(condition), known(cases[0]), known(cases[1])
    if isinstance(test, (bool, int, float)):
        case = cases[0 if test else 1]
        return broadcasted(b, case, shape, element) if shape else case
    for number, other in ((yes, cases[1]), (no, cases[0])):
        if isinstance(number, float) and math.isnan(number):
            b.notes.append(f"NaN is read as having no value: the other case is taken{b.at}")
            return broadcasted(b, other, shape, element) if shape else other
    if isinstance(yes, bool) and isinstance(no, bool) and yes != no and _shaped(b, test, shape):
        return test if yes else folded(b, [test], negated, "bool", shape)
    made = (test, *(v if isinstance(v, ArrayValue) else known(v) for v in cases))
    return folded(b, made, _where, _extended(element, cases, "where"), shape)


def negated(a: Any) -> Any:
    """Not, of an array of truth values or of one."""
    return ~a if traced(a) else not a


def _where(condition: Any, yes: Any, no: Any) -> Any:
    if not traced(condition):
        return yes if condition else no
    return elementwise.where(condition, yes, no)


_ARITHMETIC: dict[str, Callable[[Any, Any], Any]] = {
    "add": operator.add, "sub": operator.sub, "mul": operator.mul, "div": operator.truediv,
    "max": elementwise.maximum, "min": elementwise.minimum,
}  # fmt: skip
