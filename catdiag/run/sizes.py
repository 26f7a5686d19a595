"""Sizes from shapes, and the lengths of blocks and tiles."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from catdiag.boxes import Call, Fold, Group
from catdiag.diagram import Diagram
from catdiag.errors import SizeError
from catdiag.types import Axis, Size, show_size, size_symbols, size_value


def solve(diagram: Diagram, shapes: Sequence[tuple[int, ...]], given: Mapping[str, int]) -> dict[str, int]:
    """The size of each symbol, from the shapes of the inputs and the sizes given by name.

    >>> from catdiag.types import ArrayType, Axis, Ty
    >>> from catdiag.diagram import id
    >>> b, g = Axis("b"), Axis("g")
    >>> solve(id(Ty(ArrayType((b * g,)), ArrayType((b,)))), [(6,), (2,)], {})
    {'b': 2, 'g': 3}

    Products and sums are solved where one part is unknown; what stays unknown is left out. Raises SizeError
    where a shape has the wrong rank or a length that disagrees, naming input, axis and expected size.
    """
    sizes: dict[str, int] = {}
    origin: dict[str, str] = {}
    for symbol, value in given.items():
        sizes[symbol], origin[symbol] = _positive(value, f"size {symbol}"), "sizes="
    waiting: list[tuple[Axis, int, str]] = []
    for name, ty, shape in zip(diagram.input_names, diagram.dom, shapes, strict=True):
        if len(shape) != len(ty.axes):
            raise SizeError(
                f"input {name} has shape {tuple(shape)}: expected {len(ty.axes)} axes, [{' '.join(ty.names)}]"
            )
        for axis, length in zip(ty.axes, shape, strict=True):
            if length <= 0:
                raise SizeError(f"input {name} has length {length} along axis {axis.name!r}: expected at least 1")
            waiting.append((axis, length, name))
    while True:
        held = []
        for axis, length, name in waiting:
            unknown = [s for s in _symbols(axis.size) if s not in sizes]
            if not unknown:
                expected = size_value(axis.size, sizes)
                if expected != length:
                    raise SizeError(
                        f"input {name} has length {length} along axis {axis.name!r}: expected {expected}"
                        + _because(axis.size, sizes, origin)
                    )
            elif len(unknown) == 1:
                sizes[unknown[0]] = _unknown(axis.size, unknown[0], length, sizes, axis, name)
                origin[unknown[0]] = f"input {name}"
            else:
                held.append((axis, length, name))
        if len(held) == len(waiting):
            break
        waiting = held
    for axis, length, name in held:
        # The parts are unknown, the whole is not.
        whole = show_size(axis.size)
        if sizes.setdefault(whole, length) != length:
            raise SizeError(
                f"input {name} has length {length} along axis {axis.name!r}: expected {sizes[whole]}, "
                "as on another input"
            )
    return sizes


def _symbols(size: Size) -> list[str]:
    """The symbols of a size, as often as they occur."""
    found, stack = [], [size]
    while stack:
        item = stack.pop()
        if isinstance(item, tuple):
            stack += [item[2], item[1]]
        elif isinstance(item, str):
            found.append(item)
    return found


def _because(size: Size, sizes: Mapping[str, int], origin: Mapping[str, str]) -> str:
    parts = [f"{s} = {sizes[s]} by {origin[s]}" for s in sorted(size_symbols(size)) if s in origin]
    return f" ({', '.join(parts)})" if parts else ""


def _unknown(size: Size, symbol: str, value: int, sizes: Mapping[str, int], axis: Axis, name: str) -> int:
    """The one unknown symbol of a size, from its value."""
    whole = value
    while isinstance(size, tuple):
        op, left, right = size
        inside = symbol in size_symbols(left)
        other = size_value(right if inside else left, dict(sizes))
        size = left if inside else right
        if op == "+":
            value -= other
        elif value % other:
            value = 0
        else:
            value //= other
        if value <= 0:
            raise SizeError(
                f"input {name} has length {whole} along axis {axis.name!r}: expected "
                + (f"a multiple of {other}" if op == "*" else f"more than {other}")
                + f", for {show_size(axis.size)}"
            )
    return value


def local_sizes(sizes: Mapping[str, int], cuts: Mapping[str, tuple[str, int]]) -> dict[str, int]:
    """The sizes inside a loop's body: each symbol of a block is bound to the length of the block at hand.

    >>> local_sizes({"x": 7, "d": 2}, {"x": ("s_x", 3)})
    {'x': 7, 'd': 2, 's_x': 3}
    """
    return {**sizes, **dict(cuts.values())}


def tile_bounds(diagram: Diagram) -> dict[str, Size]:
    """The symbols of the stream blocks and groups of a diagram, bodies included, each with the size it divides up.

    >>> import catdiag as cd
    >>> tile_bounds(cd.library.get("attention"))
    {}
    """
    found: dict[str, Size] = {}
    stack = [diagram]
    while stack:
        for box in stack.pop().boxes:
            op = box.op
            pairs: tuple[tuple[str, str], ...] = ()
            if isinstance(op, Fold):
                pairs = ((op.axis, op.block),)
                stack.append(op.step)
            elif isinstance(op, Group):
                pairs = op.tiles
                stack.append(op.body)
            elif isinstance(op, Call):
                stack.append(op.body)
            for axis, symbol in pairs:
                own = (a.size for ty in (*box.dom, *box.cod) for a in ty.axes if a.name == axis)
                size = next(own, axis)
                # A block of a tile is a part of what the tile is a part of.
                found.setdefault(symbol, found.get(size, size) if isinstance(size, str) else size)
    return found


def tile_lengths(diagram: Diagram, tiles: Mapping[str, int]) -> dict[str, int]:
    """The lengths of blocks and tiles, checked.

    >>> import catdiag as cd
    >>> tile_lengths(cd.id(cd.Ty()), {"s_x": 2})
    Traceback (most recent call last):
    ...
    catdiag.errors.SizeError: no tile is called 's_x': this diagram has no tiles
    ...

    Raises SizeError for a symbol that is none, or a length below 1.
    """
    if not tiles:
        return {}
    known = tile_bounds(diagram)
    for symbol in tiles:
        if symbol not in known:
            raise SizeError(f"no tile is called {symbol!r}: this diagram has {', '.join(known) or 'no tiles'}")
    return {symbol: _positive(value, f"tile {symbol}") for symbol, value in tiles.items()}


def _positive(value: Any, what: str) -> int:
    """An integer of Python or NumPy, at least 1. Raises SizeError, naming what it is."""
    if isinstance(value, bool) or not hasattr(value, "__index__") or int(value) <= 0:
        raise SizeError(f"{what} is {value!r}: expected a positive integer")
    return int(value)
