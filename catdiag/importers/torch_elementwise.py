"""What PyTorch's elementwise operations mean in named axes."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from catdiag.frontend import elementwise, nn
from catdiag.frontend.tracing import Traced, running
from catdiag.importers.imported_values import ArrayValue, Operand, SizeNumber
from catdiag.importers.program_builder import ProgramBuilder
from catdiag.importers.size_roots import known_ratio, least_base, pending_number, recognized_number, summed_length
from catdiag.importers.torch_calls import AtenCall, Rule, Unsupported, adding

RULES: dict[str, Rule] = {}
rule = adding(RULES)


_LARGE = 20
"""A threshold from which on the identity and softplus differ by less than exp(-20) / beta."""


def _between(a: Any, low: Any, high: Any) -> Any:
    """`a` between two bounds, with the derivative 0 at them: `clip` has 1, as PyTorch's clamp and not its relu6."""
    return elementwise.minimum(elementwise.maximum(a, low), high)


def _softplus(a: Any, beta: float, threshold: float) -> Any:
    scaled = a * beta if beta != 1 else a
    soft = elementwise.log(1 + elementwise.exp(scaled))
    if threshold == math.inf:
        return soft / beta if beta != 1 else soft
    return elementwise.where(scaled > threshold, a, soft / beta if beta != 1 else soft)


def _gelu(a: Any, approximate: str) -> Any:
    if approximate == "tanh":
        return 0.5 * a * (1 + elementwise.tanh(math.sqrt(2 / math.pi) * (a + 0.044715 * a**3)))
    return 0.5 * a * (1 + elementwise.erf(a / elementwise.sqrt(2)))


_LARGEST_POWER = 64


def _power(a: Any, exponent: Any) -> Any:
    if (2 * exponent) % 1 == 0 and abs(exponent) <= _LARGEST_POWER:
        return a**exponent
    near = known_ratio(exponent) or exponent
    power = elementwise.exp(near * elementwise.log(a))
    return elementwise.where(a == 0, 0, power) if exponent > 0 else power


def _power_by_array(a: Any, exponent: Any) -> Any:
    """Of 0, 1 for the exponent 0 and 0 for larger ones; it has no value for negative exponents."""
    of_zero = elementwise.where(exponent == 0, 1, 0)
    return elementwise.where((a == 0) & (exponent >= 0), of_zero, elementwise.exp(exponent * elementwise.log(a)))


def sigmoid(a: Any) -> Any:
    """The sigmoid, which is 0 at minus infinity."""
    if isinstance(a, Traced) and a.type.element == "extended":
        power = elementwise.exp(a)
        return power / (1 + power)
    return elementwise.sigmoid(a)


