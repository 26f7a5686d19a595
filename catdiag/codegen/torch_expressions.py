"""PyTorch expressions: one box applied to tensors, as text.

Values that depend on sizes, constants and scalar inputs only are Python numbers. Tensors are of one of these kinds, as
in mixed precision written by hand:

- "stored": of the type of the inputs; contractions read this kind, and results have it;
- "wide": of that type, or of float32 if it is narrower; elementwise functions compute in this kind;
- "int" (int64) and "bool".
"""

from __future__ import annotations

import string
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
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
from catdiag.codegen.notation import Notation, Prefix, Template, associative, comparison, grouped, written
from catdiag.codegen.source_writer import Text
from catdiag.util.errors import TypeMismatch

ATOM, _CALL, _UNARY, _TIMES, _PLUS, _COMPARE = 9, 8, 7, 6, 5, 3
_SIGNS: Mapping[str, Notation] = {
    "add": associative("+", _PLUS), "sub": grouped("-", _PLUS), "mul": associative("*", _TIMES),
    "div": grouped("/", _TIMES), "neg": Template("-{0}", _UNARY, _UNARY),
    "eq": comparison("==", _COMPARE), "ne": comparison("!=", _COMPARE), "lt": comparison("<", _COMPARE),
    "le": comparison("<=", _COMPARE),
}  # fmt: skip
TENSORS: Mapping[str, Notation] = {
    **_SIGNS, "exp": Prefix("torch.exp"), "log": Prefix("torch.log"), "sqrt": Prefix("torch.sqrt"),
    "tanh": Prefix("torch.tanh"), "abs": Prefix("torch.abs"), "sigmoid": Prefix("torch.sigmoid"),
    "max": Prefix("torch.maximum"), "min": Prefix("torch.minimum"), "and": Prefix("torch.logical_and"),
    "or": Prefix("torch.logical_or"), "not": Prefix("torch.logical_not"), "where": Prefix("torch.where"),
    "floordiv": Prefix("_floor"),
}  # fmt: skip
"""Each scalar function of tensors."""
NUMBERS: Mapping[str, Notation] = {
    **_SIGNS, "exp": Prefix("math.exp"), "log": Prefix("math.log"), "sqrt": Prefix("math.sqrt"),
    "tanh": Prefix("math.tanh"), "abs": Prefix("abs"), "sigmoid": Template("(1 / (1 + math.exp(-({0}))))"),
    "max": Prefix("max"), "min": Prefix("min"), "and": Template("(({0}) and ({1}))"),
    "or": Template("(({0}) or ({1}))"), "not": Template("(not ({0}))"), "where": Template("({1} if {0} else {2})"),
    "floordiv": Template("(({0}) // ({1}))"),
}  # fmt: skip
"""Each scalar function of Python numbers."""
_REDUCE = {"sum": "sum", "prod": "prod", "max": "amax", "min": "amin", "any": "any", "all": "all"}
_COMPARISONS = {"lt": "<", "le": "<=", "eq": "=="}
_REAL = ("real", "extended")
SINGLE = Fraction(2**24 - 1) * 2**104
"""The largest float32 number."""
_FLOATING = ("stored", "wide")


@dataclass(frozen=True)
class TorchValue:
    """An expression: its text, its precedence (`level`), its axes in order, its kind, and the variables it reads."""

    text: str
    level: int
    names: tuple[str, ...]
    kind: str
    reads: frozenset[str] = frozenset()

    @property
    def number(self) -> bool:
        """Whether it is a Python number."""
        return self.kind == "number"


