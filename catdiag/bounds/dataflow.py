"""The data-flow graph of a diagram, with loops and groups inlined: what lower bounds are derived from.

A loop appears as its step, once, on whole axes. Each array stands for all of its values in all iterations and all
groups: one value for each index and iteration. An edge from one box to the next says which values are read to compute a
value. Inlining loses two facts, which are recorded: which axes are blocks of which loop (a sum over one is complete
only after the loop), and whether a state is carried from iteration to iteration at the same index.

Bounds rest on *paths* of arrays that keep some coordinates: `trace` looks for one back to an input, `downstream` for
one forward to an output.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace

from catdiag.bounds.coordinates import NOWHERE, Atom, Indices, added, back, dependence, on, passage
from catdiag.category.diagram import Diagram, Graph
from catdiag.category.ops import Box, Einsum, FoldOp, GroupOp, Rename, einsum_box
from catdiag.category.substitution import inline
from catdiag.category.types import Axis, Size, Ty
from catdiag.schedule.live_ranges import is_view


@dataclass(frozen=True)
class FlowAxis:
    """The length of an atom, and the loops of which it is a block."""

    size: Size
    loops: frozenset[int] = frozenset()


@dataclass(frozen=True)
class FlowArray:
    """An array of the flow.

    `producer` is the place of the box that makes it (-1: an input, or a state at the start of an iteration), `loops`
    are the loops around that box. Its elements may differ along the axes in `varies`. Along the axes of a set in
    `aliased`, elements at different indices may coincide, as in overlapping access regions.
    """

    axes: Mapping[Atom, FlowAxis]
    producer: int
    loops: tuple[int, ...]
    name: str
    varies: frozenset[Atom] = frozenset()
    aliased: frozenset[frozenset[Atom]] = frozenset()


@dataclass(frozen=True)
class FlowOperation:
    """A box of the flow at its place; `unconditional` says that it certainly runs at every index."""

    place: int
    box: Box
    reads: tuple[int, ...]
    results: tuple[int, ...]
    loops: tuple[int, ...]
    unconditional: bool


@dataclass(frozen=True)
class FlowLoop:
    """A loop: its states at the start and at the end of an iteration.

    `merged` says for each state whether the merge of partial states keeps it at the same index.
    """

    starts: tuple[int, ...]
    ends: tuple[int, ...]
    merged: tuple[bool, ...]
    components: tuple[str, ...]


@dataclass
class Flow:
    """The data-flow graph of a diagram."""

    arrays: list[FlowArray] = field(default_factory=list)
    acts: list[FlowOperation] = field(default_factory=list)
    loops: list[FlowLoop] = field(default_factory=list)
    inputs: tuple[int, ...] = ()
    outputs: tuple[int, ...] = ()

    def root(self, wire: int) -> int:
        """The array that this one renames or shows in another layout."""
        while (place := self.arrays[wire].producer) >= 0 and is_view(self.acts[place].box):
            wire = self.acts[place].reads[0]
        return wire

    def handed_on(self, loop: int, wire: int) -> tuple[frozenset[Atom], frozenset[int]]:
        """For a state at the end of an iteration: the coordinates at which it reads the same state at the start.

        Gives these coordinates and the arrays on the path between the two; none of either where the state is not
        carried.
        """
        flow_loop = self.loops[loop]
        places = [k for k, end in enumerate(flow_loop.ends) if end == wire]
        if not places or not all(flow_loop.merged[k] for k in places):
            return frozenset(), frozenset()
        start = flow_loop.starts[places[0]]
        if start == wire:
            return frozenset(self.arrays[wire].axes), frozenset((wire,))
        same = {atom: (_path_text(atom),) for atom in self.arrays[wire].axes}
        found = trace(self, wire, same, down_to=start)
        if start not in found:
            return frozenset(), frozenset()
        kept = found[start].coordinates
        atoms = frozenset(a for a, shown in kept.items() if shown == (_path_text(a),))
        return atoms, path(found, start)


@dataclass(frozen=True)
class Seen:
    """An array met on a walk: the indices that determine its coordinates, and the array before it on the path."""

    coordinates: Mapping[Atom, Indices]
    before: int


def path(found: Mapping[int, Seen], wire: int) -> frozenset[int]:
    """The arrays of the path that led to one."""
    passed: list[int] = []
    while wire >= 0:
        passed.append(wire)
        wire = found[wire].before
    return frozenset(passed)


def _path_text(atom: Atom) -> str:
    return atom[0] if atom[1] == 0 else f"{atom[0]}.{atom[1]}"


# -- inlining ------------------------------------------------------------------------------------------------------


@dataclass
class _FlowFrame:
    graph: Graph
    place: int
    wires: list[int]
    scope: Mapping[str, FlowAxis]
    loops: tuple[int, ...]
    sure: bool
    closes: int = -1


def flow_of(diagram: Diagram) -> Flow:
    """The flow of a diagram, with named boxes, groups and loops inlined."""
    flow = Flow()
    for name, ty in zip(diagram.input_names, diagram.dom, strict=True):
        axes = _loop_bounds(ty.axes, {})
        flow.arrays.append(FlowArray(axes, -1, (), name, frozenset(axes)))
    flow.inputs = tuple(range(len(flow.arrays)))
    frames = [_FlowFrame(inline(diagram).graph, 0, list(flow.inputs), {}, (), True)]
    while True:
        frame = frames[-1]
        opened = False
        while frame.place < len(frame.graph.nodes):
            node = frame.graph.nodes[frame.place]
            frame.place += 1
            reads = tuple(frame.wires[w] for w in node.inputs)
            op = node.box.op
            if isinstance(op, GroupOp):
                sizes = {a.name: a for ty in (*node.box.cod, *node.box.dom) for a in ty.axes}
                scope = {**frame.scope, **{s: _extent(sizes[a].size, frame.scope) for a, s in op.tiles if a in sizes}}
                frames.append(_FlowFrame(inline(op.body).graph, 0, list(reads), scope, frame.loops, frame.sure))
                opened = True
                break
            if isinstance(op, FoldOp):
                frames.append(_loop_flow(flow, node.box, op, reads, frame))
                opened = True
                break
            frame.wires.extend(_act(flow, *_summed_first(flow, node.box, reads, frame), frame))
        if opened:
            continue
        frames.pop()
        outputs = [frame.wires[w] for w in frame.graph.outputs]
        if frame.closes >= 0:
            flow_loop = flow.loops[frame.closes]
            flow.loops[frame.closes] = FlowLoop(
                flow_loop.starts, tuple(outputs), flow_loop.merged, flow_loop.components
            )
        if not frames:
            flow.outputs = tuple(outputs)
            return flow
        frames[-1].wires.extend(outputs)


def _act(flow: Flow, box: Box, reads: tuple[int, ...], frame: _FlowFrame) -> tuple[int, ...]:
    """Adds a box to the flow, and returns the arrays that it makes."""
    made = _produced(flow, box, reads, frame)
    place = len(flow.acts)
    makes = tuple(range(len(flow.arrays), len(flow.arrays) + len(made)))
    for axes in made:
        varies, tangled = _varies(flow, box, reads, axes)
        flow.arrays.append(FlowArray(axes, place, frame.loops, box.name, varies, tangled))
    flow.acts.append(FlowOperation(place, box, reads, makes, frame.loops, frame.sure))
    return makes


def _summed_first(flow: Flow, box: Box, reads: tuple[int, ...], frame: _FlowFrame) -> tuple[Box, tuple[int, ...]]:
    """A product of several arrays, each of them first summed over axes that no other array and not the result has.

    A schedule may do that: it takes fewer products than the contraction of all arrays at once.
    """
    if not isinstance(box.op, Einsum) or len(reads) < 2:
        return box, reads
    left, types = list(reads), list(box.dom)
    for k, ty in enumerate(box.dom):
        elsewhere = {*box.cod[0].names, *(n for j, other in enumerate(box.dom) if j != k for n in other.names)}
        kept = [n for n in ty.names if n in elsewhere]
        if len(kept) < len(ty.names):
            total = einsum_box([ty], kept, box.line)
            (left[k],) = _act(flow, total, (reads[k],), frame)
            types[k] = total.cod[0]
    return Box(box.op, Ty(*types), box.cod, box.line), tuple(left)


def _loop_flow(flow: Flow, box: Box, op: FoldOp, reads: tuple[int, ...], frame: _FlowFrame) -> _FlowFrame:
    """The frame of a loop's step, on whole axes; its states at the start of an iteration are new arrays."""
    number = len(flow.loops)
    size = next((a.size for ty in box.dom for a in ty.axes if a.name == op.axis), op.axis)
    whole = _extent(size, frame.scope)
    scope = {**frame.scope, op.block: FlowAxis(whole.size, whole.loops | {number})}
    starts = tuple(range(len(flow.arrays), len(flow.arrays) + len(box.cod)))
    loops = (*frame.loops, number)
    for ty in box.cod:
        axes = _loop_bounds(ty.axes, frame.scope)
        flow.arrays.append(FlowArray(axes, -1, loops, "state", frozenset(axes)))
    merged = tuple(op.parts is None or _merges(op.merge, k, len(box.cod)) for k in range(len(box.cod)))
    flow.loops.append(FlowLoop(starts, (), merged, op.components))
    sure = frame.sure and op.bounds is None and not op.tests_blocks
    # A streamed array gets a name of its own in the loop, where its axis is marked as a block.
    taps: dict[int, int] = {}
    for w, ty in zip(reads, box.dom, strict=True):
        array = flow.arrays[w]
        if ty.axis(op.axis) is None or w in taps:
            continue
        taps[w] = len(flow.arrays)
        blocks = {a: FlowAxis(e.size, e.loops | {number}) if a[0] == op.axis else e for a, e in array.axes.items()}
        tap = Box(Rename(), Ty(ty), Ty(ty))
        flow.acts.append(FlowOperation(len(flow.acts), tap, (w,), (taps[w],), loops, sure))
        flow.arrays.append(replace(array, axes=blocks, producer=len(flow.acts) - 1, loops=loops))
    reads = tuple(taps.get(w, w) for w in reads)
    return _FlowFrame(inline(op.step).graph, 0, [*starts, *reads], scope, loops, sure, number)


