"""Skipped blocks (block sparsity): the iterations of a loop that a mask makes irrelevant are not run.

Let every reduction of the loop take the unit of its monoid as element wherever a condition c is false (`skip_support`
finds c). Then a block on which c holds nowhere changes no state (derived here). The comparisons in c are solved for the
position along the streamed axis. This gives loop bounds. Where the bounds do not say all that c says, each block is
tested at run time. The equation of the result is proved by the kernel, as for any rewrite.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

from catdiag.category.box_types import check_box
from catdiag.category.diagram import Diagram, Graph, Node, with_boxes
from catdiag.category.ops import Box, FoldOp, GroupOp, Index, Map, Rename, const_box
from catdiag.category.substitution import inline
from catdiag.category.traversal import all_boxes
from catdiag.frontend.builder import program
from catdiag.prover.api import Refuted
from catdiag.rewrite.derivation import Derivation, NotProved, titled
from catdiag.rewrite.hash_consed_graph import HashConsedGraph
from catdiag.rewrite.skip_counterexample import false_skip
from catdiag.rewrite.skip_support import Support, body
from catdiag.rewrite.steps import Skip
from catdiag.rewrite.stream.user_fold_counterexample import MANY
from catdiag.util.errors import AxisError, NotStreamable, SignatureError, TypeMismatch

_NEGATED = {"lt": "le", "le": "lt"}


Guide = Diagram | Callable[..., object]
"""What a user gives as bounds or condition: a diagram of the loop's inputs, or a function of some of them, by name."""


def skip(
    derivation: Derivation, axis: str, bounds: Guide | None = None, live: Guide | None = None, *, tested: bool = True
) -> Derivation:
    """With the blocks of a streamed axis that a mask makes irrelevant skipped, for all block sizes.

    The loop runs from the first to the last block that some row needs, as far as the mask compares positions along the
    axis. Where these bounds do not say all that the mask says, each block is tested, and skipped where its mask is
    false everywhere: a loop that tests blocks loads none ahead. With `tested=False` it runs all blocks between the
    bounds.

    `bounds` and `live` replace what is found. `bounds` is a function of some of the loop's inputs, by name, to integers
    lo and hi: only positions lo ≤ p < hi matter. It may give arrays of integers; then the union over their elements
    counts. `live` is such a function to truth values: true where an element matters. They are proved, or refuted with a
    list, its blocks and the change of the result.

    Raises NotStreamable, naming the state, where a state takes elements from every block, and where the equation was
    not proved; AxisError where no loop runs over the axis; Refuted; SignatureError and TypeMismatch for functions that
    do not fit the loop.
    """
    for box in all_boxes(derivation.diagram):
        if isinstance(box.op, FoldOp) and box.op.axis == axis and box.op.emitted:
            raise NotStreamable(
                f"the loop over {axis!r} makes a block of some results in each iteration, and blocks that it skips "
                f"would not be made: stream the results that lack {axis!r} in a program of their own",
                box.line,
            )
    prefix = derivation.diagram.title or "it"
    how = f"{axis!r}{'' if tested else ', tested=False'}"
    skipped = titled(find(derivation.diagram, axis, bounds, live, tested=tested), f"{prefix}.skip({how})")
    ungrouped = find(derivation.base, axis, bounds, live, tested=tested)
    try:
        theorem = derivation.prove(skipped)
    except NotProved as error:
        if bounds is not None or live is not None:
            found = false_skip(derivation.source, ungrouped, axis, MANY, derivation.assume)
            if found is not None:
                changed = derivation.source.title or "the diagram"
                raise Refuted(f"skipping blocks of {axis!r} changes {changed}", found) from None
        raise NotStreamable(
            f"that the masked blocks of {axis!r} may be skipped was not proved: {error.reason}"
        ) from error
    return derivation.then(Skip(axis, tested), skipped, theorem, ungrouped=ungrouped)


def find(
    diagram: Diagram, axis: str, bounds: Guide | None = None, live: Guide | None = None, *, tested: bool = True
) -> Diagram:
    """The diagram with blocks of its loop over an axis skipped where a mask makes them irrelevant; nothing is proved
    here.

    >>> import catdiag as cd
    >>> total = cd.algorithm("x -> ")(lambda a: cd.sum(cd.where(cd.index("x") < 3, a, 0), "x"))
    >>> skipped = find(total.stream("x").diagram, "x")
    >>> [box.op.bounds is not None for box in skipped.boxes if box.name == "fold[x]"]
    [True]

    `bounds` and `live`, where given, replace what is found; see `skip`. Raises AxisError where no loop runs over the
    axis, NotStreamable where some state takes elements from every block, SignatureError or TypeMismatch for functions
    that do not fit the loop.
    """
    given = (bounds, live, tested)
    flat = inline(diagram)
    for place, node in enumerate(flat.graph.nodes):
        op = node.box.op
        if isinstance(op, GroupOp):
            inner = inline(op.body)
            positions = _positions(flat.graph, place)
            for k, within in enumerate(inner.graph.nodes):
                if isinstance(within.box.op, FoldOp) and within.box.op.axis == axis:
                    made = _put(inner, k, _skipping(within, _positions(inner.graph, k, positions), given))
                    return _put(flat, place, replace(op, body=made))
        elif isinstance(op, FoldOp) and op.axis == axis:
            return _put(flat, place, _skipping(node, _positions(flat.graph, place), given))
    raise AxisError(f"no loop runs over axis {axis!r}: use .stream({axis!r}) first")


