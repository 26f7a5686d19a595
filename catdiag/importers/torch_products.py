"""What PyTorch's products mean in named axes: matmul, einsum, linear, attention, convolutions, pooling."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from catdiag.frontend import builder as frontend
from catdiag.frontend import elementwise
from catdiag.importers.dimensions import AxisFactor, Dimension, Extent, extent_of
from catdiag.importers.imported_values import ArrayValue, Environment
from catdiag.importers.program_builder import ProgramBuilder
from catdiag.importers.size_roots import recognized_number
from catdiag.importers.torch_calls import AtenCall, Rule, Unsupported, adding, place
from catdiag.importers.torch_reductions import softmax_over
from catdiag.importers.torch_resampling import transposed

RULES: dict[str, Rule] = {}
rule = adding(RULES)


def _letters(value: ArrayValue, last: str, batch: int) -> list[str]:
    """Letters of a value's dimensions: `last` for the last ones, those of a batch for the others, from the right."""
    leading = len(value.dims) - len(last)
    return [f"batch{batch - leading + k}" for k in range(leading)] + list(last)


def _product(b: ProgramBuilder, left: ArrayValue, right: ArrayValue, one: str, other: str, output: str) -> ArrayValue:
    """An einsum over the last dimensions of two values, with the leading ones broadcast."""
    batch = max(len(left.dims) - len(one), len(right.dims) - len(other))
    result = [f"batch{k}" for k in range(batch)] + list(output)
    return b.einsum([left, right], [_letters(left, one, batch), _letters(right, other, batch)], result)


@rule("matmul", "mm", "bmm", "mv", "dot")
def _matmul(b: ProgramBuilder, call: AtenCall) -> ArrayValue:
    left = call["self"]
    right = next(call[n] for n in ("other", "mat2", "vec", "tensor") if call.get(n) is not None)
    one = "k" if len(left.dims) == 1 else "mk"
    other = "k" if len(right.dims) == 1 else "kn"
    return _product(b, left, right, one, other, one[:-1] + other[1:])


@rule("linear")
def _linear(b: ProgramBuilder, call: AtenCall) -> ArrayValue:
    features = len(call["weight"].dims) - 1  # a weight may be a vector
    made = _product(b, call["input"], call["weight"], "k", "n" * features + "k", "n" * features)
    return _plus(b, made, call.get("bias"))


def _plus(b: ProgramBuilder, made: ArrayValue, bias: ArrayValue | None) -> ArrayValue:
    return made if bias is None else b.pointwise([made, bias], lambda a, c: a + c)


@rule("addmm", "baddbmm", "addbmm", "addmv")
def _addmm(b: ProgramBuilder, call: AtenCall) -> ArrayValue:
    names = {"addmm": ("mat1", "mat2"), "addmv": ("mat", "vec")}
    left, right = (call[n] for n in names.get(call.name, ("batch1", "batch2")))
    alpha, beta = call.get("alpha", 1), call.get("beta", 1)
    if call.element == "int" and (alpha % 1 or beta % 1):
        raise Unsupported(f"{call.name} of integers with a part of one")
    columns = "n" * (call.name != "addmv")
    if call.name == "addbmm":
        made = b.einsum([left, right], ["bmk", "bkn"], "mn")
    else:
        made = _product(b, left, right, "mk", "k" + columns, "m" + columns)
    factor = recognized_number(b, made, alpha)
    scaled = made if alpha == 1 else b.pointwise([made, factor], lambda a, n: a * n)
    return b.pointwise([call["self"], scaled], lambda c, a: (c if beta == 1 else c * beta) + a)


@rule("outer")
def _outer(b: ProgramBuilder, call: AtenCall) -> ArrayValue:
    return b.einsum([call["self"], call["vec2"]], ["m", "n"], "mn")


