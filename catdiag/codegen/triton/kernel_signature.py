"""A finished kernel as the launch function sees it: its statements, its arguments, and what the launch must respect."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from catdiag.category.ops import Box
from catdiag.category.types import INTEGER_BYTES, STORED, ArrayType, product, show
from catdiag.codegen.kernel_tree import Assign, If, PythonStatement
from catdiag.codegen.names import Names
from catdiag.codegen.syntax import Name, call, dotted
from catdiag.codegen.triton.additions import Addition
from catdiag.codegen.triton.array_accesses import Pull, StoredArray, unreshaped
from catdiag.codegen.triton.array_boxes import Boxes
from catdiag.codegen.triton.array_parts import stored_part, tensor_of
from catdiag.codegen.triton.mask_ranges import Bound
from catdiag.codegen.triton.tile_nodes import TileNode
from catdiag.schedule.element_widths import REST, cast_type, real_types, width
from catdiag.schedule.full_precision import statistics
from catdiag.schedule.live_ranges import view_roots
from catdiag.schedule.loop_nest import LoopNest
from catdiag.schedule.statements import LoopSpan, NestValue, Start, statements
from catdiag.util.errors import CatdiagError

L2_BYTES, PROGRAMS = 60 * 2**20, 264
"""Bytes of the L2 cache of an H200, and two programs for each of its cores, for modules that are written for no chip in
particular."""
WIDTHS = {"fp32": "float32", "fp16": "float16", "bf16": "bfloat16", "fp8": "float8_e4m3fn", "fp64": "float64",
          "tf32": "float32", "bool": "bool", **{name: name for name in INTEGER_BYTES}}  # fmt: skip
"""PyTorch's name of each hardware data type."""


def saved_types(program: LoopNest, dtype: str = "bf16") -> dict[NestValue, str]:
    """The element types of saved arrays that differ from the default.

    An array that a cast makes is saved in the type of the cast. A statistic (a maximum, a sum of exponentials) that one
    kernel saves for another is saved in fp32, or in fp64 if `dtype` is fp64.

    >>> import catdiag as cd
    >>> from catdiag.schedule.loop_nest import lower
    >>> wide = cd.algorithm("q x -> q")(lambda a: cd.exp(cd.cast(cd.sum(a, "x"), "fp32")))
    >>> list(saved_types(lower(wide.fuse(saved="cast:fp32 [q]").diagram)).values())
    ['fp32']
    """
    found: dict[NestValue, str] = {}
    graph, known = program.graph, statistics(program.graph)
    root, maker, first = view_roots(graph), graph.makers(), graph.first_wires()
    for target, wire in program.saved.items():
        place = maker[root[wire]]
        kind = cast_type(graph.nodes[place].box, root[wire] - first[place]) if place >= 0 else ""
        if kind in WIDTHS:
            found[target] = kind
        elif wire in known and target not in program.stored:
            found[target] = "fp64" if dtype == "fp64" else "fp32"
    return found


