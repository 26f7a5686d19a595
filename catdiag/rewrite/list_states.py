"""Diagrams about the states of a loop on parts of its list: the statements of theorems about a loop beside its
equation.

A state is reachable if it is the state of some list. So a claim about all reachable states is an equation about `state`
of arbitrary parts `x1`, `x2`, … of the axis, which the kernel checks like any other equation.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

from catdiag.category.diagram import Diagram, Graph, of_graph, reachable
from catdiag.category.graph_writer import GraphWriter, part_of
from catdiag.category.index_maps import Read, View, plus
from catdiag.category.ops import Box, FoldOp, GroupOp, reindex_box
from catdiag.category.substitution import inline
from catdiag.category.types import ArrayType, Axis, Size, Ty
from catdiag.prover.assumptions import OfSizes
from catdiag.prover.certification import parse_assumption
from catdiag.prover.export import size_data
from catdiag.prover.identifiers import identifier
from catdiag.rewrite.local_sizes import sizes_in
from catdiag.rewrite.matching.unify import Unifier
from catdiag.schedule.accumulation import states_only

Instead: TypeAlias = Callable[[Box], "Diagram | None"]


def resized(diagram: Diagram, sizes: Mapping[str, Size], axes: Sequence[Axis] = ()) -> Diagram:
    """A diagram with other sizes for size symbols; `axes` are further axes whose parts (of products and coproducts) are
    known.

    >>> from catdiag.category.diagram import id
    >>> resized(id(Ty(ArrayType((Axis("x"),)))), {"x": ("+", "a", "b")}).dom
    Ty(ArrayType(axes=(Axis('x', ('+', 'a', 'b')),), element='real'))
    """
    return Unifier({axis.name: axis for axis in axes}, dict(sizes)).diagram(diagram)


def opened(diagram: Diagram) -> Diagram:
    """A diagram with its named boxes and groups inlined, on whole axes; loops stay."""
    return _with(diagram, lambda box: on_whole_axes(box) if isinstance(box.op, GroupOp) else None)


def unrolled(diagram: Diagram) -> Diagram:
    """A diagram without loops, groups and named boxes: each loop is replaced by its specification, the state of the
    whole list.
    """
    return _with(opened(diagram), lambda box: on_whole_axes(box) if isinstance(box.op, FoldOp) else None)


def _with(diagram: Diagram, instead: Instead) -> Diagram:
    made = Assembly(diagram.dom.arrays)
    outputs = made.run(diagram, range(len(diagram.dom)), instead)[1]
    return made.diagram(outputs, diagram.input_names, diagram.title)


def on_whole_axes(box: Box) -> Diagram:
    """The specification of a loop or group on whole axes."""
    op, known = box.op, {axis.name: axis for ty in box.dom for axis in ty.axes}
    if isinstance(op, FoldOp):
        return resized(op.state, {op.block: known[op.axis].size}, [known[op.axis]])
    assert isinstance(op, GroupOp)
    sizes = {local: known[name].size for name, local in op.tiles}
    return resized(op.body, sizes, [known[name] for name, _ in op.tiles])


def on_arbitrary_inputs(around: Diagram, place: int) -> Diagram | None:
    """The loop at a place as the last box of a diagram whose inputs stand for the arrays that the loop reads. What
    depends on no input, positions and constants, is computed as before. None where the loop reads inputs only.
    """
    graph, node = around.graph, around.graph.nodes[place]
    count = len(around.dom)
    constant = [False] * count
    for other in graph.nodes[:place]:
        constant.extend([all(constant[w] for w in other.inputs)] * len(other.box.cod))
    read = [w for w in dict.fromkeys(node.inputs) if not constant[w]]
    if all(w < count for w in read):
        return None
    places = [k for k, other in enumerate(graph.nodes[:place]) if all(constant[w] for w in other.inputs)]
    first = graph.first_wires()[place]
    part = part_of(graph, [*places, place], read, range(first, first + len(node.box.cod)))
    assert isinstance(node.box.op, FoldOp)
    names = tuple(node.box.op.state.input_names[node.inputs.index(w)] for w in read)
    return of_graph(part, node.box.cod, names, node.box.op.state.title)


def is_splittable(box: Box) -> bool:
    """Whether the size of a loop's axis is a symbol, so that a sum of part sizes can be substituted for it."""
    assert isinstance(box.op, FoldOp)
    return isinstance(_sizes(box)[box.op.axis], str)


def _sizes(box: Box) -> dict[str, Size]:
    """The sizes of the axes of a box's inputs, by name."""
    return {axis.name: axis.size for ty in box.dom for axis in ty.axes}


class Assembly(GraphWriter):
    """A diagram under construction, composed of other diagrams."""

    def run(
        self, diagram: Diagram, inputs: Sequence[int], instead: Instead = lambda _: None
    ) -> tuple[list[int], list[int]]:
        """Adds a copy of a diagram on some wires. Gives the wire of each of its wires, and those of its outputs.

        Where `instead` gives a diagram for a box, that diagram is put in its place.
        """
        graph = inline(diagram).graph
        now = list(inputs)
        for node in graph.nodes:
            args = [now[w] for w in node.inputs]
            body = instead(node.box)
            if body is None:
                now.extend(self.made(node.box, args))
            else:
                made = self.run(body, args)[1]
                now.extend(self.cast(w, ty) for w, ty in zip(made, node.box.cod, strict=True))
        return now, [now[w] for w in graph.outputs]

    def diagram(self, outputs: Sequence[int], names: tuple[str, ...], title: str) -> Diagram:
        """The diagram built so far, without boxes that reach no output."""
        return of_graph(self.reachable(outputs), Ty(*(self.types[w] for w in outputs)), names, title)


