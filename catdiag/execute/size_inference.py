"""Axis sizes from array shapes, and the lengths of blocks and tiles.

Each axis of an input gives an equation: its size (a symbol, or a product or sum of sizes) is the length in the shape.
An equation with one unknown symbol determines it. This is repeated until no further symbol is found.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from catdiag.category.diagram import Diagram
from catdiag.category.index_maps import Cond, Expr, bounds, leaves, natural, replaced, show_condition
from catdiag.category.ops import Box, FoldOp, GroupOp, Index, Read, View, bodies, tiled_axes
from catdiag.category.types import ArrayType, Axis, Size, show, size_symbols, size_value, symbols_in_order
from catdiag.util.errors import SizeError

_HUGE = 1 << 40


def solve(diagram: Diagram, shapes: Sequence[tuple[int, ...]], given: Mapping[str, int]) -> dict[str, int]:
    """The size of each symbol, from the shapes of the inputs, the sizes given by name, and the range of views.

    >>> from catdiag.category.types import ArrayType, Axis, Ty
    >>> from catdiag.category.diagram import id
    >>> b, g = Axis("b"), Axis("g")
    >>> solve(id(Ty(ArrayType((b * g,)), ArrayType((b,)))), [(6,), (2,)], {})
    {'b': 2, 'g': 3}

    A product or sum is solved where one part is unknown; a symbol that stays unknown is left out. The size of a new
    axis that nothing else determines is the largest at which views stay in range.

    Raises SizeError where a shape has the wrong rank or a length that disagrees, naming input, axis and expected size.
    """
    sizes = sizes_from_shapes(diagram.input_names, tuple(diagram.dom), shapes, given)
    _sizes_from_views(diagram, sizes)
    within(diagram, sizes)
    return sizes


def sizes_from_shapes(
    names: Sequence[str], types: Sequence[ArrayType], shapes: Sequence[tuple[int, ...]], given: Mapping[str, int]
) -> dict[str, int]:
    """The size of each symbol that the shapes of arrays determine. Raises SizeError as `solve` does.

    >>> from catdiag.category.types import ArrayType, Axis
    >>> sizes_from_shapes(["A"], [ArrayType((Axis("b") * Axis("g"), Axis("g")))], [(6, 3)], {})
    {'g': 3, 'b': 2}
    """
    sizes: dict[str, int] = {}
    origin: dict[str, str] = {}
    for symbol, value in given.items():
        sizes[symbol], origin[symbol] = _positive(value, f"size {symbol}"), "sizes="
    equations: list[tuple[Axis, int, str]] = []
    for name, ty, shape in zip(names, types, shapes, strict=True):
        if len(shape) != len(ty.axes):
            raise SizeError(
                f"input {name} has shape {tuple(shape)}: expected {len(ty.axes)} axes, [{' '.join(ty.names)}]"
            )
        for axis, length in zip(ty.axes, shape, strict=True):
            if length <= 0:
                raise SizeError(f"input {name} has length {length} along axis {axis.name!r}: expected at least 1")
            equations.append((axis, length, name))
    while True:
        unsolved = []
        for axis, length, name in equations:
            unknown = [s for s in symbols_in_order(axis.size) if s not in sizes]
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
                unsolved.append((axis, length, name))
        if len(unsolved) == len(equations):
            break
        equations = unsolved
    for axis, length, name in unsolved:
        # The symbols are unknown, but their product or sum is known.
        composite = show(axis.size)
        if sizes.setdefault(composite, length) != length:
            raise SizeError(
                f"input {name} has length {length} along axis {axis.name!r}: expected {sizes[composite]}, "
                "as on another input"
            )
    return sizes


def sizes_as_in(
    example: Mapping[str, int], types: Sequence[ArrayType], shapes: Sequence[tuple[int, ...]], given: Mapping[str, int]
) -> dict[str, int]:
    """Those of an example for symbols that no input shows, where all dimensions that they are of are as long as in it.

    >>> from catdiag.category.types import ArrayType, Axis
    >>> types = [ArrayType((Axis("t"), Axis("h") * Axis("d")))]
    >>> sizes_as_in({"t": 2, "h": 3, "d": 4}, types, [(7, 12)], {})
    {'h': 3, 'd': 4}
    >>> sizes_as_in({"t": 2, "h": 3, "d": 4}, types, [(7, 20)], {})
    {}
    """
    if any(len(shape) != len(ty.axes) for ty, shape in zip(types, shapes, strict=False)):
        return {}
    try:
        shown = sizes_from_shapes(["" for _ in types], types, shapes, given)
    except SizeError:  # which a run says, with names
        return {}
    other: set[str] = set()
    found: dict[str, int] = {}
    for ty, shape in zip(types, shapes, strict=True):
        for axis, length in zip(ty.axes, shape, strict=True):
            unknown = [s for s in symbols_in_order(axis.size) if s not in shown]
            known = {**example, **shown}
            if unknown and all(s in known for s in symbols_in_order(axis.size)):
                found.update((s, example[s]) for s in unknown)
                other.update(unknown if size_value(axis.size, known) != length else ())
    return {s: n for s, n in found.items() if s not in other}


def within(diagram: Diagram, sizes: Mapping[str, int]) -> None:
    """Raises SizeError where the sizes make a view in a group or a loop read outside its array.

    Other views check this when they read. A view whose positions are inputs of it gives 0 out of range, or the padding
    of its array, and lists in `fits` the conditions under which it never does so. Not checked here are positions that
    depend on the user's index arrays, and conditions on sizes that are not in `sizes`.

    >>> import catdiag as cd
    >>> from catdiag.rewrite.group import find
    >>> pairs = find(cd.algorithm("x")(lambda a: cd.sum(cd.window(a, "x", "y k=2"), "k")), ["y"])
    >>> within(pairs, {"x": 5, "y": 4})
    >>> within(pairs, {"x": 5, "y": 5})
    Traceback (most recent call last):
    ...
    catdiag.util.errors.SizeError: view[x → y k] reads axis 'x' at y + k, which is up to 5: expected 0 to 4; ...
    """
    for box in _views(diagram):
        op = box.op
        assert isinstance(op, View)
        for limit in _ranges(op, box):
            named = [leaf for e in limit[1:] for leaf in leaves(e)]
            indices = [leaf for leaf in named if isinstance(leaf, tuple)]
            symbols = {leaf for leaf in named if isinstance(leaf, str)}
            symbols |= {s for axis in op.index_axes for s in size_symbols(axis.size)}
            # Interval bounds are exact where each index occurs once.
            once = len(indices) == len(set(indices)) and not any(map(_from_input, indices))
            if not once or not symbols <= sizes.keys():
                continue
            _, most = _ends(limit[1], op, sizes)
            _, length = _ends(limit[2], op, sizes)
            if most >= length:
                raise SizeError(_beyond(box, op, limit, most, length, sizes), box.line)


def _ranges(op: View, box: Box) -> list[Cond]:
    """The conditions of a view which say that its one array, or the padded array, is long enough."""
    if len(op.reads) != 2 or op.reads[1].at:
        return []
    read = op.reads[0]
    at = [e for _, e in read.at]
    plain = all((f if c == "le" else e) in at or (isinstance(f, tuple) and len(f) == 2) for c, e, f in read.where)
    lengths = [own.size for n, _ in read.at if (own := box.dom[0].axis(n)) is not None]
    padded = [("lt", e, f) for c, e, f in op.fits if plain and c == "lt" and _longer(f, lengths)]
    return [limit for limit in op.fits if limit in read.where or limit in padded]


def _longer(size: Expr, lengths: Sequence[Size]) -> bool:
    """Whether a size is the sum of one of `lengths` and something nonnegative."""
    return isinstance(size, tuple) and size[0] == "+" and natural(size) and any(s in size[1:] for s in lengths)


def _ends(e: Expr, op: View, sizes: Mapping[str, int]) -> tuple[int, int]:
    """The smallest and the largest value of an expression over the indices of the axes made."""
    lengths = {a.name: a.size for a in op.index_axes}

    def ends(leaf: Any) -> tuple[int, int]:
        if isinstance(leaf, tuple):
            return 0, size_value(lengths[leaf[1]], sizes) - 1
        value = size_value(leaf, sizes)
        return value, value

    return bounds(e, ends)


def _beyond(box: Box, op: View, limit: Cond, most: int, length: int, sizes: Mapping[str, int]) -> str:
    _, e, f = limit
    read = next((n for n, at in op.reads[0].at if at == e), None) or " ".join(n for n, _ in op.reads[0].at)
    shorter = []
    for axis in op.index_axes:
        if ("i", axis.name) in leaves(e) and isinstance(axis.size, str):
            rest = {s: n for s, n in sizes.items() if s != axis.size}
            try:
                found = _largest(op, box, axis, rest)
            except SizeError:  # none is short enough
                found = None
            if found is not None:
                shorter.append(f"axis {axis.name!r} is {sizes[axis.size]}, and {found} or less would do")
    longer = f"{show(f)} of {most + 1} or more would do"
    return (
        f"{op.name} reads axis {read!r} at {show(e)}, which is up to {most}: expected 0 to {length - 1}; "
        + "; ".join([*shorter, longer])
    )


def _sizes_from_views(diagram: Diagram, sizes: dict[str, int]) -> None:
    """Adds the sizes of new axes that nothing determines: the largest at which every read of a view is in range."""
    views = list(_views(diagram))
    while views:
        unsolved, before = [], len(sizes)
        for box in views:
            op = box.op
            assert isinstance(op, View)
            for axis in op.index_axes:
                if len(unknown := size_symbols(axis.size) - sizes.keys()) == 1:
                    found = _largest(op, box, axis, sizes)
                    if found is not None:
                        sizes[next(iter(unknown))] = found
            if any(size_symbols(a.size) - sizes.keys() for a in op.index_axes):
                unsolved.append(box)
        if len(unsolved) == len(views) and len(sizes) == before:
            return
        views = unsolved


def _views(diagram: Diagram) -> Iterator[Box]:
    """The boxes that read at index arithmetic, also in bodies; those of a group over whole axes instead of tiles.

    A view in a group that reads at the positions of its tile, which are an input, reads at those of the whole axis.
    """
    stack: list[tuple[Diagram, dict[int, str], dict[str, Size]]] = [(diagram, {}, {})]
    seen = set[int]()
    while stack:
        item, positions, wholes = stack.pop()
        if id(item) in seen:
            continue
        seen.add(id(item))
        known, count = dict(positions), len(item.dom)
        for node in item.graph.nodes:
            box, op = node.box, node.box.op
            if isinstance(op, Index):
                known[count] = op.axis
            count += len(box.cod)
            if isinstance(op, View):
                put: dict[Any, Expr] = {("w", k): ("i", known[w]) for k, w in enumerate(node.inputs) if w in known}
                made = tuple(Axis(a.name, wholes.get(str(a.size), a.size), a.kind, a.parts) for a in op.index_axes)
                yield Box(op if not (put and wholes) else _substituted_view(op, made, put), box.dom, box.cod, box.line)
            given = {k: known[w] for k, w in enumerate(node.inputs) if w in known}
            if isinstance(op, GroupOp):
                sizes = {a.name: a.size for ty in (*box.dom, *box.cod) for a in ty.axes}
                stack.append((op.body, given, {**wholes, **{g: sizes.get(a, a) for a, g in op.tiles}}))
            elif isinstance(op, FoldOp):
                size = next((a.size for ty in box.dom for a in ty.axes if a.name == op.axis), op.axis)
                inside = {**wholes, op.block: size}
                stack.append((op.step, {k + op.state_count: a for k, a in given.items()}, inside))
                stack.extend((body, {}, wholes) for body in (op.unit, op.merge))
            else:
                stack.extend((body, given, wholes) for body in bodies(op))


def _substituted_view(op: View, made: tuple[Axis, ...], put: Mapping[Any, Expr]) -> View:
    """A view with other axes made, and with leaves of its expressions replaced."""
    own = {("i", a.name) for a in made}
    put = {w: i for w, i in put.items() if i in own}

    def conditions(found: Sequence[Cond]) -> tuple[Cond, ...]:
        return tuple((c, replaced(e, put), replaced(f, put)) for c, e, f in found)

    reads = (Read(tuple((n, replaced(e, put)) for n, e in r.at), conditions(r.where)) for r in op.reads)
    return View(made, tuple(reads), conditions(op.fits))


def _largest(op: View, box: Box, axis: Axis, sizes: Mapping[str, int]) -> int | None:
    """The largest size of a new axis of unknown size; None where the index arithmetic does not bound it.

    Raises SizeError if not even one index is in range.
    """
    limits = list(op.fits)
    for read, ty in zip(op.reads, box.dom, strict=False):
        if len(op.reads) == 1:
            limits += [("lt", e, own.size) for n, e in read.at if (own := ty.axis(n)) is not None]
    lengths = {a.name: a.size for a in op.index_axes}
    # Interval bounds are exact where an index occurs once; values of index arrays are not known.
    limits = [
        c for c in limits if leaves(c[1]).count(("i", axis.name)) == 1 and not any(map(_from_input, leaves(c[1])))
    ]
    named = [leaf for _, e, f in limits for leaf in (*leaves(e), *leaves(f))]
    beside = {leaf[1] for leaf in named if isinstance(leaf, tuple) and leaf[0] == "i"} - {axis.name}
    others = {s for name in beside for s in size_symbols(lengths[name])}
    mentioned = {leaf for leaf in named if isinstance(leaf, str)}
    if not limits or axis.size != axis.name or not others | mentioned <= sizes.keys():
        return None

    def ends_of(e: Expr, size: int) -> tuple[int, int]:
        def ends(leaf: Any) -> tuple[int, int]:
            if isinstance(leaf, tuple):
                return 0, (size if leaf[1] == axis.name else size_value(lengths[leaf[1]], sizes)) - 1
            return (leaf, leaf) if isinstance(leaf, int) else (sizes[leaf], sizes[leaf])

        return bounds(e, ends)

    def fits(size: int) -> bool:
        return all(ends_of(e, size)[1] < ends_of(f, size)[0] for _, e, f in limits)

    if fits(_HUGE):
        return None
    if not fits(1):
        known = ", ".join(f"{s} = {sizes[s]}" for s in sorted(mentioned | others))
        raise SizeError(
            f"axis {axis.name!r} has no index in range: expected {' and '.join(map(show_condition, limits))} for all "
            + (f"indices, with {known}" if known else "indices"),
            box.line,
        )
    low, high = 1, _HUGE
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if fits(middle) else (low, middle)
    return low


def _from_input(leaf: Any) -> bool:
    return isinstance(leaf, tuple) and leaf[0] == "w"


def _because(size: Size, sizes: Mapping[str, int], origin: Mapping[str, str]) -> str:
    parts = [f"{s} = {sizes[s]} by {origin[s]}" for s in sorted(size_symbols(size)) if s in origin]
    return f" ({', '.join(parts)})" if parts else ""


def _unknown(size: Size, symbol: str, value: int, sizes: Mapping[str, int], axis: Axis, name: str) -> int:
    """The value of the one unknown symbol of a size, from the value of the size."""
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
                + f", for {show(axis.size)}"
            )
    return value


def local_sizes(sizes: Mapping[str, int], cuts: Mapping[str, tuple[str, int]]) -> dict[str, int]:
    """The sizes inside the body of a loop or group: each block symbol is bound to the length of the current block.

    >>> local_sizes({"x": 7, "d": 2}, {"x": ("s_x", 3)})
    {'x': 7, 'd': 2, 's_x': 3}
    """
    return {**sizes, **dict(cuts.values())}


def tile_bounds(diagram: Diagram) -> dict[str, Size]:
    """The symbols of the stream blocks and groups of a diagram, also in bodies, each with the size that it divides up.

    The symbol of a split loop's parts stands for their number, which is at most that size.

    >>> import catdiag as cd
    >>> tile_bounds(cd.library.get("attention"))
    {}
    """
    found: dict[str, Size] = {}
    stack = [diagram]
    while stack:
        for box in stack.pop().boxes:
            stack += [box.op.step] if isinstance(box.op, FoldOp) else bodies(box.op)
            for axis, symbol in tiled_axes(box.op):
                size = box.size_of(axis)
                # A block of a tile divides up the size that the tile divides up.
                found.setdefault(symbol, found.get(size, size) if isinstance(size, str) else size)
    return found


def tile_lengths(diagram: Diagram, tiles: Mapping[str, int]) -> dict[str, int]:
    """The lengths of blocks and tiles, after checking.

    >>> import catdiag as cd
    >>> tile_lengths(cd.id(cd.category.Ty()), {"s_x": 2})
    Traceback (most recent call last):
    ...
    catdiag.util.errors.SizeError: no tile is called 's_x': this diagram has no tiles
    ...

    Raises SizeError for a symbol that the diagram lacks, or a length below 1.
    """
    if not tiles:
        return {}
    known = tile_bounds(diagram)
    if not isinstance(tiles, Mapping):
        raise SizeError(f"tiles is {tiles!r}: expected a dict of {', '.join(known) or 'no tiles'} to their lengths")
    for symbol in tiles:
        if symbol not in known:
            raise SizeError(f"no tile is called {symbol!r}: this diagram has {', '.join(known) or 'no tiles'}")
    return {symbol: _positive(value, f"tile {symbol}") for symbol, value in tiles.items()}


def _positive(value: Any, what: str) -> int:
    """A Python or NumPy integer, at least 1. Raises SizeError, with `what` as its name."""
    if isinstance(value, bool) or not hasattr(value, "__index__") or int(value) <= 0:
        raise SizeError(f"{what} is {value!r}: expected a positive integer")
    return int(value)
