"""The memory of a program line by line: the statements of its lowered kernels (`catdiag.schedule.lowered_kernel`).

The largest memory of a line is the memory that `io` gives. Formulas are those of `pseudocode`, with a name for each
allocated array.
"""

from __future__ import annotations

from catdiag.category.diagram import Diagram
from catdiag.draw.listing.allocation_trace import KernelTrace
from catdiag.draw.listing.program_lines import ProgramListing
from catdiag.draw.listing.symbol_table import SymbolTable
from catdiag.schedule.element_widths import Dtype
from catdiag.schedule.kernel_analysis import measure
from catdiag.schedule.placement import Placement


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
    account = measure(diagram, dtype, fused=fused, places=places)
    symbols = SymbolTable(account, dtype)
    kernels = tuple(KernelTrace(symbols, kernel).listing() for kernel in account.kernels)
    return ProgramListing(account, kernels, places, symbols.flat)
