"""A program in full as text: its variables with sizes and levels, and its lines with the memory allocated at each.

The expanded pseudocode of Abbott and Zardini, "FlashAttention on a Napkin" (TMLR 2025, section 5.1, steps 1 and 5, and
table 1), as text. It is read off the lowered kernels that `io` counts (`catdiag.draw.listing.listing_builder`), so that
the peak is `io`'s memory. `catdiag.draw.program_picture` draws the same.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from catdiag.category.diagram import Diagram, HasDiagram, diagram_of
from catdiag.category.integer_polynomial import IntPolynomial
from catdiag.chip.hierarchy import CACHE, Hierarchy
from catdiag.cost.traffic import frontier
from catdiag.cost.traffic_by_level import Names, chain_of, places_of
from catdiag.draw.listing.listing_builder import listing_of
from catdiag.draw.listing.program_lines import KernelListing, ListingLine
from catdiag.draw.listing.program_picture import head, most
from catdiag.draw.listing.size_text import Wording
from catdiag.schedule.element_widths import Dtype

LEVELS = ("HBM", "SMEM", "registers")
"""The default levels: loaded arrays are in shared memory, computed ones in registers."""
PLACEMENT: Mapping[str, Names] = {"operand": "SMEM", "streamed": "SMEM"}
_LONGEST = 72
"""Longer lines of the program do not widen the column of lines."""


def expanded(
    of: Diagram | HasDiagram,
    *,
    sizes: Mapping[str, int] | None = None,
    tiles: Mapping[str, int] | None = None,
    dtype: Dtype = None,
    levels: Sequence[str] | Hierarchy = LEVELS,
    placement: Mapping[str, Names] | None = None,
    stages: int | Mapping[str, int] = 1,
) -> str:
    """The loops of a diagram or derivation as pseudocode with all variables: size, type and level of each.

    `dtype`, `levels`, `placement` and `stages` are those of `io`. With `sizes` of the axes and `tiles` there are
    numbers beside the formulas, and for each line the memory allocated at each level, in values, or in bytes with a
    dtype.

    >>> import catdiag as cd
    >>> dot = cd.algorithm("q x, x -> q", name="dot")(lambda A, B: cd.sum(A * B, "x")).stream("x").group("q")
    >>> print(expanded(dot, sizes={"q": 64, "x": 64}, tiles={"g_q": 16, "s_x": 16}, dtype="bf16"))
    dot.stream('x').group('q'), q=64, x=64, g_q=16, s_x=16, g2_q=16, s2_x=16
    <BLANKLINE>
    variable  at         size         type  values  bytes
    sum1      registers  g2_q         fp32      16     64
    A         SMEM       g_q × s_x    bf16     256    512  of q × x
    B         SMEM       s_x          bf16      16     32  of x
    t1        registers  g2_q × s2_x  fp32     256  1,024
    <BLANKLINE>
    for each tile of q (g_q at a time), in parallel:  bytes of SMEM  registers
        start: sum1 = 0                                           0         64
        for each block of x (s_x at a time):
            load A, B                                           544         64
            t1 = A·B                                            544      1,088
            sum1 = sum1 + Σ_x t1                                544      1,088
        save out = sum1                                           0         64
    <BLANKLINE>
    SMEM holds at most 2·g_q·s_x + 2·s_x bytes: 544 B
    registers hold at most 4·g2_q·s2_x + 4·g2_q bytes: 1.062 KiB

    Raises CatdiagError as `io` does, and for sizes that are missing.
    """
    diagram = diagram_of(of)
    chain = [level.name for level in chain_of(levels) if level.kind != CACHE]
    places = places_of(chain, PLACEMENT if placement is None and tuple(chain) == LEVELS else placement or {}, stages)
    listing = listing_of(diagram, dtype, places)
    values = None
    if sizes is not None or tiles is not None:
        # Sizes may be given for scalar inputs too, which no count here depends on.
        known = {*listing.account.sizes, *listing.account.inner}
        values = {**{name: n for name, n in (sizes or {}).items() if name in known}, **(tiles or {})}
    wording = Wording(listing.account, places, values, "values" if dtype is None else "bytes")
    lines = [f"{diagram.title or 'program'}{_given(values, wording)}"]
    for number, kernel_listing in enumerate(listing.kernels, 1):
        if len(listing.kernels) > 1:
            lines += ["", f"kernel {number} of {len(listing.kernels)}"]
        first = head(listing, kernel_listing.kernel)
        lines += ["", *_variables(kernel_listing, wording), "", *_program(kernel_listing, wording, first)]
    peaks = {place: [moment.total for moment in frontier(listing.account, place)] for place in places.names}
    return "\n".join([*lines, "", *(text for _, text in most(listing, wording, peaks))])


def _given(values: Mapping[str, int] | None, wording: Wording) -> str:
    """The sizes and tiles at which there are numbers."""
    if wording.values is None:
        return ""
    names = {**(values or {}), **{n: 0 for own in wording.names.values() for n in own.values()}}
    return "".join(f", {name}={wording.values[name]}" for name in names)


def _variables(kernel_listing: KernelListing, wording: Wording) -> list[str]:
    """A row for each name at each level: the first two columns are words, and so are those without numbers."""
    numbers = wording.values is not None
    counted = wording.unit == "bytes"
    counts = [*(["values"] if numbers else []), *(["bytes"] if counted else [])]
    rows = [["variable", "at", "size", "type", *counts, ""]]
    names: dict[int, str] = {}
    seen: set[str] = set()
    for line in kernel_listing.lines:
        # One line may start or load the states of several parts of a loop.
        for name, variable in zip(line.names, line.writes, strict=False):
            if name in seen:
                continue
            seen.add(name)
            before = names.get(variable)
            names[variable] = name
            rows += _rows(kernel_listing, line, name, variable, before, wording)
    right = set(range(4, 4 + len(counts))) if numbers else set()
    widths = [max(len(row[k]) for row in rows) for k in range(len(rows[0]))]
    return [
        "  ".join(
            cell.rjust(w) if k in right else cell.ljust(w) for k, (cell, w) in enumerate(zip(row, widths))
        ).rstrip()
        for row in rows
    ]


def _rows(
    kernel_listing: KernelListing, line: ListingLine, name: str, number: int, before: str | None, wording: Wording
) -> list[list[str]]:
    variable, rows = kernel_listing.variables[number], []
    for place, amount in {place: amount for v, place, amount in line.live if v == number}.items():
        stages = variable.stages.get(place, 1)
        row = [name, place, wording.allocated(variable.type, amount, place, stages), variable.element]
        if wording.values is not None:
            elements = IntPolynomial.elements(variable.type.axes).scaled(stages)
            row.append(f"{wording.value(elements if wording.unit == 'bytes' else amount, place):,}")
        if wording.unit == "bytes":
            formula = wording.polynomial(amount, place).text
            row.append(f"{wording.value(amount, place):,}" if wording.values is not None else formula)
        whole = f"of {wording.untiled(variable.type, kernel_listing.kernel)}" if variable.slow else ""
        rows.append([*row, f"in the place of {before}" if before is not None else whole])
    return rows


def _program(kernel_listing: KernelListing, wording: Wording, first: str) -> list[str]:
    """The lines of a kernel, with the memory allocated at each level beside them where there are sizes."""
    places = wording.places.names
    depth = 1 if first else 0
    texts: list[tuple[str, ListingLine | None]] = [(first, None)] if first else []
    opened: set[int] = set()
    for line in kernel_listing.lines:
        for k, loop in enumerate(line.loops):
            if loop not in opened:
                texts.append(("    " * (depth + k) + kernel_listing.loops[loop].head, None))
                opened.add(loop)
        texts.append(("    " * (depth + len(line.loops)) + line.text, line))
    if wording.values is None:
        return [text for text, _ in texts]
    if not first:
        texts.insert(0, ("", None))
    heads = [f"{wording.unit} of {places[0]}", *places[1:]]
    cells = [
        [f"{wording.value(line.total(p), p):,}" for p in places] if line else [""] * len(places) for _, line in texts
    ]
    cells[0] = heads
    widths = [max(len(row[k]) for row in cells) for k in range(len(places))]
    left = max((len(text) for text, _ in texts if len(text) <= _LONGEST), default=0)
    return [
        f"{text.ljust(left)}  {'  '.join(cell.rjust(w) for cell, w in zip(row, widths, strict=True))}".rstrip()
        for (text, _), row in zip(texts, cells, strict=True)
    ]
