"""The cascade of reductions over an axis: which accumulators a diagram needs, and how each is repaired.

An abstract interpretation of the flat diagram. Each wire gets the wire that carries it in a new graph,
where every reduction over the axis has become sums of statistics times *components*; a component is a
reduction over the axis of elements, and nothing else in the new graph reads all of the axis at once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from fractions import Fraction

from catdiag.boxes import Box, Const, Einsum, Fold, Generic, Group, Index, Map, Reduce, Rename, SizeOf
from catdiag.diagram import Diagram, Node
from catdiag.errors import NotStreamable
from catdiag.rewrite.separable import (
    Algebra,
    Form,
    Monomial,
    Refused,
    Scale,
    Term,
    collect,
    scaled,
    times,
)
from catdiag.rewrite.terms import Terms
from catdiag.types import ArrayType, Axis, Ty

MODES = ("plain", "guarded", "shifted", "whole", "none")
"""How exponentials are stabilised, in order of preference.

- `plain`: as the user wrote them, guarded where the empty list leaves the repair undefined;
- `guarded`: every repair is guarded on the maxima that it uses being above minus infinity;
- `shifted`: the same, minus infinity replaced by 0, with no guard on the repair itself;
- `whole`: guarded, and no part of an exponent is moved out of the loop;
- `none`: `exp(b − μ) = exp(b)·exp(−μ)`, nothing to repair and nothing stabilised.
"""

# Scalar functions that are defined everywhere, so that a statistic made by them is defined on every block.
_TOTAL = frozenset(("add", "sub", "mul", "neg", "exp", "tanh", "sigmoid", "abs", "max", "min", "where"))


@dataclass
class Component:
    """One accumulator: the wire that is its value on a list, its monoid, and its repair exp(μ(old) − μ(new))."""

    wire: int
    monoid: str
    line: str | None
    scale: int | None = None
    guards: tuple[int, ...] = ()


class Cascade(Algebra):
    """What `analyse` finds: the new graph, the components, and the wires of the diagram's outputs."""

    def __init__(self, terms: Terms, axis: Axis, mode: str = "plain") -> None:
        super().__init__(terms, axis.name)
        self.mode = mode
        self.streamed = axis
        self.components: dict[int, Component] = {}
        self.outside: set[int] = set()
        self.safe: set[int] = set()
        self.outputs: tuple[int, ...] = ()
        self.image: list[int] = list(range(len(terms.dom)))
        self.forms: dict[int, Form | Refused] = {}
        self.exponents: dict[int, Form] = {}
        self.origin: dict[int, Box] = {}
        self._here: Box | None = None

    # -- the walk -------------------------------------------------------------------------------

    def analyse(self, diagram: Diagram) -> None:
        """Reads a flat diagram; raises NotStreamable."""
        graph = diagram.graph
        for node in graph.nodes:
            self._here = node.box
            if self._reduces(node):
                wire = self._reduction(node)
                self.image.append(wire)
                continue
            inputs = [self.image[w] for w in node.inputs]
            first = self.terms.add(node.box, inputs)
            wires = range(first, first + len(node.box.cod))
            mixed = [w for w in wires if self.has_axis(w) and self.terms.late[w]]
            takes = any(self.has_axis(w) for w in inputs)
            if not self._is_weaved(node.box) and (takes or any(map(self.has_axis, wires))):
                if any(self.terms.late[w] for w in wires):
                    self._refuse_mixer(node)
                self.outside.update(wires)
            self.image.extend(wires)
            if mixed and mixed[0] not in self.forms:
                self.forms[mixed[0]] = self._form(node, mixed[0])
        for place in range(len(graph.outputs)):
            if self.axis in diagram.cod[place].names:
                raise NotStreamable(
                    f"cannot stream axis {self.axis!r}: the result {diagram.cod[place]} keeps it, and a stream ends in "
                    f"statistics that are free of its axis; reduce the result over {self.axis!r}, or group it instead"
                )
        self.outputs = tuple(self.image[w] for w in graph.outputs)
        needed = set(self.terms.cone(self.outputs))
        while True:
            more = [
                s
                for c in self.components.values()
                if c.wire in needed and c.scale is not None
                for s in (c.scale, *c.guards)
            ]
            wider = set(self.terms.cone([*needed, *more]))
            if wider == needed:
                break
            needed = wider
        self.components = {w: c for w, c in self.components.items() if w in needed}
        if not self.components:
            raise NotStreamable(
                f"cannot stream axis {self.axis!r}: nothing is reduced over it; expected a sum, max or einsum over it"
            )

    def _reduces(self, node: Node) -> bool:
        op = node.box.op
        if isinstance(op, Reduce):
            return op.axis == self.axis
        return isinstance(op, Einsum) and (
            any(self.axis in t.names for t in node.box.dom) and self.axis not in node.box.cod[0].names
        )

    def _is_weaved(self, box: Box) -> bool:
        """Whether a box acts on each position of the axis by itself, given that it does not reduce over it."""
        op = box.op
        if isinstance(op, (Index, SizeOf)):
            return isinstance(op, SizeOf) or op.axis != self.axis
        if isinstance(op, Rename):
            return all(self.axis not in pair for pair in op.pairs)
        return isinstance(op, (Map, Reduce, Einsum, Const))

    def _refuse_mixer(self, node: Node) -> None:
        box = node.box
        if isinstance(box.op, (Fold, Group)):
            why = "it runs in a loop or in groups already"
        elif isinstance(box.op, Generic):
            why = "nothing is known of what it does along the axis"
        else:
            why = "it needs the whole axis"
        late = next(w for w in node.inputs if self.terms.late[self.image[w]])
        raise NotStreamable(
            f"cannot stream axis {self.axis!r}: {box.name} reads it, {why}, and its input depends on "
            f"{self._depends(self.image[late])}, which is known only at the end of the axis",
            box.line,
        )

    def _depends(self, wire: int) -> str:
        """The reductions over the axis that a wire depends on, as the user wrote them."""
        boxes = dict.fromkeys(self.origin[w] for w in self.terms.cone([wire]) if w in self.origin)
        return ", ".join(f"{b.name}" + (f" ({b.line})" if b.line else "") for b in boxes) or "a reduction over it"

    # -- forms ------------------------------------------------------------------------------------

    def form_of(self, wire: int) -> Form:
        """The form of a wire that carries one of the diagram's; raises Refused."""
        form = self.forms.get(wire)
        if isinstance(form, Refused):
            raise form
        return self.atom(wire) if form is None else form

    def _form(self, node: Node, wire: int) -> Form | Refused:
        try:
            forms = [self.form_of(self.image[w]) for w in node.inputs]
            return self._rule(node, forms, wire)
        except Refused as refused:
            return refused

    def _rule(self, node: Node, forms: list[Form], direct: int) -> Form:
        box, op = node.box, node.box.op
        images = [self.image[w] for w in node.inputs]
        if isinstance(op, Map):
            return self._map(op.fn, forms, images, direct, box)
        if isinstance(op, Einsum):
            return self.contract(forms, list(box.dom), box.cod[0].names, box.line)
        if isinstance(op, Reduce) and op.monoid == "sum":
            return self.contract(forms, list(box.dom), box.cod[0].names, box.line)
        if isinstance(op, Reduce) and op.monoid in ("max", "min"):
            return self._extremum(op, forms[0], box)
        if isinstance(op, Rename):
            return self._renamed(dict(op.pairs), forms[0])
        if all(map(self.is_early, forms)):
            dom = [self.emit(f) for f in forms]
            fitted = [self.terms.cast(w, t) for w, t in zip(dom, box.dom, strict=True)]
            return self.atom(self.terms.add(box, fitted))
        raise Refused(box, f"{box.name} neither adds nor multiplies")

    def _renamed(self, pairs: dict[str, str], form: Form) -> Form:
        found = []
        for t in form:
            for axis in t.bound:
                if axis.name in {*pairs, *pairs.values()}:
                    t = self.rebind(t, axis, self.term_axes(t) | {*pairs, *pairs.values()})
            found.append(self.rename(t, pairs))
        return collect(found)

    def _map(self, fn: str, forms: list[Form], images: list[int], direct: int, box: Box) -> Form:
        if all(map(self.is_early, forms)):
            return self.atom(self.terms.map(fn, *map(self.emit, forms), line=box.line))
        f = forms[0]
        if fn in ("add", "sub"):
            return collect((*f, *scaled(forms[1], Fraction(1 if fn == "add" else -1))))
        if fn == "neg":
            return scaled(f, Fraction(-1))
        if fn == "mul":
            return self.multiply(f, forms[1])
        found: Form | None = None
        if fn == "div":
            found = self.divide(f, forms[1])
        elif fn == "exp":
            return self._exp(f, images[0], direct, box)
        elif fn == "log":
            found = self._log(f)
        elif fn in ("abs", "sqrt"):
            found = self._root(fn, f)
        elif fn == "where":
            found = self._where(images[0], forms[1], forms[2])
        elif fn in ("max", "min"):
            found = self._binary(fn, f, forms[1])
        if found is None:
            raise Refused(box, _REASONS.get(fn, f"{fn} of a sum of both is not a sum of products of them"))
        return found

    def additive(self, form: Form) -> tuple[Form, Form] | None:
        """A form as B + C, B of elements and early numbers, C of statistics; None if some term mixes the two."""
        early: list[Term] = []
        late: list[Term] = []
        for t in form:
            if self.is_early((t,)):
                early.append(t)
            elif t.element is None:
                late.append(t)
            else:
                return None
        return tuple(early), tuple(late)

    def _exp(self, form: Form, exponent: int, direct: int, box: Box) -> Form:
        parts = self.additive(form)
        if parts is None:
            node = self.terms.node(exponent)
            if node is not None and self.terms.made_by(exponent) == "where" and not self.terms.late[node.inputs[0]]:
                branches: list[Form] = []
                for wire in node.inputs[1:]:
                    if self.terms.is_bottom(wire):
                        branches.append(())
                        continue
                    made = self.terms.map("exp", wire)
                    branches.append(self._map("exp", [self.form_of(wire)], [wire], made, box))
                chosen = self._where(node.inputs[0], branches[0], branches[1])
                if chosen is not None:
                    return chosen
            raise Refused(box, "a statistic multiplies the elements in its exponent")
        elements, statistics = parts
        if not any(t.element is not None and self.has_axis(t.element) for t in elements):
            return ((Term(Fraction(1), ((self.terms.map("exp", self.emit(form)), 1),))),)
        kept, moved, guarded = self._split(self._expand(scaled(statistics, Fraction(-1))))
        return self._stabilised(elements, kept, moved, guarded, direct)

    def _stabilised(self, elements: Form, kept: Form, moved: Form, guarded: bool, direct: int) -> Form:
        """The exponential of `elements − kept − moved`, of which `kept` is the scale."""
        terms = self.terms
        monomial: Monomial = ()
        if moved:
            monomial = ((terms.map("exp", self.emit(scaled(moved, Fraction(-1)))), 1),)
        if not kept:
            return (Term(Fraction(1), monomial, terms.map("exp", self.emit(elements))),)
        scale = tuple(map(self._absorb, kept)) if self.mode == "plain" else kept
        element = direct
        if moved or scale != kept:
            element = terms.map("exp", terms.map("sub", self.emit(elements), self.emit(scale)))
        guards: tuple[int, ...] = ()
        if guarded:
            maxima = self._maxima(w for t in scale for w, _ in t.monomial)
            safe = {w: self._safe(w) for w in maxima}
            change = {w: terms.substitute(w, safe, self.components) for t in scale for w, _ in t.monomial}
            scale = tuple(Term(t.coefficient, tuple(sorted((change[w], p) for w, p in t.monomial))) for t in scale)
            element = terms.substitute(element, safe, self.components)
            guards = tuple(maxima) if self.mode != "shifted" else ()
        self.set_scale(element, Scale(tuple((t.coefficient, t.monomial) for t in scale), guards))
        self.exponents[element] = (*elements, *scaled(scale, Fraction(-1)))
        return (Term(Fraction(1), monomial, element),)

    def _maxima(self, wires: Iterable[int]) -> list[int]:
        """The components that are maxima among those which wires are made of."""
        cone = self.terms.cone(wires, self.components)
        return [w for w in cone if w in self.components and self.components[w].monoid == "max"]

    def _safe(self, wire: int) -> int:
        """A maximum with 0 for minus infinity, a real number on every list."""
        terms = self.terms
        bottom = terms.map("eq", wire, terms.const(None))
        ty = terms.types[wire]
        made = terms.map("where", bottom, terms.const(0), wire)
        node = terms.node(made)
        assert node is not None
        made = terms.add(Box(Map("where"), node.box.dom, Ty(ArrayType(ty.axes, "real"))), node.inputs)
        self.safe.add(made)
        return made

    def _expand(self, form: Form) -> Form:
        """Statistics that are sums, taken apart into their summands."""
        todo, found = list(form), []
        while todo:
            t = todo.pop(0)
            if t.bound:
                todo.insert(0, Term(Fraction(1), ((self.emit((t,)), 1),)))
                continue
            place = next((k for k, (w, p) in enumerate(t.monomial) if p == 1 and self._is_sum(w)), None)
            if place is None:
                found.append(t)
                continue
            wire = t.monomial[place][0]
            rest = times(t.monomial, ((wire, 1),), -1)
            for s in reversed(self._summands(wire)):
                todo.insert(0, Term(t.coefficient * s.coefficient, times(rest, s.monomial)))
        return collect(found)

    def _is_sum(self, wire: int) -> bool:
        node = self.terms.node(wire)
        if node is None or not self.terms.late[wire]:
            return False
        fn = self.terms.made_by(wire)
        if fn in ("mul", "div"):
            return sum(self.terms.late[w] for w in node.inputs) == 1 and (
                fn == "mul" or self.terms.late[node.inputs[0]]
            )
        return fn in ("add", "sub", "neg")

    def _summands(self, wire: int) -> Form:
        node = self.terms.node(wire)
        assert node is not None
        fn = self.terms.made_by(wire)
        parts = [self.atom(w) for w in node.inputs]
        if fn == "neg":
            return scaled(parts[0], Fraction(-1))
        if fn in ("mul", "div"):
            if fn == "mul":
                return self.multiply(parts[0], parts[1])
            return self.divide(parts[0], parts[1]) or ()
        return (*parts[0], *scaled(parts[1], Fraction(1 if fn == "add" else -1)))

    def _split(self, statistics: Form) -> tuple[Form, Form, bool]:
        """The summands of a scale: those kept in the loop, those moved out of it, and whether a guard is needed."""
        if self.mode == "none":
            return (), statistics, False
        kept, moved, guarded = [], [], self.mode != "plain"
        for t in statistics:
            late = [(w, p) for w, p in t.monomial if self.terms.late[w]]
            maxima = self._maxima(w for w, _ in late)
            if self.mode != "whole" and (any(p < 0 for _, p in late) or not self._total(w for w, _ in late)):
                moved.append(t)
                continue
            kept.append(t)
            bare = self._absorb(t)
            if maxima and not (
                bare.coefficient == 1 and len(bare.monomial) == 1 and self._is_maximum(bare.monomial[0])
            ):
                guarded = True
        return tuple(kept), tuple(moved), guarded

    def _is_maximum(self, factor: tuple[int, int]) -> bool:
        component = self.components.get(factor[0])
        return component is not None and component.monoid == "max" and factor[1] == 1

    def _total(self, wires: Iterable[int]) -> bool:
        """Whether statistics are defined whatever the components are."""
        for w in self.terms.cone(wires, self.components):
            node = self.terms.node(w)
            if w in self.components or node is None or not self.terms.late[w]:
                continue
            op = node.box.op
            if isinstance(op, Map):
                if op.fn not in _TOTAL and not (op.fn == "div" and not self.terms.late[node.inputs[1]]):
                    return False
            elif not isinstance(op, (Einsum, Rename)) and not (isinstance(op, Reduce) and op.monoid == "sum"):
                return False
        return True

    def _absorb(self, t: Term) -> Term:
        """An early factor of a scale taken into its component: `β·max_x S` is `max_x β·S` for β > 0."""
        late = [(w, p) for w, p in t.monomial if self.terms.late[w]]
        if len(late) != 1 or late[0][1] != 1 or t.bound:
            return t
        component = self.components.get(late[0][0])
        factors = times(t.monomial, tuple(late), -1)
        if component is None or component.scale is not None or (t.coefficient == 1 and not factors):
            return t
        if component.monoid == "sum" and all(self._closed(w) for w, _ in factors):
            return t
        node = self.terms.node(component.wire)
        if node is None or not isinstance(node.box.op, Reduce):
            return t
        positive = t.coefficient > 0 and all(self.terms.positive[w] for w, _ in factors)
        if not (component.monoid == "sum" or (component.monoid == "max" and positive)):
            return t
        element = self.emit((Term(t.coefficient, factors, node.inputs[0]),))
        made = self.terms.reduce(component.monoid, self.axis, element, component.line)
        return Term(Fraction(1), ((self._component(made, component.monoid, component.line), 1),))

    def _log(self, form: Form) -> Form | None:
        if len(form) != 1 or form[0].bound or form[0].coefficient <= 0:
            return None
        t = form[0]
        pieces: list[Form] = []
        if t.coefficient != 1:
            pieces.append(((Term(Fraction(1), ((self.terms.map("log", self.terms.const(t.coefficient)), 1),))),))
        for w, p in t.monomial:
            if not self.terms.positive[w]:
                return None
            pieces.append((Term(Fraction(p), ((self.terms.map("log", w), 1),)),))
        if t.element is not None:
            inside = self._log_element(t.element)
            if inside is None:
                return None
            pieces.append(inside)
        return collect(s for piece in pieces for s in piece)

    def _log_element(self, element: int) -> Form | None:
        factors = self.factors(element)
        if len(factors) > 1 and not all(self.terms.positive[w] for w in factors):
            return None
        found: list[Term] = []
        for w in factors:
            if w in self.exponents:
                found.extend(self.exponents[w])
                continue
            node = self.terms.node(w)
            if node is not None and self.terms.made_by(w) == "exp" and not self.terms.late[w]:
                found.extend(self.atom(node.inputs[0]))
                continue
            if w in self.scales:
                return None
            found.extend(self.atom(self.terms.map("log", w)))
        return tuple(found)

    def _root(self, fn: str, form: Form) -> Form | None:
        """`abs` and `sqrt` of a product; the statistics of a square root have to be positive."""
        if len(form) != 1 or form[0].bound:
            return None
        t = form[0]
        if fn == "sqrt" and (t.coefficient <= 0 or not all(self.terms.positive[w] for w, _ in t.monomial)):
            return None
        monomial = tuple(sorted((self.terms.map(fn, w), p) for w, p in t.monomial))
        coefficient = abs(t.coefficient)
        if fn == "sqrt" and coefficient != 1:
            monomial = times(monomial, ((self.terms.map("sqrt", self.terms.const(coefficient)), 1),))
            coefficient = Fraction(1)
        element = t.element
        if element is not None:
            made = self.terms.map(fn, element)
            half = Fraction(1, 2) if fn == "sqrt" else Fraction(1)
            old = self.scale(element)
            self.set_scale(made, Scale(tuple((half * c, m) for c, m in old.terms), old.guards))
            element = made
        return (Term(coefficient, monomial, element),)

    def _where(self, mask: int, yes: Form, no: Form) -> Form | None:
        terms = self.terms
        if terms.late[mask] and self.has_axis(mask):
            return None
        bottoms = [
            len(f) == 1 and f[0].coefficient == 1 and len(f[0].monomial) == 1 and terms.is_bottom(f[0].monomial[0][0])
            for f in (yes, no)
        ]
        if any(bottoms):
            parts = self.additive(no if bottoms[0] else yes)
            if parts is None or terms.late[mask]:
                return None
            chosen = (terms.const(None), self.emit(parts[0]))
            inside = terms.map("where", mask, *(chosen if bottoms[0] else chosen[::-1]))
            return (*self.atom(inside), *parts[1])
        found = []
        zero = terms.const(0)

        def pick(wire: int, first: bool) -> int:
            return terms.map("where", mask, wire, zero) if first else terms.map("where", mask, zero, wire)

        for first, form in ((True, yes), (False, no)):
            for t in form:
                for axis in t.bound:
                    if axis.name in terms.names(mask):
                        t = self.rebind(t, axis, self.term_axes(t) | set(terms.names(mask)))
                if self.has_axis(mask):
                    element = pick(terms.const(1) if t.element is None else t.element, first)
                    self.set_scale(element, self.scale(t.element))
                    found.append(Term(t.coefficient, t.monomial, element, t.bound))
                else:
                    outer = self.emit_term(Term(Fraction(1), t.monomial))
                    found.append(Term(t.coefficient, ((pick(outer, first), 1),), t.element, t.bound))
        return collect(found)

    def _binary(self, fn: str, left: Form, right: Form) -> Form | None:
        """max or min of `B + C` and `B′ + C`: the statistics that both have are pulled out."""
        parts = self.additive(left), self.additive(right)
        if parts[0] is None or parts[1] is None or set(parts[0][1]) != set(parts[1][1]):
            return None
        inside = self.terms.map(fn, self.emit(parts[0][0]), self.emit(parts[1][0]))
        return (*self.atom(inside), *parts[0][1])

    # -- reductions -------------------------------------------------------------------------------

    def _extremum(self, op: Reduce, form: Form, box: Box) -> Form:
        """max or min over any axis: statistics free of that axis are pulled out, added or as positive factors."""
        reduce = self._reduce_over(op, box)
        parts = self.additive(form)
        if parts is not None and not any(t.element in self.scales for t in parts[0]):
            inner, outer = parts
            if not any(op.axis in self.term_axes(t) for t in outer):
                wire = self.emit(inner)
                made = self.atom(reduce(wire) if op.axis in self.terms.names(wire) else wire) if inner else ()
                return collect((*made, *outer))
        elif len(form) == 1 and form[0].coefficient > 0 and not form[0].bound and form[0].element is not None:
            t, element = form[0], form[0].element
            free = not any(op.axis in self.terms.names(w) for w, _ in t.monomial)
            outer = (Term(t.coefficient, t.monomial),)
            if free and all(self.terms.positive[w] for w, _ in t.monomial):
                if element not in self.scales:
                    return self.multiply(self.atom(reduce(element)), outer)
                inside = self._log_element(element) if self.terms.made_by(element) == "exp" else None
                if inside is not None and op.axis == self.axis:
                    top = self.emit(self._extremum(op, inside, box))
                    return self.multiply(self.atom(self.terms.map("exp", top)), outer)
        raise Refused(box, f"{op.monoid} commutes with adding statistics, and with positive factors, to nothing else")

    def _reduce_over(self, op: Reduce, box: Box) -> Callable[[int], int]:
        def reduce(wire: int) -> int:
            if op.axis != self.axis:
                return self.terms.reduce(op.monoid, op.axis, wire, box.line)
            if op.monoid == "max":
                return self._component(self.terms.reduce("max", op.axis, wire, box.line), "max", box.line)
            below = self.terms.map("neg", wire)
            made = self._component(self.terms.reduce("max", op.axis, below, box.line), "max", box.line)
            return self.terms.map("neg", made)

        return reduce

    def _reduction(self, node: Node) -> int:
        box, op = node.box, node.box.op
        try:
            forms = [self.form_of(self.image[w]) for w in node.inputs]
            if isinstance(op, Einsum) or (isinstance(op, Reduce) and op.monoid == "sum"):
                form = self.contract(forms, list(box.dom), box.cod[0].names, box.line)
            elif isinstance(op, Reduce) and op.monoid in ("max", "min"):
                form = self._extremum(op, forms[0], box)
            else:
                form = self._pure(box, forms[0])
        except Refused as refused:
            wire = next(self.image[w] for w in node.inputs if self.image[w] in self.forms)
            at = f" ({refused.box.line})" if refused.box.line else ""
            raise NotStreamable(
                f"cannot stream axis {self.axis!r}: the elements of {box.name} are not a sum of products of a part "
                f"free of {self.axis!r} and a part known block by block. At {refused.box.name}{at} they depend on "
                f"{self._depends(wire)}, known only at the end of the axis, and no repair is known: {refused.why}",
                box.line,
            ) from None
        wire = self.terms.cast(self.emit(form), box.cod[0])
        self.origin.setdefault(wire, box)
        return wire

    def _pure(self, box: Box, form: Form) -> Form:
        op = box.op
        assert isinstance(op, Reduce)
        if not self.is_early(form) or any(t.element in self.scales for t in form):
            raise Refused(box, f"{op.monoid} does not distribute over what statistics do to its elements")
        wire = self.terms.cast(self.emit(form), box.dom[0])
        return self.atom(self._component(self.terms.add(box, (wire,)), op.monoid, box.line))

    def _component(self, wire: int, monoid: str, line: str | None) -> int:
        if wire not in self.components:
            self.terms.mark(wire)
            self.components[wire] = Component(wire, monoid, line)
            if self._here is not None:
                self.origin.setdefault(wire, self._here)
        return wire

    def close(self, wire: int, scale: Scale, line: str | None) -> int:
        """A sum over the axis becomes a component, with the repair that its elements' scale asks for."""
        known = wire in self.components
        self._component(wire, "sum", line)
        if not scale or known:
            return wire
        component = self.components[wire]
        component.scale, component.guards = self.emit_scale(scale), scale.guards
        carried: dict[int, int] = {}
        for w in self.terms.cone([component.scale], self.components):
            node = self.terms.node(w)
            if node is None or w in self.components or not self.terms.late[w]:
                continue
            for i in node.inputs:
                if i not in carried and not self.terms.late[i] and not self._closed(i):
                    carried[i] = self._carried(i)
        if carried:
            safe = {w: self._safe(made) for w, made in carried.items()}
            component.scale = self.terms.substitute(component.scale, safe, self.components)
            component.guards = scale.guards or tuple(carried.values())
        return wire

    def _closed(self, wire: int) -> bool:
        """Whether constants alone make an early wire, so that a merge can make it again."""
        ops = [node.box.op if (node := self.terms.node(w)) is not None else None for w in self.terms.cone([wire])]
        return not any(op is None or isinstance(op, (SizeOf, Index)) for op in ops)

    def _carried(self, wire: int) -> int:
        """An array that the repair needs and that is no statistic, kept in the state as its maximum over the axis."""
        ty = self.terms.types[wire]
        repeated = self.terms.cast(wire, ArrayType((*ty.axes, self.streamed), ty.element))
        return self._component(self.terms.reduce("max", self.axis, repeated), "max", None)


_REASONS = {
    "div": "a divisor that adds elements and statistics cannot be split",
    "log": "the logarithm of such a sum cannot be split, nor that of a product of which a factor may be negative",
    "where": "the condition itself depends on the statistics element by element",
}