@dataclass(frozen=True, eq=False)
class KernelSpec:
    """A kernel: the statements of its body, and all that the launch function has to know of it."""

    name: str
    body: tuple[PythonStatement, ...]
    note: str
    """The first line of its docstring, without the period."""
    arrays: tuple[StoredArray, ...]
    strides: Mapping[tuple[StoredArray, str], str]
    """The names of strides, by array and axis."""
    scalars: Mapping[StoredArray, str]
    sizes: Mapping[str, str]
    """The names of sizes in the kernel, by symbol."""
    constants: tuple[str, ...]
    """The symbols of the sizes that are compile-time constants."""
    blocks: Mapping[str, Any]
    """The padded lengths of axes that are not tiled: the size of the axis, by the name of the length."""
    spans: tuple[LoopSpan, ...]
    """The tiles of the grid that are longer than one entry."""
    single: tuple[LoopSpan, ...]
    """The tiles of the grid that are one entry."""
    loops: tuple[LoopSpan, ...]
    padded: Mapping[str, str]
    """Tiles that are padded to the next power of two: the name of the padded length, by the tile's symbol."""
    exact: Mapping[str, LoopSpan]
    """The names of constants that say whether a tile divides its axis."""
    boxes: tuple[Boxes, ...] = ()
    """The blocks that the copy engine loads."""
    parts: LoopSpan | None = None
    """The axis of a split loop (split-K) of which each program runs one part."""
    chunk: LoopSpan | None = None
    """The axis of a split loop that this kernel runs or whose states it merges; it takes the argument `chunk`."""
    place: int = 0
    """The number of its group; warps and pipeline stages are given for each group."""
    summed: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Block lengths over which matrix products sum, each with the lengths of the blocks that it is merged with."""
    sides: tuple[str, ...] = ()
    """Block lengths that are rows or columns of a matrix product or are summed by one: they have a least length."""
    rows: tuple[tuple[str, ...], ...] = ()
    """For each matrix product, the block lengths of its rows."""
    order: tuple[str, ...] = ()
    """Tiles of the grid whose loops are longer, the further the tile is along its axis (as under a causal mask)."""
    imbalance: tuple[str, ...] = ()
    """Tiles of the grid on which the bounds of a loop depend: their programs take different times."""
    helpers: frozenset[str] = frozenset()
    phases: int = 0
    """The number of ranges into which its loops are divided, if tiles divide all axes: inside masks and at edges."""
    short: frozenset[str] = frozenset()
    """Blocks of whole axes that are padded to a power of two only, even below the least side of a matrix product."""
    merged_rows: tuple[tuple[str, ...], ...] = ()
    """Block lengths of dimensions that together are the rows of one matrix, in products with a computed row factor."""
    reaches: tuple[tuple[tuple[StoredArray, str, Bound], ...], ...] = ()
    """Bounds of the offsets within tiles: each is a sum of (array, axis, most steps) times the axis' stride."""
    reads: Mapping[StoredArray, tuple[tuple[TileNode, ...], ...]] = field(default_factory=dict)
    writes: Mapping[StoredArray, tuple[tuple[TileNode, ...], ...]] = field(default_factory=dict)
    """The indices at which each array is read and written, a node for each axis."""
    separately_rounded: bool = False
    """Whether fused multiply-add must be off: differences of large products must be 0 for equal operands."""
    starts: Mapping[str, str] = field(default_factory=dict)
    """The names of the first positions of the tiles of the grid, by the tile's symbol."""
    tile_names: Mapping[str, str] = field(default_factory=dict)
    """The names of the numbers of these tiles, which only the lines that compute first positions read."""
    added: Mapping[StoredArray, str] = field(default_factory=dict)
    """Arrays that tiles are added to, each with the name of how far apart the parts of tiles are in elements."""
    additions: tuple[Addition, ...] = ()
    """What its tiles add to these."""
    l2_bytes: int = L2_BYTES
    """Bytes of the L2 cache of the chip that it is for."""
    programs: int = PROGRAMS
    """How many programs it has at most if they go through runs of tiles."""
    zero_filled: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """The names in `exact` of loops whose blocks need no mask where the launch passes these descriptors."""
    waits: bool = False
    """Whether it is launched as a dependent of the kernel before (`catdiag.codegen.triton.dependent_launch`)."""
    triggers: bool = False
    """Whether the next kernel is launched as a dependent of it."""


def widened(kernel: KernelSpec, tl: str, read: Collection[str] | None = None) -> list[PythonStatement]:
    """The statements that make offsets within tiles 64-bit integers where the launch finds that 32 bits are too few.

    `tl` is the module of the language. They convert strides: those whose names are in `read`, or all if it is None.
    """
    far = dict.fromkeys(kernel.strides[array, axis] for sums in kernel.reaches for array, axis, _ in sums)
    names = [n for n in far if read is None or n in read]
    if not names:
        return []
    casts = [Assign((Name(n),), call(f"{tl}.cast", Name(n), dotted(f"{tl}.int64"))) for n in names]
    return [If(Name("wide"), casts, note="offsets in a tile pass 31 bits")]


