"""The cells and wires of a diagram to be drawn, sheet by sheet.

A sheet is the inside of a frame, or the whole picture. Constants, sizes and positions are inlined in the text of the
box that uses them. Named diagrams are one cell or, where asked, a sheet of their own.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from catdiag.category import ops
from catdiag.category.diagram import Diagram, Graph
from catdiag.category.formula import Formula, infix, symbol
from catdiag.category.formula_names import BIG
from catdiag.category.op_facts import contracts
from catdiag.category.ops import op_row
from catdiag.category.scalars import Cast
from catdiag.category.types import ArrayType, Axis, Ty, show, size_symbols
from catdiag.draw.label_formulas import label
from catdiag.draw.memory_levels import RolePlacement
from catdiag.draw.scene import FrameKind, ShapeKind, plain
from catdiag.draw.string_diagram.live_regions import Reached, reached
from catdiag.draw.string_diagram.weaved_axes import Weaved
from catdiag.rewrite.box_formulas import formula_of
from catdiag.schedule.live_ranges import is_view, only_streamed

Address = tuple[int, ...]
"""The address of a box: the number of a node, then, inside it, of a body and of a node there, and so on."""

_SIGNS = {
    "add": "+", "sub": "−", "mul": "×", "div": "÷", "neg": "−", "sqrt": "√", "eq": "=", "ne": "≠", "lt": "<",
    "le": "≤", "and": "∧", "or": "∨", "not": "¬", "floordiv": "÷",
}  # fmt: skip
SYMMETRIC = frozenset(("add", "mul", "max", "min", "eq", "ne", "and", "or"))
_LETTERS = "abcdefghijklmnopqrstuvwyz"
_MOST = 8  # the most inputs of functions that are drawn as one
_SHORT = 16  # the most letters of a formula that joins several functions
_LONG = 30  # the most letters of an inlined formula; longer ones are drawn in boxes of their own


@dataclass(eq=False)
class SheetWire:
    """An array of a sheet: its type, its level, its maker (-1: an input) and its readers.

    `formula` is set if it is made of constants, sizes and positions only; it is a `ghost` while no reader needs it
    drawn. `reached` is its footprint along axes that are read in place.
    """

    ty: ArrayType
    level: int
    maker: int = -1
    name: str = ""
    formula: Formula | None = None
    ghost: bool = False
    reached: Reached = field(default_factory=dict)
    readers: list[tuple[int, int]] = field(default_factory=list)


@dataclass(eq=False)
class Cell:
    """A function of a sheet. `weaved` are the axes that pass around it; `names` are the new names of a renaming's axes.

    The inputs of a cell that `sorts` may come in any order. The text of a cell with a `formula` refers to their order,
    and that of a `plain` one is a sign. `also` are the addresses of the boxes that are drawn together with it.
    """

    kind: ShapeKind | None
    text: str
    box: ops.Box
    address: Address
    level: int
    inputs: list[int]
    outputs: list[int]
    weaved: frozenset[str] = frozenset()
    names: Mapping[str, str] = field(default_factory=dict)
    sorts: bool = False
    formula: Callable[[Mapping[int, Formula]], Formula] | None = None
    plain: bool = False
    also: list[Address] = field(default_factory=list)
    inner: Sheet | None = None
    frame: FrameKind | None = None
    feeds: list[tuple[int, int]] = field(default_factory=list)
    starts: tuple[str, ...] = ()


@dataclass(eq=False)
class Sheet:
    """Cells in topological order: each comes after those whose arrays it reads.

    The `feeds` of a frame's cell are pairs of an input of the cell and its wire on the inner sheet. The first `states`
    inputs of a loop's sheet are its states, which no outer wire feeds.
    """

    wires: list[SheetWire]
    cells: list[Cell]
    inputs: list[int]
    outputs: list[int]
    label: Callable[[Axis], str]
    states: int = 0
    kernel: bool = False

    def is_input(self, wire: int) -> bool:
        """Whether a wire is an input of the sheet that is drawn."""
        return self.wires[wire].maker < 0 and not self.wires[wire].ghost


@dataclass(frozen=True)
class _Inside:
    """The context of a sheet: levels and formulas of its inputs, and the sizes of tiles and blocks around it."""

    diagram: Diagram
    address: Address
    levels: tuple[int, ...]
    formulas: tuple[Formula | None, ...]
    names: tuple[str, ...]
    local: frozenset[str]
    result: int
    states: int = 0
    group: bool = False
    reached: tuple[Reached, ...] = ()


def sheet_of(diagram: Diagram, opened: Callable[[ops.Box], bool], place: RolePlacement, join: bool = False) -> Sheet:
    """The sheet of a whole diagram, with the sheets of its groups, loops and opened named diagrams inside.

    With `join`, consecutive scalar functions are one cell.
    """
    maker = _Maker(opened, place, join, reached(diagram))
    # Boxes between groups with a loop among them are a kernel too, as `io` counts.
    kernel = any(isinstance(node.box.op, ops.FoldOp) for node in diagram.graph.nodes)
    names = diagram.names if len(diagram.names) == len(diagram.dom) else ("",) * len(diagram.dom)
    start = _Inside(
        diagram, (), (place.slow,) * len(diagram.dom), (None,) * len(diagram.dom), names, frozenset(),
        place.temporary if kernel else place.slow,
    )  # fmt: skip
    top, waiting = maker.sheet(start)
    top.kernel = kernel
    while waiting:
        cell, inside = waiting.pop()
        cell.inner, further = maker.sheet(inside)
        first = cell.inner.states
        cell.feeds = [(k, w) for k, w in enumerate(cell.inner.inputs[first:]) if cell.inner.is_input(w)]
        waiting += further
    return top


@dataclass(frozen=True)
class _Drawing:
    """A box that becomes a cell. `given` are its inputs, and `show` draws an input that is made of constants."""

    wires: Sequence[SheetWire]
    box: ops.Box
    given: list[int]
    address: Address
    level: int
    show: Callable[[int], None]

    def drawn(self) -> list[int]:
        """The inputs that are drawn."""
        return [w for w in self.given if not self.wires[w].ghost]

    def frame(self, kind: FrameKind, text: str, starts: tuple[str, ...] = ()) -> Cell:
        """A cell with a sheet of its own, in a frame."""
        return Cell(None, text, self.box, self.address, self.level, self.given, [], frame=kind, starts=starts)

    def shape(self, kind: ShapeKind | None, text: str, sorts: bool = False, **more: Any) -> Cell:
        """A cell that shows all its inputs."""
        for w in self.given:
            self.show(w)
        return Cell(kind, text, self.box, self.address, self.level, self.drawn(), [], sorts=sorts, **more)


class _Maker:
    def __init__(
        self,
        opened: Callable[[ops.Box], bool],
        place: RolePlacement,
        join: bool,
        retained: Mapping[int, Mapping[int, Reached]],
    ) -> None:
        self.opened, self.place, self.weaved, self.join, self.retained = opened, place, Weaved(), join, retained

    def sheet(self, inside: _Inside) -> tuple[Sheet, list[tuple[Cell, _Inside]]]:
        graph = inside.diagram.graph
        wires = [
            SheetWire(ty, level, -1, name, formula, formula is not None)
            for ty, level, formula, name in zip(graph.dom, inside.levels, inside.formulas, inside.names, strict=True)
        ]
        for wire, retained in zip(wires, inside.reached, strict=False):
            wire.reached = retained
        sheet = Sheet(wires, [], list(range(len(wires))), list(graph.outputs), _labels(inside.local), inside.states)
        if inside.group:
            self._streamed(inside.diagram.graph, wires)
        hidden: dict[int, tuple[ops.Box, Address]] = {}
        waiting: list[tuple[Cell, _Inside]] = []
        for place, node in enumerate(graph.nodes):
            box, op = node.box, node.box.op
            address = (*inside.address, place)
            at = len(wires)
            known = [formula for w in node.inputs if (formula := wires[w].formula) is not None]
            simple = isinstance(op, (*ops.NULLARY, ops.Map, ops.Rename))
            inlined = simple and len(known) == len(node.inputs) and len(box.cod) == 1
            if inlined and len(label(made := formula_of(box, known))) <= _LONG:
                wires.append(SheetWire(box.cod[0], inside.result, -1, "", made, True))
                hidden[at] = (box, address)
                continue
            cell = self._cell(sheet, box, node.inputs, address, inside, hidden)
            cell.outputs = list(range(at, at + len(box.cod)))
            wires.extend(SheetWire(ty, cell.level, len(sheet.cells)) for ty in box.cod)
            sheet.cells.append(cell)
            if cell.frame is not None:
                waiting.append((cell, self._inside(cell, box, address, inside, wires)))
        for w in dict.fromkeys(sheet.outputs):
            self._show(sheet, w, hidden, inside)
        if self.join:
            joined(sheet)
        for number, cell in enumerate(sheet.cells):
            for k, w in enumerate(cell.inputs):
                wires[w].readers.append((number, k))
        return sheet, waiting

    def _streamed(self, graph: Graph, wires: list[SheetWire]) -> None:
        """Keeps inputs of a group that only loops read, block by block, in slow memory up to the loops.

        A view is the same array, as `io` counts.
        """
        for wire, only in zip(wires, only_streamed(graph, wires), strict=True):
            if only:
                wire.level = self.place.slow

    def _made_at(self, box: ops.Box, inside: _Inside, levels: Sequence[int]) -> int:
        """The level of a box's results, given the levels of its operands."""
        if inside.result == self.place.slow or isinstance(box.op, ops.GroupOp):
            return self.place.slow
        if is_view(box):
            return levels[0]
        several = isinstance(box.op, ops.Einsum) and len(box.dom) > 1
        return self.place.matrix if several else self.place.temporary

    def _show(self, sheet: Sheet, w: int, hidden: Mapping[int, tuple[ops.Box, Address]], inside: _Inside) -> None:
        """Draws an array of constants as a source."""
        wire = sheet.wires[w]
        if not wire.ghost or wire.formula is None:
            return
        wire.ghost = False
        wire.level = inside.result
        # The formula of an input of a loop or group is shown inside it.
        box, address = hidden.get(w, (ops.Box(ops.Rename(), Ty(), Ty(wire.ty)), inside.address))
        wire.maker = len(sheet.cells)
        sheet.cells.append(Cell("source", label(wire.formula), box, address, inside.result, [], [w]))

    def _cell(
        self, sheet: Sheet, box: ops.Box, inputs: Iterable[int], address: Address, inside: _Inside,
        hidden: Mapping[int, tuple[ops.Box, Address]],
    ) -> Cell:  # fmt: skip
        given = list(inputs)
        level = self._made_at(box, inside, [sheet.wires[w].level for w in given])
        drawing = _Drawing(sheet.wires, box, given, address, level, lambda w: self._show(sheet, w, hidden, inside))
        if isinstance(box.op, ops.Call) and self.opened(box):
            return drawing.frame("call", plain(box.name))
        cell = op_row(CELLS, box, "drawn")(drawing, box.op)
        return cell if cell.frame is not None else replace(cell, weaved=self.weaved.axes(box))

    def _inside(self, cell: Cell, box: ops.Box, address: Address, around: _Inside, wires: list[SheetWire]) -> _Inside:
        arrays = tuple(wires[w] for w in cell.inputs)
        return op_row(INSIDES, box, "opened")(self, box, box.op, address, around, arrays)

    def inside_loop(
        self, box: ops.Box, op: ops.FoldOp, address: Address, around: _Inside, arrays: Sequence[SheetWire]
    ) -> _Inside:
        """The step of a loop: its states, then its inputs, of which those along its axis are streamed."""
        states, place = op.state_count, self.place
        own = [
            w.level if w.level != place.slow else place.operand if ty.axis(op.axis) is None else place.streamed
            for ty, w in zip(box.dom, arrays, strict=True)
        ]
        labels = op.components if len(op.components) == states else ("",) * states
        return _Inside(
            op.step, (*address, 1), (*[place.state] * states, *own),
            (*[None] * states, *(w.formula for w in arrays)), (*labels, *("" for _ in arrays)),
            around.local | {op.block}, place.temporary, states,
            reached=(*[Reached()] * states, *(w.reached for w in arrays)),
        )  # fmt: skip

    def inside_group(
        self, box: ops.Box, op: ops.GroupOp, address: Address, around: _Inside, arrays: Sequence[SheetWire]
    ) -> _Inside:
        """The body of a group; results of other kernels pass through slow memory."""
        retained = self.retained.get(address[0]) if len(address) == 1 else None
        footprints = [w.reached if retained is None else retained.get(k, {}) for k, w in enumerate(arrays)]
        return _Inside(
            op.body, (*address, 0), (self.place.operand,) * len(arrays), tuple(w.formula for w in arrays),
            ("",) * len(arrays), around.local | {symbol for _, symbol in op.tiles}, self.place.temporary, group=True,
            reached=tuple(footprints),
        )  # fmt: skip

    def inside_call(
        self, box: ops.Box, op: ops.Call, address: Address, around: _Inside, arrays: Sequence[SheetWire]
    ) -> _Inside:
        """The body of a named diagram."""
        return _Inside(
            op.body, (*address, 0), tuple(w.level for w in arrays), tuple(w.formula for w in arrays),
            ("",) * len(arrays), around.local, around.result, reached=tuple(w.reached for w in arrays),
        )  # fmt: skip