UNARY: dict[str, Callable[[Any], Any]] = {
    "neg": lambda a: -a,
    "exp": elementwise.exp,
    "exp2": lambda a: elementwise.exp(a * elementwise.log(2)),
    "expm1": lambda a: elementwise.exp(a) - 1,
    "log": elementwise.log,
    "log1p": lambda a: elementwise.log(1 + a),
    "log2": lambda a: elementwise.log(a) / elementwise.log(2),
    "log10": lambda a: elementwise.log(a) / elementwise.log(10),
    "sqrt": elementwise.sqrt,
    "rsqrt": lambda a: 1 / elementwise.sqrt(a),
    "reciprocal": lambda a: 1 / a,
    "square": lambda a: a * a,
    "abs": elementwise.abs,
    "tanh": elementwise.tanh,
    "sigmoid": lambda a: sigmoid(a),
    "log_sigmoid": lambda a: -nn.softplus(-a),
    "relu": nn.relu,
    "relu6": lambda a: _between(a, 0, 6),
    "silu": nn.silu,
    "mish": lambda a: a * elementwise.tanh(elementwise.log(1 + elementwise.exp(a))),
    "hardsigmoid": lambda a: _between(a + 3, 0, 6) / 6,
    "hardswish": lambda a: a * _between(a + 3, 0, 6) / 6,
    "logical_not": lambda a: ~a,
    "bitwise_not": lambda a: ~a,
    "sign": elementwise.sign,
    "sin": elementwise.sin,
    "cos": elementwise.cos,
    "tan": lambda a: elementwise.sin(a) / elementwise.cos(a),
    "sinh": lambda a: (elementwise.exp(a) - elementwise.exp(-a)) / 2,
    "cosh": lambda a: (elementwise.exp(a) + elementwise.exp(-a)) / 2,
    "asinh": lambda a: elementwise.log(a + elementwise.sqrt(a * a + 1)),
    "acosh": lambda a: elementwise.log(a + elementwise.sqrt(a * a - 1)),
    "atanh": lambda a: elementwise.log((1 + a) / (1 - a)) / 2,
    "erf": elementwise.erf,
    "erfc": lambda a: 1 - elementwise.erf(a),
    "floor": elementwise.floor,
    "ceil": elementwise.ceil,
    "round": elementwise.round,
    "trunc": lambda a: elementwise.where(a < 0, elementwise.ceil(a), elementwise.floor(a)),
    "frac": lambda a: a - elementwise.where(a < 0, elementwise.ceil(a), elementwise.floor(a)),
}
BINARY: dict[str, Callable[[Any, Any], Any]] = {
    "mul": lambda a, b: a * b,
    "div": lambda a, b: a / b,
    "true_divide": lambda a, b: a / b,
    "maximum": elementwise.maximum,
    "minimum": elementwise.minimum,
    "eq": lambda a, b: a == b,
    "ne": lambda a, b: a != b,
    "lt": lambda a, b: a < b,
    "le": lambda a, b: a <= b,
    "gt": lambda a, b: a > b,
    "ge": lambda a, b: a >= b,
    "logical_and": lambda a, b: a & b,
    "bitwise_and": lambda a, b: a & b,
    "__and__": lambda a, b: a & b,
    "logical_or": lambda a, b: a | b,
    "bitwise_or": lambda a, b: a | b,
    "__or__": lambda a, b: a | b,
    "logical_xor": lambda a, b: (a & ~b) | (b & ~a),
    "bitwise_xor": lambda a, b: (a & ~b) | (b & ~a),
    "__xor__": lambda a, b: (a & ~b) | (b & ~a),
    "copysign": lambda a, b: elementwise.where(b < 0, -elementwise.abs(a), elementwise.abs(a)),
    "hypot": lambda a, b: elementwise.sqrt(a * a + b * b),
    "logaddexp": lambda a, b: elementwise.log(elementwise.exp(a) + elementwise.exp(b)),
    # Chosen by a == 0 alone, the product would lose its derivative there, which is log b.
    "xlogy": lambda a, b: a * elementwise.where((a != 0) | (b > 0), elementwise.log(b), 0),
    "remainder": lambda a, b: a - b * elementwise.floor(a / b),
    "floor_divide": lambda a, b: elementwise.floor(a / b),
    "fmod": lambda a, b: a - b * truncated(a / b),
}
_BY_POSITIVE_INTEGERS: dict[str, Callable[[Any, Any], Any]] = {
    "remainder": lambda a, b: a % b,
    "floor_divide": lambda a, b: a // b,
}
"""Functions of integers and a positive one, which index arithmetic has."""


def integer(number: int) -> SizeNumber:
    """An integer constant, which stays one beside integers."""
    return SizeNumber(number, lambda env: running().lift(number, element="int"))


def truncated(a: Any) -> Any:
    return elementwise.where(a >= 0, elementwise.floor(a), elementwise.ceil(a))


def converted(b: ProgramBuilder, value: Any, element: str) -> Any:
    """An array with elements of another type: real numbers are cut to integers, truth values are 0 and 1."""
    if not isinstance(value, ArrayValue) or value.element == element:
        return value
    if value.element == "bool" and value.number is not None:
        return b.view(b.constant(value.number, (), element), value.dims)
    if value.element == "bool":
        one, zero = (integer(n) for n in (1, 0)) if element == "int" else (1, 0)
        return b.pointwise([value, one, zero], elementwise.where, element)
    if element == "bool":
        return b.pointwise([value], lambda a: a != 0, "bool")
    if value.element == "int" and element == "real":
        return b.typed(value, element)
    if element == "int" and value.whole is not None:
        return b.view(value.whole, value.dims)
    return b.pointwise([value], truncated, "int") if element == "int" else value


