"""Adversarial sizes and arrays, at which kernels go wrong, from a random generator.

Sizes: 1, primes, one more and one less than a block and its multiples, different sizes on different axes, one axis long
at a time. Arrays: standard normal ones, and those of `ARRAY_KINDS`, each of which exposes some mistake.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

import numpy as np

from catdiag.category.diagram import Diagram
from catdiag.category.index_maps import leaves
from catdiag.category.op_facts import reduced_axes
from catdiag.category.ops import Index, View, bodies
from catdiag.category.traversal import all_boxes
from catdiag.category.types import ArrayType, Size, size_symbols, size_value, symbols_in_order
from catdiag.testing.float_formats import Format, carrier, rounded
from catdiag.util.errors import SizeError

Rng = np.random.Generator
_WORK = 1 << 18
"""The product of all sizes stays below this, where sizes are not given."""
_BLOCK_COUNTS = (1024, 4096)
"""Occasional lengths of a summed axis, taken in turn: for accumulated errors, and for faults at long axes only."""
_LONG = 300
_BLOCKS = (64, 128, 32, 128, 64, 16, 256, 512)
"""Common block lengths of kernels."""
_SMALL = (1, 2, 3, 4, 5, 7)
_WIDE = (2, 3, 5, 9, 17, 33, 65, 129, 257, 8, 16, 64, 128, 1025, 7, 13, 31, 37, 63, 32, 100, 127, 513)


# -- sizes -------------------------------------------------------------------------------------------


def symbols_of(diagram: Diagram) -> list[str]:
    """The symbols of the sizes of a diagram's inputs, in order of occurrence."""
    found: dict[str, None] = {}
    for ty in diagram.dom:
        for axis in ty.axes:
            found.update(dict.fromkeys(symbols_in_order(axis.size)))
    return list(found)


def checked_sizes(symbols: Sequence[str], what: str, given: Mapping[str, Any]) -> dict[str, tuple[int, ...]]:
    """The given sizes after checking: each a number, or several to draw from.

    >>> checked_sizes(["q", "x"], "sizes", {"x": 3, "q": range(2, 4)})
    {'x': (3,), 'q': (2, 3)}

    Raises SizeError for an unknown symbol, and for anything but positive integers.
    """
    found: dict[str, tuple[int, ...]] = {}
    for symbol, value in given.items():
        if symbol not in symbols:
            raise SizeError(f"{what} names {symbol!r}: the inputs have {', '.join(symbols) or 'no sizes'}")
        several = (value,) if isinstance(value, int) or hasattr(value, "__index__") else tuple(value)
        for n in several:
            if isinstance(n, bool) or not hasattr(n, "__index__") or int(n) < 1:
                raise SizeError(f"{what} of {symbol} has {n!r}: expected positive integers")
        if not several:
            raise SizeError(f"{what} of {symbol} is empty: expected a positive integer, or several")
        found[symbol] = tuple(map(int, several))
    return found


def sizes_near_blocks(block: int) -> tuple[int, ...]:
    """Sizes near a block length and its multiples, the most revealing first.

    >>> sizes_near_blocks(8)
    (9, 7, 8, 17, 1, 15, 16, 2, 3, 11, 23, 24, 25)
    """
    prime = next(n for n in range(block + 2, 3 * block + 8) if all(n % k for k in range(2, n)))
    found = [block + 1, block - 1, block, 2 * block + 1, 1, 2 * block - 1, 2 * block, 2, 3, prime]
    found += [3 * block - 1, 3 * block, 3 * block + 1]
    return tuple(dict.fromkeys(n for n in found if n >= 1))


def summed(diagram: Diagram) -> set[str]:
    """The symbols of sizes of axes that are reduced in the program, even if an output has them.

    >>> import catdiag as cd
    >>> summed(cd.library.get("matmul")), summed(cd.library.get("softmax"))
    ({'b'}, {'x'})
    """
    left = {s for ty in diagram.cod for a in ty.axes for s in size_symbols(a.size)}
    found = set(symbols_of(diagram)) - left
    for box in all_boxes(diagram):
        found |= {s for axis in reduced_axes(box) for s in size_symbols(box.size_of(axis))}
    return found & set(symbols_of(diagram))


