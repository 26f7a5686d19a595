"""The derivatives of scalar functions: for each argument a weight, by which its tangent is multiplied.

Where a function has no derivative, the weight is one that is stated here:

    abs, sign, floor, ceil, round    0 at a jump or corner: abs has sign(a), the others are constant between jumps
    max, min         two equal arguments share evenly; where one is a constant the second has all, so that maximum(a, 0)
                     has 0 at 0, and maximum(0, a) has 1
    where                            that of the branch which is taken; conditions have no derivative

`catdiag.kernel.differentiability` computes where they are derivatives.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from fractions import Fraction

from catdiag.category.scalars import Apply, Cast, ScalarFunction, row
from catdiag.rewrite.differentiate.linear_maps import Weight
from catdiag.rewrite.differentiate.norm_roots import has_corner_at_zero
from catdiag.rewrite.hash_consed_graph import HashConsedGraph

Weights = tuple[Weight | None, ...]
Partials = Callable[[HashConsedGraph, Sequence[int], int], Weights]
"""The weights of the arguments of a scalar function, from the wires of its arguments and its result."""

TWO_BY_SQRT_PI = Fraction("1.1283791670955125738961589031215451716881012586579977136881714434")
"""2/√π to 64 decimals: the derivative of erf has this rational number in place of the irrational one."""

ROUNDED = ("erf",)
"""The functions whose derivative has that number."""

_ONE, _MINUS = Weight(), Weight(number=Fraction(-1))


def _none(count: int) -> Partials:
    return lambda graph, args, result: (None,) * count


def _tanh(graph: HashConsedGraph, args: Sequence[int], result: int) -> Weights:
    square = graph.map("mul", result, result)
    return (Weight((graph.map("sub", graph.const(1), square),)),)


def _sigmoid(graph: HashConsedGraph, args: Sequence[int], result: int) -> Weights:
    return (Weight((result, graph.map("sub", graph.const(1), result))),)


def _sqrt(graph: HashConsedGraph, args: Sequence[int], result: int) -> Weights:
    weight = Weight(divisors=(result,), number=Fraction(1, 2))
    if has_corner_at_zero(graph, args[0], result):
        weight = replace(weight, condition=graph.map("lt", graph.const(0), result))
    return (weight,)


def _erf(graph: HashConsedGraph, args: Sequence[int], result: int) -> Weights:
    exponent = graph.map("neg", graph.map("mul", args[0], args[0]))
    return (Weight((graph.map("exp", exponent),), number=TWO_BY_SQRT_PI),)


def _extremal(graph: HashConsedGraph, args: Sequence[int], larger: bool) -> Weights:
    """Of a maximum (`larger`) or a minimum of two."""
    a, b = args
    if graph.is_const(a) or graph.is_const(b):
        first = Weight(condition=graph.map("lt", *((b, a) if larger else (a, b))))
        return first, replace(first, when=False)
    count = graph.map("where", graph.map("eq", a, b), graph.const(2), graph.const(1))
    attained = ((b, a), (a, b)) if larger else ((a, b), (b, a))
    return tuple(Weight(divisors=(count,), condition=graph.map("le", *pair)) for pair in attained)


PARTIALS: Mapping[str, Partials] = {
    "add": lambda graph, args, result: (_ONE, _ONE),
    "sub": lambda graph, args, result: (_ONE, _MINUS),
    "mul": lambda graph, args, result: (Weight((args[1],)), Weight((args[0],))),
    "div": lambda graph, args, result: (
        Weight(divisors=(args[1],)),
        Weight((result,), (args[1],), Fraction(-1)),
    ),
    "neg": lambda graph, args, result: (_MINUS,),
    "exp": lambda graph, args, result: (Weight((result,)),),
    "log": lambda graph, args, result: (Weight(divisors=(args[0],)),),
    "sqrt": _sqrt,
    "tanh": _tanh,
    "sigmoid": _sigmoid,
    "erf": _erf,
    "sin": lambda graph, args, result: (Weight((graph.map("cos", args[0]),)),),
    "cos": lambda graph, args, result: (Weight((graph.map("sin", args[0]),), number=Fraction(-1)),),
    "abs": lambda graph, args, result: (Weight((graph.map("sign", args[0]),)),),
    "max": lambda graph, args, result: _extremal(graph, args, larger=True),
    "min": lambda graph, args, result: _extremal(graph, args, larger=False),
    "where": lambda graph, args, result: (
        None,
        Weight(condition=args[0]),
        Weight(condition=args[0], when=False),
    ),
    **{name: _none(1) for name in ("not", "sign", "floor", "ceil", "round")},
    **{name: _none(2) for name in ("eq", "ne", "lt", "le", "and", "or", "floordiv")},
    "uniform": _none(5),
}
"""The weights of each scalar function; None where the result does not depend on an argument, but for jumps."""


def partials(graph: HashConsedGraph, fn: ScalarFunction, args: Sequence[int], result: int) -> Weights:
    """The weights of the arguments of a scalar function. A cast is the identity; of an uninterpreted function f the
    derivative is f', another one, and f'0, f'1, … for several arguments.

    >>> from catdiag.category.types import ArrayType, Ty
    >>> graph = HashConsedGraph(Ty(ArrayType(), ArrayType()))
    >>> found = partials(graph, Apply("f"), [0, 1], graph.map(Apply("f"), 0, 1))
    >>> [graph.function_of(weight.factors[0]).name for weight in found]
    ["f'0", "f'1"]
    """
    if isinstance(fn, Cast):
        return (_ONE,)
    if isinstance(fn, Apply):
        numbers = [""] if len(args) == 1 else [str(k) for k in range(len(args))]
        return tuple(Weight((graph.map(Apply(f"{fn.name}'{k}"), *args),)) for k in numbers)
    return row(PARTIALS, fn, "differentiated")(graph, args, result)