@rule("einsum")
def _einsum(b: ProgramBuilder, call: AtenCall) -> ArrayValue:
    equation, values = call["equation"].replace(" ", ""), list(call["tensors"])
    left, arrow, right = equation.partition("->")
    words = left.split(",")
    counts = [len(v.dims) - len(w.replace("...", "")) for w, v in zip(words, values, strict=True)]
    rank = max((n for w, n in zip(words, counts, strict=True) if "..." in w), default=0)

    def spelled(word: str, count: int) -> list[str]:
        before, dots, after = word.partition("...")
        return [*before, *([f"batch{rank - count + k}" for k in range(count)] if dots else []), *after]

    letters = [spelled(w, n) for w, n in zip(words, counts, strict=True)]
    flat = [letter for word in letters for letter in word]
    if arrow:
        output = spelled(right, rank)
    else:
        output = [f"batch{k}" for k in range(rank)] + sorted({c for c in flat if flat.count(c) == 1 and len(c) == 1})
    for k, word in enumerate(letters):
        while (repeated := next((c for c in word if word.count(c) > 1), None)) is not None:
            one, other = [place for place, c in enumerate(word) if c == repeated][:2]
            values[k] = b.diagonal(values[k], one, other)
            del word[other]
    for word, value in zip(letters, values, strict=True):
        for letter, dim in zip(word, value.dims, strict=True):
            for factor in b.factors.resolve(dim):
                factor.hint = factor.hint or (letter if len(letter) == 1 else "")
    return b.einsum(values, letters, output)


@rule("scaled_dot_product_attention")
def _attention(b: ProgramBuilder, call: AtenCall) -> ArrayValue:
    query, key, value = call["query"], call["key"], call["value"]
    if call.get("dropout_p", 0.0):
        raise Unsupported("dropout in attention: call module.eval() first, or write it with a seed, by cd.dropout")
    heads, mask = len(query.dims) - 3, call.get("attn_mask")
    if call.get("enable_gqa") and b.length(query.dims[heads]) != b.length(key.dims[heads]):
        query, key, value, mask = _grouped(b, query, key, value, mask)
    for array in (query, key):
        for factor in b.factors.resolve(array.dims[-1]):
            factor.hint = factor.hint or "d"
    scores = _product(b, query, key, "qd", "kd", "qk")
    scale = call.get("scale")
    depth = scores.contracted
    if scale is None:
        scores = _scaled(b, scores, depth)
    else:
        scores = b.pointwise([scores, recognized_number(b, scores, scale)], lambda a, s: a * s)
    if mask is not None and mask.element == "bool":
        scores = b.pointwise([mask, scores], lambda m, a: elementwise.where(m, a, -math.inf), "extended")
    elif mask is not None:
        scores = b.pointwise([scores, mask], lambda a, m: a + m)
    if call.get("is_causal"):
        scores = _causal(b, scores)
    rows = list(b.factors.resolve(scores.dims[-1]))
    full = b.materialized(scores, [scores.dims[-1]])
    weights = b.emit(full.dims, full.axes, lambda env: softmax_over(env[full], env.of(rows)))
    made = _product(b, weights, value, "qk", "kd", "qd")
    if mask is not None and mask.element in ("bool", "extended") and mask.number is None:
        b.notes.append(
            f"rows of scaled_dot_product_attention that are masked whole, which PyTorch gives as 0, have no value "
            f"({b.line or 'no line'})"
        )
    if len(query.dims) - 3 != heads:
        made = b.view(made, [*made.dims[:heads], (*made.dims[heads], *made.dims[heads + 1]), *made.dims[heads + 2 :]])
    return made


