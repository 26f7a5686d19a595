"""Arrays as functions of indices: a *pull array*. An entry is computed where it is read, at the index of the read.

A view, slice or broadcast changes the index. An elementwise function computes one entry from entries at the same index.
So a kernel loads exactly the entries that it reads, and views are fused into loads. The result of a reduction or
contraction is a tile in registers (`Made`). It can only be read at the index at which it was computed; along an axis
that it has whole also at the positions of the other half, as rotary embeddings do.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

from catdiag.category.index_maps import Expr, read_off
from catdiag.category.op_facts import is_reshape, new_names, unit_axes
from catdiag.category.ops import Box, Op, Reindex, Rename, View, op_row
from catdiag.category.scalars import Cast
from catdiag.category.types import ArrayType, Axis, Size
from catdiag.codegen.triton.tile_expressions import Nodes
from catdiag.codegen.triton.tile_fills import Fill
from catdiag.codegen.triton.tile_nodes import Dim, TileNode, terms
from catdiag.util.errors import TypeMismatch

At = Mapping[str, TileNode]


class Builder(Protocol):
    """What an array access needs of the kernel in which it is computed; `kernel_builder.Build` has it."""

    nodes: Nodes

    def dim(self, axis: Axis) -> Dim | None:
        """The tile dimension of an axis; None if the tile has one entry along it."""

    def size(self, size: Size) -> TileNode:
        """A size as an integer expression of the kernel."""

    def at(self, value: Pull, index: At, guard: TileNode | None) -> TileNode:
        """The entries of an array at an index. They are memoized."""

    def load(self, array: StoredArray, index: At, guard: TileNode | None) -> TileNode:
        """A load from an array in global memory."""

    def where(self, args: Sequence[TileNode]) -> TileNode:
        """A selection by a condition. Blocks in which the condition holds for all entries need no mask."""

    def merged(self, array: StoredArray, names: Sequence[str]) -> StoredArray | None:
        """The same memory with neighboring axes as one of one stride; None where the launch has no such array."""


@dataclass(eq=False)
class Pull:
    """An array, given by its type and by the function that computes its entries."""

    ty: ArrayType

    def compute(self, k: Builder, index: At, guard: TileNode | None) -> TileNode:
        """The entries at `index`, which has an integer node for each axis. Loads are masked by `guard`."""
        raise NotImplementedError


@dataclass(eq=False)
class StoredArray(Pull):
    """An array in global memory, with its name in kernels and in the launch function."""

    name: str
    temporary: bool = False
    """Whether the launch function allocates it for the results of one kernel that another one reads."""
    parts: bool = False
    """Whether its first axis counts the parts of a split loop (split-K)."""
    source: StoredArray | None = None
    """The array whose memory it is, with more axes, if it is another array with neighboring axes merged or a part of
    one."""
    part: Pull | None = None
    """The part of its source that it is, if it is one."""

    def compute(self, k: Builder, index: At, guard: TileNode | None) -> TileNode:
        """A load, or an argument of the kernel if the array is a scalar."""
        return k.load(self, index, guard)


@dataclass(eq=False)
class Made(Pull):
    """A tile in registers; `dims` are the dimensions of its axes (None for an axis along which it has one entry)."""

    node: TileNode
    dims: tuple[Dim | None, ...]
    named: str = ""
    """The name of the box that made it, for error messages."""

    def compute(self, k: Builder, index: At, guard: TileNode | None) -> TileNode:
        """The tile, with the dimensions of the index. Raises TypeMismatch for an index other than that of the tile."""
        pairs: dict[Dim, Dim] = {}
        node = self.node
        for axis, dim in zip(self.ty.axes, self.dims, strict=True):
            place = index[axis.name]
            if dim is None:
                if place.value != 0:
                    raise self._elsewhere(axis.name)
                continue
            other = of_other_half(place, dim) if node.element == "real" else None
            if other is not None and dim in node.dims:
                node = with_halves_exchanged(k.nodes, node, dim)
            elif other is None and (place.kind != "arange" or place.dims[0].block != dim.block):
                raise self._elsewhere(axis.name)
            pairs[dim] = place.dims[0]
        if len(set(map(id, pairs.values()))) < len(pairs):
            raise self._elsewhere(" and ".join(d.axis for d in pairs))
        if all(old is new for old, new in pairs.items()):
            return node
        return relabeled(k.nodes, node, pairs)

    def _elsewhere(self, axis: str) -> TypeMismatch:
        return TypeMismatch(
            f"{self.named or 'a computed array'} {self.ty} is read along axis {axis} at other positions than those at "
            "which it was computed: a tile in registers cannot be. Save it to memory in between: make it a kernel of "
            "its own with .fuse"
        )


def of_other_half(place: TileNode, dim: Dim) -> Dim | None:
    """The dimension i of a place `i + n/2` or `i - n/2`, or `1 - i` where n is 2, along a dimension that has all n
    entries of its axis; None for any other place. Where such a place is on the axis, it is i's in the other half."""
    size = dim.size
    if not isinstance(size, int) or size < 2 or str(size) != dim.block or len(place.dims) != 1:
        return None
    moved, signs = 0, list[int]()
    for sign, term in terms(place):
        one = 1 if sign == "add" else -1
        factor, own = (int(term.args[0].value or 0), term.args[1]) if _multiple(term) else (1, term)
        if term.value is not None:
            moved += one * int(term.value)
        elif own.kind == "arange" and own.dims[0].block == dim.block:
            signs.append(one * factor)
        else:
            return None
    exchanged = (signs == [1] and 2 * abs(moved) == size) or (signs == [-1] and moved == 1 and size == 2)
    return place.dims[0] if exchanged else None


