"""Axes, array types and objects: what the wires of a diagram carry.

Axes form a rig: a named axis, whose size is a symbol or an integer, products, coproducts, `one` and
`zero`. Their sizes are the image in the semiring of natural numbers:

>>> b, g = Axis("b"), Axis("g")
>>> (b * g).size, (b + Axis("c", 3)).size
(('*', 'b', 'g'), ('+', 'b', 3))
>>> one.size, zero.size
(1, 0)

Commutativity is a reindexing, not an identity, since `(b g)` and `(g b)` are different layouts:

>>> b * g == g * b
False

Objects are tuples of array types; `@` is concatenation and the empty object is its unit:

>>> q = Ty(ArrayType((b,)))
>>> q @ Ty() == q == Ty() @ q
True
"""

from __future__ import annotations

import unicodedata
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias, TypeVar, overload

from catdiag.util.errors import AxisError, SizeError, TypeMismatch, require

R = TypeVar("R")
Size: TypeAlias = "int | str | tuple[str, Size, Size]"
"""An integer, a symbol, or `("+", s, t)` / `("*", s, t)`."""

ELEMENTS = ("real", "extended", "int", "bool")
"""Element types: the reals, the reals with minus infinity, integers, truth values."""


BYTES = {"fp64": 8, "fp32": 4, "tf32": 4, "bf16": 2, "fp16": 2, "fp8": 1}
"""Bytes per real number, by hardware data type."""

INTEGER_BYTES = {"int64": 8, "int32": 4, "int16": 2, "int8": 1, "uint8": 1}
"""Bytes per integer, by hardware data type."""

STORED = {"int": "int64", "bool": "bool"}
"""The hardware type of integers and truth values in slow memory, where no other is given for an array: PyTorch's."""

COMPUTED = {"int": "int32", "bool": "bool"}
"""The hardware type of integers and truth values that are computed on chip."""


def element_bytes(dtype: str) -> int:
    """Bytes per element of a hardware data type, be it of real numbers, integers or truth values (one byte).

    Raises KeyError for an unknown type.

    >>> element_bytes("bf16"), element_bytes(STORED["int"]), element_bytes("bool")
    (2, 8, 1)
    """
    return 1 if dtype == "bool" else (BYTES | INTEGER_BYTES)[dtype]


def show(e: Any) -> str:
    """A size, or an expression of sizes and positions (`catdiag.category.index_maps`), as text, with parentheses where
    they are needed.

    >>> show(("+", "x", ("*", "b", ("+", "g", 1)))), show(("+", ("*", 2, ("+", ("i", "y"), 1)), -3))
    ('x + b*(g + 1)', '2*(y + 1) - 3')
    """

    def leaf(v: Any) -> tuple[str, bool]:
        if isinstance(v, tuple):
            name = str(v[1])
            return (f"input {name}" if v[0] == "w" else name if name.isidentifier() else f"index({name})"), v[0] == "w"
        return str(v), isinstance(v, int) and v < 0

    def join(op: str, a: tuple[str, bool], b: tuple[str, bool]) -> tuple[str, bool]:
        if op == "+":
            minus = b[0].startswith("-")
            return f"{a[0]} - {b[0][1:]}" if minus else f"{a[0]} + {b[0]}", True
        left, right = (f"({text})" if loose else text for text, loose in (a, b))
        return f"{left}{op}{right}", op == "//"

    return read_off(e, leaf, join)[0]


def size_symbols(size: Size) -> set[str]:
    """The symbols in a size.

    >>> sorted(size_symbols(("+", "x", ("*", 2, "y"))))
    ['x', 'y']
    """
    return set(symbols_in_order(size))


def symbols_in_order(size: Size) -> list[str]:
    """The symbols in a size from left to right, with repetitions.

    >>> symbols_in_order(("+", "x", ("*", "y", "x")))
    ['x', 'y', 'x']
    """
    return [leaf for leaf in leaves(size) if isinstance(leaf, str)]


def size_value(size: Size, sizes: Mapping[str, int]) -> int:
    """The value of a size, given those of its symbols. Raises SizeError for a symbol without a value.

    >>> size_value(("+", "x", ("*", 2, "y")), {"x": 1, "y": 3})
    7
    """

    def value(leaf: int | str) -> int:
        if isinstance(leaf, int):
            return leaf
        if leaf not in sizes:
            raise SizeError(f"size {leaf!r} is not given: expected a number for it beside {', '.join(sizes) or 'none'}")
        return sizes[leaf]

    def join(op: str, left: int, right: int) -> int:
        return left + right if op == "+" else left * right

    return read_off(size, value, join)


