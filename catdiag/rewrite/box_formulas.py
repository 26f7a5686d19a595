"""Formulas for users: the wires of a graph in the names of the user's arrays."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from catdiag.category import ops
from catdiag.category.diagram import Diagram
from catdiag.category.formula import (
    FALSE,
    MINUS_INFINITY,
    TRUE,
    Formula,
    big,
    call,
    difference,
    infix,
    negated,
    negative,
    number,
    of_axis,
    of_size,
    position,
    symbol,
    where,
)
from catdiag.category.ops import op_row
from catdiag.category.scalars import ScalarFunction
from catdiag.category.substitution import inline
from catdiag.rewrite.hash_consed_graph import HashConsedGraph

if TYPE_CHECKING:
    from catdiag.rewrite.stream.cascade import Cascade
    from catdiag.rewrite.stream.exponential_repair import Component

_INFIX = {
    "add": "+", "mul": "·", "div": "/", "eq": "=", "ne": "≠", "lt": "<", "le": "≤", "and": "∧", "or": "∨",
}  # fmt: skip
_UNITS = {"sum": number(0), "prod": number(1), "max": MINUS_INFINITY, "any": FALSE, "all": TRUE}
_LONG = 12  # a longer formula, in letters, that is used twice gets a name
_LONGEST = 500  # a longer one always gets a name


@dataclass(frozen=True)
class ComponentFormula:
    """One component of the state, in formulas. `′` marks values of the longer list (in a step) or of the right list (in
    a merge).
    """

    name: str
    monoid: str
    unit: Formula
    element: Formula
    repair: Formula | None
    step: Formula
    merge: Formula

    def as_dict(self) -> dict[str, str | None]:
        """The formulas as text, for JSON."""
        return {name: None if value is None else str(value) for name, value in vars(self).items()}


@dataclass(frozen=True)
class FoldFormula:
    """The state that streaming found, in formulas: its components, the results, and names for shared subformulas."""

    components: tuple[ComponentFormula, ...]
    finish: tuple[Formula, ...]
    shared: tuple[tuple[str, Formula], ...] = ()

    def __str__(self) -> str:
        lines: list[str] = []
        for c in self.components:
            lines.append(f"{c.name} = {c.element}")
            lines.append(f"  empty: {c.unit}")
            if c.repair is not None:
                lines.append(f"  repair: {c.repair}")
            lines.append(f"  step: {c.step}")
            lines.append(f"  merge: {c.merge}")
        for k, text in enumerate(self.finish, 1):
            lines.append(f"result{k if len(self.finish) > 1 else ''} = {text}")
        lines.extend(f"with {name} = {text}" for name, text in self.shared)
        return "\n".join(lines)


class WireFormulas:
    """The formulas of the wires of a `HashConsedGraph`, given those of some wires; names shared parts (`.shared`).

    >>> from catdiag.category.types import ArrayType, Axis, Ty
    >>> terms = HashConsedGraph(Ty(ArrayType((Axis("x"),)), ArrayType()))
    >>> wire = terms.reduce("sum", "x", terms.map("mul", terms.map("sub", 0, 1), 1))
    >>> print(WireFormulas(terms, {0: symbol("S"), 1: symbol("m")}).of(wire))
    Σ_x (S - m)·m
    """

    def __init__(self, terms: HashConsedGraph, known: Mapping[int, Formula]) -> None:
        self.graph = terms
        self.known = dict(known)
        self.shared: list[tuple[str, Formula]] = []

    def share(self, roots: Iterable[int]) -> None:
        """Gives a name to each long subformula that the roots use more than once; only to those that depend on no given
        name.
        """
        roots = list(roots)
        uses: dict[int, int] = {}
        cone = self.graph.cone(roots, self.known)
        for w in [*roots, *(i for v in cone if v not in self.known for i in self._inputs(v))]:
            uses[w] = uses.get(w, 0) + 1
        for w in cone:
            if uses.get(w, 0) > 1 and w not in self.known and not self.graph.late[w]:
                formula = self.of(w)
                if len(formula.text) > _LONG:
                    self.known[w] = self._named(formula, self.known)

    def of(self, wire: int, further: Mapping[int, Formula] | None = None) -> Formula:
        """The formula of a wire; `further` are those of further wires, for this formula only."""
        known = {**self.known, **(further or {})}
        for w in self.graph.cone([wire], known):
            node = self.graph.node(w)
            if w not in known and node is not None:
                known[w] = formula_of(node.box, [known[i] for i in node.inputs])
                # A part that is read twice at every level grows exponentially: beyond this length it is named.
                if len(known[w].text) > _LONGEST and w != wire:
                    known[w] = self._named(known[w], known)
        return known[wire]

    def opened(self, wire: int, further: Mapping[int, Formula] | None = None) -> Formula:
        """The formula of a wire that has a name of its own, without that name at the top."""
        node = self.graph.node(wire)
        if node is None:
            return {**self.known, **(further or {})}[wire]
        return formula_of(node.box, [self.of(i, further) for i in node.inputs])

    def _inputs(self, wire: int) -> tuple[int, ...]:
        node = self.graph.node(wire)
        return () if node is None else node.inputs

    def _named(self, formula: Formula, known: Mapping[int, Formula]) -> Formula:
        """A name for a long subformula."""
        taken = {f.data for f in known.values() if f.op == "symbol"} | {name for name, _ in self.shared}
        k = len(self.shared) + 1
        while f"t{k}" in taken:
            k += 1
        self.shared.append((f"t{k}", formula))
        return symbol(f"t{k}")


def formulas_of(diagram: Diagram, inputs: Sequence[Formula]) -> list[Formula]:
    """The formulas of a diagram's outputs (named boxes inlined), given those of its inputs."""
    said = wires_of(diagram, dict(enumerate(inputs)))
    return [said(w) for w in inline(diagram).graph.outputs]


