"""Arrays of a program as functions of indices: an entry is computed where, and at which index, it is asked for.

A view, a slice or a repetition is another index, and an elementwise function is the same at each; so what a kernel
asks for of an array is all that it loads. What was reduced or contracted is a tile and has its entries where they are.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from catdiag.category.index_maps import Expr, read_off
from catdiag.category.ops import Box, Reindex, Rename, View
from catdiag.category.types import ArrayType, Axis, Size
from catdiag.codegen.triton.tile_expressions import Dim, Fill, Nodes, TileNode
from catdiag.util.errors import TypeMismatch

At = Mapping[str, TileNode]


class Builder(Protocol):
    """What a value asks of the kernel that it is computed in."""

    nodes: Nodes

    def dim(self, axis: Axis) -> Dim | None:
        """The dimension of an axis: none for one that is a single entry at a time."""

    def size(self, size: Size) -> TileNode:
        """A size as a number of the kernel."""

    def at(self, value: Pull, index: At, guard: TileNode | None) -> TileNode:
        """The entries of a value, computed once."""

    def load(self, array: StoredArray, index: At, guard: TileNode | None) -> TileNode:
        """Entries of an array of slow memory."""

    def where(self, args: Sequence[TileNode]) -> TileNode:
        """A choice, whose condition may be known of whole blocks."""


@dataclass(eq=False)
class Pull:
    """An array of a type, by what its entries are."""

    ty: ArrayType

    def compute(self, k: Builder, index: At, guard: TileNode | None) -> TileNode:
        """The entries at an index for each axis; no entry is read where `guard` fails."""
        raise NotImplementedError


@dataclass(eq=False)
class StoredArray(Pull):
    """An array of slow memory, by the name that kernels and the launch know it by."""

    name: str
    temporary: bool = False
    parts: bool = False
    """Whether it has a row for each part of a loop."""

    def compute(self, k: Builder, index: At, guard: TileNode | None) -> TileNode:
        """A load; a scalar is an argument of the kernel."""
        return k.load(self, index, guard)


@dataclass(eq=False)
class Made(Pull):
    """A tile that was computed as a whole; `dims` are the dimensions of its axes (None for a single entry)."""

    node: TileNode
    dims: tuple[Dim | None, ...]
    named: str = ""

    def compute(self, k: Builder, index: At, guard: TileNode | None) -> TileNode:
        """The tile, under other names of its dimensions."""
        pairs: dict[Dim, Dim] = {}
        for axis, dim in zip(self.ty.axes, self.dims, strict=True):
            place = index[axis.name]
            if dim is None:
                if place.value != 0:
                    raise self._elsewhere(axis.name)
            elif place.kind != "arange" or place.dims[0].block != dim.block:
                raise self._elsewhere(axis.name)
            else:
                pairs[dim] = place.dims[0]
        if all(old is new for old, new in pairs.items()):
            return self.node
        if len(set(map(id, pairs.values()))) < len(pairs):
            raise self._elsewhere(" and ".join(d.axis for d in pairs))
        return relabeled(k.nodes, self.node, pairs)

    def _elsewhere(self, axis: str) -> TypeMismatch:
        return TypeMismatch(
            f"{self.named or 'what a kernel has computed'} {self.ty} is read along axis {axis} elsewhere than where it "
            "is: a tile in registers cannot be. Let it be saved to memory in between (a kernel of its own, .fuse)"
        )


def relabeled(nodes: Nodes, node: TileNode, pairs: Mapping[Dim, Dim]) -> TileNode:
    """The tile of a node with other dimensions of the same lengths."""
    if node.kind == "scaled":
        return nodes.scaled(relabeled(nodes, node.args[0], pairs), node.args[1])
    dims = tuple(pairs.get(d, d) for d in node.dims)
    fills: dict[Dim, Fill] = {pairs.get(d, d): f for d, f in node.fills.items()}
    return nodes.make("relabel", (node,), dims, node.element, fills=fills)


@dataclass(eq=False)
class Mapped(Pull):
    """A scalar function of arrays, entry by entry."""

    fn: str
    args: tuple[Pull, ...]
    note: str = ""

    def compute(self, k: Builder, index: At, guard: TileNode | None) -> TileNode:
        """The function of the entries at the same index."""
        parts = [k.at(a, {n: index[n] for n in a.ty.names}, guard) for a in self.args]
        k.nodes.note = self.note
        if self.fn.startswith("cast:"):
            return k.nodes.make("cast", (k.nodes.real(parts[0]),), parts[0].dims, "real", self.fn[5:],
                                fills=dict(parts[0].fills))  # fmt: skip
        return k.where(parts) if self.fn == "where" else k.nodes.op(self.fn, *parts)


@dataclass(eq=False)
class Positions(Pull):
    """The positions along an axis."""

    def compute(self, k: Builder, index: At, guard: TileNode | None) -> TileNode:
        """The index itself."""
        return index[self.ty.names[0]]


@dataclass(eq=False)
class Scalar(Pull):
    """A constant or a size; `size` None is the constant."""

    value: float | None
    size: Size | None = None

    def compute(self, k: Builder, index: At, guard: TileNode | None) -> TileNode:
        """The number."""
        if self.size is not None:
            return k.size(self.size)
        value = float("-inf") if self.value is None else self.value
        return k.nodes.const(value, "int" if self.ty.element == "int" else "real")


@dataclass(eq=False)
class ArrayPart(Pull):
    """The part of an array that loops are at: `starts` says where it begins along each of their axes."""

    source: Pull
    starts: Mapping[str, TileNode]

    def compute(self, k: Builder, index: At, guard: TileNode | None) -> TileNode:
        """The array, as much further on."""
        moved = {n: k.nodes.op("add", self.starts[n], at) if n in self.starts else at for n, at in index.items()}
        return k.at(self.source, moved, guard)


@dataclass(eq=False)
class PartialState(Pull):
    """A state of one part of a loop, which another kernel has left: `part` is the first axis of the array."""

    array: StoredArray
    part: TileNode
    starts: Mapping[str, TileNode]

    def compute(self, k: Builder, index: At, guard: TileNode | None) -> TileNode:
        """A load from the part's own row."""
        moved = {n: k.nodes.op("add", self.starts[n], at) if n in self.starts else at for n, at in index.items()}
        return k.load(self.array, {self.array.ty.names[0]: self.part, **moved}, guard)


