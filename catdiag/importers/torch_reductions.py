"""What PyTorch's reductions and norms mean in named axes."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from fractions import Fraction
from typing import Any

from catdiag.frontend import builder as frontend
from catdiag.frontend import elementwise, nn
from catdiag.frontend.tracing import running
from catdiag.importers.dimensions import Dimension
from catdiag.importers.imported_values import ArrayValue, Environment
from catdiag.importers.positions import Positions
from catdiag.importers.program_builder import ProgramBuilder
from catdiag.importers.torch_calls import AtenCall, Rule, Unsupported, adding, place, places
from catdiag.importers.torch_elementwise import converted
from catdiag.importers.torch_gathers import picked

RULES: dict[str, Rule] = {}
rule = adding(RULES)


def _source(b: ProgramBuilder, call: AtenCall) -> ArrayValue:
    """What is reduced, with the elements that dtype= asks for."""
    asked = call.element if call.get("dtype") is not None else ""
    return converted(b, call["self"], asked) if asked in ("int", "bool") else call["self"]  # type: ignore[no-any-return]


def _reduction(function: Callable[[Any, str], Any], element: str = "") -> Rule:
    def reduce(b: ProgramBuilder, call: AtenCall) -> ArrayValue:
        value = converted(b, call["self"], element) if element else _source(b, call)
        return b.reduced(value, places(value, call.get("dim")), call.get("keepdim", False), function, element)

    return reduce


RULES.update(
    sum=_reduction(frontend.sum),
    mean=_reduction(frontend.mean),
    amax=_reduction(frontend.max),
    amin=_reduction(frontend.min),
    prod=_reduction(frontend.prod),
    any=_reduction(frontend.any, "bool"),
    all=_reduction(frontend.all, "bool"),
    logsumexp=_reduction(nn.logsumexp),
)


def _norm(b: ProgramBuilder, call: AtenCall) -> ArrayValue:
    value, order = call["self"], call.get("ord", call.get("p"))
    over = places(value, call.get("dim"))
    if call.name == "linalg_norm" and order is not None and len(over) != 1:
        raise Unsupported(f"the matrix norm of order {order}")
    if order in (math.inf, -math.inf):
        largest = frontend.max if order > 0 else frontend.min
        make = lambda a, axes: largest(elementwise.abs(a), axes)  # noqa: E731
    elif order == 1:
        make = lambda a, axes: frontend.sum(elementwise.abs(a), axes)  # noqa: E731
    elif order in (2, None):
        make = lambda a, axes: elementwise.sqrt(frontend.sum(a * a, axes))  # noqa: E731
    else:
        raise Unsupported(f"the norm of order {order}")
    length = b.factors.resolve(f for k in over for f in value.dims[k])
    if not length:  # of one element
        one = b.pointwise([value], elementwise.abs)
        return b.reduced(one, over, call.get("keepdim", False), frontend.sum)
    return b.reduced(value, over, call.get("keepdim", False), make)


RULES.update(dict.fromkeys(("linalg_vector_norm", "linalg_norm", "norm"), _norm))


@rule("cdist")
def _distances(b: ProgramBuilder, call: AtenCall) -> ArrayValue:
    left, right, order = call["x1"], call["x2"], call.get("p", 2.0)
    left = b.view(left, [*left.dims[:-1], (), left.dims[-1]])
    right = b.view(right, [*right.dims[:-2], (), *right.dims[-2:]])
    apart = b.pointwise([left, right], lambda a, c: a - c)
    return _norm(b, AtenCall(call.name, {"self": apart, "ord": order, "dim": [-1]}, call.shapes, "real", ""))


def _position(b: ProgramBuilder, call: AtenCall, largest: bool) -> ArrayValue:
    value: ArrayValue = call["self"]
    over, keep = places(value, call.get("dim")), call.get("keepdim", False)
    gone = [f for k in over for f in value.dims[k]]

    if not b.factors.resolve(gone):
        dims = [() if k in over else d for k, d in enumerate(value.dims) if keep or k not in over]
        return b.emit(dims, (), lambda env: running().lift(0, element="int"), "int")

    def first(env: Environment, array: Any, _: str) -> Any:
        return (frontend.argmax if largest else frontend.argmin)(*env.merged(array, gone))

    return b.reduced_with(value, over, keep, first, "int")


@rule("argmax", "argmin")
def _argmax(b: ProgramBuilder, call: AtenCall) -> ArrayValue:
    return _position(b, call, call.name == "argmax")


@rule("max", "min")
def _extreme(b: ProgramBuilder, call: AtenCall) -> Any:
    function = frontend.max if call.name == "max" else frontend.min
    value = call["self"]
    if call.get("other") is not None:
        both = elementwise.maximum if call.name == "max" else elementwise.minimum
        return b.pointwise([value, call["other"]], both, call.element)
    if call.get("dim") is None:
        return b.reduced(value, places(value, None), False, function)
    over, keep = places(value, call["dim"]), call.get("keepdim", False)
    return b.reduced(value, over, keep, function), _position(b, call, call.name == "max")


@rule("topk")
def _topk(b: ProgramBuilder, call: AtenCall) -> tuple[ArrayValue, ArrayValue]:
    """The k largest, or smallest, one after the other: the first largest, then that of the others, and so on."""
    value, k = call["self"], place(call["self"], call.get("dim", -1))
    if not b.factors.resolve(value.dims[k]):
        return value, b.view(b.constant(0, (), "int"), value.dims)
    if len(b.factors.resolve(value.dims[k])) > 1:
        value = b.joined_dimension(value, k)
    b.at_least.append((value.dims[k], call["k"]))
    rest = b.materialized(value, [value.dims[k]])
    if not call.get("largest", True):
        rest = b.pointwise([rest], lambda a: -a, rest.element)
    found = AtenCall("argmax", {}, call.shapes, "int", "")
    indices = []
    for _ in range(call["k"]):
        position = _position(b, replace(found, arguments={"self": rest, "dim": k}), True)
        indices.append(position)
        at = b.view(position, [*position.dims[:k], (), *position.dims[k:]])
        taken = b.emit(rest.dims, (*rest.axes, *at.axes), _equals(rest.dims[k], at), "bool")
        rest = b.pointwise([taken, rest], lambda t, a: elementwise.where(t, -math.inf, a), "extended")
    return b.stacked([picked(b, value, k, i) for i in indices], k), b.stacked(indices, k)


def _equals(dim: Dimension, at: ArrayValue) -> Callable[[Environment], Any]:
    return lambda env: env.index(dim) == env[at]


@rule("var", "std", "var_mean", "std_mean")
def _var(b: ProgramBuilder, call: AtenCall) -> Any:
    value = call["self"]
    correction = call.get("correction")
    correction = (1 if call.get("unbiased", True) else 0) if correction is None else correction
    where, keep = places(value, call.get("dim")), call.get("keepdim", False)
    gone = [f for k in where for f in value.dims[k]]

    def spread(env: Environment, array: Any, over: str) -> Any:
        centered = array - frontend.mean(array, over)
        total = frontend.sum(centered**2, over) / (env.size(gone) - correction if correction else env.size(gone))
        return elementwise.sqrt(total) if call.name.startswith("std") else total

    made = b.reduced_with(value, where, keep, spread, "real")
    return (made, b.reduced(value, where, keep, frontend.mean)) if call.name.endswith("mean") else made


def _along(b: ProgramBuilder, value: ArrayValue, places: Sequence[int], make: Callable[[Any, str], Any]) -> ArrayValue:
    """A function along some dimensions, which keeps them."""
    full = b.materialized(value, [value.dims[k] for k in places])
    over = [f for k in places for f in full.dims[k]]
    return b.emit(full.dims, full.axes, lambda env: make(env[full], env.of(over)))


def _mean(array: Any, over: str) -> Any:
    return frontend.mean(array, over) if over else array


@rule("softmax", "_softmax")
def _softmax(b: ProgramBuilder, call: AtenCall) -> ArrayValue:
    return _along(b, call["self"], places(call["self"], call["dim"]), softmax_over)


def softmax_over(array: Any, over: str) -> Any:
    return frontend.softmax(array, over) if over else elementwise.exp(array - array)


def _log_softmax_over(array: Any, over: str) -> Any:
    return nn.log_softmax(array, over) if over else array - array


@rule("log_softmax", "_log_softmax")
def _log_softmax(b: ProgramBuilder, call: AtenCall) -> ArrayValue:
    return _along(b, call["self"], places(call["self"], call["dim"]), _log_softmax_over)


@rule("cumsum")
def _cumsum(b: ProgramBuilder, call: AtenCall) -> ArrayValue:
    value, k = _source(b, call), place(call["self"], call["dim"])
    if not value.dims or not b.factors.resolve(value.dims[k]):
        return value
    if value.number is not None and call.element == "int":
        each = int(value.number)
        return b.positional(value.dims, Positions.along(b.factors.resolve(value.dims[k]), each, each))
    full = b.materialized(value, [value.dims[k]])
    source = b.fresh(full, full.dims[k])

    def make(env: Environment) -> Any:
        upto = env.index(source.dims[k]) <= env.index(full.dims[k])
        return frontend.sum(elementwise.where(upto, env[source], 0), env.of(source.dims[k]))

    return b.emit(full.dims, full.axes, make, call.element)


@rule("histc")
def _histogram(b: ProgramBuilder, call: AtenCall) -> ArrayValue:
    """How many elements are in each of some intervals of one length; the last one has its right end, too."""
    value, count = call["self"], call.shape[0]
    low, high = Fraction(str(call.get("min", 0))), Fraction(str(call.get("max", 0)))
    if low == high:
        raise Unsupported("histc between the least and the largest element: give min and max")
    bins = b.factors.dimension(count)
    integers = value.element == "int" or value.whole is not None
    full = b.materialized(value, value.dims)

    def counted(env: Environment, one: Any, zero: Any) -> Any:
        a, at, width = env[full] - low, env.index(bins), (high - low) / count
        if integers and high - low == count - 1:  # one for each integer: n·count / (count − 1) is n, and less than 1
            inside = a == at
        else:
            last = (at == env.size(bins) - 1) & (a == high - low)
            inside = ((at * width <= a) & (a < at * width + width)) | last
        return frontend.sum(elementwise.where(inside, one, zero), env.of([f for d in full.dims for f in d]))

    def whole(env: Environment) -> Any:
        return counted(env, *(running().lift(n, element="int") for n in (1, 0)))

    counts = b.emit([bins], bins, whole, "int")
    if call.element == "int":
        return counts
    return b.emit([bins], bins, lambda env: counted(env, 1, 0), "real", whole=counts)


# -- norms ------------------------------------------------------------------------------------------------


def _scaled(b: ProgramBuilder, value: ArrayValue, weight: ArrayValue | None, bias: ArrayValue | None) -> ArrayValue:
    if weight is not None:
        value = b.pointwise([value, weight], lambda a, w: a * w)
    return value if bias is None else b.pointwise([value, bias], lambda a, c: a + c)


@rule("layer_norm", "native_layer_norm")
def _layer_norm(b: ProgramBuilder, call: AtenCall) -> ArrayValue:
    value = call.get("input")
    last = list(range(len(value.dims)))[-len(call["normalized_shape"]) :]
    eps = call["eps"]

    def norm(a: Any, over: str) -> Any:
        centered = a - _mean(a, over)
        return centered / elementwise.sqrt(_mean(centered**2, over) + eps)

    return _scaled(b, _along(b, value, last, norm), call.get("weight"), call.get("bias"))


@rule("rms_norm")
def _rms_norm(b: ProgramBuilder, call: AtenCall) -> ArrayValue:
    value = call["input"]
    last = list(range(len(value.dims)))[-len(call["normalized_shape"]) :]
    eps = call.get("eps")
    if eps is None:
        eps = {"float64": 2.0**-52, "float32": 2.0**-23, "bfloat16": 2.0**-7, "float16": 2.0**-10}[call.dtype]

    def norm(a: Any, over: str) -> Any:
        return a / elementwise.sqrt(_mean(a**2, over) + eps)

    return _scaled(b, _along(b, value, last, norm), call.get("weight"), None)


@rule("group_norm")
def _group_norm(b: ProgramBuilder, call: AtenCall) -> ArrayValue:
    value, groups, eps = call["input"], call["num_groups"], call["eps"]
    split = b.divided(value, 1, [groups, b.length(value.dims[1]) // groups])

    def norm(a: Any, over: str) -> Any:
        centered = a - _mean(a, over)
        return centered / elementwise.sqrt(_mean(centered**2, over) + eps)

    made = _along(b, split, range(2, len(split.dims)), norm)
    made = b.view(made, [made.dims[0], (*made.dims[1], *made.dims[2]), *made.dims[3:]])
    per_channel = [
        None if w is None else _channels(b, w, len(made.dims)) for w in (call.get("weight"), call.get("bias"))
    ]
    return _scaled(b, made, *per_channel)


def _channels(b: ProgramBuilder, value: ArrayValue, rank: int) -> ArrayValue:
    return b.view(value, [value.dims[0], *[()] * (rank - 2)])


@rule("batch_norm", "_native_batch_norm_legit_no_training", "native_batch_norm")
def _batch_norm(b: ProgramBuilder, call: AtenCall) -> ArrayValue:
    if call.get("training") or call.get("train"):
        raise Unsupported("batch_norm in training: call module.eval() first")
    value, rank, eps = call["input"], len(call["input"].dims), call["eps"]
    mean, variance = (_channels(b, call[n], rank) for n in ("running_mean", "running_var"))
    made = b.pointwise([value, mean, variance], lambda a, m, v: (a - m) / elementwise.sqrt(v + eps))
    per_channel = [None if w is None else _channels(b, w, rank) for w in (call.get("weight"), call.get("bias"))]
    return _scaled(b, made, *per_channel)


@rule("_weight_norm")
def _weight_norm(b: ProgramBuilder, call: AtenCall) -> ArrayValue:
    """`v · g / ‖v‖`, of which the norm is over all dimensions but one; `dim` −1 is none."""
    value, kept = call["v"], call.get("dim", 0)
    over = [k for k in range(len(value.dims)) if k != kept]
    squares = b.reduced(b.pointwise([value], lambda a: a * a), over, True, frontend.sum)
    return b.pointwise([value, call["g"], squares], lambda a, g, s: a * (g / elementwise.sqrt(s)))