class TorchCode:
    """Writes PyTorch expressions. `symbols` gives the name of each size; `sizes_used` collects those that occur."""

    def __init__(self, symbols: Mapping[str, str]) -> None:
        self.symbols = symbols
        self.sizes_used: dict[str, None] = {}
        self.functions: dict[str, None] = {}
        self.starts: dict[str, str] = {}
        """The names of the first position of a slice, by the axis that is sliced."""

    # -- sizes -------------------------------------------------------------------------------------------

    def size(self, size: Size) -> tuple[str, int]:
        """A size as an expression."""

        def leaf(v: Any) -> tuple[str, int]:
            if isinstance(v, str):
                self.sizes_used[v] = None
                return self.symbols[v], ATOM
            return str(v), ATOM

        return read_off(size, leaf, _join)

    def shape(self, ty: ArrayType) -> str:
        """The shape of an array as an expression."""
        sizes = [self.size(a.size)[0] for a in ty.axes]
        return f"({sizes[0]},)" if len(sizes) == 1 else f"({', '.join(sizes)})"

    # -- boxes -------------------------------------------------------------------------------------------

    def expression(self, box: Box, args: Sequence[TorchValue]) -> TorchValue:
        """The output of a box, its axes in any order. Raises TypeMismatch for a box that cannot be written."""
        made = op_row(BOXES, box, "written as a PyTorch expression")(self, box.op, box, args)
        reads = frozenset().union(*(a.reads for a in args))
        return TorchValue(made.text, made.level, made.names, made.kind, reads)

    def _rename(self, op: Rename, box: Box, args: Sequence[TorchValue]) -> TorchValue:
        (array,), pairs = args, dict(op.pairs)
        renamed = TorchValue(array.text, array.level, tuple(pairs.get(n, n) for n in array.names), array.kind)
        return self.broadcast(renamed, box.cod[0])

    def _generic(self, op: Generic, box: Box, args: Sequence[TorchValue]) -> TorchValue:
        if len(box.cod) != 1:
            raise TypeMismatch(f"{box.name} cannot be written in PyTorch: expected a box of one result", box.line)
        self.functions[op.name] = None
        laid = [self.broadcast(a, t) for a, t in zip(args, box.dom, strict=True)]
        text = f"{op.name}({', '.join(a.text for a in laid)})"
        return TorchValue(text, ATOM, box.cod[0].names, _kind(box.cod[0], "wide"))

    def wide(self, value: TorchValue) -> TorchValue:
        """The value as a wide tensor; a number stays a number."""
        if value.kind in ("wide", "number"):
            return value
        return TorchValue(f"{bracketed(value, _CALL)}.to(wide)", _CALL, value.names, "wide", value.reads)

    def stored(self, value: TorchValue) -> TorchValue:
        """The value as a tensor of the type of the inputs; integers and truth values are unchanged."""
        if value.kind == "number":
            return TorchValue(
                f"torch.tensor({value.text}, dtype=stored, device=device)", ATOM, value.names, "stored", value.reads
            )
        if value.kind != "wide":
            return value
        return TorchValue(f"{bracketed(value, _CALL)}.to(stored)", _CALL, value.names, "stored", value.reads)

    def tensor(self, value: TorchValue, element: str = "real") -> TorchValue:
        """The value as a tensor, for functions that take no numbers."""
        if not value.number:
            return value
        kind = {"bool": "bool", "int": "int"}.get(element, "wide")
        dtype = {"bool": "torch.bool", "int": "torch.int64"}.get(element, "wide")
        return TorchValue(f"torch.tensor({value.text}, dtype={dtype}, device=device)", ATOM, (), kind, value.reads)

    def _positions(self, axis: str, size: Size) -> TorchValue:
        text, level = self.size(size)
        start = self.starts.get(axis)
        made = f"torch.arange({text}, device=device)"
        if start is not None:
            end = f"{start} + {text if level > _PLUS else f'({text})'}"
            made = f"torch.arange({start}, {end}, device=device)"
        return TorchValue(made, ATOM, (axis,), "int")

    def _map(self, fn: ScalarFunction, ty: ArrayType, args: Sequence[TorchValue]) -> TorchValue:
        if isinstance(fn, Cast):
            return args[0]
        if isinstance(fn, Apply):
            name = fn.name
            self.functions[name] = None
            given = ", ".join(self.tensor(self.wide(aligned(a, ty.names))).text for a in args)
            return TorchValue(f"{name}({given})", ATOM, ty.names, "wide")
        if all(a.number for a in args):
            return TorchValue(*written(row(NUMBERS, fn, "written in Python"), _texts(args)), (), "number")
        compared = fn in ("eq", "ne", "lt", "le", "and", "or", "not")
        kind = _kind(ty, "wide")
        order = next((a.names for a in args if a.kind in _FLOATING and len(a.names) == len(ty.names)), ty.names)
        ty = ArrayType(tuple(sorted(ty.axes, key=lambda a: order.index(a.name))), ty.element)
        parts = [aligned(a, order) for a in args]
        if kind == "wide" or (compared and any(a.kind in _FLOATING for a in args)):
            parts = [p if fn == "where" and k == 0 else self.wide(p) for k, p in enumerate(parts)]
        if fn in ("max", "min") and (parts[0].number or parts[1].number):
            number, array = (parts[0], parts[1]) if parts[0].number else (parts[1], parts[0])
            bound = "min" if fn == "max" else "max"
            return TorchValue(f"torch.clamp({array.text}, {bound}={number.text})", ATOM, ty.names, kind)
        if fn in ("and", "or"):
            parts = [self.tensor(p, "bool") for p in parts]
        if fn == "where":
            parts = self._branches(parts, ty)
        return TorchValue(*written(row(TENSORS, fn, "written in PyTorch"), _texts(parts)), ty.names, kind)

    def _branches(self, parts: Sequence[TorchValue], ty: ArrayType) -> list[TorchValue]:
        """The operands of `torch.where`: its condition is a tensor, and so is one of its branches."""
        condition, yes, no = parts
        if yes.number and no.number:
            yes = self.tensor(yes, ty.element)
        return [self.tensor(condition, "bool"), yes, no]

    def _reduce(self, op: Reduce, array: TorchValue) -> TorchValue:
        if array.kind == "stored" or (op.monoid == "prod" and array.kind == "int"):
            array = self.wide(array)
        kind = "bool" if op.monoid in ("any", "all") else array.kind
        kept = tuple(n for n in array.names if n != op.axis)
        where = array.names.index(op.axis)
        return TorchValue(f"{bracketed(array, _CALL)}.{_REDUCE[op.monoid]}({where})", _CALL, kept, kind)

    def _einsum(self, ty: ArrayType, args: Sequence[TorchValue]) -> TorchValue:
        names, kind = ty.names, _kind(ty, "wide")
        numbers = [a for a in args if a.number]
        arrays = [a for a in args if not a.number]
        if not arrays:
            return TorchValue(" * ".join(bracketed(a, _TIMES) for a in args) or "1", _TIMES, (), "number")
        gone = [n for n in dict.fromkeys(n for a in arrays for n in a.names) if n not in names]
        apart = len(arrays) < 2 or not gone or kind != "wide"
        if apart:  # products at every index, and sums one after the other
            over = (*names, *gone)
            parts = [self.wide(aligned(a, over)) if kind == "wide" else aligned(a, over) for a in arrays]
            made = TorchValue(
                " * ".join(bracketed(p, _TIMES) for p in parts), _TIMES if len(parts) > 1 else ATOM, over, kind
            )
            if gone:
                places = tuple(range(len(names), len(over)))
                made = TorchValue(f"{bracketed(made, _CALL)}.sum({places})", _CALL, names, kind)
        else:
            letters = _letters([*names, *gone])
            left = ",".join("".join(letters[n] for n in a.names) for a in arrays)
            right = "".join(letters[n] for n in names)
            operands = [a if a.kind == "stored" else self.stored(self.wide(a)) for a in arrays]
            text = f'torch.einsum("{left}->{right}", {", ".join(a.text for a in operands)})'
            made = TorchValue(text, ATOM, names, "stored")
        if numbers:
            made = self.wide(made) if kind == "wide" else made
            text = " * ".join(bracketed(v, _TIMES) for v in (made, *numbers))
            made = TorchValue(text, _TIMES, names, made.kind)
        return made

    def broadcast(self, value: TorchValue, ty: ArrayType) -> TorchValue:
        """The value broadcast over all axes of a type."""
        if set(value.names) == set(ty.names):
            return laid_out(value, ty.names)
        kind = _kind(ty, "wide") if value.number else value.kind
        if value.number:
            made = self.tensor(value, ty.element)
            text = f"{bracketed(made, _CALL)}.expand{self.shape(ty)}"
        else:
            text = f"torch.broadcast_to({aligned(value, ty.names).text}, {self.shape(ty)})"
        return TorchValue(text, ATOM, ty.names, kind, value.reads)

    def _reindex(self, op: Reindex, ty: ArrayType, args: Sequence[TorchValue]) -> TorchValue:
        first, parts = args[0], op.axis.parts
        if op.kind == "concat":
            order = (*(n for n in ty.names if n != op.axis.name), op.axis.name)
            lengths = {a.name: a for a in ty.axes}
            same = len({a.kind for a in args}) == 1
            instructions = []
            for arg, part in zip(args, parts, strict=True):
                inner = tuple(op.axis.name if n == part.name else n for n in arg.names)
                piece = TorchValue(arg.text, arg.level, inner, arg.kind)
                whole = ArrayType(tuple(part if n == op.axis.name else lengths[n] for n in order))
                piece = aligned(piece, order) if same else self.wide(aligned(piece, order))
                if set(inner) != set(order):
                    text = f"torch.broadcast_to({piece.text}, {self.shape(whole)})"
                    piece = TorchValue(text, ATOM, order, piece.kind)
                instructions.append(piece)
            return TorchValue(
                f"torch.cat([{', '.join(p.text for p in instructions)}], -1)", ATOM, order, instructions[0].kind
            )
        if op.kind == "merge":
            own = tuple(p.name for p in parts)
            rest = tuple(n for n in first.names if n not in own)
            order = (*rest, op.axis.name)
            have = {a.name: a for a in ty.axes}
            shape = self.shape(ArrayType(tuple(have[n] for n in order)))
            text = f"{bracketed(laid_out(first, (*rest, *own)), _CALL)}.reshape{shape}"
            return TorchValue(text, _CALL, order, first.kind)
        where = first.names.index(op.axis.name)
        order = (*first.names[:where], *(a.name for a in op.added_axes()), *first.names[where + 1 :])
        if op.kind == "split":
            shape = self.shape(ArrayType(parts))
            return TorchValue(f"{bracketed(first, _CALL)}.unflatten({where}, {shape})", _CALL, order, first.kind)
        start: Size = 0
        for p in parts[: op.place]:
            start = ("+", start, p.size)
        low, length = self.size(start)[0], self.size(parts[op.place].size)[0]
        return TorchValue(f"{bracketed(first, _CALL)}.narrow({where}, {low}, {length})", _CALL, order, first.kind)

    def _view(self, op: View, box: Box, args: Sequence[TorchValue]) -> TorchValue:
        """Reads at computed positions, by one indexing operation each."""
        ty = box.cod[0]
        order = ty.names
        lengths = {a.name: a.size for a in ty.axes}

        def leaf(v: Any) -> tuple[str, int]:
            if isinstance(v, tuple) and v[0] == "w":
                read = aligned(args[v[1]], order)
                return read.text, read.level
            if isinstance(v, tuple):
                at = aligned(self._positions(v[1], lengths[v[1]]), order)
                return at.text, at.level
            return self.size(v) if isinstance(v, str) else (str(v), ATOM if v >= 0 else _UNARY)

        def value(e: Expr) -> tuple[str, int]:
            return read_off(e, leaf, _join)

        def holds(c: Cond) -> str:
            left, right = (f"({t})" if level <= _COMPARE else t for t, level in map(value, c[1:]))
            return f"({left} {_COMPARISONS[c[0]]} {right})"

        found = ""
        kind = args[0].kind if len({a.kind for a in args[: len(op.reads)]}) == 1 else _kind(ty, "wide")
        if kind == "number":
            kind = _kind(ty, "wide")
        for k, read in reversed(list(enumerate(op.reads))):
            at, types = dict(read.at), box.dom[k]
            own = args[k] if args[k].number else laid_out(args[k], types.names)
            if not own.number and kind == "wide":
                own = self.wide(own)
            text = aligned(own, order).text
            if at:
                places = []
                for n, a in zip(own.names, types.axes, strict=True):
                    place = value(at.get(n, ("i", n)))[0]
                    last = self.size(a.size)[0]
                    safe = len(op.reads) > 1 and n in at
                    places.append(f"_within({place}, {last})" if safe else place)
                text = f"{bracketed(own, _CALL)}[{', '.join(places)}]"
            if not found:
                found = self.tensor(TorchValue(text, ATOM, (), "number"), ty.element).text if own.number else text
                continue
            condition = " & ".join(map(holds, read.where))
            condition = condition if "torch." in condition or args[len(op.reads) :] else f"torch.tensor({condition})"
            found = f"torch.where({condition or 'torch.tensor(True)'}, {text}, {found})"
        return TorchValue(f"torch.broadcast_to({found}, {self.shape(ty)})", ATOM, order, kind)


