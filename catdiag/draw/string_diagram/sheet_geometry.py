"""The geometry of a sheet: positions of its columns, functions, frames and bands, before anything is drawn."""

from __future__ import annotations

from dataclasses import dataclass, field

from catdiag.category.formula import of_polynomial
from catdiag.draw.label_formulas import label
from catdiag.draw.string_diagram.box_shapes import GAP, FunctionShape, leaf_of
from catdiag.draw.string_diagram.coordinate_assignment import heights_of
from catdiag.draw.string_diagram.layering import Slot, columns_of
from catdiag.draw.string_diagram.sheets import Cell, Sheet, worded
from catdiag.draw.string_diagram.wire_bands import reach, rows
from catdiag.draw.text_width import text_width

TITLE = 17.0
"""The height of a frame's title."""
ARCH = 13.0
"""The room above a loop's body for the feedback of its states."""
SIDE = 9.0
"""The room between a frame's edge and its inside, at the left and right."""
BEHIND = 6.0
"""The room behind a group for the edges of its further copies."""
_RELABEL = 6  # columns after which the label of a wire is repeated
_STUB = 6.0


@dataclass
class Framed:
    """A frame's geometry around the plan of its inside, whose line 0 is the frame's."""

    plan: SheetPlan
    width: float
    top: float
    bottom: float
    left: float  # from the frame's edge to the inside's left end
    behind: float = 0.0  # the room at the right for the edges of further copies


@dataclass
class SheetPlan:
    """The positions on a sheet: x from its left end, y relative to its line 0.

    `functions` are the start and width of each column of functions, `middles` the centers of their boxes, `data` the
    start and width of each column of data.
    """

    sheet: Sheet
    columns: list[list[Slot]]
    shapes: dict[int, FunctionShape | Framed]
    heights: dict[int, float] = field(default_factory=dict)
    functions: list[tuple[float, float]] = field(default_factory=list)
    middles: list[float] = field(default_factory=list)
    data: list[tuple[float, float]] = field(default_factory=list)
    labeled: list[set[int]] = field(default_factory=list)
    width: float = 0.0
    top: float = 0.0
    bottom: float = 0.0
    inputs: dict[int, float] = field(default_factory=dict)
    outputs: list[float] = field(default_factory=list)

    def output_heights(self, slot: Slot) -> list[tuple[int, float]]:
        """The arrays that a slot passes to the next column, and the heights of their elements' wires."""
        y = self.heights[id(slot)]
        if slot.wire >= 0:
            return [(slot.wire, y)]
        cell, shape = self.sheet.cells[slot.cell], self.shapes[slot.cell]
        refs = shape.refs if isinstance(shape, FunctionShape) else shape.plan.outputs
        return [(w, y + ref) for w, ref in zip(cell.outputs, refs, strict=True)]


def spans_of(shape: FunctionShape | Framed) -> tuple[float, float]:
    """The width of a function around its center, and the room behind it.

    Behind it, results turn to their bands, or a group has the edges of its further copies.
    """
    if isinstance(shape, FunctionShape):
        return shape.width - shape.iterations, shape.iterations
    return shape.width, shape.behind


def plan_of(top: Sheet, items: bool) -> SheetPlan:
    """The plan of a sheet and of all sheets inside, from the innermost out."""
    done: dict[int, SheetPlan] = {}
    todo = [(top, True)]
    while todo:
        sheet, outer = todo[-1]
        missing = [c.inner for c in sheet.cells if c.inner is not None and id(c.inner) not in done]
        if missing:
            todo += [(inner, False) for inner in missing]
            continue
        todo.pop()
        done[id(sheet)] = _plan(sheet, outer, items, done)
    return done[id(top)]


def label_of(sheet: Sheet, w: int, name: str) -> str:
    """The label of the wire of an axis: the axis, or the part of it."""
    wire = sheet.wires[w]
    axis = wire.ty.axis(name)
    if name in wire.reached:
        return label(of_polynomial(wire.reached[name]))
    return sheet.label(axis) if axis is not None else ""


def _plan(sheet: Sheet, outer: bool, items: bool, done: dict[int, SheetPlan]) -> SheetPlan:
    columns = columns_of(sheet, outer)
    shapes: dict[int, FunctionShape | Framed] = {}
    for number, cell in enumerate(sheet.cells):
        if cell.inner is None:
            shapes[number] = leaf_of(cell, sheet, items)
        else:
            shapes[number] = _framed(cell, done[id(cell.inner)])
    plan = SheetPlan(sheet, columns, shapes)
    _heights(plan)
    _sort_inputs(plan, items)
    _widths(plan, outer)
    return plan


