"""One kernel: its arrays, sizes and tile dimensions, and the expression nodes of what it computes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from catdiag.category import ops
from catdiag.category.index_maps import read_off
from catdiag.category.ops import Box, clamped, op_row
from catdiag.category.scalars import Apply
from catdiag.category.types import ArrayType, Axis, Size, element_bytes, size_symbols
from catdiag.codegen.names import Names
from catdiag.codegen.syntax import (
    LEVELS,
    Name,
    Number,
    Parens,
    PythonExpression,
    bracketed,
    call,
    compared,
    dotted,
    joined,
)
from catdiag.codegen.triton import array_boxes
from catdiag.codegen.triton.array_accesses import (
    ArrayPart,
    At,
    AxisPositions,
    Made,
    Mapped,
    Pull,
    Scalar,
    StoredArray,
    viewed,
)
from catdiag.codegen.triton.array_boxes import BoxAccess, Boxes
from catdiag.codegen.triton.dot import SHORTEST, contracted
from catdiag.codegen.triton.edge_masks import EdgeMasks
from catdiag.codegen.triton.mask_ranges import Bound, UnmaskedRange, reach, solved
from catdiag.codegen.triton.tile_expressions import NEUTRAL, Nodes
from catdiag.codegen.triton.tile_fills import Fill
from catdiag.codegen.triton.tile_nodes import Dim, Scope, TileNode, from_array, terms
from catdiag.schedule.array_views import picks_entries
from catdiag.schedule.statements import Let, LoopSpan, NestValue
from catdiag.util.errors import TypeMismatch, source_place

UNROLLED = 4
"""Parts whose states a kernel that merges them loads before it waits for the first."""
SINGLE = (2 - 2.0**-23) * 2.0**127
"""The largest number of float32, in which kernels compute."""


@dataclass(eq=False)
class Tile:
    """A tile of the grid or a block of a loop: where it starts, and the size of its axis (`whole`).

    `single` says that the tile is one entry. `block` is the name of the length of its block in entries, which may be
    longer than the tile; `length` is the default of that length. `exact` is the name of the constant that says whether
    the tile divides the axis, and `loop` is the loop whose block it is, if any.
    """

    span: LoopSpan
    start: TileNode
    whole: TileNode
    scope: Scope
    single: bool = False
    block: str = ""
    exact: str = ""
    loop: KernelLoop | None = None
    length: int = 0


@dataclass(eq=False)
class KernelLoop:
    """A loop over blocks, with the range in which no block needs a mask; the variable `phase` numbers its ranges."""

    phase: str = "phase"
    unmasked: UnmaskedRange = field(default_factory=UnmaskedRange)
    edge: EdgeMasks = field(default_factory=EdgeMasks)

    @property
    def exact(self) -> PythonExpression:
        """The expression that is true in the phase whose blocks need no mask."""
        return compared(Name(self.phase), "==", Number(1 if self.unmasked.lower else 0))


class Build:
    """The nodes of one kernel, made from the statements of a loop nest.

    `env` gives the arrays that the kernel reads, `size_names` the names of sizes in the kernel, `dtypes` the element
    types of arrays by name. `merged_array` gives an array with neighboring axes as one, `array_part` a part of one.
    """

    def __init__(
        self,
        names: Names,
        env: Mapping[NestValue, Pull],
        size_names: Mapping[str, str],
        dtypes: Mapping[str, str],
        merged_array: Callable[[StoredArray, Sequence[str], Names], StoredArray | None],
        array_part: Callable[[Pull, Names], StoredArray | None],
    ):
        self.merged_array, self.array_part = merged_array, array_part
        self.names = names
        self.size_names = size_names
        self.dtypes = dtypes
        self.root = Scope()
        self.nodes = Nodes(self.root, [n for n, kind in dtypes.items() if element_bytes(kind) == 1])
        self.env: dict[NestValue, Pull] = dict(env)
        self.memo: dict[Any, TileNode] = {}
        self.dims: dict[tuple[str, Size], Dim] = {}
        self.tiles: dict[str, Tile] = {}
        self.local: dict[str, TileNode] = {}
        self.loops: list[Tile] = []
        self.arrays: dict[StoredArray, None] = {}
        self.stored: dict[StoredArray, None] = {}
        self.strides: dict[tuple[StoredArray, str], str] = {}
        self.scalars: dict[StoredArray, str] = {}
        self.sizes: dict[str, str] = {}
        self.constants: dict[str, None] = {}
        self.blocks: dict[str, Size] = {}
        self.boxes: dict[tuple[StoredArray, tuple[str, ...], tuple[int, ...]], Boxes] = {}
        self.units_first = True
        """Whether boxes have the axes of one entry first: of kernels whose layouts the compiler chooses."""
        self.reads: dict[StoredArray, dict[tuple[TileNode, ...], None]] = {}
        self.writes: dict[StoredArray, dict[tuple[TileNode, ...], None]] = {}
        """The indices at which arrays are read and written, a node for each axis."""
        self.reaches: dict[tuple[tuple[StoredArray, str, Bound], ...], None] = {}
        """Bounds of the offsets within tiles: each is a sum of (array, axis, most steps) times the axis' stride."""
        self.scope = self.root

    # -- sizes and dimensions ------------------------------------------------------------------------------

    def size(self, size: Size, read: bool = True) -> TileNode:
        """A size as an integer expression; for a block, the number of its entries that are in the array. Unless it is
        `read`, it is only compared here, and no argument of the kernel."""

        def leaf(v: Any) -> TileNode:
            if isinstance(v, int):
                return self.nodes.const(v, "int")
            if v in self.local:
                return self.local[v]
            if v in self.tiles:
                return self._length(self.tiles[v])
            name = self.sizes.get(v, self.size_names.get(v, v))
            return self.nodes.symbol(self.sizes.setdefault(v, name) if read else name, positive=True)

        return read_off(size, leaf, lambda op, a, b: self.nodes.op("add" if op == "+" else "mul", a, b))

    def _length(self, tile: Tile) -> TileNode:
        if tile.single:
            return self.nodes.const(1, "int")
        rest = self.nodes.op("sub", tile.whole, tile.start)
        return self.nodes.op("min", self.nodes.symbol(tile.span.symbol, positive=True), rest)

    def dim(self, axis: Axis) -> Dim | None:
        """The tile dimension of an axis; None if the tile has one entry along it."""
        size = axis.size
        if size == 1:
            return None
        tile = self.tiles.get(size) if isinstance(size, str) and size not in self.local else None
        if tile is not None and tile.single:
            return None
        key = (axis.name, size)
        found = self.dims.get(key)
        if found is None or (tile is not None and found.scope is not tile.scope):
            found = self.dims[key] = self._tiled(axis, tile) if tile is not None else self._full(axis)
        return found

    def _tiled(self, axis: Axis, tile: Tile) -> Dim:
        """The dimension of a tile or block, with the mask of the entries that are in it and in the array."""
        exact = Name(tile.exact) if tile.exact else None
        dim = Dim(axis.name, axis.size, tile.block, tile.scope, exact, loop=tile.loop, length=tile.length)
        place = self.nodes.arange(dim)
        dim.within = self.nodes.op("lt", self.nodes.op("add", tile.start, place), tile.whole)
        if tile.block != tile.span.symbol and tile.loop is None:
            own = self.nodes.op("lt", place, self.nodes.symbol(tile.span.symbol, positive=True))
            dim.within = self.nodes.op("and", own, dim.within)
        return dim

    def _full(self, axis: Axis) -> Dim:
        """The dimension of an axis that is not tiled: its block is padded to the next power of two."""
        size = axis.size
        if isinstance(size, int):
            block = 1 << (size - 1).bit_length()
            exact, length = Number(block == size), block if block < SHORTEST else 0
            dim = Dim(axis.name, size, str(block), self.root, exact=exact, length=length)
            if block != size:
                dim.within = self.nodes.op("lt", self.nodes.arange(dim), self.nodes.const(size, "int"))
            return dim
        own = size_symbols(size) & (set(self.tiles) | set(self.local))
        if own:
            raise TypeMismatch(
                f"axis {axis.name} has size {size}, which depends on the tile length {', '.join(sorted(own))}: "
                "expected the length of a tile or the size of a whole axis. Group or stream the axis it is made of"
            )
        for symbol in sorted(size_symbols(size)):
            self.constants[symbol] = None
        text = self.size(size)
        name = next((b for b, s in self.blocks.items() if s == size), None)
        if name is None:
            name = self.names.fresh(f"{axis.name if axis.name.isidentifier() else 'axis'}_block")
            self.blocks[name] = size
        dim = Dim(axis.name, size, name, self.root)
        dim.within = self.nodes.op("lt", self.nodes.arange(dim), text)
        dim.exact = compared(sized(size, self.sizes), "==", Name(name))
        return dim

    def index(self, ty: ArrayType) -> dict[str, TileNode]:
        """The positions of the entries of a tile, relative to its start."""
        found = {}
        for axis in ty.axes:
            dim = self.dim(axis)
            found[axis.name] = self.nodes.const(0, "int") if dim is None else self.nodes.arange(dim)
        return found

    # -- values ----------------------------------------------------------------------------------------------

    def at(self, value: Pull, index: At, guard: TileNode | None) -> TileNode:
        """The entries of an array at an index. They are memoized."""
        key = (value, tuple(sorted((n, id(i)) for n, i in index.items())), guard)
        found = self.memo.get(key)
        if found is None:
            found = self.memo[key] = value.compute(self, index, guard)
        return found

    def merged(self, array: StoredArray, names: Sequence[str]) -> StoredArray | None:
        """The same memory with neighboring axes as one of one stride; None where the launch has no such array."""
        return self.merged_array(array, names, self.names)

    def tile(self, value: NestValue) -> TileNode:
        """The tile of a value of the loop nest."""
        return self.at(self.env[value], self.index(value.ty), None)

    def replace(self, value: NestValue, node: TileNode) -> None:
        """Makes a node the tile of a value. It may differ from the earlier one outside the array only."""
        self.memo[(self.env[value], tuple(sorted((n, id(i)) for n, i in self.index(value.ty).items())), None)] = node

    def load(self, array: StoredArray, index: At, guard: TileNode | None) -> TileNode:
        """A masked load from an array in global memory; positions outside the array give 0."""
        ty = array.ty
        if not ty.axes and not array.temporary:
            name = self.scalars.setdefault(array, array.name)
            return self.nodes.symbol(
                name, "int" if ty.element == "int" else ty.element if ty.element == "bool" else "real"
            )
        self.arrays[array] = None
        places = tuple(index[a.name] for a in ty.axes)
        self.reads.setdefault(array, {})[places] = None
        scalar, tiled, dims = self.offsets(array, index)
        ragged = [d for d in dims if d.within is not None]
        conditions = [d.within for d in ragged if d.within is not None]
        exact = tuple((d.exact, d.loop) for d in ragged)
        guard = None if guard is not None and guard.value else guard
        sure = list(conditions)
        if guard is not None:
            sure.append(guard)
        sizes = [self.size(axis.size, read=False) for axis in ty.axes]
        for place, axis in zip(places, ty.axes, strict=True):
            if from_array(place):
                inside = self.nodes.op("and", self.nodes.op("le", self.nodes.const(0, "int"), place),
                                       self.nodes.op("lt", place, self.size(axis.size)))  # fmt: skip
                sure.append(inside)
                guard = inside if guard is None else self.nodes.op("and", guard, inside)
        element = {"int": "int", "bool": "bool"}.get(ty.element, "raw")
        joined = self.nodes.joined([tiled, *sure])
        order = [*dims, *(d for d in joined if d not in dims)]
        known = guard is None or (not any(map(from_array, places)) and array_boxes.inside(guard, places, sizes))
        access = array_boxes.boxed(self.nodes, array, places) if known else None
        offsets = None if access is None else self._row_offsets(array, access)
        access = None if offsets is None else access
        starts = () if access is None else [access.starts[k] for k in self._order(access)]
        box = None if access is None else self.boxes_of(array, access, offsets or ())
        fills: dict[Dim, Fill] = dict.fromkeys(ragged, 0.0)
        if access is not None:  # what is outside of a slice or of a window's tile may be in the array
            for dim, start, size in zip(access.dims, access.starts, sizes, strict=True):
                if dim in fills and not array_boxes.ends_with(dim, start, size):
                    fills[dim] = None
        self.nodes.note = ""
        data = (array, exact, guard is not None, len(sure), box, "")
        args = (scalar, tiled, *sure, *starts)
        node = self.nodes.make("load", args, order, element, data, fills=fills, heavy=True)
        node.wanted = f"{array.name}_tile"
        return node

    def _order(self, access: BoxAccess) -> tuple[int, ...]:
        return access.units_first if self.units_first else tuple(range(len(access.dims)))

    def _row_offsets(self, array: StoredArray, access: BoxAccess) -> tuple[str, ...] | None:
        tiles = {tile.start for tile in self.tiles.values() if not tile.single}
        width = element_bytes(self.dtypes[array.name]) if array.name in self.dtypes else 1
        return array_boxes.row_offsets(access.starts[-1], tiles, set(self.sizes.values()), width)

    def boxes_of(self, array: StoredArray, access: BoxAccess, offsets: tuple[str, ...]) -> Boxes:
        """The boxes of an array with some dimensions; those of one shape share a tensor descriptor."""
        looped = any(d is not None and d.loop is not None for d in access.dims)
        moving = [d for d, start in zip(access.dims, access.starts, strict=True) if start.scope is not self.root]
        windowed = not looped and any(d is not None for d in moving)
        looped |= bool(moving) and (not windowed or bool(self.nodes.sides))
        order = self._order(access)
        shape = tuple("1" if (d := access.dims[k]) is None else d.block for k in order)
        found = self.boxes.get((array, shape, order))
        if found is None:
            made = Boxes(self.names.fresh(f"{array.name}_blocks"), array, shape, order)
            found = self.boxes[array, shape, order] = made
        found.looped |= looped
        found.windowed |= windowed
        found.offsets = tuple(dict.fromkeys((*found.offsets, *offsets)))
        return found

    def offsets(self, array: StoredArray, index: At) -> tuple[TileNode, TileNode, list[Dim]]:
        """The offsets of entries, in elements: (part shared by the tile, part within the tile, its dimensions)."""
        nodes = self.nodes
        scalar, tiled = nodes.const(0, "int"), nodes.const(0, "int")
        dims: list[Dim] = []
        far: list[tuple[StoredArray, str, Bound]] = []
        for axis in array.ty.axes:
            stride = self.stride(array, axis.name)
            shared, own = nodes.const(0, "int"), nodes.const(0, "int")
            for sign, term in terms(index[axis.name]):
                if term.dims:
                    own = nodes.op(sign, own, term) if own.value != 0 or sign == "sub" else term
                else:
                    shared = nodes.op(sign, shared, term)
            if shared.value != 0:
                wide = shared if shared.value is not None else nodes.make("long", (shared,), (), "int")
                scalar = nodes.op("add", scalar, nodes.op("mul", wide, stride))
            if own.value != 0:
                # Positions within a tile are small. The launch tests whether strides are so long that the product
                # needs 64 bits. A position that is read from an array has no bound, so its offset always has 64 bits.
                most = reach(own)
                if most is None:
                    own = nodes.make("long", (own,), own.dims, "int")
                else:
                    far.append((array, axis.name, most))
                part = nodes.op("mul", own, stride)
                dims += [d for d in own.dims if d not in dims]
                # Summed in the order of the array's axes, the order of memory.
                tiled = part if tiled.value == 0 else nodes.make("add", (tiled, part), dims, "int")
        if far:
            self.reaches[tuple(far)] = None
        return scalar, tiled, dims

    def stride(self, array: StoredArray, axis: str) -> TileNode:
        """The stride of an array along an axis, in elements."""
        key = (array, axis)
        if key not in self.strides:
            self.strides[key] = self.names.fresh(f"{array.name}_{axis if axis.isidentifier() else len(self.strides)}")
        return self.nodes.symbol(self.strides[key])

    def where(self, args: Sequence[TileNode]) -> TileNode:
        """A selection. If a loop's blocks can be divided by its condition, it is made only in blocks at the edges."""
        condition, first, second = args
        nodes = self.nodes
        joined = self.nodes.joined((condition,)) if condition.dims else ()
        for tile in reversed(self.loops):
            dim = next((d for d in joined if d.loop is tile.loop and tile.loop is not None), None)
            if dim is None or tile.loop is None:
                continue
            for holds, kept, other in ((condition, first, second), (nodes.op("not", condition), second, first)):
                if other.dims or not kept.dims:
                    continue
                found = solved(nodes, holds, dim, tile.start, tile.whole)
                if found is None:
                    continue
                for mine, new in ((tile.loop.unmasked.lower, found.lower), (tile.loop.unmasked.upper, found.upper)):
                    mine += [n for n in new if n not in mine]
                real = any(a.element in ("real", "raw") for a in (first, second))
                pair = [nodes.real(a) for a in (kept, other)] if real else [kept, other]
                return nodes.guarded(holds, pair[0], pair[1], None, tile.loop)
        return nodes.op("where", condition, first, second)

    # -- boxes -------------------------------------------------------------------------------------------------

    def let(self, let: Let) -> None:
        """Lowers a box: a reduction or contraction to a tile, any other box to a function of indices."""
        op_row(BOXES, let.box, "part of a kernel")(self, let.box.op, let)

    def _map(self, op: ops.Map, let: Let) -> None:
        if isinstance(op.fn, Apply):
            raise _refused(let.box, f"the function {let.box.name} has a name and no definition")
        self.env[let.targets[0]] = Mapped(let.box.cod[0], op.fn, tuple(self.env[a] for a in let.args), noted(let.box))

    def _scalar(self, let: Let, value: float | None, size: Size | None = None) -> None:
        self.env[let.targets[0]] = Scalar(let.box.cod[0], value, size)

    def _size_of(self, op: ops.SizeOf, let: Let) -> None:
        if size_symbols(op.size) & set(self.local):  # what such a symbol is it is here only (`Within`)
            self.env[let.targets[0]] = Made(let.box.cod[0], self.size(op.size), ())
        else:
            self._scalar(let, None, op.size)

    def _positions(self, op: ops.Index, let: Let) -> None:
        self.env[let.targets[0]] = AxisPositions(let.box.cod[0])

    def _viewed(self, op: ops.Rename | ops.Reindex | ops.View, let: Let) -> None:
        made = viewed(let.box, [self.env[a] for a in let.args])
        self.env[let.targets[0]] = (picks_entries(let.box.op) and self.array_part(made, self.names)) or made

    def _reduce(self, op: ops.Reduce, let: Let) -> None:
        node = self.tile(let.args[0])
        axis = let.args[0].ty.axis(op.axis)
        dim = None if axis is None else self.dim(axis)
        self.nodes.note = noted(let.box)
        if dim is not None and dim not in node.dims:
            node = self._broadcast(node, dim)
        if dim is not None:
            masked = self.nodes.masked(node, dim, NEUTRAL[op.monoid])
            if masked is not node:
                self.replace(let.args[0], masked)
            node = self.nodes.reduce(op.monoid, masked, dim)
        self.env[let.targets[0]] = self.as_array(let.box.cod[0], node, let.box.name)

    def _einsum(self, op: ops.Einsum, let: Let) -> None:
        ty = let.box.cod[0]
        nodes = [self.tile(a) for a in let.args]
        self.nodes.note = noted(let.box)
        dims = [d for a in ty.axes if (d := self.dim(a)) is not None]
        summed = dict.fromkeys(a for v in let.args for a in v.ty.axes if a.name not in ty.names)
        for dim in (d for a in summed if (d := self.dim(a)) is not None):
            if not any(dim in n.dims for n in nodes):
                nodes[0] = self._broadcast(nodes[0], dim)
        self.env[let.targets[0]] = self.as_array(ty, contracted(self.nodes, nodes, dims), let.box.name)

    def _generic(self, op: ops.Generic, let: Let) -> None:
        raise _refused(let.box, "the box has a name and no definition")

    def _broadcast(self, node: TileNode, dim: Dim) -> TileNode:
        """A tile broadcast along a dimension."""
        dims = (*node.dims, dim)
        fills: dict[Dim, Fill] = {**node.fills, dim: node.value if node.value is not None else None}
        return self.nodes.make("spread", (node,), dims, node.element, fills=fills)

    def as_array(self, ty: ArrayType, node: TileNode, name: str) -> Made:
        """A tile as an array, which can be read at the tile's own index only."""
        return Made(ty, node, tuple(self.dim(a) for a in ty.axes), name)

    def part(self, target: NestValue, source: NestValue, spans: Sequence[LoopSpan]) -> None:
        """Lowers a slice: the block of an array at the current iteration of loops."""
        starts = {s.axis: self.tiles[s.symbol].start for s in spans}
        self.env[target] = ArrayPart(target.ty, self.env[source], starts)


