"""What ONNX's operators on images mean in named axes: convolutions, pools, resizing, depth and space."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from catdiag.frontend import elementwise
from catdiag.importers.aten_rules import RULES as ATEN
from catdiag.importers.imported_values import ArrayValue
from catdiag.importers.onnx_arrays import aten
from catdiag.importers.onnx_values import KnownArray, as_array, integers_of, operands
from catdiag.importers.program_builder import ProgramBuilder
from catdiag.importers.torch_calls import AtenCall, Rule, Unsupported, adding

RULES: dict[str, Rule] = {}
rule = adding(RULES)


def _ends(b: ProgramBuilder, call: AtenCall, value: ArrayValue, width: Sequence[int]) -> list[tuple[int, int]]:
    """Elements before and after each of the last dimensions, as `pads` or `auto_pad` say."""
    rank, auto = len(width), call.get("auto_pad", "NOTSET")
    strides, dilations = call.get("strides") or [1] * rank, call.get("dilations") or [1] * rank
    if not auto.startswith("SAME"):
        ends = (auto != "VALID" and call.get("pads")) or [0] * (2 * rank)
        return list(zip(ends[:rank], ends[rank:], strict=True))
    found = []
    for k, dim in enumerate(value.dims[len(value.dims) - rank :]):
        length, step = b.length(dim), strides[k]
        total = max((-(-length // step) - 1) * step + dilations[k] * (width[k] - 1) + 1 - length, 0)
        if step > 1:  # how much is padded depends on the length
            b.notes.append(f"{call.name}: {auto} is that of the length {length}{b.at}")
        less, more = total // 2, total - total // 2
        found.append((less, more) if auto == "SAME_UPPER" else (more, less))
    return found


@rule("Conv")
def _conv(b: ProgramBuilder, call: AtenCall) -> ArrayValue:
    value, weight, bias = operands(call, 3)
    image, kernel = as_array(b, value), as_array(b, weight)
    rank = len(kernel.dims) - 2
    return aten(  # type: ignore[no-any-return]
        b, "convolution", input=image, weight=kernel, bias=None if bias is None else as_array(b, bias),
        stride=call.get("strides") or [1] * rank, padding=_ends(b, call, image, b.shape(kernel)[2:]),
        dilation=call.get("dilations") or [1] * rank, groups=call.get("group", 1),
    )  # fmt: skip


@rule("ConvTranspose")
def _conv_transpose(b: ProgramBuilder, call: AtenCall) -> ArrayValue:
    value, weight, bias = operands(call, 3)
    kernel = as_array(b, weight)
    rank = len(kernel.dims) - 2
    ends = call.get("pads") or [0] * (2 * rank)
    if call.get("output_shape") or call.get("auto_pad", "NOTSET") not in ("NOTSET", "VALID"):
        raise Unsupported("ConvTranspose with output_shape or auto_pad: expected pads and output_padding")
    if ends[:rank] != ends[rank:]:
        raise Unsupported(f"ConvTranspose with pads {ends}: expected as many before as after")
    return aten(  # type: ignore[no-any-return]
        b, "convolution", input=as_array(b, value), weight=kernel, bias=None if bias is None else as_array(b, bias),
        stride=call.get("strides") or [1] * rank, padding=ends[:rank], transposed=True,
        dilation=call.get("dilations") or [1] * rank, groups=call.get("group", 1),
        output_padding=call.get("output_padding") or [0] * rank,
    )  # fmt: skip


@rule("MaxPool", "AveragePool")
def _pool(b: ProgramBuilder, call: AtenCall) -> Any:
    width, value = list(call["kernel_shape"]), as_array(b, operands(call)[0])
    rank, mean = len(width), call.name == "AveragePool"
    if len(call.shapes) > 1:
        raise Unsupported(f"{call.name} with the positions as a second result")
    if call.get("auto_pad", "NOTSET") != "NOTSET" and call.get("ceil_mode"):
        raise Unsupported(f"{call.name} with auto_pad and ceil_mode")
    return aten(
        b, f"{'avg' if mean else 'max'}_pool{rank}d", self=value, kernel_size=width,
        padding=_ends(b, call, value, width), stride=call.get("strides") or [1] * rank,
        dilation=call.get("dilations") or [1] * rank, ceil_mode=bool(call.get("ceil_mode")),
        count_include_pad=bool(call.get("count_include_pad", 0)),
    )  # fmt: skip


@rule("GlobalLpPool")
def _global_pool(b: ProgramBuilder, call: AtenCall) -> ArrayValue:
    value = as_array(b, operands(call)[0])
    if call.get("p", 2) != 2:
        raise Unsupported(f"GlobalLpPool with p = {call['p']}: expected 2")
    squares = b.pointwise([value], lambda a: a * a)
    total = aten(b, "sum", self=squares, dim=list(range(2, len(value.dims))), keepdim=True)
    return b.pointwise([total], elementwise.sqrt)


# -- resizing ---------------------------------------------------------------------------------------------

_NEAREST = {
    ("asymmetric", "floor"), ("half_pixel", "round_prefer_floor"), ("half_pixel", "round_prefer_ceil"),
    ("pytorch_half_pixel", "round_prefer_floor"), ("pytorch_half_pixel", "round_prefer_ceil"),
}  # fmt: skip
"""Where a result that is a whole number of times as long reads the source, which is the same for all of these."""
_LINEAR = {"half_pixel": False, "pytorch_half_pixel": False, "align_corners": True}


@rule("Resize")
def _resize(b: ProgramBuilder, call: AtenCall) -> ArrayValue:
    value, (_, _, scales, sizes) = as_array(b, operands(call)[0]), operands(call, 4)
    shape, mode = b.shape(value), call.get("mode", "nearest")
    where = call.get("coordinate_transformation_mode", "half_pixel")
    axes = [k % len(shape) for k in call.get("axes") or range(len(shape))]
    factors: list[float | None] = [None] * len(shape)
    wanted = list(shape)
    if isinstance(scales, KnownArray) and scales.elements.size:
        for k, factor in zip(axes, scales.numbers(), strict=True):
            if not isinstance(factor, float):
                raise Unsupported("Resize by scales that are computed from sizes: expected constants")
            factors[k], wanted[k] = factor, int(shape[k] * factor)
    else:
        for k, n in zip(axes, integers_of(sizes, "the lengths of Resize"), strict=True):
            wanted[k] = n
    if wanted[:2] != shape[:2]:
        raise Unsupported("Resize of the batch or of channels")
    if call.get("antialias") or call.get("keep_aspect_ratio_policy", "stretch") != "stretch":
        raise Unsupported("Resize with antialias or keep_aspect_ratio_policy")
    times = all(n % m == 0 for n, m in zip(wanted, shape, strict=True))
    given = {"self": value, "scale_factors": factors[2:]}
    if mode == "nearest":
        rounding = call.get("nearest_mode", "round_prefer_floor")
        if (where, rounding) not in _NEAREST or not (times or (where, rounding) == ("asymmetric", "floor")):
            raise Unsupported(f"Resize to the nearest with {where} and {rounding}, not a whole number of times as long")
        return ATEN[f"upsample_nearest{len(shape) - 2}d"](b, _upsampling(given, wanted))  # type: ignore[no-any-return]
    if mode != "linear" or where not in _LINEAR or (where == "pytorch_half_pixel" and 1 in wanted[2:]):
        raise Unsupported(f"Resize with mode {mode} and {where}: expected nearest, or linear with {', '.join(_LINEAR)}")
    name = {1: "upsample_linear1d", 2: "upsample_bilinear2d", 3: "upsample_trilinear3d"}[len(shape) - 2]
    return ATEN[name](b, _upsampling({**given, "align_corners": _LINEAR[where]}, wanted))  # type: ignore[no-any-return]


def _upsampling(arguments: dict[str, Any], wanted: Sequence[int]) -> AtenCall:
    return AtenCall("upsample", arguments, (tuple(wanted),), "real", "")


# -- depth and space --------------------------------------------------------------------------------------


@rule("DepthToSpace", "SpaceToDepth")
def _depth(b: ProgramBuilder, call: AtenCall) -> ArrayValue:
    value, size = as_array(b, operands(call)[0]), call["blocksize"]
    _, channels, high, wide = b.shape(value)

    def split(k: int, lengths: Sequence[int]) -> list[Any]:
        return list(b.factors.regroup(value.dims[k], list(lengths)))

    if call.name == "SpaceToDepth":
        (h, p), (w, q) = split(2, (high // size, size)), split(3, (wide // size, size))
        return b.view(value, [value.dims[0], (*p, *q, *value.dims[1]), h, w])
    rest = channels // (size * size)
    if call.get("mode", "DCR") == "DCR":
        p, q, c = split(1, (size, size, rest))
    else:
        c, p, q = split(1, (rest, size, size))
    return b.view(value, [value.dims[0], c, (*value.dims[2], *p), (*value.dims[3], *q)])


@rule("Col2Im")
def _fold(b: ProgramBuilder, call: AtenCall) -> ArrayValue:
    value, sizes, block = operands(call, 3)
    lengths, width = integers_of(sizes, "the lengths of Col2Im"), integers_of(block, "the window of Col2Im")
    ends = call.get("pads") or [0] * 4
    if len(lengths) != 2 or ends[:2] != ends[2:]:
        raise Unsupported("Col2Im of other than two dimensions, or with more before than after")
    return aten(  # type: ignore[no-any-return]
        b, "col2im", self=as_array(b, value), output_size=lengths, kernel_size=width, padding=ends[:2],
        stride=call.get("strides") or [1, 1], dilation=call.get("dilations") or [1, 1],
    )  # fmt: skip
