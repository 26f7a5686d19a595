"""Masks of blocks at the end of an axis: where they are left out.

A loop over blocks runs whole blocks and those at an edge apart, so that whole blocks need no mask. The copy engine of a
chip fills what is outside of an array with zeros: where it loads all blocks of a loop, and zeros change nothing, none
needs a mask, and the loop is not divided.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from catdiag.codegen.syntax import Logical, Parens, PythonExpression
from catdiag.util.errors import TypeMismatch


@dataclass(eq=False)
class EdgeMasks:
    """What loops over blocks of one axis do at its end: whether a mask is written that whole blocks do not need, and
    the names of the descriptors by which blocks are loaded that are filled with zeros."""

    masked: bool = False
    filled: dict[str, None] = field(default_factory=dict)

    @property
    def zero_filled(self) -> tuple[str, ...]:
        """The descriptors that have to be there, so that no mask is needed; none where some mask is."""
        return () if self.masked else tuple(self.filled)


def unmasked_where(
    given: PythonExpression | None, loop: Any, inner: bool = False, descriptor: str = ""
) -> PythonExpression:
    """The constant expression under which a mask is not needed: in a phase of whole blocks, or if `given` holds.

    With `inner`, it stands beside others, and a disjunction is in parentheses. The mask is noted at the loop: that of a
    load in the place of a `descriptor` is not needed where there is that. Raises TypeMismatch for a mask of no loop
    that has no such condition.
    """
    if loop is None or given is None:
        found = given if loop is None else loop.exact
        if not isinstance(found, PythonExpression):
            raise TypeMismatch("a mask has no condition under which it is left out: expected that of its dimension")
        return found
    if descriptor:
        loop.edge.filled[descriptor] = None
    else:
        loop.edge.masked = True
    either = Logical("or", (loop.exact, given))
    return Parens(either) if inner else either
