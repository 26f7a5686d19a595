"""Boxes of arrays: blocks that the copy engine (TMA) loads, with zeros where they reach out of the array."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from catdiag.codegen.syntax import Name, Number, PythonExpression, TupleOf, method
from catdiag.codegen.triton.array_accesses import StoredArray
from catdiag.codegen.triton.mask_ranges import Affine, affine
from catdiag.codegen.triton.tile_expressions import Nodes
from catdiag.codegen.triton.tile_nodes import Dim, TileNode, natural, terms

PIECE_BYTES = 16
"""What the copy engine moves at once."""


@dataclass(eq=False)
class Boxes:
    """Blocks of an array that the copy engine loads; `name` is that of their tensor descriptor, which has the axes of
    the array in this `order`."""

    name: str
    array: StoredArray
    shape: tuple[str, ...]
    order: tuple[int, ...]
    looped: bool = False
    """Whether a loop loads them, or a matrix product in a loop reads them: only then does a descriptor pay."""
    offsets: tuple[str, ...] = ()
    """The kernel's sizes by which rows of boxes begin later in a row of the array: multiples of 16 bytes."""
    windowed: bool = False
    """Whether iterations of a loop load boxes that lie over each other: these pay for products only, since others load
    all but the first from the cache of the core."""

    @property
    def tensor(self) -> PythonExpression:
        """The array as the descriptor has it."""
        name = Name(self.array.name)
        if self.order == tuple(range(len(self.order))):
            return name
        return method(name, "permute", TupleOf(tuple(map(Number, self.order))))


@dataclass(frozen=True)
class BoxAccess:
    """A load of one box: for each axis of the array its dimension, None if it is one entry, and where it starts."""

    dims: tuple[Dim | None, ...]
    starts: tuple[TileNode, ...]

    @property
    def units_first(self) -> tuple[int, ...]:
        """The axes along which it is one entry, then the others. Triton 3.6 reads a box of (128, 1, 64) entries through
        registers, and has products overwrite them while warpgroups multiply them: results are wrong. A box of (1, 128,
        64) is multiplied where it lies."""
        units = (k for k, dim in enumerate(self.dims) if dim is None)
        return (*units, *(k for k, dim in enumerate(self.dims) if dim is not None))


def boxed(nodes: Nodes, array: StoredArray, places: Sequence[TileNode]) -> BoxAccess | None:
    """The box that is read of an array, at a place along each axis; None if what is read is none.

    A place is a start and the entry of one dimension: of windows along an axis, one tap of which is read at a time,
    each is a box.
    """
    dims: list[Dim | None] = []
    starts: list[TileNode] = []
    for place in places:
        start, own = nodes.const(0, "int"), None
        for sign, term in terms(place):
            if not term.dims:
                start = nodes.op(sign, start, term)
                continue
            dim = term.dims[0]
            if sign == "sub" or term.kind != "arange" or dim in dims or own is not None:
                return None
            own = dim
        dims.append(own)
        starts.append(start)
    if array.parts or not dims or dims[-1] is None or len(dims) > 5 or array.ty.element not in ("real", "extended"):
        return None
    return BoxAccess(tuple(dims), tuple(starts))


def row_offsets(
    start: TileNode, tiles: Collection[TileNode], sizes: Collection[str], width: int
) -> tuple[str, ...] | None:
    """The sizes by which a row of boxes, whose entries have `width` bytes, starts in a row of the array, beside the
    starts of some `tiles`. None where it may start within the 16 bytes that the copy engine moves at once: an H200 has
    no such instruction, and kernels fail (tried at 1, 2, 4 and 8 entries of bf16, of which the last runs)."""
    form, found = affine(start), dict[str, None]()
    for term in form.terms:
        factors = term.args if term.kind == "mul" else (term,)
        names = [f.data[0] for f in factors if f.kind == "symbol" and f.data[0] in sizes]
        if not any(factor in tiles for factor in factors):
            if not names:
                return None
            found[names[0]] = None
    return None if form.constant * width % PIECE_BYTES else tuple(found)


def ends_with(dim: Dim, start: TileNode, size: TileNode) -> bool:
    """Whether `start` + i is known to be outside of an axis of a `size` for each i outside of a dimension."""
    if dim.within is None:
        return True
    if dim.within.kind != "lt":
        return False
    place, end = map(affine, dim.within.args)
    left = end.plus(place, -1).plus(Affine(0, {n: c for n, c in place.terms.items() if n.kind == "arange"}))
    return _natural(left.plus(affine(size), -1).plus(affine(start)))


def inside(condition: TileNode, places: Sequence[TileNode], sizes: Sequence[TileNode]) -> bool:
    """Whether a condition is known to hold wherever an array, of some sizes, has an entry at these places."""
    if condition.value is not None:
        return bool(condition.value)
    if condition.kind == "and":
        return all(inside(part, places, sizes) for part in condition.args)
    if condition.kind not in ("le", "lt") or any(a.element != "int" for a in condition.args):
        return False
    small, large = map(affine, condition.args)
    needed = large.plus(small, -1).plus(Affine(1 if condition.kind == "lt" else 0), -1)
    ends = [affine(place) for place in places]
    ends += [affine(size).plus(affine(place), -1).plus(Affine(-1)) for place, size in zip(places, sizes, strict=True)]
    return _natural(needed) or any(_natural(needed.plus(end, -1)) for end in ends)


def _natural(form: Affine) -> bool:
    """Whether an affine form is known to be nonnegative."""
    return form.constant >= 0 and all(n > 0 and natural(node) for node, n in form.terms.items())
