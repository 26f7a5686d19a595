"""One box applied to arrays, as an expression of a language of arrays (NumPy, PyTorch): one printer, a dialect each.

Values are of these kinds:

- "number": computed from sizes, constants and (in PyTorch) scalar inputs only;
- "stored": of the type of the inputs; contractions read this kind, and results have it;
- "wide": of that type, or of a wider one in which elementwise functions compute;
- "int" and "bool".

In a language without conversions between the two, floating-point arrays are "wide".
"""

from __future__ import annotations

import string
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Any

from catdiag.category import ops
from catdiag.category.index_maps import Cond, Expr, read_off
from catdiag.category.ops import Box, op_row
from catdiag.category.scalars import Apply, Cast, row
from catdiag.category.types import ArrayType, Axis, Size
from catdiag.codegen.dialect import Dialect
from catdiag.codegen.notation import Notation, Prefix, Template, written
from catdiag.codegen.syntax import (
    AND,
    ATOM,
    CALL,
    PLUS,
    TIMES,
    Code,
    Number,
    PythonExpression,
    TupleOf,
    bracketed,
    joined_all,
)
from catdiag.util.errors import TypeMismatch

_FLOATING = ("stored", "wide")
_TRUTH_VALUED = ("eq", "ne", "lt", "le", "and", "or", "not")
_ARITHMETIC = {"+": "add", "*": "mul", "//": "floordiv"}
_INDEXED = Template("{0}[{1}]", ATOM, CALL)


@dataclass(frozen=True)
class Value:
    """An expression: its source, its axes in order, its kind, and the names that it reads.

    It is no tree: in a language of whole arrays a box is written once its operands are, from their axes and kinds.
    Kernels of tiles are written from trees instead (`catdiag.codegen.triton.tile_expressions.TileNode`).
    """

    code: PythonExpression
    axes: tuple[str, ...]
    kind: str
    reads: frozenset[str] = frozenset()

    @property
    def number(self) -> bool:
        """Whether it is computed from sizes and constants only."""
        return self.kind == "number"


@dataclass(frozen=True, kw_only=True)
class ArrayDialect(Dialect):
    """A language whose expressions have whole arrays as values."""

    numbers: Mapping[str, Notation]
    """Each scalar function of numbers."""
    constant: Callable[[Fraction | None], Value]
    """A constant; None is minus infinity."""
    full: Notation
    """An array of equal entries: the number, the shape."""
    bounds: Mapping[str, Notation] = field(default_factory=dict)
    """The maximum and minimum of an array and a number, where they have a notation of their own."""
    einsum: Notation
    """A contraction: the letters of its axes, the arrays."""
    integer_einsum: bool
    """Whether contractions take arrays of integers."""
    concatenate: Notation
    """Arrays, one after the other along their last axis."""
    merge: Notation
    """Axes merged into their product, row-major: the array, its new shape."""
    split: Notation
    """An axis split into factors: the array, its new shape, the position of the axis, the lengths of the factors."""
    part: Notation
    """A part of an array along an axis: the array, its index (a slice), the position of the axis, start, length."""
    within: Notation
    """The nearest position in range: a position, the length of the axis."""
    casts: Mapping[str, Notation] = field(default_factory=dict)
    """The conversions to "wide" and "stored"; empty if there is one floating-point type."""
    array_of: Notation | None = None
    """A number as an array: the number, the element type; None if functions of arrays take numbers."""
    types: Mapping[str, str] = field(default_factory=dict)
    """The element type of each kind, where numbers are made arrays."""
    by_type: bool
    """Whether axes of values are in the order of their types, and not in any."""