INSIDES: Mapping[type[ops.Op], Callable[[_Maker, ops.Box, Any, Address, _Inside, Sequence[SheetWire]], _Inside]] = {
    ops.FoldOp: _Maker.inside_loop,
    ops.GroupOp: _Maker.inside_group,
    ops.Call: _Maker.inside_call,
}
"""The sheet inside the frame of each operation that has diagrams as bodies."""


def worded(cell: Cell) -> str:
    """The text of a scalar function: its sign, or a formula in a, b, … for its inputs, from the top."""
    op = cell.box.op
    if cell.formula is None or not isinstance(op, ops.Map):
        return cell.text
    few = len(cell.inputs) == 1
    if cell.plain and (few or op.fn in SYMMETRIC):
        if isinstance(op.fn, Cast):
            return f"→ {plain(op.fn.dtype)}"
        sign = _SIGNS.get(op.fn) if isinstance(op.fn, str) else None
        return sign or plain(str(op.fn))
    # Letters that are not names of sizes or axes in the formula.
    taken = cell.formula(dict.fromkeys(cell.inputs, symbol(""))).names()
    taken |= {n for ty in (*cell.box.dom, *cell.box.cod) for n in ty.names}
    letters = [letter for letter in _LETTERS if letter not in taken]
    names = {w: symbol(letter) for w, letter in zip(cell.inputs, letters, strict=False)}
    said = cell.formula(names)
    return f"{letters[0]}²" if few and said == infix("·", *[*names.values()] * 2) else label(said)


