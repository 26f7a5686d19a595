"""The columns of a sheet: the column of each function, and the order within a column.

Functions are placed in the first column after those whose arrays they read, and sources right before their readers. An
array that is still needed passes through the columns between. Each column is a list of slots: a function or a passing
array. The order is improved by barycenter sweeps, and the one with the fewest crossings is used (layered graph drawing:
Sugiyama, Tagawa and Toda, 1981).
"""

from __future__ import annotations

from bisect import bisect_right, insort
from collections.abc import Sequence
from dataclasses import dataclass

from catdiag.draw.string_diagram.sheets import Sheet

_SWEEPS = 6


@dataclass(eq=False, slots=True)
class Slot:
    """A place in a column: a function (`cell` ≥ 0), or an array (`wire` ≥ 0) that enters, passes or leaves.

    `index` is its position in the column, from the top. `before` are its joins to slots of the previous column, each
    with the port there and here; `after` those to the next column.
    """

    column: int
    cell: int = -1
    wire: int = -1
    index: int = 0
    before: list[tuple[Slot, int, int]] | None = None
    after: list[tuple[Slot, int, int]] | None = None
    output: int = -1

    def joins(self) -> list[tuple[Slot, int, int]]:
        """The joins to the previous column."""
        return self.before or []

    def follows(self) -> list[tuple[Slot, int, int]]:
        """The joins to the next column."""
        return self.after or []


def columns_of(sheet: Sheet, fixed: bool) -> list[list[Slot]]:
    """The columns of a sheet, ordered. Inputs stay in order where `fixed`; states and outputs always do."""
    depth = _depths(sheet)
    last = max(depth, default=0) + 1
    columns: list[list[Slot]] = [[] for _ in range(last + 1)]
    holders: dict[int, dict[int, Slot]] = {}  # the slots that contain a wire, by column, from its maker on
    for w in sheet.inputs:
        if sheet.is_input(w):
            slot = Slot(0, wire=w)
            columns[0].append(slot)
            holders[w] = {0: slot}
    for number, cell in enumerate(sheet.cells):
        slot = Slot(depth[number], cell=number)
        columns[depth[number]].append(slot)
        for w in cell.outputs:
            holders[w] = {depth[number]: slot}
    leaving = set(sheet.outputs)
    for w, slots in holders.items():
        readers = sheet.wires[w].readers
        end = max([last if w in leaving else 0, *(depth[c] for c, _ in readers)])
        start = next(iter(slots))
        for column in range(start + 1, end):
            slots[column] = Slot(column, wire=w)
            columns[column].append(slots[column])
    for place, w in enumerate(sheet.outputs):
        columns[last].append(Slot(last, wire=w, output=place))
    _join(sheet, columns, holders)
    _order(columns, sheet, fixed)
    return columns


def _depths(sheet: Sheet) -> list[int]:
    """The column of each function."""
    depth = [0] * len(sheet.cells)
    for number, cell in enumerate(sheet.cells):
        makers = [sheet.wires[w].maker for w in cell.inputs if not sheet.wires[w].ghost]
        # Sources are in the column before their first reader, at the earliest in the column of the inputs.
        depth[number] = 1 + max((depth[m] if sheet.cells[m].inputs else 0 for m in makers if m >= 0), default=0)
    for number, cell in enumerate(sheet.cells):
        if not cell.inputs:
            readers = [depth[c] for w in cell.outputs for c, _ in sheet.wires[w].readers]
            depth[number] = max(0, min(readers, default=1) - 1)
    return depth


def _join(sheet: Sheet, columns: list[list[Slot]], holders: dict[int, dict[int, Slot]]) -> None:
    port = {w: k for cell in sheet.cells for k, w in enumerate(cell.outputs)}
    for column in columns:
        for slot in column:
            slot.before, slot.after = [], []
    for number, column in enumerate(columns[1:], 1):
        for slot in column:
            wires = [slot.wire] if slot.wire >= 0 else sheet.cells[slot.cell].inputs
            for k, w in enumerate(wires):
                slots = holders.get(w)
                if slots is None or number - 1 not in slots or slot.before is None:
                    continue
                maker = slots[number - 1]
                out = 0 if maker.wire >= 0 else port[w]
                slot.before.append((maker, out, k))
                if maker.after is not None:
                    maker.after.append((slot, k, out))


def _order(columns: list[list[Slot]], sheet: Sheet, fixed: bool) -> None:
    """Improves the order of slots in columns, in place."""
    first, last = columns[0], columns[-1]

    def pinned(column: list[Slot]) -> bool:
        return column is last or (column is first and fixed and all(s.wire >= 0 for s in column))

    def index(column: list[Slot]) -> None:
        for k, slot in enumerate(column):
            slot.index = k

    def sort(column: list[Slot], forward: bool) -> None:
        if pinned(column) or len(column) < 2:
            return
        keys: dict[int, float] = {}
        for slot in column:
            joined = slot.joins() if forward else slot.follows()
            places = [s.index + (p + 0.5) / (_ports(s, sheet, forward) + 1) for s, p, _ in joined]
            keys[id(slot)] = sum(places) / len(places) if places else float(slot.index)
        slots = _fixed_order(column, sheet, fixed)
        kept = set(map(id, slots))
        movable = sorted((s for s in column if id(s) not in kept), key=lambda s: (keys[id(s)], s.index))
        # Fixed slots are the states of a loop, above the rest, or inputs, among which only sources move.
        column[:] = [*slots, *movable]
        index(column)

    for column in columns:
        index(column)
    for column in columns[1:]:
        sort(column, True)
    best = _crossings(columns)
    order = [list(column) for column in columns]
    if best == 0:
        return
    for sweep in range(_SWEEPS):
        forward = sweep % 2 == 1
        for column in columns if forward else reversed(columns):
            sort(column, forward)
        found = _crossings(columns)
        if found < best:
            best, order = found, [list(column) for column in columns]
        if best == 0:
            break
    for column, kept in zip(columns, order, strict=True):
        column[:] = kept
        index(column)


def _fixed_order(column: list[Slot], sheet: Sheet, fixed: bool) -> list[Slot]:
    """The slots of a column whose relative order is fixed: inputs, or the states of a loop."""
    if column[0].column:
        return []
    states = set(sheet.inputs[: sheet.states])
    if fixed:
        return [s for s in column if s.wire >= 0]
    return [s for s in column if s.wire in states]


def _ports(slot: Slot, sheet: Sheet, forward: bool) -> int:
    if slot.wire >= 0:
        return 1
    cell = sheet.cells[slot.cell]
    return max(1, len(cell.outputs) if forward else len(cell.inputs))


def _crossings(columns: Sequence[Sequence[Slot]]) -> int:
    """The number of pairs of joins between neighboring columns that cross."""
    total = 0
    for column in columns[1:]:
        ends: list[tuple[int, int, int, int]] = sorted(
            (maker.index, out, slot.index, k) for slot in column for maker, out, k in slot.joins()
        )
        seen: list[tuple[int, int]] = []
        for _, _, at, k in ends:
            total += len(seen) - bisect_right(seen, (at, k))
            insort(seen, (at, k))
    return total
