"""PyTorch as a dialect of array expressions: mixed precision as it is written by hand.

Numbers are Python numbers. "stored" tensors have the type of the inputs, "wide" ones that type, or float32 if it is
narrower.
"""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction

from catdiag.category.ops import clamped
from catdiag.codegen.array_expressions import ArrayDialect, Value
from catdiag.codegen.notation import OPERATORS, Composed, Notation, Prefix, Template
from catdiag.codegen.syntax import ATOM, CALL, SIGN, Code, method

TENSORS: Mapping[str, Notation] = {
    **OPERATORS, "exp": Prefix("torch.exp"), "log": Prefix("torch.log"), "sqrt": Prefix("torch.sqrt"),
    "tanh": Prefix("torch.tanh"), "abs": Prefix("torch.abs"), "sigmoid": Prefix("torch.sigmoid"),
    "max": Prefix("torch.maximum"), "min": Prefix("torch.minimum"), "and": Prefix("torch.logical_and"),
    "or": Prefix("torch.logical_or"), "not": Prefix("torch.logical_not"), "where": Prefix("torch.where"),
    "floordiv": Prefix("_floor"), "erf": Prefix("torch.erf"), "sin": Prefix("torch.sin"), "cos": Prefix("torch.cos"),
    "sign": Prefix("torch.sign"), "floor": Template("torch.floor({0}).long()"),
    "ceil": Template("torch.ceil({0}).long()"), "round": Template("torch.round({0}).long()"),
    "uniform": Prefix("_uniform"),
}  # fmt: skip
"""Each scalar function of tensors."""
NUMBERS: Mapping[str, Notation] = {
    **OPERATORS, "exp": Prefix("math.exp"), "log": Prefix("math.log"), "sqrt": Prefix("math.sqrt"),
    "tanh": Prefix("math.tanh"), "abs": Prefix("abs"), "sigmoid": Template("(1 / (1 + math.exp(-({0}))))"),
    "max": Prefix("max"), "min": Prefix("min"), "and": Template("(({0}) and ({1}))"),
    "or": Template("(({0}) or ({1}))"), "not": Template("(not ({0}))"), "where": Template("({1} if {0} else {2})"),
    "floordiv": Template("(({0}) // ({1}))"), "erf": Prefix("math.erf"), "sin": Prefix("math.sin"),
    "cos": Prefix("math.cos"), "sign": Template("((({0}) > 0) - (({0}) < 0))"), "floor": Prefix("math.floor"),
    "ceil": Prefix("math.ceil"), "round": Prefix("round"),
    "uniform": Template("_uniform({0}, {1}, {2}, {3}, {4}).item()"),
}  # fmt: skip
"""Each scalar function of Python numbers."""
_REDUCE = {"sum": "sum", "prod": "prod", "max": "amax", "min": "amin", "any": "any", "all": "all"}
SINGLE = Fraction(2**24 - 1) * 2**104
"""The largest float32 number."""


def _constant(value: Fraction | None) -> Value:
    if value is None:
        return Value(Code("-math.inf", SIGN), (), "number")
    if abs(value) > SINGLE:  # clamped, so that a number that is too large for its type stays finite
        inner, end = ("max", "min") if value < 0 else ("min", "max")
        text = f"{inner}({clamped(value)!r}, torch.finfo(wide).{end})"
        return Value(Code(text), (), "number", frozenset(["wide"]))
    whole = value.denominator == 1 and abs(value) < 2**53
    text = str(value.numerator) if whole else repr(float(value))
    return Value(Code(text, ATOM if value >= 0 else SIGN), (), "number")


TORCH = ArrayDialect(
    name="PyTorch",
    functions=TENSORS,
    numbers=NUMBERS,
    constant=_constant,
    reductions={m: Template(f"{{0}}.{name}({{1}})", CALL, CALL) for m, name in _REDUCE.items()},
    permute=Composed(lambda array, order: method(array, "permute", *order.parts)),
    broadcast=Prefix("torch.broadcast_to"),
    full=Template("{0}.expand{1}", ATOM, CALL),
    bounds={"max": Template("torch.clamp({0}, min={1})"), "min": Template("torch.clamp({0}, max={1})")},
    positions=Template("torch.arange({0}, device=device)"),
    einsum=Template('torch.einsum("{0}", {1})'),
    integer_einsum=False,
    concatenate=Template("torch.cat([{0}], -1)"),
    merge=Template("{0}.reshape{1}", CALL, CALL),
    split=Template("{0}.unflatten({2}, {3})", CALL, CALL),
    part=Template("{0}.narrow({2}, {3}, {4})", CALL, CALL),
    within=Prefix("_within"),
    casts={kind: Template(f"{{0}}.to({kind})", CALL, CALL) for kind in ("wide", "stored")},
    array_of=Template("torch.tensor({0}, dtype={1}, device=device)"),
    types={"wide": "wide", "stored": "stored", "int": "torch.int64", "bool": "torch.bool"},
    helpers={"floordiv": "_floor", "within": "_within", "uniform": "_uniform"},
    by_type=False,
)
