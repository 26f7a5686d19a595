"""In which tree the states of consecutive blocks are merged: from left to right, balanced, or drawn by lot."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from random import Random
from typing import TypeVar

from catdiag.util.errors import CatdiagError

S = TypeVar("S")


def dealt(blocks: Sequence[S], parts: int) -> list[Sequence[S]]:
    """Blocks in order, dealt out as evenly as possible to so many parts; empty parts are dropped.

    >>> dealt("abcde", 3), dealt("ab", 3)
    (['a', 'bc', 'de'], ['a', 'b'])
    """
    ends = [k * len(blocks) // parts for k in range(parts + 1)]
    return [blocks[start:stop] for start, stop in pairwise(ends) if stop > start]


@dataclass
class Tree:
    """The order in which neighboring states are merged: left to right, in a balanced tree, or at random."""

    random: Random | None = None
    balanced: bool = False

    @staticmethod
    def of(tree: str | int | Random | None) -> Tree | None:
        """The order for the argument `tree` of `run`. Raises CatdiagError for any other value."""
        if tree is None:
            return None
        if tree == "balanced":
            return Tree(balanced=True)
        if isinstance(tree, Random):
            return Tree(tree)
        if isinstance(tree, int) and not isinstance(tree, bool):
            return Tree(Random(tree))
        raise CatdiagError(f"tree is {tree!r}: expected 'balanced', the seed of a random tree, or a random.Random")

    def merged(self, states: Sequence[S], merge: Callable[[S, S], S]) -> S:
        """All states merged into one; only neighbors are merged.

        >>> Tree(balanced=True).merged(list("abcde"), "({}{})".format)
        '(((ab)(cd))e)'
        """
        waiting = list(states)
        while len(waiting) > 1:
            if self.balanced:
                pairs = [waiting[k : k + 2] for k in range(0, len(waiting), 2)]
                waiting = [merge(*pair) if len(pair) == 2 else pair[0] for pair in pairs]
                continue
            place = self.random.randrange(len(waiting) - 1) if self.random else 0
            waiting[place : place + 2] = [merge(waiting[place], waiting[place + 1])]
        return waiting[0]