class ListParts:
    """A loop whose list is cut into parts, with its states, steps and merges on these parts, in one diagram under
    construction.

    `sizes` are the sizes of the parts. With `around` (a diagram without groups, whose node number `place` is the loop),
    the inputs are those of that diagram, and the parts are parts of the lists that the loop runs on. Without it, the
    inputs are those of the loop, part by part, and arbitrary.
    """

    def __init__(self, box: Box, sizes: Sequence[Size], around: Diagram | None = None, place: int = 0) -> None:
        assert isinstance(box.op, FoldOp)
        # What a loop emits is no state: the laws are about the others.
        self.op, self.sizes = states_only(box.op), tuple(sizes)
        self.box = Box(self.op, box.dom, Ty(*box.cod.arrays[: self.op.state_count]), box.line)
        self.put: dict[str, Size] = {}
        self.lists: list[int] = []
        if around is not None and is_splittable(box):
            self.put = {str(_sizes(box)[self.op.axis]): self._start(len(self.sizes))}
            self._cut(around, place)
        else:
            self._fresh()

    @property
    def exact(self) -> bool:
        """Whether the parts are parts of lists that the loop runs on, and not arbitrary arrays."""
        return bool(self.put)

    def _start(self, part: int) -> Size:
        """The position at which a part starts: the sum of the sizes before it."""
        total: Size = 0
        for size in self.sizes[:part]:
            total = size if total == 0 else ("+", total, size)
        return total

    def _cut(self, around: Diagram, place: int) -> None:
        """The loop's inputs as the diagram around it computes them, cut along the axis."""
        node = around.graph.nodes[place]
        before = resized(
            of_graph(reachable(Graph(around.dom, around.graph.nodes[:place], node.inputs)), node.box.dom), self.put
        )
        self.assembly = Assembly(before.dom.arrays)
        self.names = around.input_names
        self.lists = self.assembly.run(before, range(len(before.dom)))[1]
        self.inputs = [[self._part(w, k) for w in self.lists] for k in range(len(self.sizes))]

    def _part(self, wire: int, part: int) -> int:
        ty, axis = self.assembly.types[wire], self.op.axis
        if ty.axis(axis) is None:
            return wire
        read = Read(((axis, plus(self._start(part), ("i", axis))),))
        made = reindex_box(View((Axis(axis, self.sizes[part]),), (read,)), [ty])
        return self.assembly.add(made, (wire,))

    def _fresh(self) -> None:
        """The loop's inputs as arbitrary arrays; those with the axis as one array per part."""
        body = self.op.state
        dom, names = list[ArrayType](), list[str]()
        self.inputs = [[] for _ in self.sizes]
        for ty, name in zip(body.dom, body.input_names, strict=True):
            shared = ty.axis(self.op.axis) is None
            for k, size in enumerate(self.sizes):
                if not shared or not k:
                    dom.append(resized_type(ty, self.op.block, size))
                    names.append(name if shared else f"{name}_{k + 1}")
                self.inputs[k].append(len(dom) - 1)
        self.assembly = Assembly(dom)
        self.names = tuple(names)

    def assumed(self, assume: Sequence[str]) -> tuple[str, ...]:
        """The assumptions about sizes with the sum of the part sizes in place of the size of the list."""
        put = {identifier(symbol): size_data(total) for symbol, total in self.put.items()}

        def now(s: Any) -> Any:
            return [s[0], *map(now, s[1:])] if isinstance(s, list) else put.get(s, s)

        return tuple(OfSizes.of(now(parse_assumption(text))) for text in assume) if put else tuple(assume)

    def body(self, diagram: Diagram, part: int | None = None) -> Diagram:
        """A body of the loop, with the size of a part as its block size, if a part is given."""
        return resized(diagram, self.put if part is None else {**self.put, self.op.block: self.sizes[part]})

    def unit(self) -> list[int]:
        """The state of the empty list."""
        return self.assembly.run(self.body(self.op.unit), ())[1]

    def state(self, part: int) -> list[int]:
        """The state of a part."""
        return self.assembly.run(self.body(self.op.state, part), self.inputs[part])[1]

    def whole_state(self) -> list[int]:
        """The state of the whole list; empty where there are arbitrary parts only."""
        if not self.lists:
            return []
        body = resized(self.op.state, {**self.put, self.op.block: self._start(len(self.sizes))})
        return self.assembly.run(body, self.lists)[1]

    def step(self, states: Sequence[int], part: int) -> tuple[list[int], list[int]]:
        """One iteration of the loop with a part as its block: the wires of the body, and the new states."""
        return self.assembly.run(self.body(self.op.step, part), [*states, *self.inputs[part]])

    def merge(self, left: Sequence[int], right: Sequence[int]) -> tuple[list[int], list[int]]:
        """The state of two concatenated lists: the wires of the merge, and the states."""
        return self.assembly.run(self.body(self.op.merge), [*left, *right])


def resized_type(ty: ArrayType, symbol: str, size: Size) -> ArrayType:
    """A type with another size for a symbol."""
    return Unifier(sizes={symbol: size}).ty(Ty(ty))[0]


def part_sizes(diagram: Diagram, axis: str, count: int) -> tuple[str, ...]:
    """Symbols for the sizes of the parts of an axis, which the diagram does not use yet: `x1`, `x2`.

    >>> from catdiag.category.diagram import id
    >>> part_sizes(id(Ty(ArrayType((Axis("x"), Axis("x2"))))), "x", 2)
    ('x1', 'x2_')
    """
    taken, found = sizes_in(diagram), []
    for k in range(1, count + 1):
        symbol = "".join(c if c.isalnum() else "_" for c in axis) + str(k)
        while symbol in taken or not symbol.isidentifier():
            symbol = symbol + "_" if symbol.isidentifier() else "_" + symbol
        found.append(symbol)
    return tuple(found)
