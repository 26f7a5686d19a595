"""Kernels as trees and as source: signature, body, and the mapping from program ids to tiles of the grid."""

from __future__ import annotations

from collections.abc import Sequence

from catdiag.category.types import size_symbols
from catdiag.codegen.kernel_tree import Assign, KernelFunction, PythonStatement
from catdiag.codegen.syntax import (
    BinaryOperation,
    ListOf,
    Name,
    Number,
    Parens,
    PythonExpression,
    TupleOf,
    call,
    dotted,
    joined,
    joined_all,
)
from catdiag.codegen.triton.aligned_rows import divisibility_hints
from catdiag.codegen.triton.dependent_launch import triggering, waiting
from catdiag.codegen.triton.kernel_builder import sized
from catdiag.codegen.triton.kernel_signature import KernelSpec, widened
from catdiag.codegen.triton.launch_parameters import parameters_of, spans_of
from catdiag.codegen.triton.tile_runs import in_runs, runs
from catdiag.codegen.triton.triton_dialect import TRITON
from catdiag.schedule.statements import LoopSpan

_L2_SHARE = 8, 15
"""The part of an L2 cache that holds what programs beside each other stream: 32 of 60 MiB, as tried on an H200."""
_ENTRY_BYTES = 2
"""Bytes of an entry that is streamed."""
_TOGETHER = 8
"""The side of the squares of tiles that run close in time, so that they share loads in L2 (swizzled program order)."""


def indented(lines: Sequence[str]) -> list[str]:
    """Lines indented by one level, with at most one empty line in a row."""
    found: list[str] = []
    for line in lines:
        if line or (found and found[-1]):
            found.append("    " + line if line else "")
    return found


def kernel_function(kernel: KernelSpec) -> KernelFunction:
    """A kernel as a function: what comes before its body are the conversions of strides, the tile, and numbers."""
    tl = TRITON.module
    scalars = [
        Assign((Name(n),), call(f"{tl}.full", ListOf(()), Name(n), dotted(f"{tl}.float32")))
        for array, n in kernel.scalars.items()
        if array.ty.element in ("real", "extended")
    ]
    if runs(kernel):
        body = [*divisibility_hints(kernel), *widened(kernel, tl), *scalars, *in_runs(kernel, tl)]
    else:
        first = [*divisibility_hints(kernel), *widened(kernel, tl)]
        body = [*first, *grid(kernel, tl), *waiting(kernel), *scalars, *triggering(kernel, kernel.body)]
    return KernelFunction(kernel.name, parameters_of(kernel), body, TRITON.jit)


def tile_note(spans: Sequence[LoopSpan]) -> str:
    """What a program of the grid computes, in words."""
    return "One tile of " + " and ".join(s.axis for s in spans) if spans else "One program"


def grid(kernel: KernelSpec, tl: str) -> list[PythonStatement]:
    """The statements that compute a program's tile from its program id; the last axis of the grid varies fastest.

    `tl` is the module of the language. Two tiled axes at the end are swizzled by Triton's function, which Gluon lacks.
    Tiles with longer loops come first, so that the last wave is short.
    """
    spans = spans_of(kernel)
    if not spans and kernel.parts is None:
        return []
    pid = Name("pid")
    found: list[PythonStatement] = [Assign((pid,), call(f"{tl}.program_id", Number(0)))]
    where: list[tuple[PythonExpression, LoopSpan | None]] = []
    for span in spans:
        size = sized(span.size, kernel.sizes)
        where.append((size if span in kernel.single else call(f"{tl}.cdiv", size, Name(span.symbol)), span))
    if kernel.parts is not None:
        where.append((Name(kernel.parts.symbol), None))
    if tl == TRITON.module and _swizzled(kernel, spans):
        (rows, _), (columns, _) = where[-2:]
        found += _swizzle(kernel, spans[-2:], rows, columns)
        if len(where) > 2:
            found.append(Assign((pid,), BinaryOperation(pid, "//", Parens(joined(columns, "*", rows)))))
        where = where[:-2]
    resident = _programs_in_l2(kernel)
    if resident is not None:
        found += _longest_first(kernel, where[0], [count for count, _ in where[1:]], resident, tl)
        where = where[1:]
    for n, (count, own) in enumerate(reversed(where)):
        last = n == len(where) - 1
        place: PythonExpression = pid if last else BinaryOperation(pid, "%", count)
        start, note = Name("part" if own is None else kernel.starts[own.symbol]), ""
        if own is not None and own not in kernel.single:
            if own.symbol in kernel.order:
                place, note = joined(joined(count, "-", Number(1)), "-", place), "the longest loops first"
            place = joined(place if last and not note else Parens(place), "*", Name(own.symbol))
        found.append(Assign((start,), place, note=note, beside=True))
        if not last:
            found.append(Assign((pid,), BinaryOperation(pid, "//", count)))
    return found