BOXES: Mapping[type[ops.Op], Callable[[Build, Any, Let], None]] = {
    ops.Map: Build._map,
    ops.Index: Build._positions,
    ops.SizeOf: Build._size_of,
    ops.Const: lambda kernel, op, let: kernel._scalar(let, None if op.value is None else clamped(op.value, SINGLE)),
    ops.Rename: Build._viewed,
    ops.Reindex: Build._viewed,
    ops.View: Build._viewed,
    ops.Reduce: Build._reduce,
    ops.Einsum: Build._einsum,
    ops.Generic: Build._generic,
}
"""How each operation is lowered; those with bodies are statements of the loop nest."""


def axes_text(ty: ArrayType) -> str:
    """The names of the axes of an array in brackets, if it has any."""
    return f"[{' '.join(ty.names)}]" if ty.axes else ""


def noted(box: Box) -> str:
    """The comment on a box in generated code: its name, the axes of its result, the user's file and line."""
    axes = f" [{' '.join(box.cod[0].names)}]" if box.cod[0].axes else ""
    return f"{box.name}{axes}" + (f", {source_place(box.line).short}" if box.line is not None else "")


def _refused(box: Box, why: str) -> TypeMismatch:
    return TypeMismatch(
        f"{box.name} cannot be part of a kernel: {why}. Write what it computes with boxes of the library", box.line
    )


def tile_number(spans: Iterable[LoopSpan], starts: Mapping[str, str], k: Build, tl: str) -> PythonExpression:
    """The number of a tile among those of some axes, as an expression of 64 bits."""
    number: PythonExpression | None = None
    for span in spans:
        start, size = Name(starts[span.symbol]), sized(span.size, k.sizes)
        single = k.tiles[span.symbol].single
        own = start if single else joined(start, "//", Name(span.symbol))
        count = size if single else call(f"{tl}.cdiv", size, Name(span.symbol))
        number = own if number is None else joined(joined(bracketed(number, LEVELS["*"]), "*", count), "+", own)
    return call(f"{tl}.cast", number or Number(0), dotted(f"{tl}.int64"))


def sized(size: Size, sizes: Mapping[str, str]) -> PythonExpression:
    """A size as an expression of a kernel."""

    def leaf(v: Any) -> PythonExpression:
        return Number(v) if isinstance(v, int) else Name(sizes.get(v, v))

    return read_off(size, leaf, lambda op, a, b: Parens(joined(a, op, b)))
