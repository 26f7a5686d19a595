"""What ONNX's operators on shapes, products and reductions mean in named axes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from catdiag.frontend import elementwise
from catdiag.importers.aten_rules import RULES as ATEN
from catdiag.importers.constant_folding import arithmetic, broadcasted, filled
from catdiag.importers.dimensions import Dimension
from catdiag.importers.imported_values import ArrayValue, Environment, Operand, SizeNumber
from catdiag.importers.onnx_values import (
    KnownArray,
    OnnxOperand,
    as_array,
    element_of,
    integers_of,
    is_known,
    known_array,
    operands,
    shape_of,
)
from catdiag.importers.program_builder import ProgramBuilder
from catdiag.importers.torch_calls import AtenCall, Rule, Unsupported, adding

RULES: dict[str, Rule] = {}
rule = adding(RULES)


def aten(
    b: ProgramBuilder, name: str, shapes: Sequence[Sequence[int]] = (), element: str = "real", **arguments: Any
) -> Any:
    """The result of ATen's operation on arguments by name; `shapes` where it asks for those of the results."""
    return ATEN[name](b, AtenCall(name, arguments, tuple(map(tuple, shapes)), element, "float32"))


def _first(b: ProgramBuilder, call: AtenCall) -> ArrayValue:
    return as_array(b, operands(call, 1)[0])


def _listed(call: AtenCall, name: str, place: int) -> list[int] | None:
    """Integers that are an attribute, or an input; None if neither is given."""
    given = operands(call, place + 1)[place]
    if given is not None:
        return integers_of(given, f"the {name} of {call.name}")
    found = call.get(name)
    return None if found is None else [int(n) for n in (found if isinstance(found, (list, tuple)) else [found])]


# -- shapes ----------------------------------------------------------------------------------------------


@rule("Shape")
def _shape(b: ProgramBuilder, call: AtenCall) -> KnownArray:
    value = operands(call)[0]
    sizes: list[Operand] = list(value.shape) if isinstance(value, KnownArray) else []
    if isinstance(value, ArrayValue):
        sizes = [_size(b, d) for d in value.dims]
    sizes = sizes[slice(call.get("start", 0), call.get("end"))]
    return known_array(sizes, (len(sizes),))


def _size(b: ProgramBuilder, dim: Dimension) -> Operand:
    return SizeNumber(b.length(dim), lambda env: env.size(dim)) if b.factors.resolve(dim) else 1


@rule("Size")
def _whole_size(b: ProgramBuilder, call: AtenCall) -> KnownArray:
    value = as_array(b, operands(call)[0])
    flat = tuple(f for d in value.dims for f in d)
    return known_array([_size(b, flat)], ())


def _viewed(b: ProgramBuilder, value: OnnxOperand, shape: Sequence[int]) -> OnnxOperand:
    if isinstance(value, KnownArray):
        return KnownArray(value.elements.reshape(tuple(shape)))
    if value is not None and value.number is not None:
        return b.constant(value.number, shape, value.element)
    return aten(b, "view", [shape], self=value)  # type: ignore[no-any-return]


@rule("Reshape")
def _reshape(b: ProgramBuilder, call: AtenCall) -> OnnxOperand:
    value, target = operands(call, 2)
    old, shape = shape_of(b, value), integers_of(target, "lengths")
    if not call.get("allowzero"):
        shape = [old[k] if n == 0 else n for k, n in enumerate(shape)]
    if -1 in shape:
        shape[shape.index(-1)] = math.prod(old) // max(-math.prod(shape), 1)
    return _viewed(b, value, shape)


@rule("Flatten")
def _flatten(b: ProgramBuilder, call: AtenCall) -> OnnxOperand:
    value = operands(call)[0]
    shape = shape_of(b, value)
    axis = call.get("axis", 1)
    axis += len(shape) if axis < 0 else 0
    return _viewed(b, value, [math.prod(shape[:axis]), math.prod(shape[axis:])])


