"""Operations: what a single box can be.

A box is an operation with its types. An operation names only the axes that it removes or adds. Every other axis of the
inputs is weaved: the box is mapped over it, and inputs without it are broadcast. So one `Reduce("sum", "x")` applies to
arrays of any shape, and weaving a box changes its types and nothing else. The meaning of each operation is defined in
one place, `kernel/semantics.py`.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import ClassVar, TypeVar, get_args

from catdiag.category.diagram import Diagram
from catdiag.category.graph import Box as Box
from catdiag.category.graph import Generic as Generic
from catdiag.category.graph import NestingOp
from catdiag.category.graph import Operation as Operation
from catdiag.category.index_maps import Read as Read
from catdiag.category.index_maps import Reindex as Reindex
from catdiag.category.index_maps import View as View
from catdiag.category.scalars import MONOIDS, OF_INTEGERS, Apply, Cast, ScalarFunction, signature
from catdiag.category.types import ArrayType, Axis, Size, Ty, show, union
from catdiag.util.errors import AxisError, TypeMismatch

V = TypeVar("V")


@dataclass(frozen=True)
class Map:
    """A scalar function, elementwise over the union of the inputs' axes."""

    fn: ScalarFunction

    @property
    def name(self) -> str:
        """A short name for pictures and messages."""
        return str(self.fn)


COMBINES = {"sum": "add", "prod": "mul", "max": "max", "min": "min", "any": "or", "all": "and"}
"""The scalar function that combines two results of a reduction, by its monoid."""


@dataclass(frozen=True)
class Reduce:
    """A reduction over one axis by a commutative monoid."""

    monoid: str
    axis: str

    @property
    def name(self) -> str:
        """A short name for pictures and messages."""
        return f"{self.monoid}[{self.axis}]"

    @property
    def combines(self) -> str:
        """The scalar function that combines two results."""
        return COMBINES[self.monoid]


@dataclass(frozen=True)
class Einsum:
    """A contraction: the product of the inputs, summed over the axes that the output does not have."""

    name: ClassVar[str] = "einsum"
    monoid: ClassVar[str] = "sum"
    combines: ClassVar[str] = COMBINES["sum"]


@dataclass(frozen=True)
class Rename:
    """Axes renamed, in any layout. Without pairs it is a transposition, or a broadcast along new axes."""

    pairs: tuple[tuple[str, str], ...] = ()
    name: ClassVar[str] = "rename"


@dataclass(frozen=True)
class Index:
    """The positions along an axis, an array over that axis (iota)."""

    axis: str

    @property
    def name(self) -> str:
        """A short name for pictures and messages."""
        return f"index[{self.axis}]"


@dataclass(frozen=True)
class SizeOf:
    """A size as a scalar."""

    size: Size

    @property
    def name(self) -> str:
        """A short name for pictures and messages."""
        return f"sizeof[{show(self.size)}]"


@dataclass(frozen=True)
class Const:
    """A rational constant; None is minus infinity."""

    value: Fraction | None

    @property
    def name(self) -> str:
        """A short name for pictures and messages."""
        return "-inf" if self.value is None else str(self.value)


def clamped(value: Fraction, largest: float = sys.float_info.max) -> float:
    """A number as a floating-point type stores it whose largest number is given; larger numbers are clamped to it.

    >>> clamped(Fraction(10**400)), clamped(Fraction(-1, 2))
    (1.7976931348623157e+308, -0.5)
    """
    return float(max(Fraction(-largest), min(value, Fraction(largest))))


@dataclass(frozen=True)
class Call(NestingOp):
    """A named diagram, drawn as one box; it means the same as its body."""

    name: str
    body: Diagram

    def bodies(self) -> tuple[Diagram, ...]:
        """The body."""
        return (self.body,)

    def with_bodies(self, new: tuple[Diagram, ...]) -> Call:
        """The operation with another body."""
        return replace(self, body=new[0])

    def without_bodies(self) -> tuple[Hashable, ...]:
        """The data except the body."""
        return Call, self.name


