"""Orders of stages in which each comes after all that it reads: kernels are of stages that follow each other."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Literal, TypeAlias

StageOrder: TypeAlias = Literal["stored", "depth", "pointwise"]
"""As the program has them; depth first; and with pointwise stages first."""


def depth_first(reads: Sequence[Sequence[int]], ends: Iterable[int]) -> list[int]:
    """The order in which a search from the ends, depth first, has all that stages read. `reads` are the stages that
    each one reads, and an end below 0 is none.

    >>> depth_first([[], [], [0], [1], [2, 3]], [4])
    [0, 2, 1, 3, 4]
    """
    order: dict[int, None] = {}
    stack = [k for k in reversed([*dict.fromkeys(ends), *range(len(reads))]) if k >= 0]
    while stack:
        waits = [m for m in reads[stack[-1]] if m not in order]
        if waits:
            stack.append(waits[0])
        else:
            order[stack.pop()] = None
    return list(order)


def pointwise_first(reads: Sequence[Sequence[int]], pointwise: Sequence[bool]) -> list[int]:
    """The order that takes, of the stages of which all that they read is made, a pointwise one first: what reads the
    result of one product comes before another product, and what reads nothing that is made comes after such a one.

    >>> pointwise_first([[], [], [1], [0, 2], [2]], [True, False, True, False, True])
    [1, 2, 0, 4, 3]
    """
    order: list[int] = []

    def rank(k: int) -> tuple[int, int]:
        follows = bool(reads[k]) or (bool(order) and pointwise[order[-1]])
        return (0 if follows else 2) if pointwise[k] else 1, k

    while len(order) < len(reads):
        ready = (k for k in range(len(reads)) if k not in order and all(m in order for m in reads[k]))
        order.append(min(ready, key=rank))
    return order
