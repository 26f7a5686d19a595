"""A program as a picture: its lines from the top, and beside them the live arrays, their placement and their size.

The counterpart of the expanded pseudocode diagrams of Abbott and Zardini, "FlashAttention on a Napkin" (TMLR 2025,
section 5.1), with time from top to bottom: a variable is a column, a line of the program a row. A bar is a live range,
with the level as its color and edge. At loads and saves a column changes its color. A filled dot is a write by a line,
an open one a read. Beside each line is the memory allocated at each level, with the peak marked.

It is read off the lowered kernels that `io` counts (`catdiag.draw.listing.listing_builder`), so that the peak is `io`'s
memory.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from catdiag.category.diagram import Diagram, HasDiagram, diagram_of
from catdiag.category.integer_polynomial import IntPolynomial
from catdiag.chip.hierarchy import CACHE, Hierarchy
from catdiag.cost.traffic import frontier
from catdiag.cost.traffic_by_level import Names, chain_of, places_of
from catdiag.draw.listing.folding import folded
from catdiag.draw.listing.kernel_table import PanelStyle, Table, wrapped
from catdiag.draw.listing.listing_builder import listing_of
from catdiag.draw.listing.program_lines import ProgramListing
from catdiag.draw.listing.size_text import Wording, shown
from catdiag.draw.memory_levels import placement as looks_of
from catdiag.draw.scene import Item, Label, Scene
from catdiag.schedule.element_widths import Dtype
from catdiag.schedule.lowered_kernel import LoweredKernel

Peaks = Mapping[str, Sequence[IntPolynomial]]
"""By level, the most that is allocated there: of several totals, which is most depends on the sizes."""
_MATRIX = ("tensor cores", "matrix units")


def program_picture(
    of: Diagram | HasDiagram,
    *,
    sizes: Mapping[str, int] | None = None,
    tiles: Mapping[str, int] | None = None,
    dtype: Dtype = None,
    levels: Sequence[str] | Hierarchy = ("HBM", "SMEM"),
    placement: Mapping[str, Names] | None = None,
    stages: int | Mapping[str, int] = 1,
    fused: bool = True,
    lines: int | None = 60,
    totals: bool = True,
) -> Scene:
    """The program of a diagram or derivation as a table of lines and variables, one kernel below the other.

    `dtype`, `levels`, `placement`, `stages` and `fused` are those of `io`; a last level "tensor cores" holds arrays
    with the axes of a contraction's result. With `sizes` of the axes and `tiles` (`{"g_q": 128, "s_x": 64}`; for a
    further level by default those of the level above) amounts are numbers, else formulas; in values, or in bytes with a
    dtype. A kernel of more than `lines` lines is folded (`catdiag.draw.listing.folding`); None folds none. Without
    `totals`, for narrow pages, only the peak of each level is given, under the picture. Raises CatdiagError as `io`
    does, and for sizes that are missing or unknown.

    >>> import catdiag as cd
    >>> product = cd.library.get("matmul").stream("b").group("a c")
    >>> scene = program_picture(product)
    >>> sorted({item.text for item in scene.items if getattr(item, "role", "") == "array"})
    ['A', 'B', 'out', 'sum1']
    """
    diagram = diagram_of(of)
    chain = [level.name for level in chain_of(levels) if level.kind != CACHE]
    units = chain[-1] if len(chain) > 2 and chain[-1].lower() in _MATRIX else ""
    places = places_of(chain[:-1] if units else chain, placement or {}, stages)
    if units:
        places = replace(places, names=(*places.names, units), matrix=units)
    listing = listing_of(diagram, dtype, places, fused)
    values = None if sizes is None and tiles is None else {**(sizes or {}), **(tiles or {})}
    wording = Wording(listing.account, places, values, "values" if dtype is None else "bytes")
    style = looks_of(chain).names
    seen = PanelStyle({name: look for look, name in style[1:]}, style[0])
    peaks = {place: [m.total for m in frontier(listing.account, place)] for place in places.names}
    items, width, y = _panels(listing, wording, seen, peaks, lines, totals)
    if not totals:
        for place, said in most(listing, wording, peaks):
            for k, text in enumerate(wrapped(said, width - 30, "level")):
                items.append(Label(16 if k else 8, y + 4, text, "level", "start", seen.places[place]))
                y += 13
        y += 6
    title = f"{diagram.title}: " if diagram.title else ""
    return Scene(
        width,
        y - 6,
        tuple(items),
        f"{title}live arrays of the program, line by line",
        _described(listing, wording, peaks),
        dict(style),
    )


def _panels(
    listing: ProgramListing, wording: Wording, seen: PanelStyle, peaks: Peaks, lines: int | None, totals: bool
) -> tuple[list[Item], float, float]:
    """A table for each kernel, one below the other, with their width and where they end."""
    items: list[Item] = []
    width, y = 0.0, 8.0
    if not any(kernel_listing.lines for kernel_listing in listing.kernels):
        items.append(Label(8, y + 12, "nothing is computed or moved: each result is an input", "note", "start"))
        width, y = 280.0, y + 24
    for number, kernel_listing in enumerate(listing.kernels, 1):
        if len(listing.kernels) > 1:
            items.append(Label(8, y + 10, f"kernel {number} of {len(listing.kernels)}", "title", "start"))
            y += 14
        short = kernel_listing if lines is None else folded(kernel_listing, listing.places, lines)
        panel = Table(short, wording, seen, head(listing, kernel_listing.kernel), peaks, y, totals).panel()
        items += panel.items
        width, y = max(width, panel.right), panel.bottom + 14
    return items, width, y


def head(listing: ProgramListing, kernel: LoweredKernel) -> str:
    """How a kernel runs: once for each tile, if it is grouped."""
    split_loop = listing.account.split_loop
    each = [
        f"each tile of {axis} ({symbol} at a time)"
        for symbol, axis in kernel.axes.items()
        if split_loop is None or symbol not in split_loop.single
    ]
    if split_loop is not None and any(symbol in split_loop.single for symbol in kernel.axes):
        each.append(f"each of {split_loop.parts} parts of {shown(split_loop.axis_size)}")
    return f"for {' and '.join(each)}, in parallel:" if each else ""


def _described(listing: ProgramListing, wording: Wording, peaks: Peaks) -> str:
    """The description for screen readers: the lines, and the peak of each level."""
    said: list[str] = []
    for kernel_listing in listing.kernels:
        said.append(head(listing, kernel_listing.kernel) or "in one kernel:")
        opened: set[int] = set()
        for line in kernel_listing.lines:
            said += [kernel_listing.loops[loop].head for loop in line.loops if loop not in opened]
            opened.update(line.loops)
            said.append(line.text + ";")
    said += [f"{text}." for _, text in most(listing, wording, peaks)]
    return " ".join(said)


def most(listing: ProgramListing, wording: Wording, peaks: Peaks) -> list[tuple[str, str]]:
    """The peak of each level, in words."""
    said: list[tuple[str, str]] = []
    for place in listing.places.names:
        if peaks[place]:
            formulas = " or ".join(wording.polynomial(total, place).text for total in peaks[place])
            verb = "hold" if place.endswith("s") else "holds"
            number = ""
            if wording.values is not None:
                number = f": {wording.number(max(wording.value(total, place) for total in peaks[place]))}"
            said.append((place, f"{place} {verb} at most {formulas} {wording.unit}{number}"))
    return said
