"""What ONNX's operators that gather and write at indices mean in named axes, losses, and quantized arrays."""

from __future__ import annotations

from typing import Any

from catdiag.frontend import elementwise
from catdiag.importers.imported_values import ArrayValue
from catdiag.importers.onnx_arrays import aten
from catdiag.importers.onnx_values import KnownArray, OnnxOperand, as_array, integers_of, operands
from catdiag.importers.program_builder import ProgramBuilder
from catdiag.importers.torch_calls import AtenCall, Rule, Unsupported, adding

RULES: dict[str, Rule] = {}
rule = adding(RULES)


# -- at indices -------------------------------------------------------------------------------------------


def _indices(b: ProgramBuilder, call: AtenCall, at: OnnxOperand) -> list[ArrayValue]:
    """The arrays of indices that the last dimension of one holds."""
    table = _table(b, call, at)
    return [b.selected(table, len(table.dims) - 1, k) for k in range(b.shape(table)[-1])]


def _table(b: ProgramBuilder, call: AtenCall, at: OnnxOperand) -> ArrayValue:
    """Integers as an array of the program, which none may count from the end in."""
    if isinstance(at, KnownArray) and min(integers_of(at, "indices"), default=0) < 0:
        raise Unsupported(f"{call.name} at constants, some from the end")
    if isinstance(at, KnownArray) and at.input is not None:
        return at.input()
    return as_array(b, at)


@rule("GatherND")
def _gather_nd(b: ProgramBuilder, call: AtenCall) -> ArrayValue:
    value, at = operands(call, 2)
    if call.get("batch_dims"):
        raise Unsupported("GatherND with batch_dims: expected 0")
    return aten(b, "index", self=as_array(b, value), indices=_indices(b, call, at))  # type: ignore[no-any-return]


@rule("ScatterND")
def _scatter_nd(b: ProgramBuilder, call: AtenCall) -> ArrayValue:
    value, at, new = operands(call, 3)
    adds = _adds(call)
    return aten(  # type: ignore[no-any-return]
        b, "index_put", self=as_array(b, value), indices=_indices(b, call, at), values=as_array(b, new),
        accumulate=adds,
    )  # fmt: skip


def _adds(call: AtenCall) -> bool:
    how = call.get("reduction", "none")
    if how not in ("none", "add"):
        raise Unsupported(f"{call.name} with the reduction {how}: expected none or add")
    return how == "add"  # type: ignore[no-any-return]


@rule("ScatterElements")
def _scatter(b: ProgramBuilder, call: AtenCall) -> ArrayValue:
    value, at, new = operands(call, 3)
    name = "scatter_add" if _adds(call) else "scatter"
    index, source = _table(b, call, at), as_array(b, new)
    return aten(b, name, self=as_array(b, value), dim=call.get("axis", 0), index=index, src=source)  # type: ignore[no-any-return]


@rule("EyeLike")
def _eye(b: ProgramBuilder, call: AtenCall) -> ArrayValue:
    value = as_array(b, operands(call)[0])
    if len(set(b.shape(value))) == 1:  # rows and columns are two axes
        value = b.fresh(value, value.dims[1])
    rows, columns = value.dims
    shift = call.get("k", 0)

    def make(env: Any) -> Any:
        return elementwise.where(env.index(columns) == env.index(rows) + shift, 1, 0)

    return b.emit([rows, columns], (*rows, *columns), make, call.elements[0] if call.elements else "real")


@rule("Hardmax")
def _hardmax(b: ProgramBuilder, call: AtenCall) -> ArrayValue:
    value = as_array(b, operands(call)[0])
    k = call.get("axis", -1) % len(value.dims)
    largest, dim = aten(b, "argmax", self=value, dim=k, keepdim=True), value.dims[k]
    here = b.emit(
        [dim if j == k else () for j in range(len(value.dims))], dim, lambda env: env.index(dim), "int"
    )  # fmt: skip
    return b.pointwise([here, largest], lambda p, q: elementwise.where(p == q, 1, 0))


# -- losses -----------------------------------------------------------------------------------------------

_MODES = {"none": 0, "mean": 1, "sum": 2}


@rule("SoftmaxCrossEntropyLoss", "NegativeLogLikelihoodLoss")
def _loss(b: ProgramBuilder, call: AtenCall) -> Any:
    scores, target, weight = operands(call, 3)
    logits = as_array(b, scores)
    name = "cross_entropy_loss" if call.name.startswith("Softmax") else "nll_loss_nd"
    made = aten(
        b, name, self=logits, target=as_array(b, target), reduction=_MODES[call.get("reduction", "mean")],
        ignore_index=call.get("ignore_index", -100), weight=None if weight is None else as_array(b, weight),
    )  # fmt: skip
    if len(call.shapes) == 1:
        return made
    return made, aten(b, "log_softmax", self=logits, dim=1)


# -- quantized arrays -------------------------------------------------------------------------------------

_RANGES = {
    "uint8": (0, 255), "int8": (-128, 127), "uint16": (0, 65535), "int16": (-32768, 32767)
}  # fmt: skip
"""The least and the greatest integer of a type."""


def _along(b: ProgramBuilder, call: AtenCall, value: ArrayValue, given: OnnxOperand) -> Any:
    """A scale or a zero point, one for all or one for each index of an axis."""
    made = as_array(b, given)
    if len(made.dims) > 1:
        raise Unsupported(f"{call.name} by blocks: expected a scale for all, or one for each index of an axis")
    k = call.get("axis", 1) % max(len(value.dims), 1)
    return b.view(made, [made.dims[0] if j == k else () for j in range(len(value.dims))]) if made.dims else made


@rule("QuantizeLinear")
def _quantize(b: ProgramBuilder, call: AtenCall) -> ArrayValue:
    source, scale, zero = operands(call, 3)
    value = as_array(b, source)
    if call.dtype not in _RANGES:
        raise Unsupported(f"{call.name} to {call.dtype or 'a type that is not said'}: expected {', '.join(_RANGES)}")
    low, high = _RANGES[call.dtype]
    given = [value, _along(b, call, value, scale), *([] if zero is None else [_along(b, call, value, zero)])]

    def make(a: Any, step: Any, shift: Any = 0) -> Any:
        return elementwise.clip(elementwise.round(a / step) + shift, low, high)

    return b.pointwise(given, make)


@rule("DequantizeLinear")
def _dequantize(b: ProgramBuilder, call: AtenCall) -> ArrayValue:
    source, scale, zero = operands(call, 3)
    value = as_array(b, source)
    given = [value, _along(b, call, value, scale), *([] if zero is None else [_along(b, call, value, zero)])]
    return b.pointwise(given, lambda a, step, shift=0: (a - shift) * step)


@rule("MatMulInteger")
def _integer_product(b: ProgramBuilder, call: AtenCall) -> ArrayValue:
    one, other, *zeros = operands(call, 4)
    left, right = as_array(b, one), as_array(b, other)
    for k, zero in enumerate(zeros):
        if zero is None:
            continue
        shift = as_array(b, zero)
        if shift.dims:
            raise Unsupported("MatMulInteger with a zero point for each row: expected one for all")
        if k == 0:
            left = b.pointwise([left, shift], lambda a, c: a - c, left.element)
        else:
            right = b.pointwise([right, shift], lambda a, c: a - c, right.element)
    return aten(b, "matmul", element="int", self=left, other=right)  # type: ignore[no-any-return]
