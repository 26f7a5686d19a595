"""Congruence: equations cut at shared arrays, for diagrams with uninterpreted boxes and for large diagrams.

An uninterpreted box has no term. All that is known of it is that it is a function: equal arguments give equal results.
So both sides are cut at such boxes. The results of a box become new inputs of both sides, shared by all boxes of that
name with equal arguments. The arguments become further outputs, which have to agree. The cut equation implies the
original one: substitute the boxes' own results for the new inputs. Then the arguments agree, from the first box on, so
that the boxes of the right side compute the substituted arrays, and the other outputs agree. A box takes defined arrays
only: its argument is an output, so that the left side is defined only where the argument is.

Any other array that both sides compute can be cut in the same way, which keeps the terms of a large diagram small. The
theorem is then slightly weaker: its hypotheses say that all cut arrays are defined. In a very large diagram, arrays
that both sides compute by the same boxes from the same arrays are left out.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from typing import Any

from catdiag.category.box_types import rename_box
from catdiag.category.diagram import Diagram, Graph, Node, of_graph, reachable
from catdiag.category.graph_writer import GraphWriter
from catdiag.category.ops import Box, Call, Generic, GroupOp, Map, index_box, reduce_box
from catdiag.category.scalars import Apply
from catdiag.category.substitution import inline
from catdiag.category.traversal import all_diagrams
from catdiag.category.types import ArrayType, Ty
from catdiag.util.errors import TypeMismatch

Pair = tuple[int, int]


@dataclass(frozen=True)
class CutEquation:
    """Two diagrams to be proved equal in place of two others, and the cuts in words."""

    left: Diagram
    right: Diagram
    taken: tuple[str, ...]


class NotCongruent(Exception):
    """An uninterpreted box of the right side whose arguments equal those of no box of the left side."""


def has_generators(diagram: Diagram) -> bool:
    """Whether a diagram has uninterpreted boxes, outside of the bodies of loops, and of groups with tiles.

    >>> from catdiag.category.diagram import box
    >>> from catdiag.category.substitution import call
    >>> from catdiag.category.types import Axis
    >>> X = ArrayType((Axis("x"),))
    >>> has_generators(call("named", box("f", X, X)))
    True
    """
    shown = all_diagrams(diagram, lambda b: isinstance(b.op, Call) or (isinstance(b.op, GroupOp) and not b.op.tiles))
    return any(isinstance(b.op, Generic) for item in shown for b in item.boxes)


@dataclass(eq=False)
class _Class:
    """A congruence class: the results of boxes of one name with equal arguments, or one array that is cut.

    `first` are its wires on the left side: the arguments of the box, or the array itself. `others` are those that must
    be equal to them.
    """

    box: Box
    inputs: list[int]  # the numbers of its new inputs
    first: tuple[int, ...]
    others: list[tuple[bool, tuple[int, ...]]] = field(default_factory=list)  # whether on the right side, and the wires
    generator: bool = True
    computed: Any = None  # how a cut array is computed on the left side
    congruent: bool = False  # computed in the same way on the right side, and so left out


LARGE = 2000
"""With more boxes than this on a side, arrays that both sides compute by the same boxes are left out."""


class Cutter:
    """The cutting of one equation. `equal` says whether two diagrams are proved equal."""

    def __init__(self, f: Diagram, g: Diagram, equal: Callable[[Diagram, Diagram], bool]) -> None:
        if f.dom != g.dom or f.cod != g.cod:
            raise TypeMismatch(f"only diagrams of one type can be equal: {f.dom} → {f.cod} and {g.dom} → {g.cod}")
        self.f, self.g, self.equal = f, g, equal
        left, right = inline(f).graph, inline(g).graph
        self.dom = list(f.dom)
        # One graph has both sides: the nodes of the left side, then those of the right side.
        self.nodes: list[Node] = list(left.nodes)
        shift = sum(len(node.box.cod) for node in left.nodes)
        self.shift = shift
        inputs = len(self.dom)
        self.nodes += [Node(n.box, tuple(self.on_right(w) for w in n.inputs)) for n in right.nodes]
        self.outputs = (left.outputs, tuple(self.on_right(w) for w in right.outputs))
        self.types = [*left.wire_types(), *right.wire_types()[inputs:]]
        self.seam = len(left.nodes)
        self.first: list[int] = []
        count = inputs
        for node in self.nodes:
            self.first.append(count)
            count += len(node.box.cod)
        self.fresh: list[tuple[str, ArrayType]] = []
        self.names = set(f.input_names)
        self.tried: dict[str, int] = {}
        self.cut_wires: dict[int, int] = {}  # cut wires, each with the number of its new input
        self.classes: list[_Class] = []

    def on_right(self, wire: int) -> int:
        """The number of a wire of the right side in the common graph."""
        return wire if wire < len(self.dom) else wire + self.shift

    # -- classes ---------------------------------------------------------------------------------

    def find(self, through: Sequence[Pair] = ()) -> CutEquation:
        """The cut equation. `through` gives pairs of wires of the two sides, in their inlined forms, that are cut as
        well.

        Raises NotCongruent where a box of the right side has no partner.
        """
        twins = {self.on_right(b): a for a, b in through}
        needed = self._reaching()
        number: dict[Any, int] = {}
        value = [number.setdefault(("input", k), len(number)) for k in range(len(self.dom))]
        of_wire: dict[int, _Class] = {}
        cut_left = {a: self.on_right(b) for a, b in through}
        large = len(self.nodes) > 2 * LARGE
        for place, node in enumerate(self.nodes):
            outs = range(self.first[place], self.first[place] + len(node.box.cod))
            read = tuple([value[w] for w in node.inputs])
            if place not in needed:
                value.extend(number.setdefault(("dead", w), len(number)) for w in outs)
                continue
            if isinstance(node.box.op, Generic):
                found = self._class_of(node, read, value, of_wire.get(twins.get(outs[0], -1)) if outs else None, place)
                for port, w in enumerate(outs):
                    self.cut_wires[w] = found.inputs[port]
                    of_wire[w] = found
                    value.append(number.setdefault(("new", found.inputs[port]), len(number)))
                continue
            for port, w in enumerate(outs):
                met = of_wire.get(twins.get(w, -1))
                made = (node.box, read, port)
                if place < self.seam and w in cut_left:
                    ty = _either(self.types[w], self.types[cut_left[w]])
                    met = self._new(node.box, (w,), [ty], generator=False)
                    of_wire[w], met.computed = met, made
                elif met is not None and large and met.computed == made:
                    met.congruent = True
                elif met is not None:
                    met.others.append((True, (w,)))
                if met is not None:
                    self.cut_wires[w] = met.inputs[0]
                    value.append(number.setdefault(("new", met.inputs[0]), len(number)))
                else:
                    value.append(number.setdefault(made, len(number)))
        return self._equation()

    def _reaching(self) -> set[int]:
        """The places of the nodes that reach an output of their side."""
        maker = {w: p for p, n in enumerate(self.nodes) for w in range(self.first[p], self.first[p] + len(n.box.cod))}
        stack = [w for side in self.outputs for w in side]
        found: set[int] = set()
        while stack:
            place = maker.get(stack.pop())
            if place is not None and place not in found:
                found.add(place)
                stack.extend(self.nodes[place].inputs)
        return found

    def _new(self, box: Box, first: tuple[int, ...], types: Sequence[ArrayType], generator: bool) -> _Class:
        """A new congruence class with new inputs of the given types."""
        # These characters are reserved for the kernel's own names.
        base = box.name.replace("%", "_").replace("$", "_") if generator else "array"
        k = self.tried.get(base, 1)
        name = base if k == 1 else f"{base}_{k}"
        while name in self.names or any(f"{name}.{port}" in self.names for port in range(len(types))):
            k += 1
            name = f"{base}_{k}"
        self.tried[base] = k
        inputs = []
        for port, ty in enumerate(types):
            own = name if len(types) == 1 else f"{name}.{port}"
            self.names.add(own)
            inputs.append(len(self.fresh))
            self.fresh.append((own, ty))
        self.names.add(name)
        made = _Class(box, inputs, first, generator=generator)
        self.classes.append(made)
        return made

    def _class_of(self, node: Node, read: tuple[int, ...], value: list[int], twin: _Class | None, place: int) -> _Class:
        """The congruence class of an uninterpreted box, by its arguments. Raises NotCongruent."""
        right = place >= self.seam
        alike = [c for c in self.classes if c.generator and c.box == node.box]
        found = twin if twin in alike else None
        found = found or next((c for c in alike if tuple([value[w] for w in c.first]) == read), None)
        if found is None:
            found = next((c for c in alike if self._same(c.first, node.inputs)), None)
        if found is None:
            if right:
                raise NotCongruent(
                    f"{node.box.name} of the right side has arguments that no such box of the left side has"
                )
            return self._new(node.box, node.inputs, list(node.box.cod), generator=True)
        found.others.append((right, node.inputs))
        return found

    def _same(self, a: Sequence[int], b: Sequence[int]) -> bool:
        """Whether two lists of arrays are proved equal, with the cuts made so far."""
        return self.equal(self._side(self.f, a), self._side(self.g, b))

    # -- the equation ------------------------------------------------------------------------------

    def _side(self, like: Diagram, outputs: Sequence[int], raw: Sequence[bool] = ()) -> Diagram:
        """The diagram of some wires over the inputs and the new inputs; a `raw` wire is computed although it is cut."""
        inputs = len(self.dom)
        dom = Ty(*self.dom, *(ty for _, ty in self.fresh))
        names = [*range(inputs)] + [0] * (len(self.types) - inputs)
        nodes: list[Node] = []
        count = len(dom)

        def at(w: int) -> int:
            return inputs + self.cut_wires[w] if w in self.cut_wires else names[w]

        for place, node in enumerate(self.nodes):
            if isinstance(node.box.op, Generic):
                continue
            nodes.append(Node(node.box, tuple([at(w) for w in node.inputs])))
            for w in range(self.first[place], self.first[place] + len(node.box.cod)):
                names[w] = count
                count += 1
        own = [names[w] if k < len(raw) and raw[k] else at(w) for k, w in enumerate(outputs)]
        graph = reachable(Graph(dom, tuple(nodes), tuple(own)))
        return of_graph(graph, None, (*self.f.input_names, *(name for name, _ in self.fresh)), like.title)

    def _equation(self) -> CutEquation:
        """The cut equation of all classes found so far."""
        lefts, rights = list(self.outputs[0]), list(self.outputs[1])
        raw = [False] * len(lefts)
        taken = []
        for c in self.classes:
            if c.congruent and not c.others:
                continue
            if not any(right for right, _ in c.others):
                c.others.append((True, c.first))
            for right, wires in c.others:
                # Arguments of the left side's boxes are on the left, so that they are defined by hypothesis.
                lefts += c.first if right else wires
                rights += wires if right else c.first
                raw += [not c.generator] * len(c.first)
            taken.append(self._say(c))
        alike = len(self.classes) - len(taken)
        if alike:
            text = (
                "arrays that both sides compute by the same boxes from the same arrays are defined, and left out here"
            )
            taken.append(f"{alike} {text}")
        one, two = _needed(len(self.dom), self._side(self.f, lefts, raw), self._side(self.g, rights, raw))
        return CutEquation(one, two, tuple(taken))

    def _say(self, c: _Class) -> str:
        made = ", ".join(f"{name}{ty}" for name, ty in (self.fresh[k] for k in c.inputs))
        at = f" ({c.box.line})" if c.box.line else ""
        if c.generator:
            return (
                f"{c.box.name}{at} is any function from arrays to arrays: {made or 'nothing'} is what it makes, of "
                "arrays that are shown to be equal wherever it is used"
            )
        return f"{made}, the result of {c.box.name}{at}, is defined, and is shown to be equal on both sides"


def _needed(inputs: int, *sides: Diagram) -> list[Diagram]:
    """Diagrams with a common domain, without the new inputs that none of them reads."""
    read = set(range(inputs))
    for side in sides:
        read.update(side.graph.outputs, *(node.inputs for node in side.graph.nodes))
    total = len(sides[0].dom)
    kept = sorted(w for w in read if w < total)
    found = []
    for side in sides:
        count = total - len(kept)
        names = {w: k for k, w in enumerate(kept)}
        nodes = tuple(
            Node(node.box, tuple([names[w] if w < total else w - count for w in node.inputs]))
            for node in side.graph.nodes
        )
        outputs = tuple([names[w] if w < total else w - count for w in side.graph.outputs])
        graph = Graph(Ty(*(side.dom[w] for w in kept)), nodes, outputs)
        found.append(of_graph(graph, side.cod, tuple(side.input_names[w] for w in kept), side.title))
    return found


def _either(left: ArrayType, right: ArrayType) -> ArrayType:
    """The type of a cut array: the wider of its element types on both sides."""
    if left.element == right.element == "bool":
        return left
    return ArrayType(left.axes, "extended" if "extended" in (left.element, right.element) else "real")


# -- refuting ------------------------------------------------------------------------------------------


def interpreted(diagram: Diagram) -> Diagram | None:
    """The diagram with an interpretation for each uninterpreted box, the same for equal names; None where there is
    none.

    A diagram without such boxes is returned as it is.

    Such a box becomes an uninterpreted scalar function of its arguments at an index, and of sums of its arguments
    weighted by position. An axis that all results and some input have may be a weaved axis; nothing is summed along it,
    so that the function does not depend on whether the box is mapped over it. A counterexample to the interpreted
    equation refutes it for boxes that can be any function.

    >>> from catdiag.category.diagram import box
    >>> from catdiag.category.types import Axis
    >>> X = ArrayType((Axis("x"),))
    >>> [b.name for b in interpreted(box("f", X, X)).boxes][-1]
    'f'
    """
    if not has_generators(diagram):
        return diagram
    graph = inline(diagram, kernels=True).graph
    names, writer = list(range(len(graph.dom))), GraphWriter(graph.dom)
    for node in graph.nodes:
        wires = [names[w] for w in node.inputs]
        if not isinstance(node.box.op, Generic):
            names.extend(writer.made(node.box, wires))
            continue
        if any(ty.element == "extended" for ty in (*node.box.dom, *node.box.cod)):
            return None
        read = {n for ty in node.box.dom for n in ty.names}
        mapped = read.intersection(*(ty.names for ty in node.box.cod))
        for port, ty in enumerate(node.box.cod):
            name = node.box.name if len(node.box.cod) == 1 else f"{node.box.name}.{port}"
            names.append(_stand_in(name, ty, wires, mapped, writer))
    return of_graph(writer.graph(names[w] for w in graph.outputs), None, diagram.names, diagram.title)


def _stand_in(name: str, ty: ArrayType, wires: Sequence[int], mapped: set[str], writer: GraphWriter) -> int:
    """A wire with the interpretation of one result of an uninterpreted box."""
    args: list[int] = []
    types = writer.types

    def summed(w: int, keep: Collection[str]) -> int:
        for axis in types[w].axes:
            if axis.name in keep:
                continue
            place = writer.add(index_box(axis), ())
            w = writer.map("mul", w, writer.map("add", place, one))
            w = writer.add(reduce_box("sum", axis.name, types[w]), (w,))
        return w

    one, summing = writer.number(1), False
    for w in wires:
        if types[w].element == "bool":
            w = writer.map("where", w, one, writer.number(0))
        summing = summing or not set(types[w].names) <= set(ty.names)
        args.append(summed(w, ty.names))
        if set(types[w].names) & set(ty.names) - mapped:
            args.append(summed(w, mapped))
    known = {n for w in args for n in types[w].names}
    places = [writer.add(index_box(a), ()) for a in ty.axes if a.name not in known]
    # A function without arguments gets a constant one.
    args = [*args, *places] or [one]
    made = writer.map(Apply(f"{name}{_stand_in_text(ty.element, summing, places)}"), *args)
    if ty.element == "bool":
        made = writer.map("lt", writer.number(0), made)
    elif ty.element == "int":
        # ⌊t/1⌋ makes the interpretation of an integer function an integer.
        given = Ty(types[made], types[one])
        made = writer.add(Box(Map("floordiv"), given, Ty(ArrayType(types[made].axes, "int"))), (made, one))
    if types[made].names != ty.names:
        made = writer.add(rename_box(types[made], {}, ty.axes), (made,))
    return made


def _stand_in_text(element: str, summing: bool, places: Sequence[int]) -> str:
    """How the interpretation differs from a plain scalar function, as a suffix of its name; empty where it does not."""
    of = ["sums of what it reads with weights 1, 2, …"] * summing + ["positions"] * bool(places)
    made = {"bool": " true where positive,", "int": " rounded down,"}.get(element, "")
    return (f" of {' and '.join(of)}," if of else "") + made