@rule("Unsqueeze", "Squeeze")
def _unsqueeze(b: ProgramBuilder, call: AtenCall) -> OnnxOperand:
    value, axes = operands(call, 1)[0], _listed(call, "axes", 1)
    old = shape_of(b, value)
    if call.name == "Squeeze":
        gone = {k for k, n in enumerate(old) if n == 1} if axes is None else {k % len(old) for k in axes}
        return _viewed(b, value, [n for k, n in enumerate(old) if k not in gone])
    rank = len(old) + len(axes or [])
    places, rest = {k % rank for k in axes or []}, iter(old)
    return _viewed(b, value, [1 if k in places else next(rest) for k in range(rank)])


@rule("Transpose")
def _transpose(b: ProgramBuilder, call: AtenCall) -> OnnxOperand:
    value = operands(call)[0]
    order = call.get("perm") or list(range(len(shape_of(b, value))))[::-1]
    if isinstance(value, KnownArray):
        return KnownArray(value.elements.transpose(order))
    return b.view(as_array(b, value), [as_array(b, value).dims[k] for k in order])


@rule("Expand")
def _expand(b: ProgramBuilder, call: AtenCall) -> OnnxOperand:
    value, target = operands(call, 2)
    shape = np.broadcast_shapes(shape_of(b, value), tuple(integers_of(target, "lengths")))
    if isinstance(value, KnownArray):
        return KnownArray(np.broadcast_to(value.elements, shape))
    return broadcasted(b, as_array(b, value), shape, element_of(value))


@rule("Tile")
def _tile(b: ProgramBuilder, call: AtenCall) -> OnnxOperand:
    value, times = operands(call, 2)
    if isinstance(value, KnownArray):
        return KnownArray(np.tile(value.elements, integers_of(times, "repetitions")))
    return aten(b, "repeat", self=value, repeats=integers_of(times, "repetitions"))  # type: ignore[no-any-return]


@rule("Concat")
def _concat(b: ProgramBuilder, call: AtenCall) -> OnnxOperand:
    given = [v for v in operands(call) if v is not None]
    if is_known(call):
        return KnownArray(np.concatenate([v.elements for v in given if isinstance(v, KnownArray)], call["axis"]))
    return aten(b, "cat", tensors=[as_array(b, v) for v in given], dim=call["axis"])  # type: ignore[no-any-return]