def _multiple(term: TileNode) -> bool:
    """Whether a term is a number times another term."""
    return term.kind == "mul" and term.args[0].value is not None


def with_halves_exchanged(nodes: Nodes, node: TileNode, dim: Dim) -> TileNode:
    """The tile of a node with the two halves of a dimension exchanged."""
    if node.kind == "scaled":
        return nodes.scaled(with_halves_exchanged(nodes, node.args[0], dim), node.args[1])
    return nodes.make("exchanged", (node,), node.dims, node.element, dim, fills=dict(node.fills), heavy=True)


def relabeled(nodes: Nodes, node: TileNode, pairs: Mapping[Dim, Dim]) -> TileNode:
    """The tile of a node with some dimensions replaced by others of the same lengths."""
    if node.kind == "scaled":
        return nodes.scaled(relabeled(nodes, node.args[0], pairs), node.args[1])
    dims = tuple(pairs.get(d, d) for d in node.dims)
    fills: dict[Dim, Fill] = {pairs.get(d, d): f for d, f in node.fills.items()}
    return nodes.make("relabel", (node,), dims, node.element, fills=fills)


@dataclass(eq=False)
class Mapped(Pull):
    """An elementwise function of arrays."""

    fn: str | Cast
    args: tuple[Pull, ...]
    note: str = ""

    def compute(self, k: Builder, index: At, guard: TileNode | None) -> TileNode:
        """The function of the entries at the same index."""
        parts = [k.at(a, {n: index[n] for n in a.ty.names}, guard) for a in self.args]
        k.nodes.note = self.note
        if isinstance(self.fn, Cast):
            return k.nodes.make("cast", (k.nodes.real(parts[0]),), parts[0].dims, "real", self.fn.dtype,
                                fills=dict(parts[0].fills))  # fmt: skip
        return k.where(parts) if self.fn == "where" else k.nodes.op(self.fn, *parts)


@dataclass(eq=False)
class AxisPositions(Pull):
    """The positions along an axis."""

    def compute(self, k: Builder, index: At, guard: TileNode | None) -> TileNode:
        """The index along the axis."""
        return index[self.ty.names[0]]