def leaves(e: Any) -> list[Any]:
    """The leaves of a size, or of an expression of index arithmetic, from left to right.

    >>> leaves(("+", ("*", 2, "x"), ("i", "y")))
    [2, 'x', ('i', 'y')]
    """
    found: list[Any] = []
    stack: list[Any] = [e]
    while stack:
        item = stack.pop()
        if isinstance(item, tuple) and len(item) == 3:
            stack += (item[2], item[1])
        else:
            found.append(item)
    return found


def read_off(e: Any, leaf: Callable[[Any], R], join: Callable[[str, R, R], R]) -> R:
    """A fold over a size, or an expression of index arithmetic, from its leaves, without recursion.

    >>> read_off(("+", ("*", 2, "x"), ("i", "y")), lambda l: [l], lambda op, left, right: [*left, op, *right])
    [2, '*', 'x', '+', ('i', 'y')]
    """
    todo: list[tuple[Any, bool]] = [(e, False)]
    done: list[R] = []
    while todo:
        item, ready = todo.pop()
        if not isinstance(item, tuple) or len(item) == 2:
            done.append(leaf(item))
        elif ready:
            right, left = done.pop(), done.pop()
            done.append(join(item[0], left, right))
        else:
            todo += ((item, True), (item[2], False), (item[1], False))
    return done[0]


@dataclass(frozen=True)
class Axis:
    """A named axis. Its size is an integer or a symbol, by default its own name.

    An integer axis may have its size as name, `Axis("3", 3)`. Products and coproducts, made by `*` and `+`, are axes
    too; `kind` says which, `parts` are their factors or terms. Axes are equal if their names, sizes and parts are.
    Raises AxisError for a name that is no identifier or a negative size. A block or tile of any axis is an axis of the
    same name with another size: `Axis("(b h)", "g_b_h")`.

    >>> x = Axis("x")
    >>> eval(repr((x + one) * Axis("head", 32))) == (x + one) * Axis("head", 32)
    True
    """

    name: str
    size: Size = ""
    kind: str = "name"
    parts: tuple[Axis, ...] = ()

    def has_part(self, name: str) -> bool:
        """Whether an axis of that name is a factor or a term of it, or a part of one.

        >>> (Axis("b") * (Axis("x") + one)).has_part("x")
        True
        """
        parts = list(self.parts)
        while parts:
            part = parts.pop()
            if part.name == name:
                return True
            parts.extend(part.parts)
        return False

    def __post_init__(self) -> None:
        require(isinstance(self.name, str), "the name of an axis", self.name, "an identifier, such as 'q'")
        require(isinstance(self.kind, str), "the kind of an axis", self.kind, "'name', 'product' or 'coproduct'")
        sized = isinstance(self.size, (str, int, tuple)) and not isinstance(self.size, bool)
        require(sized, f"the size of axis {self.name}", self.size, "a name, a number, or a sum or product of them")
        if self.size == "":
            object.__setattr__(self, "size", self.name)
        if self.kind not in ("name", "product", "coproduct"):
            raise AxisError(f"unknown kind of axis {self.kind!r}: expected 'name', 'product' or 'coproduct'")
        by_size = isinstance(self.size, int) and self.name == str(self.size)
        local = self.size != self.name and (isinstance(self.size, int) or str(self.size).isidentifier())
        if self.kind == "name" and not (self.name.isidentifier() or by_size or local):
            raise AxisError(f"{self.name!r} cannot name an axis: expected an identifier, such as 'q' or 'head_dim'")
        if self.name != unicodedata.normalize("NFKC", self.name):
            # Python normalizes identifiers: two axes would become one where names are keywords.
            read = unicodedata.normalize("NFKC", self.name)
            raise AxisError(f"{self.name!r} cannot name an axis: Python reads it as {read!r}, write that")
        if isinstance(self.size, int) and self.size < 0:
            raise AxisError(f"axis {self.name!r} has size {self.size}: expected a natural number")

    def __mul__(self, other: Axis) -> Axis:
        return product(self, other)

    def __add__(self, other: Axis) -> Axis:
        return coproduct(self, other)

    def __str__(self) -> str:
        return self.name

    def __repr__(self) -> str:
        if self.kind == "name":
            return f"Axis({self.name!r})" if self.size == self.name else f"Axis({self.name!r}, {self.size!r})"
        if self == (product if self.kind == "product" else coproduct)(*self.parts):
            return f"{self.kind}({', '.join(map(repr, self.parts))})"
        return f"Axis({self.name!r}, {self.size!r}, {self.kind!r}, {self.parts!r})"