@rule("Split")
def _split(b: ProgramBuilder, call: AtenCall) -> Any:
    value, axis, lengths = operands(call)[0], call.get("axis", 0), _listed(call, "split", 1)
    old = shape_of(b, value)
    axis %= len(old)
    if lengths is None:
        count = call.get("num_outputs") or len(call.shapes)
        each = -(-old[axis] // count)
        lengths = [each] * (count - 1) + [old[axis] - each * (count - 1)]
    if isinstance(value, KnownArray):
        return tuple(KnownArray(v) for v in np.split(value.elements, np.cumsum(lengths)[:-1], axis))
    shapes = [[n if k == axis else m for k, m in enumerate(old)] for n in lengths]
    return aten(b, "split", shapes, self=value, dim=axis)


@rule("Slice")
def _slice(b: ProgramBuilder, call: AtenCall) -> OnnxOperand:
    value = operands(call)[0]
    starts, ends = (_listed(call, name, k) or [] for k, name in ((1, "starts"), (2, "ends")))
    axes = _listed(call, "axes", 3) or list(range(len(starts)))
    steps = _listed(call, "steps", 4) or [1] * len(starts)
    for start, end, axis, step in zip(starts, ends, axes, steps, strict=True):
        length = shape_of(b, value)[axis]
        axis %= len(shape_of(b, value))
        if isinstance(value, KnownArray):
            cut = slice(start, None if step < 0 and end < -length else end, step)
            value = KnownArray(value.elements[(slice(None),) * axis + (cut,)])
            continue
        array = as_array(b, value)
        if step < 0:  # the array backwards, and a slice forwards of it
            array = aten(b, "flip", self=array, dims=[axis])
            start, end, _ = slice(start, end if end >= -length else None, step).indices(length)
            start, end, step = length - 1 - start, length - 1 - end, -step
            if (start, end, step) == (0, length, 1):
                value = array
                continue
        first, last, _ = slice(start, end).indices(length)
        if first >= last:
            raise Unsupported(f"Slice {start}:{end} of {length}, which is empty")
        siblings = call.siblings or ((first, last),)
        asked = replace(
            call, siblings=siblings, arguments={"self": array, "dim": axis, "start": first, "end": last, "step": step}
        )
        value = ATEN["slice"](b, asked)
    return value


@rule("Gather")
def _gather(b: ProgramBuilder, call: AtenCall) -> OnnxOperand:
    value, at = operands(call, 2)
    shape, axis = shape_of(b, value), call.get("axis", 0) % max(len(shape_of(b, value)), 1)
    if isinstance(value, KnownArray) and isinstance(at, KnownArray):
        made = np.take(value.elements, np.array(integers_of(at, "indices"), int).reshape(at.shape), axis)
        return made if isinstance(made, KnownArray) else KnownArray(np.asarray(made, dtype=object))
    table = as_array(b, value)
    if isinstance(at, KnownArray) and (
        out := [n for n in integers_of(at, "indices") if not -shape[axis] <= n < shape[axis]]
    ):
        raise Unsupported(f"Gather at {out[0]} along a dimension of {shape[axis]}: expected less")
    if isinstance(at, KnownArray) and at.elements.size == 1:
        one = b.selected(table, axis, _place(integers_of(at, "indices")[0], shape[axis]))
        return b.view(one, [*one.dims[:axis], *[()] * len(at.shape), *one.dims[axis:]])
    if (
        isinstance(at, KnownArray)
        and list(integers_of(at, "indices")) == list(range(shape[axis]))
        and len(at.shape) == 1
    ):
        return table
    index = as_array(b, at)
    if isinstance(at, KnownArray) and min(integers_of(at, "indices")) < 0:
        raise Unsupported("Gather at constants, some from the end")
    return aten(b, "index", self=table, indices=[None] * axis + [index])  # type: ignore[no-any-return]


def _place(at: int, length: int) -> int:
    return 0 if length == 1 else -1 if at == length - 1 else at


@rule("GatherElements")
def _gather_elements(b: ProgramBuilder, call: AtenCall) -> OnnxOperand:
    value, at = (as_array(b, v) for v in operands(call, 2))
    return aten(b, "gather", self=value, dim=call.get("axis", 0), index=at)  # type: ignore[no-any-return]


@rule("Range")
def _range(b: ProgramBuilder, call: AtenCall) -> OnnxOperand:
    start, limit, delta = operands(call, 3)
    first, last, step = (v.numbers()[0] if isinstance(v, KnownArray) else None for v in (start, limit, delta))
    numbers = [v.value if isinstance(v, SizeNumber) else v for v in (first, last, step)]
    if any(v is None or isinstance(v, ArrayValue) for v in numbers) or isinstance(step, SizeNumber):
        raise Unsupported("Range of numbers that are computed")
    length = max(math.ceil((numbers[1] - numbers[0]) / numbers[2]), 0)  # type: ignore[operator]
    element = element_of(start)
    if isinstance(last, SizeNumber) and first == 0 and step == 1:
        return _positions(b, last, length, element)
    return aten(b, "arange", [(length,)], element, start=first, step=step)  # type: ignore[no-any-return]


def _positions(b: ProgramBuilder, last: SizeNumber, length: int, element: str) -> ArrayValue:
    dim = b.factors.dimension(length)
    return b.emit([dim], dim, lambda env: env.index(dim), element)


@rule("ConstantOfShape")
def _constant_of_shape(b: ProgramBuilder, call: AtenCall) -> OnnxOperand:
    shape = integers_of(operands(call, 1)[0], "lengths")
    number = call["value"].item() if call.get("value") is not None else 0.0
    if len(shape) <= 1 and not isinstance(number, float):
        return known_array([number] * math.prod(shape), shape)
    return filled(
        b, number, shape, "bool" if isinstance(number, bool) else "int" if isinstance(number, int) else "real"
    )


_PADS = {"constant": "constant", "reflect": "reflect", "edge": "replicate", "wrap": "circular"}


@rule("Pad")
def _pad(b: ProgramBuilder, call: AtenCall) -> OnnxOperand:
    value, ends, fill = _first(b, call), _listed(call, "pads", 1) or [], operands(call, 3)[2]
    rank = len(value.dims)
    axes = [k % rank for k in _listed(call, "axes", 3) or range(rank)]
    both: list[int] = []
    for k in range(rank - 1, -1, -1):
        both += [ends[axes.index(k)], ends[axes.index(k) + len(axes)]] if k in axes else [0, 0]
    number = fill.numbers()[0] if isinstance(fill, KnownArray) else None
    if fill is not None and not isinstance(number, (int, float)):
        raise Unsupported("Pad with a number that is computed: expected a constant")
    mode = _PADS.get(call.get("mode", "constant"))
    if mode is None:
        raise Unsupported(f"Pad with mode {call['mode']}: expected one of {', '.join(_PADS)}")
    return aten(b, "constant_pad_nd", self=value, pad=both, value=number or 0, mode=mode)  # type: ignore[no-any-return]


@rule("Trilu")
def _trilu(b: ProgramBuilder, call: AtenCall) -> ArrayValue:
    value, k = operands(call, 2)
    diagonal = 0 if k is None else integers_of(k, "a diagonal")[0]
    return aten(b, "triu" if call.get("upper", 1) else "tril", self=as_array(b, value), diagonal=diagonal)  # type: ignore[no-any-return]


@rule("OneHot")
def _one_hot(b: ProgramBuilder, call: AtenCall) -> ArrayValue:
    index, depth, values = operands(call, 3)
    at, (count,) = as_array(b, index), integers_of(depth, "a depth")
    two = as_array(b, values)
    off, on = values.numbers() if isinstance(values, KnownArray) else [b.selected(two, 0, n) for n in (0, 1)]
    k = call.get("axis", -1) % (len(at.dims) + 1)
    dim = (b.factors.new(count, fixed=True),) if count > 1 else ()

    def make(env: Environment) -> Any:  # what is negative counts from the end
        place = env.index(dim)
        return elementwise.where((place == env[at]) | (place == env[at] + count), env[on], env[off])

    return b.emit([*at.dims[:k], dim, *at.dims[k:]], (*at.axes, *dim), make, element_of(values))


# -- products ---------------------------------------------------------------------------------------------


@rule("MatMul")
def _matmul(b: ProgramBuilder, call: AtenCall) -> ArrayValue:
    left, right = (as_array(b, v) for v in operands(call, 2))
    return aten(b, "matmul", self=left, other=right)  # type: ignore[no-any-return]


@rule("Gemm")
def _gemm(b: ProgramBuilder, call: AtenCall) -> Any:
    left, right, more = operands(call, 3)
    one, other = as_array(b, left), as_array(b, right)
    one = b.view(one, one.dims[::-1]) if call.get("transA") else one
    other = b.view(other, other.dims[::-1]) if call.get("transB") else other
    made, alpha, beta = aten(b, "matmul", self=one, other=other), call.get("alpha", 1.0), call.get("beta", 1.0)
    made = made if alpha == 1 else b.pointwise([made], lambda a: a * alpha)
    if more is None:
        return made
    return b.pointwise([made, as_array(b, more)], lambda a, c: a + (c if beta == 1 else c * beta))


@rule("Einsum")
def _einsum(b: ProgramBuilder, call: AtenCall) -> ArrayValue:
    return aten(b, "einsum", equation=call["equation"], tensors=[as_array(b, v) for v in operands(call)])  # type: ignore[no-any-return]


# -- reductions -------------------------------------------------------------------------------------------

_REDUCTIONS = {
    "ReduceSum": "sum", "ReduceMean": "mean", "ReduceMax": "amax", "ReduceMin": "amin", "ReduceProd": "prod",
    "ReduceLogSumExp": "logsumexp", "ReduceL1": "sum", "ReduceL2": "sum", "ReduceSumSquare": "sum",
    "ReduceLogSum": "sum", "GlobalAveragePool": "mean", "GlobalMaxPool": "amax",
}  # fmt: skip


@rule(*_REDUCTIONS)
def _reduction(b: ProgramBuilder, call: AtenCall) -> OnnxOperand:
    if is_known(call):
        return _known_reduction(b, call)
    value, axes = _first(b, call), _listed(call, "axes", 1)
    if call.name.startswith("Global"):
        axes = list(range(2, len(value.dims)))
    none = not axes and bool(call.get("noop_with_empty_axes"))
    if call.name == "ReduceL1":
        value = b.pointwise([value], elementwise.abs, value.element)
    elif call.name in ("ReduceL2", "ReduceSumSquare"):
        value = b.pointwise([value], lambda a: a * a, value.element)
    keep = bool(call.get("keepdims", 1))
    made: ArrayValue = value
    if not none:  # over no axis the other steps of a reduction stay
        made = aten(b, _REDUCTIONS[call.name], element=value.element, self=value, dim=axes or None, keepdim=keep)
    if call.name == "ReduceL2":
        return b.pointwise([made], elementwise.sqrt)
    if call.name == "ReduceLogSum":
        return b.pointwise([made], elementwise.log)
    if call.name == "ReduceSum" and not none:
        gone = axes or range(len(value.dims))
        made.contracted = b.factors.resolve(f for k in gone for f in value.dims[k])
    return made


def _known_reduction(b: ProgramBuilder, call: AtenCall) -> KnownArray:
    """The product, the sum, or the extreme of lengths."""
    (value, *_), names = (
        operands(call),
        {"ReduceProd": "mul", "ReduceSum": "add", "ReduceMax": "max", "ReduceMin": "min"},
    )
    if call.name not in names or not isinstance(value, KnownArray) or len(value.shape) > 1:
        raise Unsupported(f"{call.name} of constants")
    numbers = value.numbers()
    total = numbers[0]
    for number in numbers[1:]:
        total = arithmetic(b, names[call.name], (total, number), element_of(value), ())
    return known_array([total], (1,) if call.get("keepdims", 1) else ())


@rule("ArgMax", "ArgMin")
def _position(b: ProgramBuilder, call: AtenCall) -> ArrayValue:
    if call.get("select_last_index"):
        raise Unsupported(f"{call.name} of the last of equal elements")
    arguments = {"self": _first(b, call), "dim": call.get("axis", 0), "keepdim": bool(call.get("keepdims", 1))}
    return aten(b, call.name.lower(), **arguments)  # type: ignore[no-any-return]


@rule("TopK")
def _top_k(b: ProgramBuilder, call: AtenCall) -> Any:
    value, count = operands(call, 2)
    return aten(
        b, "topk", self=as_array(b, value), k=integers_of(count, "a number")[0], dim=call.get("axis", -1),
        largest=bool(call.get("largest", 1)),
    )  # fmt: skip


@rule("CumSum")
def _cumsum(b: ProgramBuilder, call: AtenCall) -> ArrayValue:
    value, axis = _first(b, call), integers_of(operands(call, 2)[1], "an axis")[0]
    back = bool(call.get("reverse"))
    source = aten(b, "flip", self=value, dims=[axis]) if back else value
    made = aten(b, "cumsum", element=value.element, self=source, dim=axis)
    made = aten(b, "flip", self=made, dims=[axis]) if back else made
    return b.pointwise([made, value], lambda a, c: a - c, value.element) if call.get("exclusive") else made


@rule("Softmax", "LogSoftmax")
def _softmax(b: ProgramBuilder, call: AtenCall) -> ArrayValue:
    name = "softmax" if call.name == "Softmax" else "log_softmax"
    return aten(b, name, self=_first(b, call), dim=call.get("axis", -1))  # type: ignore[no-any-return]
