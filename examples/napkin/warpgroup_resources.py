"""The arrays of a kernel that has matrix units, arithmetic and registers: what there is room for, where, and whose.

Read off a derived diagram (one group, its loops, its casts) by rules that say what hardware like Hopper's asks:

- **Who works.** A thread block is several *warpgroups*, which divide the tile of one axis (`w_q` rows each); an array
  with that axis is a warpgroup's own, any other is the thread block's, and all of its warpgroups read it.
- **Matrix units** do the products of two or more arrays that sum over something, everything else is *arithmetic*.
- **Loads** go to shared memory, for as long as the kernel runs, or block by block for as long as the loop does (then
  with `stages` buffers). Matrix units read them there.
- **Registers** hold what is made. Each array has a place of its own, for as long as the kernel or the loop runs, but:
  what only an elementwise function of the same axes reads passes on the way, without room (sums, only if they go
  straight into another array); the result of a function
  takes over the place of an input of the same axes and type that nobody needs any more, and the new value of a state
  that of the old one. A place that matrix units write is not taken over: they write the next block's beside. Outside
  loops, the room of their temporaries is free again.
- **Pipes.** What matrix units make for arithmetic, or read from it, goes through shared memory, one pipe a warpgroup
  and direction, as large as the largest array that passes. Products that are added to nothing but a state stay where
  they are: no pipe (`pipes=False`: none at all, as where fragments are worked on in registers).
- **Work** is counted as `catdiag.cost.traffic` does, but where products pass a pipe to be added, arithmetic adds them.
- **Pieces** (`u_a`, `v_a`): with `u_a`, products pass in pieces of `u_a` along their axis `a`, and so are held if no
  sum reads them; with `v_a`, what arithmetic passes on the way has room for a piece of `v_a`.

Sources: the steps of Abbott and Zardini, "FlashAttention on a Napkin" (TMLR 2025), sections 5.1 to 5.5; the rules by
which places are shared and pipes are sized are made here, since the paper gives a table and not its rules.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from catdiag.category.diagram import Diagram, Graph, Node, diagram_of
from catdiag.category.integer_polynomial import ONE, IntPolynomial
from catdiag.category.op_facts import contracts, elementwise
from catdiag.category.ops import Box, Einsum, FoldOp, GroupOp, Map, Reduce, array_name
from catdiag.category.scalars import Cast
from catdiag.category.substitution import inline
from catdiag.category.types import ArrayType, Axis, union
from catdiag.chip import hardware as chips
from catdiag.chip.hardware import Hardware
from catdiag.schedule.element_widths import Dtype, width
from catdiag.schedule.kernel_analysis import measure
from catdiag.schedule.live_ranges import is_view, live_ranges, multiplies, rematerialized
from catdiag.schedule.pipelines import pipeline
from catdiag.schedule.stored_types import widths_of
from catdiag.util import argument_checks as given
from catdiag.util.errors import AxisError, CatdiagError
from examples.napkin.warpgroup_tables import (
    BLOCK,
    END,
    GROUP,
    KERNEL,
    REGISTERS,
    SMEM,
    Multiple,
    OnChipArray,
    PipelineWork,
    Subloop,
    WarpgroupResources,
    width_of,
)


def read_columns(
    diagram: Diagram | Any,
    dtype: Dtype = "fp16",
    *,
    arithmetic: str = "fp32",
    stages: int = 2,
    split: str | None = None,
    pieces: str | Sequence[str] = (),
    pipes: bool = True,
    types: Mapping[str, str] | None = None,
    hardware: Hardware | str = "H100",
) -> WarpgroupResources:
    """The arrays of a derived kernel by the rules above.

    `dtype` is the type of inputs and outputs, or gives it by name (fp32 for those left out); what is made on chip has
    that of `arithmetic`, or of its cast, or that which `types` gives it by the name in the table (for an array that
    the program does not cast). `split` is the axis that warpgroups divide, by default the first one grouped.
    `pieces` names those wanted, "u_x u_d v_d". The shapes of matrix instructions and of loads, and how many threads a
    warpgroup has (those that work on one instruction), are those of `hardware`.

    Raises CatdiagError for several kernels, parts or none, for loops that skip blocks and groups along windows,
    for names of no array and for a chip that does not hold in
    registers what is made; AxisError for an axis that is not grouped and for pieces of an unknown one.

    >>> import catdiag as cd
    >>> product = cd.algorithm("a b, b c")(lambda A, B: cd.einsum("a b, b c -> a c", A, B))
    >>> print(read_columns(product.stream("b").group("a c")))
    array  shape                 type  level      of a          copies  bytes
    A      w_a^(128) x s_b^(64)  fp16  SMEM       warpgroup     2       4*s_b*w_a
    B      s_b^(64) x g_c^(64)   fp16  SMEM       thread block  2       4*g_c*s_b
    sum1   w_a^(128) x g_c^(64)  fp32  registers  warpgroup     1       4*g_c*w_a
    """
    diagram = diagram_of(diagram)
    given.dtypes(dtype)
    chip = chips.get(hardware)
    if chip.accumulators != REGISTERS:
        raise CatdiagError(
            f"{chip.name} holds what matrix units make in {chip.accumulators}: these rules are of registers, so take "
            "a chip with accumulators in registers, or .plan(…) for this one"
        )
    whole = inline(diagram)
    free = rematerialized(whole.graph, [False] * len(whole.dom))
    groups = [
        node
        for node, w in zip(whole.graph.nodes, _first(whole.graph), strict=True)
        if not is_view(node.box) and not all(free[w : w + len(node.box.cod)])
    ]
    if len(groups) != 1 or not isinstance(groups[0].box.op, GroupOp) or not groups[0].box.op.tiles:
        raise CatdiagError(
            "the arrays of one kernel in groups are asked for: derive with .stream(axis).group(axes); this diagram "
            f"runs {', '.join(n.box.name for n in groups) or 'nothing'}"
        )
    measure(whole).runs_all("what its kernel allocates is known of loops that run all")
    node, op = groups[0], groups[0].box.op
    tiles = dict(op.tiles)
    axis = split if split is not None else op.tiles[0][0]
    if axis not in tiles:
        raise AxisError(f"warpgroups cannot divide axis {axis!r}, which is not grouped: {', '.join(tiles)} are")
    names = pieces.split() if isinstance(pieces, str) else list(pieces)
    axes = {a.name for ty in whole.graph.wire_types() for a in ty.axes}
    for name in names:
        if name[:2] not in ("u_", "v_") or name[2:] not in axes:
            listed = ", ".join(sorted(axes))
            raise AxisError(f"pieces {name!r}: expected u_ or v_ and the name of an axis, of {listed}")
    reader = _ResourceReader(
        whole, dtype, arithmetic, stages, names, pipes, dict(types or {}), tiles[axis], "w_" + axis
    )
    reader.body(node, op)
    if unknown := [name for name in reader.types if name not in reader.told]:
        raise CatdiagError(f"types names an array {unknown[0]!r} that is not made: {', '.join(reader.told)} are")
    return reader.columns(axis, chip)


@dataclass(eq=False)
class _ArrayCell:
    """An array's place while the diagram is read."""

    name: str
    axes: tuple[Axis, ...]
    dtype: str
    level: str
    phase: str
    copies: int = 1
    contractions: bool = False
    subtile: Mapping[str, str] = field(default_factory=dict)
    shared: list[str] = field(default_factory=list)