def _put(diagram: Diagram, place: int, op: FoldOp | GroupOp) -> Diagram:
    """The diagram with another operation at the node number `place`."""
    return with_boxes(diagram, {place: replace(diagram.graph.nodes[place].box, op=op)})


def _positions(graph: Graph, place: int, given: Sequence[str | None] = ()) -> list[str | None]:
    """For each input of a box the axis whose positions it carries, None for other inputs. `given` is the same for the
    diagram's inputs.
    """
    known: list[str | None] = [*given, *[None] * (len(graph.dom) - len(given))]
    for node in graph.nodes:
        op = node.box.op
        same = (
            known[node.inputs[0]]
            if isinstance(op, Rename) and not op.pairs and len(node.box.cod[0].axes) == 1
            else None
        )
        known.extend([op.axis if isinstance(op, Index) else same] * len(node.box.cod))
    return [known[w] for w in graph.nodes[place].inputs]


def _skipping(node: Node, positions: Sequence[str | None], given: tuple[Guide | None, Guide | None, bool]) -> FoldOp:
    """The loop of a node with loop bounds and a condition per block: the user's where given, else those found. The
    last that is given says whether blocks are tested."""
    fold, (bounds, live, tested) = node.box.op, given
    assert isinstance(fold, FoldOp)
    if live is None:
        found = _found(node, positions)
    else:
        found = replace(fold, is_live=_guide("live", live, fold, positions), bounds=None, tests_blocks=bounds is None)
    if bounds is not None:
        found = replace(found, bounds=_guide("bounds", bounds, fold, positions), tests_blocks=False)
    if not tested and found.bounds is None:
        raise NotStreamable(
            f"the loop over {fold.axis!r} has no bounds: its mask does not compare positions along it, so that blocks "
            "can only be tested",
            node.box.line,
        )
    found = found if tested else replace(found, tests_blocks=False)
    check_box(Box(found, node.box.dom, node.box.cod, node.box.line))
    return found


def _guide(name: str, guide: Guide, fold: FoldOp, positions: Sequence[str | None]) -> Diagram:
    """A user's function or diagram as a diagram over the loop's inputs. Positions along axes are read from the inputs
    that carry them.
    """
    names, dom = fold.state.input_names, fold.state.dom
    made = getattr(guide, "diagram", guide)
    if not isinstance(made, Diagram):
        if not callable(made):
            raise TypeMismatch(f"{name} of the loop over {fold.axis!r} is {made!r}: expected a function or a diagram")
        function, known = made, dict(zip(names, range(len(names)), strict=True))
        try:
            wanted = list(inspect.signature(function).parameters)
        except ValueError as error:  # a class or function of Python's own, which has no parameters to be read
            raise TypeMismatch(
                f"{name} of the loop over {fold.axis!r} is {made!r}, whose parameters have no names: expected a "
                f"function of some of {', '.join(names)}, such as lambda {names[0] if names else ''}: …"
            ) from error
        unknown = [n for n in wanted if n not in known]
        if unknown:
            raise SignatureError(
                f"{name} of the loop over {fold.axis!r} takes {unknown[0]!r}: expected some of {', '.join(names)}"
            )
        made = program(list(dom), lambda *arrays: function(*(arrays[known[n]] for n in wanted)), names)
    flat, terms = inline(made), HashConsedGraph(dom)
    places = {axis: k for k, axis in enumerate(positions) if axis is not None}
    env = list(range(len(dom)))
    for node in flat.graph.nodes:
        op = node.box.op
        if isinstance(op, Index) and op.axis in places:
            env.append(places[op.axis])
            continue
        first = terms.add(node.box, [env[w] for w in node.inputs])
        env.extend(range(first, first + len(node.box.cod)))
    outputs = []
    for w in (env[w] for w in flat.graph.outputs):
        value = terms.const_value(w)
        whole = value is not None and value.denominator == 1 and name == "bounds"
        outputs.append(terms.add(const_box(value, "int"), ()) if whole else w)
    return body(terms, outputs, names)


