"""The sizes that a program reads: those of its arrays, those that its boxes name, and those of tiles and blocks."""

from __future__ import annotations

from collections.abc import Iterable

from catdiag.category.named_axes import named_sizes
from catdiag.category.ops import Box
from catdiag.category.types import Size, size_symbols
from catdiag.schedule.loop_nest import LoopNest
from catdiag.schedule.statements import For, Let, LoopSpan, NestValue, statements


def spans_of_loops(program: LoopNest) -> dict[str, LoopSpan]:
    """The tiles and blocks of all loops, by symbol."""
    found: dict[str, LoopSpan] = {}
    for _, s in statements(program.body):
        if isinstance(s, For):
            for span in s.spans:
                found.setdefault(span.symbol, span)
    return found


def sizes_of_box(box: Box) -> list[Size]:
    """The sizes of the axes of a box, and those that its operation names."""
    return [*(a.size for ty in (*box.dom, *box.cod) for a in ty.axes), *named_sizes(box)]


def symbols_of_sizes(sizes: Iterable[Size]) -> list[str]:
    """The symbols of sizes, each once, in order of their first occurrence."""
    return list(dict.fromkeys(symbol for size in sizes for symbol in sorted(size_symbols(size))))


def symbols_of_program(program: LoopNest, arrays: Iterable[NestValue]) -> list[str]:
    """The symbols of the sizes of some arrays, of the boxes and of the loops of a program."""
    found: list[Size] = [a.size for value in arrays for a in value.ty.axes]
    for _, s in statements(program.body):
        if isinstance(s, Let):
            found += sizes_of_box(s.box)
        elif isinstance(s, For):
            found += [span.size for span in s.spans]
    return symbols_of_sizes(found)