def product(*axes: Axis) -> Axis:
    """The product axis `(a b)`: `a` is the slow index, `b` the fast one. Units and nesting are flattened.

    >>> a, b, c = Axis("a"), Axis("b"), Axis("c")
    >>> str(product(a, b, c)), (a * b) * c == a * (b * c), a * one == a == one * a
    ('(a b c)', True, True)
    """
    parts = tuple(p for axis in axes for p in (axis.parts if axis.kind == "product" else (axis,)))
    if len(parts) == 1:
        return parts[0]
    return Axis("(" + " ".join(p.name for p in parts) + ")", _combined("*", parts, 1), "product", parts)


def coproduct(*axes: Axis) -> Axis:
    """The coproduct axis `a+b`: the indices of `a`, then those of `b`. Units and nesting are flattened.

    >>> a, b, c = Axis("a"), Axis("b"), Axis("c")
    >>> str(coproduct(a, b, c)), (a + b) + c == a + (b + c), a + zero == a == zero + a
    ('a+b+c', True, True)
    """
    parts = tuple(p for axis in axes for p in (axis.parts if axis.kind == "coproduct" else (axis,)))
    if len(parts) == 1:
        return parts[0]
    return Axis("+".join(p.name for p in parts) or "0", _combined("+", parts, 0), "coproduct", parts)


def composition(name: str) -> tuple[str, tuple[str, ...]]:
    """The kind of an axis of that name, and the names of its parts: blocks of a product or coproduct keep its name.

    >>> composition("(a b+c)"), composition("a+(b c)"), composition("a")
    (('product', ('a', 'b+c')), ('coproduct', ('a', '(b c)')), ('name', ()))
    """
    terms = _outside_parentheses(name, "+")
    if len(terms) > 1:
        return "coproduct", terms
    return ("product", _outside_parentheses(name[1:-1], " ")) if name.startswith("(") else ("name", ())


def _outside_parentheses(name: str, sign: str) -> tuple[str, ...]:
    """The parts of a name between signs that are not in parentheses."""
    found, depth = [""], 0
    for letter in name:
        depth += (letter == "(") - (letter == ")")
        if letter == sign and not depth:
            found.append("")
        else:
            found[-1] += letter
    return tuple(found)


def _combined(op: str, parts: tuple[Axis, ...], unit: int) -> Size:
    """The size of a product or coproduct: a tree of logarithmic depth that depends on the flattened parts only."""
    level: list[Size] = [part.size for part in parts]
    while len(level) > 1:
        odd = level[len(level) - len(level) % 2 :]
        level = [(op, left, right) for left, right in zip(level[::2], level[1::2], strict=False)] + odd
    return level[0] if level else unit


one = product()
"""The axis of size one, the unit of `*`."""
zero = coproduct()
"""The axis of size zero, the unit of `+`."""