@dataclass(eq=False)
class Scalar(Pull):
    """A constant, or a size if `size` is given. The constant None is minus infinity."""

    value: float | None
    size: Size | None = None

    def compute(self, k: Builder, index: At, guard: TileNode | None) -> TileNode:
        """The number, whatever the index."""
        if self.size is not None:
            return k.size(self.size)
        value = float("-inf") if self.value is None else self.value
        return k.nodes.const(value, "int" if self.ty.element == "int" else "real")


@dataclass(eq=False)
class ArrayPart(Pull):
    """The block of an array at the current iteration of loops; `starts` gives its first position along their axes."""

    source: Pull
    starts: Mapping[str, TileNode]

    def compute(self, k: Builder, index: At, guard: TileNode | None) -> TileNode:
        """The array at the index, moved by the start of the block."""
        moved = {n: k.nodes.op("add", self.starts[n], at) if n in self.starts else at for n, at in index.items()}
        return k.at(self.source, moved, guard)


@dataclass(eq=False)
class PartialState(Pull):
    """The state of one part of a split loop, saved by an earlier kernel: row `part` of `array`."""

    array: StoredArray
    part: TileNode
    starts: Mapping[str, TileNode]

    def compute(self, k: Builder, index: At, guard: TileNode | None) -> TileNode:
        """A load from the row of the part."""
        moved = {n: k.nodes.op("add", self.starts[n], at) if n in self.starts else at for n, at in index.items()}
        return k.load(self.array, {self.array.ty.names[0]: self.part, **moved}, guard)


@dataclass(eq=False)
class Renamed(Pull):
    """An array with renamed axes, broadcast along axes that it lacks, and without its `units`, axes of length 1."""

    source: Pull
    pairs: Mapping[str, str]
    units: Collection[str] = ()

    def compute(self, k: Builder, index: At, guard: TileNode | None) -> TileNode:
        """The array at the index under its own axis names."""
        names = (n for n in self.source.ty.names if n not in self.units)
        first = {n: k.nodes.const(0, "int") for n in self.units}
        return k.at(self.source, {**{n: index[self.pairs.get(n, n)] for n in names}, **first}, guard)


@dataclass(eq=False)
class Arranged(Pull):
    """A reshape: a product axis split or merged (row-major), a slice of a coproduct axis, or a concatenation."""

    op: Reindex
    sources: tuple[Pull, ...]

    def compute(self, k: Builder, index: At, guard: TileNode | None) -> TileNode:
        """The arrays at the index of the reshape. Raises TypeMismatch for a concatenation of nothing."""
        op, nodes, parts = self.op, k.nodes, self.op.axis.parts
        rest = {n: at for n, at in index.items() if n not in {a.name for a in op.added_axes()}}
        if op.kind == "split":
            return self._read(k, 0, {**rest, op.axis.name: _whole_place(k, parts, index)}, guard)
        place = index[op.added_axes()[0].name]
        if op.kind == "merge":
            one = with_merged_axes(k, self.sources[0], [p.name for p in parts])
            if one is not None:
                (new,) = set(one.ty.names) - set(self.sources[0].ty.names)
                return k.at(one, {**{n: rest[n] for n in one.ty.names if n != new}, new: place}, guard)
            return self._read(k, 0, {**rest, **_part_places(k, parts, place)}, guard)
        if op.kind == "slice":
            start = self._before(k, op.place)
            return self._read(k, 0, {**rest, op.axis.name: nodes.op("add", place, start)}, guard)
        made: TileNode | None = None
        for j in reversed(range(len(parts))):
            start = self._before(k, j)
            inside = nodes.op("le", start, place)
            if made is not None:
                below = nodes.op("lt", place, nodes.op("add", start, k.size(parts[j].size)))
                inside = nodes.op("and", inside, below)
            both = inside if guard is None else nodes.op("and", guard, inside)
            own = self._read(k, j, {**rest, parts[j].name: nodes.op("sub", place, start)}, both)
            made = own if made is None else nodes.op("where", inside, own, made)
        if made is None:
            raise TypeMismatch(f"{op.name} concatenates no arrays: expected at least one")
        return made

    def _read(self, k: Builder, j: int, index: At, guard: TileNode | None) -> TileNode:
        source = self.sources[j]
        return k.at(source, {n: index[n] for n in source.ty.names}, guard)

    def _before(self, k: Builder, count: int) -> TileNode:
        """The sum of the sizes of the first `count` parts."""
        start = k.nodes.const(0, "int")
        for p in self.op.axis.parts[:count]:
            start = k.nodes.op("add", start, k.size(p.size))
        return start


