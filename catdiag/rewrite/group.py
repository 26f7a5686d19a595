"""Grouping (tiling): a diagram that maps over some axes is run on tiles of them, each tile independent of the others.

If every box maps over an axis and every result has it, then `f` of a tile is the tile of `f` (naturality of weaving;
the group partition of Abbott and Zardini 2025). The equation is proved by the kernel, as for any rewrite.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from catdiag.category import ops
from catdiag.category.diagram import Diagram, Graph, Node, of_graph, with_boxes
from catdiag.category.graph_writer import GraphWriter, part_of
from catdiag.category.op_facts import monoid_of, moves_positions, reduced_axes
from catdiag.category.ops import Box, Operation, bodies, op_fact, op_row
from catdiag.category.resizing import with_sizes
from catdiag.category.substitution import inline
from catdiag.category.traversal import all_boxes, all_diagrams
from catdiag.category.types import ArrayType, Axis, Size, Ty, size_symbols
from catdiag.frontend.signature import axis_names
from catdiag.rewrite.derivation import Derivation, NotProved, titled
from catdiag.rewrite.group_renaming import renamed
from catdiag.rewrite.group_results import with_final_reshapes, without_final_reshapes
from catdiag.rewrite.group_sums import NoPart, Share, shares
from catdiag.rewrite.group_views import with_positions
from catdiag.rewrite.local_sizes import local_size, sizes_in
from catdiag.rewrite.steps import Group as GroupStep
from catdiag.schedule.accumulation import accumulates
from catdiag.schedule.gathers import is_rematerialized
from catdiag.schedule.live_ranges import is_view
from catdiag.schedule.scatter_add import with_scatters
from catdiag.util.errors import AxisError, NotGroupable, require


def group(derivation: Derivation, axes: str | Iterable[str], scatter: bool = False) -> Derivation:
    """With the named axes run in tiles of any size, each tile independent; several axes make one grid of tiles.

    With `scatter`, tiles add to a result that is a sum over one-hot rows entry by entry (`find`).

    Raises NotGroupable, naming the box, where a box does not map over an axis; AxisError for an unknown axis.

    >>> from catdiag.frontend import builder as build
    >>> double = build.algorithm("q x")(lambda A: A + A)
    >>> group(Derivation.start(double), "q x").theorem.conditional
    False
    """
    if not isinstance(axes, Iterable):
        raise AxisError(f"the axes to group are {axes!r}: expected their names, such as 'q'")
    names = axis_names(axes) if isinstance(axes, str) else list(axes)
    found = find(derivation.diagram, names, accumulate=True, scatter=scatter)
    said = " ".join(names)
    option = ", scatter=True" if scatter else ""
    grouped = titled(found, f"{derivation.diagram.title or 'it'}.group({said!r}{option})")
    try:
        theorem = derivation.prove(grouped)
    except NotProved as error:
        raise NotGroupable(f"grouping {said!r} was not proved: {error.reason}") from error
    note = ANY_ORDER if any(accumulates(box) for box in grouped.boxes) else ""
    return derivation.then(
        GroupStep(tuple(names), scatter), grouped, theorem, note, groups=(*derivation.groups, *names)
    )


ANY_ORDER = (
    "tiles add their parts to a result: the theorem is of additions over the real numbers, in any order, and in "
    "floating point the order changes the rounding"
)


def find(diagram: Diagram, axes: Sequence[str], accumulate: bool = False, scatter: bool = False) -> Diagram:
    """The diagram as one `GroupOp` box over tiles of the named axes; an existing group is tiled along the further axes.

    >>> from catdiag.category.ops import map_box
    >>> from catdiag.category.diagram import of_box
    >>> grouped = find(of_box(map_box("exp", [ArrayType((Axis("q"), Axis("d")))])), ["q"])
    >>> [box.name for box in grouped.boxes], grouped.boxes[0].op.tiles
    (['group[q]'], (('q', 'g_q'),))

    Positions along a grouped axis, and its size, are computed outside of the group and passed in. So are renamings and
    index maps of a grouped axis that are applied to inputs. Results are reshaped after it. With `accumulate`, a result
    that lacks a grouped axis and is a sum over it is an accumulating output, which each group adds its part to; with
    `scatter`, entry by entry, where it is a sum over one-hot rows (`catdiag.schedule.scatter_add`).

    Raises NotGroupable, naming the box, its line and the reason, and with `scatter` where no result is such a sum;
    AxisError for an axis that is unknown or named twice.
    """
    require(all(isinstance(name, str) for name in axes), "axes", axes, "names, such as 'q' or 'r q'")
    flat = inline(diagram)
    made, reshapes = without_final_reshapes(flat)
    if not set(axes) <= _axes(made).keys():  # only the results have them: the boxes that reshape are named
        made, reshapes = flat, [[] for _ in flat.cod]
    grouped = _grouped(_checked(made, axes, accumulate))
    return with_final_reshapes(_scattering(grouped, axes) if scatter else grouped, reshapes)


def _scattering(grouped: Diagram, axes: Sequence[str]) -> Diagram:
    """A diagram with a group that adds to results entry by entry. Raises NotGroupable where it has no such result."""
    (place,) = (k for k, box in enumerate(grouped.boxes) if isinstance(box.op, ops.GroupOp))
    box = grouped.boxes[place]
    assert isinstance(box.op, ops.GroupOp)
    op, body = replace(box.op, scatters=True), inline(box.op.body)
    if with_scatters(op, body) is body:
        raise NotGroupable(
            f"cannot scatter results in groups of {' '.join(axes)}: none is a sum over these axes of rows that "
            "integers place, such as cd.sum(cd.where(cd.index('v') == ids, rows, 0), 't'); expected one, with 'v' not "
            "grouped"
        )
    return with_boxes(grouped, {place: replace(box, op=op)})


@dataclass(frozen=True)
class _Grouping:
    """What a group is made of: the boxes of `inner` but those in `outside`, which are computed before it. `outer` is
    the group box that is replaced, if there was one, with `tiles`; `more` are the new tiles, pairs of an axis and its
    tile size; `added` are the axes that results are sums over."""

    diagram: Diagram
    outer: Node | None
    inner: Graph
    outside: set[int]
    tiles: tuple[tuple[str, str], ...]
    more: tuple[tuple[str, str], ...]
    added: tuple[str, ...]


def _checked(flat: Diagram, axes: Sequence[str], accumulate: bool = False) -> _Grouping:
    """The group of a flat diagram over axes, which it may be grouped over. Raises as `find` does."""
    known = _axes(flat)
    for k, name in enumerate(axes):
        if name not in known:
            raise AxisError(f"no array of the diagram has axis {name!r}: expected one of {', '.join(known) or 'none'}")
        if name in axes[:k]:
            raise AxisError(f"axis {name!r} is named twice among the axes to group: name it once")
    if not axes:
        raise AxisError("no axis to group: name at least one, such as 'q'")
    flat = renamed(flat, axes)
    inner, outer, tiles = _opened(flat)
    inner = with_positions(inner, [known[name] for name in axes])
    for name in axes:
        if name in dict(tiles):
            raise NotGroupable(f"cannot group axis {name!r}: the diagram runs in groups of it already")
        if not accumulate:
            _check_outputs(flat, name)
    outside = _outside(inner, [known[name] for name in axes])
    read = [*inner.dom, *(ty for place in outside for ty in inner.nodes[place].box.cod)]
    added = list(_added(outer))
    for name in axes:
        adds = accumulate and _adds(flat, inner, name)
        added += [name] if adds else []
        for place, node in enumerate(inner.nodes):
            if place not in outside:
                _check_box(node.box, name, adds)
        if all(ty.axis(name) is None for ty in read):
            raise NotGroupable(
                f"cannot group axis {name!r}: no array that groups read has it, and results repeat along it: "
                "group other axes"
            )
    taken, more = sizes_in(flat), []
    for name in axes:
        more.append((name, local_size("g", name, taken)))
        taken.add(more[-1][1])
    return _Grouping(flat, outer, inner, outside, tiles, tuple(more), tuple(added))


def groupable(diagram: Diagram) -> list[str]:
    """The axes of the results that the whole diagram maps over, which `find` therefore accepts. Not those for which
    inputs would be concatenated before the group, by a kernel of its own, nor those of `_permuted`.

    >>> from catdiag.category.ops import reduce_box
    >>> from catdiag.category.diagram import of_box
    >>> groupable(of_box(reduce_box("sum", "x", ArrayType((Axis("q"), Axis("x"))))))
    ['q']
    """
    flat, _ = without_final_reshapes(inline(diagram))
    left_out = _permuted(flat) | {name for box in flat.boxes for name in reduced_axes(box)}
    names = dict.fromkeys(n for ty in flat.cod for n in ty.names if n not in left_out)
    mapped = [name for name in names if all(ty.axis(name) is not None for ty in flat.cod)]
    return mapped if _groups(flat, mapped) else [name for name in mapped if _groups(flat, [name])]


def _groups(flat: Diagram, names: Sequence[str]) -> bool:
    """Whether a flat diagram may be grouped over axes together, with no array concatenated before the group."""
    try:
        checked = _checked(flat, names)
    except (NotGroupable, AxisError):
        return False
    return not any(_concatenates(checked.inner.nodes[place].box) for place in checked.outside)


def _permuted(flat: Diagram) -> set[str]:
    """The axes of a constant length along which a view reads other positions of the same axis, as the two halves of a
    rotation: a tile that has all of them loads each once."""
    views = (box.op for box in flat.boxes if isinstance(box.op, ops.View))
    return {
        axis.name
        for view in views
        for axis in view.index_axes
        if isinstance(axis.size, int) and any(axis.name == n for read in view.reads for n, _ in read.at)
    }


def _concatenates(box: Box) -> bool:
    return isinstance(box.op, ops.Reindex) and box.op.kind == "concat"


# -- obstacles to grouping ----------------------------------------------------------------------


def _axes(diagram: Diagram) -> dict[str, Axis]:
    found: dict[str, Axis] = {}
    for item in all_diagrams(diagram):
        for ty in item.graph.wire_types():
            for axis in ty.axes:
                found.setdefault(axis.name, axis)
    return found


def _check_outputs(diagram: Diagram, axis: str) -> None:
    """Raises NotGroupable for a result that does not have the axis."""
    for k, ty in enumerate(diagram.cod):
        if ty.axis(axis) is None:
            expected = ", ".join(ty.names) or "no axes, since it is a scalar"
            raise NotGroupable(f"{_lacks(diagram, k, axis)}; expected one of {expected}")


def _lacks(diagram: Diagram, k: int, axis: str) -> str:
    """That a result lacks an axis, as the beginning of a message."""
    which = f"result {k + 1}" if len(diagram.cod) > 1 else "the result"
    return f"cannot group axis {axis!r}: {which} {diagram.cod[k]} lacks it, and each group writes its own part of it"


def _adds(diagram: Diagram, inner: Graph, axis: str) -> bool:
    """Whether some result is a sum over the axis, which groups add their parts to. Raises NotGroupable for a result
    that lacks the axis and is none, and where more than results depend on such a sum."""
    found = shares(inner, axis)
    for k, (w, ty) in enumerate(zip(inner.outputs, diagram.cod, strict=True)):
        share = found[w]
        if ty.axis(axis) is not None and not isinstance(share, NoPart):
            continue
        if share is Share.PART:
            continue
        if ty.axis(axis) is not None:
            return False  # the box that stands in the way is found box by box
        why = share.why if isinstance(share, NoPart) else "does not depend on it"
        line = share.line if isinstance(share, NoPart) else None
        raise NotGroupable(f"{_lacks(diagram, k, axis)}, or adds to a sum over it, which this is not: {why}", line)
    return any(found[w] is Share.PART for w in inner.outputs)


def _check_box(box: Box, axis: str, adds: bool = False) -> None:
    """Raises NotGroupable unless a box, and every box inside it, maps over the axis, or makes parts of a sum over it if
    groups add to results."""
    for item in (box, *(inner for body in bodies(box.op) for inner in all_boxes(body))):
        summed = adds and monoid_of(item.op) == "sum"
        why = None if summed else _obstacle(item, axis)
        if why is not None:
            raise NotGroupable(
                f"cannot group axis {axis!r}: {item.name} {why}, so that a group would need more than its own part "
                f"of it{_remedy(item)}",
                item.line or box.line,
            )


def _obstacle(box: Box, axis: str) -> str | None:
    """Why a box does not map over the axis, in words; None where it does."""
    compound = next((a.name for t in (*box.dom, *box.cod) for a in t.axes if a.has_part(axis)), None)
    if compound is not None:
        return f"has {axis!r} as a part of its axis {compound}"
    row = op_row(OBSTACLES, box, "grouped")
    return None if row is None or not row[1](box, box.op, axis) else row[0]


def _has(types: Iterable[ArrayType], axis: str) -> bool:
    return any(ty.axis(axis) is not None for ty in types)


OBSTACLES: Mapping[type[ops.Op], tuple[str, Callable[[Box, Any, str], bool]] | None] = {
    ops.Map: None,
    ops.Const: None,
    ops.Reduce: ("reduces over it", lambda box, op, axis: op.axis == axis),
    ops.Einsum: ("sums over it", lambda box, op, axis: _has(box.dom, axis) and not _has(box.cod, axis)),
    ops.Rename: ("gives it another name", lambda box, op, axis: any(axis in pair for pair in op.pairs)),
    ops.Reindex: ("takes it apart or makes it", lambda box, op, axis: op.touches(axis)),
    ops.View: ("reads or makes it at positions that are computed", lambda box, op, axis: op.reads_at(axis)),
    ops.Index: ("reads its position inside a loop", lambda box, op, axis: op.axis == axis),
    ops.SizeOf: ("reads its size inside a loop", lambda box, op, axis: axis in size_symbols(op.size)),
    ops.Generic: (
        "is uninterpreted and may mix positions along it",
        lambda box, op, axis: _has((*box.dom, *box.cod), axis),
    ),
    ops.FoldOp: ("streams it", lambda box, op, axis: op.axis == axis),
    ops.Call: None,
    ops.GroupOp: None,
}
"""When a box does not map over an axis, and the words for it; None for those that map over every axis. Boxes inside
others are asked by themselves."""


def _remedy(box: Box) -> str:
    """What the user can do about a box that cannot be grouped; empty where nothing is known."""
    if isinstance(box.op, ops.Rename):
        return ": rename the inputs instead, or save the array in a kernel of its own (.plan)"
    return ""


def _is_about(op: Operation, axis: str, size: Size) -> bool:
    row = op_fact(ABOUT, op)
    return row is not None and row(op, axis, size)


ABOUT: Mapping[type[ops.Op], Callable[[Any, str, Size], bool]] = {
    ops.Index: lambda op, axis, size: op.axis == axis,
    ops.SizeOf: lambda op, axis, size: bool(size_symbols(op.size) & size_symbols(size)),
}
"""Whether an operation without inputs tells the positions along an axis, or its size."""


# -- the group box --------------------------------------------------------------------------------


def _opened(diagram: Diagram) -> tuple[Graph, Node | None, tuple[tuple[str, str], ...]]:
    """The graph to be grouped: the body of the diagram's group box, or the whole diagram. With it, that box and its
    tiles.
    """
    groups = [n for n in diagram.graph.nodes if isinstance(n.box.op, ops.GroupOp)]
    if not groups:
        return diagram.graph, None, ()
    op = groups[0].box.op
    assert isinstance(op, ops.GroupOp)
    own = next(made for made, node in diagram.graph.wired() if node is groups[0])
    if any(isinstance(n.box.op, ops.GroupOp) and not n.box.op.tiles for n in groups) or len(groups) > 1:
        raise NotGroupable("cannot group a diagram in kernels: group first, and fuse last", groups[-1].box.line)
    if not set(diagram.graph.outputs) <= set(own):
        raise NotGroupable(
            "cannot group a diagram of which a part runs in groups already: group all axes at once, as 'r q'",
            groups[-1].box.line,
        )
    return op.body.graph, groups[0], op.tiles


def _added(node: Node | None) -> tuple[str, ...]:
    """The axes that results of a group are sums over."""
    return () if node is None or not isinstance(node.box.op, ops.GroupOp) else node.box.op.added


def _outside(graph: Graph, axes: Iterable[Axis]) -> set[int]:
    """The places of boxes that are computed outside of the group: positions, sizes, and index maps of the axes on
    inputs.
    """
    found: set[int] = set()
    given = set(range(len(graph.dom)))
    # The places, by wire, of views of inputs and of positions and integers computed from them: they are outside only
    # where a box outside reads them.
    forms: dict[int, int] = {}
    rematerialized: set[int] = set()
    axes = list(axes)
    for place, (outputs, node) in enumerate(graph.wired()):
        op = node.box.op
        about = any(_is_about(op, a.name, a.size) for a in axes)
        if is_rematerialized(node, rematerialized):
            rematerialized.update(outputs)
        renames = isinstance(op, ops.Rename) and any(a.name in pair for pair in op.pairs for a in axes)
        remade = any(moves_positions(op, a.name) for a in axes)
        trusts = (
            isinstance(op, ops.View) and op.trusts_inputs()
        )  # that indices are in range is known of a whole index array, not of a tile of it
        if about or ((renames or remade or trusts) and all(w in given or w in forms for w in node.inputs)):
            todo = [] if about else list(node.inputs)
            while todo:
                w = todo.pop()
                if w in forms and forms[w] not in found:
                    found.add(forms[w])
                    todo.extend(graph.nodes[forms[w]].inputs)
            found.add(place)
            given.update(outputs)
        elif is_rematerialized(node, rematerialized) or (
            (isinstance(op, ops.INDEX_MAPS) or is_view(node.box)) and all(w in given or w in forms for w in node.inputs)
        ):
            forms.update(dict.fromkeys(outputs, place))
    return found


def _grouped(parts: _Grouping) -> Diagram:
    """The diagram with a group box."""
    diagram, outer, inner, outside, tiles = parts.diagram, parts.outer, parts.inner, parts.outside, parts.tiles
    whole = diagram.graph
    made = _AroundGroup(whole)
    feeds = list(range(len(whole.dom))) if outer is None else made.before(outer)
    where = made.outside(inner, outside, feeds, {name: _whole(whole, diagram, name) for name, _ in tiles})
    passed = sorted(w for w in where if w < len(inner.dom) or _is_read(inner, outside, w))
    inputs = [where[w] for w in passed]
    graph = _body(inner, outside, passed)
    types = inner.wire_types()
    names = _body_names(diagram, made.types, inputs, made.nodes)
    body = of_graph(graph, Ty(*(types[w] for w in inner.outputs)), names, diagram.title)
    body = with_sizes(body, dict(parts.more))
    cod = diagram.cod if outer is None else outer.box.cod
    op = ops.GroupOp((*tiles, *parts.more), body, parts.added)
    first = made.add(Box(op, Ty(*(made.types[w] for w in inputs)), cod), inputs)
    outputs = tuple(first + _output(whole, outer, k) for k in range(len(diagram.cod)))
    return of_graph(made.graph(outputs), diagram.cod, diagram.names, diagram.title)


class _AroundGroup(GraphWriter):
    """Boxes around a group that are put one after the other, with the types of all wires so far."""

    def __init__(self, whole: Graph) -> None:
        super().__init__(whole.dom)
        self.whole = whole

    def before(self, outer: Node) -> list[int]:
        """The wires that the inputs of the old group get, after the boxes that are before it are put."""
        place = {w: w for w in range(len(self.whole.dom))}
        for made, node in self.whole.wired():
            if node is not outer and all(w in place for w in node.inputs):
                place.update(zip(made, self.made(node.box, [place[w] for w in node.inputs]), strict=True))
        return [place[w] for w in outer.inputs]

    def outside(
        self, inner: Graph, outside: set[int], feeds: Sequence[int], wholes: Mapping[str, Axis]
    ) -> dict[int, int]:
        """Where wires of `inner` are that exist before the group: its inputs, and results of boxes in `outside`, which
        are put on whole axes.
        """

        def full(types: Ty) -> Ty:
            return Ty(*(ArrayType(tuple(wholes.get(a.name, a) for a in ty.axes), ty.element) for ty in types))

        where = dict(enumerate(feeds))
        for k, (made, node) in enumerate(inner.wired()):
            if k in outside:
                box = Box(node.box.op, full(node.box.dom), full(node.box.cod), node.box.line)
                where[made[0]] = self.add(box, [where[w] for w in node.inputs])
        return where


def _body(inner: Graph, outside: set[int], passed: Sequence[int]) -> Graph:
    """The graph of the boxes that are not in `outside`, with the wires `passed` as inputs."""
    return part_of(inner, (k for k in range(len(inner.nodes)) if k not in outside), passed, inner.outputs)


def _output(whole: Graph, outer: Node | None, place: int) -> int:
    """The number of the group box's result that an output of the diagram is."""
    first = next((made.start for made, node in whole.wired() if node is outer), None)
    return place if first is None else whole.outputs[place] - first


def _is_read(graph: Graph, outside: set[int], wire: int) -> bool:
    return wire in graph.outputs or any(wire in n.inputs for k, n in enumerate(graph.nodes) if k not in outside)


def _whole(graph: Graph, diagram: Diagram, name: str) -> Axis:
    for ty in (*diagram.cod, *graph.wire_types()):
        found: Axis | None = ty.axis(name)
        if found is not None:
            return found
    return Axis(name)


def _body_names(
    diagram: Diagram, types: Sequence[ArrayType], wires: Sequence[int], nodes: Sequence[Node]
) -> tuple[str, ...]:
    """Distinct names for the inputs of a group's body: the user's, or those of the boxes that make them."""
    given = diagram.input_names
    made = [n.box.name for n in nodes for _ in n.box.cod]
    found: list[str] = []
    for w in wires:
        name = (
            given[w] if w < len(given) else "".join(c if c.isalnum() else "_" for c in made[w - len(given)]).strip("_")
        )
        while name in found:
            name += "_"
        found.append(name)
    return tuple(found)
