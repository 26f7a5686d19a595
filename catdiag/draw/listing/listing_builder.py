"""The memory of a program line by line: a trace of the liveness walk that counts memory (`catdiag.schedule.liveness`).

The lines are the moments of that walk, in its order, so that the largest memory of a line is the memory that `io`
gives. Formulas are those of `pseudocode`, with a name for each allocated array.
"""

from __future__ import annotations

from collections.abc import Sequence

from catdiag.category.diagram import Diagram
from catdiag.draw.listing.allocation_trace import Watched
from catdiag.draw.listing.program_lines import Line, Story, Told
from catdiag.draw.listing.symbol_table import Book
from catdiag.schedule.element_widths import Widths
from catdiag.schedule.footprint import in_place
from catdiag.schedule.kernel_analysis import Dtype, measure
from catdiag.schedule.liveness import Kernel, Walk, Within
from catdiag.schedule.placement import Places
from catdiag.schedule.split_k import is_split, two_kernels


def tell(diagram: Diagram, dtype: Dtype, places: Places, fused: bool = True) -> Story:
    """The lines of a program for this placement of arrays. Raises CatdiagError as `io` does.

    >>> import catdiag as cd
    >>> from catdiag.schedule.placement import two
    >>> dot = cd.algorithm("x, x ->", name="dot")(lambda A, B: cd.einsum("x, x ->", A, B))
    >>> for line in tell(dot.stream("x").diagram, None, two()).kernels[0].lines:
    ...     print("    " * len(line.loops) + line.text, "|", line.total("level"))
    start: sum1 = 0 | 1
        load A, B | 2*s_x + 1
        sum1 = sum1 + Σ_x A·B | 2*s_x + 1
    save out = sum1 | 1
    """
    parted = two_kernels(diagram) if is_split(diagram) else None
    book = Book(in_place(diagram if parted is None else parted.diagram), dtype, parted)
    walks: dict[int, list[Watched]] = {}
    told: dict[int, Told] = {}

    def walk(kernel: Kernel, widths: Widths, held: Places, within: Within | None) -> Walk:
        mine, mates = told.setdefault(id(kernel), Told(kernel)), walks.setdefault(id(kernel), [])
        mates.append(Watched(book, mine, mates, kernel, widths, held, within))
        return mates[-1]

    account = measure(diagram, dtype, fused=fused, places=places, walks=walk)
    kernels = tuple(told.get(id(kernel)) or Told(kernel) for kernel in account.kernels)
    for kernel in kernels:
        if places.phased:
            _phases(book, walks[id(kernel.kernel)], kernel)
    return Story(account, kernels, places, book.flat)


def _phases(book: Book, walks: Sequence[Watched], told: Told) -> None:
    """Adds to the lines of each phase the allocations of the levels above, and inputs that are copied at the end."""
    below = [walk for walk in walks if walk.within is not None]
    above = next(walk for walk in walks if walk.within is None and len(walk.notes) == len(below))
    for number, walk in enumerate(below):
        end = below[number + 1].first if number + 1 < len(below) else len(told.lines)
        place = walks.index(walk) + 1
        aside = walks[place].notes if place < len(walks) and walks[place] is not above else []
        more = [*above.notes[number], *(held for note in aside[:1] for held in note)]
        for line in told.lines[walk.first : end]:
            line.held = (*line.held, *more)
    saved = {name for line in told.lines if line.kind == "save" for name in line.names}
    leaving = [book.ends.get(w) or [book.texts[w][0]] for _, w in told.kernel.leaves]
    left = [names for names in leaving if names[0] not in saved]
    for walk, names in zip(walks[walks.index(above) + 1 :], left, strict=False):
        for held in walk.notes[:1]:
            variable = held[0][0]
            source = told.variables[variable].name
            told.lines.append(Line("load", f"load {source}", (), (), (variable,), held, (source,)))
            for name in names:
                told.lines.append(Line("save", f"save {name} = {source}", (), (variable,), (), held, (name,)))
