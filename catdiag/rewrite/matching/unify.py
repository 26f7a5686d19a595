"""Unification: the axes and sizes of a pattern at an occurrence, and the further axes that all of it is weaved over.

Names of axes and symbols of sizes in a pattern are variables. Each of its axes becomes one axis of the diagram, on all
wires. Further axes of the diagram's wires are weaved axes. A box maps over a weaved axis if one of its inputs has it;
then its output must have it too. Two axes of the pattern may become one axis of the diagram if no box has both. Element
types of inputs may be narrower: an array of reals is one of extended reals.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from catdiag.category.diagram import Diagram, Graph, Node, of_graph
from catdiag.category.index_maps import Cond, Expr, Read, View, read_off
from catdiag.category.integer_polynomial import IntPolynomial
from catdiag.category.named_axes import named_axes
from catdiag.category.ops import (
    Box,
    Call,
    Const,
    Einsum,
    FoldOp,
    Generic,
    GroupOp,
    Index,
    Map,
    Op,
    Operation,
    Reduce,
    Reindex,
    Rename,
    SizeOf,
    bodies,
    op_fact,
    op_row,
    with_bodies,
)
from catdiag.category.scalars import Apply
from catdiag.category.types import ArrayType, Axis, Size, Ty, show
from catdiag.rewrite.matching.subgraph_search import Occurrence, Variables, Wiring, named
from catdiag.util.errors import MatchUndecided

NARROWER = {"real": ("real", "int"), "extended": ("extended", "real", "int"), "int": ("int",), "bool": ("bool",)}
_TRIES = 5_000


class Clash(Exception):
    """The reason why axes, sizes or element types do not unify, in words."""


# -- sizes -------------------------------------------------------------------------------------------


def same_size(a: Size, b: Size) -> bool:
    """Whether two sizes are equal for all values of their symbols."""
    return a == b or IntPolynomial.of(a) == IntPolynomial.of(b)


def put_sizes(size: Size, sizes: Mapping[str, Size]) -> Size:
    """A size with sizes substituted for its symbols; other symbols stay.

    >>> put_sizes(("+", "x", 1), {"x": ("*", "b", "g")})
    ('+', ('*', 'b', 'g'), 1)
    """

    def join(op: str, left: Size, right: Size) -> Size:
        return op, left, right

    made: Size = read_off(size, lambda leaf: sizes.get(leaf, leaf), join)
    return made


# -- substitutions -------------------------------------------------------------------------------------


@dataclass
class Unifier:
    """A substitution: axes by name, sizes by symbol, and operations for boxes that are variables."""

    axes: dict[str, Axis] = field(default_factory=dict)
    sizes: dict[str, Size] = field(default_factory=dict)
    ops: dict[str | Apply, Operation] = field(default_factory=dict)
    composite: dict[str, str] = field(default_factory=dict)
    """The names of products and sums of axes after substitution."""

    def copy(self) -> Unifier:
        """An independent copy."""
        return Unifier(dict(self.axes), dict(self.sizes), dict(self.ops), dict(self.composite))

    def size(self, wanted: Size, given: Size) -> None:
        """Unifies a size of the pattern with one of the diagram. Raises Clash."""
        if isinstance(wanted, str) and wanted not in self.sizes:
            self.sizes[wanted] = given
            return
        if isinstance(wanted, tuple) and isinstance(given, tuple) and wanted[0] == given[0]:
            trial = self.copy()
            try:
                trial.size(wanted[1], given[1])
                trial.size(wanted[2], given[2])
            except Clash:
                pass
            else:
                self.sizes = trial.sizes
                return
        if not same_size(put_sizes(wanted, self.sizes), given):
            raise Clash(f"size {show(wanted)} of the rule {_is(wanted, self.sizes)}is {show(given)} here")

    def axis(self, wanted: Axis, given: Axis) -> None:
        """Unifies an axis of the pattern with one of the diagram. Raises Clash."""
        known = self.axes.get(wanted.name)
        if known is not None:
            if known.name != given.name:
                raise Clash(f"axis {wanted.name} of the rule is both {known.name} and {given.name}")
            return
        if wanted.kind != "name":
            if given.kind != wanted.kind or len(given.parts) != len(wanted.parts):
                raise Clash(f"axis {wanted.name} of the rule is a {wanted.kind}, and {given.name} is no such one")
            for part, own in zip(wanted.parts, given.parts, strict=True):
                self.axis(part, own)
        self.size(wanted.size, given.size)
        self.axes[wanted.name] = given

    def put(self, axis: Axis) -> Axis:
        """An axis of the pattern after substitution; a local size (of a block or tile) stays."""
        known = self.axes.get(axis.name)
        size = put_sizes(axis.size, self.sizes)
        if known is not None:
            return known if same_size(known.size, size) else Axis(known.name, size, known.kind, known.parts)
        if axis.kind == "name":  # that of a block of a product of axes is the product's
            return replace(axis, name=self.composite.get(axis.name, axis.name), size=size)
        parts = tuple(self.put(p) for p in axis.parts)
        names = [p.name for p in parts]
        return Axis("(" + " ".join(names) + ")" if axis.kind == "product" else "+".join(names), size, axis.kind, parts)

    def name(self, name: str) -> str:
        """The diagram's name of an axis of the pattern."""
        known = self.axes.get(name)
        return self.composite.get(name, name) if known is None else known.name

    def op(self, box: Box) -> Operation:
        """The operation of a box of the pattern after substitution."""
        made = op_row(SUBSTITUTED, box, "rewritten by a rule")(self, box.op)
        inside = tuple(self.diagram(body) for body in bodies(box.op))
        return with_bodies(made, inside) if inside else made

    def local(self, block: str) -> str:
        """The diagram's symbol of a block or tile size."""
        known = self.sizes.get(block)
        return known if isinstance(known, str) else block

    def view(self, op: View) -> View:
        """A view of the pattern after substitution."""

        def leaf(v: Any) -> Any:
            if isinstance(v, tuple):
                return ("i", self.name(v[1])) if v[0] == "i" else v
            return put_sizes(v, self.sizes)

        def put(e: Expr) -> Expr:
            made: Expr = read_off(e, leaf, lambda sign, a, b: (sign, a, b))
            return made

        def all_put(conditions: tuple[Cond, ...]) -> tuple[Cond, ...]:
            return tuple((c[0], put(c[1]), put(c[2])) for c in conditions)

        reads = tuple(Read(tuple((self.name(n), put(e)) for n, e in r.at), all_put(r.where)) for r in op.reads)
        return View(tuple(self.put(a) for a in op.index_axes), reads, all_put(op.fits))

    def diagram(self, diagram: Diagram) -> Diagram:
        """A diagram of the pattern after substitution."""
        for ty in diagram.graph.wire_types():
            for axis in ty.axes:
                if axis.kind != "name":
                    self.composite[axis.name] = self.put(axis).name
        boxes: dict[int, Box] = {}
        nodes = []
        for node in diagram.graph.nodes:
            b = node.box
            made = boxes.get(id(b))
            if made is None:
                made = boxes[id(b)] = Box(self.op(b), self.ty(b.dom), self.ty(b.cod), b.line)
            nodes.append(Node(made, node.inputs))
        graph = Graph(self.ty(diagram.dom), tuple(nodes), diagram.graph.outputs)
        return of_graph(graph, self.ty(diagram.cod), diagram.names, diagram.title)

    def ty(self, ty: Ty) -> Ty:
        """An object of the pattern after substitution."""
        return Ty(*(ArrayType(tuple(self.put(a) for a in t.axes), t.element) for t in ty))


