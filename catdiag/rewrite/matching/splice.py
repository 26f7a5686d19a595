"""Splicing: the right side of a rule in place of an occurrence of its left side."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction

from catdiag.category.diagram import Diagram, Graph, Node
from catdiag.category.functor import broadcast
from catdiag.category.graph_writer import GraphWriter
from catdiag.category.op_facts import ordered_by_inputs, scalar_function
from catdiag.category.ops import NESTING, Box, Call, Const, FoldOp, Generic, GroupOp
from catdiag.category.traversal import all_boxes
from catdiag.category.types import ArrayType, Axis, Ty, size_symbols, union
from catdiag.rewrite.local_sizes import local_size
from catdiag.rewrite.matching.subgraph_search import Wiring, only_layout
from catdiag.rewrite.matching.unify import Clash, Fitted
from catdiag.util.errors import AxisError
from catdiag.util.topological_order import topological_order

# -- inlining with trails ------------------------------------------------------------------------------

Trail = tuple[int, ...]


@dataclass(frozen=True)
class Origins:
    """What a rewritten diagram shares with the source: the trails of its unchanged boxes, and for outputs of boxes (a
    trail and a port) the wire of the inlined source that has the same value.
    """

    boxes: frozenset[Trail]
    wires: dict[tuple[Trail, int], int]


def opened(diagram: Diagram, keep: Callable[[Trail], bool] = lambda _: False) -> tuple[Graph, list[Trail]]:
    """The graph with named boxes inlined, and the trail of each node: its place in each of the diagrams around it.

    A named box is not inlined if `keep` accepts its trail.

    >>> from catdiag.category.diagram import box
    >>> from catdiag.category.substitution import call
    >>> X = ArrayType((Axis("x"),))
    >>> f, g = box("f", X, X), box("g", X, X)
    >>> opened(f >> call("inner", f >> g))[1]
    [(0,), (1, 0), (1, 1)]
    """
    writer = GraphWriter(diagram.dom)
    trails: list[Trail] = []
    frames: list[tuple[Graph, int, list[int], Trail]] = [(diagram.graph, 0, list(range(len(diagram.dom))), ())]
    while True:
        graph, place, names, trail = frames.pop()
        entered = False
        for k in range(place, len(graph.nodes)):
            node = graph.nodes[k]
            wires = [names[w] for w in node.inputs]
            if isinstance(node.box.op, Call) and not keep((*trail, k)):
                frames.append((graph, k + 1, names, trail))
                frames.append((node.box.op.body.graph, 0, wires, (*trail, k)))
                entered = True
                break
            names.extend(writer.made(node.box, wires))
            trails.append((*trail, k))
        if entered:
            continue
        outputs = [names[w] for w in graph.outputs]
        if not frames:
            return writer.graph(outputs), trails
        frames[-1][2].extend(outputs)


# -- the right side at an occurrence -----------------------------------------------------------------------


@dataclass(frozen=True)
class Patch:
    """A replacement: a graph over wires of the diagram that it reads, and the wires that its outputs replace."""

    fitted: Fitted
    graph: Graph
    reads: tuple[int, ...]
    replaces: tuple[tuple[int, int], ...]  # (a wire of the diagram, an output of the graph)


def patch(lhs: Wiring, rhs: Diagram, site: Wiring, fitted: Fitted, taken: set[str]) -> Patch:
    """The right side with the axes and sizes of an occurrence, weaved as the left side is there.

    `taken` are the names of axes and sizes in the diagram. Raises Clash where the right side has no type there.
    """
    unifier = fitted.unifier.copy()
    types = site.types
    places = fitted.occurrence.places
    weaved = {a.name: a for axes in fitted.weaved for a in axes}
    needed = set(rhs.graph.outputs).union(*(node.inputs for node in rhs.graph.nodes))
    chosen = {axis.name for axis in unifier.axes.values()}
    for k, inner in enumerate(rhs.graph.wire_types()):
        for axis in inner.axes:
            if axis.name in unifier.axes or (k < len(rhs.dom) and k not in needed):
                continue
            unknown = sorted(s for s in size_symbols(axis.size) if s not in unifier.sizes)
            if unknown:
                raise Clash(f"the left side does not say what size {unknown[0]} of the right side is")
            if axis.kind == "name":
                name, n = axis.name, 1
                while name in taken or name in weaved or name in chosen:
                    n += 1
                    name = f"{axis.name}_{n}"
                put = unifier.put(axis)
                unifier.axes[axis.name] = Axis(name, put.size)
                chosen.add(name)
    for axis_name, block, prefix in _blocks(rhs):
        unifier.sizes[block] = local_size(prefix, unifier.name(axis_name), taken)
    _require_distinct_axes(rhs, unifier.name)
    try:
        made = unifier.diagram(rhs)
        marks: dict[str, tuple[bool, ...]] = {}
        for name, axis in reversed(weaved.items()):  # each is put in front of the earlier ones
            has = [k for k, axes in enumerate(fitted.weaved) if any(a.name == name for a in axes)]
            made, marks[name] = broadcast(made, axis, has)
    except AxisError as error:
        raise Clash(f"the right side does not have its types here: {error.message}") from error
    replaces: list[tuple[int, int]] = []
    wanted: list[ArrayType | None] = []
    done: set[int] = set()
    for k, w in enumerate(lhs.graph.outputs):
        maker, port = lhs.maker[lhs.same[w]]
        own = -1 if maker < 0 else site.outs(places[maker])[port]
        # An input that the left side passes through is read at its source; unread outputs are not computed.
        if maker < 0 or own in done or lhs.source[maker] or site.uses[own] == len(lhs.readers[lhs.same[w]]):
            wanted.append(None)
            continue
        done.add(own)
        more = [n for n in made.cod[k].names if types[own].axis(n) is None]
        if more:
            raise Clash(f"the right side depends on axis {more[0]}, which the left side's result {types[own]} lacks")
        replaces.append((own, len(replaces)))
        wanted.append(types[own])
    reads = fitted.occurrence.inputs
    graph = _typed(made, [types[w] if w >= 0 else None for w in reads], wanted)
    return Patch(fitted, graph, reads, tuple(replaces))


def _blocks(diagram: Diagram) -> list[tuple[str, str, str]]:
    """The axes that loops and groups of a diagram cut, with the symbols of their block and tile sizes.

    Beside each is the prefix of its symbols (`catdiag.rewrite.local_sizes`).
    """
    found: list[tuple[str, str, str]] = []
    for op in (box.op for box in all_boxes(diagram)):
        if isinstance(op, FoldOp):
            found.append((op.axis, op.block, "s"))
        elif isinstance(op, GroupOp):
            found += [(axis, tile, "g") for axis, tile in op.tiles]
    return found


def _require_distinct_axes(rhs: Diagram, name: Callable[[str], str]) -> None:
    """Raises Clash where two axes of the rule are the same axis of the diagram and meet in a box of the right side."""
    for b in rhs.boxes:
        here: dict[str, str] = {}
        for t in (*b.dom, *b.cod):
            for axis in t.axes:
                other = here.setdefault(name(axis.name), axis.name)
                if other != axis.name:
                    raise Clash(
                        f"axes {other} and {axis.name} of the rule are both {name(axis.name)} here, and meet at "
                        f"{b.name} of its right side: rename one of the two in the diagram"
                    )


def _typed(made: Diagram, given: Sequence[ArrayType | None], wanted: Sequence[ArrayType | None]) -> Graph:
    """The graph with inputs of the given types and outputs of the wanted ones; unwanted outputs are left out.

    Most boxes accept any layout of their axes. In front of the others an array is transposed. An input without a given
    type is 0 everywhere: the rule holds for arbitrary arrays there.
    """
    source = made.graph
    old = source.wire_types()
    inputs = [ty if ty is not None else old[k] for k, ty in enumerate(given)]
    writer = GraphWriter(inputs)
    types, cast = writer.types, writer.cast
    names = list(range(len(inputs)))
    target: dict[int, ArrayType] = {}
    for w, ty in zip(source.outputs, wanted, strict=True):
        if ty is not None and w >= len(inputs):
            target.setdefault(w, ty)

    needed = set(source.outputs).union(*(node.inputs for node in source.nodes))
    for k, ty in enumerate(given):
        if ty is None and k in needed:
            if inputs[k].element == "bool":
                raise Clash(f"the left side does not say what input {made.input_names[k]} of the right side is")
            zero = writer.add(Box(Const(Fraction(0)), Ty(), Ty(ArrayType())), ())
            names[k] = cast(zero, inputs[k])
    count = len(inputs)
    for node in source.nodes:
        box, wires = node.box, [names[w] for w in node.inputs]
        outs = range(count, count + len(box.cod))
        count = outs.stop
        if isinstance(box.op, (*NESTING, Generic)):
            names.extend(writer.made(box, [cast(w, ty) for w, ty in zip(wires, box.dom, strict=True)]))
            continue
        dom = Ty(*(types[w] for w in wires))
        cod = box.cod if dom == box.dom else Ty(*(ArrayType(t.axes, _element(box, dom, t.element)) for t in box.cod))
        cod = Ty(*(_laid_out(box, dom, t) for t in cod))
        goal = target.get(outs.start)
        if goal is not None and len(outs) == 1 and set(goal.names) == set(cod[0].names):
            cod = Ty(goal)
        moved = not only_layout(box) or dom != cod
        names.append(writer.add(Box(box.op, dom, cod, box.line), wires) if moved else wires[0])
    outputs = [cast(names[w], ty) for w, ty in zip(source.outputs, wanted, strict=True) if ty is not None]
    return writer.reachable(outputs)


def _laid_out(box: Box, dom: Ty, ty: ArrayType) -> ArrayType:
    """A result in the layout that the builder gives it, where the layouts of the inputs determine it."""
    if not ordered_by_inputs(box):
        return ty
    order = [a.name for a in union(list(dom)) if ty.axis(a.name) is not None]
    axes = {a.name: a for a in ty.axes}
    return ArrayType(tuple(axes[n] for n in order), ty.element) if len(order) == len(axes) else ty


def _element(box: Box, dom: Ty, element: str) -> str:
    """The element type of a result, given narrower element types of the inputs."""
    before, now = {t.element for t in box.dom}, {t.element for t in dom}
    same = scalar_function(box.op) in ("", "add", "sub", "mul", "neg", "abs", "max", "min", "where")
    if element == "bool" or not same or element not in before or element in now:
        return element
    return next((e for e in ("extended", "real", "int") if e in now), element)


# -- replacements in the diagram -----------------------------------------------------------------------------


class Cyclic(Exception):
    """Replacements that cannot all be made: each occurrence is convex, but together they form a cycle."""


@dataclass(frozen=True)
class Spliced:
    """A graph with replacements. `places` has the former place of each node (−1: from a replacement).

    `replaces` says which wire of the old graph the output `port` of the node at `place` replaces.
    """

    graph: Graph
    places: list[int]
    replaces: dict[tuple[int, int], int]


def spliced(site: Wiring, patches: Sequence[Patch]) -> Spliced:
    """The graph with replacements in place of their occurrences.

    Boxes keep their order as far as possible; those of a replacement come where the first box of its occurrence was.
    Boxes without inputs that nothing reads are left out. Raises Cyclic.
    """
    return _Splice(site, patches).result()


class _Splice:
    """A graph and the patches that go in, as units that are put in order: a node that stays, or a whole patch.

    `replaced` gives, for a wire that is replaced, the patch and which of its outputs it becomes. `gone` gives, for the
    place of a node that is replaced, its patch. `units` are pairs of a place and a patch: a patch stands at the first
    node of its occurrence, and a node that stays has the patch −1.
    """

    def __init__(self, site: Wiring, patches: Sequence[Patch]) -> None:
        self.site, self.patches, self.graph = site, patches, site.graph
        self.replaced = {w: (k, out) for k, p in enumerate(patches) for w, out in p.replaces}
        self.gone = self._gone()
        self.units: list[tuple[int, int]] = []
        begun: set[int] = set()
        for place in range(len(self.graph.nodes)):
            k = self.gone.get(place, -1)
            if k < 0 or k not in begun:
                self.units.append((place, k))
                begun.add(k)
        self.unit_of_place = {place: u for u, (place, k) in enumerate(self.units) if k < 0}
        self.unit_of_patch = {k: u for u, (_, k) in enumerate(self.units) if k >= 0}

    def _gone(self) -> dict[int, int]:
        site = self.site
        gone = {
            place: k
            for k, p in enumerate(self.patches)
            for place in p.fitted.occurrence.places
            if place >= 0 and not site.source[place]
        }
        for place, layout in enumerate(site.layout):
            # A transposition of an inner wire of an occurrence is removed with it.
            root = site.same[site.outs(place)[0]] if layout else -1
            if root >= 0 and site.maker[root][0] in gone and root not in self.replaced:
                gone[place] = gone[site.maker[root][0]]
        return gone

    def origin(self, w: int) -> tuple[int, int]:
        """The wire of the old graph that a wire is now, or the patch (negative) and its output that it is."""
        for _ in range(len(self.replaced) + 1):
            if w not in self.replaced:
                return w, 0
            k, out = self.replaced[w]
            source = self.patches[k].graph.outputs[out]
            if source >= len(self.patches[k].reads):
                return ~k, out
            # An output that the replacement only passes through has the source of its input.
            w = self.patches[k].reads[source]
        raise Cyclic

    def needs(self, unit: tuple[int, int]) -> set[int]:
        """The units that make what a unit reads."""
        place, k = unit
        found: set[int] = set()
        for w in self.graph.nodes[place].inputs if k < 0 else [w for w in self.patches[k].reads if w >= 0]:
            own, _ = self.origin(w)
            if own < 0:
                found.add(self.unit_of_patch[~own])
            elif (made := self.site.maker[own][0]) >= 0:
                found.add(self.unit_of_place[made])
        return found

    def result(self) -> Spliced:
        """The units in order, as one graph."""
        order = topological_order({u: self.needs(unit) for u, unit in enumerate(self.units)})
        if len(order) < len(self.units):
            raise Cyclic
        now: dict[int, int] = {w: w for w in range(len(self.graph.dom))}
        outs_of: dict[int, list[int]] = {}
        writer = GraphWriter(self.graph.dom)
        places: list[int] = []

        def at(w: int) -> int:
            own, out = self.origin(w)
            return outs_of[~own][out] if own < 0 else now[own]

        for u in order:
            place, k = self.units[u]
            if k < 0:
                node = self.graph.nodes[place]
                made = writer.made(node.box, [at(w) for w in node.inputs])
                places.append(place)
                now.update(zip(self.site.outs(place), made, strict=True))
                continue
            inner = self.patches[k].graph
            outs_of[k] = writer.put(inner, [at(w) if w >= 0 else -1 for w in self.patches[k].reads])
            places += [-1] * len(inner.nodes)
        instead = {outs_of[k][out]: w for w, (k, out) in self.replaced.items() if outs_of[k][out] >= 0}
        outputs = tuple([at(w) for w in self.graph.outputs])
        return _swept(writer.graph(outputs), places, instead)


def _unread(graph: Graph) -> set[int]:
    """Results of transpositions that nothing reads, except other unread transpositions."""
    count = len(graph.dom) + sum(len(node.box.cod) for node in graph.nodes)
    used, idle = set(graph.outputs), set()
    for node in reversed(graph.nodes):
        count -= len(node.box.cod)
        if only_layout(node.box) and count not in used:
            idle.add(count)
        else:
            used.update(node.inputs)
    return idle


def _swept(graph: Graph, places: Sequence[int], instead: Mapping[int, int]) -> Spliced:
    """The graph without unread boxes that have no inputs; equal ones from replacements are shared."""
    replaces: dict[tuple[int, int], int] = {}
    idle = _unread(graph)
    used: set[int] = set(graph.outputs)
    for node in graph.nodes:
        used.update(node.inputs)
    names = list(range(len(graph.dom)))
    nodes: list[Node] = []
    kept: list[int] = []
    known: dict[Box, int] = {}
    count = old = len(names)
    for node, place in zip(graph.nodes, places, strict=True):
        outs = range(old, old + len(node.box.cod))
        old = outs.stop
        if (not node.inputs and len(outs) and not used & set(outs)) or idle & set(outs):
            names.extend([-1] * len(outs))
            continue
        if not node.inputs:
            first = known.setdefault(node.box, count)
            if first < count and place < 0:
                names.extend(range(first, first + len(outs)))
                continue
        nodes.append(Node(node.box, tuple([names[w] for w in node.inputs])))
        if place < 0:
            replaces |= {(len(kept), port): instead[w] for port, w in enumerate(outs) if w in instead}
        kept.append(place)
        names.extend(range(count, count + len(outs)))
        count += len(outs)
    return Spliced(Graph(graph.dom, tuple(nodes), tuple([names[w] for w in graph.outputs])), kept, replaces)