def wires_of(diagram: Diagram, known: Mapping[int, Formula]) -> Callable[[int], Formula]:
    """A function from the wires of a diagram (named boxes inlined) to their formulas, given those of some wires.

    >>> import catdiag as cd
    >>> print(wires_of(cd.algorithm("x ->")(lambda A: cd.sum(2 * A, "x")).diagram, {0: symbol("A")})(3))
    Σ_x 2·A
    """
    graph = inline(diagram).graph
    terms = HashConsedGraph(graph.dom)
    now = list(range(len(graph.dom)))
    for node in graph.nodes:
        first = terms.add(node.box, [now[w] for w in node.inputs])
        now.extend(range(first, first + len(node.box.cod)))
    formulas = WireFormulas(terms, {now[w]: formula for w, formula in known.items()})
    return lambda wire: formulas.of(now[wire])


# -- boxes ---------------------------------------------------------------------------------------------


def formula_of(box: ops.Box, args: Sequence[Formula]) -> Formula:
    """The formula of a box, from those of its inputs."""
    return op_row(BOXES, box, "written as a formula")(box.op, box, args)


def _reduce(op: ops.Reduce, box: ops.Box, args: Sequence[Formula]) -> Formula:
    axes = [op.axis]
    inside = negated(args[0]) if op.monoid in ("max", "min") else None
    if inside is not None:  # a minimum is stored as the maximum of the negated array
        return negative(big({"max": "min", "min": "max"}[op.monoid], axes, inside))
    return big(op.monoid, axes, args[0])


def _einsum(op: ops.Einsum, box: ops.Box, args: Sequence[Formula]) -> Formula:
    body = infix("·", *args) if args else number(1)
    left = box.cod[0].names
    gone = dict.fromkeys(n for t in box.dom for n in t.names if n not in left)
    return big("sum", gone, body) if gone else body


def _rename(op: ops.Rename, box: ops.Box, args: Sequence[Formula]) -> Formula:
    pairs = (infix("→", of_axis(a), of_axis(b)) for a, b in op.pairs)
    return Formula("indexed", (args[0], *pairs)) if op.pairs else args[0]


def _name(op: ops.Call | ops.Generic | ops.FoldOp | ops.GroupOp, box: ops.Box, args: Sequence[Formula]) -> Formula:
    return call(box.name, *args)


def _map(fn: ScalarFunction, args: Sequence[Formula]) -> Formula:
    """The formula of a scalar function: an operator, or a function call."""
    if fn in _INFIX:
        return infix(_INFIX[fn], *args)
    if fn == "sub":
        return difference(*args)
    if fn == "neg":
        return negative(args[0])
    if fn == "where":
        return where(*args)
    sign = {"not": "¬", "sqrt": "√"}.get(fn) if isinstance(fn, str) else None
    return call(str(fn), *args) if sign is None else Formula(sign, tuple(args))


def _reindex(op: ops.Reindex, box: ops.Box, args: Sequence[Formula]) -> Formula:
    """Elements read at other indices: `A[b g→(b g)]`, `A[y of x+y]`, `concat(A, B)`."""
    if op.kind == "concat":
        return call("concat", *args)
    given, taken = (infix("row", *(of_axis(a.name) for a in axes)) for axes in (op.added_axes(), op.removed_axes()[0]))
    entry = infix("of", given, taken) if op.kind == "slice" else infix("→", taken, given)
    return Formula("indexed", (args[0], entry))


_RELATIONS = {"lt": "<", "le": "≤", "eq": "="}