def _unary(b: ProgramBuilder, call: AtenCall) -> ArrayValue:
    if call.get("decimals"):
        raise Unsupported("round to decimals")
    value = converted(b, call["self"], "bool") if call.name == "logical_not" else call["self"]
    if call.name == "floor" and value.quotient is not None:
        whole, divisor = value.quotient
        return b.typed(b.pointwise([whole], lambda a: a // divisor, "int"), call.element)
    return b.pointwise([value], UNARY[call.name], call.element)


def _binary(b: ProgramBuilder, call: AtenCall) -> ArrayValue:
    left, right = call["self"], call["other"]
    if call.get("rounding_mode") is not None:
        return _rounded_quotient(b, call, left, right)
    if call.name in ("eq", "ne") and left is right:  # a real number is equal to itself, unlike NaN
        b.notes.append(f"that a number is NaN is read as false{b.at}")
        return b.view(b.constant(call.name == "eq", (), "bool"), left.dims)
    if call.name.startswith("logical_"):
        left, right = (converted(b, v, "bool") for v in (left, right))
    name = _OF_TRUTH_VALUES.get(call.name, call.name) if call.element == "bool" else call.name
    function, neutral = BINARY[name], _NEUTRAL.get(name)
    if call.element == "int" and name in _BY_POSITIVE_INTEGERS and _is_positive(right):
        function = _BY_POSITIVE_INTEGERS[name]
    if call.element == "bool" and neutral is not None:
        for one, other in ((left, right), (right, left)):
            if isinstance(one, ArrayValue) and isinstance(other, ArrayValue) and one.number is not None:
                return _with_constant(b, bool(one.number) == neutral, one, other)
    elif call.name == "mul" and b.read_least and -math.inf in (left, right):
        return b.pointwise([right if left == -math.inf else left], _of_least, call.element)
    elif call.name in ("mul", "div"):
        right = summed_length(b, left, right) if call.name == "div" and b.read_parts and b.read_roots else right
        right, pending = pending_number(b, left, right)
        left = recognized_number(b, right, left) if call.name == "mul" else left
        made = b.pointwise([left, right], function, call.element)
        made.pending = (pending,) if pending is not None else ()
        if isinstance(left, ArrayValue) and left.element == "int" and type(right) is int and right > 0:
            made.quotient = (left, right) if call.name == "div" else None
        return made
    return b.pointwise([left, right], function, call.element)


def _of_least(a: Any) -> Any:
    """An array times the least number of a type, which is read as minus infinity where it is not multiplied by 0."""
    return elementwise.where(a > 0, -math.inf, a * -_LEAST)


_LEAST = 2**128 - 2**104
"""The largest number of 32 bits."""


def _is_positive(value: Operand) -> bool:
    """Whether an operand is known to be a positive number."""
    known = value.number if isinstance(value, ArrayValue) else value.value if isinstance(value, SizeNumber) else value
    return known is not None and known > 0


def _rounded_quotient(b: ProgramBuilder, call: AtenCall, left: Operand, right: Operand) -> ArrayValue:
    """A quotient rounded down, or towards zero."""
    if call["rounding_mode"] == "trunc":
        return b.pointwise([left, right], lambda a, c: truncated(a / c), call.element)
    by_integer = call.element == "int" and _is_positive(right)
    table = _BY_POSITIVE_INTEGERS if by_integer else BINARY
    return b.pointwise([left, right], table["floor_divide"], call.element)


_OF_TRUTH_VALUES = {"mul": "logical_and", "minimum": "logical_and", "maximum": "logical_or"}
_NEUTRAL = {
    name: "and" in name for word in ("and", "or") for name in (f"logical_{word}", f"bitwise_{word}", f"__{word}__")
}
"""The truth value that changes nothing."""


def _with_constant(b: ProgramBuilder, neutral: bool, constant: ArrayValue, other: ArrayValue) -> ArrayValue:
    """An array of one truth value, and another array beside it: the other one if it changes nothing, else itself."""
    (constant, other), dims = b.broadcast([constant, other])
    return b.view(other if neutral else constant, dims)


for _name in UNARY:
    RULES[_name] = _unary
for _name in BINARY:
    RULES[_name] = _binary


@rule("add", "sub", "rsub")
def _sum(b: ProgramBuilder, call: AtenCall) -> ArrayValue:
    left, right = call["self"], call["other"]
    if call.name == "rsub":
        left, right = right, left
    alpha = call.get("alpha", 1)
    sign = 1 if call.name == "add" else -1

    if call.element == "bool":  # a sum of truth values is one
        return b.pointwise([left, right], BINARY["logical_or"], "bool")

    def make(a: Any, c: Any) -> Any:
        term = c if alpha == 1 else c * alpha
        return a + term if sign > 0 else a - term

    if call.name == "rsub" and alpha != 1:
        raise Unsupported("rsub with alpha")
    return b.pointwise([left, right], make, call.element)


@rule("pow")
def _pow(b: ProgramBuilder, call: AtenCall) -> ArrayValue:
    base, exponent = call["self"], call["exponent"]
    if not isinstance(exponent, ArrayValue):
        if exponent % 1 == 0 and abs(exponent) > _LARGEST_POWER:
            raise Unsupported(f"the power {exponent}: integers are known up to {_LARGEST_POWER}")
        if (ratio := known_ratio(exponent)) is not None:
            b.notes.append(f"the power {exponent!r} is read as {ratio}{b.at}")
        return b.pointwise([base], lambda a: _power(a, exponent), call.element)
    known = base.number if isinstance(base, ArrayValue) else base
    if known is not None:
        if known <= 0:
            raise Unsupported(f"powers of {known} by an array")
        root, power = least_base(known)
        return b.pointwise([exponent], lambda e: elementwise.exp(e * power * elementwise.log(root)))
    elif exponent.element != "real":
        raise Unsupported("powers of an array by an array of integers")
    else:
        b.notes.append(f"a power by an array is read as one of a base that is not negative{b.at}")
    return b.pointwise([base, exponent], _power_by_array)


@rule("softplus")
def _softplus_rule(b: ProgramBuilder, call: AtenCall) -> ArrayValue:
    beta, threshold = call.get("beta", 1), call.get("threshold", 20)
    if b.read_least and threshold >= _LARGE:
        b.notes.append(f"softplus is read as log(1 + exp) above its threshold, too{b.at}")
        threshold = math.inf
    return b.pointwise([call["self"]], lambda a: _softplus(a, beta, threshold))


@rule("gelu")
def _gelu_rule(b: ProgramBuilder, call: AtenCall) -> ArrayValue:
    return b.pointwise([call["self"]], lambda a: _gelu(a, call.get("approximate", "none")))


@rule("leaky_relu")
def _leaky(b: ProgramBuilder, call: AtenCall) -> ArrayValue:
    slope = call["negative_slope"]
    return b.pointwise([call["self"]], lambda a: elementwise.where(a > 0, a, slope * a))


@rule("rrelu")
def _random_leaky(b: ProgramBuilder, call: AtenCall) -> ArrayValue:
    if call.get("training", False):
        raise Unsupported("rrelu in training: call module.eval() first")
    slope = (call.get("lower", 1 / 8) + call.get("upper", 1 / 3)) / 2
    return b.pointwise([call["self"]], lambda a: elementwise.where(a > 0, a, slope * a))


@rule("isfinite", "isinf")
def _is_finite(b: ProgramBuilder, call: AtenCall) -> ArrayValue:
    value, finite = call["self"], call.name == "isfinite"
    if value.element == "extended":
        return b.pointwise([value], lambda a: (a > -math.inf) if finite else (a == -math.inf), "bool")
    b.notes.append(f"that a number is finite is read as true{b.at}")
    return b.view(b.constant(finite, (), "bool"), value.dims)


@rule("nan_to_num")
def _nan_to_num(b: ProgramBuilder, call: AtenCall) -> ArrayValue:
    value: ArrayValue = call["self"]
    if value.element == "extended":
        raise Unsupported("nan_to_num of what may be minus infinity")
    b.notes.append(f"nan_to_num is read as changing nothing: all numbers are real{b.at}")
    return value


@rule("elu")
def _elu(b: ProgramBuilder, call: AtenCall) -> ArrayValue:
    alpha, scale, inner = call["alpha"], call.get("scale", 1), call.get("input_scale", 1)
    if (alpha, scale, inner) == (1, 1, 1):
        return b.pointwise([call["self"]], nn.elu)
    if inner <= 0:
        raise Unsupported(f"elu with the input scale {inner}")

    def make(a: Any) -> Any:
        return scale * (elementwise.maximum(a, 0) + alpha * (elementwise.exp(elementwise.minimum(0, inner * a)) - 1))

    return b.pointwise([call["self"]], make)


@rule("clamp", "hardtanh", "clamp_min", "clamp_max")
def _clamp(b: ProgramBuilder, call: AtenCall) -> ArrayValue:
    low = call.get("min", call.get("min_val"))
    high = call.get("max", call.get("max_val"))
    low, high = None if low == -math.inf else low, None if high == math.inf else high
    given = [call["self"], *(v for v in (low, high) if v is not None)]
    if call.name == "hardtanh" and len(given) == 3:
        return b.pointwise(given, _between, call.element)

    def make(a: Any, *ends: Any) -> Any:
        rest = list(ends)
        bottom = rest.pop(0) if low is not None else None
        return elementwise.clip(a, bottom, rest.pop(0) if high is not None else None)

    return b.pointwise(given, make, call.element)


@rule("where")
def _where(b: ProgramBuilder, call: AtenCall) -> ArrayValue:
    condition = call["condition"]
    if condition.number is not None:
        taken = converted(b, call["self"] if condition.number else call["other"], call.element)
        if isinstance(taken, ArrayValue):
            (_, taken), dims = b.broadcast([condition, taken])
            return b.view(taken, dims)
    chosen = [call["self"], call["other"]]
    if call.element == "int":
        chosen = [integer(v) if isinstance(v, int) else v for v in chosen]
    return b.pointwise([condition, *chosen], elementwise.where, call.element)


@rule("masked_fill")
def _masked_fill(b: ProgramBuilder, call: AtenCall) -> ArrayValue:
    make = lambda m, v, a: elementwise.where(m, v, a)  # noqa: E731
    value = call["value"]
    if call.element == "bool":
        value = converted(b, value, "bool") if isinstance(value, ArrayValue) else bool(value)
    element = "extended" if value == -math.inf else call.element
    return b.pointwise([call["mask"], value, call["self"]], make, element)


WRAPPED = {"int8": (-128, 256), "uint8": (0, 256), "int16": (-32768, 65536), "uint16": (0, 65536)}
"""Types of integers that programs meet the ends of: the least number, and how many there are. What is beyond them wraps
around; those of 32 bits and more are read as all integers."""


@rule("to", "_to_copy", "type_as", "float", "convert_element_type")
def _cast(b: ProgramBuilder, call: AtenCall) -> ArrayValue:
    given = call["self"]
    if call.cast and given.element != "bool" and call.dtype in WRAPPED:
        low, count = WRAPPED[call.dtype]
        whole = converted(b, given, "int")
        return b.pointwise([whole], lambda a: (a - low) % count + low, "int")
    narrow = {"bfloat16": "bf16", "float16": "fp16", "float32": "fp32", "float8_e4m3fn": "fp8"}.get(call.dtype)
    if given.element == "real" and narrow and call.cast:
        return b.pointwise([given], lambda a: elementwise.cast(a, narrow))
    return converted(b, given, call.element)  # type: ignore[no-any-return]


@rule(
    "contiguous", "clone", "detach", "detach_", "alias", "lift_fresh_copy", "lift_fresh", "positive", "requires_grad_"
)
def _same(b: ProgramBuilder, call: AtenCall) -> Any:
    return call["self"]


@rule("dropout", "native_dropout", "feature_dropout", "alpha_dropout")
def _dropout(b: ProgramBuilder, call: AtenCall) -> Any:
    if call.get("train", False) and call.get("p", 0.5) > 0:
        raise Unsupported("dropout in training: call module.eval() first, or write it with a seed, by cd.dropout")
    return call["input"]
