"""The changes of a rewrite: boxes of the diagram before that are gone, and boxes of the diagram after that are new.

Named diagrams, groups and loops are traversed: a box that only moved into one of them is the same box. Boxes are the
same if they apply the same operation to arrays of the same axes (sizes may be those of tiles). Of several candidates,
boxes with the same operands are matched first, then any, in order. The matching is maximal, and found in nearly linear
time.

A loop that only one side has is marked, and so are boxes in it that the other side lacks. Boxes that moved into or out
of it are marked on the other side. A loop that runs in another way, for example split, is marked as changed on both
sides. Exchanging the two diagrams exchanges the marks.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from catdiag.category import ops
from catdiag.category.diagram import Diagram, Graph
from catdiag.category.ops import Box, bodies, op_fact, without_bodies
from catdiag.draw.string_diagram.sheets import Address

GONE, NEW, CHANGED = "gone", "new", "changed"
INTO, OUT_OF = "into the loop", "out of the loop"


@dataclass(frozen=True)
class Changes:
    """A word for each box that is gone or new, by address: alternating numbers of nodes and bodies, as in layouts."""

    before: Mapping[Address, str]
    after: Mapping[Address, str]

    @property
    def none(self) -> bool:
        """Whether nothing changed."""
        return not self.before and not self.after


def changes(before: Diagram, after: Diagram) -> Changes:
    """The changes from one diagram to another.

    >>> import catdiag as cd
    >>> f = cd.algorithm("x -> x")(lambda a: cd.exp(a) + 1)
    >>> g = cd.algorithm("x -> x")(lambda a: cd.exp(a) * 2)
    >>> changes(f, g).before, changes(f, g).after
    ({(1,): 'gone', (2,): 'gone'}, {(1,): 'new', (2,): 'new'})
    >>> changes(f, f).none
    True
    >>> total = cd.algorithm("x ->")(lambda a: cd.sum(a, "x"))
    >>> found = changes(total, total.stream("x").diagram)
    >>> found.before, found.after
    ({(0,): 'into the loop'}, {(0,): 'new', (0, 1, 1): 'new'})
    """
    keys: dict[Hashable, int] = {}
    left, right = _read(before, keys), _read(after, keys)
    _match(left.frames, right.frames, lambda frame: frame.same)
    _match(left.frames, right.frames, lambda frame: frame.like)
    for side in (left, right):
        for frame in side.frames:
            frame.odd = (frame.looped and frame.other is None) or (frame.around is not None and frame.around.odd)
    _match(left.boxes, right.boxes, lambda b: b.computed)
    _match(left.boxes, right.boxes, lambda b: b.same)
    return Changes(_marks(left, GONE, INTO), _marks(right, NEW, OUT_OF))


@dataclass(eq=False)
class _DiffFrame:
    """A loop or a group: numbers for its operation (`same`) and for its axes (`like`), and the frame around it."""

    address: Address
    same: int
    like: int
    looped: bool
    around: _DiffFrame | None
    other: _DiffFrame | None = None
    odd: bool = False


@dataclass(eq=False)
class _DiffLeaf:
    """A box: numbers for its operation (`same`), and for its operation with all operands (`computed`)."""

    address: Address
    same: int
    computed: int
    around: _DiffFrame | None
    other: _DiffLeaf | None = None

    @property
    def odd(self) -> bool:
        """Whether it is in a loop that the other side does not have."""
        return self.around is not None and self.around.odd


_T = TypeVar("_T", _DiffFrame, _DiffLeaf)


@dataclass
class _DiffSide:
    boxes: list[_DiffLeaf] = field(default_factory=list)
    frames: list[_DiffFrame] = field(default_factory=list)


@dataclass
class _DiffLoop:
    """A graph that is being read: the place of the next node, and the numbers of its wires."""

    graph: Graph
    wires: list[int]
    address: Address
    around: _DiffFrame | None
    folded: Hashable = None
    place: int = 0


def _read(diagram: Diagram, keys: dict[Hashable, int]) -> _DiffSide:
    """The boxes and frames of a diagram, recursively. `keys` numbers equal things equally on both sides."""

    def number(*what: Hashable) -> int:
        return keys.setdefault(what, len(keys))

    side = _DiffSide()
    start = [number("input", k) for k in range(len(diagram.dom))]
    stack = [_DiffLoop(diagram.graph, start, (), None)]
    while True:
        top = stack[-1]
        if top.place == len(top.graph.nodes):
            stack.pop()
            if not stack:
                return side
            made = [top.wires[w] for w in top.graph.outputs]
            outer = stack[-1]
            outer.wires += [number("loop", top.folded, k, m) for k, m in enumerate(made)] if top.folded else made
            continue
        node, address = top.graph.nodes[top.place], (*top.address, top.place)
        top.place += 1
        op, inputs = node.box.op, [top.wires[w] for w in node.inputs]
        if isinstance(op, (ops.FoldOp, ops.GroupOp)):
            over = (op.axis, op.components) if isinstance(op, ops.FoldOp) else tuple(axis for axis, _ in op.tiles)
            same, like = number("frame", without_bodies(op)), number("over", type(op).__name__, over)
            frame = _DiffFrame(address, same, like, isinstance(op, ops.FoldOp), top.around)
            side.frames.append(frame)
            if isinstance(op, ops.FoldOp):
                states = [number("state", op.axis, k) for k in range(op.state_count)]
                stack.append(_DiffLoop(op.step.graph, [*states, *inputs], (*address, 1), frame, op.axis))
            else:
                stack.append(_DiffLoop(op.body.graph, inputs, (*address, 0), frame))
        elif isinstance(op, ops.Call):
            stack.append(_DiffLoop(op.body.graph, inputs, (*address, 0), top.around))
        else:
            same = number("box", *_kind(node.box))
            whole = number("made", same, *inputs)
            side.boxes.append(_DiffLeaf(address, same, whole, top.around))
            top.wires += [number("result", whole, k) for k in range(len(node.box.cod))]


WITHOUT_SIZES: Mapping[type[ops.Op], Callable[[Any], tuple[Hashable, ...]]] = {
    ops.Reindex: lambda op: (op.kind, op.axis.name, op.place, tuple(a.name for a in op.added_axes())),
    ops.View: lambda op: (op.name, tuple(a.name for a in op.index_axes), tuple(read.at for read in op.reads)),
}
"""The data of an operation without the lengths of its axes, where it has some."""


def _kind(box: Box) -> tuple[Hashable, ...]:
    """The operation of a box without the lengths of axes, because tiles and blocks are shorter."""
    op, row = box.op, op_fact(WITHOUT_SIZES, box.op)
    does: tuple[Hashable, ...] = (op,) if row is None else row(op)
    ends = (tuple(tuple(sorted(ty.names)) for ty in side) for side in (box.dom, box.cod))
    return (type(op).__name__, *does, *ends)


def _match(left: Sequence[_T], right: Sequence[_T], key: Callable[[_T], int]) -> None:
    """Pairs items without a partner that have the same key, in order."""
    waiting: dict[int, deque[_T]] = {}
    for one in right:
        if one.other is None:
            waiting.setdefault(key(one), deque()).append(one)
    for one in left:
        if one.other is None and (others := waiting.get(key(one))):
            one.other = others.popleft()
            one.other.other = one


def _marks(side: _DiffSide, lost: str, moved: str) -> dict[Address, str]:
    found: dict[Address, str] = {}
    for frame in side.frames:
        if frame.around is not None and frame.around.odd:
            continue
        if frame.other is None:
            found[frame.address] = lost
        elif frame.other.same != frame.same:
            found[frame.address] = CHANGED
    for box in side.boxes:
        if box.other is None:
            found[box.address] = lost
        elif box.other.odd and not box.odd:
            found[box.address] = moved
    return dict(sorted(found.items()))


_QUIET = (ops.Const, ops.SizeOf, ops.Index, ops.Rename)
"""Boxes that are usually drawn as a text or a wire."""


def gathered(diagram: Diagram, marks: Mapping[Address, str]) -> tuple[dict[Address, str], frozenset[str]]:
    """The marks for a picture with closed named diagrams, and the names of those that must be open.

    A named diagram whose boxes are all marked has one mark. One with some marked boxes is opened.

    >>> import catdiag as cd
    >>> f = cd.algorithm("q x -> q x")(lambda a: cd.softmax(a, "x"))
    >>> within = {(0, 0, k): "gone" for k in range(5)}
    >>> gathered(f, within) == ({(0,): "gone"}, frozenset())
    True
    >>> {name for name in gathered(f, {(0, 0, 0): "gone"})[1]} == {f.graph.nodes[0].box.op.name}
    True
    """
    found = dict(marks)
    opened: set[str] = set()
    touched = {address[:k] for address in marks for k in range(1, len(address))}
    calls: list[tuple[Address, ops.Call]] = []
    stack: list[tuple[Diagram, Address]] = [(diagram, ())]
    while stack:
        item, prefix = stack.pop()
        for place, node in enumerate(item.graph.nodes):
            address = (*prefix, place)
            if address in touched:
                if isinstance(node.box.op, ops.Call):
                    calls.append((address, node.box.op))
                stack += [(body, (*address, k)) for k, body in enumerate(bodies(node.box.op))]
    # Innermost first, so that the marks of a diagram are known when the one around it is processed.
    for address, op in sorted(calls, key=lambda call: -len(call[0])):
        inner = (*address, 0)
        nodes = op.body.graph.nodes
        words = {found.get((*inner, k)) for k, node in enumerate(nodes) if not isinstance(node.box.op, _QUIET)}
        if len(words) == 1 and None not in words:
            found = {at: word for at, word in found.items() if at[: len(inner)] != inner}
            found[address] = str(*words)
        elif any(at[: len(inner)] == inner for at in found):
            opened.add(op.name)
    return dict(sorted(found.items())), frozenset(opened)
