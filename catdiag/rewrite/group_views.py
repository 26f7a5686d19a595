"""Views that read along a grouped axis, rewritten so that a group computes its own tile of them (gathers and halos).

A box reads `a[y·2 + k]` along a grouped axis y. For a tile of y it needs elements of `a` that are no tile of any axis
of `a`. The rewritten box takes the positions of the tile as an integer array p, and reads `a[p[y]·2 + k]` of the whole
array `a`. The group then needs the elements that its reads touch (its access region), and no others. A read that is in
range for all positions need not be in range for arbitrary integers p. So it gets its range as a condition, with 0
outside of it. Where the diagram is defined this changes nothing. The equation is proved elsewhere, as for any rewrite.

An index array of the user is in range, as a whole, wherever the diagram is defined. A tile of it is an arbitrary array
of integers to the prover. So gathers get their range as a condition too, wherever they are.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from types import MappingProxyType

from catdiag.category.diagram import Diagram, Graph, Node, of_graph
from catdiag.category.graph_writer import GraphWriter
from catdiag.category.index_maps import Cond, Expr, Read, leaves, natural, plus, replaced, times
from catdiag.category.ops import Box, Const, FoldOp, Reindex, Rename, View, const_box, index_box
from catdiag.category.substitution import inline
from catdiag.category.types import ArrayType, Axis, Size, Ty
from catdiag.schedule.gathers import in_blocks


def with_positions(graph: Graph, axes: Sequence[Axis]) -> Graph:
    """A flat graph in which views of inputs along one of the axes read at positions that are passed in as arrays.

    >>> import catdiag as cd
    >>> pairs = cd.algorithm("x -> y")(lambda a: cd.reindex(a, "y", x=lambda y: 2 * y))
    >>> [n.box.name for n in with_positions(pairs.graph, [cd.Axis("y")]).nodes]
    ['index[y]', '0', 'view[x → y]']
    """
    names = {a.name for a in axes}
    graph = composed(graph, names)
    found = _Placing(graph, axes)
    return found.run()


class _Placing(GraphWriter):
    """Builds the graph of `with_positions`; `input_wires` are the wires that are inputs or renamings of inputs."""

    def __init__(self, graph: Graph, axes: Sequence[Axis]) -> None:
        super().__init__(graph.dom)
        self.old, self.axes = graph, {a.name: a for a in axes}
        self.input_wires: set[int] = set(range(len(graph.dom)))
        self.data: set[int] = set(range(len(graph.dom)))  # wires that depend on inputs
        self.positions: dict[str, int] = {}
        self.makers: dict[int, int] = {}

    def add(self, box: Box, inputs: Sequence[int]) -> int:
        """The first wire of a box's results."""
        self.makers.update((len(self.types) + k, len(self.nodes)) for k in range(len(box.cod)))
        return super().add(box, inputs)

    def position(self, name: str) -> int:
        """The wire with the positions along a grouped axis."""
        if name not in self.positions:
            self.positions[name] = self.add(index_box(self.axes[name]), ())
            self.input_wires.add(self.positions[name])
        return self.positions[name]

    def run(self) -> Graph:
        """The rewritten graph."""
        moved: list[int] = list(range(len(self.dom)))
        blocks = in_blocks(self.old)  # gathers that groups do block by block
        for place, node in enumerate(self.old.nodes):
            box, inputs = node.box, [moved[w] for w in node.inputs]
            if isinstance(box.op, View) and self.at_stake(box.op) and self.reads_inputs(box.op, inputs):
                box, inputs = self.view(box, box.op, inputs)
            elif isinstance(box.op, View) and place not in blocks and self.trusts(box, inputs):
                box, inputs = self.guarded(box, box.op, inputs)
            elif isinstance(box.op, FoldOp):
                box, inputs = self.fold(box, box.op, inputs)
            made = self.made(box, inputs)
            if self.data & set(inputs):
                self.data.update(made)
            op = box.op
            closed = not inputs or (isinstance(op, Rename) and set(inputs) <= self.input_wires)
            if closed:
                self.input_wires.update(made)
            moved.extend(made)
        return self.graph(moved[w] for w in self.old.outputs)

    def at_stake(self, op: View) -> bool:
        """Whether a view introduces a grouped axis and reads at its index."""
        mentioned = {leaf[1] for e in op.expressions() for leaf in leaves(e) if isinstance(leaf, tuple)}
        return any(a.name in self.axes and a.name in mentioned for a in op.index_axes)

    def trusts(self, box: Box, inputs: Sequence[int]) -> bool:
        """Whether a box gathers at data-dependent indices without a default value. An array that is read along a
        grouped axis must be an input. Where indices depend on positions only, an index in range of the whole array is
        in range of a tile.
        """
        op = box.op
        if not isinstance(op, View) or len(op.reads) != 1 or box.dom[0].element == "bool":
            return False
        if not any(inputs[w] in self.data for w in op.arrays()):
            return False
        return inputs[0] in self.input_wires or not {n for n, _ in op.reads[0].at} & set(self.axes)

    def renamed(self, op: View, dom: list[ArrayType], inputs: list[int]) -> tuple[View, list[ArrayType]]:
        """The view with its arrays renamed where it reads them along an axis of a grouped name, and the types of its
        inputs. `inputs` is changed too.
        """
        reads = list(op.reads)
        for k, read in enumerate(op.reads):
            clash = {n for n, _ in read.at} & set(self.axes)
            if clash:
                taken = {a for t in dom for a in t.names} | {a.name for a in op.index_axes}
                pairs = {n: _fresh(n, taken) for n in sorted(clash)}
                renamed = ArrayType(
                    tuple(Axis(pairs.get(a.name, a.name), a.size, a.kind, a.parts) for a in dom[k].axes), dom[k].element
                )
                inputs[k] = self.add(Box(Rename(tuple(pairs.items())), Ty(dom[k]), Ty(renamed)), [inputs[k]])
                self.input_wires.add(inputs[k])
                dom[k] = renamed
                reads[k] = Read(tuple((pairs.get(n, n), e) for n, e in read.at), read.where)
        return replace(op, reads=tuple(reads)), dom

    def guarded(self, box: Box, op: View, inputs: list[int]) -> tuple[Box, list[int]]:
        """A gather with 0 for indices out of range, since the indices of a tile are not known to be in range."""
        op, dom = self.renamed(op, list(box.dom), inputs)
        element = dom[0].element if dom[0].element == "int" else "real"
        zero = self.add(Box(Const(Fraction(0)), Ty(), Ty(ArrayType((), element))), ())
        made, types = _at(op, dom, (), (), True)
        return Box(made, Ty(*types), box.cod, box.line), [inputs[0], zero, *inputs[1:]]

    def reads_inputs(self, op: View, inputs: Sequence[int]) -> bool:
        """Whether a view reads inputs, or arrays that are one number everywhere, only."""
        return all(w in self.input_wires or self.constant(w) is not False for w in inputs)

    def maker(self, wire: int) -> Node | None:
        """The node that makes a wire."""
        return self.nodes[self.makers[wire]] if wire in self.makers else None

    def view(self, box: Box, op: View, inputs: list[int]) -> tuple[Box, list[int]]:
        """A view of whole arrays, read at passed positions; arrays that it reads along a grouped name are renamed."""
        if box.dom[0].element == "bool" and not op.reads[0].where:
            return box, inputs
        op, dom = self.renamed(op, list(box.dom), inputs)
        names = _mentioned(op, self.axes)
        wires = [self.position(n) for n in names]
        zero: list[int] = []
        if not op.reads[0].where:
            element = dom[0].element if dom[0].element == "int" else "real"
            zero = [self.add(Box(Const(Fraction(0)), Ty(), Ty(ArrayType((), element))), ())]
        made, types = _at(op, dom, names, [self.axes[n] for n in names], bool(zero))
        count = len(op.reads)
        return (
            Box(made, Ty(*types), box.cod, box.line),
            [*inputs[:count], *zero, *inputs[count:], *wires],
        )

    def fold(self, box: Box, op: FoldOp, inputs: list[int]) -> tuple[Box, list[int]]:
        """A loop with views of its inputs; the positions become inputs of the loop."""
        states = op.state_count
        given = [w in self.input_wires or self.constant(w) is not False for w in inputs]
        numbers = {k: value for k, w in enumerate(inputs) if not isinstance(value := self.constant(w), bool)}
        bodies = {"step": states, "state": 0, "bounds": 0, "is_live": 0}
        whole = {
            part: self._composed(body, {k + first: n for k, n in numbers.items()})
            for part, first in bodies.items()
            if (body := getattr(op, part)) is not None
        }
        names: list[str] = []
        for body, first in ((whole["step"], states), (whole["state"], 0)):
            for node in body.graph.nodes:
                v = node.box.op
                if isinstance(v, View) and self.at_stake(v) and self._reads_whole(body, node, given, first):
                    names.extend(n for n in _mentioned(v, self.axes) if n not in names)
        if not names:
            return box, inputs
        own = [self.axes[n] for n in names]
        more = [ArrayType((a,), "int") for a in own]
        parts = {part: self._body(body, names, more, given, bodies[part]) for part, body in whole.items()}
        dom = Ty(*box.dom, *more)
        made = replace(
            op, step=parts["step"], state=parts["state"], bounds=parts.get("bounds"), is_live=parts.get("is_live")
        )
        return Box(made, dom, box.cod, box.line), [*inputs, *(self.position(n) for n in names)]

    def _reads_whole(self, body: Diagram, node: Node, given: Sequence[bool], first: int) -> bool:
        """Whether a view inside a loop reads only inputs that are whole, along axes that are not grouped."""
        v = node.box.op
        assert isinstance(v, View)
        for k, w in enumerate(node.inputs):
            outside = first <= w < len(body.dom) and given[w - first]
            made = _maker(body.graph, w)
            if not outside and not isinstance(made, Const):
                return False
            if k < len(v.reads) and {n for n, _ in v.reads[k].at} & set(self.axes):
                return False
        return not (node.box.dom[0].element == "bool" and not v.reads[0].where)

    def _composed(self, body: Diagram, numbers: Constants) -> Diagram:
        """A body of a loop with chains of views composed."""
        flat = inline(body)
        return of_graph(composed(flat.graph, set(self.axes), numbers), flat.cod, flat.names, flat.title)

    def constant(self, wire: int) -> Fraction | bool | None:
        """The number that a wire is everywhere (None: −∞); False where it is not constant."""
        made = self.maker(wire)
        while made is not None and isinstance(made.box.op, Rename):
            made = self.maker(made.inputs[0])
        return made.box.op.value if made is not None and isinstance(made.box.op, Const) else False

    def _body(
        self, body: Diagram, names: Sequence[str], more: Sequence[ArrayType], given: Sequence[bool], first: int
    ) -> Diagram:
        """A body of a loop with inputs for the positions `names`, and its views rewritten; `first` is the number of
        state inputs.
        """
        count = len(body.dom)
        places = {n: count + k for k, n in enumerate(names)}
        moved = list(range(count))
        writer = GraphWriter((*body.dom, *more))
        for node in body.graph.nodes:
            box, inputs = node.box, [moved[w] for w in node.inputs]
            v = box.op
            if isinstance(v, View) and self.at_stake(v) and self._reads_whole(body, node, given, first):
                mine = _mentioned(v, self.axes)
                zero: list[int] = []
                if not v.reads[0].where:
                    element = box.dom[0].element if box.dom[0].element == "int" else "real"
                    zero = [writer.add(const_box(Fraction(0), element), ())]
                made, types = _at(v, list(box.dom), mine, [self.axes[n] for n in mine], bool(zero))
                k = len(v.reads)
                inputs = [*inputs[:k], *zero, *inputs[k:], *(places[n] for n in mine)]
                box = Box(made, Ty(*types), box.cod, box.line)
            moved.extend(writer.made(box, inputs))
        given_names = body.input_names
        extra = tuple(f"index_{n}" for n in names)
        graph = writer.graph(moved[w] for w in body.graph.outputs)
        return of_graph(graph, body.cod, (*given_names, *extra), body.title)


