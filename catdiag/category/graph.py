"""The flat form of a diagram: a dataflow graph of nodes in stored order, and the wires between them.

    dom wires 0 … n-1        node 0: box, inputs (wire, …)     its outputs are wires n, n+1, …
                             node 1: …                         outputs: (wire, …)

It is stored as nodes, or as columns: the distinct boxes, the number of the box of each node, and the wires that the
nodes read, one node after another. Each form is computed from the other at its first use; columns are lists or NumPy
arrays, on which many nodes are processed at once. So a diagram of a million boxes has no million objects until one of
its nodes is read.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from typing import TYPE_CHECKING, TypeAlias, TypeVar

from catdiag.category.ops import Box
from catdiag.category.types import ArrayType, Ty
from catdiag.util.errors import TypeMismatch, require

if TYPE_CHECKING:
    import numpy as np

    Ints: TypeAlias = "np.ndarray[tuple[int], np.dtype[np.int64]]"

T = TypeVar("T")
FEW, MANY = 300, 10_000
"""The number of nodes from which columns are processed by NumPy: if it is imported already, and if it is not."""


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
    >>> from catdiag.category.ops import Generic
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


# -- from arrays ----------------------------------------------------------------------------------


def _makers(graph: Graph) -> tuple[int, ...]:
    found = [-1] * len(graph.dom)
    for place, box in enumerate(graph.boxes()):
        found += [place] * len(box.cod)
    return tuple(found)


def _first_wires(graph: Graph) -> tuple[int, ...]:
    return tuple(accumulate((len(box.cod) for box in graph.boxes()), initial=len(graph.dom)))[:-1]


def of_arrays(dom: Ty, table: Sequence[Box], which: object, reads: object, outputs: object) -> tuple[Graph, Ty]:
    """A flat form from arrays or lists of integers, and its codomain, after a check of every wire by NumPy.

    The arrays are copied. Raises TypeMismatch, naming the first node that is wrong.
    """
    import numpy as np

    kinds, wires, leaving = _integers(which, "which"), _integers(reads, "reads"), _integers(outputs, "outputs")
    wrong = (kinds < 0) | (kinds >= len(table))
    if wrong.any():
        place = int(wrong.argmax())
        raise TypeMismatch(f"node {place} is box {kinds[place]}: expected the number of one of {len(table)}, from 0")
    numbers: dict[ArrayType, int] = {}
    # Types that many boxes share are checked once.
    known: dict[int, list[int]] = {}
    for ty in (dom, *(ty for b in table for ty in (b.dom, b.cod))):
        if id(ty) not in known:
            known[id(ty)] = [numbers.setdefault(t, len(numbers)) for t in ty.arrays]
    own, takes, gives = known[id(dom)], [known[id(b.dom)] for b in table], [known[id(b.cod)] for b in table]
    arity, ports = _each([len(t) for t in takes], kinds), _each([len(t) for t in gives], kinds)
    count = int(arity.sum()) if isinstance(arity, np.ndarray) else arity * len(kinds)
    if count != len(wires):
        raise TypeMismatch(f"reads has {len(wires)} wires: expected {count}, what the nodes read one after another")
    # The number of wires that exist before a node: those of the domain and of the earlier nodes.
    there = _before(ports, len(kinds)) + len(own)
    total = len(own) + (int(ports.sum()) if isinstance(ports, np.ndarray) else ports * len(kinds))
    limit = np.repeat(there, arity) if isinstance(arity, np.ndarray) or arity != 1 else there
    late = (wires < 0) | (wires >= limit)
    if late.any():
        place, wire = _reader(arity, int(late.argmax())), wires[late.argmax()]
        name = table[kinds[place]].name
        raise TypeMismatch(f"node {place}, {name}, reads wire {wire}: only {there[place]} are there by then")
    wrong = (leaving < 0) | (leaving >= total)
    if wrong.any():
        place = int(wrong.argmax())
        raise TypeMismatch(f"output {place} reads wire {leaving[place]}: there are {total}")
    types = list(numbers)
    if len(types) > 1:
        carried = np.concatenate([np.array(own, dtype=np.int64), gathered(gives, kinds)])
        wrong = carried[wires] != gathered(takes, kinds)
        if wrong.any():
            at = int(wrong.argmax())
            place = _reader(arity, at)
            b = table[kinds[place]]
            expected = types[gathered(takes, kinds)[at]]
            raise TypeMismatch(
                f"node {place}, {b.name}, reads wire {wires[at]}, which carries {types[carried[wires[at]]]}: "
                f"expected {expected}"
            )
        cod = Ty(*(types[k] for k in carried[leaving].tolist()))
    else:
        cod = Ty(*types * len(leaving)) if len(leaving) != len(own) else dom
    return Graph.of_columns(dom, table, kinds, wires, leaving.tolist()), cod


def _integers(values: object, name: str) -> Ints:
    """A column of integers, copied."""
    import numpy as np

    expected = "a list or an array, of one axis, of integers"
    try:
        found = np.array(values) if not isinstance(values, range) else np.arange(values.start, values.stop, values.step)
    except (ValueError, TypeError):
        found = np.array(None)
    require(found.ndim == 1 and (found.dtype.kind in "iu" or not found.size), name, values, expected)
    made: Ints = found.astype(np.int64, copy=False)
    made.flags.writeable = False
    return made


def _each(lengths: list[int], which: Ints) -> int | Ints:
    """The length of each node's list: one number if all are equal."""
    import numpy as np

    if len(set(lengths)) == 1:
        return lengths[0]
    found: Ints = np.array(lengths, dtype=np.int64)[which]
    return found


def _before(lengths: int | Ints, n: int) -> Ints:
    """The sum of the lengths before each node."""
    import numpy as np

    if isinstance(lengths, int):
        return np.arange(n, dtype=np.int64) * lengths
    found: Ints = np.cumsum(lengths) - lengths
    return found


def _reader(arity: int | Ints, at: int) -> int:
    """The node that a position in `reads` belongs to."""
    import numpy as np

    if isinstance(arity, int):
        return at // arity
    return int(np.searchsorted(np.cumsum(arity), at, side="right"))


def gathered(lists: Sequence[Sequence[int]], which: Ints) -> Ints:
    """The lists of numbers at the given places, concatenated.

    >>> import numpy as np
    >>> gathered([[1, 2], [], [3]], np.array([2, 0, 1, 0])).tolist()
    [3, 1, 2, 1, 2]
    """
    import numpy as np

    lengths = [len(found) for found in lists]
    if len(set(lengths)) == 1:
        made: Ints = np.array(lists, dtype=np.int64)[which].ravel()
        return made
    flat = np.array([k for found in lists for k in found], dtype=np.int64)
    each = np.array(lengths, dtype=np.int64)
    first = np.cumsum(each) - each
    mine = each[which]
    found_at = np.repeat(first[which] - (np.cumsum(mine) - mine), mine)
    picked: Ints = flat[found_at + np.arange(len(found_at))]
    return picked