def _merges(merge: Diagram, k: int, states: int) -> bool:
    """Whether merging partial states reads, for a state, the same state of both parts at the same index."""
    flow = flow_of(merge)
    end = flow.outputs[k]
    axes = flow.arrays[end].axes
    same = {atom: (_path_text(atom),) for atom in axes}
    for start in (flow.inputs[k], flow.inputs[states + k]):
        found = trace(flow, end, same, down_to=start)
        if start != end and (start not in found or len(found[start].coordinates) < len(axes)):
            return False
    return True


def _extent(size: Size, scope: Mapping[str, FlowAxis]) -> FlowAxis:
    """A size in terms of the whole diagram's sizes, and the loops whose blocks it mentions."""
    todo: list[tuple[Size, bool]] = [(size, False)]
    done: list[FlowAxis] = []
    while todo:
        item, ready = todo.pop()
        if isinstance(item, tuple):
            if ready:
                right, left = done.pop(), done.pop()
                done.append(FlowAxis((item[0], left.size, right.size), left.loops | right.loops))
            else:
                todo += ((item, True), (item[2], False), (item[1], False))
        else:
            done.append(scope.get(item, FlowAxis(item)) if isinstance(item, str) else FlowAxis(item))
    return done[0]


def _loop_bounds(axes: Collection[Axis], scope: Mapping[str, FlowAxis]) -> dict[Atom, FlowAxis]:
    found: dict[Atom, FlowAxis] = {}
    for axis in axes:
        for k, part in enumerate(axis.parts if axis.kind == "product" else (axis,)):
            found[axis.name, k] = _extent(part.size, scope)
    return found