def _maker(graph: Graph, wire: int) -> object:
    place = graph.makers()[wire]
    return graph.nodes[place].box.op if place >= 0 else None


def _fresh(name: str, taken: Collection[str]) -> str:
    new = name + "_whole"
    while new in taken:
        new += "_"
    return new


def _mentioned(op: View, axes: Collection[str]) -> list[str]:
    """The grouped axes that a view introduces and whose index it reads, in the view's order."""
    leaf = {v[1] for e in op.expressions() for v in leaves(e) if isinstance(v, tuple) and v[0] == "i"}
    return [a.name for a in op.index_axes if a.name in axes and a.name in leaf]


def _at(
    op: View, dom: list[ArrayType], names: Sequence[str], axes: Sequence[Axis], guarded: bool
) -> tuple[View, list[ArrayType]]:
    """The view with index arrays in place of the indices `names`, and its input types; `guarded`: 0 where
    out of range.
    """
    count = len(op.reads)
    shift = 1 if guarded else 0
    first = len(dom) + shift
    put: dict[object, Expr] = {("i", n): ("w", first + k) for k, n in enumerate(names)}
    put.update({("w", k): ("w", k + shift) for k in range(count, len(dom))})
    reads = [
        Read(
            tuple((n, replaced(e, put)) for n, e in read.at),
            tuple((c, replaced(e, put), replaced(f, put)) for c, e, f in read.where),
        )
        for read in op.reads
    ]
    limits: list[Cond] = []
    if guarded:
        where: list[Cond] = [("le", 0, ("w", first + k)) for k in range(len(names))]
        for (n, plain), (_, e) in zip(op.reads[0].at, reads[0].at, strict=True):
            own = dom[0].axis(n)
            assert own is not None
            if not natural(plain):
                where.append(("le", 0, e))
            where.append(("lt", e, own.size))
            limits.append(("lt", e, own.size))
        reads = [Read(reads[0].at, tuple(where)), Read()]
    more = [ArrayType((a,), "int") for a in axes]
    zero = [ArrayType((), dom[0].element if dom[0].element == "int" else "real")] if guarded else []
    fits = tuple((c, replaced(e, put), replaced(f, put)) for c, e, f in op.fits)
    return View(op.index_axes, tuple(reads), (*fits, *limits)), [*dom[:count], *zero, *dom[count:], *more]


