"""Streamed and grouped forms of the library's operators: what many tests take, found once in a process, not proved."""

from __future__ import annotations

from functools import cache

import catdiag as cd
from catdiag.rewrite import group
from catdiag.rewrite.stream import fold_search


@cache
def form(operator: str, stream: str | None = None, tiles: str = "") -> cd.category.Diagram:
    """An operator streamed along an axis and grouped by axes: what `.stream(…).group(…)` derive, without the theorem.

    >>> form("attention", "x", "q") == cd.library.get("attention").stream("x").group("q").diagram
    True
    """
    diagram = cd.library.get(operator).diagram
    streamed = fold_search.find(diagram, stream).diagram if stream else diagram
    return group.find(streamed, tiles.split()) if tiles else streamed
