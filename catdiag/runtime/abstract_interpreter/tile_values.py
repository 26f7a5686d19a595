"""Abstract values of a kernel (tiles with shapes and no elements), and the trace of what the kernel does with them."""

from __future__ import annotations

import enum
import math
from dataclasses import dataclass, field
from typing import Any

from catdiag.runtime.abstract_interpreter.register_layouts import RegisterLayout
from catdiag.util.errors import CatdiagError

Shape = tuple[int, ...]


class UnknownValue(enum.Enum):
    """The type of `UNKNOWN`, the value of what only a run decides."""

    UNKNOWN = "unknown"


UNKNOWN = UnknownValue.UNKNOWN

HOPPER, BLACKWELL = 9, 10
CDNA = 3
"""AMD's chips with matrix cores, MI300X among them: below all generations of NVIDIA's that are known."""
"""Generations of chips: with matrix products by four warps together, and with tensor memory too."""
WIDTHS = {
    "fp64": 8, "int64": 8, "fp32": 4, "tf32": 4, "int32": 4, "uint32": 4, "bf16": 2, "fp16": 2, "int16": 2,
    "fp8": 1, "int8": 1, "uint8": 1, "bool": 1,
}  # fmt: skip
_NAMES = {
    "float64": "fp64", "float32": "fp32", "bfloat16": "bf16", "float16": "fp16", "float8e4nv": "fp8", "float8e5": "fp8",
    "float8_e4m3fn": "fp8", "float8_e5m2": "fp8", "int1": "bool", **{name: name for name in WIDTHS},
}  # fmt: skip


def dtype_of(name: str) -> str:
    """The short name of an element type, from torch's or Triton's name. Raises CatdiagError for an unknown one.

    >>> dtype_of("bfloat16"), dtype_of("float8e4nv")
    ('bf16', 'fp8')
    """
    if name not in _NAMES:
        raise CatdiagError(f"unknown element type {name!r}: expected one of {', '.join(sorted(_NAMES))}")
    return _NAMES[name]


@dataclass(frozen=True)
class Pointer:
    """A tensor argument of a kernel, by its element type.

    With a `block`, it is a tensor descriptor for blocks of that shape, of the tensor `array` (default: one with the
    name of the argument).
    """

    dtype: str
    block: Shape = ()
    array: str = ""


@dataclass(frozen=True)
class TileValue:
    """What is known of a value: a tile, a number, or a pointer."""

    shape: Shape = ()
    dtype: str = "int32"
    known: Any = UNKNOWN
    """The value of a constant."""
    array: str = ""
    """The tensor into which a pointer points."""
    unit: int | None = None
    """The axis along which positions increase by one: the contiguous axis of a tile of pointers."""
    loads: frozenset[int] = frozenset()
    """The numbers of the loads on which it depends."""
    direct: int | None = None
    """The number of the load whose result it is, unchanged."""
    layout: RegisterLayout | None = None
    defined_at: int = 0
    """The time at which it was computed."""
    block: Shape = ()
    """The block shape of a tensor descriptor."""
    pointer: bool = False
    swapped: bool = False
    """Whether it is a transposed load or product."""
    squeezed: bool = False
    """Whether it is a load of which axes other than those before the last two were removed."""
    permuted: bool = False
    """Whether axes other than the last two were exchanged, which shared memory is not read by."""
    by: int = 1
    """A power of two that divides it, or to which runs of neighbors are aligned, as far as Triton knows."""
    grain: tuple[int, ...] = ()
    """For truth values: along each axis, the length of aligned runs of neighbors that are equal."""
    from_assembly: bool = False
    """Whether inline assembly made it, which keeps it in registers."""
    fresh: int = 0
    """The time of the matrix product whose result this is, accumulated from zero; 0 for any other value."""
    from_loads: bool = False
    """Whether elementwise functions and views made it of loads and constants alone: then the compiler can compute it in
    any register layout."""
    loaded_width: int = 0
    """The bytes of an entry of a load of which only the type was changed: it is converted to other layouts before."""
    forked: bool = False
    """Whether a load on which it depends is read more than once to make it."""
    expanded: tuple[int, TileValue] | None = None
    """The axis of length 1 that was inserted into another tile to make this one, and that tile."""
    carried: bool = False
    """Whether iterations of a loop add it up, in the layout of what they add."""
    factors: tuple[TileValue, TileValue] | None = None
    """The tiles x and y of which it is x[:, :, None] * y[None, :, :]."""

    @property
    def width(self) -> int:
        return WIDTHS[self.dtype]

    @property
    def bytes(self) -> int:
        return math.prod(self.shape) * self.width

    @property
    def matrix(self) -> int:
        """The version of the matrix unit whose result layout it has; 0 if none."""
        return self.layout.matrix if self.layout is not None else 0