def _many_blocks(block: int, cycle: int) -> int:
    """A length of many blocks plus one."""
    return max(16, _BLOCK_COUNTS[cycle % len(_BLOCK_COUNTS)] // block) * block + 1


def sizes_at(
    number: int,
    symbols: Sequence[str],
    rng: Rng,
    given: Mapping[str, tuple[int, ...]],
    blocks: Mapping[str, int],
    reduced: Collection[str] = (),
    met: Collection[str] = (),
    again: int = 0,
) -> dict[str, int]:
    """The sizes of trial `number`: the first two are 1 and 2 everywhere, then each axis is the long one in cycle.

    A `reduced` axis is occasionally very long. Every third trial the axes `met` are long together: faults under a mask
    may need late keys and late queries. Where the diagram is not defined at the sizes drawn before, `again` counts up,
    and another axis gets about the same length.
    """
    work = _WORK
    free = [s for s in symbols if s not in given]
    sizes = {s: int(rng.choice(given[s])) for s in symbols if s in given}
    if (number < 2 and not again) or not free:
        return {s: sizes.get(s, number + 1) for s in symbols}
    several = rng.permutation(_SMALL)  # different sizes on different axes, while they last
    for k, s in enumerate(free):
        sizes[s] = int(several[k % len(several)]) if rng.random() < 0.85 else int(rng.choice(_SMALL[:3]))
    cycle = max(number - 2, 0)
    pair = [s for s in met if s in free]
    if cycle % 3 == 2 and len(pair) > 1 and not again:
        return {s: sizes[s] for s in symbols} | _together(cycle // 3, pair, free, rng, blocks)
    cycle -= cycle // 3 if len(pair) > 1 else 0
    long = free[cycle % len(free)]
    also = [s for s in free if s != long and s in blocks and rng.random() < 0.4]
    for s in (long, *also):
        pool = sizes_near_blocks(blocks[s]) if s in blocks else _WIDE
        place = cycle // len(free) if s == long else int(rng.integers(len(pool)))
        before = sizes[s]
        many = s == long and s in reduced and place % 4 == 3
        sizes[s] = _many_blocks(blocks.get(s, 1), place // 4) if many else pool[place % len(pool)]
        if int(np.prod(list(sizes.values()), dtype=np.float64)) > work:
            for other in free:
                if other not in (long, *also):
                    sizes[other] = min(sizes[other], 2)
            if s != long and int(np.prod(list(sizes.values()), dtype=np.float64)) > work:
                sizes[s] = before
    if again and len(free) > 1:
        longer = str(rng.choice([s for s in free if s != long]))
        sizes[long] = min(sizes[long], 33)
        sizes[longer] = sizes[long] + int(rng.integers(0, 3))
    return {s: sizes[s] for s in symbols}


def _together(
    cycle: int, pair: Sequence[str], free: Sequence[str], rng: Rng, blocks: Mapping[str, int]
) -> dict[str, int]:
    """Sizes with some axes slightly longer than one or several blocks, of likely lengths, and the others short."""
    sizes = {s: int(rng.integers(1, 3)) for s in free}
    for s in pair:
        lengths = (blocks[s], 2 * blocks[s]) if s in blocks else _BLOCKS
        # All of the same length, or each drawn independently.
        place = cycle if cycle % 2 == 0 else int(rng.integers(len(lengths)))
        sizes[s] = lengths[place // 2 % len(lengths)] + int(rng.integers(1, 4))
    while int(np.prod(list(sizes.values()), dtype=np.float64)) > 4 * _WORK and max(sizes.values()) > 1:
        short = [s for s in free if s not in pair and sizes[s] > 1]
        largest = short[0] if short else max(pair, key=lambda s: sizes[s])
        sizes[largest] = sizes[largest] // 2
    return sizes


def positions_met(diagram: Diagram) -> tuple[str, ...]:
    """The symbols of sizes of axes whose positions are used together, as in a mask; empty unless there are two or more.

    >>> import catdiag as cd
    >>> positions_met(cd.library.get("causal_attention"))
    ('q', 'x')
    """
    found: dict[str, None] = {}
    for box in all_boxes(diagram):
        if isinstance(box.op, Index) and isinstance(box.cod[0].axes[0].size, str):
            found[box.cod[0].axes[0].size] = None
    met = tuple(s for s in symbols_of(diagram) if s in found)
    return met if len(met) > 1 else ()


# -- arrays --------------------------------------------------------------------------------------------


def _plain(rng: Rng, shape: tuple[int, ...], top: float) -> Any:
    return rng.normal(size=shape)


def _integers(rng: Rng, shape: tuple[int, ...], top: float) -> Any:
    """Ties, and sums without rounding."""
    return rng.integers(-2, 3, size=shape).astype(float)


def _large(rng: Rng, shape: tuple[int, ...], top: float) -> Any:
    """Large logits."""
    return top * rng.uniform(-1, 1, size=shape)


def _negative(rng: Rng, shape: tuple[int, ...], top: float) -> Any:
    return -rng.uniform(0.25, 1, size=shape) * rng.choice([1.0, 8.0, top])


def _positive(rng: Rng, shape: tuple[int, ...], top: float) -> Any:
    return rng.uniform(0.25, 1, size=shape) * rng.choice([1.0, 8.0, top])


def _rising(rng: Rng, shape: tuple[int, ...], top: float) -> Any:
    """Increasing along an axis: a running maximum changes with every block."""
    a = np.abs(rng.normal(size=shape)) + 0.1
    if not shape:
        return a
    axis = _axis(rng, shape)
    steps = np.arange(shape[axis]) * rng.choice([0.5, 2.0, top / max(1, shape[axis])])
    return a + steps.reshape([-1 if k == axis else 1 for k in range(len(shape))])


def _axis(rng: Rng, shape: tuple[int, ...]) -> int:
    """An axis, usually the longest."""
    return int(np.argmax(shape)) if rng.random() < 0.75 else int(rng.integers(len(shape)))


def _late(rng: Rng, shape: tuple[int, ...], top: float) -> Any:
    """Positive, with a few of the last positions far above the others: the maximum comes in the last block."""
    a = np.abs(rng.normal(size=shape)) + 0.1
    if shape:
        axis = _axis(rng, shape)
        most = (1, 16, shape[axis])[int(rng.integers(3))]
        count = int(rng.integers(1, 2 + min(shape[axis] // 3, most)))
        np.moveaxis(a, axis, 0)[-count:] *= rng.choice([2.0, 4.0, 8.0])
    return a


def _last(rng: Rng, shape: tuple[int, ...], top: float) -> Any:
    """Positive, with the largest value at the last position of the longest axis: a kernel that skips it is far off."""
    a = np.abs(rng.normal(size=shape)) + 0.1
    if shape:
        moved = np.moveaxis(a, int(np.argmax(shape)), 0)
        moved[-1] = rng.choice([1.5, 4.0]) * moved.max(0)
    return a


def _falling(rng: Rng, shape: tuple[int, ...], top: float) -> Any:
    return -_rising(rng, shape, top)


def _sorted(rng: Rng, shape: tuple[int, ...], top: float) -> Any:
    a = rng.normal(size=shape)
    return np.sort(a, axis=-1) if shape else a


def _permutation(rng: Rng, shape: tuple[int, ...], top: float) -> Any:
    """All values different, and exact where they are few."""
    count = int(np.prod(shape, dtype=np.int64))
    return rng.permutation(count).reshape(shape) % 2048 - (count % 2048) // 2 + 0.0


def _one_hot(rng: Rng, shape: tuple[int, ...], top: float) -> Any:
    a = np.zeros(shape)
    if not shape:
        return a + 1
    moved = a.reshape(-1, shape[-1])
    moved[np.arange(len(moved)), rng.integers(0, shape[-1], len(moved))] = rng.choice([1.0, top])
    return a


def _constant(rng: Rng, shape: tuple[int, ...], top: float) -> Any:
    return np.full(shape, rng.choice([1.0, -1.0, 0.1, 3.0, top]))


def _zeros(rng: Rng, shape: tuple[int, ...], top: float) -> Any:
    """Zeros of both signs, sometimes before other numbers."""
    a = np.where(rng.random(shape) < 0.5, 0.0, -0.0)
    if shape and rng.random() < 0.5:
        a[..., shape[-1] // 2 :] = rng.normal(size=shape)[..., shape[-1] // 2 :]
    return a


def _subnormal(rng: Rng, shape: tuple[int, ...], top: float) -> Any:
    """Numbers at the lower end of the range among standard normal ones; `top` identifies the format."""
    least = 2.0**-24 if top < 1000 else 2.0**-149
    return np.where(rng.random(shape) < 0.5, rng.integers(-3, 4, size=shape) * least, rng.normal(size=shape))


def _offset(rng: Rng, shape: tuple[int, ...], top: float) -> Any:
    """A mean that is large compared with the spread."""
    return rng.choice([16.0, top]) + rng.normal(size=shape)


def _first_far(rng: Rng, shape: tuple[int, ...], top: float) -> Any:
    """One element far above the others, which then do not contribute."""
    a = rng.normal(size=shape)
    if shape:
        axis = int(rng.integers(len(shape)))
        np.moveaxis(a, axis, 0)[(0, -1, int(rng.integers(shape[axis])))[int(rng.integers(3))]] += top
    return a


def _far_down(rng: Rng, shape: tuple[int, ...], top: float) -> Any:
    """All values far below zero and close to each other: a running maximum that starts at 0 stays above them."""
    return -_far_up(rng, shape, top)


def _far_up(rng: Rng, shape: tuple[int, ...], top: float) -> Any:
    """All values far above zero and close to each other, up to the largest of the format, which `top` identifies."""
    level = rng.choice([2e4, 6.5e4] if top < 1000 else [2e4, 6.5e4, 1e6, 1e8, 3e38])
    if rng.random() < 0.5:
        return level * (1 - 2.0**-10 * rng.integers(0, 3, size=shape))
    return level * rng.uniform(0.95, 1, size=shape)


def _above(rng: Rng, shape: tuple[int, ...], top: float) -> Any:
    """Integers near one number; their products with others of this kind are far above zero, and exact."""
    return float(rng.choice([120, 248, 248])) - rng.integers(0, rng.choice([1, 3]), size=shape)


def _below(rng: Rng, shape: tuple[int, ...], top: float) -> Any:
    """Integers near one number; their products with those of `_above` are far below zero, and exact."""
    return -_above(rng, shape, top)


ARRAY_KINDS: dict[str, Callable[[Rng, tuple[int, ...], float], Any]] = {
    "plain": _plain, "integers": _integers, "large": _large, "negative": _negative, "positive": _positive,
    "rising": _rising, "falling": _falling, "sorted": _sorted, "permutation": _permutation, "one-hot": _one_hot,
    "constant": _constant, "zeros": _zeros, "subnormal": _subnormal, "offset": _offset, "far": _first_far,
    "late": _late, "far down": _far_down, "far up": _far_up, "above": _above, "below": _below, "last": _last,
}  # fmt: skip
"""The generators of arrays by name; each takes a random generator, a shape and a large number of the format."""


def large_of(form: Format) -> float:
    """A number that is large for a logit: products of two are within the range of the format, and sums nearly."""
    return 128.0 if form.name == "float16" else 1024.0


def array(
    kind: str, rng: Rng, ty: ArrayType, sizes: Mapping[str, int], form: Format, ends: tuple[int, int] = (0, 2)
) -> Any:
    """An input of a kind, with the element type of its type; integers are from `ends[0]` to `ends[1] - 1`.

    An extended input has minus infinity in places, sometimes in whole rows.
    """
    shape = tuple(size_value(a.size, sizes) for a in ty.axes)
    if ty.element == "bool":
        # Some rows have a single true element, some none.
        return np.asarray(rng.random(shape) < rng.choice([0.15, 0.5, 0.9, 1.0]))
    if ty.element == "int":
        low, high = ends
        drawn = np.asarray(rng.integers(low, max(high, low + 1), shape))
        return np.sort(drawn, axis=-1) if shape and rng.random() < 0.5 else drawn
    numbers = rounded(ARRAY_KINDS[kind](rng, shape, large_of(form)), form)
    if ty.element == "extended":
        numbers = np.where(rng.random(shape) < rng.choice([0.0, 0.2, 0.6]), -np.inf, numbers)
    return stored_as(numbers, form)


def stored_as(numbers: Any, form: Format) -> Any:
    """Numbers of a format in the NumPy type in which they are passed to a function."""
    return np.asarray(numbers).astype(carrier(form))


def index_ends(diagram: Diagram, sizes: Mapping[str, int]) -> dict[int, int]:
    """For each integer input that selects positions of another array, the length of the axis that is read there.

    >>> import catdiag as cd
    >>> pick = cd.algorithm("t v, int[t] -> t")(lambda Z, label: cd.gather(Z, "v", label))
    >>> index_ends(pick, {"t": 2, "v": 5})
    {1: 5}
    """
    limits: dict[int, list[Size]] = {}
    stack = [(diagram, [{k} if ty.element == "int" else set[int]() for k, ty in enumerate(diagram.dom)])]
    seen: set[int] = set()
    while stack:
        item, first = stack.pop()
        if id(item) in seen:
            continue
        seen.add(id(item))
        whence = list(first)
        for node in item.graph.nodes:
            op = node.box.op
            if isinstance(op, View):
                for read, ty in zip(op.reads, node.box.dom, strict=False):
                    for name, e in read.at:
                        own = ty.axis(name)
                        if read.where or own is None:
                            continue
                        for leaf in leaves(e):
                            if isinstance(leaf, tuple) and leaf[0] == "w":
                                for source in whence[node.inputs[int(leaf[1])]]:
                                    limits.setdefault(source, []).append(own.size)
            given = [whence[w] for w in node.inputs]
            stack.extend((body, given) for body in bodies(op) if len(body.dom) == len(given))
            found = set().union(*(s for s, w in zip(given, node.inputs, strict=True))) if given else set()
            whence += [found if ty.element == "int" else set() for ty in node.box.cod]
    known = {
        source: [size_value(s, sizes) for s in found if size_symbols(s) <= set(sizes)]
        for source, found in limits.items()
    }
    return {source: min(found) for source, found in known.items() if found}


def arrays_at(
    number: int,
    diagram: Diagram,
    sizes: Mapping[str, int],
    rng: Rng,
    form: Format,
    inputs: Mapping[str, Callable[[Rng, Mapping[str, int]], Any]],
    tame: bool = False,
    together: bool = False,
) -> tuple[str, list[Any]]:
    """The arrays of trial `number`, and how they were drawn, in words.

    With `tame`, scalars are positive. With `together`, the largest values come late. `inputs` draws some by name, for
    inputs that are not arbitrary. Raises SizeError where one of those has another shape than its type.
    """
    ends = index_ends(diagram, sizes)
    names = list(ARRAY_KINDS)
    shared = names[number % len(names)]
    mixed = number % 4 == 3
    long = max(sizes.values(), default=1) > _LONG
    # Long sums, with one array of one sign, expose accumulators with too few digits.
    positive = int(rng.integers(len(diagram.dom))) if len(diagram.dom) else 0
    at_length = "last" if number // 24 % 2 else "plain" if rng.random() < 0.7 else "late"
    if together:
        shared, mixed = (("late", "rising", "late", "rising", "plain")[int(rng.integers(5))], False)
    several = sum(bool(ty.axes) and ty.element in ("real", "extended") for ty in diagram.dom) > 1
    opposed = shared in ("above", "below") or (several and shared in ("far up", "far down"))
    lengths = sorted(set(sizes.values()) | {2})
    different = int(rng.choice([1, 1, 2, 2, 3, lengths[-1] + 1]))
    made, said = [], []
    for k, (name, ty) in enumerate(zip(diagram.input_names, diagram.dom, strict=True)):
        if name in inputs:
            shape = tuple(size_value(a.size, sizes) for a in ty.axes)
            drawn = np.asarray(inputs[name](rng, sizes))
            if drawn.shape != shape:
                raise SizeError(
                    f"inputs[{name!r}] gave shape {drawn.shape} at {dict(sizes)}: expected {shape}, for {ty}"
                )
            numbers = ty.element in ("real", "extended")
            made.append(stored_as(rounded(drawn, form), form) if numbers else drawn)
            continue
        kind = names[int(rng.integers(len(names)))] if mixed else shared
        if opposed and not mixed:
            kind = "below" if k == positive else "above"  # one factor has the opposite sign
        if long:
            kind = "positive" if k == positive and at_length == "plain" else at_length
        if not ty.axes and ty.element in ("real", "extended"):
            value = float(rng.choice([1.0, 0.5, 0.125, 2.0] if tame else [1.0, 0.5, 2.0, 2.0**-10, -1.0, 0.0]))
            made.append(stored_as(value, form))
            continue
        # Integers: few distinct ones in all arrays, as document numbers are, or many; a scalar may be any length.
        end = ends.get(k, different if ty.axes else int(rng.choice(lengths)) + 1)
        made.append(array(kind, rng, ty, sizes, form, (0, end)))
        if ty.element in ("real", "extended"):
            said.append(f"{name} {kind}")
    return ", ".join(said), made