def _is(size: Size, sizes: Mapping[str, Size]) -> str:
    put = put_sizes(size, sizes)
    return "" if put == size else f"is {show(put)} elsewhere and "


# -- an occurrence -----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Fitted:
    """An occurrence with its substitution, and the weaved axes of each input of the pattern that is read."""

    occurrence: Occurrence
    unifier: Unifier
    weaved: tuple[tuple[Axis, ...], ...]


def fits(pattern: Wiring, site: Wiring, found: Occurrence, variables: Variables) -> Iterator[Fitted]:
    """The substitutions for the axes and sizes of an occurrence: all that unify, in a fixed order.

    Raises Clash with the reason where there is none, MatchUndecided where there are too many to try.
    """
    start = Unifier()
    pairs = [(box, site.boxes[place]) for box, place in zip(pattern.boxes, found.places, strict=True)]
    for box, here in pairs:
        _operations(start, box, here, variables)
    _elements(pattern, site, found, variables)
    domains = _domains(start, pairs)
    order = sorted(domains, key=lambda name: (name not in start.axes, len(domains[name][1])))
    reason, fitted = "", False
    tries = 0
    # Depth first over the axes of the pattern: each entry is a substitution and its number of assigned axes.
    stack: list[tuple[Unifier, int]] = [(start, 0)]
    while stack:
        unifier, done = stack.pop()
        tries += 1
        if tries > _TRIES:
            raise MatchUndecided(f"a rule of {len(order)} axes may name those of {named(pairs[0][1])} in too many ways")
        if done == len(order):
            try:
                checked = _checked(pattern, site, found, pairs, unifier, variables)
            except Clash as error:
                reason = reason or str(error)
                continue
            fitted = True
            yield checked
            continue
        wanted, choices = domains[order[done]], []
        for given in wanted[1]:
            trial = unifier.copy()
            try:
                trial.axis(wanted[0], given)
            except Clash as error:
                reason = reason or str(error)
                continue
            choices.append((trial, done + 1))
        if not wanted[1]:
            reason = reason or f"no axis is where axis {wanted[0].name} of the rule should be"
        stack += reversed(choices)
    if not fitted:
        raise Clash(reason)