@dataclass(frozen=True)
class FoldOp(NestingOp):
    """A loop over consecutive nonempty blocks of one axis, with a state on chip.

    The inputs of the box that have the axis are streamed, the others are resident. In the bodies the axis has the local
    size `block`, a symbol: the length of the list or block.

    - `unit`: () → states, the state of the empty list;
    - `step`: (states, inputs at a block) → states, one iteration of the loop;
    - `merge`: (states, states) → states, for two consecutive lists (for trees of merges);
    - `state`: inputs at a list → states, the specification: each component as a function of a list.

    The box means `state` of the whole list. The loop computes it by folding `step`; that both agree is list induction.

    The last `emitted` results are no states: they have the axis, and an iteration makes a block of each from its block
    of the inputs, which is saved there. Only `step` and `state` give them, after the states.

    The following options say how the loop is run. They do not change its result (a premise in the kernel for each):

    - `parts`: a size symbol (split-K): the axis is cut into that many parts, each with a loop of its own, and their
      states are merged in order;
    - `is_live`: inputs at a block → truth values. A block where none is true changes no state. It is skipped if the
      loop tests blocks (`tests_blocks`), which it must do if it has no `bounds`;
    - `bounds`: inputs at the list → two arrays of integers lo and hi (loop bounds): all live elements are between them.
      A block that ends at or before lo, or starts at or after hi, for all entries, is skipped.
    """

    axis: str
    block: str
    unit: Diagram
    step: Diagram
    merge: Diagram
    state: Diagram
    components: tuple[str, ...] = ()
    parts: str | None = None
    bounds: Diagram | None = None
    is_live: Diagram | None = None
    tests_blocks: bool = False
    emitted: int = 0

    @property
    def state_count(self) -> int:
        """The number of states; results of the box beyond them are emitted block by block."""
        return len(self.unit.cod)

    @property
    def block_test(self) -> Diagram | None:
        """The condition that the loop tests for each block before it runs it; None if it tests none."""
        return self.is_live if self.tests_blocks or self.bounds is None else None

    @property
    def name(self) -> str:
        """A short name for pictures and messages."""
        return f"fold[{self.axis}]"

    def bodies(self) -> tuple[Diagram, ...]:
        """Unit, step, merge and state, then the bounds and what is live, if there are such."""
        further = (self.bounds, self.is_live)
        return (self.unit, self.step, self.merge, self.state, *(d for d in further if d is not None))

    def with_bodies(self, new: tuple[Diagram, ...]) -> FoldOp:
        """The operation with other bodies, in the order of `bodies`."""
        further = iter(new[4:])
        bounds = None if self.bounds is None else next(further)
        live = None if self.is_live is None else next(further)
        return replace(self, unit=new[0], step=new[1], merge=new[2], state=new[3], bounds=bounds, is_live=live)

    def tiled_axes(self) -> tuple[tuple[str, str], ...]:
        """Its axis with the symbol of a block, and with that of the number of parts, if it runs in parts."""
        return (self.axis, self.block), *(((self.axis, self.parts),) if self.parts else ())

    def without_bodies(self) -> tuple[Hashable, ...]:
        """The data except the bodies, and which of them there are."""
        there = self.bounds is None, self.is_live is None
        return FoldOp, self.axis, self.block, self.components, self.parts, *there, self.tests_blocks, self.emitted


@dataclass(frozen=True)
class GroupOp(NestingOp):
    """A body run on tiles of some axes, each tile independent.

    `tiles` pairs each grouped axis with its tile size, a symbol, in the body. Without tiles the body runs once, as a
    kernel of its own. Results of tiles are concatenated along the grouped axes that they have. `added` are grouped axes
    that some results lack, and that these are sums over: such a result is an *accumulating output*, which starts at 0,
    and to which each tile along the axis adds its part, in any order. With `scatters`, a part that is a sum over
    one-hot rows is added entry by entry (`catdiag.schedule.scatter_add`), which changes no result.
    """

    tiles: tuple[tuple[str, str], ...]
    body: Diagram
    added: tuple[str, ...] = ()
    scatters: bool = False

    @property
    def name(self) -> str:
        """A short name for pictures and messages."""
        return f"group[{' '.join(a for a, _ in self.tiles)}]" if self.tiles else "kernel"

    def accumulated(self) -> tuple[tuple[str, ...], ...]:
        """For each result, the axes along which tiles are added up in it."""
        return tuple(tuple(axis for axis in self.added if axis not in ty.names) for ty in self.body.cod)

    def bodies(self) -> tuple[Diagram, ...]:
        """The body."""
        return (self.body,)

    def with_bodies(self, new: tuple[Diagram, ...]) -> GroupOp:
        """The operation with another body."""
        return replace(self, body=new[0])

    def tiled_axes(self) -> tuple[tuple[str, str], ...]:
        """The grouped axes, each with the symbol of a tile."""
        return self.tiles

    def without_bodies(self) -> tuple[Hashable, ...]:
        """The data except the body."""
        return GroupOp, self.tiles, self.added, self.scatters


