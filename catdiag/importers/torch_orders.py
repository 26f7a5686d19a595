"""What PyTorch's sorting and running extremes mean in named axes: comparisons of all pairs of elements."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from catdiag.frontend import builder as frontend
from catdiag.frontend import elementwise, nn
from catdiag.frontend.tracing import running
from catdiag.importers.imported_values import ArrayValue, Environment
from catdiag.importers.program_builder import ProgramBuilder
from catdiag.importers.torch_calls import AtenCall, Rule, Unsupported, adding, place

RULES: dict[str, Rule] = {}
rule = adding(RULES)


def _pairs(b: ProgramBuilder, value: ArrayValue, k: int) -> tuple[ArrayValue, ArrayValue]:
    """A value whose dimension k is one axis, and the same with other axes along it."""
    if len(b.factors.resolve(value.dims[k])) > 1:
        value = b.joined_dimension(value, k)
    full = b.materialized(value, [value.dims[k]])
    return full, b.fresh(full, full.dims[k])


@rule("cummax", "cummin")
def _running_extreme(b: ProgramBuilder, call: AtenCall) -> tuple[ArrayValue, ArrayValue]:
    """The largest element up to each, and the last position where it is."""
    value, k = call["self"], place(call["self"], call["dim"])
    if not value.dims or not b.factors.resolve(value.dims[k]):
        return value, b.view(b.constant(0, (), "int"), value.dims)
    full, other = _pairs(b, value, k)
    here, there = full.dims[k], other.dims[k]
    best = frontend.max if call.name == "cummax" else frontend.min

    def extreme(env: Environment) -> Any:
        before = env.index(there) <= env.index(here)
        return best(elementwise.where(before, env[other], env[full]), env.of(there))

    found = b.emit(full.dims, full.axes, extreme, value.element)

    def last(env: Environment) -> Any:
        equal = (env.index(there) <= env.index(here)) & (env[other] == env[found])
        zero = running().lift(0, element="int")
        return frontend.max(elementwise.where(equal, env.index(there), zero), env.of(there))

    return found, b.emit(full.dims, full.axes, last, "int")


@rule("logcumsumexp", "cumprod")
def _running_total(b: ProgramBuilder, call: AtenCall) -> ArrayValue:
    """The logarithm of the sum of powers, or the product, of all elements up to each."""
    value, k = call["self"], place(call["self"], call["dim"])
    if not value.dims or not b.factors.resolve(value.dims[k]):
        return value  # type: ignore[no-any-return]
    full, other = _pairs(b, value, k)
    here, there = full.dims[k], other.dims[k]

    def make(env: Environment) -> Any:
        before = env.index(there) <= env.index(here)
        if call.name == "cumprod":
            return frontend.prod(elementwise.where(before, env[other], 1), env.of(there))
        return nn.logsumexp(elementwise.where(before, env[other], -float("inf")), env.of(there))

    return b.emit(full.dims, full.axes, make, value.element if call.name == "cumprod" else "real")


def ranks(b: ProgramBuilder, value: ArrayValue, k: int, descending: bool = False) -> tuple[ArrayValue, ArrayValue]:
    """A value whose dimension k is one axis, and how many elements along it come before each: smaller ones, or larger
    ones if `descending`; of equal ones those at smaller positions."""
    full, other = _pairs(b, value, k)
    here, there = full.dims[k], other.dims[k]

    def make(env: Environment) -> Any:
        ahead = env[other] > env[full] if descending else env[other] < env[full]
        earlier = (env[other] == env[full]) & (env.index(there) < env.index(here))
        one, zero = (running().lift(n, element="int") for n in (1, 0))
        return frontend.sum(elementwise.where(ahead | earlier, one, zero), env.of(there))

    return full, b.emit(full.dims, full.axes, make, "int")


def _ordered(b: ProgramBuilder, value: ArrayValue, k: int, descending: bool) -> tuple[ArrayValue, ArrayValue]:
    """The elements along dimension k in order, and their positions."""
    if not value.dims or not b.factors.resolve(value.dims[k]):
        return value, b.view(b.constant(0, (), "int"), value.dims)
    if value.element == "bool":
        raise Unsupported("sorting of truth values")
    full, rank = ranks(b, value, k, descending)
    old = b.factors.resolve(full.dims[k])
    new = tuple(b.factors.copy(f) for f in old)
    dims = [*full.dims[:k], new, *full.dims[k + 1 :]]
    axes = [*(f for f in b.factors.resolve(full.axes) if f not in old), *new]

    def at_rank(element: Callable[[Environment], Any], kind: str) -> Callable[[Environment], Any]:
        def make(env: Environment) -> Any:
            zero = running().lift(0, element="int") if kind == "int" else 0
            return frontend.sum(elementwise.where(env[rank] == env.index(new), element(env), zero), env.of(old))

        return make

    values = b.emit(dims, axes, at_rank(lambda env: env[full], value.element), value.element)
    positions = b.emit(dims, axes, at_rank(lambda env: env.index(old), "int"), "int")
    return values, positions


@rule("sort", "argsort", "msort")
def _sort(b: ProgramBuilder, call: AtenCall) -> Any:
    value = call["self"]
    k = place(value, 0 if call.name == "msort" else call.get("dim", -1))
    values, positions = _ordered(b, value, k, bool(call.get("descending", False)))
    return {"sort": (values, positions), "argsort": positions, "msort": values}[call.name]


@rule("kthvalue", "median")
def _kth(b: ProgramBuilder, call: AtenCall) -> Any:
    """The kth smallest element and its position; of an even number, the median is the lower of the middle two."""
    value = call["self"]
    whole = call.name == "median" and call.get("dim") is None
    if whole:
        value = b.view(value, [tuple(f for d in value.dims for f in d)])
    k = place(value, 0 if whole else call.get("dim", -1))
    if not b.factors.resolve(value.dims[k]):
        one = b.view(value, [d for j, d in enumerate(value.dims) if j != k or call.get("keepdim")])
        return one if whole else (one, b.view(b.constant(0, (), "int"), one.dims))
    found = _ordered(b, value, k, False)

    def number(env: Environment, array: ArrayValue) -> Any:
        return (env.size(array.dims[k]) - 1) // 2 if call.name == "median" else call["k"] - 1

    made = []
    if call.name == "kthvalue":
        b.at_least.append((value.dims[k], call["k"]))
    for array in found:
        (axis,) = b.factors.resolve(array.dims[k])
        gone = [() if j == k else d for j, d in enumerate(array.dims) if j != k or call.get("keepdim")]
        axes = [f for f in b.factors.resolve(array.axes) if f is not axis]
        read = lambda env, a=array, f=axis: env.read(env[a], [(f, number(env, a))], [])  # noqa: E731
        made.append(b.emit(gone, axes, read, array.element))
    return made[0] if whole else tuple(made)