def _whole_place(k: Builder, parts: Sequence[Axis], index: At) -> TileNode:
    """The position along a product of axes, given those along its parts (row-major)."""
    place = k.nodes.const(0, "int")
    for p in parts:
        place = k.nodes.op("add", k.nodes.op("mul", place, k.size(p.size)), index[p.name])
    return place


def _part_places(k: Builder, parts: Sequence[Axis], place: TileNode) -> dict[str, TileNode]:
    """The positions along the parts of a product of axes, given that along it."""
    found: dict[str, TileNode] = {}
    nodes, left, after = k.nodes, place, k.nodes.const(1, "int")
    for p in reversed(parts):
        size = k.size(p.size)
        above = nodes.op("floordiv", left, size)
        found[p.name] = nodes.op("sub", left, nodes.op("mul", above, size))
        left = above
    for p in parts[1:]:
        after = nodes.op("mul", after, k.size(p.size))
    found[parts[0].name] = nodes.op("floordiv", place, after)
    return found


def reshaped_index(k: Builder, box: Box, index: At) -> dict[str, TileNode]:
    """Where the entries of an array at an index are in a reshape of it: a renaming, or a split or merged axis. Raises
    TypeMismatch for another box."""
    if not is_reshape(box):
        raise TypeMismatch(f"{box.name} is no reshape: expected a renaming, or a split or merged axis", box.line)
    return op_row(RESHAPED_INDICES, box, "reshaped")(k, box.op, box, index)


def _renamed_index(k: Builder, op: Rename, box: Box, index: At) -> dict[str, TileNode]:
    units = {name: k.nodes.const(0, "int") for name in unit_axes(box)}
    return {**{new_names(op).get(name, name): at for name, at in index.items()}, **units}


def _rearranged_index(k: Builder, op: Reindex, box: Box, index: At) -> dict[str, TileNode]:
    axis = op.axis
    if op.kind == "split":
        rest = {name: at for name, at in index.items() if name != axis.name}
        return {**rest, **_part_places(k, axis.parts, index[axis.name])}
    rest = {name: at for name, at in index.items() if all(name != p.name for p in axis.parts)}
    whole = k.nodes.const(0, "int")
    for p in axis.parts:
        size, sums = k.size(p.size), k.nodes.const(0, "int")
        for sign, term in terms(whole):  # so that what a tile shares stays apart from what is within it
            sums = k.nodes.op(sign, sums, k.nodes.op("mul", term, size))
        whole = k.nodes.op("add", sums, index[p.name])
    return {**rest, axis.name: whole}


def unreshaped(array: Pull, boxes: Sequence[Box]) -> Pull:
    """The array of which another is a reshape, box by box. Raises TypeMismatch for another box."""
    for box in reversed(boxes):
        array = op_row(UNRESHAPED, box, "undone")(box.op, box, array)
    return array


RESHAPED_INDICES: Mapping[type[Op], Callable[[Builder, Any, Box, At], dict[str, TileNode]]] = {
    Rename: _renamed_index,
    Reindex: _rearranged_index,
}
"""Where the entries of an array at an index are in a reshape of it, by the class of the reshape."""

UNRESHAPED: Mapping[type[Op], Callable[[Any, Box, Pull], Pull]] = {
    Rename: lambda op, box, array: Renamed(box.dom[0], array, {new: old for old, new in op.pairs}, unit_axes(box)),
    Reindex: lambda op, box, array: Arranged(
        box.dom[0], replace(op, kind="split" if op.kind == "merge" else "merge"), (array,)
    ),
}
"""The array of that type of which another is a reshape, by the class of the reshape."""


