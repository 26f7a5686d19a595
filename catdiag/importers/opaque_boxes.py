"""Operations that have no rule, as uninterpreted boxes: proofs and plans go around them, and running calls them.

A box is named after its operation and all that is not an array in the call, so that two boxes of one name are the same
function of their arrays. Its arrays are over single axes; the function gets them in the shapes that the library knows.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from functools import partial
from importlib import import_module
from math import prod
from typing import Any, TypeAlias

from catdiag.category.ops import Box, Generic
from catdiag.category.types import ArrayType, Ty
from catdiag.frontend.tracing import Traced, running
from catdiag.importers.dimensions import Dimension
from catdiag.importers.imported_values import ArrayValue, Environment, SizeNumber
from catdiag.importers.program_builder import ProgramBuilder
from catdiag.importers.torch_calls import AtenCall

OnArrays: TypeAlias = Callable[..., Any]
"""A function of NumPy arrays that gives one, or a sequence; PyTorch's take tensors too."""


def arrays_of(value: Any) -> list[ArrayValue]:
    """The arrays among the arguments of a call, in order."""
    if isinstance(value, ArrayValue):
        return [value]
    if isinstance(value, dict):
        return [v for item in value.values() for v in arrays_of(item)]
    return [v for item in value for v in arrays_of(item)] if isinstance(value, (list, tuple)) else []


def with_arrays(value: Any, arrays: Any) -> Any:
    """An argument of a call with arrays, from an iterator, in their places, and sizes as numbers."""
    if isinstance(value, ArrayValue):
        return next(arrays)
    if isinstance(value, SizeNumber):
        return int(value.value) if float(value.value).is_integer() else value.value
    if isinstance(value, (list, tuple)):
        return type(value)([with_arrays(v, arrays) for v in value])
    return value


def opaque(b: ProgramBuilder, library: str, call: AtenCall, function: OnArrays) -> Any:
    """The results of a call as those of an uninterpreted box. A result of the shape of an argument has its axes; the
    lengths of others are those of the example."""
    values = [b.materialized(v, v.dims) for v in arrays_of(dict(call.arguments))]
    elements = call.elements or (call.element,) * len(call.shapes)
    dims: list[Sequence[Dimension]] = []
    for shape in call.shapes:
        like = next((v for v in values if b.shape(v) == list(shape)), None)
        dims.append([b.factors.dimension(n) for n in shape] if like is None else like.dims)
        if like is not None and shape:
            b.notes.append(f"a result of {library}.{call.name} has the lengths of its argument{b.at}")
    results: list[ArrayValue] = []
    text = repr([(k, _described(v)) for k, v in sorted(call.arguments.items())])

    def box(env: Environment) -> Traced:
        groups = [[len(env.axes(d)) for d in v] for v in (*[v.dims for v in values], *dims)]
        digest = hashlib.sha256(f"{text}{groups}".encode()).hexdigest()[:8]
        name = "".join(c if c.isalnum() else "_" for c in f"{library}_{call.name}_{digest}")
        given = [running().rename(env[v], {}, [a for d in v.dims for a in env.axes(d)]) for v in values]
        layouts = [[a for d in found for a in env.axes(d)] for found in dims]
        cod = [ArrayType(tuple(axes), element) for axes, element in zip(layouts, elements, strict=True)]
        lengths = [[f.length for d in found for f in b.factors.resolve(d)] for found in dims]
        by_library = function if library == "aten" else partial(_on_host, function)
        b.functions[name] = _flattened(by_library, groups[: len(values)], groups[len(values) :], lengths)
        made = running().add(Box(Generic(name), Ty(*(a.type for a in given)), Ty(*cod), running().line()), given)
        for axes in layouts:
            running().learn(axes)
        env.together[results[0]] = made
        return made[0]

    def other(k: int) -> Callable[[Environment], Traced]:
        return lambda env: env.together[results[0]][k]

    for k, (found, element) in enumerate(zip(dims, elements, strict=True)):
        axes = [f for d in found for f in d]
        results.append(b.emit(found, axes, other(k) if k else box, element))
    return results[0] if len(results) == 1 else tuple(results)


def _described(value: Any) -> Any:
    if isinstance(value, ArrayValue):
        return "array"
    if isinstance(value, SizeNumber):
        return value.value
    return [_described(v) for v in value] if isinstance(value, (list, tuple)) else value


def _flattened(
    function: OnArrays, given: Sequence[Sequence[int]], made: Sequence[Sequence[int]], lengths: Sequence[Sequence[int]]
) -> OnArrays:
    """The function of arrays over single axes: `given` and `made` say how many axes each dimension has, `lengths` those
    of the results in the example, of which the first of a dimension may differ."""

    def call(*arrays: Any) -> tuple[Any, ...]:
        shaped = [_grouped(a, counts) for a, counts in zip(arrays, given, strict=True)]
        found = function(*shaped)
        results = list(found) if isinstance(found, (tuple, list)) else [found]
        flat = []
        for result, counts, axes in zip(map(_array, results), made, lengths, strict=True):
            shape: list[int] = []
            rest = list(axes)
            for n, count in zip(result.shape, counts, strict=True):
                inner = [rest.pop(0) for _ in range(count)][1:]
                shape += [n // prod(inner), *inner] if count else []
            flat.append(result.reshape(shape))
        return tuple(flat)

    return call


def _on_host(function: OnArrays, *arrays: Any) -> Any:
    """A function of NumPy arrays on these, or on tensors, which are copied from their device and back."""
    if not any(hasattr(a, "data_ptr") for a in arrays):
        return function(*arrays)
    numpy, torch = import_module("numpy"), import_module("torch")
    given = [a.detach().cpu() for a in arrays]  # NumPy has no bfloat16
    found = function(*((a.float() if a.dtype == torch.bfloat16 else a).numpy() for a in given))
    results = list(found) if isinstance(found, (tuple, list)) else [found]
    return [torch.from_numpy(numpy.array(value)).to(arrays[0].device) for value in results]


def _array(value: Any) -> Any:
    """A value as a NumPy array, unless it is an array or a tensor already."""
    return value if hasattr(value, "reshape") and hasattr(value, "shape") else import_module("numpy").asarray(value)


def _grouped(array: Any, counts: Sequence[int]) -> Any:
    lengths = iter(array.shape)
    shaped = array.reshape([prod(next(lengths) for _ in range(count)) for count in counts])
    if hasattr(shaped, "contiguous"):
        return shaped.contiguous()
    return import_module("numpy").ascontiguousarray(shaped)
