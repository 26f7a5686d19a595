"""Diagrams: morphisms of the free symmetric monoidal category in which objects can be copied and discarded.

>>> from catdiag.types import ArrayType, Axis, Ty
>>> X = Ty(ArrayType((Axis("x"),)))
>>> f, g, h = box("f", X, X), box("g", X, X), box("h", X, X)
>>> (f >> g) >> h == f >> (g >> h) and f >> id(X) == f == id(X) >> f
True
>>> (f @ g) >> (g @ h) == (f >> g) @ (g >> h)                    # interchange
True
>>> (f @ g) >> swap(X, X) == swap(X, X) >> (g @ f)               # naturality of the symmetry
True
>>> copy(X) >> swap(X, X) == copy(X)                             # the comonoid is commutative
True
>>> f >> copy(X) == copy(X) >> (f @ f)                           # and not natural: once is not twice
False

A diagram is stored as the expression it was built by, so that `>>` and `@` take constant time beside
the comparison of types, and is flattened once, iteratively, to a `Graph` when it is read:

    dom wires 0 … n-1        node 0: box, inputs (wire, …)     its outputs are wires n, n+1, …
                             node 1: …                         outputs: (wire, …)

A wire used twice is copied, one never used is discarded. The order of the nodes is stored: equality
does not see it, the live range of arrays does.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from catdiag.boxes import Box, Call, Generic
from catdiag.errors import AxisError, TypeMismatch
from catdiag.types import ArrayType, Axis, Ty

if TYPE_CHECKING:
    import numpy as np


@dataclass(frozen=True)
class Node:
    """A box at work: the wires it reads. Its outputs are the next free wire numbers."""

    box: Box
    inputs: tuple[int, ...]


@dataclass(frozen=True)
class Graph:
    """The flat form of a diagram: nodes in stored order, and the wires that leave it."""

    dom: Ty
    nodes: tuple[Node, ...]
    outputs: tuple[int, ...]

    def wire_types(self) -> list[ArrayType]:
        """The type of each wire."""
        types = list(self.dom)
        for node in self.nodes:
            types.extend(node.box.cod)
        return types


_BOX, _WIRING, _SEQ, _PAR, _GRAPH = range(5)


class Diagram:
    """A morphism `dom → cod`. Make one with `@cd.algorithm`, `cd.box`, `id`, `swap`, `copy`, `discard`, `>>` and `@`."""

    __slots__ = ("_canon", "_graph", "_kind", "_parts", "cod", "dom", "names", "title")

    def __init__(self, kind: int, parts: Any, dom: Ty, cod: Ty, names: tuple[str, ...] = (), title: str = "") -> None:
        self._kind, self._parts = kind, parts
        self.dom, self.cod = dom, cod
        self.names, self.title = names, title
        self._graph: Graph | None = parts if kind == _GRAPH else None
        self._canon: Any = None

    # -- composition -------------------------------------------------------------------------

    def __rshift__(self, other: Diagram) -> Diagram:
        """First this, then `other`. Raises TypeMismatch, naming both types and the wire."""
        if self.cod != other.dom:
            _mismatch(self.cod, other.dom)
        return Diagram(_SEQ, (self, other), self.dom, other.cod, self.names)

    def __matmul__(self, other: Diagram) -> Diagram:
        """This beside `other`."""
        return Diagram(_PAR, (self, other), self.dom @ other.dom, self.cod @ other.cod)

    # -- the flat form -----------------------------------------------------------------------

    @property
    def graph(self) -> Graph:
        """The flat form; made once, without recursion."""
        if self._graph is None:
            self._graph = _flatten(self)
        return self._graph

    @property
    def boxes(self) -> tuple[Box, ...]:
        """The boxes in stored order."""
        return tuple(node.box for node in self.graph.nodes)

    @property
    def input_names(self) -> tuple[str, ...]:
        """A name for each input: the user's, or `in0`, `in1`, …"""
        return self.names if len(self.names) == len(self.dom) else tuple(f"in{k}" for k in range(len(self.dom)))

    def __len__(self) -> int:
        return len(self.graph.nodes)

    # -- equality in the category -------------------------------------------------------------

    def __eq__(self, other: object) -> bool:
        """Equality up to interchange, symmetry and the comonoid laws. Equality of meaning is `cd.prove`."""
        if self is other:
            return True
        if not isinstance(other, Diagram):
            return NotImplemented
        from catdiag.isomorphism import isomorphic

        return self.dom == other.dom and self.cod == other.cod and isomorphic(self, other)

    def __hash__(self) -> int:
        from catdiag.isomorphism import fingerprint

        return hash((self.dom, self.cod, fingerprint(self)))

    def __repr__(self) -> str:
        if self._kind == _BOX and isinstance(self._parts.op, Generic):
            return f"box({self._parts.op.name!r}, {self.dom!r}, {self.cod!r})"
        return f"<diagram {self}>"

    def __str__(self) -> str:
        return f"{self.title + ': ' if self.title else ''}{self.dom} → {self.cod}"

    # -- readings, thin: each imports its room when called --------------------------------------

    def weave(self, axis: Axis | str, inputs: Iterable[int | str] | None = None) -> Diagram:
        """The diagram mapped over one more axis, in front of the others: on all outputs and the given inputs (all, if None).

        Raises AxisError if a wire has an axis of that name already, or no input of that name or position exists.
        """
        from catdiag.interpret import weave

        return weave(self, Axis(axis) if isinstance(axis, str) else axis, inputs)

    def __call__(self, *arrays: np.ndarray) -> Any:
        """Runs the diagram on NumPy arrays, in the order of its inputs; one output comes back bare, several as a tuple.

        Raises SizeError where shapes disagree with the types or with each other.
        """
        from catdiag.run.numpy import run

        return run(self, arrays)

    def stream(self, axis: str, **options: Any) -> Any:
        """The diagram with `axis` streamed through a loop, as a `Derivation` with its theorem. Raises NotStreamable."""
        from catdiag.rewrite.derivation import Derivation

        return Derivation.start(self).stream(axis, **options)

    def group(self, axes: str, **options: Any) -> Any:
        """The diagram run in groups of the named axes, as a `Derivation` with its theorem. Raises NotGroupable."""
        from catdiag.rewrite.derivation import Derivation

        return Derivation.start(self).group(axes, **options)

    def io(self, **options: Any) -> Any:
        """Transfers and memory of the diagram run whole, as an `IO`."""
        from catdiag.cost.io import io

        return io(self, **options)


