"""Products distributed over sums: Σ_d (a − b)² = Σ_d a² + Σ_d b² − 2·Σ_d a·b, squared distances as a matrix product.

Let the summand be made of arrays by adding, subtracting, multiplying, dividing and nested sums. Then it is a polynomial
in these arrays. If they have different axes, the summand is larger than each of them: q·x·d entries for Σ_d (a[q d] −
b[x d])². After distribution (distributivity; A3 and A7 of the kernel) each term is a product whose factors can be
assigned to two sides (`catdiag.rewrite.distribute_products`): a matrix product, or a sum over one array alone.

Which boxes are expanded: scalar functions whose result is larger than each operand, and the scalar functions that
follow them up to the sum. Every other array is a factor of its own, so that a difference `a − c` of arrays on the same
axes stays a difference. If nothing is larger than its operands, and the user names the axis, then sums are expanded of
which a summand does not depend on the axis: Σ_d (a[q d] − m[q])² = Σ_d a² − 2·m·Σ_d a + n·m², n the size of d.

Factors of such a sum, and summands that its terms share under a maximum, are deferred
(`catdiag.rewrite.deferred_scaling`).

The equation is one of real numbers. In floating point the terms may be far larger than their sum: for two points at a
distance δ with coordinates of size r, the squared distance has an error of about ε·r² instead of ε·δ². After rounding
it can be below 0. A root is therefore taken of its maximum with 0, which is the same wherever the program is defined.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from catdiag.category.diagram import Diagram, Graph, of_graph, reachable
from catdiag.category.op_facts import monoid_of, new_names, reduced_axes, scalar_function, transposes
from catdiag.category.ops import REDUCTIONS, Box, Einsum, FoldOp, GroupOp, Map, Rename
from catdiag.category.substitution import inline
from catdiag.frontend.signature import axis_names
from catdiag.rewrite.deferred_scaling import DeferredScaling
from catdiag.rewrite.derivation import Derivation, NotProved, Step, titled
from catdiag.rewrite.distribute_products import ProductFactoring
from catdiag.rewrite.hash_consed_graph import HashConsedGraph
from catdiag.rewrite.steps import Distribute
from catdiag.rewrite.stream.separable_form import ADDITIVE, Form, NotSeparable, added
from catdiag.schedule.stored_types import element_types
from catdiag.util.errors import AxisError, NotDistributable

_OPENED = ("add", "sub", "neg", "mul", "div")
_SHORT = ("bf16", "fp8")
"""Types of at most 8 bits of significand."""

CANCELS = (
    "in floating point the distributed terms cancel: where their sum is far smaller than the terms, it has few digits"
)


@dataclass(frozen=True)
class Expanded:
    """A diagram with products distributed over its sums. `roots` are the square roots that are now taken of a maximum
    with 0; `cancels` says whether there are terms that cancel; `factors` are the inputs that the new products
    multiply, None where they multiply arrays that are computed.
    """

    diagram: Diagram
    roots: tuple[Box, ...]
    cancels: bool
    factors: frozenset[str] | None


def distribute(derivation: Derivation, axes: str | Iterable[str] | None = None) -> Derivation:
    """With products distributed over sums along the named axes: `Σ (a - b)²` becomes `Σ a² + Σ b² - 2·Σ a·b`, whose
    terms are sums over one array and matrix products. With no axes, every sum for which that is smaller.

    The summand is made of arrays by adding, subtracting, multiplying, dividing and nested sums. One of these must make
    a larger array than each of its operands. What comes before is left as it is: a difference `a - c` of arrays on the
    same axes is not expanded. Where an axis is named and there is no such step, factors that do not depend on the axis
    are moved out of the sum: `Σ (a - m)²` becomes `Σ a² - 2·m·Σ a + n·m²`.

    The equation is proved over the real numbers. In floating point the terms cancel: with points of size r at a
    distance δ, a squared distance has an error of about ε·r², where the sum as written has ε·δ². It can also be below
    0. Use it where r is not much larger than the distances that matter, or after moving both sides near the origin: `Σ
    ((a - c) - (b - c))²` keeps `a - c`.

    Call it before `stream` and `group`. Raises NotDistributable, naming axis and box, where nothing is distributed or
    the equation is not proved; AxisError for an unknown axis.

    >>> from catdiag.frontend import builder as build
    >>> squares = build.algorithm("q d, x d -> q x")(lambda a, b: build.sum((a - b) ** 2, "d"))
    >>> near = distribute(Derivation.start(squares), "d")
    >>> [box.name for box in near.diagram.boxes if box.name in ("sum[d]", "einsum")], near.theorem.conditional
    (['sum[d]', 'sum[d]', 'einsum'], False)
    """
    if axes is not None and not isinstance(axes, Iterable):
        raise AxisError(f"the axes to distribute products along are {axes!r}: expected their names, such as 'd'")
    names = axes if axes is None else axis_names(axes) if isinstance(axes, str) else list(axes)
    found = expanded(derivation.diagram, names)
    said = "" if names is None else repr(" ".join(names))
    made = titled(found.diagram, f"{derivation.diagram.title or 'it'}.distribute({said})")
    try:
        theorem = derivation.prove(made)
    except NotProved as error:
        what = f"distributing products over sums along {said or 'all axes'} was not proved"
        if found.roots:
            raise NotDistributable(
                f"{what} with max(…, 0) under sqrt, where a sum that is rounded can come out below 0: "
                "write cd.sqrt(cd.maximum(…, 0))",
                found.roots[0].line,
            ) from error
        raise NotDistributable(f"{what}: {error.reason}") from error
    step = Step(Distribute(tuple(names or ())), made, theorem, note=CANCELS if found.cancels else "")
    return replace(derivation, diagram=made, ungrouped=made, steps=(*derivation.steps, step), unchanged=None)


def expanded(diagram: Diagram, axes: Sequence[str] | None = None) -> Expanded:
    """The diagram with products distributed over its sums along some axes (None: all axes); nothing is proved here.

    >>> import catdiag as cd
    >>> squares = cd.algorithm("q d, x d -> q x")(lambda a, b: cd.sum((a - b) ** 2, "d"))
    >>> [box.name for box in expanded(squares, ["d"]).diagram.boxes]
    ['mul', 'sum[d]', 'cast:fp32', 'mul', 'sum[d]', 'cast:fp32', 'einsum', 'add', '2', 'mul', 'sub']

    Raises AxisError for an axis that the diagram does not have; NotDistributable, naming box and axis, where nothing is
    distributed, or where a sum has too many terms.
    """
    flat = inline(diagram)
    said = "any axis" if axes is None else "axis " + " ".join(map(repr, axes))
    if any(isinstance(box.op, (FoldOp, GroupOp)) for box in flat.boxes):
        raise NotDistributable(
            f"cannot distribute products over sums along {said}: the diagram runs in loops or groups already"
        )
    known = dict.fromkeys(a.name for ty in flat.graph.wire_types() for a in ty.axes)
    for axis in axes or ():
        if axis not in known:
            raise AxisError(
                f"there is no axis {axis!r} to distribute products along: the diagram has {', '.join(known)}"
            )
    search = _Expansion(flat, axes)
    made = search.diagram()
    if not search.done:
        box, why = search.refusals[0] if search.refusals else (None, "nothing sums over it")
        where = "" if box is None else f"{box.name} of {' and '.join(map(str, box.dom))}: "
        raise NotDistributable(
            f"cannot distribute products over sums along {said}: {where}{why}", None if box is None else box.line
        )
    return Expanded(made, tuple(search.floors), bool(search.rounded), search.multiplied_inputs())


def within_rounding(diagram: Diagram, dtype: str | Mapping[str, str]) -> Expanded | None:
    """The diagram with products distributed over all sums for which that is smaller, where terms cancel and no more
    digits are lost than the inputs have lost already; None elsewhere. Nothing is proved here.

    Matrix units multiply inputs of 8 bits of significand exactly, and add in fp32: for points of d coordinates and of
    size r, a squared distance has an error of about √d·2⁻²⁴·r², at most d·2⁻²⁴·r² (Higham 2002, section 3.1; derived
    here for squares). Rounding the points to 8 bits to begin with changed it by up to 2⁻¹⁶·r², even where they are
    equal. So factors must be inputs as they are given, in bf16 or fp8: an array that is computed would be rounded anew
    for the products, and of fp32 and fp16 more digits would be lost than their rounding lost.

    >>> from catdiag.frontend import builder as build
    >>> squares = build.algorithm("q d, x d -> q x")(lambda a, b: build.sum((a - b) ** 2, "d"))
    >>> within_rounding(squares, "bf16") is None, within_rounding(squares, "fp32") is None
    (False, True)
    """
    try:
        found = expanded(diagram)
    except NotDistributable:
        return None
    if not found.cancels:  # products of sums of products: those of another order (`contraction_order`)
        return None
    types = element_types(diagram, dtype)
    if found.factors is None or any(types[name] not in _SHORT for name in found.factors):
        return None
    return found


class _Expansion(DeferredScaling):
    """Rebuilds a flat diagram box by box with products distributed over sums, inner sums first."""

    def __init__(self, flat: Diagram, axes: Sequence[str] | None) -> None:
        super().__init__(HashConsedGraph(flat.dom))
        self.flat, self.axes = flat, axes
        self.done = 0
        self.rounded: set[int] = set()
        self.multiplied: set[int] = set()
        self.floors: list[Box] = []
        self.refusals: list[tuple[Box, str]] = []
        self._grown: dict[int, frozenset[str]] = {}

    def diagram(self) -> Diagram:
        """The diagram that is built."""
        flat, terms = self.flat, self.graph
        image = list(range(len(flat.dom)))
        for node in flat.graph.nodes:
            inputs = [image[w] for w in node.inputs]
            found = self._sum(node.box, inputs)
            first = self._unchanged(node.box, inputs) if found is None else found
            image.extend(range(first, first + len(node.box.cod)))
        outputs = [self.output(image[w], ty) for w, ty in zip(flat.graph.outputs, flat.cod, strict=True)]
        made = reachable(Graph(flat.dom, tuple(terms.nodes), tuple(outputs)))
        return of_graph(made, flat.cod, flat.names, flat.title)

    def multiplied_inputs(self) -> frozenset[str] | None:
        """The inputs that the new products multiply; None where one multiplies an array that is computed."""
        found: set[str] = set()
        for w in self.multiplied:
            while (node := self.graph.node(w)) is not None:
                if not isinstance(node.box.op, Rename):
                    return None
                (w,) = node.inputs
            found.add(self.flat.input_names[w])
        return frozenset(found)

    # -- which sums, and which boxes of their summands are expanded ----------------------------------------

    def _requested_axes(self, box: Box) -> frozenset[str]:
        """The axes that a box sums over, if the user asks for one of them; else none."""
        gone = _summed(box)
        return gone if self.axes is None or gone & set(self.axes) else frozenset()

    def _unchanged(self, box: Box, inputs: list[int]) -> int:
        """A box as it is; but a root of a value that is now rounded differently is taken of its maximum with 0."""
        terms, op = self.graph, box.op
        rounded = any(w in self.rounded for w in inputs)
        if rounded and op == Map("sqrt") and terms.function_of(inputs[0]) != "max":
            self.floors.append(box)
            inputs = [terms.cast(terms.map("max", inputs[0], terms.const(0), line=box.line), box.dom[0])]
        carried = self.carry(box, inputs)
        first = terms.add(box, inputs) if carried is None else carried
        scalar = scalar_function(op) in (*_OPENED, "where", "min")
        if rounded and (scalar or isinstance(op, Rename) or monoid_of(op) in ("max", "min")):
            self.rounded.add(first)
        return first

    def _sum(self, box: Box, inputs: list[int]) -> int | None:
        """The sum that a box computes, expanded; None where it is left as it is."""
        if not self._requested_axes(box):
            return None
        self.here = box
        try:
            form = self._multiplied(box, inputs)
        except NotSeparable as refused:
            self.refusals.append((refused.box, refused.reason))
            return None
        self.done += 1
        begin = len(self.graph.nodes)
        kept = {n for ty in self.flat.cod for n in ty.names}
        products = ProductFactoring(self.graph, kept, box.cod[0].names, box.line)
        made = products.emitted(form)
        wire = self.put(made, box.cod[0], box.line)
        self.multiplied.update(
            w for node in self.graph.nodes[begin:] if isinstance(node.box.op, Einsum) for w in node.inputs
        )
        if len(made) > 1:
            self.rounded.add(wire)
        else:
            del self.sums[wire]
        return wire

    def _multiplied(self, box: Box, inputs: list[int]) -> Form:
        """A sum as a sum of products of factors. Raises NotSeparable where nothing is saved."""
        if box.cod[0].element != "real":
            raise NotSeparable(box, f"only sums of real numbers are distributed, and these are {box.cod[0]}")
        names = self.graph.names
        opened = self._opened(box, inputs)
        wide = [set(names(w)) for w in inputs if w in opened]
        if opened:
            # Factors are looked at first: to multiply sums out takes long.
            form: Form = ()
            large = self._as_large(self._atoms_above(inputs, opened), wide)
            if large is None:
                form = self._form(box, inputs, opened)
                large = self._as_large((w for term in form for w, _ in term.monomial), wide)
            if large is None:
                return form
            raise NotSeparable(
                box, f"one of its factors, [{' '.join(names(large))}], is as large as the summand: nothing is saved"
            )
        opened = self._opened(box, inputs, lacking=True) if self.axes is not None else set()
        if opened:
            return self._form(box, inputs, opened)
        raise self._covered(inputs, _summed(box)) or NotSeparable(
            box, "no operand of its sums and products is smaller than the summand: nothing would be saved"
        )

    def _as_large(self, factors: Iterable[int], wide: Sequence[set[str]]) -> int | None:
        """The first factor that has all axes of one of some arrays."""
        return next((w for w in factors if any(axes <= set(self.graph.names(w)) for axes in wide)), None)

    def _atoms_above(self, inputs: list[int], opened: set[int]) -> Iterator[int]:
        """The wires above a sum of which its products are made, but for those that are renamed first."""
        seen, todo = set[int](), list(reversed(inputs))
        while todo:
            w = todo.pop()
            node = self.graph.node(w)
            if w not in opened or node is None:
                yield w
            elif w not in seen and not isinstance(node.box.op, Rename):
                seen.add(w)
                todo.extend(reversed(node.inputs))

    def _opened(self, root: Box, inputs: list[int], lacking: bool = False) -> set[int]:
        """The wires above a sum that are expanded. With `lacking`: those to which an operand without a summed axis is
        added.
        """
        bound: dict[int, frozenset[str]] = {}
        wide = [set(self.graph.names(w)) for w in inputs]
        todo = [(w, _summed(root)) for w in inputs]
        while todo:
            w, axes = todo.pop()
            node = self.graph.node(w)
            if node is None or not axes & set(self.graph.names(w)) or axes <= bound.get(w, frozenset()):
                continue
            if not self._opens(node.box, wide):
                continue
            bound[w] = axes | bound.get(w, frozenset())
            back = {new: old for old, new in new_names(node.box.op).items()}
            below = frozenset(back.get(n, n) for n in bound[w]) | _summed(node.box)
            todo.extend((i, below) for i in node.inputs)
        opened: set[int] = set()
        for w in sorted(bound):
            node = self.graph.node(w)
            assert node is not None
            inside = [i in opened for i in node.inputs]
            divides = node.box.op == Map("div") and inside[1]
            if not divides and (any(inside) or _summed(node.box) or _grows(node.box, bound[w] if lacking else None)):
                opened.add(w)
        # There is nothing to distribute over if there are nested sums only.
        makers = [self.graph.node(w) for w in opened]
        return opened if any(n is not None and not _summed(n.box) for n in makers) else set()

    def _opens(self, box: Box, wide: Sequence[set[str]]) -> bool:
        """Whether a box may be expanded; a nested sum only where its result is as large as the summand."""
        op = box.op
        if box.cod[0].element != "real":
            return False
        if _summed(box):
            return any(axes <= set(box.cod[0].names) for axes in wide)
        return isinstance(op, Rename) or scalar_function(op) in _OPENED

    def _covered(self, inputs: list[int], axes: frozenset[str]) -> NotSeparable | None:
        """The refusal for the first box above a sum that is no polynomial and hides an expandable array; None if there
        is none.
        """
        for w in reversed(self.graph.cone(inputs)):
            node = self.graph.node(w)
            if node is None or not axes & set(self.graph.names(w)) or self._opens(node.box, []):
                continue
            if any(axes & self._grown_axes(v) for v in node.inputs):
                return NotSeparable(node.box, "it is no sum, difference, product or quotient of its inputs")
        return None

    def _grown_axes(self, wire: int) -> frozenset[str]:
        """The axes of all arrays above a wire, and its own, that are larger than each operand of the box that makes
        them."""
        known, todo = self._grown, [wire]
        while todo:
            w = todo[-1]
            node = self.graph.node(w)
            missing = [] if node is None or w in known else [v for v in node.inputs if v not in known]
            if missing:
                todo.extend(missing)
                continue
            todo.pop()
            if w not in known:
                own = node.box.cod[0].names if node is not None and _grows(node.box, None) else ()
                known[w] = frozenset(own).union(*(known[v] for v in (() if node is None else node.inputs)))
        return known[wire]

    # -- forms --------------------------------------------------------------------------------------------------

    def _form(self, root: Box, inputs: list[int], opened: set[int]) -> Form:
        """A sum as a sum of products of the wires that are not expanded. Raises NotSeparable for too many terms."""
        forms: dict[int, Form] = {}
        todo = list(inputs)
        while todo:
            w = todo[-1]
            node = self.graph.node(w)
            if w in forms:
                todo.pop()
            elif w not in opened or node is None:
                forms[w] = self.atom(w)
            else:
                missing = [i for i in node.inputs if i not in forms]
                todo.extend(missing)
                if not missing:
                    found = self._rule(node.box, [forms[i] for i in node.inputs])
                    forms[w] = self.atom(w) if found is None else found
        found = self._rule(root, [forms[i] for i in inputs])
        assert found is not None
        return found

    def _rule(self, box: Box, forms: list[Form]) -> Form | None:
        """The form of the result of an expanded box; None for a division by the constant 0."""
        if isinstance(box.op, Rename):
            return self.renamed(dict(box.op.pairs), forms[0])
        if isinstance(box.op, REDUCTIONS):
            return self.contract(forms, list(box.dom), box.cod[0].names, box.line)
        fn = scalar_function(box.op)
        if fn in ADDITIVE:
            return added(fn, forms)
        return self.multiply(forms[0], forms[1]) if fn == "mul" else self.divide(forms[0], forms[1])


def _grows(box: Box, bound: frozenset[str] | None) -> bool:
    """Whether the result of a box is larger than each operand. Given summed axes: whether it adds an operand without
    one of them.
    """
    op, names = box.op, set(box.cod[0].names)
    if bound is None:
        if isinstance(op, Rename):
            return not transposes(box)
        return isinstance(op, Map) and all(names - set(ty.names) for ty in box.dom)
    return scalar_function(op) in ("add", "sub") and any(ty.axes and (bound & names) - set(ty.names) for ty in box.dom)


def _summed(box: Box) -> frozenset[str]:
    """The axes that a box sums over; empty for other boxes."""
    return frozenset(reduced_axes(box)) if monoid_of(box.op) == "sum" else frozenset()