BOXES: Mapping[type[Op], Callable[[TorchCode, Any, Box, Sequence[TorchValue]], TorchValue]] = {
    Map: lambda code, op, box, args: code._map(op.fn, box.cod[0], args),
    Reduce: lambda code, op, box, args: code._reduce(op, args[0]),
    Einsum: lambda code, op, box, args: code._einsum(box.cod[0], args),
    Const: lambda code, op, box, args: _constant(op.value),
    SizeOf: lambda code, op, box, args: TorchValue(*code.size(op.size), (), "number"),
    Index: lambda code, op, box, args: code._positions(op.axis, box.cod[0].axes[0].size),
    Rename: TorchCode._rename,
    Reindex: lambda code, op, box, args: code._reindex(op, box.cod[0], args),
    View: TorchCode._view,
    Generic: TorchCode._generic,
}
"""How each operation is written; those with bodies are statements of the loop nest."""


# -- layouts --------------------------------------------------------------------------------------------


def bracketed(value: TorchValue, level: int) -> str:
    """An expression, in parentheses if it binds less tightly than `level`."""
    return value.text if value.level >= level else f"({value.text})"


def laid_out(value: TorchValue, order: Sequence[str]) -> TorchValue:
    """A tensor with its axes in another order."""
    if value.names == tuple(order):
        return value
    places = ", ".join(str(value.names.index(n)) for n in order)
    return TorchValue(f"{bracketed(value, _CALL)}.permute({places})", _CALL, tuple(order), value.kind, value.reads)


