"""The order in which a product of several factors, summed over indices, is made of products of two."""

from __future__ import annotations

import math
from functools import cache


@cache
def pairwise_order(
    arrays: tuple[frozenset[int], ...], result: frozenset[int], lengths: tuple[int, ...], units: tuple[int, ...] = ()
) -> tuple[int, tuple[tuple[int, int], ...]]:
    """The fewest multiplications, and the pairs of factors (as bit sets) to contract, in order.

    Of orders with as many, the one whose arrays between are smaller. A factor is summed first over what it alone has.
    Only orders are considered in which the factors of each of `units` (bit sets) are contracted with each other before
    others. `arrays` are the indices of each factor, `result` those that are not summed over, `lengths` their sizes.

    >>> chain = frozenset((0, 1)), frozenset((1, 2)), frozenset((2, 3))
    >>> pairwise_order(chain, frozenset((0, 3)), (2, 3, 4, 5))
    (64, ((1, 2), (3, 4)))
    >>> pairwise_order(chain, frozenset((0, 3)), (2, 3, 4, 5), (0b110,))
    (90, ((2, 4), (1, 6)))
    """
    count = len(arrays)
    everything = (1 << count) - 1

    def volume(axes: frozenset[int]) -> int:
        return math.prod(lengths[n] for n in axes)

    kept: list[frozenset[int]] = []
    for taken in range(everything + 1):
        own = frozenset[int]().union(*(a for k, a in enumerate(arrays) if taken >> k & 1))
        kept.append(own & result.union(*(a for k, a in enumerate(arrays) if not taken >> k & 1)))
    best: dict[int, tuple[int, int, int]] = {}
    for k, own in enumerate(arrays):
        best[1 << k] = volume(own) if kept[1 << k] != own else 0, 0, 0
    # By number of bits, so that subsets come first; of equally good splits the first is taken.
    for taken in sorted(range(1, everything + 1), key=lambda t: (t.bit_count(), t)):
        if taken in best or any(taken & unit not in (0, unit, taken) for unit in units):
            continue
        lowest, options, part = taken & -taken, list[tuple[int, int, int, int]](), (taken - 1) & taken
        while part:
            rest = taken ^ part
            if part & lowest and part in best and rest in best:
                work = best[part][0] + best[rest][0] + volume(kept[part] | kept[rest])
                between = best[part][1] + best[rest][1] + volume(kept[taken])
                shorter = min(part.bit_count(), rest.bit_count()) if units else 0  # scales are applied one by one
                options.append((work, between, shorter, part))
            part = (part - 1) & taken
        work, between, _, part = min(options)
        best[taken] = work, between, part
    pairs: list[tuple[int, int]] = []
    todo = [everything]
    while todo:
        taken = todo.pop()
        part = best[taken][2]
        if part:
            pairs.append((part, taken ^ part))
            todo += [part, taken ^ part]
    return best[everything][0], tuple(sorted(pairs, key=lambda p: ((p[0] | p[1]).bit_count(), p)))