def _operations(unifier: Unifier, box: Box, here: Box, variables: Variables) -> None:
    """Unifies the axes that two operations name. Raises Clash."""
    op, own = box.op, here.op
    if variables.is_box(box) or variables.is_function(box):
        key = op.fn if isinstance(op, Map) and isinstance(op.fn, Apply) else f"box:{box.name}"
        known = unifier.ops.setdefault(key, own)
        if known != own:
            raise Clash(f"{box.name} of the rule is both another box and {named(here)}")
        return
    row = op_fact(OWN_AXES, op)
    if row is not None and row is op_fact(OWN_AXES, own):
        for wanted, given in zip(row(op, box), row(own, here), strict=True):
            if wanted is not None and given is not None:
                unifier.axis(wanted, given)


OWN_AXES: Mapping[type[Op], Callable[[Any, Box], Sequence[Axis | None]]] = {
    Reduce: lambda op, box: (box.dom[0].axis(op.axis),),
    Index: lambda op, box: (box.cod[0].axis(op.axis),),
    Reindex: lambda op, box: (op.axis,),
    View: lambda op, box: op.index_axes,
}
"""The axes that an operation names, with their sizes, in an order in which those of two operations correspond."""


def _elements(pattern: Wiring, site: Wiring, found: Occurrence, variables: Variables) -> None:
    """Raises Clash where element types do not match."""
    for k, w in enumerate(found.inputs):
        if w < 0:
            continue
        wanted, own = pattern.graph.dom[k].element, site.types[w]
        if own.element not in NARROWER[wanted]:
            name = pattern.names[k]
            raise Clash(
                f"input {name} of the rule is {_article(wanted)} array, and {own} is {_article(own.element)} one"
            )
    for box, place in zip(pattern.boxes, found.places, strict=True):
        here = site.boxes[place]
        if isinstance(box.op, Generic) and not variables.is_box(box):
            ours, theirs = ([t.element for t in (*b.dom, *b.cod)] for b in (box, here))
            if ours != theirs:
                raise Clash(f"{box.name} of the rule has other element types than {named(here)}")
        elif variables.is_box(box) or variables.is_function(box):
            for a, b in zip(box.cod, here.cod, strict=True):
                if b.element not in NARROWER[a.element]:
                    raise Clash(f"{box.name} of the rule gives {_article(a.element)} array, and {named(here)} does not")


def _article(element: str) -> str:
    return f"an {element}" if element[0] in "aei" else f"a {element}"


