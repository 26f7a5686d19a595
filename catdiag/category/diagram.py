"""Diagrams: morphisms of the free symmetric monoidal category in which objects can be copied and discarded.

>>> from catdiag.category.types import ArrayType, Axis, Ty
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
the comparison of types, and is flattened once, iteratively, to a `Graph` when it is read (see
`catdiag.category.graph`). A wire used twice is copied, one never used is discarded. The order of the nodes is stored:
equality does not see it, the live range of arrays does.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Protocol

from catdiag.category.equality import fingerprint, isomorphic
from catdiag.category.flatten import BOX, GRAPH, PAR, SEQ, WIRING, flatten
from catdiag.category.graph import Box, Generic, Morphism, NestingOp
from catdiag.category.graph import Graph as Graph
from catdiag.category.graph import Node as Node
from catdiag.category.graph_columns import of_arrays
from catdiag.category.types import ArrayType, Ty, mismatch, short
from catdiag.util.display import AsProgram
from catdiag.util.errors import TypeMismatch, require

# The size up to which the `repr` of a diagram is an expression that rebuilds it.
_REPR_BOXES, _REPR_WIRES, _REPR_NESTING = 500, 500, 20


class Diagram(AsProgram):
    """A morphism `dom → cod`. Make one with `box`, `id`, `swap`, `copy`, `discard`, `>>` and `@`, or
    `catdiag.frontend.builder`.

    `repr` is an expression that rebuilds the diagram under the names of `catdiag.category.types`,
    `catdiag.category.ops` and `catdiag.category.diagram`; past 500 boxes or wires, those in bodies included, it is a
    description in `<…>` instead.
    """

    __slots__ = ("_canon", "_cod", "_dom", "_graph", "_kind", "_left", "_right", "names", "title")

    def __init__(
        self,
        kind: int,
        left: Any,
        right: Any,
        dom: Ty | None,
        cod: Ty | None,
        names: tuple[str, ...] = (),
        title: str = "",
    ) -> None:
        self._kind, self._left, self._right = kind, left, right
        self._dom, self._cod = dom, cod
        self.names, self.title = names, title
        self._graph: Graph | None = left if kind == GRAPH else None
        self._canon: Any = None

    @staticmethod
    def of_arrays(
        dom: Ty | ArrayType,
        boxes: Sequence[Diagram | Box],
        which: Sequence[int] | Any,
        reads: Sequence[int] | Any,
        outputs: Sequence[int] | Any,
    ) -> Diagram:
        """A diagram from columns of integers: node k is `boxes[which[k]]`, and reads the next wires of `reads`, as many
        as it has inputs.

        Wires are numbered as in `catdiag.category.graph`: those of `dom` from 0, then the outputs of node 0, of node 1,
        and so on. The columns are lists or NumPy arrays, and are copied. All wires are checked at once. Raises
        TypeMismatch, naming the first node that reads a wire that does not exist yet, or one of another type than its
        box takes.

        >>> from catdiag.category.types import Axis
        >>> X = Ty(ArrayType((Axis("x"),)))
        >>> f, add = box("f", X, X), box("add", X @ X, X)
        >>> Diagram.of_arrays(X, [f, add], [0, 1], [0, 0, 1], [2]) == copy(X) >> id(X) @ f >> add
        True
        """
        table = [one_box(b, f"boxes[{k}]") for k, b in enumerate(_listed(boxes))]
        graph, cod = of_arrays(_ty(dom), table, which, reads, outputs)
        return Diagram(GRAPH, graph, None, graph.dom, cod)

    @property
    def dom(self) -> Ty:
        """The domain."""
        known = self._dom
        if known is None:
            known, self._cod = _boundaries(self)
            self._dom = known
        return known

    @property
    def cod(self) -> Ty:
        """The codomain."""
        known = self._cod
        if known is None:
            self._dom, known = _boundaries(self)
            self._cod = known
        return known

    # -- composition -------------------------------------------------------------------------

    def __rshift__(self, other: Diagram) -> Diagram:
        """Sequential composition: first this, then `other`. Raises TypeMismatch, naming both types and the wire."""
        if not isinstance(other, Diagram):
            return NotImplemented
        given, taken = self.cod, other.dom
        if given is not taken:
            if given != taken:
                raise mismatch(given, taken)
            # Equal types share one object, so that the next comparison is by identity.
            other._dom = given
            if other._cod is taken:
                other._cod = given
        return Diagram(SEQ, self, other, self.dom, other.cod, self.names)

    def __matmul__(self, other: Diagram) -> Diagram:
        """Parallel composition (tensor): this beside `other`."""
        if not isinstance(other, Diagram):
            return NotImplemented
        return Diagram(PAR, self, other, None, None)  # its objects are concatenated lazily

    # -- the flat form -----------------------------------------------------------------------

    @property
    def graph(self) -> Graph:
        """The flat form; computed once, without recursion."""
        if self._graph is None:
            self._graph = flatten(self)
        return self._graph

    @property
    def boxes(self) -> tuple[Box, ...]:
        """The boxes in stored order."""
        return self.graph.boxes()

    @property
    def input_names(self) -> tuple[str, ...]:
        """A name for each input: the user's, or `in0`, `in1`, …"""
        return self.names if len(self.names) == len(self.dom) else tuple(f"in{k}" for k in range(len(self.dom)))

    def __len__(self) -> int:
        """The number of boxes."""
        return len(self.graph)

    def __bool__(self) -> bool:
        """True, also for a diagram without boxes."""
        return True

    # -- equality in the category -------------------------------------------------------------

    def __eq__(self, other: object) -> bool:
        """Equality up to interchange, symmetry and the comonoid laws. Equality of meaning is `cd.prove`.

        Linear time if every box reaches an output. Raises EqualityUndecided where boxes that reach none are too hard to
        match.
        """
        if self is other:
            return True
        if not isinstance(other, Diagram):
            return NotImplemented
        return isomorphic(self, other)

    def __hash__(self) -> int:
        return fingerprint(self)

    def __reduce__(self) -> tuple[Callable[..., Diagram], tuple[Graph, Ty, tuple[str, ...], str]]:
        return of_graph, (self.graph, self.cod, self.names, self.title)

    def __repr__(self) -> str:
        if is_large(self):
            return f"<diagram {self}>"
        named = f", names={self.names!r}" if self.names else ""
        named += f", title={self.title!r}" if self.title else ""
        if self._kind == BOX and isinstance(self._left.op, Generic) and not named:
            return f"box({self._left.op.name!r}, {self.dom!r}, {self.cod!r})"
        if not self.graph.nodes and not named:
            return f"wiring({self.dom!r}, {list(self.graph.outputs)!r})"
        return f"of_graph({self.graph!r}{named})"

    def __str__(self) -> str:
        return f"{self.title + ': ' if self.title else ''}{short(self.dom)} → {short(self.cod)}"


