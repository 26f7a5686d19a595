"""The geometry of one function: where wires enter its box, which pass around it, and where its results leave.

Heights are relative to the wire of the elements of the (middle of the) results.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from catdiag.category.types import ArrayType
from catdiag.draw.string_diagram.sheets import Cell, Sheet
from catdiag.draw.string_diagram.wire_bands import EDGE, ROW, reach, rows, stacked
from catdiag.draw.text_width import text_width

PAD = 7.0
"""The room at both sides of a box."""
BODY = 9.5
"""Half the least height of a box."""
GAP = 16.0
"""The least distance between bands and functions of one column."""
_PORT = 8.0
_CLEAR = 3.5


@dataclass
class FunctionShape:
    """The geometry of a function.

    `enters` are the heights at which wires (input, axis) enter the box, `leaves` those at which results (output, axis)
    leave it, `lanes` those of the axes that pass it, and `refs` those of the results' bands.
    """

    width: float
    body: tuple[float, float] | None
    body_width: float
    enters: dict[tuple[int, str], float] = field(default_factory=dict)
    leaves: dict[tuple[int, str], float] = field(default_factory=dict)
    lanes: dict[str, float] = field(default_factory=dict)
    refs: list[float] = field(default_factory=list)
    new: list[str] = field(default_factory=list)
    top: float = 0.0
    bottom: float = 0.0
    iterations: float = 0.0


def leaf_of(cell: Cell, sheet: Sheet, items: bool) -> FunctionShape:
    """The geometry of a function without a frame; `items` says whether the wires of elements are drawn."""
    ins = [sheet.wires[w].ty for w in cell.inputs]
    outs = [sheet.wires[w].ty for w in cell.outputs]
    refs = stacked(outs, GAP)
    if cell.kind is None:
        return _renaming(cell, ins, outs, refs, items)
    have = {n for ty in ins for n in ty.names}
    weaved = cell.weaved & have
    leaves = _leaves(outs, refs, weaved, items)
    enters = _enters(ins, weaved, items, leaves)
    reaching = [*enters.values(), *leaves.values(), 0.0]
    top = min(-BODY, min(reaching) - _CLEAR)
    bottom = max(BODY, max(reaching) + _CLEAR)
    width = max(22.0, text_width(cell.text, "body") + 12)
    if cell.kind in ("reduce", "contract"):
        width += 7
    leaf = FunctionShape(0.0, (top, bottom), width, enters, leaves, {}, refs)
    _lanes(leaf, outs, weaved)
    _set_extent(leaf, outs)
    turn = max((abs(leaf.lanes[n] - (ref + rows(ty)[n])) for ty, ref in zip(outs, refs, strict=True)
                for n in ty.names if n in leaf.lanes), default=0.0)  # fmt: skip
    leaf.iterations = 8 + 0.5 * turn if turn > 0.01 else 0.0
    leaf.width = width + 2 * PAD + leaf.iterations
    return leaf


def _renaming(
    cell: Cell, ins: Sequence[ArrayType], outs: Sequence[ArrayType], refs: list[float], items: bool
) -> FunctionShape:
    """A renaming or transposition: wires cross over, and rings mark where broadcast axes begin."""
    have = {n for ty in ins for n in ty.names}
    leaf = FunctionShape(12.0, None, 0.0, refs=refs)
    for name, height in rows(outs[0]).items():
        if name and cell.names.get(name, name) not in have:
            leaf.new.append(name)
        if name or items or not outs[0].axes:
            leaf.lanes[name] = height
    _set_extent(leaf, outs)
    if leaf.new:
        leaf.width = 20.0
    return leaf


def _leaves(
    outs: Sequence[ArrayType], refs: Sequence[float], weaved: frozenset[str] | set[str], items: bool
) -> dict[tuple[int, str], float]:
    """The heights at which results leave the box: those of their bands, unless a passing wire is between."""
    found: dict[tuple[int, str], float] = {}
    for j, (ty, ref) in enumerate(zip(outs, refs, strict=True)):
        if items or not ty.axes:
            found[j, ""] = ref
        for side in _sides(ty):
            at = ref
            free = True
            for name, height in side:
                free = free and name not in weaved
                if name in weaved:
                    continue
                sign = 1.0 if height > 0 else -1.0
                at = ref + height if free else at + sign * _PORT
                found[j, name] = at
    return found


def _enters(
    ins: Sequence[ArrayType], weaved: frozenset[str] | set[str], items: bool, leaves: Mapping[tuple[int, str], float]
) -> dict[tuple[int, str], float]:
    """The heights at which wires enter the box.

    Chains of boxes should not climb. Several inputs are centered around the results, with the spacing of these, and the
    first of two is level with the only result.
    """
    if len(ins) == 1:
        found = _leaves(ins, [0.0], weaved, items)
        return found if found or items else {}
    sequence: list[tuple[int, str]] = []
    for k, ty in enumerate(ins):
        by_height = sorted(rows(ty).items(), key=lambda pair: pair[1])
        sequence += [(k, n) for n, _ in by_height if (n and n not in weaved) or (not n and (items or not ty.axes))]
    if not sequence:
        return {}
    top, bottom = min(leaves.values(), default=0.0), max(leaves.values(), default=0.0)
    if len(ins) == 2 and leaves.keys() == {(0, name) for k, name in sequence if k == 0}:
        others = [key for key in sequence if key[0]]
        return {**leaves, **{key: bottom + _PORT * (place + 1) for place, key in enumerate(others)}}
    apart = max(_PORT, (bottom - top) / max(1, len(sequence) - 1))
    first = (top + bottom) / 2 - apart * (len(sequence) - 1) / 2
    return {key: first + apart * place for place, key in enumerate(sequence)}


def _sides(ty: ArrayType) -> tuple[list[tuple[str, float]], list[tuple[str, float]]]:
    """The axes above and below the elements' wire, each from the nearest on."""
    named = [(n, y) for n, y in rows(ty).items() if n]
    over = sorted((p for p in named if p[1] < 0), key=lambda p: -p[1])
    return over, sorted((p for p in named if p[1] > 0), key=lambda p: p[1])


def _lanes(leaf: FunctionShape, outs: Sequence[ArrayType], weaved: frozenset[str] | set[str]) -> None:
    if leaf.body is None:
        return
    top, bottom = leaf.body
    wanted: dict[str, float] = {}
    for ty, ref in zip(outs, leaf.refs, strict=True):
        for name, height in rows(ty).items():
            if name in weaved:
                wanted.setdefault(name, ref + height)
    limit = top - _CLEAR
    for name, height in sorted((p for p in wanted.items() if p[1] <= 0), key=lambda p: -p[1]):
        leaf.lanes[name] = min(height, limit)
        limit = leaf.lanes[name] - ROW
    limit = bottom + _CLEAR
    for name, height in sorted((p for p in wanted.items() if p[1] > 0), key=lambda p: p[1]):
        leaf.lanes[name] = max(height, limit)
        limit = leaf.lanes[name] + ROW


def _set_extent(leaf: FunctionShape, outs: Sequence[ArrayType]) -> None:
    edges = [y + d for y in leaf.lanes.values() for d in (-EDGE, EDGE)] + list(leaf.body or ())
    for ty, ref in zip(outs, leaf.refs, strict=True):
        top, bottom = reach(rows(ty))
        edges += [ref + top, ref + bottom]
    leaf.top, leaf.bottom = min(edges, default=-EDGE), max(edges, default=EDGE)
