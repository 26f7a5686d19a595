"""Boxes, and the flat form of a diagram: a dataflow graph of nodes in stored order, and the wires between them.

    dom wires 0 … n-1        node 0: box, inputs (wire, …)     its outputs are wires n, n+1, …
                             node 1: …                         outputs: (wire, …)

It is stored as nodes, or as columns: the distinct boxes, the number of the box of each node, and the wires that the
nodes read, one node after another. Each form is computed from the other at its first use; columns are lists or NumPy
arrays, on which many nodes are processed at once. So a diagram of a million boxes has no million objects until one of
its nodes is read.

A box is an operation with its types, and an operation may hold diagrams as bodies, whose flat forms have boxes again.
These types refer to each other, so they are here together, with only the outline of operations and diagrams: all else
about both is built on this file (`catdiag.category.ops`, `catdiag.category.diagram`).
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Hashable, Iterable, Iterator
from dataclasses import dataclass, field
from itertools import accumulate
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias, TypeVar

from catdiag.category.types import ArrayType, Size, Ty

if TYPE_CHECKING:
    import numpy as np

    Ints: TypeAlias = "np.ndarray[tuple[int], np.dtype[np.int64]]"

T = TypeVar("T")
FEW, MANY = 300, 10_000
"""The number of nodes from which columns are processed by NumPy: if it is imported already, and if it is not."""


class Operation(Protocol):
    """What a box does; the classes of operations are in `catdiag.category.ops`."""

    @property
    def name(self) -> str:
        """A short name for pictures and messages."""

    def __hash__(self) -> int: ...


class Morphism(Protocol):
    """What a diagram is to the boxes that hold it as a body, and to comparisons: a flat form, and its types."""

    _canon: Any

    @property
    def graph(self) -> Graph: ...
    @property
    def dom(self) -> Ty: ...
    @property
    def cod(self) -> Ty: ...


class NestingOp:
    """An operation with diagrams as bodies."""

    def bodies(self) -> tuple[Morphism, ...]:
        """The bodies."""
        raise NotImplementedError

    def without_bodies(self) -> tuple[Hashable, ...]:
        """The data except the bodies."""
        raise NotImplementedError


@dataclass(frozen=True)
class Generic:
    """An uninterpreted box, identified by its name."""

    name: str


@dataclass(frozen=True, eq=False)
class Box:
    """An operation with its types. Two boxes are equal when operation, domain and codomain are.

    >>> from catdiag.category.types import Axis
    >>> X = Ty(ArrayType((Axis("x"),)))
    >>> eval(repr(Box(Generic("exp"), X, X))) == Box(Generic("exp"), X, X, line="somewhere:1")
    True
    """

    op: Operation
    dom: Ty
    cod: Ty
    line: str | None = field(default=None, repr=False)
    _hash: int | None = field(default=None, init=False, repr=False)

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        if not isinstance(other, Box):
            return NotImplemented
        if self.op != other.op:
            return False
        # Mostly both are the same object, and comparing takes a call.
        dom, cod = self.dom, self.cod
        return (dom is other.dom or dom == other.dom) and (cod is other.cod or cod == other.cod)

    def __hash__(self) -> int:
        known = self._hash
        if known is None:
            known = hash((self.op, self.dom, self.cod))
            object.__setattr__(self, "_hash", known)
        return known

    def __reduce__(self) -> tuple[type[Box], tuple[Operation, Ty, Ty, str | None]]:
        # A hash of strings differs between processes, so that it must not travel with a pickle.
        return Box, (self.op, self.dom, self.cod, self.line)

    def size_of(self, axis: str) -> Size:
        """The size of an axis of its inputs and results; the axis' own name, if none has it.

        >>> from catdiag.category.types import Axis
        >>> total = Box(Generic("total"), Ty(ArrayType((Axis("q", 4), Axis("x")))), Ty(ArrayType((Axis("q", 4),))))
        >>> total.size_of("q"), total.size_of("x"), total.size_of("y")
        (4, 'x', 'y')
        """
        return next((a.size for ty in (*self.dom, *self.cod) for a in ty.axes if a.name == axis), axis)

    @property
    def name(self) -> str:
        """A short name for pictures and messages."""
        return self.op.name


@dataclass(frozen=True, slots=True)
class Node:
    """A box and the wires that it reads. Its outputs are the next free wire numbers."""

    box: Box
    inputs: tuple[int, ...]


Column: TypeAlias = "list[int] | Ints"
Columns: TypeAlias = "tuple[tuple[Box, ...], Column, Column]"
Lists: TypeAlias = "tuple[tuple[Box, ...], list[int], list[int]]"


@dataclass(frozen=True, slots=True, init=False, eq=False, repr=False)
class Graph:
    """The flat form of a diagram: nodes in stored order, and its output wires.

    >>> X = Ty(ArrayType())
    >>> f = Box(Generic("f"), X, X)
    >>> chain = Graph.of_columns(X, [f], [0, 0, 0], [0, 1, 2], [3])
    >>> chain == Graph(X, (Node(f, (0,)), Node(f, (1,)), Node(f, (2,))), (3,)), len(chain)
    (True, 3)
    """

    dom: Ty
    outputs: tuple[int, ...]
    _nodes: tuple[Node, ...] | None = field(default=None)
    _lists: Lists | None = field(default=None)
    _arrays: tuple[tuple[Box, ...], Ints, Ints] | None = field(default=None)
    _cache: dict[object, object] | None = field(default=None)

    def __init__(self, dom: Ty, nodes: tuple[Node, ...] | None, outputs: tuple[int, ...]) -> None:
        put = object.__setattr__
        put(self, "dom", dom)
        put(self, "outputs", outputs)
        put(self, "_nodes", nodes)
        put(self, "_lists", None)
        put(self, "_arrays", None)
        put(self, "_cache", None)

    @staticmethod
    def of_columns(dom: Ty, table: Iterable[Box], which: Column, reads: Column, outputs: Iterable[int]) -> Graph:
        """A flat form from columns, which are trusted to be well formed and are not copied; `which[k]` is the place in
        `table` of the box of node k.
        """
        graph = Graph(dom, None, tuple(outputs))
        if isinstance(which, list) and isinstance(reads, list):
            object.__setattr__(graph, "_lists", (tuple(table), which, reads))
        else:
            object.__setattr__(graph, "_arrays", (tuple(table), which, reads))
        return graph

    @property
    def nodes(self) -> tuple[Node, ...]:
        """The nodes, in stored order."""
        found = self._nodes
        if found is None:
            table, which, reads = self.lists()
            arity = [b.dom._length for b in table]
            made: list[Node] = []
            at = 0
            for k in which:
                stop = at + arity[k]
                made.append(Node(table[k], tuple(reads[at:stop])))
                at = stop
            found = tuple(made)
            object.__setattr__(self, "_nodes", found)
        return found

    def lists(self) -> Lists:
        """The columns as lists, which must not be changed: distinct boxes, the box of each node, and the inputs of the
        nodes.
        """
        found = self._lists
        if found is None:
            if self._arrays is not None:
                table, which, reads = self._arrays
                found = table, which.tolist(), reads.tolist()
            else:
                seen: dict[int, int] = {}
                boxes: list[Box] = []
                places: list[int] = []
                wires: list[int] = []
                for node in self.nodes:
                    b = node.box
                    place = seen.get(id(b))
                    if place is None:
                        place = seen[id(b)] = len(boxes)
                        boxes.append(b)
                    places.append(place)
                    wires.extend(node.inputs)
                found = tuple(boxes), places, wires
            object.__setattr__(self, "_lists", found)
        return found

    def arrays(self) -> tuple[tuple[Box, ...], Ints, Ints]:
        """The columns as NumPy arrays, which must not be changed; the boxes are a tuple."""
        found = self._arrays
        if found is None:
            import numpy as np

            table, which, reads = self.lists()
            found = table, np.array(which, dtype=np.int64), np.array(reads, dtype=np.int64)
            object.__setattr__(self, "_arrays", found)
        return found

    def common_columns(self, other: Graph) -> tuple[Columns, Columns]:
        """The columns of both graphs in one form: arrays if one of them has arrays, else lists."""
        if self._arrays is None and other._arrays is None:
            return self.lists(), other.lists()
        return self.arrays(), other.arrays()

    def cached(self, make: Callable[[Graph], T]) -> T:
        """The result of a function of this flat form, computed once."""
        known = self._cache
        if known is None:
            known = {}
            object.__setattr__(self, "_cache", known)
        if make not in known:
            known[make] = make(self)
        return known[make]  # type: ignore[return-value]

    @property
    def has_arrays(self) -> bool:
        """Whether the columns exist as arrays, or are so long that they should."""
        return self._arrays is not None or len(self) >= (FEW if "numpy" in sys.modules else MANY)

    @property
    def table(self) -> tuple[Box, ...]:
        """The boxes of the columns, each shared by many nodes; in a user's table a box may occur twice."""
        return (self._arrays or self.lists())[0]

    def boxes(self) -> tuple[Box, ...]:
        """The box of each node."""
        if self._nodes is not None:
            return tuple([node.box for node in self._nodes])
        table, which, _ = self.lists()
        return tuple([table[k] for k in which])

    def wire_types(self) -> list[ArrayType]:
        """The type of each wire."""
        types = list(self.dom)
        for b in self.boxes():
            types.extend(b.cod.arrays)
        return types

    def makers(self) -> tuple[int, ...]:
        """The index of the node that makes each wire; -1 for an input."""
        return self.cached(_makers)

    def first_wires(self) -> tuple[int, ...]:
        """The first wire that each node makes, or would make."""
        return self.cached(_first_wires)

    def wired(self) -> Iterator[tuple[range, Node]]:
        """Each node, behind the wires that it makes.

        >>> from catdiag.category.diagram import box, copy
        >>> from catdiag.category.types import ArrayType
        >>> f = copy(ArrayType()) >> box("f", ArrayType(), ArrayType()) @ box("g", ArrayType(), ArrayType())
        >>> [(made, node.box.name) for made, node in f.graph.wired()]
        [(range(1, 2), 'f'), (range(2, 3), 'g')]
        """
        for first, node in zip(self.first_wires(), self.nodes, strict=True):
            yield range(first, first + len(node.box.cod)), node

    def __len__(self) -> int:
        """The number of nodes."""
        if self._nodes is not None:
            return len(self._nodes)
        return len(self._lists[1]) if self._lists is not None else len(self._arrays[1]) if self._arrays else 0

    def __bool__(self) -> bool:
        """True, also without nodes."""
        return True

    def __eq__(self, other: object) -> bool:
        """Whether both have the same nodes in the same order, which is stricter than equality of diagrams."""
        if self is other:
            return True
        if not isinstance(other, Graph):
            return NotImplemented
        return (self.dom, self.outputs) == (other.dom, other.outputs) and self.nodes == other.nodes

    def __hash__(self) -> int:
        return hash((self.dom, self.nodes, self.outputs))

    def __repr__(self) -> str:
        return f"Graph(dom={self.dom!r}, nodes={self.nodes!r}, outputs={self.outputs!r})"

    def __reduce__(self) -> tuple[object, ...]:
        return Graph.of_columns, (self.dom, *self.lists(), self.outputs)


def _makers(graph: Graph) -> tuple[int, ...]:
    found = [-1] * len(graph.dom)
    for place, box in enumerate(graph.boxes()):
        found += [place] * len(box.cod)
    return tuple(found)


def _first_wires(graph: Graph) -> tuple[int, ...]:
    return tuple(accumulate((len(box.cod) for box in graph.boxes()), initial=len(graph.dom)))[:-1]
