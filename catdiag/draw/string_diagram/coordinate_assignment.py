"""The heights of the slots in columns: wires as straight as possible, for the given orders.

Arrays that pass several columns, and functions behind the array that they map, are aligned into blocks on one line
(after Brandes and Köpf, 2001: alignments of neighboring columns never cross). Blocks are packed from above and from
below, and then placed halfway between. There nothing overlaps, since the constraints are convex. Finally they are moved
towards their joins, as far as their neighbors allow.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise

from catdiag.draw.string_diagram.layering import Slot

_ROUNDS = 12
_KINK = 4.0
"""A smaller bend of a wire looks like a mistake."""


def heights_of(
    columns: Sequence[Sequence[Slot]],
    reach: Callable[[Slot], tuple[float, float]],
    leaving: Callable[[Slot, int], float],
    entering: Callable[[Slot, int], float],
    main: Callable[[Slot], int | None],
    gap: float,
) -> dict[int, float]:
    """The height of each slot's line, by `id`.

    `reach` gives the upper and lower edge of a slot relative to its line, `leaving(slot, out)` and `entering(slot, k)`
    the line of one of its results or inputs, and `main` the input that should be level with it, if any.
    """
    slots = [slot for column in columns for slot in column]
    block = {id(slot): k for k, slot in enumerate(slots)}
    offset = {id(slot): 0.0 for slot in slots}
    _align(columns, main, leaving, entering, block, offset)
    numbers = {b: k for k, b in enumerate(dict.fromkeys(block[id(s)] for s in slots))}
    of = {id(s): numbers[block[id(s)]] for s in slots}
    count = len(numbers)
    above: list[dict[int, float]] = [{} for _ in range(count)]
    below: list[dict[int, float]] = [{} for _ in range(count)]
    for column in columns:
        for upper, lower in pairwise(column):
            a, b = of[id(upper)], of[id(lower)]
            apart = reach(upper)[1] - reach(lower)[0] + gap + offset[id(upper)] - offset[id(lower)]
            if a != b:
                above[b][a] = max(above[b].get(a, apart), apart)
                below[a][b] = max(below[a].get(b, apart), apart)
    order = _topological(above, below)
    high = [0.0] * count
    for b in order:
        high[b] = max((high[a] + d for a, d in above[b].items()), default=0.0)
    floor = max(high, default=0.0)
    low = [floor] * count
    for b in reversed(order):
        low[b] = min((low[c] - d for c, d in below[b].items()), default=floor)
    y = [(a + b) / 2 for a, b in zip(high, low, strict=True)]
    pulls: list[list[tuple[int, float, float]]] = [[] for _ in range(count)]
    for slot in slots:
        b = of[id(slot)]
        for maker, out, k in slot.joins():
            a = of[id(maker)]
            if a == b:
                continue
            shift = offset[id(maker)] + leaving(maker, out) - offset[id(slot)] - entering(slot, k)
            weight = 4.0 if slot.cell < 0 else 1.0
            pulls[b].append((a, shift, weight))
            pulls[a].append((b, -shift, weight))
    for turn in range(_ROUNDS):
        for b in order if turn % 2 else reversed(order):
            if not pulls[b]:
                continue
            wanted = sum(w * (y[a] + s) for a, s, w in pulls[b]) / sum(w for _, _, w in pulls[b])
            least = max((y[a] + d for a, d in above[b].items()), default=wanted)
            most = min((y[c] - d for c, d in below[b].items()), default=wanted)
            y[b] = min(max(wanted, least), most) if least <= most else y[b]
    _straighten(y, pulls, above, below)
    return {id(s): y[of[id(s)]] + offset[id(s)] for s in slots}


def _straighten(
    y: list[float],
    pulls: Sequence[Sequence[tuple[int, float, float]]],
    above: Sequence[Mapping[int, float]],
    below: Sequence[Mapping[int, float]],
) -> None:
    """Moves blocks that are nearly level with a joined one until they are level, where there is room, in place.

    The nearest come first; a block that another is level with stays.
    """
    near = sorted(
        (abs(y[a] + shift - y[b]), b, a, shift)
        for b, of_block in enumerate(pulls)
        for a, shift, _ in of_block
        if 1e-9 < abs(y[a] + shift - y[b]) < _KINK
    )
    kept = {b for b, of_block in enumerate(pulls) for a, shift, _ in of_block if abs(y[a] + shift - y[b]) <= 1e-9}
    for _, b, a, shift in near:
        at = y[a] + shift
        free = all(y[c] + d <= at for c, d in above[b].items()) and all(at <= y[c] - d for c, d in below[b].items())
        if b not in kept and free:
            y[b] = at
            kept |= {a, b}


def _align(
    columns: Sequence[Sequence[Slot]],
    main: Callable[[Slot], int | None],
    leaving: Callable[[Slot, int], float],
    entering: Callable[[Slot, int], float],
    block: dict[int, int],
    offset: dict[int, float],
) -> None:
    """Adds slots to the block of a slot of the previous column, in place."""
    for column in columns[1:]:
        passing: list[tuple[Slot, Slot, int, int]] = []
        mains: list[tuple[Slot, Slot, int, int]] = []
        for slot in column:
            joins = slot.joins()
            if slot.cell < 0:
                passing += [(maker, slot, out, k) for maker, out, k in joins[:1]]
                continue
            wanted = main(slot)
            mains += [(maker, slot, out, k) for maker, out, k in joins if k == wanted][:1]
        chosen = _increasing(passing)
        taken = {id(maker) for maker, *_ in chosen}
        for found in mains:
            maker, slot = found[0], found[1]
            if id(maker) in taken:
                continue
            place = bisect_left([c[1].index for c in chosen], slot.index)
            before = chosen[place - 1][0].index if place else -1
            after = chosen[place][0].index if place < len(chosen) else maker.index + 1
            if before < maker.index < after:
                chosen.insert(place, found)
                taken.add(id(maker))
        for maker, slot, out, k in chosen:
            block[id(slot)] = block[id(maker)]
            offset[id(slot)] = offset[id(maker)] + leaving(maker, out) - entering(slot, k)


def _increasing(pairs: list[tuple[Slot, Slot, int, int]]) -> list[tuple[Slot, Slot, int, int]]:
    """A longest list of joins no two of which cross or share a maker; the pairs are in the order of their readers."""
    ends: list[int] = []
    last: list[int] = []
    back: list[int] = []
    for k, (maker, *_) in enumerate(pairs):
        place = bisect_left(ends, maker.index)
        back.append(last[place - 1] if place else -1)
        if place == len(ends):
            ends.append(maker.index)
            last.append(k)
        else:
            ends[place], last[place] = maker.index, k
    found: list[tuple[Slot, Slot, int, int]] = []
    at = last[-1] if last else -1
    while at >= 0:
        found.append(pairs[at])
        at = back[at]
    return found[::-1]


def _topological(above: Sequence[dict[int, float]], below: Sequence[dict[int, float]]) -> list[int]:
    """The blocks in topological order, each after those above it."""
    waiting = [len(a) for a in above]
    ready = [b for b, n in enumerate(waiting) if not n]
    order: list[int] = []
    for b in ready:
        order.append(b)
        for c in below[b]:
            waiting[c] -= 1
            if not waiting[c]:
                ready.append(c)
    return order