@dataclass
class TracedLoad:
    """A load of a tile, at a time and in a loop (None: outside loops).

    `unit` is the contiguous axis, along which a thread loads `vector` neighboring entries at once. `after` are the
    loads on which its addresses depend. `described` says whether it is by a tensor descriptor, `others` whether
    anything but matrix products reads it, `reduced` whether it is summed, or what elementwise functions make of it.
    """

    number: int
    time: int
    loop: int | None
    array: str
    shape: Shape
    dtype: str
    unit: int | None
    after: frozenset[int]
    described: bool
    vector: int
    others: bool = False
    reduced: bool = False

    def lies_in(self, value: TileValue, shape: Shape) -> bool:
        """Whether a shape is made of the load, a `value`, without a copy: axes of length 1 come or go, or axes
        before the last one of a box are merged."""
        same = bool(shape) and [n for n in shape if n != 1] == [n for n in value.shape if n != 1]
        merged = len(shape) == 2 and shape[-1] == value.shape[-1] and not value.permuted
        return same or (self.described and merged)

    def merged_in(self, shape: Shape) -> bool:
        """Whether axes of the load are one in a shape: as rows lie in shared memory, but not the other way round."""
        return sum(n != 1 for n in self.shape) > len(shape)


@dataclass(frozen=True)
class TracedStore:
    """A store of a tile: a thread stores `vector` neighboring entries along the axis `unit` at once."""

    array: str
    shape: Shape
    unit: int | None
    vector: int


@dataclass(frozen=True)
class Dot:
    """A matrix product of two tiles; `version` is 3 (wgmma), 2 (mma) or 0 (ordinary arithmetic), `layout` that of its
    result. Each factor is read in so many `parts`. `conditional`: it is made in some iterations of its loop only."""

    time: int
    loop: int | None
    left: TileValue
    right: TileValue
    version: int
    layout: RegisterLayout
    parts: int = 1
    conditional: bool = False


@dataclass(frozen=True)
class Scratch:
    """Shared memory that is live for an instant; none is needed if `unless` is a load that is in shared memory."""

    time: int
    bytes: int
    what: str
    unless: int | None = None


@dataclass
class TracedLoop:
    """A loop: the enclosing loop, its times, its own number of pipeline stages (None: the launch's, which loops with
    products have), whether it contains a loop."""

    number: int
    outer: int | None
    start: int
    end: int
    stages: int | None
    holds: bool = False


@dataclass
class TileTrace:
    """What one program of a kernel does, in order of time, on a chip of a generation."""

    generation: int = HOPPER
    warps: int = 4
    loads: list[TracedLoad] = field(default_factory=list)
    stores: list[TracedStore] = field(default_factory=list)
    dots: list[Dot] = field(default_factory=list)
    scratch: list[Scratch] = field(default_factory=list)
    awaited: set[int] = field(default_factory=set)
    """The times of the products whose results inline assembly reads, which is after they are complete."""
    loops: list[TracedLoop] = field(default_factory=list)
    time: int = 0


@dataclass(frozen=True)
class ElementType:
    """The type of the elements of a tile, by its short name."""

    name: str


@dataclass(frozen=True)
class NamedValue:
    """A dotted name of something outside the kernel, or a method of the value `of`."""

    name: str
    of: TileValue | None = None


RANK = {"bool": 0, "int8": 1, "uint8": 1, "int16": 2, "int32": 3, "uint32": 3, "int64": 4, "fp8": 5, "bf16": 6,
         "fp16": 6, "tf32": 7, "fp32": 7, "fp64": 8}  # fmt: skip


MOST = 1 << 30
"""A power of two above all alignments: it stands for what divides 0."""


def power(number: Any) -> int:
    """The largest power of two that divides an integer; 1 for anything else.

    >>> power(48), power(0) == MOST, power(0.5)
    (16, True, 1)
    """
    if isinstance(number, bool) or not isinstance(number, int):
        return 1
    return min(number & -number, MOST) if number else MOST


def broadcast(a: Shape, b: Shape) -> Shape:
    """The shape of two tiles broadcast against each other. Raises ValueError if they do not fit."""
    rank = max(len(a), len(b))
    a, b = (1,) * (rank - len(a)) + a, (1,) * (rank - len(b)) + b
    for m, n in zip(a, b, strict=True):
        if m != n and 1 not in (m, n):
            raise ValueError(f"tiles of shapes {a} and {b} do not broadcast: expected equal lengths, or 1")
    return tuple(max(m, n) for m, n in zip(a, b, strict=True))


def wider(*values: TileValue) -> str:
    """The type of an elementwise result: that of the widest tile; numbers count only if there is no tile."""
    tiles = [v.dtype for v in values if v.shape] or [v.dtype for v in values]
    return max(tiles, key=lambda name: RANK[name])


def side(shape: Shape, *values: TileValue) -> int | None:
    """The axis along which a sum of positions increases by one; None if there is not exactly one."""
    sides = [v.unit + len(shape) - len(v.shape) for v in values if v.unit is not None]
    return sides[0] if len(sides) == 1 else None


def neighbors(at: TileValue, mask: Any = None) -> int:
    """The neighboring entries that a thread may load or store at once, at most 16 bytes.

    They must be contiguous and aligned, as far as is known, and have equal masks.
    """
    if at.unit is None or not at.shape:
        return 1
    most = min(max(1, 16 // WIDTHS[at.dtype]), at.shape[at.unit], at.by)
    if isinstance(mask, TileValue) and mask.shape:
        own = at.unit - len(at.shape) + len(mask.shape)
        if own >= 0 and mask.shape[own] > 1:
            most = min(most, mask.grain[own] if mask.grain else 1)
    return max(1, most)