def _found(node: Node, positions: Sequence[str | None]) -> FoldOp:
    """The loop with the bounds and the condition that follow from its masks. Raises NotStreamable where a state has no
    mask.
    """
    fold = node.box.op
    assert isinstance(fold, FoldOp)
    support = Support(fold)
    conditions = support.of_components()
    for k, condition in enumerate(conditions):
        if condition is True:
            name = fold.components[k] if k < len(fold.components) else f"state {k + 1}"
            raise NotStreamable(
                f"cannot skip blocks of the loop over {fold.axis!r}: {name} takes every element, none is known to "
                "be the unit of its reduction; expected a mask, as in cd.where(mask, a, -float('inf')) under a maximum "
                "or cd.where(mask, a, 0) under a sum",
                node.box.line,
            )
    wanted = support.either(conditions)
    terms, names = support.graph, fold.state.input_names
    if isinstance(wanted, bool):
        # No element matters: a loop without iterations.
        zero, never = terms.size(0), terms.map("lt", terms.size(0), terms.size(0))
        return replace(
            fold, is_live=body(terms, (never,), names), bounds=body(terms, (zero, zero), names), tests_blocks=False
        )
    bounds = _Bounds(support, positions).of(wanted)
    extent: Diagram | None = None
    if bounds.lo is not None or bounds.hi is not None:
        block = next(a.size for ty in fold.state.dom for a in ty.axes if a.name == fold.axis)
        lo = terms.size(0) if bounds.lo is None else bounds.lo
        hi = terms.size(block) if bounds.hi is None else bounds.hi
        extent = body(terms, (lo, hi), names)
    return replace(fold, is_live=body(terms, (wanted,), names), bounds=extent, tests_blocks=not bounds.whole)


@dataclass(frozen=True)
class _IndexInterval:
    """Bounds lo ≤ p < hi of the positions where a condition may hold (None: unbounded). `whole`: the condition is
    equivalent to them.
    """

    lo: int | None = None
    hi: int | None = None
    whole: bool = False


