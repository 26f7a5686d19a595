"""What JAX's operations on windows mean in named axes: convolutions, transposed ones, and reductions over windows."""

from __future__ import annotations

from typing import Any

from catdiag.frontend import builder as frontend
from catdiag.importers.dimensions import Dimension
from catdiag.importers.imported_values import ArrayValue
from catdiag.importers.jax_arrays import array_of, aten
from catdiag.importers.program_builder import ProgramBuilder
from catdiag.importers.torch_calls import AtenCall, Rule, Unsupported, adding
from catdiag.importers.torch_products import Window, windows

RULES: dict[str, Rule] = {}
rule = adding(RULES)


@rule("conv_general_dilated")
def _convolution(b: ProgramBuilder, call: AtenCall) -> ArrayValue:
    value, weight = (array_of(b, v) for v in call["operands"])
    numbers = call["dimension_numbers"]
    if call["batch_group_count"] != 1:
        raise Unsupported("a convolution in groups of the batch")
    value = b.view(value, [value.dims[k] for k in numbers.lhs_spec])
    weight = b.view(weight, [weight.dims[k] for k in numbers.rhs_spec])
    if any(n != 1 for n in call["lhs_dilation"]):
        made = _transposed(b, call, value, weight)
    else:
        made = aten(
            b, "convolution", call, input=value, weight=weight, stride=call["window_strides"],
            padding=[tuple(map(int, ends)) for ends in call["padding"]], dilation=call["rhs_dilation"],
            groups=int(call["feature_group_count"]),
        )  # fmt: skip
    return b.view(made, [made.dims[numbers.out_spec.index(k)] for k in range(len(made.dims))])


def _transposed(b: ProgramBuilder, call: AtenCall, value: ArrayValue, weight: ArrayValue) -> ArrayValue:
    """A convolution of an array with zeros between its elements, which is a transposed one with the taps backwards.
    `value` is [batch, channels, …] and `weight` [outputs, channels, …]."""
    if call["feature_group_count"] != 1 or any(n != 1 for n in call["window_strides"]):
        raise Unsupported("a transposed convolution in groups, or with strides: expected lhs_dilation alone")
    rank = len(weight.dims) - 2
    stride, dilation = list(map(int, call["lhs_dilation"])), list(map(int, call["rhs_dilation"]))
    pads, extra = [], []
    for k, (low, high) in enumerate(call["padding"]):
        reach, length = dilation[k] * (b.length(weight.dims[2 + k]) - 1), b.length(value.dims[2 + k])
        pads.append(reach - int(low))
        whole = (length - 1) * stride[k] + 1 + int(low) + int(high) - reach
        extra.append(whole - ((length - 1) * stride[k] - 2 * pads[k] + reach + 1))
    backwards = aten(b, "flip", call, self=weight, dims=[2 + k for k in range(rank)])
    turned = b.view(backwards, [backwards.dims[1], backwards.dims[0], *backwards.dims[2:]])
    return aten(  # type: ignore[no-any-return]
        b, "convolution", call, input=value, weight=turned, transposed=True, stride=stride, padding=pads,
        dilation=dilation, output_padding=extra,
    )  # fmt: skip


_WINDOWS = {"reduce_window_max": frontend.max, "reduce_window_min": frontend.min, "reduce_window_sum": frontend.sum}


@rule(*_WINDOWS)
def _reduce_window(b: ProgramBuilder, call: AtenCall) -> ArrayValue:
    value, function = array_of(b, call["operands"][0], call.element), _WINDOWS[call.name]
    if any(n != 1 for n in call["base_dilation"]):
        raise Unsupported(f"jax.{call.name} with zeros between the elements (base_dilation)")
    places, at = [], 0
    for k, (width, stride, ends, dilation) in enumerate(
        zip(call["window_dimensions"], call["window_strides"], call["padding"], call["window_dilation"], strict=True)
    ):
        pad = (int(ends[0]), int(ends[1]))
        if (width, stride, pad) == (1, 1, (0, 0)):
            at += 1
            continue
        if function is not frontend.sum and (
            max(pad) > width // 2 or (pad != (0, 0) and dilation != 1) or (width == 1 and pad != (0, 0))
        ):
            raise Unsupported(f"jax.{call.name} whose windows may be outside along dimension {k}, or have holes there")
        taps: Dimension = (b.factors.new(int(width), fixed=True),) if width > 1 else ()
        # Beyond an end a maximum reads the last element again: it is in the window already.
        fill: Any = 0.0 if function is frontend.sum else None
        value = windows(b, value, at, Window(taps, int(stride), pad, int(dilation), fill))
        places.append(at + 1)
        at += 2
    return b.reduced(value, places, False, function)
