"""Arrays that a derived diagram keeps on chip along a whole axis, instead of block by block.

Streaming is meant to make on-chip memory independent of the axis. It does not if a kernel keeps an array along the
whole axis: one that is read at computed positions next to what is summed, an intermediate product, or a concatenation.
These arrays are read off the statements of the lowered kernels: for each buffer that is allocated at some point, the
axes that it has there.
"""

from __future__ import annotations

from collections.abc import Iterable

from catdiag.category.diagram import Diagram
from catdiag.category.integer_polynomial import IntPolynomial
from catdiag.category.substitution import inline
from catdiag.category.types import Axis, size_symbols
from catdiag.rewrite.group import find, groupable
from catdiag.rewrite.steps import WholeArrays
from catdiag.rewrite.stream.fold_search import axis_of
from catdiag.schedule.kernel_analysis import measure
from catdiag.schedule.lowered_kernel import LoweredKernel
from catdiag.util.errors import CatdiagError


def whole_arrays(streamed: Diagram, source: Diagram, axis: str) -> WholeArrays:
    """The arrays that a streamed form of a diagram keeps on chip along the whole axis, however its results are grouped.

    >>> import catdiag as cd
    >>> later = cd.algorithm("x ->", name="later")(lambda a: cd.sum(a * cd.reverse(a, "x"), "x"))
    >>> print(whole_arrays(later.stream("x").diagram, later, "x"))
    a, view[x → x] [x] are on chip along all of axis 'x', and memory grows with it
    >>> attention = cd.library.get("attention")
    >>> bool(whole_arrays(attention.stream("x").diagram, attention, "x"))
    False
    """
    try:
        names = groupable(streamed)
        kernels = measure(find(streamed, names) if names else streamed).kernels
    except CatdiagError:  # a diagram without costs: nothing is known
        return WholeArrays(axis)
    return retained_arrays(kernels, axis_of(inline(source), axis))


def retained_arrays(kernels: Iterable[LoweredKernel], whole: Axis) -> WholeArrays:
    """The arrays that lowered kernels keep on chip along a whole axis.

    >>> import catdiag as cd
    >>> total = cd.algorithm("x ->")(lambda a: cd.sum(a, "x"))
    >>> retained_arrays(measure(total.diagram).kernels, total.diagram.dom[0].axes[0]).arrays
    (('a', 'x'),)
    """
    axis, found = whole.name, dict[str, str]()
    for buffer in (buffer for kernel in kernels for buffer in kernel.allocated()):
        own = next((a.name for a in buffer.axes if _is_whole(a, whole)), None)
        # An access region counts only if its size depends on the size of the axis.
        part = buffer.region and not size_symbols(whole.size) <= set(buffer.size.symbols())
        if own is not None and buffer.role != "streamed" and not part:
            found[buffer.name] = axis if axis in (own, found.get(buffer.name)) else own
    return WholeArrays(axis, tuple(found.items()))


def _is_whole(own: Axis, axis: Axis) -> bool:
    """Whether an axis on chip is the whole axis, or another axis of the same symbolic size."""
    same = IntPolynomial.of(own.size) == IntPolynomial.of(axis.size)
    return same and (own.name == axis.name or bool(size_symbols(axis.size)))