def _framed(cell: Cell, inner: SheetPlan) -> Framed:
    left = SIDE
    top = TITLE
    if cell.frame == "fold":
        left += max((text_width(t, "note") for t in start_texts(cell, inner.sheet)), default=0.0) + 12
        top += ARCH
    right = SIDE + (8 if cell.frame == "fold" else 0)
    width = max(left + inner.width + right, text_width(cell.text, "note") + 20)
    return Framed(inner, width, inner.top - top, inner.bottom + 8, left, BEHIND if cell.frame == "group" else 0.0)


def start_texts(cell: Cell, sheet: Sheet) -> list[str]:
    """The initial values of a loop's states, as texts."""
    names = [sheet.wires[w].name for w in sheet.inputs[: sheet.states]]
    return [f"{name} ← {text}" if name else text for name, text in zip(names, cell.starts, strict=False)]


def _heights(plan: SheetPlan) -> None:
    sheet, shapes = plan.sheet, plan.shapes

    def edges(slot: Slot) -> tuple[float, float]:
        if slot.wire >= 0:
            return reach(rows(sheet.wires[slot.wire].ty))
        shape = shapes[slot.cell]
        return shape.top, shape.bottom

    def leaving(slot: Slot, out: int) -> float:
        if slot.wire >= 0:
            return 0.0
        shape = shapes[slot.cell]
        return shape.refs[out] if isinstance(shape, FunctionShape) else shape.plan.outputs[out]

    def entering(slot: Slot, k: int) -> float:
        if slot.wire >= 0:
            return 0.0
        shape, cell = shapes[slot.cell], sheet.cells[slot.cell]
        if isinstance(shape, Framed):
            fed = dict(cell.feeds)
            return shape.plan.inputs[fed[k]] if k in fed else 0.0
        own = rows(sheet.wires[cell.inputs[k]].ty)
        aims = {name: at for name in own if (at := target(shape, cell, k, name)) is not None}
        if len(cell.inputs) == 1:
            return 0.0
        # Passing wires should be straight; where there are none, wires that enter the box, on average.
        passing = [at - own[name] for name, at in aims.items() if name and (k, name) not in shape.enters]
        shifts = passing[:1] or [at - own[name] for name, at in aims.items()]
        return sum(shifts) / len(shifts) if shifts else 0.0

    def main(slot: Slot) -> int | None:
        cell = sheet.cells[slot.cell]
        if cell.inner is not None:
            return cell.feeds[0][0] if len(cell.feeds) == 1 else None
        kept = {n for w in cell.outputs for n in sheet.wires[w].ty.names}
        shared = [len(kept & set(sheet.wires[w].ty.names)) for w in cell.inputs]
        most = max(shared, default=0)
        return shared.index(most) if most else None

    plan.heights = heights_of(plan.columns, edges, leaving, entering, main, GAP)
    slots = [slot for column in plan.columns for slot in column]
    spans = [(plan.heights[id(s)] + a, plan.heights[id(s)] + b) for s in slots for a, b in [edges(s)]]
    top, bottom = min((a for a, _ in spans), default=0.0), max((b for _, b in spans), default=0.0)
    middle = (top + bottom) / 2
    plan.heights = {key: y - middle for key, y in plan.heights.items()}
    plan.top, plan.bottom = top - middle, bottom - middle
    plan.inputs = {s.wire: plan.heights[id(s)] for s in plan.columns[0] if s.wire >= 0}
    last = sorted((s for s in plan.columns[-1] if s.output >= 0), key=lambda s: s.output)
    plan.outputs = [plan.heights[id(s)] for s in last]


def target(leaf: FunctionShape, cell: Cell, k: int, name: str) -> float | None:
    """The height, relative to the leaf's line, at which a wire of an input arrives: in a lane, or at the box."""
    if (k, name) in leaf.enters:
        return leaf.enters[k, name]
    if cell.kind is None:
        if not name:
            return leaf.lanes.get("")
        new = next((n for n, before in cell.names.items() if before == name), name)
        return leaf.lanes.get(new)
    return leaf.lanes.get(name) if name else None