ARITHMETIC = (Map, Einsum, Reduce)
"""The operations that compute numbers of the entries of their inputs."""

REDUCTIONS = (Einsum, Reduce)
"""The operations that combine entries along axes by a monoid; an einsum may sum over none."""

INDEX_MAPS = (Rename, Reindex, View)
"""The operations that compute nothing: their results have entries of the inputs, at other indices."""

NULLARY = (Index, SizeOf, Const)
"""The operations without inputs."""

NESTING = (Call, FoldOp, GroupOp)
"""The operations with diagrams as bodies."""

Op = Map | Reduce | Einsum | Rename | Reindex | View | Index | SizeOf | Const | Call | Generic | FoldOp | GroupOp

OP_CLASSES: tuple[type[Op], ...] = get_args(Op)
"""The classes of operations; what reads boxes has one table with a line for each (see `catdiag.category.scalars`)."""


def bodies(op: Operation) -> tuple[Diagram, ...]:
    """The bodies of an operation: of a named diagram, a loop or a group; empty for any other.

    >>> bodies(Map("exp"))
    ()
    """
    return op.bodies() if isinstance(op, NESTING) else ()


def with_bodies(op: Operation, new: tuple[Diagram, ...]) -> Operation:
    """The operation with other bodies, in the order of `bodies`."""
    return op.with_bodies(new) if isinstance(op, NESTING) else op


def without_bodies(op: Operation) -> tuple[Hashable, ...]:
    """The data of an operation except its bodies; operations are equal if this data and their bodies are."""
    return op.without_bodies() if isinstance(op, NESTING) else (op,)


def tiled_axes(op: Operation) -> tuple[tuple[str, str], ...]:
    """The axes that a loop or a group cuts, each with the symbol of its blocks or tiles, or of the number of parts of a
    split loop; empty for any other operation."""
    return op.tiled_axes() if isinstance(op, (FoldOp, GroupOp)) else ()


def op_fact(table: Mapping[type[Op], V], op: Operation) -> V | None:
    """The row of an operation in a table of facts; a subclass is read as its class. None where nothing is known."""
    if type(op) in table:
        return table[type(op)]  # type: ignore[index]
    return next((table[kind] for kind in type(op).__mro__ if kind in table), None)


def op_row(table: Mapping[type[Op], V], box: Box, reading: str) -> V:
    """The row of a box's operation in the table of a reading; a subclass is read as its class.

    Raises TypeMismatch, with the name of the box and what cannot be done with it, if the table has no such row.
    """
    for kind in type(box.op).__mro__:
        if kind in table:
            return table[kind]
    known = ", ".join(sorted(kind.__name__ for kind in table))
    raise TypeMismatch(
        f"{box.name} cannot be {reading}: its operation is a {type(box.op).__name__}, expected one of {known}", box.line
    )


def array_name(box: Box, k: int = 0) -> str:
    """The name of an array in tables: that of the box that makes it as output `k`, and the axes.

    >>> array_name(reduce_box("max", "x", ArrayType((Axis("q"), Axis("x")), "extended")))
    'max[x] [q]'

    For a result of a group it is that of the box inside.
    """
    while isinstance(box.op, GroupOp):
        graph = box.op.body.graph
        wire = graph.outputs[k]
        place = graph.makers()[wire]
        if place < 0:
            break
        box, k = graph.nodes[place].box, wire - graph.first_wires()[place]
    return f"{box.name} [{' '.join(box.cod[k].names)}]"


def numbered(name: str, before: int) -> str:
    """The name of an array before which so many others had it.

    >>> numbered("mul [q x]", 0), numbered("mul [q x]", 1), numbered("sum[x]", 1)
    ('mul [q x]', 'mul_1 [q x]', 'sum_1[x]')
    """
    word = re.split(r"[ \[]", name, maxsplit=1)[0]
    return f"{word}_{before}{name[len(word) :]}" if before else name


def _joined(types: Sequence[ArrayType]) -> str:
    elements = {t.element for t in types}
    for element in ("extended", "real", "int"):
        if element in elements:
            return element
    return "bool" if elements == {"bool"} else "real"


