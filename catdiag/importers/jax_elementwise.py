"""What JAX's elementwise primitives mean in named axes.

A call has its operands in `call["operands"]`, and the parameters of its equation by name.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from catdiag.frontend import elementwise
from catdiag.importers.aten_rules import RULES as ATEN
from catdiag.importers.constant_folding import arithmetic, chosen, filled, folded, known, negated
from catdiag.importers.example import NotImported
from catdiag.importers.imported_values import ArrayValue, Environment, Operand, SizeNumber
from catdiag.importers.program_builder import ProgramBuilder
from catdiag.importers.torch_calls import AtenCall, Rule, Unsupported, adding
from catdiag.importers.torch_elementwise import BINARY, UNARY, truncated

RULES: dict[str, Rule] = {}
rule = adding(RULES)

_LIKE_ATEN = (
    "neg", "exp", "exp2", "expm1", "log", "log1p", "sqrt", "rsqrt", "square", "abs", "tanh", "sign", "sin", "cos",
    "erf", "floor", "ceil",
)  # fmt: skip
_UNARY: dict[str, Callable[[Any], Any]] = {
    **{name: UNARY[name] for name in _LIKE_ATEN},
    "logistic": elementwise.sigmoid,
    "erfc": lambda a: 1 - elementwise.erf(a),
    "tan": lambda a: elementwise.sin(a) / elementwise.cos(a),
    "sinh": lambda a: (elementwise.exp(a) - elementwise.exp(-a)) / 2,
    "cosh": lambda a: (elementwise.exp(a) + elementwise.exp(-a)) / 2,
    **{name: UNARY[name] for name in ("asinh", "acosh", "atanh")},
    "cbrt": lambda a: elementwise.sign(a) * elementwise.exp(
        elementwise.log(elementwise.where(a == 0, 1, elementwise.abs(a))) / 3
    ),
}  # fmt: skip
_COMPARISONS = ("eq", "ne", "lt", "le", "gt", "ge", "lt_to", "le_to")
"""Those of a total order (`_to`) differ for what is NaN only."""


@rule(*_UNARY)
def _unary(b: ProgramBuilder, call: AtenCall) -> Operand:
    if call.element == "int" and call.name not in ("neg", "abs", "sign", "square"):
        raise Unsupported(f"jax.{call.name} of integers")
    return folded(b, call["operands"], _UNARY[call.name], call.element, call.shape)


@rule("add", "sub", "mul", "max", "min", "add_any")
def _arithmetic(b: ProgramBuilder, call: AtenCall) -> Operand:
    name = call.name.removesuffix("_any")
    if call.element == "bool":  # of truth values max is or, min is and
        if name not in ("max", "min"):
            raise Unsupported(f"jax.{name} of truth values")
        return folded(b, call["operands"], BINARY["__or__" if name == "max" else "__and__"], "bool", call.shape)
    return arithmetic(b, name, call["operands"], call.element, call.shape)


@rule("div")
def _div(b: ProgramBuilder, call: AtenCall) -> Operand:
    if call.element == "int":
        return folded(b, call["operands"], quotient, "int", call.shape)
    return arithmetic(b, "div", call["operands"], call.element, call.shape)


def quotient(a: Any, c: Any) -> Any:
    """The quotient of integers cut towards zero; ⌊−a/c⌋ is of a positive c."""
    if isinstance(a, int) and isinstance(c, int):
        return abs(a) // abs(c) * (1 if (a < 0) == (c < 0) else -1)
    return elementwise.where(a >= 0, a // c, -((-a) // c))


@rule("rem")
def _rem(b: ProgramBuilder, call: AtenCall) -> Operand:
    if call.element != "int":
        return folded(b, call["operands"], lambda a, c: a - c * truncated(a / c), "real", call.shape)
    return folded(b, call["operands"], lambda a, c: a - c * quotient(a, c), "int", call.shape)


@rule("floor_divide")
def _floor_divide(b: ProgramBuilder, call: AtenCall) -> Operand:
    if call.element != "int":
        return folded(b, call["operands"], lambda a, c: elementwise.floor(a / c), call.element, call.shape)
    return folded(b, call["operands"], lambda a, c: a // c, call.element, call.shape)


@rule("remainder")
def _remainder(b: ProgramBuilder, call: AtenCall) -> Operand:
    if call.element != "int":
        return folded(b, call["operands"], lambda a, c: a - c * elementwise.floor(a / c), call.element, call.shape)
    return folded(b, call["operands"], lambda a, c: a % c, call.element, call.shape)


@rule(*_COMPARISONS)
def _comparison(b: ProgramBuilder, call: AtenCall) -> Operand:
    (left, right), name = call["operands"], call.name.removesuffix("_to")
    if left is right and isinstance(left, ArrayValue):  # only NaN is not itself, and it is no number
        return b.constant(name in ("eq", "le", "ge"), call.shape, "bool")
    if (isinstance(left, ArrayValue) and left.element == "bool") or (
        isinstance(right, ArrayValue) and right.element == "bool"
    ):
        return folded(b, (left, right), _OF_TRUTHS[name], "bool", call.shape)
    return folded(b, (left, right), BINARY[name], "bool", call.shape)


def _xor(a: Any, c: Any) -> Any:
    if isinstance(a, bool) and isinstance(c, bool):
        return a != c
    if isinstance(a, bool) or isinstance(c, bool):
        array, number = (c, a) if isinstance(a, bool) else (a, c)
        return negated(array) if number else array
    return (a & ~c) | (c & ~a)


_OF_TRUTHS: dict[str, Callable[[Any, Any], Any]] = {
    "eq": lambda a, c: negated(_xor(a, c)),
    "ne": _xor,
    "lt": lambda a, c: _and(negated(a), c),
    "le": lambda a, c: _or(negated(a), c),
    "gt": lambda a, c: _and(a, negated(c)),
    "ge": lambda a, c: _or(a, negated(c)),
}


def _and(a: Any, c: Any) -> Any:
    if isinstance(a, bool) or isinstance(c, bool):
        array, number = (c, a) if isinstance(a, bool) else (a, c)
        return array if number else (False if isinstance(array, bool) else array & ~array)
    return a & c


def _or(a: Any, c: Any) -> Any:
    return negated(_and(negated(a), negated(c))) if isinstance(a, bool) or isinstance(c, bool) else a | c


def of_truths(name: str) -> Callable[[Any, Any], Any]:
    """A comparison, `eq` or `lt`, of truth values, of which some may be known."""
    return _OF_TRUTHS[name]


def logic(name: str) -> Callable[[Any, Any], Any]:
    """`and`, `or` or `xor` of truth values, of which some may be known."""
    return _LOGIC[name]


_LOGIC: dict[str, Callable[[Any, Any], Any]] = {"and": _and, "or": _or, "xor": _xor}


@rule("and", "or", "xor")
def _logic(b: ProgramBuilder, call: AtenCall) -> Operand:
    if call.element != "bool":
        raise Unsupported(f"jax.{call.name} of the bits of integers")
    # An operand that is one truth value is left out, or is the result.
    left, right = call["operands"]
    for one, other in ((left, right), (right, left)):
        number = known(other)
        if isinstance(number, bool) and isinstance(one, ArrayValue) and len(one.dims) == len(call.shape):
            if call.name == "xor":
                return folded(b, [one], negated, "bool", call.shape) if number else one
            return one if number == (call.name == "and") else filled(b, number, call.shape, "bool")
    return folded(b, (left, right), _LOGIC[call.name], "bool", call.shape)


@rule("not")
def _not(b: ProgramBuilder, call: AtenCall) -> Operand:
    if call.element != "bool":
        raise Unsupported("jax.not of the bits of integers")
    return folded(b, call["operands"], negated, "bool", call.shape)


@rule("round")
def _round(b: ProgramBuilder, call: AtenCall) -> Operand:
    if int(call["rounding_method"]) == 1:
        return folded(b, call["operands"], elementwise.round, call.element, call.shape)
    away = lambda a: elementwise.sign(a) * elementwise.floor(elementwise.abs(a) + 0.5)  # noqa: E731
    return folded(b, call["operands"], away, call.element, call.shape)


@rule("integer_pow")
def _integer_pow(b: ProgramBuilder, call: AtenCall) -> Operand:
    power = int(call["y"])
    if abs(power) > 64:
        raise Unsupported(f"the power {power}: integers are known up to 64")
    return folded(b, call["operands"], lambda a: a**power, call.element, call.shape)


@rule("pow")
def _pow(b: ProgramBuilder, call: AtenCall) -> Operand:
    base, exponent = map(known, call["operands"])
    if not isinstance(base, ArrayValue) and not isinstance(exponent, ArrayValue):
        return folded(b, call["operands"], lambda a, e: a**e, call.element, call.shape)
    if isinstance(base, SizeNumber) or isinstance(exponent, SizeNumber):
        raise Unsupported("a power that is computed from sizes")
    arguments = {"self": base, "exponent": exponent}
    return ATEN["pow"](b, AtenCall("pow", arguments, call.shapes, call.element, call.dtype))  # type: ignore[no-any-return]


@rule("select_n")
def _select(b: ProgramBuilder, call: AtenCall) -> Operand:
    which, *cases = call["operands"]
    if len(cases) == 1:
        return cases[0]  # type: ignore[no-any-return]
    if len(cases) == 2 and getattr(which, "element", "bool") == "bool":
        return chosen(b, which, cases[::-1], call.element, call.shape)
    found = cases[-1]
    for k in range(len(cases) - 2, -1, -1):
        here = folded(b, [which], lambda a, k=k: a == k, "bool", getattr(which, "dims", ()))
        found = chosen(b, here, (cases[k], found), call.element, call.shape)
    return found  # type: ignore[no-any-return]


@rule("clamp")
def _clamp(b: ProgramBuilder, call: AtenCall) -> Operand:
    low, value, high = call["operands"]
    bounded = arithmetic(b, "max", (value, low), call.element, call.shape)
    return arithmetic(b, "min", (bounded, high), call.element, call.shape)


@rule("is_finite")
def _is_finite(b: ProgramBuilder, call: AtenCall) -> Operand:
    (value,) = call["operands"]
    number = known(value)
    if not isinstance(number, ArrayValue):
        return filled(b, math.isfinite(number.value if isinstance(number, SizeNumber) else number), call.shape, "bool")
    if value.element == "extended":
        return b.pointwise([value], lambda a: a != -math.inf, "bool")

    def check(env: Environment) -> Any:
        if env[value].type.element == "extended":
            raise NotImported("jax.is_finite of an array that may hold minus infinity")
        return env[value]

    b.emit(value.dims, value.axes, check, value.element)
    return b.constant(True, call.shape, "bool")


@rule("convert_element_type")
def _convert(b: ProgramBuilder, call: AtenCall) -> Operand:
    (value,) = call["operands"]
    number = known(value)
    if isinstance(number, ArrayValue):
        return ATEN["to"](b, replace(call, name="to", arguments={"self": number}))  # type: ignore[no-any-return]
    if isinstance(number, SizeNumber):
        whole = call.element != "int" or float(number.value).is_integer()
        if not whole or call.element == "bool":
            raise Unsupported("a number that is computed from sizes, as another type")
        return number if not call.shape else filled(b, number, call.shape, call.element)
    kinds: dict[str, Callable[[Any], Any]] = {"bool": bool, "int": int, "real": float}
    same = isinstance(number, float) and not math.isfinite(number)
    made = number if same and call.element == "real" else kinds[call.element](number)
    return made if not call.shape else filled(b, made, call.shape, call.element)


@rule("stop_gradient", "copy", "copy_p", "name", "sharding_constraint", "reduce_precision", "real")
def _same(b: ProgramBuilder, call: AtenCall) -> Operand:
    return call["operands"][0]  # type: ignore[no-any-return]


@rule("optimization_barrier", "device_put")
def _all_same(b: ProgramBuilder, call: AtenCall) -> Any:
    return call["operands"][0] if len(call["operands"]) == 1 else tuple(call["operands"])