def _sort_inputs(plan: SheetPlan, items: bool) -> None:
    """Where the order of a function's inputs is free, they enter it in their order of arrival."""
    for column in plan.columns:
        for slot in column:
            if slot.cell < 0:
                continue
            cell = plan.sheet.cells[slot.cell]
            if not (cell.sorts or cell.formula) or len(cell.inputs) < 2:
                continue
            come: dict[int, float] = {}
            for maker, out, k in slot.joins():
                come[k] = plan.output_heights(maker)[out][1]
            order = sorted(range(len(cell.inputs)), key=lambda k: (come.get(k, 0.0), k))
            if order == list(range(len(order))):
                continue
            cell.inputs = [cell.inputs[k] for k in order]
            cell.text = worded(cell)
            place = {k: n for n, k in enumerate(order)}
            slot.before = [(m, out, place[k]) for m, out, k in slot.joins()]
            for maker in {id(m): m for m, _, _ in slot.joins()}.values():
                maker.after = [(s, place[k] if s is slot else k, out) for s, k, out in maker.follows()]
            plan.shapes[slot.cell] = leaf_of(cell, plan.sheet, items)


def _widths(plan: SheetPlan, outer: bool) -> None:
    """The columns from left to right: functions, the labels of their results, and room for crossings.

    Results of the whole picture have labels: before they leave, or after that where they move on the way out.
    """
    x = 0.0
    moved = outer and any(abs(_moves(plan, slot)) > 0.5 for slot in plan.columns[-1])
    said: dict[int, int] = {}
    columns = plan.columns
    for number, column in enumerate(columns):
        last = number == len(columns) - 1
        if number:
            x += _room(plan, column)
        # The boxes of a column are centered on one line.
        spans = [spans_of(plan.shapes[s.cell]) for s in column if s.cell >= 0]
        wide, behind = max((w for w, _ in spans), default=0.0), max((b for _, b in spans), default=0.0)
        plan.functions.append((x, wide + behind))
        plan.middles.append(x + wide / 2)
        x += wide + behind
        if any(isinstance(plan.shapes[s.cell], Framed) for s in column if s.cell >= 0):
            x += _STUB
        new = {w for s in column if s.cell >= 0 or number == 0 for w, _ in plan.output_heights(s) if not last}
        if new or any(s.wire >= 0 and number - said.get(s.wire, number) >= 2 * _RELABEL for s in column):
            new |= {
                s.wire for s in column if s.wire >= 0 and number - said.get(s.wire, number) >= _RELABEL and not last
            }
        if outer and number == len(columns) - (1 if moved else 2):
            new |= {w for w in plan.sheet.outputs if plan.sheet.wires[w].ty.axes}
        texts = [label_of(plan.sheet, w, n) for w in new for n in plan.sheet.wires[w].ty.names]
        width = max((text_width(t) for t in texts), default=-4.0) + 10
        if last and not new:
            width = 0.0
        said.update(dict.fromkeys(new, number))
        plan.labeled.append(new)
        plan.data.append((x, width))
        x += width
    plan.width = x


def _moves(plan: SheetPlan, slot: Slot) -> float:
    """How far an array moves up or down to leave."""
    return max(
        (plan.heights[id(slot)] - plan.output_heights(m)[out][1] for m, out, _ in slot.joins()), key=abs, default=0.0
    )


def _room(plan: SheetPlan, column: list[Slot]) -> float:
    """The width in which wires go from the heights of one column to those of the next."""
    most = 0.0
    for slot in column:
        y = plan.heights[id(slot)]
        shape = plan.shapes[slot.cell] if slot.cell >= 0 else None
        for maker, out, k in slot.joins():
            w, at = plan.output_heights(maker)[out]
            for name, height in rows(plan.sheet.wires[w].ty).items():
                if shape is None:
                    end: float | None = y + height
                elif isinstance(shape, FunctionShape):
                    aim = target(shape, plan.sheet.cells[slot.cell], k, name)
                    end = None if aim is None else y + aim
                else:
                    fed = dict(plan.sheet.cells[slot.cell].feeds)
                    end = y + shape.plan.inputs[fed[k]] + height if k in fed else None
                if end is not None:
                    most = max(most, abs(end - at - height))
    return _STUB if most < 0.5 else 14 + min(64.0, 0.32 * most)
