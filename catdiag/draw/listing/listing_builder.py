"""The memory of a program line by line: a trace of the liveness walk that counts memory (`catdiag.schedule.liveness`).

The lines are the moments of that walk, in its order, so that the largest memory of a line is the memory that `io`
gives. Formulas are those of `pseudocode`, with a name for each allocated array.
"""

from __future__ import annotations

from collections.abc import Sequence

from catdiag.category.diagram import Diagram
from catdiag.draw.listing.allocation_trace import TracingWalk
from catdiag.draw.listing.program_lines import KernelListing, ListingLine, ProgramListing
from catdiag.draw.listing.symbol_table import SymbolTable
from catdiag.schedule.access_region import with_access_regions
from catdiag.schedule.element_widths import Widths
from catdiag.schedule.kernel_analysis import Dtype, measure
from catdiag.schedule.liveness import LivenessWalk, LoweredKernel, Within
from catdiag.schedule.placement import Placement
from catdiag.schedule.split_k import is_split, two_kernels


def listing_of(diagram: Diagram, dtype: Dtype, places: Placement, fused: bool = True) -> ProgramListing:
    """The lines of a program for this placement of arrays. Raises CatdiagError as `io` does.

    >>> import catdiag as cd
    >>> from catdiag.schedule.placement import two
    >>> dot = cd.algorithm("x, x ->", name="dot")(lambda A, B: cd.einsum("x, x ->", A, B))
    >>> for line in listing_of(dot.stream("x").diagram, None, two()).kernels[0].lines:
    ...     print("    " * len(line.loops) + line.text, "|", line.total("level"))
    start: sum1 = 0 | 1
        load A, B | 2*s_x + 1
        sum1 = sum1 + Σ_x A·B | 2*s_x + 1
    save out = sum1 | 1
    """
    split_loop = two_kernels(diagram) if is_split(diagram) else None
    symbols = SymbolTable(with_access_regions(diagram if split_loop is None else split_loop.diagram), dtype, split_loop)
    walks: dict[int, list[TracingWalk]] = {}
    kernel_listing: dict[int, KernelListing] = {}

    def walk(kernel: LoweredKernel, widths: Widths, held: Placement, within: Within | None) -> LivenessWalk:
        mine, mates = kernel_listing.setdefault(id(kernel), KernelListing(kernel)), walks.setdefault(id(kernel), [])
        mates.append(TracingWalk(symbols, mine, mates, kernel, widths, held, within))
        return mates[-1]

    account = measure(diagram, dtype, fused=fused, places=places, walks=walk)
    kernels = tuple(kernel_listing.get(id(kernel)) or KernelListing(kernel) for kernel in account.kernels)
    for kernel in kernels:
        if places.phased:
            _phases(symbols, walks[id(kernel.kernel)], kernel)
    return ProgramListing(account, kernels, places, symbols.flat)


def _phases(symbols: SymbolTable, walks: Sequence[TracingWalk], kernel_listing: KernelListing) -> None:
    """Adds to the lines of each phase the allocations of the levels above, and inputs that are copied at the end."""
    below = [walk for walk in walks if walk.within is not None]
    above = next(walk for walk in walks if walk.within is None and len(walk.notes) == len(below))
    for number, walk in enumerate(below):
        end = below[number + 1].first if number + 1 < len(below) else len(kernel_listing.lines)
        place = walks.index(walk) + 1
        aside = walks[place].notes if place < len(walks) and walks[place] is not above else []
        more = [*above.notes[number], *(held for note in aside[:1] for held in note)]
        for line in kernel_listing.lines[walk.first : end]:
            line.live = (*line.live, *more)
    saved = {name for line in kernel_listing.lines if line.kind == "save" for name in line.names}
    leaving = [symbols.ends.get(w) or [symbols.texts[w][0]] for _, w in kernel_listing.kernel.leaves]
    left = [names for names in leaving if names[0] not in saved]
    for walk, names in zip(walks[walks.index(above) + 1 :], left, strict=False):
        for held in walk.notes[:1]:
            variable = held[0][0]
            source = kernel_listing.variables[variable].name
            kernel_listing.lines.append(ListingLine("load", f"load {source}", (), (), (variable,), held, (source,)))
            for name in names:
                kernel_listing.lines.append(
                    ListingLine("save", f"save {name} = {source}", (), (variable,), (), held, (name,))
                )