def _programs_in_l2(kernel: KernelSpec) -> PythonExpression | None:
    """For how many programs of the tile whose loops are longest the L2 holds all that they stream; 0 if for none. None
    where loops are not longer, the further a tile is, or where the grid has other tiles of several entries."""
    single, own = kernel.single, [s.symbol for s in kernel.spans]
    if len(own) != 1 or own[0] not in kernel.order or not single or kernel.parts or len(kernel.loops) != 1:
        return None
    (loop,), among = kernel.loops, {s.axis for s in single}
    arrays = [b.array for b in kernel.boxes if b.looped and loop.axis in b.array.ty.names]
    axes = [[a for a in array.ty.axes if a.name not in {*among, loop.axis}] for array in arrays]
    sizes = [loop.size, *(a.size for each in axes for a in each)]
    if not arrays or not all(axes) or any(size_symbols(size) - {*kernel.sizes} for size in sizes):
        return None
    entries = joined_all("+", [joined_all("*", [sized(a.size, kernel.sizes) for a in each]) for each in axes])
    sharing = [s for s in single if all(s.axis not in array.ty.names for array in arrays)]
    cached = kernel.l2_bytes * _L2_SHARE[0] // (_L2_SHARE[1] * _ENTRY_BYTES)
    resident: PythonExpression = BinaryOperation(Number(cached), "//", sized(loop.size, kernel.sizes))
    resident = joined_all("*", [resident, *(sized(s.size, kernel.sizes) for s in sharing)])
    return BinaryOperation(resident, "//", Parens(entries))


def _longest_first(
    kernel: KernelSpec,
    tiles: tuple[PythonExpression, LoopSpan | None],
    counts: Sequence[PythonExpression],
    resident: PythonExpression,
    tl: str,
) -> list[PythonStatement]:
    """The statements that compute the tile whose loops are longest first, and what is left of the program id, which
    numbers the others: as many of these run beside each other as stream what the L2 holds together (FlashAttention-3
    orders its programs so). With all of them beside each other, each wave would stream all arrays from HBM."""
    (count, span), others = tiles, joined_all("*", counts)
    assert span is not None
    pid, rows, beside, first, width = (Name(f"pid{of}") for of in ("", "_tiles", "_beside", "_first", "_width"))
    waves = call(f"{tl}.cdiv", others, call(f"{tl}.maximum", resident, Number(1)))
    together = Parens(joined(beside, "*", rows))
    among = BinaryOperation(pid, "%", together)
    place = joined(joined(rows, "-", Number(1)), "-", BinaryOperation(among, "//", width))
    return [
        Assign((rows,), count),
        Assign((beside,), call(f"{tl}.cdiv", others, waves), note="programs whose loads the L2 holds"),
        Assign((first,), joined(BinaryOperation(pid, "//", together), "*", beside)),
        Assign((width,), call(f"{tl}.minimum", beside, joined(others, "-", first))),
        Assign(
            (Name(kernel.starts[span.symbol]),),
            joined(Parens(place), "*", Name(span.symbol)),
            note="the longest loops first",
            beside=True,
        ),
        Assign((pid,), joined(first, "+", BinaryOperation(among, "%", width))),
    ]


def _swizzle(
    kernel: KernelSpec, spans: Sequence[LoopSpan], rows: PythonExpression, columns: PythonExpression
) -> list[PythonStatement]:
    """The statements that compute the tile of two axes, with so many rows and columns of tiles, in swizzled order."""
    pid, tiles = Name("pid"), tuple(Name(kernel.tile_names[s.symbol]) for s in spans)
    at = BinaryOperation(BinaryOperation(pid, "//", columns), "%", rows), BinaryOperation(pid, "%", columns)
    order = call(f"{TRITON.module}.swizzle2d", *at, rows, columns, Number(_TOGETHER))
    note = "tiles that run together share what they load"
    starts = [
        Assign((Name(kernel.starts[s.symbol]),), BinaryOperation(tile, "*", Name(s.symbol)))
        for s, tile in zip(spans, tiles, strict=True)
    ]
    return [Assign((TupleOf(tiles),), order, broken=True, note=note), *starts]


def _swizzled(kernel: KernelSpec, spans: Sequence[LoopSpan]) -> bool:
    """Whether the two fastest axes of the grid are both tiled, their programs may run in any order, and those along
    each share blocks of an array: else the order of memory is the better one."""
    last = spans[-2:]
    return len(last) == 2 and kernel.parts is None and all(
        s not in kernel.single and s.symbol not in kernel.order and s.symbol not in kernel.imbalance
        and any(len(array.ty.axes) > 1 and s.axis not in array.ty.names for array in kernel.reads)
        for s in last
    )  # fmt: skip