class _Bounds:
    """Solves a condition for the position along the streamed axis, by interval arithmetic over its comparisons."""

    def __init__(self, support: Support, positions: Sequence[str | None]) -> None:
        self.support, self.graph, self.axis = support, support.graph, support.fold.axis
        self.places = {k for k, axis in enumerate(positions) if axis == self.axis}

    def of(self, wire: int, holds: bool = True) -> _IndexInterval:
        """The interval outside of which the condition (its negation, unless `holds`) is false."""
        terms, node = self.graph, self.graph.node(wire)
        if self.axis not in terms.names(wire):
            return _IndexInterval()
        if node is None:
            return _IndexInterval()
        fn = terms.function_of(wire)
        if fn == "not":
            return self.of(node.inputs[0], not holds)
        if fn in ("and", "or"):
            left, right = (self.of(w, holds) for w in node.inputs)
            return self._both(left, right) if (fn == "and") == holds else self._either(left, right)
        if fn in ("lt", "le", "eq"):
            return self._compared(fn, node.inputs[0], node.inputs[1], holds)
        return _IndexInterval()

    def _both(self, left: _IndexInterval, right: _IndexInterval) -> _IndexInterval:
        """The intersection of two intervals."""
        lo = self._joined("max", left.lo, right.lo) if None not in (left.lo, right.lo) else _first(left.lo, right.lo)
        hi = self._joined("min", left.hi, right.hi) if None not in (left.hi, right.hi) else _first(left.hi, right.hi)
        return _IndexInterval(lo, hi, left.whole and right.whole)

    def _either(self, left: _IndexInterval, right: _IndexInterval) -> _IndexInterval:
        """The interval that contains both."""
        lo = self._joined("min", left.lo, right.lo) if None not in (left.lo, right.lo) else None
        hi = self._joined("max", left.hi, right.hi) if None not in (left.hi, right.hi) else None
        one_sided = left.lo is right.lo is None or left.hi is right.hi is None
        return _IndexInterval(lo, hi, left.whole and right.whole and one_sided)

    def _joined(self, fn: str, left: int | None, right: int | None) -> int:
        assert left is not None and right is not None
        return left if left == right else self.graph.map(fn, left, right)

    def _compared(self, fn: str, left: int, right: int, holds: bool) -> _IndexInterval:
        """The interval of a comparison whose difference is affine in the position with coefficient 1 or −1."""
        if fn != "eq" and not holds:
            fn, left, right = _NEGATED[fn], right, left
            holds = True
        for side, other in ((left, right), (right, left)):
            if self.graph.function_of(side) == "abs" and fn in ("lt", "le", "eq") and holds:
                node = self.graph.node(side)
                assert node is not None
                inner = node.inputs[0]
                minus = self.graph.map("neg", inner)
                if side == left and fn != "eq":
                    found = [self._compared(fn, w, other, True) for w in (inner, minus)]
                    return self._both(*found)
                return _IndexInterval()
        if not holds:
            return _IndexInterval()
        quotient = self._of_quotient(fn, left, right)
        if quotient is not None:
            return quotient
        parts = self._affine(left), self._affine(right)
        if parts[0] is None or parts[1] is None:
            return _IndexInterval()
        (c, a), (d, b) = parts[0], parts[1]
        # c·p + a compared with d·p + b
        if c - d == 1:
            e = self._sum(b, a)
            after = e if fn == "lt" else self._plus_one(e)
            return _IndexInterval(e if fn == "eq" else None, after, True)
        if c - d == -1:
            e = self._sum(a, b)
            return _IndexInterval(
                self._plus_one(e) if fn == "lt" else e, self._plus_one(e) if fn == "eq" else None, True
            )
        return _IndexInterval()

    def _of_quotient(self, fn: str, left: int, right: int) -> _IndexInterval | None:
        """The interval of a comparison of a quotient, rounded down, with a number r that does not depend on the
        position: for a whole c ≥ 1, r ≤ a // c iff r·c ≤ a, and a // c ≤ r iff a < (r + 1)·c. None for another
        comparison, `<` among them: that nothing is live outside of its bounds is not proved."""
        terms = self.graph
        for side, other in ((left, right), (right, left)):
            node = terms.node(side)
            if terms.function_of(side) != "floordiv" or node is None or self.axis in terms.names(other) or fn == "lt":
                continue
            inside, by = node.inputs
            divisor = terms.const_value(by)
            if divisor is None or divisor < 1 or divisor.denominator != 1 or self.axis not in terms.names(inside):
                continue
            whole = terms.add(const_box(divisor, "int"), ())
            first = terms.map("mul", other, whole)
            after = terms.map("mul", self._plus_one(other), whole)
            below = self._compared("lt", inside, after, True)
            beyond = self._compared("le", first, inside, True)
            return self._both(below, beyond) if fn == "eq" else below if side == left else beyond
        return None

    def _affine(self, wire: int) -> tuple[int, list[tuple[int, int]]] | None:
        """A wire as c·p plus a list of wires, each with a whole factor, that do not depend on the axis; None where
        it is not of this form.
        """
        coefficient, rest = 0, []
        todo = [(1, wire)]
        while todo:
            sign, w = todo.pop()
            node = self.graph.node(w)
            value = self.graph.const_value(w)
            if sign == 0:
                continue
            if w in self.places:
                coefficient += sign
            elif value is not None and value.denominator == 1:
                rest.append((sign, self.graph.add(const_box(value, "int"), ())))
            elif self.graph.types[w].element != "int":
                return None
            elif self.axis not in self.graph.names(w):
                rest.append((sign, w))
            elif node is not None and (scaled := self._times_integer(node)) is not None:
                todo.append((sign * scaled[0], scaled[1]))
            elif node is not None and self.graph.function_of(w) in ("add", "sub", "neg"):
                second = -sign if self.graph.function_of(w) == "sub" else sign
                first = -sign if self.graph.function_of(w) == "neg" else sign
                todo.extend([(first, node.inputs[0]), *((second, v) for v in node.inputs[1:])])
            elif node is not None and isinstance(node.box.op, Rename) and not node.box.op.pairs:
                todo.append((sign, node.inputs[0]))
            else:
                return None
        return coefficient, rest

    def _times_integer(self, node: Node) -> tuple[int, int] | None:
        """The number and the wire of which a box makes the product; None for another box."""
        if node.box.op == Map("mul"):
            for factor, other in (node.inputs, node.inputs[::-1]):
                value = self.graph.const_value(factor)
                if value is not None and value.denominator == 1:
                    return int(value), other
        return None

    def _sum(self, plus: list[tuple[int, int]], minus: list[tuple[int, int]]) -> int:
        signed = [*plus, *((-s, w) for s, w in minus)]
        total: int | None = None
        for number, w in sorted(signed, key=lambda p: (-p[0], p[1])):
            times = self.graph.add(const_box(Fraction(abs(number)), "int"), ())
            term = w if abs(number) == 1 else self.graph.map("mul", times, w)
            if total is None:
                total = term if number > 0 else self.graph.map("neg", term)
            else:
                total = self.graph.map("add" if number > 0 else "sub", total, term)
        return self.graph.size(0) if total is None else total

    def _plus_one(self, wire: int) -> int:
        return self.graph.map("add", wire, self.graph.size(1))


def _first(left: int | None, right: int | None) -> int | None:
    return right if left is None else left