@dataclass
class ArrayPrinter:
    """Writes expressions in a dialect; `sizes` gives the current expression of each size symbol."""

    dialect: ArrayDialect
    sizes: dict[str, PythonExpression] = field(default_factory=dict)
    sizes_used: dict[str, None] = field(default_factory=dict)
    """The size symbols that occur, in their order."""
    functions: dict[str, None] = field(default_factory=dict)
    """The user's functions that occur."""
    starts: dict[str, str] = field(default_factory=dict)
    """The names of the first position of a slice, by the axis that is sliced."""

    # -- sizes -------------------------------------------------------------------------------------------

    def size(self, size: Size) -> Value:
        """A size as an expression."""
        return read_off(size, self._size, self._index)

    def _size(self, leaf: Any) -> Value:
        if not isinstance(leaf, str):
            return self.dialect.constant(Fraction(leaf))
        self.sizes_used[leaf] = None
        code = self.sizes[leaf]
        return Value(code, (), "number", frozenset([str(code)]))

    def _index(self, op: str, a: Value, b: Value) -> Value:
        """Arithmetic of sizes and indices."""
        fn = _ARITHMETIC[op]
        kind = "number" if a.number and b.number else "int"
        return self._made(self.dialect.functions[fn], [a, b], (), kind, self.dialect.helpers.get(fn))

    def shape(self, axes: Sequence[Axis]) -> Value:
        """The lengths of axes as an expression."""
        sizes = [self.size(a.size) for a in axes]
        return Value(TupleOf(tuple(s.code for s in sizes)), (), "number", _reads(sizes))

    # -- layouts -----------------------------------------------------------------------------------------

    def laid_out(self, value: Value, order: Sequence[str]) -> Value:
        """An array with its axes in another order."""
        return replace(value, code=self.dialect.permuted(value.code, value.axes, order), axes=tuple(order))

    def aligned(self, value: Value, order: Sequence[str]) -> Value:
        """An array that broadcasts by position against arrays over `order`; a number stays a number."""
        if value.number:
            return value
        own = tuple(n for n in order if n in value.axes)
        return replace(value, code=self.dialect.aligned(value.code, value.axes, order), axes=own)

    def broadcast(self, value: Value, ty: ArrayType) -> Value:
        """The value broadcast over all axes of a type."""
        if set(value.axes) == set(ty.names):
            return self.laid_out(value, ty.names)
        shape = self.shape(ty.axes)
        if not value.number:
            return self._made(self.dialect.broadcast, [self.aligned(value, ty.names), shape], ty.names, value.kind)
        return self._made(self.dialect.full, [self._entry(value, ty), shape], ty.names, _kind(ty))

    def _entry(self, value: Value, ty: ArrayType) -> Value:
        """A number as the entry of an array of a type: an integer as a real entry has a point."""
        if self.dialect.array_of is None and _kind(ty) == "wide" and str(value.code).lstrip("-").isdigit():
            return replace(value, code=Code(f"{value.code}.0", value.code.level))
        return self.array(value, ty.element)

    # -- kinds -------------------------------------------------------------------------------------------

    def wide(self, value: Value) -> Value:
        """The value in the type in which elementwise functions compute; a number stays a number."""
        return value if value.kind in ("wide", "number") else self._converted(value, "wide")

    def stored(self, value: Value) -> Value:
        """The value in the type of the inputs; integers and truth values are unchanged."""
        if value.number:
            return self.array(value, "stored")
        return self._converted(value, "stored") if value.kind == "wide" else value

    def _converted(self, value: Value, kind: str) -> Value:
        if kind not in self.dialect.casts:
            return value
        return self._made(self.dialect.casts[kind], [value], value.axes, kind, kind)

    def array(self, value: Value, element: str = "real") -> Value:
        """The value as an array of the element type, for functions that take no numbers."""
        if not value.number or self.dialect.array_of is None:
            return value
        kind = element if element in ("bool", "int", "stored") else "wide"
        own = Value(Code(self.dialect.types[kind]), (), kind, frozenset([kind]))
        return self._made(self.dialect.array_of, [value, own], (), kind, "device")

    # -- boxes -------------------------------------------------------------------------------------------

    def expression(self, box: Box, args: Sequence[Value]) -> Value:
        """The output of a box. Raises TypeMismatch for a box that cannot be written."""
        made = op_row(BOXES, box, f"written as a {self.dialect.name} expression")(self, box.op, box, args)
        return self.laid_out(made, box.cod[0].names) if self.dialect.by_type and made.axes else made

    def _made(
        self, notation: Notation, operands: Sequence[Value], axes: Sequence[str], kind: str, *names: str | None
    ) -> Value:
        """Operands in a notation; `names` are what it reads beside them."""
        code = written(notation, [o.code for o in operands])
        return Value(code, tuple(axes), kind, _reads(operands) | {n for n in names if n is not None})

    def _map(self, op: ops.Map, box: Box, args: Sequence[Value]) -> Value:
        fn, ty, dialect = op.fn, box.cod[0], self.dialect
        if isinstance(fn, Cast):
            return args[0]
        if isinstance(fn, Apply):
            self.functions[fn.name] = None
            given = [self.array(self.wide(self.aligned(a, ty.names))) for a in args]
            return self._made(Prefix(fn.name), given, ty.names, "wide")
        if all(a.number for a in args):
            return self._made(row(dialect.numbers, fn, f"written in {dialect.name}"), args, (), "number")
        kind, order = _kind(ty), ty.names
        if not dialect.by_type:
            order = next((a.axes for a in args if a.kind in _FLOATING and len(a.axes) == len(order)), order)
        parts = [self.aligned(a, order) for a in args]
        if kind == "wide" or (fn in _TRUTH_VALUED and any(a.kind in _FLOATING for a in args)):
            parts = [p if fn == "where" and k == 0 else self.wide(p) for k, p in enumerate(parts)]
        if fn in dialect.bounds and any(p.number for p in parts):
            return self._made(dialect.bounds[fn], sorted(parts, key=lambda p: p.number), order, kind)
        if fn in ("and", "or"):
            parts = [self.array(p, "bool") for p in parts]
        elif fn == "where":
            condition, yes, no = parts
            parts = [self.array(condition, "bool"), self.array(yes, ty.element) if no.number else yes, no]
        notation = row(dialect.functions, fn, f"written in {dialect.name}")
        return self._made(notation, parts, order, kind, dialect.helpers.get(fn))

    def _reduce(self, op: ops.Reduce, box: Box, args: Sequence[Value]) -> Value:
        (array,) = args
        if array.kind == "stored" or (op.monoid == "prod" and array.kind == "int"):
            array = self.wide(array)
        kept = tuple(n for n in array.axes if n != op.axis)
        code = self.dialect.reduced(op.monoid, array.code, Number(array.axes.index(op.axis)))
        return Value(code, kept, "bool" if op.monoid in ("any", "all") else array.kind, array.reads)

    def _rename(self, op: ops.Rename, box: Box, args: Sequence[Value]) -> Value:
        (array,), pairs = args, dict(op.pairs)
        return self.broadcast(replace(array, axes=tuple(pairs.get(n, n) for n in array.axes)), box.cod[0])

    def _generic(self, op: ops.Generic, box: Box, args: Sequence[Value]) -> Value:
        self.functions[op.name] = None
        laid = [self.broadcast(a, t) for a, t in zip(args, box.dom, strict=True)]
        return self._made(Prefix(op.name), laid, box.cod[0].names if len(box.cod) == 1 else (), _kind(box.cod[0]))

    def _positions(self, axis: str, size: Size) -> Value:
        found, start = self.size(size), self.starts.get(axis)
        if start is not None:
            end = f"{start}, {start} + {bracketed(found.code, PLUS + 1)}"
            found = Value(Code(end), (), "number", found.reads | {start})
        return self._made(self.dialect.positions, [found], (axis,), "int", "device")

    def _einsum(self, op: ops.Einsum, box: Box, args: Sequence[Value]) -> Value:
        names, kind = box.cod[0].names, _kind(box.cod[0])
        arrays = [a for a in args if not a.number]
        if not arrays:
            return self._product(args, (), "number")
        summed = [n for n in dict.fromkeys(n for a in arrays for n in a.axes) if n not in names]
        if not summed:
            return self._product([self._factor(a, names, kind) for a in args], names, kind)
        if len(arrays) == 1 or not (kind == "wide" or self.dialect.integer_einsum):
            # Products at every index, and a sum.
            over = (*names, *summed)
            made = self._product([self._factor(a, over, kind) for a in arrays], over, kind)
            places = tuple(Number(len(names) + k) for k in range(len(summed)))
            code = self.dialect.reduced("sum", made.code, TupleOf(places) if len(summed) > 1 else places[0])
            made = replace(made, code=code, axes=names)
        else:
            letters = _letters([*names, *summed])
            left = ",".join("".join(letters[n] for n in a.axes) for a in arrays)
            subscripts = Value(Code(f"{left}->{''.join(letters[n] for n in names)}"), (), "number")
            operands = [a if a.kind == "stored" else self.stored(self.wide(a)) for a in arrays]
            made = self._made(self.dialect.einsum, [subscripts, _listed(operands)], names, operands[0].kind)
        numbers = [a for a in args if a.number]
        return self._product([self.wide(made) if kind == "wide" else made, *numbers], names, kind) if numbers else made

    def _factor(self, value: Value, order: Sequence[str], kind: str) -> Value:
        value = self.aligned(value, order)
        return self.wide(value) if kind == "wide" else value

    def _product(self, factors: Sequence[Value], axes: Sequence[str], kind: str) -> Value:
        if len(factors) == 1:
            return replace(factors[0], axes=tuple(axes), kind=kind)
        code = joined_all("*", [bracketed(f.code, TIMES) for f in factors]) if factors else Number(1)
        return Value(code, tuple(axes), kind, _reads(factors))

    def _reindex(self, op: ops.Reindex, box: Box, args: Sequence[Value]) -> Value:
        first, ty, axis = args[0], box.cod[0], op.axis
        if op.kind == "concat":
            return self._concatenated(op, ty, args)
        own = {a.name: a for t in (*box.dom, ty) for a in t.axes}
        if op.kind == "merge":
            parts = [p.name for p in axis.parts]
            rest = [n for n in first.axes if n not in parts]
            order = (*rest, axis.name)
            flat = self.laid_out(first, (*rest, *parts))
            return self._made(self.dialect.merge, [flat, self.shape([own[n] for n in order])], order, first.kind)
        place = first.axes.index(axis.name)
        at = Value(Number(place), (), "number")
        order = (*first.axes[:place], *(a.name for a in op.added_axes()), *first.axes[place + 1 :])
        if op.kind == "split":
            shape = self.shape([own[n] for n in order])
            return self._made(self.dialect.split, [first, shape, at, self.shape(axis.parts)], order, first.kind)
        before = [p.size for p in axis.parts[: op.place]]
        start, length = _total(before), axis.parts[op.place].size
        low, high = (self.size(s).code for s in (start, _total([*before, length])))
        index = Value(Code(", ".join([":"] * place + [f"{low}:{high}"])), (), "number")
        return self._made(self.dialect.part, [first, index, at, self.size(start), self.size(length)], order, first.kind)

    def _concatenated(self, op: ops.Reindex, ty: ArrayType, args: Sequence[Value]) -> Value:
        axis = op.axis
        order = (*(n for n in ty.names if n != axis.name), axis.name)
        lengths = {a.name: a for a in ty.axes}
        same = len({a.kind for a in args}) == 1
        pieces = []
        for arg, part in zip(args, axis.parts, strict=True):
            inner = tuple(axis.name if n == part.name else n for n in arg.axes)
            piece = self.aligned(replace(arg, axes=inner), order)
            piece = piece if same else self.wide(piece)
            if set(inner) != set(order):
                shape = self.shape([part if n == axis.name else lengths[n] for n in order])
                piece = self._made(self.dialect.broadcast, [piece, shape], order, piece.kind)
            pieces.append(piece)
        return self._made(self.dialect.concatenate, [_listed(pieces)], order, pieces[0].kind)

    def _view(self, op: ops.View, box: Box, args: Sequence[Value]) -> Value:
        """Reads at computed positions, by one indexing operation each."""
        ty, order = box.cod[0], box.cod[0].names
        lengths = {a.name: a.size for a in ty.axes}

        def leaf(v: Any) -> Value:
            if not isinstance(v, tuple):
                return self._size(v)
            return self.aligned(args[v[1]] if v[0] == "w" else self._positions(v[1], lengths[v[1]]), order)

        def value(e: Expr) -> Value:
            return read_off(e, leaf, self._index)

        def holds(c: Cond) -> Value:
            sides = [value(e) for e in c[1:]]
            kind = "number" if all(s.number for s in sides) else "bool"
            return self._made(self.dialect.functions[c[0]], sides, (), kind)

        kinds = {a.kind for a in args[: len(op.reads)]}
        kind = _kind(ty) if len(kinds) > 1 or "number" in kinds else args[0].kind
        found: Value | None = None
        for own, types, read in reversed(list(zip(args, box.dom, op.reads, strict=False))):
            at = dict(read.at)
            own = own if own.number else self.laid_out(own, types.names)
            own = self.wide(own) if kind == "wide" else own
            entries = self.aligned(own, order)
            if at:
                places = [value(at.get(a.name, ("i", a.name))) for a in types.axes]
                if len(op.reads) > 1:
                    places = [self._inside(p, a.size) if a.name in at else p
                              for p, a in zip(places, types.axes, strict=True)]  # fmt: skip
                entries = self._made(_INDEXED, [own, _listed(places)], order, own.kind)
            if found is None or not read.where:
                found = self.array(entries, ty.element)
            else:
                condition = self.array(_all([holds(c) for c in read.where]), "bool")
                found = self._made(self.dialect.functions["where"], [condition, entries, found], order, kind)
        if found is None:
            raise TypeMismatch(f"{op.name} reads no array: expected at least one read", box.line)
        return self._made(self.dialect.broadcast, [found, self.shape(ty.axes)], order, kind)

    def _inside(self, place: Value, size: Size) -> Value:
        """A position that may be out of range, moved into it."""
        return self._made(
            self.dialect.within, [place, self.size(size)], place.axes, place.kind, self.dialect.helpers.get("within")
        )