@dataclass(frozen=True)
class ArrayType:
    """The type of one wire: axes in layout order, and an element type.

    Raises AxisError where two axes of one array have the same name.
    """

    axes: tuple[Axis, ...] = ()
    element: str = "real"

    def __post_init__(self) -> None:
        listed = isinstance(self.axes, tuple) and all(isinstance(a, Axis) for a in self.axes)
        require(listed, "axes", self.axes, "a tuple of Axis, such as (Axis('q'), Axis('x'))")
        require(isinstance(self.element, str), "the element type", self.element, f"one of {', '.join(ELEMENTS)}")
        names = [a.name for a in self.axes]
        if len(set(names)) != len(names):
            twice = next(n for n in names if names.count(n) > 1)
            raise AxisError(f"axis {twice!r} occurs twice in one array [{' '.join(names)}]: rename one of the two")
        if self.element not in ELEMENTS:
            raise AxisError(f"unknown element type {self.element!r}: expected one of {', '.join(ELEMENTS)}")

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the axes, in layout order."""
        return tuple(a.name for a in self.axes)

    def axis(self, name: str) -> Axis | None:
        """The axis of that name, or None."""
        return next((a for a in self.axes if a.name == name), None)

    def __matmul__(self, other: ArrayType | Ty) -> Ty:
        return Ty(self) @ other

    def __str__(self) -> str:
        body = "[" + " ".join(a.name for a in self.axes) + "]"
        return body if self.element == "real" else f"{self.element}{body}"


def union(types: Sequence[ArrayType], line: str | None = None) -> tuple[Axis, ...]:
    """The axes of several arrays, in order of first appearance. Raises AxisError where one name has two sizes.

    >>> q, x = Axis("q"), Axis("x")
    >>> union([ArrayType((q, x)), ArrayType((x,))]) == (q, x)
    True
    """
    found: dict[str, Axis] = {}
    for k, ty in enumerate(types):
        for axis in ty.axes:
            known = found.setdefault(axis.name, axis)
            if known.size != axis.size:
                first = next(j for j, t in enumerate(types) if t.axis(axis.name) is not None)
                raise AxisError(
                    f"axis {axis.name!r} has size {show(known.size)} in array {first} {types[first]} and "
                    f"{show(axis.size)} in array {k} {ty}: one name has one size, so rename one of the two",
                    line,
                )
    return tuple(found.values())


class Ty:
    """An object: a tuple of array types. `@` concatenates in constant time.

    >>> t = Ty(ArrayType((Axis("q"),)), ArrayType())
    >>> len(t), str(t), eval(repr(t)) == t
    (2, '[q] @ []', True)
    """

    __slots__ = ("_arrays", "_hash", "_left", "_length", "_right")

    def __init__(self, *arrays: ArrayType) -> None:
        self._arrays: tuple[ArrayType, ...] | None = arrays
        self._left: Ty | None = None
        self._right: Ty | None = None
        self._length = len(arrays)
        self._hash: int | None = None

    @staticmethod
    def of(arrays: Iterable[ArrayType]) -> Ty:
        """The object of an iterable of array types."""
        return Ty(*arrays)

    @property
    def arrays(self) -> tuple[ArrayType, ...]:
        """The array types, in order. Pending concatenations are carried out here."""
        if self._arrays is None:
            found: list[ArrayType] = []
            stack: list[Ty] = [self]
            while stack:
                ty = stack.pop()
                # The halves are read first, since another thread may replace them by the arrays meanwhile.
                left, right = ty._left, ty._right
                if ty._arrays is not None:
                    found.extend(ty._arrays)
                elif left is not None and right is not None:
                    stack.append(right)
                    stack.append(left)
            self._arrays = tuple(found)
            self._left = self._right = None
        return self._arrays

    def __matmul__(self, other: ArrayType | Ty) -> Ty:
        if isinstance(other, ArrayType):
            other = Ty(other)
        if not isinstance(other, Ty):
            return NotImplemented
        if self._length == 0:
            return other
        if other._length == 0:
            return self
        joined = Ty()
        joined._arrays, joined._left, joined._right = None, self, other
        joined._length = self._length + other._length
        return joined

    def __len__(self) -> int:
        return self._length

    def __iter__(self) -> Iterator[ArrayType]:
        return iter(self.arrays)

    @overload
    def __getitem__(self, key: int) -> ArrayType: ...
    @overload
    def __getitem__(self, key: slice) -> Ty: ...
    def __getitem__(self, key: int | slice) -> ArrayType | Ty:
        if isinstance(key, slice):
            return Ty(*self.arrays[key])
        return self.arrays[key]

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        if not isinstance(other, Ty):
            return NotImplemented
        if self._length != other._length:
            return False
        mine, theirs = self._arrays or self.arrays, other._arrays or other.arrays
        return mine is theirs or mine == theirs

    def __hash__(self) -> int:
        if self._hash is None:
            self._hash = hash(self.arrays)
        return self._hash

    def __reduce__(self) -> tuple[type[Ty], tuple[ArrayType, ...]]:
        # A hash of strings differs between processes, so that it must not travel with a pickle.
        return Ty, self.arrays

    def __str__(self) -> str:
        return " @ ".join(map(str, self.arrays)) or "1"

    def __repr__(self) -> str:
        return f"Ty({', '.join(map(repr, self.arrays))})"


def short(ty: Ty) -> str:
    """A type as text for messages, in brief where it has many wires."""
    return str(ty) if len(ty) <= 8 else f"{ty[:3]} @ … ({len(ty)} wires)"


def mismatch(cod: Ty, dom: Ty) -> TypeMismatch:
    """The error of a composition whose types differ: it names the first wire that differs."""
    pairs = zip(cod, dom, strict=False)
    k = next((k for k, (a, b) in enumerate(pairs) if a != b), min(len(cod), len(dom)))
    if k < min(len(cod), len(dom)):
        detail = f"wire {k} carries {cod[k]} and is read as {dom[k]}"
        if str(cod[k]) == str(dom[k]):
            detail += f" (axes {list(cod[k].axes)} against {list(dom[k].axes)})"
    elif k < len(cod):
        detail = f"wire {k}, which carries {cod[k]}, is not taken (discard it, or add an identity beside)"
    else:
        detail = f"wire {k}, to be read as {dom[k]}, is not given"
    if len(cod) != len(dom):
        detail += f"; {len(cod)} wires meet {len(dom)}"
    return TypeMismatch(f"cannot compose: the first gives {short(cod)}, the second takes {short(dom)}; {detail}")