def _boundaries(diagram: Diagram) -> tuple[Ty, Ty]:
    """Domain and codomain of a parallel composition from those of its parts; shared objects where they are equal."""
    left, right = diagram._left, diagram._right
    if left._dom is None or right._dom is None:
        return _joined(diagram)
    # Constant time, so that a tensor that grows step by step can be asked at every step.
    dom = left._dom @ right._dom
    return dom, dom if left._dom is left._cod and right._dom is right._cod else left._cod @ right._cod


def _joined(diagram: Diagram) -> tuple[Ty, Ty]:
    """Domain and codomain of nested parallel compositions, without recursion."""
    doms: list[ArrayType] = []
    cods: list[ArrayType] = []
    alike = True
    stack = [diagram]
    while stack:
        item = stack.pop()
        dom, cod = item._dom, item._cod
        if dom is None or cod is None:
            stack.append(item._right)
            stack.append(item._left)
        else:
            doms += dom.arrays
            if alike and dom is not cod:
                alike, cods = False, doms[: len(doms) - len(dom)]
            if not alike:
                cods += cod.arrays
    dom = Ty(*doms)
    return dom, dom if alike else Ty(*cods)


def is_large(diagram: Diagram) -> bool:
    """Whether a diagram has too many boxes and wires, bodies included, for an expression that one reads."""
    boxes, wires, nesting = _size_and_depth(diagram)
    return boxes > _REPR_BOXES or wires > _REPR_WIRES or nesting > _REPR_NESTING


def _size_and_depth(diagram: Diagram) -> tuple[int, int, int]:
    """The numbers of boxes and wires and the depth of nesting, bodies included; counting stops at the
    limits of `repr`.
    """
    boxes, wires, nesting = 0, 0, 0
    stack: list[tuple[Morphism, int]] = [(diagram, 0)]
    while stack and boxes <= _REPR_BOXES and nesting <= _REPR_NESTING:
        item, depth = stack.pop()
        boxes += len(item.graph)
        wires += len(item.dom) + len(item.cod)
        nesting = max(nesting, depth)
        if boxes <= _REPR_BOXES:
            for b in item.graph.boxes():
                wires += len(b.dom) + len(b.cod)
                if isinstance(b.op, NestingOp):
                    stack += [(body, depth + 1) for body in b.op.bodies()]
    return boxes, wires, nesting


