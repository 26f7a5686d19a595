"""What a kernel is for the launch that runs it: its lines, and what it is handed in which order."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

from catdiag.category.ops import Map
from catdiag.codegen.triton.array_accesses import StoredArray
from catdiag.codegen.triton.kernel_builder import Boxes, Names
from catdiag.codegen.triton.tile_expressions import TileNode
from catdiag.schedule.full_precision import Origin, input_origin, output_origins
from catdiag.schedule.loop_nest import Carry, Let, LoopNest, LoopSpan, NestValue, Save, Slice, Start, statements

WIDTHS = {"fp32": "float32", "fp16": "float16", "bf16": "bfloat16", "fp8": "float8_e4m3fn", "fp64": "float64",
          "tf32": "float32"}  # fmt: skip


def saved_types(program: LoopNest, dtype: str = "bf16") -> dict[NestValue, str]:
    """The types in which arrays are saved of which a cast says which, or that are statistics: these in fp32, or wider.

    >>> import catdiag as cd
    >>> from catdiag.schedule.loop_nest import lower
    >>> wide = cd.algorithm("q x -> q")(lambda a: cd.exp(cd.cast(cd.sum(a, "x"), "fp32")))
    >>> list(saved_types(lower(wide.fuse(saved="cast:fp32 [q]").diagram)).values())
    ['fp32']
    """
    cast: dict[NestValue, str] = {}
    found: dict[NestValue, str] = {}
    told = _statistics(program)
    for _, s in statements(program.body):
        if isinstance(s, Let) and isinstance(s.box.op, Map) and s.box.op.fn.startswith("cast:"):
            cast.update(dict.fromkeys(s.targets, s.box.op.fn[5:]))
        elif isinstance(s, Save):
            kind = cast.get(s.value) or cast.get(s.value.origin)
            if kind in WIDTHS:
                found[s.target] = kind
            elif s.value in told and s.target not in program.outputs:
                found[s.target] = "fp64" if dtype == "fp64" else "fp32"
    return found


def _statistics(program: LoopNest) -> set[NestValue]:
    """The values that are statistics, by the rule of `catdiag.schedule.full_precision`."""
    other: set[NestValue] = set()  # states that are none
    while True:
        found: dict[NestValue, Origin] = {}
        before = len(other)

        def of(value: NestValue, found: dict[NestValue, Origin] = found) -> Origin:
            return found.get(value) or input_origin(value.ty)

        for _, s in statements(program.body):
            match s:
                case Let(targets, box, args):
                    found.update(zip(targets, output_origins(box, [of(a) for a in args]), strict=True))
                case Slice(target, source):
                    found[target] = of(source)
                case Start(states):
                    found.update(
                        {
                            v: Origin(input_origin(v.ty).of, v not in other and v.ty.element in ("real", "extended"))
                            for v in states
                        }
                    )
                case Carry(states, values):
                    other |= {v for v, new in zip(states, values, strict=True) if of(new).of and not of(new).statistic}
                case Save(target, value):
                    found[target] = of(value)
        if len(other) == before:
            return {value for value, origin in found.items() if origin.statistic}


@dataclass(frozen=True, eq=False)
class KernelSpec:
    """A kernel as text, and what a launch has to hand it."""

    name: str
    lines: tuple[str, ...]
    note: str
    arrays: tuple[StoredArray, ...]
    strides: Mapping[tuple[StoredArray, str], str]
    scalars: Mapping[StoredArray, str]
    sizes: Mapping[str, str]
    constants: tuple[str, ...]
    blocks: Mapping[str, Any]
    spans: tuple[LoopSpan, ...]
    """The tiles of the grid, but for those that are one entry."""
    single: tuple[LoopSpan, ...]
    loops: tuple[LoopSpan, ...]
    padded: Mapping[str, str]
    """Tiles whose blocks are longer than they are: the name of the block's length."""
    exact: Mapping[str, LoopSpan]
    """Constants that say that an axis is cut into whole tiles."""
    boxes: tuple[Boxes, ...] = ()
    parts: LoopSpan | None = None
    """The axis that a program runs a part of."""
    chunk: LoopSpan | None = None
    """The axis that is cut into parts, by this kernel or the one before."""
    place: int = 0
    """Which of the groups it is of: their numbers of warps and buffers are given one by one."""
    summed: tuple[str, ...] = ()
    """The lengths of blocks that matrix units sum over."""
    sides: tuple[str, ...] = ()
    """The lengths of blocks that are a side of a product, or summed by one: they have a least length."""
    rows: tuple[tuple[str, ...], ...] = ()
    """Of each product by matrix units the lengths of blocks that its rows go over."""
    order: tuple[str, ...] = ()
    """Tiles whose loops are the longer, the further on they are."""
    imbalance: tuple[str, ...] = ()
    """Tiles that loops start or end by."""
    helpers: frozenset[str] = frozenset()
    phases: int = 0
    """Ranges that its loops are run in, where axes are cut into whole blocks: those at the edges of masks apart."""
    short: frozenset[str] = frozenset()
    """Blocks of whole axes that are the next power of two, also where that is less than matrix units take."""
    merged_rows: tuple[tuple[str, ...], ...] = ()
    """The lengths of dimensions that are rows of one matrix together, where a product takes what another has made."""
    reaches: tuple[tuple[tuple[StoredArray, str, str], ...], ...] = ()
    """How far entries of tiles are from where these begin: sums of so many strides of arrays along axes."""
    reads: Mapping[StoredArray, tuple[tuple[TileNode, ...], ...]] = field(default_factory=dict)
    writes: Mapping[StoredArray, tuple[tuple[TileNode, ...], ...]] = field(default_factory=dict)
    """The places of each array that it reads and writes, by the indices of the axes."""
    separately_rounded: bool = False
    """Whether products and differences have to be rounded one after the other: huge numbers, multiplied, are equal."""


def widened(kernel: KernelSpec, read: Collection[str] | None = None) -> list[str]:
    """The lines that let offsets in tiles be numbers of 64 bits where those of 32 are too short, which a launch says:
    strides are converted, those of the names that are `read` (all if None)."""
    far = dict.fromkeys(kernel.strides[array, axis] for sums in kernel.reaches for array, axis, _ in sums)
    names = [n for n in far if read is None or n in read]
    if not names:
        return []
    casts = [f"        {name} = tl.cast({name}, tl.int64)" for name in names]
    return ["    if wide:  # offsets in a tile pass 31 bits", *casts]


@dataclass
class ModuleContext:
    """What the kernels of a module have in common."""

    names: Names
    tiles: Mapping[str, int]
    dtypes: Mapping[str, str]
    dtype: str
    sizes: dict[str, str] = field(default_factory=dict)
    """What sizes are called: where an input has the name of an axis, the size has another."""
    saved: dict[NestValue, StoredArray] = field(default_factory=dict)
    factors: set[str] = field(default_factory=set)
    """The inputs in whose type products are that read no array as it is."""