def joined(sheet: Sheet) -> None:
    """Draws consecutive scalar functions as one, in place, where nothing else reads the arrays between them."""
    reads: dict[int, int] = {}
    for cell in sheet.cells:
        for w in cell.inputs:
            reads[w] = reads.get(w, 0) + 1
    for w in sheet.outputs:
        reads[w] = reads.get(w, 0) + 2
    maker = {w: cell for cell in sheet.cells for w in cell.outputs}
    gone: set[int] = set()
    for cell in sheet.cells:
        if cell.formula is None:
            continue
        for w in list(cell.inputs):
            before = maker.get(w)
            if before is None or before.formula is None or reads[w] != 1 or before.level != cell.level:
                continue
            if not set(sheet.wires[w].ty.names) <= {n for v in before.inputs for n in sheet.wires[v].ty.names}:
                continue
            trial = Cell("map", "", cell.box, cell.address, cell.level, [], cell.outputs, cell.weaved)
            trial.inputs = list(dict.fromkeys(v for u in cell.inputs for v in (before.inputs if u == w else [u])))
            trial.formula = _after(before.formula, w, cell.formula)
            text = worded(trial)
            if len(trial.inputs) > _MOST or len(text) > _SHORT:
                continue
            for v in before.inputs:
                reads[v] += (v in cell.inputs) * -1
            cell.inputs, cell.formula, cell.plain, cell.text = trial.inputs, trial.formula, False, text
            cell.also += [before.address, *before.also]
            gone.add(id(before))
    sheet.cells[:] = [cell for cell in sheet.cells if id(cell) not in gone]
    for number, cell in enumerate(sheet.cells):
        for w in cell.outputs:
            sheet.wires[w].maker = number


