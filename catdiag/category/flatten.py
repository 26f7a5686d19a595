"""Flattening: the expression that a diagram was built by, as a graph; without recursion, in linear time."""

from __future__ import annotations

from typing import Any, Protocol

from catdiag.category.graph import Box, Graph
from catdiag.category.types import Ty

Wires = tuple[int, ...]
BOX, WIRING, SEQ, PAR, GRAPH = range(5)
"""How a diagram was built: from a box, from wiring, by `>>`, by `@`, or from a flat graph."""


class Expression(Protocol):
    """What a diagram was built by: a box or wires, or two expressions; a flat form that is known is taken as it is."""

    _kind: int
    _left: Any
    _right: Any
    _graph: Graph | None

    @property
    def dom(self) -> Ty: ...


class _FlattenFrame:
    """A stack frame: a list of diagrams that `>>` or `@` joins, and the progress in it.

    In sequence, `wires` are those between the last and the next diagram. In parallel, they are the inputs of all,
    `start` is where those of the next begin, and `done` has the outputs of the earlier ones.
    """

    __slots__ = ("done", "items", "kind", "place", "start", "wires")

    def __init__(self, kind: int, items: list[Expression], wires: Wires) -> None:
        self.kind, self.items, self.wires = kind, items, wires
        self.place, self.start = 0, 0
        self.done: list[int] = []


def flatten(diagram: Expression) -> Graph:
    """The flat form: boxes in the order of the expression, `f` before `g` in `f >> g` and in `f @ g`.

    >>> from catdiag.category.diagram import box, swap
    >>> from catdiag.category.types import ArrayType
    >>> X = ArrayType()
    >>> f, g = box("f", X, X), box("g", X, X)
    >>> graph = flatten(swap(X, X) >> f @ g)
    >>> [(node.box.name, node.inputs) for node in graph.nodes], graph.outputs
    ([('f', (1,)), ('g', (0,))], (2, 3))
    """
    made = _NodeColumns()
    which, reads, places = made.which, made.reads, made.places
    count = len(diagram.dom)
    frames: list[_FlattenFrame] = []
    frame = _FlattenFrame(SEQ, [diagram], tuple(range(count)))
    while True:
        items, seq, wires, start, done = frame.items, frame.kind == SEQ, frame.wires, frame.start, frame.done
        inner: _FlattenFrame | None = None
        for place in range(frame.place, len(items)):
            item = items[place]
            kind = item._kind
            if seq:
                feed = wires
            else:
                stop = start + item.dom._length
                feed = wires[start:stop]
                start = stop
            if kind == BOX:
                box = item._left
                known = places.get(id(box))
                which.append(made.place(box) if known is None else known)
                reads.extend(feed)
                first = count
                count += box.cod._length
                out: Wires = (first,) if count == first + 1 else tuple(range(first, count))
            elif kind == WIRING:
                sources = item._left
                # The identity stores its sources as a range.
                out = feed if type(sources) is range else tuple([feed[k] for k in sources])
            elif item._graph is None:
                inner = _FlattenFrame(kind, _row(item), feed)
                frame.place = place + 1
                break
            else:
                out, count = _append(item._graph, feed, made, count)
            if seq:
                wires = out
            else:
                done.extend(out)
        frame.wires, frame.start = wires, start
        if inner is not None:
            frames.append(frame)
            frame = inner
            continue
        result = wires if seq else tuple(done)
        if not frames:
            return Graph.of_columns(diagram.dom, made.table, which, reads, result)
        frame = frames.pop()
        if frame.kind == SEQ:
            frame.wires = result
        else:
            frame.done.extend(result)


class _NodeColumns:
    """The columns of a flat form under construction: each box once, by identity."""

    __slots__ = ("places", "reads", "table", "which")

    def __init__(self) -> None:
        self.table: list[Box] = []
        self.places: dict[int, int] = {}
        self.which: list[int] = []
        self.reads: list[int] = []

    def place(self, box: Box) -> int:
        """The number of a box, assigned at its first use."""
        known = self.places.get(id(box))
        if known is None:
            known = self.places[id(box)] = len(self.table)
            self.table.append(box)
        return known


def _append(graph: Graph, wires: Wires, made: _NodeColumns, count: int) -> tuple[Wires, int]:
    """Appends the nodes of a flat form; gives its outputs and the next free wire."""
    table, which, reads = graph.lists()
    moved = [made.place(box) for box in table]
    made.which.extend([moved[k] for k in which])
    ports = [box.cod._length for box in table]
    total = sum([ports[k] for k in which])
    names = [*wires, *range(count, count + total)]
    made.reads.extend([names[w] for w in reads])
    return tuple([names[w] for w in graph.outputs]), count + total


def _row(diagram: Expression) -> list[Expression]:
    """The diagrams that a nest of `>>`, or of `@`, joins."""
    found: list[Expression] = []
    stack = [diagram]
    kind = diagram._kind
    while stack:
        item = stack.pop()
        if item._kind == kind and item._graph is None:
            stack.append(item._right)
            stack.append(item._left)
        else:
            found.append(item)
    return found
