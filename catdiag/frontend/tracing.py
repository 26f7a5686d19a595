"""Tracing: a user's function runs on traced arrays, which have types and no values, and each operation adds a box.

Only boxes without inputs (constants, sizes, positions) are shared. An expression that is written twice gives two boxes.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from fractions import Fraction
from typing import Any, NoReturn, TypeVar, Union

from catdiag.category import index_maps
from catdiag.category.box_types import rename_box
from catdiag.category.diagram import Diagram, Graph, Node, of_graph, reachable
from catdiag.category.ops import Box, Call, const_box, einsum_box, index_box, map_box, reduce_box, size_box
from catdiag.category.scalars import Cast, ScalarFunction
from catdiag.category.types import ArrayType, Axis, Size, Ty, show
from catdiag.frontend import index_expressions
from catdiag.frontend.array_methods import ArrayMethods
from catdiag.frontend.constants import number, short
from catdiag.frontend.signature import merge_axes, parse_axes
from catdiag.util.errors import PACKAGE, AxisError, SignatureError, TypeMismatch, user_line

M = TypeVar("M")
Operand = Union["Traced", int, float, Fraction]
"""An operand: a traced array or a number."""

_RUNNING: ContextVar[Trace | None] = ContextVar("catdiag_trace", default=None)
# Operations of the reals with −∞: order, addition, choice, and exp. Products are not defined there.
_EXTENDED = frozenset({"add", "sub", "max", "min", "where", "eq", "ne", "lt", "le", "exp"})
_BOOLEAN = frozenset({"and", "or", "not"})
_MAX_POWER = 64
# Operations that integers are closed under: beside an array of integers, a Python integer is an integer constant.
_WHOLE = frozenset({"add", "sub", "mul", "max", "min"})


@contextmanager
def building(trace: Trace) -> Iterator[None]:
    """A context in which the functions that add boxes add them to this trace."""
    token = _RUNNING.set(trace)
    try:
        yield
    finally:
        _RUNNING.reset(token)


def is_building() -> bool:
    """Whether an algorithm is being built."""
    return _RUNNING.get() is not None


def running() -> Trace:
    """The trace of the algorithm being built. Raises TypeMismatch outside of one."""
    trace = _RUNNING.get()
    if trace is None:
        raise TypeMismatch("this function builds a diagram: call it inside a function under @cd.algorithm")
    return trace


def traced(value: object) -> bool:
    """Whether a value is a traced array."""
    return isinstance(value, Traced)


class Trace:
    """A diagram under construction: boxes in the order in which the user's function calls them."""

    def __init__(self, dom: Sequence[ArrayType], axes: Sequence[Axis] = ()) -> None:
        self.dom = Ty(*dom)
        self.nodes: list[Node] = []
        self._makers: list[tuple[Node | None, ArrayType]] = [(None, ty) for ty in dom]
        self._seen = 0
        self.count = len(dom)
        self.axes = merge_axes((*dom, *(ArrayType((a,)) for a in axes)))
        # Axes that only the declared results have: their sizes are computed.
        self._declared = {a.name for a in axes} - merge_axes(tuple(dom)).keys()
        self._ambiguous: dict[str, tuple[Axis, Axis]] = {}
        self._types: dict[ArrayType, ArrayType] = {}
        self._interned: dict[Any, Any] = {}
        self._lines: dict[tuple[str, int], str | None] = {}
        self.source_line: str | None = None
        self.inputs = tuple(Traced(self, k, self.intern(ty)) for k, ty in enumerate(dom))

    # -- bookkeeping --------------------------------------------------------------------------

    def intern(self, ty: ArrayType) -> ArrayType:
        """The unique copy of an array type in this trace, so that equal types are identical."""
        return self._types.setdefault(ty, ty)

    def line(self) -> str | None:
        """The user's source line that is being traced, or `source_line` where an importer has set it."""
        if self.source_line is not None:
            return self.source_line
        frame = sys._getframe(1)
        while frame.f_back is not None and frame.f_code.co_filename.startswith(PACKAGE):
            frame = frame.f_back
        place = (frame.f_code.co_filename, frame.f_lineno)
        if place not in self._lines:
            self._lines[place] = user_line()
        return self._lines[place]

    def add(self, box: Box, inputs: Sequence[Traced] = ()) -> tuple[Traced, ...]:
        """Adds a box on arrays of this trace, and gives the arrays that it makes."""
        self.nodes.append(Node(box, tuple([a._wire for a in inputs])))
        first = self.count
        self.count += len(box.cod)
        return tuple([Traced(self, first + k, self.intern(ty)) for k, ty in enumerate(box.cod)])

    def maker(self, wire: int) -> Node | None:
        """The node that makes a wire, None for an input."""
        for node in self.nodes[self._seen :]:
            self._makers.extend((node, ty) for ty in node.box.cod)
        self._seen = len(self.nodes)
        return self._makers[wire][0]

    def array(self, wire: int) -> Traced:
        """The array on a wire."""
        self.maker(wire)
        return Traced(self, wire, self.intern(self._makers[wire][1]))

    def lift(self, value: object, infinite: bool = False, element: str = "real") -> Traced:
        """A number as a constant of this trace; an array of this trace as itself. Raises TypeMismatch for other values.

        With element type `int`, an integer becomes an integer constant; other numbers are real all the same.
        """
        if isinstance(value, Traced):
            if value._trace is not self:
                raise TypeMismatch(
                    f"array {value} belongs to another algorithm than the one being built: "
                    "pass it in as an argument, or call the other algorithm on arrays of this one"
                )
            return value
        exact = number(value)
        if exact is None and not infinite:
            raise TypeMismatch(
                "minus infinity can be an operand of cd.where and cd.maximum only: "
                "arithmetic with it is not defined; mask with cd.where(mask, a, -float('inf'))"
            )
        if exact is None or exact.denominator != 1 or isinstance(value, float):
            element = "real"
        return self._closed(("const", (exact, element)), lambda: const_box(exact, element))

    def _closed(self, key: tuple[str, Any], make: Any) -> Traced:
        array = self._interned.get(key)
        if array is None:
            box = make()
            array = self._interned[key] = self.add(Box(box.op, box.dom, box.cod, self.line()))[0]
        return array

    def memo(self, key: tuple[Any, ...], make: Callable[[], M]) -> M:
        """The cached value for this key, made now if there is none."""
        if key not in self._interned:
            self._interned[key] = make()
        made: M = self._interned[key]
        return made

    def settled(self, name: str) -> Axis | None:
        """The axis of that name, if some array has it, and not only a declared result."""
        return None if name in self._declared else self.axes.get(name)

    def known_by_input(self, name: str) -> bool:
        """Whether an input of the trace has the axis."""
        return name in merge_axes(self.dom.arrays)

    # -- boxes ---------------------------------------------------------------------------------

    def axis(self, name: str, what: str) -> Axis:
        """The axis of that name. Raises AxisError, listing the known axes."""
        axis = self.axes.get(name)
        if axis is None:
            known = ", ".join(self.axes) or "none"
            raise AxisError(f"{what}: no array here has axis {name!r}; the axes of this algorithm are {known}")
        if name in self._ambiguous:
            one, two = self._ambiguous[name]
            raise AxisError(
                f"{what}: axis {name!r} has size {show(one.size)} on one array and {show(two.size)} on "
                "another: rename one of the two"
            )
        return axis

    def size(self, size: Size) -> Traced:
        """A size as a scalar."""
        return self._closed(("size", size), lambda: size_box(size))

    def index(self, axis: Axis) -> Traced:
        """The positions along an axis."""
        return self._closed(("index", axis), lambda: index_box(axis))

    def map(self, fn: ScalarFunction, *operands: Traced) -> Traced:
        """A scalar function, elementwise over the union of the operands' axes. Raises TypeMismatch where the function
        is not defined: of minus infinity, or of numbers in place of truth values."""
        line = self.line()
        types = [a.type for a in operands]
        key = (fn, line, *map(id, types))
        box = self._interned.get(key)
        if box is None:
            if fn in _BOOLEAN or fn == "where":
                checked = types[:1] if fn == "where" else types
                for ty in checked:
                    if ty.element != "bool":
                        raise TypeMismatch(
                            f"{fn!r} takes truth values and got an array {ty} of {ty.element} numbers: "
                            "compare first, as in `a > 0`",
                            line,
                        )
            elif fn not in _EXTENDED and not isinstance(fn, Cast) and any(ty.element == "extended" for ty in types):
                raise TypeMismatch(
                    f"{fn!r} of an array that may hold minus infinity is not defined: "
                    "only +, -, maximum, minimum, comparisons, where and exp are; scale before masking",
                    line,
                )
            merge_axes(tuple(types))
            box = self._interned[key] = map_box(fn, types, line)
        return self.add(box, operands)[0]

    def arithmetic(self, fn: ScalarFunction, *operands: object) -> Traced:
        """A scalar function of numbers; truth values among the operands count as 0 and 1."""
        infinite = fn in ("max", "min", "eq", "ne", "lt", "le")
        arrays = [a.type.element for a in operands if isinstance(a, Traced)]
        element = "int" if fn in _WHOLE and arrays and set(arrays) == {"int"} else "real"
        return self.map(fn, *[self.numeric(self.lift(a, infinite, element)) for a in operands])

    def chosen(self, condition: object, a: object, b: object) -> Traced:
        """`a` where a condition holds, else `b`. Raises TypeMismatch for a condition that is no array."""
        if not isinstance(condition, Traced):
            raise TypeMismatch(f"cd.where takes an array of truth values, not {condition!r}: compare, as in `a > 0`")
        whole = {v.type.element for v in (a, b) if isinstance(v, Traced)} == {"int"}
        branches = [self.lift(v, infinite=True, element="int" if whole else "real") for v in (a, b)]
        if {v.type.element for v in branches} != {"bool"}:
            branches = [self.numeric(v) for v in branches]
        return self.map("where", self.lift(condition), *branches)

    def logic(self, fn: ScalarFunction, *operands: object) -> Traced:
        """A connective of arrays of truth values. Raises TypeMismatch for other operands."""
        for operand in operands:
            if not isinstance(operand, Traced):
                raise TypeMismatch(f"&, | and ~ combine arrays of truth values, not {short(operand)}: compare first")
        return self.map(fn, *[self.lift(a) for a in operands])

    def quotient(self, array: object, divisor: object) -> Traced:
        """⌊a/b⌋ of an array of integers and a positive integer or a size. Raises TypeMismatch for other operands."""
        a, b = (self.lift(v, element="int") for v in (array, divisor))
        if a.type.element != "int":
            raise TypeMismatch(
                f"// and % take integers, such as positions and sizes, and got {a} of {a.type.element} numbers"
            )
        least = None if b.type.element != "int" else index_expressions.expression(self.maker, b._wire, ())
        if least is None or not index_maps.natural(least) or index_maps.bounds(least, _at_least_one)[0] < 1:
            raise TypeMismatch(
                f"// and % take a divisor that is a positive integer or made of sizes, not {short(divisor)}"
            )
        return self.map("floordiv", a, b)

    def numeric(self, array: Traced) -> Traced:
        """Truth values as the numbers 0 and 1; numbers as they are."""
        if array.type.element != "bool":
            return array
        return self.map("where", array, self.lift(1), self.lift(0))

    def reduce(self, monoid: str, array: Traced, axis: str) -> Traced:
        """A reduction over one axis by a monoid. Raises TypeMismatch for a product of what may be minus infinity."""
        line = self.line()
        if monoid == "prod" and array.type.element == "extended":
            raise TypeMismatch("'prod' of an array that may hold minus infinity is not defined", line)
        key = (monoid, axis, line, id(array.type))
        box = self._interned.get(key)
        if box is None:
            box = self._interned[key] = reduce_box(monoid, axis, array.type, line)
        return self.add(box, (array,))[0]

    def einsum(self, arrays: Sequence[Traced], output: tuple[str, ...]) -> Traced:
        """A contraction: the sum of products over all axes but those named. Raises TypeMismatch for arrays that may
        hold minus infinity."""
        line = self.line()
        types = [a.type for a in arrays]
        key = ("einsum", output, line, *map(id, types))
        box = self._interned.get(key)
        if box is None:
            if any(ty.element == "extended" for ty in types):
                raise TypeMismatch("einsum of an array that may hold minus infinity is not defined", line)
            merge_axes(tuple(types))
            box = self._interned[key] = einsum_box(types, output, line)
        return self.add(box, arrays)[0]

    def rename(self, array: Traced, pairs: dict[str, str], layout: Sequence[Axis] | None = None) -> Traced:
        """Axes renamed, in a given layout; the array itself where nothing changes."""
        line = self.line()
        if not pairs and (layout is None or tuple(layout) == array.type.axes):
            return array
        box = rename_box(array.type, pairs, layout)
        renamed = self.add(Box(box.op, box.dom, box.cod, line), (array,))[0]
        self.learn(renamed.type.axes)
        return renamed

    def learn(self, axes: Sequence[Axis]) -> None:
        """Declares axes that no input has."""
        for axis in axes:
            if axis.name in self._declared:
                self._declared.remove(axis.name)
                self.axes[axis.name] = axis
            known = self.axes.setdefault(axis.name, axis)
            if known.size != axis.size:
                self._ambiguous[axis.name] = (known, axis)

    def call(self, name: str, body: Diagram, arrays: Sequence[Traced]) -> tuple[Traced, ...]:
        """A diagram as one named box, on arrays of exactly its types."""
        return self.add(Box(Call(name, body), body.dom, body.cod, self.line()), arrays)

    # -- the result ------------------------------------------------------------------------------

    def diagram(self, outputs: Sequence[Traced], names: tuple[str, ...] = (), title: str = "") -> Diagram:
        """The diagram with these outputs, without boxes that reach none of them."""
        graph = reachable(Graph(self.dom, tuple(self.nodes), tuple(a._wire for a in outputs)))
        return of_graph(graph, Ty(*(a.type for a in outputs)), names, title)