# -- views of views ---------------------------------------------------------------------------------

Constants = Mapping[int, Fraction | None]
"""Inputs of a graph that are constant, with their values (None: −∞)."""


def composed(graph: Graph, names: Collection[str], constants: Constants = MappingProxyType({})) -> Graph:
    """The graph with each chain of views composed into one view; padding by a number counts as a view.

    Only chains in which a view introduces one of the axes `names` are composed.
    """
    while True:
        found = _pair(graph, names, constants)
        if found is None:
            return graph
        graph = found


@dataclass(frozen=True)
class _Filled:
    """A view of one array, with a default value where its conditions are false."""

    index_axes: tuple[Axis, ...]
    read: Read
    fill: Fraction | bool | None  # False: no default
    source: int
    indices: tuple[int, ...]
    fits: tuple[Cond, ...] = ()
    sizes: tuple[tuple[str, Size], ...] = ()


class _Wires:
    """The makers and the numbers of readers of the wires of a graph."""

    def __init__(self, graph: Graph, constants: Constants) -> None:
        self.graph, self.constants = graph, constants
        self.types = graph.wire_types()
        self.maker: list[int] = [-1] * len(graph.dom)
        self.readers = [0] * len(self.types)
        for k, node in enumerate(graph.nodes):
            self.maker.extend([k] * len(node.box.cod))
            for w in node.inputs:
                self.readers[w] += 1
        for w in graph.outputs:
            self.readers[w] += 1

    def node(self, wire: int) -> Node | None:
        """The node that makes a wire."""
        return self.graph.nodes[self.maker[wire]] if self.maker[wire] >= 0 else None

    def constant(self, wire: int) -> Fraction | bool | None:
        """The number that a wire is everywhere (None: −∞); False where it is not constant."""
        node = self.node(wire)
        while node is not None and isinstance(node.box.op, Rename):
            wire = node.inputs[0]
            node = self.node(wire)
        if node is None:
            return self.constants.get(wire, False)
        return node.box.op.value if isinstance(node.box.op, Const) else False

    def through(self, wire: int) -> int:
        """The wire behind transpositions that nothing else reads."""
        node = self.node(wire)
        while node is not None and isinstance(node.box.op, Rename) and not node.box.op.pairs:
            if len(node.box.dom[0].axes) != len(node.box.cod[0].axes) or self.readers[wire] != 1:
                break
            wire = node.inputs[0]
            node = self.node(wire)
        return wire

    def filled(self, node: Node) -> _Filled | None:
        """A node as a view of one array with a default value; None where it is none."""
        op = node.box.op
        if isinstance(op, View):
            count = len(op.reads)
            fill = self.constant(node.inputs[1]) if count == 2 else False
            if count > 2 or (count == 2 and (fill is False or op.reads[1].at)):
                return None
            put: dict[object, Expr] = {("w", count + k): ("w", k) for k in range(len(node.inputs) - count)}
            fits = _put(Read((), op.fits), put).where
            sizes = tuple((a.name, a.size) for a in node.box.dom[0].axes)
            return _Filled(
                op.index_axes, _put(op.reads[0], put), fill, node.inputs[0], node.inputs[count:], fits, sizes
            )
        if not isinstance(op, Reindex) or op.kind != "concat":
            return None
        numbers = [self.constant(w) for w in node.inputs]
        arrays = [k for k, n in enumerate(numbers) if n is False]
        if len(arrays) != 1 or len({n for n in numbers if n is not False}) != 1:
            return None
        (main,) = arrays
        start: Expr = 0
        for part in op.axis.parts[:main]:
            start = plus(start, part.size)
        own = op.axis.parts[main]
        e = plus(("i", op.axis.name), times(-1, start))
        sizes = tuple((a.name, a.size) for a in node.box.dom[main].axes)
        read = Read(((own.name, e),), (("le", 0, e), ("lt", e, own.size)))
        fill = next(n for n in numbers if n is not False)
        return _Filled((op.axis,), read, fill, node.inputs[main], (), (), sizes)