def _after(
    first: Callable[[Mapping[int, Formula]], Formula], wire: int, then: Callable[[Mapping[int, Formula]], Formula]
) -> Callable[[Mapping[int, Formula]], Formula]:
    return lambda names: then({**names, wire: first(names)})


def _map_cell(d: _Drawing, op: ops.Map) -> Cell:
    """A scalar function: its formula, with constants inlined as long as it is short. An array that is read twice enters
    once."""

    def formula(names: Mapping[int, Formula]) -> Formula:
        return formula_of(d.box, [names.get(w) or d.wires[w].formula or symbol("") for w in d.given])

    distinct = list(dict.fromkeys(d.drawn()))
    cell = Cell("map", "", d.box, d.address, d.level, distinct, [], formula=formula)
    if len(worded(cell)) > _LONG:
        for w in d.given:
            d.show(w)
        cell.inputs = list(dict.fromkeys(d.given))
    cell.plain = len(cell.inputs) == len(d.given)
    cell.text = worded(cell)
    return cell


def _einsum_cell(d: _Drawing, op: ops.Einsum) -> Cell:
    text = "•" if len(d.box.dom) > 1 else "Σ"
    return d.shape("contract", text, True) if contracts(d.box) else d.shape("map", "×", True)


def _source_cell(d: _Drawing, op: ops.Op) -> Cell:
    return d.shape("source", label(formula_of(d.box, ())))


