"""Choices read from bytes: the same bytes make the same choices, and more bytes make more of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

T = TypeVar("T")


class Source:
    """Bytes taken one after another; 0 where there are no more.

    >>> source = Source(bytes([7, 1, 2]))
    >>> source.below(5), source.choice("abc"), source.left, source.below(9), source.below(9)
    (2, 'b', 1, 2, 0)
    """

    def __init__(self, data: bytes) -> None:
        self.data, self.at = data, 0

    @property
    def left(self) -> int:
        """Bytes that were not taken yet."""
        return len(self.data) - self.at

    def byte(self) -> int:
        """The next byte."""
        if self.at >= len(self.data):
            return 0
        self.at += 1
        return self.data[self.at - 1]

    def below(self, n: int) -> int:
        """A natural number below n; of one byte where n is at most 256."""
        number, most = self.byte(), 256
        while most < n:
            number, most = number * 256 + self.byte(), most * 256
        return number % n

    def choice(self, items: Sequence[T]) -> T:
        """One of several."""
        return items[self.below(len(items))]

    def rest(self) -> bytes:
        """All that was not taken yet."""
        found, self.at = self.data[self.at :], len(self.data)
        return found