@dataclass
class _Trail:
    """What passes on the way: the arrays that were read for it, and the products in it."""

    read: list[int]
    products: list[Box]


@dataclass
class _ResourceReader:
    diagram: Diagram
    dtype: Dtype
    arithmetic: str
    stages: int
    subtiles: list[str]
    pipes: bool
    types: dict[str, str]
    tile: str
    rows: str

    def __post_init__(self) -> None:
        widths_of(self.diagram, self.dtype)  # raises for unknown types and arrays
        for kind in (self.arithmetic, *self.types.values()):
            width(kind)
        self.told: dict[str, None] = {}
        self.cells: list[_ArrayCell] = []
        self.out_pipe: list[_ArrayCell] = []
        self.in_pipe: list[_ArrayCell] = []
        self.work: list[PipelineWork] = []
        self.contractions: list[tuple[Box, str]] = []
        self.subloops: list[Subloop] = []

    # -- types and sizes --------------------------------------------------------------------------

    def named(self, name: str, ty: ArrayType, otherwise: str) -> str:
        """The type of an array that may be given by its name."""
        if ty.element in ("bool", "int"):
            return ty.element
        return self.dtype.get(name, otherwise) if isinstance(self.dtype, Mapping) else otherwise

    def result_dtype(self, box: Box, ty: ArrayType) -> str:
        """The type of what a box makes."""
        self.told[array_name(box)] = None
        if array_name(box) in self.types:
            return self.types[array_name(box)]
        if isinstance(box.op, Map) and isinstance(box.op.fn, Cast):
            return box.op.fn.dtype
        return ty.element if ty.element in ("bool", "int") else self.arithmetic

    def size(self, axis: Axis, piece: Mapping[str, str]) -> IntPolynomial:
        """The local size of an axis."""
        if axis.name in piece:
            return IntPolynomial({(piece[axis.name],): 1})
        found = IntPolynomial.of(axis.size)
        return IntPolynomial(
            {tuple(sorted(self.rows if s == self.tile else s for s in m)): c for m, c in found.terms.items()}
        )

    def elements(self, axes: Sequence[Axis]) -> IntPolynomial:
        """How many elements an array over local axes has."""
        return math.prod((self.size(a, {}) for a in axes), start=ONE)

    def tile_symbols(self, axes: Sequence[Axis], kind: str) -> dict[str, str]:
        """The axes that are cut in pieces of that kind, and the symbols."""
        return {a.name: kind + a.name for a in axes if kind + a.name in self.subtiles}

    # -- the walk ---------------------------------------------------------------------------------

    def body(self, node: Node, op: GroupOp) -> None:
        """The kernel's body: operands, then its boxes and loops."""
        free = rematerialized(self.diagram.graph, [False] * len(self.diagram.dom))
        outer = live_ranges(self.diagram.graph, free, 0, False)
        graph = inline(op.body).graph
        inner = live_ranges(graph, rematerialized(graph, [free[w] for w in node.inputs]), 0, False)
        loaded = self.dtype if isinstance(self.dtype, str) else "fp32"
        wires: list[_ArrayCell | None] = []
        seen: dict[tuple[int, ArrayType], _ArrayCell] = {}
        for w, ty in zip(node.inputs, graph.dom, strict=True):
            if free[w]:
                wires.append(None)
                continue
            root = outer.root[w]
            name = self.diagram.input_names[root] if root < len(self.diagram.dom) else "?"
            key = (root, ty)
            if key not in seen:
                seen[key] = _ArrayCell(name, ty.axes, self.named(name, ty, loaded), SMEM, KERNEL)
                self.cells.append(seen[key])
            wires.append(seen[key])
        streamed = {id(c): True for c in wires if c is not None}
        for reader in (n for n in graph.nodes if not is_view(n.box)):
            for k, w in enumerate(inner.root[w] for w in reader.inputs):
                cell = wires[w] if w < len(wires) else None
                loop = isinstance(reader.box.op, FoldOp) and reader.box.dom[k].axis(reader.box.op.axis) is not None
                if cell is not None and not loop:
                    streamed[id(cell)] = False
        self.walk(graph, wires, 0, "", {c for c, only in streamed.items() if only})

    def walk(
        self, graph: Graph, wires: Sequence[_ArrayCell | None], states: int, loop: str, streamed: set[int]
    ) -> list[_ArrayCell | None]:
        """The boxes of a graph in order; `loop` is the axis of the loop whose iteration it is. Each wire's place."""
        free = rematerialized(graph, [c is None for c in wires])
        found = live_ranges(graph, free, states, bool(loop))
        readers: dict[int, list[int]] = {}
        for place, node in enumerate(graph.nodes):
            if not is_view(node.box):
                for w in dict.fromkeys(found.root[w] for w in node.inputs):
                    readers.setdefault(w, []).append(place)
        ends = {found.root[w]: k for k, w in enumerate(graph.outputs)}
        places: list[_ArrayCell | None] = list(wires)
        trails: dict[int, _Trail] = {}
        for place, node in enumerate(graph.nodes):
            box, first = node.box, len(places)
            if is_view(box):
                places.append(places[node.inputs[0]])
                continue
            reads = [found.root[w] for w in node.inputs]
            if isinstance(box.op, FoldOp):
                places.extend(self.fold(box, box.op, [places[w] for w in reads], streamed))
                continue
            if isinstance(box.op, GroupOp):
                raise CatdiagError(f"{box.name} lies within a group: one level of groups is asked for")
            places.extend([None] * len(box.cod))
            if all(free[first + k] for k in range(len(box.cod))):
                continue
            self.result_dtype(box, box.cod[0])
            trail = self._trail(box, reads, trails, places)
            if place not in found.in_place.values() or (trail.products and not _adds_up(box, trail, states)):
                self.count(box, loop, [places[w] for w in reads], [free[w] for w in node.inputs])
            passing = elementwise(box) or multiplies(box) or place in found.in_place
            if passing and self._in_transit(graph, box, readers.get(first, []), first in ends):
                trails[first] = trail
                kept = self.tile_symbols(box.cod[0].axes, "v_") if elementwise(box) and not trail.products else {}
                if kept:
                    self._new(array_name(box), box, loop, piece=kept)
                continue
            old = places[ends[first]] if loop and first in ends and ends[first] < states else None
            # What passes on the way is made where it is read, so what it is made of is needed until then.
            later = {w for other in trails.values() for w in other.read}
            needed = {
                id(c) for w, c in enumerate(places) if c is not None and (found.last_use[w] > place or w in later)
            }
            places[first] = self._result(box, trail, needed, places, loop, old, states)
        return places

    def _trail(self, box: Box, reads: list[int], trails: dict[int, _Trail], places: list[_ArrayCell | None]) -> _Trail:
        products = [box] if multiplies(box) else []
        read: list[int] = []
        for w in reads:
            if w in trails and not products:
                passed = trails.pop(w)
                read += passed.read
                products = products + passed.products
            else:
                read.append(w)
                cell = places[w]
                if multiplies(box) and cell is not None and cell.level == REGISTERS:
                    self.in_pipe.append(cell)
        return _Trail(read, products)

    def _in_transit(self, graph: Graph, box: Box, readers: list[int], end: bool) -> bool:
        """Whether only one elementwise function, of the same axes, reads what the box makes."""
        if end or len(readers) != 1 or len(box.cod) != 1:
            return False
        reader = graph.nodes[readers[0]].box
        return elementwise(reader) and set(reader.cod[0].names) == set(box.cod[0].names)

    def _result(
        self,
        box: Box,
        trail: _Trail,
        needed: set[int],
        places: list[_ArrayCell | None],
        loop: str,
        old: _ArrayCell | None,
        states: int,
    ) -> _ArrayCell:
        """The place of what a box makes: taken over, or new; and what products it was made of need."""
        kind, axes = self.result_dtype(box, box.cod[0]), box.cod[0].axes
        taken: _ArrayCell | None = None
        for cell in (c for w in trail.read if (c := places[w]) is not None and id(c) not in needed):
            same = {a.name for a in cell.axes} == {a.name for a in axes} and cell.dtype == kind
            if same and cell.level == REGISTERS and not cell.contractions and not cell.subtile:
                taken = cell
                break
        if old is not None and id(old) not in needed:
            taken = old
        if trail.products and not _adds_up(box, trail, states):
            self._through_a_pipe(trail.products[0], box, kind, taken is not None, loop)
        if taken is not None:
            name = array_name(box)
            if taken is not old and name not in taken.shared:
                taken.shared.append(name)
            return taken
        made = trail.products[0] if trail.products else box
        return self._new(array_name(made), box, loop, kind=kind, products=bool(trail.products))

    def _through_a_pipe(self, product: Box, box: Box, kind: str, passing: bool, loop: str) -> None:
        axes = product.cod[0].axes
        cell = _ArrayCell(
            array_name(product),
            axes,
            kind,
            REGISTERS,
            loop or END,
            contractions=True,
            subtile=self.tile_symbols(axes, "u_"),
        )
        self.out_pipe.append(cell)
        if passing:
            self.cells.append(cell)

    def _new(
        self, name: str, box: Box, loop: str, *, kind: str = "", products: bool = False, piece: Mapping[str, str] = {}
    ) -> _ArrayCell:
        ty = box.cod[0]
        cell = _ArrayCell(name, ty.axes, kind or self.result_dtype(box, ty), REGISTERS, loop or END, 1, products, piece)
        self.cells.append(cell)
        return cell

    def fold(
        self, box: Box, op: FoldOp, inputs: list[_ArrayCell | None], streamed: set[int]
    ) -> list[_ArrayCell | None]:
        """A loop: its states for all of the kernel, its streamed blocks, and the arrays of an iteration."""
        if op.parts is not None or op.bounds is not None or op.is_live is not None:
            raise CatdiagError(f"the loop over {op.axis!r} runs in parts or skips blocks: ask before that")
        step, states = inline(op.step).graph, len(box.cod)
        given: list[_ArrayCell | None] = []
        for cell, ty in zip(inputs, step.dom.arrays[states:], strict=True):
            if cell is not None and id(cell) in streamed:
                cell.axes, cell.copies, cell.phase = ty.axes, self.stages, op.axis
            elif cell is not None and cell.phase == END:
                cell.phase = KERNEL
            given.append(cell)
        carried: list[_ArrayCell | None] = []
        for k, ty in enumerate(step.dom.arrays[:states]):
            name = op.components[k] if k < len(op.components) else f"state {k}"
            carried.append(_ArrayCell(name, ty.axes, self.named(name, ty, self.arithmetic), REGISTERS, KERNEL))
        self.cells += [c for c in carried if c is not None]
        made = self.walk(step, [*carried, *given], states, op.axis, streamed)
        results = [made[w] for w in step.outputs]
        for cell in results:
            if cell is not None and cell.phase == op.axis:
                cell.phase = KERNEL
        return results

    # -- work and sizes ---------------------------------------------------------------------------

    def count(self, box: Box, loop: str, cells: list[_ArrayCell | None], free: list[bool]) -> None:
        """The work of a box, by the rules of `catdiag.cost.traffic`, and what its sizes have to be multiples of."""
        space = self.elements(union((*box.dom, *box.cod)))
        kind = max((c.dtype for c in cells if c is not None), key=width_of, default=self.arithmetic)
        name = array_name(box)
        kept = {a.name for a in box.cod[0].axes}
        for axis in union(list(box.dom)) if loop else ():
            gone = "added" if isinstance(box.op, Einsum) else "carried"
            self.subloops.append(Subloop(name, axis.name, "beside" if axis.name in kept else gone))
        if multiplies(box):
            ahead = all(c is None or c.level == SMEM for c in cells)
            self.work.append(PipelineWork(name, "tensor", kind, space.scaled(len(box.dom)), loop, ahead))
            self.contractions.append((box, kind))
        elif isinstance(box.op, Map):
            if box.op.fn == "div" and not free[1]:
                self.work.append(PipelineWork(name, "exp", kind, self.elements(box.dom[1].axes), loop))
            self.work.append(PipelineWork(name, pipeline(box.op.fn), self.arithmetic, space, loop))
        elif isinstance(box.op, (Reduce, Einsum)):
            times = 1 if isinstance(box.op, Reduce) else len(box.dom) - 1 + contracts(box)
            self.work.append(PipelineWork(name, "alu", self.arithmetic, space.scaled(times), loop))

    def _multiples(self, box: Box, kind: str, chip: Hardware) -> list[Multiple]:
        name, kept = array_name(box), {a.name for a in box.cod[0].axes}
        found: list[Multiple] = []
        for axis in union(list(box.dom)):
            size = self.size(axis, {})
            if axis.name not in kept:
                found.append(Multiple(str(size), chip.depth_piece(width_of(kind)), f"depth of {name} in {kind}"))
            elif self.rows not in size.symbols():
                found.append(Multiple(str(size), chip.matrix_columns, f"columns of {name}"))
        return found

    def columns(self, axis: str, chip: Hardware) -> WarpgroupResources:
        """All that was read."""
        multiples = [
            Multiple(self.rows, chip.matrix_rows, "rows of a matrix instruction"),
            Multiple(self.rows, chip.warp * chip.matrix_warps, "threads of a warpgroup, each with whole rows"),
        ]
        for box, kind in self.contractions:
            multiples += self._multiples(box, kind, chip)
        for cell in (c for c in self.cells if c.level == SMEM and c.axes):
            last = str(self.size(cell.axes[-1], {}))
            multiples.append(Multiple(last, max(1, chip.row_bytes // width_of(cell.dtype)), f"loads of {cell.name}"))
        for cell in self.out_pipe:
            for name, symbol in cell.subtile.items():
                multiples.append(Multiple(symbol, chip.matrix_columns, f"columns of {cell.name}, in pieces of {name}"))
        places = [self._place(c) for c in self.cells]
        if self.pipes:
            for pipe, cells in (("pipe to arithmetic", self.out_pipe), ("pipe to matrix units", self.in_pipe)):
                made = (self._place(c) for c in cells)
                places += [replace(p, level=SMEM, copies=1, shared=(), pipe=pipe) for p in made]
        return WarpgroupResources(
            self.rows, axis, tuple(places), tuple(self.work), tuple(multiples), tuple(self.subloops)
        )

    def _place(self, c: _ArrayCell) -> OnChipArray:
        shape = tuple(self.size(a, c.subtile) for a in c.axes)
        own = any(self.rows in s.symbols() for s in shape)
        return OnChipArray(c.name, shape, c.dtype, c.level, GROUP if own else BLOCK, c.copies, c.phase, tuple(c.shared))


def _first(graph: Graph) -> list[int]:
    """For each box the first array that it makes."""
    found, count = [], len(graph.dom)
    for node in graph.nodes:
        found.append(count)
        count += len(node.box.cod)
    return found


def _adds_up(box: Box, trail: _Trail, states: int) -> bool:
    """Whether products are added to a state and nothing else happens to them: matrix units do that as they go."""
    alone = len(trail.read) == 1 + len(trail.products[0].dom) if trail.products else False
    return alone and any(w < states for w in trail.read) and isinstance(box.op, Map) and box.op.fn == "add"
