"""NumPy expressions: one box applied to arrays, as text."""

from __future__ import annotations

import re
import string
from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from typing import Any

from catdiag.category.index_maps import Cond, Expr, read_off
from catdiag.category.ops import (
    Box,
    Const,
    Einsum,
    Generic,
    Index,
    Map,
    Op,
    Reduce,
    Reindex,
    Rename,
    SizeOf,
    View,
    clamped,
    op_row,
)
from catdiag.category.scalars import Apply, Cast, ScalarFunction, row
from catdiag.category.types import ArrayType, Size
from catdiag.codegen.notation import Notation, Prefix, Template, associative, bracketed, comparison, grouped, written
from catdiag.codegen.source_writer import ATOM, Text

CALL = 8
"""The precedence of a call or an index; `UNARY` is that of a sign."""
UNARY, _TIMES, _PLUS, _COMPARE, _LOOSE = 7, 6, 5, 3, 1
FUNCTIONS: Mapping[str, Notation] = {
    "add": associative("+", _PLUS), "sub": grouped("-", _PLUS), "mul": associative("*", _TIMES),
    "div": grouped("/", _TIMES), "floordiv": grouped("//", _TIMES), "neg": Template("-{0}", UNARY, UNARY),
    "eq": comparison("==", _COMPARE), "ne": comparison("!=", _COMPARE), "lt": comparison("<", _COMPARE),
    "le": comparison("<=", _COMPARE), "and": Prefix("np.logical_and"), "or": Prefix("np.logical_or"),
    "not": Prefix("np.logical_not"), "exp": Prefix("np.exp"), "log": Prefix("np.log"),
    "sqrt": Prefix("np.sqrt"), "tanh": Prefix("np.tanh"), "abs": Prefix("np.abs"),
    "max": Prefix("np.maximum"), "min": Prefix("np.minimum"), "where": Prefix("np.where"),
    "sigmoid": Template("np.exp(-np.logaddexp(0, -{0}))", ATOM, UNARY),
}  # fmt: skip
"""Each scalar function in NumPy."""
_REDUCE = {"sum": "sum", "prod": "prod", "max": "max", "min": "min", "any": "any", "all": "all"}
_COMPARISONS = {"lt": "<", "le": "<=", "eq": "=="}