def with_merged_axes(k: Builder, pull: Pull, names: Sequence[str]) -> Pull | None:
    """An array in memory, or a block of it, with some axes as one of one stride; None where it has no such form."""
    if isinstance(pull, StoredArray):
        return k.merged(pull, names)
    if isinstance(pull, ArrayPart) and not set(names) & set(pull.starts):
        source = with_merged_axes(k, pull.source, names)
        if source is None:
            return None
        own = {axis.name: axis for axis in pull.ty.axes}
        axes = tuple(own.get(axis.name, axis) for axis in source.ty.axes)
        return ArrayPart(ArrayType(axes, pull.ty.element), source, pull.starts)
    if isinstance(pull, Renamed) and set(pull.ty.names) == {pull.pairs.get(n, n) for n in pull.source.ty.names}:
        before = {pull.pairs.get(n, n): n for n in pull.source.ty.names}
        source = with_merged_axes(k, pull.source, [before[n] for n in names])
        if source is None:
            return None
        new = {axis.name: axis for axis in pull.ty.axes}
        axes = tuple(new.get(pull.pairs.get(axis.name, axis.name), axis) for axis in source.ty.axes)
        return Renamed(ArrayType(axes, pull.ty.element), source, pull.pairs)
    return None


@dataclass(eq=False)
class Viewed(Pull):
    """Arrays read at computed indices (a gather, a window, a padded read)."""

    op: View
    sources: tuple[Pull, ...]

    def compute(self, k: Builder, index: At, guard: TileNode | None) -> TileNode:
        """The first read whose conditions hold. Raises TypeMismatch for a view without reads."""
        nodes = k.nodes

        def leaf(v: Any) -> TileNode:
            if isinstance(v, tuple):
                if v[0] == "i":
                    return index[v[1]]
                source = self.sources[v[1]]
                return k.at(source, {n: index[n] for n in source.ty.names}, None)
            return k.size(v) if isinstance(v, str) else nodes.const(v, "int")

        def join(op: str, a: TileNode, b: TileNode) -> TileNode:
            return nodes.op({"+": "add", "*": "mul", "//": "floordiv"}[op], a, b)

        def value(e: Expr) -> TileNode:
            return read_off(e, leaf, join)

        made: TileNode | None = None
        for read, source in reversed(list(zip(self.op.reads, self.sources, strict=False))):
            at = dict(read.at)
            holds: TileNode | None = None
            for sign, left, right in read.where:
                one = nodes.op(sign, value(left), value(right))
                holds = one if holds is None else nodes.op("and", holds, one)
            both = guard if holds is None else holds if guard is None else nodes.op("and", guard, holds)
            places = {n: value(at[n]) if n in at else index[n] for n in source.ty.names}
            own = k.at(source, places, both)
            made = own if made is None or holds is None else nodes.op("where", holds, own, made)
        if made is None:
            raise TypeMismatch(f"{self.op.name} reads no array: expected at least one read")
        return made


def viewed(box: Box, args: Sequence[Pull]) -> Pull:
    """The result of a box that moves entries without computing: a rename, a reshape or a view."""
    ty = box.cod[0]
    return op_row(VIEWED, box, "read as a view")(ty, box.op, tuple(args))


VIEWED: Mapping[type[Op], Callable[[ArrayType, Any, tuple[Pull, ...]], Pull]] = {
    Rename: lambda ty, op, args: Renamed(ty, args[0], dict(op.pairs)),
    Reindex: Arranged,
    View: Viewed,
}
"""The array that an index map gives of others, by its class."""


def state_of(pull: Pull) -> TileNode:
    """The node of a state. Raises TypeMismatch for what is in memory."""
    if not isinstance(pull, Made):
        raise TypeMismatch("a loop carries a value that is not a tile: expected a state in registers")
    return pull.node