def _mismatch(cod: Ty, dom: Ty) -> None:
    if len(cod) != len(dom):
        detail = f"{len(cod)} wires meet {len(dom)}"
    else:
        k = next(k for k, (a, b) in enumerate(zip(cod, dom, strict=True)) if a != b)
        detail = f"wire {k} carries {cod[k]} and is read as {dom[k]}"
        if cod[k].names == dom[k].names:
            detail += f" (axes {list(cod[k].axes)} against {list(dom[k].axes)})"
    raise TypeMismatch(f"cannot compose: the first gives {_short(cod)}, the second takes {_short(dom)}; {detail}")


def _short(ty: Ty) -> str:
    return str(ty) if len(ty) <= 8 else f"{ty[:3]} @ … ({len(ty)} wires)"


def _flatten(diagram: Diagram) -> Graph:
    nodes: list[Node] = []
    count = len(diagram.dom)
    # `todo` holds diagrams, ("feed", wires) that hands wires to the next diagram, and ("join", n).
    todo: list[Any] = [diagram]
    values: list[list[int]] = [list(range(count))]
    while todo:
        item = todo.pop()
        if isinstance(item, tuple):
            if item[0] == "feed":
                values.append(item[1])
            else:
                parts = values[-item[1] :]
                del values[-item[1] :]
                values.append([w for part in parts for w in part])
            continue
        wires = values.pop()
        kind = item._kind
        if kind == _BOX:
            nodes.append(Node(item._parts, tuple(wires)))
            values.append(list(range(count, count + len(item.cod))))
            count += len(item.cod)
        elif kind == _WIRING:
            values.append([wires[k] for k in item._parts])
        elif kind == _SEQ:
            todo.append(item._parts[1])
            todo.append(item._parts[0])
            values.append(wires)
        elif kind == _GRAPH:
            names = list(wires)
            for node in item._parts.nodes:
                nodes.append(Node(node.box, tuple(names[w] for w in node.inputs)))
                names.extend(range(count, count + len(node.box.cod)))
                count += len(node.box.cod)
            values.append([names[w] for w in item._parts.outputs])
        else:
            leaves = _beside(item)
            ends = [0]
            for leaf in leaves:
                ends.append(ends[-1] + len(leaf.dom))
            todo.append(("join", len(leaves)))
            for k in range(len(leaves) - 1, -1, -1):
                todo.append(leaves[k])
                todo.append(("feed", wires[ends[k] : ends[k + 1]]))
    return Graph(diagram.dom, tuple(nodes), tuple(values.pop()))


