"""Words in lines of bounded width: of notes, pictures, and generated source."""

from __future__ import annotations

from collections.abc import Callable, Iterable


def filled(words: Iterable[str], width: float, between: str = " ", measure: Callable[[str], float] = len) -> list[str]:
    """Words in as few lines as there are when each line takes all that it has room for, in the unit of `measure`
    (characters). `between` stands between two words, and at the end of a line its spaces are left out. A word that is
    wider than a line has one of its own; no words are no lines.

    >>> filled(["start: a = 0", "b = 0", "c = 0"], 20, ", ")
    ['start: a = 0, b = 0,', 'c = 0']
    """
    lines: list[str] = []
    for word in words:
        longer = f"{lines[-1]}{between}{word}" if lines else word
        if not lines or (lines[-1] and measure(longer) > width):
            lines[-1:] = [f"{lines[-1]}{between.rstrip()}", word] if lines else [word]
        else:
            lines[-1] = longer
    return lines
