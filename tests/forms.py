"""Streamed and grouped forms of the library's operators: what many tests take, found once in a process, not proved."""

from __future__ import annotations

from functools import cache

import catdiag as cd
from catdiag.rewrite import group, skip
from catdiag.rewrite.split import in_parts
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


def unproved(
    program: cd.category.Diagram, stream: str | None, tiles: str = "", *, skips: str = "", parts: str = ""
) -> cd.category.Diagram:
    """A program streamed along an axis, in parts of an axis, grouped by axes and without blocks that a mask empties, as
    far as these are given.

    Without the theorem: for tests of what is written, counted or planned of it.

    >>> found = cd.library.get("causal_attention").stream("x").group("q").skip("x")
    >>> unproved(cd.library.get("causal_attention").diagram, "x", "q", skips="x") == found.diagram
    True
    """
    found = fold_search.find(program, stream).diagram if stream else program
    found = in_parts(found, parts) if parts else found
    found = group.find(found, tiles.split()) if tiles else found
    return skip.find(found, skips) if skips else found
