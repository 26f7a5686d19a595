"""Which arrays a derived diagram holds along a whole axis on chip.

A stream is there so that the memory on chip does not grow with the axis: blocks of it come and go. Where a kernel holds
an array along all of the axis (what is read at computed positions, or next to what is summed; a product over all
elements before one; two arrays put together), it is a loop in name only. That is read off the walk along the order of
boxes that counts the memory: of every array that is live at some time, which axes it has there.
"""

from __future__ import annotations

from functools import partial

from catdiag.category.diagram import Diagram, inline
from catdiag.category.integer_polynomial import IntPolynomial
from catdiag.category.types import Axis, size_symbols
from catdiag.rewrite.group import find, groupable
from catdiag.rewrite.steps import WholeArrays
from catdiag.rewrite.stream.fold_search import axis_of
from catdiag.schedule.element_widths import Widths
from catdiag.schedule.kernel_analysis import measure
from catdiag.schedule.liveness import Buffer, LivenessWalk, LoweredKernel, Within
from catdiag.schedule.placement import Placement
from catdiag.util.errors import CatdiagError


class _Watch(LivenessWalk):
    """A walk that tells which arrays are live at some time."""

    def __init__(
        self, seen: list[Buffer], kernel: LoweredKernel, widths: Widths, places: Placement, within: Within | None = None
    ) -> None:
        super().__init__(kernel, widths, places, within)
        self.found = seen

    def add(self, buffer: Buffer) -> None:
        self.found.append(buffer)
        super().add(buffer)


def whole_arrays(streamed: Diagram, source: Diagram, axis: str) -> WholeArrays:
    """The arrays that a streamed form of a diagram holds along all of the axis, however the results are grouped.

    >>> import catdiag as cd
    >>> later = cd.algorithm("x ->", name="later")(lambda a: cd.sum(a * cd.reverse(a, "x"), "x"))
    >>> print(whole_arrays(later.stream("x").diagram, later, "x"))
    a, view[x → x] [x] are on chip along all of axis 'x', and memory grows with it
    >>> attention = cd.library.get("attention")
    >>> bool(whole_arrays(attention.stream("x").diagram, attention, "x"))
    False
    """
    seen: list[Buffer] = []
    try:
        names = groupable(streamed)
        measure(find(streamed, names) if names else streamed, walks=partial(_Watch, seen))
    except CatdiagError:  # what is not counted is not known to be held
        return WholeArrays(axis)
    whole = axis_of(inline(source), axis)
    found: dict[str, str] = {}
    for buffer in seen:
        own = next((a.name for a in buffer.axes if _is_whole(a, whole)), None)
        # Of what is read in place, what lies around a tile: all of the axis where that is what its amount says.
        part = buffer.region and not size_symbols(whole.size) <= set(buffer.size.symbols())
        if own is not None and buffer.role != "streamed" and not part:
            found[buffer.name] = axis if axis in (own, found.get(buffer.name)) else own
    return WholeArrays(axis, tuple(found.items()))


def _is_whole(own: Axis, axis: Axis) -> bool:
    """Whether an axis on chip is all of another, or one of its size: the same under another name."""
    same = IntPolynomial.of(own.size) == IntPolynomial.of(axis.size)
    return same and (own.name == axis.name or bool(size_symbols(axis.size)))