def _produced(flow: Flow, box: Box, reads: tuple[int, ...], frame: _FlowFrame) -> list[dict[Atom, FlowAxis]]:
    """The axes of a box's results: those of its operands where they are preserved, else those of its type."""
    result: list[dict[Atom, FlowAxis]] = []
    passed = passage(box)
    given = added(box)
    known: dict[str, dict[Atom, FlowAxis]] = {}
    for w in reads:
        for atom, extent in flow.arrays[w].axes.items():
            name, k = atom if passed is None else passed(atom)
            known.setdefault(name, {})[name, k] = extent
    for ty in box.cod:
        axes = _loop_bounds(ty.axes, frame.scope)
        inherited: dict[Atom, FlowAxis] = {}
        for axis in ty.axes:
            own = {atom: e for atom, e in axes.items() if atom[0] == axis.name}
            inherited |= own if axis.name in given else own | known.get(axis.name, {})
        result.append(inherited)
    return result


def _varies(
    flow: Flow, box: Box, reads: tuple[int, ...], axes: Mapping[Atom, FlowAxis]
) -> tuple[frozenset[Atom], frozenset[frozenset[Atom]]]:
    """The axes along which elements of a box's result may differ, and sets of axes along which they may coincide."""
    arrays = [flow.arrays[w] for w in reads]
    found = dependence(box, axes, {a for array in arrays for a in array.axes})
    varies = {a for array in arrays for a in array.varies} | found.made
    tangled = {group for array in arrays for group in array.aliased} | found.aliased
    varies = {b for a in varies for b in found.on.get(a, (a,))}
    left = {*axes, NOWHERE}
    groups = {frozenset(b for a in group for b in found.on.get(a, (a,)) if b in left) for group in tangled}
    return frozenset(varies & set(axes)), frozenset(group for group in groups if len(group) > 1)


