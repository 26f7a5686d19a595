"""Folds that a user gives: a unit, the state of one element, the merge of two states, and how the result is computed
from the state.

`Fold` is what the user writes. `user_fold_tracing.typed` traces its parts for a diagram and an axis. `UserFold.loop`
builds the loop: each iteration merges the state with the state of its block. The equation of the loop is proved
elsewhere, as for a loop that is found.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Any

from catdiag.category import ops
from catdiag.category.diagram import Diagram, Graph, Node, of_graph
from catdiag.category.graph_writer import GraphWriter
from catdiag.category.op_facts import scalar_function
from catdiag.category.ops import (
    Box,
    Const,
    Einsum,
    Index,
    Reduce,
    Rename,
    SizeOf,
    View,
    const_box,
    index_box,
    size_box,
)
from catdiag.category.resizing import resize
from catdiag.category.substitution import inline
from catdiag.category.types import ArrayType, Axis, Size, Ty, size_symbols
from catdiag.rewrite.graph_builder import GraphBuilder, localized
from catdiag.rewrite.hash_consed_graph import HashConsedGraph
from catdiag.rewrite.list_states import resized
from catdiag.util.errors import AxisError, TypeMismatch, user_line

Part = Callable[..., Any] | Diagram


@dataclass(frozen=True)
class Fold:
    """A fold over an axis, for `.stream(axis, by=…)`; it is proved to mean what the diagram means, or refuted.

    - `unit`: the state of the empty list: a number for each component, or a function without arguments;
    - `element`: the state of a list of one element: a function of the diagram's inputs, in order, where those that have
      the axis come without it; `cd.index(axis)` is the element's position, `cd.size(axis)` the size of the whole list;
    - `merge`: the state of two concatenated lists from their states: a function of two tuples (of two arrays if the
      state is one array), or of the components of the left state and then of the right one;
    - `finish`: the results from the state of the whole list: a function of the components (or of one tuple), and
      optionally of the inputs that do not have the axis. If left out, the state is the result;
    - `state`: the specification of each component as a function of a list: a function of the inputs that gives all
      components, where `cd.size(axis)` is the length of the list; or a tuple of one function for each component, None
      where it is to be found. If left out, all are to be found.

    A program or a diagram may stand for any of the functions. A state may have further axes, but not the streamed one.

    >>> import catdiag as cd
    >>> mean = cd.algorithm("x ->", name="mean")(lambda X: cd.mean(X, "x"))
    >>> running = cd.Fold(
    ...     unit=(0, 0),
    ...     element=lambda x: (1, x),
    ...     merge=lambda a, b: (a[0] + b[0], (a[0] * a[1] + b[0] * b[1]) / (a[0] + b[0])),
    ...     finish=lambda n, mean: mean,
    ... )
    >>> mean.stream("x", by=running).run([1, 2, 3, 6], tiles={"s_x": 3})
    array(3.)

    Raises TypeMismatch for a part that is of none of these kinds.
    """

    unit: Any
    element: Part
    merge: Part
    finish: Part | None = None
    state: Any = None
    line: str | None = field(default=None, repr=False, compare=False)

    def __post_init__(self) -> None:
        if self.line is None:
            object.__setattr__(self, "line", user_line())
        for name in ("element", "merge", "finish"):
            part = getattr(self, name)
            object.__setattr__(self, name, getattr(part, "diagram", part))
            if not _is_part(part) and not (part is None and name == "finish"):
                raise TypeMismatch(f"{name} of a fold is {part!r}: expected a function or a diagram", self.line)
        several = isinstance(self.state, (tuple, list))
        parts = tuple(getattr(part, "diagram", part) for part in (self.state if several else (self.state,)))
        object.__setattr__(self, "state", parts if several else parts[0])
        for k, part in enumerate(parts):
            if part is not None and not _is_part(part):
                raise TypeMismatch(
                    f"state of a fold has {part!r} as component {k}: expected a function or a diagram of the list, "
                    "or None where it is to be found",
                    self.line,
                )


def _is_part(part: Any) -> bool:
    return callable(part) or isinstance(getattr(part, "diagram", part), Diagram)


@dataclass(frozen=True)
class UserFold:
    """The parts of a fold as diagrams, for one diagram and one of its axes.

    `inputs` are the types of the diagram's inputs, and of the positions as a last one. `element` takes them without the
    axis. `states` are the types of the components. `state[k]` is the specification of component k on a list whose axis
    has the size `block`, or None.
    """

    source: Diagram
    fold: Fold
    axis: Axis
    block: str
    names: tuple[str, ...]
    states: tuple[ArrayType, ...]
    unit: Diagram
    element: Diagram
    merge: Diagram
    finish: Diagram
    state: tuple[Diagram | None, ...]

    @property
    def inputs(self) -> tuple[ArrayType, ...]:
        """The types of the loop's inputs: the diagram's inputs, and the positions along the axis."""
        return (*self.source.dom, ArrayType((self.axis,), "int"))

    @property
    def missing(self) -> list[int]:
        """The components without a known specification."""
        return [k for k, s in enumerate(self.state) if s is None]

    def of_list(self, length: Size, total: bool = False) -> Diagram:
        """All components of a list whose axis has the size `length`; with `total`, defined for the empty list too.

        Every specification must be known. One that divides by the length, for example, is undefined for the empty list.
        It is then replaced by the unit where the length is 0.
        """
        local = self.axis
        if length != local.size:
            local = replace(local, size=length, kind="name", parts=())
        builder = writer([localized(t, local) for t in self.inputs])
        units = use(builder, self.unit, ()) if total else []
        outputs = []
        for k, (state, ty) in enumerate(zip(self.state, self.states, strict=True)):
            assert state is not None, "every state is known"
            state = of_length(state, self.axis.name, self.block, length)
            wire = builder.cast(use(builder, state, range(len(self.inputs)))[0], ty)
            bottom = Const(None) in [b.op for b in inline(self.unit).boxes] and self.states[k].element == "extended"
            if total and (
                _undefined_when_empty(state, self.axis.name, length) or (_ends(state, self.axis.name) and not bottom)
            ):
                empty = builder.map("lt", builder.add(const_box(Fraction(0)), ()), builder.add(size_box(length), ()))
                wire = builder.cast(builder.map("where", empty, wire, units[k]), ty)
            outputs.append(wire)
        return builder.diagram(outputs, (*self.source.input_names, f"index_{self.axis.name}"))

    def loop(self) -> tuple[Diagram, ops.FoldOp]:
        """The diagram with the loop, and its Fold box. Every specification must be known."""
        state, block = self.of_list(self.block, total=True), self.of_list(self.block)
        read = {*state.graph.outputs, *(w for n in state.graph.nodes for w in n.inputs)}
        used = [w for w in range(len(self.inputs)) if w in read]
        state, block = _only(state, used), _only(block, used)
        builder = writer([*self.states, *state.dom])
        here = use(builder, block, range(len(self.states), len(builder.dom)))
        step = builder.diagram(use(builder, self.merge, [*range(len(self.states)), *here]), (*self.names, *state.names))
        box = ops.FoldOp(self.axis.name, self.block, self.unit, step, self.merge, state, self.names)
        builder = writer(list(self.source.dom))
        wires = [w if w < len(self.source.dom) else builder.add(index_box(self.axis), ()) for w in used]
        first = builder.add(Box(box, Ty(*(builder.types[w] for w in wires)), Ty(*self.states), self.fold.line), wires)
        results = self.finished(builder, range(first, first + len(self.states)))
        made = builder.diagram(results, self.source.names)
        made.title = self.source.title
        return made, box

    def finished(self, builder: GraphBuilder, states: Sequence[int]) -> list[int]:
        """The results, from the state of the whole list and the inputs, which are the first wires."""
        inputs = [w for w, ty in enumerate(self.source.dom) if ty.axis(self.axis.name) is None]
        return use(builder, self.finish, [*states, *inputs])


# -- diagrams put together ------------------------------------------------------------------------


def writer(dom: Sequence[ArrayType]) -> GraphBuilder:
    """An empty diagram under construction, with inputs of these types."""
    return GraphBuilder(HashConsedGraph(Ty()), dom)


def use(builder: GraphBuilder, diagram: Diagram, wires: Sequence[int]) -> list[int]:
    """Adds a copy of a diagram, with named boxes inlined, and gives its outputs; the wires are cast to its
    input types.
    """
    graph = inline(diagram).graph
    env = [builder.cast(w, ty) for w, ty in zip(wires, diagram.dom, strict=True)]
    for node in graph.nodes:
        first = builder.add(node.box, [env[w] for w in node.inputs])
        env.extend(range(first, first + len(node.box.cod)))
    return [env[w] for w in graph.outputs]


def of_length(diagram: Diagram, axis: str, block: Size, length: Size) -> Diagram:
    """A diagram on lists with `length` in place of the size `block` of their axis and of its copies.

    >>> from catdiag.frontend.builder import mean, program
    >>> average = program([ArrayType((Axis("x", "s_x"),))], lambda X: mean(X, "x"))
    >>> [box.name for box in of_length(average, "x", "s_x", 3).boxes]
    ['sum[x]', 'sizeof[3]', 'div']
    """
    flat = inline(diagram)
    others = {s for ty in flat.dom for a in ty.axes if a.name != axis for s in size_symbols(a.size)}
    if isinstance(block, str) and block not in others:
        # Every axis of this size is a copy of the axis, or made of it.
        return resized(flat, {block: length})
    nodes = tuple(Node(size_box(length) if n.box.op == SizeOf(block) else n.box, n.inputs) for n in flat.graph.nodes)
    made = of_graph(Graph(flat.dom, nodes, flat.graph.outputs), flat.cod, flat.names)
    copies = _copies(flat, axis)
    _require_distinct(flat, copies)
    for name in copies:
        made = resize(made, name, length)
    return made


def _copies(flat: Diagram, axis: str) -> list[str]:
    """The name of an axis, and the names that it is renamed to."""
    found = [axis]
    for node in flat.graph.nodes:
        if isinstance(node.box.op, Rename):
            found += [new for old, new in node.box.op.pairs if old in found and new not in found]
    return found


def _require_distinct(flat: Diagram, copies: Sequence[str]) -> None:
    """Raises AxisError where copies of an axis cannot be distinguished by name, or are read by a view."""
    axis, *others = copies
    inputs = next((name for name in others if any(ty.axis(name) is not None for ty in flat.dom)), None)
    reads = [n.box for n in flat.graph.nodes if isinstance(n.box.op, View) and any(map(n.box.op.touches, copies))]
    if inputs is not None or reads:
        what = f"joins it with {inputs!r}, an axis of an input" if inputs is not None else "reads parts of it"
        raise AxisError(
            f"what is said of a list along {axis!r} {what}, whose size is the same: this has no meaning for a shorter "
            "list; give state= as a function of the list, or give the two axes sizes of their own",
            reads[0].line if reads else None,
        )


def _undefined_when_empty(state: Diagram, axis: str, length: Size) -> bool:
    """Whether a specification may be undefined for the empty list, such as one that divides by the length."""
    late = [False] * len(state.dom)
    for node in state.graph.nodes:
        op, of = node.box.op, [late[w] for w in node.inputs]
        fn = scalar_function(op)
        if (fn == "div" and of[1]) or (fn in ("log", "sqrt") and of[0]):
            return True
        lost = any(t.axis(axis) is not None for t in node.box.dom) and node.box.cod[0].axis(axis) is None
        late.append(any(of) or lost or op == SizeOf(length))
    return False


def _ends(state: Diagram, axis: str) -> bool:
    """Whether a specification uses a maximum or minimum over the list, which the empty list does not have; sums are
    skipped.
    """
    graph = state.graph
    makers = dict(enumerate((n for n in graph.nodes for _ in n.box.cod), len(graph.dom)))
    todo = list(graph.outputs)
    while todo:
        node = makers.get(todo.pop())
        if node is None:
            continue
        if isinstance(node.box.op, Reduce) and node.box.op.axis == axis:
            if node.box.op.monoid in ("max", "min"):
                return True
        elif any(t.axis(axis) is None for t in node.box.dom) and not isinstance(node.box.op, Einsum):
            todo.extend(node.inputs)
    return False


def with_positions(diagram: Diagram, axis: str) -> Diagram:
    """A diagram whose last input holds the positions along an axis, in place of its own indices and those of its
    copies.

    Positions that are only compared or subtracted are counted from the start of the list. A statement about them then
    holds for a list at any offset.
    """
    flat = inline(diagram)
    last = len(flat.dom) - 1
    names, writer = list(range(len(flat.dom))), GraphWriter(flat.dom)
    copies = _copies(flat, axis)
    here: dict[int, int] = {}
    """The wires that are positions, each with the wire of the same positions counted from the start of the list."""

    for node in flat.graph.nodes:
        box, wire = node.box, len(names)
        if isinstance(box.op, Index) and box.op.axis in copies:
            here[wire] = writer.add(box, ())
            renamed = Box(Rename(((axis, box.op.axis),)), Ty(flat.dom[last]), box.cod, box.line)
            names.append(last if box.op.axis == axis else writer.add(renamed, (last,)))
            continue
        if isinstance(box.op, Rename) and node.inputs[0] in here:
            here[wire] = writer.add(box, (here[node.inputs[0]],))
        relative = scalar_function(box.op) in _RELATIVE and all(w in here for w in node.inputs)
        names.extend(writer.made(box, [(here if relative else names)[w] for w in node.inputs]))
    return of_graph(writer.reachable(names[w] for w in flat.graph.outputs), flat.cod, flat.names)


_RELATIVE = frozenset(("sub", "lt", "le", "eq", "ne"))


def _only(diagram: Diagram, used: Sequence[int]) -> Diagram:
    """The diagram without its unused inputs."""
    graph, count = diagram.graph, len(diagram.dom)
    place = {w: k for k, w in enumerate(used)}

    def moved(w: int) -> int:
        return place[w] if w < count else w - count + len(used)

    nodes = tuple(Node(n.box, tuple(map(moved, n.inputs))) for n in graph.nodes)
    dom = Ty(*(diagram.dom[w] for w in used))
    names = tuple(diagram.names[w] for w in used)
    return of_graph(Graph(dom, nodes, tuple(map(moved, graph.outputs))), diagram.cod, names)
