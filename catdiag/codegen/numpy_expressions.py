"""NumPy as a dialect of array expressions."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction

from catdiag.category.ops import clamped
from catdiag.codegen.array_expressions import ArrayDialect, Value
from catdiag.codegen.notation import OPERATORS, Composed, Notation, Prefix, Template, grouped
from catdiag.codegen.syntax import ATOM, CALL, PLUS, SIGN, TIMES, Code, method

FUNCTIONS: Mapping[str, Notation] = {
    **OPERATORS, "floordiv": grouped("//", TIMES), "and": Prefix("np.logical_and"), "or": Prefix("np.logical_or"),
    "not": Prefix("np.logical_not"), "exp": Prefix("np.exp"), "log": Prefix("np.log"),
    "sqrt": Prefix("np.sqrt"), "tanh": Prefix("np.tanh"), "abs": Prefix("np.abs"),
    "max": Prefix("np.maximum"), "min": Prefix("np.minimum"), "where": Prefix("np.where"),
    "sigmoid": Template("np.exp(-np.logaddexp(0, -{0}))", ATOM, SIGN), "sign": Prefix("np.sign"),
    "sin": Prefix("np.sin"), "cos": Prefix("np.cos"), "floor": Template("np.floor({0}).astype(int)"),
    "ceil": Template("np.ceil({0}).astype(int)"), "round": Template("np.rint({0}).astype(int)"),
    "erf": Template("np.vectorize(math.erf, otypes=[float])({0})"), "uniform": Prefix("_uniform"),
}  # fmt: skip
"""Each scalar function in NumPy."""


def _constant(value: Fraction | None) -> Value:
    if value is None:
        return Value(Code("-np.inf", SIGN), (), "number")
    if value.denominator == 1:
        text = str(value.numerator) if abs(value) < 2**53 else repr(clamped(value))
        return Value(Code(text, ATOM if value >= 0 else SIGN), (), "number")
    # In parentheses as a factor, since a product with the numerator alone might overflow.
    return Value(Code(f"{value.numerator} / {value.denominator}", PLUS), (), "number")


NUMPY = ArrayDialect(
    name="NumPy",
    functions=FUNCTIONS,
    numbers=FUNCTIONS,
    constant=_constant,
    reductions={m: Template(f"{{0}}.{m}(axis={{1}})", CALL, CALL) for m in ("sum", "prod", "max", "min", "any", "all")},
    permute=Composed(lambda array, order: method(array, "transpose", *order.parts)),
    transpose=Template("{0}.T", CALL, CALL),
    broadcast=Prefix("np.broadcast_to"),
    full=Template("np.full({1}, {0})"),
    positions=Prefix("np.arange"),
    einsum=Template('np.einsum("{0}", {1})'),
    integer_einsum=True,
    concatenate=Template("np.concatenate([{0}], axis=-1)"),
    merge=Template("{0}.reshape({1})", CALL, CALL),
    split=Template("{0}.reshape({1})", CALL, CALL),
    part=Template("{0}[{1}]", ATOM, CALL),
    within=Template("np.clip({0}, 0, {1} - 1)"),
    helpers={"erf": "math", "uniform": "_uniform"},
    by_type=True,
)
