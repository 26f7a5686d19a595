"""What is known of the values of a kernel whose text is read: tiles without elements; and what happens to them."""

from __future__ import annotations

import enum
import math
from dataclasses import dataclass, field
from typing import Any

from catdiag.runtime.abstract_interpreter.register_layouts import RegisterLayout
from catdiag.util.errors import CatdiagError

Shape = tuple[int, ...]


class UnknownValue(enum.Enum):
    """The value of what only a run decides."""

    UNKNOWN = "unknown"


UNKNOWN = UnknownValue.UNKNOWN

WIDTHS = {
    "fp64": 8, "int64": 8, "fp32": 4, "tf32": 4, "int32": 4, "uint32": 4, "bf16": 2, "fp16": 2, "int16": 2,
    "fp8": 1, "int8": 1, "uint8": 1, "bool": 1,
}  # fmt: skip
_NAMES = {
    "float64": "fp64", "float32": "fp32", "bfloat16": "bf16", "float16": "fp16", "float8e4nv": "fp8", "float8e5": "fp8",
    "float8_e4m3fn": "fp8", "float8_e5m2": "fp8", "int1": "bool", **{name: name for name in WIDTHS},
}  # fmt: skip


def dtype_of(name: str) -> str:
    """A type's short name, given torch's or Triton's. Raises CatdiagError for an unknown one.

    >>> dtype_of("bfloat16"), dtype_of("float8e4nv")
    ('bf16', 'fp8')
    """
    if name not in _NAMES:
        raise CatdiagError(f"element type {name!r} is not known here: expected one of {', '.join(sorted(_NAMES))}")
    return _NAMES[name]


@dataclass(frozen=True)
class Pointer:
    """A tensor among a kernel's arguments, by its element type; with a `block`, a tensor descriptor, of the tensor
    `array` (by default one with the argument's name)."""

    dtype: str
    block: Shape = ()
    array: str = ""


@dataclass(frozen=True)
class TileValue:
    """What is known of a value: a tile, a number, a pointer, or the name of something."""

    shape: Shape = ()
    dtype: str = "int32"
    known: Any = UNKNOWN
    array: str = ""
    unit: int | None = None
    loads: frozenset[int] = frozenset()
    direct: int | None = None
    layout: RegisterLayout | None = None
    defined_at: int = 0
    block: Shape = ()
    pointer: bool = False
    swapped: bool = False
    by: int = 1
    """What power of two divides it, or where runs of neighbours begin, as far as Triton knows."""
    grain: tuple[int, ...] = ()
    """Of a truth value, along each axis: of how many neighbours all are alike."""
    held: bool = False
    """Made by an instruction of its own, which keeps it in registers."""
    fresh: int = 0
    """The time of the product whose result this is, summed from zero; 0 for anything else."""

    @property
    def width(self) -> int:
        return WIDTHS[self.dtype]

    @property
    def bytes(self) -> int:
        return math.prod(self.shape) * self.width

    @property
    def matrix(self) -> int:
        """The version of the matrix unit whose result it is laid out as; 0 if none."""
        return self.layout.matrix if self.layout is not None else 0


@dataclass
class TracedLoad:
    """A tile that is loaded: at what time, in which loop; `vector` neighbours are loaded at once.
    `others`: whether anything but products reads it."""

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


@dataclass(frozen=True)
class TracedStore:
    """A tile that is stored: `vector` neighbours along the axis `unit` at once by a thread."""

    array: str
    shape: Shape
    unit: int | None
    vector: int


@dataclass(frozen=True)
class Dot:
    """A product of two tiles, by which unit: 3 (wgmma), 2 (mma) or 0 (ordinary arithmetic)."""

    time: int
    loop: int | None
    left: TileValue
    right: TileValue
    version: int


@dataclass(frozen=True)
class Scratch:
    """Shared memory for a moment; none if `unless` is a load whose block lies there anyway."""

    time: int
    bytes: int
    what: str
    unless: int | None = None


@dataclass
class TracedLoop:
    """A loop: the one that it lies in, its times, how many stages it is run in, and whether another lies in it."""

    number: int
    outer: int | None
    start: int
    end: int
    stages: int | None
    holds: bool = False


@dataclass
class TileTrace:
    """What a kernel does, in order of time."""

    loads: list[TracedLoad] = field(default_factory=list)
    stores: list[TracedStore] = field(default_factory=list)
    dots: list[Dot] = field(default_factory=list)
    scratch: list[Scratch] = field(default_factory=list)
    loops: list[TracedLoop] = field(default_factory=list)
    time: int = 0


@dataclass(frozen=True)
class NamedValue:
    """A dotted name of something outside the kernel, or a method of a value."""

    name: str
    of: TileValue | None = None


RANK = {"bool": 0, "int8": 1, "uint8": 1, "int16": 2, "int32": 3, "uint32": 3, "int64": 4, "fp8": 5, "bf16": 6,
         "fp16": 6, "tf32": 7, "fp32": 7, "fp64": 8}  # fmt: skip


MOST = 1 << 30
"""A power of two above all that is asked for: what divides 0."""


def power(number: Any) -> int:
    """The largest power of two that divides a whole number; 1 for anything else.

    >>> power(48), power(0) == MOST, power(0.5)
    (16, True, 1)
    """
    if isinstance(number, bool) or not isinstance(number, int):
        return 1
    return min(number & -number, MOST) if number else MOST


def broadcast(a: Shape, b: Shape) -> Shape:
    rank = max(len(a), len(b))
    a, b = (1,) * (rank - len(a)) + a, (1,) * (rank - len(b)) + b
    for m, n in zip(a, b, strict=True):
        if m != n and 1 not in (m, n):
            raise ValueError(f"tiles of {a} and {b} do not go together")
    return tuple(max(m, n) for m, n in zip(a, b, strict=True))


def wider(*values: TileValue) -> str:
    """The type of a result: that of the widest tile, where there is one; numbers adapt."""
    tiles = [v.dtype for v in values if v.shape] or [v.dtype for v in values]
    return max(tiles, key=lambda name: RANK[name])


def side(shape: Shape, *values: TileValue) -> int | None:
    """The axis along which a sum of positions steps by one."""
    sides = [v.unit + len(shape) - len(v.shape) for v in values if v.unit is not None]
    return sides[0] if len(sides) == 1 else None