def _view(op: ops.View, box: ops.Box, args: Sequence[Formula]) -> Formula:
    """Arrays read at computed indices: `A[x = y + k]`; for several arrays the condition under which each is read."""

    def leaf(item: Any) -> Formula:
        if not isinstance(item, tuple):
            return number(item) if isinstance(item, int) else symbol(item)
        if item[0] == "w":
            return args[item[1]]
        return symbol(item[1]) if item[1].isidentifier() else position(item[1])

    found: Formula | None = None
    for read, arg in reversed(list(zip(op.reads, args, strict=False))):
        places = tuple(infix("=", of_axis(n), of_size(e, leaf)) for n, e in read.at)
        part = Formula("indexed", (arg, *places)) if places else arg
        conditions = [infix(_RELATIONS[c], of_size(a, leaf), of_size(b, leaf)) for c, a, b in read.where]
        found = part if found is None else where(infix("∧", *conditions) if conditions else TRUE, part, found)
    return args[0] if found is None else found


BOXES: Mapping[type[ops.Op], Callable[[Any, ops.Box, Sequence[Formula]], Formula]] = {
    ops.Map: lambda op, box, args: _map(op.fn, args),
    ops.Reduce: _reduce,
    ops.Einsum: _einsum,
    ops.Rename: _rename,
    ops.View: _view,
    ops.Reindex: _reindex,
    ops.Index: lambda op, box, args: position(op.axis),
    ops.SizeOf: lambda op, box, args: of_size(op.size),
    ops.Const: lambda op, box, args: MINUS_INFINITY if op.value is None else number(op.value),
    ops.Call: _name,
    ops.Generic: _name,
    ops.FoldOp: _name,
    ops.GroupOp: _name,
}
"""The formula of each operation."""


def describe(
    cascade: Cascade, components: Sequence[Component], names: Sequence[str], input_names: Sequence[str]
) -> FoldFormula:
    """The formulas of a cascade: its components in the order of the state, and its results.

    `names` are names for the components, `input_names` those of the diagram's inputs.
    """
    formulas = WireFormulas(cascade.graph, dict(enumerate(map(symbol, input_names))))
    formulas.share([*(c.wire for c in components), *(w for c in components for w in c.scales())])
    old = {c.wire: symbol(n) for c, n in zip(components, names, strict=True)}
    new = {c.wire: symbol(n + "′") for c, n in zip(components, names, strict=True)}
    found = [_component(c, name, formulas, old, new) for c, name in zip(components, names, strict=True)]
    finish = tuple(formulas.of(w, old) for w in cascade.outputs)
    return FoldFormula(tuple(found), finish, tuple(formulas.shared))


def _component(
    c: Component, name: str, formulas: WireFormulas, old: Mapping[int, Formula], new: Mapping[int, Formula]
) -> ComponentFormula:
    """The formulas of a component, given those of the state before (`old`) and after an iteration (`new`)."""
    factors = _factors(c, formulas, old, new)
    repair = infix("·", *factors) if factors else None
    own = symbol(name)
    before = infix("·", *factors, own)
    if c.on:
        kept = infix("∧", *(infix("=", formulas.of(w, old), formulas.of(w, new)) for w in c.on))
        if c.absorbs_bottom:
            kept = infix("∨", kept, infix("=", own, MINUS_INFINITY))
        reset = _UNITS[c.monoid]
        if c.reset_value is not None:
            reset = infix("·", *factors, formulas.of(c.reset_value, old))
        repair = before = where(kept, before, reset)
    step = _join(c.monoid, before, formulas.opened(c.wire, new if repair is not None else old))
    sides = (own, symbol(f"{name}′"))
    if repair is not None:
        repairs = (symbol("repair"), symbol("repair′"))
        sides = repairs if c.on else (infix("·", symbol("repair"), sides[0]), infix("·", symbol("repair"), sides[1]))
    merge = _join(c.monoid, *sides)
    return ComponentFormula(name, c.monoid, _UNITS[c.monoid], formulas.opened(c.wire, old), repair, step, merge)


def _factors(
    c: Component, formulas: WireFormulas, old: Mapping[int, Formula], new: Mapping[int, Formula]
) -> list[Formula]:
    """The factors by which the old value of a component is rescaled."""
    found: list[Formula] = []
    if c.scale is not None:
        factor = call("exp", difference(formulas.of(c.scale, old), formulas.of(c.scale, new)))
        if c.guards:
            empty = infix("∧", *(infix("=", formulas.of(w, old), MINUS_INFINITY) for w in c.guards))
            factor = where(empty, number(0), factor)
        found.append(factor)
    for w, p in c.factor:
        pair = [formulas.of(w, state) for state in ((old, new) if p < 0 else (new, old))]
        found += [infix("/", *pair)] * abs(p)
    return found


def _join(monoid: str, left: Formula, right: Formula) -> Formula:
    signs = {"sum": "+", "prod": "·", "any": "∨", "all": "∧"}
    return infix(signs[monoid], left, right) if monoid in signs else call(monoid, left, right)
