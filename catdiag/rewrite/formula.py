"""Formulas for users: the wires of a graph printed in the names of the user's arrays."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from catdiag.category.index_maps import show, show_condition
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
    Reduce,
    Reindex,
    Rename,
    SizeOf,
    View,
    op_row,
)
from catdiag.category.scalars import ScalarFunction
from catdiag.category.types import show_size
from catdiag.rewrite.hash_consed_graph import HashConsedGraph

if TYPE_CHECKING:
    from catdiag.rewrite.stream.cascade import Cascade
    from catdiag.rewrite.stream.exponential_repair import Component

_INFIX = {
    "add": (" + ", 2), "sub": (" - ", 2), "mul": ("·", 3), "div": ("/", 3), "eq": (" = ", 1), "ne": (" ≠ ", 1),
    "lt": (" < ", 1), "le": (" ≤ ", 1), "and": (" ∧ ", 0), "or": (" ∨ ", 0),
}  # fmt: skip
_BIG = {"sum": "Σ", "prod": "∏", "max": "max", "min": "min", "any": "any", "all": "all"}
_REACHING = tuple(f"{sign}_" for sign in _BIG.values())
_UNITS = {"sum": "0", "prod": "1", "max": "-∞", "any": "false", "all": "true"}
ATOM = 9
_LONG = 12  # a longer text that is used twice gets a name
_LONGEST = 500  # a longer text always gets a name

Text = tuple[str, int]
"""A formula and its operator precedence."""


@dataclass(frozen=True)
class ComponentFormula:
    """One component of the state, in formulas. `′` marks values of the longer list (in a step) or of the right list (in
    a merge).
    """

    name: str
    monoid: str
    unit: str
    element: str
    repair: str | None
    step: str
    merge: str


@dataclass(frozen=True)
class FoldFormula:
    """The state that streaming found, in formulas: its components, the results, and names for shared subformulas."""

    components: tuple[ComponentFormula, ...]
    finish: tuple[str, ...]
    shared: tuple[tuple[str, str], ...] = ()

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


class FormulaPrinter:
    """Prints formulas of the wires of a `HashConsedGraph`.

    >>> from catdiag.category.types import ArrayType, Axis, Ty
    >>> terms = HashConsedGraph(Ty(ArrayType((Axis("x"),)), ArrayType()))
    >>> wire = terms.reduce("sum", "x", terms.map("mul", terms.map("sub", 0, 1), 1))
    >>> FormulaPrinter(terms, {0: "S", 1: "m"}).text(wire)
    'Σ_x (S - m)·m'
    """

    def __init__(self, terms: HashConsedGraph, names: Mapping[int, str]) -> None:
        self.graph = terms
        self.known: dict[int, Text] = {w: (n, ATOM) for w, n in names.items()}
        self.shared: list[tuple[str, str]] = []

    def share(self, roots: Iterable[int]) -> None:
        """Gives a name to each long subformula that the roots use more than once; only to those that depend on no given
        name.
        """
        roots = list(roots)
        uses: dict[int, int] = {}
        cone = self.graph.cone(roots, self.known)
        for w in [*roots, *(i for v in cone if v not in self.known for i in self._inputs(v))]:
            uses[w] = uses.get(w, 0) + 1
        taken = {text for text, _ in self.known.values()}
        for w in cone:
            if uses.get(w, 0) > 1 and w not in self.known and not self.graph.late[w]:
                text = self.text(w)
                if len(text) > _LONG:
                    k = len(self.shared) + 1
                    while f"t{k}" in taken:
                        k += 1
                    taken.add(f"t{k}")
                    self.shared.append((f"t{k}", text))
                    self.known[w] = (f"t{k}", ATOM)

    def text(self, wire: int, names: Mapping[int, str] | None = None) -> str:
        """The formula of a wire; `names` are names of further wires, for this formula only."""
        return self._text(wire, names)[0]

    def opened(self, wire: int, names: Mapping[int, str] | None = None) -> str:
        """The formula of a wire that has a name of its own, without that name at the top."""
        known = {**self.known, **{w: (n, ATOM) for w, n in (names or {}).items()}}
        node = self.graph.node(wire)
        if node is None:
            return known[wire][0]
        return say(node.box, [self._text(i, names) for i in node.inputs])[0]

    def _inputs(self, wire: int) -> tuple[int, ...]:
        node = self.graph.node(wire)
        return () if node is None else node.inputs

    def _text(self, wire: int, names: Mapping[int, str] | None = None) -> Text:
        known = {**self.known, **{w: (n, ATOM) for w, n in (names or {}).items()}}
        for w in self.graph.cone([wire], known):
            node = self.graph.node(w)
            if w not in known and node is not None:
                known[w] = say(node.box, [known[i] for i in node.inputs])
                # A text that is read twice at every level grows exponentially: beyond this length it is named.
                if len(known[w][0]) > _LONGEST and w != wire:
                    known[w] = (self._shared(known[w][0]), ATOM)
        return known[wire]

    def _shared(self, text: str) -> str:
        """A name for a long subformula."""
        taken = {text for text, _ in self.known.values()} | {name for name, _ in self.shared}
        k = len(self.shared) + 1
        while f"t{k}" in taken:
            k += 1
        self.shared.append((f"t{k}", text))
        return f"t{k}"


def bracketed(text: Text, level: int) -> str:
    return text[0] if text[1] >= level else f"({text[0]})"


def say(box: Box, args: Sequence[Text]) -> Text:
    """The formula of a box, from those of its inputs."""
    return op_row(BOXES, box, "written as a formula")(box.op, box, args)


def _say_reduce(op: Reduce, box: Box, args: Sequence[Text]) -> Text:
    turned = _negated(args[0]) if op.monoid in ("max", "min") else None
    if turned is not None:  # a minimum is stored as the maximum of the negated array
        return f"-({_BIG[{'max': 'min', 'min': 'max'}[op.monoid]]}_{op.axis} {turned})", 2
    return f"{_BIG[op.monoid]}_{op.axis} {bracketed(args[0], 3)}", 1


def _say_einsum(op: Einsum, box: Box, args: Sequence[Text]) -> Text:
    body = "·".join(bracketed(a, 3) for a in args) or "1"
    left = box.cod[0].names
    gone = dict.fromkeys(n for t in box.dom for n in t.names if n not in left)
    if gone:
        return f"Σ_{','.join(gone)} {body}", 1
    return (body, 3) if len(args) > 1 else args[0]


def _say_rename(op: Rename, box: Box, args: Sequence[Text]) -> Text:
    pairs = ",".join(f"{a}→{b}" for a, b in op.pairs)
    return (f"{bracketed(args[0], ATOM)}[{pairs}]", ATOM) if pairs else args[0]


def _say_name(op: Call | Generic | FoldOp | GroupOp, box: Box, args: Sequence[Text]) -> Text:
    return f"{box.name}({', '.join(a[0] for a in args)})", ATOM


def _number(value: Fraction) -> Text:
    """A number. Large round numbers and their inverses are printed as powers of ten, as are large ones that are exact
    floats.
    """
    text = str(value)
    if (
        value.denominator == 1
        and len(text) > 40
        and abs(value) <= Fraction(sys.float_info.max)
        and value == float(value)
    ):
        return repr(float(value)).replace("e+", "e"), 2 if value < 0 else ATOM
    places = len(str(value.denominator)) - 1
    if places > 6 and value.denominator == 10**places:
        return f"{value.numerator}e-{places}", 2 if value < 0 else ATOM
    zeros = len(text) - len(text.rstrip("0"))
    if value.denominator == 1 and zeros > 6:
        head = text[: len(text) - zeros]
        text = f"{head}e{zeros}"
    return text, 2 if value < 0 else ATOM if value.denominator == 1 else 3


def _say_map(fn: ScalarFunction, args: Sequence[Text]) -> Text:
    """The formula of a scalar function: an infix operator, or a function call."""
    if fn in _INFIX:
        sign, level = _INFIX[fn]
        # Σ and max bind to the end of the line: inside a formula they get parentheses, except at the end of a sum.
        # `a - b - c` is `(a - b) - c`.
        first = level + 1 if level < 2 else level
        second = level + 1 if level < 2 or fn in ("sub", "div") else level
        taken = _negated(args[1]) if fn == "sub" else None
        if taken is not None:
            return f"{bracketed(args[0], first)} + {taken}", level
        if fn in ("add", "sub") and args[1][0].startswith(_REACHING):
            return f"{bracketed(args[0], first)}{sign}{args[1][0]}", 1
        return f"{bracketed(args[0], first)}{sign}{bracketed(args[1], second)}", level
    if fn == "neg":
        turned = _negated(args[0])
        return (turned, 3) if turned is not None else (f"-{bracketed(args[0], 3)}", 2)
    if fn == "not":
        return f"¬{bracketed(args[0], ATOM)}", ATOM
    if fn == "sqrt":
        return f"√{bracketed(args[0], ATOM)}", ATOM
    return f"{fn}({', '.join(a[0] for a in args)})", ATOM


def _negated(text: Text) -> str | None:
    """The operand of a formula that is a negation; None for other formulas."""
    inside, level = text
    if not inside.startswith("-") or level != 2 or inside[1:2] in ("", "∞"):
        return None
    depth = 0
    for k, letter in enumerate(inside):
        depth += (letter in "([") - (letter in ")]")
        if not depth and inside.startswith((" + ", " - "), k):
            return None
    return inside[1:]


def _say_reindex(op: Reindex, box: Box, args: Sequence[Text]) -> Text:
    """Elements read at other indices: `A[(b g) = b g]`, `A[y of x+y]`, `concat(A, B)`."""
    if op.kind == "concat":
        return f"concat({', '.join(a[0] for a in args)})", ATOM
    given, taken = (" ".join(a.name for a in axes) for axes in (op.added_axes(), op.removed_axes()[0]))
    sign = " of " if op.kind == "slice" else "→"
    pair = f"{given}{sign}{taken}" if op.kind == "slice" else f"{taken}{sign}{given}"
    return f"{bracketed(args[0], ATOM)}[{pair}]", ATOM


def _say_view(op: View, args: Sequence[Text]) -> Text:
    """Arrays read at computed indices: `A[x = y + k]`; for several arrays the condition under which each is read."""

    def named(text: str) -> str:
        for k, arg in enumerate(args):
            text = text.replace(f"input {k}", bracketed(arg, ATOM))
        return text

    parts: list[str] = []
    for read, arg in zip(op.reads, args, strict=False):
        places = ", ".join(f"{n} = {named(show(e))}" for n, e in read.at)
        parts.append(f"{bracketed(arg, ATOM)}[{places}]" if places else arg[0])
    text = parts[-1]
    for read, part in reversed(list(zip(op.reads, parts, strict=True))[:-1]):
        text = f"where({named(' ∧ '.join(map(show_condition, read.where)))}, {part}, {text})"
    return text, ATOM


BOXES: Mapping[type[Op], Callable[[Any, Box, Sequence[Text]], Text]] = {
    Map: lambda op, box, args: _say_map(op.fn, args),
    Reduce: _say_reduce,
    Einsum: _say_einsum,
    Rename: _say_rename,
    View: lambda op, box, args: _say_view(op, args),
    Reindex: lambda op, box, args: _say_reindex(op, box, args),
    Index: lambda op, box, args: (f"index({op.axis})", ATOM),
    SizeOf: lambda op, box, args: (show_size(op.size), ATOM if not isinstance(op.size, tuple) else 2),
    Const: lambda op, box, args: ("-∞", ATOM) if op.value is None else _number(op.value),
    Call: _say_name,
    Generic: _say_name,
    FoldOp: _say_name,
    GroupOp: _say_name,
}
"""The formula of each operation."""


def describe(
    cascade: Cascade, components: Sequence[Component], names: Sequence[str], input_names: Sequence[str]
) -> FoldFormula:
    """The formulas of a cascade: its components in the order of the state, and its results.

    `names` are names for the components, `input_names` those of the diagram's inputs.
    """
    terms = cascade.graph
    printer = FormulaPrinter(terms, dict(enumerate(input_names)))
    printer.share([*(c.wire for c in components), *(w for c in components for w in c.scales())])
    old = {c.wire: n for c, n in zip(components, names, strict=True)}
    new = {w: n + "′" for w, n in old.items()}
    found: list[ComponentFormula] = []
    for c, name in zip(components, names, strict=True):
        factor = ""
        repair: str | None = None
        if c.scale is not None:
            repair = f"exp({bracketed(printer._text(c.scale, old), 2)} - {bracketed(printer._text(c.scale, new), 3)})"
            if c.guards:
                empty = " ∧ ".join(f"{printer.text(w, old)} = -∞" for w in c.guards)
                repair = f"where({empty}, 0, {repair})"
            factor = f"{repair}·"
        for w, p in c.factor:
            texts = [bracketed(printer._text(w, names), 4) for names in ((old, new) if p < 0 else (new, old))]
            ratio = "·".join([f"({texts[0]}/{texts[1]})"] * abs(p))
            repair = ratio if repair is None else f"{repair}·{ratio}"
            factor = f"{repair}·"
        before = f"{factor}{name}"
        if c.on:
            kept = " ∧ ".join(f"{printer.text(w, old)} = {printer.text(w, new)}" for w in c.on)
            if c.sticky:
                kept += f" ∨ {name} = -∞"
            fallen = _UNITS[c.monoid] if c.fallen is None else printer.text(c.fallen, old)
            repair = before = f"where({kept}, {before}, {factor if c.fallen is not None else ''}{fallen})"
        step = _join(c.monoid, before, printer.opened(c.wire, new if repair is not None else old))
        sides = (name, f"{name}′")
        if repair is not None:
            sides = ("repair", "repair′") if c.on else (f"repair·{name}", f"repair·{name}′")
        merge = _join(c.monoid, *sides)
        found.append(
            ComponentFormula(name, c.monoid, _UNITS[c.monoid], printer.opened(c.wire, old), repair, step, merge)
        )
    finish = tuple(printer.text(w, old) for w in cascade.outputs)
    return FoldFormula(tuple(found), finish, tuple(printer.shared))


def _join(monoid: str, left: str, right: str) -> str:
    signs = {"sum": " + ", "prod": "·", "any": " ∨ ", "all": " ∧ "}
    if monoid not in signs:
        return f"{monoid}({left}, {right})"
    return f"{left}{signs[monoid]}{f'({right})' if monoid == 'prod' and ' ' in right else right}"
