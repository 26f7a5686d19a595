"""The layout of a string diagram: from a diagram to a scene of alternating columns of data and functions.

A wire is an axis, and the dotted wire is the elements of an array. Dashed rules separate arrays. An axis that a
function maps over passes around its box. Groups and loops are frames. The conventions are those of Abbott and Zardini,
"FlashAttention on a Napkin" (2025), section 2.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from itertools import pairwise

from catdiag.category.diagram import Diagram
from catdiag.category.ops import Box, Call, GroupOp
from catdiag.category.types import ArrayType
from catdiag.draw.memory_levels import RolePlacement, placement
from catdiag.draw.scene import Curve, Frame, Label, Scene, Shape, StraightLine
from catdiag.draw.string_diagram.box_shapes import FunctionShape
from catdiag.draw.string_diagram.layering import Slot
from catdiag.draw.string_diagram.sheet_geometry import (
    ARCH,
    Framed,
    SheetPlan,
    label_of,
    plan_of,
    spans_of,
    start_texts,
    target,
)
from catdiag.draw.string_diagram.sheets import Address, Cell, sheet_of
from catdiag.draw.string_diagram.wire_bands import rows
from catdiag.draw.string_diagram.wire_threads import Pen, Thread
from catdiag.draw.text_width import text_width
from catdiag.util.errors import source_place

MARGIN = 12.0


def layout(
    diagram: Diagram,
    *,
    open: bool | str | Collection[str] = False,
    levels: Sequence[str] = ("HBM", "SMEM"),
    items: bool = False,
    join: bool = False,
    marks: Mapping[Address, str] | None = None,
) -> Scene:
    """The picture of a diagram. Lengths are in points.

    `open` says which named diagrams are drawn inlined: none, all, or those of the given names. `levels` are the
    memories, slowest first. `items` says whether the wires of elements are drawn beside those of axes. With `join`,
    consecutive scalar functions are one box, with a formula of its inputs (a, b, …, from the top). `marks` puts a word
    at boxes, by address: the number of a node, then, inside it, of a body (in the order of
    `catdiag.category.ops.bodies`) and of a node there, and so on.

    >>> import catdiag as cd
    >>> rows = cd.algorithm("q x -> q", name="rows")(lambda a: cd.sum(cd.exp(a), "x"))
    >>> [label.text for label in layout(rows).items if isinstance(label, Label) and label.role == "body"]
    ['exp', 'Σ']

    Raises CatdiagError for levels that are not a chain.
    """
    names = None if isinstance(open, bool) else {open} if isinstance(open, str) else set(open)

    def opened(box: Box) -> bool:
        return isinstance(box.op, Call) and (bool(open) if names is None else box.op.name in names)

    place = placement(levels)
    plan = plan_of(sheet_of(diagram, opened, place, join), items)
    return _Painter(place, items, marks or {}).scene(plan, diagram)


class _Painter:
    def __init__(self, place: RolePlacement, items: bool, marks: Mapping[Address, str]) -> None:
        self.place, self.items, self.marks = place, items, marks
        self.pen = Pen()

    def scene(self, plan: SheetPlan, diagram: Diagram) -> Scene:
        sheet = plan.sheet
        names = [(w, sheet.wires[w].name) for w in sheet.inputs if sheet.is_input(w)]
        left = MARGIN + max((text_width(n, "array") + 8 for _, n in names if n), default=0.0)
        top = MARGIN - plan.top
        for w, name in names:
            y = top + plan.inputs[w]
            heights = [h for row, h in rows(sheet.wires[w].ty).items() if row] or [0.0]
            if name:
                middle = y + (min(heights) + max(heights)) / 2
                self.pen.label(Label(left - 8, middle + 4, name, "array", "end", sheet.wires[w].level))
            for row in self.drawn(sheet.wires[w].ty):
                self.pen.port(f"in{w}.{row}", left, y + rows(sheet.wires[w].ty)[row])
        todo = [(plan, left, top, "", {w: f"in{w}" for w, _ in names})]
        while todo:
            todo += _SheetPainter(self, *todo.pop()).paint()
        used = {item.level for item in self.pen.curves if isinstance(item, Curve)}
        return Scene(
            round(left + plan.width + MARGIN, 2),
            round(top + plan.bottom + MARGIN, 2),
            self.pen.items(),
            diagram.title or "diagram",
            _described(diagram),
            {look: name for look, name in self.place.names if look in used},
            dict(self.pen.ports),
        )

    def drawn(self, ty: ArrayType) -> list[str]:
        """The wires of an array that are drawn, by axis; that of the elements has no name."""
        return [name for name in rows(ty) if name or self.items or not ty.axes]


class _SheetPainter:
    """Paints one sheet at a position. `doors` are the names of the ports at which its inputs enter, by wire."""

    def __init__(
        self, painter: _Painter, plan: SheetPlan, x: float, y: float, prefix: str, doors: Mapping[int, str]
    ) -> None:
        self.painter, self.pen, self.plan, self.sheet = painter, painter.pen, plan, plan.sheet
        self.x, self.y, self.prefix, self.doors = x, y, prefix, doors
        self.threads: dict[tuple[int, str], Thread] = {}
        self.inside: list[tuple[SheetPlan, float, float, str, dict[int, str]]] = []

    def paint(self) -> list[tuple[SheetPlan, float, float, str, dict[int, str]]]:
        """Paints the sheet except for the insides of its frames, which are returned."""
        columns = self.plan.columns
        for w, door in self.doors.items():
            for row in self.painter.drawn(self.sheet.wires[w].ty):
                self.threads[w, row] = self._thread(w, row, f"{door}.{row}")
        for slot in columns[0]:
            if slot.cell >= 0:
                self._function(slot)
        for number in range(len(columns)):
            self._data(number)
            if number + 1 < len(columns):
                self._cross(number)
        return self.inside

    # -- wires ---------------------------------------------------------------------------------------------

    def _thread(self, w: int, row: str, port: str, level: int | None = None) -> Thread:
        wire = self.sheet.wires[w]
        title = f"{wire.name} {wire.ty}".strip()
        if row:
            axis = wire.ty.axis(row)
            title = f"axis {axis} of {title}"
        return self.pen.start(port, "axis" if row else "item", wire.level if level is None else level, title)

    def _data(self, number: int) -> None:
        """A column of data: labels in gaps of the wires, and dashed rules between arrays."""
        start, width = (self.x + self.plan.data[number][0], self.plan.data[number][1])
        column = self.plan.columns[number]
        heights = [(w, self.y + y) for slot in column if slot.output < 0 for w, y in self.plan.output_heights(slot)]
        for w, y in heights:
            ty = self.sheet.wires[w].ty
            for row in self.painter.drawn(ty):
                thread = self.threads[w, row]
                at = y + rows(ty)[row]
                if row and w in self.plan.labeled[number]:
                    thread = self._labeled(thread, w, row, start + width / 2, at, f"{self.prefix}w{w}.{row}@{number}")
                    self.threads[w, row] = thread
                thread.to(start + width, at)
        if width > 14:
            leaving = [
                (w, self.y + y) for slot in column if slot.output >= 0 for w, y in self.plan.output_heights(slot)
            ]
            for (w, y), (v, z) in pairwise(heights or leaving):
                low, high = (
                    y + max(rows(self.sheet.wires[w].ty).values()),
                    z + min(rows(self.sheet.wires[v].ty).values()),
                )
                self.pen.rule(StraightLine(start, (low + high) / 2, start + width, (low + high) / 2))

    def _labeled(self, thread: Thread, w: int, row: str, middle: float, at: float, name: str) -> Thread:
        """The wire of an axis, with its label in a gap."""
        text = label_of(self.sheet, w, row)
        half = text_width(text) / 2 + 1.5
        thread.to(middle - half, at)
        self.pen.finish(thread, self.pen.port(name + "<", middle - half, at))
        self.pen.label(Label(middle, at + 3.4, text, "axis", "middle", thread.level, title=thread.title))
        return self._thread(w, row, self.pen.port(name + ">", middle + half, at), thread.level)

    def _cross(self, number: int) -> None:
        """From a column of data to the functions of the next one, and through them."""
        columns = self.plan.columns
        joins: dict[int, list[tuple[Slot, int]]] = {}
        for slot in columns[number + 1]:
            for maker, out, k in slot.joins():
                w = self.plan.output_heights(maker)[out][0]
                joins.setdefault(w, []).append((slot, k))
        for slot in columns[number]:
            if slot.output >= 0:
                continue
            for w, _ in self.plan.output_heights(slot):
                self._part(w, joins.get(w, []), number)
        for slot in columns[number + 1]:
            if slot.cell >= 0:
                self._function(slot)

    def _part(self, w: int, joins: list[tuple[Slot, int]], number: int) -> None:
        """Continues the wires of an array to all its readers."""
        ty = self.sheet.wires[w].ty
        for row in self.painter.drawn(ty):
            thread = self.threads.pop((w, row))
            x, y = thread.at
            aims = [(slot, k, aim) for slot, k in joins if (aim := self._aim(slot, k, row, number)) is not None]
            name = f"{self.prefix}w{w}.{row}/{number}"
            if not aims:
                self.pen.finish(thread, self.pen.port(name, x, y))
                if not joins:
                    self.pen.shape(Shape("stop", x - 0.6, y - 4, 1.2, 8, thread.level))
                continue
            levels = [self._read_level(w, slot) for slot, _, _ in aims]
            if len(aims) > 1 or levels[0] != thread.level:
                self.pen.finish(thread, self.pen.port(name, x, y))
            if len(aims) > 1:
                self.pen.dot(x, y, thread.level)
            for (slot, _, (port, ax, ay)), level in zip(aims, levels, strict=True):
                branch = thread
                if len(aims) > 1 or level != thread.level:
                    branch = self._thread(w, row, name, level)
                begin = self.x + self.plan.functions[number + 1][0]
                branch.to(begin, ay)
                if slot.cell >= 0:
                    branch.to(ax, ay)
                    self.pen.finish(branch, port)
                elif slot.output >= 0:
                    start, width = self.plan.data[-1]
                    if row and w in self.plan.labeled[-1]:
                        port = f"{self.prefix}w{w}.{row}@{slot.output}out"
                        branch = self._labeled(branch, w, row, self.x + start + width / 2, ay, port)
                    branch.to(self.x + self.plan.width, ay)
                    self.pen.finish(branch, self.pen.port(f"{self.prefix}out{slot.output}.{row}", *branch.at))
                else:
                    branch.to(begin + self.plan.functions[number + 1][1], ay)
                    self.threads[w, row] = branch

    def _read_level(self, w: int, slot: Slot) -> int:
        """The level of an array where it is read."""
        level, slow = self.sheet.wires[w].level, self.painter.place.slow
        if slot.cell < 0:
            return slow if slot.output >= 0 and self.sheet.kernel else level
        cell = self.sheet.cells[slot.cell]
        if isinstance(cell.box.op, GroupOp):
            return slow
        if cell.inner is not None or cell.level == slow:
            return level
        if cell.kind == "contract" and cell.level == self.painter.place.matrix:
            return cell.level
        return self.painter.place.operand if level == slow else level

    def _aim(self, slot: Slot, k: int, row: str, number: int) -> tuple[str, float, float] | None:
        """The port and the place at which a wire ends that a slot of the next column reads."""
        y = self.y + self.plan.heights[id(slot)]
        if slot.cell < 0:
            return "", 0.0, y + rows(self.sheet.wires[slot.wire].ty)[row]
        cell, shape = self.sheet.cells[slot.cell], self.plan.shapes[slot.cell]
        middle = self.plan.middles[number + 1]
        ty = self.sheet.wires[cell.inputs[k]].ty
        if isinstance(shape, Framed):
            fed = dict(cell.feeds)
            if k not in fed:
                return None
            x, at = self.x + middle - shape.width / 2, y + shape.plan.inputs[fed[k]] + rows(ty)[row]
        else:
            aim = target(shape, cell, k, row)
            if aim is None:
                return None
            at = y + aim
            x = self.x + self.plan.functions[number + 1][0]
            if (k, row) in shape.enters:
                x = self.x + middle - shape.body_width / 2
            else:
                new = next((n for n, before in cell.names.items() if before == row), row)
                return self.pen.port(f"{self.prefix}{slot.cell}.by.{new}", x, at), x, at
        return self.pen.port(f"{self.prefix}{slot.cell}.in{k}.{row}", x, at), x, at

    # -- functions -----------------------------------------------------------------------------------------

    def _function(self, slot: Slot) -> None:
        cell, shape = self.sheet.cells[slot.cell], self.plan.shapes[slot.cell]
        begin, width = self.plan.functions[slot.column]
        x, y = self.x + begin, self.y + self.plan.heights[id(slot)]
        middle = self.x + self.plan.middles[slot.column]
        if isinstance(shape, Framed):
            self._frame(cell, slot.cell, shape, middle, x + width, y)
        else:
            self._leaf(cell, slot.cell, shape, middle, (x, x + width), y)
        words = [word for at in (cell.address, *cell.also) if (word := self.painter.marks.get(at)) is not None]
        if words:
            edge = middle - spans_of(shape)[0] / 2
            tall, hollow = shape.bottom - shape.top, isinstance(shape, Framed)
            self.pen.frame(Frame("mark", edge, y + shape.top, shape.width, tall, cell.level, words[0], hollow))

    def _leaf(
        self, cell: Cell, number: int, leaf: FunctionShape, middle: float, column: tuple[float, float], y: float
    ) -> None:
        """A function without a frame, in a column from its left to its right edge."""
        pen, name, (x, far) = self.pen, f"{self.prefix}{number}", column
        left, right = middle - leaf.body_width / 2, middle + leaf.body_width / 2
        if leaf.body is not None and cell.kind is not None:
            top, bottom = leaf.body
            pen.shape(Shape(cell.kind, left, y + top, leaf.body_width, bottom - top, cell.level, name, _titled(cell)))
            shift = -3.0 if cell.kind in ("reduce", "contract") else 0.0
            pen.label(Label(middle + shift, y + (top + bottom) / 2 + 3.8, cell.text, "body", "middle", cell.level))
        arrivals: dict[str, int] = {}
        for k, w in enumerate(cell.inputs):
            for row in self.painter.drawn(self.sheet.wires[w].ty):
                if (k, row) not in leaf.enters and target(leaf, cell, k, row) is not None:
                    new = next((n for n, before in cell.names.items() if before == row), row)
                    arrivals[new] = arrivals.get(new, 0) + 1
        for row, count in arrivals.items():
            if count > 1:
                pen.dot(x, y + leaf.lanes[row], cell.level)
        leavers = [n for w in cell.outputs for n in self.sheet.wires[w].ty.names]
        for j, w in enumerate(cell.outputs):
            ty = self.sheet.wires[w].ty
            for row in self.painter.drawn(ty):
                height = y + leaf.refs[j] + rows(ty)[row]
                if (j, row) in leaf.leaves:
                    thread = self._thread(w, row, pen.port(f"{name}.out{j}.{row}", right, y + leaf.leaves[j, row]))
                elif row in leaf.new or row not in arrivals:
                    thread = self._thread(w, row, pen.port(f"{name}.new.{row}", middle, height))
                    pen.dot(middle, height, self.sheet.wires[w].level, ring=True)
                else:
                    thread = self._thread(w, row, pen.port(f"{name}.by.{row}", x, y + leaf.lanes[row]))
                    thread.to(max(right, x), y + leaf.lanes[row])
                    if leavers.count(row) > 1 and j == 0:
                        pen.dot(max(right, x), y + leaf.lanes[row], self.sheet.wires[w].level)
                thread.to(far, height)
                self.threads[w, row] = thread

    def _frame(self, cell: Cell, number: int, framed: Framed, middle: float, far: float, y: float) -> None:
        """A frame in a column that ends at `far`."""
        pen, inner, name = self.pen, framed.plan, f"{self.prefix}{number}"
        left = middle - framed.width / 2
        kind = cell.frame or "call"
        level = cell.level
        pen.frame(Frame(kind, left, y + framed.top, framed.width, framed.bottom - framed.top, level, cell.text))
        pen.label(Label(left + 8, y + framed.top + 12, cell.text, "note", "start", level))
        start = left + framed.left
        doors: dict[int, str] = {}
        for k, w in cell.feeds:
            ty = inner.sheet.wires[w].ty
            doors[w] = f"{name}.door{k}"
            for row in self.painter.drawn(ty):
                pen.port(f"{doors[w]}.{row}", left, y + inner.inputs[w] + rows(ty)[row])
        states = [w for w in inner.sheet.inputs[: inner.sheet.states] if inner.sheet.is_input(w)]
        for w in states:
            ty = inner.sheet.wires[w].ty
            doors[w] = f"{name}.state{w}"
            for row in self.painter.drawn(ty):
                pen.port(f"{doors[w]}.{row}", start - 4, y + inner.inputs[w] + rows(ty)[row])
        if states:
            self._arch(cell, framed, start, y, states, name)
        self.inside.append((inner, start, y, f"{name}/", doors))
        end = start + inner.width
        for j, w in enumerate(cell.outputs):
            ty = self.sheet.wires[w].ty
            for row in self.painter.drawn(ty):
                at = y + inner.outputs[j] + rows(ty)[row]
                within = inner.sheet.wires[inner.sheet.outputs[j]].level
                port = f"{name}/out{j}.{row}"
                pen.port(port, end, at)
                edge = pen.port(f"{name}.out{j}.{row}", left + framed.width, at)
                stub = self._thread(w, row, port, within)
                stub.to(left + framed.width, at)
                pen.finish(stub, edge)
                thread = self._thread(w, row, edge)
                thread.to(far, at)
                self.threads[w, row] = thread

    def _arch(self, cell: Cell, framed: Framed, start: float, y: float, states: list[int], name: str) -> None:
        """The feedback of a loop's states, and their initial values."""
        pen, inner = self.pen, framed.plan
        level = inner.sheet.wires[states[0]].level
        spans = [[y + inner.inputs[w] + h for h in rows(inner.sheet.wires[w].ty).values()] for w in states]
        ends = [
            [y + inner.outputs[j] + h for h in rows(inner.sheet.wires[inner.sheet.outputs[j]].ty).values()]
            for j in range(len(cell.outputs))
        ]
        xl, xr = start - 4, start + inner.width + 4
        heights = ((xl, spans), (xr, ends))
        tops = []
        for x, found in heights:
            top, bottom = min(map(min, found)) - 3, max(map(max, found)) + 3
            tops.append(top)
            third = (bottom - top) / 3
            pen.curves.append(
                Curve(((x, top), (x, top + third), (x, bottom - third), (x, bottom)), "state", level, title="state")
            )
        over = y + framed.top + 17 + ARCH / 2
        round_ = min(8.0, (tops[0] - over) / 2 if tops[0] > over else 4.0)
        places = [(xr, tops[1])]
        path = [(xr, over + round_), (xr - round_, over), (xl + round_, over), (xl, over + round_), (xl, tops[0])]
        corners = {1: (xr, over), 3: (xl, over)}
        for k, (px, py) in enumerate(path):
            x0, y0 = places[-1]
            if k in corners:
                cx, cy = corners[k]
                places += [((x0 + 2 * cx) / 3, (y0 + 2 * cy) / 3), ((px + 2 * cx) / 3, (py + 2 * cy) / 3), (px, py)]
            else:
                places += [
                    (x0 + (px - x0) / 3, y0 + (py - y0) / 3),
                    (x0 + 2 * (px - x0) / 3, y0 + 2 * (py - y0) / 3),
                    (px, py),
                ]
        pen.curves.append(Curve(tuple(places), "state", level, arrow=True, title="the state, for the next block"))
        for w, text in zip(states, start_texts(cell, inner.sheet), strict=False):
            pen.label(Label(xl - 6, y + inner.inputs[w] + 3.2, text, "note", "end", level))


def _titled(cell: Cell) -> str:
    """The tooltip of a box."""
    return (
        f"{cell.box.name}: {cell.box.dom} → {cell.box.cod}{_line(cell.box.line)}"
        if cell.kind != "source"
        else cell.text
    )


def _line(line: str | None) -> str:
    """The user's line with the name of the file; without the folder, which differs between machines."""
    place = source_place(line or "")
    if not place.file.endswith(".py") or place.installed:
        return ""
    return f" ({place.short}{f': {place.code}' if place.code else ''})"


def _described(diagram: Diagram) -> str:
    """The description of a picture for screen readers."""
    inputs = ", ".join(f"{n} {ty}" for n, ty in zip(diagram.input_names, diagram.dom, strict=True)) or "nothing"
    boxes = [box.name for box in diagram.boxes[:40]]
    more = f" and {len(diagram) - 40} more" if len(diagram) > 40 else ""
    return f"From {inputs} to {diagram.cod}, by {', '.join(boxes) or 'wires only'}{more}."