def map_box(fn: ScalarFunction, inputs: Sequence[ArrayType], line: str | None = None) -> Box:
    """A scalar function, elementwise over the union of the inputs' axes: in the order of the first input that has them
    all, if one does, so that a scaled array lies in memory as the array does.

    Raises TypeMismatch for another number of arrays than the function takes, and for reals where it takes integers.

    >>> q, x = Axis("q"), Axis("x")
    >>> str(map_box("add", [ArrayType((q,)), ArrayType((x,))]).cod)
    '[q x]'
    >>> str(map_box("mul", [ArrayType((x,)), ArrayType((q, x))]).cod)
    '[q x]'
    """
    element = "real"
    if not isinstance(fn, Apply):
        arity, element = signature(fn, line)
        if len(inputs) != arity:
            raise TypeMismatch(f"{fn} takes {arity} arrays, not {len(inputs)}", line)
        if fn in OF_INTEGERS and any(t.element != "int" for t in inputs):
            raise TypeMismatch(f"{fn} takes integers, not {' and '.join(map(str, inputs))}", line)
        if element == "same":
            element = _joined(inputs[1:] if fn == "where" else inputs)
            element = "real" if isinstance(fn, Cast) and element == "int" else element
    axes = union(inputs, line)
    full = next((ty.axes for ty in inputs if len(ty.axes) == len(axes)), axes)
    return Box(Map(fn), Ty(*inputs), Ty(ArrayType(full, element)), line)


def reduce_box(monoid: str, axis: str, array: ArrayType, line: str | None = None) -> Box:
    """A reduction over one axis of an array; raises AxisError if the array does not have the axis."""
    if array.axis(axis) is None:
        have = " ".join(array.names) or "no axes"
        raise AxisError(f"cannot reduce over axis {axis!r}: the array has {have}", line)
    if monoid not in MONOIDS:
        raise TypeMismatch(f"unknown monoid {monoid!r}: expected one of {', '.join(MONOIDS)}", line)
    kept = tuple(a for a in array.axes if a.name != axis)
    element = "bool" if monoid in ("any", "all") else array.element
    return Box(Reduce(monoid, axis), Ty(array), Ty(ArrayType(kept, element)), line)


def einsum_box(inputs: Sequence[ArrayType], output: Sequence[str], line: str | None = None) -> Box:
    """A contraction with the named axes left; raises AxisError for an output axis that no input has."""
    axes = {a.name: a for a in union(inputs, line)}
    missing = next((n for n in output if n not in axes), None)
    if missing is not None:
        raise AxisError(f"axis {missing!r} of the result is on no input (these have {', '.join(axes) or 'none'})", line)
    return Box(Einsum(), Ty(*inputs), Ty(ArrayType(tuple(axes[n] for n in output), _joined(inputs))), line)


def replace_name(axis: Axis, pairs: Mapping[str, str]) -> Axis:
    """The axis under its new name, with its old size."""
    return Axis(pairs[axis.name], axis.size) if axis.name in pairs else axis


def reindex_box(op: Reindex | View, inputs: Sequence[ArrayType], line: str | None = None) -> Box:
    """An index map of arrays; the axes that it adds, and those of positions in the first array, come where those that
    it removes were in the first array.

    >>> b, g, d = Axis("b"), Axis("g"), Axis("d")
    >>> str(reindex_box(Reindex("split", b * g), [ArrayType((b * g, d))]).cod)
    '[b g d]'

    Raises AxisError for an array that lacks an axis, and for a result with one axis twice; TypeMismatch for inputs of
    the wrong number or element type.
    """
    rest = {a.name: a for a in op.rest(inputs, line)}
    first = [a.name for a in inputs[0].axes]
    place = next((k for k, n in enumerate(first) if n not in rest), 0)
    before = [a for a in map(rest.get, first[:place]) if a is not None]
    read = inputs if isinstance(op, Reindex) else inputs[: len(op.reads)]
    placed = {n for ty in inputs[len(read) :] for n in ty.names} - {*first}
    own = [a for n, a in rest.items() if n in placed]
    after = [a for n, a in rest.items() if n not in placed and n not in first[:place]]
    element = _joined(read) if len({t.element for t in read}) > 1 else inputs[0].element
    return Box(op, Ty(*inputs), Ty(ArrayType((*before, *op.added_axes(), *own, *after), element)), line)


def index_box(axis: Axis) -> Box:
    """The positions along an axis: integers from 0 to size − 1."""
    return Box(Index(axis.name), Ty(), Ty(ArrayType((axis,), "int")))


def size_box(size: Size) -> Box:
    """A size as an integer scalar."""
    return Box(SizeOf(size), Ty(), Ty(ArrayType((), "int")))


def const_box(value: Fraction | None, element: str = "real") -> Box:
    """A rational constant; with element type `int` an integer one; minus infinity for None."""
    return Box(Const(value), Ty(), Ty(ArrayType((), "extended" if value is None else element)))