class HasDiagram(Protocol):
    """An object with a diagram: a derivation, a user's program, a plan."""

    @property
    def diagram(self) -> Diagram: ...


_EXPECTED = (
    "a program or a diagram, as @cd.algorithm makes one, cd.from_torch or cd.from_jax (cd.testing.assert_equivalent "
    "compares two PyTorch modules)"
)


def diagram_of(subject: Diagram | HasDiagram, what: str = "the diagram") -> Diagram:
    """The diagram of `subject`: itself, or its attribute `.diagram`. Raises TypeMismatch for anything else, calling it
    `what`.

    >>> from catdiag.category.types import Axis
    >>> X = ArrayType((Axis("x"),))
    >>> diagram_of(id(X)) == id(X)
    True
    """
    found = subject if isinstance(subject, type) else getattr(subject, "diagram", subject)
    require(isinstance(found, Diagram), what, subject, _EXPECTED)
    return found  # type: ignore[return-value]


# -- makers ---------------------------------------------------------------------------------------


def _ty(ty: Ty | ArrayType) -> Ty:
    require(isinstance(ty, (Ty, ArrayType)), "the type", ty, "a Ty or an ArrayType")
    return Ty(ty) if isinstance(ty, ArrayType) else ty


def _listed(boxes: object) -> Sequence[Any]:
    require(isinstance(boxes, (list, tuple)), "boxes", boxes, "a list of boxes, such as [cd.box('f', X, X)]")
    return boxes  # type: ignore[return-value]


def one_box(given: object, what: str) -> Box:
    """The box that was given, or the only box of the given diagram. Raises TypeMismatch for anything else."""
    known = given if isinstance(given, Box) else getattr(given, "diagram", given)
    found = known._left if isinstance(known, Diagram) and known._kind == BOX else known
    require(isinstance(found, Box), what, given, "a box, such as cd.box('f', X, X)")
    return found  # type: ignore[return-value]


def of_box(b: Box) -> Diagram:
    """A diagram of one box."""
    return Diagram(BOX, b, None, b.dom, b.cod)


def of_graph(graph: Graph, cod: Ty | None = None, names: tuple[str, ...] = (), title: str = "") -> Diagram:
    """A diagram from its flat form, with `names` for its inputs and a `title`; `cod` is found where it is not given.

    The graph is trusted to be well formed: boxes fit their wires (`check` looks).

    >>> from catdiag.category.types import Axis
    >>> X = ArrayType((Axis("x"),))
    >>> f = box("f", X, X) >> copy(X)
    >>> of_graph(f.graph) == f
    True
    """
    if cod is None:
        types = graph.wire_types()
        cod = Ty(*(types[w] for w in graph.outputs))
    return Diagram(GRAPH, graph, None, graph.dom, cod, names, title)


def with_boxes(diagram: Diagram, new: Mapping[int, Box]) -> Diagram:
    """The diagram with other boxes at some nodes, given by their numbers; each fits the wires of the one it replaces.

    >>> from catdiag.category.types import Axis
    >>> X = ArrayType((Axis("x"),))
    >>> f, g = box("f", X, X), box("g", X, X)
    >>> with_boxes(f >> f, {1: g.boxes[0]}) == f >> g
    True
    """
    graph = diagram.graph
    nodes = tuple(Node(new[k], node.inputs) if k in new else node for k, node in enumerate(graph.nodes))
    return of_graph(Graph(graph.dom, nodes, graph.outputs), diagram.cod, diagram.names, diagram.title)


def box(name: str, dom: Ty | ArrayType, cod: Ty | ArrayType) -> Diagram:
    """The uninterpreted generator `name`: `dom → cod`.

    >>> from catdiag.category.types import Axis
    >>> X, Y = ArrayType((Axis("x"),)), ArrayType((Axis("y"),))
    >>> print(box("f", X, Y))
    [x] → [y]
    """
    return of_box(Box(Generic(name), _ty(dom), _ty(cod)))