def aligned(value: TorchValue, order: Sequence[str]) -> TorchValue:
    """A tensor, expanded so that it broadcasts by position against tensors over `order`; a number stays a number.

    >>> a = TorchValue("a", ATOM, ("q",), "wide")
    >>> aligned(a, ("q", "x")).text, aligned(a, ("x", "q")).text
    ('a[:, None]', 'a')
    """
    if value.number:
        return value
    own = [n for n in order if n in value.names]
    value = laid_out(value, own)
    if not own or own == list(order[len(order) - len(own) :]):
        return value
    first = next(k for k, n in enumerate(order) if n in own)
    places = ", ".join(":" if n in own else "None" for n in order[first:])
    return TorchValue(f"{bracketed(value, _CALL)}[{places}]", ATOM, tuple(own), value.kind, value.reads)


def _texts(values: Sequence[TorchValue]) -> list[Text]:
    return [(v.text, v.level) for v in values]


def _join(op: str, a: tuple[str, int], b: tuple[str, int]) -> tuple[str, int]:
    if op == "//":
        return f"_floor({a[0]}, {b[0]})", ATOM
    level = _PLUS if op == "+" else _TIMES
    left, right = (text if own >= level else f"({text})" for text, own in (a, b))
    return f"{left} {op} {right}", level


