"""Long programs shortened: consecutive lines are drawn as one, except for those at the peak of memory."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

from catdiag.category.integer_polynomial import ZERO, IntPolynomial
from catdiag.category.types import ArrayType
from catdiag.draw.listing.program_lines import KernelListing, ListingLine, LiveArrays, Variable
from catdiag.schedule.placement import Placement

_FEWEST = 3  # the fewest lines that are folded


def folded(kernel_listing: KernelListing, places: Placement, most: int) -> KernelListing:
    """A kernel of at most `most` lines, if folding achieves that: the longest runs of computing lines come first.

    A folded line shows the memory of that one of its lines that has the most at every place. Variables that are live in
    folded lines only become one variable, whose size in each folded line is their sum. Not folded are the first line at
    the kernel's peak of each place, and lines that load, save, make what is saved next, or begin and end iterations.

    >>> import catdiag as cd
    >>> from catdiag.schedule.placement import two
    >>> from catdiag.draw.listing.listing_builder import listing_of
    >>> def steps(a, b):
    ...     for _ in range(9):
    ...         a, b = b * a, a + b
    ...     return a
    >>> listing = listing_of(cd.algorithm("q, q -> q")(steps), None, two()).kernels[0]
    >>> [line.text for line in folded(listing, two(), 8).lines]
    ['load b, a', 't1 = b·a', '14 lines: t2 to t15', 'out = (t13 + t14)·t15', 'save out']
    """
    lines = kernel_listing.lines
    if len(lines) <= most:
        return kernel_listing
    peaks = {place: _peaks(lines, place) for place in places.names}
    stays = [line.kind != "let" or after.kind == "save" for line, after in pairwise([*lines, lines[-1]])]
    for n, line in enumerate(lines):
        for place in places.names:
            if (total := line.total(place)) in peaks[place]:
                peaks[place].remove(total)
                stays[n] = True
    runs: list[tuple[int, int, int]] = []
    start = 0
    for n in range(1, len(lines) + 1):
        if n == len(lines) or stays[n] or stays[start] or lines[n].loops != lines[start].loops:
            runs += [] if stays[start] else _covered(lines, start, n, places)
            start = n
    left, chosen = len(lines), list[tuple[int, int, int]]()
    for run in sorted(runs, key=lambda r: (r[0] - r[1], r[0])):
        if left > most:
            chosen.append(run)
            left -= run[1] - run[0] - 1
    return _short(kernel_listing, sorted(chosen))


def _peaks(lines: list[ListingLine], place: str) -> set[IntPolynomial]:
    """The totals of a place that no other total dominates."""
    kept: list[IntPolynomial] = []
    for total in dict.fromkeys(line.total(place) for line in lines):
        if not any(k.dominates(total) for k in kept):
            kept = [k for k in kept if not total.dominates(k)] + [total]
    return set(kept)


def _covered(lines: list[ListingLine], start: int, end: int, places: Placement) -> list[tuple[int, int, int]]:
    """Ranges of lines, each with a line that has at least the memory of any other at every place."""
    todo, found = [(start, end)], list[tuple[int, int, int]]()
    while todo:
        start, end = todo.pop()
        if end - start < _FEWEST:
            continue
        heads = [_peaks(lines[start:end], place) for place in places.names]
        full = [n for n in range(start, end) if all(len(h) == 1 and lines[n].total(p) in h
                                                    for h, p in zip(heads, places.names, strict=True))]  # fmt: skip
        if full:
            found.append((start, end, full[0]))
        else:
            todo += [(start, (start + end) // 2), ((start + end) // 2, end)]
    return found


def _short(kernel_listing: KernelListing, runs: list[tuple[int, int, int]]) -> KernelListing:
    """The kernel with each of these ranges as one line."""
    hidden = {n for start, end, _ in runs for n in range(start, end)}
    seen = {v for n, line in enumerate(kernel_listing.lines) if n not in hidden for v, _, _ in line.live}
    inside = sorted({v for n in hidden for v, _, _ in kernel_listing.lines[n].live} - seen)
    variables = list(kernel_listing.variables)
    if inside:
        variables.append(Variable(ArrayType(), "", f"{len(inside)} more"))
    lines: list[ListingLine] = []
    at = 0
    for start, end, full in runs:
        lines += kernel_listing.lines[at:start]
        at = end
        part = kernel_listing.lines[start:end]
        allocated: list[LiveArrays] = [h for h in kernel_listing.lines[full].live if h[0] in seen]
        rest: dict[str, IntPolynomial] = {}
        for v, place, amount in kernel_listing.lines[full].live:
            if v not in seen:
                rest[place] = rest.get(place, ZERO) + amount
        allocated += [(len(variables) - 1, place, amount) for place, amount in rest.items()]
        last = {v: name for line in part for v, name in zip(line.writes, line.names, strict=False) if v in seen}
        alive = {v for v, _, _ in allocated}
        reads = tuple(dict.fromkeys(v for line in part for v in line.reads if v in alive and v not in last))
        names = [*last.values(), *([variables[-1].name] if rest else [])]
        writes = [*last, *([len(variables) - 1] if rest else [])]
        text = f"{end - start} lines: {_first(part[0])} to {_first(part[-1])}"
        lines.append(ListingLine("let", (text,), part[0].loops, reads, tuple(writes), tuple(allocated), tuple(names)))
    return replace(kernel_listing, variables=variables, lines=[*lines, *kernel_listing.lines[at:]])


def _first(line: ListingLine) -> str:
    return line.names[0] if line.names else line.text