# -- paths ---------------------------------------------------------------------------------------------------------


def trace(
    flow: Flow,
    wire: int,
    shown: Mapping[Atom, Indices],
    *,
    whole: bool = False,
    disjoint: Collection[str] = (),
    down_to: int = -1,
) -> dict[int, Seen]:
    """All arrays met on the way back from one, each by the path that keeps the most coordinates.

    With `whole`, only the arrays at which all coordinates are kept.
    """
    wanted = {index[0] for index in shown.values()}
    found = {wire: Seen(dict(shown), -1)}
    for w in range(wire, down_to, -1):
        place = flow.arrays[w].producer
        if w not in found or place < 0 or not flow.acts[place].unconditional:
            continue
        act = flow.acts[place]
        for k, v in enumerate(act.reads):
            kept = back(act.box, found[w].coordinates, k, flow.arrays[v].axes, disjoint)
            if kept is None or not _passes(flow, act, v):
                continue
            count = len({index[0] for index in kept.values()})
            known = found.get(v)
            if whole and count < len(wanted):
                continue
            if known is None or count > len({i[0] for i in known.coordinates.values()}):
                found[v] = Seen(kept, w)
    return found


def _passes(flow: Flow, reader: FlowOperation, wire: int) -> bool:
    """Whether a reader outside a split loop reads a state that the merge of parts keeps at the same index."""
    left = [flow.loops[f] for f in flow.arrays[wire].loops if f not in reader.loops]
    return all(m for flow_loop in left for end, m in zip(flow_loop.ends, flow_loop.merged, strict=True) if end == wire)


def downstream(flow: Flow, wire: int, shown: Mapping[Atom, Indices]) -> tuple[Mapping[Atom, Indices], frozenset[int]]:
    """A path forward to an output that keeps the most coordinates: the coordinates, and the arrays of the path.

    No coordinates where no path leads to an output. A value that leaves a loop passes through the remaining iterations:
    only coordinates that its states keep there count.
    """
    found: dict[int, Seen] = {wire: Seen(dict(shown), -1)}
    passed: dict[int, frozenset[int]] = {wire: frozenset((wire,))}
    for place in range(max(flow.arrays[wire].producer, 0), len(flow.acts)):
        act = flow.acts[place]
        if not act.unconditional:
            continue
        for v in dict.fromkeys(act.reads):
            if v not in found or flow.arrays[v].producer >= place:
                continue
            left = _leaving(flow, v, act.loops, found[v].coordinates)
            for w in act.results if left is not None else ():
                assert left is not None
                kept = on(act.box, left[0], flow.arrays[w].axes)
                if kept and (w not in found or len(kept) > len(found[w].coordinates)):
                    found[w] = Seen(kept, v)
                    passed[w] = passed[v] | left[1] | {w}
    best: tuple[Mapping[Atom, Indices], frozenset[int]] = ({}, frozenset())
    for w in flow.outputs:
        if w in found:
            left = _leaving(flow, w, (), found[w].coordinates)
            if left is not None and len(left[0]) > len(best[0]):
                best = (left[0], passed[w] | left[1])
    return best


def _leaving(
    flow: Flow, wire: int, loops: tuple[int, ...], shown: Mapping[Atom, Indices]
) -> tuple[Mapping[Atom, Indices], frozenset[int]] | None:
    """The coordinates of a state that are kept where it leaves its loop, and the arrays passed in later iterations."""
    arrays: frozenset[int] = frozenset()
    for f in flow.arrays[wire].loops:
        if f in loops:
            continue
        kept, passed = flow.handed_on(f, wire)
        shown = {a: index for a, index in shown.items() if a in kept}
        if not shown:
            return None
        arrays |= passed
    return shown, arrays