def _domains(start: Unifier, pairs: Sequence[tuple[Box, Box]]) -> dict[str, tuple[Axis, list[Axis]]]:
    """For each axis of the pattern its candidates: axes of the diagram that occur wherever it does, and not where a box
    lacks it.
    """
    found: dict[str, tuple[Axis, list[Axis]]] = {}
    for box, here in pairs:
        wires = list(zip((*box.dom, *box.cod), (*here.dom, *here.cod), strict=True))
        for wanted in {a.name: a for t, _ in wires for a in t.axes}.values():
            on = [(t.axis(wanted.name) is not None, own) for t, own in wires]
            own_axes = {a.name: a for _, own in wires for a in own.axes}
            possible = [
                a for a in own_axes.values() if all((own.axis(a.name) is not None) or not has for has, own in on)
            ]
            ty, own = next((t, own) for t, own in wires if t.axis(wanted.name) is not None)
            possible.sort(key=lambda a, w=wanted, t=ty, o=own: _distance(w, t, a, o))  # type: ignore[misc]
            known = found.get(wanted.name)
            if known is not None:
                names = {a.name for a in possible}
                possible = [a for a in known[1] if a.name in names]
            found[wanted.name] = (wanted, possible)
    for name, axis in start.axes.items():
        if name in found:
            found[name] = (found[name][0], [a for a in found[name][1] if a.name == axis.name])
    return found


def _distance(wanted: Axis, ty: ArrayType, given: Axis, own: ArrayType) -> tuple[bool, int]:
    """A sort key for candidates: the same name first, then the position counted from the last axis."""
    from_last = len(ty.axes) - ty.names.index(wanted.name) - (len(own.axes) - own.names.index(given.name))
    return wanted.name != given.name, abs(from_last)


def _checked(
    pattern: Wiring,
    site: Wiring,
    found: Occurrence,
    pairs: Sequence[tuple[Box, Box]],
    unifier: Unifier,
    variables: Variables,
) -> Fitted:
    """The occurrence, after a check that every box is that of the pattern with these axes, weaved. Raises Clash."""
    unifier = unifier.copy()
    for box, here in pairs:
        # A size may be on no axis of the pattern.
        if isinstance(box.op, SizeOf) and isinstance(here.op, SizeOf):
            unifier.size(box.op.size, here.op.size)
    for box, here in pairs:
        local = {unifier.name(a.name): a.name for t in (*box.dom, *box.cod) for a in t.axes}
        if len(local) != len({a.name for t in (*box.dom, *box.cod) for a in t.axes}):
            raise Clash(f"two axes of the rule would be one axis of {named(here)}")
        extra: list[set[str]] = []
        for t, own in zip((*box.dom, *box.cod), (*here.dom, *here.cod), strict=True):
            wanted = {unifier.name(a.name) for a in t.axes}
            order = tuple(unifier.name(a.name) for a in t.axes)
            if (
                isinstance(box.op, Generic)
                and not variables.is_box(box)
                and own.names[len(own.axes) - len(order) :] != order
            ):
                raise Clash(f"{named(here)} is {box.name} of the rule only where further axes come in front of its own")
            if missing := wanted - set(own.names):
                raise Clash(f"{own} of {named(here)} lacks axis {sorted(missing)[0]}")
            extra.append(set(own.names) - wanted)
            for a in own.axes:
                if a.name in wanted:
                    unifier_size = put_sizes(_axis_of(t, local[a.name]).size, unifier.sizes)
                    if not same_size(unifier_size, a.size):
                        raise Clash(f"axis {a.name} of {named(here)} has size {show(a.size)}")
        inputs: set[str] = set().union(*extra[: len(box.dom)])
        if clash := inputs & set(local):
            name = sorted(clash)[0]
            raise Clash(f"axis {name} of {named(here)} is on an array that lacks axis {local[name]} in the rule")
        for more in extra[len(box.dom) :]:
            if more != inputs:
                name = sorted(more ^ inputs)[0]
                how = "makes" if name in more else "uses up"
                raise Clash(f"{named(here)} {how} axis {name}, which no axis of the rule is")
        if variables.is_box(box) or variables.is_function(box):
            if own := named_axes(here) & inputs:
                raise Clash(f"{named(here)} does more than map over axis {sorted(own)[0]}")
            if inputs and bodies(here.op):
                raise Clash(f"{named(here)} is a loop or group over further axes")
        elif not _same_op(unifier.op(box), here.op, inputs):
            raise Clash(f"{named(box)} of the rule would be {named(here)}")
    weaved: list[tuple[Axis, ...]] = []
    for k, w in enumerate(found.inputs):
        if w < 0:
            weaved.append(())
            continue
        taken = {unifier.name(a.name) for a in pattern.graph.dom[k].axes}
        weaved.append(tuple(a for a in site.types[w].axes if a.name not in taken))
    return Fitted(found, unifier, tuple(weaved))