def _grouped(
    b: ProgramBuilder, query: ArrayValue, key: ArrayValue, value: ArrayValue, mask: ArrayValue | None
) -> tuple[ArrayValue, ArrayValue, ArrayValue, ArrayValue | None]:
    """Grouped queries: heads of queries, and of a mask that has them, are (heads of keys, queries of a head)."""
    heads = len(query.dims) - 3
    count = b.length(key.dims[heads])

    def split(a: ArrayValue) -> ArrayValue:
        k = len(a.dims) - 3
        length = b.length(a.dims[k])
        return b.divided(a, k, [count, length // count] if length > 1 else [1, 1])

    key, value = (b.view(v, [*v.dims[: heads + 1], (), *v.dims[heads + 1 :]]) for v in (key, value))
    return split(query), key, value, mask if mask is None or len(mask.dims) < 3 else split(mask)


def _scaled(b: ProgramBuilder, scores: ArrayValue, depth: Dimension) -> ArrayValue:
    return b.emit(
        scores.dims, scores.axes, lambda env: env[scores] / elementwise.sqrt(env.size(depth)), contracted=depth
    )


def _causal(b: ProgramBuilder, scores: ArrayValue) -> ArrayValue:
    rows, columns = scores.dims[-2:]

    def make(env: Environment) -> Any:
        return elementwise.where(env.index(columns) <= env.index(rows), env[scores], -math.inf)

    return b.emit(scores.dims, (*scores.axes, *rows, *columns), make, "extended")


@rule("bilinear")
def _bilinear(b: ProgramBuilder, call: AtenCall) -> ArrayValue:
    left, right, weight, bias = call["input1"], call["input2"], call["weight"], call.get("bias")
    batch = [f"batch{k}" for k in range(len(left.dims) - 1)]
    made = b.einsum([left, weight, right], [[*batch, "i"], ["o", "i", "j"], [*batch, "j"]], [*batch, "o"])
    return made if bias is None else b.pointwise([made, bias], lambda a, c: a + c)


# -- windows ---------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Window:
    """How windows are taken: their dimension, the distance of two, elements before and after, and between taps. Beyond
    the ends is `fill`, or the last element again if it is None."""

    taps: Dimension
    stride: int
    pad: tuple[int, int]
    dilation: int
    fill: float | None


def windows(b: ProgramBuilder, value: ArrayValue, k: int, how: Window) -> ArrayValue:
    """Windows along dimension k: two dimensions in its place, where a window starts and what is in it."""
    window, stride, pad, dilation, fill = how.taps, how.stride, how.pad, how.dilation, how.fill
    width, length = b.length(window), b.length(value.dims[k])
    count = (length + pad[0] + pad[1] - dilation * (width - 1) - 1) // stride + 1
    if pad == (0, 0) and width == stride and dilation == 1 and length % width == 0:
        return b.aligned(b.divided(value, k, [count, width]), k + 1, window)
    if len(b.factors.resolve(value.dims[k])) > 1:
        value = b.joined_dimension(value, k)
    full = b.materialized(value, [value.dims[k]])
    (old,) = b.factors.resolve(full.dims[k])
    for factor in b.factors.resolve(window):
        b.factors.fix(factor.extent)
    place = _place_factor(b, old, count, sum(pad) - dilation * (width - 1), stride)
    if set(b.factors.resolve(window)) & set(b.factors.resolve(f for d in full.dims for f in d)):
        raise Unsupported("a window along an axis that the array has")
    axes = [*(f for f in b.factors.resolve(full.axes) if f is not old), place, *b.factors.resolve(window)]

    def make(env: Environment) -> Any:
        at = env.index([place]) * stride - pad[0] if stride != 1 or pad[0] else env.index([place])
        if b.factors.resolve(window):
            tap = env.index(window)
            at = at + (tap * dilation if dilation != 1 else tap)
        # The number of windows is the largest for which all of them are inside.
        last = env.size([old]) + pad[1]
        fits = (lambda *_: (at, last)) if extent_of(place.extent).free else None
        outside = fill if pad != (0, 0) else None
        if pad != (0, 0) and fill is None:
            inside = at
            fits = fits and (lambda *_: (inside, last))
            at = elementwise.clip(at, 0, env.size([old]) - 1)
        return env.read(env[full], [(old, at)], [place, *window], outside, fits)

    return b.emit([*full.dims[:k], (place,), window, *full.dims[k + 1 :]], axes, make, value.element)


def _place_factor(b: ProgramBuilder, old: AxisFactor, count: int, longer: int, stride: int) -> AxisFactor:
    """The axis of where windows start: as long as the array, longer by an integer, or of a size that follows."""
    if stride == 1 and longer == 0:
        return b.factors.copy(old)
    if stride == 1 and longer > 0:
        return b.factors.sum([old.extent, Extent(longer, fixed=True)], old.hint)
    extent = extent_of(old.extent)
    if stride == 1 and any(t.fixed and t.length == -longer for t in b.factors.terms(extent)):
        # Of an array that was padded before: the windows are as many as its elements were.
        kept = b.factors.rest(extent, [Extent(-longer, fixed=True)])
        if kept is not None:
            return b.factors.new(count, old.hint, kept)
    return b.factors.new(count, old.hint, Extent(count, fixed=extent.fixed, free=True))


def _list(value: Any, count: int) -> list[int]:
    found = list(value) if isinstance(value, (list, tuple)) else [value]
    return [int(v) for v in (found * count if len(found) == 1 else found)]


def _correlated(b: ProgramBuilder, call: AtenCall, value: ArrayValue, weight: ArrayValue, groups: int) -> ArrayValue:
    rank = len(weight.dims) - 2
    stride, dilation = _list(call["stride"], rank), _list(call["dilation"], rank)
    pads = _pads(call["padding"], b, weight, dilation, rank)
    value = b.divided(value, 1, [groups, b.length(value.dims[1]) // groups])
    weight = b.divided(weight, 0, [groups, b.length(weight.dims[0]) // groups])
    for k in range(rank):
        value = windows(b, value, 3 + 2 * k, Window(weight.dims[3 + k], stride[k], pads[k], dilation[k], 0.0))
    places = [f"y{k}" for k in range(rank)]
    taps = [f"k{k}" for k in range(rank)]
    window = [letter for pair in zip(places, taps, strict=True) for letter in pair]
    made = b.einsum([value, weight], [["b", "g", "c", *window], ["g", "o", "c", *taps]], ["b", "g", "o", *places])
    return b.view(made, [made.dims[0], (*made.dims[1], *made.dims[2]), *made.dims[3:]])


@rule("conv1d", "conv2d", "conv3d", "convolution", "_convolution")
def _convolution(b: ProgramBuilder, call: AtenCall) -> ArrayValue:
    value, weight, groups = call["input"], call["weight"], call.get("groups", 1)
    rank = len(weight.dims) - 2
    batched = len(value.dims) == rank + 2
    if not batched:
        value = b.view(value, [(), *value.dims])
    made = (transposed if call.get("transposed") else _correlated)(b, call, value, weight, groups)
    bias = call.get("bias")
    if bias is not None:
        made = b.pointwise([made, b.view(bias, [bias.dims[0], *[()] * rank])], lambda a, c: a + c)
    return made if batched else b.view(made, made.dims[1:])


def _pads(
    padding: Any, b: ProgramBuilder, weight: ArrayValue, dilation: Sequence[int], rank: int
) -> list[tuple[int, int]]:
    if padding == "valid":
        return [(0, 0)] * rank
    if padding == "same":
        total = [dilation[k] * (b.length(weight.dims[2 + k]) - 1) for k in range(rank)]
        return [(n // 2, n - n // 2) for n in total]
    ends = padding if isinstance(padding, (list, tuple)) else [padding]
    if all(isinstance(n, tuple) for n in ends):  # before and after
        return [(int(low), int(high)) for low, high in ends]
    return [(n, n) for n in _list(padding, rank)]


@rule("im2col")
def _unfold(b: ProgramBuilder, call: AtenCall) -> ArrayValue:
    value = call["self"]
    batched = len(value.dims) == 4
    if not batched:
        value = b.view(value, [(), *value.dims])
    width, stride, pads, dilation = (_list(call[n], 2) for n in ("kernel_size", "stride", "padding", "dilation"))
    for k in range(2):
        taps: Dimension = (b.factors.new(width[k], fixed=True),) if width[k] > 1 else ()
        value = windows(b, value, 2 + 2 * k, Window(taps, stride[k], (pads[k], pads[k]), dilation[k], 0.0))
    batch, channels, rows, high, columns, wide = value.dims
    made = b.view(value, [batch, (*channels, *high, *wide), (*rows, *columns)])
    return made if batched else b.view(made, made.dims[1:])


@rule("unfold")
def _sliding(b: ProgramBuilder, call: AtenCall) -> ArrayValue:
    value, width = call["self"], call["size"]
    k = place(value, call["dimension"])
    taps: Dimension = (b.factors.new(width, fixed=True),) if width > 1 else ()
    seen = windows(b, value, k, Window(taps, call["step"], (0, 0), 1, 0.0))
    return b.view(seen, [*seen.dims[: k + 1], *seen.dims[k + 2 :], seen.dims[k + 1]])


@rule("max_pool1d", "max_pool2d", "max_pool3d", "avg_pool1d", "avg_pool2d", "avg_pool3d")
def _pool(b: ProgramBuilder, call: AtenCall) -> ArrayValue:
    rank, mean = int(call.name[-2]), call.name.startswith("avg")
    value: ArrayValue = call["self"]
    width = _list(call["kernel_size"], rank)
    stride, dilation = _list(call.get("stride") or width, rank), _list(call.get("dilation", 1), rank)
    first, divisor = len(value.dims) - rank, call.get("divisor_override")
    pads = _pads(call.get("padding", 0), b, value, dilation, rank)
    ends = pads
    if call.get("ceil_mode"):
        ends = [
            _pads_with_last(b, value.dims[first + k], width[k], stride[k], pads[k], dilation[k]) for k in range(rank)
        ]
    padded = any(n for pair in ends for n in pair)
    if padded and any(n != 1 for n in dilation):
        raise Unsupported("pooling with padding and dilation, or with ceil_mode and dilation")
    included = call.get("count_include_pad", True) or not any(n for pair in pads for n in pair)
    if mean and not divisor and ends != pads and included and any(n for pair in pads for n in pair):
        raise Unsupported("a mean over windows with padding and ceil_mode")
    counted = mean and not divisor and padded and (ends != pads or not included)
    counts: list[ArrayValue] = []
    for k in range(rank):
        taps: Dimension = (b.factors.new(width[k], fixed=True),) if width[k] > 1 else ()
        # Beyond an end a maximum reads the last element again: it is in the window already.
        how = Window(taps, stride[k], ends[k], dilation[k], 0.0 if mean else None)
        old = value.dims[first + 2 * k]
        value = windows(b, value, first + 2 * k, how)
        if counted:
            counts.append(_counts(b, old, how, value.dims[first + 2 * k]))
    places = [first + 2 * k + 1 for k in range(rank)]
    if not (counted or divisor):
        return b.reduced(value, places, False, frontend.mean if mean else frontend.max)
    total = b.reduced(value, places, False, frontend.sum)
    if divisor:
        return b.pointwise([total], lambda a: a / divisor)
    lined = [b.view(c, [c.dims[0] if j == k else () for j in range(rank)]) for k, c in enumerate(counts)]
    return b.pointwise([total, *lined], lambda a, *n: a / math.prod(n[1:], start=n[0]))


def _pads_with_last(
    b: ProgramBuilder, dim: Dimension, width: int, stride: int, pad: tuple[int, int], dilation: int
) -> tuple[int, int]:
    """Elements before and after with which the last window is there that `ceil_mode` adds, if it starts inside."""
    length, reach = b.length(dim), dilation * (width - 1) + 1
    count = -(-(length + sum(pad) - reach) // stride) + 1
    count -= (count - 1) * stride >= length + pad[0]
    if (stride > 1 and (width, pad, dilation) != (stride, (0, 0), 1)) or length % stride:
        if b.is_traced(dim):
            raise Unsupported("ceil_mode over a length that the trace computes")
        b.notes.append(f"ceil_mode: windows are those of the length {length}, which is fixed{b.at}")
        for factor in b.factors.resolve(dim):
            b.factors.fix(factor.extent)
    return pad[0], max((count - 1) * stride + reach - length - pad[0], pad[1])


def _counts(b: ProgramBuilder, old: Dimension, how: Window, places: Dimension) -> ArrayValue:
    """How many elements of a dimension each window has, by where it starts."""
    ones = b.emit([old], old, lambda env: elementwise.where(env.index(old) >= 0, 1.0, 0.0))
    taps = tuple(b.factors.copy(f) for f in how.taps)
    seen = windows(b, ones, 0, Window(taps, how.stride, how.pad, how.dilation, 0.0))
    return b.aligned(b.reduced(seen, [1], False, frontend.sum), 0, places)