@dataclass(eq=False)
class Renamed(Pull):
    """An array whose axes have other names; it is repeated along those that it lacks."""

    source: Pull
    pairs: Mapping[str, str]

    def compute(self, k: Builder, index: At, guard: TileNode | None) -> TileNode:
        """The array at the index by its own names."""
        return k.at(self.source, {n: index[self.pairs.get(n, n)] for n in self.source.ty.names}, guard)


@dataclass(eq=False)
class Arranged(Pull):
    """An array over a product of axes as one over the factors, or the other way; a part of a sum of axes."""

    op: Reindex
    sources: tuple[Pull, ...]

    def compute(self, k: Builder, index: At, guard: TileNode | None) -> TileNode:
        """The arrays at the index that row-major order gives."""
        op, nodes, parts = self.op, k.nodes, self.op.axis.parts
        rest = {n: at for n, at in index.items() if n not in {a.name for a in op.added_axes()}}
        if op.kind == "split":
            place = nodes.const(0, "int")
            for p in parts:
                place = nodes.op("add", nodes.op("mul", place, k.size(p.size)), index[p.name])
            return self._read(k, 0, {**rest, op.axis.name: place}, guard)
        place = index[op.added_axes()[0].name]
        if op.kind == "merge":
            found: dict[str, TileNode] = {}
            for p in reversed(parts):
                size = k.size(p.size)
                above = nodes.op("floordiv", place, size)
                found[p.name] = nodes.op("sub", place, nodes.op("mul", above, size))
                place = above
            found[parts[0].name] = nodes.op("floordiv", index[op.axis.name], self._after(k, parts[1:]))
            return self._read(k, 0, {**rest, **found}, guard)
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
            raise TypeMismatch(f"{op.name} joins nothing")
        return made

    def _read(self, k: Builder, j: int, index: At, guard: TileNode | None) -> TileNode:
        source = self.sources[j]
        return k.at(source, {n: index[n] for n in source.ty.names}, guard)

    def _before(self, k: Builder, count: int) -> TileNode:
        start = k.nodes.const(0, "int")
        for p in self.op.axis.parts[:count]:
            start = k.nodes.op("add", start, k.size(p.size))
        return start

    def _after(self, k: Builder, parts: Sequence[Axis]) -> TileNode:
        size = k.nodes.const(1, "int")
        for p in parts:
            size = k.nodes.op("mul", size, k.size(p.size))
        return size


@dataclass(eq=False)
class Viewed(Pull):
    """An array read at computed indices."""

    op: View
    sources: tuple[Pull, ...]

    def compute(self, k: Builder, index: At, guard: TileNode | None) -> TileNode:
        """The first of the reads whose conditions hold."""
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
            raise TypeMismatch(f"{self.op.name} reads nothing")
        return made


def viewed(box: Box, args: Sequence[Pull]) -> Pull:
    """What a box that only reads elsewhere makes of arrays."""
    ty = box.cod[0]
    if isinstance(box.op, Rename):
        return Renamed(ty, args[0], dict(box.op.pairs))
    if isinstance(box.op, Reindex):
        return Arranged(ty, box.op, tuple(args))
    if isinstance(box.op, View):
        return Viewed(ty, box.op, tuple(args))
    raise TypeMismatch(f"{box.name} is no view", box.line)
