"""What ONNX's elementwise operators mean in named axes."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from catdiag.frontend import elementwise
from catdiag.importers.aten_rules import RULES as ATEN
from catdiag.importers.constant_folding import arithmetic, chosen, folded, negated
from catdiag.importers.imported_values import ArrayValue, Operand, SizeNumber
from catdiag.importers.jax_elementwise import logic, of_truths, quotient
from catdiag.importers.onnx_values import (
    KnownArray,
    OnnxOperand,
    as_array,
    element_of,
    is_known,
    known_array,
    operand_of,
    operands,
    shape_of,
)
from catdiag.importers.program_builder import ProgramBuilder
from catdiag.importers.torch_calls import AtenCall, Rule, Unsupported, adding
from catdiag.importers.torch_elementwise import BINARY, UNARY, WRAPPED

RULES: dict[str, Rule] = {}
rule = adding(RULES)

OnElements = Callable[[ProgramBuilder, Sequence[Operand], str, Sequence[int]], Operand]
"""From operands, the element type and the shape to the result."""


def each(b: ProgramBuilder, call: AtenCall, make: OnElements, element: str = "") -> OnnxOperand:
    """An elementwise function of what a call reads: element by element, where all of it is known."""
    given = [v for v in operands(call) if v is not None]
    kinds = {element_of(v) for v in given}
    kind = element or next(k for k in ("real", "int", "bool") if k in kinds)
    shape = tuple(np.broadcast_shapes(*(shape_of(b, v) for v in given)))
    if is_known(call):
        arrays = [np.broadcast_to(v.elements, shape).reshape(-1) for v in given if isinstance(v, KnownArray)]
        return known_array([make(b, elements, kind, ()) for elements in zip(*arrays, strict=True)], shape)
    made = make(b, [operand_of(b, v) for v in given], kind, shape)
    return made if isinstance(made, ArrayValue) else known_array([made], ())


def _function(make: Callable[..., Any]) -> OnElements:
    return lambda b, given, element, shape: folded(b, given, make, element, shape)


def _parameter(
    name: str, default: float, make: Callable[[Any, float], Any]
) -> Callable[[AtenCall], Callable[[Any], Any]]:
    return lambda call: lambda a: make(a, call.get(name, default))


_UNARY: dict[str, Callable[[Any], Any]] = {
    "Abs": UNARY["abs"], "Neg": UNARY["neg"], "Exp": UNARY["exp"], "Log": UNARY["log"], "Sqrt": UNARY["sqrt"],
    "Reciprocal": UNARY["reciprocal"], "Sin": UNARY["sin"], "Cos": UNARY["cos"], "Tanh": UNARY["tanh"],
    "Tan": lambda a: elementwise.sin(a) / elementwise.cos(a),
    "Sinh": lambda a: (elementwise.exp(a) - elementwise.exp(-a)) / 2,
    "Cosh": lambda a: (elementwise.exp(a) + elementwise.exp(-a)) / 2,
    "Sigmoid": UNARY["sigmoid"], "Erf": UNARY["erf"], "Floor": UNARY["floor"], "Ceil": UNARY["ceil"],
    "Round": UNARY["round"], "Sign": UNARY["sign"], "Relu": UNARY["relu"], "HardSwish": UNARY["hardswish"],
    "Mish": UNARY["mish"], "Softplus": lambda a: elementwise.log(1 + elementwise.exp(a)),
    "Softsign": lambda a: a / (1 + elementwise.abs(a)),
    "Asinh": UNARY["asinh"], "Acosh": UNARY["acosh"], "Atanh": UNARY["atanh"],
}  # fmt: skip
_SHAPED = {
    "LeakyRelu": _parameter("alpha", 0.01, lambda a, k: elementwise.where(a > 0, a, k * a)),
    "Elu": _parameter("alpha", 1.0, lambda a, k: elementwise.where(a > 0, a, k * (elementwise.exp(a) - 1))),
    "Celu": _parameter("alpha", 1.0, lambda a, k: elementwise.where(a > 0, a, k * (elementwise.exp(a / k) - 1))),
    "ThresholdedRelu": _parameter("alpha", 1.0, lambda a, k: elementwise.where(a > k, a, 0)),
    "Swish": _parameter("alpha", 1.0, lambda a, k: a * elementwise.sigmoid(a if k == 1 else k * a)),
}


@rule(*_UNARY)
def _unary(b: ProgramBuilder, call: AtenCall) -> OnnxOperand:
    return each(b, call, _function(_UNARY[call.name]))


@rule(*_SHAPED)
def _shaped(b: ProgramBuilder, call: AtenCall) -> OnnxOperand:
    return each(b, call, _function(_SHAPED[call.name](call)))


@rule("Selu")
def _selu(b: ProgramBuilder, call: AtenCall) -> OnnxOperand:
    alpha, gamma = call.get("alpha", 1.6732632423543772), call.get("gamma", 1.0507009873554805)
    return each(b, call, _function(lambda a: gamma * elementwise.where(a > 0, a, alpha * (elementwise.exp(a) - 1))))


@rule("Shrink")
def _shrink(b: ProgramBuilder, call: AtenCall) -> OnnxOperand:
    limit, bias = call.get("lambd", 0.5), call.get("bias", 0.0)
    return each(
        b, call,
        _function(lambda a: elementwise.where(a < -limit, a + bias, elementwise.where(a > limit, a - bias, 0))),
    )  # fmt: skip


@rule("Mean")
def _mean(b: ProgramBuilder, call: AtenCall) -> OnnxOperand:
    return each(b, call, _function(lambda *given: sum(given[1:], start=given[0]) / len(given)))


@rule("HardSigmoid")
def _hard_sigmoid(b: ProgramBuilder, call: AtenCall) -> OnnxOperand:
    alpha, beta = call.get("alpha", 0.2), call.get("beta", 0.5)
    return each(b, call, _function(lambda a: elementwise.clip(alpha * a + beta, 0, 1)))


@rule("PRelu")
def _prelu(b: ProgramBuilder, call: AtenCall) -> OnnxOperand:
    return each(b, call, _function(lambda a, slope: elementwise.where(a > 0, a, slope * a)))


@rule("Gelu")
def _gelu(b: ProgramBuilder, call: AtenCall) -> ArrayValue:
    arguments = {"self": as_array(b, operands(call)[0]), "approximate": call.get("approximate", "none")}
    return ATEN["gelu"](b, AtenCall("gelu", arguments, (), "real", ""))  # type: ignore[no-any-return]


_ARITHMETIC = {"Add": "add", "Sub": "sub", "Mul": "mul", "Max": "max", "Min": "min", "Sum": "add"}


@rule(*_ARITHMETIC)
def _arithmetic(b: ProgramBuilder, call: AtenCall) -> OnnxOperand:
    name = _ARITHMETIC[call.name]

    def make(b: ProgramBuilder, given: Sequence[Operand], element: str, shape: Sequence[int]) -> Operand:
        found = given[0]
        for k, other in enumerate(given[1:]):
            last = shape if k == len(given) - 2 else np.broadcast_shapes(_shape(b, found), _shape(b, other))
            found = arithmetic(b, name, (found, other), element, last)
        return found

    return each(b, call, make)


def _shape(b: ProgramBuilder, value: Operand) -> tuple[int, ...]:
    return tuple(b.shape(value)) if isinstance(value, ArrayValue) else ()


@rule("Div")
def _div(b: ProgramBuilder, call: AtenCall) -> OnnxOperand:
    def make(b: ProgramBuilder, given: Sequence[Operand], element: str, shape: Sequence[int]) -> Operand:
        if element != "int":
            return arithmetic(b, "div", given, element, shape)
        sizes = any(isinstance(v, SizeNumber) for v in given)  # sizes are positive
        return folded(b, given, (lambda a, c: a // c) if sizes else quotient, element, shape)

    return each(b, call, make)


@rule("Mod")
def _mod(b: ProgramBuilder, call: AtenCall) -> OnnxOperand:
    if call.get("fmod"):
        one, other = (as_array(b, v) for v in operands(call, 2))
        return ATEN["fmod"](b, AtenCall("fmod", {"self": one, "other": other}, (), one.element, ""))  # type: ignore[no-any-return]
    return each(b, call, _function(lambda a, c: a % c))


@rule("Pow")
def _pow(b: ProgramBuilder, call: AtenCall) -> OnnxOperand:
    base, exponent = operands(call)
    if is_known(call):
        return each(b, call, _function(lambda a, e: a**e), element_of(base))
    power = operand_of(b, exponent)
    if isinstance(power, SizeNumber):
        raise Unsupported("a power that is computed from sizes")
    if isinstance(power, ArrayValue) and power.number is not None:
        power = power.number
    if isinstance(power, float) and power.is_integer():
        power = int(power)
    start = operand_of(b, base)
    if isinstance(start, SizeNumber):
        raise Unsupported("a power of a number that is computed from sizes")
    arguments = {"self": start, "exponent": power}
    return ATEN["pow"](b, AtenCall("pow", arguments, (), element_of(base), ""))  # type: ignore[no-any-return]


_COMPARISONS = {"Equal": "eq", "Less": "lt", "LessOrEqual": "le", "Greater": "gt", "GreaterOrEqual": "ge"}


@rule(*_COMPARISONS)
def _comparison(b: ProgramBuilder, call: AtenCall) -> OnnxOperand:
    truths = element_of(operands(call)[0]) == "bool"
    function = of_truths(_COMPARISONS[call.name]) if truths else BINARY[_COMPARISONS[call.name]]
    return each(b, call, _function(function), "bool")


@rule("And", "Or", "Xor")
def _logic(b: ProgramBuilder, call: AtenCall) -> OnnxOperand:
    return each(b, call, _function(logic(call.name.lower())), "bool")


@rule("Not")
def _not(b: ProgramBuilder, call: AtenCall) -> OnnxOperand:
    return each(b, call, _function(negated), "bool")


@rule("IsNaN", "IsInf")
def _is_nan(b: ProgramBuilder, call: AtenCall) -> OnnxOperand:
    value = operands(call)[0]
    if call.name == "IsInf" and (not isinstance(value, ArrayValue) or value.element != "extended"):
        raise Unsupported("IsInf of an array that is not masked")
    if call.name == "IsInf":
        return each(b, call, _function(lambda a: a == -math.inf), "bool")
    return known_array([False] * int(np.prod(shape_of(b, value))), shape_of(b, value))


@rule("Where")
def _where(b: ProgramBuilder, call: AtenCall) -> OnnxOperand:
    def make(b: ProgramBuilder, given: Sequence[Operand], element: str, shape: Sequence[int]) -> Operand:
        return chosen(b, given[0], given[1:], element, shape)

    return each(b, call, make)


@rule("Clip")
def _clip(b: ProgramBuilder, call: AtenCall) -> OnnxOperand:
    value, low, high = operands(call, 3)
    for name, bound in (("max", low), ("min", high)):
        if bound is not None:
            kind = element_of(value)
            number, shape = operand_of(b, bound), shape_of(b, value)
            value = arithmetic(b, name, (operand_of(b, value), number), kind, shape)  # type: ignore[assignment]
            value = value if isinstance(value, (ArrayValue, KnownArray)) else known_array([value], ())
    return value


_TYPES = {1: "float32", 9: "bool", 10: "float16", 11: "float64", 16: "bfloat16", 17: "float8_e4m3fn"}
_INTEGERS = {2: "uint8", 3: "int8", 4: "uint16", 5: "int16", 6: "int32", 7: "int64", 12: "uint32", 13: "uint64"}


@rule("Cast", "CastLike")
def _cast(b: ProgramBuilder, call: AtenCall) -> OnnxOperand:
    (value, *like), to = operands(call), call.get("to", 0)
    element = element_of(like[0]) if like else "bool" if to == 9 else "int" if to in _INTEGERS else "real"
    if isinstance(value, KnownArray):
        if _INTEGERS.get(to) in WRAPPED:
            raise Unsupported(f"Cast of a constant to {_INTEGERS[to]}, which wraps around")
        kinds: dict[str, Callable[[Any], Any]] = {"bool": bool, "int": int, "real": float}
        made = [v if v != v else _as(kinds[element], v) for v in value.numbers()]
        return KnownArray(
            known_array(made, value.shape).elements, value.input if element_of(value) == element else None
        )
    if not like and to not in _TYPES and to not in _INTEGERS:
        raise Unsupported(f"Cast to the type {to}")
    kind = _INTEGERS.get(to, _TYPES.get(to, ""))
    made = ATEN["to"](b, AtenCall("to", {"self": value}, (), element, kind, call.cast or kind in WRAPPED))
    return b.typed(made, element)


def _as(kind: Callable[[Any], Any], number: Operand) -> Operand:
    return SizeNumber(kind(number.value), number.make) if isinstance(number, SizeNumber) else kind(number)


@rule("Identity", "Dropout")
def _same(b: ProgramBuilder, call: AtenCall) -> Any:
    given = operands(call, 3)
    if call.name == "Dropout" and given[2] is not None and given[2].numbers() != [False]:  # type: ignore[union-attr]
        raise Unsupported("Dropout in training")
    if len(call.shapes) > 1:
        return given[0], known_array([True] * int(np.prod(shape_of(b, given[0]))), shape_of(b, given[0]))
    return given[0]