class Traced(ArrayMethods):
    """An array inside an algorithm: it has a type and no values. Operators broadcast by axis name.

    >>> import catdiag as cd
    >>> @cd.algorithm("q x, x")
    ... def f(a, b):
    ...     return (a - b) ** 2
    >>> str(f)
    'f: [q x] @ [x] → [q x]'
    """

    __slots__ = ("_trace", "_wire", "type")
    __hash__ = None  # type: ignore[assignment]

    def __init__(self, trace: Trace, wire: int, type: ArrayType) -> None:
        self._trace, self._wire, self.type = trace, wire, type

    @property
    def axes(self) -> tuple[str, ...]:
        """The names of the axes, in layout order."""
        return self.type.names

    def rename(self, **pairs: str) -> Traced:
        """The same array with axes renamed: `a.rename(x="y")`. Raises AxisError for an axis that it does not have."""
        trace = self._here()
        for old, new in pairs.items():
            if self.type.axis(old) is None:
                have = " ".join(self.axes) or "no axes"
                raise AxisError(f"cannot rename axis {old!r}: the array has {have}; write a.rename(old='new')")
            if len(parse_axes(new)) != 1 or not new.isidentifier():
                raise SignatureError(f"cannot rename axis {old!r} to {new!r}: expected one name")
        return trace.rename(self, {old: new for old, new in pairs.items() if old != new})

    def _here(self) -> Trace:
        trace = running()
        trace.lift(self)
        return trace

    # -- operators -------------------------------------------------------------------------------

    def __add__(self, other: Operand) -> Traced:
        return running().arithmetic("add", self, other)

    def __radd__(self, other: Operand) -> Traced:
        return running().arithmetic("add", other, self)

    def __sub__(self, other: Operand) -> Traced:
        return running().arithmetic("sub", self, other)

    def __rsub__(self, other: Operand) -> Traced:
        return running().arithmetic("sub", other, self)

    def __mul__(self, other: Operand) -> Traced:
        return running().arithmetic("mul", self, other)

    def __rmul__(self, other: Operand) -> Traced:
        return running().arithmetic("mul", other, self)

    def __truediv__(self, other: Operand) -> Traced:
        return running().arithmetic("div", self, other)

    def __rtruediv__(self, other: Operand) -> Traced:
        return running().arithmetic("div", other, self)

    def __floordiv__(self, other: Operand) -> Traced:
        return running().quotient(self, other)

    def __rfloordiv__(self, other: Operand) -> Traced:
        return running().quotient(other, self)

    def __mod__(self, other: Operand) -> Traced:
        return self - running().quotient(self, other) * other

    def __rmod__(self, other: Operand) -> Traced:
        return other - running().quotient(other, self) * self

    def __neg__(self) -> Traced:
        return running().arithmetic("neg", self)

    def __pos__(self) -> Traced:
        return running().numeric(self)

    def __abs__(self) -> Traced:
        return running().arithmetic("abs", self)

    def __floor__(self) -> Traced:
        return running().arithmetic("floor", self)

    def __ceil__(self) -> Traced:
        return running().arithmetic("ceil", self)

    def __round__(self) -> Traced:
        return running().arithmetic("round", self)

    def __lt__(self, other: Operand) -> Traced:
        return running().arithmetic("lt", self, other)

    def __le__(self, other: Operand) -> Traced:
        return running().arithmetic("le", self, other)

    def __gt__(self, other: Operand) -> Traced:
        return running().arithmetic("lt", other, self)

    def __ge__(self, other: Operand) -> Traced:
        return running().arithmetic("le", other, self)

    def __eq__(self, other: object) -> Traced:  # type: ignore[override]
        return running().arithmetic("eq", self, other)

    def __ne__(self, other: object) -> Traced:  # type: ignore[override]
        return running().arithmetic("ne", self, other)

    def __and__(self, other: Traced) -> Traced:
        return running().logic("and", self, other)

    def __rand__(self, other: Traced) -> Traced:
        return running().logic("and", other, self)

    def __or__(self, other: Traced) -> Traced:
        return running().logic("or", self, other)

    def __ror__(self, other: Traced) -> Traced:
        return running().logic("or", other, self)

    def __invert__(self) -> Traced:
        return running().logic("not", self)

    def __pow__(self, exponent: Operand) -> Traced:
        trace = self._here()
        power = None if isinstance(exponent, Traced) else number(exponent)
        if power is None or power.denominator > 2 or abs(power) > _MAX_POWER:
            raise TypeMismatch(
                f"** takes an integer or half-integer exponent of at most {_MAX_POWER}, not {exponent}: "
                "for other powers of positive numbers write cd.exp(p * cd.log(a))"
            )
        base = trace.numeric(self)
        if power.denominator == 2:
            base = trace.arithmetic("sqrt", base)
        result = self._power(trace, base, abs(power.numerator))
        return trace.arithmetic("div", 1, result) if power < 0 else result

    @staticmethod
    def _power(trace: Trace, base: Traced, n: int) -> Traced:
        if n == 0:
            return trace.rename(trace.lift(1), {}, base.type.axes)
        result: Traced | None = None
        while True:
            if n % 2:
                result = base if result is None else trace.arithmetic("mul", result, base)
            n //= 2
            if n == 0:
                return result  # type: ignore[return-value]
            base = trace.arithmetic("mul", base, base)

    def __rpow__(self, base: Operand) -> NoReturn:
        raise TypeMismatch(f"an array cannot be an exponent: for {base} ** a write cd.exp(a * cd.log({base}))")

    def __str__(self) -> str:
        return str(self.type)

    def __repr__(self) -> str:
        return f"<traced {self.type}>"


def _at_least_one(leaf: int | str) -> tuple[int, int]:
    return (leaf, leaf) if isinstance(leaf, int) else (1, 1)
