"""The cascade of reductions over an axis: which accumulators a diagram needs, and how each of them is repaired.

This is an abstract interpretation of the flat diagram. Each wire is mapped to a wire of a new graph. There every
reduction over the axis is a sum of statistics times *components*. A component is a reduction over the axis of elements,
and no other box of the new graph reads the whole axis at once.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction

from catdiag.category import ops
from catdiag.category.diagram import Diagram, Node
from catdiag.category.named_axes import named_axes
from catdiag.category.op_facts import is_reshape, reduced_axes, scalar_function
from catdiag.category.ops import Box, op_fact
from catdiag.category.types import Axis
from catdiag.rewrite.hash_consed_graph import HashConsedGraph
from catdiag.rewrite.stream.hoisting import Distribution
from catdiag.rewrite.stream.separable_form import Form, NotSeparable, SeparableTerm, times
from catdiag.util.errors import NotStreamable


class Cascade(Distribution):
    """The result of `analyze`: the new graph, the components, and the wires of the diagram's outputs."""

    def __init__(self, terms: HashConsedGraph, axis: Axis, mode: str = "plain") -> None:
        super().__init__(terms, axis, mode)
        self.outside: set[int] = set()
        self.outputs: tuple[int, ...] = ()
        self.postponed: set[int] = set()
        self.refusals: list[NotStreamable] = []
        # Products, by wire, of the statistics that have a factor which was moved out of the loop.
        self.products: dict[int, Form] = {}

    def atom(self, wire: int) -> Form:
        """The form of a wire without a rule: a product, for a statistic with a factor that was moved out of
        the loop.
        """
        return self.products[wire] if wire in self.products else super().atom(wire)

    def has_factors(self) -> bool:
        """Whether some elements are divided by a statistic that a later block may change."""
        return any(c.factor for c in self.components.values())

    def read(self, diagram: Diagram, patient: bool = False) -> None:
        """Reads the boxes of a flat diagram; raises NotStreamable.

        With `patient`, boxes that cannot be streamed, and everything that depends on them, are left for a later pass:
        `postponed` are the diagram's wires that they make, `refusals` the reasons.
        """
        for node in diagram.graph.nodes:
            first = len(self.image)
            waits = any(w in self.postponed for w in node.inputs)
            if not waits:
                try:
                    self._read(node)
                    continue
                except NotStreamable as error:
                    if not patient:
                        raise
                    self.refusals.append(error)
            made = self.graph.add(node.box, [self.image[w] for w in node.inputs])
            self.image[first:] = range(made, made + len(node.box.cod))
            self.postponed.update(range(first, len(self.image)))

    def _read(self, node: Node) -> None:
        """Reads one box: records the new wires of its results, and their form if they depend on both elements and
        statistics.
        """
        self.here = node.box
        if reduces(node.box, self.axis):
            self.image.append(self._reduction(node))
            return
        inputs = [self.image[w] for w in node.inputs]
        if any(w in self.products for w in inputs) and not any(map(self.has_axis, inputs)):
            self.image.append(self._of_products(node.box, inputs))
            return
        first = self.graph.add(node.box, inputs)
        wires = range(first, first + len(node.box.cod))
        mixed = [w for w in wires if self.has_axis(w) and self.graph.late[w]]
        takes = any(self.has_axis(w) for w in inputs)
        if not self._is_weaved(node.box) and (takes or any(map(self.has_axis, wires))):
            if any(self.graph.late[w] for w in wires):
                self._refuse_mixer(node)
            self.outside.update(wires)
        if self._is_view(node.box, inputs):
            self.outside.update(wires)
        self.image.extend(wires)
        if mixed and mixed[0] not in self.forms:
            form = self._form(node, mixed[0])
            self.forms[mixed[0]] = form
            if not isinstance(form, NotSeparable) and len(form) == 1 and self.is_selection(form[0]):
                self.image[-1] = self.emit(form)

    def _of_products(self, box: Box, inputs: list[int]) -> int:
        """A box on statistics that have exponential factors from outside the loop, with cancelling factors removed.

        `exp(a)·s / (exp(a)·l)` is s/l, and `log(exp(a)·s)` is a + log s, so that exp(a), which may overflow, is not
        computed.
        """
        terms, op = self.graph, box.op
        forms = [self.atom(w) for w in inputs]
        fn = scalar_function(op)
        found: Form | None = None
        if fn in ("mul", "div"):
            found = self.multiply(*forms) if fn == "mul" else self.divide(*forms)
        elif isinstance(op, ops.Rename) and len(terms.names(inputs[0])) == len(box.cod[0].names):
            found = self.renamed(dict(op.pairs), forms[0])
            self.factors_moved.update(terms.rename(w, dict(op.pairs)) for w in list(self.factors_moved))
        elif fn == "log":
            return terms.cast(self.emit(self._logarithm_of(forms[0])), box.cod[0])
        if found is not None and not any(w in self.factors_moved for t in found for w, _ in t.monomial):
            return terms.cast(self.emit(found), box.cod[0])
        made = terms.add(box, inputs)
        if found is not None and len(found) == 1:
            self.products[made] = found
        return made

    def _logarithm_of(self, form: Form) -> Form:
        """The logarithm of a product, where factors that were moved out of the loop become summands."""
        (t,) = form
        outer: list[SeparableTerm] = []
        rest = t.monomial
        for w, p in t.monomial:
            node = self.graph.node(w)
            if w in self.factors_moved and node is not None:
                inside = node.inputs[0] if self.graph.function_of(w) == "exp" else self.graph.map("log", w)
                outer.append(SeparableTerm(Fraction(p), ((inside, 1),)))
                rest = times(rest, ((w, p),), -1)
        below = self.graph.map("log", self.emit((SeparableTerm(t.coefficient, rest),)))
        return (*outer, SeparableTerm(Fraction(1), ((below, 1),)))

    def refuse_retained_axis(self, diagram: Diagram) -> NotStreamable:
        """The error for a result that has the streamed axis."""
        place = next(k for k, ty in enumerate(diagram.cod) if self.axis in ty.names)
        wire = self.image[diagram.graph.outputs[place]]
        known = f" (it depends on {self._depends(wire)})" if self.graph.late[wire] else ""
        return NotStreamable(
            f"cannot stream axis {self.axis!r}: the result {diagram.cod[place]} keeps it{known}, and a stream ends in "
            f"statistics that are free of its axis; reduce the result over {self.axis!r}, or group it instead"
        )

    def analyze(self, diagram: Diagram) -> None:
        """Reads a flat diagram, and keeps the components that its outputs need; raises NotStreamable."""
        self.read(diagram)
        if any(self.axis in ty.names for ty in diagram.cod):
            raise self.refuse_retained_axis(diagram)
        self.outputs = tuple(self.image[w] for w in diagram.graph.outputs)
        needed = set(self.graph.cone(self.outputs))
        while True:
            more = [
                s
                for c in self.components.values()
                if c.wire in needed
                for s in (*c.scales(), *c.guards, *c.on, c.reset_value)
                if s is not None
            ]
            wider = set(self.graph.cone([*needed, *more]))
            if wider == needed:
                break
            needed = wider
        self.components = {w: c for w, c in self.components.items() if w in needed}
        if not self.components and self.origin:
            raise NotStreamable(
                f"cannot stream axis {self.axis!r}: what is reduced over it cancels, and the result does not "
                "depend on it; remove the reduction"
            )
        if not self.components:
            raise NotStreamable(
                f"cannot stream axis {self.axis!r}: nothing is reduced over it; expected a sum, max or einsum over it"
            )

    def _is_weaved(self, box: Box) -> bool:
        """Whether a box that does not reduce over the axis acts on each of its positions independently."""
        return not isinstance(box.op, (*ops.NESTING, ops.Generic)) and self.axis not in named_axes(box)

    def _is_view(self, box: Box, inputs: Sequence[int]) -> bool:
        """Whether a box is a view of inputs of the diagram that is computed outside of the loop.

        Splits and merges of axes cost nothing outside. A gather stays outside since its indices are known to be in
        range as a whole, which cannot be proved for a block of them.
        """
        op = box.op
        read = inputs[: len(op.reads)] if isinstance(op, ops.View) else inputs
        given = all(self.graph.node(w) is None or w in self.outside for w in read)
        given = given and not any(self.graph.late[w] for w in inputs)
        if not given or isinstance(op, ops.Rename):
            return False
        return is_reshape(box) or (isinstance(op, ops.View) and op.trusts_inputs())

    def _refuse_mixer(self, node: Node) -> None:
        """Raises NotStreamable for a box that mixes positions of the axis and depends on a statistic."""
        box, why = node.box, op_fact(MIXERS, node.box.op) or "it needs the whole axis"
        late = next(w for w in node.inputs if self.graph.late[self.image[w]])
        raise NotStreamable(
            f"cannot stream axis {self.axis!r}: {box.name} reads it, {why}, and its input depends on "
            f"{self._depends(self.image[late])}, which is known only at the end of the axis",
            box.line,
        )

    def _depends(self, wire: int) -> str:
        """The reductions over the axis that a wire depends on, as names and source lines."""
        boxes = dict.fromkeys(self.origin[w] for w in self.graph.cone([wire]) if w in self.origin)
        return ", ".join(f"{b.name}" + (f" ({b.line})" if b.line else "") for b in boxes) or "a reduction over it"

    def _form(self, node: Node, wire: int) -> Form | NotSeparable:
        try:
            forms = [self.form_of(self.image[w]) for w in node.inputs]
            return self.rule(node, forms, wire)
        except NotSeparable as refused:
            return refused

    def _moved(self, node: Node) -> int | None:
        """A reduction with operations that involve statistics moved out of it; None where that is not possible."""
        op = node.box.op
        if not isinstance(op, ops.Reduce) or self.plain:
            return None
        known = dict(self.components)
        try:
            wire = self.moved_out(op.monoid, self.image[node.inputs[0]], node.box)
        except NotSeparable:
            self.components = known
            return None
        wire = self.graph.cast(wire, node.box.cod[0])
        self.origin.setdefault(wire, node.box)
        return wire

    def _reduction(self, node: Node) -> int:
        """The wire of a reduction over the axis. Raises NotStreamable where its elements have no separable form."""
        box = node.box
        try:
            forms = [self.form_of(self.image[w]) for w in node.inputs]
            form = self.reduction(box, forms)
            if form is None:
                form = self.pure(box, forms[0])
        except NotSeparable as refused:
            moved = self._moved(node)
            if moved is not None:
                return moved
            images = [self.image[w] for w in node.inputs]
            wire = next((w for w in images if w in self.forms), images[0])
            at = f" ({refused.box.line})" if refused.box.line else ""
            raise NotStreamable(
                f"cannot stream axis {self.axis!r}: the elements of {box.name} are not a sum of products of a part "
                f"free of {self.axis!r} and a part known block by block. At {refused.box.name}{at} they depend on "
                f"{self._depends(wire)}, known only at the end of the axis, and no repair is known: {refused.reason}",
                box.line,
            ) from None
        wire = self.graph.cast(self.emit(form), box.cod[0])
        if len(form) == 1 and any(w in self.factors_moved for w, _ in form[0].monomial):
            self.products[wire] = form
        self.origin.setdefault(wire, box)
        return wire


MIXERS: Mapping[type[ops.Op], str] = {
    ops.FoldOp: "it runs in a loop or in groups already",
    ops.GroupOp: "it runs in a loop or in groups already",
    ops.View: "its positions along the axis are computed",
    ops.Generic: "nothing is known of what it does along the axis",
}
"""Why an operation needs more than one position of an axis at a time, where its name does not say it."""


def reduces(box: Box, axis: str) -> bool:
    """Whether a box reduces over an axis.

    >>> from catdiag.category.ops import reduce_box
    >>> from catdiag.category.types import ArrayType
    >>> reduces(reduce_box("sum", "x", ArrayType((Axis("x"),))), "x")
    True
    """
    return axis in reduced_axes(box)