def _put(read: Read, put: Mapping[object, Expr]) -> Read:
    at = tuple((n, replaced(e, put)) for n, e in read.at)
    return Read(at, tuple((c, replaced(e, put), replaced(f, put)) for c, e, f in read.where))


def _pair(graph: Graph, names: Collection[str], constants: Constants) -> Graph | None:
    """The graph with one pair of views composed; None where there is none left."""
    wires = _Wires(graph, constants)
    for k, node in enumerate(graph.nodes):
        if not isinstance(node.box.op, View):
            continue
        source = wires.through(node.inputs[0])
        below, outer = wires.node(source), wires.filled(node)
        if below is None or outer is None or wires.readers[source] != 1:
            continue
        inner = wires.filled(below)
        if inner is None or not any(a.name in names for a in (*outer.index_axes, *inner.index_axes)):
            continue
        made = _compose(outer, inner)
        if made is not None:
            return _with(graph, k, made, wires)
    return None


def _compose(outer: _Filled, inner: _Filled) -> _Filled | None:
    """The composition of two views; None where both introduce one axis, or their default values differ."""
    taken = dict(outer.read.at)
    left = tuple(a for a in inner.index_axes if a.name not in taken)
    kept = tuple((n, e) for n, e in taken.items() if all(n != a.name for a in inner.index_axes))
    read = {n for n, _ in inner.read.at}
    axes = [a.name for a in (*outer.index_axes, *left)]
    if len(set(axes)) != len(axes) or any(n in read for n, _ in kept):
        return None
    fills = {fill for fill in (outer.fill, inner.fill) if fill is not False}
    if len(fills) > 1:
        return None
    put: dict[object, Expr] = {("i", n): e for n, e in taken.items()}
    put.update({("w", k): ("w", k + len(outer.indices)) for k in range(len(inner.indices))})
    below = _put(inner.read, put)
    whole = Read((*kept, *below.at), (*outer.read.where, *below.where))
    indices = (*outer.indices, *inner.indices)
    # The range checks of the intermediate array bound the axes that the view introduces.
    between = dict(outer.sizes)
    limits = (
        [("lt", e, between[n]) for n, e in outer.read.at] if outer.fill is False and inner.fill is not False else []
    )
    fits = (*outer.fits, *_put(Read((), inner.fits), put).where, *limits)
    fill = fills.pop() if fills else False
    return _Filled((*outer.index_axes, *left), whole, fill, inner.source, indices, fits, inner.sizes)


def _with(graph: Graph, place: int, made: _Filled, wires: _Wires) -> Graph:
    """The graph with another view at a place, without nodes that nothing reads any more."""
    moved, writer = list(range(len(graph.dom))), GraphWriter(graph.dom)
    for k, node in enumerate(graph.nodes):
        box, inputs = node.box, [moved[w] for w in node.inputs]
        if k == place:
            fill: list[int] = []
            dom = [wires.types[made.source]]
            if made.fill is not False:
                assert not isinstance(made.fill, bool)
                number = const_box(made.fill, dom[0].element if dom[0].element == "int" else "real")
                fill = [writer.add(number, ())]
                dom.append(number.cod[0])
            count = len(dom)
            dom += [wires.types[w] for w in made.indices]
            put: dict[object, Expr] = {("w", j): ("w", j + count) for j in range(len(made.indices))}
            reads = (_put(made.read, put), *([Read()] if fill else []))
            inputs = [moved[made.source], *fill, *(moved[w] for w in made.indices)]
            fits = _put(Read((), made.fits), put).where
            box = Box(View(made.index_axes, reads, fits), Ty(*dom), box.cod, box.line)
        moved.extend(writer.made(box, inputs))
    return writer.reachable(moved[w] for w in graph.outputs)