def interface(diagram: Diagram) -> str:
    """The type of a diagram, with the names of its inputs.

    >>> from catdiag.category.types import Axis
    >>> X = ArrayType((Axis("x"),))
    >>> interface(of_graph(Graph(Ty(X, ArrayType((), "bool")), (), (0,)), names=("A", "b")))
    'A[x], b: bool[] → [x]'
    """
    named = zip(diagram.input_names, diagram.dom, strict=True)
    ins = ", ".join(f"{name}{'' if ty.element == 'real' else ': '}{ty}" for name, ty in named)
    return f"{ins or '1'} → {', '.join(map(str, diagram.cod)) or '1'}"


def wiring(dom: Ty | ArrayType, sources: Sequence[int]) -> Diagram:
    """The diagram whose k-th output is input `sources[k]`, such as identities, swaps, copies and discards. Raises
    TypeMismatch for a source that is no input."""
    dom = _ty(dom)
    for k in sources:
        if not 0 <= k < len(dom):
            raise TypeMismatch(f"wiring reads wire {k} of {len(dom)}")
    return Diagram(WIRING, tuple(sources), None, dom, Ty(*(dom[k] for k in sources)))


def id(ty: Ty | ArrayType) -> Diagram:
    """The identity on the object `ty`.

    >>> from catdiag.category.types import Axis
    >>> X = ArrayType((Axis("x"),))
    >>> id(X) >> box("f", X, X) == box("f", X, X)
    True
    """
    ty = _ty(ty)
    return Diagram(WIRING, range(len(ty)), None, ty, ty)


def swap(left: Ty | ArrayType, right: Ty | ArrayType) -> Diagram:
    """The symmetry: `left @ right → right @ left`.

    >>> from catdiag.category.types import Axis
    >>> X, Y = ArrayType((Axis("x"),)), ArrayType((Axis("y"),))
    >>> print(swap(X, Y))
    [x] @ [y] → [y] @ [x]
    """
    left, right = _ty(left), _ty(right)
    n, m = len(left), len(right)
    return wiring(left @ right, [*range(n, n + m), *range(n)])


_MOST_COPIES = 1_000_000


def copy(ty: Ty | ArrayType, times: int = 2) -> Diagram:
    """`ty → ty @ … @ ty`, the comultiplication (`times` = 2) of the comonoid, or its iterate.

    Raises TypeMismatch for `times` that is no number of copies.

    >>> from catdiag.category.types import Axis
    >>> X = ArrayType((Axis("x"),))
    >>> copy(X, 3) == copy(X) >> copy(X) @ id(X)
    True
    """
    ty = _ty(ty)
    whole = hasattr(times, "__index__") and not isinstance(times, bool) and not hasattr(times, "shape")
    require(whole and 0 <= times <= _MOST_COPIES, "times", times, f"how many copies, 0 to {_MOST_COPIES}")
    return wiring(ty, [*range(len(ty))] * times)


def discard(ty: Ty | ArrayType) -> Diagram:
    """`ty → 1`, the counit.

    >>> from catdiag.category.types import Axis
    >>> X = ArrayType((Axis("x"),))
    >>> copy(X) >> id(X) @ discard(X) == id(X)
    True
    """
    return wiring(_ty(ty), [])


def needed(graph: Graph, wires: Iterable[int], without: int = -1) -> set[int]:
    """The places of the boxes that wires are computed by, with all that these need; not of the box `without`, and what
    only that needs."""
    maker, found, stack = graph.makers(), set[int](), list(wires)
    while stack:
        place = maker[stack.pop()]
        if place >= 0 and place != without and place not in found:
            found.add(place)
            stack.extend(graph.nodes[place].inputs)
    return found


def reachable(graph: Graph) -> Graph:
    """The graph without boxes that reach no output; the others stay in order.

    >>> from catdiag.category.types import Axis
    >>> X = Ty(ArrayType((Axis("x"),)))
    >>> f, g = (Box(Generic(name), X, X) for name in "fg")
    >>> graph = reachable(Graph(X, (Node(f, (0,)), Node(g, (0,))), (2,)))
    >>> [node.box.name for node in graph.nodes], graph.outputs
    (['g'], (1,))
    """
    inputs, first, maker = len(graph.dom), graph.first_wires(), graph.makers()
    alive = needed(graph, graph.outputs)
    names = list(range(inputs)) + [0] * (len(maker) - inputs)
    nodes: list[Node] = []
    count = inputs
    for place, node in enumerate(graph.nodes):
        if place in alive:
            nodes.append(Node(node.box, tuple([names[w] for w in node.inputs])))
            for wire in range(first[place], first[place] + len(node.box.cod)):
                names[wire] = count
                count += 1
    return Graph(graph.dom, tuple(nodes), tuple([names[w] for w in graph.outputs]))
