"""Stabilization (safe softmax): a maximum subtracted in the exponentials that a program computes without one.

`exp(s) = exp(s - m)·exp(m)` for every real m. Here m is the maximum of s over the axes that the exponentials are summed
over. The factor `exp(m)` is not computed: each array has a *degree* in m, the power of `exp(m)` that it is to be
multiplied by. Products add degrees, quotients subtract them, a logarithm turns them into summands. If the result has
degree 0, the factor has cancelled, and no exponential that is left has an argument above 0 (derived here). The kernel
proves that the program still means the same.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

from catdiag.category.diagram import Diagram, Node
from catdiag.category.op_facts import reduced_axes
from catdiag.category.ops import Box, Einsum, Map, Op, Reduce, Reindex, Rename, View, op_fact, reindex_box
from catdiag.category.scalars import Cast, ScalarFunction
from catdiag.category.types import ArrayType, Ty
from catdiag.rewrite.canonicalize import canonical_graph, masks_in_exponents
from catdiag.rewrite.claims import Claims
from catdiag.rewrite.derivation import Derivation, NotProved, titled
from catdiag.rewrite.group import group
from catdiag.rewrite.hash_consed_graph import HashConsedGraph
from catdiag.rewrite.list_states import opened
from catdiag.rewrite.stability import unbounded_exponentials
from catdiag.rewrite.steps import Group, Stabilize, Stream
from catdiag.rewrite.stream.streaming import stream
from catdiag.util.errors import CatdiagError, NotStabilizable

Degree = tuple[tuple[int, Fraction], ...]
"""Pairs of a wire m and a rational k: the array stands for itself times exp(Σ k·m)."""
NOTHING: Degree = ()


@dataclass
class _Family:
    """Exponentials that share one maximum: their wires, the axes of the maximum, and whether 0 counts as an exponent
    (`floor`).
    """

    members: set[int]
    axes: set[str] = field(default_factory=set)
    floor: bool = False


class _Restart(Exception):
    """A family has changed, so that the rewrite starts over."""


def stabilize(derivation: Derivation, limit: float | None = None) -> Derivation:
    """With a maximum subtracted in the exponentials that the source computes without one. The source is stabilized,
    then streamed and grouped as the derivation was. The derivation itself where every argument is proved to be at most
    0. `limit` is the time per exponential, in seconds.

    `exp(s)` becomes `exp(s - max s)` where the result is a quotient of sums of exponentials, or a logarithm of such a
    sum. Each sum that another sum is divided by shares its maximum.

    Raises NotStabilizable with the reason, where the maximum does not cancel or the equation was not proved;
    CatdiagError after a step that is no stream or group.
    """
    source = derivation.source
    other = next((s for s in derivation.steps if not isinstance(s.action, (Stream, Group, Stabilize))), None)
    if other is not None:
        raise CatdiagError(f"stabilize before {other.name!r}: a derivation is stabilized at its beginning")
    made = stabilized(source, derivation.claims(limit))
    if made is None:
        return derivation
    made = titled(made, f"{source.title or 'it'}.stabilize()")
    found = Derivation(source, source, ungrouped=source, assume=derivation.assume, ask=derivation.ask)
    try:
        theorem = found.prove(made)
    except NotProved as error:
        raise NotStabilizable(f"that a maximum may be subtracted was not proved: {error.reason}") from error
    found = found.then(Stabilize(), made, theorem, ungrouped=made)
    for step in derivation.steps:
        if isinstance(step.action, Stream):
            found = stream(found, step.action.axis, passes=step.action.passes)
        elif isinstance(step.action, Group):
            found = group(found, step.action.axes)
    return found


def stabilized(diagram: Diagram, claims: Claims) -> Diagram | None:
    """The diagram with maxima subtracted from the exponents that may be above 0; None where there are none. Nothing is
    proved of the result here.

    >>> import catdiag as cd
    >>> from catdiag.rewrite.claims import Claims
    >>> from catdiag.solvers.z3 import Z3
    >>> f = cd.algorithm("x ->")(lambda S: cd.log(cd.sum(cd.exp(S), "x")))
    >>> with Z3() as ask:
    ...     made = stabilized(f, Claims(ask))
    >>> [box.name for box in made.boxes]
    ['max[x]', 'sub', 'exp', 'sum[x]', 'log', 'add']

    Raises NotStabilizable with the reason, where the factor does not cancel.
    """
    flat = opened(diagram)
    above = unbounded_exponentials(flat, claims)
    if not above:
        return None
    terms, outputs, chosen = masks_in_exponents(flat, above)
    families = [_Family({w}) for w in sorted(chosen)]
    while True:
        try:
            made = [_MaximumReading(terms, families).output(w, ty) for w, ty in zip(outputs, flat.cod, strict=True)]
        except _Restart:
            continue
        return canonical_graph(terms, made, flat)


class _MaximumReading:
    """An abstract interpretation: each wire becomes a wire of the stabilized diagram and its degree."""

    def __init__(self, terms: HashConsedGraph, families: list[_Family]) -> None:
        self.graph, self.families = terms, families
        self.family = {w: f for f in families for w in f.members}
        self.known: dict[int, tuple[int, Degree]] = {w: (w, NOTHING) for w in range(len(terms.dom))}
        # The family of each maximum, for all renamings of its axes.
        self.of: dict[int, _Family] = {}

    def output(self, wire: int, ty: ArrayType) -> int:
        """The wire of an output. Raises NotStabilizable where its degree is not 0."""
        made, degree = self.read(wire)
        if degree and any(k > 0 or not self.of[m].floor for m, k in degree):
            lines = self._lines(degree)
            raise NotStabilizable(
                f"no maximum can be subtracted in {lines}: the result is not divided by such exponentials, so that "
                "the factor exp(m) does not cancel; expected a quotient of sums of them, or the logarithm of such "
                "a sum",
                self._line(degree),
            )
        return self.graph.cast(self._times(made, degree), ty)

    def read(self, wire: int) -> tuple[int, Degree]:
        """The stabilized wire and the degree of a wire; iterative, so that deep diagrams do not overflow the stack."""
        stack, open_ = [wire], set[int]()
        while stack:
            w = stack[-1]
            if w in self.known:
                stack.pop()
                continue
            node = self.graph.node(w)
            assert node is not None
            needed = list(node.inputs)
            if w in self.family:
                needed = [i for m in sorted(self.family[w].members) for i in self._inputs(m)]
            missing = [i for i in needed if i not in self.known]
            if not missing:
                stack.pop()
                self._box(w, node)
            elif w in open_:
                raise NotStabilizable(
                    f"no maximum can be subtracted in {_at(node.box)}: its exponent depends on an exponential that it "
                    "is added to",
                    node.box.line,
                )
            else:
                open_.add(w)
                stack.extend(missing)
        return self.known[wire]

    def _inputs(self, wire: int) -> tuple[int, ...]:
        node = self.graph.node(wire)
        return () if node is None else node.inputs

    # -- boxes -----------------------------------------------------------------------------------

    def _box(self, wire: int, node: Node) -> None:
        """Records the stabilized wires and the degrees of a box's results."""
        box = node.box
        given = [self.known[w] for w in node.inputs]
        if wire in self.family:
            self.known[wire] = self._subtracted(wire, self._plain(*given[0], box))
        elif (row := op_fact(DEGREE_RULES, box.op)) is not None and (made := row(self, box.op, box, given)) is not None:
            self.known[wire] = made
        else:
            wires = [self._plain(*g, box) for g in given]
            wires = [self.graph.cast(w, t) for w, t in zip(wires, box.dom, strict=True)]
            first, old = self.graph.add(box, wires), self.graph.first[self.graph.maker[wire]]
            for k in range(len(box.cod)):
                self.known[old + k] = first + k, NOTHING

    def _subtracted(self, wire: int, exponent: int) -> tuple[int, Degree]:
        """exp(s) as exp(s - m), with degree 1 in m."""
        family, terms = self.family[wire], self.graph
        node = terms.node(wire)
        assert node is not None
        if not family.axes and not family.floor and len(family.members) == 1:
            # Not summed yet: the axes of the maximum are those of a later sum. Until then m is s itself.
            self.of[exponent] = family
            return self.graph.map("exp", exponent, line=node.box.line), ((exponent, Fraction(1)),)
        (first, *others) = [self._plain(*self.known[self._inputs(w)[0]], node.box) for w in sorted(family.members)]
        m = first
        for other in others:
            m = terms.map("max", m, other)
        for name in sorted(family.axes & set(terms.names(m))):
            m = terms.reduce("max", name, m, node.box.line)
        if family.floor:
            m = terms.map("max", m, terms.const(0))
        m = self._real(m)
        self.of[m] = family
        made = terms.map("exp", terms.map("sub", exponent, m), line=node.box.line)
        return made, ((m, Fraction(1)),)

    def _real(self, wire: int) -> int:
        """A maximum with 0 in place of −∞: where every element is masked, nothing is subtracted."""
        terms = self.graph
        if terms.types[wire].element != "extended":
            return wire
        chosen = terms.map("where", terms.map("eq", wire, terms.const(None)), terms.const(0), wire)
        node = terms.node(chosen)
        assert node is not None
        ty = ArrayType(terms.types[chosen].axes)
        return terms.add(Box(node.box.op, node.box.dom, Ty(ty)), node.inputs)

    def function(self, fn: ScalarFunction, box: Box, given: list[tuple[int, Degree]]) -> tuple[int, Degree]:
        """The result of a scalar function and its degree: products add degrees, quotients subtract them, roots halve
        them.
        """
        wires, degrees = [w for w, _ in given], [d for _, d in given]
        if fn == "mul" or fn == "div":
            return self._mapped(fn, wires, box), _sum(degrees[0], degrees[1], 1 if fn == "mul" else -1)
        if fn in ("neg", "abs") or isinstance(fn, Cast):
            return self._mapped(fn, wires, box), degrees[0]
        if fn == "sqrt":
            return self._mapped(fn, wires, box), tuple((m, k / 2) for m, k in degrees[0])
        if fn == "log":
            made = self._mapped(fn, wires, box)
            for m, k in degrees[0]:
                made = self.graph.map("add", made, self._scaled(m, k))
            return made, NOTHING
        if fn in ("add", "sub", "max", "min", "where", "lt", "le", "eq", "ne"):
            first = 1 if fn == "where" else 0
            condition = [self._plain(*g, box) for g in given[:first]]
            sides, degree = self._common_degree(given[first:], box)
            return self._mapped(fn, [*condition, *sides], box), NOTHING if fn in _COMPARISONS else degree
        return self._mapped(fn, [self._plain(*g, box) for g in given], box), NOTHING

    def _mapped(self, fn: ScalarFunction, wires: Sequence[int], box: Box) -> int:
        """A scalar function whose result has the element type that the box had."""
        made = self.graph.map(fn, *wires, line=box.line)
        node = self.graph.node(made)
        assert node is not None
        element = box.cod[0].element
        if self.graph.types[made].element == element:
            return made
        ty = ArrayType(self.graph.types[made].axes, element)
        return self.graph.add(Box(node.box.op, node.box.dom, Ty(ty), box.line), wires)

    def reduced(self, op: Reduce, box: Box, wire: int, degree: Degree) -> tuple[int, Degree]:
        """The result of a reduction and its degree: that of its elements, for sums and extrema."""
        if degree and op.monoid not in ("sum", "max", "min"):
            self._plain(wire, degree, box)
        wire, degree = self._over({op.axis}, wire, degree)
        if self.graph.types[wire].axis(op.axis) is None:
            wire = self.graph.cast(wire, self._fit(wire, box.dom[0]))
        return self.graph.reduce(op.monoid, op.axis, wire, box.line), degree

    def contracted(self, box: Box, given: list[tuple[int, Degree]]) -> tuple[int, Degree]:
        """The result of a contraction and its degree: the sum of those of its factors."""
        kept = list(box.cod[0].names)
        degree = NOTHING
        for _, d in given:
            degree = _sum(degree, d, 1)
        first, degree = self._over(set(reduced_axes(box)), given[0][0], degree)
        wires = [self.graph.cast(w, self._fit(w, ty)) for w, ty in zip((first, *(w for w, _ in given[1:])), box.dom)]
        own = {a.name for ty in box.dom for a in ty.axes}
        more = dict.fromkeys(n for w in wires for n in self.graph.names(w) if n not in own)
        return self.graph.einsum(wires, [*kept, *more], box.line), degree

    def _fit(self, wire: int, ty: ArrayType) -> ArrayType:
        """The input type of a box with the further axes that a wire has."""
        own = self.graph.types[wire]
        return ArrayType((*ty.axes, *(a for a in own.axes if ty.axis(a.name) is None)), own.element)

    def _over(self, axes: set[str], wire: int, degree: Degree) -> tuple[int, Degree]:
        """Before a sum over some axes: the maxima in the degree get these axes too. A factor that is at most 1 is
        multiplied in instead.
        """
        for m, k in degree:
            if more := axes & set(self.graph.names(m)):
                if k < 0 and self.of[m].floor:
                    wire, degree = self._times(wire, ((m, k),)), _sum(degree, ((m, k),), -1)
                    continue
                self.of[m].axes |= more
                raise _Restart
        return wire, degree

    def renamed(self, pairs: Mapping[str, str], box: Box, wire: int, degree: Degree) -> tuple[int, Degree] | None:
        """The result of a renaming and its degree, with the maxima renamed; None without a degree."""
        if not degree:
            return None
        found = []
        for m, k in degree:
            new = self.graph.rename(m, pairs)
            self.of[new] = self.of[m]
            found.append((new, k))
        made = self.graph.rename(wire, pairs)
        return self.graph.cast(made, self._fit(made, box.cod[0])), tuple(sorted(found))

    def moved(self, op: Reindex | View, box: Box, given: list[tuple[int, Degree]]) -> tuple[int, Degree] | None:
        """The result of an index map that maps over the axes of the maxima, and its degree; None without a degree."""
        if not any(degree for _, degree in given):
            return None
        sides, degree = self._common_degree(given, box)
        if any(op.touches(name) for m, _ in degree for name in self.graph.names(m)):
            self._plain(sides[0], degree, box)
        return self.graph.add(reindex_box(op, [self.graph.types[w] for w in sides], box.line), sides), degree

    # -- degrees ---------------------------------------------------------------------------------

    def _common_degree(self, given: Sequence[tuple[int, Degree]], box: Box) -> tuple[list[int], Degree]:
        """Operands of a sum or comparison, brought to a common degree; the constant 0 has every degree. Exponentials of
        different families are joined into one. A plain number beside exponentials of degree 1 counts as exp(0) times
        it.
        """
        terms = self.graph
        degrees = dict.fromkeys(d for w, d in given if terms.const_value(w) != 0 and not terms.is_bottom(w))
        if len(degrees) <= 1:
            return [w for w, _ in given], next(iter(degrees), NOTHING)
        found = list(degrees)
        one, other = found[0], found[1]
        left = [m for m, k in one if (m, k) not in other]
        right = [m for m, k in other if (m, k) not in one]
        if left and right and self.of[left[0]] is not self.of[right[0]]:
            self._join(self.of[left[0]], self.of[right[0]])
        wanted = max(found, key=len)
        if len(wanted) == 1 and wanted[0][1] > 0 and set(found) == {NOTHING, wanted}:
            family = self.of[wanted[0][0]]
            if not family.floor:
                family.floor = True
                raise _Restart
            opposite = tuple((m, -k) for m, k in wanted)
            return [w if d else self._times(w, opposite) for w, d in given], wanted
        raise NotStabilizable(
            f"no maximum can be subtracted in {self._lines(_sum(one, other, 1))}: {_at(box)} adds up or compares "
            "products of different numbers of such exponentials",
            box.line,
        )

    def _join(self, one: _Family, other: _Family) -> None:
        one.members |= other.members
        one.axes |= other.axes
        one.floor = one.floor or other.floor
        self.families.remove(other)
        raise _Restart

    def _plain(self, wire: int, degree: Degree, box: Box) -> int:
        """A wire of degree 0, for a box that is not linear in it. Raises NotStabilizable for any other degree."""
        if not degree:
            return wire
        raise NotStabilizable(
            f"no maximum can be subtracted in {self._lines(degree)}: {_at(box)} is not linear in such exponentials, "
            "and nothing that they are divided by comes before it",
            box.line,
        )

    def _times(self, wire: int, degree: Degree) -> int:
        for m, k in degree:
            wire = self.graph.map("mul", wire, self.graph.map("exp", self._scaled(m, k)))
        return wire

    def _scaled(self, m: int, k: Fraction) -> int:
        if k == 1:
            return m
        return self.graph.map("neg", m) if k == -1 else self.graph.map("mul", self.graph.const(k), m)

    def _line(self, degree: Degree) -> str | None:
        nodes = [self.graph.node(w) for m, _ in degree for w in sorted(self.of[m].members)]
        return next((node.box.line for node in nodes if node is not None), None)

    def _lines(self, degree: Degree) -> str:
        """The exponentials in a degree, by the user's source lines."""
        nodes = [self.graph.node(w) for m, _ in degree for w in sorted(self.of[m].members)]
        return ", ".join(dict.fromkeys(_at(node.box) for node in nodes if node is not None))


DEGREE_RULES: Mapping[
    type[Op], Callable[[_MaximumReading, Any, Box, list[tuple[int, Degree]]], tuple[int, Degree] | None]
] = {
    Map: lambda reading, op, box, given: reading.function(op.fn, box, given),
    Reduce: lambda reading, op, box, given: reading.reduced(op, box, *given[0]),
    Einsum: lambda reading, op, box, given: reading.contracted(box, given),
    Rename: lambda reading, op, box, given: reading.renamed(dict(op.pairs), box, *given[0]),
    **dict.fromkeys((Reindex, View), lambda reading, op, box, given: reading.moved(op, box, given)),
}
"""The stabilized result of a box and its degree, by the class of its operation; None where no input has a degree. What
has no row reads plain numbers only."""

_COMPARISONS = ("lt", "le", "eq", "ne")


def _sum(left: Degree, right: Degree, sign: int) -> Degree:
    found = dict(left)
    for m, k in right:
        found[m] = found.get(m, Fraction(0)) + sign * k
    return tuple(sorted((m, k) for m, k in found.items() if k))


def _at(box: Box) -> str:
    return box.name + (f" ({box.line})" if box.line else "")