def _kind(ty: ArrayType, real: str) -> str:
    return real if ty.element in _REAL else ty.element


def _constant(value: Fraction | None) -> TorchValue:
    if value is None:
        return TorchValue("-math.inf", _UNARY, (), "number")
    if abs(value) > SINGLE:  # clamped, so that a number that is too large for its type stays finite
        largest = (
            f"{'max' if value < 0 else 'min'}({clamped(value)!r}, torch.finfo(wide).{'min' if value < 0 else 'max'})"
        )
        return TorchValue(largest, ATOM, (), "number")
    if value.denominator == 1:
        text = str(value.numerator) if abs(value) < 2**53 else repr(float(value))
        return TorchValue(text, ATOM if value >= 0 else _UNARY, (), "number")
    return TorchValue(repr(float(value)), ATOM if value >= 0 else _UNARY, (), "number")


def _letters(names: Sequence[str]) -> Mapping[str, str]:
    """A letter for each axis of an einsum: the first unused letter of its name, else any unused letter."""
    found: dict[str, str] = {}
    for name in names:
        free = [c for c in (*name, *string.ascii_letters) if c in string.ascii_letters and c not in found.values()]
        if not free:
            raise TypeMismatch(
                f"a contraction has {len(names)} axes: expected at most {len(string.ascii_letters)}, as in torch.einsum"
            )
        found[name] = free[0]
    return found