class ArrayCode:
    """Writes NumPy expressions. `sizes` gives the current expression of each size symbol, `functions` the user's."""

    def __init__(self) -> None:
        self.sizes: dict[str, str] = {}
        self.functions: dict[str, str] = {}

    def size(self, size: Size) -> Text:
        """A size as an expression."""

        def leaf(v: Any) -> Text:
            return (self.sizes[v], _PLUS if " " in self.sizes[v] else ATOM) if isinstance(v, str) else (str(v), ATOM)

        return read_off(size, leaf, _join)

    def shape(self, ty: ArrayType) -> str:
        """The shape of an array as an expression."""
        sizes = [self.size(a.size)[0] for a in ty.axes]
        return f"({sizes[0]},)" if len(sizes) == 1 else f"({', '.join(sizes)})"

    def expression(self, box: Box, args: Sequence[Text], types: Sequence[ArrayType]) -> Text:
        """A box applied to arrays of these types. Raises TypeMismatch for a box that cannot be written."""
        return op_row(BOXES, box, "written as a NumPy expression")(self, box.op, box, args, types)

    def _reduce(self, op: Reduce, box: Box, args: Sequence[Text], types: Sequence[ArrayType]) -> Text:
        where = types[0].names.index(op.axis)
        kept = tuple(n for n in types[0].names if n != op.axis)
        text = f"{bracketed(args[0], CALL)}.{_REDUCE[op.monoid]}(axis={where})", CALL
        return laid_out(text, kept, box.cod[0].names)

    def _rename(self, op: Rename, box: Box, args: Sequence[Text], types: Sequence[ArrayType]) -> Text:
        pairs = dict(op.pairs)
        return self._broadcast(args[0], tuple(pairs.get(n, n) for n in types[0].names), box.cod[0])

    def _generic(self, op: Generic, box: Box, args: Sequence[Text], types: Sequence[ArrayType]) -> Text:
        self.functions.setdefault(op.name, op.name)
        return f"{op.name}({', '.join(a[0] for a in args)})", ATOM

    def _map(self, fn: ScalarFunction, box: Box, args: Sequence[Text], types: Sequence[ArrayType]) -> Text:
        names = box.cod[0].names
        if isinstance(fn, Cast):
            return laid_out(args[0], types[0].names, names)
        parts = [aligned(a, t.names, names) for a, t in zip(args, types, strict=True)]
        if isinstance(fn, Apply):
            name = fn.name
            self.functions.setdefault(name, name)
            return f"{name}({', '.join(p[0] for p in parts)})", ATOM
        return written(row(FUNCTIONS, fn, "written in NumPy"), parts)

    def _einsum(self, box: Box, args: Sequence[Text], types: Sequence[ArrayType]) -> Text:
        names = box.cod[0].names
        gone = [n for n in dict.fromkeys(n for t in types for n in t.names) if n not in names]
        if not gone:
            parts = [bracketed(aligned(a, t.names, names), _TIMES) for a, t in zip(args, types, strict=True)]
            return (" * ".join(parts) or "1", _TIMES if len(parts) > 1 else ATOM)
        letters = _letters([*names, *gone])
        left = ",".join("".join(letters[n] for n in t.names) for t in types)
        right = "".join(letters[n] for n in names)
        return f'np.einsum("{left}->{right}", {", ".join(a[0] for a in args)})', ATOM

    def _broadcast(self, text: Text, names: Sequence[str], ty: ArrayType) -> Text:
        """An array in the layout of a type, broadcast along the axes that it lacks."""
        if set(names) == set(ty.names):
            return laid_out(text, names, ty.names)
        if re.fullmatch(r"-?(np\.inf|[\w.]+)", text[0]) and not names and not text[0].isidentifier():
            value = text[0] + ".0" if ty.element in ("real", "extended") and text[0].lstrip("-").isdigit() else text[0]
            return f"np.full({self.shape(ty)}, {value})", ATOM
        return f"np.broadcast_to({aligned(text, names, ty.names)[0]}, {self.shape(ty)})", ATOM

    def _reindex(self, op: Reindex, box: Box, args: Sequence[Text], types: Sequence[ArrayType]) -> Text:
        ty, parts = box.cod[0], op.axis.parts
        names = types[0].names
        if op.kind == "concat":
            order = (*(n for n in ty.names if n != op.axis.name), op.axis.name)
            lengths = {a.name: a for a in ty.axes}
            pieces = []
            for arg, own, part in zip(args, types, parts, strict=True):
                inner = tuple(op.axis.name if n == part.name else n for n in own.names)
                whole = ArrayType(tuple(part if n == op.axis.name else lengths[n] for n in order))
                piece = aligned(arg, inner, order)
                if set(inner) != set(order):
                    piece = f"np.broadcast_to({piece[0]}, {self.shape(whole)})", ATOM
                pieces.append(piece[0])
            return laid_out((f"np.concatenate([{', '.join(pieces)}], axis=-1)", ATOM), order, ty.names)
        if op.kind == "merge":
            own_parts = tuple(p.name for p in parts)
            rest = tuple(n for n in names if n not in own_parts)
            order = (*rest, op.axis.name)
            sizes = {a.name: a for a in ty.axes}
            shape = self.shape(ArrayType(tuple(sizes[n] for n in order)))
            return laid_out(
                (f"{bracketed(laid_out(args[0], names, (*rest, *own_parts)), CALL)}.reshape({shape})", CALL),
                order,
                ty.names,
            )
        where = names.index(op.axis.name)
        order = (*names[:where], *(a.name for a in op.added_axes()), *names[where + 1 :])
        if op.kind == "split":
            have = {a.name: a for a in (*types[0].axes, *parts)}
            shape = self.shape(ArrayType(tuple(have[n] for n in order)))
            return laid_out((f"{bracketed(args[0], CALL)}.reshape({shape})", CALL), order, ty.names)
        start: Size = 0
        for p in parts[: op.place]:
            start = ("+", start, p.size)
        low, high = self.size(start)[0], self.size(("+", start, parts[op.place].size))[0]
        places = ", ".join([":"] * where + [f"{low}:{high}"])
        return laid_out((f"{bracketed(args[0], CALL)}[{places}]", ATOM), order, ty.names)

    def _view(self, op: View, box: Box, args: Sequence[Text], types: Sequence[ArrayType]) -> Text:
        """Reads at computed positions, by one indexing operation each."""
        ty = box.cod[0]
        order = ty.names
        lengths = {a.name: a.size for a in ty.axes}

        def leaf(v: Any) -> Text:
            if isinstance(v, tuple) and v[0] == "w":
                return aligned(args[v[1]], types[v[1]].names, order)
            if isinstance(v, tuple):
                return aligned((f"np.arange({self.size(lengths[v[1]])[0]})", ATOM), (v[1],), order)
            return self.size(v) if isinstance(v, str) else _constant(Fraction(v))

        def value(e: Expr) -> Text:
            return read_off(e, leaf, _join)

        def holds(c: Cond) -> str:
            left, right = (bracketed(value(e), _COMPARE + 1) for e in c[1:])
            return f"({left} {_COMPARISONS[c[0]]} {right})"

        found = ""
        for k, read in reversed(list(enumerate(op.reads))):
            at, places = dict(read.at), []
            for n, a in zip(types[k].names, types[k].axes, strict=True):
                place = value(at.get(n, ("i", n)))[0]
                safe = len(op.reads) > 1 and n in at
                places.append(f"np.clip({place}, 0, {self.size(a.size)[0]} - 1)" if safe else place)
            text = f"{bracketed(args[k], CALL)}[{', '.join(places)}]" if at and places else args[k][0]
            if not at:
                text = aligned(args[k], types[k].names, order)[0]
            found = text if not found else f"np.where({' & '.join(map(holds, read.where)) or 'True'}, {text}, {found})"
        return f"np.broadcast_to({found}, {self.shape(ty)})", ATOM