def _beside(diagram: Diagram) -> list[Diagram]:
    """The diagrams that nested `@` put side by side."""
    found: list[Diagram] = []
    stack = [diagram]
    while stack:
        item = stack.pop()
        if item._kind == _PAR:
            stack.append(item._parts[1])
            stack.append(item._parts[0])
        else:
            found.append(item)
    return found


# -- makers ---------------------------------------------------------------------------------------


def _ty(ty: Ty | ArrayType) -> Ty:
    return Ty(ty) if isinstance(ty, ArrayType) else ty


def of_box(b: Box) -> Diagram:
    """A box as a diagram."""
    return Diagram(_BOX, b, b.dom, b.cod)


def of_graph(graph: Graph, cod: Ty | None = None, names: tuple[str, ...] = (), title: str = "") -> Diagram:
    """A flat form as a diagram. The graph is trusted to be well formed: boxes fit their wires."""
    if cod is None:
        types = graph.wire_types()
        cod = Ty(*(types[w] for w in graph.outputs))
    return Diagram(_GRAPH, graph, graph.dom, cod, names, title)


def box(name: str, dom: Ty | ArrayType, cod: Ty | ArrayType) -> Diagram:
    """An uninterpreted generator."""
    return of_box(Box(Generic(name), _ty(dom), _ty(cod)))


def call(name: str, body: Diagram) -> Diagram:
    """A diagram as one named box that can be opened again."""
    return of_box(Box(Call(name, body), body.dom, body.cod))


def wiring(dom: Ty | ArrayType, sources: Sequence[int]) -> Diagram:
    """The structural diagram whose k-th output is input `sources[k]`: all identities, swaps, copies and discards are such."""
    dom = _ty(dom)
    for k in sources:
        if not 0 <= k < len(dom):
            raise TypeMismatch(f"wiring reads wire {k} of {len(dom)}")
    return Diagram(_WIRING, tuple(sources), dom, Ty(*(dom[k] for k in sources)))


def id(ty: Ty | ArrayType) -> Diagram:
    """The identity."""
    ty = _ty(ty)
    return Diagram(_WIRING, range(len(ty)), ty, ty)


def swap(left: Ty | ArrayType, right: Ty | ArrayType) -> Diagram:
    """The symmetry: `left @ right → right @ left`."""
    left, right = _ty(left), _ty(right)
    n, m = len(left), len(right)
    return wiring(left @ right, [*range(n, n + m), *range(n)])


def copy(ty: Ty | ArrayType, times: int = 2) -> Diagram:
    """`ty → ty @ … @ ty`, the comultiplication (`times` = 2) of the comonoid, or its iterate."""
    ty = _ty(ty)
    return wiring(ty, [*range(len(ty))] * times)


def discard(ty: Ty | ArrayType) -> Diagram:
    """`ty → 1`, the counit."""
    return wiring(_ty(ty), [])


def inline(diagram: Diagram, keep: Callable[[Box], bool] = lambda _: False) -> Diagram:
    """The diagram with named boxes opened, all the way down, but for those that `keep` accepts."""
    nodes: list[Node] = []
    count = len(diagram.dom)
    # One frame a graph being read: the graph, the next node's place, and names of its wires in the result.
    frames: list[tuple[Graph, int, list[int]]] = [(diagram.graph, 0, list(range(count)))]
    while True:
        graph, place, names = frames.pop()
        opened = False
        for k in range(place, len(graph.nodes)):
            node = graph.nodes[k]
            wires = [names[w] for w in node.inputs]
            if isinstance(node.box.op, Call) and not keep(node.box):
                frames.append((graph, k + 1, names))
                frames.append((node.box.op.body.graph, 0, wires))
                opened = True
                break
            nodes.append(Node(node.box, tuple(wires)))
            names.extend(range(count, count + len(node.box.cod)))
            count += len(node.box.cod)
        if opened:
            continue
        outputs = [names[w] for w in graph.outputs]
        if not frames:
            return of_graph(
                Graph(diagram.dom, tuple(nodes), tuple(outputs)), diagram.cod, diagram.names, diagram.title
            )
        frames[-1][2].extend(outputs)


def check_axis_free(diagram: Diagram, axis: Axis) -> None:
    """Raises AxisError if a wire of the diagram has an axis of that name."""
    for ty in diagram.graph.wire_types():
        if ty.axis(axis.name) is not None:
            raise AxisError(f"axis {axis.name!r} is on a wire {ty} of the diagram already: rename one of the two")
