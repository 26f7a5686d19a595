"""Sums at computed positions under `@cd.algorithm`, the transposes of gathers."""

from __future__ import annotations

from catdiag.frontend.builder import index
from catdiag.frontend.builder import sum as sum_over
from catdiag.frontend.elementwise import equal, where
from catdiag.frontend.tracing import Operand, Traced, running
from catdiag.util.errors import TypeMismatch


def scatter_add(array: Operand, axes: str, indices: Operand, along: str) -> Traced:
    """The sums of an array's elements at the positions along an axis that an array of integers says:
    `scatter_add(G, "t", ids, "v")` is `R[v,d] = Σ_t where(v = ids[t], G[t,d], 0)`, the transpose of `gather`.

    `axes` are summed over. `along` is an axis of the algorithm, or a new one with its size, `"v=100"`; the result has
    it first. Elements at positions that are not on it are dropped. In groups of the axes that are summed over, each
    element may be added where it belongs: `.group("t d", scatter=True)`, which `plan` tries by itself.

    >>> import catdiag as cd
    >>> rows = cd.algorithm("int[t], t d")(lambda ids, G: cd.scatter_add(G, "t", ids, "v=3"))
    >>> rows([2, 0, 2, 7], [[1, 2], [3, 4], [5, 6], [7, 8]]).tolist()
    [[3.0, 4.0], [0.0, 0.0], [6.0, 8.0]]

    Raises AxisError for an axis that the array lacks, or of which no size is known; TypeMismatch for indices that are
    no integers.
    """
    at = running().lift(indices, element="int")
    if at.type.element != "int":
        raise TypeMismatch(
            f"scatter_add takes integers as positions, not {at.type}: use cd.floor, or int[…] for an input"
        )
    return sum_over(where(equal(index(along), at), array, 0), axes)
