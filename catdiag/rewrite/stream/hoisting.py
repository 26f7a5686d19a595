"""Hoisting: operations with statistics moved out of a reduction that they distribute over, ⊕_x (r ⊗ e) = r ⊗ ⊕_x e.

Sums of products are covered by separable forms. For other elements the outermost operation is moved out, one after the
other, until the rest has a form:

    ⊕_x where(c, a, b) = where(c, ⊕_x a, ⊕_x b)      c free of x, any ⊕
    ⊕_x cast(e) = cast(⊕_x e)                         a cast is the identity
    max_x f(e) = f(max_x e), = f(min_x e)             f rising, or falling: adding, positive factors, signs, exp, …
    max_x max(a, b) = max(max_x a, max_x b)           min, any, all, Σ, Π over their own operation likewise
    max_x min(e, r) = min(max_x e, r)                 and min_x max(e, r) = max(min_x e, r)
    any_x (e ∧ r) = any_x e ∧ r, any_x (e ∨ r) = any_x e ∨ r, any_x (e < r) = min_x e < r, all_x likewise
    Π_x (e·r) = Π_x e · exp(n·log r)                  r > 0, n the size of x

An axis is not empty, so that ⊕_x r = r for an r free of x and an idempotent ⊕ (derived here, from A3, A7 and A8).
"""

from __future__ import annotations

from catdiag.category.ops import Box, Map, Reduce, Rename, reduce_box
from catdiag.category.scalars import Cast, ScalarFunction
from catdiag.category.types import ArrayType
from catdiag.rewrite.stream.separable_form import NotSeparable
from catdiag.rewrite.stream.separation_rules import Rules

_DEEPEST = 24  # the most operations moved out of one reduction
_DUAL = {"max": "min", "min": "max", "any": "all", "all": "any"}
_OWN = {"max": "max", "min": "min", "any": "or", "all": "and", "prod": "mul"}
_RISING = ("add", "sub", "exp", "sqrt", "log")


class Distribution(Rules):
    """Reductions whose elements have no separable form, with operations moved out of them."""

    def moved_out(self, monoid: str, wire: int, box: Box, depth: int = _DEEPEST) -> int:
        """⊕_x of a wire with operations moved out; `depth` bounds their number. Raises NotSeparable where that is not
        possible.
        """
        terms = self.graph
        if not self.has_axis(wire):
            return self._of_constant(monoid, wire, box)
        try:
            return self._with_form(monoid, wire, box)
        except NotSeparable as refused:
            node = terms.node(wire)
            if node is None or depth == 0 or not isinstance(node.box.op, (Map, Rename)):
                raise
            reason = refused

        def inner(w: int, over: str = monoid) -> int:
            return self.moved_out(over, w, box, depth - 1)

        if isinstance(node.box.op, Rename):
            pairs = dict(node.box.op.pairs)
            if self.axis in {*pairs, *pairs.values()} or len(terms.names(wire)) > len(terms.names(node.inputs[0])):
                raise reason
            return terms.rename(inner(node.inputs[0]), pairs)
        fn, args = node.box.op.fn, node.inputs
        inside = [k for k, w in enumerate(args) if self.has_axis(w)]
        if isinstance(fn, Cast):
            return terms.map(fn, inner(args[0]), line=node.box.line)
        if fn == "where" and 0 not in inside:
            return terms.map("where", args[0], inner(args[1]), inner(args[2]))
        if fn == _OWN.get(monoid) or (monoid, fn) in (("sum", "add"), ("sum", "sub"), ("prod", "div")):
            return terms.map(fn, inner(args[0]), inner(args[1]))
        if monoid == "max" and fn == "abs":
            return terms.map("max", inner(args[0]), terms.map("neg", inner(args[0], "min")))
        if len(inside) != 1:
            raise reason
        place = inside[0]
        over = self._inside(monoid, fn, place, args[place], [w for k, w in enumerate(args) if k != place])
        if over is None:
            raise reason
        return terms.map(fn, *(inner(w, over) if k == place else w for k, w in enumerate(args)))

    def _inside(self, monoid: str, fn: ScalarFunction, place: int, inside: int, others: list[int]) -> str | None:
        """The monoid that the argument of a function is reduced by after the function is moved out; None where it
        cannot be.
        """
        positive = all(self.graph.positive[w] for w in others)
        if monoid in ("max", "min"):
            if fn in ("mul", "div") and positive and (fn == "mul" or place == 0):
                return monoid
            if fn == "neg" or (fn == "sub" and place == 1):
                return _DUAL[monoid]
            # Elements that are clamped from both sides are not proved.
            if fn in ("max", "min") and self.graph.function_of(inside) not in ("max", "min"):
                return monoid
            return monoid if fn in _RISING else None
        if monoid in ("any", "all"):
            if fn in ("and", "or"):
                return monoid
            if fn == "not":
                return _DUAL[monoid]
            if fn in ("lt", "le"):
                # e < r for some e iff min e < r; for all e iff max e < r.
                return "min" if (monoid == "any") == (place == 0) else "max"
        return "sum" if (monoid, fn) == ("prod", "exp") else None

    def _of_constant(self, monoid: str, wire: int, box: Box) -> int:
        """⊕_x of a wire that does not depend on x. Raises NotSeparable for a product of numbers that may be
        negative.
        """
        terms = self.graph
        if monoid in _DUAL:
            return wire
        value = terms.const_value(wire)
        if value == (0 if monoid == "sum" else 1):
            return wire
        size = terms.size(self.streamed.size)
        if monoid == "sum":
            return terms.map("mul", size, wire)
        if terms.positive[wire]:
            return terms.map("exp", terms.map("mul", size, terms.map("log", wire)))
        raise NotSeparable(box, "a product over an axis of a factor that may be negative is no power of that factor")

    def _with_form(self, monoid: str, wire: int, box: Box) -> int:
        """⊕_x of a wire that has a separable form."""
        terms = self.graph
        if wire not in self.forms and terms.late[wire] and not self.selected(wire, []):
            raise NotSeparable(box, "it is no sum of products")
        form = self.form_of(wire)
        ty = terms.types[wire]
        made = reduce_box(monoid, self.axis, ty, box.line)
        if monoid == "sum":
            found = self.contract([form], [ty], made.cod[0].names, box.line)
        elif monoid in ("max", "min"):
            op = made.op
            assert isinstance(op, Reduce)
            found = self.extremum(op, form, made)
        else:
            found = self.pure(made, form)
        value = self.emit(found)
        fitted = ArrayType(made.cod[0].axes, terms.types[value].element)
        return terms.cast(value, fitted)