BOXES: Mapping[type[Op], Callable[[ArrayCode, Any, Box, Sequence[Text], Sequence[ArrayType]], Text]] = {
    Map: lambda code, op, box, args, types: code._map(op.fn, box, args, types),
    Reduce: ArrayCode._reduce,
    Einsum: lambda code, op, box, args, types: code._einsum(box, args, types),
    Const: lambda code, op, box, args, types: _constant(op.value),
    SizeOf: lambda code, op, box, args, types: code.size(op.size),
    Index: lambda code, op, box, args, types: (f"np.arange({code.size(box.cod[0].axes[0].size)[0]})", ATOM),
    Rename: ArrayCode._rename,
    Reindex: ArrayCode._reindex,
    View: ArrayCode._view,
    Generic: ArrayCode._generic,
}
"""How each operation is written; those with bodies are statements of the loop nest."""


def laid_out(text: Text, names: Sequence[str], order: Sequence[str]) -> Text:
    """An array with its axes in another order."""
    if tuple(names) == tuple(order):
        return text
    if len(order) == 2:
        return f"{bracketed(text, CALL)}.T", CALL
    return f"{bracketed(text, CALL)}.transpose({', '.join(str(list(names).index(n)) for n in order)})", CALL


def aligned(text: Text, names: Sequence[str], order: Sequence[str]) -> Text:
    """An array that broadcasts by position against others over `order`.

    >>> aligned(("a", 9), ("q",), ("q", "x")), aligned(("a", 9), ("x",), ("q", "x"))
    (('a[:, None]', 9), ('a', 9))
    """
    own = [n for n in order if n in names]
    text = laid_out(text, names, own)
    if not own or tuple(own) == tuple(order[len(order) - len(own) :]):
        return text
    first = next(k for k, n in enumerate(order) if n in names)
    places = ", ".join(":" if n in names else "None" for n in order[first:])
    return f"{bracketed(text, CALL)}[{places}]", ATOM


def _join(op: str, a: Text, b: Text) -> Text:
    level = _PLUS if op == "+" else _TIMES
    return f"{bracketed(a, level)} {op} {bracketed(b, level if op != '//' else level + 1)}", level


def _constant(value: Fraction | None) -> Text:
    if value is None:
        return "-np.inf", UNARY
    if value.denominator == 1:
        text = str(value.numerator) if abs(value) < 2**53 else repr(clamped(value))
    else:
        # In parentheses as a factor, since a product with the numerator alone might overflow.
        return f"{value.numerator} / {value.denominator}", _PLUS
    return text, ATOM if value >= 0 else UNARY


def _letters(names: Sequence[str]) -> Mapping[str, str]:
    """A letter for each axis of an einsum: the first unused letter of its name, else any unused letter."""
    found: dict[str, str] = {}
    for name in names:
        wanted = [*name, *string.ascii_letters]
        found[name] = next(c for c in wanted if c in string.ascii_letters and c not in found.values())
    return found
