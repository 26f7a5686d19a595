"""What resampling in PyTorch means in named axes: interpolation, padding, transposed convolutions, windows added up.

A position of the result reads the source at a position that index arithmetic gives. Where the result is a whole number
of times as long as the source, that holds at all lengths.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from catdiag.frontend import builder as frontend
from catdiag.frontend import elementwise
from catdiag.importers.dimensions import AxisFactor, Dimension, Extent, TracedLength
from catdiag.importers.imported_values import ArrayValue, Environment
from catdiag.importers.program_builder import ProgramBuilder
from catdiag.importers.torch_calls import AtenCall, Rule, Unsupported, adding
from catdiag.importers.torch_shapes import given_length

RULES: dict[str, Rule] = {}
rule = adding(RULES)


def _one_axis(b: ProgramBuilder, value: ArrayValue, k: int) -> tuple[ArrayValue, AxisFactor]:
    """A value whose dimension k is one axis that it has, and the axis."""
    if not b.factors.resolve(value.dims[k]):
        one = b.factors.new(1, fixed=True)
        value = b.view(value, [*value.dims[:k], (one,), *value.dims[k + 1 :]])
    elif len(b.factors.resolve(value.dims[k])) > 1:
        value = b.joined_dimension(value, k)
    value = b.materialized(value, [value.dims[k]])
    return value, b.factors.resolve(value.dims[k])[0]


def _times(b: ProgramBuilder, old: AxisFactor, length: int, times: int) -> Dimension:
    """The dimension of a result: `times` as long as an axis if it is so in the example, else of a fixed length."""
    if old.length * times == length and times:
        return (b.factors.copy(old), *b.factors.dimension(times))
    if b.is_traced((old,)):
        raise Unsupported("a length that the trace computes, and that is no whole number of times another one")
    b.notes.append(f"{old.length} elements are read at {length} positions: lengths are fixed{b.at}")
    b.factors.fix(old.extent)
    return (b.factors.new(length, old.hint, fixed=True),)


def _scales(b: ProgramBuilder, call: AtenCall, first: int) -> list[float | None]:
    """The scales that a call gives, a dimension each; None where it gives lengths."""
    rank = len(call.shape) - first
    given = call.get("scale_factors")
    if given is None:
        names = ("scales_d", "scales_h", "scales_w")[3 - rank :] if rank > 1 else ("scales",)
        given = [call.get(n) for n in names]
    return list(given)


def _says_times(b: ProgramBuilder, dim: Dimension, wanted: int, scale: float | None) -> None:
    """Notes where a length that is given is read as a whole number of times another one."""
    length = b.length(dim)
    if scale is None and wanted % length == 0:
        if b.is_traced(dim):
            raise Unsupported("interpolation of a length that the trace computes to one that is given: give a scale")
        times = wanted // length
        b.notes.append(f"interpolation of {length} to {wanted} is read as {times} times as long{b.at}")


@rule("upsample_nearest1d", "upsample_nearest2d", "upsample_nearest3d")
def _nearest(b: ProgramBuilder, call: AtenCall) -> ArrayValue:
    value: ArrayValue = call.get("input", call.get("self"))
    for k, scale in enumerate(_scales(b, call, 2), 2):
        length, wanted = b.length(value.dims[k]), call.shape[k]
        if wanted == length:
            continue
        _says_times(b, value.dims[k], wanted, scale)
        if wanted % length == 0 and scale in (None, wanted // length):
            repeated = b.factors.new(wanted // length, fixed=True)
            value = b.view(value, [*value.dims[:k], (*value.dims[k], repeated), *value.dims[k + 1 :]])
            continue
        at = [i * length // wanted for i in range(wanted)]
        if scale and at != [min(int(i / scale), length - 1) for i in range(wanted)]:
            raise Unsupported(f"nearest interpolation by {scale} to a length that is not as many times as long")
        value = _read_at(b, value, k, wanted, 0, lambda env, i, n, made=wanted: i * n // made)
    return value


def _read_at(
    b: ProgramBuilder, value: ArrayValue, k: int, wanted: int, times: int, position: Callable[..., Any]
) -> ArrayValue:
    """A value whose dimension k is read at a function of the position in the result and of its length."""
    full, old = _one_axis(b, value, k)
    new = _times(b, old, wanted, times)
    axes = [g for f in b.factors.resolve(full.axes) for g in (new if f is old else (f,))]

    def make(env: Environment) -> Any:
        return env.read(env[full], [(old, position(env, env.index(new), env.size([old])))], new)

    return b.emit([*full.dims[:k], new, *full.dims[k + 1 :]], axes, make, full.element)


@rule("upsample_linear1d", "upsample_bilinear2d", "upsample_trilinear3d", "upsample_bicubic2d")
def _linear(b: ProgramBuilder, call: AtenCall) -> ArrayValue:
    value: ArrayValue = call.get("input", call.get("self"))
    if list(call.shape) == b.shape(value):
        return value
    if call.name == "upsample_bicubic2d":
        raise Unsupported("bicubic interpolation to another size")
    for k, scale in enumerate(_scales(b, call, 2), 2):
        length, wanted = b.length(value.dims[k]), call.shape[k]
        if wanted != length:
            _says_times(b, value.dims[k], wanted, scale)
            value = _interpolated(b, value, k, wanted, scale, bool(call["align_corners"]))
    return value


def _interpolated(
    b: ProgramBuilder, value: ArrayValue, k: int, wanted: int, scale: float | None, corners: bool
) -> ArrayValue:
    """Linear interpolation along dimension k. A position of the result is at `number / divisor` of the source, from
    its first element on; beyond an end is the element there."""
    full, old = _one_axis(b, value, k)
    length = old.length
    if not corners and scale is not None and abs(scale * length - wanted) > 1e-9:
        raise Unsupported(f"linear interpolation by {scale} to a length that is not as many times as long")
    times = 0 if corners or wanted % length else wanted // length
    new = _times(b, old, wanted, times)
    axes = [g for f in b.factors.resolve(full.axes) for g in (new if f is old else (f,))]
    if corners:
        step, shift, divisor = length - 1, 0, max(wanted - 1, 1)
    elif times:
        step, shift, divisor = 2, 1 - times, 2 * times
    else:
        step, shift, divisor = 2 * length, length - wanted, 2 * wanted

    def make(env: Environment) -> Any:
        last = env.size([old]) - 1
        number = env.index(new) * step + shift
        number = elementwise.maximum(number, 0) if shift < 0 else number
        below = elementwise.minimum(number // divisor, last)
        above = elementwise.minimum(below + 1, last)
        part = (number - below * divisor) / divisor
        low, high = (env.read(env[full], [(old, at)], new) for at in (below, above))
        return low * (1 - part) + high * part

    return b.emit([*full.dims[:k], new, *full.dims[k + 1 :]], axes, make)


# -- beyond the ends -------------------------------------------------------------------------------------


@rule("adaptive_avg_pool1d")
def _adaptive_mean(b: ProgramBuilder, call: AtenCall) -> ArrayValue:
    """Means of as many windows as are asked for, each from a part of the length rounded down to one rounded up."""
    value, count = call["self"], call["output_size"][0]
    last, length = len(value.dims) - 1, b.length(value.dims[-1])
    if length % count == 0:
        return b.reduced(b.divided(value, last, [count, length // count]), [last + 1], False, frontend.mean)
    if b.is_traced(value.dims[-1]):
        raise Unsupported("means of windows of unlike lengths, at a traced length")
    windows = [(k * length // count, -(-(k + 1) * length // count)) for k in range(count)]
    parts = (b.part(value, last, start, end - start) for start, end in windows)
    return b.stacked([b.reduced(part, [last], False, frontend.mean) for part in parts], last)


@rule("constant_pad_nd", "pad")
def _pad(b: ProgramBuilder, call: AtenCall) -> ArrayValue:
    mode = call.get("mode", "constant")
    value: ArrayValue = call["self"]
    ends, fill = list(call["pad"]), call.get("value") or 0
    for back in range(len(ends) // 2):
        k = len(value.dims) - 1 - back
        low, high = given_length(ends[2 * back]), given_length(ends[2 * back + 1])
        if min(low, high) < 0 and any(isinstance(n, TracedLength) for n in (low, high)):
            raise Unsupported("padding by fewer elements than none, computed from sizes")
        if min(low, high) < 0:
            length = b.length(value.dims[k])
            value = b.part(value, k, max(-low, 0), length - max(-low, 0) - max(-high, 0))
            low, high = max(low, 0), max(high, 0)
        if low or high:
            value = _padded(b, value, k, low, high, fill, mode)
    return value


_INSIDE: dict[str, Callable[[Any, Any], Any]] = {
    "replicate": lambda at, size: elementwise.clip(at, 0, size - 1),
    "circular": lambda at, size: (at + size) % size,
    "reflect": lambda at, size: size - 1 - elementwise.abs(size - 1 - elementwise.abs(at)),
}
"""The position within an axis that one beyond its ends is read at, by the mode of padding."""


def _padded(b: ProgramBuilder, value: ArrayValue, k: int, low: int, high: int, fill: float, mode: str) -> ArrayValue:
    full, old = _one_axis(b, value, k)
    ends = [b.factors.new(n, fixed=True) for n in (low, high)]
    terms = [e.extent for n, e in ((low, ends[0]), (1, old), (high, ends[1])) if n]
    whole = b.factors.sum(terms, old.hint)
    axes = [whole if f is old else f for f in b.factors.resolve(full.axes)]

    def make(env: Environment) -> Any:
        before = env.size([ends[0]]) if isinstance(low, TracedLength) else low
        at = env.index([whole]) - before if low else env.index([whole])
        if mode != "constant":
            return env.read(env[full], [(old, _INSIDE[mode](at, env.size([old])))], [whole])
        return env.read(env[full], [(old, at)], [whole], fill)

    return b.emit([*full.dims[:k], (whole,), *full.dims[k + 1 :]], axes, make, value.element)


# -- from windows to what they are windows of -------------------------------------------------------------


@dataclass(frozen=True)
class Spread:
    """How elements are spread over windows that add up: the windows' dimension, the distance of two, what is cut off
    before, the distance of taps, and the length of the result."""

    taps: Dimension
    stride: int
    pad: int
    dilation: int
    length: int


def spread(b: ProgramBuilder, value: ArrayValue, k: int, how: Spread, own: int | None = None) -> ArrayValue:
    """The element along dimension k that a position of the result has at each tap of a window, 0 if none: two
    dimensions in its place, of positions and of taps. With `own`, the value has the dimension of taps there already,
    and is read at the same tap; it is gone from there."""
    full, old = _one_axis(b, value, k)
    taps, place = how.taps, _spread_places(b, old, how)
    if own is not None:
        full = b.materialized(full, [full.dims[own]])
        taps = tuple(b.factors.copy(f) for f in b.factors.resolve(full.dims[own]))
    kept = [f for f in b.factors.resolve(full.axes) if f is not old]
    gone = () if own is None else b.factors.resolve(full.dims[own])
    axes = [*(f for f in kept if f not in gone), *place, *b.factors.resolve(taps)]

    def make(env: Environment) -> Any:
        at = env.index(place) + how.pad if how.pad else env.index(place)
        if b.factors.resolve(taps):
            tap = env.index(taps)
            at = at - (tap * how.dilation if how.dilation != 1 else tap)
        pairs = [(f, env.index([g])) for f, g in zip(gone, b.factors.resolve(taps), strict=True)] if gone else []
        if how.stride == 1:
            return env.read(env[full], [(old, at), *pairs], [*place, *taps], 0)
        read = env.read(env[full], [(old, at // how.stride), *pairs], [*place, *taps], 0)
        return elementwise.where(at % how.stride == 0, read, 0)

    dims = [*full.dims[:k], place, taps, *full.dims[k + 1 :]]
    if own is not None:
        del dims[own if own < k else own + 1]
    return b.emit(dims, axes, make, full.element)


def _spread_places(b: ProgramBuilder, old: AxisFactor, how: Spread) -> Dimension:
    """The positions of the result, as many times as long as the axis where it is so, or longer by a number."""
    longer = how.length - old.length
    if how.stride == 1 and longer > 0:
        return (b.factors.sum([old.extent, Extent(longer, fixed=True)], old.hint),)
    return _times(b, old, how.length, how.stride)


def transposed(b: ProgramBuilder, call: AtenCall, value: ArrayValue, weight: ArrayValue, groups: int) -> ArrayValue:
    """A transposed convolution of `value` [batch, channels, …] with `weight` [channels, outputs, …]."""
    rank = len(weight.dims) - 2
    stride, pad, dilation, extra = (
        _integers(call.get(n, d), rank)
        for n, d in (("stride", 1), ("padding", 0), ("dilation", 1), ("output_padding", 0))
    )
    value = b.divided(value, 1, [groups, b.length(value.dims[1]) // groups])
    weight = b.divided(weight, 0, [groups, b.length(weight.dims[0]) // groups])
    places, taps, letters = [f"y{k}" for k in range(rank)], [f"k{k}" for k in range(rank)], ["b", "g", "c"]
    output: list[list[str]] = []
    at = 3
    for k in range(rank):
        width, window = b.length(weight.dims[3 + k]), weight.dims[3 + k]
        length = (b.length(value.dims[at]) - 1) * stride[k] - 2 * pad[k] + dilation[k] * (width - 1) + extra[k] + 1
        if width == stride[k] and not (pad[k] or extra[k]) and dilation[k] == 1:  # windows side by side
            letters.append(places[k])
            output.append([places[k], taps[k]])
            at += 1
            continue
        value = spread(b, value, at, Spread(window, stride[k], pad[k], dilation[k], length))
        letters += [places[k], taps[k]]
        output.append([places[k]])
        at += 2
    flat = [letter for dim in output for letter in dim]
    made = b.einsum([value, weight], [letters, ["g", "c", "o", *taps]], ["b", "g", "o", *flat])
    dims = iter(made.dims[3:])
    merged = [tuple(f for _ in dim for f in next(dims)) for dim in output]
    return b.view(made, [made.dims[0], (*made.dims[1], *made.dims[2]), *merged])


def _integers(value: Any, count: int) -> list[int]:
    found = list(value) if isinstance(value, Sequence) else [value]
    return [int(v) for v in (found * count if len(found) == 1 else found)]


@rule("col2im")
def _fold(b: ProgramBuilder, call: AtenCall) -> ArrayValue:
    value: ArrayValue = call["self"]
    batched = len(value.dims) == 3
    if not batched:
        value = b.view(value, [(), *value.dims])
    lengths, widths, strides, pads, dilations = (
        _integers(call[n], 2) for n in ("output_size", "kernel_size", "stride", "padding", "dilation")
    )
    counts = [(lengths[k] + 2 * pads[k] - dilations[k] * (widths[k] - 1) - 1) // strides[k] + 1 for k in range(2)]
    channels = b.length(value.dims[1]) // (widths[0] * widths[1])
    parts = b.factors.regroup(value.dims[1], [channels, *widths])
    for taps in parts[1:]:
        for factor in b.factors.resolve(taps):
            b.factors.fix(factor.extent)
    value = b.view(value, [value.dims[0], *parts, *b.factors.regroup(value.dims[2], counts)])
    for own, at in ((3, 5), (2, 3)):  # of batch, channels, two of taps, two of windows: the last ones first
        k = own - 2
        if widths[k] == strides[k] and not pads[k] and dilations[k] == 1 and lengths[k] == widths[k] * counts[k]:
            joined = (*value.dims[at], *value.dims[own])
            value = b.view(value, [joined if j == at else d for j, d in enumerate(value.dims) if j != own])
            continue
        value = spread(b, value, at, Spread((), strides[k], pads[k], dilations[k], lengths[k]), own)
        value = b.reduced(value, [at], False, frontend.sum)  # over taps, which stand behind the positions
    return value if batched else b.view(value, value.dims[1:])