def _axis_of(ty: ArrayType, name: str) -> Axis:
    axis = ty.axis(name)
    return Axis(name) if axis is None else axis


def _same_op(op: Operation, own: Operation, weaved: set[str]) -> bool:
    if weaved and isinstance(op, (FoldOp, GroupOp)):
        return False
    row = op_fact(MEANINGS, op)
    return op == own if row is None or row is not op_fact(MEANINGS, own) else bool(row(op) == row(own))


def _view_meaning(op: View) -> object:
    """The meaning of a view, as data that does not depend on how its index arithmetic is written."""

    def leaf(v: Any) -> frozenset[Any]:
        return frozenset({((), v)} if v else ()) if isinstance(v, int) else frozenset({((repr(v),), 1)})

    def join(sign: str, a: frozenset[Any], b: frozenset[Any]) -> frozenset[Any]:
        if sign == "//":
            return frozenset({((repr((sorted(a), sorted(b))),), 1)})
        total: Counter[tuple[str, ...]] = Counter()
        for m, c in a:
            if sign == "+":
                total[m] += c
            for n, d in b if sign == "*" else ():
                total[tuple(sorted((*m, *n)))] += c * d
        for n, d in b if sign == "+" else ():
            total[n] += d
        return frozenset((m, c) for m, c in total.items() if c)

    def plain(e: Expr) -> frozenset[Any]:
        return read_off(e, leaf, join)

    reads = [({n: plain(e) for n, e in r.at}, [(sign, plain(a), plain(b)) for sign, a, b in r.where]) for r in op.reads]
    return reads, [(a.name, plain(a.size)) for a in op.index_axes]


MEANINGS: Mapping[type[Op], Callable[[Any], object]] = {
    Rename: lambda op: {a: b for a, b in op.pairs if a != b},
    SizeOf: lambda op: IntPolynomial.of(op.size),
    View: _view_meaning,
}
"""The meaning of an operation that can be written in several ways; others are the same only if they are equal."""


def _substituted_rename(unifier: Unifier, op: Rename) -> Rename:
    pairs = {unifier.name(a): unifier.name(b) for a, b in op.pairs}
    return Rename(tuple(sorted((a, b) for a, b in pairs.items() if a != b)))


def _unchanged(unifier: Unifier, op: Operation) -> Operation:
    return op


SUBSTITUTED: Mapping[type[Op], Callable[[Unifier, Any], Operation]] = {
    Map: lambda u, op: u.ops.get(op.fn, op) if isinstance(op.fn, Apply) else op,
    Reduce: lambda u, op: Reduce(op.monoid, u.name(op.axis)),
    Einsum: _unchanged,
    Rename: _substituted_rename,
    Reindex: lambda u, op: replace(op, axis=u.put(op.axis)),
    View: lambda u, op: u.view(op),
    Index: lambda u, op: Index(u.name(op.axis)),
    SizeOf: lambda u, op: SizeOf(put_sizes(op.size, u.sizes)),
    Const: _unchanged,
    Call: _unchanged,
    Generic: lambda u, op: u.ops.get(f"box:{op.name}", op),
    FoldOp: lambda u, op: replace(
        op, axis=u.name(op.axis), block=u.local(op.block), parts=None if op.parts is None else u.local(op.parts)
    ),
    GroupOp: lambda u, op: replace(
        op, tiles=tuple((u.name(a), u.local(local)) for a, local in op.tiles), added=tuple(map(u.name, op.added))
    ),
}
"""Operations of a pattern after substitution, but for their bodies, by class."""