BOXES: Mapping[type[ops.Op], Callable[[ArrayPrinter, Any, Box, Sequence[Value]], Value]] = {
    ops.Map: ArrayPrinter._map,
    ops.Reduce: ArrayPrinter._reduce,
    ops.Einsum: ArrayPrinter._einsum,
    ops.Const: lambda printer, op, box, args: printer.dialect.constant(op.value),
    ops.SizeOf: lambda printer, op, box, args: printer.size(op.size),
    ops.Index: lambda printer, op, box, args: printer._positions(op.axis, box.cod[0].axes[0].size),
    ops.Rename: ArrayPrinter._rename,
    ops.Reindex: ArrayPrinter._reindex,
    ops.View: ArrayPrinter._view,
    ops.Generic: ArrayPrinter._generic,
}
"""How each operation is written; those with bodies are statements of the loop nest."""


def value_of(code: PythonExpression, ty: ArrayType, kind: str = "") -> Value:
    """An expression of an array of a type."""
    return Value(code, ty.names, kind or _kind(ty))


def _reads(values: Sequence[Value]) -> frozenset[str]:
    return frozenset().union(*(v.reads for v in values))


def _listed(values: Sequence[Value]) -> Value:
    """Values separated by commas."""
    return Value(Code(", ".join(str(v.code) for v in values)), (), "number", _reads(values))


def _all(conditions: Sequence[Value]) -> Value:
    """The conjunction of conditions."""
    if len(conditions) == 1:
        return conditions[0]
    code = joined_all("&", [bracketed(c.code, AND + 1) for c in conditions])
    kind = "number" if all(c.number for c in conditions) else "bool"
    return Value(code, (), kind, _reads(conditions))


def _total(sizes: Sequence[Size]) -> Size:
    total: Size = 0
    for k, size in enumerate(sizes):
        total = ("+", total, size) if k else size
    return total


def _kind(ty: ArrayType) -> str:
    return "wide" if ty.element in ("real", "extended") else ty.element


def _letters(names: Sequence[str]) -> Mapping[str, str]:
    """A letter for each axis of an einsum: the first unused letter of its name, else any unused letter."""
    found: dict[str, str] = {}
    for name in names:
        free = [c for c in (*name, *string.ascii_letters) if c in string.ascii_letters and c not in found.values()]
        if not free:
            raise TypeMismatch(
                f"a contraction has {len(names)} axes: expected at most {len(string.ascii_letters)}, one letter each"
            )
        found[name] = free[0]
    return found