def _group_cell(d: _Drawing, op: ops.GroupOp) -> Cell:
    sizes = " and ".join(f"{axis}, {symbol} at a time" for axis, symbol in op.tiles)
    return d.frame("group", f"for each tile of {sizes}, in parallel") if op.tiles else d.frame("call", "one kernel")


def _loop_cell(d: _Drawing, op: ops.FoldOp) -> Cell:
    text = f"for each block of {op.axis}, {op.block} at a time"
    text += f", in {op.parts} parts whose states are merged" if op.parts else ""
    text += "; blocks that are masked out are skipped" if op.is_live is not None or op.bounds is not None else ""
    return d.frame("fold", text, _starts(op))


CELLS: Mapping[type[ops.Op], Callable[[_Drawing, Any], Cell]] = {
    ops.Map: _map_cell,
    ops.Reduce: lambda d, op: d.shape("reduce", BIG[op.monoid]),
    ops.Einsum: _einsum_cell,
    ops.Rename: lambda d, op: d.shape(None, "", names={new: old for old, new in op.pairs}),
    ops.Reindex: lambda d, op: d.shape("reindex", op.kind),
    ops.View: lambda d, op: d.shape("reindex", "gather" if op.trusts_inputs() else "view"),
    ops.Index: _source_cell,
    ops.SizeOf: _source_cell,
    ops.Const: _source_cell,
    ops.Call: lambda d, op: d.shape("call", plain(op.name)),
    ops.Generic: lambda d, op: d.shape("generic", plain(op.name)),
    ops.FoldOp: _loop_cell,
    ops.GroupOp: _group_cell,
}
"""The cell of each operation; a named diagram that is opened has a frame."""


def _starts(op: ops.FoldOp) -> tuple[str, ...]:
    """The initial value of each state of a loop, as a formula."""
    graph = op.unit.graph
    formulas: list[Formula] = []
    for node in graph.nodes:
        made = formula_of(node.box, [formulas[w] for w in node.inputs])
        formulas.extend([made] * len(node.box.cod))
    return tuple(label(formulas[w]) for w in graph.outputs)


def _labels(local: Collection[str]) -> Callable[[Axis], str]:
    """A function for the label of an axis: its name, or its size where that is a part of the axis only."""

    def named(axis: Axis) -> str:
        return show(axis.size) if size_symbols(axis.size) & set(local) else axis.name

    return named