@dataclass
class ModuleContext:
    """What the kernels of a module share: names, default tile lengths, element types, bytes of the L2, programs."""

    names: Names
    tiles: Mapping[str, int]
    dtypes: dict[str, str]
    dtype: str
    l2_bytes: int = L2_BYTES
    programs: int | Sequence[int] = PROGRAMS
    sizes: dict[str, str] = field(default_factory=dict)
    """The names of sizes, by symbol; a size whose symbol is also the name of an input has another name."""
    saved: dict[NestValue, StoredArray] = field(default_factory=dict)
    """The arrays in global memory that kernels write."""
    reshaped: Mapping[NestValue, Sequence[Box]] = field(default_factory=dict)
    """Values of which a reshape is written, as a result of the module: the boxes of this reshape."""
    factors: set[str] = field(default_factory=set)
    """The inputs that give the operand type of matrix products both of whose factors are computed."""
    results: set[StoredArray] = field(default_factory=set)
    """The results of the module, among those that kernels write."""
    parts: dict[StoredArray, tuple[str, tuple[LoopSpan, ...]]] = field(default_factory=dict)
    """For arrays that tiles are added to, the name of how far apart the parts of tiles are where they are stored, and
    the axes along which tiles are added up."""
    unreshaped: dict[StoredArray, Pull] = field(default_factory=dict)
    """Such results, read as these values are."""
    merged: dict[tuple[StoredArray, tuple[str, ...]], StoredArray] = field(default_factory=dict)
    """Arrays with neighboring axes as one of one stride, by the array and the axes."""
    array_parts: dict[tuple[StoredArray, str], StoredArray] = field(default_factory=dict)
    """Arrays that are parts of others at fixed positions, by the array and the expression of the tensor."""

    @property
    def written(self) -> dict[NestValue, Pull]:
        """What kernels have written, as others read it."""
        return {value: self.unreshaped.get(array, array) for value, array in self.saved.items()}

    def save(self, value: NestValue, name: str) -> StoredArray:
        """Enters the array that a value is written to."""
        boxes = self.reshaped.get(value, ())
        array = StoredArray(boxes[-1].cod[0] if boxes else value.ty, name, temporary=True)
        self.saved[value] = array
        if boxes:
            self.unreshaped[array] = unreshaped(array, boxes)
        return array

    def merged_array(self, array: StoredArray, names: Sequence[str], own: Names) -> StoredArray | None:
        """An array of the launch with these axes as one, under a name that is new in the module and among `own`.

        An input is copied by the launch if its axes have not one stride. A buffer is allocated with merged axes, so
        that only those that were asked for first are; those of a result are never.
        """
        if (found := self.merged.get((array, tuple(names)))) is not None:
            return found
        own_names = array.ty.names
        place = own_names.index(names[0])
        neighbors = own_names[place : place + len(names)] == tuple(names)
        if array.parts or array in self.results or array.source is not None:
            return None
        if array.temporary and any(other is array for other, _ in self.merged):
            return None
        own_axes = {axis.name: axis for axis in array.ty.axes}
        if any(own_axes[n].kind != "name" for n in names):
            return None
        others = [own_axes[n] for n in own_names if n not in names]
        at = place if neighbors else len(others)
        while (name := self.names.fresh(f"{array.name}_merged")) in own.taken:
            pass
        own.taken.add(name)
        axes = (*others[:at], product(*(own_axes[n] for n in names)), *others[at:])
        found = StoredArray(ArrayType(axes, array.ty.element), name, array.temporary, source=array)
        if array.name in self.dtypes:
            self.dtypes[name] = self.dtypes[array.name]
        if array.name in self.factors:
            self.factors.add(name)
        self.merged[array, tuple(names)] = found
        return found

    def array_part(self, part: Pull, own: Names) -> StoredArray | None:
        """An array of the launch that is a part of another at fixed positions, under a name that is new in the module
        and among `own`; None of arrays that are parts of others, or have their axes merged."""
        array = stored_part(part)
        if array is None or array.parts or array.source is not None:
            return None
        key = array, str(tensor_of(part, lambda size: Name(show(size))))
        if key not in self.array_parts:
            while (name := self.names.fresh(f"{array.name}_part")) in own.taken:
                pass
            own.taken.add(name)
            self.array_parts[key] = StoredArray(part.ty, name, array.temporary, source=array, part=part)
            if array.name in self.dtypes:
                self.dtypes[name] = self.dtypes[array.name]
            if array.name in self.factors:
                self.factors.add(name)
        own.taken.add(self.array_parts[key].name)
        return self.array_parts[key]

    def programs_of(self, place: int) -> int:
        """How many programs of a group's kernel go through runs of tiles at most."""
        return self.programs if isinstance(self.programs, int) else self.programs[place]


def check_types(program: LoopNest, dtype: str | Mapping[str, str]) -> None:
    """Raises CatdiagError for an unknown type, and for an array that a program lacks."""
    for kind in real_types(dtype):
        width(kind)
    known = dict.fromkeys([v.name for v in (*program.inputs, *program.outputs)] + _states(program))
    for name in () if isinstance(dtype, str) else dtype:
        if name not in known and name != REST:
            raise CatdiagError(f"dtype names an array {name!r} that the diagram lacks: it has {', '.join(known)}")


def _states(program: LoopNest) -> list[str]:
    """The names of loop states; they are in float32, whatever type `dtype` gives them."""
    return [v.name for _, s in statements(program.body) if isinstance(s, Start) for v in s.states]


def torch_type(array: StoredArray, dtypes: Mapping[str, str], dtype: str) -> str:
    """The torch type of an array's elements, without "torch."."""
    return WIDTHS[dtypes.get(array.name) or STORED.get(array.ty.element, dtype)]
