"""The same tasks in this library and in others of the field, each in the ways that it offers.

A module has `WAYS`: for a task (`build`, `compare`, `differ`, `rewrite`, `evaluate`) and a shape (`chain`, `layers`)
the ways to do it, each a function of the number of boxes that makes what is needed and gives the function to be
measured; `worker.py` checks what that returns.

- `chain`: n boxes x → x in sequence, of ten kinds.
- `layers`: n boxes x ⊗ x → x ⊗ x of ten kinds on 20 wires, in layers of 10 and 9 by turns, as bricks in a wall.
- `build`: from boxes to a diagram that can be read.
- `compare`: two that were built apart and are equal; `differ`: two that differ in the last box.
- `rewrite`: each box is replaced by two in sequence.
- `evaluate`: each box is a function of a number, `v + 1`, and the diagram of functions is run.
"""

from collections.abc import Sequence
from typing import Any

WIDTH = 20
KINDS = 10


def rows(n: int) -> list[list[int]]:
    """Layers: for each row the first wires of its boxes; n boxes in all, the last row cut short."""
    made: list[list[int]] = []
    count = 0
    while count < n:
        start = len(made) % 2
        row = list(range(start, WIDTH - 1, 2))[: n - count]
        made.append(row)
        count += len(row)
    return made


def chained(kinds: Sequence[Any], n: int) -> Any:
    """n boxes in sequence, composed one after the other."""
    diagram = kinds[0]
    for k in range(1, n):
        diagram = diagram >> kinds[k % KINDS]
    return diagram


def halved(kinds: Sequence[Any], n: int) -> Any:
    """n boxes in sequence, composed in pairs, then pairs of pairs."""
    parts = [kinds[k % KINDS] for k in range(n)]
    while len(parts) > 1:
        odd = parts[len(parts) - len(parts) % 2 :]
        parts = [f >> g for f, g in zip(parts[::2], parts[1::2])] + odd
    return parts[0]
