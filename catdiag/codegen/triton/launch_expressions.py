"""Expressions of the launch function: numbers of tiles and programs, lengths of blocks, and bytes of shared memory.

`sizes` are the names of sizes in the launch function, `known` its expressions of a kernel's compile-time constants.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING

from catdiag.codegen.syntax import (
    TIMES,
    Compare,
    Logical,
    Name,
    Number,
    Parens,
    PythonExpression,
    TupleOf,
    bracketed,
    call,
    compared,
    joined,
    joined_all,
    length_of,
)
from catdiag.codegen.triton.kernel_builder import sized
from catdiag.codegen.triton.kernel_signature import KernelSpec
from catdiag.codegen.triton.launch_parameters import spans_of
from catdiag.codegen.triton.tile_runs import runs
from catdiag.schedule.statements import LoopSpan

if TYPE_CHECKING:
    from catdiag.codegen.gluon.pipelined_loop import WarpSpecialized


def product_of(factors: Sequence[PythonExpression]) -> PythonExpression:
    """A product; of no factors, 1.

    >>> print(product_of([Name("a"), joined(Name("b"), "+", Number(1))]), product_of([]))
    a * (b + 1) 1
    """
    return joined_all("*", [bracketed(f, TIMES) for f in factors]) if factors else Number(1)


def padded_length(tile: str) -> PythonExpression:
    """The length of a tile that is padded to the next power of two."""
    return call("_block", length_of(tile))


def block_length(block: str, known: Mapping[str, PythonExpression]) -> PythonExpression:
    """The length of a block, by its name in the kernel."""
    return known.get(block) or length_of(block)


def tile_count(kernel: KernelSpec, span: LoopSpan, sizes: Mapping[str, str]) -> PythonExpression:
    """The number of tiles along an axis of the grid."""
    whole = sized(span.size, sizes)
    return whole if span in kernel.single else call("_tiles", whole, length_of(span.symbol))


def programs(kernel: KernelSpec, sizes: Mapping[str, str]) -> PythonExpression:
    """The number of programs of a kernel."""
    parts = [] if kernel.parts is None else [length_of(kernel.parts.symbol)]
    tiles = product_of([*(tile_count(kernel, span, sizes) for span in spans_of(kernel)), *parts])
    return call("_programs", tiles, Number(kernel.programs)) if runs(kernel) else tiles


def needs_no_mask(
    kernel: KernelSpec, name: str, whole: PythonExpression, padded: PythonExpression | None = None
) -> PythonExpression:
    """Whether no tile along an axis needs a mask, by the name of the kernel's constant that says so: where all are
    whole, or where the copy engine loads all blocks of a loop and fills them with zeros. `whole` is the length of the
    axis, `padded` that of the blocks of a padded tile."""
    span = kernel.exact[name]
    tile, some = length_of(span.symbol), [("<", whole)] if span in kernel.loops else []
    test: PythonExpression
    if tile == Number(1):
        test = Compare(Number(0), tuple(some))
    else:
        test = Compare(joined(whole, "%", tile), (("==", Number(0)), *some))
    if padded is not None:
        test = Logical("and", (compared(padded, "==", tile), test))
    if name in kernel.zero_filled:
        descriptors = TupleOf(tuple(map(Name, kernel.zero_filled[name])))
        test = Logical("or", (test, compared(Number(None), "not in", descriptors)))
    return test


def summed_lengths(
    kernels: Sequence[KernelSpec], tiles: Collection[str], sizes: Mapping[str, str], of_bytes: bool
) -> dict[str, PythonExpression]:
    """The lengths over which matrix products sum, by tile.

    With factors of 8 bits (`of_bytes`) they need twice as many entries as with 16: half of them may be along axes
    merged with the tile's. A tile alone has enough for 16 bits, since rows of fewer bytes cannot be merged.
    """
    found: dict[str, PythonExpression] = {}
    for kernel in kernels:
        lengths = {name: call("_power", sized(size, sizes)) for name, size in kernel.blocks.items()}
        for tile, merged in kernel.summed.items():
            if tile not in tiles or (merged and tile in found):
                continue
            found[tile] = Name(tile)
            if merged and of_bytes:
                beside = product_of([block_length(b, lengths) for b in merged])
                found[tile] = joined(Name(tile), "*", call("min", Number(2), beside))
    return found


def ring_bytes(
    specialized: WarpSpecialized, known: Mapping[str, PythonExpression], stages: PythonExpression
) -> PythonExpression:
    """The bytes of shared memory of a warp-specialized kernel's rings: 2 per element, and 8 per barrier."""

    def entries(of_rows: bool) -> list[PythonExpression]:
        rings = [r for r in specialized.rings if r.rows is of_rows]
        blocks = ([block_length(b, known) for b in r.boxes.shape if b != "1"] for r in rings)
        return [*map(product_of, blocks), *([Number((4 if of_rows else 8) * len(rings))] if rings else [])]

    each = joined(stages, "*", Parens(joined_all("+", entries(False))))
    return joined(Number(2), "*", Parens(joined_all("+", [each, *entries(True)])))
